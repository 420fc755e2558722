"""Where results differ: `compare` runs a torch model in float64, in its own types, and through Strata."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.utils import _pytree as pytree

from strata._core import Error

from .torch_backend import backend
from .torch_backend.decompositions import decomposition_table, replace_attention, separate_dropout
from .torch_backend.options import Options
from .torch_backend.places import place
from .torch_backend.runtime import compile_graph
from .torch_backend.search_time import SearchTime

# Strata's error may be so many times eager's, and this many units in the last place at least.
RATIO, UNITS = 2.0, 1.0


@dataclass(frozen=True)
class Row:
    """Errors of one result against float64, in parts of its norm."""

    name: str
    dtype: torch.dtype
    eager: float
    strata: float

    @property
    def ratio(self) -> float:
        return self.strata / self.eager if self.eager else float("inf") if self.strata else 1.0

    @property
    def agrees(self) -> bool:
        eps = torch.finfo(self.dtype).eps if self.dtype.is_floating_point or self.dtype.is_complex else 0.0
        return self.strata <= max(RATIO * self.eager, UNITS * eps)


@dataclass(frozen=True)
class Comparison:
    """Errors by result; `culprit` is the first operator at which Strata differs, with the user's line."""

    rows: list[Row]
    culprit: str | None = None

    @property
    def agrees(self) -> bool:
        return all(row.agrees for row in self.rows)

    def __str__(self) -> str:
        lines = [f"{'result':24} {'type':10} {'eager':>10} {'Strata':>10} {'ratio':>8}"]
        for row in self.rows:
            kind = str(row.dtype).removeprefix("torch.")
            mark = "" if row.agrees else "  differs"
            lines.append(f"{row.name:24} {kind:10} {row.eager:10.2e} {row.strata:10.2e} {row.ratio:8.2f}{mark}")
        if not self.agrees:
            lines.append(f"first difference: {self.culprit or 'not found: no single operator differs by itself'}")
        return "\n".join(lines)


def compare(model: Callable, inputs: torch.Tensor | Sequence[Any], *, options: dict[str, Any] | None = None,
            show: bool = True) -> Comparison:
    """Compares a model without gradients: each result's error through Strata and in eager mode, against float64.

    model: a module or function of tensors. It is not changed: each run has a copy of a module.
    inputs: its positional arguments, or one tensor. Random operators draw the same numbers in each run as far as torch
        does.
    options: as for torch.compile(model, backend="strata").

    Where Strata's error is more than twice eager's (and more than one unit in the last place), the graph is bisected
    to the first operator whose value differs, which is named with its line in the user's code. Raises Error where
    inputs are no arguments.
    """
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (list, tuple)):
        raise Error(f"inputs is {type(inputs).__name__}\n  give the model's positional arguments in a list or tuple")

    def run(prepare: Callable[[Callable], Callable], arguments: Sequence[Any]) -> list[torch.Tensor]:
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            result = prepare(copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model)(*arguments)
        return result

    exact = run(lambda m: m.double() if isinstance(m, torch.nn.Module) else m, pytree.tree_map(_double, list(inputs)))
    eager = run(lambda m: m, inputs)
    torch._dynamo.reset()
    ours = run(lambda m: torch.compile(m, backend=backend, options=options or {}), inputs)
    rows = []
    for (path, one), two, three in zip(pytree.tree_leaves_with_path(eager), *map(pytree.tree_leaves, (exact, ours)),
                                       strict=True):
        if isinstance(one, torch.Tensor):
            rows.append(Row(f"result{pytree.keystr(path)}", one.dtype, error(one, two), error(three, two)))
    found = Comparison(rows)
    if not found.agrees:
        found = Comparison(rows, first_difference(model, inputs))
    if show:
        print(found)
    return found


def _double(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.double() if value.is_floating_point() else value.to(torch.complex128) if value.is_complex() else value


def error(value: torch.Tensor, exact: torch.Tensor) -> float:
    """The norm of the difference, in parts of the norm of the exact value; infinite where one is not finite and the
    other is."""
    value, exact = (_double(torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()).double()
                    for x in (value, exact))
    finite = exact.isfinite()
    if not torch.equal(finite, value.isfinite()):
        return float("inf")
    if not finite.any():
        return 0.0
    return float((value - exact)[finite].norm() / exact[finite].norm().clamp_min(1e-30))


class _Exact(torch.fx.Interpreter):
    """Runs a graph in float64."""

    def call_function(self, target, args, kwargs):
        def widen(v):
            if not isinstance(v, torch.dtype):
                return v
            return torch.float64 if v.is_floating_point else torch.complex128 if v.is_complex else v

        return super().call_function(target, *pytree.tree_map(widen, (tuple(args), dict(kwargs))))

    def fetch_attr(self, target):
        return _double(super().fetch_attr(target))


def captured_graphs(model: Callable, inputs: Sequence[Any]) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """The graphs of ATen operators of a model without gradients, each with the arguments of its first call."""
    graphs: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def compiler(graph, _):
        separate_dropout(graph)

        def run(arguments):
            graphs.append((graph, list(arguments)))
            return torch.fx.Interpreter(graph).run(*arguments)

        run._boxed_call = True
        return run

    def record(gm, example_inputs):
        replace_attention(gm)
        return aot_autograd(fw_compiler=compiler, inference_compiler=compiler,
                            decompositions=decomposition_table())(gm, example_inputs)

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model, backend=record,
                      dynamic=False)(*inputs)
    return graphs


def first_difference(model: Callable, inputs: Sequence[Any]) -> str | None:
    """The first operator whose value differs by Strata, found by bisecting the beginnings of each graph."""
    for graph, arguments in captured_graphs(model, inputs):
        nodes = [n for n in graph.graph.nodes if n.op == "call_function" and isinstance(n.meta.get("val"), torch.Tensor)
                 and (n.meta["val"].is_floating_point() or n.meta["val"].is_complex())]
        low, high = 0, len(nodes) - 1
        if not nodes or _agrees_until(graph, arguments, nodes[high]) and _agree_all(graph, arguments):
            continue
        while low < high:
            middle = (low + high) // 2
            if _agrees_until(graph, arguments, nodes[middle]):
                low = middle + 1
            else:
                high = middle
        if not _agrees_until(graph, arguments, nodes[low]):
            where = place(nodes[low])
            return f"{nodes[low].target} ({nodes[low].name})" + (f" at {where}" if where else "")
    return None


def _agree_all(graph: torch.fx.GraphModule, arguments: list[Any]) -> bool:
    output = next(n for n in graph.graph.nodes if n.op == "output")
    results = [n for n in output.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    return all(_agrees_until(graph, arguments, n) for n in results)


def _agrees_until(graph: torch.fx.GraphModule, arguments: list[Any], last: torch.fx.Node) -> bool:
    """Whether the value of one node agrees, computed by a graph that ends with it."""
    part = torch.fx.Graph(graph)
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in graph.graph.nodes:
        copies[node] = part.node_copy(node, copies.__getitem__)
        if node is last:
            break
    for node in graph.graph.nodes:
        if node.op == "placeholder" and node not in copies:
            copies[node] = part.node_copy(node)
    part.output([copies[last]])
    part.eliminate_dead_code()
    short = torch.fx.GraphModule(graph, part)
    with torch.no_grad():
        ours, = compile_graph(short, SearchTime(Options(effort="none"), "debug"), "part")(list(arguments))
        eager, = torch.fx.Interpreter(short).run(*arguments)
        exact, = _Exact(short).run(*map(_double, arguments))
    return Row("", eager.dtype, error(eager, exact), error(ours, exact)).agrees
