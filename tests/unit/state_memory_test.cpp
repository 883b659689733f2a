// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

const std::unique_ptr<Device> device = make_host_device(default_allocator());

TEST(StateMemory, EachStateOnItsOwnCacheLines) {
  const std::vector<int64_t> sizes = {1, 64, 0, 65, 4096, 3, int64_t{4} << 20, 7};
  auto memory = StateMemory::create(sizes, *device);
  ASSERT_TRUE(memory) << memory.error().message;
  const std::byte* end = nullptr;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::byte* state = memory->at(i);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(state) % 64, 0u) << i;
    if (i > 0) {
      EXPECT_GE(state, end) << i;
    }
    end = state + sizes[i];
    std::fill(state, state + sizes[i], std::byte{0xff});
  }
}

TEST(StateMemory, NoStates) { EXPECT_TRUE(StateMemory::create({}, *device)); }

TEST(StateMemory, TooLargeIsAnError) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() - 63;
  for (const auto& sizes : {std::vector<int64_t>{kHuge, kHuge}, std::vector<int64_t>{kHuge}}) {
    const auto memory = StateMemory::create(sizes, *device);
    ASSERT_FALSE(memory);
    EXPECT_FALSE(memory.error().message.empty());
  }
}

}  // namespace
}  // namespace stepfuse::runtime
