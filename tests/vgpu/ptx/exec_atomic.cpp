// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/formats.h"
#include "tests/vgpu/ptx/memory.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <cmath>

// PTX ISA "atom", "red". Lanes take their turns one by one; the order of warps and blocks is the launch's.
namespace stepfuse::vgpu {
namespace {

template <class T>
T load_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// F(old, b, c) gives the new value. Operand d is written only by atom.
template <class T, auto F>
void atomic(Warp& w, const Op& op, uint32_t mask) {
  const MemoryAccess& access = w.state->program->accesses[op.target];
  const T* b = lanes<T>(w, op.b);
  const T* c = lanes<T>(w, op.c);
  T old[kLanes] = {};
  // The ISA gives no order among the lanes: an odd seed goes downwards.
  const uint32_t mirror = w.state->launch.seed & 1 ? kLanes - 1 : 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t lane = i ^ mirror;
    if (!(mask >> lane & 1)) continue;
    std::byte* place = access_lane(w, access, lane, true);
    old[lane] = load_as<T>(place);
    const T changed = F(old[lane], b[lane], c[lane]);
    std::memcpy(place, &changed, sizeof changed);
  }
  if (op.immediate != 0) write_lanes(w, op.d, mask, old);
}

template <class T>
T add(T old, T b, T) {
  return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(b));
}
template <class T>
T least(T old, T b, T) {
  return std::min(old, b);
}
template <class T>
T greatest(T old, T b, T) {
  return std::max(old, b);
}
template <class T>
T bit_and(T old, T b, T) {
  return old & b;
}
template <class T>
T bit_or(T old, T b, T) {
  return old | b;
}
template <class T>
T bit_xor(T old, T b, T) {
  return old ^ b;
}
template <class T>
T exchange(T, T b, T) {
  return b;
}
template <class T>
T compare_and_swap(T old, T b, T c) {
  return old == b ? c : old;
}
uint32_t increment(uint32_t old, uint32_t b, uint32_t) { return old >= b ? 0 : old + 1; }
uint32_t decrement(uint32_t old, uint32_t b, uint32_t) { return old == 0 || old > b ? b : old - 1; }

template <class T>
T float_add(T old, T b, T) {
  const T sum = old + b;
  return std::isnan(sum) ? std::bit_cast<T>(std::conditional_t < sizeof(T) == 4, uint32_t,
                                            uint64_t > (sizeof(T) == 4 ? kSingleNan : kDoubleNan))
                         : sum;
}
// In global memory a single-precision sum flushes subnormal numbers: PTX ISA "atom", ".add.f32".
float flushing_add(float old, float b, float c) {
  const auto flush = [](float v) { return std::fabs(v) < 0x1p-126F ? std::copysign(0.0F, v) : v; };
  return flush(float_add(flush(old), flush(b), c));
}
uint16_t half_add(uint16_t old, uint16_t b, uint16_t) {
  return to_half(double{half_to_float(old)} + double{half_to_float(b)});
}
uint16_t bfloat_add(uint16_t old, uint16_t b, uint16_t) {
  return to_bfloat(add_to_odd(bfloat_to_float(old), bfloat_to_float(b)));
}
template <auto F>
uint32_t packed_add(uint32_t old, uint32_t b, uint32_t) {
  const uint32_t low = F(static_cast<uint16_t>(old), static_cast<uint16_t>(b), uint16_t{});
  const uint32_t high = F(static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(b >> 16), uint16_t{});
  return high << 16 | low;
}

struct AtomicRow {
  std::string_view name;
  Type type;
  Handler run;
};

// The types each operation has: PTX ISA "atom", table of operations.
constexpr AtomicRow kAtomics[] = {
    {"add", Type::U32, atomic<uint32_t, add<uint32_t>>},
    {"add", Type::S32, atomic<uint32_t, add<uint32_t>>},
    {"add", Type::U64, atomic<uint64_t, add<uint64_t>>},
    {"add", Type::F32, atomic<float, float_add<float>>},
    {"add", Type::F64, atomic<double, float_add<double>>},
    {"add", Type::F16, atomic<uint16_t, half_add>},
    {"add", Type::BF16, atomic<uint16_t, bfloat_add>},
    {"add", Type::F16x2, atomic<uint32_t, packed_add<half_add>>},
    {"add", Type::BF16x2, atomic<uint32_t, packed_add<bfloat_add>>},
    {"inc", Type::U32, atomic<uint32_t, increment>},
    {"dec", Type::U32, atomic<uint32_t, decrement>},
    {"min", Type::U32, atomic<uint32_t, least<uint32_t>>},
    {"min", Type::S32, atomic<int32_t, least<int32_t>>},
    {"min", Type::U64, atomic<uint64_t, least<uint64_t>>},
    {"min", Type::S64, atomic<int64_t, least<int64_t>>},
    {"max", Type::U32, atomic<uint32_t, greatest<uint32_t>>},
    {"max", Type::S32, atomic<int32_t, greatest<int32_t>>},
    {"max", Type::U64, atomic<uint64_t, greatest<uint64_t>>},
    {"max", Type::S64, atomic<int64_t, greatest<int64_t>>},
    {"and", Type::B32, atomic<uint32_t, bit_and<uint32_t>>},
    {"and", Type::B64, atomic<uint64_t, bit_and<uint64_t>>},
    {"or", Type::B32, atomic<uint32_t, bit_or<uint32_t>>},
    {"or", Type::B64, atomic<uint64_t, bit_or<uint64_t>>},
    {"xor", Type::B32, atomic<uint32_t, bit_xor<uint32_t>>},
    {"xor", Type::B64, atomic<uint64_t, bit_xor<uint64_t>>},
    {"exch", Type::B32, atomic<uint32_t, exchange<uint32_t>>},
    {"exch", Type::B64, atomic<uint64_t, exchange<uint64_t>>},
    {"cas", Type::B16, atomic<uint16_t, compare_and_swap<uint16_t>>},
    {"cas", Type::B32, atomic<uint32_t, compare_and_swap<uint32_t>>},
    {"cas", Type::B64, atomic<uint64_t, compare_and_swap<uint64_t>>},
};

Handler handler_of(Decoder& d, std::string_view name, Type type, Space space) {
  if (name == "add" && type == Type::F32 && space != Space::Shared) return atomic<float, flushing_add>;
  for (const AtomicRow& row : kAtomics) {
    if (row.name == name && row.type == type) return row.run;
  }
  d.fail("no such operation on this type");
}

// The operation is the last of its names: `and`, `or` and `xor` are no scopes.
void decode_atomic(Decoder& d, bool returns) {
  const std::string_view order = d.take_any({"relaxed", "acquire", "release", "acq_rel"});  // none: relaxed
  static_cast<void>(d.take_any({"cta", "cluster", "gpu", "sys"}));
  if (d.has("L2::cache_hint")) d.fail("a cache policy");
  MemoryAccess access;
  access.space = take_space(d);
  if (access.space != Space::Generic && access.space != Space::Global && access.space != Space::Shared) {
    d.fail("atomics are in global and shared memory");
  }
  const bool both = order == "acq_rel";
  access.ordering = {true, both || order == "acquire", both || order == "release"};
  const std::string_view name = d.take_any({"add", "inc", "dec", "min", "max", "and", "or", "xor", "exch", "cas"});
  const bool without_flush = d.take("noftz");
  if (d.has("v2") || d.has("v4") || d.has("v8")) d.fail("vector atomics");
  const Type type = d.take_type();
  const bool half = bytes_of(type) == 2 || info(type).kind == TypeClass::Packed;
  if (half && type != Type::B16 && !without_flush) d.fail("needs .noftz");
  const bool bfloat = type == Type::BF16 || type == Type::BF16x2;
  if (bfloat && d.layout().module.capability < 90) d.fail("of .bf16 needs sm_90");
  const size_t first = returns ? 1 : 0;
  const size_t count = first + (name == "cas" ? 3 : 2);
  d.expect_operands(count, count);
  access.bytes = static_cast<uint8_t>(bytes_of(type));
  take_address(d, access, d.operand(first));
  d.op.run = handler_of(d, name, type, access.space);
  if (!returns && (name == "cas" || name == "exch")) d.fail("red has no such operation");
  d.op.b = d.in(first + 1, type);
  if (name == "cas") d.op.c = d.in(first + 2, type);
  if (returns) d.op.d = d.out(0, type);
  d.op.immediate = returns;
  d.op.target = add_access(d, access);
  d.op.switches = true;
}

constexpr InstructionRow kRows[] = {
    {"atom", Family::Any, [](Decoder& d) { decode_atomic(d, true); }},
    {"red", Family::Any, [](Decoder& d) { decode_atomic(d, false); }},
};

}  // namespace

std::span<const InstructionRow> atomic_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
