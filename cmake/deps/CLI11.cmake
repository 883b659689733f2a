# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
find_package(CLI11 2.1 REQUIRED CONFIG)  # Debian: libcli11-dev; target CLI11::CLI11
