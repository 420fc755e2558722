"""What rules work with: the builder, what torch says of the results, and operators with NumPy's broadcasting."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .hlo_builder import COMPLEX, FLOAT8, FLOATS, HALVES, HloBuilder, Value
from .registry import Unsupported
from .types import TORCH_TYPES, hlo_type, wide

Operand = Value | int | float | bool | complex

#: Integers to which torch converts floats by a wider type, and which: uint8 always by int64 (c10/util/TypeCast.h), the
#: others as processors and GPUs do, which have no narrower conversion.
_BY_WIDER_INTEGERS = {"u8": "s64", "s8": "s32", "s16": "s32", "u16": "s32"}


#: Terms up to which a sum is about as exact as a pairwise one in its own type: kernels add up few of them in a thread,
#: and those of threads pairwise. Of longer ones a thread adds many one after the other, and blocks do.
LONGEST_TREE = 4096
#: The same on a GPU, whose threads and blocks each add up few terms of such a sum: in f32 it is as exact as torch's. Of
#: more than FEW_RESULTS results, and of the statistics of norms, sums there are in f32 however long, as torch's are: a
#: variance beside its mean goes through an array once, and blocks share results, only in the array's own type.
LONGEST_ON_GPU = 1 << 18
FEW_RESULTS = 16


def results_of(node: torch.fx.Node) -> Any:
    """What the fake run of the graph gave for a node: a tensor, a number, or a list or tuple of them."""
    return node.meta.get("val")


class Lowering:
    """The lowering of one node. `dtype` and `shape` are the result's; of the first where there are several."""

    def __init__(self, b: HloBuilder, node: torch.fx.Node):
        self.b = b
        self.node = node
        value = results_of(node)
        self.result = value[0] if isinstance(value, (list, tuple)) else value
        self.results = list(value) if isinstance(value, (list, tuple)) else [value]

    @property
    def dtype(self) -> str:
        return hlo_type(self.result.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.result.shape)

    @property
    def on_gpu(self) -> bool:
        return self.result.device.type == "cuda"

    def fakes(self) -> list[Value]:
        """The types and shapes of all results, without names."""
        return [Value("", hlo_type(v.dtype), tuple(v.shape)) for v in self.results]

    # Operands

    def cast(self, x: Value, dtype: str) -> Value:
        """Converts as torch does: to pred by comparing with 0, and from floats to narrow integers by a wider one, so
        that numbers beyond the type wrap around. HLO's conversion gives the nearest number of the type. Of a complex
        number that becomes a real one, the real part stays."""
        if x.dtype == dtype:
            return x
        if x.dtype in FLOAT8 and dtype != "f32":  # torch has no other way from and to them
            return self.cast(self.b.convert(x, "f32"), dtype)
        if dtype in FLOAT8:
            return self._to_float8(self.cast(x, "f32"), dtype)
        if x.dtype in COMPLEX and dtype == "pred":
            return self.b.compare(x, self.b.full(0, x.dtype, x.shape), "NE")
        if dtype in COMPLEX:
            kind = COMPLEX[dtype]
            real, imag = self.parts(x) if x.dtype in COMPLEX else (x, None)
            return self.complex(self.b.convert(real, kind), None if imag is None else self.b.convert(imag, kind))
        if x.dtype in COMPLEX:
            return self.cast(self.parts(x)[0], dtype)
        if x.dtype in FLOATS and dtype in _BY_WIDER_INTEGERS:
            x = self.b.convert(x, _BY_WIDER_INTEGERS[dtype])
        return self.b.convert(x, dtype)

    def _to_float8(self, x: Value, dtype: str) -> Value:
        """What is too large becomes what this version of torch makes of it: the largest number, or NaN or infinity."""
        largest = torch.finfo(TORCH_TYPES[dtype]).max
        of_large, of_infinity = _beyond_float8(dtype, self.result.device.type)
        large = self.b.convert(x, dtype)
        if of_large == largest:
            limit = self.b.full(largest, "f32", x.shape)
            low = self.b.binary("minimum", self.b.binary("maximum", x, self.unary("negate", limit)), limit)
            large = self.b.convert(low, dtype)
            if of_infinity != largest:
                infinite = self.compare(self.unary("abs", x), math.inf, "EQ")
                large = self.b.select(infinite, self.b.convert(x, dtype), large)
        return large

    def parts(self, x: Value) -> tuple[Value, Value]:
        """The real and the imaginary part of complex numbers."""
        kind = COMPLEX[x.dtype]
        return self.b.op("real", [x], kind, x.shape), self.b.op("imag", [x], kind, x.shape)

    def complex(self, real: Value, imag: Value | None = None) -> Value:
        """Complex numbers of two parts of type f32 or f64. Without the second one it is 0."""
        imag = self.b.full(0, real.dtype, real.shape) if imag is None else imag
        return self.b.op("complex", [real, imag], "c64" if real.dtype == "f32" else "c128", real.shape)

    def operand(self, x: Operand, dtype: str, shape: Sequence[int] | None = None) -> Value:
        """A value or number in a type, broadcast to a shape (default: the result's)."""
        shape = self.shape if shape is None else tuple(shape)
        if isinstance(x, Value):
            return self.expand(self.cast(x, dtype), shape)
        if not isinstance(x, (int, float, complex)):
            raise Unsupported(f"an argument of type {type(x).__name__} is not taken")
        return self.b.full(x, dtype, shape)

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """NumPy's broadcasting: sizes of 1 repeat, missing leading dimensions are added."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        first = len(shape) - x.rank
        kept = [d for d in range(x.rank) if x.shape[d] != 1 or shape[first + d] == 1]
        return self.b.broadcast(self.b.reshape(x, [x.shape[d] for d in kept]), shape, [first + d for d in kept])

    def widen(self, x: Value) -> Value:
        """16-bit floats as f32: formulas of several operators round once, as torch's do."""
        return self.cast(x, wide(x.dtype))

    def is_long(self, terms: int, results: int) -> bool:
        """Whether sums of so many terms are to be computed in f64."""
        return terms > LONGEST_ON_GPU and results <= FEW_RESULTS if self.on_gpu else terms > LONGEST_TREE

    def in_f64(self, x: Value) -> Value:
        """Floats and complex numbers in f64; integers as they are."""
        return self.cast(x, "f64") if x.dtype in FLOATS else self.cast(x, "c128") if x.dtype in COMPLEX else x

    def accumulator(self, x: Value) -> Value:
        """For long sums, which torch takes in f64 or pairwise on CPUs (cumulative ones, statistics of batches): in f64
        there, in which errors do not grow with the number of terms; 16-bit floats as f32 on GPUs."""
        return self.widen(x) if self.on_gpu else self.in_f64(x)

    # Elementwise operators with broadcasting; both operands have one type

    def binary(self, opcode: str, x: Operand, y: Operand, dtype: str | None = None) -> Value:
        """By opcode in `dtype` (default: that of the first operand that is a Value), shapes broadcast."""
        x, y = self._pair(x, y, dtype)
        return self.b.binary(opcode, x, y)

    def compare(self, x: Operand, y: Operand, direction: str, dtype: str | None = None) -> Value:
        x, y = self._pair(x, y, dtype)
        return self.b.compare(x, y, direction)

    def select(self, condition: Value, x: Operand, y: Operand, dtype: str | None = None) -> Value:
        dtype = dtype or (x if isinstance(x, Value) else y).dtype
        shapes = [v.shape for v in (condition, x, y) if isinstance(v, Value)]
        shape = torch.broadcast_shapes(*shapes)
        return self.b.select(self.expand(condition, shape), self.operand(x, dtype, shape),
                             self.operand(y, dtype, shape))

    def add(self, x: Operand, y: Operand) -> Value:
        return self.binary("add", x, y)

    def sub(self, x: Operand, y: Operand) -> Value:
        return self.binary("subtract", x, y)

    def mul(self, x: Operand, y: Operand) -> Value:
        return self.binary("multiply", x, y)

    def div(self, x: Operand, y: Operand) -> Value:
        return self.binary("divide", x, y)

    def unary(self, opcode: str, x: Value) -> Value:
        return self.b.unary(opcode, x)

    def _pair(self, x: Operand, y: Operand, dtype: str | None) -> tuple[Value, Value]:
        if dtype is None:
            dtype = next(v.dtype for v in (x, y) if isinstance(v, Value))
        shape = torch.broadcast_shapes(*(v.shape for v in (x, y) if isinstance(v, Value)))
        return self.operand(x, dtype, shape), self.operand(y, dtype, shape)

    # Reductions

    def reduce(self, opcode: str, x: Value, dimensions: Sequence[int], keep: bool = False,
               statistics: bool = False) -> Value:
        """Along dimensions (all where there are none of them given by torch: see `dimensions`). Sums and products of
        16-bit floats are computed in f32 and are of type f32, long ones in f64 and rounded to f32; `statistics` of
        norms are not on a GPU."""
        summed = opcode in ("add", "multiply")
        if summed:
            x = self.widen(x)
        y = x
        if dimensions:
            terms = math.prod(x.shape[d] for d in dimensions)
            exempt = statistics and self.on_gpu
            long = summed and not exempt and self.is_long(terms, x.size // max(terms, 1))
            y = self.cast(self.b.reduce(opcode, self.in_f64(x) if long else x, dimensions), x.dtype)
        return self.b.reshape(y, [1 if d in dimensions else n for d, n in enumerate(x.shape)]) if keep else y

    def mean(self, x: Value, dimensions: Sequence[int], keep: bool = True, statistics: bool = False) -> Value:
        """The mean in f32 (f64 of f64)."""
        count = 1
        for d in dimensions:
            count *= x.shape[d]
        total = self.reduce("add", x, dimensions, keep, statistics)
        return self.div(total, float(count) if total.dtype in FLOATS else count)


@functools.cache
def _beyond_float8(dtype: str, device: str) -> tuple[float, float]:
    """What torch makes of a number that is too large and of infinity: versions of torch differ."""
    with unset_fake_temporarily():
        found = torch.tensor([1e9, math.inf], device=device).to(TORCH_TYPES[dtype]).float().tolist()
    return found[0], found[1]


def dimensions(rank: int, dims: int | Sequence[int] | None, empty_is_all: bool = True) -> list[int]:
    """Dimensions as torch gives them (one, several, None; negative from the end) as sorted numbers."""
    if dims is None or (not isinstance(dims, int) and not dims and empty_is_all):
        return list(range(rank))
    dims = [dims] if isinstance(dims, int) else dims
    return sorted({d % rank if rank else 0 for d in dims}) if rank else []


def is_half(x: Value) -> bool:
    return x.dtype in HALVES


def row_major(x: Value) -> list[int]:
    """The strides of a contiguous array."""
    strides, step = [], 1
    for n in reversed(x.shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return strides
