"""Arguments that a graph changes: where a part computes the new elements, it writes them over the old ones.

aot_autograd makes a graph's changes of its arguments (the rows that a decoding step adds to a cache) values, and ends
the graph with `copy_` of these to the arguments. Where one part reads the argument and computes the value, and nothing
else reads either, the part's module takes the argument as given away (HLO's input_output_alias): only the elements that
change are written, and the `copy_` is left out.
"""

from __future__ import annotations

from typing import Collection

import torch

from .partition import Part, Plan
from .registry import VIEWS
from .writer import layout_of

Node = torch.fx.Node
COPIES = {torch.ops.aten.clone.default, torch.ops.aten.alias.default, torch.ops.aten.detach.default,
          torch.ops.aten.lift_fresh_copy.default}


def arguments_written_over(graph: torch.fx.Graph, plan: Plan, refused: Collection[tuple] = (),
                           device: str = "cuda") -> tuple[dict[tuple, dict[int, int]], set[Node]]:
    """For a part (by its key) the results that lie in one of its inputs, by numbers; and the `copy_` nodes that are not
    needed then. Parts whose keys are `refused` write over nothing. Arrays on other devices are left: modules take
    arguments that are given away on GPUs only."""
    parts = [step for step in plan.steps if isinstance(step, Part)]
    makers = {node: part for part in parts for node in part.outputs}
    returned = set(next(n for n in graph.nodes if n.op == "output").all_input_nodes)
    given: dict[tuple, dict[int, int]] = {}
    done: set[Node] = set()
    # A result that is an argument as it was must not lie where that is written over.
    kept = {node: _source(node) for part in parts for node in part.outputs}
    for step in plan.steps:
        if not isinstance(step, Node) or step.target is not torch.ops.aten.copy_.default or step.kwargs:
            continue
        to, value, *rest = step.args
        part = makers.get(value)
        if rest or part is None or part.key in refused or to.op != "placeholder" or to not in part.inputs or step.users:
            continue
        # By the plan, not by the graph's users: views that torch looks at are steps, and nodes of parts as well.
        read_elsewhere = to in returned or any(
            to in (other.inputs if isinstance(other, Part) else other.all_input_nodes)
            for other in plan.steps if other is not part and other is not step)
        used_elsewhere = value in returned or any(
            user is not step and user.target is torch.ops.aten.copy_.default for user in value.users)
        given_back = any(source is to and node is not value for node, source in kept.items())
        if read_elsewhere or used_elsewhere or given_back or not _lie_alike(to.meta["val"], value.meta["val"], device):
            continue
        of_part = given.setdefault(part.key, {})
        if part.inputs.index(to) not in of_part.values():
            of_part[part.outputs.index(value)] = part.inputs.index(to)
            done.add(step)
    return given, done


def _source(node: Node) -> Node:
    """What a node's elements are a plain copy of, through clones and views."""
    while node.op == "call_function":
        if node.target is torch.ops.aten.copy.default:
            node = node.args[1]
        elif node.target in VIEWS or node.target in COPIES:
            node = node.args[0]
        else:
            break
    return node


def _lie_alike(a: torch.Tensor, b: torch.Tensor, device: str) -> bool:
    layout = layout_of(a)
    return (a.device.type == device and a.dtype == b.dtype and a.shape == b.shape and layout is not None
            and layout == layout_of(b) and a.numel() > 0)


def alias_text(given: dict[int, int]) -> str:
    """The attribute of an HLO module whose results are a tuple."""
    return ", ".join(f"{{{result}}}: ({argument}, {{}}, must-alias)" for result, argument in sorted(given.items()))
