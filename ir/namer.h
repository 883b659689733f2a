// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stepfuse::ir {

/// [A-Za-z_][A-Za-z0-9_]*
bool is_identifier(std::string_view text);

/// A unique identifier for every value of a graph, the same in dumps and in generated code. Given names are kept where
/// they are unique identifiers; unnamed values are numbered by op ("mul_1").
class NodeNamer {
 public:
  explicit NodeNamer(const Graph& graph);
  const std::string& name(ValueId id) const { return names_[id.v]; }

 private:
  std::string unique(const std::string& wanted);
  std::string numbered(const std::string& base);

  std::vector<std::string> names_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, uint32_t> last_number_;
};

}  // namespace stepfuse::ir
