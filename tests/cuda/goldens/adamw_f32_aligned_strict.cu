// kernel "stepfuse_adamw_update_f32" linear contiguous strict scalars 7
//   arg a0 "p": f32 [..2] read write
//   arg a1 "m": f32 [..2] read write
//   arg a2 "g": f32 [..2] read
//   arg a3 "v": f32 [..2] read write
//   v0 "p_decayed" = mul a0, s0 : f32 math f32 [..2]
//   v1 "m_new" = lerp a1, a2, s1 : f32 math f32 [..2]
//   v2 "v_scaled" = mul a3, s2 : f32 math f32 [..2]
//   v3 "v_new" = addcmul v2, s3, a2, a2 : f32 math f32 [..2]
//   v4 "root" = sqrt v3 : f32 math f32 [..2]
//   v5 "corrected" = div v4, s4 : f32 math f32 [..2]
//   v6 "denominator" = add s5, v5 : f32 math f32 [..2]
//   v7 "p_new" = addcdiv v0, s6, v1, v6 : f32 math f32 [..2]
//   store v1 -> a1
//   store v3 -> a3
//   store v7 -> a0
// aligned: 4 neighbours at a time, 4 in flight

struct alignas(16) Chunk {
  unsigned row, unit, index, part;
};

/// Neighbours in memory, which move in accesses of up to 16 bytes.
template <class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Vec {
  T at[4];
};

/// A pointer that was loaded from memory, with what the compiler cannot know: it points to global memory.
template <class T>
__device__ __forceinline__ T* global(T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

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

struct Row {
  const double* scalars;
  const unsigned* skip;
  long long d0, d1, d2;
  unsigned* tickets;
  float* p;
  float* m;
  const float* g;
  float* v;
};

extern "C" __global__ void __launch_bounds__(256, 4)
stepfuse_adamw_update_f32(const Chunk* chunks, unsigned chunk_count, const Row* rows) {
  const unsigned lane = threadIdx.x * 4;
  for (unsigned c = blockIdx.x; c < chunk_count; c += gridDim.x) {
    const Chunk chunk = chunks[c];
    const Row& row = rows[chunk.row];
    if (row.skip != nullptr && *row.skip != 0) continue;
    const long long extent = row.d1 * row.d2;
    const long long begin = chunk.index * 4096ll;
    const unsigned count = static_cast<unsigned>(min(extent - begin, 4096ll));
    const long long origin = chunk.unit * extent + begin;
    const double* const scalars = global(row.scalars);
    const float s0 = static_cast<float>(scalars[0]);
    const float s1 = static_cast<float>(scalars[1]);
    const float s2 = static_cast<float>(scalars[2]);
    const float s3 = static_cast<float>(scalars[3]);
    const float s4 = static_cast<float>(scalars[4]);
    const float s5 = static_cast<float>(scalars[5]);
    const float s6 = static_cast<float>(scalars[6]);
    float* p_at = global(row.p) + origin + lane;
    float* m_at = global(row.m) + origin + lane;
    const float* g_at = global(row.g) + origin + lane;
    float* v_at = global(row.v) + origin + lane;
    for (unsigned i = lane; i < count; i += 1024) {
      const unsigned j = i;
      Vec<float> p_vec, m_vec, g_vec, v_vec;
      if (j + 4 <= count) {
        p_vec = *reinterpret_cast<const Vec<float>*>(p_at);
        m_vec = *reinterpret_cast<const Vec<float>*>(m_at);
        g_vec = *reinterpret_cast<const Vec<float>*>(g_at);
        v_vec = *reinterpret_cast<const Vec<float>*>(v_at);
      } else {
        load_part(p_vec, p_at, j, count);
        load_part(m_vec, m_at, j, count);
        load_part(g_vec, g_at, j, count);
        load_part(v_vec, v_at, j, count);
      }
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const float p = p_vec.at[k];
        const float m = m_vec.at[k];
        const float g = g_vec.at[k];
        const float v = v_vec.at[k];
        const float p_decayed = __fmul_rn(p, s0);
        const float m_new = lerp(m, g, s1);
        const float v_scaled = __fmul_rn(v, s2);
        const float v_new = __fmaf_rn(__fmul_rn(s3, g), g, v_scaled);
        const float root = __fsqrt_rn(v_new);
        const float corrected = __fdiv_rn(root, s4);
        const float denominator = __fadd_rn(s5, corrected);
        const float p_new = __fadd_rn(p_decayed, __fdiv_rn(__fmul_rn(s6, m_new), denominator));
        m_vec.at[k] = m_new;
        v_vec.at[k] = v_new;
        p_vec.at[k] = p_new;
      }
      if (j + 4 <= count) {
        *reinterpret_cast<Vec<float>*>(p_at) = p_vec;
        *reinterpret_cast<Vec<float>*>(m_at) = m_vec;
        *reinterpret_cast<Vec<float>*>(v_at) = v_vec;
      } else {
        store_part(p_at, p_vec, j, count);
        store_part(m_at, m_vec, j, count);
        store_part(v_at, v_vec, j, count);
      }
      p_at += 1024;
      m_at += 1024;
      g_at += 1024;
      v_at += 1024;
    }
  }
}
