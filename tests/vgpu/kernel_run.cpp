// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/kernel_run.h"

#include "codegen/cuda/emit_cuda.h"
#include "runtime/cpu/reduce_finish.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/tables.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

namespace stepfuse::test {

using codegen::CudaChunk;
using codegen::KernelSpec;
using codegen::Scheme;

namespace {

constexpr double kNeverStored = -7.0;

runtime::Settings settings() {
  return runtime::Settings::resolve({}, runtime::Settings::process_environment()).value();
}

std::string compile_ptx(const KernelSpec& spec, codegen::CudaVariant variant, const std::string& arch) {
  const auto text = codegen::emit_cuda(spec, variant);
  if (!text) throw std::runtime_error(text.error().message);
  const auto nvrtc = runtime::Nvrtc::open(settings());
  if (!nvrtc) throw std::runtime_error(nvrtc.error().message);
  const auto binary =
      (*nvrtc)->compile(*text, spec.name, codegen::nvrtc_options(spec.mode), runtime::parse_cuda_arch(arch).value());
  if (!binary) throw std::runtime_error(binary.error().message + "\n" + *text);
  return binary->ptx;
}

/// How many results a reduction has, and how many elements each is of.
std::pair<int64_t, int64_t> reduced(const KernelSpec& spec, const std::array<int64_t, 3>& d) {
  if (spec.scheme == Scheme::Linear) return {d[0], d[1] * d[2]};
  if (spec.scheme == Scheme::Rows) return {d[0] * d[1], d[2]};
  return {d[0] * d[2], d[1]};
}

}  // namespace

Member make_member(const KernelSpec& spec, std::array<int64_t, 3> dims, uint64_t seed) {
  Member member{make_launch(spec, dims, seed), {}};
  const int64_t results = reduced(spec, dims).first;
  for (const codegen::Reduction& r : spec.reductions) {
    Buffer& buffer = member.results.emplace_back(r.result, results);
    for (int64_t i = 0; i < results; ++i) buffer.set(i, kNeverStored);
  }
  return member;
}

void run_on_cpu(const runtime::LoadedKernel& kernel, const KernelSpec& spec, Member& member) {
  if (member.skip) return;
  run_kernel(kernel.function(), spec, member.launch, 1);
  const auto [results, elements] = reduced(spec, member.launch.dims);
  const int64_t chunks = codegen::chunks_of(elements);
  for (size_t r = 0; r < spec.reductions.size(); ++r) {
    for (int64_t i = 0; i < results; ++i) {
      double* partials = member.launch.partials[r].data() + i * chunks;
      member.results[r].set(
          i, runtime::finish_reduction(spec.reductions[r].op, spec.reductions[r].math, partials, chunks));
    }
  }
}

struct DeviceKernel::Impl {
  Impl(const KernelSpec& kernel, codegen::CudaVariant which, const std::string& arch)
      : spec(kernel), variant(which), module(vgpu::Module::load(compile_ptx(kernel, which, arch), memory, options())) {}

  static vgpu::MachineOptions options() {
    vgpu::MachineOptions options;
    options.find_races = true;
    return options;
  }

  uint64_t upload(const void* data, size_t bytes, size_t shift) {
    const uint64_t address = memory.allocate(bytes + shift, 16);
    allocations.push_back(address);
    if (bytes > 0) std::memcpy(memory.resolve(address + shift, bytes, true), data, bytes);
    return address + shift;
  }
  template <class T>
  uint64_t upload(const std::vector<T>& values) {
    return upload(values.data(), values.size() * sizeof(T), 0);
  }
  uint64_t upload(Buffer& buffer, int64_t shift) {
    const auto width = static_cast<size_t>(ir::dtype_bytes(buffer.dtype()));
    return upload(buffer.data(), static_cast<size_t>(buffer.size()) * width, static_cast<size_t>(shift) * width);
  }
  void download(Buffer& buffer, uint64_t address) {
    const auto bytes = static_cast<size_t>(buffer.size() * ir::dtype_bytes(buffer.dtype()));
    if (bytes > 0) std::memcpy(buffer.data(), memory.resolve(address, bytes, false), bytes);
  }

  /// A member's row, and where its arrays are.
  struct Bound {
    std::vector<uint64_t> args, results;
    uint64_t tickets = 0;
    size_t ticket_count = 0;
    std::vector<uint64_t> row;
  };

  Bound bind(Member& member, int64_t shift) {
    Bound bound;
    const codegen::CudaRowLayout layout = codegen::cuda_row_layout(spec);
    const auto [results, elements] = reduced(spec, member.launch.dims);
    bound.row.assign(layout.words, 0);
    const std::vector<uint32_t> flag{member.skip ? 1U : 0U};
    bound.row[layout.scalars] = upload(member.launch.scalars);
    if (member.skip || results % 2 == 1) bound.row[layout.skip] = upload(flag);
    for (size_t d = 0; d < 3; ++d) bound.row[layout.dims + d] = static_cast<uint64_t>(member.launch.dims[d]);
    if (!spec.reductions.empty()) {
      bound.ticket_count = static_cast<size_t>(runtime::ticket_count(spec, member.launch.dims));
      bound.tickets = upload(std::vector<uint32_t>(bound.ticket_count, 0));
      bound.row[layout.tickets] = bound.tickets;
    }
    for (size_t k = 0; k < spec.args.size(); ++k) {
      bound.args.push_back(upload(member.launch.args[k], shift));
      bound.row[layout.args + k] = bound.args.back();
      for (size_t d = 0; layout.strides != 0 && d < 3; ++d)
        bound.row[layout.strides + 3 * k + d] = static_cast<uint64_t>(member.launch.strides[k][d]);
    }
    for (size_t r = 0; r < spec.reductions.size(); ++r) {
      const auto partials = static_cast<size_t>(results * codegen::chunks_of(elements));
      bound.row[layout.partials + 2 * r] = upload(std::vector<double>(partials, kNeverStored));
      bound.results.push_back(upload(member.results[r], 0));
      bound.row[layout.partials + 2 * r + 1] = bound.results.back();
    }
    check_alignment(member, bound);
    return bound;
  }

  void check_alignment(const Member& member, const Bound& bound) const {
    std::vector<codegen::CudaArgumentPlace> places;
    for (size_t k = 0; k < spec.args.size(); ++k) places.push_back({bound.args[k], member.launch.strides[k]});
    if (variant.aligned && !codegen::cuda_aligned(spec, member.launch.dims, places))
      throw std::runtime_error("the aligned text is not for these arguments");
  }

  void unbind(Member& member, const Bound& bound) {
    for (size_t k = 0; k < bound.args.size(); ++k) download(member.launch.args[k], bound.args[k]);
    for (size_t r = 0; r < bound.results.size(); ++r) download(member.results[r], bound.results[r]);
    for (size_t i = 0; i < bound.ticket_count; ++i) {
      uint32_t ticket = 0;
      std::memcpy(&ticket, memory.resolve(bound.tickets + 4 * i, 4, false), 4);
      if (ticket != 0) throw std::runtime_error(fmt::format("ticket {} was left at {}", i, ticket));
    }
  }

  void launch(uint64_t chunks, uint32_t count, uint64_t rows, uint64_t seed) {
    const unsigned per_block = codegen::cuda_geometry(spec, variant).chunks_per_block;
    vgpu::Launch launch;
    // Few blocks at times, so that each goes through several chunks.
    launch.grid.x = std::min((count + per_block - 1) / per_block, seed % 2 == 0 ? 3U : 64U);
    launch.block.x = codegen::kCudaBlockThreads;
    launch.seed = seed;
    std::array<std::byte, 24> parameters{};
    std::memcpy(parameters.data(), &chunks, 8);
    std::memcpy(parameters.data() + 8, &count, 4);
    std::memcpy(parameters.data() + 16, &rows, 8);
    module->run(codegen::cuda_kernel_name(spec), launch, parameters.data());
  }

  KernelSpec spec;
  codegen::CudaVariant variant;
  vgpu::TestMemory memory;
  std::unique_ptr<vgpu::Module> module;
  std::vector<uint64_t> allocations;
};

DeviceKernel::DeviceKernel(const KernelSpec& spec, codegen::CudaVariant variant, const std::string& arch)
    : impl_(std::make_unique<Impl>(spec, variant, arch)) {}
DeviceKernel::~DeviceKernel() = default;

void DeviceKernel::run(std::vector<Member>& members, uint64_t seed, int64_t shift) {
  std::vector<CudaChunk> chunks;
  std::vector<uint64_t> rows;
  std::vector<Impl::Bound> bound;
  for (size_t m = 0; m < members.size(); ++m) {
    bound.push_back(impl_->bind(members[m], shift));
    rows.insert(rows.end(), bound.back().row.begin(), bound.back().row.end());
    runtime::append_chunks(impl_->spec, members[m].launch.dims, static_cast<uint32_t>(m), chunks);
  }
  std::mt19937_64 random(seed);
  std::shuffle(chunks.begin(), chunks.end(), random);
  if (!chunks.empty()) {
    const uint64_t chunk_table = impl_->upload(chunks);
    impl_->launch(chunk_table, static_cast<uint32_t>(chunks.size()), impl_->upload(rows), seed);
  }
  for (size_t m = 0; m < members.size(); ++m) impl_->unbind(members[m], bound[m]);
  for (const uint64_t address : impl_->allocations) impl_->memory.release(address);
  impl_->allocations.clear();
}

std::string why_no_nvrtc() {
  const auto nvrtc = runtime::Nvrtc::open(settings());
  return nvrtc ? "" : nvrtc.error().message;
}

std::string difference(const Member& got, const Member& want) {
  Launch got_all = got.launch, want_all = want.launch;
  got_all.partials.clear();
  want_all.partials.clear();
  for (const Buffer& buffer : got.results) got_all.args.push_back(buffer);
  for (const Buffer& buffer : want.results) want_all.args.push_back(buffer);
  return difference(got_all, want_all);
}

}  // namespace stepfuse::test
