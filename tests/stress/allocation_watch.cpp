// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/allocation_watch.h"

#include "tests/stress/program_symbols.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <string_view>

#include <dlfcn.h>
#include <execinfo.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEPFUSE_WATCH_MALLOC 0
#else
#define STEPFUSE_WATCH_MALLOC 1
#endif

namespace stepfuse::tests {

namespace {

constexpr int kFrames = 24;
constexpr size_t kLibraries = 16;

/// All of it static: the code below runs inside malloc.
struct Counter {
  std::atomic<const char*> object{nullptr};  // dladdr's name, which lives as long as the object stays loaded
  std::atomic<int64_t> count{0};
};
std::atomic<bool> watching{false};
std::atomic<int64_t> our_count{0};
std::array<Counter, kLibraries> libraries;
std::array<void*, kFrames> first_stack;
std::atomic<int> first_depth{0};
thread_local bool inside = false;

const ProgramSymbols& program_symbols() {
  static const ProgramSymbols symbols;
  return symbols;
}

/// OpenBLAS is linked statically, so it is told from our code by its names: it is written in C and assembly, while all
/// of ours is C++ but for the wrappers of its buffer allocator.
bool is_openblas(const void* address) {
  const std::string_view name = program_symbols().function_at(address);
  const auto starts_with = [name](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; };
  return !name.empty() && name != "main" && !starts_with("_") && !starts_with("stepfuse");
}

enum class Owner { Runtime, Ours, Library };

Owner owner_of(const char* object) {
  const char* slash = std::strrchr(object, '/');
  const std::string_view name = slash == nullptr ? object : slash + 1;
  for (const std::string_view runtime : {"libc.so", "libstdc++.so", "libgcc_s.so", "ld-linux", "libpthread"})
    if (name.substr(0, runtime.size()) == runtime) return Owner::Runtime;
  const bool library = name.find(".so") != std::string_view::npos && name.find("stepfuse") == std::string_view::npos;
  return library ? Owner::Library : Owner::Ours;
}

void count_library(const char* object) {
  for (Counter& counter : libraries) {
    const char* known = nullptr;
    if (counter.object.compare_exchange_strong(known, object) || known == object) {
      ++counter.count;
      return;
    }
  }
}

void count_ours(void* const* frames, int depth) {
  if (our_count.fetch_add(1) > 0) return;
  std::copy(frames, frames + depth, first_stack.begin());
  first_depth = depth;
}

/// `frames` from the innermost caller of malloc outwards.
void attribute(void* const* frames, int depth) {
  for (int i = 0; i < depth; ++i) {
    Dl_info info{};
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) return count_ours(frames, depth);  // generated code
    const Owner owner = owner_of(info.dli_fname);
    if (owner == Owner::Ours)
      return is_openblas(frames[i]) ? count_library("openblas (static)") : count_ours(frames, depth);
    if (owner == Owner::Library) return count_library(info.dli_fname);
  }
  count_ours(frames, depth);
}

}  // namespace

bool can_watch_allocations() { return STEPFUSE_WATCH_MALLOC != 0; }

AllocationWatch::AllocationWatch() {
  std::array<void*, kFrames> warm_up;
  backtrace(warm_up.data(), kFrames);  // loads its library on first use
  program_symbols();
  our_count = 0;
  first_depth = 0;
  for (Counter& counter : libraries) counter.count = 0;
  watching = true;
}

AllocationWatch::~AllocationWatch() { watching = false; }

int64_t AllocationWatch::ours() const { return our_count; }

std::string AllocationWatch::first_of_ours() const {
  watching = false;
  std::ostringstream text;
  for (int i = 0; i < first_depth; ++i) {
    Dl_info info{};
    const void* address = first_stack[static_cast<size_t>(i)];
    if (dladdr(address, &info) == 0) continue;
    text << "  "
         << (info.dli_sname != nullptr ? std::string_view(info.dli_sname) : program_symbols().function_at(address))
         << " in " << info.dli_fname << " +0x" << std::hex
         << static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase) << std::dec << '\n';
  }
  return text.str();
}

std::map<std::string, int64_t> AllocationWatch::of_libraries() const {
  watching = false;
  std::map<std::string, int64_t> counts;
  for (const Counter& counter : libraries)
    if (counter.count > 0) counts[counter.object.load()] += counter.count;
  return counts;
}

/// Called with every allocation of the process. noinline: the caller's own frames are cut off by number.
[[gnu::noinline, maybe_unused]] static void note_allocation() {
  if (!watching.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  std::array<void*, kFrames> frames;
  constexpr int kOwnFrames = 2;  // this function and the malloc below
  const int depth = backtrace(frames.data(), kFrames);
  if (depth > kOwnFrames) attribute(frames.data() + kOwnFrames, depth - kOwnFrames);
  inside = false;
}

}  // namespace stepfuse::tests

#if STEPFUSE_WATCH_MALLOC

// glibc's allocator under its internal names; operator new of libstdc++ comes through malloc.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

[[gnu::visibility("default"), gnu::noinline]] void* malloc(size_t bytes) {
  stepfuse::tests::note_allocation();
  return __libc_malloc(bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* calloc(size_t count, size_t bytes) {
  stepfuse::tests::note_allocation();
  return __libc_calloc(count, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* realloc(void* block, size_t bytes) {
  stepfuse::tests::note_allocation();
  return __libc_realloc(block, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* memalign(size_t alignment, size_t bytes) {
  stepfuse::tests::note_allocation();
  return __libc_memalign(alignment, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* aligned_alloc(size_t alignment, size_t bytes) {
  stepfuse::tests::note_allocation();
  return __libc_memalign(alignment, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] int posix_memalign(void** block, size_t alignment, size_t bytes) {
  stepfuse::tests::note_allocation();
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}

#endif
