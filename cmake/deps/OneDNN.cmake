# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# oneDNN (Debian: libdnnl-dev). Its CMake package insists on OpenCL, which we do not use. libgomp is named because each
# of our threads calls omp_set_num_threads(1) before it enters oneDNN.
find_path(ONEDNN_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(ONEDNN_LIBRARY dnnl REQUIRED)
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)
add_library(stepfuse_deps_onednn INTERFACE)
target_include_directories(stepfuse_deps_onednn SYSTEM INTERFACE "${ONEDNN_INCLUDE_DIR}")
target_link_libraries(stepfuse_deps_onednn INTERFACE "${ONEDNN_LIBRARY}" gomp)
