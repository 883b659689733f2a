// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The language model of examples/charlm with its optimizer on the virtual device: the CPU's losses, and what a step
// asks of the driver.
#include "runtime/cuda/nvrtc.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <regex>
#include <string>
#include <sys/wait.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse {
namespace {

using testing::ElementsAre;

struct Finished {
  int exit_code = -1;
  std::string output;
};

Finished run_charlm(const std::string& environment, const std::string& arguments) {
  Finished finished;
  FILE* pipe =
      popen((environment + " '" STEPFUSE_CHARLM "' --no-compare --batch 4 " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return finished;
  std::array<char, 4096> buffer;
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    finished.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  return finished;
}

std::vector<std::string> losses(const std::string& output) {
  static const std::regex kLoss("step +[0-9]+/[0-9]+  loss ([0-9.]+)|held-out loss, nats per character +([0-9.]+)");
  std::vector<std::string> found;
  for (std::sregex_iterator it(output.begin(), output.end(), kLoss), end; it != end; ++it)
    found.push_back((*it)[1].matched ? (*it)[1] : (*it)[2]);
  return found;
}

/// The driver's calls of the last of the steps: from where it makes its context current to where it gives it back.
std::vector<std::string> calls_of_last_step(const std::string& trace) {
  std::vector<std::string> calls, step;
  std::ifstream file(trace);
  for (std::string line; std::getline(file, line);) {
    const std::string call = line.substr(0, line.find(' '));
    if (call.starts_with("cuCtxPushCurrent")) calls.clear();
    calls.push_back(call);
    if (call.starts_with("cuCtxPopCurrent") && std::find(calls.begin(), calls.end(), "cuGraphLaunch") != calls.end())
      step = std::exchange(calls, {});
  }
  return step;
}

TEST(CharlmOnDevice, TrainsToTheCpusLossesWithOneGraphLaunchPerStep) {
  const auto settings = runtime::Settings::resolve({}, runtime::Settings::process_environment()).value();
  if (const auto nvrtc = runtime::Nvrtc::open(settings); !nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const tests::TemporaryFolder folder;
  const std::string trace = folder / "trace";
  const Finished device = run_charlm("VGPU_SEED=5 VGPU_TRACE='" + trace + "'", "--steps 4 --target cuda");
  ASSERT_EQ(device.exit_code, 0) << device.output;
  const Finished cpu = run_charlm("", "--steps 4 --target cpu");
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  EXPECT_EQ(losses(device.output).size(), 5U) << device.output;
  EXPECT_EQ(losses(device.output), losses(cpu.output));
  // Looking at the stream, and the schedule's new learning rates, launch nothing.
  EXPECT_THAT(calls_of_last_step(trace),
              ElementsAre("cuCtxPushCurrent_v2", "cuStreamIsCapturing", "cuGraphExecKernelNodeSetParams_v2",
                          "cuGraphLaunch", "cuCtxPopCurrent_v2"));
}

}  // namespace
}  // namespace stepfuse
