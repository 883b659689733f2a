#!/bin/sh
# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
# install_kernels.sh BUNDLE FOLDER: puts the bundle where everyone may read it and nobody but its owner may change it.
# As root the owner is root; a bundle that its user's group could write would be refused when it is used.
set -eu
bundle=${1:?usage: install_kernels.sh BUNDLE FOLDER}
folder=${2:?usage: install_kernels.sh BUNDLE FOLDER}
mkdir -p "$folder"
install -m 0444 "$bundle" "$folder/$(basename "$bundle")"
chmod 0555 "$folder"
rm -f "$bundle"
