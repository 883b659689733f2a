// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The algorithms on offer. They differ in the order of their sums, in the workspace and the alignment they need and in
/// what they can do at all, so that a caller who mixes up two of them, or the conditions of one, is found out.

#include "tests/vgpu/lt/compute.h"

#include <array>
#include <optional>
#include <span>
#include <string>

namespace stepfuse::vgpu::lt {

/// What cublasLtMatmulAlgoCapGetAttribute tells, and how to run.
struct Algorithm {
  int id;
  const char* name;
  uint32_t min_alignment;     // bytes, of pointers and strides; 0: that of the elements
  int64_t segment;            // terms per segment of K; 0: all of K
  uint32_t reduction_scheme;  // NONE, or that of its split K
  int max_split;              // 1: K is not split
  uint64_t fixed_workspace;   // bytes
  uint32_t pointer_modes;     // cublasLtPointerModeMask_t
  bool pointer_arrays;
  bool tensor_cores;
  double speed;  // relative, for the heuristic's order
};

std::span<const Algorithm> algorithms();
const Algorithm* find_algorithm(int id);

/// A cublasLtMatmulAlgo_t, which the library's users only store and give back.
struct Choice {
  Types types;
  int id;
  int split;
  uint32_t reduction_scheme;
  std::array<uint32_t, 4> alignment;  // what the heuristic was told of A, B, C, D
};

cublasLtMatmulAlgo_t encode(const Choice& choice);
/// Complains of a blob that is damaged, or that another version of the library or another kind of device has made.
cublasStatus_t decode(const char* where, const cublasLtMatmulAlgo_t* algo, Choice& choice);

/// Why the algorithm cannot do the problem with the alignments that the choice promises; empty if it can.
std::string misfit(const Problem& problem, const Choice& choice);
uint64_t workspace_bytes(const Problem& problem, const Choice& choice);
float waves(const Problem& problem, const Choice& choice);
uint64_t implementation_flags(const Algorithm& algorithm, const Types& types);

/// In-place reductions add the parts of K in an order that changes from call to call: `chance`.
SumOrder sum_order(const Problem& problem, const Choice& choice, uint64_t chance);

/// What the heuristic would name, best first.
std::vector<Choice> candidates(const Problem& problem, const Preference& preference);

/// For lt_control.h: what the library takes the present device for.
uint64_t device_stamp();
void set_device_stamp(uint64_t stamp);

}  // namespace stepfuse::vgpu::lt
