"""More modules of modules.py by the author of module_eleventh_moves.py: optimizers on slices, tables, packed rows,
skewed scans, orders of space, layouts of experts and of quantised weights, pictures turned and cut, folded spectra."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, F8, I8, I32, Arg, around_one, attention, backward, bf16, f32, ints, key,
                             key_of, module, rms_norm, rotary, weights)
from module_odd_blocks import F16, U8, f16
from module_tenth_steps import of_parameters


# Optimizers.

# Three rounds of products of bf16 on both sides' own roundings, as in muon_bf16 of module_families.py.
@module("heads_of_fused_columns_orthogonalised_bf16", "optimizers", {"width": 648, "heads": 9, "size": 72,
        "inner": 1001}, {"width": 12, "heads": 3, "size": 4, "inner": 7}, tolerance=8, donated={0: 0, 2: 1})
def _(width, heads, size, inner):
    """Muon on parts of fused matrices: each head of q, k, v and of the output, gate and up of alternate columns."""
    def rounds(x):
        x = x.astype(BF16)
        x = x / (jnp.sqrt(jnp.square(x.astype(F32)).sum((1, 2), keepdims=True)) + 1e-7).astype(BF16)
        for a, b, c in ((4.08, -6.89, 2.93), (3.95, -6.3, 2.63), (3.32, -4.24, 1.58)):
            gram = x @ x.swapaxes(1, 2)
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.astype(F32)

    def step(p, g, m, rate):
        m = jax.tree.map(lambda m, g: 0.95 * m + g.astype(F32), m, g)
        u = jax.tree.map(lambda m, g: 0.95 * m + g.astype(F32), m, g)
        qkv = rounds(u["qkv"].reshape(width, 3 * heads, size).transpose(1, 2, 0))
        up = rounds(jnp.stack([u["gate_up"][:, ::2], u["gate_up"][:, 1::2]]))
        u = {"qkv": qkv.transpose(2, 0, 1).reshape(width, -1), "out": rounds(u["out"].reshape(heads, size, width)),
             "gate_up": up.transpose(1, 2, 0).reshape(width, 2 * inner)}
        return jax.tree.map(lambda p, u: p - rate * u.reshape(p.shape), p, u), m
    of = {"qkv": (width, 3 * width), "out": (width, width), "gate_up": (width, 2 * inner)}
    p = {name: f32(*shape, scale=0.1) for name, shape in of.items()}
    return step, p, {name: bf16(*shape) for name, shape in of.items()}, p, Arg((), F32, low=0.5, high=1)


@module("flat_buffer_of_shards_adamw_bf16", "optimizers", {"width": 453, "inner": 1207, "rows": 5003, "layers": 2,
        "shards": 8}, {"width": 5, "inner": 7, "rows": 11, "layers": 2, "shards": 4}, donated={2: 1, 3: 2, 4: 3})
def _(width, inner, rows, layers, shards):
    """Gradients joined to one padded buffer, one rank's slice stepped in f32, written back, cut into the tree again."""
    layer = [(width, 3 * width), (width, width), (width, inner), (inner, width)]
    shapes = [(rows, width), *layer * layers, *[(width,)] * (2 * layers + 1), (3 * width,)]
    sizes = [shape[0] * (shape + (1,))[1] for shape in shapes]
    each, decayed = -(-sum(sizes) // shards), sum(sizes[:1 + 4 * layers])

    def step(tree, grads, master, m, v, rank, count, scale):
        def flat(leaves):
            return jnp.pad(jnp.concatenate([a.reshape(-1) for a in leaves]), (0, shards * each - sum(sizes)))
        start = rank * each
        g = lax.dynamic_slice(flat(grads), (start,), (each,)).astype(F32) / scale
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        move = m / (1 - 0.9 ** count) / (jnp.sqrt(v / (1 - 0.95 ** count)) + 1e-8)
        decay = jnp.where(start + jnp.arange(each) < decayed, 0.1, 0.0)
        master = master - 0.03 * (move + decay * master)
        whole = lax.dynamic_update_slice(flat(tree), master.astype(BF16), (start,))
        ends = [sum(sizes[:i]) for i in range(1, len(sizes))]
        cut = jnp.split(whole[:sum(sizes)], ends)
        return [a.reshape(shape) for a, shape in zip(cut, shapes)], master, m, v
    tree = [bf16(*shape) for shape in shapes]
    return (step, tree, tree, f32(each), f32(each, scale=0.1), Arg((each,), F32, low=0.01, high=0.1), ints(shards),
            Arg((), F32, low=10, high=11), Arg((), F32, low=2, high=4))


# Embeddings.

@module("nibble_rows_scaled_then_bagged_f16", "embeddings", {"rows": 50021, "width": 90, "bags": 6007, "most": 21},
        {"rows": 23, "width": 6, "bags": 5, "most": 3})
def _(rows, width, bags, most):
    """A table of two nibbles a byte with a scale and an offset for each row, widened, then bags of rows, weighed."""
    def run(table, rescale, ids, share, counts):
        both = jnp.stack([table & 15, table >> 4], -1).reshape(rows, width)
        wide = both.astype(F16) * rescale[:, :1] + rescale[:, 1:]
        share = jnp.where(jnp.arange(most) < counts[:, None], share, 0)
        return jnp.einsum("bmw,bm->bw", wide[ids], share, preferred_element_type=F32).astype(F16)
    return (run, ints(256, rows, width // 2, dtype=U8), f16(rows, 2, scale=0.1), ints(rows, bags, most),
            Arg((bags, most), F16, low=0, high=1), ints(most + 1, bags))


@module("three_planes_sampled_and_decoded_grad_f32", "embeddings", {"points": 30011, "channels": 24, "size": 129,
        "hidden": 64}, {"points": 7, "channels": 3, "size": 5, "hidden": 4}, tolerance=8)
def _(points, channels, size, hidden):
    """Points projected to three channels-first planes, four corners of each, their mean to a small net; gradients."""
    def layer(planes, w, bias, out, at):
        planes = planes.transpose(0, 2, 3, 1).reshape(3, size * size, channels)
        place = (jnp.clip(at, -1, 1) + 1) * (0.5 * (size - 1.001))
        found = 0
        for plane, (a, b) in zip(planes, ((0, 1), (0, 2), (2, 1))):
            x, y = place[:, a], place[:, b]
            i, j = jnp.floor(x).astype(I32), jnp.floor(y).astype(I32)
            for di, dj in ((0, 0), (0, 1), (1, 0), (1, 1)):
                weight = (1 - jnp.abs(x - i - di)) * (1 - jnp.abs(y - j - dj))
                found = found + plane[(i + di) * size + j + dj] * weight[:, None] / 3
        y = jax.nn.softplus(found @ w + bias) @ out
        return jnp.concatenate([jax.nn.softplus(y[:, :1] - 1), jax.nn.sigmoid(y[:, 1:])], -1)
    return (of_parameters(layer, 1), f32(points, 4), f32(3, channels, size, size), weights(F32, channels, hidden),
            f32(hidden, scale=0.2), weights(F32, hidden, 4), f32(points, 3, scale=0.5))


# Segments.

@module("ragged_rows_padded_attended_repacked_f16", "segments", {"sequences": 23, "most": 301, "heads": 6, "size": 56},
        {"sequences": 3, "most": 5, "heads": 2, "size": 4}, tolerance=4)
def _(sequences, most, heads, size):
    """Packed rows of sequences of many lengths: gathered to a padded block, attention, scattered to packed rows."""
    width, rows = heads * size, sequences * most

    def layer(x, gain, qkv, out, lengths):
        starts = jnp.cumsum(lengths) - lengths
        valid = jnp.arange(most) < lengths[:, None]
        place = jnp.where(valid, starts[:, None] + jnp.arange(most), rows)
        padded = jnp.take(rms_norm(x, gain) @ qkv, place, 0, mode="fill", fill_value=0)
        q, k, v = jnp.split(padded.reshape(sequences, most, 3 * heads, size), 3, 2)
        q, k = rotary(q, jnp.arange(most)), rotary(k, jnp.arange(most))
        y = attention(q, k, v, lambda scores: jnp.where(valid[:, None, None], scores, -1e9))
        packed = jnp.zeros_like(x).at[place].set(y.reshape(sequences, most, width), mode="drop")
        return x + packed @ out, lengths.sum()
    return (layer, f16(rows, width), around_one(F16, width), weights(F16, width, 3 * width),
            weights(F16, width, width), ints(most + 1, sequences, low=most // 3))


@module("blocks_of_33_sparse_rows_grad_bf16", "segments", {"tokens": 301, "rows": 41, "columns": 37, "kept": 350,
        "block": 33}, {"tokens": 5, "rows": 4, "columns": 3, "kept": 6, "block": 3}, tolerance=4)
def _(tokens, rows, columns, kept, block):
    """A matrix of blocks in order of rows, products of gathered columns summed by rows, a gated bias; gradients."""
    def layer(x, blocks, bias, row, column):
        parts = x.reshape(tokens, columns, block).swapaxes(0, 1)[column]
        each = jnp.einsum("ntb,nbo->nto", parts, blocks, preferred_element_type=F32)
        y = jax.ops.segment_sum(each, row, rows, indices_are_sorted=True).swapaxes(0, 1)
        return jax.nn.gelu(y.reshape(tokens, -1) + bias).astype(BF16)
    return (of_parameters(layer, 2), bf16(tokens, rows * block), bf16(tokens, columns * block),
            Arg((kept, block, block), BF16, 0.1), f32(rows * block, scale=0.3), ints(rows, kept, in_order=True),
            ints(columns, kept))


# Scans.

@module("four_way_cross_scans_merged_grad_f32", "scans", {"images": 2, "size": (23, 19), "channels": 58, "states": 3,
        "rank": 4}, {"images": 1, "size": (3, 4), "channels": 4, "states": 2, "rank": 2}, tolerance=8)
def _(images, size, channels, states, rank):
    """A map by rows, by columns and both backwards, as four associative state scans, merged in place; gradients."""
    height, width = size

    def layer(x, into, dt, base, decay, skip):
        rows = x.reshape(images, channels, -1)
        both = jnp.stack([rows, x.swapaxes(2, 3).reshape(images, channels, -1)], 1)
        u = jnp.concatenate([both, both[..., ::-1]], 1)                              # [images, 4, channels, length]
        low, b, c = jnp.split(jnp.einsum("nkcl,kcr->nkrl", u, into), [rank, rank + states], 2)
        step = jax.nn.softplus(jnp.einsum("nkrl,krc->nkcl", low, dt) + base[..., None])[..., None]
        a = jnp.exp(-jnp.exp(decay)[:, :, None] * step)
        forced = step * u[..., None] * b.swapaxes(2, 3)[:, :, None]
        h = lax.associative_scan(lambda f, g: (f[0] * g[0], g[0] * f[1] + g[1]), (a, forced), axis=3)[1]
        y = jnp.einsum("nkcls,nksl->nkcl", h, c) + skip[..., None] * u
        y = y[:, :2] + y[:, 2:, :, ::-1]
        y = y[:, 0].reshape(x.shape) + y[:, 1].reshape(images, channels, width, height).swapaxes(2, 3)
        return y.transpose(0, 2, 3, 1)
    return (backward(layer), f32(images, height, width, channels), f32(images, channels, height, width),
            weights(F32, 4, channels, rank + 2 * states), weights(F32, 4, rank, channels), f32(4, channels),
            f32(4, channels, states, scale=0.5), f32(4, channels))


@module("rows_skewed_for_diagonal_memories_f32", "scans", {"batch": 9, "size": (17, 21), "channels": 31, "width": 44},
        {"batch": 2, "size": (3, 4), "channels": 3, "width": 4}, tolerance=4)
def _(batch, size, channels, width):
    """Pictures' rows skewed by pads and reshapes, so that diagonals are columns of a scan, in two directions."""
    rows, columns = size

    def one_way(x, into, own, above, bias):
        steps = rows + columns - 1
        x = jnp.pad(x @ into + bias, ((0, 0), (0, 0), (0, rows), (0, 0))).reshape(batch, -1, 4 * width)
        x = x[:, :rows * steps].reshape(batch, rows, steps, 4 * width)

        def step(carry, now):
            h, c = carry
            up = lax.pad(h, 0.0, ((0, 0, 0), (1, -1, 0), (0, 0, 0)))
            i, f, o, g = jnp.split(now + h @ own + up @ above, 4, -1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        start = jnp.zeros((batch, rows, width))
        y = lax.scan(step, (start, start), x.swapaxes(0, 2).swapaxes(1, 2))[1].transpose(1, 2, 0, 3)
        y = jnp.pad(y.reshape(batch, -1, width), ((0, 0), (0, rows), (0, 0)))
        return y.reshape(batch, rows, rows + columns, width)[:, :, :columns]

    def layer(x, into, own, above, bias):
        y, other = jax.vmap(one_way)(jnp.stack([x, x[:, :, ::-1]]), into, own, above, bias)
        return y + jnp.pad(other[:, :, ::-1], ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1]
    square = weights(F32, 2, width, 4 * width)
    return (layer, f32(batch, rows, columns, channels), weights(F32, 2, channels, 4 * width), square, square,
            f32(2, 4 * width, scale=0.2))


# Sorts.

@module("points_in_two_space_orders_patched_bf16", "sorts", {"patches": 131, "patch": 61, "heads": 4, "size": 24,
        "bits": 10}, {"patches": 3, "patch": 4, "heads": 2, "size": 4, "bits": 4}, tolerance=4)
def _(patches, patch, heads, size, bits):
    """Points sorted by interleaved bits of their cells, attention in runs of 61, put back; again with axes swapped."""
    points, width = patches * patch, heads * size

    def layer(x, at, gains, qkv, out):
        cell = (at * 2 ** bits).astype(jnp.uint32)
        for i, axes in enumerate(((0, 1, 2), (2, 0, 1))):
            code = sum(((cell[:, axis] >> bit) & 1) << (3 * bit + shift)
                       for bit in range(bits) for shift, axis in enumerate(axes))
            order = jnp.argsort(code, stable=True)
            h = rms_norm(x[order], gains[i]) @ qkv[i]
            q, k, v = h.reshape(patches, patch, 3, heads, size).transpose(2, 0, 1, 3, 4)
            y = attention(q, k, v).reshape(points, width) @ out[i]
            x = x + jnp.zeros_like(x).at[order].set(y, unique_indices=True)
        return x, order
    return (layer, bf16(points, width), Arg((points, 3), F32, low=0, high=0.999), around_one(BF16, 2, width),
            weights(BF16, 2, width, 3 * width), weights(BF16, 2, width, width))


# Experts.

@module("permuted_f8_rows_scales_by_columns_experts", "moe", {"tokens": 509, "blocks": 5, "experts": 13, "k": 3,
        "inner": 384, "capacity": 151, "block": 128}, {"tokens": 7, "blocks": 2, "experts": 3, "k": 2, "inner": 8,
        "capacity": 6, "block": 4}, tolerance=4, mismatch=1e-2)
def _(tokens, blocks, experts, k, inner, capacity, block):
    """Tokens of f8 with a scale for 128 places, permuted to slots of experts, scales transposed, products rescaled."""
    width = blocks * block

    def run(x, router, up, up_scale, down):
        best, chosen = lax.top_k(jnp.dot(x, router, preferred_element_type=F32), k)
        share, flat = jax.nn.softmax(best), chosen.T.reshape(-1)             # first choices before second ones
        hot = jax.nn.one_hot(flat, experts, dtype=I32)
        rank = jnp.take_along_axis(jnp.cumsum(hot, 0), flat[:, None], 1)[:, 0] - 1
        slot = jnp.where(rank < capacity, flat * capacity + rank, experts * capacity)
        source = jnp.full(experts * capacity, tokens).at[slot].set(jnp.arange(k * tokens) % tokens, mode="drop")
        wide = x.astype(F32).reshape(tokens, blocks, block)
        scale = jnp.maximum(jnp.abs(wide).max(-1), 1e-4) / 448
        x8 = (wide / scale[..., None]).astype(F8).reshape(tokens, width)
        sent = jnp.take(x8, source, 0, mode="fill", fill_value=0).reshape(experts, capacity, blocks, block)
        scale = jnp.take(scale.T, source, 1, mode="fill", fill_value=0).reshape(blocks, experts, capacity)
        h = jnp.einsum("ecgb,egbi->geci", sent.astype(BF16), up.astype(BF16), preferred_element_type=F32)
        h = (h * scale[..., None] * jnp.repeat(up_scale, block, -1)[:, :, None]).sum(0)
        h = (jax.nn.silu(h[..., ::2]) * h[..., 1::2]).astype(BF16)
        y = jnp.einsum("eci,eiw->ecw", h, down).reshape(-1, width)
        y = jnp.take(y, slot.reshape(k, tokens), 0, mode="fill", fill_value=0)
        return x + jnp.einsum("ktw,tk->tw", y.astype(F32), share).astype(BF16), (slot < experts * capacity).sum()
    return (run, bf16(tokens, width), weights(BF16, width, experts), Arg((experts, blocks, block, 2 * inner), F8),
            Arg((blocks, experts, 2 * inner // block), F32, low=0.02, high=0.04), weights(BF16, experts, inner, width))


# Convolutions.

@module("involution_5x5_unfolded_grad_f16", "convolutions", {"images": 11, "size": (37, 41), "groups": 3, "each": 17,
        "taps": 5, "narrow": 13}, {"images": 2, "size": (4, 5), "groups": 2, "each": 2, "taps": 3, "narrow": 3},
        tolerance=8)
def _(images, size, groups, each, taps, narrow):
    """Every pixel makes its own 5 x 5 filters, which weigh its unfolded surroundings, shared in groups; gradients."""
    channels = groups * each

    def layer(x, reduce, bias, span):
        filters = jax.nn.relu(x @ reduce + bias) @ span
        filters = filters.reshape(images, *size, groups, 1, taps * taps)
        around = lax.conv_general_dilated_patches(x, (taps, taps), (1, 1), "SAME",
                                                  dimension_numbers=("NHWC", "HWIO", "NHWC"))
        around = around.reshape(images, *size, groups, each, taps * taps)
        return (around * filters).sum(-1).reshape(x.shape)
    x = f16(images, *size, channels)
    return (backward(layer), x, x, weights(F16, channels, narrow), f16(narrow, scale=0.2),
            weights(F16, narrow, groups * taps * taps))


@module("eight_turned_copies_upscaled_by_3_f16", "convolutions", {"images": 2, "size": (90, 127), "width": 32,
        "factor": 3}, {"images": 1, "size": (4, 5), "width": 4, "factor": 2}, tolerance=4)
def _(images, size, width, factor):
    """A small channels-first net and a pixel shuffle on eight flips and transposes, undone and averaged, rounded."""
    def net(x, p):
        def conv(x, w):
            return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        n, _, height, columns = x.shape
        h = jax.nn.relu(conv(x, p["in"]) + p["bias"][:, None, None])
        h = h + conv(jax.nn.relu(conv(h, p["one"])), p["two"])
        h = conv(h, p["out"]).reshape(n, 3, factor, factor, height, columns)
        h = h.transpose(0, 1, 4, 2, 5, 3).reshape(n, 3, height * factor, columns * factor)
        return h + jnp.repeat(jnp.repeat(x, factor, 2), factor, 3)

    def run(x, p):
        total = 0
        for turn in (False, True):
            a = x.swapaxes(2, 3) if turn else x
            a = jnp.concatenate([a, a[:, :, ::-1], a[..., ::-1], a[:, :, ::-1, ::-1]])
            one, two, three, four = jnp.split(net(a, p).astype(F32), 4)
            y = one + two[:, :, ::-1] + three[..., ::-1] + four[:, :, ::-1, ::-1]
            total = total + (y.swapaxes(2, 3) if turn else y)
        return (total / 8).astype(F16)

    def kernel(outputs, inputs):
        return f16(outputs, inputs, 3, 3, scale=(9 * inputs) ** -0.5)
    p = {"in": kernel(width, 3), "bias": f16(width, scale=0.2), "one": kernel(width, width),
         "two": kernel(width, width), "out": kernel(3 * factor * factor, width)}
    return run, Arg((images, 3, *size), F16, low=0, high=1), p


@module("channels_moved_in_time_block_grad_bf16", "convolutions", {"videos": 3, "frames": 7, "size": (29, 27),
        "channels": 120}, {"videos": 2, "frames": 3, "size": (3, 4), "channels": 8}, tolerance=4)
def _(videos, frames, size, channels):
    """An eighth of the channels from the frame before, one from the next, then a 3 x 3 convolution; gradients."""
    fold = channels // 8

    def layer(x, kernel, gain, bias):
        time = x.reshape(videos, frames, *size, channels)
        before = jnp.pad(time[:, :-1, ..., :fold], ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))
        after = jnp.pad(time[:, 1:, ..., fold:2 * fold], ((0, 0), (0, 1), (0, 0), (0, 0), (0, 0)))
        h = jnp.concatenate([before, after, time[..., 2 * fold:]], -1).reshape(x.shape)
        h = lax.conv_general_dilated(h, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return x + jax.nn.relu(h * gain + bias)
    x = bf16(videos * frames, *size, channels)
    return (backward(layer), x, x, Arg((3, 3, channels, channels), BF16, (9 * channels) ** -0.5),
            around_one(BF16, channels), bf16(channels, scale=0.2))


# Pools.

@module("phase_of_most_energy_kept_bf16", "pools", {"images": 11, "size": (113, 95), "channels": 72},
        {"images": 3, "size": (5, 7), "channels": 4}, tolerance=2)
def _(images, size, channels):
    """Of the four phases of every second pixel the strongest for each image, and the same one of what skips ahead."""
    def run(x, taps, gain, bias):
        padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
        height, width = size
        h = sum(padded[:, i:i + height, j:j + width] * taps[i, j] for i in range(3) for j in range(3))
        h = jax.nn.relu(h * gain + bias)

        def phases(a):
            a = jnp.pad(a, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)))
            a = a.reshape(images, (height + 1) // 2, 2, (width + 1) // 2, 2, channels)
            return a.transpose(0, 2, 4, 1, 3, 5).reshape(images, 4, (height + 1) // 2, (width + 1) // 2, channels)
        four = phases(h)
        chosen = jnp.argmax(jnp.square(four[:, :, :-1, :-1].astype(F32)).sum((2, 3, 4)), 1)
        take = jax.vmap(lambda a, i: lax.dynamic_index_in_dim(a, i, 0, keepdims=False))
        return take(four, chosen) + take(phases(x), chosen), chosen
    return (run, bf16(images, *size, channels), bf16(3, 3, channels, scale=0.3), around_one(BF16, channels),
            bf16(channels, scale=0.2))


# Stencils in loops.

@module("sand_falls_in_alternate_blocks_u8", "stencils", {"height": 1334, "width": 1802, "rounds": 6},
        {"height": 8, "width": 6, "rounds": 2})
def _(height, width, rounds):
    """Sand, air and walls in 2 x 2 blocks whose corners alternate by cyclic shifts: grains fall, then slide aside."""
    def half(x):
        x = x.reshape(height // 2, 2, width // 2, 2)
        a, b, c, d = x[:, 0, :, 0], x[:, 0, :, 1], x[:, 1, :, 0], x[:, 1, :, 1]
        for way in (0, 1):
            falls = (a == 1) & (c == 0)
            a, c = jnp.where(falls, c, a), jnp.where(falls, a, c)
            falls = (b == 1) & (d == 0)
            b, d = jnp.where(falls, d, b), jnp.where(falls, b, d)
            if way == 0:
                right, left = (a == 1) & (b == 0) & (d == 0), (b == 1) & (a == 0) & (c == 0)
                a, d = jnp.where(right, d, a), jnp.where(right, a, d)
                b, c = jnp.where(left, c, b), jnp.where(left, b, c)
        return jnp.stack([jnp.stack([a, b], -1), jnp.stack([c, d], -1)], 1).reshape(height, width)

    def run(x):
        def step(_, x):
            return jnp.roll(half(jnp.roll(half(x), (-1, -1), (0, 1))), (1, 1), (0, 1))
        x = lax.fori_loop(0, rounds, step, x)
        return x, (x == 1).astype(I32).sum(1)
    return run, ints(3, height, width, dtype=U8)


@module("tiles_with_halos_exchanged_waves_f32", "stencils", {"tiles": (6, 5), "size": (131, 109), "reach": 2,
        "steps": 9}, {"tiles": (2, 3), "size": (4, 5), "reach": 2, "steps": 2})
def _(tiles, size, reach, steps):
    """A sheet in tiles, as on many devices: edges of neighbours joined on, waves of fourth order, shores absorb."""
    def joined(x, axis):
        last = lax.slice_in_dim(x, size[axis] - reach, size[axis], axis=axis + 2)
        first = lax.slice_in_dim(x, 0, reach, axis=axis + 2)
        before = lax.slice_in_dim(jnp.pad(last, [(int(i == axis), 0) for i in range(4)]), 0, tiles[axis], axis=axis)
        after = lax.slice_in_dim(jnp.pad(first, [(0, int(i == axis)) for i in range(4)]), 1, None, axis=axis)
        return jnp.concatenate([before, x, after], axis + 2)

    def run(u, before, speed):
        def step(_, carry):
            u, before = carry
            bent = 0
            for axis in (0, 1):
                wide, n = joined(u, axis), size[axis]
                for i, weight in enumerate((-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12)):
                    bent = bent + weight * lax.slice_in_dim(wide, i, i + n, axis=axis + 2)
            return 1.99 * u - 0.99 * before + speed * bent, u
        u, _ = lax.fori_loop(0, steps, step, (u, before))
        return u.transpose(0, 2, 1, 3).reshape(tiles[0] * size[0], tiles[1] * size[1]), jnp.square(u).sum((2, 3))
    x = f32(*tiles, *size)
    return run, x, x, Arg((*tiles, *size), F32, low=0.05, high=0.2)


# Sampling.

@module("sheared_crops_bilinear_channels_first_u8", "sampling", {"images": 67, "size": (150, 201), "crop": (113, 127)},
        {"images": 2, "size": (7, 6), "crop": (4, 5)}, tolerance=2)
def _(images, size, crop):
    """Pictures of bytes, each by its own rotation, shear, scale and flip, a box cut out, normed, channels first."""
    def one(picture, data, mean, deviation):
        turn, scale, shear, light, top, left, mirror = jax.random.uniform(data, (7,))
        y, x = jnp.arange(crop[0])[:, None] - crop[0] / 2, jnp.arange(crop[1]) - crop[1] / 2
        hole = (jnp.abs(y + (0.5 - top) * crop[0]) < crop[0] / 8) & (jnp.abs(x + (0.5 - left) * crop[1]) < crop[1] / 8)
        x = jnp.where(mirror < 0.5, -x, x) + (shear - 0.5) * y
        sine, cosine, scale = jnp.sin(turn - 0.5), jnp.cos(turn - 0.5), 0.7 + 0.6 * scale
        y, x = scale * (cosine * y - sine * x) + size[0] / 2, scale * (sine * y + cosine * x) + size[1] / 2
        y, x = jnp.clip(y, 0, size[0] - 1.001), jnp.clip(x, 0, size[1] - 1.001)
        i, j = jnp.floor(y).astype(I32), jnp.floor(x).astype(I32)
        v, u, wide = (y - i)[..., None], (x - j)[..., None], picture.astype(F32) / 255
        upper, lower = wide[i, j] * (1 - u) + wide[i, j + 1] * u, wide[i + 1, j] * (1 - u) + wide[i + 1, j + 1] * u
        y = ((upper * (1 - v) + lower * v) * (0.7 + 0.6 * light) - mean) / deviation
        return jnp.where(hole[..., None], 0, y).astype(BF16)

    def run(pictures, data, mean, deviation):
        y = jax.vmap(one, (0, 0, None, None))(pictures, jax.random.split(key_of(data), images), mean, deviation)
        return y.transpose(0, 3, 1, 2)
    return (run, ints(256, images, *size, 3, dtype=U8), key(), Arg((3,), F32, low=0.4, high=0.5),
            Arg((3,), F32, low=0.2, high=0.3))


# Quantised products.

@module("nibbles_in_tile_order_unpacked_b19_f16", "quantised", {"batch": 19, "rows": 270, "columns": 236, "group": 6},
        {"batch": 3, "rows": 4, "columns": 4, "group": 2}, tolerance=4)
def _(batch, rows, columns, group):
    """Int4 weights in the order of lanes of 16 x 16 tiles, nibbles even before odd, scales' columns interleaved."""
    inputs, outputs = 16 * rows, 16 * columns

    def run(x, packed, scales, gain):
        nibbles = (packed[..., None] >> (4 * jnp.arange(8, dtype=jnp.uint32))) & 15
        # Column of eight, pair of rows, odd row?, right half?, lower half?
        w = nibbles.reshape(rows, columns, 8, 4, 2, 2, 2).transpose(0, 6, 3, 4, 1, 5, 2).reshape(inputs, outputs)
        scales = scales.reshape(-1, outputs // 64, 8, 8).swapaxes(2, 3).reshape(-1, outputs)
        w = (w.astype(F16) - 8) * jnp.repeat(scales, 16 * group, 0)
        return x + jnp.pad(jnp.dot(rms_norm(x, gain), w, preferred_element_type=F32).astype(F16),
                           ((0, 0), (0, inputs - outputs)))
    return (run, f16(batch, inputs), ints(2 ** 32, rows, columns, 32, dtype=jnp.uint32),
            Arg((rows // group, outputs), F16, low=0.002, high=0.006), around_one(F16, inputs))


@module("five_bits_fifth_apart_b7_bf16", "quantised", {"batch": 7, "inputs": 2592, "outputs": 6005},
        {"batch": 2, "inputs": 64, "outputs": 5}, tolerance=4)
def _(batch, inputs, outputs):
    """Blocks of 32 weights: halves in nibbles, the fifth bits in a word, a scale; int8 activations by block."""
    def run(x, low, high, scales):
        blocks = inputs // 32
        bits = (high[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
        w = jnp.concatenate([low & 15, low >> 4], -1) | (bits << 4).astype(U8)              # [outputs, blocks, 32]
        w = w.astype(I8) - 16
        wide = x.astype(F32).reshape(batch, blocks, 32)
        scale = jnp.maximum(jnp.abs(wide).max(-1), 1e-6) / 127
        x8 = jnp.round(wide / scale[..., None]).astype(I8)
        y = jnp.einsum("gbi,goi->gbo", x8.swapaxes(0, 1), w.swapaxes(0, 1), preferred_element_type=I32)
        return jnp.einsum("gbo,bg,og->bo", y.astype(F32), scale, scales.astype(F32)).astype(BF16)
    return (run, bf16(batch, inputs), ints(256, outputs, inputs // 32, 16, dtype=U8),
            ints(2 ** 32, outputs, inputs // 32, dtype=jnp.uint32),
            Arg((outputs, inputs // 32), F16, low=0.001, high=0.003))


@module("swizzled_scales_of_32_product_f8", "quantised", {"rows": 701, "inner": 1440, "outputs": 2144},
        {"rows": 5, "inner": 64, "outputs": 32}, tolerance=2, mismatch=2e-2)
def _(rows, inner, outputs):
    """F8 with powers of two for 32 places, kept in swizzled tiles of 128 x 4; the product in the same layout again."""
    def plain(scales, n, columns):
        high, wide = scales.shape[:2]
        return scales.transpose(0, 3, 2, 1, 4).reshape(high * 128, wide * 4)[:n, :columns]

    def swizzled(scales):
        n, columns = scales.shape
        scales = jnp.pad(scales, ((0, -n % 128), (0, -columns % 4)), constant_values=127)
        return scales.reshape(-(-n // 128), 4, 32, -(-columns // 4), 4).transpose(0, 3, 2, 1, 4)

    def powers(scales):
        return lax.bitcast_convert_type(scales.astype(I32) << 23, F32)

    def wide(a, scales):
        a = a.astype(BF16).reshape(len(a), -1, 32)
        return (a * powers(plain(scales, *a.shape[:2]))[..., None].astype(BF16)).reshape(len(a), -1)

    def run(x, x_scales, w, w_scales):
        y = jnp.einsum("rk,ok->ro", wide(x, x_scales), wide(w, w_scales), preferred_element_type=F32)
        y = jax.nn.gelu(y * inner ** -0.5).reshape(rows, -1, 32)
        most = lax.bitcast_convert_type(jnp.abs(y).max(-1), I32) >> 23            # the exponent, with its bias
        exponent = jnp.clip(most - 8, 1, 254)
        y8 = jnp.clip(y / powers(exponent)[..., None], -448, 448).astype(F8).reshape(rows, outputs)
        return y8, swizzled(exponent.astype(U8))

    def tiles(n):
        return ints(129, -(-n // 128), -(-inner // 128), 32, 4, 4, low=125, dtype=U8)
    return run, Arg((rows, inner), F8), tiles(rows), Arg((outputs, inner), F8), tiles(outputs)


# Spectra.

@module("folded_frames_shrunk_and_overlapped_f32", "fourier", {"batch": 37, "frames": 131, "half": 250},
        {"batch": 2, "frames": 4, "half": 6}, tolerance=4)
def _(batch, frames, half):
    """Lapped cosines by folds with reversals and half a complex transform, small ones shrunk, unfolded, overlapped."""
    def cosines(x):
        """The fourth kind, of its own inverse: even places and reversed odd ones as complex numbers."""
        turn = jnp.exp(-1j * jnp.pi / half * (jnp.arange(half // 2) + 0.25))
        y = jnp.fft.fft(lax.complex(x[..., ::2], x[..., ::-1][..., ::2]) * turn) * turn * (2 / half) ** 0.5
        return jnp.stack([y.real, -y.imag[..., ::-1]], -1).reshape(x.shape)

    def run(x, least):
        window = jnp.sin(jnp.pi / (2 * half) * (jnp.arange(2 * half) + 0.5))
        blocks = x.reshape(batch, frames, half)
        a, b, c, d = jnp.split(jnp.concatenate([blocks[:, :-1], blocks[:, 1:]], -1) * window, 4, -1)
        told = cosines(jnp.concatenate([-c[..., ::-1] - d, a - b[..., ::-1]], -1))
        told = jnp.sign(told) * jax.nn.relu(jnp.abs(told) - least)
        low, high = jnp.split(cosines(told), 2, -1)
        y = jnp.concatenate([high, -high[..., ::-1], -low[..., ::-1], -low], -1) * window
        y = jnp.pad(y[..., :half], ((0, 0), (0, 1), (0, 0))) + jnp.pad(y[..., half:], ((0, 0), (1, 0), (0, 0)))
        return y.reshape(x.shape), told
    return run, f32(batch, frames * half), Arg((half,), F32, low=0.1, high=0.6)
