// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/program_symbols.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include <elf.h>
#include <link.h>

namespace stepfuse::tests {

namespace {

std::vector<char> read_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Our own file, just built: its offsets are trusted.
template <class T>
std::vector<T> read_array(const std::vector<char>& file, uint64_t offset, uint64_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), file.data() + offset, count * sizeof(T));
  return values;
}

}  // namespace

ProgramSymbols::ProgramSymbols() : file_(read_program()) {
  const auto header = read_array<Elf64_Ehdr>(file_, 0, 1)[0];
  const auto sections = read_array<Elf64_Shdr>(file_, header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const char* names = file_.data() + sections[section.sh_link].sh_offset;
    for (const auto& symbol : read_array<Elf64_Sym>(file_, section.sh_offset, section.sh_size / sizeof(Elf64_Sym)))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
        functions_.push_back({symbol.st_value, symbol.st_value + symbol.st_size, names + symbol.st_name});
  }
  std::sort(functions_.begin(), functions_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* bias) {
        *static_cast<uint64_t*>(bias) = info->dlpi_addr;
        return 1;  // the program itself comes first
      },
      &bias_);
}

std::string_view ProgramSymbols::function_at(const void* address) const {
  const uint64_t linked = reinterpret_cast<uint64_t>(address) - bias_;
  const auto next = std::upper_bound(functions_.begin(), functions_.end(), linked,
                                     [](uint64_t at, const Function& function) { return at < function.begin; });
  if (next == functions_.begin()) return {};
  const Function& function = *std::prev(next);
  return linked < function.end || function.begin == function.end ? function.name : std::string_view();
}

}  // namespace stepfuse::tests
