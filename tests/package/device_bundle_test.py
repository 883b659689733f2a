# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""device_bundle_test.py SOURCE BUILD: a bundle for four architectures on the virtual device.

It lies in a folder that belongs to root and that nobody can write, and serves a process of another user, which may not
compile and could not: NVRTC is out of its reach. The device is newer than all four, so that PTX serves it.
"""
import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from common import BUILD

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
IS_ROOT = os.geteuid() == 0 and shutil.which("setpriv") is not None
TARGETS = "sm_80,sm_90,sm_100,sm_120"
SHAPES = {"h.0.w": [24, 40], "h.1.w": [24, 40], "h.0.up": [17, 33], "h.0.bias": [40], "wte": [50, 8]}


def write_tensors(path: Path, shapes: dict[str, list[int]]) -> None:
    """Safetensors of numbers like those of a training, the same ones each time."""
    header, data = {}, b""
    numbers = random.Random(7)
    for name, shape in shapes.items():
        count = 1
        for extent in shape:
            count *= extent
        values = struct.pack(f"<{count}f", *(numbers.gauss(0, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def probe() -> subprocess.CompletedProcess:
    return subprocess.run([BUILD / "bin/stepfuse", "inspect", "--recipe", "sgd", "--stage", "ptx", "--target", "sm_90"],
                          capture_output=True)


@unittest.skipUnless(probe().returncode == 0, "no NVRTC to compile with")
class DeviceBundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.top = Path(cls.temporary.name)
        cls.top.chmod(0o755)
        shutil.copy(BUILD / "bin/stepfuse", cls.top / "stepfuse")
        # With the links resolved: the folder holds files that everybody can read.
        shutil.copytree(BUILD / "tests/vgpu/lib", cls.top / "lib")
        cls.vault = cls.top / "vault"
        cls.vault.mkdir()
        (cls.top / "out").mkdir()
        (cls.top / "out").chmod(0o1777)
        for name in ("p", "g"):
            write_tensors(cls.top / f"{name}.safetensors", SHAPES)
        cls.make("all.sfb", SHAPES)
        cls.make("fewer.sfb", {name: shape for name, shape in SHAPES.items() if name != "h.0.up"})
        cls.vault.chmod(0o555)

    @classmethod
    def make(cls, bundle: str, shapes: dict[str, list[int]]) -> None:
        manifest = cls.top / f"{bundle}.toml"
        lines = [f'{{ name = "{name}", shape = {shape} }}' for name, shape in shapes.items()]
        manifest.write_text("tensors = [\n" + ",\n".join(lines) + "\n]\n")
        cls.run_command("aot", "--params", manifest, "--target", TARGETS, "-o", cls.vault / bundle,
                        STEPFUSE_NVRTC=os.environ.get("STEPFUSE_NVRTC", ""))
        (cls.vault / bundle).chmod(0o444)

    @classmethod
    def run_command(cls, *words, user: list[str] = [], code: int = 0, **variables) -> str:
        environment = {"PATH": os.environ["PATH"], "VIRTUAL_ENV": os.environ.get("VIRTUAL_ENV", ""),
                       "HOME": str(cls.top / "out"), "STEPFUSE_CACHE_DIR": str(cls.top / "out/cache")}
        environment |= {key: value for key, value in variables.items() if value}
        command = user + [str(cls.top / "stepfuse")] + [str(word) for word in words]
        result = subprocess.run(command, env=environment, text=True, capture_output=True)
        if result.returncode != code:
            raise AssertionError(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")
        return result.stdout if "json" in words else result.stdout + result.stderr

    def step(self, bundle: str, out: str, code: int = 0) -> str:
        return self.run_command("run", "--target", "cuda", "--params", self.top / "p.safetensors", "--grads",
                                self.top / "g.safetensors", "--out", self.top / "out" / out, "--check", "-v",
                                user=NOBODY if IS_ROOT else [], code=code, STEPFUSE_JIT="off",
                                STEPFUSE_NVRTC="/nowhere", STEPFUSE_CACHE_PATH=str(self.vault / bundle),
                                LD_LIBRARY_PATH=str(self.top / "lib"))

    def test_serves_another_user_who_may_not_compile(self):
        said = self.step("all.sfb", "whole.safetensors")
        self.assertIn(" 0 kernels compiled", said)
        self.assertEqual(len(re.findall("within tolerance|bit-equal", said)), len(SHAPES) + 3 + 2 * 2, said)  # one state of Muon, two of AdamW
        if IS_ROOT:
            self.assertEqual((self.vault / "all.sfb").stat().st_uid, 0)
            self.assertEqual((self.top / "out/whole.safetensors").stat().st_uid, 65534)

    def test_lists_exactly_the_misses_of_a_missing_shape(self):
        text = self.run_command("aot", "verify", self.vault / "fewer.sfb", "--params", self.vault.parent / "all.sfb.toml",
                                "--target", TARGETS, "--format", "json", code=1)
        missing = json.loads(text)["missing"]
        shapes = [entry for entry in missing if entry["kind"] == "shape"]
        self.assertEqual([entry["target"] for entry in shapes], TARGETS.split(","))
        self.assertTrue(all("17x33" in entry["name"] for entry in shapes), missing)
        # Rows of 17 and 33 elements are padded: that shape alone has kernels of its own.
        kernels = {entry["name"] for entry in missing if entry["kind"] == "kernel"}
        self.assertEqual(len(missing) - len(shapes), len(kernels) * len(TARGETS.split(",")))
        failed = self.step("fewer.sfb", "fewer.safetensors", code=3)
        self.assertIn("must be compiled, and jit=off forbids it", failed)
        self.assertTrue(any(name.split(",")[0] in failed for name in kernels), failed)
        self.assertFalse((self.top / "out/fewer.safetensors").exists())

    def test_finish_adds_what_the_device_chooses(self):
        out = self.top / "out/finished.sfb"
        said = self.run_command("aot", "finish", self.vault / "all.sfb", "--params", self.top / "all.sfb.toml", "-o", out,
                                STEPFUSE_JIT="off", STEPFUSE_NVRTC="/nowhere", LD_LIBRARY_PATH=str(self.top / "lib"))
        products = int(re.search(r"of them (\d+) products", said).group(1))
        self.assertGreater(products, 0)
        listed = self.run_command("cache", "ls", "--format", "json", STEPFUSE_CACHE="readonly",
                                  STEPFUSE_CACHE_DIR=str(self.top / "none"), STEPFUSE_CACHE_PATH=str(out))
        kinds = [entry["kind"] for entry in json.loads(listed)["entries"]]
        self.assertEqual(kinds.count("product"), products)
        self.run_command("aot", "verify", out, "--params", self.top / "all.sfb.toml", "--target", TARGETS)


if __name__ == "__main__":
    unittest.main()
