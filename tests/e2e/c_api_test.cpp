// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The C interface as it is meant to be used: every function, from several threads and across a fork.
#include "tests/e2e/c_api_fixture.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <sys/wait.h>
#include <thread>

#include <unistd.h>

bool stepfuse_header_test_cxx17();

namespace stepfuse::tests {
namespace {

// DLPack's DLTensor on a 64-bit machine (dlpack.h, version 1): a DLTensor* is a stepfuse_tensor*.
static_assert(sizeof(stepfuse_dtype) == 4 && offsetof(stepfuse_dtype, bits) == 1 &&
              offsetof(stepfuse_dtype, lanes) == 2);
static_assert(sizeof(stepfuse_device) == 8 && offsetof(stepfuse_device, id) == 4);
static_assert(offsetof(stepfuse_tensor, data) == 0 && offsetof(stepfuse_tensor, device) == 8);
static_assert(offsetof(stepfuse_tensor, ndim) == 16 && offsetof(stepfuse_tensor, dtype) == 20);
static_assert(offsetof(stepfuse_tensor, shape) == 24 && offsetof(stepfuse_tensor, strides) == 32);
static_assert(offsetof(stepfuse_tensor, byte_offset) == 40 && sizeof(stepfuse_tensor) == 48);
static_assert(STEPFUSE_FLOAT == 2 && STEPFUSE_BFLOAT == 4 && STEPFUSE_DEVICE_CPU == 1);

TEST(CApiVersion, IsThatOfTheHeader) {
  EXPECT_EQ(stepfuse_abi_version(), STEPFUSE_ABI_VERSION);
  EXPECT_EQ(std::string(stepfuse_version()).substr(0, 2), "0.");
}

TEST(CApiHeaders, CompileAsC99AndCxx17) { EXPECT_TRUE(stepfuse_header_test_cxx17()); }

TEST(CApiStatus, NamesAreNeverNull) {
  EXPECT_STREQ(stepfuse_status_name(STEPFUSE_OK), "ok");
  EXPECT_STREQ(stepfuse_status_name(STEPFUSE_BUFFER_TOO_SMALL), "buffer too small");
  EXPECT_STREQ(stepfuse_status_name(STEPFUSE_BUFFER_TOO_SMALL + 1), "unknown status");
  EXPECT_STREQ(stepfuse_status_name(-1), "unknown status");
}

TEST(CApiStatus, LastErrorBelongsToTheThread) {
  std::thread([] {
    EXPECT_STREQ(stepfuse_last_error(), "");
    EXPECT_STREQ(stepfuse_last_hint(), "");
    EXPECT_NE(stepfuse_context_create(nullptr, nullptr), STEPFUSE_OK);
    EXPECT_STRNE(stepfuse_last_error(), "");
    const std::string before = stepfuse_last_error();
    std::thread([] { EXPECT_STREQ(stepfuse_last_error(), ""); }).join();
    EXPECT_OK(stepfuse_context_destroy(nullptr));
    EXPECT_EQ(stepfuse_last_error(), before) << "a call that succeeds leaves it";
  }).join();
}

TEST_F(CApi, StepsMoveTheParameter) {
  prepare_and_bind();
  int64_t steps = -1;
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, id_, &steps));
  EXPECT_EQ(steps, 0);
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  for (float value : values_) EXPECT_NEAR(value, first_step(1), 1e-6);
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, id_, &steps));
  EXPECT_EQ(steps, 1);
  EXPECT_OK(stepfuse_optimizer_set_steps(optimizer_, id_, 41));
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, id_, &steps));
  EXPECT_EQ(steps, 41);
}

TEST_F(CApi, ByteOffsetAndNullGradient) {
  EXPECT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  std::vector<float> longer(8, 1);
  stepfuse_tensor param = tensor(longer);
  param.byte_offset = 2 * sizeof(float);
  const int64_t strides[] = {3, 1};
  param.strides = strides;  // row-major, spelt out
  stepfuse_binding binding = stepfuse_binding_init();
  binding.param = &param;
  EXPECT_OK(stepfuse_optimizer_bind(optimizer_, id_, &binding));
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(longer, std::vector<float>(8, 1)) << "no gradient, no step";
  const stepfuse_tensor gradient = tensor(gradient_);
  binding.grad = &gradient;
  EXPECT_OK(stepfuse_optimizer_bind(optimizer_, id_, &binding));
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_EQ(longer[1], 1);
  EXPECT_NEAR(longer[2], first_step(1), 1e-6);
  EXPECT_NEAR(longer[7], first_step(1), 1e-6);
}

TEST_F(CApi, StatesHaveTorchsKeys) {
  prepare_and_bind();
  uint32_t count = 0;
  ASSERT_OK(stepfuse_optimizer_state_count(optimizer_, id_, &count));
  ASSERT_EQ(count, 2U);
  const char* key = nullptr;
  ASSERT_OK(stepfuse_optimizer_state_key(optimizer_, id_, 0, &key));
  EXPECT_STREQ(key, "exp_avg");
  ASSERT_OK(stepfuse_optimizer_state_key(optimizer_, id_, 1, &key));
  EXPECT_STREQ(key, "exp_avg_sq");
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  stepfuse_tensor state{};
  ASSERT_OK(stepfuse_optimizer_state(optimizer_, id_, "exp_avg", &state));
  ASSERT_EQ(state.ndim, 2);
  EXPECT_EQ(state.shape[0], 2);
  EXPECT_EQ(state.shape[1], 3);
  EXPECT_EQ(state.strides[0], 3);
  EXPECT_EQ(state.strides[1], 1);
  EXPECT_EQ(state.dtype.code, STEPFUSE_FLOAT);
  EXPECT_EQ(state.dtype.bits, 32);
  EXPECT_EQ(state.device.type, STEPFUSE_DEVICE_CPU);
  EXPECT_NEAR(static_cast<const float*>(state.data)[5], 0.1 * 0.5, 1e-7);
}

TEST_F(CApi, ParametersAreFoundByName) {
  const stepfuse_parameter second = matrix("v");
  uint32_t added = 0, found = 77, group = 77, count = 0;
  ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, group_, &second, &added));
  EXPECT_EQ(added, 1U);
  EXPECT_OK(stepfuse_optimizer_find_parameter(optimizer_, "v", &found));
  EXPECT_EQ(found, added);
  EXPECT_OK(stepfuse_optimizer_parameter_group(optimizer_, found, &group));
  EXPECT_EQ(group, group_);
  EXPECT_OK(stepfuse_optimizer_parameter_count(optimizer_, &count));
  EXPECT_EQ(count, 2U);
  EXPECT_OK(stepfuse_optimizer_group_count(optimizer_, &count));
  EXPECT_EQ(count, 1U);
  expect_status(stepfuse_optimizer_find_parameter(optimizer_, "x", &found), STEPFUSE_NOT_FOUND, "'x'", "2 parameters");
}

/// A value set before prepare counts for parameters that are added later too.
TEST_F(CApi, SetWorksBeforeAndAfterPrepare) {
  EXPECT_OK(stepfuse_optimizer_set(optimizer_, group_, "lr", 0.2));
  const stepfuse_parameter second = matrix("v");
  uint32_t later = 0;
  ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, group_, &second, &later));
  prepare_and_bind();
  std::vector<float> other(6, 1), gradient(6, 0.5F);
  const stepfuse_tensor param = tensor(other), grad = tensor(gradient);
  stepfuse_binding binding = stepfuse_binding_init();
  binding.param = &param;
  binding.grad = &grad;
  ASSERT_OK(stepfuse_optimizer_bind(optimizer_, later, &binding));
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_NEAR(values_[0], first_step(1, 0.2), 1e-6);
  EXPECT_NEAR(other[0], first_step(1, 0.2), 1e-6);
  EXPECT_OK(stepfuse_optimizer_set(optimizer_, group_, "lr", 0));
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_NEAR(values_[0], first_step(1, 0.2), 1e-6);
}

TEST_F(CApi, ScalarsOfAStepLast) {
  prepare_and_bind();
  const stepfuse_scalar scalars[] = {{group_, "lr", 0.2}, {group_, "weight_decay", 0}};
  stepfuse_step_args args = stepfuse_step_args_init();
  args.scalars = scalars;
  args.scalars_count = 2;
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, &args));
  EXPECT_NEAR(values_[0], 0.8, 1e-6);
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_NEAR(values_[0], 0.6, 1e-6);
}

TEST_F(CApi, ScalarsOfAStepAreAllOrNothing) {
  prepare_and_bind();
  const stepfuse_scalar scalars[] = {{group_, "lr", 0.2}, {group_, "beta1", 2}};
  stepfuse_step_args args = stepfuse_step_args_init();
  args.scalars = scalars;
  args.scalars_count = 2;
  expect_status(stepfuse_optimizer_step(optimizer_, &args), STEPFUSE_INVALID_ARGUMENT, "beta1=2", "[0, 1)");
  EXPECT_EQ(values_, std::vector<float>(6, 1));
  int64_t steps = -1;
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, id_, &steps));
  EXPECT_EQ(steps, 0);
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_NEAR(values_[0], first_step(1), 1e-6) << "lr is as it was";
}

TEST_F(CApi, TextsSayHowLongTheyAre) {
  prepare_and_bind();
  size_t needed = 0;
  ASSERT_OK(stepfuse_optimizer_explain(optimizer_, "json", nullptr, 0, &needed));
  ASSERT_GT(needed, 100U);
  std::string text(needed, 'x');
  size_t again = 0;
  expect_status(stepfuse_optimizer_explain(optimizer_, "json", text.data(), needed - 1, &again),
                STEPFUSE_BUFFER_TOO_SMALL, "are needed");
  EXPECT_EQ(again, needed);
  EXPECT_EQ(text, std::string(needed, 'x')) << "nothing is written";
  ASSERT_OK(stepfuse_optimizer_explain(optimizer_, "json", text.data(), needed, nullptr));
  EXPECT_EQ(std::strlen(text.c_str()), needed - 1);
  EXPECT_EQ(text.front(), '{');
}

TEST_F(CApi, SummaryCountsThePlan) {
  stepfuse_summary summary = stepfuse_summary_init();
  prepare_and_bind();
  ASSERT_OK(stepfuse_optimizer_summary(optimizer_, &summary));
  EXPECT_EQ(summary.struct_size, sizeof(summary));
  EXPECT_EQ(summary.launches, 1);
  EXPECT_EQ(summary.elementwise_launches, 1);
  EXPECT_GT(summary.naive_launches, 5);
  EXPECT_EQ(summary.bytes_per_param, 28);
  EXPECT_EQ(summary.host_syncs, 0);
}

/// A newer program has a larger structure; what this library does not know comes back as zero.
TEST_F(CApi, OutputOfANewerProgramIsZeroBeyond) {
  struct Newer {
    stepfuse_summary known;
    int64_t later;
  } newer{stepfuse_summary_init(), 7};
  newer.known.struct_size = sizeof(newer);
  ASSERT_OK(stepfuse_optimizer_summary(optimizer_, &newer.known));
  EXPECT_EQ(newer.known.struct_size, sizeof(newer));
  EXPECT_EQ(newer.later, 0);
}

TEST_F(CApi, MetricsCountKernels) {
  stepfuse_metrics before = stepfuse_metrics_init(), after = stepfuse_metrics_init();
  ASSERT_OK(stepfuse_context_metrics(context_, &before));
  // No other test uses this rule, so the process has no kernel for it.
  const char* const rule =
      "// stepfuse-ir v1\nrecipe @counted(%p: f32[N] param, %g: f32[N] grad, #lr: group in [0, inf)) {\n"
      "  %a = mul %g, 0.8671875\n  %p1 = axpy (-#lr), %a, %p\n  return %p1 -> %p\n}\n";
  const stepfuse_option options[] = {{"lr", "1"}};
  uint32_t group = 0, id = 0;
  ASSERT_OK(stepfuse_optimizer_add_group(optimizer_, rule, options, 1, &group));
  const stepfuse_parameter parameter = matrix("counted");
  ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, group, &parameter, &id));
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  ASSERT_OK(stepfuse_context_metrics(context_, &after));
  EXPECT_GT(after.compiled, before.compiled);
}

struct Told {
  std::vector<int64_t> done;
  int64_t total = 0;
  bool named = true;
  static void call(void* user, int64_t done, int64_t total, const char* what) {
    auto& told = *static_cast<Told*>(user);
    told.done.push_back(done);
    told.total = total;
    told.named = told.named && std::strlen(what) > 0;
  }
};

TEST_F(CApi, PrepareTellsOfEachKernel) {
  Told told;
  stepfuse_prepare_options options = stepfuse_prepare_options_init();
  options.progress = &Told::call;
  options.progress_user = &told;
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, &options));
  ASSERT_GT(told.total, 0);
  ASSERT_EQ(static_cast<int64_t>(told.done.size()), told.total);
  for (size_t i = 0; i < told.done.size(); ++i) EXPECT_EQ(told.done[i], static_cast<int64_t>(i) + 1);
  EXPECT_TRUE(told.named);
}

/// A second thread that comes while the first is in a call is turned away; nothing waits.
TEST_F(CApi, SecondThreadIsTurnedAway) {
  struct Second {
    stepfuse_optimizer* optimizer;
    stepfuse_status status = STEPFUSE_OK;
    static void call(void* user, int64_t, int64_t, const char*) {
      auto& second = *static_cast<Second*>(user);
      std::thread([&] {
        second.status = stepfuse_optimizer_step(second.optimizer, nullptr);
        EXPECT_NE(std::string(stepfuse_last_error()).find("another thread"), std::string::npos);
      }).join();
    }
  } second{optimizer_};
  stepfuse_prepare_options options = stepfuse_prepare_options_init();
  options.progress = &Second::call;
  options.progress_user = &second;
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, &options));
  EXPECT_EQ(second.status, STEPFUSE_BUSY);
  bind_all();
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_NEAR(values_[0], first_step(1), 1e-6);
}

/// Steps of two threads on one optimizer: each is done once or turned away, none is lost or done twice.
TEST_F(CApi, ThreadsOnOneOptimizerNeverStepTogether) {
  prepare_and_bind();
  std::atomic<int64_t> done{0};
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      const stepfuse_status status = stepfuse_optimizer_step(optimizer_, nullptr);
      EXPECT_TRUE(status == STEPFUSE_OK || status == STEPFUSE_BUSY) << stepfuse_last_error();
      done += status == STEPFUSE_OK ? 1 : 0;
    }
  };
  std::thread other(work);
  work();
  other.join();
  int64_t steps = -1;
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, id_, &steps));
  EXPECT_EQ(steps, done);
}

/// The object lives on until the call that uses it has ended; then the handle is void.
TEST_F(CApi, DestroyDuringACallIsSafe) {
  static stepfuse_optimizer* doomed;
  doomed = optimizer_;
  stepfuse_prepare_options options = stepfuse_prepare_options_init();
  options.progress = [](void*, int64_t done, int64_t, const char*) {
    if (done == 1) {
      EXPECT_OK(stepfuse_optimizer_destroy(doomed));
    }
  };
  EXPECT_OK(stepfuse_optimizer_prepare(optimizer_, &options));
  expect_status(stepfuse_optimizer_step(optimizer_, nullptr), STEPFUSE_INVALID_ARGUMENT, "was destroyed before");
  optimizer_ = nullptr;
}

/// Different optimizers of one context on different threads do not disturb each other.
TEST_F(CApi, ThreadsWithOptimizersOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this] {
      stepfuse_optimizer* optimizer = nullptr;
      uint32_t group = 0, id = 0;
      std::vector<float> values(6, 1), gradient(6, 0.5F);
      const stepfuse_option options[] = {{"lr", "0.1"}};
      const stepfuse_parameter parameter = matrix("w");
      const stepfuse_tensor param = tensor(values), grad = tensor(gradient);
      stepfuse_binding binding = stepfuse_binding_init();
      binding.param = &param;
      binding.grad = &grad;
      ASSERT_OK(stepfuse_optimizer_create(context_, &optimizer));
      ASSERT_OK(stepfuse_optimizer_add_group(optimizer, "adamw", options, 1, &group));
      ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer, group, &parameter, &id));
      ASSERT_OK(stepfuse_optimizer_prepare(optimizer, nullptr));
      ASSERT_OK(stepfuse_optimizer_bind(optimizer, id, &binding));
      EXPECT_OK(stepfuse_optimizer_step(optimizer, nullptr));
      EXPECT_NEAR(values[5], first_step(1), 1e-6);
      EXPECT_OK(stepfuse_optimizer_destroy(optimizer));
    });
  for (std::thread& thread : threads) thread.join();
}

/// Parent and child both go on after a fork, and come to the same values.
TEST_F(CApi, ForkedOptimizerStepsInTheChild) {
  prepare_and_bind();
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    bool good = stepfuse_optimizer_step(optimizer_, nullptr) == STEPFUSE_OK;
    good = good && write(ends[1], values_.data(), 6 * sizeof(float)) == 6 * sizeof(float);
    good = good && stepfuse_optimizer_destroy(optimizer_) == STEPFUSE_OK;
    _exit(good ? 0 : 1);
  }
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  std::vector<float> of_child(6);
  EXPECT_EQ(read(ends[0], of_child.data(), 6 * sizeof(float)), static_cast<ssize_t>(6 * sizeof(float)));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(of_child, values_);
  close(ends[0]);
  close(ends[1]);
}

struct Line {
  int32_t level;
  std::string message;
};

/// A context whose messages are kept.
stepfuse_context* logging_context(const char* level, std::vector<Line>& lines) {
  const stepfuse_option settings[] = {{"log", level}};
  stepfuse_context_options options = stepfuse_context_options_init();
  options.settings = settings;
  options.settings_count = 1;
  options.log = [](void* user, int32_t at, const char* message) {
    static_cast<std::vector<Line>*>(user)->push_back({at, message});
  };
  options.log_user = &lines;
  stepfuse_context* context = nullptr;
  EXPECT_OK(stepfuse_context_create(&options, &context));
  return context;
}

void prepare_empty(stepfuse_context* context) {
  stepfuse_optimizer* optimizer = nullptr;
  ASSERT_OK(stepfuse_optimizer_create(context, &optimizer));
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer, nullptr));
  ASSERT_OK(stepfuse_optimizer_step(optimizer, nullptr));
  ASSERT_OK(stepfuse_optimizer_destroy(optimizer));
}

TEST(CApiContext, LogGoesToTheCallback) {
  for (const char* level : {"info", "warn"}) {
    std::vector<Line> lines;
    stepfuse_context* const context = logging_context(level, lines);
    prepare_empty(context);
    EXPECT_OK(stepfuse_context_destroy(context));
    const bool said = std::any_of(lines.begin(), lines.end(), [](const Line& line) {
      return line.level == STEPFUSE_LOG_INFO && line.message.find("prepared 0 parameters") != std::string::npos;
    });
    EXPECT_EQ(said, std::string(level) == "info");
  }
}

TEST(CApiContext, SettingsReachTheOptimizer) {
  const stepfuse_option settings[] = {{"target", "interp"}, {"threads", "2"}, {"mode", "strict"}, {"disable", "fuse"}};
  stepfuse_context_options options = stepfuse_context_options_init();
  options.settings = settings;
  options.settings_count = 4;
  stepfuse_context* context = nullptr;
  stepfuse_optimizer* optimizer = nullptr;
  uint32_t group = 0, id = 0;
  stepfuse_parameter parameter = stepfuse_parameter_init();
  parameter.name = "scalar";
  ASSERT_OK(stepfuse_context_create(&options, &context));
  ASSERT_OK(stepfuse_optimizer_create(context, &optimizer));
  ASSERT_OK(stepfuse_optimizer_add_group(optimizer, "adamw", nullptr, 0, &group));
  ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer, group, &parameter, &id)) << "no dimensions are legal";
  EXPECT_OK(stepfuse_context_destroy(context)) << "the optimizer goes on without it";
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer, nullptr));
  stepfuse_summary summary = stepfuse_summary_init();
  ASSERT_OK(stepfuse_optimizer_summary(optimizer, &summary));
  EXPECT_GT(summary.launches, 1) << "fuse is switched off";
  EXPECT_EQ(summary.compiled_kernels, 0) << "the interpreter has no kernels";
  size_t needed = 0;
  ASSERT_OK(stepfuse_optimizer_explain(optimizer, "text", nullptr, 0, &needed));
  std::string text(needed, ' ');
  ASSERT_OK(stepfuse_optimizer_explain(optimizer, "text", text.data(), needed, nullptr));
  EXPECT_NE(text.find("strict"), std::string::npos);
  EXPECT_OK(stepfuse_optimizer_destroy(optimizer));
}

}  // namespace
}  // namespace stepfuse::tests
