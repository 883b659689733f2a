// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/loops.h"
#include "codegen/kernel.h"

namespace stepfuse::codegen {

/// The 64 lanes of one reduction, on the stack: they stay in the first-level cache, the main loop and its scalar tail
/// share them, and neither needs to know where in a chunk it is, beyond the lane.
/// Along a row, lanes lie side by side and neighbours of one vector are neighbouring lanes. Across columns, each lane
/// is a vector with one entry per column.
class Accumulator {
 public:
  /// `columns`: the widest group of columns, 1 when reducing along rows. The stack slot goes where `b` stands.
  Accumulator(Builder& b, const Reduction& reduction, unsigned columns);

  /// `columns` as now in use, at most those of the constructor, in this and the following.
  void clear(Builder& b, unsigned columns) const;
  /// `value` (math type, or i1 for Any) joins the lanes that begin at `lane`.
  void add(Builder& b, llvm::Value* lane, unsigned columns, llvm::Value* value) const;
  /// The lanes folded by halves, as double, `columns` wide.
  llvm::Value* finish(Builder& b, unsigned columns) const;

 private:
  llvm::Value* combine(Builder& b, llvm::Value* x, llvm::Value* y) const;
  llvm::Value* as_partial(Builder& b, llvm::Value* x) const;
  llvm::Value* lane_address(Builder& b, llvm::Value* lane, unsigned columns) const;
  llvm::Value* fold_lanes_of_columns(Builder& b, unsigned columns) const;
  llvm::Value* fold_one_vector(Builder& b) const;

  ir::Op op_;
  llvm::Type* element_;
  llvm::Value* slot_;
};

}  // namespace stepfuse::codegen
