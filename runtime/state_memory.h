// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace stepfuse::runtime {

/// Zeroed memory for all states of an optimizer, one block, each state on a cache line of its own.
class StateMemory {
 public:
  static Result<StateMemory> create(const std::vector<int64_t>& bytes);
  std::byte* at(size_t index) const { return block_.get() + offsets_[index]; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> block_;
  std::vector<int64_t> offsets_;
};

}  // namespace stepfuse::runtime
