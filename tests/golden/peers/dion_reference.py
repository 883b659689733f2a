# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""dion's Muon and NorMuon with their AdamW and Lion, which no registry has: transcribed in torch and checked against
the equations in f64. Hyperparameters are f32 scalars there, as they are kept on the device."""

import math

import numpy as np
import torch
from gram_newton_schulz import GramNewtonSchulz

import exact as definitions
import reference_f64 as reference
from golden_inputs import case, gradients_by_step, parsed_options
from peers import transcription

PACKAGE = "dion"
VERSION = "2026-08"  # the month of the code that was transcribed
ORTHOGONAL = dict(lr=0.01, mu=0.95, weight_decay=0.01, cautious_wd=False, epsilon=1e-8, nesterov=False,
                  adjust_lr="spectral_norm", flatten=False, use_gram_newton_schulz=False, use_polar_express=True)
ELEMENTWISE = dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.01, cautious_wd=False)
DEFAULTS = {
    "muon": ORTHOGONAL,
    "normuon": ORTHOGONAL | dict(muon_beta2=0.95),
    "adamw": ELEMENTWISE | dict(epsilon=1e-8),
    "lion": ELEMENTWISE,
}
SCALE_MODES = {"spectral_norm": "unit_rms_norm", "rms_norm": "match_rms_adamw", None: "none"}
NORMUON_EPS = 1e-8  # not an argument
GRAM_EPS = 1e-7  # not passed on to the Gram form

ALL_SHAPES = {"square": (24, 24), "wide": (16, 48), "tall": (48, 16), "odd": (33, 65), "row": (1, 37),
              "column": (37, 1), "batch": (3, 12, 20)}
PAIR = {"wide": (12, 20), "tall": (20, 12)}
TINY = {"wide": (6, 10), "tall": (10, 6)}

# ---- the cases ------------------------------------------------------------------------------------------------------


def orthogonal_option_sets():
    yield "nesterov", {"nesterov": "true"}
    yield "cautious", {"cautious_wd": "true", "weight_decay": "0.5"}
    yield "rms_norm", {"adjust_lr": "rms_norm"}
    yield "no_adjustment", {"adjust_lr": "none", "weight_decay": "0"}
    yield "quintic", {"use_polar_express": "false", "mu": "0.8"}
    yield "epsilon", {"epsilon": "10"}


def cases():
    for recipe in ("muon", "normuon"):
        base = {"recipe": recipe, "preset": "dion"}
        name = f"dion_{recipe}"
        yield case(f"{name}_defaults", shapes=ALL_SHAPES, **base)
        yield case(f"{name}_2_steps", shapes=PAIR, steps=2, lr="0.2", **base)
        yield case(f"{name}_20_steps", shapes=TINY, steps=20, gradients="per_step", lr="0.05", **base)
        for suffix, options in orthogonal_option_sets():
            yield case(f"{name}_{suffix}", shapes=PAIR, steps=3, gradients="per_step", **base,
                       **({"lr": "0.2"} | options))
        yield case(f"{name}_bf16", shapes=PAIR, steps=3, gradients="per_step", dtype="bf16", lr="0.2", **base)
        yield case(f"{name}_gram", shapes={"square": (24, 24)} | PAIR, steps=2, lr="0.2", use_gram_newton_schulz="true",
                   **base)
        yield case(f"{name}_flattened_conv", shapes={"conv": (12, 4, 3, 3)}, lr="0.2", flatten="true", **base)
        yield case(f"{name}_batched_conv", shapes={"conv": (2, 3, 6, 4)}, lr="0.2", **base)
    yield case("dion_normuon_beta2", "normuon", PAIR, steps=3, gradients="per_step", preset="dion", muon_beta2="0.5")
    for norm in ("1e-7", "1e-8"):
        yield case(f"dion_muon_norm_{norm}", "muon", given={"one": ([[0]], [[float(norm)]])}, preset="dion", lr="1",
                   mu="0", weight_decay="0", use_polar_express="false")
    for recipe in ("adamw", "lion"):
        base = {"recipe": recipe, "preset": "dion"}
        yield case(f"dion_{recipe}_defaults", **base)
        yield case(f"dion_{recipe}_3_steps", steps=3, gradients="per_step", betas="0.8,0.9", weight_decay="0.1", **base)
        yield case(f"dion_{recipe}_cautious", steps=3, gradients="per_step", weight_decay="0.5", cautious_wd="true",
                   **base)
        yield case(f"dion_{recipe}_bf16", steps=3, gradients="per_step", dtype="bf16", **base)
        # Reference case A27: a rate of 0 changes nothing but the moments.
        yield case(f"dion_{recipe}_lr_0", given={"p": ([1.0, 2.0], [0.0, 0.5])}, lr="0", **base)


# The norm plus 1e-8 divides: a norm of 1e-8 enters as 1/2, and one of 1e-7 as 1/1.1. Quintic takes 1/2 to 0.985869.
KNOWN_EXACT = [("dion_muon_norm_1e-8", "one", (0, 0), -0.985869, 1e-6)]
KNOWN_ANSWERS = [
    ("dion_muon_norm_1e-8", "one", (0, 0), -0.985869, 0.02),
    ("dion_adamw_lr_0", "p", (0,), 1.0, 0.0),
    ("dion_adamw_lr_0", "p", (1,), 2.0, 0.0),
    ("dion_lion_lr_0", "p", (1,), 2.0, 0.0),
]

# ---- transcription --------------------------------------------------------------------------------------------------


def peer(spec):
    return "a transcription of dion in torch"


def version(spec):
    return VERSION


def options_of(spec):
    return DEFAULTS[spec["recipe"]] | parsed_options(spec)


def run(spec, before, grads):
    options = options_of(spec)
    step = {"muon": orthogonal_step, "normuon": orthogonal_step, "adamw": adamw_step, "lion": lion_step}[spec["recipe"]]
    return transcription.run(spec, before, grads, lambda param, grad, state: step(param, grad, state, options))


def scalars(options, *names):
    """In f32, as tensors without dimensions: these do not raise the type of what they multiply."""
    return [torch.tensor(options[name]) for name in names]


def zeros_once(state, key, like):
    return state.setdefault(key, torch.zeros_like(like))


def orthogonal_step(param, grad, state, options):
    lr, mu, weight_decay = scalars(options, "lr", "mu", "weight_decay")
    buffer = zeros_once(state, "momentum", param)
    buffer.mul_(mu).add_(grad)
    direction = buffer * mu + grad if options["nesterov"] else buffer
    update = orthogonalise(direction.bfloat16(), options)
    if "muon_beta2" in options:
        update = normalise_rows(update.to(param.dtype), zeros_once(state, "variance_neuron", param[..., 0:1]), options)
    apply_decay(param, update, lr, weight_decay, options["cautious_wd"])
    rows, columns = matrix_shape(param.shape, options["flatten"])[-2:]
    factor = reference.SCALES[SCALE_MODES[options["adjust_lr"]]](rows, columns)
    param.sub_(update * (lr * factor))


def matrix_shape(shape, flatten):
    if flatten and len(shape) >= 3:
        return shape[0], math.prod(shape[1:])
    return (math.prod(shape[:-2]), *shape[-2:]) if len(shape) >= 4 else tuple(shape)


def orthogonalise(direction, options):
    matrix = direction.reshape(matrix_shape(direction.shape, options["flatten"]))
    (eps,) = scalars(options, "epsilon")
    if options["use_gram_newton_schulz"]:
        gram = GramNewtonSchulz(ns_use_kernels=False, gram_newton_schulz_reset_iterations=[2], compile_kwargs=None)
        update = gram(matrix)
    elif options["use_polar_express"]:
        update = polar_express(matrix, eps)
    else:
        update = newton_schulz(matrix, eps)
    return update.reshape(direction.shape)


def newton_schulz(matrix, eps):
    x = matrix.mT if matrix.size(-2) > matrix.size(-1) else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + eps)
    for a, b, c in reference.QUINTIC:
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if matrix.size(-2) > matrix.size(-1) else x


def polar_express(matrix, eps):
    """A tall matrix is not transposed: its polynomial multiplies from the right."""
    tall = matrix.size(-2) > matrix.size(-1)
    x = matrix / (matrix.norm(dim=(-2, -1), keepdim=True) * 1.02 + eps)
    for a, b, c in reference.POLAR_EXPRESS_DION:
        gram = x.mT @ x if tall else x @ x.mT
        polynomial = b * gram + c * (gram @ gram)
        x = a * x + (x @ polynomial if tall else polynomial @ x)
    return x


def frobenius(x):
    return x.norm(p=2, dim=(-2, -1), keepdim=True)


def normalise_rows(update, variance, options):
    (beta2,) = scalars(options, "muon_beta2")
    variance.copy_(torch.lerp(variance, (update * update).mean(dim=-1, keepdim=True), 1 - beta2))
    normalised = update / (variance.sqrt() + NORMUON_EPS)
    return normalised * (frobenius(update) / frobenius(normalised).clamp(min=NORMUON_EPS))


def apply_decay(param, update, lr, weight_decay, cautious):
    if cautious:
        param.sub_(param * (param * update >= 0).to(param.dtype) * (lr * weight_decay))
    else:
        param.mul_(1 - lr * weight_decay)


def lion_step(param, grad, state, options):
    lr, weight_decay = scalars(options, "lr", "weight_decay")
    beta1, beta2 = (torch.tensor(beta) for beta in options["betas"])
    buffer = zeros_once(state, "momentum", param)
    update = torch.lerp(buffer, grad, 1 - beta1).sign()
    buffer.lerp_(grad, 1 - beta2)
    apply_decay(param, update, lr, weight_decay, options["cautious_wd"])
    param.sub_(update * lr)


def adamw_step(param, grad, state, options):
    """The fused kernel of torch; cautious decay gives back afterwards what it decayed too much."""
    m, v = zeros_once(state, "momentum", param), zeros_once(state, "variance", param)
    steps = state.setdefault("step_dev", torch.zeros(()))
    steps += 1
    beta1, beta2 = (float(torch.tensor(beta)) for beta in options["betas"])
    weight_decay, eps = (float(x) for x in scalars(options, "weight_decay", "epsilon"))
    (lr,) = scalars(options, "lr")
    original = param.clone()
    torch._fused_adamw_([param], [grad], [m], [v], [], [steps], amsgrad=False, beta1=beta1, beta2=beta2, lr=lr,
                        weight_decay=weight_decay, eps=eps, maximize=False, grad_scale=None, found_inf=None)
    if options["cautious_wd"]:
        param.add_(original * (m * original < 0).to(param.dtype) * (lr * weight_decay))


# ---- the same in f64 ------------------------------------------------------------------------------------------------


def exact_orthogonaliser(options, shape):
    matrices = matrix_shape(shape, options["flatten"])
    if options["use_gram_newton_schulz"]:
        triples, eps, guard = reference.with_safety(reference.POLAR_EXPRESS_RAW, 1.05), GRAM_EPS, reference.added
    elif options["use_polar_express"]:
        triples, eps, guard = reference.POLAR_EXPRESS_DION, options["epsilon"], reference.added_to_102_percent
    else:
        triples, eps, guard = reference.QUINTIC, options["epsilon"], reference.added
    return lambda x: reference.newton_schulz(x.reshape(matrices), triples, eps, guard).reshape(shape)


def exact(spec, param, grads):
    options = options_of(spec)
    common = {"lr": options["lr"], "weight_decay": options["weight_decay"], "cautious": options["cautious_wd"]}
    if spec["recipe"] == "lion":
        return reference.elementwise(param, grads, reference.lion(options["betas"]), **common)
    if spec["recipe"] == "adamw":
        return reference.elementwise(param, grads, reference.adam(options["betas"], options["epsilon"]), **common)
    factor = reference.scale(SCALE_MODES[options["adjust_lr"]], matrix_shape(param.shape, options["flatten"]))
    rows = reference.normuon_by_row(options["muon_beta2"], NORMUON_EPS) if spec["recipe"] == "normuon" else None
    scaled = lambda update, grad, direction: factor * (rows(update, grad, direction) if rows else update)
    return reference.muon(param, grads, exact_orthogonaliser(options, param.shape), momentum=options["mu"],
                          form=reference.momentum_sum, nesterov=options["nesterov"], second_moment=scaled, **common)


def expected_states(spec, before, grads):
    if spec["recipe"] not in ("muon", "normuon"):
        return {}
    return {n: definitions.muon_sum_buffer(definitions.Ops(spec["dtype"]), gradients_by_step(spec, grads, n),
                                           options_of(spec)["mu"], "momentum") for n in before}


def tolerance(spec):
    if spec["recipe"] in ("adamw", "lion"):
        return f"elementwise_{spec['dtype']}"
    return "ns_f16" if options_of(spec)["use_gram_newton_schulz"] else "ns_bf16_each"


# ---- tables ---------------------------------------------------------------------------------------------------------


def coefficient_sets():
    for name, triples in (("polar_express", reference.POLAR_EXPRESS_DION), ("quintic", reference.QUINTIC)):
        yield {"package": PACKAGE, "version": VERSION, "name": name, "iteration": "exactly 5",
               "triples": [list(t) for t in triples]}


def scale_factors():
    for mode, ours in SCALE_MODES.items():
        for rows, columns in ((97, 37), (8, 2), (2, 8)):
            yield {"package": PACKAGE, "version": VERSION, "mode": mode or "none", "rows": rows, "columns": columns,
                   "factor": reference.SCALES[ours](rows, columns)}
