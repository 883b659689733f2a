// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What it costs to launch: a graph of N kernels in a row, or N kernels one by one, for the host and for the device.
#include "bench/gpu/parts.h"
#include "runtime/cuda/cuda_architectures.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/nvrtc.h"

#include <chrono>

namespace stepfuse::gpu_check {

namespace {

constexpr const char* kSource = R"(
extern "C" __global__ void count_up(unsigned* counter) {
  if (threadIdx.x == 0) *counter += 1;
}
)";

/// The best of what the device runs that this NVRTC compiles for.
runtime::CudaArch arch_for(const runtime::Nvrtc& nvrtc, int capability) {
  for (const runtime::CudaArch& arch : runtime::archs_for_device(capability))
    if (nvrtc.check_arch(arch)) return arch;
  throw std::runtime_error(fmt::format("NVRTC {} compiles nothing that this device runs", nvrtc.version()));
}

/// A kernel that does next to nothing, and the counter that shows it ran.
class Probe {
 public:
  explicit Probe(const Gpu& gpu) : gpu_(gpu), counter_(gpu, 4) {
    const runtime::Nvrtc* nvrtc = must(runtime::Nvrtc::open(gpu.settings()));
    auto binary = must(nvrtc->compile(kSource, "count_up", {}, arch_for(*nvrtc, gpu.device().capability)));
    kernel_ = std::make_unique<runtime::CudaKernel>("count_up", std::move(binary.cubin), std::move(binary.ptx));
    function_ = must(kernel_->function(gpu.driver()));
    const uint32_t zero = 0;
    gpu.upload(counter_, &zero, sizeof zero);
  }

  void launch() const {
    uint64_t address = counter_.address();
    void* parameters[] = {&address};
    gpu_.must(gpu_.call().cuLaunchKernel(function_, 1, 1, 1, 32, 1, 1, 0, gpu_.stream(), parameters, nullptr),
              "launching a kernel");
  }
  uint32_t count() const {
    uint32_t value = 0;
    gpu_.wait();
    gpu_.must(gpu_.call().cuMemcpyDtoH(&value, counter_.address(), sizeof value), "reading a counter");
    return value;
  }

 private:
  const Gpu& gpu_;
  Buffer counter_;
  std::unique_ptr<runtime::CudaKernel> kernel_;
  cuda::CUfunction function_ = nullptr;
};

struct Times {
  Samples host, device;
};

Times measure(const Bench& bench, const Work& work) {
  Times times;
  work();
  bench.gpu.wait();
  for (int round = 0; round < bench.rounds; ++round) {
    double host = 0;
    times.device.push_back(bench.gpu.seconds([&] {
      const auto begin = std::chrono::steady_clock::now();
      work();
      host = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }));
    times.host.push_back(host);
  }
  return times;
}

}  // namespace

void measure_launches(const Bench& bench) {
  const Probe probe(bench.gpu);
  uint32_t expected = 0;
  for (const int nodes : bench.is_short ? std::vector<int>{1, 10} : std::vector<int>{1, 10, 100, 1000}) {
    const Graph graph(bench.gpu, [&] {
      for (int i = 0; i < nodes; ++i) probe.launch();
    });
    const Times by_graph = measure(bench, [&] { graph.launch(); });
    const Times one_by_one = measure(bench, [&] {
      for (int i = 0; i < nodes; ++i) probe.launch();
    });
    expected += static_cast<uint32_t>(2 * nodes * (bench.rounds + 1));
    bench.report.figure(fmt::format("graph of {} kernels in a row, host", nodes), "s", by_graph.host);
    bench.report.figure(fmt::format("graph of {} kernels in a row, device", nodes), "s", by_graph.device);
    bench.report.figure(fmt::format("{} kernels one by one, host", nodes), "s", one_by_one.host);
    bench.report.figure(fmt::format("{} kernels one by one, device", nodes), "s", one_by_one.device);
  }
  if (const uint32_t count = probe.count(); count != expected)
    throw std::runtime_error(fmt::format("{} kernels ran of {} that were launched", count, expected));
}

}  // namespace stepfuse::gpu_check
