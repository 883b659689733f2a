// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/lexer.h"

#include "ir/namer.h"

#include <algorithm>

namespace stepfuse::ir {

namespace {

constexpr std::string_view kSymbols = "(){}[],:=+-*/";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string readable(char c) {
  return c >= 0x20 && c < 0x7f ? fmt::format("'{}'", c)
                               : fmt::format("byte 0x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
}

class Lexer {
 public:
  explicit Lexer(const SourceText& source) : source_(source), text_(source.text) {}

  Result<std::vector<Token>> run() {
    for (skip_blank(); at_ < text_.size(); skip_blank()) STEPFUSE_TRY(next());
    tokens_.push_back({TokenKind::End, {}, text_.size()});
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void skip_blank() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  Outcome next() {
    const char c = peek();
    if (c == '%' || c == '#') return sigil(c == '%' ? TokenKind::Tensor : TokenKind::Scalar, "a name");
    if (c == '@') return is_digit(peek(1)) ? placement() : sigil(TokenKind::Recipe, "the recipe's name");
    if (c == '"') return string();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (is_word(c)) return push(TokenKind::Identifier, at_, word_end(at_));
    if (c == '-' && peek(1) == '>') return push(TokenKind::Arrow, at_, at_ + 2);
    if (kSymbols.find(c) != std::string_view::npos) return push(TokenKind::Symbol, at_, at_ + 1);
    return source_.error(at_, fmt::format("unexpected {}; expected IR text", readable(c)));
  }

  Outcome push(TokenKind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, text_.substr(begin, end - begin), at_});
    at_ = end;
    return {};
  }

  size_t word_end(size_t begin) const {
    while (begin < text_.size() && is_word(text_[begin])) ++begin;
    return begin;
  }

  Outcome sigil(TokenKind kind, std::string_view what) {
    const size_t end = word_end(at_ + 1);
    if (!is_identifier(text_.substr(at_ + 1, end - at_ - 1)))
      return source_.error(
          at_, fmt::format("'{}' without a name; expected {} (a letter or _, then letters, digits, _)", peek(), what));
    const size_t begin = at_ + 1;
    return push(kind, begin, end);
  }

  Outcome placement() {
    size_t end = at_ + 1;
    while (end < text_.size() && (is_digit(text_[end]) || text_[end] == '.')) ++end;
    return push(TokenKind::Placement, at_ + 1, end);
  }

  Outcome number() {
    size_t end = at_;
    while (end < text_.size()) {
      const bool hex = text_.substr(at_, 2) == "0x";
      const char before = end > at_ ? text_[end - 1] : '\0';
      const bool exponent = hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E';
      const bool sign = (text_[end] == '+' || text_[end] == '-') && exponent;
      if (!is_word(text_[end]) && text_[end] != '.' && !sign) break;
      ++end;
    }
    return push(TokenKind::Number, at_, end);
  }

  Outcome string() {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size() || text_[end] != '"')
      return source_.error(at_, "a string without end; expected a closing '\"' on the same line");
    tokens_.push_back({TokenKind::String, text_.substr(at_ + 1, end - at_ - 1), at_});
    at_ = end + 1;
    return {};
  }

  const SourceText& source_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  constexpr size_t kMaxShown = 40;
  const std::string_view shown = token.text.substr(0, kMaxShown);
  const std::string_view dots = token.text.size() > kMaxShown ? "..." : "";
  if (token.kind == TokenKind::End) return "end of input";
  const std::string_view sigil = token.kind == TokenKind::Tensor                                         ? "%"
                                 : token.kind == TokenKind::Scalar                                       ? "#"
                                 : token.kind == TokenKind::Recipe || token.kind == TokenKind::Placement ? "@"
                                                                                                         : "";
  if (token.kind == TokenKind::String) return fmt::format("\"{}{}\"", shown, dots);
  return fmt::format("'{}{}{}'", sigil, shown, dots);
}

tl::unexpected<Status> SourceText::error(size_t offset, const std::string& message) const {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return fail(StatusCode::InvalidData, "{}:{}:{}: {}", file_name, line, offset - line_begin + 1, message);
}

Result<std::vector<Token>> tokenize(const SourceText& source) { return Lexer(source).run(); }

}  // namespace stepfuse::ir
