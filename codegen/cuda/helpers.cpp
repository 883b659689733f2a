// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/helpers.h"

#include "codegen/cuda/types.h"

namespace stepfuse::codegen {

namespace {

using Helper = CudaHelper;

struct Need {
  Helper helper, needed;
};
constexpr Need kNeeds[] = {
    {Helper::WidenF16, Helper::F16},
    {Helper::F16FromFloat, Helper::F16},
    {Helper::WidenBF16, Helper::BF16},
    {Helper::BF16FromFloat, Helper::BF16},
    {Helper::F16FromDouble, Helper::F16FromFloat},
    {Helper::F16FromDouble, Helper::RoundToOdd},
    {Helper::BF16FromDouble, Helper::BF16FromFloat},
    {Helper::BF16FromDouble, Helper::RoundToOdd},
    {Helper::LoadPart, Helper::Vec},
    {Helper::StorePart, Helper::Vec},
    {Helper::LoadPackedPart, Helper::Packed},
    {Helper::StorePackedPart, Helper::Packed},
};

std::string vec_text(const CudaGeometry& g) {
  return fmt::format(R"(
/// Neighbours in memory, which move in accesses of up to 16 bytes.
template <class T>
struct alignas({0} * sizeof(T) < 16 ? {0} * sizeof(T) : 16) Vec {{
  T at[{0}];
}};
)",
                     g.vector);
}

std::string packed_text(const CudaGeometry& g) {
  return fmt::format(R"(
/// Neighbours of 16 bits, two to a register.
template <class T>
struct alignas({0} < 16 ? {0} : 16) Packed {{
  unsigned words[{1}];
}};

template <class T>
__device__ __forceinline__ T unpack(const Packed<T>& from, unsigned k) {{
  return T{{static_cast<unsigned short>(from.words[k / 2] >> 16 * (k % 2))}};
}}

template <class T>
__device__ __forceinline__ void pack(Packed<T>& to, unsigned k, T x) {{
  const unsigned word = to.words[k / 2];
  to.words[k / 2] = k % 2 == 0 ? (word & 0xffff0000u) | x.bits : (word & 0xffffu) | static_cast<unsigned>(x.bits) << 16;
}}
)",
                     2 * g.vector, g.vector / 2);
}

constexpr std::string_view kF16 = R"(
struct f16 {
  unsigned short bits;
};
)";

constexpr std::string_view kBF16 = R"(
struct bf16 {
  unsigned short bits;
};
)";

constexpr std::string_view kReload = R"(
/// The same pointer, which the compiler does not recognise: what it points to is read again, and no register holds it
/// until then.
template <class T>
__device__ __forceinline__ const T* reload(const T* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}
)";

constexpr std::string_view kGlobal = R"(
/// A pointer that was loaded from memory, with what the compiler cannot know: it points to global memory.
template <class T>
__device__ __forceinline__ T* global(T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}
)";

constexpr std::string_view kWidenF16 = R"(
__device__ __forceinline__ float widen(f16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
)";

constexpr std::string_view kWidenBF16 = R"(
__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
)";

constexpr std::string_view kRoundToOdd = R"(
/// Towards zero, with the last bit set when anything was lost: rounding the float to 16 bits then gives what one
/// rounding of the double would.
__device__ __forceinline__ float round_to_odd(double x) {
  const float toward_zero = __double2float_rz(x);
  const bool lost = static_cast<double>(toward_zero) != x;
  return __uint_as_float(__float_as_uint(toward_zero) | (lost ? 1u : 0u));
}
)";

constexpr std::string_view kF16FromFloat = R"(
__device__ __forceinline__ f16 to_f16(float x) {
  f16 narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
  return narrow;
}
)";

constexpr std::string_view kBF16FromFloat = R"(
__device__ __forceinline__ bf16 to_bf16(float x) {
  bf16 narrow;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
#else
  // Half of the last kept bit, less one unless that bit is odd: ties go to even. NaN must not carry.
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  narrow.bits = static_cast<unsigned short>((x != x ? bits | 0x400000u : rounded) >> 16);
#endif
  return narrow;
}
)";

constexpr std::string_view kF16FromDouble = R"(
__device__ __forceinline__ f16 to_f16(double x) { return to_f16(round_to_odd(x)); }
)";

constexpr std::string_view kBF16FromDouble = R"(
__device__ __forceinline__ bf16 to_bf16(double x) { return to_bf16(round_to_odd(x)); }
)";

std::string lerp_text(const Arithmetic& a) {
  return fmt::format(R"(
/// Chooses the operands instead of the results, so that the choice of the weight leaves the loop.
__device__ __forceinline__ {0} lerp({0} from, {0} to, {0} weight) {{
  const bool near = {1}(weight) < {2};
  return {3}(near ? weight : {4}, {5}, near ? from : to);
}}
)",
                     a.type(), a.abs(), a.literal(0.5), a.fma(), a.sub("weight", a.literal(1)), a.sub("to", "from"));
}

std::string sign_text(const Arithmetic& a) {
  return fmt::format(R"(
__device__ __forceinline__ {0} sign({0} a) {{ return a > 0 ? {1} : a < 0 ? {2} : a == 0 ? {3} : a; }}
)",
                     a.type(), a.literal(1), a.literal(-1), a.literal(0));
}

/// Equal operands are joined by their bits, so that the sign of +0 and -0 is that of the greater or the smaller.
std::string extreme_text(const Arithmetic& a, bool greater) {
  const bool f64 = a.math() == ir::DType::F64;
  return fmt::format(R"(
/// NaN if either is; -0 is below +0.
__device__ __forceinline__ {0} {1}({0} a, {0} b) {{
  if (a == b) return {2}({3}(a) {4} {3}(b));
  return a != a || b != b ? {5} : a {6} b ? a : b;
}}
)",
                     a.type(), greater ? "maximum" : "minimum", f64 ? "__longlong_as_double" : "__int_as_float",
                     f64 ? "__double_as_longlong" : "__float_as_int", greater ? '&' : '|', a.add("a", "b"),
                     greater ? '>' : '<');
}

std::string load_part_text(const CudaGeometry& g) {
  return fmt::format(R"(
/// The neighbours that are below `count`, and zeros.
template <class T>
__device__ __forceinline__ void load_part(Vec<T>& to, const T* from, unsigned j, unsigned count) {{
#pragma unroll
  for (unsigned k = 0; k < {0}; ++k) to.at[k] = j + k < count ? from[k] : T();
}}
)",
                     g.vector);
}

std::string store_part_text(const CudaGeometry& g) {
  return fmt::format(R"(
template <class T>
__device__ __forceinline__ void store_part(T* to, const Vec<T>& from, unsigned j, unsigned count) {{
#pragma unroll
  for (unsigned k = 0; k < {0}; ++k) {{
    if (j + k < count) to[k] = from.at[k];
  }}
}}
)",
                     g.vector);
}

std::string load_packed_part_text(const CudaGeometry& g) {
  return fmt::format(R"(
template <class T>
__device__ __forceinline__ void load_part(Packed<T>& to, const T* from, unsigned j, unsigned count) {{
#pragma unroll
  for (unsigned k = 0; k < {0}; ++k) pack(to, k, j + k < count ? from[k] : T());
}}
)",
                     g.vector);
}

std::string store_packed_part_text(const CudaGeometry& g) {
  return fmt::format(R"(
template <class T>
__device__ __forceinline__ void store_part(T* to, const Packed<T>& from, unsigned j, unsigned count) {{
#pragma unroll
  for (unsigned k = 0; k < {0}; ++k) {{
    if (j + k < count) to[k] = unpack(from, k);
  }}
}}
)",
                     g.vector);
}

std::string add_text(const Arithmetic& a) {
  return fmt::format("\n__device__ __forceinline__ {0} add({0} a, {0} b) {{ return {1}; }}\n", a.type(),
                     a.add("a", "b"));
}

constexpr std::string_view kAddFloats = R"(
/// Partials of an f32 sum.
__device__ __forceinline__ double add_floats(double a, double b) {
  return __fadd_rn(static_cast<float>(a), static_cast<float>(b));
}
)";

constexpr std::string_view kEitherUnsigned = R"(
__device__ __forceinline__ unsigned either(unsigned a, unsigned b) { return a | b; }
)";

constexpr std::string_view kEitherDouble = R"(
__device__ __forceinline__ double either(double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }
)";

std::string fold_lanes_text(const CudaGeometry& g) {
  if (g.vector == 1) {
    return R"(
/// The 64 lanes of a chunk added by halves: lane l takes lane l + 32, then l + 16, ... Each thread of a warp holds
/// lanes t and t + 32.
template <class T, T (*combine)(T, T)>
__device__ __forceinline__ T fold_lanes(T (&lanes)[2]) {
  T sum = combine(lanes[0], lanes[1]);
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum = combine(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
  return sum;
}
)";
  }
  return fmt::format(R"(
/// The 64 lanes of a chunk added by halves: lane l takes lane l + 32, then l + 16, ... Each of {1} threads holds {0}
/// neighbours.
template <class T, T (*combine)(T, T)>
__device__ __forceinline__ T fold_lanes(T (&lanes)[{0}]) {{
#pragma unroll
  for (int apart = {2}; apart > 0; apart /= 2) {{
#pragma unroll
    for (int k = 0; k < {0}; ++k) lanes[k] = combine(lanes[k], __shfl_xor_sync(0xffffffffu, lanes[k], apart));
  }}
#pragma unroll
  for (int half = {3}; half > 0; half /= 2) {{
#pragma unroll
    for (int k = 0; k < half; ++k) lanes[k] = combine(lanes[k], lanes[k + half]);
  }}
  return lanes[0];
}}
)",
                     g.vector, g.group, g.group / 2, g.vector / 2);
}

constexpr std::string_view kFoldColumns = R"(
/// The 64 lanes of each of 32 columns added by halves: lane l takes lane l + 32, then l + 16, ... Thread (x, y) holds
/// lanes y, y + 8, ... of column x. Called by the whole block, which gets column x's sum everywhere.
template <class T, T (*combine)(T, T)>
__device__ __forceinline__ T fold_columns(T (&lanes)[8]) {
  __shared__ T shared[8][32];
  const unsigned x = threadIdx.x % 32, y = threadIdx.x / 32;
#pragma unroll
  for (int half = 4; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) lanes[k] = combine(lanes[k], lanes[k + half]);
  }
  shared[y][x] = lanes[0];
  for (unsigned half = 4; half > 0; half /= 2) {
    __syncthreads();
    if (y < half) shared[y][x] = combine(shared[y][x], shared[y + half][x]);
  }
  __syncthreads();
  const T sum = shared[0][x];
  __syncthreads();
  return sum;
}
)";

constexpr std::string_view kFoldPartials = R"(
/// Partials of many blocks added pairwise by index (0 + 1, 2 + 3, ...; an odd last one moves up), 8 per thread and 2048
/// at a time, whose sums replace them. Called by the whole block; thread 0 gets the sum.
template <double (*combine)(double, double)>
__device__ __forceinline__ double fold_partials(volatile double* partials, unsigned count) {
  __shared__ double shared[8];
  double sum = 0;
  for (; count > 1; count = (count + 2047) / 2048) {
    for (unsigned s = 0; 2048 * s < count; ++s) {
      const unsigned first = 8 * threadIdx.x, here = min(count - 2048 * s, 2048u);
      double leaf[8];
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) leaf[k] = first + k < here ? partials[2048 * s + first + k] : 0;
#pragma unroll
      for (unsigned half = 1; half < 8; half *= 2) {
#pragma unroll
        for (unsigned k = 0; k < 8; k += 2 * half) {
          if (first + k + half < here) leaf[k] = combine(leaf[k], leaf[k + half]);
        }
      }
      sum = leaf[0];
#pragma unroll
      for (unsigned apart = 1; apart < 32; apart *= 2) {
        const double other = __shfl_down_sync(0xffffffffu, sum, apart);
        if (threadIdx.x % (2 * apart) == 0 && first + 8 * apart < here) sum = combine(sum, other);
      }
      if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (unsigned half = 1; half < 8; half *= 2) {
          for (unsigned w = 0; w < 8; w += 2 * half) {
            if (256 * (w + half) < here) shared[w] = combine(shared[w], shared[w + half]);
          }
        }
        sum = shared[0];
        partials[s] = sum;
      }
      __syncthreads();
    }
  }
  return sum;
}
)";

constexpr std::string_view kFoldColumn = R"(
/// Partials of many blocks added pairwise by index (0 + 1, 2 + 3, ...; an odd last one moves up) by one thread.
template <double (*combine)(double, double)>
__device__ __forceinline__ double fold_column(volatile double* partials, unsigned count) {
  for (; count > 1; count = (count + 1) / 2) {
    for (unsigned i = 0; i < count / 2; ++i) partials[i] = combine(partials[2 * i], partials[2 * i + 1]);
    if (count % 2 != 0) partials[count / 2] = partials[count - 1];
  }
  return partials[0];
}
)";

std::string helper_text(Helper helper, ir::Mode mode, const CudaGeometry& g) {
  const Arithmetic f32(ir::DType::F32, mode), f64(ir::DType::F64, mode);
  switch (helper) {
    case Helper::F16:
      return std::string(kF16);
    case Helper::BF16:
      return std::string(kBF16);
    case Helper::Vec:
      return vec_text(g);
    case Helper::Packed:
      return packed_text(g);
    case Helper::Global:
      return std::string(kGlobal);
    case Helper::Reload:
      return std::string(kReload);
    case Helper::WidenF16:
      return std::string(kWidenF16);
    case Helper::WidenBF16:
      return std::string(kWidenBF16);
    case Helper::RoundToOdd:
      return std::string(kRoundToOdd);
    case Helper::F16FromFloat:
      return std::string(kF16FromFloat);
    case Helper::BF16FromFloat:
      return std::string(kBF16FromFloat);
    case Helper::F16FromDouble:
      return std::string(kF16FromDouble);
    case Helper::BF16FromDouble:
      return std::string(kBF16FromDouble);
    case Helper::LerpFloat:
      return lerp_text(f32);
    case Helper::LerpDouble:
      return lerp_text(f64);
    case Helper::SignFloat:
      return sign_text(f32);
    case Helper::SignDouble:
      return sign_text(f64);
    case Helper::MinimumFloat:
      return extreme_text(f32, false);
    case Helper::MinimumDouble:
      return extreme_text(f64, false);
    case Helper::MaximumFloat:
      return extreme_text(f32, true);
    case Helper::MaximumDouble:
      return extreme_text(f64, true);
    case Helper::LoadPart:
      return load_part_text(g);
    case Helper::StorePart:
      return store_part_text(g);
    case Helper::LoadPackedPart:
      return load_packed_part_text(g);
    case Helper::StorePackedPart:
      return store_packed_part_text(g);
    case Helper::AddFloat:
      return add_text(f32);
    case Helper::AddDouble:
      return add_text(f64);
    case Helper::AddFloats:
      return std::string(kAddFloats);
    case Helper::EitherUnsigned:
      return std::string(kEitherUnsigned);
    case Helper::EitherDouble:
      return std::string(kEitherDouble);
    case Helper::FoldLanes:
      return fold_lanes_text(g);
    case Helper::FoldColumns:
      return std::string(kFoldColumns);
    case Helper::FoldPartials:
      return std::string(kFoldPartials);
    case Helper::FoldColumn:
      return std::string(kFoldColumn);
  }
  throw_internal(__FILE__, __LINE__, "unknown helper");
}

}  // namespace

void CudaHelpers::use(CudaHelper helper) {
  if (!used_.insert(helper).second) return;
  for (const Need& need : kNeeds)
    if (need.helper == helper) use(need.needed);
}

std::string CudaHelpers::text(ir::Mode mode, const CudaGeometry& geometry) const {
  std::string out;
  for (const CudaHelper helper : used_) out += helper_text(helper, mode, geometry);
  return out;
}

}  // namespace stepfuse::codegen
