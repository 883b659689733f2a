// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_io.h"
#include "runtime/target.h"
#include "tools/check.h"
#include "tools/commands.h"
#include "tools/device_tensors.h"
#include "tools/library.h"
#include "tools/model.h"
#include "tools/state_io.h"
#include "tools/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include <unistd.h>

namespace stepfuse::tools {

namespace {

constexpr int64_t kMostSteps = 1'000'000'000;

using Metadata = std::map<std::string, std::string>;

struct RunRequest {
  runtime::OptimizerSettings settings;
  std::string params, grads, state, out, state_out;
  int64_t steps = 1;
  bool check = false;
};

Result<RunRequest> read_request(const Arguments& arguments) {
  STEPFUSE_TRY(require(arguments, {"params", "grads", "out"}));
  RunRequest request;
  STEPFUSE_TRY(read_setting_flags(arguments).map([](const auto&) {}));
  STEPFUSE_TRY(runtime::check_target_steps(arguments.get("target", "interp")));
  STEPFUSE_ASSIGN(request.steps, read_count(arguments, "steps", 1, 1, kMostSteps));
  request.params = arguments.get("params");
  request.grads = arguments.get("grads");
  request.state = arguments.get("state");
  request.out = arguments.get("out");
  request.state_out = arguments.get("state-out");
  request.check = arguments.has("check");
  const auto normal = [](const std::string& path) { return std::filesystem::path(path).lexically_normal(); };
  if (!request.state_out.empty() && normal(request.out) == normal(request.state_out))
    return fail(StatusCode::InvalidArgument, "--out and --state-out are the same file '{}'", request.out);
  return request;
}

/// What flags, environment and config say of the library.
Outcome read_settings(const Arguments& arguments, const Routing& routing, runtime::OptimizerSettings& out) {
  STEPFUSE_ASSIGN(out.context, make_context(arguments, routing.settings()));
  const runtime::Settings& settings = out.context->settings();
  out.mode = mode_of(settings);
  out.target = settings.text("target");
  out.threads = static_cast<int>(settings.number("threads"));
  out.device = static_cast<int>(settings.number("device"));
  out.runner.disabled = settings.list("disable");
  return {};
}

struct Inputs {
  std::vector<RunTensor> tensors;
  Metadata metadata;
  std::optional<runtime::SafetensorsFile> state;
};

Result<Inputs> read_inputs(const RunRequest& request, const Console& console) {
  STEPFUSE_TRY(check_writable(request.out));
  if (!request.state_out.empty()) STEPFUSE_TRY(check_writable(request.state_out));
  STEPFUSE_ASSIGN(const auto params, runtime::SafetensorsFile::open(request.params));
  STEPFUSE_ASSIGN(const auto grads, runtime::SafetensorsFile::open(request.grads));
  Inputs inputs;
  inputs.metadata = params.metadata();
  if (!request.state.empty()) {
    STEPFUSE_ASSIGN(inputs.state, runtime::SafetensorsFile::open(request.state));
  }
  std::vector<std::string> missing;
  STEPFUSE_ASSIGN(inputs.tensors, read_tensors(params, grads, missing));
  for (const std::string& name : missing) console.note(fmt::format("'{}' has no gradient and stays as it is", name));
  return inputs;
}

/// An optimizer and the tensors that are bound to it.
struct Run {
  runtime::Optimizer optimizer;
  DeviceTensors tensors;
};

/// The optimizer over `tensors`, compiled, with the states of the file.
Result<Run> make_run(const runtime::OptimizerSettings& settings, const RoutedModel& routed,
                     std::vector<RunTensor>& tensors, const std::optional<runtime::SafetensorsFile>& state) {
  STEPFUSE_ASSIGN(runtime::Optimizer optimizer, runtime::Optimizer::create(settings));
  std::vector<uint32_t> groups;
  for (const RoutedRule& rule : routed.rules) {
    STEPFUSE_ASSIGN(const uint32_t group, optimizer.add_group(rule.recipe, rule.options));
    groups.push_back(group);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const RunTensor& tensor = tensors[i];
    const uint32_t group = groups[routed.rule_of[i]];
    STEPFUSE_TRY(optimizer.add_parameter(group, tensor.name, {tensor.shape, tensor.dtype, tensor.dtype, tensor.dtype})
                     .map([](uint32_t) {}));
  }
  STEPFUSE_TRY(optimizer.prepare());
  STEPFUSE_ASSIGN(DeviceTensors bound, DeviceTensors::bind(optimizer, tensors));
  if (state) STEPFUSE_TRY(runtime::import_state(optimizer, *state));
  return Run{std::move(optimizer), std::move(bound)};
}

Outcome take_steps(Run& run, int64_t steps, std::vector<RunTensor>& tensors) {
  for (int64_t i = 0; i < steps; ++i) STEPFUSE_TRY(run.optimizer.step());
  return run.tensors.read_back(run.optimizer, tensors);
}

/// The same steps on the interpreter, from `before`.
Outcome check_run(const RunRequest& request, const RoutedModel& routed, const runtime::Optimizer& ours,
                  const Inputs& inputs, const std::vector<RunTensor>& before, const Console& console) {
  if (request.settings.target == "interp") console.note("check: the target is the interpreter itself");
  runtime::OptimizerSettings settings = request.settings;
  settings.target = "interp";
  std::vector<RunTensor> reference = before;
  STEPFUSE_ASSIGN(Run interpreter, make_run(settings, routed, reference, inputs.state));
  STEPFUSE_TRY(take_steps(interpreter, request.steps, reference));
  return check_against(ours, inputs.tensors, interpreter.optimizer, reference, before,
                       request.settings.mode == ir::Mode::Strict, request.steps, console);
}

std::string staged_name(const std::string& path) { return fmt::format("{}.{}.tmp", path, getpid()); }

Outcome publish(const std::string& path) {
  if (std::rename(staged_name(path).c_str(), path.c_str()) == 0) return {};
  return fail(StatusCode::Io, "cannot write '{}': {}", path, std::strerror(errno));
}

/// Both files are written in full beside their names before either name changes.
Outcome write_results(const RunRequest& request, const runtime::Optimizer& optimizer, const Inputs& inputs) {
  std::vector<runtime::TensorToWrite> parameters;
  for (const RunTensor& tensor : inputs.tensors)
    parameters.push_back(
        {tensor.name, std::string(runtime::safetensors_name(tensor.dtype)), tensor.shape, tensor.data.data()});
  const bool with_state = !request.state_out.empty();
  Outcome outcome = runtime::write_safetensors(staged_name(request.out), parameters, inputs.metadata);
  if (outcome && with_state) outcome = runtime::save_state(optimizer, staged_name(request.state_out), inputs.metadata);
  if (outcome && with_state) outcome = publish(request.state_out);
  if (outcome) outcome = publish(request.out);
  if (!outcome) {
    std::remove(staged_name(request.out).c_str());
    if (with_state) std::remove(staged_name(request.state_out).c_str());
  }
  return outcome;
}

void describe_run(const runtime::Optimizer& optimizer, const Console& console) {
  const runtime::ExecutorReport report = optimizer.report();
  console.detail(fmt::format("{} launches per step; {} kernels compiled in {:.3g} s; {} bytes of workspace",
                             report.last_step.total(), report.compiled_kernels, report.compile_seconds,
                             report.workspace_bytes));
  for (const compiler::Decision& note : optimizer.backend_notes())
    console.detail(fmt::format("{} {}: {}", note.pass, note.subject, note.why));
}

}  // namespace

Result<std::string> command_run(const Arguments& arguments, const Console& console) {
  STEPFUSE_ASSIGN(RunRequest request, read_request(arguments));
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  STEPFUSE_TRY(read_settings(arguments, routing, request.settings));
  STEPFUSE_ASSIGN(Inputs inputs, read_inputs(request, console));
  std::vector<runtime::RoutedParameter> parameters;
  for (const RunTensor& tensor : inputs.tensors) parameters.push_back({tensor.name, tensor.shape, tensor.dtype});
  STEPFUSE_ASSIGN(const RoutedModel routed, routing.route(parameters));
  for (const std::string& note : routed.notes) console.note(note);
  std::vector<RunTensor> before;
  if (request.check) before = inputs.tensors;
  STEPFUSE_ASSIGN(Run run, make_run(request.settings, routed, inputs.tensors, inputs.state));
  const runtime::Optimizer& optimizer = run.optimizer;
  STEPFUSE_TRY(take_steps(run, request.steps, inputs.tensors));
  describe_run(optimizer, console);
  if (request.check) STEPFUSE_TRY(check_run(request, routed, optimizer, inputs, before, console));
  STEPFUSE_TRY(write_results(request, optimizer, inputs));
  return std::string();
}

}  // namespace stepfuse::tools
