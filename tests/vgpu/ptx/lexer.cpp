// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/lexer.h"

#include "tests/vgpu/ptx/machine.h"

#include <bit>
#include <charconv>

namespace stepfuse::vgpu {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' || c == '.';
}
bool is_word(char c) { return is_word_start(c) || is_digit(c); }

class Scanner {
 public:
  explicit Scanner(const SourceText& source) : source_(source), text_(source.text()) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    while (skip_blank()) tokens.push_back(next());
    tokens.push_back({Token::Kind::End, {}, line_});
    return tokens;
  }

 private:
  char at(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  bool skip_blank() {
    while (at_ < text_.size()) {
      if (at() == '\n') ++line_;
      if (at() == '\0' || static_cast<unsigned char>(at()) <= ' ') {
        ++at_;
      } else if (at() == '/' && at(1) == '/') {
        while (at_ < text_.size() && at() != '\n') ++at_;
      } else if (at() == '/' && at(1) == '*') {
        skip_comment();
      } else {
        return true;
      }
    }
    return false;
  }

  void skip_comment() {
    const uint32_t first = line_;
    const size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) source_.fail(first, "a comment that never ends");
    for (; at_ < end + 2; ++at_) {
      if (at() == '\n') ++line_;
    }
  }

  Token next() {
    const size_t start = at_;
    Token::Kind kind = Token::Kind::Mark;
    if (is_word_start(at())) {
      kind = Token::Kind::Word;
      word();
    } else if (is_digit(at())) {
      kind = Token::Kind::Number;
      number();
    } else if (at() == '"') {
      kind = Token::Kind::String;
      string();
    } else {
      ++at_;
    }
    return {kind, text_.substr(start, at_ - start), line_};
  }

  // Directives may be glued together: `.reg.b32`.
  void word() {
    if (at() == '.') {
      for (++at_; is_word(at()) && at() != '.'; ++at_) {
      }
      return;
    }
    while (is_word(at()) || (at() == ':' && at(1) == ':' && is_word(at(2)))) at_ += at() == ':' ? 2 : 1;
  }

  void number() {
    const bool decimal =
        at() != '0' || (at(1) != 'x' && at(1) != 'X' && at(1) != 'f' && at(1) != 'F' && at(1) != 'd' && at(1) != 'D');
    while (is_digit(at()) || (at() >= 'a' && at() <= 'z') || (at() >= 'A' && at() <= 'Z') || at() == '.') {
      const bool exponent = decimal && (at() == 'e' || at() == 'E') && (at(1) == '-' || at(1) == '+');
      at_ += exponent ? 2 : 1;
    }
  }

  void string() {
    const uint32_t first = line_;
    for (++at_; at() != '"'; ++at_) {
      if (at_ >= text_.size() || at() == '\n') source_.fail(first, "a string that never ends");
    }
    ++at_;
  }

  const SourceText& source_;
  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

template <class T>
bool parse_all(std::string_view digits, T& value, int base) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

}  // namespace

SourceText::SourceText(std::string_view text) : text_(text) {
  starts_.push_back(0);
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') starts_.push_back(i + 1);
  }
}

std::string SourceText::line(uint32_t number) const {
  if (number == 0 || number > starts_.size()) return "";
  const size_t start = starts_[number - 1];
  std::string line = text_.substr(start, text_.find('\n', start) - start);
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first);
}

void SourceText::fail(uint32_t number, const std::string& what) const {
  throw PtxError("ptx line " + std::to_string(number) + ": " + what + ": " + line(number));
}

std::vector<Token> tokenize(const SourceText& source) { return Scanner(source).run(); }

Number parse_number(const SourceText& source, const Token& token) {
  std::string_view text = token.text;
  uint64_t bits = 0;
  const char second = text.size() > 1 ? static_cast<char>(text[1] | 0x20) : '\0';
  if (text[0] == '0' && second == 'f' && text.size() == 10 && parse_all(text.substr(2), bits, 16)) {
    return {Number::Kind::Float32, bits};
  }
  if (text[0] == '0' && second == 'd' && text.size() == 18 && parse_all(text.substr(2), bits, 16)) {
    return {Number::Kind::Float64, bits};
  }
  if (text.find('.') != std::string_view::npos ||
      (text[0] != '0' && text.find_first_of("eE") != std::string_view::npos)) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) {
      return {Number::Kind::Float64, std::bit_cast<uint64_t>(value)};
    }
    source.fail(token.line, "not a number");
  }
  if (text.ends_with('U')) text.remove_suffix(1);
  const bool hex = text.size() > 2 && text[0] == '0' && second == 'x';
  const bool binary = text.size() > 2 && text[0] == '0' && second == 'b';
  const bool octal = !hex && !binary && text.size() > 1 && text[0] == '0';
  if (hex || binary) text.remove_prefix(2);
  if (!parse_all(text, bits, hex ? 16 : binary ? 2 : octal ? 8 : 10)) source.fail(token.line, "not a number");
  return {Number::Kind::Integer, bits};
}

}  // namespace stepfuse::vgpu
