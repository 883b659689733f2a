// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/config/config.h"
#include "runtime/config/raw_config.h"

namespace stepfuse::runtime {

/// The one schema of both spellings. Finds every error it can; the config is usable only when there are none.
Config apply_schema(const RawConfig& raw, Errors& errors);

}  // namespace stepfuse::runtime
