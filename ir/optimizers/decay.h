// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/builder.h"
#include "ir/optimizers/recipe.h"

namespace stepfuse::ir {

/// How weight decay acts.
enum class Decay : uint8_t {
  Rescale,      // p * (1 - lr wd), as torch writes it
  Cautious,     // p - lr wd p where p and the update agree in sign, or one of them is 0 (dion)
  Decoupled,    // p - (wd lr) p, as emerging-optimizers writes it, and not at all for wd = 0
  Independent,  // p - wd p
  L2,           // g + wd p
  Palm,         // p - (wd lr^2) p
};

/// "decoupled", "independent", "l2", "palm" of emerging-optimizers.
Decay decay_named(std::string_view method);
/// The option of that name, with the package's choices.
OptionInfo decay_method_option(std::string_view source);

struct Decayed {
  ValueId param, grad;
};

/// Decay as a step of its own, before the update is known; Cautious leaves both alone.
Decayed apply_decay(Builder& b, Decay decay, const Decayed& before, ValueId lr, ValueId weight_decay);
/// The parameter after Cautious decay.
ValueId apply_cautious_decay(Builder& b, ValueId param, ValueId update, ValueId lr, ValueId weight_decay);

}  // namespace stepfuse::ir
