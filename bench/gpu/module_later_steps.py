"""More modules of modules.py, by a fifth author who had not read the compiler: losses, optimizers, tables, graphs,
scans and sorts. module_later_layers.py and module_later_odds.py have the other families."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, I32, Arg, backward, bf16, f32, ints, module, weights
from module_odd_blocks import f16, grad_of

U32 = jnp.uint32


# Losses.

@module("arcface_margin_grad_bf16", "losses", {"rows": 777, "width": 512, "classes": 10575},
        {"rows": 7, "width": 8, "classes": 13}, tolerance=4)
def _(rows, width, classes):
    """Angles to the centres of classes, a margin for the label's own, gradients to both sides."""
    def loss(x, centres, labels):
        x, c = (a.astype(F32) for a in (x, centres))
        x = (x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-6)).astype(BF16)
        c = (c / (jnp.linalg.norm(c, axis=-1, keepdims=True) + 1e-6)).astype(BF16)
        cos = jnp.clip(jnp.dot(x, c.T, preferred_element_type=F32), -0.99, 0.99)
        own = jnp.take_along_axis(cos, labels[:, None], 1)
        moved = own * jnp.cos(0.5) - jnp.sqrt(1 - own * own) * jnp.sin(0.5)
        logits = 64 * jnp.where(jax.nn.one_hot(labels, classes, dtype=bool), moved, cos)
        return (jax.scipy.special.logsumexp(logits, -1) - 64 * moved[:, 0]).mean()
    return jax.value_and_grad(loss, (0, 1)), bf16(rows, width), bf16(classes, width), ints(classes, rows)


@module("dpo_pairs_50257_grad_bf16", "losses", {"pairs": 3, "length": 129, "width": 768, "classes": 50257},
        {"pairs": 2, "length": 5, "width": 8, "classes": 37}, tolerance=4)
def _(pairs, length, width, classes):
    """Preferred and refused answers from hidden states, sums of logs over real tokens, a reference's sums."""
    def loss(h, table, tokens, lengths, reference):
        logits = jnp.einsum("bld,vd->blv", h, table, preferred_element_type=F32)
        of = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)[..., 0]
        sums = jnp.where(jnp.arange(length) < lengths[:, None], of, 0).sum(1) / 30
        gain = (sums - reference).reshape(2, pairs)
        return -jax.nn.log_sigmoid(gain[0] - gain[1]).mean()
    rows = 2 * pairs
    return (jax.value_and_grad(loss, (0, 1)), bf16(rows, length, width), bf16(classes, width, scale=width ** -0.5),
            ints(classes, rows, length), ints(length + 1, rows, low=1), f32(rows))


@module("vicreg_grad_f32", "losses", {"rows": 1280, "width": 2048}, {"rows": 9, "width": 5})
def _(rows, width):
    def loss(x, y):
        def one(z):
            z = z - z.mean(0)
            cov = z.T @ z / (rows - 1)
            off = jnp.square(cov).sum() - jnp.square(jnp.diagonal(cov)).sum()
            return jax.nn.relu(1 - jnp.sqrt(z.var(0) + 1e-4)).mean() + 0.04 * off / width
        return 25 * jnp.square(x - y).mean() + one(x) + one(y)
    return jax.value_and_grad(loss, (0, 1)), f32(rows, width), f32(rows, width)


@module("lovasz_softmax_grad_f32", "losses", {"pixels": 33 * 1280, "classes": 9}, {"pixels": 23, "classes": 3},
        tolerance=4, mismatch=0.01)
def _(pixels, classes):
    """Errors of each class sorted downwards, the Jaccard index's differences as weights."""
    def loss(logits, labels):
        shares = jax.nn.softmax(logits, 0)
        truth = (labels == jnp.arange(classes)[:, None]).astype(F32)
        errors = jnp.abs(truth - shares)
        order = jnp.argsort(-errors, axis=-1)
        ranked, real = (jnp.take_along_axis(a, order, -1) for a in (errors, truth))
        left = real.sum(-1, keepdims=True)
        jaccard = 1 - (left - jnp.cumsum(real, -1)) / (left + jnp.cumsum(1 - real, -1))
        steps = jnp.diff(jaccard, axis=-1, prepend=0)
        return (ranked * steps).sum(-1).mean()
    return jax.value_and_grad(loss), f32(classes, pixels, scale=1.5), ints(classes, pixels)


@module("sinkhorn_transport_grad_f32", "losses", {"batch": 5, "left": 257, "right": 130, "width": 33, "steps": 20},
        {"batch": 2, "left": 5, "right": 4, "width": 3, "steps": 4}, tolerance=3)
def _(batch, left, right, width, steps):
    """Optimal transport of point clouds by log-domain steps in a scan, gradients through all of them."""
    def loss(x, y):
        cost = jnp.square(x[:, :, None] - y[:, None]).sum(-1) / width

        def one(state, _):
            f, g = state
            f = -0.5 * (jax.nn.logsumexp((g[:, None] - cost) / 0.5, -1) - jnp.log(right))
            g = -0.5 * (jax.nn.logsumexp((f[:, :, None] - cost) / 0.5, 1) - jnp.log(left))
            return (f, g), None
        (f, g), _ = lax.scan(one, (jnp.zeros((batch, left)), jnp.zeros((batch, right))), None, steps)
        return (f.mean(-1) + g.mean(-1)).sum()
    return jax.value_and_grad(loss, (0, 1)), f32(batch, left, width), f32(batch, right, width)


@module("soft_dtw_grad_f32", "losses", {"batch": 9, "length": 65, "width": 33}, {"batch": 2, "length": 5, "width": 3},
        tolerance=3)
def _(batch, length, width):
    """Dynamic time warping's soft minimum along antidiagonals in a scan, its gradient by grad."""
    def loss(x, y):
        cost = jnp.square(x[:, :, None] - y[:, None]).mean(-1)
        i = jnp.arange(length)
        column = jnp.arange(2 * length - 1)[:, None] - i
        inside = (column >= 0) & (column < length)
        diagonals = cost[:, i[None, :], jnp.clip(column, 0, length - 1)].transpose(1, 0, 2)

        def one(state, given):
            before, last = state
            cost, inside, first = given
            pad = jnp.full((batch, 1), 1e4)
            corner, up = (jnp.concatenate([pad, a[:, :-1]], 1) for a in (before, last))
            corner = jnp.where(first & (i == 0), 0.0, corner)
            three = jnp.stack([corner, up, last], -1)
            now = cost - 0.5 * jax.nn.logsumexp(-three / 0.5, -1)
            return (last, jnp.where(inside, now, 1e4)), None
        start = jnp.full((batch, length), 1e4)
        first = jnp.arange(2 * length - 1) == 0
        return lax.scan(one, (start, start), (diagonals, inside, first))[0][1][:, -1].mean()
    return jax.value_and_grad(loss, (0, 1)), f32(batch, length, width), f32(batch, length, width)


# Optimizers.

@module("schedule_free_adam_bf16", "optimizers", {"width": 1280, "inner": 3456, "layers": 3},
        {"width": 5, "inner": 7, "layers": 2}, tolerance=2)
def _(width, inner, layers):
    """Schedule-free AdamW over a tree in bf16 with stochastic rounding by hashed bits; atan2 in place of epsilon."""
    def step(params, z, v, grads, count):
        t = count.astype(F32) + 1
        c = 1 / t

        def rounded(wide, salt):
            bits = lax.bitcast_convert_type(wide, U32)
            noise = (jnp.arange(wide.size, dtype=U32).reshape(wide.shape) * U32(2654435761) + U32(salt)) >> 16
            return lax.bitcast_convert_type(((bits + noise) >> 16).astype(jnp.uint16), BF16)
        leaves, made = jax.tree.structure(params), []
        for i, (p, z, v, g) in enumerate(zip(*map(jax.tree.leaves, (params, z, v, grads)))):
            g = g.astype(F32)
            v = 0.99 * v + 0.01 * g * g
            z = z - 0.01 * (jnp.arctan2(g, jnp.sqrt(v / (1 - 0.99 ** t))) + 0.1 * z)
            made.append((rounded((1 - c) * p.astype(F32) + c * z, i), z, v))
        return [jax.tree.unflatten(leaves, one) for one in zip(*made)]
    def tree(type_, **how):
        return [{"in": Arg((width, inner), type_, **how), "out": Arg((inner, width), type_, **how),
                 "gain": Arg((width,), type_, **how)} for _ in range(layers)]
    return step, tree(BF16), tree(F32), tree(F32, low=0.1, high=1), tree(BF16), ints(100)


@module("lbfgs_two_loops_f32", "optimizers", {"size": 1250007, "kept": 9}, {"size": 31, "kept": 3}, tolerance=3)
def _(size, kept):
    """A direction by two loops over a ring of pairs, a backtracking search on Rosenbrock's function."""
    def value(x):
        return (10 * jnp.square(x[1:] - x[:-1] ** 2) + jnp.square(1 - x[:-1])).mean()

    def step(x, moves, turns, count):
        g = jax.grad(value)(x)
        order = (count - 1 - jnp.arange(kept)) % kept
        rho = 1 / jnp.maximum((moves * turns).sum(-1), 1e-3)

        def down(q, i):
            a = rho[i] * jnp.vdot(moves[i], q)
            return q - a * turns[i], a
        q, alphas = lax.scan(down, g, order)
        q = q * 0.05

        def up(q, given):
            i, a = given
            return q + moves[i] * (a - rho[i] * jnp.vdot(turns[i], q)), None
        q = lax.scan(up, q, (order, alphas), reverse=True)[0]
        start, slope = value(x), jnp.vdot(g, q)
        rate = lax.while_loop(lambda r: (value(x - r * q) > start - 1e-4 * r * slope) & (r > 1e-3),
                              lambda r: r / 2, jnp.float32(0.5))
        new = x - rate * q
        at = count % kept
        return new, moves.at[at].set(new - x), turns.at[at].set(jax.grad(value)(new) - g), count + 1
    pairs = Arg((kept, size), F32, low=0.05, high=0.1)
    return step, f32(size, scale=0.3), pairs, pairs, ints(99, low=1)


# Tables and graphs.

@module("vq_ema_codebooks_f32", "embeddings", {"rows": 5130, "books": 3, "codes": 1024, "size": 33},
        {"rows": 11, "books": 2, "codes": 5, "size": 4}, mismatch=0.01)
def _(rows, books, codes, size):
    """Residual quantisation by three books, their moving sums updated, dead codes replaced by rows."""
    def step(x, tables, counts, sums):
        left, made, which = x, [], []
        for b in range(books):
            far = jnp.square(tables[b]).sum(-1) - 2 * left @ tables[b].T
            at = far.argmin(-1)
            count = 0.99 * counts[b] + 0.01 * jnp.zeros(codes).at[at].add(1.0)
            total = 0.99 * sums[b] + 0.01 * jnp.zeros((codes, size)).at[at].add(left)
            new = jnp.where((count < 0.3)[:, None], left[jnp.arange(codes) % rows], total / count[:, None])
            left = left - tables[b][at]
            made.append((new, count, total))
            which.append(at)
        return [jnp.stack(a) for a in zip(*made)], jnp.stack(which, -1), x - left
    table = f32(books, codes, size)
    return step, f32(rows, size), table, Arg((books, codes), F32, low=0.1, high=2), table


@module("egnn_coordinates_grad_f32", "segments", {"nodes": 2999, "edges": 33333, "width": 64},
        {"nodes": 5, "edges": 17, "width": 4}, tolerance=2)
def _(nodes, edges, width):
    """Equivariant messages by distances, coordinates and features moved by sums over edges."""
    def net(x, h, p, s, r):
        apart = x[s] - x[r]
        square = jnp.square(apart).sum(-1, keepdims=True)
        m = jax.nn.silu(h[s] @ p["s"] + h[r] @ p["r"] + square * p["d"])
        m = m * jax.nn.sigmoid(m @ p["gate"])
        moved = jax.ops.segment_sum(apart / (jnp.sqrt(square + 1e-6) + 1) * jnp.tanh(m @ p["x"]), r, nodes)
        count = jax.ops.segment_sum(jnp.ones(edges), r, nodes)[:, None]
        total = jax.ops.segment_sum(m, r, nodes)
        return x + moved / jnp.maximum(count, 1), h + jax.nn.silu(jnp.concatenate([h, total], -1) @ p["h"])
    x, h = f32(nodes, 3), f32(nodes, width)
    p = {"s": weights(F32, width, width), "r": weights(F32, width, width), "d": f32(width, scale=0.1),
         "gate": weights(F32, width, 1), "x": weights(F32, width, 1), "h": weights(F32, 2 * width, width)}
    return grad_of(net, 3), (x, h), x, h, p, ints(nodes, edges), ints(nodes, edges)


@module("pagerank_until_f32", "segments", {"nodes": 50257, "edges": 777777}, {"nodes": 7, "edges": 29})
def _(nodes, edges):
    """Power steps over edges in a while loop, shares of nodes without a way out spread over all."""
    def run(senders, receivers):
        degree = jnp.zeros(nodes).at[senders].add(1.0)

        def body(state):
            i, rank, _ = state
            flow = jnp.where(degree > 0, rank / jnp.maximum(degree, 1), 0)
            lost = jnp.where(degree > 0, 0, rank).sum()
            new = 0.15 / nodes + 0.85 * (jax.ops.segment_sum(flow[senders], receivers, nodes) + lost / nodes)
            return i + 1, new, jnp.abs(new - rank).sum()
        return lax.while_loop(lambda s: (s[0] < 12) & (s[2] > 1e-6), body, (0, jnp.full(nodes, 1 / nodes), 1.0))
    return run, ints(nodes, edges), ints(nodes, edges)


@module("components_by_labels_s32", "segments", {"nodes": 20011, "edges": 33333}, {"nodes": 9, "edges": 8})
def _(nodes, edges):
    """Connected components: least labels over edges and pointer jumps until nothing changes."""
    def run(a, b):
        def body(state):
            label, _ = state
            low = jnp.minimum(label[a], label[b])
            new = label.at[a].min(low).at[b].min(low)
            new = new[new]
            return new, (new != label).any()
        label = lax.while_loop(lambda s: s[1], body, (jnp.arange(nodes), True))[0]
        return label, jnp.bincount(label, length=nodes).max()
    return run, ints(nodes, edges), ints(nodes, edges)


# Scans and dynamic programming.

@module("kalman_joseph_f32", "scans", {"batch": 777, "length": 50, "state": 6, "seen": 2},
        {"batch": 3, "length": 5, "state": 4, "seen": 2}, tolerance=4)
def _(batch, length, state, seen):
    """Filters of many tracks: 2 × 2 inverses by hand, Joseph's form, a backward smoother's gains are left out."""
    def run(z, f, h, start):
        q, r = 0.01 * jnp.eye(state), 0.1 * jnp.eye(seen)

        def step(carry, z):
            x, p = carry
            x, p = x @ f.T, f @ p @ f.T + q
            s = h @ p @ h.T + r
            det = s[:, 0, 0] * s[:, 1, 1] - s[:, 0, 1] * s[:, 1, 0]
            inverse = jnp.stack([s[:, 1, 1], -s[:, 0, 1], -s[:, 1, 0], s[:, 0, 0]], -1).reshape(-1, 2, 2)
            inverse = inverse / det[:, None, None]
            gain = p @ h.T @ inverse
            y = z - x @ h.T
            x = x + jnp.einsum("bij,bj->bi", gain, y)
            keep = jnp.eye(state) - gain @ h
            p = keep @ p @ keep.swapaxes(1, 2) + gain @ r @ gain.swapaxes(1, 2)
            like = -0.5 * (jnp.einsum("bi,bij,bj->b", y, inverse, y) + jnp.log(det))
            return (x, p), (x, like)
        p = jnp.broadcast_to(jnp.eye(state), (batch, state, state))
        (_, p), (xs, like) = lax.scan(step, (start, p), z)
        return xs, like.sum(0), p
    return (run, f32(length, batch, seen), weights(F32, state, state), f32(seen, state), f32(batch, state))


@module("viterbi_paths_s32", "scans", {"batch": 33, "length": 129, "tags": 77}, {"batch": 2, "length": 5, "tags": 4})
def _(batch, length, tags):
    """Best paths: maxima and their places forwards, the places read backwards."""
    def run(emissions, moves):
        def forward(score, e):
            both = score[:, :, None] + moves
            return both.max(1) + e, both.argmax(1)
        score, back = lax.scan(forward, emissions[0], emissions[1:])
        last = score.argmax(-1)

        def read(at, back):
            at = jnp.take_along_axis(back, at[:, None], 1)[:, 0]
            return at, at
        path = lax.scan(read, last, back, reverse=True)[1]
        return jnp.concatenate([path, last[None]]), score.max(-1)
    return run, f32(length, batch, tags), f32(tags, tags)


@module("edit_distances_s32", "scans", {"batch": 65, "length": 130}, {"batch": 3, "length": 6})
def _(batch, length):
    """Levenshtein by rows: a scan over letters, within a row a running minimum."""
    def run(a, b):
        places = jnp.arange(length + 1)

        def row(last, given):
            letter, i = given
            free = jnp.minimum(last[:, 1:] + 1, last[:, :-1] + (b != letter[:, None]))
            free = jnp.concatenate([jnp.full((batch, 1), i + 1), free], 1)
            now = lax.cummin(free - places, axis=1) + places
            return now, now[:, -1]
        start = jnp.broadcast_to(places, (batch, length + 1))
        return lax.scan(row, start, (a.T, jnp.arange(length)))
    return run, ints(4, batch, length), ints(4, batch, length)


@module("hgrn_gates_reverse_grad_bf16", "scans", {"batch": 5, "length": 777, "width": 512},
        {"batch": 2, "length": 7, "width": 5}, tolerance=4)
def _(batch, length, width):
    """Gated recurrences both ways by associative scans of f32, outputs in bf16, gradients of both."""
    def run(x, gate, low):
        f = jax.nn.sigmoid(low) + (1 - jax.nn.sigmoid(low)) * jax.nn.sigmoid(gate.astype(F32))
        u = (1 - f) * jax.nn.silu(x.astype(F32))

        def join(a, b):
            return a[0] * b[0], b[0] * a[1] + b[1]
        there, back = (lax.associative_scan(join, (f, u), axis=1, reverse=r)[1] for r in (False, True))
        return (there * jnp.tanh(back)).astype(BF16)
    x = bf16(batch, length, width)
    return backward(run), x, x, x, f32(width)


# Sorts.

@module("sparsemax_heads_grad_f32", "sorts", {"rows": 1280, "width": 777}, {"rows": 3, "width": 9})
def _(rows, width):
    """Projections onto the simplex by a sort and running sums; entmax of 1.5 by bisection beside it."""
    def run(x):
        z = -jnp.sort(-x, -1)
        sums = jnp.cumsum(z, -1)
        k = jnp.arange(1, width + 1)
        count = (1 + k * z > sums).sum(-1, keepdims=True)
        tau = (jnp.take_along_axis(sums, count - 1, -1) - 1) / count
        low = lax.stop_gradient(x.max(-1, keepdims=True)) / 2 - 1
        for i in range(12):
            middle = low + 2.0 ** -(i + 1)
            low = jnp.where(jnp.square(jax.nn.relu(x / 2 - middle)).sum(-1, keepdims=True) >= 1, middle, low)
        return jax.nn.relu(x - tau), jnp.square(jax.nn.relu(x / 2 - lax.stop_gradient(low)))
    x = f32(rows, width)
    return backward(run), (x, x), x


@module("boxes_suppressed_f32", "sorts", {"images": 3, "boxes": 777, "kept": 100},
        {"images": 2, "boxes": 9, "kept": 4})
def _(images, boxes, kept):
    """Non-maximum suppression: sorted by score, the overlaps' matrix, a loop that strikes out, the best 100."""
    def one(corner, size, score):
        order = jnp.argsort(-score)
        a, b = corner[order], corner[order] + size[order]
        cut = jnp.maximum(jnp.minimum(b[:, None], b) - jnp.maximum(a[:, None], a), 0).prod(-1)
        area = size[order].prod(-1)
        over = cut / (area[:, None] + area - cut) > 0.3

        def strike(i, alive):
            return alive & ~(over[i] & alive[i] & (jnp.arange(boxes) > i))
        alive = lax.fori_loop(0, boxes, strike, jnp.ones(boxes, bool))
        best, at = lax.top_k(jnp.where(alive, score[order], -1.0), kept)
        return jnp.concatenate([a, b], -1)[at], best, order[at]
    return (jax.vmap(one), Arg((images, boxes, 2), F32, low=0, high=9), Arg((images, boxes, 2), F32, low=0.5, high=2),
            Arg((images, boxes), F32, low=0, high=1))


@module("beam_search_whole_b3_f16", "sorts",
        {"batch": 3, "beams": 5, "steps": 12, "width": 256, "classes": 10001},
        {"batch": 2, "beams": 3, "steps": 4, "width": 8, "classes": 17}, tolerance=3, mismatch=0.1)
def _(batch, beams, steps, width, classes):
    """A recurrent model within the loop: top of beams × words, states and texts reordered, ends kept."""
    def run(state, w, table, head):
        def step(i, carry):
            state, text, score, over = carry
            word = jnp.where(i > 0, lax.dynamic_index_in_dim(text, jnp.maximum(i - 1, 0), 2, False), 1)
            state = jnp.tanh(jnp.concatenate([state, table[word]], -1) @ w)
            logs = jax.nn.log_softmax((state @ head).astype(F32))
            logs = jnp.where(over[..., None], jnp.where(jnp.arange(classes) == 0, 0.0, -jnp.inf), logs)
            best, at = lax.top_k((score[..., None] + logs).reshape(batch, -1), beams)
            beam, word = at // classes, at % classes
            state = jnp.take_along_axis(state, beam[..., None], 1)
            text = jnp.take_along_axis(text, beam[..., None], 1).at[:, :, i].set(word)
            return state, text, best, jnp.take_along_axis(over, beam, 1) | (word == 0)
        first = jnp.where(jnp.arange(beams) == 0, 0.0, -1e9) * jnp.ones((batch, 1))
        return lax.fori_loop(0, steps, step, (state, jnp.zeros((batch, beams, steps), I32), first,
                                              jnp.zeros((batch, beams), bool)))[1:3]
    return (run, f16(batch, beams, width), weights(jnp.float16, 2 * width, width), f16(classes, width),
            Arg((width, classes), jnp.float16, 2 * width ** -0.5))
