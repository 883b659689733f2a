# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Text tests of the stepfuse command.

%stepfuse       the command of this build
%exits N CMD    succeeds only if CMD ends with exit code N
"""
import os
import shlex

import lit.formats

config.name = "stepfuse"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".sfir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.stepfuse_exec_root

exits = os.path.join(config.test_source_root, "exits.py")
config.substitutions.append(("%stepfuse", shlex.quote(config.stepfuse_binary)))
config.substitutions.append(("%exits", f"{shlex.quote(config.python)} {shlex.quote(exits)}"))

# FileCheck lies in LLVM's own folder on Debian.
config.environment["PATH"] = os.pathsep.join([os.path.dirname(config.filecheck), config.environment["PATH"]])
for name, value in os.environ.items():
    if name.startswith("STEPFUSE_") or name.endswith("SAN_OPTIONS"):
        config.environment[name] = value
