# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors files whose bytes depend on nothing but their content."""

import json
import struct

import numpy as np


def payload(values, dtype):
    if dtype == "F64":
        return np.ascontiguousarray(values, np.float64).astype("<f8").tobytes()
    values = np.ascontiguousarray(values, np.float32)
    if dtype == "BF16":
        return (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    return values.astype("<f4").tobytes()


def write_safetensors(path, tensors, metadata):
    """tensors: list of (name, dtype, values)."""
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, values in tensors:
        raw = payload(values, dtype)
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(np.shape(values)), "data_offsets": offsets}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
