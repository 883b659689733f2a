# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""What the lint scripts share: the files of a source tree, and how problems are reported."""
import subprocess
import sys
from pathlib import Path

CPP_SUFFIXES = {".cpp", ".h", ".hpp", ".def", ".cuh", ".cu"}
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", ".cache"}


def source_files(root: Path, suffixes: set[str]) -> list[Path]:
    """Tracked and new files with one of the suffixes, relative to root; outside of git, all files but build trees."""
    names = git_files(root)
    if names is None:
        paths = [p.relative_to(root) for p in root.rglob("*")]
        names = [p for p in paths if not SKIPPED_FOLDERS & set(p.parts)]
    return sorted(p for p in names if p.suffix in suffixes and (root / p).is_file())


def git_files(root: Path) -> list[Path] | None:
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [Path(name) for name in listing.decode().split("\0") if name]


def run_rule(check) -> int:
    """Runs check(root) on the tree named on the command line, by default ours, and prints each problem on a line."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0
