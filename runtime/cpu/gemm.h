// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/gemm_shape.h"
#include "ir/support/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

using codegen::GemmShape;

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

/// The providers of this machine. Each is probed once per process, when a type of its is first asked for: features,
/// library, and small products with transposed operands, alpha, beta and odd extents whose results are known exactly; a
/// provider whose result is wrong is refused with the reason.
class GemmProviders {
 public:
  static const GemmProviders& get();
  const GemmProvider* fma_chain() const;  // strict; null without FMA hardware
  /// For A and B of this type. F32, F64: OpenBLAS, else the fma-chain kernel. BF16: oneDNN with AMX or AVX512-BF16,
  /// null elsewhere. Null for other types.
  const GemmProvider* library(ir::DType dtype) const;
  std::vector<ProviderReport> reports() const;  // tests every provider
};

}  // namespace stepfuse::runtime
