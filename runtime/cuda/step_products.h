// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/product_cache.h"
#include "runtime/cuda/step_tables.h"

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace stepfuse::runtime {

/// One call of cuBLASLt: consecutive members of a batch whose factors are equal.
struct ProductRun {
  const LtProduct* product = nullptr;
  LtOperands operands;
  std::array<double, 2> host_factors{};  // alpha and beta when both are constants; f32 in the first bytes of each
  bool on_host = false;

  Outcome enqueue(cuda::CUstream stream) const;
};

/// The products of a step, each form prepared once.
class StepProducts {
 public:
  /// `cache` and `groups` outlive this.
  StepProducts(ProductCache& cache, const std::vector<CudaGroup>& groups, ir::Mode mode)
      : cache_(cache), groups_(groups), deterministic_(mode == ir::Mode::Strict) {}

  /// Prepares every product of every batch for whole batches of aligned tensors. What each branch needs as workspace.
  Result<std::vector<int64_t>> prepare(const StepMemory& memory);

  /// The calls for one step of a batch. Members without a gradient take part; what they compute goes nowhere.
  Result<std::vector<ProductRun>> runs(const StepMemory& memory, const CudaBranch& branch, const CudaBatch& batch,
                                       size_t step, DeviceAddress base, const std::vector<CudaPointers>& pointers,
                                       const ScalarSets& sets);

 private:
  struct Form {
    const CudaGroup& group;
    const CudaBatch& batch;
    const CudaStep& step;
    size_t members;
    bool arrays;
    bool aligned;
  };
  Result<const LtProduct*> find(const Form& form, int64_t workspace_limit);
  LtRequest request_of(const Form& form, int64_t workspace_limit) const;

  ProductCache& cache_;
  const std::vector<CudaGroup>& groups_;
  bool deterministic_;
  using Key = std::tuple<const codegen::LoweredProduct*, size_t, bool, bool>;  // members, arrays, aligned
  std::map<Key, std::unique_ptr<const LtProduct>> products_;
};

/// What cannot be run: factors in memory of another type than products take.
Outcome check_factors(const CudaGroup& group);

}  // namespace stepfuse::runtime
