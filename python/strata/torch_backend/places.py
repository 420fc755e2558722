"""Where in the user's code a node of a graph comes from, and the lines of the log that say so."""

from __future__ import annotations

import logging
import os
import re

import torch

log = logging.getLogger("strata")

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n?(?P<code>[^\n]*)')
_PATH = re.compile(r"^L\['\w+'\]|\b_modules\b|\._orig_mod\b")  # how dynamo names the model itself, and its tables
_TORCH = os.path.realpath(os.path.dirname(torch.__file__)) + os.sep


def place(node: torch.fx.Node) -> str:
    """Where the user's code calls for a node, and the module of torch's that it calls it by:

        model.py:12, in forward: `y = self.pool(x)`, of pool (AdaptiveMaxPool2d)

    The innermost line outside of torch's own files. Where there is none, as when a module of torch is compiled itself,
    the module alone. Empty where torch does not know.
    """
    trace = node.meta.get("stack_trace") or node.stack_trace or ""
    frames = [f for f in _FRAME.finditer(trace) if not os.path.realpath(f["file"]).startswith(_TORCH)]
    module = _module(node)
    if not frames:
        return module
    frame = frames[-1]
    code = frame["code"].strip()
    where = f"{os.path.basename(frame['file'])}:{frame['line']}, in {frame['function']}"
    return where + (f": `{code}`" if code else "") + (f", of {module}" if module else "")


def _module(node: torch.fx.Node) -> str:
    """layers.0.pool (AdaptiveMaxPool2d): the innermost module, where it is one of torch's. Empty where it is none."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    if isinstance(kind, str):
        name, of_torch = kind.rpartition(".")[2], kind.startswith("torch.")
    else:
        name, of_torch = kind.__name__, kind.__module__.startswith("torch.")
    path = _PATH.sub("", path).replace("['", ".").replace("']", "").strip(".")
    return (f"{path} ({name})" if path else name) if of_torch else ""


def report_fallbacks(reasons: dict[torch.fx.Node, str]) -> None:
    """One line for each operator, reason and place, the first of them in the graph."""
    seen = set()
    for node, reason in reasons.items():
        # An operator with effects is called by another, which has no name that a user knows.
        name = str(node.args[1] if str(node.target) == "with_effects" else node.target)
        where = place(node)
        if (key := (name, reason, where)) in seen:
            continue
        seen.add(key)
        FALLBACKS.append(key)
        log.warning("%s runs in torch: %s%s", name, reason, f" ({where})" if where else "")


def report_graph(gm: torch.fx.GraphModule, reason: str) -> None:
    """One line for a graph that torch runs as a whole, with the place of its first operator."""
    where = next((found for node in gm.graph.nodes if node.op == "call_function" and (found := place(node))), "")
    FALLBACKS.append(("graph", reason, where))
    log.warning("a graph runs in torch: %s%s", reason, f" ({where})" if where else "")


# What ran in torch since the process began, or since the list was cleared: (operator, reason, place).
FALLBACKS: list[tuple[str, str, str]] = []
