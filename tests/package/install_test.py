# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""`cmake --install`, then the prefix is moved: what was installed, and that the command works where it now is."""
import re
import unittest
from pathlib import Path

from common import BUILD, LIBDIR, LIBRARIES, PREFIX, SOURCE, SCRATCH, fresh_folder, loaded_libraries, run


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        first = fresh_folder("first")
        run("cmake", "--install", BUILD, "--prefix", first)
        cls.files = tree(first)
        fresh_folder("moved")
        first.rename(PREFIX)

    def test_the_files_are_those_meant(self):
        version = re.search(r"VERSION ([0-9.]+) ", (SOURCE / "CMakeLists.txt").read_text().split("project(")[1]).group(1)
        libraries = ["libstepfuse.a", "libstepfuse.so", "libstepfuse.so.0", f"libstepfuse.so.{version}",
                     "stepfuse/stepfuse_cpu_plugin.so", "pkgconfig/stepfuse.pc"]
        expected = {f"{LIBDIR}/{name}" for name in libraries} | {"bin/stepfuse", "share/doc/stepfuse/LICENSE"}
        expected |= {f"include/stepfuse/{header.name}" for header in (SOURCE / "include/stepfuse").iterdir()}
        self.assertEqual({name for name in self.files if not name.startswith(f"{LIBDIR}/cmake/stepfuse/")}, expected)

    def test_no_text_names_a_folder_of_the_build(self):
        for name in sorted(self.files):
            if Path(name).suffix in {".cmake", ".pc", ".hpp", ".h"}:
                text = (PREFIX / name).read_text()
                for folder in (SOURCE, BUILD, SCRATCH):
                    self.assertNotIn(str(folder), text, name)

    def test_no_run_path_is_left(self):
        for file in (PREFIX / "bin/stepfuse", LIBRARIES / "libstepfuse.so", LIBRARIES / "stepfuse/stepfuse_cpu_plugin.so"):
            self.assertNotRegex(run("readelf", "-dW", file), r"\((RPATH|RUNPATH)\)", file.name)
            loaded_libraries(file)

    def test_the_command_finds_its_plugin(self):
        text = run(PREFIX / "bin/stepfuse", "inspect", "--recipe", "adamw", "--stage", "asm")
        self.assertIn("LLVM 19", text)


if __name__ == "__main__":
    unittest.main()
