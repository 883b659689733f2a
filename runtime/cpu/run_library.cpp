// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/run_library.h"

#include "runtime/cpu/run_moves.h"
#include "runtime/element.h"

namespace stepfuse::runtime {

using compiler::Access;
using compiler::GroupPlan;

namespace {

struct LibraryRun {
  const GroupPlan& group;
  const PreparedStep& step;
  std::span<const MemberMemory> members;
  std::span<std::byte* const> scratch;
};

MatrixView matrix_at(const GroupPlan& group, const MemberMemory& member, const Access& access, ir::DType dtype,
                     int64_t entry) {
  return {access_address(group, member, access, dtype) + entry * access.strides[0] * ir::dtype_bytes(dtype),
          access.strides[1], access.strides[2]};
}

void fill_zero(const MatrixView& target, const Access& access, ir::DType dtype) {
  for (int64_t i = 0; i < access.dims[1]; ++i)
    for (int64_t j = 0; j < access.dims[2]; ++j)
      store_element(target.data, dtype, i * target.row_stride + j * target.col_stride, 0);
}

void run_matrix(const LibraryRun& run, int64_t index, int thread) {
  const codegen::LoweredCall& call = run.step.call;
  const int64_t batch = call.source.dims[0];
  const MemberMemory& member = run.members[static_cast<size_t>(index / batch)];
  const int64_t entry = index % batch;
  const MatrixView target = matrix_at(run.group, member, call.target, call.dtype, entry);
  if (factor_value(run.group, member, call.when) == 0) return fill_zero(target, call.target, call.dtype);
  const MatrixView source = matrix_at(run.group, member, call.source, call.dtype, entry);
  MatrixView keys;
  if (call.op == ir::Op::SortCols) keys = matrix_at(run.group, member, call.keys, call.keys_dtype, entry);
  run.step.library->run(source, keys, target, run.scratch[static_cast<size_t>(thread)]);
}

}  // namespace

void run_library(const GroupPlan& group, const PreparedStep& step, std::span<const MemberMemory> members,
                 ThreadPool& pool, std::span<std::byte* const> scratch) {
  LibraryRun run{group, step, members, scratch};
  pool.run(
      static_cast<int64_t>(members.size()) * step.call.source.dims[0],
      [](void* data, int64_t index, int thread) { run_matrix(*static_cast<const LibraryRun*>(data), index, thread); },
      &run);
}

}  // namespace stepfuse::runtime
