// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/prepared.h"
#include "runtime/cuda/step_launches.h"
#include "runtime/cuda/upload_ring.h"
#include "runtime/cuda_backend.h"
#include "runtime/fresh_states.h"
#include "runtime/plan_kernels.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace stepfuse::runtime {

using codegen::CudaParameterState;
using compiler::StepKind;

namespace {

/// Calls that are "potentially unsafe" while a stream captures are safe on a stream of our own.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    driver_.call().cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { driver_.call().cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  cuda::CUstreamCaptureMode mode_ = cuda::CU_STREAM_CAPTURE_MODE_RELAXED;
};

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
               CudaMemory& device, const Context& context)
      : plan_(plan), parameters_(parameters), device_(device), driver_(device.driver()), context_(context) {}

  ~CudaExecutor() override {
    const auto scope = CurrentContext::enter(device_.context());
    if (!scope) {  // in a forked child the device is out of reach, for cuBLASLt too
      static_cast<void>(lt_.release());
      return;
    }
    driver_.call().cuCtxSynchronize();
    release();
  }

  Outcome prepare(const Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(device_.context()));
    STEPFUSE_ASSIGN(cuda_, prepare_cuda_plan({plan_, device_, context_, progress, report_}));
    for (const CudaGroup& group : cuda_.groups) {
      STEPFUSE_TRY(codegen::encode_scalars(*group.scalars).map([](const auto&) {}));
      STEPFUSE_TRY(check_factors(group));
    }
    STEPFUSE_TRY(prepare_memory());
    STEPFUSE_TRY(record_plan_shapes(plan_, parameters_, context_));
    report_.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {};
  }

  Result<StepEffect> run(std::span<const MemberBinding> parameters, void* stream) override {
    auto* on = static_cast<cuda::CUstream>(stream);
    STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(device_.context()));
    if (on != last_stream_ || on == nullptr) STEPFUSE_TRY(device_.context().check_stream(on));
    if (plan_.launches.empty()) return StepEffect::Taken;
    STEPFUSE_ASSIGN(const bool captures, is_capturing(on));
    if (captures) return record(parameters, on);
    STEPFUSE_TRY(follow(on));
    STEPFUSE_TRY(clear_states(parameters, on));
    STEPFUSE_TRY(update(parameters, on));
    STEPFUSE_TRY(launch(on));
    return StepEffect::Taken;
  }

  Outcome refresh(std::span<const MemberBinding> parameters, void* stream) override {
    auto* on = static_cast<cuda::CUstream>(stream);
    STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(device_.context()));
    STEPFUSE_TRY(device_.context().check_stream(on));
    if (!recorded_ || plan_.launches.empty()) return {};
    STEPFUSE_ASSIGN(const bool captures, is_capturing(on));
    if (captures)
      return with_hint(fail(StatusCode::InvalidArgument, "refresh while the stream is capturing"),
                       "refresh between replays of the captured graph");
    STEPFUSE_TRY(clear_states(parameters, on));
    STEPFUSE_TRY(update(parameters, on));
    if (report_.graphs == recorded_graphs_) return {};
    return with_hint(
        fail(StatusCode::Failed, "the captured step no longer fits what is bound and set"),
        "capture the step again: tensors moved to other alignments, or hyperparameters of one group differ "
        "now between its parameters");
  }

  bool counts_steps() const override { return recorded_; }

  Outcome read_steps(std::span<int64_t> steps) override {
    std::vector<CudaParameterState> states(parameters_.size());
    STEPFUSE_TRY(device_.read(states.data(), block_.get() + memory_.states, state_bytes()));
    for (size_t p = 0; p < steps.size(); ++p)
      if (in_plan_[p]) steps[p] = states[p].steps;
    return {};
  }

  ExecutorReport report() const override {
    ExecutorReport report = report_;
    report.table_copies = ring_.copies();
    report.host_syncs += ring_.waits();
    return report;
  }
  compiler::BackendNotes notes() const override { return {}; }
  std::vector<Entry> product_entries() const override {
    return product_cache_ ? product_cache_->entries() : std::vector<Entry>();
  }

 private:
  void release() {
    graph_ = {};
    streams_ = {};
    ring_ = {};
    block_ = {};
    products_.reset();
    product_cache_.reset();
    lt_.reset();
    cuda_ = {};
  }

  Outcome prepare_memory() {
    const auto has_products = [](const CudaGroup& group) {
      return std::any_of(group.steps.begin(), group.steps.end(),
                         [](const CudaStep& step) { return step.kind == StepKind::Product; });
    };
    std::vector<int64_t> workspace(plan_.branches.size(), 0);
    if (std::any_of(cuda_.groups.begin(), cuda_.groups.end(), has_products)) {
      STEPFUSE_ASSIGN(lt_, Lt::open(context_.settings()));
      product_cache_.emplace(context_, device_.context().device(), *lt_);
      products_.emplace(*product_cache_, cuda_.groups, plan_.mode);
      const StepMemory sizes = lay_out_step(plan_, cuda_.groups, parameters_, workspace);
      STEPFUSE_ASSIGN(workspace, products_->prepare(sizes));
    }
    memory_ = lay_out_step(plan_, cuda_.groups, parameters_, workspace);
    STEPFUSE_ASSIGN(block_, DeviceMemory::create(device_, memory_.total_bytes, "the workspace of a step"));
    report_.workspace_bytes = memory_.total_bytes;
    STEPFUSE_TRY(
        driver_.check(driver_.call().cuMemsetD8Async(address(memory_.tickets), 0,
                                                     static_cast<size_t>(memory_.ticket_bytes), device_.own_stream()),
                      "clearing tickets"));
    STEPFUSE_TRY(driver_.check(driver_.call().cuStreamSynchronize(device_.own_stream()), "clearing tickets"));
    STEPFUSE_ASSIGN(streams_, BranchStreams::create(driver_, plan_.branches.size()));
    STEPFUSE_ASSIGN(ring_, UploadRing::create(driver_, memory_.user_bytes + state_bytes()));
    tables_.emplace(cuda_.groups, memory_, block_.address());
    sets_.emplace(cuda_.groups, parameters_.size());
    states_.resize(parameters_.size());
    group_of_.assign(parameters_.size(), 0);
    pointers_.resize(parameters_.size());
    in_plan_.assign(parameters_.size(), false);
    for (uint32_t g = 0; g < plan_.groups.size(); ++g)
      for (const uint32_t member : plan_.groups[g].members) {
        group_of_[member] = g;
        in_plan_[member] = true;
      }
    return {};
  }

  cuda::CUdeviceptr address(int64_t offset) const { return block_.address() + static_cast<uint64_t>(offset); }
  int64_t state_bytes() const { return static_cast<int64_t>(parameters_.size() * sizeof(CudaParameterState)); }

  Result<bool> is_capturing(cuda::CUstream stream) const {
    cuda::CUstreamCaptureStatus status{};
    STEPFUSE_TRY(driver_.check(driver_.call().cuStreamIsCapturing(stream, &status), "looking at the stream"));
    if (status == cuda::CU_STREAM_CAPTURE_STATUS_INVALIDATED)
      return with_hint(fail(StatusCode::InvalidArgument, "the stream's capture has failed already"),
                       "end the capture, and look for the call that made it invalid");
    return status == cuda::CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }

  /// A step on another stream than the last waits for it: both use the same scratch.
  Outcome follow(cuda::CUstream stream) {
    if (last_stream_ != nullptr && last_stream_ != stream) {
      ++report_.host_syncs;
      STEPFUSE_TRY(driver_.check(driver_.call().cuCtxSynchronize(), "waiting for the step on another stream"));
    }
    last_stream_ = stream;
    return {};
  }

  /// The step goes into the caller's graph. Tables and hyperparameters are brought to the device beside it.
  Result<StepEffect> record(std::span<const MemberBinding> parameters, cuda::CUstream stream) {
    recorded_ = true;
    {
      const RelaxedCapture relaxed(driver_);
      STEPFUSE_TRY(clear_states(parameters, device_.own_stream()));
      STEPFUSE_TRY(update(parameters, device_.own_stream()));
      STEPFUSE_TRY(
          driver_.check(driver_.call().cuStreamSynchronize(device_.own_stream()), "bringing tables to the device"));
    }
    recorded_graphs_ = report_.graphs;
    PrologueLaunch prologue = prologue_;
    prologue.more = address(memory_.more);
    STEPFUSE_TRY(streams_.enqueue(prologue, launches_, stream, [] { return Outcome(); }));
    report_.last_step = launches_.counts;
    return StepEffect::Recorded;
  }

  Outcome clear_states(std::span<const MemberBinding> parameters, cuda::CUstream stream) {
    const auto asks = [](const MemberBinding& binding) { return binding.active && binding.clear_states; };
    if (std::none_of(parameters.begin(), parameters.end(), asks)) return {};
    Outcome outcome;
    for (const StridedTensor& piece : states_to_clear(parameters_, parameters))
      for_each_run(piece, [&](int64_t offset, int64_t bytes) {
        if (outcome)
          outcome = driver_.check(
              driver_.call().cuMemsetD8Async(address_of(piece.data + offset), 0, static_cast<size_t>(bytes), stream),
              "clearing states");
      });
    return outcome;
  }

  /// Brings what has changed since the last step to the device.
  Outcome update(std::span<const MemberBinding> parameters, cuda::CUstream stream) {
    bool rebuild = !built_;
    if (built_) {
      const ScalarSets::Change change = sets_->update(parameters);
      rebuild = change == ScalarSets::Change::Sets;
      if (change == ScalarSets::Change::Values) graph_is_behind_ = memory_is_behind_ = true;
    }
    for (uint32_t p = 0; p < parameters.size(); ++p)
      if (in_plan_[p] && !update_pointers(p, parameters[p])) rebuild = true;
    if (rebuild) {
      STEPFUSE_TRY(build(parameters, stream));
    } else {
      if (memory_is_behind_ && reads_more()) write_more();
      STEPFUSE_TRY(upload_changes(stream));
    }
    STEPFUSE_TRY(update_states(parameters, stream));
    return ring_.finish(stream);
  }

  /// Whether hyperparameters are read from memory: they are too many to come by value, or a graph of the caller's reads
  /// them.
  bool reads_more() const { return recorded_ || sets_->values().size() > prologue_.hypers.value.size(); }

  void write_more() {
    tables_->write_more(sets_->values());
    memory_is_behind_ = false;
  }

  /// False if the launches no longer fit.
  bool update_pointers(uint32_t p, const MemberBinding& binding) {
    CudaPointers& known = pointers_[p];
    const auto same = [](DeviceAddress a, const void* b) { return a == address_of(b); };
    if (known.active == binding.active &&
        std::equal(known.inputs.begin(), known.inputs.end(), binding.inputs.begin(), binding.inputs.end(), same))
      return true;
    known.active = binding.active;
    known.inputs.resize(binding.inputs.size());
    for (size_t i = 0; i < binding.inputs.size(); ++i) known.inputs[i] = address_of(binding.inputs[i]);
    return built_ && tables_->update(p, known);
  }

  Outcome upload_changes(cuda::CUstream stream) {
    const TableRange range = tables_->take_changes();
    if (range.empty()) return {};
    return ring_.copy(address(range.begin), tables_->image().data() + range.begin, range.end - range.begin, stream);
  }

  /// Tables and launches anew.
  Outcome build(std::span<const MemberBinding> parameters, cuda::CUstream stream) {
    built_ = false;
    graph_ = {};
    sets_->form(parameters);
    tables_->fill(pointers_, *sets_);
    write_more();
    tables_->take_changes();
    const std::vector<std::byte>& image = tables_->image();
    STEPFUSE_TRY(driver_.check(driver_.call().cuMemcpyHtoDAsync(address(0), image.data(), image.size(), stream),
                               "copying tables to the device"));
    StepProducts* products = products_ ? &*products_ : nullptr;
    STEPFUSE_ASSIGN(launches_, list_launches({cuda_.groups, memory_, block_.address(), products, pointers_, *sets_}));
    prologue_.function = cuda_.prologue.handle;
    prologue_.row_count = memory_.prologue_row_count;
    prologue_.blocks = (prologue_.row_count + codegen::kCudaPrologueThreads - 1) / codegen::kCudaPrologueThreads;
    prologue_.rows = address(memory_.prologue_rows);
    prologue_.programs = address(memory_.program_table);
    prologue_.states = address(memory_.states);
    prologue_.active = address(memory_.active);
    ++report_.graphs;
    built_ = true;
    return {};
  }

  /// Steps and absent states that the host has set; otherwise the device counts.
  Outcome update_states(std::span<const MemberBinding> parameters, cuda::CUstream stream) {
    const auto set = [&](size_t p) { return in_plan_[p] && parameters[p].counts_changed; };
    for (size_t first = 0, end = 0; first < parameters.size(); first = end) {
      end = first + 1;
      if (!set(first)) continue;
      for (; end < parameters.size() && set(end);) ++end;
      for (size_t p = first; p < end; ++p) states_[p] = parameter_state(cuda_.groups[group_of_[p]], parameters[p]);
      STEPFUSE_TRY(ring_.copy(address(memory_.states) + first * sizeof(CudaParameterState), &states_[first],
                              static_cast<int64_t>((end - first) * sizeof(CudaParameterState)), stream));
    }
    return {};
  }

  Outcome launch(cuda::CUstream stream) {
    const std::vector<double>& values = sets_->values();
    const bool by_value = values.size() <= prologue_.hypers.value.size();
    if (by_value && (!graph_ || graph_is_behind_))
      std::copy(values.begin(), values.end(), prologue_.hypers.value.begin());
    prologue_.more = by_value ? 0 : address(memory_.more);
    if (!graph_) {
      STEPFUSE_ASSIGN(graph_, StepGraph::capture(driver_, streams_, prologue_, launches_, device_.own_stream()));
    } else if (by_value && graph_is_behind_) {
      STEPFUSE_TRY(graph_.set_hypers(prologue_));
    }
    graph_is_behind_ = false;
    STEPFUSE_TRY(graph_.launch(stream));
    ++report_.graph_launches;
    report_.last_step = launches_.counts;
    return {};
  }

  const compiler::StepPlan& plan_;
  const std::vector<compiler::PlannedParameter>& parameters_;
  CudaMemory& device_;
  const Driver& driver_;
  const Context& context_;
  ExecutorReport report_;

  CudaPlan cuda_;
  std::unique_ptr<const Lt> lt_;
  std::optional<ProductCache> product_cache_;
  std::optional<StepProducts> products_;
  StepMemory memory_;
  DeviceMemory block_;
  BranchStreams streams_;
  UploadRing ring_;
  std::optional<StepTables> tables_;
  std::optional<ScalarSets> sets_;
  PrologueLaunch prologue_;
  StepLaunches launches_;
  StepGraph graph_;

  bool built_ = false;           // tables and launches are there
  bool recorded_ = false;        // a caller has captured a step
  int64_t recorded_graphs_ = 0;  // report_.graphs then: tables made anew later do not fit what was captured
  // Hyperparameters have changed since our graph got them, and since memory did: each is brought up to date when it is
  // next used, whether by a step of ours, a capture or a refresh.
  bool graph_is_behind_ = false, memory_is_behind_ = false;
  cuda::CUstream last_stream_ = nullptr;
  std::vector<CudaPointers> pointers_;      // as the tables have them
  std::vector<CudaParameterState> states_;  // as they were set last
  std::vector<bool> in_plan_;               // by parameter; empty ones are not
  std::vector<uint32_t> group_of_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int ordinal, const Context& context) {
  STEPFUSE_ASSIGN(std::unique_ptr<CudaMemory> device, CudaMemory::open(ordinal, context));
  return std::unique_ptr<Device>(std::move(device));
}

Result<std::unique_ptr<Executor>> make_cuda_executor(const compiler::StepPlan& plan,
                                                     const std::vector<compiler::PlannedParameter>& parameters,
                                                     Device& device, const Context& context, const Progress& progress) {
  // Only open_cuda_device() makes devices of a CUDA target.
  auto executor = std::make_unique<CudaExecutor>(plan, parameters, static_cast<CudaMemory&>(device), context);
  STEPFUSE_TRY(executor->prepare(progress));
  return executor;
}

}  // namespace stepfuse::runtime
