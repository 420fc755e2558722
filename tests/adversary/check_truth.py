#!/usr/bin/env python3
"""Confirms by numbers that the pairs of equal/ are equal and those of unequal/ are not, without the program's help.

Usage: check_truth.py [FILE...]; all files where none is named. Needs NumPy.

Unequal pairs are evaluated at the points of their `# at` lines (normal inputs where there is none), and at three points
near by, all inputs moved independently: they must differ at all of them, or it might be a set of measure zero.
In `# at X = …; Y = …`, r is a normal array of the input's shape, u a uniform one in (0, 1), i holds 0, 1, 2, …
"""

import decimal
import pathlib
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
    """Whether the second program differs where the first is defined, by far more than either is rounded."""
    exact = pair.digits or "g"
    first, second = (outputs(g, exact, inputs) for g in graphs)
    rounded_first, rounded_second = (outputs(g, max(exact - 10, 8) if pair.digits else "f8", inputs) for g in graphs)
    for name, (a, defined) in first.items():
        b, defined_b = second[name]
        if (defined & ~defined_b).any():
            return True
        both = defined & defined_b & rounded_first[name][1] & rounded_second[name][1]
        if not both.any():
            continue
        with np.errstate(all="ignore"):
            error = abs(a[both] - rounded_first[name][0][both]) + abs(b[both] - rounded_second[name][0][both])
            if (abs(a[both] - b[both]) > 4 * error).any():
                return True
    return False


def check_unequal(pair, graphs, random):
    for point in pair.points or ["* = r"]:
        inputs = {name: assigned(point, name, shape, random) for name, shape in graphs[0].inputs}
        for step in range(4):
            by = NEARBY if step else 0
            moved = {name: x * (1 + by * random.standard_normal(x.shape)) for name, x in inputs.items()}
            if not differ(pair, graphs, moved):
                return f"does not differ at {point}" + (", moved a little" if step else "")
    return None


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
            if (defined & ~defined_b).any():
                return f"undefined at {point} where the first is defined"
            if not defined.any():
                continue
            scale = max(abs(a[defined]).max(), type(a[defined].flat[0])(1) if not pair.digits else decimal.Decimal(1))
            if float(abs(a[defined] - b[defined]).max() / scale) > TOLERANCE:
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
