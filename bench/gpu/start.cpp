// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts of GPT-2 small's Muon and AdamW plan in fresh processes: cold, with every kernel compiled, and warm, from the
// cache on disk.
#include "bench/gpu/model.h"
#include "bench/gpu/parts.h"
#include "bench/gpu/process.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

namespace stepfuse::gpu_check {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool is_mapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(name) != std::string::npos) return true;
  return false;
}

using Values = std::map<std::string, double>;

Values start(const std::vector<std::pair<std::string, std::string>>& variables, bool is_short) {
  std::vector<std::string> command{own_path(), "--child-start"};
  if (is_short) command.emplace_back("--short");
  const Finished finished = run_program(command, variables);
  if (finished.exit_code != 0)
    throw std::runtime_error("a start failed: " + tail_of(finished.output + finished.errors));
  Values values;
  std::istringstream lines(finished.output);
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) values[line.substr(0, tab)] = std::stod(line.substr(tab + 1));
  }
  return values;
}

}  // namespace

int print_start(bool is_short) {
  stepfuse::Settings settings;
  settings.target = "cuda";
  const double begin = now();
  Optimizer optimizer(settings);
  // The driver's own start belongs to the process, whatever it runs.
  const double created = now();
  const GroupId muon = optimizer.add_group("muon"), adamw = optimizer.add_group("adamw");
  for (const bench::Tensor& tensor : language_model(is_short))
    optimizer.add_parameter(tensor.muon ? muon : adamw, tensor.name, tensor.shape);
  optimizer.prepare();
  const double end = now();
  std::printf("create\t%.9f\nprepare\t%.9f\ncompiled\t%d\nnvrtc\t%d\n", created - begin, end - created,
              static_cast<int>(optimizer.summary().compiled_kernels), is_mapped("libnvrtc.so") ? 1 : 0);
  return 0;
}

void measure_start(const Bench& bench, const std::filesystem::path& scratch) {
  const std::vector<std::pair<std::string, std::string>> cold{{"STEPFUSE_CACHE", "off"}};
  const std::vector<std::pair<std::string, std::string>> warm{{"STEPFUSE_CACHE", "on"},
                                                              {"STEPFUSE_CACHE_DIR", (scratch / "warm").string()}};
  start(warm, bench.is_short);  // fills the cache
  Samples cold_seconds, warm_seconds, create_seconds;
  Values last_cold, last_warm;
  for (int round = 0; round < std::min(bench.rounds, 10); ++round) {
    last_cold = start(cold, bench.is_short);
    last_warm = start(warm, bench.is_short);
    cold_seconds.push_back(last_cold.at("prepare"));
    warm_seconds.push_back(last_warm.at("prepare"));
    create_seconds.push_back(last_warm.at("create"));
  }
  bench.report.fact("kernels compiled in a cold start", last_cold.at("compiled"));
  bench.report.fact("kernels compiled in a warm start", last_warm.at("compiled"));
  bench.report.fact("NVRTC opened in a warm start", last_warm.at("nvrtc") != 0);
  bench.report.figure("opening the driver and the device", "s", create_seconds);
  bench.report.figure("cold start of the plan", "s", cold_seconds);
  bench.report.figure("warm start of the plan", "s", warm_seconds);
  bench.report.at_most("cold start of the plan", 1.0, cold_seconds);
  bench.report.at_most("warm start of the plan", 0.02, warm_seconds);
}

}  // namespace stepfuse::gpu_check
