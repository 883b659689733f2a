// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

void game_of_life(Device& device) {
  const int width = 37, height = 23;
  std::vector<uint8_t> cells = device.integers<uint8_t>(width * height, 0, 1);
  for (int generation = 0; generation < 3; generation++) {
    const Array<uint8_t> out = device.allocate<uint8_t>(cells.size());
    device.launch("game_of_life", {5, 3}, {8, 8}, {device.upload(cells), out, width, height});
    std::vector<uint8_t> around(cells.size()), expected;
    // Every living cell counts at its neighbours, on a torus.
    for (int i = 0; i < width * height; i++) {
      for (int k = 0; k < 9 && cells[size_t(i)] == 1; k++) {
        const int x = (i % width + k % 3 - 1 + width) % width, y = (i / width + k / 3 - 1 + height) % height;
        if (k != 4) around[size_t(y * width + x)]++;
      }
    }
    for (size_t i = 0; i < cells.size(); i++) expected.push_back(around[i] == 3 || (around[i] == 2 && cells[i] == 1));
    expect_same(device.download(out), expected);
    cells = expected;
  }
}

/// The new cell is bit 4 left + 2 centre + right of 110.
void rule_110(Device& device) {
  const size_t words = 40, bits = 32 * words;
  const int steps = 50;
  const std::vector<uint32_t> in = device.integers<uint32_t>(words, 0, 0xFFFFFFFFu);
  const Array<uint32_t> array = device.upload(in);
  device.launch("rule_110", {1}, {words}, {array, steps}, words * 4);
  std::vector<int> cells, next(bits);
  for (size_t i = 0; i < bits; i++) cells.push_back((in[i / 32] >> (i % 32)) & 1);
  for (int step = 0; step < steps; step++) {
    for (size_t i = 0; i < bits; i++) {
      const int left = cells[(i + bits - 1) % bits], right = cells[(i + 1) % bits];
      next[i] = (110 >> (4 * left + 2 * cells[i] + right)) & 1;
    }
    cells.swap(next);
  }
  std::vector<uint32_t> expected(words);
  for (size_t i = 0; i < bits; i++) expected[i / 32] |= static_cast<uint32_t>(cells[i]) << (i % 32);
  expect_same(device.download(array), expected);
}

void n_body(Device& device) {
  const int n = 100;
  const std::vector<float> bodies = device.reals<float>(4 * n, -1, 1);
  const Array<float> out = device.allocate<float>(4 * n);
  device.launch("n_body", {2}, {64}, {device.upload(bodies), out, n});
  std::vector<double> expected(4 * n);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < n; k++) {
      double d[3], squared = 0.01;
      for (size_t c = 0; c < 3; c++) {
        d[c] = static_cast<double>(bodies[4 * k + c]) - static_cast<double>(bodies[4 * i + c]);
        squared += d[c] * d[c];
      }
      for (size_t c = 0; c < 3; c++)
        expected[4 * i + c] += d[c] * static_cast<double>(bodies[4 * k + 3]) / std::pow(squared, 1.5);
    }
  }
  expect_near(device.download(out), expected, 1e-4, 1e-3);
}

void heat_3d(Device& device) {
  const int size = 12;
  const std::vector<float> in = device.integers<float>(size * size * size, -99, 99);
  const Array<float> out = device.upload(in);
  device.launch("heat_3d", {2, 2}, {8, 8}, {device.upload(in), out, size, 0.125f});
  std::vector<float> expected = in;
  for (int i = 0; i < size * size * size; i++) {
    const int x = i % size, y = i / size % size, z = i / size / size;
    if (std::min({x, y, z}) == 0 || std::max({x, y, z}) == size - 1) continue;
    float change = 0;
    for (const int d : {-1, 1, -size, size, -size * size, size * size}) change += in[size_t(i + d)] - in[size_t(i)];
    expected[size_t(i)] += 0.125f * change;
  }
  expect_near(device.download(out), expected, 0);  // eighths of whole numbers
}

void wave_1d(Device& device) {
  const int n = 300;
  const std::vector<double> before = device.integers<double>(n, -99, 99), now = device.integers<double>(n, -99, 99);
  const Array<double> next = device.allocate<double>(n);
  device.launch("wave_1d", {3}, {128}, {device.upload(before), device.upload(now), next, n, 0.25});
  std::vector<double> expected;
  for (size_t i = 0; i < n; i++) {
    const double left = i > 0 ? now[i - 1] : 0, right = i + 1 < n ? now[i + 1] : 0;
    expected.push_back(1.5 * now[i] - before[i] + 0.25 * (left + right));
  }
  expect_near(device.download(next), expected, 0);
}

/// The stable state does not depend on the order in which piles topple (Dhar 1990): here one at a time.
void sandpile(Device& device) {
  const int size = 15;
  std::vector<int> grid = device.integers<int>(size * size, 0, 6);
  const Array<int> array = device.upload(grid);
  device.launch("sandpile", {1}, {64}, {array, size, 2000}, size * size * 4);
  for (auto high = grid.begin();
       (high = std::find_if(grid.begin(), grid.end(), [](int x) { return x > 3; })) != grid.end();) {
    const int i = static_cast<int>(high - grid.begin());
    *high -= 4;
    if (i % size > 0) grid[size_t(i - 1)]++;
    if (i % size < size - 1) grid[size_t(i + 1)]++;
    if (i >= size) grid[size_t(i - size)]++;
    if (i < size * (size - 1)) grid[size_t(i + size)]++;
  }
  expect_same(device.download(array), grid);
}

void breadth_first(Device& device) {
  const int n = 200;
  std::vector<std::vector<int>> neighbours(n);
  for (int edge = 0; edge < 300; edge++) {
    neighbours[size_t(device.integer(0, n - 1))].push_back(static_cast<int>(device.integer(0, n - 1)));
  }
  std::vector<int> starts{0}, edges, levels(n, -1), expected(n, -1);
  for (const std::vector<int>& to : neighbours) {
    edges.insert(edges.end(), to.begin(), to.end());
    starts.push_back(static_cast<int>(edges.size()));
  }
  levels[0] = expected[0] = 0;
  std::queue<int> queue({0});
  for (; !queue.empty(); queue.pop()) {
    for (const int next : neighbours[size_t(queue.front())]) {
      if (expected[size_t(next)] >= 0) continue;
      expected[size_t(next)] = expected[size_t(queue.front())] + 1;
      queue.push(next);
    }
  }
  const Array<int> array = device.upload(levels), changed = device.upload(std::vector<int>{1});
  const Array<int> device_starts = device.upload(starts), device_edges = device.upload(edges);
  for (int level = 0; device.download(changed)[0] != 0; level++) {
    device.write(changed, std::vector<int>{0});
    device.launch("breadth_first", {2}, {128}, {device_starts, device_edges, array, changed, level, n});
  }
  expect_same(device.download(array), expected);
}

void components(Device& device) {
  const int n = 150, edges = 110;
  const std::vector<int> a = device.integers<int>(edges, 0, n - 1), b = device.integers<int>(edges, 0, n - 1);
  std::vector<int> labels(n);
  std::iota(labels.begin(), labels.end(), 0);
  const Array<int> array = device.upload(labels), changed = device.upload(std::vector<int>{1});
  const Array<int> device_a = device.upload(a), device_b = device.upload(b);
  while (device.download(changed)[0] != 0) {
    device.write(changed, std::vector<int>{0});
    device.launch("components", {1}, {128}, {device_a, device_b, array, changed, edges});
  }
  for (size_t edge = 0; edge < edges; edge++) {
    const int x = labels[size_t(a[edge])], y = labels[size_t(b[edge])];
    std::replace(labels.begin(), labels.end(), std::max(x, y), std::min(x, y));
  }
  expect_same(device.download(array), labels);
}

void k_means_assign(Device& device) {
  const int n = 300, k = 7;
  const std::vector<float> points = device.integers<float>(2 * n, -99, 99),
                           centres = device.integers<float>(2 * k, -99, 99);
  const Array<int> labels = device.allocate<int>(n), counts = device.upload(std::vector<int>(k, 0));
  const Array<float> sums = device.upload(std::vector<float>(2 * k, 0));
  device.launch("k_means_assign", {3}, {128},
                {device.upload(points), device.upload(centres), labels, sums, counts, n, k}, 8 * k);
  std::vector<int> expected, expected_counts(k);
  std::vector<float> expected_sums(2 * k);
  for (size_t i = 0; i < n; i++) {
    std::vector<float> distances;
    for (size_t c = 0; c < k; c++) {
      const float dx = points[2 * i] - centres[2 * c], dy = points[2 * i + 1] - centres[2 * c + 1];
      distances.push_back(dx * dx + dy * dy);
    }
    const auto best = static_cast<size_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
    expected.push_back(static_cast<int>(best));
    expected_counts[best]++;
    expected_sums[2 * best] += points[2 * i];
    expected_sums[2 * best + 1] += points[2 * i + 1];
  }
  expect_same(device.download(labels), expected);
  expect_same(device.download(counts), expected_counts);
  expect_near(device.download(sums), expected_sums, 0);
}

void ray_spheres(Device& device) {
  const int width = 40, height = 30, count = 9;
  std::vector<float> spheres;
  for (int k = 0; k < count; k++) {
    // Different depths, so that no two are equally near.
    spheres.insert(spheres.end(),
                   {static_cast<float>(device.integer(0, width)), static_cast<float>(device.integer(0, height)),
                    static_cast<float>(k * 7 % count), static_cast<float>(device.integer(3, 12))});
  }
  const Array<uint8_t> image = device.allocate<uint8_t>(width * height);
  device.launch("ray_spheres", {5, 4}, {8, 8}, {device.upload(spheres), count, image, width, height});
  std::vector<uint8_t> expected(width * height);
  for (int depth = 0; depth < count; depth++) {  // the farthest first
    for (size_t k = 0; k < count; k++) {
      if (spheres[4 * k + 2] != static_cast<float>(depth)) continue;
      for (int i = 0; i < width * height; i++) {
        const float dx = static_cast<float>(i % width) - spheres[4 * k],
                    dy = static_cast<float>(i / width) - spheres[4 * k + 1];
        if (dx * dx + dy * dy < spheres[4 * k + 3] * spheres[4 * k + 3])
          expected[size_t(i)] = static_cast<uint8_t>(k + 1);
      }
    }
  }
  expect_same(device.download(image), expected);
}

void sobel(Device& device) {
  const int width = 33, height = 21;
  const std::vector<uint8_t> in = device.integers<uint8_t>(width * height, 0, 255);
  const Array<int16_t> out = device.allocate<int16_t>(in.size());
  device.launch("sobel", {5, 3}, {8, 8}, {device.upload(in), out, width, height});
  const std::array<int, 3> smooth{1, 2, 1}, slope{-1, 0, 1};
  std::vector<int16_t> expected;
  for (int i = 0; i < width * height; i++) {
    int gx = 0, gy = 0;
    for (int k = 0; k < 9; k++) {
      const int x = std::clamp(i % width + k % 3 - 1, 0, width - 1),
                y = std::clamp(i / width + k / 3 - 1, 0, height - 1);
      const int value = in[size_t(y * width + x)];
      gx += slope[size_t(k % 3)] * smooth[size_t(k / 3)] * value;
      gy += smooth[size_t(k % 3)] * slope[size_t(k / 3)] * value;
    }
    expected.push_back(static_cast<int16_t>(std::abs(gx) + std::abs(gy)));
  }
  expect_same(device.download(out), expected);
}

void median_3x3(Device& device) {
  const int width = 30, height = 20;
  const std::vector<uint8_t> in = device.integers<uint8_t>(width * height, 0, 255);
  const Array<uint8_t> out = device.allocate<uint8_t>((width - 2) * (height - 2));
  device.launch("median_3x3", {4, 3}, {8, 8}, {device.upload(in), out, width, height});
  std::vector<uint8_t> expected;
  for (int y = 1; y < height - 1; y++) {
    for (int x = 1; x < width - 1; x++) {
      std::array<uint8_t, 9> window{};
      for (int k = 0; k < 9; k++) window[size_t(k)] = in[size_t((y + k / 3 - 1) * width + x + k % 3 - 1)];
      std::nth_element(window.begin(), window.begin() + 4, window.end());
      expected.push_back(window[4]);
    }
  }
  expect_same(device.download(out), expected);
}

}  // namespace

Cases simulation_cases() {
  return {
      {"simulation", "game_of_life", game_of_life},
      {"simulation", "rule_110", rule_110},
      {"simulation", "n_body", n_body},
      {"simulation", "heat_3d", heat_3d},
      {"simulation", "wave_1d", wave_1d},
      {"simulation", "sandpile", sandpile},
      {"simulation", "breadth_first", breadth_first, 0, false},  // looks at levels that others claim meanwhile
      {"simulation", "components", components},
      {"simulation", "k_means_assign", k_means_assign},
      {"simulation", "ray_spheres", ray_spheres},
      {"simulation", "sobel", sobel},
      {"simulation", "median_3x3", median_3x3},
  };
}

}  // namespace stepfuse::vgpu::corpus
