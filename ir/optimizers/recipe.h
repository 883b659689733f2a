// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"
#include "ir/support/status.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepfuse::ir {

enum class OptionKind : uint8_t { Number, Integer, Bool, Choice, Numbers };

/// One option of a recipe, as `stepfuse describe` shows it.
struct OptionInfo {
  std::string_view name;
  OptionKind kind;
  std::string_view default_text;
  Interval range;                          // Number, Integer, each of Numbers
  std::vector<std::string_view> choices;   // Choice
  std::vector<std::string_view> elements;  // Numbers: the name of each one, also accepted alone ("beta1")
  std::string_view description;
  std::string_view source;  // whose default and range this is
};

using OptionList = std::vector<std::pair<std::string, std::string>>;

/// Options after defaults, parsing and range checks. The getters take names of the recipe's own table.
class OptionValues {
 public:
  double number(std::string_view name) const;  // Number, Integer, or one element of Numbers
  bool flag(std::string_view name) const;
  std::string_view choice(std::string_view name) const;
  void set(std::string name, std::string text, double value);
  std::string text(std::string_view name) const;

 private:
  struct Value {
    std::string text;
    double number;
  };
  std::map<std::string, Value, std::less<>> values_;
};

/// The option called `name`, or the list with an element of that name; null if there is none.
const OptionInfo* find_option(std::span<const OptionInfo> table, std::string_view name);

/// Checks `text` as the option `info`, or as its element `name`, and adds it to `out`. Errors begin with `subject`,
/// which says where the option stands and its name.
Outcome check_option(const std::string& subject, const OptionInfo& info, std::string_view name, std::string_view text,
                     OptionValues& out);

/// Parses `given` over the defaults of `table`. Unknown names (with the nearest legal one), repeated or overlapping
/// names, text that is no number, NaN and values out of range are errors that name the recipe and the option.
Result<OptionValues> parse_options(std::string_view recipe, std::span<const OptionInfo> table, const OptionList& given);

/// The parameter a recipe is instantiated for.
struct ParameterSpec {
  std::vector<int64_t> shape;
  DType param = DType::F32;
  DType grad = DType::F32;
  DType state = DType::F32;
};

/// What one step of the peer launches for one parameter, counted on the peer itself (reference in the recipe's file).
struct PeerLaunches {
  std::string_view peer;
  int64_t elementwise = 0;
  int64_t products = 0;
};

struct Recipe {
  std::string_view name;
  std::string_view summary;
  std::string_view follows;  // "torch.optim.AdamW 2.15.0"
  std::span<const OptionInfo> (*options)();
  /// Checks that go across options; the table's own checks are done.
  Outcome (*validate)(const OptionValues& values);
  /// The naive graph: elementwise recipes over one symbolic extent N, matrix recipes over concrete R and C.
  Result<Graph> (*build)(const OptionValues& values, const ParameterSpec& parameter);
  PeerLaunches (*peer_eager)(const OptionValues& values);
  size_t dimensions = 0;  // that a parameter must have; 0: any number
  /// The factor on the learning rate that comes from the shape; null: 1.
  double (*lr_scale)(const OptionValues& values, const std::vector<int64_t>& shape) = nullptr;
};

std::span<const Recipe> all_recipes();
/// The error lists the names and the nearest one.
Result<const Recipe*> find_recipe(std::string_view name);

inline constexpr Interval kNonNegative{0.0, std::numeric_limits<double>::infinity(), false, true};
inline constexpr Interval kUnit{0.0, 1.0, false, true};  // [0, 1)
inline constexpr Interval kFinite{};

// Recipes, one file each.
extern const Recipe kAdamRecipe;
extern const Recipe kAdamWRecipe;
extern const Recipe kSgdRecipe;
extern const Recipe kMuonRecipe;

}  // namespace stepfuse::ir
