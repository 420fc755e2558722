"""Operators of torch that are taken apart into others, where torch has no decomposition of its own.

    @takes_apart("aten.put.default")
    def put(x, index, source, accumulate=False): ...

A function takes the operator's arguments and gives its results, by operators of torch alone. It gives NotImplemented
for what it does not take: the operator then stays as it is. Pictures (sampling, padding, resampling) are in
composites_of_images.py, layers in composites_of_layers.py, what has fewer operators around it here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from .registry import MISSING, find_operator

#: What is taken apart, by operator.
COMPOSITES: dict[torch._ops.OpOverload, Callable] = {}


def takes_apart(*names: str) -> Callable:
    """Puts the function that follows in the table, for each name ("aten.put.default")."""
    def register(function: Callable) -> Callable:
        for name in names:
            operator = find_operator(name)
            if operator is None:
                MISSING.append(name)
            else:
                COMPOSITES[operator] = function
        return function

    return register


def wide(x: torch.Tensor) -> torch.Tensor:
    """16-bit floats as float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


# Order statistics: by a stable sort, in which NaN comes last. Of equal elements the first one is named.

def _pick(values: torch.Tensor, places: torch.Tensor, at: torch.Tensor, dim: int, keepdim: bool):
    value, place = values.gather(dim, at), places.gather(dim, at)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@takes_apart("aten.kthvalue.default")
def kthvalue(x, k, dim=-1, keepdim=False):
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    at = torch.full_like(places.narrow(dim, 0, 1), k - 1)
    return _pick(values, places, at, dim, keepdim)


def _median(x: torch.Tensor, dim: int, keepdim: bool, ignore_nan: bool):
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if x.shape[dim] == 0:
        return NotImplemented
    values, places = torch.sort(x, dim=dim, stable=True)
    n = x.shape[dim]
    if not x.is_floating_point():
        at = torch.full_like(places.narrow(dim, 0, 1), (n - 1) // 2)
        return _pick(values, places, at, dim, keepdim)
    nans = torch.isnan(x).sum(dim, keepdim=True)
    middle = torch.div(n - 1 - nans, 2, rounding_mode="floor").clamp_min(0) if ignore_nan else \
        torch.where(nans > 0, n - nans, (n - 1) // 2)
    return _pick(values, places, middle, dim, keepdim)


@takes_apart("aten.median.dim")
def median_dim(x, dim, keepdim=False):
    return _median(x, dim, keepdim, False)


@takes_apart("aten.nanmedian.dim")
def nanmedian_dim(x, dim, keepdim=False):
    return _median(x, dim, keepdim, True)


@takes_apart("aten.median.default")
def median(x):
    return NotImplemented if x.numel() == 0 else _median(x.reshape(-1), 0, False, False)[0]


@takes_apart("aten.nanmedian.default")
def nanmedian(x):
    return NotImplemented if x.numel() == 0 else _median(x.reshape(-1), 0, False, True)[0]


@takes_apart("aten.mode.default")
def mode(x, dim=-1, keepdim=False):
    """The smallest of the most frequent elements, and where its last equal is."""
    if x.dim() == 0 or x.shape[dim] == 0:
        return NotImplemented
    values, places = torch.sort(x, dim=dim, stable=True)
    n = x.shape[dim]
    shape = [n if d == dim % x.dim() else 1 for d in range(x.dim())]
    at = torch.arange(n, device=x.device).view(shape).expand(x.shape)
    begins = torch.cat([torch.ones_like(values.narrow(dim, 0, 1), dtype=torch.bool),
                        values.narrow(dim, 1, n - 1) != values.narrow(dim, 0, n - 1)], dim)
    first = torch.where(begins, at, 0).cummax(dim).values
    return _pick(values, places, (at - first).argmax(dim, keepdim=True), dim, keepdim)


# Elements that go to computed places

@takes_apart("aten.masked_scatter.default")
def masked_scatter(x, mask, source):
    """The elements of source, in order, where mask is true."""
    if source.numel() == 0:
        return NotImplemented
    mask, x = torch.broadcast_tensors(mask, x)
    place = (mask.reshape(-1).long().cumsum(0) - 1).clamp_min(0)
    return torch.where(mask, source.reshape(-1)[place].view(x.shape), x)


@takes_apart("aten.masked_scatter_backward.default")
def masked_scatter_backward(grad, mask, sizes):
    """The gradient of source: those of the elements that mask chose, in order, then zeros."""
    count = math.prod(sizes)
    mask = mask.expand_as(grad).reshape(-1)
    place = torch.where(mask, mask.long().cumsum(0) - 1, count)
    zeros = torch.zeros(count + 1, dtype=grad.dtype, device=grad.device)
    return zeros.scatter(0, place, grad.reshape(-1))[:count].view(sizes)


@takes_apart("aten.put.default")
def put(x, index, source, accumulate=False):
    flat = torch.index_put(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.view(x.shape)


@takes_apart("aten.index_reduce.default")
def index_reduce(x, dim, index, source, reduce, *, include_self=True):
    if x.dim() == 0:
        return NotImplemented
    shape = [-1 if d == dim % x.dim() else 1 for d in range(x.dim())]
    places = index.view(shape).expand_as(source)
    return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


@takes_apart("aten.repeat_interleave.Tensor")
def repeat_interleave(repeats, *, output_size=None):
    """Which element stands at each place of the result, whose size must be known."""
    if output_size is None or repeats.dim() != 1:
        return NotImplemented
    ends = repeats.long().cumsum(0)
    marks = torch.zeros(output_size + 1, dtype=torch.int64, device=repeats.device)
    return marks.index_add(0, ends, torch.ones_like(ends)).cumsum(0)[:output_size].to(repeats.dtype)


@takes_apart("aten.diagonal_scatter.default")
def diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    """x with the elements of source on a diagonal."""
    y = x.movedim((dim1, dim2), (-2, -1))
    if source.numel() == 0:
        return x.clone()
    rows, columns = (torch.arange(n, device=x.device) for n in y.shape[-2:])
    values = source[..., (rows - max(0, -offset)).clamp(0, source.shape[-1] - 1)][..., None]
    return torch.where(columns - rows[:, None] == offset, values, y).movedim((-2, -1), (dim1, dim2))


@takes_apart("aten.fft_fftfreq.default")
def fftfreq(n, d=1.0, *, dtype=None, device=None, **_):
    kinds = {"dtype": dtype or torch.get_default_dtype(), "device": device}
    return torch.cat([torch.arange((n + 1) // 2, **kinds), torch.arange(-(n // 2), 0, **kinds)]) * (1.0 / (n * d))


@takes_apart("aten.fft_rfftfreq.default")
def rfftfreq(n, d=1.0, *, dtype=None, device=None, **_):
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device) * (1.0 / (n * d))


# Distances of vectors, by their difference: along the last dimension, by the norm p

def _norm(difference: torch.Tensor, p: float) -> torch.Tensor:
    size = difference.abs()
    if p == 0:
        return (difference != 0).sum(-1).to(difference.dtype)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return (difference * difference).sum(-1).sqrt()
    return size.amax(-1) if p == math.inf else size.pow(p).sum(-1).pow(1 / p)


def _norm_backward(grad: torch.Tensor, difference: torch.Tensor, distance: torch.Tensor, p: float) -> torch.Tensor:
    """The gradient of the difference, 0 where the norm has none."""
    if p == 0:
        return torch.zeros_like(difference)
    grad, distance = grad[..., None], distance[..., None]
    sign = difference.sign()
    if p == 1:
        return grad * sign
    if p == math.inf:
        return grad * sign * (difference.abs() == distance)
    safe = torch.where(distance == 0, 1.0, distance)
    if p == 2:
        return torch.where(distance == 0, 0.0, grad * difference / safe)
    size = torch.where(difference == 0, 1.0, difference.abs())
    none = (distance == 0) | (difference == 0)
    return torch.where(none, 0.0, sign * grad * (size / safe).pow(p - 1))


@takes_apart("aten._cdist_forward.default")
def cdist(x, y, p, compute_mode=None):
    if x.shape[-1] == 0 or x.shape[-2] == 0 or y.shape[-2] == 0:
        return NotImplemented
    return _norm(x[..., :, None, :] - y[..., None, :, :], p)


@takes_apart("aten._cdist_backward.default")
def cdist_backward(grad, x, y, p, distance):
    if x.shape[-1] == 0 or x.shape[-2] == 0 or y.shape[-2] == 0:
        return NotImplemented
    of_x = _norm_backward(grad, x[..., :, None, :] - y[..., None, :, :], distance, p).sum(-2)
    return of_x.sum_to_size(x.shape)


@takes_apart("aten._pdist_forward.default")
def pdist(x, p=2.0):
    if x.shape[0] < 2 or x.shape[1] == 0:
        return NotImplemented
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return _norm(x[first] - x[second], p)


@takes_apart("aten._pdist_backward.default")
def pdist_backward(grad, x, p, distance):
    if x.shape[0] < 2 or x.shape[1] == 0:
        return NotImplemented
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    of_difference = _norm_backward(grad, x[first] - x[second], distance, p)
    return torch.zeros_like(x).index_add(0, first, of_difference).index_add(0, second, of_difference, alpha=-1)


# Products

@takes_apart("aten.addbmm.default")
def addbmm(x, first, second, *, beta=1, alpha=1):
    product = torch.einsum("bij,bjk->ik", first, second)
    return (beta * x if beta != 0 else torch.zeros_like(x)) + alpha * product


@takes_apart("aten._trilinear.default")
def trilinear(x, w, y, expand_x, expand_w, expand_y, summed, unroll_dim=1):
    """Sums of x · w · y along dimensions. What torch.nn.Bilinear asks for is two products of matrices."""
    if (list(expand_x), list(expand_w), list(expand_y), list(summed)) == ([1, 3], [0], [1, 2], [2, 3]):
        return (torch.einsum("bi,oij->boj", x, w) * y[:, None, :]).sum(-1)
    for dims in (expand_x, expand_w, expand_y):
        if list(dims) != sorted(dims):
            return NotImplemented
    for d in expand_x:
        x = x.unsqueeze(d)
    for d in expand_w:
        w = w.unsqueeze(d)
    for d in expand_y:
        y = y.unsqueeze(d)
    return (x * w * y).sum(summed)


# Operators on lists of arrays, which optimizers use: one operator for each array

def _of_lists(function: Callable) -> Callable:
    def of_each(*arguments, **named):
        count = next(len(a) for a in arguments if isinstance(a, (list, tuple)))

        def at(value, i):
            return value[i] if isinstance(value, (list, tuple)) else value

        return [function(*(at(a, i) for a in arguments), **{k: at(v, i) for k, v in named.items()})
                for i in range(count)]

    return of_each


def _fill_lists() -> None:
    """All of aten's _foreach_NAME that give new arrays and whose NAME torch has."""
    others = {"norm": torch.linalg.vector_norm, "zero": torch.zeros_like,
              "copy": lambda x, source, non_blocking=False: source.to(x.dtype).expand_as(x).clone(),
              "maximum": torch.clamp_min, "minimum": torch.clamp_max,  # of numbers, too
              "addcmul": lambda x, y, z, value=1: torch.addcmul(x, y, z, value=value),
              "addcdiv": lambda x, y, z, value=1: torch.addcdiv(x, y, z, value=value)}
    # Not dir(torch.ops.aten), which has only what was asked for before.
    all_names = {name.removeprefix("aten::").split(".")[0] for name in torch._C._dispatch_get_all_op_names()
                 if name.startswith("aten::_foreach_")}
    for packet in sorted(all_names):
        name = packet.removeprefix("_foreach_")
        function = others.get(name) or getattr(torch, name, None)
        if name.endswith("_") or function is None:
            continue
        for overload in getattr(torch.ops.aten, packet).overloads():
            operator = getattr(getattr(torch.ops.aten, packet), overload)
            numbers_of_arrays = name in ("addcmul", "addcdiv") and overload == "Tensor"
            if not (overload.endswith("out") or operator._schema.is_mutable or numbers_of_arrays):
                COMPOSITES[operator] = _of_lists(function)


_fill_lists()
