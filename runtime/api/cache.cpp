// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics and the disk cache behind the C interface.
#include "runtime/api/objects.h"
#include "runtime/cache/inspect.h"
#include "runtime/kernel_cache.h"

using namespace stepfuse;
using namespace stepfuse::api;

namespace {

void fill_metrics(const runtime::Context& context, stepfuse_metrics& out) {
  const runtime::CacheMetrics from = context.kernels().metrics();
  out.memory_hits = from.memory_hits;
  out.disk_hits = from.disk_hits;
  out.layer_hits = from.layer_hits;
  out.misses = from.misses;
  out.compiled = from.compiled;
  out.published = from.published;
  out.damaged = from.damaged;
  out.io_errors = from.io_errors;
  out.evicted = from.evicted;
  out.bytes_read = from.bytes_read;
  out.bytes_written = from.bytes_written;
  out.compile_seconds = from.compile_seconds;
  out.load_seconds = from.load_seconds;
}

std::string folder_of(const runtime::Context& context) {
  const runtime::CacheFolder* live = context.kernels().store().live(context.log());
  return live == nullptr ? std::string() : live->path;
}

/// Gives the number of entries that were removed.
Result<int64_t> remove_entries(const runtime::Context& context, const runtime::SweepGoal& goal) {
  return prune_store(context.kernels().store(), goal, context.log()).map([](const runtime::SweepReport& report) {
    return report.evicted;
  });
}

Result<int64_t> clear_folder(const runtime::Context& context) {
  return remove_entries(context, {0, 0, std::chrono::seconds(0)});
}

Result<int64_t> prune_folder(const runtime::Context& context, int64_t max_bytes) {
  const int64_t bound = max_bytes < 0 ? context.settings().number("cache_max_size") : max_bytes;
  return remove_entries(context, {bound, bound, std::nullopt});
}

}  // namespace

stepfuse_status stepfuse_context_metrics(stepfuse_context* context, stepfuse_metrics* out) {
  return with_context(context, [&](const runtime::Context& object) -> Reply {
    STEPFUSE_TRY(require(out, "out"));
    STEPFUSE_TRY(check_out_struct(out, "metrics", kFirstSize<stepfuse_metrics>));
    stepfuse_metrics metrics = stepfuse_metrics_init();
    fill_metrics(object, metrics);
    write_struct(out, metrics);
    return {};
  });
}

stepfuse_status stepfuse_cache_path(stepfuse_context* context, char* buffer, size_t size, size_t* needed) {
  return with_context(context, [&](const runtime::Context& object) -> Reply {
    return copy_text(folder_of(object), buffer, size, needed);
  });
}

stepfuse_status stepfuse_cache_clear(stepfuse_context* context, int64_t* removed) {
  return with_context(context, [&](const runtime::Context& object) -> Reply {
    STEPFUSE_ASSIGN(const int64_t count, clear_folder(object));
    if (removed != nullptr) *removed = count;
    return {};
  });
}

stepfuse_status stepfuse_cache_prune(stepfuse_context* context, int64_t max_bytes, int64_t* removed) {
  return with_context(context, [&](const runtime::Context& object) -> Reply {
    STEPFUSE_ASSIGN(const int64_t count, prune_folder(object, max_bytes));
    if (removed != nullptr) *removed = count;
    return {};
  });
}
