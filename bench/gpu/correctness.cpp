// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What must hold on a device: the GPU tests, and steps of the command against the interpreter on generated tensors.
#include "bench/gpu/parts.h"
#include "bench/gpu/process.h"
#include "runtime/safetensors.h"

#include <cstring>
#include <fstream>
#include <random>

#include <unistd.h>

namespace stepfuse::gpu_check {

namespace {

namespace fs = std::filesystem;

/// GoogleTest's own report, down to what matters.
Json summary_of(const Json& all) {
  const int tests = all.at("tests"), failed = all.at("failures");
  int skipped = 0;
  Json failures = Json::array();
  for (const Json& suite : all.at("testsuites"))
    for (const Json& test : suite.at("testsuite")) {
      if (test.value("result", "") == "SKIPPED") ++skipped;
      if (!test.contains("failures")) continue;
      failures.push_back({{"test", suite.at("name").get<std::string>() + "." + test.at("name").get<std::string>()},
                          {"message", tail_of(test.at("failures").front().value("failure", ""))}});
    }
  return {{"name", "gpu_tests"},
          {"ran", tests - skipped},
          {"failed", failed},
          {"skipped", skipped},
          {"failures", failures}};
}

struct CheckedStep {
  const char* recipe;
  const char* mode;
  const char* dtype;  // "F32", "BF16"
  int steps;
};
constexpr CheckedStep kSteps[] = {
    {"adamw", "strict", "F32", 3},   {"adamw", "default", "F32", 3}, {"adamw", "strict", "BF16", 3},
    {"adamw", "default", "BF16", 3}, {"adam", "strict", "F32", 3},   {"adam", "default", "BF16", 3},
    {"sgd", "strict", "F32", 3},     {"sgd", "default", "BF16", 3},  {"muon", "strict", "F32", 2},
    {"muon", "default", "F32", 2},   {"muon", "strict", "BF16", 2},  {"muon", "default", "BF16", 2},
};

using Shape = std::vector<int64_t>;

std::vector<Shape> shapes_for(const CheckedStep& step, bool is_short) {
  const bool matrices = step.recipe == std::string("muon");
  // Equal ones are a batch; odd ones have tails everywhere; tall and wide ones differ in orientation.
  if (matrices && is_short) return {{16, 24}, {16, 24}, {24, 16}, {33, 35}};
  if (matrices) return {{64, 192}, {64, 192}, {64, 192}, {192, 64}, {96, 96}, {131, 67}, {67, 131}};
  if (is_short) return {{1000}, {3, 5}, {4097}, {1}};
  return {{1000}, {1000}, {3, 5}, {4097}, {100003}, {1}, {17, 64, 33}};
}

class Random {
 public:
  explicit Random(uint64_t seed) : generator_(seed) {}
  std::vector<std::byte> values(int64_t count, const std::string& dtype, float scale) {
    const size_t width = dtype == "F32" ? 4 : 2;
    std::vector<std::byte> bytes(static_cast<size_t>(count) * width);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const float value = scale * normal_(generator_);
      std::byte raw[4];
      std::memcpy(raw, &value, 4);
      std::memcpy(&bytes[i * width], raw + (4 - width), width);
    }
    return bytes;
  }

 private:
  std::mt19937_64 generator_;
  std::normal_distribution<float> normal_;
};

void write_tensors(const fs::path& path, const std::vector<Shape>& shapes, const std::string& dtype, uint64_t seed,
                   float scale) {
  Random random(seed);
  std::vector<std::vector<std::byte>> data;
  std::vector<runtime::TensorToWrite> tensors;
  for (const Shape& shape : shapes) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    data.push_back(random.values(count, dtype, scale));
    tensors.push_back({fmt::format("t{}", tensors.size()), dtype, shape, data.back().data()});
  }
  if (const Outcome written = runtime::write_safetensors(path.string(), tensors); !written)
    throw std::runtime_error(written.error().message);
}

}  // namespace

void run_gpu_tests(Report& report, const Folder& folder, bool is_short) {
  const fs::path results = fs::temp_directory_path() / fmt::format("stepfuse-gpu-tests-{}.json", getpid());
  std::vector<std::string> command{folder.tests().string(), "--gtest_output=json:" + results.string()};
  if (is_short) command.emplace_back("--gtest_filter=LtProducts.*:*adamw_defaults*:*muon_defaults*:*sgd_momentum_*");
  const Finished finished = run_program(command, {{"GOLDEN_DATA", folder.goldens().string()}});
  std::ifstream file(results);
  const Json all = Json::parse(file, nullptr, false);
  fs::remove(results);
  if (all.is_discarded())
    return report.failed(
        "gpu_tests", fmt::format("ended with {}: {}", finished.exit_code, tail_of(finished.output + finished.errors)));
  Json summary = summary_of(all);
  summary["exit_code"] = finished.exit_code;
  const bool passed =
      finished.exit_code == 0 && summary.at("failed") == 0 && summary.at("skipped") == 0 && summary.at("ran") > 0;
  report.test(summary, passed);
}

void run_checked_steps(Report& report, const Folder& folder, const fs::path& scratch, bool is_short) {
  Json failures = Json::array();
  int ran = 0;
  for (const CheckedStep& step : kSteps) {
    const auto file = [&](const char* name) { return (scratch / name).string(); };
    const auto shapes = shapes_for(step, is_short);
    write_tensors(file("p.safetensors"), shapes, step.dtype, 1, 0.5F);
    write_tensors(file("g.safetensors"), shapes, step.dtype, 2, 0.1F);
    const Finished finished = run_program(
        {folder.command().string(), "run", "--target", "cuda", "--recipe", step.recipe, "--mode", step.mode, "--params",
         file("p.safetensors"), "--grads", file("g.safetensors"), "--out", file("p1.safetensors"), "--state-out",
         file("s1.safetensors"), "--steps", std::to_string(step.steps), "--check"});
    ++ran;
    if (finished.exit_code != 0)
      failures.push_back({{"test", fmt::format("{}, {}, {}", step.recipe, step.mode, step.dtype)},
                          {"message", tail_of(finished.output + finished.errors)}});
  }
  report.test({{"name", "stepfuse run --target cuda --check"},
               {"ran", ran},
               {"failed", failures.size()},
               {"skipped", 0},
               {"failures", failures}},
              failures.empty());
}

}  // namespace stepfuse::gpu_check
