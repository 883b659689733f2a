# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""two_llvms_test.py LIBRARY PLUGIN_FOLDER PYTHON: our library beside another LLVM in one process (cases F03 and F05).

Trainers always have a second LLVM: numba's, triton's, torch's. Each order runs in a process of its own: the other LLVM is
imported, ours compiles a kernel, both make code again. Python opens libraries with local symbols, as our users do.
PYTHON has llvmlite; scripts/test makes it. Exit code 77, "skipped", where there is none.
"""
import ctypes
import subprocess
import sys
import unittest
from pathlib import Path

SKIPPED = 77
LIBRARY, PLUGIN_FOLDER, PYTHON = sys.argv[1:4] if len(sys.argv) > 3 else ("", "", "")


def llvmlite_function() -> None:
    """Compiles `return 40 + 2` with the other LLVM and calls it."""
    import llvmlite
    import llvmlite.binding as llvm

    if tuple(int(part) for part in llvmlite.__version__.split(".")[:2]) < (0, 45):
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly("define i32 @answer() {\n  %x = add i32 40, 2\n  ret i32 %x\n}\n")
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(engine.get_function_address("answer"))() == 42


ORDERS = {
    "other_first": "other(); ours(); other(); ours()",
    "ours_first": "ours(); other(); ours(); other()",
}


class TwoLlvms(unittest.TestCase):
    def run_order(self, order: str) -> None:
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import c_interface, two_llvms_test\n"
            "ours = lambda: c_interface.sgd_step(sys.argv[2], cache='off', plugin_dir=sys.argv[3])\n"
            "other = two_llvms_test.llvmlite_function\n" + ORDERS[order]
        )
        command = [PYTHON, "-B", "-c", code, str(Path(__file__).parent), LIBRARY, PLUGIN_FOLDER]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_other_first(self):
        self.run_order("other_first")

    def test_ours_first(self):
        self.run_order("ours_first")


if __name__ == "__main__":
    if not Path(PYTHON).exists():
        print(f"there is no {PYTHON}; scripts/test makes it")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
