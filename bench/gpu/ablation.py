#!/usr/bin/env python3
"""What each pass saves (Mirage, Figure 12): ablation.py PROGRAM.strata [--strata PATH] [--results DIR].

On a machine with a GPU: `strata optimize --profile on` with all passes, then with each pass of src/superopt/codegen/passes.h
turned off. Prints the fastest measured time of each, cold, and writes DIR/DEVICE-DATE-ablation-PROGRAM.json.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import tempfile

# The memory plan places what does not stay in registers.
PASSES = ["thread-graphs", "finer-loops", "epilogues", "registers", "registers memory-plan", "layouts", "schedules", "spreading",
          "overlap", "bulk", "merging", "libraries", "grouping"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("bench/results"))
    parser.add_argument("--time-limit", type=float, default=10, help="seconds before measuring")
    parser.add_argument("--profile-seconds", type=float, default=8)
    arguments = parser.parse_args()
    rows, device = [], ""
    with tempfile.TemporaryDirectory() as folder:
        for off in [None, *PASSES]:
            command = [arguments.strata, "optimize", str(arguments.program), "--profile", "on", "--cache",
                       f"{folder}/cache", "-o", f"{folder}/out", "--time-limit",
                       str(arguments.time_limit + arguments.profile_seconds), "--profile-seconds",
                       str(arguments.profile_seconds)]
            for name in (off or "").split():
                command += ["--disable-pass", name]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            profile = json.loads(pathlib.Path(folder, "out", "report.json").read_text())["profile"]
            device = profile["device"]
            chosen = next(r for r in profile["rows"] if r.get("chosen"))
            rows.append({"off": off, "cold_us": chosen["cold_us"], "hot_us": chosen["hot_us"],
                         "schedule": chosen["schedule"], "error": chosen["error"]})
            print(f"{off or 'all passes on':<22} {chosen['cold_us']:8.2f} {chosen['hot_us']:8.2f} "
                  f"{chosen['cold_us'] / rows[0]['cold_us']:6.2f}x  {chosen['schedule']}", flush=True)
    date = datetime.date.today().isoformat()
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"{device.replace(' ', '-').lower()}-{date}-ablation-{arguments.program.stem}.json"
    path.write_text(json.dumps({"device": device, "date": date, "command": "bench/gpu/ablation.py",
                                "program": arguments.program.name, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
