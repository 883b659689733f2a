# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# `cpack -G DEB`: libstepfuse0 (library and plugin), stepfuse (the command), libstepfuse-dev (everything to build with).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME stepfuse)
set(CPACK_PACKAGE_CONTACT "The Stepfuse authors <stepfuse@localhost>" CACHE STRING "Maintainer of the packages, with address")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime development)
if(STEPFUSE_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL command)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/package/debian_docs.cmake")

# stepfuse_deb(COMPONENT NAME SECTION CONTENTS)
macro(stepfuse_deb component name section contents)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION
    "Compiles the update rules of neural network optimizers into a few fused\nkernels. This package holds ${contents}.")
endmacro()

set(library_package libstepfuse${PROJECT_VERSION_MAJOR})
stepfuse_deb(runtime ${library_package} libs "the library and the plugin that compiles for the CPU")
stepfuse_deb(command stepfuse devel "the command that explains, inspects and\nruns them")
stepfuse_deb(development libstepfuse-dev libdevel "headers, the static library, and files\nfor CMake and pkg-config")

# The command and the static library hold the library's code but find the plugin, which takes no other version's word.
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libfmt-dev, libxxhash-dev, libopenblas-serial-dev, libdnnl-dev")

include(CPack)
