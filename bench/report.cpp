// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include "ir/support/version.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/thread_pool.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

namespace stepfuse::bench {

namespace {

/// Runnable processes, averaged over the last minute: above the number of cores, times are not to be trusted.
double load_average() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

nlohmann::ordered_json describe_machine() {
  const runtime::CpuTarget host = runtime::host_cpu_target(runtime::read_cpuid());
  return {{"threads", usable_threads()},
          {"features", host.llvm_features},
          {"amx_bf16", host.amx_bf16},
          {"avx512_bf16", host.avx512_bf16},
          {"load_before", load_average()}};
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

[[noreturn]] void usage(std::string_view wrong) {
  fmt::print(stderr, "bad argument '{}'; options are --check, --text, --rounds N with N from 1 to 100000\n", wrong);
  std::exit(2);
}

}  // namespace

Options parse_options(int argc, char** argv, int default_rounds) {
  Options options;
  options.rounds = default_rounds;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--check") {
      options.check = true;
    } else if (argument == "--text") {
      options.text = true;
    } else if (argument == "--rounds" && i + 1 < argc) {
      options.rounds = std::atoi(argv[++i]);
      if (options.rounds < 1 || options.rounds > 100000) usage(argv[i]);
    } else {
      usage(argument);
    }
  }
  return options;
}

int usable_threads() { return runtime::ThreadPool(0).threads(); }

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values[values.size() / 4], values[values.size() * 3 / 4]};
}

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) out.push_back(a[i] / b[i]);
  return out;
}

Report::Report(std::string name, Options options) : options_(options) {
  json_["bench"] = std::move(name);
  json_["commit"] = kGitDescribe;
  json_["rounds"] = options.rounds;
  json_["machine"] = describe_machine();
  json_["figures"] = nlohmann::ordered_json::array();
  json_["targets"] = nlohmann::ordered_json::array();
}

void Report::add(const std::string& figure, const Spread& value, const std::string& unit) {
  json_["figures"].push_back({{"name", figure},
                              {"median", value.median},
                              {"quarter", value.quarter},
                              {"three_quarters", value.three_quarters},
                              {"unit", unit}});
}

void Report::add(const std::string& figure, double value, const std::string& unit) {
  add(figure, Spread{value, value, value}, unit);
}

void Report::require_at_least(const std::string& what, double value, double limit) {
  require(what, value, "at least", limit, value >= limit);
}

void Report::require_at_most(const std::string& what, double value, double limit) {
  require(what, value, "at most", limit, value <= limit);
}

void Report::require(const std::string& what, double value, const char* bound, double limit, bool met) {
  json_["targets"].push_back({{"name", what}, {"value", value}, {"bound", bound}, {"limit", limit}, {"met", met}});
  all_met_ = all_met_ && met;
}

int Report::finish() {
  json_["machine"]["load_after"] = load_average();
  if (options_.text) {
    print_table();
  } else {
    fmt::print("{}\n", json_.dump(2));
  }
  return options_.check && !all_met_ ? 1 : 0;
}

void Report::print_table() const {
  const auto& machine = json_["machine"];
  fmt::print("{}, {} rounds, {} threads, load {} before and {} after\n", json_["bench"].get<std::string>(),
             options_.rounds, machine["threads"].get<int>(), number(machine["load_before"]),
             number(machine["load_after"]));
  for (const auto& figure : json_["figures"])
    fmt::print("  {:<46} {:>9} {:<12} ({} .. {})\n", figure["name"].get<std::string>(), number(figure["median"]),
               figure["unit"].get<std::string>(), number(figure["quarter"]), number(figure["three_quarters"]));
  for (const auto& target : json_["targets"])
    fmt::print("  {:<46} {:>9} {} {}: {}\n", target["name"].get<std::string>(), number(target["value"]),
               target["bound"].get<std::string>(), number(target["limit"]), target["met"] ? "met" : "MISSED");
}

}  // namespace stepfuse::bench
