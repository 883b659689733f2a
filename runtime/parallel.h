// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstdint>
#include <functional>

namespace stepfuse::runtime {

/// Calls `work` for 0 .. count - 1 on at most `threads` threads (0: one per core this process may use), this one among
/// them. After a failure no further number is begun. The failure of the smallest number, if any; what a call throws
/// goes on here.
Outcome parallel_for(int64_t count, int64_t threads, const std::function<Outcome(int64_t)>& work);

}  // namespace stepfuse::runtime
