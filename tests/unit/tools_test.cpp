// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of the command that the text tests cannot reach, or only by way of many files.
#include "runtime/config/default_rules.h"
#include "runtime/manifest.h"
#include "tests/support/temporary_folder.h"
#include "tools/check.h"
#include "tools/manifest.h"
#include "tools/model.h"
#include "tools/shape_arg.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace stepfuse::tools {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Verdict compare_f32(const std::vector<float>& ours, const std::vector<float>& reference,
                    const std::vector<float>& before, bool bitwise, double tolerance = 2e-6) {
  return compare({"w", ir::DType::F32, ours.size() * sizeof(float), ours.data(), reference.data(),
                  before.empty() ? nullptr : before.data()},
                 bitwise, tolerance, 1);
}

TEST(Check, StrictAsksForEqualBits) {
  EXPECT_TRUE(compare_f32({1, 2}, {1, 2}, {0, 0}, true).ok);
  EXPECT_FALSE(compare_f32({1, std::nextafter(2.0F, 3.0F)}, {1, 2}, {0, 0}, true).ok);
  EXPECT_FALSE(compare_f32({-0.0F}, {0.0F}, {0}, true).ok);
  EXPECT_TRUE(compare_f32({kNan, kInf}, {-kNan, kInf}, {0, 0}, true).ok);
  EXPECT_FALSE(compare_f32({kNan}, {1}, {0}, true).ok);
}

TEST(Check, DefaultMeasuresTheUpdate) {
  // The update has norm 1: the error may be 1e-3 of it.
  EXPECT_TRUE(compare_f32({1.0009F}, {1}, {0}, false, 1e-3).ok);
  EXPECT_FALSE(compare_f32({1.0011F}, {1}, {0}, false, 1e-3).ok);
  // A small update of a large parameter: only the rounding of what is stored is left.
  EXPECT_FALSE(compare_f32({1000.01F}, {1000}, {1000}, false, 1e-3).ok);
  EXPECT_TRUE(compare_f32({std::nextafter(1000.0F, 2000.0F)}, {1000}, {1000}, false, 1e-3).ok);
  // A state has no value before: the error is measured by its size.
  EXPECT_TRUE(compare_f32({1000.01F}, {1000}, {}, false, 1e-3).ok);
}

TEST(Check, DefaultAsksForTheSameInfinitiesAndNans) {
  EXPECT_TRUE(compare_f32({kInf, kNan, 1}, {kInf, kNan, 1}, {0, 0, 0}, false).ok);
  EXPECT_FALSE(compare_f32({kInf, 1}, {-kInf, 1}, {0, 0}, false).ok);
  EXPECT_FALSE(compare_f32({kNan, 1}, {1, 1}, {0, 0}, false).ok);
  EXPECT_FALSE(compare_f32({1, 1}, {kInf, 1}, {0, 0}, false).ok);
}

TEST(Check, ToleranceFollowsTheProductsOfTheRule) {
  const auto tolerance = [](const std::string& recipe, const ir::OptionList& options) {
    const auto rule = runtime::Rule::create(recipe, options);
    return update_tolerance(*rule->instantiate({{4, 4}, ir::DType::F32, ir::DType::F32, ir::DType::F32}));
  };
  EXPECT_EQ(tolerance("adamw", {}), 2e-6);
  EXPECT_EQ(tolerance("muon", {{"ns_dtype", "f32"}}), 5e-5);
  EXPECT_EQ(tolerance("muon", {}), 3e-2);
}

TEST(ShapeArg, ReadsCountsAndExtents) {
  const auto many = parse_shape("48@768x3072");
  ASSERT_TRUE(many);
  EXPECT_EQ(many->count, 48);
  EXPECT_EQ(many->shape, (std::vector<int64_t>{768, 3072}));
  EXPECT_EQ(parse_shape("4096")->shape, (std::vector<int64_t>{4096}));
  for (const char* bad : {"", "x", "4x", "x4", "4xx4", "@4", "4@", "-1@4", "4x-1", "4x4 ", "1e3", "4X4",
                          "99999999999999999999", "1x1x1x1x1x1x1x1x1", "100001@4", "4294967296x4294967296"}) {
    const auto shape = parse_shape(bad);
    ASSERT_FALSE(shape) << bad;
    EXPECT_EQ(shape.error().code, StatusCode::InvalidArgument) << bad;
  }
}

TEST(Manifest, HoldsGpt2Small) {
  const auto tensors = read_manifest(STEPFUSE_SOURCE_DIR "/examples/manifests/gpt2-124m.toml");
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(tensors->size(), 148U);
  int64_t elements = 0;
  int muon = 0;
  for (const ManifestTensor& tensor : *tensors) {
    elements += compiler::element_count(tensor.shape);
    muon += runtime::default_choice(runtime::role_of(tensor.name), tensor.shape).matrix ? 1 : 0;
  }
  EXPECT_EQ(elements, 124439808);
  EXPECT_EQ(muon, 48);
}

struct Published {
  const char* file;
  size_t tensors;
  int64_t elements;
  ir::DType dtype;
};

TEST(Manifest, HoldsThePublishedModels) {
  for (const Published& model :
       {Published{"gpt2-124m", 148, 124439808, ir::DType::F32}, Published{"llama2-7b", 291, 6738415616, ir::DType::F16},
        Published{"qwen3-30b-a3b", 18867, 30532122624, ir::DType::BF16}}) {
    const auto tensors = read_manifest(fmt::format("{}/examples/manifests/{}.toml", STEPFUSE_SOURCE_DIR, model.file));
    ASSERT_TRUE(tensors) << tensors.error().message;
    EXPECT_EQ(tensors->size(), model.tensors) << model.file;
    int64_t elements = 0;
    for (const ManifestTensor& tensor : *tensors) {
      elements += compiler::element_count(tensor.shape);
      EXPECT_EQ(tensor.dtype, model.dtype) << tensor.name;
    }
    EXPECT_EQ(elements, model.elements) << model.file;
  }
}

class ManifestText : public testing::Test {
 protected:
  Result<std::vector<ManifestTensor>> read(const std::string& text) {
    std::ofstream(top_ / "m.toml") << text;
    return read_manifest(top_ / "m.toml");
  }
  void expect_refused(const std::string& tensor, std::string_view why) {
    const auto tensors = read("tensors = [ " + tensor + " ]");
    ASSERT_FALSE(tensors) << tensor;
    EXPECT_EQ(tensors.error().code, StatusCode::InvalidData) << tensor;
    EXPECT_NE(tensors.error().message.find(why), std::string::npos) << tensors.error().message;
  }

  const tests::TemporaryFolder top_;
};

TEST_F(ManifestText, RepeatsATensorUnderEveryNumber) {
  const auto tensors = read(R"(tensors = [
    { name = "h.{}.w", shape = [2], repeat = 2 },
    { name = "{}/{}.v", shape = [3], repeat = [2, 3] },
    { name = "as.{}.it.stands", shape = [] } ])");
  ASSERT_TRUE(tensors) << tensors.error().message;
  std::vector<std::string> names;
  for (const ManifestTensor& tensor : *tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"h.0.w", "h.1.w", "0/0.v", "0/1.v", "0/2.v", "1/0.v", "1/1.v", "1/2.v",
                                             "as.{}.it.stands"}));
  EXPECT_EQ((*tensors)[7].shape, (std::vector<int64_t>{3}));
}

TEST_F(ManifestText, TypesOfGradientsAndStatesMayDiffer) {
  const auto tensors =
      read(R"(tensors = [ { name = "w", shape = [2], dtype = "bf16", grad = "f32", state = "f32" } ])");
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(tensors->front().grad, ir::DType::F32);
  EXPECT_EQ(tensors->front().state, ir::DType::F32);
  const ModelSource source{{}, top_ / "m.toml", {}};
  const auto model = load_model(source);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->front().spec.param, ir::DType::BF16);
  EXPECT_EQ(model->front().spec.grad, ir::DType::F32);
  EXPECT_EQ(model->front().spec.state, ir::DType::F32);
  // --dtype goes before.
  const auto other = load_model({{}, top_ / "m.toml", {std::nullopt, ir::DType::BF16, std::nullopt}});
  EXPECT_EQ(other->front().spec.grad, ir::DType::BF16);
}

TEST_F(ManifestText, RefusesARepeatThatDoesNotFit) {
  expect_refused(R"({ name = "w", shape = [2], repeat = 2 })", "the name has 0 places and repeat has 1 counts");
  expect_refused(R"({ name = "{}.{}", shape = [2], repeat = 2 })", "the name has 2 places and repeat has 1 counts");
  expect_refused(R"({ name = "{}", shape = [2], repeat = 0 })", "repeat is no count from 1");
  expect_refused(R"({ name = "{}", shape = [2], repeat = -3 })", "repeat is no count from 1");
  expect_refused(R"({ name = "{}", shape = [2], repeat = [] })", "repeat is no count from 1");
  expect_refused(R"({ name = "{}", shape = [2], repeat = "many" })", "repeat is no count from 1");
  expect_refused(R"({ name = "{}", shape = [2], repeat = 9000000000 })", "repeat is no count from 1");
  expect_refused(R"({ name = "{}.{}", shape = [2], repeat = [1048576, 1048576] })", "more than 1048576 tensors");
  expect_refused(R"({ name = "h.{}", shape = [2], repeat = 3 }, { name = "h.2", shape = [2] })",
                 "'h.2' is listed twice");
  expect_refused(R"({ name = "w", shape = [2], grad = "i8" })", "i8 is not an element type");
}

TEST_F(ManifestText, OfAnOptimizerReadsBack) {
  const auto rule = runtime::Rule::create("adamw", {}).value();
  const auto planned = [&](const std::string& name, const ir::ParameterSpec& spec) {
    return compiler::PlannedParameter{name, spec.shape, rule.instantiate(spec).value(), rule.peer()};
  };
  const ir::ParameterSpec mixed{{3, 4}, ir::DType::BF16, ir::DType::F32, ir::DType::F32};
  const std::string odd = "a \"quoted\\\" name\n\x7f \xc3\xa9";
  const auto text = runtime::manifest_text({planned("w", mixed), planned(odd, {{}, ir::DType::F32})});
  ASSERT_TRUE(text) << text.error().message;
  const auto tensors = read(*text);
  ASSERT_TRUE(tensors) << tensors.error().message << *text;
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ((*tensors)[0].shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ((*tensors)[0].dtype, ir::DType::BF16);
  EXPECT_EQ((*tensors)[0].grad, ir::DType::F32);
  EXPECT_EQ((*tensors)[0].state, ir::DType::F32);
  EXPECT_EQ((*tensors)[1].name, odd);
  EXPECT_TRUE((*tensors)[1].shape.empty());
  EXPECT_EQ(runtime::manifest_text({planned("\xff", mixed)}).error().code, StatusCode::InvalidArgument);
  auto strided = planned("s", mixed);
  strided.layouts.assign(strided.rule.inputs().size(), {});
  strided.layouts.front() = {1, 3};
  EXPECT_EQ(runtime::manifest_text({strided}).error().code, StatusCode::Unsupported);
}

}  // namespace
}  // namespace stepfuse::tools
