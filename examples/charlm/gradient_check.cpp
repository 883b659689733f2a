// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "gradient_check.h"

#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace charlm {
namespace {

// Extents that differ from each other, so that an exchange of two of them shows.
constexpr ModelShape kTinyModel = {11, 6, 16, 2, 2};
constexpr int kSequences = 3;
constexpr int kRandomDirections = 4;
constexpr float kMove = 2e-2F;       // length of a finite difference's smaller step
constexpr double kTolerance = 1e-3;  // of the gradient's length: curvature leaves less than a tenth of it
constexpr double kNoise = 2e-5;      // absolute: several times what rounding of the loss leaves in a quotient

struct Case {
  Model model{kTinyModel, 7};
  Workspace work{kTinyModel, kSequences};
  std::vector<Token> inputs;
  std::vector<Token> targets;
  Batch batch{};
  float scale = 1.0F / static_cast<float>(kSequences * kTinyModel.context);

  Case() {
    std::mt19937_64 random(11);
    // Biases of zero and gains of one would hide errors in what multiplies them.
    std::normal_distribution<float> normal(0.0F, 0.2F);
    for (const Parameter& p : model.parameters()) {
      for (std::size_t i = 0; i < p.size; ++i) model.values().data()[p.offset + i] += normal(random);
    }
    std::uniform_int_distribution<int> token(0, kTinyModel.vocabulary - 1);
    for (int i = 0; i < kSequences * kTinyModel.context; ++i) {
      inputs.push_back(static_cast<Token>(token(random)));
      targets.push_back(static_cast<Token>(token(random)));
    }
    batch = {inputs.data(), targets.data(), kSequences};
  }

  double loss() { return static_cast<double>(scale) * model.forward(batch, work); }
};

double length(const float* values, std::size_t size) {
  double sum = 0.0;
  for (std::size_t i = 0; i < size; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::sqrt(sum);
}

/// The loss's slope along a unit direction of one tensor, by Richardson's extrapolation of two central differences.
double measured_slope(Case& c, const Parameter& p, const std::vector<float>& direction) {
  float* values = c.model.values().data() + p.offset;
  const std::vector<float> original(values, values + p.size);
  const auto loss_at = [&](float distance) {
    for (std::size_t i = 0; i < p.size; ++i) values[i] = original[i] + distance * direction[i];
    return c.loss();
  };
  const auto central = [&](float distance) {
    return (loss_at(distance) - loss_at(-distance)) / (2.0 * static_cast<double>(distance));
  };
  const double slope = (4.0 * central(kMove) - central(2.0F * kMove)) / 3.0;
  std::copy(original.begin(), original.end(), values);
  return slope;
}

/// The largest difference between measured and computed slope over the gradient's own direction and random ones.
double worst_difference(Case& c, const Parameter& p, const float* gradient, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  double worst = 0.0;
  for (int trial = 0; trial <= kRandomDirections; ++trial) {
    std::vector<float> direction(gradient, gradient + p.size);
    if (trial > 0) std::generate(direction.begin(), direction.end(), [&] { return normal(random); });
    const double size = length(direction.data(), p.size);
    if (size == 0.0) continue;
    double computed = 0.0;
    for (std::size_t i = 0; i < p.size; ++i) {
      direction[i] = static_cast<float>(static_cast<double>(direction[i]) / size);
      computed += static_cast<double>(direction[i]) * static_cast<double>(gradient[i]);
    }
    worst = std::max(worst, std::abs(measured_slope(c, p, direction) - computed));
  }
  return worst;
}

}  // namespace

bool check_gradients() {
  Case c;
  FloatBuffer gradients(c.model.values().size());
  c.loss();
  c.model.backward(c.batch, c.scale, c.work, gradients.data());
  std::mt19937_64 random(13);
  bool all_agree = true;
  std::printf("%-26s %12s %14s\n", "tensor", "|gradient|", "worst error");
  for (const Parameter& p : c.model.parameters()) {
    const float* gradient = gradients.data() + p.offset;
    const double size = length(gradient, p.size);
    const double error = worst_difference(c, p, gradient, random);
    const bool agrees = error <= kTolerance * size + kNoise;  // false for NaN too
    all_agree = all_agree && agrees;
    std::printf("%-26s %12.3e %14.2e%s\n", p.name.c_str(), size, error, agrees ? "" : "   DISAGREES");
  }
  std::printf("gradients agree with finite differences: %s\n", all_agree ? "yes" : "no");
  return all_agree;
}

}  // namespace charlm
