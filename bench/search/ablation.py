#!/usr/bin/env python3
"""Mirage's Table 5 for Strata: RMSNorm with at most 5 … 11 block operators, with all rules, on one thread, and with rules
off; then the six programs at the paper's limits (5 kernel and 11 block operators).

    python bench/search/ablation.py --limit 30 --results bench/results/search.json

Seconds are those of the search, as it reports them; a row that its limit ended says so. Needs no GPU.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VARIANTS = [
    ("all rules", 2, []),
    ("one thread", 1, []),
    ("no axes", 2, ["axes"]),
    ("no abstract expressions", 2, ["expression"]),
]
PROGRAMS = ["rmsnorm", "gqa", "qknorm", "lora", "gated_mlp", "ntrans"]


def optimize(strata, program, threads, limit, block_ops, disabled):
    with tempfile.TemporaryDirectory() as folder:
        command = [strata, "optimize", ROOT / f"programs/{program}.strata", "--target", "sm_90a", "--no-cache", "--json",
                   "--threads", threads, "--time-limit", limit, "--max-block-ops", block_ops, "--candidates", 1,
                   "-o", folder]
        for rule in disabled:
            command += ["--disable-rule", rule]
        start = datetime.datetime.now()
        printed = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
        whole = (datetime.datetime.now() - start).total_seconds()
    report = json.loads(printed)
    row = {"program": program, "threads": threads, "max_block_ops": block_ops, "disabled": disabled, "limit": limit,
           "command_seconds": round(whole, 2), "kernels": report["best"]["kernels"]}
    row.update(report["search"])
    return row


def line(row):
    ended = f"{row['seconds']:8.2f}" if row["stop_reason"] == "exhausted" else f"> {row['seconds']:6.1f}"
    pruned = " ".join(f"{name[7:]} {row[name]}" for name in row if name.startswith("pruned_"))
    return (f"{row['program']:10} {row['max_block_ops']:3} ops {row['threads']} threads {','.join(row['disabled']) or '-':12}"
            f" {ended} s  {row['generated']:>10} tried  {row['spaces_searched']}/{row['spaces_total']} spaces  {pruned}")


def processor():
    for text in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=ROOT / "build/release/bin/strata")
    parser.add_argument("--limit", type=float, default=60, help="seconds a row")
    parser.add_argument("--results", help="a JSON file to write")
    arguments = parser.parse_args()
    rows = []

    def run(*row):
        rows.append(optimize(arguments.strata, *row))
        print(line(rows[-1]), flush=True)

    for block_ops in range(5, 12):
        for _, threads, disabled in VARIANTS:
            run("rmsnorm", threads, arguments.limit, block_ops, disabled)
    for program in PROGRAMS:
        for threads in (2, 1):
            run(program, threads, 60, 11, [])
    if arguments.results:
        machine = {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()}
        document = {"date": datetime.date.today().isoformat(), "machine": machine,
                    "command": "bench/search/ablation.py --limit %g" % arguments.limit, "rows": rows}
        pathlib.Path(arguments.results).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
