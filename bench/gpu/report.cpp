// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/report.h"

#include "ir/support/version.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <stdexcept>

namespace stepfuse::gpu_check {

namespace {

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

}  // namespace

double median(Samples samples) {
  if (samples.empty()) throw std::runtime_error("a figure without samples");
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

Samples ratios(const Samples& a, const Samples& b) {
  Samples result;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) result.push_back(a[i] / b[i]);
  return result;
}

Report::Report(Json machine, bool is_virtual, bool is_short) : has_numbers_(!is_virtual && !is_short) {
  json_["schema"] = "stepfuse-gpu-check/1";
  json_["virtual"] = is_virtual;
  json_["short"] = is_short;
  json_["passed"] = false;
  json_["date"] = utc_now();
  json_["commit"] = kGitDescribe;
  json_["machine"] = std::move(machine);
  for (const char* list : {"tests", "facts", "figures", "targets", "left_out", "failures"}) json_[list] = Json::array();
  if (is_virtual)
    left_out("numbers of all figures, all targets", "the device is virtual: its times are those of a CPU");
}

void Report::figure(const std::string& name, const std::string& unit, const Samples& samples) {
  Json figure{{"name", name}, {"unit", unit}, {"count", samples.size()}};
  if (has_numbers_) {
    figure["min"] = *std::min_element(samples.begin(), samples.end());
    figure["median"] = median(samples);
    figure["max"] = *std::max_element(samples.begin(), samples.end());
  }
  json_["figures"].push_back(std::move(figure));
}

void Report::fact(const std::string& name, Json value) {
  json_["facts"].push_back({{"name", name}, {"value", std::move(value)}});
}

void Report::left_out(const std::string& name, const std::string& reason) {
  json_["left_out"].push_back({{"name", name}, {"reason", reason}});
}

void Report::failed(const std::string& name, const std::string& reason) {
  json_["failures"].push_back({{"name", name}, {"reason", reason}});
  passed_ = false;
}

void Report::judge(const std::string& name, const char* bound, double limit, const Samples& samples) {
  if (!has_numbers_) return;
  const double value = median(samples);
  const bool met = bound == std::string("at least") ? value >= limit : value <= limit;
  json_["targets"].push_back({{"name", name}, {"value", value}, {"bound", bound}, {"limit", limit}, {"met", met}});
  targets_met_ = targets_met_ && met;
}

void Report::test(Json result, bool passed) {
  json_["tests"].push_back(std::move(result));
  passed_ = passed_ && passed;
}

std::string Report::text() const {
  Json whole = json_;
  whole["passed"] = passed_;
  // What a library says of itself need not be UTF-8.
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string file_name(const std::string& device_name) {
  std::string name = "gpu";
  bool gap = true;
  for (const char letter : device_name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) == 0) {
      gap = true;
      continue;
    }
    if (gap) name += '-';
    gap = false;
    name += static_cast<char>(std::tolower(byte));
  }
  return name + ".json";
}

}  // namespace stepfuse::gpu_check
