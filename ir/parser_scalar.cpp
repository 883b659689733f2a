// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/parser.h"
#include "ir/support/nearest.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace stepfuse::ir {

namespace {

constexpr int kMaxDepth = 200;

std::vector<std::string_view> function_names() {
  std::vector<std::string_view> names;
  for (const OpInfo& info : all_ops())
    if (info.family == OpFamily::Elementwise || info.family == OpFamily::ScalarOnly) names.push_back(info.mnemonic);
  return names;
}

}  // namespace

Result<double> Parser::number_value(const Token& token) const {
  if (token.is_word("inf")) return std::numeric_limits<double>::infinity();
  if (token.is_word("nan")) return std::numeric_limits<double>::quiet_NaN();
  const bool hex = token.text.starts_with("0x");
  const char* const begin = token.text.data() + (hex ? 2 : 0);
  const char* const end = token.text.data() + token.text.size();
  double value = 0;
  const auto parsed = std::from_chars(begin, end, value, hex ? std::chars_format::hex : std::chars_format::general);
  if (parsed.ec == std::errc::result_out_of_range)
    return error_at(token,
                    fmt::format("{} is out of the range of f64; expected a representable number", describe(token)));
  if (token.kind != TokenKind::Number || parsed.ec != std::errc() || parsed.ptr != end)
    return error_at(token, fmt::format("bad number {}; expected one such as 0.5, 1e-8 or 0x1.8p-3", describe(token)));
  return value;
}

Result<int64_t> Parser::integer_value(const Token& token) const {
  const char* const end = token.text.data() + token.text.size();
  int64_t value = 0;
  const auto parsed = std::from_chars(token.text.data(), end, value);
  if (token.kind == TokenKind::Number && parsed.ec == std::errc() && parsed.ptr == end) return value;
  return error_at(token, fmt::format("unexpected {}; expected a whole number that fits 63 bits", describe(token)));
}

/// A number, or a minus directly in front of one.
bool Parser::at_number() const {
  const Token& token = tokens_[at_ + (peek().is('-') ? 1 : 0)];
  return token.kind == TokenKind::Number || token.is_word("inf") || token.is_word("nan");
}

Result<double> Parser::parse_signed_number() {
  const bool negative = take_if('-');
  STEPFUSE_ASSIGN(const double value, number_value(peek()));
  take();
  return negative && !std::isnan(value) ? -value : value;
}

Result<ValueId> Parser::infix(const Token& at, Op op, ValueId left, ValueId right) {
  return add_op(at, op, {left, right}, {}, std::nullopt);
}

Result<ValueId> Parser::parse_expression() {
  // Every way to nest goes through here or parse_unary.
  if (depth_ >= kMaxDepth)
    return error_at(peek(), fmt::format("expression nested too deeply; expected at most {} levels", kMaxDepth));
  ++depth_;
  STEPFUSE_ASSIGN(ValueId left, parse_product());
  while (peek().is('+') || peek().is('-')) {
    const Token& symbol = take();
    STEPFUSE_ASSIGN(const ValueId right, parse_product());
    STEPFUSE_ASSIGN(left, infix(symbol, symbol.is('+') ? Op::Add : Op::Sub, left, right));
  }
  --depth_;
  return left;
}

Result<ValueId> Parser::parse_product() {
  STEPFUSE_ASSIGN(ValueId left, parse_unary());
  while (peek().is('*') || peek().is('/')) {
    const Token& symbol = take();
    STEPFUSE_ASSIGN(const ValueId right, parse_unary());
    STEPFUSE_ASSIGN(left, infix(symbol, symbol.is('*') ? Op::Mul : Op::Div, left, right));
  }
  return left;
}

Result<ValueId> Parser::parse_unary() {
  if (at_number()) {
    STEPFUSE_ASSIGN(const double value, parse_signed_number());
    return graph_.add_const(value);
  }
  if (!peek().is('-')) return parse_primary();
  if (depth_ >= kMaxDepth)
    return error_at(peek(), fmt::format("expression nested too deeply; expected at most {} levels", kMaxDepth));
  ++depth_;
  const Token& symbol = take();
  STEPFUSE_ASSIGN(const ValueId operand, parse_unary());
  --depth_;
  return add_op(symbol, Op::Neg, {operand}, {}, std::nullopt);
}

Result<ValueId> Parser::parse_primary() {
  const Token& token = peek();
  if (token.kind == TokenKind::Scalar) return lookup(take());
  if (token.kind == TokenKind::Identifier) return parse_call();
  if (token.kind == TokenKind::Tensor)
    return error_at(token, fmt::format("{} is a tensor; expected a scalar (#name or a number)", describe(token)));
  if (!take_if('(')) return unexpected("a scalar (#name), a number, a function or '('");
  STEPFUSE_ASSIGN(const ValueId id, parse_expression());
  STEPFUSE_TRY(expect(')'));
  return id;
}

Result<ValueId> Parser::parse_call() {
  const Token& name = take();
  const std::optional<Op> op = parse_op(name.text);
  if (!op || (family(*op) != OpFamily::Elementwise && family(*op) != OpFamily::ScalarOnly))
    return with_hint(
        error_at(name, fmt::format("unknown scalar function {}; expected one such as sqrt, min, powi", describe(name))),
        did_you_mean(name.text, function_names()));
  STEPFUSE_TRY(expect('('));
  Operands operands;
  do {
    if (operands.size() == kMaxOperands)
      return error_at(peek(), fmt::format("too many operands; expected at most {}", kMaxOperands));
    const bool tensor = *op == Op::Fresh && peek().kind == TokenKind::Tensor;
    STEPFUSE_ASSIGN(const ValueId operand, tensor ? lookup(take()) : parse_expression());
    operands.push_back(operand);
  } while (take_if(','));
  STEPFUSE_TRY(expect(')'));
  return add_op(name, *op, operands, {}, std::nullopt);
}

}  // namespace stepfuse::ir
