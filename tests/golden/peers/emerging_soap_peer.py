# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""emerging-optimizers' SOAP.

Not every input tests it. At the first step the statistics are G G^T and G^T G, so in their bases the gradient is
diagonal, and what lies beside its diagonal is the rounding of two products. Adam divides that by itself plus eps: with
an eps of 1e-8 each element of the first update is +-1 at random, in any implementation. Gradients here are diagonal,
where the zeros are exact, or eps is well above their rounding. A matrix that is not square leaves part of a basis to
chance while its statistics have no full rank; then it takes one step, one gradient, or a fresh eigh at each step. The
states Q_L and Q_R have columns of either sign, and exp_avg with them.
"""

import numpy as np
from emerging_optimizers.soap import REKLS, SOAP

import reference_f64 as reference
from golden_inputs import case, parsed_options
from peers import emerging_peer
from peers.torch_step import step_torch_optimizer

version = emerging_peer.version
DEFAULTS = dict(betas=(0.9, 0.95), shampoo_beta=0.95, eps=1e-8, weight_decay=0.01, weight_decay_method="decoupled",
                nesterov=False, correct_bias=True, fp32_matmul_prec="high", use_eigh=False, qr_fp32_matmul_prec="high",
                power_iter_steps=1, max_update_rms=0.0, use_kl_shampoo=False, correct_shampoo_beta_bias=None)

SQUARE = {"square": (8, 8)}
SHAPES = {"square": (12, 12), "wide": (6, 10), "tall": (10, 6), "row": (1, 9), "column": (9, 1)}
HIGHEST = {"fp32_matmul_prec": "highest", "qr_fp32_matmul_prec": "highest"}

# ---- the cases ------------------------------------------------------------------------------------------------------


def option_sets():
    yield "qr", {}
    yield "qr_2_iterations", {"power_iter_steps": "2"}
    yield "eigh", {"use_eigh": "true"}
    yield "kl_qr", {"use_kl_shampoo": "true"}
    yield "kl_eigh", {"use_kl_shampoo": "true", "use_eigh": "true"}
    yield "no_correction", {"correct_bias": "false"}
    yield "no_shampoo_correction", {"correct_shampoo_beta_bias": "false"}
    yield "nesterov", {"nesterov": "true"}
    yield "max_update_rms", {"max_update_rms": "0.1"}
    yield "max_update_rms_unreached", {"max_update_rms": "100"}
    yield "betas", {"betas": "0.8,0.9", "shampoo_beta": "0.8"}
    yield "l2", {"weight_decay": "0.1", "weight_decay_method": "l2"}
    yield "independent", {"weight_decay": "0.1", "weight_decay_method": "independent"}


def large_then_small(rng, shape):
    """The first gradient outweighs the others in each direction of its range, so that its null space comes last in the
    order of the second step, which replaces the basis."""
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in shape)
    first = left @ diagonal(*np.linspace(14, 8, min(shape)), shape=shape) @ right
    return [first, rng.standard_normal(shape), rng.standard_normal(shape)]


def diagonal(*values, shape=None):
    result = np.zeros(shape or (len(values), len(values)))
    np.fill_diagonal(result, values)
    return result


def cases():
    base = {"recipe": "soap", "preset": "emerging", "lr": "0.1"}
    soft = base | HIGHEST | {"eps": "0.1"}
    yield case("emerging_soap_1_step", shapes=SHAPES, **soft)
    yield case("emerging_soap_2_steps", shapes=SHAPES, steps=2, **soft)
    yield case("emerging_soap_20_steps", shapes={"square": (6, 6)}, steps=20, gradients="per_step", **soft)
    for name, options in option_sets():
        yield case(f"emerging_soap_{name}", shapes=SQUARE, steps=3, gradients="per_step", **(soft | options))
    rng = np.random.default_rng(6)
    given = {n: (np.zeros(s), large_then_small(rng, s)) for n, s in (("wide", (6, 8)), ("tall", (8, 6)))}
    yield case("emerging_soap_eigh_not_square", given=given, steps=3, gradients="per_step", use_eigh="true", **soft)
    yield case("emerging_soap_bf16", shapes=SQUARE, steps=3, gradients="per_step", dtype="bf16", **soft)
    yield from diagonal_cases(base)


def diagonal_cases(base):
    steep = diagonal(3, -2, 1, 0.5)
    yield case("emerging_soap_defaults", given={"w": (np.eye(4), steep)}, **base)
    yield case("emerging_soap_defaults_3_steps", steps=3, given={"w": (np.eye(4), steep)}, **base)
    yield case("emerging_soap_clipped", given={"w": (np.zeros((4, 4)), steep)}, **(base | {"max_update_rms": "0.25"}))
    # Reference case A32: statistics that are zero, and that are nearly so.
    ones, zeros = np.ones((4, 3)), np.zeros((4, 3))
    yield case("emerging_soap_zero_statistics", steps=4, gradients="per_step", eps="0.01",
               given={"w": (zeros, [zeros, zeros, zeros, ones])}, **base, **HIGHEST)
    yield case("emerging_soap_tiny_statistics", given={"w": (zeros, diagonal(1, 1e-15, shape=(4, 3)))}, **base)


# Adam's first step is the sign where eps does not matter; 1e-15 / (1e-15 + 1e-8) is 1e-7. Four signs in sixteen
# elements have a root mean square of 1/2, which a limit of 1/4 halves.
KNOWN_ANSWERS = [
    ("emerging_soap_defaults", "w", (0, 0), 1 - 0.1 * 0.01 - 0.1, 1e-6),
    ("emerging_soap_defaults", "w", (1, 1), 1 - 0.1 * 0.01 + 0.1, 1e-6),
    ("emerging_soap_defaults", "w", (0, 1), 0.0, 0.0),
    ("emerging_soap_clipped", "w", (3, 3), -0.05, 1e-6),
    ("emerging_soap_tiny_statistics", "w", (0, 0), -0.1, 1e-7),
    ("emerging_soap_tiny_statistics", "w", (1, 1), -1e-8, 1e-12),
]

# ---- the package, and the same in f64 -------------------------------------------------------------------------------


def peer(spec):
    return "emerging_optimizers.soap.SOAP"


def run(spec, before, grads):
    return step_torch_optimizer(spec, before, grads, lambda params: SOAP(params, **parsed_options(spec)))


def exact(spec, param, grads):
    options = DEFAULTS | parsed_options(spec)
    del options["fp32_matmul_prec"], options["qr_fp32_matmul_prec"]
    if options["correct_shampoo_beta_bias"] is None:
        options["correct_shampoo_beta_bias"] = options["correct_bias"]
    return reference.soap(param, grads, **options)


def tolerance(spec):
    return "soap" if spec["dtype"] == "f32" else "soap_bf16"


def constructors():
    yield "emerging-optimizers", emerging_peer.VERSION, "soap", SOAP, DEFAULTS
    yield "emerging-optimizers", emerging_peer.VERSION, "rekls", REKLS, {}
