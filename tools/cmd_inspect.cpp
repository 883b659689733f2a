// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/lower.h"
#include "ir/print.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/jit.h"
#include "tools/commands.h"
#include "tools/model.h"

#include <set>

namespace stepfuse::tools {

namespace {

using Parameters = std::vector<compiler::PlannedParameter>;

struct InspectRequest {
  std::string stage;
  compiler::PlanOptions plan;
  ModelSource source;
};

Result<InspectRequest> read_request(const Arguments& arguments) {
  InspectRequest request;
  STEPFUSE_ASSIGN(request.stage,
                  read_choice(arguments, "stage", {"naive", "fused", "plan", "llvm", "asm"}, {"cuda", "ptx", "sass"}));
  STEPFUSE_ASSIGN(request.source, read_model_source(arguments));
  STEPFUSE_ASSIGN(request.plan, read_plan_options(arguments));
  if (request.plan.target.name == "interp" && (request.stage == "llvm" || request.stage == "asm"))
    return with_hint(fail(StatusCode::InvalidArgument,
                          "--target interp has no stage {}: the interpreter compiles nothing", request.stage),
                     "use --target cpu");
  return request;
}

/// Without --shape and --params: one parameter whose extent no elementwise rule looks at. A rule that does look says
/// so.
Result<Parameters> any_parameter(const Routing& routing, const InspectRequest& request) {
  if (!routing.chosen())
    return with_hint(fail(StatusCode::InvalidArgument, "inspect needs --recipe, --shape or --params"),
                     "for example: stepfuse inspect --recipe adamw");
  const ir::DType param = request.source.types.param.value_or(ir::DType::F32);
  const ModelParameter parameter{
      "p", {{4096}, param, request.source.types.grad.value_or(param), request.source.types.state.value_or(param)}};
  const runtime::Rule& rule = routing.rules().front().rule;
  auto graph = rule.instantiate(parameter.spec);
  if (!graph) {
    Status status = std::move(graph.error());
    status.message = fmt::format("recipe {} needs a shape: {}", rule.name(), status.message);
    status.hint = "give the shape of a matrix, such as --shape 768x3072";
    return fail(std::move(status));
  }
  return Parameters{{parameter.name, parameter.spec.shape, std::move(*graph), rule.peer()}};
}

/// Each different graph once; a second one is set apart by a comment line.
std::string naive_text(const Parameters& parameters) {
  std::string text;
  std::set<std::string> seen;
  for (const auto& parameter : parameters) {
    std::string graph = ir::print(parameter.rule);
    if (!seen.insert(graph).second) continue;
    if (seen.size() > 1) text += fmt::format("\n// for {} [{}]\n", parameter.name, fmt::join(parameter.shape, ", "));
    text += graph;
  }
  return text;
}

std::string fused_text(const compiler::StepPlan& plan, const Parameters& parameters) {
  std::string text;
  for (const compiler::GroupPlan& group : plan.groups) {
    if (!text.empty())
      text +=
          fmt::format("\n// for {} and {} more\n", parameters[group.members.front()].name, group.members.size() - 1);
    text += ir::print(group.graph);
  }
  return text;
}

/// Every kernel of the plan, each once, in order of its first launch.
std::vector<codegen::KernelSpec> distinct_kernels(const compiler::StepPlan& plan) {
  std::vector<codegen::KernelSpec> kernels;
  std::set<std::string> seen;
  for (const compiler::GroupPlan& group : plan.groups)
    for (const compiler::GroupStep& step : group.steps)
      for (size_t phase = 0; phase < step.phases.size(); ++phase) {
        codegen::KernelSpec spec = codegen::lower_phase(group, step, phase, plan.mode).spec;
        if (seen.insert(codegen::print(spec)).second) kernels.push_back(std::move(spec));
      }
  return kernels;
}

Result<std::string> machine_text(const compiler::StepPlan& plan, const std::string& stage) {
  STEPFUSE_ASSIGN(const runtime::CpuTarget target, runtime::cpu_target(plan.target.name));
  STEPFUSE_ASSIGN(const runtime::CpuCompiler* compiler, runtime::cpu_compiler());
  const bool llvm = stage == "llvm";
  const std::string_view comment = llvm ? ";" : "#";
  std::string text = fmt::format("{} {}, target {}\n{} {}\n", comment, compiler->version(), target.name, comment,
                                 target.llvm_features);
  for (const codegen::KernelSpec& spec : distinct_kernels(plan)) {
    STEPFUSE_ASSIGN(const runtime::CompiledKernel kernel, compiler->compile({&spec, target, llvm, !llvm}));
    text += fmt::format("\n{} kernel {}\n{}", comment, spec.name, llvm ? kernel.llvm_ir : kernel.assembly);
  }
  return text;
}

}  // namespace

Result<std::string> command_inspect(const Arguments& arguments, const Console& console) {
  STEPFUSE_ASSIGN(InspectRequest request, read_request(arguments));
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  Parameters parameters;
  if (request.source.empty()) {
    STEPFUSE_ASSIGN(parameters, any_parameter(routing, request));
  } else {
    STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(request.source));
    STEPFUSE_ASSIGN(parameters, plan_parameters(routing, model));
  }
  for (const RoutedRule& rule : routing.rules())
    if (const std::string remark = remark_on(rule); !remark.empty()) console.note(remark);
  if (request.stage == "naive") return naive_text(parameters);
  std::vector<compiler::PassTiming> timings;
  request.plan.runner.timings = &timings;
  STEPFUSE_ASSIGN(const compiler::StepPlan plan, compiler::make_plan(parameters, request.plan));
  for (const compiler::PassTiming& timing : timings)
    console.detail(fmt::format("{:<16} {:8.3f} ms{}", timing.pass, timing.seconds * 1e3,
                               timing.changed ? "" : ", changed nothing"));
  if (request.stage == "fused") return fused_text(plan, parameters);
  if (request.stage == "plan") return compiler::print_plan(plan, parameters);
  return machine_text(plan, request.stage);
}

}  // namespace stepfuse::tools
