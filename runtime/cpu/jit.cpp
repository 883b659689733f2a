// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/jit.h"

#include "ir/support/version.h"

#include <filesystem>
#include <mutex>

#include <dlfcn.h>
#include <link.h>

namespace stepfuse::runtime {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPluginFile = "stepfuse_cpu_plugin.so";

/// The library or program that holds this very code.
fs::path own_file() {
  Dl_info info{};
  link_map* map = nullptr;
  const void* here = reinterpret_cast<const void*>(&cpu_compiler);
  if (dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {};
  // The program itself has no name there, and argv[0] need not be a path.
  const bool is_program = map == nullptr || map->l_name == nullptr || *map->l_name == '\0';
  std::error_code error;
  fs::path path = fs::canonical(is_program ? "/proc/self/exe" : map->l_name, error);
  return error ? fs::path{} : path;
}

/// Installed: <prefix>/lib/stepfuse beside bin and lib. Built: the same tree in the build folder.
std::vector<fs::path> candidates(std::string_view plugin_dir) {
  if (!plugin_dir.empty()) return {fs::path(plugin_dir) / kPluginFile};
  const fs::path folder = own_file().parent_path();
  std::vector<fs::path> paths{folder.parent_path() / "lib" / "stepfuse" / kPluginFile,
                              folder / "stepfuse" / kPluginFile};
  // The library folder that this build installs into, where it has another name: "lib64", "lib/x86_64-linux-gnu".
  if (const fs::path libraries = STEPFUSE_INSTALL_LIBDIR; libraries != "lib")
    paths.push_back(folder.parent_path() / libraries / "stepfuse" / kPluginFile);
  return paths;
}

tl::unexpected<Status> not_found(const std::vector<fs::path>& tried) {
  std::string list;
  for (const fs::path& path : tried) list += (list.empty() ? "" : ", ") + path.string();
  return with_hint(fail(StatusCode::Environment, "the CPU compiler plugin was not found (looked for {})", list),
                   fmt::format("set plugin_dir (STEPFUSE_PLUGIN_DIR) to the folder that holds {}", kPluginFile));
}

Result<const CpuCompiler*> open_plugin(const fs::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return with_hint(fail(StatusCode::Environment, "cannot open the CPU compiler plugin {}: {}", path.string(),
                          reason != nullptr ? reason : "unknown reason"),
                     "it needs LLVM 19's shared library (Debian: libllvm19)");
  }
  const auto entry = reinterpret_cast<CpuPluginEntry>(dlsym(library, kCpuPluginEntry));
  const CpuCompiler* compiler = entry != nullptr ? entry(kGitDescribe) : nullptr;
  if (compiler == nullptr) {
    return with_hint(
        fail(StatusCode::Environment, "the CPU compiler plugin {} is of another build than this library ({})",
             path.string(), kGitDescribe),
        "install both from one build, or set plugin_dir (STEPFUSE_PLUGIN_DIR) to the matching folder");
  }
  return compiler;
}

}  // namespace

Result<fs::path> cpu_plugin_file(std::string_view plugin_dir) {
  const std::vector<fs::path> paths = candidates(plugin_dir);
  for (const fs::path& path : paths) {
    std::error_code error;
    if (fs::exists(path, error)) return path;
  }
  return not_found(paths);
}

Result<const CpuCompiler*> cpu_compiler(std::string_view plugin_dir) {
  // Only success is final: whoever was told to set plugin_dir may try again.
  static std::mutex mutex;
  static const CpuCompiler* opened = nullptr;
  const std::lock_guard lock(mutex);
  if (opened != nullptr) return opened;
  STEPFUSE_ASSIGN(opened, cpu_plugin_file(plugin_dir).and_then(open_plugin));
  return opened;
}

}  // namespace stepfuse::runtime
