// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/nearest.h"
#include "runtime/cache/inspect.h"
#include "runtime/context.h"
#include "runtime/plan_kernels.h"
#include "tools/cache_miss.h"
#include "tools/commands.h"
#include "tools/library.h"
#include "tools/option_values.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

using runtime::EntryKind;
using runtime::ListedEntry;
using Json = nlohmann::ordered_json;

/// What an action works on.
struct CacheRequest {
  const Arguments& arguments;
  bool json = false;
  std::shared_ptr<const runtime::Context> context;

  runtime::Store& store() const { return context->kernels().store(); }
  const Log& log() const { return context->log(); }
};

std::string dump(Json body) {
  Json json = {{"schema", 1}};
  json.update(body);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// "3 d", "5 h", "12 min", "4 s".
std::string age_text(int64_t seconds) {
  if (seconds >= 2 * 86400) return fmt::format("{} d", seconds / 86400);
  if (seconds >= 2 * 3600) return fmt::format("{} h", seconds / 3600);
  return seconds >= 120 ? fmt::format("{} min", seconds / 60) : fmt::format("{} s", seconds);
}

/// The widest vectors an entry's code may use.
std::string_view target_text(const ListedEntry& entry) {
  if (const std::string_view arch = runtime::field(entry.fields, "arch"); !arch.empty()) return arch;
  const std::string_view features = runtime::field(entry.fields, "features");
  if (features.find("+avx512f") != std::string_view::npos) return "avx512";
  return features.find("+avx2") != std::string_view::npos ? "avx2" : "sse";
}

Json metadata_of(const ListedEntry& entry) {
  Json json = Json::parse(entry.metadata, nullptr, false);
  return json.is_object() ? json : Json::object();
}

/// A GPU's kernels have it in their compiler's options.
std::string_view mode_text(const ListedEntry& entry) {
  const std::string_view mode = runtime::field(entry.fields, "mode");
  return mode.empty() ? "-" : mode;
}

std::string name_of(const ListedEntry& entry) {
  const Json metadata = metadata_of(entry);
  const auto it = metadata.find("name");
  return it != metadata.end() && it->is_string() ? it->get<std::string>() : "?";
}

Json entry_json(const ListedEntry& entry) {
  Json json = {
      {"kind", runtime::entry_kind_name(entry.kind)}, {"hash", entry.hash},           {"name", name_of(entry)},
      {"mode", runtime::field(entry.fields, "mode")}, {"target", target_text(entry)}, {"bytes", entry.file_bytes},
      {"unused_seconds", entry.unused_seconds},       {"folder", entry.folder},       {"layer", entry.in_layer}};
  if (entry.kind == EntryKind::Shape)
    for (const char* name : {"shape", "dtypes", "layout", "disabled"}) json[name] = runtime::field(entry.fields, name);
  if (!entry.problem.empty()) json["problem"] = entry.problem;
  return json;
}

std::string entry_line(const ListedEntry& entry) {
  const std::string hash = entry.hash.substr(0, 12);
  if (!entry.problem.empty()) return fmt::format("{}  damaged: {}\n", hash, entry.problem);
  std::string what = name_of(entry);
  if (entry.kind == EntryKind::Shape)
    what =
        fmt::format("{} {} ({})", what, runtime::field(entry.fields, "shape"), runtime::field(entry.fields, "dtypes"));
  return fmt::format("{}  {:<6}  {:<7}  {:<6}  {:>7}  {:>7}  {}{}\n", hash, runtime::entry_kind_name(entry.kind),
                     mode_text(entry), target_text(entry), entry.file_bytes, age_text(entry.unused_seconds), what,
                     entry.in_layer ? "  in " + entry.folder : "");
}

Result<const runtime::CacheFolder*> live_folder(const CacheRequest& request) {
  const runtime::CacheFolder* live = request.store().live(request.log());
  if (live != nullptr) return live;
  return with_hint(
      fail(StatusCode::Environment, "no kernel is kept on disk: {}", request.store().why_no_live(request.log())),
      "see STEPFUSE_CACHE and STEPFUSE_CACHE_DIR");
}

Result<std::string> show_path(const CacheRequest& request) {
  STEPFUSE_ASSIGN(const runtime::CacheFolder* live, live_folder(request));
  if (!request.json) return live->path + "\n";
  Json layers = Json::array();
  for (const runtime::CacheLayer& layer : request.store().layers(request.log())) layers.push_back(layer.path);
  return dump({{"path", live->path}, {"layers", layers}});
}

Result<std::string> list(const CacheRequest& request) {
  // Shapes first: they are what a person asks about.
  std::vector<ListedEntry> entries = list_entries(request.store(), request.log());
  std::stable_partition(entries.begin(), entries.end(),
                        [](const ListedEntry& e) { return e.kind == EntryKind::Shape; });
  Json array = Json::array();
  std::string text;
  for (const ListedEntry& entry : entries) {
    if (request.json) {
      array.push_back(entry_json(entry));
    } else {
      text += entry_line(entry);
    }
  }
  return request.json ? dump({{"entries", array}}) : text;
}

Result<std::string> show(const CacheRequest& request) {
  STEPFUSE_ASSIGN(const runtime::ShownEntry shown,
                  show_entry(request.store(), request.arguments.positionals[1], request.log()));
  const ListedEntry& entry = shown.listed;
  const std::string_view payload(reinterpret_cast<const char*>(shown.payload.data()), shown.payload.size());
  const bool is_shape = entry.kind == EntryKind::Shape && Json::accept(payload);
  if (request.json) {
    Json json = entry_json(entry);
    for (const runtime::KeyField& field : entry.fields) json["key"][field.name] = field.value;
    json["metadata"] = metadata_of(entry);
    json["payload_bytes"] = entry.payload_bytes;
    if (is_shape) json["payload"] = Json::parse(payload);
    return dump({{"entry", json}});
  }
  std::string text = fmt::format("{}/{}: {} bytes, unused for {}\n", entry.folder, entry.path, entry.file_bytes,
                                 age_text(entry.unused_seconds));
  if (!entry.problem.empty()) text += fmt::format("damaged: {}\n", entry.problem);
  text += "key\n";
  for (const runtime::KeyField& field : entry.fields) text += fmt::format("  {}: {}\n", field.name, field.value);
  text += fmt::format("metadata\n  {}\npayload: {} bytes\n", metadata_of(entry).dump(), entry.payload_bytes);
  return is_shape ? text + Json::parse(payload).dump(2) + "\n" : text;
}

Result<std::string> show_stats(const CacheRequest& request) {
  STEPFUSE_ASSIGN(const runtime::CacheFolder* live, live_folder(request));
  const runtime::StoreStats s = store_stats(request.store(), request.log());
  if (request.json)
    return dump({{"path", live->path},
                 {"entries", s.entries},
                 {"kernels", s.kernels},
                 {"shapes", s.shapes},
                 {"products", s.products},
                 {"bytes", s.bytes},
                 {"max_bytes", s.max_bytes},
                 {"temporary_files", s.temporary_files},
                 {"layer_entries", s.layer_entries}});
  return fmt::format(
      "{}\n{} entries: {} kernels, {} shapes, {} products; {} of at most {} bytes\n{} unfinished files, {} entries in "
      "layers\n",
      live->path, s.entries, s.kernels, s.shapes, s.products, s.bytes, s.max_bytes, s.temporary_files, s.layer_entries);
}

Result<std::string> verify(const CacheRequest& request) {
  int error = 0;
  const auto entries = list_entries(request.store(), request.log(), runtime::problem_with, &error);
  if (error != 0)
    return with_hint(fail(StatusCode::Io, "not all entries can be read: {}", runtime::error_text(error)),
                     "mend the rights of the cache folder or its disk");
  std::vector<std::string> bad;
  for (const ListedEntry& entry : entries)
    if (!entry.problem.empty()) bad.push_back(fmt::format("{}/{}: {}", entry.folder, entry.path, entry.problem));
  if (!bad.empty())
    return with_hint(fail(StatusCode::Failed, "{} of {} entries cannot be used:\n  {}", bad.size(), entries.size(),
                          fmt::join(bad, "\n  ")),
                     "what is damaged in the cache folder is made anew when it is next needed; read-only folders are "
                     "their owner's to mend");
  if (request.json) return dump({{"entries", entries.size()}, {"damaged", 0}});
  return fmt::format("{} entries, all whole\n", entries.size());
}

std::string removal_text(const CacheRequest& request, const runtime::SweepReport& report) {
  if (request.json)
    return dump({{"removed", report.evicted},
                 {"removed_bytes", report.evicted_bytes},
                 {"entries", report.entries},
                 {"bytes", report.bytes}});
  return fmt::format("removed {} entries, {} bytes; {} entries, {} bytes left\n", report.evicted, report.evicted_bytes,
                     report.entries, report.bytes);
}

/// "90", "90s", "5m", "12h", "30d".
Result<std::optional<runtime::seconds>> read_age(const Arguments& arguments) {
  if (!arguments.has("max-age")) return std::nullopt;
  const std::string text = arguments.get("max-age");
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int64_t scale = unit.empty() || unit == "s" ? 1
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                        : unit == "d"               ? 86400
                                                    : 0;
  if (error != std::errc{} || scale == 0 || number < 0 || number > INT64_MAX / 86400)
    return with_hint(fail(StatusCode::InvalidArgument, "--max-age {} is not legal", text),
                     "write it like 90s, 5m, 12h or 30d");
  return runtime::seconds(number * scale);
}

Result<std::string> prune(const CacheRequest& request) {
  const Arguments& arguments = request.arguments;
  runtime::SweepGoal goal{INT64_MAX, INT64_MAX, std::nullopt};
  STEPFUSE_ASSIGN(goal.older_than, read_age(arguments));
  if (arguments.has("max-size")) {
    // A size is written as in the setting.
    STEPFUSE_ASSIGN(const runtime::Settings sized,
                    runtime::Settings::resolve({{"cache_max_size", arguments.get("max-size"), "--max-size"}}, {}));
    goal.above = goal.down_to = sized.number("cache_max_size");
  } else if (!goal.older_than) {
    goal.above = goal.down_to = request.context->settings().number("cache_max_size");
  }
  return prune_store(request.store(), goal, request.log()).map([&](const auto& report) {
    return removal_text(request, report);
  });
}

Result<std::string> clear(const CacheRequest& request) {
  return prune_store(request.store(), {0, 0, runtime::seconds(0)}, request.log()).map([&](const auto& report) {
    return removal_text(request, report);
  });
}

Result<std::string> why_miss(const CacheRequest& request) {
  STEPFUSE_ASSIGN(const auto answers, explain_misses(request.arguments));
  return request.json ? dump(misses_json(answers)) : misses_text(answers);
}

struct Action {
  std::string_view name;
  Result<std::string> (*run)(const CacheRequest&);
  std::string_view argument;              // its one word, if it takes one
  std::vector<std::string_view> options;  // besides those of every action
};

const std::vector<Action>& actions() {
  static const std::vector<Action> table = {
      {"path", show_path, "", {}},
      {"ls", list, "", {}},
      {"show", show, "HASH", {}},
      {"stats", show_stats, "", {}},
      {"verify", verify, "", {}},
      {"prune", prune, "", {"max-size", "max-age"}},
      {"clear", clear, "", {}},
      {"why-miss",
       why_miss,
       "",
       {"recipe", "preset", "config", "set", "params", "shape", "dtype", "mode", "target", "disable"}},
  };
  return table;
}

Result<const Action*> find_action(const Arguments& arguments) {
  std::vector<std::string_view> names;
  for (const Action& action : actions()) names.push_back(action.name);
  const std::string all = fmt::format("the actions are {}", fmt::join(names, ", "));
  if (arguments.positionals.empty()) return with_hint(fail(StatusCode::InvalidArgument, "cache needs an action"), all);
  const std::string& word = arguments.positionals.front();
  for (const Action& action : actions())
    if (action.name == word) return &action;
  return with_hint(fail(StatusCode::InvalidArgument, "cache has no action '{}'", word), suggestion(word, names, all));
}

/// Options of one action mean nothing to the others.
Outcome check_options(const Action& action, const Arguments& arguments) {
  const size_t words = action.argument.empty() ? 1 : 2;
  if (arguments.positionals.size() < words)
    return fail(StatusCode::InvalidArgument, "cache {} needs a {}", action.name, action.argument);
  if (arguments.positionals.size() > words)
    return fail(StatusCode::InvalidArgument, "cache {}: unexpected argument '{}'", action.name,
                arguments.positionals[words]);
  for (const Action& other : actions())
    for (const std::string_view option : other.options)
      if (&other != &action && arguments.has(option))
        return with_hint(fail(StatusCode::InvalidArgument, "--{} has no effect on cache {}", option, action.name),
                         fmt::format("it belongs to cache {}", other.name));
  return {};
}

}  // namespace

Result<std::string> command_cache(const Arguments& arguments, const Console&) {
  STEPFUSE_ASSIGN(const Action* action, find_action(arguments));
  STEPFUSE_TRY(check_options(*action, arguments));
  STEPFUSE_ASSIGN(const std::string format, read_choice(arguments, "format", {"text", "json"}, {"dot", "html"}));
  STEPFUSE_ASSIGN(auto context, make_context(arguments));
  if (context->kernels().store().options().mode == runtime::CacheMode::Off)
    return with_hint(fail(StatusCode::InvalidArgument, "the cache is off"), "unset STEPFUSE_CACHE, or set it to on");
  return action->run({arguments, format == "json", std::move(context)});
}

}  // namespace stepfuse::tools
