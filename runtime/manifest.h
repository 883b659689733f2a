// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"

#include <string>
#include <vector>

namespace stepfuse::runtime {

/// Parameters as a manifest, which commands take for --params: names, shapes, element types of parameter, gradient and
/// states. Unsupported: a tensor with strides, as a manifest holds dense ones only. InvalidArgument: a name that is no
/// UTF-8.
Result<std::string> manifest_text(const std::vector<compiler::PlannedParameter>& parameters);

/// Those of an optimizer; the file is either its old self or the whole new one.
Outcome write_manifest(const Optimizer& optimizer, const std::string& path);

}  // namespace stepfuse::runtime
