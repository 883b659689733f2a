// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/print.h"

#include "ir/namer.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepfuse::ir {

namespace {

constexpr size_t kMaxColumns = 120;
// Deeper expressions continue on a line of their own, which also bounds the recursion of printer and parser.
constexpr int kMaxInlineDepth = 16;

// Binding strength of an expression, weakest first.
enum Strength { kAdditive = 1, kMultiplicative, kUnary, kPrimary };

struct Infix {
  char symbol = 0;
  int strength = kPrimary;
};

std::optional<Infix> infix_of(Op op) {
  if (op == Op::Add) return Infix{'+', kAdditive};
  if (op == Op::Sub) return Infix{'-', kAdditive};
  if (op == Op::Mul) return Infix{'*', kMultiplicative};
  if (op == Op::Div) return Infix{'/', kMultiplicative};
  return std::nullopt;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string_view rate_text(Rate rate) {
  return rate == Rate::Step ? "every_step" : rate == Rate::Group ? "group" : "per_parameter";
}

std::string attr_text(const Node& node) {
  if (const auto* reduce = std::get_if<ReduceAttr>(&node.attr)) return fmt::format(" {{{}}}", axis_name(reduce->axis));
  if (const auto* slice = std::get_if<SliceAttr>(&node.attr))
    return fmt::format(" {{dim={}, begin={}, end={}}}", slice->dim, slice->begin, slice->end);
  if (const auto* concat = std::get_if<ConcatAttr>(&node.attr)) return fmt::format(" {{dim={}}}", concat->dim);
  const auto* matmul = std::get_if<MatmulAttr>(&node.attr);
  if (matmul == nullptr) return {};
  std::vector<std::string_view> flags;
  if (matmul->trans_a) flags.push_back("ta");
  if (matmul->trans_b) flags.push_back("tb");
  if (matmul->symmetric) flags.push_back("sym");
  return flags.empty() ? std::string() : fmt::format(" {{{}}}", fmt::join(flags, ", "));
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph), namer_(graph) { choose_inline(); }

  std::string run() {
    out_ = fmt::format("// {}\n", kTextVersion);
    print_header();
    for (uint32_t i = 0; i < graph_.size(); ++i) print_line(ValueId{i});
    print_return();
    return out_ + "}\n";
  }

 private:
  /// Constants, and scalar values with one use, stand where they are used.
  void choose_inline() {
    const std::vector<uint32_t> uses = count_uses(graph_);
    inline_.assign(graph_.size(), false);
    std::vector<int> depth(graph_.size(), 0);
    for (uint32_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(ValueId{i});
      if (!node.type.scalar || node.op == Op::Input) continue;
      int operands_depth = 0;
      for (ValueId operand : node.args()) operands_depth = std::max(operands_depth, depth[operand.v]);
      const bool shallow = operands_depth < kMaxInlineDepth;
      inline_[i] = node.op == Op::Const || (uses[i] == 1 && shallow);
      if (inline_[i] && node.op != Op::Const) depth[i] = operands_depth + 1;
    }
  }

  std::string reference(ValueId id) const { return (graph_.is_scalar(id) ? "#" : "%") + namer_.name(id); }

  std::string input_text(const Input& input) const {
    const std::string name = reference(input.value);
    if (input.kind == InputKind::Step) return name + ": step";
    if (input.kind == InputKind::Hyper) return name + hyper_text(input);
    const std::string type = type_text(graph_, input.type);
    if (input.kind == InputKind::Param) return fmt::format("{}: {} param", name, type);
    if (input.kind == InputKind::Grad) return fmt::format("{}: {} grad", name, type);
    return fmt::format("{}: {} state {}", name, type, quoted(input.key));
  }

  static std::string hyper_text(const Input& input) {
    std::string text = fmt::format(": {}", rate_text(input.type.rate));
    if (input.default_value) text += " = " + number_text(*input.default_value);
    if (!(input.range == Interval{})) text += " in " + interval_text(input.range);
    return text;
  }

  void print_header() {
    std::vector<std::string> inputs;
    for (const Input& input : graph_.inputs()) inputs.push_back(input_text(input));
    const std::string name = is_identifier(graph_.name) ? graph_.name : "recipe";
    const std::string line = fmt::format("recipe @{}({}) {{\n", name, fmt::join(inputs, ", "));
    out_ += line.size() <= kMaxColumns + 1
                ? line
                : fmt::format("recipe @{}(\n    {}) {{\n", name, fmt::join(inputs, ",\n    "));
  }

  void print_line(ValueId id) {
    const Node& node = graph_.node(id);
    if (node.op == Op::Input || inline_[id.v]) return;
    if (node.type.scalar) {
      out_ += fmt::format("  {} = {}\n", reference(id), spelled(id, kAdditive));
      return;
    }
    std::vector<std::string> operands;
    for (ValueId operand : node.args()) operands.push_back(operand_text(operand));
    out_ += fmt::format("  {} = {} {}{} : {}", reference(id), op_info(node.op).mnemonic, fmt::join(operands, ", "),
                        attr_text(node), dtype_name(node.type.dtype));
    const Placement placement = graph_.placement(id);
    if (!(placement == Placement{})) out_ += fmt::format(" @{}.{}", placement.cluster, placement.phase);
    out_ += '\n';
  }

  std::string operand_text(ValueId id) const {
    if (!inline_[id.v]) return reference(id);
    if (graph_.is_const(id)) return number_text(graph_.const_value(id));
    return "(" + spelled(id, kAdditive) + ")";
  }

  /// An operand inside an expression: its name, or itself.
  std::string expression(ValueId id, int context) const { return inline_[id.v] ? spelled(id, context) : reference(id); }

  /// The node as an expression, in parentheses where it binds weaker than its context.
  std::string spelled(ValueId id, int context) const {
    const Node& node = graph_.node(id);
    if (node.op == Op::Const) return number_text(graph_.const_value(id));
    if (const auto infix = infix_of(node.op)) {
      const std::string left = expression(node.operands[0], infix->strength);
      const std::string right = expression(node.operands[1], infix->strength + 1);
      const std::string text = fmt::format("{} {} {}", left, infix->symbol, right);
      return infix->strength < context ? "(" + text + ")" : text;
    }
    // A minus in front of a number is part of the number.
    if (node.op == Op::Neg && !graph_.is_const(node.operands[0])) {
      const std::string text = "-" + expression(node.operands[0], kPrimary);
      return kUnary < context ? "(" + text + ")" : text;
    }
    return call_text(node);
  }

  std::string call_text(const Node& node) const {
    std::vector<std::string> operands;
    for (ValueId operand : node.args()) operands.push_back(expression(operand, kAdditive));
    return fmt::format("{}({})", op_info(node.op).mnemonic, fmt::join(operands, ", "));
  }

  void print_return() {
    std::vector<std::string> outputs;
    for (const Output& output : graph_.outputs())
      outputs.push_back(fmt::format("{} -> {}", reference(output.value), reference(output.target)));
    out_ += fmt::format("  return{}{}\n", outputs.empty() ? "" : " ", fmt::join(outputs, ", "));
  }

  const Graph& graph_;
  NodeNamer namer_;
  std::vector<bool> inline_;
  std::string out_;
};

std::string extent_text(const Graph& graph, Extent extent) {
  return extent.is_symbol() ? graph.symbols()[extent.symbol_index()] : std::to_string(extent.value());
}

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).run(); }

std::string type_text(const Graph& graph, const Type& type) {
  if (type.scalar) return "scalar";
  std::vector<std::string> dims;
  for (size_t i = 0; i < type.shape.rank; ++i) dims.push_back(extent_text(graph, type.shape.dims[i]));
  return fmt::format("{}[{}]", dtype_name(type.dtype), fmt::join(dims, ", "));
}

std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

}  // namespace stepfuse::ir
