# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# zstd (Debian: libzstd-dev) has no CMake package in every release.
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
mark_as_advanced(ZSTD_INCLUDE_DIR ZSTD_LIBRARY)
add_library(stepfuse_deps_zstd INTERFACE)
target_include_directories(stepfuse_deps_zstd SYSTEM INTERFACE "${ZSTD_INCLUDE_DIR}")
target_link_libraries(stepfuse_deps_zstd INTERFACE "${ZSTD_LIBRARY}")
