#!/usr/bin/env python3
"""Runs the model of the mega-kernel's protocol (src/megakernel/runtime/protocol.pml) through Spin.

usage: check.py MODEL protocol    every configuration holds, in all of its states
       check.py MODEL long        so do those that take long
       check.py MODEL mutants     every mutant of the protocol is refused, for the reason that is expected

Spin and a C compiler are needed: where one is missing the test fails.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MEGABYTES = 3500

PROTOCOL = [
    "-DPLAN=0 -DLAST=2",
    "-DPLAN=1 -DLAST=2",
    "-DPLAN=0 -DLAST=1 -DHANG",
    "-DPLAN=1 -DLAST=1 -DHANG",
]
# Ten million states each. That an abort ends all is also part of what follows a hang.
LONG = [
    "-DPLAN=0 -DLAST=1 -DABORT",
    "-DPLAN=1 -DLAST=1 -DABORT",
]

STUCK = "invalid end state"
WRONG = "assertion violated"

# What is changed, where, and what Spin must say of it.
MUTANTS = [
    ("DROPPED_RELEASE", "-DPLAN=0", STUCK),
    ("WRONG_PARITY", "-DPLAN=0", WRONG),
    ("SIGNAL_BEFORE_STORE", "-DPLAN=0", WRONG),
    ("SIGNAL_BEFORE_STORE", "-DPLAN=1", WRONG),
    ("EARLY_RELEASE", "-DPLAN=0", WRONG),
    ("TAG_NOT_WAITED", "-DPLAN=0", WRONG),
    ("STEP_NOT_WAITED", "-DPLAN=0", WRONG),
    ("JIT_AFTER_NEXT", "-DPLAN=1", STUCK),
    ("DROPPED_ABORT", "-DPLAN=0 -DLAST=1 -DABORT", STUCK),
    ("DROPPED_SIGNAL", "-DPLAN=0", STUCK),
    ("ABORT_IN_LIST", "-DPLAN=0 -DLAST=1 -DABORT", STUCK),
    ("NOT_MET", "-DPLAN=0", STUCK),
]


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check.py: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def search(model, options, compile_options=("-O1",)):
    """What Spin's verifier prints."""
    with tempfile.TemporaryDirectory() as folder:
        run(["spin", *options.split(), "-a", str(model)], folder)
        run(["cc", "-w", *compile_options, "-DSAFETY", f"-DMEMLIM={MEGABYTES}", "-o", "pan", "pan.c"], folder)
        return run(["./pan", "-m1000000"], folder)


def verdict(text):
    """"" if all states were seen and hold; else what is wrong."""
    found = re.search(r"pan:\d+: (\w+ \w+( \w+)?)", text)
    errors = re.search(r"errors: (\d+)", text)
    if errors is None:
        return "no result"
    if errors[1] != "0":
        return found[1] if found else "an error without a name"
    if re.search(r"max search depth too small|out of memory|memory limit|Search not completed", text):
        return "not all states were seen"
    return ""


def check_protocol(model, configurations, *compile_options):
    failed = False
    for options in configurations:
        text = search(model, options, ("-O1", *compile_options))
        wrong = verdict(text)
        states = re.search(r"(\d+) states, stored", text)
        print(f"{options}: {wrong or 'holds'}, {states[1] if states else '?'} states", flush=True)
        failed |= wrong != ""
    return failed


def check_mutants(model):
    numbers = dict(re.findall(r"#define ([A-Z_]+) (\d+) +/\*", model.read_text(encoding="utf-8")))
    failed = {name for name in numbers if name not in {mutant for mutant, _, _ in MUTANTS}}
    for name in failed:
        print(f"{name}: nobody runs it")
    for name, options, expected in MUTANTS:
        # It is found soon: to compile faster is to be faster.
        wrong = verdict(search(model, f"-DMUTANT={numbers[name]} {options}", ("-O0",)))
        good = wrong.startswith(expected)
        print(f"{name} {options}: {wrong or 'holds'}{'' if good else ', expected: ' + expected}", flush=True)
        if not good:
            failed.add(name)
    return bool(failed)


def main(arguments):
    if len(arguments) != 2 or arguments[1] not in ("protocol", "long", "mutants"):
        print(__doc__, file=sys.stderr)
        return 2
    for tool in ("spin", "cc"):
        if shutil.which(tool) is None:
            print(f"check.py: {tool} is missing; `make install` installs it", file=sys.stderr)
            return 1
    model = pathlib.Path(arguments[0]).resolve()
    if arguments[1] == "mutants":
        return 1 if check_mutants(model) else 0
    if arguments[1] == "protocol":
        return 1 if check_protocol(model, PROTOCOL) else 0
    # Packed states take twice the time, and a third of the memory.
    return 1 if check_protocol(model, LONG, "-DCOLLAPSE") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
