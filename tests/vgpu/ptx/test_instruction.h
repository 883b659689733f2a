// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/test_run.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stepfuse::vgpu {

/// Operands of an instruction and what it gives, as bits.
struct Case {
  uint64_t a = 0, b = 0, c = 0, expected = 0;
};

/// Types of %d, %a, %b and %c of a test's instruction, of 16 to 64 bits; "pred" for %d gives 0 or 1.
struct Signature {
  std::string d, a, b = "b32", c = "b32";
};

inline Signature all_of(const std::string& type) { return {type, type, type, type}; }

inline std::string width_of(const std::string& type) {
  return type == "pred" || type.ends_with("x2") ? "32" : type.ends_with("f16") ? "16" : type.substr(type.size() - 2);
}

/// A kernel of one thread per case, which runs `instruction` on %a, %b and %c into %d.
inline std::string instruction_kernel(const std::string& instruction, const Signature& types, int capability) {
  std::string text = ptx_header(capability) + ".visible .entry test(.param .u64 in, .param .u64 out)\n{\n";
  text += ".reg .b64 %base, %place, %offset;\n.reg .b32 %tid;\n.reg .pred %p, %q;\n";
  const std::pair<std::string, std::string> sources[] = {{"%a", types.a}, {"%b", types.b}, {"%c", types.c}};
  for (const auto& [name, type] : sources) text += ".reg .b" + width_of(type) + " " + name + ";\n";
  text += ".reg .b" + width_of(types.d) + " %d;\nmov.u32 %tid, %tid.x;\nld.param.u64 %base, [in];\n";
  text += "mul.wide.u32 %offset, %tid, 24;\nadd.u64 %place, %base, %offset;\n";
  for (size_t i = 0; i < 3; ++i) {
    text += "ld.global.b" + width_of(sources[i].second) + " " + sources[i].first + ", [%place+" +
            std::to_string(8 * i) + "];\n";
  }
  text += instruction + "\n";
  if (types.d == "pred") text += "selp.b32 %d, 1, 0, %p;\n";
  text += "ld.param.u64 %base, [out];\nmul.wide.u32 %offset, %tid, 8;\nadd.u64 %place, %base, %offset;\n";
  text += "st.global.b" + width_of(types.d) + " [%place], %d;\nret;\n}\n";
  return text;
}

inline std::vector<uint64_t> run_instruction(const std::string& instruction, const Signature& types,
                                             const std::vector<Case>& cases, int capability = 100) {
  TestModule test(instruction_kernel(instruction, types, capability));
  std::vector<uint64_t> operands;
  for (const Case& one : cases) operands.insert(operands.end(), {one.a, one.b, one.c});
  const uint64_t in = test.upload(operands);
  const uint64_t out = test.upload(std::vector<uint64_t>(cases.size()));
  Launch launch;
  launch.block.x = static_cast<uint32_t>(cases.size());
  test.run("test", launch, in, out);
  return test.download<uint64_t>(out, cases.size());
}

inline void expect_cases(const std::string& instruction, const Signature& types, const std::vector<Case>& cases,
                         int capability = 100) {
  const std::vector<uint64_t> results = run_instruction(instruction, types, cases, capability);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(results[i], cases[i].expected)
        << instruction << " of " << std::hex << cases[i].a << ", " << cases[i].b << ", " << cases[i].c << ": got "
        << results[i] << ", expected " << cases[i].expected;
  }
}

/// The message with which a module is refused; empty if it is taken.
inline std::string refusal(const std::string& ptx, MachineOptions options = {}) {
  try {
    TestModule test(ptx, options);
  } catch (const PtxError& error) {
    return error.what();
  }
  return "";
}

inline std::string refused_instruction(const std::string& instruction, const Signature& types, int capability = 100) {
  return refusal(instruction_kernel(instruction, types, capability));
}

}  // namespace stepfuse::vgpu
