"""The superoptimizer."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import os
import sys
import tempfile
import time
from typing import Callable, Mapping, Sequence, Union

from strata import _core, arguments
from strata._core import Error
from strata.command_line import command
from strata.graph import Graph
from strata.kernel import Kernel, summary_of
from strata.kernel_table import KernelTable, entry_name

#: Seconds of the search and of measuring by effort.
_EFFORTS = {"none": (0.0, 0.0), "quick": (10.0, 10.0), "full": (60.0, 60.0)}

Progress = Union[bool, Callable[[str], None]]


def _pasted(config: str | None) -> str:
    """The text of Kernel.config, of one that was pasted into a file: indented, between empty lines, with \\r\\n."""
    return inspect.cleandoc(config.replace("\r\n", "\n")) + "\n" if config else ""


def optimize(
    program: Graph | str,
    *,
    target: str = "auto",
    effort: str = "quick",
    search_seconds: float | None = None,
    progress: Progress = False,
    config: str | None = None,
    cache: str | None = None,
    sizes: Mapping[str, int | Sequence[int]] | None = None,
) -> Kernel | KernelTable:
    """Searches the fastest kernels that are proved to compute a program.

    program: a Graph, or a program's text.
    target: "sm_90a", "sm_80", or "auto": the architecture of the machine's GPU, sm_90a where there is none.
    effort: "none" compiles the program as it is; "quick" searches for at most 10 s, "full" for 60 s. Where the machine
        has a GPU of the target, candidates are measured for as long again.
    search_seconds: replaces the effort's time for both.
    progress: True prints a line to stderr that says what is being done; a function is called with each such line.
    config: what Kernel.config returned: nothing is searched, and that choice is proved and compiled again. Refused, by
        an Error that says why, where it is of another program or this version cannot read or make it.
    cache: the folder of the cache of results; None: ~/.cache/strata; "": none. A program that was searched before, for
        as long, comes from there in no time.

    sizes: of a program with dims, the sizes for which kernels are made, {"tokens": [1, 2, 4]}; of several dims all
        combinations, of others the declared size. One size is searched, and the others are made of its result, as
        far as that fits them. The result is a KernelTable, which dispatches.

    Ctrl-C ends the search with the best so far, within about two seconds; a second one raises KeyboardInterrupt. Raises
    Error where the program is wrong, with operator, tensor and place."""
    if effort not in _EFFORTS:
        raise Error(f"effort {effort!r} is none of {', '.join(map(repr, _EFFORTS))}\n  write one of them")
    seconds, measuring = _EFFORTS[effort]
    if search_seconds is not None:
        seconds = measuring = arguments.seconds("search_seconds", search_seconds)
    search = seconds > 0
    text = str(program) if isinstance(program, Graph) else arguments.text("the program", program)
    if isinstance(program, Graph) and not program.outputs:
        raise Error("the program has no output\n  name one by Graph.output")
    arguments.text("target", target)
    if config is not None and not arguments.text("config", config).strip():
        raise Error("config is an empty text\n  give what Kernel.config() returned, or leave it out to search")
    folder = arguments.cache_folder(cache)
    builder = program._builder if isinstance(program, Graph) else _core.Builder.read(text, "<program>")
    show = _printer(progress)

    def made(of: dict[str, int]) -> tuple[_core.OptimizeJob, Kernel, bool]:
        job = _core.OptimizeJob(text, "<program>", target, search, seconds if search else 60.0, measuring,
                                 _pasted(config),
                                folder, [*command(), "measure-worker"], of)  # fmt: skip
        interrupted = _watch(job, show)
        kernel = Kernel(dict(job.files), summary_of(job, ["interrupted: the best so far"] if interrupted else []))
        return job, kernel, interrupted

    if not builder.dims:
        if sizes:
            raise Error(f"sizes= names {', '.join(map(repr, sizes))}, and the program has no dims\n"
                        "  name sizes by Graph.dim, or by dim NAME = N in the text")  # fmt: skip
        return made({})[1]
    entries, kernels = [], []
    with contextlib.ExitStack() as ended:
        if not folder:  # without a cache, a table has one that ends with it: all entries are made of one search
            folder = ended.enter_context(tempfile.TemporaryDirectory(prefix="strata-sizes-"))
        for of in _combinations(dict(builder.dims), sizes or {}):
            job, kernel, interrupted = made(of)
            if all(dict(job.sizes) != known[0] for known in entries):
                entries.append((dict(job.sizes), entry_name(job.sizes), job.seconds, job.origin))
                kernels.append(kernel)
            if interrupted:
                break
    return KernelTable(_core.size_table_text(text, entries), kernels)


def _combinations(declared: dict[str, int], sizes: Mapping[str, int | Sequence[int]]) -> list[dict[str, int]]:
    """All sizes of a table; those near the declared ones, which are searched first, before others."""
    for name in sizes:
        if name not in declared:
            raise Error(f"sizes= names '{name}', which is no dim of the program\n  its dims are {', '.join(declared)}")
    choices = []
    for name, size in declared.items():
        given = sizes.get(name, size)
        found = arguments.sizes(f"the sizes of '{name}'", [given] if hasattr(given, "__index__") else given)
        if not found or min(found) < 1:
            raise Error(f"the sizes of '{name}' are {given}\n  give one or more, each at least 1")
        choices.append(sorted(set(found)))
    table = [dict(zip(declared, one)) for one in itertools.product(*choices)]
    return sorted(table, key=lambda of: sum(abs(math.log(of[name] / declared[name])) for name in declared))


def _watch(job: _core.OptimizeJob, show: Callable[[str, bool], None]) -> bool:
    """Waits for the end; whether Ctrl-C brought it about."""
    interrupted = False
    while True:
        try:
            ended = job.wait(0.1)
            show(job.progress, ended)
            if ended:
                return interrupted
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            job.stop()
            show("interrupted: finishing with the best so far", False)


def _printer(progress: Progress) -> Callable[[str, bool], None]:
    if callable(progress):
        last = [""]

        def call(line: str, ended: bool) -> None:
            if line and line != last[0]:
                last[0] = line
                progress(line)

        return call
    if not progress:
        return lambda line, ended: None
    start, terminal, next_line = time.monotonic(), sys.stderr.isatty(), [0.0]

    def show(line: str, ended: bool) -> None:
        now = time.monotonic() - start
        if terminal:
            end = "\n" if ended else ""
            print(f"\r{now:5.1f} s  {line}\x1b[K", end=end, file=sys.stderr, flush=True)
        elif line and (ended or now >= next_line[0]):
            next_line[0] = now + 5
            print(f"{now:5.1f} s  {line}", file=sys.stderr, flush=True)

    return show
