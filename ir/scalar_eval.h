// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace stepfuse::ir {

/// One op of the scalar graph in f64, as ops.def defines it (Fresh excepted: it reads a flag).
double evaluate_scalar_op(Op op, std::span<const double> operands);

/// a^n by repeated squaring, from the lowest bit of n; n < 0 gives 1 / a^-n. NaN for an n that is no integer of
/// at most 2^53 in magnitude.
double power_by_squaring(double a, double n);

/// The scalar part of a graph as a straight line of f64 operations, ready to run once per step and parameter.
class ScalarProgram {
 public:
  /// `results` are scalar values of `graph`; they become the slots, in this order.
  ScalarProgram(const Graph& graph, std::span<const ValueId> results);

  /// Inputs in the order of hyper_inputs(); `fresh` has one flag per entry of fresh_states(). Writes one f64 per slot.
  /// `registers` has num_registers() elements; nothing is allocated.
  void run(std::span<const double> hypers, double step, std::span<const bool> fresh, std::span<double> registers,
           std::span<double> slots) const;

  size_t num_registers() const { return ops_.size(); }
  size_t num_slots() const { return slots_.size(); }
  const std::vector<ValueId>& hyper_inputs() const { return hypers_; }
  const std::vector<ValueId>& fresh_states() const { return fresh_; }

  /// One operation, whose result goes to the register of its own number.
  enum class Source : uint8_t { Const, Hyper, Step, Fresh, Op };
  struct Line {
    Source source;
    Op op;
    uint8_t num_operands;
    std::array<uint32_t, kMaxOperands> operands;  // registers
    uint32_t index;                               // of a hyper or fresh flag
    double value;                                 // of a constant
  };
  /// For backends that evaluate the program themselves.
  const std::vector<Line>& lines() const { return ops_; }
  /// The register of each slot.
  const std::vector<uint32_t>& slots() const { return slots_; }

 private:
  Line make_line(const Graph& graph, ValueId id, const std::vector<uint32_t>& registers);
  std::vector<Line> ops_;
  std::vector<uint32_t> slots_;
  std::vector<ValueId> hypers_, fresh_;
};

}  // namespace stepfuse::ir
