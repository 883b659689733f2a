// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_cache.h"

#include "ir/support/version.h"
#include "runtime/cache/inspect.h"
#include "runtime/debug/trace.h"

#include <atomic>
#include <map>

namespace stepfuse::runtime {

namespace {

std::atomic<int64_t> compiled_kernels{0};

CacheMode mode_of(const Settings& settings) {
  if (settings.is("cache", "off")) return CacheMode::Off;
  if (settings.is("cache", "readonly")) return CacheMode::ReadOnly;
  return settings.is("cache", "refresh") ? CacheMode::Refresh : CacheMode::On;
}

StoreOptions store_options(const Settings& settings) {
  StoreOptions options;
  options.mode = mode_of(settings);
  options.cache_dir = settings.text("cache_dir");
  options.layers = settings.list("cache_path");
  options.max_bytes = settings.number("cache_max_size");
  options.environment = CacheEnvironment::of_process();
  return options;
}

/// Whether an error says something about the process rather than about the object.
bool is_surroundings(const Status& status) {
  return status.code == StatusCode::Environment || status.code == StatusCode::Io;
}

template <class Work>
auto traced(const Context& context, const char* what, std::string_view kernel, Work work) {
  const TraceScope scope(context.trace(), what, kernel);
  return work();
}

const char* lookup_result(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::Memory:
      return "hit in memory";
    case KernelOrigin::Disk:
      return "hit on disk";
    case KernelOrigin::Layer:
      return "hit in a read-only folder";
    case KernelOrigin::Compiled:
      return "miss";
  }
  return "";
}

}  // namespace

std::string library_build() { return fmt::format("{} {}", kVersion, kGitDescribe); }

std::shared_ptr<KernelCache> KernelCache::open(const Settings& settings) {
  // Never destroyed: threads of the host program may still run kernels while the process exits.
  static auto* mutex = new std::mutex();
  static auto* caches = new std::map<std::vector<std::string>, std::shared_ptr<KernelCache>>();
  StoreOptions options = store_options(settings);
  const std::vector<std::string> identity = {settings.text("cache"),
                                             options.cache_dir,
                                             settings.text("cache_path"),
                                             std::to_string(options.max_bytes),
                                             settings.text("jit"),
                                             options.environment.home,
                                             options.environment.xdg_cache_home,
                                             options.environment.tmpdir};
  const std::lock_guard lock(*mutex);
  std::shared_ptr<KernelCache>& cache = (*caches)[identity];
  if (cache == nullptr) cache = std::make_shared<KernelCache>(std::move(options));
  return cache;
}

Result<FoundKernel> KernelCache::find_or_compile(const Context& context, const KernelMaker& maker) {
  bool edited_now = false;
  STEPFUSE_ASSIGN(Pointer edited, maker.edited(edited_now));
  if (edited != nullptr)
    return FoundKernel{std::move(edited), edited_now ? KernelOrigin::Compiled : KernelOrigin::Memory};
  TraceScope scope(context.trace(), "cache lookup", maker.name());
  const KeyFields fields = maker.key_fields();
  const Key key = Key::of(EntryKind::Kernel, fields);
  KernelOrigin origin = KernelOrigin::Memory;
  bool made = false;
  STEPFUSE_ASSIGN(Pointer kernel,
                  kernels_.get(key.preimage, [&] { return make({context, maker, fields, key}, origin); }, made));
  if (!made) ++store_.counters().memory_hits;
  scope.result(lookup_result(origin));
  return FoundKernel{std::move(kernel), origin};
}

Result<KernelCache::Pointer> KernelCache::make(const Wanted& wanted, KernelOrigin& origin) {
  const Log& log = wanted.context.log();
  CacheCounters& counters = store_.counters();
  Store::Lookup found;
  if (store_.options().mode == CacheMode::Off) {
    found.why = "the cache is off";
  } else {
    const Stopwatch watch(counters.load_ns);
    found =
        store_.find(wanted.key, log, [&](const Entry& entry) { return wanted.maker.made_otherwise(entry.metadata); });
  }
  if (found.entry) {
    const Stopwatch watch(counters.load_ns);
    Result<Pointer> kernel =
        traced(wanted.context, "load", wanted.maker.name(), [&] { return wanted.maker.load(*found.entry); });
    if (kernel) {
      origin = found.from_layer ? KernelOrigin::Layer : KernelOrigin::Disk;
      ++(found.from_layer ? counters.layer_hits : counters.disk_hits);
      return kernel;
    }
    if (is_surroundings(kernel.error())) return kernel;
    store_.discard(wanted.key, found, kernel.error().message, log);
    found.why = "the entry is damaged: " + kernel.error().message;
  }
  if (store_.options().mode != CacheMode::Off) ++counters.misses;
  if (wanted.context.settings().is("jit", "off")) return refuse(wanted, found.why);
  origin = KernelOrigin::Compiled;
  return compile(wanted, found.occupied);
}

Result<KernelCache::Pointer> KernelCache::compile(const Wanted& wanted, bool replace) {
  struct Turn {
    Gate& gate;
    Turn(Gate& g, int64_t most) : gate(g) { gate.enter(most); }
    ~Turn() { gate.leave(); }
  } const turn(gate_, wanted.context.settings().number("jobs"));
  CacheCounters& counters = store_.counters();
  STEPFUSE_ASSIGN(KernelMaker::Compiled compiled, traced(wanted.context, "compile", wanted.maker.name(), [&] {
                    const Stopwatch watch(counters.compile_ns);
                    return wanted.maker.compile();
                  }));
  const Entry entry{EntryKind::Kernel, wanted.key.preimage, std::move(compiled.metadata), std::move(compiled.payload)};
  Result<Pointer> kernel =
      traced(wanted.context, "load", wanted.maker.name(), [&] { return wanted.maker.load(entry); });
  // What the compiler has just made and the loader refuses is our fault, not damage.
  if (!kernel && kernel.error().code == StatusCode::InvalidData)
    return fail(StatusCode::Internal, "kernel {} was compiled but cannot be loaded: {}", wanted.maker.name(),
                kernel.error().message);
  if (!kernel) return kernel;
  ++counters.compiled;
  ++compiled_kernels;
  store_.publish(wanted.key, entry, replace, wanted.context.log());
  return kernel;
}

tl::unexpected<Status> KernelCache::refuse(const Wanted& wanted, const std::string& why) {
  const Log& log = wanted.context.log();
  if (const CacheMode mode = store_.options().mode; mode == CacheMode::Off || mode == CacheMode::Refresh)
    return with_hint(fail(StatusCode::Environment, "kernel {} ({}) must be compiled, and jit=off forbids it: {}",
                          wanted.maker.name(), wanted.key.hash.hex(), why),
                     "with jit=off kernels come from a cache that is read: set cache to on or readonly");
  std::string nearest = "the cache holds no kernel";
  if (const auto near = nearest_entry(list_entries(store_, log), EntryKind::Kernel, wanted.fields)) {
    nearest = fmt::format("the nearest entry, {}, ", near->entry.hash.substr(0, 12));
    if (near->differences.empty()) {
      nearest += "has the same key";
    } else {
      nearest += fmt::format("differs in {}", near->differences.front().text());
      for (size_t i = 1; i < near->differences.size(); ++i) nearest += "; " + near->differences[i].text();
    }
  }
  return with_hint(
      fail(StatusCode::Environment, "kernel {} ({}) must be compiled, and jit=off forbids it: {}; {}",
           wanted.maker.name(), wanted.key.hash.hex(), why, nearest),
      "run once with jit=on and the same cache, or name a folder that holds the kernel in STEPFUSE_CACHE_PATH");
}

void KernelCache::Gate::enter(int64_t most) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return most == 0 || running_ < most; });
  ++running_;
}

void KernelCache::Gate::leave() {
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  changed_.notify_all();  // contexts may differ in what they wait for
}

int64_t KernelCache::compiled_in_process() { return compiled_kernels; }

}  // namespace stepfuse::runtime
