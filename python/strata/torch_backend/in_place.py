"""Arguments that a graph changes: where a part computes the new elements, it writes them over the old ones.

aot_autograd makes a graph's changes of its arguments (the rows that a decoding step adds to a cache) values, and ends
the graph with `copy_` of these to the arguments. Where one part reads the argument and computes the value, and nothing
else reads either, the part's module takes the argument as given away (HLO's input_output_alias): only the elements that
change are written, and the `copy_` is left out.
"""

from __future__ import annotations

import torch

from .partition import Part, Plan
from .writer import layout_of

Node = torch.fx.Node


def arguments_written_over(graph: torch.fx.Graph, plan: Plan,
                           device: str = "cuda") -> tuple[dict[tuple, dict[int, int]], set[Node]]:
    """For a part (by its key) the results that lie in one of its inputs, by numbers; and the `copy_` nodes that are not
    needed then. Arrays on other devices are left: modules take arguments that are given away on GPUs only."""
    parts = [step for step in plan.steps if isinstance(step, Part)]
    makers = {node: part for part in parts for node in part.outputs}
    returned = set(next(n for n in graph.nodes if n.op == "output").all_input_nodes)
    given: dict[tuple, dict[int, int]] = {}
    done: set[Node] = set()
    for step in plan.steps:
        if not isinstance(step, Node) or step.target is not torch.ops.aten.copy_.default or step.kwargs:
            continue
        to, value, *rest = step.args
        part = makers.get(value)
        if rest or part is None or to.op != "placeholder" or to not in part.inputs or step.users:
            continue
        nodes = set(part.nodes)
        read_elsewhere = any(user is not step and user not in nodes for user in to.users)
        used_elsewhere = value in returned or any(
            user is not step and user.target is torch.ops.aten.copy_.default for user in value.users)
        if read_elsewhere or used_elsewhere or not _lie_alike(to.meta["val"], value.meta["val"], device):
            continue
        of_part = given.setdefault(part.key, {})
        if part.inputs.index(to) not in of_part.values():
            of_part[part.outputs.index(value)] = part.inputs.index(to)
            done.add(step)
    return given, done


def _lie_alike(a: torch.Tensor, b: torch.Tensor, device: str) -> bool:
    layout = layout_of(a)
    return (a.device.type == device and a.dtype == b.dtype and a.shape == b.shape and layout is not None
            and layout == layout_of(b) and a.numel() > 0)


def alias_text(given: dict[int, int]) -> str:
    """The attribute of an HLO module whose results are a tuple."""
    return ", ".join(f"{{{result}}}: ({argument}, {{}}, must-alias)" for result, argument in sorted(given.items()))
