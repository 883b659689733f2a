// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The language model of examples/charlm, run as a user runs it.
#ifdef STEPFUSE_CHARLM

#include <array>
#include <cstdio>
#include <regex>
#include <string>
#include <sys/wait.h>

#include <gtest/gtest.h>

namespace stepfuse {
namespace {

struct Finished {
  int exit_code = -1;  // -1: it did not exit by itself
  std::string output;  // both streams
};

Finished run(const std::string& arguments) {
  Finished finished;
  FILE* pipe = popen(("'" STEPFUSE_CHARLM "' " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return finished;
  std::array<char, 4096> buffer;
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    finished.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  return finished;
}

TEST(Charlm, GradientsAgreeWithFiniteDifferences) {
  const Finished finished = run("--check-gradients");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
}

/// The main job on real text: the held-out loss is below the bigram baseline.
TEST(Charlm, HeldOutLossIsBelowTheBigramBaseline) {
  const Finished finished = run("--no-compare --steps 150 --require-below-bigram");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  std::smatch parameters;
  ASSERT_TRUE(std::regex_search(finished.output, parameters, std::regex("context [0-9]+: ([0-9]+) parameters")))
      << finished.output;
  EXPECT_GE(std::stol(parameters[1]), 1'000'000);
  EXPECT_NE(finished.output.find("bigram counts"), std::string::npos) << finished.output;
}

/// The requirement can fail: two steps do not reach the baseline.
TEST(Charlm, LossAboveTheBaselineFailsWhenRequired) {
  const Finished finished = run("--no-compare --steps 2 --batch 2 --require-below-bigram");
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_NE(finished.output.find("not below the bigram baseline"), std::string::npos) << finished.output;
}

TEST(Charlm, FusedAndUnfusedTrainingsAreIdenticalInStrict) {
  const Finished finished = run("--steps 5");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_NE(finished.output.find("identical losses: yes (5 steps)"), std::string::npos) << finished.output;
  std::smatch launches;
  ASSERT_TRUE(std::regex_search(finished.output, launches, std::regex("launches per step +([0-9]+) +([0-9]+)")))
      << finished.output;
  EXPECT_LT(std::stol(launches[1]), std::stol(launches[2])) << finished.output;
}

TEST(Charlm, WrongUsageExitsWithTwoAndAHint) {
  const struct {
    const char *arguments, *message, *hint;
  } cases[] = {{"--step 5", "unknown option '--step'", "--steps"},
               {"--steps 0", "'0' is not a value of --steps", "1 to"},
               {"--steps", "--steps lacks its value", "--steps N"},
               {"--numerics fast", "'fast' is not a value of --numerics", "strict, default"},
               {"--no-compare=1", "--no-compare takes no value", "alone"},
               {"--threads -1", "'-1' is not a value of --threads", "0 to"}};
  for (const auto& [arguments, message, hint] : cases) {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit_code, 2) << arguments << ": " << finished.output;
    EXPECT_NE(finished.output.find(message), std::string::npos) << finished.output;
    EXPECT_NE(finished.output.find("hint: "), std::string::npos) << finished.output;
    EXPECT_NE(finished.output.find(hint), std::string::npos) << finished.output;
  }
}

TEST(Charlm, MissingTextExitsWithThree) {
  const Finished finished = run("--text /no/such/text");
  EXPECT_EQ(finished.exit_code, 3) << finished.output;
  EXPECT_NE(finished.output.find("/no/such/text"), std::string::npos) << finished.output;
}

}  // namespace
}  // namespace stepfuse

#endif  // STEPFUSE_CHARLM
