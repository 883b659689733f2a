# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""exits.py N COMMAND...: runs COMMAND and succeeds only if it ends with exit code N. A crash is never expected."""
import subprocess
import sys


def main() -> int:
    expected, command = int(sys.argv[1]), sys.argv[2:]
    actual = subprocess.run(command).returncode
    if actual == expected:
        return 0
    print(f"exits.py: expected exit code {expected}, got {actual}: {' '.join(command)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
