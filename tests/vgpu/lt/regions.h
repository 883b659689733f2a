// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which bytes of device memory a product touches. What lies between the lines of a matrix is not among them.

#include "tests/vgpu/lt/driver.h"
#include "tests/vgpu/lt/problem.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::vgpu::lt {

/// Where the matrices of one product of a batch lie.
struct Addresses {
  uint64_t a, b, c, d;
};

/// The lines of one matrix, neighbours joined.
std::vector<VgpuRange> lines_of(const Matrix& matrix, uint64_t base);

/// How the matrices of the batch overlap where they must not; empty if all is well. D may be C itself, if both have one
/// layout; else no byte of D may belong to A, B, C, the workspace or another D. `c_is_read`: else C does not matter.
std::string find_overlap(const Problem& problem, std::span<const Addresses> products, bool c_is_read,
                         const VgpuRange& workspace);

/// What is read and written, for the driver.
struct Regions {
  std::vector<VgpuRange> reads, writes;
};
Regions regions_of(const Problem& problem, std::span<const Addresses> products, bool c_is_read);

}  // namespace stepfuse::vgpu::lt
