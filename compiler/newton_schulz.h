// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <vector>

namespace stepfuse::compiler {

/// X' = a X + b A X + c A A X with A = X X^T, or the mirror image X' = a X + b X A + c X A A with A = X^T X.
struct NewtonSchulzStep {
  ir::ValueId x, gram, next;
  bool left = true;  // A stands left of X
  double a = 0, b = 0, c = 0;
  struct Product {
    ir::ValueId value;
    bool symmetric = false;  // a polynomial of A
  };
  std::vector<Product> products;  // all of the step, in order
};

/// Steps of which each reads nothing but the result of the one before, which nobody else reads.
using NewtonSchulzChain = std::vector<NewtonSchulzStep>;

/// The Newton-Schulz iterations of a graph, however a rule writes them: a value is followed as a polynomial of A, or as
/// such a polynomial times X, through sums, constant factors, casts and products. Coefficients must be constants.
std::vector<NewtonSchulzChain> find_newton_schulz(const ir::Graph& graph);

}  // namespace stepfuse::compiler
