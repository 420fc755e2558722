"""Modules in programs of XLA on the processor: custom calls to a handler of the extension. Arrays are read and written
where XLA has them, and Python is not called."""

from __future__ import annotations

import hashlib
import threading
from typing import Any, Callable

import jax
import numpy as np

from strata import _core

_TARGET = "strata_call"
_registered: list[str] = []
_lock = threading.Lock()


def call_of(module: Any, results: list[jax.ShapeDtypeStruct]) -> Callable[..., list[Any]]:
    """A module for the processor as a function under jax.jit. It stays in memory as long as the process, since compiled
    programs name it by a number: a digest of its text, so that a program that JAX kept on disk finds it again in
    another process, where it has been traced, too."""
    text = f"{_core.build_identity()}\n{module.text}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)
    with _lock:
        if not _registered:
            jax.ffi.register_ffi_target(_TARGET, _core.xla_handler(), platform="cpu")
            _registered.append(_TARGET)
    module.publish(number)
    call = jax.ffi.ffi_call(_TARGET, results)
    return lambda *arrays: list(call(*arrays, function=np.int64(number)))
