// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/memory_view.h"
#include "runtime/cpu/prepared.h"

#include <span>

namespace stepfuse::runtime {

/// Calls the library for each member and batch entry, the matrices shared by the threads. `scratch` is one pointer per
/// thread.
void run_library(const compiler::GroupPlan& group, const PreparedStep& step, std::span<const MemberMemory> members,
                 ThreadPool& pool, std::span<std::byte* const> scratch);

}  // namespace stepfuse::runtime
