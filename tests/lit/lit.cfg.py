# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Text tests of the stepfuse command.

%stepfuse       the command of this build
%exits N CMD    succeeds only if CMD ends with exit code N
%stand_ins      folder of libraries that stand for CUDA's (tests/cuda/stand_ins)

Features: cuda, the backend is in this build; nvrtc, its compiler is found; disassembler, nvdisasm or cuobjdump is.
"""
import os
import shlex
import subprocess

import lit.formats

config.name = "stepfuse"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".sfir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.stepfuse_exec_root

exits = os.path.join(config.test_source_root, "exits.py")
config.substitutions.append(("%stepfuse", shlex.quote(config.stepfuse_binary)))
config.substitutions.append(("%stand_ins", shlex.quote(config.stand_ins)))
config.substitutions.append(("%exits", f"{shlex.quote(config.python)} {shlex.quote(exits)}"))

# FileCheck lies in LLVM's own folder on Debian.
config.environment["PATH"] = os.pathsep.join([os.path.dirname(config.filecheck), config.environment["PATH"]])
for name, value in os.environ.items():
    if name.startswith("STEPFUSE_") or name.endswith("SAN_OPTIONS"):
        config.environment[name] = value
# Where CUDA's libraries and programs are looked for.
for name in ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]


def prints(*arguments: str) -> str:
    command = [config.stepfuse_binary, *arguments]
    return subprocess.run(command, env=config.environment, text=True, stdout=subprocess.PIPE).stdout


targets = prints("list", "targets")
if "cuda" in targets:
    config.available_features.add("cuda")
if "\nsm_8" in targets:
    config.available_features.add("nvrtc")
    if prints("inspect", "--recipe", "sgd", "--stage", "sass", "--target", "sm_90"):
        config.available_features.add("disassembler")
