// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/test_driver.h"

#include <filesystem>
#include <fstream>
#include <sys/wait.h>

#include <unistd.h>

namespace stepfuse::vgpu::test {
namespace {

/// The toolkit's NVRTC, or "".
std::string find_nvrtc() {
  const char* homes[] = {std::getenv("CUDA_HOME"), std::getenv("CUDA_PATH"), "/usr/local/cuda"};
  for (const char* home : homes) {
    if (!home) continue;
    const std::string path = std::string(home) + "/lib64/libnvrtc.so";
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

/// Compiles an empty kernel; the exit status of a child.
int compile(const std::string& nvrtc) {
  void* library = dlopen(nvrtc.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return 2;
  using Create = int(void**, const char*, const char*, int, const char* const*, const char* const*);
  using Compile = int(void*, int, const char* const*);
  auto* create = reinterpret_cast<Create*>(dlsym(library, "nvrtcCreateProgram"));
  auto* run = reinterpret_cast<Compile*>(dlsym(library, "nvrtcCompileProgram"));
  if (!create || !run) return 3;
  void* program = nullptr;
  const char* options[] = {"--gpu-architecture=sm_90"};
  if (create(&program, "extern \"C\" __global__ void k() {}", "k.cu", 0, nullptr, nullptr) != 0) return 4;
  return run(program, 1, options) == 0 ? 0 : 5;
}

/// NVRTC opens libcuda.so.1 if there is one, and asks it for tables that the virtual driver has not.
TEST(Nvrtc, CompilesWithTheVirtualDriverInTheProcess) {
  const std::string nvrtc = find_nvrtc();
  if (nvrtc.empty()) GTEST_SKIP() << "no CUDA toolkit with libnvrtc";
  const std::string trace = testing::TempDir() + "/vgpu_nvrtc_trace_" + std::to_string(getpid());
  const pid_t child = fork();
  if (child == 0) {
    setenv("VGPU_TRACE", trace.c_str(), 1);
    api().reset();
    _exit(compile(nvrtc));
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
  std::ifstream file(trace);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  RecordProperty("trace", text);
  EXPECT_EQ(text.find("unknown"), std::string::npos) << text;
  unlink(trace.c_str());
}

}  // namespace
}  // namespace stepfuse::vgpu::test
