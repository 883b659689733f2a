// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include <unistd.h>

namespace stepfuse::tools {

namespace {

std::string reason() { return std::strerror(errno); }

}  // namespace

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return fail(StatusCode::NotFound, "'{}' is a folder, not a file", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) return with_hint(fail(StatusCode::NotFound, "cannot open '{}': {}", path, reason()), "check the path");
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return fail(StatusCode::Io, "cannot read '{}': {}", path, reason());
  return text;
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
  const std::string staged = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream file(staged, std::ios::binary);
  file << text;
  file.close();
  if (file && std::rename(staged.c_str(), path.c_str()) == 0) return {};
  const auto error = fail(StatusCode::Io, "cannot write '{}': {}", path, reason());
  std::remove(staged.c_str());
  return error;
}

}  // namespace stepfuse::tools
