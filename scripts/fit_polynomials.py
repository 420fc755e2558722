#!/usr/bin/env python3
"""Fits the polynomials of src/emitters/math and prints polynomials.h. Needs mpmath, which nothing else does: run it in
an environment of your own, pass its output through clang-format-14, and commit the result.

usage: fit_polynomials.py > src/emitters/math/polynomials.h    (the errors of the fits go to standard error)

Each is a weighted least-squares fit at Chebyshev nodes, within a small factor of the best one. Coefficients are rounded
to the type one after the other, lowest first, and the rest is fitted again each time.
"""

import sys

from mpmath import asin, atan, atanh, cos, erf, erfc, erfinv, exp, expm1, findroot, ln, log, log1p, lu_solve, matrix, mp
from mpmath import mpf, pi, sin, sqrt, tanh

mp.dps = 100
DIGITS = {"f32": 24, "f64": 53}
LOG2_E_F32 = mpf(float.fromhex("0x1.715476p+0"))


def rounded(value, kind):
    with_precision = mp.prec
    mp.prec = DIGITS[kind]
    value = +value
    mp.prec = with_precision
    return value


def fit(target, weight, low, high, degree, kind):
    """Coefficients c of the polynomial for which weight(z) * (sum c[i] z^i - target(z)) is small on [low, high]."""
    count = 5 * (degree + 1)
    low, high = mpf(low), mpf(high)
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    values = [target(z) for z in nodes]
    weights = [weight(z) for z in nodes]
    fixed = []
    while len(fixed) <= degree:
        first = len(fixed)
        powers = range(first, degree + 1)
        rows = [[w * z ** p for p in powers] for z, w in zip(nodes, weights)]
        rest = [w * (v - sum(c * z ** i for i, c in enumerate(fixed))) for z, v, w in zip(nodes, values, weights)]
        size = len(powers)
        normal = matrix(size, size)
        right = matrix(size, 1)
        for a in range(size):
            for b in range(a, size):
                normal[a, b] = normal[b, a] = sum(row[a] * row[b] for row in rows)
            right[a] = sum(row[a] * r for row, r in zip(rows, rest))
        fixed.append(rounded(lu_solve(normal, right)[0], kind))
    error = 0
    for i in range(400):
        z = low + (high - low) * (mpf(i) + mpf("0.37")) / 400
        error = max(error, abs(weight(z) * (sum(c * z ** i for i, c in enumerate(fixed)) - target(z))))
    return fixed, error


def tail(function, order):
    """(function(x) - x) / x^order."""
    return lambda x: (function(x) - x) / x ** order


def of_square(function):
    return lambda z: function(sqrt(z))


def erfc_factor(z, shift, base):
    """What is left of erfc(x) when base^(-x^2) / (x + shift) is taken out."""
    x = shift * (1 + z) / (1 - z)
    return erfc(x) * exp(ln(base) * x * x) * (x + shift)


def erf_inv_factor(log2):
    """erf_inv(x) / x, given log2(1 - x^2)."""
    if log2 > mpf("-1e-25"):
        return sqrt(pi) / 2
    rest = mpf(2) ** log2
    x = sqrt(1 - rest)
    tail = rest / (1 + x)  # 1 - x
    if tail > mpf("1e-9"):
        return erfinv(x) / x
    return findroot(lambda y: log(erfc(y)) - log(tail), sqrt(-log(tail))) / x


def literal(value, kind):
    if kind == "f32":
        return float(value).hex().replace("0000000p", "p") + "F"
    return float(value).hex()


def emit(name, kind, comment, target, weight, low, high, degree):
    coefficients, error = fit(target, weight, low, high, degree, kind)
    print(f"{name}_{kind}: degree {degree}, error 2^{float(log(error, 2)):.2f}", file=sys.stderr)
    c_type = {"f32": "float", "f64": "double"}[kind]
    print(f"/// {comment}; error 2^{float(log(error, 2)):.1f}.")
    print(f"static inline {c_type} {name}_{kind}({c_type} z) {{")
    print(f"  {c_type} p = {literal(coefficients[-1], kind)};")
    for c in reversed(coefficients[:-1]):
        print(f"  p = fma_{kind}(p, z, {literal(c, kind)});")
    print("  return p;\n}\n")


def main():
    print("""// Written by scripts/fit_polynomials.py: polynomials close to the best ones of their degrees. Errors are relative to
// the function for which a polynomial serves, and those of the fit and of the coefficients' rounding alone.
#pragma once

#include "emitters/math/scalar.h"
""")
    half_ln2 = ln(mpf(2)) / 2 * mpf("1.001")
    sixth = mpf(1) / 3 + mpf("1e-4")
    quarter_pi = pi / 4 * mpf("1.001")
    eighth = (sqrt(mpf(2)) - 1) * mpf("1.001")
    # The lower end of an interval of z = x^2; not 0, where the quotients are not defined.
    tiny = mpf("1e-20")
    for kind, degrees in [("f32", dict(exp=4, log=8, sine=2, cosine=2, atan=4, asin=4, erf=7, erfc=8, tanh=4)),
                          ("f64", dict(exp=9, log=19, sine=5, cosine=5, atan=10, asin=12, erf=12, erfc=19, tanh=0))]:
        emit("exp_tail", kind, "(exp(z) - 1 - z) / z^2 for |z| <= ln(2)/2", tail(expm1, 2), lambda x: x * x / exp(x),
             -half_ln2, half_ln2, degrees["exp"])
        emit("log_tail", kind, "(log(1 + z) - z) / z^2 for |z| <= 1/3", tail(log1p, 2),
             lambda x: x * x / log1p(x), -sixth, sixth, degrees["log"])
        emit("sine_tail", kind, "(sin(x) - x) / x^3 for z = x^2, |x| <= pi/4", of_square(tail(sin, 3)),
             of_square(lambda x: x ** 3 / sin(x)), tiny, quarter_pi ** 2, degrees["sine"])
        emit("cosine_tail", kind, "(cos(x) - 1 + x^2/2) / x^4 for z = x^2, |x| <= pi/4",
             of_square(lambda x: (cos(x) - 1 + x * x / 2) / x ** 4), of_square(lambda x: x ** 4), tiny,
             quarter_pi ** 2, degrees["cosine"])
        emit("atan_tail", kind, "(atan(x) - x) / x^3 for z = x^2, |x| <= tan(pi/8)", of_square(tail(atan, 3)),
             of_square(lambda x: x ** 3 / atan(x)), tiny, eighth ** 2, degrees["atan"])
        emit("asin_tail", kind, "(asin(x) - x) / x^3 for z = x^2, |x| <= 1/2", of_square(tail(asin, 3)),
             of_square(lambda x: x ** 3 / asin(x)), tiny, mpf("0.2501"), degrees["asin"])
        emit("erf_tail", kind, "(erf(x) - x) / x for z = x^2, |x| <= 1", of_square(lambda x: erf(x) / x - 1),
             of_square(lambda x: x / erf(x)), tiny, mpf("1.001"), degrees["erf"])
        top = 4 if kind == "f32" else 6
        emit("log_erfc", kind, f"-log(erfc(z + 2)) for -1 <= z <= {top - 2}", lambda z: -ln(erfc(z + 2)),
             lambda z: erfc(z + 2), -1, top - 2, degrees["erfc"])
        # In f32 the power is 2^(-x^2 L), L being log2(e) as f32 has it: what it lacks is in the polynomial.
        shift, end, degree = (2, mpf("10.2"), 8) if kind == "f32" else (4, mpf("27.4"), 22)
        base, written = (mpf(2) ** LOG2_E_F32, "2^(L x^2)") if kind == "f32" else (exp(mpf(1)), "exp(x^2)")
        emit("erfc_factor", kind,
             f"erfc(x) {written} (x + {shift}) for z = (x - {shift}) / (x + {shift}), 0 <= x <= {end}",
             lambda z: erfc_factor(z, shift, base), lambda z: 1 / erfc_factor(z, shift, base), -1,
             (end - shift) / (end + shift), degree)
        if kind == "f32":
            emit("tanh_tail", kind, "(tanh(x) - x) / x^3 for z = x^2, |x| <= 0.7", of_square(tail(tanh, 3)),
                 of_square(lambda x: x ** 3 / tanh(x)), tiny, mpf("0.49"), degrees["tanh"])
    emit("erf_inv_near", "f32", "erf_inv(x) / x for z = log2(1 - x^2), -7.3 <= z <= 0", erf_inv_factor,
         lambda z: 1 / erf_inv_factor(z), mpf("-7.3"), 0, 8)
    emit("erf_inv_far", "f32", "erf_inv(x) / x for z = sqrt(-log2(1 - x^2)) - 3, -23 <= log2(1 - x^2) <= -7.3",
         lambda z: erf_inv_factor(-(z + 3) ** 2), lambda z: 1 / erf_inv_factor(-(z + 3) ** 2), mpf("-0.299"),
         mpf("1.797"), 8)
    emit("tanh_half_tail", "f32", "(tanh(x) - x) / x^3 for z = x^2, |x| <= 0.4", of_square(tail(tanh, 3)),
         of_square(lambda x: x ** 3 / tanh(x)), tiny, mpf("0.16"), 1)
    emit("erf_half_quotient", "f32", "erf(x) / x for z = x^2, |x| <= 0.5", of_square(lambda x: erf(x) / x),
         of_square(lambda x: x / erf(x)), tiny, mpf("0.25"), 2)
    emit("erfc_half_log2", "f32", "log2(erfc(z)) / z for 0.5 <= z <= 4", lambda x: ln(erfc(x)) / ln(2) / x,
         lambda x: x * erfc(x) / erf(x), mpf("0.5"), 4, 4)
    emit("erfc_half_factor", "f32", "erfc(x) exp(x^2) / z for z = 1 / (x + 3/2), 0 <= x <= 10.2",
         lambda z: erfc(1 / z - mpf("1.5")) * exp((1 / z - mpf("1.5")) ** 2) / z,
         lambda z: z / (erfc(1 / z - mpf("1.5")) * exp((1 / z - mpf("1.5")) ** 2)), 1 / mpf("11.7"), 1 / mpf("1.5"), 5)
    emit("log_half_tail", "f32", "(log(1 + z) - z) / z^2 for |z| <= 1/4", tail(log1p, 2),
         lambda x: x * x / log1p(x), mpf("-0.25"), mpf("0.25"), 4)
    # pow of f32, in f64.
    emit("pow_log2", "f64", "log2(1 + z) / z for sqrt(1/2) <= 1 + z <= sqrt(2)", lambda x: log1p(x) / ln(mpf(2)) / x,
         lambda x: x / log1p(x), sqrt(mpf("0.5")) - 1, sqrt(mpf(2)) - 1, 14)
    emit("pow_exp2", "f64", "2^z for |z| <= 1/2", lambda x: mpf(2) ** x, lambda x: mpf(2) ** -x, mpf("-0.5"),
         mpf("0.5"), 7)
    # pow of f64: what follows the first two terms of the series, which are added up in two doubles.
    emit("atanh_tail", "f64", "(atanh(x) - x - x^3/3) / x^5 for z = x^2, |x| <= 0.172",
         of_square(lambda x: (atanh(x) - x - x ** 3 / 3) / x ** 5), of_square(lambda x: x ** 4), tiny, mpf("0.0296"), 6)
    for kind in DIGITS:
        emit("cbrt_start", kind, "the cube root of z for 1 <= z <= 8", lambda x: x ** (mpf(1) / 3),
             lambda x: x ** (mpf(-1) / 3), 1, 8, 4)


if __name__ == "__main__":
    main()
