// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The search, on stand-ins whose names no system has, in folders made for each test.
#include "runtime/cuda/find_library.h"

#include "tests/support/temporary_folder.h"

#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const LibrarySpec kSpec{"StandIn",   "nvrtc", "libstepfuse_stand_in.so.", {13, 12}, {"cu13/lib", "stand_in/lib"},
                        "install it"};

class FindLibrary : public testing::Test {
 protected:
  void SetUp() override { places_.default_folder = folder_ / "default"; }
  void TearDown() override {
    for (void* handle : handles_) dlclose(handle);
    ASSERT_EQ(dlopen("libstepfuse_stand_in.so.13", RTLD_NOW | RTLD_NOLOAD), nullptr) << "it would serve the next test";
  }

  /// Puts the stand-in of a major version into a folder below the test's and returns its path.
  std::string put(int major, const std::string& folder, std::string name = {}) {
    if (name.empty()) name = kSpec.file(major);
    fs::create_directories(folder_.path() / folder);
    const std::string path = folder_ / folder + "/" + name;
    fs::copy_file(fmt::format("{}/libstepfuse_stand_in.so.{}", STEPFUSE_STAND_INS, major), path);
    return path;
  }
  void set(const std::string& variable, const std::string& folder) {
    places_.environment.push_back(variable + "=" + (folder_ / folder));
  }

  static Outcome check(const OpenedLibrary& library) {
    const auto version = library.symbol<int (*)()>("stand_in_version");
    if (version == nullptr) return fail(StatusCode::Environment, "it has no version");
    if (version() == 12 || version() == 13) return {};
    return fail(StatusCode::Environment, "it is version {}", version());
  }

  Result<OpenedLibrary> find(const LibraryCheck& check_library = check) {
    auto found = open_cuda_library(kSpec, places_, check_library);
    if (found) handles_.push_back(found->handle);
    return found;
  }

  void expect(const std::string& path, LibraryOrigin origin, const std::string& rule) {
    const auto found = find();
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->path, path);
    EXPECT_EQ(found->origin, origin);
    EXPECT_EQ(found->rule, rule);
  }

  tests::TemporaryFolder folder_;
  LibraryPlaces places_;
  std::vector<void*> handles_;
};

TEST_F(FindLibrary, TheOptionNamesAFile) {
  put(13, "default/lib64");
  places_.option = put(12, "mine", "renamed.so");
  expect(places_.option, LibraryOrigin::Option, "option nvrtc");
}

TEST_F(FindLibrary, TheOptionNamesAFolder) {
  const std::string path = put(13, "mine");
  put(12, "mine");
  places_.option = folder_ / "mine";
  expect(path, LibraryOrigin::Option, "option nvrtc");
}

// Nobody who names a library wants another one.
TEST_F(FindLibrary, WhatTheOptionNamesIsNotReplaced) {
  put(13, "default/lib64");
  const auto refusal = [&](const std::string& option) {
    places_.option = option;
    const auto found = find();
    EXPECT_FALSE(found);
    return found ? std::string() : found.error().message;
  };
  EXPECT_THAT(refusal(folder_ / "none"), HasSubstr("/none is not there"));
  fs::create_directories(folder_.path() / "empty");
  EXPECT_THAT(refusal(folder_ / "empty"),
              HasSubstr("/empty holds no libstepfuse_stand_in.so.13 or libstepfuse_stand_in.so.12"));
  EXPECT_THAT(refusal(put(11, "old")), HasSubstr("it is version 11"));
  std::ofstream(folder_ / "text.so") << "no library\n";
  EXPECT_THAT(refusal(folder_ / "text.so"), AllOf(HasSubstr("text.so"), HasSubstr("cannot be used")));
  EXPECT_THAT(find().error().hint, HasSubstr("STEPFUSE_NVRTC"));
}

TEST_F(FindLibrary, WhatIsLoadedComesBeforeFolders) {
  const std::string loaded = put(13, "loaded");
  put(13, "default/lib64");
  handles_.push_back(dlopen(loaded.c_str(), RTLD_NOW | RTLD_LOCAL));
  ASSERT_NE(handles_.back(), nullptr);
  expect(loaded, LibraryOrigin::Loaded, "already loaded");
}

TEST_F(FindLibrary, FoldersComeInTheirOrder) {
  const std::string wheel = "venv/lib/python3.11/site-packages/nvidia/stand_in/lib";
  set("VIRTUAL_ENV", "venv");
  set("CUDA_HOME", "home");
  set("CUDA_PATH", "path");
  const std::string last = put(13, "default/lib64");
  expect(last, LibraryOrigin::DefaultFolder, "default folder");
  TearDown();
  handles_.clear();
  const std::string third = put(13, "path/targets/x86_64-linux/lib");
  expect(third, LibraryOrigin::CudaHome, "CUDA_PATH");
  TearDown();
  handles_.clear();
  const std::string second = put(12, "home/lib");
  expect(second, LibraryOrigin::CudaHome, "CUDA_HOME");
  TearDown();
  handles_.clear();
  expect(put(12, wheel), LibraryOrigin::Wheel, "Python wheel");
}

TEST_F(FindLibrary, TheNewerMajorOfAFolderIsTaken) {
  put(12, "default/lib64");
  expect(put(13, "default/lib64"), LibraryOrigin::DefaultFolder, "default folder");
}

TEST_F(FindLibrary, ARefusedOneIsPassedOver) {
  set("CUDA_HOME", "home");
  std::ofstream(put(13, "home/lib64"), std::ios::trunc) << "no library\n";
  expect(put(13, "default/lib64"), LibraryOrigin::DefaultFolder, "default folder");
}

TEST_F(FindLibrary, AnotherMajorIsRefusedWithWhatIsThere) {
  put(11, "default/lib64");
  const auto found = find();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, StatusCode::Environment);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("default/lib64/libstepfuse_stand_in.so.11 is of another major version than 13 or 12"),
                    HasSubstr("libstepfuse_stand_in.so.13 or libstepfuse_stand_in.so.12"),
                    HasSubstr(folder_ / "default/targets/x86_64-linux/lib")));
  EXPECT_THAT(found.error().hint, AllOf(HasSubstr("install it"), HasSubstr("STEPFUSE_NVRTC")));
}

TEST_F(FindLibrary, WhatTheCheckRefusesStandsInTheError) {
  put(13, "default/lib64");
  const auto found = find([](const OpenedLibrary&) {
    return Outcome(with_hint(fail(StatusCode::Environment, "it is too blue"), "paint it"));
  });
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("default/lib64/libstepfuse_stand_in.so.13: it is too blue"));
  EXPECT_THAT(found.error().hint, AllOf(HasSubstr("paint it"), HasSubstr("install it")));
}

TEST_F(FindLibrary, AStubIsNoLibraryToRun) {
  places_.option = put(13, "default/lib64/stubs");
  const auto found = find();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("stub for linkers"));
}

TEST_F(FindLibrary, ALibraryOutsideOfToolkitsIsSearchedByTheLoaderAlone) {
  LibrarySpec driver = kSpec;
  driver.wheels.clear();
  put(13, "default/lib64");
  const auto found = open_cuda_library(driver, places_, check);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, Not(HasSubstr("default")));
}

TEST_F(FindLibrary, PythonsFoldersAreFoundWithoutPython) {
  const auto make = [&](const std::string& folder) {
    fs::create_directories(folder_.path() / folder);
    return fs::path(folder_ / folder);
  };
  const fs::path older = make("venv/lib/python3.9/site-packages");
  const fs::path newer = make("venv/lib/python3.11/site-packages");
  const fs::path conda = make("conda/lib/python3.12/site-packages");
  const fs::path on_path = make("py/lib/python3.10/dist-packages");
  const fs::path user = make("home/.local/lib/python3.11/site-packages");
  make("py/bin");
  std::ofstream(folder_ / "py/bin/python3") << "";
  fs::create_directory_symlink("lib", folder_ / "venv/lib64");
  auto found = python_package_folders({"VIRTUAL_ENV=" + (folder_ / "venv"), "CONDA_PREFIX=" + (folder_ / "conda"),
                                       "PATH=/nowhere:" + (folder_ / "py/bin"), "HOME=" + (folder_ / "home")});
  std::erase_if(found, [](const fs::path& path) { return path.string().starts_with("/usr/local/"); });
  EXPECT_THAT(found, ElementsAre(newer, older, conda, on_path, user));
}

}  // namespace
}  // namespace stepfuse::runtime
