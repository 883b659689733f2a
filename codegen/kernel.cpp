// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel.h"

#include <bit>
#include <cmath>

namespace stepfuse::codegen {

namespace {

std::string_view scheme_name(Scheme scheme) {
  switch (scheme) {
    case Scheme::Linear:
      return "linear";
    case Scheme::Rows:
      return "rows";
    case Scheme::Cols:
      return "cols";
  }
  throw_internal(__FILE__, __LINE__, "unknown scheme");
}

/// Names may hold anything a user typed; quoting keeps one line per entry and the text unambiguous.
std::string quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string varies_text(const Varies& varies) {
  std::string out = "[...]";
  for (size_t d = 0; d < varies.size(); ++d) {
    if (varies[d]) out[d + 1] = static_cast<char>('0' + d);
  }
  return out;
}

/// Exact, with a decimal for people; a NaN by its bits.
std::string constant_text(double value) {
  if (std::isnan(value)) return fmt::format("nan(0x{:016x})", std::bit_cast<uint64_t>(value));
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:a} /* {} */", value, value);
}

std::string operand_text(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::Arg:
      return fmt::format("a{}", operand.index);
    case Operand::Kind::Instr:
      return fmt::format("v{}", operand.index);
    case Operand::Kind::Scalar:
      return fmt::format("s{}", operand.index);
    case Operand::Kind::Const:
      return constant_text(operand.value);
  }
  throw_internal(__FILE__, __LINE__, "unknown operand kind");
}

std::string arg_line(const KernelArg& arg, size_t index) {
  return fmt::format("  arg a{} {}: {} {}{}{}\n", index, quoted(arg.name), ir::dtype_name(arg.dtype),
                     varies_text(arg.varies), arg.read ? " read" : "", arg.written ? " write" : "");
}

std::string instr_line(const Instr& instr, size_t index) {
  std::string operands;
  for (const Operand& operand : instr.operands) {
    operands += (operands.empty() ? " " : ", ") + operand_text(operand);
  }
  return fmt::format("  v{} {} = {}{} : {} math {} {}\n", index, quoted(instr.name), ir::op_info(instr.op).mnemonic,
                     operands, ir::dtype_name(instr.dtype), ir::dtype_name(instr.math), varies_text(instr.varies));
}

}  // namespace

std::string print(const KernelSpec& spec) {
  const std::string_view layout = spec.scheme == Scheme::Linear && spec.contiguous ? "contiguous" : "strided";
  std::string out = fmt::format("kernel {} {} {} {} scalars {}\n", quoted(spec.name), scheme_name(spec.scheme), layout,
                                spec.mode == ir::Mode::Strict ? "strict" : "default", spec.num_scalars);
  for (size_t i = 0; i < spec.args.size(); ++i) out += arg_line(spec.args[i], i);
  for (size_t i = 0; i < spec.instrs.size(); ++i) out += instr_line(spec.instrs[i], i);
  for (size_t i = 0; i < spec.reductions.size(); ++i) {
    const Reduction& r = spec.reductions[i];
    out += fmt::format("  partial {} {} = {} {} : math {} result {}\n", i, quoted(r.name), ir::op_info(r.op).mnemonic,
                       operand_text(r.value), ir::dtype_name(r.math), ir::dtype_name(r.result));
  }
  for (const Store& store : spec.stores)
    out += fmt::format("  store {} -> a{}\n", operand_text(store.value), store.arg);
  return out;
}

std::string identity(const KernelSpec& spec) {
  KernelSpec anonymous = spec;
  anonymous.name = "kernel";
  for (KernelArg& arg : anonymous.args) arg.name.clear();
  for (Instr& instr : anonymous.instrs) instr.name.clear();
  for (Reduction& reduction : anonymous.reductions) reduction.name.clear();
  return print(anonymous);
}

}  // namespace stepfuse::codegen
