// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_memory.h"

#include <cstdlib>
#include <cstring>

namespace stepfuse::runtime {

namespace {
constexpr int64_t kAlignment = 64;
}

void StateMemory::Free::operator()(std::byte* p) const { std::free(p); }

Result<StateMemory> StateMemory::create(const std::vector<int64_t>& bytes) {
  StateMemory memory;
  int64_t total = 0;
  for (int64_t each : bytes) {
    memory.offsets_.push_back(total);
    const int64_t rounded = (each + kAlignment - 1) / kAlignment * kAlignment;
    if (__builtin_add_overflow(total, rounded, &total))
      return fail(StatusCode::InvalidArgument, "the states together exceed 2^63 bytes");
  }
  total = total == 0 ? kAlignment : total;
  memory.block_.reset(
      static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(kAlignment), static_cast<size_t>(total))));
  if (memory.block_ == nullptr)
    return with_hint(fail(StatusCode::Environment, "cannot allocate {} bytes for the optimizer's states", total),
                     "use fewer or smaller parameters");
  std::memset(memory.block_.get(), 0, static_cast<size_t>(total));
  return memory;
}

}  // namespace stepfuse::runtime
