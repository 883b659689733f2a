// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "failure.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <system_error>
#include <vector>

namespace charlm {
namespace {

[[noreturn]] void refuse_value(std::string_view flag, std::string_view value, const std::string& legal) {
  throw Failure(ExitCode::Usage, "'" + std::string(value) + "' is not a value of " + std::string(flag),
                "legal: " + legal);
}

template <typename Integer>
Integer parse_integer(std::string_view flag, std::string_view value, Integer lowest, Integer highest) {
  Integer result{};
  const char* begin = value.data();
  const char* end = begin + value.size();
  const auto [stop, error] = std::from_chars(begin, end, result);
  if (error != std::errc{} || stop != end || result < lowest || result > highest) {
    refuse_value(flag, value, "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  return result;
}

stepfuse::Numerics parse_numerics(std::string_view flag, std::string_view value) {
  if (value == "strict") return stepfuse::Numerics::Strict;
  if (value == "default") return stepfuse::Numerics::Default;
  refuse_value(flag, value, "strict, default");
}

/// A flag; `apply` gets the flag's name and its value, empty for a switch.
struct Flag {
  std::string_view name;
  std::string_view value;  // what the help calls it; empty for a switch
  std::string_view meaning;
  void (*apply)(Options&, std::string_view, std::string_view);
};

using Text = std::string_view;

constexpr Flag kFlags[] = {
    {"--steps", "N", "training steps",
     [](Options& o, Text flag, Text value) { o.steps = parse_integer(flag, value, 1, 1000000); }},
    {"--batch", "N", "sequences per step",
     [](Options& o, Text flag, Text value) { o.batch = parse_integer(flag, value, 1, 4096); }},
    {"--context", "N", "characters per sequence",
     [](Options& o, Text flag, Text value) { o.context = parse_integer(flag, value, 2, 1024); }},
    {"--threads", "N", "threads of the model and of the optimizer; 0: one per core",
     [](Options& o, Text flag, Text value) { o.threads = parse_integer(flag, value, 0, 1024); }},
    {"--seed", "N", "seed of the initial values and of the order of the data",
     [](Options& o, Text flag, Text value) {
       o.seed = parse_integer<std::uint64_t>(flag, value, 0, ~std::uint64_t{0});
     }},
    {"--numerics", "MODE", "strict: fused and unfused agree bit for bit; default: faster, rounding may differ",
     [](Options& o, Text flag, Text value) { o.numerics = parse_numerics(flag, value); }},
    {"--target", "NAME", "where the optimizer runs: cpu, x86-64-v3, x86-64-v4, interp, cuda; the model runs on the CPU",
     [](Options& o, Text flag, Text value) {
       if (value.empty()) refuse_value(flag, value, "the name of a target");
       o.target = std::string(value);
     }},
    {"--text", "FILE", "train on this file; without it, on the licence texts of Debian",
     [](Options& o, Text flag, Text value) {
       if (value.empty()) refuse_value(flag, value, "the name of a file");
       o.text = std::string(value);
     }},
    {"--no-compare", "", "train once only, with the fused plan", [](Options& o, Text, Text) { o.compare = false; }},
    {"--require-below-bigram", "", "fail unless the held-out loss is below the bigram baseline",
     [](Options& o, Text, Text) { o.require_below_bigram = true; }},
    {"--check-gradients", "", "compare the model's gradients with finite differences, and end",
     [](Options& o, Text, Text) { o.check_gradients = true; }},
    {"--help", "", "print this text, and end", [](Options& o, Text, Text) { o.help = true; }},
};

/// Levenshtein's distance: insertions, deletions and replacements that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

const Flag& find_flag(std::string_view name) {
  const Flag* nearest = kFlags;
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return flag;
    if (edit_distance(name, flag.name) < edit_distance(name, nearest->name)) nearest = &flag;
  }
  std::string hint = "--help lists all options";
  // A name that shares less than half its letters with an option was hardly meant to be that one.
  if (2 * edit_distance(name, nearest->name) <= name.size()) {
    hint = "did you mean " + std::string(nearest->name) + "? " + hint;
  }
  throw Failure(ExitCode::Usage, "unknown option '" + std::string(name) + "'", hint);
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const Flag& flag = find_flag(name);
    const bool takes_value = !flag.value.empty();
    if (!takes_value && equals != std::string_view::npos) {
      throw Failure(ExitCode::Usage, std::string(name) + " takes no value", "write " + std::string(name) + " alone");
    }
    std::string_view value;
    if (takes_value && equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (takes_value) {
      if (++i == argc) {
        throw Failure(ExitCode::Usage, std::string(name) + " lacks its value",
                      "write " + std::string(name) + " " + std::string(flag.value));
      }
      value = argv[i];
    }
    flag.apply(options, name, value);
  }
  return options;
}

std::string help_text() {
  const Options defaults;
  std::string text =
      "Usage: charlm [options]\n\n"
      "Trains a small transformer on the characters of a text, with Muon on its hidden matrices and AdamW on the "
      "rest,\n"
      "once with Stepfuse's fused plan and once with the same plan unfused, and compares the two.\n\n"
      "Options:\n";
  for (const Flag& flag : kFlags) {
    std::string left = "  " + std::string(flag.name) + " " + std::string(flag.value);
    left.resize(std::max<std::size_t>(left.size() + 1, 27), ' ');
    text += left + std::string(flag.meaning) + "\n";
  }
  text += "\nDefaults: --steps " + std::to_string(defaults.steps) + " --batch " + std::to_string(defaults.batch) +
          " --context " + std::to_string(defaults.context) + " --threads 0 --seed " + std::to_string(defaults.seed) +
          " --numerics strict\n"
          "Exit code: 0 success, 1 a check failed, 2 wrong usage, 3 a file or a part of the machine is missing\n";
  return text;
}

}  // namespace charlm
