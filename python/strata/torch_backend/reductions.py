"""Lowerings of reductions, cumulative operators, sorting and softmax."""

from __future__ import annotations

import math

from .hlo_builder import FLOATS, Value, Window, highest, lowest
from .lowering import Lowering, dimensions
from .registry import Unsupported, lowers
from .types import hlo_type, wide


@lowers("aten.sum.dim_IntList", "aten.sum.default", "prims.sum.default", of_complex=True)
def sum_dims(c, x, dim=None, keepdim=False, dtype=None, output_dtype=None):
    return c.cast(c.reduce("add", c.cast(x, wide(c.dtype)), dimensions(x.rank, dim), keepdim), c.dtype)


@lowers("aten.mean.dim", "aten.mean.default", of_complex=True)
def mean(c, x, dim=None, keepdim=False, dtype=None):
    return c.cast(c.mean(c.cast(x, wide(c.dtype)), dimensions(x.rank, dim), keepdim), c.dtype)


@lowers("aten.prod.default", "aten.prod.dim_int", of_complex=True)
def prod(c, x, dim=None, keepdim=False, dtype=None):
    return c.cast(c.reduce("multiply", c.cast(x, wide(c.dtype)), dimensions(x.rank, dim), keepdim), c.dtype)


def extreme(c: Lowering, opcode: str, x: Value, dims: list[int], keep: bool = False) -> Value:
    """The largest or smallest elements along dims. Among none there is none: torch says so."""
    if any(x.shape[d] == 0 for d in dims):
        raise Unsupported("the extreme value of no elements")
    return c.reduce(opcode, x, dims, keep)


@lowers("aten.amax.default")
def amax(c, x, dim=(), keepdim=False):
    return extreme(c, "maximum", x, dimensions(x.rank, dim), keepdim)


@lowers("aten.amin.default")
def amin(c, x, dim=(), keepdim=False):
    return extreme(c, "minimum", x, dimensions(x.rank, dim), keepdim)


@lowers("aten.max.default")
def max_all(c, x):
    return extreme(c, "maximum", x, list(range(x.rank)))


@lowers("aten.min.default")
def min_all(c, x):
    return extreme(c, "minimum", x, list(range(x.rank)))


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_dims(c, x, dim=None, keepdim=False):
    found = c.compare(x, 0, "NE") if x.dtype != "pred" else x
    return c.cast(c.reduce("or", found, dimensions(x.rank, dim, empty_is_all=False), keepdim), c.dtype)


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_dims(c, x, dim=None, keepdim=False):
    found = c.compare(x, 0, "NE") if x.dtype != "pred" else x
    return c.cast(c.reduce("and", found, dimensions(x.rank, dim, empty_is_all=False), keepdim), c.dtype)


def variance_of(c: Lowering, x: Value, dims: list[int], correction, keep: bool) -> Value:
    """In f32 or f64, from the deviations, as torch does."""
    count = math.prod(x.shape[d] for d in dims)
    deviation = c.sub(c.widen(x), c.mean(x, dims, statistics=True))
    total = c.reduce("add", c.mul(deviation, deviation), dims, keep, statistics=True)
    return c.div(total, max(0.0, float(count) - float(correction)))


@lowers("aten.var.correction")
def var(c, x, dim=None, correction=1, keepdim=False):
    correction = 1 if correction is None else correction
    return c.cast(variance_of(c, c.accumulator(x), dimensions(x.rank, dim), correction, keepdim), c.dtype)


@lowers("aten.var_mean.correction")
def var_mean(c, x, dim=None, correction=1, keepdim=False):
    correction = 1 if correction is None else correction
    dims, x = dimensions(x.rank, dim), c.accumulator(x)
    return [c.cast(variance_of(c, x, dims, correction, keepdim), c.dtype), c.cast(c.mean(x, dims, keepdim), c.dtype)]


@lowers("aten.linalg_vector_norm.default")
def vector_norm(c, x, ord=2, dim=None, keepdim=False, dtype=None):
    size = c.unary("abs", c.cast(x, wide(c.dtype)))
    dims = dimensions(x.rank, dim)
    if ord in (math.inf, -math.inf):
        return c.cast(extreme(c, "maximum" if ord > 0 else "minimum", size, dims, keepdim), c.dtype)
    if ord == 0:
        return c.cast(c.reduce("add", c.cast(c.compare(size, 0.0, "NE"), size.dtype), dims, keepdim), c.dtype)
    if ord == 1:
        return c.cast(c.reduce("add", size, dims, keepdim), c.dtype)
    if ord == 2:
        return c.cast(c.unary("sqrt", c.reduce("add", c.mul(size, size), dims, keepdim)), c.dtype)
    total = c.reduce("add", c.binary("power", size, float(ord)), dims, keepdim)
    return c.cast(c.binary("power", total, 1.0 / ord), c.dtype)


# The place of an extreme value: the first one, NaN before all others, as in torch.

def arg_extreme(c: Lowering, x: Value, dim: int, direction: str) -> tuple[Value, Value]:
    """(values, s32 places) of the largest ("GT") or smallest ("LT") elements along dim, without dim."""
    if x.dtype == "pred":
        value, place = arg_extreme(c, c.cast(x, "s32"), dim, direction)
        return c.cast(value, "pred"), place
    best = {"GT": "maximum", "LT": "minimum"}[direction]
    scalar = f"{x.dtype}[]"
    nan = "NE" if x.dtype in FLOATS else None
    lines = [f"v = {scalar} parameter(0)", "i = s32[] parameter(1)", f"w = {scalar} parameter(2)",
             "j = s32[] parameter(3)", f"beyond = pred[] compare(v, w), direction={direction}"]
    if nan:
        lines += ["nan = pred[] compare(v, v), direction=NE", "first = pred[] or(beyond, nan)"]
    first = "first" if nan else "beyond"
    lines += ["same = pred[] compare(v, w), direction=EQ", "below = pred[] compare(i, j), direction=LT",
              "tie = pred[] and(same, below)", f"keep = pred[] or({first}, tie)"]
    if nan:
        lines += ["other_nan = pred[] compare(w, w), direction=NE", "both = pred[] and(nan, other_nan)",
                  "keep_place = pred[] select(both, below, keep)"]
    keep = "keep_place" if nan else "keep"
    lines += [f"value = {scalar} select({first}, v, w)", f"place = s32[] select({keep}, i, j)",
              f"ROOT r = ({scalar}, s32[]) tuple(value, place)"]
    shape = [n for d, n in enumerate(x.shape) if d != dim]
    start = c.b.constant(lowest(x.dtype) if best == "maximum" else highest(x.dtype), x.dtype)
    places = c.b.iota("s32", x.shape, dim)
    results = c.b.tuple_op("reduce", [x, places, start, c.b.constant(2**31 - 1, "s32")],
                           [(x.dtype, shape), ("s32", shape)], f"dimensions={{{dim}}}",
                           f"to_apply={c.b.computation(f'place_{best}.{x.dtype}', lines)}")
    return results[0], results[1]


def _arg(c: Lowering, x: Value, dim, direction: str) -> Value:
    if x.size == 0:
        raise Unsupported("the place of an extreme value among none")
    if dim is None:
        x, dim = c.b.reshape(x, (x.size,)), 0
    if x.rank == 0:
        return c.b.full(0, c.dtype, c.shape)
    return c.b.reshape(c.cast(arg_extreme(c, x, dim % x.rank, direction)[1], c.dtype), c.shape)


@lowers("aten.argmax.default")
def argmax(c, x, dim=None, keepdim=False):
    return _arg(c, x, dim, "GT")


@lowers("aten.argmin.default")
def argmin(c, x, dim=None, keepdim=False):
    return _arg(c, x, dim, "LT")


def _extreme_dim(c: Lowering, x: Value, dim: int, direction: str) -> list[Value]:
    if x.rank == 0:
        return [x, c.b.full(0, "s64", ())]
    if x.shape[dim % x.rank] == 0:
        raise Unsupported("the extreme value of no elements")
    value, place = arg_extreme(c, x, dim % x.rank, direction)
    return [c.b.reshape(value, c.shape), c.b.reshape(c.cast(place, "s64"), c.shape)]


@lowers("aten.max.dim")
def max_dim(c, x, dim, keepdim=False):
    return _extreme_dim(c, x, dim, "GT")


@lowers("aten.min.dim")
def min_dim(c, x, dim, keepdim=False):
    return _extreme_dim(c, x, dim, "LT")


# Cumulative

def cumulative_window(x: Value, dim: int) -> Window:
    """All elements up to one along dim."""
    dim, n = dim % x.rank, x.shape[dim % x.rank]
    return Window([n if d == dim else 1 for d in range(x.rank)],
                  pad=[(n - 1, 0) if d == dim else (0, 0) for d in range(x.rank)])


def cumulate(c: Lowering, opcode: str, x: Value, dim: int) -> Value:
    return x if x.rank == 0 or x.size == 0 else c.b.reduce_window(opcode, x, cumulative_window(x, dim))


@lowers("aten.cumsum.default", of_complex=True)
def cumsum(c, x, dim, dtype=None):
    return c.cast(cumulate(c, "add", c.accumulator(c.cast(x, c.dtype)), dim), c.dtype)


@lowers("aten.cumprod.default", of_complex=True)
def cumprod(c, x, dim, dtype=None):
    return c.cast(cumulate(c, "multiply", c.accumulator(c.cast(x, c.dtype)), dim), c.dtype)


def _cumulative_extreme(c: Lowering, opcode: str, x: Value, dim: int) -> list[Value]:
    """(values, places): of equal elements the last one is named, and NaN stays."""
    if x.rank == 0 or x.size == 0:
        return [x, c.b.full(0, "s64", x.shape)]
    of = c.cast(x, "s32") if x.dtype == "pred" else x
    best = cumulate(c, opcode, of, dim)
    new = c.compare(of, best, "EQ")
    if x.dtype in FLOATS:
        new = c.binary("or", new, c.compare(x, x, "NE"))
    places = c.select(new, c.b.iota("s32", x.shape, dim % x.rank), -1, "s32")
    return [c.cast(best, x.dtype), c.cast(cumulate(c, "maximum", places, dim), "s64")]


@lowers("aten.cummax.default")
def cummax(c, x, dim):
    return _cumulative_extreme(c, "maximum", x, dim)


@lowers("aten.cummin.default")
def cummin(c, x, dim):
    return _cumulative_extreme(c, "minimum", x, dim)


@lowers("aten.logcumsumexp.default")
def logcumsumexp(c, x, dim):
    """By a scan whose sums are log(exp(a) + exp(b)), in the type of other long sums: each of its steps rounds."""
    if x.rank == 0 or x.size == 0:
        return x
    y = c.accumulator(x)
    kind = f"{y.dtype}[]"
    lines = [f"a = {kind} parameter(0)", f"b = {kind} parameter(1)", f"top = {kind} maximum(a, b)",
             f"below = {kind} minimum(a, b)", f"difference = {kind} subtract(below, top)",
             f"exponential = {kind} exponential(difference)", f"more = {kind} log-plus-one(exponential)",
             f"sum = {kind} add(top, more)", "same = pred[] compare(below, top), direction=EQ",
             f"infinity = {kind} constant(inf)", f"size = {kind} abs(top)",
             "endless = pred[] compare(size, infinity), direction=EQ", "both = pred[] and(same, endless)",
             f"ROOT r = {kind} select(both, top, sum)"]
    combiner = c.b.computation(f"log_add_exp.{y.dtype}", lines)
    found = c.b.op("reduce-window", [y, c.b.constant(-math.inf, y.dtype)], y.dtype, y.shape,
                   cumulative_window(y, dim).text(), f"to_apply={combiner}")
    return c.cast(found, c.dtype)


# Sorting

def _sort(c: Lowering, x: Value, dim: int, descending: bool) -> list[Value]:
    """(values, s32 places), stable; NaN is the largest."""
    scalar = f"{x.dtype}[]"
    places = c.b.iota("s32", x.shape, dim)
    lines = [f"v = {scalar} parameter(0)", f"w = {scalar} parameter(1)", "i = s32[] parameter(2)",
             "j = s32[] parameter(3)"]
    first, second = ("w", "v") if descending else ("v", "w")
    lines += [f"below = pred[] compare({first}, {second}), direction=LT"]
    if x.dtype in FLOATS:
        lines += [f"nan = pred[] compare({second}, {second}), direction=NE",
                  f"number = pred[] compare({first}, {first}), direction=EQ",
                  "before_nan = pred[] and(nan, number)", "ROOT r = pred[] or(below, before_nan)"]
    else:
        lines[-1] = "ROOT " + lines[-1]
    order = c.b.computation(f"{'descending' if descending else 'ascending'}.{x.dtype}", lines)
    return c.b.tuple_op("sort", [x, places], [(x.dtype, x.shape), ("s32", x.shape)], f"dimensions={{{dim}}}",
                        "is_stable=true", f"to_apply={order}")


@lowers("aten.sort.default", "aten.sort.stable")
def sort(c, x, dim=-1, descending=False, stable=None):
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise Unsupported("a sort with its arguments in this order is not taken")
    if x.rank == 0:
        return [x, c.b.full(0, "s64", ())]
    values, places = _sort(c, x, dim % x.rank, descending)
    return [values, c.cast(places, "s64")]


@lowers("aten.topk.default")
def topk(c, x, k, dim=-1, largest=True, sorted=True):
    if x.rank == 0:
        return [x, c.b.full(0, "s64", ())]
    values, places = _sort(c, x, dim % x.rank, largest)
    limits = [k if d == dim % x.rank else n for d, n in enumerate(x.shape)]
    starts = [0] * x.rank
    return [c.b.slice(values, starts, limits), c.cast(c.b.slice(places, starts, limits), "s64")]


# Softmax: in f32 or f64, rounded once

def _exponentials(c: Lowering, x: Value, dim: int) -> tuple[Value, Value, Value]:
    """(x - max, its exponential, their sum)"""
    dims = [dim % x.rank] if x.rank else []
    shifted = c.sub(x, c.reduce("maximum", x, dims, keep=True))
    exponentials = c.unary("exponential", shifted)
    return shifted, exponentials, c.reduce("add", exponentials, dims, keep=True)


@lowers("aten._softmax.default")
def softmax(c, x, dim, half_to_float=False):
    _, exponentials, total = _exponentials(c, c.widen(x), dim)
    return c.cast(c.div(exponentials, total), c.dtype)


@lowers("aten._log_softmax.default")
def log_softmax(c, x, dim, half_to_float=False):
    shifted, _, total = _exponentials(c, c.widen(x), dim)
    return c.cast(c.sub(shifted, c.unary("log", total)), c.dtype)


@lowers("aten._softmax_backward_data.default")
def softmax_backward(c, grad, y, dim, input_dtype):
    dims = [dim % y.rank] if y.rank else []
    grad, y = c.widen(grad), c.widen(y)
    product = c.mul(grad, y)
    total = c.reduce("add", product, dims, keep=True)
    return c.cast(c.sub(product, c.mul(y, total)), hlo_type(input_dtype))


@lowers("aten._log_softmax_backward_data.default")
def log_softmax_backward(c, grad, y, dim, input_dtype):
    dims = [dim % y.rank] if y.rank else []
    grad, y = c.widen(grad), c.widen(y)
    total = c.reduce("add", grad, dims, keep=True)
    return c.cast(c.sub(grad, c.mul(c.unary("exponential", y), total)), hlo_type(input_dtype))
