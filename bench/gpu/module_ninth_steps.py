"""More modules of modules.py by the author of module_ninth_layers.py: steps of decoding, norms, optimizers,
embeddings, segments, scans, sorts, experts, stencils, sampling and spectra."""
import jax
import jax.numpy as jnp
from jax import lax

from module_eighth_steps import of_first
from module_families import (BF16, F32, I32, Arg, around_one, backward, bf16, f32, ints, key, key_of, layer_norm,
                             module, rms_norm, weights)

U8, F16 = jnp.uint8, jnp.float16


# Steps of decoding.

@module("two_bit_cache_recent_window_b9_f16", "decode", {"batch": 9, "heads": 24, "groups": 8, "size": 80,
        "chunks": 36, "chunk": 32}, {"batch": 2, "heads": 4, "groups": 2, "size": 8, "chunks": 2, "chunk": 4},
        tolerance=4, donated={6: 1, 7: 2})
def _(batch, heads, groups, size, chunks, chunk):
    """Old keys of two bits by channel, old values by token, the newest in full in a window that the step writes."""
    def unpacked(packed):
        return jnp.stack([packed >> 2 * i & 3 for i in range(4)], -1).reshape(*packed.shape[:-1], -1)

    def step(qkv, k2, k_scale, v2, v_scale, at, new_k, new_v):
        q, k, v = jnp.split(qkv, [heads, heads + groups], 1)
        new_k, new_v = (lax.dynamic_update_slice(a, b[:, :, None], (0, 0, at, 0)) for a, b in ((new_k, k), (new_v, v)))
        old_k = unpacked(k2).swapaxes(3, 4).astype(F16) * k_scale[0] + k_scale[1]
        old_k = old_k.reshape(batch, groups, chunks * chunk, size)
        old_v = unpacked(v2).astype(F16) * v_scale[0] + v_scale[1]
        q = q.reshape(batch, groups, heads // groups, size)
        old, new = (jnp.einsum("bghd,bgkd->bghk", q, a, preferred_element_type=F32) for a in (old_k, new_k))
        new = jnp.where(jnp.arange(chunk) <= at, new, -1e30)
        share = jax.nn.softmax(jnp.concatenate([old, new], -1) * size ** -0.5).astype(F16)
        past, recent = jnp.split(share, [chunks * chunk], -1)
        out = jnp.einsum("bghk,bgkd->bghd", past, old_v) + jnp.einsum("bghk,bgkd->bghd", recent, new_v)
        return out.reshape(batch, heads * size), new_k, new_v
    window = Arg((batch, groups, chunk, size), F16)
    return (step, Arg((batch, heads + 2 * groups, size), F16),
            ints(256, batch, groups, chunks, size, chunk // 4, dtype=U8),
            Arg((2, batch, groups, chunks, 1, size), F16, 0.6),
            ints(256, batch, groups, chunks * chunk, size // 4, dtype=U8),
            Arg((2, batch, groups, chunks * chunk, 1), F16, 0.6), Arg((), I32, low=0, high=chunk), window, window)


@module("four_codebooks_guided_step_b3_f32", "decode", {"batch": 3, "heads": 16, "size": 64, "length": 753,
        "codes": 2048}, {"batch": 2, "heads": 2, "size": 4, "length": 7, "codes": 9}, tolerance=4, mismatch=0.2,
        donated={1: 3, 2: 4})
def _(batch, heads, size, length, codes):
    """Music: delayed codes of four books summed, pairs with and without a text, guided logits, draws of the best."""
    width, rows = heads * size, 2 * batch

    def step(codes_now, keys, values, at, text, tables, p, head, data):
        x = jnp.take_along_axis(tables, codes_now.T[..., None], 1).sum(0)
        angle = at * 1e4 ** (-jnp.arange(width // 2) / (width // 2))
        x = jnp.concatenate([x + text, x]) + jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])

        def split(a):
            return a.reshape(rows, -1, heads, size).swapaxes(1, 2)
        q, k, v = (split(a) for a in jnp.split(layer_norm(x, *p["norm"][0]) @ p["qkv"], 3, -1))
        keys, values = (lax.dynamic_update_slice_in_dim(a, b, at, 2) for a, b in ((keys, k), (values, v)))
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, keys) * size ** -0.5
        share = jax.nn.softmax(jnp.where(jnp.arange(length) <= at, scores, -jnp.inf))
        x = x + jnp.einsum("bhqk,bhkd->bqhd", share, values).reshape(rows, width) @ p["out"]
        x = x + jax.nn.gelu(layer_norm(x, *p["norm"][1]) @ p["up"]) @ p["down"]
        told, free = jnp.split(jnp.einsum("bw,kwc->bkc", x, head), 2)
        logits = free + 3 * (told - free)
        best, place = lax.top_k(logits, min(250, codes // 2))
        drawn = jax.random.categorical(key_of(data), best)
        new = jnp.take_along_axis(place, drawn[..., None], -1)[..., 0]
        delayed = jnp.where(jnp.arange(4) <= at, new, 0)
        return delayed, logits, jax.nn.logsumexp(logits, -1), keys, values
    p = {"norm": [(around_one(F32, width), f32(width, scale=0.1)) for _ in range(2)],
         "qkv": weights(F32, width, 3 * width), "out": weights(F32, width, width),
         "up": weights(F32, width, 4 * width), "down": weights(F32, 4 * width, width)}
    cache = f32(rows, heads, length, size)
    return (step, ints(codes, batch, 4), cache, cache, Arg((), I32, low=length // 3, high=length),
            f32(batch, width), f32(4, codes, width, scale=0.5), p, weights(F32, 4, width, codes), key())


@module("normed_heads_lengths_b8_4096_bf16", "decode", {"batch": 8, "heads": 32, "groups": 8, "size": 128,
        "length": 2048}, {"batch": 3, "heads": 4, "groups": 2, "size": 4, "length": 9}, tolerance=4,
        donated={6: 1, 7: 2})
def _(batch, heads, groups, size, length):
    """A cached layer at ordinary sizes: norms of heads, rows with lengths of their own, written by a vmapped slice."""
    width = heads * size

    def step(x, gain, wqkv, gain_q, gain_k, out, keys, values, lengths):
        qkv = (rms_norm(x, gain) @ wqkv).reshape(batch, heads + 2 * groups, size)
        q, k, v = jnp.split(qkv, [heads, heads + groups], 1)
        angles = lengths[:, None] * 1e6 ** (-jnp.arange(0, size, 2) / size)
        turn = lax.complex(jnp.cos(angles), jnp.sin(angles))[:, None]

        def turned(a):
            low, high = jnp.split(a.astype(F32), 2, -1)
            a = lax.complex(low, high) * turn
            return jnp.concatenate([a.real, a.imag], -1).astype(BF16)
        q, k = turned(rms_norm(q, gain_q)), turned(rms_norm(k, gain_k))
        write = jax.vmap(lambda cache, new, at: lax.dynamic_update_slice(cache, new[None], (at, 0, 0)))
        keys, values = write(keys, k, lengths), write(values, v, lengths)
        q = q.reshape(batch, groups, heads // groups, size)
        scores = jnp.einsum("bghd,bkgd->bghk", q, keys, preferred_element_type=F32) * size ** -0.5
        seen = jnp.arange(length) <= lengths[:, None]
        share = jax.nn.softmax(scores, where=seen[:, None, None], axis=-1).astype(BF16)
        return x + jnp.einsum("bghk,bkgd->bghd", share, values).reshape(batch, width) @ out, keys, values
    cache = bf16(batch, length, groups, size)
    return (step, bf16(batch, width), around_one(BF16, width), weights(BF16, width, (heads + 2 * groups) * size),
            around_one(BF16, size), around_one(BF16, size), weights(BF16, width, width), cache, cache,
            ints(length, batch, low=length // 4))


# Norms.

@module("erf_in_place_of_norm_grad_bf16", "norms", {"batch": 9, "length": 777, "width": 1280},
        {"batch": 2, "length": 3, "width": 5}, tolerance=3)
def _(batch, length, width):
    """A gain and a bias around erf of a scaled and shifted input, whose scale and shift are scalars; gradients."""
    def squash(x, alpha, shift, gain, bias):
        return (gain * lax.erf(alpha * x.astype(F32) + shift) + bias).astype(BF16)
    x = bf16(batch, length, width)
    return (backward(squash), x, x, Arg((), F32, low=0.3, high=0.7), Arg((), F32, low=-0.2, high=0.2),
            around_one(F32, width), f32(width))


@module("layer_norm_tangents_2048_4096_bf16", "norms", {"rows": 2048, "width": 4096}, {"rows": 5, "width": 7},
        tolerance=3)
def _(rows, width):
    """A layer norm of a sum in forward mode: values and what three directions of the inputs do to them."""
    def run(x, residual, gain, bias, dx, dgain):
        def norm(x, gain):
            return layer_norm(x + residual, gain, bias)
        out, push = jax.linearize(norm, x, gain)
        return out, jax.vmap(lambda d, g: push(d, g))(dx, dgain)
    x, gain = bf16(rows, width), around_one(BF16, width)
    return run, x, x, gain, bf16(width), bf16(3, rows, width), bf16(3, width)


# Optimizers.

@module("two_memories_cautious_tree_bf16", "optimizers", {"width": 2048, "inner": 4096, "layers": 2},
        {"width": 6, "inner": 9, "layers": 2}, tolerance=3, mismatch=1e-3,
        donated={i: i for i in range(4)})
def _(width, inner, layers):
    """A fast and a slow mean of gradients, steps only where signs agree with them, decay of matrices alone, a clip."""
    tree = {"in": (layers, width, inner), "norm": (layers, width), "out": (inner, width), "scale": ()}

    def step(params, fast, slow, square, grads, count):
        norm = jnp.sqrt(sum(jnp.square(g.astype(F32)).sum() for g in jax.tree.leaves(grads)))
        clip = jnp.minimum(1, 1 / (norm + 1e-6))
        t = count.astype(F32) + 1
        alpha, slowness = 5 * jnp.minimum(t / 1000, 1), 1 - 1 / (10 + jnp.minimum(t, 9990))

        def one(p, m, n, v, g):
            g = g.astype(F32) * clip
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            n = (slowness * n + (1 - slowness) * g).astype(BF16)
            update = (m / (1 - 0.9 ** t) + alpha * n) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
            agreed = (update * g > 0).astype(F32)
            update = update * agreed / jnp.maximum(agreed.mean(), 1e-3)
            decay = 0.1 if p.ndim > 1 else 0.0
            return (p - 1e-2 * (update + decay * p)).astype(p.dtype), m, n, v
        every = jax.tree.map(one, params, fast, slow, square, grads)
        return *(jax.tree.map(lambda _, e: e[i], params, every) for i in range(4)), norm, count + 1

    def of(type_, **more):
        return {name: Arg(shape, type_, **more) for name, shape in tree.items()}
    return (step, of(BF16), of(F32, scale=0.1), of(BF16, scale=0.1), of(F32, low=0.1, high=1), of(BF16),
            Arg((), I32, low=5, high=900))


@module("kronecker_whitening_quad_f32", "optimizers", {"shapes": ((768, 1000), (3, 640, 320), (1280,))},
        {"shapes": ((5, 6), (2, 4, 3), (7,))}, tolerance=4)
def _(shapes):
    """Preconditioners of both sides of each matrix, whose steps need products alone, and a diagonal one of vectors."""
    def matrix(g, left, right, mean):
        mean = 0.9 * mean + 0.1 * g
        noise = 1e-4 * jnp.cos(jnp.arange(g.size, dtype=F32)).reshape(g.shape)
        h = left @ (left @ (mean + noise) @ right.T) @ right

        def moved(q, covariance, other):
            size = jnp.abs(covariance).sum(-1).max() + other
            q = q - 0.05 / size * (covariance @ q - other * q)
            return (q + q.T) / 2
        left, right = moved(left, h @ h.T, g.size / g.shape[0]), moved(right, h.T @ h, g.size / g.shape[1])
        update = left @ (left @ mean @ right.T) @ right
        return update * jnp.minimum(1, 1.1 * lax.rsqrt(jnp.square(update).mean() + 1e-12)), left, right, mean

    def vector(g, diagonal, mean):
        mean = 0.9 * mean + 0.1 * g
        h = jnp.square(diagonal * mean)
        diagonal = diagonal - 0.05 / (h.max() + 1) * (h - 1) * diagonal
        return diagonal * diagonal * mean, diagonal, mean

    def step(params, grads, state):
        moved, kept = [], []
        for p, g, s in zip(params, grads, state):
            rule = {1: vector, 2: matrix, 3: jax.vmap(matrix)}[p.ndim]
            update, *new = rule(g, *s)
            moved.append(p - 3e-2 * (update + 0.01 * p))
            kept.append(new)
        return moved, kept

    arrays, states = [f32(*shape) for shape in shapes], []
    for s in shapes:
        sides = [f32(*s[:-2], n, n, scale=n ** -0.5) for n in s[-2:]] if len(s) > 1 else [around_one(F32, *s)]
        states.append((*sides, f32(*s, scale=0.1)))
    return step, arrays, arrays, states


# Embeddings.

@module("vocabulary_in_shards_grad_bf16", "embeddings", {"batch": 2, "length": 1024, "shards": 4, "rows": 12565,
        "width": 1024}, {"batch": 2, "length": 5, "shards": 3, "rows": 7, "width": 4}, tolerance=4)
def _(batch, length, shards, rows, width):
    """Each shard looks up what it holds, zeros elsewhere, and all are summed; scaled, masked spans; gradients."""
    def layer(table, mask_row, ids, spans):
        def one(part, first):
            at = ids - first
            held = (at >= 0) & (at < rows)
            return jnp.where(held[..., None], part[jnp.where(held, at, 0)], 0)
        x = jax.vmap(one)(table, rows * jnp.arange(shards)).astype(F32).sum(0).astype(BF16) * width ** 0.5
        hidden = (jnp.arange(length) // 8 == spans[..., None]).any(1) & (ids % 5 > 0)
        return jnp.where(hidden[..., None], mask_row, x)
    return (of_first(2, layer), bf16(batch, length, width), bf16(shards, rows, width, scale=width ** -0.5), bf16(width),
            ints(shards * rows, batch, length), ints(length // 8 + 1, batch, 9))


@module("patches_at_fractional_places_grad_f32", "embeddings", {"patches": 3001, "pixels": 588, "side": 27,
        "width": 384, "pictures": 9}, {"patches": 11, "pixels": 6, "side": 4, "width": 4, "pictures": 2}, tolerance=4)
def _(patches, pixels, side, width, pictures):
    """Patches of packed pictures of all sizes: bytes by a layer, a learned grid read bilinearly at their places."""
    def layer(w, bias, grid, register, bytes_, place, sizes, picture):
        x = (bytes_.astype(F32) / 255 - 0.5) @ w + bias
        at = (place + 0.5) / sizes[picture].astype(F32) * side - 0.5
        at = jnp.clip(at, 0, side - 1)
        low = jnp.minimum(at.astype(I32), side - 2)
        share = at - low
        for dy in (0, 1):
            for dx in (0, 1):
                weight = jnp.where(dy, share[:, 0], 1 - share[:, 0]) * jnp.where(dx, share[:, 1], 1 - share[:, 1])
                x = x + weight[:, None] * grid[low[:, 0] + dy, low[:, 1] + dx]
        return x + register[picture]
    return (of_first(4, layer), f32(patches, width), weights(F32, pixels, width), f32(width), f32(side, side, width),
            f32(pictures, width), ints(256, patches, pixels, dtype=U8), ints(20, patches, 2),
            ints(41, pictures, 2, low=20), ints(pictures, patches, in_order=True))


# Segments.

@module("four_aggregators_three_scales_grad_f32", "segments", {"nodes": 2777, "edges": 16001, "width": 48},
        {"nodes": 5, "edges": 14, "width": 3}, tolerance=8, mismatch=5e-3)
def _(nodes, edges, width):
    """Means, maxima, minima and deviations of messages, each by powers of logarithms of degrees; gradients."""
    def layer(x, e, w, out, bias, send, receive):
        message = jax.nn.silu(jnp.concatenate([x[send], x[receive], e], -1) @ w)
        degree = jax.ops.segment_sum(jnp.ones(edges), receive, nodes)
        some, count = degree[:, None] > 0, jnp.maximum(degree, 1)[:, None]
        mean = jax.ops.segment_sum(message, receive, nodes) / count
        square = jax.ops.segment_sum(jnp.square(message - mean[receive]), receive, nodes) / count
        most, least = (jnp.where(some, f(message, receive, nodes), 0) for f in (jax.ops.segment_max,
                                                                                jax.ops.segment_min))
        every = jnp.concatenate([mean, most, least, jnp.sqrt(square + 1e-3)], -1)
        log = jnp.log1p(degree)[:, None]
        log = log / log.mean()
        return x + jnp.concatenate([every, every * log, every / jnp.maximum(log, 0.2)], -1) @ out + bias
    return (of_first(5, layer), f32(nodes, width), f32(nodes, width), f32(edges, width), weights(F32, 3 * width, width),
            weights(F32, 12 * width, width), f32(width), ints(nodes, edges), ints(nodes, edges))


@module("ragged_sets_softmax_pooled_65536_bf16", "segments", {"rows": 65536, "sets": 2048, "width": 128, "heads": 4},
        {"rows": 23, "sets": 5, "width": 8, "heads": 2}, tolerance=4)
def _(rows, sets, width, heads):
    """Rows in order of their sets: softmaxes of heads within sets, pooled sums, the best row and size of each."""
    def run(x, seed, value, ids):
        logits = (x @ seed).astype(F32)
        most = jax.ops.segment_max(logits, ids, sets, indices_are_sorted=True)
        weight = jnp.exp(logits - most[ids])
        total = jax.ops.segment_sum(weight, ids, sets, indices_are_sorted=True)
        weight = weight / total[ids]
        v = (x @ value).reshape(rows, heads, width // heads).astype(F32) * weight[..., None]
        pooled = jax.ops.segment_sum(v, ids, sets, indices_are_sorted=True).reshape(sets, width)
        size = jnp.diff(jnp.searchsorted(ids, jnp.arange(sets + 1)))
        return pooled.astype(BF16), size, jnp.where(total > 0, jnp.log(total) + most, 0)
    return (run, bf16(rows, width), weights(BF16, width, heads), weights(BF16, width, width),
            ints(sets, rows, in_order=True))


# Scans.

@module("delta_channel_decays_chunks_grad_f32", "scans", {"batch": 2, "heads": 6, "chunks": 12, "chunk": 32,
        "size": 80}, {"batch": 1, "heads": 2, "chunks": 2, "chunk": 4, "size": 4}, tolerance=8)
def _(batch, heads, chunks, chunk, size):
    """The delta rule with a decay for each channel, by chunks whose triangles are inverted by doubling; gradients."""
    strict = jnp.tril(jnp.ones((chunk, chunk), bool), -1)

    def layer(q, k, v, decay, beta):
        q, k = (a * lax.rsqrt(jnp.square(a).sum(-1, keepdims=True) + 1e-6) for a in (q, k))
        gone = jnp.cumsum(-0.1 * jax.nn.softplus(decay), -2)
        beta = jax.nn.sigmoid(beta)[..., None]
        ahead, behind = k * jnp.exp(gone), k * jnp.exp(-gone)
        low = jnp.where(strict, -beta * (ahead @ behind.swapaxes(-1, -2)), 0)
        inverse, power = jnp.eye(chunk) + low, low
        for _ in range((chunk - 1).bit_length() - 1):
            power = power @ power
            inverse = inverse + inverse @ power
        u, w = inverse @ (beta * v), inverse @ (beta * ahead)
        inside = jnp.where(strict | jnp.eye(chunk, dtype=bool), (q * jnp.exp(gone)) @ behind.swapaxes(-1, -2), 0)

        def step(state, now):
            q, k, u, w, gone, inside = now
            new = u - w @ state
            y = (q * jnp.exp(gone)) @ state + inside @ new
            last = gone[..., -1:, :]
            state = state * jnp.exp(last).swapaxes(-1, -2) + (k * jnp.exp(last - gone)).swapaxes(-1, -2) @ new
            return state, y
        state = jnp.zeros((batch, heads, size, size))
        last, y = lax.scan(step, state, tuple(jnp.moveaxis(a, 2, 0) for a in (q, k, u, w, gone, inside)))
        return y, last
    x = f32(batch, heads, chunks, chunk, size)
    return (lambda g, h, *p: jax.vjp(layer, *p)[1]((g, h)), f32(chunks, batch, heads, chunk, size),
            f32(batch, heads, size, size), x, x, x, x, f32(batch, heads, chunks, chunk))


@module("complex_units_both_ways_grad_f32", "scans", {"batch": 3, "length": 1000, "width": 130, "states": 96},
        {"batch": 2, "length": 7, "width": 4, "states": 3}, tolerance=6)
def _(batch, length, width, states):
    """Diagonal complex recurrences by associative scans, forwards and backwards in time, then a gate; gradients."""
    def layer(x, log_decay, log_angle, into, back, skip, gate):
        decay = jnp.exp(lax.complex(-jnp.exp(log_decay), jnp.exp(log_angle)))
        drive = lax.complex(*(jnp.einsum("blw,wrs->rbls", x, part) for part in into))
        drive = drive * jnp.sqrt(1 - jnp.square(jnp.abs(decay)))[:, None, None]

        def join(one, two):
            return one[0] * two[0], two[0] * one[1] + two[1]

        def run(decay, drive, reverse):
            return lax.associative_scan(join, (jnp.broadcast_to(decay, drive.shape), drive), reverse, 1)[1]
        h = jnp.concatenate([run(decay[0], drive[0], False), run(decay[1], drive[1], True)], -1)
        y = jax.nn.gelu((h @ lax.complex(*back)).real + skip * x)
        return x + y * jax.nn.sigmoid(y @ gate)
    x = f32(batch, length, width)
    return (backward(layer), x, x, Arg((2, states), F32, low=-5, high=-2), Arg((2, states), F32, low=-4, high=0),
            f32(2, width, 2, states, scale=(2 * width) ** -0.5), weights(F32, 2, 2 * states, width), f32(width),
            weights(F32, width, width))


@module("prefix_moments_associative_f32", "scans", {"rows": 33, "length": 2049, "columns": 24},
        {"rows": 2, "length": 9, "columns": 3}, tolerance=4)
def _(rows, length, columns):
    """Counts, means, squares and maxima of all prefixes along a middle axis, gaps left out, by one scan of tuples."""
    def run(x, kept):
        here = (kept > 0)[..., None] & (jnp.abs(x) < 3)
        count = here.astype(F32)
        start = count, jnp.where(here, x, 0), jnp.zeros_like(x), jnp.where(here, x, -4.0)

        def join(one, two):
            (n, a, s, most), (m, b, t, more) = one, two
            total = n + m
            apart, share = b - a, m / jnp.maximum(total, 1)
            return total, a + apart * share, s + t + apart * apart * n * share, jnp.maximum(most, more)
        count, mean, square, most = lax.associative_scan(join, start, axis=1)
        spread = jnp.sqrt(square / jnp.maximum(count - 1, 1))
        return jnp.where(here, (x - mean) / (spread + 1e-2), 0), mean[:, -1], spread[:, 3::64], most[:, 1::2], count
    return run, f32(rows, length, columns), ints(5, rows, length)


# Sorts.

@module("tokens_merged_in_pairs_bf16", "sorts", {"batch": 5, "length": 576, "width": 768, "merged": 96, "size": 64},
        {"batch": 2, "length": 8, "width": 6, "merged": 2, "size": 4}, tolerance=4, mismatch=2e-2)
def _(batch, length, width, merged, size):
    """Even tokens with the nearest odd ones: the best pairs merge by weighted means, the rest stay in their order."""
    def one(x, keys, weight):
        k = keys.astype(F32)
        k = k * lax.rsqrt(jnp.square(k).sum(-1, keepdims=True) + 1e-6)
        scores = k[::2] @ k[1::2].T
        scores = scores.at[0].set(-jnp.inf)
        best, into = scores.max(-1), scores.argmax(-1)
        order = jnp.argsort(-best)
        gone, kept = order[:merged], jnp.sort(order[merged:])
        heavy = x.astype(F32) * weight[:, None]
        wide = jnp.concatenate([heavy, weight[:, None]], -1)
        odd = wide[1::2].at[into[gone]].add(wide[::2][gone])
        rest = jnp.concatenate([wide[::2][kept], odd])
        source = jnp.zeros(length // 2, I32).at[kept].set(jnp.arange(length // 2 - merged))
        source = source.at[gone].set(length // 2 - merged + into[gone])
        return (rest[:, :-1] / rest[:, -1:]).astype(BF16), rest[:, -1], source
    return (jax.vmap(one), bf16(batch, length, width), bf16(batch, length, size),
            Arg((batch, length), F32, low=1, high=4))


@module("columns_to_common_quantiles_f32", "sorts", {"rows": 5003, "columns": 96}, {"rows": 9, "columns": 4},
        tolerance=2, mismatch=1e-3)
def _(rows, columns):
    """Columns sorted, means of each rank trimmed of the extremes, put back by ranks; medians and their deviations."""
    def run(x):
        order = jnp.argsort(x, 0)
        ranked = jnp.take_along_axis(x, order, 0)
        across = jnp.sort(ranked, 1)
        common = across[:, 1:-1].mean(1)
        ranks = jnp.zeros_like(order).at[order, jnp.arange(columns)].set(jnp.arange(rows)[:, None])
        middle = (ranked[(rows - 1) // 2] + ranked[rows // 2]) / 2
        return common[ranks], ranks, middle, jnp.median(jnp.abs(x - middle), 0), jnp.quantile(x, jnp.array([.1, .9]), 0)
    return run, f32(rows, columns)


# Experts.

@module("group_limited_sigmoid_dispatch_2048_bf16", "moe", {"tokens": 2048, "width": 1024, "experts": 64, "groups": 8,
        "best": 4, "k": 6, "slots": 320}, {"tokens": 7, "width": 4, "experts": 8, "groups": 4, "best": 2, "k": 2,
        "slots": 3}, tolerance=4, mismatch=1e-2)
def _(tokens, width, experts, groups, best, k, slots):
    """Sigmoid scores with biases choose groups, then experts; rows are copied to slots and biases moved by loads."""
    def run(x, router, bias):
        score = jax.nn.sigmoid(jnp.dot(x, router, preferred_element_type=F32))
        chosen_by = score + bias
        by_group = lax.top_k(chosen_by.reshape(tokens, groups, -1), 2)[0].sum(-1)
        open_ = jax.nn.one_hot(lax.top_k(by_group, best)[1], groups, dtype=bool).any(1)
        open_ = jnp.repeat(open_, experts // groups, 1)
        chosen = lax.top_k(jnp.where(open_, chosen_by, -jnp.inf), k)[1]
        weight = jnp.take_along_axis(score, chosen, 1)
        weight = 2.5 * weight / (weight.sum(-1, keepdims=True) + 1e-20)
        one_hot = jax.nn.one_hot(chosen.T.reshape(-1), experts, dtype=I32)
        place = ((jnp.cumsum(one_hot, 0) - 1) * one_hot).sum(-1)
        slot = jnp.where(place < slots, chosen.T.reshape(-1) * slots + place, experts * slots)
        rows = jnp.tile(x, (k, 1))
        sent = jnp.zeros((experts * slots, width), BF16).at[slot].set(rows, mode="drop").reshape(experts, slots, width)
        load = one_hot.sum(0)
        return sent, weight, slot.reshape(k, tokens), bias + 1e-3 * jnp.sign(load.mean() - load), load
    return run, bf16(tokens, width), weights(BF16, width, experts), f32(experts, scale=0.05)


@module("experts_of_nothing_and_copies_grad_bf16", "moe", {"tokens": 1111, "width": 480, "inner": 640, "experts": 8,
        "extra": 4, "k": 2, "slots": 300}, {"tokens": 7, "width": 4, "inner": 6, "experts": 3, "extra": 3, "k": 2,
        "slots": 4}, tolerance=8, mismatch=5e-3)
def _(tokens, width, inner, experts, extra, k, slots):
    """Some experts give zero, the token itself or a constant; the others are vmapped over slots; gradients, z loss."""
    def layer(x, router, last, up, down, constant):
        logits = (x @ router).astype(F32) + 0.5 * last
        chance = jax.nn.softmax(logits)
        weight, chosen = lax.top_k(chance, k)
        hot = jax.nn.one_hot(chosen, experts + extra)
        place = jnp.cumsum(hot.reshape(-1, experts + extra), 0).reshape(hot.shape) * hot - 1
        put = (jax.nn.one_hot(place[..., :experts].astype(I32), slots) * hot[..., :experts, None])
        combine = jnp.einsum("tk,tkes->tes", weight, put).astype(BF16)
        sent = jnp.einsum("tes,tw->esw", put.sum(1).astype(BF16), x)
        back = jax.vmap(lambda r, a, b: jnp.square(jax.nn.relu(r @ a)) @ b)(sent, up, down)
        y = jnp.einsum("tes,esw->tw", combine, back)
        free = (hot[..., experts:] * weight[..., None]).sum(1).astype(BF16)
        y = y + free[:, 1:2] * x + free[:, 2:] @ constant
        z = jnp.square(jax.nn.logsumexp(logits, -1)).mean()
        return y, 1e-3 * z + 1e-2 * (hot.mean((0, 1)) * chance.mean(0)).sum(), logits
    x = bf16(tokens, width)
    return (lambda g, *p: jax.vjp(layer, *p)[1]((g, jnp.ones(()), jnp.zeros((tokens, experts + extra)))), x, x,
            weights(BF16, width, experts + extra), f32(tokens, experts + extra), weights(BF16, experts, width, inner),
            weights(BF16, experts, inner, width), bf16(extra - 2, width))


# Stencils.

@module("phases_part_cahn_hilliard_512_f32", "stencils", {"size": (512, 512), "steps": 20},
        {"size": (6, 7), "steps": 3}, tolerance=4)
def _(size, steps):
    """Two phases part on a torus: the Laplacian of a potential with a Laplacian in it, energies of every step."""
    def run(c, mobility):
        def laplacian(a):
            near = sum(jnp.roll(a, s, i) for i in (0, 1) for s in (1, -1))
            corners = sum(jnp.roll(a, (s, t), (0, 1)) for s in (1, -1) for t in (1, -1))
            return (4 * near + corners - 20 * a) / 6

        def step(i, given):
            c, energies = given
            bent = laplacian(c)
            flow = laplacian(c ** 3 - c - 0.5 * bent)
            c = c + 0.01 * mobility * flow
            return c, energies.at[i].set((jnp.square(1 - c * c) / 4 - 0.25 * c * bent).mean())
        return lax.fori_loop(0, steps, step, (c, jnp.zeros(steps)))
    return run, f32(*size, scale=0.2), around_one(F32, *size)


@module("arrival_times_until_still_f32", "stencils", {"batch": 3, "size": (190, 233), "most": 60},
        {"batch": 2, "size": (5, 6), "most": 9}, tolerance=3)
def _(batch, size, most):
    """A front from a few places through media of slowness: upwind solutions of neighbours until nothing falls."""
    def run(slowness, sources):
        place = jnp.arange(size[0] * size[1]).reshape(size)
        start = jnp.where((place == sources[..., None, None]).any(1), 0.0, 1e6)

        def body(given):
            t, _, i = given
            p = jnp.pad(t, ((0, 0), (1, 1), (1, 1)), constant_values=1e6)
            a = jnp.minimum(p[:, 2:, 1:-1], p[:, :-2, 1:-1])
            b = jnp.minimum(p[:, 1:-1, 2:], p[:, 1:-1, :-2])
            inside = 2 * slowness * slowness - jnp.square(a - b)
            both = (a + b + jnp.sqrt(jnp.maximum(inside, 0))) / 2
            found = jnp.where(jnp.abs(a - b) < slowness, both, jnp.minimum(a, b) + slowness)
            new = jnp.minimum(t, found)
            return new, jnp.any(new < t - 1e-5), i + 1
        t, _, count = lax.while_loop(lambda g: g[1] & (g[2] < most), body, (start, True, 0))
        return jnp.minimum(t, 1e3), count, (t < 1e3).sum((1, 2))
    return run, Arg((batch, *size), F32, low=0.5, high=2), ints(size[0] * size[1], batch, 4)


# Sampling.

@module("velocities_of_noised_latents_grad_bf16", "sampling", {"batch": 96, "tokens": 20, "width": 200, "inner": 640,
        "classes": 1000}, {"batch": 4, "tokens": 3, "width": 6, "inner": 8, "classes": 5}, tolerance=6)
def _(batch, tokens, width, inner, classes):
    """Flow matching: logit-normal times, noise, dropped labels and dropout by threefry; the loss and its gradients."""
    def loss(p, x, labels, data):
        a, b, c, d = jax.random.split(key_of(data), 4)
        t = jax.nn.sigmoid(jax.random.normal(a, (batch, 1, 1)))
        noise = jax.random.normal(b, x.shape, BF16)
        mixed = ((1 - t) * x + t * noise).astype(BF16)
        labels = jnp.where(jax.random.bernoulli(c, 0.1, (batch,)), classes, labels)
        angles = 1000 * t[:, 0] * 1e4 ** (-jnp.arange(inner // 2) / (inner // 2))
        told = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1).astype(BF16) + p["labels"][labels]
        h = jax.nn.silu(mixed @ p["in"] + told[:, None])
        h = jnp.where(jax.random.bernoulli(d, 0.85, h.shape), h / 0.85, 0)
        each = jnp.square((h @ p["out"]).astype(F32) - noise.astype(F32) + x.astype(F32)).mean((1, 2))
        return each.mean(), (each, labels)
    p = {"in": weights(BF16, width, inner), "out": weights(BF16, inner, width), "labels": bf16(classes + 1, inner)}
    return jax.value_and_grad(loss, has_aux=True), p, bf16(batch, tokens, width), ints(classes, batch), key()


@module("surest_masked_words_revealed_b3_bf16", "sampling", {"batch": 3, "length": 130, "classes": 32000, "block": 32,
        "shown": 7}, {"batch": 2, "length": 8, "classes": 13, "block": 4, "shown": 2}, tolerance=4, mismatch=0.05)
def _(batch, length, classes, block, shown):
    """A step of a masked text model: guided logits with Gumbel noise, the surest places of the first open block."""
    def run(told, free, tokens, data):
        hidden = tokens % 3 > 0
        wide = free.astype(F32) + 1.5 * (told.astype(F32) - free.astype(F32))
        noise = -jnp.log(-jnp.log(jax.random.uniform(key_of(data), wide.shape, minval=1e-7, maxval=1.0)))
        drawn = (wide + 0.5 * noise).argmax(-1)
        sure = jnp.take_along_axis(jax.nn.softmax(wide), drawn[..., None], -1)[..., 0]
        first = jnp.where(hidden, jnp.arange(length), length).min(1, keepdims=True) // block
        open_ = hidden & (jnp.arange(length) // block == first)
        best, at = lax.top_k(jnp.where(open_, sure, -1.0), shown)
        rows = jnp.arange(batch)[:, None]
        moved = jnp.take_along_axis(drawn, at, 1)
        new = tokens.at[rows, at].set(jnp.where(best > 0, moved, tokens[rows, at]))
        return new, sure, (hidden.sum(1) - (best > 0).sum(1)), at
    x = bf16(batch, length, classes, scale=2)
    return run, x, x, ints(classes, batch, length), key()


# Spectra.

@module("modes_by_block_layers_shrunk_grad_f32", "fourier", {"images": 5, "size": (36, 60), "blocks": 4, "width": 24},
        {"images": 1, "size": (4, 6), "blocks": 2, "width": 3}, tolerance=6)
def _(images, size, blocks, width):
    """Weather's mixers: real transforms of a grid, complex layers of blocks at low modes, soft shrinkage; gradients."""
    channels, low = blocks * width, size[0] // 4

    def layer(x, w, bias, gain):
        h = layer_norm(x, gain, 0 * gain)
        f = jnp.fft.rfft2(h, axes=(1, 2), norm="ortho").reshape(images, size[0], -1, blocks, width)
        w, bias = lax.complex(w[0], w[1]), lax.complex(bias[0], bias[1])
        kept = jnp.concatenate([f[:, :low], f[:, -low:]], 1)
        h = jnp.einsum("nijbc,bcd->nijbd", kept, w[0]) + bias[0]
        h = lax.complex(jax.nn.relu(h.real), jax.nn.relu(h.imag))
        h = jnp.einsum("nijbc,bcd->nijbd", h, w[1]) + bias[1]
        h = lax.complex(*(jnp.sign(a) * jax.nn.relu(jnp.abs(a) - 0.01) for a in (h.real, h.imag)))
        f = jnp.concatenate([h[:, :low], jnp.zeros_like(f[:, low:-low]), h[:, low:]], 1)
        y = jnp.fft.irfft2(f.reshape(images, size[0], -1, channels), size, axes=(1, 2), norm="ortho")
        return x + y
    x = f32(images, *size, channels)
    return (backward(layer), x, x, f32(2, 2, blocks, width, width, scale=(2 * width) ** -0.5),
            f32(2, 2, blocks, width, scale=0.1), around_one(F32, channels))


@module("vorticity_in_modes_256_f32", "fourier", {"size": 256, "steps": 6, "batch": 2},
        {"size": 8, "steps": 2, "batch": 1}, tolerance=6)
def _(size, steps, batch):
    """A fluid on a torus in modes: products in space without aliases, two stages a step, viscosity by exponentials."""
    def run(vorticity, force):
        k, m = jnp.meshgrid(jnp.fft.fftfreq(size, 1 / size), jnp.fft.rfftfreq(size, 1 / size), indexing="ij")
        square = k * k + m * m
        inverse = jnp.where(square > 0, 1 / jnp.maximum(square, 1), 0)
        kept = (jnp.abs(k) < size // 3) & (m < size // 3)
        fade = jnp.exp(-1e-3 * 0.01 * square)

        def space(a):
            return jnp.fft.irfft2(a, (size, size))

        def moved(w):
            u, v = space(1j * m * inverse * w), space(-1j * k * inverse * w)
            advected = u * space(1j * k * w) + v * space(1j * m * w)
            return jnp.where(kept, -jnp.fft.rfft2(advected) + force_modes, 0)

        def step(_, w):
            half = fade * (w + 0.01 * moved(w))
            return (fade * w + half + 0.01 * moved(half)) / 2
        force_modes = jnp.fft.rfft2(force)
        w = lax.fori_loop(0, steps, step, jnp.fft.rfft2(vorticity))
        ring = jnp.clip(jnp.sqrt(square).astype(I32), 0, size // 2)
        energy = jnp.zeros((batch, size // 2 + 1)).at[:, ring].add(jnp.square(jnp.abs(w)) * inverse / float(size) ** 4)
        return space(w), energy
    return run, f32(batch, size, size), f32(size, size, scale=0.1)
