// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/find_library.h"

#include <algorithm>
#include <array>
#include <optional>

#include <dlfcn.h>
#include <link.h>

namespace stepfuse::runtime {

namespace {

namespace fs = std::filesystem;

/// Below the folder of a toolkit.
constexpr std::array<std::string_view, 3> kToolkitFolders{"lib64", "lib", "targets/x86_64-linux/lib"};

std::string mapped_file(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr) return {};
  return map->l_name;
}

std::string loader_error() {
  const char* reason = dlerror();
  return reason != nullptr ? reason : "unknown reason";
}

/// Files of the library in this folder, of any version.
std::vector<std::string> versions_in(const fs::path& folder, std::string_view stem) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename(); name.starts_with(stem)) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

/// A linker's stub has the driver's names and no code behind them.
bool is_stub(const fs::path& path) {
  return std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == "stubs"; });
}

class Search {
 public:
  Search(const LibrarySpec& spec, const LibraryPlaces& places, const LibraryCheck& check)
      : spec_(spec), places_(places), check_(check) {}

  Result<OpenedLibrary> run() {
    if (!places_.option.empty()) return by_option();
    for (const int major : spec_.majors) by_loader(spec_.file(major), LibraryOrigin::Loaded, "already loaded");
    for (const int major : spec_.majors) by_loader(spec_.file(major), LibraryOrigin::Loader, "dynamic loader");
    if (!spec_.wheels.empty()) {
      in_wheels();
      for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
        in_toolkit(variable_in(places_.environment, variable), LibraryOrigin::CudaHome, variable);
      in_toolkit(places_.default_folder, LibraryOrigin::DefaultFolder, "default folder");
    }
    if (found_) return *found_;
    return not_found();
  }

 private:
  std::string file_names() const {
    std::vector<std::string> names;
    for (const int major : spec_.majors) names.push_back(spec_.file(major));
    return fmt::format("{}", fmt::join(names, " or "));
  }

  Result<OpenedLibrary> by_option() {
    const std::string rule = fmt::format("option {}", spec_.setting);
    std::error_code error;
    if (fs::is_directory(places_.option, error))
      in_folder(places_.option, LibraryOrigin::Option, rule);
    else if (fs::exists(places_.option, error))
      open(places_.option, RTLD_NOW, LibraryOrigin::Option, rule);
    else
      refused_.push_back(fmt::format("{} is not there", places_.option));
    if (found_) return *found_;
    if (refused_.empty()) refused_.push_back(fmt::format("{} holds no {}", places_.option, file_names()));
    std::string hint =
        fmt::format("{} ({}) names {}, or the folder that holds it; without it, the usual places are searched",
                    spec_.setting, spec_.variable(), file_names());
    return with_hint(fail(StatusCode::Environment, "{}: {} ({}) cannot be used: {}", spec_.name, spec_.setting,
                          places_.option, fmt::join(refused_, "; ")),
                     hint_.empty() ? hint : hint_ + "; " + hint);
  }

  void by_loader(const std::string& name, LibraryOrigin origin, const std::string& rule) {
    open(name, origin == LibraryOrigin::Loaded ? RTLD_NOW | RTLD_NOLOAD : RTLD_NOW, origin, rule);
  }

  void in_wheels() {
    for (const fs::path& folder : python_package_folders(places_.environment))
      for (const std::string_view wheel : spec_.wheels)
        in_folder(folder / "nvidia" / wheel, LibraryOrigin::Wheel, "Python wheel");
  }

  void in_toolkit(const std::string& folder, LibraryOrigin origin, const std::string& rule) {
    if (folder.empty()) return;
    for (const std::string_view below : kToolkitFolders) in_folder(fs::path(folder) / below, origin, rule);
  }

  void in_folder(const fs::path& folder, LibraryOrigin origin, const std::string& rule) {
    if (found_) return;
    std::error_code error;
    if (origin != LibraryOrigin::Wheel || fs::exists(folder, error)) searched_.push_back(folder.string());
    bool any = false;
    for (const int major : spec_.majors) {
      const fs::path path = folder / spec_.file(major);
      if (!fs::exists(path, error)) continue;
      any = true;
      open(path.string(), RTLD_NOW, origin, rule);
    }
    if (any) return;
    for (const std::string& other : versions_in(folder, spec_.stem))
      refused_.push_back(
          fmt::format("{} is of another major version than {}", (folder / other).string(), majors_text()));
  }

  std::string majors_text() const { return fmt::format("{}", fmt::join(spec_.majors, " or ")); }

  void open(const std::string& file, int flags, LibraryOrigin origin, const std::string& rule) {
    if (found_) return;
    void* handle = dlopen(file.c_str(), flags | RTLD_LOCAL);
    if (handle == nullptr) {
      const std::string reason = loader_error();
      // The loader says of a name that it does not find what it says of one that it was not asked to load.
      const bool absent = origin == LibraryOrigin::Loaded ||
                          (origin == LibraryOrigin::Loader && reason.starts_with(file + ": cannot open"));
      if (!absent) refused_.push_back(reason);
      return;
    }
    OpenedLibrary opened{handle, mapped_file(handle), origin, rule};
    const Outcome usable =
        is_stub(opened.path) ? Outcome(fail(StatusCode::Environment, "it is a stub for linkers, not a library to run"))
                             : check_(opened);
    if (usable) {
      found_ = std::move(opened);
      return;
    }
    refused_.push_back(fmt::format("{}: {}", opened.path, usable.error().message));
    if (hint_.empty()) hint_ = usable.error().hint;
    dlclose(handle);
  }

  tl::unexpected<Status> not_found() const {
    std::vector<std::string> unique = refused_;  // the loader may have led to one file twice
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    std::string message =
        fmt::format("{} was not found: looked for {} on the dynamic loader's path", spec_.name, file_names());
    if (!searched_.empty()) message += fmt::format(" and in {}", fmt::join(searched_, ", "));
    if (!unique.empty()) message += fmt::format("; refused: {}", fmt::join(unique, "; "));
    std::string hint = fmt::format("{}, or name it with {} ({})", spec_.remedy, spec_.setting, spec_.variable());
    return with_hint(fail(StatusCode::Environment, "{}", message), hint_.empty() ? hint : hint_ + "; " + hint);
  }

  const LibrarySpec& spec_;
  const LibraryPlaces& places_;
  const LibraryCheck& check_;
  std::optional<OpenedLibrary> found_;
  std::vector<std::string> searched_;  // folders
  std::vector<std::string> refused_;   // files, each with the reason
  std::string hint_;
};

/// "python3", "python3.11", "python".
bool is_python(const fs::path& path) { return path.filename().string().starts_with("python"); }

/// The folder above the first bin/python3 on the PATH, as it is named there: an environment's is a link.
std::optional<fs::path> python_on_path(std::string_view path) {
  while (!path.empty()) {
    const std::string_view folder = path.substr(0, path.find(':'));
    std::error_code error;
    if (!folder.empty() && fs::exists(fs::path(folder) / "python3", error)) return fs::path(folder).parent_path();
    path.remove_prefix(std::min(folder.size() + 1, path.size()));
  }
  return std::nullopt;
}

std::vector<fs::path> python_prefixes(const std::vector<std::string>& environment) {
  std::vector<fs::path> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string value = variable_in(environment, name); !value.empty()) prefixes.emplace_back(value);
  std::error_code error;
  if (const fs::path self = fs::read_symlink("/proc/self/exe", error); !error && is_python(self))
    prefixes.push_back(self.parent_path().parent_path());
  if (auto prefix = python_on_path(variable_in(environment, "PATH"))) prefixes.push_back(*prefix);
  if (const std::string home = variable_in(environment, "HOME"); !home.empty())
    prefixes.push_back(fs::path(home) / ".local");
  // Debian's python3 installs there what pip installs for everyone.
  prefixes.emplace_back("/usr/local");
  return prefixes;
}

/// "python3.11" above "python3.9".
bool newer(const fs::path& a, const fs::path& b) {
  const std::string left = a.filename(), right = b.filename();
  return left.size() != right.size() ? left.size() > right.size() : left > right;
}

/// lib64 is often a link to lib.
void add_once(std::vector<fs::path>& folders, const fs::path& folder) {
  std::error_code error;
  if (std::none_of(folders.begin(), folders.end(),
                   [&](const fs::path& other) { return fs::equivalent(other, folder, error); }))
    folders.push_back(folder);
}

}  // namespace

std::string LibrarySpec::variable() const {
  for (const SettingInfo& info : all_settings())
    if (info.name == setting) return info.variable();
  throw_internal(__FILE__, __LINE__, "a library without a setting");
}

LibraryPlaces LibraryPlaces::of(const Settings& settings, const LibrarySpec& spec) {
  LibraryPlaces places;
  places.option = settings.text(spec.setting);
  places.environment = Settings::process_environment();
  return places;
}

void* OpenedLibrary::address(const char* name) const { return dlsym(handle, name); }

Outcome OpenedLibrary::no_function(std::string_view library, const char* name, std::string hint) {
  return with_hint(fail(StatusCode::Environment, "{} has no function {}", library, name), std::move(hint));
}

Result<OpenedLibrary> open_cuda_library(const LibrarySpec& spec, const LibraryPlaces& places,
                                        const LibraryCheck& check) {
  return Search(spec, places, check).run();
}

std::vector<fs::path> python_package_folders(const std::vector<std::string>& environment) {
  std::vector<fs::path> folders;
  for (const fs::path& prefix : python_prefixes(environment))
    for (const char* lib : {"lib", "lib64"}) {
      std::vector<fs::path> versions;
      std::error_code error;
      for (fs::directory_iterator it(prefix / lib, error), end; !error && it != end; it.increment(error))
        if (is_python(it->path())) versions.push_back(it->path());
      std::sort(versions.begin(), versions.end(), newer);
      for (const fs::path& version : versions)
        for (const char* packages : {"site-packages", "dist-packages"})
          if (fs::is_directory(version / packages, error)) add_once(folders, version / packages);
    }
  return folders;
}

std::string variable_in(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment)
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  return {};
}

}  // namespace stepfuse::runtime
