// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/config/settings.h"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepfuse::runtime {

/// The rule by which a library was found, in the order in which the rules are tried.
enum class LibraryOrigin : uint8_t { Option, Loaded, Loader, Wheel, CudaHome, DefaultFolder };

/// A library of CUDA and where it may lie.
struct LibrarySpec {
  std::string_view name;                 // for messages: "NVRTC"
  std::string_view setting;              // that names its file or folder: "nvrtc"
  std::string_view stem;                 // of its file name, up to the major version: "libnvrtc.so."
  std::vector<int> majors;               // the best first
  std::vector<std::string_view> wheels;  // its folders below site-packages/nvidia; with none, only the loader's path is
                                         // searched
  std::string_view remedy;               // where to get it

  std::string file(int major) const { return fmt::format("{}{}", stem, major); }
  std::string variable() const;  // "STEPFUSE_NVRTC"
};

/// What a search looks at besides the process itself.
struct LibraryPlaces {
  std::string option;                    // the setting's value; a file, or a folder that holds it
  std::vector<std::string> environment;  // "NAME=value"
  std::string default_folder = "/usr/local/cuda";

  static LibraryPlaces of(const Settings& settings, const LibrarySpec& spec);
};

/// An open library. It is never closed: threads may still be in it when the process ends.
struct OpenedLibrary {
  void* handle = nullptr;
  std::string path;  // of the file that the loader mapped
  LibraryOrigin origin = LibraryOrigin::Loader;
  std::string rule;  // the origin as a person reads it: "option nvrtc (flag)", "already loaded", "CUDA_HOME"

  template <class Function>
  Function symbol(const char* name) const {
    return reinterpret_cast<Function>(address(name));
  }
  /// Looks a function up. `library` as the error names it, `hint` as it advises.
  template <class Function>
  Outcome bind(std::string_view library, const char* name, Function& function, std::string hint = {}) const {
    function = symbol<Function>(name);
    return function != nullptr ? Outcome() : no_function(library, name, std::move(hint));
  }
  std::filesystem::path folder() const { return std::filesystem::path(path).parent_path(); }

 private:
  void* address(const char* name) const;  // null if there is none
  static Outcome no_function(std::string_view library, const char* name, std::string hint);
};

/// Refuses what was opened; the search then goes on. What it says is part of the error if nothing else is found.
using LibraryCheck = std::function<Outcome(const OpenedLibrary&)>;

/// Opens the first library that passes the check. What an option names is taken or refused, nothing else is tried then.
/// The error lists what was refused and why, what was searched, and the remedy.
Result<OpenedLibrary> open_cuda_library(const LibrarySpec& spec, const LibraryPlaces& places,
                                        const LibraryCheck& check);

/// Folders that hold Python's packages, found without starting Python: of the active environment (VIRTUAL_ENV,
/// CONDA_PREFIX), of this process if it is a Python, of the python3 on the PATH, and the user's own.
std::vector<std::filesystem::path> python_package_folders(const std::vector<std::string>& environment);

/// The value of a variable, or empty.
std::string variable_in(const std::vector<std::string>& environment, std::string_view name);

}  // namespace stepfuse::runtime
