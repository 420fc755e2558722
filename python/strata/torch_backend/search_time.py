"""How long the modules of a graph are searched, and what is shown meanwhile."""

from __future__ import annotations

import contextlib
import sys
import time

from torch._guards import CompileContext

from .options import Options

#: Where nothing is left: too little to search anything, and what is in the cache is taken.
FROM_THE_CACHE = 1e-3
#: Searches that end sooner show nothing.
QUIET_SECONDS = 1.0

_Spent = list[float]  # its one element: seconds
_spent_by_frame: dict[tuple[int, str], _Spent] = {}


def _spent_of(kind: str) -> _Spent:
    """What Dynamo's current frame has spent, which all its compilations share. A frame's first one begins anew."""
    frame = CompileContext.current_compile_id()
    if frame is None or frame.frame_id is None:
        return [0.0]
    if frame.frame_compile_id == 0:
        _spent_by_frame[frame.frame_id, kind] = [0.0]
    return _spent_by_frame.setdefault((frame.frame_id, kind), [0.0])


class SearchTime:
    """The time of one graph ("forward", "backward" or "inference") of a frame. Made while Dynamo compiles the frame.

    Nobody waits for searches that nobody asked for at each compilation: without an effort of the user's, all
    compilations of the frame (other sizes, other guards) have the seconds of one graph together, and at most those of
    two. Later ones take what is in the cache. With one, each has its own."""

    def __init__(self, options: Options, kind: str):
        self._options = options
        self._spent = _spent_of(kind)

    def seconds(self, device: str, modules: int) -> float:
        """Of each of so many modules that have products, on a device of this type. The same graph always asks for the
        same, for the cache keeps what was decided in as much time."""
        budget = self._options.search_seconds(device)
        if not budget:
            return 0.0
        if not self._options.chooses_effort and self._spent[0] >= budget:
            return FROM_THE_CACHE
        return budget / max(modules, 1)

    def progress(self) -> "SearchProgress":
        return SearchProgress(self._spent)


class SearchProgress:
    """Is called with each line that compile_hlo says of its search, and '' where one ends. Shows them as one line on a
    terminal, and adds up the time."""

    def __init__(self, spent: _Spent):
        self._spent = spent
        self._begun: float | None = None  # the search that is running
        self._first: float | None = None
        self._shown = False

    def __call__(self, line: str) -> None:
        now = time.monotonic()
        if line and self._begun is None:
            self._begun = now
            self._first = now if self._first is None else self._first
        elif not line and self._begun is not None:
            self._spent[0] += now - self._begun
            self._begun = None
        if line and now - self._first >= QUIET_SECONDS and getattr(sys.stderr, "isatty", bool)():
            self._show(f"\rstrata: {now - self._first:4.1f} s  {line}\x1b[K")
            self._shown = True

    @staticmethod
    def _show(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that has gone does not end a compilation
            print(text, end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "SearchProgress":
        return self

    def __exit__(self, *_) -> None:
        self("")
        if self._shown:
            self._show("\r\x1b[K")
