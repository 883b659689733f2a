// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/ptx_counts.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace stepfuse::runtime {

namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string without_comments(std::string_view ptx) {
  std::string text;
  while (!ptx.empty()) {
    const size_t line = ptx.find("//"), block = ptx.find("/*");
    const size_t begin = std::min({line, block, ptx.size()});
    text += ptx.substr(0, begin);
    text += ' ';
    const std::string_view rest = ptx.substr(begin);
    const size_t end = line < block ? rest.find('\n') : rest.find("*/");
    ptx = end == std::string_view::npos ? std::string_view() : rest.substr(end + (line < block ? 0 : 2));
  }
  return text;
}

/// The opcode of a statement, behind labels and a predicate.
std::string_view opcode_of(std::string_view statement) {
  statement = trimmed(statement);
  // A label's colon stands alone, unlike those of "ld.shared::cta".
  for (size_t end = statement.find_first_of(": \t\r\n");
       end != std::string_view::npos && statement[end] == ':' && !statement.substr(end).starts_with("::");
       end = statement.find_first_of(": \t\r\n"))
    statement = trimmed(statement.substr(end + 1));
  if (statement.starts_with('@'))
    statement = trimmed(statement.substr(std::min(statement.find_first_of(kBlank), statement.size())));
  return statement.substr(0, statement.find_first_of(kBlank));
}

/// Bytes of ".v4" times those of ".f32"; 0 if this is neither a load nor a store of ours.
int bytes_moved(std::string_view opcode) {
  int elements = 1, bits = 0;
  opcode.remove_prefix(2);
  while (!opcode.empty()) {
    opcode.remove_prefix(1);
    const std::string_view part = opcode.substr(0, opcode.find('.'));
    opcode.remove_prefix(part.size());
    if (part == "param" || part == "const" || part == "shared" || part == "local" || part.starts_with("shared::"))
      return 0;
    if (part == "v2" || part == "v4" || part == "v8") elements = part[1] - '0';
    int number = 0;
    const auto [end, error] =
        std::from_chars(part.data() + std::min<size_t>(1, part.size()), part.data() + part.size(), number);
    if (error == std::errc() && end == part.data() + part.size() && std::string_view("bsuf").find(part[0]) < 4)
      bits = number;
  }
  return elements * bits / 8;
}

}  // namespace

PtxCounts count_accesses(std::string_view ptx) {
  PtxCounts counts;
  const std::string text = without_comments(ptx);
  for (std::string_view rest = text; !rest.empty();) {
    // Braces end a statement too: they open scopes, or hold the registers of a vector, behind the opcode.
    const std::string_view statement = rest.substr(0, rest.find_first_of(";{}"));
    rest.remove_prefix(std::min(statement.size() + 1, rest.size()));
    const std::string_view opcode = opcode_of(statement);
    if (!opcode.starts_with("ld.") && !opcode.starts_with("st.")) continue;
    if (const int bytes = bytes_moved(opcode); bytes > 0) ++(opcode[0] == 'l' ? counts.loads : counts.stores)[bytes];
  }
  return counts;
}

std::string counts_text(const std::map<int, int>& by_bytes) {
  std::string text;
  for (auto it = by_bytes.rbegin(); it != by_bytes.rend(); ++it)
    text += fmt::format("{}{} bytes x {}", text.empty() ? "" : ", ", it->first, it->second);
  return text.empty() ? "none" : text;
}

}  // namespace stepfuse::runtime
