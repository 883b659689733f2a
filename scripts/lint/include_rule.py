# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""include_rule.py [ROOT]: who may include what. Prints each violation as FILE:LINE: message, exits 1 if there is one.

Arrows point one way: ir <- compiler <- codegen <- runtime <- tools. LLVM headers stay under */cpu/, CUDA headers under
*/cuda/, and the two never meet. The runtime and the command reach a backend through runtime/cpu_backend.h and
runtime/cuda_backend.h, because a build may lack it; so do all tests but those of CUDA. Public headers stand alone; examples see nothing of ours but the public headers. And no file of the compiler
knows a recipe by its name.
"""
import re
import sys
from pathlib import Path

from common import CPP_SUFFIXES, run_rule, source_files

LAYERS = ["ir", "compiler", "codegen", "runtime", "tools"]
ANY_LAYER = {"tests", "bench"}
PUBLIC = "stepfuse"  # include/stepfuse, included as stepfuse/...

# What a build without the CPU backend holds all the same: it needs no library (see runtime/CMakeLists.txt).
CPU_ALWAYS = {f"runtime/cpu/{name}.h" for name in ("compiler_identity", "cpu_features", "cpu_kernels", "jit", "object_loader")}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LLVM_HEADER = re.compile(r"^(llvm|llvm-c|clang)/")
CUDA_HEADER = re.compile(r"^(cuda|nvrtc|nvJitLink|cublas|cusolver|curand|nvml|nccl)[A-Za-z0-9_]*\.h|^(cuda|cub|thrust|cutlass|cute)/")
C_HEADERS = {"stddef.h", "stdint.h", "stdbool.h"}
RECIPE_NAME = re.compile(r"adam|muon|sgd|soap|(?<!il)lion", re.IGNORECASE)  # but "million" is no recipe


def check(root: Path) -> list[str]:
    problems = []
    for path in source_files(root, CPP_SUFFIXES):
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            problems += [f"{path}:{number}: {message}" for message in line_problems(path, line)]
    return problems


def line_problems(path: Path, line: str) -> list[str]:
    problems = []
    if path.parts[0] == "compiler" and (name := RECIPE_NAME.search(line)):
        problems.append(f'the compiler names the recipe "{name.group()}"; decide by the structure of the graph')
    if include := INCLUDE.match(line):
        problems += include_problems(path, quoted=include.group(1) == '"', header=include.group(2))
    return problems


def include_problems(path: Path, quoted: bool, header: str) -> list[str]:
    problems = []
    if LLVM_HEADER.match(header) and "cpu" not in path.parts[:-1]:
        problems.append(f"<{header}>: LLVM headers are included only under */cpu/")
    if CUDA_HEADER.match(header) and "cuda" not in path.parts[:-1] and path.suffix != ".cu":
        problems.append(f"<{header}>: CUDA headers are included only under */cuda/ and in *.cu")
    if backends_meet(path, header):
        problems.append(f"{header}: the cpu and cuda folders never include each other")
    if backend := passes_by_the_seam(path, header):
        problems.append(f"{header}: a build may lack the {backend.upper()} backend; reach it through runtime/{backend}_backend.h")
    if message := arrow_problem(path, header):
        problems.append(f"{header}: {message}")
    own_file_of_example = path.parts[0] == "examples" and "/" not in header
    if quoted and not own_file_of_example and not project_relative(header):
        problems.append(f'"{header}": write the path from the top of the repository')
    return problems


def project_relative(header: str) -> bool:
    return header.split("/")[0] in {*LAYERS, *ANY_LAYER, PUBLIC, "examples"} and "/" in header and "/../" not in header


def backends_meet(path: Path, header: str) -> bool:
    folders, target = set(path.parts[:-1]), set(header.split("/")[:-1])
    if path.parts[0] in ANY_LAYER or header.split("/")[0] not in LAYERS:
        return False
    return ("cpu" in folders and "cuda" in target) or ("cuda" in folders and "cpu" in target)


def passes_by_the_seam(path: Path, header: str) -> str:
    """The backend that is reached past its seam, or ''."""
    folders = path.parts[:-1]
    if path.parts[0] == "tests":
        return "cuda" if is_part_of("cuda", header) and not {"cuda", "gpu", "vgpu"} & set(folders) else ""
    if path.parts[0] not in LAYERS or {"cpu", "cuda"} & set(folders):
        return ""
    return next((b for b in ("cpu", "cuda") if is_part_of(b, header) and header not in CPU_ALWAYS), "")


def is_part_of(backend: str, header: str) -> bool:
    return header.startswith((f"runtime/{backend}/", f"codegen/{backend}/"))


def arrow_problem(path: Path, header: str) -> str:
    here, target = path.parts[0], header.split("/")[0]
    if here == "include":
        alone = target == PUBLIC or header in C_HEADERS or re.fullmatch(r"[a-z_]+", header)
        return "" if alone else "a public header includes only the standard library and other public headers"
    if here == "examples":
        return f"an example sees nothing of ours but <{PUBLIC}/...>" if target in {*LAYERS, *ANY_LAYER} else ""
    if here not in LAYERS:
        return ""
    if target == PUBLIC:
        return "" if here in {"runtime", "tools"} else f"{here}/ lies below the public headers"
    if target in ANY_LAYER or target == "examples":
        return f"{here}/ must not depend on {target}/"
    if target in LAYERS and LAYERS.index(target) > LAYERS.index(here):
        return f"{here}/ must not include {target}/ (arrows: {' <- '.join(LAYERS)})"
    return ""


if __name__ == "__main__":
    sys.exit(run_rule(check))
