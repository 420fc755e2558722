#!/usr/bin/env python3
"""install_test.py CMAKE CXX PYTHON BUILD SOURCE: installs the C++ package to a folder of its own, builds examples/cpp
against it as a user does, and runs what came out. Only the install tree is used: the examples are copied out of the
checkout."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def run(command, **options):
    """Its output. Fails, with all that was printed, where the command does."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def refused(command):
    """What it says when it fails as it should."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 1:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr


def expect(text, *parts):
    for part in parts:
        if part not in text:
            sys.exit(f"'{part}' is not in:\n{text}")


def main():
    cmake, compiler, python, build, source = sys.argv[1:]
    source = pathlib.Path(source)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "prefix"
        run([cmake, "--install", build, "--prefix", prefix, "--component", "cpp", "--strip"])
        headers = {file.name for file in (prefix / "include/strata").iterdir()}
        wanted = {file.name for file in (source / "include/strata").iterdir()}
        if headers != wanted:
            sys.exit(f"installed headers {sorted(headers)}, not {sorted(wanted)}")

        # What the library shows: its own names, and those of the C++ library that every program has.
        (library,) = (file for file in prefix.rglob("libstrata.so.*") if not file.is_symlink())
        symbols = run(["nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", library]).splitlines()
        for symbol in symbols:
            named = symbol.removeprefix("typeinfo for ").removeprefix("typeinfo name for ").removeprefix("vtable for ")
            if not named.startswith(("strata::v1::", "std::", "void std::", "operator", "__gnu")) \
                    and not any(known in named for known in ("std::", "__gnu_cxx")):
                sys.exit(f"the library shows '{symbol}'")

        shutil.copytree(source / "examples/cpp", folder / "project")
        run([cmake, "-S", folder / "project", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
             f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"])
        run([cmake, "--build", folder / "build", "--parallel", "2"])
        environment = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))
        expect(run([folder / "build/run_hlo"], env=environment), "x: f32[4,8]", "twice 31 is 62", "wrong.hlo:3:")
        kept = folder / "kept"
        printed = run([folder / "build/optimize_program", source / "programs/rmsnorm.strata", kept], env=environment)
        expect(printed, "1 kernel in place of 7 kernels", "random tests", "ran: 3 inputs, 1 results")
        # The installed command line reads what the library wrote.
        expect(run([prefix / "bin/strata", "show", kept / "best.strata"]), "graph rmsnorm")
        # So does the Python package, and the other way round.
        code = "import strata, sys; kernel = strata.load(sys.argv[1]); print(kernel.headline); kernel.save(sys.argv[2])"
        package = dict(environment, PYTHONPATH=str(pathlib.Path(build) / "python"))
        expect(run([python, "-c", code, kept, folder / "python"], env=package), "1 kernel in place of 7 kernels")
        expect(run([folder / "build/load_kernel", folder / "python"], env=environment), "graph rmsnorm")
        # Mistakes are errors with their place.
        wrong = folder / "wrong.strata"
        wrong.write_text("graph g {\n  input X: f16[4, 4]\n  Y = sqroot(X)\n  output Y\n}\n", encoding="utf-8")
        expect(refused([folder / "build/optimize_program", wrong, kept]), "wrong.strata:3:", "sqroot")
        expect(refused([folder / "build/load_kernel", folder / "project"]), "holds no kernel", "strata.json")
        (kept / "best.strata").write_text("graph", encoding="utf-8")
        expect(refused([folder / "build/load_kernel", kept]), "best.strata:1:")
    print("installed, built and ran")


if __name__ == "__main__":
    main()
