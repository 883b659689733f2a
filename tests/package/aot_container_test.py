# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""aot_container_test.py SOURCE BUILD: the steps of examples/aot_container/Dockerfile, run without docker.

Its scripts run in its order, with its variables and as its users, in a folder that stands for the image's root. As nobody
but root may change the user or give files away, without root the scripts run as they are and the owner goes unchecked.
"""
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

from common import BUILD, SOURCE

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
IS_ROOT = os.geteuid() == 0 and shutil.which("setpriv") is not None


class Image:
    """The last stage, below a folder. What other stages hold is there too, but the last has no plugin and no NVRTC."""

    def __init__(self, root: Path):
        self.root = root
        self.user = "root"
        self.variables: dict[str, str] = {}
        # Readable by everybody, like an image's root.
        root.chmod(0o755)
        for folder in ("src/examples/aot_container", "src/examples/configs", "src/examples/manifests"):
            shutil.copytree(SOURCE / folder.removeprefix("src/"), root / folder)
        (root / "opt/stepfuse/bin").mkdir(parents=True)
        shutil.copy(BUILD / "bin/stepfuse", root / "opt/stepfuse/bin/stepfuse")
        (root / "tmp").mkdir()

    def path(self, text: str) -> str:
        """Absolute paths of the image, below the root."""
        return re.sub(r"(?<![\w.])/(?=\w)", f"{self.root}/", text)

    def copy(self, source: str, target: str, from_context: bool) -> None:
        origin = self.root / "src" / source if from_context else Path(self.path(source))
        place = Path(self.path(target))
        if origin == place:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if origin.is_dir():
            shutil.copytree(origin, place)
        else:
            shutil.copy(origin, place)

    def run(self, script: str, last_stage: bool) -> str:
        environment = {"PATH": os.environ["PATH"]} | {k: self.path(v) for k, v in self.variables.items()}
        if last_stage:
            environment["STEPFUSE_PLUGIN_DIR"] = environment["STEPFUSE_NVRTC"] = "/nowhere"
        else:
            environment["STEPFUSE_PLUGIN_DIR"] = str(BUILD / "lib/stepfuse")
            environment["VIRTUAL_ENV"] = os.environ.get("VIRTUAL_ENV", "")
        environment["TARGETS"] = TARGETS
        words = self.path(script).split()
        if self.user != "root" and IS_ROOT:
            words = NOBODY + words
        result = subprocess.run(words, env=environment, text=True, capture_output=True)
        if result.returncode != 0:
            raise AssertionError(f"{script} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
        return result.stdout


def can_compile_for_gpus() -> bool:
    probe = [BUILD / "bin/stepfuse", "inspect", "--recipe", "sgd", "--stage", "ptx", "--target", "sm_90"]
    return subprocess.run(probe, capture_output=True).returncode == 0


TARGETS = "sm_90,x86-64-v3" if can_compile_for_gpus() else "x86-64-v3"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's, with continued lines joined."""
    lines = (SOURCE / "examples/aot_container/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    words = (line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#"))
    return [(name, " ".join(rest.split())) for name, rest in words]


def build(image: Image) -> list[str]:
    """Runs every script of ours; apt, cmake and pip are not this test's to judge. Returns what they said."""
    outputs = []
    stages = sum(name == "FROM" for name, _ in instructions())
    stage = 0
    for name, rest in instructions():
        last = stage == stages
        if name == "FROM":
            stage += 1
            image.user, image.variables = "root", {}
        elif name == "USER":
            image.user = rest
        elif name == "ENV":
            image.variables |= dict(word.split("=", 1) for word in rest.split())
        elif name == "COPY" and last:
            words = rest.split()
            context = not words[0].startswith("--from")
            image.copy(words[-2], words[-1], context)
        elif name == "RUN" and re.match(r"/\S+\.sh ", rest):
            outputs.append(image.run(rest, last))
    return outputs


class AotContainer(unittest.TestCase):
    def setUp(self):
        # Below a folder whose parents nobody else can exchange, as an image's are.
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.image = Image(Path(self.folder.name))

    def test_steps_of_the_dockerfile(self):
        outputs = build(self.image)
        self.assertEqual(len(outputs), 3)
        self.assertIn("holds all", outputs[0])
        self.assertIn("holds all", outputs[2])
        bundle = self.image.root / "usr/share/stepfuse/bundles/kernels.sfb"
        self.assertEqual(stat.S_IMODE(bundle.stat().st_mode), 0o444)
        self.assertEqual(stat.S_IMODE(bundle.parent.stat().st_mode), 0o555)
        self.assertEqual(self.image.user, "nobody")
        if IS_ROOT:
            self.assertEqual(bundle.stat().st_uid, 0)

    @unittest.skipUnless(IS_ROOT, "only root can become another user")
    def test_a_missing_shape_fails_the_image_by_name(self):
        build(self.image)
        manifest = self.image.root / "aot/manifests/gpt2-124m.toml"
        manifest.write_text(manifest.read_text().replace("[1024, 768]", "[2048, 768]"))
        with self.assertRaises(AssertionError) as failure:
            self.image.run("/aot/aot_container/check_kernels.sh /usr/share/stepfuse/bundles/kernels.sfb", True)
        said = str(failure.exception)
        self.assertIn("2048x768 (wpe.weight)", said)
        missing = [line for line in said.splitlines() if "no entry has its key" in line]
        self.assertEqual(len(missing), len(TARGETS.split(",")), said)

    @unittest.skipUnless(IS_ROOT, "only root can become another user")
    def test_a_bundle_that_others_can_write_is_not_used(self):
        build(self.image)
        bundle = self.image.root / "usr/share/stepfuse/bundles/kernels.sfb"
        bundle.chmod(0o464)
        with self.assertRaises(AssertionError) as failure:
            self.image.run("/aot/aot_container/check_kernels.sh /usr/share/stepfuse/bundles/kernels.sfb", True)
        self.assertIn("is writable by others", str(failure.exception))


if __name__ == "__main__":
    unittest.main()
