// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::vgpu {

/// Lexical elements: PTX ISA "Syntax". A word holds its dots and double colons: `ld.global.L1::no_allocate`, `%tid.x`.
struct Token {
  enum class Kind : uint8_t { Word, Number, String, Mark, End };
  Kind kind = Kind::End;
  std::string_view text;
  uint32_t line = 0;
};

/// A module's text by lines, for messages.
class SourceText {
 public:
  explicit SourceText(std::string_view text);
  std::string_view text() const { return text_; }
  /// Throws PtxError: "ptx line 12: <what>: <the line>".
  [[noreturn]] void fail(uint32_t line, const std::string& what) const;
  std::string line(uint32_t number) const;
  /// "ptx line 12: add.s32 %r1, %r2, 1;"
  std::string describe(uint32_t number) const { return "ptx line " + std::to_string(number) + ": " + line(number); }

 private:
  std::string text_;
  std::vector<size_t> starts_;
};

std::vector<Token> tokenize(const SourceText& source);

/// The value of a numeric literal: integers as they are, 0f and 0d as bits. PTX ISA "Constants".
struct Number {
  enum class Kind : uint8_t { Integer, Float32, Float64 };
  Kind kind = Kind::Integer;
  uint64_t bits = 0;
};

Number parse_number(const SourceText& source, const Token& token);

}  // namespace stepfuse::vgpu
