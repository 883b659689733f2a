// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/gpu.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <stdexcept>

#include <dlfcn.h>

namespace stepfuse::gpu_check {

namespace {

constexpr size_t kPatternElements = size_t{1} << 20;  // random values that a large buffer repeats

bool is_stand_in(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  const bool found = dlsym(handle, "vgpu_counters") != nullptr;
  dlclose(handle);
  return found;
}

std::vector<std::byte> pattern(size_t elements, ElementType type, double scale) {
  std::mt19937_64 random(20250101);  // NOLINT: the same values in every run
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  const size_t width = type == ElementType::F32 ? 4 : 2;
  std::vector<std::byte> bytes(elements * width);
  for (size_t i = 0; i < elements; ++i) {
    const auto bits = std::bit_cast<uint32_t>(normal(random));
    const auto upper = static_cast<uint16_t>(bits >> 16);  // bf16: cut off, which is random enough
    std::memcpy(&bytes[i * width], width == 4 ? static_cast<const void*>(&bits) : &upper, width);
  }
  return bytes;
}

}  // namespace

Buffer::Buffer(const Gpu& gpu, int64_t bytes) : gpu_(&gpu), bytes_(bytes) {
  cuda::CUdeviceptr address = 0;
  gpu.must(gpu.call().cuMemAlloc(&address, static_cast<size_t>(std::max<int64_t>(bytes, 1))), "allocating memory");
  address_ = address;
}

Buffer::~Buffer() {
  if (address_ != 0) gpu_->call().cuMemFree(address_);
}

Result<std::unique_ptr<Gpu>> Gpu::open() {
  std::unique_ptr<Gpu> gpu(new Gpu());
  STEPFUSE_TRY(gpu->start());
  return gpu;
}

Outcome Gpu::start() {
  STEPFUSE_ASSIGN(settings_, runtime::Settings::resolve({}, runtime::Settings::process_environment()));
  STEPFUSE_ASSIGN(driver_, runtime::Driver::open(settings_));
  STEPFUSE_ASSIGN(context_, runtime::CudaContext::open(*driver_, 0));
  STEPFUSE_ASSIGN(runtime::CurrentContext scope, runtime::CurrentContext::enter(*context_));
  scope_.emplace(std::move(scope));
  virtual_ = is_stand_in(driver_->path());
  STEPFUSE_TRY(driver_->check(call().cuStreamCreate(&stream_, cuda::CU_STREAM_NON_BLOCKING), "making a stream"));
  STEPFUSE_TRY(driver_->check(call().cuEventCreate(&begin_, cuda::CU_EVENT_DEFAULT), "making an event"));
  return driver_->check(call().cuEventCreate(&end_, cuda::CU_EVENT_DEFAULT), "making an event");
}

Gpu::~Gpu() {
  lt_.reset();
  if (end_ != nullptr) call().cuEventDestroy(end_);
  if (begin_ != nullptr) call().cuEventDestroy(begin_);
  if (stream_ != nullptr) call().cuStreamDestroy(stream_);
}

const runtime::Lt& Gpu::lt() const {
  if (lt_ == nullptr) lt_ = gpu_check::must(runtime::Lt::open(settings_));
  return *lt_;
}

void Gpu::must(cuda::CUresult result, const char* doing) const {
  if (const Outcome outcome = driver_->check(result, doing); !outcome)
    throw std::runtime_error(outcome.error().message);
}

double Gpu::seconds(const Work& work) const {
  must(call().cuEventRecord(begin_, stream_), "recording an event");
  work();
  must(call().cuEventRecord(end_, stream_), "recording an event");
  must(call().cuEventSynchronize(end_), "waiting for an event");
  float milliseconds = 0;
  must(call().cuEventElapsedTime(&milliseconds, begin_, end_), "reading events");
  return static_cast<double>(milliseconds) * 1e-3;
}

std::vector<Samples> Gpu::interleave(int rounds, const std::vector<Work>& works) const {
  std::vector<Samples> samples(works.size());
  for (const Work& work : works) work();
  wait();
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < works.size(); ++i) samples[i].push_back(seconds(works[i]));
  return samples;
}

Graph::Graph(const Gpu& gpu, const Work& work) : gpu_(gpu) {
  const auto& call = gpu.call();
  gpu.must(call.cuStreamBeginCapture(gpu.stream(), cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "beginning a capture");
  work();
  cuda::CUgraph graph = nullptr;
  gpu.must(call.cuStreamEndCapture(gpu.stream(), &graph), "ending a capture");
  const cuda::CUresult made = call.cuGraphInstantiateWithFlags(&exec_, graph, 0);
  call.cuGraphDestroy(graph);
  gpu.must(made, "making a graph");
}

Graph::~Graph() { gpu_.call().cuGraphExecDestroy(exec_); }

void Gpu::upload(const Buffer& buffer, const void* data, size_t bytes) const {
  must(call().cuMemcpyHtoD(buffer.address(), data, bytes), "copying to the device");
}

void Gpu::fill(const Buffer& buffer, ElementType type, double scale) const {
  const size_t width = type == ElementType::F32 ? 4 : 2, all = static_cast<size_t>(buffer.bytes());
  const size_t first = std::min(all, kPatternElements * width);
  const auto values = pattern(first / width, type, scale);
  upload(buffer, values.data(), values.size());
  for (size_t at = first; at < all; at += first)
    must(call().cuMemcpyDtoDAsync(buffer.address() + at, buffer.address(), std::min(first, all - at), stream_),
         "copying on the device");
  wait();
}

}  // namespace stepfuse::gpu_check
