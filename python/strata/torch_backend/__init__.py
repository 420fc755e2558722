"""The backend "strata" of torch.compile.

    model = torch.compile(model, backend="strata", options={"effort": "full"})

Forward and backward graphs come from dynamo and AOT Autograd as ATen operators without side effects. What has a rule
in the table (registry.py) is written as HLO text and compiled by Strata: for the CPU where tensors lie there, for the
GPU where they lie on one. What has none runs in torch, operator by operator, with one line of the log "strata" that
names the operator, its place in the user's code and the reason. Options: see `Options`.

    rules            unary.py, elementwise.py, reductions.py, norms.py, shapes.py, products.py, pooling.py, indexing.py,
                     complexes.py, control_flow.py, bits.py, recurrent.py
    what they use    hlo_builder.py (text of modules), lowering.py (broadcasting, types), types.py, precision.py
    the way there    decompositions.py, partition.py (what is compiled together), writer.py (part → text)
    time of searches search_time.py
    at run time      runtime.py
    mode="megakernel"  decode_graph.py (is a graph a decoder's step?), decode_run.py
"""

from __future__ import annotations

from strata.arguments import need_emitters

need_emitters('torch.compile(backend="strata")')  # before the modules that compile are read

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import (  # noqa: F401  (they fill the table)
    bits, complexes, control_flow, elementwise, indexing, norms, pooling, products, recurrent, reductions, shapes,
    unary,
)
from .decode_run import decode_step
from .decompositions import decomposition_table, replace_attention, separate_dropout
from .options import Options, read_options
from .places import FALLBACKS
from .registry import RULES, Unsupported, lower_copies_of_views, lowers
from .runtime import GraphProgram
from .search_time import SearchTime

__all__ = ["FALLBACKS", "RULES", "Options", "Unsupported", "backend", "lowers"]

lower_copies_of_views()
_graphs = itertools.count()


def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None,
            mode: str | None = None):
    """Compiles a graph of dynamo. Called by torch.compile(…, backend="strata").

    Raises ValueError for options that are not known.
    """
    chosen = read_options(options, mode)
    number = next(_graphs)

    def compiler(kind: str):
        def compile_(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
            separate_dropout(graph)
            program = GraphProgram(graph, chosen, f"graph_{number}_{kind}", SearchTime(chosen, kind))

            def run(arguments: list[Any]) -> list[Any]:
                return program(arguments)

            run._boxed_call = True  # it empties the list of its arguments
            return run
        return compile_

    if chosen.mode == "megakernel" and (step := decode_step(gm)) is not None:
        return step
    replace_attention(gm)
    with sdpa_kernel(SDPBackend.MATH):
        return aot_autograd(
            fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"),
            decompositions=decomposition_table(), partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,  # the graph changes its arguments itself: in_place.py
        )(gm, example_inputs)


def _register() -> None:
    """Gives the backend its name where no entry point of a package does, as in a copy of the files alone. What an entry
    point names torch registers itself, once it has read this module."""
    if "strata" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="strata")


_register()
