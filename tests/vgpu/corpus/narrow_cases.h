// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/corpus/narrow.h"
#include "tests/vgpu/corpus/values.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace stepfuse::vgpu::corpus {

/// Numbers of a 16-bit format: any bits, with the largest, the smallest, infinities, NaN and small whole numbers.
template <class N>
std::vector<N> narrow_values(Device& device, size_t size) {
  std::vector<N> values(size);
  for (N& value : values) {
    switch (device.integer(0, 3)) {
      case 0:
        value.bits = static_cast<uint16_t>(device.random()());
        break;
      case 1:
        value = N::of(static_cast<double>(device.integer(-20, 20)) / 4);
        break;
      case 2:
        value = N::of(device.real(-2, 2));
        break;
      default: {
        const auto infinity = static_cast<uint16_t>(0x7FFF >> N::fraction_bits << N::fraction_bits);
        const uint16_t edges[] = {0,        1,      static_cast<uint16_t>(infinity - 1),
                                  infinity, 0x7FFF, static_cast<uint16_t>(1 << N::fraction_bits)};
        value.bits = static_cast<uint16_t>(edges[device.integer(0, 5)] | (device.integer(0, 1) << 15));
      }
    }
  }
  return values;
}

template <class T>
std::vector<T> operand(Device& device, size_t size) {
  if constexpr (std::is_arithmetic_v<T>) {
    return edge_values<T>(device, 0, size);
  } else {
    return narrow_values<T>(device, size);
  }
}

template <class T>
std::string shown_operand(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return shown(value);
  } else {
    return shown(value.value()) + " [" + std::to_string(value.bits) + "]";
  }
}

/// How many numbers one thread handles.
enum class Lanes { One = 1, Two = 2 };

/// kernel(in..., out, n) on arrays of narrow numbers, number by number.
template <class Out, class... In>
Case narrow_map(const std::string& source, const std::string& kernel, Out (*reference)(In...), Lanes lanes = Lanes::One,
                int min_capability = 0) {
  return {source, kernel,
          [=](Device& device) {
            [&]<size_t... K>(std::index_sequence<K...>) {
              const size_t size = 1200;
              const std::tuple<std::vector<In>...> inputs{operand<In>(device, size)...};
              const Array<Out> out = device.allocate<Out>(size);
              const int threads = static_cast<int>(size) / static_cast<int>(lanes);
              device.launch(kernel, blocks_for(size), {map_block},
                            {device.upload(std::get<K>(inputs))..., out, threads});
              const std::vector<Out> got = device.download(out);
              for (size_t i = 0; i < size; i++) {
                const Out expected = reference(std::get<K>(inputs)[i]...);
                bool equal = false;
                if constexpr (std::is_arithmetic_v<Out>) {
                  equal = same(got[i], expected);
                } else {
                  equal = got[i] == expected;
                }
                ASSERT_TRUE(equal) << kernel << " of" << ((" " + shown_operand(std::get<K>(inputs)[i])) + ...) << " is "
                                   << shown_operand(got[i]) << ", expected " << shown_operand(expected);
              }
            }(std::index_sequence_for<In...>{});
          },
          min_capability};
}

}  // namespace stepfuse::vgpu::corpus
