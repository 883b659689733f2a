# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""The update rules in f64 from their equations, one function for each rule, named as its paper names it. No peer's code
is used here: the distance of a peer, and of Stepfuse, to these is the rounding of its own arithmetic.

An orthogonaliser takes the matrix (or a batch of them) that momentum made and returns the update, scale included.
"""

import itertools
import math

import numpy as np

# ---- Newton-Schulz --------------------------------------------------------------------------------------------------

SIMPLE = [(3.4445, -4.7750, 2.0315)]
QUINTIC = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
           (2.8366, -3.0525, 1.2012)]
# name: triples, and what follows the last of them
COEFFICIENTS = {
    "simple": (SIMPLE, "cycle"),
    "quintic": (QUINTIC, "cycle"),
    "polar_express": ([(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250),
                       (3.2856, -2.4153, 0.4853), (2.2779, -1.6198, 0.3985), (1.8726, -1.2307, 0.3585),
                       (1.8564, -1.2132, 0.3568), (1.8750, -1.2500, 0.3750)], "repeat_last"),
    "cans": ([(8.4703, -25.1081, 18.6293), (4.1828, -3.1087, 0.5806), (3.9619, -2.9541, 0.5630),
              (3.2866, -2.4647, 0.5074), (2.2737, -1.6447, 0.4162)], "repeat_last"),
    "aol": ([(4.0098, -7.0585, 2.4635), (3.4585, -5.5479, 2.5959), (2.7573, -3.2939, 1.4254),
             (2.7215, -3.0494, 1.3169)], "cycle"),
    "deepseekv4": (SIMPLE * 8 + [(2.0, -1.5, 0.5)] * 2, "repeat_last"),
}
# Polar Express of dion (the safety factor 1.02 is in all but the last), and of gram-newton-schulz before it divides.
POLAR_EXPRESS_DION = [(8.156554524902461, -22.48329292557795, 15.878769915207462),
                      (4.042929935166739, -2.808917465908714, 0.5000178451051316),
                      (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
                      (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
                      (2.3465413258596377, -1.7097828382687081, 0.42323551169305323)]
POLAR_EXPRESS_RAW = [(8.28721201814563, -23.595886519098837, 17.300387312530933),
                     (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
                     (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
                     (3.3184196573706015, -2.488488024314874, 0.51004894012372),
                     (2.300652019954817, -1.6689039845747493, 0.4188073119525673)]


def with_safety(triples, factor):
    """p(s / factor), written as a polynomial in s."""
    return [(a / factor, b / factor**3, c / factor**5) for a, b, c in triples]


def triples_for(coefficient_type, steps):
    """One triple for each iteration."""
    triples, after_last = COEFFICIENTS[coefficient_type]
    if after_last == "cycle":
        return list(itertools.islice(itertools.cycle(triples), steps))
    return list(itertools.islice(itertools.chain(triples, itertools.repeat(triples[-1])), steps))


def clamped(norm, eps):
    return np.maximum(norm, eps)


def added(norm, eps):
    return norm + eps


def added_to_102_percent(norm, eps):
    return 1.02 * norm + eps


def newton_schulz(matrix, triples, eps, guard=clamped):
    """X <- a X + (b A + c A A) X with A = X X^T, on the shorter side, after division by the Frobenius norm."""
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = np.swapaxes(matrix, -1, -2) if tall else matrix
    x = x / guard(np.sqrt(np.sum(x * x, axis=(-2, -1), keepdims=True)), eps)
    for a, b, c in triples:
        gram = x @ np.swapaxes(x, -1, -2)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return np.swapaxes(x, -1, -2) if tall else x


def polar_factor(matrix):
    """The nearest orthogonal matrix, and the singular values."""
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right, singular


# ---- scales ---------------------------------------------------------------------------------------------------------

SCALES = {
    "shape_scaling": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "spectral": lambda rows, columns: math.sqrt(max(rows, columns)),
    "unit_rms_norm": lambda rows, columns: math.sqrt(rows / columns),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "none": lambda rows, columns: 1.0,
}


def scale(mode, shape):
    return SCALES[mode](shape[-2], shape[-1])


# ---- momentum, decay, Muon ------------------------------------------------------------------------------------------


def momentum_lerp(buffer, grad, momentum, nesterov):
    """M <- mu M + (1 - mu) G. Returns M, and what the update is made of."""
    buffer = momentum * buffer + (1 - momentum) * grad
    return buffer, (momentum * buffer + (1 - momentum) * grad) if nesterov else buffer


def momentum_sum(buffer, grad, momentum, nesterov):
    """M <- mu M + G."""
    buffer = momentum * buffer + grad
    return buffer, (momentum * buffer + grad) if nesterov else buffer


def decayed(param, grad, lr, weight_decay, method):
    """Decay as a step of its own: returns the parameter and the gradient after it."""
    if method == "l2":
        return param, grad + weight_decay * param
    strength = {"decoupled": lr, "independent": 1.0, "palm": lr * lr}[method] * weight_decay
    return (1 - strength) * param, grad


def cautious_decay(param, update, lr, weight_decay):
    """Decay only where the update moves the parameter towards 0, or one of the two is 0."""
    return param - lr * weight_decay * param * (param * update >= 0)


def muon(param, grads, orthogonalise, *, lr, momentum, weight_decay, form=momentum_lerp, nesterov=False,
         weight_decay_method="decoupled", second_moment=None, cautious=False):
    """Returns the parameter after one step for each gradient. second_moment(update, gradient, momentum) -> update."""
    param, buffer = param.astype(np.float64), np.zeros(param.shape)
    for grad in (g.astype(np.float64) for g in grads):
        if not cautious:
            param, grad = decayed(param, grad, lr, weight_decay, weight_decay_method)
        buffer, direction = form(buffer, grad, momentum, nesterov)
        update = orthogonalise(direction)
        if second_moment is not None:
            update = second_moment(update, grad, direction)
        if cautious:
            param = cautious_decay(param, update, lr, weight_decay)
        param = param - lr * update
    return param


# ---- second moments of Muon: each makes a function with a state of its own -------------------------------------------


def adamuon(beta2, eps):
    moment = 0.0

    def normalise(update, grad, direction):
        nonlocal moment
        moment = beta2 * moment + (1 - beta2) * update**2
        return update / (np.sqrt(moment) + eps)

    return normalise


def normuon_by_shape(beta2, eps):
    """Second moment of each row, of each column where the matrix is wide; the Frobenius norm is kept."""
    moment = 0.0

    def normalise(update, grad, direction):
        nonlocal moment
        axis = -1 if update.shape[-2] >= update.shape[-1] else -2
        moment = beta2 * moment + (1 - beta2) * np.mean(update**2, axis=axis, keepdims=True)
        normalised = update / np.sqrt(np.maximum(moment, eps))
        return normalised * np.linalg.norm(update) / max(np.linalg.norm(normalised), eps)

    return normalise


def normuon_by_row(beta2, eps):
    moment = 0.0

    def normalise(update, grad, direction):
        nonlocal moment
        moment = beta2 * moment + (1 - beta2) * np.mean(update**2, axis=-1, keepdims=True)
        normalised = update / (np.sqrt(moment) + eps)
        norms = [np.sqrt(np.sum(x * x, axis=(-2, -1), keepdims=True)) for x in (update, normalised)]
        return normalised * norms[0] / np.maximum(norms[1], eps)

    return normalise


def namo(beta2, eps):
    """One factor for the whole matrix: the norm of the direction over the root mean square of the gradients' norms."""
    moment = 0.0

    def normalise(update, grad, direction):
        nonlocal moment
        moment = beta2 * moment + (1 - beta2) * np.sum(grad**2)
        return update * np.linalg.norm(direction) / (np.sqrt(moment) + eps)

    return normalise


# ---- elementwise rules ----------------------------------------------------------------------------------------------


def elementwise(param, grads, direction, *, lr, weight_decay, weight_decay_method="decoupled", cautious=False):
    """direction(gradient, step) -> update, with a state of its own."""
    param = param.astype(np.float64)
    for step, grad in enumerate((g.astype(np.float64) for g in grads), start=1):
        if not cautious:
            param, grad = decayed(param, grad, lr, weight_decay, weight_decay_method)
        update = direction(grad, step)
        if cautious:
            param = cautious_decay(param, update, lr, weight_decay)
        param = param - lr * update
    return param


def lion(betas):
    m = 0.0

    def direction(grad, step):
        nonlocal m
        update = np.sign(betas[0] * m + (1 - betas[0]) * grad)
        m = betas[1] * m + (1 - betas[1]) * grad
        return update

    return direction


def nesterov_or_plain(m, grad, beta, step, correct_bias, nesterov):
    now, next_step = (1 - beta**step, 1 - beta ** (step + 1)) if correct_bias else (1.0, 1.0)
    return beta * m / next_step + (1 - beta) * grad / now if nesterov else m / now


def signum(momentum, correct_bias, nesterov, use_shape_scaling):
    m = 0.0

    def direction(grad, step):
        nonlocal m
        m = momentum * m + (1 - momentum) * grad
        size = 2 / sum(grad.shape) if use_shape_scaling else 1.0
        return size * np.sign(nesterov_or_plain(m, grad, momentum, step, correct_bias, nesterov))

    return direction


def adam(betas, eps, correct_bias=True, nesterov=False):
    m = v = 0.0

    def direction(grad, step):
        nonlocal m, v
        m = betas[0] * m + (1 - betas[0]) * grad
        v = betas[1] * v + (1 - betas[1]) * grad**2
        numerator = nesterov_or_plain(m, grad, betas[0], step, correct_bias, nesterov)
        return numerator / (np.sqrt(v / (1 - betas[1] ** step if correct_bias else 1.0)) + eps)

    return direction


def moonlight_adam(betas, eps):
    """As Adam, but eps is added to the root before the correction of its bias."""
    m = v = 0.0

    def direction(grad, step):
        nonlocal m, v
        m = betas[0] * m + (1 - betas[0]) * grad
        v = betas[1] * v + (1 - betas[1]) * grad**2
        return m / (eps + np.sqrt(v)) * np.sqrt(1 - betas[1] ** step) / (1 - betas[0] ** step)

    return direction


# ---- SOAP -----------------------------------------------------------------------------------------------------------


def descending_eigenbasis(factor):
    return np.linalg.eigh(factor)[1][:, ::-1]


def orthogonal_iteration(factor, basis, steps):
    for _ in range(steps):
        basis = np.linalg.qr(factor @ basis)[0]
    return basis


def rayleigh(factor, basis):
    """The diagonal of Q^T F Q: what the eigenvalues of F are if Q is nearly its basis."""
    return np.sum((factor @ basis) * basis, axis=0)


def kronecker_statistics(grad, factors, bases, eps, kl):
    """What L and R average: G G^T and G^T G, each weighted by the inverse of the other factor in KL-Shampoo."""
    if not kl:
        return grad @ grad.T, grad.T @ grad
    inverses = []
    for factor, basis in zip(factors, bases):
        inverses.append((basis / np.maximum(rayleigh(factor, basis), eps)) @ basis.T / len(factor))
    return grad @ inverses[1] @ grad.T, grad.T @ inverses[0] @ grad


def refreshed_bases(factors, bases, v, use_eigh, power_iter_steps):
    """The new bases, and the second moment with its rows and columns in the order of the eigenvalues."""
    orders = [np.argsort(-rayleigh(factor, basis), kind="stable") for factor, basis in zip(factors, bases)]
    v = v[orders[0]][:, orders[1]]
    if use_eigh:
        return [descending_eigenbasis(factor) for factor in factors], v
    return [orthogonal_iteration(factor, basis[:, order], power_iter_steps)
            for factor, basis, order in zip(factors, bases, orders)], v


def soap(param, grads, *, lr, betas, shampoo_beta, eps, weight_decay, weight_decay_method, nesterov, correct_bias,
         use_eigh, power_iter_steps, max_update_rms, use_kl_shampoo, correct_shampoo_beta_bias):
    """Adam in the eigenbasis of Shampoo's factors, which is refreshed at every step, the first time by eigh."""
    rows, columns = param.shape
    param, m, v = param.astype(np.float64), np.zeros(param.shape), np.zeros(param.shape)
    factors, bases = [np.zeros((rows, rows)), np.zeros((columns, columns))], [np.eye(rows), np.eye(columns)]
    for step, grad in enumerate((g.astype(np.float64) for g in grads), start=1):
        beta = shampoo_beta
        if correct_shampoo_beta_bias:
            beta = 1 - (1 - shampoo_beta) / (1 - shampoo_beta**step)
        statistics = kronecker_statistics(grad, factors, bases, eps, use_kl_shampoo)
        factors = [beta * factor + (1 - beta) * now for factor, now in zip(factors, statistics)]
        m = bases[0] @ m @ bases[1].T
        bases, v = refreshed_bases(factors, bases, v, use_eigh or step == 1, power_iter_steps)
        m = bases[0].T @ m @ bases[1]
        param, grad = decayed(param, grad, lr, weight_decay, weight_decay_method)
        projected = bases[0].T @ grad @ bases[1]
        m = betas[0] * m + (1 - betas[0]) * projected
        v = betas[1] * v + (1 - betas[1]) * projected**2
        direction = nesterov_or_plain(m, projected, betas[0], step, correct_bias, nesterov)
        direction = direction / (np.sqrt(v / (1 - betas[1] ** step if correct_bias else 1.0)) + eps)
        update = bases[0] @ direction @ bases[1].T
        if max_update_rms > 0:
            update = update * min(1.0, max_update_rms / (np.sqrt(np.mean(update**2)) + 1e-7))
        param = param - lr * update
    return param
