// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/version.h"
#include "runtime/cache/inspect.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/jit.h"
#include "runtime/cpu_backend.h"
#include "runtime/cuda_backend.h"
#include "runtime/kernel_cache.h"
#include "runtime/optimizer.h"
#include "tools/commands.h"
#include "tools/library.h"
#include "tools/option_values.h"
#include "tools/routing.h"
#include "tools/text_file.h"

#include <array>
#include <chrono>
#include <cstdlib>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace stepfuse::tools {

namespace {

using nlohmann::ordered_json;

/// One thing looked at. A broken one makes the command fail.
struct Finding {
  std::string name;
  std::string value;
  bool broken = false;
  std::string hint;
};
using Findings = std::vector<Finding>;

struct Report {
  Findings versions, cpu, libraries, cuda, cache, checks;
  std::vector<std::array<std::string, 4>> settings;  // name, value, origin, where

  size_t broken() const {
    size_t count = 0;
    for (const Findings* findings : {&versions, &cpu, &libraries, &cuda, &cache, &checks})
      for (const Finding& finding : *findings) count += finding.broken ? 1 : 0;
    return count;
  }
};

Finding broken(std::string name, const Status& status) { return {std::move(name), status.message, true, status.hint}; }

Findings version_report(const std::string& plugin_dir) {
#ifdef NDEBUG
  constexpr std::string_view kChecks = "";
#else
  constexpr std::string_view kChecks = ", with assertions";
#endif
  Findings out{{"stepfuse", fmt::format("{} ({})", kVersion, kGitDescribe), false, {}},
               {"built by",
                fmt::format("{} {}{}",
#ifdef __clang__
                            "clang",
#else
                            "gcc",
#endif
                            __VERSION__, kChecks),
                false,
                {}}};
  if (runtime::cpu_targets().empty()) {
    out.push_back({"CPU backend", "not in this build", false, {}});
    return out;
  }
  const auto compiler = runtime::cpu_compiler(plugin_dir);
  if (!compiler) {
    out.push_back(broken("CPU compiler", compiler.error()));
    return out;
  }
  out.push_back({"CPU compiler", (*compiler)->version(), false, {}});
  if (const auto file = runtime::cpu_plugin_file(plugin_dir)) out.push_back({"CPU plugin", file->string(), false, {}});
  return out;
}

Findings cpu_report(const std::string& target) {
  const runtime::CpuTarget host = runtime::host_cpu_target(runtime::read_cpuid());
  std::string has;
  for (size_t begin = 0; begin < host.llvm_features.size();) {
    const size_t end = std::min(host.llvm_features.find(',', begin), host.llvm_features.size());
    if (host.llvm_features[begin] == '+')
      has += (has.empty() ? "" : " ") + host.llvm_features.substr(begin + 1, end - begin - 1);
    begin = end + 1;
  }
  Findings out{{"features", has, false, {}}, {"vectors", fmt::format("{} bytes", host.vector_bytes), false, {}}};
  for (const char* level : {"x86-64-v3", "x86-64-v4"}) {
    const auto runs = runtime::cpu_target(level).and_then(runtime::check_runs_here);
    out.push_back({level, runs ? "runs here" : runs.error().message, false, {}});
  }
  if (target == "interp" || runtime::is_cuda_target(target)) return out;
  const auto runs = runtime::cpu_target(target).and_then(runtime::check_runs_here);
  if (!runs) out.push_back(broken(fmt::format("target {}", target), runs.error()));
  return out;
}

Findings library_report() {
  Findings out;
  for (const runtime::CpuLibrary& library : runtime::cpu_libraries())
    out.push_back({library.name, library.usable ? "usable" : "not used: " + library.why, false, {}});
  return out;
}

/// A library that is absent is no fault: only what is for CUDA needs it. One that an option names is another matter.
Findings cuda_report(const std::vector<runtime::CudaLibrary>& libraries) {
  Findings out;
  for (const runtime::CudaLibrary& library : libraries) {
    const std::string value =
        library.found ? fmt::format("{} by {}: {}", library.version, library.rule, library.path) : library.why;
    out.push_back({library.name, value, !library.found && library.demanded, library.hint});
  }
  if (out.empty()) out.push_back({"CUDA backend", "not in this build", false, {}});
  return out;
}

/// The folder as the cache found it. One that is refused is broken: every start compiles anew then.
Findings cache_report(const runtime::Context& context) {
  const runtime::Settings& settings = context.settings();
  Findings out{{"cache", settings.text("cache"), false, {}}};
  if (settings.is("cache", "off")) return out;
  const Log silent(std::nullopt);  // what it would warn of stands in the report
  runtime::Store& store = context.kernels().store();
  const runtime::CacheFolder* live = store.live(silent);
  if (live == nullptr) {
    out.push_back({"folder", store.why_no_live(silent), !settings.is("cache", "readonly"),
                   "choose another folder with STEPFUSE_CACHE_DIR, or set STEPFUSE_CACHE=off"});
  } else {
    const runtime::StoreStats stats = runtime::store_stats(store, silent);
    const bool writable = ::faccessat(live->fd.get(), ".", W_OK, AT_EACCESS) == 0;
    out.push_back({"folder", live->path, false, {}});
    out.push_back({"rights", writable ? "ours alone, readable and writable" : "ours, read-only", false, {}});
    out.push_back({"entries",
                   fmt::format("{} kernels and {} shapes, {} of at most {} bytes", stats.kernels, stats.shapes,
                               stats.bytes, stats.max_bytes),
                   false,
                   {}});
  }
  for (const runtime::CacheLayer& layer : store.layers(silent)) out.push_back({"read-only", layer.path, false, {}});
  return out;
}

/// SGD on three numbers, from recipe to machine code, compiled anew.
Outcome step_of_sgd(const std::string& plugin_dir) {
  runtime::Context::Options options;
  options.environment.clear();
  options.flags = {{"cache", "off", "self-test"}, {"plugin_dir", plugin_dir, "self-test"}};
  runtime::OptimizerSettings settings;
  if (runtime::cpu_targets().empty()) settings.target = "interp";
  settings.threads = 1;
  STEPFUSE_ASSIGN(settings.context, runtime::Context::create(options));
  STEPFUSE_ASSIGN(runtime::Optimizer optimizer, runtime::Optimizer::create(settings));
  STEPFUSE_ASSIGN(const uint32_t group, optimizer.add_group("sgd", {{"lr", "0.5"}}));
  STEPFUSE_ASSIGN(const uint32_t parameter, optimizer.add_parameter(group, "p", ir::ParameterSpec{{3}}));
  STEPFUSE_TRY(optimizer.prepare());
  std::array<float, 3> values{1, 2, 3};
  constexpr std::array<float, 3> kGradient{2, -4, 0};
  constexpr std::array<float, 3> kExpected{0, 4, 3};
  STEPFUSE_TRY(optimizer.bind(parameter, values.data(), kGradient.data()));
  STEPFUSE_TRY(optimizer.step());
  if (values == kExpected) return {};
  return fail(StatusCode::Failed, "a step of SGD gave {} instead of {}", fmt::join(values, ", "),
              fmt::join(kExpected, ", "));
}

/// `work` says in a few words what it did, or nothing.
template <class Work>
Finding timed(const std::string& name, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const Result<std::string> outcome = work();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  if (!outcome) return broken(name, outcome.error());
  return {name, fmt::format("ok, {}{:.1f} ms", *outcome, taken.count()), false, {}};
}

/// A step on the CPU; and a compile for CUDA, where there is a compiler.
Findings self_tests(const runtime::Settings& settings, const std::vector<runtime::CudaLibrary>& libraries) {
  const auto step = [&] { return step_of_sgd(settings.text("plugin_dir")).map([] { return std::string(); }); };
  const auto compile = [&] {
    return runtime::cuda_self_test(settings).map([](const std::string& arch) { return arch + ", "; });
  };
  Findings out{timed("compile and step", step)};
  if (!libraries.empty() && libraries.front().found) out.push_back(timed("compile by NVRTC", compile));
  return out;
}

void add_settings(const runtime::Settings& settings, Report& report) {
  for (const runtime::SettingInfo& info : runtime::all_settings()) {
    const runtime::Settings::Value& value = settings.at(info.name);
    const bool variable = value.origin == runtime::Origin::Environment;
    report.settings.push_back({std::string(info.name), value.text, std::string(runtime::origin_name(value.origin)),
                               variable ? info.variable() : value.where});
  }
}

std::string section_text(std::string_view title, const Findings& findings) {
  std::string text = fmt::format("{}\n", title);
  for (const Finding& finding : findings) {
    text += fmt::format("  {:<16} {}{}\n", finding.name, finding.broken ? "BROKEN: " : "", finding.value);
    if (!finding.hint.empty()) text += fmt::format("  {:<16} {}\n", "", finding.hint);
  }
  return text;
}

std::string report_text(const Report& report) {
  std::string text = section_text("versions", report.versions) + section_text("processor", report.cpu) +
                     section_text("matrix products", report.libraries) + section_text("CUDA", report.cuda) +
                     section_text("kernel cache", report.cache);
  if (!report.settings.empty()) text += "settings\n";
  for (const auto& [name, value, origin, where] : report.settings)
    text += fmt::format("  {:<16} {:<16} {}{}\n", name, value.empty() ? "-" : value, origin,
                        where.empty() ? "" : fmt::format(" ({})", where));
  return text + section_text("checks", report.checks);
}

ordered_json findings_json(const Findings& findings) {
  ordered_json out = ordered_json::array();
  for (const Finding& finding : findings) {
    ordered_json entry{{"name", finding.name}, {"value", finding.value}, {"ok", !finding.broken}};
    if (!finding.hint.empty()) entry["hint"] = finding.hint;
    out.push_back(std::move(entry));
  }
  return out;
}

std::string report_json(const Report& report) {
  ordered_json settings = ordered_json::array();
  for (const auto& [name, value, origin, where] : report.settings)
    settings.push_back({{"name", name}, {"value", value}, {"origin", origin}, {"where", where}});
  const ordered_json result{{"schema", 1},
                            {"ok", report.broken() == 0},
                            {"versions", findings_json(report.versions)},
                            {"processor", findings_json(report.cpu)},
                            {"products", findings_json(report.libraries)},
                            {"cuda", findings_json(report.cuda)},
                            {"cache", findings_json(report.cache)},
                            {"settings", settings},
                            {"checks", findings_json(report.checks)}};
  return result.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

/// Settings that cannot be resolved are a finding like any other: the rest is still worth knowing.
Report examine(const Arguments& arguments, const std::vector<runtime::SettingSource>& file) {
  Report report;
  const auto context = make_context(arguments, file);
  const std::string plugin_dir = context ? (*context)->settings().text("plugin_dir") : std::string();
  report.versions = version_report(plugin_dir);
  report.cpu = cpu_report(context ? (*context)->settings().text("target") : "cpu");
  report.libraries = library_report();
  if (context) {
    report.cache = cache_report(**context);
    add_settings((*context)->settings(), report);
    const auto libraries = runtime::cuda_libraries((*context)->settings());
    report.cuda = cuda_report(libraries);
    report.checks = self_tests((*context)->settings(), libraries);
  } else {
    report.checks.push_back(broken("settings", context.error()));
  }
  return report;
}

}  // namespace

Result<std::string> command_doctor(const Arguments& arguments, const Console&) {
  STEPFUSE_ASSIGN(const std::string format, read_choice(arguments, "format", {"text", "json"}, {}));
  STEPFUSE_TRY(read_setting_flags(arguments).map([](const auto&) {}));
  std::vector<runtime::SettingSource> file;
  if (arguments.has("config")) {
    STEPFUSE_ASSIGN(const runtime::Config config, runtime::load_config(arguments.get("config")));
    file = config.settings;
  }
  const Report report = examine(arguments, file);
  std::string text = format == "json" ? report_json(report) : report_text(report);
  if (report.broken() == 0) return text;
  STEPFUSE_TRY(write_result(arguments.get("output"), text));
  return fail(StatusCode::Failed, "{} of these checks failed", report.broken());
}

}  // namespace stepfuse::tools
