// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Cold compile of the whole plan for GPT-2 small: 148 tensors, Muon on the 48 hidden matrices and AdamW on the rest.
// Every round is a fresh process, this program again. Target: from construction to the end of prepare() within 1 s on 2
// cores.
#include "bench/report.h"
#include "compiler/plan.h"
#include "runtime/cpu/prepare_product.h"
#include "runtime/optimizer.h"
#include "runtime/state_memory.h"
#include "runtime/target.h"
#include "stepfuse/stepfuse.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include <unistd.h>

using namespace stepfuse;

namespace {

constexpr double kTarget = 1.0;

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  bool muon;
};

/// The parameter list of GPT-2 small, as in examples/manifests/gpt2-124m.toml.
std::vector<Tensor> gpt2_small() {
  std::vector<Tensor> tensors = {{"wte.weight", {50257, 768}, false}, {"wpe.weight", {1024, 768}, false}};
  for (int layer = 0; layer < 12; ++layer) {
    const std::string h = "h." + std::to_string(layer) + ".";
    for (const char* norm : {"ln_1", "ln_2"}) {
      tensors.push_back({h + norm + ".weight", {768}, false});
      tensors.push_back({h + norm + ".bias", {768}, false});
    }
    const std::vector<std::pair<std::string, std::array<int64_t, 2>>> products = {{"attn.c_attn", {768, 2304}},
                                                                                  {"attn.c_proj", {768, 768}},
                                                                                  {"mlp.c_fc", {768, 3072}},
                                                                                  {"mlp.c_proj", {3072, 768}}};
    for (const auto& [name, shape] : products) {
      tensors.push_back({h + name + ".weight", {shape[0], shape[1]}, true});
      tensors.push_back({h + name + ".bias", {shape[1]}, false});
    }
  }
  tensors.push_back({"ln_f.weight", {768}, false});
  tensors.push_back({"ln_f.bias", {768}, false});
  return tensors;
}

/// What a child measures, in order.
using Times = std::vector<std::pair<std::string, double>>;

/// Runs `part` and records its wall time.
template <class Part>
auto timed(Times& times, const std::string& name, Part part) {
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
Times whole() {
  const double start = bench::now();
  Optimizer optimizer;
  const GroupId muon = optimizer.add_group("muon"), adamw = optimizer.add_group("adamw");
  for (const Tensor& tensor : gpt2_small())
    optimizer.add_parameter(tensor.muon ? muon : adamw, tensor.name, tensor.shape);
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
  for (const Tensor& tensor : gpt2_small()) {
    const ir::ParameterSpec spec{tensor.shape, ir::DType::F32, ir::DType::F32, ir::DType::F32};
    must(optimizer.add_parameter(tensor.muon ? muon : adamw, tensor.name, spec));
  }
  return optimizer;
}

/// Bytes of the states: one buffer of a parameter's size for Muon, two for AdamW.
std::vector<int64_t> state_bytes() {
  std::vector<int64_t> bytes;
  for (const Tensor& tensor : gpt2_small())
    for (int state = 0; state < (tensor.muon ? 1 : 2); ++state)
      bytes.push_back(compiler::element_count(tensor.shape) * 4);
  return bytes;
}

/// The same work by parts, each for the first time in this process.
Times parts() {
  Times times;
  compiler::PlanOptions options;
  options.target = timed(times, "target, self-tests of products", [] { return must(runtime::target_traits("cpu")); });
  const runtime::Optimizer optimizer = timed(times, "rules of the parameters", unprepared);
  const auto plan = timed(times, "plan", [&] { return must(compiler::make_plan(optimizer.planned(), options)); });
  const auto states = timed(times, "states", [&] { return must(runtime::StateMemory::create(state_bytes())); });
  compiler::BackendNotes notes;
  timed(times, "products", [&] {
    std::vector<runtime::PreparedProduct> products;
    for (const compiler::GroupPlan& group : plan.groups)
      for (const compiler::GroupStep& step : group.steps)
        if (step.kind == compiler::StepKind::Product)
          products.push_back(must(runtime::prepare_product({group, step.node, plan, notes})));
    return products.size();
  });
  timed(times, "loading LLVM", [] { return must(runtime::cpu_compiler()); });
  const runtime::CpuTarget target = must(runtime::cpu_target("cpu"));
  runtime::ThreadPool pool(0);
  int64_t compiled = 0;
  timed(times, "kernels (and products again, from caches)",
        [&] { return must(runtime::prepare_groups({plan, target, pool, notes, compiled})).size(); });
  return times;
}

/// Runs this program again with `mode` and reads what it prints: "name<tab>value" lines.
Times run_child(const char* mode) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) throw std::runtime_error("cannot find this program");
  // The child's shell takes the name from the environment, so that no character of it needs quoting.
  setenv("STEPFUSE_BENCH_SELF", self, 1);
  const std::string command = std::string("exec \"$STEPFUSE_BENCH_SELF\" ") + mode;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (pipe == nullptr) throw std::runtime_error("cannot start a process");
  Times times;
  char name[128];
  double value = 0;
  while (std::fscanf(pipe.get(), " %127[^\t]\t%lf", name, &value) == 2) times.emplace_back(name, value);
  if (times.empty()) throw std::runtime_error("the child process failed");
  return times;
}

int print_times(const Times& times) {
  for (const auto& [name, value] : times) std::printf("%s\t%.9f\n", name.c_str(), value);
  return 0;
}

int run(const bench::Options& options) {
  bench::Report report("cold_compile", options);
  std::vector<std::string> order;
  std::map<std::string, std::vector<double>> values;
  for (int round = 0; round < options.rounds; ++round) {
    for (const char* mode : {"--child-whole", "--child-parts"}) {
      for (const auto& [name, value] : run_child(mode)) {
        if (!values.contains(name)) order.push_back(name);
        values[name].push_back(value);
      }
    }
  }
  for (const std::string& name : order)
    report.add(name, bench::spread_of(values[name]), name == "compiled kernels" ? "" : "s");
  report.require_at_most("whole", bench::spread_of(values["whole"]).median, kTarget);
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::strcmp(argv[1], "--child-whole") == 0) return print_times(whole());
    if (argc == 2 && std::strcmp(argv[1], "--child-parts") == 0) return print_times(parts());
    return run(bench::parse_options(argc, argv, 9));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
