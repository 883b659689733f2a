#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of tests/golden/data by running the real peers: torch.optim on a CPU, and NumPy in f64 where
torch has no counterpart (Newton-Schulz in f32). Run it through scripts/make-goldens; README.md describes the files."""

import argparse
import json
import os
import pathlib
import struct
import zlib

# Before torch is imported: MKL's AVX-512 square root is not correctly rounded, and torch's fallback kernels (no AVX2)
# do not use fma. With these two, torch's loop form computes the same bits on every x86-64 machine with AVX2.
PINNED_ENVIRONMENT = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
os.environ.update(PINNED_ENVIRONMENT)

import numpy as np
import torch

import exact
from newton_schulz import muon_f64

TORCH_VERSION = "2.15.0"
PEERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "muon": torch.optim.Muon}

# ---- the cases ------------------------------------------------------------------------------------------------------

SMALL = {"block.weight": (17, 33), "block.bias": (7,), "scale": (1,), "zero_dim": (), "empty": (0,)}
TAILS = {f"tail.{n}": (n,) for n in range(1, 41)}
CHUNKS = {"head.weight": (97, 129)}  # more than 4096 elements, not a multiple of any vector
GAUSS = {"wide": (32, 40), "tall": (40, 32)}
GAUSS_ALL = {"wide": (32, 96), "tall": (96, 32), "square": (64, 64), "odd": (33, 65)}


def case(name, recipe, shapes=None, steps=1, dtype="f32", gradients="one", given=None, **options):
    """`options` in the spelling of the command line. `given`: {name: (before, grad)} in place of random values."""
    return {
        "name": name,
        "recipe": recipe,
        "shapes": shapes if shapes is not None else SMALL,
        "steps": steps,
        "dtype": dtype,
        "gradients": gradients,
        "given": given,
        "options": options,
    }


def adam_cases():
    for recipe in ("adamw", "adam"):
        yield case(f"{recipe}_defaults", recipe)
        yield case(f"{recipe}_defaults_3_steps", recipe, steps=3)
        yield case(f"{recipe}_amsgrad", recipe, steps=3, gradients="per_step", amsgrad="true")
        yield case(f"{recipe}_maximize", recipe, maximize="true", lr="0.01")
        yield case(f"{recipe}_weight_decay", recipe, steps=3, weight_decay="0.1", lr="0.01")
        yield case(f"{recipe}_low_betas", recipe, steps=3, gradients="per_step", betas="0.3,0.6")
    yield case("adamw_10_steps", "adamw", steps=10, betas="0.9,0.95", lr="0.003")
    yield case("adamw_no_decay", "adamw", steps=3, weight_decay="0", eps="1e-6")
    yield case("adamw_every_tail", "adamw", TAILS, steps=3, gradients="per_step", betas="0.9,0.95", weight_decay="0.1")
    yield case("adamw_chunks", "adamw", CHUNKS, steps=3)
    yield case("adam_everything", "adam", steps=3, lr="0.01", weight_decay="0.1", amsgrad="true", maximize="true")
    yield case("adamw_bf16", "adamw", steps=1, dtype="bf16", lr="0.01")
    yield case("adamw_bf16_10_steps", "adamw", steps=10, dtype="bf16", lr="0.01", betas="0.9,0.95")
    yield case("adamw_bf16_amsgrad", "adamw", steps=3, dtype="bf16", gradients="per_step", lr="0.01", amsgrad="true")
    yield case("adam_bf16_weight_decay", "adam", steps=3, dtype="bf16", lr="0.01", weight_decay="0.1")


def sgd_cases():
    yield case("sgd_plain", "sgd", lr="0.1")
    yield case("sgd_plain_3_steps", "sgd", steps=3, lr="0.1")
    yield case("sgd_weight_decay", "sgd", steps=3, lr="0.1", weight_decay="0.01")
    yield case("sgd_momentum_first_step", "sgd", lr="0.1", momentum="0.9", dampening="0.5")
    yield case("sgd_momentum", "sgd", steps=3, lr="0.1", momentum="0.9")
    yield case("sgd_dampening", "sgd", steps=3, gradients="per_step", lr="0.1", momentum="0.9", dampening="0.5")
    yield case("sgd_nesterov_first_step", "sgd", lr="0.1", momentum="0.9", nesterov="true")
    yield case("sgd_nesterov", "sgd", steps=3, gradients="per_step", lr="0.1", momentum="0.9", nesterov="true")
    yield case("sgd_everything", "sgd", TAILS, steps=3, gradients="per_step", lr="0.1", momentum="0.9",
               nesterov="true", weight_decay="0.1", maximize="true")
    yield case("sgd_bf16", "sgd", steps=3, dtype="bf16", lr="0.1", momentum="0.9")


def muon_option_sets():
    yield "nesterov_off", 3, {"nesterov": "false"}
    yield "no_decay", 1, {"weight_decay": "0"}
    yield "1_iteration", 1, {"ns_steps": "1"}
    yield "6_iterations", 1, {"ns_steps": "6"}
    yield "7_iterations", 1, {"ns_steps": "7"}
    yield "torch_test_inputs", 3, {"lr": "0.01", "weight_decay": "0.2", "momentum": "0.8", "ns_steps": "6",
                                   "ns_coefficients": "3.4,-4.7,2.0"}
    yield "convergent", 1, {"ns_steps": "12", "ns_coefficients": "2,-1.5,0.5"}
    yield "match_rms_adamw", 1, {"adjust_lr_fn": "match_rms_adamw"}
    yield "spectral_unclamped", 1, {"adjust_lr_fn": "spectral_unclamped"}
    yield "original", 1, {"adjust_lr_fn": "original"}
    yield "large_eps", 1, {"eps": "100"}  # above the norm: the clamp decides


def muon_cases():
    for suffix, extra in (("", {}), ("_f32", {"ns_dtype": "f32"})):
        base = {"lr": "0.02"} | extra
        yield case(f"muon{suffix}_defaults", "muon", GAUSS_ALL, **extra)
        yield case(f"muon{suffix}_3_steps", "muon", GAUSS, steps=3, gradients="per_step", **base)
        for name, steps, options in muon_option_sets():
            yield case(f"muon{suffix}_{name}", "muon", GAUSS, steps=steps, **(base | options))
    yield case("muon_bf16_nesterov_off", "muon", GAUSS, steps=3, dtype="bf16", gradients="per_step", lr="0.02",
               nesterov="false")


def exact_inputs():
    """Small matrices whose answers are known in closed form; `raw` makes the update see the gradient itself."""
    raw = {"momentum": "0", "nesterov": "false", "weight_decay": "0", "ns_dtype": "f32"}
    diag = np.diag([3.0, 4.0])
    pad = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    rank1 = np.outer([0.6, 0.8], [0.8, 0.6])  # norm 1
    yield case("a01_diagonal", "muon", given={"w": (np.eye(2), diag)}, lr="0.1", weight_decay="0", ns_dtype="f32")
    for name, norm in (("a05_norm_at_eps", 1e-7), ("a05_norm_tenth_of_eps", 1e-8)):
        yield case(name, "muon", given={"w": (0 * rank1, norm * rank1), "one": ([[0]], [[norm]])}, lr="1", **raw)
    yield case("a08_tall_and_wide", "muon", given={"tall": (0 * pad, pad), "wide": (0 * pad.T, pad.T)}, lr="1",
               adjust_lr_fn="match_rms_adamw", **raw)
    for adjust in ("original", "match_rms_adamw", "spectral_unclamped"):
        yield case(f"a12_{adjust}", "muon", {"tall": (8, 2), "wide": (2, 8)}, lr="1", adjust_lr_fn=adjust, **raw)
    for adjust in ("original", "match_rms_adamw"):
        yield case(f"a13_{adjust}", "muon", given={"w": (np.eye(2), np.eye(2))}, lr="0.1", weight_decay="0.1",
                   adjust_lr_fn=adjust, ns_dtype="f32")
    yield case("a18_convergent", "muon", given={"w": (np.zeros((2, 2)), diag)}, lr="1", ns_steps="12",
               ns_coefficients="2,-1.5,0.5", **raw)


# What reference cases A01, A05, A08, A13 and A18 state, as (case, parameter, row, column, value, absolute tolerance).
KNOWN_ANSWERS = [
    ("a01_diagonal", "w", 0, 0, 0.9277124, 1e-6),
    ("a01_diagonal", "w", 1, 1, 0.8880796, 1e-6),
    ("a05_norm_at_eps", "one", 0, 0, -0.696436, 1e-5),
    ("a05_norm_tenth_of_eps", "one", 0, 0, -0.712120, 1e-5),
    ("a08_tall_and_wide", "tall", 1, 1, -1.119204 * 0.2 * 3**0.5, 1e-6),
    ("a08_tall_and_wide", "wide", 0, 0, -0.722876 * 0.2 * 3**0.5, 1e-6),
    ("a13_original", "w", 0, 0, 0.8791889, 1e-6),
    ("a13_match_rms_adamw", "w", 1, 1, 0.9586579, 1e-6),
    ("a18_convergent", "w", 0, 0, -1.0, 1e-3),
]

# ---- inputs ---------------------------------------------------------------------------------------------------------


def to_storage(values, dtype):
    values = np.asarray(values, np.float32)
    return exact.round_to_bf16(values) if dtype == "bf16" else values


def random_gradient(rng, shape, recipe):
    grad = rng.standard_normal(shape)
    if recipe == "muon":
        return grad
    # Several decades and some exact zeros: moments must cope with both.
    grad = grad * 10.0 ** rng.uniform(-4, 1, shape)
    return np.where(rng.random(shape) < 0.02, 0.0, grad)


def make_inputs(spec):
    """Returns {name: before} and a list of {name: gradient}, one per distinct gradient."""
    if spec["given"]:
        before = {n: to_storage(p, spec["dtype"]) for n, (p, _) in spec["given"].items()}
        return before, [{n: to_storage(g, spec["dtype"]) for n, (_, g) in spec["given"].items()}]
    rng = np.random.default_rng(zlib.crc32(spec["name"].encode()))
    before = {n: to_storage(0.1 * rng.standard_normal(s), spec["dtype"]) for n, s in spec["shapes"].items()}
    count = spec["steps"] if spec["gradients"] == "per_step" else 1
    grads = [
        {n: to_storage(random_gradient(rng, s, spec["recipe"]), spec["dtype"]) for n, s in spec["shapes"].items()}
        for _ in range(count)
    ]
    return before, grads


def gradients_by_step(spec, grads, name):
    return [grads[k if len(grads) > 1 else 0][name] for k in range(spec["steps"])]


# ---- the peers ------------------------------------------------------------------------------------------------------


def parse_option(key, text):
    if key == "ns_steps":
        return int(text)
    if key == "adjust_lr_fn":
        return text
    if text in ("true", "false"):
        return text == "true"
    return tuple(float(x) for x in text.split(",")) if "," in text else float(text)


def parsed_options(spec):
    return {k: parse_option(k, v) for k, v in spec["options"].items() if k != "ns_dtype"}


def run_torch(spec, before, grads):
    """Returns {name: after}, {name: {state key: value}} and the options the peer ended up with."""
    kind = torch.bfloat16 if spec["dtype"] == "bf16" else torch.float32
    params = {n: torch.nn.Parameter(torch.from_numpy(p.copy()).to(kind)) for n, p in before.items()}
    loop = {} if spec["recipe"] == "muon" else {"foreach": False, "fused": False}
    optimizer = PEERS[spec["recipe"]](list(params.values()), **parsed_options(spec), **loop)
    for step in range(spec["steps"]):
        for name, param in params.items():
            param.grad = torch.from_numpy(gradients_by_step(spec, grads, name)[step].copy()).to(kind)
        optimizer.step()
    after = {n: p.detach().float().numpy() for n, p in params.items()}
    states = {n: {k: v.float().numpy() for k, v in optimizer.state[p].items()} for n, p in params.items()}
    return after, states, optimizer.param_groups[0]


def run_f64(spec, before, grads):
    defaults = PEERS["muon"]([torch.nn.Parameter(torch.zeros(1, 1))]).param_groups[0]
    options = {k: v for k, v in defaults.items() if k != "params"} | parsed_options(spec)
    results = {n: muon_f64(p, gradients_by_step(spec, grads, n), **options) for n, p in before.items()}
    after = {n: r[0].astype(np.float32) for n, r in results.items()}
    states = {n: {"momentum_buffer": r[1].astype(np.float32)} for n, r in results.items()}
    return after, states, options


# ---- claims of bit-equality -----------------------------------------------------------------------------------------


def emulate(spec, param, grads, options):
    ops = exact.Ops(spec["dtype"])
    take = lambda *keys: {k: options[k] for k in keys}
    if spec["recipe"] == "sgd":
        keys = take("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")
        return exact.sgd(ops, param, grads, **keys)
    if spec["recipe"] == "muon":
        return None, exact.muon_buffer(ops, grads, options["momentum"])
    keys = take("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize")
    return exact.adam(ops, param, grads, spec["recipe"] == "adamw", **keys)


def same_bits(a, b):
    return a is not None and np.array_equal(np.asarray(a).view(np.int32), np.asarray(b).view(np.int32))


def bit_claims(spec, before, grads, after, states, options):
    """Whether our definitions give the peer's parameters, and its states, bit for bit."""
    params_equal = states_equal = True
    for name, param in before.items():
        ours, our_states = emulate(spec, param, gradients_by_step(spec, grads, name), options)
        params_equal &= same_bits(ours, after[name])
        states_equal &= all(same_bits(v, states[name][k]) for k, v in our_states.items())
    return params_equal, states_equal


# ---- files ----------------------------------------------------------------------------------------------------------


def payload(values, dtype):
    values = np.ascontiguousarray(values, np.float32)
    if dtype == "BF16":
        return (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    return values.astype("<f4").tobytes()


def write_safetensors(path, tensors, metadata):
    """tensors: list of (name, dtype, values). Written by hand so that the bytes depend on nothing but the content."""
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, values in tensors:
        raw = payload(values, dtype)
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(np.shape(values)), "data_offsets": offsets}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensor_list(spec, before, grads, after, states):
    dtype = spec["dtype"].upper()
    tensors = [(f"before.{n}", dtype, p) for n, p in before.items()]
    for k, by_name in enumerate(grads, start=1):
        prefix = f"grad.{k}" if spec["gradients"] == "per_step" else "grad"
        tensors += [(f"{prefix}.{n}", dtype, g) for n, g in by_name.items()]
    tensors += [(f"after.{n}", dtype, p) for n, p in after.items()]
    for name, by_key in states.items():
        tensors += [(f"state.{name}.{k}", "F32" if k == "step" else dtype, v) for k, v in by_key.items()]
    return tensors


def tolerance_class(spec):
    if spec["recipe"] == "muon":
        return "ns_f32" if spec["options"].get("ns_dtype") == "f32" else "ns_bf16"
    return f"elementwise_{spec['dtype']}"


def check_known_answers(name, after):
    for _, param, row, column, value, tolerance in (a for a in KNOWN_ANSWERS if a[0] == name):
        found = float(after[param][row, column])
        assert abs(found - value) <= tolerance, f"{name}: {param}[{row},{column}] is {found}, not {value}"


def generate(spec, folder):
    before, grads = make_inputs(spec)
    in_f64 = tolerance_class(spec) == "ns_f32"
    after, states, options = (run_f64 if in_f64 else run_torch)(spec, before, grads)
    check_known_answers(spec["name"], after)
    equal = (False, False) if in_f64 else bit_claims(spec, before, grads, after, states, options)
    peer = "numpy f64" if in_f64 else f"torch.optim.{PEERS[spec['recipe']].__name__} {TORCH_VERSION}"
    seed = "none" if spec["given"] else str(zlib.crc32(spec["name"].encode()))
    metadata = {"peer": peer, "torch": torch.__version__.split("+")[0], "numpy": np.__version__, "seed": seed,
                "generator": "tests/golden/generate.py"}
    write_safetensors(folder / f"{spec['name']}.safetensors", tensor_list(spec, before, grads, after, states), metadata)
    return {
        "name": spec["name"], "recipe": spec["recipe"], "options": spec["options"], "steps": spec["steps"],
        "dtype": spec["dtype"], "gradients": spec["gradients"], "peer": peer, "tolerance": tolerance_class(spec),
        "bit_equal": bool(equal[0]), "bit_equal_states": bool(equal[1]), "file": f"{spec['name']}.safetensors",
    }


def require_claims(cases):
    """Elementwise f32 is where we promise torch's bits; a peer or definition that breaks the promise must not pass."""
    for entry in cases:
        promised = entry["tolerance"] == "elementwise_f32"
        assert entry["bit_equal"] or not promised, f"{entry['name']}: our definitions do not give the peer's bits"
    assert all(e["bit_equal_states"] for e in cases if e["recipe"] == "muon" and e["tolerance"] == "ns_bf16")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "data")
    folder = parser.parse_args().out
    assert torch.__version__.split("+")[0] == TORCH_VERSION, f"torch {TORCH_VERSION} is wanted, not {torch.__version__}"
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    specs = [*adam_cases(), *sgd_cases(), *muon_cases(), *exact_inputs()]
    cases = [generate(spec, folder) for spec in specs]
    require_claims(cases)
    manifest = {"version": 1, "torch": TORCH_VERSION, "numpy": np.__version__, "environment": PINNED_ENVIRONMENT,
                "cases": cases}
    (folder / "cases.json").write_text(json.dumps(manifest, indent=1) + "\n")
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{len(cases)} cases, {size / 1e6:.2f} MB in {folder}")


if __name__ == "__main__":
    main()
