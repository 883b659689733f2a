// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "ir/type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::tools {

struct ManifestTensor {
  std::string name;
  std::vector<int64_t> shape;
  ir::DType dtype = ir::DType::F32;
};

/// A model's parameter list in TOML, without data:
///   dtype = "f32"                                             # of tensors that do not say; f32 if absent
///   tensors = [ { name = "wte.weight", shape = [50257, 768] }, ... ]
/// Errors name the file, the line and the tensor.
Result<std::vector<ManifestTensor>> read_manifest(const std::string& path);

}  // namespace stepfuse::tools
