// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/names.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>

#include <unistd.h>

namespace stepfuse::runtime {

namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kSuffix = ".sfk";
constexpr size_t kHashDigits = 32;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Names the set of processes among which a process number means one process: this boot and this PID namespace.
const std::string& machine() {
  static const std::string name = [] {
    std::string text;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
    std::array<char, 64> link{};
    const ssize_t size = ::readlink("/proc/self/ns/pid", link.data(), link.size());
    text.append(link.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return ir::hash_bytes(text).hex().substr(0, 16);
  }();
  return name;
}

}  // namespace

EntryName entry_name(EntryKind kind, const ir::Hash128& hash) {
  const std::string digits = hash.hex();
  return {digits.substr(0, 2), fmt::format("{}.{}{}", digits, entry_kind_name(kind), kSuffix)};
}

bool is_shard_name(std::string_view name) { return name.size() == 2 && is_hex(name); }

bool is_entry_name(std::string_view name) {
  if (name.size() <= kHashDigits || !is_hex(name.substr(0, kHashDigits))) return false;
  const std::string_view rest = name.substr(kHashDigits);
  for (const EntryKind kind : kEntryKinds)
    if (rest == fmt::format(".{}{}", entry_kind_name(kind), kSuffix)) return true;
  return false;
}

std::string temporary_name() {
  static std::atomic<uint64_t> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}{}-{}-{:x}.{}", kTemporary, machine(), ::getpid(), now, count++);
}

bool is_temporary_name(std::string_view name) { return name.starts_with(kTemporary); }

bool writer_is_gone(std::string_view name) {
  const std::string own = fmt::format("{}{}-", kTemporary, machine());
  if (!name.starts_with(own)) return false;
  name.remove_prefix(own.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  return error == std::errc{} && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace stepfuse::runtime
