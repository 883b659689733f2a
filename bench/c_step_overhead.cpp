// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What a step costs through the C interface beyond the step itself: stepfuse_optimizer_step against the step of the
// runtime's optimizer, SGD on one parameter of 16 floats in both. Target: at most 5 us per call.
#include "bench/report.h"
#include "runtime/optimizer.h"
#include "stepfuse/stepfuse.h"

#include <cstdio>
#include <stdexcept>
#include <vector>

using namespace stepfuse;

namespace {

constexpr int64_t kElements = 16;
constexpr int kCallsPerRound = 5000;
constexpr double kTargetMicroseconds = 5;

void check(stepfuse_status status) {
  if (status != STEPFUSE_OK) throw std::runtime_error(stepfuse_last_error());
}

template <class T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

void check(const Outcome& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message);
}

struct Memory {
  std::vector<float> param = std::vector<float>(kElements, 1.0F), grad = std::vector<float>(kElements, 0.0F);
};

stepfuse_optimizer* c_optimizer(stepfuse_context* context, Memory& memory) {
  const stepfuse_option options[] = {{"lr", "0.1"}};
  const int64_t shape[] = {kElements};
  const stepfuse_tensor param = stepfuse_cpu_tensor(memory.param.data(), stepfuse_f32(), 1, shape);
  const stepfuse_tensor grad = stepfuse_cpu_tensor(memory.grad.data(), stepfuse_f32(), 1, shape);
  stepfuse_parameter parameter = stepfuse_parameter_init();
  stepfuse_binding binding = stepfuse_binding_init();
  stepfuse_optimizer* optimizer = nullptr;
  uint32_t group = 0, id = 0;
  parameter.name = "w";
  parameter.ndim = 1;
  parameter.shape = shape;
  binding.param = &param;
  binding.grad = &grad;
  check(stepfuse_optimizer_create(context, &optimizer));
  check(stepfuse_optimizer_add_group(optimizer, "sgd", options, 1, &group));
  check(stepfuse_optimizer_add_parameter(optimizer, group, &parameter, &id));
  check(stepfuse_optimizer_prepare(optimizer, nullptr));
  check(stepfuse_optimizer_bind(optimizer, id, &binding));
  return optimizer;
}

runtime::Optimizer inner_optimizer(Memory& memory) {
  runtime::OptimizerSettings settings;
  settings.threads = 1;
  auto optimizer = value(runtime::Optimizer::create(settings));
  const uint32_t group = value(optimizer.add_group("sgd", {{"lr", "0.1"}}));
  const uint32_t id = value(optimizer.add_parameter(group, "w", ir::ParameterSpec{{kElements}}));
  check(optimizer.prepare());
  check(optimizer.bind(id, memory.param.data(), memory.grad.data()));
  return optimizer;
}

template <class Step>
double microseconds_per_call(Step step) {
  const double start = bench::now();
  for (int i = 0; i < kCallsPerRound; ++i) step();
  return (bench::now() - start) * 1e6 / kCallsPerRound;
}

int run(const bench::Options& options) {
  bench::Report report("c_step_overhead", options);
  Memory outer_memory, inner_memory;
  stepfuse_context* context = nullptr;
  const stepfuse_option settings[] = {{"threads", "1"}};
  stepfuse_context_options context_options = stepfuse_context_options_init();
  context_options.settings = settings;
  context_options.settings_count = 1;
  check(stepfuse_context_create(&context_options, &context));
  stepfuse_optimizer* const outer = c_optimizer(context, outer_memory);
  runtime::Optimizer inner = inner_optimizer(inner_memory);
  std::vector<double> through_c, alone, overhead;
  for (int round = -2; round < options.rounds; ++round) {  // the first two are warm-up
    const double a = microseconds_per_call([&] { check(stepfuse_optimizer_step(outer, nullptr)); });
    const double b = microseconds_per_call([&] { check(inner.step()); });
    if (round < 0) continue;
    through_c.push_back(a);
    alone.push_back(b);
    overhead.push_back(a - b);
  }
  check(stepfuse_optimizer_destroy(outer));
  check(stepfuse_context_destroy(context));
  const bench::Spread spread = bench::spread_of(overhead);
  report.add("stepfuse_optimizer_step", bench::spread_of(through_c), "us");
  report.add("step alone", bench::spread_of(alone), "us");
  report.add("overhead", spread, "us");
  report.require_at_most("overhead", spread.median, kTargetMicroseconds);
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(bench::parse_options(argc, argv, 51));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
