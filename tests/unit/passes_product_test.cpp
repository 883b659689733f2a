// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The group passes around products: orient, absorb_scale, widen_products, mark_symmetric.
#include "tests/unit/pass_fixture.h"

namespace stepfuse::compiler {
namespace {

/// A body over 4 x 6 matrices that ends by writing %r (4 x 6) to %p.
std::string wide(const std::string& body) { return matrix_rule("f32", 4, 6, body + "return %r -> %p\n"); }
/// ... over 6 x 4 matrices.
std::string tall(const std::string& body) { return matrix_rule("f32", 6, 4, body + "return %r -> %p\n"); }

TEST(Orient, TransposesBecomeFlags) {
  expect_pass("orient",
              wide("%t = transpose %m : f32\n %a = matmul %g, %t : f32\n %b = matmul %a, %p : f32\n"
                   "%r = add %b, %p : f32\n"),
              wide("%a = matmul %g, %m {tb} : f32\n %b = matmul %a, %p : f32\n %r = add %b, %p : f32\n"));
  // A flag and a transpose cancel.
  expect_pass("orient",
              wide("%t = transpose %m : f32\n %a = matmul %t, %g {ta, tb} : f32\n %b = matmul %a, %p : f32\n"
                   "%r = add %b, %p : f32\n"),
              wide("%a = matmul %m, %g {tb} : f32\n %b = matmul %a, %p : f32\n %r = add %b, %p : f32\n"));
}

TEST(Orient, ElementwiseOpsLetTransposesThrough) {
  expect_pass("orient",
              wide("%t = transpose %m : f32\n %u = transpose %g : f32\n %a = axpy #lr, %t, %u : f32\n"
                   "%b = transpose %a : f32\n %r = add %b, %p : f32\n"),
              wide("%a = axpy #lr, %m, %g : f32\n %r = add %a, %p : f32\n"));
  // A one-element companion is its own transpose.
  expect_pass("orient",
              wide("%n = norm %g {matrix} : f32\n %t = transpose %m : f32\n %a = div %t, %n : f32\n"
                   "%b = transpose %a : f32\n %r = add %b, %p : f32\n"),
              wide("%n = norm %g {matrix} : f32\n %a = div %m, %n : f32\n %r = add %a, %p : f32\n"));
}

TEST(Orient, AMixOfTransposedAndPlainOperandsStays) {
  const std::string text =
      "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n%t = transpose %g : f32\n %r = add %t, %p : f32\n"
      "return %r -> %p\n}\n";
  expect_untouched("orient", text);
}

TEST(Orient, AFactorPerRowIsTransposedAsWell) {
  expect_pass("orient",
              wide("%n = norm %g {rows} : f32\n %t = transpose %m : f32\n %u = transpose %n : f32\n"
                   "%a = div %t, %u : f32\n %x = matmul %p, %a : f32\n %y = matmul %x, %m : f32\n"
                   "%r = add %y, %p : f32\n"),
              wide("%n = norm %g {rows} : f32\n %a = div %m, %n : f32\n %x = matmul %p, %a {tb} : f32\n"
                   "%y = matmul %x, %m : f32\n %r = add %y, %p : f32\n"));
  // A row that is not transposed meets other columns.
  expect_untouched("orient",
                   wide("%n = norm %p {cols} : f32\n %t = transpose %s : f32\n %k = slice %n {dim=1, begin=0, "
                        "end=4} : f32\n %a = div %t, %k : f32\n %b = neg %a : f32\n"
                        "%x = norm %b {all} : f32\n %r = mul %p, %x : f32\n"));
}

/// Newton-Schulz on a tall matrix as the recipe writes it: transposed, iterated, transposed back.
TEST(Orient, ATallIterationRunsAsStored) {
  expect_pass("orient",
              tall("%x = transpose %g : f32\n %gram = matmul %x, %x {tb} : f32\n %y = matmul %gram, %x : f32\n"
                   "%z = axpy #wd, %x, %y : f32\n %u = transpose %z : f32\n %r = axpy #lr, %u, %p : f32\n"),
              tall("%gram = matmul %g, %g {ta} : f32\n %y = matmul %g, %gram {tb} : f32\n"
                   "%z = axpy #wd, %g, %y : f32\n %r = axpy #lr, %z, %p : f32\n"));
}

TEST(AbsorbScale, ScaleAndAddBecomeAlphaAndBeta) {
  expect_pass("absorb_scale",
              wide("%x = matmul %s, %g : f32\n %sx = mul %x, #lr : f32\n %sp = mul %p, #wd : f32\n"
                   "%r = add %sp, %sx : f32\n"),
              wide("%r = matmul %s, %g, %p, #lr, #wd : f32\n"));
  expect_pass("absorb_scale", wide("%x = matmul %s, %g : f32\n %r = add %x, %p : f32\n"),
              wide("%r = matmul %s, %g, %p, 1, 1 : f32\n"));
  expect_pass("absorb_scale", wide("%x = matmul %s, %g : f32\n %r = axpy (-#lr), %x, %p : f32\n"),
              wide("%r = matmul %s, %g, %p, (-#lr), 1 : f32\n"));
}

TEST(AbsorbScale, DifferencesNegateAFactor) {
  expect_pass("absorb_scale", wide("%x = matmul %s, %g : f32\n %r = sub %p, %x : f32\n"),
              wide("%r = matmul %s, %g, %p, -1, 1 : f32\n"));
  expect_pass("absorb_scale", wide("%x = matmul %s, %g : f32\n %r = sub %x, %p : f32\n"),
              wide("%r = matmul %s, %g, %p, 1, -1 : f32\n"));
}

TEST(AbsorbScale, FactorsMultiply) {
  expect_pass("absorb_scale", wide("%x = matmul %s, %g, 3 : f32\n %y = mul %x, 2 : f32\n %r = add %p, %y : f32\n"),
              wide("%r = matmul %s, %g, %p, 6, 1 : f32\n"));
  expect_pass("absorb_scale", wide("%x = matmul %s, %g : f32\n %r = mul 2, %x : f32\n"),
              wide("%r = matmul %s, %g, 2 : f32\n"));
}

TEST(AbsorbScale, TwoReadersKeepTheProduct) {
  expect_untouched("absorb_scale", wide("%x = matmul %s, %g : f32\n %y = add %x, %p : f32\n %r = mul %x, %y : f32\n"));
  expect_untouched("absorb_scale", wide("%x = matmul %s, %g : f32\n %y = mul %x, 2 : f32\n %r = mul %x, %y : f32\n"));
  expect_untouched("absorb_scale", matrix_rule("f32", 4, 6,
                                               "%x = matmul %s, %g : f32\n %r = add %x, %p : f32\n"
                                               "return %r -> %p, %x -> %m\n"));
}

TEST(AbsorbScale, ScaledProductWithTwoReadersKeepsItsScale) {
  expect_untouched("absorb_scale", matrix_rule("f32", 4, 6,
                                               "%n = norm %g {matrix} : f32\n %x = matmul %s, %g, %n : f32\n"
                                               "%y = add %x, %m : f32\n %r = sub %x, %y : f32\n return %r -> %p\n"));
}

TEST(AbsorbScale, CMustHaveTheShapeOfTheProduct) {
  // A row repeats over the product; C cannot.
  expect_untouched("absorb_scale", wide("%x = matmul %s, %g : f32\n %n = norm %p {cols} : f32\n"
                                        "%r = add %x, %n : f32\n"));
  expect_untouched("absorb_scale", wide("%n = norm %p {rows} : f32\n %k = norm %g {cols} : f32\n"
                                        "%x = matmul %n, %k : f32\n %y = norm %x {matrix} : f32\n"
                                        "%r = sub %p, %y : f32\n"));
}

TEST(AbsorbScale, ATransposedCIsLeftAlone) {
  expect_untouched("absorb_scale",
                   "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n%t = transpose %p : f32\n"
                   "%x = matmul %g, %g : f32\n %r = add %x, %t : f32\n return %r -> %p\n}\n");
}

TEST(AbsorbScale, AProductWithCIsFull) {
  expect_untouched("absorb_scale", wide("%x = matmul %s, %g, %m, 2, 3 : f32\n %y = neg %g : f32\n"
                                        "%r = add %x, %y : f32\n"));
}

TEST(AbsorbScale, TheSecondProductOfASumTakesTheFirstAsC) {
  expect_pass("absorb_scale", wide("%x = matmul %s, %g : f32\n %y = matmul %s, %m : f32\n %r = add %x, %y : f32\n"),
              wide("%x = matmul %s, %g : f32\n %r = matmul %s, %m, %x, 1, 1 : f32\n"));
}

TEST(AbsorbScale, ChangesNothingWhereThereIsNothing) {
  // Constants that a rule looks at must not move in the text or count as a change.
  expect_untouched("absorb_scale", wide("%a = add %g, %m : f32\n %b = sub %a, %p : f32\n %c = mul %b, (1 - #lr) : f32\n"
                                        "%r = axpy (-#wd), %c, %p : f32\n"));
  expect_untouched("absorb_update", wide("%a = add %g, %m : f32\n %c = mul %p, (1 - #lr) : f32\n"
                                         "%r = axpy (-#wd), %a, %c : f32\n"));
  expect_untouched("absorb_update", wide("%r = axpy (1 - #wd), %g, %p : f32\n"));
}

const std::string kBf16Iteration =
    "recipe @r(%p: f32[4, 6] param, %g: f32[4, 6] grad, #lr: group = 0.1) {\n"
    "%u = cast %g : bf16\n %x = div %u, 3 : bf16\n %gram = matmul %x, %x {tb} : bf16\n"
    "%y = matmul %gram, %x : f32\n %z = add %y, %x : bf16\n %r = axpy #lr, %z, %p : f32\n return %r -> %p\n}\n";

TEST(WidenProducts, TheIterationRunsInF32) {
  expect_pass(
      "widen_products", kBf16Iteration,
      "recipe @r(%p: f32[4, 6] param, %g: f32[4, 6] grad, #lr: group = 0.1) {\n"
      "%x = div %g, 3 : f32\n %gram = matmul %x, %x {tb} : f32\n"
      "%y = matmul %gram, %x : f32\n %z = add %y, %x : f32\n %r = axpy #lr, %z, %p : f32\n return %r -> %p\n}\n");
}

TEST(WidenProducts, StaysWhereThereAreBf16Units) {
  const PassContext units = context_of(ir::Mode::Default, 1, {"a cpu with amx", true, true});
  expect_untouched("widen_products", kBf16Iteration, units);
  const auto decisions = decisions_of("widen_products", kBf16Iteration, units);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_FALSE(decisions[0].taken);
  EXPECT_THAT(decisions[0].why, testing::HasSubstr("a cpu with amx"));
}

TEST(WidenProducts, WithoutAProductNothingIsWidened) {
  expect_untouched("widen_products",
                   "recipe @r(%p: f32[N] param, %g: f32[N] grad) {\n%u = cast %g : bf16\n"
                   "%r = add %p, %u : f32\n return %r -> %p\n}\n");
}

TEST(WidenProducts, OutputsKeepTheirType) {
  expect_pass("widen_products",
              "recipe @r(%p: bf16[4, 4] param, %g: f32[4, 4] grad, %m: bf16[4, 4] state \"m\") {\n"
              "%n = lerp %m, %g, 0.1 : bf16\n %x = div %n, 2 : bf16\n %y = matmul %x, %x : bf16\n"
              "%r = sub %p, %y : bf16\n return %r -> %p, %n -> %m\n}\n",
              "recipe @r(%p: bf16[4, 4] param, %g: f32[4, 4] grad, %m: bf16[4, 4] state \"m\") {\n"
              "%n = lerp %m, %g, 0.1 : bf16\n %x = div %n, 2 : f32\n %y = matmul %x, %x : f32\n"
              "%r = sub %p, %y : bf16\n return %r -> %p, %n -> %m\n}\n");
}

TEST(WidenProducts, FactorsKeepOneType) {
  // %g comes in bf16 and %x is widened: a product takes operands of one type.
  expect_pass(
      "widen_products",
      "recipe @r(%p: bf16[4, 4] param, %g: bf16[4, 4] grad) {\n%x = add %g, %p : bf16\n"
      "%y = matmul %x, %g {tb} : f32\n %r = add %p, %y : bf16\n return %r -> %p\n}\n",
      "recipe @r(%p: bf16[4, 4] param, %g: bf16[4, 4] grad) {\n%x = add %g, %p : f32\n"
      "%cast_1 = cast %g : f32\n %y = matmul %x, %cast_1 {tb} : f32\n %r = add %p, %y : bf16\n return %r -> %p\n}\n");
}

TEST(WidenProducts, ConcatenationsKeepOneType) {
  expect_pass("widen_products",
              "recipe @r(%p: bf16[8, 4] param, %g: bf16[8, 4] grad, %m: bf16[4, 4] state \"m\") {\n%x = neg %m : bf16\n"
              "%c = concat %x, %m {dim=0} : bf16\n %y = matmul %c, %x : f32\n %r = add %p, %y : bf16\n"
              "return %r -> %p\n}\n",
              "recipe @r(%p: bf16[8, 4] param, %g: bf16[8, 4] grad, %m: bf16[4, 4] state \"m\") {\n%x = neg %m : f32\n "
              "%cast_1 = cast %m : f32\n"
              "%c = concat %x, %cast_1 {dim=0} : f32\n %y = matmul %c, %x : f32\n %r = add %p, %y : bf16\n"
              "return %r -> %p\n}\n");
}

TEST(WidenProducts, ProductsOfBoundMatricesAreNoIteration) {
  expect_untouched("widen_products",
                   "recipe @r(%p: bf16[4, 4] param, %g: bf16[4, 4] grad) {\n"
                   "%y = matmul %g, %g {tb} : f32\n %r = add %p, %y : bf16\n return %r -> %p\n}\n");
}

TEST(MarkSymmetric, GramMatricesAndTheirPolynomials) {
  expect_pass("mark_symmetric",
              wide("%a = matmul %g, %g {tb} : f32\n %b = matmul %a, %a : f32\n %c = axpy #lr, %b, %a : f32\n"
                   "%d = matmul %c, %c, %a, 2, 3 : f32\n %x = matmul %d, %g : f32\n %r = add %x, %p : f32\n"),
              wide("%a = matmul %g, %g {tb, sym} : f32\n %b = matmul %a, %a {sym} : f32\n %c = axpy #lr, %b, %a : f32\n"
                   "%d = matmul %c, %c, %a, 2, 3 {sym} : f32\n %x = matmul %d, %g : f32\n %r = add %x, %p : f32\n"));
}

TEST(MarkSymmetric, WhatNeedNotBeSymmetric) {
  // Two factors, a product of two different symmetric matrices, C without symmetry, a square that is not known.
  expect_untouched("mark_symmetric", wide("%a = matmul %g, %m {tb} : f32\n %x = matmul %a, %g : f32\n"
                                          "%r = add %x, %p : f32\n"));
  expect_pass(
      "mark_symmetric",
      wide("%a = matmul %g, %g {tb} : f32\n %b = matmul %m, %m {tb} : f32\n %c = matmul %a, %b : f32\n"
           "%x = matmul %c, %g : f32\n %r = add %x, %p : f32\n"),
      wide("%a = matmul %g, %g {tb, sym} : f32\n %b = matmul %m, %m {tb, sym} : f32\n %c = matmul %a, %b : f32\n"
           "%x = matmul %c, %g : f32\n %r = add %x, %p : f32\n"));
  expect_untouched("mark_symmetric", wide("%a = matmul %g, %g, %s, 1, 1 {tb} : f32\n %x = matmul %a, %g : f32\n"
                                          "%r = add %x, %p : f32\n"));
  expect_untouched("mark_symmetric", wide("%a = matmul %s, %s : f32\n %x = matmul %a, %g : f32\n"
                                          "%r = add %x, %p : f32\n"));
}

TEST(MarkSymmetric, ARowOfFactorsBreaksSymmetry) {
  expect_pass("mark_symmetric",
              wide("%a = matmul %g, %g {tb} : f32\n %n = norm %a {rows} : f32\n %b = div %a, %n : f32\n"
                   "%c = matmul %b, %b : f32\n %x = matmul %c, %g : f32\n %r = add %x, %p : f32\n"),
              wide("%a = matmul %g, %g {tb, sym} : f32\n %n = norm %a {rows} : f32\n %b = div %a, %n : f32\n"
                   "%c = matmul %b, %b : f32\n %x = matmul %c, %g : f32\n %r = add %x, %p : f32\n"));
}

TEST(MarkSymmetric, SaysWhetherTheTargetUsesIt) {
  const std::string text = wide("%a = matmul %g, %g {tb} : f32\n %x = matmul %a, %g : f32\n %r = add %x, %p : f32\n");
  for (const bool used : {false, true}) {
    const auto decisions = decisions_of("mark_symmetric", text, context_of(ir::Mode::Default, 1, {"t", false, used}));
    ASSERT_EQ(decisions.size(), 1U);
    EXPECT_EQ(decisions[0].taken, used);
    EXPECT_EQ(decisions[0].saves.empty(), !used);
  }
}

}  // namespace
}  // namespace stepfuse::compiler
