// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/liveness.h"

#include <algorithm>
#include <set>

namespace stepfuse::vgpu {
namespace {

struct Uses {
  std::set<uint32_t> reads, writes;
  std::vector<size_t> successors;
};

void collect(const Operand& operand, std::set<uint32_t>& into) {
  if (operand.kind == Operand::Kind::Register) into.insert(operand.reg);
  for (const Operand& element : operand.elements) collect(element, into);
}

// The first operand is written, but for stores, branches and what has no result.
bool has_result(const std::string& opcode) {
  constexpr std::string_view kWithout[] = {"st", "red", "bra", "brx", "bar", "barrier", "call", "ret", "exit"};
  return std::find(std::begin(kWithout), std::end(kWithout), opcode) == std::end(kWithout);
}

Uses uses_of(const Instruction& instruction) {
  Uses uses;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const Operand& operand = instruction.operands[i];
    const bool written = i == 0 && has_result(instruction.opcode) && operand.kind != Operand::Kind::Address;
    collect(operand, written ? uses.writes : uses.reads);
  }
  if (instruction.guarded) {
    collect(instruction.guard, uses.reads);
    // The other lanes keep the old value.
    uses.reads.insert(uses.writes.begin(), uses.writes.end());
  }
  return uses;
}

std::vector<Uses> flow(const Function& function) {
  std::vector<Uses> all;
  for (size_t i = 0; i < function.instructions.size(); ++i) {
    const Instruction& instruction = function.instructions[i];
    Uses uses = uses_of(instruction);
    const bool jumps = instruction.opcode == "bra" || instruction.opcode == "brx";
    const bool ends = instruction.opcode == "ret" || instruction.opcode == "exit" || instruction.opcode == "trap";
    if ((!jumps && !ends) || instruction.guarded) uses.successors.push_back(i + 1);
    if (instruction.opcode == "bra") {
      if (const auto* label = function.label(instruction.operands[0].name, instruction.scope)) {
        uses.successors.push_back(label->instruction);
      }
    }
    if (instruction.opcode == "brx") {
      const auto* table = function.label(instruction.operands[1].name, instruction.scope);
      for (const std::string& target : table ? table->targets : std::vector<std::string>{}) {
        if (const auto* label = function.label(target, instruction.scope))
          uses.successors.push_back(label->instruction);
      }
    }
    all.push_back(std::move(uses));
  }
  return all;
}

uint32_t words(const Function& function, const std::set<uint32_t>& live) {
  uint32_t sum = 0;
  for (const uint32_t reg : live) sum += (bytes_of(function.registers[reg].type) + 3) / 4;  // predicates have their own
  return sum;
}

}  // namespace

uint32_t most_live_registers(const Function& function) {
  const std::vector<Uses> all = flow(function);
  std::vector<std::set<uint32_t>> live(all.size() + 1);
  uint32_t most = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = all.size(); i-- > 0;) {
      std::set<uint32_t> before;
      for (const size_t next : all[i].successors) before.insert(live[next].begin(), live[next].end());
      std::set<uint32_t> after_write = before;
      after_write.insert(all[i].writes.begin(), all[i].writes.end());
      most = std::max(most, words(function, after_write));
      for (const uint32_t reg : all[i].writes) before.erase(reg);
      before.insert(all[i].reads.begin(), all[i].reads.end());
      if (before != live[i]) {
        live[i] = std::move(before);
        changed = true;
      }
    }
  }
  return most;
}

}  // namespace stepfuse::vgpu
