#!/usr/bin/env python3
"""The benchmark table: bench.py FOLDER [--results DIR] [--only SUBSTRING] [--no-compile].

FOLDER holds kernels, one folder a candidate and schedule, as build/release/bin/schedules makes them of programs/bench:
PROGRAM_bBATCH@CANDIDATE…. For every program, each is called by the launcher that ships (the package `strata`), checked
against float64 on fresh inputs and timed, the fastest that is right is taken, and the peers are timed in the same way in
the same run: medians of 20 replays of a CUDA graph that calls the function once for every set of inputs, cold over
enough sets to exceed the L2 cache four times (64 at most), hot over one. Writes DIR/DEVICE-DATE.json, which later runs
add rows to, and DEVICE-DATE.svg: ratios to the floor.
"""
import argparse
import datetime
import json
import math
import pathlib
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu"), str(ROOT / "bench" / "gpu")]
import peers as peer_functions  # noqa: E402
from run import TOLERANCE, TYPES  # noqa: E402
from shipped import kernel_of  # noqa: E402


def microseconds(calls):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        for call in calls[:2] * 3:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    repeats = max(1, 20 // len(calls))
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
        kept = [call() for _ in range(repeats) for call in calls]
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / (len(calls) * repeats))
    del kept, graph
    return sorted(times)[10]


def random_inputs(buffers):
    made = {}
    for b in buffers:
        if b["role"] == "input":
            values = torch.randn(b["shape"], device="cuda")
            made[b["name"]] = (values / math.sqrt(b["shape"][-1]) if len(b["shape"]) > 1 else values).to(TYPES[b["type"]])
    return made


def results_of(buffers):
    """Memory for the results, filled with what is no number."""
    return [torch.full(b["shape"], float("nan"), dtype=TYPES[b["type"]], device="cuda")
            for b in buffers if b["role"] == "output"]


def calls_of(kernel, buffers, sets):
    """A call for each set of inputs, with results of its own; these for each call."""
    names = [b["name"] for b in buffers if b["role"] == "input"]
    results = [results_of(buffers) for _ in sets]
    return [lambda s=s, r=r: kernel(*[s[n] for n in names], out=r) for s, r in zip(sets, results)], results


def relative(found, expected):
    return ((found.double() - expected).norm() / expected.norm()).item()


def row(name, folders, compiled):
    manifest = json.loads((folders[0] / "best.launch.json").read_text())
    inputs_of = lambda buffers: [b["name"] for b in buffers if b["role"] == "input"]
    names = inputs_of(manifest["buffers"])
    output = next(b for b in manifest["buffers"] if b["role"] == "output")
    one = random_inputs(manifest["buffers"])
    size = sum(t.numel() * t.element_size() for t in one.values())
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = min(64, max(2, math.ceil(4 * l2 / size)))
    sets = [one] + [random_inputs(manifest["buffers"]) for _ in range(count - 1)]
    program = name.rsplit("_b", 1)[0]
    definition = peer_functions.FUNCTIONS[program]["eager"]
    expected = definition(*[one[n].double() for n in names])
    result = {"program": name, "inputs": [list(one[n].shape) for n in names],
              "floor_us": peer_functions.floor_seconds(program, [one[n] for n in names], expected.half()) * 1e6,
              "candidates": [], "peers": {}}
    for folder in folders:
        manifest = json.loads((folder / "best.launch.json").read_text())
        candidate = {"name": folder.name.split("@")[1], "kernels": len(manifest.get("steps", manifest.get("kernels"))),
                     "estimate_us": manifest.get("estimated_us")}
        result["candidates"].append(candidate)
        calls, results = calls_of(kernel_of(folder), manifest["buffers"], sets)
        calls[0]()
        torch.cuda.synchronize()
        candidate["error"] = relative(results[0][0], expected)
        if not candidate["error"] <= TOLERANCE[output["type"]]:
            candidate["wrong"] = True
            continue
        candidate["cold_us"] = microseconds(calls)
    right = [c for c in result["candidates"] if "cold_us" in c]
    if right:
        best = min(right, key=lambda c: c["cold_us"])
        folder = next(f for f in folders if f.name.split("@")[1] == best["name"])
        manifest = json.loads((folder / "best.launch.json").read_text())
        best["hot_us"] = microseconds(calls_of(kernel_of(folder), manifest["buffers"], [one])[0])
        result["strata"] = best
    for peer, function in peer_functions.peers(program):
        if not compiled and "compile" in peer:
            continue
        try:
            error = relative(function(*[one[n] for n in names]), expected)
            result["peers"][peer] = {
                "error": error,
                "cold_us": microseconds([lambda s=s: function(*[s[n] for n in names]) for s in sets]),
                "hot_us": microseconds([lambda: function(*[one[n] for n in names])])}
        except Exception as failure:  # a peer that cannot run is reported, and the others are
            result["peers"][peer] = {"failed": f"{type(failure).__name__}: {str(failure)[:120]}"}
    torch._dynamo.reset()
    return result


def best_peer(r):
    timed = {n: p for n, p in r["peers"].items() if "cold_us" in p}
    return min(timed.items(), key=lambda item: item[1]["cold_us"]) if timed else (None, None)


def spearman(pairs):
    def ranks(values):
        order = sorted(range(len(values)), key=lambda i: values[i])
        place = [0.0] * len(values)
        i = 0
        while i < len(order):
            j = i
            while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
                j += 1
            for k in range(i, j + 1):
                place[order[k]] = (i + j) / 2
            i = j + 1
        return place
    if len(pairs) < 3:
        return None
    a, b = ranks([p[0] for p in pairs]), ranks([p[1] for p in pairs])
    mean = (len(pairs) - 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    below = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return top / below if below else None


def table(rows):
    lines = [f"{'program':<20} {'Strata':>8} {'hot':>8} {'error':>9} {'best peer':>20} {'cold':>8} {'hot':>8} "
             f"{'error':>9} {'faster':>7} {'floor':>7} {'/floor':>7}  candidate"]
    ratios = []
    for r in rows:
        peer, p = best_peer(r)
        s = r.get("strata")
        if not s or not p:
            lines.append(f"{r['program']:<20} {'no result' if not s else ''}")
            continue
        ratios.append(p["cold_us"] / s["cold_us"])
        lines.append(f"{r['program']:<20} {s['cold_us']:8.2f} {s['hot_us']:8.2f} {s['error']:9.2e} {peer:>20} "
                     f"{p['cold_us']:8.2f} {p['hot_us']:8.2f} {p['error']:9.2e} {ratios[-1]:6.2f}x {r['floor_us']:7.2f} "
                     f"{s['cold_us'] / r['floor_us']:7.2f}  {s['name']}")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(f"geometric mean {mean:.2f}x, least {min(ratios):.2f}x")
    return "\n".join(lines)


def plot(rows, title):
    """Bars of time over floor, Strata beside its best peer, on a logarithmic scale."""
    shown = [r for r in rows if r.get("strata") and best_peer(r)[1]]
    width, height, bar = 260 + 560, 40 + 34 * len(shown), 12
    scale = lambda ratio: 250 + 540 * math.log(max(ratio, 1)) / math.log(64)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<text x="10" y="18">{title}: time over floor; dark Strata, light its best peer</text>']
    for ratio in (1, 2, 4, 8, 16, 32, 64):
        out.append(f'<line x1="{scale(ratio):.0f}" x2="{scale(ratio):.0f}" y1="28" y2="{height}" stroke="#ddd"/>'
                   f'<text x="{scale(ratio):.0f}" y="28" text-anchor="middle" fill="#777">{ratio}</text>')
    for i, r in enumerate(shown):
        y = 36 + 34 * i
        out.append(f'<text x="240" y="{y + 16}" text-anchor="end">{r["program"]}</text>')
        times = (("#246", r["strata"]["cold_us"]), ("#acd", best_peer(r)[1]["cold_us"]))
        for n, (colour, cold) in enumerate(times):
            end = scale(cold / r["floor_us"])
            out.append(f'<rect x="250" y="{y + n * bar}" width="{end - 250:.0f}" height="{bar}" fill="{colour}"/>'
                       f'<text x="{end + 4:.0f}" y="{y + n * bar + 10}" font-size="10">{cold:.1f} µs</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    torch.zeros(1, device="cuda")
    programs = {}
    for folder in sorted(arguments.folder.iterdir()):
        if (folder / "best.sm_90a.cubin").exists() and arguments.only in folder.name:
            programs.setdefault(folder.name.split("@")[0], []).append(folder)
    device = torch.cuda.get_device_name()
    date = datetime.date.today().isoformat()
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"{device.replace(' ', '-').lower()}-{date}.json"
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = {r["program"]: r for r in known}
    start = time.time()
    for name, folders in programs.items():
        rows[name] = row(name, folders, not arguments.no_compile)
        pairs = [(c["estimate_us"], c["cold_us"]) for c in rows[name]["candidates"]
                 if c.get("estimate_us") and "cold_us" in c]
        rows[name]["spearman"] = spearman(pairs)
        print(f"[{time.time() - start:5.0f} s] {table([rows[name]]).splitlines()[1]}", flush=True)
        torch.cuda.empty_cache()
        ordered = [rows[n] for n in sorted(rows)]
        path.write_text(json.dumps({"device": device, "date": date, "torch": torch.__version__, "cuda": torch.version.cuda,
                                    "command": "bench/gpu/bench.py", "rows": ordered}, indent=1) + "\n")
    path.with_suffix(".svg").write_text(plot(ordered, f"{device}, {date}"))
    print(table(ordered))


if __name__ == "__main__":
    main()
