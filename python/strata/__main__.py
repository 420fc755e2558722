"""python -m strata doctor | ops."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys

from strata import _core


def doctor() -> int:
    """Prints what of this machine Strata can use, and what each part is for."""
    for name, version, path, missing, enables in _core.examine_machine():
        _show(name, version or "missing", missing, path, enables)
    _show("Python", f"{sys.version.split()[0]}", "", sys.executable, "")
    uses = {"torch": 'torch.compile(backend="strata"); tensors', "jax": "strata.jax; arrays", "cupy": "arrays",
            "numpy": "arrays on the host", "ml_dtypes": "bf16 and 8-bit types in NumPy"}  # fmt: skip
    for package, use in uses.items():
        try:
            _show(package, importlib.metadata.version(package), "", "", use)
        except importlib.metadata.PackageNotFoundError:
            _show(package, "missing", f"pip install {package}", "", use)
    return 0


def ops() -> int:
    """Prints the operators that programs are made of."""
    for name, arity, attributes, meaning in _core.operators():
        takes = ["2 or more" if arity < 0 else str(arity)]
        takes += [f"{attribute}{'' if required else '?'}=" for attribute, required, _ in attributes]
        print(f"{name:<14} {', '.join(takes):<28} {meaning}")
    return 0


def _show(name: str, what: str, missing: str, path: str, enables: str) -> None:
    print(f"{name:<10} {what}")
    for line in [*missing.splitlines(), path, f"for {enables}" if enables else ""]:
        if line:
            print(f"{'':<10} {line}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="strata", description="Strata's Python package.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (doctor, ops):
        text = (command.__doc__ or "").strip()
        commands.add_parser(command.__name__, help=text, description=text).set_defaults(run=command)
    try:
        status = parser.parse_args(arguments).run()
        sys.stdout.flush()
    except BrokenPipeError:  # as of `| head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes there at exit
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
