// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "ir/type.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse::tools {

struct ManifestTensor {
  std::string name;
  std::vector<int64_t> shape;
  ir::DType dtype = ir::DType::F32;
  std::optional<ir::DType> grad, state;  // nothing: as the parameter
};

/// A model's parameter list in TOML, without data:
///   dtype = "f32"                                             # of tensors that do not say; f32 if absent
///   tensors = [
///     { name = "wte.weight", shape = [50257, 768] },
///     { name = "w", shape = [8, 8], dtype = "bf16", grad = "bf16", state = "f32" },
///     { name = "h.{}.ln.weight", shape = [768], repeat = 12 },                  # h.0.ln.weight to h.11.ln.weight
///     { name = "h.{}.experts.{}.w", shape = [768, 64], repeat = [12, 8] },      # 96 of them, the last number fastest
///   ]
/// Errors name the file, the line and the tensor.
Result<std::vector<ManifestTensor>> read_manifest(const std::string& path);

}  // namespace stepfuse::tools
