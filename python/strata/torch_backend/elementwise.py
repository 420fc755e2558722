"""Lowerings of elementwise operators of several arrays, and of conversions."""

from __future__ import annotations

import math

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from torch._prims_common import elementwise_dtypes

from .hlo_builder import COMPLEX, FLOATS, HALVES, UNSIGNED, Value, highest, lowest
from .lowering import Lowering, Operand
from .registry import Unsupported, lowers
from .types import TORCH_TYPES, hlo_type, wide
from .unary import trunc

# Two operands. Numbers of Python meet 16-bit floats in f32, as in torch: they are not rounded first.

def arithmetic(c: Lowering, opcode: str, x: Operand, y: Operand) -> Value:
    numbers = not (isinstance(x, Value) and isinstance(y, Value))
    mixed = any(isinstance(v, Value) and v.dtype != c.dtype for v in (x, y))
    dtype = wide(c.dtype) if numbers or mixed else c.dtype
    return c.cast(c.b.binary(opcode, c.operand(x, dtype), c.operand(y, dtype)), c.dtype)


def _scaled(c: Lowering, y: Operand, alpha) -> Operand:
    if alpha == 1:
        return y
    return y * alpha if not isinstance(y, Value) else c.mul(c.cast(y, wide(c.dtype)), alpha)


@lowers("aten.add.Tensor", "aten.add.Scalar", of_complex=True)
def add(c, x, y, alpha=1):
    return arithmetic(c, "or" if c.dtype == "pred" else "add", x, _scaled(c, y, alpha))


@lowers("aten.sub.Tensor", "aten.sub.Scalar", of_complex=True)
def sub(c, x, y, alpha=1):
    return arithmetic(c, "subtract", x, _scaled(c, y, alpha))


@lowers("aten.rsub.Tensor", "aten.rsub.Scalar", of_complex=True)
def rsub(c, x, y, alpha=1):
    return arithmetic(c, "subtract", y, _scaled(c, x, alpha))


@lowers("aten.mul.Tensor", "aten.mul.Scalar", of_complex=True)
def mul(c, x, y):
    return arithmetic(c, "and" if c.dtype == "pred" else "multiply", x, y)


@lowers("aten.div.Tensor", "aten.div.Scalar", of_complex=True)
def div(c, x, y):
    return arithmetic(c, "divide", x, y)


@lowers("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(c, x, y, rounding_mode=None):
    if rounding_mode is None:
        return arithmetic(c, "divide", x, y)
    return _floor_divide(c, x, y) if rounding_mode == "floor" else _truncating_divide(c, x, y)


@lowers("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(c, x, y):
    return _floor_divide(c, x, y)


def _truncating_divide(c: Lowering, x: Operand, y: Operand) -> Value:
    if c.dtype in FLOATS:
        q = c.div(c.operand(x, wide(c.dtype)), c.operand(y, wide(c.dtype)))
        return c.cast(trunc(c, q), c.dtype)
    return c.div(c.operand(x, c.dtype), c.operand(y, c.dtype))


def _floor_divide(c: Lowering, x: Operand, y: Operand) -> Value:
    dtype = wide(c.dtype)
    x, y = c.operand(x, dtype), c.operand(y, dtype)
    if c.dtype not in FLOATS:
        quotient = c.div(x, y)
        if c.dtype in UNSIGNED:
            return quotient
        # Not (x - remainder) / y: near the least number of the type, that difference overflows.
        return c.select(_has_other_sign(c, c.binary("remainder", x, y), y), c.sub(quotient, 1), quotient)
    # As Python's floor division: the quotient of what the remainder leaves, rounded to the nearest whole number. One is
    # taken from the quotient, and not y added to the remainder, since y may be infinite.
    rest = c.binary("remainder", x, y)
    quotient = c.div(c.sub(x, rest), y)
    quotient = c.select(_has_other_sign(c, rest, y), c.sub(quotient, 1.0), quotient)
    floor = c.unary("floor", quotient)
    floor = c.select(c.compare(c.sub(quotient, floor), 0.5, "GT"), c.add(floor, 1.0), floor)
    exact = c.div(x, y)
    usual = c.select(c.compare(quotient, 0.0, "NE"), floor, c.mul(c.unary("sign", exact), 0.0))
    return c.cast(c.select(c.compare(y, 0.0, "EQ"), exact, usual), c.dtype)


def _modulo(c: Lowering, x: Value, y: Value) -> Value:
    """The remainder with the sign of y."""
    rest = c.binary("remainder", x, y)
    if x.dtype in UNSIGNED:
        return rest
    return c.select(_has_other_sign(c, rest, y), c.add(rest, y), rest)


def _has_other_sign(c: Lowering, rest: Value, y: Value) -> Value:
    """Whether a remainder is not 0 and has not the sign of y."""
    differs = c.compare(c.cast(c.compare(rest, 0, "LT"), "s8"), c.cast(c.compare(y, 0, "LT"), "s8"), "NE")
    return c.binary("and", differs, c.compare(rest, 0, "NE"))


@lowers("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(c, x, y):
    dtype = wide(c.dtype)
    return c.cast(_modulo(c, c.operand(x, dtype), c.operand(y, dtype)), c.dtype)


@lowers("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(c, x, y):
    return arithmetic(c, "remainder", x, y)


@lowers("aten.maximum.default")
def maximum(c, x, y):
    return arithmetic(c, "maximum", x, y)


@lowers("aten.minimum.default")
def minimum(c, x, y):
    return arithmetic(c, "minimum", x, y)


@lowers("aten.fmax.default")
def fmax(c, x, y):
    return _ignoring_nan(c, "maximum", x, y)


@lowers("aten.fmin.default")
def fmin(c, x, y):
    return _ignoring_nan(c, "minimum", x, y)


def _ignoring_nan(c: Lowering, opcode: str, x: Value, y: Value) -> Value:
    x, y = c.operand(x, c.dtype), c.operand(y, c.dtype)
    best = c.binary(opcode, x, y)
    return c.select(c.compare(x, x, "NE"), y, c.select(c.compare(y, y, "NE"), x, best))


@lowers("aten.atan2.default")
def atan2(c, x, y):
    return arithmetic(c, "atan2", x, y)


@lowers("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar", of_complex=True)
def power(c, x, y):
    dtype = wide(c.dtype)
    if not isinstance(y, Value) and isinstance(x, Value):
        x = c.operand(x, dtype)
        if y == 0.5 and dtype in FLOATS:
            return c.cast(c.unary("sqrt", x), c.dtype)
        if y in (-1, -2, -0.5) and dtype in FLOATS:
            below = c.unary("rsqrt", x) if y == -0.5 else c.div(1.0, x if y == -1 else c.mul(x, x))
            return c.cast(below, c.dtype)
        if y in (0, 1, 2, 3, 4):
            square = c.mul(x, x)
            product = [c.operand(1, dtype), x, square, c.mul(square, x), c.mul(square, square)][int(y)]
            return c.cast(product, c.dtype)
    return c.cast(c.b.binary("power", c.operand(x, dtype), c.operand(y, dtype)), c.dtype)


def promoted(c: Lowering, kind: Kind = Kind.DEFAULT) -> str:
    """The type in which torch computes the node from its arguments' types."""
    values = [a.meta["val"] if hasattr(a, "meta") else a for a in c.node.args[:2]]
    return hlo_type(elementwise_dtypes(*values, type_promotion_kind=kind)[0])


def _comparison(name: str, direction: str) -> None:
    @lowers(f"aten.{name}.Tensor", f"aten.{name}.Scalar", of_complex=direction in ("EQ", "NE"))
    def rule(c: Lowering, x: Operand, y: Operand) -> Value:
        dtype = promoted(c)
        if not isinstance(y, Value) and dtype in HALVES:
            dtype = "f32"
        if dtype not in (*FLOATS, *COMPLEX, "pred") and isinstance(y, (int, float)):
            if not lowest(dtype) <= y <= highest(dtype):
                raise Unsupported(f"the number {y} does not fit {dtype}")
        return c.compare(c.operand(x, dtype), c.operand(y, dtype), direction)


for _name, _direction in {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}.items():
    _comparison(_name, _direction)


def _logical(name: str, opcode: str) -> None:
    @lowers(f"aten.logical_{name}.default")
    def logical(c: Lowering, x: Value, y: Value) -> Value:
        x, y = (c.expand(c.compare(v, 0, "NE"), c.shape) for v in (x, y))
        return c.b.binary(opcode, x, y)

    @lowers(f"aten.bitwise_{name}.Tensor", f"aten.bitwise_{name}.Scalar", f"aten.bitwise_{name}.Scalar_Tensor")
    def bitwise(c: Lowering, x: Operand, y: Operand) -> Value:
        return c.b.binary(opcode, c.operand(x, c.dtype), c.operand(y, c.dtype))


for _name in ("and", "or", "xor"):
    _logical(_name, _name)


@lowers("aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar",
        "aten.__lshift__.Tensor", "aten.__lshift__.Scalar")
def shift_left(c, x, y):
    return arithmetic(c, "shift-left", x, y)


@lowers("aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar",
        "aten.__rshift__.Tensor", "aten.__rshift__.Scalar")
def shift_right(c, x, y):
    return arithmetic(c, "shift-right-logical" if c.dtype in UNSIGNED else "shift-right-arithmetic", x, y)


@lowers("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(c, x, y):
    dtype = wide(c.dtype)
    size = c.unary("abs", c.operand(x, dtype))
    y = c.operand(y, dtype)
    # 1/-0 is below zero; a NaN's sign cannot be read in this way.
    negative = c.binary("or", c.compare(y, 0.0, "LT"), c.binary(
        "and", c.compare(y, 0.0, "EQ"), c.compare(c.div(1.0, y), 0.0, "LT")))
    return c.cast(c.select(negative, c.unary("negate", size), size), c.dtype)


@lowers("aten.hypot.default")
def hypot(c, x, y):
    x, y = (c.unary("abs", c.operand(v, wide(c.dtype))) for v in (x, y))
    big, small = c.binary("maximum", x, y), c.binary("minimum", x, y)
    ratio = c.select(c.compare(big, 0.0, "EQ"), 0.0, c.div(small, big), big.dtype)
    length = c.mul(big, c.unary("sqrt", c.add(c.mul(ratio, ratio), 1.0)))
    infinite = c.binary("or", c.compare(x, math.inf, "EQ"), c.compare(y, math.inf, "EQ"))
    return c.cast(c.select(infinite, math.inf, length), c.dtype)


# Three operands

@lowers("aten.where.self", of_complex=True)
def where(c, condition, x, y):
    condition = c.compare(condition, 0, "NE") if condition.dtype != "pred" else condition
    return c.b.select(c.expand(condition, c.shape), c.operand(x, c.dtype), c.operand(y, c.dtype))


@lowers("aten.masked_fill.Scalar", "aten.masked_fill.Tensor", of_complex=True)
def masked_fill(c, x, mask, value):
    return c.b.select(c.expand(mask, c.shape), c.operand(value, c.dtype), c.operand(x, c.dtype))


def _bound(value, dtype: str):
    """A bound of a clamp in a type: bounds beyond an integer type's range are its ends."""
    if isinstance(value, Value) or dtype in FLOATS:
        return value
    return int(min(max(value, lowest(dtype)), highest(dtype)))


def _clamp(c: Lowering, x: Value, low, high) -> Value:
    # Python's numbers meet halves in f32, which is as good as in half: a bound in half is rounded the same way.
    dtype = wide(c.dtype) if not isinstance(low, Value) and not isinstance(high, Value) else c.dtype
    x = c.operand(x, dtype)
    if low is not None:
        x = c.b.binary("maximum", x, c.operand(_bound(low, dtype), dtype))
    if high is not None:
        x = c.b.binary("minimum", x, c.operand(_bound(high, dtype), dtype))
    return c.cast(x, c.dtype)


@lowers("aten.clamp.default", "aten.clamp.Tensor")
def clamp(c, x, min=None, max=None):
    return _clamp(c, x, min, max)


@lowers("aten.hardtanh.default")
def hardtanh(c, x, min_val=-1.0, max_val=1.0):
    return _clamp(c, x, min_val, max_val)


@lowers("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(c, x, min):
    return _clamp(c, x, min, None)


@lowers("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(c, x, max):
    return _clamp(c, x, None, max)


@lowers("aten.addcmul.default", of_complex=True)
def addcmul(c, x, y, z, value=1):
    x, y, z = (c.operand(v, wide(c.dtype)) for v in (x, y, z))
    return c.cast(c.add(x, c.mul(c.mul(y, value), z)), c.dtype)


@lowers("prims.fma.default")
def fma(c, x, y, z):
    x, y, z = (c.operand(v, wide(c.dtype)) for v in (x, y, z))
    return c.cast(c.add(c.mul(x, y), z), c.dtype)


@lowers("aten.addcdiv.default", of_complex=True)
def addcdiv(c, x, y, z, value=1):
    x, y, z = (c.operand(v, wide(c.dtype)) for v in (x, y, z))
    return c.cast(c.add(x, c.mul(c.div(y, z), value)), c.dtype)


# Types

@lowers("aten._to_copy.default", "prims.convert_element_type.default", "prims._convert_element_type.default",
        of_complex=True, of_float8=True)
def to_copy(c, x, *_, **__):
    if not isinstance(x, Value):
        return c.operand(x, c.dtype)
    source = c.node.args[0]  # a number, where x is one that stands for an array
    if isinstance(source, torch.fx.Node) and c.result.device.type != source.meta["val"].device.type:
        raise Unsupported("copies between devices are not taken")
    return c.cast(x, c.dtype)


@lowers("aten.view.dtype", of_float8=True)
def view_dtype(c, x, dtype):
    if "pred" in (x.dtype, c.dtype):
        raise Unsupported("a view of booleans in another type, or of another type in booleans, is not taken")
    before, after = TORCH_TYPES[x.dtype].itemsize, dtype.itemsize
    if before == after:
        return c.b.op("bitcast-convert", [x], c.dtype, c.shape)
    # HLO has the narrow elements of a wide one in a dimension of their own, the last.
    if before > after:
        parts = c.b.op("bitcast-convert", [x], c.dtype, [*x.shape, before // after])
        return c.b.reshape(parts, c.shape)
    return c.b.op("bitcast-convert", [c.b.reshape(x, [*c.shape, after // before])], c.dtype, c.shape)


@lowers("aten.clone.default", "aten.alias.default", "aten.detach_copy.default", "aten.alias_copy.default",
        "aten.detach.default", "aten.lift_fresh_copy.default", "aten.contiguous.default", "prims.clone.default",
        "prims.view_of.default", of_complex=True, of_float8=True)
def clone(c, x, **_):
    return x


@lowers("aten.copy.default", of_complex=True)
def copy(c, x, source, non_blocking=False):
    return c.operand(source, c.dtype)
