// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::ir {

enum class TokenKind : uint8_t {
  Identifier,  // mul
  Tensor,      // %p, text without the sigil; so for the next two
  Scalar,      // #lr
  Recipe,      // @adamw
  Placement,   // @2.1, text "2.1"
  Number,      // 0.5, 1e-8, 0x1.8p-3
  String,      // "exp_avg", text between the quotes
  Arrow,       // ->
  Symbol,      // any other single character of the grammar
  End
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  size_t offset = 0;
  bool is(char symbol) const { return kind == TokenKind::Symbol && text.front() == symbol; }
  bool is_word(std::string_view word) const { return kind == TokenKind::Identifier && text == word; }
};

/// How an error message names a token: "'mul'", "end of input".
std::string describe(const Token& token);

/// A text with a name, for errors that point into it.
struct SourceText {
  std::string_view text;
  std::string_view file_name;
  /// `file:line:column: message`
  tl::unexpected<Status> error(size_t offset, const std::string& message) const;
};

/// Splits the text; the last token is End. Comments and white space are dropped.
Result<std::vector<Token>> tokenize(const SourceText& source);

}  // namespace stepfuse::ir
