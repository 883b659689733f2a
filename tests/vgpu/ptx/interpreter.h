// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/warp.h"

#include <memory>
#include <vector>

namespace stepfuse::vgpu {

/// A small generator of its own, so that a seed means the same everywhere (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  uint32_t below(size_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }

 private:
  uint64_t state_;
};

/// Runs a warp until it waits, ends, or its turn is over.
///
/// Each lane has a program counter of its own. Lanes at the same one run together; of several groups the one that is
/// furthest behind runs, so that lanes meet again where their ways join, and now and then another, so that a lane which
/// waits for its neighbour in a loop does not wait for ever.
class WarpRunner {
 public:
  WarpRunner(LaunchState& state, Random& random) : state_(state), ops_(state.program->ops.data()), random_(random) {}

  struct Turn {
    uint32_t instructions = 0;
    uint32_t switch_points = 0;
  };
  void run(Warp& warp, Turn turn);

 private:
  struct Group {
    uint32_t pc = 0;
    uint32_t lanes = 0;
    uint32_t limit = 0;  // where other lanes stand
  };

  static uint32_t runnable(const Warp& warp) { return warp.alive & ~warp.at_sync & ~warp.at_barrier; }
  Group choose(const Warp& warp);
  void run_group(Warp& warp, Group group, Turn& turn);
  static void run_op(Warp& warp, const Group& group, uint32_t mask, const Op& op);
  bool step(Warp& warp, Group& group, uint32_t mask, const Op& op);
  bool branch(Warp& warp, Group& group, uint32_t taken, uint32_t target);
  void sync(Warp& warp, const Group& group, uint32_t mask, const Op& op);
  bool complete_sync(Warp& warp);
  void run_sync(Warp& warp, uint32_t members);
  bool uniform_members(Warp& warp, uint32_t mask, const Op& op);

  LaunchState& state_;
  const Op* ops_;
  Random& random_;
};

// Barriers of a block: barrier.cpp.
void arrive(Warp& warp, uint32_t mask, const Op& op);
/// Lets go on whom a barrier holds no longer; called when lanes arrive or end.
bool release_barriers(Block& block);

/// Runs the grid of state.launch.
void run_grid(LaunchState& state);

}  // namespace stepfuse::vgpu
