// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
/// cublasLtMatmul: what is checked when it is called, and what happens when the device comes to it.
#include "tests/vgpu/lt/algorithms.h"
#include "tests/vgpu/lt/exports.h"
#include "tests/vgpu/lt/regions.h"
#include "tests/vgpu/lt/state.h"

#include <cstring>
#include <memory>

namespace stepfuse::vgpu::lt {
namespace {

constexpr const char* kWhere = "cublasLtMatmul";

/// cublasLtMatmul() in the guide: the workspace is aligned to 256 bytes.
constexpr uint64_t kWorkspaceAlignment = 256;

/// A product as the stream holds it. A graph may run it many times, so running changes nothing here.
struct Job {
  Problem problem;
  Choice choice;
  Addresses first;                       // of the matrices, or of the arrays of pointers to them
  bool has_c;                            // else first.c is null, and beta is 0 on the host
  double alpha, beta;                    // in host mode
  uint64_t alpha_address, beta_address;  // in device mode
  VgpuRange workspace;                   // as much as the algorithm needs
};

bool aligned(uint64_t address, uint64_t alignment) { return address % alignment == 0; }

double read_scalar(const void* address, bool is_f64) {
  double wide = 0;
  float single = 0;
  std::memcpy(is_f64 ? static_cast<void*>(&wide) : &single, address, is_f64 ? sizeof(wide) : sizeof(single));
  return is_f64 ? wide : static_cast<double>(single);
}

/// Strided batches only.
std::vector<Addresses> strided_products(const Problem& problem, const Addresses& first) {
  std::vector<Addresses> products;
  products.reserve(static_cast<size_t>(problem.batch));
  const auto offset = [](const Matrix& matrix, int64_t index) {
    return static_cast<uint64_t>(matrix.batch_stride * index) * matrix.element;
  };
  for (int64_t i = 0; i < problem.batch; ++i) {
    products.push_back({first.a + offset(problem.a, i), first.b + offset(problem.b, i), first.c + offset(problem.c, i),
                        first.d + offset(problem.d, i)});
  }
  return products;
}

// --- When it is called -----------------------------------------------------------------------------------------------

cublasStatus_t check_scalars(const Problem& problem, const void* alpha, const void* beta, const void* c) {
  if (alpha == nullptr || beta == nullptr) return invalid(kWhere, "{} is null", alpha == nullptr ? "alpha" : "beta");
  if (problem.device_scalars) {
    const uint64_t bytes = problem.is_f64() ? 8 : 4;
    for (const void* scalar : {alpha, beta}) {
      if (!aligned(reinterpret_cast<uint64_t>(scalar), bytes)) {
        return invalid(kWhere, "a device scalar at {} is not aligned to {} bytes", fmt::ptr(scalar), bytes);
      }
    }
    if (c == nullptr) return invalid(kWhere, "C is null, and beta on the device may not be 0");
  } else if (c == nullptr && read_scalar(beta, problem.is_f64()) != 0) {
    return invalid(kWhere, "C is null and beta is {}", read_scalar(beta, problem.is_f64()));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_pointers(const Job& job) {
  const uint64_t pointers[] = {job.first.a, job.first.b, job.first.c, job.first.d};
  for (size_t i = 0; i < 4; ++i) {
    const bool is_c = i == 2;
    if (pointers[i] == 0 && !(is_c && !job.has_c)) return invalid(kWhere, "{} is null", "ABCD"[i]);
    const uint64_t promised = job.problem.pointer_array ? sizeof(void*) : job.choice.alignment[i];
    if (aligned(pointers[i], promised)) continue;
    return not_supported(kWhere, "{} at {:#x} is not aligned to the {} bytes that {}", "ABCD"[i], pointers[i], promised,
                         job.problem.pointer_array ? "an array of pointers needs" : "the heuristic was promised");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_workspace(const Job& job, const void* workspace, uint64_t given) {
  if (job.workspace.bytes > given) {
    return invalid(kWhere, "algorithm {} needs a workspace of {} bytes for this product, given are {}", job.choice.id,
                   job.workspace.bytes, given);
  }
  if (workspace == nullptr && given > 0) return invalid(kWhere, "{} bytes of workspace at null", given);
  if (!aligned(reinterpret_cast<uint64_t>(workspace), kWorkspaceAlignment)) {
    return invalid(kWhere, "the workspace at {} is not aligned to {} bytes", fmt::ptr(workspace), kWorkspaceAlignment);
  }
  return CUBLAS_STATUS_SUCCESS;
}

bool may_read_c(const Job& job) { return job.has_c && (job.problem.device_scalars || job.beta != 0); }

/// Arrays of pointers have their contents on the device, so what they point to is checked when it is known.
cublasStatus_t check_overlap(const Job& job) {
  if (job.problem.pointer_array) return CUBLAS_STATUS_SUCCESS;
  const std::vector<Addresses> products = strided_products(job.problem, job.first);
  const std::string overlap = find_overlap(job.problem, products, may_read_c(job), job.workspace);
  return overlap.empty() ? CUBLAS_STATUS_SUCCESS : invalid(kWhere, "{}", overlap);
}

/// All that the driver can know before the product runs.
Regions announced_regions(const Job& job) {
  const Problem& problem = job.problem;
  Regions regions;
  if (problem.pointer_array) {
    const size_t bytes = static_cast<size_t>(problem.batch) * sizeof(void*);
    regions.reads = {{job.first.a, bytes}, {job.first.b, bytes}, {job.first.d, bytes}};
    if (may_read_c(job)) regions.reads.push_back({job.first.c, bytes});
  } else {
    regions = regions_of(problem, strided_products(problem, job.first), may_read_c(job));
  }
  if (problem.device_scalars) {
    const size_t bytes = problem.is_f64() ? 8 : 4;
    regions.reads.insert(regions.reads.end(), {{job.alpha_address, bytes}, {job.beta_address, bytes}});
  }
  if (job.workspace.bytes > 0) regions.writes.push_back(job.workspace);
  return regions;
}

VgpuLtMatmul description(const Job& job, uint64_t workspace_given) {
  const Problem& problem = job.problem;
  VgpuLtMatmul result{};
  result.m = problem.m;
  result.n = problem.n;
  result.k = problem.k;
  result.batch = problem.batch;
  result.compute_type = problem.types.compute;
  result.scale_type = problem.types.scale;
  result.input_type = problem.types.a;
  result.output_type = problem.types.d;
  result.device_scalars = problem.device_scalars ? 1 : 0;
  result.alpha = job.alpha;
  result.beta = job.beta;
  result.pointer_array = problem.pointer_array ? 1 : 0;
  const Matrix* matrices[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  const uint64_t addresses[] = {job.first.a, job.first.b, job.first.c, job.first.d};
  for (size_t i = 0; i < 4; ++i) {
    result.row_stride[i] = matrices[i]->row_stride;
    result.col_stride[i] = matrices[i]->col_stride;
    result.batch_stride[i] = matrices[i]->batch_stride;
    result.address[i] = addresses[i];
    result.promised_alignment[i] = job.choice.alignment[i];
  }
  result.algorithm = job.choice.id;
  result.split = job.choice.split;
  result.reduction_scheme = job.choice.reduction_scheme;
  result.workspace_needed = job.workspace.bytes;
  result.workspace_given = workspace_given;
  return result;
}

// --- When it runs ----------------------------------------------------------------------------------------------------

/// The host's address of a matrix, all of whose lines may be used so; or null, and the context is lost.
void* resolve_matrix(const Matrix& matrix, uint64_t base, bool write) {
  char* first = nullptr;
  for (const VgpuRange& line : lines_of(matrix, base)) {
    auto* host = static_cast<char*>(resolve(line.address, line.bytes, write));
    if (host == nullptr) return nullptr;
    if (first == nullptr) first = host;
    if (host - first != static_cast<std::ptrdiff_t>(line.address - base)) {
      fault(CUDA_ERROR_ILLEGAL_ADDRESS, fmt::format("{}: a matrix at {:#x} lies in two allocations", kWhere, base));
      return nullptr;
    }
  }
  return first;
}

bool read_pointer(uint64_t array, int64_t index, uint64_t& pointer) {
  const void* host = resolve(array + static_cast<uint64_t>(index) * sizeof(void*), sizeof(void*), false);
  if (host == nullptr) return false;
  std::memcpy(&pointer, host, sizeof(pointer));
  return true;
}

/// Reads the arrays of pointers, which may have changed since the call.
bool read_products(const Job& job, bool read_c, std::vector<Addresses>& products) {
  const Problem& problem = job.problem;
  for (int64_t i = 0; i < problem.batch; ++i) {
    Addresses product{};
    if (!read_pointer(job.first.a, i, product.a) || !read_pointer(job.first.b, i, product.b) ||
        !read_pointer(job.first.d, i, product.d) || (read_c && !read_pointer(job.first.c, i, product.c))) {
      return false;
    }
    const uint64_t pointers[] = {product.a, product.b, product.c, product.d};
    for (size_t which = 0; which < 4; ++which) {
      if (aligned(pointers[which], job.choice.alignment[which])) continue;
      fault(CUDA_ERROR_MISALIGNED_ADDRESS,
            fmt::format("{}: {} of product {} at {:#x} is not aligned to the {} bytes that the heuristic was promised",
                        kWhere, "ABCD"[which], i, pointers[which], job.choice.alignment[which]));
      return false;
    }
    products.push_back(product);
  }
  const std::string overlap = find_overlap(problem, products, read_c, job.workspace);
  if (overlap.empty()) return true;
  fault(CUDA_ERROR_LAUNCH_FAILED, fmt::format("{}: arrays of pointers: {}", kWhere, overlap));
  return false;
}

bool read_device_scalar(uint64_t address, bool is_f64, double& value) {
  const void* host = resolve(address, is_f64 ? 8 : 4, false);
  if (host == nullptr) return false;
  value = read_scalar(host, is_f64);
  return true;
}

/// Whatever lay in the workspace is lost: nobody may keep anything in one, nor share it with work on another stream.
bool spoil_workspace(const VgpuRange& workspace) {
  if (workspace.bytes == 0) return true;
  void* host = resolve(workspace.address, workspace.bytes, true);
  if (host == nullptr) return false;
  std::memset(host, 0xff, workspace.bytes);
  return true;
}

void run_job(void* data) {
  const Job& job = *static_cast<const Job*>(data);
  const Problem& problem = job.problem;
  const uint64_t chance = count_run(problem.m, problem.n, problem.k);
  double alpha = job.alpha;
  double beta = job.beta;
  if (problem.device_scalars && !(read_device_scalar(job.alpha_address, problem.is_f64(), alpha) &&
                                  read_device_scalar(job.beta_address, problem.is_f64(), beta))) {
    return;
  }
  const bool read_c = beta != 0;  // a NaN reads it
  std::vector<Addresses> products;
  if (problem.pointer_array) {
    if (!read_products(job, read_c, products)) return;
  } else {
    products = strided_products(problem, job.first);
  }
  if (!spoil_workspace(job.workspace)) return;
  const SumOrder order = sum_order(problem, job.choice, chance);
  for (const Addresses& product : products) {
    const Operands operands{resolve_matrix(problem.a, product.a, false), resolve_matrix(problem.b, product.b, false),
                            read_c ? resolve_matrix(problem.c, product.c, false) : nullptr,
                            resolve_matrix(problem.d, product.d, true)};
    if (operands.a == nullptr || operands.b == nullptr || operands.d == nullptr) return;
    if (read_c && operands.c == nullptr) return;
    compute_product(problem, operands, alpha, beta, order);
  }
}

void release_job(void* data) { delete static_cast<Job*>(data); }

cublasStatus_t enqueue_job(std::unique_ptr<Job> job, uint64_t workspace_given, CUstream stream) {
  const Regions regions = announced_regions(*job);
  const VgpuLtMatmul product = description(*job, workspace_given);
  const CUresult result = enqueue(stream, kWhere, run_job, job.release(), release_job, regions.reads, regions.writes);
  if (result != CUDA_SUCCESS) {
    return complain(CUBLAS_STATUS_EXECUTION_FAILED, kWhere,
                    fmt::format("the driver took no work for the stream: error {}", static_cast<int>(result)));
  }
  count_matmul(product);
  note_call(
      kWhere, CUBLAS_STATUS_SUCCESS,
      fmt::format("{}x{}x{} batch {} algorithm {}", product.m, product.n, product.k, product.batch, product.algorithm));
  return CUBLAS_STATUS_SUCCESS;
}

uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace
}  // namespace stepfuse::vgpu::lt

using namespace stepfuse::vgpu::lt;  // NOLINT(google-build-using-namespace): what follows has C names

namespace stepfuse::cuda {

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, CUstream_st* stream) {
  cublasStatus_t status = check_handle(kWhere, handle);
  auto job = std::make_unique<Job>();
  Problem& problem = job->problem;
  const auto ok = [&] { return status == CUBLAS_STATUS_SUCCESS; };
  if (ok()) status = read_problem(kWhere, desc, a_layout, b_layout, c_layout, d_layout, problem);
  if (ok()) status = decode(kWhere, algo, job->choice);
  if (!ok()) return status;
  if (const std::string why = misfit(problem, job->choice); !why.empty()) {
    return not_supported(kWhere, "algorithm {} does not fit: {}", job->choice.id, why);
  }
  if (status = check_scalars(problem, alpha, beta, c); !ok()) return status;
  job->first = {address(a), address(b), address(c), address(d)};
  job->has_c = c != nullptr;
  if (problem.device_scalars) {
    job->alpha_address = address(alpha);
    job->beta_address = address(beta);
  } else {
    job->alpha = read_scalar(alpha, problem.is_f64());
    job->beta = read_scalar(beta, problem.is_f64());
  }
  job->workspace = {address(workspace), stepfuse::vgpu::lt::workspace_bytes(problem, job->choice)};
  status = check_pointers(*job);
  if (ok()) status = check_workspace(*job, workspace, workspace_bytes);
  if (ok()) status = check_overlap(*job);
  return ok() ? enqueue_job(std::move(job), workspace_bytes, stream) : status;
}

}  // namespace stepfuse::cuda
