// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/scalar_eval.h"
#include "ir/support/status.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// The first kernel of a step: it evaluates the scalars of all parameters in f64, as ir::ScalarProgram does, bit for
/// bit, and counts their steps. One thread per parameter walks its program line by line, so that one kernel serves
/// every plan: a process that meets another set of rules compiles nothing.
///
///   extern "C" __global__ void stepfuse_prologue(const Row* rows, unsigned row_count, const Program* programs,
///                                                Parameter* parameters, const unsigned* active, const unsigned* skip,
///                                                const double* more, const Hypers hypers)
///
/// `active`, by parameter: 0 where there is no gradient now, and nothing is done.
///
/// What a schedule changes comes by value, so that a captured graph needs one changed node and no copy.
namespace stepfuse::codegen {

inline constexpr const char* kCudaPrologueName = "stepfuse_prologue";
inline constexpr unsigned kCudaPrologueThreads = 128;
/// Most lines of a program.
inline constexpr size_t kCudaScalarLines = 128;
inline constexpr size_t kCudaFreshStates = 32;

/// One line of a program. 24 bytes.
struct CudaScalarLine {
  uint16_t code = 0;                                // what to do: a source or an op, as encode_scalars() numbers them
  std::array<uint16_t, ir::kMaxOperands> operands;  // lines
  uint32_t index = 0;                               // of a hyperparameter or a fresh flag
  double value = 0;                                 // of a constant
};

/// A program on the device. 24 bytes.
struct CudaProgram {
  uint64_t lines = 0;  // const CudaScalarLine*
  uint64_t slots = 0;  // const unsigned*: the line of each slot
  uint32_t line_count = 0, slot_count = 0;
};

/// The lines of a program, in order. A program that is too long, or that asks for more than kCudaFreshStates states, is
/// Unsupported.
Result<std::vector<CudaScalarLine>> encode_scalars(const ir::ScalarProgram& program);

/// The scalars of one parameter. 24 bytes.
struct CudaPrologueRow {
  uint32_t program = 0;    // number of its program
  uint32_t hypers = 0;     // first of its values in Hypers or `more`
  uint32_t parameter = 0;  // its number in the table of parameters
  uint32_t unused = 0;
  uint64_t slots = 0;  // double*: where the results go, and after the last of them each again as f32, for products
};

/// Bytes of a program's results: f64, then f32.
inline constexpr int64_t cuda_slot_bytes(size_t slots) { return static_cast<int64_t>(slots * 12 + 7) / 8 * 8; }

/// What the device knows of one parameter; its copy is the truth. 16 bytes.
struct CudaParameterState {
  int64_t steps = 0;   // taken so far; the prologue adds one before it evaluates
  uint32_t fresh = 0;  // bit k: the k-th of the program's fresh states is absent; 0 after the first step
  uint32_t unused = 0;
};

/// Hyperparameters of all distinct sets, one set after the other. With more of them than fit here, `more` is not null
/// and holds them all. With the other arguments this stays below the 4096 bytes that every driver takes.
struct CudaHypers {
  std::array<double, 480> value;
};

/// The kernel; always the same. Where skip is not null and *skip is not 0, it changes nothing. Compile with
/// nvrtc_options(ir::Mode::Strict).
std::string emit_prologue();

}  // namespace stepfuse::codegen
