// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Every golden case on a device, through the public C++ API, in both numerics modes. On CUDA, products follow the
// library's order of sums, so that claims of bit-equality hold for rules without products alone.
#include "runtime/cuda/driver.h"
#include "stepfuse/stepfuse.hpp"
#include "tests/golden/golden_cases.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::golden {
namespace {

using runtime::Driver;

/// The first device with its context current, or the reason why there is none. Never destroyed: when statics are, the
/// driver may be gone already.
class Device {
 public:
  static Device& first() {
    static auto* const device = new Device;
    return *device;
  }
  const std::string& missing() const { return missing_; }
  const runtime::DriverFunctions& call() const { return driver_->call(); }

 private:
  Device() {
    if (const Outcome opened = open(); !opened) missing_ = opened.error().message;
  }
  Outcome open() {
    STEPFUSE_ASSIGN(const runtime::Settings settings,
                    runtime::Settings::resolve({}, runtime::Settings::process_environment()));
    STEPFUSE_ASSIGN(driver_, Driver::open(settings));
    STEPFUSE_ASSIGN(context_, runtime::CudaContext::open(*driver_, 0));
    STEPFUSE_ASSIGN(runtime::CurrentContext scope, runtime::CurrentContext::enter(*context_));
    scope_.emplace(std::move(scope));
    return {};
  }

  const Driver* driver_ = nullptr;
  std::unique_ptr<runtime::CudaContext> context_;
  std::optional<runtime::CurrentContext> scope_;
  std::string missing_;
};

void must(cuda::CUresult result) {
  if (result != cuda::CUDA_SUCCESS) throw std::runtime_error("the driver answered " + std::to_string(result));
}

/// A tensor's copy on the device.
class OnDevice {
 public:
  explicit OnDevice(const GoldenTensor& tensor) : bytes_(tensor.bytes.size()) {
    must(Device::first().call().cuMemAlloc(&address_, std::max<size_t>(bytes_, 1)));
    write(tensor);
  }
  ~OnDevice() {
    if (address_ != 0) Device::first().call().cuMemFree(address_);
  }
  OnDevice(OnDevice&& other) noexcept : address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  OnDevice& operator=(OnDevice&&) = delete;

  void write(const GoldenTensor& tensor) const {
    if (bytes_ != 0) must(Device::first().call().cuMemcpyHtoD(address_, tensor.bytes.data(), bytes_));
  }
  void* get() const { return reinterpret_cast<void*>(address_); }  // NOLINT(performance-no-int-to-ptr): API's addresses

 private:
  cuda::CUdeviceptr address_ = 0;
  size_t bytes_;
};

GoldenTensor read_back(const void* data, ElementType dtype, const std::vector<std::int64_t>& shape) {
  std::size_t bytes = dtype == ElementType::BF16 ? 2 : 4;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  GoldenTensor tensor{dtype, shape, std::vector<std::byte>(bytes)};
  must(Device::first().call().cuCtxSynchronize());
  if (bytes != 0)
    must(Device::first().call().cuMemcpyDtoH(tensor.bytes.data(), reinterpret_cast<cuda::CUdeviceptr>(data), bytes));
  return tensor;
}

struct Bound {
  std::string name;
  ParameterId id;
  GoldenTensor before;
  OnDevice data, gradient;
};

std::vector<Bound> add_parameters(Optimizer& optimizer, const GoldenCase& golden, const GoldenFile& file) {
  const GroupId group = optimizer.add_group(golden.recipe, golden.options);
  std::vector<Bound> bound;
  for (const std::string& name : file.parameters()) {
    GoldenTensor before = file.before(name);
    const ParameterId id = optimizer.add_parameter(group, name, before.shape, golden.dtype);
    bound.push_back({name, id, before, OnDevice(before), OnDevice(file.gradient(name, 1))});
  }
  return bound;
}

/// Products end the claim of bit-equality on a device.
GoldenCase as_on_device(GoldenCase golden) {
  if (golden.tolerance == ToleranceClass::NewtonSchulzF32 || golden.tolerance == ToleranceClass::NewtonSchulzBf16)
    golden.bit_equal = false;
  return golden;
}

using Parameters = std::tuple<GoldenCase, Numerics>;

class DeviceGoldenTest : public testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override {
    if (!Device::first().missing().empty()) GTEST_SKIP() << Device::first().missing();
  }
};

TEST_P(DeviceGoldenTest, AgreesWithThePeer) {
  const GoldenCase golden = as_on_device(std::get<0>(GetParam()));
  const Numerics numerics = std::get<1>(GetParam());
  SCOPED_TRACE("against " + golden.peer);
  const GoldenFile file(golden);
  Settings settings;
  settings.target = "cuda";
  settings.numerics = numerics;
  Optimizer optimizer(settings);
  std::vector<Bound> bound = add_parameters(optimizer, golden, file);
  ASSERT_FALSE(bound.empty());
  optimizer.prepare();
  for (const Bound& each : bound) optimizer.bind(each.id, each.data.get(), each.gradient.get());
  for (int step = 1; step <= golden.steps; ++step) {
    must(Device::first().call().cuCtxSynchronize());
    for (const Bound& each : bound) each.gradient.write(file.gradient(each.name, step));
    optimizer.step();
  }
  for (const Bound& each : bound) {
    SCOPED_TRACE("parameter " + each.name);
    const GoldenTensor ours = read_back(each.data.get(), each.before.dtype, each.before.shape);
    EXPECT_TRUE(parameter_agrees(golden, numerics, ours, file.after(each.name), each.before));
    const auto expected = file.states(each.name);
    for (const std::string& key : optimizer.state_keys(each.id)) {
      if (key == "step") continue;
      const TensorView view = optimizer.state(each.id, key);
      EXPECT_TRUE(state_agrees(golden, numerics, read_back(view.data, view.dtype, view.shape), expected.at(key)))
          << "state " << key;
    }
    EXPECT_EQ(optimizer.steps(each.id), golden.steps);
  }
}

std::string test_name(const testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == Numerics::Strict ? "_strict" : "_default");
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceGoldenTest,
                         testing::Combine(testing::ValuesIn(golden_cases()),
                                          testing::Values(Numerics::Strict, Numerics::Default)),
                         test_name);

}  // namespace
}  // namespace stepfuse::golden
