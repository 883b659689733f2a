// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole steps through the public C++ interface: AdamW against a copy on the device, many small tensors, Muon on GPT-2
// small and on a layer of experts, with and without the passes in question.
#include "bench/gpu/model.h"
#include "bench/gpu/parts.h"

#include <algorithm>

namespace stepfuse::gpu_check {

namespace {

/// A copy from one half of a buffer to the other: the driver's own, which reads and writes as fast as the memory does.
class CopyProbe {
 public:
  CopyProbe(const Gpu& gpu, int64_t bytes) : gpu_(gpu), from_(gpu, bytes), to_(gpu, bytes) {
    gpu.fill(from_, ElementType::F32, 1.0);
  }
  void enqueue() const {
    gpu_.must(gpu_.call().cuMemcpyDtoDAsync(to_.address(), from_.address(), static_cast<size_t>(from_.bytes()),
                                            gpu_.stream()),
              "copying on the device");
  }
  double rate(double seconds) const { return 2.0 * static_cast<double>(from_.bytes()) / seconds; }

 private:
  const Gpu& gpu_;
  Buffer from_, to_;
};

/// Bytes that a step of AdamW moves, by the plan's own count.
double bytes_of(const Model& model) {
  return model.optimizer().summary().bytes_per_param * static_cast<double>(model.elements());
}

void adamw_against_copy(const Bench& bench, ElementType dtype, const std::string& name, double target) {
  // Four tensors per parameter in f32 and two for the probe must fit.
  const int64_t fits = bench.gpu.device().memory_bytes / 64;
  const int64_t count = bench.size<int64_t>(std::min<int64_t>(int64_t{10} << 24, fits / 1024 * 1024), 10000);
  Model model(bench.gpu, equal_tensors(10, {count / 10}, false), {dtype, {}});
  const CopyProbe probe(bench.gpu, bench.size<int64_t>(int64_t{1} << 30, 1 << 16));
  const auto samples = bench.gpu.interleave(bench.rounds, {[&] { probe.enqueue(); }, [&] { model.step(); }});
  const auto copy = converted(samples[0], [&](double seconds) { return probe.rate(seconds); });
  const auto step = converted(samples[1], [&](double seconds) { return bytes_of(model) / seconds; });
  bench.report.fact(name + ", parameters", model.elements());
  bench.report.fact(name + ", bytes per parameter", model.optimizer().summary().bytes_per_param);
  bench.report.figure(name + ", step", "s", samples[1]);
  bench.report.figure(name + ", step", "B/s", step);
  bench.report.figure("copy on the device beside " + name, "B/s", copy);
  bench.report.figure(name + " / copy", "ratio", ratios(step, copy));
  bench.report.at_least(name + " / copy", target, ratios(step, copy));
}

void small_tensors(const Bench& bench, int64_t count, int64_t elements, double target) {
  const std::string name = fmt::format("AdamW, {} tensors of {} f32", count, elements);
  Model model(bench.gpu, equal_tensors(bench.size<int64_t>(count, 20), {elements}, false));
  const auto samples = bench.gpu.interleave(bench.rounds, {[&] { model.step(); }});
  bench.report.figure(name + ", step", "s", samples[0]);
  bench.report.at_most(name + ", step", target, samples[0]);
}

Json counts_of(const Model& model) {
  const PlanSummary s = model.optimizer().summary();
  return {{"launches", s.launches},
          {"elementwise_launches", s.elementwise_launches},
          {"gemms", s.gemms},
          {"aux_launches", s.aux_launches},
          {"gemm_flops", s.gemm_flops},
          {"bytes_per_param", s.bytes_per_param},
          {"workspace_bytes", s.workspace_bytes}};
}

/// Host seconds of one step while the device is free; the next begins when it has finished.
Samples host_seconds(const Bench& bench, Model& model) {
  Samples samples;
  for (int round = 0; round < bench.rounds; ++round) {
    bench.gpu.wait();
    const auto begin = std::chrono::steady_clock::now();
    model.step();
    samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  bench.gpu.wait();
  return samples;
}

/// The same tensors with a pass switched off, side by side.
void without_pass(const Bench& bench, const std::vector<bench::Tensor>& tensors, const std::string& what,
                  const std::string& pass) {
  Model with(bench.gpu, tensors), without(bench.gpu, tensors, {ElementType::F32, {pass}});
  const auto samples = bench.gpu.interleave(bench.rounds, {[&] { with.step(); }, [&] { without.step(); }});
  bench.report.figure(fmt::format("{} step without {} / with it", what, pass), "ratio", ratios(samples[1], samples[0]));
}

}  // namespace

void measure_adamw(const Bench& bench) {
  adamw_against_copy(bench, ElementType::F32, "AdamW f32", 0.93);
  adamw_against_copy(bench, ElementType::BF16, "AdamW bf16", 0.88);
}

void measure_small_tensors(const Bench& bench) {
  small_tensors(bench, 10000, 64, 1e-4);
  small_tensors(bench, 1000, 1024, 4e-5);
}

void measure_muon(const Bench& bench) {
  const auto all = language_model(bench.is_short);
  const auto matrices = muon_part(all);
  const std::string what = bench.is_short ? "Muon, small model" : "Muon, GPT-2 small's 48 matrices";
  Model model(bench.gpu, matrices);
  bench.report.fact(what + ", plan", counts_of(model));
  const auto samples = bench.gpu.interleave(bench.rounds, {[&] { model.step(); }});
  bench.report.figure(what + ", step", "s", samples[0]);
  bench.report.figure(what + ", products", "FLOP/s", converted(samples[0], [&](double seconds) {
                        return model.optimizer().summary().gemm_flops / seconds;
                      }));
  bench.report.at_most(what + ", step", 3e-3, samples[0]);
  Model whole(bench.gpu, all);
  const auto both = bench.gpu.interleave(bench.rounds, {[&] { whole.step(); }});
  const std::string mixed = bench.is_short ? "Muon and AdamW, small model" : "Muon and AdamW, GPT-2 small";
  bench.report.fact(mixed + ", plan", counts_of(whole));
  bench.report.figure(mixed + ", step", "s", both[0]);
  const Samples host = host_seconds(bench, whole);
  bench.report.figure(mixed + ", host time of a step", "s", host);
  bench.report.at_most(mixed + ", host time of a step", 50e-6, host);
  for (const char* pass : {"absorb_update", "absorb_scale", "branches"}) without_pass(bench, matrices, what, pass);
}

void measure_experts(const Bench& bench) {
  // Parameters, gradients, momentum in f32, and as much again for scratch in bf16 and what else lives.
  const int64_t matrix = bench.size<int64_t>(768 * 2048, 16 * 48) * 4;
  const int64_t count = bench.size(std::min<int64_t>(384, bench.gpu.device().memory_bytes / (matrix * 6)), int64_t{4});
  const std::vector<int64_t> shape = bench.is_short ? std::vector<int64_t>{16, 48} : std::vector<int64_t>{768, 2048};
  Model model(bench.gpu, equal_tensors(count, shape, true));
  const std::string what = fmt::format("Muon, {} experts of {} x {}", count, shape[0], shape[1]);
  bench.report.fact(what + ", plan", counts_of(model));
  const auto samples = bench.gpu.interleave(bench.rounds, {[&] { model.step(); }});
  bench.report.figure(what + ", step", "s", samples[0]);
  bench.report.figure(what + ", products", "FLOP/s", converted(samples[0], [&](double seconds) {
                        return model.optimizer().summary().gemm_flops / seconds;
                      }));
}

}  // namespace stepfuse::gpu_check
