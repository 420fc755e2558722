"""HLO modules as functions of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from strata import _core, arguments, arrays
from strata._core import Error
from strata.arrays import ArraySpec

TARGETS = ("auto", "cpu", "gpu")
# Of a module on a GPU where the caller names none.
SEARCH_SECONDS = 20.0


class Module:
    """A compiled HLO module. Call it with one array for each of `inputs`; it returns a list with one for each of
    `outputs`, in the framework of the inputs: torch, NumPy, JAX or CuPy.

    Nothing is copied, but arrays with gaps, in another layout or not aligned (to 16 bytes on the processor, 256 on a
    GPU). On a GPU the work goes to the caller's current stream and the host does not wait, unless a step of the module
    runs on the host (`notes` says so); it can be recorded to a CUDA graph then, too. A call may come from any thread:
    on the processor calls run side by side, without the GIL; on a GPU one after the other, since they share memory.
    That memory is freed with the module. A recorded graph uses it too: it must not run after the module is dropped, nor
    beside other calls of it."""

    def __init__(self, function: _core.Function, text: str, options: dict[str, Any]):
        """options: those of compile_hlo but progress, with its target as `device` has it."""
        self._function, self._text, self._options = function, text, options
        self._gives_parameters = options["gives_parameters"]
        self._adapters: dict[str, Any] = {}
        self.inputs, self.outputs = specs_of(function)

    @property
    def device(self) -> str:
        """ "gpu" or "cpu"."""
        return "gpu" if self._function.on_gpu else "cpu"

    @property
    def notes(self) -> list[str]:
        """What was done otherwise than planned, one line each: a library that is missing, a part not superoptimized."""
        return list(self._function.notes)

    @property
    def alignment(self) -> int:
        """Bytes that the addresses of out= are multiples of: 16 on the processor, 256 on a GPU."""
        return self._function.alignment

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that the module holds; 0 on the processor."""
        return self._function.held_bytes

    @property
    def text(self) -> str:
        """The HLO text that it was compiled from."""
        return self._text

    def publish(self, number: int, name: str = "") -> None:
        """Lets programs of XLA call it by a number, to the end of the process: for strata.jax."""
        self._function.publish(number, name)

    def torch_operator(self, name: str | None = None, *, backward: Any = None) -> Any:
        """The module as an operator of torch, on its device; see Kernel.torch_operator."""
        from strata import torch_operator

        if self._gives_parameters:
            raise Error("the module writes over its parameters, and operators of torch keep their arguments\n"
                        "  compile it without gives_parameters=True")
        devices = ("CUDA" if self.device == "gpu" else "CPU",)
        return torch_operator.register(self, self._text, "module", name, backward, devices)

    def tvm_ffi_function(self) -> Any:
        """The module as a function of tvm-ffi (pip install apache-tvm-ffi). It takes the inputs, then an array for each
        output, and returns nothing; arrays lie on its device. Raises Error where the package is missing."""
        from strata import tvm_function

        return tvm_function.convert(self)

    def function_on(self, on_gpu: bool) -> _core.Function:
        """What is called with addresses. Raises Error for the device that it is not compiled for."""
        if on_gpu != self._function.on_gpu:
            raise Error(f"the module is compiled for the {self.device}\n  pass arrays there, or compile with target=")
        return self._function

    def __reduce__(self):
        """Pickled and copied as its text and options, and compiled again where it is read. So it may be searched for
        again there, where its result is not in the cache."""
        return _compiled_again, (self._text, self._options)

    def explain(self) -> str:
        """Each step, what makes it, and why it was cut so."""
        return self._function.explanation

    def __call__(self, *given: Any, out: list[Any] | None = None) -> list[Any]:
        """Runs the module. `out`: arrays for the results in place of new ones, of the strides of `outputs` and aligned
        (to 16 bytes on the processor, 256 on a GPU).

        Raises Error where the arrays' number, types, sizes or devices are not those of `inputs` and `outputs`, and
        where they want gradients."""
        arrays.refuse_gradients(given)
        return self.run(given, out)

    def run(self, given: Sequence[Any], out: list[Any] | None = None) -> list[Any]:
        """The same of arrays whose gradients are the caller's to care for."""
        if len(given) != len(self.inputs):
            raise arrays.wrong_number("the module", self.inputs, len(given))
        adapter = self._adapter(arrays.framework_of(given or out or ()))
        places, kept = adapter.addresses(given)
        results = adapter.empty_results() if out is None else out
        to = [adapter.result_address(one) for one in results] if out is None else arrays.given_results(adapter, out)
        self._function.call(places, to, adapter.stream())
        del kept
        return adapter.finished(results) if out is None else results

    def _adapter(self, framework: str):
        adapter = self._adapters.get(framework)
        if adapter is None:
            function = self._function
            adapter = arrays.adapter(framework, self.inputs, self.outputs, function.on_gpu, function.alignment)
            self._adapters[framework] = adapter
        return adapter

    def __repr__(self) -> str:
        of = ", ".join(map(str, self.inputs))
        return f"<strata.Module ({of}) -> ({', '.join(map(str, self.outputs))}) on {self.device}>"


def compile_hlo(text: str, *, target: str = "auto", search_seconds: float | None = None, cache: str | None = None,
                gives_parameters: bool = False, progress: Callable[[str], None] | None = None) -> Module:
    """Compiles HLO text, as XLA prints it and as jax.jit(f).lower(…).as_text("hlo") does, to a Module.

    target: "gpu", the machine's first; "cpu", by LLVM's just-in-time compiler; "auto", the GPU where there is a driver
        and one that kernels are made for, else "cpu".
    search_seconds: time to superoptimize products with what is around them, for the whole module; 0: not at all; None:
        20 on a GPU, else 0, as `strata run` has it. What was found is kept in the cache.
    cache: the folder of the cache of results; None: ~/.cache/strata; "": none.
    gives_parameters: on a GPU, whether calls give away the parameters that the text's input_output_alias names. They are
        written over; with must-alias the result lies there, and out= takes the parameter's own array for it.
    progress: is called with a line that says what is searched, now and then and from any thread, and with "" where a
        search ends. What it raises ends the search and is raised, as Ctrl-C is.

    Raises Error with the place in the text and what to do about it."""
    arguments.need_emitters("compile_hlo")
    arguments.text("the module", text)
    device = device_for(target)
    if search_seconds is None:
        search_seconds = 0 if device is None else SEARCH_SECONDS
    seconds = arguments.seconds("search_seconds", search_seconds)
    options = {"target": "cpu" if device is None else "gpu", "search_seconds": seconds, "cache": cache,
               "gives_parameters": gives_parameters}  # fmt: skip
    return Module(_core.compile_hlo(text, device, seconds, arguments.cache_folder(cache), "<hlo>", gives_parameters,
                                     progress), text, options)


def _compiled_again(text: str, options: dict[str, Any]) -> Module:
    return compile_hlo(text, **options)


def device_for(target: str) -> _core.Device | None:
    """The GPU that a target of compile_hlo means; None: the processor. Raises Error where "gpu" finds none."""
    if target not in TARGETS:
        raise Error(f"target {target!r} is none of {', '.join(map(repr, TARGETS))}\n  write one of them")
    if target == "cpu":
        return None
    if target == "gpu":
        return _open_device()
    try:
        device = _open_device()
        device.architecture
    except Error:
        return None
    return device


@functools.cache
def _open_device() -> _core.Device:
    return _core.Device.open()


def specs_of(function: _core.Function) -> tuple[list[ArraySpec], list[ArraySpec]]:
    """What a function takes and gives."""
    return [_spec(one) for one in function.inputs], [_spec(one) for one in function.results]


def _spec(of: tuple) -> ArraySpec:
    name, dtype, shape, strides = of
    return ArraySpec(name, dtype, shape, arrays.row_major(shape) if strides is None else strides)
