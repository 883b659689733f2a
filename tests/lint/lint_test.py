# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""The lint scripts find what they should, in small trees made for it, and nothing else."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lint"))
import include_rule  # noqa: E402
import sizes  # noqa: E402


def problems(rule, files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return rule.check(Path(folder))


class IncludeRule(unittest.TestCase):
    def test_refuses(self):
        cases = [
            ("ir/graph.cpp", '#include "compiler/pass.h"', "ir/ must not include compiler/"),
            ("compiler/pass.cpp", '  #  include "runtime/executor.h"', "compiler/ must not include runtime/"),
            ("codegen/writer.h", "#include <runtime/executor.h>", "codegen/ must not include runtime/"),
            ("runtime/executor.cpp", '#include "tools/run.h"', "runtime/ must not include tools/"),
            ("ir/type.h", "#include <stepfuse/stepfuse.hpp>", "below the public headers"),
            ("runtime/executor.cpp", '#include "tests/unit/util.h"', "must not depend on tests/"),
            ("runtime/executor.cpp", "#include <llvm/IR/Module.h>", "only under */cpu/"),
            ("tests/unit/cpu_test.cpp", "#include <llvm-c/Core.h>", "only under */cpu/"),
            ("runtime/cpu/pool.cpp", "#include <cuda.h>", "only under */cuda/"),
            ("codegen/emit.cpp", "#include <cublasLt.h>", "only under */cuda/"),
            ("codegen/cpu/emit.cpp", '#include "codegen/cuda/emit.h"', "never include each other"),
            ("runtime/cuda/driver.cpp", '#include "runtime/cpu/gemm.h"', "never include each other"),
            ("runtime/optimizer.cpp", '#include "runtime/cpu/gemm.h"', "through runtime/cpu_backend.h"),
            ("tools/cmd_explain.cpp", '#include "runtime/cpu/gemm.h"', "through runtime/cpu_backend.h"),
            ("runtime/optimizer.cpp", '#include "runtime/cuda/nvrtc.h"', "CUDA backend; reach it through runtime/cuda_backend.h"),
            ("tools/cmd_inspect.cpp", '#include "codegen/cuda/emit_cuda.h"', "through runtime/cuda_backend.h"),
            ("tests/unit/emit_test.cpp", '#include "codegen/cuda/emit_cuda.h"', "through runtime/cuda_backend.h"),
            ("examples/charlm/main.cpp", '#include "runtime/executor.h"', "an example sees nothing of ours"),
            ("include/stepfuse/stepfuse.hpp", "#include <fmt/format.h>", "a public header includes only"),
            ("include/stepfuse/stepfuse.hpp", '#include "ir/type.h"', "a public header includes only"),
            ("ir/graph.cpp", '#include "graph.h"', "from the top of the repository"),
            ("ir/graph.cpp", '#include "../ir/graph.h"', "from the top of the repository"),
            ("compiler/passes/fuse.cpp", 'if (graph.name == "Muon") {', 'names the recipe "Muon"'),
            ("compiler/explain.cpp", "// as AdamW does", 'names the recipe "Adam"'),
            ("compiler/plan.h", "bool is_lion;", 'names the recipe "lion"'),
        ]
        for name, line, message in cases:
            with self.subTest(name=name, line=line):
                found = problems(include_rule, {name: f"// first line\n{line}\n"})
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith(f"{name}:2: "), found[0])
                self.assertIn(message, found[0])

    def test_accepts(self):
        cases = [
            ("tools/main.cpp", '#include "ir/graph.h"\n#include "runtime/executor.h"\n#include <CLI/CLI.hpp>'),
            ("runtime/api/api.cpp", '#include "stepfuse/stepfuse.hpp"'),
            ("runtime/kernel_cache.h", '#include "runtime/cpu/jit.h"'),
            ("runtime/cpu/gemm.cpp", '#include "runtime/cpu/gemm.h"'),
            ("runtime/cpu/plugin.cpp", "#include <llvm/IR/Module.h>"),
            ("runtime/cuda/driver.cpp", "#include <cuda.h>"),
            ("runtime/cuda/nvrtc.cpp", '#include "runtime/cuda/api/nvrtc.h"\n#include "codegen/cuda/emit_cuda.h"'),
            ("tests/cuda/nvrtc_test.cpp", '#include "runtime/cuda/nvrtc.h"'),
            ("tests/vgpu/driver/device.h", '#include "runtime/cuda/api/driver.h"'),
            ("tools/cmd_list.cpp", '#include "runtime/cuda_backend.h"'),
            ("tests/unit/gemm_test.cpp", '#include "runtime/cpu/gemm.h"\n#include "tests/unit/util.h"'),
            ("examples/charlm/main.cpp", '#include <stepfuse/stepfuse.hpp>\n#include "model.h"'),
            ("include/stepfuse/stepfuse.h", "#include <stdint.h>\n#include <vector>"),
            ("compiler/cost.cpp", "// a million, a billion elements"),
            ("ir/optimizers/muon.cpp", "// muon is named here"),
            ("build/release/generated/x.cpp", '#include "nowhere.h"'),
        ]
        for name, text in cases:
            with self.subTest(name=name):
                self.assertEqual(problems(include_rule, {name: text}), [])


def body(lines: int) -> str:
    return "  x();\n" * (lines - 2)


class Sizes(unittest.TestCase):
    def test_counts_functions(self):
        heads = [
            "int f(int a) {\n",
            "static Result<int> A::f(const char* s) const noexcept {\n",
            "A::A(int a) : a_(a) {\n",
            "bool operator==(A a, A b) {\n",
            "struct B f(int a) {\n",
            "TEST(Unit, Behaviour) {\n",
            "auto f(int a = 1) -> int {\n",
        ]
        for head in heads:
            with self.subTest(head=head):
                source = "namespace a {\n\nclass C;\n" + head + "{}" + "}\n}\n"
                source = source.replace("{}}", body(81) + "}")
                self.assertEqual(problems(sizes, {"ir/a.cpp": source}), ["ir/a.cpp:4: a function of 81 lines, more than 80"])
                source = source.replace("  x();\n", "", 1)
                self.assertEqual(problems(sizes, {"ir/a.cpp": source}), [])

    def test_counts_methods_in_classes(self):
        source = "class alignas(64) A {\n public:\n  int f() {\n" + body(90) + "  }\n};\n"
        self.assertEqual(problems(sizes, {"ir/a.h": source}), ["ir/a.h:3: a function of 90 lines, more than 80"])

    def test_is_not_misled(self):
        cases = {
            "a table": "const Row kRows[] = {\n" + '  {"a", f(1)},\n' * 90 + "};\n",
            "a class": "class alignas(64) A {\n" + "  void f();\n" * 90 + "};\n",
            "hidden braces": "int f() {\n  g('{', \"{\", R\"x({)x\"); // {\n  return 1'000;\n}\n#define X {\nint y;\n" + "int z();\n" * 90,
            "a namespace": 'namespace a::b {\nextern "C" {\n' + "int f();\n" * 90 + "}\n}\n",
        }
        for name, source in cases.items():
            with self.subTest(name=name):
                self.assertEqual(problems(sizes, {"ir/a.cpp": source}), [])

    def test_counts_files_and_python(self):
        self.assertEqual(problems(sizes, {"ir/a.h": "int f();\n" * 601}), ["ir/a.h:1: 601 lines, more than 600"])
        self.assertEqual(problems(sizes, {"ir/a.h": "int f();\n" * 600}), [])
        source = "x = 1\ndef f():\n" + "    y = 1\n" * 80
        self.assertEqual(problems(sizes, {"a.py": source}), ["a.py:2: a function of 81 lines, more than 80"])


if __name__ == "__main__":
    unittest.main()
