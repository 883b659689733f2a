// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <bit>

// PTX ISA "Logic and Shift Instructions", and of the integer instructions those that work on bits.
namespace stepfuse::vgpu {
namespace {

template <class F, class T>
void binary(Warp& w, const Op& op, uint32_t mask) {
  binary_lanes<[](T a, T b) { return F::apply(a, b); }, T, T, T>(w, op, mask);
}

struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class F>
void logic_predicate(Warp& w, const Op& op, uint32_t mask) {
  write_predicate(w, op.d, mask, F::apply(predicate(w, op.a), predicate(w, op.b)));
}

constexpr std::initializer_list<Type> kLogic = {Type::Pred, Type::B16, Type::B32, Type::B64};

template <class F>
void decode_logic(Decoder& d) {
  const Type type = d.take_type(kLogic);
  d.expect_operands(3, 3);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, type);
  if (d.operand(1).negated || d.operand(2).negated) d.fail("! is not for this instruction");
  if (type == Type::Pred) d.op.run = logic_predicate<F>;
  if (type == Type::B16) d.op.run = binary<F, uint16_t>;
  if (type == Type::B32) d.op.run = binary<F, uint32_t>;
  if (type == Type::B64) d.op.run = binary<F, uint64_t>;
}

template <class T>
void bit_not(Warp& w, const Op& op, uint32_t mask) {
  unary_lanes<[](T a) { return ~a; }, T, T>(w, op, mask);
}
template <class T>
void logical_not(Warp& w, const Op& op, uint32_t mask) {
  unary_lanes<[](T a) { return a == 0 ? 1 : 0; }, T, T>(w, op, mask);
}
void predicate_not(Warp& w, const Op& op, uint32_t mask) { write_predicate(w, op.d, mask, ~predicate(w, op.a)); }

void decode_not(Decoder& d) {
  const Type type = d.take_type(kLogic);
  d.expect_operands(2, 2);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  if (type == Type::Pred) d.op.run = predicate_not;
  if (type == Type::B16) d.op.run = bit_not<uint16_t>;
  if (type == Type::B32) d.op.run = bit_not<uint32_t>;
  if (type == Type::B64) d.op.run = bit_not<uint64_t>;
}

void decode_cnot(Decoder& d) {
  const Type type = d.take_type({Type::B16, Type::B32, Type::B64});
  d.expect_operands(2, 2);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  if (type == Type::B16) d.op.run = logical_not<uint16_t>;
  if (type == Type::B32) d.op.run = logical_not<uint32_t>;
  if (type == Type::B64) d.op.run = logical_not<uint64_t>;
}

// lop3: bit k of the table is the result for the inputs whose bits spell k.
void lop3(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* a = lanes<uint32_t>(w, op.a);
  const uint32_t* b = lanes<uint32_t>(w, op.b);
  const uint32_t* c = lanes<uint32_t>(w, op.c);
  uint32_t r[kLanes] = {};
  for (uint32_t k = 0; k < 8; ++k) {
    if (!(op.immediate >> k & 1)) continue;
    const uint32_t na = k & 4 ? 0 : kAllLanes;
    const uint32_t nb = k & 2 ? 0 : kAllLanes;
    const uint32_t nc = k & 1 ? 0 : kAllLanes;
    for (uint32_t i = 0; i < kLanes; ++i) r[i] |= (a[i] ^ na) & (b[i] ^ nb) & (c[i] ^ nc);
  }
  write_lanes(w, op.d, mask, r);
}

void decode_lop3(Decoder& d) {
  if (d.has("or") || d.has("and")) d.fail("lop3 with a predicate");
  d.take_type({Type::B32});
  d.expect_operands(5, 5);
  d.op.d = d.out(0, Type::B32);
  d.op.a = d.in(1, Type::B32);
  d.op.b = d.in(2, Type::B32);
  d.op.c = d.in(3, Type::B32);
  if (d.operand(4).kind != Operand::Kind::Integer || d.operand(4).bits > 255)
    d.fail("a table that is no constant of 8 bits");
  d.op.immediate = d.operand(4).bits;
  d.op.run = lop3;
}

// Amounts beyond the width shift everything out.
template <class T>
void shl(Warp& w, const Op& op, uint32_t mask) {
  binary_lanes<[](T a, uint32_t b) { return b >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << b); }, T, T, uint32_t>(
      w, op, mask);
}
template <class T>
void shr(Warp& w, const Op& op, uint32_t mask) {
  constexpr uint32_t kWidth = sizeof(T) * 8;
  constexpr auto kShift = [](T a, uint32_t b) {
    if (b >= kWidth) return static_cast<T>(a < 0 ? -1 : 0);
    return static_cast<T>(a >> b);
  };
  binary_lanes<kShift, T, T, uint32_t>(w, op, mask);
}

void decode_shift(Decoder& d, bool left) {
  const Type type = left ? d.take_type({Type::B16, Type::B32, Type::B64})
                         : d.take_type({Type::B16, Type::B32, Type::B64, Type::U16, Type::U32, Type::U64, Type::S16,
                                        Type::S32, Type::S64});
  d.expect_operands(3, 3);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, Type::U32);
  const uint32_t bytes = bytes_of(type);
  if (left) {
    d.op.run = bytes == 2 ? shl<uint16_t> : bytes == 4 ? shl<uint32_t> : shl<uint64_t>;
  } else if (is_signed(type)) {
    d.op.run = bytes == 2 ? shr<int16_t> : bytes == 4 ? shr<int32_t> : shr<int64_t>;
  } else {
    d.op.run = bytes == 2 ? shr<uint16_t> : bytes == 4 ? shr<uint32_t> : shr<uint64_t>;
  }
}

// shf: 64 bits of b:a shifted by c, the upper or lower half kept.
template <bool Left, bool Wrap>
void shf(Warp& w, const Op& op, uint32_t mask) {
  constexpr auto kShift = [](uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = Wrap ? c & 31 : std::min(c, 32U);
    const uint64_t both = uint64_t{b} << 32 | a;
    return Left ? static_cast<uint32_t>(both << n >> 32) : static_cast<uint32_t>(both >> n);
  };
  ternary_lanes<kShift, uint32_t, uint32_t, uint32_t, uint32_t>(w, op, mask);
}

void decode_shf(Decoder& d) {
  const bool left = d.take("l");
  if (!left && !d.take("r")) d.fail("neither .l nor .r");
  const bool wrap = d.take("wrap");
  if (!wrap && !d.take("clamp")) d.fail("neither .wrap nor .clamp");
  d.take_type({Type::B32});
  d.expect_operands(4, 4);
  d.op.d = d.out(0, Type::B32);
  d.op.a = d.in(1, Type::B32);
  d.op.b = d.in(2, Type::B32);
  d.op.c = d.in(3, Type::U32);
  if (left) {
    d.op.run = wrap ? shf<true, true> : shf<true, false>;
  } else {
    d.op.run = wrap ? shf<false, true> : shf<false, false>;
  }
}

// bfe: `length` bits from `position`, beyond the top the sign (or zero). Only the low 8 bits of b and c count.
template <class T>
void bfe(Warp& w, const Op& op, uint32_t mask) {
  constexpr int kWidth = sizeof(T) * 8;
  constexpr auto kExtract = [](T a, uint32_t b, uint32_t c) {
    const int position = static_cast<int>(b & 255);
    const int length = static_cast<int>(c & 255);
    const int top = std::min(position + length - 1, kWidth - 1);
    const bool sign = std::is_signed_v<T> && length != 0 && (a >> top & 1) != 0;
    uint64_t value = 0;
    for (int i = 0; i < kWidth; ++i) {
      const bool inside = i < length && position + i < kWidth;
      const bool bit = inside ? (a >> (position + i) & 1) != 0 : sign;
      value |= uint64_t{bit} << i;
    }
    return static_cast<T>(value);
  };
  ternary_lanes<kExtract, T, T, uint32_t, uint32_t>(w, op, mask);
}

void decode_bfe(Decoder& d) {
  const Type type = d.take_type({Type::U32, Type::U64, Type::S32, Type::S64});
  d.expect_operands(4, 4);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, Type::U32);
  d.op.c = d.in(3, Type::U32);
  if (type == Type::U32) d.op.run = bfe<uint32_t>;
  if (type == Type::S32) d.op.run = bfe<int32_t>;
  if (type == Type::U64) d.op.run = bfe<uint64_t>;
  if (type == Type::S64) d.op.run = bfe<int64_t>;
}

template <class T>
void bfi(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  const uint32_t* c = lanes<uint32_t>(w, op.c);
  const uint32_t* e = lanes<uint32_t>(w, op.e);
  constexpr uint32_t kWidth = sizeof(T) * 8;
  T r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t position = c[i] & 255;
    const uint32_t length = e[i] & 255;
    const T low = length >= kWidth ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T field = position >= kWidth ? T{0} : static_cast<T>(low << position);
    const T value = position >= kWidth ? T{0} : static_cast<T>(a[i] << position);
    r[i] = (b[i] & ~field) | (value & field);
  }
  write_lanes(w, op.d, mask, r);
}

void decode_bfi(Decoder& d) {
  const Type type = d.take_type({Type::B32, Type::B64});
  d.expect_operands(5, 5);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, type);
  d.op.c = d.in(3, Type::U32);
  d.op.e = d.in(4, Type::U32);
  d.op.run = type == Type::B32 ? bfi<uint32_t> : bfi<uint64_t>;
}

// bfind: the highest bit that is not the sign; with .shiftamt how far it is from the top.
template <class T, bool Amount>
void bfind(Warp& w, const Op& op, uint32_t mask) {
  constexpr auto kFind = [](T a) {
    using U = std::make_unsigned_t<T>;
    const U value = a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
    if (value == 0) return kAllLanes;
    const auto top = static_cast<uint32_t>(std::bit_width(value)) - 1;
    return Amount ? static_cast<uint32_t>(sizeof(T) * 8) - 1 - top : top;
  };
  unary_lanes<kFind, uint32_t, T>(w, op, mask);
}

void decode_bfind(Decoder& d) {
  const bool amount = d.take("shiftamt");
  const Type type = d.take_type({Type::U32, Type::U64, Type::S32, Type::S64});
  d.expect_operands(2, 2);
  d.op.d = d.out(0, Type::U32);
  d.op.a = d.in(1, type);
  if (type == Type::U32) d.op.run = amount ? bfind<uint32_t, true> : bfind<uint32_t, false>;
  if (type == Type::S32) d.op.run = amount ? bfind<int32_t, true> : bfind<int32_t, false>;
  if (type == Type::U64) d.op.run = amount ? bfind<uint64_t, true> : bfind<uint64_t, false>;
  if (type == Type::S64) d.op.run = amount ? bfind<int64_t, true> : bfind<int64_t, false>;
}

template <class T>
T reverse(T value) {
  T result = 0;
  for (size_t i = 0; i < sizeof(T) * 8; ++i) result |= static_cast<T>((value >> i & 1) << (sizeof(T) * 8 - 1 - i));
  return result;
}

struct Reverse {
  template <class T>
  static T apply(T a) {
    return reverse(a);
  }
};
struct CountZeros {
  template <class T>
  static uint32_t apply(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct CountOnes {
  template <class T>
  static uint32_t apply(T a) {
    return static_cast<uint32_t>(std::popcount(a));
  }
};

template <class F, class T>
void count_bits(Warp& w, const Op& op, uint32_t mask) {
  using D = decltype(F::apply(T{}));
  unary_lanes<[](T a) { return F::apply(a); }, D, T>(w, op, mask);
}

template <class F, bool Same>
void decode_count(Decoder& d) {
  const Type type = d.take_type({Type::B32, Type::B64});
  d.expect_operands(2, 2);
  d.op.d = d.out(0, Same ? type : Type::U32);
  d.op.a = d.in(1, type);
  d.op.run = type == Type::B32 ? count_bits<F, uint32_t> : count_bits<F, uint64_t>;
}

// prmt: bytes of b:a by the nibbles of c; a nibble's top bit spreads the byte's sign. Modes: PTX ISA "prmt".
uint32_t select_byte(uint64_t bytes, uint32_t nibble) {
  const auto byte = static_cast<uint32_t>(bytes >> (nibble & 7) * 8 & 255);
  if (nibble & 8) return byte & 128 ? 255 : 0;
  return byte;
}

enum Permutation : uint64_t { kGeneric, kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };

uint32_t mode_index(uint64_t mode, uint32_t i, uint32_t c) {
  const uint32_t n = c & 3;
  if (mode == kF4e) return n + i;
  if (mode == kB4e) return (n + 8 - i) & 7;
  if (mode == kRc8) return n;
  if (mode == kEcl) return std::max(i, n);
  if (mode == kEcr) return std::min(i, n);
  if (mode == kRc16) return (n & 1) * 2 + (i & 1);
  return c >> 4 * i & 15;
}

void prmt(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* a = lanes<uint32_t>(w, op.a);
  const uint32_t* b = lanes<uint32_t>(w, op.b);
  const uint32_t* c = lanes<uint32_t>(w, op.c);
  uint32_t r[kLanes] = {};
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t bytes = uint64_t{b[i]} << 32 | a[i];
    for (uint32_t k = 0; k < 4; ++k) r[i] |= select_byte(bytes, mode_index(op.immediate, k, c[i])) << 8 * k;
  }
  write_lanes(w, op.d, mask, r);
}

void decode_prmt(Decoder& d) {
  d.take_type({Type::B32});
  constexpr std::pair<std::string_view, Permutation> kModes[] = {{"f4e", kF4e}, {"b4e", kB4e}, {"rc8", kRc8},
                                                                 {"ecl", kEcl}, {"ecr", kEcr}, {"rc16", kRc16}};
  for (const auto& [name, mode] : kModes) {
    if (d.take(name)) d.op.immediate = mode;
  }
  d.expect_operands(4, 4);
  d.op.d = d.out(0, Type::B32);
  d.op.a = d.in(1, Type::B32);
  d.op.b = d.in(2, Type::B32);
  d.op.c = d.in(3, Type::B32);
  d.op.run = prmt;
}

int64_t lane_of(uint32_t value, uint32_t index, uint32_t width, bool sign) {
  const auto part = static_cast<uint32_t>(value >> index * width & ((1U << width) - 1));
  if (sign && (part >> (width - 1) & 1)) return int64_t{part} - (int64_t{1} << width);
  return part;
}

// dp4a, dp2a: op.immediate holds the signs of a and b in bits 0 and 1, bit 2 .hi of dp2a, bit 3 dp4a.
void dot(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* a = lanes<uint32_t>(w, op.a);
  const uint32_t* b = lanes<uint32_t>(w, op.b);
  const uint32_t* c = lanes<uint32_t>(w, op.c);
  const bool four = op.immediate & 8;
  const uint32_t skip = op.immediate & 4 ? 2 : 0;
  uint32_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    int64_t sum = c[i];
    for (uint32_t k = 0; k < (four ? 4U : 2U); ++k) {
      sum +=
          lane_of(a[i], k, four ? 8 : 16, op.immediate & 1) * lane_of(b[i], k + (four ? 0 : skip), 8, op.immediate & 2);
    }
    r[i] = static_cast<uint32_t>(sum);
  }
  write_lanes(w, op.d, mask, r);
}

void decode_dot(Decoder& d, bool four) {
  if (!four) {
    const std::string_view half = d.take_any({"lo", "hi"});
    if (half.empty()) d.fail("neither .lo nor .hi");
    if (half == "hi") d.op.immediate |= 4;
  } else {
    d.op.immediate |= 8;
  }
  const Type a = d.take_type({Type::U32, Type::S32});
  const Type b = d.take_type({Type::U32, Type::S32});
  if (is_signed(a)) d.op.immediate |= 1;
  if (is_signed(b)) d.op.immediate |= 2;
  const Type sum = is_signed(a) || is_signed(b) ? Type::S32 : Type::U32;
  d.expect_operands(4, 4);
  d.op.d = d.out(0, sum);
  d.op.a = d.in(1, Type::B32);
  d.op.b = d.in(2, Type::B32);
  d.op.c = d.in(3, sum);
  d.op.run = dot;
}

// fns: the n-th set bit from a base, upwards for n > 0, downwards for n < 0.
void fns(Warp& w, const Op& op, uint32_t mask) {
  constexpr auto kFind = [](uint32_t bits, uint32_t base, int32_t n) {
    if (n == 0) return base < 32 && (bits >> base & 1) ? base : kAllLanes;
    const int step = n > 0 ? 1 : -1;
    int left = n > 0 ? n : -n;
    for (int at = static_cast<int>(base & 31); at >= 0 && at < 32; at += step) {
      if ((bits >> at & 1) && --left == 0) return static_cast<uint32_t>(at);
    }
    return kAllLanes;
  };
  ternary_lanes<kFind, uint32_t, uint32_t, uint32_t, int32_t>(w, op, mask);
}

void decode_fns(Decoder& d) {
  d.take_type({Type::B32});
  d.expect_operands(4, 4);
  d.op.d = d.out(0, Type::B32);
  d.op.a = d.in(1, Type::B32);
  d.op.b = d.in(2, Type::B32);
  d.op.c = d.in(3, Type::S32);
  d.op.run = fns;
}

// bmsk: b bits from a upwards.
template <bool Wrap>
void bmsk(Warp& w, const Op& op, uint32_t mask) {
  constexpr auto kMask = [](uint32_t a, uint32_t b) {
    const uint32_t start = Wrap ? a & 31 : std::min(a, 32U);
    const uint32_t length = Wrap ? b & 31 : std::min(b, 32U);
    return static_cast<uint32_t>(((uint64_t{1} << length) - 1) << start);
  };
  binary_lanes<kMask, uint32_t, uint32_t, uint32_t>(w, op, mask);
}

void decode_bmsk(Decoder& d) {
  const bool wrap = d.take("wrap");
  if (!wrap && !d.take("clamp")) d.fail("neither .wrap nor .clamp");
  d.take_type({Type::B32});
  d.expect_operands(3, 3);
  d.op.d = d.out(0, Type::B32);
  d.op.a = d.in(1, Type::B32);
  d.op.b = d.in(2, Type::B32);
  d.op.run = wrap ? bmsk<true> : bmsk<false>;
}

constexpr InstructionRow kRows[] = {
    {"and", Family::Integer, decode_logic<And>},
    {"or", Family::Integer, decode_logic<Or>},
    {"xor", Family::Integer, decode_logic<Xor>},
    {"not", Family::Integer, decode_not},
    {"cnot", Family::Integer, decode_cnot},
    {"lop3", Family::Integer, decode_lop3},
    {"shl", Family::Integer, [](Decoder& d) { decode_shift(d, true); }},
    {"shr", Family::Integer, [](Decoder& d) { decode_shift(d, false); }},
    {"shf", Family::Integer, decode_shf},
    {"bfe", Family::Integer, decode_bfe},
    {"bfi", Family::Integer, decode_bfi},
    {"bfind", Family::Integer, decode_bfind},
    {"brev", Family::Integer, decode_count<Reverse, true>},
    {"clz", Family::Integer, decode_count<CountZeros, false>},
    {"popc", Family::Integer, decode_count<CountOnes, false>},
    {"prmt", Family::Integer, decode_prmt},
    {"dp4a", Family::Integer, [](Decoder& d) { decode_dot(d, true); }},
    {"dp2a", Family::Integer, [](Decoder& d) { decode_dot(d, false); }},
    {"fns", Family::Integer, decode_fns},
    {"bmsk", Family::Integer, decode_bmsk},
};

}  // namespace

std::span<const InstructionRow> integer_bit_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
