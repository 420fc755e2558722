#!/usr/bin/env python3
"""Models of many families at odd sizes, by torch.compile with Strata's backend and with its own.

usage: odd_models.py [--families odd|torch] [--models NAME,…] [--effort none|quick|full] [--results FILE.json]
                     [--peer max-autotune-no-cudagraphs|default|none] [--small] [--list]

The models are those of odd_families.py, of bf16 or f16 with random weights, or those of torch_families*.py,
some of them of f32. Those whose name ends in "-train" run forward and backward; their results are the loss and the
gradients of all parameters. A model's graph may be broken where Dynamo breaks it, which "graphs" of the results counts
for Strata.

Two times for each: a call from Python, by events around it, and a replay of a CUDA graph that holds it; medians of 50,
in microseconds. Errors are relative to float64 on the same weights, in norm, the largest of the results'. Models where
Strata's is more than twice the largest of eager's and the peer's, and more than a unit in the last place of the
type, count as failed. The exit code is the number of failed models.

--peer: the mode of torch.compile with its own backend, the first unless given; none: it is left out.
--small: tiny sizes, so that a machine without a GPU can try the script; its times mean nothing.
"""

import argparse
import copy
import gc
import importlib
import math
import pathlib
import sys
import time

import torch

from paper_models import Clock, mean, relative, write
from strata import torch_backend

FAMILIES = {"odd": ["odd_families"], "torch": ["torch_families", "torch_families_data", "torch_families_math"]}


def results_of(model, inputs, train):
    """A function without arguments that runs a step and returns its tensors."""
    parameters = list(model.parameters())

    def step(function):
        if not train:
            with torch.no_grad():
                found = function(*inputs)
            return list(found) if isinstance(found, tuple) else [found]
        loss = function(*inputs)
        return [loss.detach(), *torch.autograd.grad(loss, parameters)]
    return step


def largest_error(found, expected):
    """Of the results, relative and in norm; those that are whole numbers count as a share of the elements."""
    errors = []
    for one, exact in zip(found, expected, strict=True):
        if one.shape != exact.shape:
            raise ValueError(f"shape {tuple(one.shape)} in place of {tuple(exact.shape)}")
        if one.is_floating_point():
            if exact.float().norm() > 0:
                errors.append(relative(one, exact))
        else:
            errors.append(float((one != exact).float().mean()))
    return max(errors)


def measure(name, given):
    """A row of the table: times and errors of each way to run the model."""
    build, dtype = given.table[name]
    torch.manual_seed(0)
    train = name.endswith("-train")
    with torch.device(given.device):
        model, inputs = build(given.small)
    model = model.to(dtype).train(train).requires_grad_(train)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    exact_model = copy.deepcopy(model).double()
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    exact = results_of(exact_model, wide, train)(exact_model)
    del exact_model, wide
    step, clock = results_of(model, inputs, train), Clock(given.device)
    row = {"model": name, "type": str(dtype).removeprefix("torch."), "us": {}, "graph_us": {}, "error": {},
           "compile_s": {}, "failed": {}}
    ways = {"eager": None, given.peer: {"mode": given.peer}, "strata": {}}
    for way, options in ways.items():
        if way == "none":
            continue
        torch._dynamo.reset()
        torch_backend.FALLBACKS.clear()
        graphs = []

        def counted(graph, examples):
            graphs.append(graph)
            return torch_backend.backend(graph, examples, options={"effort": given.effort})
        if way == "strata":
            options = {"backend": counted}
        try:
            function = model if options is None else torch.compile(model, **options)
            start = time.perf_counter()
            row["error"][way] = largest_error(step(function), exact)
            row["compile_s"][way] = time.perf_counter() - start
            row["us"][way] = clock.microseconds(lambda f=function: step(f))
            row["graph_us"][way] = clock.replayed(lambda f=function: step(f))
        except Exception as reason:  # the other ways are measured nevertheless
            said = " ".join(str(reason).strip().splitlines()[:2])
            row["failed"][way] = f"{type(reason).__name__}: {said[:300]}"
        if way == "strata":
            row["in_torch"] = sorted({op for op, _, _ in torch_backend.FALLBACKS})
            row["reasons"] = sorted({f"{op}: {why}" for op, why, _ in torch_backend.FALLBACKS})
            row["graphs"] = len(graphs)
        function = None
        gc.collect()
    others = [error for way, error in row["error"].items() if way != "strata"]
    ours = row["error"].get("strata", math.inf)
    row["agrees"] = math.isfinite(ours) and ours <= max(2 * max(others, default=0), torch.finfo(dtype).eps)
    return row


def shown(row, peer):
    def cell(way):
        found = (row[times].get(way) for times in ("us", "graph_us"))
        return " | ".join("-" if us is None else f"{us:.1f}" for us in found)

    def faster(times):
        theirs, ours = row[times].get(peer), row[times].get("strata")
        return f"{theirs / ours:.2f}" if theirs and ours else "-"
    error, eager = (row["error"].get(way, math.nan) for way in ("strata", "eager"))
    failed = " ".join(f"[{way} failed: {why}]" for way, why in row["failed"].items())
    graphs = f"{row['graphs']} graphs " if row["graphs"] != 1 else ""
    return (f"{row['model']:20} {cell('eager'):>19} {cell(peer):>19} {cell('strata'):>19}  "
            f"{faster('us'):>5} | {faster('graph_us'):5} {error:.1e} ({eager:.1e}) {row['compile_s'].get('strata', math.nan):6.1f} "
            f"{'' if row['agrees'] else 'DIFFERS '}{graphs}{' '.join(row['in_torch'])} {failed}").rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default="odd", choices=FAMILIES)
    parser.add_argument("--models", help="all of the families', unless given")
    parser.add_argument("--effort", default="quick", choices=["none", "quick", "full"])
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--peer", default="max-autotune-no-cudagraphs",
                        choices=["max-autotune-no-cudagraphs", "default", "none"], help="torch.compile's mode")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    given.table = [importlib.import_module(name) for name in FAMILIES[given.families]][0].MODELS
    if given.list:
        return print("\n".join(given.table))
    names = given.models.split(",") if given.models else list(given.table)
    unknown = [name for name in names if name not in given.table]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(given.table)}")
    given.device = "cuda" if torch.cuda.is_available() else "cpu"
    if given.device == "cpu" and not given.small:
        parser.error("there is no GPU; --small tries the script without one")
    print(f"{'model':20} {'eager':>19} {'torch.compile':>19} {'Strata':>19}  {'times as fast':13} error (eager's), "
          f"compile time   µs: called | CUDA graph", flush=True)
    rows, failed = [], 0
    for name in names:
        try:
            row = measure(name, given)
        except Exception as reason:  # a table goes on with the next model
            failed += 1
            said = str(reason).strip().splitlines() or [""]
            print(f"{name:20} failed: {type(reason).__name__}: {said[0][:200]}", flush=True)
            continue
        failed += not row["agrees"]
        rows.append(row)
        print(shown(row, given.peer), flush=True)
        if given.results:
            write(given, rows, given.peer)
        gc.collect()
        if given.device == "cuda":
            torch.cuda.empty_cache()
    if called := mean(rows, "us", given.peer):
        graph = mean(rows, "graph_us", given.peer)
        print(f"geometric mean: {called:.2f} times as fast as torch.compile ({given.peer}) when called"
              + (f", {graph:.2f} in a CUDA graph" if graph else ""))
    sys.exit(min(failed, 100))


if __name__ == "__main__":
    main()
