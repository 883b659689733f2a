// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/compile.h"

#include "runtime/cuda/nvrtc.h"
#include "tests/support/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/wait.h>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

namespace stepfuse::vgpu::corpus {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

/// Where a toolkit may lie, the caller's wish first.
std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') folders.emplace_back(value);
  }
  folders.emplace_back("/usr/local/cuda");
  return folders;
}

const runtime::Nvrtc& nvrtc() {
  static const auto opened =
      runtime::Nvrtc::open(runtime::Settings::resolve({}, runtime::Settings::process_environment()).value());
  if (!opened) throw Unavailable(opened.error().message);
  return **opened;
}

/// The toolkit's headers, for sources that include them.
fs::path include_folder() {
  for (const fs::path& folder : toolkit_folders()) {
    if (fs::exists(folder / "include" / "cuda_fp16.h")) return folder / "include";
  }
  throw Unavailable("no CUDA headers: neither CUDA_HOME, CUDA_PATH nor /usr/local/cuda has include/cuda_fp16.h");
}

std::vector<std::string> options_of(std::string_view source, const std::string& text, const Target& target) {
  std::vector<std::string> options{"--std=c++17"};
  if (source == "fast") options.emplace_back("--use_fast_math");
  if (target.compiler == Compiler::Nvcc)
    options.push_back("--gpu-architecture=compute_" + std::to_string(target.capability));
  else
    options.emplace_back("--device-int128");
  if (text.find("#include <") != std::string::npos && target.compiler == Compiler::Nvrtc) {
    const fs::path include = include_folder();
    options.push_back("--include-path=" + include.string());
    // Since 13 the toolkit keeps libcu++, which cooperative groups include, in a folder of its own.
    if (fs::exists(include / "cccl")) options.push_back("--include-path=" + (include / "cccl").string());
  }
  return options;
}

std::string with_nvrtc(const std::string& name, const std::string& text, const std::vector<std::string>& options,
                       int capability) {
  const auto binary = nvrtc().compile(text, name, options, {capability, 0, false});
  if (!binary) throw std::runtime_error(binary.error().message);
  return binary->ptx;
}

fs::path find_nvcc() {
  std::vector<fs::path> folders;
  for (const fs::path& folder : toolkit_folders()) folders.push_back(folder / "bin");
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  for (const fs::path& folder : folders) {
    if (::access((folder / "nvcc").c_str(), X_OK) == 0) return folder / "nvcc";
  }
  throw Unavailable("no nvcc in CUDA_HOME, CUDA_PATH, /usr/local/cuda or PATH");
}

std::string with_nvcc(const fs::path& source, const std::vector<std::string>& options) {
  static const fs::path nvcc = find_nvcc();
  const tests::TemporaryFolder folder;
  const std::string ptx = folder / "kernel.ptx", log = folder / "log";
  std::vector<std::string> words{nvcc.string(), "--ptx", "-o", ptx, source.string()};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, nvcc.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = error;
  if (error == 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw Unavailable(nvcc.string() + " starts a compiler that is not there");
  if (status != 0) {
    throw std::runtime_error("nvcc refuses " + source.string() + ":\n" + (fs::exists(log) ? contents(log) : ""));
  }
  return contents(ptx);
}

std::string compile(std::string_view source, const Target& target) {
  const fs::path path = fs::path(STEPFUSE_SOURCE_DIR) / "tests/vgpu/corpus" / (std::string(source) + ".cu");
  const std::string text = contents(path);
  const std::vector<std::string> options = options_of(source, text, target);
  return target.compiler == Compiler::Nvcc ? with_nvcc(path, options)
                                           : with_nvrtc(path.stem().string(), text, options, target.capability);
}

}  // namespace

std::string name(const Target& target) {
  return (target.compiler == Compiler::Nvcc ? "nvcc_" : "nvrtc_") + std::to_string(target.capability);
}

const std::string& ptx_of(std::string_view source, const Target& target) {
  static std::map<std::string, std::string> made;
  const std::string key = std::string(source) + " " + name(target);
  const auto found = made.find(key);
  return found != made.end() ? found->second : made.emplace(key, compile(source, target)).first->second;
}

}  // namespace stepfuse::vgpu::corpus
