"""Sizes with names, of programs that are searched once and run at many sizes."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any, Union

from strata import _core
from strata.arguments import at_the_users_line


class _Named:
    """A number that is computed of sizes with names: its value at the sizes for which the program is written, and the
    expression. It is no number of Python's: theirs would compute with the value alone, and forget the names."""

    __slots__ = ("number", "expr")
    __array_ufunc__ = None  # numbers of NumPy leave the operators to this class

    def __init__(self, number: Fraction | int, expr: _core.SizeExpr):
        self.number, self.expr = number, expr

    def __repr__(self) -> str:
        return str(self.expr)

    def __add__(self, other):
        return _combined(self, other, "plus", operator.add)

    def __radd__(self, other):
        return _combined(other, self, "plus", operator.add)

    def __sub__(self, other):
        return _combined(self, other, "minus", operator.sub)

    def __rsub__(self, other):
        return _combined(other, self, "minus", operator.sub)

    def __mul__(self, other):
        return _combined(self, other, "times", operator.mul)

    def __rmul__(self, other):
        return _combined(other, self, "times", operator.mul)

    def __truediv__(self, other):
        return _ratio(self, other)

    def __rtruediv__(self, other):
        return _ratio(other, self)

    def __floordiv__(self, other):
        return _quotient(self, other)

    def __rfloordiv__(self, other):
        return _quotient(other, self)

    def __neg__(self):
        return -1 * self

    def __pos__(self):
        return self

    def __pow__(self, exponent, modulus=None):
        power = _number(exponent)
        whole = power is not None and abs(power) <= 64 and power == int(power)
        if modulus is not None or isinstance(exponent, _Named) or not whole:
            raise _no_expression(f"{_factor(self)} ** {exponent!r}")
        result: Any = 1
        for _ in range(abs(int(power))):
            result = result * self
        return result if power >= 0 else 1 / result

    def __lshift__(self, places):
        return self * 2 ** _places(places)

    def __rshift__(self, places):
        return self // 2 ** _places(places)

    def __float__(self):
        raise _no_expression(f"float({self!r})")

    # Compared, and as keys, they are the numbers at the sizes for which the program is written.

    def __eq__(self, other):
        return _compared(self, other, operator.eq)

    def __ne__(self, other):
        return _compared(self, other, operator.ne)

    def __lt__(self, other):
        return _compared(self, other, operator.lt)

    def __le__(self, other):
        return _compared(self, other, operator.le)

    def __gt__(self, other):
        return _compared(self, other, operator.gt)

    def __ge__(self, other):
        return _compared(self, other, operator.ge)

    def __bool__(self):
        return bool(self.number)

    def __hash__(self):
        return hash(self.number)


def _factor(value: Any) -> str:
    """As it is written beside an operator."""
    text = repr(value)
    return f"({text})" if isinstance(value, _Named) and not text.isidentifier() else text


def _refusing(written: str):
    def refuse(self, *others):
        shown = repr if "(" in written else _factor
        raise _no_expression(written.format(shown(self), *map(shown, others)))

    return refuse


for _method, _written in {
    "__mod__": "{0} % {1}", "__rmod__": "{1} % {0}", "__divmod__": "divmod({0}, {1})",
    "__rdivmod__": "divmod({1}, {0})",
    "__rpow__": "{1} ** {0}", "__and__": "{0} & {1}", "__rand__": "{1} & {0}", "__or__": "{0} | {1}",
    "__ror__": "{1} | {0}", "__xor__": "{0} ^ {1}", "__rxor__": "{1} ^ {0}", "__rlshift__": "{1} << {0}",
    "__rrshift__": "{1} >> {0}", "__invert__": "~{0}", "__abs__": "abs({0})", "__complex__": "complex({0})",
}.items():  # fmt: skip
    setattr(_Named, _method, _refusing(_written))


class Size(_Named):
    """A size of a Graph that has a name, or is computed of such: the number for which the program is written, and the
    expression. +, -, *, exact //, << and >>, and whole powers, with numbers and other sizes, keep the expression; so
    does /, and what has a fraction in it: that is a constant, such as 1 / tokens or 0.5 * tokens. What programs cannot
    say (%, abs, a root, float) raises Error. int(size), range(size) and other uses as an index are the number for which
    the program is written, and so are comparisons."""

    __slots__ = ()

    def __int__(self) -> int:
        return int(self.number)

    __index__ = __trunc__ = __int__

    def __round__(self, digits: int = 0) -> "Size":
        if digits < 0:
            raise _no_expression(f"round({self!r}, {digits})")
        return self

    def __floor__(self) -> "Size":
        return self

    __ceil__ = __floor__

    def __format__(self, how: str) -> str:
        return format(int(self.number), how) if how else repr(self)


class Ratio(_Named):
    """A constant that depends on sizes with names, such as 1 / tokens."""

    __slots__ = ()

    __int__ = _refusing("int({0})")
    __trunc__ = _refusing("math.trunc({0})")
    __round__ = _refusing("round({0})")
    __floor__ = _refusing("math.floor({0})")
    __ceil__ = _refusing("math.ceil({0})")


def _no_expression(written: str):
    return at_the_users_line(
        f"{written} is no expression of sizes: programs have sums, products, quotients and whole powers of them\n"
        "  write it with these; or, if it must be the same at all sizes, compute it of a number: int(size)"
    )


def _number(value: Any) -> Fraction | int | None:
    """The value of what can be in an expression: a float is the decimal number that Python prints for it. None of what
    cannot."""
    if isinstance(value, _Named):
        return value.number
    if hasattr(value, "dtype") and hasattr(value, "item") and not getattr(value, "shape", None):
        value = value.item()
    if isinstance(value, float):
        if value - value != 0:
            return None
        value = Fraction(repr(float(value)))
    return value if isinstance(value, (int, Fraction)) else None


def expression(value: Union[int, Fraction, _Named]) -> _core.SizeExpr:
    """Of a size, a ratio or a number. Raises Error for a number whose numerator or denominator has over 63 bits."""
    if isinstance(value, _Named):
        return value.expr
    number = _number(value)
    top, bottom = number.numerator, number.denominator
    if max(abs(top), bottom) >= 2**63:
        raise at_the_users_line(f"{value!r} is no constant beside sizes: as a fraction it has more than 63 bits\n"
                                "  round it, or scale by it in an operator of its own")
    return _core.SizeExpr(top).divided_by(_core.SizeExpr(bottom))


def plain(value: Any) -> Any:
    """What the extension takes: expressions of dims in the place of sizes, in lists too."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.expr if isinstance(value, _Named) else value


def same(a: int | Size, b: int | Size) -> bool:
    """Whether two sizes are equal for all sizes of the program."""
    return str(expression(a)) == str(expression(b))


def sized(number: int, expr: _core.SizeExpr) -> int | Size:
    """A plain number where the expression has no name."""
    return int(number) if expr.is_constant else Size(int(number), expr)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Size) or (not isinstance(value, _Named) and isinstance(_number(value), int))


def _made(a, b, number: Fraction | int, expr: _core.SizeExpr):
    """A result of two sizes or constants."""
    if _is_whole(a) and _is_whole(b):
        return sized(number, expr)
    number = Fraction(number)
    return number if expr.is_constant else Ratio(number, expr)


def _places(given) -> int:
    places = operator.index(given)
    if places < 0:
        raise ValueError("negative shift count")
    return places


def _compared(a, b, of_numbers):
    number = _number(b)
    return NotImplemented if number is None else of_numbers(a.number, number)


def _combined(a, b, name, of_numbers):
    x, y = _number(a), _number(b)
    if x is None or y is None:
        return NotImplemented
    return _made(a, b, of_numbers(x, y), getattr(expression(a), name)(expression(b)))


def _quotient(a, b):
    x, y = _number(a), _number(b)
    if x is None or y is None:
        return NotImplemented
    if not (_is_whole(a) and _is_whole(b)):
        raise _no_expression(f"{a!r} // {b!r}")
    if y == 0 or x % y != 0:
        raise at_the_users_line(f"{a!r} // {b!r} is no whole number\n  divide sizes by what divides them")
    return sized(x // y, expression(a).divided_by(expression(b)))


def _ratio(a, b):
    x, y = _number(a), _number(b)
    if x is None or y is None:
        return NotImplemented
    if y == 0:
        raise at_the_users_line(f"{a!r} / {b!r} divides by 0\n  divide by a size or by another number")
    expr, number = expression(a).divided_by(expression(b)), Fraction(x) / Fraction(y)
    return number if expr.is_constant else Ratio(number, expr)
