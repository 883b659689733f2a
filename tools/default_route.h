// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace stepfuse::tools {

/// Where a parameter goes when neither a recipe nor a config says so: "muon" for hidden matrices, "adamw" for the rest.
/// Embeddings and output heads are known by name: wte, wpe, embed, head. The router that config files bring takes this
/// function's place, with the same answers when there is no config.
std::string_view default_recipe(std::string_view name, const std::vector<int64_t>& shape);

}  // namespace stepfuse::tools
