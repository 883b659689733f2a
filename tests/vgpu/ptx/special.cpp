// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>

namespace stepfuse::vgpu {
namespace {

constexpr uint32_t kMultiprocessors = 4;

struct SpecialRow {
  std::string_view name;
  uint8_t bytes;
  uint32_t (*value)(const Warp& warp, uint32_t lane);
};

const Launch& launch(const Warp& w) { return w.state->launch; }

// PTX ISA "Special Registers". Those that tell time are instructions of their own: see move.cpp.
constexpr SpecialRow kSpecials[] = {
    {"%tid.x", 4, [](const Warp& w, uint32_t lane) { return thread_id(w, lane).x; }},
    {"%tid.y", 4, [](const Warp& w, uint32_t lane) { return thread_id(w, lane).y; }},
    {"%tid.z", 4, [](const Warp& w, uint32_t lane) { return thread_id(w, lane).z; }},
    {"%ntid.x", 4, [](const Warp& w, uint32_t) { return launch(w).block.x; }},
    {"%ntid.y", 4, [](const Warp& w, uint32_t) { return launch(w).block.y; }},
    {"%ntid.z", 4, [](const Warp& w, uint32_t) { return launch(w).block.z; }},
    {"%ctaid.x", 4, [](const Warp& w, uint32_t) { return w.block->id.x; }},
    {"%ctaid.y", 4, [](const Warp& w, uint32_t) { return w.block->id.y; }},
    {"%ctaid.z", 4, [](const Warp& w, uint32_t) { return w.block->id.z; }},
    {"%nctaid.x", 4, [](const Warp& w, uint32_t) { return launch(w).grid.x; }},
    {"%nctaid.y", 4, [](const Warp& w, uint32_t) { return launch(w).grid.y; }},
    {"%nctaid.z", 4, [](const Warp& w, uint32_t) { return launch(w).grid.z; }},
    {"%laneid", 4, [](const Warp&, uint32_t lane) { return lane; }},
    {"%warpid", 4, [](const Warp& w, uint32_t) { return w.index; }},
    {"%nwarpid", 4, [](const Warp&, uint32_t) { return 64U; }},
    {"%smid", 4, [](const Warp& w, uint32_t) { return static_cast<uint32_t>(w.block->linear % kMultiprocessors); }},
    {"%nsmid", 4, [](const Warp&, uint32_t) { return kMultiprocessors; }},
    {"%gridid", 8, [](const Warp&, uint32_t) { return 1U; }},
    {"%lanemask_eq", 4, [](const Warp&, uint32_t lane) { return 1U << lane; }},
    {"%lanemask_lt", 4, [](const Warp&, uint32_t lane) { return (1U << lane) - 1; }},
    {"%lanemask_le", 4, [](const Warp&, uint32_t lane) { return (2U << lane) - 1; }},
    {"%lanemask_gt", 4, [](const Warp&, uint32_t lane) { return ~((2U << lane) - 1); }},
    {"%lanemask_ge", 4, [](const Warp&, uint32_t lane) { return ~((1U << lane) - 1); }},
    {"%dynamic_smem_size", 4, [](const Warp& w, uint32_t) { return launch(w).dynamic_shared_bytes; }},
    {"%total_smem_size", 4, [](const Warp& w, uint32_t) { return static_cast<uint32_t>(w.block->shared.size()); }},
    // A launch without clusters has clusters of one block.
    {"%cluster_ctarank", 4, [](const Warp&, uint32_t) { return 0U; }},
    {"%cluster_nctarank", 4, [](const Warp&, uint32_t) { return 1U; }},
};

}  // namespace

RegisterRef Frame::special(const std::string& name) {
  if (const auto known = special_offsets_.find(name); known != special_offsets_.end()) return known->second;
  const auto* row = std::find_if(std::begin(kSpecials), std::end(kSpecials),
                                 [&](const SpecialRow& candidate) { return candidate.name == name; });
  if (row == std::end(kSpecials)) return {};
  const RegisterRef place{reserve(row->bytes * kLanes), row->bytes};
  const bool by_lane = name.starts_with("%tid") || name.starts_with("%lane");
  specials_.push_back({row->value, place.offset, row->bytes, !by_lane});
  special_offsets_[name] = place;
  return place;
}

Dim3 thread_id(const Warp& warp, uint32_t lane) {
  const Dim3& block = warp.state->launch.block;
  const uint32_t linear = warp.index * kLanes + lane;
  return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

}  // namespace stepfuse::vgpu
