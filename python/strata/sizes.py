"""Sizes with names, of programs that are searched once and run at many sizes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Union

from strata import _core
from strata._core import Error


class Size(int):
    """A size of a Graph that has a name, or is computed of such: the number for which the program is written, and the
    expression. +, -, * and exact // with numbers and other sizes keep the expression; 1 / size is a constant."""

    expr: _core.SizeExpr

    def __new__(cls, number: int, expr: _core.SizeExpr) -> "Size":
        made = int.__new__(cls, number)
        made.expr = expr
        return made

    def __repr__(self) -> str:
        return str(self.expr)

    def __add__(self, other):
        return _combined(self, other, "plus", int.__add__)

    __radd__ = __add__

    def __sub__(self, other):
        return _combined(self, other, "minus", int.__sub__)

    def __rsub__(self, other):
        return _combined(other, self, "minus", int.__sub__)

    def __mul__(self, other):
        return _combined(self, other, "times", int.__mul__)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        return _quotient(self, other)

    def __rfloordiv__(self, other):
        return _quotient(other, self)

    def __truediv__(self, other):
        return _ratio(self, other)

    def __rtruediv__(self, other):
        return _ratio(other, self)

    # Sizes are compared, and serve as keys, as the numbers that they are.
    __hash__ = int.__hash__


class Ratio(Fraction):
    """A constant that depends on sizes with names, such as 1 / tokens."""

    expr: _core.SizeExpr


def expression(value: Union[int, Fraction]) -> _core.SizeExpr:
    """Of a size, a ratio or a number."""
    if hasattr(value, "expr"):
        return value.expr
    if isinstance(value, Fraction):
        return _core.SizeExpr(value.numerator).divided_by(_core.SizeExpr(value.denominator))
    return _core.SizeExpr(int(value))


def plain(value: Any) -> Any:
    """What the extension takes: expressions of dims in the place of sizes, in lists too."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.expr if isinstance(value, (Size, Ratio)) else value


def same(a: int, b: int) -> bool:
    """Whether two sizes are equal for all sizes of the program."""
    return str(expression(a)) == str(expression(b))


def sized(number: int, expr: _core.SizeExpr) -> int:
    """A plain number where the expression has no name."""
    return int(number) if expr.is_constant else Size(number, expr)


def _combined(a, b, name, of_numbers):
    if not (isinstance(a, int) and isinstance(b, int)):
        return NotImplemented
    return sized(of_numbers(int(a), int(b)), getattr(expression(a), name)(expression(b)))


def _quotient(a, b):
    if not (isinstance(a, int) and isinstance(b, int)):
        return NotImplemented
    if int(b) == 0 or int(a) % int(b) != 0:
        raise Error(f"{a!r} // {b!r} is no whole number\n  divide sizes by what divides them")
    return sized(int(a) // int(b), expression(a).divided_by(expression(b)))


def _ratio(a, b):
    if not (isinstance(a, (int, Fraction)) and isinstance(b, (int, Fraction))):
        return NotImplemented
    if b == 0:
        raise Error(f"{a!r} / {b!r} divides by 0\n  divide by a size or by another number")
    made = Ratio(Fraction(int(a) if isinstance(a, int) else a) / Fraction(int(b) if isinstance(b, int) else b))
    made.expr = expression(a).divided_by(expression(b))
    return made
