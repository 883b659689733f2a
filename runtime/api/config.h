// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Config files behind the C interface.
#pragma once

#include "ir/support/status.h"

namespace stepfuse::api {

struct OptimizerObject;

/// Routes the parameters that wait for it, and adds them and their groups to the optimizer. After a failure it goes on
/// where it stopped.
Outcome add_routed(OptimizerObject& object);

}  // namespace stepfuse::api
