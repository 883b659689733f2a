// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stepfuse::ir {

namespace {

uint64_t attr_bits(const Attr& attr) {
  struct Visitor {
    uint64_t operator()(std::monostate) const { return 0; }
    uint64_t operator()(const ConstAttr& a) const { return std::bit_cast<uint64_t>(a.value); }
    uint64_t operator()(const InputAttr& a) const { return a.index; }
    uint64_t operator()(const ReduceAttr& a) const { return static_cast<uint64_t>(a.axis); }
    uint64_t operator()(const MatmulAttr& a) const {
      return (a.trans_a ? 1u : 0u) | (a.trans_b ? 2u : 0u) | (a.symmetric ? 4u : 0u);
    }
    uint64_t operator()(const SliceAttr& a) const {
      return a.dim + 31 * static_cast<uint64_t>(a.begin) + 1048573 * static_cast<uint64_t>(a.end);
    }
    uint64_t operator()(const ConcatAttr& a) const { return a.dim; }
  };
  return std::visit(Visitor{}, attr);
}

/// A hash for merging equal nodes inside one graph; hash.h has the stable one.
uint64_t consing_hash(const Node& node) {
  std::array<uint64_t, 3 + kMaxOperands> words{};
  words[0] = static_cast<uint64_t>(node.op) | static_cast<uint64_t>(node.type.dtype) << 8;
  words[1] = attr_bits(node.attr);
  words[2] = node.attr.index();
  for (size_t i = 0; i < node.num_operands; ++i) words[3 + i] = node.operands[i].v;
  return XXH3_64bits(words.data(), sizeof words);
}

DType widest(DType a, DType b) {
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (a == b) return a;
  // bf16 and f16 have no common 16-bit type.
  if (dtype_bytes(a) == 2 && dtype_bytes(b) == 2) return DType::F32;
  return dtype_bytes(a) > dtype_bytes(b) ? a : b;
}

struct Operands {
  bool all_scalar = true;
  Rate rate = Rate::None;
  DType dtype = DType::Bool;
  Shape shape;
  bool any_tensor_bool = false;
  bool any_tensor_float = false;
};

Result<Operands> combine(const Graph& graph, Op op, std::span<const ValueId> operands) {
  Operands out;
  bool first = true;
  for (ValueId id : operands) {
    const Type& type = graph.node(id).type;
    if (type.scalar) {
      out.rate = std::max(out.rate, type.rate);
      continue;
    }
    out.all_scalar = false;
    (type.dtype == DType::Bool ? out.any_tensor_bool : out.any_tensor_float) = true;
    out.dtype = widest(out.dtype, type.dtype);
    if (first) {
      out.shape = type.shape;
    } else {
      auto shape = broadcast(out.shape, type.shape);
      if (!shape)
        return fail(StatusCode::InvalidData, "operands of {} have shapes that do not broadcast", op_info(op).mnemonic);
      out.shape = *shape;
    }
    first = false;
  }
  return out;
}

Outcome check_arity(Op op, size_t count) {
  const OpInfo& info = op_info(op);
  const bool matmul_gap = op == Op::Matmul && count == 4;
  if (static_cast<int>(count) >= info.arity_min && static_cast<int>(count) <= info.arity_max && !matmul_gap) return {};
  return fail(StatusCode::InvalidData, "{} takes {} operands, got {}", info.mnemonic,
              op == Op::Matmul                   ? "2 (A, B), 3 (A, B, alpha) or 5 (A, B, C, alpha, beta)"
              : info.arity_min == info.arity_max ? std::to_string(info.arity_min)
                                                 : fmt::format("{} to {}", info.arity_min, info.arity_max),
              count);
}

Result<Type> infer_elementwise(const Graph& graph, Op op, std::span<const ValueId> operands,
                               std::optional<DType> dtype) {
  STEPFUSE_ASSIGN(const Operands combined, combine(graph, op, operands));
  const std::string_view name = op_info(op).mnemonic;
  if (combined.all_scalar) {
    if (is_bool_logic(op) || op == Op::Cast)
      return fail(StatusCode::InvalidData, "{} takes tensors, not scalars", name);
    return scalar_type(combined.rate);
  }
  if (is_bool_logic(op)) {
    if (combined.any_tensor_float) return fail(StatusCode::InvalidData, "{} takes bool tensors", name);
    return tensor_type(DType::Bool, combined.shape);
  }
  if (op == Op::Select) {
    const Type& cond = graph.node(operands[0]).type;
    if (!cond.scalar && cond.dtype != DType::Bool)
      return fail(StatusCode::InvalidData, "the condition of select must be a bool tensor or a scalar");
    for (ValueId id : operands.subspan(1))
      if (!graph.is_scalar(id) && graph.node(id).type.dtype == DType::Bool)
        return fail(StatusCode::InvalidData, "select chooses between numbers, not bool tensors");
    if (combined.dtype == DType::Bool && !dtype)
      return fail(StatusCode::InvalidData, "select of two scalars by a tensor needs an element type (': f32')");
  } else if (op != Op::Cast && combined.any_tensor_bool) {
    return fail(StatusCode::InvalidData, "{} takes numbers, not bool tensors; cast first", name);
  }
  if (is_compare(op) || op == Op::IsFinite) return tensor_type(DType::Bool, combined.shape);
  const DType result = dtype.value_or(combined.dtype);
  if (result == DType::Bool) return fail(StatusCode::InvalidData, "{} cannot give bool", name);
  return tensor_type(result, combined.shape);
}

Result<Type> infer_reduce(const Graph& graph, Op op, ValueId operand, const Attr& attr, std::optional<DType> dtype) {
  const Type& type = graph.node(operand).type;
  const auto* reduce = std::get_if<ReduceAttr>(&attr);
  const std::string_view name = op_info(op).mnemonic;
  if (reduce == nullptr) return fail(StatusCode::InvalidData, "{} needs an axis: all, matrix, rows or cols", name);
  if (type.scalar) return fail(StatusCode::InvalidData, "{} takes a tensor, not a scalar", name);
  if ((op == Op::Any) != (type.dtype == DType::Bool))
    return fail(StatusCode::InvalidData, "{} takes a {} tensor", name, op == Op::Any ? "bool" : "number");
  const int rank = type.shape.rank;
  const int needed = reduce->axis == Axis::All ? 0 : reduce->axis == Axis::Rows ? 1 : 2;
  if (rank < needed)
    return fail(StatusCode::InvalidData, "{} over {} needs at least {} dimensions, got {}", name,
                axis_name(reduce->axis), needed, rank);
  Shape shape = type.shape;
  for (int i = 0; i < rank; ++i) {
    const int from_end = rank - 1 - i;
    const bool reduced = reduce->axis == Axis::All || (reduce->axis == Axis::Rows && from_end == 0) ||
                         (reduce->axis == Axis::Cols && from_end == 1) ||
                         (reduce->axis == Axis::Matrix && from_end <= 1);
    if (reduced) shape.dims[static_cast<size_t>(i)] = Extent::of(1);
  }
  if (op == Op::Any) return tensor_type(DType::Bool, shape);
  const DType result = dtype.value_or(type.dtype);
  if (result == DType::Bool) return fail(StatusCode::InvalidData, "{} cannot give bool", name);
  return tensor_type(result, shape);
}

struct MatrixView {
  Extent rows, cols, batch;
};

Result<MatrixView> matrix_of(const Graph& graph, ValueId id, bool transposed, std::string_view which) {
  const Type& type = graph.node(id).type;
  if (type.scalar || type.shape.rank < 2 || type.dtype == DType::Bool)
    return fail(StatusCode::InvalidData, "operand {} of matmul must be a tensor of numbers with at least 2 dimensions",
                which);
  MatrixView view{type.shape.from_end(1), type.shape.from_end(0), type.shape.from_end(2)};
  if (transposed) std::swap(view.rows, view.cols);
  return view;
}

Outcome check_factor(const Graph& graph, ValueId id, std::string_view which) {
  const Type& type = graph.node(id).type;
  const bool one = type.scalar || (type.dtype != DType::Bool && type.shape.from_end(0) == Extent::of(1) &&
                                   type.shape.from_end(1) == Extent::of(1) && type.shape.from_end(2) == Extent::of(1));
  if (one) return {};
  return fail(StatusCode::InvalidData, "{} of matmul must be a scalar or a tensor of one element", which);
}

/// The whole product runs in the math type of A and B.
Outcome check_product_math(const Graph& graph, std::span<const ValueId> operands, bool in_f64, DType result) {
  bool wider = result == DType::F64;
  for (ValueId id : operands.subspan(2))
    wider = wider || (!graph.is_scalar(id) && graph.node(id).type.dtype == DType::F64);
  if (in_f64 && result != DType::F64)
    return fail(StatusCode::InvalidData, "matmul of f64 matrices gives f64; cast the result");
  if (in_f64 || !wider) return {};
  return fail(StatusCode::InvalidData, "matmul of matrices below f64 cannot take or give f64; cast");
}

Result<Type> infer_matmul(const Graph& graph, std::span<const ValueId> operands, const Attr& attr,
                          std::optional<DType> dtype) {
  const auto* matmul = std::get_if<MatmulAttr>(&attr);
  const MatmulAttr flags = matmul != nullptr ? *matmul : MatmulAttr{};
  STEPFUSE_ASSIGN(const MatrixView a, matrix_of(graph, operands[0], flags.trans_a, "A"));
  STEPFUSE_ASSIGN(const MatrixView b, matrix_of(graph, operands[1], flags.trans_b, "B"));
  if (a.cols != b.rows) return fail(StatusCode::InvalidData, "matmul: the columns of A and the rows of B differ");
  if (a.batch != b.batch) return fail(StatusCode::InvalidData, "matmul: A and B have different batch extents");
  const Type& type_a = graph.node(operands[0]).type;
  const Type& type_b = graph.node(operands[1]).type;
  const int rank = std::max(type_a.shape.rank, type_b.shape.rank);
  Shape shape = rank == 3 ? make_shape({a.batch, a.rows, b.cols}) : make_shape({a.rows, b.cols});
  if (operands.size() == 3) STEPFUSE_TRY(check_factor(graph, operands[2], "alpha"));
  if (operands.size() == 5) {
    STEPFUSE_ASSIGN(const MatrixView c, matrix_of(graph, operands[2], false, "C"));
    if (c.rows != a.rows || c.cols != b.cols || c.batch != a.batch)
      return fail(StatusCode::InvalidData, "matmul: C does not have the shape of A B");
    STEPFUSE_TRY(check_factor(graph, operands[3], "alpha"));
    STEPFUSE_TRY(check_factor(graph, operands[4], "beta"));
  }
  if (type_a.dtype != type_b.dtype)
    return fail(StatusCode::InvalidData, "A and B of matmul have different element types; cast one");
  const bool in_f64 = type_a.dtype == DType::F64;
  const DType result = dtype.value_or(in_f64 ? DType::F64 : DType::F32);
  if (result == DType::Bool) return fail(StatusCode::InvalidData, "matmul cannot give bool");
  STEPFUSE_TRY(check_product_math(graph, operands, in_f64, result));
  return tensor_type(result, shape);
}

Result<Type> infer_view(const Graph& graph, Op op, ValueId operand, const Attr& attr) {
  Type type = graph.node(operand).type;
  if (type.scalar) return fail(StatusCode::InvalidData, "{} takes a tensor, not a scalar", op_info(op).mnemonic);
  if (op == Op::Transpose) {
    if (type.shape.rank < 2) return fail(StatusCode::InvalidData, "transpose needs at least 2 dimensions");
    std::swap(type.shape.dims[static_cast<size_t>(type.shape.rank - 1)],
              type.shape.dims[static_cast<size_t>(type.shape.rank - 2)]);
    return type;
  }
  const auto* slice = std::get_if<SliceAttr>(&attr);
  if (slice == nullptr || slice->dim >= type.shape.rank)
    return fail(StatusCode::InvalidData, "slice needs dim (below the rank {}), begin and end", type.shape.rank);
  Extent& extent = type.shape.dims[slice->dim];
  if (extent.is_symbol()) return fail(StatusCode::InvalidData, "slice of a symbolic extent; give the shape a number");
  if (slice->begin < 0 || slice->begin > slice->end || slice->end > extent.value())
    return fail(StatusCode::InvalidData, "slice {}..{} is not within 0..{}", slice->begin, slice->end, extent.value());
  extent = Extent::of(slice->end - slice->begin);
  return type;
}

Result<Type> infer_adddiag(const Graph& graph, std::span<const ValueId> operands, std::optional<DType> dtype) {
  Type type = graph.node(operands[0]).type;
  if (type.scalar || type.dtype == DType::Bool || type.shape.rank < 2 ||
      type.shape.from_end(0) != type.shape.from_end(1))
    return fail(StatusCode::InvalidData, "adddiag takes square matrices of numbers");
  if (!graph.is_scalar(operands[1])) return fail(StatusCode::InvalidData, "adddiag adds a scalar");
  type.dtype = dtype.value_or(type.dtype);
  if (type.dtype == DType::Bool) return fail(StatusCode::InvalidData, "adddiag cannot give bool");
  return type;
}

Result<Type> infer_concat(const Graph& graph, std::span<const ValueId> operands, const Attr& attr) {
  const auto* concat = std::get_if<ConcatAttr>(&attr);
  const Type& a = graph.node(operands[0]).type;
  const Type& b = graph.node(operands[1]).type;
  if (a.scalar || b.scalar) return fail(StatusCode::InvalidData, "concat takes tensors, not scalars");
  if (concat == nullptr || concat->dim >= a.shape.rank)
    return fail(StatusCode::InvalidData, "concat needs dim, below the rank");
  if (a.dtype != b.dtype || a.shape.rank != b.shape.rank)
    return fail(StatusCode::InvalidData, "concat needs operands of one element type and rank");
  Type type = a;
  for (size_t i = 0; i < a.shape.rank; ++i) {
    if (i != concat->dim && a.shape.dims[i] != b.shape.dims[i])
      return fail(StatusCode::InvalidData, "concat: the operands differ in dimension {}", i);
  }
  Extent& extent = type.shape.dims[concat->dim];
  const Extent other = b.shape.dims[concat->dim];
  if (extent.is_symbol() || other.is_symbol()) return fail(StatusCode::InvalidData, "concat along a symbolic extent");
  extent = Extent::of(extent.value() + other.value());
  return type;
}

Result<Type> infer_scalar_only(const Graph& graph, Op op, std::span<const ValueId> operands) {
  if (op == Op::Fresh) {
    const Node& node = graph.node(operands[0]);
    if (node.op != Op::Input || graph.input(operands[0]).kind != InputKind::State)
      return fail(StatusCode::InvalidData, "fresh takes a state of the recipe");
    return scalar_type(Rate::Parameter);
  }
  Rate rate = Rate::None;
  for (ValueId id : operands) {
    if (!graph.is_scalar(id)) return fail(StatusCode::InvalidData, "{} takes scalars", op_info(op).mnemonic);
    rate = std::max(rate, graph.node(id).type.rate);
  }
  return scalar_type(rate);
}

}  // namespace

bool ConstAttr::operator==(const ConstAttr& other) const {
  return std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
}

std::string_view axis_name(Axis axis) {
  constexpr std::array<std::string_view, 4> kNames{"all", "matrix", "rows", "cols"};
  return kNames[static_cast<size_t>(axis)];
}

std::optional<Axis> parse_axis(std::string_view text) {
  for (Axis axis : {Axis::All, Axis::Matrix, Axis::Rows, Axis::Cols})
    if (axis_name(axis) == text) return axis;
  return std::nullopt;
}

std::string interval_text(const Interval& range) {
  return fmt::format("{}{}, {}{}", range.lo_open ? '(' : '[', range.lo, range.hi, range.hi_open ? ')' : ']');
}

uint32_t Graph::add_symbol(const std::string& symbol) {
  const auto it = std::find(symbols_.begin(), symbols_.end(), symbol);
  if (it != symbols_.end()) return static_cast<uint32_t>(it - symbols_.begin());
  symbols_.push_back(symbol);
  return static_cast<uint32_t>(symbols_.size() - 1);
}

ValueId Graph::add_input(Input input) {
  Node node;
  node.op = Op::Input;
  node.type = input.type;
  node.attr = InputAttr{static_cast<uint32_t>(inputs_.size())};
  input.value = add_node(node);
  set_name(input.value, input.name);
  inputs_.push_back(std::move(input));
  return inputs_.back().value;
}

ValueId Graph::add_node(const Node& node) {
  const uint64_t hash = consing_hash(node);
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (nodes_[it->second.v] == node) return it->second;
  const ValueId id{static_cast<uint32_t>(nodes_.size())};
  nodes_.push_back(node);
  names_.emplace_back();
  placements_.emplace_back();
  index_.emplace(hash, id);
  return id;
}

ValueId Graph::add_const(double value) {
  Node node;
  node.op = Op::Const;
  node.type = scalar_type(Rate::None);
  // One NaN: payloads do not survive the text form, and constants merge by bits.
  node.attr = ConstAttr{std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value};
  return add_node(node);
}

const Input& Graph::input(ValueId id) const { return inputs_[std::get<InputAttr>(node(id).attr).index]; }

const Input* Graph::find_input(std::string_view input_name) const {
  const auto it = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.name == input_name; });
  return it == inputs_.end() ? nullptr : &*it;
}

void Graph::set_name(ValueId id, std::string value_name) { names_[id.v] = std::move(value_name); }

Result<Type> infer_type(const Graph& graph, Op op, std::span<const ValueId> operands, const Attr& attr,
                        std::optional<DType> dtype) {
  STEPFUSE_TRY(check_arity(op, operands.size()));
  switch (family(op)) {
    case OpFamily::Source:
      return fail(StatusCode::InvalidData, "{} is not an operation", op_info(op).mnemonic);
    case OpFamily::Elementwise:
      return infer_elementwise(graph, op, operands, dtype);
    case OpFamily::ScalarOnly:
      return infer_scalar_only(graph, op, operands);
    case OpFamily::View:
      return infer_view(graph, op, operands[0], attr);
    case OpFamily::Move:
      return op == Op::Concat ? infer_concat(graph, operands, attr) : infer_adddiag(graph, operands, dtype);
    case OpFamily::Reduce:
      return infer_reduce(graph, op, operands[0], attr, dtype);
    case OpFamily::Product:
      return infer_matmul(graph, operands, attr, dtype);
  }
  return fail(StatusCode::Internal, "unknown op family");
}

DType math_dtype(const Graph& graph, const Node& node) {
  if (node.type.scalar || node.type.dtype == DType::F64) return DType::F64;
  for (ValueId id : node.args()) {
    const Type& type = graph.node(id).type;
    if (!type.scalar && type.dtype == DType::F64) return DType::F64;
  }
  return DType::F32;
}

std::vector<uint32_t> count_uses(const Graph& graph) {
  std::vector<uint32_t> uses(graph.size(), 0);
  for (uint32_t i = 0; i < graph.size(); ++i)
    for (ValueId operand : graph.node(ValueId{i}).args()) ++uses[operand.v];
  for (const Output& output : graph.outputs()) ++uses[output.value.v];
  return uses;
}

std::vector<bool> live_values(const Graph& graph) {
  std::vector<bool> live(graph.size(), false);
  for (const Output& output : graph.outputs()) live[output.value.v] = true;
  for (const Input& input : graph.inputs()) live[input.value.v] = true;
  for (uint32_t i = static_cast<uint32_t>(graph.size()); i-- > 0;) {
    if (!live[i]) continue;
    for (ValueId operand : graph.node(ValueId{i}).args()) live[operand.v] = true;
  }
  return live;
}

namespace {

/// Copies one node into `out` under its operands' new names.
ValueId copy_node(Graph& out, const Graph& in, ValueId id, std::span<const ValueId> operands) {
  Node node = in.node(id);
  std::copy(operands.begin(), operands.end(), node.operands.begin());
  return out.add_node(node);
}

/// Whether `out` is `in` but for the order of its nodes, which a rule changes when it looks at a value early.
bool same_but_for_order(const Graph& in, const Graph& out) {
  if (in.size() != out.size() || in.outputs().size() != out.outputs().size()) return false;
  Graph probe = out;  // merges an equal node with the one it has, and grows by any other
  std::vector<ValueId> renamed(in.size());
  for (uint32_t i = 0; i < in.size(); ++i) {
    const ValueId id{i};
    std::array<ValueId, kMaxOperands> operands{};
    const std::span<const ValueId> args = in.node(id).args();
    for (size_t k = 0; k < args.size(); ++k) operands[k] = renamed[args[k].v];
    renamed[i] = copy_node(probe, in, id, std::span<const ValueId>(operands.data(), args.size()));
    if (probe.size() != out.size() || !(in.placement(id) == out.placement(renamed[i]))) return false;
  }
  for (size_t i = 0; i < in.outputs().size(); ++i)
    if (renamed[in.outputs()[i].value.v] != out.outputs()[i].value) return false;
  return true;
}

/// The live part of `graph` with `rule` applied to each node.
Graph rebuild(const Graph& graph, const RewriteRule& rule) {
  Graph out;
  out.name = graph.name;
  for (const std::string& symbol : graph.symbols()) out.add_symbol(symbol);
  std::vector<ValueId> renamed(graph.size());
  for (const Input& input : graph.inputs()) renamed[input.value.v] = out.add_input(input);
  const std::vector<bool> live = live_values(graph);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ValueId id{i};
    const Node& node = graph.node(id);
    if (!live[i] || node.op == Op::Input) continue;
    std::array<ValueId, kMaxOperands> operands{};
    for (size_t k = 0; k < node.num_operands; ++k) operands[k] = renamed[node.operands[k].v];
    const std::span<const ValueId> new_operands(operands.data(), node.num_operands);
    const std::optional<ValueId> replaced = rule(out, id, new_operands);
    renamed[i] = replaced ? *replaced : copy_node(out, graph, id, new_operands);
    if (out.value_name(renamed[i]).empty()) out.set_name(renamed[i], graph.value_name(id));
    if (!replaced) out.set_placement(renamed[i], graph.placement(id));
  }
  for (const Output& output : graph.outputs()) out.add_output(renamed[output.value.v], renamed[output.target.v]);
  return out;
}

bool all_live(const Graph& graph) {
  const std::vector<bool> live = live_values(graph);
  return std::find(live.begin(), live.end(), false) == live.end();
}

}  // namespace

bool rewrite(Graph& graph, const RewriteRule& rule) {
  Graph out = rebuild(graph, rule);
  // What a rule left behind would count as a reader in the next pass.
  if (!all_live(out)) out = rebuild(out, [](Graph&, ValueId, std::span<const ValueId>) { return std::nullopt; });
  if (same_but_for_order(graph, out)) return false;
  graph = std::move(out);
  return true;
}

ValueId emit(Graph& out, Op op, std::span<const ValueId> operands, const Attr& attr, std::optional<DType> dtype) {
  auto type = infer_type(out, op, operands, attr, dtype);
  STEPFUSE_CHECK(type.has_value(), "emit {}: {}", op_info(op).mnemonic, type.error().message);
  Node node;
  node.op = op;
  node.num_operands = static_cast<uint8_t>(operands.size());
  std::copy(operands.begin(), operands.end(), node.operands.begin());
  node.type = *type;
  node.attr = attr;
  return out.add_node(node);
}

ValueId emit(Graph& out, Op op, std::initializer_list<ValueId> operands, const Attr& attr, std::optional<DType> dtype) {
  return emit(out, op, std::span<const ValueId>(operands.begin(), operands.size()), attr, dtype);
}

}  // namespace stepfuse::ir
