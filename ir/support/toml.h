// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// toml++ asserts where some malformed documents lead it (a line that begins with a dot, say); in a release build it even
// promises the compiler that this cannot happen. Include it through this file: such a document throws here, in every
// build, as std::invalid_argument.

#include <stdexcept>

// Some of the assertions stand in noexcept functions; none of those depends on the document.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wterminate"
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? void() : throw std::invalid_argument("this is no TOML"))
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
#pragma GCC diagnostic pop
