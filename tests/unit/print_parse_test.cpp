// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/hash.h"
#include "ir/optimizers/recipe.h"
#include "ir/parse.h"
#include "ir/print.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

using ::testing::HasSubstr;

constexpr const char* kAdamW = R"(// stepfuse-ir v1
recipe @adamw(
    %p: f32[N] param,
    %g: f32[N] grad,
    %m: f32[N] state "exp_avg",
    %v: f32[N] state "exp_avg_sq",
    #t: step,
    #lr: group = 0.001 in [0, inf),
    #beta1: group = 0.9 in [0, 1),
    #beta2: group = 0.999 in [0, 1),
    #eps: group = 1e-08 in [0, inf),
    #wd: group = 0.01) {
  %p1 = mul %p, (1 - #lr * #wd) : f32
  %m1 = lerp %m, %g, (1 - #beta1) : f32
  %v1 = addcmul %vs, (1 - #beta2), %g, %g : f32
  return %p1 -> %p, %m1 -> %m, %v1 -> %v
}
)";

/// A whole recipe around some statements; %x and %w are matrices, %q a param that `result` replaces.
std::string around(const std::string& body, const std::string& result = "%q1") {
  return "// stepfuse-ir v1\n"
         "recipe @test(%q: f32[R, C] param, %x: f32[R, C] grad, %w: f32[R, R] state \"w\", #t: step, #a: group, #b: "
         "group) {\n" +
         body + "  return " + result + " -> %q\n}\n";
}

std::string parsed_and_printed(const std::string& text) {
  const auto graph = parse(text);
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().message) << "\n" << text;
  return graph ? print(*graph) : "";
}

TEST(PrintParse, KeepsCanonicalTextAsItIs) {
  std::string text = kAdamW;
  text.replace(text.find("%vs, "), 5, "%v, ");
  EXPECT_EQ(parsed_and_printed(text), text);
}

TEST(PrintParse, NamesTheUnknownValueAndTheNearestOne) {
  const auto graph = parse(kAdamW, "adamw.sfir");
  ASSERT_FALSE(graph.has_value());
  EXPECT_EQ(graph.error().code, StatusCode::InvalidData);
  EXPECT_EQ(graph.error().message, "adamw.sfir:15:17: unknown value '%vs'; expected one defined above");
  EXPECT_EQ(graph.error().hint, "did you mean 'v'?");
}

struct Spelling {
  std::string in, out;
};

class ScalarExpression : public ::testing::TestWithParam<Spelling> {};

TEST_P(ScalarExpression, KeepsItsTreeWithFewestParentheses) {
  const std::string text = around("  %q1 = mul %q, (" + GetParam().in + ")\n");
  const std::string printed = parsed_and_printed(text);
  EXPECT_THAT(printed, HasSubstr("  %q1 = mul %q, " + GetParam().out + " : f32\n"));
  EXPECT_EQ(parsed_and_printed(printed), printed);
  const auto first = parse(text);
  const auto second = parse(printed);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(structural_hash(*first), structural_hash(*second));
}

INSTANTIATE_TEST_SUITE_P(
    All, ScalarExpression,
    ::testing::Values(
        Spelling{"#a - (#b - 1)", "(#a - (#b - 1))"}, Spelling{"(#a - #b) - 1", "(#a - #b - 1)"},
        Spelling{"#a - #b * 2", "(#a - #b * 2)"}, Spelling{"(#a - #b) * 2", "((#a - #b) * 2)"},
        Spelling{"#a / (#b * 2)", "(#a / (#b * 2))"}, Spelling{"#a / #b * 2", "(#a / #b * 2)"},
        Spelling{"-#a * #b", "(-#a * #b)"}, Spelling{"-(#a * #b)", "(-(#a * #b))"}, Spelling{"- -#a", "(-(-#a))"},
        Spelling{"#a * -#b", "(#a * -#b)"}, Spelling{"neg(0.5)", "(neg(0.5))"}, Spelling{"#a - -0.5", "(#a - -0.5)"},
        Spelling{"-0.5 * #a", "(-0.5 * #a)"}, Spelling{"add(#a, sub(#b, 1))", "(#a + (#b - 1))"},
        Spelling{"((#a))", "#a"}, Spelling{"(2)", "2"}, Spelling{"powi(#a, #t)", "(powi(#a, #t))"},
        Spelling{"sqrt(1 - #a)", "(sqrt(1 - #a))"}, Spelling{"min(#a, max(#b, 1))", "(min(#a, max(#b, 1)))"},
        Spelling{"select(gt(#a, 0), #a, -#a)", "(select(gt(#a, 0), #a, -#a))"},
        Spelling{"axpy(#a, #b, 1) + lerp(#a, #b, 0.5)", "(axpy(#a, #b, 1) + lerp(#a, #b, 0.5))"},
        Spelling{"fresh(%w) * #a", "(fresh(%w) * #a)"}, Spelling{"0x1.8p-3", "0.1875"}, Spelling{"1e-8", "1e-08"},
        Spelling{"-0.0", "-0"}, Spelling{"inf", "inf"}, Spelling{"-inf", "-inf"}, Spelling{"nan", "nan"},
        Spelling{"-nan", "nan"}, Spelling{".5", "0.5"}, Spelling{"0.1", "0.1"}, Spelling{"4.94e-324", "5e-324"}));

TEST(PrintParse, ConstantsKeepEveryBit) {
  for (double value : {0.1, 1.0 / 3, 1e308, 5e-324, 2.0315, -4.7750, 0x1.fffffffffffffp1023, -0.0}) {
    const std::string text = number_text(value);
    const auto graph = parse(around("  %q1 = mul %q, " + text + "\n"));
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const double back = graph->const_value(graph->node(graph->outputs()[0].value).operands[1]);
    EXPECT_EQ(std::signbit(back), std::signbit(value));
    EXPECT_EQ(back, value) << text;
  }
}

TEST(PrintParse, SharedScalarsGetALineAndSingleOnesDoNot) {
  const std::string printed = parsed_and_printed(
      around("  #s = 1 - #a\n  #u = #s * #b\n  %y = mul %x, #s\n  %z = mul %y, #s\n  %q1 = mul %z, #u\n"));
  EXPECT_EQ(printed, around("  #s = 1 - #a\n  %y = mul %x, #s : f32\n  %z = mul %y, #s : f32\n"
                            "  %q1 = mul %z, (#s * #b) : f32\n"));
  EXPECT_EQ(parsed_and_printed(printed), printed);
}

TEST(PrintParse, AttributesPlacementsAndTypesSurvive) {
  const std::string text = around(
      "  %n = norm %x {matrix} : f32 @0.0\n"
      "  %s = sum %x {cols} : f64\n"
      "  %h = cast %x : bf16 @1.2\n"
      "  %aa = matmul %h, %h {tb, sym} : bf16\n"
      "  %bb = matmul %aa, %aa, %aa, 2.0315, -4.775 : bf16\n"
      "  %cc = matmul %w, %w, (1 - #a) {ta} : f32\n"
      "  %t1 = transpose %cc : f32\n"
      "  %big = gt %x, 0 : bool\n"
      "  %any = any %big {all} : bool\n"
      "  %q1 = select %big, %q, %x : f32\n");
  EXPECT_EQ(parsed_and_printed(text), text);
}

TEST(PrintParse, SlicesAndConcatsSurvive) {
  const std::string text =
      "// stepfuse-ir v1\n"
      "recipe @qkv(%q: f16[96, 32] param, %b: f64[] state \"a \\\"b\\\" \\\\ \\x0a\") {\n"
      "  %k = slice %q {dim=0, begin=0, end=64} : f16\n"
      "  %v = slice %q {dim=0, begin=64, end=96} : f16\n"
      "  %r = concat %v, %k {dim=0} : f16\n"
      "  return %r -> %q\n"
      "}\n";
  EXPECT_EQ(parsed_and_printed(text), text);
  EXPECT_EQ(parse(text)->inputs()[1].key, "a \"b\" \\ \n");
}

TEST(PrintParse, CommentsBlankLinesAndBrokenLinesAreFree) {
  const std::string text =
      "\n// by hand\n\n// stepfuse-ir v1\r\n// more\nrecipe @a(%p: f32[N] param, // the parameter\n\n  %g: f32[N] "
      "grad) "
      "{%p1 = axpy -0.1,\n // here too\n %g, %p return %p1->%p}// end";
  EXPECT_EQ(parsed_and_printed(text),
            "// stepfuse-ir v1\nrecipe @a(%p: f32[N] param, %g: f32[N] grad) {\n  %p1 = axpy -0.1, %g, %p : f32\n"
            "  return %p1 -> %p\n}\n");
}

TEST(PrintParse, RatesDefaultsAndRangesSurvive) {
  const std::string text =
      "// stepfuse-ir v1\n"
      "recipe @r(\n"
      "    %p: f32[N] param,\n"
      "    #every: every_step = -1.5 in (-2, inf],\n"
      "    #lr: group = 0.001 in [0, inf),\n"
      "    #own: per_parameter in [-inf, 0]) {\n"
      "  %p1 = mul %p, (#every + #lr + #own) : f32\n"
      "  return %p1 -> %p\n"
      "}\n";
  EXPECT_EQ(parsed_and_printed(text), text);
  const auto graph = parse(text);
  EXPECT_EQ(graph->node(graph->node(graph->outputs()[0].value).operands[1]).type.rate, Rate::Parameter);
  EXPECT_FALSE(graph->find_input("lr")->range.contains(-1e-9));
  EXPECT_TRUE(graph->find_input("own")->range.contains(-INFINITY));
}

TEST(PrintParse, EqualOpsMergeAndKeepTheFirstName) {
  const std::string printed = parsed_and_printed(around("  %y = mul %x, 2\n  %z = mul %x, 2\n  %q1 = add %y, %z\n"));
  EXPECT_EQ(printed, around("  %y = mul %x, 2 : f32\n  %q1 = add %y, %y : f32\n"));
}

TEST(PrintParse, UnnamedAndDoubleNamesBecomeUnique) {
  Graph graph;
  const Type type = tensor_type(DType::F32, make_shape({Extent::symbol(graph.add_symbol("N"))}));
  const ValueId p = graph.add_input({InputKind::Param, "p", "", type, {}, {}, {}});
  ValueId value = p;
  for (int i = 0; i < 4; ++i) {
    value = emit(graph, Op::Neg, {value});
    if (i < 2) graph.set_name(value, "odd name");
    if (i == 3) graph.set_name(value, "neg_1");
  }
  graph.add_output(value, p);
  const std::string printed = print(graph);
  EXPECT_EQ(printed,
            "// stepfuse-ir v1\nrecipe @recipe(%p: f32[N] param) {\n  %odd_name = neg %p : f32\n"
            "  %odd_name_1 = neg %odd_name : f32\n  %neg_2 = neg %odd_name_1 : f32\n  %neg_1 = neg %neg_2 : f32\n"
            "  return %neg_1 -> %p\n}\n");
  EXPECT_EQ(parsed_and_printed(printed), printed);
  EXPECT_EQ(structural_hash(*parse(printed)), structural_hash(graph));
}

TEST(PrintParse, LongScalarChainsBreakIntoLines) {
  std::string body = "  #s0 = #a + 1\n";
  for (int i = 1; i < 1000; ++i) body += fmt::format("  #s{} = #s{} + 1\n", i, i - 1);
  const std::string printed = parsed_and_printed(around(body + "  %q1 = mul %q, #s999\n"));
  EXPECT_EQ(parsed_and_printed(printed), printed);
  EXPECT_GT(std::count(printed.begin(), printed.end(), '\n'), 50);
  EXPECT_EQ(structural_hash(*parse(printed)), structural_hash(*parse(around(body + "  %q1 = mul %q, #s999\n"))));
}

struct Bad {
  std::string name, text, message, hint;
};

class ParseError : public ::testing::TestWithParam<Bad> {};

TEST_P(ParseError, SaysWhatIsWrongAndWhere) {
  const auto graph = parse(GetParam().text);
  ASSERT_FALSE(graph.has_value()) << print(*graph);
  EXPECT_EQ(graph.error().code, StatusCode::InvalidData);
  EXPECT_THAT(graph.error().message, HasSubstr(GetParam().message));
  EXPECT_THAT(graph.error().hint, HasSubstr(GetParam().hint));
}

std::string header(const std::string& inputs) {
  return "// stepfuse-ir v1\nrecipe @h(" + inputs + ") {\n  return\n}\n";
}

std::string nested(size_t levels, const std::string& open) {
  std::string text;
  for (size_t i = 0; i < levels; ++i) text += open;
  return around("  %q1 = mul %q, (" + text + "#a");
}

std::vector<Bad> bad_texts() {
  return {
      {"Empty", "", "<input>:1:1: no version line; expected '// stepfuse-ir v1'", "another kind of file"},
      {"NoVersion", "recipe @a() {}", ":1:1: no version line", ""},
      {"OtherVersion", "// stepfuse-ir v2\n", "'// stepfuse-ir v2' is not a version this build reads", ""},
      {"OnlyVersion", "// stepfuse-ir v1\n", ":2:1: unexpected end of input; expected 'recipe'", ""},
      {"NoName", "// stepfuse-ir v1\nrecipe (", "unexpected '('; expected the recipe's name", ""},
      {"BareSigil", "// stepfuse-ir v1\nrecipe @ x", ":2:8: '@' without a name", ""},
      {"Binary", std::string("// stepfuse-ir v1\n\0\x01", 20), "unexpected byte 0x00; expected IR text", ""},
      {"NotAscii", "// stepfuse-ir v1\nrecipe @a(%\xc3\xa9", "'%' without a name", ""},
      {"OpenString", header("%p: f32[N] state \"abc"), "a string without end", ""},
      {"BadEscape", header("%p: f32[N] state \"a\\q\""), "bad escape", ""},
      {"CutEscape", header("%p: f32[N] state \"a\\x1\""), "bad escape", ""},
      {"BadKind", header("%p: f32[N] weight"), "unexpected 'weight'; expected 'param', 'grad' or 'state", ""},
      {"BadDType", header("%p: f31[N] param"), "unexpected 'f31'; expected an element type", ""},
      {"RankFour", header("%p: f32[A, B, C, D] param"), "too many dimensions; expected at most 3", ""},
      {"HugeExtent", header("%p: f32[99999999999999999999] param"), "expected a whole number that fits 63 bits", ""},
      {"BadExtent", header("%p: f32[1.5] param"), "unexpected '1.5'; expected a whole number", ""},
      {"NegativeExtent", header("%p: f32[-1] param"), "unexpected '-'; expected an extent", ""},
      {"ManyElements", header("%p: f32[4611686018427387904, 4] param"), "%p: more than 2^44 elements", ""},
      {"BadRate", header("#a: always"), "unexpected 'always'; expected 'step'", ""},
      {"BadDefault", header("#a: group = 2 in [0, 1)"), "default 2 is out of range; expected a value in [0, 1)", ""},
      {"NanDefault", header("#a: group = nan"), "default nan is out of range", ""},
      {"EmptyInterval", header("#a: group in [1, 0]"), "an empty interval", ""},
      {"NanInterval", header("#a: group in [nan, 0]"), "an empty interval", ""},
      {"DoubleInput", header("%p: f32[N] param, #p: step"), "'#p': the name is taken by '%p'; expected a new name", ""},
      {"TwoParams", header("%p: f32[N] param, %r: f32[N] param"), "exactly one param, this one has 2", ""},
      {"NoEffect", header("%p: f32[N] param"), "recipe @h is not sound: %p: the param is not replaced", ""},
      {"BoolState", header("%p: f32[N] param, %s: bool[N] state \"s\""), "%s: a param, grad or state cannot be bool",
       ""},
      {"UnknownOp", around("  %q1 = mull %q, %x\n"), ":3:9: unknown operation 'mull'", "did you mean 'mul'?"},
      {"SourceOp", around("  %q1 = input %q\n"), "unknown operation 'input'", ""},
      {"UnknownScalar", around("  %q1 = mul %q, #aa\n"), "unknown value '#aa'", "did you mean 'a'?"},
      {"UseBefore", around("  %y = mul %z, 1\n  %z = mul %q, 1\n"), ":3:12: unknown value '%z'", ""},
      {"Redefined", around("  %x = mul %q, 1\n"), ":3:3: '%x': the name is taken by '%x'; expected a new name", ""},
      {"Arity", around("  %q1 = add %q\n"), ":3:9: add takes 2 operands, got 1", ""},
      {"ManyOperands", around("  %q1 = add %q, %q, %q, %q, %q, %q\n"), "too many operands", ""},
      {"Shapes", around("  %q1 = add %q, %w\n"), "operands of add have shapes that do not broadcast", ""},
      {"WrongDType", around("  %q1 = gt %q, 0 : f32\n"), "gt gives bool here, not f32; expected ': bool'", ""},
      {"NotADType", around("  %q1 = mul %q, 0 : f33\n"), "unexpected 'f33'; expected an element type", ""},
      {"ScalarResult", around("  %q1 = mul #a, #b\n"), "mul of scalars gives a scalar; expected a tensor operand", ""},
      {"TensorInExpression", around("  %q1 = mul %q, (1 - %x)\n"), "'%x' is a tensor; expected a scalar", ""},
      {"UnknownFunction", around("  #s = sqt(#a)\n"), "unknown scalar function 'sqt'", "did you mean 'sqrt'?"},
      {"TensorFunction", around("  #s = matmul(#a, #b)\n"), "unknown scalar function 'matmul'", ""},
      {"FreshOfGrad", around("  %q1 = mul %q, (fresh(%x))\n"), "fresh takes a state of the recipe", ""},
      {"NoAxis", around("  %n = norm %q\n"), "norm needs an axis; expected {all}", ""},
      {"BadAxis", around("  %n = norm %q {row}\n"), "unknown axis 'row'", "did you mean 'rows'?"},
      {"BadFlag", around("  %n = matmul %q, %q {tc}\n"), "unknown attribute 'tc'; expected ta, tb or sym", ""},
      {"FlagTwice", around("  %n = matmul %q, %q {tb, tb}\n"), "attribute 'tb' is given twice", ""},
      {"NeedlessAttr", around("  %n = add %q, %q {tb}\n"), "add has no attributes", ""},
      {"SliceKeys", around("  %n = slice %q {dim=0, begin=1}\n"),
       "slice without 'end'; expected {dim=..., begin=..., end=...}", ""},
      {"SliceDim", around("  %n = slice %q {dim=300, begin=0, end=1}\n"), "slice needs dim (below the rank 2)", ""},
      {"ConcatKey", around("  %n = concat %q, %q {dim=0, axis=1}\n"), "unknown attribute 'axis'; expected dim", ""},
      {"Inner", around("  %n = matmul %q, %q\n"), "matmul: the columns of A and the rows of B differ", ""},
      {"BadPlacement", around("  %q1 = mul %q, 2 @1.\n"), "bad placement '@1.'", ""},
      {"LatePhase", around("  %y = mul %q, 2 @1.1\n  %q1 = mul %y, 2 @1.0\n"), "%q1: in phase 0, before its operand %y",
       ""},
      {"BadNumber", around("  %q1 = mul %q, 1.2.3\n"), "bad number '1.2.3'", ""},
      {"NumberSuffix", around("  %q1 = mul %q, 1f\n"), "bad number '1f'", ""},
      {"UpperHex", around("  %q1 = mul %q, 0X1p3\n"), "bad number '0X1p3'", ""},
      {"HexWithout", around("  %q1 = mul %q, 0x\n"), "bad number '0x'", ""},
      {"HugeNumber", around("  %q1 = mul %q, 1e999\n"), "'1e999' is out of the range of f64", ""},
      {"Unclosed", around("  %q1 = mul %q, (1 - #a : f32\n"), "unexpected ':'; expected ')'", ""},
      {"ReturnScalar", around("", "#a"), "unexpected '#a'; expected '%value -> %target'", ""},
      {"ReturnType", around("  %h = cast %q : f16\n", "%h"), "the new value is f16[R, C], the target f32[R, C]", ""},
      {"ReturnTwice", around("", "%x -> %q, %x"), "%q: replaced twice", ""},
      {"ReturnGrad", around("", "%x -> %x, %x"), "%x: an output must replace a param or a state", ""},
      {"NoArrow", "// stepfuse-ir v1\nrecipe @a(%p: f32[N] param) { return %p }", "expected '->'", ""},
      {"NoReturn", "// stepfuse-ir v1\nrecipe @a(%p: f32[N] param) { }", "unexpected '}'; expected '%name = ...'", ""},
      {"Trailing", around("", "%x") + "recipe", "unexpected 'recipe'; expected the end of the text", ""},
      {"DeepParentheses", nested(100'000, "("), "nested too deeply; expected at most 200 levels", ""},
      {"DeepMinus", nested(100'000, "-"), "nested too deeply", ""},
      {"DeepCalls", nested(50'000, "sqrt("), "nested too deeply", ""},
      {"TooLong", std::string((1 << 20) + 1, ' '), "1048577 bytes of IR text; expected at most 1048576", ""},
  };
}

INSTANTIATE_TEST_SUITE_P(All, ParseError, ::testing::ValuesIn(bad_texts()),
                         [](const auto& param) { return param.param.name; });

TEST(PrintParse, EveryRecipeSurvives) {
  for (const Recipe& recipe : all_recipes()) {
    const auto values = parse_options(recipe.name, recipe.options(), {});
    ASSERT_TRUE(values.has_value()) << values.error().message;
    const auto graph = recipe.build(*values, ParameterSpec{{48, 64}});
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    const std::string printed = print(*graph);
    EXPECT_EQ(parsed_and_printed(printed), printed);
    EXPECT_EQ(structural_hash(*parse(printed)), structural_hash(*graph)) << printed;
  }
}

TEST(PrintParse, TooManyOperationsAreRefused) {
  std::string body;
  for (int i = 0; i < 60'000; ++i) body += fmt::format("#s{}=#a+{}", i, i);
  const auto graph = parse(around(body));
  ASSERT_FALSE(graph.has_value());
  EXPECT_THAT(graph.error().message, HasSubstr("too many operations; expected at most 100000 values"));
}

TEST(PrintParse, TooManyInputsAreRefused) {
  std::string inputs = "%p: f32[N] param";
  for (int i = 0; i < 300; ++i) inputs += fmt::format(", #s{}: group", i);
  const auto graph = parse(header(inputs));
  ASSERT_FALSE(graph.has_value());
  EXPECT_THAT(graph.error().message, HasSubstr("too many inputs; expected at most 256"));
}

TEST(PrintParse, EveryPrefixIsAnErrorAndNothingWorse) {
  std::string text = kAdamW;
  text.replace(text.find("%vs, "), 5, "%v, ");
  for (size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_FALSE(parse(std::string_view(text).substr(0, length)).has_value()) << length;
}

TEST(PrintParse, EveryFlippedByteParsesOrIsAnError) {
  std::string text = kAdamW;
  text.replace(text.find("%vs, "), 5, "%v, ");
  for (size_t i = 0; i < text.size(); ++i) {
    for (char replacement : {'(', ')', '-', '%', '#', '0', '"', '\n', '\xff', ',', '='}) {
      std::string changed = text;
      changed[i] = replacement;
      const auto graph = parse(changed);
      if (!graph) continue;
      const std::string printed = print(*graph);
      const auto again = parse(printed);
      ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << printed;
      EXPECT_EQ(print(*again), printed);
    }
  }
}

}  // namespace
}  // namespace stepfuse::ir
