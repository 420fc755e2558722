"""More modules of modules.py by the author of module_seventh_layers.py: steps of decoding, optimizers, segments, scans,
sorts, experts, stencils, samplers, and a few computations that are no neural network."""
import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, F8, I8, I32, Arg, around_one, backward, bf16, f32, ints, key, key_of, module,
                             rms_norm, weights)

U8, U32 = jnp.uint8, jnp.uint32


# Steps of decoding.

@module("paged_int8_cache_step_bf16", "decode",
        {"batch": 13, "heads": 21, "groups": 3, "size": 80, "page": 24, "pages": 500, "kept": 37},
        {"batch": 2, "heads": 4, "groups": 2, "size": 8, "page": 3, "pages": 9, "kept": 4}, tolerance=4)
def _(batch, heads, groups, size, page, pages, kept):
    """Pages of int8 with a scale for each place and head, named by a table, of sequences of different lengths."""
    def step(q, keys, values, scale_k, scale_v, table, lengths):
        k = keys[table].astype(F32) * scale_k[table][..., None]
        v = values[table].astype(F32) * scale_v[table][..., None]
        k, v = (a.reshape(batch, kept * page, groups, size).astype(BF16) for a in (k, v))
        scores = jnp.einsum("bghd,bkgd->bghk", q.reshape(batch, groups, -1, size), k, preferred_element_type=F32)
        seen = jnp.arange(kept * page) < lengths[:, None, None, None]
        weight = jax.nn.softmax(jnp.where(seen, scores * size ** -0.5, -1e30), -1).astype(BF16)
        return jnp.einsum("bghk,bkgd->bghd", weight, v).reshape(batch, heads * size)
    cache = ints(128, pages, page, groups, size, low=-127, dtype=I8)
    scale = Arg((pages, page, groups), F32, low=0, high=0.02)
    return (step, bf16(batch, heads, size), cache, cache, scale, scale, ints(pages, batch, kept),
            ints(kept * page, batch, low=1))


@module("ring_window_five_queries_bf16", "decode",
        {"batch": 7, "queries": 5, "heads": 12, "groups": 4, "size": 112, "window": 1000, "width": 900},
        {"batch": 2, "queries": 2, "heads": 4, "groups": 2, "size": 4, "window": 11, "width": 10}, tolerance=6)
def _(batch, queries, heads, groups, size, window, width):
    """Five drafted tokens written into a ring, each at its sequence's position; all of the ring is read then."""
    def step(x, gain, wq, wkv, out, sinks, keys, values, positions):
        h = rms_norm(x, gain)
        q = (h @ wq).reshape(batch, queries, groups, heads // groups, size)
        k, v = jnp.split((h @ wkv).reshape(batch, queries, groups, 2 * size), 2, -1)
        at = positions[:, None] + jnp.arange(queries)
        angles = at[..., None] * 1e4 ** (-jnp.arange(0, size, 2) / size)
        cos, sin = jnp.cos(angles).astype(BF16), jnp.sin(angles).astype(BF16)

        def turned(a, extra):
            c, s = (jnp.expand_dims(t, extra) for t in (cos, sin))
            low, high = a[..., ::2], a[..., 1::2]
            return jnp.stack([low * c - high * s, high * c + low * s], -1).reshape(a.shape)
        q, k = turned(q, (2, 3)), turned(k, (2,))
        rows = jnp.arange(batch)[:, None]
        keys, values = keys.at[rows, at % window].set(k), values.at[rows, at % window].set(v)
        last = at[:, -1:]
        place = last - (last - jnp.arange(window)) % window
        seen = (place[:, None] <= at[..., None]) & (place[:, None] >= 0)
        scores = jnp.einsum("bqghd,bkgd->bghqk", q, keys, preferred_element_type=F32) * size ** -0.5
        scores = jnp.where(seen[:, None, None], scores, -1e30)
        sinks = sinks.astype(F32).reshape(groups, -1, 1, 1)
        most = jnp.maximum(scores.max(-1, keepdims=True), sinks)
        weight = jnp.exp(scores - most)
        weight = weight / (weight.sum(-1, keepdims=True) + jnp.exp(sinks - most))
        seen = jnp.einsum("bghqk,bkgd->bqghd", weight.astype(BF16), values).reshape(batch, queries, heads * size)
        return x + seen @ out, keys, values
    cache = bf16(batch, window, groups, size)
    return (step, bf16(batch, queries, width), around_one(BF16, width), weights(BF16, width, heads * size),
            weights(BF16, width, 2 * groups * size), weights(BF16, heads * size, width), bf16(heads), cache, cache,
            ints(3 * window, batch))


@module("latent_f8_cache_absorbed_step", "decode",
        {"batch": 9, "heads": 20, "latent": 448, "rope": 56, "nope": 88, "length": 1230},
        {"batch": 2, "heads": 3, "latent": 12, "rope": 4, "nope": 6, "length": 9}, tolerance=6)
def _(batch, heads, latent, rope, nope, length):
    """Latent attention with the key's projection absorbed into the query, over a cache in f8 with a scale a place."""
    def step(q, up_k, up_v, cache, turned, scales, lengths, new, place):
        cache = cache.at[jnp.arange(batch), place].set(jnp.clip(new.astype(F32) * 16, -448, 448).astype(F8))
        scales = scales.at[jnp.arange(batch), place].set(1 / 16)
        wide = (cache.astype(F32) * scales[..., None]).astype(BF16)
        inner = jnp.einsum("bhn,hnl->bhl", q[..., :nope], up_k)
        scores = jnp.einsum("bhl,bkl->bhk", inner, wide, preferred_element_type=F32)
        scores += jnp.einsum("bhr,bkr->bhk", q[..., nope:], turned, preferred_element_type=F32)
        seen = jnp.arange(length) < lengths[:, None, None]
        weight = jax.nn.softmax(jnp.where(seen, scores * (nope + rope) ** -0.5, -1e30), -1).astype(BF16)
        return jnp.einsum("bhl,hln->bhn", jnp.einsum("bhk,bkl->bhl", weight, wide), up_v), cache, scales
    return (step, bf16(batch, heads, nope + rope), weights(BF16, heads, nope, latent),
            weights(BF16, heads, latent, nope), Arg((batch, length, latent), F8), bf16(batch, length, rope),
            Arg((batch, length), F32, low=0.5, high=1),
            ints(length, batch, low=1), bf16(batch, latent), ints(length, batch))


@module("gated_delta_step_bf16", "decode",
        {"batch": 11, "heads": 14, "groups": 7, "key": 72, "value": 120, "width": 950, "taps": 4},
        {"batch": 2, "heads": 4, "groups": 2, "key": 4, "value": 6, "width": 12, "taps": 3}, tolerance=6)
def _(batch, heads, groups, key, value, width, taps):
    """A token through a layer of gated delta rule: a short convolution's state, the matrix state, a gated norm."""
    inner = 2 * groups * key + heads * value

    def step(x, w, gates, z, taps_w, decay, gain, out, recent, state):
        recent = jnp.concatenate([recent[:, 1:], (x @ w)[:, None]], 1)
        h = jax.nn.silu(jnp.einsum("btc,tc->bc", recent, taps_w))
        q, k, v = jnp.split(h, [groups * key, 2 * groups * key], -1)
        q, k = (a.reshape(batch, groups, key).astype(F32) for a in (q, k))
        q, k = (a * lax.rsqrt(jnp.square(a).sum(-1, keepdims=True) + 1e-6) for a in (q, k))
        q, k = (jnp.repeat(a, heads // groups, 1) for a in (q, k))
        v = v.reshape(batch, heads, value).astype(F32)
        alpha, beta = jnp.split((x @ gates).astype(F32), 2, -1)
        state = state * jnp.exp(-jnp.exp(decay) * jax.nn.softplus(alpha))[..., None, None]
        error = (v - jnp.einsum("bhk,bhkv->bhv", k, state)) * jax.nn.sigmoid(beta)[..., None]
        state = state + k[..., None] * error[..., None, :]
        y = jnp.einsum("bhk,bhkv->bhv", q * key ** -0.5, state)
        y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + 1e-6) * gain
        y = y.reshape(batch, -1).astype(BF16) * jax.nn.silu(x @ z)
        return y @ out, recent, state
    return (step, bf16(batch, width), weights(BF16, width, inner), weights(BF16, width, 2 * heads),
            weights(BF16, width, heads * value), bf16(taps, inner, scale=0.5), f32(heads), around_one(F32, value),
            weights(BF16, heads * value, width), bf16(batch, taps, inner), f32(batch, heads, key, value))


# Optimizers.

SHAPES = ((600, 1100), (1100, 600), (333, 600), (600, 1800))


@module("muon_tree_scaled_bf16", "optimizers", {"shapes": SHAPES, "layers": 2},
        {"shapes": ((6, 9), (9, 5)), "layers": 1}, tolerance=40)
def _(shapes, layers):
    """Matrices by five steps of Newton and Schulz in bf16, vectors by Adam, decay and scales by the shape."""
    def orthogonal(m):
        x = m.astype(BF16)
        x = x.T if m.shape[0] > m.shape[1] else x
        x = x / (jnp.linalg.norm(x.astype(F32)) * 1.02 + 1e-6).astype(BF16)
        for a, b, c in ((4.06, -6.93, 3.01), (3.92, -6.49, 2.85), (3.3, -5.1, 2.2), (2.9, -4.0, 1.7), (2.4, -2.6, 1.1)):
            s = x @ x.T
            x = a * x + (b * s + c * s @ s) @ x
        return (x.T if m.shape[0] > m.shape[1] else x).astype(F32)

    def update(p, g, m, v):
        m = 0.95 * m + 0.05 * g
        if p.ndim == 2:
            turned = orthogonal(0.95 * m + 0.05 * g)
            return p * (1 - 2e-3) - 0.02 * max(1, p.shape[0] / p.shape[1]) ** 0.5 * turned, m, v
        v = 0.99 * v + 0.01 * g * g
        return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

    def step(p, g, m, v):
        done = [update(*each) for each in zip(p, g, m, v)]
        return tuple(list(a) for a in zip(*done))
    every = [s for _ in range(layers) for s in (*shapes, (shapes[0][0],))]
    tree = [f32(*s, scale=0.05) for s in every]
    squares = [Arg(s if len(s) == 1 else (1,), F32, low=0.001, high=0.01) for s in every]
    return step, tree, tree, tree, squares


@module("shampoo_coupled_newton_f32", "optimizers", {"rows": 300, "columns": 420, "rounds": 8},
        {"rows": 5, "columns": 7, "rounds": 3}, tolerance=8)
def _(rows, columns, rounds):
    """Both sides' statistics, their inverse fourth roots by a coupled Newton iteration, Adam's norm grafted."""
    def root(a):
        n = a.shape[0]
        a = a + 1e-2 * jnp.trace(a) / n * jnp.eye(n)
        z = (1 + 4) / (2 * jnp.linalg.norm(a))

        def step(_, given):
            m, h = given
            t = (5 * jnp.eye(n) - m) / 4
            t2 = t @ t
            return t2 @ t2 @ m, h @ t
        return lax.fori_loop(0, rounds, step, (a * z, jnp.eye(n) * z ** 0.25))[1]

    def step(p, g, left, right, v):
        left, right = 0.95 * left + 0.05 * g @ g.T, 0.95 * right + 0.05 * g.T @ g
        v = 0.95 * v + 0.05 * g * g
        turned = root(left) @ g @ root(right)
        size = jnp.linalg.norm(g / (jnp.sqrt(v) + 1e-8)) / (jnp.linalg.norm(turned) + 1e-12)
        return p - 1e-3 * size * turned, left, right, v
    g = f32(rows, columns, scale=0.1)
    v = Arg((rows, columns), F32, low=0, high=1)
    return step, g, g, f32(rows, rows, scale=1e-4), f32(columns, columns, scale=1e-4), v


@module("soap_rotated_adam_f32", "optimizers", {"rows": 700, "columns": 450}, {"rows": 6, "columns": 5}, tolerance=4)
def _(rows, columns):
    """Adam in the basis of the statistics' eigenvectors, and a power iteration of one of the bases."""
    def step(p, g, m, v, left, right, ql, qr, count):
        m = 0.95 * m + 0.05 * g
        turned_g, turned_m = ql.T @ g @ qr, ql.T @ m @ qr
        v = 0.95 * v + 0.05 * jnp.square(turned_g)
        scale = jnp.sqrt(1 - 0.95 ** count) / (1 - 0.95 ** count)
        update = ql @ (turned_m * scale / (jnp.sqrt(v) + 1e-8)) @ qr.T
        left, right = 0.9 * left + 0.1 * g @ g.T, 0.9 * right + 0.1 * g.T @ g
        power = left @ ql
        power = power * lax.rsqrt(jnp.square(power).sum(0) + 1e-8)
        return p - 3e-3 * (update + 0.01 * p), m, v, left, right, power
    g, v = f32(rows, columns, scale=0.1), Arg((rows, columns), F32, low=0.1, high=1)
    return (step, g, g, g, v, f32(rows, rows), f32(columns, columns), weights(F32, rows, rows),
            weights(F32, columns, columns), Arg((), F32, low=3, high=9))


@module("adam_mini_clipped_tree_bf16", "optimizers", {"layers": 5, "width": 520, "inner": 1400, "heads": 8},
        {"layers": 2, "width": 8, "inner": 6, "heads": 2}, tolerance=4)
def _(layers, width, inner, heads):
    """Gradients clipped by their global norm, one second moment for a head or a row, averaged weights beside."""
    def step(p, g, m, v, average, count):
        norm = jnp.sqrt(sum(jnp.square(a.astype(F32)).sum() for a in jax.tree.leaves(g)))
        clip = jnp.minimum(1, 1 / (norm + 1e-6))
        warm = jnp.minimum(count / 100, 1) * (0.5 + 0.5 * jnp.cos(math.pi * jnp.clip(count / 1e4, 0, 1)))

        def one(p, g, m, v, average):
            g = g.astype(F32) * clip
            m = 0.9 * m + 0.1 * g
            square = jnp.square(g.reshape(v.shape[0], -1)).mean(1)
            v = 0.95 * v + 0.05 * square
            seen = m.reshape(v.shape[0], -1) / (jnp.sqrt(v / (1 - 0.95 ** count)) + 1e-8)[:, None]
            new = p - 1e-3 * warm * (seen.reshape(p.shape) / (1 - 0.9 ** count) + 0.1 * p)
            return new, new.astype(BF16), m, v, average + 0.01 * (new - average)
        done = [one(*each) for each in zip(*map(jax.tree.leaves, (p, g, m, v, average)))]
        return tuple(list(a) for a in zip(*done)), norm

    def tree(make):
        return [{"q": make(width, width, rows=heads), "up": make(width, inner, rows=width), "b": make(inner, rows=1)}
                for _ in range(layers)]
    wide = tree(lambda *s, rows: f32(*s, scale=0.05))
    return (step, wide, tree(lambda *s, rows: bf16(*s, scale=0.1)), wide,
            tree(lambda *s, rows: Arg((rows,), F32, low=1e-3, high=1e-2)), wide, Arg((), F32, low=10, high=90))


# Embeddings and segments.

@module("hashed_bigrams_grad_bf16", "embeddings", {"batch": 9, "length": 777, "rows": 20011, "width": 104},
        {"batch": 2, "length": 6, "rows": 13, "width": 5}, tolerance=6)
def _(batch, length, rows, width):
    """Two tables, of hashes of one and of two bytes, and a learned gate between them; the tables' gradients."""
    def layer(tables, gate, tokens):
        tokens = tokens.astype(U32)
        before = jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)))
        one = (tokens * U32(2654435761) >> 7) % rows
        two = ((tokens * U32(40503) ^ before * U32(2246822519)) >> 5) % rows
        a, b = tables[0][one], tables[1][two]
        return a + jax.nn.sigmoid((a * gate).astype(F32).sum(-1, keepdims=True)).astype(BF16) * b
    return (lambda g, tables, gate, tokens: jax.vjp(lambda t, w: layer(t, w, tokens), tables, gate)[1](g),
            bf16(batch, length, width), bf16(2, rows, width), bf16(width, scale=0.1), ints(256, batch, length))


@module("weighted_bags_grad_f32", "embeddings", {"bags": 1013, "most": 17, "rows": 30011, "width": 52},
        {"bags": 4, "most": 3, "rows": 11, "width": 5}, tolerance=2)
def _(bags, most, rows, width):
    """Bags of at most 17 rows with weights, the rest of them padding; mean and maximum of each; gradients."""
    def layer(table, weight, places, lengths):
        seen = jnp.arange(most) < lengths[:, None]
        taken = table[places]
        total = (taken * jnp.where(seen, weight, 0)[..., None]).sum(1) / jnp.maximum(lengths, 1)[:, None]
        return jnp.concatenate([total, jnp.where(seen[..., None], taken, -9).max(1)], -1)
    return (lambda g, table, weight, *rest: jax.vjp(lambda t, w: layer(t, w, *rest), table, weight)[1](g),
            f32(bags, 2 * width), f32(rows, width), f32(bags, most), ints(rows, bags, most), ints(most + 1, bags))


@module("graph_attention_edges_grad_f32", "graphs", {"nodes": 2711, "edges": 19001, "heads": 3, "size": 20},
        {"nodes": 7, "edges": 15, "heads": 2, "size": 3}, tolerance=4)
def _(nodes, edges, heads, size):
    """GATv2: scores of edges, a softmax over those that end in a node, and weighted sums; gradients."""
    def layer(x, w_from, w_to, a, src, dst):
        left, right = ((x @ w).reshape(nodes, heads, size) for w in (w_from, w_to))
        score = (jax.nn.leaky_relu(left[src] + right[dst], 0.2) * a).sum(-1)
        most = lax.stop_gradient(jax.ops.segment_max(score, dst, nodes))
        share = jnp.exp(score - most[dst])
        total = jax.ops.segment_sum(share, dst, nodes)
        return jax.ops.segment_sum(left[src] * (share / total[dst])[..., None], dst, nodes)
    return (lambda g, *rest: jax.vjp(lambda *p: layer(*p, *rest[4:]), *rest[:4])[1](g), f32(nodes, heads, size),
            f32(nodes, 44), weights(F32, 44, heads * size), weights(F32, 44, heads * size), f32(heads, size),
            ints(nodes, edges), ints(nodes, edges))


@module("segment_moments_sorted_bf16", "segments", {"rows": 40007, "segments": 613, "width": 37},
        {"rows": 19, "segments": 5, "width": 3}, tolerance=4)
def _(rows, segments, width):
    """Counts, means, standard deviations and extremes of sorted segments, and the rows normed by their own."""
    def run(x, ids):
        wide = x.astype(F32)
        total = functools.partial(jax.ops.segment_sum, segment_ids=ids, num_segments=segments, indices_are_sorted=True)
        count = jnp.maximum(total(jnp.ones(rows)), 1)[:, None]
        mean = total(wide) / count
        deviation = jnp.sqrt(total(jnp.square(wide - mean[ids])) / count + 1e-5)
        most = jax.ops.segment_max(x, ids, segments, indices_are_sorted=True)
        least = jax.ops.segment_min(x, ids, segments, indices_are_sorted=True)
        normed = ((wide - mean[ids]) / deviation[ids]).astype(BF16)
        return mean, deviation, jnp.where(jnp.isfinite(most), most - least, 0), normed
    return run, bf16(rows, width), ints(segments, rows, in_order=True)


@module("segment_max_shared_grad_f32", "segments", {"rows": 15013, "segments": 911, "width": 29},
        {"rows": 17, "segments": 4, "width": 3}, tolerance=2)
def _(rows, segments, width):
    """Maxima and log-sum-exps of unsorted segments, and their gradients."""
    def run(x, ids):
        most = jax.ops.segment_max(x, ids, segments)
        safe = lax.stop_gradient(jnp.where(jnp.isfinite(most), most, 0))
        total = jax.ops.segment_sum(jnp.exp(x - safe[ids]), ids, segments)
        return jnp.where(jnp.isfinite(most), most, 0) + jnp.log(total + 1e-6) + safe
    return (lambda g, x, ids: jax.vjp(lambda x: run(x, ids), x)[1](g), f32(segments, width), f32(rows, width),
            ints(segments, rows))


# Scans and transforms.

@module("gated_linear_recurrence_grad_bf16", "scans", {"batch": 3, "length": 1333, "width": 410},
        {"batch": 2, "length": 9, "width": 3}, tolerance=8)
def _(batch, length, width):
    """An associative scan of a real-gated recurrence, in f32, and its gradients."""
    def layer(x, r, i, decay):
        log = -8 * jax.nn.softplus(decay) * jax.nn.sigmoid(r.astype(F32))
        a = jnp.exp(log)
        b = jnp.sqrt(jnp.maximum(1 - jnp.exp(2 * log), 1e-6)) * (x * jax.nn.sigmoid(i)).astype(F32)
        return lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b), axis=1)[1].astype(BF16)
    x = bf16(batch, length, width)
    return backward(layer), x, x, x, x, f32(width)


@module("cumulative_of_many_types", "scans", {"rows": 77, "length": 5003}, {"rows": 3, "length": 19}, tolerance=4)
def _(rows, length):
    """Sums, products, maxima, minima, log-sum-exps and reversed ones of bf16, u8, i8, i32 and f32, along both axes."""
    def run(a, b, c, d):
        return (jnp.cumsum(a, 1), lax.cummax(a, 1, reverse=True), jnp.cumsum(b, 1, dtype=I32), lax.cummin(b, 0),
                lax.cumsum(c.astype(I32), 1, reverse=True), jnp.cumprod(1 + 1e-3 * d, 1), lax.cumlogsumexp(d, 1),
                lax.cumsum(d, 0), lax.cummax(d, 1) - d)
    return (run, bf16(rows, length), ints(256, rows, length, dtype=U8), ints(100, rows, length, low=-99, dtype=I8),
            f32(rows, length))


@module("long_filters_fft_grad_f32", "fourier", {"batch": 3, "length": 1500, "width": 88},
        {"batch": 2, "length": 10, "width": 3}, tolerance=4)
def _(batch, length, width):
    """Implicit filters with a decaying window, convolved with gated inputs by transforms of twice the length."""
    def layer(x, gate, w1, w2, decay):
        t = jnp.linspace(0, 1, length)[:, None]
        waves = jnp.concatenate([f(t * 2 * math.pi * jnp.arange(1, 9)) for f in (jnp.sin, jnp.cos)], -1)
        h = jnp.sin(waves @ w1) @ w2 * jnp.exp(-t * jnp.abs(decay))
        size = 2 * length
        spectrum = jnp.fft.rfft(x * gate, size, axis=1) * jnp.fft.rfft(h, size, axis=0) / length
        return jnp.fft.irfft(spectrum, size, axis=1)[:, :length] * gate
    x = f32(batch, length, width)
    return backward(layer), x, x, x, f32(16, 40), weights(F32, 40, width), f32(width, scale=5)


@module("log_mel_frames_f32", "signals", {"batch": 5, "samples": 30011, "window": 400, "hop": 160, "bands": 80},
        {"batch": 2, "samples": 67, "window": 16, "hop": 6, "bands": 4}, tolerance=4)
def _(batch, samples, window, hop, bands):
    """Frames with pre-emphasis and a window, powers of their transforms, bands, logarithms, deltas in time."""
    def run(x, filters):
        x = jnp.concatenate([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)
        count = (samples - window) // hop + 1
        frames = x[:, jnp.arange(count)[:, None] * hop + jnp.arange(window)]
        shape = 0.5 - 0.5 * jnp.cos(2 * math.pi * jnp.arange(window) / window)
        power = jnp.square(jnp.abs(jnp.fft.rfft((frames - frames.mean(-1, keepdims=True)) * shape)))
        log = jnp.log10(jnp.maximum(power @ filters, 1e-8))
        log = (jnp.maximum(log, log.max((1, 2), keepdims=True) - 8) + 4) / 4
        padded = jnp.pad(log, ((0, 0), (2, 2), (0, 0)), mode="edge")
        return log, sum(n * (padded[:, 2 + n:count + 2 + n] - padded[:, 2 - n:count + 2 - n]) for n in (1, 2)) / 10
    return run, f32(batch, samples), Arg((window // 2 + 1, bands), F32, low=0, high=1)


# Sorts.

@module("unique_counts_rows_i32", "sorts", {"rows": 211, "length": 1999}, {"rows": 3, "length": 15})
def _(rows, length):
    """Distinct values of rows in front, how often each is there, and which one each element was."""
    def run(x):
        order = jnp.argsort(x, axis=1)
        ranked = jnp.take_along_axis(x, order, 1)
        first = jnp.concatenate([jnp.ones((rows, 1), bool), ranked[:, 1:] != ranked[:, :-1]], 1)
        place = jnp.cumsum(first, 1) - 1
        row = jnp.arange(rows)[:, None]
        values = jnp.full((rows, length), -1).at[row, place].set(ranked)
        counts = jnp.zeros((rows, length), I32).at[row, place].add(1)
        return values, counts, jnp.zeros_like(x).at[row, order].set(place), first.sum(1)
    return run, ints(700, rows, length)


@module("three_keys_sorted_with_rows_f32", "sorts", {"length": 60013, "width": 9}, {"length": 17, "width": 3})
def _(length, width):
    """A stable order by two keys and the reverse of a third, and the rows carried along."""
    def run(a, b, c, x):
        order = lax.sort((a, b, -c, jnp.arange(length)), num_keys=3)[3]
        return order, x[order], jnp.zeros(length, I32).at[order].set(jnp.arange(length))
    return run, ints(50, length), ints(9, length), f32(length), f32(length, width)


@module("sparse_autoencoder_topk_grad_f32", "sorts", {"rows": 99, "width": 300, "inner": 5003, "k": 33},
        {"rows": 3, "width": 5, "inner": 17, "k": 4}, tolerance=4, mismatch=2e-3)
def _(rows, width, inner, k):
    """The k largest of a wide layer's units alone are decoded, from rows of the decoder that are gathered."""
    def loss(encode, decode, bias, x):
        units = (x - bias) @ encode
        values, places = lax.top_k(units, k)
        back = jnp.einsum("rk,rkw->rw", jax.nn.relu(values), decode[places]) + bias
        return jnp.square(back - x).mean() + 1e-3 * jax.nn.logsumexp(units, -1).mean()
    return (jax.value_and_grad(loss, argnums=(0, 1, 2)), weights(F32, width, inner), f32(inner, width, scale=0.05),
            f32(width, scale=0.1), f32(rows, width))


# Experts.

@module("sorted_dispatch_shared_expert_bf16", "moe",
        {"tokens": 509, "width": 330, "inner": 210, "experts": 21, "k": 3, "room": 112},
        {"tokens": 9, "width": 6, "inner": 4, "experts": 3, "k": 2, "room": 5}, tolerance=6, mismatch=5e-3)
def _(tokens, width, inner, experts, k, room):
    """Choices sorted by expert, rows of a buffer of so much room each, sigmoid scores with a bias, a shared expert."""
    def layer(x, router, bias, up, down, shared_up, shared_down):
        scores = jax.nn.sigmoid((x @ router).astype(F32))
        chosen = lax.top_k(scores + bias, k)[1]
        weight = jnp.take_along_axis(scores, chosen, 1)
        weight = 2.5 * weight / weight.sum(-1, keepdims=True)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        ranked = flat[order]
        place = jnp.arange(tokens * k) - jnp.searchsorted(ranked, jnp.arange(experts))[ranked]
        slot = jnp.where(place < room, ranked * room + place, experts * room)
        buffer = jnp.zeros((experts * room, width), BF16).at[slot].set(x[order // k], mode="drop")
        gate, value = jnp.split(jnp.einsum("erw,ewi->eri", buffer.reshape(experts, room, width), up), 2, -1)
        out = jnp.einsum("eri,eiw->erw", jax.nn.silu(gate) * value, down).reshape(-1, width)
        back = out.at[slot].get(mode="fill", fill_value=0).astype(F32) * weight.reshape(-1)[order][:, None]
        gate, value = jnp.split(x @ shared_up, 2, -1)
        return (jnp.zeros((tokens, width)).at[order // k].add(back)).astype(BF16) + (
            jax.nn.silu(gate) * value) @ shared_down
    return (layer, bf16(tokens, width), weights(BF16, width, experts), f32(experts, scale=0.05),
            weights(BF16, experts, width, 2 * inner), weights(BF16, experts, inner, width),
            weights(BF16, width, 2 * inner), weights(BF16, inner, width))


@module("capacity_positions_dense_grad_f32", "moe",
        {"groups": 3, "tokens": 170, "width": 140, "inner": 190, "experts": 11, "room": 37},
        {"groups": 2, "tokens": 5, "width": 4, "inner": 3, "experts": 3, "room": 2}, tolerance=4)
def _(groups, tokens, width, inner, experts, room):
    """Two choices with places in a capacity by cumulative sums, dispatch by products; balance and z losses."""
    def loss(x, router, up, down):
        logits = x @ router
        p = jax.nn.softmax(logits)
        first = jax.nn.one_hot(p.argmax(-1), experts)
        second = jax.nn.one_hot(jnp.where(first > 0, -1.0, p).argmax(-1), experts)
        place_1 = jnp.cumsum(first, 1) * first - first
        place_2 = (jnp.cumsum(second, 1) + first.sum(1, keepdims=True)) * second - second
        combine = sum((p * hot)[..., None] * jax.nn.one_hot(jnp.where(hot > 0, place, -1).astype(I32), room)
                      for hot, place in ((first, place_1), (second, place_2)))
        sent = jnp.einsum("gtec,gtw->egcw", (combine > 0).astype(F32), x)
        h = jax.nn.gelu(jnp.einsum("egcw,ewi->egci", sent, up))
        y = jnp.einsum("gtec,egcw->gtw", combine, jnp.einsum("egci,eiw->egcw", h, down))
        balance = experts * (p.mean(1) * first.mean(1)).sum(-1).mean()
        return jnp.square(y).mean() + 0.01 * balance + 1e-3 * jnp.square(jax.nn.logsumexp(logits, -1)).mean()
    return (jax.value_and_grad(loss, argnums=(0, 1, 2, 3)), f32(groups, tokens, width), weights(F32, width, experts),
            weights(F32, experts, width, inner), weights(F32, experts, inner, width))


@module("expert_choice_of_13_grad_bf16", "moe",
        {"tokens": 700, "width": 260, "inner": 150, "experts": 13, "room": 90},
        {"tokens": 7, "width": 6, "inner": 4, "experts": 2, "room": 3}, tolerance=8, mismatch=5e-3)
def _(tokens, width, inner, experts, room):
    """Experts take the tokens that fit best, which are gathered and added back; gradients through the scores."""
    def layer(x, router, up, down):
        fit = jax.nn.softmax((x.astype(F32) @ router), -1)
        score, taken = lax.top_k(fit.T, room)
        h = jnp.square(jax.nn.relu(jnp.einsum("erw,ewi->eri", x[taken], up)))
        y = jnp.einsum("eri,eiw->erw", h, down).astype(F32) * score[..., None]
        return x + jnp.zeros((tokens, width)).at[taken].add(y).astype(BF16)
    x = bf16(tokens, width)
    return (backward(layer), x, x, weights(F32, width, experts), weights(BF16, experts, width, inner),
            weights(BF16, experts, inner, width))


# Stencils and physics.

@module("gray_scott_steps_f32", "stencils", {"batch": 2, "size": (233, 311), "steps": 20},
        {"batch": 1, "size": (6, 7), "steps": 3}, tolerance=2)
def _(batch, size, steps):
    """Two reagents that diffuse, by a stencil of nine points around a torus, and react."""
    def run(u, v):
        def spread(a):
            cross = sum(jnp.roll(a, s, d) for s in (1, -1) for d in (1, 2))
            corners = sum(jnp.roll(a, (s, t), (1, 2)) for s in (1, -1) for t in (1, -1))
            return 0.2 * cross + 0.05 * corners - a

        def step(_, given):
            u, v = given
            met = u * v * v
            return u + 0.16 * spread(u) - met + 0.035 * (1 - u), v + 0.08 * spread(v) + met - 0.095 * v
        return lax.fori_loop(0, steps, step, (u, v))
    u = Arg((batch, *size), F32, low=0, high=1)
    return run, u, u


@module("lattice_boltzmann_channel_f32", "stencils", {"size": (187, 405), "steps": 9}, {"size": (5, 7), "steps": 2},
        tolerance=2)
def _(size, steps):
    """Nine velocities: collisions, streaming, walls that turn populations round, a force along the channel."""
    moves = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
    back = (0, 3, 4, 1, 2, 7, 8, 5, 6)

    def run(f, solid):
        share = jnp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)[:, None, None]
        cx, cy = (jnp.array([m[i] for m in moves], F32)[:, None, None] for i in (0, 1))

        def step(_, f):
            density = f.sum(0)
            ux, uy = (cx * f).sum(0) / density + 1e-4, (cy * f).sum(0) / density
            along = cx * ux + cy * uy
            rest = density * share * (1 + 3 * along + 4.5 * along ** 2 - 1.5 * (ux ** 2 + uy ** 2))
            after = f - (f - rest) / 0.8
            after = jnp.where(solid > 0, f[jnp.array(back)], after)
            return jnp.stack([jnp.roll(after[i], moves[i], (1, 0)) for i in range(9)])
        return lax.fori_loop(0, steps, step, f)
    return run, Arg((9, *size), F32, low=0.1, high=0.2), ints(2, *size, low=-8)


@module("lennard_jones_periodic_f32", "physics", {"systems": 4, "atoms": 601}, {"systems": 2, "atoms": 7}, tolerance=8)
def _(systems, atoms):
    """Energies with a smooth cut-off by nearest images, forces as their gradients, and a step of Verlet's."""
    def energy(x, box):
        away = x[:, :, None] - x[:, None]
        away = away - box * jnp.round(away / box)
        square = jnp.square(away).sum(-1) + jnp.where(jnp.eye(atoms) > 0, 1e6, 0.5)
        inverse = 1 / square ** 3
        switch = jnp.clip((9 - square) / 3, 0, 1)
        return 2 * ((inverse * inverse - inverse) * switch * switch * (3 - 2 * switch)).sum()

    def run(x, v, box):
        v = v - 5e-4 * jax.grad(energy)(x, box)
        x = (x + 1e-3 * v) % box
        return x, v, energy(x, box)
    return run, Arg((systems, atoms, 3), F32, low=0, high=9), f32(systems, atoms, 3), Arg((3,), F32, low=8.5, high=9.5)


# Sampling and dropout.

@module("min_p_top_p_penalties_f32", "sampling", {"rows": 19, "vocabulary": 32101, "seen": 130},
        {"rows": 3, "vocabulary": 31, "seen": 5}, mismatch=0.07, tolerance=4)
def _(rows, vocabulary, seen):
    """Penalties of what was said, temperatures of rows, nucleus and smallest share, then Gumbel noise."""
    def run(logits, said, temperature, limit, data):
        hits = jnp.zeros((rows, vocabulary)).at[jnp.arange(rows)[:, None], said].add(1)
        logits = jnp.where(hits > 0, jnp.where(logits > 0, logits / 1.2, logits * 1.2), logits) - 0.1 * hits
        logits = logits / temperature[:, None]
        p = jax.nn.softmax(logits)
        ranked = -jnp.sort(-p, axis=-1)
        before = jnp.cumsum(ranked, -1) - ranked
        least = jnp.where(before < limit[:, None], ranked, 2).min(-1, keepdims=True)
        kept = (p >= least) & (p >= 0.05 * ranked[:, :1])
        noise = jax.random.gumbel(key_of(data), (rows, vocabulary))
        drawn = jnp.where(kept, logits + noise, -jnp.inf).argmax(-1)
        return drawn, jnp.take_along_axis(jax.nn.log_softmax(logits), drawn[:, None], 1)[:, 0], kept.sum(-1)
    return (run, f32(rows, vocabulary, scale=3), ints(vocabulary, rows, seen), Arg((rows,), F32, low=0.6, high=1.2),
            Arg((rows,), F32, low=0.8, high=0.95), key())


@module("typical_draws_by_inverse_bf16", "sampling", {"rows": 41, "vocabulary": 9973}, {"rows": 3, "vocabulary": 23},
        mismatch=0.07, tolerance=4)
def _(rows, vocabulary):
    """Typical sampling: by distance to the entropy, a share of the mass, a draw by the inverse of its sums."""
    def run(logits, data):
        log = jax.nn.log_softmax(logits.astype(F32))
        p = jnp.exp(log)
        entropy = -(p * log).sum(-1, keepdims=True)
        order = jnp.argsort(jnp.abs(-log - entropy), axis=-1)
        mass = jnp.cumsum(jnp.take_along_axis(p, order, -1), -1)
        last = (mass < 0.9).sum(-1)
        total = jnp.take_along_axis(mass, jnp.minimum(last, vocabulary - 1)[:, None], -1)
        u = jax.random.uniform(key_of(data), (rows, 1)) * total
        place = (mass < u).sum(-1)
        return jnp.take_along_axis(order, place[:, None], -1)[:, 0], last
    return run, bf16(rows, vocabulary, scale=2), key()


@module("dropout_residual_norm_grad_bf16", "sampling", {"rows": 2011, "width": 1010}, {"rows": 5, "width": 12},
        tolerance=6)
def _(rows, width):
    """Dropout of elements and of whole rows by threefry, a residual, a norm of both; gradients, drawn again."""
    def layer(x, residual, gain, data):
        one, two = jax.random.split(key_of(data))
        x = jnp.where(jax.random.bernoulli(one, 0.85, (rows, width)), x / 0.85, 0)
        x = jnp.where(jax.random.bernoulli(two, 0.9, (rows, 1)), x / 0.9, 0)
        return rms_norm(residual + x.astype(BF16), gain)
    x = bf16(rows, width)
    return (lambda g, *rest: jax.vjp(lambda *p: layer(*p, rest[3]), *rest[:3])[1](g), x, x, x, around_one(BF16, width),
            key())
