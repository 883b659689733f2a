# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Moonlight's Muon, which no registry has: transcribed in torch and checked against the equations in f64. Its class
also runs AdamW; here the two are the recipes muon and adamw."""

import numpy as np

import exact as definitions
import reference_f64 as reference
from golden_inputs import case, gradients_by_step, parsed_options
from peers import transcription

PACKAGE = "moonlight"
VERSION = "2025-08"  # the month of the code that was transcribed
DEFAULTS = {
    "muon": dict(lr=1e-3, wd=0.1, momentum=0.95, nesterov=True, ns_steps=5),
    "adamw": dict(lr=1e-3, wd=0.1, adamw_betas=(0.9, 0.95), adamw_eps=1e-8),
}
EPS = 1e-7
ALL_SHAPES = {"square": (24, 24), "wide": (16, 48), "tall": (48, 16), "odd": (33, 65), "row": (1, 37),
              "column": (37, 1)}
PAIR = {"wide": (12, 20), "tall": (20, 12)}
TINY = {"wide": (6, 10), "tall": (10, 6)}


def cases():
    muon = {"recipe": "muon", "preset": "moonlight"}
    yield case("moonlight_muon_defaults", shapes=ALL_SHAPES, **muon)
    yield case("moonlight_muon_3_steps", shapes=PAIR, steps=3, gradients="per_step", lr="0.1", **muon)
    yield case("moonlight_muon_20_steps", shapes=TINY, steps=20, gradients="per_step", lr="0.05", **muon)
    yield case("moonlight_muon_nesterov_off", shapes=PAIR, steps=3, gradients="per_step", lr="0.1", nesterov="false",
               wd="0", **muon)
    yield case("moonlight_muon_6_steps", shapes=PAIR, lr="0.1", ns_steps="6", momentum="0.8", wd="0.5", **muon)
    yield case("moonlight_muon_bf16", shapes=PAIR, steps=3, dtype="bf16", gradients="per_step", lr="0.1", **muon)
    for norm in ("1e-7", "1e-8"):
        yield case(f"moonlight_muon_norm_{norm}", given={"one": ([[0]], [[float(norm)]])}, lr="1", momentum="0", wd="0",
                   **muon)
    # The decay is by the base lr: reference case A13.
    yield case("moonlight_muon_decay_base_lr", given={"w": (np.eye(2), np.eye(2))}, lr="0.1", wd="0.1", **muon)
    adamw = {"recipe": "adamw", "preset": "moonlight"}
    yield case("moonlight_adamw_defaults", **adamw)
    yield case("moonlight_adamw_3_steps", steps=3, gradients="per_step", lr="0.01", adamw_eps="1e-3",
               adamw_betas="0.8,0.9", **adamw)
    yield case("moonlight_adamw_bf16", steps=3, gradients="per_step", dtype="bf16", lr="0.01", **adamw)


# Reference cases A05 (as for Keller's Muon, times 0.2) and A13: 0.99 - 0.1 * 0.2 * sqrt(2) * p(1 / sqrt(2)).
KNOWN_EXACT = [
    ("moonlight_muon_norm_1e-7", "one", (0, 0), -0.2 * 0.765439, 1e-6),
    ("moonlight_muon_norm_1e-8", "one", (0, 0), -0.2 * 0.691936, 1e-6),
    ("moonlight_muon_decay_base_lr", "w", (1, 1), 0.9586579, 1e-6),
]
KNOWN_ANSWERS = [
    ("moonlight_muon_decay_base_lr", "w", (1, 1), 0.9586579, 5e-4),  # in bf16
]


def peer(spec):
    return "a transcription of Moonlight's Muon in torch"


def version(spec):
    return VERSION


def options_of(spec):
    return DEFAULTS[spec["recipe"]] | parsed_options(spec)


def run(spec, before, grads):
    options = options_of(spec)
    step = muon_step if spec["recipe"] == "muon" else adamw_step
    return transcription.run(spec, before, grads, lambda param, grad, state: step(param, grad, state, **options))


def muon_step(param, grad, state, lr, wd, momentum, nesterov, ns_steps):
    buffer = state.setdefault("momentum_buffer", param.new_zeros(param.shape))
    buffer.mul_(momentum).add_(grad)
    direction = grad.add(buffer, alpha=momentum) if nesterov else buffer
    update = transcription.newton_schulz_bf16(direction, reference.SIMPLE * ns_steps, lambda norm: norm + EPS)
    param.mul_(1 - lr * wd)
    param.add_(update, alpha=-lr * reference.scale("match_rms_adamw", param.shape))


def adamw_step(param, grad, state, lr, wd, adamw_betas, adamw_eps):
    state["step"] = state.get("step", 0) + 1
    m = state.setdefault("moment1", param.new_zeros(param.shape))
    v = state.setdefault("moment2", param.new_zeros(param.shape))
    m.lerp_(grad, 1 - adamw_betas[0])
    v.lerp_(grad.square(), 1 - adamw_betas[1])
    correction = (1 - adamw_betas[0] ** state["step"]) / (1 - adamw_betas[1] ** state["step"]) ** 0.5
    param.mul_(1 - lr * wd)
    param.add_(m / (adamw_eps + v.sqrt()), alpha=-lr / correction)


def exact(spec, param, grads):
    options = options_of(spec)
    lr, weight_decay = options["lr"], options["wd"]
    if spec["recipe"] == "adamw":
        direction = reference.moonlight_adam(options["adamw_betas"], options["adamw_eps"])
        return reference.elementwise(param, grads, direction, lr=lr, weight_decay=weight_decay)
    factor = reference.scale("match_rms_adamw", param.shape)
    triples = reference.SIMPLE * options["ns_steps"]
    return reference.muon(param, grads, lambda x: factor * reference.newton_schulz(x, triples, EPS, reference.added),
                          lr=lr, momentum=options["momentum"], weight_decay=weight_decay, form=reference.momentum_sum,
                          nesterov=options["nesterov"])


def expected_states(spec, before, grads):
    if spec["recipe"] != "muon":
        return {}
    return {n: definitions.muon_sum_buffer(definitions.Ops(spec["dtype"]), gradients_by_step(spec, grads, n),
                                           options_of(spec)["momentum"]) for n in before}


def tolerance(spec):
    return "ns_bf16_each" if spec["recipe"] == "muon" else f"elementwise_{spec['dtype']}"


def scale_factors():
    for rows, columns, known in ((8, 2, 0.565685), (2, 8, 0.565685), (97, 37, 0.2 * 97**0.5)):
        factor = reference.SCALES["match_rms_adamw"](rows, columns)
        assert abs(factor - known) < 1e-6
        yield {"package": PACKAGE, "version": VERSION, "mode": "match_rms_adamw", "rows": rows,
               "columns": columns, "factor": factor}
