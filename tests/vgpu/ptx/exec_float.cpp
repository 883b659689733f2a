// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/exec_float.h"

#include "tests/vgpu/ptx/arithmetic.h"
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/formats.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <limits>

// PTX ISA "Floating-Point Instructions" of single and double precision.
namespace stepfuse::vgpu {
namespace {

template <class T>
struct Sources {
  T a[kLanes], b[kLanes], c[kLanes];
};

template <class T>
void read(Warp& w, uint32_t offset, bool flush, T* to) {
  std::memcpy(to, lanes<T>(w, offset), sizeof(T) * kLanes);
  if constexpr (sizeof(T) == 4) {
    if (flush) flush_lanes(to);
  }
}

template <class T>
void finish(Warp& w, const Op& op, uint32_t mask, T* r) {
  canonical_nans(r);
  if constexpr (sizeof(T) == 4) {
    if (op.flags & kFlushSubnormals) flush_lanes(r);
    if (op.flags & kSaturate) saturate_lanes(r);
  }
  write_lanes(w, op.d, mask, r);
}

template <class T, Arithmetic kOp>
void arithmetic(Warp& w, const Op& op, uint32_t mask) {
  Sources<T> s;
  T r[kLanes];
  const bool flush = op.flags & kFlushSubnormals;
  // Operands that an instruction has not are read all the same: their offset is 0.
  read(w, op.a, flush, s.a);
  read(w, op.b, flush, s.b);
  read(w, op.c, flush, s.c);
  if (op.rounding == Rounding::Nearest) {
    compute_nearest<T>(kOp, s.a, s.b, s.c, r);
  } else {
    compute_directed<T>(kOp, op.rounding, s.a, s.b, s.c, r);
  }
  finish(w, op, mask, r);
}

template <Arithmetic kOp>
Handler arithmetic_of(Type type) {
  return type == Type::F32 ? arithmetic<float, kOp> : arithmetic<double, kOp>;
}

void take_flush(Decoder& d, Type type, bool saturates) {
  if (d.take("ftz")) d.op.flags |= kFlushSubnormals;
  if (saturates && d.take("sat")) d.op.flags |= kSaturate;
  if ((d.op.flags & (kFlushSubnormals | kSaturate)) && type != Type::F32) d.fail(".ftz and .sat are for .f32");
}

void sources(Decoder& d, Type type, size_t count) {
  d.expect_operands(count + 1, count + 1);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  if (count > 1) d.op.b = d.in(2, type);
  if (count > 2) d.op.c = d.in(3, type);
}

// add, sub, mul: to nearest unless they say otherwise.
template <Arithmetic kOp>
void decode_basic(Decoder& d) {
  const Type type = d.take_type({Type::F32, Type::F64});
  d.take_rounding({"rn", "rz", "rm", "rp"});
  take_flush(d, type, true);
  sources(d, type, 2);
  d.op.run = arithmetic_of<kOp>(type);
}

void need_rounding(Decoder& d) {
  if (!d.has("rn") && !d.has("rz") && !d.has("rm") && !d.has("rp")) d.fail("no rounding");
  d.take_rounding({"rn", "rz", "rm", "rp"});
}

// fma, and mad, which is the same from sm_20 on.
void decode_fma(Decoder& d) {
  const Type type = d.take_type({Type::F32, Type::F64});
  need_rounding(d);
  take_flush(d, type, true);
  sources(d, type, 3);
  d.op.run = arithmetic_of<Arithmetic::Fma>(type);
}

// div: .approx and .full promise 2 ulp in f32, so the correctly rounded quotient serves them.
void decode_div(Decoder& d) {
  const Type type = d.take_type({Type::F32, Type::F64});
  if (type != Type::F32 || (!d.take("approx") && !d.take("full"))) need_rounding(d);
  take_flush(d, type, false);
  sources(d, type, 2);
  d.op.run = arithmetic_of<Arithmetic::Div>(type);
}

// sqrt.approx has a bound of its own: the correctly rounded root is within it.
void decode_sqrt(Decoder& d) {
  const Type type = d.take_type({Type::F32, Type::F64});
  if (type != Type::F32 || !d.take("approx")) need_rounding(d);
  take_flush(d, type, false);
  sources(d, type, 1);
  d.op.run = arithmetic_of<Arithmetic::Sqrt>(type);
}

// rcp: a division of one, rounded once. rcp.approx.f32 may be 1 ulp off.
template <class T>
void reciprocal(Warp& w, const Op& op, uint32_t mask) {
  Sources<T> s;
  T r[kLanes];
  read(w, op.a, op.flags & kFlushSubnormals, s.b);
  std::fill(std::begin(s.a), std::end(s.a), T{1});
  if (op.rounding == Rounding::Nearest) {
    compute_nearest<T>(Arithmetic::Div, s.a, s.b, s.b, r);
  } else {
    compute_directed<T>(Arithmetic::Div, op.rounding, s.a, s.b, s.b, r);
  }
  finish(w, op, mask, r);
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: only the upper 32 bits of source and result count.
template <bool Root>
void coarse_reciprocal(Warp& w, const Op& op, uint32_t mask) {
  constexpr auto kCoarse = [](double a) {
    const auto upper = [](double v) {
      return std::bit_cast<double>(std::bit_cast<uint64_t>(v) & ~uint64_t{0xffffffff});
    };
    double x = upper(a);
    if (std::fabs(x) < std::numeric_limits<double>::min()) x = std::copysign(0.0, x);
    double r = upper(Root ? 1 / std::sqrt(x) : 1 / x);
    if (std::isnan(r)) return std::bit_cast<double>(uint64_t{0x7fffffff} << 32);
    return std::fabs(r) < std::numeric_limits<double>::min() ? std::copysign(0.0, r) : r;
  };
  unary_lanes<kCoarse, double, double>(w, op, mask);
}

void decode_rcp(Decoder& d) {
  const Type type = d.take_type({Type::F32, Type::F64});
  const bool approximate = d.take("approx");
  if (approximate && type == Type::F64) {
    if (!d.take("ftz")) d.fail("rcp.approx.f64 is .ftz");
    sources(d, type, 1);
    d.op.run = coarse_reciprocal<false>;
    return;
  }
  if (!approximate) need_rounding(d);
  take_flush(d, type, false);
  sources(d, type, 1);
  d.op.run = type == Type::F32 ? reciprocal<float> : reciprocal<double>;
}

// min and max: -0 is less than +0; a NaN loses unless .NaN; of two NaNs the canonical one.
template <class T, bool Max>
T extreme(T a, T b, uint16_t flags) {
  const bool sign = (flags & kXorSign) && std::signbit(a) != std::signbit(b);
  if (flags & kAbsolute) {
    a = std::fabs(a);
    b = std::fabs(b);
  }
  T r;
  if (std::isnan(a) || std::isnan(b)) {
    if (flags & kNanResult) return std::numeric_limits<T>::quiet_NaN();
    r = std::isnan(a) ? b : a;
    if (std::isnan(r)) return r;
  } else if (a == b) {
    r = std::signbit(a) == Max ? b : a;
  } else {
    r = (a < b) == Max ? b : a;
  }
  if (flags & kXorSign) r = std::copysign(std::fabs(r), sign ? T{-1} : T{1});
  return r;
}

template <class T, bool Max>
void min_max(Warp& w, const Op& op, uint32_t mask) {
  Sources<T> s;
  T r[kLanes];
  const bool flush = op.flags & kFlushSubnormals;
  read(w, op.a, flush, s.a);
  read(w, op.b, flush, s.b);
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = extreme<T, Max>(s.a[i], s.b[i], op.flags);
  if (op.immediate != 0) {
    read(w, op.c, flush, s.c);
    for (uint32_t i = 0; i < kLanes; ++i) r[i] = extreme<T, Max>(r[i], s.c[i], op.flags);
  }
  finish(w, op, mask, r);
}

template <bool Max>
void decode_min_max(Decoder& d) {
  const Type type = d.take_type({Type::F32, Type::F64});
  take_flush(d, type, false);
  if (d.take("NaN")) d.op.flags |= kNanResult;
  if (d.take("abs")) d.op.flags |= kAbsolute;
  if (d.take("xorsign")) {
    if (!(d.op.flags & kAbsolute)) d.fail(".xorsign without .abs");
    if (d.layout().module.capability < 86) d.fail(".xorsign needs sm_86");
    d.op.flags |= kXorSign;
  }
  if ((d.op.flags & (kNanResult | kAbsolute)) && d.layout().module.capability < 80) d.fail(".NaN and .abs need sm_80");
  if (type == Type::F64 && (d.op.flags & (kNanResult | kAbsolute))) d.fail("a modifier that is for .f32");
  const bool three = type == Type::F32 && d.count() == 4;
  if (three && d.layout().module.capability < 100) d.fail("three inputs need sm_100");
  sources(d, type, three ? 3 : 2);
  d.op.immediate = three;
  d.op.run = type == Type::F32 ? min_max<float, Max> : min_max<double, Max>;
}

// abs, neg and copysign work on the sign's bit, and keep a NaN's payload.
template <class U, int kWhat>
void sign_bits(Warp& w, const Op& op, uint32_t mask) {
  constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
  const U* a = lanes<U>(w, op.a);
  const U* b = lanes<U>(w, kWhat == 2 ? op.b : op.a);
  U r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    U value = a[i];
    if constexpr (sizeof(U) == 4) {
      if (op.flags & kFlushSubnormals) value = (value & 0x7f800000) == 0 ? value & kSign : value;
    }
    if (kWhat == 0) value &= ~kSign;
    if (kWhat == 1) value ^= kSign;
    // copysign a, b: the sign of a with the value of b.
    if (kWhat == 2) value = (value & kSign) | (b[i] & ~kSign);
    r[i] = value;
  }
  write_lanes(w, op.d, mask, r);
}

template <int kWhat>
void decode_sign(Decoder& d) {
  const Type type = d.take_type({Type::F32, Type::F64});
  if (kWhat != 2) take_flush(d, type, false);
  sources(d, type, kWhat == 2 ? 2 : 1);
  d.op.run = type == Type::F32 ? sign_bits<uint32_t, kWhat> : sign_bits<uint64_t, kWhat>;
}

// testp: op.immediate is the property.
template <class T>
void testp(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  uint32_t r = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const int kind = std::fpclassify(a[i]);
    const bool properties[] = {std::isfinite(a[i]), kind == FP_INFINITE, !std::isnan(a[i]),
                               kind == FP_NAN,      kind == FP_NORMAL,   kind == FP_SUBNORMAL};
    r |= uint32_t{properties[op.immediate]} << i;
  }
  write_predicate(w, op.d, mask, r);
}

void decode_testp(Decoder& d) {
  constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  bool found = false;
  for (uint64_t i = 0; i < std::size(kNames); ++i) {
    if (!d.take(kNames[i])) continue;
    d.op.immediate = i;
    found = true;
  }
  if (!found) d.fail("no property of that name");
  const Type type = d.take_type({Type::F32, Type::F64});
  d.expect_operands(2, 2);
  d.op.d = d.predicate_out(d.operand(0));
  d.op.a = d.in(1, type);
  d.op.run = type == Type::F32 ? testp<float> : testp<double>;
}

// Functions with a stated error: each is the value in double precision, rounded to single, which is within the bound.
template <auto F>
void approximate(Warp& w, const Op& op, uint32_t mask) {
  Sources<float> s;
  float r[kLanes];
  read(w, op.a, op.flags & kFlushSubnormals, s.a);
  for_lanes(mask, [&](uint32_t i) { r[i] = static_cast<float>(F(double{s.a[i]})); });
  for (uint32_t i = 0; i < kLanes; ++i) {
    if (!(mask >> i & 1)) r[i] = 0;
  }
  finish(w, op, mask, r);
}

template <auto F>
void decode_approximate(Decoder& d) {
  if (!d.take("approx")) d.fail("only .approx exists");
  const Type type = d.take_type({Type::F32});
  take_flush(d, type, false);
  sources(d, type, 1);
  d.op.run = approximate<F>;
}

constexpr auto kReciprocalRoot = [](double x) { return 1 / std::sqrt(x); };

void decode_rsqrt(Decoder& d) {
  if (d.peek_type() == Type::F32) return decode_approximate<kReciprocalRoot>(d);
  d.take_type({Type::F64});
  if (!d.take("approx")) d.fail("only .approx exists");
  if (!d.take("ftz")) d.fail("rsqrt.approx.f64 without .ftz is not known");
  sources(d, Type::F64, 1);
  d.op.run = coarse_reciprocal<true>;
}

void decode_tanh(Decoder& d) {
  decode_approximate<[](double x) { return std::tanh(x); }>(d);
}

constexpr InstructionRow kRows[] = {
    {"add", Family::Real, decode_basic<Arithmetic::Add>},
    {"sub", Family::Real, decode_basic<Arithmetic::Sub>},
    {"mul", Family::Real, decode_basic<Arithmetic::Mul>},
    {"fma", Family::Real, decode_fma},
    {"mad", Family::Real, decode_fma},
    {"div", Family::Real, decode_div},
    {"sqrt", Family::Real, decode_sqrt},
    {"rcp", Family::Real, decode_rcp},
    {"min", Family::Real, decode_min_max<false>},
    {"max", Family::Real, decode_min_max<true>},
    {"abs", Family::Real, decode_sign<0>},
    {"neg", Family::Real, decode_sign<1>},
    {"copysign", Family::Real, decode_sign<2>},
    {"testp", Family::Real, decode_testp},
    {"rsqrt", Family::Real, decode_rsqrt},
    {"ex2", Family::Real, decode_approximate<[](double x) { return std::exp2(x); }>},
    {"lg2", Family::Real, decode_approximate<[](double x) { return std::log2(x); }>},
    {"sin", Family::Real, decode_approximate<[](double x) { return std::sin(x); }>},
    {"cos", Family::Real, decode_approximate<[](double x) { return std::cos(x); }>},
    {"tanh", Family::Real, decode_tanh},
};

}  // namespace

std::span<const InstructionRow> real_instructions() { return kRows; }

void flush_lanes(float* values) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    values[i] = std::bit_cast<float>((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
  }
}

void saturate_lanes(float* values) {
  // NaN becomes +0, and so does -0: PTX ISA "Saturation modifier .sat".
  for (uint32_t i = 0; i < kLanes; ++i) values[i] = values[i] > 0 ? std::min(values[i], 1.0F) : 0.0F;
}

void canonical_nans(float* values) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    values[i] = std::bit_cast<float>((bits & 0x7fffffff) > 0x7f800000 ? kSingleNan : bits);
  }
}

void canonical_nans(double* values) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    const auto bits = std::bit_cast<uint64_t>(values[i]);
    values[i] = std::bit_cast<double>((bits & ~(uint64_t{1} << 63)) > 0x7ff0000000000000 ? kDoubleNan : bits);
  }
}

}  // namespace stepfuse::vgpu
