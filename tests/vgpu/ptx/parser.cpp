// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/parser.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace stepfuse::vgpu {
namespace {

constexpr int kNewestVersion = 93;  // of the ISA, major * 10 + minor: what CUDA 13 writes, and a little more

int capability_of(std::string_view target, TokenStream& in) {
  std::string_view digits = target;
  if (!digits.starts_with("sm_")) in.fail("a target that is no sm_XY");
  digits.remove_prefix(3);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) in.fail("a target that is no sm_XY");
  // Suffixes a and f ask for one device or its family; this machine is neither.
  if (end != digits.data() + digits.size()) in.fail("a target for one architecture only; PTX for any needs no suffix");
  return value;
}

class ModuleParser {
 public:
  ModuleParser(ModuleText& module, int capability) : in_(module.source), module_(module), capability_(capability) {}

  void run() {
    header();
    while (!in_.at_end()) item();
  }

 private:
  void header() {
    in_.expect(".version");
    const std::string version(in_.next().text);
    const size_t dot = version.find('.');
    if (dot == std::string::npos) in_.fail("a version is MAJOR.MINOR");
    const int number = small_number(version.substr(0, dot)) * 10 + small_number(version.substr(dot + 1));
    if (number < 60 || number > kNewestVersion) in_.fail("PTX ISA " + version + ", this machine knows 6.0 to 9.3");
    in_.expect(".target");
    module_.capability = capability_of(in_.word("a target"), in_);
    while (in_.accept(",")) {
      if (in_.word("a target option") != "debug") in_.fail("unknown target option");
    }
    if (module_.capability > capability_) {
      in_.fail("the target sm_" + std::to_string(module_.capability) + " is above this device's " +
               std::to_string(capability_));
    }
    if (in_.accept(".address_size") && in_.integer() != 64) in_.fail("only 64-bit addresses");
  }

  int small_number(const std::string& digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value > 99) in_.fail("no number");
    return value;
  }

  void item() {
    if (in_.is(".file") || in_.is(".loc")) return in_.skip_line();
    if (in_.accept(".section")) {
      in_.next();
      return in_.skip_braces();
    }
    if (in_.accept(".pragma")) {
      while (!in_.accept(";")) in_.next();
      return;
    }
    bool external = false;
    while (in_.is(".visible") || in_.is(".weak") || in_.is(".extern") || in_.is(".common")) {
      external |= in_.next().text == ".extern";
    }
    if (in_.is(".entry") || in_.is(".func")) return function(in_.next().text == ".entry");
    constexpr std::pair<std::string_view, Space> kSpaces[] = {
        {".global", Space::Global}, {".const", Space::Const}, {".shared", Space::Shared}};
    for (const auto& [text, space] : kSpaces) {
      if (in_.accept(text)) return add_variables(space, external);
    }
    in_.fail("unknown at module scope");
  }

  void add_variables(Space space, bool external) {
    for (auto& variable : parse_variables(in_, space)) {
      // An array without a size is as long as the launch says, or lives in another module.
      variable->external = external;
      if (external && space != Space::Shared) in_.fail("an external variable, and there is no linker");
      if (!external && variable->bytes == 0) in_.fail("a variable without a size");
      if (module_.variable(variable->name)) in_.fail("declared twice: " + variable->name);
      module_.variables.push_back(std::move(variable));
    }
  }

  std::vector<std::unique_ptr<Variable>> parameters(Space space) {
    std::vector<std::unique_ptr<Variable>> list;
    if (!in_.accept("(")) return list;
    while (!in_.accept(")")) {
      if (!in_.accept(".param")) in_.fail("a parameter outside of .param space");
      list.push_back(parse_variable(in_, space));
      if (!in_.is(")")) in_.expect(",");
    }
    return list;
  }

  void function(bool entry) {
    auto function = std::make_unique<Function>();
    function->entry = entry;
    function->line = in_.peek().line;
    while (in_.accept(".attribute")) in_.fail("unknown function attribute");
    function->results = parameters(Space::Local);
    function->name = in_.word("a function's name");
    function->parameters = parameters(entry ? Space::EntryParam : Space::Local);
    directives(*function);
    Function* earlier = module_.function(function->name);
    if (in_.accept(";")) {
      if (!earlier) module_.functions.push_back(std::move(function));
      return;
    }
    if (earlier && earlier->defined) in_.fail("defined twice: " + function->name);
    function->defined = true;
    Function* target = function.get();
    if (earlier) {
      *earlier = std::move(*function);
      target = earlier;
    } else {
      module_.functions.push_back(std::move(function));
    }
    BodyParser(in_, module_, *target).run();
  }

  Dim3 extents() {
    uint32_t n[3] = {1, 1, 1};
    for (uint32_t& value : n) {
      value = static_cast<uint32_t>(in_.integer());
      if (!in_.accept(",")) break;
    }
    return {n[0], n[1], n[2]};
  }

  // PTX ISA "Performance-Tuning Directives".
  void directives(Function& function) {
    while (!in_.is("{") && !in_.is(";")) {
      if (in_.accept(".maxntid")) {
        function.max_threads = extents();
      } else if (in_.accept(".reqntid")) {
        function.required_threads = extents();
      } else if (in_.accept(".minnctapersm")) {
        function.min_blocks = static_cast<uint32_t>(in_.integer());
      } else if (in_.accept(".maxnreg") || in_.accept(".maxclusterrank")) {
        in_.integer();
      } else if (in_.accept(".pragma")) {
        while (!in_.accept(";")) in_.next();
      } else if (!in_.accept(".noreturn")) {
        in_.fail("unknown directive of a function");
      }
    }
  }

  TokenStream in_;
  ModuleText& module_;
  int capability_;
};

}  // namespace

bool TokenStream::accept(std::string_view text) {
  if (!is(text)) return false;
  next();
  return true;
}

void TokenStream::expect(std::string_view text) {
  if (!accept(text)) fail("expected '" + std::string(text) + "', found '" + std::string(peek().text) + "'");
}

std::string TokenStream::word(std::string_view what) {
  if (peek().kind != Token::Kind::Word) fail("expected " + std::string(what));
  return std::string(next().text);
}

int64_t TokenStream::integer() {
  const bool negative = accept("-");
  if (peek().kind != Token::Kind::Number) fail("expected an integer");
  const Number number = parse_number(source_, peek());
  if (number.kind != Number::Kind::Integer) fail("expected an integer");
  next();
  const auto value = static_cast<int64_t>(number.bits);
  return negative ? -value : value;
}

void TokenStream::skip_line() {
  const uint32_t line = peek().line;
  while (!at_end() && peek().line == line) next();
}

void TokenStream::skip_braces() {
  expect("{");
  while (!accept("}")) {
    if (at_end()) fail("a brace that never closes");
    next();
  }
}

const Function::Label* Function::label(const std::string& wanted, uint32_t scope) const {
  const auto [first, last] = labels.equal_range(wanted);
  while (true) {
    for (auto it = first; it != last; ++it) {
      if (it->second.scope == scope) return &it->second;
    }
    if (scope == 0) return nullptr;
    scope = scope_parents[scope];
  }
}

Function* ModuleText::function(std::string_view name) const {
  for (const auto& function : functions) {
    if (function->name == name) return function.get();
  }
  return nullptr;
}

Variable* ModuleText::variable(std::string_view name) const {
  for (const auto& variable : variables) {
    if (variable->name == name) return variable.get();
  }
  return nullptr;
}

std::unique_ptr<ModuleText> parse(std::string_view ptx, int capability) {
  // A driver takes text with its terminating zero, and counts it or not.
  while (ptx.ends_with('\0')) ptx.remove_suffix(1);
  auto module = std::make_unique<ModuleText>(ptx);
  ModuleParser(*module, capability).run();
  return module;
}

}  // namespace stepfuse::vgpu
