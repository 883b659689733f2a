// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/explain.h"
#include "runtime/cpu_backend.h"
#include "runtime/cuda_backend.h"
#include "runtime/executor.h"
#include "runtime/target.h"
#include "tools/commands.h"
#include "tools/library.h"
#include "tools/model.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

bool same_note(const compiler::Decision& a, const compiler::Decision& b) {
  return a.pass == b.pass && a.subject == b.subject && a.taken == b.taken && a.why == b.why;
}

/// What the backend chooses for this plan: the executor is made as `run` makes it, and asked. A target that this host
/// cannot run has no such choices.
Result<compiler::BackendNotes> backend_notes(const compiler::StepPlan& plan,
                                             const std::vector<compiler::PlannedParameter>& parameters,
                                             const runtime::Context& context) {
  compiler::BackendNotes notes;
  if (plan.target.name == "interp") return notes;
  const bool cuda = runtime::is_cuda_target(plan.target.name);
  const Outcome runs =
      cuda ? runtime::check_target_steps(plan.target.name) : runtime::check_cpu_target_runs_here(plan.target.name);
  if (!runs)
    return compiler::BackendNotes{{"gemm_provider",
                                   plan.target.name,
                                   false,
                                   "libraries are chosen on the machine that runs the plan: " + runs.error().message,
                                   {},
                                   {}}};
  STEPFUSE_ASSIGN(const auto executor, runtime::make_cpu_executor(plan, parameters, plan.target.name, 1, context));
  notes = runtime::unusable_cpu_libraries();
  for (compiler::Decision& note : executor->notes())
    if (std::none_of(notes.begin(), notes.end(),
                     [&](const compiler::Decision& other) { return same_note(note, other); }))
      notes.push_back(std::move(note));
  return notes;
}

}  // namespace

Result<std::string> command_explain(const Arguments& arguments, const Console& console) {
  STEPFUSE_ASSIGN(const std::string format, read_choice(arguments, "format", {"text", "json"}, {"dot", "html"}));
  STEPFUSE_ASSIGN(const ModelSource source, read_model_source(arguments));
  if (source.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "explain needs --shape or --params"),
                     "give a shape, such as --shape 768x3072, a safetensors file or a manifest (*.toml)");
  STEPFUSE_TRY(read_setting_flags(arguments).map([](const auto&) {}));
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  STEPFUSE_ASSIGN(const auto context, make_context(arguments, routing.settings()));
  STEPFUSE_ASSIGN(const compiler::PlanOptions options, plan_options(context->settings()));
  STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(source));
  STEPFUSE_ASSIGN(const RoutedModel routed, routing.route(to_route(model)));
  for (const std::string& note : routed.notes) console.note(note);
  STEPFUSE_ASSIGN(const auto parameters, plan_parameters(routed, model));
  STEPFUSE_ASSIGN(const compiler::StepPlan plan, compiler::make_plan(parameters, options));
  console.detail(
      fmt::format("{} parameters from {}", parameters.size(), source.params.empty() ? "--shape" : source.params));
  STEPFUSE_ASSIGN(const compiler::BackendNotes notes, backend_notes(plan, parameters, *context));
  if (format == "json") return compiler::explain_json(plan, parameters, notes).dump(2) + "\n";
  return compiler::explain_text(plan, parameters, notes);
}

}  // namespace stepfuse::tools
