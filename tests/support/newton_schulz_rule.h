// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"
#include "ir/interpreter.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::tests {

/// Coefficients a, b, c of each step.
using Coefficients = std::vector<std::array<double, 3>>;

Coefficients simple_coefficients(int steps);
Coefficients quintic_coefficients();        // five steps
Coefficients polar_express_coefficients();  // five steps, each made safe by 1.05

/// A rule whose %p becomes the Newton-Schulz iteration of %g in `dtype`, written as the muon recipe writes it, on the
/// short side. `batch` 0: one matrix.
std::string newton_schulz_rule(const Coefficients& steps, int64_t rows, int64_t columns, ir::DType dtype,
                               int64_t batch = 0);

/// Standard normal numbers for %g, zeros for %p.
ir::Bindings gaussian_gradient(int64_t rows, int64_t columns, uint64_t seed, int64_t batch = 0);

/// A product of rank `rank`, plus noise of `noise` times its length: what gradients look like late in training.
ir::Bindings low_rank_gradient(int64_t rows, int64_t columns, int64_t rank, double noise, uint64_t seed);

/// The new %p.
std::vector<double> new_parameter(const ir::Graph& graph, const ir::Bindings& bindings, ir::Evaluation evaluation);

/// ||a - b|| / ||b||.
double relative_distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace stepfuse::tests
