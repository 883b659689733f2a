// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/syntax.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::vgpu {

/// Tokens of a module, one after another.
class TokenStream {
 public:
  explicit TokenStream(const SourceText& source) : source_(source), tokens_(tokenize(source)) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() {
    const Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at_end() const { return peek().kind == Token::Kind::End; }
  bool is(std::string_view text, size_t ahead = 0) const { return peek(ahead).text == text && !at_end(); }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  std::string word(std::string_view what);
  int64_t integer();
  void skip_line();
  void skip_braces();
  [[noreturn]] void fail(const std::string& what) const { source_.fail(peek().line, what); }
  const SourceText& source() const { return source_; }

 private:
  const SourceText& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

/// `.align 4 .b8 name[16] = {...}` after its state space; one variable.
std::unique_ptr<Variable> parse_variable(TokenStream& in, Space space);

/// What may follow on the same declaration: `, other[4]`.
std::vector<std::unique_ptr<Variable>> parse_variables(TokenStream& in, Space space);

/// Statements between the braces of a function.
class BodyParser {
 public:
  BodyParser(TokenStream& in, ModuleText& module, Function& function);
  void run();

 private:
  struct Scope {
    uint32_t id = 0;
    std::map<std::string, uint32_t> registers;
    std::map<std::string, const Variable*> variables;
  };

  void open_scope();
  void statement();
  void directive();
  void label();
  void label_table(const std::string& name);
  void registers();
  void add_register(const std::string& name, Type type);
  void variables(Space space);
  void instruction();
  Operand operand();
  Operand named();
  Operand address();
  Operand sequence(Operand::Kind kind, std::string_view close);
  Operand number(bool negative);
  int64_t trailing_offset();
  Operand resolve(const std::string& name);

  TokenStream& in_;
  ModuleText& module_;
  Function& function_;
  std::vector<Scope> scopes_;
};

}  // namespace stepfuse::vgpu
