// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// AdamW on 500 tensors of 4096 against a hand-written loop, one fused pass per tensor shared by standing threads.
// Target: at most 1.6 of its time. A round is some steps in a row, as in training with small models.
#include "bench/hand_loops.h"
#include "bench/report.h"
#include "bench/standing_threads.h"
#include "stepfuse/stepfuse.hpp"

#include <cstdio>

using namespace stepfuse;

namespace {

constexpr size_t kTensors = 500;
constexpr int64_t kElements = 4096;
constexpr int kStepsPerRound = 20;
constexpr double kTarget = 1.6;

struct Tensor {
  std::vector<float> param, grad, exp_avg, exp_avg_sq;
};

/// Every tensor in memory of its own, as a framework allocates it.
std::vector<Tensor> make_tensors() {
  std::vector<Tensor> tensors(kTensors);
  for (size_t t = 0; t < kTensors; ++t) {
    Tensor& tensor = tensors[t];
    for (auto* values : {&tensor.param, &tensor.grad, &tensor.exp_avg, &tensor.exp_avg_sq}) values->resize(kElements);
    for (size_t i = 0; i < tensor.param.size(); ++i) {
      tensor.param[i] = static_cast<float>(i % 1000) * 1e-3f;
      tensor.grad[i] = static_cast<float>((i + t) * 7 % 977) * 1e-4f - 0.05f;
    }
  }
  return tensors;
}

Optimizer make_optimizer(std::vector<Tensor>& tensors, int threads) {
  Optimizer optimizer(Settings{Numerics::Default, "cpu", threads, {}});
  const GroupId group = optimizer.add_group("adamw", {{"lr", "1e-6"}});
  std::vector<ParameterId> parameters;
  for (size_t t = 0; t < kTensors; ++t)
    parameters.push_back(optimizer.add_parameter(group, "w" + std::to_string(t), {kElements}));
  optimizer.prepare();
  for (size_t t = 0; t < kTensors; ++t) optimizer.bind(parameters[t], tensors[t].param.data(), tensors[t].grad.data());
  return optimizer;
}

void hand_step(std::vector<Tensor>& tensors, bench::StandingThreads& threads, int64_t step) {
  const bench::AdamScalars scalars = bench::adam_scalars(1e-6, 0.01, 0.9, 0.999, 1e-8, step);
  const bench::AdamLoop loop = bench::hand_adamw();
  threads.run(static_cast<int64_t>(kTensors), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      Tensor& tensor = tensors[static_cast<size_t>(t)];
      loop({tensor.param.data(), tensor.grad.data(), tensor.exp_avg.data(), tensor.exp_avg_sq.data()}, scalars, 0,
           kElements);
    }
  });
}

template <class Step>
double microseconds_per_tensor(Step step) {
  const double start = bench::now();
  for (int i = 1; i <= kStepsPerRound; ++i) step(i);
  return (bench::now() - start) * 1e6 / (kStepsPerRound * static_cast<double>(kTensors));
}

int run(const bench::Options& options) {
  bench::Report report("many_tensors", options);
  bench::StandingThreads threads(bench::usable_threads());
  auto ours = make_tensors(), theirs = make_tensors();
  Optimizer optimizer = make_optimizer(ours, threads.threads());
  std::vector<double> step, hand;
  for (int round = -2; round < options.rounds; ++round) {  // the first two are warm-up
    const double a = microseconds_per_tensor([&](int64_t) { optimizer.step(); });
    const double b = microseconds_per_tensor([&](int64_t i) { hand_step(theirs, threads, i); });
    if (round < 0) continue;
    step.push_back(a);
    hand.push_back(b);
  }
  const bench::Spread ratio = bench::spread_of(bench::ratios(step, hand));
  report.add("step", bench::spread_of(step), "us/tensor");
  report.add("hand-written loop", bench::spread_of(hand), "us/tensor");
  report.add("step / hand-written loop", ratio, "");
  report.require_at_most("step / hand-written loop", ratio.median, kTarget);
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(bench::parse_options(argc, argv, 101));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
