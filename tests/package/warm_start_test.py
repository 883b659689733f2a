# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""warm_start_test.py LIBRARY PLUGIN_FOLDER: a second start takes its kernels from disk and opens no compiler.

Each start is a process of its own, which says what libraries it has mapped at the end.
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, PLUGIN_FOLDER = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")

START = """
import sys
sys.path.insert(0, sys.argv[1])
import c_interface
c_interface.sgd_step(sys.argv[2], **dict(setting.split("=", 1) for setting in sys.argv[3:]))
print(open("/proc/self/maps").read())
"""


def start(**settings: str) -> str:
    """The mappings of a process that has taken a step."""
    words = [f"{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-B", "-c", START, str(Path(__file__).parent), LIBRARY, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class WarmStart(unittest.TestCase):
    def test_second_start_opens_no_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = {"cache": "on", "cache_dir": folder + "/cache"}
            first = start(**settings, plugin_dir=PLUGIN_FOLDER)
            second = start(**settings, plugin_dir=PLUGIN_FOLDER, jit="off")
        for name in ("libLLVM", "stepfuse_cpu_plugin"):
            self.assertIn(name, first)
            self.assertNotIn(name, second)

    def test_entries_serve_without_any_compiler_and_from_another_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            start(cache="on", cache_dir=folder + "/a", plugin_dir=PLUGIN_FOLDER)
            Path(folder, "a").rename(Path(folder, "b"))
            start(cache="on", cache_dir=folder + "/b", plugin_dir=folder + "/nothing")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
