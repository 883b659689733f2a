// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"
#include "compiler/plan.h"

namespace stepfuse::compiler {

/// Gives the rows of scratch matrices that products read or write a distance of whole TargetTraits::row_bytes: matrix
/// units want rows that begin at multiples of 16 bytes. After schedule(), before lanes are assigned.
void pad_rows(GroupPlan& group, const PassContext& context);

}  // namespace stepfuse::compiler
