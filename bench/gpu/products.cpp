// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/products.h"

#include <algorithm>

namespace stepfuse::gpu_check {

namespace {

constexpr double kScale = 0.05;      // of random values; far from overflow in any type
constexpr double kLongFlops = 2e11;  // some 0.3 ms of an H200
constexpr float kAlpha = 0.75F, kBeta = 0.5F;

int64_t bytes_of(int64_t elements, ir::DType type) { return elements * ir::dtype_bytes(type); }

Buffer filled(const Gpu& gpu, int64_t elements, ir::DType type) {
  Buffer buffer(gpu, bytes_of(elements, type));
  gpu.fill(buffer, type == ir::DType::F32 ? ElementType::F32 : ElementType::BF16, kScale);
  return buffer;
}

}  // namespace

runtime::LtRequest request_of(const ProductSpec& spec) {
  runtime::LtRequest request;
  codegen::GemmShape& shape = request.shape;
  shape.m = spec.m;
  shape.n = spec.n;
  shape.k = spec.k;
  shape.trans_b = spec.trans_b;
  shape.lda = spec.k;
  shape.ldb = spec.trans_b ? spec.k : spec.n;
  shape.ldc = shape.ldd = spec.n;
  shape.ab = spec.ab;
  shape.c = shape.d = spec.d;
  shape.has_c = spec.has_c;
  shape.has_alpha = true;
  request.batch = spec.batch;
  request.pointer_arrays = spec.pointer_arrays;
  request.device_scalars = spec.device_scalars;
  request.stride_a = spec.m * spec.k;
  request.stride_b = spec.n * spec.k;
  request.stride_c = request.stride_d = spec.m * spec.n;
  request.alignment_a = runtime::lt_alignment(256, shape.lda, spec.ab);
  request.alignment_b = runtime::lt_alignment(256, shape.ldb, spec.ab);
  request.alignment_c = request.alignment_d = runtime::lt_alignment(256, shape.ldd, spec.d);
  return request;
}

Product::Product(const Gpu& gpu, const ProductSpec& spec, float alpha, float beta,
                 const std::optional<cuda::cublasLtMatmulAlgo_t>& algorithm)
    : gpu_(gpu),
      spec_(spec),
      request_(request_of(spec)),
      product_(must(runtime::LtProduct::prepare(gpu.lt(), request_, algorithm))),
      factors_{alpha, spec.has_c ? beta : 0.0F} {
  if (product_->workspace_bytes() != 0) workspace_ = Buffer(gpu, static_cast<int64_t>(product_->workspace_bytes()));
  if (spec.device_scalars) {
    device_factors_ = Buffer(gpu, sizeof factors_);
    gpu.upload(device_factors_, factors_.data(), sizeof factors_);
  }
}

void Product::bind(const Operands& operands) {
  if (spec_.pointer_arrays) {
    std::vector<Operands> each;
    for (int64_t i = 0; i < spec_.batch; ++i)
      each.push_back({operands.a + static_cast<uint64_t>(bytes_of(i * request_.stride_a, spec_.ab)),
                      operands.b + static_cast<uint64_t>(bytes_of(i * request_.stride_b, spec_.ab)),
                      operands.c + static_cast<uint64_t>(bytes_of(i * request_.stride_c, spec_.d)),
                      operands.d + static_cast<uint64_t>(bytes_of(i * request_.stride_d, spec_.d))});
    return bind_arrays(each);
  }
  operands_.a = operands.a;
  operands_.b = operands.b;
  operands_.d = operands.d;
  operands_.c = spec_.has_c ? operands.c : operands.d;
}

void Product::bind_arrays(const std::vector<Operands>& each) {
  const size_t count = each.size();
  std::vector<uint64_t> table(4 * count);
  for (size_t i = 0; i < count; ++i) {
    table[i] = each[i].a;
    table[count + i] = each[i].b;
    table[2 * count + i] = spec_.has_c ? each[i].c : each[i].d;
    table[3 * count + i] = each[i].d;
  }
  arrays_ = Buffer(gpu_, static_cast<int64_t>(table.size() * sizeof(uint64_t)));
  gpu_.upload(arrays_, table.data(), table.size() * sizeof(uint64_t));
  const auto array = [&](size_t which) { return arrays_.address() + which * count * sizeof(uint64_t); };
  operands_.a = array(0);
  operands_.b = array(1);
  operands_.c = array(2);
  operands_.d = array(3);
}

void Product::enqueue() const {
  runtime::LtOperands operands = operands_;
  operands.alpha = spec_.device_scalars ? device_factors_.at(0) : static_cast<const void*>(&factors_[0]);
  operands.beta = spec_.device_scalars ? device_factors_.at(4) : static_cast<const void*>(&factors_[1]);
  operands.workspace = workspace_.address();
  if (const Outcome queued = product_->enqueue(operands, gpu_.stream()); !queued)
    throw std::runtime_error(queued.error().message);
}

Repeated::Repeated(const Bench& bench, double flops, const Work& work)
    : times_(bench.is_short ? 2 : static_cast<int>(std::clamp(kLongFlops / flops, 2.0, 200.0))) {
  work();  // whatever the library loads at a first call is not for a capture
  bench.gpu.wait();
  graph_ = std::make_shared<const Graph>(bench.gpu, [&] {
    for (int i = 0; i < times_; ++i) work();
  });
}

ProductMemory::ProductMemory(const Gpu& gpu, const ProductSpec& spec)
    : a_(filled(gpu, spec.batch * spec.m * spec.k, spec.ab)),
      b_(filled(gpu, spec.batch * spec.n * spec.k, spec.ab)),
      c_(filled(gpu, spec.has_c ? spec.batch * spec.m * spec.n : 1, spec.d)),
      d_(filled(gpu, spec.batch * spec.m * spec.n, spec.d)) {}

Product product_on(const Gpu& gpu, const ProductSpec& spec, const ProductMemory& memory,
                   const std::optional<cuda::cublasLtMatmulAlgo_t>& algorithm) {
  Product product(gpu, spec, kAlpha, kBeta, algorithm);
  product.bind(memory.operands());
  return product;
}

OwnedProduct::OwnedProduct(const Gpu& gpu, const ProductSpec& spec)
    : memory_(gpu, spec), product_(product_on(gpu, spec, memory_)) {}

}  // namespace stepfuse::gpu_check
