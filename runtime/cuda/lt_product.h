// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/gemm_shape.h"
#include "runtime/cuda/api/cublaslt.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/find_library.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// cuBLASLt for the current context. Calls on different products may run at once.
class Lt {
 public:
  /// The context of the device must be current. Environment when there is no library or it does not start.
  static Result<std::unique_ptr<const Lt>> open(const Settings& settings);
  ~Lt();
  Lt(const Lt&) = delete;
  Lt& operator=(const Lt&) = delete;

  const cuda::CublasLtFunctions& call() const { return call_; }
  cuda::cublasLtHandle_t handle() const { return handle_; }
  std::string version() const;  // "13.1"
  const std::string& path() const { return opened_.path; }
  Outcome check(cuda::cublasStatus_t status, std::string_view doing) const;

 private:
  explicit Lt(OpenedLibrary opened) : opened_(std::move(opened)) {}
  Outcome load();

  OpenedLibrary opened_;
  cuda::CublasLtFunctions call_;
  cuda::cublasLtHandle_t handle_ = nullptr;
};

/// D = alpha * op(A) * op(B) + beta * C for each matrix of a batch: what must be known before pointers are.
struct LtRequest {
  codegen::GemmShape shape;
  int64_t batch = 1;
  /// Each operand is an array of pointers on the device, which is read when the product runs: rebinding then needs no
  /// new graph. Otherwise matrices lie so many elements apart (0: one for all).
  bool pointer_arrays = false;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0, stride_d = 0;
  /// Bytes that every pointer and every row stride is a multiple of, at most 256.
  uint32_t alignment_a = 0, alignment_b = 0, alignment_c = 0, alignment_d = 0;
  bool device_scalars = false;  // alpha and beta are on the device, in scale_dtype(); else they are host values
  bool deterministic = false;   // only sums of a fixed order
  int64_t workspace_limit = int64_t{32} << 20;
};

/// The largest power of two, at most 256, that divides the address and the row stride.
uint32_t lt_alignment(uint64_t address, int64_t ld, ir::DType dtype);

/// Operands as device addresses: of the matrices, or of the arrays of their pointers.
struct LtOperands {
  uint64_t a = 0, b = 0, c = 0, d = 0;  // c: as d where the product has no C
  const void* alpha = nullptr;          // host or device, in scale_dtype()
  const void* beta = nullptr;
  uint64_t workspace = 0;  // 256-byte aligned, workspace_bytes() of it, not used by others at the same time
};

/// One product with its algorithm, which depends on the request alone and never on the memory that happens to be free.
class LtProduct {
 public:
  /// `stored` is an algorithm of an earlier process, taken if the library still accepts it. Without any algorithm:
  /// Environment, naming the shape and the limit; types that the library has no product for: Unsupported.
  static Result<std::unique_ptr<const LtProduct>> prepare(const Lt& lt, const LtRequest& request,
                                                          const std::optional<cuda::cublasLtMatmulAlgo_t>& stored = {});
  /// What the library would take, best first by its own estimate, at most `count`; each may be given to prepare() as
  /// stored. Empty: nothing within the limit.
  static Result<std::vector<cuda::cublasLtMatmulAlgo_t>> candidates(const Lt& lt, const LtRequest& request, int count);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  /// Queues it; nothing is allocated, so that a stream may be capturing.
  Outcome enqueue(const LtOperands& operands, cuda::CUstream stream) const;

  size_t workspace_bytes() const { return workspace_bytes_; }
  const cuda::cublasLtMatmulAlgo_t& algorithm() const { return algorithm_; }
  /// f32, or f64 for products in f64.
  static ir::DType scale_dtype(const codegen::GemmShape& shape);

 private:
  LtProduct(const Lt& lt, const LtRequest& request) : lt_(lt), request_(request) {}
  Outcome describe();
  Outcome describe_operand(cuda::cublasLtMatrixLayout_t& layout, ir::DType dtype, int64_t rows, int64_t columns,
                           int64_t ld, int64_t stride, std::string_view name);
  Outcome choose();
  Result<std::vector<cuda::cublasLtMatmulAlgo_t>> ask(int64_t workspace, int count,
                                                      std::vector<size_t>* workspaces) const;
  Result<bool> try_workspace(int64_t bytes);
  bool take_stored(const cuda::cublasLtMatmulAlgo_t& stored);
  std::string text() const;

  const Lt& lt_;
  LtRequest request_;
  cuda::cublasLtMatmulDesc_t desc_ = nullptr;
  cuda::cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
  cuda::cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_bytes_ = 0;
};

}  // namespace stepfuse::runtime
