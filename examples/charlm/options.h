// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <stepfuse/stepfuse.hpp>

namespace charlm {

/// What the command line asks for.
struct Options {
  int steps = 200;
  int batch = 16;    ///< sequences per step
  int context = 32;  ///< characters per sequence
  int threads = 0;   ///< 0: one per core this process may use
  std::uint64_t seed = 1;
  stepfuse::Numerics numerics = stepfuse::Numerics::Strict;
  std::string target;  ///< of the optimizer; empty: as Stepfuse's settings say. The model runs on the CPU.
  std::string text;    ///< empty: the licence texts
  bool compare = true;
  bool require_below_bigram = false;
  bool check_gradients = false;
  bool help = false;
};

/// Throws Failure for an unknown flag (naming the nearest one) and for a value out of range.
Options parse_options(int argc, const char* const* argv);

std::string help_text();

}  // namespace charlm
