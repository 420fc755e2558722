"""Lowerings of elementwise operators of one array: functions, activations, tests."""

from __future__ import annotations

import math

from .hlo_builder import COMPLEX, FLOATS, UNSIGNED, Value
from .lowering import Lowering
from .registry import Unsupported, lowers
from .types import wide

_ONE_OPERATOR = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atanh": "atanh", "ceil": "ceil",
    "cos": "cosine", "cosh": "cosh", "erf": "erf", "exp": "exponential", "expm1": "exponential-minus-one",
    "floor": "floor", "log": "log", "log1p": "log-plus-one", "neg": "negate", "round": "round-nearest-even",
    "rsqrt": "rsqrt", "sigmoid": "logistic", "sign": "sign", "sin": "sine", "sinh": "sinh", "sqrt": "sqrt",
    "tan": "tan", "tanh": "tanh",
}


#: Those that are taken of complex numbers. Of the others, HLO's have another branch, or none at all.
_OF_COMPLEX = ("cos", "exp", "log", "neg", "sin", "sqrt", "tanh")


def _one_operator(name: str, opcode: str) -> None:
    @lowers(f"aten.{name}.default", of_complex=name in _OF_COMPLEX)
    def rule(c: Lowering, x: Value) -> Value:
        if name in ("ceil", "floor", "round") and c.dtype not in FLOATS:
            return x
        return sign(c, x) if name == "sign" else c.unary(opcode, c.cast(x, c.dtype))


@lowers("aten.abs.default", of_complex=True)
def absolute(c, x):
    return c.b.op("abs", [x], c.dtype, c.shape)


def sign(c: Lowering, x: Value) -> Value:
    if x.dtype == "pred" or x.dtype in UNSIGNED:
        return c.cast(c.compare(x, 0, "NE"), c.dtype)
    # torch's sign of NaN is 0, and so is that of -0.
    return c.cast(c.sub(c.cast(c.compare(x, 0, "GT"), "s8"), c.cast(c.compare(x, 0, "LT"), "s8")), c.dtype)


for _name, _opcode in _ONE_OPERATOR.items():
    _one_operator(_name, _opcode)


def formula(*names: str):
    """A rule for a formula of one tensor, computed in f32 or f64 and rounded once to the result's type."""
    def register(function):
        @lowers(*names)
        def rule(c: Lowering, x: Value, *arguments, **named) -> Value:
            return c.cast(function(c, c.cast(x, wide(c.dtype)), *arguments, **named), c.dtype)
        return rule
    return register


@formula("aten.atan.default")
def atan(c, x):
    return c.binary("atan2", x, 1.0)


@formula("aten.exp2.default")
def exp2(c, x):
    return c.binary("power", 2.0, x)


@formula("aten.log2.default")
def log2(c, x):
    return c.mul(c.unary("log", x), 1 / math.log(2))


@formula("aten.log10.default")
def log10(c, x):
    return c.mul(c.unary("log", x), 1 / math.log(10))


@lowers("aten.reciprocal.default", of_complex=True)
def reciprocal(c, x):
    return c.cast(c.div(1.0, c.cast(x, wide(c.dtype))), c.dtype)


@formula("aten.silu.default")
def silu(c, x):
    return c.mul(x, c.unary("logistic", x))


@formula("aten.gelu.default")
def gelu(c, x, approximate="none"):
    if approximate == "tanh":
        inner = c.mul(c.add(x, c.mul(c.mul(c.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return c.mul(c.mul(x, 0.5), c.add(c.unary("tanh", inner), 1.0))
    return c.mul(c.mul(x, 0.5), c.add(c.unary("erf", c.mul(x, math.sqrt(0.5))), 1.0))


@formula("aten.elu.default")
def elu(c, x, alpha=1.0, scale=1.0, input_scale=1.0):
    negative = c.mul(c.unary("exponential-minus-one", c.mul(x, float(input_scale))), float(alpha * scale))
    return c.select(c.compare(x, 0.0, "GT"), c.mul(x, float(scale)), negative)


@formula("aten.leaky_relu.default")
def leaky_relu(c, x, negative_slope=0.01):
    return c.select(c.compare(x, 0.0, "GT"), x, c.mul(x, float(negative_slope)))


@lowers("aten.polygamma.default", "aten.lgamma.default", "aten.igamma.default", "aten.igammac.default",
        "aten.special_zeta.default")
def special(c, *_):
    if c.node.target._opname == "lgamma":
        raise Unsupported("in float64 it is not taken, only in narrower types")
    if c.node.target._opname == "polygamma":
        raise Unsupported("only polygamma(0, x) and polygamma(1, x) are taken")
    raise Unsupported("of the special functions, the incomplete gamma functions and zeta are not taken")


@lowers("aten.trunc.default", "aten.fix.default")
def trunc(c, x):
    if x.dtype not in FLOATS:
        return x
    return c.select(c.compare(x, 0.0, "LT"), c.unary("ceil", x), c.unary("floor", x))


@lowers("aten.relu.default")
def relu(c, x):
    return c.binary("maximum", x, 0)


@lowers("aten.signbit.default")
def signbit(c, x):
    if x.dtype == "pred" or x.dtype in UNSIGNED:
        return c.b.full(False, "pred", c.shape)
    if x.dtype not in FLOATS:
        return c.compare(x, 0, "LT")
    # The sign of -0 and of NaN is in the bits alone.
    bits = {"f16": "s16", "bf16": "s16", "f32": "s32", "f64": "s64"}[x.dtype]
    return c.compare(c.b.op("bitcast-convert", [x], bits, x.shape), 0, "LT")


@lowers("aten.angle.default", of_complex=True)
def angle(c, x):
    if x.dtype in COMPLEX:
        real, imag = c.parts(x)
        return c.binary("atan2", imag, real)
    y = c.cast(x, c.dtype)
    return c.select(c.compare(y, y, "NE"), y, c.select(c.compare(y, 0.0, "LT"), math.pi, 0.0, c.dtype))


@formula("aten.round.decimals")
def round_decimals(c, x, *, decimals=0):
    if x.dtype not in FLOATS:
        return x
    by = 10.0 ** abs(decimals)
    scaled = c.mul(x, by) if decimals >= 0 else c.div(x, by)
    scaled = c.unary("round-nearest-even", scaled)
    return c.div(scaled, by) if decimals >= 0 else c.mul(scaled, by)


@lowers("aten.isnan.default")
def isnan(c, x):
    return c.compare(x, x, "NE")


@lowers("aten.isinf.default")
def isinf(c, x):
    return c.compare(c.unary("abs", x), math.inf, "EQ") if x.dtype in FLOATS else c.b.full(False, "pred", c.shape)


@lowers("aten.logical_not.default", of_complex=True)
def logical_not(c, x):
    return c.compare(x, 0, "EQ")


@lowers("aten.bitwise_not.default")
def bitwise_not(c, x):
    return c.unary("not", x)
