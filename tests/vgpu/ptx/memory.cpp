// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/memory.h"

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/races.h"

#include <algorithm>

namespace stepfuse::vgpu {
namespace {

std::string hex(uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + text;
}

std::string describe(Space space, uint64_t address, size_t bytes, bool write) {
  return std::string(write ? "a write of " : "a read of ") + std::to_string(bytes) + " bytes at " +
         std::string(name(space)) + " address " + hex(address);
}

struct Place {
  Space space = Space::Generic;
  uint64_t address = 0;
};

Place place_of(Space space, uint64_t address) {
  if (space != Space::Generic) return {space, address};
  constexpr std::pair<uint64_t, Space> kWindows[] = {
      {kSharedWindow, Space::Shared}, {kLocalWindow, Space::Local}, {kParamWindow, Space::EntryParam}};
  for (const auto& [window, found] : kWindows) {
    if (address >= window && address < window + kWindowBytes) return {found, address - window};
  }
  return {Space::Global, address};
}

std::byte* within(Warp& warp, const Place& place, std::byte* base, size_t size, size_t bytes, bool write) {
  if (place.address > size || bytes > size - place.address) {
    fault(warp, KernelFault::Kind::IllegalAddress,
          describe(place.space, place.address, bytes, write) + ", which has " + std::to_string(size));
  }
  return base + place.address;
}

std::byte* resolve_global(Warp& warp, const Place& place, size_t bytes, bool write) {
  if (write) {
    for (const auto& [first, end] : warp.state->read_only) {
      if (place.address < end && place.address + bytes > first) {
        fault(warp, KernelFault::Kind::IllegalAddress,
              describe(place.space, place.address, bytes, write) + ": constant memory");
      }
    }
  }
  return warp.state->memory->resolve(place.address, bytes, write);
}

uint64_t lane_address(Warp& warp, const MemoryAccess& access, uint32_t lane) {
  uint64_t base = 0;
  if (access.base.bytes == 8) base = lanes<uint64_t>(warp, access.base.offset)[lane];
  if (access.base.bytes == 4) base = lanes<uint32_t>(warp, access.base.offset)[lane];
  return base + static_cast<uint64_t>(access.displacement);
}

// Addresses of the lanes; the bytes of all of them at once if they follow each other in global memory.
struct LaneAddresses {
  uint64_t address[kLanes];
  std::byte* contiguous = nullptr;  // of the first lane of the mask
};

void compute_addresses(Warp& warp, const MemoryAccess& access, uint64_t* address) {
  const auto displacement = static_cast<uint64_t>(access.displacement);
  if (access.base.bytes == 8) {
    const uint64_t* base = lanes<uint64_t>(warp, access.base.offset);
    for (uint32_t i = 0; i < kLanes; ++i) address[i] = base[i] + displacement;
  } else if (access.base.bytes == 4) {
    const uint32_t* base = lanes<uint32_t>(warp, access.base.offset);
    for (uint32_t i = 0; i < kLanes; ++i) address[i] = base[i] + displacement;
  } else {
    std::fill(address, address + kLanes, displacement);
  }
}

bool consecutive(const LaneAddresses& at, uint32_t mask, size_t bytes) {
  if (mask == 0 || (mask & (mask + 1)) != 0) return false;  // lanes 0 to n
  const auto count = static_cast<uint32_t>(std::popcount(mask));
  if (at.address[count - 1] != at.address[0] + (count - 1) * bytes) return false;
  uint64_t differences = 0;
  for (uint32_t i = 0; i < count; ++i) differences |= at.address[i] ^ (at.address[0] + i * bytes);
  return differences == 0;
}

bool plain_global(Space space, uint64_t first, uint64_t end) {
  return space == Space::Global || (space == Space::Generic && end < kSharedWindow && first < end);
}

LaneAddresses addresses(Warp& warp, const MemoryAccess& access, uint32_t mask, bool write) {
  LaneAddresses at;
  compute_addresses(warp, access, at.address);
  const size_t bytes = size_t{access.bytes} * access.count;
  if (warp.state->races || !consecutive(at, mask, bytes) || at.address[0] % bytes != 0) return at;
  const size_t total = bytes * static_cast<size_t>(std::popcount(mask));
  if (!plain_global(access.space, at.address[0], at.address[0] + total)) return at;
  try {
    at.contiguous = resolve_global(warp, {Space::Global, at.address[0]}, total, write);
  } catch (const KernelFault&) {
    // Some lane is at fault, or two allocations meet here: lane by lane it will be seen.
  }
  return at;
}

void note_access(Warp& warp, const MemoryAccess& access, uint32_t lane, uint64_t address, bool write) {
  if (!warp.state->races) return;
  const Place place = place_of(access.space, address);
  const size_t bytes = size_t{access.bytes} * access.count;
  if (place.space == Space::Shared) warp.state->races->shared(warp, lane, place.address, bytes, write, access.ordering);
  if (place.space == Space::Global) warp.state->races->global(warp, lane, place.address, bytes, write, access.ordering);
}

std::byte* lane_bytes(Warp& warp, const MemoryAccess& access, const LaneAddresses& at, uint32_t lane, bool write) {
  const size_t bytes = size_t{access.bytes} * access.count;
  if (at.contiguous) return at.contiguous + lane * bytes;
  std::byte* found = resolve(warp, access.space, lane, at.address[lane], bytes, write);
  note_access(warp, access, lane, at.address[lane], write);
  return found;
}

// Elements of type T for a register of type R, extended by the rules of T.
template <class T, class R>
void load_element(Warp& w, const std::byte* const* from, uint32_t offset, RegisterRef to, uint32_t mask) {
  R* d = lanes<R>(w, to.offset);
  for_lanes(mask, [&](uint32_t lane) {
    T value;
    std::memcpy(&value, from[lane] + offset, sizeof value);
    d[lane] = static_cast<R>(value);
  });
}

template <class T>
void load_elements(Warp& w, const MemoryAccess& access, const std::byte* const* from, uint32_t mask) {
  for (uint32_t i = 0; i < access.count; ++i) {
    const RegisterRef to = access.values[i];
    const auto offset = static_cast<uint32_t>(i * sizeof(T));
    if (to.bytes == 8) load_element<T, uint64_t>(w, from, offset, to, mask);
    if (to.bytes == 4) load_element<T, uint32_t>(w, from, offset, to, mask);
    if (to.bytes == 2) load_element<T, uint16_t>(w, from, offset, to, mask);
    if (to.bytes == 1) load_element<T, uint8_t>(w, from, offset, to, mask);
  }
}

using Elements = void (*)(Warp&, const MemoryAccess&, const std::byte* const*, uint32_t);

Elements loader_of(const MemoryAccess& access) {
  if (access.bytes == 1) return access.sign_extend ? load_elements<int8_t> : load_elements<uint8_t>;
  if (access.bytes == 2) return access.sign_extend ? load_elements<int16_t> : load_elements<uint16_t>;
  if (access.bytes == 4) return access.sign_extend ? load_elements<int32_t> : load_elements<uint32_t>;
  return load_elements<uint64_t>;
}

// Registers of 128 bits move as they are.
void load_wide(Warp& warp, const MemoryAccess& access, const std::byte* const* from, uint32_t mask) {
  for (uint32_t i = 0; i < access.count; ++i) {
    if (access.values[i].bytes != 16) continue;
    for_lanes(mask, [&](uint32_t lane) {
      std::memcpy(warp.registers + access.values[i].offset + lane * 16, from[lane] + i * size_t{16}, 16);
    });
  }
}

// One element of each lane, side by side in memory as in the register.
bool moves_as_block(const MemoryAccess& access, const LaneAddresses& at, uint32_t mask) {
  return at.contiguous && mask == kAllLanes && access.count == 1 && access.values[0].bytes == access.bytes;
}

// Shared memory: all lanes are checked at once, and only if one is wrong each by itself, for the message.
bool resolve_shared(Warp& warp, const MemoryAccess& access, const LaneAddresses& at, uint32_t mask, std::byte** found) {
  if (access.space != Space::Shared || warp.state->races) return false;
  const uint64_t bytes = uint64_t{access.bytes} * access.count;
  std::vector<std::byte>& shared = warp.block->shared;
  if (bytes > shared.size()) return false;
  const uint64_t last = shared.size() - bytes;
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    wrong |= uint32_t{at.address[i] > last || (at.address[i] & (bytes - 1)) != 0} << i;
    found[i] = shared.data() + at.address[i];
  }
  return (wrong & mask) == 0;
}

void resolve_lanes(Warp& warp, const MemoryAccess& access, const LaneAddresses& at, uint32_t mask, bool write,
                   std::byte** found) {
  if (resolve_shared(warp, access, at, mask, found)) return;
  if (access.base.bytes == 0 && access.space == Space::EntryParam) {
    const auto first = static_cast<uint32_t>(std::countr_zero(mask));
    std::fill(found, found + kLanes, lane_bytes(warp, access, at, first, write));
    return;
  }
  for_lanes(mask, [&](uint32_t lane) { found[lane] = lane_bytes(warp, access, at, lane, write); });
}

void load(Warp& warp, const Op& op, uint32_t mask) {
  const MemoryAccess& access = warp.state->program->accesses[op.target];
  const LaneAddresses at = addresses(warp, access, mask, false);
  if (moves_as_block(access, at, mask)) {
    std::memcpy(warp.registers + access.values[0].offset, at.contiguous, size_t{access.bytes} * kLanes);
    return;
  }
  std::byte* from[kLanes];
  resolve_lanes(warp, access, at, mask, false, from);
  if (access.bytes == 16) return load_wide(warp, access, from, mask);
  loader_of(access)(warp, access, from, mask);
}

template <class T>
void store_elements(Warp& w, const MemoryAccess& access, std::byte* const* to, uint32_t mask) {
  for (uint32_t i = 0; i < access.count; ++i) {
    const RegisterRef from = access.values[i];
    for_lanes(mask, [&](uint32_t lane) {
      std::memcpy(to[lane] + i * sizeof(T), w.registers + from.offset + lane * from.bytes, sizeof(T));
    });
  }
}

struct Sixteen {
  std::byte bytes[16];
};

void store(Warp& warp, const Op& op, uint32_t mask) {
  const MemoryAccess& access = warp.state->program->accesses[op.target];
  const LaneAddresses at = addresses(warp, access, mask, true);
  if (moves_as_block(access, at, mask)) {
    std::memcpy(at.contiguous, warp.registers + access.values[0].offset, size_t{access.bytes} * kLanes);
    return;
  }
  std::byte* to[kLanes];
  resolve_lanes(warp, access, at, mask, true, to);
  if (access.bytes == 1) store_elements<uint8_t>(warp, access, to, mask);
  if (access.bytes == 2) store_elements<uint16_t>(warp, access, to, mask);
  if (access.bytes == 4) store_elements<uint32_t>(warp, access, to, mask);
  if (access.bytes == 8) store_elements<uint64_t>(warp, access, to, mask);
  if (access.bytes == 16) store_elements<Sixteen>(warp, access, to, mask);
}

// PTX ISA "Cache Operators", "Cache Eviction Priority Hints", prefetch sizes: none changes a value.
void take_hints(Decoder& d) {
  auto& modifiers = d.modifiers();
  std::erase_if(modifiers, [](std::string_view m) {
    return m.starts_with("L1::evict") || m.starts_with("L2::evict") || m == "L1::no_allocate" || m == "L2::64B" ||
           m == "L2::128B" || m == "L2::256B";
  });
  if (d.has("L2::cache_hint")) d.fail("a cache policy");
}

Ordering take_ordering(Decoder& d, bool load) {
  const std::string_view order = load ? d.take_any({"weak", "volatile", "relaxed", "acquire", "mmio"})
                                      : d.take_any({"weak", "volatile", "relaxed", "release", "mmio"});
  const bool scoped = order == "relaxed" || order == "acquire" || order == "release" || order == "mmio";
  if (order == "mmio" && !d.take("relaxed")) d.fail(".mmio without .relaxed");
  if (scoped && d.take_any({"cta", "cluster", "gpu", "sys"}).empty()) d.fail("an ordering without a scope");
  return {!order.empty() && order != "weak", order == "acquire", order == "release"};
}

uint8_t take_count(Decoder& d) {
  if (d.take("v2")) return 2;
  if (d.take("v4")) return 4;
  if (d.take("v8")) return 8;
  return 1;
}

// PTX ISA "ld", "st": up to 16 bytes, and 32 in global memory from sm_100 on.
void check_width(Decoder& d, const MemoryAccess& access) {
  const size_t bytes = size_t{access.bytes} * access.count;
  const bool wide =
      bytes == 32 && d.layout().module.capability >= 100 && access.space == Space::Global && access.bytes >= 4;
  if ((bytes > 16 && !wide) || (access.count == 8 && !wide)) d.fail("more bytes than one access moves");
}

void take_values(Decoder& d, MemoryAccess& access, const Operand& operand, Type type, bool load) {
  std::vector<const Operand*> list = {&operand};
  if (operand.kind == Operand::Kind::Vector) {
    list.clear();
    for (const Operand& element : operand.elements) list.push_back(&element);
  }
  if (list.size() != access.count || (access.count > 1) != (operand.kind == Operand::Kind::Vector)) {
    d.fail("a wrong number of registers");
  }
  for (const Operand* value : list) {
    if (!load && value->kind == Operand::Kind::Sink) d.fail("a store of nothing");
    access.values.push_back(load ? d.wide_out(*value, type) : d.wide_in(*value, type));
  }
}

void decode_access(Decoder& d, bool load) {
  MemoryAccess access;
  access.ordering = take_ordering(d, load);
  access.space = take_space(d);
  if (load && d.take("nc") && access.space != Space::Global) d.fail(".nc is for global memory");
  static_cast<void>(d.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"}));
  take_hints(d);
  access.count = take_count(d);
  const Type type = d.take_type();
  if (info(type).kind == TypeClass::Packed || type == Type::Pred || type == Type::F16 || type == Type::BF16 ||
      type == Type::TF32) {
    d.fail("no type of a memory access");
  }
  access.bytes = static_cast<uint8_t>(bytes_of(type));
  access.sign_extend = is_signed(type);
  d.expect_operands(2, 2);
  take_address(d, access, d.operand(load ? 1 : 0));
  if (!load && (access.space == Space::Const || access.space == Space::EntryParam))
    d.fail("a store to read-only memory");
  check_width(d, access);
  take_values(d, access, d.operand(load ? 0 : 1), type, load);
  d.op.switches = access.space == Space::Shared || access.space == Space::Generic || access.ordering.strong;
  d.op.run = load ? vgpu::load : vgpu::store;
  d.op.target = add_access(d, access);
}

// Hints to the caches: the address is checked for form, and nothing happens. PTX ISA "prefetch", "discard".
void decode_hint(Decoder& d) {
  static_cast<void>(d.take_any({"global", "local", "const", "param"}));
  static_cast<void>(d.take_any({"L1", "L2", "L2::evict_last", "L2::evict_normal"}));
  static_cast<void>(d.take("tensormap") ? d.fail("tensor maps") : void());
  d.expect_operands(1, 2);
  d.op.run = [](Warp&, const Op&, uint32_t) {};
}

constexpr InstructionRow kRows[] = {
    {"ld", Family::Any, [](Decoder& d) { decode_access(d, true); }},
    {"ldu", Family::Any, [](Decoder& d) { decode_access(d, true); }},
    {"st", Family::Any, [](Decoder& d) { decode_access(d, false); }},
    {"prefetch", Family::Any, decode_hint},
    {"prefetchu", Family::Any, decode_hint},
    {"discard", Family::Any, decode_hint},
    {"applypriority", Family::Any, decode_hint},
};

}  // namespace

std::span<const InstructionRow> memory_instructions() { return kRows; }

Space take_space(Decoder& d) {
  if (d.take("param") || d.take("param::entry") || d.take("param::func")) return Space::EntryParam;
  if (d.take("shared") || d.take("shared::cta")) return Space::Shared;
  if (d.take("global")) return Space::Global;
  if (d.take("local")) return Space::Local;
  if (d.take("const")) return Space::Const;
  return Space::Generic;
}

void take_address(Decoder& d, MemoryAccess& access, const Operand& operand) {
  if (operand.kind != Operand::Kind::Address) d.fail("an address is missing");
  const Operand& base = operand.elements[0];
  access.displacement = operand.offset;
  if (base.kind == Operand::Kind::Variable) {
    const Space space = base.variable->space;
    // .param is one space in the text: a kernel's parameters, or those of functions, which are local here.
    if (access.space == Space::EntryParam) {
      access.space = space;
    } else if (access.space == Space::Generic) {
      access.space = space;
    } else if (access.space != space) {
      d.fail("the variable is in another state space");
    }
    access.displacement += static_cast<int64_t>(d.address_of(base));
    return;
  }
  if (base.kind == Operand::Kind::Integer) {
    access.displacement += static_cast<int64_t>(base.bits);
    return;
  }
  if (base.kind != Operand::Kind::Register) d.fail("an address that is no register and no variable: " + base.name);
  if (access.space == Space::EntryParam && !d.function().function->entry) access.space = Space::Local;
  access.base = d.any_register(base);
  if (access.base.bytes != 4 && access.base.bytes != 8) d.fail("an address of neither 32 nor 64 bits");
  if (access.base.bytes == 4 && (access.space == Space::Global || access.space == Space::Generic)) {
    d.fail("a 32-bit address in a 64-bit space");
  }
}

uint32_t add_access(Decoder& d, const MemoryAccess& access) {
  d.layout().program.accesses.push_back(access);
  return static_cast<uint32_t>(d.layout().program.accesses.size() - 1);
}

std::byte* access_lane(Warp& warp, const MemoryAccess& access, uint32_t lane, bool write) {
  LaneAddresses at;
  at.address[lane] = lane_address(warp, access, lane);
  return lane_bytes(warp, access, at, lane, write);
}

std::byte* resolve(Warp& warp, Space space, uint32_t lane, uint64_t address, size_t bytes, bool write) {
  warp.lane = lane;
  const Place place = place_of(space, address);
  if (place.address % bytes != 0) {
    fault(warp, KernelFault::Kind::MisalignedAddress, describe(place.space, place.address, bytes, write));
  }
  Block& block = *warp.block;
  if (place.space == Space::Shared) return within(warp, place, block.shared.data(), block.shared.size(), bytes, write);
  const Program& program = *warp.state->program;
  if (place.space == Space::Local) {
    std::byte* base = block.local.data() + (size_t{warp.index} * kLanes + lane) * program.local_bytes;
    return within(warp, place, base, program.local_bytes, bytes, write);
  }
  if (place.space == Space::EntryParam) {
    if (write) fault(warp, KernelFault::Kind::IllegalAddress, describe(place.space, place.address, bytes, write));
    // Read only: nothing writes through the pointer.
    auto* base = const_cast<std::byte*>(warp.state->parameters);
    return within(warp, place, base, program.info.parameter_bytes, bytes, write);
  }
  return resolve_global(warp, place, bytes, write);
}

}  // namespace stepfuse::vgpu
