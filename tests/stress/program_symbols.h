// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace stepfuse::tests {

/// The functions of the running program, from the symbol table of its file. A lookup allocates nothing.
class ProgramSymbols {
 public:
  ProgramSymbols();
  /// Linker's name of the function that holds `address`; empty when unknown.
  std::string_view function_at(const void* address) const;

 private:
  struct Function {
    uint64_t begin, end;  // as linked
    const char* name;
  };
  std::vector<char> file_;
  std::vector<Function> functions_;  // by address
  uint64_t bias_ = 0;                // of the loaded program against its linked addresses
};

}  // namespace stepfuse::tests
