// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/emit_prologue.h"

#include "codegen/code_writer.h"
#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/lower_op.h"

#include <algorithm>

namespace stepfuse::codegen {

using ir::Op;
using ir::ScalarProgram;
using Source = ir::ScalarProgram::Source;

namespace {

/// Ops of the scalar graph (ir::evaluate_scalar_op).
constexpr std::array kOps{Op::Add, Op::Sub, Op::Mul,  Op::Div,  Op::Neg,     Op::Abs,      Op::Sign,   Op::Sqrt,
                          Op::Min, Op::Max, Op::Axpy, Op::Lerp, Op::Addcmul, Op::Addcdiv,  Op::Select, Op::Lt,
                          Op::Le,  Op::Gt,  Op::Ge,   Op::Eq,   Op::Ne,      Op::IsFinite, Op::Powi};

constexpr uint16_t kFirstOp = static_cast<uint16_t>(Source::Op);

uint16_t code_of(const ScalarProgram::Line& line) {
  if (line.source != Source::Op) return static_cast<uint16_t>(line.source);
  const auto at = std::find(kOps.begin(), kOps.end(), line.op);
  STEPFUSE_CHECK(at != kOps.end(), "{} is not an op of the scalar graph", ir::op_info(line.op).mnemonic);
  return static_cast<uint16_t>(kFirstOp + (at - kOps.begin()));
}

constexpr std::string_view kTypes = R"(// The scalars of a step, one thread per parameter.

struct Line {
  unsigned short code, operands[5];
  unsigned index;
  double value;
};

struct Program {
  const Line* lines;
  const unsigned* slots;
  unsigned line_count, slot_count;
};

struct alignas(8) Row {
  unsigned program, hypers, parameter, unused;
  double* slots;
};

struct Parameter {
  long long steps;
  unsigned fresh, unused;
};
)";
static_assert(ir::kMaxOperands == 5 && sizeof(CudaScalarLine) == 24 && sizeof(CudaProgram) == 24 &&
              sizeof(CudaPrologueRow) == 24 && sizeof(CudaParameterState) == 16);

constexpr std::string_view kPower = R"(
/// By repeated squaring, from the lowest bit of the exponent; NaN for an exponent that is no integer of at most 2^53.
__device__ __forceinline__ double power(double base, double exponent) {
  const double magnitude = fabs(exponent);
  if (!(magnitude <= 0x1p53) || exponent != trunc(exponent)) return __longlong_as_double(0x7ff8000000000000ll);
  double result = 1.0;
  double square = base;
  for (unsigned long long left = static_cast<unsigned long long>(magnitude); left != 0; left >>= 1) {
    if ((left & 1) != 0) result = __dmul_rn(result, square);
    square = __dmul_rn(square, square);
  }
  return exponent < 0 ? __ddiv_rn(1.0, result) : result;
}
)";

std::string op_expression(Op op, CudaHelpers& helpers) {
  std::vector<std::string> operands;
  for (int k = 0; k < ir::op_info(op).arity_max; ++k) {
    const std::string value = fmt::format("v[line.operands[{}]]", k);
    operands.push_back(cuda_takes_bool(op, static_cast<size_t>(k)) ? fmt::format("({} != 0)", value) : value);
  }
  if (op == Op::Powi) return fmt::format("power({}, {})", operands[0], operands[1]);
  const std::string text = cuda_expression(op, Arithmetic(ir::DType::F64, ir::Mode::Strict), operands, helpers);
  return cuda_gives_bool(op) ? fmt::format("double({})", text) : text;
}

void write_case(CodeWriter& out, uint16_t code, const std::string& expression) {
  out.line("case {}: x = {}; break;", code, expression);
}

/// One program, its lines' values in v.
void write_evaluation(CodeWriter& out, CudaHelpers& helpers) {
  out.line("double v[{}];", kCudaScalarLines);
  out.open("for (unsigned l = 0; l < program.line_count; ++l)");
  out.line("const Line line = program.lines[l];");
  out.line("double x = 0;");
  out.open("switch (line.code)");
  write_case(out, static_cast<uint16_t>(Source::Const), "line.value");
  write_case(out, static_cast<uint16_t>(Source::Hyper), "values[line.index]");
  write_case(out, static_cast<uint16_t>(Source::Step), "step");
  write_case(out, static_cast<uint16_t>(Source::Fresh), "double(fresh >> line.index & 1)");
  for (size_t k = 0; k < kOps.size(); ++k)
    write_case(out, static_cast<uint16_t>(kFirstOp + k), op_expression(kOps[k], helpers));
  out.close();
  out.line("v[l] = x;");
  out.close();
}

void write_kernel(CodeWriter& out, CudaHelpers& helpers) {
  out.blank();
  out.open(
      "extern \"C\" __global__ void __launch_bounds__({}) {}(const Row* rows, unsigned row_count, const Program* "
      "programs, Parameter* parameters, const unsigned* active, const unsigned* skip, const double* more, const "
      "__grid_constant__ Hypers hypers)",
      kCudaPrologueThreads, kCudaPrologueName);
  out.line("const unsigned i = blockIdx.x * {}u + threadIdx.x;", kCudaPrologueThreads);
  out.line("if (i >= row_count || (skip != nullptr && *skip != 0)) return;");
  out.line("const Row row = rows[i];");
  out.line("if (active[row.parameter] == 0) return;");
  out.line("Parameter& parameter = parameters[row.parameter];");
  out.line("const double* values = (more != nullptr ? more : hypers.value) + row.hypers;");
  out.line("const unsigned fresh = parameter.fresh;");
  out.line("const double step = static_cast<double>(++parameter.steps);");
  out.line("parameter.fresh = 0;");
  out.line("const Program program = programs[row.program];");
  write_evaluation(out, helpers);
  out.line("float* narrow = reinterpret_cast<float*>(row.slots + program.slot_count);");
  out.open("for (unsigned s = 0; s < program.slot_count; ++s)");
  out.line("row.slots[s] = v[program.slots[s]];");
  out.line("narrow[s] = __double2float_rn(v[program.slots[s]]);");
  out.close();
  out.close();
}

}  // namespace

Result<std::vector<CudaScalarLine>> encode_scalars(const ScalarProgram& program) {
  if (program.fresh_states().size() > kCudaFreshStates)
    return with_hint(fail(StatusCode::Unsupported, "a rule asks for {} of its states whether they are absent",
                          program.fresh_states().size()),
                     fmt::format("on CUDA a rule may ask for {}", kCudaFreshStates));
  if (program.lines().size() > kCudaScalarLines)
    return with_hint(
        fail(StatusCode::Unsupported, "a rule computes {} numbers per parameter and step", program.lines().size()),
        fmt::format("on CUDA it may compute {}", kCudaScalarLines));
  std::vector<CudaScalarLine> lines;
  for (const ScalarProgram::Line& line : program.lines()) {
    CudaScalarLine& out = lines.emplace_back();
    out = {code_of(line), {}, line.index, line.value};
    for (size_t k = 0; k < line.num_operands; ++k) out.operands[k] = static_cast<uint16_t>(line.operands[k]);
  }
  return lines;
}

std::string emit_prologue() {
  CodeWriter out;
  CudaHelpers helpers;
  write_kernel(out, helpers);
  std::string text(kTypes);
  text += fmt::format("\nstruct Hypers {{\n  double value[{}];\n}};\n", std::tuple_size_v<decltype(CudaHypers::value)>);
  text += helpers.text(ir::Mode::Strict, CudaGeometry());
  text += kPower;
  return text + out.text();
}

}  // namespace stepfuse::codegen
