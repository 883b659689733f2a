// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/kernel_abi.h"

#include <set>
#include <string>

namespace stepfuse::codegen {

/// Functions and types above a kernel, in the order in which they stand there.
enum class CudaHelper : uint8_t {
  F16,
  BF16,
  Vec,
  Packed,
  Global,
  Reload,
  WidenF16,
  WidenBF16,
  RoundToOdd,
  F16FromFloat,
  BF16FromFloat,
  F16FromDouble,
  BF16FromDouble,
  LerpFloat,
  LerpDouble,
  SignFloat,
  SignDouble,
  MinimumFloat,
  MinimumDouble,
  MaximumFloat,
  MaximumDouble,
  LoadPart,
  StorePart,
  LoadPackedPart,
  StorePackedPart,
  AddFloat,
  AddDouble,
  AddFloats,
  EitherUnsigned,
  EitherDouble,
  FoldLanes,
  FoldColumns,
  FoldPartials,
  FoldColumn,
};

/// The helpers that one kernel uses, and what those use in turn.
class CudaHelpers {
 public:
  void use(CudaHelper helper);
  /// Their text, for a kernel of this mode and geometry.
  std::string text(ir::Mode mode, const CudaGeometry& geometry) const;

 private:
  std::set<CudaHelper> used_;
};

}  // namespace stepfuse::codegen
