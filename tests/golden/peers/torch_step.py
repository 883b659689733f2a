# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Steps any optimizer that has torch's interface."""

import torch

from golden_inputs import gradients_by_step

KINDS = {"f32": torch.float32, "bf16": torch.bfloat16}


def step_torch_optimizer(spec, before, grads, make):
    """make([param]) is the optimizer; each parameter has one to itself. Returns the parameters and their states."""
    kind = KINDS[spec["dtype"]]
    after, states = {}, {}
    for name, value in before.items():
        param = torch.nn.Parameter(torch.from_numpy(value.copy()).to(kind))
        optimizer = make([param])
        for grad in gradients_by_step(spec, grads, name):
            param.grad = torch.from_numpy(grad.copy()).to(kind)
            optimizer.step()
        after[name] = param.detach()
        states[name] = {k: torch.as_tensor(v).float() if k == "step" else v for k, v in optimizer.state[param].items()}
    return after, states
