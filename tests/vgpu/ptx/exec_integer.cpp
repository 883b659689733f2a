// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <limits>
#include <type_traits>

// PTX ISA "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic Instructions".
namespace stepfuse::vgpu {
namespace {

// Calls f with a value of the C++ type that an integer type of PTX is.
template <class F>
auto with_integer(Type type, F&& f) {
  switch (bytes_of(type) * 2 + (is_signed(type) ? 1 : 0)) {
    case 4:
      return f(uint16_t{});
    case 5:
      return f(int16_t{});
    case 8:
      return f(uint32_t{});
    case 9:
      return f(int32_t{});
    case 16:
      return f(uint64_t{});
    default:
      return f(int64_t{});
  }
}

template <class T>
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Two's complement in a type wide enough not to promote to int.
template <class T>
uint64_t bits(T value) {
  return static_cast<uint64_t>(value);
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(bits(a) + bits(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(bits(a) - bits(b));
  }
};
struct MulLo {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(bits(a) * bits(b));
  }
};
struct MulHi {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((Wide<T>{a} * Wide<T>{b}) >> (sizeof(T) * 8));
  }
};
// Division by zero gives all ones, and the remainder is the dividend: what devices do, the ISA leaves it open.
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(-bits(a));
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return a < 0 ? static_cast<T>(-bits(a)) : a;
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(-bits(a));
  }
};
template <class Product>
struct Mad {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(Product::apply(a, b), c);
  }
};
struct Sad {
  template <class T>
  static T apply(T a, T b, T c) {
    const uint64_t difference = a < b ? bits(b) - bits(a) : bits(a) - bits(b);
    return static_cast<T>(bits(c) + difference);
  }
};

template <class F, class T>
void unary(Warp& w, const Op& op, uint32_t mask) {
  unary_lanes<[](T a) { return F::apply(a); }, T, T>(w, op, mask);
}
template <class F, class T>
void binary(Warp& w, const Op& op, uint32_t mask) {
  binary_lanes<[](T a, T b) { return F::apply(a, b); }, T, T, T>(w, op, mask);
}
template <class F, class T>
void ternary(Warp& w, const Op& op, uint32_t mask) {
  ternary_lanes<[](T a, T b, T c) { return F::apply(a, b, c); }, T, T, T, T>(w, op, mask);
}

void sources(Decoder& d, Type type, size_t count) {
  d.expect_operands(count + 1, count + 1);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  if (count > 1) d.op.b = d.in(2, type);
  if (count > 2) d.op.c = d.in(3, type);
}

constexpr std::initializer_list<Type> kIntegers = {Type::U16, Type::U32, Type::U64, Type::S16, Type::S32, Type::S64};
constexpr std::initializer_list<Type> kSigned = {Type::S16, Type::S32, Type::S64};

template <class F>
void decode_unary(Decoder& d) {
  const Type type = d.take_type(kSigned);
  sources(d, type, 1);
  d.op.run = with_integer(type, [](auto v) -> Handler { return unary<F, decltype(v)>; });
}

template <class F>
void decode_binary(Decoder& d) {
  const Type type = d.take_type(kIntegers);
  sources(d, type, 2);
  d.op.run = with_integer(type, [](auto v) -> Handler { return binary<F, decltype(v)>; });
}

// Two 16-bit halves of a register: add, min and max of .u16x2 and .s16x2.
template <class F, class T>
void packed(Warp& w, const Op& op, uint32_t mask) {
  constexpr auto kBoth = [](uint32_t a, uint32_t b) {
    const auto low = F::apply(static_cast<T>(a), static_cast<T>(b));
    const auto high = F::apply(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
    return uint32_t{static_cast<uint16_t>(low)} | uint32_t{static_cast<uint16_t>(high)} << 16;
  };
  binary_lanes<kBoth, uint32_t, uint32_t, uint32_t>(w, op, mask);
}

template <class F>
bool decode_packed(Decoder& d) {
  const Type type = d.peek_type();
  if (type != Type::U16x2 && type != Type::S16x2) return false;
  if (d.layout().module.capability < 90) d.fail("packed integers need sm_90");
  d.take_type();
  sources(d, type, 2);
  d.op.run = type == Type::U16x2 ? packed<F, uint16_t> : packed<F, int16_t>;
  return true;
}

// min and max with .relu: nothing below zero.
template <class F>
struct Relu {
  template <class T>
  static T apply(T a, T b) {
    return std::max(F::apply(a, b), T{0});
  }
};

template <class F>
void decode_min_max(Decoder& d) {
  if (d.take("relu")) {
    const Type type = d.take_type({Type::S32, Type::S16x2});
    if (d.layout().module.capability < 90) d.fail(".relu of integers needs sm_90");
    sources(d, type, 2);
    d.op.run = type == Type::S32 ? binary<Relu<F>, int32_t> : packed<Relu<F>, int16_t>;
    return;
  }
  if (!decode_packed<F>(d)) decode_binary<F>(d);
}

template <bool Subtract, class T>
void add_carry(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  const uint32_t carry_in = op.flags & kNegatePredicate ? 0 : predicate(w, op.c);
  T r[kLanes];
  uint32_t carry = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const T in = carry_in >> i & 1;
    const T first = Subtract ? a[i] - b[i] : a[i] + b[i];
    r[i] = Subtract ? first - in : first + in;
    const bool out = Subtract ? a[i] < b[i] || first < in : first < a[i] || r[i] < first;
    carry |= uint32_t{out} << i;
  }
  write_lanes(w, op.d, mask, r);
  if (op.flags & kXorSign) write_predicate(w, op.d2, mask, carry);
}

// add.cc, addc{.cc}, sub.cc, subc{.cc}. kXorSign stands for .cc here, kNegatePredicate for no carry in.
template <bool Subtract>
void decode_carry(Decoder& d, bool carry_in) {
  if (d.take("cc")) d.op.flags |= kXorSign;
  if (!carry_in) d.op.flags |= kNegatePredicate;
  const Type type = d.take_type({Type::U32, Type::S32, Type::U64, Type::S64});
  sources(d, type, 2);
  d.op.c = d.op.d2 = d.layout().carry;
  d.op.run = bytes_of(type) == 4 ? add_carry<Subtract, uint32_t> : add_carry<Subtract, uint64_t>;
}

template <class F, class C, bool Subtract>
void decode_sum(Decoder& d) {
  if (d.has("cc")) return decode_carry<Subtract>(d, false);
  if (!Subtract && decode_packed<F>(d)) return;
  if (d.take("sat")) {
    if (d.take_type() != Type::S32) d.fail(".sat is for .s32");
    sources(d, Type::S32, 2);
    d.op.run = binary<C, int32_t>;
    return;
  }
  decode_binary<F>(d);
}

int32_t saturate(int64_t value) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}
struct AddSat {
  static int32_t apply(int32_t a, int32_t b) { return saturate(int64_t{a} + b); }
};
struct SubSat {
  static int32_t apply(int32_t a, int32_t b) { return saturate(int64_t{a} - b); }
};

template <class T>
void mul_wide(Warp& w, const Op& op, uint32_t mask) {
  binary_lanes<[](T a, T b) { return Wide<T>{a} * Wide<T>{b}; }, Wide<T>, T, T>(w, op, mask);
}
template <class T>
void mad_wide(Warp& w, const Op& op, uint32_t mask) {
  ternary_lanes<[](T a, T b, Wide<T> c) { return bits(Wide<T>{a} * Wide<T>{b}) + bits(c); }, Wide<T>, T, T, Wide<T>>(
      w, op, mask);
}

Type widened(Type type) {
  if (bytes_of(type) == 2) return is_signed(type) ? Type::S32 : Type::U32;
  return is_signed(type) ? Type::S64 : Type::U64;
}

void decode_wide(Decoder& d, bool add) {
  const Type type = d.take_type({Type::U16, Type::S16, Type::U32, Type::S32});
  const size_t count = add ? 4 : 3;
  d.expect_operands(count, count);
  d.op.d = d.out(0, widened(type));
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, type);
  if (add) d.op.c = d.in(3, widened(type));
  if (type == Type::U16) d.op.run = add ? mad_wide<uint16_t> : mul_wide<uint16_t>;
  if (type == Type::S16) d.op.run = add ? mad_wide<int16_t> : mul_wide<int16_t>;
  if (type == Type::U32) d.op.run = add ? mad_wide<uint32_t> : mul_wide<uint32_t>;
  if (type == Type::S32) d.op.run = add ? mad_wide<int32_t> : mul_wide<int32_t>;
}

void decode_mul(Decoder& d) {
  if (d.take("wide")) return decode_wide(d, false);
  const std::string_view half = d.take_any({"lo", "hi"});
  if (half == "lo") return decode_binary<MulLo>(d);
  if (half == "hi") return decode_binary<MulHi>(d);
  d.fail("mul of integers is .lo, .hi or .wide");
}

template <class Product, class T>
void mad_carry(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  const auto* c = lanes<Unsigned<T>>(w, op.c);
  const uint32_t carry_in = op.flags & kNegatePredicate ? 0 : predicate(w, op.d2);
  Unsigned<T> r[kLanes];
  uint32_t carry = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const auto product = static_cast<Unsigned<T>>(Product::apply(a[i], b[i]));
    const Unsigned<T> sum = product + c[i];
    r[i] = sum + (carry_in >> i & 1);
    carry |= uint32_t{sum < product || r[i] < sum} << i;
  }
  write_lanes(w, op.d, mask, r);
  if (op.flags & kXorSign) write_predicate(w, op.d2, mask, carry);
}

// mad.{lo,hi}.cc and madc.{lo,hi}{.cc}.
void decode_mad_carry(Decoder& d, bool carry_in) {
  if (d.take("cc")) d.op.flags |= kXorSign;
  if (!carry_in) d.op.flags |= kNegatePredicate;
  const std::string_view half = d.take_any({"lo", "hi"});
  if (half.empty()) d.fail("neither .lo nor .hi");
  const Type type = d.take_type({Type::U32, Type::S32, Type::U64, Type::S64});
  sources(d, type, 3);
  d.op.d2 = d.layout().carry;
  d.op.run = with_integer(type, [&](auto v) -> Handler {
    using T = decltype(v);
    return half == "lo" ? mad_carry<MulLo, T> : mad_carry<MulHi, T>;
  });
}

void decode_mad(Decoder& d) {
  if (d.has("cc")) return decode_mad_carry(d, false);
  if (d.take("wide")) return decode_wide(d, true);
  const std::string_view half = d.take_any({"lo", "hi"});
  if (half.empty()) d.fail("mad of integers is .lo, .hi or .wide");
  const Type type = d.take_type(kIntegers);
  sources(d, type, 3);
  d.op.run = with_integer(type, [&](auto v) -> Handler {
    using T = decltype(v);
    return half == "lo" ? ternary<Mad<MulLo>, T> : ternary<Mad<MulHi>, T>;
  });
}

void decode_sad(Decoder& d) {
  const Type type = d.take_type(kIntegers);
  sources(d, type, 3);
  d.op.run = with_integer(type, [](auto v) -> Handler { return ternary<Sad, decltype(v)>; });
}

// mul24.lo, mad24.lo: the low 24 bits of each factor.
template <class T>
uint64_t low24(T value) {
  return bits(static_cast<T>(static_cast<T>(static_cast<uint32_t>(value) << 8) >> 8));
}
template <class T>
void mad24(Warp& w, const Op& op, uint32_t mask) {
  if (op.immediate != 0) {
    ternary_lanes<[](T a, T b, T c) { return low24(a) * low24(b) + bits(c); }, T, T, T, T>(w, op, mask);
  } else {
    binary_lanes<[](T a, T b) { return low24(a) * low24(b); }, T, T, T>(w, op, mask);
  }
}

void decode_24(Decoder& d, bool add) {
  if (!d.take("lo")) d.fail("only .lo is known");
  const Type type = d.take_type({Type::U32, Type::S32});
  sources(d, type, add ? 3 : 2);
  d.op.immediate = add ? 1 : 0;
  d.op.run = type == Type::U32 ? mad24<uint32_t> : mad24<int32_t>;
}

constexpr InstructionRow kRows[] = {
    {"add", Family::Integer, decode_sum<Add, AddSat, false>},
    {"sub", Family::Integer, decode_sum<Sub, SubSat, true>},
    {"addc", Family::Integer, [](Decoder& d) { decode_carry<false>(d, true); }},
    {"subc", Family::Integer, [](Decoder& d) { decode_carry<true>(d, true); }},
    {"mul", Family::Integer, decode_mul},
    {"mad", Family::Integer, decode_mad},
    {"madc", Family::Integer, [](Decoder& d) { decode_mad_carry(d, true); }},
    {"mul24", Family::Integer, [](Decoder& d) { decode_24(d, false); }},
    {"mad24", Family::Integer, [](Decoder& d) { decode_24(d, true); }},
    {"sad", Family::Integer, decode_sad},
    {"div", Family::Integer, decode_binary<Div>},
    {"rem", Family::Integer, decode_binary<Rem>},
    {"min", Family::Integer, decode_min_max<Min>},
    {"max", Family::Integer, decode_min_max<Max>},
    {"abs", Family::Integer, decode_unary<Abs>},
    {"neg", Family::Integer, decode_unary<Neg>},
};

}  // namespace

std::span<const InstructionRow> integer_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
