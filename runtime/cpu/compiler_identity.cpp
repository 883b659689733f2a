// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/compiler_identity.h"

#include "ir/hash.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <sys/stat.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

namespace stepfuse::runtime {

namespace {

/// Notes are a few hundred bytes.
constexpr uint64_t kMaxNoteBytes = 65536;

bool read_at(std::ifstream& file, uint64_t offset, void* out, size_t size) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(static_cast<char*>(out), static_cast<std::streamsize>(size));
  return file.good();
}

constexpr size_t padded(size_t size) { return (size + 3) / 4 * 4; }

/// The build id among the notes of one segment.
std::string build_id_in(const std::string& notes) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const size_t name = at + sizeof note;
    const size_t value = name + padded(note.n_namesz);
    const size_t end = value + padded(note.n_descsz);
    if (note.n_namesz > notes.size() || note.n_descsz > notes.size() || value + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && notes.compare(name, 4, std::string("GNU\0", 4)) == 0) {
      std::string digits;
      for (const unsigned char byte : notes.substr(value, note.n_descsz)) digits += fmt::format("{:02x}", byte);
      return digits;
    }
    at = end;
  }
  return {};
}

std::string build_id_of(std::ifstream& file) {
  Elf64_Ehdr header;
  if (!read_at(file, 0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(file, header.e_phoff + i * sizeof segment, &segment, sizeof segment)) return {};
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    std::string notes(segment.p_filesz, '\0');
    if (!read_at(file, segment.p_offset, notes.data(), notes.size())) return {};
    if (std::string id = build_id_in(notes); !id.empty()) return id;
  }
  return {};
}

/// Of the first folder that is asked about, as with cpu_compiler().
const std::string& plugin_identity(std::string_view plugin_dir) {
  static const std::string identity = [&] {
    const auto file = cpu_plugin_file(plugin_dir);
    return file ? file_identity(file->string()) : std::string();
  }();
  return identity;
}

/// A library that is open, by the name its users ask for it.
std::string path_of_open(const char* name) {
  void* library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {};
  link_map* map = nullptr;
  const bool known = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name != nullptr;
  std::string path = known ? map->l_name : "";
  ::dlclose(library);
  return path;
}

/// The libLLVM that the open plugin is linked to; there may be others in the process.
std::string llvm_file_of_plugin(std::string_view plugin_dir) {
  const auto file = cpu_plugin_file(plugin_dir);
  void* plugin = file ? ::dlopen(file->c_str(), RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  if (plugin == nullptr) return {};
  link_map* map = nullptr;
  std::string path;
  if (::dlinfo(plugin, RTLD_DI_LINKMAP, &map) == 0) {
    const char* strings = nullptr;
    for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL && strings != nullptr; ++entry)
      if (entry->d_tag == DT_NEEDED && std::strncmp(strings + entry->d_un.d_val, "libLLVM", 7) == 0)
        path = path_of_open(strings + entry->d_un.d_val);
  }
  ::dlclose(plugin);
  return path;
}

struct FileStamp {
  int64_t bytes = 0, time = 0;
  bool operator==(const FileStamp&) const = default;
};

/// Nothing for a file that is not there.
std::optional<FileStamp> stamp_of(const std::string& path) {
  static std::mutex mutex;
  static auto* stamps = new std::map<std::string, std::optional<FileStamp>>();
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = stamps->try_emplace(path);
  struct stat info{};
  if (is_new && ::stat(path.c_str(), &info) == 0) it->second = FileStamp{info.st_size, info.st_mtime};
  return it->second;
}

}  // namespace

std::string file_identity(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  if (std::string id = build_id_of(file); !id.empty()) return id;
  file.clear();
  file.seekg(0);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return file ? ir::hash_bytes(bytes.str()).hex() : std::string();
}

CompilerIdentity opened_compiler(const CpuCompiler& compiler, std::string_view plugin_dir) {
  CompilerIdentity identity{compiler.version(), plugin_identity(plugin_dir), llvm_file_of_plugin(plugin_dir), 0, 0};
  if (const auto stamp = stamp_of(identity.llvm_file)) {
    identity.llvm_bytes = stamp->bytes;
    identity.llvm_time = stamp->time;
  }
  return identity;
}

std::optional<std::string> other_compiler(const CompilerIdentity& identity, std::string_view plugin_dir) {
  const std::string& plugin = plugin_identity(plugin_dir);
  if (plugin.empty()) return std::nullopt;
  if (plugin != identity.plugin)
    return fmt::format("compiled by another plugin (build id {}, now {})", identity.plugin, plugin);
  const auto stamp = stamp_of(identity.llvm_file);
  if (!stamp && !identity.llvm_file.empty())
    return fmt::format("compiled by {} in {}, which is gone", identity.version, identity.llvm_file);
  if (!stamp || *stamp == FileStamp{identity.llvm_bytes, identity.llvm_time}) return std::nullopt;
  return fmt::format("compiled by another {}: {} has changed since", identity.version, identity.llvm_file);
}

}  // namespace stepfuse::runtime
