"""mode="megakernel": a graph that is a decoder's step, run by the mega-kernel (docs/torch-front-end.md, Decoding).

The mega-kernel has its own copies of weights and caches, in its own order. Before a step, keys and values come from the
caller's caches, unless all that these hold is of this decoder's steps; after it, its row goes there. So the model's
code, generate() of transformers and other graphs see the caches that torch's would leave. A call that is another step
than the decoder's (sequences that are padded, logits that are not finite) runs in torch.
"""

from __future__ import annotations

import json
import logging
import operator
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from strata import _core, arguments
from strata._core import Error
from strata.module import device_for

from .decode_graph import (
    DecodeGraph, Node, NotADecodeStep, SeveralTokens, ancestors, hides_what_follows, recognize, shape_of,
)
from .places import log

_ARCHITECTURE = "sm_90a"


class _OtherStep(Exception):
    """Why a call is not one that the decoder computes."""


def decode_step(gm: torch.fx.GraphModule) -> DecodeStep | None:
    """The step that a graph is; None, with a line of the log, where it is none."""
    try:
        if torch.is_grad_enabled():
            raise NotADecodeStep("gradients are enabled; call it under torch.no_grad()")
        found = recognize(gm.graph)
        _check_device(found)
    except NotADecodeStep as reason:
        level = logging.INFO if isinstance(reason, SeveralTokens) else logging.WARNING
        log.log(level, "a graph runs by kernels, not as one persistent kernel: %s", reason)
        return None
    return DecodeStep(gm, found)


def _device_of(found: DecodeGraph) -> tuple[str, _core.Device | None]:
    """What strata.Decoder calls the device of the graph's tensors."""
    device = found.ids.meta["example_value"].device
    if device.type == "cpu":
        return "host", None
    if device.type != "cuda" or device.index not in (None, 0):
        raise NotADecodeStep(f"the mega-kernel runs on the first GPU; the tensors are on {device}")
    gpu = device_for("gpu")
    if gpu is None or gpu.architecture != _ARCHITECTURE:
        raise NotADecodeStep(f"the mega-kernel is for {_ARCHITECTURE}; this is {gpu.architecture if gpu else device}")
    return "gpu", gpu


def _check_device(found: DecodeGraph) -> None:
    kind, _ = _device_of(found)
    if kind == "gpu":
        try:
            _core.check_decoder(json.dumps(found.config | {"max_position_embeddings": 1}), shape_of(found.ids)[0])
        except Error as error:
            raise NotADecodeStep(" ".join(str(error).split())) from error


class _Seen:
    """Tensors as they were: the same ones, and nobody has written to them since. Writes through .data torch does not
    count, nor any in inference mode."""

    def __init__(self, tensors: Sequence[torch.Tensor]):
        self._tensors = [weakref.ref(tensor) for tensor in tensors]
        self._stamps = _stamps(tensors)

    def holds(self, tensors: Sequence[torch.Tensor]) -> bool:
        same = all(map(operator.is_, [one() for one in self._tensors], tensors))
        return same and self._stamps == _stamps(tensors)


def _stamps(tensors: Sequence[torch.Tensor]) -> tuple:
    try:
        versions = [tensor._version for tensor in tensors]
    except RuntimeError:  # in inference mode
        versions = None
    return versions, [tensor.data_ptr() for tensor in tensors]


class _Model:
    """A decoder of some weights, with the state that its caches are in."""

    def __init__(self, core: _core.Decoder, capacity: int, weights: Sequence[torch.Tensor], kept: list[torch.Tensor]):
        self.core, self.capacity = core, capacity
        # The caller's caches and counters as the last step left them, and the next position: what this decoder's caches
        # hold, as long as nobody has written to those.
        self.mirrors: tuple[_Seen, int] | None = None
        self.next = 0  # after the last step, whoever's caches these were
        self.weights = _Seen(weights)
        self.sums = _sums(weights)
        self._kept = kept  # weights that the interpreter reads where they lie


def _sums(weights: Sequence[torch.Tensor]) -> list[int]:
    """Sums of the weights' bits, exact: what has changed where torch does not count."""
    bits = [weight.detach().reshape(-1).view(torch.int16 if weight.element_size() == 2 else torch.int32)
            for weight in weights]
    return torch.stack([one.sum() for one in bits]).tolist()


# By the embeddings' tensor: decoders of these weights. Graphs of other lengths of caches share them.
_MODELS = WeakTensorKeyDictionary()
# One step at a time: a persistent kernel has the whole GPU, and a decoder has one state.
_ALONE = threading.RLock()


class DecodeStep:
    """A graph of dynamo as a function of its arguments."""

    def __init__(self, gm: torch.fx.GraphModule, found: DecodeGraph):
        self._gm, self._found = gm, found
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        at = {node: n for n, node in enumerate(placeholders)}
        self._ids = at[found.ids]
        self._weights = {name: at[node] for name, node in found.weights.items()}
        self._embeddings = self._weights["model.embed_tokens.weight"]
        self._frequencies = at[found.frequencies]
        self._constants = [*self._weights.values(), self._frequencies]
        self._caches = [n for layer in found.layers for n in (at[layer.keys], at[layer.values])]
        self._counters = [at[node] for node in found.counters]
        self._changed = [*self._caches, *self._counters]
        self._positions = _Part(gm, placeholders, [node for node in found.positions if node not in found.counters])
        self._masks = _Part(gm, placeholders, found.masks)
        self._config = tuple(sorted((name, str(value)) for name, value in found.config.items()))
        plain = found.results in ((found.head,), [found.head])
        self._results = None if plain else _part_of(gm, [*placeholders, found.head], found.results)
        self._places: dict[tuple, torch.Tensor] = {}
        self._reasons: set[str] = set()  # that were said
        self._failed = False

    def __call__(self, *given: Any) -> Any:
        with torch.no_grad(), _ALONE:
            if not self._failed:
                try:
                    position, tokens = self._look(given)
                    return self._run(given, position, tokens)
                except _OtherStep as reason:
                    self._say(str(reason))
                except Error as error:
                    self._failed = True
                    _MODELS.get(given[self._embeddings], {}).pop(self._key(given), None)
                    self._say(f"from now on, since the decoder says: {' '.join(str(error).split())}")
            return self._gm(*given)

    def _say(self, reason: str) -> None:
        if reason not in self._reasons:
            self._reasons.add(reason)
            log.warning("a decode step runs in torch, operator by operator: %s", reason)

    def _look(self, given: Sequence[Any]) -> tuple[int, list[int]]:
        """The step's position and tokens. Raises _OtherStep where sequences have different ones or hide their past."""
        ids = given[self._ids]
        counted = self._next_position(given) if self._counters else None
        numbers = [one.reshape(-1) for one in self._positions(given)]
        if counted is None:
            numbers += [given[n].reshape(-1) for n in self._counters]
        allowed = []
        for mask in self._masks(given):
            position = numbers[0][:1] if counted is None else counted
            allowed.append(hides_what_follows(mask, position, self._range(mask.shape[-1], mask.device)).reshape(1))
        # Read at once: each look waits for the GPU.
        parts = [*numbers, *allowed, ids.reshape(-1)]
        flat = torch.cat([one if one.dtype == torch.int64 and one.device == ids.device
                          else one.to(ids.device, torch.int64) for one in parts]).tolist()
        end = sum(one.numel() for one in numbers)
        positions = flat[:end] if counted is None else [counted, *flat[:end]]
        if any(one != positions[0] for one in positions):
            raise _OtherStep("its sequences are at different positions, as those that are padded")
        if not all(flat[end:end + len(allowed)]):
            raise _OtherStep("its mask hides other positions than those after the step's, as of sequences that are padded")
        return positions[0], flat[end + len(allowed):]

    def _key(self, given: Sequence[Any]) -> tuple:
        """Of the decoder among those of these embeddings."""
        return given[self._ids].shape[0], id(given[self._constants[-2]]), self._config

    def _next_position(self, given: Sequence[Any]) -> int | None:
        """What counters hold, where nobody has written to them or to caches since the step before."""
        model = _MODELS.get(given[self._embeddings], {}).get(self._key(given))
        return model.mirrors[1] if model is not None and self._is_mirrored(model, given) else None

    def _is_mirrored(self, model: _Model, given: Sequence[Any]) -> bool:
        return model.mirrors is not None and model.mirrors[0].holds([given[n] for n in self._changed])

    def _range(self, count: int, device: torch.device) -> torch.Tensor:
        if (count, device) not in self._places:
            self._places[count, device] = torch.arange(count, device=device)
        return self._places[count, device]

    def _run(self, given: Sequence[Any], position: int, tokens: list[int]) -> Any:
        caches = [given[n] for n in self._caches]
        if not all(cache.is_contiguous() for cache in caches):
            raise _OtherStep("a cache is not contiguous")
        _, heads, length, columns = caches[0].shape
        if (heads, columns) != (self._found.config["num_key_value_heads"], self._found.config["head_dim"]):
            raise _OtherStep("its caches have other heads")
        model = self._known(given, length)
        takes = model is None or not self._is_mirrored(model, given) or model.mirrors[1] != position
        begins = takes and model is not None and position != model.next
        if begins and model.sums != _sums([given[n] for n in self._constants]):
            model = None  # weights were changed where torch does not count
        model = model or self._open(given, length)
        model.mirrors, model.next = None, position + 1
        logits = torch.empty(len(tokens), self._found.config["vocab_size"], dtype=torch.bfloat16,
                             device=given[self._ids].device)
        pointers = [cache.data_ptr() for cache in caches]
        model.core.step(tokens, position, list(zip(pointers[::2], pointers[1::2], strict=True)), length, takes,
                        logits.data_ptr())
        if self._counters:
            torch._foreach_add_([given[n] for n in self._counters], 1)
        if not any(given[n].is_inference() for n in self._changed):
            torch.autograd.graph.increment_version(caches)
            model.mirrors = (_Seen([given[n] for n in self._changed]), position + 1)
        logits = logits.view(len(tokens), 1, -1)
        return (logits,) if self._results is None else self._results(*given, logits)

    def _known(self, given: Sequence[Any], length: int) -> _Model | None:
        """The decoder of the weights as they are now, if there is one."""
        model = _MODELS.get(given[self._embeddings], {}).get(self._key(given))
        if model is None or model.capacity < length or not model.weights.holds([given[n] for n in self._constants]):
            return None
        return model

    def _open(self, given: Sequence[Any], length: int) -> _Model:
        models = _MODELS.setdefault(given[self._embeddings], {})
        models.pop(self._key(given), None)  # its memory goes first
        device, gpu = _device_of(self._found)
        capacity = length if device == "host" else max(1024, 1 << (length - 1).bit_length())
        config = self._found.config | {"max_position_embeddings": capacity}
        batch = given[self._ids].shape[0]
        log.info("a decoder's step becomes one persistent kernel: %d layers, %d sequences, %d positions",
                 config["num_hidden_layers"], batch, capacity)
        kept, tensors = [], []
        for name, n in self._weights.items():
            tensor = given[n].detach().cpu().contiguous()
            tensors.append((name, "BF16", list(tensor.shape), tensor.data_ptr()))
            kept.append(tensor)
        frequencies = given[self._frequencies].detach().float().cpu().tolist()

        def opened() -> _core.Decoder:
            return _core.Decoder.open("text", json.dumps(config), frequencies, "", tensors, None, device, gpu,
                                      "auto" if device == "gpu" else "megakernel", batch, capacity,
                                      arguments.cache_folder(None))

        try:
            core = opened()
        except Error:
            if not models:
                raise
            models.clear()  # those of other batches, whose memory may be what is missing
            core = opened()
        log.info("%s", core.description)
        model = _Model(core, capacity, [given[n] for n in self._constants], kept if device == "host" else [])
        models[self._key(given)] = model
        return model


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
