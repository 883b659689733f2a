// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/dump.h"

#include "codegen/lower.h"
#include "ir/print.h"
#include "runtime/cpu/jit.h"
#include "runtime/cuda_backend.h"
#include "runtime/debug/override.h"
#include "runtime/debug/text_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace stepfuse::runtime {

namespace {

using codegen::KernelSpec;

class Dumper {
 public:
  Dumper(const Context& context, const std::vector<std::string>& stages, const std::string& folder)
      : context_(context), stages_(stages), folder_(folder) {}

  bool wants(std::string_view stage) const { return std::find(stages_.begin(), stages_.end(), stage) != stages_.end(); }

  Outcome write(const std::string& name, const std::string& text) const {
    return write_whole_file(std::filesystem::path(folder_) / name, text);
  }

  Outcome plan_text(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters) const {
    return write("plan." + mark(plan) + "txt", compiler::print_plan(plan, parameters));
  }

  Outcome graphs(const compiler::StepPlan& plan) const {
    for (const compiler::GroupPlan& group : plan.groups) {
      const std::string stem = rule_file_name(group.naive);
      STEPFUSE_TRY(write(stem + ".naive.sfir", ir::print(group.naive)));
      STEPFUSE_TRY(write(stem + "." + mark(plan) + "fused.sfir", ir::print(group.graph)));
    }
    return {};
  }

  Outcome kernels(const compiler::StepPlan& plan) const {
    STEPFUSE_ASSIGN(const CpuTarget target, cpu_target(plan.target.name));
    STEPFUSE_ASSIGN(const CpuCompiler* compiler, cpu_compiler(context_.settings().text("plugin_dir")));
    const std::vector<KernelSpec> specs = codegen::distinct_kernels(plan);
    std::map<std::string, std::set<std::string>> hashes;  // by name
    for (const KernelSpec& spec : specs) hashes[spec.name].insert(kernel_hash(spec));
    for (const KernelSpec& spec : specs) {
      const std::string stem = file_name_of(spec.name);
      STEPFUSE_TRY(
          kernel(spec, target, *compiler, hashes[spec.name].size() > 1 ? stem + "." + kernel_hash(spec) : stem));
    }
    return {};
  }

  Outcome cuda_kernels(const compiler::StepPlan& plan) const {
    for (const auto& [stage, kind] : {std::pair("cuda", CudaText::Source), std::pair("ptx", CudaText::Ptx)}) {
      if (!wants(stage)) continue;
      STEPFUSE_ASSIGN(const std::vector<NamedText> files, cuda_kernel_files(plan, context_, kind));
      std::error_code error;
      // A person's edited files are not ours to replace, should both folders be one.
      if (kind == CudaText::Source &&
          std::filesystem::equivalent(folder_, context_.settings().text("override_dir"), error))
        continue;
      for (const NamedText& file : files) STEPFUSE_TRY(write(file.name, file.text));
    }
    return {};
  }

 private:
  /// The interpreter often runs beside a compiled plan, to check it.
  static std::string mark(const compiler::StepPlan& plan) { return plan.target.name == "interp" ? "interp." : ""; }

  Outcome kernel(const KernelSpec& spec, const CpuTarget& target, const CpuCompiler& compiler,
                 const std::string& stem) const {
    STEPFUSE_ASSIGN(LlvmIrOverride replacement, find_override(context_, spec));
    const std::string edited = replacement.file;
    STEPFUSE_ASSIGN(const CompiledKernel compiled,
                    compiler.compile({&spec, target, wants("llvm"), wants("asm"), std::move(replacement)}));
    std::error_code error;
    // A person's edited file is not ours to replace, should both folders be one.
    const std::string ll = stem + ".ll";
    const bool own_source = std::filesystem::equivalent(std::filesystem::path(folder_) / ll, edited, error);
    if (wants("llvm") && !own_source) STEPFUSE_TRY(write(ll, compiled.llvm_ir));
    if (wants("asm")) STEPFUSE_TRY(write(stem + ".s", compiled.assembly));
    return {};
  }

  const Context& context_;
  const std::vector<std::string>& stages_;
  const std::string& folder_;
};

}  // namespace

std::string rule_file_name(const ir::Graph& naive) {
  return fmt::format("{}.{}", file_name_of(naive.name), short_hash(ir::print(naive)));
}

Outcome write_dump(const Context& context, const compiler::StepPlan& plan,
                   const std::vector<compiler::PlannedParameter>& parameters, const std::vector<std::string>& stages,
                   const std::string& folder) {
  const Dumper dumper(context, stages, folder);
  if (dumper.wants("ir")) STEPFUSE_TRY(dumper.graphs(plan));
  if (dumper.wants("plan")) STEPFUSE_TRY(dumper.plan_text(plan, parameters));
  if (plan.target.name == "interp") return {};
  if (is_cuda_target(plan.target.name)) return dumper.cuda_kernels(plan);
  const bool compiled = dumper.wants("llvm") || dumper.wants("asm");
  return compiled ? dumper.kernels(plan) : Outcome();
}

namespace {

/// A stage of the other backend is a mistake, but none that a step should fail for.
void warn_of_foreign_stages(const Context& context, const std::string& target) {
  const bool cuda = is_cuda_target(target);
  for (const std::string& stage : context.settings().list("dump"))
    if (target != "interp" && (cuda ? stage == "llvm" || stage == "asm" : stage == "cuda" || stage == "ptx"))
      context.log().write_once(LogLevel::Warn, "dump " + stage + target,
                               fmt::format("dump={} has no effect on target {}; its kernels are dumped by {}", stage,
                                           target, cuda ? "cuda and ptx" : "llvm and asm"));
}

}  // namespace

void dump_plan(const Context& context, const compiler::StepPlan& plan,
               const std::vector<compiler::PlannedParameter>& parameters) {
  const std::vector<std::string>& stages = context.settings().list("dump");
  if (stages.empty()) return;
  warn_of_foreign_stages(context, plan.target.name);
  const std::string& folder = context.settings().text("dump_dir");
  const Outcome outcome =
      make_private_folder(folder).and_then([&] { return write_dump(context, plan, parameters, stages, folder); });
  if (outcome)
    context.log().write(LogLevel::Info, fmt::format("wrote {} to {}", fmt::join(stages, ", "), folder));
  else
    context.log().write_once(LogLevel::Warn, "dump",
                             fmt::format("the dump is incomplete: {}{}{}", outcome.error().message,
                                         outcome.error().hint.empty() ? "" : "; ", outcome.error().hint));
}

}  // namespace stepfuse::runtime
