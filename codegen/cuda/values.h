// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/kernel_text.h"

namespace stepfuse::codegen {

/// An expression, and what it is in a register: f64, f32 (for 16-bit values too) or bool.
struct CudaValue {
  std::string text;
  ir::DType kind = ir::DType::F32;
};

/// The expressions of a kernel's values, and the lines that compute them.
class CudaValues {
 public:
  explicit CudaValues(KernelText& text);

  /// The scalar slots that are read at the level (or that stay from the chunk's on), rounded once.
  void declare_scalars(CudaLevel level);
  /// const T name = op(...), for each instruction of the level.
  void compute(CudaLevel level);

  std::string number(const Operand& operand, ir::DType math);
  std::string truth(const Operand& operand);
  /// What goes to memory: without another rounding when the types agree.
  std::string memory_form(const Store& store);
  /// The register form of what lies in memory.
  std::string widened(const std::string& memory, ir::DType dtype);
  /// The memory form of `value`, rounded once.
  std::string rounded(const CudaValue& value, ir::DType dtype);

 private:
  struct Uses {
    bool value = false;  // as an operand
    bool bits = false;   // stored as it is
  };
  struct Forms {
    bool f32 = false, f64 = false, truth = false;
  };
  std::vector<Forms> scalar_forms(CudaLevel level) const;
  void note_uses();
  void note(const Operand& operand);
  CudaValue raw(const Operand& operand);
  void compute(size_t index);

  KernelText& t_;
  std::vector<Uses> uses_;
};

}  // namespace stepfuse::codegen
