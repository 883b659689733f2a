// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/process.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <sys/wait.h>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

extern char** environ;

namespace stepfuse::gpu_check {

namespace {

/// A file without a name that lives as long as this object.
class ScratchFile {
 public:
  ScratchFile() {
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/stepfuse-gpu-check-XXXXXX";
    descriptor_ = mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ < 0) throw std::runtime_error("cannot make a file in " + path + ": " + std::strerror(errno));
    unlink(path.c_str());
  }
  ~ScratchFile() { close(descriptor_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::string text() const {
    std::string all;
    std::array<char, 65536> part;
    off_t at = 0;
    for (ssize_t got; (got = pread(descriptor_, part.data(), part.size(), at)) > 0; at += got)
      all.append(part.data(), static_cast<size_t>(got));
    return all;
  }

 private:
  int descriptor_;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string entry = *each;
    bool replaced = false;
    for (const auto& [name, value] : variables) replaced = replaced || entry.starts_with(name + "=");
    if (!replaced) all.push_back(entry);
  }
  return all;
}

}  // namespace

Finished run_program(const std::vector<std::string>& command,
                     const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> arguments = command, environment = environment_with(variables);
  const ScratchFile output, errors;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.descriptor(), STDERR_FILENO);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, command.front().c_str(), &actions, nullptr, pointers(arguments).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw std::runtime_error("cannot start " + command.front() + ": " + std::strerror(failure));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error(std::string("waiting for a process: ") + std::strerror(errno));
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output.text(), errors.text()};
}

std::string own_path() {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) <= 0)
    throw std::runtime_error("cannot find this program");
  return path.data();
}

std::string tail_of(const std::string& text, size_t bytes) {
  return text.size() <= bytes ? text : "..." + text.substr(text.size() - bytes);
}

}  // namespace stepfuse::gpu_check
