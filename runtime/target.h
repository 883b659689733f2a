// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"
#include "ir/support/status.h"

#include <string>

namespace stepfuse::runtime {

/// What the compiler must know of a target: "cpu", "x86-64-v3", "x86-64-v4", "interp". GPU targets are refused as not
/// yet there, other names with the legal ones.
Result<compiler::TargetTraits> target_traits(const std::string& target);

}  // namespace stepfuse::runtime
