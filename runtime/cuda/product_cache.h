// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/store.h"
#include "runtime/context.h"
#include "runtime/cuda/lt_product.h"

#include <map>
#include <memory>
#include <vector>

namespace stepfuse::runtime {

/// What names the algorithm of a product: device, library, and all of the request.
KeyFields product_fields(const CudaDevice& device, const Lt& lt, const LtRequest& request);

/// Prepares products with the algorithms of earlier processes, which the library checks again, and keeps those that it
/// had to choose. They are machine choices: equal requests on equal devices get equal algorithms.
class ProductCache {
 public:
  /// Everything given outlives this.
  ProductCache(const Context& context, const CudaDevice& device, const Lt& lt)
      : context_(context), device_(device), lt_(lt) {}

  Result<std::unique_ptr<const LtProduct>> prepare(const LtRequest& request);

  /// The entries of all products that were prepared, each once.
  std::vector<Entry> entries() const;

 private:
  const Context& context_;
  const CudaDevice& device_;
  const Lt& lt_;
  std::map<std::string, Entry> entries_;  // by preimage
};

/// Why a product entry cannot be used; empty if it can.
std::string product_entry_problem(const Entry& entry);

}  // namespace stepfuse::runtime
