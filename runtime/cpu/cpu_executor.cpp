// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory.h"
#include "runtime/aligned_memory.h"
#include "runtime/cpu/float_environment.h"
#include "runtime/cpu/prepared.h"
#include "runtime/cpu/run_fused.h"
#include "runtime/cpu/run_moves.h"
#include "runtime/cpu/run_product.h"
#include "runtime/cpu/shape_entries.h"
#include "runtime/executor.h"
#include "runtime/fresh_states.h"

#include <algorithm>
#include <chrono>

namespace stepfuse::runtime {

using compiler::GroupPlan;
using compiler::Launch;
using compiler::StepKind;

namespace {

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
              CpuTarget target, int threads, const Context& context)
      : plan_(plan), parameters_(parameters), target_(std::move(target)), pool_(threads), context_(context) {}

  Outcome prepare(const Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    STEPFUSE_ASSIGN(groups_,
                    prepare_groups({plan_, target_, pool_, notes_, report_.compiled_kernels, context_, progress}));
    STEPFUSE_TRY(allocate_all());
    record_shape_entries(plan_, parameters_, target_, groups_, context_);
    report_.reused_kernels = count_phases() - report_.compiled_kernels;
    report_.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {};
  }

  Result<StepEffect> run(std::span<const MemberBinding> parameters, void*) override {
    // The scalars and the last sums of reductions run on this thread, outside the pool.
    const FloatEnvironment environment;
    report_.last_step = {};
    clear_states(parameters);
    size_t at = 0;
    while (at < plan_.launches.size()) {
      const Launch& first = plan_.launches[at];
      const size_t steps = plan_.groups[first.group].steps.size();
      run_batch(first, steps, parameters);
      at += steps;
    }
    return {};
  }

  ExecutorReport report() const override { return report_; }
  compiler::BackendNotes notes() const override { return notes_; }

 private:
  int64_t count_phases() const {
    int64_t count = 0;
    for (const PreparedGroup& group : groups_)
      for (const PreparedStep& step : group.steps) count += static_cast<int64_t>(step.phases.size());
    return count;
  }

  int64_t elements_of(const GroupPlan& group, size_t member) const {
    return compiler::element_count(parameters_[group.members[member]].shape);
  }

  /// Most partials that any phase of the group needs for this member.
  int64_t member_partials(const PreparedGroup& group, int64_t elements) const {
    int64_t most = 0;
    for (const PreparedStep& step : group.steps)
      for (const PreparedPhase& phase : step.phases)
        most = std::max(most, codegen::partial_count(phase.lowered, elements));
    return most;
  }

  Outcome allocate_all() {
    int64_t partials = 0;
    size_t members = 0;
    size_t slots = 0;
    size_t registers = 0;
    size_t hypers = 0;
    size_t fresh = 0;
    size_t gemm_scratch = 0;
    for (const PreparedGroup& group : groups_) {
      const GroupPlan& plan = *group.plan;
      const auto batch = static_cast<size_t>(plan.members_per_batch);
      int64_t group_partials = 0;
      for (size_t m = 0; m < plan.members.size(); ++m) {
        group_partials = std::max(group_partials, member_partials(group, elements_of(plan, m)));
        lane_offsets_.push_back(compiler::lane_offsets(plan, elements_of(plan, m)));
      }
      partials = std::max(partials, group_partials * static_cast<int64_t>(batch));
      partial_stride_.push_back(group_partials);
      members = std::max(members, batch);
      slots = std::max(slots, group.scalars->num_slots() * batch);
      registers = std::max(registers, group.scalars->num_registers());
      hypers = std::max(hypers, group.hyper_index.size());
      fresh = std::max(fresh, group.fresh_index.size());
      for (const PreparedStep& step : group.steps)
        if (step.gemm != nullptr) gemm_scratch = std::max(gemm_scratch, step.gemm->scratch_bytes());
    }
    members_.reserve(members);
    first_task_.resize(members + 1);
    slots_.resize(slots);
    registers_.resize(registers);
    hypers_.resize(hypers);
    fresh_ = std::make_unique<bool[]>(fresh);
    fresh_count_ = fresh;
    return allocate_memory(partials * static_cast<int64_t>(sizeof(double)), static_cast<int64_t>(gemm_scratch));
  }

  Outcome allocate_memory(int64_t partial_bytes, int64_t gemm_scratch) {
    const Allocator& allocator = context_.allocator();
    STEPFUSE_ASSIGN(workspace_, AlignedMemory::create(allocator, plan_.workspace_bytes, "the workspace"));
    STEPFUSE_ASSIGN(partials_, AlignedMemory::create(allocator, partial_bytes, "the sums of reductions"));
    constexpr int64_t kAlignment = AlignedMemory::kAlignment;
    const int64_t stride = (gemm_scratch + kAlignment - 1) / kAlignment * kAlignment;
    STEPFUSE_ASSIGN(gemm_scratch_, AlignedMemory::create(allocator, stride * pool_.threads(), "scratch of products"));
    for (int t = 0; t < pool_.threads(); ++t) thread_scratch_.push_back(gemm_scratch_.get() + t * stride);
    report_.workspace_bytes = plan_.workspace_bytes + partial_bytes + stride * pool_.threads();
    return {};
  }

  /// Before the first step of a parameter, and on all threads: they touch the pages first.
  void clear_states(std::span<const MemberBinding> parameters) {
    const auto asks = [](const MemberBinding& binding) { return binding.active && binding.clear_states; };
    if (std::none_of(parameters.begin(), parameters.end(), asks)) return;
    std::vector<StridedTensor> pieces = states_to_clear(parameters_, parameters);
    pool_.run(
        static_cast<int64_t>(pieces.size()),
        [](void* data, int64_t index, int) {
          clear((*static_cast<const std::vector<StridedTensor>*>(data))[static_cast<size_t>(index)]);
        },
        &pieces);
  }

  void run_batch(const Launch& first, size_t steps, std::span<const MemberBinding> parameters) {
    const PreparedGroup& group = groups_[first.group];
    gather_members(first, group, parameters);
    if (members_.empty()) return;
    for (size_t s = 0; s < steps; ++s) run_step(*group.plan, group.steps[s]);
  }

  /// The batch's members that have a gradient, with their memory and scalars.
  void gather_members(const Launch& launch, const PreparedGroup& group, std::span<const MemberBinding> parameters) {
    members_.clear();
    const GroupPlan& plan = *group.plan;
    std::byte* scratch = workspace_.get();
    size_t first_offsets = 0;
    for (uint32_t g = 0; g < launch.group; ++g) first_offsets += plan_.groups[g].members.size();
    for (size_t m = launch.first_member; m < launch.first_member + launch.count; ++m) {
      const MemberBinding& binding = parameters[plan.members[m]];
      if (!binding.active) continue;
      const int64_t elements = elements_of(plan, m);
      MemberMemory member;
      member.binding = &binding;
      member.scratch = scratch;
      member.lane_offsets = lane_offsets_[first_offsets + m].data();
      member.partials = reinterpret_cast<double*>(partials_.get()) +
                        static_cast<int64_t>(members_.size()) * partial_stride_[launch.group];
      member.elements = elements;
      member.scalars = scalars_of(group, binding);
      members_.push_back(member);
      scratch += compiler::member_bytes(plan, elements);
    }
  }

  /// Evaluates the scalar graph, or takes over the previous member's results when nothing it reads differs.
  const double* scalars_of(const PreparedGroup& group, const MemberBinding& binding) {
    if (!members_.empty() && same_scalars(*members_.back().binding, binding)) return members_.back().scalars;
    for (size_t i = 0; i < group.hyper_index.size(); ++i) hypers_[i] = binding.hypers[group.hyper_index[i]];
    for (size_t i = 0; i < group.fresh_index.size(); ++i) fresh_[i] = binding.fresh[group.fresh_index[i]] != 0;
    double* slots = slots_.data() + members_.size() * group.scalars->num_slots();
    group.scalars->run(hypers_, binding.step, {fresh_.get(), fresh_count_}, registers_,
                       {slots, group.scalars->num_slots()});
    return slots;
  }

  static bool same_scalars(const MemberBinding& a, const MemberBinding& b) {
    return a.step == b.step && a.hypers == b.hypers && a.fresh == b.fresh;
  }

  void run_step(const GroupPlan& plan, const PreparedStep& step) {
    switch (step.kind) {
      case StepKind::Fused:
        run_fused(plan, step, members_, pool_, first_task_);
        ++report_.last_step.elementwise;
        return;
      case StepKind::Product:
        run_product(plan, step, members_, pool_, thread_scratch_);
        ++report_.last_step.gemms;
        return;
      case StepKind::AddDiag:
      case StepKind::Concat:
      case StepKind::Copy:
        run_moves(plan, step);
        ++report_.last_step.aux;
        return;
    }
  }

  void run_moves(const GroupPlan& plan, const PreparedStep& step) {
    struct Moves {
      const GroupPlan& plan;
      const PreparedStep& step;
      const std::vector<MemberMemory>& members;
    } moves{plan, step, members_};
    pool_.run(
        static_cast<int64_t>(members_.size()),
        [](void* data, int64_t index, int) {
          const auto& m = *static_cast<const Moves*>(data);
          run_move(m.plan, m.step.kind, m.step.move, m.members[static_cast<size_t>(index)]);
        },
        &moves);
  }

  const compiler::StepPlan& plan_;
  const std::vector<compiler::PlannedParameter>& parameters_;
  CpuTarget target_;
  ThreadPool pool_;
  const Context& context_;
  std::vector<PreparedGroup> groups_;
  compiler::BackendNotes notes_;
  ExecutorReport report_;
  AlignedMemory workspace_, partials_, gemm_scratch_;
  std::vector<std::byte*> thread_scratch_;
  std::vector<int64_t> partial_stride_;             // by group, in doubles
  std::vector<std::vector<int64_t>> lane_offsets_;  // by group and member
  std::vector<MemberMemory> members_;               // of the running batch
  std::vector<int64_t> first_task_;
  std::vector<double> slots_, registers_, hypers_;
  std::unique_ptr<bool[]> fresh_;
  size_t fresh_count_ = 0;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_cpu_executor(const compiler::StepPlan& plan,
                                                    const std::vector<compiler::PlannedParameter>& parameters,
                                                    const std::string& target, int threads, const Context& context,
                                                    const Progress& progress) {
  STEPFUSE_ASSIGN(CpuTarget cpu, cpu_target(target));
  STEPFUSE_TRY(check_runs_here(cpu));
  auto executor = std::make_unique<CpuExecutor>(plan, parameters, std::move(cpu), threads, context);
  STEPFUSE_TRY(executor->prepare(progress));
  return executor;
}

}  // namespace stepfuse::runtime
