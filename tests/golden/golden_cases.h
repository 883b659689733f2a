// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/safetensors.h"
#include "stepfuse/stepfuse.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stepfuse::golden {

/// How closely a case can be reproduced; see update_tolerance().
enum class ToleranceClass : std::uint8_t { ElementwiseF32, ElementwiseBf16, NewtonSchulzF32, NewtonSchulzBf16 };

/// One entry of data/cases.json.
struct GoldenCase {
  std::string name;
  std::string recipe;
  Options options;  // in the spelling of the command line
  int steps;
  ElementType dtype;       // of parameters, gradients and states
  bool gradient_per_step;  // else one gradient serves every step, as `stepfuse run --steps` does
  std::string peer;
  ToleranceClass tolerance;
  bool bit_equal;         // strict mode gives the peer's parameters bit for bit
  bool bit_equal_states;  // strict mode gives the peer's states bit for bit
  std::string file;
};

/// How GoogleTest shows a case.
inline void PrintTo(const GoldenCase& golden, std::ostream* stream) { *stream << golden.name; }

/// The manifest, in file order. Throws std::runtime_error if it cannot be read.
const std::vector<GoldenCase>& golden_cases();
const GoldenCase& golden_case(const std::string& name);
/// In the folder that the variable GOLDEN_DATA names, else where this source lies.
std::string data_path(const std::string& file);

/// A tensor with its own memory.
struct GoldenTensor {
  ElementType dtype = ElementType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  std::vector<double> values() const;
};

/// The tensors of one case: before.<name>, grad.<name> or grad.<step>.<name>, after.<name>, state.<name>.<key>.
class GoldenFile {
 public:
  explicit GoldenFile(const GoldenCase& golden);

  const std::vector<std::string>& parameters() const { return parameters_; }
  GoldenTensor before(const std::string& parameter) const { return tensor("before." + parameter); }
  GoldenTensor after(const std::string& parameter) const { return tensor("after." + parameter); }
  GoldenTensor gradient(const std::string& parameter, int step) const;  // the first step is 1
  std::map<std::string, GoldenTensor> states(const std::string& parameter) const;

 private:
  GoldenTensor tensor(const std::string& name) const;

  bool gradient_per_step_;
  runtime::SafetensorsFile file_;
  std::vector<std::string> parameters_;
};

/// Reads one tensor of any safetensors file; throws if it is absent or of a type that no golden has.
GoldenTensor read_tensor(const runtime::SafetensorsFile& file, const std::string& name);

/// The tolerance on an update, relative to its norm.
double update_tolerance(ToleranceClass tolerance, Numerics numerics);

/// Whether a parameter agrees with the peer's: bit for bit where that is claimed, else
///   |ours - reference| <= tolerance * |reference - before| + 4 u sqrt(steps) |reference|      (Euclidean norms)
/// The first term bounds the error of the update, the second the rounding of the sum that stores it.
testing::AssertionResult parameter_agrees(const GoldenCase& golden, Numerics numerics, const GoldenTensor& ours,
                                          const GoldenTensor& reference, const GoldenTensor& before);
testing::AssertionResult state_agrees(const GoldenCase& golden, Numerics numerics, const GoldenTensor& ours,
                                      const GoldenTensor& reference);

}  // namespace stepfuse::golden
