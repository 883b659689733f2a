// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/store.h"
#include "tests/support/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::tests {

/// A log that keeps what it is told.
class KeptLog {
 public:
  KeptLog();
  const Log& log() const { return log_; }
  /// Messages with this text in them.
  int64_t count(std::string_view text) const;
  std::string all() const;

 private:
  std::vector<std::string> messages_;
  Log log_;
};

/// Options for a store in `folder` whose sweeper is not kept waiting by the clock.
runtime::StoreOptions store_options(const std::string& folder);

/// A kernel's key and entry of synthetic content that says which key it belongs to.
runtime::Key test_key(int number);
runtime::Entry test_entry(const runtime::Key& key, size_t payload_bytes = 100);
/// Whether the payload is the one that test_entry gives this key.
bool belongs_to(const runtime::Entry& entry, const runtime::Key& key);

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);
std::string read_file(const std::filesystem::path& file);
void write_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace stepfuse::tests
