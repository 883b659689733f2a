// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/parser.h"

#include <bit>
#include <cstring>

namespace stepfuse::vgpu {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 28;  // of a variable, against damaged text

// PTX ISA "Initializers": nested braces of numbers and addresses, the rest zero.
class Initializer {
 public:
  Initializer(TokenStream& in, Variable& variable) : in_(in), variable_(variable) {}

  void run() {
    if (variable_.space != Space::Global && variable_.space != Space::Const) in_.fail("no initialiser in this space");
    value();
    if (at_ > variable_.bytes && variable_.bytes != 0) in_.fail("more values than the variable holds");
    if (variable_.bytes == 0) variable_.bytes = at_;
    variable_.initial.resize(variable_.bytes);
  }

 private:
  void value() {
    if (in_.accept("{")) {
      while (!in_.accept("}")) {
        value();
        if (!in_.is("}")) in_.expect(",");
      }
    } else if (in_.peek().kind == Token::Kind::Word) {
      address();
    } else {
      number();
    }
  }

  void number() {
    const bool negative = in_.accept("-");
    const Number number = parse_number(in_.source(), in_.next());
    uint64_t bits = number.bits;
    if (number.kind == Number::Kind::Float64 && variable_.type == Type::F32) {
      bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    }
    if (number.kind == Number::Kind::Integer) {
      if (is_float(variable_.type)) in_.fail("an integer for a floating-point variable");
      bits = negative ? -bits : bits;
    } else if (negative) {
      bits ^= uint64_t{1} << (bytes_of(variable_.type) * 8 - 1);
    }
    store(bits);
  }

  void address() {
    Variable::Relocation relocation;
    relocation.offset = at_;
    relocation.bytes = bytes_of(variable_.type);
    if (relocation.bytes != 8) in_.fail("an address that is not 64 bits wide");
    relocation.symbol = in_.word("a variable");
    if (relocation.symbol == "generic") {
      in_.expect("(");
      relocation.generic = true;
      relocation.symbol = in_.word("a variable");
      in_.expect(")");
    }
    if (in_.accept("+")) relocation.addend = in_.integer();
    variable_.relocations.push_back(relocation);
    store(0);
  }

  void store(uint64_t bits) {
    const size_t bytes = bytes_of(variable_.type);
    variable_.initial.resize(at_ + bytes);
    std::memcpy(variable_.initial.data() + at_, &bits, bytes);
    at_ += bytes;
  }

  TokenStream& in_;
  Variable& variable_;
  size_t at_ = 0;
};

struct Prefix {
  size_t alignment = 0;
  size_t vector = 1;
  Type type = Type::None;
};

// `.align 16`, `.ptr .global .align 8` of a kernel's pointer (a promise about what it points to), `.v4`, the type.
Prefix parse_prefix(TokenStream& in) {
  Prefix prefix;
  bool pointer = false;
  while (true) {
    if (in.accept(".align")) {
      const auto alignment = static_cast<size_t>(in.integer());
      if (!std::has_single_bit(alignment) || alignment > 4096) in.fail("an alignment that is no power of two");
      if (!pointer) prefix.alignment = alignment;
    } else if (in.accept(".ptr")) {
      pointer = true;
    } else if (in.accept(".v2")) {
      prefix.vector = 2;
    } else if (in.accept(".v4")) {
      prefix.vector = 4;
    } else if (pointer && (in.is(".global") || in.is(".const") || in.is(".local") || in.is(".shared"))) {
      in.next();
    } else if (in.peek().text.starts_with('.') && prefix.type == Type::None) {
      const auto type = type_named(in.peek().text.substr(1));
      if (!type || *type == Type::Pred) in.fail("unknown in a declaration: " + std::string(in.peek().text));
      prefix.type = *type;
      in.next();
    } else {
      break;
    }
  }
  if (prefix.type == Type::None) in.fail("a declaration without a type");
  return prefix;
}

std::unique_ptr<Variable> parse_declarator(TokenStream& in, Space space, const Prefix& prefix) {
  auto variable = std::make_unique<Variable>();
  variable->space = space;
  variable->line = in.peek().line;
  variable->name = in.word("a variable's name");
  variable->type = prefix.type;
  const size_t element = bytes_of(prefix.type) * prefix.vector;
  variable->alignment = prefix.alignment == 0 ? element : prefix.alignment;
  size_t count = 1;
  while (in.accept("[")) {
    if (in.accept("]")) {
      count = 0;
    } else {
      const int64_t extent = in.integer();
      if (extent <= 0 || extent > kMostElements || count > static_cast<size_t>(kMostElements)) in.fail("no size");
      count *= static_cast<size_t>(extent);
      in.expect("]");
    }
  }
  variable->bytes = element * count;
  if (in.accept("=")) Initializer(in, *variable).run();
  return variable;
}

}  // namespace

std::unique_ptr<Variable> parse_variable(TokenStream& in, Space space) {
  return parse_declarator(in, space, parse_prefix(in));
}

std::vector<std::unique_ptr<Variable>> parse_variables(TokenStream& in, Space space) {
  const Prefix prefix = parse_prefix(in);
  std::vector<std::unique_ptr<Variable>> list;
  do {
    list.push_back(parse_declarator(in, space, prefix));
  } while (in.accept(","));
  in.expect(";");
  return list;
}

}  // namespace stepfuse::vgpu
