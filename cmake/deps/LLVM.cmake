# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# LLVM 19 as one shared library (Debian: llvm-19-dev). Only the CPU plugin links it and sees its headers.
find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_library(stepfuse_deps_llvm INTERFACE)
target_include_directories(stepfuse_deps_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(stepfuse_deps_llvm INTERFACE ${llvm_definitions})
target_link_libraries(stepfuse_deps_llvm INTERFACE LLVM)
