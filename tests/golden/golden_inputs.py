# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""What a case is, and the parameters and gradients it starts from."""

import zlib

import numpy as np

import exact

GAUSSIAN_RECIPES = {"muon", "adaptive_muon", "normuon", "soap", "mop", "scion", "polargrad"}

SMALL = {"block.weight": (17, 33), "block.bias": (7,), "scale": (1,), "zero_dim": (), "empty": (0,)}


def case(name, recipe, shapes=None, steps=1, dtype="f32", gradients="one", given=None, preset=None, **options):
    """`options` in the spelling of the command line. `given`: {name: (before, gradient)} in place of random values, a
    list of gradients if there is one per step."""
    return {
        "name": name,
        "recipe": recipe,
        "preset": preset,
        "shapes": shapes if shapes is not None else SMALL,
        "steps": steps,
        "dtype": dtype,
        "gradients": gradients,
        "given": given,
        "options": options,
    }


def seed(spec):
    """From the name, so that a new case leaves every other file as it is."""
    return zlib.crc32(spec["name"].encode())


def to_storage(values, dtype):
    values = np.asarray(values, np.float32)
    return exact.round_to_bf16(values) if dtype == "bf16" else values


def random_gradient(rng, shape, recipe):
    grad = rng.standard_normal(shape)
    if recipe in GAUSSIAN_RECIPES:
        return grad
    # Several decades and some exact zeros: moments must cope with both.
    grad = grad * 10.0 ** rng.uniform(-4, 1, shape)
    return np.where(rng.random(shape) < 0.02, 0.0, grad)


def make_inputs(spec):
    """Returns {name: before} and a list of {name: gradient}, one per distinct gradient."""
    if spec["given"]:
        before = {n: to_storage(p, spec["dtype"]) for n, (p, _) in spec["given"].items()}
        given = {n: g if spec["gradients"] == "per_step" else [g] for n, (_, g) in spec["given"].items()}
        count = len(next(iter(given.values())))
        return before, [{n: to_storage(g[k], spec["dtype"]) for n, g in given.items()} for k in range(count)]
    rng = np.random.default_rng(seed(spec))
    before = {n: to_storage(0.1 * rng.standard_normal(s), spec["dtype"]) for n, s in spec["shapes"].items()}
    count = spec["steps"] if spec["gradients"] == "per_step" else 1
    grads = [
        {n: to_storage(random_gradient(rng, s, spec["recipe"]), spec["dtype"]) for n, s in spec["shapes"].items()}
        for _ in range(count)
    ]
    return before, grads


def gradients_by_step(spec, grads, name):
    return [grads[k if len(grads) > 1 else 0][name] for k in range(spec["steps"])]


INTEGERS = {"ns_steps", "num_ns_steps", "power_iter_steps", "gram_newton_schulz_num_restarts",
            "gram_newton_schulz_restart_iterations"}
WORDS = {"true": True, "false": False, "none": None}


def parse_option(key, text):
    """A value as the command line spells it: true, false, none, a number, several with commas, or a word."""
    if text in WORDS:
        return WORDS[text]
    if "," in text:
        return tuple(parse_option(key, part) for part in text.split(","))
    try:
        return int(text) if key in INTEGERS else float(text)
    except ValueError:
        return text


def parsed_options(spec):
    return {key: parse_option(key, text) for key, text in spec["options"].items()}


def case_entry(spec, peer, tolerance, equal=(False, False)):
    """The entry of a case in an index."""
    preset = {} if spec["preset"] is None else {"preset": spec["preset"]}
    return {
        "name": spec["name"], "recipe": spec["recipe"], **preset, "options": spec["options"], "steps": spec["steps"],
        "dtype": spec["dtype"], "gradients": spec["gradients"], "peer": peer, "tolerance": tolerance,
        "bit_equal": bool(equal[0]), "bit_equal_states": bool(equal[1]), "file": f"{spec['name']}.safetensors",
    }
