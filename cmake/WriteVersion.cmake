# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# Script: writes OUTPUT from ir/support/version.h.in. A source tree without git says "unknown".
set(GIT_DESCRIBE "")
find_program(GIT git)
if(GIT AND EXISTS "${SOURCE_DIR}/.git")
  execute_process(COMMAND "${GIT}" -C "${SOURCE_DIR}" describe --always --dirty --tags
    OUTPUT_VARIABLE GIT_DESCRIBE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT GIT_DESCRIBE)
  set(GIT_DESCRIBE "unknown")
endif()
configure_file("${SOURCE_DIR}/ir/support/version.h.in" "${OUTPUT}" @ONLY)
