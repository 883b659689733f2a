// kernel "stepfuse_adamw_update_bf16" linear contiguous strict scalars 7
//   arg a0 "p": bf16 [..2] read write
//   arg a1 "m": bf16 [..2] read write
//   arg a2 "g": bf16 [..2] read
//   arg a3 "v": bf16 [..2] read write
//   v0 "p_decayed" = mul a0, s0 : bf16 math f32 [..2]
//   v1 "m_new" = lerp a1, a2, s1 : bf16 math f32 [..2]
//   v2 "v_scaled" = mul a3, s2 : bf16 math f32 [..2]
//   v3 "v_new" = addcmul v2, s3, a2, a2 : bf16 math f32 [..2]
//   v4 "root" = sqrt v3 : bf16 math f32 [..2]
//   v5 "corrected" = div v4, s4 : bf16 math f32 [..2]
//   v6 "denominator" = add s5, v5 : bf16 math f32 [..2]
//   v7 "p_new" = addcdiv v0, s6, v1, v6 : bf16 math f32 [..2]
//   store v1 -> a1
//   store v3 -> a3
//   store v7 -> a0
// aligned: 8 neighbours at a time, 8 in flight

struct alignas(16) Chunk {
  unsigned row, unit, index, part;
};

struct bf16 {
  unsigned short bits;
};

/// Neighbours of 16 bits, two to a register.
template <class T>
struct alignas(16 < 16 ? 16 : 16) Packed {
  unsigned words[4];
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

__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

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

/// Chooses the operands instead of the results, so that the choice of the weight leaves the loop.
__device__ __forceinline__ float lerp(float from, float to, float weight) {
  const bool near = fabsf(weight) < 0.5f;
  return __fmaf_rn(near ? weight : __fsub_rn(weight, 1.0f), __fsub_rn(to, from), near ? from : to);
}

template <class T>
__device__ __forceinline__ void load_part(Packed<T>& to, const T* from, unsigned j, unsigned count) {
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) pack(to, k, j + k < count ? from[k] : T());
}

template <class T>
__device__ __forceinline__ void store_part(T* to, const Packed<T>& from, unsigned j, unsigned count) {
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) {
    if (j + k < count) to[k] = unpack(from, k);
  }
}

struct Row {
  const double* scalars;
  const unsigned* skip;
  long long d0, d1, d2;
  unsigned* tickets;
  bf16* p;
  bf16* m;
  const bf16* g;
  bf16* v;
};

extern "C" __global__ void __launch_bounds__(256, 4)
stepfuse_adamw_update_bf16(const Chunk* chunks, unsigned chunk_count, const Row* rows) {
  const unsigned lane = threadIdx.x * 8;
  for (unsigned c = blockIdx.x; c < chunk_count; c += gridDim.x) {
    const Chunk chunk = chunks[c];
    const Row& row = rows[chunk.row];
    if (row.skip != nullptr && *row.skip != 0) continue;
    const long long extent = row.d1 * row.d2;
    const long long begin = chunk.index * 4096ll;
    const unsigned count = static_cast<unsigned>(min(extent - begin, 4096ll));
    const long long origin = chunk.unit * extent + begin;
    const double* const scalars = global(row.scalars);
    bf16* p_at = global(row.p) + origin + lane;
    bf16* m_at = global(row.m) + origin + lane;
    const bf16* g_at = global(row.g) + origin + lane;
    bf16* v_at = global(row.v) + origin + lane;
    for (unsigned i = lane; i < count; i += 2048) {
      const unsigned j = i;
      Packed<bf16> p_vec, m_vec, g_vec, v_vec;
      if (j + 8 <= count) {
        p_vec = *reinterpret_cast<const Packed<bf16>*>(p_at);
        m_vec = *reinterpret_cast<const Packed<bf16>*>(m_at);
        g_vec = *reinterpret_cast<const Packed<bf16>*>(g_at);
        v_vec = *reinterpret_cast<const Packed<bf16>*>(v_at);
      } else {
        load_part(p_vec, p_at, j, count);
        load_part(m_vec, m_at, j, count);
        load_part(g_vec, g_at, j, count);
        load_part(v_vec, v_at, j, count);
      }
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) {
        const float s0 = static_cast<float>(scalars[0]);
        const float s1 = static_cast<float>(scalars[1]);
        const float s2 = static_cast<float>(scalars[2]);
        const float s3 = static_cast<float>(scalars[3]);
        const float s4 = static_cast<float>(scalars[4]);
        const float s5 = static_cast<float>(scalars[5]);
        const float s6 = static_cast<float>(scalars[6]);
        const float p = widen(unpack(p_vec, k));
        const float m = widen(unpack(m_vec, k));
        const float g = widen(unpack(g_vec, k));
        const float v = widen(unpack(v_vec, k));
        const float p_decayed = widen(to_bf16(__fmul_rn(p, s0)));
        const bf16 m_new_bits = to_bf16(lerp(m, g, s1));
        const float m_new = widen(m_new_bits);
        const float v_scaled = widen(to_bf16(__fmul_rn(v, s2)));
        const bf16 v_new_bits = to_bf16(__fmaf_rn(__fmul_rn(s3, g), g, v_scaled));
        const float v_new = widen(v_new_bits);
        const float root = widen(to_bf16(__fsqrt_rn(v_new)));
        const float corrected = widen(to_bf16(__fdiv_rn(root, s4)));
        const float denominator = widen(to_bf16(__fadd_rn(s5, corrected)));
        const bf16 p_new = to_bf16(__fadd_rn(p_decayed, __fdiv_rn(__fmul_rn(s6, m_new), denominator)));
        pack(m_vec, k, m_new_bits);
        pack(v_vec, k, v_new_bits);
        pack(p_vec, k, p_new);
      }
      if (j + 8 <= count) {
        *reinterpret_cast<Packed<bf16>*>(p_at) = p_vec;
        *reinterpret_cast<Packed<bf16>*>(m_at) = m_vec;
        *reinterpret_cast<Packed<bf16>*>(v_at) = v_vec;
      } else {
        store_part(p_at, p_vec, j, count);
        store_part(m_at, m_vec, j, count);
        store_part(v_at, v_vec, j, count);
      }
      p_at += 2048;
      m_at += 2048;
      g_at += 2048;
      v_at += 2048;
    }
  }
}
