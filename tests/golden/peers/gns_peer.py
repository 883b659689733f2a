# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""gram-newton-schulz: its Muon, with torch's products in place of its kernels, which need a GPU."""

import contextlib
import importlib.metadata
import io

import numpy as np
from gram_newton_schulz import coefficients
from gram_newton_schulz.muon import Muon
from gram_newton_schulz.muon.muon_utils import muon_opt_utils

import exact as definitions
import reference_f64 as reference
from golden_inputs import case, gradients_by_step, parsed_options
from peers.torch_step import step_torch_optimizer

VERSION = "0.1.6"
DEFAULTS = dict(lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr="rms_norm",
                ns_coefficients_preset=None, ns_epsilon=1e-7)
PRESETS = {
    None: reference.with_safety(reference.POLAR_EXPRESS_RAW, 1.05),
    "POLAR_EXPRESS_COEFFICIENTS": reference.with_safety(reference.POLAR_EXPRESS_RAW, 1.05),
    "YOU_COEFFICIENTS": reference.QUINTIC,
}
SCALE_MODES = {"rms_norm": "match_rms_adamw", "spectral_norm": "unit_rms_norm", None: "none"}

ALL_SHAPES = {"square": (24, 24), "wide": (16, 48), "tall": (48, 16), "odd": (33, 65), "row": (1, 37),
              "column": (37, 1), "batch": (3, 12, 20)}
PAIR = {"wide": (12, 20), "tall": (20, 12)}
TINY = {"wide": (6, 10), "tall": (10, 6)}


def option_sets():
    yield "nesterov_off", {"nesterov": "false"}
    yield "spectral_norm", {"adjust_lr": "spectral_norm"}
    yield "no_adjustment", {"adjust_lr": "none", "weight_decay": "0"}
    yield "you", {"ns_coefficients_preset": "YOU_COEFFICIENTS", "momentum": "0.8"}
    yield "polar_express", {"ns_coefficients_preset": "POLAR_EXPRESS_COEFFICIENTS"}
    yield "standard", {"ns_algorithm": "standard_newton_schulz"}
    yield "standard_you", {"ns_algorithm": "standard_newton_schulz", "ns_coefficients_preset": "YOU_COEFFICIENTS"}
    yield "restart_at_2", {"gram_newton_schulz_restart_iterations": "2"}
    yield "restart_at_1_and_3", {"gram_newton_schulz_restart_iterations": "1,3"}
    yield "2_restarts", {"gram_newton_schulz_num_restarts": "2"}
    yield "epsilon", {"ns_epsilon": "10"}


def cases():
    muon = {"recipe": "muon", "preset": "gns"}
    yield case("gns_muon_defaults", shapes=ALL_SHAPES, **muon)
    yield case("gns_muon_2_steps", shapes={"square": (24, 24)} | PAIR, steps=2, lr="0.1", **muon)
    yield case("gns_muon_20_steps", shapes=TINY, steps=20, gradients="per_step", lr="0.05", **muon)
    for name, options in option_sets():
        yield case(f"gns_muon_{name}", shapes=PAIR, steps=2, gradients="per_step", **muon, **({"lr": "0.1"} | options))
    yield case("gns_muon_bf16", shapes=PAIR, steps=3, gradients="per_step", dtype="bf16", lr="0.1", **muon)
    for norm in ("1e-7", "1e-8"):
        yield case(f"gns_muon_norm_{norm}", given={"one": ([[0]], [[float(norm)]])}, lr="1", momentum="0",
                   weight_decay="0", adjust_lr="none", ns_coefficients_preset="YOU_COEFFICIENTS", **muon)
    yield case("gns_muon_zero_gradient", given={"w": (np.eye(3), np.zeros((3, 3)))}, lr="0.1", weight_decay="0.5",
               **muon)


# The norm plus 1e-7 divides, so a norm of 1e-7 enters as 1/2, which quintic (YOU) takes to 0.985869.
KNOWN_EXACT = [("gns_muon_norm_1e-7", "one", (0, 0), -0.985869, 1e-3)]  # the gradient is 1e-7 rounded to f32
KNOWN_ANSWERS = [
    ("gns_muon_norm_1e-7", "one", (0, 0), -0.985869, 0.01),
    ("gns_muon_zero_gradient", "w", (1, 1), 0.95, 1e-7),
]


def peer(spec):
    return "gram_newton_schulz.muon.Muon"


def version(spec):
    installed = importlib.metadata.version("gram-newton-schulz")
    assert installed == VERSION, f"gram-newton-schulz {VERSION} is wanted, not {installed}"
    return installed


def constructor_options(spec):
    options = parsed_options(spec)
    restarts = options.get("gram_newton_schulz_restart_iterations")
    if isinstance(restarts, int):
        options["gram_newton_schulz_restart_iterations"] = [restarts]
    return options


def run(spec, before, grads):
    def make(params):
        with contextlib.redirect_stdout(io.StringIO()):  # it reports how it tunes its restarts
            return Muon(params, ns_use_kernels=False, **constructor_options(spec))

    return step_torch_optimizer(spec, before, grads, make)


def exact(spec, param, grads):
    options = DEFAULTS | parsed_options(spec)
    triples = PRESETS[options["ns_coefficients_preset"]]
    factor = reference.scale(SCALE_MODES[options["adjust_lr"]], param.shape)
    orthogonalise = lambda x: factor * reference.newton_schulz(x, triples, options["ns_epsilon"], reference.added)
    return reference.muon(param, grads, orthogonalise, lr=options["lr"], momentum=options["momentum"],
                          weight_decay=options["weight_decay"], form=reference.momentum_sum,
                          nesterov=options["nesterov"])


def expected_states(spec, before, grads):
    momentum = (DEFAULTS | parsed_options(spec))["momentum"]
    return {n: definitions.muon_sum_buffer(definitions.Ops(spec["dtype"]), gradients_by_step(spec, grads, n), momentum,
                                           "momentum") for n in before}


def tolerance(spec):
    return "ns_f16"


def coefficient_sets():
    for name in ("POLAR_EXPRESS_COEFFICIENTS", "YOU_COEFFICIENTS"):
        triples = [tuple(t) for t in getattr(coefficients, name)]
        assert triples == PRESETS[name], f"{name} of the package is not what the reference holds"
        yield {"package": "gram-newton-schulz", "version": VERSION, "name": name, "iteration": "exactly 5",
               "triples": [list(t) for t in triples]}


def scale_factors():
    functions = {"rms_norm": muon_opt_utils.adjust_lr_rms_norm, "spectral_norm": muon_opt_utils.adjust_lr_spectral_norm}
    for mode, function in functions.items():
        for rows, columns in ((97, 37), (8, 2), (2, 8)):
            factor = function(1.0, (rows, columns))
            assert factor == reference.SCALES[SCALE_MODES[mode]](rows, columns)
            yield {"package": "gram-newton-schulz", "version": VERSION, "mode": mode, "rows": rows, "columns": columns,
                   "factor": factor}


def constructors():
    yield "gram-newton-schulz", VERSION, "muon", Muon, DEFAULTS
