// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/newton_schulz_rule.h"

#include <cmath>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace stepfuse::tests {

namespace {

std::string step_text(int step, const std::array<double, 3>& k, bool tall, std::string_view dtype) {
  const std::string x = step == 0 ? "x" : fmt::format("x{}", step);
  const auto [first, second] =
      tall ? std::pair(x, "q" + std::to_string(step)) : std::pair("q" + std::to_string(step), x);
  return fmt::format(
      "  %a{0} = matmul %{1}, %{1} {{{2}}} : {3}\n"
      "  %aa{0} = matmul %a{0}, %a{0} : f32\n"
      "  %ba{0} = mul %a{0}, {4} : f32\n"
      "  %caa{0} = mul %aa{0}, {5} : f32\n"
      "  %q{0} = add %ba{0}, %caa{0} : {3}\n"
      "  %qx{0} = matmul %{6}, %{7} : f32\n"
      "  %ax{0} = mul %{1}, {8} : f32\n"
      "  %x{9} = add %ax{0}, %qx{0} : {3}\n",
      step, x, tall ? "ta" : "tb", dtype, k[1], k[2], first, second, k[0], step + 1);
}

}  // namespace

Coefficients simple_coefficients(int steps) {
  return Coefficients(static_cast<size_t>(steps), {3.4445, -4.775, 2.0315});
}

Coefficients quintic_coefficients() {
  return {{4.0848, -6.8946, 2.9270},
          {3.9505, -6.3029, 2.6377},
          {3.7418, -5.5913, 2.3037},
          {2.8769, -3.1427, 1.2046},
          {2.8366, -3.0525, 1.2012}};
}

Coefficients polar_express_coefficients() {
  return {{7.8926, -20.383, 13.5553},
          {3.9115, -2.5465, 0.4269},
          {3.7607, -2.5128, 0.4324},
          {3.1604, -2.1496, 0.3996},
          {2.1911, -1.4417, 0.3281}};
}

std::string newton_schulz_rule(const Coefficients& steps, int64_t rows, int64_t columns, ir::DType dtype,
                               int64_t batch) {
  const std::string extents =
      batch == 0 ? fmt::format("[{}, {}]", rows, columns) : fmt::format("[{}, {}, {}]", batch, rows, columns);
  const std::string_view type = ir::dtype_name(dtype);
  std::string text =
      fmt::format("// stepfuse-ir v1\nrecipe @iteration(%p: f32{0} param, %g: f32{0} grad) {{\n", extents);
  text += fmt::format(
      "  %u = cast %g : {0}\n  %norm = norm %u {{matrix}} : f32\n  %clamped = max %norm, 1e-7 : f32\n"
      "  %x = div %u, %clamped : {0}\n",
      type);
  for (size_t i = 0; i < steps.size(); ++i) text += step_text(static_cast<int>(i), steps[i], rows > columns, type);
  return text + fmt::format("  %r = cast %x{} : f32\n  return %r -> %p\n}}\n", steps.size());
}

ir::Bindings gaussian_gradient(int64_t rows, int64_t columns, uint64_t seed, int64_t batch) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  ir::Tensor gradient{ir::DType::F32, {rows, columns}, {}};
  if (batch != 0) gradient.dims.insert(gradient.dims.begin(), batch);
  gradient.data.resize(static_cast<size_t>(rows * columns * std::max<int64_t>(batch, 1)));
  for (double& x : gradient.data) x = static_cast<float>(normal(random));
  ir::Tensor parameter = gradient;
  std::fill(parameter.data.begin(), parameter.data.end(), 0.0);
  ir::Bindings bindings;
  bindings.tensors = {{"p", std::move(parameter)}, {"g", std::move(gradient)}};
  return bindings;
}

ir::Bindings low_rank_gradient(int64_t rows, int64_t columns, int64_t rank, double noise, uint64_t seed) {
  ir::Bindings bindings = gaussian_gradient(rows, columns, seed);
  std::mt19937_64 random(seed + 1000);
  std::normal_distribution<double> normal;
  std::vector<double> left(static_cast<size_t>(rows * rank)), right(static_cast<size_t>(columns * rank));
  for (double& x : left) x = normal(random);
  for (double& x : right) x = normal(random);
  std::vector<double>& gradient = bindings.tensors.at("g").data;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < rank; ++k)
        sum += left[static_cast<size_t>(i * rank + k)] * right[static_cast<size_t>(j * rank + k)];
      double& element = gradient[static_cast<size_t>(i * columns + j)];
      element = static_cast<float>(sum / std::sqrt(static_cast<double>(rank)) + noise * element);
    }
  }
  return bindings;
}

std::vector<double> new_parameter(const ir::Graph& graph, const ir::Bindings& bindings, ir::Evaluation evaluation) {
  const auto result = ir::interpret(graph, bindings, evaluation);
  if (!result) throw std::runtime_error(result.error().message);
  return result->at("p").data;
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double distance = 0;
  double length = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    length += b[i] * b[i];
  }
  return std::sqrt(distance / length);
}

}  // namespace stepfuse::tests
