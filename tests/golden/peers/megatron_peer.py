# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""megatron-core's Muon on one rank, which is emerging-optimizers with other defaults and a split of fused QKV weights.
Options are those of the constructor, not of the training configuration, whose defaults differ. Its AdaptiveMuon cannot
step with this emerging-optimizers: it never sets the scale mode that the base class reads."""

import importlib.metadata
import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that kernels for GPUs are not installed
    from megatron.core.optimizer.emerging_optimizers import TensorParallelAdaptiveMuon, TensorParallelMuon

import exact as definitions
import reference_f64 as reference
from golden_inputs import case, gradients_by_step, parsed_options
from peers import emerging_peer
from peers.torch_step import step_torch_optimizer

VERSION = "0.19.2"
DEFAULTS = dict(lr=3e-4, momentum=0.95, nesterov=True, weight_decay=0.01, use_decoupled_weight_decay=True,
                split_qkv=False, qkv_split_shapes=None, fp32_matmul_prec="medium", coefficient_type="quintic",
                num_ns_steps=5, scale_mode="spectral", extra_scale_factor=1.0, tp_mode="duplicated")

ALL_SHAPES = {"square": (24, 24), "wide": (16, 48), "tall": (48, 16), "odd": (33, 65), "row": (1, 37),
              "column": (37, 1)}
PAIR = {"wide": (12, 20), "tall": (20, 12)}
TINY = {"wide": (6, 10), "tall": (10, 6)}
# Reference case A22: two rows of Q, one of K, one of V.
QKV = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 0.0], [0.0, 1.0]])


def option_sets():
    yield "nesterov_off", {"nesterov": "false"}
    yield "l2", {"use_decoupled_weight_decay": "false", "weight_decay": "0.1"}
    yield "unit_rms_norm", {"scale_mode": "unit_rms_norm", "extra_scale_factor": "0.229416"}
    yield "polar_express", {"coefficient_type": "polar_express", "num_ns_steps": "8", "momentum": "0.9"}
    yield "highest", {"fp32_matmul_prec": "highest"}


def cases():
    # The preset follows the configuration, which leaves Nesterov off.
    recipe = {"recipe": "muon", "preset": "megatron"}
    muon = recipe | {"nesterov": "true"}
    yield case("megatron_muon_defaults", shapes=ALL_SHAPES, **muon)
    yield case("megatron_muon_20_steps", shapes=TINY, steps=20, gradients="per_step", lr="0.1", **muon)
    for name, options in option_sets():
        yield case(f"megatron_muon_{name}", shapes=PAIR, steps=2, gradients="per_step", **recipe,
                   **({"nesterov": "true", "lr": "0.5"} | options))
    split = muon | {"split_qkv": "true", "fp32_matmul_prec": "highest"}
    yield case("megatron_muon_qkv", given={"qkv": (0 * QKV, QKV)}, lr="1", momentum="0", weight_decay="0",
               coefficient_type="simple", scale_mode="shape_scaling", qkv_split_shapes="2,1,1", **split)
    yield case("megatron_muon_qkv_groups", shapes={"qkv": (24, 10)}, steps=2, lr="0.5", qkv_split_shapes="4,2,2",
               **split)
    yield case("megatron_muon_qkv_gated", shapes={"qkv": (24, 10)}, lr="0.5", qkv_split_shapes="4,4,2,2", **split)


# Q as a matrix of its own (p takes diag(0.6, 0.8) to diag(0.722876, 1.119204)), K and V as rows of norm 1.
KNOWN_ANSWERS = [
    ("megatron_muon_qkv", "qkv", (0, 0), -0.722876, 2e-6),
    ("megatron_muon_qkv", "qkv", (1, 1), -1.119204, 1e-6),
    ("megatron_muon_qkv", "qkv", (2, 0), -0.696436, 1e-6),
    ("megatron_muon_qkv", "qkv", (3, 1), -0.696436, 1e-6),
]


def peer(spec):
    return "megatron.core.optimizer.emerging_optimizers.TensorParallelMuon"


def version(spec):
    installed = importlib.metadata.version("megatron-core")
    assert installed == VERSION, f"megatron-core {VERSION} is wanted, not {installed}"
    return f"{installed} with emerging-optimizers {emerging_peer.VERSION}"


def options_of(spec):
    options = DEFAULTS | parsed_options(spec)
    if options["qkv_split_shapes"]:
        options["qkv_split_shapes"] = [int(rows) for rows in options["qkv_split_shapes"]]
    return options


def run(spec, before, grads):
    options = options_of(spec) | {"is_qkv_fn": lambda param: True}
    return step_torch_optimizer(spec, before, grads, lambda params: TensorParallelMuon(params, **options))


def split_blocks(matrix, sizes):
    """Rows lie in groups of Q, K and V; the Q rows of all groups are one matrix, likewise the others."""
    groups = matrix.reshape(-1, sum(sizes), matrix.shape[-1])
    blocks = np.split(groups, np.cumsum(sizes)[:-1], axis=1)
    return [block.reshape(-1, matrix.shape[-1]) for block in blocks]


def join_blocks(blocks, sizes):
    groups = [block.reshape(-1, size, block.shape[-1]) for block, size in zip(blocks, sizes)]
    return np.concatenate(groups, axis=1).reshape(-1, blocks[0].shape[-1])


def scaled_orthogonaliser(options):
    triples = reference.triples_for(options["coefficient_type"], options["num_ns_steps"])

    def orthogonalise(matrix):
        factor = options["extra_scale_factor"] * reference.scale(options["scale_mode"], matrix.shape)
        return factor * reference.newton_schulz(matrix, triples, emerging_peer.EPS)

    sizes = options["qkv_split_shapes"]
    if not options["split_qkv"]:
        return orthogonalise
    return lambda matrix: join_blocks([orthogonalise(block) for block in split_blocks(matrix, sizes)], sizes)


def exact(spec, param, grads):
    options = options_of(spec)
    method = "decoupled" if options["use_decoupled_weight_decay"] else "l2"
    return reference.muon(param, grads, scaled_orthogonaliser(options), lr=options["lr"], momentum=options["momentum"],
                          weight_decay=options["weight_decay"], nesterov=options["nesterov"],
                          weight_decay_method=method)


def expected_states(spec, before, grads):
    options = options_of(spec)
    if not options["use_decoupled_weight_decay"]:
        return {}
    return {n: definitions.muon_buffer(definitions.Ops(spec["dtype"]), gradients_by_step(spec, grads, n),
                                       options["momentum"]) for n in before}


def tolerance(spec):
    return "ns_bf16" if options_of(spec)["fp32_matmul_prec"] == "medium" else "ns_f32"


def constructors():
    yield "megatron-core", VERSION, "muon", TensorParallelMuon, DEFAULTS
    yield "megatron-core", VERSION, "adaptive_muon", TensorParallelAdaptiveMuon, {}
