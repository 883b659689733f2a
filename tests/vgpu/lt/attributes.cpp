// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/attributes.h"

#include <cstring>

namespace stepfuse::vgpu::lt {
namespace {

int64_t sign_extended(uint64_t bits, size_t bytes) {
  const auto shift = static_cast<unsigned>(64 - 8 * bytes);
  return static_cast<int64_t>(bits << shift) >> shift;
}

}  // namespace

AttributeValues initial_values(std::span<const Attribute> table) {
  AttributeValues values{};
  for (const Attribute& row : table) values[static_cast<size_t>(row.id)] = row.initial;
  return values;
}

const Attribute* find_attribute(std::span<const Attribute> table, int id) {
  for (const Attribute& row : table) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

cublasStatus_t set_attribute(const char* where, std::span<const Attribute> table, AttributeValues& values, int id,
                             const void* value, size_t bytes) {
  const Attribute* row = find_attribute(table, id);
  if (row == nullptr) return invalid(where, "there is no attribute {}", id);
  if (value == nullptr) return invalid(where, "{}: the value is a null pointer", row->name);
  if (bytes != row->bytes) return invalid(where, "{} has {} bytes, got {}", row->name, row->bytes, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, value, bytes);
  const int64_t number = sign_extended(bits, bytes);
  const Legal legal = row->check(number);
  if (legal == Legal::No) return invalid(where, "{} cannot be {}; legal: {}", row->name, number, row->choices);
  if (legal == Legal::Unknown)
    return unknown(where, fmt::format("{} = {}; known: {}", row->name, number, row->choices));
  values[static_cast<size_t>(id)] = bits;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t get_attribute(const char* where, std::span<const Attribute> table, const AttributeValues& values, int id,
                             void* value, size_t bytes, size_t* written) {
  const Attribute* row = find_attribute(table, id);
  if (row == nullptr) return invalid(where, "there is no attribute {}", id);
  const std::span bits(&values[static_cast<size_t>(id)], 1);
  return give_bytes(where, row->name, std::as_bytes(bits).first(row->bytes), value, bytes, written);
}

cublasStatus_t give_bytes(const char* where, const char* name, std::span<const std::byte> source, void* value,
                          size_t bytes, size_t* written) {
  if (bytes == 0) {
    if (written == nullptr) return invalid(where, "{}: asked for the size without a place to write it", name);
    *written = source.size();
    return CUBLAS_STATUS_SUCCESS;
  }
  if (value == nullptr) return invalid(where, "{}: the buffer is a null pointer", name);
  if (bytes != source.size()) return invalid(where, "{} has {} bytes, the buffer {}", name, source.size(), bytes);
  std::memcpy(value, source.data(), source.size());
  if (written != nullptr) *written = source.size();
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace stepfuse::vgpu::lt
