// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/convert.h"
#include "codegen/cpu/frame.h"
#include "codegen/cpu/reduce.h"

#include <vector>

namespace stepfuse::codegen {

/// How often a value is computed: once per task, once per row (Cols: per group of columns), or at every element.
enum class Level : uint8_t { Task, Outer, Inner };

/// The three indices of the (first) element that code is emitted for. At a level where an index has no value, it is
/// something that is 0 exactly where this code owns index 0 of that dimension.
struct Position {
  std::array<llvm::Value*, 3> index{};
};

/// Emits loads, instructions and stores of one level at one position. Main loop and tail differ in `width` alone, so
/// they compute the same bits.
class Body {
 public:
  Body(Builder& b, const KernelSpec& spec, const Frame& frame);

  /// Elements along d2 side by side (1 or the vector width). Only for neighbours in memory: with more than one, every
  /// stride along d2 is 1.
  void set_width(unsigned width) { width_ = width; }
  unsigned width() const { return width_; }

  /// All loads of the level, then its instructions.
  void compute(Level level, const Position& at);
  /// Its stores, each only where this position owns the element.
  void store(Level level, const Position& at);
  /// The value of a reduction at the current element: math type, or i1 for Any; as wide as the body.
  llvm::Value* reduced_value(const Reduction& reduction);

 private:
  Level level_of(const Varies& varies) const;
  unsigned width_for(const Varies& varies) const { return walked(spec_, varies)[2] ? width_ : 1; }
  llvm::Value* address(size_t arg, const Position& at);
  void load(size_t arg, const Position& at);
  void compute(const Instr& instr, size_t index);
  llvm::Value* raw(const Operand& operand);
  llvm::Value* number(const Operand& operand, ir::DType math, unsigned width);
  llvm::Value* truth(const Operand& operand, unsigned width);
  llvm::Value* memory_form(const Store& store);
  llvm::Value* owner(const Varies& varies, const Position& at);

  Builder& b_;
  const KernelSpec& spec_;
  const Frame& frame_;
  unsigned width_ = 1;
  std::vector<Lanes> args_;
  std::vector<Lanes> instrs_;
};

}  // namespace stepfuse::codegen
