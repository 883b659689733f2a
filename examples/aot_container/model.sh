# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What is compiled, and later checked: one place, so that the two cannot differ. The environment goes before.
examples=$(cd "$(dirname "$0")/.." && pwd)
: "${STEPFUSE:=stepfuse}"
: "${CONFIG:=$examples/configs/gpt2.toml}"
: "${MODEL:=$examples/manifests/gpt2-124m.toml}"
: "${TARGETS:=sm_80,sm_90,sm_100,sm_120,x86-64-v3,x86-64-v4}"
