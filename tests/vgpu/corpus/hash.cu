// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Checksums, digests and ciphers.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

extern "C" __global__ void crc32(const u8* data, const int* starts, u32* out, int n) {
  INDEX;
  if (i >= n) return;
  u32 crc = 0xFFFFFFFFu;
  for (int k = starts[i]; k < starts[i + 1]; k++) {
    crc ^= data[k];
#pragma unroll
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1u));
  }
  out[i] = ~crc;
}

__device__ u32 crc_table[256];

extern "C" __global__ void crc32_table(const u8* data, const int* starts, u32* out, int n) {
  u32 entry = threadIdx.x;
  for (int bit = 0; bit < 8; bit++) entry = entry & 1 ? entry >> 1 ^ 0xEDB88320u : entry >> 1;
  crc_table[threadIdx.x] = entry;
  __syncthreads();
  int i = threadIdx.x;
  if (i >= n) return;
  u32 crc = 0xFFFFFFFFu;
  for (int k = starts[i]; k < starts[i + 1]; k++) crc = crc_table[(crc ^ data[k]) & 255] ^ crc >> 8;
  out[i] = ~crc;
}

extern "C" __global__ void adler32(const u8* data, const int* starts, u32* out, int n) {
  INDEX;
  if (i >= n) return;
  u32 a = 1, b = 0;
  for (int k = starts[i]; k < starts[i + 1]; k++) {
    a = (a + data[k]) % 65521;
    b = (b + a) % 65521;
  }
  out[i] = b << 16 | a;
}

extern "C" __global__ void fnv1a(const u8* data, const int* starts, u64* out, int n) {
  INDEX;
  if (i >= n) return;
  u64 hash = 0xCBF29CE484222325ull;
  for (int k = starts[i]; k < starts[i + 1]; k++) hash = (hash ^ data[k]) * 0x100000001B3ull;
  out[i] = hash;
}

extern "C" __global__ void murmur3_32(const u8* data, const int* starts, u32 seed, u32* out, int n) {
  INDEX;
  if (i >= n) return;
  const u8* bytes = data + starts[i];
  int size = starts[i + 1] - starts[i];
  u32 hash = seed;
  for (int k = 0; k < size; k += 4) {
    u32 word = 0;
    for (int b = 0; b < 4 && k + b < size; b++) word |= u32(bytes[k + b]) << (8 * b);
    word *= 0xCC9E2D51u;
    word = word << 15 | word >> 17;
    hash ^= word * 0x1B873593u;
    if (k + 4 <= size) hash = (hash << 13 | hash >> 19) * 5 + 0xE6546B64u;
  }
  hash ^= size;
  hash = (hash ^ hash >> 16) * 0x85EBCA6Bu;
  hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
  out[i] = hash ^ hash >> 16;
}

// FIPS 180-4: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
__constant__ u32 sha256_constants[64];

__device__ u32 rotated(u32 x, int by) { return __funnelshift_r(x, x, by); }

extern "C" __global__ void sha256(const u8* data, const int* starts, u32* out, int n) {
  INDEX;
  if (i >= n) return;
  const u8* bytes = data + starts[i];
  int size = starts[i + 1] - starts[i], blocks = (size + 8) / 64 + 1;
  u32 state[8] = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au,
                  0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u};
  for (int block = 0; block < blocks; block++) {
    u32 w[64];
    for (int k = 0; k < 16; k++) {
      u32 word = 0;
      for (int b = 0; b < 4; b++) {
        int at = 64 * block + 4 * k + b;
        word = word << 8 | (at < size ? bytes[at] : at == size ? 0x80 : 0);
      }
      w[k] = word;
    }
    if (block == blocks - 1) w[14] = 0, w[15] = u32(size) * 8;
    for (int k = 16; k < 64; k++) {
      u32 s0 = rotated(w[k - 15], 7) ^ rotated(w[k - 15], 18) ^ w[k - 15] >> 3;
      u32 s1 = rotated(w[k - 2], 17) ^ rotated(w[k - 2], 19) ^ w[k - 2] >> 10;
      w[k] = w[k - 16] + s0 + w[k - 7] + s1;
    }
    u32 v[8];
    for (int k = 0; k < 8; k++) v[k] = state[k];
    for (int k = 0; k < 64; k++) {
      u32 s1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25), choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      u32 t1 = v[7] + s1 + choice + sha256_constants[k] + w[k];
      u32 s0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
      u32 t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
#pragma unroll
      for (int j = 7; j > 0; j--) v[j] = v[j - 1];
      v[4] += t1;
      v[0] = t1 + t2;
    }
    for (int k = 0; k < 8; k++) state[k] += v[k];
  }
  for (int k = 0; k < 8; k++) out[8 * i + k] = state[k];
}

// RFC 8439.
extern "C" __global__ void chacha20(const u32* key, u32 counter, const u32* nonce, u32* out) {
  INDEX;
  u32 state[16] = {0x61707865u, 0x3320646Eu, 0x79622D32u, 0x6B206574u}, x[16];
  for (int k = 0; k < 8; k++) state[4 + k] = key[k];
  state[12] = counter + i;
  for (int k = 0; k < 3; k++) state[13 + k] = nonce[k];
  for (int k = 0; k < 16; k++) x[k] = state[k];
  for (int round = 0; round < 20; round++) {
    for (int q = 0; q < 4; q++) {
      int shift = round & 1;
      u32 &a = x[q], &b = x[4 + (q + shift) % 4], &c = x[8 + (q + 2 * shift) % 4], &d = x[12 + (q + 3 * shift) % 4];
      a += b, d ^= a, d = d << 16 | d >> 16;
      c += d, b ^= c, b = b << 12 | b >> 20;
      a += b, d ^= a, d = d << 8 | d >> 24;
      c += d, b ^= c, b = b << 7 | b >> 25;
    }
  }
  for (int k = 0; k < 16; k++) out[16 * i + k] = x[k] + state[k];
}

// XTEA with 32 cycles, there and back.
extern "C" __global__ void xtea(uint2* blocks, const u32* key, int n, int decrypt) {
  INDEX;
  if (i >= n) return;
  u32 a = blocks[i].x, b = blocks[i].y, delta = 0x9E3779B9u, sum = decrypt ? delta * 32 : 0;
  for (int k = 0; k < 32; k++) {
    if (decrypt) {
      b -= ((a << 4 ^ a >> 5) + a) ^ (sum + key[sum >> 11 & 3]);
      sum -= delta;
      a -= ((b << 4 ^ b >> 5) + b) ^ (sum + key[sum & 3]);
    } else {
      a += ((b << 4 ^ b >> 5) + b) ^ (sum + key[sum & 3]);
      sum += delta;
      b += ((a << 4 ^ a >> 5) + a) ^ (sum + key[sum >> 11 & 3]);
    }
  }
  blocks[i] = make_uint2(a, b);
}

// Open addressing: keys claim slots by compare-and-swap.
extern "C" __global__ void hash_table_insert(const u32* keys, u64* slots, int size, int n) {
  INDEX;
  if (i >= n) return;
  u64 entry = u64(keys[i]) << 32 | u32(i);
  for (u32 at = keys[i] * 2654435761u % size;; at = (at + 1) % size) {
    if (atomicCAS(&slots[at], ~0ull, entry) == ~0ull) return;
  }
}

extern "C" __global__ void hash_table_find(const u32* keys, const u64* slots, int size, int* out, int n) {
  INDEX;
  if (i >= n) return;
  out[i] = -1;
  for (u32 at = keys[i] * 2654435761u % size; slots[at] != ~0ull; at = (at + 1) % size) {
    if (u32(slots[at] >> 32) == keys[i]) {
      out[i] = int(u32(slots[at]));
      return;
    }
  }
}
