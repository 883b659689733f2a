// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace stepfuse::bench {

/// The options that every program here takes: --check (exit code 1 when a target is missed), --text (a table instead
/// of JSON), --rounds N.
struct Options {
  bool check = false;
  bool text = false;
  int rounds = 0;
};

/// Leaves the program with code 2 and a message on anything else.
Options parse_options(int argc, char** argv, int default_rounds);

/// Cores this process may use: what Settings::threads = 0 means.
int usable_threads();

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Median and the middle half of repeated measurements.
struct Spread {
  double median = 0, quarter = 0, three_quarters = 0;
};
Spread spread_of(std::vector<double> values);

/// a[i] / b[i] of interleaved rounds: what disturbs one round disturbs both of its measurements.
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

/// Figures, targets and the machine they belong to.
class Report {
 public:
  Report(std::string name, Options options);

  void add(const std::string& figure, const Spread& value, const std::string& unit);
  void add(const std::string& figure, double value, const std::string& unit);
  void require_at_least(const std::string& what, double value, double limit);
  void require_at_most(const std::string& what, double value, double limit);

  /// Prints everything; the exit code of the program.
  int finish();

 private:
  void require(const std::string& what, double value, const char* bound, double limit, bool met);
  void print_table() const;

  Options options_;
  nlohmann::ordered_json json_;
  bool all_met_ = true;
};

}  // namespace stepfuse::bench
