// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/product_cache.h"

#include "runtime/cache/metrics.h"
#include "runtime/kernel_cache.h"

#include <cstring>
#include <ctime>
#include <optional>

#include <nlohmann/json.hpp>

namespace stepfuse::runtime {

namespace {

using Algorithm = cuda::cublasLtMatmulAlgo_t;

std::string operand_text(ir::DType dtype, int64_t ld, int64_t stride, uint32_t alignment) {
  return fmt::format("{}, rows {} apart, matrices {} apart, aligned to {}", ir::dtype_name(dtype), ld, stride,
                     alignment);
}

std::string shape_text(const LtRequest& request) {
  const codegen::GemmShape& s = request.shape;
  return fmt::format("{} x {} x {}{}{}{}, batch {}{}", s.m, s.n, s.k, s.trans_a ? ", A transposed" : "",
                     s.trans_b ? ", B transposed" : "", s.has_c ? ", with C" : "", request.batch,
                     request.pointer_arrays ? " by pointers" : "");
}

std::optional<Algorithm> algorithm_of(const Entry& entry) {
  if (!product_entry_problem(entry).empty()) return std::nullopt;
  Algorithm algorithm{};
  std::memcpy(&algorithm, entry.payload.data(), sizeof algorithm);
  return algorithm;
}

Entry entry_of(const Key& key, const LtRequest& request, const Algorithm& algorithm) {
  std::vector<std::byte> payload(sizeof algorithm);
  std::memcpy(payload.data(), &algorithm, sizeof algorithm);
  const nlohmann::ordered_json metadata = {
      {"name", fmt::format("product {} {}", shape_text(request), ir::dtype_name(request.shape.ab))},
      {"library", library_build()},
      {"created", static_cast<int64_t>(::time(nullptr))}};
  return {EntryKind::Product, key.preimage, metadata.dump(), std::move(payload)};
}

}  // namespace

KeyFields product_fields(const CudaDevice& device, const Lt& lt, const LtRequest& request) {
  const codegen::GemmShape& s = request.shape;
  return {{"device", fmt::format("{}, {} multiprocessors", device.name, device.multiprocessors)},
          {"arch", fmt::format("sm_{}", device.capability)},
          {"cublaslt", lt.version()},
          {"product", shape_text(request)},
          {"a", operand_text(s.ab, s.lda, request.stride_a, request.alignment_a)},
          {"b", operand_text(s.ab, s.ldb, request.stride_b, request.alignment_b)},
          {"c", s.has_c ? operand_text(s.c, s.ldc, request.stride_c, request.alignment_c) : ""},
          {"d", operand_text(s.d, s.ldd, request.stride_d, request.alignment_d)},
          {"factors", request.device_scalars ? "on the device" : "on the host"},
          {"deterministic", request.deterministic ? "yes" : "no"},
          {"workspace", std::to_string(request.workspace_limit)}};
}

Result<std::unique_ptr<const LtProduct>> ProductCache::prepare(const LtRequest& request) {
  const Key key = Key::of(EntryKind::Product, product_fields(device_, lt_, request));
  Store& store = context_.kernels().store();
  const bool on = store.options().mode != CacheMode::Off;
  std::optional<Algorithm> stored;
  Store::Lookup found;
  if (on) {
    found = store.find(key, context_.log());
    if (found.entry) stored = algorithm_of(*found.entry);
  }
  STEPFUSE_ASSIGN(std::unique_ptr<const LtProduct> product, LtProduct::prepare(lt_, request, stored));
  Entry entry = entry_of(key, request, product->algorithm());
  const bool taken = stored && std::memcmp(&*stored, &product->algorithm(), sizeof(Algorithm)) == 0;
  if (on && !taken) store.publish(key, entry, found.entry.has_value() || found.occupied, context_.log());
  entries_.insert_or_assign(key.preimage, std::move(entry));
  return product;
}

std::vector<Entry> ProductCache::entries() const {
  std::vector<Entry> entries;
  for (const auto& [preimage, entry] : entries_) entries.push_back(entry);
  return entries;
}

std::string product_entry_problem(const Entry& entry) {
  if (entry.payload.size() == sizeof(Algorithm)) return {};
  return fmt::format("an algorithm has {} bytes, this one {}", sizeof(Algorithm), entry.payload.size());
}

}  // namespace stepfuse::runtime
