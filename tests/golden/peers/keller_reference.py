# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Keller Jordan's Muon with its auxiliary Adam, which no registry has: transcribed in torch and checked against the
equations in f64. Both are in one class there; here they are the recipes muon and adam."""

import numpy as np

import exact as definitions
import reference_f64 as reference
from golden_inputs import case, gradients_by_step, parsed_options
from peers import transcription

PACKAGE = "keller"
VERSION = "2025-11"  # the month of the code that was transcribed
DEFAULTS = {
    "muon": dict(lr=0.02, weight_decay=0.0, momentum=0.95),
    "adam": dict(lr=3e-4, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0),
}
EPS = 1e-7
NS_STEPS = 5

ALL_SHAPES = {"square": (24, 24), "wide": (16, 48), "tall": (48, 16), "odd": (33, 65), "row": (1, 37),
              "column": (37, 1), "batch": (3, 12, 20)}
PAIR = {"wide": (12, 20), "tall": (20, 12)}
TINY = {"wide": (6, 10), "tall": (10, 6)}


def cases():
    muon = {"recipe": "muon", "preset": "keller"}
    yield case("keller_muon_defaults", shapes=ALL_SHAPES, **muon)
    yield case("keller_muon_3_steps", shapes=PAIR, steps=3, gradients="per_step", lr="0.1", **muon)
    yield case("keller_muon_20_steps", shapes=TINY, steps=20, gradients="per_step", lr="0.05", **muon)
    yield case("keller_muon_weight_decay", shapes=PAIR, steps=2, lr="0.1", weight_decay="0.5", momentum="0.8", **muon)
    yield case("keller_muon_bf16", shapes=PAIR, steps=3, dtype="bf16", gradients="per_step", lr="0.1", **muon)
    # A 4-D kernel whose last two dimensions are equal: published (their ratio) and flattened scale are both 1.
    yield case("keller_muon_conv", shapes={"conv": (12, 4, 3, 3)}, lr="0.1", **muon)
    # Reference case A09: 64 channels of 9 weights, flattened.
    yield case("keller_muon_flattened_depthwise", shapes={"conv": (64, 9)}, lr="0.1", **muon)
    for norm in ("1e-7", "1e-8"):
        yield case(f"keller_muon_norm_{norm}", given={"one": ([[0]], [[float(norm)]])}, lr="1", momentum="0", **muon)
    yield case("keller_muon_zero_gradient", given={"w": (np.eye(3), np.zeros((3, 3)))}, lr="0.1", weight_decay="0.5",
               **muon)
    adam = {"recipe": "adam", "preset": "keller"}
    yield case("keller_adam_defaults", **adam)
    yield case("keller_adam_20_steps", steps=20, gradients="per_step", lr="0.003", shapes={"w": (9, 5)}, **adam)
    yield case("keller_adam_weight_decay", steps=3, gradients="per_step", lr="0.01", betas="0.8,0.95", eps="1e-6",
               weight_decay="0.1", **adam)
    yield case("keller_adam_bf16", steps=3, gradients="per_step", dtype="bf16", lr="0.01", **adam)
    # Reference case A29: decay before the update, so 1 becomes 0.99 - 0.1 and not 0.99 * 0.9.
    yield case("keller_adam_decay_order", given={"p": ([1.0], [1.0])}, lr="0.1", weight_decay="0.1", **adam)


# The norm plus eps divides, so that 1e-7 enters as 1/2 and 1e-8 as 1/11: five iterations give 0.765439 and 0.691936,
# the former 0.07 from what a clamp would give. In bf16 they give 0.72 and 0.69.
KNOWN_EXACT = [
    ("keller_muon_norm_1e-7", "one", (0, 0), -0.765439, 1e-6),
    ("keller_muon_norm_1e-8", "one", (0, 0), -0.691936, 1e-6),
]
KNOWN_ANSWERS = [
    ("keller_muon_zero_gradient", "w", (1, 1), 0.95, 1e-7),
    ("keller_adam_decay_order", "p", (0,), 0.89, 1e-7),
]


def peer(spec):
    return "a transcription of Keller Jordan's Muon in torch"


def version(spec):
    return VERSION


def options_of(spec):
    return DEFAULTS[spec["recipe"]] | parsed_options(spec)


def run(spec, before, grads):
    options = options_of(spec)
    step = muon_step if spec["recipe"] == "muon" else adam_step
    return transcription.run(spec, before, grads, lambda param, grad, state: step(param, grad, state, **options))


def muon_step(param, grad, state, lr, weight_decay, momentum):
    buffer = state.setdefault("momentum_buffer", param.new_zeros(param.shape))
    buffer.lerp_(grad, 1 - momentum)
    update = grad.lerp(buffer, momentum)
    if update.ndim == 4:
        update = update.view(len(update), -1)
    update = transcription.newton_schulz_bf16(update, reference.SIMPLE * NS_STEPS, lambda norm: norm + EPS)
    update *= max(1, grad.size(-2) / grad.size(-1)) ** 0.5
    param.mul_(1 - lr * weight_decay)
    param.add_(update.reshape(param.shape), alpha=-lr)


def adam_step(param, grad, state, lr, betas, eps, weight_decay):
    state["step"] = state.get("step", 0) + 1
    m = state.setdefault("exp_avg", param.new_zeros(param.shape))
    v = state.setdefault("exp_avg_sq", param.new_zeros(param.shape))
    m.lerp_(grad, 1 - betas[0])
    v.lerp_(grad.square(), 1 - betas[1])
    corrected = [moment / (1 - beta ** state["step"]) for moment, beta in zip((m, v), betas)]
    param.mul_(1 - lr * weight_decay)
    param.add_(corrected[0] / (corrected[1].sqrt() + eps), alpha=-lr)


def exact(spec, param, grads):
    options = options_of(spec)
    if spec["recipe"] == "adam":
        direction = reference.adam(options["betas"], options["eps"])
        return reference.elementwise(param, grads, direction, lr=options["lr"], weight_decay=options["weight_decay"])
    shape = (len(param), -1) if param.ndim == 4 else param.shape

    def orthogonalise(matrix):
        flat = matrix.reshape(shape)
        update = reference.newton_schulz(flat, reference.SIMPLE * NS_STEPS, EPS, reference.added)
        return (reference.scale("shape_scaling", flat.shape) * update).reshape(param.shape)

    return reference.muon(param, grads, orthogonalise, nesterov=True, **options)


def expected_states(spec, before, grads):
    if spec["recipe"] != "muon":
        return {}
    return {n: definitions.muon_buffer(definitions.Ops(spec["dtype"]), gradients_by_step(spec, grads, n),
                                       options_of(spec)["momentum"]) for n in before}


def tolerance(spec):
    return "ns_bf16_each" if spec["recipe"] == "muon" else f"elementwise_{spec['dtype']}"


def scale_factors():
    for rows, columns, known in ((8, 2, 2.0), (2, 8, 1.0), (64, 9, 2.666667), (97, 37, (97 / 37) ** 0.5)):
        factor = reference.SCALES["shape_scaling"](rows, columns)
        assert abs(factor - known) < 1e-6
        yield {"package": PACKAGE, "version": VERSION, "mode": "shape_scaling", "rows": rows, "columns": columns,
               "factor": factor}
