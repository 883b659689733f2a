// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/step_tables.h"

#include "codegen/cuda/emit_move.h"
#include "codegen/cuda/emit_prologue.h"

#include <algorithm>
#include <cstring>

namespace stepfuse::runtime {

using codegen::CudaChunk;
using codegen::CudaMoveRow;
using codegen::Factor;
using codegen::LoweredMove;
using codegen::LoweredProduct;
using compiler::Access;
using compiler::StepKind;

namespace {

constexpr uint64_t kAccessBytes = 16;

template <class T>
void copy_in(std::byte* to, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(to, values.data(), values.size() * sizeof(T));
}

/// A window of a move on one member, as extents and strides.
struct Window {
  std::array<int64_t, 3> dims, strides;
};

Window window_of(const Access& access, int64_t elements) {
  if (access.symbolic) return {{1, 1, elements}, {0, 0, 1}};
  return {access.dims, access.strides};
}

/// Row `source` of a move. `at`: how far its target lies into the whole one, in rows of the concatenated dimension.
CudaMoveRow move_row(const compiler::GroupPlan& group, const LoweredMove& move, size_t source, int64_t at,
                     const MemberPlace& place) {
  const Access& from = move.sources[source];
  const Window read = window_of(from, place.elements);
  const Window written = window_of(move.target, place.elements);
  CudaMoveRow row;
  row.skip = place.skip;
  row.from = access_address(group, place, from, move.source_dtype);
  row.to = access_address(group, place, move.target, move.target_dtype) +
           static_cast<uint64_t>(at * written.strides[move.concat_dim] * ir::dtype_bytes(move.target_dtype));
  row.dims = read.dims;
  row.from_strides = read.strides;
  row.to_strides = written.strides;
  return row;
}

/// In place, only the diagonal is touched.
void narrow_to_diagonal(CudaMoveRow& row) {
  if (row.from != row.to || row.from_strides != row.to_strides) return;
  row.everywhere = 1;
  row.dims = {row.dims[0], 1, std::min(row.dims[1], row.dims[2])};
  row.from_strides = {row.from_strides[0], 0, row.from_strides[1] + row.from_strides[2]};
  row.to_strides = row.from_strides;
}

/// Such a factor's address is a product's argument, which a captured graph keeps.
bool has_factor_of_users(const LoweredProduct& product) {
  const auto of_users = [](const Factor& factor) {
    return factor.kind == Factor::Kind::Memory && is_users(factor.access);
  };
  return of_users(product.alpha) || of_users(product.beta);
}

}  // namespace

bool is_aligned_product(const compiler::GroupPlan& group, const LoweredProduct& product, const MemberPlace& place) {
  const auto aligned = [&](const Access& access, ir::DType dtype) {
    return !is_users(access) || access_address(group, place, access, dtype) % kAccessBytes == 0;
  };
  return aligned(product.a, product.shape.ab) && aligned(product.b, product.shape.ab) &&
         aligned(product.d, product.shape.d) && (!product.shape.has_c || aligned(product.c, product.shape.c));
}

DeviceAddress factor_address(const CudaGroup& group, const StepMemory& memory, DeviceAddress base,
                             const MemberPlace& place, const LoweredProduct& product, const Factor& factor) {
  const bool f64 = ir::math_dtype(product.shape.ab) == ir::DType::F64;
  switch (factor.kind) {
    case Factor::Kind::Const:
      return base + static_cast<uint64_t>(memory.constants.at({factor.value, f64}));
    case Factor::Kind::Scalar:
      // The f32 values follow the last of the f64 ones (CudaPrologueRow).
      return place.scalars + (f64 ? factor.slot * sizeof(double)
                                  : group.scalars->num_slots() * sizeof(double) + factor.slot * sizeof(float));
    case Factor::Kind::Memory:
      return access_address(*group.plan, place, factor.access, factor.dtype);
  }
  return 0;
}

StepTables::StepTables(const std::vector<CudaGroup>& groups, StepMemory& memory, DeviceAddress base)
    : groups_(groups), memory_(memory), base_(base), image_(static_cast<size_t>(memory.table_bytes)) {
  for (CudaBranch& branch : memory.branches)
    for (CudaBatch& batch : branch.batches)
      for (size_t m = 0; m < batch.members.size(); ++m) {
        const uint32_t parameter = batch.members[m].parameter;
        if (parameter >= places_.size()) places_.resize(parameter + 1);
        places_[parameter] = {&batch, m};
      }
}

MemberPlace member_place(const StepMemory& memory, DeviceAddress base, const CudaMember& member,
                         const CudaPointers& pointers) {
  const auto absolute = [&](int64_t offset) { return base + static_cast<uint64_t>(offset); };
  MemberPlace place;
  place.inputs = pointers.inputs;
  place.scratch = absolute(member.scratch);
  place.lane_offsets = member.lane_offsets;
  place.scalars = absolute(member.scalars);
  place.partials = absolute(member.partials);
  place.tickets = absolute(member.tickets);
  place.skip = pointers.active ? 0 : absolute(memory.one);
  place.elements = member.elements;
  return place;
}

void StepTables::changed(int64_t begin, int64_t bytes) {
  if (changes_.empty()) changes_ = {begin, begin};
  changes_.begin = std::min(changes_.begin, begin);
  changes_.end = std::max(changes_.end, begin + bytes);
}

TableRange StepTables::take_changes() { return std::exchange(changes_, {}); }

void StepTables::fill(const std::vector<CudaPointers>& pointers, const ScalarSets& sets) {
  fill_programs();
  fill_prologue_rows(sets);
  for (CudaBranch& branch : memory_.branches)
    for (CudaBatch& batch : branch.batches) fill_batch(batch, pointers);
  changes_ = {};
}

void StepTables::fill_programs() {
  std::vector<codegen::CudaProgram> programs;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const ir::ScalarProgram& scalars = *groups_[g].scalars;
    const CudaProgramMemory& at = memory_.programs[g];
    const auto lines = codegen::encode_scalars(scalars).value();  // checked when the step was prepared
    copy_in(image_.data() + at.lines, lines);
    copy_in(image_.data() + at.slots, scalars.slots());
    programs.push_back({base_ + static_cast<uint64_t>(at.lines), base_ + static_cast<uint64_t>(at.slots),
                        static_cast<uint32_t>(lines.size()), static_cast<uint32_t>(scalars.num_slots())});
  }
  copy_in(image_.data() + memory_.program_table, programs);
  for (const auto& [constant, offset] : memory_.constants) {
    if (constant.second) {
      *at<double>(offset) = constant.first;
    } else {
      *at<float>(offset) = static_cast<float>(constant.first);
    }
  }
  *at<uint32_t>(memory_.one) = 1;
}

void StepTables::fill_prologue_rows(const ScalarSets& sets) {
  std::vector<codegen::CudaPrologueRow> rows;
  for (const CudaBranch& branch : memory_.branches)
    for (const CudaBatch& batch : branch.batches)
      for (const CudaMember& member : batch.members)
        rows.push_back({member.group, sets.first_value(member.parameter), member.parameter, 0,
                        base_ + static_cast<uint64_t>(member.scalars)});
  copy_in(image_.data() + memory_.prologue_rows, rows);
}

void StepTables::write_more(std::span<const double> values) {
  STEPFUSE_CHECK(static_cast<int64_t>(values.size()) <= memory_.more_count, "{} hyperparameters, room for {}",
                 values.size(), memory_.more_count);
  if (values.empty()) return;
  std::memcpy(image_.data() + memory_.more, values.data(), values.size_bytes());
  changed(memory_.more, static_cast<int64_t>(values.size_bytes()));
}

void StepTables::write_active(uint32_t parameter, bool active) {
  const int64_t offset = memory_.active + int64_t{parameter} * 4;
  *at<uint32_t>(offset) = active ? 1 : 0;
  changed(offset, 4);
}

void StepTables::fill_batch(CudaBatch& batch, const std::vector<CudaPointers>& pointers) {
  const CudaGroup& group = groups_[batch.group];
  for (StepTable& table : batch.steps) {
    for (KernelTable& kernel : table.kernels) kernel.aligned.assign(batch.members.size(), 1);
    table.product.aligned.assign(batch.members.size(), 1);
  }
  for (size_t m = 0; m < batch.members.size(); ++m) {
    const CudaPointers& at = pointers[batch.members[m].parameter];
    const MemberPlace place = place_of(batch.members[m], at);
    for (size_t s = 0; s < batch.steps.size(); ++s) {
      const CudaStep& step = group.steps[s];
      for (size_t p = 0; p < step.phases.size(); ++p)
        batch.steps[s].kernels[p].aligned[m] = is_aligned(*group.plan, step.phases[p].lowered, place) ? 1 : 0;
      if (step.kind == StepKind::Product)
        batch.steps[s].product.aligned[m] = is_aligned_product(*group.plan, step.product, place) ? 1 : 0;
    }
    write_member(batch, m, at, false);
    write_active(batch.members[m].parameter, at.active);
  }
  for (size_t s = 0; s < batch.steps.size(); ++s) {
    const CudaStep& step = group.steps[s];
    for (size_t p = 0; p < step.phases.size(); ++p) fill_phase_chunks(batch, step.phases[p], batch.steps[s].kernels[p]);
    if (step.mover.handle != nullptr) fill_move_chunks(batch, step.move, batch.steps[s].kernels.front());
  }
}

void StepTables::fill_phase_chunks(const CudaBatch& batch, const CudaPhase& phase, KernelTable& table) {
  std::vector<CudaChunk> chunks;
  for (const bool aligned : {true, false}) {
    for (size_t m = 0; m < batch.members.size(); ++m)
      if ((table.aligned[m] != 0) == aligned)
        append_chunks(phase.lowered.spec, codegen::phase_dims(phase.lowered, batch.members[m].elements),
                      static_cast<uint32_t>(m), chunks);
    if (aligned) table.aligned_chunks = static_cast<int64_t>(chunks.size());
  }
  copy_in(image_.data() + table.chunks, chunks);
}

void StepTables::fill_move_chunks(const CudaBatch& batch, const LoweredMove& move, KernelTable& table) {
  std::vector<CudaChunk> chunks;
  const auto sources = static_cast<uint32_t>(move.sources.size());
  for (uint32_t row = 0; row < sources * batch.members.size(); ++row) {
    const auto* filled = at<CudaMoveRow>(table.rows + row * table.row_bytes);
    const int64_t elements = filled->dims[0] * filled->dims[1] * filled->dims[2];
    for (uint32_t index = 0; index < codegen::chunks_of(elements); ++index) chunks.push_back({row, 0, index, 0});
  }
  STEPFUSE_CHECK(static_cast<int64_t>(chunks.size()) <= table.chunk_count, "a move of {} chunks, room for {}",
                 chunks.size(), table.chunk_count);
  table.aligned_chunks = static_cast<int64_t>(chunks.size());
  copy_in(image_.data() + table.chunks, chunks);
}

bool StepTables::keeps_launches(const Place& at, const CudaPointers& pointers) const {
  const CudaGroup& group = groups_[at.batch->group];
  const MemberPlace place = place_of(at.batch->members[at.member], pointers);
  for (size_t s = 0; s < group.steps.size(); ++s) {
    const CudaStep& step = group.steps[s];
    const StepTable& table = at.batch->steps[s];
    for (size_t p = 0; p < step.phases.size(); ++p)
      if (table.kernels[p].of_users &&
          (table.kernels[p].aligned[at.member] != 0) != is_aligned(*group.plan, step.phases[p].lowered, place))
        return false;
    if (step.kind == StepKind::Product && has_factor_of_users(step.product)) return false;
    if (table.product.of_users &&
        (table.product.aligned[at.member] != 0) != is_aligned_product(*group.plan, step.product, place))
      return false;
  }
  return true;
}

bool StepTables::update(uint32_t parameter, const CudaPointers& pointers) {
  const Place& at = places_[parameter];
  if (at.batch == nullptr) return true;
  // Without a gradient nothing is moved, wherever it lies.
  if (pointers.active && !keeps_launches(at, pointers)) return false;
  write_member(*at.batch, at.member, pointers, true);
  write_active(parameter, pointers.active);
  return true;
}

void StepTables::write_member(CudaBatch& batch, size_t m, const CudaPointers& pointers, bool users_only) {
  const CudaGroup& group = groups_[batch.group];
  const MemberPlace place = place_of(batch.members[m], pointers);
  // What stays in our own memory does no harm without a gradient; its rows are not written again when one comes.
  MemberPlace never_skipped = place;
  never_skipped.skip = 0;
  const auto place_for = [&](const KernelTable& kernel) -> const MemberPlace& {
    return kernel.of_users ? place : never_skipped;
  };
  for (size_t s = 0; s < batch.steps.size(); ++s) {
    const CudaStep& step = group.steps[s];
    const StepTable& table = batch.steps[s];
    for (size_t p = 0; p < step.phases.size(); ++p)
      if (table.kernels[p].of_users || !users_only)
        write_phase_row(batch, m, step.phases[p], table.kernels[p], place_for(table.kernels[p]));
    if (step.mover.handle != nullptr && (table.kernels.front().of_users || !users_only))
      write_move_rows(batch, m, step, table.kernels.front(), place_for(table.kernels.front()));
    if (table.product.arrays && (table.product.of_users || !users_only))
      write_product(batch, m, step.product, table.product, place, pointers.active);
  }
}

void StepTables::write_phase_row(const CudaBatch& batch, size_t m, const CudaPhase& phase, const KernelTable& table,
                                 const MemberPlace& place) {
  const int64_t offset = table.rows + static_cast<int64_t>(m) * table.row_bytes;
  write_row(*groups_[batch.group].plan, phase.lowered, place,
            {at<uint64_t>(offset), static_cast<size_t>(table.row_bytes) / sizeof(uint64_t)});
  changed(offset, table.row_bytes);
}

void StepTables::write_move_rows(const CudaBatch& batch, size_t m, const CudaStep& step, const KernelTable& table,
                                 const MemberPlace& place) {
  const compiler::GroupPlan& group = *groups_[batch.group].plan;
  const size_t sources = step.move.sources.size();
  int64_t concatenated = 0;
  for (size_t k = 0; k < sources; ++k) {
    CudaMoveRow row = move_row(group, step.move, k, concatenated, place);
    concatenated += step.move.sources[k].dims[step.move.concat_dim];
    if (step.kind == StepKind::AddDiag) {
      const Factor& number = step.move.diagonal;
      LoweredProduct in_f64;  // scalars are read as they are
      in_f64.shape.ab = ir::DType::F64;
      row.number = factor_address(groups_[batch.group], memory_, base_, place, in_f64, number);
      narrow_to_diagonal(row);
    }
    const int64_t offset = table.rows + static_cast<int64_t>(m * sources + k) * table.row_bytes;
    std::memcpy(image_.data() + offset, &row, sizeof row);
    changed(offset, table.row_bytes);
  }
}

void StepTables::write_product(const CudaBatch& batch, size_t m, const LoweredProduct& product,
                               const ProductTable& table, const MemberPlace& place, bool active) {
  const compiler::GroupPlan& group = *groups_[batch.group].plan;
  // A result that goes nowhere lies where scratch may lie, so that nothing else is taken from there.
  const bool all_lost = is_users(product.d) && !active;
  const auto write = [&](int64_t array, const Access& access, ir::DType dtype, int64_t sink) {
    const bool lost = all_lost || (is_users(access) && !active);
    const DeviceAddress first =
        lost ? base_ + static_cast<uint64_t>(sink) : access_address(group, place, access, dtype);
    const int64_t offset = array + static_cast<int64_t>(m) * product.batch * 8;
    for (int64_t entry = 0; entry < product.batch; ++entry)
      at<uint64_t>(offset)[entry] = first + static_cast<uint64_t>(entry * access.strides[0] * ir::dtype_bytes(dtype));
    changed(offset, product.batch * 8);
  };
  const int64_t result = batch.members[m].sink;
  write(table.a, product.a, product.shape.ab, memory_.sink);
  write(table.b, product.b, product.shape.ab, memory_.sink);
  if (product.shape.has_c) {
    write(table.c, product.c, product.shape.c, memory_.sink);
  } else {
    write(table.c, product.d, product.shape.d, result);
  }
  write(table.d, product.d, product.shape.d, result);
}

}  // namespace stepfuse::runtime
