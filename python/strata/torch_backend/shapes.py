"""Lowerings of operators that move elements, and of those that make arrays."""

from __future__ import annotations

import math
import operator

from .hlo_builder import FLOATS, Value
from .indexing import take
from .lowering import Lowering, dimensions, row_major
from .registry import OF_COMPLEX, RULES, VIEWS, Unsupported, lowers
from .writer import layout_of


@lowers("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten._reshape_alias.default",
        "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
        "prims.squeeze.default", "aten.flatten.using_ints", "aten.unflatten.int", "aten.view_copy.default", view=True)
def reshape(c, x, *_):
    return c.b.reshape(x, c.shape)


@lowers("aten.permute.default", "prims.transpose.default", view=True)
def permute(c, x, dims):
    return c.b.transpose(x, [d % x.rank for d in dims])


@lowers("aten.transpose.int", view=True)
def transpose(c, x, first, second):
    order = list(range(x.rank))
    if order:
        order[first], order[second] = order[second], order[first]
    return c.b.transpose(x, order)


@lowers("aten.t.default", "aten.numpy_T.default", view=True)
def t(c, x):
    return c.b.transpose(x, list(range(x.rank))[::-1])


@lowers("aten.movedim.int", view=True)
def movedim(c, x, source, destination):
    order = [d for d in range(x.rank) if d != source % x.rank]
    order.insert(destination % x.rank, source % x.rank)
    return c.b.transpose(x, order)


@lowers("aten.expand.default", "aten.broadcast_to.default", view=True)
def expand(c, x, *_, **__):
    return c.expand(x, c.shape)


@lowers("prims.broadcast_in_dim.default", view=True)
def broadcast_in_dim(c, x, shape, dims):
    squeezed = [d for d in range(x.rank) if x.shape[d] != 1 or shape[dims[d]] == 1]
    return c.b.broadcast(c.b.reshape(x, [x.shape[d] for d in squeezed]), c.shape, [dims[d] for d in squeezed])


def slice_bounds(size: int, start, end) -> tuple[int, int]:
    """Bounds as Python means them."""
    start, end, _ = slice(start, end).indices(size)
    return start, max(start, end)


@lowers("aten.slice.Tensor", view=True)
def slice_(c, x, dim=0, start=None, end=None, step=1):
    starts, limits, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[dim], limits[dim] = slice_bounds(x.shape[dim], start, end)
    steps[dim] = step
    return c.b.slice(x, starts, limits, steps)


@lowers("aten.select.int", view=True)
def select(c, x, dim, index):
    starts, limits = [0] * x.rank, list(x.shape)
    starts[dim] = index % x.shape[dim]
    limits[dim] = starts[dim] + 1
    return c.b.reshape(c.b.slice(x, starts, limits), c.shape)


@lowers("aten.narrow.default", view=True)
def narrow(c, x, dim, start, length):
    start = start % x.shape[dim] if start < 0 else start
    return slice_(c, x, dim, start, start + length)


def _cut(c: Lowering, x: Value, dim: int, sizes) -> list[Value]:
    parts, start = [], 0
    for n in sizes:
        parts.append(slice_(c, x, dim, start, start + n))
        start += n
    return parts


@lowers("aten.split.Tensor", "aten.split_with_sizes.default", "aten.unsafe_split.Tensor", "aten.chunk.default",
        "aten.unsafe_chunk.default", "aten.tensor_split.sections", view=True)
def split(c, x, sizes, dim=0):
    return _cut(c, x, dim, [r.shape[dim] for r in c.results])


@lowers("aten.unbind.int", view=True)
def unbind(c, x, dim=0):
    return [c.b.reshape(part, c.shape) for part in _cut(c, x, dim, [1] * x.shape[dim])]


@lowers("aten.diagonal.default", view=True)
def diagonal(c, x, offset=0, dim1=0, dim2=1):
    dim1, dim2 = dim1 % x.rank, dim2 % x.rank
    rest = [d for d in range(x.rank) if d not in (dim1, dim2)]
    x = c.b.transpose(x, [*rest, dim1, dim2])
    length = c.shape[-1]
    first = [max(0, -offset), max(0, offset)]
    starts = [0] * len(rest) + first
    x = c.b.slice(x, starts, [*x.shape[:-2], first[0] + length, first[1] + length])
    rows, columns = (c.b.iota("s32", x.shape, x.rank - 2 + i) for i in (0, 1))
    if length == 0:
        return c.b.full(0, c.dtype, c.shape)
    # One element of a row is not replaced by 0, so that the sum is that element; f8 and pred have no such sum.
    kept = c.b.select(c.b.compare(rows, columns, "EQ"), x, c.b.full(0, x.dtype, x.shape))
    total = c.b.reduce("or" if x.dtype == "pred" else "add", kept, [x.rank - 1])
    return total


def _memory(c: Lowering, x: Value) -> tuple[Value, list[int]]:
    """The elements of the node's first argument in the order of its memory, and the dimensions from the slowest on.
    Raises Unsupported where the memory has others, too."""
    fake = c.node.args[0].meta["val"]
    layout = layout_of(fake)
    if layout is None or fake.storage_offset() or fake.untyped_storage().nbytes() != x.size * fake.dtype.itemsize:
        raise Unsupported("it looks at the memory of an array that is itself a part of another")
    return c.b.reshape(c.b.transpose(x, layout.order), (x.size,)), list(layout.order)


def _places(c: Lowering, size, stride, offset: int) -> Value:
    """For each element of an array with these strides, where it lies in memory."""
    places = c.b.full(offset or 0, "s32", size)
    for d, step in enumerate(stride):
        if step and size[d] > 1:
            places = c.add(places, c.mul(c.b.iota("s32", size, d), step))
    return places


@lowers("aten.as_strided.default", of_complex=True)
def as_strided(c, x, size, stride, storage_offset=None):
    flat, _ = _memory(c, x)
    kept = [d for d in range(len(size)) if size[d] != 1]
    order = sorted(kept, key=lambda d: -stride[d])
    sorted_sizes = [size[d] for d in order]
    dense = Value("", x.dtype, tuple(sorted_sizes))
    if not storage_offset and math.prod(size) == x.size and [stride[d] for d in order] == row_major(dense):
        y = c.b.reshape(flat, sorted_sizes)
        return c.b.reshape(c.b.transpose(y, [order.index(d) for d in kept]), size)
    if math.prod(size) == 0:
        return c.b.full(0, x.dtype, size)
    places = c.b.reshape(_places(c, size, stride, storage_offset), (*size, 1))
    return c.b.gather(flat, places, size, offset=[], collapsed=[0], start_map=[0], sizes=[1], vector_dim=len(size))


@lowers("aten.as_strided_scatter.default", of_complex=True)
def as_strided_scatter(c, x, source, size, stride, storage_offset=None):
    """x with the elements of source where as_strided would read them."""
    flat, order = _memory(c, x)
    if math.prod(size) == 0:
        return x
    places = c.b.reshape(_places(c, size, stride, storage_offset), (*size, 1))
    flat = c.b.scatter("replace", flat, places, c.cast(source, x.dtype), window=[], inserted=[0], dims_map=[0],
                       vector_dim=len(size))
    y = c.b.reshape(flat, [x.shape[d] for d in order])
    return c.b.transpose(y, [order.index(d) for d in range(x.rank)])


@lowers("aten.unfold.default", of_complex=True)
def unfold(c, x, dim, size, step):
    if x.rank == 0:
        return c.b.slice(c.b.reshape(x, (1,)), [0], [size])
    dim %= x.rank
    count = c.shape[dim]
    if size == step:
        y = c.b.reshape(slice_(c, x, dim, 0, count * size), (*x.shape[:dim], count, size, *x.shape[dim + 1:]))
    else:
        y = take(c, x, _places(c, (count, size), (step, 1), 0), dim)
    return c.b.transpose(y, [d for d in range(y.rank) if d != dim + 1] + [dim + 1])


# With work

@lowers("aten.cat.default", of_complex=True, of_float8=True)
def cat(c, tensors, dim=0):
    # An array of shape (0,) joins any others.
    tensors = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    return c.b.concatenate([c.cast(x, c.dtype) for x in tensors], dim % tensors[0].rank)


@lowers("aten.stack.default", of_complex=True, of_float8=True)
def stack(c, tensors, dim=0):
    dim = dim % (tensors[0].rank + 1)
    return c.b.concatenate([c.b.reshape(c.cast(x, c.dtype), (*x.shape[:dim], 1, *x.shape[dim:])) for x in tensors], dim)


@lowers("aten.flip.default", of_complex=True)
def flip(c, x, dims):
    return c.b.reverse(x, dimensions(x.rank, dims, empty_is_all=False))


@lowers("aten.roll.default", of_complex=True)
def roll(c, x, shifts, dims=()):
    if not dims:
        flat = c.b.reshape(x, (x.size,))
        return c.b.reshape(_roll(c, flat, shifts[0], 0), x.shape)
    for shift, dim in zip(shifts, dims):
        x = _roll(c, x, shift, dim % x.rank)
    return x


def _roll(c: Lowering, x: Value, shift: int, dim: int) -> Value:
    n = x.shape[dim]
    place = -shift % n if n else 0
    return c.b.concatenate([slice_(c, x, dim, place, n), slice_(c, x, dim, 0, place)], dim) if place else x


@lowers("aten.repeat.default", of_complex=True)
def repeat(c, x, repeats):
    x = c.b.reshape(x, (*[1] * (len(repeats) - x.rank), *x.shape))
    pairs = [n for pair in zip(repeats, x.shape) for n in pair]
    return c.b.reshape(c.b.broadcast(x, pairs, [2 * d + 1 for d in range(x.rank)]), c.shape)


@lowers("aten.constant_pad_nd.default", of_complex=True)
def constant_pad(c, x, pad, value=0):
    pads = [(0, 0, 0)] * x.rank
    for i in range(len(pad) // 2):
        pads[x.rank - 1 - i] = (pad[2 * i], pad[2 * i + 1], 0)
    return c.b.pad(x, c.b.constant(value, x.dtype), pads)


@lowers("aten.slice_scatter.default", of_complex=True)
def slice_scatter(c, x, source, dim=0, start=None, end=None, step=1):
    dim = dim % x.rank
    n = x.shape[dim]
    start, end = slice_bounds(n, start, end)
    source = c.cast(source, x.dtype)
    if step == 1 and 0 < 2 * source.shape[dim] <= n:
        # Where the array may be written over (in_place.py), only the slice is; else one copy of it is as fast.
        starts = [c.b.constant(start if d == dim else 0, "s32") for d in range(x.rank)]
        return c.b.op("dynamic-update-slice", [x, source, *starts], x.dtype, x.shape)
    if step == 1:
        parts = [slice_(c, x, dim, 0, start), source, slice_(c, x, dim, end, n)]
        return c.b.concatenate([p for p in parts if p.shape[dim]] or [x], dim)
    taken = source.shape[dim]
    if taken == 0:
        return x
    pads = [(0, 0, 0)] * x.rank
    pads[dim] = (start, n - start - (taken - 1) * step - 1, step - 1)
    spread = c.b.pad(source, c.b.constant(0, x.dtype), pads)
    there = c.b.pad(c.b.full(True, "pred", source.shape), c.b.constant(False, "pred"), pads)
    return c.b.select(there, spread, x)


@lowers("aten.select_scatter.default", of_complex=True)
def select_scatter(c, x, source, dim, index):
    dim = dim % x.rank
    source = c.b.reshape(source, (*x.shape[:dim], 1, *x.shape[dim + 1:]))
    index %= x.shape[dim]
    return slice_scatter(c, x, source, dim, index, index + 1)


def _triangle(c: Lowering, x: Value, diagonal: int, direction: str) -> Value:
    rows, columns = (c.b.iota("s32", x.shape, x.rank - 2 + i) for i in (0, 1))
    inside = c.compare(columns, c.add(rows, diagonal), direction)
    return c.b.select(inside, x, c.b.full(0, x.dtype, x.shape))


@lowers("aten.tril.default", of_complex=True)
def tril(c, x, diagonal=0):
    return _triangle(c, x, diagonal, "LE")


@lowers("aten.triu.default", of_complex=True)
def triu(c, x, diagonal=0):
    return _triangle(c, x, diagonal, "GE")


# From nothing

@lowers("aten.full.default", "aten.full_like.default", "aten.new_full.default", of_complex=True)
def full(c, _, *rest, **__):
    # full(size, value) and full_like(x, value) end in the value; new_full(x, size, value) does too.
    return c.b.full(rest[-1], c.dtype, c.shape)


@lowers("aten.scalar_tensor.default", "prims.scalar_tensor.default", of_complex=True)
def scalar_tensor(c, value, **_):
    return c.b.constant(value, c.dtype)


@lowers("aten.fill.Scalar", of_complex=True)
def fill(c, x, value):
    return c.b.full(value, c.dtype, c.shape)


@lowers("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.empty.memory_format",
        "aten.empty_like.default", "aten.new_empty.default", "aten.empty_permuted.default",
        "aten.empty_strided.default", "aten.new_empty_strided.default", "prims.empty_strided.default",
        "aten._efficientzerotensor.default", "aten._new_zeros_with_same_feature_meta.default", of_complex=True)
def zeros(c, *_, **__):
    """Memory without given contents is 0, too."""
    return c.b.full(0, c.dtype, c.shape)


@lowers("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default", of_complex=True)
def ones(c, *_, **__):
    return c.b.full(1, c.dtype, c.shape)


@lowers("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(c, *bounds, **_):
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)
    return _sequence(c, start, step)


@lowers("prims.iota.default")
def iota(c, length, start=0, step=1, **_):
    return _sequence(c, start, step)


def _sequence(c: Lowering, start, step) -> Value:
    # torch computes floats in f64 on CPUs, and in f32 or wider on GPUs.
    dtype = "f64" if c.dtype in FLOATS else "s64"
    if start == int(start) and step == int(step) and c.dtype in FLOATS and abs(start) + abs(step) * c.shape[0] < 2**24:
        dtype = "f32"
    x = c.b.iota(dtype, c.shape, 0)
    x = c.mul(x, step) if step != 1 else x
    return c.cast(c.add(x, start) if start != 0 else x, c.dtype)


def _get_item(c: Lowering, values, index):
    return values[index]


RULES[operator.getitem] = _get_item
VIEWS.add(operator.getitem)
OF_COMPLEX.add(operator.getitem)
