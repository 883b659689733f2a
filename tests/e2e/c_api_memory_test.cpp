// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The C interface where memory is the point: states of the caller, strides, the allocator, checkpoints.
#include "tests/e2e/c_api_fixture.h"
#include "tests/support/temporary_folder.h"

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>

#include <unistd.h>

namespace stepfuse::tests {
namespace {

constexpr float kPoison = 12345;

/// A matrix of 2 x 3 with a row stride of 5: the two floats behind each row belong to somebody else.
class CApiCallerStates : public CApi {
 protected:
  static constexpr int64_t kRow = 5;

  void SetUp() override {
    CApi::SetUp();
    parameter_ = matrix("mine");
    parameter_.flags = STEPFUSE_CALLER_STATES;
    parameter_.strides = strides_.data();
    parameter_.state_layouts = layouts_.data();
    parameter_.state_layouts_count = layouts_.size();
    ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, group_, &parameter_, &mine_));
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t c = 0; c < 3; ++c) padded_[static_cast<size_t>(r * kRow + c)] = 1;
  }
  stepfuse_tensor padded(std::vector<float>& values) const {
    stepfuse_tensor tensor = this->tensor(values);
    tensor.strides = strides_.data();
    return tensor;
  }
  stepfuse_status bind_mine(size_t states) {
    const stepfuse_tensor param = padded(padded_), grad = tensor(gradient_);
    const stepfuse_state_tensor given[] = {{"exp_avg", padded(m_)}, {"exp_avg_sq", tensor(v_)}};
    stepfuse_binding binding = stepfuse_binding_init();
    binding.param = &param;
    binding.grad = &grad;
    binding.states = given;
    binding.states_count = states;
    return stepfuse_optimizer_bind(optimizer_, mine_, &binding);
  }

  std::array<int64_t, 2> strides_{kRow, 1};
  std::array<stepfuse_state_layout, 1> layouts_{{{"exp_avg", strides_.data()}}};
  stepfuse_parameter parameter_{};
  uint32_t mine_ = 0;
  std::vector<float> padded_ = std::vector<float>(10, kPoison), m_ = std::vector<float>(10, kPoison),
                     v_ = std::vector<float>(6, kPoison);
};

/// Fresh states need not be zeroed: what the memory holds does not count. Gaps between rows are not touched.
TEST_F(CApiCallerStates, AreWrittenInPlace) {
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  stepfuse_tensor state{};
  ASSERT_OK(stepfuse_optimizer_state(optimizer_, mine_, "exp_avg", &state));
  EXPECT_EQ(state.data, nullptr) << "not bound yet";
  EXPECT_EQ(state.strides[0], kRow);
  ASSERT_OK(bind_mine(2));
  ASSERT_OK(stepfuse_optimizer_state(optimizer_, mine_, "exp_avg", &state));
  EXPECT_EQ(state.data, m_.data());
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  for (size_t i = 0; i < padded_.size(); ++i) {
    const bool gap = i % kRow >= 3;
    EXPECT_NEAR(padded_[i], gap ? kPoison : first_step(1), 1e-6) << i;
    EXPECT_NEAR(m_[i], gap ? kPoison : 0.05, 1e-7) << i;
  }
  for (float v : v_) EXPECT_NEAR(v, 0.001 * 0.25, 1e-9);
}

TEST_F(CApiCallerStates, MustAllBeBound) {
  prepare_and_bind();
  expect_status(bind_mine(1), STEPFUSE_INVALID_ARGUMENT, "without memory for its state 'exp_avg_sq'", "all of them");
  expect_status(bind_mine(0), STEPFUSE_INVALID_ARGUMENT, "without memory for its state 'exp_avg'");
  const stepfuse_tensor param = padded(padded_), dense = tensor(padded_);
  stepfuse_state_tensor given[] = {{"exp_avg", tensor(m_)}, {"exp_avg_sq", tensor(v_)}};
  stepfuse_binding binding = stepfuse_binding_init();
  binding.param = &param;
  binding.states = given;
  binding.states_count = 2;
  expect_status(stepfuse_optimizer_bind(optimizer_, mine_, &binding), STEPFUSE_INVALID_ARGUMENT,
                "state 'exp_avg' of 'mine' has strides [3, 1], add_parameter said [5, 1]");
  binding.param = &dense;
  expect_status(stepfuse_optimizer_bind(optimizer_, mine_, &binding), STEPFUSE_INVALID_ARGUMENT,
                "parameter 'mine' has strides [3, 1], add_parameter said [5, 1]");
  given[0] = {"exp_agv", padded(m_)};
  binding.param = &param;
  expect_status(stepfuse_optimizer_bind(optimizer_, mine_, &binding), STEPFUSE_INVALID_ARGUMENT, "no state 'exp_agv'",
                "exp_avg");
  given[0] = {nullptr, padded(m_)};
  expect_status(stepfuse_optimizer_bind(optimizer_, mine_, &binding), STEPFUSE_INVALID_ARGUMENT, "key' is null");
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(m_, std::vector<float>(10, kPoison)) << "it was never bound";
  EXPECT_NEAR(values_[0], first_step(1), 1e-6) << "the other parameter goes on";
}

/// Counts what is out, and how much was ever asked for.
struct Counting {
  std::mutex mutex;
  std::map<void*, size_t> out;
  size_t calls = 0, wrong = 0;
  bool refuse = false;

  static void* allocate(void* user, size_t bytes, size_t alignment) {
    auto& self = *static_cast<Counting*>(user);
    const std::scoped_lock lock(self.mutex);
    if (self.refuse) return nullptr;
    void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    ++self.calls;
    self.out[memory] = bytes;
    return memory;
  }
  static void release(void* user, void* memory, size_t bytes) {
    auto& self = *static_cast<Counting*>(user);
    const std::scoped_lock lock(self.mutex);
    const auto it = self.out.find(memory);
    self.wrong += it == self.out.end() || it->second != bytes ? 1 : 0;
    if (it != self.out.end()) self.out.erase(it);
    std::free(memory);
  }
  bool holds(const void* pointer) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    for (const auto& [memory, bytes] : out)
      if (address >= reinterpret_cast<uintptr_t>(memory) && address < reinterpret_cast<uintptr_t>(memory) + bytes)
        return true;
    return false;
  }
};

class CApiAllocator : public CApi {
 protected:
  void SetUp() override {
    stepfuse_context_options options = stepfuse_context_options_init();
    options.allocate = &Counting::allocate;
    options.release = &Counting::release;
    options.allocator_user = &counting_;
    ASSERT_OK(stepfuse_context_create(&options, &context_));
    ASSERT_OK(stepfuse_optimizer_create(context_, &optimizer_));
    ASSERT_OK(stepfuse_optimizer_add_group(optimizer_, "muon", nullptr, 0, &group_));
    const stepfuse_parameter parameter = matrix("w");
    ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, group_, &parameter, &id_));
  }
  Counting counting_;
};

TEST_F(CApiAllocator, GivesStatesAndWorkspaceAndGetsThemBack) {
  prepare_and_bind();
  stepfuse_tensor state{};
  ASSERT_OK(stepfuse_optimizer_state(optimizer_, id_, "momentum_buffer", &state));
  EXPECT_TRUE(counting_.holds(state.data));
  stepfuse_summary summary = stepfuse_summary_init();
  ASSERT_OK(stepfuse_optimizer_summary(optimizer_, &summary));
  ASSERT_GT(summary.workspace_bytes, 0);
  size_t total = 0;
  for (const auto& [memory, bytes] : counting_.out) total += bytes;
  EXPECT_GE(total, static_cast<size_t>(summary.workspace_bytes) + 6 * sizeof(float));
  const size_t calls = counting_.calls;
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(counting_.calls, calls) << "a step allocates nothing";
  ASSERT_OK(stepfuse_optimizer_destroy(optimizer_));
  optimizer_ = nullptr;
  EXPECT_TRUE(counting_.out.empty());
  EXPECT_EQ(counting_.wrong, 0U);
}

/// No memory is an error of prepare, which may be tried again.
TEST_F(CApiAllocator, MayHaveNothing) {
  counting_.refuse = true;
  expect_status(stepfuse_optimizer_prepare(optimizer_, nullptr), STEPFUSE_ENVIRONMENT, "cannot allocate", "memory");
  EXPECT_TRUE(counting_.out.empty());
  counting_.refuse = false;
  prepare_and_bind();
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(counting_.wrong, 0U);
}

class CApiCheckpoint : public CApi {
 protected:
  std::vector<char> exported() {
    size_t needed = 0;
    EXPECT_OK(stepfuse_optimizer_state_export(optimizer_, nullptr, 0, &needed));
    std::vector<char> bytes(needed);
    EXPECT_OK(stepfuse_optimizer_state_export(optimizer_, bytes.data(), bytes.size(), &needed));
    return bytes;
  }
  float moment() {
    stepfuse_tensor state{};
    EXPECT_OK(stepfuse_optimizer_state(optimizer_, id_, "exp_avg", &state));
    return static_cast<const float*>(state.data)[3];
  }
  int64_t steps() {
    int64_t steps = -1;
    EXPECT_OK(stepfuse_optimizer_steps(optimizer_, id_, &steps));
    return steps;
  }
};

/// A run that is taken up again ends where one without a break ends.
TEST_F(CApiCheckpoint, GoesThroughMemory) {
  prepare_and_bind();
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  const std::vector<char> bytes = exported();
  const std::string text(bytes.begin(), bytes.end());
  for (const char* name : {"\"w.exp_avg\"", "\"w.exp_avg_sq\"", "\"w.step\""})
    EXPECT_NE(text.find(name), std::string::npos) << name;
  const std::vector<float> at_the_break = values_;
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  const std::vector<float> whole = values_;

  values_ = at_the_break;
  ASSERT_OK(stepfuse_optimizer_set_steps(optimizer_, id_, 0));
  ASSERT_OK(stepfuse_optimizer_state_import(optimizer_, bytes.data(), bytes.size()));
  EXPECT_EQ(steps(), 1);
  EXPECT_NEAR(moment(), 0.05, 1e-7);
  bind_all();
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(values_, whole);
}

TEST_F(CApiCheckpoint, GoesThroughAFile) {
  prepare_and_bind();
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  const TemporaryFolder folder;
  const std::string file = folder / "s.safetensors";
  const char* path = file.c_str();
  EXPECT_OK(stepfuse_optimizer_state_save(optimizer_, path));
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(steps(), 2);
  EXPECT_OK(stepfuse_optimizer_state_load(optimizer_, path));
  EXPECT_EQ(steps(), 1);
  EXPECT_NEAR(moment(), 0.05, 1e-7);
  std::filesystem::remove(file);
  EXPECT_EQ(stepfuse_optimizer_state_load(optimizer_, path), STEPFUSE_NOT_FOUND);
  EXPECT_NE(std::string(stepfuse_last_error()).find(path), std::string::npos) << stepfuse_last_error();
  EXPECT_EQ(stepfuse_optimizer_state_save(optimizer_, "/no/such/folder/s.safetensors"), STEPFUSE_IO);
  EXPECT_NE(std::string(stepfuse_last_error()).find("/no/such/folder"), std::string::npos) << stepfuse_last_error();
  EXPECT_EQ(steps(), 1);
}

/// Damage anywhere is refused, and nothing is taken over.
TEST_F(CApiCheckpoint, ThatIsDamagedChangesNothing) {
  prepare_and_bind();
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  const std::vector<char> whole = exported();
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  const float before = moment();
  for (size_t size : {size_t{0}, size_t{7}, size_t{40}, whole.size() - 1}) {
    EXPECT_NE(stepfuse_optimizer_state_import(optimizer_, whole.data(), size), STEPFUSE_OK) << size;
    EXPECT_STRNE(stepfuse_last_error(), "");
  }
  std::vector<char> renamed = whole;
  const std::string name = "w.exp_avg\"";
  const auto at = std::string(whole.begin(), whole.end()).find(name);
  ASSERT_NE(at, std::string::npos);
  renamed[at] = 'x';
  EXPECT_NE(stepfuse_optimizer_state_import(optimizer_, renamed.data(), renamed.size()), STEPFUSE_OK);
  EXPECT_EQ(moment(), before);
  EXPECT_EQ(steps(), 2);
}

}  // namespace
}  // namespace stepfuse::tests
