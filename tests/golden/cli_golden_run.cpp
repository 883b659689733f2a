// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/cli_golden_run.h"

#include "runtime/safetensors.h"
#include "tests/support/temporary_folder.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace stepfuse::golden {

namespace {

using Named = std::map<std::string, GoldenTensor>;

void write_tensors(const std::string& path, const Named& tensors) {
  std::vector<runtime::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors)
    list.push_back({name, tensor.dtype == ElementType::BF16 ? "BF16" : "F32", tensor.shape, tensor.bytes.data()});
  const Outcome written = runtime::write_safetensors(path, list);
  if (!written) throw std::runtime_error(written.error().message);
}

void write_inputs(const GoldenFile& file, const tests::TemporaryFolder& scratch) {
  Named parameters;
  Named gradients;
  for (const std::string& name : file.parameters()) {
    parameters[name] = file.before(name);
    gradients[name] = file.gradient(name, 1);
  }
  write_tensors(scratch / "params.safetensors", parameters);
  write_tensors(scratch / "grads.safetensors", gradients);
}

std::string quoted(const std::string& text) { return " '" + text + "'"; }

std::string command_line(const GoldenCase& golden, const std::string& target, Numerics numerics,
                         const tests::TemporaryFolder& scratch) {
  std::string command = quoted(STEPFUSE_BINARY) + " run --recipe" + quoted(golden.recipe);
  for (const auto& [key, value] : golden.options) command += " --set" + quoted(key + "=" + value);
  command += " --params" + quoted(scratch / "params.safetensors");
  command += " --grads" + quoted(scratch / "grads.safetensors");
  command += " --out" + quoted(scratch / "out.safetensors");
  command += " --state-out" + quoted(scratch / "state.safetensors");
  command += " --steps " + std::to_string(golden.steps) + " --target " + target;
  command += numerics == Numerics::Strict ? " --mode strict" : " --mode default";
  return command + " >" + quoted(scratch / "log") + " 2>&1";
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

}  // namespace

const std::vector<std::string>& command_cases() {
  static const std::vector<std::string> kCases{"adamw_10_steps",    "adamw_bf16",    "adam_everything",
                                               "sgd_momentum",      "muon_defaults", "muon_torch_test_inputs",
                                               "muon_f32_defaults", "a01_diagonal",  "a13_original"};
  return kCases;
}

void expect_command_agrees(const std::string& name, const std::string& target, Numerics numerics) {
  const GoldenCase& golden = golden_case(name);
  ASSERT_FALSE(golden.gradient_per_step) << "the command uses one gradient for all steps";
  const GoldenFile file(golden);
  const tests::TemporaryFolder scratch;
  write_inputs(file, scratch);
  const std::string command = command_line(golden, target, numerics, scratch);
  ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << text_of(scratch / "log");
  const auto out = open_output(scratch / "out.safetensors");
  const auto state = open_output(scratch / "state.safetensors");
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

}  // namespace stepfuse::golden
