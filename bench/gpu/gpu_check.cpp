// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The program of the folder that scripts/gpu-check packs: runs the GPU tests, checked steps and measurements on the
// first device, and writes one JSON report. docs/gpu_check.md describes both.
#include "bench/gpu/parts.h"
#include "bench/gpu/process.h"
#include "runtime/cuda/nvrtc.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>

#include <unistd.h>

namespace stepfuse::gpu_check {

namespace {

namespace fs = std::filesystem;

constexpr int kOk = 0, kFailed = 1, kUsage = 2, kNoDevice = 3;
constexpr int kRounds = 31, kShortRounds = 2;

constexpr const char* kHelp =
    R"(usage: run [-o FILE] [--results FOLDER] [--python PYTHON] [--rounds N] [--short] [--check]

Runs Stepfuse's GPU tests and measurements on the first CUDA device and writes one JSON report.

  -o FILE           the report; default: gpu-<name of the device>.json
  --results FOLDER  where the default report goes; default: the current folder
  --python PYTHON   an interpreter in which torch with CUDA can be imported: adds ratios against torch
  --rounds N        measurements of each figure, 1 to 1000; default 31
  --short           little work, as is done where the device is virtual
  --check           exit code 1 where a target is missed, too

Exit codes: 0 passed, 1 something failed, 2 usage, 3 no device or no library of CUDA.
)";

struct Options {
  std::string output, results = ".", python;
  int rounds = 0;
  bool is_short = false, check = false, help = false, child = false;
};

struct Usage {
  std::string message;
};

int parse_rounds(std::string_view text) {
  int rounds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rounds);
  if (error != std::errc() || end != text.data() + text.size() || rounds < 1 || rounds > 1000)
    throw Usage{fmt::format("--rounds takes a number from 1 to 1000, not '{}'", text)};
  return rounds;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc || argv[i + 1][0] == '\0') throw Usage{fmt::format("{} needs a value", argument)};
      return argv[++i];
    };
    if (argument == "-o")
      options.output = value();
    else if (argument == "--results")
      options.results = value();
    else if (argument == "--python")
      options.python = value();
    else if (argument == "--rounds")
      options.rounds = parse_rounds(value());
    else if (argument == "--short")
      options.is_short = true;
    else if (argument == "--check")
      options.check = true;
    else if (argument == "--child-start")
      options.child = true;
    else if (argument == "-h" || argument == "--help")
      options.help = true;
    else
      throw Usage{fmt::format("unknown argument '{}'", argument)};
  }
  return options;
}

/// A folder for inputs and caches, removed at the end.
class Scratch {
 public:
  Scratch() {
    // mkdtemp puts letters of its own in the place of the X's.
    std::string path = (fs::temp_directory_path() / "stepfuse-gpu-check-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + path);
    path_ = path;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Result<Json> describe(const Gpu& gpu) {
  STEPFUSE_ASSIGN(const runtime::Nvrtc* nvrtc, runtime::Nvrtc::open(gpu.settings()));
  STEPFUSE_ASSIGN(const auto lt, runtime::Lt::open(gpu.settings()));
  const runtime::CudaDevice& device = gpu.device();
  return Json{{"gpu", device.name},
              {"capability", device.capability},
              {"multiprocessors", device.multiprocessors},
              {"memory_bytes", device.memory_bytes},
              {"driver_cuda", gpu.driver().version()},
              {"nvrtc", nvrtc->version()},
              {"cublaslt", lt->version()},
              {"cpu_threads", std::thread::hardware_concurrency()}};
}

/// Runs one part; what it throws is the report's.
template <class Part>
void run_part(Report& report, const char* name, Part part) {
  std::fprintf(stderr, "gpu-check: %s\n", name);
  try {
    part();
  } catch (const std::exception& error) {
    report.failed(name, error.what());
  }
}

void run_parts(Report& report, const Bench& bench, const Folder& folder, const fs::path& scratch,
               const std::string& python) {
  run_part(report, "gpu tests", [&] { run_gpu_tests(report, folder, bench.is_short); });
  run_part(report, "checked steps", [&] { run_checked_steps(report, folder, scratch, bench.is_short); });
  run_part(report, "lt algorithms", [&] { ask_algorithms(bench); });
  run_part(report, "batches", [&] { compare_batches(bench); });
  run_part(report, "scalars on the device", [&] { compare_scalars(bench); });
  run_part(report, "lt candidates", [&] { compare_candidates(bench); });
  run_part(report, "sub-batches", [&] { sweep_sub_batches(bench); });
  run_part(report, "launches", [&] { measure_launches(bench); });
  run_part(report, "AdamW", [&] { measure_adamw(bench); });
  run_part(report, "small tensors", [&] { measure_small_tensors(bench); });
  run_part(report, "Muon", [&] { measure_muon(bench); });
  run_part(report, "experts", [&] { measure_experts(bench); });
  run_part(report, "starts", [&] { measure_start(bench, scratch); });
  if (bench.gpu.is_virtual()) return report.left_out("ratios against torch", "the device is virtual");
  run_part(report, "torch", [&] { compare_with_torch(report, folder, python, bench.rounds); });
}

int no_device(const Status& status) {
  std::fprintf(stderr, "gpu-check: no GPU to check: %s\n", status.message.c_str());
  if (!status.hint.empty()) std::fprintf(stderr, "  %s\n", status.hint.c_str());
  return kNoDevice;
}

void write_report(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

int run(const Options& options) {
  const Scratch scratch;
  // Neither may an earlier run's cache serve this one, nor this one's fill the user's.
  setenv("STEPFUSE_CACHE_DIR", (scratch.path() / "cache").c_str(), 1);
  const auto gpu = Gpu::open();
  if (!gpu) return no_device(gpu.error());
  const Result<Json> machine = describe(**gpu);
  if (!machine) return no_device(machine.error());
  const bool is_short = options.is_short || (*gpu)->is_virtual();
  const int rounds = options.rounds != 0 ? options.rounds : is_short ? kShortRounds : kRounds;
  Report report(*machine, (*gpu)->is_virtual(), is_short);
  const Bench bench{**gpu, report, rounds, is_short};
  const fs::path path =
      options.output.empty() ? fs::path(options.results) / file_name(report.device_name()) : fs::path(options.output);
  write_report(path, report.text());  // hours of a GPU must not end at a folder that does not exist
  run_parts(report, bench, Folder{fs::path(own_path()).parent_path().parent_path()}, scratch.path(), options.python);
  write_report(path, report.text());
  std::printf("%s\n", path.c_str());
  std::fprintf(stderr, "gpu-check: %s%s\n", report.passed() ? "passed" : "FAILED",
               report.targets_met() ? "" : "; targets are missed");
  return report.passed() && (report.targets_met() || !options.check) ? kOk : kFailed;
}

}  // namespace

int main_of(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    if (options.help) return std::fputs(kHelp, stdout) < 0 ? kFailed : kOk;
    return options.child ? print_start(options.is_short) : run(options);
  } catch (const Usage& usage) {
    std::fprintf(stderr, "gpu-check: %s\n%s", usage.message.c_str(), kHelp);
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu-check: %s\n", error.what());
    return kFailed;
  }
}

}  // namespace stepfuse::gpu_check

int main(int argc, char** argv) { return stepfuse::gpu_check::main_of(argc, argv); }
