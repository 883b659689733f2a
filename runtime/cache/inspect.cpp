// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/inspect.h"

#include "runtime/cache/listing.h"

#include <algorithm>
#include <ctime>
#include <set>

namespace stepfuse::runtime {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// The items of `a` that are not in `b`, as "x,y".
std::string only_in(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  std::vector<std::string_view> items;
  std::copy_if(a.begin(), a.end(), std::back_inserter(items),
               [&](std::string_view item) { return std::find(b.begin(), b.end(), item) == b.end(); });
  return fmt::format("{}", fmt::join(items, ","));
}

std::string quoted(std::string_view text) { return text.empty() ? "nothing" : fmt::format("'{}'", text); }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

/// From the file's name; the key inside is not believed yet.
EntryKind kind_of_name(std::string_view name) {
  for (const EntryKind kind : kEntryKinds)
    if (name.ends_with(fmt::format(".{}.sfk", entry_kind_name(kind)))) return kind;
  return EntryKind::Kernel;
}

/// An entry, or what a writer has not finished, where it lies.
struct Place {
  std::string folder;  // or bundle
  bool layer = false;
  EntryName name;
  bool temporary = false;
  int64_t bytes = 0;
  int64_t modified = 0;  // seconds since 1970
  std::function<EntryRead()> read;
};
using Visit = std::function<void(const Place&)>;

ShownEntry describe(const Place& place, const EntryCheck& check = {}) {
  ShownEntry shown;
  ListedEntry& out = shown.listed;
  out.folder = place.folder;
  out.path = place.name.path();
  out.in_layer = place.layer;
  out.hash = place.name.file.substr(0, 32);
  out.kind = kind_of_name(place.name.file);
  out.file_bytes = place.bytes;
  out.unused_seconds = std::max<int64_t>(::time(nullptr) - place.modified, 0);
  EntryRead read = place.read();
  if (!read.entry) {
    out.problem = read.why.empty() ? error_text(read.error) : read.why;
    return shown;
  }
  auto fields = parse_key_text(read.entry->preimage);
  if (check) out.problem = check(*read.entry);
  if (!fields) out.problem = fields.error().message;
  if (read.entry->kind != out.kind || ir::hash_bytes(read.entry->preimage).hex() != out.hash)
    out.problem = "its name belongs to another key";
  if (fields) out.fields = std::move(*fields);
  out.metadata = std::move(read.entry->metadata);
  out.payload_bytes = static_cast<int64_t>(read.entry->payload.size());
  shown.payload = std::move(read.entry->payload);
  return shown;
}

int visit_folder(Store& store, int fd, const std::string& path, bool layer, const Visit& visit) {
  FileOps& ops = *store.options().ops;
  return for_each_file(ops, fd, [&](const ListedFile& file) {
    const EntryName name{file.shard_name, file.name};
    const ReadRules rules{store.options().environment.uid, layer, std::nullopt};
    visit({path, layer, name, file.temporary, file.info.st_size, file.info.st_mtime,
           [&] { return read_entry_file(ops, fd, name, rules); }});
  });
}

void visit_bundle(const Bundle& bundle, const Visit& visit) {
  for (const BundleItem& item : bundle.items())
    visit({bundle.path(), true, entry_name(item.kind, item.hash), false, static_cast<int64_t>(item.bytes),
           bundle.modified(), [&] { return bundle.read(item); }});
}

/// The errno of the first folder that could not be read, 0 if there was none.
int for_each_entry(Store& store, const Log& log, const Visit& visit) {
  int error = 0;
  if (const CacheFolder* live = store.live(log)) error = visit_folder(store, live->fd.get(), live->path, false, visit);
  for (const CacheLayer& layer : store.layers(log)) {
    if (layer.bundle != nullptr) {
      visit_bundle(*layer.bundle, visit);
      continue;
    }
    const int trouble = visit_folder(store, layer.folder.get(), layer.path, true, visit);
    if (error == 0) error = trouble;
  }
  return error;
}

std::vector<Difference> differences_of(const KeyFields& have, const KeyFields& want) {
  std::vector<Difference> out;
  std::set<std::string_view> seen;
  const auto add = [&](const std::string& name) {
    if (!seen.insert(name).second || field(have, name) == field(want, name)) return;
    out.push_back({name, std::string(field(have, name)), std::string(field(want, name))});
  };
  for (const KeyField& f : want) add(f.name);
  for (const KeyField& f : have) add(f.name);
  return out;
}

}  // namespace

std::string Difference::text() const {
  const bool lines = have.find('\n') != std::string::npos || want.find('\n') != std::string::npos;
  const auto a = split(have, lines ? '\n' : ',');
  const auto b = split(want, lines ? '\n' : ',');
  if (!lines && (a.size() > 2 || b.size() > 2))
    return fmt::format("{}: the entry has {}, wanted is {}", name, quoted(only_in(a, b)), quoted(only_in(b, a)));
  if (!lines) return fmt::format("{}: the entry has {}, wanted is {}", name, quoted(have), quoted(want));
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const auto line = [&](const auto& text) { return quoted(at < text.size() ? trimmed(text[at]) : ""); };
  return fmt::format("{}, line {}: the entry has {}, wanted is {}", name, at + 1, line(a), line(b));
}

std::vector<ListedEntry> list_entries(Store& store, const Log& log, const EntryCheck& check, int* error) {
  std::vector<ListedEntry> entries;
  const int trouble = for_each_entry(store, log, [&](const Place& place) {
    if (!place.temporary) entries.push_back(describe(place, check).listed);
  });
  std::stable_sort(entries.begin(), entries.end(), [](const ListedEntry& a, const ListedEntry& b) {
    return std::tie(a.in_layer, a.folder, a.path) < std::tie(b.in_layer, b.folder, b.path);
  });
  if (error != nullptr) *error = trouble;
  return entries;
}

std::vector<ListedEntry> list_entries(const Bundle& bundle, const EntryCheck& check) {
  std::vector<ListedEntry> entries;
  visit_bundle(bundle, [&](const Place& place) { entries.push_back(describe(place, check).listed); });
  return entries;
}

Result<ShownEntry> show_entry(Store& store, std::string_view hash_prefix, const Log& log) {
  std::vector<ShownEntry> found;
  std::set<std::string> hashes;
  for_each_entry(store, log, [&](const Place& place) {
    if (place.temporary || !place.name.file.starts_with(hash_prefix)) return;
    hashes.insert(place.name.file);
    found.push_back(describe(place));
  });
  if (found.empty())
    return with_hint(fail(StatusCode::NotFound, "no entry's hash begins with '{}'", hash_prefix),
                     "see `stepfuse cache ls`");
  if (hashes.size() > 1)
    return with_hint(fail(StatusCode::InvalidArgument, "{} entries begin with '{}'", hashes.size(), hash_prefix),
                     "give more digits");
  return std::move(found.front());
}

std::optional<NearestEntry> nearest_entry(const std::vector<ListedEntry>& entries, EntryKind kind,
                                          const KeyFields& wanted) {
  std::optional<NearestEntry> best;
  for (const ListedEntry& entry : entries) {
    if (entry.kind != kind || !entry.problem.empty()) continue;
    auto differences = differences_of(entry.fields, wanted);
    const bool better =
        !best || differences.size() < best->differences.size() ||
        (differences.size() == best->differences.size() && entry.unused_seconds < best->entry.unused_seconds);
    if (better) best = NearestEntry{entry, std::move(differences)};
  }
  return best;
}

StoreStats store_stats(Store& store, const Log& log) {
  StoreStats stats;
  stats.max_bytes = store.options().max_bytes;
  for_each_entry(store, log, [&](const Place& place) {
    if (place.layer) {
      stats.layer_entries += place.temporary ? 0 : 1;
    } else if (place.temporary) {
      ++stats.temporary_files;
    } else {
      ++stats.entries;
      const EntryKind kind = kind_of_name(place.name.file);
      ++(kind == EntryKind::Kernel ? stats.kernels : kind == EntryKind::Shape ? stats.shapes : stats.products);
      stats.bytes += place.bytes;
    }
  });
  return stats;
}

Result<SweepReport> prune_store(Store& store, const SweepGoal& goal, const Log& log) {
  if (store.options().mode == CacheMode::ReadOnly)
    return with_hint(fail(StatusCode::InvalidArgument, "cache=readonly removes nothing"), "use cache=on");
  const CacheFolder* live = store.live(log);
  if (live == nullptr)
    return with_hint(fail(StatusCode::Environment, "there is no cache folder: {}", store.why_no_live(log)),
                     "the settings cache and cache_dir (STEPFUSE_CACHE, STEPFUSE_CACHE_DIR) say where it is");
  SweepAges ages = store.options().ages;
  ages.young = seconds(0);
  const SweepReport report = sweep_folder(*store.options().ops, live->fd.get(), goal, ages);
  if (report.error == 0) return report;
  return with_hint(fail(StatusCode::Io, "{}: {} entries were removed, {} are left: {}", live->path, report.evicted,
                        report.entries, error_text(report.error)),
                   "mend the folder's rights or its disk, and try again");
}

}  // namespace stepfuse::runtime
