"""Modules of modules.py by another author: layers, losses, convolutions, pools and quantised products at sizes that
nobody tunes for, and a few computations that are no neural network."""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, F8, I8, Arg, around_one, backward, bf16, f32, ints, key, key_of, module,
                             rms_norm, weights)

U8 = jnp.uint8


def rotated(x, size, base=1e4):
    """The first `size` of the last dimension rotated by halves; [batch, length, heads, width]."""
    angles = jnp.arange(x.shape[1])[:, None] * base ** (-jnp.arange(0, size, 2) / size)
    cos, sin = (f(angles)[None, :, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    low, high, rest = x[..., :size // 2], x[..., size // 2:size], x[..., size:]
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin, rest], -1)


def causal_mask(queries, window=None):
    behind = jnp.arange(queries)[:, None] - jnp.arange(queries)[None, :]
    return (behind >= 0) if window is None else (behind >= 0) & (behind < window)


def mixed(q, k, v, change, scale=None):
    """Attention with grouped heads; [batch, length, heads, width]. `change` makes scores and a mask of scores."""
    batch, length, heads, width = q.shape
    q = q.reshape(batch, length, k.shape[2], heads // k.shape[2], width)
    scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k, preferred_element_type=F32) * (scale or width ** -0.5)
    weight = jax.nn.softmax(change(scores), axis=-1).astype(v.dtype)
    return jnp.einsum("bhgqk,bkhd->bqhgd", weight, v).reshape(batch, length, heads * v.shape[-1])


def masked(length, window=None):
    return lambda scores: jnp.where(causal_mask(length, window), scores, -1e30)


# Blocks of transformers.

MLA = {"batch": 2, "length": 333, "heads": 12, "latent": 320, "nope": 80, "rope": 48, "value": 72, "width": 1000}
SMALL_MLA = {"batch": 1, "length": 7, "heads": 2, "latent": 12, "nope": 6, "rope": 4, "value": 5, "width": 20}


@module("mla_latent_norms_bf16", "transformer", {**MLA, "grad": False}, SMALL_MLA, tolerance=4)
@module("mla_latent_norms_grad_bf16", "transformer", {**MLA, "grad": True}, SMALL_MLA, tolerance=8)
def _(batch, length, heads, latent, nope, rope, value, width, grad):
    """Multi-head latent attention: queries and keys through normed latents, one rotary key for all heads."""
    def layer(x, down_q, gain_q, up_q, down_kv, gain_kv, up_kv, out):
        q = (rms_norm(x @ down_q, gain_q) @ up_q).reshape(batch, length, heads, nope + rope)
        q = jnp.concatenate([q[..., :nope], rotated(q[..., nope:], rope)], -1)
        both = x @ down_kv
        up = (rms_norm(both[..., :latent], gain_kv) @ up_kv).reshape(batch, length, heads, nope + value)
        shared = rotated(both[..., None, latent:], rope)
        k = jnp.concatenate([up[..., :nope], jnp.broadcast_to(shared, (batch, length, heads, rope))], -1)
        return x + mixed(q, k, up[..., nope:], masked(length)) @ out
    x = bf16(batch, length, width)
    given = (x, weights(BF16, width, latent), around_one(BF16, latent), weights(BF16, latent, heads * (nope + rope)),
             weights(BF16, width, latent + rope), around_one(BF16, latent),
             weights(BF16, latent, heads * (nope + value)), weights(BF16, heads * value, width))
    return (backward(layer), x, *given) if grad else (layer, *given)


GATED = {"batch": 3, "length": 411, "heads": 10, "groups": 2, "size": 96, "width": 840}
SMALL_GATED = {"batch": 1, "length": 6, "heads": 4, "groups": 2, "size": 8, "width": 12}


@module("gated_attention_partial_rotary_bf16", "transformer", {**GATED, "type_": BF16}, SMALL_GATED, tolerance=4)
@module("gated_attention_partial_rotary_grad_f32", "transformer", {**GATED, "batch": 1, "type_": F32}, SMALL_GATED,
        tolerance=4)
def _(batch, length, heads, groups, size, width, type_):
    """Queries with a sigmoid gate beside them, norms of queries and keys around one, a quarter rotated."""
    def layer(x, gain, wq, wk, wv, gain_q, gain_k, out):
        h = rms_norm(x, 1 + gain)
        q, gate = jnp.split((h @ wq).reshape(batch, length, heads, 2 * size), 2, -1)
        k = (h @ wk).reshape(batch, length, groups, size)
        v = (h @ wv).reshape(batch, length, groups, size)
        q, k = (rotated(rms_norm(a, 1 + g), size // 4, 1e6) for a, g in ((q, gain_q), (k, gain_k)))
        seen = mixed(q, k, v, masked(length)) * jax.nn.sigmoid(gate).reshape(batch, length, heads * size)
        return x + seen @ out
    x = Arg((batch, length, width), type_)

    def gain(n):
        return Arg((n,), type_, 0.1)
    given = (x, gain(width), weights(type_, width, 2 * heads * size), weights(type_, width, groups * size),
             weights(type_, width, groups * size), gain(size), gain(size), weights(type_, heads * size, width))
    return (backward(layer), x, *given) if type_ is F32 else (layer, *given)


@module("window_sinks_biases_grad_bf16", "attention",
        {"batch": 2, "length": 500, "heads": 12, "groups": 3, "size": 56, "window": 100},
        {"batch": 1, "length": 9, "heads": 4, "groups": 2, "size": 4, "window": 3}, tolerance=8)
def _(batch, length, heads, groups, size, window):
    """A sliding window, and for each head a learned sink that takes its share of the softmax."""
    def layer(q, k, v, sinks):
        def change(scores):
            scores = jnp.where(causal_mask(length, window), scores, -1e30)
            column = jnp.broadcast_to(sinks.reshape(1, groups, -1, 1, 1).astype(F32), (*scores.shape[:-1], 1))
            return jnp.concatenate([scores, column], -1)
        padded = jnp.pad(k, ((0, 0), (0, 1), (0, 0), (0, 0))), jnp.pad(v, ((0, 0), (0, 1), (0, 0), (0, 0)))
        return mixed(q, padded[0], padded[1], lambda scores: change(scores[..., :-1]))
    q, k = bf16(batch, length, heads, size), bf16(batch, length, groups, size)
    return backward(layer), bf16(batch, length, heads * size), q, k, k, bf16(heads)


@module("t5_buckets_attention_grad_f32", "attention", {"batch": 2, "length": 301, "heads": 6, "size": 44},
        {"batch": 1, "length": 9, "heads": 2, "size": 4}, tolerance=4)
def _(batch, length, heads, size):
    """Biases of a table of 32 buckets of distances, logarithmic from 16 on; the table's gradient too."""
    def layer(q, k, v, table):
        away = jnp.arange(length)[None, :] - jnp.arange(length)[:, None]
        far = jnp.abs(away)
        log = 8 + (jnp.log(jnp.maximum(far, 1) / 8) / jnp.log(128 / 8) * 8).astype(jnp.int32)
        bucket = jnp.where(away > 0, 16, 0) + jnp.where(far < 8, far, jnp.minimum(log, 15))
        bias = table[bucket].transpose(2, 0, 1)[None, :, None]
        return mixed(q, k, v, lambda scores: scores + bias, 1.0)
    x = f32(batch, length, heads, size, scale=0.4)
    return backward(layer), f32(batch, length, heads * size), x, x, x, f32(32, heads)


@module("packed_documents_alibi_bf16", "attention", {"length": 1777, "heads": 7, "size": 88, "documents": 9},
        {"length": 13, "heads": 2, "size": 8, "documents": 3}, tolerance=4)
def _(length, heads, size, documents):
    """Documents packed into one row by sorted ids, positions that begin again with each, ALiBi and a soft cap."""
    def layer(q, k, v, ids):
        first = jnp.searchsorted(ids, ids)
        place = jnp.arange(length) - first
        slopes = 2.0 ** (-8 * jnp.arange(1, heads + 1) / heads)

        def change(scores):
            away = (place[:, None] - place[None, :]).astype(F32)
            scores = 30 * jnp.tanh(scores / 30) - slopes[:, None, None, None] * away
            return jnp.where((ids[:, None] == ids[None, :]) & causal_mask(length), scores, -1e30)
        return mixed(q, k, v, change)
    x = bf16(1, length, heads, size)
    return layer, x, x, x, ints(documents, length, in_order=True)


@module("block_choice_attention_f32", "attention", {"length": 960, "block": 40, "heads": 6, "size": 48, "kept": 5},
        {"length": 24, "block": 4, "heads": 2, "size": 4, "kept": 2}, tolerance=4)
def _(length, block, heads, size, kept):
    """Each block of queries attends to the blocks of keys whose means fit best, which are gathered."""
    def layer(q, k, v):
        blocks = length // block
        qb, kb, vb = (a.reshape(blocks, block, heads, size).transpose(2, 0, 1, 3) for a in (q, k, v))
        fit = jnp.einsum("hqd,hkd->hqk", qb.mean(2), kb.mean(2))
        behind = jnp.arange(blocks)[:, None] - jnp.arange(blocks)
        fit = jnp.where(behind == 0, 1e9, jnp.where(behind > 0, fit, -1e9 - jnp.arange(blocks)))
        chosen = lax.top_k(fit, kept)[1]
        ks, vs = (jax.vmap(lambda a, i: a[i])(a, chosen) for a in (kb, vb))
        scores = jnp.einsum("hnqd,hnckd->hnqck", qb, ks) * size ** -0.5
        keys = chosen[:, :, None, :, None] * block + jnp.arange(block)
        rows = (jnp.arange(blocks)[:, None] * block + jnp.arange(block))[None, :, :, None, None]
        weight = jax.nn.softmax(jnp.where(keys <= rows, scores, -1e30), axis=(-2, -1))
        return jnp.einsum("hnqck,hnckd->hnqd", weight, vs)
    x = f32(length, heads, size)
    return layer, x, x, x


@module("gated_delta_chunks_f32", "scans", {"length": 448, "heads": 9, "key": 48, "value": 80, "chunk": 32},
        {"length": 12, "heads": 2, "key": 4, "value": 6, "chunk": 4}, tolerance=4)
def _(length, heads, key, value, chunk):
    """The gated delta rule by chunks: a triangular inverse by doubling in each, a state handed on by a scan."""
    def layer(q, k, v, decay, beta):
        k = k * lax.rsqrt(jnp.square(k).sum(-1, keepdims=True) + 1e-6)
        q = q * lax.rsqrt(jnp.square(q).sum(-1, keepdims=True) + 1e-6)
        chunks = length // chunk
        q, k, v = (a.reshape(heads, chunks, chunk, -1) for a in (q, k, v))
        beta = jax.nn.sigmoid(beta).reshape(heads, chunks, chunk, 1)
        gone = jnp.cumsum(-jax.nn.softplus(decay).reshape(heads, chunks, chunk), -1)
        lower = causal_mask(chunk)
        ratio = jnp.exp(jnp.where(lower, gone[..., :, None] - gone[..., None, :], -1e30))
        strict = jnp.tril(jnp.einsum("hcid,hcjd->hcij", k * beta, k) * ratio, -1)
        inverse, power, size = jnp.eye(chunk) - strict, strict @ strict, 2
        while size < chunk:
            inverse, power, size = inverse + inverse @ power, power @ power, 2 * size
        w, u = inverse @ (k * beta * jnp.exp(gone)[..., None]), inverse @ (v * beta)
        scores = jnp.einsum("hcid,hcjd->hcij", q, k) * ratio

        def step(state, given):
            q, k, w, u, scores, gone = given
            new = u - w @ state
            out = (q * jnp.exp(gone)[..., None]) @ state + scores @ new
            last = gone[:, -1:]
            state = state * jnp.exp(last)[..., None] + jnp.swapaxes(k * jnp.exp(last - gone)[..., None], 1, 2) @ new
            return state, out
        by_chunk = [jnp.swapaxes(a, 0, 1) for a in (q, k, w, u, scores, gone)]
        state, out = lax.scan(step, jnp.zeros((heads, key, value)), by_chunk)
        return out, state
    return (layer, f32(heads, length, key), f32(heads, length, key), f32(heads, length, value), f32(heads, length),
            f32(heads, length))


@module("three_token_heads_loss_grad_bf16", "transformer",
        {"batch": 2, "length": 129, "width": 520, "vocabulary": 6007},
        {"batch": 2, "length": 7, "width": 12, "vocabulary": 17}, tolerance=10)
def _(batch, length, width, vocabulary):
    """Heads for the next three tokens, each of the last one's states and the embeddings of what came between."""
    def loss(states, table, gains, joins, tokens):
        total = 0.0
        h, labels = states, tokens[:, 1:]
        for depth in range(3):
            kept = length - 3
            if depth:
                between = table[tokens[:, depth:depth + kept]]
                both = jnp.concatenate([rms_norm(h, gains[0]), rms_norm(between, gains[1])], -1)
                h = jax.nn.gelu(both @ joins[depth - 1])
            else:
                h = h[:, :kept]
            logits = jnp.einsum("blw,vw->blv", h, table, preferred_element_type=F32)
            log = jax.nn.log_softmax(logits)
            wanted = labels[:, depth:depth + kept]
            total -= jnp.take_along_axis(log, wanted[..., None], -1).mean() * 0.5 ** depth
        return total
    return (jax.value_and_grad(loss, argnums=(0, 1, 2, 3)), bf16(batch, length, width),
            Arg((vocabulary, width), BF16, width ** -0.5), around_one(BF16, 2, width),
            weights(BF16, 2, 2 * width, width), ints(vocabulary, batch, length))


# Norms.

@module("grn_weighted_norm_grad_bf16", "norms", {"images": 11, "size": 19, "channels": 374},
        {"images": 2, "size": 4, "channels": 9}, tolerance=6)
def _(images, size, channels):
    """Global response normalisation: norms over the places, relative to their mean over the channels."""
    def norm(x, gain, bias):
        wide = x.astype(F32)
        length = jnp.sqrt(jnp.square(wide).sum((1, 2), keepdims=True) + 1e-6)
        return (wide * (length / (length.mean(-1, keepdims=True) + 1e-6)) * gain + bias + wide).astype(BF16)
    x = bf16(images, size, size, channels)
    return backward(norm), x, x, f32(channels), f32(channels)


@module("gated_group_rms_grad_bf16", "norms", {"rows": 3001, "groups": 6, "size": 172},
        {"rows": 5, "groups": 2, "size": 6}, tolerance=6)
def _(rows, groups, size):
    """The norm of a state-space layer: gated first, then normed in groups of the width."""
    def norm(x, z, gain):
        wide = (x * jax.nn.silu(z)).astype(F32).reshape(rows, groups, size)
        wide = wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5)
        return wide.reshape(rows, groups * size).astype(BF16) * gain
    x = bf16(rows, groups * size)
    return backward(norm), x, x, x, around_one(BF16, groups * size)


@module("instance_norm_volumes_grad_f32", "norms", {"images": 3, "channels": 21, "size": (23, 31, 37)},
        {"images": 2, "channels": 3, "size": (2, 3, 5)}, tolerance=2)
def _(images, channels, size):
    def norm(x, gain, bias):
        mean, variance = x.mean((2, 3, 4), keepdims=True), x.var((2, 3, 4), keepdims=True)
        shape = (1, channels, 1, 1, 1)
        return jax.nn.leaky_relu((x - mean) * lax.rsqrt(variance + 1e-5) * gain.reshape(shape) + bias.reshape(shape))
    x = f32(images, channels, *size)
    return backward(norm), x, x, around_one(F32, channels), f32(channels)


@module("adaptive_norm_modulated_bf16", "norms", {"batch": 5, "length": 731, "width": 1150},
        {"batch": 2, "length": 5, "width": 12}, tolerance=4)
def _(batch, length, width):
    """The norms of a diffusion transformer: shifts, scales and gates that one vector for an image gives."""
    def norm(x, branch, condition, w):
        parts = (jax.nn.silu(condition) @ w).reshape(batch, 1, 3, width)
        x = x + parts[:, :, 2] * branch
        wide = x.astype(F32)
        centred = wide - wide.mean(-1, keepdims=True)
        normed = centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-6)
        return x, normed.astype(BF16) * (1 + parts[:, :, 0]) + parts[:, :, 1]
    x = bf16(batch, length, width)
    return norm, x, x, bf16(batch, width), weights(BF16, width, 3 * width)


# Losses.

@module("smoothed_z_loss_128257_grad_bf16", "losses", {"rows": 203, "vocabulary": 128257},
        {"rows": 5, "vocabulary": 37}, tolerance=4)
def _(rows, vocabulary):
    def loss(logits, labels):
        wide = logits.astype(F32)
        total = jax.nn.logsumexp(wide, -1)
        hit = jnp.take_along_axis(wide, labels[:, None], -1)[:, 0]
        each = 0.9 * (total - hit) + 0.1 * (total - wide.mean(-1)) + 1e-4 * jnp.square(total)
        kept = labels % 11 != 0
        return jnp.where(kept, each, 0).sum() / kept.sum()
    return jax.value_and_grad(loss), bf16(rows, vocabulary), ints(vocabulary, rows)


@module("focal_varifocal_grad_f32", "losses", {"images": 3, "anchors": 4725, "classes": 83},
        {"images": 2, "anchors": 7, "classes": 5}, tolerance=2)
def _(images, anchors, classes):
    """Focal loss of anchors whose labels may be none, with weights by the number of hits in an image."""
    def loss(logits, labels, quality):
        target = jax.nn.one_hot(labels - 1, classes) * quality[..., None]
        p = jax.nn.sigmoid(logits)
        each = jnp.maximum(logits, 0) - logits * target + jnp.log1p(jnp.exp(-jnp.abs(logits)))
        weight = jnp.where(target > 0, target, 0.75 * p * p)
        hits = jnp.maximum((labels > 0).sum(-1), 1).astype(F32)
        return ((each * weight).sum((1, 2)) / hits).mean()
    return (jax.value_and_grad(loss), f32(images, anchors, classes), ints(classes + 1, images, anchors),
            Arg((images, anchors), F32, low=0, high=1))


@module("dpo_two_models_grad_bf16", "losses", {"pairs": 3, "length": 67, "vocabulary": 32003},
        {"pairs": 2, "length": 5, "vocabulary": 19}, tolerance=8)
def _(pairs, length, vocabulary):
    """Direct preference optimisation: log-probabilities of answers by a policy and a reference, of both of a pair."""
    def log_probability(logits, labels, mask):
        log = jax.nn.log_softmax(logits.astype(F32))
        return (jnp.take_along_axis(log, labels[..., None], -1)[..., 0] * mask).sum(-1)

    def loss(policy, reference, labels, lengths):
        mask = jnp.arange(length) < lengths[:, None]
        ratio = log_probability(policy, labels, mask) - log_probability(reference, labels, mask)
        margin = 0.1 * (ratio[:pairs] - ratio[pairs:])
        return -(0.95 * jax.nn.log_sigmoid(margin) + 0.05 * jax.nn.log_sigmoid(-margin)).mean(), margin
    x = bf16(2 * pairs, length, vocabulary)
    return (jax.value_and_grad(loss, has_aux=True), x, x, ints(vocabulary, 2 * pairs, length),
            ints(length + 1, 2 * pairs, low=1))


@module("grpo_clipped_grad_f32", "losses", {"prompts": 5, "group": 7, "length": 45, "vocabulary": 8009},
        {"prompts": 2, "group": 3, "length": 4, "vocabulary": 11}, tolerance=4)
def _(prompts, group, length, vocabulary):
    """Advantages relative to a group, clipped ratios, the unbiased estimate of the divergence, entropy beside it."""
    def loss(logits, labels, old, reference, rewards, lengths):
        rewards = rewards.reshape(prompts, group)
        advantage = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, keepdims=True) + 1e-4)
        advantage = advantage.reshape(-1, 1)
        log = jax.nn.log_softmax(logits / 0.7)
        new = jnp.take_along_axis(log, labels[..., None], -1)[..., 0]
        ratio = jnp.exp(jnp.clip(new - old, -9, 9))
        clipped = jnp.clip(ratio, 0.8, 1.28)
        away = jnp.clip(reference - new, -9, 9)
        each = -jnp.minimum(ratio * advantage, clipped * advantage) + 0.04 * (jnp.exp(away) - away - 1)
        mask = (jnp.arange(length) < lengths[:, None]).astype(F32)
        entropy = -(jnp.exp(log) * log).sum(-1)
        return ((each - 1e-3 * entropy) * mask).sum() / mask.sum()
    rows = prompts * group
    old = Arg((rows, length), F32, low=-10, high=-7)
    return (jax.value_and_grad(loss), f32(rows, length, vocabulary), ints(vocabulary, rows, length), old, old,
            f32(rows), ints(length + 1, rows, low=1))


# Convolutions and pools.

@module("conv1d_grouped_dilated_grad_f32", "convolutions", {"batch": 6, "length": 1501, "channels": 90, "groups": 5},
        {"batch": 2, "length": 17, "channels": 6, "groups": 3}, tolerance=4)
def _(batch, length, channels, groups):
    """A gated dilated convolution that looks back only, in groups, of [batch, channels, length]."""
    def layer(x, w):
        both = lax.conv_general_dilated(x, w, (1,), [(12, 0)], rhs_dilation=(3,), feature_group_count=groups,
                                        dimension_numbers=("NCH", "OIH", "NCH"))
        a, b = jnp.split(both, 2, 1)
        return x + jnp.tanh(a) * jax.nn.sigmoid(b)
    x = f32(batch, channels, length)
    return backward(layer), x, x, f32(2 * channels, channels // groups, 5, scale=0.15)


@module("conv3d_up_transposed_bf16", "convolutions", {"size": (9, 13, 17), "inputs": 52, "outputs": 36},
        {"size": (2, 3, 4), "inputs": 4, "outputs": 3}, tolerance=4)
def _(size, inputs, outputs):
    """Volumes upsampled by a transposed convolution, the skip beside it, a convolution of both."""
    def layer(x, skip, up, w):
        y = lax.conv_transpose(x, up, (2, 2, 2), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))
        y = jnp.concatenate([jax.nn.elu(y), skip], -1)
        return lax.conv_general_dilated(y, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))
    return (layer, bf16(2, *size, inputs), bf16(2, *(2 * n for n in size), outputs),
            bf16(3, 3, 3, inputs, outputs, scale=0.03), bf16(3, 3, 3, 2 * outputs, outputs, scale=0.02))


@module("mobile_block_squeeze_grad_bf16", "convolutions", {"images": 7, "size": 29, "channels": 56, "wider": 6},
        {"images": 2, "size": 5, "channels": 4, "wider": 2}, tolerance=10)
def _(images, size, channels, wider):
    """An inverted bottleneck: depthwise with stride 2, squeeze and excitation, hard swish; gradients of all."""
    inner = channels * wider

    def layer(x, first, depth, squeeze, excite, last):
        h = jax.nn.hard_swish(x @ first)
        h = lax.conv_general_dilated(h, depth, (2, 2), [(2, 2), (2, 2)], feature_group_count=inner,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = jax.nn.hard_swish(h)
        means = h.astype(F32).mean((1, 2)).astype(BF16)
        h = h * jax.nn.hard_sigmoid(jax.nn.relu(means @ squeeze) @ excite)[:, None, None]
        return h @ last
    half = (size + 1) // 2
    return (backward(layer), bf16(images, half, half, channels), bf16(images, size, size, channels),
            weights(BF16, channels, inner), bf16(5, 5, 1, inner, scale=0.2), weights(BF16, inner, inner // 4),
            weights(BF16, inner // 4, inner), weights(BF16, inner, channels))


@module("lp_and_max_pools_1d_grad_f32", "pools", {"batch": 14, "length": 3007, "channels": 33},
        {"batch": 2, "length": 23, "channels": 3})
def _(batch, length, channels):
    """Windows of 7 with stride 3: the cube root of sums of cubes, and maxima; gradients."""
    def layer(x):
        cubes = lax.reduce_window(jnp.abs(x) ** 3, 0.0, lax.add, (1, 7, 1), (1, 3, 1), "VALID")
        most = lax.reduce_window(x, -jnp.inf, lax.max, (1, 7, 1), (1, 3, 1), "VALID")
        return (cubes + 1e-3) ** (1 / 3) + most
    count = (length - 7) // 3 + 1
    return backward(layer), f32(batch, count, channels), f32(batch, length, channels)


@module("max_pool_volumes_padded_grad_bf16", "pools", {"images": 3, "size": (15, 27, 33), "channels": 40},
        {"images": 1, "size": (3, 4, 5), "channels": 3}, mismatch=2e-3)
def _(images, size, channels):
    def layer(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 3, 1), (1, 2, 2, 2, 1),
                                 ((0, 0), (1, 1), (1, 1), (1, 1), (0, 0)))
    half = [(n + 1) // 2 for n in size]
    return backward(layer), bf16(images, *half, channels), bf16(images, *size, channels)


# Quantised products.

@module("mx_blocks_product_f8", "quantised", {"rows": 77, "inner": 1504, "columns": 2010},
        {"rows": 3, "inner": 64, "columns": 7}, tolerance=4)
def _(rows, inner, columns):
    """Blocks of 32 along the inner dimension with powers of two as scales; the left side is quantised here."""
    def layer(x, w, exponents):
        blocks = x.astype(F32).reshape(rows, inner // 32, 32)
        most = jnp.maximum(jnp.abs(blocks).max(-1, keepdims=True), 1e-20)
        scale = jnp.exp2(jnp.floor(jnp.log2(most)) - 8)
        left = (jnp.clip(blocks / scale, -448, 448).astype(F8).astype(F32) * scale).astype(BF16)
        right = w.reshape(inner // 32, 32, columns).astype(F32) * jnp.exp2(exponents.astype(F32) - 127)[:, None]
        return left.reshape(rows, inner) @ right.astype(BF16).reshape(inner, columns)
    return (layer, bf16(rows, inner), Arg((inner, columns), F8), ints(125, inner // 32, columns, low=118, dtype=U8))


@module("int4_groups_of_96_product_bf16", "quantised", {"rows": 19, "inner": 2880, "columns": 3100, "group": 96},
        {"rows": 3, "inner": 24, "columns": 6, "group": 6}, tolerance=4)
def _(rows, inner, columns, group):
    """Two weights in a byte, zero points and scales for each group; a gated activation of the product's halves."""
    def layer(x, packed, zeros, scales):
        both = jnp.stack([packed & 15, packed >> 4], 1).reshape(inner, columns).astype(F32)
        wide = both.reshape(inner // group, group, columns) - zeros[:, None].astype(F32)
        w = (wide * scales[:, None].astype(F32)).astype(BF16).reshape(inner, columns)
        gate, up = jnp.split(x @ w, 2, -1)
        return jax.nn.silu(gate) * up
    groups = inner // group
    return (layer, bf16(rows, inner), ints(256, inner // 2, columns, low=0, dtype=U8),
            ints(16, groups, columns, low=0, dtype=U8), Arg((groups, columns), BF16, low=0.002, high=0.01))


@module("w8a8_outlier_columns_f32", "quantised", {"rows": 350, "inner": 1030, "columns": 1290, "outliers": 24},
        {"rows": 4, "inner": 20, "columns": 6, "outliers": 3}, tolerance=4, mismatch=2e-3)
def _(rows, inner, columns, outliers):
    """Int8 by int8 with scales of rows and columns; the columns of x with outliers are multiplied in f32."""
    def layer(x, w, scales, places, kept):
        apart = jnp.take(x, places, axis=1)
        rest = x.at[:, places].set(0)
        most = jnp.maximum(jnp.abs(rest).max(-1, keepdims=True), 1e-6) / 127
        q = jnp.round(rest / most).astype(I8)
        product = lax.dot(q, w, preferred_element_type=jnp.int32)
        return product.astype(F32) * most * scales + apart @ kept
    return (layer, f32(rows, inner), ints(128, inner, columns, low=-127, dtype=I8),
            Arg((columns,), F32, low=1e-3, high=2e-3), ints(inner, outliers), f32(outliers, columns, scale=0.1))


# What is no neural network.

@module("bilateral_7x7_f32", "images", {"images": 2, "height": 271, "width": 483, "radius": 3},
        {"images": 1, "height": 6, "width": 7, "radius": 1})
def _(images, height, width, radius):
    """Means over a window by distance in place and in colour, all shifts written out."""
    def run(x, sigma):
        padded = jnp.pad(x, ((0, 0), (radius, radius), (radius, radius), (0, 0)), mode="reflect")
        total, norm = jnp.zeros_like(x), jnp.zeros((images, height, width, 1))
        for dy in range(2 * radius + 1):
            for dx in range(2 * radius + 1):
                other = padded[:, dy:dy + height, dx:dx + width]
                away = jnp.square(other - x).sum(-1, keepdims=True)
                near = ((dy - radius) ** 2 + (dx - radius) ** 2) / (2 * radius ** 2)
                weight = jnp.exp(-away / (2 * sigma ** 2) - near)
                total, norm = total + weight * other, norm + weight
        return total / norm
    return run, f32(images, height, width, 3), Arg((), F32, low=0.5, high=1)


@module("chamfer_normals_grad_f32", "geometry", {"clouds": 3, "first": 901, "second": 1203},
        {"clouds": 2, "first": 7, "second": 5}, tolerance=2, mismatch=1e-3)
def _(clouds, first, second):
    """Nearest points of two clouds both ways by squared distances, and how far their normals turn away."""
    def loss(a, b, normals_a, normals_b):
        away = jnp.square(a[:, :, None] - b[:, None]).sum(-1)
        near_b, near_a = away.argmin(2), away.argmin(1)
        turned = 1 - jnp.abs((normals_a * jnp.take_along_axis(normals_b, near_b[..., None], 1)).sum(-1))
        back = 1 - jnp.abs((normals_b * jnp.take_along_axis(normals_a, near_a[..., None], 1)).sum(-1))
        return away.min(2).mean() + away.min(1).mean() + 0.1 * (turned.mean() + back.mean())
    a, b = f32(clouds, first, 3), f32(clouds, second, 3)
    return jax.value_and_grad(loss, argnums=(0, 1, 2)), a, b, a, b


@module("arm_seven_joints_jacobian_f32", "robotics", {"arms": 4099}, {"arms": 3}, tolerance=4)
def _(arms):
    """Transforms of seven joints in turn, the geometric Jacobian, a damped least squares step towards a target."""
    def one(angles, offsets, twists, target):
        cos, sin, ct, st = jnp.cos(angles), jnp.sin(angles), jnp.cos(twists), jnp.sin(twists)
        turn, place, axes, places = jnp.eye(3), jnp.zeros(3), [], []
        for i in range(7):
            axes.append(turn[:, 2])
            places.append(place)
            local = jnp.array([[cos[i], -sin[i] * ct[i], sin[i] * st[i]], [sin[i], cos[i] * ct[i], -cos[i] * st[i]],
                               [0.0, st[i], ct[i]]])
            place = place + turn @ (offsets[i] * jnp.array([cos[i], sin[i], 1.0]))
            turn = turn @ local
        axes, places = jnp.stack(axes), jnp.stack(places)
        jacobian = jnp.cross(axes, place - places).T
        small = jacobian @ jacobian.T + 0.1 * jnp.eye(3)
        a, b, c, d, e, f = small[0, 0], small[0, 1], small[0, 2], small[1, 1], small[1, 2], small[2, 2]
        adjugate = jnp.array([[d * f - e * e, c * e - b * f, b * e - c * d],
                              [c * e - b * f, a * f - c * c, b * c - a * e],
                              [b * e - c * d, b * c - a * e, a * d - b * b]])
        inverse = adjugate / (a * (d * f - e * e) + b * (c * e - b * f) + c * (b * e - c * d))
        return angles + jacobian.T @ (inverse @ (target - place)), turn
    def run(angles, offsets, twists, target):
        return jax.vmap(one, (0, None, None, 0))(angles, offsets, twists, target)
    return run, f32(arms, 7), f32(7, 3), f32(7), f32(arms, 3)


@module("asian_option_greeks_f32", "finance", {"paths": 30011, "steps": 52}, {"paths": 7, "steps": 4}, tolerance=8)
def _(paths, steps):
    """Antithetic paths of a price, its mean's pay-off with a barrier, and what its value's gradients are."""
    def value(spot, strike, volatility, rate, data):
        z = jax.random.normal(key_of(data), (paths, steps))
        z = jnp.concatenate([z, -z])
        dt = 1 / steps
        log = jnp.cumsum((rate - volatility ** 2 / 2) * dt + volatility * dt ** 0.5 * z, 1)
        price = spot * jnp.exp(log)
        alive = jax.nn.sigmoid((1.6 * spot - price.max(1)) * 50)
        return (jnp.exp(-rate) * jax.nn.softplus((price.mean(1) - strike) * 20) / 20 * alive).mean()
    one = Arg((), F32, low=0.9, high=1.1)
    share = Arg((), F32, low=0.1, high=0.2)
    return jax.value_and_grad(value, argnums=(0, 2, 3)), one, one, share, share, key()


@module("pair_alignment_forward_f32", "sequences", {"pairs": 301, "first": 75, "second": 64},
        {"pairs": 2, "first": 5, "second": 4}, tolerance=4)
def _(pairs, first, second):
    """Affine gaps, in logarithms, along anti-diagonals: the best score and the sum over alignments."""
    def run(a, b, table, lengths):
        fit = table[a[:, :, None], b[:, None, :]]
        width = first + 1
        # An anti-diagonal d holds the cells (i, d - i), by i.
        i = jnp.arange(width)
        low = jnp.full((pairs, width), -1e9)

        def step(given, d):
            match_1, gap_1, match_2, gap_2, best = given
            j = d - i
            cell = fit[:, jnp.clip(i - 1, 0, first - 1), jnp.clip(j - 1, 0, second - 1)]
            inside = (i >= 1) & (j >= 1) & (j <= second) & (i <= lengths[:, None])
            shift = functools.partial(jnp.pad, pad_width=((0, 0), (1, 0)), constant_values=-1e9)
            up_m, up_g = shift(match_1[:, :-1]), shift(gap_1[:, :-1])
            diagonal = jnp.logaddexp(shift(match_2[:, :-1]), shift(gap_2[:, :-1]))
            match = jnp.where(inside, cell + jnp.logaddexp(diagonal, 0.0), -1e9)
            opened = jnp.logaddexp(match_1, up_m) - 3.0
            gap = jnp.where(inside, jnp.logaddexp(opened, jnp.logaddexp(gap_1, up_g) - 0.5), -1e9)
            best = jnp.maximum(best, match.max(1))
            return (match, gap, match_1, gap_1, best), match[:, ::5]
        start = (low, low, low, low, jnp.full(pairs, -1e9))
        (match, gap, _, _, best), rows = lax.scan(step, start, jnp.arange(2, first + second + 1))
        return best, match, gap, rows
    return run, ints(20, pairs, first), ints(20, pairs, second), f32(20, 20), ints(first + 1, pairs, low=first // 2)
