// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The group passes at the two ends of an orthogonalised update: fold_norm, absorb_update.
#include "tests/unit/pass_fixture.h"

namespace stepfuse::compiler {
namespace {

std::string wide(const std::string& body, const std::string& outputs = "%r -> %p") {
  return matrix_rule("f32", 4, 6, body + "return " + outputs + "\n");
}

TEST(FoldNorm, TheInverseGoesIntoAlphaAndBeta) {
  // X = G / n is A and B of the first product (1/n twice) and B of the second.
  expect_pass(
      "fold_norm",
      wide("%n = norm %g {matrix} : f32\n %x = div %g, %n : f32\n %a = matmul %x, %x {tb} : f32\n"
           "%y = matmul %a, %x, 2 : f32\n %r = add %y, %p : f32\n"),
      wide("%n = norm %g {matrix} : f32\n %div_1 = div 1, %n : f32\n %mul_1 = mul %div_1, %div_1 : f32\n"
           "%a = matmul %g, %g, %mul_1 {tb} : f32\n %mul_2 = mul 2, %div_1 : f32\n %y = matmul %a, %g, %mul_2 : f32\n"
           "%r = add %y, %p : f32\n"));
}

TEST(FoldNorm, CTakesItIntoBeta) {
  expect_pass(
      "fold_norm",
      wide("%n = norm %g {matrix} : f32\n %x = div %g, %n : f32\n"
           "%y = matmul %s, %x, %x, 2, #lr : f32\n %r = add %y, %p : f32\n"),
      wide("%n = norm %g {matrix} : f32\n %div_1 = div 1, %n : f32\n %mul_1 = mul 2, %div_1 : f32\n"
           "%mul_2 = mul #lr, %div_1 : f32\n %y = matmul %s, %g, %g, %mul_1, %mul_2 : f32\n %r = add %y, %p : f32\n"));
}

const std::string kWithNorm =
    wide("%n = norm %g {matrix} : f32\n %x = div %g, %n : f32\n %y = matmul %s, %x : f32\n %r = add %y, %p : f32\n");

TEST(FoldNorm, ABatchKeepsTheDivision) {
  const PassContext batch = context_of(ir::Mode::Default, 2);
  expect_untouched("fold_norm", kWithNorm, batch);
  const auto decisions = decisions_of("fold_norm", kWithNorm, batch);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_FALSE(decisions[0].taken);
  EXPECT_THAT(decisions[0].why, testing::HasSubstr("2 matrices run as batches"));
}

TEST(FoldNorm, AReaderThatIsNoProductKeepsTheDivision) {
  expect_untouched("fold_norm", wide("%n = norm %g {matrix} : f32\n %x = div %g, %n : f32\n"
                                     "%y = matmul %s, %x : f32\n %r = add %y, %x : f32\n"));
  expect_untouched("fold_norm", wide("%n = norm %g {matrix} : f32\n %x = div %g, %n : f32\n"
                                     "%y = matmul %s, %x : f32\n %r = add %y, %p : f32\n",
                                     "%r -> %p, %x -> %m"));
  expect_untouched("fold_norm", wide("%n = norm %g {matrix} : f32\n %x = div %g, %n : f32\n %r = add %x, %p : f32\n"));
}

TEST(FoldNorm, OnlyOneElementDivisorsFold) {
  expect_untouched("fold_norm", wide("%n = norm %g {rows} : f32\n %x = div %g, %n : f32\n %y = matmul %s, %x : f32\n"
                                     "%r = add %y, %p : f32\n"));
  // A scalar of the step is no tensor: absorb_scale and the scalar graph have it.
  expect_untouched("fold_norm", wide("%x = div %g, #lr : f32\n %y = matmul %s, %x : f32\n %r = add %y, %p : f32\n"));
}

TEST(FoldNorm, ARoundingStaysWhereItIs) {
  expect_untouched("fold_norm",
                   "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n%n = norm %g {matrix} : f32\n"
                   "%x = div %g, %n : bf16\n %y = matmul %x, %x : f32\n %r = add %y, %p : f32\n return %r -> %p\n}\n");
}

TEST(FoldNorm, OneColumnMatricesAreMatrices) {
  // u has one element per row: it is no one-element tensor, and its division folds as any other.
  expect_pass("fold_norm",
              matrix_rule("f32", 4, 1,
                          "%n = norm %g {matrix} : f32\n %x = div %g, %n : f32\n"
                          "%y = matmul %s, %x : f32\n %r = add %y, %p : f32\n return %r -> %p\n"),
              matrix_rule("f32", 4, 1,
                          "%n = norm %g {matrix} : f32\n %div_1 = div 1, %n : f32\n"
                          "%y = matmul %s, %g, %div_1 : f32\n %r = add %y, %p : f32\n return %r -> %p\n"));
}

TEST(AbsorbUpdate, TheLastProductWritesTheParameter) {
  // p - lr (2 S G + 3 G) with decay is one product over S + 1.5 I.
  expect_pass("absorb_update",
              wide("%x = matmul %s, %g, %g, 2, 3 : f32\n %d = mul %p, #wd : f32\n %r = axpy (-#lr), %x, %d : f32\n"),
              wide("%adddiag_1 = adddiag %s, 1.5 : f32\n %r = matmul %adddiag_1, %g, %p, (-#lr * 2), #wd : f32\n"));
  expect_pass("absorb_update", wide("%x = matmul %s, %g, %g, 1, #wd : f32\n %r = axpy (-#lr), %x, %p : f32\n"),
              wide("%adddiag_1 = adddiag %s, (#wd / 1) : f32\n %r = matmul %adddiag_1, %g, %p, (-#lr), 1 : f32\n"));
}

TEST(AbsorbUpdate, TallMatricesHaveTheSquareOnTheRight) {
  const auto rule = [](const std::string& body) {
    return "recipe @r(%p: f32[6, 4] param, %g: f32[6, 4] grad, %s: f32[4, 4] state \"s\", #lr: group = 0.1) {\n" +
           body + "return %r -> %p\n}\n";
  };
  expect_pass("absorb_update", rule("%x = matmul %g, %s, %g, 2, 3 {tb} : f32\n %r = axpy (-#lr), %x, %p : f32\n"),
              rule("%adddiag_1 = adddiag %s, 1.5 : f32\n %r = matmul %g, %adddiag_1, %p, (-#lr * 2), 1 {tb} : f32\n"));
}

struct Untouched {
  const char* name;
  std::string text;
};

TEST(AbsorbUpdate, WhatItMustNotTouch) {
  const std::vector<Untouched> cases{
      {"alpha 0 has no inverse", wide("%x = matmul %s, %g, %g, 0, 3 : f32\n %r = axpy (-#lr), %x, %p : f32\n")},
      {"alpha not known", wide("%x = matmul %s, %g, %g, #wd, 3 : f32\n %r = axpy (-#lr), %x, %p : f32\n")},
      {"beta is a tensor",
       wide("%n = norm %g {matrix} : f32\n %x = matmul %s, %g, %g, 2, %n : f32\n %r = axpy (-#lr), %x, %p : f32\n")},
      {"C is no factor", wide("%x = matmul %s, %g, %m, 2, 3 : f32\n %r = axpy (-#lr), %x, %p : f32\n")},
      {"two readers",
       wide("%x = matmul %s, %g, %g, 2, 3 : f32\n %r = axpy (-#lr), %x, %p : f32\n", "%r -> %p, %x -> %m")},
      {"the update of a state, not of the parameter",
       wide("%x = matmul %s, %g, %g, 2, 3 : f32\n %r = axpy (-#lr), %x, %m : f32\n %q = neg %p : f32\n",
            "%q -> %p, %r -> %m")},
      {"no square factor",
       "recipe @r(%p: f32[4, 6] param, %g: f32[4, 6] grad, %a: f32[4, 6] state \"a\", %b: f32[6, 6] state \"b\") {\n"
       "%x = matmul %a, %b, %g, 2, 3 : f32\n %r = axpy 2, %x, %p : f32\n return %r -> %p\n}\n"},
      {"the factor is read transposed, C is not",
       "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad, %s: f32[4, 4] state \"s\") {\n"
       "%x = matmul %s, %g, %g, 2, 3 {tb} : f32\n %r = axpy 2, %x, %p : f32\n return %r -> %p\n}\n"},
      {"the addend is a transposed view",
       "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad, %s: f32[4, 4] state \"s\") {\n"
       "%t = transpose %p : f32\n %x = matmul %s, %g, %g, 2, 3 : f32\n %r = axpy 2, %x, %t : f32\n"
       "return %r -> %p\n}\n"},
      {"the addend repeats",
       wide("%n = norm %p {rows} : f32\n %x = matmul %s, %g, %g, 2, 3 : f32\n %r = axpy (-#lr), %x, %n : f32\n")}};
  for (const Untouched& c : cases) {
    SCOPED_TRACE(c.name);
    expect_untouched("absorb_update", c.text);
  }
}

TEST(AbsorbUpdate, AnF64SumKeepsItsKernel) {
  expect_untouched("absorb_update",
                   "recipe @r(%p: f64[4, 4] param, %g: f32[4, 4] grad, %s: f32[4, 4] state \"s\") {\n"
                   "%x = matmul %s, %g, %g, 2, 3 : f32\n %r = axpy 2, %x, %p : f64\n return %r -> %p\n}\n");
}

TEST(AbsorbScale, AnF64SumKeepsItsKernel) {
  const std::string head = "recipe @r(%p: f64[4, 4] param, %g: f32[4, 4] grad, %s: f32[4, 4] state \"s\") {\n";
  expect_untouched("absorb_scale", head + "%x = matmul %s, %g : f32\n %r = add %x, %p : f64\n return %r -> %p\n}\n");
  expect_untouched("absorb_scale", head +
                                       "%x = matmul %s, %g : f32\n %y = mul %x, 2 : f64\n %r = sub %p, %y : f64\n"
                                       "return %r -> %p\n}\n");
}

}  // namespace
}  // namespace stepfuse::compiler
