# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""A build with STEPFUSE_CPU=OFF on a machine without LLVM, OpenBLAS and oneDNN.

They are hidden: CMake finds no LLVM, the libraries' cache variables name files that do not exist, and their headers are
covered by ones that do not compile.
"""
import re
import unittest

from common import SOURCE, cached, configure, fresh_folder, loaded_libraries, run

HIDDEN_HEADERS = ["cblas.h", "dnnl.h", "dnnl.hpp", "omp.h", "llvm/Config/llvm-config.h", "llvm/IR/Module.h"]
HIDDEN_FILES = ["ONEDNN_INCLUDE_DIR", "ONEDNN_LIBRARY", "OPENBLAS_SERIAL_INCLUDE_DIR", "OPENBLAS_SERIAL_LIBRARY"]
DATA = SOURCE / "tests/golden/data/muon_defaults.safetensors"


class NoCpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = fresh_folder("no_cpu")
        cls.cover = folder / "cover"
        for header in HIDDEN_HEADERS:
            (cls.cover / header).parent.mkdir(parents=True, exist_ok=True)
            (cls.cover / header).write_text(f'#error "{header} is hidden"\n')
        cls.hiding = ["-DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON", f"-DCMAKE_CXX_FLAGS=-I{cls.cover}"]
        cls.hiding += [f"-D{name}=/hidden/{name}" for name in HIDDEN_FILES]
        cls.build = folder / "build"
        cls.summary = configure(SOURCE, cls.build, "-DSTEPFUSE_CPU=OFF", *cls.hiding)
        run("cmake", "--build", cls.build)
        cls.command = cls.build / "bin/stepfuse"

    def test_the_hiding_hides(self):
        text = configure(SOURCE, self.build.parent / "refused", *self.hiding, ok=False)
        self.assertIn("CMAKE_DISABLE_FIND_PACKAGE_LLVM is enabled", text)
        for header in HIDDEN_HEADERS:
            source = self.cover / "probe.cpp"
            source.write_text(f"#include <{header}>\n")
            text = run(cached("CMAKE_CXX_COMPILER"), f"-I{self.cover}", "-fsyntax-only", source, ok=False)
            self.assertIn(f"{header} is hidden", text)
        self.assertNotIn("/hidden/", (self.build / "build.ninja").read_text())

    def test_tests_benchmarks_and_examples_are_off(self):
        self.assertIn("cpu OFF", self.summary)
        for part in ("TESTS", "BENCH", "EXAMPLES"):
            self.assertEqual(cached(f"STEPFUSE_BUILD_{part}", self.build), "OFF", part)
        text = configure(SOURCE, self.build.parent / "contradiction", "-DSTEPFUSE_CPU=OFF", "-DSTEPFUSE_BUILD_TESTS=ON",
                         ok=False)
        self.assertIn("STEPFUSE_BUILD_TESTS needs the CPU backend", text)

    def test_nothing_of_the_backend_is_linked(self):
        for file in (self.command, self.build / "lib/libstepfuse.so"):
            self.assertNotRegex(loaded_libraries(file), r"LLVM|dnnl|blas|gomp")
            self.assertNotRegex(run("nm", "-C", file), "cblas_|dnnl_|GemmProviders")
        self.assertFalse((self.build / "lib/stepfuse").exists())

    def test_the_interpreter_steps(self):
        out = self.build / "p1.safetensors"
        run(self.command, "run", "--target", "interp", "--recipe", "muon", "--set", "lr=0.02", "--params", DATA,
            "--grads", DATA, "--out", out, "--check")
        self.assertNotEqual(out.read_bytes(), DATA.read_bytes())
        listing = run(self.command, "list", "targets")
        targets = [line.split()[0] for line in listing.splitlines()]
        self.assertIn("interp", targets)
        self.assertFalse([target for target in targets if re.match("cpu|x86|avx|native", target)])

    def test_the_missing_backend_is_named(self):
        for command in (["run", "--params", DATA, "--grads", DATA, "--out", self.build / "none.safetensors"],
                        ["aot", "--shape", "8x8", "--target", "x86-64-v3", "--dry-run"],
                        ["explain", "--shape", "8x8"], ["inspect", "--shape", "8x8", "--stage", "asm"]):
            text = run(self.command, *command, "--recipe", "muon", ok=False)
            self.assertIn("this build has no CPU backend", text)
            self.assertIn("-DSTEPFUSE_CPU=ON", text)

    def test_kernels_for_gpus_are_listed_and_checked(self):
        text = run(self.command, "aot", "--recipe", "muon", "--shape", "8x8", "--target", "sm_90", "--dry-run")
        self.assertRegex(text, r"sm_90: \d+ kernels, 1 shapes")

    def test_installs(self):
        prefix = self.build / "prefix"
        run("cmake", "--install", self.build, "--prefix", prefix)
        self.assertFalse((prefix / "lib/stepfuse").exists())
        example = self.build / "example"
        text = configure(SOURCE / "examples/cmake_project", example, f"-DCMAKE_PREFIX_PATH={prefix}", ok=False)
        self.assertIn("built without 'cpu'", text)


if __name__ == "__main__":
    unittest.main()
