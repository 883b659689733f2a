// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pass_fixture.h"

#include <set>

namespace stepfuse::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kText = vector_rule(
    "%a = mul %g, 1 : f32\n %b = neg %a : f32\n %c = neg %p : f32\n %r = axpy #lr, %b, %p : f32\n return %r -> %p\n");

struct Printed {
  std::string pass, text;
};

/// A run with everything it reported.
struct RunLog {
  ir::Graph graph;
  Outcome outcome;
  std::vector<Printed> printed;
  std::vector<PassTiming> timings;
  std::vector<Decision> decisions;
};

RunLog run(RunnerOptions options, const std::vector<std::string>& passes = {}, ir::Mode mode = ir::Mode::Default) {
  RunLog result{rule_of(kText), {}, {}, {}, {}};
  options.print = [&](std::string_view pass, const std::string& text) {
    result.printed.push_back({std::string(pass), text});
  };
  options.timings = &result.timings;
  const PassContext context{mode, {}, 1, &result.decisions};
  result.outcome = run_passes(result.graph, context, options, passes);
  return result;
}

std::vector<std::string> names(const std::vector<PassTiming>& timings) {
  std::vector<std::string> list;
  for (const PassTiming& timing : timings) list.emplace_back(timing.pass);
  return list;
}

TEST(PassTable, NamesAreUniqueAndPlanPassesHaveNoFunction) {
  std::set<std::string_view> seen;
  for (const PassInfo& pass : all_passes()) {
    EXPECT_TRUE(seen.insert(pass.name).second) << pass.name;
    EXPECT_EQ(pass.run == nullptr, pass.level == PassLevel::Plan) << pass.name;
    EXPECT_FALSE(pass.summary.empty()) << pass.name;
    EXPECT_EQ(*find_pass(pass.name), &pass);
  }
  EXPECT_EQ(level_name(PassLevel::Recipe), "recipe");
  EXPECT_EQ(level_name(PassLevel::Group), "group");
  EXPECT_EQ(level_name(PassLevel::Plan), "plan");
}

TEST(PassTable, AnUnknownNameGetsTheNearest) {
  const auto pass = find_pass("simplfy");
  ASSERT_FALSE(pass.has_value());
  EXPECT_EQ(pass.error().code, StatusCode::InvalidArgument);
  EXPECT_EQ(pass.error().message, "there is no pass 'simplfy'");
  EXPECT_THAT(pass.error().hint, HasSubstr("did you mean 'simplify'?"));
  EXPECT_THAT(find_pass("inline").error().hint, HasSubstr("the passes are simplify, cse"));
}

TEST(PassRunner, RefusesNamesBeforeItTouchesTheGraph) {
  RunnerOptions disabled;
  disabled.disabled = {"fues"};
  RunnerOptions after;
  after.print_after = {"fues"};
  RunnerOptions all;
  all.disabled = {"all"};
  for (const RunnerOptions& options : {disabled, after, all}) {
    const RunLog result = run(options);
    ASSERT_FALSE(result.outcome.has_value());
    EXPECT_EQ(result.outcome.error().code, StatusCode::InvalidArgument);
    EXPECT_EQ(ir::print(result.graph), ir::print(rule_of(kText)));
  }
  EXPECT_FALSE(run({}, {"simplify", "fold"}).outcome.has_value());
}

TEST(PassRunner, PlanPassesDoNotRunOnGraphs) {
  const RunLog result = run({}, {"batch"});
  ASSERT_FALSE(result.outcome.has_value());
  EXPECT_THAT(result.outcome.error().message, HasSubstr("batch works on the step plan"));
  EXPECT_THAT(result.outcome.error().hint, HasSubstr("--stage plan"));
}

TEST(PassRunner, RunsTheNamedPassesInTheGivenOrder) {
  const RunLog result = run({}, {"dce", "simplify", "dce"});
  ASSERT_TRUE(result.outcome.has_value());
  EXPECT_THAT(names(result.timings), ElementsAre("dce", "simplify", "dce"));
  EXPECT_TRUE(result.timings[0].changed);
  EXPECT_TRUE(result.timings[1].changed);
  EXPECT_FALSE(result.timings[2].changed);
  for (const PassTiming& timing : result.timings) EXPECT_GE(timing.seconds, 0);
}

TEST(PassRunner, PrintsAfterThePassesAskedFor) {
  RunnerOptions options;
  options.print_after = {"simplify", "orient"};
  const RunLog result = run(options);
  ASSERT_TRUE(result.outcome.has_value());
  ASSERT_EQ(result.printed.size(), 2U);
  EXPECT_EQ(result.printed[0].pass, "simplify");
  EXPECT_EQ(result.printed[0].text, ir::print(rule_of(vector_rule("%b = neg %g : f32\n %r = axpy #lr, %b, %p : f32\n"
                                                                  "return %r -> %p\n"))));
  EXPECT_EQ(result.printed[1].pass, "orient");
  EXPECT_EQ(result.printed[1].text, "(unchanged)\n");
}

TEST(PassRunner, PrintsAfterEveryPass) {
  RunnerOptions options;
  options.print_after = {"all"};
  const RunLog result = run(options);
  EXPECT_EQ(result.printed.size(), result.timings.size());
  for (size_t i = 0; i < result.printed.size(); ++i)
    EXPECT_EQ(result.printed[i].text == "(unchanged)\n", !result.timings[i].changed) << result.printed[i].pass;
}

TEST(PassRunner, ADisabledPassDoesNotRunAndSaysSo) {
  RunnerOptions options;
  options.disabled = {"simplify", "fuse"};
  const RunLog result = run(options);
  ASSERT_TRUE(result.outcome.has_value());
  EXPECT_THAT(names(result.timings), testing::Not(testing::Contains("simplify")));
  EXPECT_THAT(names(result.timings), testing::Contains("dce"));
  ASSERT_EQ(result.decisions.size(), 2U);
  for (const Decision& decision : result.decisions) {
    EXPECT_FALSE(decision.taken);
    EXPECT_EQ(decision.why, "switched off by name");
  }
}

TEST(PassRunner, StrictSkipsWhatIsEqualInRealArithmeticOnly) {
  const RunLog result = run({}, {}, ir::Mode::Strict);
  for (const PassInfo& pass : all_passes()) {
    if (pass.run == nullptr) continue;
    EXPECT_EQ(testing::Value(names(result.timings), testing::Contains(pass.name)), !pass.default_mode_only)
        << pass.name;
    const bool explained = std::any_of(result.decisions.begin(), result.decisions.end(), [&](const Decision& decision) {
      return decision.pass == pass.name && !decision.taken && decision.why.starts_with("strict rounds once per op");
    });
    EXPECT_EQ(explained, pass.default_mode_only) << pass.name;
  }
}

TEST(PassRunner, ABrokenGraphIsCaught) {
  // Sound but for one node whose element type is not what its op gives; dce must change the graph to be checked.
  RunLog result{rule_of(kText), {}, {}, {}, {}};
  ir::Node broken = result.graph.node(result.graph.outputs()[0].value);
  broken.type.shape = ir::make_shape({ir::Extent::of(3)});
  const ir::ValueId wrong = result.graph.add_node(broken);
  ir::Graph graph;
  graph.name = result.graph.name;
  for (const std::string& symbol : result.graph.symbols()) graph.add_symbol(symbol);
  for (const ir::Input& input : result.graph.inputs()) graph.add_input(input);
  for (uint32_t i = 0; i < result.graph.size(); ++i)
    if (result.graph.node(ir::ValueId{i}).op != ir::Op::Input) graph.add_node(result.graph.node(ir::ValueId{i}));
  ASSERT_EQ(graph.size(), result.graph.size());
  graph.add_output(wrong, result.graph.outputs()[0].target);
  const std::vector<std::string> passes{"dce"};
  const Outcome outcome = run_passes(graph, {}, {}, passes);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, StatusCode::Internal);
  EXPECT_THAT(outcome.error().message, HasSubstr("pass dce broke r:"));
}

}  // namespace
}  // namespace stepfuse::compiler
