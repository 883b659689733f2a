// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Ratios against torch: torch_ratios.py runs both in one process, and says what it measured or why it could not.
#include "bench/gpu/parts.h"
#include "bench/gpu/process.h"

namespace stepfuse::gpu_check {

namespace {

constexpr const char* kPart = "ratios against torch";
constexpr int kWithoutTorch = 3;  // the script's exit code

void take(Report& report, const Json& measured) {
  for (const Json& fact : measured.at("facts")) report.fact(fact.at("name"), fact.at("value"));
  for (const Json& figure : measured.at("figures"))
    report.figure(figure.at("name"), figure.at("unit"), figure.at("samples").get<Samples>());
  for (const Json& entry : measured.at("left_out")) report.left_out(entry.at("name"), entry.at("reason"));
  for (const Json& entry : measured.at("targets"))
    report.at_least(entry.at("name"), entry.at("limit"), entry.at("samples").get<Samples>());
}

}  // namespace

void compare_with_torch(Report& report, const Folder& folder, const std::string& python, int rounds) {
  if (python.empty()) return report.left_out(kPart, "no Python was given with --python");
  const Finished finished = run_program(
      {python, "-B", folder.torch_script().string(), folder.library().string(), "--rounds", std::to_string(rounds)});
  if (finished.exit_code == kWithoutTorch) return report.left_out(kPart, tail_of(finished.errors));
  const Json measured = Json::parse(finished.output, nullptr, false);
  if (finished.exit_code != 0 || measured.is_discarded())
    return report.failed(kPart, fmt::format("{} ended with {}: {}", folder.torch_script().string(), finished.exit_code,
                                            tail_of(finished.errors)));
  take(report, measured);
}

}  // namespace stepfuse::gpu_check
