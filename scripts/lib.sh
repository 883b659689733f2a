# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the scripts of this folder, which source it; moves to the top of the repository.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

say() { printf '\n== %s\n' "$*"; }

# Parallel jobs: one per core, but no more than memory allows. A file that includes LLVM's headers needs about 1 GiB.
jobs() {
  local cores memory_gib
  cores=$(nproc)
  memory_gib=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  if ((memory_gib < 1)); then memory_gib=1; fi
  echo $((cores < memory_gib ? cores : memory_gib))
}
