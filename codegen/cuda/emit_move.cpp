// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/emit_move.h"

#include "codegen/code_writer.h"
#include "codegen/cuda/helpers.h"
#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/types.h"

namespace stepfuse::codegen {

using ir::DType;

namespace {

bool is_narrow(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

DType math_of(const CudaMove& move) {
  return move.from == DType::F64 || move.to == DType::F64 ? DType::F64 : DType::F32;
}

void use_types(const CudaMove& move, CudaHelpers& helpers) {
  for (const DType dtype : {move.from, move.to, move.diagonal.value_or(DType::F32)}) {
    if (dtype == DType::F16) helpers.use(CudaHelper::WidenF16);
    if (dtype == DType::BF16) helpers.use(CudaHelper::WidenBF16);
  }
  const bool f64 = math_of(move) == DType::F64;
  if (move.to == DType::F16) helpers.use(f64 ? CudaHelper::F16FromDouble : CudaHelper::F16FromFloat);
  if (move.to == DType::BF16) helpers.use(f64 ? CudaHelper::BF16FromDouble : CudaHelper::BF16FromFloat);
}

std::string widened(const std::string& element, DType dtype) {
  return is_narrow(dtype) ? fmt::format("widen({})", element) : element;
}

std::string rounded(const std::string& value, DType dtype) {
  if (dtype == DType::F16) return fmt::format("to_f16({})", value);
  if (dtype == DType::BF16) return fmt::format("to_bf16({})", value);
  return fmt::format("static_cast<{}>({})", cuda_memory_type(dtype), value);
}

std::string row_text(const CudaMove& move) {
  CodeWriter out;
  out.blank();
  out.open("struct alignas(16) Chunk");
  out.line("unsigned row, unit, index, part;");
  out.close(";");
  out.blank();
  out.open("struct Row");
  out.line("const unsigned* skip;");
  out.line("const {}* from;", cuda_memory_type(move.from));
  out.line("{}* to;", cuda_memory_type(move.to));
  out.line("const {}* number;", cuda_memory_type(move.diagonal.value_or(DType::F64)));
  out.line("unsigned long long everywhere;");
  out.line("long long dims[3], from_strides[3], to_strides[3];");
  out.close(";");
  return out.text();
}

void write_element(CodeWriter& out, const CudaMove& move) {
  const std::string_view math = math_of(move) == DType::F64 ? "double" : "float";
  out.line(
      "const long long k = i % row.dims[2], j = i / row.dims[2] % row.dims[1], b = i / row.dims[2] / row.dims[1];");
  out.line("const long long from = b * row.from_strides[0] + j * row.from_strides[1] + k * row.from_strides[2];");
  out.line("const long long to = b * row.to_strides[0] + j * row.to_strides[1] + k * row.to_strides[2];");
  if (!move.diagonal && move.from == move.to) {
    out.line("row.to[to] = row.from[from];");
    return;
  }
  out.line("{0} value = static_cast<{0}>({1});", math, widened("row.from[from]", move.from));
  if (move.diagonal)
    out.line("if (row.everywhere != 0 || j == k) value = {}(value, number);",
             math == "double" ? "__dadd_rn" : "__fadd_rn");
  out.line("row.to[to] = {};", rounded("value", move.to));
}

}  // namespace

std::string cuda_move_name(const CudaMove& move) {
  std::string name = move.diagonal ? "stepfuse_diagonal" : "stepfuse_move";
  name += fmt::format("_{}_{}", ir::dtype_name(move.from), ir::dtype_name(move.to));
  if (move.diagonal) name += fmt::format("_{}", ir::dtype_name(*move.diagonal));
  return name;
}

std::string emit_move(const CudaMove& move) {
  CudaHelpers helpers;
  use_types(move, helpers);
  CodeWriter out;
  out.blank();
  out.open(
      "extern \"C\" __global__ void __launch_bounds__({}) {}(const Chunk* chunks, unsigned chunk_count, const Row* "
      "rows)",
      kCudaBlockThreads, cuda_move_name(move));
  out.line("if (blockIdx.x >= chunk_count) return;");
  out.line("const Chunk chunk = chunks[blockIdx.x];");
  out.line("const Row row = rows[chunk.row];");
  out.line("if (row.skip != nullptr && *row.skip != 0) return;");
  if (move.diagonal)
    out.line("const {0} number = static_cast<{0}>({1});", math_of(move) == DType::F64 ? "double" : "float",
             widened("*row.number", *move.diagonal));
  out.line("const long long begin = chunk.index * {}ll;", kChunk);
  out.line("const long long count = row.dims[0] * row.dims[1] * row.dims[2];");
  out.line("const long long end = begin + {0} < count ? begin + {0} : count;", kChunk);
  out.open("for (long long i = begin + threadIdx.x; i < end; i += {})", kCudaBlockThreads);
  write_element(out, move);
  out.close();
  out.close();
  return "// A window, element by element.\n" + helpers.text(ir::Mode::Strict, CudaGeometry()) + row_text(move) +
         out.text();
}

}  // namespace stepfuse::codegen
