"""More modules of modules.py, by an author who had not read the compiler, at sizes that nobody tunes for: blocks,
attention, decode steps, norms, losses and optimizers. module_fresh_layers.py has the other families."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, Arg, around_one, backward, bf16, f32, ints, module, rotary, weights
from module_odd_blocks import F16, f16, grad_of, layer, positive, rms, softmax


def scores_of(pattern, q, k, scale):
    return jnp.einsum(pattern, q, k, preferred_element_type=F32) * scale


# Blocks of transformers.

@module("parallel_sandwich_grad_f32", "transformer",
        {"batch": 3, "length": 333, "width": 624, "heads": 12, "inner": 1800},
        {"batch": 2, "length": 9, "width": 24, "heads": 3, "inner": 20})
def _(batch, length, width, heads, inner):
    """Attention and MLP from one norm, a norm after each of them too, scaled residual."""
    size = width // heads

    def block(x, p):
        h = layer(x, p["g1"], p["b1"])
        q, k, v = jnp.moveaxis((h @ p["qkv"]).reshape(batch, length, 3, heads, size), 2, 0)
        seen = jnp.tril(jnp.ones((length, length), bool))
        shares = jax.nn.softmax(jnp.where(seen, scores_of("bqhd,bkhd->bhqk", q, k, size ** -0.5), -1e9))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape) @ p["o"]
        return x + 0.7 * (rms(mixed, p["g2"]) + rms(jax.nn.gelu(h @ p["up"]) @ p["down"], p["g3"]))
    x, gain = f32(batch, length, width), around_one(F32, width)
    p = {"g1": gain, "g2": gain, "g3": gain, "b1": f32(width, scale=0.1), "qkv": weights(F32, width, 3 * width),
         "o": weights(F32, width, width), "up": weights(F32, width, inner), "down": weights(F32, inner, width)}
    return backward(block), x, x, p


@module("differential_block_grad_bf16", "transformer",
        {"batch": 2, "length": 411, "width": 960, "heads": 10, "inner": 2500},
        {"batch": 2, "length": 9, "width": 24, "heads": 3, "inner": 20}, tolerance=3)
def _(batch, length, width, heads, inner):
    """The difference of two softmaxes, weighted by learned exponents; a norm of each head; a gated MLP."""
    size = width // heads // 2

    def block(x, p):
        h = rms(x, p["g1"])
        q = rotary((h @ p["q"]).reshape(batch, length, 2 * heads, size), jnp.arange(length))
        k = rotary((h @ p["k"]).reshape(batch, length, 2 * heads, size), jnp.arange(length))
        v = (h @ p["v"]).reshape(batch, length, heads, 2 * size)
        seen = jnp.arange(length)[:, None] >= jnp.arange(length)
        shares = jax.nn.softmax(jnp.where(seen, scores_of("bqhd,bkhd->bhqk", q, k, size ** -0.5), -jnp.inf))
        shares = shares.reshape(batch, heads, 2, length, length)
        a, b, c, d = p["lambdas"]
        weight = jnp.exp((a * b).sum()) - jnp.exp((c * d).sum()) + 0.8
        shares = (shares[:, :, 0] - weight * shares[:, :, 1]).astype(BF16)
        mixed = rms(jnp.einsum("bhqk,bkhd->bqhd", shares, v), p["gh"]) * 0.2
        x = x + mixed.reshape(x.shape) @ p["o"]
        h = rms(x, p["g2"])
        return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    x, square = bf16(batch, length, width), weights(BF16, width, width)
    p = {"g1": around_one(BF16, width), "g2": around_one(BF16, width), "gh": around_one(BF16, 2 * size),
         "q": square, "k": square, "v": square, "o": square, "lambdas": f32(4, size, scale=0.1),
         "gate": weights(BF16, width, inner), "up": weights(BF16, width, inner), "down": weights(BF16, inner, width)}
    return backward(block), x, x, p


@module("mla_prefill_grad_bf16", "transformer",
        {"batch": 3, "length": 345, "width": 1000, "heads": 10, "latent": 200, "q_latent": 300, "size": 64,
         "turned": 32, "v_size": 72},
        {"batch": 2, "length": 7, "width": 20, "heads": 2, "latent": 8, "q_latent": 12, "size": 6, "turned": 4,
         "v_size": 5}, tolerance=3)
def _(batch, length, width, heads, latent, q_latent, size, turned, v_size):
    """Keys and values from a latent vector; rotary parts of keys are shared by heads."""
    def attend(x, p):
        places = jnp.arange(length)
        q = (rms(x @ p["dq"], p["gq"]) @ p["uq"]).reshape(batch, length, heads, size + turned)
        q, q_turned = q[..., :size], rotary(q[..., size:], places)
        both = x @ p["dkv"]
        c, k_turned = rms(both[..., :latent], p["gkv"]), rotary(both[..., None, latent:], places)
        kv = (c @ p["ukv"]).reshape(batch, length, heads, size + v_size)
        k, v = kv[..., :size], kv[..., size:]
        q = jnp.concatenate([q, q_turned], -1)
        k = jnp.concatenate([k, jnp.broadcast_to(k_turned, (batch, length, heads, turned))], -1)
        scores = scores_of("bqhd,bkhd->bhqk", q, k, (size + turned) ** -0.5)
        shares = softmax(jnp.where(places[:, None] >= places, scores, -1e30), BF16)
        return x + jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(batch, length, -1) @ p["o"]
    x = bf16(batch, length, width)
    p = {"dq": weights(BF16, width, q_latent), "uq": weights(BF16, q_latent, heads * (size + turned)),
         "gq": around_one(BF16, q_latent), "gkv": around_one(BF16, latent),
         "dkv": weights(BF16, width, latent + turned), "ukv": weights(BF16, latent, heads * (size + v_size)),
         "o": weights(BF16, heads * v_size, width)}
    return backward(attend), x, x, p


@module("alibi_gqa_grad_bf16", "transformer",
        {"batch": 5, "length": 257, "width": 720, "heads": 15, "kv_heads": 3, "inner": 1920},
        {"batch": 2, "length": 7, "width": 24, "heads": 6, "kv_heads": 2, "inner": 20}, tolerance=3)
def _(batch, length, width, heads, kv_heads, inner):
    """Slopes of a number of heads that is no power of two; squared ReLU; biases everywhere."""
    size, each = width // heads, heads // kv_heads

    def block(x, p):
        h = layer(x, p["g1"], p["b1"])
        q = (h @ p["q"] + p["bq"]).reshape(batch, length, kv_heads, each, size)
        k, v = jnp.split((h @ p["kv"] + p["bkv"]).reshape(batch, length, kv_heads, 2 * size), 2, -1)
        slopes = 2.0 ** (-8 * jnp.arange(1, heads + 1) / heads).reshape(kv_heads, each, 1, 1)
        far = jnp.arange(length)[:, None] - jnp.arange(length)
        scores = scores_of("bqhgd,bkhd->bhgqk", q, k, size ** -0.5) - slopes * far
        mixed = jnp.einsum("bhgqk,bkhd->bqhgd", softmax(jnp.where(far >= 0, scores, -jnp.inf), BF16), v)
        x = x + mixed.reshape(x.shape) @ p["o"] + p["bo"]
        h = layer(x, p["g2"], p["b2"])
        return x + jnp.square(jax.nn.relu(h @ p["up"] + p["bu"])) @ p["down"]
    x, gain, bias = bf16(batch, length, width), around_one(BF16, width), bf16(width, scale=0.1)
    kv = 2 * kv_heads * size
    p = {"g1": gain, "g2": gain, "b1": bias, "b2": bias, "bq": bias, "bo": bias, "bkv": bf16(kv, scale=0.1),
         "bu": bf16(inner, scale=0.1), "q": weights(BF16, width, width), "kv": weights(BF16, width, kv),
         "o": weights(BF16, width, width), "up": weights(BF16, width, inner), "down": weights(BF16, inner, width)}
    return backward(block), x, x, p


@module("window_first_tokens_f32", "transformer",
        {"length": 1500, "width": 840, "heads": 14, "window": 200, "first": 4, "inner": 2300},
        {"length": 17, "width": 24, "heads": 3, "window": 5, "first": 2, "inner": 20})
def _(length, width, heads, window, first, inner):
    """One sequence: each place sees a window and the first four; a learned logit of each head takes a share."""
    size = width // heads

    def block(x, p):
        h = rms(x, p["g1"])
        q, k, v = ((h @ p[n]).reshape(length, heads, size) for n in "qkv")
        q, k = rotary(q[None], jnp.arange(length))[0], rotary(k[None], jnp.arange(length))[0]
        far = jnp.arange(length)[:, None] - jnp.arange(length)
        seen = (far >= 0) & ((far < window) | (jnp.arange(length) < first))
        scores = jnp.where(seen, scores_of("qhd,khd->hqk", q, k, size ** -0.5), -jnp.inf)
        sink = jnp.broadcast_to(p["sink"][:, None, None], (heads, length, 1))
        shares = jax.nn.softmax(jnp.concatenate([scores, sink], -1))[..., :-1]
        x = x + jnp.einsum("hqk,khd->qhd", shares, v).reshape(x.shape) @ p["o"]
        h = rms(x, p["g2"])
        return x + (jax.nn.gelu(h @ p["gate"], approximate=False) * (h @ p["up"])) @ p["down"]
    square = weights(F32, width, width)
    p = {"g1": around_one(F32, width), "g2": around_one(F32, width), "q": square, "k": square, "v": square,
         "o": square, "sink": f32(heads), "gate": weights(F32, width, inner), "up": weights(F32, width, inner),
         "down": weights(F32, inner, width)}
    return block, f32(length, width), p


@module("decoder_cross_padded_grad_bf16", "transformer",
        {"batch": 5, "queries": 101, "keys": 377, "width": 660, "heads": 11, "inner": 1320},
        {"batch": 2, "queries": 5, "keys": 7, "width": 24, "heads": 3, "inner": 20}, tolerance=3)
def _(batch, queries, keys, width, heads, inner):
    """Causal self attention, then attention to an encoder's padded output, then an MLP, each after a norm."""
    size = width // heads

    def attend(h, memory, w, seen):
        q = (h @ w["q"]).reshape(batch, -1, heads, size)
        k, v = ((memory @ w[n]).reshape(batch, -1, heads, size) for n in "kv")
        scores = jnp.where(seen, scores_of("bqhd,bkhd->bhqk", q, k, size ** -0.5), -1e9)
        return jnp.einsum("bhqk,bkhd->bqhd", softmax(scores, BF16), v).reshape(h.shape) @ w["o"]

    def block(x, memory, p, lengths):
        h = layer(x, *p["n1"])
        x = x + attend(h, h, p["self"], jnp.tril(jnp.ones((queries, queries), bool)))
        real = (jnp.arange(keys) < lengths[:, None])[:, None, None]
        x = x + attend(layer(x, *p["n2"]), memory, p["cross"], real)
        return x + jax.nn.relu(layer(x, *p["n3"]) @ p["up"]) @ p["down"]
    x, norm = bf16(batch, queries, width), [around_one(BF16, width), bf16(width, scale=0.1)]
    w = {n: weights(BF16, width, width) for n in "qkvo"}
    p = {"n1": norm, "n2": norm, "n3": norm, "self": w, "cross": w, "up": weights(BF16, width, inner),
         "down": weights(BF16, inner, width)}
    return grad_of(block, 3), x, x, bf16(batch, keys, width), p, ints(keys + 1, batch, low=keys // 4)


@module("conformer_block_grad_f32", "transformer",
        {"batch": 3, "length": 299, "width": 444, "heads": 6, "taps": 31},
        {"batch": 2, "length": 9, "width": 12, "heads": 3, "taps": 5})
def _(batch, length, width, heads, taps):
    """Half an MLP, attention, a gated depthwise convolution, half an MLP, a norm."""
    size = width // heads

    def half(x, p):
        return x + 0.5 * (jax.nn.silu(layer(x, *p["n"]) @ p["up"]) @ p["down"])

    def block(x, p):
        x = half(x, p["m1"])
        q, k, v = jnp.moveaxis((layer(x, *p["n1"]) @ p["qkv"]).reshape(batch, length, 3, heads, size), 2, 0)
        shares = jax.nn.softmax(scores_of("bqhd,bkhd->bhqk", q, k, size ** -0.5))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape) @ p["o"]
        a, b = jnp.split(layer(x, *p["n2"]) @ p["glu"], 2, -1)
        h = lax.conv_general_dilated(a * jax.nn.sigmoid(b), p["depth"], (1,), "SAME", feature_group_count=width,
                                     dimension_numbers=("NWC", "WIO", "NWC"))
        x = x + jax.nn.silu(layer(h, *p["n3"])) @ p["point"]
        return layer(half(x, p["m2"]), *p["n4"])
    x, square = f32(batch, length, width), weights(F32, width, width)
    norm = [around_one(F32, width), f32(width, scale=0.1)]
    mlp = {"n": norm, "up": weights(F32, width, 4 * width), "down": weights(F32, 4 * width, width)}
    p = {"m1": mlp, "m2": mlp, "n1": norm, "n2": norm, "n3": norm, "n4": norm, "qkv": weights(F32, width, 3 * width),
         "o": square, "glu": weights(F32, width, 2 * width), "depth": f32(taps, 1, width, scale=taps ** -0.5),
         "point": square}
    return backward(block), x, x, p


# Attention.

@module("block_mask_random_grad_bf16", "attention",
        {"batch": 3, "heads": 6, "blocks": 18, "block": 40, "size": 56},
        {"batch": 2, "heads": 2, "blocks": 4, "block": 3, "size": 4}, tolerance=3)
def _(batch, heads, blocks, block, size):
    """A mask of blocks of each head (random, the first, neighbours), repeated to places."""
    def attend(q, k, v, allowed):
        i = jnp.arange(blocks)
        near = (jnp.abs(i[:, None] - i) <= 1) | (i == 0) | (i[:, None] == 0)
        mask = jnp.repeat(jnp.repeat((allowed == 0) | near, block, 1), block, 2)
        scores = jnp.where(mask, scores_of("bhqd,bhkd->bhqk", q, k, size ** -0.5), -1e9)
        return jnp.einsum("bhqk,bhkd->bhqd", softmax(scores, BF16), v)
    x = bf16(batch, heads, blocks * block, size)
    return grad_of(attend, 3), x, x, x, x, ints(5, heads, blocks, blocks)


@module("segments_cap_distance_grad_f32", "attention",
        {"batch": 3, "length": 333, "heads": 5, "size": 60, "far": 48},
        {"batch": 2, "length": 9, "heads": 2, "size": 4, "far": 3})
def _(batch, length, heads, size, far):
    """Soft caps, vectors of clipped distances added to keys (Shaw), segments that see only themselves."""
    def attend(q, k, v, table, ids):
        places = jnp.arange(length)
        which = jnp.clip(places - places[:, None], -far, far) + far
        by_distance = jnp.einsum("bqhd,rd->bhqr", q, table)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        scores = scores + jnp.take_along_axis(by_distance, jnp.broadcast_to(which, scores.shape), -1)
        scores = 20 * jnp.tanh(scores * size ** -0.5 / 20)
        seen = (ids[:, :, None] == ids[:, None]) & (places[:, None] >= places)
        shares = jax.nn.softmax(jnp.where(seen[:, None], scores, -1e30))
        return jnp.einsum("bhqk,bkhd->bqhd", shares, v)
    x = f32(batch, length, heads, size)
    return grad_of(attend, 4), x, x, x, x, f32(2 * far + 1, size, scale=0.5), ints(6, batch, length, in_order=True)


# Decode steps.

@module("decode_3_tokens_ring_b7_bf16", "decode",
        {"batch": 7, "tokens": 3, "width": 1344, "heads": 21, "kv_heads": 7, "window": 1000},
        {"batch": 3, "tokens": 3, "width": 24, "heads": 6, "kv_heads": 2, "window": 11}, tolerance=2,
        donated={2: 1, 3: 2})
def _(batch, tokens, width, heads, kv_heads, window):
    """Three tokens of each sequence go to its ring at once, past its end too."""
    size, each = width // heads, heads // kv_heads

    def decode(x, p, keys, values, at):
        h, places = rms(x, p["g"]), at[:, None] + jnp.arange(tokens)
        q = (h @ p["q"]).reshape(batch, tokens, kv_heads, each, size)
        k, v = ((h @ p[n]).reshape(batch, tokens, kv_heads, size) for n in "kv")
        rows = jnp.arange(batch)[:, None]
        keys = keys.at[rows, places % window].set(k)
        values = values.at[rows, places % window].set(v)
        last = places[:, -1:]
        held = last - (last - jnp.arange(window)) % window
        seen = (held >= 0)[:, None] & (held[:, None] <= places[:, :, None])
        scores = scores_of("bqhgd,bkhd->bhgqk", q, keys, size ** -0.5)
        shares = softmax(jnp.where(seen[:, None, None], scores, -1e30), BF16)
        return x + jnp.einsum("bhgqk,bkhd->bqhgd", shares, values).reshape(x.shape) @ p["o"], keys, values
    kv, held = kv_heads * size, bf16(batch, window, kv_heads, size)
    p = {"g": around_one(BF16, width), "q": weights(BF16, width, width), "k": weights(BF16, width, kv),
         "v": weights(BF16, width, kv), "o": weights(BF16, width, width)}
    return decode, bf16(batch, tokens, width), p, held, held, ints(2 * window, batch, low=window // 2)


@module("decode_cross_b11_f16", "decode",
        {"batch": 11, "width": 792, "heads": 12, "cache": 224, "keys": 750, "inner": 3168, "vocabulary": 50257},
        {"batch": 3, "width": 24, "heads": 3, "cache": 9, "keys": 7, "inner": 20, "vocabulary": 41}, tolerance=3,
        donated={2: 1, 3: 2})
def _(batch, width, heads, cache, keys, inner, vocabulary):
    """Whisper's decoder: a layer of self and cross attention, an MLP, logits of a tied table."""
    size = width // heads

    def attend(q, k, v, seen):
        scores = scores_of("bhd,bshd->bhs", q.reshape(batch, heads, size), k, size ** -0.5)
        shares = softmax(jnp.where(seen, scores, -1e30), F16)
        return jnp.einsum("bhs,bshd->bhd", shares, v).reshape(batch, width)

    def decode(tokens, p, held_k, held_v, cross_k, cross_v, at):
        x = p["table"][tokens] + p["places"][at]
        h = layer(x, *p["n1"])
        held_k, held_v = (lax.dynamic_update_slice(held, (h @ p[n]).reshape(batch, 1, heads, size), (0, at, 0, 0))
                          for held, n in ((held_k, "k"), (held_v, "v")))
        x = x + attend(h @ p["q"], held_k, held_v, jnp.arange(cache) <= at) @ p["o"]
        x = x + attend(layer(x, *p["n2"]) @ p["q2"], cross_k, cross_v, True) @ p["o2"]
        x = x + jax.nn.gelu(layer(x, *p["n3"]) @ p["up"]) @ p["down"]
        return jnp.einsum("bd,vd->bv", layer(x, *p["n4"]), p["table"], preferred_element_type=F32), held_k, held_v
    norm, square = [around_one(F16, width), f16(width, scale=0.1)], weights(F16, width, width)
    p = {**{n: square for n in ("q", "k", "v", "o", "q2", "o2")}, **{f"n{i}": norm for i in range(1, 5)},
         "table": f16(vocabulary, width, scale=width ** -0.5), "places": f16(cache, width, scale=0.05),
         "up": weights(F16, width, inner), "down": weights(F16, inner, width)}
    held, cross = f16(batch, cache, heads, size), f16(batch, keys, heads, size)
    return decode, ints(vocabulary, batch), p, held, held, cross, cross, ints(cache, low=cache // 2)


@module("decode_delta_state_b9_bf16", "decode",
        {"batch": 9, "width": 1200, "heads": 10, "k_size": 96, "v_size": 120, "taps": 4},
        {"batch": 3, "width": 12, "heads": 2, "k_size": 4, "v_size": 6, "taps": 3}, tolerance=3, donated={2: 1, 3: 2})
def _(batch, width, heads, k_size, v_size, taps):
    """Gated DeltaNet: a short convolution over kept inputs, a state of each head decays and is corrected."""
    keys, values = heads * k_size, heads * v_size

    def unit(a):
        return a * lax.rsqrt(jnp.square(a).sum(-1, keepdims=True) + 1e-6)

    def decode(x, p, kept, state):
        h = rms(x, p["g"])
        kept = jnp.concatenate([kept[:, 1:], (h @ p["qkv"])[:, None]], 1)
        mixed = jax.nn.silu((kept.astype(F32) * p["taps"]).sum(1))
        q, k, v = jnp.split(mixed, [keys, 2 * keys], -1)
        q, k = unit(q.reshape(batch, heads, k_size)), unit(k.reshape(batch, heads, k_size))
        strength = jax.nn.sigmoid((h @ p["beta"]).astype(F32))
        decay = jnp.exp(-jax.nn.softplus((h @ p["a"]).astype(F32) + p["shift"]) * jnp.exp(p["log_a"]))
        state = state * decay[..., None, None]
        wrong = v.reshape(batch, heads, v_size) - jnp.einsum("bhkv,bhk->bhv", state, k)
        state = state + k[..., None] * (strength[..., None] * wrong)[:, :, None]
        out = rms(jnp.einsum("bhkv,bhk->bhv", state, q), p["gv"]).reshape(batch, values)
        return x + (out.astype(BF16) * jax.nn.silu(h @ p["gate"])) @ p["o"], kept, state
    channels = 2 * keys + values
    p = {"g": around_one(BF16, width), "gv": around_one(F32, v_size), "qkv": weights(BF16, width, channels),
         "taps": f32(taps, channels, scale=0.5), "beta": weights(BF16, width, heads), "a": weights(BF16, width, heads),
         "shift": f32(heads), "log_a": f32(heads, scale=0.3), "gate": weights(BF16, width, values),
         "o": weights(BF16, values, width)}
    return decode, bf16(batch, width), p, bf16(batch, taps, channels), f32(batch, heads, k_size, v_size, scale=0.3)


# Norms.

@module("rms_axes_1_and_3_grad_bf16", "norms", {"shape": (24, 77, 150, 33)}, {"shape": (2, 5, 3, 7)}, tolerance=2)
def _(shape):
    """Root mean squares over two axes with another between them."""
    def norm(x, gain):
        wide = x.astype(F32)
        return (wide * lax.rsqrt(jnp.square(wide).mean((1, 3), keepdims=True) + 1e-6) * gain).astype(BF16)
    return backward(norm), bf16(*shape), bf16(*shape), around_one(F32, shape[1], 1, shape[3])


@module("global_response_norm_grad_f32", "norms", {"images": 6, "size": 45, "channels": 333},
        {"images": 2, "size": 4, "channels": 5})
def _(images, size, channels):
    """ConvNeXt V2's: norms over the image, divided by their mean over channels; after a GELU, before a product."""
    def norm(x, gain, bias, w):
        x = jax.nn.gelu(x)
        over = jnp.sqrt(jnp.square(x).sum((1, 2), keepdims=True) + 1e-6)
        return (gain * (x * (over / (over.mean(-1, keepdims=True) + 1e-6))) + bias + x) @ w
    to = channels // 3
    return (backward(norm), f32(images, size, size, to), f32(images, size, size, channels), f32(channels),
            f32(channels), weights(F32, channels, to))


@module("batch_renorm_grad_f32", "norms", {"images": 20, "channels": 201, "size": 29},
        {"images": 3, "channels": 5, "size": 4})
def _(images, channels, size):
    """NCHW; clipped corrections towards running moments have no gradients; the moments are updated."""
    def norm(x, gain, bias, mean, deviation):
        own = x.mean((0, 2, 3))
        spread = jnp.sqrt(x.var((0, 2, 3)) + 1e-3)
        r = lax.stop_gradient(jnp.clip(spread / deviation, 1 / 3, 3))
        d = lax.stop_gradient(jnp.clip((own - mean) / deviation, -5, 5))

        def wide(a):
            return a[:, None, None]
        made = (x - wide(own)) / wide(spread) * wide(r) + wide(d)
        return jax.nn.relu6(made * wide(gain) + wide(bias)), (0.99 * mean + 0.01 * own,
                                                              0.99 * deviation + 0.01 * spread)

    def gradients(cotangent, x, gain, bias, *running):
        _, pull, made = jax.vjp(lambda *some: norm(*some, *running), x, gain, bias, has_aux=True)
        return pull(cotangent), made
    x = f32(images, channels, size, size)
    return (gradients, x, x, around_one(F32, channels), f32(channels), f32(channels, scale=0.1),
            around_one(F32, channels))


@module("film_groups_ncl_grad_f16", "norms", {"batch": 5, "channels": 231, "length": 1111, "groups": 11},
        {"batch": 2, "channels": 6, "length": 5, "groups": 3}, tolerance=3)
def _(batch, channels, length, groups):
    """Groups of 21 channels before places, then a scale and a shift of each batch and channel."""
    def norm(x, scale, shift):
        wide = x.astype(F32).reshape(batch, groups, -1)
        wide = (wide - wide.mean(-1, keepdims=True)) * lax.rsqrt(wide.var(-1, keepdims=True) + 1e-5)
        wide = wide.reshape(x.shape) * (1 + scale[..., None]) + shift[..., None]
        return jax.nn.silu(wide).astype(F16)
    x = f16(batch, channels, length)
    return backward(norm), x, x, f32(batch, channels, scale=0.3), f32(batch, channels)


# Losses.

@module("focal_smoothed_91_grad_bf16", "losses", {"rows": 40001, "classes": 91}, {"rows": 11, "classes": 5},
        tolerance=2)
def _(rows, classes):
    """Focal weights of smoothed labels, weights of classes, ignored rows, divided by how many count."""
    def loss(logits, weight, labels):
        logs = jax.nn.log_softmax(logits.astype(F32))
        real = labels >= 0
        target = jax.nn.one_hot(labels, classes) * 0.9 + 0.1 / classes
        each = -(target * weight * (1 - jnp.exp(logs)) ** 2 * logs).sum(-1)
        return jnp.where(real, each, 0).sum() / jnp.maximum(real.sum(), 1) * rows ** 0.5
    return (jax.value_and_grad(loss, (0, 1)), bf16(rows, classes), around_one(F32, classes),
            ints(classes, rows, low=-1))


@module("jensen_shannon_50257_grad_bf16", "losses", {"rows": 600, "classes": 50257}, {"rows": 7, "classes": 31},
        tolerance=3)
def _(rows, classes):
    """Student and teacher at temperature 2.5 against their mean, and the student's own loss."""
    def loss(student, teacher, labels):
        student, teacher = student.astype(F32), teacher.astype(F32)
        a, b = (jax.nn.log_softmax(x / 2.5) for x in (student, teacher))
        middle = jnp.logaddexp(a, b) - jnp.log(2.0)
        apart = (jnp.exp(a) * (a - middle) + jnp.exp(b) * (b - middle)).sum(-1) / 2
        own = jnp.take_along_axis(jax.nn.log_softmax(student), labels[:, None], -1)[:, 0]
        return (6.25 * apart - 0.1 * own).sum()
    return (jax.value_and_grad(loss), bf16(rows, classes, scale=2.0), bf16(rows, classes, scale=2.0),
            ints(classes, rows))


@module("vocabulary_chunks_50257_grad_f32", "losses", {"rows": 500, "width": 300, "classes": 50257, "chunks": 8},
        {"rows": 7, "width": 5, "classes": 29, "chunks": 3})
def _(rows, width, classes, chunks):
    """A scan over chunks of the padded vocabulary keeps maximum, sum and the label's logit; rematerialised."""
    each = -(-classes // chunks)

    def loss(x, table, labels):
        parts = jnp.pad(table, ((0, each * chunks - classes), (0, 0))).reshape(chunks, each, width)

        @jax.checkpoint
        def chunk(state, given):
            most, total, own = state
            part, start = given
            at = start + jnp.arange(each)
            logits = jnp.where(at < classes, x @ part.T, -1e30)
            top = jnp.maximum(most, lax.stop_gradient(logits).max(-1))
            total = total * jnp.exp(most - top) + jnp.exp(logits - top[:, None]).sum(-1)
            return (top, total, own + jnp.where(at == labels[:, None], logits, 0).sum(-1)), None
        start = (jnp.full(rows, -1e30), jnp.zeros(rows), jnp.zeros(rows))
        (most, total, own), _ = lax.scan(chunk, start, (parts, jnp.arange(chunks) * each))
        z = most + jnp.log(total)
        return (z - own + 1e-3 * z * z).mean()
    return (jax.value_and_grad(loss, (0, 1)), f32(rows, width), f32(classes, width, scale=width ** -0.5),
            ints(classes, rows))


@module("crf_nll_37_tags_grad_f32", "losses", {"batch": 21, "length": 120, "tags": 37},
        {"batch": 3, "length": 6, "tags": 4})
def _(batch, length, tags):
    """A linear chain with lengths: a scan of logsumexp over tags, and the path's own score."""
    def loss(logits, moves, start, labels, lengths):
        real = jnp.arange(length) < lengths[:, None]

        def step(alpha, given):
            emit, now = given
            new = jax.nn.logsumexp(alpha[:, :, None] + moves, 1) + emit
            return jnp.where(now[:, None], new, alpha), None
        alpha, _ = lax.scan(step, start + logits[:, 0], (logits[:, 1:].swapaxes(0, 1), real[:, 1:].T))
        path = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0] * real
        steps = moves[labels[:, :-1], labels[:, 1:]] * real[:, 1:]
        return (jax.nn.logsumexp(alpha, -1) - path.sum(1) - steps.sum(1) - start[labels[:, 0]]).mean()
    return (jax.value_and_grad(loss, (0, 1, 2)), f32(batch, length, tags), f32(tags, tags), f32(tags),
            ints(tags, batch, length), ints(length + 1, batch, low=length // 3))


# Optimizers.

def leaves(type_, scale, layers, width, inner, classes):
    one = [Arg((width, inner), type_, scale), Arg((inner,), type_, scale), Arg((inner, width), type_, scale)]
    return {"layers": [one] * layers, "mix": Arg((3, 3, width // 3, inner), type_, scale),
            "table": Arg((classes, width), type_, scale), "gains": Arg((layers, width), type_, scale)}


SIZES, SMALL_SIZES = ({"layers": 4, "width": 333, "inner": 1000, "classes": 11003},
                      {"layers": 2, "width": 6, "inner": 5, "classes": 11})


def unzip(like, made, count):
    return [jax.tree.map(lambda _, m: m[i], like, made) for i in range(count)]


@module("adan_clipped_f32", "optimizers", SIZES, SMALL_SIZES)
def _(**sizes):
    """Moments of gradients, of their differences and of squares of both, after a clip by the norm of all."""
    p = leaves(F32, 0.1, **sizes)

    def step(p, g, before, m, d, n, count):
        norm = jnp.sqrt(sum(jnp.square(a).sum() for a in jax.tree.leaves(g)))
        factor, t = jnp.minimum(1.0, 5.0 / (norm + 1e-6)), count.astype(F32)

        def one(p, g, before, m, d, n):
            g = g * factor
            m, d = 0.98 * m + 0.02 * g, 0.92 * d + 0.08 * (g - before)
            n = 0.99 * n + 0.01 * jnp.square(g + 0.92 * (g - before))
            update = (m / (1 - 0.98 ** t) + 0.92 * d / (1 - 0.92 ** t)) / (jnp.sqrt(n / (1 - 0.99 ** t)) + 1e-3)
            return (p - 1e-2 * update) / (1 + 1e-2 * 0.02), g, m, d, n
        return unzip(p, jax.tree.map(one, p, g, before, m, d, n), 5), norm
    return step, p, p, p, p, p, positive(p, 0.01, 0.1), ints(900, low=20)


@module("came_factored_bf16", "optimizers", SIZES, SMALL_SIZES, tolerance=2)
def _(**sizes):
    """CAME: squares of rows and columns of the last two axes, and those of how far updates are from their mean."""
    p = leaves(BF16, 0.1, **sizes)

    def factored(square, row, column):
        row, column = 0.9 * row + 0.1 * square.mean(-1), 0.9 * column + 0.1 * square.mean(-2)
        share = lax.rsqrt(row / row.mean(-1, keepdims=True))
        return row, column, share[..., None] * lax.rsqrt(column)[..., None, :]

    def one(p, g, m, row, column, row2, column2):
        g = g.astype(F32)
        if p.ndim < 2:
            m = 0.9 * m + 0.1 * g
            return (p.astype(F32) - 1e-2 * m).astype(BF16), m, row, column, row2, column2
        row, column, scale = factored(g * g + 1e-6, row, column)
        update = g * scale
        update = update / jnp.maximum(1.0, jnp.sqrt(jnp.square(update).mean()))
        m = 0.9 * m + 0.1 * update
        row2, column2, scale = factored(jnp.square(update - m) + 1e-6, row2, column2)
        return (p.astype(F32) * 0.9995 - 1e-3 * m * scale).astype(BF16), m, row, column, row2, column2
    moment = jax.tree.map(lambda a: Arg(a.shape, F32, 0.1), p)
    row = jax.tree.map(lambda a: Arg(a.shape[:-1], F32, low=0.01, high=0.1), p)
    column = jax.tree.map(lambda a: Arg(a.shape[:-2] + a.shape[-1:], F32, low=0.01, high=0.1), p)
    return lambda p, *rest: unzip(p, jax.tree.map(one, p, *rest), 6), p, p, moment, row, column, row, column


@module("soap_rotated_f32", "optimizers", {"count": 3, "rows": 600, "columns": 410},
        {"count": 2, "rows": 7, "columns": 5}, tolerance=2)
def _(count, rows, columns):
    """Adam in the bases of rows and columns, which take a step of the power iteration, made orthogonal by products."""
    def turned(statistics, basis):
        q = statistics @ basis
        q = q / jnp.sqrt(jnp.square(q).sum((1, 2), keepdims=True))
        for _ in range(4):
            q = 1.5 * q - 0.5 * q @ (q.swapaxes(1, 2) @ q)
        return q

    def step(p, g, m, v, left, right, by_row, by_column):
        left = 0.95 * left + 0.05 * g @ g.swapaxes(1, 2)
        right = 0.95 * right + 0.05 * g.swapaxes(1, 2) @ g
        m = 0.9 * m + 0.1 * g
        g2, m2 = (jnp.einsum("nij,nik,nkl->njl", by_row, a, by_column) for a in (g, m))
        v = 0.95 * v + 0.05 * g2 * g2
        update = jnp.einsum("nij,njk,nlk->nil", by_row, m2 / (jnp.sqrt(v) + 1e-3), by_column)
        return p - 3e-3 * (update + 0.01 * p), m, v, left, right, turned(left, by_row), turned(right, by_column)
    x, v = f32(count, rows, columns), Arg((count, rows, columns), F32, low=0.1, high=1)
    a, b = weights(F32, count, rows, rows), weights(F32, count, columns, columns)
    return step, x, x, x, v, a, b, a, b
