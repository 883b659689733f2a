# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""The example by pkg-config and the compiler alone, against the moved prefix: shared and static."""
import shlex
import unittest
from pathlib import Path

from common import EXAMPLE, LIBRARIES, PREFIX, cached, fresh_folder, loaded_libraries, run


def flags(*options) -> list[str]:
    return shlex.split(run("pkg-config", *options, "stepfuse", PKG_CONFIG_PATH=str(LIBRARIES / "pkgconfig")))


def build_example(name: str, compile_flags: list[str], link_flags: list[str]) -> Path:
    program = fresh_folder(name) / "fit_matrix"
    run(cached("CMAKE_CXX_COMPILER"), "-std=c++17", *compile_flags, EXAMPLE / "main.cpp", "-o", program, *link_flags)
    return program


class PkgConfig(unittest.TestCase):
    def test_shared(self):
        link = flags("--libs")
        self.assertEqual([flag for flag in link if "blas" in flag or "dnnl" in flag], [])
        program = build_example("pkg_config_shared", flags("--cflags"), [*link, f"-Wl,-rpath,{LIBRARIES}"])
        self.assertIn(str(LIBRARIES), loaded_libraries(program))
        self.assertIn("on target cpu", run(program))

    def test_static(self):
        link = ["-l:libstepfuse.a" if flag == "-lstepfuse" else flag for flag in flags("--static", "--libs")]
        program = build_example("pkg_config_static", flags("--cflags"), link)
        self.assertNotIn("libstepfuse.so", loaded_libraries(program))
        plugins = run("pkg-config", "--variable=plugindir", "stepfuse", PKG_CONFIG_PATH=str(LIBRARIES / "pkgconfig")).strip()
        self.assertIn("on target cpu", run(program, STEPFUSE_PLUGIN_DIR=plugins))

    def test_the_prefix_is_where_the_file_is(self):
        prefix = run("pkg-config", "--variable=prefix", "stepfuse", PKG_CONFIG_PATH=str(LIBRARIES / "pkgconfig"))
        self.assertEqual(Path(prefix.strip()).resolve(), PREFIX)


if __name__ == "__main__":
    unittest.main()
