// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/type.h"
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

}  // namespace stepfuse::tools
