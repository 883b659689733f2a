// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepfuse::vgpu {

/// Fundamental and packed types: PTX ISA "Fundamental Types", "Packed Data Types", "Alternate Floating-Point Formats".
enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  BF16,
  F32,
  F64,
  F16x2,
  BF16x2,
  F32x2,
  U16x2,
  S16x2,
  TF32,
};

enum class TypeClass : uint8_t { None, Predicate, Bits, Unsigned, Signed, Float, Packed };

struct TypeInfo {
  Type type;
  std::string_view name;  // as a modifier, without the dot
  TypeClass kind;
  uint32_t bytes;
};

const TypeInfo& info(Type type);
std::optional<Type> type_named(std::string_view name);

inline uint32_t bytes_of(Type type) { return info(type).bytes; }
inline bool is_signed(Type type) { return info(type).kind == TypeClass::Signed; }
inline bool is_float(Type type) { return info(type).kind == TypeClass::Float; }
inline bool is_integer(Type type) {
  return info(type).kind == TypeClass::Signed || info(type).kind == TypeClass::Unsigned;
}
inline bool is_bits(Type type) { return info(type).kind == TypeClass::Bits; }

/// State spaces: PTX ISA "State Spaces". EntryParam is the parameter block of a kernel; the parameters of functions and
/// of call sites live in Local.
enum class Space : uint8_t { Generic, Global, Const, Shared, Local, EntryParam };

std::string_view name(Space space);

/// Windows of the generic address space; PTX ISA "Generic Addressing". Global and constant memory map one to one.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{1} << 57;
inline constexpr uint64_t kParamWindow = uint64_t{1} << 58;

}  // namespace stepfuse::vgpu
