// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/lt_product.h"

#include "runtime/cuda/cuda_libraries.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace stepfuse::runtime {

using cuda::cublasStatus_t;
using ir::DType;

namespace {

constexpr uint32_t kMostAlignment = 256;
constexpr int kCandidates = 8;

std::optional<cuda::cudaDataType> data_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return cuda::CUDA_R_32F;
    case DType::F64:
      return cuda::CUDA_R_64F;
    case DType::F16:
      return cuda::CUDA_R_16F;
    case DType::BF16:
      return cuda::CUDA_R_16BF;
    case DType::Bool:
      break;
  }
  return std::nullopt;
}

cuda::cublasOperation_t operation(bool transposed) { return transposed ? cuda::CUBLAS_OP_T : cuda::CUBLAS_OP_N; }

/// A preference that goes with its scope.
class Preference {
 public:
  explicit Preference(const cuda::CublasLtFunctions& call) : call_(call) {}
  ~Preference() {
    if (handle != nullptr) call_.cublasLtMatmulPreferenceDestroy(handle);
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cuda::cublasLtMatmulPreference_t handle = nullptr;

  template <class T>
  cublasStatus_t set(cuda::cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return call_.cublasLtMatmulPreferenceSetAttribute(handle, attribute, &value, sizeof value);
  }

 private:
  const cuda::CublasLtFunctions& call_;
};

}  // namespace

Outcome Lt::load() {
  const std::string name = fmt::format("cuBLASLt ({})", path());
  constexpr const char* kHint = "install cuBLASLt of CUDA 12 or 13";
#define STEPFUSE_CUBLASLT_FUNCTION(result, function, parameters) \
  STEPFUSE_TRY(opened_.bind(name, #function, call_.function, kHint));
#include "runtime/cuda/api/cublaslt_functions.def"
  return check(call_.cublasLtCreate(&handle_), "starting");
}

Result<std::unique_ptr<const Lt>> Lt::open(const Settings& settings) {
  STEPFUSE_ASSIGN(OpenedLibrary found, open_cublaslt(LibraryPlaces::of(settings, cublaslt_library())));
  std::unique_ptr<Lt> lt(new Lt(std::move(found)));
  STEPFUSE_TRY(lt->load());
  return lt;
}

Lt::~Lt() {
  if (handle_ != nullptr) call_.cublasLtDestroy(handle_);
}

std::string Lt::version() const { return cublaslt_version(opened_); }

Outcome Lt::check(cublasStatus_t status, std::string_view doing) const {
  if (status == cuda::CUBLAS_STATUS_SUCCESS) return {};
  const char* name = call_.cublasLtGetStatusName(status);
  const StatusCode code =
      status == cuda::CUBLAS_STATUS_NOT_SUPPORTED ? StatusCode::Unsupported : StatusCode::Environment;
  return fail(code, "cuBLASLt ({}) failed while {}: {}", path(), doing, name != nullptr ? name : "unknown status");
}

uint32_t lt_alignment(uint64_t address, int64_t ld, DType dtype) {
  const auto pitch = static_cast<uint64_t>(ld * ir::dtype_bytes(dtype));
  return static_cast<uint32_t>(std::gcd(std::gcd(address, pitch), uint64_t{kMostAlignment}));
}

DType LtProduct::scale_dtype(const codegen::GemmShape& shape) { return ir::math_dtype(shape.ab); }

std::string LtProduct::text() const {
  const codegen::GemmShape& s = request_.shape;
  return fmt::format("a product of {} x {} x {} in {}, result {}, batch {}", s.m, s.n, s.k, ir::dtype_name(s.ab),
                     ir::dtype_name(s.d), request_.batch);
}

Outcome LtProduct::describe_operand(cuda::cublasLtMatrixLayout_t& layout, DType dtype, int64_t rows, int64_t columns,
                                    int64_t ld, int64_t stride, std::string_view name) {
  const cuda::CublasLtFunctions& call = lt_.call();
  const auto type = data_type(dtype);
  if (!type) return fail(StatusCode::Unsupported, "{}: {} cannot be {}", text(), name, ir::dtype_name(dtype));
  // Row-major rows x columns is column-major columns x rows.
  STEPFUSE_TRY(lt_.check(
      call.cublasLtMatrixLayoutCreate(&layout, *type, static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), ld),
      fmt::format("describing {} of {}", name, text())));
  const auto set = [&](cuda::cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    return lt_.check(call.cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value),
                     fmt::format("describing {} of {}", name, text()));
  };
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(request_.batch)));
  if (request_.pointer_arrays)
    return set(cuda::CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, static_cast<uint32_t>(cuda::CUBLASLT_BATCH_MODE_POINTER_ARRAY));
  return set(cuda::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
}

Outcome LtProduct::describe() {
  const codegen::GemmShape& s = request_.shape;
  const cuda::CublasLtFunctions& call = lt_.call();
  const bool f64 = scale_dtype(s) == DType::F64;
  const auto compute = f64 ? cuda::CUBLAS_COMPUTE_64F : cuda::CUBLAS_COMPUTE_32F;
  STEPFUSE_TRY(lt_.check(call.cublasLtMatmulDescCreate(&desc_, compute, f64 ? cuda::CUDA_R_64F : cuda::CUDA_R_32F),
                         fmt::format("describing {}", text())));
  const auto set = [&](cuda::cublasLtMatmulDescAttributes_t attribute, int32_t value) {
    return lt_.check(call.cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof value),
                     fmt::format("describing {}", text()));
  };
  // D^T = op(B)^T op(A)^T: the library's A is our B.
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_DESC_TRANSA, operation(s.trans_b)));
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_DESC_TRANSB, operation(s.trans_a)));
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_DESC_POINTER_MODE,
                   request_.device_scalars ? cuda::CUBLASLT_POINTER_MODE_DEVICE : cuda::CUBLASLT_POINTER_MODE_HOST));
  const auto rows = [](int64_t r, int64_t c, bool transposed) { return transposed ? c : r; };
  STEPFUSE_TRY(
      describe_operand(a_, s.ab, rows(s.m, s.k, s.trans_a), rows(s.k, s.m, s.trans_a), s.lda, request_.stride_a, "A"));
  STEPFUSE_TRY(
      describe_operand(b_, s.ab, rows(s.k, s.n, s.trans_b), rows(s.n, s.k, s.trans_b), s.ldb, request_.stride_b, "B"));
  STEPFUSE_TRY(describe_operand(d_, s.d, s.m, s.n, s.ldd, request_.stride_d, "D"));
  // Without C, beta is 0 and the library is given D, which it does not read then.
  if (!s.has_c) return describe_operand(c_, s.d, s.m, s.n, s.ldd, request_.stride_d, "C");
  return describe_operand(c_, s.c, s.m, s.n, s.ldc, request_.stride_c, "C");
}

Result<std::vector<cuda::cublasLtMatmulAlgo_t>> LtProduct::ask(int64_t workspace, int count,
                                                               std::vector<size_t>* workspaces) const {
  const cuda::CublasLtFunctions& call = lt_.call();
  Preference preference(call);
  const std::string doing = fmt::format("looking for an algorithm for {}", text());
  STEPFUSE_TRY(lt_.check(call.cublasLtMatmulPreferenceCreate(&preference.handle), doing));
  const auto set = [&](cuda::cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return lt_.check(preference.set(attribute, value), doing);
  };
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace)));
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, request_.alignment_b));
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, request_.alignment_a));
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                   request_.shape.has_c ? request_.alignment_c : request_.alignment_d));
  STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, request_.alignment_d));
  // Partial products that are added in place, in the order in which they come, are the ones without a fixed order.
  if (request_.deterministic)
    STEPFUSE_TRY(set(cuda::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                     static_cast<uint32_t>(cuda::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                           cuda::CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)));
  std::vector<cuda::cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(count));
  int returned = 0;
  const cublasStatus_t status = call.cublasLtMatmulAlgoGetHeuristic(lt_.handle(), desc_, b_, a_, c_, d_,
                                                                    preference.handle, count, found.data(), &returned);
  std::vector<cuda::cublasLtMatmulAlgo_t> usable;
  if (status == cuda::CUBLAS_STATUS_NOT_SUPPORTED) return usable;
  STEPFUSE_TRY(lt_.check(status, doing));
  for (int i = 0; i < returned; ++i) {
    const auto& candidate = found[static_cast<size_t>(i)];
    if (candidate.state != cuda::CUBLAS_STATUS_SUCCESS) continue;
    usable.push_back(candidate.algo);
    if (workspaces != nullptr) workspaces->push_back(candidate.workspaceSize);
  }
  return usable;
}

Result<bool> LtProduct::try_workspace(int64_t bytes) {
  std::vector<size_t> workspaces;
  STEPFUSE_ASSIGN(const auto usable, ask(bytes, kCandidates, &workspaces));
  if (usable.empty()) return false;
  algorithm_ = usable.front();
  workspace_bytes_ = workspaces.front();
  return true;
}

Result<std::vector<cuda::cublasLtMatmulAlgo_t>> LtProduct::candidates(const Lt& lt, const LtRequest& request,
                                                                      int count) {
  LtProduct product(lt, request);
  STEPFUSE_TRY(product.describe());
  return product.ask(request.workspace_limit, count, nullptr);
}

Outcome LtProduct::choose() {
  for (int64_t bytes = request_.workspace_limit;; bytes = bytes > (int64_t{1} << 20) ? bytes / 8 : 0) {
    STEPFUSE_ASSIGN(const bool found, try_workspace(bytes));
    if (found) return {};
    if (bytes == 0) break;
  }
  return with_hint(fail(StatusCode::Environment,
                        "cuBLASLt {} ({}) has no algorithm for {}, with {} bytes of workspace "
                        "or less",
                        lt_.version(), lt_.path(), text(), request_.workspace_limit),
                   "row strides and addresses that are multiples of 16 bytes, or a newer cuBLASLt, may help");
}

bool LtProduct::take_stored(const cuda::cublasLtMatmulAlgo_t& stored) {
  cuda::cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      lt_.call().cublasLtMatmulAlgoCheck(lt_.handle(), desc_, b_, a_, c_, d_, &stored, &result);
  if (status != cuda::CUBLAS_STATUS_SUCCESS || result.state != cuda::CUBLAS_STATUS_SUCCESS) return false;
  if (result.workspaceSize > static_cast<size_t>(request_.workspace_limit)) return false;
  algorithm_ = stored;
  workspace_bytes_ = result.workspaceSize;
  return true;
}

Result<std::unique_ptr<const LtProduct>> LtProduct::prepare(const Lt& lt, const LtRequest& request,
                                                            const std::optional<cuda::cublasLtMatmulAlgo_t>& stored) {
  std::unique_ptr<LtProduct> product(new LtProduct(lt, request));
  STEPFUSE_TRY(product->describe());
  if (!stored || !product->take_stored(*stored)) STEPFUSE_TRY(product->choose());
  return product;
}

LtProduct::~LtProduct() {
  const cuda::CublasLtFunctions& call = lt_.call();
  for (const cuda::cublasLtMatrixLayout_t layout : {a_, b_, c_, d_})
    if (layout != nullptr) call.cublasLtMatrixLayoutDestroy(layout);
  if (desc_ != nullptr) call.cublasLtMatmulDescDestroy(desc_);
}

Outcome LtProduct::enqueue(const LtOperands& operands, cuda::CUstream stream) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are numbers to the host
  const auto pointer = [](uint64_t address) { return reinterpret_cast<void*>(address); };
  return lt_.check(
      lt_.call().cublasLtMatmul(lt_.handle(), desc_, operands.alpha, pointer(operands.b), b_, pointer(operands.a), a_,
                                operands.beta, pointer(operands.c), c_, pointer(operands.d), d_, &algorithm_,
                                pointer(operands.workspace), workspace_bytes_, stream),
      fmt::format("queueing {}", text()));
}

}  // namespace stepfuse::runtime
