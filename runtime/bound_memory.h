// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstdint>
#include <map>
#include <string>

namespace stepfuse::runtime {

/// The memory ranges callers have bound; no two may overlap.
class BoundMemory {
 public:
  struct Range {
    uintptr_t begin = 0;
    int64_t bytes = 0;
  };
  /// The error names both owners.
  Outcome insert(Range range, const std::string& owner);
  void erase(Range range);

 private:
  struct Entry {
    uintptr_t end;
    std::string owner;
  };
  std::map<uintptr_t, Entry> entries_;
};

}  // namespace stepfuse::runtime
