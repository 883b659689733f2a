// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/lexer.h"
#include "tests/vgpu/ptx/program.h"

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace stepfuse::vgpu {

class RaceDetector;

struct Warp;

/// What all blocks of a launch share.
struct LaunchState {
  const Program* program = nullptr;
  GlobalMemory* memory = nullptr;
  Launch launch;
  const std::byte* parameters = nullptr;
  std::vector<std::pair<uint64_t, uint64_t>> read_only;  // address ranges of constant variables
  uint64_t instructions = 0;
  uint64_t max_instructions = 0;
  const SourceText* source = nullptr;
  RaceDetector* races = nullptr;
};

/// One of a block's barriers. PTX ISA "bar, barrier".
struct Barrier {
  uint32_t arrived = 0;   // threads
  uint32_t expected = 0;  // threads; 0: all that are alive
  bool any = false, all = true;
  uint32_t count = 0;                // of true predicates
  std::vector<uint32_t> warp_lanes;  // who has arrived, by warp
  std::vector<uint32_t> waiting;     // and who waits
};

struct Block;

struct Warp {
  Block* block = nullptr;
  LaunchState* state = nullptr;
  std::byte* registers = nullptr;
  uint32_t index = 0;
  uint32_t alive = 0;
  uint32_t at_sync = 0;     // lanes that wait for others of the warp
  uint32_t at_barrier = 0;  // lanes that wait for others of the block
  std::array<uint32_t, kLanes> pc{};
  uint32_t lane = 0;  // the one at work, for messages
};

struct Block {
  LaunchState* state = nullptr;
  Dim3 id;
  uint64_t linear = 0;
  std::vector<Warp> warps;
  std::vector<std::byte> shared, local, registers;
  std::array<Barrier, 16> barriers;
};

template <class T>
T* lanes(Warp& warp, uint32_t offset) {
  return reinterpret_cast<T*>(warp.registers + offset);
}

inline uint32_t& predicate(Warp& warp, uint32_t offset) { return *lanes<uint32_t>(warp, offset); }

inline void write_predicate(Warp& warp, uint32_t offset, uint32_t mask, uint32_t bits) {
  uint32_t& p = predicate(warp, offset);
  p = (p & ~mask) | (bits & mask);
}

// A lane's bit, as data: loops over lanes that test it become vector instructions.
inline constexpr auto kLaneBits = [] {
  std::array<uint32_t, kLanes> bits{};
  for (uint32_t i = 0; i < kLanes; ++i) bits[i] = 1U << i;
  return bits;
}();

template <class T>
void write_lanes(Warp& warp, uint32_t offset, uint32_t mask, const T* values) {
  T* d = lanes<T>(warp, offset);
  if (mask == kAllLanes) {
    std::memcpy(d, values, sizeof(T) * kLanes);
    return;
  }
  for (uint32_t i = 0; i < kLanes; ++i) d[i] = mask & kLaneBits[i] ? values[i] : d[i];
}

template <class F>
void for_lanes(uint32_t mask, F&& work) {
  for (; mask != 0; mask &= mask - 1) work(static_cast<uint32_t>(std::countr_zero(mask)));
}

// d = F(a), d = F(a, b), d = F(a, b, c) for integers and bits: without exceptions all lanes may be computed.
template <auto F, class D, class A>
void unary_lanes(Warp& warp, const Op& op, uint32_t mask) {
  const A* a = lanes<A>(warp, op.a);
  D r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = static_cast<D>(F(a[i]));
  write_lanes(warp, op.d, mask, r);
}

template <auto F, class D, class A, class B>
void binary_lanes(Warp& warp, const Op& op, uint32_t mask) {
  const A* a = lanes<A>(warp, op.a);
  const B* b = lanes<B>(warp, op.b);
  D r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = static_cast<D>(F(a[i], b[i]));
  write_lanes(warp, op.d, mask, r);
}

template <auto F, class D, class A, class B, class C>
void ternary_lanes(Warp& warp, const Op& op, uint32_t mask) {
  const A* a = lanes<A>(warp, op.a);
  const B* b = lanes<B>(warp, op.b);
  const C* c = lanes<C>(warp, op.c);
  D r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = static_cast<D>(F(a[i], b[i], c[i]));
  write_lanes(warp, op.d, mask, r);
}

Dim3 thread_id(const Warp& warp, uint32_t lane);

/// The coordinates of the lane at work, for messages.
std::string where(const Warp& warp);
[[noreturn]] void fault(const Warp& warp, KernelFault::Kind kind, const std::string& what);

/// Where a lane's bytes lie on the host. Checks alignment, bounds and rights.
std::byte* resolve(Warp& warp, Space space, uint32_t lane, uint64_t address, size_t bytes, bool write);

}  // namespace stepfuse::vgpu
