// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the library remembers between calls, other than descriptors.

#include "tests/vgpu/lt/driver.h"
#include "tests/vgpu/lt/lt_control.h"
#include "tests/vgpu/lt/report.h"

#include <cstdint>

namespace stepfuse::vgpu::lt {

/// The handle lives and its context is the current one. Complains if not.
cublasStatus_t check_handle(const char* where, cublasLtHandle_t handle);
size_t live_handles();

bool no_algorithms();
void count_heuristic();
void count_matmul(const VgpuLtMatmul& product);
/// Returns how many products ran before: what an unordered sum takes for chance.
uint64_t count_run(int64_t m, int64_t n, int64_t k);

}  // namespace stepfuse::vgpu::lt
