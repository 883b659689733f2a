// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/formats.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <limits>

// PTX ISA "Comparison and Selection Instructions", "Half Precision Comparison Instructions".
namespace stepfuse::vgpu {
namespace {

// A relation is the set of outcomes it holds for.
enum Outcome : uint64_t { kUnordered = 1, kLess = 2, kEqual = 4, kGreater = 8 };

struct Relation {
  std::string_view name;
  uint64_t outcomes;
  bool for_integers, for_floats;
};

constexpr Relation kRelations[] = {
    {"eq", kEqual, true, true},
    {"ne", kLess | kGreater, true, true},
    {"lt", kLess, true, true},
    {"le", kLess | kEqual, true, true},
    {"gt", kGreater, true, true},
    {"ge", kGreater | kEqual, true, true},
    {"lo", kLess, true, false},
    {"ls", kLess | kEqual, true, false},
    {"hi", kGreater, true, false},
    {"hs", kGreater | kEqual, true, false},
    {"equ", kEqual | kUnordered, false, true},
    {"neu", kLess | kGreater | kUnordered, false, true},
    {"ltu", kLess | kUnordered, false, true},
    {"leu", kLess | kEqual | kUnordered, false, true},
    {"gtu", kGreater | kUnordered, false, true},
    {"geu", kGreater | kEqual | kUnordered, false, true},
    {"num", kLess | kEqual | kGreater, false, true},
    {"nan", kUnordered, false, true},
};

// Op::immediate: outcomes in the low byte, how the third operand joins above it, the type of set's result above that.
enum Join : uint64_t { kAlone, kAnd, kOr, kXor };

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

template <class T>
T comparable(T value, bool) {
  return value;
}
float comparable(float value, bool flush) {
  return flush && std::fabs(value) < std::numeric_limits<float>::min() ? 0 : value;
}
float comparable(Half value, bool flush) {
  const float wide = half_to_float(value.bits);
  return flush && std::fabs(wide) < 0x1p-14F ? 0 : wide;
}
float comparable(Bfloat value, bool) { return bfloat_to_float(value.bits); }

// All ones if the relation holds for the outcome.
uint32_t when(uint64_t outcomes, Outcome outcome) { return outcomes & outcome ? kAllLanes : 0; }

template <class T>
uint32_t compare(const T* a, const T* b, uint64_t outcomes, bool flush) {
  const uint32_t less = when(outcomes, kLess);
  const uint32_t equal = when(outcomes, kEqual);
  const uint32_t greater = when(outcomes, kGreater);
  const uint32_t unordered = when(outcomes, kUnordered);
  uint32_t result = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const auto x = comparable(a[i], flush);
    const auto y = comparable(b[i], flush);
    const uint32_t holds = x < y ? less : x == y ? equal : x > y ? greater : unordered;
    result |= holds & kLaneBits[i];
  }
  return result;
}

uint32_t join(Warp& w, const Op& op, uint32_t value) {
  const uint64_t how = op.immediate >> 8 & 255;
  if (how == kAlone) return value;
  const uint32_t c = op.flags & kNegatePredicate ? ~predicate(w, op.c) : predicate(w, op.c);
  return how == kAnd ? value & c : how == kOr ? value | c : value ^ c;
}

template <class T>
void setp(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t value = compare(lanes<T>(w, op.a), lanes<T>(w, op.b), op.immediate & 255, op.flags & kFlushSubnormals);
  const uint32_t inverse = join(w, op, ~value);
  write_predicate(w, op.d, mask, join(w, op, value));
  if (op.flags & kAbsolute) write_predicate(w, op.d2, mask, inverse);
}

template <class T>
void compare_packed(Warp& w, const Op& op, uint32_t* results) {
  const uint32_t* a = lanes<uint32_t>(w, op.a);
  const uint32_t* b = lanes<uint32_t>(w, op.b);
  for (uint32_t half = 0; half < 2; ++half) {
    T x[kLanes];
    T y[kLanes];
    for (uint32_t i = 0; i < kLanes; ++i) {
      x[i] = {static_cast<uint16_t>(a[i] >> 16 * half)};
      y[i] = {static_cast<uint16_t>(b[i] >> 16 * half)};
    }
    results[half] = join(w, op, compare(x, y, op.immediate & 255, op.flags & kFlushSubnormals));
  }
}

// Of packed halves p is the lower and q the upper comparison.
template <class T>
void setp_packed(Warp& w, const Op& op, uint32_t mask) {
  uint32_t results[2] = {};
  compare_packed<T>(w, op, results);
  write_predicate(w, op.d, mask, results[0]);
  if (op.flags & kAbsolute) write_predicate(w, op.d2, mask, results[1]);
}

// set: true is all ones, or one. Op::immediate holds it above bit 16.
template <class T>
void set(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t value =
      join(w, op, compare(lanes<T>(w, op.a), lanes<T>(w, op.b), op.immediate & 255, op.flags & kFlushSubnormals));
  const auto yes = static_cast<uint32_t>(op.immediate >> 16);
  uint32_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = value >> i & 1 ? yes : 0;
  if (op.flags & kHasCount) {  // a result of 16 bits
    uint16_t narrow[kLanes];
    for (uint32_t i = 0; i < kLanes; ++i) narrow[i] = static_cast<uint16_t>(r[i]);
    return write_lanes(w, op.d, mask, narrow);
  }
  write_lanes(w, op.d, mask, r);
}

template <class T>
void set_packed(Warp& w, const Op& op, uint32_t mask) {
  uint32_t results[2] = {};
  compare_packed<T>(w, op, results);
  const auto yes = static_cast<uint32_t>(op.immediate >> 16);
  uint32_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    r[i] = (results[0] >> i & 1 ? yes : 0) | (results[1] >> i & 1 ? yes << 16 : 0);
  }
  write_lanes(w, op.d, mask, r);
}

void take_relation(Decoder& d) {
  const Relation* found = nullptr;
  for (const Relation& relation : kRelations) {
    if (!found && d.take(relation.name)) found = &relation;
  }
  if (!found) d.fail("no comparison of that name");
  d.op.immediate = found->outcomes;
  if (d.take("and")) d.op.immediate |= uint64_t{kAnd} << 8;
  if (d.take("or")) d.op.immediate |= uint64_t{kOr} << 8;
  if (d.take("xor")) d.op.immediate |= uint64_t{kXor} << 8;
  if (d.take("ftz")) d.op.flags |= kFlushSubnormals;
}

void check_relation(Decoder& d, Type type) {
  const bool floats = is_float(type) || info(type).kind == TypeClass::Packed;
  for (const Relation& relation : kRelations) {
    if (std::find(d.text().modifiers.begin(), d.text().modifiers.end(), relation.name) == d.text().modifiers.end())
      continue;
    if (!(floats ? relation.for_floats : relation.for_integers)) d.fail("a comparison that is not for this type");
    // PTX ISA "Integer Comparisons": bits only for equality, lo to hs only for unsigned types.
    const bool equality = relation.name == "eq" || relation.name == "ne";
    if (is_bits(type) && !equality) d.fail("bits have no order");
    if (is_integer(type) && !relation.for_floats && is_signed(type)) d.fail("a comparison that is not for this type");
  }
  const bool bfloat = type == Type::BF16 || type == Type::BF16x2;
  if (bfloat && d.layout().module.capability < 90) d.fail("comparisons of .bf16 need sm_90");
  const bool flushes = type == Type::F32 || type == Type::F16 || type == Type::F16x2;
  if ((d.op.flags & kFlushSubnormals) && !flushes) d.fail(".ftz is not for this type");
}

struct Handlers {
  Handler setp, set;
};

Handlers handlers_of(Type type) {
  if (type == Type::F32) return {setp<float>, set<float>};
  if (type == Type::F64) return {setp<double>, set<double>};
  if (type == Type::F16) return {setp<Half>, set<Half>};
  if (type == Type::BF16) return {setp<Bfloat>, set<Bfloat>};
  if (type == Type::F16x2) return {setp_packed<Half>, set_packed<Half>};
  if (type == Type::BF16x2) return {setp_packed<Bfloat>, set_packed<Bfloat>};
  if (type == Type::S16) return {setp<int16_t>, set<int16_t>};
  if (type == Type::S32) return {setp<int32_t>, set<int32_t>};
  if (type == Type::S64) return {setp<int64_t>, set<int64_t>};
  if (bytes_of(type) == 2) return {setp<uint16_t>, set<uint16_t>};
  if (bytes_of(type) == 4) return {setp<uint32_t>, set<uint32_t>};
  if (bytes_of(type) == 8) return {setp<uint64_t>, set<uint64_t>};
  return {};
}

void take_sources(Decoder& d, Type type) {
  const bool joined = d.op.immediate >> 8 != 0;
  d.expect_operands(joined ? 4 : 3, joined ? 4 : 3);
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, type);
  if (joined) d.op.c = d.predicate_in(3);
}

void decode_setp(Decoder& d) {
  take_relation(d);
  const Type type = d.take_type();
  check_relation(d, type);
  d.op.run = handlers_of(type).setp;
  if (!d.op.run || type == Type::TF32) d.fail("no type of a comparison");
  take_sources(d, type);
  const Operand& to = d.operand(0);
  if (to.kind == Operand::Kind::Pair) {
    d.op.d = d.predicate_out(to.elements[0]);
    d.op.d2 = d.predicate_out(to.elements[1]);
    d.op.flags |= kAbsolute;  // a second predicate is wanted
  } else {
    d.op.d = d.predicate_out(to);
  }
}

struct SetResult {
  Type type;
  bool packed_source;
  uint64_t yes;  // of packed results each half
};

constexpr SetResult kSetResults[] = {
    {Type::U32, false, kAllLanes}, {Type::S32, false, kAllLanes}, {Type::F32, false, 0x3f800000},
    {Type::F16, false, 0x3c00},    {Type::BF16, false, 0x3f80},   {Type::U16, false, 0xffff},
    {Type::S16, false, 0xffff},    {Type::F16x2, true, 0x3c00},   {Type::BF16x2, true, 0x3f80},
    {Type::U32, true, 0xffff},     {Type::S32, true, 0xffff},
};

void decode_set(Decoder& d) {
  take_relation(d);
  const Type result = d.take_type();
  const Type type = d.take_type();
  check_relation(d, type);
  d.op.run = handlers_of(type).set;
  if (!d.op.run || type == Type::TF32) d.fail("no type of a comparison");
  take_sources(d, type);
  const bool packed = info(type).kind == TypeClass::Packed;
  const auto* row = std::find_if(std::begin(kSetResults), std::end(kSetResults), [&](const SetResult& candidate) {
    return candidate.type == result && candidate.packed_source == packed;
  });
  if (row == std::end(kSetResults)) d.fail("no type of a result of set");
  d.op.immediate |= row->yes << 16;
  if (bytes_of(result) == 2) d.op.flags |= kHasCount;
  d.op.d = d.out(0, result);
}

template <class T>
void selp(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  const uint32_t p = op.flags & kNegatePredicate ? ~predicate(w, op.c) : predicate(w, op.c);
  T r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = p & kLaneBits[i] ? a[i] : b[i];
  write_lanes(w, op.d, mask, r);
}

Handler selp_of(uint32_t bytes) { return bytes == 2 ? selp<uint16_t> : bytes == 4 ? selp<uint32_t> : selp<uint64_t>; }

bool selectable(Type type) {
  return bytes_of(type) >= 2 && bytes_of(type) <= 8 && info(type).kind != TypeClass::Packed && type != Type::F16 &&
         type != Type::BF16 && type != Type::TF32;
}

void decode_selp(Decoder& d) {
  const Type type = d.take_type();
  if (!selectable(type)) d.fail("no type of selp");
  d.expect_operands(4, 4);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, type);
  d.op.c = d.predicate_in(3);
  d.op.run = selp_of(bytes_of(type));
}

// slct: a where c >= 0, else b. A NaN selects b.
template <class T, class C>
void slct(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  const C* c = lanes<C>(w, op.c);
  T r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) r[i] = comparable(c[i], op.flags & kFlushSubnormals) >= 0 ? a[i] : b[i];
  write_lanes(w, op.d, mask, r);
}

template <class C>
Handler slct_of(uint32_t bytes) {
  return bytes == 2 ? slct<uint16_t, C> : bytes == 4 ? slct<uint32_t, C> : slct<uint64_t, C>;
}

void decode_slct(Decoder& d) {
  if (d.take("ftz")) d.op.flags |= kFlushSubnormals;
  const Type type = d.take_type();
  if (!selectable(type)) d.fail("no type of slct");
  const Type by = d.take_type({Type::S32, Type::F32});
  d.expect_operands(4, 4);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  d.op.b = d.in(2, type);
  d.op.c = d.in(3, by);
  d.op.run = by == Type::S32 ? slct_of<int32_t>(bytes_of(type)) : slct_of<float>(bytes_of(type));
}

constexpr InstructionRow kRows[] = {
    {"setp", Family::Any, decode_setp},
    {"set", Family::Any, decode_set},
    {"selp", Family::Any, decode_selp},
    {"slct", Family::Any, decode_slct},
};

}  // namespace

std::span<const InstructionRow> compare_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
