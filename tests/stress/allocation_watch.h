// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace stepfuse::tests {

/// Whether this program watches malloc: not under sanitizers, which have a malloc of their own.
bool can_watch_allocations();

/// Counts the heap allocations of every thread of the process while it lives, by who asked for them: the first caller
/// that is neither libc nor libstdc++. The test program itself without the OpenBLAS in it, the plugin and
/// generated code count as ours. One at a time.
class AllocationWatch {
 public:
  AllocationWatch();
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  int64_t ours() const;
  /// Call stack of our first allocation, for a failing test's message.
  std::string first_of_ours() const;
  /// Shared object -> allocations.
  std::map<std::string, int64_t> of_libraries() const;
};

}  // namespace stepfuse::tests
