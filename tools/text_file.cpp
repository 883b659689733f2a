// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/text_file.h"

#include "runtime/pending_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <unistd.h>

namespace stepfuse::tools {

namespace {

/// More is no IR text or manifest, and may be a device that never ends.
constexpr size_t kMostBytes = size_t{64} << 20;

std::string reason() { return std::strerror(errno); }

Result<std::string> read_stream(std::istream& stream, const std::string& path) {
  std::string text;
  char block[65536];
  while (stream.read(block, sizeof block), stream.gcount() > 0) {
    text.append(block, static_cast<size_t>(stream.gcount()));
    if (text.size() > kMostBytes) return fail(StatusCode::InvalidData, "'{}' has more than {} bytes", path, kMostBytes);
  }
  if (stream.bad()) return fail(StatusCode::Io, "cannot read '{}': {}", path, reason());
  return text;
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return read_stream(std::cin, "<stdin>");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return fail(StatusCode::NotFound, "'{}' is a folder, not a file", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) return with_hint(fail(StatusCode::NotFound, "cannot open '{}': {}", path, reason()), "check the path");
  return read_stream(file, path);
}

Outcome check_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return with_hint(fail(StatusCode::Io, "cannot write '{}': it is a folder", path), "give the name of a file");
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!std::filesystem::is_directory(folder, ignored))
    return with_hint(fail(StatusCode::NotFound, "cannot write '{}': there is no folder '{}'", path, folder.string()),
                     "make the folder first");
  if (access(folder.c_str(), W_OK) != 0) return fail(StatusCode::Io, "cannot write '{}': {}", path, reason());
  return {};
}

Outcome write_text(const std::string& path, const std::string& text) {
  STEPFUSE_TRY(check_writable(path));
  runtime::PendingFile pending(path);
  STEPFUSE_TRY(pending.create(0666));
  STEPFUSE_TRY(pending.write(text));
  return pending.publish(false);
}

Outcome write_result(const std::string& path, const std::string& text) {
  if (!path.empty()) return write_text(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
  return fail(StatusCode::Io, "cannot write to stdout");
}

}  // namespace stepfuse::tools
