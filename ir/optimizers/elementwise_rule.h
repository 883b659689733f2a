// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/builder.h"
#include "ir/optimizers/decay.h"
#include "ir/optimizers/recipe.h"

#include <functional>

namespace stepfuse::ir {

/// What an optimizer that treats every element by itself consists of: decay, and a direction with states of its own.
struct ElementwiseRule {
  std::string_view name;  // of the graph
  Decay decay = Decay::Rescale;
  struct Direction {
    ValueId update;
    std::optional<ValueId> rate_factor;  // a scalar on the learning rate
  };
  std::function<Direction(Builder&, ValueId grad, const ParameterSpec&)> direction;
  bool rounds_step = false;  // the update times the rate is rounded to the update's type before it is subtracted
};

/// The naive graph over one symbolic extent N. lr and weight_decay are options of `values`.
Graph build_elementwise(const ElementwiseRule& rule, const OptionValues& values, const ParameterSpec& spec);

/// An average of gradients by lerp, as a state of this key.
ValueId averaged(Builder& b, ValueId now, ValueId beta, std::string_view name, std::string_view key, DType dtype);

/// The average without the bias of its start at 0, after t steps: m / (1 - beta^t), or with Nesterov's look ahead
/// beta m / (1 - beta^(t+1)) + (1 - beta) g / (1 - beta^t). Without correction the denominators are 1.
struct BiasCorrection {
  bool correct = true, nesterov = false;
};
ValueId corrected(Builder& b, ValueId m, ValueId g, ValueId beta, ValueId t, BiasCorrection how);

}  // namespace stepfuse::ir
