// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of the command that the text tests cannot reach, or only by way of many files.
#include "tools/check.h"
#include "tools/default_route.h"
#include "tools/manifest.h"
#include "tools/shape_arg.h"

#include <cmath>
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

TEST(DefaultRoute, SendsHiddenMatricesToMuon) {
  EXPECT_EQ(default_recipe("h.0.attn.c_attn.weight", {768, 2304}), "muon");
  EXPECT_EQ(default_recipe("h.0.attn.c_attn.bias", {2304}), "adamw");
  EXPECT_EQ(default_recipe("conv", {3, 3, 3}), "adamw");
  EXPECT_EQ(default_recipe("scale", {}), "adamw");
  for (const char* name :
       {"wte.weight", "wpe.weight", "model.Embed_tokens.weight", "lm_head.weight", "classifier_HEAD"})
    EXPECT_EQ(default_recipe(name, {768, 768}), "adamw") << name;
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
    muon += default_recipe(tensor.name, tensor.shape) == "muon" ? 1 : 0;
  }
  EXPECT_EQ(elements, 124439808);
  EXPECT_EQ(muon, 48);
}

}  // namespace
}  // namespace stepfuse::tools
