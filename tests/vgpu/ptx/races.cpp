// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/races.h"

#include <algorithm>

namespace stepfuse::vgpu {
namespace {

// Of each thing that runs, how much of the others it has seen.
using Clock = std::unordered_map<uint64_t, uint32_t>;

void join(Clock& into, const Clock& other) {
  for (const auto& [who, time] : other) {
    uint32_t& known = into[who];
    known = std::max(known, time);
  }
}

struct Access {
  uint64_t who = 0;  // a warp: of its block, or of the grid
  uint32_t time = 0;
  uint32_t lane = 0;
  uint32_t epoch = 0;   // of the warp, counted by bar.warp.sync
  bool strong = false;  // two of these are no race
};

// What is known of one byte: the last write, and since then one read of each warp.
struct Cell {
  bool written = false;
  Access write;
  std::vector<Access> reads;
};

struct Memory {
  std::unordered_map<uint64_t, Cell> cells;
  std::unordered_map<uint64_t, Clock> published;  // by strong writes of an address
};

// What a warp knows of the others.
struct View {
  Clock clock;
  Clock released;  // at its last fence: what its relaxed writes publish
  Clock seen;      // by its relaxed reads: known after its next fence
};

struct BlockState {
  std::vector<View> warps;  // of shared memory
  std::vector<View> warps_of_grid;
  std::vector<uint32_t> epochs;
  Memory shared;
};

constexpr uint64_t kWarpsOfBlock = 32;

uint64_t warp_of_grid(const Block& block, uint64_t warp) { return block.linear * kWarpsOfBlock + warp; }

// Each of them has seen all of them, and goes on. What one saw by relaxed reads stays unknown to all.
void meet(std::vector<View>& views, uint64_t first, const std::vector<uint32_t>& lanes) {
  Clock all;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] != 0) join(all, views[i].clock);
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == 0) continue;
    views[i].clock = all;
    ++views[i].clock[first + i];
  }
}

bool unordered(const Clock& clock, const Access& before, const Access& now, bool lanes_too) {
  if (before.strong && now.strong) return false;
  if (before.who != now.who) {
    const auto seen = clock.find(before.who);
    return seen == clock.end() || seen->second < before.time;
  }
  return lanes_too && before.lane != now.lane && before.epoch == now.epoch;
}

bool conflicts(Cell& cell, const Clock& clock, const Access& now, bool write, bool lanes_too) {
  // Two lanes of one warp that write one place usually do it in one instruction: one of them wins, no more.
  if (cell.written && unordered(clock, cell.write, now, lanes_too && !write)) return true;
  if (!write) {
    const auto mine = std::find_if(cell.reads.begin(), cell.reads.end(), [&](const Access& read) {
      return read.who == now.who && (!lanes_too || read.lane == now.lane);
    });
    if (mine == cell.reads.end()) {
      cell.reads.push_back(now);
    } else {
      *mine = now;
    }
    return false;
  }
  const bool read_before = std::any_of(cell.reads.begin(), cell.reads.end(),
                                       [&](const Access& read) { return unordered(clock, read, now, lanes_too); });
  cell.reads.clear();
  cell.written = true;
  cell.write = now;
  return read_before;
}

[[noreturn]] void race(const Warp& warp, const char* where, uint64_t address, bool write) {
  fault(warp, KernelFault::Kind::Race,
        std::string(write ? "a write to " : "a read of ") + where + " address " + std::to_string(address) +
            " that nothing orders with what another " + "thread did there");
}

}  // namespace

struct RaceDetector::Impl {
  std::unordered_map<const Block*, BlockState> blocks;
  Memory global;

  static bool touch(Memory& memory, View& view, Access now, const Ordering& ordering, uint64_t address, size_t bytes,
                    bool write, bool lanes_too);
};

RaceDetector::RaceDetector() : impl_(std::make_unique<Impl>()) {}
RaceDetector::~RaceDetector() = default;

void RaceDetector::start_block(Block& block) {
  BlockState& state = impl_->blocks[&block];
  state = {};
  state.warps.resize(block.warps.size());
  state.warps_of_grid.resize(block.warps.size());
  state.epochs.resize(block.warps.size());
  for (size_t i = 0; i < state.warps.size(); ++i) {
    state.warps[i].clock[i] = 1;
    state.warps_of_grid[i].clock[warp_of_grid(block, i)] = 1;
  }
}

void RaceDetector::barrier(Block& block, const std::vector<uint32_t>& warp_lanes) {
  BlockState& state = impl_->blocks.at(&block);
  meet(state.warps, 0, warp_lanes);
  meet(state.warps_of_grid, warp_of_grid(block, 0), warp_lanes);
  for (size_t i = 0; i < warp_lanes.size(); ++i) state.epochs[i] += warp_lanes[i] != 0 ? 1 : 0;
}

void RaceDetector::warp_barrier(Warp& warp, uint32_t mask) {
  static_cast<void>(mask);
  ++impl_->blocks.at(warp.block).epochs[warp.index];
}

void RaceDetector::fence(Warp& warp, bool for_other_blocks) {
  const auto pass = [](View& view, uint64_t who) {
    join(view.clock, view.seen);
    view.seen.clear();
    view.released = view.clock;
    ++view.clock[who];
  };
  BlockState& state = impl_->blocks.at(warp.block);
  pass(state.warps[warp.index], warp.index);
  if (for_other_blocks) pass(state.warps_of_grid[warp.index], warp_of_grid(*warp.block, warp.index));
}

bool RaceDetector::Impl::touch(Memory& memory, View& view, Access now, const Ordering& ordering, uint64_t address,
                               size_t bytes, bool write, bool lanes_too) {
  if (ordering.strong) join(ordering.acquires ? view.clock : view.seen, memory.published[address]);
  now.time = view.clock.at(now.who);
  for (uint64_t at = address; at < address + bytes; ++at) {
    if (conflicts(memory.cells[at], view.clock, now, write, lanes_too)) return true;
  }
  if (!ordering.strong || !write) return false;
  join(memory.published[address], ordering.releases ? view.clock : view.released);
  if (ordering.releases) ++view.clock[now.who];
  return false;
}

void RaceDetector::shared(Warp& warp, uint32_t lane, uint64_t offset, size_t bytes, bool write,
                          const Ordering& ordering) {
  BlockState& state = impl_->blocks.at(warp.block);
  const Access now{warp.index, 0, lane, state.epochs[warp.index], ordering.strong};
  if (Impl::touch(state.shared, state.warps[warp.index], now, ordering, offset, bytes, write, true)) {
    race(warp, "shared", offset, write);
  }
}

void RaceDetector::global(Warp& warp, uint32_t lane, uint64_t address, size_t bytes, bool write,
                          const Ordering& ordering) {
  // Lanes of a warp are not told apart here.
  View& view = impl_->blocks.at(warp.block).warps_of_grid[warp.index];
  const Access now{warp_of_grid(*warp.block, warp.index), 0, lane, 0, ordering.strong};
  if (Impl::touch(impl_->global, view, now, ordering, address, bytes, write, false)) {
    race(warp, "global", address, write);
  }
}

}  // namespace stepfuse::vgpu
