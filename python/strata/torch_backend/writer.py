"""Turns nodes of an FX graph into the text of one HLO module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from .hlo_builder import COMPLEX, FLOAT8, HloBuilder, Value
from .lowering import Lowering
from .registry import OF_COMPLEX, OF_FLOAT8, RULES, Unsupported
from .types import hlo_type

# Constants of the graph with so few elements are written into the module.
SMALL_CONSTANT = 16


@dataclass(frozen=True)
class Layout:
    """How an array of torch lies in memory: its dimensions from the slowest to the fastest. Dense."""

    order: tuple[int, ...]

    @property
    def plain(self) -> bool:
        return self.order == tuple(range(len(self.order)))

    @property
    def inverse(self) -> tuple[int, ...]:
        return tuple(self.order.index(d) for d in range(len(self.order)))


def layout_of(tensor: torch.Tensor) -> Layout | None:
    """The layout of a dense tensor; None where elements overlap or leave gaps."""
    if tensor.is_contiguous():
        return Layout(tuple(range(tensor.dim())))
    order = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))
    step = 1
    for d in reversed(order):
        if tensor.shape[d] != 1 and tensor.stride(d) != step:
            return None
        step *= tensor.shape[d]
    return Layout(tuple(order))


def plain_layout(tensor: torch.Tensor) -> Layout:
    return Layout(tuple(range(tensor.dim())))


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_random(node: torch.fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def check_tensor(value: torch.Tensor) -> None:
    """Raises Unsupported for tensors that no module takes."""
    if value.layout is not torch.strided:
        raise Unsupported(f"tensors of layout {value.layout} are not taken")
    if not all(isinstance(n, int) for n in value.shape):
        raise Unsupported("the size of an array depends on elements of another")
    hlo_type(value.dtype)


def small_constant(node: torch.fx.Node) -> torch.Tensor | None:
    """The tensor of a get_attr node where it is small enough to be written out."""
    if node.op != "get_attr":
        return None
    value = node.graph.owning_module
    for part in node.target.split("."):
        value = getattr(value, part)
    fake = isinstance(value, torch._subclasses.FakeTensor)
    if not is_tensor(value) or fake or value.numel() > SMALL_CONSTANT or value.layout is not torch.strided:
        return None
    return value


def read_constants_as_they_are(graph: torch.fx.Graph) -> None:
    """Readers of copies of small constants read the constants. Numbers in a program (x[mask] = 0.5) are arrays of the
    processor, and what reads these would be torch's in a graph of a GPU. Copies that are results stay."""
    for node in list(graph.nodes):
        if node.target not in (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default):
            continue
        source = node.args[0]
        if not isinstance(source, torch.fx.Node) or small_constant(source) is None:
            continue
        node.replace_all_uses_with(source, delete_user_cb=lambda user: user.op != "output")
        if not node.users:
            graph.erase_node(node)


def write_constant(b: HloBuilder, value: torch.Tensor) -> Value:
    check_tensor(value)
    with unset_fake_temporarily():
        elements = value.detach().cpu().resolve_conj().resolve_neg().flatten().tolist()
    return b.array(elements, hlo_type(value.dtype), tuple(value.shape))


def lower_node(b: HloBuilder, node: torch.fx.Node, operand) -> Value | list[Value | None]:
    """The results of a node's rule, compared with what torch says of them. `operand` gives the values of its
    arguments. Raises Unsupported."""
    rule = RULES[node.target]
    c = Lowering(b, node)
    for fake in c.results:
        if is_tensor(fake):
            check_tensor(fake)

    arguments = _number_as_array(c, node, map_arg(node.args, operand))
    named = map_arg(node.kwargs, operand)
    given = [v for v in pytree.tree_leaves((arguments, named)) if isinstance(v, Value)]
    results = [v for v in c.results if is_tensor(v)]
    if node.target not in OF_COMPLEX and (any(v.dtype in COMPLEX for v in given)
                                          or any(v.dtype.is_complex for v in results)):
        raise Unsupported("of complex numbers it is not taken")
    kinds = {v.dtype for v in given} | {hlo_type(v.dtype) for v in results}
    if node.target not in OF_FLOAT8 and kinds & {*FLOAT8}:
        raise Unsupported("of 8-bit floats it is not taken, only conversions and moves of elements")
    try:
        found = rule(c, *arguments, **named)
    except (TypeError, ValueError, IndexError, AttributeError, KeyError, ArithmeticError) as error:
        raise Unsupported(f"these arguments are not taken ({type(error).__name__}: {error})") from error
    listed = isinstance(node.meta["val"], (list, tuple))
    for value, fake in zip(found if listed else [found], c.results, strict=True):
        if value is None or not is_tensor(fake):
            continue
        expected = (hlo_type(fake.dtype), tuple(fake.shape))
        if (value.dtype, value.shape) != expected:
            raise Unsupported(f"the rule gives {value.dtype}{list(value.shape)} where torch has "
                              f"{expected[0]}{list(expected[1])}")
    return found


def _number_as_array(c: Lowering, node: torch.fx.Node, arguments: tuple) -> tuple:
    """Gives a rule of one array an array where the graph has a number of Python, as gradients of x * 1j do."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not arguments or not isinstance(arguments[0], (int, float, complex)):
        return arguments
    arrays = [isinstance(argument.type, torch.TensorType) for argument in schema.arguments]
    if not arrays[0] or sum(arrays) > 1:
        return arguments
    kind = {bool: "pred", int: "s64", float: "f64", complex: "c128"}[type(arguments[0])]  # torch's types of numbers
    return (c.b.constant(arguments[0], kind), *arguments[1:])


def try_node(node: torch.fx.Node) -> str | None:
    """Why a node cannot be lowered; None where it can. Its operands stand as parameters."""
    b = HloBuilder()

    def parameter(value):
        check_tensor(value)
        return b.parameter(hlo_type(value.dtype), tuple(value.shape))

    def operand(argument: torch.fx.Node):
        value = argument.meta.get("val")
        if is_tensor(value):
            return parameter(value)
        if isinstance(value, (list, tuple)):
            return [parameter(v) if is_tensor(v) else v for v in value]
        return plain_number(value)

    if node.target not in RULES:
        return "there is no rule for it"
    try:
        lower_node(b, node, operand)
    except Unsupported as reason:
        return str(reason)
    return None


def plain_number(value):
    """A number of the graph, which must be known."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Unsupported("one of its numbers is known only when the graph runs")
    return value


@dataclass
class ModuleText:
    """A module and how arrays of torch become its parameters and results."""

    text: str
    inputs: list[Layout]
    outputs: list[Layout]


def write_module(name: str, nodes: Sequence[torch.fx.Node], inputs: Sequence[torch.fx.Node],
                 outputs: Sequence[torch.fx.Node], aliases: str = "") -> ModuleText:
    """The module of `nodes`, in the graph's order, with `inputs` as parameters and `outputs` as results. Dense
    transposed arrays are read and written as they lie. `aliases`: results that lie in parameters (in_place.py)."""
    b = HloBuilder(name)
    values: dict[torch.fx.Node, Any] = {}
    input_layouts = []
    for node in inputs:
        fake = node.meta["val"]
        layout = layout_of(fake) or plain_layout(fake)
        value = b.parameter(hlo_type(fake.dtype), [fake.shape[d] for d in layout.order])
        values[node] = b.transpose(value, layout.inverse)
        input_layouts.append(layout)

    def operand(argument: torch.fx.Node):
        if argument in values:
            return values[argument]
        if (constant := small_constant(argument)) is not None:
            return write_constant(b, constant)
        return plain_number(argument.meta.get("val"))

    for node in nodes:
        values[node] = lower_node(b, node, operand)
    results, output_layouts = [], []
    for node in outputs:
        fake = node.meta["val"]
        layout = layout_of(fake) or plain_layout(fake)
        results.append(b.transpose(values[node], layout.order))
        output_layouts.append(layout)
    return ModuleText(b.text(results, aliases), input_layouts, output_layouts)


