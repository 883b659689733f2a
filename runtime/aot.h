// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Compiling ahead of time: what plans need on their targets, all of it in one bundle.

#include "runtime/cache/bundle_file.h"
#include "runtime/plan_kernels.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What a plan needs on its target.
struct TargetNeeds {
  std::string target;
  KernelMakers kernels;
  std::vector<PlanShape> shapes;
};
Result<TargetNeeds> needs_of(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
                             const Context& context);

/// After each kernel, from the thread that compiled it, one call at a time.
using AotProgress = std::function<void(int64_t done, int64_t of, std::string_view kernel)>;

/// Compiles every kernel, `jobs` at a time, and returns all entries, each key once, without provenance. Reads and
/// writes no cache: the same needs give the same entries. Of several errors the one of the first kernel is returned.
Result<std::vector<Entry>> compile_needs(std::span<const TargetNeeds> needs, int64_t jobs, const AotProgress& progress);

struct MissingEntry {
  std::string target;
  EntryKind kind = EntryKind::Kernel;
  std::string name;  // of the kernel, or of the rule with the shape and its first parameter
  std::string hash;
  std::string why;
};
/// Exactly what the needs would miss with this bundle alone, in their order: each entry is read whole and a CPU's
/// kernel mapped.
std::vector<MissingEntry> missing_from(const Bundle& bundle, std::span<const TargetNeeds> needs);

}  // namespace stepfuse::runtime
