// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace stepfuse::e2e {

struct FileTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  friend bool operator==(const FileTensor&, const FileTensor&) = default;
};
using FileTensors = std::map<std::string, FileTensor>;

FileTensor f32(std::vector<int64_t> shape, const std::vector<float>& values);
/// Reproducible values of about unit size.
FileTensor random_f32(std::vector<int64_t> shape, uint32_t seed);
FileTensor random_bf16(std::vector<int64_t> shape, uint32_t seed);
std::vector<float> floats(const FileTensor& tensor);

struct CommandResult {
  int exit_code = -1;  // -1: it did not exit by itself
  std::string out, err;
};

/// A folder of its own in which the command runs, removed at the end.
class CliFolder {
 public:
  CliFolder();
  ~CliFolder();
  CliFolder(const CliFolder&) = delete;
  CliFolder& operator=(const CliFolder&) = delete;

  std::string path(const std::string& file) const { return (folder_ / file).string(); }
  void write(const std::string& file, const FileTensors& tensors) const;
  void write_text(const std::string& file, const std::string& text) const;
  FileTensors read(const std::string& file) const;
  std::string read_text(const std::string& file) const;
  std::vector<std::string> files() const;  // sorted

  /// Runs the stepfuse command in this folder; `arguments` go through the shell.
  CommandResult run(const std::string& arguments) const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path logs_;
};

}  // namespace stepfuse::e2e
