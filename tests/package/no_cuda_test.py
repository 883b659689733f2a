# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""A build with STEPFUSE_CUDA=OFF: the command says what is missing."""
import unittest

from common import SOURCE, configure, fresh_folder, run


class NoCuda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = fresh_folder("no_cuda") / "build"
        options = ["-DSTEPFUSE_CUDA=OFF", "-DSTEPFUSE_BUILD_TESTS=OFF", "-DSTEPFUSE_BUILD_BENCH=OFF",
                   "-DSTEPFUSE_BUILD_EXAMPLES=OFF"]
        cls.summary = configure(SOURCE, cls.build, *options)
        run("cmake", "--build", cls.build, "--target", "stepfuse_command", "stepfuse")
        cls.command = cls.build / "bin/stepfuse"

    def test_nothing_of_the_backend_is_linked(self):
        self.assertIn("cuda OFF", self.summary)
        for file in (self.command, self.build / "lib/libstepfuse.so"):
            self.assertNotRegex(run("nm", "-C", file), "nvrtc|Nvrtc|emit_cuda")

    def test_the_missing_backend_is_named(self):
        for command in (["inspect", "--recipe", "adamw", "--target", "sm_90"],
                        ["inspect", "--recipe", "adamw", "--stage", "ptx", "--target", "compute_90"],
                        ["aot", "--recipe", "adamw", "--shape", "8", "--target", "cpu,sm_90", "--dry-run"],
                        ["explain", "--recipe", "adamw", "--shape", "8", "--target", "cuda"]):
            text = run(self.command, *command, ok=False)
            self.assertIn("this build has no CUDA backend", text)
            self.assertIn("-DSTEPFUSE_CUDA=ON", text)

    def test_the_rest_goes_on(self):
        bundle = self.build / "k.sfb"
        model = ["--recipe", "adamw", "--shape", "8", "--target", "x86-64-v3"]
        run(self.command, "aot", *model, "-o", bundle)
        self.assertIn("holds all 1 kernels and 1 shapes", run(self.command, "aot", "verify", bundle, *model))
        names = [line.split()[0] for line in run(self.command, "list", "targets").splitlines()]
        self.assertEqual(names, ["interp", "cpu", "x86-64-v3", "x86-64-v4"])
        self.assertRegex(run(self.command, "doctor"), r"CUDA\n  CUDA backend +not in this build")


if __name__ == "__main__":
    unittest.main()
