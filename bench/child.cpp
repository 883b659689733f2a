// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/child.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include <unistd.h>

namespace stepfuse::bench {

Figures run_child(const std::string& mode) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) throw std::runtime_error("cannot find this program");
  // The child's shell takes both from the environment, so that no character of them needs quoting.
  setenv("BENCH_SELF", self, 1);
  setenv("BENCH_MODE", mode.c_str(), 1);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen("exec \"$BENCH_SELF\" \"$BENCH_MODE\"", "r"), pclose);
  if (pipe == nullptr) throw std::runtime_error("cannot start a process");
  Figures figures;
  char name[128];
  double value = 0;
  while (std::fscanf(pipe.get(), " %127[^\t]\t%lf", name, &value) == 2) figures.emplace_back(name, value);
  if (figures.empty()) throw std::runtime_error("the child process failed");
  return figures;
}

int print_figures(const Figures& figures) {
  for (const auto& [name, value] : figures) std::printf("%s\t%.9f\n", name.c_str(), value);
  return 0;
}

void FigureTable::add(const Figures& figures) {
  for (const auto& [name, value] : figures) {
    if (!values_.contains(name)) order_.push_back(name);
    values_[name].push_back(value);
  }
}

Spread FigureTable::spread(const std::string& name) const { return spread_of(values_.at(name)); }

void FigureTable::report(Report& report, const std::vector<std::string>& counts) const {
  for (const std::string& name : order_) {
    const bool count = std::find(counts.begin(), counts.end(), name) != counts.end();
    report.add(name, spread(name), count ? "" : "s");
  }
}

}  // namespace stepfuse::bench
