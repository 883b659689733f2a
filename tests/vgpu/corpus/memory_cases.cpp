// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

constexpr int n = 777;

/// kernel(in, out, n) that moves arrays of `width` numbers: element i of the result by `reference(in, i)`.
template <class T, size_t width, class Reference>
Case moves(const std::string& kernel, Reference reference) {
  return {"memory", kernel, [=](Device& device) {
            using Element = std::array<T, width>;
            std::vector<Element> in(n);
            for (Element& element : in) {
              for (T& value : element) value = static_cast<T>(device.integer(-100, 100));
            }
            const Array<Element> out = device.allocate<Element>(n);
            device.launch(kernel, {4}, {256}, {device.upload(in), out, n});
            const std::vector<Element> got = device.download(out);
            for (size_t i = 0; i < n; i++) ASSERT_EQ(got[i], reference(in, i)) << i;
          }};
}

using Floats4 = std::array<float, 4>;

Cases wide_moves() {
  return {
      moves<float, 4>("copy_float4",
                      [](const auto& in, size_t i) { return Floats4{in[i][3], in[i][2], in[i][1], in[i][0]}; }),
      moves<uint32_t, 4>("copy_uint4_strided", [](const auto& in, size_t i) { return in[i]; }),
      moves<int16_t, 2>("swap_short2",
                        [](const auto& in, size_t i) { return std::array<int16_t, 2>{in[i][1], in[i][0]}; }),
      moves<uint8_t, 4>(
          "rotate_uchar4",
          [](const auto& in, size_t i) { return std::array<uint8_t, 4>{in[i][1], in[i][2], in[i][3], in[i][0]}; }),
      moves<double, 2>("copy_double2", [](const auto& in, size_t i) { return in[n - 1 - i]; }),
      moves<float, 3>("copy_float3", [](const auto& in, size_t i) { return in[i]; }),
  };
}

void add_float2(Device& device) {
  const std::vector<float> a = device.reals<float>(2 * n, -9, 9), b = device.reals<float>(2 * n, -9, 9);
  const Array<float> out = device.allocate<float>(2 * n);
  device.launch("add_float2", {7}, {111}, {device.upload(a), device.upload(b), out, n});
  std::vector<float> expected;
  for (size_t i = 0; i < a.size(); i++) expected.push_back(i % 2 == 0 ? a[i] + b[i] : a[i] - b[i]);
  expect_same(device.download(out), expected);
}

void longlong2_sum(Device& device) {
  const std::vector<int64_t> in = device.integers<int64_t>(2 * n, -(int64_t{1} << 60), int64_t{1} << 60);
  const Array<int64_t> out = device.allocate<int64_t>(n);
  device.launch("longlong2_sum", {7}, {111}, {device.upload(in), out, n});
  std::vector<int64_t> expected;
  for (size_t i = 0; i < n; i++) expected.push_back(in[2 * i] + in[2 * i + 1]);
  expect_same(device.download(out), expected);
}

struct Particle {
  float mass;
  int16_t charge;
  uint8_t kind, flags;
};

void update_particles(Device& device) {
  std::vector<Particle> particles(n);
  for (Particle& p : particles) {
    p = {static_cast<float>(device.real(0, 1)), static_cast<int16_t>(device.integer(-9, 9)),
         static_cast<uint8_t>(device.integer(0, 255)), static_cast<uint8_t>(device.integer(0, 255))};
  }
  const Array<Particle> array = device.upload(particles);
  device.launch("update_particles", {7}, {111}, {array, n});
  const std::vector<Particle> got = device.download(array);
  for (size_t i = 0; i < n; i++) {
    ASSERT_EQ(got[i].mass, 2 * particles[i].mass);
    ASSERT_EQ(got[i].charge, -particles[i].charge);
    ASSERT_EQ(got[i].kind, static_cast<uint8_t>(particles[i].kind + 1));
    ASSERT_EQ(got[i].flags, particles[i].flags | 0x80);
  }
}

struct Mixed {
  char tag;
  double weight;
  int16_t code;
  float place[3];
};

void copy_mixed(Device& device) {
  std::vector<Mixed> in(n);
  for (Mixed& element : in) {
    element.tag = static_cast<char>(device.integer(0, 100));
    element.weight = device.real(0, 1);
    element.code = static_cast<int16_t>(device.integer(-999, 999));
    for (float& x : element.place) x = static_cast<float>(device.real(0, 1));
  }
  const Array<Mixed> out = device.allocate<Mixed>(n);
  device.launch("copy_mixed", {7}, {111}, {device.upload(in), out, n});
  const std::vector<Mixed> got = device.download(out);
  for (size_t i = 0; i < n; i++) {
    ASSERT_EQ(got[i].tag, in[i].tag);
    ASSERT_EQ(got[i].weight, in[i].weight);
    ASSERT_EQ(got[i].code, in[i].code);
    for (int k = 0; k < 3; k++) ASSERT_EQ(got[i].place[k], in[i].place[k]);
  }
}

void unaligned_words(Device& device) {
  const std::vector<uint8_t> bytes = device.integers<uint8_t>(3 * n + 16, 0, 255);
  for (const int first : {0, 1, 2, 3}) {
    const Array<uint32_t> out = device.allocate<uint32_t>(n);
    device.launch("unaligned_words", {7}, {111}, {device.upload(bytes), out, first, n});
    std::vector<uint32_t> expected(n);
    for (size_t i = 0; i < n; i++) std::memcpy(&expected[i], bytes.data() + first + 3 * i, 4);
    expect_same(device.download(out), expected);
  }
}

void cached_loads(Device& device) {
  const std::vector<float> a = device.integers<float>(n, -99, 99), b = device.integers<float>(4 * n, -99, 99);
  const std::vector<int> c = device.integers<int>(n, -99, 99);
  const Array<float> out = device.allocate<float>(n);
  device.launch("cached_loads", {7}, {111}, {device.upload(a), device.upload(b), device.upload(c), out, n});
  std::vector<float> expected;
  for (size_t i = 0; i < n; i++) expected.push_back(3 * a[i] + b[4 * i] + b[4 * i + 3] + 2 * static_cast<float>(c[i]));
  expect_same(device.download(out), expected);
}

void hinted_stores(Device& device) {
  const Array<float> a = device.allocate<float>(n), b = device.allocate<float>(4 * n);
  const Array<int> c = device.allocate<int>(n);
  const Array<double> d = device.allocate<double>(n);
  device.launch("hinted_stores", {7}, {111}, {a, b, c, d, n});
  std::vector<float> expected_a(n), expected_b(4 * n);
  std::vector<int> expected_c(n);
  std::vector<double> expected_d(n);
  for (size_t i = 0; i < n; i++) {
    expected_a[i] = static_cast<float>(i);
    for (size_t k = 0; k < 4; k++) expected_b[4 * i + k] = static_cast<float>(i + k);
    expected_c[i] = -static_cast<int>(i);
    expected_d[i] = 0.5 * static_cast<double>(i);
  }
  expect_same(device.download(a), expected_a, "stcg");
  expect_same(device.download(b), expected_b, "stcs");
  expect_same(device.download(c), expected_c, "stwt");
  expect_same(device.download(d), expected_d, "stwb");
}

void volatile_and_generic(Device& device) {
  const std::vector<int> a = device.integers<int>(n, -99, 99);
  const Array<int> out = device.allocate<int>(n);
  device.launch("volatile_and_generic", {7}, {128}, {device.upload(a), out, n});
  std::vector<int> expected;
  for (int i = 0; i < n; i++) expected.push_back(i % 3 == 0 ? 10 * i + a[size_t(i)] : 2 * a[size_t(i)] + 1);
  expect_same(device.download(out), expected);
}

void polynomial_from_constants(Device& device) {
  const std::vector<float> in = device.integers<float>(n, -3, 3);
  const Array<float> out = device.allocate<float>(n);
  device.launch("polynomial_from_constants", {7}, {111}, {device.upload(in), out, n});
  std::vector<float> expected;
  for (const float x : in) {
    float sum = 0, power = 1;
    for (int k = 0; k < 8; k++, power *= x) sum += (k % 2 == 0 ? 1.0f : -1.0f) * static_cast<float>(k + 1) * power;
    expected.push_back(sum);
  }
  // Whole numbers: equal, but for the sign of zero.
  expect_near(device.download(out), expected, 0);
}

void constant_lookup(Device& device) {
  const std::vector<int> table = device.integers<int>(256, -100000, 100000);
  device.write(device.variable<int>("lookup"), table);
  const std::vector<uint8_t> in = device.integers<uint8_t>(n, 0, 255);
  const Array<int> out = device.allocate<int>(n);
  device.launch("constant_lookup", {7}, {111}, {device.upload(in), out, n});
  std::vector<int> expected;
  for (const uint8_t index : in) expected.push_back(table[index]);
  expect_same(device.download(out), expected);
}

void module_variables(Device& device) {
  const Array<int> out = device.allocate<int>(4);
  const Array<double> sums = device.allocate<double>(4);
  const Array<char> text = device.allocate<char>(8);
  device.launch("module_variables", {1}, {1}, {out, sums, text});
  expect_same(device.download(out), {41, 42, 0, 'x' - 3});
  expect_same(device.download(sums), {0.5 * 2.25 + 3, 1.5 * 2.25 + 3, 2.5 * 2.25 + 3, 3.5 * 2.25 + 3});
  expect_same(device.download(text), {'v', 'i', 'r', 't', 'u', 'a', 'l', '\0'});
  expect_same(device.download(device.variable<int>("counter")), {42});
}

struct Settings {
  float scale;
  int offset;
  double bias;
  uint8_t table[5];
};

void settings_by_value(Device& device) {
  Settings settings{};  // with defined padding: the block is compared by size only
  settings.scale = 0.5f;
  settings.offset = -7;
  settings.bias = 1e-3;
  for (int k = 0; k < 5; k++) settings.table[k] = static_cast<uint8_t>(device.integer(0, 255));
  const std::vector<float> in = device.integers<float>(n, -99, 99);
  const Array<double> out = device.allocate<double>(n);
  device.launch("settings_by_value", {7}, {111}, {settings, device.upload(in), out, n});
  std::vector<double> expected;
  for (size_t i = 0; i < n; i++) {
    expected.push_back(static_cast<double>(in[i] * 0.5f) + settings.offset + settings.bias + settings.table[i % 5]);
  }
  expect_same(device.download(out), expected);
}

void parameters_of_every_size(Device& device) {
  const Array<double> out = device.allocate<double>(8);
  const std::array<int8_t, 3> three{1, 2, 3};
  device.launch("parameters_of_every_size", {1}, {1},
                {int8_t{-5}, int16_t{-300}, 70000, int64_t{1} << 40, 0.25f, -1e300, true, three, out});
  expect_same(device.download(out), {-5.0, -300.0, 70000.0, 0x1p40, 0.25, -1e300, 1.0, 321.0});
}

void local_histogram(Device& device) {
  const int threads = 128, per_thread = 50;
  const std::vector<uint8_t> in = device.integers<uint8_t>(threads * per_thread, 0, 255);
  const Array<int> out = device.allocate<int>(16 * threads);
  device.launch("local_histogram", {2}, {64}, {device.upload(in), out, per_thread});
  std::vector<int> expected(16 * threads);
  for (size_t i = 0; i < in.size(); i++) expected[16 * (i / per_thread) + in[i] % 16]++;
  expect_same(device.download(out), expected);
}

void local_stack(Device& device) {
  const int threads = 128, per_thread = 40;
  const std::vector<int> in = device.integers<int>(threads * per_thread, 0, 3);
  const Array<int> out = device.allocate<int>(threads);
  device.launch("local_stack", {2}, {64}, {device.upload(in), out, per_thread});
  std::vector<int> expected;
  for (size_t thread = 0; thread < threads; thread++) {
    std::vector<int> stack;
    for (size_t k = 0; k < per_thread; k++) {
      const int value = in[thread * per_thread + k];
      if (value == 0 && stack.size() > 1) {
        const int y = stack.back();
        stack.pop_back();
        stack.back() -= y;
      } else if (stack.size() < 32) {
        stack.push_back(value);
      }
    }
    uint32_t sum = 0;
    for (; !stack.empty(); stack.pop_back()) sum = 31 * sum + static_cast<uint32_t>(stack.back());
    expected.push_back(static_cast<int>(sum));
  }
  expect_same(device.download(out), expected);
}

void device_memory_functions(Device& device) {
  const int threads = 64, size = 19;
  const std::vector<char> in = device.integers<char>(threads * size, 'a', 'z');
  const Array<char> out = device.allocate<char>(threads * 24);
  device.launch("device_memory_functions", {2}, {32}, {device.upload(in), out, size});
  std::vector<char> expected(threads * 24, '.');
  for (int i = 0; i < threads; i++) std::copy_n(in.begin() + i * size, 17, expected.begin() + i * 24 + 3);
  expect_same(device.download(out), expected);
}

void three_dimensions(Device& device) {
  const int width = 21, height = 10, depth = 7;
  const std::vector<int> in = device.integers<int>(width * height * depth, -999, 999);
  const Array<int> out = device.allocate<int>(in.size());
  device.launch("three_dimensions", {3, 3, 4}, {8, 4, 2}, {device.upload(in), out, width, height, depth});
  std::vector<int> expected;
  for (int x = 0; x < width; x++) {
    for (int y = 0; y < height; y++) {
      for (int z = 0; z < depth; z++) expected.push_back(in[size_t((z * height + y) * width + x)]);
    }
  }
  expect_same(device.download(out), expected);
}

void saxpy_grid_stride(Device& device) {
  const std::vector<float> x = device.reals<float>(n, -1, 1), y = device.reals<float>(n, -1, 1);
  const Array<float> out = device.upload(y);
  device.launch("saxpy_grid_stride", {3}, {64}, {1.7f, device.upload(x), out, n});
  std::vector<float> expected;
  for (size_t i = 0; i < n; i++) expected.push_back(std::fma(1.7f, x[i], y[i]));
  expect_same(device.download(out), expected);
}

void gather(Device& device) {
  const std::vector<float> in = device.reals<float>(n, -1, 1);
  const std::vector<int> index = device.integers<int>(n, -50, n - 1);
  const Array<float> out = device.allocate<float>(n);
  device.launch("gather", {7}, {111}, {device.upload(in), device.upload(index), out, n});
  std::vector<float> expected;
  for (const int k : index) expected.push_back(k < 0 ? -1 : in[size_t(k)]);
  expect_same(device.download(out), expected);
}

void identify(Device& device) {
  const Dim3 grid{2, 3, 2}, block{5, 4, 3};
  const Array<uint32_t> out = device.allocate<uint32_t>(12 * 60);
  device.launch("identify", grid, block, {out});
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 12 * 60; i++) expected.push_back(i % 60 % 32 | i / 60 << 8 | i % 60 << 16 | 1u << 31);
  expect_same(device.download(out), expected);
}

}  // namespace

Cases memory_cases() {
  Cases all = wide_moves();
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"add_float2", add_float2},
      {"longlong2_sum", longlong2_sum},
      {"update_particles", update_particles},
      {"copy_mixed", copy_mixed},
      {"unaligned_words", unaligned_words},
      {"cached_loads", cached_loads},
      {"hinted_stores", hinted_stores},
      {"volatile_and_generic", volatile_and_generic},
      {"polynomial_from_constants", polynomial_from_constants},
      {"constant_lookup", constant_lookup},
      {"module_variables", module_variables},
      {"settings_by_value", settings_by_value},
      {"parameters_of_every_size", parameters_of_every_size},
      {"local_histogram", local_histogram},
      {"local_stack", local_stack},
      {"device_memory_functions", device_memory_functions},
      {"three_dimensions", three_dimensions},
      {"saxpy_grid_stride", saxpy_grid_stride},
      {"gather", gather},
      {"identify", identify},
  };
  for (const auto& [kernel, run] : programs) all.push_back({"memory", kernel, run});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
