// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/memory.h"
#include "tests/vgpu/ptx/warp.h"

#include <array>

// PTX ISA "Data Movement and Conversion Instructions": mov, cvta, isspacep.
namespace stepfuse::vgpu {
namespace {

template <class T>
void copy(Warp& w, const Op& op, uint32_t mask) {
  write_lanes(w, op.d, mask, lanes<T>(w, op.a));
}

struct Wide {
  uint64_t half[2];
};

void copy_predicate(Warp& w, const Op& op, uint32_t mask) { write_predicate(w, op.d, mask, predicate(w, op.a)); }

Handler copy_of(uint32_t bytes) {
  if (bytes == 1) return copy<uint8_t>;
  if (bytes == 2) return copy<uint16_t>;
  if (bytes == 4) return copy<uint32_t>;
  if (bytes == 8) return copy<uint64_t>;
  return copy<Wide>;
}

// {a, b} and {a, b, c, d}: parts of one register. The parts are the values of a memory access whose place is a
// register.
void pack(Warp& w, const Op& op, uint32_t mask) {
  const MemoryAccess& parts = w.state->program->accesses[op.target];
  const size_t whole = size_t{parts.bytes} * parts.count;
  for_lanes(mask, [&](uint32_t lane) {
    std::array<std::byte, 16> bytes{};
    for (uint32_t i = 0; i < parts.count; ++i) {
      std::memcpy(bytes.data() + i * parts.bytes, w.registers + parts.values[i].offset + lane * parts.bytes,
                  parts.bytes);
    }
    std::memcpy(w.registers + op.d + lane * whole, bytes.data(), whole);
  });
}

void unpack(Warp& w, const Op& op, uint32_t mask) {
  const MemoryAccess& parts = w.state->program->accesses[op.target];
  const size_t whole = size_t{parts.bytes} * parts.count;
  for_lanes(mask, [&](uint32_t lane) {
    std::array<std::byte, 16> bytes{};
    std::memcpy(bytes.data(), w.registers + op.a + lane * whole, whole);
    for (uint32_t i = 0; i < parts.count; ++i) {
      if (parts.values[i].bytes == 0) continue;
      std::memcpy(w.registers + parts.values[i].offset + lane * parts.bytes, bytes.data() + i * parts.bytes,
                  parts.bytes);
    }
  });
}

Type bits_of(uint32_t bytes) {
  return bytes == 1 ? Type::B8 : bytes == 2 ? Type::B16 : bytes == 4 ? Type::B32 : bytes == 8 ? Type::B64 : Type::B128;
}

void decode_vector_move(Decoder& d, Type type) {
  const bool packs = d.operand(1).kind == Operand::Kind::Vector;
  const auto& elements = d.operand(packs ? 1 : 0).elements;
  MemoryAccess parts;
  parts.count = static_cast<uint8_t>(elements.size());
  if (!is_bits(type) || (parts.count != 2 && parts.count != 4) || bytes_of(type) / parts.count == 0) {
    d.fail("parts that do not make up the type");
  }
  parts.bytes = static_cast<uint8_t>(bytes_of(type) / parts.count);
  for (const Operand& element : elements) {
    if (element.kind == Operand::Kind::Sink) {
      if (packs) d.fail("a part that is nothing");
      parts.values.push_back({});
      continue;
    }
    const Type part = bits_of(parts.bytes);
    parts.values.push_back({packs ? d.in(element, part) : d.out(element, part), parts.bytes});
  }
  if (packs) {
    d.op.d = d.out(0, type);
  } else {
    d.op.a = d.in(1, type);
  }
  d.op.run = packs ? pack : unpack;
  d.op.target = add_access(d, parts);
}

// Time is the count of instructions that the launch has run, a nanosecond each: it never goes back.
template <class T>
void read_time(Warp& w, const Op& op, uint32_t mask) {
  std::array<T, kLanes> now{};
  now.fill(static_cast<T>(w.state->instructions >> op.immediate));
  write_lanes(w, op.d, mask, now.data());
}

bool decode_time(Decoder& d, Type type) {
  const std::string& name = d.operand(1).name;
  const bool narrow = name == "%clock" || name == "%clock_hi" || name == "%globaltimer_lo" || name == "%globaltimer_hi";
  const bool wide = name == "%clock64" || name == "%globaltimer";
  if (d.operand(1).kind != Operand::Kind::Special || (!narrow && !wide)) return false;
  if (bytes_of(type) != (narrow ? 4 : 8)) d.fail("a special register of another width");
  d.op.d = d.out(0, type);
  if (name.ends_with("_hi")) d.op.immediate = 32;
  d.op.run = narrow ? read_time<uint32_t> : read_time<uint64_t>;
  return true;
}

void decode_mov(Decoder& d) {
  const Type type = d.take_type();
  if (info(type).kind == TypeClass::Packed || type == Type::TF32 || bytes_of(type) == 1) d.fail("no type of mov");
  d.expect_operands(2, 2);
  if (d.operand(0).kind == Operand::Kind::Vector || d.operand(1).kind == Operand::Kind::Vector) {
    return decode_vector_move(d, type);
  }
  if (decode_time(d, type)) return;
  if (d.operand(1).negated) d.fail("mov of !p");
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  d.op.run = type == Type::Pred ? copy_predicate : copy_of(bytes_of(type));
}

uint64_t window_of(Space space) {
  if (space == Space::Shared) return kSharedWindow;
  if (space == Space::Local) return kLocalWindow;
  return space == Space::EntryParam ? kParamWindow : 0;
}

void to_generic(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t* a = lanes<uint64_t>(w, op.a);
  uint64_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = a[i] + op.immediate;
  write_lanes(w, op.d, mask, r);
}

Space take_named_space(Decoder& d) {
  const Space space = take_space(d);
  if (space == Space::Generic) d.fail("no state space");
  if (space == Space::EntryParam && !d.function().function->entry) return Space::Local;
  return space;
}

void decode_cvta(Decoder& d) {
  const bool back = d.take("to");
  const Space space = take_named_space(d);
  d.take_type({Type::U64});
  d.expect_operands(2, 2);
  d.op.d = d.out(0, Type::U64);
  d.op.a = d.in(1, Type::U64);
  d.op.immediate = back ? -window_of(space) : window_of(space);
  d.op.run = to_generic;
}

// A generic address is of a window, or global. Constant memory lies in global memory here, so it is told by its range.
void is_space(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t* a = lanes<uint64_t>(w, op.a);
  const auto asked = static_cast<Space>(op.immediate);
  uint32_t result = 0;
  for_lanes(mask, [&](uint32_t lane) {
    bool constant = false;
    for (const auto& [first, end] : w.state->read_only) constant |= a[lane] >= first && a[lane] < end;
    const bool windowed = a[lane] >= kSharedWindow && a[lane] < kParamWindow + kWindowBytes;
    const uint64_t window = window_of(asked);
    bool inside = window != 0 && a[lane] >= window && a[lane] < window + kWindowBytes;
    if (asked == Space::Const) inside = constant;
    if (asked == Space::Global) inside = !windowed && !constant;
    result |= uint32_t{inside} << lane;
  });
  write_predicate(w, op.d, mask, result);
}

void decode_isspacep(Decoder& d) {
  d.op.immediate = static_cast<uint64_t>(take_named_space(d));
  d.expect_operands(2, 2);
  d.op.d = d.predicate_out(d.operand(0));
  d.op.a = d.in(1, Type::B64);
  d.op.run = is_space;
}

constexpr InstructionRow kRows[] = {
    {"mov", Family::Any, decode_mov},
    {"cvta", Family::Any, decode_cvta},
    {"isspacep", Family::Any, decode_isspacep},
};

}  // namespace

std::span<const InstructionRow> move_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
