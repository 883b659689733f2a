// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"
#include "ir/support/status.h"
#include "runtime/config/settings.h"

#include <string>

namespace stepfuse::runtime {

/// "cpu", "x86-64-v3", "x86-64-v4", "interp", "cuda", and CUDA's architectures such as "sm_90" are targets. Other names
/// are refused with the legal ones.
Outcome check_target(const std::string& target);

/// What the compiler must know of a target; only "cuda" looks for a device.
Result<compiler::TargetTraits> target_traits(const std::string& target, const Settings& settings);

/// Whether an optimizer can step on the target; architectures of CUDA are compiled for and no more.
Outcome check_target_steps(const std::string& target);

}  // namespace stepfuse::runtime
