// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/lower.h"
#include "ir/print.h"
#include "runtime/context.h"
#include "runtime/cpu_backend.h"
#include "runtime/cuda_backend.h"
#include "tools/commands.h"
#include "tools/library.h"
#include "tools/model.h"

#include <memory>
#include <set>

namespace stepfuse::tools {

namespace {

using Parameters = std::vector<compiler::PlannedParameter>;

struct InspectRequest {
  std::string stage;
  compiler::PlanOptions plan;
  std::shared_ptr<const runtime::Context> context;
  ModelSource source;
};

Result<InspectRequest> read_request(const Arguments& arguments) {
  InspectRequest request;
  STEPFUSE_ASSIGN(request.stage, read_choice(arguments, "stage",
                                             {"naive", "fused", "plan", "llvm", "asm", "cuda", "ptx", "sass"}, {}));
  STEPFUSE_ASSIGN(request.source, read_model_source(arguments));
  STEPFUSE_TRY(read_setting_flags(arguments).map([](const auto&) {}));
  return request;
}

/// Each backend has its own last stages.
Outcome check_stage(const std::string& stage, const std::string& target) {
  const bool of_cpu = stage == "llvm" || stage == "asm";
  const bool of_cuda = stage == "cuda" || stage == "ptx" || stage == "sass";
  if (!of_cpu && !of_cuda) return {};
  const bool cuda = runtime::is_cuda_target(target);
  if (target == "interp")
    return with_hint(
        fail(StatusCode::InvalidArgument, "--target interp has no stage {}: the interpreter compiles nothing", stage),
        of_cpu ? "use --target cpu" : "use --target sm_90");
  if (of_cuda == cuda) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "--target {} has no stage {}", target, stage),
                   cuda ? "its stages are cuda, ptx and sass" : "use --target sm_90; a CPU's stages are llvm and asm");
}

/// The text of the kernels, made by the backend.
Result<std::string> kernel_text(const compiler::StepPlan& plan, const InspectRequest& request) {
  const runtime::Settings& settings = request.context->settings();
  const std::vector<codegen::KernelSpec> kernels = codegen::distinct_kernels(plan);
  if (runtime::is_cuda_target(plan.target.name)) {
    const auto kind = request.stage == "cuda"  ? runtime::CudaText::Source
                      : request.stage == "ptx" ? runtime::CudaText::Ptx
                                               : runtime::CudaText::Sass;
    return runtime::cuda_kernel_text(kernels, plan.target.name, kind, settings);
  }
  const auto kind = request.stage == "llvm" ? runtime::KernelText::LlvmIr : runtime::KernelText::Assembly;
  return runtime::cpu_kernel_text(kernels, plan.target.name, kind, settings.text("plugin_dir"));
}

/// Mode, target and passes are known once the config is read.
Outcome read_settings(const Arguments& arguments, const Routing& routing, InspectRequest& request) {
  STEPFUSE_ASSIGN(request.context, make_context(arguments, routing.settings()));
  STEPFUSE_ASSIGN(request.plan, plan_options(request.context->settings()));
  return check_stage(request.stage, request.plan.target.name);
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
  const runtime::Rule& rule = routing.chosen()->rule;
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

}  // namespace

Result<std::string> command_inspect(const Arguments& arguments, const Console& console) {
  STEPFUSE_ASSIGN(InspectRequest request, read_request(arguments));
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  STEPFUSE_TRY(read_settings(arguments, routing, request));
  Parameters parameters;
  RoutedModel routed;
  if (request.source.empty()) {
    STEPFUSE_ASSIGN(parameters, any_parameter(routing, request));
    routed.rules = {*routing.chosen()};
  } else {
    STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(request.source));
    STEPFUSE_ASSIGN(routed, routing.route(to_route(model)));
    STEPFUSE_ASSIGN(parameters, plan_parameters(routed, model));
  }
  for (const std::string& note : routed.notes) console.note(note);
  for (const RoutedRule& rule : routed.rules)
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
  return kernel_text(plan, request);
}

}  // namespace stepfuse::tools
