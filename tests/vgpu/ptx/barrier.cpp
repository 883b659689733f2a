// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/interpreter.h"
#include "tests/vgpu/ptx/races.h"

#include <algorithm>

namespace stepfuse::vgpu {
namespace {

// Op::immediate of a barrier: what it gives back.
enum Reduction : uint64_t { kNone, kPopc, kAnd, kOr };

uint32_t alive_threads(const Block& block) {
  uint32_t sum = 0;
  for (const Warp& warp : block.warps) sum += static_cast<uint32_t>(std::popcount(warp.alive));
  return sum;
}

void write_reduction(Warp& warp, uint32_t lanes_of, const Op& op, const Barrier& barrier) {
  if (op.immediate == kPopc) {
    std::array<uint32_t, kLanes> counts{};
    counts.fill(barrier.count);
    write_lanes(warp, op.d, lanes_of, counts.data());
  } else if (op.immediate != kNone) {
    const bool value = op.immediate == kAnd ? barrier.all : barrier.any;
    write_predicate(warp, op.d, lanes_of, value ? kAllLanes : 0);
  }
}

void release(Block& block, Barrier& barrier) {
  if (block.state->races) block.state->races->barrier(block, barrier.warp_lanes);
  for (Warp& warp : block.warps) {
    const uint32_t waiting = barrier.waiting[warp.index];
    for_lanes(waiting, [&](uint32_t lane) {
      write_reduction(warp, 1U << lane, warp.state->program->ops[warp.pc[lane]], barrier);
      ++warp.pc[lane];
    });
    warp.at_barrier &= ~waiting;
  }
  barrier = {};
}

bool complete(const Block& block, const Barrier& barrier) {
  if (barrier.arrived == 0) return false;
  return barrier.arrived >= (barrier.expected == 0 ? alive_threads(block) : barrier.expected);
}

// An aligned barrier holds a whole warp: PTX ISA "bar, barrier" leaves it undefined if its lanes stand elsewhere.
void check_aligned(Warp& warp, uint32_t mask, const Op& op) {
  if (!(op.flags & kAligned)) return;
  const uint32_t pc = warp.pc[static_cast<uint32_t>(std::countr_zero(mask))];
  for_lanes(warp.at_barrier, [&](uint32_t lane) {
    if (warp.pc[lane] != pc) {
      fault(warp, KernelFault::Kind::IllegalInstruction, "lanes of one warp wait at different aligned barriers");
    }
  });
}

void decode_barrier(Decoder& d, bool aligned) {
  d.take("cta");
  if (aligned || d.take("aligned")) d.op.flags |= kAligned;
  const std::string_view kind = d.take_any({"sync", "arrive", "red"});
  if (kind.empty()) d.fail("neither sync, arrive nor red");
  size_t next = 0;
  if (kind == "red") {
    const std::string_view reduction = d.take_any({"popc", "and", "or"});
    const Type type = d.take_type({Type::U32, Type::Pred});
    d.op.immediate = reduction == "popc" ? kPopc : reduction == "and" ? kAnd : kOr;
    if (reduction.empty() || (reduction == "popc") != (type == Type::U32)) d.fail("no such reduction");
    d.op.d = d.out(next++, type);
  }
  const size_t last = d.count() - (kind == "red" ? 1 : 0);
  if (last < next + 1 || last > next + 2) d.fail("a wrong number of operands");
  d.op.a = d.in(next++, Type::B32);
  if (next < last) {
    d.op.b = d.in(next++, Type::B32);
    d.op.flags |= kHasCount;
  }
  if (kind == "red") d.op.c = d.predicate_in(next);
  if (kind == "arrive") {
    d.op.flags |= kArriveOnly;
    if (!(d.op.flags & kHasCount)) d.fail("bar.arrive needs a number of threads");
  }
  d.op.flow = Flow::Barrier;
  d.op.switches = true;
}

void decode_bar(Decoder& d) {
  if (d.take("warp")) {
    if (!d.take("sync")) d.fail("bar.warp without sync");
    d.expect_operands(1, 1);
    d.op.e = d.in(0, Type::B32);
    d.op.flow = Flow::WarpSync;
    d.op.run = [](Warp& warp, const Op&, uint32_t mask) {
      if (warp.state->races) warp.state->races->warp_barrier(warp, mask);
    };
    d.op.target = static_cast<uint32_t>(d.layout().program.sync_shapes.size());
    d.layout().program.sync_shapes.push_back({});
    return;
  }
  decode_barrier(d, true);
}

constexpr InstructionRow kRows[] = {
    {"bar", Family::Any, decode_bar},
    {"barrier", Family::Any, [](Decoder& d) { decode_barrier(d, false); }},
};

}  // namespace

std::span<const InstructionRow> barrier_instructions() { return kRows; }

void arrive(Warp& warp, uint32_t mask, const Op& op) {
  Block& block = *warp.block;
  check_aligned(warp, mask, op);
  for_lanes(mask, [&](uint32_t lane) {
    warp.lane = lane;
    const uint32_t id = lanes<uint32_t>(warp, op.a)[lane];
    if (id >= block.barriers.size()) fault(warp, KernelFault::Kind::IllegalInstruction, "a barrier above 15");
    Barrier& barrier = block.barriers[id];
    const uint32_t expected = op.flags & kHasCount ? lanes<uint32_t>(warp, op.b)[lane] : 0;
    if ((op.flags & kHasCount) && (expected == 0 || expected % kLanes != 0)) {
      fault(warp, KernelFault::Kind::IllegalInstruction, "a barrier's threads are no multiple of the warp's size");
    }
    if (barrier.arrived != 0 && barrier.expected != expected) {
      fault(warp, KernelFault::Kind::IllegalInstruction, "a barrier for different numbers of threads");
    }
    barrier.expected = expected;
    barrier.warp_lanes.resize(block.warps.size());
    barrier.waiting.resize(block.warps.size());
    barrier.warp_lanes[warp.index] |= 1U << lane;
    if (op.immediate != kNone) {
      const bool p = ((predicate(warp, op.c) >> lane & 1) != 0) != ((op.flags & kNegatePredicate) != 0);
      barrier.count += p;
      barrier.any |= p;
      barrier.all &= p;
    }
    ++barrier.arrived;
    if (op.flags & kArriveOnly) {
      ++warp.pc[lane];
    } else {
      warp.at_barrier |= 1U << lane;
      barrier.waiting[warp.index] |= 1U << lane;
    }
  });
  // Lanes that a short block lacks, or that have ended, count as present where a number of threads is given.
  if (op.flags & kHasCount && (op.flags & kAligned)) {
    const uint32_t id = lanes<uint32_t>(warp, op.a)[std::countr_zero(mask)];
    Barrier& barrier = block.barriers[id];
    const uint32_t here = barrier.warp_lanes[warp.index];
    if ((here & warp.alive) == warp.alive) barrier.arrived += kLanes - static_cast<uint32_t>(std::popcount(warp.alive));
  }
  release_barriers(block);
}

bool release_barriers(Block& block) {
  bool released = false;
  for (Barrier& barrier : block.barriers) {
    if (!complete(block, barrier)) continue;
    release(block, barrier);
    released = true;
  }
  return released;
}

}  // namespace stepfuse::vgpu
