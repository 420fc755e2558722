"""More modules of modules.py, by an author who had not read the compiler: blocks, norms, losses, optimizers."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, Arg, around_one, backward, bf16, f32, ints, module, rotary, weights

F16, U8 = jnp.float16, jnp.uint8


def f16(*shape, scale=1.0):
    return Arg(shape, F16, scale)


def key():
    return ints(1 << 30, 2, dtype=jnp.uint32)


def rms(x, gain=None, epsilon=1e-6):
    wide = x.astype(F32)
    wide = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + epsilon)
    return (wide if gain is None else wide * gain.astype(F32)).astype(x.dtype)


def layer(x, gain, bias):
    wide = x.astype(F32)
    mean = wide.mean(-1, keepdims=True)
    wide = (wide - mean) * lax.rsqrt(jnp.square(wide - mean).mean(-1, keepdims=True) + 1e-5)
    return (wide * gain.astype(F32) + bias.astype(F32)).astype(x.dtype)


def grad_of(function, count):
    """Gradients by the first arguments; the rest (integers) are constants."""
    def gradients(cotangent, *given):
        return backward(lambda *some: function(*some, *given[count:]))(cotangent, *given[:count])
    return gradients


def softmax(scores, type_):
    return jax.nn.softmax(scores, -1).astype(type_)


# Blocks of transformers.

@module("t5_encoder_block_grad_f32", "transformer",
        {"batch": 3, "length": 389, "width": 512, "heads": 6, "size": 64, "inner": 1024, "buckets": 32, "far": 128},
        {"batch": 2, "length": 13, "width": 24, "heads": 3, "size": 8, "inner": 20, "buckets": 8, "far": 10})
def _(batch, length, width, heads, size, inner, buckets, far):
    """Bidirectional buckets of relative places, no scale of the scores, a gated GELU."""
    def bucket(relative):
        half = buckets // 2
        sign = jnp.where(relative > 0, half, 0)
        n, exact = jnp.abs(relative), half // 2
        large = exact + (jnp.log(jnp.maximum(n, 1) / exact) / jnp.log(far / exact) * (half - exact)).astype(jnp.int32)
        return sign + jnp.where(n < exact, n, jnp.minimum(large, half - 1))

    def block(x, p):
        places = jnp.arange(length)
        bias = p["table"][bucket(places[None, :] - places[:, None])].transpose(2, 0, 1)
        h = rms(x, p["g1"])
        q, k, v = (jnp.einsum("bld,dhk->bhlk", h, p[n]) for n in "qkv")
        shares = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) + bias)
        x = x + jnp.einsum("bhqk,bhkd,hde->bqe", shares, v, p["o"])
        h = rms(x, p["g2"])
        return x + (jax.nn.gelu(h @ p["wi0"]) * (h @ p["wi1"])) @ p["wo"]
    x, s = f32(batch, length, width), width ** -0.5
    p = {"table": f32(buckets, heads, scale=0.5), "g1": around_one(F32, width), "g2": around_one(F32, width),
         "q": f32(width, heads, size, scale=s * size ** -0.5), "k": f32(width, heads, size, scale=s),
         "v": f32(width, heads, size, scale=s), "o": f32(heads, size, width, scale=(heads * size) ** -0.5),
         "wi0": weights(F32, width, inner), "wi1": weights(F32, width, inner), "wo": weights(F32, inner, width)}
    return backward(block), x, x, p


@module("falcon_parallel_mqa_grad_bf16", "transformer",
        {"batch": 2, "length": 509, "width": 1472, "heads": 23, "inner": 5888},
        {"batch": 2, "length": 11, "width": 24, "heads": 3, "inner": 40}, tolerance=3)
def _(batch, length, width, heads, inner):
    """One head of keys, interleaved rotary places, attention and MLP from one norm."""
    size = width // heads

    def turned(x):
        angles = jnp.arange(length)[:, None] * 10000.0 ** (-jnp.arange(0, size, 2) / size)
        c, s = jnp.cos(angles), jnp.sin(angles)
        c, s = (a.reshape(1, length, *[1] * (x.ndim - 3), -1) for a in (c, s))
        a, b = x[..., ::2].astype(F32), x[..., 1::2].astype(F32)
        return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape).astype(x.dtype)

    def block(x, gain, bias, qkv, out, up, down):
        h = layer(x, gain, bias)
        q, k, v = jnp.split(h @ qkv, [width, width + size], -1)
        q, k = turned(q.reshape(batch, length, heads, size)), turned(k)
        scores = jnp.einsum("blhd,bsd->bhls", q, k, preferred_element_type=F32) * size ** -0.5
        seen = jnp.tril(jnp.ones((length, length), bool))
        shares = softmax(jnp.where(seen, scores, -1e9), BF16)
        mixed = jnp.einsum("bhls,bsd->blhd", shares, v).reshape(x.shape)
        return x + mixed @ out + jax.nn.gelu(h @ up) @ down
    x = bf16(batch, length, width)
    return (backward(block), x, x, around_one(BF16, width), bf16(width, scale=0.1),
            weights(BF16, width, width + 2 * size), weights(BF16, width, width), weights(BF16, width, inner),
            weights(BF16, inner, width))


@module("mixtral_qknorm_block_bf16", "transformer",
        {"batch": 2, "length": 257, "width": 768, "heads": 12, "kv_heads": 4, "inner": 1408, "experts": 8},
        {"batch": 2, "length": 9, "width": 32, "heads": 4, "kv_heads": 2, "inner": 24, "experts": 4},
        tolerance=2, mismatch=0.03)
def _(batch, length, width, heads, kv_heads, inner, experts):
    """Grouped queries with biases and norms; each expert computes all tokens, the two best count."""
    size = width // heads

    def block(x, p):
        h = rms(x, p["g1"])
        q = (h @ p["wq"] + p["bq"]).reshape(batch, length, kv_heads, heads // kv_heads, size)
        k, v = ((h @ p["w" + n] + p["b" + n]).reshape(batch, length, kv_heads, size) for n in "kv")
        q = rotary(rms(q, p["gq"]).reshape(batch, length, heads, size), jnp.arange(length)).reshape(q.shape)
        k = rotary(rms(k, p["gk"]), jnp.arange(length))
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k, preferred_element_type=F32) * size ** -0.5
        places = jnp.arange(length)
        shares = softmax(jnp.where(places[:, None] >= places[None, :], scores, -jnp.inf), BF16)
        x = x + jnp.einsum("bhgqk,bkhd->bqhgd", shares, v).reshape(x.shape) @ p["wo"]
        h = rms(x, p["g2"])
        logits = jnp.einsum("bld,de->ble", h, p["router"], preferred_element_type=F32)
        best, which = lax.top_k(logits, 2)
        share = jnp.einsum("blk,blke->ble", jax.nn.softmax(best), jax.nn.one_hot(which, experts))
        gated = jax.nn.silu(jnp.einsum("bld,edf->eblf", h, p["w1"])) * jnp.einsum("bld,edf->eblf", h, p["w3"])
        made = jnp.einsum("eblf,efd->ebld", gated, p["w2"])
        return x + jnp.einsum("ebld,ble->bld", made, share.astype(BF16))
    kv = kv_heads * size
    p = {"g1": around_one(BF16, width), "g2": around_one(BF16, width), "gq": around_one(BF16, size),
         "gk": around_one(BF16, size), "wq": weights(BF16, width, width), "wk": weights(BF16, width, kv),
         "wv": weights(BF16, width, kv), "wo": weights(BF16, width, width), "bq": bf16(width, scale=0.1),
         "bk": bf16(kv, scale=0.1), "bv": bf16(kv, scale=0.1), "router": weights(BF16, width, experts),
         "w1": weights(BF16, experts, width, inner), "w3": weights(BF16, experts, width, inner),
         "w2": weights(BF16, experts, inner, width)}
    return block, bf16(batch, length, width), p


# Decode steps.

@module("decode_paged_b17_bf16", "decode",
        {"batch": 17, "heads": 24, "kv_heads": 3, "size": 64, "page": 16, "each": 60, "width": 1536},
        {"batch": 5, "heads": 4, "kv_heads": 2, "size": 8, "page": 4, "each": 3, "width": 24}, tolerance=2,
        donated={2: 1, 3: 2})
def _(batch, heads, kv_heads, size, page, each, width):
    """Pages are where a table says; the newest token goes to its page, all of a sequence's pages are gathered."""
    pages = batch * each + 6

    def decode(x, p, keys, values, shift, lengths):
        table = (jnp.arange(batch * each).reshape(batch, each) * 11 + shift) % pages
        q = (x @ p["q"]).reshape(batch, kv_heads, heads // kv_heads, size)
        k, v = ((x @ p[n]).reshape(batch, kv_heads, size) for n in "kv")
        at = jnp.take_along_axis(table, (lengths // page)[:, None], 1)[:, 0]
        keys = keys.at[at, lengths % page].set(k)
        values = values.at[at, lengths % page].set(v)
        own_k, own_v = (a[table].reshape(batch, each * page, kv_heads, size) for a in (keys, values))
        scores = jnp.einsum("bhgd,bshd->bhgs", q, own_k, preferred_element_type=F32) * size ** -0.5
        seen = jnp.arange(each * page)[None] <= lengths[:, None]
        shares = softmax(jnp.where(seen[:, None, None], scores, -1e30), BF16)
        mixed = jnp.einsum("bhgs,bshd->bhgd", shares, own_v).reshape(batch, heads * size)
        return mixed @ p["o"], keys, values
    assert pages % 11, pages
    p = {"q": weights(BF16, width, heads * size), "k": weights(BF16, width, kv_heads * size),
         "v": weights(BF16, width, kv_heads * size), "o": weights(BF16, heads * size, width)}
    held = bf16(pages, page, kv_heads, size)
    return decode, bf16(batch, width), p, held, held, ints(1000), ints(each * page, batch, low=1)


@module("decode_ring_mqa_b5_f32", "decode", {"batch": 5, "width": 1031, "heads": 11, "size": 96, "window": 1021},
        {"batch": 5, "width": 13, "heads": 3, "size": 8, "window": 7})
def _(batch, width, heads, size, window):
    """Sequences at places of their own write into rings; heads are masked by the places that the ring holds."""
    def decode(x, p, keys, values, at):
        q = rotary((x @ p["q"]).reshape(batch, heads, size), at)
        k = rotary((x @ p["k"]).reshape(batch, 1, size), at)[:, 0]
        slot = at % window
        put = jax.vmap(lambda held, one, i: lax.dynamic_update_slice_in_dim(held, one[None], i, 0))
        keys, values = put(keys, k, slot), put(values, x @ p["v"], slot)
        held = at[:, None] - (slot[:, None] - jnp.arange(window)) % window
        scores = jnp.einsum("bhd,bsd->bhs", q, keys) * size ** -0.5
        shares = jax.nn.softmax(jnp.where((held >= 0)[:, None], scores, -jnp.inf))
        return x + jnp.einsum("bhs,bsd->bhd", shares, values).reshape(batch, -1) @ p["o"], keys, values
    p = {"q": weights(F32, width, heads * size), "k": weights(F32, width, size), "v": weights(F32, width, size),
         "o": weights(F32, heads * size, width)}
    held = f32(batch, window, size)
    return decode, f32(batch, width), p, held, held, ints(2 * window, batch, low=window // 3)


@module("verify_4_tokens_b5_bf16", "decode",
        {"batch": 5, "drafts": 4, "width": 1280, "heads": 20, "cache": 1500, "vocabulary": 32003},
        {"batch": 3, "drafts": 4, "width": 24, "heads": 3, "cache": 23, "vocabulary": 61}, tolerance=2, mismatch=0.2)
def _(batch, drafts, width, heads, cache, vocabulary):
    """Four drafted tokens at once: how many of them the model would have made."""
    size = width // heads

    def verify(tokens, embed, p, keys, values, at):
        x = embed[tokens]
        h = rms(x, p["g"])
        q, k, v = jnp.moveaxis((h @ p["qkv"]).reshape(batch, drafts, 3, heads, size), 2, 0)
        put = jax.vmap(lambda held, new, i: lax.dynamic_update_slice(held, new, (i, 0, 0)))
        keys, values = put(keys, k, at), put(values, v, at)
        scores = jnp.einsum("bqhd,bshd->bhqs", q, keys, preferred_element_type=F32) * size ** -0.5
        seen = jnp.arange(cache) <= (at[:, None] + jnp.arange(drafts))[:, :, None]
        shares = softmax(jnp.where(seen[:, None], scores, -jnp.inf), BF16)
        x = x + jnp.einsum("bhqs,bshd->bqhd", shares, values).reshape(x.shape) @ p["o"]
        logits = jnp.einsum("bqd,vd->bqv", rms(x, p["g2"]), embed, preferred_element_type=F32) * width ** -0.5
        chosen = logits.argmax(-1)
        agree = (chosen[:, :-1] == tokens[:, 1:]).astype(jnp.int32)
        accepted = jnp.cumprod(agree, -1).sum(-1)
        return chosen, accepted, logits.max(-1), jax.nn.logsumexp(logits, -1), keys, values
    p = {"g": around_one(BF16, width), "g2": around_one(BF16, width), "qkv": weights(BF16, width, 3 * width),
         "o": weights(BF16, width, width)}
    held = bf16(batch, cache, heads, size)
    return (verify, ints(vocabulary, batch, drafts), bf16(vocabulary, width), p, held, held,
            ints(cache - drafts, batch, low=cache // 2))


# Norms.

@module("instance_norm_nhwc_grad_bf16", "norms", {"images": 7, "size": 61, "channels": 131},
        {"images": 2, "size": 5, "channels": 7}, tolerance=2)
def _(images, size, channels):
    def norm(x, gain, bias):
        wide = x.astype(F32)
        mean = wide.mean((1, 2), keepdims=True)
        variance = jnp.square(wide - mean).mean((1, 2), keepdims=True)
        return jax.nn.leaky_relu(((wide - mean) / jnp.sqrt(variance + 1e-5) * gain + bias), 0.2).astype(BF16)
    x = bf16(images, size, size, channels)
    return backward(norm), x, x, around_one(F32, channels), f32(channels)


@module("rms_zero_centred_grad_bf16", "norms", {"rows": 8191, "width": 2053}, {"rows": 11, "width": 17}, tolerance=2)
def _(rows, width):
    """Gemma's: the gain is 1 + g; a residual is added before the norm and kept."""
    def norm(x, residual, gain):
        total = x + residual
        wide = total.astype(F32)
        made = wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)
        return (made * (1.0 + gain.astype(F32))).astype(BF16), total

    def gradients(to, to_total, x, residual, gain):
        return jax.vjp(norm, x, residual, gain)[1]((to, to_total))
    x = bf16(rows, width)
    return gradients, x, x, x, x, bf16(width, scale=0.2)


@module("weight_norm_grad_f32", "norms", {"rows": 1021, "inputs": 1531, "outputs": 2039},
        {"rows": 7, "inputs": 11, "outputs": 13})
def _(rows, inputs, outputs):
    """Each output's direction [outputs, inputs] and magnitude; ELU."""
    def dense(x, direction, magnitude, bias):
        norm = jnp.linalg.norm(direction, axis=1, keepdims=True)
        return jax.nn.elu(jnp.einsum("bi,oi->bo", x, direction * (magnitude[:, None] / norm)) + bias)
    return (backward(dense), f32(rows, outputs), f32(rows, inputs), f32(outputs, inputs), around_one(F32, outputs),
            f32(outputs, scale=0.1))


@module("spectral_norm_grad_f32", "norms", {"images": 5, "size": 19, "inputs": 129, "outputs": 251},
        {"images": 2, "size": 5, "inputs": 3, "outputs": 7})
def _(images, size, inputs, outputs):
    """Two steps of the power iteration, which have no gradients; a convolution of stride 2 by the weights / sigma."""
    def unit(a):
        return a / (jnp.linalg.norm(a) + 1e-12)

    def loss(w, x, bias, u):
        flat = w.reshape(-1, outputs)
        for _ in range(2):
            v = unit(lax.stop_gradient(flat) @ u)
            u = unit(v @ lax.stop_gradient(flat))
        sigma = jnp.vdot(v, flat @ u)
        made = lax.conv_general_dilated(x, w / sigma, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.square(jax.nn.leaky_relu(made + bias, 0.1)).mean() * 8, (u, sigma)
    return (jax.value_and_grad(loss, (0, 1, 2), has_aux=True), f32(3, 3, inputs, outputs, scale=0.05),
            f32(images, size, size, inputs), f32(outputs, scale=0.1), f32(outputs))


@module("l2_norm_middle_grad_f16", "norms", {"batch": 37, "middle": 129, "last": 1021},
        {"batch": 3, "middle": 5, "last": 7}, tolerance=2)
def _(batch, middle, last):
    """Over the middle axis, then over both (NetVLAD)."""
    def norm(x, scale):
        wide = x.astype(F32)
        wide = wide * lax.rsqrt(jnp.maximum(jnp.square(wide).sum(1, keepdims=True), 1e-12)) * scale[:, None]
        whole = jnp.sqrt(jnp.square(wide).sum((1, 2), keepdims=True) + 1e-12)
        return (wide / whole * last ** 0.5).astype(F16)
    x = f16(batch, middle, last)
    return backward(norm), x, x, around_one(F32, middle)


@module("local_response_norm_grad_f32", "norms", {"images": 11, "size": 53, "channels": 97},
        {"images": 2, "size": 4, "channels": 9})
def _(images, size, channels):
    """AlexNet's: squares of five neighbouring channels, NHWC."""
    def norm(x):
        squares = lax.reduce_window(jnp.square(x), 0.0, lax.add, (1, 1, 1, 5), (1, 1, 1, 1),
                                    ((0, 0), (0, 0), (0, 0), (2, 2)))
        return x * (2.0 + 0.3 * squares) ** -0.75
    x = f32(images, size, size, channels)
    return backward(norm), x, x


# Losses.

@module("chunked_head_z_loss_grad_bf16", "losses",
        {"chunks": 4, "rows": 509, "width": 640, "classes": 10007},
        {"chunks": 3, "rows": 7, "width": 16, "classes": 29},
        tolerance=3)
def _(chunks, rows, width, classes):
    """Rematerialised logits of a chunk of rows after another; the square of the logarithm of the sum counts too."""
    def loss(x, head, labels):
        @jax.checkpoint
        def chunk(total, given):
            x, labels = given
            logits = jnp.einsum("rd,dv->rv", x, head, preferred_element_type=F32)
            logits = 30.0 * jnp.tanh(logits / 30.0)
            z = jax.nn.logsumexp(logits, -1)
            own = (logits * jax.nn.one_hot(labels, classes)).sum(-1)
            return total + (jnp.where(labels > 2, z - own, 0) + 1e-3 * z * z).sum(), None
        return lax.scan(chunk, jnp.zeros((), F32), (x, labels))[0] / rows
    return (jax.value_and_grad(loss, (0, 1)), bf16(chunks, rows, width), weights(BF16, width, classes),
            ints(classes, chunks, rows))


@module("rnnt_forward_grad_f32", "losses", {"batch": 7, "frames": 149, "labels": 41, "classes": 29},
        {"batch": 2, "frames": 6, "labels": 3, "classes": 5})
def _(batch, frames, labels, classes):
    """The transducer's lattice: a scan over frames, a cumulative logsumexp over labels."""
    def loss(logits, targets):
        logs = jax.nn.log_softmax(logits)
        blank = logs[..., 0]
        emit = jnp.take_along_axis(logs[:, :, :-1], targets[:, None, :, None], -1)[..., 0]
        along = jnp.pad(jnp.cumsum(emit, -1), ((0, 0), (0, 0), (1, 0)))

        def frame(alpha, given):
            blank_before, along = given
            alpha = along + lax.cumlogsumexp(alpha + blank_before - along, axis=1)
            return alpha, None
        by_frame = (blank.swapaxes(0, 1)[:-1], along.swapaxes(0, 1)[1:])
        alpha, _ = lax.scan(frame, along[:, 0], by_frame)
        return -(alpha[:, -1] + blank[:, -1, -1]).mean() / frames
    return (jax.value_and_grad(loss), f32(batch, frames, labels + 1, classes),
            ints(classes, batch, labels, low=1))


@module("info_nce_temperature_f32", "losses", {"rows": 1531, "width": 257}, {"rows": 9, "width": 5})
def _(rows, width):
    """Both directions, a learned temperature that is clipped, false negatives (same identity) left out."""
    def loss(a, b, log_scale, identity):
        a, b = (x / jnp.sqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-8) for x in (a, b))
        scores = a @ b.T * jnp.exp(jnp.minimum(log_scale, 4.6))
        false = (identity[:, None] == identity[None, :]) & ~jnp.eye(rows, dtype=bool)
        scores = jnp.where(false, -1e9, scores)
        own = jnp.diagonal(scores)
        return (jax.nn.logsumexp(scores, 1) + jax.nn.logsumexp(scores, 0) - 2 * own).mean() / 2
    return (jax.value_and_grad(loss, (0, 1, 2)), f32(rows, width), f32(rows, width), Arg((), F32, low=1, high=3),
            ints(rows // 3 + 1, rows))


@module("multi_margin_grad_f32", "losses", {"rows": 4099, "classes": 1009}, {"rows": 9, "classes": 7})
def _(rows, classes):
    """Squared hinge of each wrong class against the right one, with weights of classes."""
    def loss(scores, weight, labels):
        own = scores[jnp.arange(rows), labels]
        margin = jnp.maximum(0.0, 1.0 - own[:, None] + scores)
        margin = margin.at[jnp.arange(rows), labels].set(0.0)
        return (jnp.square(margin).mean(1) * weight[labels]).mean() * rows ** 0.5
    return (jax.value_and_grad(loss, (0, 1)), f32(rows, classes), around_one(F32, classes), ints(classes, rows))


@module("dice_nchw_grad_bf16", "losses", {"images": 5, "classes": 7, "size": 161},
        {"images": 2, "classes": 3, "size": 5}, tolerance=2)
def _(images, classes, size):
    """Generalised dice of the softmax over channels, with a void class that counts for nothing."""
    def loss(logits, labels):
        shares = jax.nn.softmax(logits.astype(F32), 1)
        real = labels < classes
        truth = jnp.moveaxis(jax.nn.one_hot(labels, classes), -1, 1)
        shares = shares * real[:, None]
        both, total = (shares * truth).sum((2, 3)), (shares + truth).sum((2, 3))
        weight = 1 / (truth.sum((2, 3)) + 1)
        return (1 - (2 * (weight * both).sum(1) + 1e-5) / ((weight * total).sum(1) + 1e-5)).mean() * size
    return jax.value_and_grad(loss), bf16(images, classes, size, size), ints(classes + 1, images, size, size)


@module("mixture_nll_grad_f32", "losses", {"rows": 65537, "parts": 5, "width": 3},
        {"rows": 13, "parts": 3, "width": 2})
def _(rows, parts, width):
    """Negative logarithm of a mixture of Gaussians; log variances clipped softly."""
    def loss(logits, means, raw, x):
        log_variance = 6 * jnp.tanh(raw / 6)
        each = -0.5 * (log_variance + jnp.square(x[:, None] - means) * jnp.exp(-log_variance) + 1.8378770664).sum(-1)
        return -jax.nn.logsumexp(jax.nn.log_softmax(logits) + each, -1).mean() * 100
    return (jax.value_and_grad(loss, (0, 1, 2)), f32(rows, parts), f32(rows, parts, width),
            f32(rows, parts, width, scale=0.5), f32(rows, width))


# Optimizers.

def tree(type_, scale, layers, width, inner, vocabulary):
    one = {"attention": [Arg((3, width, width), type_, scale), Arg((width, width), type_, scale)],
           "mlp": (Arg((width, inner), type_, scale), Arg((inner, width), type_, scale), Arg((inner,), type_, scale)),
           "norm": Arg((width,), type_, scale)}
    return {"table": Arg((vocabulary, width), type_, scale), "blocks": [one] * layers,
            "scale": Arg((), type_, scale)}


def positive(like, low, high):
    return jax.tree.map(lambda a: Arg(a.shape, F32, low=low, high=high), like)


TREE, SMALL_TREE = ({"layers": 5, "width": 397, "inner": 1201, "vocabulary": 9973},
                    {"layers": 2, "width": 7, "inner": 10, "vocabulary": 19})


@module("adagrad_unit_clip_f32", "optimizers", TREE, SMALL_TREE)
def _(**size):
    """Gradients clipped by the norm of each row; sums of squares that start above 0."""
    p = tree(F32, 0.1, **size)

    def one(p, g, total):
        norm = jnp.sqrt(jnp.square(g).sum(-1, keepdims=True)) if g.ndim else jnp.abs(g)
        g = g * jnp.minimum(1.0, 0.5 / jnp.maximum(norm, 1e-6))
        total = total + g * g
        return p - 0.05 * g * jnp.where(total > 0, lax.rsqrt(total + 1e-7), 0.0), total

    def step(p, g, total):
        made = jax.tree.map(one, p, g, total)
        return [jax.tree.map(lambda _, m: m[i], p, made) for i in range(2)]
    return step, p, p, positive(p, 0.1, 0.5)


@module("adamw_masked_schedule_bf16", "optimizers", TREE, SMALL_TREE)
def _(**size):
    """Decay of matrices only, a frozen table, a cosine schedule with warm-up, a skipped step where not finite."""
    p = tree(BF16, 0.1, **size)
    moment = jax.tree.map(lambda a: Arg(a.shape, F32, 0.1), p)

    def step(p, g, m, v, count):
        t = count.astype(F32)
        rate = 1e-2 * jnp.where(t < 100, t / 100, 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(1.0, (t - 100) / 900))))
        leaves = jax.tree.leaves(g)
        norm = jnp.sqrt(sum(jnp.square(a.astype(F32)).sum() for a in leaves))
        good = jnp.isfinite(norm)
        factor = jnp.minimum(1.0, 200.0 / norm)

        def one(path, p, g, m, v):
            g = g.astype(F32) * factor
            m2, v2 = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
            update = m2 / (1 - 0.9 ** t) / (jnp.sqrt(v2 / (1 - 0.95 ** t)) + 1e-8)
            if p.ndim > 1:
                update = update + 0.1 * p.astype(F32)
            new = p if "table" in str(path[0]) else (p.astype(F32) - rate * update).astype(BF16)
            return [jnp.where(good, a, b) for a, b in ((new, p), (m2, m), (v2, v))]
        made = jax.tree_util.tree_map_with_path(one, p, g, m, v)
        return [jax.tree.map(lambda _, m: m[i], p, made) for i in range(3)], norm, count + good.astype(jnp.int32)
    return step, p, p, moment, positive(p, 1e-4, 1e-2), ints(900, low=20)


@module("shampoo_roots_f32", "optimizers", {"count": 3, "rows": 509, "columns": 383, "steps": 6},
        {"count": 2, "rows": 7, "columns": 5, "steps": 6}, tolerance=2)
def _(count, rows, columns, steps):
    """Statistics of rows and columns and their inverse fourth roots by the coupled Newton iteration."""
    def root(a):
        eye = jnp.eye(a.shape[-1], dtype=F32)
        z = 5 / (2 * jnp.abs(a).sum(-1).max(-1))[..., None, None]

        def body(_, state):
            m, h = state
            t = (5 * eye - m) / 4
            t2 = t @ t
            return (t2 @ t2) @ m, h @ t
        return lax.fori_loop(0, steps, body, (a * z, eye * z ** 0.25))[1]

    def step(p, g, left, right):
        left = 0.9 * jnp.eye(rows) + 0.5 * left @ left.swapaxes(-1, -2) + g @ g.swapaxes(-1, -2) / columns
        right = 0.9 * jnp.eye(columns) + 0.5 * right.swapaxes(-1, -2) @ right + jnp.einsum("nij,nik->njk", g, g) / rows
        update = root(left) @ g @ root(right)
        grafted = update * (jnp.linalg.norm(g, axis=(1, 2)) / jnp.linalg.norm(update, axis=(1, 2)))[:, None, None]
        return p - 0.1 * grafted, left, right
    x = f32(count, rows, columns)
    return step, x, x, weights(F32, count, rows, rows), weights(F32, count, columns, columns)


@module("adam_8bit_state_f32", "optimizers", {"blocks": 20011, "block": 256}, {"blocks": 5, "block": 16},
        mismatch=2e-3)
def _(blocks, block):
    """Moments as int8 and uint8 with a scale for each block of 256."""
    def step(p, g, m, m_scale, v, v_scale):
        wide_m = m.astype(F32) / 127 * m_scale[:, None]
        wide_v = jnp.square(v.astype(F32) / 255) * v_scale[:, None]
        wide_m, wide_v = 0.9 * wide_m + 0.1 * g, 0.99 * wide_v + 0.01 * g * g
        p = p - 1e-2 * wide_m / (jnp.sqrt(wide_v) + 1e-2)
        m_scale, v_scale = jnp.abs(wide_m).max(1), wide_v.max(1)
        m = jnp.clip(jnp.round(wide_m / m_scale[:, None] * 127), -127, 127).astype(jnp.int8)
        v = jnp.clip(jnp.round(jnp.sqrt(wide_v / v_scale[:, None]) * 255), 0, 255).astype(U8)
        return p, m, m_scale, v, v_scale
    x, scale = f32(blocks, block), Arg((blocks,), F32, low=0.5, high=2)
    return (step, x, x, ints(128, blocks, block, low=-127, dtype=jnp.int8), scale,
            ints(256, blocks, block, dtype=U8), scale)


# Embeddings.

@module("padding_embedding_grad_f32", "embeddings",
        {"vocabulary": 25013, "width": 387, "batch": 29, "length": 211},
        {"vocabulary": 13, "width": 5, "batch": 3, "length": 7})
def _(vocabulary, width, batch, length):
    """Token 0 is padding: no vector and no gradient; sinusoids, a mean over the tokens, a classifier of 11."""
    def loss(table, out, tokens):
        real = tokens != 0
        x = jnp.where(real[..., None], table[tokens], 0.0) * 3.0
        angle = jnp.arange(length)[:, None] / 10000.0 ** (jnp.arange(width) // 2 * 2 / width)
        x = x + jnp.where(jnp.arange(width) % 2 == 0, jnp.sin(angle), jnp.cos(angle))
        pooled = (x * real[..., None]).sum(1) / jnp.maximum(real.sum(1, keepdims=True), 1)
        return -jax.nn.log_softmax(jnp.tanh(pooled) @ out)[:, 3].sum()
    return (jax.value_and_grad(loss, (0, 1)), f32(vocabulary, width), weights(F32, width, 11),
            ints(vocabulary // 2, batch, length))


@module("three_tables_grad_f16", "embeddings",
        {"vocabulary": 8009, "rows": 37, "columns": 53, "width": 333, "batch": 13, "length": 199},
        {"vocabulary": 17, "rows": 3, "columns": 4, "width": 7, "batch": 2, "length": 5}, tolerance=3)
def _(vocabulary, rows, columns, width, batch, length):
    """Sums of a token's, a row's and a column's vector (tables); gradients accumulate in f32."""
    def embed(words, by_row, by_column, tokens, at_row, at_column):
        x = words.astype(F32)[tokens] + by_row.astype(F32)[at_row] + by_column.astype(F32)[at_column]
        return (x * 0.577).astype(F16)
    return (grad_of(embed, 3), f16(batch, length, width), f16(vocabulary, width), f16(rows, width),
            f16(columns, width), ints(vocabulary, batch, length), ints(rows, batch, length),
            ints(columns, batch, length))


# Sums by segment.

@module("segment_means_grad_bf16", "segments", {"rows": 100003, "segments": 7001, "width": 51},
        {"rows": 37, "segments": 5, "width": 3}, tolerance=2)
def _(rows, segments, width):
    """Mean and variance of unordered segments, normalised by them, some rows of no segment (-1)."""
    def norm(x, ids):
        wide = x.astype(F32)
        n = jnp.maximum(jax.ops.segment_sum(jnp.ones(rows), ids, segments), 1)[:, None]
        mean = jax.ops.segment_sum(wide, ids, segments) / n
        off = wide - mean[ids]
        variance = jax.ops.segment_sum(off * off, ids, segments) / n
        return (off * lax.rsqrt(variance[ids] + 0.1)).astype(BF16)
    x = bf16(rows, width)
    return grad_of(norm, 1), x, x, ints(segments, rows, low=-1)


@module("gatv2_edges_grad_f32", "segments",
        {"nodes": 5003, "edges": 60013, "inputs": 61, "heads": 5, "size": 13, "features": 7},
        {"nodes": 7, "edges": 31, "inputs": 5, "heads": 2, "size": 3, "features": 2})
def _(nodes, edges, inputs, heads, size, features):
    """GATv2: the nonlinearity before the scores; vectors of edges; edges in no order; heads are averaged."""
    def conv(x, w_left, w_right, w_edge, score, edge, senders, receivers):
        left, right = (jnp.einsum("ni,ihk->nhk", x, w) for w in (w_left, w_right))
        h = left[senders] + right[receivers] + jnp.einsum("ef,fhk->ehk", edge, w_edge)
        e = (jax.nn.leaky_relu(h, 0.2) * score).sum(-1)
        top = jax.ops.segment_max(e, receivers, nodes)
        e = jnp.exp(e - lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))[receivers])
        share = e / (jax.ops.segment_sum(e, receivers, nodes) + 1e-9)[receivers]
        return jax.ops.segment_sum(share[..., None] * left[senders], receivers, nodes).mean(1)
    s = inputs ** -0.5
    return (grad_of(conv, 6), f32(nodes, size), f32(nodes, inputs), f32(inputs, heads, size, scale=s),
            f32(inputs, heads, size, scale=s), f32(features, heads, size, scale=0.3), f32(heads, size, scale=0.3),
            f32(edges, features), ints(nodes, edges), ints(nodes, edges))
