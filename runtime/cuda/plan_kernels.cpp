// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/plan_kernels.h"

#include "codegen/cuda/emit_prologue.h"
#include "runtime/cuda/cuda_libraries.h"

#include <set>

namespace stepfuse::runtime {

using codegen::CudaMove;
using codegen::Factor;

namespace {

bool is_cached(const CudaKernelRequest& request, const Context& context) {
  Store& store = context.kernels().store();
  if (store.options().mode == CacheMode::Off || store.options().mode == CacheMode::Refresh) return false;
  const Key key = Key::of(EntryKind::Kernel, cuda_kernel_fields(request));
  return store.find(key, context.log(), [](const Entry& entry) { return cuda_compiled_otherwise(entry.metadata); })
      .entry.has_value();
}

}  // namespace

CudaKernelRequest move_kernel_request(const CudaMove& move, const CudaArch& arch) {
  const std::string text = codegen::emit_move(move);
  return {codegen::cuda_move_name(move), text, codegen::nvrtc_options(ir::Mode::Strict), arch,
          [text]() -> Result<std::string> { return text; }};
}

CudaKernelRequest prologue_request(const CudaArch& arch) {
  const std::string text = codegen::emit_prologue();
  return {codegen::kCudaPrologueName, text, codegen::nvrtc_options(ir::Mode::Strict), arch,
          [text]() -> Result<std::string> { return text; }};
}

CudaMove move_of(compiler::StepKind kind, const codegen::LoweredMove& move) {
  CudaMove out{move.source_dtype, move.target_dtype, {}};
  if (kind == compiler::StepKind::AddDiag)
    out.diagonal = move.diagonal.kind == Factor::Kind::Memory ? move.diagonal.dtype : ir::DType::F64;
  return out;
}

Result<CudaArch> arch_for(int device, const Context& context) {
  const std::vector<CudaArch> candidates = archs_for_device(device);
  if (candidates.empty())
    return with_hint(
        fail(StatusCode::Environment, "a device of capability {} is older than what this version compiles for",
             capability_text(device)),
        "use a device of capability 7.5 or newer, or target cpu");
  for (const CudaArch& arch : candidates)
    if (is_cached(prologue_request(arch), context)) return arch;
  if (context.settings().is("jit", "off")) return candidates.front();
  STEPFUSE_ASSIGN(const Nvrtc* nvrtc, Nvrtc::open(context.settings()));
  for (const CudaArch& arch : candidates)
    if (nvrtc->check_arch(arch)) return arch;
  return with_hint(
      fail(StatusCode::Environment, "NVRTC {} ({}) compiles for nothing that a device of capability {} runs",
           nvrtc->version(), nvrtc->path(), capability_text(device)),
      fmt::format("it knows {} and up; use an NVRTC that is older, or newer than the device",
                  capability_text(nvrtc->supported_archs().front())));
}

Result<CudaArch> plan_arch(const std::string& target, const Context& context) {
  if (target != "cuda") return cuda_arch_of(target, context.settings());
  STEPFUSE_ASSIGN(const Driver* driver, Driver::open(context.settings()));
  STEPFUSE_ASSIGN(const CudaDevice device, cuda_device(*driver, static_cast<int>(context.settings().number("device"))));
  return arch_for(device.capability, context);
}

std::vector<CudaKernelRequest> cuda_plan_requests(const compiler::StepPlan& plan, const CudaArch& arch) {
  if (plan.groups.empty()) return {};
  std::vector<CudaKernelRequest> requests{prologue_request(arch)};
  for (const codegen::KernelSpec& spec : codegen::distinct_kernels(plan))
    for (const bool aligned : {true, false}) requests.push_back(fused_kernel_request(spec, {.aligned = aligned}, arch));
  std::set<CudaMove> moves;
  for (const compiler::GroupPlan& group : plan.groups)
    for (const codegen::LoweredStep& step : codegen::lower_group(group, plan.mode).steps)
      if (step.kind != compiler::StepKind::Fused && step.kind != compiler::StepKind::Product)
        moves.insert(move_of(step.kind, step.move));
  for (const CudaMove& move : moves) requests.push_back(move_kernel_request(move, arch));
  return requests;
}

}  // namespace stepfuse::runtime
