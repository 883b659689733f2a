// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "ir/type.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// D = alpha * op(A) * op(B) + beta * C on row-major matrices, one result per batch entry.
/// Everything here is known when the plan is made; pointers and scalars come with each call.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;                 // op(A) is m x k, op(B) is k x n
  bool trans_a = false, trans_b = false;       // op(X) = X^T
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;  // row strides in elements; the column stride is 1
  ir::DType ab = ir::DType::F32;               // element type of A and B
  ir::DType c = ir::DType::F32;                // element type of C (ignored without C)
  ir::DType d = ir::DType::F32;                // element type of D
  bool has_c = false;
  bool has_alpha = false;  // without it alpha is 1
  bool symmetric = false;  // D equals its transpose: one triangle may be computed and mirrored
  bool a_is_b = false;     // A and B are one buffer
  bool c_is_d = false;     // C and D are one buffer (in place)
};

struct GemmArgs {
  const void* a;
  const void* b;
  const void* c;  // null without C
  void* d;
  double alpha, beta;
};

/// One product, prepared: run() may be called by several threads at once on different arguments and allocates nothing
/// of ours. The result depends on shape and arguments only, never on who calls or how many threads there are.
class Gemm {
 public:
  virtual ~Gemm() = default;
  /// A product may be split into independent pieces of D so that several threads share one large product. The split
  /// follows from the shape alone. Piece p of pieces() may run before, after or beside any other.
  virtual int pieces() const = 0;
  /// `scratch` has scratch_bytes() bytes, 64-byte aligned, private to the calling thread.
  virtual void run(const GemmArgs& args, int piece, void* scratch) const = 0;
  virtual size_t scratch_bytes() const = 0;
  /// Shown in the plan, e.g. "fma-chain avx512", "openblas ssyrk", "onednn brg:avx512_core_amx_bf16".
  virtual std::string_view implementation() const = 0;
};

/// A library or kernel that multiplies matrices.
class GemmProvider {
 public:
  virtual ~GemmProvider() = default;
  virtual std::string_view name() const = 0;  // "fma-chain", "openblas", "onednn"
  /// Null when this provider has no implementation for the shape and types.
  virtual Result<std::unique_ptr<Gemm>> prepare(const GemmShape& shape) const = 0;
};

struct ProviderReport {
  std::string_view name;
  bool usable;
  std::string why;  // when not usable: the missing feature, library or the self-test's finding
};

/// The providers of this machine. Each is probed once per process: features, library, and a small product with a
/// transposed operand, alpha, beta and odd extents whose result is compared with a plain triple loop; a provider whose
/// result is wrong is refused with the reason.
class GemmProviders {
 public:
  static const GemmProviders& get();
  const GemmProvider* fma_chain() const;  // strict; null without FMA hardware
  const GemmProvider* f32() const;        // OpenBLAS, else the fma-chain kernel
  const GemmProvider* bf16() const;       // oneDNN with AMX or AVX512-BF16; null elsewhere
  const std::vector<ProviderReport>& reports() const;
};

}  // namespace stepfuse::runtime
