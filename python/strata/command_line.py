"""The command line of the executable `strata`, in Python's process."""

from __future__ import annotations

import os
import sys

from strata import _core

#: Packages that strata is used with, and what for: where there are emitters, and always.
_USES = {"torch": ('torch.compile(backend="strata")', "tensors"), "jax": ("strata.jax", "arrays"), "cupy": ("", "arrays"),
         "numpy": ("", "arrays on the host"), "ml_dtypes": ("", "bf16 and 8-bit types in NumPy")}  # fmt: skip


def run(words: list[str]) -> int:
    """Runs a command with the process's own standard streams and signals, as the executable does; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # it was closed
            stream.flush()
    return _core.run_command([os.fsencode(word) for word in words], command(), _findings)


def command() -> list[str]:
    """The words that start the command line in another process: a faulty kernel may take down that which measures."""
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = f"import sys; sys.path[0] = {above!r}; from strata.__main__ import main; sys.exit(main())"
    return [sys.executable, "-c", code]


def _findings() -> list[tuple[str, str, str, str, str]]:
    """Python and its packages: name, version, path, why it is missing, what it is for."""
    import importlib.metadata  # not by who imports strata: it takes a while

    found = [("Python", sys.version.split()[0], sys.executable, "", "")]
    for package, (of_emitters, always) in _USES.items():
        use = f"{of_emitters}; {always}" if of_emitters and _core.has_emitters else always
        try:
            found.append((package, importlib.metadata.version(package), "", "", use))
        except importlib.metadata.PackageNotFoundError:
            found.append((package, "", "", f"pip install {package}", use))
    return found
