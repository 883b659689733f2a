# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# Defaults that concern the whole build tree: only set when Stepfuse is not part of another project.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(STEPFUSE_CCACHE ccache)
if(STEPFUSE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Source paths are absolute, so an object serves another build folder with the same flags; tests/package lives on that.
  set(launcher "${CMAKE_COMMAND}" -E env CCACHE_NOHASHDIR=1 "${STEPFUSE_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
