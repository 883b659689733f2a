// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace stepfuse::ir {

/// Factors on the update (or the learning rate) of an R x C matrix. Beware of the peers' names: "spectral" of
/// emerging-optimizers is Spectral, "spectral_norm" of dion and gram-newton-schulz is UnitRms.
enum class ScaleMode : uint8_t {
  None,           // 1
  ShapeScaling,   // sqrt(max(1, R / C)); torch calls it "original"
  Spectral,       // sqrt(max(R, C))
  UnitRms,        // sqrt(R / C); "unit_rms_norm", "spectral_unclamped", dion's "spectral_norm"
  MatchRmsAdamw,  // 0.2 sqrt(max(R, C)); dion's "rms_norm"
};

/// The mode that a name of any peer stands for.
ScaleMode scale_mode_named(std::string_view name);
double shape_scale(ScaleMode mode, double rows, double cols);

}  // namespace stepfuse::ir
