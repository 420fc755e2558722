#!/usr/bin/env python3
"""Confirms by numbers that the pairs of equal/ are equal and those of unequal/ are not, without the program's help.

Usage: check_truth.py [FILE...]; all files where none is named. Needs NumPy.

Unequal pairs are evaluated at the points of their `# at` lines, and at three points near by, all inputs moved
independently: they must differ at all of them, or it might be a set of measure zero. Where there is no such line,
points are tried near the constants of both programs; one must do.
In `# at X = …; Y = …`, r is a normal array of the input's shape, u a uniform one in (0, 1), i holds 0, 1, 2, …
"""

import copy
import decimal
import pathlib
import re
import sys

import numpy as np

from evaluate import Numbers, evaluate, parse, read_pairs

FOLDER = pathlib.Path(__file__).resolve().parent
NEARBY = 1e-11
TOLERANCE = 1e-9


def assigned(text, name, shape, random):
    """The float64 array that a line assigns to an input; normal where it names it not."""
    size = int(np.prod(shape, dtype=int))
    names = {"r": random.standard_normal(shape), "u": random.random(shape), "np": np,
             "i": np.arange(size, dtype=float).reshape(shape), "abs": np.abs, "where": np.where, "exp": np.exp}
    for part in text.split(";"):
        target, _, expression = part.partition("=")
        if target.strip() in (name, "*"):
            return np.broadcast_to(np.asarray(eval(expression, names), dtype=float), shape)
    return names["r"]


def outputs(graph, kind, inputs):
    n = Numbers(kind)
    with np.errstate(all="ignore"):
        found = evaluate(graph, n, {name: n.array(value) for name, value in inputs.items()})
    return {name: (value, n.finite(value)) for name, value in found.items()}


def differ(pair, graphs, inputs):
    """Whether a defined entry has two values, beyond rounding, or only the second is undefined."""
    exact = pair.digits or "g"
    first, second = (outputs(g, exact, inputs) for g in graphs)
    rounded_first, rounded_second = (outputs(g, max(exact - 10, 8) if pair.digits else "f8", inputs) for g in graphs)
    for name, (a, defined) in first.items():
        b, defined_b = second[name]
        if defined.all() and not defined_b.all():
            return True
        both = defined & defined_b & rounded_first[name][1] & rounded_second[name][1]
        if not both.any():
            continue
        with np.errstate(all="ignore"):
            error = abs(a[both] - rounded_first[name][0][both]) + abs(b[both] - rounded_second[name][0][both])
            if (abs(a[both] - b[both]) > 4 * error).any():
                return True
    return False


def differ_near(pair, graphs, point, random):
    """Whether the programs differ at a point and at three others near by."""
    inputs = {name: assigned(point, name, shape, random) for name, shape in graphs[0].inputs}
    for step in range(4):
        by = NEARBY if step else 0
        here = {name: x * (1 + by * random.standard_normal(x.shape)) for name, x in inputs.items()}
        if not differ(pair, graphs, here):
            return "does not differ at " + point + (", moved a little" if step else "")
    return None


def likely_points(pair):
    """Where programs differ that say it not: anywhere, or near the constants that they compare inputs with."""
    text = pair.first + pair.second
    zeros = dict(re.findall(r"add_constant\((\w+), value=(-?[0-9.e+-]+)\)", text))
    constants = {abs(float(c)) for c in re.findall(r"(?:value|factor)=(-?[0-9.]+)", text)}
    points = ["* = r", "* = u", "* = -u", "* = 3 + u", "* = -3 - u", "* = 100 * r", "* = r / 8"]
    for spread in (1e-4, 0.3, 3):
        if zeros:
            points.append("; ".join(f"{name} = {-float(c)!r} + {spread} * r" for name, c in zeros.items()))
        for c in sorted(constants | {c ** 0.5 for c in constants}):
            points += [f"* = {sign * c!r} + {spread} * r" for sign in (1, -1)]
    return points


def check_unequal(pair, graphs, random):
    if pair.points:
        failures = (differ_near(pair, graphs, point, random) for point in pair.points)
        return next((failure for failure in failures if failure), None)
    for digits in (pair.digits, 100):
        exact = copy.copy(pair)
        exact.digits = digits
        if not all(differ_near(exact, graphs, point, random) for point in likely_points(pair)):
            return None
    return "differs at none of the points that are tried"


def check_equal(pair, graphs, random):
    defined_somewhere = False
    for point in pair.points + ["* = r", "* = 3 * r", "* = u", "* = 0.5 + u", "* = -u", "* = r / 8"]:
        inputs = {name: assigned(point, name, shape, random) for name, shape in graphs[0].inputs}
        first, second = (outputs(g, pair.digits or "g", inputs) for g in graphs)
        for name, (a, defined) in first.items():
            b, defined_b = second[name]
            if a.shape != b.shape:
                return "shapes differ"
            defined_somewhere |= bool(defined.any())
            if defined.all() and not defined_b.all():
                return f"undefined at {point} where the first is defined"
            both = defined & defined_b
            if not both.any():
                continue
            scale = max(abs(a[both]).max(), type(a[both].flat[0])(1) if not pair.digits else decimal.Decimal(1))
            if float(abs(a[both] - b[both]).max() / scale) > TOLERANCE:
                return f"differs at {point}"
    return None if defined_somewhere else "defined at none of the points"


def check(path):
    check_pair = check_equal if path.parent.name == "equal" else check_unequal
    pairs = read_pairs(path)
    failures = []
    for pair in pairs:
        try:
            graphs = [parse(pair.first), parse(pair.second)]
            if sorted(graphs[0].inputs) != sorted(graphs[1].inputs) or graphs[0].outputs != graphs[1].outputs:
                failure = "interfaces differ"
            else:
                failure = check_pair(pair, graphs, np.random.default_rng(1))
        except Exception as error:  # a malformed pair is reported by name, and the others are checked
            failure = f"{type(error).__name__}: {error}"
        if failure:
            failures.append(f"{path.parent.name}/{path.name}: {pair.name}: {failure}")
    print(f"{path.parent.name}/{path.name}: {len(pairs)} pairs")
    return failures, len(pairs)


def main():
    files = [pathlib.Path(f).resolve() for f in sys.argv[1:]] or sorted(FOLDER.glob("*equal/*.txt"))
    failures, count = [], 0
    for path in files:
        found, pairs = check(path)
        failures += found
        count += pairs
    print("\n".join(failures))
    if not count:
        print("no pairs")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
