# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""examples/cmake_project against the moved prefix, by find_package: shared and static; versions and components."""
import unittest
from pathlib import Path

from common import EXAMPLE, LIBRARIES, PREFIX, configure, fresh_folder, loaded_libraries, run


def build_example(name: str, *options) -> Path:
    folder = fresh_folder(name)
    configure(EXAMPLE, folder, f"-DCMAKE_PREFIX_PATH={PREFIX}", *options)
    run("cmake", "--build", folder)
    return folder / "fit_matrix"


class FindPackage(unittest.TestCase):
    def test_shared(self):
        program = build_example("example_shared")
        self.assertIn(f"libstepfuse.so.0 => {LIBRARIES}", loaded_libraries(program))
        self.assertIn("on target cpu", run(program))

    def test_static(self):
        program = build_example("example_static", "-DFIT_MATRIX_STATIC=ON")
        self.assertNotIn("libstepfuse.so", loaded_libraries(program))
        self.assertIn("on target cpu", run(program, STEPFUSE_PLUGIN_DIR=str(LIBRARIES / "stepfuse")))
        self.assertIn("STEPFUSE_PLUGIN_DIR", run(program, ok=False))

    def test_requests(self):
        folder = fresh_folder("requests")
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(requests LANGUAGES CXX)\n"
            "find_package(stepfuse ${REQUEST} CONFIG REQUIRED COMPONENTS ${PARTS})\n"
            "find_package(stepfuse CONFIG REQUIRED COMPONENTS static)\n"
            'if(NOT EXISTS "${stepfuse_PLUGIN_DIR}/stepfuse_cpu_plugin.so")\n  message(FATAL_ERROR "no plugin")\nendif()\n')
        for request, parts, ok, words in (
            ("0.1", "cpu", True, ""), ("0.1.0", "cpu;static", True, ""),
            ("0.2", "cpu", False, "0.1.0"), ("0.1", "cuda", True, ""), ("0.1", "tpu", False, "'tpu'")):
            text = configure(folder, folder / "build", f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DREQUEST={request}",
                             f"-DPARTS={parts}", ok=ok)
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
