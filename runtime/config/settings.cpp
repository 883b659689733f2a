// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/settings.h"

#include "ir/support/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <unistd.h>

namespace stepfuse::runtime {

namespace {

constexpr std::string_view kPrefix = "STEPFUSE_";

/// Where CMake's find_package looks; they are not ours to judge.
constexpr std::array<std::string_view, 2> kForeign{"STEPFUSE_ROOT", "STEPFUSE_DIR"};

const std::vector<SettingInfo>& table() {
  static const std::vector<SettingInfo> settings = {
      {"target", SettingKind::Text, "cpu", {}, 0, 0, "interp, cpu (this host), x86-64-v3, x86-64-v4, cuda, sm_90"},
      {"mode", SettingKind::Choice, "default", {"default", "strict"}, 0, 0, "numerics: strict rounds once per op"},
      {"threads", SettingKind::Count, "0", {}, 0, 1024, "threads of a step; 0: one per core this process may use"},
      {"jobs", SettingKind::Count, "0", {}, 0, 1024, "kernels compiled at a time; 0: as many as threads"},
      {"disable", SettingKind::Names, "", {}, 0, 0, "compiler passes to leave out"},
      {"jit", SettingKind::Choice, "on", {"on", "off"}, 0, 0, "off: a kernel that no cache holds is an error"},
      {"cache",
       SettingKind::Choice,
       "on",
       {"on", "off", "readonly", "refresh"},
       0,
       0,
       "kernel cache on disk; refresh compiles anew and replaces"},
      {"cache_dir", SettingKind::Path, "", {}, 0, 0, "folder of the kernel cache; empty: stepfuse in the user's cache"},
      {"cache_path", SettingKind::Paths, "", {}, 0, 0, "read-only cache folders and bundles to look in"},
      {"cache_max_size", SettingKind::Size, "1G", {}, 0, 0, "bytes the cache folder may take"},
      {"plugin_dir", SettingKind::Path, "", {}, 0, 0, "folder of the compiler plugin; empty: beside the library"},
      {"nvrtc", SettingKind::Path, "", {}, 0, 0, "CUDA's compiler: its file or folder; empty: the usual places"},
      {"cublaslt", SettingKind::Path, "", {}, 0, 0, "cuBLASLt: its file or folder; empty: the usual places"},
      {"libcuda", SettingKind::Path, "", {}, 0, 0, "CUDA's driver: its file or folder; empty: the loader's path"},
      {"device", SettingKind::Count, "0", {}, 0, 1023, "the CUDA device that target cuda runs on"},
      {"log", SettingKind::Choice, "warn", {"off", "error", "warn", "info", "debug"}, 0, 0, "what is said on stderr"},
      {"dump", SettingKind::Names, "", {"ir", "plan", "llvm", "asm", "cuda", "ptx"}, 0, 0, "stages to write down at prepare"},
      {"dump_dir", SettingKind::Path, "stepfuse-dump", {}, 0, 0, "folder of the dumps and of failure reports"},
      {"override_dir", SettingKind::Path, "", {}, 0, 0, "folder of edited kernels (<kernel>.ll, .cu) to use in place"},
      {"trace", SettingKind::Path, "", {}, 0, 0, "Chrome trace of prepare, compile, cache, bind and step"},
  };
  return settings;
}

const SettingInfo* find_setting(std::string_view name) {
  for (const SettingInfo& info : table())
    if (info.name == name) return &info;
  return nullptr;
}

std::string upper(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

tl::unexpected<Status> illegal(const SettingSource& source, std::string hint) {
  return with_hint(fail(StatusCode::InvalidArgument, "{}: {}={} is not legal", source.where, source.name, source.text),
                   std::move(hint));
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// "4096", "64K", "512M", "1G", "2T".
std::optional<int64_t> size_in_bytes(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  int shift = 0;
  if (!text.empty()) {
    const size_t unit = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  const auto number = whole_number(text);
  if (!number || *number > (INT64_MAX >> shift)) return std::nullopt;
  return *number << shift;
}

Outcome check_choices(const SettingInfo& info, const SettingSource& source, const std::vector<std::string>& given) {
  for (const std::string& word : given) {
    if (info.choices.empty() || std::find(info.choices.begin(), info.choices.end(), word) != info.choices.end())
      continue;
    return illegal(source,
                   suggestion(word, info.choices, fmt::format("{} is {}", info.name, fmt::join(info.choices, ", "))));
  }
  return {};
}

Result<Settings::Value> parse(const SettingInfo& info, const SettingSource& source, Origin origin) {
  Settings::Value value{source.text, origin, source.where, 0, {}};
  switch (info.kind) {
    case SettingKind::Text:
    case SettingKind::Path:
      return value;
    case SettingKind::Paths:
      value.list = split(source.text, ':');
      return value;
    case SettingKind::Names:
      value.list = split(source.text, ',');
      STEPFUSE_TRY(check_choices(info, source, value.list));
      return value;
    case SettingKind::Choice:
      STEPFUSE_TRY(check_choices(info, source, {source.text}));
      return value;
    case SettingKind::Count: {
      const auto number = whole_number(source.text);
      if (!number || *number < info.lo || *number > info.hi)
        return illegal(source, fmt::format("{} is a whole number, {} to {}", info.name, info.lo, info.hi));
      value.number = *number;
      return value;
    }
    case SettingKind::Size: {
      const auto bytes = size_in_bytes(source.text);
      if (!bytes) return illegal(source, fmt::format("{} is a number of bytes such as 1000000, 512M or 1G", info.name));
      value.number = *bytes;
      return value;
    }
  }
  return fail(StatusCode::Internal, "setting {} has no kind", info.name);
}

tl::unexpected<Status> unknown(const SettingSource& source, std::string_view written, bool variable) {
  std::vector<std::string> names;
  for (const SettingInfo& info : table()) names.push_back(variable ? info.variable() : std::string(info.name));
  const std::vector<std::string_view> views(names.begin(), names.end());
  return with_hint(fail(StatusCode::InvalidArgument, "{}: there is no setting '{}'", source.where, written),
                   suggestion(written, views, fmt::format("the settings are {}", fmt::join(names, ", "))));
}

std::vector<SettingSource> of_environment(const std::vector<std::string>& environment) {
  std::vector<SettingSource> sources;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    // An empty variable is as good as none, as for XDG_CACHE_HOME and its like.
    if (equals + 1 == entry.size() || std::find(kForeign.begin(), kForeign.end(), name) != kForeign.end()) continue;
    sources.push_back({name, entry.substr(equals + 1), "environment"});
  }
  return sources;
}

}  // namespace

std::string_view origin_name(Origin origin) {
  switch (origin) {
    case Origin::Default:
      return "default";
    case Origin::File:
      return "file";
    case Origin::Environment:
      return "environment";
    case Origin::Flag:
      return "flag";
  }
  throw_internal(__FILE__, __LINE__, "unknown origin");
}

std::string SettingInfo::variable() const { return std::string(kPrefix) + upper(name); }

std::span<const SettingInfo> all_settings() { return table(); }

Result<Settings> Settings::resolve(const std::vector<SettingSource>& flags, const std::vector<std::string>& environment,
                                   const std::vector<SettingSource>& file) {
  Settings settings;
  for (const SettingInfo& info : table()) {
    STEPFUSE_ASSIGN(Value value,
                    parse(info, {std::string(info.name), std::string(info.default_text), ""}, Origin::Default));
    settings.values_.push_back(std::move(value));
  }
  const auto apply = [&](const SettingSource& source, Origin origin) -> Outcome {
    const bool variable = origin == Origin::Environment;
    const auto it = std::find_if(table().begin(), table().end(), [&](const SettingInfo& info) {
      return variable ? info.variable() == source.name : info.name == source.name;
    });
    if (it == table().end()) return unknown(source, source.name, variable);
    STEPFUSE_ASSIGN(settings.values_[static_cast<size_t>(it - table().begin())], parse(*it, source, origin));
    return {};
  };
  for (const SettingSource& source : file) STEPFUSE_TRY(apply(source, Origin::File));
  for (const SettingSource& source : of_environment(environment)) STEPFUSE_TRY(apply(source, Origin::Environment));
  for (const SettingSource& source : flags) STEPFUSE_TRY(apply(source, Origin::Flag));
  return settings;
}

std::vector<std::string> Settings::process_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

const Settings::Value& Settings::at(std::string_view name) const {
  const SettingInfo* info = find_setting(name);
  STEPFUSE_CHECK(info != nullptr, "there is no setting '{}'", name);
  return values_[static_cast<size_t>(info - table().data())];
}

}  // namespace stepfuse::runtime
