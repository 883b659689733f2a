// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/pass.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tools/commands.h"
#include "tools/library.h"
#include "tools/option_values.h"
#include "tools/text_file.h"

namespace stepfuse::tools {

namespace {

constexpr int64_t kMostMembers = 1'000'000;

struct OptRequest {
  std::string file;
  std::vector<std::string> passes;
  compiler::RunnerOptions runner;
  compiler::PassContext context;
};

Result<OptRequest> read_request(const Arguments& arguments) {
  OptRequest request;
  if (arguments.positionals.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "opt needs an IR file, or - for stdin"),
                     "see `stepfuse opt --help`");
  request.file = arguments.positionals.front();
  STEPFUSE_ASSIGN(request.passes, read_passes(arguments, "passes"));
  STEPFUSE_ASSIGN(request.runner.print_after, read_passes(arguments, "print-after", "all"));
  if (!request.passes.empty() && arguments.has("disable"))
    return with_hint(fail(StatusCode::InvalidArgument, "--disable has no effect with --passes"),
                     "leave the pass out of --passes");
  STEPFUSE_ASSIGN(request.context.members, read_count(arguments, "members", 1, 1, kMostMembers));
  STEPFUSE_ASSIGN(const auto context, make_context(arguments));
  STEPFUSE_ASSIGN(compiler::PlanOptions plan, plan_options(context->settings()));
  request.context.mode = plan.mode;
  request.context.target = std::move(plan.target);
  if (request.passes.empty()) request.runner.disabled = std::move(plan.runner.disabled);
  return request;
}

std::string decision_line(const compiler::Decision& decision) {
  return fmt::format("{} {}: {}{}", decision.pass, decision.subject, decision.taken ? "" : "not taken: ", decision.why);
}

}  // namespace

Result<std::string> command_opt(const Arguments& arguments, const Console& console) {
  STEPFUSE_ASSIGN(OptRequest request, read_request(arguments));
  STEPFUSE_ASSIGN(const std::string text, read_text(request.file));
  STEPFUSE_ASSIGN(ir::Graph graph, ir::parse(text, request.file == "-" ? "<stdin>" : request.file));
  std::string result;
  std::vector<compiler::PassTiming> timings;
  std::vector<compiler::Decision> decisions;
  request.context.decisions = &decisions;
  request.runner.timings = &timings;
  request.runner.print = [&](std::string_view pass, const std::string& dump) {
    result += fmt::format("// after {}\n{}\n", pass, dump);
  };
  STEPFUSE_TRY(compiler::run_passes(graph, request.context, request.runner, request.passes));
  for (const compiler::Decision& decision : decisions) console.detail(decision_line(decision));
  for (const compiler::PassTiming& timing : timings)
    console.detail(fmt::format("{:<16} {:8.3f} ms{}", timing.pass, timing.seconds * 1e3,
                               timing.changed ? "" : ", changed nothing"));
  return result + ir::print(graph);
}

}  // namespace stepfuse::tools
