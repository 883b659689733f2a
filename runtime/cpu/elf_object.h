// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// A section of the object that belongs into memory.
struct ElfSection {
  uint32_t number = 0;  // in the file, for messages
  bool executable = false;
  uint64_t alignment = 1;  // a power of two, at most kMaxSectionAlignment
  std::span<const std::byte> bytes;
};

/// *(i32*)(sections[section] + offset) = sections[target] + addend - that place. `addend` holds the symbol's value too.
struct ElfRelocation {
  uint32_t section = 0, target = 0;  // indices into ElfObject::sections
  uint64_t offset = 0;
  int64_t addend = 0;
};

/// A relocatable x86-64 object of which everything has been checked: it needs nothing from outside, writes to none of
/// its own memory, and each relocation lies in one section and points into another.
struct ElfObject {
  std::vector<ElfSection> sections;  // they view the object's bytes
  std::vector<ElfRelocation> relocations;
  uint32_t entry_section = 0;  // executable
  uint64_t entry_offset = 0;
};

inline constexpr size_t kMaxObjectBytes = size_t{16} << 20;
inline constexpr uint64_t kMaxSectionAlignment = 4096;

/// Reads `object`, which may be damaged in any way, and finds the one global function `symbol` in it. InvalidData says
/// what is wrong; whatever this reader does not know is refused.
Result<ElfObject> read_elf_object(std::span<const std::byte> object, std::string_view symbol);

}  // namespace stepfuse::runtime
