// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/memory_view.h"
#include "runtime/cpu/prepared.h"

#include <span>

namespace stepfuse::runtime {

/// Runs one product for each member and batch entry, its pieces shared by the threads. `scratch` is one pointer per
/// thread.
void run_product(const compiler::GroupPlan& group, const PreparedStep& step, std::span<const MemberMemory> members,
                 ThreadPool& pool, std::span<std::byte* const> scratch);

}  // namespace stepfuse::runtime
