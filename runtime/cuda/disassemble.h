// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// One of the toolkit's programs that print machine code.
struct Disassembler {
  std::string program;                 // "/usr/local/cuda/bin/nvdisasm"
  std::vector<std::string> arguments;  // before the file's name
};

/// nvdisasm or else cuobjdump: on the PATH, in Python's nvidia wheels, below CUDA_HOME, CUDA_PATH and the default
/// folder. The error says how to get one.
Result<Disassembler> find_disassembler(const std::vector<std::string>& environment,
                                       const std::string& default_folder = "/usr/local/cuda");

/// Starts the program, without a shell, on the machine code, which it gets as a file without a name.
Result<std::string> disassemble(const Disassembler& disassembler, std::span<const std::byte> cubin);

}  // namespace stepfuse::runtime
