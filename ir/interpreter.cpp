// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpreter.h"

#include "ir/interp_bind.h"
#include "ir/interp_value.h"
#include "ir/verify.h"

#include <new>

namespace stepfuse::ir {

namespace {

double scalar_value(const Array& array) { return std::get<std::vector<double>>(array.data).front(); }

Array scalar_array(double value) { return Array{DType::F64, 0, {1, 1, 1}, std::vector<double>{value}}; }

/// Broadcasting can ask for more elements than an index holds.
bool is_countable(const Dims3& dims) {
  constexpr int64_t kMaxElements = int64_t{1} << 44;
  int64_t matrix = 0, all = 0;
  return !__builtin_mul_overflow(dims[1], dims[2], &matrix) && !__builtin_mul_overflow(matrix, dims[0], &all) &&
         all <= kMaxElements;
}

/// Walks the arena once. With `keep_all`, dead values are computed too and nothing is freed.
class Machine {
 public:
  Machine(const Graph& graph, const Bindings& bindings, Evaluation evaluation, BoundInputs inputs, bool keep_all)
      : graph_(graph),
        bindings_(bindings),
        evaluation_(evaluation),
        inputs_(std::move(inputs)),
        keep_all_(keep_all),
        values_(graph.size()) {}

  void run() {
    const std::vector<bool> live = live_values(graph_);
    find_last_uses();
    for (uint32_t i = 0; i < graph_.size(); ++i) {
      if (!live[i] && !keep_all_) continue;
      values_[i] = evaluate(ValueId{i});
      free_operands(ValueId{i});
    }
  }

  /// With the element type the graph declares; exact values are rounded to it on request.
  Tensor tensor(ValueId id, bool rounded) const {
    const Array& array = values_[id.v];
    Tensor out{array.dtype, {array.dims.end() - array.rank, array.dims.end()}, {}};
    std::visit([&](const auto& elements) { out.data.assign(elements.begin(), elements.end()); }, array.data);
    if (rounded)
      for (double& value : out.data) value = round_to(out.dtype, value);
    return out;
  }

 private:
  void find_last_uses() {
    last_use_.assign(graph_.size(), 0);
    for (uint32_t i = 0; i < graph_.size(); ++i)
      for (ValueId operand : graph_.node(ValueId{i}).args()) last_use_[operand.v] = i;
    for (const Output& output : graph_.outputs()) last_use_[output.value.v] = UINT32_MAX;
  }

  void free_operands(ValueId id) {
    if (keep_all_) return;
    for (ValueId operand : graph_.node(id).args())
      if (last_use_[operand.v] == id.v) values_[operand.v].data = std::vector<float>();
  }

  Array evaluate(ValueId id) {
    const Node& node = graph_.node(id);
    if (node.op == Op::Input) return inputs_.take(std::get<InputAttr>(node.attr).index);
    if (node.op == Op::Const) return scalar_array(graph_.const_value(id));
    return node.type.scalar ? evaluate_scalar(node) : evaluate_tensor(node);
  }

  Array evaluate_scalar(const Node& node) const {
    if (node.op == Op::Fresh)
      return scalar_array(bindings_.fresh.count(graph_.input(node.operands[0]).name) != 0 ? 1 : 0);
    std::array<double, kMaxOperands> operands{};
    for (size_t i = 0; i < node.num_operands; ++i) operands[i] = scalar_value(values_[node.operands[i].v]);
    return scalar_array(run_scalar(node.op, operands));
  }

  Array evaluate_tensor(const Node& node) const {
    OpCall call{node, evaluation_ == Evaluation::Exact ? DType::F64 : math_dtype(graph_, node), {}, {}};
    for (ValueId operand : node.args()) call.args.push_back(&values_[operand.v]);
    call.result.dtype = node.type.dtype;
    call.result.rank = node.type.shape.rank;
    call.result.dims = inputs_.dims_of(node.type.shape);
    if (!is_countable(call.result.dims)) throw std::bad_alloc();
    if (is_elementwise(node.op)) {
      run_elementwise(call, evaluation_);
    } else if (is_reduce(node.op)) {
      run_reduce(call, evaluation_);
    } else if (node.op == Op::Matmul) {
      run_matmul(call, evaluation_);
    } else {
      run_move(call, evaluation_);
    }
    return std::move(call.result);
  }

  const Graph& graph_;
  const Bindings& bindings_;
  Evaluation evaluation_;
  BoundInputs inputs_;
  bool keep_all_;
  std::vector<Array> values_;
  std::vector<uint32_t> last_use_;
};

Result<Machine> run_machine(const Graph& graph, const Bindings& bindings, Evaluation evaluation, bool keep_all) try {
  STEPFUSE_TRY(check(graph));
  STEPFUSE_ASSIGN(BoundInputs inputs, BoundInputs::bind(graph, bindings, evaluation));
  Machine machine(graph, bindings, evaluation, std::move(inputs), keep_all);
  machine.run();
  return machine;
} catch (const std::bad_alloc&) {
  return fail(StatusCode::Environment, "not enough memory to interpret recipe @{}", graph.name);
}

}  // namespace

Result<std::map<std::string, Tensor>> interpret(const Graph& graph, const Bindings& bindings, Evaluation evaluation) {
  STEPFUSE_ASSIGN(const Machine machine, run_machine(graph, bindings, evaluation, false));
  std::map<std::string, Tensor> results;
  for (const Output& output : graph.outputs())
    results.emplace(graph.input(output.target).name, machine.tensor(output.value, true));
  return results;
}

Result<std::vector<Tensor>> interpret_all(const Graph& graph, const Bindings& bindings, Evaluation evaluation) {
  STEPFUSE_ASSIGN(const Machine machine, run_machine(graph, bindings, evaluation, true));
  std::vector<Tensor> values;
  for (uint32_t i = 0; i < graph.size(); ++i) values.push_back(machine.tensor(ValueId{i}, false));
  return values;
}

}  // namespace stepfuse::ir
