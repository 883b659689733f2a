// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/text_files.h"

#include "ir/hash.h"
#include "runtime/pending_file.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sys/stat.h>

namespace stepfuse::runtime {

namespace {

tl::unexpected<Status> cannot(std::string_view what, const std::string& path) {
  const int error = errno;
  return fail(StatusCode::Io, "cannot {} '{}': {}", what, path, std::strerror(error));
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

}  // namespace

Outcome make_private_folder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  const int reason = errno;
  if (reason == EEXIST && std::filesystem::is_directory(path, error)) return {};
  errno = reason;
  return cannot("make the folder", path);
}

Outcome write_whole_file(const std::string& path, std::string_view text) {
  PendingFile pending(path);
  STEPFUSE_TRY(pending.create(0600));
  STEPFUSE_TRY(pending.write(text));
  return pending.publish(false);
}

Result<std::string> read_whole_file(const std::string& path, size_t most) {
  const File file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file == nullptr) return cannot("open", path);
  std::string text;
  char block[65536];
  while (const size_t bytes = std::fread(block, 1, sizeof(block), file.get())) {
    text.append(block, bytes);
    if (text.size() > most) return fail(StatusCode::InvalidData, "'{}' has more than {} bytes", path, most);
  }
  if (std::ferror(file.get()) != 0) return cannot("read", path);
  return text;
}

std::string file_name_of(std::string_view name) {
  std::string out;
  for (const char c : name)
    out += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ? c : '_';
  return out;
}

std::string short_hash(std::string_view text) { return ir::hash_bytes(text).hex().substr(0, 8); }

}  // namespace stepfuse::runtime
