"""The modules of modules.py: functions of JAX with the shapes, types and ranges of their arguments, by family.

A builder makes one function and its arguments from sizes. @module registers it once for each name, with real sizes and
with small ones, which an interpreter on a CPU runs in seconds.
"""
import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

F32, BF16, I32, I8, F8 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8, jnp.float8_e4m3fn


@dataclasses.dataclass(frozen=True)
class Arg:
    """An array: normal with a standard deviation, or uniform in [low, high) where these are given."""
    shape: tuple
    dtype: object
    scale: float = 1.0
    low: float | None = None
    high: float | None = None
    sorted: bool = False


@dataclasses.dataclass(frozen=True)
class Module:
    family: str
    build: object             # small? -> function, arguments
    tolerance: float = 1.0    # times what floats may differ by
    mismatch: float = 0.0     # share of elements that may differ by more, where rounding decides between values
    donated: dict = dataclasses.field(default_factory=dict)  # argument -> the output that takes its memory


MODULES = {}


def module(name, family, real, small, **checks):
    def register(builder):
        assert name not in MODULES, name
        MODULES[name] = Module(family, lambda is_small: builder(**{**real, **(small if is_small else {})}), **checks)
        return builder
    return register


def f32(*shape, scale=1.0):
    return Arg(shape, F32, scale)


def bf16(*shape, scale=1.0):
    return Arg(shape, BF16, scale)


def weights(type_, *shape):
    """Whose products keep the magnitude: the last two dimensions are inputs and outputs."""
    return Arg(shape, type_, shape[-2] ** -0.5)


def around_one(type_, *shape):
    return Arg(shape, type_, low=0.5, high=1.5)


def ints(high, *shape, low=0, dtype=I32, in_order=False):
    return Arg(shape, dtype, low=low, high=high, sorted=in_order)


def key():
    return Arg((2,), jnp.uint32, low=0, high=2**32)


def key_of(data):
    return jax.random.wrap_key_data(data, impl="threefry2x32")


def backward(function):
    """(cotangent, arguments) -> gradients of the arguments."""
    return lambda cotangent, *arguments: jax.vjp(function, *arguments)[1](cotangent)


# Norms.

def layer_norm(x, scale, bias):
    wide = x.astype(F32)
    centred = wide - wide.mean(-1, keepdims=True)
    normed = centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return (normed * scale.astype(F32) + bias.astype(F32)).astype(x.dtype)


def rms_norm(x, scale):
    wide = x.astype(F32)
    return (wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def group_norm(x, scale, bias, groups=32):
    images, height, width, channels = x.shape
    wide = x.astype(F32).reshape(images, height * width, groups, channels // groups)
    mean, variance = wide.mean((1, 3), keepdims=True), wide.var((1, 3), keepdims=True)
    normed = ((wide - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return (normed * scale + bias).astype(x.dtype)


def batch_norm(x, scale, bias):
    """In training: by the batch's own moments, which are returned too."""
    wide = x.astype(F32)
    mean, square = wide.mean((0, 1, 2)), jnp.square(wide).mean((0, 1, 2))
    variance = square - jnp.square(mean)
    return ((wide - mean) * (lax.rsqrt(variance + 1e-5) * scale) + bias).astype(x.dtype), mean, variance


ROWS, SMALL_ROWS = {"rows": 8192, "width": 4096}, {"rows": 24, "width": 160}


@module("layer_norm_f32", "norms", {**ROWS, "type_": F32, "grad": False}, SMALL_ROWS)
@module("layer_norm_bf16", "norms", {**ROWS, "type_": BF16, "grad": False}, SMALL_ROWS)
@module("layer_norm_grad_f32", "norms", {**ROWS, "type_": F32, "grad": True}, SMALL_ROWS)
@module("layer_norm_grad_bf16", "norms", {**ROWS, "type_": BF16, "grad": True}, SMALL_ROWS)
def _(rows, width, type_, grad):
    x, gain = Arg((rows, width), type_), around_one(type_, width)
    return (backward(layer_norm), x, x, gain, gain) if grad else (layer_norm, x, gain, gain)


@module("rms_norm_bf16", "norms", {**ROWS, "grad": False}, SMALL_ROWS)
@module("rms_norm_grad_bf16", "norms", {**ROWS, "grad": True}, SMALL_ROWS)
def _(rows, width, grad):
    x, gain = bf16(rows, width), around_one(BF16, width)
    return (backward(rms_norm), x, x, gain) if grad else (rms_norm, x, gain)


@module("add_rms_norm_bf16", "norms", {"rows": 16384, "width": 4096}, SMALL_ROWS)
def _(rows, width):
    def add_norm(x, residual, gain):
        total = x + residual
        return rms_norm(total, gain), total
    return add_norm, bf16(rows, width), bf16(rows, width), around_one(BF16, width)


GROUPS, SMALL_GROUPS = {"images": 16, "size": 64, "channels": 320}, {"images": 2, "size": 6, "channels": 64}


@module("group_norm_silu_bf16", "norms", {**GROUPS, "grad": False}, SMALL_GROUPS)
@module("group_norm_grad_bf16", "norms", {**GROUPS, "grad": True}, SMALL_GROUPS)
def _(images, size, channels, grad):
    x, gain = bf16(images, size, size, channels), around_one(F32, channels)
    if grad:
        return backward(group_norm), x, x, gain, gain
    return lambda x, scale, bias: jax.nn.silu(group_norm(x, scale, bias)), x, gain, gain


IMAGES, SMALL_IMAGES = {"images": 64, "size": 56, "channels": 128}, {"images": 2, "size": 7, "channels": 24}


@module("batch_norm_f32", "norms", {**IMAGES, "grad": False}, SMALL_IMAGES)
@module("batch_norm_grad_f32", "norms", {**IMAGES, "grad": True}, SMALL_IMAGES)
def _(images, size, channels, grad):
    x, gain = f32(images, size, size, channels), around_one(F32, channels)
    if grad:
        return backward(lambda *arguments: batch_norm(*arguments)[0]), x, x, gain, gain
    return batch_norm, x, gain, gain


@module("variance_of_columns_bf16", "norms", {"rows": 65536, "columns": 1000}, {"rows": 300, "columns": 25})
def _(rows, columns):
    return lambda x: jnp.var(x, axis=0), bf16(rows, columns)


@module("softmax_grad_bf16", "norms", {"rows": 16384, "width": 2048}, SMALL_ROWS)
def _(rows, width):
    return backward(lambda x: jax.nn.softmax(x.astype(F32)).astype(BF16)), bf16(rows, width), bf16(rows, width)


# Attention, of [batch, length, heads, size].

def attention(q, k, v, change=lambda scores: scores):
    groups = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(a, groups, 2) if groups > 1 else a for a in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32) * q.shape[-1] ** -0.5
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(change(scores)).astype(v.dtype), v)


def distances(scores):
    """How far the key lies behind the query."""
    queries, keys = scores.shape[-2:]
    return jnp.arange(queries)[:, None] - jnp.arange(keys)[None, :]


def causal(scores, window=None):
    behind = distances(scores)
    seen = behind >= 0 if window is None else (behind >= 0) & (behind < window)
    return jnp.where(seen, scores, -1e30)


def alibi(scores):
    slopes = 2.0 ** (-8 * jnp.arange(1, scores.shape[1] + 1) / scores.shape[1])
    return causal(scores - slopes[:, None, None] * distances(scores))


def softcap(scores):
    return causal(50 * jnp.tanh(scores / 50))


HEADS, SMALL_HEADS = ({"batch": 4, "length": 2048, "heads": 16, "size": 64},
                      {"batch": 2, "length": 48, "heads": 2, "size": 16})


@module("attention_causal_bf16", "attention", {**HEADS, "change": causal}, SMALL_HEADS)
@module("attention_causal_f32", "attention", {**HEADS, "length": 1024, "change": causal, "type_": F32}, SMALL_HEADS)
@module("attention_causal_grad_bf16", "attention", {**HEADS, "change": causal, "grad": True}, SMALL_HEADS)
@module("attention_window_bf16", "attention", {**HEADS, "change": functools.partial(causal, window=256)},
        {**SMALL_HEADS, "change": functools.partial(causal, window=8)})
@module("attention_alibi_bf16", "attention", {**HEADS, "change": alibi}, SMALL_HEADS)
@module("attention_softcap_grad_bf16", "attention", {**HEADS, "change": softcap, "grad": True}, SMALL_HEADS)
def _(batch, length, heads, size, change, type_=BF16, grad=False):
    function = functools.partial(attention, change=change)
    x = Arg((batch, length, heads, size), type_)
    return (backward(function), x, x, x, x) if grad else (function, x, x, x)


@module("attention_padding_bf16", "attention", {**HEADS, "length": 1024}, SMALL_HEADS)
def _(batch, length, heads, size):
    def padded(q, k, v, lengths):
        seen = jnp.arange(length)[None, :] < lengths[:, None]
        return attention(q, k, v, lambda scores: jnp.where(seen[:, None, None, :], scores, -1e30))
    x = bf16(batch, length, heads, size)
    return padded, x, x, x, ints(length + 1, batch, low=length // 2)


@module("attention_bias_grad_f32", "attention", {**HEADS, "length": 512}, SMALL_HEADS)
def _(batch, length, heads, size):
    """T5's: a bias for each distance and head, which has a gradient too."""
    def biased(q, k, v, table):
        return attention(q, k, v, lambda scores: scores + table[:, distances(scores) + length - 1])
    x = f32(batch, length, heads, size)
    return backward(biased), x, x, x, x, f32(heads, 2 * length - 1)


# Blocks of transformers.

def rotary(x, positions):
    half = x.shape[-1] // 2
    angles = positions[..., None] * 10000.0 ** (-jnp.arange(half) / half)
    sine, cosine = jnp.sin(angles)[..., None, :], jnp.cos(angles)[..., None, :]
    a, b = jnp.split(x.astype(F32), 2, -1)
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1).astype(x.dtype)


def gpt_block(x, p, heads):
    batch, length, width = x.shape
    q, k, v = jnp.split(layer_norm(x, p["g1"], p["b1"]) @ p["qkv"] + p["bqkv"], 3, -1)
    q, k, v = (a.reshape(batch, length, heads, -1) for a in (q, k, v))
    x = x + attention(q, k, v, causal).reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(layer_norm(x, p["g2"], p["b2"]) @ p["up"] + p["bup"]) @ p["down"]


def gated(x, p):
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def llama_block(x, p, heads, kv_heads):
    batch, length, width = x.shape
    h, positions = rms_norm(x, p["g1"]), jnp.arange(length)
    q = rotary((h @ p["q"]).reshape(batch, length, heads, -1), positions)
    k = rotary((h @ p["k"]).reshape(batch, length, kv_heads, -1), positions)
    v = (h @ p["v"]).reshape(batch, length, kv_heads, -1)
    x = x + attention(q, k, v, causal).reshape(x.shape) @ p["o"]
    return x + gated(rms_norm(x, p["g2"]), p)


def gpt_weights(type_, width, inner):
    gain, bias = around_one(type_, width), Arg((width,), type_, 0.1)
    return {"g1": gain, "b1": bias, "qkv": weights(type_, width, 3 * width), "bqkv": Arg((3 * width,), type_, 0.1),
            "out": weights(type_, width, width), "g2": gain, "b2": bias, "up": weights(type_, width, inner),
            "bup": Arg((inner,), type_, 0.1), "down": weights(type_, inner, width)}


def llama_weights(type_, width, heads, kv_heads, inner):
    narrow = width // heads * kv_heads
    return {"g1": around_one(type_, width), "g2": around_one(type_, width), "q": weights(type_, width, width),
            "k": weights(type_, width, narrow), "v": weights(type_, width, narrow), "o": weights(type_, width, width),
            "gate": weights(type_, width, inner), "up": weights(type_, width, inner),
            "down": weights(type_, inner, width)}


GPT, SMALL_GPT = ({"batch": 4, "length": 1024, "width": 768, "heads": 12, "inner": 3072},
                  {"batch": 2, "length": 16, "width": 32, "heads": 2, "inner": 64})
LLAMA, SMALL_LLAMA = ({"batch": 2, "length": 1024, "width": 2048, "heads": 16, "kv_heads": 4, "inner": 5632},
                      {"batch": 2, "length": 16, "width": 64, "heads": 4, "kv_heads": 2, "inner": 96})


@module("gpt_block_f32", "transformer", {**GPT, "type_": F32}, SMALL_GPT)
@module("gpt_block_bf16", "transformer", {**GPT, "type_": BF16}, SMALL_GPT, tolerance=2)
@module("gpt_block_grad_f32", "transformer", {**GPT, "type_": F32, "grad": True}, SMALL_GPT)
@module("gpt_block_grad_bf16", "transformer", {**GPT, "type_": BF16, "grad": True}, SMALL_GPT, tolerance=2)
def _(batch, length, width, heads, inner, type_, grad=False):
    function = functools.partial(gpt_block, heads=heads)
    x, p = Arg((batch, length, width), type_), gpt_weights(type_, width, inner)
    return (backward(function), x, x, p) if grad else (function, x, p)


@module("llama_block_bf16", "transformer", LLAMA, SMALL_LLAMA, tolerance=2)
@module("llama_block_grad_bf16", "transformer", {**LLAMA, "grad": True}, SMALL_LLAMA, tolerance=2)
@module("llama_block_remat_grad_bf16", "transformer", {**LLAMA, "grad": True, "remat": True}, SMALL_LLAMA, tolerance=2)
def _(batch, length, width, heads, kv_heads, inner, grad=False, remat=False):
    function = functools.partial(llama_block, heads=heads, kv_heads=kv_heads)
    x, p = bf16(batch, length, width), llama_weights(BF16, width, heads, kv_heads, inner)
    return (backward(jax.checkpoint(function) if remat else function), x, x, p) if grad else (function, x, p)


@module("gated_mlp_grad_bf16", "transformer", {"rows": 2048, "width": 2048, "inner": 8192},
        {"rows": 8, "width": 32, "inner": 48}, tolerance=2)
def _(rows, width, inner):
    p = {name: weights(BF16, width, inner) for name in ("gate", "up")}
    x = bf16(rows, width)
    return backward(gated), x, x, {**p, "down": weights(BF16, inner, width)}


# One token for each sequence, with a cache of keys and values.

def llama_decode(x, p, keys, values, position, heads, kv_heads, write):
    batch, width = x.shape
    h, size = rms_norm(x, p["g1"]), width // heads
    at = jnp.full((batch,), position)
    q = rotary((h @ p["q"]).reshape(batch, heads, size), at).reshape(batch, kv_heads, heads // kv_heads, size)
    k = rotary((h @ p["k"]).reshape(batch, kv_heads, size), at)
    v = (h @ p["v"]).reshape(batch, kv_heads, size)
    seen = jnp.arange(keys.shape[1])
    if write:
        keys = lax.dynamic_update_slice(keys, k[:, None], (0, position, 0, 0))
        values = lax.dynamic_update_slice(values, v[:, None], (0, position, 0, 0))
    scores = jnp.einsum("bhgd,bshd->bhgs", q, keys, preferred_element_type=F32) * size ** -0.5
    scores = jnp.where(seen <= position if write else seen < position, scores, -jnp.inf)
    if write:
        mixed = jnp.einsum("bhgs,bshd->bhgd", jax.nn.softmax(scores).astype(x.dtype), values)
    else:
        own = jnp.einsum("bhgd,bhd->bhg", q, k, preferred_element_type=F32)[..., None] * size ** -0.5
        shares = jax.nn.softmax(jnp.concatenate([scores, own], -1)).astype(x.dtype)
        mixed = jnp.einsum("bhgs,bshd->bhgd", shares[..., :-1], values) + shares[..., -1:] * v[:, :, None]
    x = x + mixed.reshape(batch, width) @ p["o"]
    return (x + gated(rms_norm(x, p["g2"]), p), keys, values) if write else (
        x + gated(rms_norm(x, p["g2"]), p), k, v)


DECODE, SMALL_DECODE = ({"width": 4096, "heads": 32, "kv_heads": 8, "inner": 14336, "cache": 2048},
                        {"width": 64, "heads": 4, "kv_heads": 2, "inner": 96, "cache": 32})


@module("decode_llama3_8b_b1", "decode", {**DECODE, "batch": 1, "write": False}, SMALL_DECODE, tolerance=2)
@module("decode_llama3_8b_b8", "decode", {**DECODE, "batch": 8, "write": False}, SMALL_DECODE, tolerance=2)
@module("decode_llama3_8b_b8_written", "decode", {**DECODE, "batch": 8, "write": True}, SMALL_DECODE, tolerance=2)
@module("decode_llama3_8b_b32_donated", "decode", {**DECODE, "batch": 32, "write": True},
        {**SMALL_DECODE, "batch": 2}, tolerance=2, donated={2: 1, 3: 2})
def _(width, heads, kv_heads, inner, cache, batch, write):
    held = bf16(batch, cache, kv_heads, width // heads)
    return (functools.partial(llama_decode, heads=heads, kv_heads=kv_heads, write=write), bf16(batch, width),
            llama_weights(BF16, width, heads, kv_heads, inner), held, held,
            ints(cache * 3 // 4 + 1, low=cache * 3 // 4))


@module("decode_gpt2_f32_b16", "decode", {"batch": 16, "width": 768, "heads": 12, "inner": 3072, "cache": 1024},
        {"batch": 2, "width": 32, "heads": 2, "inner": 64, "cache": 24})
def _(batch, width, heads, inner, cache):
    def decode(x, p, keys, values, position):
        q, k, v = jnp.split(layer_norm(x, p["g1"], p["b1"]) @ p["qkv"] + p["bqkv"], 3, -1)
        q, k, v = (a.reshape(batch, heads, -1) for a in (q, k, v))
        keys, values = keys.at[:, :, position].set(k), values.at[:, :, position].set(v)
        scores = jnp.einsum("bhd,bhsd->bhs", q, keys) * q.shape[-1] ** -0.5
        shares = jax.nn.softmax(jnp.where(jnp.arange(cache) <= position, scores, -jnp.inf))
        x = x + jnp.einsum("bhs,bhsd->bhd", shares, values).reshape(batch, width) @ p["out"]
        return x + jax.nn.gelu(layer_norm(x, p["g2"], p["b2"]) @ p["up"] + p["bup"]) @ p["down"], keys, values
    held = f32(batch, heads, cache, width // heads)
    return decode, f32(batch, width), gpt_weights(F32, width, inner), held, held, ints(cache // 2 + 1, low=cache // 2)


@module("decode_logits_bf16", "decode", {"batch": 8, "width": 4096, "vocabulary": 32000},
        {"batch": 2, "width": 64, "vocabulary": 500})
def _(batch, width, vocabulary):
    def logits(x, gain, head):
        scores = jnp.einsum("bd,dv->bv", rms_norm(x, gain), head, preferred_element_type=F32)
        return scores, jnp.argmax(scores, -1)
    return logits, bf16(batch, width), around_one(BF16, width), weights(BF16, width, vocabulary)


# Losses with gradients.

def cross_entropy(logits, labels):
    wide = logits.astype(F32)
    return (jax.nn.logsumexp(wide, -1) - jnp.take_along_axis(wide, labels[:, None], -1)[:, 0]).mean()


@module("cross_entropy_32k_bf16", "losses", {"rows": 4096, "classes": 32000, "type_": BF16},
        {"rows": 6, "classes": 300})
@module("cross_entropy_128k_f32", "losses", {"rows": 1024, "classes": 128256, "type_": F32},
        {"rows": 4, "classes": 500})
def _(rows, classes, type_):
    return jax.value_and_grad(cross_entropy), Arg((rows, classes), type_, 2.0), ints(classes, rows)


@module("cross_entropy_smoothed_bf16", "losses", {"rows": 8192, "classes": 10000}, {"rows": 6, "classes": 100})
def _(rows, classes):
    def smoothed(logits, labels):
        target = jax.nn.one_hot(labels, classes) * 0.9 + 0.1 / classes
        return -(target * jax.nn.log_softmax(logits.astype(F32))).sum(-1).mean()
    return jax.value_and_grad(smoothed), bf16(rows, classes, scale=2.0), ints(classes, rows)


@module("lm_head_loss_bf16", "losses", {"rows": 2048, "width": 1024, "classes": 32000},
        {"rows": 6, "width": 32, "classes": 100}, tolerance=2)
def _(rows, width, classes):
    return (jax.value_and_grad(lambda x, head, labels: cross_entropy(x @ head, labels), argnums=(0, 1)),
            bf16(rows, width), weights(BF16, width, classes), ints(classes, rows))


@module("mse_f32", "losses", {"rows": 16384, "width": 2048}, SMALL_ROWS)
def _(rows, width):
    return jax.value_and_grad(lambda x, y: jnp.square(x - y).mean()), f32(rows, width), f32(rows, width)


@module("focal_f32", "losses", {"anchors": 400000, "classes": 80}, {"anchors": 50, "classes": 8})
def _(anchors, classes):
    def focal(logits, labels):
        target = (labels[:, None] == jnp.arange(1, classes + 1)).astype(F32)
        p = jax.nn.sigmoid(logits)
        entropy = jnp.maximum(logits, 0) - logits * target + jnp.log1p(jnp.exp(-jnp.abs(logits)))
        right = p * target + (1 - p) * (1 - target)
        share = 0.25 * target + 0.75 * (1 - target)
        return (share * (1 - right) ** 2 * entropy).sum() / jnp.maximum((labels > 0).sum(), 1)
    return jax.value_and_grad(focal), f32(anchors, classes), ints(classes + 1, anchors)


@module("contrastive_f32", "losses", {"pairs": 4096, "width": 512}, {"pairs": 12, "width": 16})
def _(pairs, width):
    def contrastive(a, b, scale):
        a, b = (x * lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6) for x in (a, b))
        scores, own = scale * a @ b.T, jnp.arange(pairs)
        return (cross_entropy(scores, own) + cross_entropy(scores.T, own)) / 2
    return (jax.value_and_grad(contrastive, argnums=(0, 1, 2)), f32(pairs, width), f32(pairs, width),
            Arg((), F32, low=9, high=11))


# Optimizers over trees. Rates are large, for what is wrong with an update to show in the parameters.

def clipped(gradients, limit=1.0):
    norm = jnp.sqrt(sum(jnp.square(g.astype(F32)).sum() for g in jax.tree.leaves(gradients)))
    factor = jnp.minimum(1.0, limit / (norm + 1e-6))
    return jax.tree.map(lambda g: g.astype(F32) * factor, gradients), norm


def adam(p, g, m, v, step, clip=True, decay=0.1, rate=1e-2):
    g, norm = clipped(g) if clip else (g, jnp.float32(0))
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * jnp.square(g), v, g)
    a, b = 1 / (1 - 0.9 ** step), 1 / (1 - 0.95 ** step)
    p = jax.tree.map(lambda p, m, v: p - rate * (m * a / (jnp.sqrt(v * b) + 1e-8) + decay * p), p, m, v)
    return p, m, v, norm


def lion(p, g, m, rate=1e-2):
    g, norm = clipped(g)
    p = jax.tree.map(lambda p, g, m: p - rate * (jnp.sign(0.9 * m + 0.1 * g) + 0.1 * p), p, g, m)
    return p, jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g, m, g), norm


def tree(type_, layers, width, inner, vocabulary, scale=0.02):
    layer = {name: Arg((width, width), type_, scale) for name in "qkvo"}
    layer |= {"up": Arg((width, inner), type_, scale), "down": Arg((inner, width), type_, scale)}
    layer |= {name: Arg((width,), type_, scale) for name in ("g1", "g2")}
    return {"embed": Arg((vocabulary, width), type_, scale), "layers": [layer] * layers}


def squares(of):
    return jax.tree.map(lambda a: dataclasses.replace(a, scale=1.0, low=1e-6, high=1e-3), of)


TREE, SMALL_TREE = ({"layers": 2, "width": 1024, "inner": 4096, "vocabulary": 8000},
                    {"width": 12, "inner": 16, "vocabulary": 30})


@module("adam_clipped_f32", "optimizers", {**TREE}, SMALL_TREE)
@module("adam_f32", "optimizers", {**TREE, "clip": False}, SMALL_TREE)
@module("adam_donated_f32", "optimizers", {**TREE, "clip": False, "layers": 1}, SMALL_TREE,
        donated={0: 0, 2: 1, 3: 2})
def _(layers, width, inner, vocabulary, clip=True):
    p = tree(F32, layers, width, inner, vocabulary)
    step = adam if clip else lambda *trees: adam(*trees, clip=False)[:3]
    return step, p, p, p, squares(p), Arg((), F32, low=10, high=11)


@module("adam_master_bf16", "optimizers", {**TREE, "layers": 1}, SMALL_TREE)
def _(layers, width, inner, vocabulary):
    """Gradients and the parameters that are used are bf16; the parameters that are kept are f32."""
    def step(p, g, m, v, count):
        p, m, v, norm = adam(p, g, m, v, count)
        return jax.tree.map(lambda a: a.astype(BF16), p), p, m, v, norm
    p, g = (tree(type_, layers, width, inner, vocabulary) for type_ in (F32, BF16))
    return step, p, g, p, squares(p), Arg((), F32, low=10, high=11)


@module("lion_clipped_f32", "optimizers", TREE, SMALL_TREE, mismatch=1e-4)
def _(layers, width, inner, vocabulary):
    p = tree(F32, layers, width, inner, vocabulary)
    return lion, p, p, p


@module("global_norm_bf16", "optimizers", TREE, SMALL_TREE)
def _(layers, width, inner, vocabulary):
    return lambda g: clipped(g)[1], tree(BF16, layers, width, inner, vocabulary)


# The tolerance of bf16, in which it computes: with the rows in another order XLA's own results are 1.5e-2 of the
# largest apart (512 × 256), and 2.8e-2 from the exact ones.
@module("muon_bf16", "optimizers", {"rows": 2048, "columns": 1024}, {"rows": 24, "columns": 16}, tolerance=40)
def _(rows, columns):
    def step(p, g, m):
        m = 0.95 * m + g
        x = (g + 0.95 * m).astype(BF16).T
        x = x / (jnp.sqrt(jnp.square(x.astype(F32)).sum()) + 1e-7).astype(BF16)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        return p - 0.2 * math.sqrt(rows / columns) * x.T.astype(F32), m
    return step, f32(rows, columns, scale=0.02), f32(rows, columns), f32(rows, columns)
