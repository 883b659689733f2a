// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/run_moves.h"

#include "runtime/cpu/reduce_finish.h"

#include <algorithm>
#include <cstring>

namespace stepfuse::runtime {

using codegen::LoweredMove;
using compiler::Access;
using compiler::GroupPlan;
using ir::DType;

namespace {

/// Copies a window, converting when the types differ. `to_offset` in elements of the target.
struct CopyJob {
  const std::byte* from;
  std::array<int64_t, 3> from_strides;
  DType from_dtype;
  std::byte* to;
  std::array<int64_t, 3> to_strides;
  DType to_dtype;
  std::array<int64_t, 3> dims;
};

void copy_row(const CopyJob& job, int64_t from, int64_t to) {
  const int64_t n = job.dims[2];
  const bool plain = job.from_dtype == job.to_dtype && (n == 1 || (job.from_strides[2] == 1 && job.to_strides[2] == 1));
  if (plain) {
    const int64_t bytes = ir::dtype_bytes(job.from_dtype);
    std::memcpy(job.to + to * bytes, job.from + from * bytes, static_cast<size_t>(n * bytes));
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    store_element(job.to, job.to_dtype, to + i * job.to_strides[2],
                  load_element(job.from, job.from_dtype, from + i * job.from_strides[2]));
}

void copy_window(const CopyJob& job) {
  for (int64_t i = 0; i < job.dims[0]; ++i)
    for (int64_t j = 0; j < job.dims[1]; ++j)
      copy_row(job, i * job.from_strides[0] + j * job.from_strides[1], i * job.to_strides[0] + j * job.to_strides[1]);
}

CopyJob job_of(const GroupPlan& group, const LoweredMove& move, const MemberMemory& member, const Access& source) {
  CopyJob job{access_address(group, member, source, move.source_dtype),
              source.strides,
              move.source_dtype,
              access_address(group, member, move.target, move.target_dtype),
              move.target.strides,
              move.target_dtype,
              source.dims};
  if (source.symbolic) {
    job.dims = {1, 1, member.elements};
    job.from_strides = job.to_strides = {0, 0, 1};
  }
  return job;
}

void run_concat(const GroupPlan& group, const LoweredMove& move, const MemberMemory& member) {
  int64_t at = 0;
  for (const Access& source : move.sources) {
    CopyJob job = job_of(group, move, member, source);
    job.to += at * move.target.strides[move.concat_dim] * ir::dtype_bytes(move.target_dtype);
    copy_window(job);
    at += source.dims[move.concat_dim];
  }
}

double add_in_math_type(DType a_dtype, DType d_dtype, double a, double s) {
  if (a_dtype == DType::F64 || d_dtype == DType::F64) return a + s;
  return static_cast<double>(static_cast<float>(a) + static_cast<float>(s));
}

void run_adddiag(const GroupPlan& group, const LoweredMove& move, const MemberMemory& member) {
  const CopyJob job = job_of(group, move, member, move.sources[0]);
  if (job.from != job.to) copy_window(job);
  const double s = factor_value(group, member, move.diagonal);
  for (int64_t i = 0; i < job.dims[0]; ++i) {
    for (int64_t j = 0; j < job.dims[1]; ++j) {
      const int64_t from = i * job.from_strides[0] + j * (job.from_strides[1] + job.from_strides[2]);
      const int64_t to = i * job.to_strides[0] + j * (job.to_strides[1] + job.to_strides[2]);
      const double sum =
          add_in_math_type(move.source_dtype, move.target_dtype, load_element(job.from, move.source_dtype, from), s);
      store_element(job.to, move.target_dtype, to, sum);
    }
  }
}

}  // namespace

double factor_value(const GroupPlan& group, const MemberMemory& member, const Factor& factor) {
  switch (factor.kind) {
    case Factor::Kind::Const:
      return factor.value;
    case Factor::Kind::Scalar:
      return member.scalars[factor.slot];
    case Factor::Kind::Memory:
      return load_element(access_address(group, member, factor.access, factor.dtype), factor.dtype, 0);
  }
  return factor.value;
}

void run_move(const GroupPlan& group, compiler::StepKind kind, const LoweredMove& move, const MemberMemory& member) {
  switch (kind) {
    case compiler::StepKind::AddDiag:
      run_adddiag(group, move, member);
      return;
    case compiler::StepKind::Concat:
      run_concat(group, move, member);
      return;
    case compiler::StepKind::Copy:
      copy_window(job_of(group, move, member, move.sources[0]));
      return;
    case compiler::StepKind::Fused:
    case compiler::StepKind::Product:
      break;
  }
  throw InternalError("not a move");
}

}  // namespace stepfuse::runtime
