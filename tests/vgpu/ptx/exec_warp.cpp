// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <bit>

// PTX ISA "Parallel Synchronization and Communication Instructions" among the lanes of a warp.
namespace stepfuse::vgpu {
namespace {

enum ShuffleMode : uint64_t { kUp, kDown, kButterfly, kIndex };

// PTX ISA "shfl.sync": c holds the clamp in bits 0 to 4 and the mask of the segment in bits 8 to 12.
struct ShuffleSource {
  uint32_t lane = 0;
  bool valid = false;
};

ShuffleSource shuffle_source(uint64_t mode, uint32_t lane, uint32_t b, uint32_t c) {
  const uint32_t value = b & 31;
  const uint32_t clamp = c & 31;
  const uint32_t segment = c >> 8 & 31;
  const int highest = static_cast<int>((lane & segment) | (clamp & ~segment));
  const uint32_t lowest = lane & segment;
  const int from = static_cast<int>(lane);
  const int by = static_cast<int>(value);
  int source = 0;
  bool valid = false;
  if (mode == kUp) {
    source = from - by;
    valid = source >= highest;
  } else if (mode == kDown) {
    source = from + by;
    valid = source <= highest;
  } else if (mode == kButterfly) {
    source = from ^ by;
    valid = source <= highest;
  } else {
    source = static_cast<int>(lowest | (value & ~segment));
    valid = source <= highest;
  }
  return valid ? ShuffleSource{static_cast<uint32_t>(source), true} : ShuffleSource{lane, false};
}

// What a lane reads from one that does not take part is undefined: poison.
void shuffle(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* a = lanes<uint32_t>(w, op.a);
  const uint32_t* b = lanes<uint32_t>(w, op.b);
  const uint32_t* c = lanes<uint32_t>(w, op.c);
  uint32_t r[kLanes] = {};
  uint32_t valid = 0;
  for_lanes(mask, [&](uint32_t lane) {
    const ShuffleSource source = shuffle_source(op.immediate, lane, b[lane], c[lane]);
    r[lane] = mask >> source.lane & 1 ? a[source.lane] : kAllLanes;
    valid |= uint32_t{source.valid} << lane;
  });
  write_lanes(w, op.d, mask, r);
  write_predicate(w, op.d2, mask, valid);
}

void set_sync(Decoder& d, const SyncShape& shape, const Operand& members) {
  d.op.e = d.in(members, Type::B32);
  d.op.flow = Flow::WarpSync;
  d.op.target = static_cast<uint32_t>(d.layout().program.sync_shapes.size());
  d.layout().program.sync_shapes.push_back(shape);
}

void need_sync(Decoder& d) {
  if (!d.take("sync")) d.fail("without .sync it is gone since sm_70");
}

void decode_shuffle(Decoder& d) {
  need_sync(d);
  constexpr std::pair<std::string_view, ShuffleMode> kModes[] = {
      {"up", kUp}, {"down", kDown}, {"bfly", kButterfly}, {"idx", kIndex}};
  bool found = false;
  for (const auto& [name, mode] : kModes) {
    if (!d.take(name)) continue;
    d.op.immediate = mode;
    found = true;
  }
  if (!found) d.fail("no mode");
  d.take_type({Type::B32});
  d.expect_operands(5, 5);
  const Operand& to = d.operand(0);
  const bool pair = to.kind == Operand::Kind::Pair;
  d.op.d = d.out(pair ? to.elements[0] : to, Type::B32);
  d.op.d2 = d.predicate_out(pair ? to.elements[1] : Operand{});
  d.op.a = d.in(1, Type::B32);
  d.op.b = d.in(2, Type::B32);
  d.op.c = d.in(3, Type::B32);
  set_sync(d, {4, 4, 4, 4, 1}, d.operand(4));
  d.op.run = shuffle;
}

enum Vote : uint64_t { kAll, kAny, kUni, kBallot };

void vote(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t p = (op.flags & kNegatePredicate ? ~predicate(w, op.a) : predicate(w, op.a)) & mask;
  if (op.immediate == kBallot) {
    uint32_t r[kLanes];
    std::fill(std::begin(r), std::end(r), p);
    return write_lanes(w, op.d, mask, r);
  }
  const bool result = op.immediate == kAll ? p == mask : op.immediate == kAny ? p != 0 : p == 0 || p == mask;
  write_predicate(w, op.d, mask, result ? kAllLanes : 0);
}

void decode_vote(Decoder& d) {
  need_sync(d);
  constexpr std::pair<std::string_view, Vote> kModes[] = {
      {"all", kAll}, {"any", kAny}, {"uni", kUni}, {"ballot", kBallot}};
  bool found = false;
  for (const auto& [name, mode] : kModes) {
    if (!d.take(name)) continue;
    d.op.immediate = mode;
    found = true;
  }
  if (!found) d.fail("no mode");
  const bool ballot = d.op.immediate == kBallot;
  d.take_type({ballot ? Type::B32 : Type::Pred});
  d.expect_operands(3, 3);
  d.op.d = d.out(0, ballot ? Type::B32 : Type::Pred);
  d.op.a = d.predicate_in(1);
  set_sync(d, {1, 0, 0, static_cast<uint8_t>(ballot ? 4 : 1), 0}, d.operand(2));
  d.op.run = vote;
}

template <class T>
void match_any(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  uint32_t r[kLanes] = {};
  for_lanes(mask, [&](uint32_t lane) {
    for_lanes(mask, [&](uint32_t other) { r[lane] |= uint32_t{a[other] == a[lane]} << other; });
  });
  write_lanes(w, op.d, mask, r);
}

template <class T>
void match_all(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  bool same = true;
  for_lanes(mask, [&](uint32_t lane) { same &= a[lane] == a[std::countr_zero(mask)]; });
  uint32_t r[kLanes];
  std::fill(std::begin(r), std::end(r), same ? mask : 0);
  write_lanes(w, op.d, mask, r);
  write_predicate(w, op.d2, mask, same ? kAllLanes : 0);
}

void decode_match(Decoder& d) {
  const bool all = d.take("all");
  if (!all && !d.take("any")) d.fail("neither .any nor .all");
  need_sync(d);
  const Type type = d.take_type({Type::B32, Type::B64});
  d.expect_operands(3, 3);
  const Operand& to = d.operand(0);
  const bool pair = to.kind == Operand::Kind::Pair;
  if (pair && !all) d.fail("match.any has one result");
  d.op.d = d.out(pair ? to.elements[0] : to, Type::B32);
  d.op.d2 = d.predicate_out(pair ? to.elements[1] : Operand{});
  d.op.a = d.in(1, type);
  set_sync(d, {static_cast<uint8_t>(bytes_of(type)), 0, 0, 4, static_cast<uint8_t>(all ? 1 : 0)}, d.operand(2));
  if (type == Type::B32) d.op.run = all ? match_all<uint32_t> : match_any<uint32_t>;
  if (type == Type::B64) d.op.run = all ? match_all<uint64_t> : match_any<uint64_t>;
}

template <class T, auto F>
void reduce(Warp& w, const Op& op, uint32_t mask) {
  const T* a = lanes<T>(w, op.a);
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  T sum = a[first];
  for_lanes(mask & (mask - 1), [&](uint32_t lane) { sum = static_cast<T>(F(sum, a[lane])); });
  T r[kLanes];
  std::fill(std::begin(r), std::end(r), sum);
  write_lanes(w, op.d, mask, r);
}

constexpr auto kPlus = [](auto x, auto y) { return static_cast<uint32_t>(x) + static_cast<uint32_t>(y); };
constexpr auto kLeast = [](auto x, auto y) { return std::min(x, y); };
constexpr auto kGreatest = [](auto x, auto y) { return std::max(x, y); };

void decode_redux(Decoder& d) {
  need_sync(d);
  if (d.layout().module.capability < 80) d.fail("redux.sync needs sm_80");
  const std::string_view what = d.take_any({"add", "min", "max", "and", "or", "xor"});
  if (what.empty()) d.fail("no reduction of that name");
  const bool bits = what == "and" || what == "or" || what == "xor";
  const Type type = bits ? d.take_type({Type::B32}) : d.take_type({Type::U32, Type::S32});
  d.expect_operands(3, 3);
  d.op.d = d.out(0, type);
  d.op.a = d.in(1, type);
  set_sync(d, {4, 0, 0, 4, 0}, d.operand(2));
  const bool sign = type == Type::S32;
  if (what == "add") d.op.run = reduce<uint32_t, kPlus>;
  if (what == "min") d.op.run = sign ? reduce<int32_t, kLeast> : reduce<uint32_t, kLeast>;
  if (what == "max") d.op.run = sign ? reduce<int32_t, kGreatest> : reduce<uint32_t, kGreatest>;
  if (what == "and") d.op.run = reduce<uint32_t, [](uint32_t x, uint32_t y) { return x & y; }>;
  if (what == "or") d.op.run = reduce<uint32_t, [](uint32_t x, uint32_t y) { return x | y; }>;
  if (what == "xor") d.op.run = reduce<uint32_t, [](uint32_t x, uint32_t y) { return x ^ y; }>;
}

void decode_activemask(Decoder& d) {
  d.take_type({Type::B32});
  d.expect_operands(1, 1);
  d.op.d = d.out(0, Type::B32);
  d.op.run = [](Warp& w, const Op& op, uint32_t mask) {
    uint32_t r[kLanes];
    std::fill(std::begin(r), std::end(r), mask);
    write_lanes(w, op.d, mask, r);
  };
}

// elect.sync: one lane of the members, here the lowest; d is its number.
void elect(Warp& w, const Op& op, uint32_t mask) {
  uint32_t r[kLanes];
  std::fill(std::begin(r), std::end(r), static_cast<uint32_t>(std::countr_zero(mask)));
  write_lanes(w, op.d, mask, r);
  write_predicate(w, op.d2, mask, mask & -mask);
}

void decode_elect(Decoder& d) {
  need_sync(d);
  if (d.layout().module.capability < 90) d.fail("elect.sync needs sm_90");
  d.expect_operands(2, 2);
  const Operand& to = d.operand(0);
  if (to.kind != Operand::Kind::Pair) d.fail("elect.sync gives a lane and a predicate");
  d.op.d = d.out(to.elements[0], Type::B32);
  d.op.d2 = d.predicate_out(to.elements[1]);
  set_sync(d, {0, 0, 0, 4, 1}, d.operand(1));
  d.op.run = elect;
}

constexpr InstructionRow kRows[] = {
    {"shfl", Family::Any, decode_shuffle}, {"vote", Family::Any, decode_vote},
    {"match", Family::Any, decode_match},  {"redux", Family::Any, decode_redux},
    {"elect", Family::Any, decode_elect},  {"activemask", Family::Any, decode_activemask},
};

}  // namespace

std::span<const InstructionRow> warp_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
