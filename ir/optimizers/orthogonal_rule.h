// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/decay.h"
#include "ir/optimizers/newton_schulz.h"
#include "ir/optimizers/recipe.h"
#include "ir/optimizers/shape_scale.h"

#include <functional>

namespace stepfuse::ir {

enum class MomentumForm : uint8_t {
  Lerp,  // M = lerp(M, G, 1 - mu); Nesterov: lerp(G, M, mu)
  Sum,   // M = mu M + G; Nesterov: G + mu M
};

/// What an optimizer that orthogonalises its momentum consists of. Dialects differ in these parts, and in nothing else.
struct OrthogonalRule {
  std::string_view name;  // of the graph
  std::string_view buffer_key = "momentum_buffer";
  MomentumForm momentum = MomentumForm::Lerp;
  bool nesterov = false;
  bool takes_batches = false;  // of matrices, as a parameter of three dimensions
  /// From the direction that momentum gives to the update, before any scale. Called once.
  std::function<ValueId(Builder&, ValueId direction)> orthogonalise = {};
  /// The element type of the update from there on; none: that of the iteration.
  std::optional<DType> update_dtype = {};
  struct Update {
    ValueId update, grad, direction;
    const ParameterSpec& spec;
  };
  /// A second moment of the update, with a state of its own; null: none.
  std::function<ValueId(Builder&, const Update&)> adapt = {};
  ScaleMode scale = ScaleMode::None;
  double extra_scale = 1;
  bool scales_rate = true;   // the scale multiplies the learning rate; else the update, which is rounded
  bool rounds_step = false;  // the update times the rate is rounded to the update's type before it is subtracted
  Decay decay = Decay::Rescale;
};

/// The naive graph for an R x C matrix, or a batch of them. Hyperparameters lr, momentum and weight_decay are options
/// of `values`, or 1 where it has no such option.
Result<Graph> build_orthogonal(const OrthogonalRule& rule, const OptionValues& values, const ParameterSpec& spec);

/// What the scale comes to for a matrix of this shape.
double total_scale(const OrthogonalRule& rule, const std::vector<int64_t>& shape);

/// emerging-optimizers orthogonalises f32 only.
Outcome check_emerging_types(std::string_view recipe, const ParameterSpec& spec);

}  // namespace stepfuse::ir
