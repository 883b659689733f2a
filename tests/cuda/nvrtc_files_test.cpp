// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// NVRTC's two files, on stand-ins.
#include "runtime/cuda/nvrtc.h"
#include "tests/support/temporary_folder.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class NvrtcFiles : public testing::Test {
 protected:
  void put(const std::string& stand_in, const std::string& name) {
    fs::copy_file(fs::path(STEPFUSE_STAND_INS) / stand_in, folder_ / name);
  }
  Result<std::unique_ptr<const Nvrtc>> open() { return Nvrtc::open_in({folder_.path().string(), {}, {}}); }

  tests::TemporaryFolder folder_;
};

TEST_F(NvrtcFiles, OpensWithItsBuiltins) {
  put("libnvrtc.so.127", "libnvrtc.so.12");
  put("libnvrtc.so.118", "libnvrtc-builtins.so.12.7");
  const auto nvrtc = open();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  EXPECT_EQ((*nvrtc)->version(), "12.7");
  EXPECT_EQ((*nvrtc)->path(), folder_ / "libnvrtc.so.12");
  EXPECT_EQ((*nvrtc)->origin(), LibraryOrigin::Option);
  EXPECT_THAT((*nvrtc)->supported_archs(), ElementsAre(80, 90));
}

TEST_F(NvrtcFiles, E02_MissingBuiltinsAreNamedWithTheFolderAndTheRemedy) {
  put("libnvrtc.so.127", "libnvrtc.so.12");
  put("libnvrtc.so.118", "libnvrtc-builtins.so.12.6");
  const auto nvrtc = open();
  ASSERT_FALSE(nvrtc);
  EXPECT_EQ(nvrtc.error().code, StatusCode::Environment);
  EXPECT_THAT(nvrtc.error().message,
              AllOf(HasSubstr("NVRTC 12.7 needs libnvrtc-builtins.so.12.7 of the same version beside it"),
                    HasSubstr("(searched " + folder_.path().string() + ")"),
                    HasSubstr("of other versions there is libnvrtc-builtins.so.12.6")));
  EXPECT_THAT(nvrtc.error().hint, AllOf(HasSubstr("put libnvrtc-builtins.so.12.7 into " + folder_.path().string()),
                                        HasSubstr("install NVRTC anew")));
}

TEST_F(NvrtcFiles, BuiltinsThatDoNotOpenAreNamed) {
  put("libnvrtc.so.127", "libnvrtc.so.12");
  std::ofstream(folder_ / "libnvrtc-builtins.so.12.7") << "torn";
  const auto nvrtc = open();
  ASSERT_FALSE(nvrtc);
  EXPECT_THAT(nvrtc.error().message, HasSubstr("libnvrtc-builtins.so.12.7: file too short"));
}

// A link to another folder leads to the files that lie together there.
TEST_F(NvrtcFiles, ALinkLeadsToTheFolderOfItsFile) {
  fs::create_directories(folder_.path() / "real");
  put("libnvrtc.so.127", "real/libnvrtc.so.12");
  put("libnvrtc.so.118", "real/libnvrtc-builtins.so.12.7");
  fs::create_symlink("real/libnvrtc.so.12", folder_ / "libnvrtc.so.12");
  const auto nvrtc = open();
  EXPECT_TRUE(nvrtc) << nvrtc.error().message;
}

TEST_F(NvrtcFiles, AnotherMajorIsRefusedWithItsVersion) {
  put("libnvrtc.so.118", "libnvrtc.so.12");
  const auto nvrtc = open();
  ASSERT_FALSE(nvrtc);
  EXPECT_THAT(nvrtc.error().message, HasSubstr("it is NVRTC 11.8; this version of Stepfuse takes major 13 or 12"));
}

TEST_F(NvrtcFiles, ALibraryWithoutItsFunctionsIsRefused) {
  put("libstepfuse_stand_in.so.13", "libnvrtc.so.13");
  const auto nvrtc = open();
  ASSERT_FALSE(nvrtc);
  EXPECT_THAT(nvrtc.error().message, HasSubstr("it has no function nvrtcVersion"));
}

TEST_F(NvrtcFiles, AFailingCompileCarriesTheLog) {
  put("libnvrtc.so.127", "libnvrtc.so.12");
  put("libnvrtc.so.118", "libnvrtc-builtins.so.12.7");
  const auto nvrtc = open();
  ASSERT_TRUE(nvrtc);
  const auto binary = (*nvrtc)->compile("", "probe", {}, {90, 0, true});
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, StatusCode::Internal);
  EXPECT_THAT(binary.error().message,
              AllOf(HasSubstr("does not compile probe for sm_90"), HasSubstr("the stand-in compiles nothing")));
  const auto unknown = (*nvrtc)->compile("", "probe", {}, {86, 0, true});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr("NVRTC 12.7 (" + (folder_ / "libnvrtc.so.12")), HasSubstr("sm_86"),
                    HasSubstr("capability 8.6"), HasSubstr("the highest it knows is sm_90")));
}

}  // namespace
}  // namespace stepfuse::runtime
