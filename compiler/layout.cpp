// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout.h"

#include "compiler/signature.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

namespace stepfuse::compiler {

namespace {

bool is_empty(const std::vector<int64_t>& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

std::string list(const std::vector<int64_t>& numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

Outcome check_positive(const std::string& tensor, const std::vector<int64_t>& shape, const Strides& strides) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1 && strides[d] <= 0)
      return with_hint(fail(StatusCode::InvalidArgument, "{}: the stride of dimension {} is {}", tensor, d, strides[d]),
                       "strides are 1 or more, in elements; copy a flipped or expanded tensor first");
  return {};
}

/// Elements that `strides` span, or nothing when their bytes exceed 63 bits.
std::optional<int64_t> checked_span(const std::vector<int64_t>& shape, const Strides& strides, int64_t element_bytes) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t reach = 0;
    if (shape[d] > 1 &&
        (__builtin_mul_overflow(shape[d] - 1, strides[d], &reach) || __builtin_add_overflow(last, reach, &last)))
      return std::nullopt;
  }
  int64_t bytes = 0;
  if (last == std::numeric_limits<int64_t>::max() || __builtin_mul_overflow(last + 1, element_bytes, &bytes))
    return std::nullopt;
  return last + 1;
}

bool is_nested(const std::vector<int64_t>& shape, const Strides& strides) {
  std::vector<size_t> order;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t reach = 1;
  for (size_t d : order) {
    if (strides[d] < reach) return false;
    reach += (shape[d] - 1) * strides[d];
  }
  return true;
}

/// Dimensions by falling stride of the first tensor, ties by those after it: the order of the first in memory.
std::vector<size_t> memory_order(const Dimensions& dimensions) {
  std::vector<size_t> order(dimensions.extents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    for (const Strides& strides : dimensions.strides)
      if (strides[a] != strides[b]) return strides[a] > strides[b];
    return false;
  });
  return order;
}

Dimensions reorder(const Dimensions& from, const std::vector<size_t>& order) {
  Dimensions to;
  to.strides.resize(from.strides.size());
  for (size_t d : order) {
    to.extents.push_back(from.extents[d]);
    for (size_t t = 0; t < from.strides.size(); ++t) to.strides[t].push_back(from.strides[t][d]);
  }
  return to;
}

std::vector<size_t> tensor_inputs(const ir::Graph& rule) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < rule.inputs().size(); ++i)
    if (!rule.inputs()[i].type.scalar) inputs.push_back(i);
  return inputs;
}

Result<LaidOutRule> flatten_rule(const ir::Graph& rule, const std::vector<int64_t>& shape,
                                 const std::vector<Strides>& layouts) {
  const std::vector<size_t> inputs = tensor_inputs(rule);
  std::vector<Strides> tensors;
  for (size_t i : inputs) tensors.push_back(layouts[i]);
  const Dimensions in_order = coalesce(shape, tensors);
  const Dimensions sorted = reorder(in_order, memory_order(in_order));
  const Dimensions fewest = coalesce(sorted.extents, sorted.strides);
  LaidOutRule out;
  bool dense = true;
  out.layouts.resize(layouts.size());
  for (size_t t = 0; t < inputs.size(); ++t) {
    out.layouts[inputs[t]] = normalise_strides(fewest.extents, fewest.strides[t]);
    dense = dense && out.layouts[inputs[t]].empty();
  }
  if (dense) {
    STEPFUSE_ASSIGN(out.rule, specialise(rule, shape));
    out.layouts.clear();
    return out;
  }
  if (fewest.extents.size() > static_cast<size_t>(ir::kMaxRank))
    return with_hint(fail(StatusCode::Unsupported,
                          "rule {}: its tensors of shape {} need {} strides to be walked together; {} are supported",
                          rule.name, list(shape), fewest.extents.size(), ir::kMaxRank),
                     "make the tensors contiguous, or give all of them one order of dimensions");
  STEPFUSE_ASSIGN(out.rule, make_concrete(rule, fewest.extents));
  return out;
}

}  // namespace

Strides dense_strides(const std::vector<int64_t>& shape) {
  Strides strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
  return strides;
}

int64_t span_elements(const std::vector<int64_t>& shape, const Strides& strides) {
  if (is_empty(shape)) return 0;
  if (strides.empty()) return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) last += (shape[d] - 1) * strides[d];
  return last + 1;
}

Outcome check_strides(const std::string& tensor, const std::vector<int64_t>& shape, const Strides& strides,
                      int64_t element_bytes) {
  if (strides.empty()) return {};
  if (strides.size() != shape.size())
    return with_hint(fail(StatusCode::InvalidArgument, "{}: {} strides {} for {} dimensions {}", tensor, strides.size(),
                          list(strides), shape.size(), list(shape)),
                     "give one stride per dimension, in elements, or none for a dense tensor");
  if (is_empty(shape)) return {};
  STEPFUSE_TRY(check_positive(tensor, shape, strides));
  if (!checked_span(shape, strides, element_bytes))
    return with_hint(fail(StatusCode::InvalidArgument, "{}: shape {} with strides {} exceeds 2^63 bytes", tensor,
                          list(shape), list(strides)),
                     "strides count elements, not bytes");
  if (is_nested(shape, strides)) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "{}: elements of shape {} with strides {} may share memory",
                        tensor, list(shape), list(strides)),
                   "each stride must be at least what the dimensions of smaller strides span; copy an expanded or "
                   "overlapping tensor first");
}

Strides normalise_strides(const std::vector<int64_t>& shape, const Strides& strides) {
  if (strides.empty() || is_empty(shape)) return {};
  Strides normal = strides;
  bool dense = true;
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0; expected *= shape[d]) {
    if (shape[d] == 1) normal[d] = 0;
    dense = dense && (shape[d] == 1 || normal[d] == expected);
  }
  return dense ? Strides() : normal;
}

Dimensions coalesce(const std::vector<int64_t>& shape, const std::vector<Strides>& tensors) {
  Dimensions out;
  out.strides.resize(tensors.size());
  const Strides dense = dense_strides(shape);
  const auto stride = [&](size_t t, size_t d) { return tensors[t].empty() ? dense[d] : tensors[t][d]; };
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool one_line = !out.extents.empty();
    for (size_t t = 0; t < tensors.size(); ++t) one_line = one_line && out.strides[t].back() == shape[d] * stride(t, d);
    if (!one_line) out.extents.push_back(1);
    out.extents.back() *= shape[d];
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (!one_line) out.strides[t].push_back(0);
      out.strides[t].back() = stride(t, d);
    }
  }
  return out;
}

std::vector<int64_t> input_shape(const ir::Input& input, const std::vector<int64_t>& parameter_shape) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < input.type.shape.rank; ++i) {
    if (input.type.shape.dims[i].is_symbol()) return parameter_shape;
    shape.push_back(input.type.shape.dims[i].value());
  }
  return shape;
}

Result<LaidOutRule> lay_out(const ir::Graph& rule, const std::vector<int64_t>& shape,
                            const std::vector<Strides>& layouts) {
  const bool dense =
      std::all_of(layouts.begin(), layouts.end(), [](const Strides& strides) { return strides.empty(); });
  LaidOutRule out;
  if (!dense && !is_empty(shape)) {
    if (is_shape_free(rule)) return flatten_rule(rule, shape, layouts);
    out.layouts = layouts;
  }
  STEPFUSE_ASSIGN(out.rule, specialise(rule, shape));
  return out;
}

bool product_reads(const Strides& strides) {
  if (strides.size() < 2) return strides.empty();
  const int64_t row = strides[strides.size() - 2];
  const int64_t column = strides.back();
  return column <= 1 || row <= 1;
}

bool product_writes(const Strides& strides) { return strides.empty() || strides.back() <= 1; }

}  // namespace stepfuse::compiler
