// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/gpu/gpu.h"

#include <filesystem>
#include <string>

namespace stepfuse::gpu_check {

/// Where the packed folder's parts lie.
struct Folder {
  std::filesystem::path root;
  std::filesystem::path command() const { return root / "bin" / "stepfuse"; }
  std::filesystem::path tests() const { return root / "bin" / "gpu_tests"; }
  std::filesystem::path goldens() const { return root / "goldens"; }
  std::filesystem::path library() const { return root / "lib" / "libstepfuse.so.0"; }
  std::filesystem::path torch_script() const { return root / "torch_ratios.py"; }
};

// Correctness.
void run_gpu_tests(Report& report, const Folder& folder, bool is_short);
void run_checked_steps(Report& report, const Folder& folder, const std::filesystem::path& scratch, bool is_short);

// The questions of performance that only a device answers; docs/gpu_check.md describes each figure.
void ask_algorithms(const Bench& bench);
void compare_batches(const Bench& bench);
void compare_scalars(const Bench& bench);
void compare_candidates(const Bench& bench);
void sweep_sub_batches(const Bench& bench);
void measure_launches(const Bench& bench);
void measure_adamw(const Bench& bench);
void measure_small_tensors(const Bench& bench);
void measure_muon(const Bench& bench);
void measure_experts(const Bench& bench);
void measure_start(const Bench& bench, const std::filesystem::path& scratch);
/// `python` empty: left out.
void compare_with_torch(Report& report, const Folder& folder, const std::string& python, int rounds);

/// One start in this process, for measure_start: "name<tab>value" lines.
int print_start(bool is_short);

}  // namespace stepfuse::gpu_check
