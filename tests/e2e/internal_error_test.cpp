// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/cli_harness.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::e2e {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// A compiler whose objects do not load: exit 1, a message that names the report, and the report.
TEST(InternalError, NamesItsReport) {
  const CliFolder folder;
  folder.write("p.safetensors", {{"w", random_f32({4, 6}, 1)}});
  const std::string environment =
      fmt::format("STEPFUSE_PLUGIN_DIR='{}' STEPFUSE_CACHE=off STEPFUSE_DUMP_DIR=dumps", STEPFUSE_BROKEN_PLUGIN);
  const std::string arguments = "run --recipe adamw --params p.safetensors --grads p.safetensors --out p1.safetensors";
  const std::string command =
      fmt::format("cd '{}' && {} '{}' {} 2> err.txt", folder.path("."), environment, STEPFUSE_BINARY, arguments);
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  const std::string message = folder.read_text("err.txt");
  EXPECT_THAT(message, HasSubstr("kernel stepfuse_adamw_update_f32 was compiled but cannot be loaded"));
  const size_t named = message.find("dumps/stepfuse-repro-");
  ASSERT_NE(named, std::string::npos) << message;
  const std::string report = message.substr(named, message.find_first_of(" \n", named) - named);
  EXPECT_THAT(folder.read_text(report + "/error.txt"), HasSubstr("not a kernel object: no 64-bit"));
  EXPECT_THAT(folder.read_text(report + "/versions.txt"), HasSubstr("broken compiler"));
  EXPECT_THAT(folder.read_text(report + "/kernels.txt"), HasSubstr("stepfuse_adamw_update_f32"));
  EXPECT_THAT(folder.read_text(report + "/README.txt"), HasSubstr("stepfuse inspect --recipe adamw."));
  EXPECT_THAT(folder.files(), testing::Not(Contains("p1.safetensors")));
}

}  // namespace
}  // namespace stepfuse::e2e
