// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/lower.h"
#include "compiler/explain.h"
#include "compiler/plan.h"
#include "ir/scalar_eval.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/jit.h"
#include "runtime/cpu/thread_pool.h"

#include <memory>
#include <vector>

namespace stepfuse::runtime {

/// A factor of a product: a constant, a slot of the scalars, or one element in memory.
struct Factor {
  enum class Kind : uint8_t { Const, Scalar, Memory };
  Kind kind = Kind::Const;
  double value = 1;
  uint32_t slot = 0;
  compiler::Access access;
  ir::DType dtype = ir::DType::F32;
};

struct PreparedPhase {
  codegen::LoweredPhase lowered;
  std::shared_ptr<const LoadedKernel> kernel;
  codegen::KernelFn function = nullptr;
  uint32_t first_scalar = 0;              // of this phase, in the group's slots
  std::vector<int64_t> strides;           // 3 per argument; empty when contiguous
  std::vector<compiler::Access> results;  // of reductions
};

struct PreparedProduct {
  std::unique_ptr<Gemm> gemm;
  compiler::Access a, b, c, d;
  ir::DType a_dtype, c_dtype, d_dtype;
  bool has_c = false;
  int64_t batch = 1;
  Factor alpha, beta;
};

struct PreparedStep {
  compiler::StepKind kind;
  std::vector<PreparedPhase> phases;      // Fused
  PreparedProduct product;                // Product
  std::vector<compiler::Access> sources;  // AddDiag, Concat, Copy
  compiler::Access target;
  ir::DType source_dtype = ir::DType::F32;
  ir::DType target_dtype = ir::DType::F32;
  uint8_t concat_dim = 0;  // of the three
  Factor diagonal;         // AddDiag
};

/// A group, ready to run: kernels loaded, products chosen, scalars compiled.
struct PreparedGroup {
  const compiler::GroupPlan* plan = nullptr;
  std::vector<PreparedStep> steps;
  std::unique_ptr<ir::ScalarProgram> scalars;
  std::vector<uint32_t> hyper_index;  // scalars' hyper inputs -> MemberBinding::hypers
  std::vector<uint32_t> fresh_index;  // scalars' fresh states -> MemberBinding::fresh
};

struct PrepareContext {
  const compiler::StepPlan& plan;
  const CpuTarget& target;
  ThreadPool& pool;
  compiler::BackendNotes& notes;
  int64_t& compiled;  // counts the kernels the process did not have
};

/// Lowers every group, compiles the kernels that the process lacks in parallel, and prepares the products.
Result<std::vector<PreparedGroup>> prepare_groups(const PrepareContext& context);

/// Partials a member needs for one phase, in doubles, for a parameter of `elements`.
int64_t partial_count(const codegen::LoweredPhase& phase, int64_t elements);
/// Results of each of its reductions, and partials of each result.
struct ReductionLayout {
  int64_t results;
  int64_t chunks;
};
ReductionLayout reduction_layout(const codegen::LoweredPhase& phase, int64_t elements);
std::array<int64_t, 3> phase_dims(const codegen::LoweredPhase& phase, int64_t elements);

}  // namespace stepfuse::runtime
