// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/parser.h"

#include <cmath>

namespace stepfuse::ir {

namespace {

// Far above any optimizer; keeps searches by name linear.
constexpr size_t kMaxInputs = 256;

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

/// Undoes \" \\ and \xNN; nothing if there is another escape.
std::optional<std::string> unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == '"' || next == '\\') {
      out += next;
      i += 1;
      continue;
    }
    const auto high = i + 3 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
    const auto low = i + 3 < text.size() ? hex_digit(text[i + 3]) : std::nullopt;
    if (next != 'x' || !high || !low) return std::nullopt;
    out += static_cast<char>(*high * 16 + *low);
    i += 3;
  }
  return out;
}

}  // namespace

Outcome Parser::parse_header() {
  STEPFUSE_TRY(expect_word("recipe"));
  if (peek().kind != TokenKind::Recipe) return unexpected("the recipe's name, '@name'");
  graph_.name = std::string(take().text);
  STEPFUSE_TRY(expect('('));
  if (!peek().is(')')) {
    do {
      STEPFUSE_TRY(parse_input());
    } while (take_if(','));
  }
  STEPFUSE_TRY(expect(')'));
  return expect('{');
}

Outcome Parser::parse_input() {
  const Token& name = peek();
  if (name.kind != TokenKind::Tensor && name.kind != TokenKind::Scalar)
    return unexpected("an input: '%name: type' or '#name: rate'");
  if (graph_.inputs().size() == kMaxInputs)
    return error_at(name, fmt::format("too many inputs; expected at most {}", kMaxInputs));
  take();
  STEPFUSE_TRY(expect(':'));
  return name.kind == TokenKind::Tensor ? parse_tensor_input(name) : parse_scalar_input(name);
}

Outcome Parser::add_input(const Token& name, Input input) {
  input.name = std::string(name.text);
  return declare(name, graph_.add_input(std::move(input)), false);
}

Outcome Parser::parse_tensor_input(const Token& name) {
  Input input{};
  STEPFUSE_ASSIGN(input.type, parse_tensor_type());
  if (peek().is_word("param")) {
    input.kind = InputKind::Param;
  } else if (peek().is_word("grad")) {
    input.kind = InputKind::Grad;
  } else if (peek().is_word("state")) {
    input.kind = InputKind::State;
  } else {
    return unexpected("'param', 'grad' or 'state \"key\"'");
  }
  take();
  if (input.kind == InputKind::State) {
    STEPFUSE_ASSIGN(input.key, parse_string());
  }
  return add_input(name, std::move(input));
}

Outcome Parser::parse_scalar_input(const Token& name) {
  Input input{};
  input.kind = InputKind::Hyper;
  if (peek().is_word("step")) {
    input.kind = InputKind::Step;
    input.type = scalar_type(Rate::Parameter);
  } else if (peek().is_word("every_step")) {
    input.type = scalar_type(Rate::Step);
  } else if (peek().is_word("group")) {
    input.type = scalar_type(Rate::Group);
  } else if (peek().is_word("per_parameter")) {
    input.type = scalar_type(Rate::Parameter);
  } else {
    return unexpected("'step' (the step count), or how often it changes: 'every_step', 'group' or 'per_parameter'");
  }
  take();
  if (input.kind == InputKind::Hyper) STEPFUSE_TRY(parse_hyper(input));
  return add_input(name, std::move(input));
}

Outcome Parser::parse_hyper(Input& input) {
  const Token* value = nullptr;
  if (take_if('=')) {
    value = &peek();
    STEPFUSE_ASSIGN(input.default_value, parse_signed_number());
  }
  if (peek().is_word("in")) {
    take();
    STEPFUSE_ASSIGN(input.range, parse_interval());
  }
  if (value == nullptr || input.range.contains(*input.default_value)) return {};
  return error_at(*value, fmt::format("default {} is out of range; expected a value in {}", *input.default_value,
                                      interval_text(input.range)));
}

Result<Interval> Parser::parse_interval() {
  const Token& at = peek();
  Interval range;
  range.lo_open = at.is('(');
  if (!at.is('(') && !at.is('[')) return unexpected("an interval such as '[0, 1)'");
  take();
  STEPFUSE_ASSIGN(range.lo, parse_signed_number());
  STEPFUSE_TRY(expect(','));
  STEPFUSE_ASSIGN(range.hi, parse_signed_number());
  range.hi_open = peek().is(')');
  if (!peek().is(')') && !peek().is(']')) return unexpected("')' or ']'");
  take();
  if (!(range.lo <= range.hi)) return error_at(at, "an empty interval; expected its lower end first, and no nan");
  return range;
}

Result<Type> Parser::parse_tensor_type() {
  const std::optional<DType> dtype = parse_dtype(peek().text);
  if (peek().kind != TokenKind::Identifier || !dtype)
    return unexpected("an element type: f64, f32, f16, bf16 or bool, then a shape such as [N]");
  take();
  STEPFUSE_ASSIGN(const Shape shape, parse_shape());
  return tensor_type(*dtype, shape);
}

Result<Shape> Parser::parse_shape() {
  Shape shape;
  STEPFUSE_TRY(expect('['));
  if (take_if(']')) return shape;
  do {
    if (shape.rank == kMaxRank)
      return error_at(peek(), fmt::format("too many dimensions; expected at most {}", kMaxRank));
    STEPFUSE_ASSIGN(shape.dims[shape.rank], parse_extent());
    ++shape.rank;
  } while (take_if(','));
  STEPFUSE_TRY(expect(']'));
  return shape;
}

Result<Extent> Parser::parse_extent() {
  if (peek().kind == TokenKind::Identifier) return Extent::symbol(graph_.add_symbol(std::string(take().text)));
  if (peek().kind != TokenKind::Number) return unexpected("an extent: a number of elements or a symbol such as N");
  STEPFUSE_ASSIGN(const int64_t elements, integer_value(peek()));
  take();
  return Extent::of(elements);
}

Result<std::string> Parser::parse_string() {
  if (peek().kind != TokenKind::String) return unexpected("the state's key in quotes, such as \"exp_avg\"");
  const Token& token = take();
  if (auto text = unescape(token.text)) return std::move(*text);
  return error_at(token, fmt::format("bad escape in {}; expected \\\", \\\\ or \\x with two lower-case hex digits",
                                     describe(token)));
}

}  // namespace stepfuse::ir
