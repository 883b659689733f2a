// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/explain.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/gemm.h"
#include "runtime/executor.h"
#include "tools/commands.h"
#include "tools/model.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

/// Providers of this machine that are not used, and why.
compiler::BackendNotes unusable_providers() {
  compiler::BackendNotes notes;
  for (const runtime::ProviderReport& report : runtime::GemmProviders::get().reports())
    if (!report.usable) notes.push_back({"gemm_provider", std::string(report.name), false, report.why, {}, {}});
  return notes;
}

bool same_note(const compiler::Decision& a, const compiler::Decision& b) {
  return a.pass == b.pass && a.subject == b.subject && a.taken == b.taken && a.why == b.why;
}

/// What the backend chooses for this plan: the executor is made as `run` makes it, and asked. A target that this host
/// cannot run has no such choices.
Result<compiler::BackendNotes> backend_notes(const compiler::StepPlan& plan,
                                             const std::vector<compiler::PlannedParameter>& parameters) {
  compiler::BackendNotes notes;
  if (plan.target.name == "interp") return notes;
  STEPFUSE_ASSIGN(const runtime::CpuTarget target, runtime::cpu_target(plan.target.name));
  if (const Outcome runs = runtime::check_runs_here(target); !runs)
    return compiler::BackendNotes{{"gemm_provider",
                                   plan.target.name,
                                   false,
                                   "libraries are chosen on the machine that runs the plan: " + runs.error().message,
                                   {},
                                   {}}};
  STEPFUSE_ASSIGN(const auto executor, runtime::make_cpu_executor(plan, parameters, plan.target.name, 1));
  notes = unusable_providers();
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
  STEPFUSE_ASSIGN(const compiler::PlanOptions options, read_plan_options(arguments));
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(source));
  STEPFUSE_ASSIGN(const auto parameters, plan_parameters(routing, model));
  STEPFUSE_ASSIGN(const compiler::StepPlan plan, compiler::make_plan(parameters, options));
  console.detail(
      fmt::format("{} parameters from {}", parameters.size(), source.params.empty() ? "--shape" : source.params));
  STEPFUSE_ASSIGN(const compiler::BackendNotes notes, backend_notes(plan, parameters));
  if (format == "json") return compiler::explain_json(plan, parameters, notes).dump(2) + "\n";
  return compiler::explain_text(plan, parameters, notes);
}

}  // namespace stepfuse::tools
