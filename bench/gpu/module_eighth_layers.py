"""Modules of modules.py by another author again: blocks of transformers, attention, norms, losses, convolutions, pools
and quantised products as libraries for JAX write them, at sizes that nobody tunes for."""
import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, F8, I8, I32, Arg, around_one, backward, bf16, f32, ints, layer_norm, module,
                             rms_norm, weights)
from module_seventh_layers import causal_mask, masked, mixed, rotated

U8 = jnp.uint8
NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


# Blocks of transformers.

@module("keys_shared_by_two_layers_grad_bf16", "transformer",
        {"batch": 3, "length": 389, "heads": 14, "groups": 2, "size": 64, "width": 896, "inner": 2390},
        {"batch": 1, "length": 6, "heads": 4, "groups": 2, "size": 4, "width": 12, "inner": 10}, tolerance=10)
def _(batch, length, heads, groups, size, width, inner):
    """Two layers, the second of which has queries alone and attends to the first one's keys and values."""
    def layer(x, gains, wq, wkv, out, up, down):
        k, v = jnp.split((rms_norm(x, gains[0]) @ wkv).reshape(batch, length, groups, 2 * size), 2, -1)
        k = rotated(k, size, 5e5)
        for i in range(2):
            q = rotated((rms_norm(x, gains[2 * i]) @ wq[i]).reshape(batch, length, heads, size), size, 5e5)
            x = x + mixed(q, k, v, masked(length)) @ out[i]
            gate, value = jnp.split(rms_norm(x, gains[2 * i + 1]) @ up[i], 2, -1)
            x = x + (jax.nn.silu(gate) * value) @ down[i]
        return x
    x = bf16(batch, length, width)
    return (backward(layer), x, x, around_one(BF16, 4, width), weights(BF16, 2, width, heads * size),
            weights(BF16, width, 2 * groups * size), weights(BF16, 2, heads * size, width),
            weights(BF16, 2, width, 2 * inner), weights(BF16, 2, inner, width))


@module("value_residual_lambdas_grad_bf16", "transformer",
        {"batch": 2, "length": 602, "heads": 6, "size": 128, "width": 768}, {"batch": 1, "length": 5, "heads": 2,
        "size": 4, "width": 8}, tolerance=10)
def _(batch, length, heads, size, width):
    """A speed-run's block: first values and inputs mixed in by learned shares, norms without gains, squared ReLU."""
    def normed(x):
        return x * lax.rsqrt(jnp.square(x.astype(F32)).mean(-1, keepdims=True) + 1e-6).astype(x.dtype)

    def layer(x, x0, v1, shares, wqkv, out, up, down):
        shares = shares.astype(BF16)
        x = shares[0] * x + shares[1] * x0
        qkv = jnp.einsum("blw,kwhd->kblhd", normed(x), wqkv)
        q, k = (rotated(normed(a), size // 2, 1024) for a in (qkv[0], qkv[1]))
        v = shares[2] * qkv[2] + shares[3] * v1
        x = x + mixed(q, k, v, lambda s: jnp.where(causal_mask(length), 15 * jnp.tanh(s / 15), -1e30), 0.12) @ out
        return x + jnp.square(jax.nn.relu(normed(x) @ up)) @ down, v
    x, v = bf16(batch, length, width), bf16(batch, length, heads, size)
    scale = width ** -0.5
    return (lambda g, h, *rest: jax.vjp(layer, *rest)[1]((g, h)), x, v, x, x, v, f32(4),
            bf16(3, width, heads, size, scale=scale), weights(BF16, heads * size, width),
            weights(BF16, width, 4 * width), weights(BF16, 4 * width, width))


@module("joint_streams_modulated_bf16", "transformer",
        {"batch": 3, "places": 576, "words": 77, "heads": 18, "size": 64},
        {"batch": 1, "places": 6, "words": 3, "heads": 2, "size": 4}, tolerance=6)
def _(batch, places, words, heads, size):
    """Images and text with weights of their own, modulated by one vector, in one attention with norms of heads."""
    width = heads * size

    def layer(x, c, y, modulate, qkv, gains, out, up, down):
        streams, parts = [x, c], []
        moved = [jnp.split(jax.nn.silu(y) @ m, 6, -1) for m in modulate]

        def norm(a, shift, scale):
            wide = a.astype(F32)
            wide = (wide - wide.mean(-1, keepdims=True)) * lax.rsqrt(wide.var(-1, keepdims=True) + 1e-6)
            return wide.astype(BF16) * (1 + scale[:, None]) + shift[:, None]
        for i, a in enumerate(streams):
            q, k, v = jnp.split((norm(a, *moved[i][:2]) @ qkv[i]).reshape(batch, -1, heads, 3 * size), 3, -1)
            parts.append((rms_norm(q, gains[i, 0]), rms_norm(k, gains[i, 1]), v))
        seen = mixed(*(jnp.concatenate(each, 1) for each in zip(*parts)), lambda scores: scores)
        results = []
        for i, (a, mine) in enumerate(zip(streams, (seen[:, :places], seen[:, places:]))):
            a = a + moved[i][2][:, None] * (mine @ out[i])
            results.append(a + moved[i][5][:, None] * (jax.nn.gelu(norm(a, *moved[i][3:5]) @ up[i]) @ down[i]))
        return results
    return (layer, bf16(batch, places, width), bf16(batch, words, width), bf16(batch, width),
            bf16(2, width, 6 * width, scale=0.3 * width ** -0.5), weights(BF16, 2, width, 3 * width),
            around_one(BF16, 2, 2, size), weights(BF16, 2, width, width), weights(BF16, 2, width, 4 * width),
            weights(BF16, 2, 4 * width, width))


@module("three_axes_rotary_window_vit_grad_bf16", "transformer",
        {"batch": 5, "frames": 2, "side": 12, "heads": 5, "size": 72}, {"batch": 1, "frames": 2, "side": 2, "heads": 2,
        "size": 12}, tolerance=8)
def _(batch, frames, side, heads, size):
    """Queries and keys rotated by time, height and width in thirds of a head, interleaved; layer scale; GEGLU."""
    width, length = heads * size, frames * side * side

    def layer(x, gain, bias, qkv, out, scale, up, down):
        t, y, z = (a.reshape(-1) for a in jnp.meshgrid(*map(jnp.arange, (frames, side, side)), indexing="ij"))
        third = size // 3
        angles = jnp.concatenate([p[:, None] * 100.0 ** (-jnp.arange(0, third, 2) / third) for p in (t, y, z)], -1)
        cos, sin = (f(angles)[None, :, None] for f in (jnp.cos, jnp.sin))

        def turned(a):
            a = a.astype(F32).reshape(batch, length, heads, size // 2, 2)
            return jnp.stack([a[..., 0] * cos - a[..., 1] * sin, a[..., 1] * cos + a[..., 0] * sin],
                             -1).reshape(batch, length, heads, size).astype(BF16)
        q, k, v = jnp.moveaxis((layer_norm(x, gain[0], bias[0]) @ qkv).reshape(batch, length, 3, heads, size), 2, 0)
        x = x + scale[0] * (mixed(turned(q), turned(k), v, lambda scores: scores) @ out)
        value, gate = jnp.split(layer_norm(x, gain[1], bias[1]) @ up, 2, -1)
        return x + scale[1] * ((value * jax.nn.gelu(gate, approximate=False)) @ down)
    x = bf16(batch, length, width)
    return (backward(layer), x, x, around_one(BF16, 2, width), bf16(2, width), weights(BF16, width, 3 * width),
            weights(BF16, width, width), bf16(2, width), weights(BF16, width, 4 * width),
            weights(BF16, 2 * width, width))


@module("sphere_normalised_block_grad_f32", "transformer", {"batch": 2, "length": 260, "heads": 8, "size": 50},
        {"batch": 1, "length": 5, "heads": 2, "size": 4}, tolerance=4)
def _(batch, length, heads, size):
    """A block on the unit sphere: states and weights normalised, steps towards what attention and layers propose."""
    width = heads * size

    def unit(x, axis=-1):
        return x * lax.rsqrt(jnp.square(x).sum(axis, keepdims=True) + 1e-8)

    def layer(x, wqkv, out, up, down, alpha, scale_qk, scale_up):
        q, k, v = ((x @ unit(w, 0)).reshape(batch, length, heads, size) for w in wqkv)
        q, k = (unit(rotated(a, size)) * scale_qk for a in (q, k))
        h = unit(mixed(q, k, v, masked(length), size ** 0.5) @ unit(out, 1))
        x = unit(x + jnp.abs(alpha[0]) * (h - x))
        gate, value = jnp.split((x @ unit(up, 0)) * scale_up * width ** 0.5, 2, -1)
        h = unit((jax.nn.silu(gate) * value) @ unit(down, 1))
        return unit(x + jnp.abs(alpha[1]) * (h - x))
    x = f32(batch, length, width)
    return (backward(layer), x, f32(batch, length, width, scale=width ** -0.5), weights(F32, 3, width, width),
            weights(F32, width, width), weights(F32, width, 6 * width), weights(F32, 3 * width, width),
            f32(2, width, scale=0.05), around_one(F32, heads, size), around_one(F32, 6 * width))


@module("probe_head_pooled_grad_f32", "transformer", {"batch": 11, "places": 196, "heads": 12, "size": 32,
        "classes": 1000}, {"batch": 2, "places": 4, "heads": 2, "size": 4, "classes": 5}, tolerance=4)
def _(batch, places, heads, size, classes):
    """One learned query attends to all places of an image; a block of layers, a head, smoothed sigmoid losses."""
    width = heads * size

    def loss(x, probe, wq, wkv, out, gain, up, down, head, labels):
        q = jnp.broadcast_to(probe @ wq, (batch, 1, width)).reshape(batch, 1, heads, size)
        k, v = jnp.split((x @ wkv).reshape(batch, places, heads, 2 * size), 2, -1)
        h = mixed(q, k, v, lambda scores: scores) @ out
        h = h + jax.nn.gelu(layer_norm(h, gain, 0 * gain) @ up) @ down
        logits = h[:, 0] @ head - 6.0
        wanted = jax.nn.one_hot(labels, classes) * 0.9 + 0.1 / classes
        return -(wanted * jax.nn.log_sigmoid(logits) + (1 - wanted) * jax.nn.log_sigmoid(-logits)).sum(-1).mean()
    return (jax.value_and_grad(loss, argnums=tuple(range(9))), f32(batch, places, width), f32(1, 1, width),
            weights(F32, width, width), weights(F32, width, 2 * width), weights(F32, width, width),
            around_one(F32, width), weights(F32, width, 4 * width), weights(F32, 4 * width, width),
            weights(F32, width, classes), ints(classes, batch))


@module("product_key_memory_grad_f32", "transformer", {"tokens": 515, "heads": 4, "half": 48, "keys": 96, "k": 16,
        "width": 352}, {"tokens": 5, "heads": 2, "half": 4, "keys": 6, "k": 3, "width": 6}, tolerance=4, mismatch=2e-3)
def _(tokens, heads, half, keys, k, width):
    """Two lists of keys whose sums make keys² slots: the best of each, the best of their sums, weighted rows."""
    def layer(x, query, key_table, values):
        q = (x @ query).reshape(tokens, heads, 2, half)
        best, places = lax.top_k(jnp.einsum("thsd,hskd->thsk", q, key_table), k)
        both = (best[:, :, 0, :, None] + best[:, :, 1, None, :]).reshape(tokens, heads, k * k)
        slots = (places[:, :, 0, :, None] * keys + places[:, :, 1, None, :]).reshape(tokens, heads, k * k)
        score, at = lax.top_k(both, k)
        weight = jax.nn.softmax(score)
        return jnp.einsum("thk,thkw->tw", weight, values[jnp.take_along_axis(slots, at, -1)])
    return (backward(layer), f32(tokens, width), f32(tokens, width), weights(F32, width, heads * 2 * half),
            f32(heads, 2, keys, half, scale=half ** -0.5), f32(keys * keys, width, scale=0.3))


# Attention.

@module("forgetting_gates_grad_bf16", "attention", {"batch": 2, "length": 643, "heads": 9, "groups": 3, "size": 64},
        {"batch": 1, "length": 7, "heads": 4, "groups": 2, "size": 4}, tolerance=8)
def _(batch, length, heads, groups, size):
    """Scores are lessened by the sums of logarithms of gates that lie between a key and a query."""
    def layer(q, k, v, gates):
        gone = jnp.cumsum(jax.nn.log_sigmoid(gates.astype(F32) + 3), 1).transpose(0, 2, 1)
        fade = (gone[..., :, None] - gone[..., None, :]).reshape(batch, groups, -1, length, length)
        return mixed(q, k, v, lambda scores: jnp.where(causal_mask(length), scores + fade, -1e30))
    k = bf16(batch, length, groups, size)
    return (backward(layer), bf16(batch, length, heads * size), bf16(batch, length, heads, size), k, k,
            bf16(batch, length, heads))


@module("stick_breaking_attention_grad_f32", "attention", {"batch": 2, "length": 317, "heads": 5, "size": 60},
        {"batch": 1, "length": 6, "heads": 2, "size": 4}, tolerance=4)
def _(batch, length, heads, size):
    """No softmax: each key, the nearest first, takes a share of what is left, by sums of logarithms from behind."""
    def layer(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * size ** -0.5
        strict = jnp.tril(jnp.ones((length, length), bool), -1)
        rest = jnp.where(strict, jax.nn.log_sigmoid(-scores), 0)
        after = lax.cumsum(rest, 3, reverse=True) - rest
        share = jnp.where(strict, jnp.exp(jax.nn.log_sigmoid(scores) + after), 0)
        return jnp.einsum("bhqk,bkhd->bqhd", share, v) + (1 - share.sum(-1)).swapaxes(1, 2)[..., None] * v
    x = f32(batch, length, heads, size)
    return backward(layer), x, x, x, x


@module("hashed_buckets_sorted_attention_f32", "attention", {"batch": 2, "length": 1536, "heads": 4, "size": 64,
        "chunk": 64, "buckets": 24}, {"batch": 1, "length": 24, "heads": 2, "size": 4, "chunk": 4, "buckets": 6},
        tolerance=4, mismatch=5e-3)
def _(batch, length, heads, size, chunk, buckets):
    """Shared queries and keys sorted by random projections' buckets; chunks see themselves and the one before."""
    def one(q, v, spins):
        turned = q @ spins
        bucket = jnp.concatenate([turned, -turned], -1).argmax(-1)
        order = jnp.argsort(bucket * length + jnp.arange(length))
        qs, vs, places, tags = q[order], v[order], order, bucket[order]
        ks = qs * lax.rsqrt(jnp.square(qs).mean(-1, keepdims=True) + 1e-6)
        qs, ks, vs, places, tags = (a.reshape(length // chunk, chunk, *a.shape[1:]) for a in (qs, ks, vs, places, tags))
        ks, vs, keys, marks = (jnp.concatenate([jnp.roll(a, 1, 0), a], 1) for a in (ks, vs, places, tags))
        scores = jnp.einsum("cqd,ckd->cqk", qs, ks) * size ** -0.5
        scores = jnp.where(tags[:, :, None] == marks[:, None], scores, -1e5)
        scores = jnp.where(places[:, :, None] >= keys[:, None], scores, -1e9)
        scores = jnp.where(places[:, :, None] == keys[:, None], -1e4, scores)
        out = jnp.einsum("cqk,ckd->cqd", jax.nn.softmax(scores), vs).reshape(length, size)
        return out[jnp.argsort(order)]
    run = jax.vmap(jax.vmap(one, (0, 0, 0)), (0, 0, None))
    x = f32(batch, heads, length, size)
    return run, x, x, f32(heads, size, buckets // 2)


@module("contextual_positions_grad_f32", "attention", {"batch": 2, "length": 290, "heads": 6, "size": 48, "most": 40},
        {"batch": 1, "length": 6, "heads": 2, "size": 4, "most": 3}, tolerance=4, mismatch=1e-3)
def _(batch, length, heads, size, most):
    """Positions are sums of gates of scores, and their biases are interpolated between two learned embeddings."""
    def layer(q, k, v, table):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * size ** -0.5
        gates = jnp.where(causal_mask(length), jax.nn.sigmoid(scores), 0)
        place = jnp.minimum(lax.cumsum(gates, 3, reverse=True), most - 1)
        low, high = jnp.floor(place).astype(I32), jnp.ceil(place).astype(I32)
        bias = jnp.einsum("bhqd,pd->bhqp", q, table)
        a, b = (jnp.take_along_axis(bias, at, -1) for at in (low, high))
        share = place - low
        weight = jax.nn.softmax(jnp.where(causal_mask(length), scores + b * share + a * (1 - share), -1e30))
        return jnp.einsum("bhqk,bhkd->bhqd", weight, v)
    x = f32(batch, heads, length, size)
    return backward(layer), x, x, x, x, f32(most, size, scale=0.2)


@module("entmax_bisected_heads_f32", "attention", {"batch": 3, "length": 211, "heads": 7, "size": 40, "rounds": 20},
        {"batch": 1, "length": 6, "heads": 2, "size": 4, "rounds": 20}, tolerance=4)
def _(batch, length, heads, size, rounds):
    """Entmax with an exponent for each head: the threshold of each row by bisection in a loop."""
    def layer(q, k, v, alpha):
        a = (1 + jax.nn.sigmoid(alpha))[:, None, None] - 1
        scores = jnp.where(causal_mask(length), jnp.einsum("bqhd,bkhd->bhqk", q, k) * size ** -0.5, -1e4) * a
        low = scores.max(-1, keepdims=True) - 1
        high = low + 1 - (1 / length) ** a

        def halve(_, given):
            low, step = given
            step = step / 2
            mass = (jnp.maximum(scores - low - step, 0) ** (1 / a)).sum(-1, keepdims=True)
            return jnp.where(mass >= 1, low + step, low), step
        low, _ = lax.fori_loop(0, rounds, halve, (low, high - low))
        share = jnp.maximum(scores - low, 0) ** (1 / a)
        return jnp.einsum("bhqk,bkhd->bqhd", share / share.sum(-1, keepdims=True), v)
    x = f32(batch, length, heads, size)
    return layer, x, x, x, f32(heads)


@module("invariant_points_attention_f32", "attention", {"length": 201, "heads": 12, "size": 16, "points": 4,
        "values": 8, "pairs": 72}, {"length": 5, "heads": 2, "size": 4, "points": 2, "values": 3, "pairs": 6},
        tolerance=4)
def _(length, heads, size, points, values, pairs):
    """Scores of vectors, of points in the frames of residues and of pairs; points go back into their frames."""
    def layer(q, k, v, pq, pk, pv, pair, w, gamma, turn, move):
        out = [jnp.einsum("lij,lhpj->lhpi", turn, p) + move[:, None, None] for p in (pq, pk, pv)]
        away = jnp.square(out[0][:, None] - out[1][None]).sum((-1, -2))
        scores = jnp.einsum("qhd,khd->qkh", q, k) * size ** -0.5 + pair @ w
        scores = (scores - jax.nn.softplus(gamma) * away * (4.5 * points) ** -0.5 / 2) * 3 ** -0.5
        weight = jax.nn.softmax(scores, axis=1)
        seen = jnp.einsum("qkh,khpi->qhpi", weight, out[2]) - move[:, None, None]
        local = jnp.einsum("lji,lhpj->lhpi", turn, seen)
        size_of = jnp.sqrt(jnp.square(local).sum(-1) + 1e-6)
        return jnp.concatenate([a.reshape(length, -1) for a in (
            jnp.einsum("qkh,khd->qhd", weight, v), local, size_of, jnp.einsum("qkh,qkc->qhc", weight, pair))], -1)
    x, p = f32(length, heads, size), f32(length, heads, points, 3)
    return (layer, x, x, x, p, p, f32(length, heads, values, 3), f32(length, length, pairs), weights(F32, pairs, heads),
            f32(heads), f32(length, 3, 3, scale=0.6), f32(length, 3))


@module("window_and_global_tokens_grad_bf16", "attention", {"batch": 2, "length": 1200, "block": 100, "globals_": 5,
        "heads": 4, "size": 64}, {"batch": 1, "length": 12, "block": 3, "globals_": 2, "heads": 2, "size": 4},
        tolerance=8)
def _(batch, length, block, globals_, heads, size):
    """Blocks see their neighbours and the first tokens, which see all; blocks by padding and slices."""
    def layer(q, k, v):
        n = length // block
        qb = q.reshape(batch, n, block, heads, size)

        def near(a):
            a = jnp.pad(a.reshape(batch, n, block, heads, size), ((0, 0), (1, 1), (0, 0), (0, 0), (0, 0)))
            return jnp.concatenate([a[:, :-2], a[:, 1:-1], a[:, 2:]], 2)
        kb, vb = near(k), near(v)
        local = jnp.einsum("bnqhd,bnkhd->bnhqk", qb, kb, preferred_element_type=F32) * size ** -0.5
        keys = jnp.arange(n)[:, None] * block + jnp.arange(-block, 2 * block)
        local = jnp.where(((keys >= globals_) & (keys < length))[None, :, None, None], local, -1e30)
        first = jnp.einsum("bnqhd,bkhd->bnhqk", qb, k[:, :globals_], preferred_element_type=F32) * size ** -0.5
        weight = jax.nn.softmax(jnp.concatenate([first, local], -1)).astype(BF16)
        out = jnp.einsum("bnhqk,bkhd->bnqhd", weight[..., :globals_], v[:, :globals_])
        out = (out + jnp.einsum("bnhqk,bnkhd->bnqhd", weight[..., globals_:], vb)).reshape(batch, length, -1)
        return out.at[:, :globals_].set(mixed(q[:, :globals_], k, v, lambda scores: scores))
    x = bf16(batch, length, heads, size)
    return backward(layer), bf16(batch, length, heads * size), x, x, x


# Norms.

@module("spatially_modulated_norm_grad_bf16", "norms", {"images": 5, "size": 48, "channels": 150, "classes": 20},
        {"images": 2, "size": 4, "channels": 6, "classes": 3}, tolerance=8)
def _(images, size, channels, classes):
    """An image's own moments, and for each place a gain and a bias that a map of classes gives; NCHW, f32 moments."""
    def norm(x, labels, embed, gain, bias):
        wide = x.astype(F32)
        normed = (wide - wide.mean((2, 3), keepdims=True)) * lax.rsqrt(wide.var((2, 3), keepdims=True) + 1e-5)
        hidden = jax.nn.relu(embed[labels])
        g, b = (jnp.moveaxis(hidden @ w, -1, 1).astype(F32) for w in (gain, bias))
        return jax.nn.leaky_relu(normed * (1 + g) + b, 0.2).astype(BF16)
    x = bf16(images, channels, size, size)
    return (lambda g, x, labels, *rest: jax.vjp(lambda x, *w: norm(x, labels, *w), x, *rest)[1](g), x, x,
            ints(classes, images, size, size), bf16(classes, 64), weights(BF16, 64, channels),
            weights(BF16, 64, channels))


@module("pixel_norm_minibatch_deviation_grad_f32", "norms", {"images": 24, "group": 4, "size": 28, "channels": 101},
        {"images": 4, "group": 2, "size": 3, "channels": 5}, tolerance=2)
def _(images, group, size, channels):
    """Norms over the channels of a place, and a channel of the mean deviation between images of a group."""
    def norm(x):
        x = x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-8)
        y = x.reshape(group, images // group, size, size, channels)
        spread = jnp.sqrt(jnp.square(y - y.mean(0)).mean(0) + 1e-8).mean((1, 2, 3))
        return jnp.concatenate([x, jnp.broadcast_to(jnp.tile(spread, group)[:, None, None, None],
                                                    (images, size, size, 1))], -1)
    return backward(norm), f32(images, size, size, channels + 1), f32(images, size, size, channels)


@module("style_moments_swapped_grad_f32", "norms", {"images": 4, "size": 53, "channels": 192},
        {"images": 2, "size": 4, "channels": 5}, tolerance=2)
def _(images, size, channels):
    """An image's moments in place of another's, and losses of the moments of what comes out."""
    def loss(content, style):
        moments = [(a.mean((1, 2)), jnp.sqrt(a.var((1, 2)) + 1e-5)) for a in (content, style)]
        (m0, s0), (m1, s1) = ((m[:, None, None], s[:, None, None]) for m, s in moments)
        y = jax.nn.relu((content - m0) / s0 * s1 + m1)
        gram = jnp.einsum("bhwc,bhwd->bcd", y, y) / size ** 2
        return jnp.square(y.mean((1, 2)) - moments[1][0]).mean() + jnp.square(gram).mean() + jnp.abs(y - content).mean()
    x = f32(images, size, size, channels)
    return jax.value_and_grad(loss, argnums=(0, 1)), x, x


@module("norm_of_three_axes_chw_grad_bf16", "norms", {"images": 37, "channels": 12, "height": 30, "width": 34},
        {"images": 3, "channels": 2, "height": 3, "width": 5}, tolerance=6)
def _(images, channels, height, width):
    """A layer norm over all but the first axis with gains of that shape, then SiLU, as in recurrent image nets."""
    def norm(x, gain, bias):
        wide = x.astype(F32)
        mean, square = wide.mean((1, 2, 3), keepdims=True), jnp.square(wide).mean((1, 2, 3), keepdims=True)
        return jax.nn.silu((wide - mean) * lax.rsqrt(square - mean * mean + 1e-6) * gain + bias).astype(BF16)
    x = bf16(images, channels, height, width)
    return backward(norm), x, x, around_one(F32, channels, height, width), f32(channels, height, width)


# Losses.

@module("listwise_permutation_grad_f32", "losses", {"lists": 301, "length": 120}, {"lists": 3, "length": 7},
        tolerance=2)
def _(lists, length):
    """The likelihood of the order of relevance, by log-sum-exps from behind, and smooth gains of approximate ranks."""
    def loss(scores, relevance, lengths):
        seen = jnp.arange(length) < lengths[:, None]
        scores = jnp.where(seen, scores, -1e9)
        order = jnp.argsort(-jnp.where(seen, relevance, -1.0), axis=1, stable=True)
        ranked = jnp.take_along_axis(scores, order, 1)
        rest = lax.cumlogsumexp(ranked, 1, reverse=True)
        likely = (jnp.where(jnp.arange(length) < lengths[:, None], rest - ranked, 0)).sum(1).mean()
        near = jax.nn.sigmoid((scores[:, None] - scores[:, :, None]) / 0.3) * seen[:, None]
        gain = jnp.where(seen, 2.0 ** relevance - 1, 0) / jnp.log2(1.5 + near.sum(-1))
        return likely - gain.sum(1).mean()
    return (jax.value_and_grad(loss), f32(lists, length), ints(5, lists, length), ints(length + 1, lists, low=2))


@module("adaptive_clusters_50304_grad_bf16", "losses", {"rows": 1500, "width": 512, "cuts": (4000, 16000, 50304)},
        {"rows": 40, "width": 12, "cuts": (5, 9, 20)}, tolerance=10)
def _(rows, width, cuts):
    """A head of frequent words and two clusters, whose words have narrower projections; labels by cluster."""
    a, b, c = cuts

    def loss(x, head, downs, ups, labels):
        log = jax.nn.log_softmax((x @ head).astype(F32))
        total = jnp.where(labels < a, jnp.take_along_axis(log, jnp.minimum(labels, a - 1)[:, None], 1)[:, 0], 0)
        for i, (low, high) in enumerate(((a, b), (b, c))):
            inside = (labels >= low) & (labels < high)
            tail = jax.nn.log_softmax((x @ downs[i] @ ups[i]).astype(F32))
            at = jnp.clip(labels - low, 0, high - low - 1)
            total += jnp.where(inside, log[:, a + i] + jnp.take_along_axis(tail, at[:, None], 1)[:, 0], 0)
        return -total.mean()
    downs = [weights(BF16, width, width // n) for n in (2, 4)]
    ups = [weights(BF16, width // n, size) for n, size in ((2, b - a), (4, c - b))]
    return (jax.value_and_grad(loss, argnums=(0, 1, 2, 3)), bf16(rows, width), weights(BF16, width, a + 2), downs, ups,
            ints(c, rows))


@module("retrieval_log_q_hard_negatives_grad_f32", "losses", {"batch": 777, "hard": 5, "width": 96, "rows": 50021},
        {"batch": 4, "hard": 2, "width": 6, "rows": 13}, tolerance=4)
def _(batch, hard, width, rows):
    """Two towers' rows, negatives of the batch with corrected sampling, equal items masked, hard ones besides."""
    def loss(users, table, items, worse, counts):
        x = users / jnp.sqrt(jnp.square(users).sum(-1, keepdims=True) + 1e-6)
        every = jnp.concatenate([items, worse.reshape(-1)])
        y = table[every]
        y = y / jnp.sqrt(jnp.square(y).sum(-1, keepdims=True) + 1e-6)
        logits = x @ y.T / 0.05 - jnp.log(counts[every])
        same = (items[:, None] == every[None]) & (jnp.arange(batch)[:, None] != jnp.arange(batch * (1 + hard)))
        logits = jnp.where(same, -1e9, logits)
        right = jnp.diagonal(logits[:, :batch])
        hit = (logits.argmax(-1) == jnp.arange(batch)).mean()
        return (jax.nn.logsumexp(logits, -1) - right).mean(), hit
    return (jax.value_and_grad(loss, argnums=(0, 1), has_aux=True), f32(batch, width), f32(rows, width),
            ints(rows, batch), ints(rows, batch, hard), Arg((rows,), F32, low=0.01, high=1))


@module("two_hot_and_quantile_critics_grad_f32", "losses", {"rows": 2003, "bins": 255, "quantiles": 51},
        {"rows": 5, "bins": 7, "quantiles": 4}, tolerance=2)
def _(rows, bins, quantiles):
    """Symlog returns as two-hot targets of bins, and all pairs of quantiles by a Huber pinball loss."""
    def loss(logits, found, target, returns):
        squashed = jnp.clip(jnp.sign(returns) * jnp.log1p(jnp.abs(returns)), -19, 19)
        place = (squashed + 20) / 40 * (bins - 1)
        low = jnp.floor(place).astype(I32)
        share = (place - low)[:, None]
        wanted = jax.nn.one_hot(low, bins) * (1 - share) + jax.nn.one_hot(low + 1, bins) * share
        first = -(wanted * jax.nn.log_softmax(logits)).sum(-1).mean()
        away = lax.stop_gradient(target)[:, None] - found[:, :, None]
        huber = jnp.where(jnp.abs(away) < 1, away * away / 2, jnp.abs(away) - 0.5)
        levels = ((jnp.arange(quantiles) + 0.5) / quantiles)[:, None]
        return first + (jnp.abs(levels - (away < 0)) * huber).mean(2).sum(1).mean()
    q = f32(rows, quantiles)
    return jax.value_and_grad(loss, argnums=(0, 1)), f32(rows, bins), q, q, f32(rows, scale=30)


@module("speech_text_forward_sums_grad_f32", "losses", {"batch": 11, "frames": 333, "words": 61, "width": 80},
        {"batch": 2, "frames": 7, "words": 3, "width": 4}, tolerance=4)
def _(batch, frames, words, width):
    """Monotonic alignments of frames and words: distances, a prior, and the sum over all paths by a scan."""
    def loss(speech, text, prior, frame_counts, word_counts):
        away = jnp.square(speech[:, :, None] - text[:, None]).sum(-1)
        seen = jnp.arange(words) < word_counts[:, None]
        log = jax.nn.log_softmax(-5e-3 * away + prior, -1)
        log = jax.nn.log_softmax(jnp.where(seen[:, None], log, -1e9), -1)

        def step(total, given):
            t, now = given
            moved = jnp.pad(total[:, :-1], ((0, 0), (1, 0)), constant_values=-1e9)
            new = jnp.logaddexp(total, moved) + now
            return jnp.where((t < frame_counts)[:, None], new, total), None
        start = jnp.where(jnp.arange(words) == 0, log[:, 0], -1e9)
        last, _ = lax.scan(step, start, (jnp.arange(1, frames), log[:, 1:].swapaxes(0, 1)))
        ends = jnp.take_along_axis(last, word_counts[:, None] - 1, 1)[:, 0]
        return -(ends / frame_counts).mean()
    return (jax.value_and_grad(loss, argnums=(0, 1)), f32(batch, frames, width), f32(batch, words, width),
            f32(batch, frames, words), ints(frames + 1, batch, low=words), ints(words + 1, batch, low=2))


# Convolutions and pools.

@module("inception_branches_grad_bf16", "convolutions", {"images": 6, "size": 17, "channels": 288},
        {"images": 1, "size": 5, "channels": 8}, tolerance=10)
def _(images, size, channels):
    """Four branches of 1×1, factored 1×7 and 7×1, 3×3 twice and an average pool, concatenated and rectified."""
    part = channels // 4
    conv = functools.partial(lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", dimension_numbers=NHWC)

    def layer(x, ones, row, column, squares):
        a, b, c = (x @ ones[i] for i in range(3))
        b = conv(jax.nn.relu(conv(b, row)), column)
        c = conv(jax.nn.relu(conv(c, squares[0])), squares[1])
        ones_like = lax.reduce_window(jnp.ones_like(x), jnp.array(0, BF16), lax.add, (1, 3, 3, 1), (1,) * 4, "SAME")
        pooled = lax.reduce_window(x.astype(F32), 0.0, lax.add, (1, 3, 3, 1), (1,) * 4, "SAME") / ones_like
        return jax.nn.relu(jnp.concatenate([a, b, c, pooled.astype(BF16) @ ones[3]], -1))
    x = bf16(images, size, size, channels)
    return (backward(layer), x, x, weights(BF16, 4, channels, part), bf16(1, 7, part, part, scale=0.04),
            bf16(7, 1, part, part, scale=0.04), bf16(2, 3, 3, part, part, scale=0.04))


@module("modulated_styles_up_conv_grad_f32", "convolutions", {"images": 3, "size": 29, "inputs": 60, "outputs": 44},
        {"images": 2, "size": 4, "inputs": 4, "outputs": 3}, tolerance=4)
def _(images, size, inputs, outputs):
    """Filters scaled by each image's style and demodulated, images as groups, upsampled by a transposed filter."""
    def layer(x, style, w, blur):
        own = w[None] * style[:, None, None, :, None]
        own = own * lax.rsqrt(jnp.square(own).sum((1, 2, 3), keepdims=True) + 1e-8)
        h = lax.conv_general_dilated(x.reshape(1, images * inputs, size, size),
                                     own.transpose(0, 4, 3, 1, 2).reshape(images * outputs, inputs, 3, 3), (1, 1),
                                     [(2, 2), (2, 2)], lhs_dilation=(2, 2), feature_group_count=images,
                                     dimension_numbers=NCHW)
        filters = jnp.broadcast_to(jnp.outer(blur, blur), (images * outputs, 1, 4, 4))
        h = lax.conv_general_dilated(h, filters, (1, 1), [(1, 1), (1, 1)], feature_group_count=images * outputs,
                                     dimension_numbers=NCHW)
        return jax.nn.leaky_relu(h.reshape(images, outputs, 2 * size, 2 * size), 0.2) * 2 ** 0.5
    return (backward(layer), f32(images, outputs, 2 * size, 2 * size), f32(images, inputs, size, size),
            around_one(F32, images, inputs), f32(3, 3, inputs, outputs), f32(4))


@module("snake_residual_transposed_1d_grad_bf16", "convolutions", {"batch": 3, "length": 401, "inputs": 192,
        "stride": 5}, {"batch": 1, "length": 6, "inputs": 6, "stride": 2}, tolerance=10)
def _(batch, length, inputs, stride):
    """A vocoder's stage: periodic activations, a transposed convolution, residuals with dilations 1, 3 and 9."""
    outputs = inputs // 2

    def snake(x, a):
        wide, a = x.astype(F32), jnp.exp(a)
        return (wide + jnp.square(jnp.sin(wide * a)) / (a + 1e-6)).astype(BF16)

    def layer(x, up, alphas, first, wide, narrow):
        x = lax.conv_transpose(snake(x, first), up, (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
        for i, rate in enumerate((1, 3, 9)):
            h = lax.conv_general_dilated(snake(x, alphas[i, 0]), wide[i], (1,), "SAME", rhs_dilation=(rate,),
                                         dimension_numbers=("NWC", "WIO", "NWC"))
            x = x + snake(h, alphas[i, 1]) @ narrow[i]
        return x
    return (backward(layer), bf16(batch, stride * length, outputs), bf16(batch, length, inputs),
            bf16(2 * stride, inputs, outputs, scale=0.05), f32(3, 2, outputs, scale=0.2), f32(inputs, scale=0.2),
            bf16(3, 7, outputs, outputs, scale=0.03), weights(BF16, 3, outputs, outputs))


@module("soft_pool_statistics_attentive_grad_f32", "pooling", {"batch": 9, "length": 602, "channels": 256},
        {"batch": 2, "length": 9, "channels": 6}, tolerance=2)
def _(batch, length, channels):
    """Windows weighted by their exponentials, then means and deviations of time weighted by attention; gradients."""
    def layer(x, down, up):
        e = jnp.exp(jnp.clip(x, -10, 10))
        total = functools.partial(lax.reduce_window, init_value=0.0, computation=lax.add, window_dimensions=(1, 3, 1),
                                  window_strides=(1, 3, 1), padding="VALID")
        x = total(x * e) / total(e)
        mean, deviation = x.mean(1, keepdims=True), jnp.sqrt(x.var(1, keepdims=True) + 1e-4)
        context = jnp.concatenate([x, jnp.broadcast_to(mean, x.shape), jnp.broadcast_to(deviation, x.shape)], -1)
        weight = jax.nn.softmax(jnp.tanh(context @ down) @ up, axis=1)
        mean = (weight * x).sum(1)
        square = (weight * jnp.square(x)).sum(1) - jnp.square(mean)
        return jnp.concatenate([mean, jnp.sqrt(jnp.maximum(square, 1e-4))], -1)
    return (backward(layer), f32(batch, 2 * channels), f32(batch, length, channels), weights(F32, 3 * channels, 96),
            weights(F32, 96, channels))


# Quantised products.

@module("fp4_two_level_scales_b21_bf16", "quantised", {"rows": 21, "inner": 2688, "columns": 3000},
        {"rows": 3, "inner": 32, "columns": 6}, tolerance=4)
def _(rows, inner, columns):
    """Four-bit floats by a table, two in a byte, a scale in f8 for 16 of them, one for all; then squared ReLU."""
    def layer(x, packed, scales, whole, table):
        low, high = packed & 15, packed >> 4
        both = jnp.stack([low, high], 1).reshape(inner, columns)
        wide = table[both.astype(I32)].reshape(inner // 16, 16, columns) * scales.astype(F32)[:, None] * whole
        return jnp.square(jax.nn.relu(x @ wide.reshape(inner, columns).astype(BF16)))
    return (layer, bf16(rows, inner), ints(256, inner // 2, columns, dtype=U8),
            Arg((inner // 16, columns), F8, low=0.5, high=2), Arg((), F32, low=0.01, high=0.02), f32(16, scale=2))


@module("int4_adapters_trained_grad_bf16", "quantised", {"rows": 1100, "inner": 1408, "columns": 1900, "rank": 24,
        "group": 64}, {"rows": 4, "inner": 16, "columns": 6, "rank": 2, "group": 4}, tolerance=8)
def _(rows, inner, columns, rank, group):
    """Frozen weights of four bits in groups, and a product of low rank beside them, whose gradients are taken."""
    def layer(x, a, b, packed, scales):
        w = jnp.stack([packed & 15, packed >> 4], 1).reshape(inner // group, group, columns).astype(F32) - 8
        w = (w * scales[:, None]).reshape(inner, columns).astype(BF16)
        return x @ w + (x @ a) @ b * 1.5
    return (lambda g, *rest: jax.vjp(lambda *p: layer(*p, *rest[3:]), *rest[:3])[1](g), bf16(rows, columns),
            bf16(rows, inner), weights(BF16, inner, rank), weights(BF16, rank, columns),
            ints(256, inner // 2, columns, dtype=U8), Arg((inner // group, columns), F32, low=0.005, high=0.01))


@module("hadamard_rotated_int8_tokens_bf16", "quantised", {"rows": 515, "blocks": 11, "columns": 1800},
        {"rows": 4, "blocks": 2, "columns": 6}, tolerance=4, mismatch=2e-3)
def _(rows, blocks, columns):
    """Blocks of 128 turned by butterflies, written out, then int8 by token and int8 weights by channel."""
    def layer(x, w, scales):
        y = x.astype(F32).reshape(rows, blocks, 128)
        for half in (1, 2, 4, 8, 16, 32, 64):
            y = y.reshape(rows, blocks, -1, 2, half)
            y = jnp.stack([y[..., 0, :] + y[..., 1, :], y[..., 0, :] - y[..., 1, :]], -2)
        y = y.reshape(rows, blocks * 128) / math.sqrt(128)
        scale = jnp.maximum(jnp.abs(y).max(-1, keepdims=True), 1e-5) / 127
        product = lax.dot(jnp.round(y / scale).astype(I8), w, preferred_element_type=I32)
        return (product.astype(F32) * scale * scales).astype(BF16)
    return (layer, bf16(rows, blocks * 128), ints(128, blocks * 128, columns, low=-127, dtype=I8),
            Arg((columns,), F32, low=1e-3, high=2e-3))
