// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Fits a matrix and a vector to given ones: Muon on the matrix, AdamW on the vector. The loss is half the squared
// distance, so the gradient is the distance itself. Usage: fit_matrix [TARGET]
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace {

constexpr std::size_t kRows = 32, kColumns = 64;
constexpr int kSteps = 200;

std::vector<float> waves(std::size_t count, float frequency) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.1F * std::sin(frequency * static_cast<float>(i));
  return values;
}

/// A tensor on its way to another one.
struct Fit {
  explicit Fit(std::vector<float> goal)
      : target(std::move(goal)), value(target.size(), 0.0F), gradient(target.size(), 0.0F) {}

  /// Fills the gradient and returns the loss.
  double differentiate() {
    double loss = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      gradient[i] = value[i] - target[i];
      loss += 0.5 * static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    }
    return loss;
  }

  std::vector<float> target, value, gradient;
};

double fit(const char* target) {
  Fit matrix(waves(kRows * kColumns, 1.7F)), vector(waves(kColumns, 0.3F));

  stepfuse::Settings settings;
  settings.target = target;
  stepfuse::Optimizer optimizer(settings);
  const auto muon = optimizer.add_group("muon", {{"lr", "0.02"}, {"weight_decay", "0"}});
  const auto adamw = optimizer.add_group("adamw", {{"lr", "0.01"}, {"weight_decay", "0"}});
  const auto weight = optimizer.add_parameter(muon, "weight", {kRows, kColumns});
  const auto bias = optimizer.add_parameter(adamw, "bias", {kColumns});
  optimizer.prepare();
  optimizer.bind(weight, matrix.value.data(), matrix.gradient.data());
  optimizer.bind(bias, vector.value.data(), vector.gradient.data());

  const double first = matrix.differentiate() + vector.differentiate();
  for (int step = 0; step < kSteps; ++step) {
    matrix.differentiate();
    vector.differentiate();
    // Muon's steps are all of one length, so the rate falls to let them end.
    optimizer.set(muon, "lr", 0.02 * (1.0 - static_cast<double>(step) / kSteps));
    optimizer.step();
  }
  const double last = matrix.differentiate() + vector.differentiate();
  std::printf("loss %.4f -> %.4f after %d steps on target %s\n", first, last, kSteps, target);
  return last / first;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return fit(argc > 1 ? argv[1] : "cpu") < 0.05 ? 0 : 1;
  } catch (const stepfuse::Error& error) {
    std::fprintf(stderr, "fit_matrix: %s\n%s\n", error.what(), error.hint().c_str());
    return 1;
  }
}
