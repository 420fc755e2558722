"""Graphs whose sizes or numbers are symbols."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from .writer import is_tensor

Node = torch.fx.Node
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_symbol(value: Any) -> bool:
    return isinstance(value, _SYMBOLS)


def has_symbolic_sizes(gm: torch.fx.GraphModule) -> bool:
    """Whether a size or stride of an array is a symbol."""
    values = (v for node in gm.graph.nodes for v in pytree.tree_leaves(node.meta.get("val")) if is_tensor(v))
    return any(is_symbol(n) for v in values for n in (*v.shape, *(v.stride() if v.layout is torch.strided else ())))


class Fakes(torch.fx.Interpreter):
    """Runs a graph with fake tensors and keeps each node's result in its meta data."""

    def run_node(self, node: Node) -> Any:
        result = super().run_node(node)
        node.meta["val"] = result
        return result


def with_sizes(gm: torch.fx.GraphModule, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """A copy of a graph whose nodes know their sizes for these arguments. Sizes that depend on elements stay symbols.
    Raises what torch raises where it must know one of these."""
    known = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(
        allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True))
    fakes = [mode.from_tensor(a, static_shapes=True) if is_tensor(a) else a for a in arguments]
    with mode, torch.no_grad():
        Fakes(known).run(*fakes)
    return known


# Numbers: a position, a step of training. Where no size depends on them, they are arrays without dimensions, which
# torch makes when the graph runs, so that one compilation serves all of them.

def numbers_as_arrays(gm: torch.fx.GraphModule) -> None:
    """Changes operators that take an array or a number, and are given a symbol, so that they take an array. Nothing is
    changed where sizes are symbols. What takes numbers alone stays, and runs in torch."""
    if has_symbolic_sizes(gm):
        return
    fakes = [v for node in gm.graph.nodes for v in pytree.tree_leaves(node.meta.get("val"))
             if isinstance(v, torch._subclasses.FakeTensor)]
    kinds = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64, torch.SymBool: torch.bool}
    made: dict[tuple[Node, torch.device, torch.dtype], Node] = {}

    def array(number: Node, like: torch.Tensor, user: Node, dtype: torch.dtype | None = None) -> Node:
        dtype = dtype or kinds[type(number.meta["val"])]
        key = (number, like.device, dtype)
        if key not in made:
            with gm.graph.inserting_after(number):
                made[key] = gm.graph.call_function(torch.ops.aten.scalar_tensor.default, (number,),
                                                   {"dtype": dtype, "device": like.device})
            with fakes[0].fake_mode:
                made[key].meta = {**user.meta, "val": torch.empty((), dtype=dtype, device=like.device), "number": True}
        return made[key]

    for node in list(gm.graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch._subclasses.FakeTensor) or not isinstance(
                node.target, torch._ops.OpOverload):
            continue
        if node.target is torch.ops.aten.full.default and isinstance(node.args[1], Node) and is_symbol(
                node.args[1].meta.get("val")):
            node.target, node.args = torch.ops.aten.expand.default, (
                array(node.args[1], value, node, value.dtype), node.args[0])
            node.kwargs = {}
            continue
        numbers = [i for i, a in enumerate(node.args) if isinstance(a, Node) and is_symbol(a.meta.get("val"))]
        target = _of_arrays(node.target, numbers) if numbers else None
        if target is not None:
            node.target = target
            for i in numbers:
                node.update_arg(i, array(node.args[i], value, node))
    gm.graph.lint()
    gm.recompile()


def _of_arrays(operator: torch._ops.OpOverload, positions: Sequence[int]) -> torch._ops.OpOverload | None:
    """The operator, or its sibling, that takes arrays at these positions; None where there is none."""
    name = {"Scalar": "Tensor", "Tensor_Scalar": "Tensor_Tensor"}.get(operator._overloadname, "")
    sibling = getattr(operator.overloadpacket, name, None)
    for one in (operator, sibling):
        if one is None or len(one._schema.arguments) < len(operator._schema.arguments):
            continue
        if all(isinstance(one._schema.arguments[i].type, torch.TensorType) for i in positions):
            return one
    return None


def is_run_time_number(node: Any) -> bool:
    """Whether a node is a number that is known when the graph runs, or the array of one. What reads a number from an
    array is none: the host waits for it."""
    if not isinstance(node, Node) or node.target is torch.ops.aten._local_scalar_dense.default:
        return False
    return is_symbol(node.meta.get("val")) or node.meta.get("number", False)
