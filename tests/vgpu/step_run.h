// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::test {

/// A model whose tensors lie on whatever device its target has, and which may move them between steps.
struct ModelGroup {
  std::string rule;
  ir::OptionList options;
};
struct ModelTensor {
  uint32_t group = 0;
  std::vector<int64_t> shape;
  int64_t gradient_shift = 0;  // elements by which the gradient misses the alignment of an allocation
  ir::DType dtype = ir::DType::F32;
};

/// Elements of one tensor, as doubles.
using Values = std::vector<double>;

/// Standard normal numbers, the same for one seed everywhere.
Values random_values(int64_t count, uint64_t seed);
/// Integers of -2 .. 2: small sums of small products of them are exact.
Values random_integers(int64_t count, uint64_t seed);

class ModelRun {
 public:
  using Fill = Values (*)(int64_t count, uint64_t seed);

  /// Prepared, with all parameters and gradients bound. Throws what the runtime refuses.
  ModelRun(const std::vector<ModelGroup>& groups, const std::vector<ModelTensor>& tensors, ir::Mode mode,
           const std::string& target, Fill fill = random_values);

  void step() { check(optimizer_.step()); }
  void set(uint32_t group, const char* option, double value) { check(optimizer_.set(group, option, value)); }
  /// The gradient is gone.
  void drop_gradient(uint32_t tensor);
  /// A gradient of other values in other memory; the old one's memory must stay as it is from now on. `shift` as
  /// ModelTensor::gradient_shift.
  void move_gradient(uint32_t tensor, uint64_t seed, int64_t shift = 0);
  /// Brings a gradient to the device, to be bound by its number. The first one has number 0.
  size_t add_gradient(uint32_t tensor, uint64_t seed, int64_t shift = 0);
  /// Waits for nothing.
  void use_gradient(uint32_t tensor, size_t number);
  /// The parameter goes on in other memory; what it leaves behind must stay as it is from now on.
  void move_parameter(uint32_t tensor);
  /// NaN in one element of the gradient that is bound now.
  void spoil_gradient(uint32_t tensor, int64_t element);

  Values parameter(uint32_t tensor);
  std::vector<Values> states(uint32_t tensor);
  /// Says which memory that was left behind has changed, or "".
  std::string touched();

  runtime::Optimizer& optimizer() { return optimizer_; }
  const ModelTensor& tensor(uint32_t index) const { return tensors_[index]; }
  size_t size() const { return tensors_.size(); }

 private:
  struct Gradient {
    runtime::DeviceMemory memory;
    int64_t shift = 0;
  };
  struct Memory {
    runtime::DeviceMemory parameter;
    std::vector<Gradient> gradients;
    size_t bound = 0;  // of gradients
    bool has_gradient = true;
  };
  struct Left {
    runtime::DeviceMemory memory;
    std::vector<std::byte> bytes;
    uint32_t tensor = 0;
  };

  static void check(const Outcome& outcome);
  runtime::DeviceMemory upload(const ModelTensor& tensor, const Values& values, int64_t shift);
  Values download(const void* data, int64_t count, ir::DType dtype);
  void leave(runtime::DeviceMemory memory, uint32_t tensor);
  void bind(uint32_t tensor);

  std::vector<ModelTensor> tensors_;
  Fill fill_;
  runtime::Optimizer optimizer_;
  std::vector<Memory> memory_;
  std::vector<Left> left_;
};

/// Bit for bit, any NaN like any other; "" or the first difference.
std::string bit_difference(const Values& got, const Values& want);
/// "" if |got - want| <= tolerance |want - before|, Euclidean.
std::string far_apart(const Values& got, const Values& want, const Values& before, double tolerance);

}  // namespace stepfuse::test
