// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/override.h"

#include "tests/unit/compile_kernel.h"
#include "tests/unit/debug_fixture.h"
#include "tests/unit/kernel_samples.h"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::HasSubstr;
using namespace test;  // NOLINT: fixtures

constexpr const char* kSgd = "stepfuse_sgd_update_f32";
const std::vector<int64_t> kShape{1000};

/// What a run with dump=llvm leaves in the folder.
void dump_llvm(const TempFolder& folder, const std::string& rule, const std::vector<int64_t>& shape) {
  const auto context = make_context({{"dump", "llvm"}, {"dump_dir", folder.path()}});
  ASSERT_TRUE(run_steps(context, rule, shape));
  EXPECT_THAT(*context.messages, testing::IsEmpty());
}

LoggedContext overriding(const TempFolder& folder) { return make_context({{"override_dir", folder.path()}}); }

Values plain(const std::string& rule, const std::vector<int64_t>& shape) {
  return run_steps(make_context({}), rule, shape).value();
}

/// The message of a run that must fail because of what the folder holds.
std::string refusal(const TempFolder& folder) {
  const auto result = run_steps(overriding(folder), "sgd", kShape);
  if (result) return "it was accepted";
  EXPECT_EQ(result.error().code, StatusCode::InvalidData) << result.error().message;
  return result.error().message;
}

std::string kernel_text(const std::string& body) {
  return fmt::format("define void @{}(ptr %call, i64 %unit, i64 %begin, i64 %end) {{\n{}\n}}\n", kSgd, body);
}

TEST(Override, TakesWhatADumpWrote) {
  for (const auto& [rule, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"adamw", {1000}}, {"sgd", {1000}}, {"muon", {48, 80}}}) {
    const TempFolder folder;
    dump_llvm(folder, rule, shape);
    const auto context = overriding(folder);
    const auto result = run_steps(context, rule, shape);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(*result, plain(rule, shape)) << rule;
    EXPECT_EQ(context.count("comes from " + folder.path()), static_cast<int>(folder.files().size()));
    EXPECT_EQ(context.messages->size(), folder.files().size());
  }
}

/// The learning rate is the second scalar and the weight decay, which is 0 here, the first.
TEST(Override, AnEditChangesTheResult) {
  const TempFolder folder;
  dump_llvm(folder, "sgd", kShape);
  const std::string file = std::string(kSgd) + ".ll";
  const std::string text = folder.read(file);
  const std::string edited =
      std::regex_replace(text, std::regex("fptrunc double %s1 to float"), "fptrunc double %s0 to float");
  ASSERT_NE(edited, text);
  folder.write(file, edited);
  EXPECT_EQ(run_steps(overriding(folder), "sgd", kShape).value(), start_values(kShape));
  // What is generated has not been touched by it, in memory or elsewhere.
  EXPECT_NE(plain("sgd", kShape), start_values(kShape));
  // An edit counts from the next prepare on.
  folder.write(file, text);
  EXPECT_EQ(run_steps(overriding(folder), "sgd", kShape).value(), plain("sgd", kShape));
}

TEST(Override, TakesAKernelWrittenByHand) {
  const TempFolder folder;
  folder.write(std::string(kSgd) + ".ll", kernel_text("  ret void"));
  EXPECT_EQ(run_steps(overriding(folder), "sgd", kShape).value(), start_values(kShape));
}

/// The text of `stepfuse inspect --stage llvm` holds all kernels of a plan.
TEST(Override, TakesAFileWithSeveralKernels) {
  const TempFolder folder;
  dump_llvm(folder, "muon", {48, 80});
  std::string all = "; LLVM 19\n";
  for (const std::string& file : folder.files())
    all += fmt::format("\n; kernel {}\n{}", file.substr(0, file.size() - 3), folder.read(file));
  for (const std::string& file : folder.files()) folder.write(file, all);
  const auto context = overriding(folder);
  const auto result = run_steps(context, "muon", {48, 80});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(*result, plain("muon", {48, 80}));
  EXPECT_EQ(context.count("comes from"), static_cast<int>(folder.files().size()));
}

TEST(Override, NamesTheLineThatDoesNotParse) {
  const TempFolder folder;
  const std::string file = folder.path(std::string(kSgd) + ".ll");
  folder.write(std::string(kSgd) + ".ll", kernel_text("  %x = fdad double 1.0, 2.0\n  ret void"));
  EXPECT_THAT(refusal(folder), HasSubstr(file + ":2:8: expected instruction opcode"));
}

TEST(Override, RefusesWhatIsNoKernel) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is empty"},
      {"\n\n", "is empty"},
      {"define void @other(ptr %a, i64 %b, i64 %c, i64 %d) { ret void }", "does not define @"},
      {fmt::format("declare void @{}(ptr, i64, i64, i64)", kSgd), "does not define @"},
      {fmt::format("define void @{}(ptr %call, i64 %unit, i64 %begin) {{ ret void }}", kSgd), "must be void (ptr"},
      {fmt::format("define i64 @{}(ptr %a, i64 %b, i64 %c, i64 %d) {{ ret i64 0 }}", kSgd), "must be void (ptr"},
      {fmt::format("define fastcc void @{}(ptr %a, i64 %b, i64 %c, i64 %d) {{ ret void }}", kSgd), "C's calling"},
      {fmt::format("define internal void @{}(ptr %a, i64 %b, i64 %c, i64 %d) {{ ret void }}", kSgd),
       "external linkage"},
      {kernel_text("  call void @abort()\n  ret void") + "declare void @abort()", "calls @abort"},
      {kernel_text("  ret void") + "@state = private global i32 0", "@state is not a constant"},
      {kernel_text("  ret void") + "@other = external constant i32", "needs @other from outside"},
      {kernel_text("  ret void") + "module asm \"nop\"", "assembly beside"},
      {kernel_text("  %x = add i64 %y, 1\n  %y = add i64 %x, 1\n  ret void"), "does not dominate"},
      // Legal, but it becomes a call of the C library's memset.
      {kernel_text("  call void @llvm.memset.p0.i64(ptr %call, i8 0, i64 %end, i1 false)\n  ret void") +
           "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
       "needs 'memset' from outside"}};
  for (const auto& [text, message] : cases) {
    const TempFolder folder;
    folder.write(std::string(kSgd) + ".ll", text);
    EXPECT_THAT(refusal(folder), HasSubstr(message)) << text;
  }
}

/// LLVM's backend would end the process.
TEST(Override, SurvivesInstructionsOfAnotherCpu) {
  const codegen::KernelSpec spec = op_spec(ir::Op::Add, ir::DType::F32, codegen::Scheme::Linear, true, false);
  const std::string text = fmt::format(
      "define void @{}(ptr %call, i64 %unit, i64 %begin, i64 %end) {{\n"
      "  %x = load <16 x float>, ptr %call\n"
      "  %y = call <16 x float> @llvm.x86.avx512.add.ps.512(<16 x float> %x, <16 x float> %x, i32 8)\n"
      "  store <16 x float> %y, ptr %call\n  ret void\n}}\n"
      "declare <16 x float> @llvm.x86.avx512.add.ps.512(<16 x float>, <16 x float>, i32)\n",
      spec.name);
  const auto kernel = cpu_plugin().compile({&spec, cpu_target_named("x86-64-v3"), false, false, {"edited.ll", text}});
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, StatusCode::InvalidData);
  EXPECT_THAT(kernel.error().message, HasSubstr("edited.ll"));
  // And the compiler still works.
  EXPECT_FALSE(compile(spec, cpu_target_named("x86-64-v3")).object.empty());
}

TEST(Override, SaysWhichFilesReplaceNothing) {
  const TempFolder folder;
  folder.write("stepfuse_sgd_udpate_f32.ll", kernel_text("  ret void"));
  folder.write("notes.txt", "not a kernel");
  const auto context = overriding(folder);
  EXPECT_EQ(run_steps(context, "sgd", kShape).value(), plain("sgd", kShape));
  EXPECT_EQ(run_steps(context, "sgd", kShape).value(), plain("sgd", kShape));
  EXPECT_EQ(context.count("stepfuse_sgd_udpate_f32.ll"), 1);
  EXPECT_EQ(context.messages->size(), 1U);
  // The interpreter, with which an edited kernel is compared, has none to replace.
  const auto interpreted = overriding(folder);
  ASSERT_TRUE(run_steps(interpreted, "sgd", kShape, {}, "interp"));
  EXPECT_EQ(interpreted.messages->size(), 0U);
}

TEST(Override, NeedsItsFolderAndTheCompiler) {
  const TempFolder folder;
  auto result = run_steps(make_context({{"override_dir", folder.path("gone")}}), "sgd", kShape);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, StatusCode::InvalidArgument);
  EXPECT_THAT(result.error().message, HasSubstr("gone"));
  folder.write(std::string(kSgd) + ".ll", kernel_text("  ret void  ; never compiled"));
  result = run_steps(make_context({{"override_dir", folder.path()}, {"jit", "off"}}), "sgd", kShape);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, StatusCode::InvalidArgument);
}

/// Two rules of one name give kernels of one name.
TEST(Override, AsksWhichOfSeveralKernelsIsMeant) {
  const TempFolder folder;
  folder.write(std::string(kSgd) + ".ll", kernel_text("  ret void"));
  const auto context = overriding(folder);
  OptimizerSettings settings;
  settings.context = context.context;
  Optimizer optimizer = Optimizer::create(settings).value();
  for (const char* maximize : {"false", "true"}) {
    const uint32_t group = optimizer.add_group("sgd", {{"maximize", maximize}}).value();
    ASSERT_TRUE(optimizer.add_parameter(group, maximize, {kShape}));
  }
  const Outcome outcome = optimizer.prepare();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, StatusCode::InvalidArgument);
  EXPECT_THAT(outcome.error().message, HasSubstr("2 different kernels"));
}

}  // namespace
}  // namespace stepfuse::runtime
