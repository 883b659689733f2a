// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_io.h"

#include <cstring>
#include <filesystem>
#include <functional>
#include <ostream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

using testing::HasSubstr;

struct Added {
  std::string name;
  std::vector<int64_t> shape;
};

/// An optimizer on the interpreter, its parameters and gradients.
class Bench {
 public:
  Bench(
      const std::string& recipe, const ir::OptionList& options, const std::vector<Added>& added,
      const std::function<NewParameter(NewParameter)>& change = [](NewParameter p) { return p; })
      : optimizer_([] {
          OptimizerSettings settings;
          settings.mode = ir::Mode::Strict;
          settings.target = "interp";
          return std::move(*Optimizer::create(settings));
        }()) {
    const uint32_t group = *optimizer_.add_group(recipe, options);
    for (const Added& parameter : added) {
      NewParameter changed = change({parameter.name, {parameter.shape}, {}, {}, false, {}});
      EXPECT_TRUE(optimizer_.add_parameter(group, changed));
      changed_.push_back(std::move(changed));
    }
    EXPECT_TRUE(optimizer_.prepare());
    for (const Added& parameter : added) {
      const auto count = static_cast<size_t>(compiler::element_count(parameter.shape));
      std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(parameter.name)));
      std::normal_distribution<float> normal;
      parameters_.emplace_back(count);
      gradients_.emplace_back(count);
      for (float& p : parameters_.back()) p = normal(random);
      for (float& g : gradients_.back()) g = normal(random);
    }
  }

  void bind(uint32_t index, const std::vector<std::pair<std::string, void*>>& states = {}) {
    const auto outcome = optimizer_.bind(index, {parameters_[index].data(), gradients_[index].data(), states});
    EXPECT_TRUE(outcome) << outcome.error().message;
  }

  void step(int times) {
    for (uint32_t i = 0; i < parameters_.size(); ++i)
      if (!changed_[i].caller_states) bind(i);
    for (int i = 0; i < times; ++i) EXPECT_TRUE(optimizer_.step());
  }

  std::vector<float>& parameter(size_t index) { return parameters_[index]; }
  Optimizer& optimizer() { return optimizer_; }

  std::vector<float> state(uint32_t index, size_t number) const {
    const StateView view = optimizer_.states(index)->at(number);
    const auto* data = static_cast<const float*>(view.data);
    return {data, data + compiler::element_count(view.shape)};
  }

 private:
  Optimizer optimizer_;
  std::vector<NewParameter> changed_;
  std::vector<std::vector<float>> parameters_, gradients_;
};

std::vector<std::byte> exported(const Optimizer& optimizer) {
  auto bytes = export_state(optimizer);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes ? std::move(*bytes) : std::vector<std::byte>();
}

std::string error_of(const Outcome& outcome, StatusCode code = StatusCode::InvalidData) {
  if (outcome) return "accepted";
  EXPECT_EQ(outcome.error().code, code) << outcome.error().message;
  return outcome.error().message + " | " + outcome.error().hint;
}

const std::vector<Added> kTwo = {{"a.weight", {3, 4}}, {"b.weight", {3, 4}}};

struct RecipeCase {
  const char* name;
  const char* recipe;
  ir::OptionList options;
};

void PrintTo(const RecipeCase& test, std::ostream* out) { *out << test.name; }

class StateRoundTrip : public testing::TestWithParam<RecipeCase> {};

TEST_P(StateRoundTrip, ContinuesBitForBit) {
  const RecipeCase& test = GetParam();
  Bench original(test.recipe, test.options, kTwo);
  original.step(3);
  const auto bytes = exported(original.optimizer());
  const auto path = std::filesystem::temp_directory_path() / fmt::format("stepfuse_state_{}.safetensors", ::getpid());
  ASSERT_TRUE(save_state(original.optimizer(), path, {{"by", "test"}}));

  Bench from_memory(test.recipe, test.options, kTwo);
  Bench from_file(test.recipe, test.options, kTwo);
  const auto turned = std::vector<Added>{kTwo[1], kTwo[0]};
  Bench in_other_order(test.recipe, test.options, turned);
  ASSERT_EQ(error_of(import_state(from_memory.optimizer(), bytes)), "accepted");
  ASSERT_EQ(error_of(load_state(from_file.optimizer(), path)), "accepted");
  ASSERT_EQ(error_of(import_state(in_other_order.optimizer(), bytes)), "accepted");
  EXPECT_EQ(SafetensorsFile::open(path)->metadata().at("by"), "test");
  std::filesystem::remove(path);
  EXPECT_EQ(exported(from_memory.optimizer()), bytes);

  for (size_t k = 0; k < 2; ++k) {
    from_memory.parameter(k) = from_file.parameter(k) = original.parameter(k);
    in_other_order.parameter(1 - k) = original.parameter(k);
  }
  for (Bench* bench : {&original, &from_memory, &from_file, &in_other_order}) bench->step(2);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(from_memory.parameter(k), original.parameter(k));
    EXPECT_EQ(from_file.parameter(k), original.parameter(k));
    EXPECT_EQ(in_other_order.parameter(1 - k), original.parameter(k));
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, StateRoundTrip,
                         testing::Values(RecipeCase{"Adamw", "adamw", {}},
                                         RecipeCase{"AdamwAmsgrad", "adamw", {{"amsgrad", "true"}}},
                                         RecipeCase{"Adam", "adam", {{"weight_decay", "0.1"}}},
                                         RecipeCase{"SgdMomentum", "sgd", {{"momentum", "0.9"}}},
                                         RecipeCase{"SgdPlain", "sgd", {}}, RecipeCase{"Muon", "muon", {}}),
                         [](const auto& instance) { return instance.param.name; });

TEST(StateIo, NamesAndTypesAreTorchs) {
  Bench bench("adamw", {}, kTwo);
  bench.step(3);
  const auto bytes = exported(bench.optimizer());
  const auto file = SafetensorsFile::from_memory(bytes);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 6u);
  const TensorEntry* step = file->find("a.weight.step");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->dtype, "F32");
  EXPECT_TRUE(step->shape.empty());
  float value = 0;
  std::memcpy(&value, file->data(*step), sizeof value);
  EXPECT_EQ(value, 3);
  ASSERT_NE(file->find("b.weight.exp_avg_sq"), nullptr);
  EXPECT_EQ(file->find("b.weight.exp_avg_sq")->shape, (std::vector<int64_t>{3, 4}));
}

/// C04: two parameters of one shape, saved in one order and loaded in the other.
TEST(StateIo, NamesNotPositionsDecide) {
  Bench original("sgd", {{"momentum", "0.9"}}, {{"p1", {2, 2}}, {"p2", {2, 2}}});
  original.step(1);
  Bench turned("sgd", {{"momentum", "0.9"}}, {{"p2", {2, 2}}, {"p1", {2, 2}}});
  ASSERT_TRUE(import_state(turned.optimizer(), exported(original.optimizer())));
  EXPECT_EQ(turned.state(0, 0), original.state(1, 0));
  EXPECT_EQ(turned.state(1, 0), original.state(0, 0));
  EXPECT_NE(turned.state(0, 0), turned.state(1, 0));

  const std::vector<float> ones(4, 1);
  const auto positional = serialise_safetensors(
      {{"0.momentum_buffer", "F32", {2, 2}, ones.data()}, {"1.momentum_buffer", "F32", {2, 2}, ones.data()}});
  const std::string error = error_of(import_state(turned.optimizer(), *positional));
  EXPECT_THAT(error, HasSubstr("no parameter has a state '0.momentum_buffer'"));
  EXPECT_THAT(error, HasSubstr("by name, not by position"));
  EXPECT_EQ(turned.state(0, 0), original.state(1, 0)) << "nothing changed";
}

TEST(StateIo, ErrorsChangeNothing) {
  Bench bench("adamw", {}, kTwo);
  bench.step(2);
  const auto before = exported(bench.optimizer());
  const std::vector<float> twelve(12, 7);
  const float step = 9;
  const auto file_of = [&](const std::vector<TensorToWrite>& tensors) { return *serialise_safetensors(tensors); };
  const std::vector<TensorToWrite> whole = {{"a.weight.exp_avg", "F32", {3, 4}, twelve.data()},
                                            {"a.weight.exp_avg_sq", "F32", {3, 4}, twelve.data()},
                                            {"a.weight.step", "F32", {}, &step}};
  const auto with = [&](size_t at, const TensorToWrite& tensor) {
    auto tensors = whole;
    tensors[at] = tensor;
    return error_of(import_state(bench.optimizer(), file_of(tensors)));
  };
  EXPECT_THAT(with(0, {"a.weight.exp_av", "F32", {3, 4}, twelve.data()}),
              HasSubstr("no parameter has a state 'a.weight.exp_av' | did you mean 'a.weight.exp_avg'?"));
  EXPECT_THAT(with(1, {"a.weight.exp_avg_sq", "F32", {4, 3}, twelve.data()}),
              HasSubstr("'a.weight.exp_avg_sq' is F32 [4, 3], expected F32 [3, 4]"));
  EXPECT_THAT(with(1, {"a.weight.exp_avg_sq", "F16", {3, 4}, twelve.data()}),
              HasSubstr("is F16 [3, 4], expected F32 [3, 4]"));
  EXPECT_THAT(with(2, {"a.weight.step", "F32", {1}, &step}), HasSubstr("is F32 [1], expected F32 []"));
  EXPECT_THAT(with(2, {"b.weight.step", "F32", {}, &step}), HasSubstr("is missing, though other states"));
  const float half = 1.5f;
  EXPECT_THAT(with(2, {"a.weight.step", "F32", {}, &half}), HasSubstr("'a.weight.step' is 1.5"));
  EXPECT_EQ(exported(bench.optimizer()), before);

  auto bytes = file_of(whole);
  for (const size_t length : {size_t{0}, size_t{7}, size_t{40}, bytes.size() - 1})
    EXPECT_THAT(error_of(import_state(bench.optimizer(), std::span(bytes).first(length))), HasSubstr("'<state>'"));
  bytes[8] = std::byte{'x'};
  EXPECT_THAT(error_of(import_state(bench.optimizer(), bytes)), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(load_state(bench.optimizer(), "gone.safetensors"), StatusCode::NotFound),
              HasSubstr("gone.safetensors"));
  EXPECT_EQ(exported(bench.optimizer()), before);
}

TEST(StateIo, AParameterThatTheFileDoesNotNameStartsAfresh) {
  Bench bench("adamw", {}, kTwo);
  const auto nothing = exported(bench.optimizer());
  bench.step(2);
  ASSERT_TRUE(import_state(bench.optimizer(), nothing));
  EXPECT_EQ(bench.optimizer().steps(0).value(), 0);
  EXPECT_EQ(bench.state(0, 0), std::vector<float>(12, 0));
  EXPECT_EQ(exported(bench.optimizer()), nothing);
}

TEST(StateIo, OnlyAfterPrepare) {
  Optimizer optimizer = std::move(*Optimizer::create({}));
  const uint32_t group = *optimizer.add_group("adamw", {});
  ASSERT_TRUE(optimizer.add_parameter(group, "w", {{3}}));
  const auto bytes = export_state(optimizer);
  ASSERT_FALSE(bytes);
  EXPECT_THAT(bytes.error().message, HasSubstr("before prepare"));
}

TEST(StateIo, StridedStatesOfTheCallerAreDenseInTheFile) {
  Bench dense("adamw", {}, {{"w", {3, 4}}});
  dense.step(2);
  const auto own = [](NewParameter parameter) {
    parameter.caller_states = true;
    parameter.state_strides = {{"exp_avg", {8, 2}}, {"exp_avg_sq", {8, 2}}};
    return parameter;
  };
  Bench strided("adamw", {}, {{"w", {3, 4}}}, own);
  EXPECT_THAT(error_of(import_state(strided.optimizer(), exported(dense.optimizer())), StatusCode::InvalidArgument),
              HasSubstr("state 'exp_avg' of 'w' is the caller's and is not bound"));
  std::vector<float> pairs(24, -1);
  strided.bind(0, {{"exp_avg", &pairs[0]}, {"exp_avg_sq", &pairs[1]}});
  ASSERT_EQ(error_of(import_state(strided.optimizer(), exported(dense.optimizer()))), "accepted");
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(pairs[2 * i], dense.state(0, 0)[i]);
    EXPECT_EQ(pairs[2 * i + 1], dense.state(0, 1)[i]);
  }
  EXPECT_EQ(exported(strided.optimizer()), exported(dense.optimizer()));
}

}  // namespace
}  // namespace stepfuse::runtime
