#!/usr/bin/env python3
"""Prompts by `strata decode`, token by token and several positions at a time: prompts.py STRATA [--results FILE]

For each model, number of sequences and mode: seconds that the prompts took but for their last tokens, for each number
of rows, the median of some runs, and whether the tokens that follow are the same. What is compiled for the first run
is in the cache for the others, and in no figure. Tokens of random weights may differ from a tie on, since products of
more rows add in another order; the first place where they do is printed."""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys


def run(options, model, batch, mode, rows):
    length = options.length
    prompts = [word for s in range(batch)
               for word in ("--prompt-ids", ",".join(str((n * 37 + s * 101 + 3) % 30000) for n in range(length)))]
    command = [options.strata, "decode", "--config", model, "--mode", mode, *prompts, "--tokens", "16", "--ignore-eos",
               "--prompt-rows", str(rows), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"failed": " ".join(done.stderr.split())[-400:]}
    return json.loads(done.stdout) | {"notes": done.stderr}


def row_of(options, model, batch, mode):
    row = {"model": model, "batch": batch, "mode": mode, "prompt": options.length, "rows": {}}
    tokens = None
    for rows in options.rows:
        runs = [run(options, model, batch, mode, rows) for _ in range(options.runs)]
        failed = [one["failed"] for one in runs if "failed" in one]
        if failed:
            row["rows"][rows] = {"failed": failed[0]}
            continue
        tokens = tokens or runs[0]["tokens"]
        pairs = [(a, b) for one in runs for a, b in zip(one["tokens"], tokens)]
        differ = [n for a, b in pairs for n, (x, y) in enumerate(zip(a, b)) if x != y]
        row["device"] = runs[0]["device"]
        row["rows"][rows] = {"seconds": statistics.median(one["prompt_seconds"] for one in runs),
                             "positions": runs[0]["prompt_positions"], "first_difference": min(differ, default=None)}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--models", nargs="+", default=["qwen3-0.6b", "llama-3.2-1b", "qwen3-8b"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--modes", nargs="+", default=["megakernel", "graph"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 8, 16])
    parser.add_argument("--length", type=int, default=513)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    table = {"date": datetime.date.today().isoformat(), "what": " ".join(map(str, sys.argv[1:])), "rows": []}
    for model in options.models:
        for batch in options.batches:
            for mode in options.modes:
                row = row_of(options, model, batch, mode)
                table["rows"].append(row)
                print(json.dumps(row), flush=True)
                if options.results:
                    options.results.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
