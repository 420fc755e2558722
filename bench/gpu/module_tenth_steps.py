"""More modules of modules.py by the author of module_tenth_layers.py: steps of decoding, optimizers, embeddings,
segments, scans, sorts, experts, stencils, sampling and spectra."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, I32, Arg, around_one, backward, bf16, f32, ints, key, key_of, layer_norm,
                             module, rms_norm, weights)
from module_tenth_layers import conv


def of_parameters(function, data):
    """(cotangent, parameters, data) -> gradients of the parameters; data: how many arguments have none."""
    def run(g, *arguments):
        cut = len(arguments) - data
        return jax.vjp(lambda *p: function(*p, *arguments[cut:]), *arguments[:cut])[1](g)
    return run


# Steps of decoding.

@module("shared_prompt_and_own_tails_b26_bf16", "decode", {"batch": 26, "heads": 28, "groups": 4, "size": 128,
        "prompt": 1531, "tail": 190}, {"batch": 3, "heads": 4, "groups": 2, "size": 4, "prompt": 9, "tail": 6},
        tolerance=4, donated={5: 1, 6: 2})
def _(batch, heads, groups, size, prompt, tail):
    """Rows that share the cache of one prompt and have tails of their own: two softmaxes merged by their sums."""
    width, rows = heads * size, jnp.arange(batch)

    def turned(a, at):
        angles = at[:, None] * 1e6 ** (-jnp.arange(0, size, 2) / size)
        sine, cosine = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
        low, high = jnp.split(a.astype(F32), 2, -1)
        return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1).astype(BF16)

    def part(scores, values, how):
        most = scores.max(-1, keepdims=True)
        share = jnp.exp(scores - most)
        y = jnp.einsum(how, share.astype(BF16), values, preferred_element_type=F32)
        return y, most, share.sum(-1, keepdims=True)

    def step(x, gain, wqkv, bias, out, keys, values, prompt_keys, prompt_values, lengths):
        qkv = (rms_norm(x, gain) @ wqkv + bias).reshape(batch, heads + 2 * groups, size)
        q, k, v = jnp.split(qkv, [heads, heads + groups], 1)
        keys = keys.at[rows, lengths].set(turned(k, prompt + lengths))
        values = values.at[rows, lengths].set(v)
        q = turned(q, prompt + lengths).reshape(batch, groups, heads // groups, size) * size ** -0.5
        old = jnp.einsum("bghd,kgd->bghk", q, prompt_keys, preferred_element_type=F32)
        own = jnp.einsum("bghd,bkgd->bghk", q, keys, preferred_element_type=F32)
        own = jnp.where((jnp.arange(tail) <= lengths[:, None])[:, None, None], own, -1e30)
        a, most_a, sum_a = part(old, prompt_values, "bghk,kgd->bghd")
        b, most_b, sum_b = part(own, values, "bghk,bkgd->bghd")
        most = jnp.maximum(most_a, most_b)
        a_share, b_share = jnp.exp(most_a - most), jnp.exp(most_b - most)
        y = (a * a_share + b * b_share) / (sum_a * a_share + sum_b * b_share)
        return x + y.astype(BF16).reshape(batch, width) @ out, keys, values
    both = (heads + 2 * groups) * size
    own, shared = bf16(batch, tail, groups, size), bf16(prompt, groups, size)
    return (step, bf16(batch, width), around_one(BF16, width), weights(BF16, width, both), bf16(both, scale=0.3),
            weights(BF16, width, width), own, own, shared, shared, ints(tail, batch))


@module("generalised_delta_time_mix_step_b21_bf16", "decode", {"batch": 21, "heads": 32, "size": 64,
        "ranks": (64, 64, 32, 128)}, {"batch": 2, "heads": 2, "size": 4, "ranks": (2, 3, 2, 3)}, tolerance=6,
        donated={1: 1, 2: 2})
def _(batch, heads, size, ranks):
    """A recurrent step of one token: six shifted mixtures, low ranks for decays and gates, a state that unlearns."""
    width = heads * size

    def step(x, previous, state, first, p):
        h = layer_norm(x, p["gain"], p["bias"])
        r, w, k, v, a, g = h + (previous - h) * p["mix"][:, None]

        def low(a, i, inner=lambda a: a):
            return (inner(a @ p["in"][i]) @ p["out"][i]).astype(F32)

        def by_head(a):
            return a.astype(F32).reshape(batch, heads, size)
        decay = by_head(jnp.exp(-0.606531 * jax.nn.sigmoid(p["base"][0] + low(w, 0, jnp.tanh))))
        rate = by_head(jax.nn.sigmoid(p["base"][1] + low(a, 1)))
        r, k, v = r @ p["rkv"][0], k @ p["rkv"][1], by_head(v @ p["rkv"][2])
        v = v + (by_head(first) - v) * by_head(jax.nn.sigmoid(p["base"][2] + low(h, 2)))
        gate = low(g, 3, jax.nn.sigmoid)
        gone = by_head(k * p["scales"][0])
        gone = gone * lax.rsqrt(jnp.square(gone).sum(-1, keepdims=True) + 1e-6)
        r, k = by_head(r), by_head(k) * (1 + (rate - 1) * by_head(p["scales"][1][None].repeat(batch, 0)))
        unlearnt = jnp.einsum("bhvk,bhk->bhv", state, -gone)
        state = (state * decay[:, :, None] + unlearnt[..., None] * (gone * rate)[:, :, None]
                 + v[..., None] * k[:, :, None])
        y = jnp.einsum("bhvk,bhk->bhv", state, r)
        y = y - y.mean(-1, keepdims=True)
        y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + 64e-5)
        bonus = (r * k * p["bonus"]).sum(-1, keepdims=True) * v
        y = ((y + bonus).reshape(batch, width) * gate).astype(BF16)
        return x + y @ p["back"], h, state
    square = weights(BF16, 3, width, width)
    p = {"gain": around_one(BF16, width), "bias": bf16(width, scale=0.1), "mix": Arg((6, width), BF16, low=0, high=1),
         "in": [weights(BF16, width, n) for n in ranks], "out": [weights(BF16, n, width) for n in ranks],
         "base": f32(3, width), "rkv": square, "scales": around_one(BF16, 2, width),
         "bonus": f32(heads, size, scale=0.1), "back": weights(BF16, width, width)}
    x = bf16(batch, width)
    return step, x, x, f32(batch, heads, size, size, scale=0.3), x, p


# Optimizers.

@module("rows_and_columns_normed_in_rounds_bf16", "optimizers", {"width": 1152, "narrow": 256, "inner": 4608,
        "rounds": 5}, {"width": 6, "narrow": 4, "inner": 9, "rounds": 3}, tolerance=3, donated={0: 0})
def _(width, narrow, inner, rounds):
    """No state for matrices, whose gradients get rows and columns of norm one in turn; sign momentum for vectors."""
    tree = {"q": (width, width), "kv": (2, width, narrow), "up": (width, inner), "down": (inner, width),
            "norms": (4, width), "scale": (width,)}

    def step(params, grads, momentum, rate):
        def matrix(p, g):
            rows, columns = g.shape
            g = g.astype(F32)
            for _ in range(rounds):
                g = g * (columns ** 0.5 / (jnp.sqrt(jnp.square(g).sum(1, keepdims=True)) + 1e-8))
                g = g * (rows ** 0.5 / (jnp.sqrt(jnp.square(g).sum(0, keepdims=True)) + 1e-8))
            return (p.astype(F32) - rate * (g + 0.1 * p.astype(F32))).astype(BF16)
        moved, kept = {}, {}
        for name, p in params.items():
            if name in momentum:
                g = grads[name].astype(F32)
                kept[name] = 0.99 * momentum[name] + 0.01 * g
                moved[name] = (p - rate * jnp.sign(0.9 * momentum[name] + 0.1 * g)).astype(BF16)
            else:
                moved[name] = (jax.vmap(matrix) if p.ndim == 3 else matrix)(p, grads[name])
        return moved, kept
    of = {name: bf16(*shape) for name, shape in tree.items()}
    return (step, of, of, {name: f32(*tree[name]) for name in ("norms", "scale")}, Arg((), F32, low=0.01, high=0.1))


@module("private_gradients_of_each_example_f32", "optimizers", {"batch": 96, "widths": (640, 250, 126, 62),
        "clip": 15}, {"batch": 3, "widths": (5, 4, 3, 2), "clip": 1}, tolerance=4)
def _(batch, widths, clip):
    """Differential privacy: vmapped gradients clipped one by one, summed, Gaussian noise by threefry, momentum."""
    def loss(p, x, label):
        for w, b in p[:-1]:
            x = jnp.tanh(x @ w + b)
        return -jax.nn.log_softmax(x @ p[-1][0] + p[-1][1])[label]

    def step(p, momentum, x, labels, data, noise, clip):
        values, each = jax.vmap(jax.value_and_grad(loss), (None, 0, 0))(p, x, labels)
        norms = jnp.sqrt(sum(jnp.square(g).reshape(batch, -1).sum(1) for g in jax.tree.leaves(each)))
        factor = jnp.minimum(1, clip / norms)
        leaves, structure = jax.tree.flatten(each)
        keys = jax.random.split(key_of(data), len(leaves))
        total = [(jnp.einsum("b,b...->...", factor, g) + clip * noise * jax.random.normal(k, g.shape[1:])) / batch
                 for g, k in zip(leaves, keys)]
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, jax.tree.unflatten(structure, total))
        p = jax.tree.map(lambda p, m: p - 0.3 * m, p, momentum)
        return p, momentum, values.mean(), (norms > clip).mean()
    p = [(weights(F32, i, o), f32(o, scale=0.1)) for i, o in zip(widths, widths[1:])]
    return (step, p, p, f32(batch, widths[0]), ints(widths[-1], batch), key(), Arg((), F32, low=0.5, high=1.5),
            Arg((), F32, low=clip, high=1.2 * clip))


# Embeddings.

@module("clicks_26_fields_pairwise_dots_grad_f32", "embeddings", {"batch": 2050, "fields": 26, "rows": 78003,
        "dense": 13, "width": 48, "inner": 200}, {"batch": 5, "fields": 3, "rows": 40, "dense": 2, "width": 4,
        "inner": 6}, tolerance=4)
def _(batch, fields, rows, dense, width, inner):
    """Adverts: 26 tables of many sizes in one, dots of all pairs of fields, two nets, a binary loss; gradients."""
    sizes = [max(3, rows * (i + 1) ** 2 * 6 // (fields * (fields + 1) * (2 * fields + 1)) - 1) for i in range(fields)]
    starts = [sum(sizes[:i]) for i in range(fields)]
    below = [(i, j) for i in range(fields + 1) for j in range(i)]

    def loss(p, numbers, raw, labels):
        h = jnp.log1p(numbers)
        h = jax.nn.relu(jax.nn.relu(h @ p["in"]) @ p["to"])
        ids = raw % jnp.array(sizes) + jnp.array(starts)
        every = jnp.concatenate([h[:, None], p["table"][ids]], 1)
        dots = jnp.einsum("bfw,bgw->bfg", every, every)
        i, j = (jnp.array(a) for a in zip(*below))
        h = jax.nn.relu(jnp.concatenate([h, dots[:, i, j]], -1) @ p["top"] + p["bias"])
        logits = h @ p["last"]
        return (jax.nn.softplus(logits) - labels * logits).mean(), logits
    p = {"in": weights(F32, dense, 96), "to": weights(F32, 96, width), "table": f32(rows, width, scale=0.3),
         "top": weights(F32, width + len(below), inner), "bias": f32(inner, scale=0.1),
         "last": f32(inner, scale=inner ** -0.5)}
    return (jax.value_and_grad(loss, has_aux=True), p, Arg((batch, dense), F32, low=0, high=9),
            ints(2 ** 31 - 1, batch, fields), Arg((batch,), F32, low=0, high=1))


@module("graph_paths_as_biases_tables_grad_f32", "embeddings", {"graphs": 24, "nodes": 54, "heads": 8, "size": 20,
        "hops": 5, "kinds": 100}, {"graphs": 2, "nodes": 5, "heads": 2, "size": 3, "hops": 2, "kinds": 7}, tolerance=4)
def _(graphs, nodes, heads, size, hops, kinds):
    """Graphs as sequences: tables of degrees, of distances and of edges along paths bias attention; gradients."""
    width = heads * size

    def layer(degrees, distances, edges, by_hop, atoms, qkv, out, atom, degree, apart, path):
        x = atoms[atom] + degrees[0, degree[..., 0]] + degrees[1, degree[..., 1]]
        x = x - x.mean(-1, keepdims=True)
        x = x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)
        walked = jnp.einsum("gijth,th->gijh", edges[path], by_hop) / jnp.clip(apart, 1, hops)[..., None]
        bias = jnp.moveaxis(distances[apart] + walked, -1, 1)
        q, k, v = jnp.split((x @ qkv).reshape(graphs, nodes, heads, 3 * size), 3, -1)
        scores = jnp.einsum("gqhd,gkhd->ghqk", q, k) * size ** -0.5 + bias
        share = jax.nn.softmax(jnp.where(apart[:, None] < 2 * hops + 5, scores, -1e9))
        return x + jnp.einsum("ghqk,gkhd->gqhd", share, v).reshape(x.shape) @ out
    return (of_parameters(layer, 4), f32(graphs, nodes, width), f32(2, 16, width, scale=0.3),
            f32(2 * hops + 6, heads, scale=0.3), f32(kinds, heads), f32(hops, heads), f32(kinds, width),
            weights(F32, width, 3 * width), weights(F32, width, width), ints(kinds, graphs, nodes),
            ints(16, graphs, nodes, 2), ints(2 * hops + 6, graphs, nodes, nodes),
            ints(kinds, graphs, nodes, nodes, hops))


# Segments.

@module("angles_of_edge_pairs_forces_f32", "segments", {"nodes": 1501, "edges": 9001, "pairs": 60007, "width": 64,
        "radial": 6, "angular": 7, "low": 32}, {"nodes": 5, "edges": 9, "pairs": 14, "width": 4, "radial": 2,
        "angular": 3, "low": 3}, tolerance=8)
def _(nodes, edges, pairs, width, radial, angular, low):
    """Directional messages: sines of distances times Chebyshev angles gate edges that meet; forces by gradients."""
    def energy(at, p, atoms, send, receive, incoming, outgoing):
        apart = at[send] - at[receive]
        distance = jnp.sqrt(jnp.square(apart).sum(-1) + 0.25)
        fade = jnp.square(jax.nn.relu(1 - distance / 9))
        waves = jnp.sin(distance[:, None] * jnp.arange(1, radial + 1) * (jnp.pi / 9)) / distance[:, None]
        waves = waves * fade[:, None]
        cosine = -(apart[incoming] * apart[outgoing]).sum(-1) / (distance[incoming] * distance[outgoing])
        turns = [jnp.ones_like(cosine), cosine]
        while len(turns) < angular:
            turns.append(2 * cosine * turns[-1] - turns[-2])
        basis = (jnp.stack(turns, -1)[..., None] * waves[incoming, None]).reshape(pairs, -1)
        h = p["atoms"][atoms]
        message = jax.nn.silu(jnp.concatenate([h[send], h[receive], waves], -1) @ p["edge"])
        small = jax.nn.silu((message * (waves @ p["wave"])) @ p["down"])
        met = jax.ops.segment_sum(small[incoming] * (basis @ p["angle"]), outgoing, edges)
        message = message + jax.nn.silu(met @ p["up"])
        of_node = jax.ops.segment_sum(message * (waves @ p["wave"]), receive, nodes)
        each = jax.nn.silu(of_node @ p["node"]) @ p["last"]
        return each.sum(), each

    def run(at, *rest):
        (total, each), slope = jax.value_and_grad(energy, has_aux=True)(at, *rest)
        return total, each, -slope
    p = {"atoms": f32(95, width), "edge": weights(F32, 2 * width + radial, width), "wave": weights(F32, radial, width),
         "down": weights(F32, width, low), "angle": weights(F32, radial * angular, low),
         "up": weights(F32, low, width), "node": weights(F32, width, width), "last": f32(width, scale=width ** -0.5)}
    return (run, f32(nodes, 3, scale=2.5), p, ints(95, nodes), ints(nodes, edges), ints(nodes, edges),
            ints(edges, pairs), ints(edges, pairs, in_order=True))


@module("relations_of_46_kinds_by_bases_grad_f32", "segments", {"nodes": 3003, "edges": 24007, "kinds": 46,
        "bases": 8, "inputs": 96, "outputs": 64}, {"nodes": 5, "edges": 14, "kinds": 3, "bases": 2, "inputs": 4,
        "outputs": 3}, tolerance=4)
def _(nodes, edges, kinds, bases, inputs, outputs):
    """A layer of relations: matrices of kinds as sums of eight bases, means for each node and kind; gradients."""
    def layer(x, basis, share, own, bias, send, receive, kind):
        mixed = jnp.einsum("ni,bio->nbo", x, basis)
        message = jnp.einsum("ebo,eb->eo", mixed[send], share[kind])
        place = receive * kinds + kind
        count = jax.ops.segment_sum(jnp.ones(edges), place, nodes * kinds)
        total = jax.ops.segment_sum(message / count[place][:, None], receive, nodes)
        return jax.nn.relu(total + x @ own + bias)
    return (of_parameters(layer, 3), f32(nodes, outputs), f32(nodes, inputs), weights(F32, bases, inputs, outputs),
            f32(kinds, bases, scale=bases ** -0.5), weights(F32, inputs, outputs), f32(outputs, scale=0.2),
            ints(nodes, edges), ints(nodes, edges), ints(kinds, edges))


# Scans.

@module("irregular_times_continuous_cell_grad_f32", "scans", {"batch": 37, "length": 36, "inputs": 41, "width": 128,
        "inner": 160}, {"batch": 2, "length": 4, "inputs": 3, "width": 4, "inner": 5}, tolerance=6)
def _(batch, length, inputs, width, inner):
    """A closed continuous cell over uneven times: two states blended by a gate of elapsed time; gaps; gradients."""
    def layer(x, start, into, bias, heads, head_bias, elapsed, seen):
        def step(h, now):
            x, dt, seen = now
            z = 1.7159 * jnp.tanh(0.6667 * (jnp.concatenate([x, h], -1) @ into + bias))
            a, b, slope, shift = jnp.split(z @ heads + head_bias, 4, -1)
            gate = jax.nn.sigmoid(slope * dt[:, None] + shift)
            new = jnp.tanh(a) * (1 - gate) + jnp.tanh(b) * gate
            h = jnp.where(seen[:, None] > 0, new, h)
            return h, h
        return lax.scan(step, start, (x, elapsed, seen))[1]
    return (of_parameters(layer, 2), f32(length, batch, width), f32(length, batch, inputs), f32(batch, width),
            weights(F32, inputs + width, inner), f32(inner, scale=0.2), weights(F32, inner, 4 * width),
            f32(4 * width, scale=0.2), Arg((length, batch), F32, low=0, high=2), ints(4, length, batch))


@module("hidden_states_by_log_products_f32", "scans", {"batch": 19, "length": 501, "states": 6, "symbols": 90},
        {"batch": 2, "length": 7, "states": 3, "symbols": 5}, tolerance=4)
def _(batch, length, states, symbols):
    """A hidden Markov model in logarithms: associative products of matrices both ways, posteriors, expected counts."""
    def run(first, change, emit, words):
        first, change, emit = (jax.nn.log_softmax(a) for a in (first, change, emit))
        told = emit.T[words]
        known = jax.nn.logsumexp(told, -1, keepdims=True) - jnp.log(float(states))
        told = told - known
        steps = change + told[:, :, None]
        ahead = jnp.concatenate([jnp.broadcast_to(first + told[:, :1], (batch, states, states))[:, None],
                                 steps[:, 1:]], 1)

        def join(a, b):
            return jax.nn.logsumexp(a[..., :, :, None] + b[..., None, :, :], -2)
        alpha = lax.associative_scan(join, ahead, axis=1)[:, :, 0]
        behind = lax.associative_scan(lambda a, b: join(b, a), steps[:, 1:], reverse=True, axis=1)
        beta = jnp.pad(jax.nn.logsumexp(behind, -1), ((0, 0), (0, 1), (0, 0)))
        whole = jax.nn.logsumexp(alpha[:, -1], -1)
        chance = jnp.exp(alpha + beta - whole[:, None, None])
        pairs = alpha[:, :-1, :, None] + steps[:, 1:] + beta[:, 1:, None] - whole[:, None, None, None]
        counts = jnp.zeros((symbols, states)).at[words.reshape(-1)].add(chance.reshape(-1, states))
        return whole + known.sum((1, 2)), chance, jnp.exp(pairs).sum((0, 1)), counts
    return (run, f32(states), f32(states, states), f32(states, symbols), ints(symbols, batch, length))


# Sorts.

@module("clouds_sliced_and_sorted_transport_grad_f32", "sorts", {"points": 1999, "width": 72, "directions": 200},
        {"points": 7, "width": 3, "directions": 4}, tolerance=4, mismatch=1e-3)
def _(points, width, directions):
    """Two clouds along random directions, sorted, the distances of equal ranks to the power 1.5; gradients of both."""
    def loss(a, b, data):
        slices = jax.random.normal(key_of(data), (directions, width))
        slices = slices * lax.rsqrt(jnp.square(slices).sum(-1, keepdims=True))
        one, two = (jnp.sort(jnp.einsum("dw,pw->dp", slices, c), -1) for c in (a, b))
        each = ((jnp.square(one - two) + 1e-6) ** 0.75).mean(-1)
        return each.mean(), each
    return (jax.value_and_grad(loss, argnums=(0, 1), has_aux=True), f32(points, width),
            Arg((points, width), F32, low=-1, high=2), key())


@module("nearest_20_points_edge_maxima_grad_f32", "sorts", {"clouds": 5, "points": 1000, "k": 20, "width": 48,
        "outputs": 64}, {"clouds": 2, "points": 7, "k": 3, "width": 3, "outputs": 4}, tolerance=6, mismatch=3e-3)
def _(clouds, points, k, width, outputs):
    """Point clouds: the twenty nearest by top_k, a layer of pairs, the maximum over neighbours; gradients."""
    def layer(x, w, gain, bias, at):
        apart = jnp.square(at[:, :, None] - at[:, None]).sum(-1)
        near = lax.top_k(-apart, k)[1]
        rows = jax.vmap(lambda x, i: x[i])(x, near)
        pair = jnp.concatenate([jnp.broadcast_to(x[:, :, None], rows.shape), rows - x[:, :, None]], -1)
        return jax.nn.leaky_relu(pair @ w * gain + bias, 0.2).max(2)
    return (of_parameters(layer, 1), f32(clouds, points, outputs), f32(clouds, points, width),
            weights(F32, 2 * width, outputs), around_one(F32, outputs), f32(outputs), f32(clouds, points, 3))


# Experts.

@module("single_neuron_experts_by_two_keys_b600_bf16", "moe", {"tokens": 600, "width": 512, "heads": 4, "keys": 128,
        "size": 64, "k": 16}, {"tokens": 3, "width": 6, "heads": 2, "keys": 5, "size": 4, "k": 2}, tolerance=4,
        mismatch=1e-2)
def _(tokens, width, heads, keys, size, k):
    """Experts of one neuron each, 16384 of them: pairs of the best of two sets of keys, rows gathered and summed."""
    def run(x, query, sides, down, up):
        q = jnp.einsum("tw,whsd->thsd", x, query, preferred_element_type=F32)
        best, at = lax.top_k(jnp.einsum("thsd,skd->thsk", q, sides), k)
        total = (best[:, :, 0, :, None] + best[:, :, 1, None]).reshape(tokens, heads, k * k)
        index = (at[:, :, 0, :, None] * keys + at[:, :, 1, None]).reshape(tokens, heads, k * k)
        best, chosen = lax.top_k(total, k)
        index = jnp.take_along_axis(index, chosen, -1)
        hidden = jnp.einsum("tw,thkw->thk", x, down[index], preferred_element_type=F32)
        hidden = (jax.nn.gelu(hidden) * jax.nn.softmax(best)).astype(BF16)
        y = jnp.einsum("thk,thkw->tw", hidden, up[index], preferred_element_type=F32)
        return y.astype(BF16), jnp.zeros(keys * keys).at[index].add(jax.nn.softmax(best))
    return (run, bf16(tokens, width), Arg((width, heads, 2, size), BF16, width ** -0.5),
            f32(2, keys, size, scale=size ** -0.5), bf16(keys * keys, width, scale=width ** -0.5),
            bf16(keys * keys, width))


@module("experts_rows_padded_to_blocks_of_32_bf16", "moe", {"tokens": 700, "width": 512, "inner": 384, "experts": 24,
        "k": 4, "block": 32}, {"tokens": 5, "width": 4, "inner": 3, "experts": 3, "k": 2, "block": 2}, tolerance=4,
        mismatch=5e-3)
def _(tokens, width, inner, experts, k, block):
    """Sorted rows padded so that no block has two experts, weights gathered by block, one batched gated product."""
    blocks = -(-tokens * k // block) + experts

    def run(x, router, up, down):
        logits = jnp.dot(x, router, preferred_element_type=F32)
        best, chosen = lax.top_k(logits, k)
        share, flat = jax.nn.softmax(best), chosen.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        counts = jnp.bincount(flat, length=experts)
        ends = jnp.cumsum((counts + block - 1) // block)
        starts = (ends - (counts + block - 1) // block) * block
        within = jnp.arange(tokens * k) - (jnp.cumsum(counts) - counts)[flat[order]]
        place = jnp.zeros(tokens * k, I32).at[order].set(starts[flat[order]] + within)
        sent = jnp.zeros((blocks * block, width), BF16).at[place].set(jnp.repeat(x, k, 0), unique_indices=True)
        expert = jnp.minimum(jnp.searchsorted(ends, jnp.arange(blocks), side="right"), experts - 1)
        gate, value = jnp.split(jnp.einsum("nbw,nwi->nbi", sent.reshape(blocks, block, width), up[expert]), 2, -1)
        back = jnp.einsum("nbi,niw->nbw", jax.nn.silu(gate) * value, down[expert]).reshape(-1, width)
        y = jnp.einsum("tkw,tk->tw", back[place.reshape(tokens, k)].astype(F32), share)
        return x + y.astype(BF16), counts, ends[-1]
    return (run, bf16(tokens, width), weights(BF16, width, experts), weights(BF16, experts, width, 2 * inner),
            weights(BF16, experts, inner, width))


# Stencils.

@module("shocks_fifth_order_weights_three_stages_f32", "stencils", {"size": (190, 260), "steps": 6},
        {"size": (6, 7), "steps": 2}, tolerance=4)
def _(size, steps):
    """Shocks on a torus: split fluxes by weighted sums of three stencils in both axes, three stages for each step."""
    def side(f, axis, way):
        """The value between a place and the next one, from the side of the place."""
        a, b, c, d, e = (jnp.roll(f, -way * i, axis) for i in (-2, -1, 0, 1, 2))
        rough = (13 / 12 * jnp.square(a - 2 * b + c) + jnp.square(a - 4 * b + 3 * c) / 4,
                 13 / 12 * jnp.square(b - 2 * c + d) + jnp.square(b - d) / 4,
                 13 / 12 * jnp.square(c - 2 * d + e) + jnp.square(3 * c - 4 * d + e) / 4)
        w = [share / jnp.square(r + 1e-3) for share, r in zip((0.1, 0.6, 0.3), rough)]
        found = (2 * a - 7 * b + 11 * c, 5 * c - b + 2 * d, 2 * c + 5 * d - e)
        return sum(w * f for w, f in zip(w, found)) / (6 * sum(w))

    def run(u):
        fastest = jnp.abs(u).max()
        dt = 0.3 / jnp.maximum(fastest, 1e-3)

        def slope(u):
            total = 0
            for axis in (0, 1):
                ahead, back = (u * u / 2 + fastest * u) / 2, (u * u / 2 - fastest * u) / 2
                flux = side(ahead, axis, 1) + jnp.roll(side(back, axis, -1), -1, axis)
                total = total + flux - jnp.roll(flux, 1, axis)
            return -total

        def step(_, u):
            one = u + dt * slope(u)
            two = 0.75 * u + 0.25 * (one + dt * slope(one))
            return u / 3 + 2 / 3 * (two + dt * slope(two))
        u = lax.fori_loop(0, steps, step, u)
        return u, jnp.square(u).mean(0), jnp.abs(u - jnp.roll(u, 1, 1)).sum(1)
    return run, f32(*size, scale=0.5)


@module("cells_grown_by_a_learned_rule_grad_f32", "stencils", {"batch": 6, "size": 45, "channels": 16, "hidden": 96,
        "steps": 5}, {"batch": 1, "size": 5, "channels": 4, "hidden": 6, "steps": 2}, tolerance=8, mismatch=3e-3)
def _(batch, size, channels, hidden, steps):
    """Cells that see themselves and two slopes, a small net's updates at random places, the dead wiped; gradients."""
    def alive(x):
        return lax.reduce_window(x[..., 3:4], -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") > 0.1

    def loss(p, x, target, data):
        sobel = jnp.outer(jnp.array([1.0, 2, 1]), jnp.array([-1.0, 0, 1])) / 8
        centre = jnp.zeros((3, 3)).at[1, 1].set(1)
        kernel = jnp.tile(jnp.stack([centre, sobel, sobel.T], -1)[:, :, None], (1, 1, 1, channels))

        def step(x, i):
            before = alive(x)
            seen = conv(x, kernel, feature_group_count=channels)
            new = jax.nn.relu(seen @ p["in"] + p["bias"]) @ p["out"]
            fire = jax.random.bernoulli(jax.random.fold_in(key_of(data), i), 0.5, (batch, size, size, 1))
            x = x + new * fire
            return x * (before & alive(x)), jnp.square(new).mean()
        x, sizes = lax.scan(step, x, jnp.arange(steps))
        each = jnp.square(x[..., :4] - target).mean((1, 2, 3))
        return each.mean(), (x, sizes)
    p = {"in": weights(F32, 3 * channels, hidden), "bias": f32(hidden, scale=0.1),
         "out": f32(hidden, channels, scale=0.2 * hidden ** -0.5)}
    return (jax.value_and_grad(loss, has_aux=True), p, f32(batch, size, size, channels),
            Arg((batch, size, size, 4), F32, low=0, high=1), key())


# Sampling.

@module("patches_hidden_at_random_restored_grad_bf16", "sampling", {"images": 33, "patches": 196, "kept": 49,
        "pixels": 192, "width": 384, "narrow": 256}, {"images": 2, "patches": 8, "kept": 3, "pixels": 6, "width": 4,
        "narrow": 5}, tolerance=6)
def _(images, patches, kept, pixels, width, narrow):
    """Random patches kept by sorted noise, encoded, put back among mask tokens, one head, normed pixels; gradients."""
    def loss(p, x, data):
        noise = jax.random.uniform(key_of(data), (images, patches))
        order = jnp.argsort(noise, 1)
        back = jnp.argsort(order, 1)
        h = (x.astype(BF16) @ p["embed"] + p["places"])
        h = jnp.take_along_axis(h, order[:, :kept, None], 1)
        h = h + jax.nn.gelu(layer_norm(h, p["gain"], 0 * p["gain"]) @ p["up"]) @ p["down"]
        h = h @ p["narrow"]
        hidden = jnp.broadcast_to(p["mask"], (images, patches - kept, narrow))
        h = jnp.take_along_axis(jnp.concatenate([h, hidden], 1), back[..., None], 1) + p["places_out"]
        q, k, v = jnp.split(h @ p["qkv"], 3, -1)
        scores = jnp.einsum("nqc,nkc->nqk", q, k, preferred_element_type=F32) * narrow ** -0.5
        h = h + jnp.einsum("nqk,nkc->nqc", jax.nn.softmax(scores).astype(BF16), v)
        h = jax.nn.gelu(h @ p["mix"]) @ p["pixels"]
        wanted = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)
        each = jnp.square(h.astype(F32) - wanted).mean(-1)
        masked = (back >= kept).astype(F32)
        return (each * masked).sum() / masked.sum(), masked
    p = {"embed": weights(BF16, pixels, width), "places": bf16(patches, width, scale=0.3),
         "gain": around_one(BF16, width), "up": weights(BF16, width, 4 * width),
         "down": weights(BF16, 4 * width, width), "qkv": weights(BF16, narrow, 3 * narrow),
         "narrow": weights(BF16, width, narrow), "mask": bf16(narrow, scale=0.3),
         "places_out": bf16(patches, narrow, scale=0.3), "mix": weights(BF16, narrow, 4 * narrow),
         "pixels": weights(BF16, 4 * narrow, pixels)}
    return jax.value_and_grad(loss, has_aux=True), p, f32(images, patches, pixels), key()


@module("obvious_words_excluded_sigma_cut_b19_100352_f32", "sampling", {"batch": 19, "classes": 100352},
        {"batch": 3, "classes": 40}, tolerance=4, mismatch=0.11)
def _(batch, classes):
    """Logits within some deviations of the best, all obvious words but the least of them left out by chance, a draw."""
    def run(logits, heat, sigmas, data):
        one, two = jax.random.split(key_of(data))
        wide = logits.astype(F32) / heat[:, None]
        wide = jnp.where(wide >= wide.max(-1, keepdims=True) - sigmas * wide.std(-1, keepdims=True), wide, -jnp.inf)
        share = jax.nn.softmax(wide)
        obvious = share > 0.04
        least = jnp.where(obvious, share, 2).min(-1, keepdims=True)
        dropped = obvious & (share > least) & jax.random.bernoulli(one, 0.5, (batch, 1))
        wide = jnp.where(dropped, -jnp.inf, wide)
        drawn = jax.random.categorical(two, wide)
        logs = jax.nn.log_softmax(wide)
        entropy = -jnp.where(wide > -jnp.inf, jnp.exp(logs) * logs, 0).sum(-1)
        return drawn, entropy, dropped.sum(-1), (wide > -jnp.inf).sum(-1)
    return (run, f32(batch, classes, scale=3), Arg((batch,), F32, low=0.7, high=1.3),
            Arg((), F32, low=1.2, high=1.6), key())


# Spectra.

@module("reverberation_in_parts_960_grad_f32", "fourier", {"batch": 16, "blocks": 50, "block": 480, "parts": 12},
        {"batch": 2, "blocks": 4, "block": 6, "parts": 2}, tolerance=6)
def _(batch, blocks, block, parts):
    """A room's response in twelve parts: spectra of blocks, delayed sums of products, overlapping halves; gradients."""
    def layer(x, noise, decay, wet):
        time = jnp.arange(parts * block) / (parts * block)
        room = (noise * jnp.exp(-decay[:, None] * time)).reshape(-1, parts, block)
        told = jnp.fft.rfft(x.reshape(batch, blocks, block), 2 * block)
        room = jnp.fft.rfft(room, 2 * block)
        padded = jnp.pad(told, ((0, 0), (parts - 1, 0), (0, 0)))
        total = sum(padded[:, parts - 1 - i:parts - 1 - i + blocks] * room[:, i, None] for i in range(parts))
        y = jnp.fft.irfft(total, 2 * block)
        y = y[..., :block] + jnp.pad(y[:, :-1, block:], ((0, 0), (1, 0), (0, 0)))
        return x + wet[:, None] * y.reshape(batch, -1)
    x = f32(batch, blocks * block)
    return (backward(layer), x, x, f32(batch, parts * block, scale=0.05), Arg((batch,), F32, low=3, high=9),
            Arg((batch,), F32, low=0.1, high=0.5))


@module("blurs_undone_by_learned_filters_grad_f32", "fourier", {"images": 5, "size": (180, 250), "taps": 13,
        "pad": 15, "filters": 8}, {"images": 2, "size": (6, 8), "taps": 3, "pad": 2, "filters": 2}, tolerance=6)
def _(images, size, taps, pad, filters):
    """Wiener's inverse of each picture's own blur, penalised by spectra of learned 5 x 5 filters; gradients."""
    whole = tuple(n + 2 * pad for n in size)

    def spectrum(kernel):
        n = kernel.shape[-1]
        padded = jnp.pad(kernel, [(0, 0)] * (kernel.ndim - 2) + [(0, m - n) for m in whole])
        return jnp.fft.rfft2(jnp.roll(padded, (-(n // 2), -(n // 2)), (-2, -1)))

    def layer(x, blur, learned, strength):
        blur = jax.nn.softmax(blur.reshape(images, -1)).reshape(blur.shape)
        h = spectrum(blur)
        penalty = jnp.square(jnp.abs(spectrum(learned - learned.mean((1, 2), keepdims=True)) + 1e-3)).sum(0)
        f = jnp.fft.rfft2(jnp.pad(x, ((0, 0), (pad, pad), (pad, pad)), mode="reflect"))
        energy = jnp.square(h.real) + jnp.square(h.imag)
        y = jnp.fft.irfft2(f * jnp.conj(h) / (energy + jnp.exp(strength)[:, None, None] * penalty + 1e-2), whole)
        return y[:, pad:-pad, pad:-pad]
    x = f32(images, *size)
    return (backward(layer), x, x, f32(images, taps, taps, scale=1.5), f32(filters, 5, 5, scale=0.2),
            Arg((images,), F32, low=-4, high=-2))
