// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/lexer.h"
#include "tests/vgpu/ptx/machine.h"
#include "tests/vgpu/ptx/types.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse::vgpu {

/// A variable of a state space; PTX ISA "Variables".
struct Variable {
  struct Relocation {  // an address in an initialiser
    size_t offset = 0;
    uint32_t bytes = 8;
    std::string symbol;
    int64_t addend = 0;
    bool generic = false;
  };
  std::string name;
  Space space = Space::Global;
  Type type = Type::None;
  size_t alignment = 1;
  size_t bytes = 0;
  bool external = false;  // dynamic shared memory, or declared only
  uint32_t line = 0;
  std::vector<std::byte> initial;  // empty: zero
  std::vector<Relocation> relocations;
};

struct Operand {
  enum class Kind : uint8_t {
    Register,
    Integer,
    Float32,
    Float64,
    Special,   // %tid.x
    Variable,  // its address plus offset
    Label,     // a label, a function, or a table of branch targets
    Address,   // [elements[0] + offset]
    Vector,    // {a, b}
    List,      // (a, b) of a call
    Pair,      // p|q
    Sink,      // _
  };
  Kind kind = Kind::Sink;
  bool negated = false;  // !p
  uint32_t reg = 0;      // index in Function::registers
  uint64_t bits = 0;
  int64_t offset = 0;
  std::string name;
  const Variable* variable = nullptr;
  std::vector<Operand> elements;
};

struct Instruction {
  uint32_t line = 0;
  std::string opcode;                  // without modifiers
  std::vector<std::string> modifiers;  // in order, without dots
  bool guarded = false;
  Operand guard;
  std::vector<Operand> operands;
  uint32_t scope = 0;
};

struct Register {
  std::string name;
  Type type = Type::None;
};

struct Function {
  std::string name;
  bool entry = false;
  bool defined = false;
  uint32_t line = 0;
  std::vector<std::unique_ptr<Variable>> parameters, results;
  std::vector<Register> registers;
  std::vector<std::unique_ptr<Variable>> variables;  // of the body
  std::vector<Instruction> instructions;
  struct Label {
    uint32_t scope = 0;
    size_t instruction = 0;
    std::vector<std::string> targets;  // of .branchtargets
    bool table = false;
  };
  std::multimap<std::string, Label> labels;
  std::vector<uint32_t> scope_parents;
  std::optional<Dim3> max_threads, required_threads;
  std::optional<uint32_t> min_blocks;

  /// The label that an instruction of `scope` means, null if none is visible.
  const Label* label(const std::string& wanted, uint32_t scope) const;
};

struct ModuleText {
  SourceText source;
  int capability = 0;  // of .target
  std::vector<std::unique_ptr<Variable>> variables;
  std::vector<std::unique_ptr<Function>> functions;

  explicit ModuleText(std::string_view text) : source(text) {}
  Function* function(std::string_view name) const;
  Variable* variable(std::string_view name) const;
};

std::unique_ptr<ModuleText> parse(std::string_view ptx, int capability);

}  // namespace stepfuse::vgpu
