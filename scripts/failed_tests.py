#!/usr/bin/env python3
"""failed_tests.py PRESET...: what the tests said that failed in each preset's last run, so that a long log closes with
it. Nothing runs again: a test that fails now and then would say nothing the second time."""
import pathlib
import re
import sys

LINES = 12  # of each test's output: the last ones name what went wrong
COLUMNS = 160
ROOT = pathlib.Path(__file__).resolve().parent.parent


def outputs(log):
    """Name and output of each test of ctest's LastTest.log."""
    for section in re.split(r"^(?=\d+/\d+ Testing: )", log, flags=re.MULTILINE):
        named = re.match(r"\d+/\d+ Testing: (.*)", section)
        if named:
            said = section.partition("\nOutput:\n")[2].partition("\n<end of output>")[0]
            yield named[1], said


def main():
    for preset in sys.argv[1:]:
        folder = ROOT / "build" / preset / "Testing" / "Temporary"
        failed = folder / "LastTestsFailed.log"
        if not failed.is_file() or not failed.read_text().strip():
            continue
        names = [line.partition(":")[2] for line in failed.read_text().splitlines()]
        said = dict(outputs((folder / "LastTest.log").read_text(errors="replace")))
        for name in names:
            print(f"Failed in {preset}: {name}")
            show(said.get(name, "no output is kept"))
    python = ROOT / "build" / "python_tests.log"
    if python.is_file():
        failed = [line for line in python.read_text(errors="replace").splitlines() if re.match("FAILED|ERROR|E  ", line)]
        if failed:
            print("Failed in tests/python:")
            show("\n".join(failed))


def show(text):
    """The last lines, without those in which Google Test counts."""
    told = [line for line in text.splitlines() if line.strip() and not re.match(r"\[[-= A-Z]+\]| *\d+ FAILED TEST", line)]
    for line in told[-LINES:]:
        print(f"  {line[:COLUMNS]}")


if __name__ == "__main__":
    main()
