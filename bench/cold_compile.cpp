// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Cold compile of the whole plan for GPT-2 small: 148 tensors, Muon on the 48 hidden matrices and AdamW on the rest.
// Every round is a fresh process, this program again. Target: from construction to the end of prepare() within 1 s on 2
// cores.
#include "bench/child.h"
#include "bench/gpt2.h"
#include "compiler/plan.h"
#include "runtime/cpu/jit.h"
#include "runtime/cpu/prepare_product.h"
#include "runtime/cpu/prepared.h"
#include "runtime/optimizer.h"
#include "runtime/state_memory.h"
#include "runtime/target.h"
#include "stepfuse/stepfuse.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace stepfuse;

namespace {

constexpr double kTarget = 1.0;

/// Runs `part` and records its wall time.
template <class Part>
auto timed(bench::Figures& times, const std::string& name, Part part) {
  const double start = bench::now();
  auto result = part();
  times.emplace_back(name, bench::now() - start);
  return result;
}

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// From nothing to a prepared optimizer, as a user writes it.
bench::Figures whole() {
  const double start = bench::now();
  Optimizer optimizer;
  bench::add_gpt2_small(optimizer);
  const double added = bench::now();
  optimizer.prepare();
  const double end = bench::now();
  return {{"whole", end - start},
          {"whole: prepare alone", end - added},
          {"compiled kernels", static_cast<double>(optimizer.summary().compiled_kernels)}};
}

runtime::Optimizer unprepared() {
  runtime::Optimizer optimizer = must(runtime::Optimizer::create({}));
  const uint32_t muon = must(optimizer.add_group("muon", {})), adamw = must(optimizer.add_group("adamw", {}));
  for (const bench::Tensor& tensor : bench::gpt2_small()) {
    const ir::ParameterSpec spec{tensor.shape, ir::DType::F32, ir::DType::F32, ir::DType::F32};
    must(optimizer.add_parameter(tensor.muon ? muon : adamw, tensor.name, spec));
  }
  return optimizer;
}

/// Bytes of the states: one buffer of a parameter's size for Muon, two for AdamW.
std::vector<int64_t> state_bytes() {
  std::vector<int64_t> bytes;
  for (const bench::Tensor& tensor : bench::gpt2_small())
    for (int state = 0; state < (tensor.muon ? 1 : 2); ++state)
      bytes.push_back(compiler::element_count(tensor.shape) * 4);
  return bytes;
}

/// The same work by parts, each for the first time in this process.
bench::Figures parts() {
  bench::Figures times;
  compiler::PlanOptions options;
  options.target = timed(times, "target, self-tests of products",
                         [] { return must(runtime::target_traits("cpu", must(runtime::Settings::resolve({}, {})))); });
  const runtime::Optimizer optimizer = timed(times, "rules of the parameters", unprepared);
  const auto plan = timed(times, "plan", [&] { return must(compiler::make_plan(optimizer.planned(), options)); });
  const std::unique_ptr<runtime::Device> host = runtime::make_host_device(runtime::default_allocator());
  const auto states = timed(times, "states", [&] { return must(runtime::StateMemory::create(state_bytes(), *host)); });
  compiler::BackendNotes notes;
  timed(times, "products", [&] {
    std::vector<std::unique_ptr<runtime::Gemm>> products;
    for (const compiler::GroupPlan& group : plan.groups) {
      const codegen::LoweredGroup lowered = codegen::lower_group(group, plan.mode);
      for (const codegen::LoweredStep& step : lowered.steps)
        if (step.kind == compiler::StepKind::Product)
          products.push_back(must(runtime::choose_gemm(step.product.shape, "", plan, notes)));
    }
    return products.size();
  });
  const auto context = must(runtime::Context::of_environment());
  timed(times, "loading LLVM", [&] { return must(runtime::cpu_compiler(context->settings().text("plugin_dir"))); });
  const runtime::CpuTarget target = must(runtime::cpu_target("cpu"));
  runtime::ThreadPool pool(0);
  int64_t compiled = 0;
  timed(times, "kernels (and products again, from caches)",
        [&] { return must(runtime::prepare_groups({plan, target, pool, notes, compiled, *context, {}})).size(); });
  return times;
}

int run(const bench::Options& options) {
  bench::Report report("cold_compile", options);
  bench::FigureTable table;
  setenv("STEPFUSE_CACHE", "off", 1);
  for (int round = 0; round < options.rounds; ++round)
    for (const char* mode : {"--child-whole", "--child-parts"}) table.add(bench::run_child(mode));
  table.report(report, {"compiled kernels"});
  report.require_at_most("whole", table.spread("whole").median, kTarget);
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::strcmp(argv[1], "--child-whole") == 0) return bench::print_figures(whole());
    if (argc == 2 && std::strcmp(argv[1], "--child-parts") == 0) return bench::print_figures(parts());
    return run(bench::parse_options(argc, argv, 9));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
