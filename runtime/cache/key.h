// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/hash.h"
#include "ir/support/status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What an entry of the cache holds.
enum class EntryKind : uint8_t {
  Kernel = 1,  // an object file, by kernel text and target
  Shape = 2,   // what a plan uses for one parameter shape
  Product = 3  // how a device's library computes a product of matrices
};
inline constexpr std::array kEntryKinds{EntryKind::Kernel, EntryKind::Shape, EntryKind::Product};
std::string_view entry_kind_name(EntryKind kind);  // "kernel", "shape", "product"
/// As files hold it.
std::optional<EntryKind> entry_kind(uint32_t number);

/// One named part of a key. Names are ours: letters, digits, '_' and '.'.
struct KeyField {
  std::string name;
  std::string value;  // any bytes
  friend bool operator==(const KeyField&, const KeyField&) = default;
};
using KeyFields = std::vector<KeyField>;

/// The preimage: readable, and different for different fields. One field a line, "name: value"; the further lines of a
/// value begin with a tab. The first line names the kind and the version of this form.
std::string key_text(EntryKind kind, const KeyFields& fields);
/// The fields again; the error says what is wrong with the text.
Result<KeyFields> parse_key_text(std::string_view text);

/// The value of a field; empty if there is none of that name.
std::string_view field(const KeyFields& fields, std::string_view name);

/// Names an entry. The hash finds it; only the equal preimage makes it the right one.
struct Key {
  EntryKind kind = EntryKind::Kernel;
  std::string preimage;
  ir::Hash128 hash;

  static Key of(EntryKind kind, const KeyFields& fields);
};

}  // namespace stepfuse::runtime
