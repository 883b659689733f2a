// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Stepfuse for programs that train with libtorch: the parameters of a module, by name, in a stepfuse::Optimizer.
///
///   stepfuse::Optimizer optimizer;
///   auto muon  = optimizer.add_group("muon", {{"lr", "0.02"}});
///   auto adamw = optimizer.add_group("adamw", {{"lr", "3e-4"}});
///   stepfuse_torch::ModuleOptimizer steps(std::move(optimizer));
///   steps.add(*model, [&](const std::string& name, const at::Tensor& p) { return p.dim() == 2 ? muon : adamw; });
///   steps.prepare();
///   for (...) { steps.zero_grad(); loss(*model).backward(); steps.step(); }
///
/// This file is yours to copy: Stepfuse itself is not linked against libtorch. Tensors stay where they are; parameters
/// may have any strides that Stepfuse takes. Memory is bound again whenever torch has moved it, such as a gradient
/// after zero_grad. A parameter without a gradient is left alone, as torch's optimizers do.
///
/// Errors are stepfuse::Error. Use one ModuleOptimizer from one thread at a time. Everything is on the CPU in this
/// version.

#include <string>
#include <utility>
#include <vector>

#include <stepfuse/stepfuse.hpp>
#include <torch/torch.h>

namespace stepfuse_torch {

/// The element type of a tensor; those that no optimizer can step are refused by name.
inline stepfuse::ElementType element_type(const at::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return stepfuse::ElementType::F32;
    case at::kDouble:
      return stepfuse::ElementType::F64;
    case at::kHalf:
      return stepfuse::ElementType::F16;
    case at::kBFloat16:
      return stepfuse::ElementType::BF16;
    default:
      throw stepfuse::Error(stepfuse::ErrorCode::Unsupported,
                            "parameter '" + name + "' has the type " + at::toString(tensor.scalar_type()),
                            "parameters are float, double, half or bfloat16");
  }
}

/// The C form of a tensor, for programs that use stepfuse.h; valid as long as the tensor is, and is not resized.
inline stepfuse_tensor describe(const at::Tensor& tensor, const std::string& name) {
  stepfuse_tensor out = stepfuse_cpu_tensor(tensor.data_ptr(), stepfuse::detail::to_c(element_type(tensor, name)),
                                            static_cast<int32_t>(tensor.dim()), tensor.sizes().data());
  out.strides = tensor.strides().data();
  if (!tensor.device().is_cpu()) {
    out.device.type = tensor.device().is_cuda() ? 2 : -1;  // Stepfuse says that it is not yet supported
    out.device.id = tensor.device().index();
  }
  return out;
}

class ModuleOptimizer {
 public:
  explicit ModuleOptimizer(stepfuse::Optimizer optimizer) : optimizer_(std::move(optimizer)) {}

  /// Adds every parameter of `module` that requires a gradient, each to the group that `choose(name, tensor)` gives.
  /// The name is torch's, such as "blocks.0.attn.weight", and is the one that states are saved under.
  template <class Choose>
  void add(const torch::nn::Module& module, Choose choose) {
    for (const auto& item : module.named_parameters())
      if (item.value().requires_grad()) add(choose(item.key(), item.value()), item.key(), item.value());
  }

  void add(stepfuse::GroupId group, const std::string& name, const at::Tensor& tensor) {
    if (!tensor.device().is_cpu())
      throw stepfuse::Error(stepfuse::ErrorCode::Unsupported,
                            "parameter '" + name + "' is on " + tensor.device().str() + ", which is not yet supported",
                            "this version takes tensors of the CPU");
    stepfuse::Parameter parameter;
    parameter.name = name;
    parameter.shape = tensor.sizes().vec();
    parameter.dtype = element_type(tensor, name);
    // Autograd gives a gradient the strides of its parameter; one that differs is copied in step().
    if (!tensor.is_contiguous()) parameter.strides = parameter.gradient_strides = tensor.strides().vec();
    entries_.push_back({optimizer_.add_parameter(group, parameter), tensor, {}, nullptr, nullptr});
  }

  /// Once, after the last add.
  void prepare() { optimizer_.prepare(); }

  /// One step over the parameters that have a gradient.
  void step() {
    for (Entry& entry : entries_) bind(entry);
    optimizer_.step();
  }

  /// As torch does it by default: gradients are given up, not filled with zeros.
  void zero_grad() {
    for (Entry& entry : entries_) entry.tensor.mutable_grad().reset();
  }

  /// Schedules, states, explain and everything else.
  stepfuse::Optimizer& optimizer() { return optimizer_; }

 private:
  struct Entry {
    stepfuse::ParameterId id;
    at::Tensor tensor;
    at::Tensor gradient;  // keeps alive what is bound
    void* bound_data;
    void* bound_gradient;
  };

  /// The gradient in the layout that was promised; undefined if there is none.
  static at::Tensor gradient_of(const at::Tensor& tensor) {
    const at::Tensor& gradient = tensor.grad();
    if (!gradient.defined() || (gradient.strides() == tensor.strides() && gradient.dtype() == tensor.dtype()))
      return gradient;
    at::Tensor copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().requires_grad(false));
    copy.copy_(gradient);
    return copy;
  }

  void bind(Entry& entry) {
    entry.gradient = gradient_of(entry.tensor);
    void* const data = entry.tensor.data_ptr();
    void* const gradient = entry.gradient.defined() ? entry.gradient.data_ptr() : nullptr;
    if (data == entry.bound_data && gradient == entry.bound_gradient) return;
    optimizer_.bind(entry.id, data, gradient);
    entry.bound_data = data;
    entry.bound_gradient = gradient;
  }

  stepfuse::Optimizer optimizer_;
  std::vector<Entry> entries_;
};

}  // namespace stepfuse_torch
