"""Compiled functions as functions of tvm-ffi, which any of its languages and frameworks calls.

Used by way of Kernel.tvm_ffi_function and Module.tvm_ffi_function."""

from __future__ import annotations

from typing import Any

from strata._core import Error
from strata.arrays import TvmArrays, given_results


def convert(function: Any) -> Any:
    """A tvm_ffi.Function that takes the inputs, then an array for each output, and returns nothing.

    function: it has `inputs`, `outputs` and `function_on(on_gpu)`, which gives the extension's function for the
        processor or the first GPU.

    Raises Error where the package apache-tvm-ffi is not installed."""
    try:
        import tvm_ffi
    except ImportError:
        raise Error("the package tvm_ffi is not installed\n  pip install apache-tvm-ffi") from None
    takes, gives = len(function.inputs), len(function.outputs)
    adapters: dict[bool, TvmArrays] = {}

    def call(*tensors: Any) -> None:
        if len(tensors) != takes + gives:
            raise Error(
                f"the function takes {takes} inputs and {gives} arrays for its results; got {len(tensors)}\n"
                "  give the inputs, then an array for each result"
            )
        for index, one in enumerate(tensors):
            if not isinstance(one, tvm_ffi.Tensor):
                raise Error(f"argument {index} is {type(one).__name__}, no tensor\n  tvm_ffi.from_dlpack makes one")
        on_gpu = any(one.device.type == "cuda" for one in tensors)
        compiled = function.function_on(on_gpu)
        if on_gpu not in adapters:
            adapters[on_gpu] = TvmArrays(function.inputs, function.outputs, on_gpu, compiled.alignment)
        adapter = adapters[on_gpu]
        inputs = adapter.addresses(tensors[:takes])
        compiled.call(inputs, given_results(adapter, tensors[takes:]), adapter.stream())

    return tvm_ffi.convert(call)
