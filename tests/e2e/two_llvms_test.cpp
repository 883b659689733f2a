// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/optimizer_run.h"

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace stepfuse::tests {
namespace {

// A program that has an LLVM of its own, as llvmlite and torch bring one: here with every name of it in the open, which
// is worse. Each case is a process of its own; whichever LLVM comes first, both compile and run code.

/// What we use of LLVM's C interface, which is the same in all versions.
class OtherLlvm {
 public:
  explicit OtherLlvm(const char* file) : library_(dlopen(file, RTLD_NOW | RTLD_GLOBAL)) {}
  bool opened() const { return library_ != nullptr; }

  /// Compiles "add two numbers" and runs it.
  int64_t add(int64_t a, int64_t b) const {
    for (const char* name : {"LLVMInitializeX86TargetInfo", "LLVMInitializeX86Target", "LLVMInitializeX86TargetMC",
                             "LLVMInitializeX86AsmPrinter", "LLVMLinkInMCJIT"})
      function<void()>(name)();
    auto* module = function<void*(const char*)>("LLVMModuleCreateWithName")("other");
    auto* i64 = function<void*()>("LLVMInt64Type")();
    void* parameters[] = {i64, i64};
    auto* type = function<void*(void*, void**, unsigned, int)>("LLVMFunctionType")(i64, parameters, 2, 0);
    auto* added = function<void*(void*, const char*, void*)>("LLVMAddFunction")(module, "sum_of_two", type);
    auto* builder = function<void*()>("LLVMCreateBuilder")();
    auto* block = function<void*(void*, const char*)>("LLVMAppendBasicBlock")(added, "entry");
    function<void(void*, void*)>("LLVMPositionBuilderAtEnd")(builder, block);
    const auto parameter = function<void*(void*, unsigned)>("LLVMGetParam");
    auto* sum = function<void*(void*, void*, void*, const char*)>("LLVMBuildAdd")(builder, parameter(added, 0),
                                                                                  parameter(added, 1), "sum");
    function<void*(void*, void*)>("LLVMBuildRet")(builder, sum);
    void* engine = nullptr;
    char* error = nullptr;
    if (function<int(void**, void*, char**)>("LLVMCreateExecutionEngineForModule")(&engine, module, &error) != 0)
      return -1;
    const auto address = function<uint64_t(void*, const char*)>("LLVMGetFunctionAddress")(engine, "sum_of_two");
    return address == 0 ? -1 : reinterpret_cast<int64_t (*)(int64_t, int64_t)>(address)(a, b);
  }

 private:
  template <class F>
  F* function(const char* name) const {
    void* address = dlsym(library_, name);
    if (address == nullptr) std::exit(20);
    return reinterpret_cast<F*>(address);
  }

  void* library_;
};

/// One AdamW step must equal the interpreter's.
bool our_step_is_right() {
  RunSettings settings;
  const Bytes values = random_tensor(ir::DType::F32, 1000, 1);
  const Bytes gradient = random_tensor(ir::DType::F32, 1000, 2);
  const auto compiled = run_rule("adamw", {}, {{1000}}, values, gradient, settings);
  settings.target = "interp";
  const auto exact = run_rule("adamw", {}, {{1000}}, values, gradient, settings);
  if (!compiled || !exact) {
    std::fprintf(stderr, "%s\n", (compiled ? exact : compiled).error().message.c_str());
    return false;
  }
  return difference(ir::DType::F32, compiled->param, exact->param).empty();
}

[[noreturn]] void exit_with_result(const char* library, bool other_first) {
  const bool before = other_first || our_step_is_right();
  const OtherLlvm other(library);
  const bool theirs = other.opened() && other.add(40, 2) == 42;
  const bool after = our_step_is_right();
  const bool again = other.add(1, 2) == 3;
  std::exit(before && theirs && after && again ? 0 : 21);
}

class TwoLlvms : public testing::TestWithParam<const char*> {};

TEST_P(TwoLlvms, WorkInEitherOrder) {
  const char* library = GetParam();
  // This process opens nothing: whether the library is there is asked of a child too.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string probe = std::string("ldconfig -p 2>/dev/null | grep -q ") + library;
  if (std::system(("PATH=$PATH:/sbin:/usr/sbin; " + probe).c_str()) != 0)
    GTEST_SKIP() << library << " is not installed";
  EXPECT_EXIT(exit_with_result(library, true), testing::ExitedWithCode(0), "") << "the other LLVM first";
  EXPECT_EXIT(exit_with_result(library, false), testing::ExitedWithCode(0), "") << "ours first";
}

/// Our own version by the same name is one library for both; the others are strangers.
INSTANTIATE_TEST_SUITE_P(Libraries, TwoLlvms,
                         testing::Values("libLLVM-14.so.1", "libLLVM-15.so.1", "libLLVM-19.so.1", "libLLVM.so.19.1"),
                         [](const auto& library) { return "Library" + std::to_string(library.index); });

}  // namespace
}  // namespace stepfuse::tests
