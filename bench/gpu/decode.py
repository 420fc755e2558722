#!/usr/bin/env python3
"""The table of decode steps: decode.py STRATA [--models A B …] [--batches N …] [--positions N …] [--modes M …]
[--no-peer] [--compile-mode M] [--limit-seconds S] [--results FILE.json]

For each model and batch: `strata decode` in each mode, then the same step in PyTorch (decode_peer.py: compiled layers,
one CUDA graph, the fastest backend of attention), in one run on one GPU, with random weights in bfloat16. Times are ms
a step, each the median of 7 launches of 50 steps; the floor is weights and cache over what ordinary loads reach on this
GPU, which `strata calibrate` measures first. Each figure says its date, command, device and version. Rows go to
FILE.json as they are there; a later run adds rows and modes, and replaces those that it takes anew. Exit status: 1
where a row failed, else 2 where --limit-seconds left rows out, which are named.
"""
import argparse
import datetime
import json
import pathlib
import select
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["qwen3-8b", "qwen3-0.6b", "llama-3.2-1b", "qwen3-1.7b", "llama-3-8b"]
STEPS = 50
UNIT = 256  # positions that a cache is a multiple of
LONGEST = 300  # seconds that one process may be silent


def strata_rows(options, model, batch, mode, capacity):
    prompts = [word for n in range(batch) for word in ("--prompt-ids", f"3,17,{200 + n},5")]
    command = [options.strata, "decode", "--config", model, "--mode", mode, *prompts, "--tokens", "8", "--ignore-eos",
               "--capacity", str(capacity), "--measure", str(STEPS), "--position",
               ",".join(map(str, options.positions)), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {}, {"failed": f"no end after {LONGEST} s"}
    if done.returncode != 0:
        return {}, {"failed": " ".join(done.stderr.split())[-400:]}
    found = json.loads(done.stdout)
    general = {key: found[key] for key in ("device", "start_seconds", "window", "ahead", "read_bandwidth")}
    return {m["position"]: m | general for m in found["measured"]}, general


class Peer:
    """decode_peer.py, which keeps a model's weights while its batches are measured."""

    def __init__(self, model, capacity, compile_mode):
        self.complaints = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, HERE / "decode_peer.py", HERE.parents[1] / "examples" / "models" / f"{model}.json",
             "--capacity", str(capacity), "--compile-mode", compile_mode, "--steps", str(STEPS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints, text=True)
        self.about = self.answer()

    def answer(self):
        if not select.select([self.process.stdout], [], [], LONGEST)[0]:
            self.process.kill()
            return {"failed": f"the peer has not answered in {LONGEST} s"}
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.complaints.seek(0)
        return {"failed": "the peer's process ended: " + " ".join(self.complaints.read().split())[-400:]}

    def row(self, batch, position):
        try:
            self.process.stdin.write(f"{batch} {position}\n")
            self.process.stdin.flush()
        except OSError as error:
            return {"failed": str(error)}
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()


class Results:
    def __init__(self, path):
        self.path = path
        self.data = json.loads(path.read_text()) if path and path.exists() else {"rows": []}

    def add(self, row):
        same = [n for n, old in enumerate(self.data["rows"])
                if all(old[key] == row[key] for key in ("model", "batch", "position"))]
        if same:
            self.data["rows"][same[0]] |= row
        else:
            self.data["rows"].append(row)
        if self.path:
            self.path.write_text(json.dumps(self.data, indent=1) + "\n")


def line_of(row):
    text = f"{row['model']:14} {row['batch']:3} {row['position']:6} floor {row.get('floor_ms', float('nan')):7.3f}"
    for mode in ("megakernel", "graph", "auto"):
        if mode in row:
            found = row[mode]
            text += f"  {mode} {found['ms']:.4f} ({found['ratio']:.2f})" if "ms" in found else f"  {mode} failed"
    if "torch" in row:
        found = row["torch"]
        best = min((row[mode]["ms"] for mode in ("megakernel", "graph", "auto") if "ms" in row.get(mode, {})),
                   default=float("nan"))
        text += f"  torch {found['ms']:.4f} ({found['ms'] / best:.2f} x)" if "ms" in found else "  torch failed"
    return text


def measure(options, model, batch, capacity, peer, results):
    """One model and batch at all positions; whether something failed."""
    of_run = {"date": options.date, "command": options.command}
    rows = {position: {"model": model, "batch": batch, "position": position} for position in options.positions}
    for mode in options.modes:
        found, general = strata_rows(options, model, batch, mode, capacity)
        for position, row in rows.items():
            row[mode] = found.get(position, general) | of_run | {"version": options.version}
            row["floor_ms"] = row[mode].get("floor_ms", row.get("floor_ms", float("nan")))
    for position, row in rows.items():
        if peer:
            about = {"version": peer.about.get("torch"), "device": peer.about.get("ready")}
            row["torch"] = peer.row(batch, position) | about | of_run
        results.add(row)
        print(line_of(row), flush=True)
    return any("failed" in value for row in rows.values() for value in row.values() if isinstance(value, dict))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--positions", nargs="+", type=int, default=[64, 576, 4096])
    parser.add_argument("--modes", nargs="+", choices=("megakernel", "graph", "auto"), default=["megakernel"])
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--compile-mode", default="max-autotune-no-cudagraphs", help="of torch.compile")
    parser.add_argument("--limit-seconds", type=float, default=1e9, help="no row begins later")
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    options.date = datetime.date.today().isoformat()
    begin = time.monotonic()
    capacity = (max(options.positions) + STEPS + UNIT) // UNIT * UNIT
    results = Results(options.results)
    version = subprocess.run([options.strata, "--version"], capture_output=True, text=True, check=True)
    options.version = version.stdout.strip()
    options.command = " ".join(["decode.py", "STRATA", *sys.argv[2:]])
    results.data["what"] = ("ms a step: medians of 7 launches of 50 steps; floor: weights and cache over "
                            "read_bandwidth; random weights")
    subprocess.run([options.strata, "calibrate"], check=True, timeout=LONGEST, stdout=subprocess.DEVNULL)
    failed, left_out = False, []
    for model in options.models:
        peer = None
        for batch in options.batches:
            if time.monotonic() - begin > options.limit_seconds:
                left_out.append(f"{model} with a batch of {batch}")
                continue
            if peer is None and not options.no_peer:
                peer = Peer(model, capacity, options.compile_mode)
            failed |= measure(options, model, batch, capacity, peer, results)
        if peer:
            peer.end()
    if left_out:
        print("not run, for --limit-seconds: " + ", ".join(left_out))
    return 1 if failed else 2 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
