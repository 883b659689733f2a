# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check: the packed folder stands alone, says so where there is no GPU, and runs as a whole on the virtual one."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from common import BUILD, SOURCE, fresh_folder, run

MIB = 1 << 20
SCRIPT = SOURCE / "scripts/gpu-check"
VIRTUAL = {"LD_LIBRARY_PATH": str(BUILD / "tests/vgpu/lib")}
NO_DEVICE = {"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": ""}
C_LIBRARY = re.compile(r"/(ld-linux-x86-64|libc|libm|libdl|librt|libpthread)\.so")
PARTS = ["lt algorithms", "pointer array", "scalars", "lt candidates", "at a time", "graph of", "AdamW f32", "AdamW bf16",
         "tensors of 64", "Muon", "experts", "cold start", "warm start", "host time of a step", "without absorb_update"]


def finished(*command, **variables) -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STEPFUSE_")}
    return subprocess.run([str(word) for word in command], env=environment | variables, text=True, capture_output=True)


def has_driver() -> bool:
    text = run("sh", "-c", "PATH=$PATH:/sbin:/usr/sbin ldconfig -p")
    return "libcuda.so.1 " in text


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = fresh_folder("gpu_check")
        run(SCRIPT, "--pack", cls.folder / "packed")
        cls.packed = cls.folder / "elsewhere" / "a b"  # relocatable, whatever the name
        cls.packed.parent.mkdir()
        shutil.move(cls.folder / "packed", cls.packed)
        cls.program = cls.packed / "run"

    def report(self, *options) -> tuple[subprocess.CompletedProcess, dict]:
        path = self.folder / "report.json"
        path.unlink(missing_ok=True)
        result = finished(self.program, "-o", path, *options, **VIRTUAL)
        return result, json.loads(path.read_text())

    def test_the_folder_is_small(self):
        size = sum(file.stat().st_size for file in self.packed.rglob("*") if file.is_file())
        self.assertLessEqual(size, 60 * MIB)
        self.assertGreater(size, MIB)

    def test_the_folder_stands_alone(self):
        for file in [*self.packed.glob("bin/*"), *self.packed.glob("lib/*")]:
            libraries = re.findall(r"=> (\S.*) \(0x", run("ldd", file))
            self.assertTrue(libraries, file)
            outside = [name for name in libraries if not name.startswith(str(self.packed)) and not C_LIBRARY.search(name)]
            # What lies beside them is found through the programs that use them.
            if file.parent.name == "bin" or file.name.startswith("libstepfuse"):
                self.assertEqual(outside, [], file)

    def test_no_file_is_overwritten_by_packing(self):
        result = finished(SCRIPT, "--pack", self.packed)
        self.assertEqual(result.returncode, 2)
        self.assertIn("is not empty", result.stderr)

    def test_without_a_gpu_it_says_so(self):
        path = self.folder / "none.json"
        result = finished(self.program, "-o", path, **NO_DEVICE)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("no GPU to check", result.stderr)
        self.assertFalse(path.exists())

    @unittest.skipIf(has_driver(), "this machine has a driver")
    def test_the_script_says_so_before_it_builds(self):
        result = finished(SCRIPT, LD_LIBRARY_PATH="")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("no GPU to check", result.stderr)
        self.assertNotIn("Building", result.stdout + result.stderr)

    def test_wrong_usage(self):
        for command in (["--rounds", "0"], ["--rounds", "x"], ["-o"], ["--nonsense"], ["file"]):
            result = finished(self.program, *command, **NO_DEVICE)
            self.assertEqual(result.returncode, 2, command)
            self.assertIn("usage", result.stderr)
        self.assertEqual(finished(SCRIPT, "--pack").returncode, 2)

    def test_the_whole_flow_on_the_virtual_gpu(self):
        result, report = self.report()
        self.assertEqual(result.returncode, 0, result.stderr + json.dumps(report["tests"] + report["failures"]))
        self.assertEqual(report["schema"], "stepfuse-gpu-check/1")
        self.assertTrue(report["virtual"] and report["short"] and report["passed"])
        self.assertEqual(report["machine"]["gpu"], "Stepfuse virtual GPU")
        self.assertEqual([test["failed"] + test["skipped"] for test in report["tests"]], [0, 0])
        self.assertTrue(all(test["ran"] > 10 for test in report["tests"]))
        self.assertEqual(report["failures"], [])
        self.assertEqual(report["targets"], [])
        for figure in report["figures"]:
            self.assertEqual(sorted(figure), ["count", "name", "unit"])  # and no number
            self.assertIn(figure["unit"], ("s", "B/s", "FLOP/s", "ratio"))
        names = "\n".join(entry["name"] for entry in report["figures"] + report["facts"])
        for part in PARTS:
            self.assertIn(part, names)
        self.assertIn("the device is virtual", {entry["reason"] for entry in report["left_out"]})

    def test_the_counts_are_the_plans(self):
        _, report = self.report()
        facts = {fact["name"]: fact["value"] for fact in report["facts"]}
        self.assertEqual(facts["AdamW f32, bytes per parameter"], 28)
        self.assertEqual(facts["AdamW bf16, bytes per parameter"], 14)
        self.assertEqual(facts["kernels compiled in a warm start"], 0)
        self.assertFalse(facts["NVRTC opened in a warm start"])
        self.assertGreater(facts["kernels compiled in a cold start"], 0)

    def test_the_report_is_named_after_the_device(self):
        results = self.folder / "results"
        results.mkdir(exist_ok=True)
        finished(self.program, "--results", results, "--rounds", "1", **VIRTUAL)
        self.assertEqual([file.name for file in results.iterdir()], ["gpu-stepfuse-virtual-gpu.json"])

    def test_a_wrong_result_is_a_failure(self):
        golden = self.packed / "goldens/sgd_momentum_first_step.safetensors"
        good = golden.read_bytes()
        self.addCleanup(golden.write_bytes, good)
        header = int.from_bytes(good[:8], "little") + 8
        begin = json.loads(good[8:header])["after." + self.parameter(good)]["data_offsets"][0] + header
        golden.write_bytes(good[: begin + 3] + bytes([good[begin + 3] ^ 0x40]) + good[begin + 4:])
        result, report = self.report("--rounds", "1")
        self.assertEqual(result.returncode, 1)
        self.assertFalse(report["passed"])
        failures = report["tests"][0]["failures"]
        self.assertTrue(failures)
        self.assertTrue(all("sgd_momentum_first_step" in failure["test"] for failure in failures), failures)

    @staticmethod
    def parameter(file: bytes) -> str:
        header = json.loads(file[8:8 + int.from_bytes(file[:8], "little")])
        return next(name for name in header if name.startswith("after.")).removeprefix("after.")

    def test_torch_is_left_out_with_the_reason(self):
        result = finished(sys.executable, "-B", self.packed / "torch_ratios.py", self.packed / "lib/libstepfuse.so.0",
                          PYTHONPATH=str(self.folder / "no_torch"), **NO_DEVICE)
        if importlib.util.find_spec("torch") is None:
            self.assertEqual(result.returncode, 3)
            self.assertIn("cannot import torch", result.stderr)

    def test_a_step_through_the_bindings_for_torch(self):
        library = self.packed / "lib/libstepfuse.so.0"
        result = finished(sys.executable, "-B", Path(__file__).parent / "torch_bindings.py", self.packed, library, **VIRTUAL)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "2.0\n")


if __name__ == "__main__":
    unittest.main()
