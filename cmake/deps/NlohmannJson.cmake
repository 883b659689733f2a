# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
find_package(nlohmann_json 3.11 REQUIRED CONFIG)  # Debian: nlohmann-json3-dev; target nlohmann_json::nlohmann_json
