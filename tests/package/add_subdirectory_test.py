# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Stepfuse inside another project's build, by add_subdirectory: nothing leaks, and both libraries serve."""
import unittest

from common import SOURCE, configure, fresh_folder, loaded_libraries, run


class AddSubdirectory(unittest.TestCase):
    def test_both_libraries(self):
        folder = fresh_folder("outer")
        configure(SOURCE / "tests/package/add_subdirectory", folder, f"-DSTEPFUSE_SOURCE={SOURCE}", "-DSTEPFUSE_CUDA=OFF")
        run("cmake", "--build", folder)
        self.assertIn("libstepfuse.so", loaded_libraries(folder / "fit_shared"))
        self.assertIn("on target cpu", run(folder / "fit_shared"))
        self.assertNotIn("libstepfuse.so", loaded_libraries(folder / "fit_static"))
        plugins = folder / "stepfuse/lib/stepfuse"
        self.assertIn("on target cpu", run(folder / "fit_static", STEPFUSE_PLUGIN_DIR=str(plugins)))


if __name__ == "__main__":
    unittest.main()
