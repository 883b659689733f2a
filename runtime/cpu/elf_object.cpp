// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/elf_object.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include <elf.h>

namespace stepfuse::runtime {

namespace {

using Bytes = std::span<const std::byte>;

/// What an object of ours stays far below: a kernel has about ten sections, a dozen symbols and a hundred relocations.
constexpr size_t kMaxSections = 256;

// Newer than the C library's elf.h.
constexpr uint32_t kLlvmAddrsig = 0x6fff4c03;
#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001
#endif

template <class... Args>
tl::unexpected<Status> damaged(fmt::format_string<Args...> format, Args&&... args) {
  return fail(StatusCode::InvalidData, "not a kernel object: {}", fmt::format(format, std::forward<Args>(args)...));
}

/// The part [offset, offset + size), if the file has it.
std::optional<Bytes> part_of(Bytes file, uint64_t offset, uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) return std::nullopt;
  return file.subspan(offset, size);
}

/// Entry `index` of a table that holds it. Nothing in a file is aligned for us.
template <class T>
T entry_at(Bytes table, size_t index) {
  T entry;
  std::memcpy(&entry, table.data() + index * sizeof(T), sizeof(T));
  return entry;
}

class Reader {
 public:
  Reader(Bytes file, std::string_view symbol) : file_(file), wanted_(symbol) {}

  Result<ElfObject> run() {
    STEPFUSE_TRY(read_header());
    STEPFUSE_TRY(read_sections());
    STEPFUSE_TRY(check_overlaps());
    STEPFUSE_TRY(find_symbols());
    for (size_t i = 1; i < symbols_.size(); ++i) STEPFUSE_TRY(check_symbol(i, symbols_[i]));
    if (!found_) return damaged("it does not define '{}'", wanted_);
    for (size_t s = 1; s < headers_.size(); ++s)
      if (headers_[s].sh_type == SHT_RELA) STEPFUSE_TRY(read_relocations(s));
    return std::move(out_);
  }

 private:
  Outcome read_header() {
    if (file_.size() > kMaxObjectBytes) return damaged("{} bytes are more than {}", file_.size(), kMaxObjectBytes);
    if (file_.size() < sizeof(Elf64_Ehdr)) return damaged("{} bytes are too few", file_.size());
    const auto header = entry_at<Elf64_Ehdr>(file_, 0);
    constexpr std::array<unsigned char, EI_NIDENT> kIdent{ELFMAG0,    ELFMAG1,     ELFMAG2,    ELFMAG3,
                                                          ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE};
    if (std::memcmp(header.e_ident, kIdent.data(), kIdent.size()) != 0) return damaged("no 64-bit little-endian ELF");
    if (header.e_type != ET_REL || header.e_machine != EM_X86_64 || header.e_version != EV_CURRENT)
      return damaged("type {}, machine {}, version {}", header.e_type, header.e_machine, header.e_version);
    if (header.e_ehsize != sizeof(Elf64_Ehdr) || header.e_shentsize != sizeof(Elf64_Shdr) || header.e_flags != 0 ||
        header.e_entry != 0 || header.e_phnum != 0 || header.e_phoff != 0)
      return damaged("the file header is not that of a relocatable object");
    if (header.e_shnum < 2 || header.e_shnum > kMaxSections) return damaged("{} sections", header.e_shnum);
    table_offset_ = header.e_shoff;
    const auto table = part_of(file_, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
    if (!table) return damaged("the section table lies outside the file");
    for (size_t s = 0; s < header.e_shnum; ++s) headers_.push_back(entry_at<Elf64_Shdr>(*table, s));
    return {};
  }

  Outcome read_sections() {
    loaded_.resize(headers_.size());
    if (headers_[0].sh_type != SHT_NULL || headers_[0].sh_size != 0) return damaged("section 0 is not empty");
    for (size_t s = 1; s < headers_.size(); ++s) STEPFUSE_TRY(read_section(s, headers_[s]));
    return {};
  }

  Outcome read_section(size_t s, const Elf64_Shdr& header) {
    constexpr std::array<uint32_t, 9> kKnown{SHT_NULL, SHT_PROGBITS, SHT_SYMTAB,        SHT_STRTAB,  SHT_RELA,
                                             SHT_NOTE, SHT_NOBITS,   SHT_X86_64_UNWIND, kLlvmAddrsig};
    constexpr uint64_t kAllowed =
        SHF_ALLOC | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS | SHF_INFO_LINK | SHF_LINK_ORDER | SHF_EXCLUDE;
    if (std::find(kKnown.begin(), kKnown.end(), header.sh_type) == kKnown.end())
      return damaged("section {} has type {:#x}", s, header.sh_type);
    if ((header.sh_flags & ~kAllowed) != 0)
      return damaged("section {} has flags {:#x}: writable, thread-local or unknown", s, header.sh_flags);
    const bool allocated = (header.sh_flags & SHF_ALLOC) != 0;
    if (header.sh_type == SHT_NOBITS)
      return allocated && header.sh_size > 0 ? Outcome(damaged("section {} needs zeroed memory", s)) : Outcome{};
    const auto bytes = part_of(file_, header.sh_offset, header.sh_size);
    if (!bytes) return damaged("section {} lies outside the file", s);
    // Allocated notes and unwind tables are for others to read; nothing refers to them.
    if (!allocated || header.sh_type == SHT_NOTE || header.sh_type == SHT_X86_64_UNWIND) return {};
    if (header.sh_type != SHT_PROGBITS) return damaged("section {} of type {:#x} is loaded", s, header.sh_type);
    const uint64_t alignment = std::max<uint64_t>(header.sh_addralign, 1);
    if (!std::has_single_bit(alignment) || alignment > kMaxSectionAlignment)
      return damaged("section {} has alignment {}", s, header.sh_addralign);
    loaded_[s] = static_cast<uint32_t>(out_.sections.size());
    out_.sections.push_back({static_cast<uint32_t>(s), (header.sh_flags & SHF_EXECINSTR) != 0, alignment, *bytes});
    return {};
  }

  /// No byte of the file may mean two things: file header, section table and sections lie apart.
  Outcome check_overlaps() const {
    std::vector<std::pair<uint64_t, uint64_t>> ranges{
        {0, sizeof(Elf64_Ehdr)}, {table_offset_, table_offset_ + headers_.size() * sizeof(Elf64_Shdr)}};
    for (const Elf64_Shdr& header : headers_)
      if (header.sh_type != SHT_NULL && header.sh_type != SHT_NOBITS && header.sh_size > 0)
        ranges.emplace_back(header.sh_offset, header.sh_offset + header.sh_size);
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i)
      if (ranges[i].first < ranges[i - 1].second) return damaged("parts overlap at byte {}", ranges[i].first);
    return {};
  }

  Outcome find_symbols() {
    for (size_t s = 1; s < headers_.size(); ++s) {
      if (headers_[s].sh_type != SHT_SYMTAB) continue;
      if (symbol_table_ != 0) return damaged("two symbol tables");
      symbol_table_ = s;
    }
    if (symbol_table_ == 0) return damaged("no symbol table");
    const Elf64_Shdr& header = headers_[symbol_table_];
    if (header.sh_entsize != sizeof(Elf64_Sym) || header.sh_size % sizeof(Elf64_Sym) != 0)
      return damaged("the symbol table has entries of {} bytes", header.sh_entsize);
    if (header.sh_link >= headers_.size() || headers_[header.sh_link].sh_type != SHT_STRTAB)
      return damaged("the symbol table names section {} for its strings", header.sh_link);
    strings_ = bytes_of(header.sh_link);
    if (strings_.empty() || strings_.back() != std::byte{0}) return damaged("the symbols' names do not end");
    const Bytes table = bytes_of(symbol_table_);
    for (size_t i = 0; i < table.size() / sizeof(Elf64_Sym); ++i) symbols_.push_back(entry_at<Elf64_Sym>(table, i));
    return {};
  }

  Outcome check_symbol(size_t i, const Elf64_Sym& symbol) {
    if (symbol.st_name >= strings_.size()) return damaged("symbol {} has its name outside the table", i);
    // The table ends with a zero, so the name ends within it.
    const std::string_view name(reinterpret_cast<const char*>(strings_.data()) + symbol.st_name);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    const unsigned bind = ELF64_ST_BIND(symbol.st_info);
    if (type == STT_FILE && bind == STB_LOCAL && symbol.st_shndx == SHN_ABS) return {};
    if (symbol.st_shndx == SHN_UNDEF) return damaged("it needs '{}' from outside", name);
    if (type != STT_NOTYPE && type != STT_OBJECT && type != STT_FUNC && type != STT_SECTION)
      return damaged("symbol '{}' has type {}", name, type);
    if (symbol.st_shndx >= headers_.size()) return damaged("symbol '{}' lies in no section", name);
    const uint64_t size = headers_[symbol.st_shndx].sh_size;
    if (symbol.st_value > size || symbol.st_size > size - symbol.st_value)
      return damaged("symbol '{}' passes the end of its section", name);
    if (bind == STB_LOCAL) return {};
    if (bind != STB_GLOBAL || name != wanted_ || found_)
      return damaged("it defines '{}', and only '{}' is wanted", name, wanted_);
    found_ = true;
    const auto section = loaded_[symbol.st_shndx];
    if (type != STT_FUNC || !section || !out_.sections[*section].executable || symbol.st_size == 0)
      return damaged("'{}' is not a function", name);
    out_.entry_section = *section;
    out_.entry_offset = symbol.st_value;
    return {};
  }

  Outcome read_relocations(size_t s) {
    const Elf64_Shdr& header = headers_[s];
    if (header.sh_info == 0 || header.sh_info >= headers_.size())
      return damaged("section {} relocates section {}", s, header.sh_info);
    const auto section = loaded_[header.sh_info];
    if (!section) return {};  // of unwind tables and debug information, which are not loaded
    if (header.sh_entsize != sizeof(Elf64_Rela) || header.sh_size % sizeof(Elf64_Rela) != 0 ||
        header.sh_link != symbol_table_)
      return damaged("section {} is not a table of relocations", s);
    const Bytes table = bytes_of(s);
    for (size_t i = 0; i < table.size() / sizeof(Elf64_Rela); ++i) {
      STEPFUSE_TRY(read_relocation(*section, entry_at<Elf64_Rela>(table, i)));
    }
    return {};
  }

  Outcome read_relocation(uint32_t section, const Elf64_Rela& entry) {
    const ElfSection& place = out_.sections[section];
    const uint64_t type = ELF64_R_TYPE(entry.r_info);
    const uint64_t index = ELF64_R_SYM(entry.r_info);
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32) return damaged("a relocation of type {}", type);
    if (place.bytes.size() < sizeof(int32_t) || entry.r_offset > place.bytes.size() - sizeof(int32_t))
      return damaged("a relocation outside section {}", place.number);
    if (index == 0 || index >= symbols_.size()) return damaged("a relocation against symbol {}", index);
    const Elf64_Sym& symbol = symbols_[index];
    const auto target = symbol.st_shndx < loaded_.size() ? loaded_[symbol.st_shndx] : std::nullopt;
    if (!target) return damaged("a relocation against a symbol that is not loaded");
    const auto value = static_cast<int64_t>(symbol.st_value);  // at most the file's size, so the sum cannot overflow
    if (!points_into(out_.sections[*target], place, entry, value)) return damaged("a relocation that points outside");
    out_.relocations.push_back({section, *target, entry.r_offset, value + entry.r_addend});
    return {};
  }

  /// An instruction counts from its end: 4 bytes after the place, and up to 4 more of an immediate. An entry of a jump
  /// table counts from the start of the table.
  static bool points_into(const ElfSection& target, const ElfSection& place, const Elf64_Rela& entry, int64_t value) {
    constexpr int64_t kFar = int64_t{1} << 30;
    if (entry.r_addend < -kFar || entry.r_addend > kFar) return false;
    const int64_t at = value + entry.r_addend;
    const auto size = static_cast<int64_t>(target.bytes.size());
    if (place.executable) return at >= -8 && at <= size - 4;
    return at >= 0 && at <= size + static_cast<int64_t>(entry.r_offset);
  }

  Bytes bytes_of(size_t s) const { return file_.subspan(headers_[s].sh_offset, headers_[s].sh_size); }

  Bytes file_;
  std::string_view wanted_;
  uint64_t table_offset_ = 0;
  std::vector<Elf64_Shdr> headers_;
  std::vector<std::optional<uint32_t>> loaded_;  // by section of the file: its index in out_.sections
  size_t symbol_table_ = 0;
  Bytes strings_;
  std::vector<Elf64_Sym> symbols_;
  bool found_ = false;
  ElfObject out_;
};

}  // namespace

Result<ElfObject> read_elf_object(std::span<const std::byte> object, std::string_view symbol) {
  return Reader(object, symbol).run();
}

}  // namespace stepfuse::runtime
