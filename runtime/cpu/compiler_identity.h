// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/jit.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// What compiled a kernel, in terms that can be compared without opening LLVM: the plugin by its build id, which is the
/// same wherever the file lies, and LLVM's library by path, size and time. Empty or 0: not known.
struct CompilerIdentity {
  std::string version;  // "LLVM 19.1.7", for readers
  std::string plugin;
  std::string llvm_file;
  int64_t llvm_bytes = 0;
  int64_t llvm_time = 0;  // of its last change, seconds since 1970
};

/// Of the compiler that this process has opened; `plugin_dir` as for cpu_compiler().
CompilerIdentity opened_compiler(const CpuCompiler& compiler, std::string_view plugin_dir);

/// Why a kernel of that compiler is not what this process would compile; nothing if it is, or if there is no way to
/// know (no plugin is installed). Opens no library; each file is looked at once per process.
std::optional<std::string> other_compiler(const CompilerIdentity& identity, std::string_view plugin_dir);

/// The build id in an ELF file's notes, as hexadecimal digits; the hash of the whole file where there is none; empty
/// when it cannot be read.
std::string file_identity(const std::string& path);

}  // namespace stepfuse::runtime
