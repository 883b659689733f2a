// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/step_launches.h"

#include <utility>

namespace stepfuse::runtime {

using codegen::CudaChunk;
using compiler::StepKind;

namespace {

unsigned pieces(int64_t count, unsigned size) { return static_cast<unsigned>((count + size - 1) / size); }

class Lister {
 public:
  explicit Lister(const LaunchContext& context) : context_(context) {}

  Result<StepLaunches> run() {
    for (const CudaBranch& branch : context_.memory.branches) {
      out_.branches.emplace_back();
      for (const CudaBatch& batch : branch.batches)
        for (size_t s = 0; s < batch.steps.size(); ++s) STEPFUSE_TRY(list_step(branch, batch, s));
    }
    ++out_.counts.aux;  // the prologue
    return std::move(out_);
  }

 private:
  Outcome list_step(const CudaBranch& branch, const CudaBatch& batch, size_t s) {
    const CudaStep& step = context_.groups[batch.group].steps[s];
    const StepTable& table = batch.steps[s];
    if (step.kind == StepKind::Product) return list_product(branch, batch, s);
    for (size_t p = 0; p < step.phases.size(); ++p) list_phase(step.phases[p], table.kernels[p]);
    if (step.mover.handle != nullptr)
      out_.counts.aux += list(step.mover, 1, table.kernels.front(), 0, table.kernels.front().aligned_chunks);
    return {};
  }

  void list_phase(const CudaPhase& phase, const KernelTable& table) {
    const auto blocks_of = [&](bool aligned) {
      return codegen::cuda_geometry(phase.lowered.spec, {.aligned = aligned}).chunks_per_block;
    };
    out_.counts.elementwise += list(phase.aligned, blocks_of(true), table, 0, table.aligned_chunks);
    out_.counts.elementwise += list(phase.generic, blocks_of(false), table, table.aligned_chunks, table.chunk_count);
  }

  /// Launches, none or one.
  int64_t list(const CudaFunction& function, unsigned chunks_per_block, const KernelTable& table, int64_t begin,
               int64_t end) {
    if (begin == end) return 0;
    out_.branches.back().push_back(ChunkLaunch{
        function.handle, pieces(end - begin, chunks_per_block),
        context_.base + static_cast<uint64_t>(table.chunks) + static_cast<uint64_t>(begin) * sizeof(CudaChunk),
        static_cast<unsigned>(end - begin), context_.base + static_cast<uint64_t>(table.rows)});
    return 1;
  }

  Outcome list_product(const CudaBranch& branch, const CudaBatch& batch, size_t s) {
    STEPFUSE_ASSIGN(
        const std::vector<ProductRun> runs,
        context_.products->runs(context_.memory, branch, batch, s, context_.base, context_.pointers, context_.sets));
    for (const ProductRun& run : runs) out_.branches.back().push_back(run);
    out_.counts.gemms += static_cast<int64_t>(runs.size());
    return {};
  }

  const LaunchContext& context_;
  StepLaunches out_;
};

}  // namespace

Result<StepLaunches> list_launches(const LaunchContext& context) { return Lister(context).run(); }

Outcome ChunkLaunch::enqueue(const Driver& driver, cuda::CUstream stream) const {
  DeviceAddress chunk_table = chunks, row_table = rows;
  unsigned count = chunk_count;
  std::array<void*, 3> arguments{&chunk_table, &count, &row_table};
  return driver.check(driver.call().cuLaunchKernel(function, blocks, 1, 1, codegen::kCudaBlockThreads, 1, 1, 0, stream,
                                                   arguments.data(), nullptr),
                      "launching a kernel");
}

Outcome PrologueLaunch::enqueue(const Driver& driver, cuda::CUstream stream) {
  auto all = arguments();
  return driver.check(driver.call().cuLaunchKernel(function, blocks, 1, 1, codegen::kCudaPrologueThreads, 1, 1, 0,
                                                   stream, all.data(), nullptr),
                      "launching the scalars");
}

Outcome PrologueLaunch::update(const Driver& driver, cuda::CUgraphExec graph, cuda::CUgraphNode node) {
  auto all = arguments();
  cuda::CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = function;
  parameters.gridDimX = blocks;
  parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = codegen::kCudaPrologueThreads;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = all.data();
  return driver.check(driver.call().cuGraphExecKernelNodeSetParams(graph, node, &parameters),
                      "changing the hyperparameters of a graph");
}

Result<BranchStreams> BranchStreams::create(const Driver& driver, size_t branches) {
  BranchStreams out;
  out.driver_ = &driver;
  const DriverFunctions& call = driver.call();
  if (branches < 2) return out;
  STEPFUSE_TRY(driver.check(call.cuEventCreate(&out.fork_, cuda::CU_EVENT_DISABLE_TIMING), "making an event"));
  for (size_t b = 1; b < branches; ++b) {
    STEPFUSE_TRY(driver.check(call.cuStreamCreate(&out.streams_.emplace_back(nullptr), cuda::CU_STREAM_NON_BLOCKING),
                              "making a stream"));
    STEPFUSE_TRY(driver.check(call.cuEventCreate(&out.joins_.emplace_back(nullptr), cuda::CU_EVENT_DISABLE_TIMING),
                              "making an event"));
  }
  return out;
}

void BranchStreams::swap(BranchStreams& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(streams_, other.streams_);
  std::swap(fork_, other.fork_);
  std::swap(joins_, other.joins_);
}

BranchStreams::~BranchStreams() {
  if (driver_ == nullptr || !driver_->check_process()) return;  // a forked child leaves them to its parent
  for (const cuda::CUstream stream : streams_)
    if (stream != nullptr) driver_->call().cuStreamDestroy(stream);
  for (const cuda::CUevent event : joins_)
    if (event != nullptr) driver_->call().cuEventDestroy(event);
  if (fork_ != nullptr) driver_->call().cuEventDestroy(fork_);
}

Outcome BranchStreams::enqueue_branch(const std::vector<AnyLaunch>& launches, cuda::CUstream stream) const {
  for (const AnyLaunch& launch : launches) {
    const auto* chunks = std::get_if<ChunkLaunch>(&launch);
    STEPFUSE_TRY(chunks != nullptr ? chunks->enqueue(*driver_, stream) : std::get<ProductRun>(launch).enqueue(stream));
  }
  return {};
}

Outcome BranchStreams::enqueue(PrologueLaunch& prologue, const StepLaunches& launches, cuda::CUstream stream,
                               const std::function<Outcome()>& after_prologue) const {
  const DriverFunctions& call = driver_->call();
  STEPFUSE_TRY(prologue.enqueue(*driver_, stream));
  STEPFUSE_TRY(after_prologue());
  if (!streams_.empty()) STEPFUSE_TRY(driver_->check(call.cuEventRecord(fork_, stream), "forking a step"));
  for (const cuda::CUstream branch : streams_)
    STEPFUSE_TRY(driver_->check(call.cuStreamWaitEvent(branch, fork_, 0), "forking a step"));
  for (size_t b = 0; b < launches.branches.size(); ++b)
    STEPFUSE_TRY(enqueue_branch(launches.branches[b], b == 0 ? stream : streams_[b - 1]));
  for (size_t b = 0; b < streams_.size(); ++b) {
    STEPFUSE_TRY(driver_->check(call.cuEventRecord(joins_[b], streams_[b]), "joining a step"));
    STEPFUSE_TRY(driver_->check(call.cuStreamWaitEvent(stream, joins_[b], 0), "joining a step"));
  }
  return {};
}

Result<StepGraph> StepGraph::capture(const Driver& driver, const BranchStreams& streams, PrologueLaunch& prologue,
                                     const StepLaunches& launches, cuda::CUstream stream) {
  StepGraph out;
  out.driver_ = &driver;
  const DriverFunctions& call = driver.call();
  STEPFUSE_TRY(driver.check(call.cuStreamBeginCapture(stream, cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                            "beginning to capture a step"));
  const Outcome queued = streams.enqueue(prologue, launches, stream, [&]() -> Outcome {
    const cuda::CUgraphNode* last = nullptr;
    size_t count = 0;
    cuda::CUstreamCaptureStatus status{};
    STEPFUSE_TRY(driver.check(call.cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, &count),
                              "looking at a captured step"));
    STEPFUSE_CHECK(count == 1, "the prologue is {} nodes", count);
    out.prologue_ = last[0];
    return {};
  });
  // Ended in any case: a stream that captures on is lost.
  const cuda::CUresult ended = call.cuStreamEndCapture(stream, &out.graph_);
  STEPFUSE_TRY(queued);
  STEPFUSE_TRY(driver.check(ended, "capturing a step"));
  STEPFUSE_TRY(driver.check(call.cuGraphInstantiateWithFlags(&out.exec_, out.graph_, 0), "making a step's graph"));
  return out;
}

void StepGraph::swap(StepGraph& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(graph_, other.graph_);
  std::swap(exec_, other.exec_);
  std::swap(prologue_, other.prologue_);
}

StepGraph::~StepGraph() {
  if (driver_ == nullptr || !driver_->check_process()) return;  // a forked child leaves it to its parent
  if (exec_ != nullptr) driver_->call().cuGraphExecDestroy(exec_);
  if (graph_ != nullptr) driver_->call().cuGraphDestroy(graph_);
}

Outcome StepGraph::launch(cuda::CUstream stream) const {
  return driver_->check(driver_->call().cuGraphLaunch(exec_, stream), "launching a step");
}

}  // namespace stepfuse::runtime
