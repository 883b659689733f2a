// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/races.h"
#include "tests/vgpu/ptx/warp.h"

// PTX ISA "Control Flow Instructions", "Miscellaneous Instructions", and of "Parallel Synchronization and Communication
// Instructions" those that order memory, which is in order here.
namespace stepfuse::vgpu {
namespace {

void decode_branch(Decoder& d) {
  d.take("uni");
  d.expect_operands(1, 1);
  if (d.operand(0).kind != Operand::Kind::Label) d.fail("a branch to what is no label");
  d.op.flow = Flow::Branch;
}

void decode_table_branch(Decoder& d) {
  if (!d.take("idx")) d.fail("brx without .idx");
  d.take("uni");
  d.expect_operands(2, 2);
  d.op.a = d.in(0, Type::U32);
  if (d.operand(1).kind != Operand::Kind::Label) d.fail("no table of branch targets");
  d.op.flow = Flow::BranchTable;
}

// A kernel's ret ends the thread.
void decode_return(Decoder& d) {
  d.take("uni");
  d.expect_operands(0, 0);
  d.op.flow = d.function().function->entry ? Flow::Exit : Flow::Return;
  d.op.a = d.function().return_pc;
}

void decode_exit(Decoder& d) {
  d.expect_operands(0, 0);
  d.op.flow = Flow::Exit;
}

void decode_trap(Decoder& d) {
  d.expect_operands(0, 0);
  d.op.run = [](Warp& w, const Op&, uint32_t mask) {
    w.lane = static_cast<uint32_t>(std::countr_zero(mask));
    fault(w, KernelFault::Kind::IllegalInstruction, "trap");
  };
}

void nothing(Warp&, const Op&, uint32_t) {}

void decode_nanosleep(Decoder& d) {
  d.take_type({Type::U32});
  d.expect_operands(1, 1);
  d.in(0, Type::U32);
  d.op.run = nothing;
  d.op.switches = true;
}

void decode_fence(Decoder& d) {
  static_cast<void>(d.take_any({"sc", "acq_rel", "acquire", "release"}));
  const std::string_view scope = d.take_any({"cta", "cluster", "gpu", "gl", "sys"});
  if (scope.empty()) d.fail("a fence without a scope");
  d.expect_operands(0, 0);
  d.op.immediate = scope != "cta" && scope != "cluster";  // other blocks see it
  d.op.run = [](Warp& w, const Op& op, uint32_t) {
    if (w.state->races) w.state->races->fence(w, op.immediate != 0);
  };
  d.op.switches = true;
}

// Programmatic launches: this machine ends a grid before it starts the next.
void decode_grid_control(Decoder& d) {
  if (d.layout().module.capability < 90) d.fail("needs sm_90");
  if (d.take_any({"launch_dependents", "wait"}).empty()) d.fail("no such action");
  d.expect_operands(0, 0);
  d.op.run = nothing;
}

void decode_pmevent(Decoder& d) {
  d.take("mask");
  d.expect_operands(1, 1);
  d.op.run = nothing;
}

constexpr InstructionRow kRows[] = {
    {"bra", Family::Any, decode_branch},          {"brx", Family::Any, decode_table_branch},
    {"ret", Family::Any, decode_return},          {"exit", Family::Any, decode_exit},
    {"trap", Family::Any, decode_trap},           {"brkpt", Family::Any, decode_trap},
    {"nanosleep", Family::Any, decode_nanosleep}, {"membar", Family::Any, decode_fence},
    {"fence", Family::Any, decode_fence},         {"griddepcontrol", Family::Any, decode_grid_control},
    {"pmevent", Family::Any, decode_pmevent},
};

}  // namespace

std::span<const InstructionRow> control_instructions() { return kRows; }

}  // namespace stepfuse::vgpu
