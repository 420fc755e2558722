"""Lowerings of operators that call functions: cond, while_loop, scan, map, associative_scan.

A function is a graph of its own, whose results depend on its arguments alone. It becomes a computation of the module;
only that of an associative scan is written out where it is called.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Sequence

import torch
from torch.fx.node import map_arg

for _module in ("cond", "while_loop", "scan", "map", "associative_scan"):  # they make torch.ops.higher_order's
    importlib.import_module(f"torch._higher_order_ops.{_module}")

from .hlo_builder import HloBuilder, Value  # noqa: E402
from .lowering import Lowering  # noqa: E402
from .registry import RULES, Unsupported, lowers  # noqa: E402
from .symbols import Fakes  # noqa: E402
from .types import TORCH_TYPES  # noqa: E402
from .writer import is_random, lower_node, plain_number, small_constant, write_constant  # noqa: E402


def _function(c: Lowering, position: int) -> torch.fx.GraphModule:
    """The graph that is the operator's argument at a position."""
    argument = c.node.args[position]
    if not isinstance(argument, torch.fx.Node) or argument.op != "get_attr":
        raise Unsupported("its function is no graph")
    found = c.node.graph.owning_module.get_submodule(argument.target)
    if not isinstance(found, torch.fx.GraphModule):
        raise Unsupported("its function is no graph")
    return found


def _arrays(values: Sequence, what: str) -> list[Value]:
    """The values, none of which may be a number."""
    if not all(isinstance(v, Value) for v in values):
        raise Unsupported(f"numbers as {what} are not taken, only arrays")
    return list(values)


def _of_shapes(c: Lowering, function: torch.fx.GraphModule, values: Sequence[Value]) -> torch.fx.GraphModule:
    """The function for arguments of these shapes: itself where it was recorded for them, else a copy."""
    recorded = [node.meta.get("val") for node in function.graph.nodes if node.op == "placeholder"]
    if len(recorded) != len(values):
        raise Unsupported("its function takes another number of arguments")
    if all(isinstance(t, torch.Tensor) and tuple(t.shape) == v.shape for t, v in zip(recorded, values)) and all(
            "val" in node.meta for node in function.graph.nodes if node.op == "call_function"):
        return function
    known = torch.fx.GraphModule(function, copy.deepcopy(function.graph))
    if any("as_strided" in str(node.target) for node in known.graph.nodes):
        raise Unsupported("its function looks at memory by strides")
    mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        fakes = [torch.empty(v.shape, dtype=TORCH_TYPES[v.dtype], device=c.result.device) for v in values]
        try:
            Fakes(known).run(*fakes)
        except Exception as reason:  # whatever the user's operators raise
            said = str(reason).strip().splitlines() or [""]
            raise Unsupported(f"its function is not defined for these sizes ({said[0]})") from reason
    return known


def inline(c: Lowering, b: HloBuilder, function: torch.fx.GraphModule, values: Sequence[Value]) -> list[Value]:
    """The results of a function, by instructions of `b`. Raises Unsupported where an operator in it has no rule."""
    function = _of_shapes(c, function, values)
    found: dict[torch.fx.Node, object] = {}
    given = iter(values)

    def operand(argument: torch.fx.Node):
        if argument in found:
            return found[argument]
        if (constant := small_constant(argument)) is not None:
            return write_constant(b, constant)
        if argument.op == "get_attr" and isinstance(argument.meta.get("val"), torch.Tensor):
            raise Unsupported("its function has an array of its own")
        return plain_number(argument.meta.get("val"))

    for node in function.graph.nodes:
        if node.op == "placeholder":
            found[node] = next(given)
        elif node.op == "output":
            results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
            return _arrays([map_arg(r, operand) for r in results], "results of its function")
        elif node.op == "call_function" and isinstance(node.meta.get("val"), (torch.Tensor, list, tuple)):
            if node.target not in RULES or is_random(node):
                why = "random numbers are torch's" if is_random(node) else "there is no rule for it"
                raise Unsupported(f"its function calls {node.target}: {why}")
            try:
                found[node] = lower_node(b, node, operand)
            except Unsupported as reason:
                raise Unsupported(f"its function calls {node.target}: {reason}") from reason
    raise Unsupported("its function has no result")


def computation(c: Lowering, b: HloBuilder, kind: str, arguments: Sequence[Value],
                body: Callable[[HloBuilder, list[Value]], Value | list[Value]]) -> str:
    """The name of a computation of one tuple, with the arguments' types; what `body` gives is its result."""
    inner = b.inner()
    values = inner.tuple_parameter([(v.dtype, v.shape) for v in arguments])
    return inner.close(kind, body(inner, values))


def _kinds(values: Sequence[Value]) -> list[tuple[str, tuple[int, ...]]]:
    return [(v.dtype, v.shape) for v in values]


def _check_pure(named: dict) -> None:
    if any(named.values()):
        raise Unsupported("its function changes its arguments")


@lowers("higher_order.cond")
def cond(c, predicate, _yes, _no, operands, **named):
    _check_pure(named)
    (predicate,), operands = _arrays([predicate], "conditions"), _arrays(operands, "arguments")
    predicate = c.b.reshape(c.cast(predicate, "pred"), ())
    arguments = operands or [predicate]
    branches = []
    for position in (1, 2):
        function = _function(c, position)
        branches.append(computation(c, c.b, "branch", arguments, lambda b, values, function=function:
                                    inline(c, b, function, values if operands else [])))
    packed = c.b.packed(arguments)
    kinds = [(v.dtype, v.shape) for v in c.fakes()]
    return c.b.tuple_op("conditional", [predicate.name, packed, packed], kinds, f"true_computation={branches[0]}",
                        f"false_computation={branches[1]}")


@lowers("higher_order.while_loop")
def whileloop(c, _condition, _body, carried, additional, **named):
    _check_pure(named)
    carried, additional = _arrays(carried, "carried values"), _arrays(additional, "arguments")
    condition, body = _function(c, 0), _function(c, 1)
    return loop(c, [*carried, *additional],
                 lambda b, values: truth(b, inline(c, b, condition, values)[0]),
                 lambda b, values: [*inline(c, b, body, values), *values[len(carried):]])[:len(carried)]


def truth(b: HloBuilder, x: Value) -> Value:
    """An array of one element as a scalar of booleans."""
    return b.reshape(x if x.dtype == "pred" else b.compare(x, b.full(0, x.dtype, x.shape), "NE"), ())


def loop(c: Lowering, start: Sequence[Value], condition, body) -> list[Value]:
    """What body(builder, values) makes of the values in the end, from `start` on, while condition(builder, values)."""
    def checked(b: HloBuilder, values: list[Value]) -> list[Value]:
        results = body(b, values)
        if _kinds(results) != _kinds(values):
            raise Unsupported("its function gives other types or sizes than it takes")
        return results

    names = [f"condition={computation(c, c.b, 'condition', start, condition)}",
             f"body={computation(c, c.b, 'body', start, checked)}"]
    return c.b.tuple_op("while", [c.b.packed(start)], _kinds(start), *names)


@lowers("higher_order.scan")
def scan(c, _combine, init, xs, additional, **named):
    """A loop over the slices of xs along the first dimension. Results: what is carried last, then what each step
    gives, one after the other."""
    _check_pure(named)
    return _scan(c, _arrays(init, "carried values"), _arrays(xs, "arguments"),
                 _arrays(additional, "arguments"))


@lowers("higher_order.map_impl")
def map_(c, _function, xs, others, **named):
    _check_pure(named)
    return _scan(c, [], _arrays(xs, "arguments"), _arrays(others, "arguments"))


def _scan(c: Lowering, init: list[Value], xs: list[Value], additional: list[Value]) -> list[Value]:
    function, steps = _function(c, 0), xs[0].shape[0]
    stacked = c.fakes()[len(init):]
    if steps == 0:
        return [*init, *(c.b.full(0, v.dtype, v.shape) for v in stacked)]
    results = [c.b.full(0, v.dtype, v.shape) for v in stacked]
    start = [c.b.constant(0, "s32"), *init, *xs, *additional, *results]
    ends = [1, 1 + len(init), 1 + len(init) + len(xs), len(start) - len(results)]

    def body(b: HloBuilder, values: list[Value]) -> list[Value]:
        at, zero = values[0], b.constant(0, "s32")
        carried, arrays, others, done = (values[i:j] for i, j in zip(ends, [*ends[1:], len(values)]))
        slices = []
        for x in arrays:
            piece = b.op("dynamic-slice", [x, at, *[zero] * (x.rank - 1)], x.dtype, (1, *x.shape[1:]),
                         "dynamic_slice_sizes={" + ",".join(map(str, (1, *x.shape[1:]))) + "}")
            slices.append(b.reshape(piece, x.shape[1:]))
        found = inline(c, b, function, [*carried, *slices, *others])
        rows = [b.reshape(v, (1, *v.shape)) for v in found[len(init):]]
        done = [b.op("dynamic-update-slice", [x, row, at, *[zero] * (x.rank - 1)], x.dtype, x.shape)
                for x, row in zip(done, rows, strict=True)]
        return [b.binary("add", at, b.constant(1, "s32")), *found[:len(init)], *arrays, *others, *done]

    found = loop(c, start, lambda b, values: b.compare(values[0], b.constant(steps, "s32"), "LT"), body)
    return [*found[1:ends[1]], *found[ends[3]:]]


@lowers("higher_order.associative_scan")
def associative_scan(c, _combine, xs, additional, **named):
    """Along the first dimension, as jax.lax.associative_scan writes it, which the compiler knows: pairs are combined,
    those are scanned, and what is between them follows. The function is one of elements."""
    _check_pure(named)
    xs, additional, function = _arrays(xs, "arguments"), _arrays(additional, "arguments"), _function(c, 0)

    def every_other(x: Value, first: int, end: int) -> Value:
        return c.b.slice(x, [first] + [0] * (x.rank - 1), [end, *x.shape[1:]], [2] + [1] * (x.rank - 1))

    def first(x: Value, count: int) -> Value:
        return c.b.slice(x, [0] * x.rank, [count, *x.shape[1:]])

    def interleave(x: Value, y: Value) -> Value:
        equal = x.shape[0] == y.shape[0]
        zero, rest = c.b.constant(0, x.dtype), [(0, 0, 0)] * (x.rank - 1)
        return c.b.binary("or" if x.dtype == "pred" else "add",
                          c.b.pad(x, zero, [(0, 1 if equal else 0, 1), *rest]),
                          c.b.pad(y, zero, [(1, 0 if equal else 1, 1), *rest]))

    def combine(left: list[Value], right: list[Value]) -> list[Value]:
        return inline(c, c.b, function, [*left, *right, *additional])

    def scanned(elements: list[Value]) -> list[Value]:
        n = elements[0].shape[0]
        if n < 2:
            return elements
        odd = scanned(combine([every_other(x, 0, n - 1) for x in elements], [every_other(x, 1, n) for x in elements]))
        if n > 2:
            before = [first(x, (n - 1) // 2) for x in odd]
            even = combine(before, [every_other(x, 2, n) for x in elements])
            even = [c.b.concatenate([first(x, 1), y], 0) for x, y in zip(elements, even, strict=True)]
        else:
            even = [first(x, 1) for x in elements]
        return [interleave(x, y) for x, y in zip(even, odd, strict=True)]

    return scanned(xs)
