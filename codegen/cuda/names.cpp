// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/names.h"

#include <algorithm>
#include <cctype>

namespace stepfuse::codegen {

namespace {

/// Words of the language, and every name that the text of any kernel uses for itself.
const std::set<std::string>& reserved() {
  static const std::set<std::string> kWords{
      // C++
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
      "class", "compl", "concept", "const", "constexpr", "continue", "decltype", "default", "delete", "do", "double",
      "else", "enum", "explicit", "export", "extern", "false", "final", "float", "for", "friend", "goto", "if",
      "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
      "or_eq", "override", "private", "protected", "public", "register", "requires", "return", "short", "signed",
      "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typeid",
      "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "xor", "xor_eq",
      // CUDA
      "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "min", "max", "fabs", "fabsf", "sqrt", "sqrtf",
      "atomicAdd", "linux", "unix",
      // ours
      "Chunk", "Row", "Vec", "Packed", "pack", "unpack", "T", "f16", "bf16", "global", "widen", "to_f16", "to_bf16",
      "round_to_odd", "lerp", "sign", "minimum", "maximum", "load_part", "store_part", "add", "add_floats", "either",
      "fold_lanes", "fold_columns", "fold_partials", "fold_column", "store_results", "chunks", "chunk_count", "rows",
      "chunk", "row", "group", "lane", "first", "c", "live", "extent", "begin", "count", "origin", "parts", "result",
      "last", "finished", "i", "j", "k", "b", "slot", "i0", "i1", "i2", "cols", "row0", "col0", "x", "y", "column",
      "inside", "at", "scalars", "skip", "d0", "d1", "d2", "tickets", "ticket", "other", "unit"};
  return kWords;
}

const std::vector<std::string> kArgSuffixes{"_at", "_vec", "_step", "_row_step", "_stride"};
const std::vector<std::string> kInstrSuffixes{"_bits"};
const std::vector<std::string> kReductionSuffixes{"_partials", "_lanes"};

}  // namespace

std::string cuda_identifier(std::string_view name) {
  std::string out;
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) out += 'v';
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

std::string CudaNames::take(std::string_view name, const std::vector<std::string>& suffixes) {
  const std::string base = cuda_identifier(name);
  const auto free = [&](const std::string& candidate) {
    // Two leading underscores, and one before a capital, belong to the compiler.
    if (candidate.starts_with("__") || reserved().contains(candidate) || taken_.contains(candidate)) return false;
    return std::none_of(suffixes.begin(), suffixes.end(),
                        [&](const std::string& suffix) { return taken_.contains(candidate + suffix); });
  };
  std::string chosen = base;
  for (int n = 2; !free(chosen); ++n) chosen = fmt::format("{}{}_{}", base.starts_with('_') ? "v" : "", base, n);
  taken_.insert(chosen);
  for (const std::string& suffix : suffixes) taken_.insert(chosen + suffix);
  return chosen;
}

CudaNames::CudaNames(const KernelSpec& spec) {
  for (uint32_t s = 0; s < spec.num_scalars; ++s) {
    for (const char* kind : {"", "_f64", "_true"}) taken_.insert(fmt::format("s{}{}", s, kind));
  }
  for (const KernelArg& arg : spec.args) {
    args.push_back(take(arg.name, kArgSuffixes));
    elements.push_back(args.back());
  }
  for (const Instr& instr : spec.instrs) {
    // The value that an argument is named after may keep its name where nothing else reads under it.
    const auto it = std::find_if(spec.args.begin(), spec.args.end(),
                                 [&](const KernelArg& arg) { return !arg.read && arg.name == instr.name; });
    const std::string& same = it == spec.args.end() ? instr.name : args[static_cast<size_t>(it - spec.args.begin())];
    const bool free_to_share = it != spec.args.end() && std::find(instrs.begin(), instrs.end(), same) == instrs.end();
    instrs.push_back(free_to_share ? same : take(instr.name, kInstrSuffixes));
  }
  for (const Reduction& reduction : spec.reductions) reductions.push_back(take(reduction.name, kReductionSuffixes));
}

}  // namespace stepfuse::codegen
