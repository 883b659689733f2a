// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/liveness.h"
#include "tests/vgpu/ptx/warp.h"

#include <algorithm>
#include <set>

namespace stepfuse::vgpu {
namespace {

size_t aligned(size_t value, size_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// Parameters of functions are local memory of each thread.
void copy_local(Warp& warp, const Op& op, uint32_t mask) {
  const size_t stride = warp.state->program->local_bytes;
  std::byte* first = warp.block->local.data() + size_t{warp.index} * kLanes * stride;
  for_lanes(mask, [&](uint32_t lane) {
    std::memcpy(first + lane * stride + op.d, first + lane * stride + op.a, op.immediate);
  });
}

void trap(Warp& warp, const Op&, uint32_t mask) {
  warp.lane = static_cast<uint32_t>(std::countr_zero(mask));
  fault(warp, KernelFault::Kind::IllegalInstruction, "an assertion of the kernel failed");
}

class Linker {
 public:
  Linker(const ModuleText& module, const Function& kernel, const Addresses& globals)
      : module_(module), kernel_(kernel), program_(std::make_unique<Program>()), layout_(module, *program_, globals) {}

  std::unique_ptr<Program> run() {
    collect(kernel_);
    describe();
    place_shared();
    for (const Function* function : order_) place_local(*function);
    program_->local_bytes = aligned(local_, 16);
    for (const Function* function : order_) emit(*function);
    for (const Fixup& fixup : fixups_) program_->ops[fixup.op].target = target(fixup);
    program_->info.local_bytes = program_->local_bytes;
    for (const Function* function : order_) {
      program_->info.registers = std::max(program_->info.registers, most_live_registers(*function));
    }
    layout_.frame.finish(*program_);
    return std::move(program_);
  }

 private:
  struct Fixup {
    size_t op = 0;
    const Function* function = nullptr;
    const Instruction* instruction = nullptr;
  };

  // Callees before callers, so that lanes in a function are behind those that wait for them.
  void collect(const Function& function) {
    if (std::find(order_.begin(), order_.end(), &function) != order_.end()) return;
    if (!open_.insert(&function).second) {
      module_.source.fail(function.line, "recursion, which this machine has not");
    }
    for (const Instruction& instruction : function.instructions) {
      if (instruction.opcode != "call") continue;
      const Function* callee = callee_of(instruction);
      if (callee->defined) collect(*callee);
    }
    open_.erase(&function);
    order_.push_back(&function);
  }

  const Operand* call_operand(const Instruction& call, size_t index) const {
    const bool has_result = !call.operands.empty() && call.operands[0].kind == Operand::Kind::List &&
                            call.operands.size() > 1 && call.operands[1].kind != Operand::Kind::List;
    if (!has_result && index == 0) return nullptr;
    const size_t at = has_result ? index : index - 1;
    return at < call.operands.size() ? &call.operands[at] : nullptr;
  }

  const Function* callee_of(const Instruction& call) const {
    const Operand* name = call_operand(call, 1);
    const Function* callee = name && name->kind == Operand::Kind::Label ? module_.function(name->name) : nullptr;
    if (!callee) module_.source.fail(call.line, "a call of no function of this module; indirect calls are not known");
    if (!callee->defined && callee->name != "__assertfail") {
      module_.source.fail(call.line, "a call of " + callee->name + ", which is not defined here");
    }
    return callee;
  }

  void describe() {
    KernelInfo& info = program_->info;
    info.name = kernel_.name;
    info.max_threads = kernel_.max_threads;
    info.required_threads = kernel_.required_threads;
    info.min_blocks = kernel_.min_blocks;
    for (const auto& parameter : kernel_.parameters) {
      const size_t offset = aligned(info.parameter_bytes, parameter->alignment);
      info.parameters.push_back({parameter->name, offset, parameter->bytes, parameter->alignment});
      layout_.places[parameter.get()] = offset;
      info.parameter_bytes = offset + parameter->bytes;
    }
  }

  // Shared variables that the program names: its own, then what the launch adds.
  void place_shared() {
    std::vector<const Variable*> used;
    for (const Function* function : order_) {
      for (const Instruction& instruction : function->instructions) {
        for (const Operand& operand : instruction.operands) note_shared(operand, used);
      }
    }
    size_t bytes = 0;
    for (const Variable* variable : used) {
      program_->shared_alignment = std::max(program_->shared_alignment, variable->alignment);
      if (variable->external) continue;
      bytes = aligned(bytes, variable->alignment);
      layout_.places[variable] = bytes;
      bytes += variable->bytes;
    }
    program_->info.static_shared_bytes = bytes;
    program_->static_shared_bytes = aligned(bytes, program_->shared_alignment);
    for (const Variable* variable : used) {
      if (variable->external) layout_.places[variable] = program_->static_shared_bytes;
    }
  }

  static void note_shared(const Operand& operand, std::vector<const Variable*>& used) {
    if (operand.variable && operand.variable->space == Space::Shared &&
        std::find(used.begin(), used.end(), operand.variable) == used.end()) {
      used.push_back(operand.variable);
    }
    for (const Operand& element : operand.elements) note_shared(element, used);
  }

  void place_local(const Function& function) {
    const auto place = [&](const Variable& variable) {
      if (variable.space != Space::Local) return;
      local_ = aligned(local_, std::max<size_t>(variable.alignment, 1));
      layout_.places[&variable] = local_;
      local_ += variable.bytes;
    };
    for (const auto* list : {&function.parameters, &function.results, &function.variables}) {
      for (const auto& variable : *list) place(*variable);
    }
    FunctionLayout& own = layout_.functions[&function];
    own.function = &function;
    for (const Register& reg : function.registers) own.registers.push_back(layout_.frame.add(reg.type));
    own.return_pc = layout_.frame.add(Type::B32);
  }

  void emit(const Function& function) {
    FunctionLayout& own = layout_.functions.at(&function);
    own.first_op = static_cast<uint32_t>(program_->ops.size());
    std::vector<uint32_t>& starts = starts_[&function];
    for (const Instruction& instruction : function.instructions) {
      starts.push_back(static_cast<uint32_t>(program_->ops.size()));
      if (instruction.opcode == "call") {
        emit_call(own, instruction);
        continue;
      }
      program_->ops.push_back(decode(layout_, own, instruction));
      Op& op = program_->ops.back();
      if (op.flow == Flow::Branch) fixups_.push_back({program_->ops.size() - 1, &function, &instruction});
      if (op.flow == Flow::BranchTable) emit_table(own, instruction, op);
    }
    // Falling off the end is a return: PTX ISA "ret", "exit".
    starts.push_back(static_cast<uint32_t>(program_->ops.size()));
    Op end;
    end.flow = function.entry ? Flow::Exit : Flow::Return;
    end.a = own.return_pc;
    program_->ops.push_back(end);
    if (function.entry) program_->entry = own.first_op;
  }

  uint32_t op_at(const Function& function, const std::string& label, const Instruction& from) const {
    const Function::Label* found = function.label(label, from.scope);
    if (!found || found->table) module_.source.fail(from.line, "no label " + label);
    return starts_.at(&function).at(found->instruction);
  }

  uint32_t target(const Fixup& fixup) {
    if (program_->ops[fixup.op].flow == Flow::Branch) {
      return op_at(*fixup.function, fixup.instruction->operands[0].name, *fixup.instruction);
    }
    const Function::Label* table = fixup.function->label(fixup.instruction->operands[1].name, fixup.instruction->scope);
    std::vector<uint32_t> targets;
    for (const std::string& label : table->targets)
      targets.push_back(op_at(*fixup.function, label, *fixup.instruction));
    program_->branch_tables.push_back(targets);
    return static_cast<uint32_t>(program_->branch_tables.size() - 1);
  }

  void emit_table(const FunctionLayout& own, const Instruction& instruction, const Op&) {
    const Function::Label* table = own.function->label(instruction.operands[1].name, instruction.scope);
    if (!table || !table->table) module_.source.fail(instruction.line, "no table of branch targets of that name");
    fixups_.push_back({program_->ops.size() - 1, own.function, &instruction});
  }

  void emit_call(const FunctionLayout& own, const Instruction& call) {
    const Function* callee = callee_of(call);
    Decoder decoder(layout_, own, call);
    decoder.take("uni");
    decoder.finish();
    if (!callee->defined) {
      decoder.op.run = trap;
      program_->ops.push_back(decoder.op);
      return;
    }
    const Operand* results = call_operand(call, 0);
    const Operand* arguments = call_operand(call, 2);
    if (call_operand(call, 3)) decoder.fail("a call with a prototype");
    copy(decoder, arguments, callee->parameters, true);
    Op op = decoder.op;
    op.flow = Flow::Call;
    const FunctionLayout& target = layout_.functions.at(callee);
    op.target = target.first_op;
    op.d = target.return_pc;
    program_->ops.push_back(op);
    copy(decoder, results, callee->results, false);
  }

  void copy(const Decoder& decoder, const Operand* actual, const std::vector<std::unique_ptr<Variable>>& formal,
            bool into_formal) {
    const size_t count = actual ? actual->elements.size() : 0;
    if (count != formal.size()) decoder.fail("a call with a wrong number of arguments or results");
    for (size_t i = 0; i < count; ++i) {
      const Operand& operand = actual->elements[i];
      if (operand.kind != Operand::Kind::Variable || operand.variable->space != Space::Local) {
        decoder.fail("an argument outside of .param space");
      }
      if (operand.variable->bytes != formal[i]->bytes) decoder.fail("an argument of another size than the parameter");
      Op op = decoder.op;
      op.run = copy_local;
      const auto here = static_cast<uint32_t>(layout_.places.at(operand.variable));
      const auto there = static_cast<uint32_t>(layout_.places.at(formal[i].get()));
      op.d = into_formal ? there : here;
      op.a = into_formal ? here : there;
      op.immediate = formal[i]->bytes;
      program_->ops.push_back(op);
    }
  }

  const ModuleText& module_;
  const Function& kernel_;
  std::unique_ptr<Program> program_;
  ProgramLayout layout_;
  std::vector<const Function*> order_;
  std::set<const Function*> open_;
  std::map<const Function*, std::vector<uint32_t>> starts_;
  std::vector<Fixup> fixups_;
  size_t local_ = 0;
};

}  // namespace

std::unique_ptr<Program> link(const ModuleText& module, const Function& kernel, const Addresses& globals) {
  return Linker(module, kernel, globals).run();
}

}  // namespace stepfuse::vgpu
