// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_bind.h"

#include "ir/print.h"
#include "ir/support/nearest.h"

#include <algorithm>

namespace stepfuse::ir {

namespace {

std::string dims_text(const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

Outcome known_name(const Graph& graph, const std::string& name, bool scalar) {
  std::vector<std::string> names;
  for (const Input& input : graph.inputs()) {
    if (input.kind == InputKind::Step || input.type.scalar != scalar) continue;
    if (input.name == name) return {};
    names.push_back(input.name);
  }
  const std::string_view what = scalar ? "hyperparameter" : "tensor input";
  return with_hint(fail(StatusCode::InvalidArgument, "recipe @{} has no {} '{}'; it has: {}", graph.name, what, name,
                        names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
                   did_you_mean(name, names));
}

bool holds_elements(const Tensor& tensor) {
  uint64_t elements = 1;
  for (int64_t extent : tensor.dims) {
    if (extent < 0) return false;
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements)) return false;
  }
  return elements == tensor.data.size();
}

}  // namespace

Result<BoundInputs> BoundInputs::bind(const Graph& graph, const Bindings& bindings, Evaluation evaluation) {
  BoundInputs bound(graph, bindings, evaluation);
  STEPFUSE_TRY(bound.check_names());
  for (const Input& input : graph.inputs()) {
    const auto it = bindings.tensors.find(input.name);
    if (it == bindings.tensors.end()) continue;
    STEPFUSE_TRY(bound.check_tensor(input, it->second));
    STEPFUSE_TRY(bound.bind_extents(input, it->second));
  }
  for (const Input& input : graph.inputs()) {
    STEPFUSE_ASSIGN(Array array, input.type.scalar ? bound.bound_scalar(input) : bound.bound_tensor(input));
    bound.arrays_.push_back(std::move(array));
  }
  return bound;
}

Outcome BoundInputs::check_names() const {
  for (const auto& [name, tensor] : bindings_.tensors) STEPFUSE_TRY(known_name(graph_, name, false));
  for (const auto& [name, value] : bindings_.scalars) STEPFUSE_TRY(known_name(graph_, name, true));
  for (const std::string& name : bindings_.fresh) {
    const Input* input = graph_.find_input(name);
    if (input == nullptr || input->kind != InputKind::State)
      return fail(StatusCode::InvalidArgument, "recipe @{} has no state '{}' that could be fresh", graph_.name, name);
  }
  return {};
}

Outcome BoundInputs::check_tensor(const Input& input, const Tensor& tensor) const {
  if (tensor.dtype != input.type.dtype)
    return fail(StatusCode::InvalidArgument, "tensor '{}' is {}, but the recipe declares {}", input.name,
                dtype_name(tensor.dtype), dtype_name(input.type.dtype));
  if (tensor.dims.size() != input.type.shape.rank)
    return fail(StatusCode::InvalidArgument, "tensor '{}' has shape {}, but the recipe declares {}", input.name,
                dims_text(tensor.dims), type_text(graph_, input.type));
  if (holds_elements(tensor)) return {};
  return fail(StatusCode::InvalidArgument, "tensor '{}' has shape {}, but {} elements", input.name,
              dims_text(tensor.dims), tensor.data.size());
}

Outcome BoundInputs::bind_extents(const Input& input, const Tensor& tensor) {
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    const Extent extent = input.type.shape.dims[i];
    if (extent.is_symbol() && !extents_[extent.symbol_index()]) {
      extents_[extent.symbol_index()] = tensor.dims[i];
      bound_by_[extent.symbol_index()] = input.name;
    }
    const int64_t expected = extent.is_symbol() ? *extents_[extent.symbol_index()] : extent.value();
    if (tensor.dims[i] == expected) continue;
    const std::string why = extent.is_symbol() ? fmt::format("'{}' makes {} {}", bound_by_[extent.symbol_index()],
                                                             graph_.symbols()[extent.symbol_index()], expected)
                                               : fmt::format("the recipe declares {}", type_text(graph_, input.type));
    return fail(StatusCode::InvalidArgument, "tensor '{}' has shape {}, but {}", input.name, dims_text(tensor.dims),
                why);
  }
  return {};
}

Dims3 BoundInputs::dims_of(const Shape& shape) const {
  Dims3 dims{1, 1, 1};
  for (int i = 0; i < shape.rank; ++i) {
    const Extent extent = shape.from_end(i);
    const auto at = static_cast<size_t>(kMaxRank - 1 - i);
    dims[at] = extent.is_symbol() ? extents_[extent.symbol_index()].value_or(0) : extent.value();
  }
  return dims;
}

Result<Array> BoundInputs::bound_tensor(const Input& input) const {
  Array array{input.type.dtype, input.type.shape.rank, dims_of(input.type.shape), {}};
  const auto it = bindings_.tensors.find(input.name);
  if (it != bindings_.tensors.end()) {
    std::vector<double> values = it->second.data;
    for (double& value : values) value = round_to(array.dtype, value);
    store(array, std::move(values), evaluation_);
    return array;
  }
  if (input.kind != InputKind::State || bindings_.fresh.count(input.name) == 0)
    return fail(StatusCode::InvalidArgument, "no tensor for the input '{}' of recipe @{}", input.name, graph_.name);
  for (size_t i = 0; i < input.type.shape.rank; ++i) {
    const Extent extent = input.type.shape.dims[i];
    if (extent.is_symbol() && !extents_[extent.symbol_index()])
      return fail(StatusCode::InvalidArgument, "the fresh state '{}' needs {}, which no tensor gives", input.name,
                  graph_.symbols()[extent.symbol_index()]);
  }
  store(array, std::vector<double>(static_cast<size_t>(elements_of(array.dims))), evaluation_);
  return array;
}

Result<Array> BoundInputs::bound_scalar(const Input& input) const {
  Array array{DType::F64, 0, {1, 1, 1}, {}};
  if (input.kind == InputKind::Step) {
    array.data = std::vector<double>{static_cast<double>(bindings_.step)};
    return array;
  }
  const auto it = bindings_.scalars.find(input.name);
  if (it == bindings_.scalars.end() && !input.default_value)
    return fail(StatusCode::InvalidArgument, "no value for '{}' of recipe @{}, which has no default", input.name,
                graph_.name);
  const double value = it == bindings_.scalars.end() ? *input.default_value : it->second;
  if (!input.range.contains(value))
    return fail(StatusCode::InvalidArgument, "'{}' is {}; expected a value in {}", input.name, value,
                interval_text(input.range));
  array.data = std::vector<double>{value};
  return array;
}

}  // namespace stepfuse::ir
