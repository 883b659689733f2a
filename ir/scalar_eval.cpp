// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/scalar_eval.h"

#include <cmath>

namespace stepfuse::ir {

namespace {

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

double maximum(double a, double b) { return -minimum(-a, -b); }

double sign(double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a == 0 ? 0.0 : a; }

double lerp(double a, double b, double w) {
  return std::fabs(w) < 0.5 ? std::fma(w, b - a, a) : std::fma(w - 1, b - a, b);
}

}  // namespace

double power_by_squaring(double a, double n) {
  if (!(std::fabs(n) <= 0x1p53) || n != std::trunc(n)) return std::nan("");
  auto left = static_cast<uint64_t>(std::fabs(n));
  double result = 1;
  for (double square = a; left != 0; left >>= 1, square *= square)
    if ((left & 1) != 0) result *= square;
  return n < 0 ? 1 / result : result;
}

double evaluate_scalar_op(Op op, std::span<const double> x) {
  switch (op) {
    case Op::Add:
      return x[0] + x[1];
    case Op::Sub:
      return x[0] - x[1];
    case Op::Mul:
      return x[0] * x[1];
    case Op::Div:
      return x[0] / x[1];
    case Op::Neg:
      return -x[0];
    case Op::Abs:
      return std::fabs(x[0]);
    case Op::Sign:
      return sign(x[0]);
    case Op::Sqrt:
      return std::sqrt(x[0]);
    case Op::Min:
      return minimum(x[0], x[1]);
    case Op::Max:
      return maximum(x[0], x[1]);
    case Op::Axpy:
      return std::fma(x[0], x[1], x[2]);
    case Op::Lerp:
      return lerp(x[0], x[1], x[2]);
    case Op::Addcmul:
      return std::fma(x[1] * x[2], x[3], x[0]);
    case Op::Addcdiv:
      return x[0] + x[1] * x[2] / x[3];
    case Op::Select:
      return x[0] != 0 ? x[1] : x[2];
    case Op::Lt:
      return x[0] < x[1] ? 1 : 0;
    case Op::Le:
      return x[0] <= x[1] ? 1 : 0;
    case Op::Gt:
      return x[0] > x[1] ? 1 : 0;
    case Op::Ge:
      return x[0] >= x[1] ? 1 : 0;
    case Op::Eq:
      return x[0] == x[1] ? 1 : 0;
    case Op::Ne:
      return x[0] != x[1] ? 1 : 0;
    case Op::IsFinite:
      return std::isfinite(x[0]) ? 1 : 0;
    case Op::Powi:
      return power_by_squaring(x[0], x[1]);
    case Op::Input:
    case Op::Const:
    case Op::And:
    case Op::Or:
    case Op::Not:
    case Op::Cast:
    case Op::Fresh:
    case Op::Transpose:
    case Op::Slice:
    case Op::Concat:
    case Op::AddDiag:
    case Op::Sum:
    case Op::SumSq:
    case Op::Norm:
    case Op::Amax:
    case Op::Any:
    case Op::Matmul:
      break;
  }
  throw InternalError(fmt::format("{} is not an op of the scalar graph", op_info(op).mnemonic));
}

ScalarProgram::ScalarProgram(const Graph& graph, std::span<const ValueId> results) {
  std::vector<bool> needed(graph.size(), false);
  for (ValueId id : results) needed[id.v] = true;
  for (auto i = static_cast<uint32_t>(graph.size()); i-- > 0;) {
    const Node& node = graph.node(ValueId{i});
    if (!needed[i] || node.op == Op::Fresh) continue;
    for (ValueId operand : node.args()) needed[operand.v] = true;
  }
  std::vector<uint32_t> registers(graph.size(), 0);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (!needed[i] || !graph.is_scalar(ValueId{i})) continue;
    registers[i] = static_cast<uint32_t>(ops_.size());
    ops_.push_back(make_line(graph, ValueId{i}, registers));
  }
  for (ValueId id : results) slots_.push_back(registers[id.v]);
}

ScalarProgram::Line ScalarProgram::make_line(const Graph& graph, ValueId id, const std::vector<uint32_t>& registers) {
  const Node& node = graph.node(id);
  Line line{Source::Op, node.op, node.num_operands, {}, 0, 0};
  if (node.op == Op::Const) {
    line.source = Source::Const;
    line.value = graph.const_value(id);
  } else if (node.op == Op::Input && graph.input(id).kind == InputKind::Step) {
    line.source = Source::Step;
  } else if (node.op == Op::Input) {
    line.source = Source::Hyper;
    line.index = static_cast<uint32_t>(hypers_.size());
    hypers_.push_back(id);
  } else if (node.op == Op::Fresh) {
    line.source = Source::Fresh;
    line.index = static_cast<uint32_t>(fresh_.size());
    fresh_.push_back(node.operands[0]);
  } else {
    for (size_t k = 0; k < node.num_operands; ++k) line.operands[k] = registers[node.operands[k].v];
  }
  return line;
}

void ScalarProgram::run(std::span<const double> hypers, double step, std::span<const bool> fresh,
                        std::span<double> registers, std::span<double> slots) const {
  for (size_t i = 0; i < ops_.size(); ++i) {
    const Line& line = ops_[i];
    std::array<double, kMaxOperands> x{};
    switch (line.source) {
      case Source::Const:
        registers[i] = line.value;
        break;
      case Source::Hyper:
        registers[i] = hypers[line.index];
        break;
      case Source::Step:
        registers[i] = step;
        break;
      case Source::Fresh:
        registers[i] = fresh[line.index] ? 1 : 0;
        break;
      case Source::Op:
        for (size_t k = 0; k < line.num_operands; ++k) x[k] = registers[line.operands[k]];
        registers[i] = evaluate_scalar_op(line.op, std::span<const double>(x.data(), line.num_operands));
        break;
    }
  }
  for (size_t s = 0; s < slots_.size(); ++s) slots[s] = registers[slots_[s]];
}

}  // namespace stepfuse::ir
