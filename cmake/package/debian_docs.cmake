# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# Run by cpack before it builds the packages: the copyright and changelog that Debian wants in each.
find_program(GZIP gzip REQUIRED)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(folder "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc/${package}")
  file(WRITE "${folder}/copyright" "Stepfuse is Copyright The Stepfuse authors, under the Apache License 2.0, of which Debian\n"
    "systems have a copy in /usr/share/common-licenses/Apache-2.0.\n")
  file(WRITE "${folder}/changelog"
    "stepfuse (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Built from source; see CHANGELOG.md there.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  execute_process(COMMAND "${GZIP}" -9nf "${folder}/changelog" COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD "${folder}/copyright" "${folder}/changelog.gz" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
