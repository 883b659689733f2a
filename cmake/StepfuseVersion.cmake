# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# ir/support/version.h: the version and `git describe`, written at build time and only when they change, so that
# `stepfuse --version` names the commit that was built without recompiling everything.
set(STEPFUSE_GENERATED_DIR "${PROJECT_BINARY_DIR}/generated")
set(version_command
  ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
  -DOUTPUT=${STEPFUSE_GENERATED_DIR}/ir/support/version.h -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake)
execute_process(COMMAND ${version_command} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(stepfuse_version COMMAND ${version_command} VERBATIM
  BYPRODUCTS "${STEPFUSE_GENERATED_DIR}/ir/support/version.h" COMMENT "")
