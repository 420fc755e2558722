#!/usr/bin/env python3
"""Fits the rates of the cost of schedules: fit.py --machine MACHINE.json FEATURES… [--hold-out].

FEATURES is what `schedules --features REPORT…` prints, MACHINE.json what `strata machine --json` does on the GPU that
measured. Prints the rates (src/machine/rates.def) that explain the measured times best, and for each program
Spearman's rank correlation, the place of the fastest among the estimates, how much slower the first estimate is than
the fastest, and the median of estimated over measured: with the compiler's constants, with these, and with those that
were fitted without the program and its other shapes. The formula here is that of schedule_cost.cpp.
"""
import argparse
import json
import pathlib
import sys

import numpy

SHARPNESS = 3
OF_MEANS = 0.1  # weight of a program's mean error beside the spread of its errors
# What is fitted starts here; the other rates are the machine's. "launch" is what overlapped_kernel is beside
# first_byte, and "wide" is kWide of schedule_cost.cpp.
START = {
    "launch": 1.0e-6, "first_byte": 0.95e-6, "bulk_start": 0.2e-6, "sharing_start": 0.1e-6, "load_latency": 0.77e-6,
    "sharing_wait": 0.1e-6, "multiprocessor_bandwidth": 66e9, "l2_bandwidth": 8e12, "shared_bandwidth": 200e9,
    "iteration": 0.113e-6, "bulk_iteration": 0.08e-6, "row_iteration": 0.03e-6, "product_latency": 8.3e-9,
    "product_share": 7.2e-9, "wide": 0.3, "element_latency": 0.67e-9, "element_share": 0.37e-9,
    "group_combination": 0.1e-6, "partial_bandwidth": 0.9e12, "cluster_combination": 1.5e-6,
}
# What is physically possible.
LIMITS = {"launch": (0.2e-6, 2e-6), "first_byte": (0.5e-6, 2e-6), "multiprocessor_bandwidth": (33e9, 110e9),
          "l2_bandwidth": (4e12, 9e12), "element_share": (0.25e-9, 1e-8), "partial_bandwidth": (1e10, 1e12),
          "shared_bandwidth": (100e9, 240e9)}
FIELDS = ("blocks device_bytes threads idle_threads shared_bytes registers wide row_warps loop_warps cluster bulk sharers "
          "shared_loads read_bytes overlaps iterations iteration_bytes ahead once_bytes products elements "
          "products_after elements_after partial_bytes").split()


def together(*parts):
    """What overlaps takes as long as its longest part, and a little longer where two are as long."""
    return sum(part ** SHARPNESS for part in parts) ** (1 / SHARPNESS)


def kernel_seconds(k, c, m):
    """Of arrays of kernels, by rates and a machine: schedule_seconds."""
    bulk = k["bulk"] > 0
    each = numpy.ceil(k["blocks"] / numpy.where(
        k["cluster"] * k["sharers"] >= m["large_cluster"], m["cluster_multiprocessors"], m["multiprocessors"]))
    registers = numpy.where(k["registers"] > 0, numpy.minimum(255, k["registers"]), 64)
    resident = numpy.clip(
        numpy.minimum.reduce([m["multiprocessor_shared_memory"] // (k["shared_bytes"] + m["reserved_shared_memory"]),
                              m["registers"] // (registers * (k["threads"] - k["idle_threads"])),
                              m["threads_per_multiprocessor"] // k["threads"]]), 1, m["blocks_per_multiprocessor"])
    now = numpy.minimum(each, resident)
    rounds = numpy.ceil(each / now)
    group_warps = numpy.where(bulk, k["row_warps"], k["threads"] / 32 / k["loop_warps"])
    warps = now * group_warps * k["loop_warps"] / 4
    wide = numpy.where(k["wide"] > 0, c["wide"], 1.0)

    def computing(products, scalar):
        tensor = products * wide
        apart = k["overlaps"] > 0
        alone = numpy.where(apart, together(tensor * c["product_latency"], scalar * c["element_latency"]),
                            tensor * c["product_latency"] + scalar * c["element_latency"])
        shared = numpy.maximum(1, warps) * numpy.where(
            apart, together(tensor * c["product_share"], scalar * c["element_share"]),
            tensor * c["product_share"] + scalar * c["element_share"])
        return together(alone, shared)

    rows = k["products"] + k["products_after"] == 0  # an unrolled loop that loads to registers
    waiting = numpy.where(rows, c["row_iteration"], numpy.where(bulk, c["bulk_iteration"], c["iteration"]))
    compute = k["iterations"] * (waiting + computing(k["products"], k["elements"]))
    groups = now * k["loop_warps"]
    reading = groups * group_warps * k["iterations"] * k["read_bytes"] / c["shared_bandwidth"]
    streamed = groups * k["iterations"] * k["iteration_bytes"]
    # Products that end in the next iteration keep their tiles half of it.
    ahead = numpy.maximum(0.5, k["ahead"] - 0.5 * k["overlaps"])
    in_flight = groups * ahead * k["iteration_bytes"]
    latency = c["load_latency"] + c["sharing_wait"] * numpy.log2(k["sharers"])
    stream = numpy.where(streamed > 0, streamed / numpy.minimum(
        c["multiprocessor_bandwidth"], numpy.maximum(1, in_flight) / latency), 0)
    once = now * k["once_bytes"] / c["multiprocessor_bandwidth"]
    combine = (c["group_combination"] * numpy.log2(k["loop_warps"]) + now * k["partial_bytes"] / c["partial_bandwidth"]
               + c["cluster_combination"] * numpy.log2(k["cluster"]))
    after = computing(k["products_after"], k["elements_after"])
    brought = k["shared_loads"] * (1 - 1 / k["sharers"])
    loop_bytes = k["loop_warps"] * k["iterations"] * (k["iteration_bytes"] - brought)
    through_l2 = k["blocks"] * (k["once_bytes"] + loop_bytes) / c["l2_bandwidth"]
    overlapped = together(rounds * compute, rounds * stream, rounds * reading,
                          k["device_bytes"] / m["memory_bandwidth"], through_l2)
    start = (c["first_byte"] + numpy.where(bulk, c["bulk_start"], 0)
             + numpy.where(k["sharers"] > 1, c["sharing_start"], 0))
    return c["launch"] + overlapped + rounds * (start + once + combine + after)


def ranks(values):
    order = numpy.argsort(values, kind="stable")
    result = numpy.empty(len(values))
    result[order] = numpy.arange(len(values))
    for v in numpy.unique(values):
        result[values == v] = result[values == v].mean()
    return result


def spearman(a, b):
    return numpy.corrcoef(ranks(a), ranks(b))[0, 1]


class Measured:
    """Rows of all reports: `seconds` and `program` of each, and of each kernel the row that it belongs to."""

    def __init__(self, files, machine):
        self.machine = machine
        kernels, owner, self.seconds, names, self.others = [], [], [], [], []
        for name in files:
            for line in open(name):
                report = json.loads(line)
                for row in report["rows"]:
                    for kernel in row["kernels"]:
                        kernels.append([float(kernel[f]) for f in FIELDS] + [kernel["seconds"]])
                        owner.append(len(self.seconds))
                    self.seconds.append(row["cold_us"] * 1e-6)
                    self.others.append(row["others_seconds"])
                    names.append(report["program"])
        table = numpy.array(kernels)
        self.columns = {f: table[:, i] for i, f in enumerate(FIELDS)}
        self.owner, self.seconds, self.others = numpy.array(owner), numpy.array(self.seconds), numpy.array(self.others)
        self.programs = sorted(set(names))
        self.program = numpy.array([self.programs.index(n) for n in names])
        self.built_in = self.sums(table[:, -1])
        # The fastest matter most: what is twice as slow need not be told from what is three times as slow.
        fastest = numpy.array([self.seconds[self.program == i].min() for i in range(len(self.programs))])
        self.weight = (fastest[self.program] / self.seconds) ** 1.5
        self.weight /= numpy.bincount(self.program, self.weight)[self.program]  # programs count the same

    def sums(self, of_kernels):
        return self.others + numpy.bincount(self.owner, of_kernels, minlength=len(self.seconds))

    def estimates(self, constants):
        return self.sums(kernel_seconds(self.columns, constants, self.machine))


def residuals(measured, constants, kept):
    """Logarithmic errors within each program, and what the programs as a whole are off, which counts less."""
    error = numpy.log(measured.estimates(constants) / measured.seconds)
    mean = numpy.bincount(measured.program, measured.weight * error)
    within = (error - mean[measured.program]) * numpy.sqrt(measured.weight)
    return numpy.concatenate([within[kept[measured.program]], numpy.sqrt(OF_MEANS) * mean[kept]])


def fit(measured, kept, start, steps):
    """Levenberg-Marquardt in the logarithms of the constants, within their limits."""
    names = list(START)
    low = numpy.log([LIMITS.get(n, (START[n] / 100,))[0] for n in names])
    high = numpy.log([LIMITS.get(n, (0, START[n] * 100))[1] for n in names])
    at = numpy.clip(numpy.log([start[n] for n in names]), low, high)

    def of(x):
        return residuals(measured, dict(zip(names, numpy.exp(x))), kept)

    now, damping = of(at), 1e-2
    for _ in range(steps):
        slopes = numpy.empty((len(now), len(names)))
        for i in range(len(names)):
            beside = at.copy()
            beside[i] += 0.02 if at[i] + 0.02 <= high[i] else -0.02
            slopes[:, i] = (of(beside) - now) / (beside[i] - at[i])
        square, gradient = slopes.T @ slopes, slopes.T @ now
        improved = False
        for _ in range(8):
            step = numpy.linalg.solve(square + damping * numpy.diag(numpy.diag(square) + 1e-6), -gradient)
            trial = numpy.clip(at + numpy.clip(step, -0.7, 0.7), low, high)
            then = of(trial)
            if then @ then < now @ now:
                improved = now @ now - then @ then > 1e-5 * (now @ now)
                at, now, damping = trial, then, max(damping / 4, 1e-5)
                break
            damping *= 4
        if not improved:
            break
    return dict(zip(names, numpy.exp(at))), now @ now


def best_fit(measured, kept, steps, starts):
    random = numpy.random.default_rng(1)
    best = None
    for n in range(starts):
        start = {k: v * float(numpy.exp(random.normal(0, 0.5 * (n > 0)))) for k, v in START.items()}
        found = fit(measured, kept, start, steps)
        if best is None or found[1] < best[1]:
            best = found
    return best


def family(program):
    """Of lora_b1 and lora_b8: what is held out together."""
    return program.split("_b")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--machine", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--hold-out", action="store_true", help="fit without each program in turn as well")
    arguments = parser.parse_args()
    machine = json.loads(arguments.machine.read_text(encoding="utf-8"))
    machine = {**machine["limits"], "memory_bandwidth": machine["rates"]["memory_bandwidth"]["value"]}
    measured = Measured(arguments.files, machine)
    everything = numpy.ones(len(measured.programs), bool)
    constants, loss = best_fit(measured, everything, arguments.steps, arguments.starts)
    columns = {"built-in": measured.built_in, "fitted": measured.estimates(constants)}
    if arguments.hold_out:
        columns["held out"] = measured.built_in.copy()
        for out in sorted({family(p) for p in measured.programs}):
            kept = numpy.array([family(p) != out for p in measured.programs])
            without = best_fit(measured, kept, arguments.steps, arguments.starts)[0]
            of = ~kept[measured.program]
            columns["held out"][of] = measured.estimates(without)[of]
    print(f"{len(measured.seconds)} rows of {len(measured.programs)} programs; loss {loss:.4f}")
    shown = {"overlapped_kernel": constants["launch"] + constants["first_byte"], **constants}
    del shown["launch"]
    for name, value in shown.items():
        print(f"  {name:<26} {value:.3g}")
    print(f"{'':<20} {'rows':>5}" + "".join(f" | {c:^26}" for c in columns))
    print(f"{'':<20} {'':>5}" + " |  rho  place  loss  estimate" * len(columns))
    total = numpy.zeros((len(columns), 3))
    for i, name in enumerate(measured.programs):
        of = measured.program == i
        seconds = measured.seconds[of]
        text = f"{name:<20} {of.sum():>5}"
        for c, estimated in enumerate(columns.values()):
            now = estimated[of]
            rho = spearman(now, seconds)
            order = numpy.argsort(now, kind="stable")
            place = 1 + int(numpy.where(order == seconds.argmin())[0][0])
            total[c] += rho, rho >= 0.8, place <= 10
            text += (f" | {rho:5.2f} {place:5d} {seconds[order[0]] / seconds.min():6.2f} "
                     f"{numpy.median(now / seconds):7.2f}")
        print(text)
    for c, name in enumerate(columns):
        print(f"{name}: mean rho {total[c][0] / len(measured.programs):.3f}; 0.8 or more in {total[c][1]:.0f}, "
              f"fastest among ten in {total[c][2]:.0f} of {len(measured.programs)}")


if __name__ == "__main__":
    sys.exit(main())
