// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Config files behind the C interface: settings of a context, groups and routing of an optimizer.
#include "tests/e2e/c_api_fixture.h"
#include "tests/support/temporary_folder.h"

#include <fstream>

namespace stepfuse::tests {
namespace {

constexpr stepfuse_status kInvalid = STEPFUSE_INVALID_ARGUMENT;

const char* const kGroups = R"(
[[group]]
name = "matrices"
match = ["*.weight"]
optimizer = "muon"
lr = 0.02

[[group]]
name = "rest"
match = ["*.bias"]
optimizer = "adamw"
lr = 0.1
lr_mult = 0.5
weight_decay = 0
)";

class CApiConfig : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(stepfuse_context_create(nullptr, &context_));
    ASSERT_OK(stepfuse_optimizer_create(context_, &optimizer_));
  }
  void TearDown() override {
    EXPECT_OK(stepfuse_optimizer_destroy(optimizer_));
    EXPECT_OK(stepfuse_context_destroy(context_));
  }
  stepfuse_status add(const char* name, int32_t ndim, uint32_t* id) {
    stepfuse_parameter parameter = stepfuse_parameter_init();
    parameter.name = name;
    parameter.ndim = ndim;
    parameter.shape = shape_;
    return stepfuse_optimizer_add_parameter(optimizer_, STEPFUSE_GROUP_ROUTED, &parameter, id);
  }
  void bind(uint32_t id, int32_t ndim, std::vector<float>& values, std::vector<float>& gradient) {
    const stepfuse_tensor param = stepfuse_cpu_tensor(values.data(), stepfuse_f32(), ndim, shape_);
    const stepfuse_tensor grad = stepfuse_cpu_tensor(gradient.data(), stepfuse_f32(), ndim, shape_);
    stepfuse_binding binding = stepfuse_binding_init();
    binding.param = &param;
    binding.grad = &grad;
    ASSERT_OK(stepfuse_optimizer_bind(optimizer_, id, &binding));
  }

  const int64_t shape_[2] = {8, 8};
  stepfuse_context* context_ = nullptr;
  stepfuse_optimizer* optimizer_ = nullptr;
  uint32_t weight_ = 77, bias_ = 77;
};

TEST_F(CApiConfig, GroupsHaveNamesForSchedules) {
  ASSERT_OK(stepfuse_optimizer_load_config_text(optimizer_, R"(
[[group]]
name = "all"
match = ["h.*"]
optimizer = "adamw"
weight_decay = 0
no_decay = ["bias"]
)"));
  ASSERT_OK(add("h.weight", 2, &weight_));
  ASSERT_OK(add("h.bias", 1, &bias_));
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  uint32_t count = 0;
  ASSERT_OK(stepfuse_optimizer_group_count(optimizer_, &count));
  std::vector<std::string> names;
  for (uint32_t group = 0; group < count; ++group) {
    const char* name = nullptr;
    ASSERT_OK(stepfuse_optimizer_group_name(optimizer_, group, &name));
    names.emplace_back(name);
  }
  // Also where the decay starts at 0: a schedule may raise it, and not for the biases.
  EXPECT_EQ(names, (std::vector<std::string>{"all", "all/no-decay"}));
  const char* name = nullptr;
  expect_status(stepfuse_optimizer_group_name(optimizer_, count, &name), kInvalid, "no group number 2");
}

TEST_F(CApiConfig, AFailedPrepareLeavesNothingTwice) {
  ASSERT_OK(stepfuse_optimizer_load_config_text(optimizer_, kGroups));
  ASSERT_OK(add("h.weight", 2, &weight_));
  ASSERT_OK(add("h.bias", 1, &bias_));
  stepfuse_parameter parameter = stepfuse_parameter_init();
  const stepfuse_state_layout layout = {"exp_avgg", nullptr};
  parameter.name = "i.bias";
  parameter.ndim = 1;
  parameter.shape = shape_;
  parameter.flags = STEPFUSE_CALLER_STATES;
  parameter.state_layouts = &layout;
  parameter.state_layouts_count = 1;
  uint32_t id = 0, first = 0, second = 0;
  ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, STEPFUSE_GROUP_ROUTED, &parameter, &id));
  expect_status(stepfuse_optimizer_prepare(optimizer_, nullptr), kInvalid, "exp_avgg", "exp_avg");
  ASSERT_OK(stepfuse_optimizer_group_count(optimizer_, &first));
  expect_status(stepfuse_optimizer_prepare(optimizer_, nullptr), kInvalid, "exp_avgg", "exp_avg");
  ASSERT_OK(stepfuse_optimizer_group_count(optimizer_, &second));
  EXPECT_EQ(first, second);
  expect_status(add("late.bias", 1, &id), kInvalid, "routing is done", "before the first prepare");
}

TEST_F(CApiConfig, SettingsThatComeTooLateAreRefusedWhenStrict) {
  const std::string settings = "strict_config = true\n[settings]\nthreads = 3\n";
  expect_status(stepfuse_optimizer_load_config_text(optimizer_, (settings + kGroups).c_str()), STEPFUSE_INVALID_DATA,
                "settings.threads has no effect", "config_path");
  ASSERT_OK(stepfuse_optimizer_load_config_text(optimizer_, kGroups));
}

TEST_F(CApi, SetStepsWaitsForPrepare) {
  expect_status(stepfuse_optimizer_set_steps(optimizer_, id_, 5), kInvalid, "set_steps before prepare");
  prepare_and_bind();
  EXPECT_OK(stepfuse_optimizer_set_steps(optimizer_, id_, 5));
}

TEST_F(CApiConfig, RoutesByNameInPrepare) {
  ASSERT_OK(stepfuse_optimizer_load_config_text(optimizer_, kGroups));
  ASSERT_OK(add("h.weight", 2, &weight_));
  ASSERT_OK(add("h.bias", 1, &bias_));
  EXPECT_EQ(weight_, 0U);
  EXPECT_EQ(bias_, 1U);
  uint32_t group = 77, named = 78;
  int64_t steps = -1;
  expect_status(stepfuse_optimizer_parameter_group(optimizer_, bias_, &group), kInvalid, "'h.bias'", "prepare");
  expect_status(stepfuse_optimizer_set_steps(optimizer_, bias_, 1), kInvalid, "'h.bias'", "prepare");
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, bias_, &steps));
  EXPECT_EQ(steps, 0);
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));

  EXPECT_OK(stepfuse_optimizer_parameter_group(optimizer_, weight_, &group));
  EXPECT_OK(stepfuse_optimizer_find_group(optimizer_, "matrices", &named));
  EXPECT_EQ(group, named);
  expect_status(stepfuse_optimizer_find_group(optimizer_, "matrixes", &named), STEPFUSE_NOT_FOUND, "'matrixes'",
                "matrices");
  const char* key = nullptr;
  EXPECT_OK(stepfuse_optimizer_state_key(optimizer_, weight_, 0, &key));
  EXPECT_STREQ(key, "momentum_buffer");
  EXPECT_OK(stepfuse_optimizer_state_key(optimizer_, bias_, 0, &key));
  EXPECT_STREQ(key, "exp_avg");
}

/// lr_mult holds for the lr of the config and for each that a schedule sets.
TEST_F(CApiConfig, ScalesEveryLearningRate) {
  ASSERT_OK(stepfuse_optimizer_load_config_text(optimizer_, kGroups));
  ASSERT_OK(add("h.weight", 2, &weight_));
  ASSERT_OK(add("h.bias", 1, &bias_));
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  std::vector<float> values(8, 1), gradient(8, 0.5F);
  bind(bias_, 1, values, gradient);
  uint32_t group = 77;
  ASSERT_OK(stepfuse_optimizer_parameter_group(optimizer_, bias_, &group));
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_NEAR(values[7], 1 - 0.05, 1e-6);
  ASSERT_OK(stepfuse_optimizer_set(optimizer_, group, "lr", 0.2));
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  EXPECT_NEAR(values[7], 1 - 0.05 - 0.1, 1e-6);
  const stepfuse_scalar scalar = {group, "lr", 0.4};
  stepfuse_step_args args = stepfuse_step_args_init();
  args.scalars = &scalar;
  args.scalars_count = 1;
  ASSERT_OK(stepfuse_optimizer_step(optimizer_, &args));
  EXPECT_NEAR(values[7], 1 - 0.05 - 0.1 - 0.2, 1e-6);
}

TEST_F(CApiConfig, StandsBesideGroupsOfTheProgram) {
  uint32_t own = 77, id = 77;
  ASSERT_OK(stepfuse_optimizer_load_config_text(optimizer_, kGroups));
  ASSERT_OK(add("h.weight", 2, &weight_));
  ASSERT_OK(stepfuse_optimizer_add_group(optimizer_, "sgd", nullptr, 0, &own));
  stepfuse_parameter parameter = stepfuse_parameter_init();
  parameter.name = "own";
  ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer_, own, &parameter, &id));
  EXPECT_EQ(id, 1U);
  parameter.name = "h.weight";
  expect_status(stepfuse_optimizer_add_parameter(optimizer_, own, &parameter, &id), kInvalid,
                "'h.weight' was added before");
  ASSERT_OK(add("h.bias", 1, &bias_));
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr));
  uint32_t count = 0;
  EXPECT_OK(stepfuse_optimizer_parameter_count(optimizer_, &count));
  EXPECT_EQ(count, 3U);
  std::vector<float> values(8, 1), gradient(8, 0.5F);
  bind(bias_, 1, values, gradient);
  EXPECT_OK(stepfuse_optimizer_step(optimizer_, nullptr));
  int64_t steps = -1;
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, bias_, &steps));
  EXPECT_EQ(steps, 1);
  EXPECT_OK(stepfuse_optimizer_steps(optimizer_, 1, &steps));
  EXPECT_EQ(steps, 0) << "ids are those of the program";
}

TEST_F(CApiConfig, IsRefused) {
  const char* const misspelt = "[[group]]\nmatch = \"*\"\noptimizer = \"adamw\"\nweight_decai = 0.1\n";
  expect_status(stepfuse_optimizer_load_config_text(optimizer_, misspelt), STEPFUSE_INVALID_DATA, "weight_decai",
                "weight_decay");
  expect_status(stepfuse_optimizer_load_config_text(optimizer_, "[[group]\n"), STEPFUSE_INVALID_DATA, "<config>:1");
  EXPECT_EQ(stepfuse_optimizer_load_config(optimizer_, "/no/such/stepfuse.toml"), STEPFUSE_NOT_FOUND);
  ASSERT_OK(stepfuse_optimizer_load_config_text(optimizer_, kGroups)) << "nothing was loaded so far";
  expect_status(stepfuse_optimizer_load_config_text(optimizer_, kGroups), kInvalid, "a config was loaded before");
  expect_status(stepfuse_optimizer_prepare(optimizer_, nullptr), kInvalid, "no parameter is to be routed",
                "STEPFUSE_GROUP_ROUTED");
  ASSERT_OK(add("h.weight", 2, &weight_));
  expect_status(stepfuse_optimizer_prepare(optimizer_, nullptr), STEPFUSE_INVALID_DATA,
                "group 'rest': match '*.bias' matches no parameter");
  ASSERT_OK(add("h.bias", 1, &bias_));
  EXPECT_OK(stepfuse_optimizer_prepare(optimizer_, nullptr)) << "what was missing is there now";
  uint32_t late = 0;
  expect_status(add("late.bias", 1, &late), kInvalid, "add_parameter after prepare");
}

TEST(CApiConfigSettings, ReachTheContext) {
  const TemporaryFolder folder;
  const std::string path = folder / "c.toml";
  std::ofstream(path) << "[settings]\ntarget = \"interp\"\n";
  stepfuse_context_options options = stepfuse_context_options_init();
  options.config_path = path.c_str();
  stepfuse_context* context = nullptr;
  stepfuse_optimizer* optimizer = nullptr;
  ASSERT_OK(stepfuse_context_create(&options, &context));
  ASSERT_OK(stepfuse_optimizer_create(context, &optimizer));
  ASSERT_OK(stepfuse_optimizer_prepare(optimizer, nullptr));
  size_t needed = 0;
  ASSERT_OK(stepfuse_optimizer_explain(optimizer, "text", nullptr, 0, &needed));
  std::string text(needed, ' ');
  ASSERT_OK(stepfuse_optimizer_explain(optimizer, "text", text.data(), needed, nullptr));
  EXPECT_NE(text.find("interp"), std::string::npos) << text;
  EXPECT_OK(stepfuse_optimizer_destroy(optimizer));
  EXPECT_OK(stepfuse_context_destroy(context));
  std::ofstream(path) << "[settings]\nthreads = 5000\n";
  EXPECT_NE(stepfuse_context_create(&options, &context), STEPFUSE_OK);
  EXPECT_NE(std::string(stepfuse_last_error()).find("threads"), std::string::npos) << stepfuse_last_error();
  std::filesystem::remove(path);
  EXPECT_EQ(stepfuse_context_create(&options, &context), STEPFUSE_NOT_FOUND);
}

}  // namespace
}  // namespace stepfuse::tests
