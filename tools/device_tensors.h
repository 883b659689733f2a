// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"
#include "tools/state_io.h"

#include <vector>

namespace stepfuse::tools {

/// The tensors of a run where an optimizer's device reaches them: they themselves on a CPU, else copies.
class DeviceTensors {
 public:
  /// Binds all of them. `tensors` stay where they are until read_back() and the end of the steps; the optimizer
  /// outlives this.
  static Result<DeviceTensors> bind(runtime::Optimizer& optimizer, std::vector<RunTensor>& tensors);
  /// Waits for all steps and brings the parameters back.
  Outcome read_back(const runtime::Optimizer& optimizer, std::vector<RunTensor>& tensors) const;

 private:
  struct Copies {
    runtime::DeviceMemory data, gradient;
  };
  std::vector<Copies> copies_;  // none on a CPU
};

/// A state's elements in row-major order.
Result<std::vector<std::byte>> state_bytes(const runtime::Optimizer& optimizer, const runtime::StateView& state);

}  // namespace stepfuse::tools
