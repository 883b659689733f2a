// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/executor/rig.h"

#include "compiler/layout.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace stepfuse::tests {

using runtime::DeviceMemory;
using runtime::StridedTensor;

namespace {

constexpr std::byte kPattern{0xa5};
constexpr int64_t kMargin = 64;  // bytes behind the last element

int64_t span_bytes(const std::vector<int64_t>& shape, const runtime::Strides& strides, ir::DType dtype) {
  const int64_t elements = strides.empty() ? compiler::element_count(shape) : compiler::span_elements(shape, strides);
  return elements * ir::dtype_bytes(dtype);
}

}  // namespace

void check(const Outcome& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message + "; " + outcome.error().hint);
}

PlacedTensor::PlacedTensor(runtime::Device& device, ir::DType dtype, std::vector<int64_t> shape,
                           runtime::Strides strides, int64_t shift)
    : device_(&device),
      dtype_(dtype),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      begin_(shift * ir::dtype_bytes(dtype)),
      memory_(
          value_of(DeviceMemory::create(device, begin_ + span_bytes(shape_, strides_, dtype) + kMargin, "a test"))) {
  const std::vector<std::byte> pattern(static_cast<size_t>(memory_.bytes()), kPattern);
  check(device.write(memory_.get(), pattern.data(), memory_.bytes()));
}

StridedTensor PlacedTensor::view() const { return {memory_.get() + begin_, shape_, strides_, ir::dtype_bytes(dtype_)}; }

void PlacedTensor::write(const Bytes& dense) {
  if (!dense.empty()) check(scatter_to(*device_, dense.data(), view()));
}

Bytes PlacedTensor::read() const {
  Bytes dense(static_cast<size_t>(compiler::element_count(shape_) * ir::dtype_bytes(dtype_)));
  check(gather_from(*device_, view(), dense.data()));
  return dense;
}

bool PlacedTensor::gaps_untouched() const {
  Bytes all(static_cast<size_t>(memory_.bytes()));
  check(device_->read(all.data(), memory_.get(), memory_.bytes()));
  if (compiler::element_count(shape_) > 0) {
    StridedTensor copy = view();
    copy.data = all.data() + begin_;
    const Bytes pattern(static_cast<size_t>(copy.dense_bytes()), kPattern);
    scatter(pattern.data(), copy);
  }
  return std::all_of(all.begin(), all.end(), [](std::byte b) { return b == kPattern; });
}

Rig::Rig(const std::vector<RigGroup>& groups, const std::vector<RigParameter>& parameters,
         const RigSettings& settings) {
  runtime::OptimizerSettings to;
  to.mode = settings.mode;
  to.target = settings.target;
  to.threads = 2;
  to.runner.disabled = settings.disabled;
  to.context = settings.context;
  optimizer_ = std::make_unique<runtime::Optimizer>(value_of(runtime::Optimizer::create(to)));
  std::vector<uint32_t> ids;
  for (const RigGroup& group : groups) ids.push_back(value_of(optimizer_->add_group(group.recipe, group.options)));
  for (const RigParameter& how : parameters) {
    Placed& placed = parameters_.emplace_back();
    placed.how = how;
    const std::string name = fmt::format("w{}", parameters_.size() - 1);
    placed.id = value_of(optimizer_->add_parameter(
        ids.at(how.group), {name, how.spec, how.strides, how.grad_strides, how.caller_states, {}}));
  }
  check(optimizer_->prepare());
  for (size_t p = 0; p < parameters_.size(); ++p) place(parameters_[p], p);
}

void Rig::place(Placed& placed, uint64_t seed) {
  const ir::ParameterSpec& spec = placed.how.spec;
  const int64_t count = compiler::element_count(spec.shape);
  placed.param = std::make_unique<PlacedTensor>(device(), spec.param, spec.shape, placed.how.strides, placed.how.shift);
  placed.grad =
      std::make_unique<PlacedTensor>(device(), spec.grad, spec.shape, placed.how.grad_strides, placed.how.shift);
  placed.param->write(random_tensor(spec.param, count, seed));
  placed.grad->write(random_tensor(spec.grad, count, seed + 1000));
  if (placed.how.caller_states)
    for (const runtime::StateView& state : value_of(optimizer_->state_layouts(placed.id)))
      placed.states.emplace_back(state.key, std::make_unique<PlacedTensor>(device(), state.dtype, state.shape,
                                                                           state.strides, placed.how.shift));
  bind(placed.id);
}

void Rig::bind(uint32_t p, bool gradient) {
  const Placed& placed = parameters_.at(p);
  runtime::MemoryBinding memory{placed.param->data(), gradient ? placed.grad->data() : nullptr, {}};
  for (const auto& [key, tensor] : placed.states) memory.states.emplace_back(key, tensor->data());
  check(optimizer_->bind(placed.id, memory));
}

void Rig::move(uint32_t p, int64_t shift) {
  Placed& placed = parameters_.at(p);
  const ir::ParameterSpec& spec = placed.how.spec;
  auto param = std::make_unique<PlacedTensor>(device(), spec.param, spec.shape, placed.how.strides, shift);
  auto grad = std::make_unique<PlacedTensor>(device(), spec.grad, spec.shape, placed.how.grad_strides, shift);
  param->write(placed.param->read());
  grad->write(placed.grad->read());
  std::swap(placed.param, param);
  std::swap(placed.grad, grad);
  bind(p);
}

void Rig::step(int count, void* stream) {
  for (int i = 0; i < count; ++i) check(optimizer_->step(stream));
}

void Rig::set(uint32_t group, const char* option, double value) { check(optimizer_->set(group, option, value)); }

void Rig::new_gradient(uint32_t p, uint64_t seed, double scale) {
  Placed& placed = parameters_.at(p);
  const ir::ParameterSpec& spec = placed.how.spec;
  placed.grad->write(random_tensor(spec.grad, compiler::element_count(spec.shape), seed, scale));
}

void Rig::write(uint32_t p, const Bytes& param, const Bytes& grad) {
  parameters_.at(p).param->write(param);
  parameters_.at(p).grad->write(grad);
}

RigValues Rig::values(uint32_t p) const {
  const Placed& placed = parameters_.at(p);
  RigValues values;
  values.param = placed.param->read();
  for (const runtime::StateView& state : value_of(optimizer_->states(placed.id))) {
    const StridedTensor view{static_cast<std::byte*>(state.data), state.shape, state.strides,
                             ir::dtype_bytes(state.dtype)};
    Bytes dense(static_cast<size_t>(view.dense_bytes()));
    check(gather_from(optimizer_->device(), view, dense.data()));
    values.states.push_back(std::move(dense));
  }
  values.steps = value_of(optimizer_->steps(placed.id));
  return values;
}

void Rig::expect_gaps_untouched() const {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    EXPECT_TRUE(parameters_[p].param->gaps_untouched()) << "around parameter " << p;
    EXPECT_TRUE(parameters_[p].grad->gaps_untouched()) << "around gradient " << p;
    for (const auto& [key, tensor] : parameters_[p].states)
      EXPECT_TRUE(tensor->gaps_untouched()) << "around state " << key << " of " << p;
  }
}

void expect_same(const RigValues& got, const RigValues& want, const std::string& where) {
  EXPECT_EQ(got.steps, want.steps) << where;
  EXPECT_TRUE(got.param == want.param) << where << ": the parameter differs";
  ASSERT_EQ(got.states.size(), want.states.size()) << where;
  for (size_t s = 0; s < got.states.size(); ++s)
    EXPECT_TRUE(got.states[s] == want.states[s]) << where << ": state " << s << " differs";
}

std::vector<RigValues> all_values(const Rig& rig) {
  std::vector<RigValues> values;
  for (size_t p = 0; p < rig.size(); ++p) values.push_back(rig.values(static_cast<uint32_t>(p)));
  return values;
}

void expect_same(const Rig& got, const Rig& want) {
  ASSERT_EQ(got.size(), want.size());
  const std::vector<RigValues> a = all_values(got), b = all_values(want);
  for (size_t p = 0; p < a.size(); ++p) expect_same(a[p], b[p], fmt::format("parameter {}", p));
}

void CudaExecutor::SetUp() {
  ::setenv("VGPU_DEVICES", "2", 0);  // read when the virtual driver is first called
  const std::string why_not = why_no_device();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  if (virtual_driver() != nullptr) virtual_driver()->reset_counters();
}

void CudaExecutor::TearDown() {
  if (virtual_driver() == nullptr) return;
  VgpuCounters counters{};
  virtual_driver()->counters(&counters);
  EXPECT_EQ(counters.faults + counters.unknown, 0U) << virtual_driver()->last_fault();
}

void VirtualExecutor::SetUp() {
  CudaExecutor::SetUp();
  if (IsSkipped()) return;
  driver_ = virtual_driver();
  if (driver_ == nullptr) GTEST_SKIP() << "this is a real driver, whose calls nobody counts";
}

}  // namespace stepfuse::tests
