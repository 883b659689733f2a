#!/bin/sh
# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# check_kernels.sh BUNDLE: as the user that will train. Whatever is missing fails the image, not the training.
set -eu
bundle=${1:?usage: check_kernels.sh BUNDLE}
# shellcheck source=model.sh disable=SC1091
. "$(dirname "$0")/model.sh"
if [ -w "$bundle" ]; then
  echo "check_kernels.sh: $bundle can be written by user $(id -u)" >&2
  exit 1
fi
"$STEPFUSE" aot verify "$bundle" --config "$CONFIG" --params "$MODEL" --target "$TARGETS"
# The cache finds it as the trainer will, by STEPFUSE_CACHE_PATH.
for target in $(echo "$TARGETS" | tr ',' ' '); do
  answer=$("$STEPFUSE" cache why-miss --config "$CONFIG" --params "$MODEL" --target "$target")
  if echo "$answer" | grep -q ': miss$'; then
    printf 'check_kernels.sh: the cache misses shapes for %s:\n%s\n' "$target" "$answer" >&2
    exit 1
  fi
done
