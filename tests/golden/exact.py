# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Stepfuse's exact definitions (ir/ops.def) in NumPy, to check a claim of bit-equality before it is written down.

All values are f32 arrays; a bf16 tensor is an f32 array whose values are bf16 numbers. Scalars arrive as Python floats
and are rounded once to f32. Every function rounds its result once to the storage type, as strict mode does.
"""

import numpy as np

f32, f64 = np.float32, np.float64


def fma(a, b, c):
    """a * b + c in f32 with one rounding. The product is exact in f64; the sum is rounded to odd there, which makes the
    second rounding, to f32, harmless."""
    a, b, c = (x.astype(f64) for x in np.broadcast_arrays(*(np.asarray(x, f32) for x in (a, b, c))))
    product = a * b
    total = product + c
    recovered = total - product
    error = (product - (total - recovered)) + (c - recovered)
    is_even = (total.view(np.int64) & 1) == 0
    make_odd = (error != 0) & is_even & np.isfinite(total)
    return np.where(make_odd, np.nextafter(total, np.copysign(np.inf, error)), total).astype(f32)


def round_to_bf16(x):
    bits = np.ascontiguousarray(x, f32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), x, rounded.astype(np.uint32).view(f32))


class Ops:
    """The elementwise ops at one storage type."""

    def __init__(self, dtype):
        self.store = round_to_bf16 if dtype == "bf16" else (lambda x: x)

    def lerp(self, a, b, w):
        w = f32(w)
        return self.store(fma(w, b - a, a) if abs(w) < 0.5 else fma(w - f32(1), b - a, b))

    def mul(self, a, scalar):
        return self.store(a * f32(scalar))

    def addcmul(self, c, value, a, b):
        return self.store(fma(f32(value) * a, b, c))

    def addcdiv(self, c, value, a, b):
        return self.store(c + (f32(value) * a) / b)

    def axpy(self, alpha, x, y):
        return self.store(fma(f32(alpha), x, y))

    def sqrt(self, a):
        return self.store(np.sqrt(a))

    def div(self, a, scalar):
        return self.store(a / f32(scalar))

    def add(self, a, scalar):
        return self.store(a + f32(scalar))


def adam(ops, param, grads, decoupled, lr, betas, eps, weight_decay, amsgrad, maximize):
    """Returns the parameter and the states after one step per gradient."""
    m, v, largest = np.zeros_like(param), np.zeros_like(param), np.zeros_like(param)
    for step, grad in enumerate(grads, start=1):
        grad = -grad if maximize else grad
        if weight_decay != 0 and decoupled:
            param = ops.mul(param, 1 - lr * weight_decay)
        elif weight_decay != 0:
            grad = ops.axpy(weight_decay, param, grad)
        m = ops.lerp(m, grad, 1 - betas[0])
        v = ops.addcmul(ops.mul(v, betas[1]), 1 - betas[1], grad, grad)
        largest = np.maximum(largest, v)
        step_size = lr / (1 - betas[0] ** step)
        root = ops.sqrt(largest if amsgrad else v)
        denominator = ops.add(ops.div(root, (1 - betas[1] ** step) ** 0.5), eps)
        param = ops.addcdiv(param, -step_size, m, denominator)
    states = {"exp_avg": m, "exp_avg_sq": v}
    return param, states | ({"max_exp_avg_sq": largest} if amsgrad else {})


def sgd(ops, param, grads, lr, momentum, dampening, weight_decay, nesterov, maximize):
    buffer = None
    for grad in grads:
        grad = -grad if maximize else grad
        if weight_decay != 0:
            grad = ops.axpy(weight_decay, param, grad)
        if momentum != 0:
            first = buffer is None
            buffer = grad if first else ops.axpy(1 - dampening, grad, ops.mul(buffer, momentum))
            grad = ops.axpy(momentum, buffer, grad) if nesterov else buffer
        param = ops.axpy(-lr, grad, param)
    return param, {} if buffer is None else {"momentum_buffer": buffer}


def muon_buffer(ops, grads, momentum):
    """The state of Muon; its parameter passes through matrix products, for which no claim of bit-equality is made."""
    buffer = np.zeros_like(grads[0])
    for grad in grads:
        buffer = ops.lerp(buffer, grad, 1 - momentum)
    return {"momentum_buffer": buffer}
