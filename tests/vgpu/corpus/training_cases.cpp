// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

// The references compute in double; a float kernel stays within a few units of 2^-24 per operation.
constexpr double close = 1e-5;

constexpr int rows = 3, columns = 333;

struct Row {
  double largest = -INFINITY, sum = 0;  // of exp(x - largest)
};

std::vector<Row> exponential_sums(const std::vector<float>& in) {
  std::vector<Row> all(rows);
  for (size_t i = 0; i < in.size(); i++) all[i / columns].largest = std::max(all[i / columns].largest, double{in[i]});
  for (size_t i = 0; i < in.size(); i++) all[i / columns].sum += std::exp(double{in[i]} - all[i / columns].largest);
  return all;
}

void softmax(Device& device) {
  const std::vector<float> in = device.reals<float>(rows * columns, -9, 9);
  const Array<float> out = device.allocate<float>(in.size());
  device.launch("softmax", {rows}, {96}, {device.upload(in), out, columns});
  const std::vector<Row> sums = exponential_sums(in);
  std::vector<double> expected;
  for (size_t i = 0; i < in.size(); i++) {
    expected.push_back(std::exp(double{in[i]} - sums[i / columns].largest) / sums[i / columns].sum);
  }
  expect_near(device.download(out), expected, close);
}

void online_log_softmax(Device& device) {
  const std::vector<float> in = device.reals<float>(rows * columns, -9, 9);
  const Array<float> out = device.allocate<float>(in.size());
  device.launch("online_log_softmax", {rows}, {32}, {device.upload(in), out, columns});
  const std::vector<Row> sums = exponential_sums(in);
  std::vector<double> expected;
  for (size_t i = 0; i < in.size(); i++) {
    expected.push_back(double{in[i]} - sums[i / columns].largest - std::log(sums[i / columns].sum));
  }
  expect_near(device.download(out), expected, close, close);
}

void cross_entropy(Device& device) {
  const std::vector<float> in = device.reals<float>(rows * columns, -9, 9);
  const std::vector<int> targets = device.integers<int>(rows, 0, columns - 1);
  const Array<float> losses = device.allocate<float>(rows), gradients = device.allocate<float>(in.size());
  device.launch("cross_entropy", {rows}, {96}, {device.upload(in), device.upload(targets), losses, gradients, columns});
  const std::vector<Row> sums = exponential_sums(in);
  std::vector<double> expected_losses, expected;
  for (size_t row = 0; row < rows; row++) {
    const auto target = static_cast<size_t>(targets[row]);
    expected_losses.push_back(std::log(sums[row].sum) + sums[row].largest - double{in[row * columns + target]});
    for (size_t k = 0; k < columns; k++) {
      expected.push_back(std::exp(double{in[row * columns + k]} - sums[row].largest) / sums[row].sum - (k == target));
    }
  }
  expect_near(device.download(losses), expected_losses, close);
  expect_near(device.download(gradients), expected, close, 1e-7);
}

void layer_norm(Device& device) {
  const std::vector<float> in = device.reals<float>(rows * columns, -2, 5), weight = device.reals<float>(columns, 0, 2),
                           bias = device.reals<float>(columns, -1, 1);
  const Array<float> out = device.allocate<float>(in.size());
  device.launch("layer_norm", {rows}, {64},
                {device.upload(in), device.upload(weight), device.upload(bias), out, columns, 1e-5f});
  std::vector<double> expected;
  for (size_t first = 0; first < in.size(); first += columns) {
    double mean = 0, variance = 0;
    for (size_t k = 0; k < columns; k++) mean += double{in[first + k]} / columns;
    for (size_t k = 0; k < columns; k++) variance += std::pow(double{in[first + k]} - mean, 2) / columns;
    for (size_t k = 0; k < columns; k++) {
      expected.push_back((double{in[first + k]} - mean) / std::sqrt(variance + 1e-5) * double{weight[k]} +
                         double{bias[k]});
    }
  }
  expect_near(device.download(out), expected, close, close);
}

void rms_norm(Device& device) {
  const int quads = 80, width = 4 * quads;
  const std::vector<float> in = device.reals<float>(rows * width, -2, 5), weight = device.reals<float>(width, 0, 2);
  const Array<float> out = device.allocate<float>(in.size());
  device.launch("rms_norm", {rows}, {64}, {device.upload(in), device.upload(weight), out, quads, 1e-6f});
  std::vector<double> expected;
  for (size_t first = 0; first < in.size(); first += width) {
    double squares = 0;
    for (size_t k = 0; k < width; k++) squares += std::pow(double{in[first + k]}, 2);
    for (size_t k = 0; k < width; k++) {
      expected.push_back(double{in[first + k]} / std::sqrt(squares / width + 1e-6) * double{weight[k]});
    }
  }
  expect_near(device.download(out), expected, close);
}

/// The generator is SplitMix64: started at 0 its first number is 0xE220A8397B1DCDAF.
uint64_t split_mix(uint64_t state) {
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void dropout(Device& device) {
  const int n = 2000;
  ASSERT_EQ(split_mix(0x9E3779B97F4A7C15u), 0xE220A8397B1DCDAFu);
  const std::vector<float> in = device.reals<float>(n, 1, 2);
  const Array<float> out = device.allocate<float>(n);
  const uint64_t seed = device.random()();
  device.launch("dropout", {16}, {128}, {device.upload(in), out, seed, 0.75f, n});
  std::vector<float> expected;
  for (size_t i = 0; i < n; i++) {
    const double uniform = static_cast<double>(split_mix(seed + 0x9E3779B97F4A7C15u * (i + 1)) >> 40) / 16777216;
    expected.push_back(uniform < 0.75 ? in[i] / 0.75f : 0.0f);
  }
  expect_same(device.download(out), expected);
  EXPECT_NEAR(static_cast<double>(std::count(expected.begin(), expected.end(), 0.0f)) / n, 0.25, 0.05);
}

void embedding_gradient(Device& device) {
  const int n = 90, width = 12, vocabulary = 20;
  const std::vector<int> tokens = device.integers<int>(n, 0, vocabulary - 1);
  const std::vector<float> gradient = device.integers<float>(n * width, -99, 99);
  const Array<float> table = device.upload(std::vector<float>(vocabulary * width, 0));
  device.launch("embedding_gradient", {9}, {128}, {device.upload(tokens), device.upload(gradient), table, width, n});
  std::vector<float> expected(vocabulary * width);
  for (size_t i = 0; i < gradient.size(); i++) {
    expected[static_cast<size_t>(tokens[i / width]) * width + i % width] += gradient[i];
  }
  expect_near(device.download(table), expected, 0);
}

constexpr int n = 500;

void sgd_momentum(Device& device) {
  const std::vector<float> p = device.reals<float>(n, -1, 1), g = device.reals<float>(n, -1, 1),
                           v = device.reals<float>(n, -1, 1);
  const Array<float> new_p = device.upload(p), new_v = device.upload(v);
  device.launch("sgd_momentum", {2}, {96}, {new_p, device.upload(g), new_v, 0.1f, 0.9f, 0.01f, n});
  std::vector<double> expected_p, expected_v;
  for (size_t i = 0; i < n; i++) {
    expected_v.push_back(0.9 * double{v[i]} + double{g[i]} + 0.01 * double{p[i]});
    expected_p.push_back(double{p[i]} - 0.1 * expected_v.back());
  }
  expect_near(device.download(new_p), expected_p, close, 1e-6);
  expect_near(device.download(new_v), expected_v, close, 1e-6);
}

/// Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2.
void adamw(Device& device) {
  const int step = 7;
  const std::vector<float> p = device.reals<float>(n, -1, 1), g = device.reals<float>(n, -1, 1),
                           m = device.reals<float>(n, -1, 1), v = device.reals<float>(n, 0, 1);
  const Array<float> new_p = device.upload(p), new_m = device.upload(m), new_v = device.upload(v);
  device.launch("adamw", {4}, {128},
                {new_p, device.upload(g), new_m, new_v, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.1f, step, n});
  std::vector<double> expected_p, expected_m, expected_v;
  for (size_t i = 0; i < n; i++) {
    const double gradient = double{g[i]}, parameter = double{p[i]};
    expected_m.push_back(0.9 * double{m[i]} + 0.1 * gradient);
    expected_v.push_back(0.999 * double{v[i]} + 0.001 * gradient * gradient);
    const double m_hat = expected_m.back() / (1 - std::pow(0.9, step));
    const double v_hat = expected_v.back() / (1 - std::pow(0.999, step));
    expected_p.push_back(parameter - 1e-3 * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.1 * parameter));
  }
  // 1 - 0.999^7 loses about eight bits in float, of an update that is a thousandth.
  expect_near(device.download(new_p), expected_p, close, 1e-6);
  expect_near(device.download(new_m), expected_m, close, 1e-6);
  expect_near(device.download(new_v), expected_v, close, 1e-6);
}

/// Chen et al., "Symbolic Discovery of Optimization Algorithms", algorithm 2.
void lion(Device& device) {
  std::vector<float> p = device.reals<float>(n, -1, 1), g = device.reals<float>(n, -1, 1),
                     m = device.reals<float>(n, -1, 1);
  g[0] = m[0] = 0;  // whose sign is zero
  const Array<float> new_p = device.upload(p), new_m = device.upload(m);
  device.launch("lion", {4}, {128}, {new_p, device.upload(g), new_m, 0.01f, 0.9f, 0.99f, 0.1f, n});
  std::vector<double> expected_p, expected_m;
  for (size_t i = 0; i < n; i++) {
    const double c = 0.9 * double{m[i]} + 0.1 * double{g[i]}, sign = c > 0 ? 1 : (c < 0 ? -1 : 0);
    expected_p.push_back(double{p[i]} - 0.01 * (sign + 0.1 * double{p[i]}));
    expected_m.push_back(0.99 * double{m[i]} + 0.01 * double{g[i]});
  }
  expect_near(device.download(new_p), expected_p, close, 1e-6);
  expect_near(device.download(new_m), expected_m, close, 1e-6);
}

constexpr size_t list_size = 24, list_blocks = 80, chunk_size = 512;

struct TensorList {
  uint64_t p[list_size], g[list_size], m[list_size];
  int32_t sizes[list_size];
  uint8_t tensor_of_block[list_blocks];
  int32_t chunk_of_block[list_blocks];
};

/// Tensors of many sizes, also empty ones and such of a whole chunk, with the table of blocks.
struct Tensors {
  explicit Tensors(Device& device) {
    for (size_t t = 0; t < list_size; t++) {
      const size_t size = t == 3 ? 0 : t == 4 ? chunk_size : static_cast<size_t>(device.integer(1, 1200));
      const auto count = static_cast<long>(size);
      p.push_back(device.reals<float>(size, -1, 1));
      g.push_back(device.integers<float>(size, -9, 9));
      m.push_back(device.reals<float>(size, -1, 1));
      arrays.push_back({device.upload(p[t]), device.upload(g[t]), device.upload(m[t])});
      list.p[t] = arrays[t][0].address;
      list.g[t] = arrays[t][1].address;
      list.m[t] = arrays[t][2].address;
      list.sizes[t] = static_cast<int32_t>(count);
      for (size_t chunk = 0; chunk * chunk_size < size; chunk++, blocks++) {
        list.tensor_of_block[blocks] = static_cast<uint8_t>(t);
        list.chunk_of_block[blocks] = static_cast<int32_t>(chunk);
      }
    }
  }
  std::vector<std::vector<float>> p, g, m;
  std::vector<std::array<Array<float>, 3>> arrays;
  TensorList list{};
  uint32_t blocks = 0;
};

void multi_tensor_sgd(Device& device) {
  const Tensors tensors(device);
  device.launch("multi_tensor_sgd", {tensors.blocks}, {64}, {tensors.list, 0.1f, 0.9f});
  for (size_t t = 0; t < list_size; t++) {
    std::vector<double> expected_p, expected_m;
    for (size_t i = 0; i < tensors.p[t].size(); i++) {
      expected_m.push_back(0.9 * double{tensors.m[t][i]} + double{tensors.g[t][i]});
      expected_p.push_back(double{tensors.p[t][i]} - 0.1 * expected_m.back());
    }
    expect_near(device.download(tensors.arrays[t][0]), expected_p, close, 1e-6);
    expect_near(device.download(tensors.arrays[t][2]), expected_m, close, 1e-6);
  }
}

void multi_tensor_norm(Device& device) {
  const Tensors tensors(device);
  const Array<float> norms = device.upload(std::vector<float>(list_size, 0));
  device.launch("multi_tensor_norm", {tensors.blocks}, {128}, {tensors.list, norms});
  std::vector<float> expected;
  for (const std::vector<float>& g : tensors.g)
    expected.push_back(std::inner_product(g.begin(), g.end(), g.begin(), 0.0f));
  expect_same(device.download(norms), expected);
}

void clip_by_norm(Device& device) {
  const std::vector<float> g = device.reals<float>(n, -1, 1);
  for (const float squared : {100.0f, 0.01f}) {
    const Array<float> out = device.upload(g);
    device.launch("clip_by_norm", {4}, {128}, {out, device.upload(std::vector<float>{squared}), 1.0f, n});
    std::vector<double> expected;
    for (const float x : g) expected.push_back(squared > 1 ? double{x} / (10 + 1e-6) : double{x});
    expect_near(device.download(out), expected, close);
  }
}

void unscale(Device& device) {
  std::vector<float> g = device.reals<float>(n, -1, 1);
  for (const float bad : {0.0f, INFINITY}) {
    g[static_cast<size_t>(device.integer(0, n - 1))] = bad;
    const Array<float> out = device.upload(g), found = device.upload(std::vector<float>{0});
    device.launch("unscale", {4}, {128}, {out, device.upload(std::vector<float>{1024}), found, n});
    std::vector<float> expected;
    for (const float x : g) expected.push_back(x / 1024);
    expect_same(device.download(out), expected);
    expect_same(device.download(found), {bad == 0 ? 0.0f : 1.0f});
  }
}

void rotary_embedding(Device& device) {
  const int positions = 20, pairs = 16;
  const std::vector<float> q = device.reals<float>(2 * positions * pairs, -1, 1);
  const Array<float> out = device.upload(q);
  device.launch("rotary_embedding", {3}, {128}, {out, positions, pairs, 10000.0f});
  std::vector<double> expected;
  for (int i = 0; i < positions * pairs; i++) {
    const double angle = (i / pairs) * std::pow(10000.0, -static_cast<double>(i % pairs) / pairs);
    const double x = double{q[static_cast<size_t>(2 * i)]}, y = double{q[static_cast<size_t>(2 * i + 1)]};
    expected.push_back(x * std::cos(angle) - y * std::sin(angle));
    expected.push_back(x * std::sin(angle) + y * std::cos(angle));
  }
  expect_near(device.download(out), expected, 0, 1e-5);
}

void ema(Device& device) {
  const std::vector<float> average = device.reals<float>(n, -1, 1), p = device.reals<float>(n, -1, 1);
  const Array<float> out = device.upload(average);
  device.launch("ema", {4}, {128}, {out, device.upload(p), 0.99f, n});
  std::vector<float> expected;
  for (size_t i = 0; i < n; i++) expected.push_back(std::fma(0.99f, average[i] - p[i], p[i]));
  expect_same(device.download(out), expected);
}

}  // namespace

Cases training_cases() {
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"softmax", softmax},
      {"online_log_softmax", online_log_softmax},
      {"cross_entropy", cross_entropy},
      {"layer_norm", layer_norm},
      {"rms_norm", rms_norm},
      {"dropout", dropout},
      {"embedding_gradient", embedding_gradient},
      {"sgd_momentum", sgd_momentum},
      {"adamw", adamw},
      {"lion", lion},
      {"multi_tensor_sgd", multi_tensor_sgd},
      {"multi_tensor_norm", multi_tensor_norm},
      {"clip_by_norm", clip_by_norm},
      {"unscale", unscale},
      {"rotary_embedding", rotary_embedding},
      {"ema", ema},
  };
  Cases all;
  for (const auto& [kernel, run] : programs) all.push_back({"training", kernel, run});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
