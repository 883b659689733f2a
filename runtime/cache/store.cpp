// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/store.h"

#include <cerrno>

#include <fcntl.h>

namespace stepfuse::runtime {

Store::Store(StoreOptions options)
    : options_(std::move(options)), sweeper_(*options_.ops, options_.max_bytes, options_.ages, counters_) {}

void Store::open_folders(const Log& log) {
  std::call_once(opened_, [&] {
    if (options_.mode == CacheMode::Off) {
      why_no_live_ = "the cache is off";
      return;
    }
    const FolderRole role = may_write() ? FolderRole::Live : FolderRole::LiveReadOnly;
    auto live = open_live_folder(options_.cache_dir, options_.environment, role, log);
    if (live) {
      live_ = std::move(*live);
    } else {
      if (live.error().code != StatusCode::NotFound) ++counters_.io_errors;
      why_no_live_ = std::move(live.error().message);
    }
    layers_ = open_layers(options_.layers, options_.environment, log);
  });
}

const CacheFolder* Store::live(const Log& log) {
  open_folders(log);
  return live_ ? &*live_ : nullptr;
}

const std::string& Store::why_no_live(const Log& log) {
  open_folders(log);
  return why_no_live_;
}

const std::vector<CacheLayer>& Store::layers(const Log& log) {
  open_folders(log);
  return layers_;
}

Store::Lookup Store::find(const Key& key, const Log& log, const Objection& objection) {
  open_folders(log);
  Lookup out;
  if (options_.mode == CacheMode::Refresh) {
    out.occupied = true;
    out.why = "cache=refresh reads nothing";
    return out;
  }
  if (live_) {
    judge(read_live(key), live_->path, false, key, objection, log, out);
  } else {
    out.why = why_no_live_;
  }
  for (const CacheLayer& layer : layers_) {
    if (out.entry) break;
    judge(layer.read(*options_.ops, key, options_.environment.uid), layer.path, true, key, objection, log, out);
  }
  if (out.entry) out.why.clear();
  return out;
}

EntryRead Store::read_live(const Key& key) {
  ReadRules rules{options_.environment.uid, false, std::nullopt};
  if (may_write()) rules.refresh_after = options_.refresh_after;
  return read_entry_file(*options_.ops, live_->fd.get(), entry_name(key), rules);
}

void Store::judge(EntryRead read, const std::string& place, bool layer, const Key& key, const Objection& objection,
                  const Log& log, Lookup& out) {
  const EntryName name = entry_name(key);
  switch (read.outcome) {
    case EntryRead::Outcome::Read:
      counters_.bytes_read += read.bytes;
      take(std::move(read), layer, key, objection, out);
      if (out.entry) out.path = place + "/" + name.path();
      return;
    case EntryRead::Outcome::Absent:
      if (out.why.empty()) out.why = "no entry has this key";
      return;
    case EntryRead::Outcome::Trouble:
      count_trouble(read.error, "reading the kernel cache", log);
      out.why = fmt::format("the entry could not be read: {}", error_text(read.error));
      return;
    case EntryRead::Outcome::Damaged:
    case EntryRead::Outcome::Foreign:
      count_damage(place + "/" + name.path(), read.why, log);
      out.why = "the entry is damaged: " + read.why;
      if (layer) return;
      // What is not ours is left to whoever put it there; publishing takes over its name.
      if (read.outcome == EntryRead::Outcome::Foreign) {
        out.occupied = true;
      } else {
        remove_live(name);
      }
      return;
  }
}

void Store::take(EntryRead read, bool layer, const Key& key, const Objection& objection, Lookup& out) {
  if (read.entry->kind != key.kind || read.entry->preimage != key.preimage) {
    out.why = "another key has the same hash";
    out.occupied |= !layer;
    return;
  }
  if (!layer && objection) {
    if (auto why = objection(*read.entry)) {
      out.why = std::move(*why);
      out.occupied = true;
      return;
    }
  }
  out.entry = std::move(read.entry);
  out.from_layer = layer;
}

void Store::publish(const Key& key, const Entry& entry, bool replace, const Log& log) {
  open_folders(log);
  if (!live_ || !may_write()) return;
  const auto bytes = encode(entry);
  if (!bytes) {
    log.write_once(LogLevel::Warn, "cache-too-large", fmt::format("not kept in the cache: {}", bytes.error().message));
    return;
  }
  const auto size = static_cast<int64_t>(bytes->size());
  if (size > options_.max_bytes) return;
  const auto write = [&] {
    return write_entry_file(*options_.ops, live_->fd.get(), entry_name(key), *bytes,
                            replace || options_.mode == CacheMode::Refresh);
  };
  EntryWrite written = write();
  if ((written.error == ENOSPC || written.error == EDQUOT) && sweeper_.make_room(live_->fd.get())) written = write();
  if (written.error != 0) return count_trouble(written.error, "writing to the kernel cache", log);
  if (written.existed) return;
  ++counters_.published;
  counters_.bytes_written += size;
  sweeper_.after_publish(live_->fd.get(), size);
}

void Store::discard(const Key& key, const Lookup& found, std::string_view why, const Log& log) {
  count_damage(found.path, why, log);
  if (!found.from_layer) remove_live(entry_name(key));
}

void Store::remove_live(const EntryName& name) {
  if (!live_ || !may_write()) return;
  const Fd shard(options_.ops->open_at(live_->fd.get(), name.shard.c_str(), O_RDONLY | O_DIRECTORY, 0));
  if (shard) options_.ops->unlink_at(shard.get(), name.file.c_str());
}

void Store::count_damage(const std::string& path, std::string_view why, const Log& log) {
  ++counters_.damaged;
  log.write_once(LogLevel::Warn, "cache-damaged " + path,
                 fmt::format("cache entry {} is of no use and made anew: {}", path, why));
}

void Store::count_trouble(int error, std::string_view doing, const Log& log) {
  ++counters_.io_errors;
  log.write_once(LogLevel::Warn, fmt::format("cache-trouble {} {}", doing, error),
                 fmt::format("{} failed: {}; going on without", doing, error_text(error)));
}

}  // namespace stepfuse::runtime
