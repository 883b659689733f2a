// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/prepare_product.h"

#include "compiler/dependencies.h"
#include "compiler/passes/passes.h"

#include <algorithm>

namespace stepfuse::runtime {

using compiler::Access;
using ir::Graph;
using ir::ValueId;

namespace {

/// A matrix in memory: row stride, and whether the window runs along columns.
struct Stored {
  int64_t ld;
  bool transposed;
};

Stored stored(const Access& access) {
  const bool rows_contiguous = access.dims[2] == 1 || access.strides[2] == 1;
  // A BLAS wants a row stride of at least 1, even for an empty matrix.
  if (rows_contiguous) return {std::max({access.strides[1], access.dims[2], int64_t{1}}), false};
  return {std::max({access.strides[2], access.dims[1], int64_t{1}}), true};
}

GemmShape shape_of(const Graph& graph, ValueId id, const PreparedProduct& product) {
  const ir::Node& node = graph.node(id);
  const auto flags = std::get<ir::MatmulAttr>(node.attr);
  const Stored a = stored(product.a);
  const Stored b = stored(product.b);
  GemmShape shape;
  shape.m = product.d.dims[1];
  shape.n = product.d.dims[2];
  shape.k = flags.trans_a ? product.a.dims[1] : product.a.dims[2];
  shape.trans_a = flags.trans_a != a.transposed;
  shape.trans_b = flags.trans_b != b.transposed;
  shape.lda = a.ld;
  shape.ldb = b.ld;
  shape.ldc = product.has_c ? stored(product.c).ld : 0;
  shape.ldd = stored(product.d).ld;
  shape.ab = product.a_dtype;
  shape.c = product.c_dtype;
  shape.d = product.d_dtype;
  shape.has_c = product.has_c;
  shape.has_alpha = node.num_operands > 2;
  shape.symmetric = flags.symmetric;
  shape.a_is_b = node.operands[0] == node.operands[1];
  shape.c_is_d = product.has_c && product.c.slot == product.d.slot && product.c.offset == product.d.offset;
  return shape;
}

struct Choice {
  std::unique_ptr<Gemm> gemm;
  std::string why;
};

const GemmProvider* library_for(ir::DType dtype, const compiler::StepPlan& plan) {
  const GemmProviders& providers = GemmProviders::get();
  if (plan.mode == ir::Mode::Strict) return nullptr;
  if (dtype == ir::DType::BF16) return plan.target.bf16_products ? providers.bf16() : nullptr;
  return dtype == ir::DType::F32 || dtype == ir::DType::F64 ? providers.f32() : nullptr;
}

Result<Choice> choose(const GemmShape& shape, const compiler::StepPlan& plan) {
  const GemmProvider* library = library_for(shape.ab, plan);
  if (library != nullptr) {
    STEPFUSE_ASSIGN(std::unique_ptr<Gemm> gemm, library->prepare(shape));
    if (gemm != nullptr)
      return Choice{std::move(gemm), fmt::format("{} passed its self-test and takes {} matrices", library->name(),
                                                 ir::dtype_name(shape.ab))};
  }
  const GemmProvider* chain = GemmProviders::get().fma_chain();
  if (chain == nullptr)
    return with_hint(
        fail(StatusCode::Environment, "this CPU has no FMA instructions, so products cannot be computed as defined"),
        "use --target interp, or a CPU of level x86-64-v3");
  STEPFUSE_ASSIGN(std::unique_ptr<Gemm> gemm, chain->prepare(shape));
  if (gemm == nullptr)
    return fail(StatusCode::Internal, "the fma chain refused a product of {} x {} x {}", shape.m, shape.n, shape.k);
  return Choice{std::move(gemm), plan.mode == ir::Mode::Strict ? "strict: one fma chain per element"
                                                               : "no library takes this shape and these types"};
}

}  // namespace

Result<PreparedProduct> prepare_product(const ProductRequest& request) {
  const Graph& graph = request.group.graph;
  const ir::Node& node = graph.node(request.node);
  PreparedProduct product;
  product.a = compiler::access_of(request.group, node.operands[0]);
  product.b = compiler::access_of(request.group, node.operands[1]);
  product.d = compiler::access_of(request.group, request.node);
  product.has_c = node.num_operands == 5;
  if (product.has_c) product.c = compiler::access_of(request.group, node.operands[2]);
  product.a_dtype = graph.node(node.operands[0]).type.dtype;
  product.d_dtype = node.type.dtype;
  product.c_dtype = product.has_c ? graph.node(node.operands[2]).type.dtype : product.d_dtype;
  product.batch = product.d.dims[0];
  const GemmShape shape = shape_of(graph, request.node, product);
  STEPFUSE_ASSIGN(Choice choice, choose(shape, request.plan));
  request.notes.push_back(
      {"product",
       compiler::value_label(graph, request.node),
       true,
       fmt::format("{} x {} x {} by {}: {}", shape.m, shape.n, shape.k, choice.gemm->implementation(), choice.why),
       {},
       {}});
  product.gemm = std::move(choice.gemm);
  return product;
}

}  // namespace stepfuse::runtime
