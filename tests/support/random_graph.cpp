// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_graph.h"

#include <algorithm>
#include <array>
#include <optional>

namespace stepfuse::tests {

using ir::Axis;
using ir::DType;
using ir::Extent;
using ir::Graph;
using ir::InputKind;
using ir::Op;
using ir::Shape;
using ir::ValueId;

namespace {

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {}

  RandomGraph run() {
    graph_.name = "random";
    add_inputs();
    for (int i = 0; i < options_.ops; ++i) add_op();
    if (options_.products) {
      add_product();
      add_long_reduction();
      add_op();
    }
    add_outputs();
    return {std::move(graph_), shape_};
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T, size_t N>
  T one_of(const std::array<T, N>& list) {
    return list[static_cast<size_t>(pick(0, N - 1))];
  }
  ValueId one_of(const std::vector<ValueId>& list) {
    return list[static_cast<size_t>(pick(0, static_cast<int64_t>(list.size()) - 1))];
  }

  void add_inputs() {
    choose_shape();
    Shape shape;
    for (int64_t extent : shape_) shape.dims[shape.rank++] = Extent::of(extent);
    const std::array<DType, 6> types{DType::F32, DType::F32, DType::F32, DType::BF16, DType::F64, DType::F16};
    const DType param = one_of(types);
    const std::array<std::pair<InputKind, const char*>, 4> tensors{
        {{InputKind::Param, "p"}, {InputKind::Grad, "g"}, {InputKind::State, "m"}, {InputKind::State, "v"}}};
    for (const auto& [kind, name] : tensors) {
      const DType dtype = chance(60) ? param : one_of(types);
      tensors_.push_back(graph_.add_input({kind,
                                           name,
                                           kind == InputKind::State ? std::string("state_") + name : "",
                                           ir::tensor_type(dtype, shape),
                                           {},
                                           {},
                                           {}}));
    }
    scalars_.push_back(graph_.add_input({InputKind::Step, "t", "", ir::scalar_type(ir::Rate::Parameter), {}, {}, {}}));
    scalars_.push_back(
        graph_.add_input({InputKind::Hyper, "lr", "", ir::scalar_type(ir::Rate::Group), 0.0123, {}, {}}));
    scalars_.push_back(graph_.add_input({InputKind::Hyper, "beta", "", ir::scalar_type(ir::Rate::Group), 0.9, {}, {}}));
    scalars_.push_back(graph_.add_const(0.3));
    scalars_.push_back(ir::emit(graph_, Op::Sub, {graph_.add_const(1), scalars_[2]}));
    scalars_.push_back(ir::emit(graph_, Op::Fresh, {tensors_[2]}));
  }

  void choose_shape() {
    if (options_.products) {
      // At least two chunks: of the whole matrix, or along its long side.
      long_side_ = chance(30);
      const int64_t rows = long_side_ ? pick(2, 4) : pick(17, 90);
      shape_ = {rows, long_side_ ? pick(4097, 4500) : (4096 + rows) / rows + pick(0, 40)};
      if (chance(30)) std::swap(shape_[0], shape_[1]);
      if (!long_side_ && chance(15)) shape_.insert(shape_.begin(), pick(1, 3));
      return;
    }
    shape_.clear();
    for (int64_t rank = pick(1, 3); rank > 0; --rank) shape_.push_back(chance(10) ? 1 : pick(1, 40));
    if (chance(25)) shape_.back() = pick(4000, 9000) / (shape_.size() > 1 ? 40 : 1);
  }

  ValueId any_scalar() { return one_of(scalars_); }

  /// A number tensor whose shape broadcasts with `like` (any when null).
  std::optional<ValueId> tensor_like(const Shape* like) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      const ValueId id = one_of(tensors_);
      if (like == nullptr || ir::broadcast(*like, graph_.node(id).type.shape)) return id;
    }
    return std::nullopt;
  }

  /// Keeps only what types; an op that does not is skipped.
  std::optional<ValueId> try_emit(Op op, const std::vector<ValueId>& operands, const ir::Attr& attr = {},
                                  std::optional<DType> dtype = std::nullopt) {
    if (!ir::infer_type(graph_, op, operands, attr, dtype)) return std::nullopt;
    return ir::emit(graph_, op, operands, attr, dtype);
  }

  void keep(std::optional<ValueId> id) {
    if (!id) return;
    (graph_.node(*id).type.dtype == DType::Bool ? bools_ : tensors_).push_back(*id);
  }

  std::optional<DType> maybe_dtype() {
    if (chance(70)) return std::nullopt;
    return one_of(std::array<DType, 4>{DType::F32, DType::BF16, DType::F64, DType::F16});
  }

  void add_op() {
    const int64_t kind = pick(1, 100);
    if (kind <= 70) return add_elementwise();
    if (kind <= 80) return add_view();
    if (kind <= 93) return add_reduction();
    if (kind <= 97) return add_select();
    keep(try_emit(Op::Concat, {one_of(tensors_), one_of(tensors_)}, ir::ConcatAttr{static_cast<uint8_t>(pick(0, 2))}));
  }

  void add_elementwise() {
    const Op op = one_of(std::array{Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Neg, Op::Abs, Op::Sign, Op::Sqrt, Op::Min,
                                    Op::Max, Op::Axpy, Op::Lerp, Op::Addcmul, Op::Addcdiv, Op::Lt, Op::Ge, Op::Ne,
                                    Op::IsFinite, Op::Cast});
    const int arity = ir::op_info(op).arity_min;
    const ValueId first = one_of(tensors_);
    Shape shape = graph_.node(first).type.shape;
    std::vector<ValueId> operands{first};
    while (static_cast<int>(operands.size()) < arity) {
      const auto tensor = chance(35) ? std::nullopt : tensor_like(&shape);
      operands.push_back(tensor.value_or(any_scalar()));
      if (tensor) shape = *ir::broadcast(shape, graph_.node(*tensor).type.shape);
    }
    std::shuffle(operands.begin(), operands.end(), random_);
    keep(try_emit(
        op, operands, {},
        op == Op::Cast ? std::optional(one_of(std::array{DType::F32, DType::BF16, DType::F16})) : maybe_dtype()));
  }

  void add_select() {
    const ValueId cond = bools_.empty() || chance(40) ? any_scalar() : one_of(bools_);
    keep(try_emit(Op::Select, {cond, one_of(tensors_), one_of(tensors_)}));
  }

  void add_view() {
    const ValueId source = one_of(tensors_);
    const Shape& shape = graph_.node(source).type.shape;
    if (chance(60)) return keep(try_emit(Op::Transpose, {source}));
    const auto dim = static_cast<uint8_t>(pick(0, shape.rank - 1));
    const int64_t extent = shape.dims[dim].value();
    const int64_t begin = pick(0, extent - 1);
    keep(try_emit(Op::Slice, {source}, ir::SliceAttr{dim, begin, pick(begin + 1, extent)}));
  }

  void add_reduction() {
    const Op op = one_of(std::array{Op::Sum, Op::SumSq, Op::Norm, Op::Amax});
    // All of a batch is the interpreter's and the planner's business in tests of their own.
    const bool batched = shape_.size() == 3 && shape_[0] > 1;
    const Axis axis = batched ? one_of(std::array{Axis::Matrix, Axis::Rows, Axis::Cols})
                              : one_of(std::array{Axis::All, Axis::Matrix, Axis::Rows, Axis::Cols});
    keep(try_emit(op, {one_of(tensors_)}, ir::ReduceAttr{axis}, maybe_dtype()));
  }

  /// Over an input: the whole matrix, or its long side.
  void add_long_reduction() {
    const Op op = one_of(std::array{Op::Sum, Op::SumSq, Op::Norm});
    const Axis axis = !long_side_ ? Axis::Matrix : shape_[0] < shape_[1] ? Axis::Rows : Axis::Cols;
    reduction_ = try_emit(op, {tensors_[static_cast<size_t>(pick(0, 3))]}, ir::ReduceAttr{axis}, maybe_dtype());
    keep(reduction_);
  }

  /// X X^T or X^T X, and a product of the result with X, so that its shape meets the parameter's again.
  void add_product() {
    const std::vector<ValueId> inputs(tensors_.begin(), tensors_.begin() + 4);
    const ValueId x = one_of(inputs);
    const bool left = long_side_ ? shape_[0] < shape_[1] : chance(50);
    const DType dtype = graph_.node(x).type.dtype;
    const auto gram = try_emit(Op::Matmul, {x, x}, ir::MatmulAttr{!left, left, false}, dtype);
    keep(gram);
    if (!gram) return;
    const std::vector<ValueId> factors = left ? std::vector<ValueId>{*gram, x} : std::vector<ValueId>{x, *gram};
    std::vector<ValueId> operands = factors;
    if (chance(50)) operands.insert(operands.end(), {x, any_scalar(), any_scalar()});
    product_ = try_emit(Op::Matmul, operands, ir::MatmulAttr{}, chance(50) ? std::optional(dtype) : std::nullopt);
    keep(product_);
  }

  /// `value` itself where it fits, else the target plus it.
  ValueId fitted(ValueId value, ValueId target) {
    const ir::Type& type = graph_.node(target).type;
    return graph_.node(value).type == type ? value : ir::emit(graph_, Op::Add, {target, value}, {}, type.dtype);
  }

  bool fits(ValueId value, ValueId target) const {
    const auto shape = ir::broadcast(graph_.node(value).type.shape, graph_.node(target).type.shape);
    return shape && *shape == graph_.node(target).type.shape;
  }

  /// The product and the long reduction, then the last values that fit; else the target moved by the gradient.
  void add_outputs() {
    std::vector<ValueId> candidates(tensors_.begin() + 4, tensors_.end());
    for (const auto& wanted : {reduction_, product_})
      if (wanted) candidates.push_back(*wanted);
    for (size_t k : {size_t{0}, size_t{2}, size_t{3}}) {
      const ValueId target = tensors_[k];
      while (!candidates.empty() && !fits(candidates.back(), target)) candidates.pop_back();
      if (candidates.empty()) {
        graph_.add_output(
            ir::emit(graph_, Op::Axpy, {scalars_[1], tensors_[1], target}, {}, graph_.node(target).type.dtype), target);
        continue;
      }
      graph_.add_output(fitted(candidates.back(), target), target);
      candidates.pop_back();
    }
  }

  std::mt19937_64 random_;
  RandomGraphOptions options_;
  Graph graph_;
  std::vector<int64_t> shape_;
  std::vector<ValueId> tensors_, bools_, scalars_;
  std::optional<ValueId> product_, reduction_;
  bool long_side_ = false;
};

}  // namespace

RandomGraph make_random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace stepfuse::tests
