// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "ir/support/status.h"

namespace stepfuse::codegen {

/// Whether `spec` is well formed; Internal otherwise, since the compiler made it.
Outcome check_spec(const KernelSpec& spec);

}  // namespace stepfuse::codegen
