#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of tests/golden/data by running the real peers on a CPU. Run it through scripts/make-goldens;
README.md describes the files and peers/ holds one module for each peer."""

import argparse
import json
import os
import pathlib

# Before torch is imported: MKL's AVX-512 square root is not correctly rounded, and torch's fallback kernels (no AVX2)
# do not use fma. With these two, torch's loop form computes the same bits on every x86-64 machine with AVX2.
PINNED_ENVIRONMENT = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
# Functions that a peer compiles run as they are written: what the compiler makes of them depends on its version and on
# the machine's C++ compiler.
PINNED_ENVIRONMENT |= {"TORCHDYNAMO_DISABLE": "1"}
os.environ.update(PINNED_ENVIRONMENT)

import numpy as np
import torch

import dialects
from peers import torch_peer


def write_index(path, cases, **more):
    index = {"version": 1, "torch": torch_peer.TORCH_VERSION, "numpy": np.__version__, **more, "cases": cases}
    path.write_text(json.dumps(index, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "data")
    parser.add_argument("--only", choices=("torch", "dialects"), help="write one of the two indexes and its files")
    arguments = parser.parse_args()
    folder = arguments.out
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.only != "dialects":
        cases = torch_peer.write_cases(folder)
        write_index(folder / "cases.json", cases, environment=PINNED_ENVIRONMENT)
        print(f"cases.json: {len(cases)} cases")
    if arguments.only != "torch":
        cases = dialects.write_cases(folder)
        write_index(folder / "dialects.json", cases, environment=PINNED_ENVIRONMENT)
        dialects.write_tables(folder)
        print(f"dialects.json: {len(cases)} cases")
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{size / 1e6:.2f} MB in {folder}")


if __name__ == "__main__":
    main()
