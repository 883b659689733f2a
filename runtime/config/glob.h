// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// A pattern for parameter names: * (any text, dots included), ? (one character), [abc], [a-z], [!a]. It stands for the
/// whole name, and case counts.
class Glob {
 public:
  /// An empty pattern and a bracket without its partner are errors; the message has no place.
  static Result<Glob> compile(std::string pattern);

  bool matches(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool literal_ = false;
};

using Globs = std::vector<Glob>;

}  // namespace stepfuse::runtime
