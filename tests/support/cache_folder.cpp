// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_folder.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sstream>

#include <unistd.h>

namespace stepfuse::tests {

namespace fs = std::filesystem;

KeptLog::KeptLog()
    : log_(LogLevel::Warn, [this](LogLevel, std::string_view message) { messages_.emplace_back(message); }) {}

int64_t KeptLog::count(std::string_view text) const {
  return std::count_if(messages_.begin(), messages_.end(),
                       [&](const std::string& m) { return m.find(text) != std::string::npos; });
}

std::string KeptLog::all() const { return fmt::format("{}", fmt::join(messages_, "\n")); }

runtime::StoreOptions store_options(const std::string& folder) {
  runtime::StoreOptions options;
  options.cache_dir = folder;
  options.environment = runtime::CacheEnvironment::of_process();
  options.ages.young = runtime::seconds(0);
  return options;
}

runtime::Key test_key(int number) {
  return runtime::Key::of(runtime::EntryKind::Kernel, {{"number", std::to_string(number)}, {"text", "a\n\tb"}});
}

namespace {

/// Bytes that do not compress, from the key alone.
std::vector<std::byte> payload_of(const runtime::Key& key, size_t bytes) {
  std::mt19937_64 random(key.hash.low ^ key.hash.high);
  std::vector<std::byte> payload(bytes);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random() & 0xff);
  return payload;
}

}  // namespace

runtime::Entry test_entry(const runtime::Key& key, size_t payload_bytes) {
  return {key.kind, key.preimage, R"({"name":"synthetic"})", payload_of(key, payload_bytes)};
}

bool belongs_to(const runtime::Entry& entry, const runtime::Key& key) {
  return entry.preimage == key.preimage && entry.payload == payload_of(key, entry.payload.size());
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& item : fs::recursive_directory_iterator(folder))
    if (item.is_regular_file() && item.path().filename() != runtime::kSweepFile) files.push_back(item.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_file(const fs::path& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

void write_file(const fs::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace stepfuse::tests
