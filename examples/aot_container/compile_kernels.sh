#!/bin/sh
# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# compile_kernels.sh BUNDLE: compiles every kernel of the model for every target, without a GPU, and checks the result.
set -eu
bundle=${1:?usage: compile_kernels.sh BUNDLE}
# shellcheck source=model.sh disable=SC1091
. "$(dirname "$0")/model.sh"
"$STEPFUSE" aot --config "$CONFIG" --params "$MODEL" --target "$TARGETS" --jobs "$(nproc)" -o "$bundle"
"$STEPFUSE" aot verify "$bundle" --config "$CONFIG" --params "$MODEL" --target "$TARGETS"
