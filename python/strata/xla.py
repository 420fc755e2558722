"""Modules in programs of XLA: custom calls to a handler of the extension, on the processor and, by CUDA, on a GPU on
XLA's stream. Arrays are read and written where XLA has them, and Python is not called.

Tracing does not know what a program will run on, so a call is an operator of JAX of its own, and each platform has a
lowering, which compiles the module for it. Where a program is lowered for several, it is compiled for each."""

from __future__ import annotations

import functools
import hashlib
import threading
from typing import Any, Protocol

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from strata import _core

_TARGET = "strata_call"
_HANDLERS = {"cpu": ("cpu", _core.xla_handler), "cuda": ("CUDA", _core.xla_gpu_handler)}
_registered: set[str] = set()
_lock = threading.Lock()


class Compiled(Protocol):
    """What is called. JAX keeps it with the program, and tells one from others by identity."""

    name: str
    results: list[jax.ShapeDtypeStruct]
    target: str  # as strata.compile_hlo has it; with "cpu" no module is compiled for a GPU
    options: str  # what else the module is compiled by

    def module(self, target: str) -> Any:
        """The module for "cpu" or "gpu"."""


def call(compiled: Compiled, *arrays: Any) -> list[Any]:
    """A call in a program of JAX."""
    return _call.bind(*arrays, compiled=compiled)


_call = Primitive("strata_call")
_call.multiple_results = True


@_call.def_abstract_eval
def _results(*_, compiled: Compiled) -> list[Any]:
    return [jax.core.ShapedArray(one.shape, one.dtype) for one in compiled.results]


@_call.def_impl
def _at_once(*arrays, compiled: Compiled) -> list[Any]:
    return jax.jit(functools.partial(call, compiled))(*arrays)


def _published(module: Any, platform: str, compiled: Compiled) -> int:
    """The number by which compiled programs name a module. It stays in memory as long as the process. The number is a
    digest of the module's text and of what it is compiled for and by, so that a program that JAX kept on disk finds it
    again in another process, where it has been lowered, too."""
    text = f"{_core.build_identity()}\n{platform}\n{compiled.options}\n{module.text}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)
    with _lock:
        if platform not in _registered:
            platform_of_xla, handler = _HANDLERS[platform]
            jax.ffi.register_ffi_target(_TARGET, handler(), platform=platform_of_xla)
            _registered.add(platform)
    module.publish(number, compiled.name)
    return number


def _as_custom_call(platform: str, target: str, ctx, operands, compiled: Compiled):
    number = _published(compiled.module(target), platform, compiled)
    return jax.ffi.ffi_lowering(_TARGET)(ctx, *operands, function=np.int64(number))


def _call_back(*arrays, compiled: Compiled) -> list[Any]:
    """On the processor, where XLA's program runs on something else and Strata has no module for that."""
    def host(*leaves):
        module = compiled.module("cpu")
        given = [np.ascontiguousarray(leaf).reshape(np.shape(leaf)) for leaf in leaves]
        return [np.asarray(result) for result in module(*given)]

    return list(jax.pure_callback(host, compiled.results, *arrays))


_by_call_back = mlir.lower_fun(_call_back, multiple_results=True)


def _lower_for_cpu(ctx, *operands, compiled: Compiled):
    return _as_custom_call("cpu", "cpu", ctx, operands, compiled)


def _lower_for_cuda(ctx, *operands, compiled: Compiled):
    if compiled.target == "cpu":
        return _by_call_back(ctx, *operands, compiled=compiled)
    return _as_custom_call("cuda", "gpu", ctx, operands, compiled)


mlir.register_lowering(_call, _by_call_back)
mlir.register_lowering(_call, _lower_for_cpu, platform="cpu")
mlir.register_lowering(_call, _lower_for_cuda, platform="cuda")
