// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout.h"

#include "compiler/signature.h"
#include "tests/unit/plan_fixture.h"

#include <limits>

namespace stepfuse::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string strides_error(const std::vector<int64_t>& shape, const Strides& strides) {
  const auto outcome = check_strides("state 'm' of 'w'", shape, strides, 4);
  if (outcome) return "accepted";
  EXPECT_EQ(outcome.error().code, StatusCode::InvalidArgument);
  EXPECT_THAT(outcome.error().message, HasSubstr("state 'm' of 'w'"));
  EXPECT_FALSE(outcome.error().hint.empty());
  return outcome.error().message;
}

TEST(Layout, StridesThatAreLegal) {
  EXPECT_EQ(strides_error({3, 4}, {}), "accepted");
  EXPECT_EQ(strides_error({3, 4}, {4, 1}), "accepted");
  EXPECT_EQ(strides_error({3, 4}, {1, 3}), "accepted");
  EXPECT_EQ(strides_error({3, 1, 4}, {100, -7, 2}), "accepted") << "the stride of an extent of 1 means nothing";
  EXPECT_EQ(strides_error({0, 4}, {-1, 0}), "accepted") << "no elements, no places";
  EXPECT_EQ(strides_error({}, {}), "accepted");
}

TEST(Layout, StridesThatAreNot) {
  EXPECT_THAT(strides_error({3, 4}, {4}), HasSubstr("1 strides [4] for 2 dimensions [3, 4]"));
  EXPECT_THAT(strides_error({3, 4}, {4, 0}), HasSubstr("the stride of dimension 1 is 0"));
  EXPECT_THAT(strides_error({3, 4}, {-4, 1}), HasSubstr("the stride of dimension 0 is -4"));
  EXPECT_THAT(strides_error({3, 4}, {3, 1}), HasSubstr("may share memory"));
  EXPECT_THAT(strides_error({3, 4}, {1, 1}), HasSubstr("may share memory"));
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(strides_error({3, 4}, {kHuge, 1}), HasSubstr("exceeds 2^63 bytes"));
  EXPECT_THAT(strides_error({2, 4}, {kHuge / 4, 1}), HasSubstr("exceeds 2^63 bytes"));
  EXPECT_THAT(strides_error({2, 2}, {kHuge, kHuge}), HasSubstr("exceeds 2^63 bytes"));
}

TEST(Layout, OneSpellingPerLayout) {
  EXPECT_THAT(normalise_strides({3, 4}, {4, 1}), IsEmpty());
  EXPECT_THAT(normalise_strides({1, 4}, {99, 1}), IsEmpty());
  EXPECT_THAT(normalise_strides({3, 1}, {5, 1}), ElementsAre(5, 0));
  EXPECT_THAT(normalise_strides({3, 4}, {1, 3}), ElementsAre(1, 3));
}

TEST(Layout, CoalesceMergesWhatIsOneLineInAllTensors) {
  const Dimensions both = coalesce({2, 3, 4, 5}, {{}, {120, 20, 5, 1}});
  EXPECT_THAT(both.extents, ElementsAre(2, 60));
  EXPECT_THAT(both.strides[0], ElementsAre(60, 1));
  EXPECT_THAT(both.strides[1], ElementsAre(120, 1));
  EXPECT_THAT(coalesce({1, 1}, {{}}).extents, IsEmpty());
  EXPECT_THAT(coalesce({2, 1, 3}, {{3, 77, 1}}).extents, ElementsAre(6));
}

PlannedParameter strided(const std::string& name, const std::vector<int64_t>& shape, std::vector<Strides> layouts) {
  PlannedParameter parameter =
      planned(name, shape,
              "recipe @r(%p: f32[N] param, %g: f32[N] grad) {\n  %q = axpy -0.5, %g, %p : f32\n  return %q -> %p\n}\n");
  parameter.layouts = std::move(layouts);
  return parameter;
}

TEST(Layout, ElementwiseRulesWalkTheFewestDimensions) {
  const ir::Graph rule = strided("w", {}, {}).rule;
  const auto dims = [&](const std::vector<int64_t>& shape, const std::vector<Strides>& layouts) {
    const auto out = lay_out(rule, shape, layouts);
    EXPECT_TRUE(out) << out.error().message;
    std::vector<int64_t> extents;
    for (size_t i = 0; i < out->rule.inputs()[0].type.shape.rank; ++i)
      extents.push_back(out->rule.inputs()[0].type.shape.dims[i].raw());
    return extents;
  };
  EXPECT_THAT(dims({4, 6}, {{8, 1}, {}}), ElementsAre(4, 6));
  EXPECT_THAT(dims({2, 3, 4, 5}, {{60, 1, 15, 3}, {}}), ElementsAre(2, 20, 3))
      << "in the order of the parameter's memory";
  EXPECT_THAT(dims({2, 3, 4, 5}, {{60, 1, 15, 3}, {60, 1, 15, 3}}), ElementsAre(-1)) << "dense in one order: flat";
  EXPECT_THAT(dims({7}, {{2}, {}}), ElementsAre(7));
  const auto four = lay_out(rule, {2, 3, 4, 5}, {{1, 2, 6, 24}, {}});
  ASSERT_FALSE(four);
  EXPECT_EQ(four.error().code, StatusCode::Unsupported);
  EXPECT_THAT(four.error().message, HasSubstr("need 4 strides"));
  EXPECT_THAT(four.error().hint, HasSubstr("contiguous"));
}

TEST(Layout, GroupsShareALayout) {
  const Strides padded = {8, 1};
  const auto plan = plan_of({strided("dense", {4, 6}, {}), strided("a", {4, 6}, {padded, {}}),
                             strided("same", {4, 6}, {padded, {}}), strided("other", {4, 6}, {padded, padded}),
                             strided("permuted", {4, 6}, {{1, 4}, {1, 4}}), strided("shape", {5, 6}, {padded, {}})});
  ASSERT_EQ(plan.groups.size(), 4u);
  EXPECT_THAT(plan.groups[0].members, ElementsAre(0, 4)) << "a transposed twin of a dense parameter is dense";
  EXPECT_THAT(plan.groups[1].members, ElementsAre(1, 2));
  EXPECT_THAT(plan.groups[0].layouts, IsEmpty());
  const Access access = access_of(plan.groups[1], plan.groups[1].graph.inputs()[0].value);
  EXPECT_THAT(access.strides, ElementsAre(0, 8, 1));
}

PlannedParameter muon(const std::vector<int64_t>& shape, const Strides& param) {
  PlannedParameter parameter = planned_recipe("w", shape, "muon");
  parameter.layouts.resize(parameter.rule.inputs().size());
  for (size_t i = 0; i < parameter.layouts.size(); ++i)
    if (parameter.rule.inputs()[i].kind == ir::InputKind::Param) parameter.layouts[i] = param;
  return parameter;
}

std::vector<bool> absorbed(const StepPlan& plan) {
  std::vector<bool> taken;
  for (const Decision& decision : plan.groups.at(0).decisions)
    if (decision.pass == "absorb_update") taken.push_back(decision.taken);
  return taken;
}

TEST(Layout, MuonsLastProductWritesOnlyPlainRows) {
  const auto dense = plan_of({planned_recipe("w", {24, 40}, "muon")}, plan_options(ir::Mode::Default));
  const auto wide = plan_of({muon({24, 40}, {64, 1})}, plan_options(ir::Mode::Default));
  const auto turned = plan_of({muon({24, 40}, {1, 24})}, plan_options(ir::Mode::Default));
  EXPECT_THAT(absorbed(dense), ElementsAre(true));
  EXPECT_THAT(absorbed(wide), ElementsAre(true));
  EXPECT_THAT(absorbed(turned), ElementsAre(false));
  EXPECT_EQ(wide.launches.size(), dense.launches.size());
  for (const Decision& decision : turned.groups[0].decisions)
    if (decision.pass == "absorb_update") {
      EXPECT_THAT(decision.why, HasSubstr("side by side"));
    }
}

TEST(Layout, ReductionOverAStridedBatchIsRefused) {
  PlannedParameter parameter =
      planned("w", {2, 3, 4},
              "recipe @r(%p: f32[A,B,C] param, %g: f32[A,B,C] grad) {\n  %s = sum %g {all} : f32\n"
              "  %q = axpy -0.5, %s, %p : f32\n  return %q -> %p\n}\n");
  parameter.layouts = {{}, {24, 4, 1}};
  const auto plan = make_plan({parameter}, plan_options(ir::Mode::Strict));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, StatusCode::Unsupported);
  EXPECT_THAT(plan.error().message, HasSubstr("%g is not dense"));
  EXPECT_FALSE(plan.error().hint.empty());
}

}  // namespace
}  // namespace stepfuse::compiler
