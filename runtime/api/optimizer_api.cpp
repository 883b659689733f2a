// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The public C++ API: translates types and turns every Status into the one exception of the API.
#include "compiler/verify_plan.h"
#include "runtime/optimizer.h"
#include "stepfuse/stepfuse.hpp"

#include <algorithm>
#include <new>

#include <nlohmann/json.hpp>

namespace stepfuse {

namespace {

ErrorCode error_code(StatusCode code) {
  switch (code) {
    case StatusCode::InvalidArgument:
      return ErrorCode::InvalidArgument;
    case StatusCode::InvalidData:
    case StatusCode::Failed:
      return ErrorCode::InvalidData;
    case StatusCode::NotFound:
      return ErrorCode::NotFound;
    case StatusCode::Unsupported:
      return ErrorCode::Unsupported;
    case StatusCode::Environment:
      return ErrorCode::Environment;
    case StatusCode::Io:
      return ErrorCode::Io;
    case StatusCode::Internal:
      return ErrorCode::Internal;
  }
  return ErrorCode::Internal;
}

/// Runs `body`, which returns a Result, and gives its value or throws stepfuse::Error.
template <class Body>
auto unwrap(Body body) {
  try {
    auto result = body();
    if (!result) throw Error(error_code(result.error().code), result.error().message, result.error().hint);
    if constexpr (!std::is_void_v<typename decltype(result)::value_type>) return std::move(*result);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::Environment, "out of memory", "use fewer or smaller parameters");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::Internal, error.what(),
                "this is a fault of Stepfuse; please report it with the rule and shapes");
  }
}

ir::DType to_ir(ElementType type) {
  switch (type) {
    case ElementType::F32:
      return ir::DType::F32;
    case ElementType::BF16:
      return ir::DType::BF16;
    case ElementType::F16:
      return ir::DType::F16;
    case ElementType::F64:
      return ir::DType::F64;
  }
  throw Error(ErrorCode::InvalidArgument, "unknown element type", "use F32, BF16, F16 or F64");
}

ElementType from_ir(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F32:
      return ElementType::F32;
    case ir::DType::BF16:
      return ElementType::BF16;
    case ir::DType::F16:
      return ElementType::F16;
    case ir::DType::F64:
      return ElementType::F64;
    case ir::DType::Bool:
      break;
  }
  throw Error(ErrorCode::Internal, "a state of bool elements", "");
}

runtime::OptimizerSettings to_runtime(const Settings& settings) {
  runtime::OptimizerSettings out;
  out.mode = settings.numerics == Numerics::Strict ? ir::Mode::Strict : ir::Mode::Default;
  out.target = settings.target;
  out.threads = settings.threads;
  out.runner.disabled = settings.disabled_passes;
  return out;
}

PlanSummary summarise(const runtime::Optimizer& optimizer) {
  const compiler::PlanCounts counts = optimizer.counts();
  const runtime::ExecutorReport report = optimizer.report();
  PlanSummary summary{};
  summary.launches = counts.fused.total();
  summary.elementwise_launches = counts.fused.elementwise;
  summary.gemms = counts.fused.gemms;
  summary.aux_launches = counts.fused.aux;
  summary.naive_launches = counts.naive.total();
  summary.bytes_per_param = counts.bytes_per_param;
  summary.gemm_flops = counts.gemm_flops;
  summary.workspace_bytes = report.workspace_bytes;
  summary.host_syncs = static_cast<std::int64_t>(compiler::host_syncs(optimizer.plan()).size());
  summary.compiled_kernels = report.compiled_kernels;
  summary.compile_seconds = report.compile_seconds;
  return summary;
}

Result<std::string> explain_as(const runtime::Optimizer& optimizer, const std::string& format) {
  using nlohmann::ordered_json;
  if (format == "text") return compiler::explain_text(optimizer.plan(), optimizer.planned(), optimizer.backend_notes());
  if (format == "json")
    // A name that is no UTF-8 must not keep anyone from reading the rest.
    return compiler::explain_json(optimizer.plan(), optimizer.planned(), optimizer.backend_notes())
        .dump(2, ' ', false, ordered_json::error_handler_t::replace);
  return with_hint(fail(StatusCode::InvalidArgument, "explain has no format '{}'", format), "use text or json");
}

}  // namespace

struct Optimizer::Impl {
  runtime::Optimizer optimizer;

  void check(ParameterId parameter) const {
    if (parameter.index >= optimizer.parameter_count())
      throw Error(ErrorCode::InvalidArgument, fmt::format("there is no parameter number {}", parameter.index),
                  "use what add_parameter returned");
  }
};

Optimizer::Optimizer(const Settings& settings)
    : impl_(new Impl{unwrap([&] { return runtime::Optimizer::create(to_runtime(settings)); })}) {}
Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

GroupId Optimizer::add_group(const std::string& recipe, const Options& options) {
  return {unwrap([&] { return impl_->optimizer.add_group(recipe, options); })};
}

ParameterId Optimizer::add_parameter(GroupId group, const std::string& name, const std::vector<std::int64_t>& shape,
                                     ElementType dtype) {
  const ir::DType type = to_ir(dtype);
  return {unwrap([&] { return impl_->optimizer.add_parameter(group.index, name, {shape, type, type, type}); })};
}

void Optimizer::prepare() {
  unwrap([&] { return impl_->optimizer.prepare(); });
}

void Optimizer::bind(ParameterId parameter, void* data, const void* gradient) {
  unwrap([&] { return impl_->optimizer.bind(parameter.index, data, gradient); });
}

void Optimizer::step() {
  unwrap([&] { return impl_->optimizer.step(); });
}

void Optimizer::set(GroupId group, const std::string& option, double value) {
  unwrap([&] { return impl_->optimizer.set(group.index, option, value); });
}

TensorView Optimizer::state(ParameterId parameter, const std::string& key) const {
  const auto views = unwrap([&] { return impl_->optimizer.states(parameter.index); });
  const auto it =
      std::find_if(views.begin(), views.end(), [&](const runtime::StateView& view) { return view.key == key; });
  if (it != views.end()) return {it->data, from_ir(it->dtype), it->shape};
  throw Error(ErrorCode::InvalidArgument, fmt::format("parameter {} has no state '{}'", parameter.index, key),
              fmt::format("its states are {}", fmt::join(state_keys(parameter), ", ")));
}

std::vector<std::string> Optimizer::state_keys(ParameterId parameter) const {
  std::vector<std::string> keys;
  for (const runtime::StateView& view : unwrap([&] { return impl_->optimizer.states(parameter.index); }))
    keys.push_back(view.key);
  return keys;
}

std::int64_t Optimizer::steps(ParameterId parameter) const {
  impl_->check(parameter);
  return impl_->optimizer.steps(parameter.index);
}

void Optimizer::set_steps(ParameterId parameter, std::int64_t steps) {
  impl_->check(parameter);
  // Bias corrections are exact for step counts up to 2^53.
  if (steps < 0 || steps >= std::int64_t{1} << 53)
    throw Error(ErrorCode::InvalidArgument, fmt::format("{} is not a number of steps", steps), "use 0 to 2^53 - 1");
  impl_->optimizer.set_steps(parameter.index, steps);
  if (steps > 0) impl_->optimizer.mark_states_present(parameter.index);
}

PlanSummary Optimizer::summary() const {
  return unwrap([&]() -> Result<PlanSummary> { return summarise(impl_->optimizer); });
}

std::string Optimizer::explain(const std::string& format) const {
  return unwrap([&] { return explain_as(impl_->optimizer, format); });
}

}  // namespace stepfuse
