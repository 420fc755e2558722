"""Lowerings of pooling."""

from __future__ import annotations

import itertools
import math

from .hlo_builder import FLOATS, Value, Window, lowest
from .lowering import Lowering
from .products import sizes_of
from .registry import Unsupported, lowers


def _pool_window(x: Value, kernel, stride, padding, dilation=(1,), ceil_mode=False, n=2) -> tuple[Window, list[int]]:
    """The window over x (all dimensions) and the spatial sizes of the result."""
    kernel, padding, dilation = (sizes_of(v, n) for v in (kernel, padding, dilation))
    stride = sizes_of(stride, n) if len(stride) else kernel
    pad, sizes = [], []
    for size, k, s, p, d in zip(x.shape[-n:], kernel, stride, padding, dilation):
        free = size + 2 * p - d * (k - 1) - 1
        count = (-(-free // s) if ceil_mode else free // s) + 1
        if ceil_mode and (count - 1) * s >= size + p:
            count -= 1
        sizes.append(count)
        pad.append((p, (count - 1) * s + d * (k - 1) + 1 - size - p))
    first = x.rank - n
    ones = [1] * first
    return Window([*ones, *kernel], [*ones, *stride], [(0, 0)] * first + pad, rhs_dilate=[*ones, *dilation]), sizes


@lowers("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool(c, x, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    """By comparing the elements of a window one after the other, so that places come out as torch gives them: the
    first of equals, the last of NaN."""
    n = 3 if "3d" in c.node.target._opname else 2
    window, sizes = _pool_window(x, kernel_size, stride, padding, dilation, ceil_mode, n)
    kernel, steps, gaps = (list(v[-n:]) for v in (window.size, window.stride, window.rhs_dilate))
    if math.prod(kernel) > 128:
        size = " by ".join(map(str, kernel))
        raise Unsupported(f"maxima over windows of {size}, more than 128 elements, are not taken")
    lead = x.rank - n
    pads = [(0, 0, 0)] * lead + [(low, high, 0) for low, high in window.pad[-n:]]
    padded = c.b.pad(x, c.b.constant(lowest(x.dtype), x.dtype), pads)
    place = c.b.iota("s32", x.shape, lead)
    for d in range(lead + 1, x.rank):
        place = c.add(c.mul(place, x.shape[d]), c.b.iota("s32", x.shape, d))
    place = c.b.pad(place, c.b.constant(-1, "s32"), pads)
    best = best_place = None
    for at in itertools.product(*(range(k) for k in kernel)):
        first = [i * gap for i, gap in zip(at, gaps)]
        limits = [a + (size - 1) * step + 1 for a, size, step in zip(first, sizes, steps)]
        cut = [0] * lead + first, [*x.shape[:lead], *limits], [1] * lead + steps
        value, value_place = c.b.slice(padded, *cut), c.b.slice(place, *cut)
        if best is None:
            best, best_place = value, value_place
            continue
        better = c.compare(value, best, "GT")
        if x.dtype in FLOATS:
            better = c.binary("or", better, c.compare(value, value, "NE"))
        unset = c.binary("and", c.compare(best_place, 0, "LT"), c.compare(value_place, 0, "GE"))
        better = c.binary("or", better, unset)
        best, best_place = c.select(better, value, best), c.select(better, value_place, best_place)
    return [best, c.cast(best_place, "s64")]


def _max_pool_backward(c: Lowering, grad: Value, x: Value, indices: Value, n: int) -> Value:
    """The gradients of maxima, added up where these were."""
    lead = math.prod(x.shape[:x.rank - n])
    size, count = math.prod(x.shape[x.rank - n:]), math.prod(grad.shape[x.rank - n:])
    flat, places = c.b.reshape(c.widen(grad), (lead, count)), c.b.reshape(c.cast(indices, "s32"), (lead, count))
    zero = c.b.full(0, flat.dtype, (lead, size))
    total = c.b.scatter("add", zero, c.b.reshape(places, (lead, count, 1)), flat, window=[], inserted=[1], dims_map=[1],
                        vector_dim=2, batching=([0], [0]))
    return c.cast(c.b.reshape(total, x.shape), c.dtype)


@lowers("aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default")
def max_pool_backward(c, grad, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    return _max_pool_backward(c, grad, x, indices, 3 if "3d" in c.node.target._opname else 2)


@lowers("aten.adaptive_max_pool2d_backward.default", "aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool_backward(c, grad, x, indices):
    return _max_pool_backward(c, grad, x, indices, 3 if "3d" in c.node.target._opname else 2)


def _divisors(c: Lowering, x: Value, window: Window, sizes, padding, count_include_pad, divisor, n) -> Value | float:
    """By what sums are divided: a number, or an array of the result's spatial sizes."""
    if divisor is not None:
        return float(divisor)
    dims = []
    for d in range(n):
        k, s, (low, _), size = window.size[-n + d], window.stride[-n + d], window.pad[-n + d], x.shape[-n + d]
        end = size + low if count_include_pad else size
        starts = [i * s - low for i in range(sizes[d])]
        floor = -low if count_include_pad else 0
        dims.append([min(a + k, end) - max(a, floor) for a in starts])
    if all(len(set(counts)) == 1 for counts in dims):
        return float(math.prod(counts[0] for counts in dims))
    product = None
    for d, counts in enumerate(dims):
        factor = c.b.broadcast(c.b.array(counts, "f32", (len(counts),)), sizes, [d])
        product = factor if product is None else c.mul(product, factor)
    return product


@lowers("aten.avg_pool2d.default", "aten.avg_pool3d.default", "aten.avg_pool1d.default")
def avg_pool(c, x, kernel_size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True,
             divisor_override=None):
    n = {"avg_pool1d": 1, "avg_pool2d": 2, "avg_pool3d": 3}[c.node.target._opname]
    window, sizes = _pool_window(x, kernel_size, stride, padding, (1,), ceil_mode, n)
    total = c.b.reduce_window("add", c.widen(x), window)
    by = _divisors(c, x, window, sizes, padding, count_include_pad, divisor_override, n)
    by = c.cast(by, total.dtype) if isinstance(by, Value) else by
    return c.cast(c.div(total, by), c.dtype)


@lowers("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def avg_pool_backward(c, grad, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    n = 3 if "3d" in c.node.target._opname else 2
    window, sizes = _pool_window(x, kernel_size, stride, padding, (1,), ceil_mode, n)
    by = _divisors(c, x, window, sizes, padding, count_include_pad, divisor_override, n)
    grad = c.widen(grad)
    share = c.div(grad, c.cast(by, grad.dtype) if isinstance(by, Value) else by)
    # Each element gets the shares of the windows that it lies in: a window of the same size over shares spread apart.
    pads, first = [(0, 0, 0)] * (x.rank - n), x.rank - n
    for d in range(first, x.rank):
        k, s, (low, _), size, count = window.size[d], window.stride[d], window.pad[d], x.shape[d], grad.shape[d]
        before = k - 1 - low
        pads.append((before, size + k - 1 - before - ((count - 1) * s + 1), s - 1))
    spread = c.b.pad(share, c.b.constant(0, share.dtype), pads)
    return c.cast(c.b.reduce_window("add", spread, Window(window.size)), c.dtype)


def _shares(c: Lowering, size: int, out: int, dtype: str) -> Value:
    """The matrix (out, size) by which adaptive pooling averages along one dimension: result i has the elements from
    ⌊i size / out⌋ to ⌈(i + 1) size / out⌉."""
    if size * out > 4096:
        raise Unsupported(f"adaptive pooling from {size} to {out}, which does not divide it, is not taken")
    rows = []
    for i in range(out):
        start, end = i * size // out, -(-(i + 1) * size // out)
        rows += [1 / (end - start) if start <= j < end else 0.0 for j in range(size)]
    return c.b.array(rows, dtype, (out, size))


def _along(c: Lowering, x: Value, dim: int, matrix: Value, of: int) -> Value:
    """x multiplied along dim by a matrix whose dimension `of` is summed."""
    y = c.b.dot(x, matrix, ((), ()), ((dim,), (of,)), x.dtype)
    order = list(range(x.rank - 1))
    order.insert(dim, x.rank - 1)
    return c.b.transpose(y, order)


@lowers("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool(c, x, output_size):
    n = len(output_size)
    sizes, wide_x = x.shape[-n:], c.widen(x)
    if any(size % out for size, out in zip(sizes, output_size)):
        for d, size, out in zip(range(x.rank - n, x.rank), sizes, output_size):
            wide_x = _along(c, wide_x, d, _shares(c, size, out, wide_x.dtype), 1)
        return c.cast(wide_x, c.dtype)
    split = [m for size, out in zip(sizes, output_size) for m in (out, size // out)]
    x = c.b.reshape(x, (*x.shape[:-n], *split))
    first = x.rank - 2 * n
    return c.cast(c.mean(x, [first + 2 * i + 1 for i in range(n)], keep=False), c.dtype)


@lowers("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool_backward(c, grad, x):
    n = 3 if "3d" in c.node.target._opname else 2
    outs, sizes, lead = grad.shape[-n:], x.shape[-n:], x.rank - n
    grad = c.widen(grad)
    if any(size % out for size, out in zip(sizes, outs)):
        for d, size, out in zip(range(lead, x.rank), sizes, outs):
            grad = _along(c, grad, d, _shares(c, size, out, grad.dtype), 0)
        return c.cast(grad, c.dtype)
    share = c.div(grad, float(math.prod(sizes) // math.prod(outs)))
    split = [m for size, out in zip(sizes, outs) for m in (out, size // out)]
    spread = c.b.broadcast(share, (*x.shape[:-n], *split), [*range(lead), *(lead + 2 * i for i in range(n))])
    return c.cast(c.b.reshape(spread, x.shape), c.dtype)
