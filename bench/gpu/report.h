// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace stepfuse::gpu_check {

using Json = nlohmann::ordered_json;
using Samples = std::vector<double>;

double median(Samples samples);
/// a[i] / b[i]: of neighbouring rounds, so that what disturbs one disturbs both.
Samples ratios(const Samples& a, const Samples& b);
/// Each value through `convert`, e.g. seconds to bytes per second.
template <class Convert>
Samples converted(Samples samples, Convert convert) {
  for (double& value : samples) value = convert(value);
  return samples;
}

/// One JSON document, docs/gpu_check.md. On a virtual device times mean nothing, and after a short run they are not
/// those of the work that a figure names: figures are then named but hold no numbers, and no target is judged.
class Report {
 public:
  Report(Json machine, bool is_virtual, bool is_short);

  /// Something that depends on time.
  void figure(const std::string& name, const std::string& unit, const Samples& samples);
  /// What the device or a library answered: counts, names, yes and no.
  void fact(const std::string& name, Json value);
  void left_out(const std::string& name, const std::string& reason);
  /// A part that was to run and failed: the report does not pass.
  void failed(const std::string& name, const std::string& reason);
  /// A target of docs/gpu_check.md on the median of a figure.
  void at_least(const std::string& name, double limit, const Samples& samples) {
    judge(name, "at least", limit, samples);
  }
  void at_most(const std::string& name, double limit, const Samples& samples) {
    judge(name, "at most", limit, samples);
  }

  void test(Json result, bool passed);

  bool passed() const { return passed_; }
  /// Whether every target that was judged is met.
  bool targets_met() const { return targets_met_; }
  std::string device_name() const { return json_["machine"]["gpu"]; }
  std::string text() const;

 private:
  void judge(const std::string& name, const char* bound, double limit, const Samples& samples);

  Json json_;
  bool has_numbers_;
  bool passed_ = true, targets_met_ = true;
};

/// "gpu-nvidia-h200.json" for "NVIDIA H200".
std::string file_name(const std::string& device_name);

}  // namespace stepfuse::gpu_check
