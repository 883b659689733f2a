// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/run_product.h"

#include "runtime/cpu/run_moves.h"

namespace stepfuse::runtime {

using compiler::Access;
using compiler::GroupPlan;

namespace {

struct ProductRun {
  const GroupPlan& group;
  const codegen::LoweredProduct& product;
  const Gemm& gemm;
  std::span<const MemberMemory> members;
  std::span<std::byte* const> scratch;
};

std::byte* matrix_address(const ProductRun& run, const MemberMemory& member, const Access& access, ir::DType dtype,
                          int64_t entry) {
  return access_address(run.group, member, access, dtype) + entry * access.strides[0] * ir::dtype_bytes(dtype);
}

void run_piece(const ProductRun& run, int64_t index, int thread) {
  const codegen::LoweredProduct& product = run.product;
  const int64_t pieces = run.gemm.pieces();
  const int64_t matrix = index / pieces;
  const MemberMemory& member = run.members[static_cast<size_t>(matrix / product.batch)];
  const int64_t entry = matrix % product.batch;
  GemmArgs args{};
  args.a = matrix_address(run, member, product.a, product.shape.ab, entry);
  args.b = matrix_address(run, member, product.b, product.shape.ab, entry);
  args.c = product.shape.has_c ? matrix_address(run, member, product.c, product.shape.c, entry) : nullptr;
  args.d = matrix_address(run, member, product.d, product.shape.d, entry);
  args.alpha = factor_value(run.group, member, product.alpha);
  args.beta = factor_value(run.group, member, product.beta);
  run.gemm.run(args, static_cast<int>(index % pieces), run.scratch[static_cast<size_t>(thread)]);
}

}  // namespace

void run_product(const GroupPlan& group, const PreparedStep& step, std::span<const MemberMemory> members,
                 ThreadPool& pool, std::span<std::byte* const> scratch) {
  ProductRun run{group, step.product, *step.gemm, members, scratch};
  const int64_t count = static_cast<int64_t>(members.size()) * step.product.batch * step.gemm->pieces();
  pool.run(
      count,
      [](void* data, int64_t index, int thread) { run_piece(*static_cast<const ProductRun*>(data), index, thread); },
      &run);
}

}  // namespace stepfuse::runtime
