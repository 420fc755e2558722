"""Arrays of torch, NumPy, JAX and CuPy as addresses, and back, without importing what the caller does not use."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Sequence

from strata._core import Error

#: NumPy's names of HLO's element types; those after it are ml_dtypes' (pip install ml_dtypes).
_NUMPY = {
    "pred": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}
_ML_DTYPES = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e4m3": "float8_e4m3", "f8e3m4": "float8_e3m4",
    "f8e8m0fnu": "float8_e8m0fnu",
    # Each in a byte, in its low bits, as modules have them.
    "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2", "f4e2m1fn": "float4_e2m1fn",
}
_TORCH = {
    **_NUMPY, "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
}


@dataclass(frozen=True)
class ArraySpec:
    """What a module takes or gives: an array's element type as HLO writes it ("f32", "bf16", "s64", "pred"), its sizes
    from the outermost on, and its strides in elements (row-major unless the module's text has a layout)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_row_major(self) -> bool:
        return self.strides == row_major(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of an array without gaps whose last dimension is the innermost."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _same_strides(shape, strides, wanted) -> bool:
    """Whether these address the same elements: those of sizes 1 do not count."""
    return all(size < 2 or a == b for size, a, b in zip(shape, strides, wanted)) or 0 in shape


def _wrong(index: int, spec: ArraySpec, found: str, hint: str = "") -> Error:
    """`found`: element type and sizes as in HLO, then what else there is to say. `hint`: what to do, where that is not
    to convert or to reshape the array."""
    name = f" ('{spec.name}')" if spec.name else ""
    element = found.partition("[")[0]
    if not hint and element not in (spec.dtype, _NUMPY.get(spec.dtype), _TORCH.get(spec.dtype)):
        hint = f"convert the array to {spec.dtype}"
    hint = hint or "give an array of these sizes: they are fixed"
    return Error(f"input {index}{name} is {spec}; got {found}\n  {hint}")


def wrong_number(what: str, wanted: Sequence[ArraySpec], count: int) -> Error:
    """That a call of `what` has another number of inputs than wanted."""
    inputs = "1 input" if len(wanted) == 1 else f"{len(wanted)} inputs"
    return Error(f"{what} takes {inputs}; got {count}\n  give {', '.join(f'{one.name} {one}' for one in wanted)}")


def _typed(inputs: Sequence[ArraySpec], results: Sequence[ArraySpec], dtype_of) -> tuple[list[Any], list[Any]]:
    """The types of a package for what a module takes and gives. Raises Error that names the first for which dtype_of,
    which says why, gives none."""

    def all_of(what: str, specs: Sequence[ArraySpec]) -> list[Any]:
        found = []
        for index, spec in enumerate(specs):
            name = f" ('{spec.name}')" if spec.name else ""
            found.append(dtype_of(spec, f"{what} {index}{name} is {spec}"))
        return found

    return all_of("input", inputs), all_of("result", results)


#: What can be done about types that a package has not.
_WIDER = "or convert it within the module, to s8, u8 or f32"


def _foreign(what: str, array: Any, package: str) -> Error:
    return Error(f"{what} is {type(array).__name__}; the others are {package}\n  give all arrays of one package")


def refuse_gradients(given: Sequence[Any]) -> None:
    """Raises Error for tensors of torch whose gradients are recorded: the results would have none, without a word."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    wanted = [index for index, one in enumerate(given) if isinstance(one, torch.Tensor) and one.requires_grad]
    if wanted and torch.is_grad_enabled():
        raise Error(
            f"input {wanted[0]} requires a gradient, and the results have none\n"
            "  call it under torch.no_grad() or give tensor.detach(); with gradients: torch_operator(backward=…) or"
            " torch.compile(model, backend=\"strata\")"
        )


def given_results(adapter, out: Sequence[Any]) -> list[int]:
    """Where the caller's arrays for the results lie. Raises Error where one is not what the module writes: results are
    written in place, so nothing is converted."""
    if len(out) != len(adapter.results):
        raise Error(
            f"out has {len(out)} arrays for {len(adapter.results)} results\n  give one array for each"
        )
    places = []
    for index, (array, (spec, dtype)) in enumerate(zip(out, adapter.results)):
        element, shape, strides, place = adapter.facts(index, array)
        if element != dtype or tuple(shape) != spec.shape:
            raise Error(
                f"out[{index}] must be {spec}; it is {element}[{','.join(map(str, shape))}]\n"
                "  results are written as they are: give an array of this type and these sizes, or leave out= away"
            )
        if not _same_strides(shape, strides, spec.strides):
            raise Error(
                f"out[{index}] has strides {tuple(strides)}, in elements, and {spec.strides} are written\n"
                "  give an array with these strides, or leave out= away and copy the result"
            )
        if place % adapter.alignment:
            raise Error(
                f"out[{index}] does not begin at a multiple of {adapter.alignment} bytes\n"
                "  give an array of its own, not a view into another"
            )
        places.append(place)
    return places


def padded(framework: str, array: Any, shape: tuple[int, ...], fill: str) -> Any:
    """The array at a larger shape: behind its elements the last slice again ("last") or zeros ("zeros")."""
    widths = [(0, to - size) for size, to in zip(array.shape, shape)]
    if not any(more for _, more in widths):
        return array
    if framework == "torch":
        import torch

        for dim, (_, more) in enumerate(widths):
            if more:
                last = array.narrow(dim, array.shape[dim] - 1, 1)
                last = last if fill == "last" else torch.zeros_like(last)
                array = torch.cat([array, last.expand(*(more if d == dim else -1 for d in range(array.dim())))], dim)
        return array
    if framework == "jax":
        import jax.numpy as package
    elif framework == "cupy":
        import cupy as package
    else:
        import numpy as package
    return package.pad(array, widths, mode="edge" if fill == "last" else "constant")


class TorchArrays:
    """Tensors of torch, on the processor or the first GPU."""

    def __init__(self, inputs: list[ArraySpec], results: list[ArraySpec], on_gpu: bool, alignment: int):
        import torch

        self._torch, self._on_gpu, self.alignment = torch, on_gpu, alignment
        self._fake = torch._subclasses.FakeTensor
        self.inputs = self._specs = inputs
        self._device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
        taken, given = _typed(inputs, results, self._dtype)
        self._inputs = [(dtype, torch.Size(one.shape), one.is_row_major) for one, dtype in zip(inputs, taken)]
        self._results = [(dtype, one.shape, one.strides, one.is_row_major) for one, dtype in zip(results, given)]
        self.results = list(zip(results, given))
        self.dtypes = taken, given

    def _dtype(self, spec: ArraySpec, which: str):
        found = getattr(self._torch, _TORCH.get(spec.dtype, "-"), None)
        if found is None:
            package = f"ml_dtypes.{_ML_DTYPES[spec.dtype]}" if spec.dtype in _ML_DTYPES else "NumPy"
            other = f"call a module for the processor with arrays of {package}"
            raise Error(f"{which}, and torch has no such type\n  {other}, {_WIDER}")
        return found

    def addresses(self, arrays) -> tuple[list[int], list[Any]]:
        """Where the arrays lie, and what has to be kept until the call has been made."""
        places, kept = [], []
        device = 0 if self._on_gpu else -1
        for index, (array, (dtype, shape, row_major_wanted)) in enumerate(zip(arrays, self._inputs)):
            if getattr(array, "dtype", None) is not dtype or array.shape != shape or array.get_device() != device:
                self._refuse(index, array)
            if array.layout is not self._torch.strided:
                self._refuse(index, array)
            if array.is_neg() or array.is_conj():  # views, whose elements are not those in memory
                array = array.detach().resolve_conj().resolve_neg()
                kept.append(array)
            if not (array.is_contiguous() if row_major_wanted else self._fits(array, index)):
                array = self._laid_out(array, index)
                kept.append(array)
            try:
                if isinstance(array, self._fake):  # outside of torch.export it has an address, of nothing
                    raise RuntimeError
                place = array.data_ptr()
            except RuntimeError:
                raise Error(
                    f"input {index} is {type(array).__name__}: it has no elements\n"
                    "  under torch.compile and torch.export call what torch_operator() returns"
                ) from None
            if not place and array.is_meta:
                self._refuse(index, array)
            if place % self.alignment:
                array = array.detach().clone()  # a view that begins within another tensor
                kept.append(array)
                place = array.data_ptr()
            places.append(place)
        return places, kept

    def _fits(self, array, index: int) -> bool:
        return _same_strides(array.shape, array.stride(), self._specs[index].strides)

    def _laid_out(self, array, index: int):
        spec = self._specs[index]
        made = self._torch.empty_strided(spec.shape, spec.strides, dtype=array.dtype, device=array.device)
        return made.copy_(array)

    def _refuse(self, index: int, array):
        if not isinstance(array, self._torch.Tensor):
            raise _foreign(f"input {index}", array, "torch's tensors")
        names = {value: key for key, value in _TORCH.items()}
        element = names.get(str(array.dtype).removeprefix("torch."), str(array.dtype))
        found = f"{element}[{','.join(map(str, array.shape))}] on {array.device}"
        hint = ""
        if array.device.type == "cuda" and array.get_device() != 0 and self._on_gpu:
            hint = "Strata uses the first GPU alone: move the tensors to cuda:0, or set CUDA_VISIBLE_DEVICES"
        elif array.device.type == "meta":
            hint = "it has no elements: give a tensor that has"
        elif array.device != self._device:
            hint = f"the module is compiled for {self._device}: move the tensor there, or compile with target="
        elif array.layout is not self._torch.strided:
            found, hint = f"{found} in the layout {array.layout}", "give a dense tensor: x.to_dense()"
        raise _wrong(index, self._specs[index], found, hint)

    def empty_results(self) -> list[Any]:
        made = []
        for dtype, shape, strides, is_row_major in self._results:
            if is_row_major:
                made.append(self._torch.empty(shape, dtype=dtype, device=self._device))
            else:
                made.append(self._torch.empty_strided(shape, strides, dtype=dtype, device=self._device))
        return made

    def result_address(self, array) -> int:
        return array.data_ptr()

    def facts(self, index: int, array):
        """Element type, sizes, strides in elements and address of an array for a result."""
        if not isinstance(array, self._torch.Tensor):
            raise _foreign(f"out[{index}]", array, "torch's tensors")
        if array.get_device() != (0 if self._on_gpu else -1):
            raise Error(
                f"out[{index}] lies on {array.device}, and results are written on {self._device}\n"
                "  make it there, or leave out= away"
            )
        if array.is_conj() or array.is_neg():
            raise Error(
                f"out[{index}] is a {'conjugate' if array.is_conj() else 'negated'} view: its elements are not those in"
                " memory\n  give a tensor that is no such view, as resolve_conj().resolve_neg() makes, or leave out="
                " away"
            )
        return array.dtype, array.shape, array.stride(), array.data_ptr()

    def stream(self) -> int:
        return self._torch.cuda.current_stream(0).cuda_stream if self._on_gpu else 0

    def finished(self, results: list[Any]) -> list[Any]:
        return results


class NumpyArrays:
    """Arrays of NumPy, on the processor."""

    package = "NumPy"

    def __init__(self, inputs: list[ArraySpec], results: list[ArraySpec], on_gpu: bool, alignment: int):
        if on_gpu:
            raise Error(
                f"the module is compiled for the GPU, and {self.package}'s arrays lie in the host's memory\n"
                "  pass torch's or CuPy's arrays on the GPU, or compile with target='cpu'"
            )
        import numpy

        self.inputs, self._numpy, self.alignment = inputs, numpy, alignment
        taken, given = _typed(inputs, results, self._dtype)
        self._inputs, self.results = list(zip(inputs, taken)), list(zip(results, given))

    def _dtype(self, spec: ArraySpec, which: str):
        if spec.dtype in _NUMPY:
            return self._numpy.dtype(_NUMPY[spec.dtype])
        name = _ML_DTYPES.get(spec.dtype)
        if name is None:
            raise Error(f"{which}, and NumPy has no such type\n  convert it within the module, to a type that it has")
        try:
            import ml_dtypes

            return self._numpy.dtype(getattr(ml_dtypes, name))
        except (ImportError, AttributeError) as error:
            missing = "is not installed" if isinstance(error, ImportError) else "is too old for it"
            raise Error(f"{which}: NumPy has it by ml_dtypes.{name}, and ml_dtypes {missing}\n"
                        f"  pip install -U ml_dtypes, {_WIDER}") from None

    def _array(self, index: int, array):
        if not isinstance(array, self._numpy.ndarray) and not isinstance(array, self._numpy.generic):
            raise _foreign(f"input {index}", array, "NumPy's arrays")
        return self._numpy.asarray(array)

    def addresses(self, arrays) -> tuple[list[int], list[Any]]:
        places, kept = [], []
        for index, (given, (spec, dtype)) in enumerate(zip(arrays, self._inputs)):
            array = self._array(index, given)
            if array.dtype != dtype or array.shape != spec.shape:
                names = {value: key for key, value in {**_NUMPY, **_ML_DTYPES}.items()}
                sizes = ",".join(map(str, array.shape))
                found = f"{names.get(array.dtype.name, array.dtype.name)}[{sizes}]"
                if not array.dtype.isnative:
                    raise _wrong(index, spec, f"{found} of the other byte order", "convert it: "
                                 "x.astype(x.dtype.newbyteorder('='))")
                raise _wrong(index, spec, found)
            strides = tuple(stride // dtype.itemsize for stride in array.strides)
            place = array.__array_interface__["data"][0]
            if not _same_strides(array.shape, strides, spec.strides) or place % self.alignment:
                made = self._empty(spec, dtype)
                self._numpy.copyto(made, array)
                array, place = made, made.__array_interface__["data"][0]
            places.append(place)
            kept.append(array)
        return places, kept

    def _empty(self, spec: ArraySpec, dtype):
        """Aligned to 64 bytes, so that JAX takes it as it is."""
        size = math.prod(spec.shape) * dtype.itemsize
        raw = self._numpy.empty(size + 64, self._numpy.uint8)
        start = -raw.__array_interface__["data"][0] % 64
        strides = tuple(stride * dtype.itemsize for stride in spec.strides)
        return self._numpy.ndarray(spec.shape, dtype, raw, start, strides)  # as_strided does not know f8e5m2

    def empty_results(self) -> list[Any]:
        return [self._empty(spec, dtype) for spec, dtype in self.results]

    def result_address(self, array) -> int:
        return array.__array_interface__["data"][0]

    def facts(self, index: int, array):
        if not isinstance(array, self._numpy.ndarray):
            raise _foreign(f"out[{index}]", array, "NumPy's arrays")
        if not array.flags.writeable:
            raise Error(f"out[{index}] cannot be written\n  give an array that is not read-only")
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return array.dtype, array.shape, strides, self.result_address(array)

    def stream(self) -> int:
        return 0

    def finished(self, results: list[Any]) -> list[Any]:
        return results


class JaxArrays(NumpyArrays):
    """Arrays of JAX on the processor. Under jit, vmap and grad use strata.jax.jit."""

    package = "JAX"

    def __init__(self, inputs: list[ArraySpec], results: list[ArraySpec], on_gpu: bool, alignment: int):
        super().__init__(inputs, results, on_gpu, alignment)
        import jax

        self._jax = jax

    def _array(self, index: int, array):
        if isinstance(array, self._jax.core.Tracer):
            raise Error(f"input {index} is a tracer of JAX: it has no elements yet\n  use strata.jax.jit under jit")
        if not isinstance(array, self._jax.Array):
            raise _foreign(f"input {index}", array, "JAX's arrays")
        return self._numpy.asarray(array)  # waits until it is computed, and shares its memory

    def facts(self, index: int, array):
        if isinstance(array, self._jax.Array):
            raise Error(f"out[{index}] is an array of JAX, which nobody may write\n  leave out= away")
        return super().facts(index, array)

    def finished(self, results: list[Any]) -> list[Any]:
        return [self._jax.device_put(one, self._jax.devices("cpu")[0], may_alias=True) for one in results]


class CupyArrays:
    """Arrays of CuPy on the first GPU."""

    def __init__(self, inputs: list[ArraySpec], results: list[ArraySpec], on_gpu: bool, alignment: int):
        if not on_gpu:
            raise Error("the module is compiled for the processor, and CuPy's arrays lie on a GPU\n  compile with gpu")
        import cupy

        self.inputs, self._cupy, self.alignment = inputs, cupy, alignment
        taken, given = _typed(inputs, results, self._dtype)
        self._inputs, self.results = list(zip(inputs, taken)), list(zip(results, given))

    def _dtype(self, spec: ArraySpec, which: str):
        if spec.dtype not in _NUMPY:
            other = "call the module with torch's tensors" if spec.dtype in _TORCH else "compile for the processor"
            raise Error(f"{which}, and CuPy has no such type\n  {other}, {_WIDER}")
        return self._cupy.dtype(_NUMPY[spec.dtype])

    def addresses(self, arrays) -> tuple[list[int], list[Any]]:
        places, kept = [], []
        for index, (array, (spec, dtype)) in enumerate(zip(arrays, self._inputs)):
            if not isinstance(array, self._cupy.ndarray):
                raise _foreign(f"input {index}", array, "CuPy's arrays")
            if array.dtype != dtype or array.shape != spec.shape or array.device.id != 0:
                sizes = ",".join(map(str, array.shape))
                raise _wrong(index, spec, f"{array.dtype.name}[{sizes}] on GPU {array.device.id}")
            strides = tuple(stride // dtype.itemsize for stride in array.strides)
            if not _same_strides(array.shape, strides, spec.strides) or array.data.ptr % self.alignment:
                made = self._empty(spec, dtype)
                made[...] = array
                array = made
            places.append(array.data.ptr)
            kept.append(array)
        return places, kept

    def _empty(self, spec: ArraySpec, dtype):
        size = math.prod(spec.shape) * dtype.itemsize
        strides = tuple(stride * dtype.itemsize for stride in spec.strides)
        memory = self._cupy.cuda.alloc(max(size, 1))
        return self._cupy.ndarray(spec.shape, dtype, memptr=memory, strides=strides)

    def empty_results(self) -> list[Any]:
        return [self._empty(spec, dtype) for spec, dtype in self.results]

    def result_address(self, array) -> int:
        return array.data.ptr

    def facts(self, index: int, array):
        if not isinstance(array, self._cupy.ndarray):
            raise _foreign(f"out[{index}]", array, "CuPy's arrays")
        if array.device.id != 0:
            raise Error(
                f"out[{index}] lies on GPU {array.device.id}, and results are written on the first\n"
                "  make it under cupy.cuda.Device(0), or leave out= away"
            )
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return array.dtype, array.shape, strides, array.data.ptr

    def stream(self) -> int:
        return self._cupy.cuda.get_current_stream().ptr

    def finished(self, results: list[Any]) -> list[Any]:
        return results


class TvmArrays:
    """Tensors of tvm-ffi, on the processor or the first GPU. tvm-ffi makes no arrays, so nothing can be copied: tensors
    must lie as they are read."""

    def __init__(self, inputs: list[ArraySpec], results: list[ArraySpec], on_gpu: bool, alignment: int):
        import tvm_ffi

        self._package, self._on_gpu, self.inputs, self.alignment = tvm_ffi, on_gpu, inputs, alignment
        self._device = tvm_ffi.device("cuda" if on_gpu else "cpu", 0)
        taken, given = _typed(inputs, results, self._dtype)
        self._inputs, self.results = list(zip(inputs, taken)), list(zip(results, given))

    def _dtype(self, spec: ArraySpec, which: str) -> str:
        if spec.dtype not in _TORCH:
            raise Error(f"{which}, which tvm-ffi's functions do not take\n  call the module itself, with NumPy's "
                        f"arrays, {_WIDER}")
        return _TORCH[spec.dtype]

    def addresses(self, arrays) -> list[int]:
        places = []
        for index, (array, (spec, dtype)) in enumerate(zip(arrays, self._inputs)):
            element, shape, strides, place = self.facts(index, array, "input ")
            if element != dtype or shape != spec.shape:
                raise _wrong(index, spec, f"{element}[{','.join(map(str, shape))}]")
            if not _same_strides(shape, strides, spec.strides) or place % self.alignment:
                raise Error(
                    f"input {index} has strides {strides}, in elements, and begins at {place:#x}; it is read with "
                    f"strides {spec.strides}, from a multiple of {self.alignment} bytes on\n  pass a contiguous copy"
                )
            places.append(place)
        return places

    def facts(self, index: int, array, what: str = "result "):
        device = array.device
        if device.type != self._device.type or device.index != 0:
            raise Error(
                f"{what}{index} lies on {device.type}:{device.index}; others lie on {self._device.type}:0\n"
                "  put all tensors there"
            )
        return str(array.dtype), tuple(array.shape), tuple(array.strides), array.data_ptr()

    def stream(self) -> int:
        return self._package.get_raw_stream(self._device) if self._on_gpu else 0


_FRAMEWORKS = {"torch": TorchArrays, "numpy": NumpyArrays, "jax": JaxArrays, "jaxlib": JaxArrays, "cupy": CupyArrays}


def framework_of(arrays: Sequence[Any]) -> str:
    """The package whose arrays these are: a key of adapter(). Of none: NumPy's."""
    for array in arrays:
        for base in type(array).__mro__:
            package = base.__module__.partition(".")[0]
            if package in _FRAMEWORKS:
                return "jax" if package == "jaxlib" else package
    if arrays:
        raise Error(
            f"input 0 is {type(arrays[0]).__name__}, which is no array that Strata takes\n"
            "  pass arrays of torch, NumPy, JAX or CuPy"
        )
    return "numpy"


def adapter(framework: str, inputs: list[ArraySpec], results: list[ArraySpec], on_gpu: bool, alignment: int):
    """What makes addresses of a framework's arrays, for one module."""
    return _FRAMEWORKS[framework](inputs, results, on_gpu, alignment)
