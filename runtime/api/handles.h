// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstdint>
#include <memory>

namespace stepfuse::api {

enum class HandleKind : uint8_t { Context = 1, Optimizer = 2 };

/// Handles of the C interface. A handle looks like a pointer and is a number: a mark, the kind, the generation and the
/// index of a slot in one table of the process. So a handle that was destroyed, is of the other kind or never was one
/// is told apart without touching memory. Thread-safe; objects live on while a caller of find() holds them.
void* insert_handle(HandleKind kind, std::shared_ptr<void> object);
Result<std::shared_ptr<void>> find_handle(HandleKind kind, const void* handle);
/// Takes the object out of the table; the handle is void from now on.
Result<std::shared_ptr<void>> remove_handle(HandleKind kind, const void* handle);

}  // namespace stepfuse::api
