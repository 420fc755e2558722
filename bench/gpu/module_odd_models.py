"""More modules of modules.py, at odd sizes: models, norms, losses, optimizers, embeddings."""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, Arg, around_one, attention, backward, bf16, causal, distances, f32, ints,
                             layer_norm, module, rms_norm, rotary, weights)


# Blocks of transformers.

def split_heads(x, heads):
    return x.reshape(*x.shape[:-1], heads, -1)


def alibi_scores(scores, bounded=True):
    heads = scores.shape[1]
    slopes = 2.0 ** (-8.0 * (jnp.arange(heads) + 1) / heads)
    return causal(scores - slopes[:, None, None] * distances(scores))


@module("parallel_alibi_block_bf16", "transformer",
        {"batch": 3, "length": 777, "width": 1536, "heads": 12, "inner": 6144},
        {"batch": 2, "length": 13, "width": 32, "heads": 2, "inner": 48}, tolerance=2)
def _(batch, length, width, heads, inner):
    """One norm for attention and the MLP, which stand side by side; the exact GELU; biases nowhere."""
    def block(x, gain, bias, w_in, w_out, up, down):
        h = layer_norm(x, gain, bias)
        q, k, v = (split_heads(a, heads) for a in jnp.split(h @ w_in, 3, -1))
        mixed = attention(q, k, v, alibi_scores).reshape(x.shape)
        return x + mixed @ w_out + jax.nn.gelu(h @ up, approximate=False) @ down
    return (block, bf16(batch, length, width), around_one(BF16, width), Arg((width,), BF16, 0.1),
            weights(BF16, width, 3 * width), weights(BF16, width, width), weights(BF16, width, inner),
            weights(BF16, inner, width))


@module("qknorm_window_block_grad_bf16", "transformer",
        {"batch": 2, "length": 1000, "width": 1280, "heads": 10, "kv_heads": 5, "inner": 3416, "window": 192},
        {"batch": 2, "length": 14, "width": 32, "heads": 4, "kv_heads": 2, "inner": 40, "window": 5}, tolerance=3)
def _(batch, length, width, heads, kv_heads, inner, window):
    """Norms before and after each part, of queries and keys too; a sliding window; SwiGLU."""
    def block(x, p):
        h = rms_norm(x, p["g1"])
        q = rotary(rms_norm(split_heads(h @ p["q"], heads), p["gq"]), jnp.arange(length))
        k = rotary(rms_norm(split_heads(h @ p["k"], kv_heads), p["gk"]), jnp.arange(length))
        mixed = attention(q, k, split_heads(h @ p["v"], kv_heads), functools.partial(causal, window=window))
        x = x + rms_norm(mixed.reshape(x.shape) @ p["o"], p["g2"])
        h = rms_norm(x, p["g3"])
        return x + rms_norm((jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], p["g4"])
    size, x = width // heads, bf16(batch, length, width)
    p = {name: around_one(BF16, width) for name in ("g1", "g2", "g3", "g4")}
    p |= {"gq": around_one(BF16, size), "gk": around_one(BF16, size), "q": weights(BF16, width, width),
          "k": weights(BF16, width, size * kv_heads), "v": weights(BF16, width, size * kv_heads),
          "o": weights(BF16, width, width), "gate": weights(BF16, width, inner),
         "up": weights(BF16, width, inner),
          "down": weights(BF16, inner, width)}
    return backward(block), x, x, p


@module("bert_block_grad_f32", "transformer", {"batch": 5, "length": 333, "width": 768, "heads": 12, "inner": 3072},
        {"batch": 3, "length": 11, "width": 24, "heads": 2, "inner": 40})
def _(batch, length, width, heads, inner):
    """Norms after the residuals, a mask of padding, biases but of keys (whose gradient is 0), the exact GELU."""
    def block(x, p, lengths):
        seen = (jnp.arange(length) < lengths[:, None])[:, None, None, :]
        q, k, v = (split_heads(x @ p["w" + n] + p.get("b" + n, 0), heads) for n in "qkv")
        mixed = attention(q, k, v, lambda scores: jnp.where(seen, scores, jnp.finfo(F32).min))
        x = layer_norm(x + mixed.reshape(x.shape) @ p["wo"] + p["bo"], p["g1"], p["h1"])
        h = jax.nn.gelu(x @ p["up"] + p["bup"], approximate=False) @ p["down"] + p["bdown"]
        return layer_norm(x + h, p["g2"], p["h2"])

    def gradients(cotangent, x, p, lengths):
        return backward(lambda x, p: block(x, p, lengths))(cotangent, x, p)
    p = {"w" + n: weights(F32, width, width) for n in "qkvo"} | {"b" + n: f32(width, scale=0.1) for n in "qvo"}
    p |= {"g1": around_one(F32, width), "h1": f32(width, scale=0.1), "g2": around_one(F32, width),
          "h2": f32(width, scale=0.1), "up": weights(F32, width, inner), "bup": f32(inner, scale=0.1),
          "down": weights(F32, inner, width), "bdown": f32(width, scale=0.1)}
    x = f32(batch, length, width)
    return gradients, x, x, p, ints(length + 1, batch, low=length // 2)


# One token for each sequence, with a cache.

@module("decode_falcon_mqa_b1_bf16", "decode", {"width": 4544, "heads": 71, "inner": 18176, "cache": 3000},
        {"width": 48, "heads": 3, "inner": 64, "cache": 21}, tolerance=2, donated={2: 1, 3: 2})
def _(width, heads, inner, cache):
    """All heads share one head of keys; attention and MLP side by side."""
    def decode(x, p, keys, values, position):
        size = width // heads
        h = layer_norm(x, p["g"], p["b"])
        q, k, v = jnp.split(h @ p["qkv"], [width, width + size], -1)
        q = rotary(q.reshape(1, heads, size), jnp.full((1,), position))
        k = rotary(k.reshape(1, 1, size), jnp.full((1,), position))[:, 0]
        keys = lax.dynamic_update_slice(keys, k, (position, 0))
        values = lax.dynamic_update_slice(values, v, (position, 0))
        scores = jnp.einsum("bhd,sd->bhs", q, keys, preferred_element_type=F32) * size ** -0.5
        shares = jax.nn.softmax(jnp.where(jnp.arange(cache) <= position, scores, -jnp.inf)).astype(BF16)
        mixed = jnp.einsum("bhs,sd->bhd", shares, values).reshape(1, width)
        return x + mixed @ p["o"] + jax.nn.gelu(h @ p["up"], approximate=False) @ p["down"], keys, values
    size = width // heads
    p = {"g": around_one(BF16, width), "b": bf16(width, scale=0.1), "qkv": weights(BF16, width, width + 2 * size),
         "o": weights(BF16, width, width), "up": weights(BF16, width, inner), "down": weights(BF16, inner, width)}
    return decode, bf16(1, width), p, bf16(cache, size), bf16(cache, size), ints(cache * 2 // 3 + 1, low=cache * 2 // 3)


@module("decode_gqa_qknorm_b3_bf16", "decode",
        {"batch": 3, "width": 2560, "heads": 32, "kv_heads": 8, "size": 128, "inner": 9728, "cache": 5000},
        {"batch": 3, "width": 40, "heads": 4, "kv_heads": 2, "size": 16, "inner": 56, "cache": 19}, tolerance=2)
def _(batch, width, heads, kv_heads, size, inner, cache):
    """Each sequence is at a place of its own; heads lie before places in the cache."""
    def decode(x, p, keys, values, at):
        h, each = rms_norm(x, p["g1"]), jnp.arange(batch)
        q = rotary(rms_norm(split_heads(h @ p["q"], heads), p["gq"]), at)
        k = rotary(rms_norm(split_heads(h @ p["k"], kv_heads), p["gk"]), at)
        keys = keys.at[each, :, at].set(k)
        values = values.at[each, :, at].set(split_heads(h @ p["v"], kv_heads))
        q = q.reshape(batch, kv_heads, heads // kv_heads, size)
        scores = jnp.einsum("bhgd,bhsd->bhgs", q, keys, preferred_element_type=F32) * size ** -0.5
        seen = (jnp.arange(cache) <= at[:, None])[:, None, None]
        shares = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)).astype(BF16)
        x = x + jnp.einsum("bhgs,bhsd->bhgd", shares, values).reshape(batch, -1) @ p["o"]
        h = rms_norm(x, p["g2"])
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"], keys, values
    p = {"g1": around_one(BF16, width), "g2": around_one(BF16, width), "gq": around_one(BF16, size),
         "gk": around_one(BF16, size), "q": weights(BF16, width, heads * size),
         "k": weights(BF16, width, kv_heads * size), "v": weights(BF16, width, kv_heads * size),
         "o": weights(BF16, heads * size, width), "gate": weights(BF16, width, inner),
         "up": weights(BF16, width, inner),
         "down": weights(BF16, inner, width)}
    held = bf16(batch, kv_heads, cache, size)
    return decode, bf16(batch, width), p, held, held, ints(cache, batch, low=cache // 2)


@module("decode_mla_b24_bf16", "decode",
        {"batch": 24, "width": 2048, "heads": 16, "size": 128, "turned": 64, "latent": 512, "cache": 1000},
        {"batch": 3, "width": 32, "heads": 2, "size": 16, "turned": 8, "latent": 24, "cache": 17}, tolerance=2)
def _(batch, width, heads, size, turned, latent, cache):
    """DeepSeek's latent attention with the products by the keys' and values' weights absorbed."""
    def decode(x, p, held, held_turned, at):
        each = jnp.arange(batch)
        q = split_heads(x @ p["q"], heads)
        straight, q_turned = q[..., :size], rotary(q[..., size:], at)
        both = x @ p["down"]
        now, k_turned = rms_norm(both[:, :latent], p["g"]), rotary(both[:, None, latent:], at)[:, 0]
        held, held_turned = held.at[each, at].set(now), held_turned.at[each, at].set(k_turned)
        absorbed = jnp.einsum("bhd,hdc->bhc", straight, p["uk"])
        scores = (jnp.einsum("bhc,bsc->bhs", absorbed, held, preferred_element_type=F32)
                  + jnp.einsum("bhr,bsr->bhs", q_turned, held_turned, preferred_element_type=F32))
        scores = jnp.where((jnp.arange(cache) <= at[:, None])[:, None], scores * (size + turned) ** -0.5, -jnp.inf)
        mixed = jnp.einsum("bhs,bsc->bhc", jax.nn.softmax(scores).astype(BF16), held)
        out = jnp.einsum("bhc,hcd->bhd", mixed, p["uv"]).reshape(batch, -1) @ p["o"]
        return x + out, held, held_turned
    p = {"q": weights(BF16, width, heads * (size + turned)), "down": weights(BF16, width, latent + turned),
         "g": around_one(BF16, latent), "uk": weights(BF16, heads, size, latent),
         "uv": weights(BF16, heads, latent, size), "o": weights(BF16, heads * size, width)}
    return (decode, bf16(batch, width), p, bf16(batch, cache, latent), bf16(batch, cache, turned),
            ints(cache, batch, low=cache // 2))


# Attention with masks and biases.

@module("swin_attention_grad_bf16", "attention",
        {"images": 5, "size": 56, "width": 96, "heads": 3, "window": 7, "shift": 3},
        {"images": 2, "size": 6, "width": 16, "heads": 2, "window": 3, "shift": 1}, tolerance=3)
def _(images, size, width, heads, window, shift):
    """Windows of a shifted image: a bias for each offset, and a mask where the image wraps around."""
    def windows(x):
        n = size // window
        x = x.reshape(x.shape[0], n, window, n, window, -1).swapaxes(2, 3)
        return x.reshape(x.shape[0], n * n, window * window, -1)

    def layer(x, qkv, table, out):
        n = size // window
        line = jnp.arange(size)
        region = jnp.where(line < size - window, 0, jnp.where(line < size - shift, 1, 2))
        regions = windows((3 * region[:, None] + region)[None, :, :, None])[0, ..., 0]
        mask = jnp.where(regions[:, :, None] == regions[:, None, :], 0.0, -100.0)
        places = jnp.arange(window * window)
        rows, columns = (a[:, None] - a[None, :] + window - 1 for a in (places // window, places % window))
        bias = table[rows * (2 * window - 1) + columns].transpose(2, 0, 1)
        given = windows(jnp.roll(x, (-shift, -shift), (1, 2)))
        q, k, v = (split_heads(a, heads) for a in jnp.split(given @ qkv, 3, -1))
        scores = jnp.einsum("bwqhd,bwkhd->bwhqk", q, k, preferred_element_type=F32) * q.shape[-1] ** -0.5
        shares = jax.nn.softmax(scores + bias + mask[:, None]).astype(BF16)
        mixed = jnp.einsum("bwhqk,bwkhd->bwqhd", shares, v).reshape(given.shape) @ out
        mixed = mixed.reshape(images, n, n, window, window, width).swapaxes(2, 3).reshape(x.shape)
        return x + jnp.roll(mixed, (shift, shift), (1, 2))
    x = bf16(images, size, size, width)
    return (backward(layer), x, x, weights(BF16, width, 3 * width), f32((2 * window - 1) ** 2, heads),
            weights(BF16, width, width))


@module("attention_packed_f32", "attention", {"batch": 3, "length": 777, "heads": 5, "size": 96},
        {"batch": 2, "length": 17, "heads": 2, "size": 8})
def _(batch, length, heads, size):
    """Documents one after another: a token sees its own document's before it."""
    def packed(q, k, v, documents):
        own = (documents[:, :, None] == documents[:, None, :])[:, None]
        return attention(q, k, v, lambda scores: jnp.where(own & (distances(scores) >= 0), scores, -1e30))
    x = f32(batch, length, heads, size)
    return packed, x, x, x, ints(9, batch, length, in_order=True)


@module("attention_sinks_gqa_grad_bf16", "attention",
        {"batch": 2, "length": 1000, "heads": 24, "kv_heads": 3, "size": 64, "window": 128},
        {"batch": 2, "length": 15, "heads": 4, "kv_heads": 2, "size": 8, "window": 4}, tolerance=3)
def _(batch, length, heads, kv_heads, size, window):
    """A learned score of each head takes its share of the attention and gives nothing."""
    def sinks(q, k, v, sink):
        q = q.reshape(batch, length, kv_heads, heads // kv_heads, size)
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k, preferred_element_type=F32) * size ** -0.5
        scores = causal(scores, window)
        own = jnp.broadcast_to(sink.reshape(1, kv_heads, -1, 1, 1), (*scores.shape[:-1], 1))
        shares = jax.nn.softmax(jnp.concatenate([scores, own], -1))[..., :-1].astype(BF16)
        return jnp.einsum("bhgqk,bkhd->bqhgd", shares, v).reshape(batch, length, heads, size)
    q, k = bf16(batch, length, heads, size), bf16(batch, length, kv_heads, size)
    return backward(sinks), q, q, k, k, f32(heads)


# Norms.

@module("group_norm_nchw_grad_f32", "norms", {"images": 5, "channels": 96, "size": 77, "groups": 12},
        {"images": 3, "channels": 12, "size": 5, "groups": 4})
def _(images, channels, size, groups):
    def norm(x, gain, bias):
        parts = x.reshape(images, groups, -1)
        normed = (parts - parts.mean(-1, keepdims=True)) * lax.rsqrt(parts.var(-1, keepdims=True) + 1e-5)
        return jax.nn.silu(normed.reshape(x.shape) * gain[:, None, None] + bias[:, None, None])
    x = f32(images, channels, size, size)
    return backward(norm), x, x, around_one(F32, channels), f32(channels)


@module("instance_norm_nhwc_bf16", "norms", {"images": 3, "size": 200, "channels": 100},
        {"images": 2, "size": 7, "channels": 10})
def _(images, size, channels):
    """Moments of an image's channel, which another image's style scales and shifts."""
    def norm(x, style):
        wide, other = x.astype(F32), style.astype(F32)
        mean, variance = wide.mean((1, 2), keepdims=True), wide.var((1, 2), keepdims=True)
        to = other.mean((1, 2), keepdims=True), jnp.sqrt(other.var((1, 2), keepdims=True) + 1e-5)
        return ((wide - mean) * lax.rsqrt(variance + 1e-5) * to[1] + to[0]).astype(BF16)
    x = bf16(images, size, size, channels)
    return norm, x, x


@module("batch_norm_nchw_grad_bf16", "norms", {"images": 24, "channels": 250, "size": 33},
        {"images": 3, "channels": 10, "size": 5}, tolerance=2)
def _(images, channels, size):
    def norm(x, gain, bias, before):
        wide = x.astype(F32)
        mean, variance = wide.mean((0, 2, 3), keepdims=True), wide.var((0, 2, 3), keepdims=True)
        normed = (wide - mean) * lax.rsqrt(variance + 1e-5)
        return jax.nn.relu((normed * gain[:, None, None] + bias[:, None, None]).astype(BF16) + before)
    x = bf16(images, channels, size, size)
    return backward(norm), x, x, around_one(F32, channels), f32(channels), x


@module("cosine_classifier_grad_f32", "norms", {"rows": 3000, "width": 777, "classes": 5000},
        {"rows": 7, "width": 13, "classes": 11})
def _(rows, width, classes):
    """Rows normalized by their lengths, by weights of which each column has a direction and a length."""
    def scores(x, direction, length):
        x = x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-6)
        return x @ (direction * (length / jnp.sqrt(jnp.square(direction).sum(0))))
    return (backward(scores), f32(rows, classes), f32(rows, width), weights(F32, width, classes),
            around_one(F32, classes))


# Losses with gradients.

@module("smoothed_z_loss_50257_bf16", "losses", {"rows": 3000, "classes": 50257}, {"rows": 9, "classes": 101})
def _(rows, classes):
    """Label smoothing, a penalty of the logarithm of the sum, and rows that are left out."""
    def loss(logits, labels):
        wide = logits.astype(F32)
        total = jax.nn.logsumexp(wide, -1)
        own = jnp.take_along_axis(wide, jnp.maximum(labels, 0)[:, None], -1)[:, 0]
        each = total - 0.9 * own - 0.1 * wide.mean(-1) + 1e-2 * jnp.square(total)
        taken = labels >= 0
        return jnp.where(taken, each, 0).sum() / jnp.maximum(taken.sum(), 1), taken.sum()
    return (jax.value_and_grad(loss, has_aux=True), bf16(rows, classes, scale=2.0),
            ints(classes, rows, low=-classes // 4))


@module("distillation_kl_f32", "losses", {"rows": 1000, "classes": 50257}, {"rows": 7, "classes": 60})
def _(rows, classes):
    def loss(student, teacher, labels):
        soft, log_soft = jax.nn.softmax(teacher / 2), jax.nn.log_softmax(teacher / 2)
        divergence = (soft * (log_soft - jax.nn.log_softmax(student / 2))).sum(-1).mean() * 4
        hard = -jnp.take_along_axis(jax.nn.log_softmax(student), labels[:, None], -1).mean()
        return 0.7 * divergence + 0.3 * hard
    return jax.value_and_grad(loss), f32(rows, classes, scale=2.0), f32(rows, classes, scale=2.0), ints(classes, rows)


@module("triplet_hard_f32", "losses", {"rows": 3000, "width": 200, "classes": 40},
        {"rows": 23, "width": 9, "classes": 4})
def _(rows, width, classes):
    """Of each row the farthest of its class and the nearest of others."""
    def loss(x, labels):
        squares = jnp.square(x).sum(-1)
        far = squares[:, None] + squares[None, :] - 2 * x @ x.T
        far = jnp.sqrt(jnp.maximum(far, 1e-6))
        same = labels[:, None] == labels[None, :]
        positive = jnp.where(same, far, 0).max(-1)
        negative = jnp.where(same, jnp.inf, far).min(-1)
        return jax.nn.softplus(positive - negative).mean()
    return jax.value_and_grad(loss), f32(rows, width), ints(classes, rows)


# Optimizers over trees.

def odd_tree(type_, layers, width, inner, vocabulary, scale=0.02):
    layer = {"qkv": Arg((width, 3 * width), type_, scale), "out": Arg((width, width), type_, scale),
             "up": Arg((width, inner), type_, scale), "down": Arg((inner, width), type_, scale),
             "gain": Arg((width,), type_, scale), "bias": Arg((inner,), type_, scale)}
    return {"embed": Arg((vocabulary, width), type_, scale), "layers": [layer] * layers}


def unzip(tree, like, count):
    return [jax.tree.map(lambda _, one: one[i], like, tree) for i in range(count)]


ODD, SMALL_ODD = ({"layers": 3, "width": 777, "inner": 3000, "vocabulary": 12345},
                  {"layers": 2, "width": 9, "inner": 14, "vocabulary": 31})


@module("adafactor_f32", "optimizers", ODD, SMALL_ODD)
def _(layers, width, inner, vocabulary):
    """Second moments of matrices as those of rows and columns; updates bounded by their root mean square."""
    p = odd_tree(F32, layers, width, inner, vocabulary)
    rows, columns = (jax.tree.map(lambda a: Arg(a.shape[:n] if n > 0 else a.shape[-1:], F32, low=1e-6, high=1e-3), p)
                     for n in (1, -1))

    def one(p, g, row, column, share):
        square = jnp.square(g) + 1e-30
        if p.ndim == 2:
            row = share * row + (1 - share) * square.mean(1)
            column = share * column + (1 - share) * square.mean(0)
            update = g * lax.rsqrt(row / row.mean())[:, None] * lax.rsqrt(column)
        else:
            row = share * row + (1 - share) * square
            update = g * lax.rsqrt(row)
        update = update / jnp.maximum(1.0, jnp.sqrt(jnp.square(update).mean()))
        rate = 1e-2 * jnp.maximum(1e-3, jnp.sqrt(jnp.square(p).mean()))
        return p - rate * update, row, column

    def step(p, g, rows, columns, count):
        share = 1 - count ** -0.8
        made = jax.tree.map(lambda *of: one(*of, share), p, g, rows, columns)
        return unzip(made, p, 3)
    return step, p, p, rows, columns, Arg((), F32, low=10, high=11)


@module("lamb_f32", "optimizers", ODD, SMALL_ODD)
def _(layers, width, inner, vocabulary):
    """A rate of its own for each array: its norm by the update's."""
    p = odd_tree(F32, layers, width, inner, vocabulary)
    v = jax.tree.map(lambda a: Arg(a.shape, F32, low=1e-6, high=1e-3), p)

    def one(p, g, m, v, count):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * jnp.square(g)
        update = m / (1 - 0.9 ** count) / (jnp.sqrt(v / (1 - 0.999 ** count)) + 1e-6) + 0.01 * p
        norms = jnp.sqrt(jnp.square(p).sum()), jnp.sqrt(jnp.square(update).sum())
        trust = jnp.where((norms[0] > 0) & (norms[1] > 0), norms[0] / norms[1], 1.0)
        return p - 1e-2 * trust * update, m, v

    def step(p, g, m, v, count):
        return unzip(jax.tree.map(lambda *of: one(*of, count), p, g, m, v), p, 3)
    return step, p, p, p, v, Arg((), F32, low=10, high=11)


@module("nesterov_ema_many_bf16", "optimizers", {"layers": 24, "width": 500, "inner": 1000, "vocabulary": 3000},
        SMALL_ODD)
def _(layers, width, inner, vocabulary):
    """145 arrays; parameters and gradients of 16 bits, momentum and the moving average of 32; clipped by value."""
    p, wide = (odd_tree(type_, layers, width, inner, vocabulary) for type_ in (BF16, F32))

    def one(p, g, m, average):
        g = jnp.clip(g.astype(F32), -0.03, 0.03) + 1e-4 * p.astype(F32)
        m = 0.9 * m + g
        new = p.astype(F32) - 0.1 * (g + 0.9 * m)
        return new.astype(BF16), m, 0.99 * average + 0.01 * new

    def step(*trees):
        return unzip(jax.tree.map(one, *trees), p, 3)
    return step, p, p, wide, wide


# Embeddings.

@module("weighted_bag_grad_f32", "embeddings", {"vocabulary": 123457, "width": 100, "bags": 12345, "each": 7},
        {"vocabulary": 40, "width": 6, "bags": 9, "each": 3})
def _(vocabulary, width, bags, each):
    """Sums with weights, which have gradients too; token 0 counts for nothing; Huber's loss."""
    def loss(table, given, tokens, target):
        given = jnp.where(tokens > 0, given, 0)
        error = (table[tokens] * given[..., None]).sum(1) - target
        size = jnp.abs(error)
        return jnp.where(size < 1, 0.5 * jnp.square(error), size - 0.5).sum()
    return (jax.value_and_grad(loss, argnums=(0, 1)), f32(vocabulary, width), f32(bags, each),
            ints(vocabulary, bags, each), f32(bags, width))


@module("bert_embeddings_grad_bf16", "embeddings", {"vocabulary": 30522, "width": 768, "batch": 24, "length": 333},
        {"vocabulary": 50, "width": 12, "batch": 3, "length": 7}, tolerance=3)
def _(vocabulary, width, batch, length):
    """Of tokens, places and two types, with a norm."""
    def embed(tables, gain, bias, tokens, types):
        words, places, kinds = tables
        return layer_norm(words[tokens] + places[:length] + kinds[types], gain, bias)

    def gradients(cotangent, tables, gain, bias, tokens, types):
        return backward(lambda *given: embed(*given, tokens, types))(cotangent, tables, gain, bias)
    return (gradients, bf16(batch, length, width),
            [bf16(vocabulary, width), bf16(length + 179, width), bf16(2, width)], around_one(BF16, width),
            bf16(width, scale=0.1), ints(vocabulary, batch, length), ints(2, batch, length))


# Sums by segment.

GRAPH, SMALL_GRAPH = {"edges": 300000, "nodes": 12345, "width": 75}, {"edges": 90, "nodes": 13, "width": 5}


@module("pna_aggregate_f32", "segments", GRAPH, SMALL_GRAPH)
def _(edges, nodes, width):
    """Mean, deviation, least and greatest of the neighbours."""
    def aggregate(x, senders, receivers):
        given = x[senders]
        counts = jnp.maximum(jax.ops.segment_sum(jnp.ones(edges, F32), receivers, nodes), 1)[:, None]
        mean = jax.ops.segment_sum(given, receivers, nodes) / counts
        squares = jax.ops.segment_sum(jnp.square(given), receivers, nodes) / counts
        some = (counts >= 1) & (jax.ops.segment_sum(jnp.ones(edges, F32), receivers, nodes) > 0)[:, None]
        least, greatest = (jnp.where(some, f(given, receivers, nodes), 0)
                           for f in (jax.ops.segment_min, jax.ops.segment_max))
        return jnp.concatenate([mean, jnp.sqrt(jax.nn.relu(squares - mean ** 2) + 1e-5), least, greatest], -1)
    return aggregate, f32(nodes, width), ints(nodes, edges), ints(nodes, edges)


@module("gat_grad_f32", "segments", {"edges": 200000, "nodes": 10000, "heads": 3, "width": 33},
        {"edges": 60, "nodes": 11, "heads": 2, "width": 5})
def _(edges, nodes, heads, width):
    """Attention along edges, whose receivers are in order."""
    def layer(x, w, left, right, senders, receivers):
        h = jnp.einsum("nd,dhk->nhk", x, w)
        a, b = (h * left).sum(-1), (h * right).sum(-1)
        scores = jax.nn.leaky_relu(a[senders] + b[receivers], 0.2)
        most = lax.stop_gradient(jax.ops.segment_max(scores, receivers, nodes, indices_are_sorted=True))
        powers = jnp.exp(scores - most[receivers])
        totals = jax.ops.segment_sum(powers, receivers, nodes, indices_are_sorted=True)
        shares = powers / (totals[receivers] + 1e-9)
        return jax.ops.segment_sum(shares[..., None] * h[senders], receivers, nodes, indices_are_sorted=True)

    def gradients(cotangent, x, w, left, right, senders, receivers):
        return backward(lambda *given: layer(*given, senders, receivers))(cotangent, x, w, left, right)
    return (gradients, f32(nodes, heads, width), f32(nodes, width), f32(width, heads, width, scale=width ** -0.5),
            f32(heads, width, scale=0.2), f32(heads, width, scale=0.2), ints(nodes, edges),
            ints(nodes, edges, in_order=True))
