// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/corpus/cases.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace stepfuse::vgpu::corpus {

/// The values at which arithmetic breaks.
template <class T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    const T inf = Limits::infinity(), tiny = Limits::denorm_min();
    return {T(0),
            -T(0),
            T(1),
            T(-1),
            T(0.5),
            T(-1.5),
            T(2.5),
            T(8388608.5),
            Limits::max(),
            -Limits::max(),
            Limits::min(),
            -Limits::min(),
            tiny,
            -3 * tiny,
            inf,
            -inf,
            Limits::quiet_NaN(),
            T(1) / 3,
            T(2147483648.0),
            T(-129.5)};
  } else {
    return {T(0),
            T(1),
            T(2),
            T(3),
            T(7),
            T(31),
            T(32),
            T(33),
            T(100),
            T(-1),
            T(-2),
            T(-100),
            Limits::max(),
            Limits::min(),
            T(Limits::max() - 1),
            T(Limits::max() / 2 + 1),
            T(0x0F0F0F0F0F0F0F0FULL),
            T(Limits::max() / 3)};
  }
}

/// Any bits for integers, magnitudes of every order for the rest.
template <class T>
T any_value(Device& device) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (device.integer(0, 3)) {
      case 0:
        return static_cast<T>(device.real(-4, 4));
      case 1:
        return static_cast<T>(device.integer(-100, 100));
      case 2:
        return static_cast<T>(std::ldexp(device.real(-2, 2), static_cast<int>(device.integer(-40, 40))));
      default: {
        std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t> bits{};
        bits = static_cast<decltype(bits)>(device.random()());
        return std::bit_cast<T>(bits);
      }
    }
  } else {
    const uint64_t bits = device.random()() >> device.integer(0, 63);
    return static_cast<T>(device.integer(0, 1) != 0 ? bits : ~bits + 1);
  }
}

/// Input number `argument` of a map: all pairs and, of the first arguments, triples of edges come first.
template <class T>
std::vector<T> edge_values(Device& device, size_t argument, size_t size) {
  const std::vector<T> edge = edges<T>();
  std::vector<T> values(size);
  for (size_t i = 0; i < size; i++) {
    size_t digit = i;
    for (size_t k = 0; k < argument; k++) digit /= 20;
    values[i] = i < 400 ? edge[digit % edge.size()] : any_value<T>(device);
  }
  return values;
}

/// Equal bit for bit; a NaN equals every NaN, because PTX leaves the payload open.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  }
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// How far `got` lies from the exact result, in units of the last place of T at that result.
template <class T, class Exact>
double ulps(T got, Exact exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  const T rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || std::isinf(got)) {
    // The largest number is one unit from infinity.
    if (got == rounded) return 0;
    const T other = std::isinf(rounded) ? got : rounded;
    return std::abs(other) == std::numeric_limits<T>::max() && std::signbit(other) == std::signbit(rounded) ? 1
                                                                                                            : INFINITY;
  }
  int exponent = std::numeric_limits<T>::min_exponent - 1;
  if (exact != 0) exponent = std::max(exponent, static_cast<int>(std::ilogb(exact)));
  const Exact unit = std::ldexp(Exact(1), exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs((static_cast<Exact>(got) - exact) / unit));
}

template <class T>
std::string shown(T value) {
  std::ostringstream text;
  text.precision(17);
  if constexpr (sizeof(T) == 1) {
    text << int(value);
  } else {
    text << value;
  }
  if constexpr (std::is_same_v<T, float>) text << " (0x" << std::hex << std::bit_cast<uint32_t>(value) << ")";
  if constexpr (std::is_same_v<T, double>) text << " (0x" << std::hex << std::bit_cast<uint64_t>(value) << ")";
  return std::move(text).str();
}

/// Compares elements until the first few differ.
template <class T>
void expect_same(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what = "element") {
  ASSERT_EQ(got.size(), expected.size());
  int reported = 0;
  for (size_t i = 0; i < got.size() && reported < 3; i++) {
    if (same(got[i], expected[i])) continue;
    reported++;
    ADD_FAILURE() << what << " " << i << " is " << shown(got[i]) << ", expected " << shown(expected[i]);
  }
}

/// |got - expected| <= relative * |expected| + absolute.
template <class T, class Exact>
void expect_near(const std::vector<T>& got, const std::vector<Exact>& expected, double relative, double absolute = 0) {
  ASSERT_EQ(got.size(), expected.size());
  int reported = 0;
  for (size_t i = 0; i < got.size() && reported < 3; i++) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
    if (std::abs(a - b) <= relative * std::abs(b) + absolute) continue;
    reported++;
    ADD_FAILURE() << "element " << i << " is " << shown(a) << ", expected " << shown(b);
  }
}

constexpr size_t map_size = 1001;  // no multiple of a block
constexpr uint32_t map_block = 128;

inline Dim3 blocks_for(size_t size, uint32_t block = map_block) {
  return {static_cast<uint32_t>((size + block - 1) / block), 1, 1};
}

template <class Input>
std::string shown_inputs(const Input& inputs, size_t i) {
  return std::apply([&](const auto&... values) { return ((" " + shown(values[i])) + ...); }, inputs);
}

/// out[i] = kernel(in[i]...) with the kernel's parameters (in..., out, n), against `reference` bit for bit.
template <class Out, class... In>
Case map(const std::string& source, const std::string& kernel, Out (*reference)(In...)) {
  return {source, kernel, [kernel, reference](Device& device) {
            [&]<size_t... K>(std::index_sequence<K...>) {
              const std::tuple<std::vector<In>...> inputs{edge_values<In>(device, K, map_size)...};
              const Array<Out> out = device.allocate<Out>(map_size);
              device.launch(kernel, blocks_for(map_size), {map_block},
                            {device.upload(std::get<K>(inputs))..., out, static_cast<int>(map_size)});
              const std::vector<Out> got = device.download(out);
              int reported = 0;
              for (size_t i = 0; i < map_size && reported < 3; i++) {
                const Out expected = reference(std::get<K>(inputs)[i]...);
                if (same(got[i], expected)) continue;
                reported++;
                ADD_FAILURE() << kernel << " of" << shown_inputs(inputs, i) << " is " << shown(got[i]) << ", expected "
                              << shown(expected);
              }
            }(std::index_sequence_for<In...>{});
          }};
}

/// Where a function of one or two arguments is tried.
struct Domain {
  double low = -10, high = 10;
  bool edges = false;        // zeros, infinities, NaN, the smallest and the largest too
  bool logarithmic = false;  // as many per power of two
};

template <class T>
std::vector<T> domain_values(Device& device, const Domain& domain, size_t argument) {
  std::vector<T> values = domain.edges ? edge_values<T>(device, argument, map_size) : std::vector<T>(map_size);
  for (size_t i = domain.edges ? 400 : 0; i < map_size; i++) {
    values[i] =
        static_cast<T>(domain.logarithmic ? std::exp2(device.real(std::log2(domain.low), std::log2(domain.high)))
                                          : device.real(domain.low, domain.high));
  }
  return values;
}

/// The same for a function with an error bound: `reference` is exact as far as Exact goes, `bound` counts units in the
/// last place of T plus what Exact itself may err.
template <class T, class Exact, class... In>
Case math(const std::string& source, const std::string& kernel, Exact (*reference)(In...), double bound,
          Domain domain) {
  return {source, kernel, [=](Device& device) {
            [&]<size_t... K>(std::index_sequence<K...>) {
              const auto inputs =
                  std::make_tuple((static_cast<void>(sizeof(In)), domain_values<T>(device, domain, K))...);
              const Array<T> out = device.allocate<T>(map_size);
              device.launch(kernel, blocks_for(map_size), {map_block},
                            {device.upload(std::get<K>(inputs))..., out, static_cast<int>(map_size)});
              const std::vector<T> got = device.download(out);
              int reported = 0;
              for (size_t i = 0; i < map_size && reported < 3; i++) {
                const Exact expected = reference(static_cast<Exact>(std::get<K>(inputs)[i])...);
                if (ulps(got[i], expected) <= bound + 0.51) continue;
                reported++;
                ADD_FAILURE() << kernel << " of" << shown_inputs(inputs, i) << " is " << shown(got[i]) << ", expected "
                              << shown(static_cast<T>(expected)) << ": " << ulps(got[i], expected) << " ulps";
              }
            }(std::index_sequence_for<In...>{});
          }};
}

}  // namespace stepfuse::vgpu::corpus
