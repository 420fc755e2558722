"""Published configurations of Hugging Face models, and how hf_real_models.py calls them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Kind:
    """A model: the classes of its configuration and of itself, its configuration, and what it is called with.
    `tiny` are the arguments that --small replaces; `depth` the names of its numbers of layers."""

    config: str
    model: str
    sizes: dict[str, Any]
    tiny: dict[str, Any]
    tokens: int = 512
    batch: int = 1
    depth: str = "num_hidden_layers"
    input: str = "input_ids"


_TINY = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=96)

_KINDS = {
    "qwen3-0.6b": Kind("Qwen3Config", "Qwen3ForCausalLM", dict(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, tie_word_embeddings=True,
        rms_norm_eps=1e-6), {**_TINY, "head_dim": 8}),
    "llama-3.2-1b": Kind("LlamaConfig", "LlamaForCausalLM", dict(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=131072, tie_word_embeddings=True,
        rms_norm_eps=1e-5), {**_TINY, "head_dim": 8}),
    "mistral-7b": Kind("MistralConfig", "MistralForCausalLM", dict(
        vocab_size=32768, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=32768, sliding_window=None, rms_norm_eps=1e-5),
        {**_TINY, "head_dim": 8}),
    "gemma-2-2b": Kind("Gemma2Config", "Gemma2ForCausalLM", dict(
        vocab_size=256000, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8,
        num_key_value_heads=4, head_dim=256, max_position_embeddings=8192, sliding_window=4096), {**_TINY, "head_dim": 8}),
    "phi-2": Kind("PhiConfig", "PhiForCausalLM", dict(
        vocab_size=51200, hidden_size=2560, intermediate_size=10240, num_hidden_layers=32, num_attention_heads=32,
        max_position_embeddings=2048, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.4)),
        {**{k: v for k, v in _TINY.items() if k != "num_key_value_heads"}, "rope_parameters": dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)}),
    "gpt2": Kind("GPT2Config", "GPT2LMHeadModel", dict(vocab_size=50257, n_embd=768, n_layer=12, n_head=12, n_positions=1024),
                 dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4), depth="n_layer"),
    "bert-base": Kind("BertConfig", "BertModel", dict(
        vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072),
        {k: v for k, v in _TINY.items() if k != "num_key_value_heads"}, tokens=128, batch=8),
    "vit-base": Kind("ViTConfig", "ViTModel", dict(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, image_size=224,
        patch_size=16), dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                             image_size=32, patch_size=8), tokens=197, batch=8, input="pixel_values"),
    "whisper-small-encoder": Kind("WhisperConfig", "WhisperEncoder", dict(
        d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072, num_mel_bins=80,
        max_source_positions=1500), dict(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=48,
                                         num_mel_bins=16, max_source_positions=20),
        tokens=1500, depth="encoder_layers", input="input_features"),
    "mamba-130m": Kind("MambaConfig", "MambaForCausalLM", dict(
        vocab_size=50280, hidden_size=768, num_hidden_layers=24, state_size=16),
        dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8)),
    "olmoe-1b-7b": Kind("OlmoeConfig", "OlmoeForCausalLM", dict(
        vocab_size=50304, hidden_size=2048, intermediate_size=1024, num_hidden_layers=16, num_attention_heads=16,
        num_key_value_heads=16, num_experts=64, num_experts_per_tok=8),
        {**_TINY, "num_experts": 4, "num_experts_per_tok": 2}),
}

#: Rows that decode a token with a static cache.
DECODES = {f"{name}-decode": name for name in ("qwen3-0.6b", "llama-3.2-1b", "mistral-7b", "gemma-2-2b", "phi-2",
                                               "olmoe-1b-7b")}
MODELS = {**{name: name for name in _KINDS}, **DECODES}

#: Layers of rows that are cut where --layers is not given, so that a row ends in minutes.
CUT = {"mistral-7b": 8, "mistral-7b-decode": 8, "olmoe-1b-7b": 4, "olmoe-1b-7b-decode": 4, "mamba-130m": 4}


@dataclasses.dataclass
class Case:
    """A model with its inputs. `cache(dtype)` makes a cache that is full up to `position`, or None."""

    model: Any
    batch: int
    tokens: int
    layers: int
    of_layers: int
    position: int
    cache: Callable[[Any], Any]
    results: Callable[[Any, Any], list[Any]]


def build(name: str, device: str, dtype, *, layers: int | None, tokens: int | None, batch: int | None, keys: int,
          small: bool) -> Case:
    """The row's model on the device, of random weights. None: the row's own sizes; of models that take pictures or
    recordings, the tokens are their own in any case."""
    import torch
    import transformers as hf

    kind, decodes = _KINDS[MODELS[name]], name in DECODES
    sizes = {**kind.sizes, **kind.tiny} if small else dict(kind.sizes)
    of_layers = sizes[kind.depth]
    count = min(of_layers, layers or (of_layers if small else CUT.get(name, of_layers)))
    sizes[kind.depth] = count
    config = getattr(hf, kind.config)(**sizes)
    if kind.config == "BertConfig":
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model_class = getattr(hf, kind.model, None) or getattr(hf.models.whisper.modeling_whisper, kind.model)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = model_class(config)
    finally:
        torch.set_default_dtype(before)
    model = model.to(dtype).eval().requires_grad_(False)
    batch = batch or (2 if small else kind.batch)
    tokens = 1 if decodes else kind.tokens if kind.input != "input_ids" else tokens or (13 if small else kind.tokens)
    keys = 32 if small else keys
    position = keys // 2
    generator = torch.Generator(device).manual_seed(1)
    given = {"dtype": dtype, "device": device, "generator": generator}
    if kind.input == "pixel_values":
        inputs = torch.randn(batch, 3, config.image_size, config.image_size, **given)
        tokens = (config.image_size // config.patch_size) ** 2 + 1
    elif kind.input == "input_features":
        tokens = config.max_source_positions
        inputs = torch.randn(batch, config.num_mel_bins, 2 * tokens, **given)
    else:
        inputs = torch.randint(3, config.vocab_size, (batch, tokens), device=device, generator=generator)
    takes = inspect.signature(inspect.unwrap(type(model).forward)).parameters
    cache_name = "cache" if "cache" in takes else "past_key_values"
    named = {"use_cache": False} if hasattr(config, "use_cache") and "use_cache" in takes else {}

    def cache(kind_of):
        return make_cache(config, batch, keys, position, device, kind_of) if decodes else None

    def results(model, cache):
        more = {cache_name: cache, "use_cache": True} if cache is not None else named
        found = model(**{kind.input: inputs.to(model.dtype) if inputs.is_floating_point() else inputs}, **more)
        return [found[k] for k in ("logits", "last_hidden_state", "pooler_output") if k in found and found[k] is not None]

    return Case(model, batch, tokens, count, of_layers, position, cache, results)


def make_cache(config, batch: int, keys: int, position: int, device: str, dtype):
    """A static cache of `keys` positions; the first `position` have random keys and values, the same in each type."""
    import torch
    import transformers as hf

    cache = hf.StaticCache(config=config, max_cache_len=keys)
    generator = torch.Generator(device).manual_seed(2)
    heads = config.num_key_value_heads or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for layer in cache.layers:
        shape = (batch, heads, 1, head)
        layer.lazy_initialization(*(torch.empty(shape, dtype=dtype, device=device) for _ in range(2)))
        for array in (layer.keys, layer.values):
            drawn = torch.randn(array[:, :, :position].shape, dtype=torch.bfloat16, device=device, generator=generator)
            array[:, :, :position] = drawn
    reset_cache(cache, position)
    return cache


def reset_cache(cache, position: int) -> None:
    """The next token is at `position`. Rows from there on are overwritten, and hidden until then."""
    for layer in cache.layers if cache is not None else ():
        layer.cumulative_length.fill_(position)
        if hasattr(layer, "cumulative_length_int"):
            layer.cumulative_length_int = position
