// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/cpu_features.h"

#include <algorithm>
#include <array>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace stepfuse::runtime {

namespace {

constexpr unsigned long long kXcr0Avx = 0x6;      // SSE and AVX state
constexpr unsigned long long kXcr0Avx512 = 0xe6;  // and opmask, upper ZMM halves, ZMM16..31
constexpr unsigned long long kXcr0Amx = 0x60000;  // tile configuration and tile data

constexpr bool bit(unsigned word, int index) { return ((word >> index) & 1u) != 0; }

/// The features that generated code may use, in the order of `llvm_features`.
struct Features {
  bool sse3 = false, ssse3 = false, sse41 = false, sse42 = false, popcnt = false;
  bool avx = false, avx2 = false, fma = false, f16c = false;
  bool bmi = false, bmi2 = false, lzcnt = false, movbe = false;
  bool avx512 = false;
};

constexpr Features kLevel3{.sse3 = true,
                           .ssse3 = true,
                           .sse41 = true,
                           .sse42 = true,
                           .popcnt = true,
                           .avx = true,
                           .avx2 = true,
                           .fma = true,
                           .f16c = true,
                           .bmi = true,
                           .bmi2 = true,
                           .lzcnt = true,
                           .movbe = true,
                           .avx512 = false};

/// An instruction set counts only with everything below it: LLVM switches on what a feature implies, so a hypervisor
/// that shows AVX-512 and hides FMA must not bring FMA back.
Features decode(const CpuidWords& words) {
  Features f;
  const bool os_saves_registers = bit(words.leaf1_ecx, 27);
  const bool ymm = os_saves_registers && (words.xcr0 & kXcr0Avx) == kXcr0Avx;
  const bool zmm = os_saves_registers && (words.xcr0 & kXcr0Avx512) == kXcr0Avx512;
  f.sse3 = bit(words.leaf1_ecx, 0);
  f.ssse3 = f.sse3 && bit(words.leaf1_ecx, 9);
  f.sse41 = f.ssse3 && bit(words.leaf1_ecx, 19);
  f.sse42 = f.sse41 && bit(words.leaf1_ecx, 20);
  f.popcnt = bit(words.leaf1_ecx, 23);
  f.avx = f.sse42 && ymm && bit(words.leaf1_ecx, 28);
  f.avx2 = f.avx && bit(words.leaf7_ebx, 5);
  f.fma = f.avx && bit(words.leaf1_ecx, 12);
  f.f16c = f.avx && bit(words.leaf1_ecx, 29);
  f.bmi = bit(words.leaf7_ebx, 3);
  f.bmi2 = bit(words.leaf7_ebx, 8);
  f.lzcnt = bit(words.leaf80000001_ecx, 5);
  f.movbe = bit(words.leaf1_ecx, 22);
  f.avx512 = f.avx2 && f.fma && f.f16c && zmm && bit(words.leaf7_ebx, 16) && bit(words.leaf7_ebx, 17) &&
             bit(words.leaf7_ebx, 28) && bit(words.leaf7_ebx, 30) && bit(words.leaf7_ebx, 31);
  return f;
}

/// Instructions that round or flush differently from ours are refused whatever the host has: AVX512-BF16 and AMX flush
/// subnormals.
constexpr std::string_view kNeverGenerated =
    ",-avx512bf16,-avx512fp16,-avxneconvert,-amx-tile,-amx-int8,-amx-bf16,-amx-fp16";

std::string llvm_feature_list(const Features& f) {
  const std::array<std::pair<std::string_view, bool>, 18> list = {{{"sse3", f.sse3},
                                                                   {"ssse3", f.ssse3},
                                                                   {"sse4.1", f.sse41},
                                                                   {"sse4.2", f.sse42},
                                                                   {"popcnt", f.popcnt},
                                                                   {"avx", f.avx},
                                                                   {"avx2", f.avx2},
                                                                   {"fma", f.fma},
                                                                   {"f16c", f.f16c},
                                                                   {"bmi", f.bmi},
                                                                   {"bmi2", f.bmi2},
                                                                   {"lzcnt", f.lzcnt},
                                                                   {"movbe", f.movbe},
                                                                   {"avx512f", f.avx512},
                                                                   {"avx512cd", f.avx512},
                                                                   {"avx512bw", f.avx512},
                                                                   {"avx512dq", f.avx512},
                                                                   {"avx512vl", f.avx512}}};
  std::string text;
  for (const auto& [name, present] : list)
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", present ? '+' : '-', name);
  return text.append(kNeverGenerated);
}

CpuTarget make_target(std::string_view name, const Features& features) {
  CpuTarget target;
  target.name = name;
#if defined(__x86_64__)
  target.triple = "x86_64-unknown-linux-gnu";
  target.llvm_features = llvm_feature_list(features);
#elif defined(__aarch64__)
  target.triple = "aarch64-unknown-linux-gnu";
#endif
  target.avx2 = features.avx2;
  target.fma = features.fma;
  target.f16c = features.f16c;
  target.avx512 = features.avx512;
  target.vector_bytes = features.avx512 ? 64 : features.avx2 ? 32 : 16;
  return target;
}

/// The features of `wanted` ("+a,-b,+c") that `have` does not switch on, as "a, c".
std::string missing_features(std::string_view wanted, std::string_view have) {
  std::string missing;
  const std::string padded = fmt::format(",{},", have);
  for (size_t begin = 0; begin < wanted.size();) {
    const size_t end = std::min(wanted.find(',', begin), wanted.size());
    const std::string_view item = wanted.substr(begin, end - begin);
    begin = end + 1;
    if (!item.starts_with('+') || padded.find(fmt::format(",{},", item)) != std::string::npos) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", item.substr(1));
  }
  return missing;
}

}  // namespace

CpuidWords read_cpuid() {
  CpuidWords words{};
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
    words.leaf1_ecx = ecx;
    words.leaf1_edx = edx;
  }
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    words.leaf7_ebx = ebx;
    words.leaf7_ecx = ecx;
    words.leaf7_edx = edx;
    if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) words.leaf7_1_eax = eax;
  }
  if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx)) words.leaf80000001_ecx = ecx;
  if (bit(words.leaf1_ecx, 27)) {
    unsigned low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words.xcr0 = (static_cast<unsigned long long>(high) << 32) | low;
  }
#endif
  return words;
}

CpuTarget host_cpu_target(const CpuidWords& words) {
  CpuTarget target = make_target("cpu", decode(words));
  target.avx512_bf16 = target.avx512 && bit(words.leaf7_1_eax, 5);
  const bool tiles = (words.xcr0 & kXcr0Amx) == kXcr0Amx && bit(words.leaf7_edx, 24);
  target.amx_bf16 = target.avx512 && tiles && bit(words.leaf7_edx, 22);
  return target;
}

Result<CpuTarget> cpu_target(std::string_view name) {
  if (name == "cpu") return host_cpu_target(read_cpuid());
  Features features = kLevel3;
  features.avx512 = name == "x86-64-v4";
  if (name == "x86-64-v3" || name == "x86-64-v4") {
#if defined(__x86_64__)
    return make_target(name, features);
#else
    return with_hint(fail(StatusCode::Unsupported, "CPU target '{}' needs an x86-64 build", name), "use 'cpu'");
#endif
  }
  return with_hint(fail(StatusCode::InvalidArgument, "unknown CPU target '{}'", name),
                   "use 'cpu' (this host), 'x86-64-v3' (AVX2 and FMA) or 'x86-64-v4' (AVX-512)");
}

Outcome check_runs_here(const CpuTarget& target) {
  const CpuTarget host = host_cpu_target(read_cpuid());
  if (target.triple != host.triple)
    return with_hint(fail(StatusCode::Environment, "code for {} cannot run on {}", target.triple, host.triple),
                     "use the target 'cpu'");
  const std::string missing = missing_features(target.llvm_features, host.llvm_features);
  if (missing.empty()) return {};
  return with_hint(
      fail(StatusCode::Environment, "this CPU cannot run code for '{}': it lacks {}", target.name, missing),
      "use the target 'cpu', or only compile for this target here");
}

}  // namespace stepfuse::runtime
