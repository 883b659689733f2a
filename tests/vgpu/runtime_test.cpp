// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The runtime's way to a device, on the virtual driver, which the dynamic loader finds as it would find the real one.
#include "runtime/aot.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/driver.h"
#include "runtime/rule.h"
#include "runtime/target.h"
#include "tests/support/cache_folder.h"
#include "tests/support/recipe_kernels.h"
#include "tests/support/temporary_folder.h"
#include "tests/vgpu/kernel_run.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

using testing::HasSubstr;

Settings settings() { return Settings::resolve({}, Settings::process_environment()).value(); }

TEST(CudaDriver, FindsTheVirtualDevice) {
  const Driver* driver = Driver::open(settings()).value();
  EXPECT_EQ(driver->devices(), 1);
  const CudaDevice device = cuda_device(*driver, 0).value();
  EXPECT_EQ(device.capability, 129);
  EXPECT_EQ(device.name, "Stepfuse virtual GPU");
  EXPECT_GT(device.multiprocessors, 0);
  const auto none = cuda_device(*driver, 1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "there is no CUDA device 1; 1 found");
}

TEST(CudaDriver, TakesTheCallersContextAndGivesItsOwnBack) {
  const Driver* driver = Driver::open(settings()).value();
  const DriverFunctions& call = driver->call();
  cuda::CUcontext own = nullptr, current = nullptr;
  ASSERT_EQ(call.cuCtxCreate(&own, 0, cuda_device(*driver, 0)->handle), cuda::CUDA_SUCCESS);
  EXPECT_EQ(CudaContext::open(*driver, 0).value()->handle(), own);
  ASSERT_EQ(call.cuCtxPopCurrent(&current), cuda::CUDA_SUCCESS);
  const auto primary = CudaContext::open(*driver, 0).value();
  EXPECT_NE(primary->handle(), own);
  {
    const auto scope = CurrentContext::enter(*primary);
    ASSERT_TRUE(scope);
    ASSERT_EQ(call.cuCtxGetCurrent(&current), cuda::CUDA_SUCCESS);
    EXPECT_EQ(current, primary->handle());
  }
  ASSERT_EQ(call.cuCtxGetCurrent(&current), cuda::CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  ASSERT_EQ(call.cuCtxDestroy(own), cuda::CUDA_SUCCESS);
}

TEST(CudaDriver, StreamsOfAnotherContextAreRefused) {
  const Driver* driver = Driver::open(settings()).value();
  const auto context = CudaContext::open(*driver, 0).value();
  EXPECT_THAT(context->check_stream(nullptr).error().message, HasSubstr("no stream was given"));
  cuda::CUcontext other = nullptr, popped = nullptr;
  cuda::CUstream stream = nullptr;
  ASSERT_EQ(driver->call().cuCtxCreate(&other, 0, context->device().handle), cuda::CUDA_SUCCESS);
  ASSERT_EQ(driver->call().cuStreamCreate(&stream, cuda::CU_STREAM_NON_BLOCKING), cuda::CUDA_SUCCESS);
  EXPECT_THAT(context->check_stream(stream).error().message, HasSubstr("another context than that of device 0"));
  ASSERT_EQ(driver->call().cuCtxPopCurrent(&popped), cuda::CUDA_SUCCESS);
  ASSERT_EQ(driver->call().cuCtxDestroy(other), cuda::CUDA_SUCCESS);
}

/// PyTorch issue 40403: a forked child must hear a clear error instead of a failing call.
TEST(CudaDriver, E11_AForkedChildIsTold) {
  const Driver* driver = Driver::open(settings()).value();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto context = CudaContext::open(*driver, 0);
    const bool told = !context && context.error().message.find("forked") != std::string::npos;
    ::_exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = test::why_no_nvrtc();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }

  std::shared_ptr<const Context> context(const std::string& jit = "on", const std::string& nvrtc = "") {
    Context::Options options;
    options.flags = {{"jit", jit, "test"}, {"cache", "off", "test"}};
    if (!nvrtc.empty()) options.flags.push_back({"nvrtc", nvrtc, "test"});
    options.log = [](LogLevel, std::string_view) {};
    return Context::create(options).value();
  }
  Result<FoundCudaKernel> find(const CudaKernelRequest& request, const std::string& jit = "on") {
    cache_ = std::make_unique<KernelCache>(tests::store_options(top_ / "cache"));
    return find_cuda_kernel(*cache_, *context(jit), request);
  }
  static CudaKernelRequest request(const char* arch = "sm_90", bool aligned = true) {
    return fused_kernel_request(test::recipe_kernels(ir::Mode::Strict).front(), {aligned},
                                parse_cuda_arch(arch).value());
  }

  const tests::TemporaryFolder top_;
  std::unique_ptr<KernelCache> cache_;
};

TEST_F(CudaKernels, AreCompiledOnceThenComeFromDisk) {
  const auto first = find(request());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->origin, KernelOrigin::Compiled);
  EXPECT_FALSE(first->kernel->cubin().empty());
  const auto second = find(request(), "off");
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->origin, KernelOrigin::Disk);
  EXPECT_EQ(second->kernel->ptx(), first->kernel->ptx());
  EXPECT_TRUE(std::ranges::equal(second->kernel->cubin(), first->kernel->cubin()));
}

TEST_F(CudaKernels, AnotherArchitectureOrVariantIsAMissThatSaysSo) {
  ASSERT_TRUE(find(request()));
  EXPECT_THAT(find(request("sm_80"), "off").error().message,
              HasSubstr("arch: the entry has 'sm_90', wanted is 'sm_80'"));
  EXPECT_THAT(find(request("sm_90", false), "off").error().message, HasSubstr("differs in kernel, line"));
}

/// The virtual device is of a capability that no machine code serves, so that its driver compiles the PTX.
TEST_F(CudaKernels, APtxServesWhereMachineCodeDoesNot) {
  const Driver* driver = Driver::open(settings()).value();
  const auto device = CudaContext::open(*driver, 0).value();
  const auto scope = CurrentContext::enter(*device);
  const auto found = find(request());
  ASSERT_TRUE(found) << found.error().message;
  const auto function = found->kernel->function(*driver);
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_NE(*function, nullptr);
  const CudaKernel machine_code_only("k", {found->kernel->cubin().begin(), found->kernel->cubin().end()}, "");
  EXPECT_THAT(machine_code_only.function(*driver).error().message, HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"));
  const CudaKernel broken("k", {}, "this is no PTX");
  EXPECT_THAT(broken.function(*driver).error().message,
              HasSubstr("compiling the PTX of kernel k: CUDA_ERROR_INVALID_PTX"));
}

/// The bundle belongs to root, the process to somebody else, who may not compile and finds no NVRTC.
TEST_F(CudaKernels, ARootOwnedBundleServesADeviceWithJitOff) {
  const auto rule = Rule::create("adamw", {}).value();
  const std::vector<compiler::PlannedParameter> model{{"w", {40}, rule.instantiate({{40}}).value(), rule.peer()}};
  compiler::PlanOptions options;
  const auto made_by = context();
  options.target = target_traits("sm_90", made_by->settings()).value();
  const compiler::StepPlan plan = compiler::make_plan(model, options).value();
  std::vector<TargetNeeds> needs;
  needs.push_back(needs_of(plan, model, *made_by).value());
  ASSERT_TRUE(write_bundle(top_ / "k.sfb", compile_needs(needs, 1, {}).value()));
  ASSERT_EQ(::chmod(top_.path().c_str(), 0555), 0);

  StoreOptions store = tests::store_options(top_ / "none");
  store.layers = {top_ / "k.sfb"};
  if (::geteuid() == 0) store.environment.uid = 65534;
  KernelCache cache(store);
  const Driver* driver = Driver::open(settings()).value();
  const auto device = CudaContext::open(*driver, 0).value();
  const auto scope = CurrentContext::enter(*device);
  const auto user = context("off", "/nowhere");
  for (const auto& kernel : needs.front().kernels) {
    const auto found = cache.find_or_compile(*user, *kernel);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->origin, KernelOrigin::Layer);
    const auto function = static_cast<const CudaKernel&>(*found->kernel).function(*driver);
    EXPECT_TRUE(function) << function.error().message;
  }
  ASSERT_EQ(::chmod(top_.path().c_str(), 0700), 0);
}

/// The virtual driver is of CUDA 13.0. What a newer NVRTC made is refused by name, before the driver is asked.
TEST_F(CudaKernels, ADriverOlderThanTheKernelIsToldByName) {
  const Driver* driver = Driver::open(settings()).value();
  const auto device = CudaContext::open(*driver, 0).value();
  const auto scope = CurrentContext::enter(*device);
  const auto found = find(request());
  ASSERT_TRUE(found) << found.error().message;
  const std::vector<std::byte> cubin(found->kernel->cubin().begin(), found->kernel->cubin().end());
  const CudaKernel newer(found->kernel->name(), cubin, found->kernel->ptx(), "13.1");
  const auto refused = newer.function(*driver);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::Environment);
  EXPECT_THAT(refused.error().message, HasSubstr("whose PTX needs a driver of CUDA 13.1 or newer"));
  const CudaKernel next(found->kernel->name(), cubin, "", "14.0");
  EXPECT_THAT(next.function(*driver).error().message, HasSubstr("needs a driver of CUDA 14.0 or newer"));
}

}  // namespace
}  // namespace stepfuse::runtime
