// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/parser.h"

#include <utility>

namespace stepfuse::vgpu {
namespace {

constexpr int64_t kMostRegisters = 100'000;  // of one declaration, against damaged text

}  // namespace

BodyParser::BodyParser(TokenStream& in, ModuleText& module, Function& function)
    : in_(in), module_(module), function_(function) {}

void BodyParser::open_scope() {
  const uint32_t parent = scopes_.empty() ? 0 : scopes_.back().id;
  scopes_.push_back({static_cast<uint32_t>(function_.scope_parents.size()), {}, {}});
  function_.scope_parents.push_back(parent);
}

void BodyParser::run() {
  in_.expect("{");
  open_scope();
  for (const auto* list : {&function_.parameters, &function_.results}) {
    for (const auto& variable : *list) scopes_.back().variables[variable->name] = variable.get();
  }
  while (!scopes_.empty()) {
    if (in_.at_end()) in_.fail("a function that never ends");
    statement();
  }
}

void BodyParser::statement() {
  if (in_.accept("{")) return open_scope();
  if (in_.accept("}")) return scopes_.pop_back();
  if (in_.accept(";")) return;
  if (in_.is(":", 1)) return label();
  if (in_.peek().text.starts_with('.')) return directive();
  instruction();
}

void BodyParser::directive() {
  if (in_.is(".loc") || in_.is(".file")) return in_.skip_line();
  if (in_.accept(".pragma")) {
    while (!in_.accept(";")) in_.next();
    return;
  }
  if (in_.accept(".reg")) return registers();
  constexpr std::pair<std::string_view, Space> kSpaces[] = {{".local", Space::Local},
                                                            {".param", Space::Local},
                                                            {".shared", Space::Shared},
                                                            {".global", Space::Global},
                                                            {".const", Space::Const}};
  for (const auto& [text, space] : kSpaces) {
    if (in_.accept(text)) return variables(space);
  }
  in_.fail("unknown in a function");
}

void BodyParser::label() {
  const std::string name = in_.word("a label");
  in_.expect(":");
  if (in_.is(".branchtargets")) return label_table(name);
  if (in_.is(".callprototype") || in_.is(".calltargets")) in_.fail("indirect calls are not known to this machine");
  const uint32_t scope = scopes_.back().id;
  if (const auto* other = function_.label(name, scope); other && other->scope == scope) {
    in_.fail("a label twice: " + name);
  }
  function_.labels.insert({name, {scope, function_.instructions.size(), {}, false}});
}

void BodyParser::label_table(const std::string& name) {
  in_.expect(".branchtargets");
  Function::Label table{scopes_.back().id, 0, {}, true};
  do {
    table.targets.push_back(in_.word("a label"));
  } while (in_.accept(","));
  in_.expect(";");
  function_.labels.insert({name, table});
}

// PTX ISA "Parameterized Variable Names": %r<10> declares %r0 to %r9.
void BodyParser::registers() {
  const std::string type_text = in_.word("a type");
  const auto type = type_named(std::string_view(type_text).substr(1));
  if (!type || *type == Type::TF32) in_.fail("registers of an unknown type " + type_text);
  do {
    const std::string name = in_.word("a register");
    if (in_.accept("<")) {
      const int64_t count = in_.integer();
      in_.expect(">");
      if (count < 0 || count > kMostRegisters) in_.fail("no number of registers");
      for (int64_t i = 0; i < count; ++i) add_register(name + std::to_string(i), *type);
    } else {
      add_register(name, *type);
    }
  } while (in_.accept(","));
  in_.expect(";");
}

void BodyParser::add_register(const std::string& name, Type type) {
  const auto index = static_cast<uint32_t>(function_.registers.size());
  if (!scopes_.back().registers.insert({name, index}).second) in_.fail("a register twice: " + name);
  function_.registers.push_back({name, type});
}

void BodyParser::variables(Space space) {
  for (auto& variable : parse_variables(in_, space)) {
    if (variable->bytes == 0) in_.fail("a variable without a size");
    scopes_.back().variables[variable->name] = variable.get();
    function_.variables.push_back(std::move(variable));
  }
}

void BodyParser::instruction() {
  Instruction instruction;
  instruction.line = in_.peek().line;
  instruction.scope = scopes_.back().id;
  if (in_.accept("@")) {
    instruction.guarded = true;
    const bool negated = in_.accept("!");
    instruction.guard = named();
    instruction.guard.negated = negated;
  }
  const std::string text = in_.word("an instruction");
  size_t start = 0;
  while (start <= text.size()) {
    const size_t dot = std::min(text.find('.', start), text.size());
    const std::string part = text.substr(start, dot - start);
    if (start == 0) {
      instruction.opcode = part;
    } else {
      instruction.modifiers.push_back(part);
    }
    start = dot + 1;
  }
  if (!in_.is(";")) {
    do {
      instruction.operands.push_back(operand());
    } while (in_.accept(","));
  }
  in_.expect(";");
  function_.instructions.push_back(std::move(instruction));
}

Operand BodyParser::operand() {
  if (in_.accept("[")) return address();
  if (in_.accept("{")) return sequence(Operand::Kind::Vector, "}");
  if (in_.accept("(")) return sequence(Operand::Kind::List, ")");
  if (in_.accept("-")) return number(true);
  if (in_.peek().kind == Token::Kind::Number) return number(false);
  const bool negated = in_.accept("!");
  Operand first = named();
  first.negated = negated;
  if (!in_.accept("|")) return first;
  Operand pair;
  pair.kind = Operand::Kind::Pair;
  pair.elements.push_back(std::move(first));
  pair.elements.push_back(named());
  return pair;
}

Operand BodyParser::named() {
  const std::string name = in_.word("an operand");
  if (name == "_") return {};
  Operand operand = resolve(name);
  if (operand.kind == Operand::Kind::Variable) operand.offset = trailing_offset();
  return operand;
}

int64_t BodyParser::trailing_offset() {
  if (in_.accept("+")) return in_.integer();
  if (in_.is("-")) return in_.integer();
  return 0;
}

Operand BodyParser::resolve(const std::string& name) {
  Operand operand;
  operand.name = name;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto reg = scope->registers.find(name); reg != scope->registers.end()) {
      operand.kind = Operand::Kind::Register;
      operand.reg = reg->second;
      return operand;
    }
    if (const auto variable = scope->variables.find(name); variable != scope->variables.end()) {
      operand.kind = Operand::Kind::Variable;
      operand.variable = variable->second;
      return operand;
    }
  }
  operand.variable = module_.variable(name);
  operand.kind = operand.variable        ? Operand::Kind::Variable
                 : name.starts_with('%') ? Operand::Kind::Special
                                         : Operand::Kind::Label;
  if (name == "WARP_SZ") {
    operand.kind = Operand::Kind::Integer;
    operand.bits = 32;
  }
  return operand;
}

Operand BodyParser::address() {
  Operand result;
  result.kind = Operand::Kind::Address;
  result.elements.push_back(in_.peek().kind == Token::Kind::Number ? number(false) : named());
  Operand& base = result.elements.front();
  result.offset = base.kind == Operand::Kind::Variable ? std::exchange(base.offset, 0) : trailing_offset();
  in_.expect("]");
  return result;
}

Operand BodyParser::sequence(Operand::Kind kind, std::string_view close) {
  Operand result;
  result.kind = kind;
  if (in_.accept(close)) return result;
  do {
    result.elements.push_back(operand());
  } while (in_.accept(","));
  in_.expect(close);
  return result;
}

Operand BodyParser::number(bool negative) {
  if (in_.peek().kind != Token::Kind::Number) in_.fail("expected a number");
  const Number number = parse_number(in_.source(), in_.next());
  Operand operand;
  operand.bits = number.bits;
  if (number.kind == Number::Kind::Integer) {
    operand.kind = Operand::Kind::Integer;
    if (negative) operand.bits = -operand.bits;
  } else {
    const bool wide = number.kind == Number::Kind::Float64;
    operand.kind = wide ? Operand::Kind::Float64 : Operand::Kind::Float32;
    if (negative) operand.bits ^= wide ? uint64_t{1} << 63 : uint64_t{1} << 31;
  }
  return operand;
}

}  // namespace stepfuse::vgpu
