// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of a device through the C interface: the hooks of a framework's pool.
#include "tests/e2e/c_api_fixture.h"
#include "tests/vgpu/executor/caller.h"
#include "tests/vgpu/executor/rig.h"

#include <map>
#include <mutex>

namespace stepfuse::tests {
namespace {

/// A framework's pool that gives `limit` bytes at most, and remembers what is out.
class Pool {
 public:
  explicit Pool(const Caller& caller) : caller_(&caller) {}

  static void* allocate(void* user, size_t bytes, int32_t device, void* stream) {
    auto& self = *static_cast<Pool*>(user);
    const std::scoped_lock lock(self.mutex_);
    self.wrong += device != 0 || stream == nullptr || bytes == 0 ? 1 : 0;
    if (self.used + bytes > self.limit) return nullptr;
    cuda::CUdeviceptr address = 0;
    if (self.caller_->call().cuMemAlloc(&address, bytes) != cuda::CUDA_SUCCESS) return nullptr;
    auto* const memory = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    self.out[memory] = bytes;
    self.used += bytes;
    ++self.calls;
    return memory;
  }
  static void release(void* user, void* memory, size_t bytes, int32_t device, void* /*stream*/) {
    auto& self = *static_cast<Pool*>(user);
    const std::scoped_lock lock(self.mutex_);
    const auto known = self.out.find(memory);
    self.wrong += device != 0 || known == self.out.end() || known->second != bytes ? 1 : 0;
    self.out.erase(memory);
    self.used -= bytes;
    self.caller_->call().cuMemFree(reinterpret_cast<cuda::CUdeviceptr>(memory));
  }

  std::map<void*, size_t> out;
  size_t limit = size_t{1} << 30, used = 0, calls = 0, wrong = 0;

 private:
  const Caller* caller_;
  std::mutex mutex_;
};

class DeviceHooks : public VirtualExecutor {
 protected:
  void SetUp() override {
    VirtualExecutor::SetUp();
    if (IsSkipped()) return;
    caller_ = std::make_unique<Caller>();
    pool_ = std::make_unique<Pool>(*caller_);
    stepfuse_context_options options = stepfuse_context_options_init();
    const stepfuse_option settings[] = {{"target", "cuda"}};
    options.settings = settings;
    options.settings_count = 1;
    options.device_allocate = &Pool::allocate;
    options.device_release = &Pool::release;
    options.device_allocator_user = pool_.get();
    ASSERT_OK(stepfuse_context_create(&options, &context_));
    ASSERT_OK(stepfuse_optimizer_create(context_, &optimizer_));
    for (const char* recipe : {"muon", "adamw"}) {
      uint32_t group = 0, id = 0;
      ASSERT_OK(stepfuse_optimizer_add_group(optimizer_, recipe, nullptr, 0, &group));
      stepfuse_parameter parameter = stepfuse_parameter_init();
      parameter.name = recipe;
      parameter.ndim = 2;
      parameter.shape = shape_;
      ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, group, &parameter, &id));
    }
  }
  void TearDown() override {
    stepfuse_optimizer_destroy(optimizer_);
    stepfuse_context_destroy(context_);
    pool_.reset();
    caller_.reset();
    VirtualExecutor::TearDown();
  }
  uint64_t allocations() const {
    VgpuCounters counters{};
    driver_->counters(&counters);
    return counters.allocations;
  }
  void bind_all(cuda::CUdeviceptr memory) {
    stepfuse_device device{};
    ASSERT_OK(stepfuse_optimizer_device(optimizer_, &device));
    for (uint32_t id = 0; id < 2; ++id) {
      stepfuse_tensor param = stepfuse_cpu_tensor(reinterpret_cast<void*>(memory + id * 32768), stepfuse_f32(), 2,
                                                  shape_);  // NOLINT(performance-no-int-to-ptr)
      param.device = device;
      stepfuse_tensor grad = param;
      grad.data = static_cast<char*>(param.data) + 16384;
      stepfuse_binding binding = stepfuse_binding_init();
      binding.param = &param;
      binding.grad = &grad;
      ASSERT_OK(stepfuse_optimizer_bind(optimizer_, id, &binding));
    }
  }

  const int64_t shape_[2] = {24, 40};
  std::unique_ptr<Caller> caller_;
  std::unique_ptr<Pool> pool_;
  stepfuse_context* context_ = nullptr;
  stepfuse_optimizer* optimizer_ = nullptr;
};

/// pytorch pull request 124250. All memory of the device comes from the hooks and goes back through them.
TEST_F(DeviceHooks, I06_AllMemoryComesFromTheFrameworksPool) {
  driver_->reset_counters();
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  EXPECT_GE(pool_->calls, 2U) << "states and workspace";
  EXPECT_EQ(allocations(), pool_->calls);
  stepfuse_summary summary = stepfuse_summary_init();
  ASSERT_OK(stepfuse_optimizer_summary(optimizer_, &summary));
  EXPECT_GE(static_cast<int64_t>(pool_->used), summary.workspace_bytes + 24 * 40 * 4 * 3);

  cuda::CUdeviceptr memory = 0;
  caller_->check(caller_->call().cuMemAlloc(&memory, 65536), "allocating");
  caller_->check(caller_->call().cuMemsetD8Async(memory, 0, 65536, caller_->make_stream()), "clearing");
  caller_->check(caller_->call().cuCtxSynchronize(), "waiting");
  bind_all(memory);
  const uint64_t before = allocations();
  const size_t calls = pool_->calls;
  for (int i = 0; i < 3; ++i) ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(allocations(), before) << "a step allocates nothing";
  EXPECT_EQ(pool_->calls, calls);
  ASSERT_OK(stepfuse_optimizer_destroy(optimizer_));
  optimizer_ = nullptr;
  EXPECT_TRUE(pool_->out.empty());
  EXPECT_EQ(pool_->used, 0U);
  EXPECT_EQ(pool_->wrong, 0U);
  caller_->check(caller_->call().cuMemFree(memory), "freeing");
}

/// A pool that is full is told at prepare, which may come again.
TEST_F(DeviceHooks, I06_AFullPoolIsToldAtPrepare) {
  for (const size_t limit : {size_t{0}, size_t{24 * 40 * 4 * 4}}) {
    pool_->limit = limit;
    expect_status(stepfuse_optimizer_prepare(optimizer_, nullptr), STEPFUSE_ENVIRONMENT, "cannot allocate",
                  "free memory on the device");
    EXPECT_EQ(pool_->used, 0U);
  }
  pool_->limit = size_t{1} << 30;
  EXPECT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  EXPECT_EQ(pool_->wrong, 0U);
}

}  // namespace
}  // namespace stepfuse::tests
