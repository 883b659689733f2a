# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# toml++ (Debian: libtomlplusplus-dev), header-only; the files that read TOML include it and no header of ours does.
include_guard(GLOBAL)
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
mark_as_advanced(TOMLPLUSPLUS_INCLUDE_DIR)
add_library(stepfuse_deps_tomlplusplus INTERFACE)
target_include_directories(stepfuse_deps_tomlplusplus SYSTEM INTERFACE "${TOMLPLUSPLUS_INCLUDE_DIR}")
