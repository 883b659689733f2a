// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small tools that several passes share. One pass is one file pair; the table is in compiler/pass.cpp.

#include "compiler/layout.h"
#include "compiler/pass.h"
#include "ir/graph.h"

#include <optional>
#include <string>

namespace stepfuse::compiler {

/// The value as a message shows it: its name, else its number.
std::string value_label(const ir::Graph& graph, ir::ValueId id);

/// A constant operand's value.
std::optional<double> constant_of(const ir::Graph& graph, ir::ValueId id);

/// Whether every dimension of the tensor has extent 1.
bool is_one_element(const ir::Graph& graph, ir::ValueId id);

/// Copies a node of `out` with another result element type.
ir::ValueId with_dtype(ir::Graph& out, const ir::Node& node, ir::DType dtype);

/// Emits the op if its operands type, which a pass's rewrite may find out only by trying.
std::optional<ir::ValueId> try_emit(ir::Graph& out, ir::Op op, std::span<const ir::ValueId> operands,
                                    const ir::Attr& attr, ir::DType dtype);

/// a * b for scalars and one-element tensors (f32), without the multiplication when a factor is 1.
ir::ValueId multiply_factors(ir::Graph& out, ir::ValueId a, ir::ValueId b);

/// Whether a product may read `id` as its C and write it: it is no input whose rows have gaps between their elements.
bool has_plain_rows(const ir::Graph& graph, ir::ValueId id, const std::vector<Strides>& layouts);

/// A view that exchanges rows and columns of the memory it looks at.
bool is_transposed_view(const ir::Graph& graph, ir::ValueId id);

}  // namespace stepfuse::compiler
