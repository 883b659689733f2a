// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"
#include "ir/support/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::compiler {

/// Of one tensor, by dimension, in elements; empty: dense, row-major.
using Strides = std::vector<int64_t>;

Strides dense_strides(const std::vector<int64_t>& shape);

/// Elements from the first to the last, both included; 0 for an empty tensor.
int64_t span_elements(const std::vector<int64_t>& shape, const Strides& strides);

/// One stride per dimension, positive, no two elements in one place, and an end that 64 bits can address. Distinct
/// places are told by nesting: sorted by stride, each stride reaches past all that the smaller ones span. `tensor`
/// names the tensor in errors.
Outcome check_strides(const std::string& tensor, const std::vector<int64_t>& shape, const Strides& strides,
                      int64_t element_bytes);

/// The same layout with its one canonical spelling: empty when dense, 0 for extents of 1.
Strides normalise_strides(const std::vector<int64_t>& shape, const Strides& strides);

/// Several tensors over the same extents.
struct Dimensions {
  std::vector<int64_t> extents;
  std::vector<Strides> strides;  // by tensor; none is empty unless there are no extents
};

/// The fewest dimensions that visit the elements in the same order: no extents of 1, and neighbours that are one line
/// in every tensor are one dimension.
Dimensions coalesce(const std::vector<int64_t>& shape, const std::vector<Strides>& tensors);

/// The extents of a tensor input: the parameter's where the rule leaves them open.
std::vector<int64_t> input_shape(const ir::Input& input, const std::vector<int64_t>& parameter_shape);

/// A rule and the strides of its inputs, by Graph::inputs(). No list at all: every input is dense.
struct LaidOutRule {
  ir::Graph rule;
  std::vector<Strides> layouts;
};

/// The rule for a parameter of this shape and these layouts: as specialise() gives it where everything is dense. A
/// shape-free rule with another layout becomes concrete over the fewest dimensions that fit all its tensors, which may
/// be visited in another order than the parameter's: its elements do not depend on each other. All other rules keep
/// their dimensions, and with them the order of their sums (row-major, whatever the layout).
Result<LaidOutRule> lay_out(const ir::Graph& rule, const std::vector<int64_t>& shape,
                            const std::vector<Strides>& layouts);

/// Whether a product can read, or write, a matrix of this layout without a copy: reading wants elements side by side
/// along rows or columns, writing along rows.
bool product_reads(const Strides& strides);
bool product_writes(const Strides& strides);

}  // namespace stepfuse::compiler
