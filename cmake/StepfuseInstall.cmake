# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: libraries, plugin, command, headers, CMake package and stepfuse.pc. No installed file holds the
# prefix, so that it may be moved. Components: runtime, command, development.
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/stepfuse")
set(generated "${PROJECT_BINARY_DIR}/generated/package")

install(TARGETS stepfuse EXPORT stepfuse-targets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS stepfuse_static EXPORT stepfuse-static-targets
  ARCHIVE COMPONENT development)
if(STEPFUSE_CPU)
  install(TARGETS stepfuse_cpu_plugin LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/stepfuse" COMPONENT runtime)
endif()
if(STEPFUSE_BUILD_TOOLS)
  install(TARGETS stepfuse_command RUNTIME COMPONENT command)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/stepfuse" TYPE INCLUDE COMPONENT development)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" TYPE DOC COMPONENT development)

foreach(set stepfuse-targets stepfuse-static-targets)
  install(EXPORT ${set} NAMESPACE stepfuse:: DESTINATION "${package_folder}" COMPONENT development)
endforeach()

# The static library's user finds our dependencies by the files that found them here. A target is named after its file:
# stepfuse_deps_openblas_serial comes from OpenBLASSerial.cmake.
set(STATIC_DEPENDENCY_FILES "")
file(GLOB dependency_files "${PROJECT_SOURCE_DIR}/cmake/deps/*.cmake")
foreach(dependency IN LISTS STEPFUSE_STATIC_DEPENDENCIES)
  if(NOT dependency MATCHES "^stepfuse_deps_(.+)$")
    continue()
  endif()
  string(REPLACE "_" "" plain_name "${CMAKE_MATCH_1}")
  foreach(file IN LISTS dependency_files)
    cmake_path(GET file STEM stem)
    string(TOLOWER "${stem}" lower_stem)
    if(lower_stem STREQUAL plain_name)
      list(APPEND STATIC_DEPENDENCY_FILES "${dependency}=${stem}")
      install(FILES "${file}" DESTINATION "${package_folder}/deps" COMPONENT development)
    endif()
  endforeach()
  if(NOT "${STATIC_DEPENDENCY_FILES}" MATCHES "${dependency}=")
    message(FATAL_ERROR "cmake/deps has no file for ${dependency}")
  endif()
endforeach()

set(PLUGIN_FOLDER "${CMAKE_INSTALL_LIBDIR}/stepfuse")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/package/stepfuse-config.cmake.in"
  "${generated}/stepfuse-config.cmake" INSTALL_DESTINATION "${package_folder}" PATH_VARS PLUGIN_FOLDER)
write_basic_package_version_file("${generated}/stepfuse-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${generated}/stepfuse-config.cmake" "${generated}/stepfuse-config-version.cmake"
  DESTINATION "${package_folder}" COMPONENT development)

# stepfuse_linker_flags(OUT DEPENDENCY...): as a person would write them after the archive.
function(stepfuse_linker_flags out)
  set(flags "")
  foreach(item IN LISTS ARGN)
    if(item MATCHES "^stepfuse_deps_")
      get_target_property(libraries ${item} INTERFACE_LINK_LIBRARIES)
      get_target_property(options ${item} INTERFACE_LINK_OPTIONS)
      stepfuse_linker_flags(inner ${libraries})
      string(APPEND flags " ${inner}")
      if(options)
        list(TRANSFORM options REPLACE "^LINKER:" "-Wl,")
        string(REPLACE ";" " " options "${options}")
        string(APPEND flags " ${options}")
      endif()
    elseif(item STREQUAL "Threads::Threads")
      string(APPEND flags " -pthread")
    elseif(item MATCHES "/lib([^/]+)\\.so$")
      string(APPEND flags " -l${CMAKE_MATCH_1}")
    elseif(item MATCHES "^([a-z]+)::[a-z]+$")
      string(APPEND flags " -l${CMAKE_MATCH_1}")
    elseif(item MATCHES "/")
      string(APPEND flags " ${item}")
    else()
      string(APPEND flags " -l${item}")
    endif()
  endforeach()
  string(STRIP "${flags}" flags)
  set(${out} "${flags}" PARENT_SCOPE)
endfunction()

# Reached from lib/pkgconfig, or lib/x86_64-linux-gnu/pkgconfig.
file(RELATIVE_PATH PREFIX_FROM_PC "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" PREFIX_FROM_PC "${PREFIX_FROM_PC}")
stepfuse_linker_flags(STATIC_FLAGS ${STEPFUSE_STATIC_DEPENDENCIES})
configure_file("${PROJECT_SOURCE_DIR}/cmake/package/stepfuse.pc.in" "${generated}/stepfuse.pc" @ONLY)
install(FILES "${generated}/stepfuse.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)

if(PROJECT_IS_TOP_LEVEL)
  include(StepfuseDebian)
endif()
