// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A sound recipe to spoil: p, g and m of f32[N], lr; r = p - lr * g replaces p.
struct Sgd {
  Graph graph;
  Type type = tensor_type(DType::F32, make_shape({Extent::symbol(graph.add_symbol("N"))}));
  ValueId p = input(InputKind::Param, "p", type);
  ValueId g = input(InputKind::Grad, "g", type);
  ValueId m = input(InputKind::State, "m", type);
  ValueId lr = input(InputKind::Hyper, "lr", scalar_type(Rate::Group));
  ValueId s = named(emit(graph, Op::Mul, {g, lr}), "s");
  ValueId r = named(emit(graph, Op::Sub, {p, s}), "r");

  ValueId input(InputKind kind, const std::string& name, const Type& of) {
    return graph.add_input({kind, name, kind == InputKind::State ? name : "", of, {}, {}, {}});
  }
  ValueId named(ValueId id, const std::string& name) {
    graph.set_name(id, name);
    return id;
  }
  /// A node made without infer_type.
  ValueId raw(Op op, std::vector<ValueId> operands, const Type& of, const Attr& attr = {}) {
    Node node;
    node.op = op;
    node.num_operands = static_cast<uint8_t>(operands.size());
    std::copy(operands.begin(), operands.end(), node.operands.begin());
    node.type = of;
    node.attr = attr;
    return named(graph.add_node(node), "raw");
  }
};

TEST(Verify, SoundRecipeHasNoProblems) {
  Sgd sgd;
  sgd.graph.add_output(sgd.r, sgd.p);
  sgd.graph.add_output(sgd.g, sgd.m);
  EXPECT_THAT(verify(sgd.graph), IsEmpty());
  EXPECT_TRUE(check(sgd.graph).has_value());
}

TEST(Verify, ReportsEveryProblemAtOnce) {
  Sgd sgd;
  sgd.input(InputKind::Param, "q", sgd.type);
  sgd.graph.add_output(sgd.lr, sgd.m);
  sgd.graph.add_output(sgd.r, sgd.g);
  EXPECT_THAT(verify(sgd.graph), ElementsAre("a recipe has exactly one param, this one has 2",
                                             "#lr -> %m: the new value is a scalar (group), the target f32[N]",
                                             "%g: an output must replace a param or a state",
                                             "%p: the param is not replaced; the recipe has no effect on it",
                                             "%q: the param is not replaced; the recipe has no effect on it"));
  const Outcome outcome = check(sgd.graph);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, StatusCode::InvalidData);
  EXPECT_THAT(outcome.error().message, HasSubstr("recipe @recipe is not sound: a recipe has exactly one param"));
}

struct Fault {
  const char* name;
  void (*spoil)(Sgd&);
  const char* problem;
};

class Verify : public ::testing::TestWithParam<Fault> {};

TEST_P(Verify, FindsTheFault) {
  Sgd sgd;
  sgd.graph.add_output(sgd.r, sgd.p);
  GetParam().spoil(sgd);
  EXPECT_THAT(verify(sgd.graph), Contains(HasSubstr(GetParam().problem)));
}

const Type kVector = tensor_type(DType::F32, make_shape({Extent::symbol(0)}));
const Type kBools = tensor_type(DType::Bool, make_shape({Extent::symbol(0)}));

INSTANTIATE_TEST_SUITE_P(
    All, Verify,
    ::testing::Values(
        Fault{"Arity", [](Sgd& x) { x.raw(Op::Add, {x.p}, kVector); }, "%raw: add takes 2 operands, got 1"},
        Fault{"MatmulArity", [](Sgd& x) { x.raw(Op::Matmul, {x.p, x.p, x.p, x.lr}, kVector, MatmulAttr{}); },
              "%raw: matmul takes 2 (A, B), 3"},
        Fault{"UseBeforeDefinition", [](Sgd& x) { x.raw(Op::Neg, {ValueId{6}}, kVector); },
              "%raw: the operand %raw is not defined before it"},
        Fault{"NoSuchValue", [](Sgd& x) { x.raw(Op::Neg, {ValueId{999}}, kVector); },
              "%raw: the operand value 999 is not defined before it"},
        Fault{"Type", [](Sgd& x) { x.raw(Op::Gt, {x.p, x.g}, kVector); },
              "%raw: declared f32[N], but gt gives bool[N]"},
        Fault{"Shape", [](Sgd& x) { x.raw(Op::Add, {x.p, x.g}, tensor_type(DType::F32, {})); },
              "%raw: declared f32[], but add gives f32[N]"},
        Fault{"Rate", [](Sgd& x) { x.raw(Op::Neg, {x.lr}, scalar_type(Rate::Step)); },
              "#raw: declared a scalar (every_step), but neg gives a scalar (group)"},
        Fault{"ScalarForTensor", [](Sgd& x) { x.raw(Op::Norm, {x.lr}, kVector, ReduceAttr{Axis::All}); },
              "%raw: norm takes a tensor, not a scalar"},
        Fault{"TensorForScalar", [](Sgd& x) { x.raw(Op::Powi, {x.p, x.lr}, kVector); }, "%raw: powi takes scalars"},
        Fault{"FreshOfParam", [](Sgd& x) { x.raw(Op::Fresh, {x.p}, scalar_type(Rate::Parameter)); },
              "#raw: fresh takes a state of the recipe"},
        Fault{"MissingAttr", [](Sgd& x) { x.raw(Op::Norm, {x.p}, kVector); },
              "%raw: norm has the wrong kind of attribute"},
        Fault{"StrayAttr", [](Sgd& x) { x.raw(Op::Neg, {x.p}, kVector, ConcatAttr{0}); },
              "%raw: neg has the wrong kind of attribute"},
        Fault{"StrayInput", [](Sgd& x) { x.raw(Op::Input, {}, kVector, InputAttr{17}); },
              "%raw: an input value that is not among the recipe's inputs"},
        Fault{"ConstType", [](Sgd& x) { x.raw(Op::Const, {}, kVector, ConstAttr{1}); }, "a constant is a scalar"},
        Fault{"UnknownSymbol",
              [](Sgd& x) { x.raw(Op::Neg, {x.p}, tensor_type(DType::F32, make_shape({Extent::symbol(9)}))); },
              "%raw: an extent names no symbol"},
        Fault{"HugeShape",
              [](Sgd& x) {
                x.input(InputKind::State, "h",
                        tensor_type(DType::F32, make_shape({Extent::of(1 << 30), Extent::of(1 << 30)})));
              },
              "%h: more than 2^44 elements"},
        Fault{"Phase",
              [](Sgd& x) {
                x.graph.set_placement(x.s, {0, 1});
                x.graph.set_placement(x.r, {0, 0});
              },
              "%r: in phase 0, before its operand %s in phase 1 of the same cluster"},
        Fault{"Placement", [](Sgd& x) { x.graph.set_placement(x.r, {-1, 2}); }, "%r: impossible placement -1.2"},
        Fault{"OutputTwice", [](Sgd& x) { x.graph.add_output(x.g, x.p); }, "%p: replaced twice"},
        Fault{"OutputToValue", [](Sgd& x) { x.graph.add_output(x.g, x.s); },
              "%s: an output must replace a param or a state"},
        Fault{"OutputType", [](Sgd& x) { x.graph.add_output(x.raw(Op::Gt, {x.p, x.g}, kBools), x.m); },
              "%raw -> %m: the new value is bool[N], the target f32[N]"},
        Fault{"OutputMissing", [](Sgd& x) { x.graph.add_output(ValueId{99}, x.m); },
              "an output names a value that does not exist"},
        Fault{"InputName", [](Sgd& x) { x.input(InputKind::Hyper, "a b", scalar_type(Rate::Group)); },
              "the input name 'a b' is not an identifier"},
        Fault{"InputTwice", [](Sgd& x) { x.input(InputKind::Hyper, "lr", scalar_type(Rate::Group)); },
              "two inputs are named 'lr'"},
        Fault{"KeyTwice", [](Sgd& x) { x.graph.add_input({InputKind::State, "n", "m", kVector, {}, {}, {}}); },
              "two states have the key \"m\""},
        Fault{"NoKey", [](Sgd& x) { x.graph.add_input({InputKind::State, "n", "", kVector, {}, {}, {}}); },
              "%n: a state needs a key"},
        Fault{"BoolState", [](Sgd& x) { x.input(InputKind::State, "b", kBools); },
              "%b: a param, grad or state cannot be bool"},
        Fault{"ScalarGrad", [](Sgd& x) { x.input(InputKind::Grad, "h", scalar_type(Rate::Group)); },
              "#h: a param, grad or state must be a tensor"},
        Fault{"TensorHyper", [](Sgd& x) { x.input(InputKind::Hyper, "h", kVector); },
              "%h: a step or hyperparameter must be a scalar"},
        Fault{"NoRate", [](Sgd& x) { x.input(InputKind::Hyper, "h", scalar_type(Rate::None)); },
              "#h: an input needs a rate"},
        Fault{"StepRate", [](Sgd& x) { x.input(InputKind::Step, "t", scalar_type(Rate::Step)); },
              "#t: the step count changes per parameter"},
        Fault{"TwoSteps",
              [](Sgd& x) {
                x.input(InputKind::Step, "t", scalar_type(Rate::Parameter));
                x.input(InputKind::Step, "u", scalar_type(Rate::Parameter));
              },
              "a recipe has at most one step input"},
        Fault{"Default",
              [](Sgd& x) {
                x.graph.add_input({InputKind::Hyper, "h", "", scalar_type(Rate::Group), 2.0, {0, 1, false, false}, {}});
              },
              "#h: the default 2 is not in [0, 1]"},
        Fault{"Range",
              [](Sgd& x) {
                x.graph.add_input({InputKind::Hyper, "h", "", scalar_type(Rate::Group), {}, {1, 0, false, false}, {}});
              },
              "#h: the range [1, 0] is empty"},
        Fault{"RecipeName", [](Sgd& x) { x.graph.name = "my recipe"; },
              "the recipe's name 'my recipe' is not an identifier"},
        Fault{"Symbol", [](Sgd& x) { x.graph.add_symbol("a b"); }, "the symbol 'a b' is not an identifier"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace stepfuse::ir
