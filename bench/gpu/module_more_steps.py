"""More modules of modules.py, by an author who had not read the compiler: losses, optimizers, embeddings, segments,
scans, sorts, stencils, sampling and FFTs. module_more_layers.py has the other families."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, Arg, around_one, backward, bf16, f32, ints, key, key_of, module, weights
from module_odd_blocks import F16, f16, grad_of, layer


# Losses.

@module("smoothing_ignored_151936_grad_bf16", "losses", {"rows": 513, "classes": 151936}, {"rows": 7, "classes": 41},
        tolerance=2)
def _(rows, classes):
    """Labels of -100 do not count; smoothed by 0.1; the mean is by the labels that count."""
    def loss(logits, labels):
        logs = jax.nn.log_softmax(logits.astype(F32))
        counts = labels >= 0
        of = jnp.take_along_axis(logs, jnp.where(counts, labels, 0)[:, None], -1)[:, 0]
        each = -0.9 * of - 0.1 * logs.mean(-1)
        return jnp.where(counts, each, 0).sum() / jnp.maximum(counts.sum(), 1)

    def step(logits, labels, drop):
        return jax.value_and_grad(loss)(logits, jnp.where(drop == 0, -100, labels))
    return step, bf16(rows, classes, scale=2.0), ints(classes, rows), ints(4, rows)


@module("head_loss_checkpointed_151936_grad_bf16", "losses",
        {"parts": 4, "part": 128, "width": 640, "classes": 151936}, {"parts": 2, "part": 3, "width": 8, "classes": 41},
        tolerance=3)
def _(parts, part, width, classes):
    """A scan over parts of the tokens, each under checkpoint, so that logits are never held at once."""
    def loss(x, table, labels):
        @jax.checkpoint
        def one(total, given):
            h, y = given
            logits = jnp.einsum("td,vd->tv", h, table, preferred_element_type=F32)
            top = jax.scipy.special.logsumexp(logits, -1)
            return total + (top - jnp.take_along_axis(logits, y[:, None], -1)[:, 0]).sum(), None
        return lax.scan(one, jnp.float32(0), (x.reshape(parts, part, width), labels.reshape(parts, part)))[0]
    return (jax.value_and_grad(loss, (0, 1)), bf16(parts * part, width), bf16(classes, width, scale=width ** -0.5),
            ints(classes, parts * part))


@module("semi_hard_triplets_grad_f32", "losses", {"rows": 301, "width": 128, "classes": 23},
        {"rows": 11, "width": 5, "classes": 3}, mismatch=0.01)
def _(rows, width, classes):
    """For each pair of a class the nearest negative that is further than it, else the furthest one."""
    def loss(x, labels):
        x = x * lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-8)
        far = jnp.maximum(2 - 2 * x @ x.T, 0)
        same = labels[:, None] == labels
        harder = (~same)[:, None, :] & (far[:, None, :] > far[:, :, None])
        nearest = jnp.where(harder, far[:, None, :], jnp.inf).min(-1)
        furthest = jnp.where(same, -jnp.inf, far).max(-1, keepdims=True)
        negative = jnp.where(harder.any(-1), nearest, furthest)
        pairs = same & ~jnp.eye(rows, dtype=bool)
        return jnp.where(pairs, jnp.maximum(far - negative + 0.2, 0), 0).sum() / jnp.maximum(pairs.sum(), 1)
    return jax.value_and_grad(loss), f32(rows, width), ints(classes, rows)


@module("supervised_contrastive_grad_bf16", "losses", {"rows": 1279, "views": 2, "width": 256, "classes": 100},
        {"rows": 5, "views": 2, "width": 6, "classes": 3}, tolerance=3)
def _(rows, views, width, classes):
    """Views of a picture and pictures of a class attract each other; a learned temperature."""
    def loss(x, log_t, labels):
        x = x.astype(F32).reshape(rows * views, width)
        x = (x / jnp.linalg.norm(x, axis=-1, keepdims=True)).astype(BF16)
        scores = jnp.dot(x, x.T, preferred_element_type=F32) * jnp.exp(log_t)
        labels = jnp.repeat(labels, views)
        others = ~jnp.eye(rows * views, dtype=bool)
        same = (labels[:, None] == labels) & others
        logs = scores - jax.scipy.special.logsumexp(scores, -1, where=others, keepdims=True)
        return -(jnp.where(same, logs, 0).sum(-1) / same.sum(-1)).mean()
    return (jax.value_and_grad(loss, (0, 1)), bf16(rows, views, width), Arg((), F32, low=1.5, high=2.5),
            ints(classes, rows))


@module("grpo_clipped_kl_grad_bf16", "losses", {"groups": 3, "each": 7, "length": 130, "classes": 32000},
        {"groups": 2, "each": 3, "length": 5, "classes": 37}, tolerance=3)
def _(groups, each, length, classes):
    """Advantages of groups of answers, clipped quotients of shares, KL to a reference, masked by lengths."""
    def loss(logits, tokens, old, reference, rewards, lengths):
        logs = jax.nn.log_softmax(logits.astype(F32))
        of = jnp.take_along_axis(logs, tokens[..., None], -1)[..., 0]
        gain = rewards.reshape(groups, each)
        gain = (gain - gain.mean(1, keepdims=True)) / (gain.std(1, keepdims=True) + 1e-4)
        gain = gain.reshape(-1, 1)
        ratio = jnp.exp(of - (lax.stop_gradient(of) + old))
        taken = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain)
        kl = jnp.exp(reference) - reference - 1 + 0.1 * (of - lax.stop_gradient(of) + reference) ** 2
        real = jnp.arange(length) < lengths[:, None]
        return -(jnp.where(real, taken - 0.04 * kl, 0).sum(1) / lengths).mean()
    rows = groups * each
    return (jax.value_and_grad(loss), bf16(rows, length, classes), ints(classes, rows, length),
            f32(rows, length, scale=0.15), f32(rows, length, scale=0.2), f32(rows),
            ints(length + 1, rows, low=length // 2))


# Optimizers over trees.

def tree(width, inner, layers, type_=F32, scale=1.0):
    return {f"layer{i}": {"in": Arg((width, inner), type_, scale), "out": Arg((inner, width), type_, scale),
                          "gain": Arg((width,), type_, scale), "bias": Arg((inner,), type_, scale)}
            for i in range(layers)}


SIZES, SMALL_SIZES = {"width": 1279, "inner": 2560, "layers": 4}, {"width": 5, "inner": 7, "layers": 2}


@module("adam_accumulated_clip_bf16", "optimizers", SIZES, SMALL_SIZES, tolerance=2)
def _(width, inner, layers):
    """Three micro batches' gradients in bf16, their mean clipped by its norm, AdamW without decay of vectors."""
    def step(params, grads, m, v, count):
        mean = jax.tree.map(lambda *g: sum(a.astype(F32) for a in g) / len(g), *grads)
        norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(mean)))
        mean = jax.tree.map(lambda g: g * jnp.minimum(1, 1 / (norm + 1e-6)), mean)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, mean)
        v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * jnp.square(g), v, mean)
        t = count.astype(F32) + 1

        def move(p, m, v):
            change = m / (1 - 0.9 ** t) / (jnp.sqrt(v / (1 - 0.95 ** t)) + 1e-8)
            return p - (3e-3 * (change + (0.1 * p if p.ndim > 1 else 0))).astype(p.dtype)
        return jax.tree.map(move, params, m, v), m, v, count + 1, norm
    given, m = tree(width, inner, layers, BF16), tree(width, inner, layers, F32, 0.1)
    v = jax.tree.map(lambda a: Arg(a.shape, F32, low=0.01, high=1), m)
    return step, given, (given, given, given), m, v, ints(100, low=1)


@module("sgd_nesterov_trust_f32", "optimizers", SIZES, SMALL_SIZES)
def _(width, inner, layers):
    """LARS: decay, a rate of each array by norms, Nesterov's momentum, a cosine schedule."""
    def step(params, grads, kept, count):
        rate = 0.05 * (1 + jnp.cos(jnp.pi * count / 1000))

        def move(p, g, m):
            g = g + 1e-4 * p
            size, steep = jnp.linalg.norm(p), jnp.linalg.norm(g)
            g = g * jnp.where((size > 0) & (steep > 0), 0.02 * size / (steep + 1e-9), 1.0)
            m = 0.9 * m + g
            return p - rate * (g + 0.9 * m), m
        pairs = jax.tree.map(move, params, grads, kept)
        return jax.tree.transpose(jax.tree.structure(params), jax.tree.structure((0, 0)), pairs)
    given = tree(width, inner, layers)
    return step, given, given, given, ints(1000)


@module("shampoo_grafted_blocks_f32", "optimizers", {"rows": 1536, "columns": 1024, "block": 128, "steps": 6},
        {"rows": 8, "columns": 12, "block": 4, "steps": 6}, tolerance=5)
def _(rows, columns, block, steps):
    """Blocks of 128: sums of Gram matrices, inverse fourth roots by coupled Newton steps, Adagrad's length."""
    def root(a):
        a = a + 0.3 * jnp.trace(a, axis1=-2, axis2=-1)[:, None, None] / block * jnp.eye(block)
        z = 5 / (2 * jnp.sqrt(jnp.square(a).sum((-2, -1), keepdims=True)))

        def one(_, state):
            m, h = state
            t = (5 * jnp.eye(block) - m) / 4
            return jnp.linalg.matrix_power(t, 4) @ m, h @ t
        return lax.fori_loop(0, steps, one, (a * z, z ** 0.25 * jnp.broadcast_to(jnp.eye(block), a.shape)))[1]

    def step(p, g, left, right, total):
        cut = g.reshape(rows // block, block, columns // block, block).swapaxes(1, 2).reshape(-1, block, block)
        left = 0.95 * left + jnp.einsum("nij,nkj->nik", cut, cut)
        right = 0.95 * right + jnp.einsum("nji,njk->nik", cut, cut)
        change = root(left) @ cut @ root(right)
        change = change.reshape(rows // block, columns // block, block, block).swapaxes(1, 2).reshape(g.shape)
        total = total + jnp.square(g)
        plain = g * lax.rsqrt(total + 1e-6)
        change = change * jnp.linalg.norm(plain) / (jnp.linalg.norm(change) + 1e-9)
        return p - 0.01 * change, left, right, total
    count = (rows // block) * (columns // block)
    x, zero = f32(rows, columns), Arg((count, block, block), F32, 0.0)
    return step, x, x, zero, zero, Arg((rows, columns), F32, low=0.1, high=2)


# Embeddings.

@module("sparse_adagrad_rows_f32", "embeddings", {"rows": 50257, "width": 160, "count": 7777},
        {"rows": 23, "width": 5, "count": 11})
def _(rows, width, count):
    """Row-wise Adagrad: gradients of repeated rows are summed by sort, only rows that occur move."""
    def step(table, kept, which, grads):
        order = jnp.argsort(which, stable=True)
        ids, grads = which[order], grads[order]
        first = jnp.concatenate([jnp.ones(1, bool), ids[1:] != ids[:-1]])
        slot = jnp.cumsum(first) - 1
        summed = jax.ops.segment_sum(grads, slot, count, indices_are_sorted=True)
        ids = jnp.full(count, rows).at[slot].set(ids)
        kept = kept.at[ids].add(jnp.square(summed).mean(-1), mode="drop")
        scale = lax.rsqrt(kept.at[ids].get(mode="fill", fill_value=1.0) + 1e-8)
        return table.at[ids].add(-0.05 * summed * scale[:, None], mode="drop"), kept
    return (step, f32(rows, width), Arg((rows,), F32, low=0.1, high=2), ints(rows // 4, count), f32(count, width))


@module("bag_offsets_weighted_grad_bf16", "embeddings", {"rows": 32003, "width": 96, "bags": 2111, "count": 30011},
        {"rows": 17, "width": 5, "bags": 4, "count": 19}, tolerance=3)
def _(rows, width, bags, count):
    """Bags by offsets as in PyTorch: weighted means, gradients to the table and the weights."""
    def bag(table, weight, which, offsets):
        ids = jnp.searchsorted(offsets, jnp.arange(count), side="right") - 1
        read = table[which].astype(F32)
        sums = jax.ops.segment_sum(read * weight[:, None], ids, bags, indices_are_sorted=True)
        sizes = jax.ops.segment_sum(jnp.ones(count), ids, bags, indices_are_sorted=True)
        return (sums / jnp.maximum(sizes, 1)[:, None]).astype(BF16)

    def step(dy, table, weight, which, offsets):
        return grad_of(bag, 2)(dy, table, weight, which, offsets.at[0].set(0))
    return (step, bf16(bags, width), bf16(rows, width), f32(count), ints(rows, count),
            ints(count, bags, in_order=True))


# Segments.

@module("edge_softmax_5_heads_grad_bf16", "segments", {"nodes": 7001, "edges": 65537, "heads": 5, "size": 24},
        {"nodes": 6, "edges": 23, "heads": 2, "size": 3}, tolerance=3)
def _(nodes, edges, heads, size):
    """Transformer convolution of a graph: dot products of ends, a softmax over edges into a node, sorted."""
    def attend(q, k, v, senders, receivers):
        scores = (q[receivers].astype(F32) * k[senders].astype(F32)).sum(-1) * size ** -0.5
        top = jax.ops.segment_max(scores, receivers, nodes, indices_are_sorted=True)
        e = jnp.exp(scores - lax.stop_gradient(top)[receivers])
        total = jax.ops.segment_sum(e, receivers, nodes, indices_are_sorted=True)
        share = e / (total[receivers] + 1e-9)
        return jax.ops.segment_sum(share[..., None] * v[senders].astype(F32), receivers, nodes).astype(BF16)
    x = bf16(nodes, heads, size)
    return grad_of(attend, 3), x, x, x, x, ints(nodes, edges), ints(nodes, edges, in_order=True)


@module("segment_logsumexp_extremes_f32", "segments", {"rows": 300007, "segments": 1279, "width": 16},
        {"rows": 31, "segments": 5, "width": 3})
def _(rows, segments, width):
    """Unsorted: log-sum-exp, least, greatest, mean and spread of each segment, empty ones filled."""
    def reduce(x, ids):
        top = jax.ops.segment_max(x, ids, segments)
        low = jax.ops.segment_min(x, ids, segments)
        count = jnp.maximum(jax.ops.segment_sum(jnp.ones(rows), ids, segments), 1)[:, None]
        safe = jnp.where(jnp.isfinite(top), top, 0)
        lse = jnp.log(jax.ops.segment_sum(jnp.exp(x - safe[ids]), ids, segments) + 1e-9) + safe
        mean = jax.ops.segment_sum(x, ids, segments) / count
        spread = jax.ops.segment_sum(jnp.square(x - mean[ids]), ids, segments) / count
        return lse, safe, jnp.where(jnp.isfinite(low), low, 0), mean, jnp.sqrt(spread)
    return reduce, f32(rows, width), ints(segments, rows)


# Scans.

@module("mlstm_recurrent_f32", "scans", {"batch": 5, "length": 65, "heads": 4, "size": 96},
        {"batch": 2, "length": 5, "heads": 2, "size": 4})
def _(batch, length, heads, size):
    """xLSTM's matrix memory: exponential gates made stable by a running maximum, a normalizer, a step a token."""
    def run(q, k, v, i, f):
        def step(state, given):
            c, n, m = state
            q, k, v, i, f = given
            f = jax.nn.log_sigmoid(f)
            new = jnp.maximum(f + m, i)
            keep, add = jnp.exp(f + m - new), jnp.exp(i - new)
            c = keep[..., None, None] * c + add[..., None, None] * k[..., None] * v[..., None, :]
            n = keep[..., None] * n + add[..., None] * k
            out = jnp.einsum("bhk,bhkv->bhv", q, c)
            below = jnp.maximum(jnp.abs((n * q).sum(-1)), jnp.exp(-new))
            return (c, n, new), out / below[..., None]
        start = (jnp.zeros((batch, heads, size, size)), jnp.zeros((batch, heads, size)), jnp.zeros((batch, heads)))
        state, out = lax.scan(step, start, (q * size ** -0.5, k, v, i, f + 3))
        return out, state
    x, gate = f32(length, batch, heads, size), f32(length, batch, heads)
    return run, x, x, x, gate, gate


@module("gla_chunks_grad_bf16", "scans",
        {"batch": 3, "chunks": 12, "chunk": 64, "heads": 6, "k_size": 48, "v_size": 80},
        {"batch": 2, "chunks": 3, "chunk": 4, "heads": 2, "k_size": 4, "v_size": 6}, tolerance=4)
def _(batch, chunks, chunk, heads, k_size, v_size):
    """Gated linear attention: decays of each channel of keys, a scan over chunks, products within them."""
    def run(q, k, v, gates):
        def one(state, given):
            q, k, v, g = given
            along = jnp.cumsum(g, 1)
            q_, k_ = q.astype(F32) * jnp.exp(along), k.astype(F32) * jnp.exp(-along)
            scores = jnp.einsum("bihd,bjhd->bhij", q_, k_) * jnp.tril(jnp.ones((chunk, chunk)))
            out = jnp.einsum("bhij,bjhv->bihv", scores, v.astype(F32)) + jnp.einsum("bihd,bhdv->bihv", q_, state)
            left = k.astype(F32) * jnp.exp(along[:, -1:] - along)
            state = state * jnp.exp(along[:, -1])[..., None] + jnp.einsum("bihd,bihv->bhdv", left, v.astype(F32))
            return state, out.astype(BF16)
        parts = [jnp.moveaxis(a.reshape(batch, chunks, chunk, heads, -1), 1, 0) for a in (q, k, v)]
        decay = jax.nn.log_sigmoid(jnp.moveaxis(gates.reshape(batch, chunks, chunk, heads, -1), 1, 0)) / 16
        out = lax.scan(one, jnp.zeros((batch, heads, k_size, v_size)), (*parts, decay))[1]
        return jnp.moveaxis(out, 0, 1).reshape(v.shape)
    k, v = (bf16(batch, chunks * chunk, heads, n, scale=n ** -0.25) for n in (k_size, v_size))
    return backward(run), v, k, k, v, f32(batch, chunks * chunk, heads, k_size)


@module("lstm_2_layers_b33_f16", "scans",
        {"batch": 33, "length": 48, "width": 512}, {"batch": 3, "length": 4, "width": 6},
        tolerance=3)
def _(batch, length, width):
    """Two layers within one scan, peepholes, a cell in f32, a projection of outputs by a norm."""
    def run(x, p, lengths):
        def step(state, given):
            t, h = given
            new = []
            for (hidden, cell), w in zip(state, p):
                i, f, g, o = jnp.split((h @ w["x"] + hidden @ w["h"] + w["b"]).astype(F32), 4, -1)
                made = jax.nn.sigmoid(f + w["pf"] * cell + 1) * cell
                made = made + jax.nn.sigmoid(i + w["pi"] * cell) * jnp.tanh(g)
                out = (jax.nn.sigmoid(o) * jnp.tanh(made)).astype(F16)
                live = (t < lengths)[:, None]
                hidden, cell = jnp.where(live, out, hidden), jnp.where(live, made, cell)
                new.append((hidden, cell))
                h = layer(hidden, w["g"], w["b"][:width])
            return tuple(new), h
        zero = (jnp.zeros((batch, width), F16), jnp.zeros((batch, width)))
        return lax.scan(step, (zero, zero), (jnp.arange(length), x))
    w = {"x": weights(F16, width, 4 * width), "h": weights(F16, width, 4 * width), "b": f16(4 * width, scale=0.1),
         "pi": f32(width, scale=0.1), "pf": f32(width, scale=0.1), "g": around_one(F16, width)}
    return run, f16(length, batch, width), [w, w], ints(length + 1, batch, low=1)


@module("cumprod_cummax_grad_f32", "scans", {"rows": 1279, "length": 2049}, {"rows": 3, "length": 9})
def _(rows, length):
    """Monotonic attention: running products backwards by grad, a running maximum beside."""
    def run(x, y):
        stay = jnp.cumprod(1 - 0.02 * jax.nn.sigmoid(x), -1)
        return stay * lax.cummax(y, axis=1) + jnp.flip(jnp.cumsum(jnp.flip(stay * y, -1), -1), -1) / length
    x = f32(rows, length)
    return backward(run), x, x, x


@module("affine_2x2_and_gae_f32", "scans", {"batch": 777, "length": 513, "size": 2},
        {"batch": 3, "length": 7, "size": 2}, tolerance=2)
def _(batch, length, size):
    """Affine maps of 2 × 2 by an associative scan, forwards and in reverse; GAE of the outputs' rewards."""
    def run(a, b, rewards, values, over):
        def join(left, right):
            a1, b1 = left
            a2, b2 = right
            return jnp.einsum("...ij,...jk->...ik", a2, a1), jnp.einsum("...ij,...j->...i", a2, b1) + b2
        a = 0.5 * a / jnp.sqrt(1e-3 + jnp.square(a).sum((-2, -1), keepdims=True))
        there = lax.associative_scan(join, (a, b))[1]
        back = lax.associative_scan(join, (a, b), reverse=True)[1]
        live = jnp.where(over == 0, 0.0, 1.0)
        change = rewards + there[..., 0] + 0.99 * live * jnp.concatenate([values[1:], values[-1:]]) - values

        def step(carry, given):
            delta, live = given
            carry = delta + 0.99 * 0.95 * live * carry
            return carry, carry
        return back, lax.scan(step, jnp.zeros(batch), (change, live), reverse=True)[1]
    flat = f32(length, batch)
    return run, f32(length, batch, size, size), f32(length, batch, size), flat, flat, ints(20, length, batch)


# Sorts.

@module("sort_three_keys_s32", "sorts", {"count": 200003}, {"count": 31})
def _(count):
    """Rows by a small integer, then by a float downwards, then by an index, with a payload; ranks within groups."""
    def run(group, score, load):
        at = jnp.arange(count)
        group, down, at, load = lax.sort((group, -score, at, load), num_keys=3)
        first = jnp.searchsorted(group, jnp.arange(100))
        return group, -down, at, load, jnp.arange(count) - first[group]
    return run, ints(100, count), f32(count), f32(count)


@module("top_k_100_of_151936_bf16", "sorts",
        {"rows": 6, "classes": 151936, "k": 100}, {"rows": 2, "classes": 47, "k": 5},
        tolerance=2)
def _(rows, classes, k):
    """The best 100 of wide rows after repetition and presence penalties, with their normalized logs."""
    def run(logits, seen):
        counts = jnp.zeros((rows, classes), jnp.int32).at[jnp.arange(rows)[:, None], seen].add(1)
        x = logits.astype(F32)
        x = jnp.where(counts > 0, jnp.where(x > 0, x / 1.25, x * 1.25) - 0.1 * counts, x)
        best, which = lax.top_k(x, k)
        return best - jax.scipy.special.logsumexp(x, -1, keepdims=True), which, jax.nn.softmax(best)
    return run, bf16(rows, classes, scale=3.0), ints(classes, rows, 300 if classes > 1000 else 6)


@module("median_deviation_clip_f32", "sorts", {"rows": 33, "columns": 8193}, {"rows": 3, "columns": 9})
def _(rows, columns):
    """Outliers by the median absolute deviation of a row are clipped, a trimmed mean of what is left."""
    def run(x):
        middle = jnp.median(x, -1, keepdims=True)
        spread = 1.4826 * jnp.median(jnp.abs(x - middle), -1, keepdims=True)
        clipped = jnp.clip(x, middle - 2 * spread, middle + 2 * spread)
        trimmed = jnp.sort(clipped, -1)[:, columns // 10:columns - columns // 10].mean(-1)
        return clipped, trimmed, jnp.percentile(x, jnp.array([5.0, 95.0]), axis=-1)
    return run, f32(rows, columns)


# Stencils.

@module("lattice_boltzmann_f32", "stencils", {"height": 300, "width": 515, "steps": 12},
        {"height": 5, "width": 7, "steps": 3})
def _(height, width, steps):
    """D2Q9 in a fori_loop: collide, stream by rolls, bounce back from an obstacle."""
    moves = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1))
    back = jnp.array([0, 3, 4, 1, 2, 7, 8, 5, 6])
    share = jnp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)

    def run(f, wall):
        c = jnp.array(moves, F32)

        def step(_, f):
            mass = f.sum(0)
            u = jnp.einsum("qd,qyx->dyx", c, f) / mass
            cu = 3 * jnp.einsum("qd,dyx->qyx", c, u)
            rest = share[:, None, None] * mass * (1 + cu + 0.5 * cu * cu - 1.5 * jnp.square(u).sum(0))
            g = f + (rest - f) / 0.8
            g = jnp.where(wall == 0, f[back], g)
            return jnp.stack([jnp.roll(g[q], m, (0, 1)) for q, m in enumerate(moves)])
        return lax.fori_loop(0, steps, step, f)
    return run, Arg((9, height, width), F32, low=0.1, high=0.12), ints(9, height, width)


@module("nine_points_until_still_f32", "stencils", {"size": 777, "steps": 40}, {"size": 7, "steps": 5})
def _(size, steps):
    """A fourth-order 9-point Jacobi step with fixed edges until the mean change is small; counts its steps."""
    def solve(x, f, enough):
        def body(state):
            i, x, _ = state
            inner = (4 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
                     + x[:-2, :-2] + x[:-2, 2:] + x[2:, :-2] + x[2:, 2:] - f[1:-1, 1:-1]) / 20
            new = x.at[1:-1, 1:-1].set(inner)
            return i + 1, new, jnp.abs(new - x).mean()
        return lax.while_loop(lambda s: (s[0] < steps) & (s[2] > enough), body, (0, x, jnp.float32(1)))
    return solve, f32(size, size), f32(size, size, scale=0.2), Arg((), F32, low=1e-7, high=1e-6)


# Sampling.

@module("min_p_gumbel_b13_151936_bf16", "sampling", {"rows": 13, "classes": 151936}, {"rows": 3, "classes": 41},
        mismatch=0.01)
def _(rows, classes):
    """Temperatures and min-p of each row, one Gumbel draw, greedy where the temperature is 0."""
    def draw(data, logits, heat, least):
        logits = logits.astype(F32)
        logs = jax.nn.log_softmax(logits / jnp.maximum(heat, 1e-3)[:, None])
        keep = logs >= logs.max(-1, keepdims=True) + jnp.log(least)[:, None]
        drawn = jax.random.categorical(key_of(data), jnp.where(keep, logs, -jnp.inf))
        drawn = jnp.where(heat < 0.3, logits.argmax(-1), drawn)
        return drawn, jnp.take_along_axis(logs, drawn[:, None], -1)[:, 0], keep.sum(-1)
    return (draw, key(), bf16(rows, classes, scale=2.0), Arg((rows,), F32, low=0, high=1.5),
            Arg((rows,), F32, low=0.02, high=0.2))


@module("epoch_permutation_batches_f32", "sampling", {"count": 131101, "width": 33}, {"count": 23, "width": 3})
def _(count, width):
    """A permutation of an epoch's rows and labels, flips and noise of each row, bootstrap means by draws."""
    def run(data, x, labels):
        one, two, three, four = jax.random.split(key_of(data), 4)
        order = jax.random.permutation(one, count)
        x, labels = x[order], labels[order]
        x = jnp.where(jax.random.bernoulli(two, 0.5, (count, 1)), x[:, ::-1], x)
        x = x + 0.1 * jax.random.uniform(three, x.shape, minval=-1)
        drawn = jax.random.randint(four, (count,), 0, count)
        return x, labels, x[drawn].mean(0), jax.random.choice(four, labels, (9,))
    return run, key(), f32(count, width), ints(1000, count)


@module("dropout_gated_mlp_grad_f16", "sampling", {"rows": 1500, "width": 777, "inner": 2072},
        {"rows": 5, "width": 6, "inner": 8}, tolerance=3)
def _(rows, width, inner):
    """Dropout by threefry of hidden units and of the output, Gaussian noise of the input; a mask drawn again."""
    def mlp(x, gate, up, down, data):
        one, two, three = jax.random.split(key_of(data), 3)
        h = x + 0.05 * jax.random.normal(one, x.shape, F16)
        h = jax.nn.gelu(h @ gate) * (h @ up)
        h = jnp.where(jax.random.bernoulli(two, 0.9, h.shape), h / 0.9, 0).astype(F16)
        return x + jnp.where(jax.random.bernoulli(three, 0.8, x.shape), h @ down / 0.8, 0).astype(F16)
    x, w = f16(rows, width), weights(F16, width, inner)
    return grad_of(mlp, 4), x, x, w, w, weights(F16, inner, width), key()


# FFT.

@module("s4d_kernel_convolution_grad_f32", "fourier", {"batch": 5, "length": 1250, "width": 96, "states": 32},
        {"batch": 2, "length": 10, "width": 3, "states": 4}, tolerance=2)
def _(batch, length, width, states):
    """A diagonal state space as a kernel of complex powers, a convolution by transforms, a gate."""
    def run(x, log_step, turn, c, skip):
        a = jax.lax.complex(-0.5 * jnp.ones_like(turn), turn) * jnp.exp(log_step)[:, None]
        powers = jnp.exp(a[..., None] * jnp.arange(length))
        kernel = 2 * jnp.einsum("ws,wsl->wl", lax.complex(c[0], c[1]), powers).real / states
        both = jnp.fft.rfft(x, 2 * length) * jnp.fft.rfft(kernel, 2 * length)
        y = jnp.fft.irfft(both, 2 * length)[..., :length] + skip[:, None] * x
        return jax.nn.gelu(y)
    x = f32(batch, width, length)
    return (backward(run), x, x, Arg((width,), F32, low=-4, high=-2), Arg((width, states), F32, low=0.5, high=6),
            f32(2, width, states), f32(width))


@module("fft_overlap_add_f32", "fourier", {"signals": 33, "blocks": 40, "block": 512, "taps": 129},
        {"signals": 2, "blocks": 3, "block": 8, "taps": 5})
def _(signals, blocks, block, taps):
    """A long filter over blocks of a signal, tails added to the next block; power of each block's spectrum."""
    def run(x, taps_):
        size = 2 * block
        spectra = jnp.fft.rfft(x.reshape(signals, blocks, block), size)
        parts = jnp.fft.irfft(spectra * jnp.fft.rfft(taps_, size)[:, None], size)
        tails = jnp.pad(parts[:, :-1, block:], ((0, 0), (1, 0), (0, 0)))
        return (parts[..., :block] + tails).reshape(x.shape), jnp.square(jnp.abs(spectra)).sum(-1)
    return run, f32(signals, blocks * block), f32(signals, taps, scale=taps ** -0.5)
