// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse {

/// Insertions, deletions, replacements and exchanges of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate a person most likely meant: the closest one, if it is close enough for the length. Empty if none is.
/// The first of equally close candidates wins.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);
std::string nearest_name(std::string_view name, std::span<const std::string_view> candidates);

/// "did you mean 'lr'?", or empty.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

/// A hint: did_you_mean(), then `list` ("the options are ...").
std::string suggestion(std::string_view name, std::span<const std::string_view> candidates, std::string_view list);

}  // namespace stepfuse
