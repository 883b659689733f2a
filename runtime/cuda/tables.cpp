// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tables.h"

#include <algorithm>
#include <array>

namespace stepfuse::runtime {

using codegen::CudaChunk;
using codegen::CudaRowLayout;
using codegen::LoweredPhase;
using codegen::Scheme;
using compiler::Access;
using compiler::GroupPlan;

namespace {

int64_t pieces(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

/// How a phase is cut: units, chunks along the unit's first direction, and parts along the second (Cols).
struct Cut {
  int64_t units, chunks, parts;
};

Cut cut_of(const codegen::KernelSpec& spec, const std::array<int64_t, 3>& dims) {
  const auto [d0, d1, d2] = dims;
  // A unit without elements has one empty chunk where a reduction still wants a result.
  const int64_t least = spec.reductions.empty() ? 0 : 1;
  switch (spec.scheme) {
    case Scheme::Linear:
      return {d0, std::max(codegen::chunks_of(d1 * d2), least), 1};
    case Scheme::Rows:
      return {d0 * d1, std::max(codegen::chunks_of(d2), least), 1};
    case Scheme::Cols:
      return {d0, pieces(d2, codegen::kCudaColumns), std::max(codegen::chunks_of(d1), least)};
  }
  return {0, 0, 0};
}

}  // namespace

DeviceAddress access_address(const GroupPlan& group, const MemberPlace& member, const Access& access, ir::DType dtype) {
  const compiler::Slot slot = access.slot;
  const DeviceAddress base =
      slot.kind == compiler::Slot::Kind::Input
          ? member.inputs[slot.index]
          : member.scratch + static_cast<uint64_t>(member.lane_offsets[group.buffers[slot.index].lane]);
  return base + static_cast<uint64_t>(access.offset * ir::dtype_bytes(dtype));
}

void write_row(const GroupPlan& group, const LoweredPhase& phase, const MemberPlace& member, std::span<uint64_t> row) {
  const codegen::KernelSpec& spec = phase.spec;
  const CudaRowLayout layout = codegen::cuda_row_layout(spec);
  STEPFUSE_CHECK(row.size() == layout.words, "a row of {} words for {}, which takes {}", row.size(), spec.name,
                 layout.words);
  row[layout.scalars] = member.scalars + phase.first_scalar * sizeof(double);
  row[layout.skip] = member.skip;
  row[layout.tickets] = phase.reductions.empty() ? 0 : member.tickets;
  const auto dims = codegen::phase_dims(phase, member.elements);
  for (size_t d = 0; d < 3; ++d) row[layout.dims + d] = static_cast<uint64_t>(dims[d]);
  for (size_t k = 0; k < phase.args.size(); ++k) {
    row[layout.args + k] = access_address(group, member, phase.args[k], spec.args[k].dtype);
    for (size_t d = 0; d < 3 && layout.strides != 0; ++d)
      row[layout.strides + 3 * k + d] = static_cast<uint64_t>(spec.args[k].varies[d] ? phase.args[k].strides[d] : 0);
  }
  const codegen::ReductionLayout sums = codegen::reduction_layout(phase, member.elements);
  const auto partial_bytes = static_cast<uint64_t>(sums.results * sums.chunks) * sizeof(double);
  for (size_t r = 0; r < phase.reductions.size(); ++r) {
    row[layout.partials + 2 * r] = member.partials + r * partial_bytes;
    row[layout.partials + 2 * r + 1] = access_address(group, member, phase.reductions[r].to, phase.reductions[r].dtype);
  }
}

bool is_aligned(const GroupPlan& group, const LoweredPhase& phase, const MemberPlace& member) {
  std::vector<codegen::CudaArgumentPlace> places;
  for (size_t k = 0; k < phase.args.size(); ++k)
    places.push_back({access_address(group, member, phase.args[k], phase.spec.args[k].dtype), phase.args[k].strides});
  return codegen::cuda_aligned(phase.spec, codegen::phase_dims(phase, member.elements), places);
}

int64_t chunk_count(const codegen::KernelSpec& spec, const std::array<int64_t, 3>& dims) {
  const Cut cut = cut_of(spec, dims);
  return cut.units * cut.chunks * cut.parts;
}

void append_chunks(const codegen::KernelSpec& spec, const std::array<int64_t, 3>& dims, uint32_t row,
                   std::vector<CudaChunk>& chunks) {
  const Cut cut = cut_of(spec, dims);
  for (int64_t unit = 0; unit < cut.units; ++unit)
    for (int64_t part = 0; part < cut.parts; ++part)
      for (int64_t index = 0; index < cut.chunks; ++index)
        chunks.push_back({row, static_cast<uint32_t>(unit), static_cast<uint32_t>(index), static_cast<uint32_t>(part)});
}

int64_t ticket_count(const codegen::KernelSpec& spec, const std::array<int64_t, 3>& dims) {
  if (spec.reductions.empty()) return 0;
  const Cut cut = cut_of(spec, dims);
  return spec.scheme == Scheme::Cols ? cut.units * cut.chunks : cut.units;
}

}  // namespace stepfuse::runtime
