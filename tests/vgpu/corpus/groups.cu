// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void tile_reduce(const int* in, int* out) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = cg::reduce(tile, in[i], cg::plus<int>());
  int smallest = cg::reduce(tile, in[i], cg::less<int>());
  if (tile.thread_rank() == 0) {
    out[2 * (i / 16)] = sum;
    out[2 * (i / 16) + 1] = smallest;
  }
}

extern "C" __global__ void tile_scan(const int* in, int* out) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = cg::exclusive_scan(tile, in[i], cg::plus<int>());
}

extern "C" __global__ void tile_shuffles(const double* in, double* out) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  double value = in[i];
  for (int distance = tile.size() / 2; distance > 0; distance /= 2) value += tile.shfl_xor(value, distance);
  out[i] = tile.shfl(value, 0) + tile.meta_group_rank();
}

extern "C" __global__ void coalesced_count(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] % 3 == 0) {
    cg::coalesced_group active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(out, int(active.size()));
  }
}

extern "C" __global__ void block_group(const int* in, int* out) {
  __shared__ int values[128];
  cg::thread_block block = cg::this_thread_block();
  values[block.thread_rank()] = in[block.group_index().x * block.size() + block.thread_rank()];
  block.sync();
  out[block.group_index().x * block.size() + block.thread_rank()] = values[block.size() - 1 - block.thread_rank()];
}

extern "C" __global__ void tile_votes(const int* in, unsigned* out) {
  auto tile = cg::tiled_partition<4>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = tile.ballot(in[i] > 0) | tile.any(in[i] > 50) << 8 | tile.all(in[i] > -50) << 9;
}
