// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/program.h"
#include "tests/vgpu/ptx/syntax.h"

#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::vgpu {

/// Where a module's variables lie in device memory.
using Addresses = std::map<const Variable*, uint64_t>;

/// Registers and constants of a program, and the places of its variables.
class Frame {
 public:
  explicit Frame(const SourceText& source) : source_(source) {}

  uint32_t add(Type type);
  uint32_t constant(uint64_t bits, uint32_t bytes);
  /// The offset of a special register, 0 bytes if there is none of that name.
  RegisterRef special(const std::string& name);
  /// Makes the first image of a warp's registers.
  void finish(Program& program);

  const SourceText& source() const { return source_; }

 private:
  uint32_t reserve(uint32_t bytes);

  const SourceText& source_;
  uint32_t bytes_ = 0;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> constants_;
  std::map<std::string, RegisterRef> special_offsets_;
  std::vector<SpecialValue> specials_;
};

struct FunctionLayout {
  const Function* function = nullptr;
  std::vector<uint32_t> registers;  // offsets in the register file
  uint32_t first_op = 0;
  uint32_t return_pc = 0;  // a register
};

/// What all functions of one program share while they are decoded.
struct ProgramLayout {
  Frame frame;
  Program& program;
  const ModuleText& module;
  const Addresses& globals;
  std::map<const Variable*, uint64_t> places;  // of shared, local and parameter variables
  std::map<const Function*, FunctionLayout> functions;
  uint32_t carry;  // CC.CF, PTX ISA "Extended-Precision Integer Arithmetic Instructions"

  ProgramLayout(const ModuleText& text, Program& result, const Addresses& addresses)
      : frame(text.source), program(result), module(text), globals(addresses), carry(frame.add(Type::Pred)) {}
};

/// One instruction on its way to an Op: modifiers are taken one by one, and what is left over is an error.
class Decoder {
 public:
  Decoder(ProgramLayout& layout, const FunctionLayout& function, const Instruction& text);

  Op op;

  const std::string& opcode() const { return text_.opcode; }
  const Instruction& text() const { return text_; }
  ProgramLayout& layout() { return layout_; }
  const FunctionLayout& function() const { return function_; }

  // Modifiers.
  bool take(std::string_view modifier);
  std::string_view take_any(std::initializer_list<std::string_view> choices);
  Type take_type();                                   // fails without one
  Type take_type(std::initializer_list<Type> legal);  // fails if it is another
  Type peek_type() const;                             // Type::None without one
  bool has(std::string_view modifier) const;
  std::vector<std::string_view>& modifiers() { return modifiers_; }
  void take_rounding(std::initializer_list<std::string_view> legal);  // into op.rounding
  void finish() const;                                                // nothing may be left

  // Operands.
  size_t count() const { return text_.operands.size(); }
  void expect_operands(size_t least, size_t most);
  const Operand& operand(size_t index) const { return text_.operands[index]; }
  uint32_t in(size_t index, Type type) { return in(operand(index), type); }
  uint32_t in(const Operand& operand, Type type);
  uint32_t out(size_t index, Type type) { return out(operand(index), type); }
  uint32_t out(const Operand& operand, Type type);
  uint32_t predicate_in(size_t index) { return predicate_in(operand(index)); }
  uint32_t predicate_in(const Operand& operand);  // !p sets kNegatePredicate
  uint32_t predicate_out(const Operand& operand);
  /// A register of any width up to `least` or more, as ld, st and cvt allow. PTX ISA "Operand Size Exceeding
  /// Instruction-Type Size".
  RegisterRef wide_in(const Operand& operand, Type type);
  RegisterRef wide_out(const Operand& operand, Type type);
  RegisterRef any_register(const Operand& operand);
  Type register_type(const Operand& operand) const;
  uint64_t address_of(const Operand& operand) const;
  Space space_of(const Variable& variable) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  uint32_t sink(Type type);
  void check_register(const Operand& operand, Type type) const;

  ProgramLayout& layout_;
  const FunctionLayout& function_;
  const Instruction& text_;
  std::vector<std::string_view> modifiers_;
};

using Decode = void (*)(Decoder&);

/// Types an opcode's row is for, by the first type among its modifiers.
enum class Family : uint8_t { Any, Integer, Real, Half };

struct InstructionRow {
  std::string_view opcode;
  Family family;
  Decode decode;
};

// Each file of instructions gives its rows.
std::span<const InstructionRow> integer_instructions();
std::span<const InstructionRow> integer_bit_instructions();
std::span<const InstructionRow> move_instructions();
std::span<const InstructionRow> compare_instructions();
std::span<const InstructionRow> real_instructions();
std::span<const InstructionRow> half_instructions();
std::span<const InstructionRow> convert_instructions();
std::span<const InstructionRow> memory_instructions();
std::span<const InstructionRow> atomic_instructions();
std::span<const InstructionRow> warp_instructions();
std::span<const InstructionRow> barrier_instructions();
std::span<const InstructionRow> control_instructions();

/// Decodes one instruction, or throws PtxError.
Op decode(ProgramLayout& layout, const FunctionLayout& function, const Instruction& instruction);

/// Decodes a kernel with all it calls.
std::unique_ptr<Program> link(const ModuleText& module, const Function& kernel, const Addresses& globals);

}  // namespace stepfuse::vgpu
