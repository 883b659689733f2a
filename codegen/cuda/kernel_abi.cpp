// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/kernel_abi.h"

#include "codegen/cuda/level.h"

#include <algorithm>

namespace stepfuse::codegen {

namespace {

constexpr unsigned kAccessBytes = 16;
constexpr unsigned kMostNeighbours = 8;
/// Of the 64 registers of a thread, what elements on their way, accumulators, addresses and scalars may take; the rest
/// is for indices and the arithmetic itself. Found by compiling every recipe's kernels
/// (tests/cuda/kernels_compile_test).
constexpr unsigned kValueRegisters = 43;
constexpr unsigned kDoubleRegisters = 24;    // for division and root in f64
constexpr unsigned kReductionRegisters = 2;  // what folding lanes keeps alive over the loop
constexpr unsigned kNarrowRegisters = 4;     // taking 16-bit elements apart and packing them
constexpr size_t kShortArithmetic = 8;  // ops; what more of them keep alive beside 16-bit elements is as much again

unsigned bytes_of(const KernelArg& arg) { return static_cast<unsigned>(ir::dtype_bytes(arg.dtype)); }

template <class Use>
void for_each_stream(const KernelSpec& spec, Use use) {
  for (const KernelArg& arg : spec.args)
    if (cuda_level(spec, arg.varies) == CudaLevel::Element) use(arg);
}

/// Neighbours whose narrowest stream fills one access.
unsigned widest_vector(const KernelSpec& spec) {
  unsigned narrowest = kAccessBytes / 2;
  for_each_stream(spec, [&](const KernelArg& arg) { narrowest = std::min(narrowest, bytes_of(arg)); });
  return std::min(kMostNeighbours, kAccessBytes / narrowest);
}

bool has_narrow_streams(const KernelSpec& spec) {
  bool narrow = false;
  for_each_stream(spec, [&](const KernelArg& arg) { narrow = narrow || bytes_of(arg) < 4; });
  return narrow;
}

unsigned narrow_registers(const KernelSpec& spec) {
  if (!has_narrow_streams(spec)) return 0;
  return spec.instrs.size() > kShortArithmetic ? 2 * kNarrowRegisters : kNarrowRegisters;
}

bool computes_in_f64(const KernelSpec& spec) {
  return std::any_of(spec.instrs.begin(), spec.instrs.end(),
                     [](const Instr& instr) { return instr.math == ir::DType::F64; });
}

/// What a thread of this geometry keeps in registers. Of 16-bit elements two share one, before they are used and, in
/// other registers, from when they are made until they are stored.
unsigned value_registers(const KernelSpec& spec, const CudaVariant& variant, const CudaGeometry& g) {
  const bool steps = !cuda_contiguous(spec) && !variant.aligned;
  const bool f64 = computes_in_f64(spec);
  unsigned registers = (f64 ? kDoubleRegisters : 0) + narrow_registers(spec);
  if (g.scalars_stay) registers += spec.num_scalars * (f64 ? 2 : 1);
  for_each_stream(spec, [&](const KernelArg& arg) {
    const bool twice = bytes_of(arg) < 4 && arg.read && arg.written;
    registers += (steps ? 4 : 2) + (g.batch * g.vector * bytes_of(arg) * (twice ? 2 : 1) + 3) / 4;
  });
  for (const Reduction& r : spec.reductions) registers += g.lanes * (r.math == ir::DType::F64 ? 2 : 1);
  return registers + (spec.reductions.empty() ? 0 : kReductionRegisters);
}

/// Lanes of a thread: neighbours of one vector, or, element by element, two that are 32 apart, so that a warp at most
/// shares a chunk and folds it by shuffles.
unsigned lanes_of(unsigned vector) { return std::max(vector, 2U); }

CudaGeometry columns_geometry() {
  CudaGeometry g;
  g.group = kCudaBlockThreads;
  g.lanes = static_cast<unsigned>(kLanes) / (kCudaBlockThreads / static_cast<unsigned>(kCudaColumns));
  g.batch = g.lanes;
  return g;
}

bool strides_keep_alignment(const KernelSpec& spec, const KernelArg& arg, const CudaArgumentPlace& place,
                            int64_t access) {
  if (place.strides[2] != 1) return false;
  if (spec.scheme == Scheme::Cols) return true;
  const int64_t bytes = ir::dtype_bytes(arg.dtype);
  return (!arg.varies[0] || place.strides[0] * bytes % access == 0) &&
         (!arg.varies[1] || place.strides[1] * bytes % access == 0);
}

}  // namespace

CudaGeometry cuda_geometry(const KernelSpec& spec, const CudaVariant& variant) {
  if (spec.scheme == Scheme::Cols) return columns_geometry();
  const bool reduces = !spec.reductions.empty();
  CudaGeometry g;
  g.vector = variant.aligned ? widest_vector(spec) : 1;
  g.batch = 2;
  if (cuda_walks_rows(spec)) g.batch = 1;  // each vector has a row of its own to find
  for (;;) {
    g.lanes = reduces ? lanes_of(g.vector) : 1;
    g.batch = std::max(g.batch, reduces ? g.lanes / g.vector : 1);
    if (value_registers(spec, variant, g) <= kValueRegisters) break;
    if (g.batch > std::max(1U, g.lanes / g.vector)) {
      g.batch /= 2;
    } else if (g.scalars_stay) {
      g.scalars_stay = false;  // before accesses get narrower
    } else if (g.vector > 1) {
      g.vector /= 2;
    } else {
      break;
    }
  }
  g.group = reduces ? static_cast<unsigned>(kLanes) / g.lanes : kCudaBlockThreads;
  g.chunks_per_block = kCudaBlockThreads / g.group;
  return g;
}

bool cuda_aligned(const KernelSpec& spec, const std::array<int64_t, 3>& dims,
                  std::span<const CudaArgumentPlace> places) {
  const int64_t vector = cuda_geometry(spec, {.aligned = true}).vector;
  const bool contiguous = spec.scheme == Scheme::Linear && spec.contiguous;
  if (contiguous && dims[0] > 1 && dims[1] * dims[2] % vector != 0) return false;
  if (cuda_walks_rows(spec) && dims[2] % vector != 0) return false;
  for (size_t k = 0; k < spec.args.size(); ++k) {
    const KernelArg& arg = spec.args[k];
    const bool inner = contiguous ? arg.varies[1] || arg.varies[2] : arg.varies[2];
    if (!inner) continue;
    const int64_t access = std::min<int64_t>(kAccessBytes, vector * ir::dtype_bytes(arg.dtype));
    if (spec.scheme != Scheme::Cols && places[k].address % static_cast<uint64_t>(access) != 0) return false;
    if (!contiguous && !strides_keep_alignment(spec, arg, places[k], access)) return false;
  }
  return true;
}

CudaRowLayout cuda_row_layout(const KernelSpec& spec) {
  CudaRowLayout layout;
  layout.words = layout.args + spec.args.size();
  if (spec.scheme != Scheme::Linear || !spec.contiguous) {
    layout.strides = layout.words;
    layout.words += 3 * spec.args.size();
  }
  if (!spec.reductions.empty()) {
    layout.partials = layout.words;
    layout.words += 2 * spec.reductions.size();
  }
  return layout;
}

}  // namespace stepfuse::codegen
