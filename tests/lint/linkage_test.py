# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""linkage_test.py BUILD_FOLDER: what the built files export and which libraries they open at start.

An application may bring its own OpenBLAS, fmt or LLVM: ours must not leak into it, nor the other way round. And a process
opens LLVM only when a kernel must be compiled, never at start.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1))
SOURCE = Path(__file__).parents[2]
LIBRARY = BUILD / "lib" / "libstepfuse.so"
PLUGIN = BUILD / "lib" / "stepfuse" / "stepfuse_cpu_plugin.so"
COMMAND = BUILD / "bin" / "stepfuse"
# What an installed library may ask of the machine at start.
SYSTEM = r"ld-linux-x86-64|libc|libm|libgcc_s|libstdc\+\+|libgomp"
LIBRARY_NEEDS = re.compile(rf"({SYSTEM}|libdnnl|libfmt|libxxhash|libzstd)\.so")
PLUGIN_NEEDS = re.compile(rf"({SYSTEM}|libLLVM|libfmt|libxxhash)\.so")
LINKER_MARKS = {"__bss_start", "_edata", "_end", "_init", "_fini"}


def output(*command) -> list[str]:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout.splitlines()


def exported(file: Path) -> set[str]:
    return {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", file)} - LINKER_MARKS


def needed(file: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", "\n".join(output("readelf", "-d", "-W", file)))


class Linkage(unittest.TestCase):
    def test_library_exports_only_stepfuse(self):
        names = exported(LIBRARY)
        self.assertIn("stepfuse_optimizer_step", names)
        self.assertEqual([name for name in names if not name.startswith("stepfuse_")], [])

    def test_library_exports_what_the_header_declares(self):
        header = (SOURCE / "include" / "stepfuse" / "stepfuse.h").read_text(encoding="utf-8")
        declared = set(re.findall(r"^STEPFUSE_API .*?\b(stepfuse_\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(declared), 30)
        self.assertEqual(exported(LIBRARY), declared)

    def test_plugin_exports_only_its_entry(self):
        self.assertEqual([name for name in exported(PLUGIN) if not name.startswith("stepfuse_")], [])

    def test_no_unique_symbols(self):
        # The dynamic linker makes one of all of a name in a process, of every library, RTLD_LOCAL or not.
        for file in (LIBRARY, PLUGIN):
            unique = [line for line in output("nm", "-D", "--defined-only", file) if line.split()[1] == "u"]
            self.assertEqual(unique, [], file.name)

    def test_only_known_libraries_are_needed(self):
        for file, known in ((LIBRARY, LIBRARY_NEEDS), (COMMAND, LIBRARY_NEEDS), (PLUGIN, PLUGIN_NEEDS)):
            self.assertEqual([name for name in needed(file) if not known.match(name)], [], file.name)

    def test_llvm_is_linked_by_the_plugin_alone(self):
        self.assertTrue(any(name.startswith("libLLVM") for name in needed(PLUGIN)))
        for file in (LIBRARY, COMMAND):
            self.assertEqual([name for name in needed(file) if "LLVM" in name], [], file.name)

    def test_openblas_is_inside(self):
        for file in (LIBRARY, COMMAND):
            self.assertEqual([name for name in needed(file) if "blas" in name], [], file.name)


if __name__ == "__main__":
    unittest.main()
