// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The plan verifier finds plans that were broken by hand.
#include "tests/unit/plan_fixture.h"

#include <algorithm>

namespace stepfuse::compiler {
namespace {

using testing::Contains;
using testing::HasSubstr;

StepPlan muon_plan() { return plan_of({planned_recipe("w", {16, 24}, "muon")}, plan_options(ir::Mode::Strict)); }

GroupPlan& group_of(StepPlan& plan) { return plan.groups[0]; }

void expect_problem(const StepPlan& plan, const std::string& text) {
  EXPECT_THAT(verify_plan(plan), Contains(HasSubstr(text)));
}

TEST(VerifyPlan, AcceptsWhatIsSound) {
  EXPECT_THAT(verify_plan(muon_plan()), testing::IsEmpty());
  EXPECT_THAT(verify_plan({}), testing::IsEmpty());
}

TEST(VerifyPlan, AMissingSlot) {
  StepPlan plan = muon_plan();
  group_of(plan).slots[value_named(group_of(plan).graph, "gram").v] = {};
  expect_problem(plan, "%gram is read but has no memory");
}

TEST(VerifyPlan, StepsInTheWrongOrder) {
  StepPlan plan = muon_plan();
  auto& steps = group_of(plan).steps;
  const auto product =
      std::find_if(steps.begin(), steps.end(), [](const GroupStep& s) { return s.kind == StepKind::Product; });
  ASSERT_NE(product, steps.end());
  std::rotate(steps.begin(), product, product + 1);
  EXPECT_THAT(verify_plan(plan), testing::Not(testing::IsEmpty()));
}

TEST(VerifyPlan, AMissingStep) {
  StepPlan plan = muon_plan();
  group_of(plan).steps.erase(group_of(plan).steps.begin());
  expect_problem(plan, "is read before it is written");
}

TEST(VerifyPlan, TwoLivingBuffersInOneLane) {
  StepPlan plan = muon_plan();
  for (ScratchBuffer& buffer : group_of(plan).buffers) buffer.lane = 0;
  expect_problem(plan, "took its place");
}

TEST(VerifyPlan, AnOverwrittenInput) {
  // The old momentum is read after the new one was stored over it.
  StepPlan plan = plan_of(
      "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad, %m: f32[4, 4] state \"m\") {\n"
      "%a = lerp %m, %g, 0.1 : f32\n %x = matmul %a, %m : f32\n %r = sub %p, %x : f32\n"
      "return %r -> %p, %a -> %m\n}\n",
      {4, 4});
  GroupPlan& group = group_of(plan);
  group.slots[value_named(group.graph, "a").v] = input_slot(group, "m");
  expect_problem(plan, "%m is read after %a took its place");
}

TEST(VerifyPlan, AnOverwriteOfElementsOthersRead) {
  StepPlan plan = plan_of(
      "recipe @turn(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n"
      "%t = transpose %p : f32\n %r = sub %t, %g : f32\n return %r -> %p\n}\n",
      {4, 4});
  GroupPlan& group = group_of(plan);
  group.slots[value_named(group.graph, "r").v] = input_slot(group, "p");
  expect_problem(plan, "%r overwrites %p while other elements of it are read");
}

TEST(VerifyPlan, AProductOverItsFactor) {
  StepPlan plan = plan_of(
      "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n"
      "%r = matmul %g, %p : f32\n return %r -> %p\n}\n",
      {4, 4});
  GroupPlan& group = group_of(plan);
  group.slots[value_named(group.graph, "r").v] = input_slot(group, "p");
  expect_problem(plan, "%r overwrites %p");
}

TEST(VerifyPlan, AnOutputThatDoesNotArrive) {
  StepPlan plan = plan_of(
      "recipe @twice(%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\") {\n"
      "%r = sub %p, %g : f32\n return %r -> %p, %r -> %a\n}\n",
      {10});
  ASSERT_EQ(group_of(plan).steps.back().kind, StepKind::Copy);
  group_of(plan).steps.pop_back();
  expect_problem(plan, "%r does not end up in %a");
}

TEST(VerifyPlan, ACopyOfNothing) {
  StepPlan plan = plan_of(
      "recipe @keep(%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\") {\n"
      "%r = sub %p, %g : f32\n return %r -> %p, %p -> %a\n}\n",
      {10});
  group_of(plan).steps.erase(group_of(plan).steps.begin());
  expect_problem(plan, "copies memory that was never written");
}

TEST(VerifyPlan, LaunchesThatMissOrRepeatMembers) {
  StepPlan short_plan = muon_plan();
  short_plan.launches.pop_back();
  expect_problem(short_plan, "launches cover 0 of 1 members");
  StepPlan repeated = muon_plan();
  repeated.launches.push_back(repeated.launches.back());
  expect_problem(repeated, "launches cover 2 of 1 members");
}

}  // namespace
}  // namespace stepfuse::compiler
