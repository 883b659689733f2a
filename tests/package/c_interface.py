# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""As much of stepfuse.h as a step of SGD takes, through ctypes: how a Python program embeds the library."""
import ctypes


class Option(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("settings", ctypes.POINTER(Option)),
        ("settings_count", ctypes.c_size_t),
        ("config_path", ctypes.c_char_p),
        ("log", ctypes.c_void_p),
        ("log_user", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("allocator_user", ctypes.c_void_p),
    ]


class Parameter(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("dtype", DType),
        ("grad_dtype", DType),
        ("state_dtype", DType),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("grad_strides", ctypes.POINTER(ctypes.c_int64)),
        ("flags", ctypes.c_uint32),
        ("master_dtype", DType),
        ("state_layouts", ctypes.c_void_p),
        ("state_layouts_count", ctypes.c_size_t),
    ]


class Binding(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("param", ctypes.POINTER(Tensor)),
        ("grad", ctypes.POINTER(Tensor)),
        ("states", ctypes.c_void_p),
        ("states_count", ctypes.c_size_t),
        ("master", ctypes.POINTER(Tensor)),
    ]


def sgd_step(library: str, **settings: str) -> None:
    """One step of SGD with lr 0.5: 3 - 0.5 * 2 = 2, everywhere."""
    sf = ctypes.CDLL(library)
    sf.stepfuse_last_error.restype = ctypes.c_char_p

    def must(status: int) -> None:
        if status != 0:
            raise RuntimeError(f"status {status}: {sf.stepfuse_last_error().decode()}")

    flags = (Option * len(settings))(*((key.encode(), value.encode()) for key, value in settings.items()))
    options = ContextOptions(ctypes.sizeof(ContextOptions), flags, len(settings))
    context, optimizer = ctypes.c_void_p(), ctypes.c_void_p()
    must(sf.stepfuse_context_create(ctypes.byref(options), ctypes.byref(context)))
    must(sf.stepfuse_optimizer_create(context, ctypes.byref(optimizer)))
    group, index = ctypes.c_uint32(), ctypes.c_uint32()
    learning_rate = Option(b"lr", b"0.5")
    must(sf.stepfuse_optimizer_add_group(optimizer, b"sgd", ctypes.byref(learning_rate), 1, ctypes.byref(group)))
    shape = (ctypes.c_int64 * 1)(1000)
    parameter = Parameter(struct_size=ctypes.sizeof(Parameter), name=b"w", ndim=1, shape=shape)
    must(sf.stepfuse_optimizer_add_parameter(optimizer, group, ctypes.byref(parameter), ctypes.byref(index)))
    must(sf.stepfuse_optimizer_prepare(optimizer, None))
    weights, gradients = (ctypes.c_float * 1000)(*[3.0] * 1000), (ctypes.c_float * 1000)(*[2.0] * 1000)
    tensors = [
        Tensor(ctypes.cast(memory, ctypes.c_void_p), 1, 0, 1, DType(2, 32, 1), shape, None, 0)
        for memory in (weights, gradients)
    ]
    binding = Binding(ctypes.sizeof(Binding), ctypes.pointer(tensors[0]), ctypes.pointer(tensors[1]), None, 0, None)
    must(sf.stepfuse_optimizer_bind(optimizer, index, ctypes.byref(binding)))
    must(sf.stepfuse_optimizer_step(optimizer, None))
    assert set(weights) == {2.0}, set(weights)
    must(sf.stepfuse_optimizer_destroy(optimizer))
    must(sf.stepfuse_context_destroy(context))
