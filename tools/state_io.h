// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"
#include "runtime/safetensors.h"

#include <cstddef>
#include <string>
#include <vector>

namespace stepfuse::tools {

/// A parameter of `run` in memory of its own.
struct RunTensor {
  std::string name;
  ir::DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
  std::vector<std::byte> gradient;  // as long as `data`
  bool has_gradient = false;
};

/// Reads parameters and gradients. Gradients must name parameters and agree in shape and element type; a parameter
/// without one is reported through `missing` and stays as it is.
Result<std::vector<RunTensor>> read_tensors(const runtime::SafetensorsFile& params,
                                            const runtime::SafetensorsFile& grads, std::vector<std::string>& missing);

// State files. A state tensor is named PARAMETER.KEY with torch's keys. A rule that counts steps has PARAMETER.step
// besides (F32, no dimensions), as torch exports it; for the others a step tensor is refused like any unknown name. A
// parameter has all of its tensors in a file, or none: then its first step is still to come.

/// Fills the states of `optimizer`, whose parameters are those of `tensors` by index. Nothing is changed on error.
Outcome import_states(runtime::Optimizer& optimizer, const std::vector<RunTensor>& tensors,
                      const runtime::SafetensorsFile& file);

/// States of the parameters that have taken a step, here or before they were imported. Pointers lead into `optimizer`
/// and into `counters`.
Result<std::vector<runtime::TensorToWrite>> export_states(const runtime::Optimizer& optimizer,
                                                          const std::vector<RunTensor>& tensors,
                                                          std::vector<float>& counters);

}  // namespace stepfuse::tools
