// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/op.h"
#include "ir/support/status.h"
#include "ir/type.h"

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace stepfuse::ir {

/// `Strict` rounds once per op as defined; `Default` may contract, keep intermediates wider than declared and rewrite
/// what is equal in real arithmetic. Part of every key.
enum class Mode : uint8_t { Default, Strict };

struct ValueId {
  uint32_t v = UINT32_MAX;
  friend auto operator<=>(ValueId, ValueId) = default;
};

/// Which elements one result of a reduction covers. Reduced dimensions stay, with extent 1.
/// Rows: the last dimension (one result per row). Cols: the one before it. Matrix: both. All: every dimension.
enum class Axis : uint8_t { All, Matrix, Rows, Cols };
std::string_view axis_name(Axis axis);
std::optional<Axis> parse_axis(std::string_view text);

struct ConstAttr {
  double value;
  bool operator==(const ConstAttr& other) const;  // by bits: -0 is not +0, NaN is itself
};
struct InputAttr {
  uint32_t index;  // into Graph::inputs()
  friend bool operator==(const InputAttr&, const InputAttr&) = default;
};
struct ReduceAttr {
  Axis axis;
  friend bool operator==(const ReduceAttr&, const ReduceAttr&) = default;
};
struct MatmulAttr {
  bool trans_a = false;
  bool trans_b = false;
  bool symmetric = false;  // the result equals its transpose: one triangle may be computed and mirrored
  friend bool operator==(const MatmulAttr&, const MatmulAttr&) = default;
};
struct SliceAttr {
  uint8_t dim;
  int64_t begin, end;
  friend bool operator==(const SliceAttr&, const SliceAttr&) = default;
};
struct ConcatAttr {
  uint8_t dim;
  friend bool operator==(const ConcatAttr&, const ConcatAttr&) = default;
};
using Attr = std::variant<std::monostate, ConstAttr, InputAttr, ReduceAttr, MatmulAttr, SliceAttr, ConcatAttr>;

inline constexpr int kMaxOperands = 5;

struct Node {
  Op op = Op::Const;
  uint8_t num_operands = 0;
  std::array<ValueId, kMaxOperands> operands{};
  Type type;
  Attr attr;

  std::span<const ValueId> args() const { return {operands.data(), num_operands}; }
  friend bool operator==(const Node&, const Node&) = default;
};

enum class InputKind : uint8_t { Param, Grad, State, Step, Hyper };

/// Legal values of a hyperparameter. NaN is never legal.
struct Interval {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
  bool lo_open = true;
  bool hi_open = true;
  bool contains(double x) const { return (lo_open ? x > lo : x >= lo) && (hi_open ? x < hi : x <= hi); }
  friend bool operator==(const Interval&, const Interval&) = default;
};
std::string interval_text(const Interval& range);  // "[0, inf)"

struct Input {
  InputKind kind;
  std::string name;  // "p", "lr": without the sigil
  std::string key;   // State: torch's name, "exp_avg"
  Type type;
  std::optional<double> default_value;  // Hyper
  Interval range;                       // Hyper
  ValueId value;
};

/// In-place output: `value` replaces the param or state input `target`.
struct Output {
  ValueId value;
  ValueId target;
};

/// Where the fuse pass put a node: nodes of one cluster run in one launch, in phases separated by a barrier.
struct Placement {
  int32_t cluster = -1;
  int32_t phase = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// An update rule: SSA values in an append-only arena, operands before users, equal nodes merged. Plain data; passes
/// make a new graph from an old one (see rewrite()).
class Graph {
 public:
  std::string name = "recipe";

  uint32_t add_symbol(const std::string& symbol);  // existing index when known
  const std::vector<std::string>& symbols() const { return symbols_; }

  ValueId add_input(Input input);
  /// Appends, or returns the equal node that exists. The type must be right (see infer_type).
  ValueId add_node(const Node& node);
  ValueId add_const(double value);
  void add_output(ValueId value, ValueId target) { outputs_.push_back({value, target}); }

  const Node& node(ValueId id) const { return nodes_[id.v]; }
  size_t size() const { return nodes_.size(); }
  const std::vector<Input>& inputs() const { return inputs_; }
  const Input& input(ValueId id) const;  // of an Op::Input node
  void set_default(ValueId hyper, double value) {
    inputs_[std::get<InputAttr>(node(hyper).attr).index].default_value = value;
  }
  const Input* find_input(std::string_view input_name) const;
  const std::vector<Output>& outputs() const { return outputs_; }

  /// A name for people; need not be unique. Empty when none was given.
  void set_name(ValueId id, std::string value_name);
  const std::string& value_name(ValueId id) const { return names_[id.v]; }

  void set_placement(ValueId id, Placement placement) { placements_[id.v] = placement; }
  Placement placement(ValueId id) const { return placements_[id.v]; }

  bool is_const(ValueId id) const { return node(id).op == Op::Const; }
  double const_value(ValueId id) const { return std::get<ConstAttr>(node(id).attr).value; }
  bool is_scalar(ValueId id) const { return node(id).type.scalar; }

 private:
  std::vector<Node> nodes_;
  std::vector<std::string> names_;
  std::vector<Placement> placements_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<std::string> symbols_;
  std::unordered_multimap<uint64_t, ValueId> index_;
};

/// The result type of an op: operands' shapes broadcast, products and reductions by their rules. `dtype` overrides the
/// element type (one rounding at the end); without it the widest tensor operand's is taken, bool for comparisons.
/// The error names what is wrong with the operands.
Result<Type> infer_type(const Graph& graph, Op op, std::span<const ValueId> operands, const Attr& attr,
                        std::optional<DType> dtype = std::nullopt);

/// The type arithmetic of this node runs in (see ops.def).
DType math_dtype(const Graph& graph, const Node& node);

/// How many nodes and outputs read each value; dead nodes count too.
std::vector<uint32_t> count_uses(const Graph& graph);

/// Which values the outputs depend on. All inputs are alive.
std::vector<bool> live_values(const Graph& graph);

/// Asked for each live node, in order: the value that stands for it in `out`, or nothing to copy it with its operands
/// renamed. `operands` are already values of `out`.
using RewriteRule =
    std::function<std::optional<ValueId>(Graph& out, ValueId old_id, std::span<const ValueId> operands)>;

/// Replaces `graph` by its live part, rewritten; names and placements of copied nodes are kept. True if anything
/// changed.
bool rewrite(Graph& graph, const RewriteRule& rule);

/// A fresh node of `out` with inferred type; an impossible combination is our fault (InternalError).
ValueId emit(Graph& out, Op op, std::span<const ValueId> operands, const Attr& attr = {},
             std::optional<DType> dtype = std::nullopt);
ValueId emit(Graph& out, Op op, std::initializer_list<ValueId> operands, const Attr& attr = {},
             std::optional<DType> dtype = std::nullopt);

}  // namespace stepfuse::ir
