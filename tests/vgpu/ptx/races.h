// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/program.h"
#include "tests/vgpu/ptx/warp.h"

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace stepfuse::vgpu {

/// Looks for two threads that touch one place, one of them writing, with nothing that orders them: in shared memory
/// between warps and between lanes of a warp, in global memory between warps of the grid. Barriers order, and so do
/// strong accesses to one place (atomic, volatile, ...) with a fence before the one and after the other, or with release
/// and acquire. Happens-before by vector clocks of warps.
class RaceDetector {
 public:
  RaceDetector();
  ~RaceDetector();
  void start_block(Block& block);
  void barrier(Block& block, const std::vector<uint32_t>& warp_lanes);
  void warp_barrier(Warp& warp, uint32_t mask);
  void fence(Warp& warp, bool for_other_blocks);
  void shared(Warp& warp, uint32_t lane, uint64_t offset, size_t bytes, bool write, const Ordering& ordering);
  void global(Warp& warp, uint32_t lane, uint64_t address, size_t bytes, bool write, const Ordering& ordering);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfuse::vgpu
