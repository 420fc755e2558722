#!/usr/bin/env python3
"""Compares estimated with measured times of kernels of both back ends, drawn at random.

usage: estimates.py STRATA [--rows N] [--programs FILE.strata…] [--families NAME…] [--profile-seconds S] [--seed N]
                    [--cache DIR] [--results FILE.json] | --hlo DIR | --summary FILE.json

Rows of µGraphs are candidates × schedules that `strata optimize --profile on --profile-order random` measures, with
cold caches, of each program. Rows of the emitters are random HLO modules of one family each (elementwise, rows, columns,
transposes), timed as a replayed CUDA graph by `strata run --profile`. Prints for each program and over all: rows,
Spearman's rank correlation, and the median and quartiles of estimated over measured, which both back ends should have
alike. A program with fewer rows than asked for is an error at the end. The binary and Python are all it needs.

--hlo DIR writes the random modules and ends, without a GPU; --summary FILE.json prints the table of an earlier run.
"""

import argparse
import datetime
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

PROGRAMS = ["attn_b1", "gated_mlp_b8", "gqa_b1", "lora_4k_b8", "rmsnorm_4k_b1"]
TYPES = ["f32", "bf16", "f16"]
UNARY = ["negate", "exponential", "tanh", "sqrt", "abs", "logistic"]
BINARY = ["add", "multiply", "subtract", "maximum"]


class Module:
    """The text of a module with one entry; values are names, with their type and dimensions."""

    def __init__(self, draw, kind):
        self.draw, self.kind, self.lines, self.shapes, self.parameters = draw, kind, [], {}, 0

    def add(self, dims, text, kind=None):
        name = f"v{len(self.lines)}"
        self.shapes[name] = dims
        self.lines.append(f"{name} = {kind or self.kind}[{','.join(map(str, dims))}] {text}")
        return name

    def parameter(self, dims):
        self.parameters += 1
        return self.add(dims, f"parameter({self.parameters - 1})")

    def chain(self, value, length):
        """Operators of one element each; some read another array of the same shape."""
        for _ in range(length):
            dims = self.shapes[value]
            if self.draw.random() < 0.5:
                value = self.add(dims, f"{self.draw.choice(UNARY)}({value})")
            else:
                other = self.parameter(dims) if self.parameters < 4 and self.draw.random() < 0.5 else value
                value = self.add(dims, f"{self.draw.choice(BINARY)}({value}, {other})")
        return value

    def reduced(self, value, dimension):
        dims = self.shapes[value]
        zero = self.add([], "constant(0)")
        kept = dims[:dimension] + dims[dimension + 1:]
        return self.add(kept, f"reduce({value}, {zero}), dimensions={{{dimension}}}, to_apply=sum")

    def text(self):
        body = "\n".join(f"  {'ROOT ' if i == len(self.lines) - 1 else ''}{line}" for i, line in enumerate(self.lines))
        return (f"HloModule m\n\nsum {{\n  a = {self.kind}[] parameter(0)\n  b = {self.kind}[] parameter(1)\n"
                f"  ROOT c = {self.kind}[] add(a, b)\n}}\n\nENTRY e {{\n{body}\n}}\n")


def size(draw, least, most):
    """Log-uniform, and often a multiple of 8."""
    value = round(2 ** draw.uniform(least, most))
    return max(1, value // 8 * 8) if draw.random() < 0.8 else value


def random_module(draw, family):
    module = Module(draw, draw.choice(TYPES))
    rows = size(draw, 4, 14)
    columns = size(draw, 6, min(14, 26 - rows.bit_length()))
    value = module.chain(module.parameter([rows, columns]), draw.randint(1, 4))
    if family == "rows":
        total = module.reduced(value, 1)
        if draw.random() < 0.5:  # a norm: rows are read twice
            again = module.add([rows, columns], f"broadcast({total}), dimensions={{0}}")
            module.add([rows, columns], f"multiply({value}, {again})")
    elif family == "columns":
        module.chain(module.reduced(value, 0), draw.randint(0, 2))
    elif family == "transposes":
        turned = module.add([columns, rows], f"transpose({value}), dimensions={{1,0}}")
        module.chain(turned, draw.randint(0, 2))
    return module.text()


FAMILIES = ["elementwise", "rows", "columns", "transposes"]


def run(command, timeout):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def module_row(options, folder, text):
    path = folder / "module.hlo"
    path.write_text(text, encoding="utf-8")
    printed = run([options.strata, "run", str(path), "--device", "gpu", "--profile", "--no-libraries",
                   "--search-seconds", "0", "--output",
                   str(folder / "out"), *options.cache_flags], options.timeout)
    measured = re.search(r"([0-9.]+) µs  all, as a CUDA graph", printed)
    estimated = re.search(r"estimated by the model: ([0-9.]+) µs", printed)
    if not measured or not estimated:
        raise RuntimeError(f"neither a CUDA graph nor an estimate:\n{text}\n{printed}")
    return {"estimated_us": float(estimated[1]), "measured_us": float(measured[1]), "what": text}


def program_rows(options, folder, path):
    run([options.strata, "optimize", str(path), "--profile", "on", "--profile-order", "random", "--profile-seconds",
         str(options.profile_seconds), "--time-limit", str(10 + options.profile_seconds), "-o", str(folder / "out"),
         *options.cache_flags], options.timeout + 10 * options.profile_seconds)
    report = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    profile = report["profile"]
    if not profile["measured"]:
        print(f"{path.stem}: nothing was measured: {profile['reason']}", file=sys.stderr)
        return []
    options.device = profile["device"]
    return [{"estimated_us": row["estimated_us"], "measured_us": row["cold_us"],
             "what": f"{row['candidate']} {row['schedule']}"} for row in profile["rows"] if row["cold_us"] is not None]


def ranks(values):
    """Places from 0; equal values share theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first:last + 1]:
            result[place] = (first + last) / 2
        first = last + 1
    return result


def spearman(pairs):
    """None where there are fewer than two values on a side."""
    a, b = ranks([x for x, _ in pairs]), ranks([y for _, y in pairs])
    return statistics.correlation(a, b) if len(set(a)) > 1 and len(set(b)) > 1 else None


def summary(rows):
    pairs = [(row["estimated_us"], row["measured_us"]) for row in rows]
    rho = spearman(pairs) if len(pairs) > 1 else None
    ratios = [estimated / measured for estimated, measured in pairs]
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return rho, quartiles


def print_table(result):
    print(f"{'program':<24}{'back end':<12}{'rows':>6}{'Spearman':>10}{'estimated / measured: median (quartiles)':>44}")
    groups = [(p["program"], p["back_end"], p["rows"]) for p in result["programs"]]
    for end in ("µGraphs", "emitters"):
        groups.append(("all", end, [row for _, of, rows in groups if of == end for row in rows]))
    groups.append(("all", "both", [row for p in result["programs"] for row in p["rows"]]))
    for name, end, rows in groups:
        if not rows:
            continue
        rho, (low, middle, high) = summary(rows)
        text = "-" if rho is None else f"{rho:.2f}"
        print(f"{name:<24}{end:<12}{len(rows):>6}{text:>10}{f'{middle:.2f} ({low:.2f} to {high:.2f})':>44}")


def measure(options):
    result = {"device": "", "date": datetime.date.today().isoformat(), "command": "bench/gpu/estimates.py",
              "seed": options.seed, "programs": []}
    short = []

    def keep(name, end, rows):
        result["programs"].append({"program": name, "back_end": end, "rows": rows})
        result["device"] = options.device
        if len(rows) < options.rows:
            short.append(f"{name}: {len(rows)} rows, fewer than {options.rows}; --profile-seconds allows more")
        if options.results:
            options.results.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {len(rows)} rows", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in options.programs:
            keep(path.stem, "µGraphs", program_rows(options, folder, path))
        for family in options.families:
            draw = random.Random(f"{options.seed} {family}")
            keep(family, "emitters",
                 [module_row(options, folder, random_module(draw, family)) for _ in range(options.rows)])
    print_table(result)
    return short


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("strata", nargs="?")
    parser.add_argument("--rows", type=int, default=60, help="of each program at least")
    bench = pathlib.Path(__file__).resolve().parents[2] / "programs" / "bench"
    parser.add_argument("--programs", type=pathlib.Path, nargs="*", default=[bench / f"{p}.strata" for p in PROGRAMS])
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--profile-seconds", type=float, default=30)
    parser.add_argument("--timeout", type=float, default=300, help="seconds of one command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", help="folder with what strata calibrate measured; by default what is built in")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--hlo", type=pathlib.Path, help="write the modules there and end")
    parser.add_argument("--summary", type=pathlib.Path, help="print the table of a file of results and end")
    options = parser.parse_args()
    options.device = ""
    options.cache_flags = ["--cache", options.cache] if options.cache else ["--no-cache"]
    if options.summary:
        print_table(json.loads(options.summary.read_text(encoding="utf-8")))
        return 0
    if options.hlo:
        options.hlo.mkdir(parents=True, exist_ok=True)
        for family in options.families:
            draw = random.Random(f"{options.seed} {family}")
            for n in range(options.rows):
                (options.hlo / f"{family}{n}.hlo").write_text(random_module(draw, family), encoding="utf-8")
        return 0
    if not options.strata:
        parser.error("name the strata binary")
    short = measure(options)
    for line in short:
        print(line, file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
