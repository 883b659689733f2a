// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/config.h"

#include "runtime/config/schema.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace stepfuse::runtime {

namespace {

constexpr size_t kMostBytes = size_t{16} << 20;  // more is no config, and may be a device that never ends

Result<std::string> read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return with_hint(fail(StatusCode::NotFound, "'{}' is a folder, not a config", path), "name a TOML file");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return with_hint(fail(StatusCode::NotFound, "cannot open '{}': {}", path, std::strerror(errno)),
                     "check the path of the config");
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad())
    return with_hint(fail(StatusCode::Io, "cannot read '{}': {}", path, std::strerror(errno)), "try again, or copy it");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes)
    return with_hint(fail(StatusCode::InvalidData, "'{}' has more than {} bytes", path, kMostBytes),
                     "that is no config; check the path");
  return text;
}

CheckedConfig check(RawConfig raw, const ir::OptionList& pairs, Errors errors) {
  CheckedConfig checked;
  read_pairs(pairs, raw, errors);
  checked.config = apply_schema(raw, errors);
  checked.errors = std::move(errors);
  return checked;
}

/// Line and column that a message begins with; what has no place of its own comes last.
std::pair<uint64_t, uint64_t> place_of(const std::string& message, std::string_view file) {
  std::pair<uint64_t, uint64_t> place{UINT64_MAX, 0};
  if (!message.starts_with(fmt::format("{}:", file))) return place;
  const char* end = message.data() + message.size();
  const auto line = std::from_chars(message.data() + file.size() + 1, end, place.first);
  if (line.ec == std::errc{} && line.ptr != end) std::from_chars(line.ptr + 1, end, place.second);
  return place;
}

CheckedConfig check_toml(std::string_view toml, std::string_view name, const ir::OptionList& pairs) {
  RawConfig raw;
  Errors errors;
  if (!read_toml(toml, name, raw, errors)) return {{}, std::move(errors)};
  CheckedConfig checked = check(std::move(raw), pairs, std::move(errors));
  std::stable_sort(checked.errors.begin(), checked.errors.end(), [&](const Status& a, const Status& b) {
    return place_of(a.message, name) < place_of(b.message, name);
  });
  return checked;
}

Result<Config> first_error(CheckedConfig checked) {
  if (!checked.errors.empty()) return fail(std::move(checked.errors.front()));
  return std::move(checked.config);
}

}  // namespace

double GroupPolicy::effective_lr(double lr) const {
  const double scaled = lr * lr_mult;
  return lr_max ? std::min(scaled, *lr_max) : scaled;
}

Result<Config> parse_config(std::string_view toml, std::string_view name, const ir::OptionList& pairs) {
  return first_error(check_toml(toml, name, pairs));
}

Result<Config> load_config(const std::string& path, const ir::OptionList& pairs) {
  return first_error(check_config(path, pairs));
}

Result<Config> config_from_pairs(const ir::OptionList& pairs) { return first_error(check({}, pairs, {})); }

CheckedConfig check_config(const std::string& path, const ir::OptionList& pairs) {
  auto text = read_file(path);
  if (!text) return {{}, {std::move(text.error())}};
  return check_toml(*text, path, pairs);
}

}  // namespace stepfuse::runtime
