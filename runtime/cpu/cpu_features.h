// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What generated code for a CPU may use. Comes from CPUID and XGETBV bits, never from a model name (a hypervisor may
/// hide what the model has). `llvm_features` is the complete explicit list, in a fixed order, that is put on every
/// function and into every key, e.g. "+sse4.2,+avx,+avx2,+fma,+f16c,-avx512f,...".
struct CpuTarget {
  std::string name;    // "cpu", "x86-64-v3", "x86-64-v4": as the user wrote it
  std::string triple;  // "x86_64-unknown-linux-gnu"
  std::string llvm_features;
  bool avx2 = false, fma = false, f16c = false, avx512 = false;  // avx512: F, BW, DQ, VL, CD together
  bool avx512_bf16 = false, amx_bf16 = false;                    // products only, never in generated kernels
  int vector_bytes = 16;                                         // 64 with avx512, 32 with avx2
};

/// Raw CPUID/XGETBV words, so that a test can mock a machine (F01).
struct CpuidWords {
  unsigned leaf1_ecx, leaf1_edx, leaf7_ebx, leaf7_ecx, leaf7_edx, leaf7_1_eax;
  unsigned long long xcr0;
  unsigned leaf80000001_ecx = 0;  // LZCNT
};
CpuidWords read_cpuid();

CpuTarget host_cpu_target(const CpuidWords& words);
/// "cpu" is this host; "x86-64-v3" and "x86-64-v4" are the psABI levels. Anything else is refused with the legal names.
Result<CpuTarget> cpu_target(std::string_view name);
/// Whether code for `target` can run on this host; names the missing features otherwise.
Outcome check_runs_here(const CpuTarget& target);

}  // namespace stepfuse::runtime
