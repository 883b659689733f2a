# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""emerging-optimizers' MOP, PolarGrad and Scion: Muon with another orthogonaliser, scale or decay."""

import numpy as np
from emerging_optimizers.registry import get_optimizer_cls

import reference_f64 as reference
from golden_inputs import case, parsed_options
from peers import emerging_peer
from peers.emerging_peer import ALL_SHAPES, PAIR, TINY, momentum_options, orthogonaliser

peer, version, run = emerging_peer.peer, emerging_peer.version, emerging_peer.run
COMMON = dict(lr=3e-4, momentum=0.95, weight_decay=0.01, nesterov=False, weight_decay_method="decoupled",
              fp32_matmul_prec="highest", extra_scale_factor=1.0)
ITERATED = dict(coefficient_type="quintic", num_ns_steps=5)
DEFAULTS = {
    "mop": COMMON | dict(scale_mode="nuclear_norm"),
    "polargrad": COMMON | ITERATED,
    "scion": ITERATED | dict(lr=3e-4, momentum=0.95, fp32_matmul_prec="medium", spectral_radius=1.0),
}


def option_sets(recipe):
    if recipe != "scion":
        yield "nesterov", {"nesterov": "true"}
        yield "extra_scale_factor", {"extra_scale_factor": "0.2", "momentum": "0.8"}
        for method in emerging_peer.DECAY_METHODS:
            yield method, {"weight_decay": "0.1", "weight_decay_method": method}
    if recipe == "mop":
        for mode in emerging_peer.SCALE_MODES:
            yield f"scale_{mode}", {"scale_mode": mode}
        return
    yield "polar_express", {"coefficient_type": "polar_express", "num_ns_steps": "8"}
    yield "medium", {"fp32_matmul_prec": "medium"}
    yield "highest", {"fp32_matmul_prec": "highest"}
    if recipe == "scion":
        yield "spectral_radius", {"spectral_radius": "3", "fp32_matmul_prec": "highest"}


def cases():
    for recipe in DEFAULTS:
        base = {"recipe": recipe, "preset": "emerging"}
        yield case(f"emerging_{recipe}_defaults", shapes=ALL_SHAPES, **base)
        yield case(f"emerging_{recipe}_20_steps", shapes=TINY, steps=20, gradients="per_step", **base, lr="0.01")
        for name, options in option_sets(recipe):
            yield case(f"emerging_{recipe}_{name}", shapes=PAIR, steps=2, gradients="per_step", **base,
                       **({"lr": "0.1"} | options))
    yield from known_cases()


def known_cases():
    pair = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    raw = {"preset": "emerging", "lr": "0.5", "momentum": "0"}
    yield case("emerging_mop_known", "mop", given={"w": (0 * pair, pair)}, **raw)
    yield case("emerging_polargrad_no_steps", "polargrad", given={"w": (0 * pair, pair)}, num_ns_steps="0", **raw)
    yield case("emerging_scion_frank_wolfe", "scion", given={"w": (np.ones((3, 2)), 0 * pair)}, **raw)


# MOP: the polar factor times the nuclear norm 3 + 4. PolarGrad without an iteration: G / |G| times <G, G> / |G|, which
# is G. Scion: a step of lr takes the parameter to 1 - lr of itself.
KNOWN_ANSWERS = [
    ("emerging_mop_known", "w", (0, 0), -3.5, 1e-5),
    ("emerging_polargrad_no_steps", "w", (1, 1), -2.0, 1e-6),
    ("emerging_scion_frank_wolfe", "w", (2, 1), 0.5, 0.0),
]


def options_of(spec):
    return DEFAULTS[spec["recipe"]] | parsed_options(spec)


def mop(options):
    def orthogonalise(matrix):
        factor, singular = reference.polar_factor(matrix)
        mode = options["scale_mode"]
        scale = np.sum(singular) if mode == "nuclear_norm" else reference.scale(mode, matrix.shape)
        return options["extra_scale_factor"] * scale * factor

    return orthogonalise


def polargrad(options):
    iterate = orthogonaliser(options, 1.0)

    def orthogonalise(matrix):
        update = iterate(matrix)
        return options["extra_scale_factor"] * np.sum(update * matrix) * update

    return orthogonalise


def exact(spec, param, grads):
    options = options_of(spec)
    if spec["recipe"] == "scion":
        factor = options["spectral_radius"] * reference.scale("unit_rms_norm", param.shape)
        options["weight_decay"] = 1.0  # fixed there: a convex combination of the parameter and the update
        orthogonalise = orthogonaliser(options, factor)
    else:
        orthogonalise = {"mop": mop, "polargrad": polargrad}[spec["recipe"]](options)
    return reference.muon(param, grads, orthogonalise, **momentum_options(options))


def expected_states(spec, before, grads):
    return emerging_peer.expected_buffers(spec, before, grads, options_of(spec))


def tolerance(spec):
    if spec["recipe"] == "mop":
        return "svd_f32"
    return "ns_bf16" if options_of(spec)["fp32_matmul_prec"] == "medium" else "ns_f32"


def constructors():
    for recipe, defaults in DEFAULTS.items():
        yield "emerging-optimizers", emerging_peer.VERSION, recipe, get_optimizer_cls(recipe), defaults
