"""python -m strata doctor | ops."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from typing import NoReturn

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


#: Commands of the executable, which is no part of the package, and what Python has in place of each.
_OF_EXECUTABLE = {
    "optimize": "strata.optimize", "emit": "strata.compile_hlo", "run": "strata.load and strata.compile_hlo",
    "decode": "strata.Decoder", "show": "print(strata.Graph.from_text(text))", "verify": "", "merge": "", "machine": "",
    "calibrate": "", "bench": "", "explain": "Kernel.report", "completions": "",
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """As the executable does: what is wrong, and what to do, with exit code 2."""
        word = next((one for one in self._given if not one.startswith("-")), None)
        remedy = f"`{self.prog} --help` lists what it takes"
        if word in _OF_EXECUTABLE:
            message = f"'{word}' is a command of the executable, which is no part of the Python package"
            remedy = "build it in a checkout by `make`"
            remedy += f"; in Python {_OF_EXECUTABLE[word]} does this" if _OF_EXECUTABLE[word] else ""
        self.exit(2, f"error: {message}\n  {remedy}\n")

    def parse_args(self, args: list[str]) -> argparse.Namespace:
        self._given = args
        return super().parse_args(args)


def _show(name: str, what: str, missing: str, path: str, enables: str) -> None:
    print(f"{name:<10} {what}")
    for line in [*missing.splitlines(), path, f"for {enables}" if enables else ""]:
        if line:
            print(f"{'':<10} {line}")


def main(arguments: list[str] | None = None) -> int:
    parser = _Parser(prog="strata", description="Strata's Python package.")
    parser.add_argument("--version", action="version", version=f"strata {importlib.metadata.version('strata')}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=argparse.ArgumentParser)
    for command in (doctor, ops):
        text = (command.__doc__ or "").strip()
        commands.add_parser(command.__name__, help=text, description=text).set_defaults(run=command)
    try:
        status = parser.parse_args(sys.argv[1:] if arguments is None else arguments).run()
        sys.stdout.flush()
    except BrokenPipeError:  # as of `| head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes there at exit
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
