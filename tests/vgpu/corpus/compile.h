// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace stepfuse::vgpu::corpus {

enum class Compiler { Nvrtc, Nvcc };

/// What a kernel is compiled with and for.
struct Target {
  Compiler compiler = Compiler::Nvrtc;
  int capability = 75;  // major * 10 + minor
};

/// "nvrtc_75", as a test's name may hold it.
std::string name(const Target& target);

/// The compiler, or the toolkit's headers that a source includes, are not on this machine. Says what was looked for.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// PTX of tests/vgpu/corpus/`source`.cu, made once per process. A source whose first include is a toolkit header needs
/// the toolkit's folder of headers; a source named fast.cu is compiled with --use_fast_math. Throws Unavailable, and
/// std::runtime_error with the compiler's log if the source does not compile.
const std::string& ptx_of(std::string_view source, const Target& target);

}  // namespace stepfuse::vgpu::corpus
