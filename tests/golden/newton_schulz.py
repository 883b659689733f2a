# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""torch.optim.Muon's update in f64 from its definition, without torch: the reference for Newton-Schulz in f32."""

import math

import numpy as np


def orthogonalize(matrix, coefficients, steps, eps):
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / max(np.linalg.norm(x), eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x


def scale(rows, columns, adjust_lr_fn):
    if adjust_lr_fn in (None, "original"):
        return math.sqrt(max(1, rows / columns))
    if adjust_lr_fn == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    assert adjust_lr_fn == "spectral_unclamped", adjust_lr_fn
    return math.sqrt(rows / columns)


def muon_f64(param, grads, *, lr, weight_decay, momentum, nesterov, ns_coefficients, eps, ns_steps, adjust_lr_fn):
    """Returns the parameter and the momentum buffer after one step per gradient."""
    param, buffer = param.astype(np.float64), np.zeros(param.shape)
    for grad in (g.astype(np.float64) for g in grads):
        buffer = buffer + (1 - momentum) * (grad - buffer)
        update = grad + momentum * (buffer - grad) if nesterov else buffer
        update = orthogonalize(update, ns_coefficients, ns_steps, eps)
        param = (1 - lr * weight_decay) * param - lr * scale(*param.shape, adjust_lr_fn) * update
    return param, buffer
