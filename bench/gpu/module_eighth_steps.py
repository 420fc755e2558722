"""More modules of modules.py by the author of module_eighth_layers.py: steps of decoding, optimizers, embeddings,
graphs, scans, sorts, experts and stencils."""
import math

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, I32, Arg, around_one, backward, bf16, f32, ints, layer_norm, module,
                             rms_norm, weights)

U8, F16 = jnp.uint8, jnp.float16


def of_first(count, function):
    """(cotangent, arguments) -> gradients of the first arguments alone."""
    return lambda g, *rest: jax.vjp(lambda *p: function(*p, *rest[count:]), *rest[:count])[1](g)


# Steps of decoding.

@module("beams_share_encoder_b5_bf16", "decode", {"batch": 5, "beams": 4, "heads": 16, "size": 64, "length": 448,
        "places": 1500}, {"batch": 2, "beams": 2, "heads": 2, "size": 4, "length": 7, "places": 9}, tolerance=6,
        donated={10: 1, 11: 2})
def _(batch, beams, heads, size, length, places):
    """A layer of speech to text: keys with places last, beams that read one encoder's cache, one position for all."""
    rows, width = batch * beams, heads * size

    def step(x, gain, bias, wqkv, bqkv, out, wq, cross_out, up, down, keys, values, cross_k, cross_v, at, counts):
        q, k, v = jnp.split((layer_norm(x, gain[0], bias[0]) @ wqkv + bqkv).reshape(rows, heads, 3 * size), 3, -1)
        keys = lax.dynamic_update_slice(keys, k[..., None], (0, 0, 0, at))
        values = lax.dynamic_update_slice(values, v[:, :, None], (0, 0, at, 0))
        scores = jnp.einsum("rhd,rhdk->rhk", q, keys, preferred_element_type=F32) * size ** -0.5
        weight = jax.nn.softmax(jnp.where(jnp.arange(length) <= at, scores, -1e30)).astype(BF16)
        x = x + jnp.einsum("rhk,rhkd->rhd", weight, values).reshape(rows, width) @ out
        q = (layer_norm(x, gain[1], bias[1]) @ wq).reshape(batch, beams, heads, size)
        scores = jnp.einsum("bqhd,bhkd->bhqk", q, cross_k, preferred_element_type=F32) * size ** -0.5
        scores = jnp.where(jnp.arange(places) < counts[:, None, None, None], scores, -1e30)
        seen = jnp.einsum("bhqk,bhkd->bqhd", jax.nn.softmax(scores).astype(BF16), cross_v)
        x = x + seen.reshape(rows, width) @ cross_out
        return x + jax.nn.gelu(layer_norm(x, gain[2], bias[2]) @ up) @ down, keys, values
    square, cross = weights(BF16, width, width), bf16(batch, heads, places, size)
    return (step, bf16(rows, width), around_one(BF16, 3, width), bf16(3, width), weights(BF16, width, 3 * width),
            bf16(3 * width), square, square, square, weights(BF16, width, 4 * width), weights(BF16, 4 * width, width),
            bf16(rows, heads, size, length), bf16(rows, heads, length, size), cross, cross,
            Arg((), I32, low=0, high=length), ints(places, batch, low=places // 2))


@module("tree_of_drafts_heads_b1_bf16", "decode",
        {"nodes": 26, "heads": 20, "groups": 4, "size": 96, "length": 2311, "drafts": 3, "vocabulary": 50304},
        {"nodes": 3, "heads": 4, "groups": 2, "size": 4, "length": 9, "drafts": 2, "vocabulary": 23}, tolerance=6,
        mismatch=0.05)
def _(nodes, heads, groups, size, length, drafts, vocabulary):
    """A tree of candidates attends to the cache and to its own ancestors; further heads draft, the best ten of each."""
    width = heads * size

    def step(h, wq, wkv, out, residual, head, keys, values, ancestors, depth, count):
        q = (h @ wq).reshape(nodes, groups, heads // groups, size)
        k, v = jnp.split((h @ wkv).reshape(nodes, groups, 2 * size), 2, -1)
        angles = (count + depth)[:, None] * 1e4 ** (-jnp.arange(0, size, 2) / size)

        def turned(a):
            cos, sin = (jnp.expand_dims(f(angles).astype(BF16), tuple(range(1, a.ndim - 1)))
                        for f in (jnp.cos, jnp.sin))
            low, high = jnp.split(a, 2, -1)
            return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], -1)
        q, k = turned(q), turned(k)
        old = jnp.einsum("nghd,gkd->ghnk", q, keys, preferred_element_type=F32)
        new = jnp.einsum("nghd,mgd->ghnm", q, k, preferred_element_type=F32)
        old = jnp.where(jnp.arange(length) < count, old, -1e30)
        new = jnp.where((ancestors > 0) | jnp.eye(nodes, dtype=bool), new, -1e30)
        weight = jax.nn.softmax(jnp.concatenate([old, new], -1) * size ** -0.5).astype(BF16)
        y = jnp.einsum("ghnk,gkd->nghd", weight[..., :length], values)
        y = y + jnp.einsum("ghnm,mgd->nghd", weight[..., length:], v)
        h = h + y.reshape(nodes, width) @ out
        each = h + jax.nn.silu(jnp.einsum("nw,dwv->dnv", h, residual))
        logits = (jnp.concatenate([h[None], each]) @ head).astype(F32)
        best, places = lax.top_k(logits, 10)
        return jnp.exp(best - jax.nn.logsumexp(logits, -1, keepdims=True)), places, k, v
    cache = bf16(groups, length, size)
    return (step, bf16(nodes, width), weights(BF16, width, width), weights(BF16, width, 2 * groups * size),
            weights(BF16, width, width), weights(BF16, drafts, width, width), weights(BF16, width, vocabulary), cache,
            cache, ints(2, nodes, nodes), ints(5, nodes), Arg((), I32, low=length // 2, high=length))


@module("token_slots_split_b40_f16", "decode",
        {"batch": 40, "heads": 12, "groups": 2, "size": 96, "slots": 20011, "kept": 768, "splits": 6},
        {"batch": 3, "heads": 4, "groups": 2, "size": 4, "slots": 31, "kept": 12, "splits": 3}, tolerance=4)
def _(batch, heads, groups, size, slots, kept, splits):
    """Slots of single tokens named by a table, new ones written to them, parts of the keys merged by log-sum-exps."""
    def step(q, k, v, keys, values, table, lengths):
        slot = jnp.take_along_axis(table, lengths[:, None], 1)[:, 0]
        keys, values = keys.at[slot].set(k), values.at[slot].set(v)
        part = (batch, splits, kept // splits, groups, size)
        mine_k, mine_v = keys[table].reshape(part), values[table].reshape(part)
        scores = jnp.einsum("bghd,bskgd->bsghk", q.reshape(batch, groups, -1, size), mine_k,
                            preferred_element_type=F32)
        scores = 30 * jnp.tanh(scores * size ** -0.5 / 30)
        place = jnp.arange(kept).reshape(splits, -1)
        scores = jnp.where((place <= lengths[:, None, None])[:, :, None, None], scores, -1e30)
        most = scores.max(-1, keepdims=True)
        share = jnp.exp(scores - most)
        total = share.sum(-1, keepdims=True)
        seen = jnp.einsum("bsghk,bskgd->bsghd", share.astype(F16), mine_v, preferred_element_type=F32) / total
        weight = jax.nn.softmax(most + jnp.log(total), 1)
        return (weight * seen).sum(1).reshape(batch, heads * size).astype(F16), keys, values
    new, cache = Arg((batch, groups, size), F16), Arg((slots, groups, size), F16)
    return step, Arg((batch, heads, size), F16), new, new, cache, cache, ints(slots, batch, kept), ints(kept, batch)


@module("removed_keys_step_b11_f32", "decode", {"batch": 11, "heads": 12, "size": 64, "rank": 56},
        {"batch": 2, "heads": 2, "size": 4, "rank": 3}, tolerance=4)
def _(batch, heads, size, rank):
    """A token through the seventh RWKV's time mix: shifts, five low-rank gates, a state whose keys are replaced."""
    width = heads * size

    def step(x, before, mix, square, downs, ups, bases, first, gains, bonus, gain, bias, state):
        xr, xw, xk, xv, xa, xg = x + (before - x) * mix[:, None]
        r, k, v = (a @ w for a, w in zip((xr, xk, xv), square))
        decay = jnp.exp(-math.exp(-0.5) * jax.nn.sigmoid(bases[0] + jnp.tanh(xw @ downs[0]) @ ups[0]))
        a = jax.nn.sigmoid(bases[1] + xa @ downs[1] @ ups[1])
        v = v + (first - v) * jax.nn.sigmoid(bases[2] + xv @ downs[2] @ ups[2])
        g = jax.nn.sigmoid(xg @ downs[3]) @ ups[3]

        def split(a):
            return a.reshape(batch, heads, size)
        removed = split(k * gains[0])
        removed = removed / jnp.maximum(jnp.linalg.norm(removed, axis=-1, keepdims=True), 1e-6)
        k = k * (1 + (a - 1) * gains[1])
        r, decay, k, v, a = map(split, (r, decay, k, v, a))
        gone = jnp.einsum("bhvk,bhk->bhv", state, -removed)
        state = state * decay[:, :, None] + gone[..., None] * (removed * a)[:, :, None] + v[..., None] * k[:, :, None]
        y = jnp.einsum("bhvk,bhk->bhv", state, r)
        mean, variance = y.mean(-1, keepdims=True), y.var(-1, keepdims=True)
        y = ((y - mean) * lax.rsqrt(variance + 64e-5)).reshape(batch, width) * gain + bias
        y = y + ((r * k * bonus).sum(-1, keepdims=True) * v).reshape(batch, width)
        return (y * g) @ square[3], state
    x = f32(batch, width)
    return (step, x, x, Arg((6, width), F32, low=0, high=1), weights(F32, 4, width, width),
            weights(F32, 4, width, rank), weights(F32, 4, rank, width), f32(3, width), x, around_one(F32, 2, width),
            f32(heads, size, scale=0.1), around_one(F32, width), f32(width), f32(batch, heads, size, size))


# Optimizers.

@module("four_bit_states_rank_one_f32", "optimizers", {"shapes": ((2304, 768), (777, 640), (3072, 768)), "block": 128},
        {"shapes": ((6, 8), (4, 6)), "block": 4}, tolerance=4, mismatch=0.01)
def _(shapes, block):
    """Adam with moments of four bits: blocks by a table of powers, squares by the lesser of a row's and a column's."""
    def unpacked(codes):
        return jnp.stack([codes & 15, codes >> 4], -1).reshape(-1).astype(I32)

    def packed(codes):
        pairs = codes.astype(U8).reshape(-1, 2)
        return pairs[:, 0] | (pairs[:, 1] << 4)

    def one(p, g, m, scale, v, rows, columns, rate):
        t = jnp.arange(16) / 7.5 - 1
        table = jnp.sign(t) * jnp.abs(t) ** 1.5
        m = (table[unpacked(m)].reshape(-1, block) * scale[:, None]).reshape(p.shape)
        v = (unpacked(v) + 1).reshape(p.shape) / 16 * jnp.minimum(rows[:, None], columns)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - rate * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * p)
        blocks = m.reshape(-1, block)
        scale = jnp.abs(blocks).max(1)
        m = jnp.searchsorted((table[1:] + table[:-1]) / 2, blocks / jnp.maximum(scale, 1e-20)[:, None])
        rows, columns = v.max(1), v.max(0)
        v = jnp.clip(jnp.round(v / jnp.minimum(rows[:, None], columns) * 16) - 1, 0, 15)
        return p, packed(m), scale, packed(v), rows, columns

    def step(rate, *trees):
        return [one(*each, rate) for each in zip(*trees)]
    wide = [f32(*s, scale=0.1) for s in shapes]
    codes = [ints(256, r * c // 2, dtype=U8) for r, c in shapes]
    return (step, Arg((), F32, low=1e-3, high=1e-2), wide, wide, codes,
            [Arg((r * c // block,), F32, low=0.01, high=0.1) for r, c in shapes], codes,
            [Arg((r,), F32, low=1e-3, high=1e-2) for r, _ in shapes],
            [Arg((c,), F32, low=1e-3, high=1e-2) for _, c in shapes])


@module("projected_low_rank_adam_bf16", "optimizers", {"layers": 3, "rows": 768, "columns": 2050,
        "rank": 96}, {"layers": 2, "rows": 6, "columns": 9, "rank": 3}, tolerance=6)
def _(layers, rows, columns, rank):
    """Adam in a gradient's projection, columns of what is left scaled alike, whose growth is limited; by layer."""
    def one(p, g, turn, m, v, last, count):
        g = g.astype(F32)
        low = turn.T @ g
        m, v = 0.9 * m + 0.1 * low, 0.999 * v + 0.001 * low * low
        normed = m / (1 - 0.9 ** count) / (jnp.sqrt(v / (1 - 0.999 ** count)) + 1e-6)
        scale = jnp.linalg.norm(normed, axis=0) / (jnp.linalg.norm(low, axis=0) + 1e-8)
        rest = (g - turn @ low) * scale
        size = jnp.linalg.norm(rest)
        rest = rest * jnp.minimum(1, 1.01 * last / (size + 1e-8))
        wide = p.astype(F32)
        return (wide - 2e-2 * (0.25 * (turn @ normed + rest) + 0.1 * wide)).astype(BF16), m, v, size
    p, low = bf16(layers, rows, columns, scale=0.05), f32(layers, rank, columns, scale=0.1)
    return (jax.vmap(one, (0, 0, 0, 0, 0, 0, None)), p, p, Arg((layers, rows, rank), F32, rows ** -0.5), low,
            Arg((layers, rank, columns), F32, low=0.01, high=1), Arg((layers,), F32, low=1, high=99),
            Arg((), F32, low=3, high=9))


@module("unit_clipped_nadam_ema_f32", "optimizers", {"channels": (3, 48, 96, 200, 410), "depth": 3},
        {"channels": (3, 4, 6), "depth": 2}, tolerance=4)
def _(channels, depth):
    """Adaptive clipping by units of 3×3 filters, Nesterov's Adam, decay of matrices alone, two averages of weights."""
    def norm(a):
        return jnp.sqrt(jnp.square(a).sum(tuple(range(a.ndim - 1)), keepdims=True)) if a.ndim > 1 else jnp.abs(a)

    def one(p, g, m, v, near, far, count, rate):
        g = g * jnp.minimum(1, 0.01 * jnp.maximum(norm(p), 1e-3) / jnp.maximum(norm(g), 1e-6))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        ahead = 0.9 * m / (1 - 0.9 ** (count + 1)) + 0.1 * g / (1 - 0.9 ** count)
        p = p - rate * (ahead / (jnp.sqrt(v / (1 - 0.999 ** count)) + 1e-8) + (5e-5 * p if p.ndim > 1 else 0))
        return p, m, v, 0.999 * near + 0.001 * p, jnp.where(count % 8 == 0, far + (p - far) / (count / 8), far)

    def step(p, g, m, v, near, far, count):
        rate = jnp.interp(count, jnp.array([0.0, 5, 30, 60]), jnp.array([0.0, 0.1, 0.01, 1e-3]))
        leaves, tree = jax.tree.flatten(p)
        done = [one(*each, count, rate) for each in zip(leaves, *map(jax.tree.leaves, (g, m, v, near, far)))]
        return [jax.tree.unflatten(tree, each) for each in zip(*done)]

    def tree(make):
        return [{"w": make(3, 3, a if i == 0 else b, b), "gain": make(b), "bias": make(b)}
                for a, b in zip(channels, channels[1:]) for i in range(depth)]
    p = tree(lambda *s: f32(*s, scale=0.05))
    return step, p, p, p, tree(lambda *s: Arg(s, F32, low=1e-4, high=1e-2)), p, p, Arg((), F32, low=5, high=50)


# Embeddings.

@module("quotient_tables_pairs_grad_f32", "embeddings", {"batch": 2011, "tables": 26, "quotients": 120,
        "rests": 250, "width": 48}, {"batch": 3, "tables": 4, "quotients": 5, "rests": 3, "width": 4}, tolerance=4)
def _(batch, tables, quotients, rests, width):
    """Rows by quotient times rows by remainder, products of all pairs below the diagonal, clicks; gradients."""
    def loss(q, r, bottom, low, top, high, dense, ids, clicks):
        at = jnp.arange(tables)
        rows = q[at, ids // rests] * r[at, ids % rests]
        front = jax.nn.relu(jax.nn.relu(dense @ bottom) @ low)
        every = jnp.concatenate([front[:, None], rows], 1)
        i, j = jnp.tril_indices(tables + 1, -1)
        pairs = jnp.einsum("biw,bjw->bij", every, every)[:, i, j]
        logits = (jax.nn.relu(jnp.concatenate([front, pairs], -1) @ top) @ high)[:, 0]
        return (jnp.maximum(logits, 0) - logits * clicks + jnp.log1p(jnp.exp(-jnp.abs(logits)))).mean()
    pairs = tables * (tables + 1) // 2
    return (jax.value_and_grad(loss, argnums=tuple(range(6))), f32(tables, quotients, width),
            f32(tables, rests, width), weights(F32, 13, 96), weights(F32, 96, width),
            weights(F32, width + pairs, 200), weights(F32, 200, 1), f32(batch, 13),
            ints(quotients * rests, batch, tables), ints(2, batch))


@module("tied_table_50304_grad_bf16", "embeddings", {"batch": 2, "length": 301, "rows": 50304, "width": 388},
        {"batch": 2, "length": 5, "rows": 19, "width": 8}, tolerance=8)
def _(batch, length, rows, width):
    """One table at both ends: scaled rows with learned places and a gated layer, capped logits, masked loss."""
    def loss(table, places, gains, up, down, tokens, kept):
        h = table[tokens[:, :-1]] * math.sqrt(width) + places[:length]
        gate, value = jnp.split(rms_norm(h, gains[0]) @ up, 2, -1)
        h = rms_norm(h + (jax.nn.gelu(gate) * value) @ down, gains[1])
        logits = 30 * jnp.tanh(jnp.einsum("blw,rw->blr", h, table, preferred_element_type=F32) / 30)
        right = jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
        return ((jax.nn.logsumexp(logits, -1) - right) * kept).sum() / (kept.sum() + 1)
    return (jax.value_and_grad(loss, argnums=(0, 1, 2, 3, 4)), Arg((rows, width), BF16, width ** -0.5),
            bf16(length + 9, width), around_one(BF16, 2, width), weights(BF16, width, 4 * width),
            weights(BF16, 2 * width, width), ints(rows, batch, length + 1), ints(2, batch, length))


@module("unique_rows_lazy_adam_f32", "embeddings", {"rows": 100003, "width": 60, "count": 6007},
        {"rows": 29, "width": 3, "count": 13}, tolerance=4, donated={0: 0, 1: 1, 2: 2, 3: 3})
def _(rows, width, count):
    """Gradients of rows summed by row after a sort; Adam of those rows alone, by their own counts of steps."""
    def step(table, m, v, steps, ids, g):
        order = jnp.argsort(ids)
        ranked = ids[order]
        first = jnp.concatenate([jnp.ones(1, bool), ranked[1:] != ranked[:-1]])
        slot = jnp.cumsum(first) - 1
        total = jax.ops.segment_sum(g[order], slot, count, indices_are_sorted=True)
        row = jnp.full(count, rows).at[slot].set(ranked)
        old_m, old_v, old_steps = (a.at[row].get(mode="fill", fill_value=0) for a in (m, v, steps))
        new_m, new_v = 0.9 * old_m + 0.1 * total, 0.99 * old_v + 0.01 * total * total
        t = (old_steps + 1).astype(F32)[:, None]
        update = new_m / (1 - 0.9 ** t) / (jnp.sqrt(new_v / (1 - 0.99 ** t)) + 1e-8)
        return (table.at[row].add(-0.01 * update, mode="drop"), m.at[row].set(new_m, mode="drop"),
                v.at[row].set(new_v, mode="drop"), steps.at[row].add(1, mode="drop"), slot[-1] + 1)
    table = f32(rows, width)
    return (step, table, f32(rows, width, scale=0.1), Arg((rows, width), F32, low=0.1, high=1), ints(99, rows),
            ints(rows // 9, count), f32(count, width))


# Graphs.

@module("mesh_messages_scanned_f32", "graphs", {"nodes": 1876, "edges": 10788, "width": 96, "rounds": 5},
        {"nodes": 7, "edges": 15, "width": 4, "rounds": 2}, tolerance=4)
def _(nodes, edges, width, rounds):
    """Rounds of edges and nodes with layers and norms of their own, scanned; edges keep their states."""
    def run(x, e, edge_in, node_in, outs, gains, senders, receivers):
        def one(given, own):
            x, e = given
            w_edge, w_node, out, gain = own
            h = jax.nn.relu(jnp.concatenate([x[senders], x[receivers], e], -1) @ w_edge) @ out[0]
            e = e + layer_norm(h, gain[0], 0 * gain[0])
            total = jax.ops.segment_sum(e, receivers, nodes)
            h = jax.nn.relu(jnp.concatenate([x, total], -1) @ w_node) @ out[1]
            return (x + layer_norm(h, gain[1], 0 * gain[1]), e), jnp.square(h).mean()
        return lax.scan(one, (x, e), (edge_in, node_in, outs, gains))
    return (run, f32(nodes, width), f32(edges, width), weights(F32, rounds, 3 * width, width),
            weights(F32, rounds, 2 * width, width), weights(F32, rounds, 2, width, width),
            around_one(F32, rounds, 2, width), ints(nodes, edges), ints(nodes, edges, in_order=True))


@module("sampled_products_coo_grad_f32", "graphs", {"rows": 3001, "columns": 2207, "entries": 40009, "width": 72},
        {"rows": 5, "columns": 6, "entries": 13, "width": 4}, tolerance=4)
def _(rows, columns, entries, width):
    """A sparse matrix by coordinates times a dense one, entries scaled by products of rows of two; gradients."""
    def layer(values, a, b, x, row, column):
        entry = values * jax.nn.sigmoid((a[row] * b[column]).sum(-1) * width ** -0.5)
        degree = jnp.zeros(rows).at[row].add(jnp.abs(entry)) + 1e-3
        return jnp.zeros((rows, width)).at[row].add((entry / degree[row])[:, None] * x[column])
    return (of_first(4, layer), f32(rows, width), f32(entries), f32(rows, width), f32(columns, width),
            f32(columns, width), ints(rows, entries), ints(columns, entries))


@module("pillars_of_points_grad_f32", "segments", {"clouds": 3, "points": 9001, "cells": (62, 55), "width": 40},
        {"clouds": 2, "points": 17, "cells": (3, 4), "width": 4}, tolerance=4)
def _(clouds, points, cells, width):
    """Points by cells of a floor: distances to their cells' means, a layer, maxima of cells on a canvas; gradients."""
    rows, columns = cells

    def layer(features, w, bias, xyz):
        def one(features, xyz):
            place = (xyz[:, :2] * jnp.array([rows, columns], F32)).astype(I32)
            cell = place[:, 0] * columns + place[:, 1]
            count = jax.ops.segment_sum(jnp.ones(points), cell, rows * columns)
            mean = jax.ops.segment_sum(xyz, cell, rows * columns) / jnp.maximum(count, 1)[:, None]
            wide = jnp.concatenate([features, xyz, xyz - mean[cell], jnp.log1p(count)[cell][:, None]], -1)
            h = jax.nn.relu(wide @ w + bias)
            most = jax.ops.segment_max(h, cell, rows * columns)
            return jnp.where(count[:, None] > 0, most, 0).reshape(rows, columns, width)
        return jax.vmap(one)(features, xyz)
    return (of_first(3, layer), f32(clouds, rows, columns, width), f32(clouds, points, 4), weights(F32, 11, width),
            f32(width), Arg((clouds, points, 3), F32, low=0, high=1))


# Scans.

@module("exponential_gates_grad_f32", "scans", {"batch": 6, "length": 130, "heads": 4, "size": 60},
        {"batch": 2, "length": 5, "heads": 2, "size": 3}, tolerance=6)
def _(batch, length, heads, size):
    """The scalar xLSTM: four gates with recurrent blocks by head, exponentials kept in range by a running maximum."""
    def layer(x, recurrent, bias):
        def step(given, now):
            h, c, n, most = given
            z, i, f, o = now + jnp.einsum("bhs,ghst->gbht", h, recurrent) + bias[:, None]
            f = jax.nn.log_sigmoid(f)
            new = jnp.maximum(f + most, i)
            keep, take = jnp.exp(f + most - new), jnp.exp(i - new)
            c, n = keep * c + take * jnp.tanh(z), keep * n + take
            h = jax.nn.sigmoid(o) * c / jnp.maximum(n, 1e-6)
            return (h, c, n, new), h
        zero = jnp.zeros((batch, heads, size))
        return lax.scan(step, (zero, zero, zero, zero), x)[1]
    return (backward(layer), f32(length, batch, heads, size), f32(length, 4, batch, heads, size),
            weights(F32, 4, heads, size, size), f32(4, heads, size))


@module("min_gru_logarithms_grad_f32", "scans", {"batch": 5, "length": 1111, "width": 144, "inner": 216},
        {"batch": 2, "length": 7, "width": 4, "inner": 6}, tolerance=6)
def _(batch, length, width, inner):
    """A GRU without recurrent weights, in parallel: sums of logarithms of gates and of their log-sum-exps in time."""
    def layer(x, w, out, start):
        gate, hidden = jnp.split(x @ w, 2, -1)
        value = jnp.where(hidden >= 0, jnp.log(jax.nn.relu(hidden) + 0.5), -jax.nn.softplus(-hidden))
        keep, take = -jax.nn.softplus(gate), -jax.nn.softplus(-gate)
        logs = jnp.concatenate([jnp.broadcast_to(start, (batch, 1, inner)), take + value], 1)
        gone = jnp.pad(jnp.cumsum(keep, 1), ((0, 0), (1, 0), (0, 0)))
        return jnp.exp(gone + lax.cumlogsumexp(logs - gone, axis=1))[:, 1:] @ out
    x = f32(batch, length, width)
    return backward(layer), x, x, weights(F32, width, 2 * inner), weights(F32, inner, width), f32(inner)


@module("retention_chunks_grad_bf16", "scans", {"batch": 3, "chunks": 11, "chunk": 72, "heads": 6, "size": 80},
        {"batch": 2, "chunks": 2, "chunk": 3, "heads": 2, "size": 4}, tolerance=8)
def _(batch, chunks, chunk, heads, size):
    """Retention by chunks: decays of heads inside one, a state carried by a scan between them, a norm by head."""
    def layer(q, k, v, gate):
        log = jnp.log1p(-(2.0 ** (-5 - jnp.arange(heads))))[:, None, None]
        place = jnp.arange(chunk)
        apart = place[:, None] - place
        inside = jnp.where(apart >= 0, jnp.exp(log * apart), 0)
        from_start, to_end = jnp.exp(log * (place[:, None] + 1)), jnp.exp(log * (chunk - 1 - place[:, None]))

        def step(state, now):
            q, k, v = (a.astype(F32) for a in now)
            y = jnp.einsum("bhqk,bhkd->bhqd", jnp.einsum("bhqd,bhkd->bhqk", q, k) * inside, v)
            y = y + jnp.einsum("bhqd,bhde->bhqe", q * from_start, state)
            return state * jnp.exp(log * chunk) + jnp.einsum("bhkd,bhke->bhde", k * to_end, v), y
        y = lax.scan(step, jnp.zeros((batch, heads, size, size)), (q, k * size ** -0.5, v))[1]
        y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + 1e-5)
        return jax.nn.silu(gate) * y.astype(BF16)
    x = bf16(chunks, batch, heads, chunk, size)
    return backward(layer), x, x, x, x, x


# Sorts.

@module("ranks_in_groups_searched_s32", "sorts", {"rows": 70001, "groups": 911, "queries": 12007},
        {"rows": 23, "groups": 4, "queries": 9})
def _(rows, groups, queries):
    """Rows in order of group, then score downwards; ranks with ties in groups, the fourth of each, sizes up to keys."""
    def run(group, score, asked):
        order = jnp.lexsort((-score, group))
        g, s = group[order], score[order]
        place = jnp.arange(rows)
        new = jnp.concatenate([jnp.ones(1, bool), (g[1:] != g[:-1]) | (s[1:] != s[:-1])])
        start = jnp.searchsorted(g, jnp.arange(groups))
        rank = lax.cummax(jnp.where(new, place, 0)) - start[g]
        end = jnp.searchsorted(g, jnp.arange(groups), side="right")
        fourth = jnp.where(end - start > 3, order[jnp.minimum(start + 3, rows - 1)], -1)
        return jnp.zeros(rows, I32).at[order].set(rank), fourth, jnp.searchsorted(g, asked, side="right"), end - start
    return run, ints(groups, rows), ints(40, rows), ints(groups, queries)


@module("soft_suppressed_boxes_f32", "sorts", {"classes": 20, "boxes": 500, "kept": 60},
        {"classes": 3, "boxes": 9, "kept": 4}, tolerance=2, mismatch=0.01)
def _(classes, boxes, kept):
    """The best box of each class in turn; scores of the others fall by their overlap with it, not to nothing."""
    def one(scores, corners):
        area = (corners[:, 2:] - corners[:, :2]).prod(-1)

        def step(scores, _):
            best = scores.argmax()
            low, high = (f(corners[:, s], corners[best, s]) for f, s in ((jnp.maximum, slice(0, 2)),
                                                                        (jnp.minimum, slice(2, 4))))
            met = jnp.maximum(high - low, 0).prod(-1)
            overlap = met / (area + area[best] - met + 1e-9)
            return (scores * jnp.exp(-2 * overlap * overlap)).at[best].set(-1.0), (best, scores[best])
        return lax.scan(step, scores, None, length=kept)[1]

    def run(scores, centres, sizes):
        return jax.vmap(one, (0, None))(scores, jnp.concatenate([centres - sizes, centres + sizes], -1))
    return (run, Arg((classes, boxes), F32, low=0, high=1), Arg((boxes, 2), F32, low=0, high=1),
            Arg((boxes, 2), F32, low=0.02, high=0.2))


@module("depths_resampled_grad_f32", "sorts", {"rays": 3000, "coarse": 64, "fine": 96},
        {"rays": 3, "coarse": 6, "fine": 5}, tolerance=10, mismatch=2e-3)
def _(rays, coarse, fine):
    """Depths drawn by the inverse of piecewise sums of weights, sorted among the old ones, then composed; gradients."""
    def layer(colours, density, depths, u):
        depths = jnp.sort(depths, -1)
        weight = lax.stop_gradient(jax.nn.softplus(density[:, 1:-1])) + 0.01
        sums = jnp.pad(jnp.cumsum(weight / weight.sum(-1, keepdims=True), -1), ((0, 0), (1, 0)))
        middle = (depths[:, 1:] + depths[:, :-1]) / 2
        drawn = jax.vmap(jnp.interp)(u, sums, middle)
        every = jnp.sort(jnp.concatenate([depths, drawn], -1), -1)
        at = jnp.clip(jax.vmap(lambda a, v: jnp.searchsorted(a, v, side="right"))(depths, every) - 1, 0, coarse - 1)
        gap = jnp.diff(every, axis=-1, append=every[:, -1:] + 0.1)
        passed = jnp.take_along_axis(jax.nn.softplus(density), at, -1) * gap
        share = jnp.exp(passed - jnp.cumsum(passed, -1)) * (1 - jnp.exp(-passed))
        return (share[..., None] * jnp.take_along_axis(jax.nn.sigmoid(colours), at[..., None], 1)).sum(1)
    return (of_first(2, layer), f32(rays, 3), f32(rays, coarse, 3), f32(rays, coarse),
            Arg((rays, coarse), F32, low=2, high=6), Arg((rays, fine), F32, low=0, high=1))


# Experts.

@module("noisy_gates_load_grad_f32", "moe", {"tokens": 1203, "width": 200, "inner": 96, "experts": 10, "k": 3},
        {"tokens": 5, "width": 4, "inner": 3, "experts": 5, "k": 2}, tolerance=4, mismatch=1e-3)
def _(tokens, width, inner, experts, k):
    """Gates with learned noise; losses by spreads of importance and of loads that normal distributions expect."""
    def loss(x, gate, noise, up, down, drawn):
        clean, deviation = x @ gate, jax.nn.softplus(x @ noise) + 1e-2
        noisy = clean + drawn * deviation
        top, chosen = lax.top_k(noisy, k + 1)
        share = (jax.nn.one_hot(chosen[:, :k], experts) * jax.nn.softmax(top[:, :k])[..., None]).sum(1)
        least = jnp.where(noisy > top[:, k:], top[:, k:], top[:, k - 1:k])
        load = jax.scipy.stats.norm.cdf((clean - least) / deviation).sum(0)
        h = jax.nn.relu(jnp.einsum("tw,ewi->tei", x, up)) * share[..., None]
        away = jnp.square(jnp.einsum("tei,eiw->tw", h, down) - x).mean()
        return away + sum(0.1 * a.var() / (jnp.square(a.mean()) + 1e-10) for a in (share.sum(0), load))
    return (jax.value_and_grad(loss, argnums=(0, 1, 2, 3, 4)), f32(tokens, width), weights(F32, width, experts),
            weights(F32, width, experts), weights(F32, experts, width, inner), weights(F32, experts, inner, width),
            f32(tokens, experts))


@module("clamped_ragged_experts_bf16", "moe", {"tokens": 333, "width": 720, "inner": 480, "experts": 32, "k": 4},
        {"tokens": 7, "width": 6, "inner": 4, "experts": 3, "k": 2}, tolerance=6, mismatch=5e-3)
def _(tokens, width, inner, experts, k):
    """Rows sorted by expert in ragged products with biases, interleaved gates clamped, a softmax of the chosen."""
    def layer(x, gain, router, bias, up, up_bias, down, down_bias):
        h = rms_norm(x, gain)
        score, chosen = lax.top_k((h @ router).astype(F32) + bias, k)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat)
        expert, count = flat[order], jnp.bincount(flat, length=experts)
        h = lax.ragged_dot(h[order // k], up, count) + up_bias[expert]
        gate, value = jnp.minimum(h[:, ::2], 7), jnp.clip(h[:, 1::2], -7, 7)
        h = lax.ragged_dot(gate * jax.nn.sigmoid(1.702 * gate) * (value + 1), down, count) + down_bias[expert]
        back = jnp.zeros_like(h).at[order].set(h).reshape(tokens, k, width)
        return x + jnp.einsum("tkw,tk->tw", back, jax.nn.softmax(score).astype(BF16))
    return (layer, bf16(tokens, width), around_one(BF16, width), weights(BF16, width, experts), f32(experts),
            weights(BF16, experts, width, 2 * inner), bf16(experts, 2 * inner),
            weights(BF16, experts, inner, width), bf16(experts, width))


# Stencils.

@module("multigrid_cycles_f32", "stencils", {"batch": 3, "size": 320, "levels": 4, "cycles": 3},
        {"batch": 1, "size": 8, "levels": 2, "cycles": 2}, tolerance=4)
def _(batch, size, levels, cycles):
    """V-cycles of Poisson's equation: damped sweeps, means of fours downwards, repeats upwards, while not still."""
    def run(f):
        def lap(u):
            p = jnp.pad(u, ((0, 0), (1, 1), (1, 1)))
            return p[:, 2:, 1:-1] + p[:, :-2, 1:-1] + p[:, 1:-1, 2:] + p[:, 1:-1, :-2] - 4 * u

        def sweeps(u, f, count):
            return lax.fori_loop(0, count, lambda _, u: u + 0.2 * (lap(u) - f), u)

        def cycle(u, f, level):
            u = sweeps(u, f, 2 if level else 12)
            if level:
                n = f.shape[1] // 2
                coarse = 4 * (f - lap(u)).reshape(batch, n, 2, n, 2).mean((2, 4))
                fix = cycle(jnp.zeros_like(coarse), coarse, level - 1)
                u = sweeps(u + jnp.repeat(jnp.repeat(fix, 2, 1), 2, 2), f, 2)
            return u

        def body(given):
            u = cycle(given[0], f, levels - 1)
            return u, jnp.abs(f - lap(u)).max(), given[2] + 1
        return lax.while_loop(lambda a: (a[1] > 1e-6) & (a[2] < cycles), body, (jnp.zeros_like(f), jnp.inf, 0))
    return run, f32(batch, size, size)


@module("staggered_waves_grad_f32", "stencils", {"size": (130, 211), "steps": 40, "heard": 50},
        {"size": (6, 7), "steps": 3, "heard": 4}, tolerance=4)
def _(size, steps, heard):
    """Velocities and pressure on staggered grids with damped borders, scanned; what receivers hear, and gradients."""
    def loss(speed, wavelet, places, wanted):
        rows, columns = (jnp.minimum(jnp.arange(n), jnp.arange(n)[::-1]) for n in size)
        calm = 1 - 0.1 * jnp.exp(-0.1 * jnp.minimum(rows[:, None], columns[None]).astype(F32))

        @jax.checkpoint
        def step(given, now):
            p, vx, vy = given
            vx = calm * (vx + 0.4 * (jnp.pad(p[1:], ((0, 1), (0, 0))) - p))
            vy = calm * (vy + 0.4 * (jnp.pad(p[:, 1:], ((0, 0), (0, 1))) - p))
            apart = vx - jnp.pad(vx[:-1], ((1, 0), (0, 0))) + vy - jnp.pad(vy[:, :-1], ((0, 0), (1, 0)))
            p = (calm * (p + 0.4 * speed * apart)).at[size[0] // 2, size[1] // 3].add(now)
            return (p, vx, vy), p[3, places]
        zero = jnp.zeros(size)
        return jnp.square(lax.scan(step, (zero, zero, zero), wavelet)[1] - wanted).mean()
    return (jax.value_and_grad(loss, argnums=(0, 1)), around_one(F32, *size), f32(steps), ints(size[1], heard),
            f32(steps, heard))
