// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/emit_cuda.h"

#include "codegen/check_spec.h"
#include "codegen/cuda/schemes.h"

namespace stepfuse::codegen {

namespace {

std::string commented(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    out += "// " + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return out;
}

std::string about(const KernelText& t) {
  const CudaGeometry& g = t.geometry;
  if (t.spec.scheme == Scheme::Cols) return "// a thread per column, eight rows of lanes at a time\n";
  if (g.vector == 1) return "// element by element\n";
  return fmt::format("// aligned: {} neighbours at a time, {} in flight\n", g.vector, g.vector * g.batch);
}

std::string chunk_text() {
  return R"(
struct alignas(16) Chunk {
  unsigned row, unit, index, part;
};
)";
}

/// CudaRowLayout, with the types that it hides.
std::string row_text(const KernelText& t) {
  CodeWriter out;
  out.blank();
  out.open("struct Row");
  out.line("const double* scalars;");
  out.line("const unsigned* skip;");
  out.line("long long d0, d1, d2;");
  out.line("unsigned* tickets;");
  for (size_t k = 0; k < t.spec.args.size(); ++k) {
    const KernelArg& arg = t.spec.args[k];
    out.line("{}{}* {};", arg.written ? "" : "const ", cuda_memory_type(arg.dtype), t.names.args[k]);
  }
  if (t.strided())
    for (const std::string& name : t.names.args) out.line("long long {}_stride[3];", name);
  for (size_t r = 0; r < t.spec.reductions.size(); ++r) {
    out.line("double* {}_partials;", t.names.reductions[r]);
    out.line("{}* {};", cuda_memory_type(t.spec.reductions[r].result), t.names.reductions[r]);
  }
  out.close(";");
  return out.text();
}

void use_memory_types(KernelText& t) {
  const auto use = [&](ir::DType dtype) {
    if (dtype == ir::DType::F16) t.helpers.use(CudaHelper::F16);
    if (dtype == ir::DType::BF16) t.helpers.use(CudaHelper::BF16);
  };
  for (const KernelArg& arg : t.spec.args) use(arg.dtype);
  for (const Reduction& reduction : t.spec.reductions) use(reduction.result);
}

}  // namespace

std::string cuda_kernel_name(const KernelSpec& spec) { return cuda_identifier(spec.name); }

std::vector<std::string> nvrtc_options(ir::Mode mode) {
  return {"--std=c++17", "--minimal",       mode == ir::Mode::Strict ? "--fmad=false" : "--fmad=true",
          "--ftz=false", "--prec-div=true", "--prec-sqrt=true"};
}

Result<std::string> emit_cuda(const KernelSpec& spec, const CudaVariant& variant) {
  STEPFUSE_TRY(check_spec(spec));
  KernelText text(spec, variant);
  use_memory_types(text);
  const std::string finish = write_cuda_kernel(text);
  const std::string helpers = text.helpers.text(spec.mode, text.geometry);
  return commented(print(spec)) + about(text) + chunk_text() + helpers + row_text(text) + finish + "\n" +
         text.out.text();
}

}  // namespace stepfuse::codegen
