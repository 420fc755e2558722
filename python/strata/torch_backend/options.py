"""Options of the backend."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

MODES = ("auto", "kernels", "megakernel")
_MODES_OF_INDUCTOR = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
EFFORTS = ("none", "quick", "full")
# Seconds of search for each graph where search_budget is not given.
SECONDS = {"none": 0.0, "quick": 20.0, "full": 120.0}


@dataclass(frozen=True)
class Options:
    """Options of torch.compile(model, backend="strata", options={...}).

    mode           "auto" or "kernels": kernels for each graph. "megakernel": graphs that are a step of a dense decoder
                   of the Qwen3 or Llama-3 family, one token a sequence with a static cache, as one persistent kernel
                   with weights of its own; others by kernels, with a line of the log that says why.
    effort         "none": no search; "quick": 20 s of search on a GPU for each graph; "full": 120 s. Where it is not
                   given: "quick" on a GPU, for a function with all its recompilations together; "none" on the host,
                   where nothing is ever searched. Graphs without products of matrices take no time, nor does what
                   the cache of results knows.
    search_budget  seconds of search for each graph, in place of effort's.
    max_sizes      how many combinations of sizes a graph with symbolic sizes is compiled for; others run in torch.
    """

    mode: str = "auto"
    effort: str | None = None
    search_budget: float | None = None
    max_sizes: int = 8

    @property
    def chooses_effort(self) -> bool:
        """Whether the user has said how long to search."""
        return self.effort is not None or self.search_budget is not None

    def search_seconds(self, device: str) -> float:
        """Of a graph on a device of this type, "cuda" or "cpu"."""
        if device != "cuda":
            return 0.0
        return SECONDS[self.effort or "quick"] if self.search_budget is None else float(self.search_budget)


def read_options(given: dict[str, Any] | None, mode: str | None = None) -> Options:
    """Options from what torch.compile hands on. Raises ValueError for what is not known."""
    given = dict(given or {})
    if mode is not None:
        given.setdefault("mode", mode)
    known = [field.name for field in fields(Options)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"backend 'strata' has no option {unknown[0]!r}; it has {', '.join(known)}")
    options = Options(**given)
    if options.mode in _MODES_OF_INDUCTOR:
        raise ValueError(f"backend 'strata': mode={options.mode!r} is one of inductor's; leave mode out, and for a "
                         "longer search give options={'effort': 'full'} in its place")
    for name, value, choices in (("mode", options.mode, MODES), ("effort", options.effort, EFFORTS)):
        if value not in choices and not (name == "effort" and value is None):
            raise ValueError(f"backend 'strata': {name}={value!r} is not one of {', '.join(map(repr, choices))}")
    budget = options.search_budget
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget):
        raise ValueError(f"backend 'strata': search_budget={budget!r} is not a number of seconds")
    if isinstance(options.max_sizes, bool) or not isinstance(options.max_sizes, int) or options.max_sizes < 0:
        raise ValueError(f"backend 'strata': max_sizes={options.max_sizes!r} is not a number of combinations of sizes")
    return options
