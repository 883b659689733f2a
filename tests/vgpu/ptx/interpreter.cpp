// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/interpreter.h"

#include <algorithm>

namespace stepfuse::vgpu {
namespace {

constexpr uint32_t kNoLimit = 0xffffffff;

void set_pc(Warp& warp, uint32_t lanes_of, uint32_t pc) {
  for_lanes(lanes_of, [&](uint32_t lane) { warp.pc[lane] = pc; });
}

uint32_t guard_lanes(Warp& warp, const Op& op, uint32_t lanes_of) {
  if (!op.guarded) return lanes_of;
  const uint32_t p = predicate(warp, op.guard);
  return lanes_of & (op.guard_negated ? ~p : p);
}

// Copies one operand of a warp-wide instruction between a lane's own register and the scratch one.
void move_lane(Warp& warp, uint32_t from, uint32_t to, uint8_t bytes, uint32_t lane) {
  if (bytes == 1) {
    write_predicate(warp, to, 1U << lane, predicate(warp, from));
  } else if (bytes != 0) {
    std::memcpy(warp.registers + to + lane * bytes, warp.registers + from + lane * bytes, bytes);
  }
}

bool same_instruction(const Op& x, const Op& y) {
  return x.run == y.run && x.immediate == y.immediate && x.flags == y.flags && x.flow == y.flow;
}

}  // namespace

void WarpRunner::run(Warp& warp, Turn turn) {
  while (turn.instructions > 0 && turn.switch_points > 0) {
    while (complete_sync(warp)) {
    }
    if (runnable(warp) == 0) return;
    run_group(warp, choose(warp), turn);
  }
}

WarpRunner::Group WarpRunner::choose(const Warp& warp) {
  const uint32_t ready = runnable(warp);
  uint32_t chosen = kNoLimit;
  if (random_.below(16) == 0) {
    uint32_t skip = random_.below(static_cast<size_t>(std::popcount(ready)));
    for_lanes(ready, [&](uint32_t lane) { chosen = skip-- == 0 ? warp.pc[lane] : chosen; });
  } else {
    for_lanes(ready, [&](uint32_t lane) { chosen = std::min(chosen, warp.pc[lane]); });
  }
  Group group{chosen, 0, kNoLimit};
  for_lanes(ready, [&](uint32_t lane) {
    const uint32_t pc = warp.pc[lane];
    if (pc == chosen) group.lanes |= 1U << lane;
    if (pc > chosen) group.limit = std::min(group.limit, pc);
  });
  return group;
}

void WarpRunner::run_group(Warp& warp, Group group, Turn& turn) {
  // A group that is not alone must come to an end, or the others starve behind a loop.
  uint32_t budget = group.lanes == runnable(warp) ? turn.instructions : std::min(turn.instructions, 256U);
  uint64_t executed = 0;
  const auto threads = static_cast<uint64_t>(std::popcount(group.lanes));
  bool more = true;
  while (more && budget > 0) {
    const Op& op = ops_[group.pc];
    if (op.switches && --turn.switch_points == 0) {
      turn.switch_points = 0;
      break;
    }
    --budget;
    --turn.instructions;
    const uint32_t mask = guard_lanes(warp, op, group.lanes);
    ++executed;
    if (op.flow == Flow::Next) {
      if (mask != 0) run_op(warp, group, mask, op);
      ++group.pc;
    } else {
      more = step(warp, group, mask, op);
    }
    if (group.pc == group.limit) break;
  }
  if (more) set_pc(warp, group.lanes, group.pc);
  state_.instructions += executed * threads;
}

// The lanes' counters are kept with the group while it runs; a message needs them.
void WarpRunner::run_op(Warp& warp, const Group& group, uint32_t mask, const Op& op) {
  try {
    op.run(warp, op, mask);
  } catch (const KernelFault&) {
    set_pc(warp, group.lanes, group.pc);
    throw;
  }
}

// A change of flow. False: the lanes' counters are stored and another group may be chosen.
bool WarpRunner::step(Warp& warp, Group& group, uint32_t mask, const Op& op) {
  switch (op.flow) {
    case Flow::Branch:
      return branch(warp, group, mask, op.target);
    case Flow::Call:
      for_lanes(mask, [&](uint32_t lane) { lanes<uint32_t>(warp, op.d)[lane] = group.pc + 1; });
      return branch(warp, group, mask, op.target);
    case Flow::Return:
      set_pc(warp, group.lanes, group.pc + 1);
      for_lanes(mask, [&](uint32_t lane) { warp.pc[lane] = lanes<uint32_t>(warp, op.a)[lane]; });
      return false;
    case Flow::BranchTable: {
      const auto& table = warp.state->program->branch_tables[op.target];
      set_pc(warp, group.lanes, group.pc + 1);
      for_lanes(mask, [&](uint32_t lane) {
        const uint32_t index = lanes<uint32_t>(warp, op.a)[lane];
        warp.lane = lane;
        set_pc(warp, 1U << lane, group.pc);
        if (index >= table.size()) fault(warp, KernelFault::Kind::IllegalInstruction, "brx.idx beyond its table");
        warp.pc[lane] = table[index];
      });
      return false;
    }
    case Flow::Exit:
      set_pc(warp, group.lanes & ~mask, group.pc + 1);
      warp.alive &= ~mask;
      return false;
    case Flow::WarpSync:
      sync(warp, group, mask, op);
      return false;
    case Flow::Barrier:
      set_pc(warp, group.lanes & ~mask, group.pc + 1);
      set_pc(warp, mask, group.pc);
      if (mask != 0) arrive(warp, mask, op);
      return false;
    case Flow::Next:
      break;
  }
  return true;
}

bool WarpRunner::branch(Warp& warp, Group& group, uint32_t taken, uint32_t target) {
  if (taken == group.lanes) {
    const bool within = target > group.pc && target <= group.limit;
    group.pc = target;
    // Backwards, or past others: somebody else may be furthest behind now.
    if (within || group.limit == kNoLimit) return true;
    set_pc(warp, group.lanes, target);
    return false;
  }
  if (taken == 0) {
    ++group.pc;
    return true;
  }
  set_pc(warp, group.lanes & ~taken, group.pc + 1);
  set_pc(warp, taken, target);
  return false;
}

bool WarpRunner::uniform_members(Warp& warp, uint32_t mask, const Op& op) {
  const uint32_t* members = lanes<uint32_t>(warp, op.e);
  const uint32_t first = members[std::countr_zero(mask)];
  bool same = true;
  for_lanes(mask, [&](uint32_t lane) {
    same &= members[lane] == first;
    warp.lane = lane;
    if (!(members[lane] >> lane & 1)) {
      fault(warp, KernelFault::Kind::IllegalInstruction, "a lane that its own member mask does not name");
    }
  });
  return same && (first & warp.alive) == mask;
}

// PTX ISA "shfl.sync", "vote.sync", "bar.warp.sync": the lanes that the member mask names wait for each other, wherever
// in the program each comes to such an instruction.
void WarpRunner::sync(Warp& warp, const Group& group, uint32_t mask, const Op& op) {
  set_pc(warp, group.lanes & ~mask, group.pc + 1);
  set_pc(warp, mask, group.pc);
  if (mask == 0) return;
  if (uniform_members(warp, mask, op)) {
    op.run(warp, op, mask);
    set_pc(warp, mask, group.pc + 1);
  } else {
    warp.at_sync |= mask;
  }
}

bool WarpRunner::complete_sync(Warp& warp) {
  for (uint32_t rest = warp.at_sync; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const Op& op = ops_[warp.pc[lane]];
    const uint32_t wanted = lanes<uint32_t>(warp, op.e)[lane];
    bool all = true;
    for_lanes(wanted & warp.alive, [&](uint32_t other) {
      all &= (warp.at_sync >> other & 1) != 0 && lanes<uint32_t>(warp, ops_[warp.pc[other]].e)[other] == wanted;
    });
    if (!all) continue;
    for_lanes(wanted & warp.alive, [&](uint32_t other) {
      warp.lane = other;
      if (!same_instruction(ops_[warp.pc[other]], op)) {
        fault(warp, KernelFault::Kind::IllegalInstruction, "lanes of one member mask meet at different instructions");
      }
    });
    run_sync(warp, wanted & warp.alive);
    return true;
  }
  return false;
}

void WarpRunner::run_sync(Warp& warp, uint32_t members) {
  const Op& first = ops_[warp.pc[static_cast<uint32_t>(std::countr_zero(members))]];
  const SyncShape& shape = warp.state->program->sync_shapes[first.target];
  const uint32_t scratch = warp.state->program->scratch;
  constexpr uint32_t kSlot = 8 * kLanes;
  Op op = first;
  op.a = scratch;
  op.b = scratch + kSlot;
  op.c = scratch + 2 * kSlot;
  op.d = scratch + 3 * kSlot;
  op.d2 = scratch + 4 * kSlot;
  op.e = scratch + 5 * kSlot;
  for_lanes(members, [&](uint32_t lane) {
    const Op& own = ops_[warp.pc[lane]];
    move_lane(warp, own.a, op.a, shape.a, lane);
    move_lane(warp, own.b, op.b, shape.b, lane);
    move_lane(warp, own.c, op.c, shape.c, lane);
    move_lane(warp, own.e, op.e, 4, lane);
  });
  op.run(warp, op, members);
  for_lanes(members, [&](uint32_t lane) {
    const Op& own = ops_[warp.pc[lane]];
    move_lane(warp, op.d, own.d, shape.d, lane);
    move_lane(warp, op.d2, own.d2, shape.d2, lane);
    ++warp.pc[lane];
  });
  warp.at_sync &= ~members;
}

}  // namespace stepfuse::vgpu
