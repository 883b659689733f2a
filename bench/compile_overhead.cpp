// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What the compiler itself costs, without LLVM: text, passes and plans. A Google Benchmark program; no target.
#include "codegen/lower.h"
#include "compiler/plan.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/rule.h"
#include "runtime/target.h"

#include <benchmark/benchmark.h>

namespace stepfuse {

namespace {

compiler::PlannedParameter parameter(const std::string& recipe, std::vector<int64_t> shape) {
  const auto rule = runtime::Rule::create(recipe, {});
  STEPFUSE_CHECK(rule.has_value(), "{}", rule.error().message);
  auto graph = rule->instantiate({.shape = shape});
  STEPFUSE_CHECK(graph.has_value(), "{}", graph.error().message);
  return {"w", std::move(shape), std::move(*graph), rule->peer()};
}

compiler::StepPlan plan_of(const std::vector<compiler::PlannedParameter>& parameters) {
  auto plan = compiler::make_plan(parameters, {});
  STEPFUSE_CHECK(plan.has_value(), "{}", plan.error().message);
  return std::move(*plan);
}

void plan_adamw(benchmark::State& state) {
  const std::vector parameters{parameter("adamw", {4096})};
  for (auto _ : state) benchmark::DoNotOptimize(plan_of(parameters));
}
BENCHMARK(plan_adamw)->Unit(benchmark::kMicrosecond);

void plan_muon(benchmark::State& state) {
  const std::vector parameters{parameter("muon", {768, 3072})};
  for (auto _ : state) benchmark::DoNotOptimize(plan_of(parameters));
}
BENCHMARK(plan_muon)->Unit(benchmark::kMicrosecond);

void print_and_parse_muon(benchmark::State& state) {
  const ir::Graph graph = parameter("muon", {768, 3072}).rule;
  for (auto _ : state) benchmark::DoNotOptimize(ir::parse(ir::print(graph)));
}
BENCHMARK(print_and_parse_muon)->Unit(benchmark::kMicrosecond);

/// Lowering a kernel and making its key: what a kernel that the process already has costs at prepare.
void key_of_adamw_kernel(benchmark::State& state) {
  const std::vector parameters{parameter("adamw", {4096})};
  const compiler::StepPlan plan = plan_of(parameters);
  const auto target = runtime::cpu_target("cpu");
  STEPFUSE_CHECK(target.has_value(), "{}", target.error().message);
  for (auto _ : state) {
    const auto lowered = codegen::lower_phase(plan.groups[0], plan.groups[0].steps[0], 0, plan.mode);
    benchmark::DoNotOptimize(runtime::cpu_kernel_key(lowered.spec, *target));
  }
}
BENCHMARK(key_of_adamw_kernel)->Unit(benchmark::kMicrosecond);

}  // namespace

}  // namespace stepfuse

BENCHMARK_MAIN();
