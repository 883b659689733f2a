// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// A small optimizer behind the C interface, and what its tests ask again and again.
#pragma once

#include "stepfuse/stepfuse.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stepfuse::tests {

inline constexpr double kLr = 0.1;
inline constexpr double kDecay = 0.01;  // adamw's default

/// The call is refused with this code; message and hint contain these texts, and neither is empty.
inline void expect_status(stepfuse_status got, stepfuse_status wanted, const std::string& message,
                          const std::string& hint = "") {
  EXPECT_EQ(got, wanted) << stepfuse_status_name(got) << ": " << stepfuse_last_error();
  if (got == STEPFUSE_OK) return;
  EXPECT_NE(std::string(stepfuse_last_error()).find(message), std::string::npos) << stepfuse_last_error();
  EXPECT_NE(std::string(stepfuse_last_hint()).find(hint), std::string::npos) << stepfuse_last_hint();
  EXPECT_STRNE(stepfuse_last_error(), "");
  EXPECT_STRNE(stepfuse_last_hint(), "") << stepfuse_last_error();
}

#define EXPECT_OK(call) EXPECT_EQ(call, STEPFUSE_OK) << stepfuse_last_error() << "; " << stepfuse_last_hint()
#define ASSERT_OK(call) ASSERT_EQ(call, STEPFUSE_OK) << stepfuse_last_error() << "; " << stepfuse_last_hint()

/// A context, an optimizer of it, one AdamW group and in it one matrix of 2 x 3.
class CApi : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(stepfuse_context_create(nullptr, &context_));
    ASSERT_OK(stepfuse_optimizer_create(context_, &optimizer_));
    const stepfuse_option options[] = {{"lr", "0.1"}};
    ASSERT_OK(stepfuse_optimizer_add_group(optimizer_, "adamw", options, 1, &group_));
    const stepfuse_parameter parameter = matrix("w");
    ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, group_, &parameter, &id_));
  }
  void TearDown() override {
    EXPECT_OK(stepfuse_optimizer_destroy(optimizer_));
    EXPECT_OK(stepfuse_context_destroy(context_));
  }

  stepfuse_parameter matrix(const char* name) const {
    stepfuse_parameter parameter = stepfuse_parameter_init();
    parameter.name = name;
    parameter.ndim = 2;
    parameter.shape = shape_.data();
    return parameter;
  }
  stepfuse_tensor tensor(std::vector<float>& values) const {
    return stepfuse_cpu_tensor(values.data(), stepfuse_f32(), 2, shape_.data());
  }
  void bind_all() {
    param_ = tensor(values_);
    grad_ = tensor(gradient_);
    stepfuse_binding binding = stepfuse_binding_init();
    binding.param = &param_;
    binding.grad = &grad_;
    ASSERT_OK(stepfuse_optimizer_bind(optimizer_, id_, &binding));
  }
  void prepare_and_bind() {
    ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
    bind_all();
  }
  /// What AdamW's first step with a constant gradient does to a value, whatever the gradient is.
  static double first_step(double value, double lr = kLr) { return value * (1 - lr * kDecay) - lr; }

  std::array<int64_t, 2> shape_{2, 3};
  std::vector<float> values_ = std::vector<float>(6, 1), gradient_ = std::vector<float>(6, 0.5F);
  stepfuse_tensor param_{}, grad_{};
  stepfuse_context* context_ = nullptr;
  stepfuse_optimizer* optimizer_ = nullptr;
  uint32_t group_ = 77, id_ = 77;
};

}  // namespace stepfuse::tests
