// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "ir/type.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// One tensor of a safetensors file. `dtype` is the file's own name ("F32", "BF16", "I64" ...).
struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of the first byte, from the start of the data section
  uint64_t bytes = 0;
};

/// "F32" and so on, as the format names element types.
std::string_view safetensors_name(ir::DType dtype);

/// A read-only safetensors file, mapped into memory or lying there. Every field of the header is checked before
/// anything is believed: length against file size (header at most 100 MB), JSON syntax, duplicate names, known dtypes,
/// non-negative extents, overflow of the element count, offsets that match shape and dtype, that neither overlap nor
/// leave holes nor pass the end of the file.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  /// Reads and checks the header only; data() must not be called.
  static Result<SafetensorsFile> open_header(const std::string& path);
  /// A whole file in memory, of any alignment. Nothing is copied: `bytes` must outlive the result. Errors call it
  /// `name`.
  static Result<SafetensorsFile> from_memory(std::span<const std::byte> bytes, const std::string& name = "<memory>");
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::vector<TensorEntry>& tensors() const;  // in file order of offsets
  const TensorEntry* find(const std::string& name) const;
  const std::byte* data(const TensorEntry& entry) const;  // not aligned for `dtype`
  const std::map<std::string, std::string>& metadata() const;
  const std::string& path() const;

 private:
  SafetensorsFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data;
};

/// The bytes that write_safetensors puts into a file; errors call them `name`.
Result<std::vector<std::byte>> serialise_safetensors(const std::vector<TensorToWrite>& tensors,
                                                     const std::map<std::string, std::string>& metadata = {},
                                                     const std::string& name = "<memory>");

/// Writes beside `path` and publishes by rename, so that `path` is either the old file or the whole new one.
Outcome write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                          const std::map<std::string, std::string>& metadata = {});

}  // namespace stepfuse::runtime
