#!/usr/bin/env python3
"""Times the cold compilation of the modules of modules.py by Strata and by XLA, in processor time and in wall time.

usage: compile_times.py STRATA --hlo FOLDER [--only SUBSTRING,...] [--no-xla] [--runs N] [--ptx]
                        [--results FILE.json] [--before FILE.json]

No GPU is needed. Strata's time is that of a process: `strata emit --no-cache --output` (cubins; --ptx: to PTX, without
the assembler), its start included. XLA's is compile() of the lowered module in this process, without a persistent
cache; without a GPU it is XLA:CPU's, which makes code for another processor. Processor seconds are those of all
threads, user and system. Other work on the machine counts in wall time, and less in processor time. Each number is
the least of the runs. FOLDER holds the texts; those that are missing are lowered first, for the platform of this
machine. --before puts the processor seconds of an earlier results file beside these.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import types

SHOWN = 20


def strata_seconds(options, path):
    """Processor and wall seconds of a process, or None and why not."""
    with tempfile.TemporaryDirectory() as folder:
        command = [options.strata, "emit", str(path), "--no-cache"]
        command += ["--emit=ptx", "-o", f"{folder}/code.ptx"] if options.ptx else ["--output", f"{folder}/code"]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or "PTX in place of cubins" in done.stderr:
        return None, (done.stderr.strip().splitlines() or ["nothing said"])[0][:200]
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall), None


def xla_seconds(xla):
    import jax
    jax.clear_caches()
    jax.config.update("jax_enable_compilation_cache", False)
    lowered = xla.jitted.lower(*xla.shapes)
    before, started = time.process_time(), time.perf_counter()
    lowered.compile()
    return time.process_time() - before, time.perf_counter() - started


def start_xla():
    """What a process pays once is no module's time, as the compiler stays loaded."""
    import jax
    jax.jit(lambda x: x * 2 + 1)(1.0)


def least(pairs):
    return [min(each) for each in zip(*pairs)]


def measure(options, name, module):
    one = {}
    path = options.hlo / f"{name}.hlo"
    if options.xla or not path.exists():
        from modules import OfXla
        xla = OfXla(name, module, types.SimpleNamespace(lowered_for=None, small=False, tf32=False))
        if not path.exists():
            path.write_text(xla.text(), encoding="utf-8")
        if options.xla:
            one["xla_cpu_s"], one["xla_wall_s"] = least([xla_seconds(xla) for _ in range(options.runs)])
    times = []
    for _ in range(options.runs):
        pair, why = strata_seconds(options, path)
        if pair is None:
            return {**one, "status": why}
        times.append(pair)
    one["strata_cpu_s"], one["strata_wall_s"] = least(times)
    return {**one, "status": "ok"}


def report(results, before):
    rows = {name: one for name, one in results.items() if one["status"] == "ok"}
    for name, one in results.items():
        if one["status"] != "ok":
            print(f"{name}: {one['status']}")
    keys = ["strata_cpu_s", "strata_wall_s"] + (["xla_cpu_s", "xla_wall_s"] if any("xla_cpu_s" in one for one in rows.values()) else [])
    old = {name: before[name]["strata_cpu_s"] for name in rows if before.get(name, {}).get("status") == "ok"}
    print("sum of", len(rows), *(f"{key} {sum(one.get(key, 0) for one in rows.values()):.2f}" for key in keys),
          *([f"before {sum(old.values()):.2f} ({len(old)})"] if old else []))
    if "xla_cpu_s" in keys:
        slower = {of: sum(one[f"strata_{of}_s"] > one[f"xla_{of}_s"] for one in rows.values()) for of in ("cpu", "wall")}
        print(f"slower than XLA: {slower['cpu']} in processor time, {slower['wall']} in wall time")
    def key_of(name):
        return rows[name]["strata_cpu_s"] - rows[name].get("xla_cpu_s", 0)
    for name in sorted(rows, key=key_of, reverse=True)[:SHOWN]:
        print(f"{name:32}", *(f"{rows[name][key]:8.2f}" for key in keys), *([f"{old[name]:8.2f}"] if name in old else []))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--hlo", type=pathlib.Path, required=True, help="folder of the modules' texts")
    parser.add_argument("--only", default="", help="modules whose name or family has one of these parts")
    parser.add_argument("--no-xla", dest="xla", action="store_false")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--ptx", action="store_true")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    options.hlo.mkdir(parents=True, exist_ok=True)
    from modules import all_modules
    if options.xla:
        start_xla()
    results = {}
    for name, module in all_modules().items():
        if any(one in name or one == module.family for one in options.only.split(",")):
            results[name] = measure(options, name, module)
            if options.results:
                options.results.write_text(json.dumps({"command": sys.argv[1:], "modules": results}, indent=1) + "\n",
                                           encoding="utf-8")
    before = json.loads(options.before.read_text(encoding="utf-8"))["modules"] if options.before else {}
    report(results, before)


if __name__ == "__main__":
    main()
