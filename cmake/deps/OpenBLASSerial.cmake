# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# The serial OpenBLAS archive (Debian: libopenblas-serial-dev). OpenBLAS has no limit on threads per call, so ours is
# the single-threaded build, driven by our own pool; linked statically it cannot meet the application's BLAS.
find_path(OPENBLAS_SERIAL_INCLUDE_DIR cblas.h
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial /usr/include/openblas-serial NO_DEFAULT_PATH)
find_library(OPENBLAS_SERIAL_LIBRARY libopenblas.a
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial /usr/lib/openblas-serial NO_DEFAULT_PATH)
if(NOT OPENBLAS_SERIAL_LIBRARY OR NOT OPENBLAS_SERIAL_INCLUDE_DIR)
  message(FATAL_ERROR "The serial OpenBLAS archive was not found: install libopenblas-serial-dev (scripts/deps does), "
    "or set OPENBLAS_SERIAL_LIBRARY and OPENBLAS_SERIAL_INCLUDE_DIR.")
endif()
mark_as_advanced(OPENBLAS_SERIAL_LIBRARY OPENBLAS_SERIAL_INCLUDE_DIR)
add_library(stepfuse_deps_openblas_serial INTERFACE)
target_include_directories(stepfuse_deps_openblas_serial SYSTEM INTERFACE "${OPENBLAS_SERIAL_INCLUDE_DIR}")
target_link_libraries(stepfuse_deps_openblas_serial INTERFACE "${OPENBLAS_SERIAL_LIBRARY}" m)
# Its buffer allocator is not safe for several threads; runtime/cpu/gemm_openblas.cpp wraps it.
target_link_options(stepfuse_deps_openblas_serial INTERFACE
  LINKER:--wrap=blas_memory_alloc,--wrap=blas_memory_free)
