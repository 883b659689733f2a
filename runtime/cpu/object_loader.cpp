// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/object_loader.h"

#include "runtime/cpu/elf_object.h"

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <utility>
#include <vector>

#include <unistd.h>

namespace stepfuse::runtime {

namespace {

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/// int3: whoever strays between functions stops.
constexpr int kBreakpoint = 0xcc;

constexpr uint64_t round_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

uint64_t page_size() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

tl::unexpected<Status> no_memory(const char* call, const std::string& symbol) {
  const int error = errno;
  return with_hint(
      fail(StatusCode::Environment, "kernel {} cannot be loaded: {}: {}", symbol, call, std::strerror(error)),
      "the process needs memory that it may make executable (a security policy or a limit may forbid it)");
}

/// Where each section goes: code from the first page on, constants from the next whole page on.
struct Layout {
  std::vector<uint64_t> offsets;  // by section
  uint64_t code_bytes = 0;        // whole pages
  uint64_t bytes = 0;             // whole pages
};

/// Sizes are bounded by the object's own, and alignments by a page, so the sums cannot overflow.
Layout lay_out(const ElfObject& object) {
  Layout layout;
  layout.offsets.resize(object.sections.size());
  uint64_t at = 0;
  for (const bool executable : {true, false}) {
    for (size_t s = 0; s < object.sections.size(); ++s) {
      if (object.sections[s].executable != executable) continue;
      at = round_up(at, object.sections[s].alignment);
      layout.offsets[s] = at;
      at += object.sections[s].bytes.size();
    }
    at = round_up(at, page_size());
    if (executable) layout.code_bytes = at;
  }
  layout.bytes = at;
  return layout;
}

void write_image(const ElfObject& object, const Layout& layout, std::byte* image) {
  std::memset(image, kBreakpoint, layout.code_bytes);
  for (size_t s = 0; s < object.sections.size(); ++s) {
    const auto bytes = object.sections[s].bytes;
    if (!bytes.empty()) std::memcpy(image + layout.offsets[s], bytes.data(), bytes.size());
  }
  for (const ElfRelocation& relocation : object.relocations) {
    const uint64_t place = layout.offsets[relocation.section] + relocation.offset;
    const int64_t distance =
        static_cast<int64_t>(layout.offsets[relocation.target]) + relocation.addend - static_cast<int64_t>(place);
    // An image is far smaller than 2 GiB, and the reader has checked that both ends lie in it.
    const auto value = static_cast<int32_t>(distance);
    std::memcpy(image + place, &value, sizeof(value));
  }
}

/// The name that /proc/PID/maps shows, where the kernel supports it.
void name_mapping(void* memory, size_t bytes, const std::string& symbol) {
  std::string name = "stepfuse:";
  for (const char c : symbol.substr(0, 64))
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ? c : '_';
  ::prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, reinterpret_cast<uintptr_t>(memory), bytes, name.c_str());
}

Result<std::unique_ptr<LoadedKernel>> map_object(const ElfObject& object, const std::string& symbol) {
  const Layout layout = lay_out(object);
  void* memory = ::mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return no_memory("mmap", symbol);
  auto* image = static_cast<std::byte*>(memory);
  const auto function =
      reinterpret_cast<codegen::KernelFn>(image + layout.offsets[object.entry_section] + object.entry_offset);
  auto kernel = std::make_unique<LoadedKernel>(memory, layout.bytes, function);
  write_image(object, layout, image);
  name_mapping(memory, layout.bytes, symbol);
  if (::mprotect(memory, layout.code_bytes, PROT_READ | PROT_EXEC) != 0) return no_memory("mprotect", symbol);
  if (layout.bytes > layout.code_bytes &&
      ::mprotect(image + layout.code_bytes, layout.bytes - layout.code_bytes, PROT_READ) != 0)
    return no_memory("mprotect", symbol);
  return kernel;
}

}  // namespace

LoadedKernel::~LoadedKernel() { ::munmap(memory_, bytes_); }

Result<std::unique_ptr<LoadedKernel>> load_object(std::span<const std::byte> object, const std::string& symbol) {
#if defined(__x86_64__)
  STEPFUSE_ASSIGN(const ElfObject parsed, read_elf_object(object, symbol));
  return map_object(parsed, symbol);
#else
  static_cast<void>(object);
  return fail(StatusCode::Unsupported, "kernel {} cannot be loaded: compiled kernels are for x86-64 so far", symbol);
#endif
}

}  // namespace stepfuse::runtime
