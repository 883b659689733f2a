// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What a parameter is for, as its name tells. StateSpace: the small tensors of Mamba's recurrence. Adapter: LoRA.
enum class Role : uint8_t { Adapter, Bias, Norm, Router, Head, StateSpace, Embedding, Hidden, Unknown };
std::string_view role_name(Role role);  // "embedding"; the words that no_decay takes
std::optional<Role> parse_role(std::string_view word);

/// Dotted segments, with * at their ends or ? within, that stand side by side in a name; ^ is the name's beginning
/// (behind wrappers such as "module."), $ its end. Case does not count.
struct NameRule {
  Role role;
  std::string_view pattern;
  std::string_view models;  // whose names these are
};
/// The first that matches a name decides.
std::span<const NameRule> name_rules();

struct NamedRole {
  Role role = Role::Unknown;
  std::string matched;  // the segments of the name that gave it away: "wte"
};
NamedRole role_of(std::string_view name);

/// Where a parameter goes when nothing else says so: hidden matrices to Muon, everything else to AdamW.
struct DefaultChoice {
  bool matrix = false;  // to Muon
  Role role = Role::Unknown;
  std::string reason;  // "name rule: embedding (wte)", "ndim is 1"
};
/// Without `by_name`, every matrix is a hidden one.
DefaultChoice default_choice(const NamedRole& named, const std::vector<int64_t>& shape, bool by_name = true);

}  // namespace stepfuse::runtime
