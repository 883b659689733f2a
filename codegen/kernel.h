// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/limits.h"
#include "ir/graph.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::codegen {

/// The canonical sum: chunks of 4096 elements; element i of a chunk goes to lane i % 64; lanes start at +0 and are then
/// added by halves (lane l += lane l + 32, then 16, 8, 4, 2, 1); chunk partials are added pairwise by index (0+1, 2+3,
/// ...; an odd last one moves up unchanged) until one is left. An empty sum is +0.
inline constexpr int64_t kChunk = 4096;
inline constexpr int64_t kLanes = 64;

inline constexpr int64_t chunks_of(int64_t elements) { return (elements + kChunk - 1) / kChunk; }

/// What one kernel may hold; the fuse pass keeps within it.
inline constexpr size_t kMaxKernelArgs = compiler::kMaxKernelArgs;
inline constexpr size_t kMaxKernelReductions = compiler::kMaxKernelReductions;

/// How the work of one phase is cut. Every phase covers a domain of three dimensions d0 x d1 x d2 (missing ones are 1).
/// Linear: unit = d0, elements of d1 x d2 in row-major order, in whole chunks. Carries reductions over Axis::Matrix.
/// Rows:   whole rows of the flattened d0 x d1. Carries reductions over Axis::Rows.
/// Cols:   unit = d0, whole columns of d2. Carries reductions over Axis::Cols.
enum class Scheme : uint8_t { Linear, Rows, Cols };

/// Which dimensions a value varies along; along the others it is one element, repeated.
using Varies = std::array<bool, 3>;

struct KernelArg {
  std::string name;  // of the IR value, for readers
  ir::DType dtype;
  Varies varies{};
  bool read = false;
  bool written = false;
};

/// What an instruction reads: an argument's element at the current position, an earlier instruction's value, a scalar
/// slot (f64, rounded once to the math type at use), or a constant (likewise).
struct Operand {
  enum class Kind : uint8_t { Arg, Instr, Scalar, Const };
  Kind kind = Kind::Const;
  uint32_t index = 0;
  double value = 0;
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// One elementwise op (ir::is_elementwise) on the current position.
struct Instr {
  std::string name;
  ir::Op op;
  ir::DType dtype;  // rounded to this once, after computing in `math`
  ir::DType math;   // F32 or F64
  Varies varies{};  // union over operands
  std::vector<Operand> operands;
};

/// value -> argument. A value that does not vary along a dimension is stored by the task that owns index 0 of it.
struct Store {
  Operand value;
  uint32_t arg;
};

/// One partial per (unit, chunk) goes to partials[reduction]; the runtime adds the partials and finishes (square root,
/// rounding). A partial is an f64 that holds a value of `math` exactly. Any: 0 or 1. Amax: the largest |a| so far, NaN
/// wins, starts at 0. Index of a partial, with n the extent that is reduced:
///   Linear: unit * chunks_of(d1*d2) + chunk      Rows: row * chunks_of(d2) + chunk
///   Cols: (unit * d2 + column) * chunks_of(d1) + chunk
struct Reduction {
  std::string name;
  ir::Op op;       // Sum, SumSq, Norm (accumulates like SumSq), Amax, Any
  ir::DType math;  // of the accumulator: F64 for SumSq and Norm, else the math type of the operand
  Operand value;
  ir::DType result = ir::DType::F32;  // the finished result is rounded to this once; bool for Any
};

/// One phase of a fused kernel, complete in itself: no graph, no extents, no pointers. Kernel text and key come from
/// it.
struct KernelSpec {
  std::string name;  // "stepfuse_adamw_update_f32", stable across runs
  Scheme scheme = Scheme::Linear;
  /// Linear only: every argument is either dense over the whole domain in row-major order, or one element per unit.
  /// Otherwise arguments are addressed by strides.
  bool contiguous = true;
  ir::Mode mode = ir::Mode::Default;
  std::vector<KernelArg> args;
  uint32_t num_scalars = 0;
  std::vector<Instr> instrs;
  std::vector<Store> stores;
  std::vector<Reduction> reductions;
};

/// Readable and complete: equal text, equal kernel. Part of the cache key and the comment above generated code.
std::string print(const KernelSpec& spec);

/// The same text with every name replaced by its place: equal for kernels that do the same under other names.
std::string identity(const KernelSpec& spec);

/// The generated function's one argument block (C layout; the LLVM emitter spells the same struct).
struct KernelCall {
  void* const* args;        // base pointer of each argument
  const int64_t* strides;   // 3 per argument, in elements; 0 where it does not vary (strided variants only, else null)
  int64_t dims[3];          // d0, d1, d2
  const double* scalars;    // the parameter's scalar slots
  double* const* partials;  // one array per reduction
};

/// Linear: elements begin <= i < end of unit, begin a multiple of kChunk. Rows: flattened rows begin <= r < end (unit
/// is 0). Cols: columns begin <= c < end of unit. Tasks of one phase may run in any order and at the same time.
using KernelFn = void (*)(const KernelCall* call, int64_t unit, int64_t begin, int64_t end);

}  // namespace stepfuse::codegen
