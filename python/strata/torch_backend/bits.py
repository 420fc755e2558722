"""Lowerings of elementwise operators that read numbers by their bits, or in steps: frexp, nextafter, gcd, lcm."""

from __future__ import annotations

from .control_flow import loop, truth
from .hlo_builder import UNSIGNED, HloBuilder, Value
from .lowering import Lowering
from .registry import Unsupported, lowers

#: For each type of floats: the integers of its size, the bits of its fraction, and the exponent of 1 as it is stored.
_FORMATS = {"f16": ("s16", 10, 15), "bf16": ("s16", 7, 127), "f32": ("s32", 23, 127), "f64": ("s64", 52, 1023)}


def _bits(c: Lowering, x: Value) -> Value:
    return c.b.op("bitcast-convert", [x], _FORMATS[x.dtype][0], x.shape)


@lowers("aten.frexp.Tensor")
def frexp(c, x):
    """x as a number from 0.5 to 1 and a power of two. What is 0 or not finite stays, with the power 0."""
    kind, fraction, one = _FORMATS[x.dtype]
    # Numbers below the least normal one become normal ones first.
    tiny = c.compare(c.unary("abs", x), 2.0 ** (1 - one), "LT")
    scaled = c.select(tiny, c.mul(x, 2.0 ** (fraction + 1)), x)
    bits, mask = _bits(c, scaled), (2 * one + 1) << fraction
    stored = c.binary("shift-right-logical", c.binary("and", bits, mask), fraction)
    power = c.sub(c.sub(stored, one - 1), c.select(tiny, fraction + 1, 0, kind))
    part = c.b.op("bitcast-convert", [c.binary("or", c.binary("and", bits, ~mask), (one - 1) << fraction)], x.dtype,
                  x.shape)
    usual = c.binary("and", c.unary("is-finite", x), c.compare(x, 0.0, "NE"))
    return [c.select(usual, part, x), c.cast(c.select(usual, power, 0, kind), "s32")]


@lowers("aten.nextafter.default")
def nextafter(c, x, y):
    """The number next to x on the way to y: numbers of one sign are in the order of their bits."""
    x, y = c.operand(x, c.dtype), c.operand(y, c.dtype)
    kind, bits = _FORMATS[c.dtype][0], _bits(c, x)
    away = c.compare(c.cast(c.compare(x, y, "LT"), "s8"), c.cast(c.compare(x, 0.0, "GT"), "s8"), "EQ")
    step = c.binary("add", bits, c.select(away, 1, -1, kind))
    # From 0 on, the least number with the sign of y.
    sign = c.binary("and", _bits(c, y), -(1 << int(kind[1:]) - 1))
    step = c.select(c.compare(x, 0.0, "EQ"), c.binary("or", sign, 1), step)
    found = c.b.op("bitcast-convert", [step], c.dtype, c.shape)
    found = c.select(c.compare(x, y, "EQ"), y, found)
    return c.select(c.compare(x, x, "NE"), x, c.select(c.compare(y, y, "NE"), y, found))


# Common divisors and multiples: by Euclid's steps, until all elements have come to their end

def _gcd(c: Lowering, x: Value, y: Value) -> Value:
    if x.dtype == "pred":
        raise Unsupported("of booleans it is not taken")
    if x.dtype not in UNSIGNED:
        x, y = c.unary("abs", x), c.unary("abs", y)

    def goes_on(b: HloBuilder, values: list[Value]) -> Value:
        (left, _), zero = values, b.full(0, x.dtype, x.shape)
        return truth(b, b.reduce("or", b.compare(left, zero, "NE"), range(x.rank)))

    def step(b: HloBuilder, values: list[Value]) -> list[Value]:
        (left, right), zero = values, b.full(0, x.dtype, x.shape)
        ended = b.compare(left, zero, "EQ")
        rest = b.binary("remainder", right, b.select(ended, b.full(1, x.dtype, x.shape), left))
        return [b.select(ended, zero, rest), b.select(ended, right, left)]

    return loop(c, [x, y], goes_on, step)[1]


@lowers("aten.gcd.default")
def gcd(c, x, y):
    return _gcd(c, c.operand(x, c.dtype), c.operand(y, c.dtype))


@lowers("aten.lcm.default")
def lcm(c, x, y):
    x, y = c.operand(x, c.dtype), c.operand(y, c.dtype)
    divisor = _gcd(c, x, y)
    # As C's arithmetic, whose products of narrow integers are of 32 bits and wrap around at the end.
    x, y, divisor = (c.cast(v, "s32") if c.dtype in ("s8", "s16") else v for v in (x, y, divisor))
    none = c.compare(divisor, 0, "EQ")
    product = c.mul(c.div(x, c.select(none, 1, divisor, x.dtype)), y)
    product = product if c.dtype in UNSIGNED else c.unary("abs", product)
    return c.cast(c.select(none, 0, product, x.dtype), c.dtype)
