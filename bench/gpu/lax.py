#!/usr/bin/env python3
"""Times modules as JAX prints them with and without the superoptimizer's steps, and compares both with float64.

usage: lax.py STRATA FOLDER [--search-seconds N] [--cache DIR] [--device gpu|cpu] [--results FILE.json]

FOLDER has the modules: tests/data/lax/make.py FOLDER real. Times are those of `strata run --profile`, of all steps as a
replayed CUDA graph, microseconds; arrays stay in the caches that hold them. On the CPU there are errors alone. Errors are
relative, in the Frobenius norm.
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def normed(x, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def attention(q, k, v, mask=None):
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    return softmax(scores if mask is None else np.where(mask, scores, -np.inf)) @ v


def by_head(function):
    def swapped(*arrays):
        return function(*(a.swapaxes(1, 2) for a in arrays)).swapaxes(1, 2)
    return swapped


def gqa_decode(q, k, v):
    batch, heads, size = q.shape
    return attention(q.reshape(batch, k.shape[1], heads // k.shape[1], size), k, v).reshape(q.shape)


def causal(q, k, v):
    return attention(q, k, v, np.tril(np.ones((q.shape[2], q.shape[2]), bool)))


def gated_mlp(x, gate, up):
    product = x @ gate
    return product / (1 + np.exp(-product)) * (x @ up)


EXACT = {"attention": (attention, "qkv"), "attention_bthd": (by_head(attention), "qkv"), "causal": (causal, "qkv"),
         "qknorm": (lambda q, k, v: attention(normed(q, 1e-6), normed(k, 1e-6), v), "qkv"),
         "gqa_decode": (gqa_decode, "qkv"), "rmsnorm": (lambda x, g, w: (normed(x, 1e-5) * g) @ w, "xgw"),
         "rmsnorm_plain": (lambda x, w: normed(x, 1e-5) @ w, "xw"),
         "gated_mlp": (gated_mlp, ("x", "gate", "up")), "lora": (lambda x, w, a, b: x @ w + (x @ a) @ b, "xwab")}


def error_of(name, folder):
    function, parameters = EXACT[name]
    arrays = [np.load(folder / f"{p}.1.npy").astype(np.float64) for p in parameters]
    files = [f for f in folder.glob("*.npy") if f.stem.split(".")[0] not in parameters]
    found, exact = np.load(files[0]).astype(np.float64), function(*arrays)
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def run(options, path, seconds):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.strata, "run", str(path), "--device", options.device, "--search-seconds", str(seconds),
                   "--output", folder, "--with-inputs"]
        command += ["--profile"] if options.device == "gpu" else []
        command += ["--cache", options.cache] if options.cache else ["--no-cache"]
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return {"failed": done.stderr.strip()[-300:]}
        time_of = re.search(r"([0-9.]+) µs  all, as a CUDA graph", done.stdout)
        return {"microseconds": float(time_of[1]) if time_of else None, "seconds": round(time.monotonic() - started, 1),
                "error": error_of(path.stem.rsplit("_", 1)[0], pathlib.Path(folder)),
                "steps": re.findall(r" µs  (\S+)  superoptimizer", done.stdout),
                "notes": [line for line in done.stderr.splitlines() if line.startswith("not superoptimized")]}


def cell(one, key, form):
    value = one.get(key)
    return "-" if value is None else format(value, form)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--search-seconds", type=float, default=5)
    parser.add_argument("--cache")
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    print(f"{'module':22} {'without µs':>10} {'error':>8} {'with µs':>8} {'error':>8} {'seconds':>8}")
    for path in sorted(options.folder.glob("*.hlo")):
        without, with_ = run(options, path, 0), run(options, path, options.search_seconds)
        results[path.stem] = {"without": without, "with": with_}
        print(f"{path.stem:22} {cell(without, 'microseconds', '.2f'):>10} {cell(without, 'error', '.1e'):>8} "
              f"{cell(with_, 'microseconds', '.2f'):>8} {cell(with_, 'error', '.1e'):>8} "
              f"{cell(with_, 'seconds', '.1f'):>8}  {without.get('failed', '')}{with_.get('failed', '')}", flush=True)
        for note in with_.get("notes", []):
            print("    " + note)
    if options.results:
        options.results.write_text(json.dumps({"date": datetime.date.today().isoformat(), "modules": results}, indent=1)
                                   + "\n", encoding="utf-8")
    sys.exit(any("failed" in one for both in results.values() for one in both.values()))


if __name__ == "__main__":
    main()
