// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/prepare_product.h"

#include <utility>

namespace stepfuse::runtime {

namespace {

struct Choice {
  std::unique_ptr<Gemm> gemm;
  std::string why;
};

const GemmProvider* library_for(ir::DType dtype, const compiler::StepPlan& plan) {
  if (plan.mode == ir::Mode::Strict) return nullptr;
  if (dtype == ir::DType::BF16 && !plan.target.bf16_products) return nullptr;
  return GemmProviders::get().library(dtype);
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

Result<std::unique_ptr<Gemm>> choose_gemm(const GemmShape& shape, const std::string& label,
                                          const compiler::StepPlan& plan, compiler::BackendNotes& notes) {
  STEPFUSE_ASSIGN(Choice choice, choose(shape, plan));
  notes.push_back(
      {"product",
       label,
       true,
       fmt::format("{} x {} x {} by {}: {}", shape.m, shape.n, shape.k, choice.gemm->implementation(), choice.why),
       {},
       {}});
  return std::move(choice.gemm);
}

}  // namespace stepfuse::runtime
