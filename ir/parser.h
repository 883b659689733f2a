// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"
#include "ir/lexer.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace stepfuse::ir {

/// Recursive descent over the tokens of one recipe. Use parse().
class Parser {
 public:
  Parser(const SourceText& source, const std::vector<Token>& tokens) : source_(source), tokens_(tokens) {}
  Result<Graph> run();

 private:
  using Operands = std::vector<ValueId>;

  // parser.cpp: tokens, statements, operations.
  const Token& peek() const { return tokens_[at_]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool take_if(char symbol);
  tl::unexpected<Status> unexpected(std::string_view expected) const;
  tl::unexpected<Status> error_at(const Token& token, const std::string& message) const;
  Outcome expect(char symbol);
  Outcome expect_word(std::string_view word);
  Outcome declare(const Token& name, ValueId id, bool rename);
  Result<ValueId> lookup(const Token& name);
  Outcome parse_body();
  Outcome parse_tensor_statement();
  Outcome parse_scalar_statement();
  Outcome parse_return();
  Result<Op> parse_tensor_op();
  Result<Operands> parse_operands();
  Result<ValueId> parse_operand();
  Result<std::optional<DType>> parse_result_dtype();
  Outcome parse_placement(ValueId id);
  Result<ValueId> add_op(const Token& at, Op op, const Operands& operands, const Attr& attr,
                         std::optional<DType> dtype);
  Outcome check_tensor_result(const Token& at, ValueId id, std::optional<DType> dtype) const;

  // parser_attr.cpp: what stands in braces.
  struct AttrItem {
    const Token* key;
    std::optional<int64_t> value;
  };
  Result<Attr> parse_attr(const Token& at, Op op);
  Result<std::vector<AttrItem>> parse_attr_items();
  Result<Attr> matmul_attr(const std::vector<AttrItem>& items) const;
  Result<Attr> reduce_attr(const Token& at, const std::vector<AttrItem>& items) const;
  Result<std::vector<int64_t>> keyed_integers(const Token& at, const std::vector<AttrItem>& items,
                                              std::span<const std::string_view> keys) const;
  Result<Attr> slice_attr(const Token& at, const std::vector<AttrItem>& items) const;
  Result<Attr> concat_attr(const Token& at, const std::vector<AttrItem>& items) const;

  // parser_scalar.cpp: numbers and scalar expressions.
  Result<double> number_value(const Token& token) const;
  Result<int64_t> integer_value(const Token& token) const;
  Result<double> parse_signed_number();
  bool at_number() const;
  Result<ValueId> parse_expression();
  Result<ValueId> parse_product();
  Result<ValueId> parse_unary();
  Result<ValueId> parse_primary();
  Result<ValueId> parse_call();
  Result<ValueId> infix(const Token& at, Op op, ValueId left, ValueId right);

  // parser_header.cpp: the recipe's inputs.
  Outcome parse_header();
  Outcome parse_input();
  Outcome parse_tensor_input(const Token& name);
  Outcome parse_scalar_input(const Token& name);
  Outcome parse_hyper(Input& input);
  Outcome add_input(const Token& name, Input input);
  Result<Type> parse_tensor_type();
  Result<Shape> parse_shape();
  Result<Extent> parse_extent();
  Result<Interval> parse_interval();
  Result<std::string> parse_string();

  const SourceText& source_;
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  Graph graph_;
  std::unordered_map<std::string, ValueId> tensors_, scalars_;
};

}  // namespace stepfuse::ir
