// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include "ir/namer.h"
#include "ir/print.h"

#include <algorithm>
#include <set>

namespace stepfuse::ir {

namespace {

// Element counts and byte offsets stay far from overflow.
constexpr int64_t kMaxElements = int64_t{1} << 44;

bool is_floating(const Type& type) { return !type.scalar && type.dtype != DType::Bool; }

bool has_right_attr(const Node& node) {
  if (node.op == Op::Input) return std::holds_alternative<InputAttr>(node.attr);
  if (node.op == Op::Const) return std::holds_alternative<ConstAttr>(node.attr);
  if (node.op == Op::Slice) return std::holds_alternative<SliceAttr>(node.attr);
  if (node.op == Op::Concat) return std::holds_alternative<ConcatAttr>(node.attr);
  if (node.op == Op::Matmul) return std::holds_alternative<MatmulAttr>(node.attr);
  if (is_reduce(node.op)) return std::holds_alternative<ReduceAttr>(node.attr);
  return std::holds_alternative<std::monostate>(node.attr);
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), namer_(graph) {}

  std::vector<std::string> run() {
    if (!is_identifier(graph_.name)) problem("the recipe's name '{}' is not an identifier", graph_.name);
    for (const std::string& symbol : graph_.symbols())
      if (!is_identifier(symbol)) problem("the symbol '{}' is not an identifier", symbol);
    for (const Input& input : graph_.inputs()) check_input(input);
    check_input_set();
    for (uint32_t i = 0; i < graph_.size(); ++i) check_node(ValueId{i});
    for (const Output& output : graph_.outputs()) check_output(output);
    check_effect();
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  std::string label(ValueId id) const {
    if (id.v >= graph_.size()) return fmt::format("value {}", id.v);
    return (graph_.is_scalar(id) ? "#" : "%") + namer_.name(id);
  }

  void check_input(const Input& input) {
    if (!is_identifier(input.name)) problem("the input name '{}' is not an identifier", input.name);
    const std::string name = label(input.value);
    const bool scalar = input.kind == InputKind::Step || input.kind == InputKind::Hyper;
    if (input.type != graph_.node(input.value).type) problem("{}: the input and its value differ in type", name);
    if (scalar != input.type.scalar) {
      problem("{}: {} must be a {}", name, scalar ? "a step or hyperparameter" : "a param, grad or state",
              scalar ? "scalar" : "tensor");
    } else if (scalar) {
      check_scalar_input(input, name);
    } else if (!is_floating(input.type)) {
      problem("{}: a param, grad or state cannot be bool", name);
    }
    if (input.kind == InputKind::State && input.key.empty()) problem("{}: a state needs a key", name);
  }

  void check_scalar_input(const Input& input, const std::string& name) {
    if (input.kind == InputKind::Step && input.type.rate != Rate::Parameter)
      problem("{}: the step count changes per parameter", name);
    if (input.type.rate == Rate::None) problem("{}: an input needs a rate", name);
    if (!(input.range.lo <= input.range.hi)) problem("{}: the range {} is empty", name, interval_text(input.range));
    if (input.default_value && !input.range.contains(*input.default_value))
      problem("{}: the default {} is not in {}", name, *input.default_value, interval_text(input.range));
  }

  void check_input_set() {
    std::set<std::string> names, keys;
    std::array<int, 5> count{};
    for (const Input& input : graph_.inputs()) {
      ++count[static_cast<size_t>(input.kind)];
      if (!names.insert(input.name).second) problem("two inputs are named '{}'", input.name);
      if (input.kind == InputKind::State && !keys.insert(input.key).second)
        problem("two states have the key \"{}\"", input.key);
    }
    const int params = count[static_cast<size_t>(InputKind::Param)];
    if (params != 1) problem("a recipe has exactly one param, this one has {}", params);
    if (count[static_cast<size_t>(InputKind::Step)] > 1) problem("a recipe has at most one step input");
  }

  void check_node(ValueId id) {
    const Node& node = graph_.node(id);
    const std::string name = label(id);
    check_extents(node.type, name);
    if (!has_right_attr(node)) {
      problem("{}: {} has the wrong kind of attribute", name, op_info(node.op).mnemonic);
    } else if (family(node.op) == OpFamily::Source) {
      check_source(id, name);
    } else if (operands_exist(id, name)) {
      check_type(node, name);
      check_placement(id, name);
    }
  }

  void check_extents(const Type& type, const std::string& name) {
    int64_t elements = 1;
    for (size_t i = 0; i < std::min<size_t>(type.shape.rank, kMaxRank); ++i) {
      const Extent extent = type.shape.dims[i];
      if (extent.is_symbol()) {
        if (extent.symbol_index() >= graph_.symbols().size()) problem("{}: an extent names no symbol", name);
      } else if (extent.value() > kMaxElements / std::max<int64_t>(elements, 1)) {
        problem("{}: more than 2^44 elements", name);
        return;
      } else {
        elements *= extent.value();
      }
    }
    if (type.shape.rank > kMaxRank)
      problem("{}: {} dimensions, at most {} are possible", name, type.shape.rank, kMaxRank);
  }

  void check_source(ValueId id, const std::string& name) {
    const Node& node = graph_.node(id);
    if (node.num_operands != 0) problem("{}: {} takes no operands", name, op_info(node.op).mnemonic);
    if (node.op == Op::Const && node.type != scalar_type(Rate::None))
      problem("{}: a constant is a scalar of no rate", name);
    if (node.op != Op::Input) return;
    const uint32_t index = std::get<InputAttr>(node.attr).index;
    if (index >= graph_.inputs().size() || graph_.inputs()[index].value != id)
      problem("{}: an input value that is not among the recipe's inputs", name);
  }

  bool operands_exist(ValueId id, const std::string& name) {
    const Node& node = graph_.node(id);
    if (node.num_operands > kMaxOperands) {
      problem("{}: {} operands, at most {} are possible", name, node.num_operands, kMaxOperands);
      return false;
    }
    bool exist = true;
    for (ValueId operand : node.args()) {
      if (operand.v < id.v) continue;
      problem("{}: the operand {} is not defined before it", name, label(operand));
      exist = false;
    }
    return exist;
  }

  void check_type(const Node& node, const std::string& name) {
    const auto dtype = node.type.scalar ? std::nullopt : std::optional(node.type.dtype);
    const auto inferred = infer_type(graph_, node.op, node.args(), node.attr, dtype);
    if (!inferred) {
      problem("{}: {}", name, inferred.error().message);
    } else if (*inferred != node.type) {
      problem("{}: declared {}, but {} gives {}", name, described(node.type), op_info(node.op).mnemonic,
              described(*inferred));
    }
  }

  std::string described(const Type& type) const {
    constexpr std::array<std::string_view, 4> kRates{"constant", "every_step", "group", "per_parameter"};
    if (type.scalar) return fmt::format("a scalar ({})", kRates[static_cast<size_t>(type.rate)]);
    return known_symbols(type) ? type_text(graph_, type) : "a shape without symbols";
  }

  bool known_symbols(const Type& type) const {
    return std::all_of(type.shape.dims.begin(), type.shape.dims.end(), [&](Extent extent) {
      return !extent.is_symbol() || extent.symbol_index() < graph_.symbols().size();
    });
  }

  void check_placement(ValueId id, const std::string& name) {
    const Placement own = graph_.placement(id);
    if (own.cluster < -1 || own.phase < 0 || (own.cluster == -1 && own.phase != 0))
      problem("{}: impossible placement {}.{}", name, own.cluster, own.phase);
    if (own.cluster < 0) return;
    for (ValueId operand : graph_.node(id).args()) {
      const Placement other = graph_.placement(operand);
      if (other.cluster == own.cluster && other.phase > own.phase)
        problem("{}: in phase {}, before its operand {} in phase {} of the same cluster", name, own.phase,
                label(operand), other.phase);
    }
  }

  void check_output(const Output& output) {
    if (output.value.v >= graph_.size() || output.target.v >= graph_.size()) {
      problem("an output names a value that does not exist");
      return;
    }
    const std::string target = label(output.target);
    const Node& node = graph_.node(output.target);
    if (node.op != Op::Input || !has_right_attr(node) || !is_writable(output.target)) {
      problem("{}: an output must replace a param or a state", target);
      return;
    }
    if (graph_.node(output.value).type != node.type)
      problem("{} -> {}: the new value is {}, the target {}", label(output.value), target,
              described(graph_.node(output.value).type), described(node.type));
    if (!replaced_.insert(output.target.v).second) problem("{}: replaced twice", target);
  }

  bool is_writable(ValueId target) const {
    const uint32_t index = std::get<InputAttr>(graph_.node(target).attr).index;
    if (index >= graph_.inputs().size()) return false;
    const InputKind kind = graph_.inputs()[index].kind;
    return kind == InputKind::Param || kind == InputKind::State;
  }

  void check_effect() {
    for (const Input& input : graph_.inputs())
      if (input.kind == InputKind::Param && replaced_.count(input.value.v) == 0)
        problem("{}: the param is not replaced; the recipe has no effect on it", label(input.value));
  }

  const Graph& graph_;
  NodeNamer namer_;
  std::vector<std::string> problems_;
  std::set<uint32_t> replaced_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph) { return Verifier(graph).run(); }

Outcome check(const Graph& graph) {
  const std::vector<std::string> problems = verify(graph);
  if (problems.empty()) return {};
  return fail(StatusCode::InvalidData, "recipe @{} is not sound: {}", graph.name, fmt::join(problems, "; "));
}

}  // namespace stepfuse::ir
