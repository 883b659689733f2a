// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Misuse of the C interface: every call is refused with the right status, a message that names the thing and a hint,
// and the optimizer still takes the step it would have taken. H02 and H03 of the case list are here at the level of C.
#include "tests/e2e/c_api_fixture.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <tuple>

namespace stepfuse::tests {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr stepfuse_status kInvalid = STEPFUSE_INVALID_ARGUMENT;

class CApiErrors : public CApi {
 protected:
  /// The step an optimizer takes that nobody misused.
  void expect_undisturbed() {
    ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
    for (float value : values_) EXPECT_NEAR(value, first_step(1), 1e-6);
  }
  stepfuse_status add(const stepfuse_parameter& parameter) {
    uint32_t id = 0;
    return stepfuse_optimizer_add_parameter(optimizer_, group_, &parameter, &id);
  }
  stepfuse_status bind(const stepfuse_tensor* param, const stepfuse_tensor* grad) {
    stepfuse_binding binding = stepfuse_binding_init();
    binding.param = param;
    binding.grad = grad;
    return stepfuse_optimizer_bind(optimizer_, id_, &binding);
  }
};

template <class T>
T* as_handle(uintptr_t bits) {
  return reinterpret_cast<T*>(bits);
}

TEST_F(CApiErrors, HandlesThatAreNone) {
  int on_the_stack = 0;
  uint32_t count = 0;
  expect_status(stepfuse_optimizer_step(nullptr, nullptr), kInvalid, "the optimizer is null",
                "stepfuse_optimizer_create");
  const uintptr_t garbage[] = {1,
                               8,
                               0xDEADBEEF,
                               UINTPTR_MAX,
                               reinterpret_cast<uintptr_t>(&on_the_stack),
                               reinterpret_cast<uintptr_t>(optimizer_) + 1,
                               reinterpret_cast<uintptr_t>(optimizer_) ^ 1 << 23,
                               reinterpret_cast<uintptr_t>(optimizer_) + (uintptr_t{1} << 24)};
  for (uintptr_t bits : garbage) {
    auto* const handle = as_handle<stepfuse_optimizer>(bits);
    expect_status(stepfuse_optimizer_parameter_count(handle, &count), kInvalid, "optimizer", "stepfuse_optimizer_");
    expect_status(stepfuse_optimizer_destroy(handle), kInvalid, "optimizer");
    auto* const context = as_handle<stepfuse_context>(bits);
    expect_status(stepfuse_context_destroy(context), kInvalid, "context");
  }
  prepare_and_bind();
  expect_undisturbed();
}

TEST_F(CApiErrors, HandlesOfTheWrongKind) {
  auto* const optimizer = reinterpret_cast<stepfuse_optimizer*>(context_);
  auto* const context = reinterpret_cast<stepfuse_context*>(optimizer_);
  stepfuse_optimizer* out = nullptr;
  expect_status(stepfuse_optimizer_step(optimizer, nullptr), kInvalid, "is of kind context, not optimizer");
  expect_status(stepfuse_optimizer_destroy(optimizer), kInvalid, "is of kind context, not optimizer");
  expect_status(stepfuse_optimizer_create(context, &out), kInvalid, "is of kind optimizer, not context");
  expect_status(stepfuse_context_destroy(context), kInvalid, "is of kind optimizer, not context");
  EXPECT_EQ(out, nullptr);
}

/// The table's slot is used again; the old handle is told from the new one.
TEST_F(CApiErrors, HandlesThatWereDestroyed) {
  stepfuse_optimizer* const old = optimizer_;
  ASSERT_OK(stepfuse_optimizer_destroy(old));
  expect_status(stepfuse_optimizer_destroy(old), kInvalid, "was destroyed before");
  ASSERT_OK(stepfuse_optimizer_create(context_, &optimizer_));
  EXPECT_NE(old, optimizer_);
  expect_status(stepfuse_optimizer_prepare(old, nullptr), kInvalid, "was destroyed before");
  EXPECT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  stepfuse_context* const context = context_;
  ASSERT_OK(stepfuse_context_destroy(context));
  expect_status(stepfuse_context_destroy(context), kInvalid, "the context was destroyed before");
  stepfuse_optimizer* out = nullptr;
  expect_status(stepfuse_optimizer_create(context, &out), kInvalid, "the context was destroyed before");
  context_ = nullptr;
}

struct BadCall {
  const char* name;
  std::function<stepfuse_status(stepfuse_optimizer*)> call;
  stepfuse_status status;
  const char* message;
  const char* hint = "";
};

const char* const kKey = "exp_avg";

/// Calls on an optimizer with one group 0 and one parameter 0, that are refused before prepare.
std::vector<BadCall> bad_before_prepare() {
  static uint32_t number;
  static int64_t count;
  static stepfuse_tensor tensor;
  static const char* text;
  static const stepfuse_option unknown[] = {{"weight_decai", "1"}}, no_key[] = {{nullptr, "1"}},
                               no_value[] = {{"lr", nullptr}}, negative[] = {{"lr", "-0.1"}}, nan[] = {{"lr", "nan"}},
                               beta[] = {{"betas", "0.9,1"}};
  static const stepfuse_parameter parameter = stepfuse_parameter_init();
  using Handle = stepfuse_optimizer*;
  return {
      {"bind", [](Handle o) { return stepfuse_optimizer_bind(o, 0, nullptr); }, kInvalid, "bind before prepare",
       "prepare"},
      {"step", [](Handle o) { return stepfuse_optimizer_step(o, nullptr); }, kInvalid, "step before prepare",
       "prepare"},
      {"state", [](Handle o) { return stepfuse_optimizer_state(o, 0, kKey, &tensor); }, kInvalid, "before prepare"},
      {"state_key", [](Handle o) { return stepfuse_optimizer_state_key(o, 0, 0, &text); }, kInvalid, "before prepare"},
      {"state_count", [](Handle o) { return stepfuse_optimizer_state_count(o, 0, &number); }, kInvalid,
       "before prepare"},
      {"save", [](Handle o) { return stepfuse_optimizer_state_save(o, "x"); }, kInvalid, "state_save before prepare"},
      {"load", [](Handle o) { return stepfuse_optimizer_state_load(o, "x"); }, kInvalid, "state_load before prepare"},
      {"export", [](Handle o) { return stepfuse_optimizer_state_export(o, nullptr, 0, nullptr); }, kInvalid,
       "state_export before prepare"},
      {"import", [](Handle o) { return stepfuse_optimizer_state_import(o, "x", 1); }, kInvalid,
       "state_import before prepare"},
      {"explain", [](Handle o) { return stepfuse_optimizer_explain(o, "text", nullptr, 0, nullptr); }, kInvalid,
       "explain before prepare"},
      {"manifest", [](Handle o) { return stepfuse_optimizer_write_manifest(o, "x"); }, kInvalid, "before prepare"},
      {"group_no_recipe", [](Handle o) { return stepfuse_optimizer_add_group(o, nullptr, nullptr, 0, &number); },
       kInvalid, "'recipe' is null"},
      {"group_no_out", [](Handle o) { return stepfuse_optimizer_add_group(o, "sgd", nullptr, 0, nullptr); }, kInvalid,
       "'group' is null"},
      {"group_unknown_recipe", [](Handle o) { return stepfuse_optimizer_add_group(o, "adamv", nullptr, 0, &number); },
       kInvalid, "no recipe 'adamv'", "adamw"},
      {"group_null_options", [](Handle o) { return stepfuse_optimizer_add_group(o, "sgd", nullptr, 2, &number); },
       kInvalid, "options is null, and its count is 2"},
      {"group_null_key", [](Handle o) { return stepfuse_optimizer_add_group(o, "sgd", no_key, 1, &number); }, kInvalid,
       "options[0] has a null key"},
      {"group_null_value", [](Handle o) { return stepfuse_optimizer_add_group(o, "sgd", no_value, 1, &number); },
       kInvalid, "options[0] has a null value"},
      {"H02_group_unknown", [](Handle o) { return stepfuse_optimizer_add_group(o, "adamw", unknown, 1, &number); },
       kInvalid, "no option 'weight_decai'", "weight_decay"},
      {"H03_group_negative", [](Handle o) { return stepfuse_optimizer_add_group(o, "adamw", negative, 1, &number); },
       kInvalid, "lr=-0.1", "[0, inf)"},
      {"H03_group_nan", [](Handle o) { return stepfuse_optimizer_add_group(o, "adamw", nan, 1, &number); }, kInvalid,
       "lr=nan", "[0, inf)"},
      {"H03_group_beta", [](Handle o) { return stepfuse_optimizer_add_group(o, "adamw", beta, 1, &number); }, kInvalid,
       "betas", "[0, 1)"},
      {"H02_set_unknown", [](Handle o) { return stepfuse_optimizer_set(o, 0, "learning_rate", 1); }, kInvalid,
       "'learning_rate'", "lr"},
      {"H03_set_negative", [](Handle o) { return stepfuse_optimizer_set(o, 0, "lr", -0.1); }, kInvalid, "lr=-0.1",
       "[0, inf)"},
      {"set_no_key", [](Handle o) { return stepfuse_optimizer_set(o, 0, nullptr, 1); }, kInvalid, "'key' is null"},
      {"set_no_group", [](Handle o) { return stepfuse_optimizer_set(o, 7, "lr", 1); }, kInvalid, "no group number 7"},
      {"parameter_null", [](Handle o) { return stepfuse_optimizer_add_parameter(o, 0, nullptr, &number); }, kInvalid,
       "'parameter' is null"},
      {"parameter_no_out", [](Handle o) { return stepfuse_optimizer_add_parameter(o, 0, &parameter, nullptr); },
       kInvalid, "'id' is null"},
      {"parameter_no_name", [](Handle o) { return stepfuse_optimizer_add_parameter(o, 0, &parameter, &number); },
       kInvalid, "'parameter.name' is null"},
      {"find_null", [](Handle o) { return stepfuse_optimizer_find_parameter(o, nullptr, &number); }, kInvalid,
       "'name' is null"},
      {"find_no_out", [](Handle o) { return stepfuse_optimizer_find_parameter(o, "w", nullptr); }, kInvalid,
       "'id' is null"},
      {"group_of_none", [](Handle o) { return stepfuse_optimizer_parameter_group(o, 5, &number); }, kInvalid,
       "no parameter number 5"},
      {"group_of_no_out", [](Handle o) { return stepfuse_optimizer_parameter_group(o, 0, nullptr); }, kInvalid,
       "'group' is null"},
      {"count_no_out", [](Handle o) { return stepfuse_optimizer_parameter_count(o, nullptr); }, kInvalid,
       "'count' is null"},
      {"groups_no_out", [](Handle o) { return stepfuse_optimizer_group_count(o, nullptr); }, kInvalid,
       "'count' is null"},
      {"summary_no_out", [](Handle o) { return stepfuse_optimizer_summary(o, nullptr); }, kInvalid, "'out' is null"},
      {"steps_no_out", [](Handle o) { return stepfuse_optimizer_steps(o, 0, nullptr); }, kInvalid, "'steps' is null"},
      {"steps_of_none", [](Handle o) { return stepfuse_optimizer_steps(o, 9, &count); }, kInvalid,
       "no parameter number 9"},
      {"config_null", [](Handle o) { return stepfuse_optimizer_load_config(o, nullptr); }, kInvalid, "'path' is null"},
      {"config_text_null", [](Handle o) { return stepfuse_optimizer_load_config_text(o, nullptr); }, kInvalid,
       "'toml' is null"}};
}

TEST_F(CApiErrors, BeforePrepare) {
  for (const BadCall& bad : bad_before_prepare()) {
    SCOPED_TRACE(bad.name);
    expect_status(bad.call(optimizer_), bad.status, bad.message, bad.hint);
  }
  uint32_t count = 0;
  EXPECT_OK(stepfuse_optimizer_group_count(optimizer_, &count));
  EXPECT_EQ(count, 1U);
  EXPECT_OK(stepfuse_optimizer_parameter_count(optimizer_, &count));
  EXPECT_EQ(count, 1U);
  prepare_and_bind();
  expect_undisturbed();
}

TEST_F(CApiErrors, RoutedParametersNeedAConfig) {
  const stepfuse_parameter routed = matrix("routed");
  uint32_t id = 0;
  expect_status(stepfuse_optimizer_add_parameter(optimizer_, STEPFUSE_GROUP_ROUTED, &routed, &id), kInvalid,
                "'routed' is to be routed", "load_config");
}

std::vector<BadCall> bad_after_prepare() {
  static uint32_t number;
  static stepfuse_tensor tensor;
  static const char* text;
  using Handle = stepfuse_optimizer*;
  return {
      {"prepare", [](Handle o) { return stepfuse_optimizer_prepare(o, nullptr); }, kInvalid, "prepare after prepare"},
      {"add_group", [](Handle o) { return stepfuse_optimizer_add_group(o, "sgd", nullptr, 0, &number); }, kInvalid,
       "add_group after prepare"},
      {"bind_null", [](Handle o) { return stepfuse_optimizer_bind(o, 0, nullptr); }, kInvalid, "'binding' is null"},
      {"bind_none", [](Handle o) { return stepfuse_optimizer_bind(o, 8, nullptr); }, kInvalid, "no parameter number 8"},
      {"H02_set_unknown", [](Handle o) { return stepfuse_optimizer_set(o, 0, "learning_rate", 1); }, kInvalid,
       "'learning_rate'", "lr"},
      {"H03_set_negative", [](Handle o) { return stepfuse_optimizer_set(o, 0, "lr", -0.1); }, kInvalid, "lr=-0.1",
       "[0, inf)"},
      {"H03_set_nan", [](Handle o) { return stepfuse_optimizer_set(o, 0, "lr", kNan); }, kInvalid, "lr=nan",
       "[0, inf)"},
      {"H03_set_beta", [](Handle o) { return stepfuse_optimizer_set(o, 0, "beta2", 1); }, kInvalid, "beta2=1",
       "[0, 1)"},
      {"set_structure", [](Handle o) { return stepfuse_optimizer_set(o, 0, "amsgrad", 1); }, kInvalid,
       "'amsgrad' cannot be changed"},
      {"state_unknown", [](Handle o) { return stepfuse_optimizer_state(o, 0, "exp_agv", &tensor); }, kInvalid,
       "no state 'exp_agv'", "exp_avg"},
      {"state_null_key", [](Handle o) { return stepfuse_optimizer_state(o, 0, nullptr, &tensor); }, kInvalid,
       "'key' is null"},
      {"state_no_out", [](Handle o) { return stepfuse_optimizer_state(o, 0, kKey, nullptr); }, kInvalid,
       "'out' is null"},
      {"state_of_none", [](Handle o) { return stepfuse_optimizer_state(o, 3, kKey, &tensor); }, kInvalid,
       "no parameter number 3"},
      {"state_key_beyond", [](Handle o) { return stepfuse_optimizer_state_key(o, 0, 2, &text); }, kInvalid,
       "no state number 2", "2"},
      {"state_key_no_out", [](Handle o) { return stepfuse_optimizer_state_key(o, 0, 0, nullptr); }, kInvalid,
       "'key' is null"},
      {"state_count_no_out", [](Handle o) { return stepfuse_optimizer_state_count(o, 0, nullptr); }, kInvalid,
       "'count' is null"},
      {"set_steps_negative", [](Handle o) { return stepfuse_optimizer_set_steps(o, 0, -1); }, kInvalid, "-1"},
      {"set_steps_inexact", [](Handle o) { return stepfuse_optimizer_set_steps(o, 0, int64_t{1} << 53); }, kInvalid,
       "9007199254740992"},
      {"explain_format", [](Handle o) { return stepfuse_optimizer_explain(o, "yaml", nullptr, 0, nullptr); }, kInvalid,
       "no format 'yaml'", "json"},
      {"explain_null", [](Handle o) { return stepfuse_optimizer_explain(o, nullptr, nullptr, 0, nullptr); }, kInvalid,
       "'format' is null"},
      {"explain_nowhere", [](Handle o) { return stepfuse_optimizer_explain(o, "text", nullptr, 0, nullptr); }, kInvalid,
       "buffer and needed are both null"},
      {"explain_null_buffer", [](Handle o) { return stepfuse_optimizer_explain(o, "text", nullptr, 9, nullptr); },
       kInvalid, "the buffer is null"},
      {"manifest_null", [](Handle o) { return stepfuse_optimizer_write_manifest(o, nullptr); }, kInvalid,
       "'path' is null"},
      {"manifest_nowhere", [](Handle o) { return stepfuse_optimizer_write_manifest(o, "/nowhere/m.toml"); },
       STEPFUSE_IO, "'/nowhere/m.toml'"},
      {"save_null", [](Handle o) { return stepfuse_optimizer_state_save(o, nullptr); }, kInvalid, "'path' is null"},
      {"load_null", [](Handle o) { return stepfuse_optimizer_state_load(o, nullptr); }, kInvalid, "'path' is null"},
      {"import_null", [](Handle o) { return stepfuse_optimizer_state_import(o, nullptr, 0); }, kInvalid,
       "'data' is null"}};
}

TEST_F(CApiErrors, AfterPrepare) {
  prepare_and_bind();
  for (const BadCall& bad : bad_after_prepare()) {
    SCOPED_TRACE(bad.name);
    expect_status(bad.call(optimizer_), bad.status, bad.message, bad.hint);
  }
  const stepfuse_parameter late = matrix("late");
  expect_status(add(late), kInvalid, "add_parameter after prepare");
  expect_undisturbed();
}

struct BadParameter {
  const char* name;
  std::function<void(stepfuse_parameter&)> spoil;
  stepfuse_status status;
  const char* message;
};

std::vector<BadParameter> bad_parameters() {
  static const int64_t negative[] = {2, -1}, huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  static const stepfuse_state_layout layout[] = {{"exp_avg", nullptr}}, unnamed[] = {{nullptr, nullptr}};
  return {
      {"ndim", [](auto& p) { p.ndim = -1; }, kInvalid, "'bad': ndim -1 is negative"},
      {"many", [](auto& p) { p.ndim = 65; }, kInvalid, "'bad': it has 65 dimensions"},
      {"no shape", [](auto& p) { p.shape = nullptr; }, kInvalid, "'bad': the shape is null"},
      {"extent", [](auto& p) { p.shape = negative; }, kInvalid, "'bad': extent -1 is negative"},
      {"size", [](auto& p) { p.shape = huge; }, kInvalid, "more elements than memory can hold"},
      {"twice", [](auto& p) { p.name = "w"; }, kInvalid, "'w' was added before"},
      {"flags", [](auto& p) { p.flags = 6; }, STEPFUSE_UNSUPPORTED, "'bad': flags 0x6 are unknown"},
      {"master", [](auto& p) { p.master_dtype = stepfuse_f32(); }, STEPFUSE_UNSUPPORTED, "master copies are not yet"},
      {"dtype", [](auto& p) { p.dtype = {0, 32, 1}; }, kInvalid, "'bad': unknown element type (code 0, 32 bits"},
      {"lanes", [](auto& p) { p.grad_dtype = {2, 32, 4}; }, kInvalid, "'bad', gradient: unknown element type"},
      {"state type", [](auto& p) { p.state_dtype = {4, 8, 1}; }, kInvalid, "'bad', states: unknown element type"},
      {"layouts", [](auto& p) { p.state_layouts_count = 1; }, kInvalid, "state_layouts is null, and its count is 1"},
      {"not its states",
       [](auto& p) {
         p.state_layouts = layout;
         p.state_layouts_count = 1;
       },
       kInvalid, "state_layouts without STEPFUSE_CALLER_STATES"},
      {"unnamed state",
       [](auto& p) {
         p.flags = STEPFUSE_CALLER_STATES;
         p.state_layouts = unnamed;
         p.state_layouts_count = 1;
       },
       kInvalid, "state_layouts[0] has a null key"}};
}

TEST_F(CApiErrors, Parameters) {
  for (const BadParameter& bad : bad_parameters()) {
    SCOPED_TRACE(bad.name);
    stepfuse_parameter parameter = matrix("bad");
    bad.spoil(parameter);
    expect_status(add(parameter), bad.status, bad.message);
  }
  EXPECT_OK(add(matrix("bad"))) << "the name is still free";
  prepare_and_bind();
  expect_undisturbed();
}

struct BadTensor {
  const char* name;
  std::function<void(stepfuse_tensor&)> spoil;
  stepfuse_status status;
  const char* message;
};

std::vector<BadTensor> bad_tensors() {
  static const int64_t other[] = {3, 2}, transposed[] = {1, 2};
  return {
      {"null", [](auto& t) { t.data = nullptr; }, kInvalid, "null pointer"},
      {"misaligned", [](auto& t) { t.byte_offset = 2; }, kInvalid, "is not aligned"},
      {"device", [](auto& t) { t.device.type = 2; }, kInvalid,
       "parameter 'w' is on CUDA device 0, and the optimizer runs on the CPU"},
      {"device id", [](auto& t) { t.device.id = 1; }, kInvalid,
       "parameter 'w' is on CPU 1, and the optimizer runs on the CPU"},
      {"dtype", [](auto& t) { t.dtype = stepfuse_bf16(); }, kInvalid, "has the type bf16, add_parameter said f32"},
      {"no dtype", [](auto& t) { t.dtype = {}; }, kInvalid, "unknown element type"},
      {"ndim", [](auto& t) { t.ndim = 1; }, kInvalid, "has ndim 1, add_parameter said 2"},
      {"negative ndim", [](auto& t) { t.ndim = -2; }, kInvalid, "has ndim -2, add_parameter said 2"},
      {"no shape", [](auto& t) { t.shape = nullptr; }, kInvalid, "has a null shape"},
      {"shape", [](auto& t) { t.shape = other; }, kInvalid, "has shape [3, 2], add_parameter said [2, 3]"},
      {"strides", [](auto& t) { t.strides = transposed; }, kInvalid, "has strides [1, 2], add_parameter said [3, 1]"}};
}

TEST_F(CApiErrors, Tensors) {
  prepare_and_bind();
  for (const BadTensor& bad : bad_tensors()) {
    SCOPED_TRACE(bad.name);
    stepfuse_tensor spoilt = param_;
    bad.spoil(spoilt);
    expect_status(bind(&spoilt, &grad_), bad.status, bad.message);
    if (bad.status != STEPFUSE_UNSUPPORTED && std::string(bad.name) != "null") {
      spoilt = grad_;
      bad.spoil(spoilt);
      EXPECT_NE(bind(&param_, &spoilt), STEPFUSE_OK);
    }
  }
  expect_status(bind(nullptr, &grad_), kInvalid, "'binding.param' is null");
  expect_status(bind(&param_, &param_), kInvalid, "the gradient of 'w' overlaps parameter 'w'");
  expect_undisturbed();
}

TEST_F(CApiErrors, BindingsOfLaterVersions) {
  prepare_and_bind();
  stepfuse_binding binding = stepfuse_binding_init();
  binding.param = &param_;
  binding.master = &param_;
  expect_status(stepfuse_optimizer_bind(optimizer_, id_, &binding), STEPFUSE_UNSUPPORTED, "master copies are not yet");
  binding.master = nullptr;
  binding.states_count = 1;
  expect_status(stepfuse_optimizer_bind(optimizer_, id_, &binding), kInvalid, "states is null, and its count is 1");
  const stepfuse_state_tensor state[] = {{"exp_avg", param_}};
  binding.states = state;
  expect_status(stepfuse_optimizer_bind(optimizer_, id_, &binding), kInvalid, "the optimizer owns its states",
                "STEPFUSE_CALLER_STATES");
  expect_undisturbed();
}

TEST_F(CApiErrors, StepArguments) {
  prepare_and_bind();
  const float one = 1;
  for (auto field : {&stepfuse_step_args::loss_scale, &stepfuse_step_args::found_inf, &stepfuse_step_args::clip_coef,
                     &stepfuse_step_args::lr}) {
    stepfuse_step_args args = stepfuse_step_args_init();
    args.*field = &one;
    expect_status(stepfuse_optimizer_step(optimizer_, &args), STEPFUSE_UNSUPPORTED, "not yet supported");
  }
  stepfuse_step_args args = stepfuse_step_args_init();
  args.stream = &args;
  expect_status(stepfuse_optimizer_step(optimizer_, &args), kInvalid, "a CPU has no streams");
  args = stepfuse_step_args_init();
  args.scalars_count = 1;
  expect_status(stepfuse_optimizer_step(optimizer_, &args), kInvalid, "scalars is null, and its count is 1");
  const stepfuse_scalar bad[] = {{group_, "lr", 1}, {group_, nullptr, 1}}, none[] = {{9, "lr", 1}};
  args.scalars = bad;
  args.scalars_count = 2;
  expect_status(stepfuse_optimizer_step(optimizer_, &args), kInvalid, "'scalars[].key' is null");
  args.scalars = none;
  args.scalars_count = 1;
  expect_status(stepfuse_optimizer_step(optimizer_, &args), kInvalid, "no group number 9");
  EXPECT_EQ(values_, std::vector<float>(6, 1));
  expect_undisturbed();
}

/// A structure of the wrong size, behind each function that takes one; `use` gives the status of a call with `size`.
struct Sized {
  const char* name;
  size_t size, first;  // of this version, and of the first, whose callers are still served
  std::function<stepfuse_status(stepfuse_optimizer*, void*)> use;
};

template <class T>
T* with_size(void* memory) {
  return static_cast<T*>(memory);
}

std::vector<Sized> sized_inputs() {
  using Handle = stepfuse_optimizer*;
  return {{"parameter", sizeof(stepfuse_parameter), sizeof(stepfuse_parameter),
           [](Handle o, void* m) {
             uint32_t id = 0;
             return stepfuse_optimizer_add_parameter(o, 0, with_size<stepfuse_parameter>(m), &id);
           }},
          {"prepare_options", sizeof(stepfuse_prepare_options), sizeof(stepfuse_prepare_options),
           [](Handle o, void* m) { return stepfuse_optimizer_prepare(o, with_size<stepfuse_prepare_options>(m)); }},
          {"context_options", sizeof(stepfuse_context_options), offsetof(stepfuse_context_options, device_allocate),
           [](Handle, void* m) {
             stepfuse_context* out = nullptr;
             return stepfuse_context_create(with_size<stepfuse_context_options>(m), &out);
           }},
          {"binding", sizeof(stepfuse_binding), sizeof(stepfuse_binding),
           [](Handle o, void* m) { return stepfuse_optimizer_bind(o, 0, with_size<stepfuse_binding>(m)); }},
          {"step_args", sizeof(stepfuse_step_args), sizeof(stepfuse_step_args),
           [](Handle o, void* m) { return stepfuse_optimizer_step(o, with_size<stepfuse_step_args>(m)); }}};
}

TEST_F(CApiErrors, StructuresOfTheWrongSize) {
  prepare_and_bind();
  for (const Sized& sized : sized_inputs()) {
    SCOPED_TRACE(sized.name);
    alignas(16) std::array<unsigned char, 512> memory{};
    const auto use = [&](size_t size) {
      std::memcpy(memory.data(), &size, sizeof(size));
      return sized.use(optimizer_, memory.data());
    };
    const std::string named = std::string("stepfuse_") + sized.name;
    for (size_t size : {size_t{0}, sized.first - 1, SIZE_MAX})
      expect_status(use(size), kInvalid, named + ": struct_size", named + "_init()");
    memory[sized.size + 3] = 1;
    expect_status(use(sized.size + 8), STEPFUSE_UNSUPPORTED, "newer header", "newer library");
    EXPECT_NE(use(sized.size + 3), STEPFUSE_UNSUPPORTED) << "what is set lies beyond";
  }
  int64_t steps = -1;
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, id_, &steps));
  EXPECT_EQ(steps, 1) << "an empty step_args of a newer header is as good as none";
}

TEST_F(CApiErrors, OutputsOfTheWrongSize) {
  stepfuse_summary summary = stepfuse_summary_init();
  summary.struct_size = 8;
  expect_status(stepfuse_optimizer_summary(optimizer_, &summary), kInvalid, "stepfuse_summary: struct_size 8");
  stepfuse_metrics metrics = stepfuse_metrics_init();
  metrics.struct_size = 0;
  expect_status(stepfuse_context_metrics(context_, &metrics), kInvalid, "stepfuse_metrics: struct_size 0");
  expect_status(stepfuse_context_metrics(context_, nullptr), kInvalid, "'out' is null");
}

stepfuse_status create(const stepfuse_option* settings, size_t count) {
  stepfuse_context_options options = stepfuse_context_options_init();
  options.settings = settings;
  options.settings_count = count;
  stepfuse_context* out = nullptr;
  const stepfuse_status status = stepfuse_context_create(&options, &out);
  EXPECT_EQ(out, nullptr);
  return status;
}

TEST(CApiContextErrors, Settings) {
  const stepfuse_option unknown[] = {{"thraeds", "1"}}, range[] = {{"threads", "-1"}}, null[] = {{"threads", nullptr}};
  expect_status(create(unknown, 1), kInvalid, "no setting 'thraeds'", "threads");
  expect_status(create(range, 1), kInvalid, "threads=-1 is not legal", "1024");
  expect_status(create(null, 1), kInvalid, "context options: settings[0] has a null value");
  expect_status(create(nullptr, 1), kInvalid, "settings is null, and its count is 1");
  expect_status(stepfuse_context_create(nullptr, nullptr), kInvalid, "'out' is null");
}

/// What a target or a pass is, the optimizer knows; the context takes any name.
TEST(CApiContextErrors, SettingsThatTheOptimizerRefuses) {
  const stepfuse_option target[] = {{"target", "cpus"}}, later[] = {{"target", "sm_90"}};
  const std::tuple<const stepfuse_option*, stepfuse_status, const char*, const char*> cases[] = {
      {target, kInvalid, "cpus", "cpu"}, {later, kInvalid, "no step runs on it", "cpu"}};
  for (const auto& [setting, status, message, hint] : cases) {
    stepfuse_context_options options = stepfuse_context_options_init();
    options.settings = setting;
    options.settings_count = 1;
    stepfuse_context* context = nullptr;
    stepfuse_optimizer* optimizer = nullptr;
    ASSERT_OK(stepfuse_context_create(&options, &context));
    expect_status(stepfuse_optimizer_create(context, &optimizer), status, message, hint);
    EXPECT_EQ(optimizer, nullptr);
    expect_status(stepfuse_optimizer_create(context, nullptr), kInvalid, "'out' is null");
    EXPECT_OK(stepfuse_context_destroy(context));
  }
}

TEST(CApiContextErrors, APassThatDoesNotExist) {
  const stepfuse_option pass[] = {{"disable", "fuze"}};
  stepfuse_context_options options = stepfuse_context_options_init();
  options.settings = pass;
  options.settings_count = 1;
  stepfuse_context* context = nullptr;
  expect_status(stepfuse_context_create(&options, &context), kInvalid, "fuze", "did you mean 'fuse'?");
  EXPECT_EQ(context, nullptr);
}

TEST(CApiContextErrors, HalfAnAllocator) {
  stepfuse_context* out = nullptr;
  stepfuse_context_options options = stepfuse_context_options_init();
  options.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  expect_status(stepfuse_context_create(&options, &out), kInvalid, "allocate is set, release is null", "both");
  options = stepfuse_context_options_init();
  options.release = [](void*, void*, size_t) {};
  expect_status(stepfuse_context_create(&options, &out), kInvalid, "release is set, allocate is null", "both");
  options = stepfuse_context_options_init();
  options.allocator_user = &options;
  expect_status(stepfuse_context_create(&options, &out), kInvalid, "allocator_user is set without allocate");
  EXPECT_EQ(out, nullptr);
}

}  // namespace
}  // namespace stepfuse::tests
