// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/formats.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <cmath>

// PTX ISA "Half Precision Floating-Point Instructions", and those of bf16.
namespace stepfuse::vgpu {
namespace {

struct Half {
  static double decode(uint16_t bits) { return half_to_float(bits); }
  static uint16_t encode(double value) { return to_half(value); }
  static constexpr uint16_t kSmallestNormal = 0x0400;
};
struct Bfloat {
  static double decode(uint16_t bits) { return bfloat_to_float(bits); }
  static uint16_t encode(double value) { return to_bfloat(value); }
  static constexpr uint16_t kSmallestNormal = 0x0080;
};

template <class H>
uint16_t flush(uint16_t bits) {
  return (bits & 0x7fff) < H::kSmallestNormal ? bits & 0x8000 : bits;
}

bool is_nan(double v) { return std::isnan(v); }

// Sums and products of halves are exact in double, or rounded to odd: one rounding in all.
struct Add {
  static double apply(double a, double b, double) { return add_to_odd(a, b); }
};
struct Sub {
  static double apply(double a, double b, double) { return add_to_odd(a, -b); }
};
struct Mul {
  static double apply(double a, double b, double) { return a * b; }
};
struct Fma {
  static double apply(double a, double b, double c) { return add_to_odd(a * b, c); }
};

template <class H, class F>
uint16_t arithmetic(uint16_t a, uint16_t b, uint16_t c, uint16_t flags) {
  if (flags & kFlushSubnormals) {
    a = flush<H>(a);
    b = flush<H>(b);
    c = flush<H>(c);
  }
  double value = F::apply(H::decode(a), H::decode(b), H::decode(c));
  if (flags & kSaturate) value = value > 0 ? std::min(value, 1.0) : 0;
  if (flags & kRelu) value = is_nan(value) || value > 0 ? value : 0;
  const uint16_t r = H::encode(value);
  return flags & kFlushSubnormals ? flush<H>(r) : r;
}

// min and max: as for single precision.
template <class H, bool Max>
struct Extreme {
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t flags) {
    if (flags & kFlushSubnormals) {
      a = flush<H>(a);
      b = flush<H>(b);
    }
    const auto sign = static_cast<uint16_t>((a ^ b) & 0x8000);
    if (flags & kAbsolute) {
      a &= 0x7fff;
      b &= 0x7fff;
    }
    const double x = H::decode(a);
    const double y = H::decode(b);
    uint16_t r = 0;
    if (is_nan(x) || is_nan(y)) {
      r = (flags & kNanResult) || (is_nan(x) && is_nan(y)) ? kHalfNan : is_nan(x) ? b : a;
    } else if (x == y) {
      r = (a >> 15 != 0) == Max ? b : a;
    } else {
      r = (x < y) == Max ? b : a;
    }
    if ((flags & kXorSign) && !is_nan(H::decode(r))) r = static_cast<uint16_t>((r & 0x7fff) | sign);
    return r;
  }
};

template <class G>
void scalar(Warp& w, const Op& op, uint32_t mask) {
  const uint16_t* a = lanes<uint16_t>(w, op.a);
  const uint16_t* b = lanes<uint16_t>(w, op.b);
  const uint16_t* c = lanes<uint16_t>(w, op.c);
  uint16_t r[kLanes] = {};
  for_lanes(mask, [&](uint32_t i) { r[i] = G::apply(a[i], b[i], c[i], op.flags); });
  write_lanes(w, op.d, mask, r);
}

template <class G>
void packed(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* a = lanes<uint32_t>(w, op.a);
  const uint32_t* b = lanes<uint32_t>(w, op.b);
  const uint32_t* c = lanes<uint32_t>(w, op.c);
  uint32_t r[kLanes] = {};
  for_lanes(mask, [&](uint32_t i) {
    for (uint32_t shift = 0; shift < 32; shift += 16) {
      const auto part = [&](uint32_t v) { return static_cast<uint16_t>(v >> shift); };
      r[i] |= uint32_t{G::apply(part(a[i]), part(b[i]), part(c[i]), op.flags)} << shift;
    }
  });
  write_lanes(w, op.d, mask, r);
}

template <class H, class F>
struct Arithmetic {
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t c, uint16_t flags) { return arithmetic<H, F>(a, b, c, flags); }
};
template <class H, bool Max>
struct MinMax {
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t, uint16_t flags) {
    return Extreme<H, Max>::apply(a, b, flags);
  }
};
// .ftz is for .f16 alone, so flushing one serves both formats.
struct Negate {
  static uint16_t apply(uint16_t a, uint16_t, uint16_t, uint16_t flags) {
    return (flags & kFlushSubnormals ? flush<Half>(a) : a) ^ 0x8000;
  }
};
struct Magnitude {
  static uint16_t apply(uint16_t a, uint16_t, uint16_t, uint16_t flags) {
    return (flags & kFlushSubnormals ? flush<Half>(a) : a) & 0x7fff;
  }
};
// Functions with a stated error: the value in double precision, rounded once.
template <class H, auto F>
struct Approximate {
  static uint16_t apply(uint16_t a, uint16_t, uint16_t, uint16_t flags) {
    if (flags & kFlushSubnormals) a = flush<H>(a);
    const uint16_t r = H::encode(F(H::decode(a)));
    return flags & kFlushSubnormals ? flush<H>(r) : r;
  }
};

constexpr std::initializer_list<Type> kHalves = {Type::F16, Type::BF16, Type::F16x2, Type::BF16x2};

bool is_packed(Type type) { return info(type).kind == TypeClass::Packed; }
bool is_bfloat(Type type) { return type == Type::BF16 || type == Type::BF16x2; }

template <class G, class B>
Handler pick(Type type) {
  if (is_bfloat(type)) return is_packed(type) ? packed<B> : scalar<B>;
  return is_packed(type) ? packed<G> : scalar<G>;
}

void sources(Decoder& d, Type type, size_t count) {
  d.expect_operands(count + 1, count + 1);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  if (count > 1) d.op.b = d.in(2, type);
  if (count > 2) d.op.c = d.in(3, type);
}

// Which architectures have bf16: fma, min, max, neg, abs from sm_80, add, sub, mul from sm_90.
Type take_half(Decoder& d, int bfloat_capability) {
  const Type type = d.take_type(kHalves);
  if (is_bfloat(type) && d.layout().module.capability < bfloat_capability) {
    d.fail("of .bf16 needs sm_" + std::to_string(bfloat_capability));
  }
  if (d.take("ftz")) {
    if (is_bfloat(type)) d.fail(".ftz is not for .bf16");
    d.op.flags |= kFlushSubnormals;
  }
  return type;
}

template <class F>
void decode_basic(Decoder& d) {
  const Type type = take_half(d, 90);
  d.take("rn");
  if (!is_bfloat(type) && d.take("sat")) d.op.flags |= kSaturate;
  sources(d, type, 2);
  d.op.run = pick<Arithmetic<Half, F>, Arithmetic<Bfloat, F>>(type);
}

void decode_fma(Decoder& d) {
  const Type type = take_half(d, 80);
  if (!d.take("rn")) d.fail("fma of halves is .rn");
  if (!is_bfloat(type) && d.take("sat")) d.op.flags |= kSaturate;
  if (d.take("relu")) d.op.flags |= kRelu;
  if ((d.op.flags & kRelu) && d.layout().module.capability < 80) d.fail(".relu needs sm_80");
  sources(d, type, 3);
  d.op.run = pick<Arithmetic<Half, Fma>, Arithmetic<Bfloat, Fma>>(type);
}

template <bool Max>
void decode_min_max(Decoder& d) {
  if (d.layout().module.capability < 80) d.fail("min and max of halves need sm_80");
  const Type type = take_half(d, 80);
  if (d.take("NaN")) d.op.flags |= kNanResult;
  if (d.take("xorsign")) d.op.flags |= kXorSign;
  if ((d.op.flags & kXorSign) && d.layout().module.capability < 86) d.fail(".xorsign needs sm_86");
  if (d.take("abs")) d.op.flags |= kAbsolute;
  if (((d.op.flags & kXorSign) != 0) != ((d.op.flags & kAbsolute) != 0)) d.fail(".xorsign.abs go together");
  sources(d, type, 2);
  d.op.run = pick<MinMax<Half, Max>, MinMax<Bfloat, Max>>(type);
}

template <class F>
void decode_sign(Decoder& d) {
  const Type type = take_half(d, 80);
  sources(d, type, 1);
  d.op.run = pick<F, F>(type);
}

template <auto F>
void decode_approximate(Decoder& d) {
  if (!d.take("approx")) d.fail("only .approx exists");
  const Type type = d.take_type(kHalves);
  if (is_bfloat(type) && d.layout().module.capability < 90) d.fail("of .bf16 needs sm_90");
  const bool flushes = d.take("ftz");
  if (flushes && !is_bfloat(type)) d.op.flags |= kFlushSubnormals;
  sources(d, type, 1);
  d.op.run = pick<Approximate<Half, F>, Approximate<Bfloat, F>>(type);
}

constexpr InstructionRow kRows[] = {
    {"add", Family::Half, decode_basic<Add>},
    {"sub", Family::Half, decode_basic<Sub>},
    {"mul", Family::Half, decode_basic<Mul>},
    {"fma", Family::Half, decode_fma},
    {"min", Family::Half, decode_min_max<false>},
    {"max", Family::Half, decode_min_max<true>},
    {"neg", Family::Half, decode_sign<Negate>},
    {"abs", Family::Half, decode_sign<Magnitude>},
    {"ex2", Family::Half, decode_approximate<[](double x) { return std::exp2(x); }>},
    {"tanh", Family::Half, decode_approximate<[](double x) { return std::tanh(x); }>},
};

}  // namespace

std::span<const InstructionRow> half_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
