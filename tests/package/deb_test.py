# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""`cpack -G DEB`: the fields of the three packages, and the command unpacked somewhere and run there."""
import re
import unittest
from pathlib import Path

from common import BUILD, fresh_folder, loaded_libraries, run

PACKAGES = {"libstepfuse0", "stepfuse", "libstepfuse-dev"}


def control(package: Path) -> dict[str, str]:
    """The fields of a package; dependencies by name."""
    text = run("dpkg-deb", "-f", package)
    return dict(re.findall(r"^([\w-]+): (.*)$", text, re.MULTILINE))


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = fresh_folder("deb")
        run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder)
        cls.packages = {path.name.split("_")[0]: path for path in cls.folder.glob("*.deb")}
        cls.fields = {name: control(path) for name, path in cls.packages.items()}

    def test_three_packages(self):
        self.assertEqual(set(self.packages), PACKAGES)
        for name, fields in self.fields.items():
            self.assertEqual(fields["Package"], name)
            self.assertTrue(fields["Maintainer"] and fields["Section"] and fields["Description"], name)
            self.assertEqual(fields["Architecture"], run("dpkg", "--print-architecture").strip())

    def test_dependencies(self):
        version = self.fields["stepfuse"]["Version"]
        library = self.fields["libstepfuse0"]["Depends"]
        for needed in ("libllvm19", "libfmt", "libdnnl", "libc6", "libstdc++6"):
            self.assertIn(needed, library)
        self.assertNotIn("libopenblas", library)
        for name in ("stepfuse", "libstepfuse-dev"):
            self.assertIn(f"libstepfuse0 (= {version})", self.fields[name]["Depends"])

    def test_contents(self):
        for name, path in self.packages.items():
            root = self.folder / "root" / name
            root.mkdir(parents=True)
            run("dpkg-deb", "-x", path, root)
            files = [file for file in root.rglob("*") if file.is_file()]
            for document in ("copyright", "changelog.gz"):
                self.assertTrue((root / "usr/share/doc" / name / document).is_file(), f"{name}: {document}")
            for file in files:
                self.assertFalse(file.stat().st_mode & 0o022, f"{file} may be written by others")
        self.assertIn("libstepfuse 0 libstepfuse0", self.control_file("libstepfuse0", "shlibs"))
        self.assertIn("ldconfig", self.control_file("libstepfuse0", "postinst"))

    def control_file(self, package: str, name: str) -> str:
        folder = self.folder / "control" / package
        folder.mkdir(parents=True, exist_ok=True)
        run("dpkg-deb", "-e", self.packages[package], folder)
        return (folder / name).read_text()

    def test_unpacked_command_runs(self):
        root = self.folder / "elsewhere"
        for name in ("libstepfuse0", "stepfuse"):
            run("dpkg-deb", "-x", self.packages[name], root)
        command = root / "usr/bin/stepfuse"
        loaded_libraries(command)
        self.assertIn("LLVM 19", run(command, "inspect", "--recipe", "adamw", "--stage", "asm"))


if __name__ == "__main__":
    unittest.main()
