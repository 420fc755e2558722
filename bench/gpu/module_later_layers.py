"""More modules of modules.py, by a fifth author who had not read the compiler: transformers, decoding, norms,
convolutions, pooling, experts, quantised products and attention. The other two module_later_*.py have the other families."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F8, F32, I8, Arg, around_one, backward, bf16, f32, ints, key, key_of, module, weights
from module_odd_blocks import F16, U8, f16, layer, rms


def attend(q, k, v, allowed=None, bias=None):
    """Of [batch, length, heads, size]; grouped heads where keys have fewer."""
    groups = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(a, groups, 2) if groups > 1 else a for a in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32) * q.shape[-1] ** -0.5
    scores = scores if bias is None else scores + bias
    scores = scores if allowed is None else jnp.where(allowed, scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1).astype(v.dtype), v)


# Transformers.

@module("complex_rotary_block_grad_f32", "transformer",
        {"batch": 3, "length": 257, "width": 768, "heads": 12, "inner": 2048},
        {"batch": 2, "length": 7, "width": 16, "heads": 2, "inner": 12})
def _(batch, length, width, heads, inner):
    """Rotary places by products of complex numbers, as in Llama's first code."""
    size = width // heads

    def block(x, p):
        turn = jnp.exp(1j * jnp.outer(jnp.arange(length), 10000.0 ** (-jnp.arange(size // 2) / (size // 2))))

        def rotate(a):
            pairs = a.reshape(batch, length, heads, size // 2, 2)
            turned = lax.complex(pairs[..., 0], pairs[..., 1]) * turn[:, None].astype(jnp.complex64)
            return jnp.stack([turned.real, turned.imag], -1).reshape(a.shape)
        h = rms(x, p["g1"])
        q, k, v = ((h @ p[w]).reshape(batch, length, heads, size) for w in ("q", "k", "v"))
        causal = jnp.tril(jnp.ones((length, length), bool))
        x = x + attend(rotate(q), rotate(k), v, causal).reshape(x.shape) @ p["o"]
        h = rms(x, p["g2"])
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    x, w, g = f32(batch, length, width), weights(F32, width, width), around_one(F32, width)
    return backward(block), x, x, {"q": w, "k": w, "v": w, "o": w, "g1": g, "g2": g, "gate": weights(F32, width, inner),
                                   "up": weights(F32, width, inner), "down": weights(F32, inner, width)}


@module("squared_relu_gqa_block_bf16", "transformer",
        {"batch": 5, "length": 777, "width": 1280, "heads": 20, "kv": 4, "inner": 5120},
        {"batch": 2, "length": 5, "width": 32, "heads": 4, "kv": 2, "inner": 24}, tolerance=2)
def _(batch, length, width, heads, kv, inner):
    """Primer and Nemotron: a squared ReLU, a depthwise causal convolution of 3 after each projection."""
    size = width // heads

    def block(x, p):
        def mixed(a, taps):
            padded = jnp.pad(a, ((0, 0), (2, 0), (0, 0), (0, 0)))
            return sum(padded[:, i:i + length] * taps[i] for i in range(3))
        h = layer(x, p["g1"], p["b1"])
        q = mixed((h @ p["q"]).reshape(batch, length, heads, size), p["tq"])
        k, v = (mixed((h @ p[n]).reshape(batch, length, kv, size), p["t" + n]) for n in ("k", "v"))
        x = x + attend(q, k, v, jnp.tril(jnp.ones((length, length), bool))).reshape(x.shape) @ p["o"]
        return x + jnp.square(jax.nn.relu(layer(x, p["g2"], p["b1"]) @ p["up"])) @ p["down"]
    w, g = weights(BF16, width, width), around_one(BF16, width)
    taps = bf16(3, kv, size, scale=0.5)
    return block, bf16(batch, length, width), {
        "q": w, "o": w, "k": weights(BF16, width, kv * size), "v": weights(BF16, width, kv * size), "g1": g, "g2": g,
        "b1": bf16(width, scale=0.1), "tq": bf16(3, heads, size, scale=0.5), "tk": taps, "tv": taps,
        "up": weights(BF16, width, inner), "down": weights(BF16, inner, width)}


@module("perceiver_resampler_grad_bf16", "transformer",
        {"batch": 9, "tokens": 577, "latents": 64, "width": 1024, "heads": 16, "layers": 2},
        {"batch": 2, "tokens": 7, "latents": 3, "width": 16, "heads": 2, "layers": 2}, tolerance=4)
def _(batch, tokens, latents, width, heads, layers):
    """Latents read the picture's tokens and themselves; the layers are a scan over stacked weights."""
    def run(x, start, p):
        def one(z, p):
            h, y = rms(z, p["gz"]), rms(x, p["gx"])
            both = jnp.concatenate([y, h], 1)
            q = (h @ p["q"]).reshape(batch, latents, heads, -1)
            k, v = jnp.split((both @ p["kv"]).reshape(batch, tokens + latents, 2 * heads, -1), 2, 2)
            z = z + attend(q, k, v).reshape(z.shape) @ p["o"]
            return z + jax.nn.gelu(rms(z, p["gz"]) @ p["up"]) @ p["down"], None
        return lax.scan(one, jnp.broadcast_to(start, (batch, latents, width)), p)[0]
    w, g = weights(BF16, layers, width, width), around_one(BF16, layers, width)
    return backward(run), bf16(batch, latents, width), bf16(batch, tokens, width), bf16(latents, width), {
        "q": w, "o": w, "kv": weights(BF16, layers, width, 2 * width), "gz": g, "gx": g,
        "up": weights(BF16, layers, width, 4 * width), "down": weights(BF16, layers, 4 * width, width)}


@module("hourglass_shortened_grad_f32", "transformer",
        {"batch": 5, "length": 774, "width": 512, "heads": 8, "factor": 3},
        {"batch": 2, "length": 6, "width": 16, "heads": 2, "factor": 3})
def _(batch, length, width, heads, factor):
    """Tokens are pooled by 3, attended, repeated and added: shifts keep it causal."""
    def run(x, p):
        shifted = jnp.pad(x, ((0, 0), (factor - 1, 0), (0, 0)))[:, :length]
        short = shifted.reshape(batch, length // factor, factor * width) @ p["in"]
        h = rms(short, p["g"])
        q, k, v = jnp.split((h @ p["qkv"]).reshape(batch, length // factor, 3 * heads, -1), 3, 2)
        causal = jnp.tril(jnp.ones((length // factor, length // factor), bool))
        short = short + attend(q, k, v, causal).reshape(short.shape) @ p["o"]
        return x + jnp.repeat(short, factor, 1) * jax.nn.sigmoid(x @ p["o"])
    x, w = f32(batch, length, width), weights(F32, width, width)
    return backward(run), x, x, {"in": weights(F32, factor * width, width), "o": w, "g": around_one(F32, width),
                                 "qkv": weights(F32, width, 3 * width)}


# Decoding.

@module("decode_keys_transposed_b9_bf16", "decode",
        {"batch": 9, "heads": 24, "kv": 8, "size": 128, "length": 1280},
        {"batch": 3, "heads": 4, "kv": 2, "size": 8, "length": 12}, tolerance=2)
def _(batch, heads, kv, size, length):
    """Keys as [batch, heads, size, length], values as [length, batch, heads, size], a place of each row."""
    def step(q, k, v, keys, values, places):
        keys = jax.vmap(lambda c, n, at: lax.dynamic_update_slice(c, n[..., None], (0, 0, at)))(keys, k, places)
        values = values.at[places, jnp.arange(batch)].set(v)
        q = q.reshape(batch, kv, heads // kv, size)
        scores = jnp.einsum("bkgd,bkdl->bkgl", q, keys, preferred_element_type=F32) * size ** -0.5
        scores = jnp.where(jnp.arange(length) <= places[:, None, None, None], scores, -jnp.inf)
        out = jnp.einsum("bkgl,lbkd->bkgd", jax.nn.softmax(scores, -1).astype(BF16), values)
        return out.reshape(batch, heads * size), keys, values
    return (step, bf16(batch, heads, size), bf16(batch, kv, size), bf16(batch, kv, size),
            bf16(batch, kv, size, length), bf16(length, batch, kv, size), ints(length, batch))


@module("decode_pages_int8_interleaved_b5_bf16", "decode",
        {"batch": 5, "pages": 400, "page": 16, "table": 64, "heads": 32, "kv": 8, "size": 96},
        {"batch": 2, "pages": 9, "page": 4, "table": 3, "heads": 4, "kv": 2, "size": 8}, tolerance=2)
def _(batch, pages, page, table, heads, kv, size):
    """Pages hold keys and values beside each other as int8 with a scale of each token and head."""
    def step(q, cache, scales, tables, lengths):
        read = cache[tables].astype(F32) * scales[tables][..., None]
        read = read.reshape(batch, table * page, 2, kv, size).astype(BF16)
        q = q.reshape(batch, kv, heads // kv, size)
        scores = jnp.einsum("bkgd,blkd->bkgl", q, read[:, :, 0], preferred_element_type=F32) * size ** -0.5
        scores = jnp.where(jnp.arange(table * page) < lengths[:, None, None, None], scores, -jnp.inf)
        return jnp.einsum("bkgl,blkd->bkgd", jax.nn.softmax(scores, -1).astype(BF16), read[:, :, 1])
    return (step, bf16(batch, heads, size), ints(128, pages, page, 2, kv, size, low=-127, dtype=I8),
            Arg((pages, page, 2, kv), F32, low=0.005, high=0.02), ints(pages, batch, table),
            ints(table * page, batch, low=1))


@module("decode_beams_reordered_b3_f16", "decode",
        {"batch": 3, "beams": 5, "heads": 16, "size": 64, "length": 448, "layers": 4},
        {"batch": 2, "beams": 3, "heads": 2, "size": 8, "length": 9, "layers": 2}, tolerance=2)
def _(batch, beams, heads, size, length, layers):
    """Caches of beams are permuted, a token is written, four layers attend in a scan over the caches."""
    def step(x, keys, values, parents, place, w):
        def one(x, given):
            k_cache, v_cache, w = given
            k_cache, v_cache = (jnp.take_along_axis(c, parents[:, :, None, None, None], 1) for c in (k_cache, v_cache))
            q, k, v = jnp.split((rms(x) @ w).reshape(batch, beams, 3 * heads, size), 3, 2)
            k_cache = lax.dynamic_update_slice(k_cache, k[:, :, :, None], (0, 0, 0, place, 0))
            v_cache = lax.dynamic_update_slice(v_cache, v[:, :, :, None], (0, 0, 0, place, 0))
            scores = jnp.einsum("bnhd,bnhld->bnhl", q, k_cache, preferred_element_type=F32) * size ** -0.5
            share = jax.nn.softmax(jnp.where(jnp.arange(length) <= place, scores, -1e9), -1).astype(F16)
            out = jnp.einsum("bnhl,bnhld->bnhd", share, v_cache)
            return x + out.reshape(x.shape), (k_cache, v_cache)
        return lax.scan(one, x, (keys, values, w))
    cache = f16(layers, batch, beams, heads, length, size)
    return (step, f16(batch, beams, heads * size), cache, cache, ints(beams, batch, beams), ints(length),
            weights(F16, layers, heads * size, 3 * heads * size))


@module("decode_retention_chunk_b33_f32", "decode",
        {"batch": 33, "heads": 8, "size": 128, "tokens": 4}, {"batch": 3, "heads": 2, "size": 4, "tokens": 3})
def _(batch, heads, size, tokens):
    """RetNet: four tokens against a state that decays by head, a norm of each head, a gate."""
    def step(q, k, v, state, gate, w):
        decay = 1 - 2.0 ** (-5 - jnp.arange(heads))
        t = jnp.arange(tokens)
        within = jnp.where(t[:, None] >= t, decay[:, None, None] ** (t[:, None] - t), 0)
        inner = jnp.einsum("bhtd,bhsd->bhts", q, k) * within
        out = jnp.einsum("bhts,bhsd->bhtd", inner, v)
        out = out + jnp.einsum("bhtk,bhkv->bhtv", q, state) * (decay[:, None] ** (t + 1))[..., None]
        left = jnp.einsum("bhtk,bhtv->bhkv", k * (decay[:, None] ** (tokens - 1 - t))[..., None], v)
        out = rms(out).transpose(0, 2, 1, 3).reshape(batch, tokens, heads * size)
        return (jax.nn.silu(gate) * out) @ w, decay[:, None, None] ** tokens * state + left
    x, gate = f32(batch, heads, tokens, size, scale=0.3), f32(batch, tokens, heads * size)
    return step, x, x, x, f32(batch, heads, size, size), gate, weights(F32, heads * size, heads * size)


# Norms.

@module("masked_batch_norm_ncl_grad_f32", "norms", {"batch": 33, "channels": 129, "length": 777},
        {"batch": 3, "channels": 5, "length": 7})
def _(batch, channels, length):
    """Moments over what lengths leave of [batch, channels, length]; running moments too."""
    def norm(x, gain, bias, lengths, mean, variance):
        real = (jnp.arange(length) < lengths[:, None])[:, None]
        count = jnp.maximum(real.sum(), 1)
        m = jnp.where(real, x, 0).sum((0, 2), keepdims=True) / count
        v = jnp.where(real, jnp.square(x - m), 0).sum((0, 2), keepdims=True) / count
        y = jnp.where(real, (x - m) * lax.rsqrt(v + 1e-5) * gain[:, None] + bias[:, None], 0)
        return y, 0.9 * mean + 0.1 * m[0, :, 0], 0.9 * variance + 0.1 * v[0, :, 0]

    def step(dy, x, gain, bias, lengths, mean, variance):
        (_, *running), pull = jax.vjp(lambda *a: norm(*a, lengths, mean, variance), x, gain, bias)
        return pull((dy, jnp.zeros(channels), jnp.zeros(channels))), running
    x, g = f32(batch, channels, length), around_one(F32, channels)
    return step, x, x, g, f32(channels), ints(length + 1, batch), f32(channels), g


@module("dynamic_tanh_grad_bf16", "norms", {"rows": 7777, "width": 1280}, {"rows": 5, "width": 9}, tolerance=3)
def _(rows, width):
    def dyt(x, alpha, gain, bias):
        return (gain * jnp.tanh(alpha.astype(F32) * x.astype(F32)).astype(BF16) + bias)
    x = bf16(rows, width)
    return backward(dyt), x, x, Arg((1,), BF16, low=0.4, high=0.6), around_one(BF16, width), bf16(width)


@module("group_norm_33_channels_grad_bf16", "norms", {"batch": 9, "size": 97, "channels": 33, "groups": 11},
        {"batch": 2, "size": 5, "channels": 9, "groups": 3}, tolerance=3)
def _(batch, size, channels, groups):
    """Groups of three channels, NHWC, followed by a SiLU and a mean over places."""
    def norm(x, gain, bias):
        wide = x.astype(F32).reshape(batch, size, size, groups, channels // groups)
        mean, spread = wide.mean((1, 2, 4), keepdims=True), wide.var((1, 2, 4), keepdims=True)
        y = ((wide - mean) * lax.rsqrt(spread + 1e-5)).reshape(x.shape) * gain + bias
        y = jax.nn.silu(y)
        return y.astype(BF16), y.mean((1, 2))
    x, g = bf16(batch, size, size, channels), around_one(F32, channels)
    return backward(norm), (x, f32(batch, channels)), x, g, f32(channels)


@module("iterative_whitening_grad_f32", "norms", {"rows": 4099, "groups": 5, "size": 64, "steps": 5},
        {"rows": 17, "groups": 2, "size": 3, "steps": 5}, tolerance=8)
def _(rows, groups, size, steps):
    """IterNorm: covariance of groups of channels, its inverse root by Newton's steps, gradients through all."""
    def norm(x):
        x = x.reshape(rows, groups, size)
        x = x - x.mean(0)
        cov = jnp.einsum("rgi,rgj->gij", x, x) / rows + 0.1 * jnp.eye(size)
        trace = jnp.trace(cov, axis1=1, axis2=2)[:, None, None]
        p = jnp.broadcast_to(jnp.eye(size), cov.shape)
        for _ in range(steps):
            p = 1.5 * p - 0.5 * p @ p @ p @ (cov / trace)
        return jnp.einsum("rgi,gij->rgj", x, p * lax.rsqrt(trace)).reshape(rows, groups * size)
    x = f32(rows, groups * size)
    return backward(norm), x, x


@module("norm_of_long_rows_grad_f16", "norms", {"rows": 9, "width": 151552}, {"rows": 3, "width": 33}, tolerance=3)
def _(rows, width):
    """Few rows that no block holds: layer norm, a residual and the gradient of a clipped output."""
    def norm(x, r, gain, bias):
        return jnp.clip(layer(x + r, gain, bias), -2, 2) + r
    x = f16(rows, width)
    return backward(norm), x, x, x, around_one(F16, width), f16(width)


# Convolutions and pooling.

@module("grouped_dilated_nchw_grad_bf16", "convolutions",
        {"batch": 5, "channels": 132, "height": 45, "width": 61, "groups": 4},
        {"batch": 2, "channels": 8, "height": 7, "width": 6, "groups": 2}, tolerance=3)
def _(batch, channels, height, width, groups):
    """NCHW, 3 × 5 taps with dilations 2 and 3, uneven padding, a bias and leaky ReLU."""
    def net(x, w, bias):
        y = lax.conv_general_dilated(x, w, (1, 1), ((2, 2), (6, 6)), rhs_dilation=(2, 3), feature_group_count=groups,
                                     dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return jax.nn.leaky_relu(y + bias[:, None, None], 0.1)
    x = bf16(batch, channels, height, width)
    w = Arg((channels, channels // groups, 3, 5), BF16, (channels // groups * 15) ** -0.5)
    return backward(net), x, x, w, bf16(channels)


@module("transposed_grouped_nhwc_grad_f32", "convolutions",
        {"batch": 3, "size": 37, "channels": 96, "out": 64, "groups": 2},
        {"batch": 2, "size": 3, "channels": 4, "out": 6, "groups": 2})
def _(batch, size, channels, out, groups):
    """4 × 4 taps with stride 2 spread a picture, grouped, NHWC; instance norm after it."""
    def net(x, w):
        y = lax.conv_general_dilated(x, w, (1, 1), ((2, 2), (2, 2)), lhs_dilation=(2, 2), feature_group_count=groups,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (y - y.mean((1, 2), keepdims=True)) * lax.rsqrt(y.var((1, 2), keepdims=True) + 1e-5)
    return (backward(net), f32(batch, 2 * size, 2 * size, out), f32(batch, size, size, channels),
            Arg((4, 4, channels // groups, out), F32, (channels // groups * 4) ** -0.5))


@module("dense_block_concatenated_grad_bf16", "convolutions",
        {"batch": 9, "size": 28, "channels": 128, "growth": 32, "layers": 4},
        {"batch": 2, "size": 4, "channels": 6, "growth": 3, "layers": 3}, tolerance=4)
def _(batch, size, channels, growth, layers):
    """DenseNet: each layer reads all before it, batch norm by batch moments, 1 × 1 and 3 × 3."""
    def conv(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def norm(x, gain):
        wide = x.astype(F32)
        mean, spread = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
        return jax.nn.relu((wide - mean) * lax.rsqrt(spread + 1e-5) * gain).astype(BF16)

    def net(x, p):
        for w in p:
            x = jnp.concatenate([x, conv(norm(conv(norm(x, w["g1"]), w["narrow"]), w["g2"]), w["wide"])], -1)
        return x
    p = [{"g1": around_one(F32, channels + i * growth), "g2": around_one(F32, 4 * growth),
          "narrow": Arg((1, 1, channels + i * growth, 4 * growth), BF16, (channels + i * growth) ** -0.5),
          "wide": Arg((3, 3, 4 * growth, growth), BF16, (36 * growth) ** -0.5)} for i in range(layers)]
    return (backward(net), bf16(batch, size, size, channels + layers * growth), bf16(batch, size, size, channels), p)


@module("deformable_3x3_grad_f32", "convolutions", {"batch": 3, "size": 33, "channels": 64, "out": 77},
        {"batch": 2, "size": 5, "channels": 3, "out": 4}, tolerance=2)
def _(batch, size, channels, out):
    """Taps at learned places, by bilinear reads of four corners; gradients to places and masks too."""
    def net(x, shifts, mask, w):
        base = jnp.stack(jnp.meshgrid(jnp.arange(size), jnp.arange(size), indexing="ij"), -1)[:, :, None]
        taps = jnp.stack(jnp.meshgrid(jnp.arange(-1, 2), jnp.arange(-1, 2), indexing="ij"), -1).reshape(9, 2)

        def one(x, shift, mask):
            at = base + taps + shift
            low = jnp.floor(at)
            part = at - low
            low = low.astype(jnp.int32)
            total = 0
            for dy in (0, 1):
                for dx in (0, 1):
                    y, z = low[..., 0] + dy, low[..., 1] + dx
                    inside = (y >= 0) & (y < size) & (z >= 0) & (z < size)
                    share = jnp.abs(1 - dy - part[..., 0]) * jnp.abs(1 - dx - part[..., 1])
                    read = x[jnp.clip(y, 0, size - 1), jnp.clip(z, 0, size - 1)]
                    total = total + jnp.where(inside, share * mask, 0)[..., None] * read
            return jnp.einsum("hwkc,kco->hwo", total, w)
        return jax.vmap(one)(x, shifts, jax.nn.sigmoid(mask))
    x = f32(batch, size, size, channels)
    return (backward(net), f32(batch, size, size, out), x, f32(batch, size, size, 9, 2, scale=0.7),
            f32(batch, size, size, 9), Arg((9, channels, out), F32, (9 * channels) ** -0.5))


@module("blurred_depthwise_strided_grad_f16", "convolutions", {"batch": 9, "size": 57, "channels": 72},
        {"batch": 2, "size": 7, "channels": 12}, tolerance=3)
def _(batch, size, channels):
    """5 × 5 depthwise with stride 2 of an odd picture, hard swish, squeeze and excite with hard sigmoids."""
    def net(x, w, narrow, wide):
        y = lax.conv_general_dilated(x, w, (2, 2), "SAME", feature_group_count=channels,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = jax.nn.hard_swish(y)
        pooled = y.astype(F32).mean((1, 2)).astype(F16)
        return y * jax.nn.hard_sigmoid(jax.nn.relu(pooled @ narrow) @ wide)[:, None, None]
    x = f16(batch, size, size, channels)
    return (backward(net), f16(batch, (size + 1) // 2, (size + 1) // 2, channels), x,
            f16(5, 5, 1, channels, scale=0.2), weights(F16, channels, channels // 4),
            weights(F16, channels // 4, channels))


@module("counted_average_pool_grad_bf16", "pooling", {"batch": 9, "size": 113, "channels": 96},
        {"batch": 2, "size": 7, "channels": 3}, tolerance=3)
def _(batch, size, channels):
    """Windows of 3 with stride 2 divide by the cells within; a dilated maximum; generalised means."""
    def net(x, power):
        window, strides, pads = (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
        wide = x.astype(F32)
        sums = lax.reduce_window(wide, 0.0, lax.add, window, strides, pads)
        counts = lax.reduce_window(jnp.ones((1, size, size, 1)), 0.0, lax.add, window, strides, pads)
        top = lax.reduce_window(wide, -jnp.inf, lax.max, window, strides, pads)
        gem = jnp.power(jnp.maximum(jnp.abs(wide), 1e-3), power).mean((1, 2)) ** (1 / power)
        return (sums / counts + top).astype(BF16), gem
    half = (size + 1) // 2
    return (backward(net), (bf16(batch, half, half, channels), f32(batch, channels)), bf16(batch, size, size, channels),
            Arg((), F32, low=2, high=3))


# Experts.

@module("mixture_of_depths_grad_bf16", "moe", {"batch": 5, "length": 1280, "kept": 160, "width": 768, "inner": 2304},
        {"batch": 2, "length": 9, "kept": 3, "width": 8, "inner": 12}, tolerance=4, mismatch=0.02)
def _(batch, length, kept, width, inner):
    """An eighth of the tokens, in order, go through the block; the rest pass it by."""
    def run(x, router, up, down):
        scores = (x.astype(F32) @ router)[..., 0]
        at = jnp.sort(lax.top_k(scores, kept)[1], -1)
        chosen = jnp.take_along_axis(x, at[..., None], 1)
        weight = jax.nn.sigmoid(jnp.take_along_axis(scores, at, 1))[..., None]
        out = (weight * (jax.nn.gelu(rms(chosen) @ up) @ down)).astype(BF16)
        return jax.vmap(lambda x, at, out: x.at[at].add(out))(x, at, out)
    x = bf16(batch, length, width)
    return backward(run), x, x, weights(F32, width, 1), weights(BF16, width, inner), weights(BF16, inner, width)


@module("moe_ranks_capacity_scatter_grad_f32", "moe",
        {"tokens": 3999, "experts": 33, "k": 3, "capacity": 480, "width": 512, "inner": 640},
        {"tokens": 13, "experts": 5, "k": 2, "capacity": 4, "width": 6, "inner": 8}, tolerance=2, mismatch=0.01)
def _(tokens, experts, k, capacity, width, inner):
    """Ranks in an expert by cumulative sums; tokens beyond the capacity are dropped by scatters out of bounds."""
    def run(x, router, up, down):
        shares = jax.nn.softmax(x @ router)
        weight, which = lax.top_k(shares, k)
        flat = which.T.reshape(-1)
        taken = jax.nn.one_hot(flat, experts, dtype=jnp.int32)
        rank = ((jnp.cumsum(taken, 0) - 1) * taken).sum(-1)
        token = jnp.tile(jnp.arange(tokens), k)
        slots = jnp.zeros((experts, capacity, width)).at[flat, rank].set(x[token], mode="drop")
        made = jnp.einsum("eci,eiw->ecw", jax.nn.relu(jnp.einsum("ecw,ewi->eci", slots, up)), down)
        back = made.at[flat, rank].get(mode="fill", fill_value=0) * weight.T.reshape(-1, 1)
        balance = experts * (shares.mean(0) * taken.reshape(k, tokens, experts).mean((0, 1))).sum()
        return back.reshape(k, tokens, width).sum(0) + 0.01 * balance
    x = f32(tokens, width)
    return (backward(run), x, x, weights(F32, width, experts), weights(F32, experts, width, inner),
            weights(F32, experts, inner, width))


@module("moe_lora_adapters_b9_bf16", "moe", {"batch": 9, "tokens": 77, "adapters": 32, "rank": 16, "width": 1280},
        {"batch": 3, "tokens": 4, "adapters": 4, "rank": 2, "width": 8}, tolerance=2)
def _(batch, tokens, adapters, rank, width):
    """Each sequence has an adapter of its own beside shared weights (S-LoRA); scales of adapters."""
    def run(x, w, a, b, scale, which):
        low = jnp.einsum("btw,bwr->btr", x, a[which])
        return x @ w + jnp.einsum("btr,brw->btw", low, b[which]) * scale[which][:, None, None]
    return (run, bf16(batch, tokens, width), weights(BF16, width, width), weights(BF16, adapters, width, rank),
            weights(BF16, adapters, rank, width), around_one(BF16, adapters), ints(adapters, batch))


# Quantised products.

@module("awq_interleaved_int4_b9_bf16", "quantised", {"rows": 9, "width": 4096, "out": 11008, "group": 128},
        {"rows": 3, "width": 8, "out": 16, "group": 4}, tolerance=2)
def _(rows, width, out, group):
    """AWQ: eight 4-bit weights of a 32-bit word in its order 0 2 4 6 1 3 5 7, zeros packed alike."""
    def unpack(words):
        at = jnp.array([0, 4, 1, 5, 2, 6, 3, 7]) * 4
        return ((words[..., None] >> at) & 15).reshape(*words.shape[:-1], -1)

    def run(x, words, zeros, scales):
        w = unpack(words).reshape(width // group, group, out) - unpack(zeros)[:, None]
        return x @ (w.astype(BF16) * scales[:, None]).reshape(width, out)
    return (run, bf16(rows, width), ints(2**31 - 1, width, out // 8, low=-2**31),
            ints(2**31 - 1, width // group, out // 8, low=-2**31),
            Arg((width // group, out), BF16, low=0.002, high=0.01))


@module("mxfp4_blocks_b33_bf16", "quantised", {"rows": 33, "width": 2880, "out": 5760},
        {"rows": 3, "width": 64, "out": 6}, tolerance=2)
def _(rows, width, out):
    """Pairs of e2m1 in bytes by a table of 16 values, blocks of 32 scaled by powers of two, as in gpt-oss."""
    def run(x, packed, powers, bias):
        table = jnp.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], BF16)
        w = jnp.stack([table[packed & 15], table[packed >> 4]], -1).reshape(out, width // 32, 32)
        w = jnp.ldexp(w.astype(F32), powers.astype(jnp.int32)[..., None] - 127).astype(BF16)
        return x @ w.reshape(out, width).T + bias
    return (run, bf16(rows, width), ints(256, out, width // 2, dtype=U8),
            ints(124, out, width // 32, low=119, dtype=U8), bf16(out))


@module("ternary_packed_b5_bf16", "quantised", {"rows": 5, "width": 2560, "out": 6912},
        {"rows": 3, "width": 8, "out": 6}, tolerance=2)
def _(rows, width, out):
    """BitNet: four ternary weights in a byte along the inputs, activations by row to int8, an s32 product."""
    def run(x, packed, scale):
        wide = x.astype(F32)
        step = 127 / jnp.maximum(jnp.abs(wide).max(-1, keepdims=True), 1e-5)
        q = jnp.clip(jnp.round(wide * step), -128, 127).astype(I8)
        w = jnp.concatenate([(packed >> (2 * i)) & 3 for i in range(4)], 0).astype(I8) - 1
        return (jnp.dot(q, w, preferred_element_type=jnp.int32) / step * scale).astype(BF16)
    return run, bf16(rows, width), ints(256, width // 4, out, dtype=U8), Arg((), F32, low=0.01, high=0.02)


@module("int8_residual_convs_nhwc", "quantised", {"batch": 9, "size": 28, "channels": 128},
        {"batch": 2, "size": 4, "channels": 4})
def _(batch, size, channels):
    """Two 3 × 3 convolutions of int8 to s32, requantised by channel with rounding, a saturating sum."""
    def conv(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                        preferred_element_type=jnp.int32)

    def run(x, w1, w2, bias, scale):
        h = jnp.clip(jnp.round((conv(x, w1) + bias) * scale), 0, 127).astype(I8)
        y = jnp.round(conv(h, w2) * scale) + x
        return jnp.clip(y, -128, 127).astype(I8)
    w = ints(32, 3, 3, channels, channels, low=-31, dtype=I8)
    return (run, ints(128, batch, size, size, channels, low=-127, dtype=I8), w, w, ints(2000, channels, low=-2000),
            Arg((channels,), F32, low=0.001, high=0.003))


@module("fp8_grouped_1x128_gradients_bf16", "quantised", {"rows": 1281, "width": 2048, "out": 1280, "group": 128},
        {"rows": 5, "width": 8, "out": 12, "group": 4}, tolerance=6)
def _(rows, width, out, group):
    """DeepSeek-V3: activations by 1 × 128, weights by 128 × 128, the product in parts of 128 summed in f32."""
    def run(x, w):
        x = x.astype(F32).reshape(rows, width // group, group)
        sx = jnp.maximum(jnp.abs(x).max(-1, keepdims=True), 1e-4) / 448
        w = w.astype(F32).reshape(width // group, group, out // group, group)
        sw = jnp.maximum(jnp.abs(w).max((1, 3), keepdims=True), 1e-6) / 448
        parts = jnp.einsum("rgk,gkno->grno", (x / sx).astype(F8), (w / sw).astype(F8), preferred_element_type=F32)
        scaled = parts * sx.transpose(1, 0, 2)[..., None] * sw[:, 0][:, None]
        return scaled.sum(0).reshape(rows, out).astype(BF16)
    return run, bf16(rows, width), weights(BF16, width, out)


# Attention.

@module("music_skewed_relative_grad_bf16", "attention", {"batch": 3, "length": 513, "heads": 8, "size": 64},
        {"batch": 2, "length": 6, "heads": 2, "size": 4}, tolerance=4)
def _(batch, length, heads, size):
    """Music transformer: products with relative vectors, skewed by a pad and a reshape, causal."""
    def run(q, k, v, relative):
        by_place = jnp.einsum("bqhd,rhd->bhqr", q, relative, preferred_element_type=F32)
        padded = jnp.pad(by_place, ((0, 0), (0, 0), (0, 0), (1, 0)))
        skewed = padded.reshape(batch, heads, length + 1, length)[:, :, 1:]
        return attend(q, k, v, jnp.tril(jnp.ones((length, length), bool)), skewed * size ** -0.5)
    x = bf16(batch, length, heads, size)
    return backward(run), x, x, x, x, bf16(length, heads, size, scale=0.3)


@module("neighbourhood_7x7_grad_bf16", "attention", {"batch": 2, "side": 28, "heads": 4, "size": 32, "reach": 7},
        {"batch": 1, "side": 6, "heads": 2, "size": 4, "reach": 3}, tolerance=4)
def _(batch, side, heads, size, reach):
    """NAT: each place sees the window around it, moved inwards at edges; a bias by relative place."""
    def run(q, k, v, bias):
        places = jnp.arange(side)
        start = jnp.clip(places - reach // 2, 0, side - reach)
        near = start[:, None] + jnp.arange(reach)
        apart = near - places[:, None] + reach - 1

        def windows(a):
            return a[:, near[:, None, :, None], near[None, :, None, :]]
        scores = jnp.einsum("bijhd,bijuvhd->bijhuv", q, windows(k), preferred_element_type=F32) * size ** -0.5
        scores = scores + bias[apart[:, None, :, None], apart[None, :, None, :]].transpose(0, 1, 4, 2, 3)
        share = jax.nn.softmax(scores.reshape(*scores.shape[:4], -1), -1).reshape(scores.shape).astype(BF16)
        return jnp.einsum("bijhuv,bijuvhd->bijhd", share, windows(v))
    x = bf16(batch, side, side, heads, size)
    return backward(run), x, x, x, x, f32(2 * reach - 1, 2 * reach - 1, heads, scale=0.5)


@module("nystrom_landmarks_f32", "attention", {"batch": 3, "length": 1280, "heads": 6, "size": 64, "marks": 64},
        {"batch": 2, "length": 12, "heads": 2, "size": 4, "marks": 3}, tolerance=4)
def _(batch, length, heads, size, marks):
    """Three small softmaxes by means of segments, a pseudo-inverse by six of Razavi's steps, a convolved skip."""
    def run(q, k, v, taps):
        q, k = q * size ** -0.25, k * size ** -0.25
        ql, kl = (a.reshape(batch, heads, marks, length // marks, size).mean(3) for a in (q, k))
        one, two, three = (jax.nn.softmax(a @ b.swapaxes(-1, -2), -1) for a, b in ((q, kl), (ql, kl), (ql, k)))
        z = two.swapaxes(-1, -2) / two.sum(-2).max(-1)[..., None, None]
        eye = jnp.eye(marks)

        def step(_, z):
            az = two @ z
            return 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
        out = (one @ lax.fori_loop(0, 6, step, z)) @ (three @ v)
        flat = v.transpose(0, 3, 1, 2).reshape(batch * size, heads, length)
        skip = lax.conv_general_dilated(flat, taps, (1,), "SAME", feature_group_count=heads)
        return out + skip.reshape(batch, size, heads, length).transpose(0, 2, 3, 1)
    x = f32(batch, heads, length, size)
    return run, x, x, x, f32(heads, 1, 33, scale=0.1)


@module("triangle_gated_pairs_grad_bf16", "attention", {"length": 97, "pair": 128, "heads": 4, "size": 32},
        {"length": 6, "pair": 8, "heads": 2, "size": 4}, tolerance=5)
def _(length, pair, heads, size):
    """AlphaFold: attention of rows of pairs with a bias of the pairs themselves, then a triangle product."""
    def run(z, p):
        h = layer(z, p["g"], p["b"])
        q, k, v = jnp.split((h @ p["qkv"]).reshape(length, length, 3 * heads, size), 3, 2)
        bias = (h @ p["bias"]).astype(F32).transpose(2, 0, 1)
        out = attend(q, k, v, None, bias[None]).reshape(length, length, heads * size)
        z = z + (jax.nn.sigmoid(h @ p["gate"]) * out) @ p["out"]
        a, b = jnp.split(jax.nn.sigmoid(z @ p["gates"]) * (z @ p["ab"]), 2, -1)
        both = jnp.einsum("ikc,jkc->ijc", a, b, preferred_element_type=F32).astype(BF16)
        return z + layer(both, p["g"], p["b"]) @ p["last"]
    x, inner = bf16(length, length, pair), heads * size
    return backward(run), x, x, {
        "g": around_one(BF16, pair), "b": bf16(pair, scale=0.1), "qkv": weights(BF16, pair, 3 * inner),
        "bias": weights(BF16, pair, heads), "gate": weights(BF16, pair, inner), "out": weights(BF16, inner, pair),
        "gates": weights(BF16, pair, 2 * pair), "ab": weights(BF16, pair, 2 * pair), "last": weights(BF16, pair, pair)}


@module("performer_causal_dropout_f32", "attention",
        {"batch": 3, "length": 640, "heads": 5, "size": 64, "features": 96},
        {"batch": 2, "length": 6, "heads": 2, "size": 4, "features": 5}, tolerance=2)
def _(batch, length, heads, size, features):
    """Positive random features, running sums of outer products by a scan, dropout of the output."""
    def run(q, k, v, w, data):
        def phi(x):
            return jnp.exp(x @ w - jnp.square(x).sum(-1, keepdims=True) / 2 - 1)
        q, k = phi(q * size ** -0.25), phi(k * size ** -0.25)

        def step(state, given):
            s, z = state
            q, k, v = given
            s, z = s + k[..., None] * v[..., None, :], z + k
            return (s, z), jnp.einsum("bhf,bhfd->bhd", q, s) / ((q * z).sum(-1, keepdims=True) + 1e-6)
        start = (jnp.zeros((batch, heads, features, size)), jnp.zeros((batch, heads, features)))
        out = lax.scan(step, start, (q, k, v))[1]
        return jnp.where(jax.random.bernoulli(key_of(data), 0.9, out.shape), out / 0.9, 0)
    x = f32(length, batch, heads, size)
    return run, x, x, x, f32(size, features), key()
