// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_memory.h"

namespace stepfuse::runtime {

Result<StateMemory> StateMemory::create(const std::vector<int64_t>& bytes, Device& device) {
  constexpr int64_t kAlignment = 64;  // a cache line, and the widest vector
  StateMemory memory;
  int64_t total = 0;
  for (int64_t each : bytes) {
    memory.offsets_.push_back(total);
    int64_t rounded = 0;
    if (__builtin_add_overflow(each, kAlignment - 1, &rounded) ||
        __builtin_add_overflow(total, rounded / kAlignment * kAlignment, &total))
      return with_hint(fail(StatusCode::InvalidArgument, "the states together exceed 2^63 bytes"),
                       "use fewer or smaller parameters");
  }
  STEPFUSE_ASSIGN(memory.block_, DeviceMemory::create(device, total, "the optimizer's states"));
  return memory;
}

}  // namespace stepfuse::runtime
