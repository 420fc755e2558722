"""Writes python/strata/torch_backend/chebyshev_tables.py: Chebyshev series of special functions, by mpmath.

    python scripts/chebyshev_tables.py > python/strata/torch_backend/chebyshev_tables.py
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 50


def series(function: Callable, points: int = 80) -> list[float]:
    """The factors of the Chebyshev series of a function on [-1, 1], as many as float64 needs. The first one is that
    of T₀ itself, not twice it."""
    angles = [(k + mp.mpf(1) / 2) * mp.pi / points for k in range(points)]
    values = [function(mp.cos(a)) for a in angles]
    factors = [2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles)) / points for j in range(points // 2)]
    factors[0] /= 2
    least = max(map(abs, factors)) * mp.mpf(2) ** -58
    while abs(factors[-1]) < least:
        factors.pop()
    return [float(f) for f in factors]


def squares_to_8(function: Callable) -> Callable:
    """Of 2 (x / 8)² - 1, for x in [0, 8]."""
    return lambda y: function(8 * mp.sqrt((y + 1) / 2))


def above_8(function: Callable) -> Callable:
    """Of 16 / x - 1, for x from 8 to infinity."""
    return lambda y: function(16 / (y + 1))


def square_above_8(function: Callable) -> Callable:
    """Of 2 (8 / x)² - 1, for x from 8 to infinity."""
    return lambda y: function(8 / mp.sqrt((y + 1) / 2))


def wave(order: int, of_sine: bool) -> Callable:
    """P and Q x of J = √(2 / πx) (P cos χ - Q sin χ) and Y = √(2 / πx) (P sin χ + Q cos χ), χ = x - (2 order + 1) π/4."""
    def value(x):
        chi = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        found = y * mp.cos(chi) - j * mp.sin(chi) if of_sine else j * mp.cos(chi) + y * mp.sin(chi)
        return mp.sqrt(mp.pi * x / 2) * found * (x if of_sine else 1)
    return value


TABLES = {
    "I0_BELOW_8": ("exp(-x) I₀(x) by x / 4 - 1", series(lambda y: (lambda x: mp.exp(-x) * mp.besseli(0, x))(4 * y + 4))),
    "I1_BELOW_8": ("exp(-x) I₁(x) / x by x / 4 - 1",
                   series(lambda y: (lambda x: mp.exp(-x) * mp.besseli(1, x) / x)(4 * y + 4))),
    "I0_ABOVE_8": ("√x exp(-x) I₀(x) by 16 / x - 1",
                   series(above_8(lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(0, x)))),
    "I1_ABOVE_8": ("√x exp(-x) I₁(x) by 16 / x - 1",
                   series(above_8(lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(1, x)))),
    "K0_BELOW_2": ("K₀(x) + log(x / 2) I₀(x) by x² / 2 - 1", series(lambda y: (
        lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x))(mp.sqrt(2 * y + 2)))),
    "K1_BELOW_2": ("x (K₁(x) - log(x / 2) I₁(x)) by x² / 2 - 1", series(lambda y: (
        lambda x: x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x)))(mp.sqrt(2 * y + 2)))),
    "K0_ABOVE_2": ("√x exp(x) K₀(x) by 4 / x - 1", series(lambda y: (
        lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(0, x))(4 / (y + 1)))),
    "K1_ABOVE_2": ("√x exp(x) K₁(x) by 4 / x - 1", series(lambda y: (
        lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(1, x))(4 / (y + 1)))),
    "J0_BELOW_8": ("J₀(x) by 2 (x / 8)² - 1", series(squares_to_8(lambda x: mp.besselj(0, x)))),
    "J1_BELOW_8": ("J₁(x) / x by 2 (x / 8)² - 1", series(squares_to_8(lambda x: mp.besselj(1, x) / x))),
    "Y0_BELOW_8": ("Y₀(x) - 2/π log(x) J₀(x) by 2 (x / 8)² - 1",
                   series(squares_to_8(lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)))),
    "Y1_BELOW_8": ("(Y₁(x) - 2/π (log(x) J₁(x) - 1 / x)) / x by 2 (x / 8)² - 1", series(squares_to_8(
        lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x))),
    **{f"{name}{order}_ABOVE_8": (f"{name} of order {order} by 2 (8 / x)² - 1",
                                  series(square_above_8(wave(order, name == "QX"))))
       for order in (0, 1) for name in ("P", "QX")},
    "ERFCX": ("(1 + 2x) exp(x²) erfc(x) by (x - 3.75) / (x + 3.75)", series(lambda y: (
        lambda x: (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x))(mp.mpf("3.75") * (1 + y) / (1 - y)))),
}

HEAD = '''"""Chebyshev series of special functions: factors of T₀, T₁ … Written by scripts/chebyshev_tables.py."""
'''

if __name__ == "__main__":
    print(HEAD)
    for name, (what, factors) in TABLES.items():
        print(f"#: {what}\n{name} = (")
        line = "   "
        for factor in map(repr, factors):
            if len(line) + len(factor) + 2 > 120:
                print(line)
                line = "   "
            line += f" {factor},"
        print(f"{line}\n)")
