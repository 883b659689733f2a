// kernel "stepfuse_muon_pre_p0_bf16_f32" linear contiguous strict scalars 2
//   arg a0 "buf": f32 [.12] read write
//   arg a1 "g": f32 [.12] read
//   arg a2 "u": bf16 [.12] write
//   v0 "buf_new" = lerp a0, a1, s0 : f32 math f32 [.12]
//   v1 "u" = lerp a1, v0, s1 : bf16 math f32 [.12]
//   partial 0 "norm" = norm v1 : math f64 result bf16
//   store v0 -> a0
//   store v1 -> a2
// aligned: 4 neighbours at a time, 4 in flight

struct alignas(16) Chunk {
  unsigned row, unit, index, part;
};

struct bf16 {
  unsigned short bits;
};

/// Neighbours in memory, which move in accesses of up to 16 bytes.
template <class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Vec {
  T at[4];
};

/// Neighbours of 16 bits, two to a register.
template <class T>
struct alignas(8 < 16 ? 8 : 16) Packed {
  unsigned words[2];
};

template <class T>
__device__ __forceinline__ T unpack(const Packed<T>& from, unsigned k) {
  return T{static_cast<unsigned short>(from.words[k / 2] >> 16 * (k % 2))};
}

template <class T>
__device__ __forceinline__ void pack(Packed<T>& to, unsigned k, T x) {
  const unsigned word = to.words[k / 2];
  to.words[k / 2] = k % 2 == 0 ? (word & 0xffff0000u) | x.bits : (word & 0xffffu) | static_cast<unsigned>(x.bits) << 16;
}

/// A pointer that was loaded from memory, with what the compiler cannot know: it points to global memory.
template <class T>
__device__ __forceinline__ T* global(T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

/// The same pointer, which the compiler does not recognise: what it points to is read again, and no register holds it
/// until then.
template <class T>
__device__ __forceinline__ const T* reload(const T* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

/// Towards zero, with the last bit set when anything was lost: rounding the float to 16 bits then gives what one
/// rounding of the double would.
__device__ __forceinline__ float round_to_odd(double x) {
  const float toward_zero = __double2float_rz(x);
  const bool lost = static_cast<double>(toward_zero) != x;
  return __uint_as_float(__float_as_uint(toward_zero) | (lost ? 1u : 0u));
}

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

__device__ __forceinline__ bf16 to_bf16(double x) { return to_bf16(round_to_odd(x)); }

/// Chooses the operands instead of the results, so that the choice of the weight leaves the loop.
__device__ __forceinline__ float lerp(float from, float to, float weight) {
  const bool near = fabsf(weight) < 0.5f;
  return __fmaf_rn(near ? weight : __fsub_rn(weight, 1.0f), __fsub_rn(to, from), near ? from : to);
}

/// The neighbours that are below `count`, and zeros.
template <class T>
__device__ __forceinline__ void load_part(Vec<T>& to, const T* from, unsigned j, unsigned count) {
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) to.at[k] = j + k < count ? from[k] : T();
}

template <class T>
__device__ __forceinline__ void store_part(T* to, const Vec<T>& from, unsigned j, unsigned count) {
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    if (j + k < count) to[k] = from.at[k];
  }
}

template <class T>
__device__ __forceinline__ void store_part(T* to, const Packed<T>& from, unsigned j, unsigned count) {
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    if (j + k < count) to[k] = unpack(from, k);
  }
}

__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }

/// The 64 lanes of a chunk added by halves: lane l takes lane l + 32, then l + 16, ... Each of 16 threads holds 4
/// neighbours.
template <class T, T (*combine)(T, T)>
__device__ __forceinline__ T fold_lanes(T (&lanes)[4]) {
#pragma unroll
  for (int apart = 8; apart > 0; apart /= 2) {
#pragma unroll
    for (int k = 0; k < 4; ++k) lanes[k] = combine(lanes[k], __shfl_xor_sync(0xffffffffu, lanes[k], apart));
  }
#pragma unroll
  for (int half = 2; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) lanes[k] = combine(lanes[k], lanes[k + half]);
  }
  return lanes[0];
}

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

struct Row {
  const double* scalars;
  const unsigned* skip;
  long long d0, d1, d2;
  unsigned* tickets;
  float* buf;
  const float* g;
  bf16* u;
  double* norm_partials;
  bf16* norm;
};

/// Finishes sums (square root, the one rounding) and stores the results.
__device__ __forceinline__ void store_results(const Row& row, long long result, double norm) {
  row.norm[result] = to_bf16(__dsqrt_rn(norm));
}

extern "C" __global__ void __launch_bounds__(256, 4)
stepfuse_muon_pre_p0_bf16_f32(const Chunk* chunks, unsigned chunk_count, const Row* rows) {
  const unsigned group = threadIdx.x / 16, lane = threadIdx.x % 16 * 4;
  __shared__ bool finished[16];
  for (unsigned first = blockIdx.x * 16; first < chunk_count; first += gridDim.x * 16) {
    double norm_lanes[4] = {};
    // Every thread stays to the end, with nothing to add if its chunk is not there or must be skipped.
    {
      const Chunk chunk = chunks[min(first + group, chunk_count - 1)];
      const Row& row = rows[chunk.row];
      const bool live = first + group < chunk_count && (row.skip == nullptr || *row.skip == 0);
      const long long extent = row.d1 * row.d2;
      const long long begin = chunk.index * 4096ll;
      const unsigned count = live ? static_cast<unsigned>(min(extent - begin, 4096ll)) : 0;
      const long long origin = chunk.unit * extent + begin;
      const double* const scalars = global(row.scalars);
      float* buf_at = global(row.buf) + origin + lane;
      const float* g_at = global(row.g) + origin + lane;
      bf16* u_at = global(row.u) + origin + lane;
      for (unsigned i = lane; i < count; i += 64) {
        const unsigned j = i;
        Vec<float> buf_vec, g_vec;
        Packed<bf16> u_vec = {};
        if (j + 4 <= count) {
          buf_vec = *reinterpret_cast<const Vec<float>*>(buf_at);
          g_vec = *reinterpret_cast<const Vec<float>*>(g_at);
        } else {
          load_part(buf_vec, buf_at, j, count);
          load_part(g_vec, g_at, j, count);
        }
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          const float s0 = static_cast<float>(scalars[0]);
          const float s1 = static_cast<float>(scalars[1]);
          const float buf = buf_vec.at[k];
          const float g = g_vec.at[k];
          const float buf_new = lerp(buf, g, s0);
          const bf16 u_bits = to_bf16(lerp(g, buf_new, s1));
          const float u = widen(u_bits);
          if (j + k < count) {
            norm_lanes[k] = __fma_rn(static_cast<double>(u), static_cast<double>(u), norm_lanes[k]);
          }
          buf_vec.at[k] = buf_new;
          pack(u_vec, k, u_bits);
        }
        if (j + 4 <= count) {
          *reinterpret_cast<Vec<float>*>(buf_at) = buf_vec;
          *reinterpret_cast<Packed<bf16>*>(u_at) = u_vec;
        } else {
          store_part(buf_at, buf_vec, j, count);
          store_part(u_at, u_vec, j, count);
        }
        buf_at += 64;
        g_at += 64;
        u_at += 64;
      }
    }
    const Chunk chunk = reload(chunks)[min(first + group, chunk_count - 1)];
    const Row& row = reload(rows)[chunk.row];
    const bool live = first + group < chunk_count && (row.skip == nullptr || *row.skip == 0);
    const long long extent = row.d1 * row.d2;
    const double norm = fold_lanes<double, add>(norm_lanes);
    const unsigned parts = static_cast<unsigned>(max((extent + 4095) / 4096, 1ll));
    if (lane == 0) {
      finished[group] = false;
      if (live && parts == 1) {
        store_results(row, chunk.unit, norm);
      } else if (live) {
        const long long at = static_cast<long long>(chunk.unit) * parts + chunk.index;
        row.norm_partials[at] = norm;
        __threadfence();
        finished[group] = atomicAdd(row.tickets + chunk.unit, 1u) == parts - 1;
        __threadfence();
      }
    }
    __syncthreads();
    for (unsigned slot = 0; slot < 16; ++slot) {
      if (!finished[slot]) continue;
      const Chunk chunk = chunks[first + slot];
      const Row& row = rows[chunk.row];
      const long long extent = row.d1 * row.d2;
      const unsigned parts = static_cast<unsigned>((extent + 4095) / 4096);
      const double norm = fold_partials<add>(row.norm_partials + static_cast<long long>(chunk.unit) * parts, parts);
      if (threadIdx.x == 0) {
        store_results(row, chunk.unit, norm);
        row.tickets[chunk.unit] = 0;
      }
    }
    __syncthreads();
  }
}
