# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the peers other than torch and writes data/dialects.json, coefficients.json and scale_factors.json.

A peer is a module of peers/ with
  cases()                          the cases, as golden_inputs.case() makes them
  run(spec, before, grads)         -> ({name: tensor after}, {name: {state: tensor}}), torch tensors
  exact(spec, param, grads)        -> the parameter afterwards in f64, from reference_f64.py
  peer(spec), version(spec)        -> who computed the case
  tolerance(spec)                  -> its tolerance class
  KNOWN_ANSWERS, KNOWN_EXACT       [(case, parameter, index, value, absolute tolerance)] in closed form, of the peer,
                                   and of the reference in f64 where the peer rounds too coarsely to tell
and, where it has them,
  expected_parameters(spec, before, grads)   -> {name: array}, and
  expected_states(spec, before, grads)       -> {name: {state: array}}, both by our exact definitions, for the claims of
                                   bit-equality
  constructors(), coefficient_sets(), scale_factors()   the tables
"""

import inspect
import json

import numpy as np
import torch

from golden_inputs import case_entry, gradients_by_step, make_inputs, seed
from golden_io import write_safetensors
from peers import (dion_reference, emerging_peer, emerging_polar_peer, emerging_scalar_peer, emerging_soap_peer,
                   gns_peer, keller_reference, megatron_peer, moonlight_reference)

PEERS = [emerging_peer, emerging_scalar_peer, emerging_polar_peer, emerging_soap_peer, megatron_peer, gns_peer,
         keller_reference, moonlight_reference, dion_reference]

# How far a peer may be from the reference in f64, relative to the length of the update; storing the parameter comes on
# top. A peer beyond it means that its rule and ours are not the same.
#   elementwise  a few roundings of its element type
#   ns_f32       five to ten iterations, each of which multiplies a rounding by the slope of its polynomial
#   ns_bf16      2.4e-2 at seven iterations of torch, more for sets with steep first polynomials
#   ns_bf16_each the published b * A + c * A @ A and a * X + B @ X round each product and each sum to bf16 by itself:
#                four roundings more an iteration, which `simple` and five steps of Polar Express, not yet settled,
#                amplify
#   ns_f16       the input and the update are rounded to bf16 (2^-9), which the slope of Polar Express at 1 amplifies
#   soap         eigenvectors in f32: a rounding of the statistics over the gap between the eigenvalues; half of what
#                two implementations may differ by
#   svd_f32      as ns_f32: a rounding over the smallest singular value
PEER_ERROR = {"elementwise_f32": 2e-6, "elementwise_bf16": 1e-2, "ns_f32": 5e-5, "ns_bf16": 4e-2, "ns_bf16_each": 1e-1,
              "ns_f16": 2e-2, "soap": 1e-4, "soap_bf16": 1e-2, "svd_f32": 5e-5}
UNIT_ROUNDOFF = {"f32": 2.0**-24, "bf16": 2.0**-9}


def tensor_entry(name, tensor):
    dtype = {torch.float32: "F32", torch.bfloat16: "BF16"}[tensor.dtype]
    return name, dtype, tensor.detach().float().numpy()


def tensor_list(spec, before, grads, after, states, exact):
    dtype = spec["dtype"].upper()
    tensors = [(f"before.{n}", dtype, p) for n, p in before.items()]
    for k, by_name in enumerate(grads, start=1):
        prefix = f"grad.{k}" if spec["gradients"] == "per_step" else "grad"
        tensors += [(f"{prefix}.{n}", dtype, g) for n, g in by_name.items()]
    tensors += [tensor_entry(f"after.{n}", p) for n, p in after.items()]
    tensors += [tensor_entry(f"state.{n}.{k}", v) for n, by_key in states.items() for k, v in by_key.items()]
    return tensors + [(f"exact.{n}", "F64", p) for n, p in exact.items()]


def relative_error(spec, before, after, exact):
    """The distance of the peer to f64, less what storing the parameter may cost, relative to the update."""
    storage = 4 * UNIT_ROUNDOFF[spec["dtype"]] * np.sqrt(spec["steps"]) * np.linalg.norm(exact)
    error = np.linalg.norm(after.detach().double().numpy() - exact)
    if not np.isfinite(error):
        return np.inf
    return max(0.0, error - storage) / max(np.linalg.norm(exact - before), 1e-300)


def check_known_answers(answers, spec, after):
    for _, param, index, value, tolerance in (a for a in answers if a[0] == spec["name"]):
        found = float(after[param][index])
        assert abs(found - value) <= tolerance, f"{spec['name']}: {param}{list(index)} is {found}, not {value}"


def same_bits(expected, tensor):
    return np.array_equal(np.asarray(expected).view(np.int32), tensor.detach().float().numpy().view(np.int32))


def bit_claims(peer, spec, before, grads, after, states):
    """Whether our exact definitions give the parameters, and each state of which they say something, bit for bit."""
    parameters = getattr(peer, "expected_parameters", lambda *_: {})(spec, before, grads)
    expected = getattr(peer, "expected_states", lambda *_: {})(spec, before, grads)
    return (bool(parameters) and all(same_bits(p, after[n]) for n, p in parameters.items()),
            bool(expected) and all(same_bits(v, states[n][k]) for n, e in expected.items() for k, v in e.items()))


def generate(peer, spec, folder):
    before, grads = make_inputs(spec)
    after, states = peer.run(spec, before, grads)
    exact = {n: peer.exact(spec, p, gradients_by_step(spec, grads, n)) for n, p in before.items()}
    check_known_answers(peer.KNOWN_ANSWERS, spec, after)
    check_known_answers(getattr(peer, "KNOWN_EXACT", []), spec, exact)
    tolerance = peer.tolerance(spec)
    for name in before:
        error = relative_error(spec, before[name], after[name], exact[name])
        assert error <= PEER_ERROR[tolerance], f"{spec['name']}: {name} is {error:.2g} from the reference in f64"
    version = peer.version(spec)
    metadata = {"peer": peer.peer(spec), "peer_version": version, "torch": torch.__version__.split("+")[0],
                "numpy": np.__version__, "seed": "none" if spec["given"] else str(seed(spec)),
                "generator": "tests/golden/generate.py"}
    tensors = tensor_list(spec, before, grads, after, states, exact)
    write_safetensors(folder / f"{spec['name']}.safetensors", tensors, metadata)
    equal = bit_claims(peer, spec, before, grads, after, states)
    return case_entry(spec, peer.peer(spec), tolerance, equal) | {"peer_version": version}


def write_cases(folder):
    """Returns the entries of data/dialects.json."""
    entries = [generate(peer, spec, folder) for peer in PEERS for spec in peer.cases()]
    names = [entry["name"] for entry in entries]
    assert len(set(names)) == len(names), "two cases have one name"
    known = {answer[0] for peer in PEERS for answer in [*peer.KNOWN_ANSWERS, *getattr(peer, "KNOWN_EXACT", [])]}
    assert known <= set(names), f"known answers of no case: {known - set(names)}"
    return entries


def signature(package, version, recipe, optimizer, assumed):
    """The arguments of a constructor in its order; one without a default has to be given. `assumed`: what the reference
    in f64 takes the defaults to be."""
    parameters = inspect.signature(optimizer.__init__).parameters.values()
    parameters = [p for p in parameters if p.name not in ("self", "params")]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    wrong = {name: defaults[name] for name, value in assumed.items() if defaults[name] != value}
    assert not wrong, f"{package}'s {recipe} has other defaults: {wrong}"
    arguments = [{"name": p.name} | ({"default": p.default} if p.name in defaults else {}) for p in parameters]
    return {"package": package, "version": version, "recipe": recipe, "class": optimizer.__name__,
            "arguments": arguments}


def transcribed_signature(package, version, recipe, defaults):
    arguments = [{"name": name, "default": value} for name, value in defaults.items()]
    return {"package": package, "version": version, "recipe": recipe, "class": None, "arguments": arguments}


def constructor_rows():
    for peer in PEERS:
        if hasattr(peer, "constructors"):
            yield from (signature(*entry) for entry in peer.constructors())
        else:
            yield from (transcribed_signature(peer.PACKAGE, peer.version(None), recipe, defaults)
                        for recipe, defaults in peer.DEFAULTS.items())


def write_tables(folder):
    """What the packages themselves hold."""
    coefficients = [entry for peer in PEERS for entry in getattr(peer, "coefficient_sets", list)()]
    scales = [entry for peer in PEERS for entry in getattr(peer, "scale_factors", list)()]
    tables = {"coefficients": coefficients, "scale_factors": scales, "constructors": list(constructor_rows())}
    for name, rows in tables.items():
        (folder / f"{name}.json").write_text(json.dumps({"version": 1, name: rows}, indent=1) + "\n")
