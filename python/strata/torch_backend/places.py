"""Where in the user's code a node of a graph comes from, and the lines of the log that say so."""

from __future__ import annotations

import logging
import os
import re

import torch

log = logging.getLogger("strata")

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n?(?P<code>[^\n]*)')


def place(node: torch.fx.Node) -> str:
    """file.py:12, in forward: `y = torch.fft.rfft(x)`; empty where torch does not know."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or node.stack_trace or ""))
    if not frames:
        return ""
    frame = frames[-1]
    code = frame["code"].strip()
    where = f"{os.path.basename(frame['file'])}:{frame['line']}, in {frame['function']}"
    return where + (f": `{code}`" if code else "")


def report_fallbacks(reasons: dict[torch.fx.Node, str]) -> None:
    """One line for each operator, reason and place, the first of them in the graph."""
    seen = set()
    for node, reason in reasons.items():
        where = place(node)
        if (key := (node.target, reason, where)) in seen:
            continue
        seen.add(key)
        FALLBACKS.append((str(node.target), reason, where))
        log.warning("%s runs in torch: %s%s", node.target, reason, f" ({where})" if where else "")


# What ran in torch since the process began, or since the list was cleared: (operator, reason, place).
FALLBACKS: list[tuple[str, str, str]] = []
