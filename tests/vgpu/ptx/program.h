// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/machine.h"
#include "tests/vgpu/ptx/types.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::vgpu {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;

struct Warp;
struct Op;

/// Does an instruction for the lanes of `mask`.
using Handler = void (*)(Warp& warp, const Op& op, uint32_t mask);

enum class Flow : uint8_t {
  Next,
  Branch,
  BranchTable,
  Call,
  Return,
  Exit,
  WarpSync,  // waits for the lanes that operand e names
  Barrier,
};

// Op::flags
enum OpFlags : uint16_t {
  kFlushSubnormals = 1,
  kSaturate = 2,
  kNegatePredicate = 4,  // the source predicate is !p
  kRelu = 8,
  kNanResult = 16,  // min and max with .NaN
  kXorSign = 32,
  kAbsolute = 64,
  kAligned = 128,    // barriers
  kHasCount = 256,   // a barrier with a number of threads
  kArriveOnly = 512  // bar.arrive
};

enum class Rounding : uint8_t { Nearest, Zero, Down, Up, Away };

/// An instruction as it runs. Registers are byte offsets into a warp's register file, where each has 32 lanes side by
/// side, or 32 bits if it is a predicate. Constants are registers too.
struct Op {
  Handler run = nullptr;
  Flow flow = Flow::Next;
  bool guarded = false;
  bool guard_negated = false;
  bool switches = false;  // other warps may run before it: shared memory, atomics
  Rounding rounding = Rounding::Nearest;
  uint16_t flags = 0;
  uint32_t guard = 0;
  uint32_t d = 0, d2 = 0, a = 0, b = 0, c = 0, e = 0;
  uint32_t target = 0;  // of a branch; or an index into a table of the program
  uint64_t immediate = 0;
  uint32_t line = 0;
};

/// A register as memory instructions see it.
struct RegisterRef {
  uint32_t offset = 0;
  uint8_t bytes = 0;  // 0: nowhere
};

/// PTX ISA "Memory Consistency Model": two strong accesses are no race; what came before one of them is seen after
/// another only by release and acquire, which they have themselves or by a fence beside them.
struct Ordering {
  bool strong = false;  // volatile, relaxed, acquire, release
  bool acquires = false, releases = false;
};

struct MemoryAccess {
  Space space = Space::Generic;
  uint8_t bytes = 0;  // of an element
  uint8_t count = 1;  // of elements
  bool sign_extend = false;
  Ordering ordering;
  RegisterRef base;  // bytes 0: the displacement alone
  int64_t displacement = 0;
  std::vector<RegisterRef> values;
};

/// What a warp-wide instruction reads and writes, for lanes that come by different ways. 1: a predicate.
struct SyncShape {
  uint8_t a = 0, b = 0, c = 0, d = 0, d2 = 0;
};

/// A special register: its value lies in the register file before a warp starts. PTX ISA "Special Registers".
struct SpecialValue {
  uint32_t (*value)(const Warp& warp, uint32_t lane) = nullptr;
  uint32_t offset = 0;
  uint8_t bytes = 4;
  bool uniform = false;  // the same in all lanes
};

/// A kernel with all the functions it calls.
struct Program {
  KernelInfo info;
  std::vector<Op> ops;
  uint32_t entry = 0;  // the first op of the kernel; what it calls lies before
  std::vector<MemoryAccess> accesses;
  std::vector<SyncShape> sync_shapes;
  std::vector<std::vector<uint32_t>> branch_tables;
  std::vector<std::byte> image;  // of a warp's register file: constants, then poison
  std::vector<SpecialValue> specials;
  uint32_t scratch = 0;  // eight 64-bit registers for warp-wide instructions
  size_t static_shared_bytes = 0;
  size_t shared_alignment = 16;
  size_t local_bytes = 0;
};

}  // namespace stepfuse::vgpu
