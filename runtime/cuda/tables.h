// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/kernel_abi.h"
#include "codegen/lower_group.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

/// The tables that a fused launch walks on the device (codegen/cuda/kernel_abi.h), made on the host.
namespace stepfuse::runtime {

using DeviceAddress = uint64_t;

/// Where one member of a batch has its memory on the device.
struct MemberPlace {
  std::span<const DeviceAddress> inputs;  // by Graph::inputs(); 0 for scalars
  DeviceAddress scratch = 0;              // the lanes
  std::span<const int64_t> lane_offsets;  // bytes
  DeviceAddress scalars = 0;              // the group's slots
  DeviceAddress partials = 0;             // doubles, partial_count() of them
  DeviceAddress tickets = 0;              // ticket_count() of them
  DeviceAddress skip = 0;                 // a flag that forbids stores, or 0
  int64_t elements = 0;                   // of the parameter
};

/// First byte of a window.
DeviceAddress access_address(const compiler::GroupPlan& group, const MemberPlace& member,
                             const compiler::Access& access, ir::DType dtype);

/// Fills the member's row, CudaRowLayout::words long.
void write_row(const compiler::GroupPlan& group, const codegen::LoweredPhase& phase, const MemberPlace& member,
               std::span<uint64_t> row);

/// Whether the aligned kernel may serve this member.
bool is_aligned(const compiler::GroupPlan& group, const codegen::LoweredPhase& phase, const MemberPlace& member);

/// Chunks of one member with this domain.
int64_t chunk_count(const codegen::KernelSpec& spec, const std::array<int64_t, 3>& dims);
/// Appends the chunks of one member with this domain, in order.
void append_chunks(const codegen::KernelSpec& spec, const std::array<int64_t, 3>& dims, uint32_t row,
                   std::vector<codegen::CudaChunk>& chunks);

/// 4-byte tickets a member needs, all 0 between launches.
int64_t ticket_count(const codegen::KernelSpec& spec, const std::array<int64_t, 3>& dims);

}  // namespace stepfuse::runtime
