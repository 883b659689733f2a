// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/algorithms.h"

#include "tests/vgpu/lt/version.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

namespace stepfuse::vgpu::lt {
namespace {

constexpr uint32_t kHostOrDevice = CUBLASLT_POINTER_MODE_MASK_HOST | CUBLASLT_POINTER_MODE_MASK_DEVICE;

/// The ids are arbitrary, as the library's are, and none follows another.
constexpr Algorithm kAlgorithms[] = {
    // id, name, alignment, segment, reduction, split, workspace, pointer modes, arrays, tensor, speed
    {66, "tiled", 16, 32, CUBLASLT_REDUCTION_SCHEME_NONE, 1, 0, kHostOrDevice, true, true, 1.0},
    {21, "split K", 16, 0, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 4, 0, kHostOrDevice, false, true, 0.9},
    {34, "split K in place", 16, 0, CUBLASLT_REDUCTION_SCHEME_INPLACE, 8, 0, kHostOrDevice, false, true, 0.95},
    {52, "buffered", 16, 128, CUBLASLT_REDUCTION_SCHEME_NONE, 1, uint64_t{48} << 10, CUBLASLT_POINTER_MODE_MASK_HOST,
     true, true, 0.7},
    {7, "plain", 0, 0, CUBLASLT_REDUCTION_SCHEME_NONE, 1, 0, kHostOrDevice, true, false, 0.2},
};

constexpr int64_t kTile = 128;             // rows and columns of D that one block of threads would make
constexpr int64_t kMultiprocessors = 148;  // of the device that is made believe
constexpr int64_t kLeastSplit = 64;        // fewer terms are not worth a part of their own

/// "SFVGPULT" and the version: what begins a blob of ours.
constexpr uint64_t kMagic = 0x53465647'50554c54 ^ (uint64_t{kVersion} << 8);
constexpr uint64_t kDefaultDevice = 0x129;  // capability 12.9

std::atomic<uint64_t> current_device{kDefaultDevice};

/// FNV-1a over the first seven words: finds a blob that was damaged on its way.
uint64_t checksum(const cublasLtMatmulAlgo_t& algo) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t word = 0; word < 7; ++word) hash = (hash ^ algo.data[word]) * 0x100000001b3;
  return hash ^ (hash >> 29);
}

uint32_t needed_alignment(const Algorithm& algorithm, const Matrix& matrix) {
  return std::max(algorithm.min_alignment, static_cast<uint32_t>(matrix.element));
}

int64_t blocks(const Problem& problem, int split) {
  const auto tiles = [](int64_t extent) { return (extent + kTile - 1) / kTile; };
  return tiles(problem.m) * tiles(problem.n) * problem.batch * split;
}

int best_split(const Problem& problem, const Algorithm& algorithm) {
  const int64_t parts = std::min<int64_t>(algorithm.max_split, problem.k / kLeastSplit);
  return static_cast<int>(std::max<int64_t>(parts, 1));
}

/// Relative time: work over speed, but no less than one round of blocks on all multiprocessors.
double cost(const Problem& problem, const Choice& choice) {
  const double rounds = std::max(1.0, static_cast<double>(waves(problem, choice)));
  return rounds * static_cast<double>(problem.k) / choice.split / find_algorithm(choice.id)->speed;
}

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(int id) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.id == id) return &algorithm;
  }
  return nullptr;
}

uint64_t device_stamp() { return current_device; }
void set_device_stamp(uint64_t stamp) { current_device = stamp == 0 ? kDefaultDevice : stamp; }

cublasLtMatmulAlgo_t encode(const Choice& choice) {
  cublasLtMatmulAlgo_t algo{};
  algo.data[0] = kMagic;
  algo.data[1] = device_stamp();
  algo.data[2] = static_cast<uint64_t>(choice.id) | static_cast<uint64_t>(choice.split) << 32 |
                 static_cast<uint64_t>(choice.reduction_scheme) << 48;
  for (size_t i = 0; i < 4; ++i) algo.data[3] |= static_cast<uint64_t>(choice.alignment[i]) << (16 * i);
  const Types& types = choice.types;
  const int numbers[] = {types.compute, types.scale, types.a, types.b, types.c, types.d};
  for (size_t i = 0; i < std::size(numbers); ++i) algo.data[4] |= static_cast<uint64_t>(numbers[i]) << (8 * i);
  algo.data[7] = checksum(algo);
  return algo;
}

cublasStatus_t decode(const char* where, const cublasLtMatmulAlgo_t* algo, Choice& choice) {
  if (algo == nullptr) return unknown(where, "no algorithm was given, and choosing one in each call is not for us");
  if (algo->data[0] != kMagic) return invalid(where, "the algorithm was not made by this version of the library");
  if (algo->data[1] != device_stamp()) {
    return complain(CUBLAS_STATUS_ARCH_MISMATCH, where,
                    fmt::format("the algorithm is for device {:#x}, this one is {:#x}", algo->data[1], device_stamp()));
  }
  if (algo->data[7] != checksum(*algo)) return invalid(where, "the algorithm's bytes are damaged");
  choice.id = static_cast<int>(algo->data[2] & 0xffffffff);
  choice.split = static_cast<int>((algo->data[2] >> 32) & 0xffff);
  choice.reduction_scheme = static_cast<uint32_t>(algo->data[2] >> 48);
  for (size_t i = 0; i < 4; ++i) choice.alignment[i] = static_cast<uint32_t>((algo->data[3] >> (16 * i)) & 0xffff);
  const auto number = [&](size_t i) { return static_cast<int>((algo->data[4] >> (8 * i)) & 0xff); };
  choice.types = {static_cast<cublasComputeType_t>(number(0)), static_cast<cudaDataType>(number(1)),
                  static_cast<cudaDataType>(number(2)),        static_cast<cudaDataType>(number(3)),
                  static_cast<cudaDataType>(number(4)),        static_cast<cudaDataType>(number(5))};
  if (find_algorithm(choice.id) == nullptr) return invalid(where, "there is no algorithm {}", choice.id);
  return CUBLAS_STATUS_SUCCESS;
}

std::string misfit(const Problem& problem, const Choice& choice) {
  const Algorithm& algorithm = *find_algorithm(choice.id);
  if (!(choice.types == problem.types)) return "it was made for other types";
  const uint32_t mode = problem.device_scalars ? CUBLASLT_POINTER_MODE_MASK_DEVICE : CUBLASLT_POINTER_MODE_MASK_HOST;
  if ((algorithm.pointer_modes & mode) == 0) return "it cannot read alpha and beta from device memory";
  if (problem.pointer_array && !algorithm.pointer_arrays) return "it takes no arrays of pointers";
  if (choice.split > 1 && choice.split > problem.k) {
    return fmt::format("K = {} cannot be split in {}", problem.k, choice.split);
  }
  if ((choice.split > 1) != (choice.reduction_scheme != CUBLASLT_REDUCTION_SCHEME_NONE)) {
    return fmt::format("a split of {} does not go with reduction scheme {}", choice.split, choice.reduction_scheme);
  }
  const Matrix* matrices[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  for (size_t i = 0; i < 4; ++i) {
    const uint32_t needed = needed_alignment(algorithm, *matrices[i]);
    if (choice.alignment[i] < needed) {
      return fmt::format("it needs {} aligned to {} bytes, promised are {}", "ABCD"[i], needed, choice.alignment[i]);
    }
    if (stride_alignment(problem, *matrices[i]) < needed) {
      return fmt::format("the strides of {} are no multiples of {} bytes (leading dimension {}, batch stride {})",
                         "ABCD"[i], needed, matrices[i] -> ld, matrices[i] -> batch_stride);
    }
  }
  return {};
}

uint64_t workspace_bytes(const Problem& problem, const Choice& choice) {
  const uint64_t sum_bytes = problem.is_f64() ? 8 : 4;
  const auto outputs = static_cast<uint64_t>(problem.m * problem.n * problem.batch);
  uint64_t bytes = find_algorithm(choice.id)->fixed_workspace;
  if (choice.reduction_scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    bytes += outputs * sum_bytes * static_cast<uint64_t>(choice.split);
  }
  if (choice.reduction_scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE) {
    bytes += outputs * sum_bytes + 4 * static_cast<uint64_t>(blocks(problem, 1));  // the sums, and a counter per tile
  }
  return (bytes + 255) / 256 * 256;
}

float waves(const Problem& problem, const Choice& choice) {
  return static_cast<float>(blocks(problem, choice.split)) / static_cast<float>(kMultiprocessors);
}

uint64_t implementation_flags(const Algorithm& algorithm, const Types& types) {
  if (types.a == CUDA_R_64F) {
    return kNumericalImplAccumulator64F | kNumericalImplInput64F |
           (algorithm.tensor_cores ? kNumericalImplDmma : kNumericalImplFma);
  }
  if (types.a == CUDA_R_32F) return kNumericalImplFma | kNumericalImplAccumulator32F | kNumericalImplInput32F;
  const uint64_t input = types.a == CUDA_R_16F ? kNumericalImplInput16F : kNumericalImplInput16BF;
  return input | kNumericalImplAccumulator32F | (algorithm.tensor_cores ? kNumericalImplHmma : kNumericalImplFma);
}

SumOrder sum_order(const Problem& problem, const Choice& choice, uint64_t chance) {
  const Algorithm& algorithm = *find_algorithm(choice.id);
  int64_t length = algorithm.segment == 0 ? problem.k : algorithm.segment;
  if (choice.split > 1) length = (problem.k + choice.split - 1) / choice.split;
  SumOrder order;
  for (int64_t begin = 0; begin < problem.k; begin += length) {
    order.push_back({begin, std::min(begin + length, problem.k)});
  }
  if (choice.reduction_scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE) {
    const auto shift = static_cast<std::ptrdiff_t>(chance % order.size());
    std::rotate(order.begin(), order.begin() + shift, order.end());
  }
  return order;
}

std::vector<Choice> candidates(const Problem& problem, const Preference& preference) {
  std::vector<Choice> result;
  for (const Algorithm& algorithm : kAlgorithms) {
    Choice choice{problem.types, algorithm.id, best_split(problem, algorithm), algorithm.reduction_scheme, {}};
    for (size_t i = 0; i < 4; ++i) choice.alignment[i] = preference.alignment(i);
    if (algorithm.max_split > 1 && choice.split == 1) continue;
    const bool deterministic = algorithm.reduction_scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
    if (!deterministic && (preference.reduction_mask() & algorithm.reduction_scheme) == 0) continue;
    if ((implementation_flags(algorithm, problem.types) & ~preference.implementations()) != 0) continue;
    if (workspace_bytes(problem, choice) > preference.max_workspace()) continue;
    if (preference.max_waves() > 0 && waves(problem, choice) > preference.max_waves()) continue;
    if (misfit(problem, choice).empty()) result.push_back(choice);
  }
  std::stable_sort(result.begin(), result.end(),
                   [&](const Choice& left, const Choice& right) { return cost(problem, left) < cost(problem, right); });
  return result;
}

}  // namespace stepfuse::vgpu::lt
