#!/usr/bin/env python3
"""Runs the "# RUN:" or "// RUN:" lines of a test. Usage: run.py STRATA FILECHECK ROOT TEST

In a command, %strata is the program, %s the test itself, %root the repository and %t an empty folder.
FileCheck is looked up as FileCheck.
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile


def main():
    strata, filecheck, root, test = sys.argv[1:]
    commands = [line.split("RUN:", 1)[1].strip()
                for line in pathlib.Path(test).read_text(encoding="utf-8").splitlines() if line.startswith(("# RUN:", "// RUN:"))]
    if not commands:
        sys.exit(f"{test}: no RUN line")  # an empty test would always pass
    with tempfile.TemporaryDirectory() as scratch:
        values = {"%strata": strata, "FileCheck": filecheck, "%root": root, "%s": test, "%t": scratch}
        # Results of earlier runs, in the user's cache, would hide what this one does.
        environment = {**os.environ, "XDG_CACHE_HOME": str(pathlib.Path(scratch, "cache"))}
        for command in commands:
            script = command
            # %strata before %s, which is its beginning.
            for name, value in values.items():
                script = script.replace(name, shlex.quote(value))
            # Programs are named relative to the root, so that messages are the same wherever the checkout lies.
            result = subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=root, env=environment, check=False)
            if result.returncode != 0:
                sys.exit(f"{test}: exit code {result.returncode} of: {command}")


if __name__ == "__main__":
    main()
