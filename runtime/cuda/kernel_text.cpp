// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels as `inspect` shows them.
#include "codegen/cuda/emit_cuda.h"
#include "runtime/cuda/cuda_libraries.h"
#include "runtime/cuda/disassemble.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/ptx_counts.h"
#include "runtime/cuda_backend.h"

namespace stepfuse::runtime {

namespace {

/// The text for tensors that are aligned, which those of an allocator are.
Result<std::string> source_of(const codegen::KernelSpec& spec) { return codegen::emit_cuda(spec, {.aligned = true}); }

/// What a reader wants to know before the text.
std::string header(const std::string& kernel, const CudaBinary& binary) {
  std::string text = fmt::format("\n// kernel {}\n", kernel);
  if (binary.usage)
    text += fmt::format("// {} registers, {} bytes spilled, {} bytes of shared memory\n", binary.usage->registers,
                        binary.usage->spill_bytes, binary.usage->shared_bytes);
  const PtxCounts counts = count_accesses(binary.ptx);
  return text + fmt::format("// loads: {}; stores: {}\n", counts_text(counts.loads), counts_text(counts.stores));
}

Result<std::string> source_text(std::span<const codegen::KernelSpec> kernels) {
  std::string text;
  for (const codegen::KernelSpec& spec : kernels) {
    STEPFUSE_ASSIGN(const std::string source, source_of(spec));
    text += fmt::format("{}// kernel {}\n{}", text.empty() ? "" : "\n", spec.name, source);
  }
  return text;
}

}  // namespace

Result<std::string> cuda_kernel_text(std::span<const codegen::KernelSpec> kernels, const std::string& target,
                                     CudaText kind, const Settings& settings) {
  STEPFUSE_TRY(check_cuda_target(target));
  if (kind == CudaText::Source) return source_text(kernels);
  STEPFUSE_ASSIGN(const CudaArch arch, cuda_arch_of(target, settings));
  if (kind == CudaText::Sass && !arch.real)
    return with_hint(fail(StatusCode::InvalidArgument, "target {} has no machine code: it is PTX", target),
                     fmt::format("use --target sm_{}, or --stage ptx", arch.number));
  Disassembler disassembler;
  if (kind == CudaText::Sass) {
    STEPFUSE_ASSIGN(disassembler, find_disassembler(Settings::process_environment()));
  }
  STEPFUSE_ASSIGN(const Nvrtc* nvrtc, Nvrtc::open(settings));
  std::string text = fmt::format("// NVRTC {}, target {}\n", nvrtc->version(), arch.name());
  for (const codegen::KernelSpec& spec : kernels) {
    STEPFUSE_ASSIGN(const std::string source, source_of(spec));
    STEPFUSE_ASSIGN(const CudaBinary binary,
                    nvrtc->compile(source, spec.name, codegen::nvrtc_options(spec.mode), arch));
    text += header(spec.name, binary);
    if (kind == CudaText::Ptx) {
      text += binary.ptx;
    } else {
      STEPFUSE_ASSIGN(const std::string sass, disassemble(disassembler, binary.cubin));
      text += sass;
    }
  }
  return text;
}

}  // namespace stepfuse::runtime
