// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of passes share: text in, one pass, text out.

#include "compiler/pass.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::compiler {

/// `text` without the version line.
inline ir::Graph rule_of(const std::string& text) {
  auto graph = ir::parse("// stepfuse-ir v1\n" + text);
  EXPECT_TRUE(graph.has_value()) << graph.error().message << "\n" << text;
  return graph ? std::move(*graph) : ir::Graph{};
}

/// A rule over f32 vectors: %p, %g, %m, the step #t and #lr, #wd.
inline std::string vector_rule(const std::string& body) {
  return "recipe @r(%p: f32[N] param, %g: f32[N] grad, %m: f32[N] state \"m\", #t: step, #lr: group = 0.1, #wd: group "
         "= "
         "0.25) {\n" +
         body + "}\n";
}

/// A rule over matrices of one element type: %p, %g, %m are rows x cols, %s is rows x rows.
inline std::string matrix_rule(const std::string& dtype, int rows, int cols, const std::string& body) {
  const std::string shape = fmt::format("{}[{}, {}]", dtype, rows, cols);
  return fmt::format(
      "recipe @r(%p: {0} param, %g: {0} grad, %m: {0} state \"m\", %s: {1}[{2}, {2}] state \"s\", #lr: group = 0.1, "
      "#wd: group = 0.25) {{\n{3}}}\n",
      shape, dtype, rows, body);
}

/// Runs one pass. Its `changed` must be what the text says, and the graph must stay sound.
inline bool run_pass(std::string_view pass, ir::Graph& graph, const PassContext& context = {}) {
  const std::string before = ir::print(graph);
  const auto info = find_pass(pass);
  EXPECT_TRUE(info.has_value() && (*info)->run != nullptr) << pass;
  const bool changed = (*info)->run(graph, context);
  EXPECT_EQ(changed, ir::print(graph) != before) << pass << " says changed=" << changed << "; before\n"
                                                 << before << "after\n"
                                                 << ir::print(graph);
  EXPECT_THAT(ir::verify(graph), testing::IsEmpty()) << pass << " broke the graph\n" << ir::print(graph);
  return changed;
}

/// `pass` turns `before` into `after`, and has nothing to do the second time.
inline void expect_pass(std::string_view pass, const std::string& before, const std::string& after,
                        const PassContext& context = {}) {
  ir::Graph graph = rule_of(before);
  const std::string wanted = ir::print(rule_of(after));
  const bool different = ir::print(graph) != wanted;
  EXPECT_EQ(run_pass(pass, graph, context), different) << "pass " << pass;
  EXPECT_EQ(ir::print(graph), wanted) << "pass " << pass;
  EXPECT_FALSE(run_pass(pass, graph, context)) << pass << " is not done after one run:\n" << ir::print(graph);
}

inline void expect_untouched(std::string_view pass, const std::string& text, const PassContext& context = {}) {
  expect_pass(pass, text, text, context);
}

/// A pass with the decisions it recorded.
inline std::vector<Decision> decisions_of(std::string_view pass, const std::string& text, PassContext context = {}) {
  std::vector<Decision> decisions;
  context.decisions = &decisions;
  ir::Graph graph = rule_of(text);
  run_pass(pass, graph, context);
  return decisions;
}

inline PassContext context_of(ir::Mode mode, int64_t members = 1, TargetTraits target = {}) {
  return PassContext{mode, std::move(target), members, nullptr};
}

}  // namespace stepfuse::compiler
