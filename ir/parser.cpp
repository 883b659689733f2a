// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/parser.h"

#include "ir/namer.h"
#include "ir/support/nearest.h"

#include <algorithm>
#include <charconv>

namespace stepfuse::ir {

namespace {

constexpr size_t kMaxValues = 100'000;

std::vector<std::string> sorted_keys(const std::unordered_map<std::string, ValueId>& names) {
  std::vector<std::string> keys;
  for (const auto& [name, id] : names) keys.push_back(name);
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<std::string_view> operation_names() {
  std::vector<std::string_view> names;
  for (const OpInfo& info : all_ops())
    if (info.family != OpFamily::Source) names.push_back(info.mnemonic);
  return names;
}

}  // namespace

Result<Graph> Parser::run() {
  STEPFUSE_TRY(parse_header());
  STEPFUSE_TRY(parse_body());
  if (peek().kind != TokenKind::End) return unexpected("the end of the text after the recipe's '}'");
  return std::move(graph_);
}

bool Parser::take_if(char symbol) {
  if (!peek().is(symbol)) return false;
  take();
  return true;
}

tl::unexpected<Status> Parser::unexpected(std::string_view expected) const {
  return error_at(peek(), fmt::format("unexpected {}; expected {}", describe(peek()), expected));
}

tl::unexpected<Status> Parser::error_at(const Token& token, const std::string& message) const {
  return source_.error(token.offset, message);
}

Outcome Parser::expect(char symbol) {
  if (take_if(symbol)) return {};
  return unexpected(fmt::format("'{}'", symbol));
}

Outcome Parser::expect_word(std::string_view word) {
  if (!peek().is_word(word)) return unexpected(fmt::format("'{}'", word));
  take();
  return {};
}

/// Binds a name. `rename`: the value takes it as its own, unless it has one already (equal ops are merged).
Outcome Parser::declare(const Token& name, ValueId id, bool rename) {
  const std::string key(name.text);
  // One name space, because names become identifiers of generated code.
  const bool tensor = tensors_.count(key) != 0;
  if (tensor || scalars_.count(key) != 0)
    return error_at(name, fmt::format("{}: the name is taken by '{}{}'; expected a new name", describe(name),
                                      tensor ? '%' : '#', key));
  (name.kind == TokenKind::Tensor ? tensors_ : scalars_).emplace(key, id);
  if (rename && graph_.value_name(id).empty() && !graph_.is_const(id)) graph_.set_name(id, key);
  return {};
}

Result<ValueId> Parser::lookup(const Token& name) {
  const auto& names = name.kind == TokenKind::Tensor ? tensors_ : scalars_;
  if (const auto it = names.find(std::string(name.text)); it != names.end()) return it->second;
  return with_hint(error_at(name, fmt::format("unknown value {}; expected one defined above", describe(name))),
                   did_you_mean(name.text, sorted_keys(names)));
}

Outcome Parser::parse_body() {
  for (;;) {
    if (graph_.size() > kMaxValues)
      return error_at(peek(), fmt::format("too many operations; expected at most {} values", kMaxValues));
    if (peek().kind == TokenKind::Tensor) {
      STEPFUSE_TRY(parse_tensor_statement());
    } else if (peek().kind == TokenKind::Scalar) {
      STEPFUSE_TRY(parse_scalar_statement());
    } else if (peek().is_word("return")) {
      take();
      return parse_return();
    } else {
      return unexpected("'%name = ...', '#name = ...' or 'return'");
    }
  }
}

Outcome Parser::parse_scalar_statement() {
  const Token& name = take();
  STEPFUSE_TRY(expect('='));
  STEPFUSE_ASSIGN(const ValueId id, parse_expression());
  return declare(name, id, true);
}

Outcome Parser::parse_tensor_statement() {
  const Token& name = take();
  STEPFUSE_TRY(expect('='));
  const Token& at = peek();
  STEPFUSE_ASSIGN(const Op op, parse_tensor_op());
  STEPFUSE_ASSIGN(const Operands operands, parse_operands());
  STEPFUSE_ASSIGN(const Attr attr, parse_attr(at, op));
  STEPFUSE_ASSIGN(const std::optional<DType> dtype, parse_result_dtype());
  STEPFUSE_ASSIGN(const ValueId id, add_op(at, op, operands, attr, dtype));
  STEPFUSE_TRY(check_tensor_result(at, id, dtype));
  STEPFUSE_TRY(parse_placement(id));
  return declare(name, id, true);
}

Result<Op> Parser::parse_tensor_op() {
  if (peek().kind != TokenKind::Identifier) return unexpected("an operation such as 'add'");
  const Token& name = take();
  const std::optional<Op> op = parse_op(name.text);
  if (op && family(*op) != OpFamily::Source) return *op;
  return with_hint(error_at(name, fmt::format("unknown operation {}; expected one of the ops table", describe(name))),
                   did_you_mean(name.text, operation_names()));
}

Result<Parser::Operands> Parser::parse_operands() {
  Operands operands;
  do {
    STEPFUSE_ASSIGN(const ValueId operand, parse_operand());
    operands.push_back(operand);
    if (operands.size() > kMaxOperands)
      return error_at(peek(), fmt::format("too many operands; expected at most {}", kMaxOperands));
  } while (take_if(','));
  return operands;
}

Result<ValueId> Parser::parse_operand() {
  const Token& token = peek();
  if (token.kind == TokenKind::Tensor || token.kind == TokenKind::Scalar) return lookup(take());
  if (at_number()) {
    STEPFUSE_ASSIGN(const double value, parse_signed_number());
    return graph_.add_const(value);
  }
  if (!take_if('(')) return unexpected("a value (%name, #name), a number or '(' scalar expression ')'");
  STEPFUSE_ASSIGN(const ValueId id, parse_expression());
  STEPFUSE_TRY(expect(')'));
  return id;
}

Result<std::optional<DType>> Parser::parse_result_dtype() {
  if (!take_if(':')) return std::nullopt;
  const std::optional<DType> dtype = parse_dtype(peek().text);
  if (peek().kind != TokenKind::Identifier || !dtype) return unexpected("an element type: f64, f32, f16, bf16 or bool");
  take();
  return dtype;
}

Outcome Parser::parse_placement(ValueId id) {
  if (peek().kind != TokenKind::Placement) return {};
  const Token& token = take();
  Placement placement;
  const char* const end = token.text.data() + token.text.size();
  const auto cluster = std::from_chars(token.text.data(), end, placement.cluster);
  const bool dot = cluster.ec == std::errc() && cluster.ptr != end && *cluster.ptr == '.';
  const auto phase = std::from_chars(dot ? cluster.ptr + 1 : end, end, placement.phase);
  if (!dot || phase.ec != std::errc() || phase.ptr != end)
    return error_at(token, fmt::format("bad placement {}; expected '@cluster.phase' such as '@2.1'", describe(token)));
  graph_.set_placement(id, placement);
  return {};
}

Outcome Parser::parse_return() {
  if (take_if('}')) return {};
  do {
    if (peek().kind != TokenKind::Tensor) return unexpected("'%value -> %target'");
    STEPFUSE_ASSIGN(const ValueId value, lookup(take()));
    if (peek().kind != TokenKind::Arrow) return unexpected("'->' and the input that is replaced");
    take();
    if (peek().kind != TokenKind::Tensor) return unexpected("a param or state such as '%p'");
    STEPFUSE_ASSIGN(const ValueId target, lookup(take()));
    graph_.add_output(value, target);
  } while (take_if(','));
  return expect('}');
}

Result<ValueId> Parser::add_op(const Token& at, Op op, const Operands& operands, const Attr& attr,
                               std::optional<DType> dtype) {
  const auto type = infer_type(graph_, op, operands, attr, dtype);
  if (!type) return with_hint(error_at(at, type.error().message), type.error().hint);
  Node node;
  node.op = op;
  node.num_operands = static_cast<uint8_t>(operands.size());
  std::copy(operands.begin(), operands.end(), node.operands.begin());
  node.type = *type;
  node.attr = attr;
  return graph_.add_node(node);
}

Outcome Parser::check_tensor_result(const Token& at, ValueId id, std::optional<DType> dtype) const {
  const Type& type = graph_.node(id).type;
  if (type.scalar)
    return error_at(at,
                    fmt::format("{} of scalars gives a scalar; expected a tensor operand, or '#name = ...'", at.text));
  if (!dtype || *dtype == type.dtype) return {};
  return error_at(at, fmt::format("{} gives {} here, not {}; expected ': {}'", at.text, dtype_name(type.dtype),
                                  dtype_name(*dtype), dtype_name(type.dtype)));
}

}  // namespace stepfuse::ir
