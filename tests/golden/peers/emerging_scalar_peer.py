# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""emerging-optimizers' elementwise rules. Lion is an optimizer there; of Signum and Adam the package has the update
functions and the decay, which are stepped here in the order of its Lion. It has no RMSProp."""

import torch
from emerging_optimizers.mixin import WeightDecayMixin
from emerging_optimizers.scalar_optimizers import Lion, update_functions

import exact as definitions
import reference_f64 as reference
from golden_inputs import case, gradients_by_step, parsed_options
from peers import emerging_peer
from peers.torch_step import step_torch_optimizer

version = emerging_peer.version
DEFAULTS = {
    "lion": dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.01, weight_decay_method="decoupled"),
    "signum": dict(lr=1e-3, momentum=0.9, weight_decay=0.01, weight_decay_method="decoupled", correct_bias=True,
                   nesterov=False, use_shape_scaling=False),
    "adam": dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, weight_decay_method="decoupled",
                 correct_bias=True, nesterov=False),
}
MATRICES = {"wide": (12, 20), "tall": (20, 12)}
FEW = {"w": (9, 5), "b": (3,)}
TAILS = {f"tail.{n}": (n,) for n in range(1, 41)}

# ---- the cases ------------------------------------------------------------------------------------------------------


def cases():
    for recipe in ("lion", "signum", "adam"):
        base = {"recipe": recipe, "preset": "emerging"}
        # Signum and Adam are no optimizers of the package, which has therefore no defaults for them.
        given = {} if recipe == "lion" else {k: spelled(v) for k, v in DEFAULTS[recipe].items()}
        yield case(f"emerging_{recipe}_defaults", **base, **given)
        yield case(f"emerging_{recipe}_20_steps", shapes=FEW, steps=20, gradients="per_step", **base,
                   **(given | {"lr": "0.01"}))
        for method in emerging_peer.DECAY_METHODS:
            yield case(f"emerging_{recipe}_{method}", shapes=FEW, steps=3, gradients="per_step", **base,
                       **(given | {"lr": "0.1", "weight_decay": "0.1", "weight_decay_method": method}))
        yield case(f"emerging_{recipe}_bf16", steps=3, gradients="per_step", dtype="bf16", **base,
                   **(given | {"lr": "0.01"}))
        yield from special_cases(recipe, base, given)


def spelled(value):
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def special_cases(recipe, base, given):
    if recipe == "lion":
        yield case("emerging_lion_tails", shapes=TAILS, steps=2, gradients="per_step", betas="0.95,0.98", lr="0.01",
                   weight_decay="0.1", **base)
        # Reference case A31: the sign of 0 is 0, so 2 only decays.
        yield case("emerging_lion_zero_gradient", given={"p": ([2.0, 2.0], [0.0, -0.0])}, lr="0.1", weight_decay="0.5",
                   **base)
        return
    for name, options in (("nesterov", {"nesterov": "true"}), ("no_correction", {"correct_bias": "false"}),
                          ("nesterov_no_correction", {"nesterov": "true", "correct_bias": "false"})):
        yield case(f"emerging_{recipe}_{name}", shapes=FEW, steps=3, gradients="per_step", **base,
                   **(given | {"lr": "0.01"} | options))
    if recipe == "signum":
        yield case("emerging_signum_shape_scaling", shapes=MATRICES, steps=2, **base,
                   **(given | {"lr": "1", "use_shape_scaling": "true"}))
        yield case("emerging_signum_zero_gradient", given={"p": ([2.0, 2.0], [0.0, -0.0])}, **base,
                   **(given | {"lr": "0.1", "weight_decay": "0.5"}))


KNOWN_ANSWERS = [
    ("emerging_lion_zero_gradient", "p", (0,), 1.9, 2e-7),
    ("emerging_lion_zero_gradient", "p", (1,), 1.9, 2e-7),
    ("emerging_signum_zero_gradient", "p", (1,), 1.9, 2e-7),
]

# ---- running the package --------------------------------------------------------------------------------------------


class FunctionOptimizer(WeightDecayMixin, torch.optim.Optimizer):
    """The package's decay and one of its update functions, for which it has no class of its own."""

    def __init__(self, params, function, moments, lr, weight_decay, weight_decay_method, **arguments):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.function, self.moments, self.arguments = function, moments, arguments
        self.weight_decay_method = weight_decay_method

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                if not state:
                    state["step"] = 0
                    state.update({key: torch.zeros_like(param) for key in self.moments})
                state["step"] += 1
                self._apply_weight_decay_inplace(param.data, param.grad, group["lr"], group["weight_decay"])
                moments = [state[key] for key in self.moments]
                update = self.function(param.grad, *moments, step=state["step"], **self.arguments)
                param.add_(update, alpha=-group["lr"])


FUNCTIONS = {"signum": (update_functions.calculate_signum_update, ["exp_avg"]),
             "adam": (update_functions.calculate_adam_update, ["exp_avg", "exp_avg_sq"])}


def peer(spec):
    if spec["recipe"] == "lion":
        return "emerging_optimizers.scalar_optimizers.Lion"
    return f"emerging_optimizers.scalar_optimizers.update_functions.{FUNCTIONS[spec['recipe']][0].__name__}"


def options_of(spec):
    return DEFAULTS[spec["recipe"]] | parsed_options(spec)


def run(spec, before, grads):
    options = options_of(spec)
    if spec["recipe"] == "lion":
        return step_torch_optimizer(spec, before, grads, lambda params: Lion(params, **options))
    return step_torch_optimizer(spec, before, grads,
                                lambda params: FunctionOptimizer(params, *FUNCTIONS[spec["recipe"]], **options))


# ---- the same in f64, and bit for bit -------------------------------------------------------------------------------


def exact(spec, param, grads):
    options = options_of(spec)
    decay = {key: options.pop(key) for key in ("lr", "weight_decay", "weight_decay_method")}
    rule = {"lion": reference.lion, "signum": reference.signum, "adam": reference.adam}[spec["recipe"]]
    return reference.elementwise(param, grads, rule(**options), **decay)


def emulate_lion(spec, param, grads):
    return definitions.emerging_lion(definitions.Ops(spec["dtype"]), param, grads, **options_of(spec))


def expected_parameters(spec, before, grads):
    if spec["recipe"] != "lion":
        return {}
    return {n: emulate_lion(spec, p, gradients_by_step(spec, grads, n))[0] for n, p in before.items()}


def expected_states(spec, before, grads):
    if spec["recipe"] != "lion":
        return {}
    return {n: emulate_lion(spec, p, gradients_by_step(spec, grads, n))[1] for n, p in before.items()}


def tolerance(spec):
    return f"elementwise_{spec['dtype']}"


def constructors():
    yield "emerging-optimizers", emerging_peer.VERSION, "lion", Lion, DEFAULTS["lion"]
