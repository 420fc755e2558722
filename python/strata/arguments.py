"""Checks of arguments whose mistakes would otherwise be the extension's to explain."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from strata import _core
from strata._core import Error

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def need_emitters(what: str) -> None:
    """Raises Error where the package is strata-core, which is built without them."""
    if not _core.has_emitters:
        raise Error(f"{what} needs the emitters, which the package strata-core does not have\n"
                    "  install the package strata in its place: pip uninstall strata-core, then pip install strata-*.whl")


def users_frame() -> Any:
    """The innermost frame of Python that is not this package's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame


def at_the_users_line(message: str) -> Error:
    """An Error whose message begins with the line in the user's file."""
    frame = users_frame()
    return Error(f"{frame.f_code.co_filename}:{frame.f_lineno}: {message}")


def text(what: str, value: Any) -> str:
    """A str. Raises Error that names the argument."""
    if not isinstance(value, str):
        raise Error(f"{what} is {type(value).__name__}, not a str\n  give its text")
    return value


def name(what: str, value: Any) -> str:
    """A name of the text format: letters, digits and underscores. Raises Error."""
    if not _NAME.fullmatch(text(what, value)):
        raise Error(f"{what} {value!r} is no name\n  use letters, digits and underscores, and begin with no digit")
    return value


def sizes(what: str, value: Any) -> list[int]:
    """The sizes of a shape, whole numbers below 2**63. Raises Error."""
    try:
        found = [operator.index(one) for one in value]
    except TypeError:
        raise Error(f"{what} {value!r} is no sequence of whole numbers\n  write a tuple, such as (16, 1024)") from None
    if any(not 0 <= one < 2**63 for one in found):
        raise Error(f"{what} {value!r} has a size that no tensor can have\n  sizes are at least 1")
    return found


def seconds(what: str, value: Any) -> float:
    """A time from 0 on. Raises Error."""
    if isinstance(value, str) or not isinstance(value, (int, float)) and not hasattr(value, "__float__"):
        raise Error(f"{what} is {type(value).__name__}, not a number of seconds\n  give an int or a float, such as 2.5")
    found = float(value)
    if not 0 <= found < math.inf:
        raise Error(f"{what} is {found}\n  give seconds from 0 on; 0 searches nothing")
    return found


def cache_folder(value: Any) -> str:
    """The folder of the cache: the default one where it is None. Raises Error."""
    if value is None:
        return _core.default_cache_folder()
    if not isinstance(value, (str, os.PathLike)):
        raise Error(f'cache is {type(value).__name__}\n  give a folder, "" for none, or None for the default one')
    return os.fspath(value)


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """Raises Error for what the system refuses while a file or a folder is written."""
    try:
        yield
    except OSError as error:
        refused = error.filename if error.filename is not None else path
        raise Error(
            f"cannot write '{os.fspath(refused)}': {error.strerror or error}\n"
            "  name a place that you may write to, with room; a folder cannot have the name of a file"
        ) from error
