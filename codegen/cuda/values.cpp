// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/values.h"

#include "codegen/cuda/lower_op.h"

namespace stepfuse::codegen {

namespace {

using ir::DType;

bool is_16_bit(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

DType register_kind(DType dtype) { return is_16_bit(dtype) ? DType::F32 : dtype; }

std::string cast(std::string_view type, const std::string& x) { return fmt::format("static_cast<{}>({})", type, x); }

std::string as_number(const CudaValue& value, const Arithmetic& math) {
  if (value.kind == math.math()) return value.text;
  if (value.kind == DType::Bool) {
    return fmt::format("({} ? {} : {})", value.text, math.literal(1), math.literal(0));
  }
  return cast(math.type(), value.text);
}

}  // namespace

CudaValues::CudaValues(KernelText& text) : t_(text), uses_(text.spec.instrs.size()) { note_uses(); }

void CudaValues::note(const Operand& operand) {
  if (operand.kind == Operand::Kind::Instr) uses_[operand.index].value = true;
}

void CudaValues::note_uses() {
  const KernelSpec& spec = t_.spec;
  for (const Instr& instr : spec.instrs)
    for (const Operand& operand : instr.operands) note(operand);
  for (const Reduction& reduction : spec.reductions) note(reduction.value);
  for (const Store& store : spec.stores) {
    const Operand& operand = store.value;
    const bool same_type =
        operand.kind == Operand::Kind::Instr && spec.instrs[operand.index].dtype == spec.args[store.arg].dtype;
    if (same_type && is_16_bit(spec.args[store.arg].dtype)) {
      uses_[operand.index].bits = true;
    } else {
      note(operand);
    }
  }
}

/// Which forms of each scalar slot the code of a level reads.
std::vector<CudaValues::Forms> CudaValues::scalar_forms(CudaLevel level) const {
  const KernelSpec& spec = t_.spec;
  std::vector<Forms> forms(spec.num_scalars);
  const auto read = [&](CudaLevel reader, const Operand& operand, DType math, bool as_truth) {
    const bool at_element = reader == CudaLevel::Element && !t_.geometry.scalars_stay;
    if (operand.kind != Operand::Kind::Scalar || at_element != (level == CudaLevel::Element)) return;
    Forms& form = forms[operand.index];
    (as_truth ? form.truth : math == DType::F64 ? form.f64 : form.f32) = true;
  };
  for (const Instr& instr : spec.instrs)
    for (size_t i = 0; i < instr.operands.size(); ++i)
      read(cuda_level(spec, instr.varies), instr.operands[i], instr.math, cuda_takes_bool(instr.op, i));
  for (const Reduction& r : spec.reductions) read(CudaLevel::Element, r.value, r.math, r.op == ir::Op::Any);
  for (const Store& store : spec.stores)
    read(cuda_level(spec, spec.args[store.arg].varies), store.value, DType::F64, false);
  return forms;
}

void CudaValues::declare_scalars(CudaLevel level) {
  const std::vector<Forms> forms = scalar_forms(level);
  for (size_t s = 0; s < forms.size(); ++s) {
    if (forms[s].f32) t_.out.line("const float s{0} = static_cast<float>(scalars[{0}]);", s);
    if (forms[s].f64) t_.out.line("const double s{0}_f64 = scalars[{0}];", s);
    if (forms[s].truth) t_.out.line("const bool s{0}_true = scalars[{0}] != 0;", s);
  }
}

/// In the operand's own type; f64 for scalars and constants.
CudaValue CudaValues::raw(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::Arg:
      return {t_.names.elements[operand.index], register_kind(t_.spec.args[operand.index].dtype)};
    case Operand::Kind::Instr:
      return {t_.names.instrs[operand.index], register_kind(t_.spec.instrs[operand.index].dtype)};
    case Operand::Kind::Scalar:
      return {fmt::format("s{}_f64", operand.index), DType::F64};
    case Operand::Kind::Const:
      return {t_.arithmetic(DType::F64).literal(operand.value), DType::F64};
  }
  throw_internal(__FILE__, __LINE__, "unknown operand kind");
}

std::string CudaValues::number(const Operand& operand, DType math) {
  const Arithmetic arithmetic = t_.arithmetic(math);
  if (operand.kind == Operand::Kind::Const) return arithmetic.literal(operand.value);
  if (operand.kind == Operand::Kind::Scalar && math == DType::F32) return fmt::format("s{}", operand.index);
  return as_number(raw(operand), arithmetic);
}

std::string CudaValues::truth(const Operand& operand) {
  if (operand.kind == Operand::Kind::Const) return operand.value != 0 ? "true" : "false";
  if (operand.kind == Operand::Kind::Scalar) return fmt::format("s{}_true", operand.index);
  const CudaValue value = raw(operand);
  return value.kind == DType::Bool ? value.text : fmt::format("({} != 0)", value.text);
}

std::string CudaValues::widened(const std::string& memory, DType dtype) {
  if (dtype == DType::Bool) return memory + " != 0";
  if (!is_16_bit(dtype)) return memory;
  t_.helpers.use(dtype == DType::F16 ? CudaHelper::WidenF16 : CudaHelper::WidenBF16);
  return fmt::format("widen({})", memory);
}

std::string CudaValues::rounded(const CudaValue& value, DType dtype) {
  const bool wide = value.kind == DType::F64;
  switch (dtype) {
    case DType::F64:
    case DType::F32:
      return as_number(value, t_.arithmetic(dtype));
    case DType::F16:
      t_.helpers.use(wide ? CudaHelper::F16FromDouble : CudaHelper::F16FromFloat);
      return fmt::format("to_f16({})", wide ? value.text : as_number(value, t_.arithmetic(DType::F32)));
    case DType::BF16:
      t_.helpers.use(wide ? CudaHelper::BF16FromDouble : CudaHelper::BF16FromFloat);
      return fmt::format("to_bf16({})", wide ? value.text : as_number(value, t_.arithmetic(DType::F32)));
    case DType::Bool:
      return cast("unsigned char", value.kind == DType::Bool ? value.text : fmt::format("({}) != 0", value.text));
  }
  throw_internal(__FILE__, __LINE__, "unknown dtype");
}

std::string CudaValues::memory_form(const Store& store) {
  const DType dtype = t_.spec.args[store.arg].dtype;
  const Operand& operand = store.value;
  if (operand.kind == Operand::Kind::Instr && t_.spec.instrs[operand.index].dtype == dtype && is_16_bit(dtype)) {
    return t_.names.instrs[operand.index] + (uses_[operand.index].value ? "_bits" : "");
  }
  return rounded(raw(operand), dtype);
}

void CudaValues::compute(size_t index) {
  const Instr& instr = t_.spec.instrs[index];
  std::vector<std::string> operands;
  for (size_t i = 0; i < instr.operands.size(); ++i) {
    const Operand& operand = instr.operands[i];
    operands.push_back(cuda_takes_bool(instr.op, i) ? truth(operand) : number(operand, instr.math));
  }
  const CudaValue value{cuda_expression(instr.op, t_.arithmetic(instr.math), operands, t_.helpers),
                        cuda_gives_bool(instr.op) ? DType::Bool : instr.math};
  const std::string& name = t_.names.instrs[index];
  if (instr.dtype == DType::Bool) {
    const bool is_bool = value.kind == DType::Bool;
    t_.out.line("const bool {} = {};", name, is_bool ? value.text : fmt::format("({}) != 0", value.text));
  } else if (!is_16_bit(instr.dtype)) {
    t_.out.line("const {} {} = {};", cuda_value_type(instr.dtype), name, rounded(value, instr.dtype));
  } else if (!uses_[index].bits) {
    t_.out.line("const float {} = {};", name, widened(rounded(value, instr.dtype), instr.dtype));
  } else {
    const bool both = uses_[index].value;
    t_.out.line("const {} {}{} = {};", cuda_memory_type(instr.dtype), name, both ? "_bits" : "",
                rounded(value, instr.dtype));
    if (both) t_.out.line("const float {0} = {1};", name, widened(name + "_bits", instr.dtype));
  }
}

void CudaValues::compute(CudaLevel level) {
  for (size_t i = 0; i < t_.spec.instrs.size(); ++i) {
    if (cuda_level(t_.spec, t_.spec.instrs[i].varies) == level) compute(i);
  }
}

}  // namespace stepfuse::codegen
