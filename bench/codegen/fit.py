#!/usr/bin/env python3
"""Fits the constants of the cost of schedules: fit.py FEATURES RESULTS [FEATURES RESULTS …] [--steps N].

FEATURES is what `schedules --features FOLDER` prints, RESULTS the JSON file of bench.py for the same folder. Prints the
constants of ScheduleCosts (src/superopt/codegen/schedule_cost.h) that explain the measured times best, and for each
program Spearman's rank correlation and the place of the fastest among the estimates. The formula here is that of
schedule_cost.cpp; where the features hold its own estimate, the two are compared.
"""
import argparse
import json
import sys

import numpy

MULTIPROCESSORS, IN_LARGE_CLUSTERS, SHARED, REGISTERS, BANDWIDTH = 132, 120, 227 * 1024, 65536, 4.39e12
SHARPNESS = 4
START = {
    "launch": 1.0e-6, "first_byte": 0.9e-6, "latency": 1.0e-6, "block_bandwidth": 55e9, "l2_bandwidth": 6.5e12,
    "iteration": 0.10e-6, "product": 12e-9, "product_rate": 4e-9, "wide": 0.5, "element": 6e-9,
    "element_rate": 1.0e-9, "groups": 0.3e-6, "partial_bandwidth": 100e9, "cluster": 0.8e-6,
}
# What is physically possible.
LIMITS = {"launch": (0.5e-6, 2e-6), "first_byte": (0.5e-6, 2e-6), "block_bandwidth": (33e9, 80e9),
          "l2_bandwidth": (4e12, 9e12), "element_rate": (0.25e-9, 1e-8), "partial_bandwidth": (1e10, 1e12)}
FIELDS = ("blocks device_bytes threads shared_bytes registers wide row_warps loop_warps cluster iterations "
          "iteration_bytes ahead once_bytes products elements products_after elements_after partial_bytes").split()


def kernel_seconds(k, c):
    """Of arrays of kernels: schedule_seconds."""
    each = numpy.ceil(k["blocks"] / numpy.where(k["cluster"] >= 4, IN_LARGE_CLUSTERS, MULTIPROCESSORS))
    registers = numpy.where(k["registers"] > 0, numpy.minimum(255, k["registers"]), 64)
    resident = numpy.clip(numpy.minimum.reduce([(SHARED + 1024) // (k["shared_bytes"] + 1024),
                                                REGISTERS // (registers * k["threads"]), 2048 // k["threads"]]), 1, 32)
    together = numpy.minimum(each, resident)
    rounds = numpy.ceil(each / together)
    warps = together * k["threads"] / 32 / 4
    wide = numpy.where(k["wide"] > 0, c["wide"], 1.0)

    def computing(products, elements):
        alone = products * wide * c["product"] + elements * c["element"]
        shared = numpy.maximum(1, warps) * (products * wide * c["product_rate"] + elements * c["element_rate"])
        return numpy.maximum(alone, shared)

    compute = k["iterations"] * (c["iteration"] + computing(k["products"], k["elements"]))
    groups = together * k["loop_warps"]
    streamed = groups * k["iterations"] * k["iteration_bytes"]
    in_flight = groups * numpy.maximum(1, k["ahead"]) * k["iteration_bytes"]
    stream = numpy.where(streamed > 0,
                         streamed / numpy.minimum(c["block_bandwidth"], numpy.maximum(1, in_flight) / c["latency"]), 0)
    once = together * k["once_bytes"] / c["block_bandwidth"]
    combine = (c["groups"] * numpy.log2(k["loop_warps"]) + together * k["partial_bytes"] / c["partial_bandwidth"]
               + c["cluster"] * numpy.log2(k["cluster"]))
    after = computing(k["products_after"], k["elements_after"])
    through_l2 = k["blocks"] * (k["once_bytes"] + k["loop_warps"] * k["iterations"] * k["iteration_bytes"]) / c["l2_bandwidth"]
    parts = (rounds * compute, rounds * stream, k["device_bytes"] / BANDWIDTH, through_l2)
    overlapped = sum(part ** SHARPNESS for part in parts) ** (1 / SHARPNESS)
    return c["launch"] + overlapped + rounds * (c["first_byte"] + once + combine + after)


def ranks(values):
    order = numpy.argsort(values, kind="stable")
    result = numpy.empty(len(values))
    result[order] = numpy.arange(len(values))
    for v in numpy.unique(values):
        result[values == v] = result[values == v].mean()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--hold-out", default="", help="programs with this in their names are not fitted to")
    arguments = parser.parse_args()
    kernels, owner, measured, program, names = [], [], [], [], []
    for features, results in zip(arguments.files[::2], arguments.files[1::2]):
        known = json.load(open(features))
        for row in json.load(open(results))["rows"]:
            for candidate in row["candidates"]:
                described = known.get(f"{row['program']}@{candidate['name']}")
                if not described or "cold_us" not in candidate or len(described) != candidate["kernels"]:
                    continue
                for kernel in described:
                    kernels.append([float(kernel[f]) for f in FIELDS] + [kernel["seconds"]])
                    owner.append(len(measured))
                measured.append(candidate["cold_us"] * 1e-6)
                program.append(row["program"])
                names.append(candidate["name"])
    table = numpy.array(kernels)
    columns = {f: table[:, i] for i, f in enumerate(FIELDS)}
    owner, measured = numpy.array(owner), numpy.array(measured)
    programs = sorted(set(program))
    index = numpy.array([programs.index(p) for p in program])
    fitted = numpy.array([not arguments.hold_out or arguments.hold_out not in p for p in program])

    def estimates(c):
        return numpy.bincount(owner, kernel_seconds(columns, c), minlength=len(measured))

    # The fastest matter most: what is twice as slow need not be told from what is three times as slow.
    fastest = numpy.array([measured[index == i].min() for i in range(len(programs))])[index]
    weight = fitted * (fastest / measured) ** 1.5

    def loss(c):
        error = numpy.log(estimates(c) / measured)
        total = 0.0
        for i in range(len(programs)):
            of = index == i
            w = weight[of]
            if w.sum() == 0:
                continue
            mean = (w * error[of]).sum() / w.sum()
            total += (w * (error[of] - mean) ** 2).sum() / w.sum() + 0.2 * mean ** 2
        return total / len(programs)

    random = numpy.random.default_rng(1)
    best, least = dict(START), loss(START)
    for step in range(arguments.steps):
        trial = dict(best)
        width = 0.6 * (1 - step / arguments.steps) + 0.02
        for name in random.choice(list(START), size=random.integers(1, 4), replace=False):
            trial[name] *= float(numpy.exp(random.normal(0, width)))
        if any(not low <= trial[name] <= high for name, (low, high) in LIMITS.items()):
            continue
        value = loss(trial)
        if value < least:
            best, least = trial, value
    own = numpy.bincount(owner, table[:, -1], minlength=len(measured))
    now = estimates(best)
    print(f"{len(measured)} kernels of {len(programs)} programs; loss {loss(START):.4f} -> {least:.4f}")
    for name, value in best.items():
        print(f"  {name:<18} {value:.3g}")
    print(f"{'program':<20} {'candidates':>10} {'Spearman':>9} {'(built-in)':>10} {'fastest at':>10} {'top-1 loss':>10}")
    for i, name in enumerate(programs):
        of = index == i
        order = numpy.argsort(now[of], kind="stable")
        place = 1 + int(numpy.where(order == measured[of].argmin())[0][0])
        rho = numpy.corrcoef(ranks(now[of]), ranks(measured[of]))[0, 1]
        before = numpy.corrcoef(ranks(own[of]), ranks(measured[of]))[0, 1]
        print(f"{name:<20} {of.sum():>10} {rho:>9.2f} {before:>10.2f} {place:>10} "
              f"{measured[of][order[0]] / measured[of].min():>9.2f}x")


if __name__ == "__main__":
    sys.exit(main())
