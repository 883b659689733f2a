# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
find_package(fmt 9 REQUIRED CONFIG)  # Debian: libfmt-dev; target fmt::fmt
