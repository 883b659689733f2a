// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// explain and summary behind the C interface.
#include "compiler/explain.h"
#include "compiler/verify_plan.h"
#include "runtime/api/objects.h"
#include "runtime/manifest.h"

#include <nlohmann/json.hpp>

using namespace stepfuse;
using namespace stepfuse::api;

namespace {

Result<std::string> explain_as(const runtime::Optimizer& optimizer, std::string_view format) {
  using nlohmann::ordered_json;
  if (format == "text") return compiler::explain_text(optimizer.plan(), optimizer.planned(), optimizer.backend_notes());
  if (format == "json")
    // A name that is no UTF-8 must not keep anyone from reading the rest.
    return compiler::explain_json(optimizer.plan(), optimizer.planned(), optimizer.backend_notes())
        .dump(2, ' ', false, ordered_json::error_handler_t::replace);
  return with_hint(fail(StatusCode::InvalidArgument, "explain has no format '{}'", format), "use text or json");
}

stepfuse_summary summarise(const runtime::Optimizer& optimizer) {
  const compiler::PlanCounts counts = optimizer.counts();
  const runtime::ExecutorReport report = optimizer.report();
  stepfuse_summary summary = stepfuse_summary_init();
  summary.launches = counts.fused.total();
  summary.elementwise_launches = counts.fused.elementwise;
  summary.gemms = counts.fused.gemms;
  summary.aux_launches = counts.fused.aux;
  summary.naive_launches = counts.naive.total();
  summary.bytes_per_param = counts.bytes_per_param;
  summary.gemm_flops = counts.gemm_flops;
  summary.workspace_bytes = report.workspace_bytes;
  summary.host_syncs = static_cast<int64_t>(compiler::host_syncs(optimizer.plan()).size());
  summary.compiled_kernels = report.compiled_kernels;
  summary.compile_seconds = report.compile_seconds;
  return summary;
}

}  // namespace

stepfuse_status stepfuse_optimizer_explain(stepfuse_optimizer* optimizer, const char* format, char* buffer, size_t size,
                                           size_t* needed) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("explain"));
    STEPFUSE_TRY(require(format, "format"));
    STEPFUSE_ASSIGN(const std::string text, explain_as(object.optimizer, format));
    return copy_text(text, buffer, size, needed);
  });
}

stepfuse_status stepfuse_optimizer_write_manifest(stepfuse_optimizer* optimizer, const char* path) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("write_manifest"));
    STEPFUSE_TRY(require(path, "path"));
    STEPFUSE_TRY(runtime::write_manifest(object.optimizer, path));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_summary(stepfuse_optimizer* optimizer, stepfuse_summary* out) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(out, "out"));
    STEPFUSE_TRY(check_out_struct(out, "summary", kFirstSize<stepfuse_summary>));
    write_struct(out, summarise(object.optimizer));
    return {};
  });
}
