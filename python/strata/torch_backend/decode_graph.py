"""Whether a graph of dynamo is a step of a decoder that the mega-kernel computes: one token a sequence through a dense
model of the Qwen3 or Llama-3 family, with caches of fixed length.

What decides is what the graph computes, not what its parts are called. The graph is cut at products, attention, the
embedding and the writes of caches. Each cut's result becomes a random tensor, and all between the cuts is run in
float64, at several positions and orders of magnitude. What each cut reads must then be what the model's formula makes
of the same tensors: norms, rotary embedding, heads, residuals and the gated unit are compared as real functions on
random arguments, wherever the model's code has written them in another way. Nothing else may have a part in it: what is
no weight, cache, token or position has no value there. That positions agree, and masks that do not follow from them, is
left to the run, which looks at the values (decode_run.py).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

Node = torch.fx.Node

_TOLERANCE = 1e-9  # of float64, beside the largest element; a term that is left out is larger by far
_SEED = 20_251
_MASKS_TRIED = 24  # positions
_DRAWN = 3  # positions at which all between cuts is run, beside the first ones and the last
_FAR = (131_075, 1_048_579)  # positions of caches whose length is a symbol
_MAGNITUDES = (1.0, 1e3, 1e-3)  # of what cuts give, one a position in turn
_HIDDEN = -1e30  # a mask that is added hides by less than that: no score is near it


class NotADecodeStep(Exception):
    """Why a graph is none."""


class SeveralTokens(NotADecodeStep):
    """It is a step of prompts, which kernels run."""


@dataclass
class Layer:
    """Nodes of a layer: its products in the order of the model's names, attention, caches, and gains of norms."""

    attention: Node
    keys: Node  # placeholders of the caches, [batch, heads, positions, head_dim]
    values: Node
    products: dict[str, Node] = field(default_factory=dict)
    gains: dict[str, Node] = field(default_factory=dict)


@dataclass
class DecodeGraph:
    """What the graph's placeholders are. `config` is as of a config.json, without what the run knows."""

    config: dict[str, Any]
    ids: Node
    weights: dict[str, Node]  # by the names of transformers
    frequencies: Node  # of the rotary embedding, [head_dim / 2]
    layers: list[Layer]
    counters: list[Node]  # numbers that the step adds 1 to, in place
    positions: list[Node]  # each must be the step's position
    masks: list[Node]  # each must hide what comes after it (hides_what_follows): those that do not follow from it
    head: Node
    results: Any  # of the graph


def recognize(graph: torch.fx.Graph) -> DecodeGraph:
    """Raises NotADecodeStep, with the first reason, where the graph is none."""
    try:
        return _Recognizer(graph).run()
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        # A graph may call what it calls in any way; one that cannot be read is not a step that is known.
        raise NotADecodeStep(f"it is written as no model that is known ({type(error).__name__}: {error})") from error


def name_of(node: Node) -> str:
    """Of the function or method that a node calls: "linear", "add", "view"."""
    return node.target if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))


def shape_of(node: Node) -> tuple[int, ...]:
    """Of a tensor; sizes that are symbols have the values that the graph was made with."""
    return tuple(_number(size) for size in node.meta["example_value"].shape)


def _number(size: Any) -> int:
    return size.node.hint if isinstance(size, torch.SymInt) else int(size)


def _is_tensor(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(node.meta.get("example_value"), torch.Tensor)


def ancestors(node: Node, stop: Iterable[Node] = ()) -> set[Node]:
    """All that a node depends on, itself included; not beyond `stop`, which are included too."""
    found: set[Node] = set()
    stop, todo = set(stop), [node]
    while todo:
        if (one := todo.pop()) not in found:
            found.add(one)
            if one not in stop:
                todo.extend(one.all_input_nodes)
    return found


def _is_in_place(node: Node) -> bool:
    name = name_of(node)
    if getattr(node.target, "__module__", "") == "_operator":  # whose and_ and or_ are not
        return name in ("setitem", "delitem") or hasattr(operator, f"__{name}__") and name.startswith("i") and \
            hasattr(operator, name[1:])
    return name.endswith("_") and not name.endswith("__")


def _counted(node: Node) -> Node:
    """The number that is one position: arange(1) + number."""
    if name_of(node) == "add" and all(_is_tensor(one) for one in node.args):
        ones = [one for one in node.args if name_of(one) == "arange" and one.args == (1,)]
        rest = [one for one in node.args if one not in ones]
        if len(ones) == 1 and rest[0].op == "placeholder":
            return rest[0]
    return node


def hides_what_follows(mask: torch.Tensor, position: Any, places: torch.Tensor) -> torch.Tensor:
    """Whether a mask of attention, of places [positions], lets see those up to the position, and no others."""
    seen = places <= position
    if mask.dtype == torch.bool:
        return (mask == seen).all()
    return torch.where(seen, mask == 0, mask <= _HIDDEN).all()


def argument(node: Node, place: int, name: str, default: Any = None) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def rms_norm(x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * gain


def rotated(x: torch.Tensor, frequencies: torch.Tensor, position: int) -> torch.Tensor:
    """Rotary embedding of heads [..., head_dim], pairs (i, i + head_dim / 2)."""
    angles = torch.cat([frequencies, frequencies]) * position
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


class _Recognizer:
    def __init__(self, graph: torch.fx.Graph):
        self._reads: set[Any] = set()  # ways in which caches are read, that were looked at
        self._nodes = list(graph.nodes)
        self._order = {node: n for n, node in enumerate(self._nodes)}
        self._calls = [n for n in self._nodes if n.op in ("call_function", "call_method")]
        self._random = torch.Generator().manual_seed(_SEED)
        self._values: dict[Node, Any] = {}

    def run(self) -> DecodeGraph:
        embedding = self._only("embedding")
        attentions = self._named("scaled_dot_product_attention")
        products = self._named("linear")
        writes = self._named("index_copy_")
        if not attentions or len(products) != 7 * len(attentions) + 1 or len(writes) != 2 * len(attentions):
            raise NotADecodeStep(
                f"it has {len(attentions)} attentions, {len(products)} products and {len(writes)} writes of caches, and "
                "a layer of Qwen3 or Llama-3 with a static cache has 1, 7 and 2, and the model a product more")
        cuts = {embedding, *attentions, *products, *writes}
        ids = embedding.args[0]
        if not _is_tensor(ids) or ids.op != "placeholder":
            raise NotADecodeStep("its tokens are computed in it")
        if len(shape_of(ids)) != 2 or shape_of(ids)[1] != 1:
            raise SeveralTokens(f"its tokens are {list(shape_of(ids))}, not one a sequence")
        self._batch = shape_of(ids)[0]
        for product in products:
            if argument(product, 2, "bias") is not None:
                raise NotADecodeStep("a product has a bias")
        counters = self._counters(writes)
        layers = [self._layer(attention, writes, cuts) for attention in attentions]
        head = products[-1]
        self._residual_products(layers, products, head)
        config = self._sizes(layers[0], embedding, layers)
        self._check_placement(ids, layers)
        frequencies, positions = self._arguments(ids, layers, cuts)
        self._check_reads(layers)
        config["rms_norm_eps"] = self._epsilon()
        last_gain = self._find_gains(layers, head, config["hidden_size"], cuts)
        length = shape_of(layers[0].keys)[2]
        is_symbol = isinstance(layers[0].keys.meta["example_value"].shape[2], torch.SymInt)
        drawn = torch.randint(0, length, (_DRAWN,), generator=self._random).tolist()
        tried = dict.fromkeys([min(5, length - 1), 0, length - 1, *drawn, *(_FAR if is_symbol else ())])
        for n, position in enumerate(tried):
            self._run_between(cuts, frequencies, positions, position, _MAGNITUDES[n % len(_MAGNITUDES)])
            self._compare(layers, embedding, head, last_gain, frequencies, config, position)
        weights = {"model.embed_tokens.weight": embedding.args[1], "model.norm.weight": last_gain}
        config["tie_word_embeddings"] = head.args[1] is embedding.args[1]
        if not config["tie_word_embeddings"]:
            weights["lm_head.weight"] = head.args[1]
        for n, layer in enumerate(layers):
            for name, node in (layer.gains | {name: one.args[1] for name, one in layer.products.items()}).items():
                weights[f"model.layers.{n}.{name}.weight"] = node
        for name, node in weights.items():
            if node.op != "placeholder" or node.meta["example_value"].dtype != torch.bfloat16:
                raise NotADecodeStep(f"{name} is no weight in bfloat16")
        masks = dict.fromkeys(argument(layer.attention, 3, "attn_mask") for layer in layers)
        results = self._nodes[-1].args[0]
        self._check_results(results, head, cuts, layers, counters)
        places = dict.fromkeys([*(_counted(write.args[2]) for write in writes), *positions])
        for one in {*places, *masks}:
            self._check_is_before(ancestors(one), cuts)
        given = [mask for mask in masks if is_symbol or not self._is_of_position(mask, {*positions, *counters}, length)]
        return DecodeGraph(config, ids, weights, frequencies, layers, counters, list(places), given, head, results)

    def _is_of_position(self, mask: Node, positions: set[Node], length: int) -> bool:
        """Whether a mask is a function of the position alone, which is then tried at the ends and at random. Another is
        left to the run."""
        chain = sorted(ancestors(mask), key=self._order.__getitem__)
        arguments = [node for node in chain if node.op == "placeholder"]
        if any(node not in positions for node in arguments):
            return False
        drawn = torch.randint(0, length, (_MASKS_TRIED,), generator=self._random).tolist()
        for position in (0, length - 1, *drawn):
            values = {node: _filled(node, position) for node in arguments}
            for node in chain:
                if node not in values:
                    values[node] = _in_double(node, values)
            if not hides_what_follows(values[mask], position, torch.arange(values[mask].shape[-1])):
                raise NotADecodeStep("its mask hides other positions than those after the step's")
        return True

    # ---- Structure

    def _named(self, name: str) -> list[Node]:
        return [node for node in self._calls if name_of(node) == name]

    def _only(self, name: str) -> Node:
        found = self._named(name)
        if len(found) != 1:
            raise NotADecodeStep(f"it has {len(found)} of {name}, not one")
        return found[0]

    def _counters(self, writes: Sequence[Node]) -> list[Node]:
        """What is changed in place beside caches: numbers to which 1 is added."""
        counters = []
        for node in self._calls:
            if node in writes or not _is_in_place(node):
                continue
            target = node.args[0]
            if name_of(node) != "add_" or not _is_tensor(target) or target.op != "placeholder" or node.args[1] != 1 \
                    or node.kwargs or target.meta["example_value"].numel() != 1 or node.users:
                raise NotADecodeStep(f"it changes a tensor in place by {name_of(node)}")
            counters.append(target)
        return counters

    def _check_is_before(self, nodes: set[Node], cuts: set[Node]) -> None:
        """Positions and masks depend on arguments alone, as these are before the step changes any."""
        if nodes & cuts:
            raise NotADecodeStep("its positions depend on what it computes")
        for node in nodes:
            for user in node.users if node.op == "placeholder" else ():
                if name_of(user) == "add_" and any(self._order[one] > self._order[user] for one in nodes & set(node.users)):
                    raise NotADecodeStep("its positions are counted before they are read")

    def _layer(self, attention: Node, writes: Sequence[Node], cuts: set[Node]) -> Layer:
        queries, keys, values = (attention.args[n] for n in range(3))
        caches = []
        for read in (keys, values):
            found = [one for one in ancestors(read, cuts) if one.op == "placeholder" and one in
                     {write.args[0] for write in writes}]
            if len(found) != 1:
                raise NotADecodeStep("attention does not read one cache of keys and one of values")
            caches.append(found[0])
        layer = Layer(attention, *caches)
        made = {"self_attn.q_proj": queries}
        for name, cache in zip(("self_attn.k_proj", "self_attn.v_proj"), caches, strict=True):
            (write,) = [one for one in writes if one.args[0] is cache]
            if write.args[1] != 2 or write.users or any(
                    self._order[user] < self._order[write] for user in cache.users if user is not write):
                raise NotADecodeStep("a cache is not written along its positions before it is read")
            made[name] = write.args[3]
        for name, node in made.items():
            above = ancestors(node, cuts)
            found = [one for one in above if one in cuts]
            if len(found) != 1 or name_of(found[0]) != "linear":
                raise NotADecodeStep(f"{name}: heads that are not made of one product")
            layer.products[name] = found[0]
            gains = [one for one in above if self._is_gain(one, shape_of(queries)[-1])]
            if name != "self_attn.v_proj" and len(gains) == 1:
                layer.gains[name.replace("_proj", "_norm")] = gains[0]
        return layer

    @staticmethod
    def _is_gain(node: Node, size: int) -> bool:
        return node.op == "placeholder" and _is_tensor(node) and shape_of(node) == (size,) and \
            node.meta["example_value"].dtype == torch.bfloat16

    def _residual_products(self, layers: Sequence[Layer], products: Sequence[Node], head: Node) -> None:
        """Those after attention. The graph's order is the model's: products depend on those before."""
        taken = {head, *(one for layer in layers for one in layer.products.values())}
        rest = [one for one in products if one not in taken]
        for n, layer in enumerate(layers):
            after = rest[4 * n:4 * n + 4]
            if len(after) != 4 or self._order[after[0]] < self._order[layer.attention]:
                raise NotADecodeStep("the products after attention are not those of the model")
            output, first, second, down = after
            between = ancestors(down.args[0], {first, second, output})
            silu = [one for one in between if name_of(one) == "silu"]
            gate_first = bool(silu) and first in ancestors(silu[0], {first, second, output})
            gate, up = (first, second) if gate_first else (second, first)
            layer.products |= {"self_attn.o_proj": output, "mlp.gate_proj": gate, "mlp.up_proj": up,
                               "mlp.down_proj": down}

    def _sizes(self, layer: Layer, embedding: Node, layers: Sequence[Layer]) -> dict[str, Any]:
        _, heads, _, columns = shape_of(layer.attention.args[0])
        vocabulary, hidden = shape_of(embedding.args[1])
        batch, groups, _, _ = shape_of(layer.keys)
        if batch != self._batch or heads % groups != 0:
            raise NotADecodeStep("caches have other sequences or heads than queries")
        norms = {name for one in layers for name in one.gains}
        self._norms = bool(norms)
        for one in layers:
            if shape_of(one.keys) != shape_of(layer.keys) or shape_of(one.values) != shape_of(layer.keys):
                raise NotADecodeStep("caches of layers differ")
            if bool(one.gains) != self._norms or len(one.gains) not in (0, 2):
                raise NotADecodeStep("queries and keys are not normalised alike in all layers")
            scale = argument(one.attention, 6, "scale")
            if argument(one.attention, 4, "dropout_p", 0.0) != 0 or argument(one.attention, 5, "is_causal", False) or \
                    not (scale is None or math.isclose(scale, columns ** -0.5, rel_tol=1e-6)):
                raise NotADecodeStep("attention has dropout, a scale of its own, or no mask")
            if not _is_tensor(argument(one.attention, 3, "attn_mask")):
                raise NotADecodeStep("attention has no mask, so it reads all of a static cache")
        kind = "qwen3" if self._norms else "llama"
        return {
            "model_type": kind, "architectures": ["Qwen3ForCausalLM" if self._norms else "LlamaForCausalLM"],
            "hidden_size": hidden, "vocab_size": vocabulary, "num_hidden_layers": len(layers),
            "num_attention_heads": heads, "num_key_value_heads": groups, "head_dim": columns,
            "intermediate_size": shape_of(layer.products["mlp.gate_proj"].args[1])[0],
            "hidden_act": "silu", "rope_theta": 10_000.0, "attention_bias": False,
        }

    @staticmethod
    def _check_results(results: Any, head: Node, cuts: set[Node], layers: Sequence[Layer],
                       counters: Sequence[Node]) -> None:
        """Logits and what follows from them, and arguments as they are. What is computed of those that the step changes
        depends on when that is done."""
        changed = {*counters, *(one for layer in layers for one in (layer.keys, layer.values))}
        for one in pytree.tree_leaves(results):
            above = ancestors(one, {head}) if isinstance(one, Node) and one.op != "placeholder" else set()
            if above & (cuts | changed) - {head}:
                raise NotADecodeStep("it returns more than logits")

    @staticmethod
    def _check_placement(ids: Node, layers: Sequence[Layer]) -> None:
        device = ids.meta["example_value"].device
        for layer in layers:
            for cache in (layer.keys.meta["example_value"], layer.values.meta["example_value"]):
                if cache.dtype != torch.bfloat16 or cache.device != device:
                    raise NotADecodeStep(f"a cache is {cache.dtype} on {cache.device}, not bfloat16 where the tokens are")

    # ---- What is computed between cuts

    def _draw(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._random, dtype=torch.float64)

    def _arguments(self, ids: Node, layers: Sequence[Layer], cuts: set[Node]) -> tuple[Node, list[Node]]:
        """The table of rotary frequencies, and the whole numbers that cuts depend on: positions, if it is a step."""
        self._above = set().union(*(ancestors(node, cuts) for cut in cuts for node in self._inputs(cut)))
        half = shape_of(layers[0].attention.args[0])[-1] // 2
        sizes = [ids.meta["example_value"].shape[0], *layers[0].keys.meta["example_value"].shape]
        lengths = {str(size.node.expr) for size in sizes if isinstance(size, torch.SymInt)}
        positions, frequencies = [], []
        of_queries = set().union(*(ancestors(layer.attention.args[0], cuts) for layer in layers))
        for node in self._nodes:
            example = node.meta.get("example_value")
            if node.op != "placeholder" or node is ids:
                continue
            if isinstance(example, torch.SymInt) and str(example.node.expr) in lengths:
                self._values[node] = _number(example)
            elif node not in self._above:
                continue
            elif isinstance(example, torch.Tensor) and example.dtype in (torch.int64, torch.int32):
                positions.append(node)
            elif _is_tensor(node) and shape_of(node) == (half,) and node in of_queries:
                frequencies.append(node)
        if len(frequencies) != 1:
            raise NotADecodeStep("there is no one table of rotary frequencies")
        return frequencies[0], positions

    @staticmethod
    def _inputs(cut: Node) -> list[Node]:
        """What a cut computes with, but for weights, caches and masks."""
        places = {"linear": (0,), "scaled_dot_product_attention": (0,), "index_copy_": (2, 3)}
        return [cut.args[n] for n in places.get(name_of(cut), ())]

    def _run_between(self, cuts: set[Node], frequencies: Node, positions: Sequence[Node], position: int,
                     magnitude: float) -> None:
        """Runs all between cuts, whose results are random tensors of that magnitude."""
        kept = {node: value for node, value in self._values.items() if isinstance(value, int)}
        self._values = kept | {node: _filled(node, position) for node in positions}
        self._values[frequencies] = self._draw(*shape_of(frequencies)).abs() + 0.1
        for node in self._above:
            if node.op == "placeholder" and _is_tensor(node) and node.meta["example_value"].ndim == 1 and \
                    node.meta["example_value"].dtype == torch.bfloat16 and node not in self._values:
                self._values[node] = self._draw(*shape_of(node))
        self._values |= {node: self._draw(*shape_of(node)) * magnitude for node in cuts if name_of(node) != "index_copy_"}
        for node in self._calls:
            if node in self._above and node not in cuts and all(one in self._values for one in node.all_input_nodes):
                self._values[node] = _in_double(node, self._values)

    def _check_reads(self, layers: Sequence[Layer]) -> None:
        for layer in layers:
            grouped = argument(layer.attention, 7, "enable_gqa", False)
            for cache, read in ((layer.keys, layer.attention.args[1]), (layer.values, layer.attention.args[2])):
                self._check_read(cache, read, shape_of(layer.attention.args[0])[1], grouped)

    def _check_read(self, cache: Node, read: Node, heads: int, grouped: bool) -> None:
        """Attention reads the cache, and each head of it as often as queries share it. Numbers are small integers: they
        are only moved. What layers have alike is looked at once."""
        chain = sorted(ancestors(read, {cache}), key=self._order.__getitem__)
        key = "\n".join(f"{chain.index(one) if one is not cache else -1} {name_of(one)} "
                        f"{map_arg((one.args, one.kwargs), lambda a: chain.index(a) if a in chain else str(a))}"
                        for one in chain if one.op != "placeholder")
        if key in self._reads:
            return
        self._reads.add(key)
        values = {one: self._values[one] for one in chain if isinstance(self._values.get(one), int)}
        values[cache] = torch.randint(-100, 100, shape_of(cache), generator=self._random, dtype=torch.int8)
        for one in chain:
            if one not in values:
                values[one] = _in_double(one, values)
        expected = values[cache]
        if not (grouped and values[read].shape[1] == expected.shape[1]):
            expected = expected.repeat_interleave(heads // expected.shape[1], 1)
        if values[read].shape != expected.shape or not torch.equal(values[read], expected):
            raise NotADecodeStep("attention does not read its cache as it is")

    def _find_gains(self, layers: Sequence[Layer], head: Node, hidden: int, cuts: set[Node]) -> Node:
        """Those of the layers' norms, and the last norm's."""

        def gain_of(node: Node) -> Node:
            found = [one for one in ancestors(node, cuts) if self._is_gain(one, hidden)]
            # Those of earlier norms are not among them: a product lies between.
            if len(found) != 1:
                raise NotADecodeStep("a norm does not have one gain")
            return found[0]

        for layer in layers:
            layer.gains["input_layernorm"] = gain_of(layer.products["self_attn.q_proj"].args[0])
            layer.gains["post_attention_layernorm"] = gain_of(layer.products["mlp.gate_proj"].args[0])
        return gain_of(head.args[0])

    def _compare(self, layers: Sequence[Layer], embedding: Node, head: Node, last_gain: Node, frequencies: Node,
                 config: dict[str, Any], position: int) -> None:
        """Each cut's arguments beside the model's formula."""
        values, table = self._values, self._values[frequencies]
        heads, groups, columns = (config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        epsilon = config["rms_norm_eps"]

        def check(what: str, node: Node, expected: torch.Tensor) -> None:
            if node not in values:
                raise NotADecodeStep(f"{what} depends on more than in the model")
            found = values[node]
            if found.shape != expected.shape or not (found - expected).abs().max() <= _TOLERANCE * expected.abs().max():
                raise NotADecodeStep(f"{what} is not what Qwen3 and Llama-3 compute")

        def by_head(x: torch.Tensor, count: int) -> torch.Tensor:
            return x.reshape(self._batch, 1, count, columns).transpose(1, 2)

        residual = values[embedding]
        for n, layer in enumerate(layers):
            where = f"of layer {n}"
            products = layer.products
            (q, k, v) = (products[f"self_attn.{name}_proj"] for name in "qkv")
            normed = rms_norm(residual, values[layer.gains["input_layernorm"]], epsilon)
            for name, node in zip("qkv", (q, k, v), strict=True):
                check(f"the input of {name}_proj {where}", node.args[0], normed)
            writes = {one.args[0]: one for one in layer.keys.users | layer.values.users if name_of(one) == "index_copy_"}
            for name, product, count, node in (("q", q, heads, layer.attention.args[0]),
                                               ("k", k, groups, writes[layer.keys].args[3])):
                made = by_head(values[product], count)
                if self._norms:
                    made = rms_norm(made, values[layer.gains[f"self_attn.{name}_norm"]], epsilon)
                check(f"{name} {where}", node, rotated(made, table, position))
            check(f"v {where}", writes[layer.values].args[3], by_head(values[v], groups))
            output = products["self_attn.o_proj"]
            mixed = values[layer.attention].transpose(1, 2).reshape(self._batch, 1, heads * columns)
            check(f"the input of o_proj {where}", output.args[0], mixed)
            residual = residual + values[output]
            gate, up, down = (products[f"mlp.{name}_proj"] for name in ("gate", "up", "down"))
            normed = rms_norm(residual, values[layer.gains["post_attention_layernorm"]], epsilon)
            check(f"the input of gate_proj {where}", gate.args[0], normed)
            check(f"the input of up_proj {where}", up.args[0], normed)
            check(f"the input of down_proj {where}", down.args[0], F.silu(values[gate]) * values[up])
            residual = residual + values[down]
        check("the input of lm_head", head.args[0], rms_norm(residual, values[last_gain], epsilon))

    def _epsilon(self) -> float:
        """The one small number of the graph. Whether it is the norms', the comparison says."""
        found = {one for node in self._calls for one in pytree.tree_leaves((node.args, node.kwargs))
                 if isinstance(one, float) and 0 < one < 1e-2}
        if len(found) != 1:
            raise NotADecodeStep(f"its norms have {len(found)} epsilons, not one")
        return found.pop()


def _filled(node: Node, position: int) -> torch.Tensor:
    """A whole number's argument that has the position, once for each sequence or for all."""
    return torch.full(shape_of(node), position, dtype=node.meta["example_value"].dtype)


def _in_double(node: Node, values: dict[Node, Any]) -> Any:
    """What a node makes of values, in float64 and on the host whatever the graph says."""
    if node.op == "placeholder":
        raise NotADecodeStep(f"it depends on {node.name}, which is no cache, token or position")

    def plain(one: Any) -> Any:
        if isinstance(one, torch.dtype) and one.is_floating_point:
            return torch.float64
        return torch.device("cpu") if isinstance(one, torch.device) else one

    args, kwargs = pytree.tree_map(plain, (map_arg(node.args, values.__getitem__),
                                           map_arg(node.kwargs, values.__getitem__)))
    kwargs = {name: torch.device("cpu") if name == "device" and one is not None else one for name, one in kwargs.items()}
    if node.op == "call_function":
        return node.target(*args, **kwargs)
    name = "double" if name_of(node) in ("float", "half", "bfloat16") else node.target
    args = [one for one in args if not (isinstance(one, str) and name in ("to", "cuda", "cpu"))]
    if name in ("cuda", "cpu") or (name == "to" and len(args) == 1 and not kwargs):
        return args[0]
    return getattr(args[0], name)(*args[1:], **kwargs)
