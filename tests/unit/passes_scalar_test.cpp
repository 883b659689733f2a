// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The recipe passes that look at single ops: simplify, cse, dce, cast_sink.
#include "tests/unit/pass_fixture.h"

namespace stepfuse::compiler {
namespace {

struct BodyCase {
  const char* name;
  const char* before;
  const char* after;  // null: untouched
};

void expect_bodies(std::string_view pass, const std::vector<BodyCase>& cases) {
  for (const BodyCase& c : cases) {
    SCOPED_TRACE(c.name);
    expect_pass(pass, vector_rule(c.before), vector_rule(c.after == nullptr ? c.before : c.after));
  }
}

TEST(Simplify, RemovesWhatDoesNothing) {
  expect_bodies("simplify",
                {{"times one", "%a = mul %g, 1 : f32\n %r = add %p, %a : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"},
                 {"one times", "%a = mul 1, %g : f32\n %r = add %p, %a : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"},
                 {"by one", "%a = div %g, 1 : f32\n %r = add %p, %a : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"},
                 {"cast to itself", "%a = cast %g : f32\n %r = add %p, %a : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"},
                 {"minus minus", "%a = neg %g : f32\n %b = neg %a : f32\n %r = add %p, %b : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"},
                 {"select of one", "%a = select #lr, %g, %g : f32\n %r = add %p, %a : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"},
                 {"select by a constant", "%a = select 0, %m, %g : f32\n %r = add %p, %a : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"}});
}

TEST(Simplify, FoldsConstantScalars) {
  expect_bodies("simplify",
                {{"arithmetic", "%r = axpy (1 - 0.75), %g, %p : f32\n return %r -> %p\n",
                  "%r = axpy 0.25, %g, %p : f32\n return %r -> %p\n"},
                 {"then what does nothing", "%a = mul %g, (3 - 2) : f32\n %r = add %p, %a : f32\n return %r -> %p\n",
                  "%r = add %p, %g : f32\n return %r -> %p\n"},
                 {"select of scalars", "%r = axpy (select(gt(2, 1), #lr, #wd)), %g, %p : f32\n return %r -> %p\n",
                  "%r = axpy #lr, %g, %p : f32\n return %r -> %p\n"}});
}

TEST(Simplify, KeepsWhatCanMatter) {
  expect_bodies(
      "simplify",
      {{"x + 0 turns -0 into +0", "%a = add %g, 0 : f32\n %r = add %p, %a : f32\n return %r -> %p\n", nullptr},
       {"0 * x is NaN for inf", "%a = mul %g, 0 : f32\n %r = add %p, %a : f32\n return %r -> %p\n", nullptr},
       {"x - x is NaN for inf", "%a = sub %g, %g : f32\n %r = add %p, %a : f32\n return %r -> %p\n", nullptr},
       {"x / x is NaN for 0", "%a = div %g, %g : f32\n %r = add %p, %a : f32\n return %r -> %p\n", nullptr},
       {"hyperparameters are not constants", "%r = axpy (1 - #lr), %g, %p : f32\n return %r -> %p\n", nullptr},
       {"a rounding times one", "%a = mul %g, 1 : bf16\n %r = add %p, %a : f32\n return %r -> %p\n", nullptr},
       {"a narrowing cast", "%a = cast %g : bf16\n %r = add %p, %a : f32\n return %r -> %p\n", nullptr},
       {"a select by a tensor",
        "%c = lt %p, %g : bool\n %a = select %c, %m, %g : f32\n %r = add %p, %a : f32\n return %r -> %p\n", nullptr},
       {"minus rounded minus", "%a = neg %g : bf16\n %b = neg %a : f32\n %r = add %p, %b : f32\n return %r -> %p\n",
        nullptr}});
}

TEST(Simplify, ASelectThatRepeatsIsNotItsOperand) {
  expect_untouched("simplify",
                   "recipe @r(%p: f32[4, 4] param, %g: f32[4, 4] grad) {\n"
                   "%n = norm %g {rows} : f32\n %c = lt %p, %g : bool\n"
                   "%a = select %c, %n, %n : f32\n return %a -> %p\n}\n");
}

TEST(Simplify, TwoTransposesAreNone) {
  expect_pass("simplify",
              matrix_rule("f32", 3, 5,
                          "%a = transpose %g : f32\n %b = transpose %a : f32\n"
                          "%r = add %p, %b : f32\n return %r -> %p\n"),
              matrix_rule("f32", 3, 5, "%r = add %p, %g : f32\n return %r -> %p\n"));
}

TEST(Cse, MergesSwappedOperands) {
  expect_bodies(
      "cse",
      {{"a + b and b + a", "%a = add %p, %g : f32\n %b = add %g, %p : f32\n %r = mul %a, %b : f32\n return %r -> %p\n",
        "%a = add %p, %g : f32\n %r = mul %a, %a : f32\n return %r -> %p\n"},
       {"max", "%a = max %p, %g : f32\n %b = max %g, %p : f32\n %r = mul %a, %b : f32\n return %r -> %p\n",
        "%a = max %p, %g : f32\n %r = mul %a, %a : f32\n return %r -> %p\n"},
       {"transitively",
        "%a = mul %p, %g : f32\n %b = mul %g, %p : f32\n %c = add %a, %m : f32\n %d = add %m, %b : f32\n"
        "%r = sub %c, %d : f32\n return %r -> %p\n",
        "%a = mul %p, %g : f32\n %c = add %m, %a : f32\n %r = sub %c, %c : f32\n return %r -> %p\n"}});
}

TEST(Cse, KeepsWhatDiffers) {
  expect_bodies(
      "cse", {{"a - b and b - a",
               "%a = sub %p, %g : f32\n %b = sub %g, %p : f32\n %r = mul %a, %b : f32\n return %r -> %p\n", nullptr},
              {"another rounding",
               "%a = add %p, %g : f32\n %b = add %p, %g : bf16\n %r = mul %a, %b : f32\n return %r -> %p\n", nullptr},
              {"select is not commutative",
               "%c = lt %p, %m : bool\n %a = select %c, %p, %g : f32\n %b = select %c, %g, %p : f32\n"
               "%r = mul %a, %b : f32\n return %r -> %p\n",
               nullptr}});
}

TEST(Dce, DropsWhatNoOutputNeeds) {
  expect_bodies(
      "dce", {{"a chain",
               "%a = add %g, %m : f32\n %b = mul %a, (#lr * #wd) : f32\n"
               "%r = axpy #lr, %g, %p : f32\n return %r -> %p\n",
               "%r = axpy #lr, %g, %p : f32\n return %r -> %p\n"},
              {"inputs stay", "%r = neg %p : f32\n return %r -> %p\n", nullptr},
              {"a second output", "%a = add %g, %m : f32\n %r = neg %p : f32\n return %r -> %p, %a -> %m\n", nullptr}});
}

TEST(CastSink, RoundingMovesIntoTheProducer) {
  expect_bodies(
      "cast_sink",
      {{"narrowing of an f32 result",
        "%a = add %g, %m : f32\n %b = cast %a : bf16\n %r = add %p, %b : f32\n return %r -> %p\n",
        "%b = add %g, %m : bf16\n %r = add %p, %b : f32\n return %r -> %p\n"},
       {"f16 as well", "%a = mul %g, #lr : f32\n %b = cast %a : f16\n %r = add %p, %b : f32\n return %r -> %p\n",
        "%b = mul %g, #lr : f16\n %r = add %p, %b : f32\n return %r -> %p\n"},
       {"widening is done by the reader",
        "%a = add %g, %m : bf16\n %b = cast %a : f32\n %r = add %p, %b : f32\n return %r -> %p\n",
        "%a = add %g, %m : bf16\n %r = add %p, %a : f32\n return %r -> %p\n"},
       {"wide and back",
        "%a = add %g, %m : bf16\n %b = cast %a : f32\n %c = cast %b : bf16\n %r = add %p, %c : f32\n return %r -> %p\n",
        "%a = add %g, %m : bf16\n %r = add %p, %a : f32\n return %r -> %p\n"}});
}

TEST(CastSink, KeepsRoundingsOfTheRecipe) {
  expect_bodies(
      "cast_sink",
      {{"two readers of the wide value",
        "%a = add %g, %m : f32\n %b = cast %a : bf16\n %c = add %p, %b : f32\n %r = add %c, %a : f32\n return %r -> "
        "%p\n",
        nullptr},
       {"the wide value is an output",
        "%a = add %g, %m : f32\n %b = cast %a : bf16\n %r = add %p, %b : f32\n return %r -> %p, %a -> %m\n", nullptr},
       {"rounded to bf16 first, then to f16",
        "%a = add %g, %m : bf16\n %b = cast %a : f16\n %r = add %p, %b : f32\n return %r -> %p\n", nullptr},
       {"narrow and back again", "%a = cast %g : bf16\n %b = cast %a : f16\n %r = add %p, %b : f32\n return %r -> %p\n",
        nullptr},
       {"a select does not compute",
        "%a = select #lr, %g, %m : f32\n %b = cast %a : bf16\n %r = add %p, %b : f32\n return %r -> %p\n", nullptr}});
}

TEST(CastSink, DoubleRoundingThroughF32Stays) {
  const std::string head = "recipe @r(%p: f64[N] param, %g: f64[N] grad, #lr: group = 0.1) {\n";
  expect_untouched("cast_sink", head +
                                    "%a = mul %g, %p : f64\n %b = cast %a : f32\n %c = cast %b : bf16\n"
                                    "%r = add %p, %c : f64\n return %r -> %p\n}\n");
  // An f64 result may not become an f32 result: f64 arithmetic rounds to f64 first.
  expect_untouched("cast_sink", head +
                                    "%a = mul %g, %p : f64\n %b = cast %a : f32\n"
                                    "%r = add %p, %b : f64\n return %r -> %p\n}\n");
}

TEST(CastSink, AWideningThatChangesTheMathTypeStays) {
  // f64 arithmetic on f32 values is not f32 arithmetic.
  expect_untouched("cast_sink",
                   "recipe @r(%p: f32[N] param, %g: f32[N] grad) {\n"
                   "%a = cast %g : f64\n %b = mul %a, %a : f64\n %r = add %p, %b : f32\n"
                   "return %r -> %p\n}\n");
}

TEST(CastSink, BoolsAreNotNumbers) {
  expect_untouched("cast_sink", vector_rule("%a = lt %p, %g : bool\n %b = cast %a : f32\n %r = mul %p, %b : f32\n"
                                            "return %r -> %p\n"));
}

TEST(CastSink, AProductRoundsInPlace) {
  expect_pass("cast_sink",
              matrix_rule("f32", 4, 6,
                          "%a = matmul %g, %m {tb} : f32\n %b = cast %a : bf16\n"
                          "%r = add %s, %b : f32\n %q = neg %p : f32\n return %q -> %p, %r -> %s\n"),
              matrix_rule("f32", 4, 6,
                          "%b = matmul %g, %m {tb} : bf16\n"
                          "%r = add %s, %b : f32\n %q = neg %p : f32\n return %q -> %p, %r -> %s\n"));
}

TEST(CastSink, AReductionKeepsItsWideResult) {
  expect_untouched("cast_sink", matrix_rule("f32", 4, 6,
                                            "%n = norm %g {matrix} : f32\n %b = cast %n : bf16\n"
                                            "%r = mul %p, %b : f32\n return %r -> %p\n"));
}

}  // namespace
}  // namespace stepfuse::compiler
