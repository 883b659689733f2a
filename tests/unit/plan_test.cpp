// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Where values live, how steps are ordered, which parameters run together.
#include "tests/unit/plan_fixture.h"

#include <algorithm>

namespace stepfuse::compiler {
namespace {

using testing::HasSubstr;

TEST(Plan, ElementwiseOutputsLieOverWhatTheyReplace) {
  const StepPlan plan = plan_of({planned_recipe("w", {100}, "adamw")});
  ASSERT_EQ(plan.groups.size(), 1U);
  const GroupPlan& group = plan.groups[0];
  EXPECT_TRUE(group.symbolic);
  EXPECT_EQ(kinds(group), "fused");
  EXPECT_EQ(slot_of(group, "p_new"), input_slot(group, "p"));
  EXPECT_EQ(slot_of(group, "m_new"), input_slot(group, "m"));
  EXPECT_EQ(slot_of(group, "v_new"), input_slot(group, "v"));
  EXPECT_TRUE(group.buffers.empty());
  EXPECT_EQ(plan.workspace_bytes, 0);
  EXPECT_EQ(slot_of(group, "root").kind, Slot::Kind::None);
}

TEST(Plan, ASwapSavesBothBeforeEitherIsOverwritten) {
  const StepPlan plan = plan_of(
      "recipe @swap(%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\", %b: f32[N] state \"b\") {\n"
      "%r = sub %p, %g : f32\n return %r -> %p, %b -> %a, %a -> %b\n}\n",
      {10});
  EXPECT_EQ(kinds(plan.groups[0]), "copy copy fused copy copy");
  EXPECT_EQ(plan.groups[0].buffers.size(), 2U);
}

TEST(Plan, AnOutputThatIsAnInputIsSavedFirst) {
  // The old parameter goes to %a while the new one is written over it.
  const StepPlan plan = plan_of(
      "recipe @keep(%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\") {\n"
      "%r = sub %p, %g : f32\n return %r -> %p, %p -> %a\n}\n",
      {10});
  EXPECT_EQ(kinds(plan.groups[0]), "copy fused copy");
  EXPECT_EQ(slot_of(plan.groups[0], "r"), input_slot(plan.groups[0], "p"));
}

TEST(Plan, AnOutputThatStaysIsNoWork) {
  const StepPlan plan = plan_of(
      "recipe @stay(%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\") {\n"
      "%r = sub %p, %g : f32\n return %r -> %p, %a -> %a\n}\n",
      {10});
  EXPECT_EQ(kinds(plan.groups[0]), "fused");
}

TEST(Plan, AnOutputForTwoTargetsIsCopiedOnce) {
  const StepPlan plan = plan_of(
      "recipe @twice(%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\") {\n"
      "%r = sub %p, %g : f32\n return %r -> %p, %r -> %a\n}\n",
      {10});
  EXPECT_EQ(kinds(plan.groups[0]), "fused copy");
  EXPECT_EQ(slot_of(plan.groups[0], "r"), input_slot(plan.groups[0], "p"));
  EXPECT_TRUE(plan.groups[0].buffers.empty());
}

TEST(Plan, AStateThatRepeatsIsNotOverwrittenWhileItIsRead) {
  // Every element of the parameter reads the one element of %a, so the new one waits elsewhere until all have.
  const StepPlan plan = plan_of(
      "recipe @small(%p: f32[4, 6] param, %g: f32[4, 6] grad, %a: f32[1, 1] state \"a\") {\n"
      "%b = add %a, 1 : f32\n %y = mul %g, %b : f32\n %x = mul %y, %a : f32\n %r = sub %p, %x : f32\n"
      "return %r -> %p, %b -> %a\n}\n",
      {4, 6});
  const GroupPlan& group = plan.groups[0];
  EXPECT_EQ(kinds(group), "fused copy");
  EXPECT_EQ(slot_of(group, "b").kind, Slot::Kind::Scratch);
  EXPECT_EQ(slot_of(group, "r"), input_slot(group, "p"));
}

TEST(Plan, AViewOfWhatIsReplacedForbidsInPlace) {
  const StepPlan plan = plan_of(
      "recipe @turn(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n"
      "%t = transpose %p : f32\n %r = sub %t, %g : f32\n return %r -> %p\n}\n",
      {4, 4});
  EXPECT_EQ(kinds(plan.groups[0]), "fused copy");
  EXPECT_EQ(slot_of(plan.groups[0], "r").kind, Slot::Kind::Scratch);
}

TEST(Plan, AnOutputThatIsAViewIsCopied) {
  const StepPlan plan = plan_of(
      "recipe @turn(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n"
      "%a = sub %p, %g : f32\n %t = transpose %a : f32\n return %t -> %p\n}\n",
      {4, 4});
  EXPECT_EQ(kinds(plan.groups[0]), "fused copy");
  EXPECT_EQ(plan.groups[0].steps[1].from.strides[1], 1);
  EXPECT_EQ(plan.groups[0].steps[1].from.strides[2], 4);
}

TEST(Plan, AProductWritesOverItsC) {
  const std::string rule =
      "recipe @c(%p: f32[4, 6] param, %g: f32[4, 6] grad, %s: f32[4, 4] state \"s\") {\n"
      "%r = matmul %s, FACTOR, %p, 2, 1 : f32\n return %r -> %p\n}\n";
  std::string only_c = rule;
  only_c.replace(only_c.find("FACTOR"), 6, "%g");
  const StepPlan in_place = plan_of(only_c, {4, 6});
  EXPECT_EQ(kinds(in_place.groups[0]), "product");
  std::string factor = rule;
  factor.replace(factor.find("FACTOR"), 6, "%p");
  EXPECT_EQ(kinds(plan_of(factor, {4, 6}).groups[0]), "product copy");
}

TEST(Plan, LanesAreReusedUnlessSwitchedOff) {
  const std::vector<PlannedParameter> muon{planned_recipe("w", {16, 24}, "muon")};
  const StepPlan reused = plan_of(muon);
  const StepPlan apart = plan_of(muon, plan_options(ir::Mode::Default, {"reuse_memory"}));
  EXPECT_LT(reused.groups[0].lane_bytes.size(), reused.groups[0].buffers.size());
  EXPECT_EQ(apart.groups[0].lane_bytes.size(), apart.groups[0].buffers.size());
  EXPECT_LT(reused.workspace_bytes, apart.workspace_bytes);
}

TEST(Plan, LivesInOneLaneDoNotOverlap) {
  for (const ir::Mode mode : {ir::Mode::Default, ir::Mode::Strict}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{16, 24}, {24, 16}, {16, 16}}) {
      const StepPlan plan = plan_of({planned_recipe("w", shape, "muon")}, plan_options(mode));
      const auto& buffers = plan.groups[0].buffers;
      for (size_t a = 0; a < buffers.size(); ++a) {
        EXPECT_LE(buffers[a].first, buffers[a].last);
        EXPECT_LE(buffers[a].bytes, plan.groups[0].lane_bytes[buffers[a].lane]);
        for (size_t b = 0; b < a; ++b) {
          if (buffers[a].lane != buffers[b].lane) continue;
          EXPECT_TRUE(buffers[a].last <= buffers[b].first || buffers[b].last <= buffers[a].first) << a << " " << b;
        }
      }
    }
  }
}

TEST(Plan, LanesStartOnCacheLines) {
  const StepPlan plan = plan_of({planned_recipe("w", {5, 7}, "muon")});
  const GroupPlan& group = plan.groups[0];
  const auto offsets = lane_offsets(group, 0);
  ASSERT_EQ(offsets.size(), group.lane_bytes.size());
  for (size_t lane = 0; lane < offsets.size(); ++lane) {
    EXPECT_EQ(offsets[lane] % 64, 0);
    const int64_t end = lane + 1 < offsets.size() ? offsets[lane + 1] : member_bytes(group, 0);
    EXPECT_GE(end - offsets[lane], group.lane_bytes[lane]);
  }
}

TEST(Plan, BatchesObeyTheMemoryCap) {
  std::vector<PlannedParameter> matrices;
  for (int i = 0; i < 7; ++i) matrices.push_back(planned_recipe("w" + std::to_string(i), {16, 24}, "muon"));
  PlanOptions options;
  const StepPlan whole = plan_of(matrices, options);
  ASSERT_EQ(whole.groups.size(), 1U);
  EXPECT_EQ(whole.groups[0].members_per_batch, 7);
  EXPECT_EQ(whole.launches.size(), whole.groups[0].steps.size());
  const int64_t each = member_bytes(whole.groups[0], 0);
  options.batch_bytes = 3 * each + each / 2;
  const StepPlan capped = plan_of(matrices, options);
  EXPECT_EQ(capped.groups[0].members_per_batch, 3);
  EXPECT_EQ(capped.groups[0].batches(), 3);
  EXPECT_LE(capped.workspace_bytes, options.batch_bytes);
  EXPECT_EQ(capped.launches.back().first_member, 6U);
  EXPECT_EQ(capped.launches.back().count, 1U);
  options.batch_bytes = 1;
  EXPECT_EQ(plan_of(matrices, options).groups[0].members_per_batch, 1);
  options = plan_options(ir::Mode::Default, {"batch"});
  EXPECT_EQ(plan_of(matrices, options).groups[0].batches(), 7);
}

TEST(Plan, HorizontalFusionOnAndOff) {
  std::vector<PlannedParameter> vectors;
  for (int i = 1; i <= 5; ++i) vectors.push_back(planned_recipe("w" + std::to_string(i), {i, 3}, "adamw"));
  EXPECT_EQ(plan_of(vectors).launches.size(), 1U);
  const StepPlan off = plan_of(vectors, plan_options(ir::Mode::Default, {"horizontal"}));
  EXPECT_EQ(off.launches.size(), 5U);
  EXPECT_EQ(off.groups.size(), 1U);
}

TEST(Plan, EmptyParametersAreLeftOut) {
  const std::vector<PlannedParameter> parameters{planned_recipe("none", {0}, "adamw"),
                                                 planned_recipe("some", {3}, "adamw"),
                                                 planned_recipe("flat", {0, 5}, "muon")};
  const StepPlan plan = plan_of(parameters);
  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups[0].members, std::vector<uint32_t>{1});
  EXPECT_TRUE(plan_of({parameters[0]}).launches.empty());
}

TEST(Plan, EqualRulesShareAGroup) {
  const auto groups = [](const PlannedParameter& a, const PlannedParameter& b) {
    return plan_of({a, b}).groups.size();
  };
  const PlannedParameter adamw = planned_recipe("a", {4}, "adamw");
  EXPECT_EQ(groups(adamw, planned_recipe("b", {9, 9}, "adamw")), 1U);
  EXPECT_EQ(groups(adamw, planned_recipe("b", {4}, "adamw", {{"lr", "0.5"}, {"betas", "0.5,0.6"}})), 1U)
      << "defaults of hyperparameters are no part of a plan";
  EXPECT_EQ(groups(adamw, planned_recipe("b", {4}, "adamw", {{"amsgrad", "true"}})), 2U);
  EXPECT_EQ(groups(adamw, planned_recipe("b", {4}, "sgd")), 2U);
  const PlannedParameter muon = planned_recipe("a", {8, 12}, "muon");
  EXPECT_EQ(groups(muon, planned_recipe("b", {8, 12}, "muon", {{"weight_decay", "0"}})), 1U);
  EXPECT_EQ(groups(muon, planned_recipe("b", {12, 8}, "muon")), 2U);
  EXPECT_EQ(groups(muon, planned_recipe("b", {8, 12}, "muon", {{"ns_coefficients", "2,-1.5,0.5"}})), 2U)
      << "constants are baked in";
  EXPECT_EQ(groups(planned("a", {4}, vector_rule("%r = axpy #lr, %g, %p : f32\n return %r -> %p\n")),
                   planned("b", {4}, vector_rule("%r = axpy #wd, %g, %p : f32\n return %r -> %p\n"))),
            2U)
      << "a rule reads its hyperparameters by name";
}

TEST(Plan, ARuleWithItsOwnShapeIsRefusedElsewhere) {
  const auto plan = make_plan({planned("w", {6, 4},
                                       matrix_rule("f32", 4, 6,
                                                   "%r = sub %p, %g : f32\n"
                                                   "return %r -> %p\n"))},
                              {});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, StatusCode::InvalidArgument);
  EXPECT_EQ(plan.error().message, "parameter 'w': rule r takes a parameter of shape [4, 6], got [6, 4]");
  EXPECT_FALSE(plan.error().hint.empty());
}

TEST(Plan, SymbolsMustAgree) {
  const std::string square =
      "recipe @r(%p: f32[N, N] param, %g: f32[N, N] grad) {\n%x = matmul %g, %p : f32\n"
      "%r = sub %p, %x : f32\n return %r -> %p\n}\n";
  EXPECT_TRUE(make_plan({planned("w", {3, 3}, square)}, {}).has_value());
  EXPECT_FALSE(make_plan({planned("w", {3, 4}, square)}, {}).has_value());
  EXPECT_FALSE(make_plan({planned("w", {9}, square)}, {}).has_value());
}

TEST(Plan, SaysWhatItCannotDo) {
  const auto turned =
      make_plan({planned("w", {4, 4},
                         "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n%t = transpose %p : f32\n"
                         "%x = matmul %g, %g, %t, 1, 1 : f32\n %r = add %x, %g : f32\n return %r -> %p\n}\n")},
                plan_options(ir::Mode::Default, {"orient"}));
  ASSERT_FALSE(turned.has_value());
  EXPECT_EQ(turned.error().code, StatusCode::Unsupported);
  EXPECT_THAT(turned.error().message, HasSubstr("C of the product %x is a transposed view"));
  const auto repeated =
      make_plan({planned("w", {2, 3, 4},
                         "recipe @r(%p: f32[2, 3, 4] param, %g: f32[2, 3, 4] grad, %a: f32[3, 4] state \"a\") {\n"
                         "%x = mul %g, %a : f32\n %n = norm %x {all} : f32\n %r = div %p, %n : f32\n"
                         "return %r -> %p\n}\n")},
                {});
  ASSERT_FALSE(repeated.has_value());
  EXPECT_EQ(repeated.error().code, StatusCode::Unsupported);
  EXPECT_THAT(repeated.error().message, HasSubstr("reduction over all of a batch"));
  EXPECT_THAT(repeated.error().hint, HasSubstr("'matrix' first"));
}

TEST(Plan, AnUnknownPassIsRefused) {
  const auto plan = make_plan({planned_recipe("w", {4}, "adamw")}, plan_options(ir::Mode::Default, {"fusee"}));
  ASSERT_FALSE(plan.has_value());
  EXPECT_THAT(plan.error().hint, HasSubstr("fuse"));
}

TEST(Plan, PrintsWhereEverythingLives) {
  const std::vector<PlannedParameter> parameters{planned_recipe("blocks.0.w", {16, 24}, "muon")};
  const std::string text = print_plan(plan_of(parameters), parameters);
  for (const char* part : {"plan: 1 groups", "for blocks.0.w [16, 24]", "in place over %buf", "in place over %p",
                           "scratch lane 0", "lane 0:", "per parameter", "product "})
    EXPECT_THAT(text, HasSubstr(part));
}

}  // namespace
}  // namespace stepfuse::compiler
