# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""What the package tests share. Each is run as: NAME_test.py SOURCE_FOLDER BUILD_FOLDER."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(sys.argv[1]).resolve()
BUILD = Path(sys.argv[2]).resolve()
del sys.argv[1:3]
SCRATCH = BUILD / "package"
PREFIX = SCRATCH / "moved" / "prefix"  # made by install_test.py
EXAMPLE = SOURCE / "examples" / "cmake_project"


def cached(name: str, build: Path = BUILD) -> str:
    """A value of a build's CMake cache, or ''."""
    match = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return match.group(1) if match else ""


LIBDIR = cached("CMAKE_INSTALL_LIBDIR")  # "lib", or as the build was told
LIBRARIES = PREFIX / LIBDIR


def run(*command, ok: bool = True, **variables) -> str:
    """Output of a command that must succeed (or, with ok=False, fail). It sees no setting of this test's own build."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STEPFUSE_")}
    environment |= {"STEPFUSE_CACHE": "off", "CCACHE_NOHASHDIR": "1"} | variables
    words = [str(word) for word in command]
    result = subprocess.run(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if (result.returncode == 0) != ok:
        raise AssertionError(f"{' '.join(words)}\nended with {result.returncode}:\n{result.stdout}")
    return result.stdout


def fresh_folder(name: str) -> Path:
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def configure(source: Path, build: Path, *options, ok: bool = True) -> str:
    """Configures with the compiler of the main build, and with its flags too if ccache then has the objects already."""
    common = ["-G", "Ninja", f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}"]
    if launcher := shutil.which("ccache"):
        build_type = cached("CMAKE_BUILD_TYPE")
        flags = f"CMAKE_CXX_FLAGS_{build_type.upper()}"
        common += [f"-DCMAKE_BUILD_TYPE={build_type}", f"-D{flags}={cached(flags)}"]
        common += [f"-DSTEPFUSE_WERROR={cached('STEPFUSE_WERROR')}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"]
    return run("cmake", "-S", source, "-B", build, "--no-warn-unused-cli", *common, *options, ok=ok)


def loaded_libraries(program: Path) -> str:
    """What the dynamic linker would open; a missing library is an error."""
    text = run("ldd", program)
    assert "not found" not in text, text
    return text
