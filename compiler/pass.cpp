// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/pass.h"

#include "compiler/passes/absorb_scale.h"
#include "compiler/passes/absorb_update.h"
#include "compiler/passes/cast_sink.h"
#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/fold_norm.h"
#include "compiler/passes/fuse.h"
#include "compiler/passes/mark_symmetric.h"
#include "compiler/passes/orient.h"
#include "compiler/passes/simplify.h"
#include "compiler/passes/widen_products.h"
#include "ir/print.h"
#include "ir/support/nearest.h"
#include "ir/verify.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace stepfuse::compiler {

namespace {

constexpr std::array kPasses{
    PassInfo{"simplify", PassLevel::Recipe, "fold constants, remove what does nothing", false, simplify},
    PassInfo{"cse", PassLevel::Recipe, "merge equal values, a + b and b + a included", false, merge_equal},
    PassInfo{"dce", PassLevel::Recipe, "drop what no output depends on", false, drop_dead},
    PassInfo{"cast_sink", PassLevel::Recipe, "make casts part of the ops beside them", false, sink_casts},
    PassInfo{"orient", PassLevel::Group, "turn transposes of tall matrices into flags of products", false,
             orient_transposes},
    PassInfo{"absorb_scale", PassLevel::Group, "scale and add around a product become its alpha and beta", true,
             absorb_scale},
    PassInfo{"widen_products", PassLevel::Group, "run bf16 products in f32 where there are no bf16 units", true,
             widen_products},
    PassInfo{"fold_norm", PassLevel::Group, "division by a norm becomes alpha and beta of the products", true,
             fold_norm},
    PassInfo{"absorb_update", PassLevel::Group, "the last product writes the parameter", true, absorb_update},
    PassInfo{"mark_symmetric", PassLevel::Group, "products that equal their transpose may compute one triangle", true,
             mark_symmetric},
    PassInfo{"fuse", PassLevel::Group, "put elementwise ops and reductions into kernels", false, fuse_elementwise},
    PassInfo{"batch", PassLevel::Plan, "run matrices of one shape together, under a memory cap", false, nullptr},
    PassInfo{"horizontal", PassLevel::Plan, "run all parameters of one elementwise rule in one launch", false, nullptr},
    PassInfo{"pad_rows", PassLevel::Plan, "begin the rows of products' matrices where matrix units want them", false,
             nullptr},
    PassInfo{"branches", PassLevel::Plan, "let batches run at the same time, each branch with scratch of its own",
             false, nullptr},
    PassInfo{"reuse_memory", PassLevel::Plan, "let scratch buffers share memory when their lives do not overlap", false,
             nullptr},
};

using Clock = std::chrono::steady_clock;

std::string problems_text(const ir::Graph& graph) {
  std::string text;
  for (const std::string& problem : ir::verify(graph)) text += "\n  " + problem;
  return text;
}

Outcome run_one(ir::Graph& graph, const PassInfo& pass, const PassContext& context, const RunnerOptions& options) {
  const auto start = Clock::now();
  const bool changed = pass.run(graph, context);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (options.timings != nullptr) options.timings->push_back({pass.name, seconds, changed});
  if (changed) {
    const std::string problems = problems_text(graph);
    if (!problems.empty()) return fail(StatusCode::Internal, "pass {} broke {}:{}", pass.name, graph.name, problems);
  }
  const auto& wanted = options.print_after;
  const bool print =
      std::any_of(wanted.begin(), wanted.end(), [&](const std::string& w) { return w == "all" || w == pass.name; });
  if (print && options.print) options.print(pass.name, changed ? ir::print(graph) : "(unchanged)\n");
  return {};
}

/// Why a pass of the default pipeline does not run, if it does not.
std::string skip_reason(const PassInfo& pass, const PassContext& context, const RunnerOptions& options) {
  if (options.is_disabled(pass.name)) return "switched off by name";
  if (pass.default_mode_only && context.strict())
    return "strict rounds once per op as the recipe says; this rewrite is equal in real arithmetic only";
  return {};
}

}  // namespace

std::string_view level_name(PassLevel level) {
  constexpr std::array<std::string_view, 3> kNames{"recipe", "group", "plan"};
  return kNames[static_cast<size_t>(level)];
}

std::span<const PassInfo> all_passes() { return kPasses; }

Result<const PassInfo*> find_pass(std::string_view name) {
  std::vector<std::string_view> names;
  for (const PassInfo& pass : kPasses) {
    if (pass.name == name) return &pass;
    names.push_back(pass.name);
  }
  return with_hint(fail(StatusCode::InvalidArgument, "there is no pass '{}'", name),
                   suggestion(name, names, fmt::format("the passes are {}", fmt::join(names, ", "))));
}

bool RunnerOptions::is_disabled(std::string_view pass) const {
  return std::find(disabled.begin(), disabled.end(), pass) != disabled.end();
}

Outcome run_passes(ir::Graph& graph, const PassContext& context, const RunnerOptions& options,
                   std::span<const std::string> passes) {
  for (const auto* list : {&options.disabled, &options.print_after})
    for (const std::string& name : *list)
      if (name != "all" || list == &options.disabled) STEPFUSE_TRY(find_pass(name).map([](const PassInfo*) {}));
  if (passes.empty()) {
    for (const PassInfo& pass : kPasses) {
      if (pass.run == nullptr) continue;
      const std::string reason = skip_reason(pass, context, options);
      if (reason.empty()) {
        STEPFUSE_TRY(run_one(graph, pass, context, options));
      } else {
        context.record({std::string(pass.name), graph.name, false, reason, {}, {}});
      }
    }
    return {};
  }
  for (const std::string& name : passes) {
    STEPFUSE_ASSIGN(const PassInfo* pass, find_pass(name));
    if (pass->run == nullptr)
      return with_hint(fail(StatusCode::InvalidArgument, "pass {} works on the step plan, not on a graph", name),
                       "see its effect with `stepfuse inspect --stage plan`");
    STEPFUSE_TRY(run_one(graph, *pass, context, options));
  }
  return {};
}

}  // namespace stepfuse::compiler
