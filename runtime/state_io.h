// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"
#include "runtime/safetensors.h"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::runtime {

// The states of an optimizer as safetensors. A state tensor is named PARAMETER.KEY with torch's keys, and is dense
// whatever its layout in memory. A rule that counts steps has PARAMETER.step besides (F32, no dimensions), as torch
// exports it; for the others a step tensor is refused like any unknown name. A parameter has all of its tensors in a
// file, or none: then its first step is still to come. Parameters are matched by name; their order means nothing.
//
// All functions want a prepared optimizer, and memory bound to every state that the caller owns. They must not run
// beside a step.

/// A whole safetensors file in memory.
Result<std::vector<std::byte>> export_state(const Optimizer& optimizer);

/// Replaces all states and step counts: a parameter that `bytes` does not name starts afresh, as with torch. Nothing is
/// changed on error. `bytes` is read during the call only.
Outcome import_state(Optimizer& optimizer, std::span<const std::byte> bytes);
/// The same from an open file (with data).
Outcome import_state(Optimizer& optimizer, const SafetensorsFile& file);

/// `path` is either its old self or the whole new file.
Outcome save_state(const Optimizer& optimizer, const std::string& path,
                   const std::map<std::string, std::string>& metadata = {});
Outcome load_state(Optimizer& optimizer, const std::string& path);

}  // namespace stepfuse::runtime
