// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/cli_options.h"

#include "ir/support/nearest.h"
#include "ir/support/version.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <set>
#include <span>

#include <CLI/CLI.hpp>

namespace stepfuse::tools {

namespace {

enum CommandBit : unsigned {
  kRun = 1,
  kInspect = 2,
  kExplain = 4,
  kOpt = 8,
  kList = 16,
  kDescribe = 32,
  kRoute = 64,
  kConfig = 128,
  kDoctor = 256,
  kCache = 512,
  kAot = 1024
};

struct CommandSpec {
  std::string_view name;
  unsigned bit;
  std::string_view positional;  // its name in the help, or several by blanks; empty: takes none
  std::string_view summary;
  std::string_view example;
};

constexpr std::array kCommands{
    CommandSpec{
        "run", kRun, "", "optimizer steps on real tensors, safetensors to safetensors",
        "stepfuse run --recipe adamw --set lr=3e-4 --params p.safetensors --grads g.safetensors --out p1.safetensors"},
    CommandSpec{"inspect", kInspect, "", "print one stage on the way from a recipe to machine code",
                "stepfuse inspect --recipe muon --shape 768x3072 --stage fused"},
    CommandSpec{"explain", kExplain, "", "launches, traffic and the reason for every decision",
                "stepfuse explain --recipe muon --shape 768x3072 --format json"},
    CommandSpec{"opt", kOpt, "FILE|-", "run compiler passes over IR text and print the result",
                "stepfuse opt rule.sfir --passes simplify,cse,dce --print-after all"},
    CommandSpec{"list", kList, "recipes|presets|passes|ops|targets|coefficients", "what this build knows",
                "stepfuse list passes"},
    CommandSpec{"describe", kDescribe, "RECIPE", "the options of a recipe: type, default, range, source",
                "stepfuse describe muon"},
    CommandSpec{"cache", kCache, "path|ls|show|stats|verify|prune|clear|why-miss [HASH]", "the kernel cache on disk",
                "stepfuse cache why-miss --recipe muon --shape 768x3072 --mode strict"},
    CommandSpec{"route", kRoute, "", "which parameter goes to which optimizer, by which rule",
                "stepfuse route --config gpt2.toml --params p.safetensors --explain"},
    CommandSpec{"config", kConfig, "check FILE", "check a config, and that it fits a model",
                "stepfuse config check gpt2.toml --params p.safetensors"},
    CommandSpec{"aot", kAot, "verify|finish BUNDLE",
                "compile a model's kernels ahead of time into one file, check it, or add what a device chooses",
                "stepfuse aot --config optim.toml --params model.toml --target sm_90,x86-64-v3 -o kernels.sfb"},
    CommandSpec{"doctor", kDoctor, "", "versions, settings and where they come from, libraries, a self-test",
                "stepfuse doctor --format json"},
};
constexpr std::array<std::string_view, 1> kLaterCommands{"bench"};

struct OptionSpec {
  std::string_view name;
  std::string_view shorthand;  // "-o", or empty
  std::string_view value;      // its name in the help; empty for a flag
  unsigned commands;
  bool repeats;
  bool later;
  std::string_view help;
};

constexpr unsigned kModel = kRun | kInspect | kExplain | kCache | kAot;
constexpr unsigned kRouted = kModel | kRoute | kConfig;
constexpr unsigned kShapes = kInspect | kExplain | kRoute | kConfig | kCache | kAot;
constexpr unsigned kPrints = kInspect | kExplain | kOpt | kList | kDescribe | kRoute | kConfig | kDoctor | kCache;
constexpr unsigned kAll = kRun | kAot | kPrints;

/// The one shared set of options: a name means the same wherever it is accepted.
constexpr std::array kOptions{
    OptionSpec{"recipe", "", "NAME|FILE|-", kModel, false, false,
               "built-in recipe, IR file (*.sfir) or IR text on stdin; without it, Muon for hidden matrices and AdamW "
               "for the rest"},
    OptionSpec{"preset", "", "NAME", kModel | kDescribe, false, false, "dialect of the recipe (torch)"},
    OptionSpec{"config", "", "FILE", kModel | kRoute | kDoctor, false, false,
               "TOML file with groups, hyperparameters and settings (docs/config.md)"},
    OptionSpec{"set", "", "KEY=VALUE", kRouted, true, false,
               "hyperparameter or key of the config, such as lr=0.02, betas=0.9,0.95 or muon.lr=0.02"},
    OptionSpec{
        "params", "", "FILE", kRouted, false, false,
        "safetensors with the parameters; other commands than run read its header only and take a *.toml manifest too"},
    OptionSpec{"grads", "", "FILE", kRun, false, false, "safetensors with the gradients, by parameter name"},
    OptionSpec{"state", "", "FILE", kRun, false, false, "optimizer states to start from, named PARAMETER.KEY"},
    OptionSpec{"out", "", "FILE", kRun, false, false, "where the new parameters go"},
    OptionSpec{"state-out", "", "FILE", kRun, false, false, "where the new states go"},
    OptionSpec{"steps", "", "N", kRun, false, false, "steps with the same gradients (1)"},
    OptionSpec{"check", "", "", kRun, false, false, "compare with the interpreter and fail if out of tolerance"},
    OptionSpec{"threads", "", "N", kRun | kDoctor, false, false, "threads (one per core this process may use)"},
    OptionSpec{"jobs", "", "N", kRun | kDoctor | kAot, false, false, "kernels compiled at a time (as many as threads)"},
    OptionSpec{"stage", "", "NAME", kInspect, false, false,
               "naive, fused, plan; llvm or asm on a CPU; cuda, ptx or sass (naive)"},
    OptionSpec{"shape", "", "RxC|N@RxC", kShapes, true, false, "a parameter's shape, or N parameters of one shape"},
    OptionSpec{"dtype", "", "p=T,g=T,m=T", kShapes, false, false,
               "element types of parameters, gradients and states: f32, bf16, f16, f64 (g and m follow p)"},
    OptionSpec{"mode", "", "MODE", kModel | kOpt | kDoctor, false, false,
               "default, or strict: one rounding per op as the recipe says"},
    OptionSpec{"target", "", "TARGET", kModel | kOpt | kDoctor, false, false,
               "interp, cpu (this host), x86-64-v3, x86-64-v4, cuda (the present device), sm_90, compute_90 or the "
               "like (cpu); aot: a list by commas"},
    OptionSpec{"disable", "", "PASS", kModel | kOpt | kDoctor, true, false, "leave out a compiler pass"},
    OptionSpec{"passes", "", "A,B,C", kOpt, false, false, "the passes to run, in this order (the whole pipeline)"},
    OptionSpec{"print-after", "", "A,B|all", kOpt, false, false, "print the graph after these passes too"},
    OptionSpec{"members", "", "N", kOpt, false, false, "parameters that share the graph (1)"},
    OptionSpec{"max-size", "", "BYTES", kCache, false, false, "prune: remove the longest unused until this is left"},
    OptionSpec{"max-age", "", "N[s|m|h|d]", kCache, false, false, "prune: remove what was not used for this long"},
    OptionSpec{"explain", "", "", kRoute, false, false, "one line per parameter, with the reasons"},
    OptionSpec{"format", "", "text|json", kExplain | kList | kDescribe | kRoute | kDoctor | kCache | kAot, false, false,
               "form of the result (text)"},
    OptionSpec{"output", "-o", "FILE", kPrints, false, false, "write the result here instead of stdout"},
    OptionSpec{"output", "-o", "FILE", kAot, false, false, "the bundle, *.sfb"},
    OptionSpec{"dry-run", "", "", kAot, false, false, "list what would be compiled, and compile nothing"},
    OptionSpec{"quiet", "-q", "", kAll, false, false, "no notes on stderr"},
    OptionSpec{"verbose", "-v", "", kAll, false, false, "say more on stderr"},
    OptionSpec{"color", "", "WHEN", kAll, false, false, "auto, always or never (auto; NO_COLOR is honoured)"},
    OptionSpec{"grad-scale", "", "X", kRun, false, true, "factor that the gradients carry"},
    OptionSpec{"clip-norm", "", "X", kRun, false, true, "clip by the global norm"},
    OptionSpec{"fail-on-skip", "", "", kRun, false, true, "exit 1 when a step was skipped"},
};

struct Parser {
  CLI::App app{"Stepfuse: fused optimizer steps", "stepfuse"};
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  std::map<std::string, bool, std::less<>> flags;
  std::deque<std::vector<std::string>> positionals;  // of all commands; only the chosen one's are filled
};

/// Options with a value are vectors, so that a second occurrence is ours to judge.
void add_option(Parser& parser, CLI::App& command, const OptionSpec& spec) {
  const std::string name(spec.name);
  const std::string names = (spec.shorthand.empty() ? "" : std::string(spec.shorthand) + ",") + "--" + name;
  CLI::Option* option = nullptr;
  if (spec.value.empty()) {
    option = command.add_flag(names, parser.flags[name], std::string(spec.help));
  } else {
    option = command.add_option(names, parser.values[name], std::string(spec.help));
    option->expected(1)->take_all()->allow_extra_args(false)->type_name(std::string(spec.value));
  }
  if (spec.later) option->group("");  // not in the help
}

void add_positionals(Parser& parser, CLI::App& command, std::string_view words) {
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(word.size() + 1, words.size()));
    command.add_option(std::string(word.substr(0, word.find('|'))), parser.positionals.emplace_back())
        ->expected(1)
        ->allow_extra_args(false)
        ->take_all()
        ->type_name(std::string(word));
  }
}

void build(Parser& parser) {
  parser.app.set_version_flag("--version", fmt::format("stepfuse {} ({})", kVersion, kGitDescribe),
                              "print the version");
  parser.app.set_help_flag("-h,--help", "print this text, or the options of a command");
  parser.app.allow_extras();
  for (const OptionSpec& spec : kOptions)
    if (spec.commands == kAll) add_option(parser, parser.app, spec);
  for (const CommandSpec& command : kCommands) {
    CLI::App* sub = parser.app.add_subcommand(std::string(command.name), std::string(command.summary));
    sub->allow_extras();
    sub->footer(fmt::format("Example:\n  {}\n", command.example));
    add_positionals(parser, *sub, command.positional);
    for (const OptionSpec& spec : kOptions)
      if ((spec.commands & command.bit) != 0) add_option(parser, *sub, spec);
  }
  for (std::string_view name : kLaterCommands) parser.app.add_subcommand(std::string(name))->allow_extras()->group("");
}

const CommandSpec* find_command(std::string_view name) {
  const auto* it =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const CommandSpec& c) { return c.name == name; });
  return it == kCommands.end() ? nullptr : it;
}

/// The commands that know an option which another one does not.
std::string owners_of(std::string_view option) {
  const auto* spec = std::find_if(kOptions.begin(), kOptions.end(),
                                  [&](const OptionSpec& o) { return option == fmt::format("--{}", o.name); });
  if (spec == kOptions.end()) return {};
  std::vector<std::string_view> owners;
  for (const CommandSpec& command : kCommands)
    if ((spec->commands & command.bit) != 0) owners.push_back(command.name);
  return fmt::format("{} belongs to {}", option, fmt::join(owners, ", "));
}

tl::unexpected<Status> unknown_command(const std::string& word) {
  std::vector<std::string_view> names;
  for (const CommandSpec& command : kCommands) names.push_back(command.name);
  return with_hint(fail(StatusCode::InvalidArgument, "there is no command '{}'", word),
                   suggestion(word, names, fmt::format("the commands are {}", fmt::join(names, ", "))));
}

tl::unexpected<Status> unexpected_word(const CommandSpec& command, const std::string& word) {
  if (word.size() < 2 || word[0] != '-')
    return with_hint(fail(StatusCode::InvalidArgument, "{}: unexpected argument '{}'", command.name, word),
                     fmt::format("see `stepfuse {} --help`", command.name));
  const std::string option = word.substr(0, word.find('='));
  std::vector<std::string> names{"--help"};
  for (const OptionSpec& spec : kOptions)
    if ((spec.commands & command.bit) != 0) names.push_back(fmt::format("--{}", spec.name));
  std::string hint = owners_of(option);
  if (hint.empty()) hint = did_you_mean(option, names);
  hint += fmt::format("{}see `stepfuse {} --help`", hint.empty() ? "" : hint.ends_with('?') ? " " : "; ", command.name);
  return with_hint(fail(StatusCode::InvalidArgument, "{}: unknown option '{}'", command.name, option), hint);
}

/// CLI11's words for a usage error in ours. Only a missing value can get here: the rest is accepted and judged later.
tl::unexpected<Status> usage_error(const CLI::ParseError& error) {
  const std::string text = error.what();
  const size_t colon = text.find(':');
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && colon != std::string::npos)
    return fail(StatusCode::InvalidArgument, "option {} needs a value", text.substr(0, colon));
  return fail(StatusCode::InvalidArgument, "{}", text);
}

/// `--params --grads g.safetensors`: the value is missing, and CLI11 took the next option for it.
Outcome check_values(const Arguments& arguments) {
  for (const OptionSpec& spec : kOptions) {
    const auto it = arguments.values.find(spec.name);
    if (it == arguments.values.end()) continue;
    for (const std::string& value : it->second) {
      if (value.starts_with("--"))
        return with_hint(fail(StatusCode::InvalidArgument, "option --{} needs a value", spec.name),
                         fmt::format("it is followed by {}", value));
      if (value.empty() && !spec.value.empty())
        return fail(StatusCode::InvalidArgument, "option --{} has an empty value", spec.name);
    }
    if (!spec.repeats && it->second.size() > 1)
      return with_hint(fail(StatusCode::InvalidArgument, "option --{} is given {} times", spec.name, it->second.size()),
                       "give it once");
    if (spec.later) return not_yet(fmt::format("option --{}", spec.name));
  }
  return {};
}

Arguments collect(const Parser& parser, std::string_view command) {
  Arguments arguments{std::string(command), {}, {}};
  for (const std::vector<std::string>& words : parser.positionals)
    arguments.positionals.insert(arguments.positionals.end(), words.begin(), words.end());
  for (const auto& [name, values] : parser.values)
    if (!values.empty()) arguments.values[name] = values;
  for (const auto& [name, given] : parser.flags)
    if (given) arguments.values[name] = {""};
  return arguments;
}

Result<CommandLine> interpret(const Parser& parser) {
  const auto chosen = parser.app.get_subcommands();
  const std::vector<std::string> extras = parser.app.remaining();
  if (chosen.empty()) {
    if (extras.empty())
      return with_hint(fail(StatusCode::InvalidArgument, "no command is given"), "see `stepfuse --help`");
    if (extras.front().starts_with('-'))
      return with_hint(fail(StatusCode::InvalidArgument, "unknown option '{}'", extras.front()),
                       "options follow a command; see `stepfuse --help`");
    return unknown_command(extras.front());
  }
  const std::string name = chosen.front()->get_name();
  const CommandSpec* command = find_command(name);
  if (command == nullptr) return not_yet(fmt::format("command `{}`", name));
  CommandLine line{collect(parser, name), {}};
  STEPFUSE_TRY(check_values(line.arguments));
  if (!extras.empty()) return unexpected_word(*command, extras.front());
  if (const auto words = chosen.front()->remaining(); !words.empty()) return unexpected_word(*command, words.front());
  return line;
}

}  // namespace

std::string Arguments::get(std::string_view option, std::string_view fallback) const {
  const auto it = values.find(option);
  return it == values.end() ? std::string(fallback) : it->second.back();
}

std::vector<std::string> Arguments::all(std::string_view option) const {
  const auto it = values.find(option);
  return it == values.end() ? std::vector<std::string>() : it->second;
}

tl::unexpected<Status> not_yet(std::string_view what) {
  return fail(StatusCode::Unsupported, "{} is not yet in this version ({})", what, kVersion);
}

Result<CommandLine> parse_command_line(int argc, const char* const* argv) {
  Parser parser;
  build(parser);
  try {
    parser.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return CommandLine{{}, parser.app.help()};
  } catch (const CLI::CallForVersion& version) {
    return CommandLine{{}, std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    return usage_error(error);
  }
  return interpret(parser);
}

}  // namespace stepfuse::tools
