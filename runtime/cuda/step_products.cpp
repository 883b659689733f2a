// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/step_products.h"

#include "compiler/memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace stepfuse::runtime {

using codegen::Factor;
using codegen::LoweredProduct;
using compiler::Access;
using compiler::StepKind;

namespace {

constexpr int64_t kMostWorkspace = int64_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr int64_t kLaneAlignment = 64;                 // compiler::lane_offsets
constexpr int64_t kAccessBytes = 16;

/// What every matrix of the operand is aligned to.
uint32_t alignment_of(const Access& access, const LoweredProduct& product, int64_t ld, ir::DType dtype, bool aligned) {
  const int64_t bytes = ir::dtype_bytes(dtype);
  if (is_users(access)) return lt_alignment(static_cast<uint64_t>(aligned ? kAccessBytes : bytes), ld, dtype);
  int64_t address = std::gcd(kLaneAlignment, access.offset * bytes);
  if (product.batch > 1) address = std::gcd(address, access.strides[0] * bytes);
  return lt_alignment(static_cast<uint64_t>(address), ld, dtype);
}

bool is_in_memory(const Factor& factor) { return factor.kind == Factor::Kind::Memory; }

/// A number as products take it, in the first bytes.
double as_scale(double value, ir::DType dtype) {
  if (dtype == ir::DType::F64) return value;
  const auto narrow = static_cast<float>(value);
  double bytes = 0;
  std::memcpy(&bytes, &narrow, sizeof narrow);
  return bytes;
}

void set_factors(ProductRun& run, const CudaGroup& group, const StepMemory& memory, DeviceAddress base,
                 const MemberPlace& place, const LoweredProduct& product, bool active) {
  const std::array<Factor, 2> factors{product.alpha, beta_of(product)};
  const ir::DType scale = LtProduct::scale_dtype(product.shape);
  run.on_host = factors[0].kind == Factor::Kind::Const && factors[1].kind == Factor::Kind::Const;
  if (run.on_host) {
    run.host_factors = {as_scale(factors[0].value, scale), as_scale(factors[1].value, scale)};
    return;
  }
  const auto address = [&](const Factor& factor) {
    // A tensor that is not bound has no address; any number serves a result that goes nowhere.
    const bool lost = is_in_memory(factor) && is_users(factor.access) && !active;
    const DeviceAddress at =
        lost ? base + static_cast<uint64_t>(memory.one) : factor_address(group, memory, base, place, product, factor);
    return reinterpret_cast<const void*>(at);  // NOLINT(performance-no-int-to-ptr): as the API takes addresses
  };
  run.operands.alpha = address(factors[0]);
  run.operands.beta = address(factors[1]);
}

}  // namespace

Outcome ProductRun::enqueue(cuda::CUstream stream) const {
  LtOperands all = operands;
  if (on_host) {
    all.alpha = &host_factors[0];
    all.beta = &host_factors[1];
  }
  return product->enqueue(all, stream);
}

LtRequest StepProducts::request_of(const Form& form, int64_t workspace_limit) const {
  const LoweredProduct& product = form.step.product;
  const codegen::GemmShape& shape = product.shape;
  LtRequest request;
  request.shape = shape;
  request.batch = static_cast<int64_t>(form.members) * product.batch;
  request.pointer_arrays = form.arrays;
  if (!form.arrays) {
    const int64_t member_bytes = compiler::member_bytes(*form.group.plan, form.batch.members.front().elements);
    const auto stride = [&](const Access& access, ir::DType dtype) {
      return form.members > 1 ? member_bytes / ir::dtype_bytes(dtype) : access.strides[0];
    };
    request.stride_a = stride(product.a, shape.ab);
    request.stride_b = stride(product.b, shape.ab);
    request.stride_d = stride(product.d, shape.d);
    request.stride_c = shape.has_c ? stride(product.c, shape.c) : request.stride_d;
  }
  request.alignment_a = alignment_of(product.a, product, shape.lda, shape.ab, form.aligned);
  request.alignment_b = alignment_of(product.b, product, shape.ldb, shape.ab, form.aligned);
  request.alignment_d = alignment_of(product.d, product, shape.ldd, shape.d, form.aligned);
  request.alignment_c =
      shape.has_c ? alignment_of(product.c, product, shape.ldc, shape.c, form.aligned) : request.alignment_d;
  request.device_scalars = product.alpha.kind != Factor::Kind::Const || beta_of(product).kind != Factor::Kind::Const;
  request.deterministic = deterministic_;
  request.workspace_limit = workspace_limit;
  return request;
}

Result<const LtProduct*> StepProducts::find(const Form& form, int64_t workspace_limit) {
  std::unique_ptr<const LtProduct>& product = products_[{&form.step.product, form.members, form.arrays, form.aligned}];
  if (product == nullptr) {
    STEPFUSE_ASSIGN(product, cache_.prepare(request_of(form, workspace_limit)));
  }
  return product.get();
}

Result<std::vector<int64_t>> StepProducts::prepare(const StepMemory& memory) {
  std::vector<int64_t> workspace;
  for (const CudaBranch& branch : memory.branches) {
    int64_t& most = workspace.emplace_back(0);
    for (const CudaBatch& batch : branch.batches)
      for (size_t s = 0; s < batch.steps.size(); ++s) {
        const CudaGroup& group = groups_[batch.group];
        if (group.steps[s].kind != StepKind::Product) continue;
        STEPFUSE_ASSIGN(const LtProduct* product,
                        find({group, batch, group.steps[s], batch.members.size(), batch.steps[s].product.arrays, true},
                             kMostWorkspace));
        most = std::max(most, static_cast<int64_t>(product->workspace_bytes()));
      }
  }
  return workspace;
}

Result<std::vector<ProductRun>> StepProducts::runs(const StepMemory& memory, const CudaBranch& branch,
                                                   const CudaBatch& batch, size_t step, DeviceAddress base,
                                                   const std::vector<CudaPointers>& pointers, const ScalarSets& sets) {
  const CudaGroup& group = groups_[batch.group];
  const LoweredProduct& product = group.steps[step].product;
  const ProductTable& table = batch.steps[step].product;
  const bool own_factors = is_in_memory(product.alpha) || is_in_memory(beta_of(product));
  const auto belongs = [&](size_t first, size_t m) {
    return !own_factors && table.aligned[first] == table.aligned[m] &&
           sets.scalar_class(batch.members[first].parameter) == sets.scalar_class(batch.members[m].parameter);
  };
  std::vector<ProductRun> runs;
  for (size_t first = 0, end = 0; first < batch.members.size(); first = end) {
    for (end = first + 1; end < batch.members.size() && belongs(first, end);) ++end;
    STEPFUSE_ASSIGN(const LtProduct* found,
                    find({group, batch, group.steps[step], end - first, table.arrays, table.aligned[first] != 0},
                         branch.product_workspace_bytes));
    const CudaMember& member = batch.members[first];
    const MemberPlace place = member_place(memory, base, member, pointers[member.parameter]);
    ProductRun run;
    run.product = found;
    const auto operand = [&](int64_t array, const Access& access, ir::DType dtype) {
      if (!table.arrays) return access_address(*group.plan, place, access, dtype);
      return base + static_cast<uint64_t>(array + static_cast<int64_t>(first) * product.batch * 8);
    };
    run.operands.a = operand(table.a, product.a, product.shape.ab);
    run.operands.b = operand(table.b, product.b, product.shape.ab);
    run.operands.d = operand(table.d, product.d, product.shape.d);
    run.operands.c = product.shape.has_c ? operand(table.c, product.c, product.shape.c) : run.operands.d;
    run.operands.workspace = found->workspace_bytes() == 0 ? 0 : base + static_cast<uint64_t>(branch.product_workspace);
    set_factors(run, group, memory, base, place, product, pointers[member.parameter].active);
    runs.push_back(run);
  }
  return runs;
}

Outcome check_factors(const CudaGroup& group) {
  for (const CudaStep& step : group.steps) {
    if (step.kind != StepKind::Product) continue;
    const ir::DType scale = LtProduct::scale_dtype(step.product.shape);
    for (const Factor* factor : {&step.product.alpha, &step.product.beta})
      if (is_in_memory(*factor) && factor->dtype != scale)
        return with_hint(
            fail(StatusCode::Unsupported, "rule {}: a product takes a factor of type {} from a tensor",
                 group.plan->graph.name, ir::dtype_name(factor->dtype)),
            fmt::format("on CUDA the factors of this product are {}: cast the tensor first", ir::dtype_name(scale)));
  }
  return {};
}

}  // namespace stepfuse::runtime
