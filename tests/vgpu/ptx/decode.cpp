// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace stepfuse::vgpu {
namespace {

Family family_of(Type type) {
  if (type == Type::F32 || type == Type::F64 || type == Type::F32x2) return Family::Real;
  if (type == Type::F16 || type == Type::BF16 || type == Type::F16x2 || type == Type::BF16x2) return Family::Half;
  return Family::Integer;
}

using RowMap = std::unordered_multimap<std::string_view, const InstructionRow*>;

const RowMap& rows() {
  static const RowMap map = [] {
    RowMap result;
    for (const auto& list :
         {integer_instructions(), integer_bit_instructions(), move_instructions(), compare_instructions(),
          real_instructions(), half_instructions(), convert_instructions(), memory_instructions(),
          atomic_instructions(), warp_instructions(), barrier_instructions(), control_instructions()}) {
      for (const InstructionRow& row : list) result.emplace(row.opcode, &row);
    }
    return result;
  }();
  return map;
}

// PTX ISA "Operand Type Checking Rules": bits go with anything of their size, integers with integers, floats with
// floats.
bool compatible(Type reg, Type instruction) {
  if (reg == instruction) return true;
  if (bytes_of(reg) != bytes_of(instruction) || reg == Type::Pred || instruction == Type::Pred) return false;
  if (is_bits(reg) || is_bits(instruction)) return true;
  return is_integer(reg) && is_integer(instruction);
}

}  // namespace

uint32_t Frame::reserve(uint32_t bytes) {
  const uint32_t offset = bytes_;
  bytes_ += (bytes + 63) / 64 * 64;
  return offset;
}

uint32_t Frame::add(Type type) { return reserve(type == Type::Pred ? 4 : bytes_of(type) * kLanes); }

uint32_t Frame::constant(uint64_t bits, uint32_t bytes) {
  if (bytes != 0 && bytes < 8) bits &= (uint64_t{1} << bytes * 8) - 1;
  const auto [it, added] = constants_.insert({{bits, bytes}, 0});
  if (added) it->second = reserve(bytes == 0 ? 4 : bytes * kLanes);
  return it->second;
}

void Frame::finish(Program& program) {
  program.scratch = reserve(8 * 8 * kLanes);
  program.image.assign(bytes_, std::byte{0xff});
  for (const auto& [key, offset] : constants_) {
    const auto& [bits, bytes] = key;
    for (uint32_t lane = 0; lane < (bytes == 0 ? 1 : kLanes); ++lane) {
      std::memcpy(program.image.data() + offset + lane * bytes, &bits, bytes == 0 ? 4 : std::min(bytes, 8U));
    }
  }
  program.specials = specials_;
}

Decoder::Decoder(ProgramLayout& layout, const FunctionLayout& function, const Instruction& text)
    : layout_(layout), function_(function), text_(text), modifiers_(text.modifiers.begin(), text.modifiers.end()) {
  op.line = text.line;
  if (text.guarded) {
    op.guarded = true;
    op.guard_negated = text.guard.negated;
    if (text.guard.kind != Operand::Kind::Register || register_type(text.guard) != Type::Pred) {
      fail("a guard that is no predicate");
    }
    op.guard = function.registers[text.guard.reg];
  }
}

void Decoder::fail(const std::string& what) const { layout_.frame.source().fail(text_.line, what); }

bool Decoder::has(std::string_view modifier) const {
  return std::find(modifiers_.begin(), modifiers_.end(), modifier) != modifiers_.end();
}

bool Decoder::take(std::string_view modifier) {
  const auto found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
  if (found == modifiers_.end()) return false;
  modifiers_.erase(found);
  return true;
}

std::string_view Decoder::take_any(std::initializer_list<std::string_view> choices) {
  for (const std::string_view choice : choices) {
    if (take(choice)) return choice;
  }
  return "";
}

Type Decoder::peek_type() const {
  for (const std::string_view modifier : modifiers_) {
    if (const auto type = type_named(modifier)) return *type;
  }
  return Type::None;
}

Type Decoder::take_type() {
  const Type type = peek_type();
  if (type == Type::None) fail("no type");
  take(info(type).name);
  return type;
}

Type Decoder::take_type(std::initializer_list<Type> legal) {
  const Type type = take_type();
  if (std::find(legal.begin(), legal.end(), type) == legal.end()) {
    fail("." + std::string(info(type).name) + " is no type of this instruction");
  }
  return type;
}

void Decoder::take_rounding(std::initializer_list<std::string_view> legal) {
  constexpr std::pair<std::string_view, Rounding> kNames[] = {{"rn", Rounding::Nearest},
                                                              {"rz", Rounding::Zero},
                                                              {"rm", Rounding::Down},
                                                              {"rp", Rounding::Up},
                                                              {"rna", Rounding::Away}};
  const std::string_view found = take_any(legal);
  for (const auto& [name, rounding] : kNames) {
    if (name == found) op.rounding = rounding;
  }
}

void Decoder::finish() const {
  if (!modifiers_.empty()) fail("unknown or illegal here: ." + std::string(modifiers_.front()));
}

void Decoder::expect_operands(size_t least, size_t most) {
  if (count() < least || count() > most) fail("a wrong number of operands");
}

Type Decoder::register_type(const Operand& operand) const {
  return operand.kind == Operand::Kind::Register ? function_.function->registers[operand.reg].type : Type::None;
}

void Decoder::check_register(const Operand& operand, Type type) const {
  if (operand.kind != Operand::Kind::Register) fail("an operand that should be a register");
  if (!compatible(register_type(operand), type)) {
    fail("register " + operand.name + " is ." + std::string(info(register_type(operand)).name) + ", the instruction ." +
         std::string(info(type).name));
  }
}

uint64_t Decoder::address_of(const Operand& operand) const {
  const auto& known = operand.variable->space == Space::Global || operand.variable->space == Space::Const
                          ? layout_.globals
                          : layout_.places;
  const auto found = known.find(operand.variable);
  if (found == known.end()) fail("a variable that is not here: " + operand.name);
  return found->second + static_cast<uint64_t>(operand.offset);
}

uint32_t Decoder::in(const Operand& operand, Type type) {
  if (operand.negated && type != Type::Pred) fail("! on what is no predicate");
  switch (operand.kind) {
    case Operand::Kind::Register:
      check_register(operand, type);
      return function_.registers[operand.reg];
    case Operand::Kind::Integer:
      if (is_float(type) || info(type).kind == TypeClass::Packed) {
        if (bytes_of(type) != 2 && type != Type::F16x2 && type != Type::BF16x2)
          fail("an integer as floating-point operand");
      }
      if (type == Type::Pred) return layout_.frame.constant(operand.bits != 0 ? kAllLanes : 0, 0);
      return layout_.frame.constant(operand.bits, bytes_of(type));
    case Operand::Kind::Float32:
      if (type != Type::F32 && type != Type::B32) fail("a single-precision constant for another type");
      return layout_.frame.constant(operand.bits, 4);
    case Operand::Kind::Float64:
      if (type == Type::F32) {
        const auto narrow = static_cast<float>(std::bit_cast<double>(operand.bits));
        return layout_.frame.constant(std::bit_cast<uint32_t>(narrow), 4);
      }
      if (type != Type::F64 && type != Type::B64) fail("a double-precision constant for another type");
      return layout_.frame.constant(operand.bits, 8);
    case Operand::Kind::Special: {
      const RegisterRef special = layout_.frame.special(operand.name);
      if (special.bytes == 0) fail("unknown special register or undeclared register " + operand.name);
      if (special.bytes != bytes_of(type)) fail("a special register of another width");
      return special.offset;
    }
    case Operand::Kind::Variable:
      if (bytes_of(type) < 4) fail("an address in a register that is too small");
      return layout_.frame.constant(address_of(operand), bytes_of(type));
    case Operand::Kind::Label:
      fail("undeclared: " + operand.name);
    case Operand::Kind::Address:
    case Operand::Kind::Vector:
    case Operand::Kind::List:
    case Operand::Kind::Pair:
    case Operand::Kind::Sink:
      break;
  }
  fail("an operand of the wrong kind");
}

uint32_t Decoder::sink(Type type) { return layout_.frame.add(type); }

uint32_t Decoder::out(const Operand& operand, Type type) {
  if (operand.kind == Operand::Kind::Sink) return sink(type);
  check_register(operand, type);
  return function_.registers[operand.reg];
}

uint32_t Decoder::predicate_in(const Operand& operand) {
  if (operand.negated) op.flags |= kNegatePredicate;
  return in(operand, Type::Pred);
}

uint32_t Decoder::predicate_out(const Operand& operand) { return out(operand, Type::Pred); }

RegisterRef Decoder::any_register(const Operand& operand) {
  if (operand.kind == Operand::Kind::Sink) return {};
  if (operand.kind != Operand::Kind::Register || register_type(operand) == Type::Pred)
    fail("an operand that should be a register");
  return {function_.registers[operand.reg], static_cast<uint8_t>(bytes_of(register_type(operand)))};
}

RegisterRef Decoder::wide_out(const Operand& operand, Type type) {
  const RegisterRef found = any_register(operand);
  if (found.bytes != 0 && found.bytes < bytes_of(type)) fail("register " + operand.name + " is too small");
  const bool mixed = is_float(type) && !is_bits(register_type(operand)) && register_type(operand) != type;
  if (found.bytes != 0 && mixed) fail("register " + operand.name + " is of another type");
  return found;
}

RegisterRef Decoder::wide_in(const Operand& operand, Type type) {
  if (operand.kind == Operand::Kind::Register) return wide_out(operand, type);
  return {in(operand, type), static_cast<uint8_t>(bytes_of(type))};
}

Op decode(ProgramLayout& layout, const FunctionLayout& function, const Instruction& instruction) {
  Decoder decoder(layout, function, instruction);
  const auto [first, last] = rows().equal_range(instruction.opcode);
  if (first == last) decoder.fail("unknown instruction");
  const Family family = family_of(decoder.peek_type());
  for (auto it = first; it != last; ++it) {
    if (it->second->family != Family::Any && it->second->family != family) continue;
    it->second->decode(decoder);
    decoder.finish();
    return decoder.op;
  }
  decoder.fail("not for this type");
}

}  // namespace stepfuse::vgpu
