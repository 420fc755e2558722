"""Builds one HLO module and prints it as XLA prints it.

A `Value` is a typed array of the module. `HloBuilder` has a method for each operator that the lowerings use; each
checks what it is given, works out the shape of its result and returns a new `Value`. Nothing here knows of torch.

    b = HloBuilder("double")
    x = b.parameter("f32", (4,))
    text = b.text([b.binary("add", x, x)])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("s8", "s16", "s32", "s64")
UNSIGNED = ("u8", "u16", "u32", "u64")
HALVES = ("f16", "bf16")
FLOAT8 = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")  #: nothing is computed in them
COMPLEX = {"c64": "f32", "c128": "f64"}  #: complex types, and the types of their parts

_IDENTITIES = {"add": 0, "multiply": 1, "and": True, "or": False}
_INTEGER_BITS = {name: int(name[1:]) for name in SIGNED + UNSIGNED}


@dataclass(frozen=True)
class Value:
    """An array of the module: its name in the text, its type (HLO's names: f32, pred, s64 …) and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def shape_text(dtype: str, shape: Sequence[int]) -> str:
    """f32[2,3]: a type and a shape as HLO writes them, in row-major layout."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def braces(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def literal(value, dtype: str) -> str:
    """One element as HLO writes it. Integers must fit the type."""
    if dtype == "pred":
        return "true" if value else "false"
    if dtype in COMPLEX:
        value = complex(value)
        return f"({literal(value.real, COMPLEX[dtype])}, {literal(value.imag, COMPLEX[dtype])})"
    if dtype in FLOATS:
        value = float(value)
        return "nan" if math.isnan(value) else repr(value)
    if dtype in _INTEGER_BITS:
        value, bits = int(value), _INTEGER_BITS[dtype]
        low, high = (-(1 << bits - 1), 1 << bits - 1) if dtype in SIGNED else (0, 1 << bits)
        if not low <= value < high:
            raise ValueError(f"{value} does not fit {dtype}")
        return str(value)
    raise ValueError(f"no literals of type {dtype}")


def lowest(dtype: str):
    """The neutral element of maximum."""
    if dtype in FLOATS:
        return -math.inf
    return False if dtype == "pred" else -(1 << _INTEGER_BITS[dtype] - 1) if dtype in SIGNED else 0


def highest(dtype: str):
    """The neutral element of minimum."""
    if dtype in FLOATS:
        return math.inf
    bits = _INTEGER_BITS.get(dtype, 1)
    return True if dtype == "pred" else (1 << bits - 1) - 1 if dtype in SIGNED else (1 << bits) - 1


def identity(opcode: str, dtype: str):
    """The neutral element of a reduction by `opcode`."""
    if opcode in ("maximum", "minimum"):
        return lowest(dtype) if opcode == "maximum" else highest(dtype)
    return _IDENTITIES[opcode]


@dataclass(frozen=True)
class Window:
    """A window of a convolution or reduce-window: one entry for each dimension of the window."""

    size: Sequence[int]
    stride: Sequence[int] | None = None
    pad: Sequence[tuple[int, int]] | None = None
    lhs_dilate: Sequence[int] | None = None
    rhs_dilate: Sequence[int] | None = None

    def text(self) -> str:
        def joined(numbers):
            return "x".join(map(str, numbers))

        parts = [f"size={joined(self.size)}"]
        if self.stride is not None and any(s != 1 for s in self.stride):
            parts.append(f"stride={joined(self.stride)}")
        if self.pad is not None and any(p != (0, 0) for p in self.pad):
            parts.append("pad=" + "x".join(f"{low}_{high}" for low, high in self.pad))
        for name in ("lhs_dilate", "rhs_dilate"):
            numbers = getattr(self, name)
            if numbers is not None and any(n != 1 for n in numbers):
                parts.append(f"{name}={joined(numbers)}")
        return "window={" + " ".join(parts) + "}"

    def results(self, operand: Sequence[int]) -> tuple[int, ...]:
        """The number of places of the window along each dimension of an operand."""
        out = []
        for i, n in enumerate(operand):
            dilated = 0 if n == 0 else (n - 1) * (self.lhs_dilate[i] if self.lhs_dilate else 1) + 1
            dilated += sum(self.pad[i]) if self.pad else 0
            extent = (self.size[i] - 1) * (self.rhs_dilate[i] if self.rhs_dilate else 1) + 1
            out.append(max(0, (dilated - extent) // (self.stride[i] if self.stride else 1) + 1))
        return tuple(out)


class HloBuilder:
    """Collects instructions of one entry computation and the computations that it calls."""

    def __init__(self, name: str = "module"):
        self.name = name
        self.parameters: list[Value] = []
        self._lines: list[str] = []
        self._computations: dict[str, str] = {}
        self._known: dict[str, Value] = {}
        self._count = 0

    # Leaves

    def parameter(self, dtype: str, shape: Sequence[int]) -> Value:
        value = Value(f"parameter.{len(self.parameters)}", dtype, tuple(shape))
        self._lines.append(f"{value.name} = {shape_text(dtype, shape)} parameter({len(self.parameters)})")
        self.parameters.append(value)
        return value

    def constant(self, value, dtype: str) -> Value:
        """A scalar."""
        return self.op("constant", [literal(value, dtype)], dtype, ())

    def array(self, elements: Sequence, dtype: str, shape: Sequence[int]) -> Value:
        """A constant array from its elements in row-major order: for few elements."""
        def nested(elements, shape):
            if not shape:
                return literal(elements[0], dtype)
            step = len(elements) // shape[0] if shape[0] else 0
            return "{" + ",".join(nested(elements[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])) + "}"

        return self.op("constant", [nested(list(elements), tuple(shape))], dtype, shape)

    def full(self, value, dtype: str, shape: Sequence[int]) -> Value:
        return self.broadcast(self.constant(value, dtype), shape, ())

    def iota(self, dtype: str, shape: Sequence[int], dimension: int) -> Value:
        return self.op("iota", [], dtype, shape, f"iota_dimension={dimension}")

    # Instructions

    def op(self, opcode: str, operands: Sequence, dtype: str, shape: Sequence[int], *attributes: str) -> Value:
        """An instruction with one array as its result. The same instruction again is the same value."""
        names = ", ".join(o.name if isinstance(o, Value) else o for o in operands)
        text = f"{shape_text(dtype, shape)} {opcode}({names})" + "".join(f", {a}" for a in attributes if a)
        if text not in self._known:
            self._known[text] = Value(self._emit(opcode, text), dtype, tuple(shape))
        return self._known[text]

    def tuple_op(self, opcode: str, operands: Sequence[Value], results: Sequence[tuple[str, Sequence[int]]],
                 *attributes: str) -> list[Value]:
        """An instruction whose result is a tuple of arrays, given as (dtype, shape)."""
        shapes = ", ".join(shape_text(dtype, shape) for dtype, shape in results)
        names = ", ".join(o.name if isinstance(o, Value) else o for o in operands)
        name = self._emit(opcode, f"({shapes}) {opcode}({names})" + "".join(f", {a}" for a in attributes if a))
        return [self.op("get-tuple-element", [name], dtype, shape, f"index={i}")
                for i, (dtype, shape) in enumerate(results)]

    def unary(self, opcode: str, x: Value) -> Value:
        return self.op(opcode, [x], "pred" if opcode == "is-finite" else x.dtype, x.shape)

    def binary(self, opcode: str, x: Value, y: Value) -> Value:
        self._same(opcode, x, y)
        return self.op(opcode, [x, y], x.dtype, x.shape)

    def compare(self, x: Value, y: Value, direction: str) -> Value:
        self._same("compare", x, y)
        return self.op("compare", [x, y], "pred", x.shape, f"direction={direction}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        self._same("select", x, y)
        if condition.shape != x.shape or condition.dtype != "pred":
            raise ValueError(f"select: a condition {condition} for {x}")
        return self.op("select", [condition, x, y], x.dtype, x.shape)

    def convert(self, x: Value, dtype: str) -> Value:
        return x if x.dtype == dtype else self.op("convert", [x], dtype, x.shape)

    def broadcast(self, x: Value, shape: Sequence[int], dimensions: Sequence[int]) -> Value:
        """Dimension i of x becomes dimension dimensions[i], of the same size."""
        if tuple(shape) == x.shape and tuple(dimensions) == tuple(range(x.rank)):
            return x
        if any(shape[d] != n for d, n in zip(dimensions, x.shape)):
            raise ValueError(f"broadcast of {x} to {shape} along {dimensions}")
        return self.op("broadcast", [x], x.dtype, shape, f"dimensions={braces(dimensions)}")

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        if tuple(shape) == x.shape:
            return x
        if math.prod(shape) != x.size:
            raise ValueError(f"reshape of {x} to {shape}")
        return self.op("reshape", [x], x.dtype, shape)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Dimension i of the result is dimension permutation[i] of x."""
        if list(permutation) == list(range(x.rank)):
            return x
        return self.op("transpose", [x], x.dtype, [x.shape[p] for p in permutation],
                       f"dimensions={braces(permutation)}")

    def slice(self, x: Value, starts: Sequence[int], limits: Sequence[int],
              steps: Sequence[int] | None = None) -> Value:
        steps = steps or [1] * x.rank
        if list(starts) == [0] * x.rank and tuple(limits) == x.shape and list(steps) == [1] * x.rank:
            return x
        ranges = ", ".join(f"[{a}:{b}:{s}]" if s != 1 else f"[{a}:{b}]" for a, b, s in zip(starts, limits, steps))
        shape = [max(0, -(-(b - a) // s)) for a, b, s in zip(starts, limits, steps)]
        return self.op("slice", [x], x.dtype, shape, f"slice={{{ranges}}}")

    def pad(self, x: Value, value: Value, pads: Sequence[tuple[int, int, int]]) -> Value:
        """(low, high, interior) for each dimension; low and high may be negative."""
        if all(p == (0, 0, 0) for p in map(tuple, pads)):
            return x
        shape = [n + low + high + max(0, n - 1) * inner for n, (low, high, inner) in zip(x.shape, pads)]
        text = "x".join(f"{low}_{high}" + (f"_{inner}" if inner else "") for low, high, inner in pads)
        return self.op("pad", [x, value], x.dtype, shape, f"padding={text}")

    def concatenate(self, values: Sequence[Value], dimension: int) -> Value:
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[dimension] = sum(v.shape[dimension] for v in values)
        return self.op("concatenate", values, values[0].dtype, shape, f"dimensions={{{dimension}}}")

    def reverse(self, x: Value, dimensions: Sequence[int]) -> Value:
        return self.op("reverse", [x], x.dtype, x.shape, f"dimensions={braces(dimensions)}") if dimensions else x

    def dot(self, x: Value, y: Value, batch: tuple, contract: tuple, dtype: str) -> Value:
        """batch and contract: (dimensions of x, dimensions of y). Results: batch, the rest of x, the rest of y."""
        shape = [x.shape[d] for d in batch[0]]
        shape += [n for d, n in enumerate(x.shape) if d not in (*batch[0], *contract[0])]
        shape += [n for d, n in enumerate(y.shape) if d not in (*batch[1], *contract[1])]
        attributes = []
        if batch[0]:
            attributes += [f"lhs_batch_dims={braces(batch[0])}"]
        attributes += [f"lhs_contracting_dims={braces(contract[0])}"]
        if batch[1]:
            attributes += [f"rhs_batch_dims={braces(batch[1])}"]
        attributes += [f"rhs_contracting_dims={braces(contract[1])}"]
        return self.op("dot", [x, y], dtype, shape, *attributes)

    def ragged_dot(self, x: Value, y: Value, sizes: Value, contract: tuple, *, ragged: int, group: int,
                   dtype: str) -> Value:
        """Products of groups of sizes[g] rows of x, along its dimension `ragged`, with y's slices along `group`."""
        shape = [n for d, n in enumerate(x.shape) if d not in contract[0]]
        shape += [n for d, n in enumerate(y.shape) if d not in (*contract[1], group)]
        return self.op("ragged-dot", [x, y, sizes], dtype, shape, f"lhs_contracting_dims={braces(contract[0])}",
                       f"rhs_contracting_dims={braces(contract[1])}", f"lhs_ragged_dims={braces([ragged])}",
                       f"rhs_group_dims={braces([group])}")

    def convolution(self, x: Value, w: Value, window: Window, labels: str, shape: Sequence[int], *,
                    feature_groups: int = 1, batch_groups: int = 1, tf32: bool = False) -> Value:
        """`tf32`: operands may be rounded to its 11 significant bits."""
        return self.op("convolution", [x, w], x.dtype, shape, window.text(), f"dim_labels={labels}",
                       f"feature_group_count={feature_groups}" if feature_groups != 1 else "",
                       f"batch_group_count={batch_groups}" if batch_groups != 1 else "",
                       "algorithm=dot_tf32_tf32_f32" if tf32 else "")

    # Instructions that call computations

    def reduce(self, opcode: str, x: Value, dimensions: Sequence[int]) -> Value:
        """x combined by opcode along dimensions, which it loses."""
        shape = [n for d, n in enumerate(x.shape) if d not in dimensions]
        start = self.constant(identity(opcode, x.dtype), x.dtype)
        return self.op("reduce", [x, start], x.dtype, shape, f"dimensions={braces(dimensions)}",
                       f"to_apply={self.combiner(opcode, x.dtype)}")

    def reduce_window(self, opcode: str, x: Value, window: Window) -> Value:
        start = self.constant(identity(opcode, x.dtype), x.dtype)
        return self.op("reduce-window", [x, start], x.dtype, window.results(x.shape), window.text(),
                       f"to_apply={self.combiner(opcode, x.dtype)}")

    def gather(self, x: Value, indices: Value, shape: Sequence[int], *, offset: Sequence[int],
               collapsed: Sequence[int], start_map: Sequence[int], sizes: Sequence[int], vector_dim: int,
               batching: tuple[Sequence[int], Sequence[int]] = ((), ())) -> Value:
        attributes = [f"offset_dims={braces(offset)}", f"collapsed_slice_dims={braces(collapsed)}",
                      f"start_index_map={braces(start_map)}"]
        if batching[0]:
            attributes += [f"operand_batching_dims={braces(batching[0])}",
                           f"start_indices_batching_dims={braces(batching[1])}"]
        return self.op("gather", [x, indices], x.dtype, shape, *attributes, f"index_vector_dim={vector_dim}",
                       f"slice_sizes={braces(sizes)}")

    def scatter(self, combine: str, x: Value, indices: Value, updates: Value, *, window: Sequence[int],
                inserted: Sequence[int], dims_map: Sequence[int], vector_dim: int,
                batching: tuple[Sequence[int], Sequence[int]] = ((), ())) -> Value:
        """combine: an opcode, or "replace", where the last update of an element stays."""
        attributes = [f"update_window_dims={braces(window)}", f"inserted_window_dims={braces(inserted)}",
                      f"scatter_dims_to_operand_dims={braces(dims_map)}"]
        if batching[0]:
            attributes += [f"input_batching_dims={braces(batching[0])}",
                           f"scatter_indices_batching_dims={braces(batching[1])}"]
        return self.op("scatter", [x, indices, updates], x.dtype, x.shape, *attributes,
                       f"index_vector_dim={vector_dim}", f"to_apply={self.combiner(combine, x.dtype)}")

    def combiner(self, opcode: str, dtype: str) -> str:
        """The computation of two scalars that combines them by opcode, or keeps the second one ("replace")."""
        scalar = shape_text(dtype, ())
        last = "b" if opcode == "replace" else None
        lines = [f"a = {scalar} parameter(0)", f"{'ROOT ' if last else ''}b = {scalar} parameter(1)"]
        return self.computation(f"{opcode}.{dtype}",
                                lines if last else [*lines, f"ROOT r = {scalar} {opcode}(a, b)"])

    def computation(self, name: str, lines: Sequence[str]) -> str:
        """A computation beside the entry, by its instructions' text; a name always has the same text."""
        text = f"{name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
        assert self._computations.setdefault(name, text) == text, name
        return name

    # Computations of several instructions

    def inner(self) -> HloBuilder:
        """A builder of a computation that this one's instructions call."""
        other = HloBuilder(self.name)
        other._computations = self._computations
        return other

    def tuple_parameter(self, kinds: Sequence[tuple[str, Sequence[int]]]) -> list[Value]:
        """The elements, given as (dtype, shape), of a computation's only parameter."""
        self._lines.append(f"arguments = ({', '.join(shape_text(*kind) for kind in kinds)}) parameter(0)")
        return [self.op("get-tuple-element", ["arguments"], dtype, shape, f"index={i}")
                for i, (dtype, shape) in enumerate(kinds)]

    def packed(self, values: Sequence[Value]) -> str:
        """The name of a tuple of values."""
        shapes = ", ".join(shape_text(v.dtype, v.shape) for v in values)
        return self._emit("tuple", f"({shapes}) tuple({', '.join(v.name for v in values)})")

    def close(self, kind: str, result: Value | Sequence[Value]) -> str:
        """The name of the computation of what was written, whose result is an array or a tuple."""
        if isinstance(result, Value):
            shape = shape_text(result.dtype, result.shape)
            root = f"ROOT result = {shape} copy({result.name})"
        else:
            shapes = ", ".join(shape_text(v.dtype, v.shape) for v in result)
            root = f"ROOT result = ({shapes}) tuple({', '.join(v.name for v in result)})"
        return self.computation(f"{kind}.{len(self._computations)}", [*self._lines, root])

    # Output

    def text(self, results: Sequence[Value], aliases: str = "") -> str:
        """The module, which returns `results` as a tuple. `aliases`: which of them lie in parameters."""
        shapes = ", ".join(shape_text(r.dtype, r.shape) for r in results)
        root = f"ROOT results = ({shapes}) tuple({', '.join(r.name for r in results)})"
        entry = "ENTRY main {\n" + "".join(f"  {line}\n" for line in [*self._lines, root]) + "}\n"
        header = f", input_output_alias={{ {aliases} }}" if aliases else ""
        return "\n".join([f"HloModule {self.name}{header}\n", *self._computations.values(), entry])

    def _emit(self, opcode: str, text: str) -> str:
        self._count += 1
        name = f"{opcode}.{self._count}"
        self._lines.append(f"{name} = {text}")
        return name

    @staticmethod
    def _same(opcode: str, x: Value, y: Value) -> None:
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            raise ValueError(f"{opcode} of {x} and {y}")
