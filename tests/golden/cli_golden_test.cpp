// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// A few golden cases through `stepfuse run`, safetensors to safetensors.
#include "runtime/safetensors.h"
#include "tests/golden/golden_cases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::golden {
namespace {

/// A folder of its own, removed at the end.
class Scratch {
 public:
  Scratch() {
    std::string pattern = testing::TempDir() + "stepfuse-golden-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
    folder_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(const std::string& file) const { return (folder_ / file).string(); }

 private:
  std::filesystem::path folder_;
};

using Named = std::map<std::string, GoldenTensor>;

void write_tensors(const std::string& path, const Named& tensors) {
  std::vector<runtime::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors)
    list.push_back({name, tensor.dtype == ElementType::BF16 ? "BF16" : "F32", tensor.shape, tensor.bytes.data()});
  const Outcome written = runtime::write_safetensors(path, list);
  if (!written) throw std::runtime_error(written.error().message);
}

void write_inputs(const GoldenFile& file, const Scratch& scratch) {
  Named parameters;
  Named gradients;
  for (const std::string& name : file.parameters()) {
    parameters[name] = file.before(name);
    gradients[name] = file.gradient(name, 1);
  }
  write_tensors(scratch.path("params.safetensors"), parameters);
  write_tensors(scratch.path("grads.safetensors"), gradients);
}

std::string quoted(const std::string& text) { return " '" + text + "'"; }

std::string command_line(const GoldenCase& golden, const std::string& target, Numerics numerics,
                         const Scratch& scratch) {
  std::string command = quoted(STEPFUSE_BINARY) + " run --recipe" + quoted(golden.recipe);
  for (const auto& [key, value] : golden.options) command += " --set" + quoted(key + "=" + value);
  command += " --params" + quoted(scratch.path("params.safetensors"));
  command += " --grads" + quoted(scratch.path("grads.safetensors"));
  command += " --out" + quoted(scratch.path("out.safetensors"));
  command += " --state-out" + quoted(scratch.path("state.safetensors"));
  command += " --steps " + std::to_string(golden.steps) + " --target " + target;
  command += numerics == Numerics::Strict ? " --mode strict" : " --mode default";
  return command + " >" + quoted(scratch.path("log")) + " 2>&1";
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

runtime::SafetensorsFile open_output(const std::string& path) {
  auto file = runtime::SafetensorsFile::open(path);
  if (!file) throw std::runtime_error(path + ": " + file.error().message);
  return std::move(*file);
}

using Parameters = std::tuple<std::string, std::string, Numerics>;

class CliGoldenTest : public testing::TestWithParam<Parameters> {};

TEST_P(CliGoldenTest, AgreesWithThePeer) {
  const auto& [name, target, numerics] = GetParam();
  const GoldenCase& golden = golden_case(name);
  ASSERT_FALSE(golden.gradient_per_step) << "the command uses one gradient for all steps";
  const GoldenFile file(golden);
  const Scratch scratch;
  write_inputs(file, scratch);
  const std::string command = command_line(golden, target, numerics, scratch);
  ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << text_of(scratch.path("log"));
  const auto out = open_output(scratch.path("out.safetensors"));
  const auto state = open_output(scratch.path("state.safetensors"));
  EXPECT_EQ(out.tensors().size(), file.parameters().size());
  for (const std::string& parameter : file.parameters()) {
    SCOPED_TRACE("parameter " + parameter);
    EXPECT_TRUE(
        parameter_agrees(golden, numerics, read_tensor(out, parameter), file.after(parameter), file.before(parameter)));
    for (const auto& [key, expected] : file.states(parameter))
      EXPECT_TRUE(state_agrees(golden, numerics, read_tensor(state, parameter + "." + key), expected))
          << "state " << key;
  }
}

std::string test_name(const testing::TestParamInfo<Parameters>& info) {
  const auto& [name, target, numerics] = info.param;
  return name + "_" + target + (numerics == Numerics::Strict ? "_strict" : "_default");
}

INSTANTIATE_TEST_SUITE_P(Cases, CliGoldenTest,
                         testing::Combine(testing::Values("adamw_10_steps", "adamw_bf16", "adam_everything",
                                                          "sgd_momentum", "muon_defaults", "muon_torch_test_inputs",
                                                          "muon_f32_defaults", "a01_diagonal", "a13_original"),
                                          testing::Values("interp", "cpu"),
                                          testing::Values(Numerics::Strict, Numerics::Default)),
                         test_name);

}  // namespace
}  // namespace stepfuse::golden
