"""Lowerings of operators that read and write at computed places.

torch's indices may be negative where Python's may (index, index_put), and then count from the end. Indices out of
range are errors in torch; here, as in XLA, reads are clamped and writes are skipped.
"""

from __future__ import annotations

import math

from .hlo_builder import FLOATS, Value, highest, lowest
from .lowering import Lowering
from .registry import Unsupported, lowers, require_one_type
from .types import wide

_COMBINE = {"sum": "add", "add": "add", "prod": "multiply", "multiply": "multiply", "amax": "maximum",
            "amin": "minimum"}


def _from_end(c: Lowering, index: Value, size: int) -> Value:
    """Indices as s32 or s64, negative ones counted from the end."""
    return c.select(c.compare(index, 0, "LT"), c.add(index, size), index)


def take(c: Lowering, x: Value, index: Value, dim: int) -> Value:
    """x at index (of any rank) along dim: index's dimensions take the place of dim."""
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1:])
    if math.prod(shape) == 0:
        return c.b.full(0, x.dtype, shape)
    sizes = [1 if d == dim else n for d, n in enumerate(x.shape)]
    offset = [d for d in range(len(shape)) if not dim <= d < dim + index.rank]
    return c.b.gather(x, index, shape, offset=offset, collapsed=[dim], start_map=[dim], sizes=sizes,
                      vector_dim=index.rank)


@lowers("aten.embedding.default", of_complex=True)
def embedding(c, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return take(c, weight, indices, 0)


@lowers("aten.index_select.default", of_complex=True)
def index_select(c, x, dim, index):
    if x.rank == 0:
        return x
    return c.b.reshape(take(c, x, index, dim % x.rank), c.shape)


def _along(c: Lowering, x: Value, dim: int, index: Value) -> tuple[Value, Value]:
    """x cut to index's sizes but along dim, as gather and scatter of torch read it, and the indices as vectors."""
    limits = [n if d == dim else m for d, (n, m) in enumerate(zip(x.shape, index.shape))]
    return c.b.slice(x, [0] * x.rank, limits), c.b.reshape(index, (*index.shape, 1))


@lowers("aten.gather.default", of_complex=True)
def gather(c, x, dim, index, sparse_grad=False):
    if index.size == 0:
        return c.b.full(0, x.dtype, c.shape)
    if x.rank == 0:
        return x if x.rank == 0 and index.rank == 0 else c.b.reshape(c.operand(x, c.dtype), c.shape)
    dim %= x.rank
    x, vectors = _along(c, x, dim, index)
    others = [d for d in range(x.rank) if d != dim]
    return c.b.gather(x, vectors, index.shape, offset=[], collapsed=[dim], start_map=[dim], sizes=[1] * x.rank,
                      vector_dim=index.rank, batching=(others, others))


def _scatter_along(c: Lowering, x: Value, dim: int, index: Value, source, combine: str) -> Value:
    """torch's scatter: x[…, index[…], …] is combined with source[…] for each place of index."""
    if index.size == 0:
        return x
    if x.rank == 0:
        x, index = c.b.reshape(x, (1,)), c.b.reshape(index, (1,))
        source = c.b.reshape(source, (1,)) if isinstance(source, Value) else source
        return c.b.reshape(_scatter_along(c, x, 0, index, source, combine), ())
    dim %= x.rank
    if isinstance(source, Value):
        updates = c.cast(c.b.slice(source, [0] * x.rank, index.shape), x.dtype)
    else:
        updates = c.b.full(source, x.dtype, index.shape)
    cut, vectors = _along(c, x, dim, index)
    others = [d for d in range(x.rank) if d != dim]
    result = c.b.scatter(combine, cut, vectors, updates, window=[], inserted=[dim], dims_map=[dim],
                         vector_dim=index.rank, batching=(others, others))
    return _put_back(c, x, result)


def _put_back(c: Lowering, x: Value, corner: Value) -> Value:
    """x with its first elements along each dimension replaced by a smaller array."""
    if corner.shape == x.shape:
        return corner
    return c.b.op("dynamic-update-slice", [x, corner, *[c.b.constant(0, "s32")] * x.rank], x.dtype, x.shape)


@lowers("aten.scatter.src", "aten.scatter.value", of_complex=True)
def scatter(c, x, dim, index, source):
    return _scatter_along(c, x, dim, index, source, "replace")


@lowers("aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_combine(c, x, dim, index, source, reduce):
    total = _scatter_along(c, c.widen(x), dim, index, source, _COMBINE[reduce])
    return c.cast(total, x.dtype)


@lowers("aten.scatter_add.default", of_complex=True)
def scatter_add(c, x, dim, index, source):
    return c.cast(_scatter_along(c, c.widen(x), dim, index, source, "or" if x.dtype == "pred" else "add"), x.dtype)


@lowers("aten.scatter_reduce.two")
def scatter_reduce(c, x, dim, index, source, reduce, include_self=True):
    if reduce == "mean":
        return _scatter_mean(c, x, dim, index, source, include_self)
    combine, kind = _COMBINE[reduce], wide(x.dtype)
    start = c.cast(x, kind)
    if not include_self:
        neutral = {"add": 0, "multiply": 1}.get(combine)
        neutral = neutral if neutral is not None else (lowest if combine == "maximum" else highest)(kind)
        start = _scatter_along(c, start, dim, index, neutral, "replace")
    return c.cast(_scatter_along(c, start, dim, index, source, combine), x.dtype)


def _scatter_mean(c: Lowering, x: Value, dim: int, index: Value, source: Value, include_self: bool) -> Value:
    """Sums divided by their numbers of terms. Integers are rounded down, as torch does."""
    start, kind = c.widen(x), wide(x.dtype)
    if not include_self:
        start = _scatter_along(c, start, dim, index, 0, "replace")
    total = _scatter_along(c, start, dim, index, source, "add")
    count = _scatter_along(c, c.b.full(1 if include_self else 0, kind, x.shape), dim, index, 1, "add")
    count = c.binary("maximum", count, 1)
    if kind in FLOATS:
        return c.cast(c.div(total, count), x.dtype)
    rest = c.binary("remainder", total, count)
    quotient = c.div(total, count)
    return c.select(c.compare(rest, 0, "LT"), c.sub(quotient, 1), quotient)


# Advanced indexing: x[i, :, j]

def _index_vectors(c: Lowering, x: Value, indices) -> tuple[list[int], Value, tuple[int, ...]]:
    """(indexed dimensions, vectors of indices along the last dimension, the indices' common shape)"""
    if any(i is not None and i.dtype in ("pred", "u8") for i in indices):
        raise Unsupported("an index by a mask has a result whose size depends on its elements")
    dims = [d for d, i in enumerate(indices) if i is not None]
    arrays = [_from_end(c, indices[d], x.shape[d]) for d in dims]
    dtype = "s64" if any(i.dtype == "s64" for i in arrays) else "s32"
    shape = ()
    for i in arrays:
        shape = tuple(_broadcast_shape(shape, i.shape))
    columns = [c.b.reshape(c.operand(i, dtype, shape), (*shape, 1)) for i in arrays]
    return dims, c.b.concatenate(columns, len(shape)), shape


def _broadcast_shape(a, b):
    a, b = (1,) * (len(b) - len(a)) + tuple(a), (1,) * (len(a) - len(b)) + tuple(b)
    return [n if m == 1 else m for n, m in zip(a, b)]


def _index_place(dims: list[int]) -> int:
    """Where the indices' dimensions go: in place of adjacent ones, else first."""
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    return dims[0] if adjacent else 0


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor", of_complex=True)
def index(c, x, indices):
    dims, vectors, common = _index_vectors(c, x, indices)
    if math.prod(c.shape) == 0:
        return c.b.full(0, x.dtype, c.shape)
    place = _index_place(dims)
    sizes = [1 if d in dims else n for d, n in enumerate(x.shape)]
    offset = [d for d in range(len(c.shape)) if not place <= d < place + len(common)]
    return c.b.gather(x, vectors, c.shape, offset=offset, collapsed=dims, start_map=dims, sizes=sizes,
                      vector_dim=len(common))


@lowers("aten.index_put.default", "aten._unsafe_index_put.default", "aten._index_put_impl.default",
        of_complex=True)
def index_put(c, x, indices, values, accumulate=False, *_):
    require_one_type(x, values)
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == "pred" and values.size == 1:
        mask = c.b.broadcast(indices[0], x.shape, range(indices[0].rank))
        value = c.operand(c.b.reshape(c.cast(values, x.dtype), ()), x.dtype)
        return c.b.select(mask, c.add(x, value) if accumulate else value, x)
    dims, vectors, common = _index_vectors(c, x, indices)
    place = _index_place(dims)
    rest = [n for d, n in enumerate(x.shape) if d not in dims]
    shape = (*rest[:place], *common, *rest[place:])
    kind = wide(x.dtype) if accumulate else x.dtype
    updates = c.operand(values, kind, shape)
    if math.prod(shape) == 0:
        return x
    window = [d for d in range(len(shape)) if not place <= d < place + len(common)]
    combine = ("or" if kind == "pred" else "add") if accumulate else "replace"
    result = c.b.scatter(combine, c.cast(x, kind), vectors, updates, window=window, inserted=dims, dims_map=dims,
                         vector_dim=len(common))
    return c.cast(result, x.dtype)


@lowers("aten.embedding_dense_backward.default")
def embedding_backward(c, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    width = grad.shape[-1]
    grad = c.b.reshape(c.widen(grad), (indices.size, width))
    flat = c.b.reshape(indices, (indices.size, 1))
    if padding_idx >= 0:
        grad = c.select(c.compare(flat, padding_idx, "NE"), grad, 0.0)
    zero = c.b.full(0, grad.dtype, (num_weights, width))
    if indices.size == 0:
        return c.cast(zero, c.dtype)
    if scale_grad_by_freq:
        ones, none = c.b.full(1, grad.dtype, (indices.size,)), c.b.full(0, grad.dtype, (num_weights,))
        times = c.b.scatter("add", none, flat, ones, window=[], inserted=[0], dims_map=[0], vector_dim=1)
        grad = c.div(grad, c.b.reshape(take(c, times, c.b.reshape(indices, (indices.size,)), 0), (indices.size, 1)))
    total = c.b.scatter("add", zero, flat, grad, window=[1], inserted=[0], dims_map=[0], vector_dim=1)
    return c.cast(total, c.dtype)


@lowers("aten.nonzero.default", "aten.masked_select.default", "aten._unique2.default", "aten.unique_dim.default",
        "aten.repeat_interleave.Tensor", "aten.bincount.default")
def of_unknown_size(c, *_, **__):
    raise Unsupported("the size of the result depends on the elements")


@lowers("aten._local_scalar_dense.default")
def to_number(c, *_):
    raise Unsupported("a number of Python is read from an array")


@lowers("aten.searchsorted.Tensor", "aten.searchsorted.Scalar", "aten.bucketize.Tensor")
def search_sorted(c, sorted_values, values, *, out_int32=False, right=False, side=None, sorter=None):
    """By halves: where the place is known up to a power of two, the one element between halves tells which it is. NaN
    comes after all."""
    if c.node.target._opname == "bucketize":
        sorted_values, values = values, sorted_values
    if sorter is not None:
        sorted_values = _at(c, sorted_values, sorter)
    if not isinstance(values, Value):
        values = c.b.constant(values, sorted_values.dtype if isinstance(values, int) else "f32"
                              if sorted_values.dtype not in FLOATS else sorted_values.dtype)
    if sorted_values.rank > 1 and sorted_values.shape[:-1] != values.shape[:-1]:
        raise Unsupported("searchsorted with other rows than its sorted values has is not taken")
    dtype = values.dtype if values.dtype in FLOATS else sorted_values.dtype
    direction = "LE" if right or side == "right" else "LT"
    count = sorted_values.shape[-1]
    found = c.b.full(0, "s32", values.shape)
    if count == 0 or values.size == 0:
        return c.cast(found, c.dtype)
    for step in (1 << i for i in reversed(range(count.bit_length()))):
        further = c.add(found, step)
        element = _at(c, sorted_values, c.binary("minimum", c.sub(further, 1), count - 1))
        below = c.compare(element, values, direction, dtype)
        if values.dtype in FLOATS:
            below = c.binary("or", below, c.compare(values, values, "NE"))
        found = c.select(c.binary("and", below, c.compare(further, count, "LE")), further, found)
    return c.cast(found, c.dtype)


def _at(c: Lowering, x: Value, index: Value) -> Value:
    """The elements of an array of one dimension, or of each row of several, at places of any shape or in each row."""
    if x.rank == 1:
        return take(c, x, index, 0)
    others = list(range(x.rank - 1))
    return c.b.gather(x, c.b.reshape(index, (*index.shape, 1)), index.shape, offset=[], collapsed=[x.rank - 1],
                      start_map=[x.rank - 1], sizes=[1] * x.rank, vector_dim=index.rank, batching=(others, others))
