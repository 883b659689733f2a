// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/glob.h"

#include <utility>

namespace stepfuse::runtime {

namespace {

/// The bracket that closes the set at `open`, or npos. A ] right after [ or [! is a member.
size_t set_end(std::string_view pattern, size_t open) {
  size_t at = open + 1;
  if (at < pattern.size() && pattern[at] == '!') ++at;
  return pattern.find(']', at + 1);
}

/// `set` is what stands between the brackets.
bool in_set(std::string_view set, char c) {
  const bool negated = set.front() == '!';
  if (negated) set.remove_prefix(1);
  bool found = false;
  for (size_t i = 0; i < set.size(); ++i) {
    const bool range = i + 2 < set.size() && set[i + 1] == '-';
    found = found || (range ? set[i] <= c && c <= set[i + 2] : set[i] == c);
    if (range) i += 2;
  }
  return found != negated;
}

/// Whether the element of the pattern at `at` (no *) takes `c`; `at` moves behind the element.
bool takes(std::string_view pattern, size_t& at, char c) {
  if (pattern[at] == '[') {
    const size_t end = set_end(pattern, at);
    const bool taken = in_set(pattern.substr(at + 1, end - at - 1), c);
    at = end + 1;
    return taken;
  }
  const char wanted = pattern[at++];
  return wanted == '?' || wanted == c;
}

/// Greedy with one point of return, the last *: linear but for that.
bool match(std::string_view pattern, std::string_view name) {
  size_t at = 0, i = 0;
  size_t star = std::string_view::npos, resume = 0;
  while (i < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      resume = i;
      continue;
    }
    if (at < pattern.size() && takes(pattern, at, name[i])) {
      ++i;
      continue;
    }
    if (star == std::string_view::npos) return false;
    at = star;
    i = ++resume;
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace

Result<Glob> Glob::compile(std::string pattern) {
  if (pattern.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "a name pattern is empty"), "* stands for every name");
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '[') continue;
    const size_t end = set_end(pattern, at);
    if (end == std::string::npos)
      return with_hint(fail(StatusCode::InvalidArgument, "'{}': the [ at {} is not closed", pattern, at + 1),
                       "[abc] stands for one of the characters; [[] stands for the bracket itself");
    at = end;
  }
  Glob glob;
  glob.literal_ = pattern.find_first_of("*?[") == std::string::npos;
  glob.text_ = std::move(pattern);
  return glob;
}

bool Glob::matches(std::string_view name) const { return literal_ ? name == text_ : match(text_, name); }

}  // namespace stepfuse::runtime
