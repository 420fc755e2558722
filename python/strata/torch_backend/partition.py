"""Cuts an FX graph into parts that are compiled and operators that run in torch.

Each node gets a stage. A node that is compiled comes one stage after the latest operator of torch that it reads, an
operator of torch in the stage of the latest node that it reads. All compiled nodes of one stage are one part, so
there are as few parts as the longest chain of alternations needs, and no cycles. Operators of torch that read nothing
that is compiled (random masks, for one) come before everything and cut nothing.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch

from .registry import RULES, VIEWS
from .writer import is_random, is_tensor, small_constant, try_node

Node = torch.fx.Node


@dataclass
class Part:
    """Compiled nodes, what they read from outside and what others read of them, all in the graph's order."""

    nodes: list[Node]
    inputs: list[Node]
    outputs: list[Node]

    @property
    def key(self) -> tuple:
        """What makes one part another's equal."""
        return tuple(self.nodes), tuple(self.inputs), tuple(self.outputs)


@dataclass
class Plan:
    """Parts and operators of torch in the order in which they run, and why each of the latter does."""

    steps: list[Part | Node]
    reasons: dict[Node, str]


def is_number(node: Node) -> bool:
    """A node whose result is a number that is known, or nothing."""
    value = node.meta.get("val")
    return value is None and node.op == "get_attr" or isinstance(value, (int, float, bool))


def is_function_call(node: Node) -> bool:
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def is_ordered(node: Node) -> bool:
    """Whether an operator of torch changes arrays, or might: it stays after all that comes before it."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return is_function_call(node)


def reason_against(node: Node, device: torch.device, refused: dict[Node, str]) -> str | None:
    """Why a call runs in torch, or None."""
    if node.target is operator.getitem and node.args[0] in refused:
        return refused[node.args[0]]
    if is_random(node):
        return "random numbers are torch's"
    if is_function_call(node) and node.target not in RULES:
        return _why_function_call(node)
    if is_ordered(node) and not is_function_call(node):
        return "it changes an array where it lies"
    tensors = [v for v in torch.utils._pytree.tree_leaves(node.meta.get("val")) if is_tensor(v)]
    if not tensors:
        return _why_no_array(str(node.target))
    for other in node.all_input_nodes:
        if small_constant(other) is None:
            tensors += [v for v in torch.utils._pytree.tree_leaves(other.meta.get("val")) if is_tensor(v)]
    elsewhere = {t.device for t in tensors} - {device}
    if elsewhere:
        return f"an array on {elsewhere.pop()} in a graph on {device}"
    return try_node(node)


def _why_function_call(node: Node) -> str:
    name = str(node.target)
    if name == "with_effects":
        return "it has effects, and stays in its place"
    if name in ("run_and_save_rng_state", "run_with_rng_state"):
        return "random numbers are torch's, and drawn again from where they were drawn first"
    return "it calls functions, and there is no rule for it"


def _why_no_array(name: str) -> str:
    if name == "aten._local_scalar_dense.default":
        return "a number of Python is read from an array"
    return "it checks values while the graph runs" if "assert" in name or "constrain" in name else "it gives no array"


def graph_device(graph: torch.fx.Graph) -> torch.device:
    """The GPU of the first array that is on one, or the CPU."""
    for node in graph.nodes:
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if is_tensor(value) and value.device.type == "cuda":
                return value.device
    return torch.device("cpu")


def partition(graph: torch.fx.Graph, refused: dict[Node, str] | None = None) -> Plan:
    """The plan of a graph whose sizes are known. `refused`: nodes that are known to run in torch, and why."""
    reasons = dict(refused or {})
    device = graph_device(graph)
    calls = [n for n in graph.nodes if n.op == "call_function" and not is_number(n)]
    for node in calls:
        if node not in reasons and (reason := reason_against(node, device, reasons)) is not None:
            reasons[node] = reason
    stages = _stages(calls, reasons)
    views = _views_of_torch(calls, reasons, stages)
    return Plan(_steps(graph, calls, reasons, stages, views), reasons)


def _stages(calls: list[Node], reasons: dict[Node, str]) -> dict[Node, int]:
    stages: dict[Node, int] = {}
    last_random, floor = -1, -1
    for node in calls:
        torch_runs = node in reasons
        stage = max(floor, -1 if torch_runs else 0)
        for other in node.all_input_nodes:
            if other in stages:
                stage = max(stage, stages[other] + (other in reasons and not torch_runs))
        if is_random(node):
            stage = last_random = max(stage, last_random)
        if torch_runs and is_ordered(node):
            stage = max([stage, *stages.values()])
            floor = stage + 1
        stages[node] = stage
    return stages


def _views_of_torch(calls: list[Node], reasons: dict[Node, str], stages: dict[Node, int]) -> set[Node]:
    """Views that are read outside their part, of arrays that are there in any case. Torch runs these: nothing is
    copied, and what shares memory in torch still does. Parts that read them read the array and look at it themselves.
    """
    def leaves(node):
        return any(user in reasons or stages.get(user) != stages[node] for user in node.users)

    def given(node) -> bool:
        """Whether an array is there outside: an input, a result of torch, or a result of its part."""
        return node.op != "call_function" or node in reasons or leaves(node)

    views: set[Node] = set()
    for node in calls:
        if node in reasons or node.target not in VIEWS or not leaves(node):
            continue
        chain = []
        while node.op == "call_function" and node.target in VIEWS and node not in reasons:
            chain.append(node)
            node = node.args[0]
        if given(node) and (is_tensor(node.meta.get("val")) or node in reasons):
            views.update(chain)
    return views


def _steps(graph: torch.fx.Graph, calls: list[Node], reasons: dict[Node, str], stages: dict[Node, int],
           views: set[Node]) -> list[Part | Node]:
    place = {node: i for i, node in enumerate(graph.nodes)}
    inside: dict[int, set[Node]] = {}
    for node in calls:
        if node not in reasons:
            inside.setdefault(stages[node], set()).add(node)
    parts = {stage: _part(nodes, views, place) for stage, nodes in inside.items()}
    parts = {stage: part for stage, part in parts.items() if part.outputs}
    needed = {n for part in parts.values() for n in part.inputs}
    steps: list[Part | Node] = []
    done: set[Node] = {n for n in graph.nodes if n.op != "call_function" or is_number(n)}
    waiting = [n for n in calls if n in reasons or n in views]
    for stage in sorted({*stages.values()}):
        if stage in parts:
            waiting = _run_ready(waiting, done, steps, lambda n: n in views)
            steps.append(parts[stage])
            done.update(parts[stage].outputs)
        waiting = _run_ready(waiting, done, steps, lambda n, stage=stage: stages[n] <= stage)
    assert not waiting and needed <= done, (waiting, needed - done)
    return steps


def _part(nodes: set[Node], views: set[Node], place: dict[Node, int]) -> Part:
    """The part of a stage's nodes. Views of torch that it reads are looked at inside it; those that it does not read
    are left out."""
    outputs = [n for n in nodes if n not in views and is_tensor(n.meta["val"]) and any(u not in nodes for u in n.users)]
    read: dict[Node, None] = {}
    inputs: dict[Node, None] = {}
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node in read or is_number(node) or small_constant(node) is not None:
            continue
        if node in nodes or node in views:
            read[node] = None
            waiting.extend(node.all_input_nodes)
        else:
            inputs[node] = None
    return Part(*(sorted(some, key=place.__getitem__) for some in (read, inputs, outputs)))


def _run_ready(waiting: list[Node], done: set[Node], steps: list[Part | Node], allowed) -> list[Node]:
    """Adds operators of torch that are allowed and whose arguments are there, in order; gives those that still wait."""
    still = []
    for node in waiting:
        if allowed(node) and all(n in done for n in node.all_input_nodes):
            steps.append(node)
            done.add(node)
        else:
            still.append(node)
    return still
