// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The program that is started is a script that says what it was given.
#include "runtime/cuda/disassemble.h"

#include "tests/support/temporary_folder.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Disassemble : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& script) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n" << script;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  std::string program(const std::vector<std::string>& environment) {
    const auto found = find_disassembler(environment, folder_ / "default");
    return found ? found->program : found.error().message;
  }

  tests::TemporaryFolder folder_;
};

TEST_F(Disassemble, PlacesComeInTheirOrder) {
  EXPECT_THAT(program({}), HasSubstr("neither nvdisasm nor cuobjdump was found"));
  EXPECT_THAT(find_disassembler({}, folder_ / "default").error().hint, HasSubstr("nvidia-cuda-nvdisasm"));
  const std::string other = put("bin/cuobjdump", "");
  const std::vector<std::string> environment{"PATH=/nowhere:" + (folder_ / "bin"), "VIRTUAL_ENV=" + (folder_ / "venv"),
                                             "CUDA_HOME=" + (folder_ / "home")};
  EXPECT_EQ(program(environment), other);
  const std::vector<std::string> of_default{put("default/bin/nvdisasm", "")};
  EXPECT_EQ(program(environment), of_default[0]) << "nvdisasm is the better one wherever it lies";
  const std::string home = put("home/bin/nvdisasm", "");
  EXPECT_EQ(program(environment), home);
  const std::string wheel = put("venv/lib/python3.11/site-packages/nvidia/cu13/bin/nvdisasm", "");
  EXPECT_EQ(program(environment), wheel);
  const std::string on_path = put("bin/nvdisasm", "");
  EXPECT_EQ(program(environment), on_path);
}

TEST_F(Disassemble, TheProgramGetsTheCodeAsAFile) {
  const std::string name = put("a program; with $(odd) name", "echo \"$# $1\"; cat \"$2\"; echo more >&2");
  const std::string code("machine\0code", 12);
  const auto text = disassemble({name, {"-c"}}, {reinterpret_cast<const std::byte*>(code.data()), code.size()});
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "2 -c\n" + code + "more\n");
}

TEST_F(Disassemble, AFailureCarriesWhatTheProgramSaid) {
  const auto text = disassemble({put("nvdisasm", "echo too new; exit 1"), {}}, {});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, StatusCode::Environment);
  EXPECT_THAT(text.error().message, AllOf(HasSubstr("does not take the machine code"), HasSubstr("too new")));
  const auto missing = disassemble({folder_ / "none", {}}, {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("cannot start"));
}

}  // namespace
}  // namespace stepfuse::runtime
