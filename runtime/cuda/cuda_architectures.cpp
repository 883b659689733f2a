// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_architectures.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace stepfuse::runtime {

namespace {

/// Capabilities of embedded devices: the CUDA programming guide excludes them from binary compatibility.
constexpr std::array kEmbedded{53, 62, 72, 87, 101, 110};

bool embedded(int number) { return std::find(kEmbedded.begin(), kEmbedded.end(), number) != kEmbedded.end(); }

std::string spell(std::string_view prefix, const CudaArch& arch) {
  std::string text = fmt::format("{}{}", prefix, arch.number);
  if (arch.suffix != 0) text += arch.suffix;
  return text;
}

}  // namespace

std::string CudaArch::name() const { return spell(real ? "sm_" : "compute_", *this); }
std::string CudaArch::name_as_ptx() const { return spell("compute_", *this); }

std::optional<CudaArch> parse_cuda_arch(std::string_view text) {
  CudaArch arch;
  arch.real = text.starts_with("sm_");
  if (!arch.real && !text.starts_with("compute_")) return std::nullopt;
  text.remove_prefix(text.find('_') + 1);
  // Two digits at least: a major and a minor number.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), arch.number);
  if (error != std::errc() || arch.number < 10 || arch.number > 9999 || text.front() == '0') return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text == "a" || text == "f")
    arch.suffix = text.front();
  else if (!text.empty())
    return std::nullopt;
  return arch;
}

Result<std::vector<CudaArch>> parse_cuda_archs(std::string_view text) {
  std::vector<CudaArch> archs;
  while (true) {
    const std::string_view word = text.substr(0, text.find(','));
    const auto arch = parse_cuda_arch(word);
    if (!arch)
      return with_hint(fail(StatusCode::InvalidArgument, "'{}' is not a CUDA architecture", word),
                       "write it like sm_90, sm_90a or compute_90, several by commas");
    if (std::find(archs.begin(), archs.end(), *arch) == archs.end()) archs.push_back(*arch);
    if (word.size() == text.size()) return archs;
    text.remove_prefix(word.size() + 1);
  }
}

std::string capability_text(int number) { return fmt::format("{}.{}", number / 10, number % 10); }

bool cubin_serves(const CudaArch& arch, int device) {
  if (!arch.real) return false;
  if (arch.suffix == 'a' || embedded(arch.number) || embedded(device)) return arch.number == device;
  return arch.number / 10 == device / 10 && arch.number <= device;
}

bool ptx_serves(const CudaArch& arch, int device) {
  if (arch.suffix == 'a') return arch.number == device;
  if (arch.suffix == 'f' && arch.number / 10 != device / 10) return false;
  return arch.number <= device;
}

std::vector<CudaArch> archs_for_device(int device) {
  // Of CUDA 13; older toolkits know fewer. A device that is newer than all of them runs the last one's PTX.
  constexpr std::array kKnown{121, 120, 110, 103, 100, 90, 89, 88, 87, 86, 80, 75};
  std::vector<CudaArch> archs;
  for (const int number : kKnown)
    if (cubin_serves({number, 0, true}, device)) archs.push_back({number, 0, true});
  for (const bool real : {false, true})
    for (const int number : kKnown)
      if (const CudaArch arch{number, 0, real}; number <= device && !(real && cubin_serves(arch, device)))
        archs.push_back(arch);
  return archs;
}

}  // namespace stepfuse::runtime
