// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"

#include <set>
#include <string>
#include <vector>

namespace stepfuse::codegen {

/// `name` with everything but letters, digits and '_' replaced by '_', and no digit in front.
std::string cuda_identifier(std::string_view name);

/// Identifiers of one kernel's text: those of the IR as far as C++ allows it, each one thing only.
struct CudaNames {
  explicit CudaNames(const KernelSpec& spec);

  std::vector<std::string> args;        // fields of Row; NAME_at, NAME_vec, ... are the variables around them
  std::vector<std::string> elements;    // the value that was read
  std::vector<std::string> instrs;      // the value that was computed
  std::vector<std::string> reductions;  // fields of Row (NAME_partials, NAME) and accumulators

 private:
  std::string take(std::string_view name, const std::vector<std::string>& suffixes);
  std::set<std::string> taken_;
};

}  // namespace stepfuse::codegen
