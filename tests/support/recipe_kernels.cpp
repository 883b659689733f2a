// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/recipe_kernels.h"

#include "codegen/lower.h"
#include "compiler/plan.h"
#include "ir/optimizers/recipe.h"
#include "runtime/target.h"

#include <set>
#include <stdexcept>

namespace stepfuse::test {

namespace {

using ir::DType;

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// Options by recipe that give another rule than the defaults do.
std::vector<ir::OptionList> option_lists(const ir::Recipe& recipe) {
  std::vector<ir::OptionList> lists{{}};
  if (recipe.name == "sgd") {
    lists.push_back({{"momentum", "0.9"}});
    lists.push_back({{"momentum", "0.9"}, {"nesterov", "true"}, {"weight_decay", "0.01"}});
  }
  if (ir::find_option(recipe.options(), "amsgrad") != nullptr) lists.push_back({{"amsgrad", "true"}});
  if (ir::find_option(recipe.options(), "maximize") != nullptr) lists.push_back({{"maximize", "true"}});
  if (recipe.name == "muon") lists.push_back({{"nesterov", "false"}});
  return lists;
}

compiler::PlannedParameter planned(const ir::Recipe& recipe, const ir::OptionList& options,
                                   const ir::ParameterSpec& parameter) {
  const ir::OptionValues values = value_of(ir::parse_options(recipe.name, recipe.options(), options));
  return {"w", parameter.shape, value_of(recipe.build(values, parameter)), recipe.peer_eager(values)};
}

std::vector<compiler::StepPlan> plans_of(const ir::Recipe& recipe, const ir::OptionList& options,
                                         const compiler::PlanOptions& plan_options) {
  constexpr DType kTypes[][3] = {{DType::F32, DType::F32, DType::F32},    {DType::F32, DType::BF16, DType::F32},
                                 {DType::BF16, DType::BF16, DType::F32},  {DType::F32, DType::F16, DType::F32},
                                 {DType::BF16, DType::BF16, DType::BF16}, {DType::F16, DType::F16, DType::F16},
                                 {DType::F64, DType::F64, DType::F64}};
  std::vector<compiler::StepPlan> plans;
  for (const auto& [param, grad, state] : kTypes) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{64, 128}, {128, 64}}) {
      for (const size_t members : {1, 3}) {
        const auto one = planned(recipe, options, {shape, param, grad, state});
        auto plan = compiler::make_plan(std::vector(members, one), plan_options);
        if (plan) plans.push_back(std::move(*plan));  // a recipe may refuse a mixture
      }
    }
  }
  return plans;
}

}  // namespace

std::vector<codegen::KernelSpec> recipe_kernels(ir::Mode mode) {
  compiler::PlanOptions plan_options;
  plan_options.mode = mode;
  plan_options.target = value_of(runtime::target_traits("sm_90", value_of(runtime::Settings::resolve({}, {}))));
  std::vector<codegen::KernelSpec> kernels;
  std::set<std::string> seen;
  for (const ir::Recipe& recipe : ir::all_recipes())
    for (const ir::OptionList& options : option_lists(recipe))
      for (const compiler::StepPlan& plan : plans_of(recipe, options, plan_options))
        for (codegen::KernelSpec& spec : codegen::distinct_kernels(plan))
          if (seen.insert(print(spec)).second) kernels.push_back(std::move(spec));
  return kernels;
}

}  // namespace stepfuse::test
