// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/vgpu_control.h"

#include <string>

namespace stepfuse::tests {

/// The controls of the virtual driver, in the library that the dynamic loader finds under the driver's name. On a real
/// driver they are absent.
struct VirtualDriver {
  decltype(&vgpu_counters) counters = nullptr;
  decltype(&vgpu_reset_counters) reset_counters = nullptr;
  decltype(&vgpu_call_count) call_count = nullptr;
  decltype(&vgpu_set_seed) set_seed = nullptr;
  decltype(&vgpu_set_eager) set_eager = nullptr;
  decltype(&vgpu_fail_allocations) fail_allocations = nullptr;
  decltype(&vgpu_last_fault) last_fault = nullptr;
  decltype(&vgpu_set_find_races) set_find_races = nullptr;
};

/// Null on a real driver, and where there is none.
const VirtualDriver* virtual_driver();

/// Why the CUDA executor cannot run here; empty if it can.
std::string why_no_device();

}  // namespace stepfuse::tests
