// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// AdamW on 64 M f32 parameters against a probe with the same memory traffic on the same memory by the same number of
// threads: 28 bytes per parameter, four streams read and three of them written in place. Target: 0.9 of the probe's
// bandwidth.
#include "bench/hand_loops.h"
#include "bench/report.h"
#include "bench/standing_threads.h"
#include "stepfuse/stepfuse.hpp"

#include <cstdio>

using namespace stepfuse;

namespace {

constexpr int64_t kElements = int64_t{64} << 20;
constexpr double kBytesPerParameter = 28;
constexpr double kTarget = 0.9;

/// The parameter and its optimizer.
struct Subject {
  Optimizer optimizer;
  bench::AdamTensors tensors;

  Subject(Numerics numerics, int threads, std::vector<float>& param, const std::vector<float>& grad)
      : optimizer(Settings{numerics, "cpu", threads, {}}), tensors{param.data(), grad.data(), nullptr, nullptr} {
    const GroupId group = optimizer.add_group("adamw", {{"lr", "1e-6"}});
    const ParameterId parameter = optimizer.add_parameter(group, "w", {kElements});
    optimizer.prepare();
    optimizer.bind(parameter, param.data(), grad.data());
    tensors.exp_avg = static_cast<float*>(optimizer.state(parameter, "exp_avg").data);
    tensors.exp_avg_sq = static_cast<float*>(optimizer.state(parameter, "exp_avg_sq").data);
    optimizer.step();  // touches every page
  }
};

void run_loop(bench::AdamLoop loop, bench::StandingThreads& threads, const Subject& subject) {
  const bench::AdamScalars scalars = bench::adam_scalars(1e-6, 0.01, 0.9, 0.999, 1e-8, 10);
  threads.run(kElements, 4096, [&](int64_t begin, int64_t end, int) { loop(subject.tensors, scalars, begin, end); });
}

template <class Run>
double seconds(Run run) {
  const double start = bench::now();
  run();
  return bench::now() - start;
}

/// Steps, hand-written loop and probe take turns.
void measure(const std::string& mode, Subject& subject, bench::StandingThreads& threads, int rounds,
             bench::Report& report) {
  std::vector<double> step, hand, probe;
  for (int round = 0; round < rounds; ++round) {
    probe.push_back(seconds([&] { run_loop(bench::bandwidth_probe(), threads, subject); }));
    step.push_back(seconds([&] { subject.optimizer.step(); }));
    hand.push_back(seconds([&] { run_loop(bench::hand_adamw(), threads, subject); }));
  }
  const auto per_parameter = [](std::vector<double> times) {
    for (double& time : times) time *= 1e9 / static_cast<double>(kElements);
    return bench::spread_of(std::move(times));
  };
  const bench::Spread ratio = bench::spread_of(bench::ratios(probe, step));
  report.add(mode + ": step", per_parameter(step), "ns/param");
  report.add(mode + ": hand-written loop", per_parameter(hand), "ns/param");
  report.add(mode + ": probe", per_parameter(probe), "ns/param");
  report.add(mode + ": probe", kBytesPerParameter / per_parameter(probe).median, "GB/s");
  report.add(mode + ": hand-written / step", bench::spread_of(bench::ratios(hand, step)), "");
  report.add(mode + ": share of the probe's bandwidth", ratio, "");
  report.require_at_least(mode + ": share of the probe's bandwidth", ratio.median, kTarget);
}

int run(const bench::Options& options) {
  std::vector<float> param(kElements), grad(kElements);
  for (size_t i = 0; i < param.size(); ++i) {
    param[i] = static_cast<float>(i % 1000) * 1e-3f;
    grad[i] = static_cast<float>(i * 7 % 977) * 1e-4f - 0.05f;
  }
  bench::Report report("adamw_bandwidth", options);
  bench::StandingThreads threads(bench::usable_threads());
  for (const Numerics numerics : {Numerics::Default, Numerics::Strict}) {
    Subject subject(numerics, threads.threads(), param, grad);
    measure(numerics == Numerics::Default ? "default" : "strict", subject, threads, options.rounds, report);
  }
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(bench::parse_options(argc, argv, 21));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
