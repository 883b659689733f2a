// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/check_spec.h"

namespace stepfuse::codegen {

namespace {

using ir::DType;
using ir::Op;

tl::unexpected<Status> malformed(const KernelSpec& spec, std::string what) {
  return fail(StatusCode::Internal, "kernel {}: {}", spec.name, what);
}

/// `instrs` is how many instructions may be read here: all those before the reader.
bool operand_exists(const KernelSpec& spec, const Operand& operand, size_t instrs) {
  switch (operand.kind) {
    case Operand::Kind::Arg:
      return operand.index < spec.args.size() && spec.args[operand.index].read;
    case Operand::Kind::Instr:
      return operand.index < instrs;
    case Operand::Kind::Scalar:
      return operand.index < spec.num_scalars;
    case Operand::Kind::Const:
      return true;
  }
  return false;
}

bool is_math(DType dtype) { return dtype == DType::F32 || dtype == DType::F64; }

Varies varies_of(const KernelSpec& spec, const Operand& operand) {
  if (operand.kind == Operand::Kind::Arg) return spec.args[operand.index].varies;
  if (operand.kind == Operand::Kind::Instr) return spec.instrs[operand.index].varies;
  return {};
}

bool covers(const Varies& outer, const Varies& inner) {
  for (size_t d = 0; d < outer.size(); ++d) {
    if (inner[d] && !outer[d]) return false;
  }
  return true;
}

Outcome check_instr(const KernelSpec& spec, size_t index) {
  const Instr& instr = spec.instrs[index];
  const ir::OpInfo& info = ir::op_info(instr.op);
  const int arity = static_cast<int>(instr.operands.size());
  if (info.family != ir::OpFamily::Elementwise)
    return malformed(spec, fmt::format("{} is not elementwise", info.mnemonic));
  if (arity < info.arity_min || arity > info.arity_max) {
    return malformed(spec, fmt::format("{} has {} operands", info.mnemonic, arity));
  }
  if (!is_math(instr.math)) return malformed(spec, fmt::format("{} computes in neither f32 nor f64", info.mnemonic));
  for (const Operand& operand : instr.operands) {
    if (!operand_exists(spec, operand, index)) return malformed(spec, fmt::format("v{} has a bad operand", index));
    if (!covers(instr.varies, varies_of(spec, operand))) {
      return malformed(spec, fmt::format("v{} varies along fewer dimensions than its operands", index));
    }
  }
  return {};
}

Outcome check_stores(const KernelSpec& spec) {
  for (const Store& store : spec.stores) {
    if (store.arg >= spec.args.size() || !spec.args[store.arg].written) {
      return malformed(spec, fmt::format("a store to a{}, which is not written", store.arg));
    }
    if (!operand_exists(spec, store.value, spec.instrs.size())) {
      return malformed(spec, fmt::format("the value stored to a{} does not exist", store.arg));
    }
    if (!covers(spec.args[store.arg].varies, varies_of(spec, store.value))) {
      return malformed(spec, fmt::format("the value stored to a{} varies more than it", store.arg));
    }
  }
  return {};
}

Outcome check_reductions(const KernelSpec& spec) {
  for (const Reduction& r : spec.reductions) {
    if (!ir::is_reduce(r.op)) return malformed(spec, fmt::format("{} is not a reduction", ir::op_info(r.op).mnemonic));
    const bool squares = r.op == Op::SumSq || r.op == Op::Norm;
    if (!is_math(r.math) || (squares && r.math != DType::F64)) {
      return malformed(spec, fmt::format("reduction {} in a wrong math type", r.name));
    }
    if (!operand_exists(spec, r.value, spec.instrs.size())) {
      return malformed(spec, fmt::format("reduction {} of a value that does not exist", r.name));
    }
  }
  return {};
}

}  // namespace

Outcome check_spec(const KernelSpec& spec) {
  if (spec.name.empty()) return malformed(spec, "no name");
  for (size_t i = 0; i < spec.instrs.size(); ++i) STEPFUSE_TRY(check_instr(spec, i));
  STEPFUSE_TRY(check_stores(spec));
  return check_reductions(spec);
}

}  // namespace stepfuse::codegen
