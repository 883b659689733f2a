# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
find_package(benchmark 1.7 REQUIRED CONFIG)  # Debian: libbenchmark-dev; target benchmark::benchmark
