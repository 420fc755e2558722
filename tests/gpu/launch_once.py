#!/usr/bin/env python3
"""Launches exported kernels once on random inputs, with the driver alone: launch_once.py FOLDER...

For compute-sanitizer, which then sees no kernels but ours:
    compute-sanitizer --tool racecheck --error-exitcode 1 python3 tests/gpu/launch_once.py out/gpu/*
Each FOLDER holds best.sm_90a.cubin and best.launch.json. Outputs are not compared: run.py does that.
"""
import ctypes
import json
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cublas_lt  # noqa: E402
from tensor_maps import arguments_of  # noqa: E402

COOPERATIVE, CLUSTER_DIMENSION = 2, 4
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
cuda = ctypes.CDLL("libcuda.so.1")


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", ctypes.c_uint)]


def check(status, what):
    if status != 0:
        sys.exit(f"{what}: CUDA error {status}")


def launch(folder):
    manifest = json.loads((folder / "best.launch.json").read_text())
    module = ctypes.c_void_p()
    steps = manifest.get("steps", manifest.get("kernels"))
    own_kernels = any("library" not in kernel for kernel in steps)
    if own_kernels:
        check(cuda.cuModuleLoadData(ctypes.byref(module), (folder / "best.sm_90a.cubin").read_bytes()), "module")
    random = numpy.random.default_rng(1)
    pointers, owned = {}, []
    working = ctypes.c_uint64()
    bytes_of = lambda b: int(numpy.prod(b["shape"])) * SIZES[b["type"]]
    shared = [b["offset"] + bytes_of(b) for b in manifest["buffers"] if "offset" in b]
    if shared:
        check(cuda.cuMemAlloc_v2(ctypes.byref(working), ctypes.c_size_t(max(shared))), "memory")
        owned.append(working)
    for b in manifest["buffers"]:
        count = int(numpy.prod(b["shape"]))
        if "offset" in b:
            pointers[b["name"]] = ctypes.c_uint64(working.value + b["offset"])
            continue
        pointer = ctypes.c_uint64()
        owned.append(pointer)
        check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(count * SIZES[b["type"]])), "memory")
        pointers[b["name"]] = pointer
        if b["role"] == "counters":
            check(cuda.cuMemsetD8_v2(pointer, 0, ctypes.c_size_t(count * SIZES[b["type"]])), "counters")
        if b["role"] == "input":
            values = (random.standard_normal(count, dtype=numpy.float32) / 8).astype(numpy.float16)
            check(cuda.cuMemcpyHtoD_v2(pointer, values.ctypes.data_as(ctypes.c_void_p),
                                       ctypes.c_size_t(values.nbytes)), "copy")
    for kernel in steps:
        if "library" in kernel:
            workspace = pointers.setdefault("the library's workspace", ctypes.c_uint64())
            if not workspace.value:
                size = ctypes.c_size_t(kernel["workspace_bytes"])
                check(cuda.cuMemAlloc_v2(ctypes.byref(workspace), size), "memory")
                owned.append(workspace)
            addresses = [pointers[name].value for name in kernel["arguments"]]
            cublas_lt.Product(kernel).run(addresses, workspace.value, None)
            continue
        function = ctypes.c_void_p()
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, kernel["name"].encode()), kernel["name"])
        if kernel["shared_bytes"] > 48 * 1024:
            check(cuda.cuFuncSetAttribute(function, 8, kernel["shared_bytes"]), "shared memory")
        arguments, _alive = arguments_of(cuda, kernel, {name: pointer.value for name, pointer in pointers.items()})
        attributes = (LaunchAttribute * 2)()
        attributes[0].id, attributes[0].value[:3] = CLUSTER_DIMENSION, [kernel["cluster"], 1, 1]
        attributes[1].id, attributes[1].value[0] = COOPERATIVE, 1
        shape = (ctypes.c_uint * 7)(*kernel["grid"], kernel["threads"], 1, 1, kernel["shared_bytes"])
        config = LaunchConfig(shape, None, attributes, 2 if kernel.get("resident") else 1)
        check(cuda.cuLaunchKernelEx(ctypes.byref(config), function, arguments, None), kernel["name"])
    check(cuda.cuCtxSynchronize(), folder.name)
    for pointer in owned:
        check(cuda.cuMemFree_v2(pointer), "free")
    if own_kernels:
        check(cuda.cuModuleUnload(module), "module")
    print("launched", folder.name)


def main():
    check(cuda.cuInit(0), "driver")
    context = ctypes.c_void_p()
    device = ctypes.c_int()
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "device")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "context")
    check(cuda.cuCtxSetCurrent(context), "context")
    for folder in sys.argv[1:]:
        launch(pathlib.Path(folder))


if __name__ == "__main__":
    main()
