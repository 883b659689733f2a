// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// An optimizer with the memory of its tensors, on any target, for comparing one target's steps with another's.

#include "runtime/optimizer.h"
#include "tests/e2e/optimizer_run.h"
#include "tests/vgpu/control.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stepfuse::tests {

/// A tensor's dense elements in memory of a device, with strides and an odd start if need be. The bytes around and
/// between the elements hold a pattern.
class PlacedTensor {
 public:
  /// `shift` elements behind an address that is a multiple of 256.
  PlacedTensor(runtime::Device& device, ir::DType dtype, std::vector<int64_t> shape, runtime::Strides strides,
               int64_t shift);

  void write(const Bytes& dense);
  Bytes read() const;
  void* data() const { return memory_.get() + begin_; }
  /// Whether the bytes that are no element are as they were.
  bool gaps_untouched() const;

 private:
  runtime::StridedTensor view() const;

  runtime::Device* device_;
  ir::DType dtype_;
  std::vector<int64_t> shape_;
  runtime::Strides strides_;
  int64_t begin_ = 0;
  runtime::DeviceMemory memory_;
};

struct RigGroup {
  std::string recipe;
  ir::OptionList options;
};

struct RigParameter {
  uint32_t group = 0;
  ir::ParameterSpec spec;
  runtime::Strides strides, grad_strides;
  int64_t shift = 0;  // elements by which parameter and gradient miss the alignment of 16 bytes
  bool caller_states = false;
};

struct RigSettings {
  ir::Mode mode = ir::Mode::Strict;
  std::string target = "cuda";
  std::vector<std::string> disabled;
  std::shared_ptr<const runtime::Context> context;  // null: that of the environment
};

/// What a parameter holds: its elements, its states by key order, and its steps.
struct RigValues {
  Bytes param;
  std::vector<Bytes> states;
  int64_t steps = 0;
};

/// Prepared and bound; parameter p is standard normal from seed p, its gradient from p + 1000. Every call that fails
/// throws std::runtime_error.
class Rig {
 public:
  Rig(const std::vector<RigGroup>& groups, const std::vector<RigParameter>& parameters, const RigSettings& settings);

  runtime::Optimizer& optimizer() { return *optimizer_; }
  runtime::Device& device() { return optimizer_->device(); }
  size_t size() const { return parameters_.size(); }

  void step(int count = 1, void* stream = nullptr);
  void set(uint32_t group, const char* option, double value);
  /// Writes other numbers to the gradient.
  void new_gradient(uint32_t p, uint64_t seed, double scale = 1);
  void write(uint32_t p, const Bytes& param, const Bytes& grad);
  /// With or without a gradient from now on.
  void bind(uint32_t p, bool gradient = true);
  /// Everything moves to new memory with the same contents, and is bound there.
  void move(uint32_t p, int64_t shift);

  RigValues values(uint32_t p) const;
  void expect_gaps_untouched() const;

 private:
  struct Placed {
    RigParameter how;
    uint32_t id = 0;
    std::unique_ptr<PlacedTensor> param, grad;
    std::vector<std::pair<std::string, std::unique_ptr<PlacedTensor>>> states;  // of the caller
  };
  void place(Placed& placed, uint64_t seed);

  std::unique_ptr<runtime::Optimizer> optimizer_;
  std::vector<Placed> parameters_;
};

/// Expects the same bits (any NaN like any other) and the same counts.
void expect_same(const Rig& got, const Rig& want);
/// Values of all parameters, to see later that nothing has changed.
std::vector<RigValues> all_values(const Rig& rig);
void expect_same(const RigValues& got, const RigValues& want, const std::string& where);

void check(const Outcome& outcome);
template <class T>
T value_of(Result<T> result) {
  if (!result) check(fail(std::move(result.error())));
  return std::move(*result);
}

/// Skips where there is no device or no NVRTC; expects no faults of the virtual device.
class CudaExecutor : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

/// For what only the virtual driver can show.
class VirtualExecutor : public CudaExecutor {
 protected:
  void SetUp() override;
  const VirtualDriver* driver_ = nullptr;
};

}  // namespace stepfuse::tests
