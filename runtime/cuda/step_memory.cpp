// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/step_memory.h"

#include "codegen/cuda/emit_move.h"
#include "codegen/cuda/emit_prologue.h"
#include "compiler/memory.h"

#include <algorithm>

namespace stepfuse::runtime {

using codegen::Factor;
using codegen::LoweredProduct;
using compiler::Access;
using compiler::StepKind;

namespace {

constexpr int64_t kWord = 8;
constexpr int64_t kAlignment = 256;  // of allocations, and the most that a product's workspace wants

bool touches_users(const codegen::LoweredPhase& phase) {
  return std::any_of(phase.args.begin(), phase.args.end(), is_users) ||
         std::any_of(phase.reductions.begin(), phase.reductions.end(),
                     [](const codegen::ReductionResult& reduction) { return is_users(reduction.to); });
}

bool touches_users(const codegen::LoweredMove& move) {
  return is_users(move.target) || std::any_of(move.sources.begin(), move.sources.end(), is_users) ||
         (move.diagonal.kind == Factor::Kind::Memory && is_users(move.diagonal.access));
}

bool takes_operands_of_users(const LoweredProduct& product) {
  return is_users(product.a) || is_users(product.b) || is_users(product.d) ||
         (product.shape.has_c && is_users(product.c));
}

/// Bytes from an operand's first element to the end of its last matrix.
int64_t operand_bytes(const Access& access, ir::DType dtype) {
  int64_t last = 1;
  for (size_t d = 0; d < 3; ++d) last += std::max<int64_t>(access.dims[d] - 1, 0) * access.strides[d];
  return last * ir::dtype_bytes(dtype);
}

int64_t move_elements(const codegen::LoweredMove& move, int64_t elements) {
  if (move.target.symbolic) return elements;
  return move.target.dims[0] * move.target.dims[1] * move.target.dims[2];
}

class Layout {
 public:
  Layout(const compiler::StepPlan& plan, const std::vector<CudaGroup>& groups,
         const std::vector<compiler::PlannedParameter>& parameters)
      : plan_(plan), groups_(groups), parameters_(parameters) {}

  StepMemory run(const std::vector<int64_t>& workspace) {
    for (const compiler::Branch& branch : plan_.branches) out_.branches.push_back(members_of(branch));
    place_tables(true);
    out_.more = take(out_.more_count * kWord);
    out_.active = take(static_cast<int64_t>(parameters_.size() * sizeof(uint32_t)));
    out_.user_bytes = at_;
    place_tables(false);
    place_scalars();
    out_.table_bytes = at_;
    place_memory(workspace);
    out_.total_bytes = at_;
    return std::move(out_);
  }

 private:
  int64_t take(int64_t bytes, int64_t alignment = 16) {
    at_ = (at_ + alignment - 1) / alignment * alignment;
    return std::exchange(at_, at_ + bytes);
  }

  CudaBranch members_of(const compiler::Branch& branch) {
    CudaBranch out;
    for (const uint32_t first : branch.launches) {
      const compiler::Launch& launch = plan_.launches[first];
      const compiler::GroupPlan& group = plan_.groups[launch.group];
      CudaBatch& batch = out.batches.emplace_back();
      batch.group = launch.group;
      batch.steps.resize(group.steps.size());
      for (uint32_t m = launch.first_member; m < launch.first_member + launch.count; ++m) {
        CudaMember& member = batch.members.emplace_back();
        member.parameter = group.members[m];
        member.group = launch.group;
        member.elements = compiler::element_count(parameters_[member.parameter].shape);
        member.lane_offsets = compiler::lane_offsets(group, member.elements);
        ++out_.prologue_row_count;
        out_.more_count += static_cast<int64_t>(groups_[launch.group].hyper_index.size());
      }
    }
    return out;
  }

  /// The tables that hold users' pointers, or the others.
  void place_tables(bool of_users) {
    for (CudaBranch& branch : out_.branches)
      for (CudaBatch& batch : branch.batches)
        for (size_t s = 0; s < batch.steps.size(); ++s) {
          const CudaStep& step = groups_[batch.group].steps[s];
          if (step.kind == StepKind::Product) {
            place_product(batch, step.product, batch.steps[s].product, of_users);
          } else if (step.kind == StepKind::Fused) {
            place_phases(batch, step, batch.steps[s].kernels, of_users);
          } else {
            place_move(batch, step, batch.steps[s].kernels, of_users);
          }
        }
  }

  void place_phases(const CudaBatch& batch, const CudaStep& step, std::vector<KernelTable>& tables, bool of_users) {
    tables.resize(step.phases.size());
    for (size_t p = 0; p < tables.size(); ++p) {
      const codegen::LoweredPhase& phase = step.phases[p].lowered;
      if (touches_users(phase) != of_users) continue;
      KernelTable& table = tables[p];
      table.of_users = of_users;
      table.row_bytes = static_cast<int64_t>(codegen::cuda_row_layout(phase.spec).words) * kWord;
      table.rows = take(table.row_bytes * static_cast<int64_t>(batch.members.size()));
    }
    if (of_users) return;
    // Chunks hold no pointers.
    for (size_t p = 0; p < tables.size(); ++p) {
      for (const CudaMember& member : batch.members)
        tables[p].chunk_count +=
            chunk_count(step.phases[p].lowered.spec, codegen::phase_dims(step.phases[p].lowered, member.elements));
      tables[p].chunks = take(tables[p].chunk_count * static_cast<int64_t>(sizeof(codegen::CudaChunk)));
    }
  }

  void place_move(const CudaBatch& batch, const CudaStep& step, std::vector<KernelTable>& tables, bool of_users) {
    tables.resize(1);
    KernelTable& table = tables.front();
    const auto sources = static_cast<int64_t>(step.move.sources.size());
    if (touches_users(step.move) == of_users) {
      table.of_users = of_users;
      table.row_bytes = static_cast<int64_t>(sizeof(codegen::CudaMoveRow));
      table.rows = take(table.row_bytes * sources * static_cast<int64_t>(batch.members.size()));
    }
    if (of_users) return;
    // No source has more elements than the target; where it has fewer, the rest of its chunks is not launched.
    for (const CudaMember& member : batch.members)
      table.chunk_count += sources * codegen::chunks_of(move_elements(step.move, member.elements));
    table.chunks = take(table.chunk_count * static_cast<int64_t>(sizeof(codegen::CudaChunk)));
  }

  void place_product(const CudaBatch& batch, const LoweredProduct& product, ProductTable& table, bool of_users) {
    if (takes_operands_of_users(product) != of_users) return;
    table.of_users = of_users;
    table.arrays = !is_strided_batch(product, batch.members.size());
    if (!table.arrays) return;
    const int64_t bytes = static_cast<int64_t>(batch.members.size()) * product.batch * kWord;
    for (int64_t* array : {&table.a, &table.b, &table.c, &table.d}) *array = take(bytes);
  }

  void keep_constant(const LoweredProduct& product, const Factor& factor) {
    if (factor.kind == Factor::Kind::Const)
      out_.constants.try_emplace({factor.value, ir::math_dtype(product.shape.ab) == ir::DType::F64}, 0);
  }

  void place_scalars() {
    for (const CudaGroup& group : groups_) {
      CudaProgramMemory& program = out_.programs.emplace_back();
      program.lines = take(static_cast<int64_t>(group.scalars->lines().size() * sizeof(codegen::CudaScalarLine)));
      program.slots = take(static_cast<int64_t>(group.scalars->num_slots() * sizeof(uint32_t)));
      for (const CudaStep& step : group.steps)
        if (step.kind == StepKind::Product) {
          keep_constant(step.product, step.product.alpha);
          keep_constant(step.product, beta_of(step.product));
        } else if (step.kind == StepKind::AddDiag && step.move.diagonal.kind == Factor::Kind::Const) {
          out_.constants.try_emplace({step.move.diagonal.value, true}, 0);
        }
    }
    for (auto& [constant, offset] : out_.constants) offset = take(kWord, kWord);
    out_.one = take(kWord, kWord);
    out_.program_table = take(static_cast<int64_t>(groups_.size() * sizeof(codegen::CudaProgram)));
    out_.prologue_rows =
        take(int64_t{out_.prologue_row_count} * static_cast<int64_t>(sizeof(codegen::CudaPrologueRow)));
  }

  /// What the host does not fill.
  void place_memory(const std::vector<int64_t>& workspace) {
    out_.states = take(static_cast<int64_t>(parameters_.size() * sizeof(codegen::CudaParameterState)), kAlignment);
    out_.tickets = at_;
    for_each_member([&](CudaMember& member) { member.tickets = take(member_tickets(member) * 4, 4); });
    out_.ticket_bytes = at_ - out_.tickets;
    for_each_member([&](CudaMember& member) {
      member.scalars = take(codegen::cuda_slot_bytes(groups_[member.group].scalars->num_slots()), kWord);
      member.partials = take(member_partials(member) * kWord, kWord);
    });
    out_.sink = take(sink_bytes(), kAlignment);
    for (size_t b = 0; b < out_.branches.size(); ++b) {
      CudaBranch& branch = out_.branches[b];
      place_scratch(branch, take(plan_.branches[b].workspace_bytes, kAlignment));
      branch.product_workspace_bytes = workspace[b];
      branch.product_workspace = take(workspace[b], kAlignment);
    }
    for_each_member([&](CudaMember& member) {
      const int64_t bytes = result_bytes(member);
      const bool fits = bytes <= compiler::member_bytes(plan_.groups[member.group], member.elements);
      member.sink = fits ? member.scratch : take(bytes, kAlignment);
    });
  }

  void place_scratch(CudaBranch& branch, int64_t start) {
    for (CudaBatch& batch : branch.batches) {
      int64_t at = start;
      for (CudaMember& member : batch.members)
        member.scratch = std::exchange(at, at + compiler::member_bytes(plan_.groups[batch.group], member.elements));
    }
  }

  template <class Visit>
  void for_each_member(Visit visit) {
    for (CudaBranch& branch : out_.branches)
      for (CudaBatch& batch : branch.batches)
        for (CudaMember& member : batch.members) visit(member);
  }

  template <class Measure>
  int64_t most_of_phases(const CudaMember& member, Measure measure) const {
    int64_t most = 0;
    for (const CudaStep& step : groups_[member.group].steps)
      for (const CudaPhase& phase : step.phases) most = std::max(most, measure(phase.lowered));
    return most;
  }
  int64_t member_tickets(const CudaMember& member) const {
    return most_of_phases(member, [&](const codegen::LoweredPhase& phase) {
      return ticket_count(phase.spec, codegen::phase_dims(phase, member.elements));
    });
  }
  int64_t member_partials(const CudaMember& member) const {
    return most_of_phases(
        member, [&](const codegen::LoweredPhase& phase) { return codegen::partial_count(phase, member.elements); });
  }

  /// The largest result of a product that goes to a user's tensor.
  int64_t result_bytes(const CudaMember& member) const {
    int64_t most = 0;
    for (const CudaStep& step : groups_[member.group].steps)
      if (step.kind == StepKind::Product && is_users(step.product.d))
        most = std::max(most, operand_bytes(step.product.d, step.product.shape.d));
    return most;
  }

  int64_t sink_bytes() const {
    int64_t most = 0;
    for (const CudaGroup& group : groups_)
      for (const CudaStep& step : group.steps) {
        if (step.kind != StepKind::Product || !takes_operands_of_users(step.product)) continue;
        const LoweredProduct& p = step.product;
        most = std::max({most, operand_bytes(p.a, p.shape.ab), operand_bytes(p.b, p.shape.ab),
                         p.shape.has_c ? operand_bytes(p.c, p.shape.c) : 0});
      }
    return most;
  }

  const compiler::StepPlan& plan_;
  const std::vector<CudaGroup>& groups_;
  const std::vector<compiler::PlannedParameter>& parameters_;
  StepMemory out_;
  int64_t at_ = 0;
};

}  // namespace

Factor beta_of(const LoweredProduct& product) {
  Factor none;
  none.value = 0;
  return product.shape.has_c ? product.beta : none;
}

bool is_strided_batch(const LoweredProduct& product, size_t members) {
  return !takes_operands_of_users(product) && (members == 1 || product.batch == 1);
}

StepMemory lay_out_step(const compiler::StepPlan& plan, const std::vector<CudaGroup>& groups,
                        const std::vector<compiler::PlannedParameter>& parameters,
                        const std::vector<int64_t>& workspace) {
  return Layout(plan, groups, parameters).run(workspace);
}

}  // namespace stepfuse::runtime
