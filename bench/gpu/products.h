// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/gpu/gpu.h"

#include <array>
#include <memory>
#include <optional>

namespace stepfuse::gpu_check {

/// A dense product, or a batch of them one behind the other.
struct ProductSpec {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  bool trans_b = false;  // X X^T
  bool has_c = false;
  ir::DType ab = ir::DType::BF16, d = ir::DType::BF16;
  bool pointer_arrays = false, device_scalars = false;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  }
};

runtime::LtRequest request_of(const ProductSpec& spec);

/// Where its operands lie: the first matrices of each batch.
struct Operands {
  uint64_t a = 0, b = 0, c = 0, d = 0;
};

/// A product that is ready to run on memory of a caller's.
class Product {
 public:
  /// Throws where the library has no algorithm.
  Product(const Gpu& gpu, const ProductSpec& spec, float alpha, float beta,
          const std::optional<cuda::cublasLtMatmulAlgo_t>& algorithm = {});

  void bind(const Operands& operands);
  /// Matrices anywhere: with pointer_arrays only, as many as the batch has.
  void bind_arrays(const std::vector<Operands>& each);
  void enqueue() const;

 private:
  const Gpu& gpu_;
  ProductSpec spec_;
  runtime::LtRequest request_;
  std::unique_ptr<const runtime::LtProduct> product_;
  Buffer workspace_, device_factors_, arrays_;
  std::array<float, 2> factors_;
  runtime::LtOperands operands_;
};

/// Memory of a product's operands, filled with random values.
class ProductMemory {
 public:
  ProductMemory(const Gpu& gpu, const ProductSpec& spec);
  Operands operands() const { return {a_.address(), b_.address(), c_.address(), d_.address()}; }

 private:
  Buffer a_, b_, c_, d_;
};

/// A product with memory of its own.
class OwnedProduct {
 public:
  OwnedProduct(const Gpu& gpu, const ProductSpec& spec);
  void enqueue() const { product_.enqueue(); }

 private:
  ProductMemory memory_;
  Product product_;
};

/// Work of so many operations, as often as it takes to be long beside a launch, in a graph.
class Repeated {
 public:
  Repeated(const Bench& bench, double flops, const Work& work);
  int times() const { return times_; }
  Work launch() const {
    return [graph = graph_] { graph->launch(); };
  }

 private:
  int times_;
  std::shared_ptr<const Graph> graph_;
};

/// The product of a memory's operands with factors that keep them bounded.
Product product_on(const Gpu& gpu, const ProductSpec& spec, const ProductMemory& memory,
                   const std::optional<cuda::cublasLtMatmulAlgo_t>& algorithm = {});

}  // namespace stepfuse::gpu_check
