# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""emerging-optimizers: its orthogonalising optimizers. The elementwise ones and SOAP are in modules of their own."""

import importlib.metadata

import numpy as np
from emerging_optimizers.orthogonalized_optimizers import muon, muon_utils
from emerging_optimizers.registry import get_optimizer_cls

import exact as definitions
import reference_f64 as reference
from golden_inputs import case, gradients_by_step, parsed_options
from peers.torch_step import step_torch_optimizer

VERSION = "0.3.0"
EPS = 1e-7  # of the normalisation; not an argument of any optimizer
ALL_SHAPES = {"square": (24, 24), "wide": (16, 48), "tall": (48, 16), "odd": (33, 65), "row": (1, 37),
              "column": (37, 1)}
PAIR = {"wide": (12, 20), "tall": (20, 12)}
TINY = {"wide": (6, 10), "tall": (10, 6)}
SCALE_MODES = ("shape_scaling", "spectral", "unit_rms_norm")
# Step counts at which each set of coefficients does what it was made for (aol wraps at 5, quintic at 6), and at which
# bf16 is enough: the first polynomial of cans cancels 25 against 8 and 19, which its last one evens out.
SAFE_COUNTS = {"simple": 5, "quintic": 10, "polar_express": 8, "cans": 8, "aol": 4, "deepseekv4": 10}
DECAY_METHODS = ("decoupled", "independent", "l2", "palm")

# ---- the cases ------------------------------------------------------------------------------------------------------


def muon_option_sets():
    """(name, steps, options), each in both precisions."""
    yield "nesterov", 3, {"nesterov": "true"}
    yield "momentum", 3, {"momentum": "0.8"}
    yield "extra_scale_factor", 1, {"extra_scale_factor": "0.229416"}
    yield "num_ns_steps_3", 1, {"num_ns_steps": "3"}
    for mode in SCALE_MODES:
        yield f"scale_{mode}", 1, {"scale_mode": mode}
    for coefficients, steps in SAFE_COUNTS.items():
        yield f"coefficients_{coefficients}", 1, {"coefficient_type": coefficients, "num_ns_steps": str(steps)}
    yield "coefficients_polar_express_10", 1, {"coefficient_type": "polar_express", "num_ns_steps": "10"}
    for method in DECAY_METHODS:
        yield f"decay_{method}", 3, {"weight_decay": "0.1", "weight_decay_method": method, "lr": "0.1"}


def muon_cases():
    for precision in ("medium", "highest"):
        base = {"preset": "emerging", "fp32_matmul_prec": precision}
        prefix = f"emerging_muon_{precision}"
        yield case(f"{prefix}_all_shapes", "muon", ALL_SHAPES, **base)
        yield case(f"{prefix}_2_steps", "muon", ALL_SHAPES, steps=2, lr="0.2", nesterov="true", **base)
        yield case(f"{prefix}_20_steps", "muon", TINY, steps=20, gradients="per_step", lr="0.1", **base)
        for name, steps, options in muon_option_sets():
            yield case(f"{prefix}_{name}", "muon", PAIR, steps=steps, gradients="per_step" if steps > 1 else "one",
                       **base, **({"lr": "0.5"} | options))
    yield case("emerging_muon_cans_5", "muon", PAIR, preset="emerging", lr="0.5", fp32_matmul_prec="highest",
               coefficient_type="cans")
    yield case("emerging_muon_defaults", "muon", PAIR, preset="emerging")
    yield case("emerging_muon_high", "muon", PAIR, preset="emerging", fp32_matmul_prec="high")


RAW = {"preset": "emerging", "lr": "1", "momentum": "0", "weight_decay": "0", "fp32_matmul_prec": "highest"}
PAD = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])


def known_cases():
    """Small matrices whose answers are known in closed form; momentum 0 makes the update see the gradient itself."""
    zero = np.zeros((1, 1))
    for name, norm in (("1e-7", 1e-7), ("1e-8", 1e-8), ("1e-9", 1e-9)):
        yield case(f"emerging_muon_norm_{name}", "muon", preset="emerging", lr="1", momentum="0", weight_decay="0",
                   fp32_matmul_prec="highest", given={"one": (zero, [[norm]]), "w": (0 * PAD, norm / 5 * PAD)},
                   coefficient_type="simple")
    yield case("emerging_muon_norm_1e-9_quintic", "muon", given={"one": (zero, [[1e-9]])}, **RAW)
    # Reference case A06: over the norm of the whole matrix the first value is 1; 1.3 would make the iteration diverge.
    yield case("emerging_muon_whole_norm", "muon", given={"w": (np.zeros((2, 2)), np.diag([1.3, 0.0]))},
               coefficient_type="simple", scale_mode="shape_scaling", **RAW)
    yield case("emerging_muon_zero_gradient", "muon", given={"w": (PAD, 0 * PAD)}, preset="emerging", lr="0.1",
               weight_decay="0.1")
    yield case("emerging_muon_tall_and_wide", "muon", given={"tall": (0 * PAD, PAD), "wide": (0 * PAD.T, PAD.T)},
               coefficient_type="simple", scale_mode="spectral", **RAW)
    for mode in SCALE_MODES:
        yield case(f"emerging_muon_table_{mode}", "muon", {"97x37": (97, 37), "8x2": (8, 2), "2x8": (2, 8)},
                   scale_mode=mode, **RAW)
    yield case("emerging_muon_independent_lr_0", "muon", given={"w": (PAD, PAD)}, preset="emerging", lr="0",
               weight_decay="0.25", weight_decay_method="independent")
    yield case("emerging_muon_decay_base_lr", "muon", given={"w": (np.eye(2), np.eye(2))}, preset="emerging", lr="0.1",
               weight_decay="0.1", coefficient_type="simple", scale_mode="shape_scaling", fp32_matmul_prec="highest")


# Five iterations of simple take 1 to 0.696436, 0.1 to 0.712120 and 0.01 to 0.698917; quintic takes 0.01 to 1.018025
# (by exact fractions). Below eps, the norm over eps is what the iteration sees. Reference cases A05, A08, A13.
KNOWN_ANSWERS = [
    ("emerging_muon_norm_1e-9", "one", (0, 0), -0.698917, 1e-6),
    ("emerging_muon_norm_1e-9_quintic", "one", (0, 0), -1.018025, 1e-6),
    ("emerging_muon_norm_1e-7", "one", (0, 0), -0.696436, 1e-6),
    ("emerging_muon_norm_1e-7", "w", (1, 1), -1.119204 * 3**0.5, 3e-6),
    ("emerging_muon_norm_1e-8", "one", (0, 0), -0.712120, 1e-6),
    ("emerging_muon_whole_norm", "w", (0, 0), -0.696436, 1e-6),
    ("emerging_muon_whole_norm", "w", (1, 1), 0.0, 0.0),
    ("emerging_muon_zero_gradient", "w", (1, 1), 4 * 0.99, 1e-6),
    ("emerging_muon_tall_and_wide", "tall", (1, 1), -1.119204 * 3**0.5, 3e-6),
    ("emerging_muon_tall_and_wide", "wide", (0, 0), -0.722876 * 3**0.5, 3e-6),
    ("emerging_muon_independent_lr_0", "w", (1, 1), 3.0, 0.0),
    ("emerging_muon_decay_base_lr", "w", (0, 0), 0.8791889, 1e-6),
    # No bias is corrected: o / sqrt((1 - beta2) o^2) = 2 for any o.
    ("emerging_adamuon_first_step", "one", (0, 0), -0.2, 1e-6),
]


def adaptive_option_sets(method):
    yield "defaults", 1, {}
    yield "nesterov", 3, {"nesterov": "true"}
    yield "eps", 3, {"eps": "0.1", "beta2": "0.8"}
    yield "shape_scaling", 3, {"scale_mode": "shape_scaling", "extra_scale_factor": "0.229416"}
    yield "unit_rms_norm", 1, {"scale_mode": "unit_rms_norm"}
    yield "palm", 3, {"weight_decay_method": "palm", "weight_decay": "0.5", "lr": "0.1"}
    if method != "namo":
        yield "l2", 3, {"weight_decay_method": "l2", "weight_decay": "0.1"}


def adaptive_muon_cases():
    for method in ("adamuon", "normuon", "namo"):
        base = {"recipe": "adaptive_muon", "preset": "emerging", "moment2_method": method}
        common = {"lr": "0.05", "momentum": "0.9", "weight_decay": "0.01", "fp32_matmul_prec": "highest"}
        # adamuon's first step is the sign of each element but for eps, so a rounding decides those next to 0.
        soft = {"eps": "0.1"} if method == "adamuon" else {}
        yield case(f"emerging_{method}_all_shapes", shapes=ALL_SHAPES, steps=2, **base, **common, **soft)
        yield case(f"emerging_{method}_20_steps", shapes=TINY, steps=20, gradients="per_step", **base, **common)
        yield case(f"emerging_{method}_medium", shapes=PAIR, steps=3, gradients="per_step", **base,
                   **(common | soft | {"fp32_matmul_prec": "medium"}))
        for name, steps, options in adaptive_option_sets(method):
            yield case(f"emerging_{method}_{name}", shapes=PAIR, steps=steps,
                       gradients="per_step" if steps > 1 else "one", **base, **(common | options))
        # The scale is applied once, after the second moment: reference case A12.
        yield case(f"emerging_{method}_table", shapes={"8x2": (8, 2), "2x8": (2, 8)}, **base,
                   **(common | {"weight_decay": "0"}))
    yield case("emerging_adamuon_first_step", "adaptive_muon", given={"one": (np.zeros((1, 1)), [[2.0]])}, lr="0.1",
               preset="emerging", momentum="0", weight_decay="0", fp32_matmul_prec="highest", beta2="0.75")


def cases():
    yield from muon_cases()
    yield from known_cases()
    yield from adaptive_muon_cases()


# ---- running the package --------------------------------------------------------------------------------------------


def peer(spec):
    return f"emerging_optimizers.{get_optimizer_cls(spec['recipe']).__name__}"


def version(spec):
    installed = importlib.metadata.version("emerging-optimizers")
    assert installed == VERSION, f"emerging-optimizers {VERSION} is wanted, not {installed}"
    return installed


def run(spec, before, grads):
    optimizer, options = get_optimizer_cls(spec["recipe"]), parsed_options(spec)
    return step_torch_optimizer(spec, before, grads, lambda params: optimizer(params, **options))


# ---- the same in f64 ------------------------------------------------------------------------------------------------

# What each constructor assumes (write_tables checks this against the signatures).
DEFAULTS = {
    "muon": dict(lr=3e-4, momentum=0.95, weight_decay=0.01, nesterov=False, weight_decay_method="decoupled",
                 fp32_matmul_prec="medium", coefficient_type="quintic", num_ns_steps=5, scale_mode="spectral",
                 extra_scale_factor=1.0),
    "adaptive_muon": dict(nesterov=False, weight_decay_method="decoupled", fp32_matmul_prec="medium",
                          coefficient_type="quintic", num_ns_steps=5, scale_mode="spectral", extra_scale_factor=1.0,
                          moment2_method="adamuon", beta2=0.95, eps=1e-8),
}


def options_of(spec):
    return DEFAULTS[spec["recipe"]] | parsed_options(spec)


def momentum_options(options):
    keys = ("lr", "momentum", "weight_decay", "nesterov", "weight_decay_method")
    return {key: options[key] for key in keys if key in options}


def orthogonaliser(options, factor):
    triples = reference.triples_for(options["coefficient_type"], options["num_ns_steps"])
    return lambda matrix: factor * reference.newton_schulz(matrix, triples, EPS)


SECOND_MOMENTS = {"adamuon": reference.adamuon, "normuon": reference.normuon_by_shape, "namo": reference.namo}


def scaled_second_moment(options, factor):
    normalise = SECOND_MOMENTS[options["moment2_method"]](options["beta2"], options["eps"])
    return lambda update, grad, direction: factor * normalise(update, grad, direction)


def exact(spec, param, grads):
    options = options_of(spec)
    factor = options["extra_scale_factor"] * reference.scale(options["scale_mode"], param.shape)
    if spec["recipe"] == "adaptive_muon":
        return reference.muon(param, grads, orthogonaliser(options, 1.0), **momentum_options(options),
                              second_moment=scaled_second_moment(options, factor))
    return reference.muon(param, grads, orthogonaliser(options, factor), **momentum_options(options))


def expected_buffers(spec, before, grads, options):
    if options.get("weight_decay_method") == "l2":
        return {}  # the buffer holds the parameter, which went through matrix products
    return {n: definitions.muon_buffer(definitions.Ops(spec["dtype"]), gradients_by_step(spec, grads, n),
                                       options["momentum"]) for n in before}


def expected_states(spec, before, grads):
    return expected_buffers(spec, before, grads, options_of(spec))


def tolerance(spec):
    return "ns_bf16" if options_of(spec)["fp32_matmul_prec"] == "medium" else "ns_f32"


# ---- tables ---------------------------------------------------------------------------------------------------------


def coefficient_sets():
    for name, triples in muon_utils._COEFFICIENT_SETS.items():
        ours, after_last = reference.COEFFICIENTS[name]
        assert [tuple(t) for t in triples] == ours, f"{name} of the package is not what the reference holds"
        yield {"package": "emerging-optimizers", "version": VERSION, "name": name, "iteration": after_last,
               "triples": [list(t) for t in triples]}


# Reference case A12: (mode, rows, columns).
KNOWN_SCALES = {("shape_scaling", 8, 2): 2.0, ("spectral", 8, 2): 8**0.5, ("unit_rms_norm", 8, 2): 2.0,
                ("shape_scaling", 2, 8): 1.0, ("spectral", 2, 8): 8**0.5, ("unit_rms_norm", 2, 8): 0.5,
                ("shape_scaling", 97, 37): (97 / 37) ** 0.5, ("spectral", 97, 37): 97**0.5,
                ("unit_rms_norm", 97, 37): (97 / 37) ** 0.5}


def scale_factors():
    for mode in SCALE_MODES:
        for rows, columns in ((97, 37), (8, 2), (2, 8)):
            value = muon.get_muon_scale_factor(rows, columns, mode=mode)
            assert value == reference.SCALES[mode](rows, columns) == KNOWN_SCALES[mode, rows, columns]
            yield {"package": "emerging-optimizers", "version": VERSION, "mode": mode, "rows": rows,
                   "columns": columns, "factor": value}


def constructors():
    for recipe, defaults in DEFAULTS.items():
        yield "emerging-optimizers", VERSION, recipe, get_optimizer_cls(recipe), defaults
