// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/frame.h"

namespace stepfuse::codegen {

/// The loops of the kernel's scheme around its body, `width` elements at a time where memory allows it.
void emit_scheme(Builder& b, const KernelSpec& spec, const Frame& frame, unsigned width);

}  // namespace stepfuse::codegen
