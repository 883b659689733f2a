// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/schema.h"

#include "compiler/pass.h"
#include "ir/support/nearest.h"
#include "runtime/config/resolve_options.h"
#include "runtime/target.h"

#include <algorithm>
#include <array>
#include <filesystem>

namespace stepfuse::runtime {

namespace {

constexpr std::array<std::string_view, 9> kGroupKeys{"name",   "match",   "where",  "except",  "optimizer",
                                                     "preset", "lr_mult", "lr_max", "no_decay"};
constexpr std::string_view kMatrixOptimizer = "muon";
constexpr std::string_view kOtherOptimizer = "adamw";
constexpr std::string_view kBuiltIn = "default";

const ir::OptionInfo kLrMult{"lr_mult", ir::OptionKind::Number, "1", ir::kNonNegative, {}, {}, {}, {}};
const ir::OptionInfo kLrMax{
    "lr_max", ir::OptionKind::Number, "1", ir::Interval{0, ir::kNonNegative.hi, true, true}, {}, {}, {}, {}};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

/// The values of a list; one text is a list of one, and a pair's text is a list by commas.
std::vector<std::string> list_of(const RawEntry& entry) {
  return entry.value.kind == RawValue::Kind::Written ? split(entry.value.items.front()) : entry.value.items;
}

class Schema {
 public:
  Schema(const RawConfig& raw, Errors& errors)
      : raw_(raw), errors_(errors), resolver_(raw, default_sections(), errors, config_.notes) {}

  Config apply() {
    if (!raw_.file.empty()) config_.name = raw_.file;
    config_.blame = raw_.blame;
    read_top();
    for (const RawEntry& entry : raw_.settings.entries) read_setting(entry);
    read_defaults();
    for (size_t i = 0; i < raw_.groups.size(); ++i) read_group(raw_.groups[i], i);
    check_names();
    if (!unmatched_is_error_) {
      GroupConfig rest;
      rest.name = kBuiltIn;
      rest.where = config_.name;
      rest.no_decay = default_no_decay_;
      rest.choices = resolver_.resolve(built_in(), {}, config_.name);
      config_.unmatched = std::move(rest);
    }
    config_.defaults = resolver_.finish(config_.strict);
    return std::move(config_);
  }

 private:
  static std::vector<std::string> built_in() { return {std::string(kMatrixOptimizer), std::string(kOtherOptimizer)}; }

  void error(StatusCode code, std::string message, std::string hint = {}) {
    add_once(errors_, {code, std::move(message), std::move(hint)});
  }

  void wrong_type(const RawEntry& entry, std::string_view wanted) {
    error(entry.blame, fmt::format("{}: expected {}, got {}", entry.where(), wanted, entry.value.described),
          "docs/config.md shows how each key is written");
  }

  void unknown_key(const RawEntry& entry, std::span<const std::string_view> known, std::string_view what) {
    error(entry.blame, fmt::format("{}: unknown key '{}'", entry.place, entry.key),
          suggestion(entry.key, known, fmt::format("{} {}", what, fmt::join(known, ", "))));
  }

  /// A text, as a pair or in quotes.
  std::optional<std::string> text(const RawEntry& entry) {
    const bool is_text = entry.value.kind == RawValue::Kind::Text || entry.value.kind == RawValue::Kind::Written;
    if (is_text && !entry.value.items.front().empty()) return entry.value.items.front();
    if (is_text)
      error(entry.blame, fmt::format("{} is empty", entry.where()), "leave the key out, or give it a value");
    else
      wrong_type(entry, "a text in quotes");
    return std::nullopt;
  }

  std::optional<std::vector<std::string>> texts(const RawEntry& entry, std::string_view what) {
    using Kind = RawValue::Kind;
    if (entry.value.kind == Kind::Text || entry.value.kind == Kind::Written || entry.value.kind == Kind::List)
      return list_of(entry);
    wrong_type(entry, fmt::format("{} or a list of them", what));
    return std::nullopt;
  }

  std::optional<size_t> choice(const RawEntry& entry, std::span<const std::string_view> choices) {
    const std::optional<std::string> word = text(entry);
    if (!word) return std::nullopt;
    const auto it = std::find(choices.begin(), choices.end(), *word);
    if (it != choices.end()) return static_cast<size_t>(it - choices.begin());
    error(entry.blame, fmt::format("{}={} is not legal", entry.where(), *word),
          suggestion(*word, choices, fmt::format("{} is {}", entry.key, fmt::join(choices, ", "))));
    return std::nullopt;
  }

  std::optional<double> number(const RawEntry& entry, const ir::OptionInfo& info) {
    if (entry.value.kind == RawValue::Kind::List || entry.value.kind == RawValue::Kind::Other) {
      wrong_type(entry, "a number");
      return std::nullopt;
    }
    ir::OptionValues values;
    if (auto checked = ir::check_option(entry.where(), info, info.name, entry.value.text(), values); !checked) {
      error(entry.blame, std::move(checked.error().message), std::move(checked.error().hint));
      return std::nullopt;
    }
    return values.number(info.name);
  }

  void read_top() {
    static constexpr std::array<std::string_view, 2> kTruth{"false", "true"};
    static constexpr std::array<std::string_view, 2> kUnmatched{"default", "error"};
    static constexpr std::array<std::string_view, 3> kUnknown{"muon", "adamw", "error"};
    for (const RawEntry& entry : raw_.top.entries) {
      if (entry.key == "strict_config") {
        const bool truth = entry.value.kind == RawValue::Kind::Bool;
        if (truth)
          config_.strict = entry.value.items.front() == "true";
        else if (const auto which = choice(entry, kTruth))
          config_.strict = *which == 1;
      } else if (entry.key == "unmatched") {
        if (const auto which = choice(entry, kUnmatched)) unmatched_is_error_ = *which == 1;
      } else if (entry.key == "unknown_2d") {
        if (const auto which = choice(entry, kUnknown)) config_.unknown_2d = static_cast<UnknownMatrix>(*which);
      } else {
        unknown_key(entry, kTopKeys, "the keys of a config are");
      }
    }
  }

  void read_setting(const RawEntry& entry) {
    if (entry.value.kind == RawValue::Kind::Other) return wrong_type(entry, "a value");
    const auto settings = all_settings();
    const auto info =
        std::find_if(settings.begin(), settings.end(), [&](const SettingInfo& s) { return s.name == entry.key; });
    const bool paths = info != settings.end() && info->kind == SettingKind::Paths;
    const SettingSource source{entry.key, entry.value.text(paths ? ":" : ","), entry.place};
    Outcome legal = Settings::resolve({}, {}, {source}).map([](const Settings&) {});
    if (legal && entry.key == "target") legal = check_target(source.text);
    for (const std::string& pass : split(entry.key == "disable" ? source.text : ""))
      if (legal) legal = compiler::find_pass(pass).map([](const compiler::PassInfo*) {});
    if (legal) return config_.settings.push_back(source);
    const bool placed = legal.error().message.starts_with(entry.place);
    error(legal.error().code == StatusCode::Unsupported ? StatusCode::Unsupported : entry.blame,
          placed ? legal.error().message : fmt::format("{}: {}", entry.where(), legal.error().message),
          legal.error().hint);
  }

  /// A recipe's name, or an IR file's path seen from here; empty if there is no such recipe.
  std::string optimizer_path(std::string_view written, const std::string& where, StatusCode blame) {
    if (written.ends_with(".sfir")) {
      const std::filesystem::path path(written);
      return path.is_absolute() ? path.string() : (std::filesystem::path(raw_.file).parent_path() / path).string();
    }
    const std::string_view ours = renamed_optimizer(written);
    if (!ours.empty()) {
      add_once(config_.notes, fmt::format("{}: '{}' is called {} here", where, written, ours));
      return std::string(ours);
    }
    if (auto recipe = ir::find_recipe(written); !recipe) {
      error(blame, fmt::format("{}: {}", where, recipe.error().message), std::move(recipe.error().hint));
      return {};
    }
    return std::string(written);
  }

  std::vector<std::string> default_sections() {
    std::vector<std::string> names;
    for (const RawSection& section : raw_.defaults_for)
      names.push_back(optimizer_path(
          section.name, section.where.empty() ? section.name : fmt::format("{}: {}", section.where, section.name),
          section.where.empty() ? StatusCode::InvalidArgument : raw_.blame));
    return names;
  }

  void read_preset(const RawEntry& entry) {
    const std::optional<std::string> preset = text(entry);
    if (!preset) return;
    if (auto legal = check_preset_name(entry.where(), *preset); !legal) {
      const StatusCode code = legal.error().code == StatusCode::Unsupported ? StatusCode::Unsupported : entry.blame;
      error(code, std::move(legal.error().message), std::move(legal.error().hint));
    }
  }

  Globs globs(const RawEntry& entry) {
    Globs out;
    const auto patterns = texts(entry, "a name pattern");
    for (const std::string& pattern : patterns.value_or(std::vector<std::string>())) {
      auto glob = Glob::compile(pattern);
      if (glob)
        out.push_back(std::move(*glob));
      else
        error(entry.blame, fmt::format("{}: {}", entry.where(), glob.error().message), glob.error().hint);
    }
    if (patterns && patterns->empty())
      error(entry.blame, fmt::format("{} is empty", entry.where()), "leave the key out, or give it patterns");
    return out;
  }

  /// Words that name a role, and patterns. A word that is neither is most likely a misspelt role.
  DecayExclusions exclusions(const RawEntry& entry) {
    static constexpr std::array<std::string_view, 8> kRoles{"bias",   "norm",        "embedding", "head",
                                                            "router", "state_space", "adapter",   "hidden"};
    DecayExclusions out;
    out.where = entry.where();
    for (const std::string& word : texts(entry, "a role or name pattern").value_or(std::vector<std::string>())) {
      if (const std::optional<Role> role = parse_role(word)) {
        out.roles.push_back(*role);
      } else if (word.find_first_of("*?[.") == std::string::npos) {
        error(
            entry.blame, fmt::format("{}: '{}' is neither a role nor a name pattern", entry.where(), word),
            suggestion(word, kRoles,
                       fmt::format("the roles are {}; a pattern has a dot or one of * ? [", fmt::join(kRoles, ", "))));
      } else if (auto glob = Glob::compile(word)) {
        out.names.push_back(std::move(*glob));
      } else {
        error(entry.blame, fmt::format("{}: {}", entry.where(), glob.error().message), glob.error().hint);
      }
    }
    return out;
  }

  void read_defaults() {
    for (const RawEntry& entry : raw_.defaults.entries) {
      if (entry.key == "preset") read_preset(entry);
      if (entry.key == "no_decay") default_no_decay_ = exclusions(entry);
    }
  }

  void read_condition(const RawEntry& entry, GroupConfig& group) {
    const std::optional<std::string> written = text(entry);
    if (!written) return;
    auto condition = Condition::parse(*written);
    if (condition)
      group.condition = std::move(*condition);
    else
      error(entry.blame, fmt::format("{}: {}", entry.where(), condition.error().message), condition.error().hint);
  }

  /// False when `entry` is a hyperparameter.
  bool read_group_key(const RawEntry& entry, GroupConfig& group, std::vector<std::string>& optimizers) {
    if (std::find(kGroupKeys.begin(), kGroupKeys.end(), entry.key) == kGroupKeys.end()) return false;
    if (entry.key == "match") group.match = globs(entry);
    if (entry.key == "except") group.except = globs(entry);
    if (entry.key == "where") read_condition(entry, group);
    if (entry.key == "preset") read_preset(entry);
    if (entry.key == "lr_mult") group.policy.lr_mult = number(entry, kLrMult).value_or(1);
    if (entry.key == "lr_max") group.policy.lr_max = number(entry, kLrMax);
    if (entry.key == "no_decay") group.no_decay = exclusions(entry);
    if (entry.key == "optimizer") {
      const std::optional<std::string> written = text(entry);
      optimizers = {written ? optimizer_path(*written, entry.where(), entry.blame) : std::string()};
    }
    return true;
  }

  std::string name_of(const RawSection& section, size_t index) {
    std::string name = section.name;
    for (const RawEntry& entry : section.entries)
      if (entry.key == "name") name = text(entry).value_or("");
    return name.empty() ? fmt::format("{}", index + 1) : name;
  }

  void read_group(const RawSection& section, size_t index) {
    GroupConfig group;
    group.name = name_of(section, index);
    group.where = fmt::format("{}group '{}'", section.where.empty() ? "" : section.where + ": ", group.name);
    group.no_decay = default_no_decay_;
    std::vector<std::string> optimizers = built_in();
    std::vector<const RawEntry*> own;
    for (const RawEntry& entry : section.entries)
      if (!read_group_key(entry, group, optimizers)) own.push_back(&entry);
    const auto given = [&](std::string_view key) {
      return std::any_of(section.entries.begin(), section.entries.end(), [&](const auto& e) { return e.key == key; });
    };
    if (!given("match") && !given("where"))
      error(raw_.blame, fmt::format("{} has neither match nor where", group.where),
            "match = \"*\" takes every parameter");
    if (!optimizers.front().empty()) {
      group.choices = resolver_.resolve(optimizers, own, group.where);
      check_takers(section, group);
    }
    config_.groups.push_back(std::move(group));
  }

  /// lr_mult, lr_max and no_decay of a group whose optimizer has nothing for them to act on.
  void check_takers(const RawSection& section, const GroupConfig& group) {
    for (const RawEntry& entry : section.entries) {
      const bool rate = entry.key == "lr_mult" || entry.key == "lr_max";
      if (!rate && entry.key != "no_decay") continue;
      const bool acts = group.choices.empty() ||
                        std::any_of(group.choices.begin(), group.choices.end(), [&](const OptimizerChoice& choice) {
                          return rate ? choice.lr.has_value() : choice.weight_decay.has_value();
                        });
      if (!acts)
        error(entry.blame,
              fmt::format("{} has no effect: {} has no {}", entry.where(), group.choices.front().optimizer,
                          rate ? "lr" : "weight_decay"),
              "leave it out of this group");
    }
  }

  void check_names() {
    for (size_t i = 0; i < config_.groups.size(); ++i) {
      const GroupConfig& group = config_.groups[i];
      if (group.name == kBuiltIn)
        error(raw_.blame, fmt::format("{}: the name stands for the built-in rules", group.where), "give another name");
      for (size_t other = 0; other < i; ++other)
        if (config_.groups[other].name == group.name)
          error(raw_.blame, fmt::format("{}: there already is a group of this name", group.where),
                fmt::format("the first is {}", config_.groups[other].where));
    }
  }

  const RawConfig& raw_;
  Errors& errors_;
  Config config_;
  DecayExclusions default_no_decay_;
  bool unmatched_is_error_ = false;
  OptionResolver resolver_;
};

}  // namespace

Config apply_schema(const RawConfig& raw, Errors& errors) { return Schema(raw, errors).apply(); }

}  // namespace stepfuse::runtime
