// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/check_target.h"

#include <algorithm>

namespace stepfuse::codegen {

namespace {

using ir::DType;
using ir::Op;

bool uses_fma(const KernelSpec& spec) {
  const auto instr_does = [](const Instr& i) { return i.op == Op::Axpy || i.op == Op::Lerp || i.op == Op::Addcmul; };
  const auto reduction_does = [](const Reduction& r) { return r.op == Op::SumSq || r.op == Op::Norm; };
  return std::any_of(spec.instrs.begin(), spec.instrs.end(), instr_does) ||
         std::any_of(spec.reductions.begin(), spec.reductions.end(), reduction_does);
}

bool uses_f16(const KernelSpec& spec) {
  const auto is_f16 = [](const auto& x) { return x.dtype == DType::F16; };
  return std::any_of(spec.args.begin(), spec.args.end(), is_f16) ||
         std::any_of(spec.instrs.begin(), spec.instrs.end(), is_f16);
}

}  // namespace

Outcome check_target(const KernelSpec& spec, const LlvmTarget& target) {
  const bool strict = spec.mode == ir::Mode::Strict;
  if (!target.fma && (strict || uses_fma(spec))) {
    return with_hint(fail(StatusCode::Environment, "kernel {} needs FMA instructions, which target '{}' lacks{}",
                          spec.name, target.name, strict ? " (strict mode always does)" : ""),
                     "use a machine or a target with FMA (x86-64-v3 or later), or --target interp");
  }
  if (!target.f16c && uses_f16(spec)) {
    return with_hint(
        fail(StatusCode::Environment,
             "kernel {} has f16 values and needs F16C instructions, which target "
             "'{}' lacks",
             spec.name, target.name),
        "use f32 or bf16 tensors, a machine or a target with F16C (x86-64-v3 or later), or --target interp");
  }
  return {};
}

}  // namespace stepfuse::codegen
