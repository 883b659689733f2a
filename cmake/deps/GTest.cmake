# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
find_package(GTest 1.12 REQUIRED CONFIG)  # Debian: libgtest-dev and libgmock-dev; targets GTest::*
