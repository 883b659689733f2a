# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
find_package(tl-expected 1.0 REQUIRED CONFIG)  # Debian: libexpected-dev; target tl::expected
