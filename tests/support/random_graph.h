// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <random>
#include <vector>

namespace stepfuse::tests {

struct RandomGraphOptions {
  int ops = 8;
  bool products = false;  // with products, and reductions over at least two chunks of 4096
};

struct RandomGraph {
  ir::Graph graph;
  std::vector<int64_t> shape;  // of the parameter
};

/// A legal rule of about `ops` ops over one parameter, a gradient and two states, of any types and views.
RandomGraph make_random_graph(uint64_t seed, const RandomGraphOptions& options);

}  // namespace stepfuse::tests
