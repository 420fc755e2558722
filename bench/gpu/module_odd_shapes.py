"""More modules of modules.py, at sizes that are primes or no multiple of a tile: reductions of few or of tall columns,
products with few outputs, blocks of transformers, decode steps, norms, losses, optimizers.
"""
import math

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, I32, Arg, around_one, backward, bf16, f32, ints, layer_norm, module, rms_norm,
                             weights)

F16 = jnp.float16


def f16(*shape, scale=1.0):
    return Arg(shape, F16, scale)


# Reductions.

@module("argmax_one_row_f32", "reductions", {"length": 1000003}, {"length": 1003})
def _(length):
    return lambda x: (jnp.argmax(x), x.max()), f32(length)


@module("argmin_tall_columns_bf16", "reductions", {"rows": 100003, "columns": 331}, {"rows": 301, "columns": 7})
def _(rows, columns):
    """Of equal values the first."""
    return lambda x: jnp.argmin(x, 0), bf16(rows, columns)


@module("any_all_of_millions", "reductions", {"rows": 3001, "columns": 12345, "far": 5.0},
        {"rows": 31, "columns": 45, "far": 3.0})
def _(rows, columns, far):
    """One that is there in few places, one nearly everywhere, of all and of each column."""
    def some(x):
        high, low = x > far, x > -far
        return jnp.any(high), jnp.all(low), jnp.any(high, 0), jnp.all(low, 0), jnp.sum(high, dtype=I32)
    return some, f32(rows, columns)


@module("min_max_columns_bf16", "reductions", {"rows": 20011, "columns": 1009}, {"rows": 203, "columns": 11})
def _(rows, columns):
    return lambda x: (x.min(0), x.max(0), x.min(), x.max()), bf16(rows, columns)


@module("complex_sums_f32", "reductions", {"rows": 777, "columns": 12345}, {"rows": 7, "columns": 45}, tolerance=4)
def _(rows, columns):
    """Of each row, of each column, and the energy."""
    def sums(real, imaginary):
        z = lax.complex(real, imaginary)
        return z.sum(1), z.sum(0), jnp.square(jnp.abs(z)).sum()
    return sums, f32(rows, columns), f32(rows, columns)


@module("sums_of_prime_columns_bf16", "reductions", {"rows": 65537, "columns": 1021}, {"rows": 257, "columns": 13})
def _(rows, columns):
    """A bias's gradient, and the sum of squares."""
    def sums(x):
        wide = x.astype(F32)
        return wide.sum(0).astype(BF16), jnp.square(wide).sum(0)
    return sums, bf16(rows, columns)


@module("gram_million_terms_f32", "reductions", {"rows": 1000003, "left": 7, "right": 11},
        {"rows": 1003, "left": 3, "right": 5})
def _(rows, left, right):
    return lambda x, y: x.T @ y, f32(rows, left), f32(rows, right)


@module("moments_of_axis_1_f16", "reductions", {"batch": 5, "length": 3001, "width": 777},
        {"batch": 3, "length": 31, "width": 7})
def _(batch, length, width):
    """Mean, deviation and skewness along the middle axis."""
    def moments(x):
        centred = x.astype(F32) - x.astype(F32).mean(1, keepdims=True)
        deviation = jnp.sqrt(jnp.square(centred).mean(1) + 1e-6)
        return x.astype(F32).mean(1), deviation, (centred ** 3).mean(1) / deviation ** 3
    return moments, f16(batch, length, width)


# Transformer blocks.

def attend(q, k, v, mask=None, bias=None):
    """[batch, length, heads, size]; scores in f32."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32) * q.shape[-1] ** -0.5
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else jnp.where(mask, scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(v.dtype), v)


@module("gemma_block_bf16", "transformer", {"batch": 3, "length": 601, "width": 1152, "heads": 9, "inner": 4001},
        {"batch": 2, "length": 11, "width": 24, "heads": 3, "inner": 31}, tolerance=3)
def _(batch, length, width, heads, inner):
    """Norms before and after both halves, capped scores, gated gelu; one key and value for three heads."""
    def block(x, n1, n2, n3, n4, wq, wk, wv, wo, gate, up, down):
        h = rms_norm(x, n1)
        q, k, v = ((h @ w).reshape(batch, length, -1, width // heads) for w in (wq, wk, wv))
        k, v = jnp.repeat(k, 3, 2), jnp.repeat(v, 3, 2)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32) * (width // heads) ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), 50 * jnp.tanh(scores / 50), -1e30)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(BF16), v).reshape(batch, length, -1)
        x = x + rms_norm(mixed @ wo, n2)
        h = rms_norm(x, n3)
        return x + rms_norm((jax.nn.gelu(h @ gate) * (h @ up)) @ down, n4)
    gain, square, third = around_one(BF16, width), weights(BF16, width, width), weights(BF16, width, width // 3)
    return (block, bf16(batch, length, width), gain, gain, gain, gain, square, third, third, square,
            weights(BF16, width, inner), weights(BF16, width, inner), weights(BF16, inner, width))


@module("dit_block_grad_bf16", "transformer", {"batch": 5, "length": 257, "width": 1000, "heads": 8, "inner": 3000},
        {"batch": 2, "length": 9, "width": 24, "heads": 2, "inner": 40}, tolerance=4)
def _(batch, length, width, heads, inner):
    """A diffusion transformer's: shifts, scales and gates by the condition."""
    def block(x, condition, change, wqkv, wo, up, down):
        shift, scale, gate, shift2, scale2, gate2 = jnp.split((jax.nn.silu(condition) @ change)[:, None], 6, -1)
        one, zero = jnp.ones(width, BF16), jnp.zeros(width, BF16)
        h = layer_norm(x, one, zero) * (1 + scale) + shift
        q, k, v = jnp.split((h @ wqkv).reshape(batch, length, 3 * heads, -1), 3, 2)
        x = x + gate * (attend(q, k, v).reshape(batch, length, width) @ wo)
        h = layer_norm(x, one, zero) * (1 + scale2) + shift2
        return x + gate2 * (jax.nn.gelu(h @ up) @ down)
    x = bf16(batch, length, width)
    return (backward(block), x, x, bf16(batch, width), weights(BF16, width, 6 * width), weights(BF16, width, 3 * width),
            weights(BF16, width, width), weights(BF16, width, inner), weights(BF16, inner, width))


@module("mixer_block_f32", "transformer", {"batch": 5, "places": 197, "width": 777, "inner": (401, 3001)},
        {"batch": 2, "places": 7, "width": 11, "inner": (9, 13)})
def _(batch, places, width, inner):
    """MLP-Mixer's: a product along places, one along features."""
    def block(x, g1, b1, up1, down1, g2, b2, up2, down2):
        h = layer_norm(x, g1, b1).swapaxes(1, 2)
        x = x + (jax.nn.gelu(h @ up1) @ down1).swapaxes(1, 2)
        return x + jax.nn.gelu(layer_norm(x, g2, b2) @ up2) @ down2
    gain, bias = around_one(F32, width), f32(width, scale=0.1)
    return (block, f32(batch, places, width), gain, bias, weights(F32, places, inner[0]),
            weights(F32, inner[0], places), gain, bias, weights(F32, width, inner[1]), weights(F32, inner[1], width))


# Attention.

@module("attention_relative_f16", "attention", {"batch": 3, "length": 509, "heads": 7, "size": 64, "buckets": 32},
        {"batch": 2, "length": 13, "heads": 2, "size": 8, "buckets": 8})
def _(batch, length, heads, size, buckets):
    """T5's buckets of distances, and lengths of the batch's rows."""
    def attention(q, k, v, table, lengths):
        distance = jnp.arange(length)[None] - jnp.arange(length)[:, None]
        near, far = buckets // 4, jnp.abs(distance)
        large = near + (jnp.log(jnp.maximum(far, 1) / near) / math.log(128 / near) * near).astype(I32)
        bucket = jnp.where(distance > 0, buckets // 2, 0) + jnp.where(far < near, far, jnp.minimum(large, 2 * near - 1))
        mask = jnp.arange(length)[None] < lengths[:, None]
        return attend(q, k, v, mask[:, None, None], table[bucket].transpose(2, 0, 1)[None])
    x = f16(batch, length, heads, size)
    return attention, x, x, x, f32(buckets, heads), ints(length, batch, low=length // 2)


@module("attention_cross_grad_bf16", "attention",
        {"batch": 3, "queries": 211, "keys": 1499, "heads": 6, "size": 80},
        {"batch": 2, "queries": 5, "keys": 13, "heads": 2, "size": 8}, tolerance=3)
def _(batch, queries, keys, heads, size):
    """Whisper's: few queries, keys of an odd number, no mask."""
    q, k = bf16(batch, queries, heads, size), bf16(batch, keys, heads, size)
    return backward(attend), q, q, k, k


@module("attention_linear_f32", "attention", {"batch": 3, "length": 3001, "heads": 5, "size": 48},
        {"batch": 2, "length": 17, "heads": 2, "size": 5})
def _(batch, length, heads, size):
    """Without softmax: features that are not negative, sums over all keys."""
    def attention(q, k, v):
        q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
        state = jnp.einsum("blhd,blhe->bhde", k, v)
        return jnp.einsum("blhd,bhde->blhe", q, state) / jnp.einsum("blhd,bhd->blh", q, k.sum(1))[..., None]
    x = f32(batch, length, heads, size)
    return attention, x, x, x


# Decode steps.

@module("decode_ring_window_b3_bf16", "decode", {"batch": 3, "width": 2304, "heads": 9, "kv_heads": 3, "cache": 1021},
        {"batch": 2, "width": 36, "heads": 3, "kv_heads": 1, "cache": 11}, tolerance=2, donated={2: 1, 3: 2})
def _(batch, width, heads, kv_heads, cache):
    """A sliding window as a ring: row step % cache is written; rows not yet filled are masked."""
    size = width // heads

    def step(x, gain, keys, values, at, wq, wk, wv, wo):
        h = rms_norm(x, gain)
        q = (h @ wq).reshape(batch, kv_heads, -1, size)
        k, v = ((h @ w).reshape(batch, 1, kv_heads, size) for w in (wk, wv))
        place = at[0] % cache
        keys, values = (lax.dynamic_update_slice(c, new, (0, place, 0, 0)) for c, new in ((keys, k), (values, v)))
        scores = jnp.einsum("bgqd,bkgd->bgqk", q, keys, preferred_element_type=F32) * size ** -0.5
        scores = jnp.where(jnp.arange(cache) <= at[0], scores, -1e30)
        mixed = jnp.einsum("bgqk,bkgd->bgqd", jax.nn.softmax(scores).astype(BF16), values)
        return x + mixed.reshape(batch, width) @ wo, keys, values
    kept = bf16(batch, cache, kv_heads, size)
    return (step, bf16(batch, width), around_one(BF16, width), kept, kept, ints(5000, 1), weights(BF16, width, width),
            weights(BF16, width, kv_heads * size), weights(BF16, width, kv_heads * size), weights(BF16, width, width))


@module("decode_lengths_b5_f16", "decode", {"batch": 5, "heads": 21, "kv_heads": 7, "size": 96, "cache": 3001},
        {"batch": 3, "heads": 6, "kv_heads": 2, "size": 8, "cache": 17})
def _(batch, heads, kv_heads, size, cache):
    """Each sequence at a place of its own: its row is scattered, others are masked; not donated."""
    def step(q, k, v, keys, values, at):
        rows = jnp.arange(batch)
        keys, values = keys.at[rows, :, at].set(k), values.at[rows, :, at].set(v)
        q = q.reshape(batch, kv_heads, -1, size)
        scores = jnp.einsum("bgqd,bgkd->bgqk", q, keys, preferred_element_type=F32) * size ** -0.5
        scores = jnp.where((jnp.arange(cache)[None] <= at[:, None])[:, None, None], scores, -jnp.inf)
        mixed = jnp.einsum("bgqk,bgkd->bgqd", jax.nn.softmax(scores).astype(F16), values)
        return mixed.reshape(batch, heads * size), keys, values
    kept, row = f16(batch, kv_heads, cache, size), f16(batch, kv_heads, size)
    return step, f16(batch, heads, size), row, row, kept, kept, ints(cache, batch, low=cache // 3)


@module("decode_mamba_conv_b3_bf16", "decode", {"batch": 3, "width": 2560, "inner": 5120, "states": 16, "rank": 160},
        {"batch": 2, "width": 12, "inner": 24, "states": 4, "rank": 3}, tolerance=3, donated={1: 1, 2: 2})
def _(batch, width, inner, states, rank):
    """A step of Mamba: a convolution's last inputs and the state are kept."""
    def step(x, kept, state, into, conv, dt_bc, dt_up, dt_bias, log_a, skip, out):
        h, gate = jnp.split(x @ into, 2, -1)
        kept = jnp.concatenate([kept[:, 1:], h[:, None]], 1)
        h = jax.nn.silu(jnp.einsum("bki,ki->bi", kept, conv))
        dt, b, c = jnp.split((h @ dt_bc).astype(F32), [rank, rank + states], -1)
        dt = jax.nn.softplus(dt @ dt_up + dt_bias)
        state = state * jnp.exp(-dt[..., None] * jnp.exp(log_a)) + (dt * h.astype(F32))[..., None] * b[:, None]
        y = jnp.einsum("bis,bs->bi", state, c) + skip * h.astype(F32)
        return (y * jax.nn.silu(gate.astype(F32))).astype(BF16) @ out, kept, state
    return (step, bf16(batch, width), bf16(batch, 4, inner), f32(batch, inner, states), weights(BF16, width, 2 * inner),
            bf16(4, inner, scale=0.5), weights(BF16, inner, rank + 2 * states), weights(F32, rank, inner),
            Arg((inner,), F32, low=-5, high=-2), Arg((inner, states), F32, low=0, high=2), f32(inner),
            weights(BF16, inner, width))


# Norms.

@module("norm_middle_axis_grad_f32", "norms", {"batch": 5, "channels": 331, "length": 3001},
        {"batch": 2, "channels": 7, "length": 13})
def _(batch, channels, length):
    """A layer norm over channels that come before places."""
    def norm(x, gain, bias):
        centred = x - x.mean(1, keepdims=True)
        return centred * lax.rsqrt(jnp.square(centred).mean(1, keepdims=True) + 1e-5) * gain[:, None] + bias[:, None]
    x = f32(batch, channels, length)
    return backward(norm), x, x, around_one(F32, channels), f32(channels)


@module("weight_standard_conv_grad_f32", "norms", {"images": 5, "size": 31, "inputs": 130, "outputs": 251},
        {"images": 2, "size": 5, "inputs": 4, "outputs": 7})
def _(images, size, inputs, outputs):
    """Weights of mean 0 and deviation 1, then a convolution, with gradients through both."""
    def layer(x, w, gain):
        centred = w - w.mean((0, 1, 2))
        w = centred * lax.rsqrt(jnp.square(centred).sum((0, 1, 2)) + 1e-4) * gain
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return (backward(layer), f32(images, size, size, outputs), f32(images, size, size, inputs),
            f32(3, 3, inputs, outputs), around_one(F32, outputs))


@module("scale_norm_grad_bf16", "norms", {"rows": 5003, "width": 3001}, {"rows": 7, "width": 31}, tolerance=2)
def _(rows, width):
    """One gain for all; x divided by its norm."""
    def norm(x, gain):
        wide = x.astype(F32)
        return (gain * wide / jnp.maximum(jnp.sqrt(jnp.square(wide).sum(-1, keepdims=True)), 1e-5)).astype(BF16)
    return backward(norm), bf16(rows, width), bf16(rows, width), Arg((), F32, low=5, high=6)


@module("instance_norm_nchw_grad_f32", "norms", {"images": 3, "channels": 131, "size": 157},
        {"images": 2, "channels": 5, "size": 7})
def _(images, channels, size):
    """And statistics that are kept from the other images: adaptive, as in style transfer."""
    def norm(x, style):
        centred = x - x.mean((2, 3), keepdims=True)
        other = style.mean((2, 3), keepdims=True)
        return centred * lax.rsqrt(jnp.square(centred).mean((2, 3), keepdims=True) + 1e-5) * other + other
    x = f32(images, channels, size, size)
    return backward(norm), x, x, around_one(F32, images, channels, size, size)


# Losses.

@module("smoothed_32003_grad_bf16", "losses", {"rows": 1999, "classes": 32003}, {"rows": 7, "classes": 53})
def _(rows, classes):
    def loss(logits, labels):
        logs = jax.nn.log_softmax(logits.astype(F32))
        chosen = jnp.take_along_axis(logs, labels[:, None], -1)[:, 0]
        return -(0.9 * chosen + 0.1 * logs.mean(-1)).mean()
    return jax.value_and_grad(loss), bf16(rows, classes, scale=2.0), ints(classes, rows)


@module("ctc_f32", "losses", {"batch": 24, "frames": 199, "classes": 97, "labels": 41},
        {"batch": 3, "frames": 9, "classes": 7, "labels": 3}, tolerance=4)
def _(batch, frames, classes, labels):
    """The forward recursion of CTC in logarithms, a step for each frame; labels of equal length."""
    def loss(logits, targets):
        logs = jax.nn.log_softmax(logits)
        path = jnp.zeros((batch, 2 * labels + 1), I32).at[:, 1::2].set(targets)
        skips = jnp.pad((path[:, 2:] != path[:, :-2]) & (path[:, 2:] != 0), ((0, 0), (2, 0)))
        given = jnp.take_along_axis(logs, jnp.broadcast_to(path, (frames, *path.shape)), -1)
        alpha = jnp.where(jnp.arange(2 * labels + 1) < 2, given[0], -1e30)

        def step(alpha, emitted):
            one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=-1e30)[:, :-1]
            two = jnp.where(skips, jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=-1e30)[:, :-2], -1e30)
            top = jnp.maximum(jnp.maximum(alpha, one), two)
            return top + jnp.log(jnp.exp(alpha - top) + jnp.exp(one - top) + jnp.exp(two - top)) + emitted, None
        alpha = lax.scan(step, alpha, given[1:])[0]
        return -jnp.logaddexp(alpha[:, -1], alpha[:, -2]).mean()
    return loss, f32(frames, batch, classes), ints(classes, batch, labels, low=1)


@module("huber_hinge_dice_f32", "losses", {"images": 5, "size": 501, "classes": 7},
        {"images": 2, "size": 7, "classes": 3})
def _(images, size, classes):
    """Three losses of a segmentation net, with gradients of both predictions."""
    def loss(logits, depth, labels, truth):
        hot = jax.nn.one_hot(labels, classes)
        shares = jax.nn.softmax(logits)
        overlap, whole = (shares * hot).sum((1, 2)), (shares + hot).sum((1, 2))
        hinge = jax.nn.relu(1 - (2 * hot - 1) * logits).mean()
        off = jnp.abs(depth - truth)
        huber = jnp.where(off < 1, 0.5 * off * off, off - 0.5).mean()
        return 1 - (2 * overlap / (whole + 1)).mean() + hinge + huber
    return (jax.value_and_grad(loss, (0, 1)), f32(images, size, size, classes), f32(images, size, size),
            ints(classes, images, size, size), f32(images, size, size))


@module("sigmoid_contrastive_grad_bf16", "losses", {"pairs": 2999, "width": 513}, {"pairs": 7, "width": 9},
        tolerance=3)
def _(pairs, width):
    """SigLIP's: each pair by itself, with gradients of embeddings, temperature and bias."""
    def loss(a, b, scale, bias):
        a, b = (x / jnp.linalg.norm(x.astype(F32), axis=-1, keepdims=True).astype(BF16) for x in (a, b))
        logits = jnp.dot(a, b.T, preferred_element_type=F32) * jnp.exp(scale) + bias
        return -jax.nn.log_sigmoid((2 * jnp.eye(pairs) - 1) * logits).sum() / pairs
    return (jax.value_and_grad(loss, (0, 1, 2, 3)), bf16(pairs, width), bf16(pairs, width), Arg((), F32, low=2, high=3),
            Arg((), F32, low=-10, high=-9))


# Optimizers.

SHAPES = {"shapes": ((12345, 331), (331, 1009), (1009, 331), (1009,), (331,), (3, 3, 67, 131), (), (777, 777))}
SMALL_SHAPES = {"shapes": ((35, 7), (7, 11), (11, 7), (11,), (7,), (3, 3, 2, 5), (), (6, 6))}


def parameters(shapes, scale=1.0):
    return [f32(*shape, scale=scale) for shape in shapes]


def mapped(function, count, *trees):
    each = [function(*leaves) for leaves in zip(*trees)]
    return tuple([one[i] for one in each] for i in range(count))


@module("sophia_f32", "optimizers", SHAPES, SMALL_SHAPES, donated={0: 0, 2: 1})
def _(shapes):
    """Updates by the diagonal of a Hessian, clipped element by element."""
    def step(p, g, m, h):
        def one(p, g, m, h):
            m = 0.96 * m + 0.04 * g
            return p * (1 - 1e-4) - 1e-3 * jnp.clip(m / jnp.maximum(0.05 * h, 1e-12), -1, 1), m
        return mapped(one, 2, p, g, m, h)
    p = parameters(shapes)
    return step, p, p, p, [Arg(shape, F32, low=0, high=10) for shape in shapes]


@module("novograd_f32", "optimizers", SHAPES, SMALL_SHAPES)
def _(shapes):
    """One second moment for each array."""
    def step(p, g, m, v):
        def one(p, g, m, v):
            v = 0.98 * v + 0.02 * jnp.square(g).sum()
            m = 0.95 * m + g / (jnp.sqrt(v) + 1e-8) + 1e-3 * p
            return p - 0.01 * m, m, v
        return mapped(one, 3, p, g, m, v)
    p = parameters(shapes)
    return step, p, p, p, [Arg((), F32, low=0.5, high=1.5) for _ in shapes]


@module("sgd_clipped_ema_skip_bf16", "optimizers", SHAPES, SMALL_SHAPES)
def _(shapes):
    """Clipped by the norm of all; a step whose gradients are not finite is skipped; an average is kept."""
    def step(p, g, m, average, scale):
        norm = jnp.sqrt(sum(jnp.square(x.astype(F32)).sum() for x in g)) / scale
        fine, by = jnp.isfinite(norm), jnp.minimum(1.0, 1.0 / (norm + 1e-6)) / scale

        def one(p, g, m, average):
            new = 0.9 * m + g.astype(F32) * by
            new, moved = jnp.where(fine, new, m), jnp.where(fine, p - 0.1 * new, p)
            return moved, new, 0.999 * average + 0.001 * moved
        return *mapped(one, 3, p, g, m, average), jnp.where(fine, scale * 1.01, scale / 2)
    p = parameters(shapes)
    return (step, p, [bf16(*shape, scale=100.0) for shape in shapes], p, p, Arg((), F32, low=100, high=200))
