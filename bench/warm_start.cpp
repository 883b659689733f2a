// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Warm start of the whole plan for GPT-2 small from the kernel cache on disk: every round is a fresh process. Target:
// from construction to the end of prepare() within 20 ms, with nothing compiled and no LLVM in the process.
#include "bench/child.h"
#include "bench/gpt2.h"
#include "stepfuse/stepfuse.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace stepfuse;

namespace {

constexpr double kTarget = 0.020;

/// 1 if a file of that name is mapped into this process.
double is_mapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(name) != std::string::npos) return 1;
  return 0;
}

bench::Figures start() {
  const double begin = bench::now();
  Optimizer optimizer;
  const double created = bench::now();
  bench::add_gpt2_small(optimizer);
  const double added = bench::now();
  optimizer.prepare();
  const double end = bench::now();
  return {{"whole", end - begin},
          {"create", created - begin},
          {"add parameters", added - created},
          {"prepare", end - added},
          {"compiled kernels", static_cast<double>(optimizer.summary().compiled_kernels)},
          {"LLVM opened", is_mapped("libLLVM")}};
}

/// A cache folder of its own, for as long as the program runs.
class CacheFolder {
 public:
  CacheFolder() {
    // mkdtemp puts six letters of its own in the place of the X's.
    std::string path = (std::filesystem::temp_directory_path() / "stepfuse-warm-start-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a folder for the cache");
    path_ = path;
    setenv("STEPFUSE_CACHE_DIR", path.c_str(), 1);
    setenv("STEPFUSE_CACHE", "on", 1);
  }
  ~CacheFolder() { std::filesystem::remove_all(path_); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

 private:
  std::filesystem::path path_;
};

int run(const bench::Options& options) {
  const CacheFolder folder;
  bench::Report report("warm_start", options);
  report.add("cold", bench::run_child("--child").front().second, "s");
  bench::FigureTable table;
  for (int round = 0; round < options.rounds; ++round) table.add(bench::run_child("--child"));
  table.report(report, {"compiled kernels", "LLVM opened"});
  report.require_at_most("whole", table.spread("whole").median, kTarget);
  report.require_at_most("compiled kernels", table.spread("compiled kernels").three_quarters, 0);
  report.require_at_most("LLVM opened", table.spread("LLVM opened").three_quarters, 0);
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::strcmp(argv[1], "--child") == 0) return bench::print_figures(start());
    return run(bench::parse_options(argc, argv, 15));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
