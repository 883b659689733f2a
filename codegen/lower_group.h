// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/gemm_shape.h"
#include "codegen/lower.h"
#include "ir/scalar_eval.h"

#include <memory>
#include <vector>

/// A group as every backend needs it: kernels to compile, products to prepare, where each operand lies, and the scalars
/// they all read. A backend adds what runs it.
namespace stepfuse::codegen {

/// A factor of a product: a constant, a slot of the scalars, or one element in memory.
struct Factor {
  enum class Kind : uint8_t { Const, Scalar, Memory };
  Kind kind = Kind::Const;
  double value = 1;
  uint32_t slot = 0;
  compiler::Access access;
  ir::DType dtype = ir::DType::F32;
};

/// D = alpha * op(A) * op(B) + beta * C for each of `batch` matrices, which lie strides[0] apart.
struct LoweredProduct {
  GemmShape shape;
  compiler::Access a, b, c, d;
  int64_t batch = 1;
  Factor alpha, beta;
};

/// AddDiag, Concat and Copy.
struct LoweredMove {
  std::vector<compiler::Access> sources;
  compiler::Access target;
  ir::DType source_dtype = ir::DType::F32;
  ir::DType target_dtype = ir::DType::F32;
  uint8_t concat_dim = 0;  // of the three
  Factor diagonal;         // AddDiag
};

/// One launch of the group; what its kind does not need is empty.
struct LoweredStep {
  compiler::StepKind kind;
  ir::ValueId node;                  // Product, AddDiag, Concat
  std::vector<LoweredPhase> phases;  // Fused
  LoweredProduct product;
  LoweredMove move;
};

struct LoweredGroup {
  const compiler::GroupPlan* plan = nullptr;  // outlives this
  std::vector<LoweredStep> steps;
  std::unique_ptr<ir::ScalarProgram> scalars;  // its slots: the phases' scalars and the factors, in order of the steps
  std::vector<uint32_t> hyper_index;           // scalars' hyper inputs -> the group's hyperparameters, in order
  std::vector<uint32_t> fresh_index;           // scalars' fresh states -> Graph::inputs()
};

/// Pure, like lower_phase().
LoweredGroup lower_group(const compiler::GroupPlan& group, ir::Mode mode);

}  // namespace stepfuse::codegen
