// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/types.h"

#include <array>

namespace stepfuse::vgpu {
namespace {

constexpr TypeInfo kTypes[] = {
    {Type::None, "", TypeClass::None, 0},           {Type::Pred, "pred", TypeClass::Predicate, 0},
    {Type::B8, "b8", TypeClass::Bits, 1},           {Type::B16, "b16", TypeClass::Bits, 2},
    {Type::B32, "b32", TypeClass::Bits, 4},         {Type::B64, "b64", TypeClass::Bits, 8},
    {Type::B128, "b128", TypeClass::Bits, 16},      {Type::U8, "u8", TypeClass::Unsigned, 1},
    {Type::U16, "u16", TypeClass::Unsigned, 2},     {Type::U32, "u32", TypeClass::Unsigned, 4},
    {Type::U64, "u64", TypeClass::Unsigned, 8},     {Type::S8, "s8", TypeClass::Signed, 1},
    {Type::S16, "s16", TypeClass::Signed, 2},       {Type::S32, "s32", TypeClass::Signed, 4},
    {Type::S64, "s64", TypeClass::Signed, 8},       {Type::F16, "f16", TypeClass::Float, 2},
    {Type::BF16, "bf16", TypeClass::Float, 2},      {Type::F32, "f32", TypeClass::Float, 4},
    {Type::F64, "f64", TypeClass::Float, 8},        {Type::F16x2, "f16x2", TypeClass::Packed, 4},
    {Type::BF16x2, "bf16x2", TypeClass::Packed, 4}, {Type::F32x2, "f32x2", TypeClass::Packed, 8},
    {Type::U16x2, "u16x2", TypeClass::Packed, 4},   {Type::S16x2, "s16x2", TypeClass::Packed, 4},
    {Type::TF32, "tf32", TypeClass::Float, 4},
};

}  // namespace

const TypeInfo& info(Type type) { return kTypes[static_cast<size_t>(type)]; }

std::optional<Type> type_named(std::string_view name) {
  for (const TypeInfo& row : kTypes) {
    if (row.type != Type::None && row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string_view name(Space space) {
  constexpr std::array<std::string_view, 6> kNames = {"generic", "global", "const", "shared", "local", "param"};
  return kNames.at(static_cast<size_t>(space));
}

}  // namespace stepfuse::vgpu
