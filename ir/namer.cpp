// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/namer.h"

#include <algorithm>

#include <fmt/format.h>

namespace stepfuse::ir {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) { return is_letter(c) || is_digit(c); }

std::string to_identifier(const std::string& text) {
  std::string out = text;
  std::replace_if(out.begin(), out.end(), [](char c) { return !is_name_char(c); }, '_');
  return is_digit(out.front()) ? "_" + out : out;
}

}  // namespace

bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), is_name_char);
}

// Given names come first, so that no number of an unnamed value displaces one; a printed and parsed graph, in which
// more values have names, then gets the same names again.
NodeNamer::NodeNamer(const Graph& graph) : names_(graph.size()) {
  for (const Input& input : graph.inputs())
    if (!input.name.empty()) names_[input.value.v] = unique(to_identifier(input.name));
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const std::string& given = graph.value_name(ValueId{i});
    if (names_[i].empty() && !given.empty()) names_[i] = unique(to_identifier(given));
  }
  for (uint32_t i = 0; i < graph.size(); ++i)
    if (names_[i].empty()) names_[i] = numbered(std::string(op_info(graph.node(ValueId{i}).op).mnemonic));
}

std::string NodeNamer::unique(const std::string& wanted) {
  return taken_.insert(wanted).second ? wanted : numbered(wanted);
}

std::string NodeNamer::numbered(const std::string& base) {
  for (;;) {
    std::string name = fmt::format("{}_{}", base, ++last_number_[base]);
    if (taken_.insert(name).second) return name;
  }
}

}  // namespace stepfuse::ir
