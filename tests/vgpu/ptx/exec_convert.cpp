// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/formats.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <limits>

// PTX ISA "cvt", "cvt.pack".
namespace stepfuse::vgpu {
namespace {

// How a conversion's value is cut to an integer, if it is not converted to one: cvt.rni.f32.f32.
enum class Integral : uint8_t { No, Nearest, Zero, Down, Up };

struct Conversion {
  Type to = Type::None, from = Type::None;
  RegisterRef destination, source, second;  // second: the lower half of a packed result
  Integral integral = Integral::No;
  Rounding rounding = Rounding::Nearest;
  bool flush = false, saturate = false, relu = false, finite = false;
};

// Op::immediate packs a Conversion's switches; types and widths ride along in the low bytes.
uint64_t pack(const Conversion& c) {
  return static_cast<uint64_t>(c.to) | static_cast<uint64_t>(c.from) << 8 | static_cast<uint64_t>(c.integral) << 16 |
         uint64_t{c.flush} << 24 | uint64_t{c.saturate} << 25 | uint64_t{c.relu} << 26 | uint64_t{c.finite} << 27 |
         uint64_t{c.destination.bytes} << 32 | uint64_t{c.source.bytes} << 40;
}

Conversion unpack(const Op& op) {
  Conversion c;
  const uint64_t bits = op.immediate;
  c.to = static_cast<Type>(bits & 255);
  c.from = static_cast<Type>(bits >> 8 & 255);
  c.integral = static_cast<Integral>(bits >> 16 & 255);
  c.rounding = op.rounding;
  c.flush = bits >> 24 & 1;
  c.saturate = bits >> 25 & 1;
  c.relu = bits >> 26 & 1;
  c.finite = bits >> 27 & 1;
  c.destination = {op.d, static_cast<uint8_t>(bits >> 32 & 255)};
  c.source = {op.a, static_cast<uint8_t>(bits >> 40 & 255)};
  c.second = {op.b, static_cast<uint8_t>(bits >> 40 & 255)};
  return c;
}

uint64_t raw(Warp& w, RegisterRef from, uint32_t lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, w.registers + from.offset + lane * from.bytes, std::min<size_t>(from.bytes, 8));
  return bits;
}

uint64_t truncate(uint64_t bits, Type type) {
  const uint32_t width = bytes_of(type) * 8;
  if (width == 64) return bits;
  bits &= (uint64_t{1} << width) - 1;
  if (is_signed(type) && (bits >> (width - 1) & 1)) bits |= ~uint64_t{0} << width;
  return bits;
}

double to_double(uint64_t bits, Type type) {
  if (type == Type::F16) return half_to_float(static_cast<uint16_t>(bits));
  if (type == Type::BF16) return bfloat_to_float(static_cast<uint16_t>(bits));
  if (type == Type::F64) return std::bit_cast<double>(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

double flushed(double value, Type type) {
  return type == Type::F32 && std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0, value) : value;
}

double integral(double value, Integral how) {
  if (how == Integral::Zero) return std::trunc(value);
  if (how == Integral::Down) return std::floor(value);
  if (how == Integral::Up) return std::ceil(value);
  return std::nearbyint(value);  // the mode of the machine is to nearest even
}

struct Limits {
  __int128 least, most;
};

Limits limits(Type type) {
  const uint32_t width = bytes_of(type) * 8;
  if (is_signed(type)) return {-(__int128{1} << (width - 1)), (__int128{1} << (width - 1)) - 1};
  return {0, (__int128{1} << width) - 1};
}

// Out of range goes to the nearest number there is. NaN: PTX ISA "cvt", 0 or, from .f64 or to 64 bits, the top bit.
uint64_t float_to_integer(double value, const Conversion& c) {
  if (c.flush) value = flushed(value, c.from);
  if (std::isnan(value)) {
    const bool zero = c.from != Type::F64 && bytes_of(c.to) != 8;
    return zero ? 0 : uint64_t{1} << (bytes_of(c.to) * 8 - 1);
  }
  value = integral(value, c.integral);
  const auto [least, most] = limits(c.to);
  if (value <= static_cast<double>(least)) return static_cast<uint64_t>(least);
  if (value >= static_cast<double>(most)) return static_cast<uint64_t>(most);
  return static_cast<uint64_t>(static_cast<__int128>(value));
}

uint64_t integer_to_integer(uint64_t bits, const Conversion& c) {
  const uint64_t value = truncate(bits, c.from);
  if (!c.saturate) return truncate(value, c.to);
  const __int128 wide = is_signed(c.from) ? __int128{static_cast<int64_t>(value)} : __int128{value};
  const auto [least, most] = limits(c.to);
  return static_cast<uint64_t>(std::clamp(wide, least, most));
}

FloatFormat format_of(Type type) {
  if (type == Type::F16) return kHalfFormat;
  if (type == Type::BF16) return kBfloatFormat;
  if (type == Type::F64) return kDoubleFormat;
  if (type == Type::TF32) return {8, 10};
  return kSingleFormat;
}

uint64_t nan_of(Type type) {
  if (type == Type::F64) return kDoubleNan;
  return type == Type::F16 || type == Type::BF16 ? kHalfNan : kSingleNan;
}

// TF32 lies in the upper bits of a register of 32.
uint64_t place(uint64_t bits, Type type) { return type == Type::TF32 ? bits << 13 : bits; }

uint64_t float_to_float(double value, const Conversion& c) {
  if (c.flush) value = flushed(value, c.from);
  if (std::isnan(value)) return c.saturate ? 0 : nan_of(c.to);
  if (c.relu && !(value > 0)) value = 0;
  if (c.integral != Integral::No) value = integral(value, c.integral);
  if (c.saturate) value = value > 0 ? std::min(value, 1.0) : 0;
  const FloatFormat format = format_of(c.to);
  uint64_t bits = encode(value, format, c.rounding);
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << format.fraction_bits;
  const uint64_t sign = uint64_t{1} << (format.exponent_bits + format.fraction_bits);
  if (c.finite && (bits & ~sign) == infinity) bits -= 1;  // .satfinite
  if (c.flush && c.to == Type::F32 && (bits & infinity) == 0) bits &= sign;
  return place(bits, c.to);
}

uint64_t integer_to_float(uint64_t bits, const Conversion& c) {
  const uint64_t value = truncate(bits, c.from);
  const bool negative = is_signed(c.from) && value >> 63 != 0;
  const uint64_t result = round_to_format(negative, negative ? -value : value, 0, format_of(c.to), c.rounding);
  if (!c.saturate) return result;
  return float_to_float(to_double(result, c.to),
                        {c.to, c.to, {}, {}, {}, Integral::No, Rounding::Nearest, false, true, false, false});
}

uint64_t convert_lane(uint64_t bits, const Conversion& c) {
  if (is_float(c.from)) {
    const double value = to_double(bits, c.from);
    return is_float(c.to) ? float_to_float(value, c) : float_to_integer(value, c);
  }
  return is_float(c.to) ? integer_to_float(bits, c) : integer_to_integer(bits, c);
}

void convert(Warp& w, const Op& op, uint32_t mask) {
  const Conversion c = unpack(op);
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t bits = convert_lane(raw(w, c.source, lane), c);
    std::memcpy(w.registers + c.destination.offset + lane * c.destination.bytes, &bits, c.destination.bytes);
  });
}

// cvt.rn.bf16x2.f32 d, a, b: a becomes the upper half.
void convert_pair(Warp& w, const Op& op, uint32_t mask) {
  const Conversion c = unpack(op);
  for_lanes(mask, [&](uint32_t lane) {
    const auto upper = static_cast<uint32_t>(convert_lane(raw(w, c.source, lane), c));
    const auto lower = static_cast<uint32_t>(convert_lane(raw(w, c.second, lane), c));
    lanes<uint32_t>(w, c.destination.offset)[lane] = upper << 16 | lower;
  });
}

// The conversions that optimizers live on, without detours.
void single_to_bfloat(Warp& w, const Op& op, uint32_t mask) {
  constexpr auto kConvert = [](uint32_t bits) {
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint32_t>(kHalfNan);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  unary_lanes<kConvert, uint16_t, uint32_t>(w, op, mask);
}

void signed_to_single(Warp& w, const Op& op, uint32_t mask) {
  unary_lanes<[](int32_t v) { return static_cast<float>(v); }, float, int32_t>(w, op, mask);
}

template <class D, class A>
void cast_integer(Warp& w, const Op& op, uint32_t mask) {
  unary_lanes<[](A a) { return static_cast<D>(a); }, D, A>(w, op, mask);
}

Handler fast_path(const Conversion& c) {
  if (c.saturate || c.relu || c.finite || c.flush || c.rounding != Rounding::Nearest) return nullptr;
  const bool same_width = c.destination.bytes == bytes_of(c.to) && c.source.bytes == bytes_of(c.from);
  if (!same_width) return nullptr;
  if (c.to == Type::BF16 && c.from == Type::F32) return single_to_bfloat;
  if (c.to == Type::F32 && c.from == Type::S32) return signed_to_single;
  if (is_float(c.to) || is_float(c.from)) return nullptr;
  if (bytes_of(c.to) == 8 && c.from == Type::U32) return cast_integer<uint64_t, uint32_t>;
  if (bytes_of(c.to) == 8 && c.from == Type::S32) return cast_integer<int64_t, int32_t>;
  if (bytes_of(c.to) == 4 && bytes_of(c.from) == 8) return cast_integer<uint32_t, uint64_t>;
  return nullptr;
}

Integral take_integral(Decoder& d) {
  constexpr std::pair<std::string_view, Integral> kNames[] = {
      {"rni", Integral::Nearest}, {"rzi", Integral::Zero}, {"rmi", Integral::Down}, {"rpi", Integral::Up}};
  for (const auto& [name, how] : kNames) {
    if (d.take(name)) return how;
  }
  return Integral::No;
}

bool narrows(Type to, Type from) {
  const FloatFormat t = format_of(to);
  const FloatFormat f = format_of(from);
  return t.fraction_bits < f.fraction_bits || t.exponent_bits < f.exponent_bits;
}

// PTX ISA "cvt", rounding: required exactly where the result may be inexact.
void check_rounding(Decoder& d, const Conversion& c, bool rounded) {
  const bool to_float = is_float(c.to);
  const bool from_float = is_float(c.from);
  if (!to_float && from_float && c.integral == Integral::No) d.fail("an integer's rounding is missing");
  if (c.integral != Integral::No && !from_float) d.fail("an integer's rounding of an integer");
  if (c.integral != Integral::No && to_float && c.to != c.from) d.fail("rounding to an integer while the type changes");
  if (to_float && !from_float && !rounded) d.fail("a rounding is missing");
  if (to_float && from_float && narrows(c.to, c.from) && !rounded) d.fail("a rounding is missing");
  if (rounded && to_float && from_float && !narrows(c.to, c.from)) d.fail("a rounding where nothing is rounded");
  if (rounded && !to_float) d.fail("a rounding for an integer is .rni, .rzi, .rmi or .rpi");
}

void check_types(Decoder& d, Type to, Type from) {
  for (const Type type : {to, from}) {
    if (!is_float(type) && !is_integer(type)) d.fail("no type of cvt");
  }
  if (from == Type::TF32) d.fail("no type of cvt");
  const bool needs_80 = to == Type::BF16 || from == Type::BF16 || to == Type::TF32;
  if (needs_80 && d.layout().module.capability < 80) d.fail("this conversion needs sm_80");
  const bool needs_90 = (to == Type::BF16 && from != Type::F32) || (from == Type::BF16 && to != Type::F32);
  if (needs_90 && d.layout().module.capability < 90) d.fail("this conversion of .bf16 needs sm_90");
}

void decode_pair(Decoder& d, Conversion c) {
  c.from = d.take_type({Type::F32});
  c.to = c.to == Type::F16x2 ? Type::F16 : Type::BF16;
  if (d.layout().module.capability < 80) d.fail("needs sm_80");
  d.expect_operands(3, 3);
  d.op.d = d.out(0, Type::B32);
  d.op.a = d.in(1, Type::F32);
  d.op.b = d.in(2, Type::F32);
  c.destination.bytes = c.source.bytes = 4;
  d.op.immediate = pack(c);
  d.op.run = convert_pair;
}

void decode_cvt(Decoder& d) {
  Conversion c;
  const bool rounded = d.has("rn") || d.has("rz") || d.has("rm") || d.has("rp") || d.has("rna");
  d.take_rounding({"rn", "rz", "rm", "rp", "rna"});
  c.rounding = d.op.rounding;
  c.integral = take_integral(d);
  c.flush = d.take("ftz");
  c.saturate = d.take("sat");
  c.relu = d.take("relu");
  c.finite = d.take("satfinite");
  c.to = d.take_type();
  if (c.relu && c.to != Type::F16 && c.to != Type::BF16 && c.to != Type::F16x2 && c.to != Type::BF16x2 &&
      c.to != Type::TF32) {
    d.fail(".relu is not for this type");
  }
  if (c.relu && d.layout().module.capability < 80) d.fail(".relu needs sm_80");
  if (c.to == Type::F16x2 || c.to == Type::BF16x2) return decode_pair(d, c);
  c.from = d.take_type();
  check_types(d, c.to, c.from);
  check_rounding(d, c, rounded);
  if (c.rounding == Rounding::Away && c.to != Type::TF32) d.fail(".rna is for .tf32");
  if (c.flush && c.from != Type::F32 && c.to != Type::F32) d.fail(".ftz is for .f32");
  d.expect_operands(2, 2);
  c.destination = c.to == Type::TF32 ? RegisterRef{d.out(0, Type::B32), 4} : d.wide_out(d.operand(0), c.to);
  c.source = d.wide_in(d.operand(1), c.from);
  d.op.d = c.destination.offset;
  d.op.a = c.source.offset;
  d.op.immediate = pack(c);
  d.op.run = fast_path(c);
  if (!d.op.run) d.op.run = convert;
}

// cvt.pack.sat.u8.s32.b32 d, a, b, c: a and b become the low elements, c fills the rest.
void pack_integers(Warp& w, const Op& op, uint32_t mask) {
  const Conversion c = unpack(op);
  const uint32_t width = bytes_of(c.to) * 8;
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t field = (uint64_t{1} << width) - 1;
    const uint64_t a = integer_to_integer(lanes<uint32_t>(w, op.a)[lane], c) & field;
    const uint64_t b = integer_to_integer(lanes<uint32_t>(w, op.b)[lane], c) & field;
    const uint64_t rest = op.flags & kHasCount ? lanes<uint32_t>(w, op.c)[lane] : 0;
    lanes<uint32_t>(w, op.d)[lane] = static_cast<uint32_t>(rest << 2 * width | a << width | b);
  });
}

void decode_cvt_pack(Decoder& d) {
  if (!d.take("sat")) d.fail("cvt.pack without .sat");
  Conversion c;
  c.saturate = true;
  c.to = d.take_type({Type::U16, Type::S16, Type::U8, Type::S8});
  c.from = d.take_type({Type::S32});
  const bool third = d.take("b32");
  if (third != (bytes_of(c.to) == 1)) d.fail("a third operand goes with elements of 8 bits");
  d.expect_operands(third ? 4 : 3, third ? 4 : 3);
  d.op.d = d.out(0, Type::B32);
  d.op.a = d.in(1, Type::S32);
  d.op.b = d.in(2, Type::S32);
  if (third) {
    d.op.c = d.in(3, Type::B32);
    d.op.flags |= kHasCount;
  }
  d.op.immediate = pack(c);
  d.op.run = pack_integers;
}

constexpr InstructionRow kRows[] = {
    {"cvt", Family::Any, [](Decoder& d) { d.take("pack") ? decode_cvt_pack(d) : decode_cvt(d); }},
};

}  // namespace

std::span<const InstructionRow> convert_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
