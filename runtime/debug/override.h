// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "compiler/plan.h"
#include "runtime/context.h"
#include "runtime/cpu/jit.h"
#include "runtime/cpu/object_loader.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// What the setting override_dir has for this kernel: <name>.<hash>.ll, which belongs to this kernel alone (the hash is
/// that of its text without names, as a dump shows it), else <name>.ll. Empty text: nothing. A file that holds several
/// kernels as `stepfuse inspect --stage llvm` prints them serves each of them: the others' lines are blanked.
Result<LlvmIrOverride> find_override(const Context& context, const codegen::KernelSpec& spec);

/// The kernel made from override_dir's file; null where there is none. No cache on disk is read or written; in memory
/// it goes by its text, so an edited file counts from the next prepare on. What is wrong with the file is InvalidData.
Result<std::shared_ptr<const LoadedKernel>> override_kernel(const Context& context, const codegen::KernelSpec& spec,
                                                            const CpuTarget& target, bool* compiled = nullptr);

/// Warns of files in override_dir that replace nothing in this plan. A file that would replace kernels which differ is
/// an error, as is a folder that is not there.
Outcome check_overrides(const Context& context, const compiler::StepPlan& plan);

/// Names of the files in override_dir with this extension. A folder that is not there is InvalidArgument.
Result<std::set<std::string>> override_files(const std::string& folder, std::string_view extension);
/// The judgement of check_overrides(): `replaced` has, by file, the hashes of the kernels that it would replace.
Outcome check_override_files(const Context& context, const std::set<std::string>& files,
                             const std::map<std::string, std::set<std::string>>& replaced);

/// "3f2a9c01": tells kernels of one name apart.
std::string kernel_hash(const codegen::KernelSpec& spec);

}  // namespace stepfuse::runtime
