// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/prepared.h"

#include "compiler/dependencies.h"
#include "runtime/cpu/prepare_product.h"
#include "runtime/kernel_cache.h"

#include <algorithm>
#include <map>

namespace stepfuse::runtime {

using codegen::LoweredPhase;
using codegen::Scheme;
using compiler::Access;
using compiler::GroupPlan;
using compiler::GroupStep;
using compiler::StepKind;
using ir::Graph;
using ir::ValueId;

namespace {

/// Collects the scalars a group's steps read, in the order of the slots.
class GroupPreparer {
 public:
  GroupPreparer(const GroupPlan& group, const PrepareContext& context)
      : group_(group), graph_(group.graph), context_(context) {}

  Result<PreparedGroup> run() {
    out_.plan = &group_;
    for (const GroupStep& step : group_.steps) {
      STEPFUSE_ASSIGN(PreparedStep prepared, prepare_step(step));
      out_.steps.push_back(std::move(prepared));
    }
    prepare_scalars();
    return std::move(out_);
  }

 private:
  Result<PreparedStep> prepare_step(const GroupStep& step) {
    PreparedStep out;
    out.kind = step.kind;
    switch (step.kind) {
      case StepKind::Fused:
        for (size_t p = 0; p < step.phases.size(); ++p) out.phases.push_back(prepare_phase(step, p));
        return out;
      case StepKind::Product: {
        STEPFUSE_ASSIGN(out.product, prepare_product({group_, step.node, context_.plan, context_.notes}));
        out.product.alpha = factor_of(step.node, graph_.node(step.node).num_operands == 5 ? 3 : 2);
        out.product.beta = factor_of(step.node, 4);
        return out;
      }
      case StepKind::AddDiag:
      case StepKind::Concat:
        prepare_move(step, out);
        return out;
      case StepKind::Copy:
        out.sources = {step.from};
        out.target = step.from;
        out.target.slot = step.to;
        out.target.offset = 0;
        make_dense(out.target);
        out.source_dtype = out.target_dtype = slot_dtype(step.from.slot);
        return out;
    }
    return fail(StatusCode::Internal, "unknown step kind");
  }

  PreparedPhase prepare_phase(const GroupStep& step, size_t p) {
    PreparedPhase phase;
    phase.lowered = codegen::lower_phase(group_, step, p, context_.plan.mode);
    phase.first_scalar = static_cast<uint32_t>(scalars_.size());
    scalars_.insert(scalars_.end(), phase.lowered.scalars.begin(), phase.lowered.scalars.end());
    if (!phase.lowered.spec.contiguous)
      for (const Access& access : phase.lowered.args)
        phase.strides.insert(phase.strides.end(), access.strides.begin(), access.strides.end());
    for (const auto& reduction : phase.lowered.reductions)
      phase.results.push_back(compiler::access_of(group_, reduction.value));
    return phase;
  }

  void prepare_move(const GroupStep& step, PreparedStep& out) {
    const ir::Node& node = graph_.node(step.node);
    out.target = compiler::access_of(group_, step.node);
    out.target_dtype = node.type.dtype;
    out.source_dtype = graph_.node(node.operands[0]).type.dtype;
    out.sources = {compiler::access_of(group_, node.operands[0])};
    if (step.kind == StepKind::AddDiag) {
      out.diagonal = factor_of(step.node, 1);
      return;
    }
    out.sources.push_back(compiler::access_of(group_, node.operands[1]));
    out.concat_dim =
        static_cast<uint8_t>(ir::kMaxRank - node.type.shape.rank + std::get<ir::ConcatAttr>(node.attr).dim);
  }

  static void make_dense(Access& access) {
    int64_t stride = 1;
    for (size_t d = 3; d-- > 0 && !access.symbolic;) {
      access.strides[d] = access.dims[d] == 1 ? 0 : stride;
      stride *= access.dims[d];
    }
  }

  ir::DType slot_dtype(compiler::Slot slot) const {
    if (slot.kind == compiler::Slot::Kind::Input) return graph_.inputs()[slot.index].type.dtype;
    return graph_.node(group_.buffers[slot.index].value).type.dtype;
  }

  /// Operand `index` of a product or diagonal; 1 when there is none.
  Factor factor_of(ValueId id, size_t index) {
    const ir::Node& node = graph_.node(id);
    Factor factor;
    if (index >= node.num_operands) return factor;
    const ValueId operand = node.operands[index];
    if (graph_.is_const(operand)) {
      factor.value = graph_.const_value(operand);
    } else if (graph_.is_scalar(operand)) {
      factor.kind = Factor::Kind::Scalar;
      factor.slot = static_cast<uint32_t>(scalars_.size());
      scalars_.push_back(operand);
    } else {
      factor.kind = Factor::Kind::Memory;
      factor.access = compiler::access_of(group_, operand);
      factor.dtype = graph_.node(operand).type.dtype;
    }
    return factor;
  }

  void prepare_scalars() {
    out_.scalars = std::make_unique<ir::ScalarProgram>(graph_, scalars_);
    std::vector<uint32_t> hyper_number(graph_.inputs().size(), 0);
    uint32_t count = 0;
    for (size_t i = 0; i < graph_.inputs().size(); ++i)
      if (graph_.inputs()[i].kind == ir::InputKind::Hyper) hyper_number[i] = count++;
    const auto input_index = [&](ValueId id) { return std::get<ir::InputAttr>(graph_.node(id).attr).index; };
    for (ValueId id : out_.scalars->hyper_inputs()) out_.hyper_index.push_back(hyper_number[input_index(id)]);
    for (ValueId id : out_.scalars->fresh_states()) out_.fresh_index.push_back(input_index(id));
  }

  const GroupPlan& group_;
  const Graph& graph_;
  const PrepareContext& context_;
  PreparedGroup out_;
  std::vector<ValueId> scalars_;
};

/// The distinct kernels of all phases, and the phases that use each.
struct CompileJob {
  std::vector<PreparedPhase*> users;
  Result<std::shared_ptr<const LoadedKernel>> kernel;
  bool compiled = false;  // by this job: the process had none
};

std::vector<CompileJob> collect_jobs(std::vector<PreparedGroup>& groups, const CpuTarget& target) {
  std::map<std::string, CompileJob> by_key;
  for (PreparedGroup& group : groups)
    for (PreparedStep& step : group.steps)
      for (PreparedPhase& phase : step.phases)
        by_key[KernelCache::key(phase.lowered.spec, target)].users.push_back(&phase);
  std::vector<CompileJob> jobs;
  for (auto& [key, job] : by_key) jobs.push_back(std::move(job));
  return jobs;
}

Outcome compile_all(std::vector<PreparedGroup>& groups, const PrepareContext& context) {
  struct Work {
    std::vector<CompileJob> jobs;
    const CpuTarget& target;
  } work{collect_jobs(groups, context.target), context.target};
  context.pool.run(
      static_cast<int64_t>(work.jobs.size()),
      [](void* data, int64_t index, int) {
        auto& w = *static_cast<Work*>(data);
        CompileJob& job = w.jobs[static_cast<size_t>(index)];
        try {
          job.kernel = KernelCache::get().find_or_compile(job.users.front()->lowered.spec, w.target, &job.compiled);
        } catch (const std::exception& error) {
          // Nothing may leave a task of the pool.
          job.kernel =
              fail(StatusCode::Internal, "compiling {}: {}", job.users.front()->lowered.spec.name, error.what());
        }
      },
      &work);
  for (CompileJob& job : work.jobs) {
    if (!job.kernel) return fail(job.kernel.error());
    context.compiled += job.compiled ? 1 : 0;
    for (PreparedPhase* phase : job.users) {
      phase->kernel = *job.kernel;
      phase->function = phase->kernel->function();
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PreparedGroup>> prepare_groups(const PrepareContext& context) {
  std::vector<PreparedGroup> groups;
  for (const GroupPlan& plan : context.plan.groups) {
    STEPFUSE_ASSIGN(PreparedGroup group, GroupPreparer(plan, context).run());
    groups.push_back(std::move(group));
  }
  STEPFUSE_TRY(compile_all(groups, context));
  return groups;
}

std::array<int64_t, 3> phase_dims(const LoweredPhase& phase, int64_t elements) {
  return phase.symbolic ? std::array<int64_t, 3>{1, 1, elements} : phase.dims;
}

ReductionLayout reduction_layout(const LoweredPhase& phase, int64_t elements) {
  const auto [d0, d1, d2] = phase_dims(phase, elements);
  switch (phase.spec.scheme) {
    case Scheme::Linear:
      return {d0, codegen::chunks_of(d1 * d2)};
    case Scheme::Rows:
      return {d0 * d1, codegen::chunks_of(d2)};
    case Scheme::Cols:
      return {d0 * d2, codegen::chunks_of(d1)};
  }
  return {0, 0};
}

int64_t partial_count(const LoweredPhase& phase, int64_t elements) {
  const ReductionLayout layout = reduction_layout(phase, elements);
  return layout.results * layout.chunks * static_cast<int64_t>(phase.reductions.size());
}

}  // namespace stepfuse::runtime
