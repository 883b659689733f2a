// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/resolve_options.h"

#include "ir/support/nearest.h"
#include "runtime/rule.h"

#include <algorithm>

namespace stepfuse::runtime {

namespace {

std::vector<const RawEntry*> pointers(const RawSection& section) {
  std::vector<const RawEntry*> out;
  for (const RawEntry& entry : section.entries) out.push_back(&entry);
  return out;
}

/// Keys of [defaults] that are no hyperparameters.
bool is_routing_key(std::string_view key) { return key == "preset" || key == "no_decay"; }

/// A list where the option takes one value, or a table.
std::optional<Status> wrong_kind(const RawEntry& entry, const ir::OptionInfo& info) {
  using Kind = RawValue::Kind;
  const bool list = info.kind == ir::OptionKind::Numbers;
  if (entry.value.kind != Kind::Other && (list || entry.value.kind != Kind::List)) return std::nullopt;
  const std::string_view wanted = list                                   ? "numbers"
                                  : info.kind == ir::OptionKind::Choice  ? "a word"
                                  : info.kind == ir::OptionKind::Bool    ? "true or false"
                                  : info.kind == ir::OptionKind::Integer ? "an integer"
                                                                         : "a number";
  return Status{entry.blame, fmt::format("{}: expected {}, got {}", entry.where(), wanted, entry.value.described),
                fmt::format("`stepfuse describe` shows the type of {}", info.name)};
}

}  // namespace

void add_once(Errors& errors, Status status) {
  const bool known =
      std::any_of(errors.begin(), errors.end(), [&](const Status& other) { return other.message == status.message; });
  if (!known) errors.push_back(std::move(status));
}

void add_once(std::vector<std::string>& notes, std::string note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

OptionResolver::OptionResolver(const RawConfig& raw, std::vector<std::string> names, Errors& errors,
                               std::vector<std::string>& notes)
    : raw_(raw), names_(std::move(names)), errors_(errors), notes_(notes) {}

void OptionResolver::error(Status status) { add_once(errors_, std::move(status)); }

const Hyperparameters* OptionResolver::hyperparameters(const std::string& optimizer, const std::string& where) {
  if (const auto it = known_.find(optimizer); it != known_.end()) return &it->second;
  auto found = Hyperparameters::of(optimizer);
  if (!found) {
    found.error().message = fmt::format("{}: {}", where, found.error().message);
    error(std::move(found.error()));
    return nullptr;
  }
  return &known_.emplace(optimizer, std::move(*found)).first->second;
}

/// The name that the optimizer knows it by; an old one is noted.
std::string_view OptionResolver::option_name(const std::string& optimizer, const RawEntry& entry) {
  const std::string_view name = renamed_option(optimizer, entry.key);
  if (name.empty()) return entry.key;
  add_once(notes_, fmt::format("{}: {} calls it {}", entry.where(), optimizer, name));
  return name;
}

void OptionResolver::overlay(const std::string& optimizer, const Hyperparameters& known,
                             const std::vector<const RawEntry*>& level, Values& values) {
  std::set<std::string> claimed;
  for (const RawEntry* entry : level) {
    const std::string_view option = option_name(optimizer, *entry);
    const ir::OptionInfo* info = known.find(option);
    if (info == nullptr) continue;
    candidates_[entry].insert(optimizer);
    if (auto wrong = wrong_kind(*entry, *info)) {
      error(std::move(*wrong));
      continue;
    }
    auto elements = known.check(entry->where(), option, entry->value.text());
    if (!elements) {
      elements.error().code = entry->blame;
      error(std::move(elements.error()));
      continue;
    }
    for (const auto& [name, text] : *elements) {
      if (!claimed.insert(name).second)
        error({entry->blame, fmt::format("{}: {} is given twice", entry->where(), name),
               "give each option once, by itself or as part of its list"});
      values[name] = {text, entry};
    }
  }
}

void OptionResolver::check_own(const std::vector<std::string>& optimizers, const std::vector<const RawEntry*>& own) {
  for (const RawEntry* entry : own) {
    const auto has = [&](const std::string& optimizer) {
      return known_.at(optimizer).find(option_name(optimizer, *entry)) != nullptr;
    };
    if (std::any_of(optimizers.begin(), optimizers.end(), has)) continue;
    error(no_option(*entry, fmt::format("{} has no", fmt::join(optimizers, " or ")), optimizers));
  }
}

/// `who`: "muon has no".
Status OptionResolver::no_option(const RawEntry& entry, std::string_view who,
                                 const std::vector<std::string>& optimizers) const {
  std::vector<std::string_view> names;
  for (const std::string& optimizer : optimizers)
    for (std::string_view name : known_.at(optimizer).names()) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string hint = foreign_option_hint(entry.key);
  if (hint.empty()) hint = suggestion(entry.key, names, fmt::format("the options are {}", fmt::join(names, ", ")));
  return {entry.blame, fmt::format("{}: {} option '{}'", entry.place, who, entry.key), std::move(hint)};
}

OptimizerChoice OptionResolver::settle(const std::string& optimizer, const Hyperparameters& known, const Values& values,
                                       const std::string& where) {
  OptimizerChoice choice{optimizer, {}, {}, known.recipe(), std::nullopt, std::nullopt};
  for (const auto& [name, value] : values) {
    choice.options.emplace_back(name, value.text);
    takers_[value.entry].insert(optimizer);
  }
  choice.lr = known.number(choice.options, "lr");
  choice.weight_decay = known.number(choice.options, "weight_decay");
  if (choice.recipe != nullptr) {
    auto all = ir::parse_options(optimizer, known.table(), choice.options);
    if (all) choice.values = std::move(*all);
  }
  if (auto rule = Rule::create(optimizer, choice.options); !rule) {
    Status status = std::move(rule.error());
    error({raw_.blame, fmt::format("{}: {}", where, status.message), std::move(status.hint)});
  }
  return choice;
}

std::vector<OptimizerChoice> OptionResolver::resolve(const std::vector<std::string>& optimizers,
                                                     const std::vector<const RawEntry*>& own,
                                                     const std::string& where) {
  std::vector<OptimizerChoice> choices;
  for (const std::string& optimizer : optimizers)
    if (hyperparameters(optimizer, where) == nullptr) return choices;
  check_own(optimizers, own);
  for (const std::string& optimizer : optimizers) {
    const Hyperparameters& known = known_.at(optimizer);
    Values values;
    overlay(optimizer, known, pointers(raw_.defaults), values);
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == optimizer) overlay(optimizer, known, pointers(raw_.defaults_for[i]), values);
    overlay(optimizer, known, own, values);
    choices.push_back(settle(optimizer, known, values, where));
  }
  return choices;
}

/// `candidates`: the optimizers that the entry may be meant for.
void OptionResolver::judge_untaken(const RawEntry& entry, const std::vector<std::string>& candidates, bool strict) {
  std::vector<std::string> holders;
  std::optional<Status> bad;
  for (const std::string& optimizer : candidates) {
    const Hyperparameters* known = hyperparameters(optimizer, entry.where());
    if (known == nullptr) return;
    const std::string_view option = option_name(optimizer, entry);
    const ir::OptionInfo* info = known->find(option);
    if (info == nullptr) continue;
    holders.push_back(optimizer);
    if (!bad) bad = wrong_kind(entry, *info);
    if (auto checked = known->check(entry.where(), option, entry.value.text()); !checked && !bad)
      bad = Status{entry.blame, checked.error().message, checked.error().hint};
  }
  if (holders.empty()) {
    const bool one = candidates.size() == 1;
    return error(no_option(entry, one ? candidates.front() + " has no" : "no optimizer has an", candidates));
  }
  if (bad) return error(std::move(*bad));
  const std::string why = candidates_.contains(&entry)
                              ? "every group that could take it has a value of its own"
                              : fmt::format("it belongs to {}, which no group uses", fmt::join(holders, ", "));
  std::string message = fmt::format("{} has no effect: {}", entry.where(), why);
  if (strict) return error({entry.blame, std::move(message), "take it out, or leave strict_config off"});
  add_once(notes_, std::move(message));
}

std::vector<DefaultOption> OptionResolver::finish(bool strict) {
  std::vector<DefaultOption> taken;
  const auto judge = [&](const RawEntry& entry, const std::vector<std::string>& candidates) {
    if (const auto it = takers_.find(&entry); it != takers_.end())
      taken.push_back({entry.where(), {it->second.begin(), it->second.end()}});
    else
      judge_untaken(entry, candidates, strict);
  };
  std::vector<std::string> all = optimizer_names();
  for (const auto& [optimizer, known] : known_)
    if (known.recipe() == nullptr) all.push_back(optimizer);
  for (const RawEntry& entry : raw_.defaults.entries)
    if (!is_routing_key(entry.key)) judge(entry, all);
  for (size_t i = 0; i < names_.size(); ++i)
    for (const RawEntry& entry : raw_.defaults_for[i].entries)
      if (!names_[i].empty()) judge(entry, {names_[i]});
  return taken;
}

}  // namespace stepfuse::runtime
