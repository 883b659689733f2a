# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""torch_ratios.py LIBRARY [--rounds N]: steps of torch's optimizers and ours, in turns in one process, on torch's own
tensors and stream. Prints one JSON object with every sample; exits 3, with the reason on stderr, where torch with CUDA
or the library cannot be used. gpu_check runs it and puts it into its report.
"""
import argparse
import contextlib
import ctypes
import gc
import json
import sys

CUDA = 2  # DLPack's number
ADAMW = {"lr": 1e-3, "weight_decay": 0.01}
MUON = {"lr": 0.02, "weight_decay": 0.1}


class Option(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", DType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


# Below, fields that stay zero are named only for the size that the library expects.
class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("settings", ctypes.POINTER(Option)),
                ("settings_count", ctypes.c_size_t), ("unused", ctypes.c_void_p * 6)]


class Parameter(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("ndim", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("dtype", DType), ("grad_dtype", DType),
                ("state_dtype", DType), ("strides", ctypes.c_void_p), ("grad_strides", ctypes.c_void_p),
                ("flags", ctypes.c_uint32), ("master_dtype", DType), ("state_layouts", ctypes.c_void_p),
                ("state_layouts_count", ctypes.c_size_t)]


class Binding(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("param", ctypes.POINTER(Tensor)), ("grad", ctypes.POINTER(Tensor)),
                ("states", ctypes.c_void_p), ("states_count", ctypes.c_size_t), ("master", ctypes.c_void_p)]


class StepArgs(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("scalars", ctypes.c_void_p), ("scalars_count", ctypes.c_size_t),
                ("stream", ctypes.c_void_p), ("device_scalars", ctypes.c_void_p * 4)]


class Library:
    """As much of stepfuse.h as these steps take."""

    def __init__(self, path: str):
        self.c = ctypes.CDLL(path)
        self.c.stepfuse_last_error.restype = ctypes.c_char_p

    def call(self, name: str, *arguments) -> None:
        if status := getattr(self.c, name)(*arguments):
            raise RuntimeError(f"{name}: status {status}: {self.c.stepfuse_last_error().decode()}")


def options(values: dict) -> ctypes.Array:
    return (Option * len(values))(*(Option(key.encode(), str(value).encode()) for key, value in values.items()))


class Ours:
    """An optimizer of ours over torch's parameters."""

    def __init__(self, library: Library, recipe: str, settings: dict, parameters: list, stream: int):
        self.library, self.parameters = library, parameters
        self.context, self.optimizer = ctypes.c_void_p(), ctypes.c_void_p()
        flags = options({"target": "cuda"})
        library.call("stepfuse_context_create",
                     ctypes.byref(ContextOptions(ctypes.sizeof(ContextOptions), flags, len(flags))),
                     ctypes.byref(self.context))
        library.call("stepfuse_optimizer_create", self.context, ctypes.byref(self.optimizer))
        group, values = ctypes.c_uint32(), options(settings)
        library.call("stepfuse_optimizer_add_group", self.optimizer, recipe.encode(), values,
                     ctypes.c_size_t(len(values)), ctypes.byref(group))
        ids = [self._add(group, index, parameter) for index, parameter in enumerate(parameters)]
        library.call("stepfuse_optimizer_prepare", self.optimizer, None)
        for index, parameter in zip(ids, parameters):
            self._bind(index, parameter)
        self.arguments = StepArgs(ctypes.sizeof(StepArgs), None, 0, stream)

    def _add(self, group, index: int, parameter):
        added = ctypes.c_uint32()
        shape = (ctypes.c_int64 * parameter.dim())(*parameter.shape)
        what = Parameter(ctypes.sizeof(Parameter), f"p{index}".encode(), parameter.dim(), shape, dtype_of(parameter))
        self.library.call("stepfuse_optimizer_add_parameter", self.optimizer, group, ctypes.byref(what),
                          ctypes.byref(added))
        return added

    def _bind(self, index, parameter) -> None:
        shape = (ctypes.c_int64 * parameter.dim())(*parameter.shape)
        tensors = [Tensor(t.data_ptr(), CUDA, t.device.index, t.dim(), dtype_of(t), shape, None, 0)
                   for t in (parameter, parameter.grad)]
        binding = Binding(ctypes.sizeof(Binding), ctypes.pointer(tensors[0]), ctypes.pointer(tensors[1]))
        self.library.call("stepfuse_optimizer_bind", self.optimizer, index, ctypes.byref(binding))

    def step(self) -> None:
        self.library.call("stepfuse_optimizer_step", self.optimizer, ctypes.byref(self.arguments))

    def close(self) -> None:
        self.library.call("stepfuse_optimizer_destroy", self.optimizer)
        self.library.call("stepfuse_context_destroy", self.context)


def dtype_of(tensor) -> DType:
    return DType(4, 16, 1) if "bfloat16" in str(tensor.dtype) else DType(2, 32, 1)


class Report:
    def __init__(self):
        self.lists = {"facts": [], "figures": [], "left_out": [], "targets": []}

    def fact(self, name: str, value) -> None:
        self.lists["facts"].append({"name": name, "value": value})

    def figure(self, name: str, unit: str, samples: list) -> None:
        self.lists["figures"].append({"name": name, "unit": unit, "samples": samples})

    def left_out(self, name: str, reason: str) -> None:
        self.lists["left_out"].append({"name": name, "reason": reason})

    def target(self, name: str, limit: float, samples: list) -> None:
        self.lists["targets"].append({"name": name, "limit": limit, "samples": samples})


class Comparison:
    """One set of shapes; torch's step and ours work on copies of the same parameters and gradients."""

    def __init__(self, torch, library: Library, report: Report, rounds: int):
        self.torch, self.library, self.report, self.rounds = torch, library, report, rounds
        self.stream = torch.cuda.Stream()

    def parameters(self, shapes: list, dtype) -> list:
        generator = self.torch.Generator(device="cuda").manual_seed(1)
        result = []
        for shape in shapes:
            values = self.torch.randn(shape, generator=generator, device="cuda", dtype=dtype)
            result.append(self.torch.nn.Parameter(values * 0.02))
            result[-1].grad = self.torch.randn(shape, generator=generator, device="cuda", dtype=dtype) * 1e-3
        return result

    def seconds(self, step) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(self.stream)
        step()
        end.record(self.stream)
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def run(self, name: str, shapes: list, dtype, recipe: str, settings: dict, peer, target: float | None) -> None:
        """Interleaved rounds of `peer(parameters)`'s step and ours; where the peer fails, why."""
        with self.torch.cuda.stream(self.stream):
            theirs = self.parameters(shapes, dtype)
            try:
                their_step = peer(theirs)
                for _ in range(3):
                    their_step()
            except Exception as error:  # whatever a version of torch lacks or cannot compile
                self.report.left_out(name, f"{type(error).__name__}: {error}".splitlines()[0])
                return
            ours = Ours(self.library, recipe, settings, self.parameters(shapes, dtype), self.stream.cuda_stream)
            for _ in range(3):
                ours.step()
            self.torch.cuda.synchronize()
            samples = [(self.seconds(their_step), self.seconds(ours.step)) for _ in range(self.rounds)]
            ours.close()
        ratios = [theirs / ours for theirs, ours in samples]
        self.report.figure(f"{name}, torch", "s", [theirs for theirs, _ in samples])
        self.report.figure(f"{name}, ours", "s", [ours for _, ours in samples])
        self.report.figure(f"{name}, torch time / ours", "ratio", ratios)
        if target is not None:
            self.report.target(f"{name}, torch time / ours", target, ratios)


def gpt2_matrices() -> list:
    return [shape for _ in range(12) for shape in ((768, 2304), (768, 768), (768, 3072), (3072, 768))]


def compare_all(torch, comparison: Comparison) -> None:
    def adamw(**how):
        return lambda parameters: torch.optim.AdamW(parameters, **ADAMW, **how).step

    def muon(parameters):
        return torch.optim.Muon(parameters, **MUON).step

    def compiled_muon(parameters):
        return torch.compile(torch.optim.Muon(parameters, **MUON).step)

    f32, bf16 = torch.float32, torch.bfloat16
    large = [(1 << 24,)] * 10
    cases = [
        ("AdamW, 10 x 16 Mi f32, fused", large, f32, "adamw", ADAMW, adamw(fused=True), 1.0),
        ("AdamW, 10 x 16 Mi f32, foreach", large, f32, "adamw", ADAMW, adamw(foreach=True), None),
        ("AdamW, 10 x 16 Mi bf16, fused", large, bf16, "adamw", ADAMW, adamw(fused=True), 1.3),
        ("AdamW, 1000 x 1024 f32, fused", [(1024,)] * 1000, f32, "adamw", ADAMW, adamw(fused=True), 50.0),
        ("AdamW, 10000 x 64 f32, fused", [(64,)] * 10000, f32, "adamw", ADAMW, adamw(fused=True), 200.0),
        ("Muon, GPT-2 small's 48 matrices, eager", gpt2_matrices(), f32, "muon", MUON, muon, 4.0),
        ("Muon, GPT-2 small's 48 matrices, torch.compile", gpt2_matrices(), f32, "muon", MUON, compiled_muon, None),
    ]
    for case in cases:
        comparison.run(*case)
        gc.collect()
        torch.cuda.empty_cache()


def unusable(reason: str) -> int:
    print(reason, file=sys.stderr)
    return 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=31)
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):  # what torch prints is not the report
        try:
            import torch
        except ImportError as error:
            return unusable(f"{sys.executable} cannot import torch: {error}")
        if not torch.cuda.is_available():
            return unusable(f"torch {torch.__version__} sees no CUDA device")
        try:
            library = Library(arguments.library)
        except OSError as error:
            return unusable(f"{sys.executable} cannot open {arguments.library}: {error}")
        report = Report()
        report.fact("torch", torch.__version__)
        report.fact("CUDA of torch", torch.version.cuda)
        compare_all(torch, Comparison(torch, library, report, arguments.rounds))
    print(json.dumps(report.lists))
    return 0


if __name__ == "__main__":
    sys.exit(main())
