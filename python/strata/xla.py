"""Modules in programs of XLA: custom calls to a handler of the extension, on the processor and on a GPU. Arrays are
read and written where XLA has them, and Python is not called."""

from __future__ import annotations

import hashlib
import threading
from typing import Any, Callable

import jax
import numpy as np

from strata import _core

_TARGET = "strata_call"
#: XLA's names of platforms, by a module's device.
_PLATFORMS = {"cpu": "cpu", "gpu": "CUDA"}
_registered: set[str] = set()
_lock = threading.Lock()


def platform() -> str:
    """The device of JAX's default backend, as a module's: "cpu", "gpu", or another name."""
    name = jax.default_backend()
    return "gpu" if name == "cuda" else name


def call_of(module: Any, results: list[jax.ShapeDtypeStruct]) -> Callable[..., list[Any]]:
    """A module as a function under jax.jit of a program for its device. It stays in memory as long as the process,
    since compiled programs name it by a number: a digest of its text and device, so that a program that JAX kept on
    disk finds it again in another process, where it has been traced, too."""
    text = f"{_core.build_identity()}\n{module.device}\n{module.text}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)
    with _lock:
        if module.device not in _registered:
            jax.ffi.register_ffi_target(_TARGET, _core.xla_handler(), platform=_PLATFORMS[module.device])
            _registered.add(module.device)
    module.publish(number)
    call = jax.ffi.ffi_call(_TARGET, results)
    return lambda *arrays: list(call(*arrays, function=np.int64(number)))
