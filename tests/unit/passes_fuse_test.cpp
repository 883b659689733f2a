// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pass_fixture.h"

namespace stepfuse::compiler {
namespace {

/// `after` carries the placements; without them it is what goes in.
void expect_fused(std::string after) {
  std::string before = after;
  for (size_t at = before.find(" @"); at != std::string::npos; at = before.find(" @", at + 1))
    if (before.compare(at, 4, " @r(") != 0) before.erase(at, before.find('\n', at) - at);
  expect_pass("fuse", before, after);
}

TEST(Fuse, ElementwiseOpsOfOneShapeAreOneCluster) {
  expect_fused(
      vector_rule("%a = mul %p, (1 - #lr * #wd) : f32 @0.0\n %b = lerp %m, %g, 0.1 : f32 @0.0\n"
                  "%r = axpy (-#lr), %b, %a : f32 @0.0\n return %r -> %p, %b -> %m\n"));
}

TEST(Fuse, OpsThatShareNothingStillShareALaunch) {
  expect_fused(vector_rule("%a = neg %p : f32 @0.0\n %b = neg %m : f32 @0.0\n return %a -> %p, %b -> %m\n"));
}

TEST(Fuse, AReductionEndsAPhase) {
  expect_fused(matrix_rule("f32", 4, 6,
                           "%a = lerp %m, %g, 0.1 : f32 @0.0\n %n = norm %a {matrix} : f32 @0.0\n"
                           "%c = max %n, 1e-7 : f32 @0.1\n %x = div %a, %c : f32 @0.1\n"
                           "%r = axpy (-#lr), %x, %p : f32 @0.1\n return %r -> %p, %a -> %m\n"));
}

TEST(Fuse, MixedAxesAreCutIntoPhases) {
  // Rows and columns are cut differently, so they cannot share one pass over the matrix.
  expect_fused(matrix_rule("f32", 4, 6,
                           "%a = norm %g {rows} : f32 @0.0\n %b = norm %g {cols} : f32 @0.1\n"
                           "%c = norm %m {matrix} : f32 @0.2\n %x = div %g, %a : f32 @0.1\n"
                           "%y = div %x, %b : f32 @0.2\n %z = div %y, %c : f32 @0.3\n"
                           "%r = add %z, %p : f32 @0.3\n return %r -> %p\n"));
  // The whole of one matrix and all of it are the same cut.
  expect_fused(matrix_rule("f32", 4, 6,
                           "%a = norm %g {matrix} : f32 @0.0\n %b = norm %m {all} : f32 @0.0\n"
                           "%x = div %g, %a : f32 @0.1\n %y = div %x, %b : f32 @0.1\n"
                           "%r = add %y, %p : f32 @0.1\n return %r -> %p\n"));
}

TEST(Fuse, InABatchAllIsAnotherCutThanMatrix) {
  expect_fused(
      "recipe @r(%p: f32[2, 4, 6] param, %g: f32[2, 4, 6] grad) {\n"
      "%a = norm %g {matrix} : f32 @0.0\n %b = norm %g {all} : f32 @0.1\n %x = div %g, %a : f32 @0.1\n"
      "%y = div %x, %b : f32 @0.2\n %r = add %y, %p : f32 @0.2\n return %r -> %p\n}\n");
}

TEST(Fuse, ProductsSeparateStages) {
  expect_fused(matrix_rule("f32", 4, 6,
                           "%a = mul %g, 2 : f32 @0.0\n %x = matmul %s, %a : f32\n"
                           "%r = axpy (-#lr), %x, %p : f32 @1.0\n return %r -> %p\n"));
}

TEST(Fuse, OpsSinkToTheStageThatNeedsThem) {
  // The decayed parameter is needed after the product only: computing it there saves its write and read.
  expect_fused(matrix_rule("f32", 4, 6,
                           "%d = mul %p, (1 - #lr * #wd) : f32 @0.0\n %a = mul %g, 2 : f32 @1.0\n"
                           "%x = matmul %s, %a : f32\n %r = axpy (-#lr), %x, %d : f32 @0.0\n"
                           "return %r -> %p\n"));
}

TEST(Fuse, AnOpThatWouldReadMoreLaterStays) {
  // Half a matrix of bf16 is cheaper to keep than three matrices to read again.
  expect_fused(
      "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad, %m: f32[4, 4] state \"m\", %k: f32[4, 4] state \"k\") {\n"
      "%d = addcmul %p, %g, %m, %k : bf16 @0.0\n %a = mul %g, 2 : f32 @0.0\n %x = matmul %a, %a : f32\n"
      "%r = add %x, %d : f32 @1.0\n return %r -> %p\n}\n");
}

TEST(Fuse, OutputsStayWhereTheyAreMade) {
  expect_fused(matrix_rule("f32", 4, 6,
                           "%b = lerp %m, %g, 0.1 : f32 @0.0\n %x = matmul %s, %g : f32\n"
                           "%y = add %x, %b : f32 @1.0\n %r = sub %p, %y : f32 @1.0\n"
                           "return %r -> %p, %b -> %m\n"));
}

TEST(Fuse, AViewOfAFusedValueNeedsItInMemory) {
  expect_fused(
      "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n"
      "%a = mul %g, 2 : f32 @0.0\n %t = transpose %a : f32\n %r = add %p, %t : f32 @1.0\n"
      "return %r -> %p\n}\n");
  // A view of an input is there already.
  expect_fused(
      "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n"
      "%t = transpose %g : f32\n %a = mul %t, 2 : f32 @0.0\n %r = add %p, %a : f32 @0.0\n"
      "return %r -> %p\n}\n");
}

TEST(Fuse, SmallValuesJoinTheLargeOnesTheyFeed) {
  expect_fused(matrix_rule("f32", 4, 6,
                           "%a = norm %g {rows} : f32 @0.0\n %b = add %a, 1e-8 : f32 @0.1\n"
                           "%x = div %g, %b : f32 @0.1\n %r = add %x, %p : f32 @0.1\n"
                           "return %r -> %p\n"));
}

TEST(Fuse, AReductionOfASmallDomainHasItsOwnCluster) {
  // The norm of the row norms covers 4 elements, not 24: in the matrix's phase it would count each one six times.
  const std::string text = matrix_rule("f32", 4, 6,
                                       "%a = norm %g {rows} : f32\n %b = norm %a {matrix} : f32\n"
                                       "%x = div %g, %b : f32\n %r = add %x, %p : f32\n return %r -> %p\n");
  ir::Graph graph = rule_of(text);
  run_pass("fuse", graph);
  std::map<std::string, ir::Placement> placed;
  for (uint32_t i = 0; i < graph.size(); ++i)
    placed[graph.value_name(ir::ValueId{i})] = graph.placement(ir::ValueId{i});
  EXPECT_NE(placed["a"].cluster, placed["b"].cluster);
  EXPECT_NE(placed["b"].cluster, placed["x"].cluster);
}

TEST(Fuse, ClustersThatWouldWaitForEachOtherAreSplit) {
  // Two domains, each of which needs a value of the other.
  const std::string text =
      "recipe @r(%p: f32[4, 6] param, %g: f32[4, 6] grad, %a: f32[6, 4] state \"a\") {\n"
      "%x = norm %g {all} : f32\n %y = div %a, %x : f32\n %z = norm %y {all} : f32\n %r = div %p, %z : f32\n"
      "return %r -> %p, %y -> %a\n}\n";
  ir::Graph graph = rule_of(text);
  EXPECT_TRUE(run_pass("fuse", graph));
  EXPECT_FALSE(run_pass("fuse", graph));
}

TEST(Fuse, DropsWhatIsDead) {
  expect_pass("fuse", vector_rule("%a = add %g, %m : f32\n %r = neg %p : f32\n return %r -> %p\n"),
              vector_rule("%r = neg %p : f32 @0.0\n return %r -> %p\n"));
}

TEST(Fuse, RecordsEveryCluster) {
  const auto decisions = decisions_of("fuse", matrix_rule("f32", 4, 6,
                                                          "%a = mul %g, 2 : f32\n %x = matmul %s, %a : f32\n"
                                                          "%y = add %x, %m : f32\n %r = axpy (-#lr), %y, %p : f32\n"
                                                          "return %r -> %p\n"));
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].subject, "r cluster 0");
  EXPECT_THAT(decisions[0].why, testing::HasSubstr("1 ops"));
  EXPECT_THAT(decisions[1].why, testing::HasSubstr("2 ops"));
  EXPECT_THAT(decisions[1].why, testing::HasSubstr("1 phase"));
}

}  // namespace
}  // namespace stepfuse::compiler
