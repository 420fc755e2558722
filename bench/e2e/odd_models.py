#!/usr/bin/env python3
"""Models of many families at odd sizes, by torch.compile with Strata's backend and with its own.

usage: odd_models.py [--families odd|torch|outside] [--models NAME,…] [--effort none|quick|full] [--results FILE.json]
                     [--peer max-autotune-no-cudagraphs|default|none] [--float32] [--jobs N] [--model-seconds S]
                     [--small] [--list]

The models are those of odd_families.py, of bf16 or f16 with random weights, those of torch_families*.py, some of them
of f32, or those of outside_*.py. Those whose name ends in "-train", and those of outside_*.py that say so, run forward
and backward; their results are the loss and the gradients of all parameters, of outside_*.py also of the inputs. What
the first call leaves in buffers is a result too. A model's graph may be broken where Dynamo breaks it, which "graphs"
of the results counts for Strata.

Two times for each: a call from Python, by events around it, and a replay of a CUDA graph that holds it; medians of 50,
in microseconds. Errors are relative to float64 on the same weights, in norm, the largest of the results'. Models where
Strata's is more than twice the largest of eager's and the peer's, and more than a unit in the last place of the
type (of f32 in outside_*.py, 16 or what a case says), count as failed. The exit code is the number of failed models.

--peer: the mode of torch.compile with its own backend, the first unless given; none: it is left out.
--float32: all models in f32, not in their own types.
--jobs: so many models are compiled side by side, in a process each, which compiles all ways to run its model and then
times them. On each GPU times are taken by one process at a time, while no other of it compiles. What a compiler times
in order to choose is not kept apart: --peer default and --effort none suit it. The models share the GPU's memory.
--model-seconds: a way whose compilation and first call take longer is given up; 60 with --jobs, no limit without.
--small: tiny sizes, so that a machine without a GPU can try the script; its times mean nothing.
"""

import argparse
import copy
import gc
import importlib
import math
import pathlib
import statistics
import sys
import time

import torch

from odd_families import tensors_of
from paper_models import Clock, mean, write
from strata import torch_backend

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import side_by_side  # noqa: E402

FAMILIES = {
    "odd": ["odd_families"],
    "torch": ["torch_families", "torch_families_data", "torch_families_math"],
    "outside": ["outside_cases", "outside_attention", "outside_steps", "outside_convolutions", "outside_images",
                "outside_signals", "outside_tables", "outside_densities"],
}  # fmt: skip


def table_of(families):
    return [importlib.import_module(name) for name in FAMILIES[families]][0].MODELS


def step_of(function, model, inputs, train):
    """A function without arguments that runs a step and returns its tensors."""
    leaves = [x for x in [*model.parameters(), *inputs] if x.requires_grad]

    def step():
        if not train:
            with torch.no_grad():
                return tensors_of(function(*inputs))
        loss, *others = tensors_of(function(*inputs))
        return [loss.detach(), *others, *torch.autograd.grad(loss, leaves, allow_unused=True)]
    return step


def first_results(function, model, inputs, train):
    """A step, and what its first run returns and leaves in the model's buffers."""
    step = step_of(function, model, inputs, train)
    found = step()
    return step, found + [x.clone() for x in model.buffers() if x.is_floating_point()]


def size(x):
    return float(x.double().square().mean().sqrt())


def largest_error(found, expected):
    """Of the results, relative and in norm; those that are whole numbers count as a share of the elements.

    A result that is zero but for rounding, as the gradient of a bias before a norm, is measured beside the others.
    """
    sizes = [size(x[x.isfinite()]) for x in expected if x is not None and x.is_floating_point() and x.isfinite().any()]
    usual = statistics.median(sizes) if sizes else 0.0
    errors = []
    for one, exact in zip(found, expected, strict=True):
        if one is None or exact is None:
            if one is not exact:
                raise ValueError("a gradient is missing")
            continue
        if one.shape != exact.shape:
            raise ValueError(f"shape {tuple(one.shape)} in place of {tuple(exact.shape)}")
        if not exact.numel():
            continue
        if not one.is_floating_point():
            errors.append(float((one != exact).float().mean()))
            continue
        finite = exact.isfinite()
        if not torch.equal(one.isfinite(), finite):
            return math.inf
        if finite.any():
            scale = size(exact[finite])
            if scale < 1e-9 * usual:
                scale = 1e-3 * usual
            errors.append(size(one[finite].double() - exact[finite].double()) / (scale or 1.0))
    return max(errors)


def said(reason, lines, characters):
    return f"{type(reason).__name__}: {' '.join(str(reason).strip().splitlines()[:lines])[:characters]}"


def measure(name, given, turns):
    """A row of the table: times and errors of each way to run the model."""
    entry = table_of(given.families)[name]
    train, dtype = entry.train, torch.float32 if given.float32 else entry.dtype
    torch.manual_seed(0)
    torch._dynamo.reset()
    # A way's compiled functions stay while the next is compiled, in the same tables of Dynamo.
    torch._dynamo.config.recompile_limit = 64
    with torch.device(given.device):
        model, inputs = entry.builder(given.small)
    model = model.to(dtype).train(train).requires_grad_(train)

    def typed(x, to):
        return x.detach().to(to).requires_grad_(x.requires_grad) if x.is_floating_point() else x
    inputs = [typed(x, dtype) for x in inputs]
    exact_model = copy.deepcopy(model).double()
    _, exact = first_results(exact_model, exact_model, [typed(x, torch.float64) for x in inputs], train)
    del exact_model
    clock = Clock(given.device)
    row = {"model": name, "type": str(dtype).removeprefix("torch."), "us": {}, "graph_us": {}, "error": {},
           "compile_s": {}, "failed": {}}
    ways = {"eager": None, given.peer: {"mode": given.peer}, "strata": {}}
    steps = {}
    for way, options in ways.items():
        if way == "none":
            continue
        torch_backend.FALLBACKS.clear()
        graphs = []

        def counted(graph, examples):
            graphs.append(graph)
            return torch_backend.backend(graph, examples, options={"effort": given.effort})
        if way == "strata":
            options = {"backend": counted}
        try:
            start = time.perf_counter()
            with turns.limited():
                own = copy.deepcopy(model)
                function = own if options is None else torch.compile(own, **options)
                step, found = first_results(function, own, inputs, train)
            row["error"][way] = largest_error(found, exact)
            row["compile_s"][way] = time.perf_counter() - start
            steps[way] = step
        except (Exception, side_by_side.OutOfTime) as reason:  # the other ways are measured nevertheless
            row["failed"][way] = said(reason, 2, 300)
        if way == "strata":
            row["in_torch"] = sorted({op for op, _, _ in torch_backend.FALLBACKS})
            row["reasons"] = sorted({f"{op}: {why}" for op, why, _ in torch_backend.FALLBACKS})
            row["graphs"] = len(graphs)
        function = own = found = step = None
        gc.collect()
    with turns.alone():
        for way, step in steps.items():
            try:
                row["us"][way] = clock.microseconds(step)
                row["graph_us"][way] = clock.replayed(step)
            except Exception as reason:
                row["failed"][way] = said(reason, 2, 300)
    others = [error for way, error in row["error"].items() if way != "strata"]
    ours = row["error"].get("strata", math.inf)
    allowed = torch.finfo(dtype).eps * (entry.units if dtype == torch.float32 else 1)
    row["agrees"] = math.isfinite(ours) and ours <= max(2 * max(others, default=0), allowed)
    return row


def attempt(name, given, turns):
    """A row or why there is none, and whether the device answers still."""
    try:
        found = measure(name, given, turns)
    except Exception as reason:
        found = said(reason, 1, 200)
    gc.collect()
    try:
        if given.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except Exception:
        return found, False
    return found, True


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
    return (f"{row['model']:24} {cell('eager'):>19} {cell(peer):>19} {cell('strata'):>19}  "
            f"{faster('us'):>5} | {faster('graph_us'):5} {error:.1e} ({eager:.1e}) "
            f"{row['compile_s'].get('strata', math.nan):6.1f} "
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
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--model-seconds", type=int)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    table = table_of(given.families)
    if given.list:
        return print("\n".join(table))
    names = given.models.split(",") if given.models else list(table)
    unknown = [name for name in names if name not in table]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(table)}")
    if given.jobs > 1 and given.model_seconds is None:
        given.model_seconds = 60
    given.device = "cuda" if torch.cuda.is_available() else "cpu"
    if given.device == "cpu" and not given.small:
        parser.error("there is no GPU; --small tries the script without one")
    print(f"{'model':24} {'eager':>19} {'torch.compile':>19} {'Strata':>19}  {'times as fast':13} error (eager's), "
          f"compile time   µs: called | CUDA graph", flush=True)
    rows, failed = [], 0
    if given.jobs > 1:
        answers = side_by_side.answers(names, given.jobs, attempt, given)
    else:
        turns = side_by_side.Turns(seconds=given.model_seconds)
        answers = ((name, attempt(name, given, turns)[0]) for name in names)
    for name, row in answers:
        if not isinstance(row, dict):  # a table goes on with the next model
            failed += 1
            print(f"{name:24} failed: {row or 'its process ended'}", flush=True)
            continue
        failed += not row["agrees"]
        rows.append(row)
        rows.sort(key=lambda row: names.index(row["model"]))
        print(shown(row, given.peer), flush=True)
        if given.results:
            write(given, rows, given.peer)
    if called := mean(rows, "us", given.peer):
        graph = mean(rows, "graph_us", given.peer)
        print(f"geometric mean: {called:.2f} times as fast as torch.compile ({given.peer}) when called"
              + (f", {graph:.2f} in a CUDA graph" if graph else ""))
    sys.exit(min(failed, 100))


if __name__ == "__main__":
    main()
