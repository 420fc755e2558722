"""Lowerings of normalisation: statistics in f32 or f64."""

from __future__ import annotations

import math

from .hlo_builder import Value
from .lowering import Lowering
from .reductions import variance_of
from .registry import Unsupported, lowers, require_one_type
from .types import hlo_type


def _normalise(c: Lowering, x: Value, dims: list[int], eps: float) -> tuple[Value, Value, Value]:
    """(normalised, mean, 1 / deviation), the latter two with sizes of 1 along dims."""
    x = c.widen(x)
    mean = c.mean(x, dims, statistics=True)
    centred = c.sub(x, mean)
    rstd = c.unary("rsqrt", c.add(c.mean(c.mul(centred, centred), dims, statistics=True), float(eps)))
    return c.mul(centred, rstd), mean, rstd


def _scale_shift(c: Lowering, x: Value, weight: Value | None, bias: Value | None, place) -> Value:
    require_one_type(x, *(c.widen(v) for v in (weight, bias) if v is not None))
    if weight is not None:
        x = c.mul(x, place(c.cast(weight, x.dtype)))
    return x if bias is None else c.add(x, place(c.cast(bias, x.dtype)))


@lowers("aten.native_layer_norm.default")
def layer_norm(c, x, shape, weight, bias, eps):
    dims = list(range(x.rank - len(shape), x.rank))
    y, mean, rstd = _normalise(c, x, dims, eps)
    y = _scale_shift(c, y, weight, bias, lambda v: v)
    kinds = [hlo_type(r.dtype) for r in c.results]
    return [c.cast(v, kind) for v, kind in zip((y, mean, rstd), kinds)]


@lowers("aten.native_group_norm.default")
def group_norm(c, x, weight, bias, n, channels, inner, groups, eps):
    grouped = c.b.reshape(x, (n, groups, channels // groups, inner))
    y, mean, rstd = _normalise(c, grouped, [2, 3], eps)
    y = c.b.reshape(y, x.shape)
    y = _scale_shift(c, y, weight, bias, lambda v: c.b.reshape(v, (channels, *[1] * (x.rank - 2))))
    kinds = [hlo_type(r.dtype) for r in c.results]
    return [c.cast(y, kinds[0]), *(c.cast(c.b.reshape(v, (n, groups)), k) for v, k in zip((mean, rstd), kinds[1:]))]


def batch_norm(c: Lowering, x: Value, weight, bias, running_mean, running_var, training: bool, momentum: float,
               eps: float) -> dict[str, Value | None]:
    """Along dimension 1, with sums in f64 on CPUs, as torch has them. Also gives the statistics and the next running
    ones (None where not training)."""
    dims = [d for d in range(x.rank) if d != 1]

    def place(v: Value) -> Value:
        return c.b.reshape(v, (v.shape[0], *[1] * (x.rank - 2)))

    def channel(v: Value) -> Value:
        return c.b.reshape(v, (x.shape[1],))

    wide_x = c.widen(x)
    require_one_type(wide_x, *(c.widen(v) for v in (running_mean, running_var) if v is not None))
    found: dict[str, Value | None] = {"running_mean": running_mean, "running_var": running_var}
    if not training:
        rstd = c.unary("rsqrt", c.add(c.widen(running_var), float(eps)))
        y = c.mul(c.sub(wide_x, place(c.widen(running_mean))), place(rstd))
        found |= {"mean": None, "rstd": None}
    else:
        exact_x = c.accumulator(x)
        _, mean, rstd = _normalise(c, exact_x, dims, eps)
        y = c.mul(c.sub(wide_x, c.cast(mean, wide_x.dtype)), c.cast(rstd, wide_x.dtype))
        found |= {"mean": channel(mean), "rstd": channel(rstd)}
        if running_mean is not None:
            count = math.prod(x.shape[d] for d in dims)
            variance = channel(variance_of(c, exact_x, dims, 1, False))
            if count == 1:
                raise Unsupported("batch normalisation of one element a channel while training")
            news = (("running_mean", running_mean, channel(mean)), ("running_var", running_var, variance))
            for name, old, new in news:
                old = c.cast(old, new.dtype)
                found[name] = c.add(c.mul(old, 1.0 - momentum), c.mul(new, momentum))
    found["y"] = c.cast(_scale_shift(c, y, weight, bias, place), x.dtype)
    return found


def _statistics(c: Lowering, found: dict, first: int) -> list[Value]:
    """Mean and 1/deviation as results `first` and `first + 1`: empty where they were not computed."""
    kinds = [(hlo_type(r.dtype), tuple(r.shape)) for r in c.results[first:first + 2]]
    return [c.b.full(0, *kind) if found[name] is None else c.cast(found[name], kind[0])
            for name, kind in zip(("mean", "rstd"), kinds)]


def _next_statistics(c: Lowering, found: dict, first: int) -> list[Value]:
    """The running mean and variance, in the types that torch states (f32 for buffers of 16 bits while tracing)."""
    kinds = [hlo_type(r.dtype) for r in c.results[first:first + 2]]
    return [c.cast(found[name], kind) for name, kind in zip(("running_mean", "running_var"), kinds)]


@lowers("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(c, x, weight, bias, running_mean, running_var, training, momentum, eps):
    found = batch_norm(c, x, weight, bias, running_mean, running_var, training, momentum, eps)
    return [found["y"], *_statistics(c, found, 1), *_next_statistics(c, found, 3)]


@lowers("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(c, x, weight, bias, running_mean, running_var, momentum, eps):
    found = batch_norm(c, x, weight, bias, running_mean, running_var, False, momentum, eps)
    return [found["y"], *_statistics(c, found, 1)]


@lowers("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(c, x, weight, bias, training, momentum, eps):
    found = batch_norm(c, x, weight, bias, None, None, training, momentum, eps)
    return [found["y"], *_statistics(c, found, 1)]


@lowers("aten._batch_norm_with_update_functional.default")
def batch_norm_update(c, x, weight, bias, running_mean, running_var, momentum, eps):
    found = batch_norm(c, x, weight, bias, running_mean, running_var, True, momentum, eps)
    reserve = c.results[3]
    return [found["y"], *_statistics(c, found, 1), c.b.full(0, hlo_type(reserve.dtype), tuple(reserve.shape)),
            *_next_statistics(c, found, 4)]


@lowers("aten.native_batch_norm_backward.default")
def batch_norm_backward(c, grad, x, weight, running_mean, running_var, mean, rstd, training, eps, mask):
    dims = [d for d in range(x.rank) if d != 1]
    count = math.prod(x.shape[d] for d in dims)

    def place(v: Value) -> Value:
        return c.b.reshape(c.cast(v, exact_x.dtype), (x.shape[1], *[1] * (x.rank - 2)))

    exact_x, exact_grad = c.accumulator(x), c.accumulator(grad)
    if not training:
        mean = running_mean
        rstd = c.unary("rsqrt", c.add(c.accumulator(running_var), float(eps)))
    mean, rstd = place(mean), place(rstd)
    centred = c.sub(exact_x, mean)
    total, product = (c.reduce("add", v, dims, statistics=True) for v in (exact_grad, c.mul(exact_grad, centred)))
    factor = rstd if weight is None else c.mul(rstd, place(weight))
    inner = exact_grad
    if training:
        along = c.mul(centred, c.mul(c.mul(rstd, rstd), c.div(place(product), float(count))))
        inner = c.sub(c.sub(exact_grad, c.div(place(total), float(count))), along)
    of_weight = c.mul(product, c.b.reshape(rstd, product.shape))
    results = [c.mul(inner, factor), of_weight, total]
    return [c.cast(v, hlo_type(r.dtype)) if wanted else None for v, wanted, r in zip(results, mask, c.results)]
