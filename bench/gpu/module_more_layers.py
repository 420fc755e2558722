"""More modules of modules.py, by an author who had not read the compiler: blocks, decode steps, attention, norms,
experts, convolutions, pooling and quantised products. module_more_steps.py has the other families."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F8, F32, I8, Arg, around_one, backward, bf16, f32, ints, module, rotary, weights
from module_odd_blocks import F16, f16, grad_of, layer, rms, softmax

NHWC = ("NHWC", "HWIO", "NHWC")


def gated(x, p):
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def gated_weights(type_, width, inner):
    return {"gate": weights(type_, width, inner), "up": weights(type_, width, inner),
            "down": weights(type_, inner, width)}


def turned(x, places, parts=None):
    """Rotary of halves of the first `parts` of [batch, heads, size] at the places [batch]."""
    parts = parts or x.shape[-1]
    angles = places[:, None] * 10000.0 ** (-jnp.arange(0, parts, 2) / parts)
    cos, sin = jnp.cos(angles)[:, None].astype(x.dtype), jnp.sin(angles)[:, None].astype(x.dtype)
    a, b = jnp.split(x[..., :parts], 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., parts:]], -1)


# Blocks of transformers.

@module("olmo2_post_norm_grad_bf16", "transformer",
        {"batch": 1, "length": 1279, "width": 2048, "heads": 16, "inner": 5504},
        {"batch": 2, "length": 7, "width": 24, "heads": 3, "inner": 20}, tolerance=3)
def _(batch, length, width, heads, inner):
    """Norms after attention and MLP, before the residual; norms of all queries and keys at once."""
    size = width // heads

    def block(x, p):
        split = (batch, length, heads, size)
        q = rotary(rms(x @ p["q"], p["gq"]).reshape(split), jnp.arange(length))
        k = rotary(rms(x @ p["k"], p["gk"]).reshape(split), jnp.arange(length))
        mixed = jax.nn.dot_product_attention(q, k, (x @ p["v"]).reshape(split), is_causal=True)
        x = x + rms(mixed.reshape(x.shape) @ p["o"], p["g1"])
        return x + rms(gated(x, p), p["g2"])
    x, square, gain = bf16(batch, length, width), weights(BF16, width, width), around_one(BF16, width)
    p = {"q": square, "k": square, "v": square, "o": square, "gq": gain, "gk": gain, "g1": gain, "g2": gain,
         **gated_weights(BF16, width, inner)}
    return backward(block), x, x, p


@module("cohere_parallel_f16", "transformer",
        {"batch": 3, "length": 777, "width": 2560, "heads": 32, "kv_heads": 8, "inner": 6912},
        {"batch": 2, "length": 7, "width": 24, "heads": 6, "kv_heads": 2, "inner": 20}, tolerance=2)
def _(batch, length, width, heads, kv_heads, inner):
    """A layer norm without bias feeds attention and MLP, rotary of neighbours, heads of 80."""
    size = width // heads

    def neighbours(a):
        angles = jnp.arange(length)[:, None] * 75000.0 ** (-jnp.arange(0, size, 2) / size)
        cos, sin = (jnp.repeat(f(angles), 2, -1)[:, None].astype(F16) for f in (jnp.cos, jnp.sin))
        return a * cos + jnp.stack([-a[..., 1::2], a[..., ::2]], -1).reshape(a.shape) * sin

    def block(x, p):
        wide = x.astype(F32)
        h = (wide - wide.mean(-1, keepdims=True)) / jnp.sqrt(wide.var(-1, keepdims=True) + 1e-5)
        h = (h * p["g"]).astype(F16)
        q = neighbours((h @ p["q"]).reshape(batch, length, heads, size))
        k = neighbours((h @ p["k"]).reshape(batch, length, kv_heads, size))
        v = (h @ p["v"]).reshape(batch, length, kv_heads, size)
        q = q.reshape(batch, length, kv_heads, -1, size)
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k, preferred_element_type=F32) * size ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e30)
        mixed = jnp.einsum("bhgqk,bkhd->bqhgd", softmax(scores, F16), v).reshape(x.shape)
        return x + mixed @ p["o"] + gated(h, p)
    square, kv = weights(F16, width, width), weights(F16, width, kv_heads * size)
    p = {"g": around_one(F32, width), "q": square, "k": kv, "v": kv, "o": square, **gated_weights(F16, width, inner)}
    return block, f16(batch, length, width), p


@module("deepseek_shared_experts_grad_bf16", "moe",
        {"tokens": 1500, "width": 1024, "experts": 24, "groups": 4, "inner": 352, "shared": 704, "k": 6},
        {"tokens": 9, "width": 16, "experts": 8, "groups": 4, "inner": 12, "shared": 10, "k": 3}, tolerance=4)
def _(tokens, width, experts, groups, inner, shared, k):
    """Sigmoid scores with a bias for the choice, the best 2 of 4 groups, 6 experts by sort, a shared expert."""
    def layer_(x, router, p, common, bias):
        h = rms(x)
        scores = jax.nn.sigmoid(h.astype(F32) @ router)
        choice = lax.stop_gradient(scores) + bias
        grouped = choice.reshape(tokens, groups, -1)
        best = lax.top_k(lax.top_k(grouped, 2)[0].sum(-1), groups // 2)[1]
        open_ = jax.nn.one_hot(best, groups).sum(1)[:, :, None] > 0
        chosen = lax.top_k(jnp.where(open_, grouped, -1.0).reshape(tokens, experts), k)[1]
        share = jnp.take_along_axis(scores, chosen, -1)
        share = 2.5 * share / share.sum(-1, keepdims=True)
        order = jnp.argsort(chosen.reshape(-1))
        sizes = jnp.bincount(chosen.reshape(-1), length=experts)
        rows = h[order // k]
        made = jax.nn.silu(lax.ragged_dot(rows, p["gate"], sizes)) * lax.ragged_dot(rows, p["up"], sizes)
        made = lax.ragged_dot(made, p["down"], sizes) * share.reshape(-1)[order][:, None].astype(BF16)
        routed = jnp.zeros((tokens, width), F32).at[order // k].add(made.astype(F32)).astype(BF16)
        return x + routed + gated(h, common)
    p = {"gate": weights(BF16, experts, width, inner), "up": weights(BF16, experts, width, inner),
         "down": weights(BF16, experts, inner, width)}
    x = bf16(tokens, width)
    return (grad_of(layer_, 4), x, x, weights(F32, width, experts), p, gated_weights(BF16, width, shared),
            f32(experts, scale=0.05))


@module("vit_registers_scale_grad_bf16", "transformer",
        {"batch": 7, "patches": 257, "registers": 4, "width": 1152, "heads": 16, "inner": 4304},
        {"batch": 2, "patches": 5, "registers": 2, "width": 24, "heads": 3, "inner": 20}, tolerance=3)
def _(batch, patches, registers, width, heads, inner):
    """Learned tokens before the patches, heads of 72 that see all, layer scale of each residual."""
    def block(x, p):
        h = jnp.concatenate([jnp.broadcast_to(p["tokens"], (batch, registers, width)), x], 1)
        q, k, v = jnp.split(layer(h, *p["n1"]) @ p["qkv"] + p["b"], 3, -1)
        q, k, v = (a.reshape(batch, patches + registers, heads, -1) for a in (q, k, v))
        mixed = jax.nn.dot_product_attention(q, k, v).reshape(h.shape)
        h = h + p["s1"] * (mixed @ p["o"])
        h = h + p["s2"] * (jax.nn.gelu(layer(h, *p["n2"]) @ p["up"]) @ p["down"])
        return h[:, registers:]
    x, norm = bf16(batch, patches, width), [around_one(BF16, width), bf16(width, scale=0.1)]
    p = {"tokens": bf16(registers, width), "n1": norm, "n2": norm, "qkv": weights(BF16, width, 3 * width),
         "b": bf16(3 * width, scale=0.1), "o": weights(BF16, width, width), "s1": bf16(width, scale=0.3),
         "s2": bf16(width, scale=0.3), "up": weights(BF16, width, inner), "down": weights(BF16, inner, width)}
    return backward(block), x, x, p


# Decode steps.

@module("decode_gemma2_pairs_b2_bf16", "decode",
        {"batch": 2, "layers": 4, "width": 2304, "heads": 8, "kv_heads": 4, "size": 256, "cache": 2048,
         "window": 1024, "inner": 4608},
        {"batch": 2, "layers": 2, "width": 24, "heads": 4, "kv_heads": 2, "size": 6, "cache": 13, "window": 5,
         "inner": 20}, tolerance=3, donated={2: 1, 3: 2})
def _(batch, layers, width, heads, kv_heads, size, cache, window, inner):
    """A scan over layers, of which every other one sees a window only; soft caps, four norms a layer."""
    def one(at, x, given):
        p, keys, values, local = given
        h = rms(x, p["g1"])
        q = turned((h @ p["q"]).reshape(batch, heads, size), at).reshape(batch, kv_heads, -1, size)
        k = turned((h @ p["k"]).reshape(batch, kv_heads, size), at)
        rows = jnp.arange(batch)
        keys = keys.at[rows, at].set(k)
        values = values.at[rows, at].set((h @ p["v"]).reshape(batch, kv_heads, size))
        scores = jnp.einsum("bhgd,bshd->bhgs", q, keys, preferred_element_type=F32) * size ** -0.5
        far = at[:, None] - jnp.arange(cache)
        seen = (far >= 0) & ((far < window) | ~local)
        shares = softmax(jnp.where(seen[:, None, None], 50 * jnp.tanh(scores / 50), -1e30), BF16)
        mixed = jnp.einsum("bhgs,bshd->bhgd", shares, values).reshape(batch, -1)
        x = x + rms(mixed @ p["o"], p["g2"])
        h = rms(x, p["g3"])
        made = (jax.nn.gelu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
        return x + rms(made, p["g4"]), (keys, values)

    def decode(x, p, keys, values, at):
        local = jnp.arange(layers) % 2 == 0
        x, (keys, values) = lax.scan(lambda x, given: one(at, x, given), x, (p, keys, values, local))
        return x, keys, values
    gain, kv = around_one(BF16, layers, width), weights(BF16, layers, width, kv_heads * size)
    p = {"g1": gain, "g2": gain, "g3": gain, "g4": gain, "q": weights(BF16, layers, width, heads * size), "k": kv,
         "v": kv, "o": weights(BF16, layers, heads * size, width), "gate": weights(BF16, layers, width, inner),
         "up": weights(BF16, layers, width, inner), "down": weights(BF16, layers, inner, width)}
    held = bf16(layers, batch, cache, kv_heads, size)
    return decode, bf16(batch, width), p, held, held, ints(cache, batch, low=cache // 2)


@module("decode_phi2_partial_b1_f16", "decode",
        {"width": 2560, "heads": 32, "turned_parts": 32, "cache": 1777, "inner": 10240},
        {"width": 24, "heads": 3, "turned_parts": 4, "cache": 9, "inner": 20}, tolerance=2, donated={2: 1, 3: 2})
def _(width, heads, turned_parts, cache, inner):
    """One token; heads of 80 of which 32 places turn; biases; attention and MLP side by side."""
    size = width // heads

    def decode(x, p, keys, values, at):
        h = layer(x, p["g"], p["b"])
        q, k, v = ((h @ p[n] + p["b" + n]).reshape(1, heads, size) for n in "qkv")
        q, k = (turned(a, at[None], turned_parts) for a in (q, k))
        keys = lax.dynamic_update_index_in_dim(keys, k[0], at, 0)
        values = lax.dynamic_update_index_in_dim(values, v[0], at, 0)
        scores = jnp.einsum("hd,shd->hs", q[0].astype(F32) * size ** -0.5, keys.astype(F32))
        shares = softmax(jnp.where(jnp.arange(cache) <= at, scores, -jnp.inf), F16)
        mixed = jnp.einsum("hs,shd->hd", shares, values).reshape(1, width)
        return x + mixed @ p["o"] + p["bo"] + jax.nn.gelu(h @ p["up"] + p["bu"]) @ p["down"], keys, values
    square, bias, held = weights(F16, width, width), f16(width, scale=0.1), f16(cache, heads, size)
    p = {"g": around_one(F16, width), "b": bias, **{n: square for n in "qkvo"}, **{"b" + n: bias for n in "qkvo"},
         "up": weights(F16, width, inner), "bu": f16(inner, scale=0.1), "down": weights(F16, inner, width)}
    return decode, f16(1, width), p, held, held, ints(cache, low=cache // 2)


@module("decode_mla_absorbed_b6_f16", "decode",
        {"batch": 6, "width": 2048, "heads": 16, "latent": 512, "plain": 128, "turns": 64, "cache": 3000},
        {"batch": 3, "width": 24, "heads": 3, "latent": 10, "plain": 6, "turns": 4, "cache": 11}, tolerance=3,
        donated={2: 1})
def _(batch, width, heads, latent, plain, turns, cache):
    """One cache of latents and turned keys side by side; products of keys and values go to queries and outputs."""
    def decode(x, p, held, at):
        h = rms(x, p["g"])
        q = (h @ p["q"]).reshape(batch, heads, plain + turns)
        q_latent = jnp.einsum("bhd,hdc->bhc", q[..., :plain], p["uk"])
        q = jnp.concatenate([q_latent, turned(q[..., plain:], at)], -1)
        new = h @ p["dkv"]
        new = jnp.concatenate([rms(new[:, :latent], p["gc"]), turned(new[:, None, latent:], at)[:, 0]], -1)
        held = jax.vmap(lambda c, a, i: lax.dynamic_update_index_in_dim(c, a, i, 0))(held, new, at)
        scores = jnp.einsum("bhc,bsc->bhs", q, held, preferred_element_type=F32) * (plain + turns) ** -0.5
        shares = softmax(jnp.where((jnp.arange(cache) <= at[:, None])[:, None], scores, -1e30), F16)
        mixed = jnp.einsum("bhs,bsc->bhc", shares, held[..., :latent])
        return x + jnp.einsum("bhc,hcd->bhd", mixed, p["uv"]).reshape(batch, -1) @ p["o"], held
    p = {"g": around_one(F16, width), "gc": around_one(F16, latent), "q": weights(F16, width, heads * (plain + turns)),
         "uk": weights(F16, heads, plain, latent), "uv": weights(F16, heads, latent, plain),
         "dkv": weights(F16, width, latent + turns), "o": weights(F16, heads * plain, width)}
    return decode, f16(batch, width), p, f16(batch, cache, latent + turns), ints(cache, batch, low=cache // 2)


@module("speculative_accept_b17_f32", "decode", {"batch": 17, "drafts": 4, "classes": 32003},
        {"batch": 5, "drafts": 3, "classes": 37}, mismatch=0.05)
def _(batch, drafts, classes):
    """Drafted tokens are kept by the quotient of shares; the first refused one is drawn from what is left over."""
    def verify(drafted, draft_logits, logits, uniform, last):
        p, q = jax.nn.softmax(logits), jax.nn.softmax(draft_logits)
        p_of, q_of = (jnp.take_along_axis(a[:, :drafts], drafted[..., None], -1)[..., 0] for a in (p, q))
        kept = jnp.cumprod(uniform < jnp.minimum(1, p_of / q_of), -1).sum(-1)
        rest = jnp.concatenate([jnp.maximum(p[:, :drafts] - q, 0), p[:, drafts:]], 1)
        rest = jnp.take_along_axis(rest, kept[:, None, None], 1)[:, 0]
        along = jnp.cumsum(rest, -1)
        drawn = (along < last[:, None] * along[:, -1:]).sum(-1)
        tokens = jnp.where(jnp.arange(drafts + 1) < kept[:, None], jnp.pad(drafted, ((0, 0), (0, 1))), drawn[:, None])
        return jnp.where(jnp.arange(drafts + 1) <= kept[:, None], tokens, -1), kept
    return (verify, ints(classes, batch, drafts), f32(batch, drafts, classes), f32(batch, drafts + 1, classes),
            Arg((batch, drafts), F32, low=0, high=1), Arg((batch,), F32, low=0.05, high=0.95))


# Attention.

@module("attention_prefix_gqa72_grad_bf16", "attention",
        {"batch": 5, "length": 777, "kv_heads": 3, "each": 4, "size": 72},
        {"batch": 2, "length": 9, "kv_heads": 2, "each": 2, "size": 6}, tolerance=3)
def _(batch, length, kv_heads, each, size):
    """Prefixes of their own lengths are seen by all places; a padded end is not."""
    def attend(q, k, v, prefix, lengths):
        places = jnp.arange(length)
        seen = (places[:, None] >= places) | (places < prefix[:, None, None])
        seen = seen & (places < lengths[:, None, None])
        return jax.nn.dot_product_attention(q, k, v, mask=seen[:, None])
    q, k = bf16(batch, length, kv_heads * each, size), bf16(batch, length, kv_heads, size)
    return (grad_of(attend, 3), q, q, k, k, ints(length // 2, batch, low=1), ints(length, batch, low=length // 2))


@module("attention_t5_bias_80_grad_f16", "attention",
        {"batch": 3, "queries": 640, "keys": 899, "heads": 11, "size": 80, "buckets": 32},
        {"batch": 2, "queries": 5, "keys": 7, "heads": 2, "size": 4, "buckets": 8}, tolerance=3)
def _(batch, queries, keys, heads, size, buckets):
    """Causal buckets of a table, learned with the rest; keys before the queries too."""
    def attend(q, k, v, table):
        far = jnp.maximum(jnp.arange(queries)[:, None] + keys - queries - jnp.arange(keys), 0)
        exact = buckets // 2
        more = exact + jnp.floor(jnp.log2(jnp.maximum(far, 1) / exact + 1e-4) / 4 * exact).astype(jnp.int32)
        bias = table[jnp.where(far < exact, far, jnp.minimum(more, buckets - 1))].transpose(2, 0, 1)
        seen = jnp.arange(queries)[:, None] + keys - queries >= jnp.arange(keys)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32) * size ** -0.5 + bias
        return jnp.einsum("bhqk,bkhd->bqhd", softmax(jnp.where(seen, scores, -jnp.inf), F16), v)
    q, k = f16(batch, queries, heads, size), f16(batch, keys, heads, size)
    return backward(attend), q, q, k, k, f32(buckets, heads)


@module("attention_query_chunks_96_bf16", "attention",
        {"chunks": 6, "chunk": 256, "heads": 24, "kv_heads": 8, "size": 96, "window": 500},
        {"chunks": 3, "chunk": 4, "heads": 4, "kv_heads": 2, "size": 6, "window": 5}, tolerance=2)
def _(chunks, chunk, heads, kv_heads, size, window):
    """lax.map over chunks of queries, as one writes to spare memory; a window and a soft cap."""
    def attend(q, k, v):
        def one(given):
            i, q = given
            far = i * chunk + jnp.arange(chunk)[:, None] - jnp.arange(chunks * chunk)
            scores = jnp.einsum("qhgd,khd->hgqk", q, k, preferred_element_type=F32) * size ** -0.5
            scores = jnp.where((far >= 0) & (far < window), 30 * jnp.tanh(scores / 30), -1e30)
            return jnp.einsum("hgqk,khd->qhgd", softmax(scores, BF16), v)
        parts = q.reshape(chunks, chunk, kv_heads, heads // kv_heads, size)
        return lax.map(one, (jnp.arange(chunks), parts)).reshape(q.shape)
    k = bf16(chunks * chunk, kv_heads, size)
    return attend, bf16(chunks * chunk, heads, size), k, k


@module("attention_online_blocks_f32", "attention",
        {"batch": 3, "blocks": 7, "block": 128, "heads": 10, "size": 48},
        {"batch": 2, "blocks": 3, "block": 4, "heads": 2, "size": 6})
def _(batch, blocks, block, heads, size):
    """A scan over blocks of keys with a running greatest score and sum; packed segments; ALiBi."""
    length = blocks * block

    def attend(q, k, v, ids):
        slopes = 2.0 ** (-8 * jnp.arange(1, heads + 1) / heads)[:, None, None]

        def step(state, i):
            top, total, out = state
            kb, vb = (lax.dynamic_slice_in_dim(a, i * block, block, 1) for a in (k, v))
            idb = lax.dynamic_slice_in_dim(ids, i * block, block, 1)
            far = jnp.arange(length)[:, None] - i * block - jnp.arange(block)
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, kb) * size ** -0.5 - slopes * far
            seen = (far >= 0) & (ids[:, :, None] == idb[:, None])
            scores = jnp.where(seen[:, None], scores, -1e30)
            new = jnp.maximum(top, scores.max(-1))
            e = jnp.where(seen[:, None], jnp.exp(scores - new[..., None]), 0)
            scale = jnp.exp(top - new)
            out = out * scale[..., None] + jnp.einsum("bhqk,bkhd->bhqd", e, vb)
            return (new, total * scale + e.sum(-1), out), None
        start = (jnp.full((batch, heads, length), -1e30), jnp.zeros((batch, heads, length)),
                 jnp.zeros((batch, heads, length, size)))
        (top, total, out), _ = lax.scan(step, start, jnp.arange(blocks))
        return jnp.swapaxes(out / total[..., None], 1, 2), top + jnp.log(total)
    x = f32(batch, length, heads, size)
    return attend, x, x, x, ints(5, batch, length, in_order=True)


# Norms.

@module("power_norm_running_grad_f32", "norms", {"batch": 13, "length": 333, "width": 777},
        {"batch": 2, "length": 3, "width": 5})
def _(batch, length, width):
    """Quadratic means of columns over the batch, mixed with kept ones by their geometric mean; kept ones move."""
    def norm(x, gain, bias, kept):
        square = jnp.square(x).mean((0, 1))
        return x * lax.rsqrt(jnp.sqrt(square * kept) + 1e-5) * gain + bias, 0.9 * kept + 0.1 * square
    x, gain = f32(batch, length, width), around_one(F32, width)
    return (lambda dy, dk, *a: jax.vjp(norm, *a)[1]((dy, dk)), x, f32(width), x, gain, f32(width), gain)


@module("ghost_batch_norm_ncl_grad_f16", "norms", {"ghosts": 4, "each": 11, "channels": 130, "length": 500},
        {"ghosts": 2, "each": 3, "channels": 4, "length": 5}, tolerance=3)
def _(ghosts, each, channels, length):
    """Batch norm of NCL by parts of the batch, each by its own moments, then a leaky ReLU."""
    def norm(x, gain, bias):
        wide = x.reshape(ghosts, each, channels, length).astype(F32)
        normed = (wide - wide.mean((1, 3), keepdims=True)) * lax.rsqrt(wide.var((1, 3), keepdims=True) + 1e-5)
        h = normed.reshape(x.shape) * gain[:, None] + bias[:, None]
        return jnp.where(h > 0, h, 0.1 * h).astype(F16)
    x = f16(ghosts * each, channels, length)
    return backward(norm), x, x, around_one(F32, channels), f32(channels, scale=0.3)


@module("rms_gated_groups_grad_bf16", "norms", {"rows": 3000, "groups": 8, "size": 320},
        {"rows": 7, "groups": 2, "size": 5}, tolerance=2)
def _(rows, groups, size):
    """Mamba-2's norm: a gate first, then RMS of each of 8 groups of 2560 columns."""
    def norm(x, gate, gain):
        h = x.astype(F32) * jax.nn.silu(gate.astype(F32))
        h = h.reshape(rows, groups, size)
        h = h * lax.rsqrt(jnp.square(h).mean(-1, keepdims=True) + 1e-5)
        return (h.reshape(x.shape) * gain).astype(BF16)
    x = bf16(rows, groups * size)
    return backward(norm), x, x, x, around_one(F32, groups * size)


@module("group_norm_ndhwc_grad_bf16", "norms", {"clips": 3, "frames": 9, "size": 33, "channels": 120, "groups": 8},
        {"clips": 2, "frames": 2, "size": 3, "channels": 8, "groups": 2}, tolerance=2)
def _(clips, frames, size, channels, groups):
    """Groups of channels of a clip over time and space, a shift and scale of each clip, SiLU."""
    def norm(x, scale, shift):
        wide = x.astype(F32).reshape(clips, -1, groups, channels // groups)
        wide = (wide - wide.mean((1, 3), keepdims=True)) / jnp.sqrt(wide.var((1, 3), keepdims=True) + 1e-6)
        h = wide.reshape(x.shape).astype(BF16) * (1 + scale)[:, None, None, None] + shift[:, None, None, None]
        return jax.nn.silu(h)
    x, each = bf16(clips, frames, size, size, channels), bf16(clips, channels, scale=0.2)
    return backward(norm), x, x, each, each


# Experts.

@module("moe_gathered_experts_b5_f16", "moe", {"tokens": 5, "width": 2048, "experts": 16, "k": 2, "inner": 1792},
        {"tokens": 3, "width": 12, "experts": 4, "k": 2, "inner": 10}, tolerance=2)
def _(tokens, width, experts, k, inner):
    """A decode step of few tokens gathers the weights of their two experts."""
    def layer_(x, router, gate, up, down):
        logits, chosen = lax.top_k(x.astype(F32) @ router, k)
        share = jax.nn.softmax(logits).astype(F16)
        h = jax.nn.silu(jnp.einsum("td,tkdi->tki", x, gate[chosen])) * jnp.einsum("td,tkdi->tki", x, up[chosen])
        return x + jnp.einsum("tki,tkid,tk->td", h, down[chosen], share)
    w = weights(F16, experts, width, inner)
    return layer_, f16(tokens, width), weights(F32, width, experts), w, w, weights(F16, experts, inner, width)


@module("moe_top1_slots_dropped_f32", "moe", {"tokens": 4096, "width": 512, "experts": 13, "inner": 777, "slots": 300},
        {"tokens": 17, "width": 8, "experts": 3, "inner": 5, "slots": 4})
def _(tokens, width, experts, inner, slots):
    """One expert each by cumulative counts; a scatter to slots drops what is over; a loss for balance."""
    def layer_(x, router, up, down):
        shares = jax.nn.softmax(x @ router)
        which = shares.argmax(-1)
        hot = jax.nn.one_hot(which, experts, dtype=jnp.int32)
        at = ((jnp.cumsum(hot, 0) - 1) * hot).sum(-1)
        held = jnp.zeros((experts, slots, width)).at[which, at].set(x, mode="drop")
        made = jnp.einsum("esi,eid->esd", jax.nn.gelu(jnp.einsum("esd,edi->esi", held, up)), down)
        out = made.at[which, at].get(mode="fill", fill_value=0) * shares.max(-1)[:, None]
        return x + out, experts * (hot.mean(0) * shares.mean(0)).sum(), (at >= slots).sum()
    return (layer_, f32(tokens, width), weights(F32, width, experts), weights(F32, experts, width, inner),
            weights(F32, experts, inner, width))


# Convolutions.

@module("shuffle_unit_grad_f16", "convolutions", {"images": 13, "size": 28, "channels": 240, "groups": 3},
        {"images": 2, "size": 5, "channels": 12, "groups": 3}, tolerance=3)
def _(images, size, channels, groups):
    """A grouped 1 × 1, channels shuffled, a depthwise 3 × 3 dilated by 2, a grouped 1 × 1, the residual."""
    def conv(x, w, count, dilation=1):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", rhs_dilation=(dilation, dilation),
                                        dimension_numbers=NHWC, feature_group_count=count)

    def unit(x, first, gain, depth, last):
        h = jax.nn.relu(rms(conv(x, first, groups), gain))
        h = h.reshape(images, size, size, groups, -1).swapaxes(3, 4).reshape(h.shape)
        return jax.nn.relu(x + conv(conv(h, depth, channels, 2), last, groups))
    x, w = f16(images, size, size, channels), f16(1, 1, channels // groups, channels, scale=(channels / 3) ** -0.5)
    return backward(unit), x, x, w, around_one(F16, channels), f16(3, 3, 1, channels, scale=0.3), w


@module("conv_3d_transposed_grad_f32", "convolutions",
        {"clips": 2, "frames": 6, "size": 17, "inputs": 65, "outputs": 32},
        {"clips": 2, "frames": 2, "size": 3, "inputs": 3, "outputs": 4})
def _(clips, frames, size, inputs, outputs):
    """A transposed 4 × 4 × 4 of stride 2, a norm of each clip's channels, a bias, ELU."""
    def up(x, w, bias):
        h = lax.conv_transpose(x, w, (2, 2, 2), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))
        mean, spread = h.mean((1, 2, 3), keepdims=True), h.var((1, 2, 3), keepdims=True)
        return jax.nn.elu((h - mean) * lax.rsqrt(spread + 1e-5) + bias)
    return (backward(up), f32(clips, 2 * frames, 2 * size, 2 * size, outputs), f32(clips, frames, size, size, inputs),
            f32(4, 4, 4, inputs, outputs, scale=(8 * inputs) ** -0.5), f32(outputs))


@module("whisper_stem_1d_f16", "convolutions", {"batch": 3, "frames": 3000, "mels": 80, "width": 768},
        {"batch": 2, "frames": 10, "mels": 4, "width": 6}, tolerance=2)
def _(batch, frames, mels, width):
    """Two convolutions along time, the second of stride 2, exact GELUs, places added."""
    def stem(x, first, b1, second, b2, places):
        h = jax.nn.gelu(lax.conv(x, first, (1,), "SAME") + b1[:, None], approximate=False)
        h = lax.conv_general_dilated(h, second, (2,), ((1, 1),)) + b2[:, None]
        return jax.nn.gelu(h, approximate=False).transpose(0, 2, 1) + places
    return (stem, f16(batch, mels, frames), f16(width, mels, 3, scale=(3 * mels) ** -0.5), f16(width),
            f16(width, width, 3, scale=(3 * width) ** -0.5), f16(width), f16(frames // 2, width))


@module("tcn_weight_norm_grad_bf16", "convolutions", {"batch": 7, "length": 1279, "channels": 160, "taps": 5},
        {"batch": 2, "length": 11, "channels": 4, "taps": 3}, tolerance=3)
def _(batch, length, channels, taps):
    """Causal convolutions dilated by 1, 4 and 16, whose kernels are directions times lengths, residuals."""
    def net(x, directions, sizes):
        for i, dilation in enumerate((1, 4, 16)):
            w = directions[i].astype(F32)
            w = (w * lax.rsqrt(jnp.square(w).sum((0, 1)) + 1e-6) * sizes[i]).astype(BF16)
            h = lax.conv_general_dilated(x, w, (1,), (((taps - 1) * dilation, 0),), rhs_dilation=(dilation,),
                                         dimension_numbers=("NWC", "WIO", "NWC"))
            x = x + jax.nn.silu(h)
        return x
    x = bf16(batch, length, channels)
    return backward(net), x, x, bf16(3, taps, channels, channels), around_one(F32, 3, channels)


# Pooling.

@module("max_pool_3d_overlapping_grad_f32", "pools", {"clips": 3, "frames": 9, "size": 57, "channels": 48},
        {"clips": 2, "frames": 3, "size": 5, "channels": 3})
def _(clips, frames, size, channels):
    """The greatest of 3 × 3 × 3 of stride 1, 2 and 2, less the mean of the same window."""
    def pool(x):
        window, stride = (1, 3, 3, 3, 1), (1, 1, 2, 2, 1)
        top = lax.reduce_window(x, -jnp.inf, lax.max, window, stride, "SAME")
        return top - lax.reduce_window(x, 0.0, lax.add, window, stride, "SAME") / 27
    half = (size + 1) // 2
    return (backward(pool), f32(clips, frames, half, half, channels), f32(clips, frames, size, size, channels))


@module("roi_align_grad_f32", "pools", {"size": 50, "channels": 256, "boxes": 300, "to": 7},
        {"size": 9, "channels": 4, "boxes": 5, "to": 3})
def _(size, channels, boxes, to):
    """Bilinear reads at 7 × 7 places of each box, gradients to the map and the greatest place's index."""
    def align(x, corner, extent):
        at = corner[:, None] + extent[:, None] * ((jnp.arange(to) + 0.5) / to)[None, :, None]
        low = jnp.clip(jnp.floor(at).astype(jnp.int32), 0, size - 2)
        part = lax.stop_gradient(at - low)
        y, z, fy, fz = low[:, :, None, 0], low[:, None, :, 1], part[:, :, None, 0, None], part[:, None, :, 1, None]
        top = x[y, z] * (1 - fz) + x[y, z + 1] * fz
        return top * (1 - fy) + (x[y + 1, z] * (1 - fz) + x[y + 1, z + 1] * fz) * fy

    def step(dy, x, corner, extent):
        made, back = jax.vjp(lambda x: align(x, corner, extent), x)
        return back(dy)[0], made.reshape(boxes, to * to, channels).argmax(1), made.max((1, 2))
    return (step, f32(boxes, to, to, channels), f32(size, size, channels), Arg((boxes, 2), F32, low=0, high=size / 2),
            Arg((boxes, 2), F32, low=1, high=size / 2))


# Quantised products.

@module("int8_per_token_11008_b33_bf16", "quantised", {"rows": 33, "width": 4096, "inner": 11008},
        {"rows": 3, "width": 24, "inner": 20}, tolerance=2, mismatch=0.02)
def _(rows, width, inner):
    """A gated MLP of int8: scales of rows found at run time, before each product, scales of columns stored."""
    def dot(x, w, scale):
        most = jnp.abs(x).max(-1, keepdims=True).astype(F32) / 127 + 1e-8
        q = jnp.clip(jnp.round(x.astype(F32) / most), -127, 127).astype(I8)
        sums = lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
        return (sums.astype(F32) * most * scale).astype(BF16)

    def mlp(x, up, up_scale, down, down_scale):
        gate, h = jnp.split(dot(x, up, up_scale), 2, -1)
        return x + dot(jax.nn.silu(gate) * h, down, down_scale)
    return (mlp, bf16(rows, width), ints(128, width, 2 * inner, low=-127, dtype=I8),
            Arg((2 * inner,), F32, low=1e-4, high=4e-4), ints(128, inner, width, low=-127, dtype=I8),
            Arg((width,), F32, low=1e-4, high=3e-4))


@module("fp8_delayed_scales_mlp_bf16", "quantised", {"rows": 1279, "width": 3072, "inner": 4096, "kept": 16},
        {"rows": 5, "width": 16, "inner": 24, "kept": 3}, tolerance=3, mismatch=0.01)
def _(rows, width, inner, kept):
    """Scales from a history of greatest magnitudes, which each product moves on; e4m3 on both sides."""
    def dot(x, w, w_scale, history):
        scale = history.max() / 448
        q = jnp.clip(x.astype(F32) / scale, -448, 448).astype(F8)
        new = jnp.roll(history, 1).at[0].set(jnp.abs(x).max().astype(F32))
        return (jnp.dot(q, w, preferred_element_type=F32) * (scale * w_scale)).astype(BF16), new

    def mlp(x, up, down, scales, histories):
        h, one = dot(x, up, scales[0], histories[0])
        out, two = dot(jnp.square(jax.nn.relu(h)), down, scales[1], histories[1])
        return x + out, jnp.stack([one, two])
    return (mlp, bf16(rows, width), Arg((width, inner), F8, 8.0), Arg((inner, width), F8, 8.0),
            Arg((2,), F32, low=0.001, high=0.002), Arg((2, kept), F32, low=3, high=5))


@module("nf4_codebook_b13_bf16", "quantised", {"rows": 13, "inputs": 3072, "outputs": 4096, "block": 64},
        {"rows": 3, "inputs": 16, "outputs": 6, "block": 4}, tolerance=2)
def _(rows, inputs, outputs, block):
    """Two codes a byte of a table of 16, scales of blocks of 64, which are int8 by a scale and a mean themselves."""
    def dense(x, packed, codes, scales, scale, mean):
        both = jnp.stack([packed >> 4, packed & 15], -1).reshape(outputs, inputs // block, block)
        size = scales.astype(F32) * scale + mean
        w = (codes[both] * size[..., None]).reshape(outputs, inputs).astype(BF16)
        return jnp.einsum("ri,oi->ro", x, w, preferred_element_type=F32).astype(BF16)
    return (dense, bf16(rows, inputs), ints(256, outputs, inputs // 2, dtype=jnp.uint8),
            Arg((16,), F32, low=-1, high=1),
            ints(128, outputs, inputs // block, low=-127, dtype=I8), Arg((), F32, low=1e-4, high=2e-4),
            Arg((), F32, low=0.03, high=0.05))
