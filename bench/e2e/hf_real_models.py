#!/usr/bin/env python3
"""Unmodified Hugging Face models at their real sizes, by torch.compile with Strata's backend and with its own.

usage: hf_real_models.py [--rows NAME,…] [--ways eager,strata,compile,max-autotune] [--layers N] [--tokens N] [--batch N]
                         [--dtype bfloat16|float16|float32] [--effort none|quick|full] [--limit SECONDS]
                         [--results FILE.json] [--small] [--list]

Configurations are those of the published models; weights are random and made on the device, so nothing is downloaded.
A row whose name ends in "-decode" is a step of one token with a static cache of 1,024 positions, half of them full;
the others run a whole prompt, sentence, picture or recording, without a cache. --layers cuts the depth of every row;
without it some large models are cut, and the table says to how many layers of how many.

Each row runs in a process of its own, for --limit seconds at most; what was measured until then counts. --results
merges rows into a file that may be there, way by way, so that short runs can be joined: run peers and Strata in one
run where they are to be compared, for two runs may have two machines. "runs" of a row says which way ran when, and
where.

Two times for each way: a call from Python, by events around it, and a replay of a CUDA graph that holds it; medians of
50, in microseconds. Errors are relative to float32 (of float32: float64) on the same weights, in norm, the largest of
the results'. Rows where Strata's is more than twice the largest of the others', and more than a unit in the last place
of the type, count as failed. The exit code is the number of failed rows, at most 100.

--small: tiny sizes, so that a machine without a GPU can try the script; its times mean nothing.
"""

import argparse
import copy
import datetime
import gc
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

from hf_sizes import CUT, DECODES, MODELS

WAYS = ("eager", "compile", "max-autotune", "strata")
KEYS = 1024  # positions of a static cache


def measure(name, given, keep):
    """Measures a row, and calls keep(row) after each way."""
    import torch

    from hf_sizes import build, reset_cache
    from paper_models import Clock
    from strata import torch_backend

    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = {"eager": None, "compile": {}, "max-autotune": {"mode": "max-autotune-no-cudagraphs"}, "strata": {}}
    dtype = getattr(torch, given.dtype)
    torch.manual_seed(0)
    case = build(name, device, dtype, layers=given.layers, tokens=given.tokens, batch=given.batch, keys=KEYS,
                 small=given.small)
    machine = torch.cuda.get_device_name(0) if device == "cuda" else "host"
    row = {"row": name, "type": given.dtype, "batch": case.batch, "tokens": case.tokens, "layers": case.layers,
           "of_layers": case.of_layers, "us": {}, "graph_us": {}, "error": {}, "compile_s": {}, "failed": {}, "runs": {}}

    def results(model, cache):
        reset_cache(cache, case.position)
        return [t.clone() for t in case.results(model, cache)]

    with torch.no_grad():
        wide = torch.float64 if dtype == torch.float32 else torch.float32
        exact_model, exact_cache = copy.deepcopy(case.model).to(wide), case.cache(wide)
        exact_model.config._experts_implementation = "eager"  # grouped products are of 16-bit floats
        exact = results(exact_model, exact_cache)
        del exact_model, exact_cache
        gc.collect()
        cache = case.cache(dtype)
        clock = Clock(device)
        for way in given.ways:
            torch._dynamo.reset()
            torch_backend.FALLBACKS.clear()
            graphs = []

            def counted(graph, examples):
                graphs.append(graph)
                return torch_backend.backend(graph, examples, options={"effort": given.effort})

            row["runs"][way] = {"device": machine, "date": datetime.datetime.now().isoformat(timespec="minutes"),
                                "torch": torch.__version__, "command": given.command}
            row["failed"][way] = f"stopped after {given.limit} s"
            keep(row)
            doing = "the first call"
            try:
                model = case.model
                if way == "strata":
                    model = torch.compile(model, backend=counted)
                elif options[way] is not None:
                    model = torch.compile(model, **options[way])
                start = time.perf_counter()
                row["error"][way] = max(_relative(a, b) for a, b in zip(results(model, cache), exact, strict=True))
                row["compile_s"][way] = time.perf_counter() - start
                doing = "the calls"
                row["us"][way] = clock.microseconds(lambda m=model: case.results(m, cache))
                keep(row)
                doing = "the CUDA graph"
                reset_cache(cache, case.position)
                row["graph_us"][way] = clock.replayed(lambda m=model: case.results(m, cache))
                del row["failed"][way]
            except Exception as reason:  # the other ways are measured nevertheless
                said = str(reason).strip().splitlines() or [""]
                row["failed"][way] = f"{doing}: {type(reason).__name__}: {said[0][:300]}"
            if way == "strata":
                row["graphs"] = len(graphs)
                row["in_torch"] = sorted({op for op, _, _ in torch_backend.FALLBACKS})
                row["reasons"] = sorted({f"{op}: {why} ({where})" for op, why, where in torch_backend.FALLBACKS})
            keep(row)
            model = None
            gc.collect()


def _relative(found, exact):
    if found.shape != exact.shape:
        raise ValueError(f"shape {tuple(found.shape)} in place of {tuple(exact.shape)}")
    return float((found.to(exact.dtype) - exact).norm() / exact.norm())


# The table

def agrees(row):
    """Whether Strata's error is as it should be; None where it was not measured."""
    eps = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}[row["type"]]
    ours = row["error"].get("strata")
    if ours is None:
        return None
    others = [error for way, error in row["error"].items() if way != "strata"]
    return math.isfinite(ours) and ours <= max(2 * max(others, default=0.0), eps)


def failed(row):
    return "strata" in row["failed"] or agrees(row) is False


def faster(row, times):
    """How many times as fast as the fastest peer Strata is."""
    peers = [us for way, us in row[times].items() if way != "strata" and us]
    ours = row[times].get("strata")
    return min(peers) / ours if peers and ours else None


def heading(ways):
    columns = " ".join(f"{way:>19}" for way in ways)
    return (f"{'row':22} {'B × tokens':>10} {'layers':>8}  {columns}  {'× the best peer':15} error (eager's), compile time, "
            "graphs   µs: called | CUDA graph")


def shown(row, ways):
    def number(value, digits=1):
        return "-" if value is None else f"{value:.{digits}f}"

    cells = " ".join(f"{number(row['us'].get(w)) + ' | ' + number(row['graph_us'].get(w)):>19}" for w in ways)
    ours, eager = (row["error"].get(way, math.nan) for way in ("strata", "eager"))
    said = [f"[{way} failed: {why}]" for way, why in row["failed"].items()]
    machines = {run["device"] for run in row["runs"].values()}
    said += [f"[ways ran on {len(machines)} kinds of device]"] if len(machines) > 1 else []
    depth = str(row["layers"]) if row["layers"] == row["of_layers"] else f"{row['layers']} of {row['of_layers']}"
    return (f"{row['row']:22} {row['batch']:>2} × {row['tokens']:<5} {depth:>8}  {cells}  "
            f"{number(faster(row, 'us'), 2):>5} | {number(faster(row, 'graph_us'), 2):5}    {ours:.1e} ({eager:.1e}) "
            f"{row['compile_s'].get('strata', math.nan):6.1f} {row.get('graphs', '-'):>2} "
            f"{'DIFFERS ' if agrees(row) is False else ''}{' '.join(row.get('in_torch', []))} {' '.join(said)}").rstrip()


def mean(rows, times):
    found = [f for f in (faster(row, times) for row in rows) if f]
    return math.exp(sum(map(math.log, found)) / len(found)) if found else None


# The file of results

KEY = ("row", "type", "batch", "tokens", "layers")
BY_WAY = ("us", "graph_us", "error", "compile_s", "failed", "runs")


def merge(rows, row):
    """Puts a row in place of an earlier one of the same sizes. Ways that only the earlier one has are kept."""
    for i, old in enumerate(rows):
        if all(old[k] == row[k] for k in KEY):
            kept = {part: {way: v for way, v in old[part].items() if way not in row["runs"]} for part in BY_WAY}
            rows[i] = {**old, **row, **{part: {**kept[part], **row[part]} for part in BY_WAY}}
            return rows[i]
    rows.append(row)
    return row


def read(path):
    return json.loads(path.read_text())["rows"] if path and path.exists() else []


def write(path, rows):
    """At once, so that a run that is stopped leaves a whole file."""
    text = json.dumps({"means": {times: mean(rows, times) for times in ("us", "graph_us")}, "rows": rows}, indent=1)
    new = path.with_suffix(".new")
    new.write_text(text + "\n")
    new.replace(path)


def run_row(name, given, rows):
    """A row in a process of its own: the row, or None where there is nothing of it."""
    part = pathlib.Path(f"{given.results or 'hf-real-models'}.{os.getpid()}.part")
    child = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--child", name, "--part", str(part)],
                             start_new_session=True)
    try:
        child.wait(given.limit)
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {given.limit} s", flush=True)
    finally:  # compilers that it started, too
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
    if not part.exists():
        return None
    row = merge(rows, json.loads(part.read_text()))
    part.unlink()
    if given.results:
        write(given.results, rows)
    return row


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(MODELS))
    parser.add_argument("--ways", default="eager,strata,compile", type=lambda text: text.split(","))
    parser.add_argument("--layers", type=int)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--effort", default="quick", choices=["none", "quick", "full"])
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    for names, known in ((given.rows.split(","), MODELS), (given.ways, WAYS)):
        unknown = [name for name in names if name not in known]
        if unknown:
            parser.error(f"no {unknown[0]!r}; there are {', '.join(known)}")
    own = sys.argv[1:sys.argv.index("--child")] if given.child else sys.argv[1:]
    given.command = " ".join([pathlib.Path(sys.argv[0]).name, *own])
    return parser, given


def main():
    parser, given = arguments()
    if given.list:
        for name in MODELS:
            print(f"{name:22}{' decode' if name in DECODES else ''}{f'  {CUT[name]} layers' if name in CUT else ''}")
        return
    if given.child:
        def keep(row):
            new = given.part.with_suffix(".half")
            new.write_text(json.dumps(row))
            new.replace(given.part)
        measure(given.child, given, keep)
        return
    import torch
    if not torch.cuda.is_available() and not given.small:
        parser.error("there is no GPU; --small tries the script without one")
    rows, done, bad = read(given.results), [], 0
    ways = [way for way in WAYS if way in given.ways or any(way in row["runs"] for row in rows)]
    print(heading(ways), flush=True)
    for name in given.rows.split(","):
        row = run_row(name, given, rows)
        if row is None:
            bad += 1
            print(f"{name:22} failed before anything was measured", flush=True)
            continue
        bad += failed(row)
        done.append(row)
        print(shown(row, ways), flush=True)
    if len(rows) > len(done):
        print(f"\nall rows of {given.results}\n" + "\n".join(shown(row, ways) for row in rows))
    if mean(rows, "us"):
        graph = mean(rows, "graph_us")
        print(f"geometric mean: {mean(rows, 'us'):.2f} times as fast as the best peer when called"
              + (f", {graph:.2f} in a CUDA graph" if graph else ""))
    sys.exit(min(bad, 100))


if __name__ == "__main__":
    main()
