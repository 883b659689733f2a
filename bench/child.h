// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/report.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stepfuse::bench {

/// What a child process measures, in order: a name and a number.
using Figures = std::vector<std::pair<std::string, double>>;

/// Starts this program again with `mode` as its one argument and reads what print_figures() wrote there.
Figures run_child(const std::string& mode);
int print_figures(const Figures& figures);

/// The same figures of many children.
class FigureTable {
 public:
  void add(const Figures& figures);
  Spread spread(const std::string& name) const;
  /// In order of first appearance; names in `counts` have no unit, the others are seconds.
  void report(Report& report, const std::vector<std::string>& counts) const;

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> values_;
};

}  // namespace stepfuse::bench
