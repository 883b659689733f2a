// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/key.h"

#include <algorithm>
#include <cctype>

namespace stepfuse::runtime {

namespace {

constexpr int kKeyVersion = 1;

bool is_field_name(std::string_view name) {
  const auto legal = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), legal);
}

/// Takes the next line, without its end, off `text`.
std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::string_view entry_kind_name(EntryKind kind) {
  constexpr std::array<std::string_view, kEntryKinds.size()> kNames{"kernel", "shape", "product"};
  return kNames[static_cast<size_t>(kind) - 1];
}

std::optional<EntryKind> entry_kind(uint32_t number) {
  for (const EntryKind kind : kEntryKinds)
    if (number == static_cast<uint32_t>(kind)) return kind;
  return std::nullopt;
}

std::string key_text(EntryKind kind, const KeyFields& fields) {
  std::string text = fmt::format("stepfuse {} {}\n", entry_kind_name(kind), kKeyVersion);
  for (const auto& [name, value] : fields) {
    STEPFUSE_CHECK(is_field_name(name), "'{}' is no name of a key's field", name);
    text += name + ": ";
    for (const char c : value) {
      text += c;
      if (c == '\n') text += '\t';
    }
    text += '\n';
  }
  return text;
}

Result<KeyFields> parse_key_text(std::string_view text) {
  if (!text.ends_with('\n')) return fail(StatusCode::InvalidData, "the key does not end in a line end");
  if (!next_line(text).starts_with("stepfuse ")) return fail(StatusCode::InvalidData, "the key has no version line");
  KeyFields fields;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (line.starts_with('\t') && !fields.empty()) {
      fields.back().value.append("\n").append(line.substr(1));
      continue;
    }
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos || !is_field_name(line.substr(0, colon)))
      return fail(StatusCode::InvalidData, "'{}' is no field of a key", line);
    fields.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 2))});
  }
  return fields;
}

std::string_view field(const KeyFields& fields, std::string_view name) {
  const auto it = std::find_if(fields.begin(), fields.end(), [&](const KeyField& f) { return f.name == name; });
  return it == fields.end() ? std::string_view() : it->value;
}

Key Key::of(EntryKind kind, const KeyFields& fields) {
  std::string text = key_text(kind, fields);
  const ir::Hash128 hash = ir::hash_bytes(text);
  return {kind, std::move(text), hash};
}

}  // namespace stepfuse::runtime
