// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "ir/type.h"
#include "runtime/config/glob.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// A parameter as the router sees it.
struct RoutedParameter {
  std::string name;
  std::vector<int64_t> shape;
  ir::DType dtype = ir::DType::F32;
};

/// What a group's `where` says, such as "ndim == 2 and not (name == '*embed*' or rows > 50000)": comparisons of ndim,
/// numel, rows, cols, dtype and name by == != < <= > >=, joined by and, or, not and parentheses. rows is the first
/// extent and cols the product of the others; == on a name takes a pattern.
class Condition {
 public:
  /// Errors name the column within `text`; they have no other place.
  static Result<Condition> parse(std::string_view text);

  bool holds(const RoutedParameter& parameter) const;
  const std::string& text() const { return text_; }

  enum class Quantity : uint8_t { Ndim, Numel, Rows, Cols, Dtype, Name };
  enum class Relation : uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };
  enum class Kind : uint8_t { And, Or, Not, Number, Quantities, Dtype, Name };

  /// And, Or: of nodes `left` and `right`; Not: of `left`; the others compare `quantity` with what their name says.
  struct Node {
    Kind kind;
    uint32_t left = 0, right = 0;
    Quantity quantity = Quantity::Ndim, other = Quantity::Ndim;
    Relation relation = Relation::Equal;
    int64_t number = 0;
    ir::DType dtype = ir::DType::F32;
    Glob glob;
  };

 private:
  bool holds(uint32_t node, const RoutedParameter& parameter, const std::array<int64_t, 4>& numbers) const;

  std::string text_;
  std::vector<Node> nodes_;
  uint32_t root_ = 0;
};

}  // namespace stepfuse::runtime
