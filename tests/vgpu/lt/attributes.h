// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Attributes of descriptors as tables: what exists, how wide it is, what it may be. Widths and defaults are those of
/// the cuBLASLt guide's sections on cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t,
/// cublasLtMatmulPreferenceAttributes_t and cublasLtMatmulAlgoConfigAttributes_t. The real library takes any value here
/// and answers in cublasLtMatmul; we answer where the mistake is made.

#include "tests/vgpu/lt/report.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace stepfuse::vgpu::lt {

enum class Legal : uint8_t { Yes, No, Unknown };  // Unknown: the library may take it, the stand-in does not know it

struct Attribute {
  int id;
  const char* name;
  size_t bytes;
  uint64_t initial;               // the bits of the default
  Legal (*check)(int64_t value);  // signed: a value's sign bit is extended
  const char* choices;            // what is legal, for the message
};

/// All attributes have ids below this.
inline constexpr int kMaxAttributes = 48;

/// Values by attribute id, as their bits.
using AttributeValues = std::array<uint64_t, kMaxAttributes>;

AttributeValues initial_values(std::span<const Attribute> table);
const Attribute* find_attribute(std::span<const Attribute> table, int id);

cublasStatus_t set_attribute(const char* where, std::span<const Attribute> table, AttributeValues& values, int id,
                             const void* value, size_t bytes);
cublasStatus_t get_attribute(const char* where, std::span<const Attribute> table, const AttributeValues& values, int id,
                             void* value, size_t bytes, size_t* written);

/// Writes `source` as the library does: 0 bytes asks for the size, any other size must fit exactly.
cublasStatus_t give_bytes(const char* where, const char* name, std::span<const std::byte> source, void* value,
                          size_t bytes, size_t* written);

}  // namespace stepfuse::vgpu::lt
