// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace stepfuse {

/// The whole text as a number: decimal or hexadecimal float, "1e-7", "inf", "nan"; the nearest f64. Independent of the
/// locale. Nothing for anything else, surrounding blanks included.
std::optional<double> parse_number(std::string_view text);

}  // namespace stepfuse
