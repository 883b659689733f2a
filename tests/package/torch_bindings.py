# SPDX-FileCopyrightText: The Stepfuse authors
# SPDX-License-Identifier: Apache-2.0
"""torch_bindings.py FOLDER LIBRARY: a step of SGD through the bindings of FOLDER/torch_ratios.py, on tensors that have
as much of torch's interface as these use and lie on the device. Prints what 3 - 0.5 * 2 is there.
"""
import ctypes
import sys
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])
import torch_ratios  # noqa: E402

COUNT = 1000
driver = ctypes.CDLL("libcuda.so.1")


def must(result: int) -> None:
    if result != 0:
        sys.exit(f"the driver answered {result}")


def tensor(value: float) -> SimpleNamespace:
    address, data = ctypes.c_uint64(), (ctypes.c_float * COUNT)(*[value] * COUNT)
    must(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(ctypes.sizeof(data))))
    must(driver.cuMemcpyHtoD_v2(address, data, ctypes.c_size_t(ctypes.sizeof(data))))
    return SimpleNamespace(shape=(COUNT,), dtype="torch.float32", device=SimpleNamespace(index=0),
                           dim=lambda: 1, data_ptr=lambda: address.value)


device, context = ctypes.c_int(), ctypes.c_void_p()
must(driver.cuInit(0))
must(driver.cuDeviceGet(ctypes.byref(device), 0))
must(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
must(driver.cuCtxSetCurrent(context))
parameter = tensor(3.0)
parameter.grad = tensor(2.0)
ours = torch_ratios.Ours(torch_ratios.Library(sys.argv[2]), "sgd", {"lr": 0.5}, [parameter], 0)
ours.step()
must(driver.cuCtxSynchronize())
result = (ctypes.c_float * COUNT)()
must(driver.cuMemcpyDtoH_v2(result, ctypes.c_uint64(parameter.data_ptr()), ctypes.c_size_t(ctypes.sizeof(result))))
ours.close()
print(*set(result))
