// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/disassemble.h"

#include "runtime/cache/file_ops.h"
#include "runtime/cuda/find_library.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/mman.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

namespace stepfuse::runtime {

namespace {

namespace fs = std::filesystem;

/// The file as the child sees it: its standard input, by a name that can be opened.
constexpr const char* kInput = "/proc/self/fd/0";

std::vector<fs::path> folders(const std::vector<std::string>& environment, const std::string& default_folder) {
  std::vector<fs::path> out;
  const std::string path = variable_in(environment, "PATH");
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (!folder.empty()) out.emplace_back(folder);
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
  }
  for (const fs::path& packages : python_package_folders(environment))
    for (const char* wheel : {"cu13/bin", "cuda_nvdisasm/bin", "cuda_cuobjdump/bin"})
      out.push_back(packages / "nvidia" / wheel);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = variable_in(environment, variable); !home.empty())
      out.push_back(fs::path(home) / "bin");
  out.push_back(fs::path(default_folder) / "bin");
  return out;
}

/// Standard input from `input`, standard output and error into `output`. The process id, or an error number.
Result<pid_t> start(const Disassembler& disassembler, int input, int output) {
  std::vector<std::string> words{disassembler.program};
  words.insert(words.end(), disassembler.arguments.begin(), disassembler.arguments.end());
  words.emplace_back(kInput);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t process = 0;
  const int error = ::posix_spawn(&process, disassembler.program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return process;
  return fail(StatusCode::Environment, "cannot start {}: {}", disassembler.program, std::strerror(error));
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

Outcome write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return fail(StatusCode::Environment, "no memory for machine code: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

}  // namespace

Result<Disassembler> find_disassembler(const std::vector<std::string>& environment, const std::string& default_folder) {
  const std::vector<fs::path> places = folders(environment, default_folder);
  for (const auto& [name, arguments] : {std::pair<const char*, std::vector<std::string>>{"nvdisasm", {"-c"}},
                                        std::pair<const char*, std::vector<std::string>>{"cuobjdump", {"-sass"}}})
    for (const fs::path& folder : places) {
      const fs::path program = folder / name;
      if (::access(program.c_str(), X_OK) == 0) return Disassembler{program.string(), arguments};
    }
  return with_hint(fail(StatusCode::Environment, "neither nvdisasm nor cuobjdump was found, which print machine code"),
                   "`pip install nvidia-cuda-nvdisasm` into the active Python environment, or install CUDA's toolkit; "
                   "PATH, Python's nvidia wheels, CUDA_HOME, CUDA_PATH and /usr/local/cuda are searched");
}

Result<std::string> disassemble(const Disassembler& disassembler, std::span<const std::byte> cubin) {
  const Fd input(::memfd_create("stepfuse.cubin", MFD_CLOEXEC));
  if (!input) return fail(StatusCode::Environment, "no memory for machine code: {}", std::strerror(errno));
  STEPFUSE_TRY(write_all(input.get(), cubin));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(StatusCode::Environment, "no pipe: {}", std::strerror(errno));
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  STEPFUSE_ASSIGN(const pid_t process, start(disassembler, input.get(), write_end.get()));
  write_end = Fd();
  std::string text = read_all(read_end.get());
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return with_hint(fail(StatusCode::Environment, "{} does not take the machine code: {}", disassembler.program, text),
                   "it may be older than NVRTC: `pip install --upgrade nvidia-cuda-nvdisasm`");
}

}  // namespace stepfuse::runtime
