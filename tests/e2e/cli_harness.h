// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/safetensors.h"
#include "tests/support/temporary_folder.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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

/// An environment variable with this value, while it lives.
class WithVariable {
 public:
  WithVariable(const char* name, const std::string& value);
  ~WithVariable();
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// A folder of its own in which the command runs, removed at the end.
class CliFolder {
 public:
  std::string path(const std::string& file) const { return folder_ / file; }
  void write(const std::string& file, const FileTensors& tensors) const;
  void write_text(const std::string& file, const std::string& text) const;
  FileTensors read(const std::string& file) const;
  std::string read_text(const std::string& file) const;
  std::vector<std::string> files() const;  // sorted

  /// Runs the stepfuse command in this folder; `arguments` go through the shell.
  CommandResult run(const std::string& arguments) const;

 private:
  tests::TemporaryFolder folder_;
  tests::TemporaryFolder logs_;
};

}  // namespace stepfuse::e2e
