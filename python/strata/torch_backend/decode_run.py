"""mode="megakernel": a graph that is a decoder's step, run by the mega-kernel (docs/torch-front-end.md, Decoding).

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
        # Stamps of the caller's caches and counters, as the last step left them, and the next position: what this
        # decoder's caches hold too, as long as the stamps are those.
        self.mirrors: tuple[tuple, int] | None = None
        self.stamp: tuple | None = None  # of the weights
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
        self._changed = [*(n for pair in self._caches for n in pair), *self._counters]
        self._embeddings = self._weights["model.embed_tokens.weight"]
        self._batch = shape_of(found.ids)[0]
        self._positions = _Part(gm, placeholders, [node for node in found.positions if node not in found.counters])
        self._masks = _Part(gm, placeholders, found.masks)
        self._key = (self._batch, tuple(sorted((name, str(value)) for name, value in found.config.items())))
        plain = found.results in ((found.head,), [found.head])
        self._results = None if plain else _part_of(gm, [*placeholders, found.head], found.results)
        self._places: dict[tuple, torch.Tensor] = {}
        self._has_run = False

    def __call__(self, *given: Any) -> Any:
        with torch.no_grad():
            if self._kernels is None:
                position, tokens = self._look(given)
                if position is not None:
                    try:
                        return self._run(given, position, tokens)
                    except Error as error:
                        if self._has_run:  # a step that has begun: what it left is not known
                            raise
                        log.warning("a graph runs by kernels, not as one persistent kernel: %s", " ".join(str(error).split()))
                self._kernels = self._make_kernels(given)
            return self._kernels(*given)

    def _look(self, given: Sequence[Any]) -> tuple[int | None, list[int]]:
        """The step's position and tokens; None where sequences have different ones or hide some of their past."""
        counted = self._next_position(given)
        numbers = [one.reshape(-1) for one in self._positions(given)]
        if counted is None and self._counters:
            numbers.append(torch.stack([given[n] for n in self._counters]).reshape(-1))
        allowed = []
        for mask in self._masks(given):
            seen = mask if mask.dtype == torch.bool else mask == 0
            position = numbers[0][:1] if counted is None else counted
            allowed.append((seen == (self._range(mask.shape[-1], mask.device) <= position)).all().reshape(1))
        parts = [*numbers, *allowed, given[self._ids].reshape(-1)]  # read at once: each look waits for the GPU
        flat = torch.cat([one if one.dtype == torch.int64 else one.to(torch.int64) for one in parts]).tolist()
        end = sum(one.numel() for one in numbers)
        positions = flat[:end] if counted is None else [counted, *flat[:end]]
        if any(one != positions[0] for one in positions) or not all(flat[end:end + len(allowed)]):
            log.warning("a graph runs by kernels, not as one persistent kernel: sequences are padded, or a mask hides "
                        "more than what comes after the position")
            return None, []
        return positions[0], flat[end + len(allowed):]

    def _next_position(self, given: Sequence[Any]) -> int | None:
        """Where nobody has changed caches and counters since the step before: what the counters hold."""
        model = _MODELS.get(given[self._embeddings], {}).get(self._key)
        if model is None or model.mirrors is None or model.mirrors[0] != self._state(given):
            return None
        return model.mirrors[1]

    def _state(self, given: Sequence[Any]) -> tuple | None:
        return _stamps([given[n] for n in self._changed])

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
        now = self._state(given)
        takes = now is None or model.mirrors != (now, position)
        model.mirrors = None
        logits = torch.empty(self._batch, self._found.config["vocab_size"], dtype=torch.bfloat16,
                             device=given[self._ids].device)
        pointers = [cache.data_ptr() for cache in caches]
        model.core.step(tokens, position, list(zip(pointers[::2], pointers[1::2], strict=True)), length, takes,
                        logits.data_ptr())
        if self._counters:
            torch._foreach_add_([given[n] for n in self._counters], 1)
        if now is not None:
            torch.autograd.graph.increment_version(caches)
            model.mirrors = (self._state(given), position + 1)
        logits = logits.view(self._batch, 1, -1)
        return (logits,) if self._results is None else self._results(*given, logits)

    def _model(self, given: Sequence[Any], length: int) -> _Model:
        """The decoder of the weights as they are now."""
        frequencies = given[self._frequencies]
        stamp = _stamps([*(given[n] for n in self._weights.values()), frequencies])
        models = _MODELS.setdefault(given[self._embeddings], {})
        model = models.get(self._key)
        if model is None or model.capacity < length or (stamp is not None and model.stamp != stamp):
            models.pop(self._key, None)  # its memory goes first
            del model
            model = models[self._key] = self._open(given, length, frequencies)
            model.stamp = stamp
        self._has_run = True
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
    """What changes when a tensor is replaced or written to; None where torch does not count, as in inference mode."""
    try:
        return tuple([tensor._version for tensor in tensors]), tuple([tensor.data_ptr() for tensor in tensors])
    except RuntimeError:
        return None


class _Part:
    """Values of nodes by a graph's arguments: those that are arguments themselves, and the rest computed."""

    def __init__(self, gm: torch.fx.GraphModule, placeholders: Sequence[Node], nodes: Sequence[Node]):
        self._given = [placeholders.index(node) for node in nodes if node.op == "placeholder"]
        computed = [node for node in nodes if node.op != "placeholder"]
        self._compute = _part_of(gm, placeholders, computed) if computed else None

    def __call__(self, given: Sequence[Any]) -> list[torch.Tensor]:
        found = [given[n] for n in self._given]
        return found if self._compute is None else [*found, *self._compute(*given)]


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
