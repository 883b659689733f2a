// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_memory.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

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
  // calloc takes large blocks straight from the kernel, whose pages are zero when they are first touched: by the
  // threads of the first step, not here. The spare bytes make room for the alignment.
  void* block = nullptr;
  if (total <= std::numeric_limits<int64_t>::max() - kAlignment)
    block = std::calloc(static_cast<size_t>(total + kAlignment), 1);
  if (block == nullptr)
    return with_hint(fail(StatusCode::Environment, "cannot allocate {} bytes for the optimizer's states", total),
                     "use fewer or smaller parameters");
  memory.block_.reset(static_cast<std::byte*>(block));
  const int64_t before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(block) % kAlignment);
  for (int64_t& offset : memory.offsets_) offset += kAlignment - before;
  return memory;
}

}  // namespace stepfuse::runtime
