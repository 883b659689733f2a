# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""sizes.py [ROOT]: functions of at most 80 lines in files of at most 600. Prints each violation, exits 1 if there is one."""
import ast
import re
import sys
from pathlib import Path
from typing import Iterator

from common import CPP_SUFFIXES, run_rule, source_files

MAX_FUNCTION_LINES = 80
MAX_FILE_LINES = 600

# Whatever may hide a brace: comments, strings (raw ones first), characters (not the ' of 1'000), directives.
HIDDEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<delimiter>[^()\s]*)\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.DOTALL | re.MULTILINE,
)
CONTAINER = re.compile(r"^(?:template\s*<.*?>\s*)?(?:typedef\s+)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b", re.DOTALL)
ACCESS = re.compile(r"^\s*(?:(?:public|private|protected)\s*:\s*)+")
ASSIGNED = re.compile(r"(?<![=!<>])=(?!=)")


def check(root: Path) -> list[str]:
    problems = []
    for path in source_files(root, CPP_SUFFIXES | {".py"}):
        if "goldens" in path.parts:  # what a generator wrote
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MAX_FILE_LINES:
            problems.append(f"{path}:1: {lines} lines, more than {MAX_FILE_LINES}")
        functions = python_functions(text) if path.suffix == ".py" else cpp_functions(text)
        for first, last in functions:
            if last - first + 1 > MAX_FUNCTION_LINES:
                problems.append(f"{path}:{first}: a function of {last - first + 1} lines, more than {MAX_FUNCTION_LINES}")
    return problems


def python_functions(text: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def cpp_functions(text: str) -> Iterator[tuple[int, int]]:
    """First and last line of each outermost function body with its head, found by matching braces."""
    text = HIDDEN.sub(lambda hidden: re.sub(r"[^\n]", " ", hidden.group()), text)
    open_braces = []  # of each open brace: the offset of a function's head, or None for anything else
    head_start = 0
    for brace in re.finditer(r"[{};]", text):
        inside_function = any(start is not None for start in open_braces)
        if brace.group() == "{":
            head = text[head_start : brace.start()]
            head = ACCESS.sub("", head).lstrip()
            function = not inside_function and is_function_head(head.rstrip())
            open_braces.append(brace.start() - len(head) if function else None)
        elif brace.group() == "}" and open_braces:
            start = open_braces.pop()
            if start is not None:
                yield text.count("\n", 0, start) + 1, text.count("\n", 0, brace.end()) + 1
        head_start = brace.end()


def is_function_head(head: str) -> bool:
    if CONTAINER.match(head) and not re.search(r"\w\s*\([^()]*\)\s*(?:const|noexcept|\s)*$", head):
        return False
    parameters = head.find("(")
    if parameters < 0:
        return False
    assigned = ASSIGNED.search(head)
    return "operator" in head[: parameters + 1] or not assigned or assigned.start() > parameters


if __name__ == "__main__":
    sys.exit(run_rule(check))
