// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/interpreter.h"
#include "ir/parse.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

// What the interpreter's tests share.

namespace stepfuse::ir {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kUlp = 0x1p-23;  // of 1 in f32

inline Graph parsed(const std::string& text) {
  auto graph = parse("// stepfuse-ir v1\n" + text);
  EXPECT_TRUE(graph.has_value()) << graph.error().message << "\n" << text;
  return graph ? std::move(*graph) : Graph{};
}

inline Tensor vector_of(DType dtype, std::vector<double> data) {
  const auto size = static_cast<int64_t>(data.size());
  return Tensor{dtype, {size}, std::move(data)};
}

inline Tensor random_tensor(DType dtype, std::vector<int64_t> dims, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Tensor tensor{dtype, std::move(dims), {}};
  int64_t elements = 1;
  for (int64_t extent : tensor.dims) elements *= extent;
  for (int64_t i = 0; i < elements; ++i) {
    const double value = normal(generator);
    // Eight significant bits are exact in every type.
    int exponent = 0;
    const double narrow = std::ldexp(std::nearbyint(std::ldexp(std::frexp(value, &exponent), 8)), exponent - 8);
    tensor.data.push_back(dtype == DType::F64 ? value : dtype == DType::F32 ? static_cast<float>(value) : narrow);
  }
  return tensor;
}

/// Value of %r, which replaces the param %p.
inline Tensor run_for_p(const Graph& graph, const Bindings& bindings, Evaluation evaluation) {
  auto result = interpret(graph, bindings, evaluation);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result ? result->at("p") : Tensor{};
}

inline void expect_same(const std::vector<double>& actual, const std::vector<double>& expected,
                        const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << what << " at " << i << ": " << actual[i];
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint64_t>(actual[i]), std::bit_cast<uint64_t>(expected[i]))
        << what << " at " << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

}  // namespace stepfuse::ir
