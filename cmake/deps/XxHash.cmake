# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# xxHash (Debian: libxxhash-dev) has no CMake package.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
mark_as_advanced(XXHASH_INCLUDE_DIR XXHASH_LIBRARY)
add_library(stepfuse_deps_xxhash INTERFACE)
target_include_directories(stepfuse_deps_xxhash SYSTEM INTERFACE "${XXHASH_INCLUDE_DIR}")
target_link_libraries(stepfuse_deps_xxhash INTERFACE "${XXHASH_LIBRARY}")
