// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/condition.h"

#include "ir/support/nearest.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace stepfuse::runtime {

namespace {

using Node = Condition::Node;
using Kind = Condition::Kind;
using Quantity = Condition::Quantity;
using Relation = Condition::Relation;

constexpr std::array<std::string_view, 6> kQuantities{"ndim", "numel", "rows", "cols", "dtype", "name"};
constexpr std::array<std::string_view, 4> kElementTypes{"f32", "bf16", "f16", "f64"};
constexpr std::array<std::pair<std::string_view, Relation>, 6> kRelations{{{"==", Relation::Equal},
                                                                           {"!=", Relation::NotEqual},
                                                                           {"<=", Relation::LessEqual},
                                                                           {">=", Relation::GreaterEqual},
                                                                           {"<", Relation::Less},
                                                                           {">", Relation::Greater}}};
constexpr size_t kMostNodes = 2000;  // of a condition; evaluation goes as deep as the longest chain
constexpr int kDeepest = 64;         // parentheses and nots within each other

struct Token {
  enum class Kind : uint8_t { Word, Number, String, Sign, End } kind = Kind::End;
  std::string_view text;
  size_t column = 1;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_numeric(Quantity quantity) { return quantity != Quantity::Dtype && quantity != Quantity::Name; }

/// Recursive descent; the nodes are in order of completion.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<uint32_t> parse() {
    STEPFUSE_TRY(advance());
    STEPFUSE_ASSIGN(const uint32_t root, disjunction(0));
    if (token_.kind != Token::Kind::End) return unexpected("'and', 'or' or the end");
    return root;
  }
  std::vector<Node> take() { return std::move(nodes_); }

 private:
  tl::unexpected<Status> unexpected(std::string_view wanted) const {
    const std::string found = token_.kind == Token::Kind::End ? "the end" : fmt::format("'{}'", token_.text);
    return with_hint(
        fail(StatusCode::InvalidArgument, "column {} of \"{}\": expected {}, got {}", token_.column, text_, wanted,
             found),
        "a condition compares ndim, numel, rows, cols, dtype or name, such as ndim == 2 and not (rows > 50000)");
  }

  Outcome advance() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    token_ = {Token::Kind::End, {}, at_ + 1};
    if (at_ == text_.size()) return {};
    const char c = text_[at_];
    if (c == '\'' || c == '"') {
      const size_t end = text_.find(c, at_ + 1);
      if (end == std::string_view::npos)
        return with_hint(
            fail(StatusCode::InvalidArgument, "column {} of \"{}\": the quote is not closed", at_ + 1, text_),
            "put both quotes around the text, such as name == 'wte.weight'");
      token_ = {Token::Kind::String, text_.substr(at_ + 1, end - at_ - 1), at_ + 1};
      at_ = end + 1;
      return {};
    }
    size_t length = 1;
    if (is_word(c)) {
      while (at_ + length < text_.size() && is_word(text_[at_ + length])) ++length;
      token_.kind = std::isdigit(static_cast<unsigned char>(c)) != 0 ? Token::Kind::Number : Token::Kind::Word;
    } else {
      if (at_ + 1 < text_.size() && text_[at_ + 1] == '=') length = 2;
      token_.kind = Token::Kind::Sign;
    }
    token_.text = text_.substr(at_, length);
    at_ += length;
    return {};
  }

  bool is(Token::Kind kind, std::string_view text) const { return token_.kind == kind && token_.text == text; }

  uint32_t add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  Result<uint32_t> disjunction(int depth) { return chain("or", Kind::Or, depth); }

  /// Terms joined by one word; "and" binds tighter than "or".
  Result<uint32_t> chain(std::string_view word, Kind kind, int depth) {
    const auto term = [&] { return kind == Kind::Or ? chain("and", Kind::And, depth) : negation(depth); };
    STEPFUSE_ASSIGN(uint32_t left, term());
    while (is(Token::Kind::Word, word)) {
      STEPFUSE_TRY(advance());
      STEPFUSE_ASSIGN(const uint32_t right, term());
      left = add({.kind = kind, .left = left, .right = right, .glob = {}});
      // A chain is as deep as it is long.
      if (nodes_.size() > kMostNodes)
        return with_hint(fail(StatusCode::InvalidArgument, "the condition has more than {} terms", kMostNodes / 2),
                         "give names as a list of patterns in match");
    }
    return left;
  }

  Result<uint32_t> negation(int depth) {
    if (depth > kDeepest)
      return with_hint(fail(StatusCode::InvalidArgument, "\"{}\" is nested too deeply", text_.substr(0, kDeepest)),
                       fmt::format("at most {} parentheses and nots may stand in each other", kDeepest));
    if (is(Token::Kind::Word, "not")) {
      STEPFUSE_TRY(advance());
      STEPFUSE_ASSIGN(const uint32_t operand, negation(depth + 1));
      return add({.kind = Kind::Not, .left = operand, .glob = {}});
    }
    if (!is(Token::Kind::Sign, "(")) return comparison();
    STEPFUSE_TRY(advance());
    STEPFUSE_ASSIGN(const uint32_t inner, disjunction(depth + 1));
    if (!is(Token::Kind::Sign, ")")) return unexpected("')'");
    STEPFUSE_TRY(advance());
    return inner;
  }

  Result<Quantity> quantity() {
    const auto it = std::find(kQuantities.begin(), kQuantities.end(), token_.text);
    if (token_.kind == Token::Kind::Word && it != kQuantities.end())
      return static_cast<Quantity>(it - kQuantities.begin());
    tl::unexpected<Status> error = unexpected("ndim, numel, rows, cols, dtype or name");
    if (token_.kind == Token::Kind::Word) error.value().hint = suggestion(token_.text, kQuantities, error.value().hint);
    return error;
  }

  Result<uint32_t> comparison() {
    Node node{.kind = Kind::Number, .glob = {}};
    STEPFUSE_ASSIGN(node.quantity, quantity());
    STEPFUSE_TRY(advance());
    const auto* relation = std::find_if(kRelations.begin(), kRelations.end(),
                                        [&](const auto& known) { return is(Token::Kind::Sign, known.first); });
    if (relation == kRelations.end()) return unexpected("== != < <= > or >=");
    node.relation = relation->second;
    const bool equality = node.relation == Relation::Equal || node.relation == Relation::NotEqual;
    if (!is_numeric(node.quantity) && !equality) return unexpected("== or !=");
    STEPFUSE_TRY(advance());
    STEPFUSE_TRY(right_side(node));
    STEPFUSE_TRY(advance());
    return add(std::move(node));
  }

  Outcome right_side(Node& node) {
    if (node.quantity == Quantity::Name) return name_pattern(node);
    if (node.quantity == Quantity::Dtype) return element_type(node);
    if (token_.kind == Token::Kind::Word) {
      node.kind = Kind::Quantities;
      STEPFUSE_ASSIGN(node.other, quantity());
      if (!is_numeric(node.other)) return unexpected("a number");
      return {};
    }
    const auto [end, error] = std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), node.number);
    if (token_.kind != Token::Kind::Number || error != std::errc{} || end != token_.text.data() + token_.text.size())
      return unexpected("a whole number");
    return {};
  }

  Outcome name_pattern(Node& node) {
    if (token_.kind != Token::Kind::String) return unexpected("a pattern in quotes");
    node.kind = Kind::Name;
    STEPFUSE_ASSIGN(node.glob, Glob::compile(std::string(token_.text)));
    return {};
  }

  Outcome element_type(Node& node) {
    node.kind = Kind::Dtype;
    const auto dtype = ir::parse_dtype(token_.text);
    const bool known = std::find(kElementTypes.begin(), kElementTypes.end(), token_.text) != kElementTypes.end();
    if (!known || !dtype || token_.kind == Token::Kind::Sign) return unexpected("f32, bf16, f16 or f64");
    node.dtype = *dtype;
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  Token token_;
  std::vector<Node> nodes_;
};

bool compare(int64_t left, Relation relation, int64_t right) {
  switch (relation) {
    case Relation::Equal:
      return left == right;
    case Relation::NotEqual:
      return left != right;
    case Relation::Less:
      return left < right;
    case Relation::LessEqual:
      return left <= right;
    case Relation::Greater:
      return left > right;
    case Relation::GreaterEqual:
      return left >= right;
  }
  throw_internal(__FILE__, __LINE__, "unknown relation");
}

/// ndim, numel, rows, cols. A shape with no extents is one row of one column.
std::array<int64_t, 4> numbers_of(const std::vector<int64_t>& shape) {
  int64_t cols = 1;
  for (size_t i = 1; i < shape.size(); ++i)
    if (__builtin_mul_overflow(cols, shape[i], &cols)) cols = INT64_MAX;
  const int64_t rows = shape.empty() ? 1 : shape.front();
  int64_t numel = 0;
  if (__builtin_mul_overflow(rows, cols, &numel)) numel = INT64_MAX;
  return {static_cast<int64_t>(shape.size()), numel, rows, cols};
}

}  // namespace

Result<Condition> Condition::parse(std::string_view text) {
  Parser parser(text);
  Condition condition;
  STEPFUSE_ASSIGN(condition.root_, parser.parse());
  condition.nodes_ = parser.take();
  condition.text_ = text;
  return condition;
}

bool Condition::holds(const RoutedParameter& parameter) const {
  return holds(root_, parameter, numbers_of(parameter.shape));
}

bool Condition::holds(uint32_t index, const RoutedParameter& parameter, const std::array<int64_t, 4>& numbers) const {
  const Node& node = nodes_[index];
  const bool equal = node.relation == Relation::Equal;
  switch (node.kind) {
    case Kind::And:
      return holds(node.left, parameter, numbers) && holds(node.right, parameter, numbers);
    case Kind::Or:
      return holds(node.left, parameter, numbers) || holds(node.right, parameter, numbers);
    case Kind::Not:
      return !holds(node.left, parameter, numbers);
    case Kind::Number:
      return compare(numbers[static_cast<size_t>(node.quantity)], node.relation, node.number);
    case Kind::Quantities:
      return compare(numbers[static_cast<size_t>(node.quantity)], node.relation,
                     numbers[static_cast<size_t>(node.other)]);
    case Kind::Dtype:
      return (parameter.dtype == node.dtype) == equal;
    case Kind::Name:
      return node.glob.matches(parameter.name) == equal;
  }
  throw_internal(__FILE__, __LINE__, "unknown kind of condition");
}

}  // namespace stepfuse::runtime
