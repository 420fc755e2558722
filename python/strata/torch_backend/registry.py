"""The table of lowerings: which ATen operator becomes HLO by which rule.

A rule takes a `Lowering` and the arguments of the ATen call, tensors as `Value`s, and returns a `Value`, or a list of
them where the operator has several results (None for a result that is not there). A rule raises `Unsupported` with a
reason for what it does not take; the operator then runs in torch.

    @lowers("aten.add.Tensor", "aten.add.Scalar")
    def add(c, x, y, alpha=1): ...
"""

from __future__ import annotations

from collections.abc import Callable

import torch


class Unsupported(Exception):
    """An operator, or its arguments, that Strata does not take. The text says why, without the operator's name."""


def require_one_type(*operands) -> None:
    """Refuses operands of several types: torch has the last word on these, and eager mode mostly raises an error."""
    types = sorted({one.dtype for one in operands})
    if len(types) > 1:
        raise Unsupported(f"its arrays are of types {' and '.join(types)}, and torch decides what comes of that")


RULES: dict[torch._ops.OpOverload, Callable] = {}
# Operators that torch runs without work: they only look at memory in another way.
VIEWS: set[torch._ops.OpOverload] = set()
# Operators whose rules take complex numbers, too.
OF_COMPLEX: set[torch._ops.OpOverload] = set()
# Operators whose rules take 8-bit floats, too: they only move or convert elements.
OF_FLOAT8: set[torch._ops.OpOverload] = set()
# Names in the table that the installed version of torch does not have.
MISSING: list[str] = []


def find_operator(name: str) -> torch._ops.OpOverload | None:
    """The operator "namespace.name.overload" or "higher_order.name", or None where this version of torch lacks it."""
    found = torch.ops
    try:
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except (AttributeError, RuntimeError):
        return None


def lower_copies_of_views() -> None:
    """Gives aten.NAME_copy the rule of the view aten.NAME, for all that have one: functions that operators call are
    recorded with copies."""
    for view in [v for v in VIEWS if isinstance(v, torch._ops.OpOverload)]:  # getitem is among them
        found = find_operator(f"{view.namespace}.{view._opname}_copy.{view._overloadname}")
        if found is not None and found not in RULES:
            RULES[found] = RULES[view]
            OF_COMPLEX.add(found)
            OF_FLOAT8.add(found)


def lowers(*names: str, view: bool = False, of_complex: bool = False, of_float8: bool = False) -> Callable:
    """Puts the function that follows in the table, for each name ("aten.add.Tensor"). view: it only looks at memory in
    another way. of_complex: it takes complex numbers, too; views and others that only move elements always do.
    of_float8: it takes 8-bit floats, as views do."""
    def register(rule: Callable) -> Callable:
        for name in names:
            operator = find_operator(name)
            if operator is None:
                MISSING.append(name)
                continue
            if operator in RULES:
                raise ValueError(f"two rules for {name}")
            RULES[operator] = rule
            if view:
                VIEWS.add(operator)
            if view or of_complex:
                OF_COMPLEX.add(operator)
            if view or of_float8:
                OF_FLOAT8.add(operator)
        return rule

    return register
