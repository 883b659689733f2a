// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/option_values.h"

#include "compiler/pass.h"
#include "ir/support/nearest.h"
#include "runtime/cuda_backend.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace stepfuse::tools {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

tl::unexpected<Status> bad_choice(std::string_view option, const std::string& text,
                                  std::span<const std::string_view> choices) {
  return with_hint(fail(StatusCode::InvalidArgument, "--{} {} is not legal", option, text),
                   suggestion(text, choices, fmt::format("--{} takes {}", option, fmt::join(choices, ", "))));
}

constexpr std::array<std::string_view, 7> kTargets{"interp", "cpu",   "x86-64-v3", "x86-64-v4",
                                                   "cuda",   "sm_90", "compute_90"};

Result<ir::DType> element_type(const std::string& key, const std::string& text) {
  static constexpr std::array<std::string_view, 4> kTypes{"f32", "bf16", "f16", "f64"};
  const auto dtype = ir::parse_dtype(text);
  if (dtype && *dtype != ir::DType::Bool) return *dtype;
  return with_hint(fail(StatusCode::InvalidArgument, "--dtype {}={} is not legal", key, text),
                   suggestion(text, kTypes, fmt::format("the element types are {}", fmt::join(kTypes, ", "))));
}

Result<std::string> check_target_name(const std::string& target) {
  if (runtime::is_cuda_target(target)) return runtime::check_cuda_target(target).map([&] { return target; });
  if (std::find(kTargets.begin(), kTargets.end(), target) != kTargets.end()) return target;
  return bad_choice("target", target, kTargets);
}

}  // namespace

Result<std::string> read_choice(const Arguments& arguments, std::string_view option,
                                std::vector<std::string_view> choices, std::vector<std::string_view> later) {
  const std::string text = arguments.get(option, choices.front());
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  if (std::find(later.begin(), later.end(), text) != later.end()) return not_yet(fmt::format("--{} {}", option, text));
  return bad_choice(option, text, choices);
}

Result<ir::Mode> read_mode(const Arguments& arguments) {
  STEPFUSE_ASSIGN(const std::string mode, read_choice(arguments, "mode", {"default", "strict"}, {"deterministic"}));
  return mode == "strict" ? ir::Mode::Strict : ir::Mode::Default;
}

Result<std::string> read_target(const Arguments& arguments) {
  const std::string target = arguments.get("target", "cpu");
  if (target.find(',') != std::string::npos)
    return with_hint(fail(StatusCode::InvalidArgument, "{} takes one target, not '{}'", arguments.command, target),
                     "aot alone takes a list");
  return check_target_name(target);
}

Result<std::vector<std::string>> read_targets(const Arguments& arguments) {
  std::vector<std::string> targets;
  for (const std::string& word : split(arguments.get("target"), ',')) {
    STEPFUSE_ASSIGN(const std::string target, check_target_name(word));
    if (target == "interp" || target == "cuda")
      return with_hint(fail(StatusCode::InvalidArgument, "aot compiles nothing for target '{}'", target),
                       target == "cuda" ? "name architectures, such as sm_90: no device is looked at"
                                        : "the interpreter runs the rule as it stands");
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
  }
  return targets;
}

Result<int64_t> read_count(const Arguments& arguments, std::string_view option, int64_t fallback, int64_t lo,
                           int64_t hi) {
  if (!arguments.has(option)) return fallback;
  const std::string text = arguments.get(option);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= lo && value <= hi) return value;
  return with_hint(fail(StatusCode::InvalidArgument, "--{} {} is not legal", option, text),
                   fmt::format("--{} takes a whole number from {} to {}", option, lo, hi));
}

Result<std::vector<std::string>> read_passes(const Arguments& arguments, std::string_view option,
                                             std::string_view special) {
  std::vector<std::string> passes;
  for (const std::string& value : arguments.all(option))
    for (std::string& name : split(value, ',')) {
      if (special.empty() || name != special)
        STEPFUSE_TRY(compiler::find_pass(name).map([](const compiler::PassInfo*) {}));
      passes.push_back(std::move(name));
    }
  return passes;
}

Result<ir::OptionList> read_sets(const Arguments& arguments) {
  ir::OptionList options;
  for (const std::string& text : arguments.all("set")) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return with_hint(fail(StatusCode::InvalidArgument, "--set {} is not KEY=VALUE", text),
                       "write it like --set lr=0.02");
    const std::string key = text.substr(0, equals);
    options.emplace_back(key, text.substr(equals + 1));
  }
  return options;
}

Result<ElementTypes> read_dtypes(const Arguments& arguments) {
  static constexpr std::array<std::string_view, 3> kKeys{"p", "g", "m"};
  ElementTypes types;
  if (!arguments.has("dtype")) return types;
  for (const std::string& part : split(arguments.get("dtype"), ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (key == "master") return not_yet("--dtype master=... (a master copy of the parameters)");
    std::optional<ir::DType>* place = key == "p"   ? &types.param
                                      : key == "g" ? &types.grad
                                      : key == "m" ? &types.state
                                                   : nullptr;
    if (place == nullptr || equals == std::string::npos)
      return with_hint(fail(StatusCode::InvalidArgument, "--dtype {} is not legal", arguments.get("dtype")),
                       fmt::format("write it like p=bf16,g=bf16,m=f32; the keys are {} (parameter, gradient, state)",
                                   fmt::join(kKeys, ", ")));
    if (place->has_value()) return fail(StatusCode::InvalidArgument, "--dtype gives {} twice", key);
    STEPFUSE_ASSIGN(*place, element_type(key, part.substr(equals + 1)));
  }
  return types;
}

Outcome check_preset(const Arguments& arguments) {
  return read_choice(arguments, "preset", {"torch"},
                     {"keller", "emerging", "megatron", "verl", "moonlight", "dion", "gns"})
      .map([](const std::string&) {});
}

Outcome require(const Arguments& arguments, std::initializer_list<std::string_view> options) {
  for (std::string_view option : options)
    if (!arguments.has(option))
      return with_hint(fail(StatusCode::InvalidArgument, "{} needs --{}", arguments.command, option),
                       fmt::format("see `stepfuse {} --help`", arguments.command));
  return {};
}

}  // namespace stepfuse::tools
