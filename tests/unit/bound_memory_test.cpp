// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound_memory.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using Footprint = BoundMemory::Footprint;
using Range = BoundMemory::Range;

constexpr uintptr_t kBase = 1 << 20;

Range range(uintptr_t offset, const std::vector<int64_t>& shape, const compiler::Strides& strides = {}) {
  return {kBase + offset, BoundMemory::footprint(shape, strides, 4)};
}

TEST(BoundMemory, FootprintOfLayouts) {
  EXPECT_EQ(BoundMemory::footprint({3, 5}, {}, 4), (Footprint{60, 60, 0}));
  EXPECT_EQ(BoundMemory::footprint({3, 5}, {1, 3}, 4), (Footprint{60, 60, 0})) << "dense in another order";
  EXPECT_EQ(BoundMemory::footprint({3, 5}, {8, 1}, 4), (Footprint{84, 20, 32}));
  EXPECT_EQ(BoundMemory::footprint({3, 5}, {10, 2}, 4), (Footprint{116, 4, 8}));
  EXPECT_EQ(BoundMemory::footprint({1, 5, 1}, {7, 1, 9}, 2), (Footprint{10, 10, 0}))
      << "extents of 1 count for nothing";
  EXPECT_EQ(BoundMemory::footprint({2, 3, 4}, {60, 18, 1}, 4), (Footprint{400, 16, 24}));
  EXPECT_EQ(BoundMemory::footprint({0, 5}, {5, 1}, 4).bytes, 0);
  EXPECT_EQ(BoundMemory::footprint({}, {}, 8), (Footprint{8, 8, 0}));
}

TEST(BoundMemory, DenseRanges) {
  BoundMemory memory;
  EXPECT_FALSE(memory.insert(range(64, {16}), 1));
  EXPECT_FALSE(memory.insert(range(0, {16}), 2));
  EXPECT_FALSE(memory.insert(range(128, {16}), 3));
  EXPECT_EQ(memory.insert(range(124, {1}), 4), 1u);
  EXPECT_EQ(memory.insert(range(188, {2}), 5), 3u);
  EXPECT_EQ(memory.insert(range(0, {100}), 6), 2u);
  EXPECT_FALSE(memory.insert(range(10, {0}), 7)) << "nothing lies nowhere";
  memory.erase(range(64, {16}));
  EXPECT_FALSE(memory.insert(range(124, {1}), 8));
}

TEST(BoundMemory, InterleavedPairsAndColumnBlocks) {
  BoundMemory memory;
  EXPECT_FALSE(memory.insert(range(0, {50}, {2}), 1));
  EXPECT_FALSE(memory.insert(range(4, {50}, {2}), 2));
  EXPECT_EQ(memory.insert(range(8, {50}, {2}), 3), 1u);
  EXPECT_EQ(memory.insert(range(200, {1}), 4), 1u) << "dense memory within the span of a strided tensor";
  const uintptr_t wide = 4096;
  EXPECT_FALSE(memory.insert(range(wide, {4, 6}, {16, 1}), 5));
  EXPECT_FALSE(memory.insert(range(wide + 24, {4, 10}, {16, 1}), 6));
  EXPECT_EQ(memory.insert(range(wide + 20, {2, 2}, {16, 1}), 7), 5u) << "it ends in one block and begins in the other";
  memory.erase(range(wide, {4, 6}, {16, 1}));
  EXPECT_FALSE(memory.insert(range(wide, {4, 6}, {16, 1}), 8));
}

/// Whatever is accepted shares no byte, and disjoint spans are always accepted.
TEST(BoundMemory, AcceptsNothingThatOverlaps) {
  std::mt19937 random(7);
  const auto number = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    BoundMemory memory;
    std::set<uintptr_t> taken;
    uintptr_t end = 0;
    for (uint64_t owner = 0; owner < 12; ++owner) {
      const std::vector<int64_t> shape = {number(1, 4), number(1, 5)};
      const int64_t column = number(1, 3);
      const compiler::Strides strides = {column * shape[1] + number(0, 6), column};
      const Range candidate = range(static_cast<uintptr_t>(4 * number(0, 80)), shape, strides);
      std::set<uintptr_t> own;
      for (int64_t i = 0; i < shape[0]; ++i)
        for (int64_t j = 0; j < shape[1]; ++j)
          own.insert(candidate.begin + static_cast<uintptr_t>(4 * (i * strides[0] + j * strides[1])));
      bool shared = false;
      for (uintptr_t element : own) shared = shared || taken.contains(element);
      const bool behind_all = candidate.begin >= end;
      if (memory.insert(candidate, owner)) {
        EXPECT_FALSE(behind_all);
        ++refused;
        continue;
      }
      EXPECT_FALSE(shared);
      taken.insert(own.begin(), own.end());
      end = std::max(end, candidate.begin + static_cast<uintptr_t>(candidate.footprint.bytes));
      ++accepted;
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace stepfuse::runtime
