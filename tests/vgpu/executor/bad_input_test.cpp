// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What a caller or a machine gets wrong on a device: a status with code, text and hint, and everything as it was.
#include "runtime/cuda_backend.h"
#include "tests/vgpu/executor/caller.h"
#include "tests/vgpu/executor/rig.h"
#include "tests/vgpu/lt/lt_control.h"

#include <sys/wait.h>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace stepfuse::tests {
namespace {

using testing::HasSubstr;

std::shared_ptr<const runtime::Context> context_with(const std::vector<runtime::SettingSource>& flags) {
  runtime::Context::Options options;
  options.flags = flags;
  options.log = [](LogLevel, std::string_view) {};
  return value_of(runtime::Context::create(options));
}

template <class Outcome>
void expect_refusal(const Outcome& outcome, StatusCode code, const std::string& message, const std::string& hint) {
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, code) << outcome.error().message;
  EXPECT_THAT(outcome.error().message, HasSubstr(message));
  EXPECT_THAT(outcome.error().hint, HasSubstr(hint));
  EXPECT_FALSE(outcome.error().hint.empty()) << outcome.error().message;
}

std::vector<RigParameter> two_vectors() {
  std::vector<RigParameter> list(2);
  list[0].spec.shape = {1000};
  list[1].spec.shape = {300};
  return list;
}

runtime::OptimizerSettings cuda_settings() {
  runtime::OptimizerSettings settings;
  settings.target = "cuda";
  return settings;
}

TEST(NoDriver, IsToldWithThePlacesTried) {
  runtime::OptimizerSettings settings = cuda_settings();
  settings.context = context_with({{"libcuda", "/nowhere/libcuda.so.1", "test"}});
  const auto optimizer = runtime::Optimizer::create(settings);
  expect_refusal(optimizer, StatusCode::Environment, "/nowhere/libcuda.so.1",
                 "`nvidia-smi` shows what the driver sees");
}

class BadInput : public CudaExecutor {
 protected:
  void SetUp() override {
    CudaExecutor::SetUp();
    if (IsSkipped()) return;
    rig_ = std::make_unique<Rig>(std::vector<RigGroup>{{"adamw", {}}}, two_vectors(), RigSettings{});
    rig_->step();
    before_ = all_values(*rig_);
  }
  void TearDown() override {
    rig_.reset();
    CudaExecutor::TearDown();
  }
  /// Nothing has changed, and the next step is the one that would have been taken.
  void expect_untouched() {
    for (uint32_t p = 0; p < 2; ++p) expect_same(rig_->values(p), before_[p], fmt::format("parameter {}", p));
    Rig other({{"adamw", {}}}, two_vectors(), {});
    other.step(2);
    rig_->step();
    expect_same(*rig_, other);
  }
  runtime::Optimizer& optimizer() { return rig_->optimizer(); }

  std::unique_ptr<Rig> rig_;
  std::vector<RigValues> before_;
};

TEST_F(BadInput, NoSuchDevice) {
  runtime::OptimizerSettings settings = cuda_settings();
  settings.device = 7;
  expect_refusal(runtime::Optimizer::create(settings), StatusCode::InvalidArgument, "there is no CUDA device 7",
                 "CUDA_VISIBLE_DEVICES");
}

TEST_F(BadInput, TensorsInHostMemory) {
  std::vector<float> values(1000);
  expect_refusal(optimizer().bind(0, values.data(), values.data()), StatusCode::InvalidArgument,
                 "lies in host memory, and the optimizer runs on device 0", "pass device memory");
  expect_untouched();
}

TEST_F(BadInput, TensorsThatAreNotAlignedOrOverlap) {
  const auto memory = value_of(runtime::DeviceMemory::create(rig_->device(), 16384, "a test"));
  expect_refusal(optimizer().bind(0, memory.get() + 2, memory.get() + 8192), StatusCode::InvalidArgument,
                 "is not aligned to its element type", "multiple of the size");
  expect_refusal(optimizer().bind(0, memory.get(), memory.get() + 3996), StatusCode::InvalidArgument, "overlaps",
                 "memory of its own");
  const auto states = value_of(optimizer().state_layouts(0));
  expect_refusal(optimizer().bind(1, states[0].data, memory.get()), StatusCode::InvalidArgument, "overlaps", "memory");
  expect_untouched();
}

TEST_F(BadInput, AStreamOfAnotherContext) {
  Caller caller;
  cuda::CUcontext other = nullptr, popped = nullptr;
  cuda::CUstream stream = nullptr;
  caller.check(caller.call().cuCtxCreate(&other, 0, caller.context().device().handle), "making a context");
  caller.check(caller.call().cuStreamCreate(&stream, cuda::CU_STREAM_NON_BLOCKING), "making a stream");
  caller.check(caller.call().cuCtxPopCurrent(&popped), "leaving it");
  expect_refusal(optimizer().step(stream), StatusCode::InvalidArgument, "another context than that of device 0",
                 "make the stream on the device");
  expect_refusal(optimizer().refresh(stream), StatusCode::InvalidArgument, "another context", "make the stream");
  expect_untouched();
  caller.check(caller.call().cuCtxDestroy(other), "destroying it");
}

TEST_F(BadInput, TensorsOnAnotherDevice) {
  const auto context = value_of(runtime::Context::of_environment());
  auto other = runtime::open_cuda_device(1, *context);
  if (!other) GTEST_SKIP() << other.error().message;
  const auto memory = value_of(runtime::DeviceMemory::create(**other, 8192, "a test"));
  expect_refusal(optimizer().bind(0, memory.get(), memory.get() + 4096), StatusCode::InvalidArgument,
                 "lies on device 1, and the optimizer runs on device 0", "the setting 'device' says which");
  Caller there(1);
  expect_refusal(optimizer().step(there.make_stream()), StatusCode::InvalidArgument,
                 "another context than that of device 0", "make the stream on the device");
  expect_untouched();
}

/// The second device is as good as the first.
TEST_F(BadInput, ExceptThatASecondDeviceIsNone) {
  runtime::OptimizerSettings settings = cuda_settings();
  settings.mode = ir::Mode::Strict;
  settings.device = 1;
  auto made = runtime::Optimizer::create(settings);
  if (!made) GTEST_SKIP() << made.error().message;
  EXPECT_EQ(made->device().ordinal(), 1);
  value_of(made->add_parameter(value_of(made->add_group("adamw", {})), "w", {{1000}}));
  check(made->prepare());
  PlacedTensor param(made->device(), ir::DType::F32, {1000}, {}, 0),
      grad(made->device(), ir::DType::F32, {1000}, {}, 0);
  param.write(random_tensor(ir::DType::F32, 1000, 0));
  grad.write(random_tensor(ir::DType::F32, 1000, 1000));
  check(made->bind(0, param.data(), grad.data()));
  check(made->step());
  EXPECT_TRUE(param.read() == before_[0].param);
}

/// Triton pull request 685, llama.cpp issue 21682: nothing may be loaded or allocated while a stream captures.
TEST_F(BadInput, E09_AStepCapturedBeforePrepareTouchesNothing) {
  auto settings = cuda_settings();
  auto fresh = value_of(runtime::Optimizer::create(settings));
  const uint32_t group = value_of(fresh.add_group("adamw", {}));
  value_of(fresh.add_parameter(group, "w", {{777}}));
  Caller caller;
  const cuda::CUstream stream = caller.make_stream();
  caller.begin_capture(stream);
  const VirtualDriver* driver = virtual_driver();
  if (driver != nullptr) driver->reset_counters();
  expect_refusal(fresh.step(stream), StatusCode::InvalidArgument, "step before prepare", "call prepare once");
  if (driver != nullptr) {
    VgpuCounters counters{};
    driver->counters(&counters);
    EXPECT_EQ(counters.calls, 0U);
  }
  caller.end_capture(stream);
  expect_untouched();
}

/// And in a captured step after it: no allocation, no module, no query of the context.
TEST_F(BadInput, E09_ACapturedStepLoadsAndAllocatesNothing) {
  Caller caller;
  const cuda::CUstream stream = caller.make_stream();
  const VirtualDriver* driver = virtual_driver();
  if (driver == nullptr) GTEST_SKIP() << "this is a real driver, whose calls nobody counts";
  caller.begin_capture(stream);
  driver->reset_counters();
  rig_->step(1, stream);
  VgpuCounters counters{};
  driver->counters(&counters);
  EXPECT_EQ(counters.allocations + counters.host_allocations + counters.libraries_loaded, 0U);
  caller.launch(caller.end_capture(stream), stream);
  caller.synchronize(stream);
  Rig other({{"adamw", {}}}, two_vectors(), {});
  other.step(2);
  expect_same(*rig_, other);
}

TEST_F(BadInput, ACaptureThatHasFailedAlready) {
  Caller caller;
  const cuda::CUstream stream = caller.make_stream();
  caller.begin_capture(stream);
  caller.call().cuStreamSynchronize(stream);  // is not allowed, and ends the capture's validity
  expect_refusal(optimizer().step(stream), StatusCode::InvalidArgument, "capture has failed already",
                 "look for the call");
  cuda::CUgraph graph = nullptr;
  EXPECT_NE(caller.call().cuStreamEndCapture(stream, &graph), cuda::CUDA_SUCCESS);
  expect_untouched();
}

/// PyTorch issue 40403. The parent goes on.
TEST_F(BadInput, E11_AForkedChildIsToldAndTheParentGoesOn) {
  std::vector<RigParameter> matrix(1);
  matrix[0].spec.shape = {24, 40};
  auto with_products = std::make_unique<Rig>(std::vector<RigGroup>{{"muon", {}}}, matrix, RigSettings{});
  with_products->step();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Outcome stepped = optimizer().step();
    const Outcome bound = optimizer().refresh();
    const auto made = runtime::Optimizer::create(cuda_settings());
    const bool told = !stepped && !bound && !made && stepped.error().code == StatusCode::Environment &&
                      stepped.error().message.find("forked") != std::string::npos &&
                      made.error().hint.find("fork first") != std::string::npos;
    rig_.reset();  // destroying is harmless
    with_products.reset();
    ::_exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_untouched();
}

/// The CPU's backend works in a child, and a child of a program that only planned may use the device.
TEST_F(BadInput, E11_TheCpuWorksInAForkedChild) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Rig cpu({{"adamw", {}}}, two_vectors(), {ir::Mode::Strict, "cpu", {}, {}});
    cpu.step();
    const bool same = cpu.values(0).param == before_[0].param;
    ::_exit(same ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class NoMemory : public VirtualExecutor {};

/// Each allocation of prepare fails once; after that prepare can be called again.
TEST_F(NoMemory, AtPrepareIsToldAndPrepareMayComeAgain) {
  uint64_t refused = 0;
  for (uint64_t skip = 0; skip < 20; ++skip) {
    auto optimizer = value_of(runtime::Optimizer::create(cuda_settings()));
    const uint32_t group = value_of(optimizer.add_group("muon", {}));
    value_of(optimizer.add_parameter(group, "w", {{24, 40}}));
    driver_->fail_allocations(skip, 1);
    const Outcome prepared = optimizer.prepare();
    driver_->fail_allocations(0, 0);
    if (prepared) break;
    ++refused;
    EXPECT_EQ(prepared.error().code, StatusCode::Environment);
    EXPECT_THAT(prepared.error().message, testing::ContainsRegex("cannot allocate [0-9]+ bytes for .* on device 0 .*: "
                                                                 "[0-9]+ of [0-9]+ are free"));
    EXPECT_THAT(prepared.error().hint, HasSubstr("free memory on the device"));
    check(optimizer.prepare());
    const auto memory = value_of(runtime::DeviceMemory::create(optimizer.device(), 8192, "a test"));
    check(optimizer.device().zero(memory.get(), 8192));
    check(optimizer.bind(0, memory.get(), memory.get() + 4096));
    check(optimizer.step());
    EXPECT_EQ(value_of(optimizer.steps(0)), 1);
  }
  EXPECT_GE(refused, 2U) << "states and workspace";
}

/// A failed prepare keeps no memory.
TEST_F(NoMemory, AtPrepareLeavesNothingBehind) {
  auto optimizer = value_of(runtime::Optimizer::create(cuda_settings()));
  const uint32_t group = value_of(optimizer.add_group("adamw", {}));
  value_of(optimizer.add_parameter(group, "w", {{100, 100}}));
  VgpuCounters before{}, after{};
  driver_->counters(&before);
  driver_->fail_allocations(1, 1);
  ASSERT_FALSE(optimizer.prepare());
  driver_->fail_allocations(0, 0);
  check(optimizer.prepare());
  driver_->counters(&after);
  const uint64_t first = after.live_bytes - before.live_bytes;
  auto again = value_of(runtime::Optimizer::create(cuda_settings()));
  value_of(again.add_parameter(value_of(again.add_group("adamw", {})), "w", {{100, 100}}));
  check(again.prepare());
  driver_->counters(&before);
  EXPECT_EQ(before.live_bytes - after.live_bytes, first);
}

/// cuBLASLt finds nothing for a shape: told at prepare, with the shape and what was offered.
TEST_F(NoMemory, E07_NoAlgorithmIsToldAtPrepare) {
  void* const lt = ::dlopen("libcublasLt.so.13", RTLD_NOW);
  const auto force =
      lt == nullptr
          ? nullptr
          : reinterpret_cast<decltype(&vgpu_lt_force_no_algorithms)>(::dlsym(lt, "vgpu_lt_force_no_algorithms"));
  ASSERT_NE(force, nullptr);
  auto optimizer = value_of(runtime::Optimizer::create(cuda_settings()));
  value_of(optimizer.add_parameter(value_of(optimizer.add_group("muon", {})), "w", {{24, 40}}));
  force(1);
  const Outcome prepared = optimizer.prepare();
  force(0);
  expect_refusal(prepared, StatusCode::Environment, "has no algorithm for", "multiples of 16 bytes");
  EXPECT_THAT(prepared.error().message, HasSubstr("24 x 24 x 40"));
  check(optimizer.prepare());
}

}  // namespace
}  // namespace stepfuse::tests
