// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/repro.h"

#include "codegen/lower.h"
#include "ir/print.h"
#include "ir/support/version.h"
#include "runtime/cpu/jit.h"
#include "runtime/cuda_backend.h"
#include "runtime/debug/dump.h"
#include "runtime/debug/text_files.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <sys/stat.h>

#include <unistd.h>

namespace stepfuse::runtime {

namespace {

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

/// A folder that did not exist before.
Result<std::string> make_folder(const std::string& dump_dir) {
  STEPFUSE_TRY(make_private_folder(dump_dir));
  const std::string stem =
      std::filesystem::path(dump_dir) / fmt::format("stepfuse-repro-{}-{}", time_stamp(), ::getpid());
  for (int n = 1; n <= 100; ++n) {
    const std::string path = n == 1 ? stem : fmt::format("{}-{}", stem, n);
    if (::mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return fail(StatusCode::Io, "cannot make the folder '{}': {}", path, std::strerror(errno));
  }
  return fail(StatusCode::Io, "'{}' and a hundred more exist", stem);
}

/// A word of a shell's command line.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/=,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

class Report {
 public:
  Report(const ReproInput& input, const Status& error, std::string folder)
      : input_(input), error_(error), folder_(std::move(folder)) {}

  Outcome write() {
    STEPFUSE_TRY(write("error.txt", fmt::format("{}\n{}\n", error_.message, error_.hint)));
    STEPFUSE_TRY(write("settings.txt", settings()));
    STEPFUSE_TRY(write("versions.txt", versions()));
    STEPFUSE_TRY(rules());
    if (!input_.plan.groups.empty()) STEPFUSE_TRY(plan());
    return write("README.txt", readme());
  }

 private:
  Outcome write(const std::string& name, const std::string& text) const {
    return write_whole_file(std::filesystem::path(folder_) / name, text);
  }

  std::string settings() const {
    std::string text = fmt::format("mode {}\ntarget {}\ndisabled passes: {}\n\n",
                                   input_.options.mode == ir::Mode::Strict ? "strict" : "default",
                                   input_.options.target.name, fmt::join(input_.options.runner.disabled, ","));
    for (const SettingInfo& info : all_settings()) {
      const Settings::Value& value = input_.context.settings().at(info.name);
      text += fmt::format("{} = {}  ({}{}{})\n", info.name, value.text, origin_name(value.origin),
                          value.where.empty() ? "" : ", ", value.where);
    }
    return text;
  }

  std::string versions() const {
    std::string text = fmt::format("stepfuse {} ({})\n", kVersion, kGitDescribe);
    if (input_.options.target.name == "interp") return text;
    if (cuda()) return text + cuda_versions();
    if (const auto target = cpu_target(input_.options.target.name))
      text += fmt::format("target {} {}\nfeatures {}\n", target->name, target->triple, target->llvm_features);
    const auto compiler = cpu_compiler(input_.context.settings().text("plugin_dir"));
    return text + (compiler ? (*compiler)->version() : compiler.error().message) + "\n";
  }

  bool cuda() const { return is_cuda_target(input_.options.target.name); }

  std::string cuda_versions() const {
    std::string text = fmt::format("target {}\n", input_.options.target.name);
    for (const CudaLibrary& library : cuda_libraries(input_.context.settings()))
      text += library.found
                  ? fmt::format("{} {} by {}: {}\n", library.name, library.version, library.rule, library.path)
                  : fmt::format("{}\n", library.why);
    return text;
  }

  /// Each different rule once, with the shape of its first parameter, and the line that replays it.
  Outcome rules() {
    std::set<std::string> seen;
    for (const compiler::PlannedParameter& parameter : input_.parameters) {
      const std::string name = rule_file_name(parameter.rule) + ".naive.sfir";
      if (!seen.insert(name).second) continue;
      STEPFUSE_TRY(write(name, ir::print(parameter.rule)));
      commands_ += command(name, parameter);
    }
    return {};
  }

  std::string command(const std::string& file, const compiler::PlannedParameter& parameter) const {
    std::string line = fmt::format("stepfuse inspect --recipe {} --shape {} --target {} --mode {}", shell_word(file),
                                   fmt::join(parameter.shape, "x"), shell_word(input_.options.target.name),
                                   input_.options.mode == ir::Mode::Strict ? "strict" : "default");
    for (const std::string& pass : input_.options.runner.disabled) line += " --disable " + shell_word(pass);
    return line + (input_.options.target.name == "interp" ? " --stage plan\n"
                   : cuda()                               ? " --stage ptx\n"
                                                          : " --stage asm\n");
  }

  /// The plan and its kernels. That a kernel has no code may be the very failure, so the rest stands without it.
  Outcome plan() const {
    STEPFUSE_TRY(write_dump(input_.context, input_.plan, input_.parameters, {"ir", "plan"}, folder_));
    const std::vector<codegen::KernelSpec> specs = codegen::distinct_kernels(input_.plan);
    std::string kernels;
    for (const codegen::KernelSpec& spec : specs) kernels += print(spec) + "\n";
    STEPFUSE_TRY(write("kernels.txt", kernels));
    if (cuda()) {
      const auto source =
          cuda_kernel_text(specs, input_.options.target.name, CudaText::Source, input_.context.settings());
      return write("kernels.cu", source ? *source : "there is no CUDA C++: " + source.error().message + "\n");
    }
    const Outcome llvm = write_dump(input_.context, input_.plan, input_.parameters, {"llvm"}, folder_);
    return llvm ? llvm : write("llvm.txt", "there is no LLVM IR: " + llvm.error().message + "\n");
  }

  std::string readme() const {
    return fmt::format(
        "Stepfuse met an error of its own: error.txt. This folder holds what led to it, and no tensor's contents.\n"
        "Please send it to the authors. In this folder, the following shows the failing stage again:\n\n{}\n"
        "settings.txt: every setting and where it came from. versions.txt: library, compiler, CPU.\n"
        "*.naive.sfir: the rules. plan.txt, *.fused.sfir, kernels.txt, *.ll or kernels.cu: what became of them, as far "
        "as it went.\n"
        "A fuller account of the run: STEPFUSE_LOG=debug STEPFUSE_TRACE=trace.json.\n",
        commands_);
  }

  const ReproInput& input_;
  const Status& error_;
  std::string folder_;
  std::string commands_;
};

}  // namespace

Status write_repro(const ReproInput& input, Status error) {
  const auto folder = make_folder(input.context.settings().text("dump_dir")).and_then([&](const std::string& path) {
    return Report(input, error, path).write().map([&] { return path; });
  });
  error.message += folder ? fmt::format("; a report is in {}", *folder)
                          : fmt::format("; no report could be written: {}", folder.error().message);
  if (folder && error.hint.empty()) error.hint = "this is a fault of stepfuse: see README.txt in that folder";
  return error;
}

Outcome with_repro(const ReproInput& input, const std::function<Outcome()>& work) {
  const auto attempt = [&]() -> Outcome {
    try {
      return work();
    } catch (const InternalError& error) {
      return fail(StatusCode::Internal, "{}", error.what());
    }
  };
  Outcome outcome = attempt();
  if (outcome || outcome.error().code != StatusCode::Internal) return outcome;
  try {
    return fail(write_repro(input, outcome.error()));
  } catch (const std::exception&) {
    return outcome;  // the plan may be so broken that it does not print
  }
}

}  // namespace stepfuse::runtime
