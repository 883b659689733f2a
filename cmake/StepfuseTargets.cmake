# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# How every target of ours is compiled.

# Warnings are an interface target so that a user of the library never inherits them.
add_library(stepfuse_warnings INTERFACE)
target_compile_options(stepfuse_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wswitch-enum -Wold-style-cast $<$<BOOL:${STEPFUSE_WERROR}>:-Werror>)

# Sanitizers instrument our code only; LLVM, oneDNN and OpenBLAS come as they are. The vptr check is left out because
# it compares type information across shared objects, and ours is hidden.
add_library(stepfuse_sanitize INTERFACE)
if(STEPFUSE_SANITIZE)
  set(flags -fsanitize=${STEPFUSE_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(stepfuse_sanitize INTERFACE ${flags})
  target_link_options(stepfuse_sanitize INTERFACE ${flags})
endif()

# stepfuse_common(TARGET [STANDARD]): language level, warnings, visibility. GCC contracts a*b+c to an fma by default;
# every fma of ours is written as one, because the exact definitions in ir/ops.def depend on it.
function(stepfuse_common target)
  set(standard 20)
  if(ARGC GREATER 1)
    set(standard ${ARGV1})
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD ${standard} CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:stepfuse_warnings> $<BUILD_INTERFACE:stepfuse_sanitize>)
endfunction()

# What libstepfuse.so exports.
set(STEPFUSE_EXPORT_MAP "${PROJECT_SOURCE_DIR}/cmake/stepfuse.map")

# stepfuse_linked_by(OUT TARGET...): the libraries outside of Stepfuse that these targets link, header-only ones left out.
function(stepfuse_linked_by out)
  set(found "")
  foreach(target IN LISTS ARGN)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    list(APPEND found ${libraries})
  endforeach()
  list(REMOVE_ITEM found ${ARGN} tl::expected nlohmann_json::nlohmann_json stepfuse_deps_tomlplusplus)
  list(FILTER found EXCLUDE REGEX "^\\$<BUILD_INTERFACE:|^::@")
  list(REMOVE_DUPLICATES found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# stepfuse_glob(OUT PATTERN...): sources of this folder; a new file needs no edit here.
function(stepfuse_glob out)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  file(GLOB sources CONFIGURE_DEPENDS ${ARGN})
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# stepfuse_internal_library(NAME SOURCE...): a static library of one layer, with project-relative includes. A layer
# without sources yet gets an empty one, so that the rest can be configured.
function(stepfuse_internal_library name)
  set(sources ${ARGN})
  if(NOT sources)
    set(sources "${PROJECT_BINARY_DIR}/generated/empty/${name}.cpp")
    file(CONFIGURE OUTPUT "${sources}" CONTENT "")
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  stepfuse_common(${name})
endfunction()
