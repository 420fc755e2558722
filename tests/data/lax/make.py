#!/usr/bin/env python3
"""Writes modules with parts for the superoptimizer, as JAX prints them.

usage: make.py FOLDER [small|real]    needs jax (CPU), which the tests themselves do not

`small`, the default, is what this folder has; `real` has sizes of models.
"""

import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import lax


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


def attention_bthd(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    weights = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(q.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def causal(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


def window(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    row = lax.broadcasted_iota(jnp.int32, scores.shape[-2:], 0)
    column = lax.broadcasted_iota(jnp.int32, scores.shape[-2:], 1)
    seen = (column <= row) & (row - column < 8)
    scores = jnp.where(seen, scores, jnp.finfo(scores.dtype).min)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


def gqa_decode(q, k, v):
    batch, heads, size = q.shape
    groups = k.shape[1]
    q = q.reshape(batch, groups, heads // groups, size)
    scores = jnp.einsum("bgqd,bgkd->bgqk", q, k, preferred_element_type=jnp.float32) * (size**-0.5)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bgqk,bgkd->bgqd", weights, v).reshape(batch, heads, size)


def normed(x, epsilon):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + epsilon)).astype(x.dtype)


def rmsnorm(x, g, w):
    return (normed(x, 1e-5) * g) @ w


def rmsnorm_plain(x, w):
    return (x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5)) @ w


def qknorm(q, k, v):
    return attention(normed(q, 1e-6), normed(k, 1e-6), v)


def gated_mlp(x, gate, up):
    return jax.nn.silu(x @ gate) * (x @ up)


def lora(x, w, a, b):
    return x @ w + (x @ a) @ b


def cases(real):
    heads = (1, 32, 256, 64) if real else (1, 2, 32, 16)
    tokens = (heads[0], heads[2], heads[1], heads[3])
    query, cache = ((1, 32, 128), (1, 8, 4096, 128)) if real else ((1, 8, 16), (1, 2, 64, 16))
    width, inner = (1024, 4096) if real else (64, 128)
    return {"attention": (attention, heads, heads, heads), "attention_bthd": (attention_bthd, tokens, tokens, tokens),
            "causal": (causal, heads, heads, heads), "window": (window, heads, heads, heads),
            "qknorm": (qknorm, heads, heads, heads),
            "gqa_decode": (gqa_decode, query, cache, cache),
            "rmsnorm": (rmsnorm, (16, width), (width,), (width, inner)),
            "rmsnorm_plain": (rmsnorm_plain, (16, width), (width, inner)),
            "gated_mlp": (gated_mlp, (8, 4096), (4096, 4096), (4096, 4096)) if real else
                         (gated_mlp, (16, 64), (64, 96), (64, 96)),
            "lora": (lora, (16, 256), (256, 4096), (256, 16), (16, 4096)) if real else
                    (lora, (16, 64), (64, 128), (64, 8), (8, 128))}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (function, *shapes) in cases(sys.argv[2:] == ["real"]).items():
        for type_, suffix in ((jnp.float16, "f16"), (jnp.bfloat16, "bf16")):
            arguments = [jax.ShapeDtypeStruct(shape, type_) for shape in shapes]
            (folder / f"{name}_{suffix}.hlo").write_text(jax.jit(function).lower(*arguments).as_text("hlo"))


if __name__ == "__main__":
    main()
