"""mode="megakernel": a graph that is a decoder's step, run by the mega-kernel (docs/python.md, Decoding by torch).

The mega-kernel has its own copies of weights and caches, in its own order. Before a step, keys and values come from the
caller's caches, unless all that these hold is of this decoder's steps; after it, its row goes there. So the model's
code, generate() of transformers and other graphs see the caches that torch's would leave.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from strata import _core, arguments
from strata._core import Error
from strata.module import device_for

from .decode_graph import DecodeGraph, Node, NotADecodeStep, SeveralTokens, ancestors, recognize, shape_of
from .places import log

_ARCHITECTURE = "sm_90a"


def decode_step(gm: torch.fx.GraphModule, kernels: Callable[[Sequence[Any]], Callable]) -> DecodeStep | None:
    """The step that a graph is; None, with a line of the log, where it is none. `kernels(arguments)` compiles the graph
    as other modes do: for steps that turn out to be another's, as of sequences that are padded."""
    try:
        if torch.is_grad_enabled():
            raise NotADecodeStep("gradients are enabled; call it under torch.no_grad()")
        found = recognize(gm.graph)
        _device_of(found)
    except NotADecodeStep as reason:
        level = logging.INFO if isinstance(reason, SeveralTokens) else logging.WARNING
        log.log(level, "a graph runs by kernels, not as one persistent kernel: %s", reason)
        return None
    return DecodeStep(gm, found, kernels)


def _device_of(found: DecodeGraph) -> tuple[str, _core.Device | None]:
    """What strata.Decoder calls the device of the graph's tensors."""
    device = found.ids.meta["example_value"].device
    if device.type == "cpu":
        return "host", None
    gpu = device_for("gpu") if device.type == "cuda" else None
    if gpu is None or gpu.architecture != _ARCHITECTURE:
        raise NotADecodeStep(f"the mega-kernel is for {_ARCHITECTURE}; this is {gpu.architecture if gpu else device}")
    return "gpu", gpu


class _Model:
    """A decoder of some weights, with the state that its caches are in."""

    def __init__(self, core: _core.Decoder, capacity: int, kept: list[torch.Tensor]):
        self.core, self.capacity = core, capacity
        self.mirrors: tuple | None = None  # the caller's caches, as they were after the last step, and the next position
        self._kept = kept  # weights that the interpreter reads where they lie


# By the embeddings' tensor: decoders of these weights, by batch and device. Graphs of other lengths of caches share them.
_MODELS = WeakTensorKeyDictionary()


class DecodeStep:
    """A graph of dynamo as a function of its arguments."""

    def __init__(self, gm: torch.fx.GraphModule, found: DecodeGraph, kernels: Callable[[Sequence[Any]], Callable]):
        self._gm, self._found, self._make_kernels = gm, found, kernels
        self._kernels: Callable | None = None
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        at = {node: n for n, node in enumerate(placeholders)}
        self._ids = at[found.ids]
        self._weights = {name: at[node] for name, node in found.weights.items()}
        self._frequencies = at[found.frequencies]
        self._caches = [(at[layer.keys], at[layer.values]) for layer in found.layers]
        self._counters = [at[node] for node in found.counters]
        self._batch = shape_of(found.ids)[0]
        self._positions = _part_of(gm, placeholders, found.positions)
        self._masks = _part_of(gm, placeholders, found.masks)
        plain = found.results in ((found.head,), [found.head])
        self._results = None if plain else _part_of(gm, [*placeholders, found.head], found.results)
        self._places: dict[tuple, torch.Tensor] = {}
        self._stamp: tuple | None = None  # of the weights that the decoder has

    def __call__(self, *given: Any) -> Any:
        with torch.no_grad():
            if self._kernels is None:
                position, tokens = self._look(given)
                if position is not None:
                    try:
                        return self._run(given, position, tokens)
                    except Error as error:
                        if self._stamp is not None:  # it began: what it left is not known
                            raise
                        log.warning("a graph runs by kernels, not as one persistent kernel: %s", " ".join(str(error).split()))
                self._kernels = self._make_kernels(given)
            return self._kernels(*given)

    def _look(self, given: Sequence[Any]) -> tuple[int | None, list[int]]:
        """The step's position and tokens; None where sequences have different ones or hide some of their past."""
        ids = given[self._ids]
        numbers = [one.reshape(-1) for one in self._positions(*given)]
        allowed = []
        for mask in self._masks(*given):
            seen = mask if mask.dtype == torch.bool else mask == 0
            allowed.append((seen == (self._range(mask.shape[-1], mask.device) <= numbers[0][:1])).all().reshape(1))
        sizes = [sum(one.numel() for one in numbers), len(allowed)]
        flat = torch.cat([one.to(torch.int64) for one in (*numbers, *allowed, ids.reshape(-1))]).tolist()
        positions, holds, tokens = flat[:sizes[0]], flat[sizes[0]:sum(sizes)], flat[sum(sizes):]
        if any(one != positions[0] for one in positions) or not all(holds):
            log.warning("a graph runs by kernels, not as one persistent kernel: sequences are padded, or a mask hides "
                        "more than what comes after the position")
            return None, []
        return positions[0], tokens

    def _range(self, count: int, device: torch.device) -> torch.Tensor:
        if (count, device) not in self._places:
            self._places[count, device] = torch.arange(count, device=device)
        return self._places[count, device]

    def _run(self, given: Sequence[Any], position: int, tokens: list[int]) -> Any:
        caches = [given[n] for pair in self._caches for n in pair]
        if not all(cache.is_contiguous() for cache in caches):
            raise Error("a cache is not contiguous")
        length = caches[0].shape[2]
        model = self._model(given, length)
        now = _stamps(caches)
        takes = now is None or model.mirrors != (now, position)
        model.mirrors = None
        logits = torch.empty(self._batch, self._found.config["vocab_size"], dtype=torch.bfloat16,
                             device=given[self._ids].device)
        pointers = [cache.data_ptr() for cache in caches]
        model.core.step(tokens, position, list(zip(pointers[::2], pointers[1::2], strict=True)), length, takes,
                        logits.data_ptr())
        if now is not None:
            torch.autograd.graph.increment_version(caches)
            model.mirrors = (_stamps(caches), position + 1)
        if self._counters:
            torch._foreach_add_([given[n] for n in self._counters], 1)
        logits = logits.view(self._batch, 1, -1)
        return (logits,) if self._results is None else self._results(*given, logits)

    def _model(self, given: Sequence[Any], length: int) -> _Model:
        """The decoder of the weights as they are now."""
        weights = [given[n] for n in self._weights.values()]
        frequencies = given[self._frequencies]
        stamp = (_stamps([*weights, frequencies]), length)
        models = _MODELS.setdefault(given[self._weights["model.embed_tokens.weight"]], {})
        key = (self._batch, tuple(sorted((name, str(value)) for name, value in self._found.config.items())))
        model = models.get(key)
        if model is None or model.capacity < length or (stamp[0] is not None and model.stamp != stamp[0]):
            models.pop(key, None)  # its memory goes first
            del model
            model = models[key] = self._open(given, length, frequencies)
            model.stamp = stamp[0]
        self._stamp = stamp
        return model

    def _open(self, given: Sequence[Any], length: int, frequencies: torch.Tensor) -> _Model:
        capacity = max(1024, 1 << (length - 1).bit_length()) if given[self._ids].device.type == "cuda" else length
        config = self._found.config | {"max_position_embeddings": capacity}
        device, gpu = _device_of(self._found)
        log.info("a decoder's step becomes one persistent kernel: %d layers, %d sequences, %d positions",
                 config["num_hidden_layers"], self._batch, capacity)
        kept, tensors = [], []
        for name, n in self._weights.items():
            tensor = given[n].detach().cpu().contiguous()
            tensors.append((name, "BF16", list(tensor.shape), tensor.data_ptr()))
            kept.append(tensor)
        core = _core.Decoder.open("text", json.dumps(config), frequencies.detach().float().cpu().tolist(), "", tensors,
                                  None, device, gpu, "auto" if device == "gpu" else "megakernel", self._batch, capacity,
                                  arguments.cache_folder(None))
        log.info("%s", core.description)
        return _Model(core, capacity, kept if device == "host" else [])


def _stamps(tensors: Sequence[torch.Tensor]) -> tuple | None:
    """What changes when a tensor is replaced or written to; None where torch does not count."""
    if any(tensor.is_inference() for tensor in tensors):
        return None
    return tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)


def _part_of(gm: torch.fx.GraphModule, inputs: Sequence[Node], results: Any) -> Callable:
    """The part of a graph that computes results from all its arguments, or from a node too that is given after them."""
    wanted = [one for one in pytree.tree_leaves(results) if isinstance(one, Node)]
    nodes = set().union(*(ancestors(one, inputs) for one in wanted)) if wanted else set()
    graph, copies = torch.fx.Graph(), {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
    for node in gm.graph.nodes:
        if node in nodes and node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(map_arg(results, copies.__getitem__))
    return torch.fx.GraphModule(gm, graph)
