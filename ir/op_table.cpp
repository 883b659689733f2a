// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/op_table.h"

#include "ir/op.h"

#include <array>

#include <fmt/format.h>

namespace stepfuse::ir {

namespace {

std::string_view family_name(OpFamily op_family) {
  constexpr std::array<std::string_view, 7> kNames{"source", "elementwise", "scalar only", "view",
                                                   "move",   "reduce",      "product"};
  return kNames[static_cast<size_t>(op_family)];
}

std::string arity_text(const OpInfo& info) {
  if (info.op == Op::Matmul) return "2, 3 or 5";
  return info.arity_min == info.arity_max ? fmt::format("{}", info.arity_min)
                                          : fmt::format("{} to {}", info.arity_min, info.arity_max);
}

/// A bar would end the table's cell.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

}  // namespace

std::string ops_markdown() {
  std::string out = "| op | family | operands | exact definition |\n|---|---|---|---|\n";
  for (const OpInfo& info : all_ops())
    out += fmt::format("| `{}` | {} | {} | {} |\n", info.mnemonic, family_name(info.family), arity_text(info),
                       cell(info.definition));
  return out;
}

}  // namespace stepfuse::ir
