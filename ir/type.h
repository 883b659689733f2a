// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepfuse::ir {

enum class DType : uint8_t { F64, F32, F16, BF16, Bool };

std::string_view dtype_name(DType dtype);  // "f64", "f32", "f16", "bf16", "bool"
std::optional<DType> parse_dtype(std::string_view text);
int64_t dtype_bytes(DType dtype);
/// The type arithmetic runs in: f64 for f64, f32 for everything narrower.
DType math_dtype(DType dtype);

/// An extent is a number of elements or a symbol ("N") that a signature leaves open.
class Extent {
 public:
  constexpr Extent() = default;
  static constexpr Extent of(int64_t elements) { return Extent(elements); }
  static constexpr Extent symbol(uint32_t index) { return Extent(-1 - static_cast<int64_t>(index)); }
  constexpr bool is_symbol() const { return raw_ < 0; }
  constexpr int64_t value() const { return raw_; }  // only when !is_symbol()
  constexpr uint32_t symbol_index() const { return static_cast<uint32_t>(-1 - raw_); }
  constexpr int64_t raw() const { return raw_; }
  friend constexpr bool operator==(Extent, Extent) = default;

 private:
  explicit constexpr Extent(int64_t raw) : raw_(raw) {}
  int64_t raw_ = 1;
};

inline constexpr int kMaxRank = 3;  // at most one batch dimension above a matrix

/// Row-major shape. Reductions keep their dimensions as 1, and extents of 1 broadcast.
struct Shape {
  uint8_t rank = 0;
  std::array<Extent, kMaxRank> dims{};

  Extent from_end(int i) const { return i < rank ? dims[static_cast<size_t>(rank - 1 - i)] : Extent::of(1); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

Shape make_shape(std::initializer_list<Extent> dims);
/// The shape both operands broadcast to (equal extents, or one of them 1, aligned at the last dimension).
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// How often a scalar can change: every step, per group of parameters, or per parameter (its step count).
/// Ordered: an expression has the highest rate of its operands. Constants have rate None.
enum class Rate : uint8_t { None, Step, Group, Parameter };

/// A value is a tensor, or a scalar of the step's f64 scalar graph.
struct Type {
  bool scalar = false;
  Rate rate = Rate::None;  // scalars only
  DType dtype = DType::F32;
  Shape shape;
  friend bool operator==(const Type&, const Type&) = default;
};

inline Type scalar_type(Rate rate) { return Type{true, rate, DType::F64, {}}; }
inline Type tensor_type(DType dtype, const Shape& shape) { return Type{false, Rate::None, dtype, shape}; }

}  // namespace stepfuse::ir
