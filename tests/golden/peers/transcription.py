# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a peer that no registry has: a transcription in torch that rounds where the published code rounds."""

import torch

from golden_inputs import gradients_by_step

KINDS = {"f32": torch.float32, "bf16": torch.bfloat16}


def run(spec, before, grads, step):
    """step(param, grad, state) changes the parameter and its state in place."""
    after, states = {}, {}
    for name, value in before.items():
        param, state = torch.from_numpy(value.copy()).to(KINDS[spec["dtype"]]), {}
        for grad in gradients_by_step(spec, grads, name):
            step(param, torch.from_numpy(grad.copy()).to(param.dtype), state)
        after[name] = param
        states[name] = {key: torch.as_tensor(v).float() if key == "step" else v for key, v in state.items()}
    return after, states


def newton_schulz_bf16(matrix, triples, divisor):
    """In bf16 throughout, each product and each sum rounded; divisor(norm) is what the matrix is divided by."""
    x = matrix.bfloat16()
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    x = x / divisor(x.norm(dim=(-2, -1), keepdim=True))
    for a, b, c in triples:
        gram = x @ x.mT
        polynomial = b * gram + c * gram @ gram
        x = a * x + polynomial @ x
    return x.mT if tall else x
