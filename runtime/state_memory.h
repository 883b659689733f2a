// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/device.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepfuse::runtime {

/// Memory for all states of an optimizer, one block, each state on a cache line of its own. Not zeroed: the first step
/// does that; on a CPU by its threads, so that each touches the pages first that it will use.
class StateMemory {
 public:
  static Result<StateMemory> create(const std::vector<int64_t>& bytes, Device& device);
  std::byte* at(size_t index) const { return block_.get() + offsets_[index]; }

 private:
  DeviceMemory block_;
  std::vector<int64_t> offsets_;
};

}  // namespace stepfuse::runtime
