// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/shape_scale.h"

#include "ir/support/status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace stepfuse::ir {

ScaleMode scale_mode_named(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, ScaleMode>, 9> kNames{
      {{"none", ScaleMode::None},
       {"shape_scaling", ScaleMode::ShapeScaling},
       {"original", ScaleMode::ShapeScaling},
       {"spectral", ScaleMode::Spectral},
       {"unit_rms_norm", ScaleMode::UnitRms},
       {"spectral_unclamped", ScaleMode::UnitRms},
       {"spectral_norm", ScaleMode::UnitRms},
       {"match_rms_adamw", ScaleMode::MatchRmsAdamw},
       {"rms_norm", ScaleMode::MatchRmsAdamw}}};
  const auto* it = std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) { return entry.first == name; });
  STEPFUSE_CHECK(it != kNames.end(), "there is no scale mode '{}'", name);
  return it->second;
}

double shape_scale(ScaleMode mode, double rows, double cols) {
  switch (mode) {
    case ScaleMode::None:
      return 1;
    case ScaleMode::ShapeScaling:
      return std::sqrt(std::max(1.0, rows / cols));
    case ScaleMode::Spectral:
      return std::sqrt(std::max(rows, cols));
    case ScaleMode::UnitRms:
      return std::sqrt(rows / cols);
    case ScaleMode::MatchRmsAdamw:
      return 0.2 * std::sqrt(std::max(rows, cols));
  }
  STEPFUSE_CHECK(false, "unknown scale mode");
}

}  // namespace stepfuse::ir
