"""More modules of modules.py by the author of module_outside_layers.py."""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, I32, Arg, backward, bf16, f32, ints, key, key_of, module, weights)

F16, U8, U32 = jnp.float16, jnp.uint8, jnp.uint32


def f16(*shape, scale=1.0):
    return Arg(shape, F16, scale)


@module("sru_highway_grad_bf16", "scans", {"length": 300, "batch": 17, "width": 500},
        {"length": 5, "batch": 2, "width": 6}, tolerance=6)
def _(length, batch, width):
    """One product for all steps, an elementwise recurrence in a reversed scan, a highway."""
    def run(x, w, v, b):
        u = (x @ w).reshape(length, batch, 3, width).astype(F32)

        def step(c, given):
            u, x = given
            f = jax.nn.sigmoid(u[:, 1] + v[0] * c + b[0])
            r = jax.nn.sigmoid(u[:, 2] + v[1] * c + b[1])
            c = f * c + (1 - f) * u[:, 0]
            return c, (r * c + (1 - r) * x.astype(F32)).astype(BF16)
        return lax.scan(step, jnp.zeros((batch, width)), (u, x), reverse=True)[1]
    x = bf16(length, batch, width)
    return backward(run), x, x, weights(BF16, width, 3 * width), f32(2, width), f32(2, width)


# Sorts.

@module("kth_by_bits_rows_u32", "sorts", {"rows": 129, "width": 50257, "k": 200}, {"rows": 3, "width": 41, "k": 5})
def _(rows, width, k):
    """The k-th largest of rows without a sort: floats as ordered integers, a bit decided in each round by a count."""
    def run(x):
        bits = lax.bitcast_convert_type(x, U32)
        ordered = jnp.where(bits >> 31 == 1, ~bits, bits | jnp.uint32(1 << 31))

        def round_(i, found):
            trial = found | (jnp.uint32(1) << (31 - i).astype(U32))
            count = (ordered >= trial[:, None]).sum(-1)
            return jnp.where(count >= k, trial, found)
        found = lax.fori_loop(0, 32, round_, jnp.zeros(rows, U32))
        kept = ordered >= found[:, None]
        return found, jnp.where(kept, x, 0).sum(-1), jnp.cumsum(kept, -1)[:, ::7].astype(jnp.int16)
    return run, f32(rows, width)


@module("ndcg_ranks_lists_grad_f32", "sorts", {"lists": 777, "items": 100}, {"lists": 3, "items": 7}, tolerance=2)
def _(lists, items):
    """LambdaRank: ranks by argsort of argsort, pairs weighted by the change of NDCG, gradients of the scores."""
    def loss(scores, labels):
        gain = 2.0 ** labels - 1
        rank = jnp.argsort(jnp.argsort(-scores, axis=-1), axis=-1)
        discount = 1 / jnp.log2(rank + 2.0)
        ideal = (-jnp.sort(-gain, axis=-1) / jnp.log2(jnp.arange(items) + 2.0)).sum(-1) + 1e-6
        delta = jnp.abs((gain[:, :, None] - gain[:, None]) * (discount[:, :, None] - discount[:, None]))
        apart = jax.nn.softplus(scores[:, None] - scores[:, :, None])
        pairs = jnp.where(labels[:, :, None] > labels[:, None], apart, 0)
        return (lax.stop_gradient(delta) / ideal[:, None, None] * pairs).sum() / lists
    return jax.value_and_grad(loss), f32(lists, items), ints(5, lists, items)


@module("bucket_by_length_batches_s32", "sorts", {"rows": 5003, "longest": 200}, {"rows": 9, "longest": 5})
def _(rows, longest):
    """Sentences sorted by length with ties by hash, gathered, their padding cut by a mask, counts by bincount."""
    def run(tokens, length):
        h = (tokens[:, 0].astype(U32) * jnp.uint32(2654435761)) >> 7
        order = jnp.lexsort((h, -length))
        kept = jnp.take(tokens, order, axis=0)
        kept = jnp.where(jnp.arange(longest) < length[order][:, None], kept, -1)
        return order, kept, jnp.bincount(length, length=longest + 1), jnp.flip(jnp.cumsum(jnp.sort(length)))
    return run, ints(50257, rows, longest), ints(longest + 1, rows, low=1)


# Mixtures.

@module("moe_experts_in_scan_grad_bf16", "moe", {"tokens": 1500, "width": 600, "inner": 1100, "experts": 6, "k": 2},
        {"tokens": 7, "width": 6, "inner": 8, "experts": 3, "k": 2}, tolerance=4, mismatch=0.01)
def _(tokens, width, inner, experts, k):
    """Every expert for every token in a scan with masked weights, and a balance loss by boolean means."""
    def loss(x, router, up, down):
        logits = jnp.dot(x, router, preferred_element_type=F32)
        threshold = lax.stop_gradient(jnp.sort(logits, -1)[:, -k])
        gate = jax.nn.softmax(jnp.where(logits >= threshold[:, None], logits, -jnp.inf), -1)

        def one(total, given):
            g, up, down = given
            return total + g[:, None] * (jax.nn.gelu(x @ up) @ down).astype(F32), (g > 0).mean()
        out, used = lax.scan(one, jnp.zeros((tokens, width)), (gate.T, up, down))
        return jnp.square(out).mean() + 0.01 * experts * (used * jax.nn.softmax(logits).mean(0)).sum()
    return (jax.grad(loss, (0, 1, 2, 3)), bf16(tokens, width), weights(BF16, width, experts),
            weights(BF16, experts, width, inner), weights(BF16, experts, inner, width))


@module("moe_sinkhorn_capacity_map_f16", "moe",
        {"tokens": 2000, "width": 500, "inner": 1400, "experts": 10, "capacity": 240},
        {"tokens": 11, "width": 6, "inner": 8, "experts": 3, "capacity": 5}, tolerance=3, mismatch=0.03)
def _(tokens, width, inner, experts, capacity):
    """Sinkhorn's balance until it is still, an expert for each token, rows gathered by nonzero of a fixed size."""
    def run(x, router, up, down):
        cost = jnp.exp(jnp.dot(x, router, preferred_element_type=F32))

        def body(state):
            d0, d1, _, i = state
            d0 = 1 / (tokens * ((d1 * cost).sum(1) + 1e-8))
            new = 1 / (experts * ((d0[:, None] * cost).sum(0) + 1e-8))
            return d0, new, jnp.abs(d1 - new).mean(), i + 1
        d0, d1, _, _ = lax.while_loop(lambda s: (s[2] > 1e-4) & (s[3] < 20), body,
                                      (jnp.ones(tokens), jnp.ones(experts), jnp.float32(1e9), 0))
        choice = (d1 * cost * d0[:, None]).argmax(1)

        def one(given):
            e, up, down = given
            rows, = jnp.nonzero(choice == e, size=capacity, fill_value=tokens)
            return rows, jax.nn.relu(x.at[rows].get(mode="fill", fill_value=0) @ up) @ down
        rows, made = lax.map(one, (jnp.arange(experts), up, down))
        y = jnp.zeros((tokens, width), F16).at[rows.reshape(-1)].add(made.reshape(-1, width), mode="drop")
        return x + y, choice
    return (run, f16(tokens, width), weights(F16, width, experts), weights(F16, experts, width, inner),
            weights(F16, experts, inner, width))


# Convolutions.

def conv(x, w, stride=1, padding="SAME", layout="NCHW", **how):
    stride = (stride,) * (x.ndim - 2)
    names = (layout, "OIHW" if layout == "NCHW" else "HWIO", layout)
    return lax.conv_general_dilated(x, w, stride, padding, dimension_numbers=names, **how)


@module("ghost_block_nchw_grad_bf16", "convolutions", {"images": 4, "channels": 48, "size": 113, "made": 192},
        {"images": 2, "channels": 4, "size": 7, "made": 8}, tolerance=6)
def _(images, channels, size, made):
    """Half of the channels by a product, half by a cheap depthwise filter of these, joined, strided, projected."""
    def run(x, w, cheap, deep, back):
        a = jax.nn.relu(conv(x, w))
        y = jnp.concatenate([a, jax.nn.relu(conv(a, cheap, feature_group_count=made // 2))], 1)
        y = conv(y, deep, 2, ((1, 2), (1, 2)), feature_group_count=made)
        return conv(y, back)
    out = (size + 3 - 5) // 2 + 1
    return (backward(run), bf16(images, channels, out, out), bf16(images, channels, size, size),
            bf16(made // 2, channels, 1, 1, scale=channels ** -0.5), bf16(made // 2, 1, 3, 3, scale=0.33),
            bf16(made, 1, 5, 5, scale=0.2), bf16(channels, made, 1, 1, scale=made ** -0.5))


@module("coordinate_attention_nhwc_grad_f32", "convolutions", {"images": 6, "height": 56, "width": 43, "channels": 96},
        {"images": 2, "height": 5, "width": 4, "channels": 8}, tolerance=3)
def _(images, height, width, channels):
    """Means of rows and of columns joined along space, a shared product, two gates, on a 3 × 3 convolution."""
    def run(x, w, squeeze, to_h, to_w):
        x = conv(x, w, layout="NHWC")
        rows, columns = x.mean(2), x.mean(1)
        y = jax.nn.hard_swish(jnp.concatenate([rows, columns], 1) @ squeeze)
        h, v = jnp.split(y, [height], 1)
        return x * jax.nn.sigmoid(h @ to_h)[:, :, None] * jax.nn.sigmoid(v @ to_w)[:, None]
    x = f32(images, height, width, channels)
    return (backward(run), x, x, f32(3, 3, channels, channels, scale=channels ** -0.5 / 3),
            weights(F32, channels, channels // 8), weights(F32, channels // 8, channels),
            weights(F32, channels // 8, channels))


@module("shifted_slices_conv_nhwc_grad_f16", "convolutions", {"images": 5, "size": 45, "channels": 100, "out": 130},
        {"images": 2, "size": 5, "channels": 3, "out": 4}, tolerance=4)
def _(images, size, channels, out):
    """A 3 × 3 convolution as nine slices of a padded array, stacked before one product (im2col by hand)."""
    def run(x, w):
        p = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
        columns = jnp.stack([p[:, i:i + size, j:j + size] for i in range(3) for j in range(3)], 3)
        return jnp.einsum("bhwkc,koc->bhwo", columns, w)
    return (backward(run), f16(images, size, size, out), f16(images, size, size, channels),
            f16(9, out, channels, scale=(9 * channels) ** -0.5))


@module("conv_gru_frames_nchw_f32", "convolutions", {"frames": 5, "images": 3, "channels": 48, "size": 50},
        {"frames": 3, "images": 2, "channels": 3, "size": 5}, tolerance=3)
def _(frames, images, channels, size):
    """RAFT's update: separable gates (1 × 5, then 5 × 1) of states and frames in a scan."""
    def run(x, h, wz, wr, wq, vz, vr, vq):
        def half(h, x, z, r, q):
            both = jnp.concatenate([h, x], 1)
            z, r = jax.nn.sigmoid(conv(both, z)), jax.nn.sigmoid(conv(both, r))
            q = jnp.tanh(conv(jnp.concatenate([r * h, x], 1), q))
            return (1 - z) * h + z * q

        def step(h, x):
            h = half(half(h, x, wz, wr, wq), x, vz, vr, vq)
            return h, h.mean(1)
        return lax.scan(step, h, x)
    across = f32(channels, 2 * channels, 1, 5, scale=(10 * channels) ** -0.5)
    along = f32(channels, 2 * channels, 5, 1, scale=(10 * channels) ** -0.5)
    return (run, f32(frames, images, channels, size, size), f32(images, channels, size, size), *[across] * 3,
            *[along] * 3)


@module("conv_1d_grouped_dilated_ncw_grad_f16", "convolutions",
        {"batch": 7, "channels": 120, "length": 1777, "groups": 6},
        {"batch": 2, "channels": 6, "length": 17, "groups": 3}, tolerance=4)
def _(batch, channels, length, groups):
    """Causal by left padding, groups with dilations 1, 3, 9, gated by halves, a residual."""
    def run(x, *ws):
        for i, w in enumerate(ws):
            y = lax.conv_general_dilated(x, w, (1,), ((2 * 3 ** i, 0),), rhs_dilation=(3 ** i,),
                                         dimension_numbers=("NCH", "OIH", "NCH"), feature_group_count=groups)
            a, b = y[:, ::2], y[:, 1::2]
            x = x + jnp.tanh(a) * jax.nn.sigmoid(b)
        return x
    x = f16(batch, channels, length)
    w = f16(2 * channels, channels // groups, 3, scale=(3 * channels // groups) ** -0.5)
    return backward(run), x, x, w, w, w


# Pools and stencils.

@module("dilated_windows_opening_nchw_f32", "pooling", {"images": 3, "channels": 33, "size": 192},
        {"images": 2, "channels": 3, "size": 17})
def _(images, channels, size):
    """Morphology: minima, then maxima of dilated 3 × 5 windows; a sum with base dilation; an any of odd strides."""
    def run(x):
        low = lax.reduce_window(x, jnp.inf, lax.min, (1, 1, 3, 5), (1, 1, 1, 1), "SAME", window_dilation=(1, 1, 2, 3))
        opened = lax.reduce_window(low, -jnp.inf, lax.max, (1, 1, 3, 5), (1, 1, 1, 1), "SAME",
                                   window_dilation=(1, 1, 2, 3))
        spread = lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 3, 2), ((0, 0), (0, 0), (1, 2), (2, 1)),
                                   base_dilation=(1, 1, 2, 2))
        some = lax.reduce_window(x > opened + 1.5, False, lax.bitwise_or, (1, 1, 7, 3), (1, 1, 5, 3), "VALID")
        return opened, spread, some
    return run, f32(images, channels, size, size)


@module("argmin_of_windows_pairs_f32", "pooling", {"rows": 333, "width": 5003}, {"rows": 3, "width": 29})
def _(rows, width):
    """Minimisers: the least hash of each window of 11 and where, ties to the left, by a window of pairs."""
    def run(x):
        at = lax.broadcasted_iota(I32, x.shape, 1)

        def least(a, b):
            first = (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
            return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])
        value, where = lax.reduce_window((x, at), (jnp.float32(jnp.inf), jnp.int32(2**31 - 1)), least, (1, 11), (1, 1),
                                         "VALID")
        new = jnp.concatenate([jnp.ones((rows, 1), bool), where[:, 1:] != where[:, :-1]], 1)
        return value, where, new.sum(1), jnp.where(new, where, -1).max(1)
    return run, f32(rows, width)


@module("gem_pool_odd_strides_grad_bf16", "pooling", {"images": 9, "size": 71, "channels": 120},
        {"images": 2, "size": 9, "channels": 3}, tolerance=4)
def _(images, size, channels):
    """Generalised means with a learned power per channel: windows of 4 × 3, strides 3 × 2."""
    def run(x, p):
        y = jnp.exp(p * jnp.log(jnp.maximum(x.astype(F32), 1e-3)))
        y = lax.reduce_window(y, 0.0, lax.add, (1, 4, 3, 1), (1, 3, 2, 1), "VALID") / 12
        return jnp.exp(jnp.log(y) / p).astype(BF16)
    out = (size - 4) // 3 + 1, (size - 3) // 2 + 1
    return (backward(run), bf16(images, *out, channels), Arg((images, size, size, channels), BF16, low=0.1, high=2),
            Arg((channels,), F32, low=2, high=4))


@module("flood_labels_until_still_s32", "stencils", {"height": 500, "width": 333}, {"height": 7, "width": 9})
def _(height, width):
    """Components of a mask: the largest label around, by padded slices, in a while loop to the end or 40 rounds."""
    def run(seed):
        mask = seed > 3
        labels = jnp.where(mask, lax.broadcasted_iota(I32, mask.shape, 0) * width
                           + lax.broadcasted_iota(I32, mask.shape, 1) + 1, 0)

        def body(state):
            labels, _, i = state
            p = jnp.pad(labels, 1)
            around = functools.reduce(jnp.maximum, [p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:], labels])
            new = jnp.where(mask, around, 0)
            return new, jnp.any(new != labels), i + 1
        labels, _, rounds = lax.while_loop(lambda s: s[1] & (s[2] < 40), body, (labels, jnp.bool_(True), 0))
        return labels, rounds
    return run, ints(9, height, width)


@module("perona_malik_volumes_f32", "stencils", {"images": 2, "size": 93, "steps": 7},
        {"images": 2, "size": 5, "steps": 3})
def _(images, size, steps):
    """Anisotropic diffusion in three dimensions: differences with edges held, exponentials as conductances."""
    def run(x, k):
        def step(x, _):
            total = jnp.zeros_like(x)
            for axis in (1, 2, 3):
                d = jnp.diff(x, axis=axis)
                flow = d * jnp.exp(-jnp.square(d / k))
                zero = jnp.zeros_like(lax.slice_in_dim(x, 0, 1, axis=axis))
                total = total + jnp.concatenate([flow, zero], axis) - jnp.concatenate([zero, flow], axis)
            return x + 0.14 * total, jnp.abs(total).max()
        return lax.scan(step, x, None, length=steps)
    return run, f32(images, size, size, size), Arg((), F32, low=0.5, high=1)


@module("adi_thomas_sweeps_f32", "stencils", {"batch": 3, "size": 150, "steps": 2},
        {"batch": 2, "size": 6, "steps": 2},
        tolerance=3)
def _(batch, size, steps):
    """Implicit heat, an axis at a time: Thomas's algorithm by a scan forwards and one backwards in a fori_loop."""
    def run(u, rate):
        def solve(d):
            def forwards(state, d):
                c, last = state
                scale = 1 / (1 + 2 * rate + rate * c)
                c, last = -rate * scale, (d + rate * last) * scale
                return (c, last), (c, last)
            zero = jnp.zeros_like(d[0])
            _, (c, d) = lax.scan(forwards, (zero, zero), d)
            return lax.scan(lambda x, g: ((g[1] - g[0] * x,) * 2), zero, (c, d), reverse=True)[1]

        def step(_, u):
            u = solve(u.transpose(1, 0, 2)).transpose(1, 0, 2)
            return solve(u.transpose(2, 0, 1)).transpose(1, 2, 0)
        return lax.fori_loop(0, steps, step, u)
    return run, f32(batch, size, size), Arg((), F32, low=0.1, high=0.5)


# Random numbers.

@module("crop_flip_jitter_batch_u8", "sampling", {"batch": 48, "size": 250, "crop": 223},
        {"batch": 3, "size": 9, "crop": 6}, tolerance=2, mismatch=1e-3)
def _(batch, size, crop):
    """Pictures cut by vmapped dynamic slices, flipped, contrast and noise, an erased box, bytes to bf16."""
    def run(data, picture):
        def one(key, picture):
            k = jax.random.split(key, 6)
            y, x = jax.random.randint(k[0], (2,), 0, size - crop + 1)
            cut = lax.dynamic_slice(picture, (y, x, 0), (crop, crop, 3)).astype(F32) / 255
            cut = jnp.where(jax.random.bernoulli(k[1]), cut[:, ::-1], cut)
            mean = cut.mean((0, 1))
            cut = (cut - mean) * jax.random.uniform(k[2], (3,), minval=0.6, maxval=1.4) + mean
            cut = cut + 0.02 * jax.random.normal(k[3], cut.shape)
            at, extent = jax.random.uniform(k[4], (2,)) * crop, jax.random.uniform(k[5], (2,)) * crop / 3
            grid = jnp.stack(jnp.meshgrid(jnp.arange(crop), jnp.arange(crop), indexing="ij"))
            away = jnp.abs(grid - at[:, None, None]) > extent[:, None, None]
            return jnp.where(away.any(0)[..., None], cut, 0.5).astype(BF16)
        return jax.vmap(one)(jax.random.split(key_of(data), batch), picture)
    return run, key(), ints(256, batch, size, size, 3, dtype=U8)


@module("dropout_folded_packed_bits_grad_bf16", "sampling", {"layers": 3, "rows": 3001, "width": 800},
        {"layers": 2, "rows": 5, "width": 64}, tolerance=3)
def _(layers, rows, width):
    """Keys by fold_in in a scan, masks kept as packed bits for the way back by a custom rule."""
    @jax.custom_vjp
    def drop(x, key):
        return forward(x, key)[0]

    def forward(x, key):
        keep = jax.random.bits(key, x.shape, U8) >= 26
        packed = jnp.packbits(keep, axis=-1)
        return jnp.where(keep, x / 0.9, 0).astype(x.dtype), packed

    def back(packed, g):
        keep = jnp.unpackbits(packed, axis=-1) == 1
        return jnp.where(keep, g / 0.9, 0).astype(g.dtype), None
    drop.defvjp(forward, back)

    def run(data, g, x, w):
        def all_layers(x, w):
            def layer(x, given):
                i, w = given
                return x + drop(jax.nn.relu(x * w), jax.random.fold_in(key_of(data), i)), None
            return lax.scan(layer, x, (jnp.arange(layers), w))[0]
        out, pull = jax.vjp(all_layers, x, w)
        return out, *pull(g)
    x = bf16(rows, width)
    return run, key(), x, x, bf16(layers, width)


@module("epsilon_cut_repetition_b11_f32", "sampling", {"batch": 11, "classes": 50257, "history": 300},
        {"batch": 3, "classes": 41, "history": 7}, mismatch=0.1)
def _(batch, classes, history):
    """Penalties by a scatter of the history, eta's cut by entropy, inverse transform by cumsum and a boolean sum."""
    def run(data, logits, past):
        rows = jnp.arange(batch)[:, None]
        count = jnp.zeros((batch, classes)).at[rows, past].add(1)
        logits = jnp.where(count > 0, jnp.where(logits > 0, logits / 1.2, logits * 1.2), logits) - 0.1 * count
        p = jax.nn.softmax(logits / 0.8)
        entropy = -(p * jnp.log(p + 1e-20)).sum(-1, keepdims=True)
        cut = jnp.minimum(3e-4, 0.0173 * jnp.exp(-entropy))
        kept = jnp.where((p < cut) & (p < p.max(-1, keepdims=True)), 0, p)
        running = jnp.cumsum(kept, -1)
        u = jax.random.uniform(key_of(data), (batch, 1)) * running[:, -1:]
        token = (running < u).sum(-1)
        return token, jnp.log(jnp.take_along_axis(p, token[:, None], 1))
    return run, key(), f32(batch, classes, scale=3), ints(classes, batch, history)


# Quantised products.

@module("gptq_act_order_b9_f16", "quantised", {"rows": 9, "inputs": 2560, "outputs": 3001, "group": 80},
        {"rows": 3, "inputs": 32, "outputs": 7, "group": 8}, tolerance=2)
def _(rows, inputs, outputs, group):
    """Eight 4-bit weights in an int32 by shifts, groups in the order of activations by gathers of scales and zeros."""
    def run(x, words, scales, zeros, order):
        shift = jnp.arange(0, 32, 4, dtype=I32)
        q = ((words[:, None] >> shift[:, None]) & 15).reshape(inputs, outputs)
        w = (q.astype(F16) - zeros[order]) * scales[order]
        return jnp.dot(x, w, preferred_element_type=F32).astype(F16)
    groups = inputs // group
    return (run, f16(rows, inputs), Arg((inputs // 8, outputs), I32, low=-2**31, high=2**31),
            Arg((groups, outputs), F16, low=0.005, high=0.02), Arg((groups, outputs), F16, low=6, high=9),
            ints(groups, inputs))


@module("fp8_cache_attention_gqa_b6", "quantised", {"batch": 6, "length": 1777, "kv": 5, "group": 4, "size": 80},
        {"batch": 2, "length": 9, "kv": 2, "group": 2, "size": 4}, tolerance=2)
def _(batch, length, kv, group, size):
    """Keys of e4m3 and bytes of values of e5m2 with a scale per head and page, lengths masked, a sink."""
    def run(q, k, v, k_scale, v_scale, lengths, sink):
        s = jnp.einsum("bkgd,bkdl->bkgl", q, k.astype(BF16), preferred_element_type=F32)
        s = s * k_scale[:, :, None] * size ** -0.5
        s = jnp.where(jnp.arange(length) < lengths[:, None, None, None], s, -1e30)
        top = jnp.maximum(s.max(-1, keepdims=True), sink[:, None, None])
        e = jnp.exp(s - top)
        p = e / (e.sum(-1, keepdims=True) + jnp.exp(sink[:, None, None] - top))
        v = lax.bitcast_convert_type(v, jnp.float8_e5m2).astype(BF16) - 1
        return jnp.einsum("bkgl,blkd->bkgd", (p * v_scale[:, :, None]).astype(BF16), v)
    scale = Arg((batch, kv, length), F32, low=0.5, high=1.5)
    return (run, bf16(batch, kv, group, size), Arg((batch, kv, size, length), jnp.float8_e4m3fn),
            ints(68, batch, length, kv, size, dtype=U8), scale, scale, ints(length, batch, low=1), f32(kv))


@module("binary_xnor_popcount_s32", "quantised", {"rows": 500, "words": 25, "outputs": 777},
        {"rows": 3, "words": 2, "outputs": 5})
def _(rows, words, outputs):
    """Products of ±1 as population counts of 32-bit words, signs of activations packed by shifts and a sum."""
    def run(x, w, threshold):
        bits = (x.reshape(rows, words, 32) > 0).astype(U32)
        packed = (bits << jnp.arange(32, dtype=U32)).sum(-1, dtype=U32)
        agree = lax.population_count(~(packed[:, None] ^ w[None])).astype(I32).sum(-1)
        y = 2 * agree - 32 * words
        return y, (y > threshold).astype(jnp.int8)
    return run, f32(rows, words * 32), Arg((outputs, words), U32, low=0, high=2**32), ints(50, outputs, low=-50)


@module("smooth_w8a8_mlp_b1000_f16", "quantised", {"rows": 1000, "width": 1280, "inner": 3333},
        {"rows": 5, "width": 8, "inner": 12}, tolerance=4, mismatch=0.01)
def _(rows, width, inner):
    """Activations divided by a smoothing vector, int8 products transposed on the left, ReLU, quantised again."""
    def quantise(x):
        scale = jnp.abs(x).max(-1, keepdims=True) / 127
        return jnp.clip(jnp.rint(x / scale), -127, 127).astype(jnp.int8), scale

    def run(x, smooth, up, up_scale, down, down_scale):
        q, s = quantise(x.astype(F32) / smooth)
        h = jnp.einsum("nk,mk->mn", up, q, preferred_element_type=I32).astype(F32) * s * up_scale
        q, s = quantise(jax.nn.relu(h))
        return (lax.dot_general(q, down, (((1,), (1,)), ((), ())), preferred_element_type=I32) * s * down_scale
                ).astype(F16)
    return (run, f16(rows, width), Arg((width,), F32, low=0.5, high=2),
            ints(127, inner, width, low=-127, dtype=jnp.int8),
            Arg((inner,), F32, low=1e-4, high=1e-3), ints(127, width, inner, low=-127, dtype=jnp.int8),
            Arg((width,), F32, low=1e-4, high=1e-3))


# Attention.

@module("axial_rows_columns_grad_bf16", "attention", {"batch": 3, "height": 56, "width": 75, "heads": 6, "size": 40},
        {"batch": 2, "height": 3, "width": 4, "heads": 2, "size": 4}, tolerance=4)
def _(batch, height, width, heads, size):
    """Attention along rows with a bias of positions, then along columns, by einsum on five dimensions."""
    def run(q, k, v, rows, columns):
        s = jnp.einsum("bhxnd,bhynd->bhnxy", q, k, preferred_element_type=F32) * size ** -0.5 + rows
        v = jnp.einsum("bhnxy,bhynd->bhxnd", jax.nn.softmax(s).astype(BF16), v)
        s = jnp.einsum("bywnd,bxwnd->bwnxy", k, q, preferred_element_type=F32) * size ** -0.5 + columns
        return jnp.einsum("bywnd,bwnxy->bxwnd", v, jax.nn.softmax(s).astype(BF16))
    x = bf16(batch, height, width, heads, size)
    return backward(run), x, x, x, x, f32(heads, width, width), f32(heads, height, height)


@module("documents_logn_temperature_f16", "attention", {"batch": 3, "length": 700, "heads": 9, "size": 56},
        {"batch": 2, "length": 9, "heads": 2, "size": 4}, tolerance=2)
def _(batch, length, heads, size):
    """Documents by a cumulative sum of ends, positions within them by cummax, scores scaled by log of length."""
    def run(qkv, tokens):
        end = tokens == 0
        document = jnp.cumsum(end, 1) - end
        index = jnp.arange(length)
        start = lax.cummax(jnp.where(jnp.pad(end, ((0, 0), (1, 0)), constant_values=True)[:, :-1], index, 0), axis=1)
        q, k, v = jnp.unstack(qkv, axis=2)
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32)
        s = s * size ** -0.5 * jnp.log2(index - start + 2.0)[:, None, :, None] / 8
        allowed = (document[:, :, None] == document[:, None]) & (index[:, None] >= index)
        p = jax.nn.softmax(s, -1, where=allowed[:, None]).astype(F16)
        return jnp.einsum("bhqk,bkhd->bqhd", p, v), index - start
    return run, f16(batch, length, 3, heads, size), ints(100, batch, length)


@module("attention_top_33_scores_grad_f32", "attention",
        {"batch": 2, "heads": 5, "length": 400, "size": 48, "kept": 33},
        {"batch": 2, "heads": 2, "length": 9, "size": 4, "kept": 3}, tolerance=4, mismatch=0.01)
def _(batch, heads, length, size, kept):
    """Only the best scores of each query live: a threshold by top_k, where-masks, a cosine similarity with a scale."""
    def run(q, k, v, scale):
        q, k = (a / jnp.linalg.norm(a + 1e-6, axis=-1, keepdims=True) for a in (q, k))
        s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * jnp.exp(scale)[:, None, None]
        least = lax.stop_gradient(lax.top_k(s, kept)[0][..., -1:])
        return jax.nn.softmax(jnp.where(s < least, -jnp.inf, s)) @ v
    x = f32(batch, heads, length, size)
    return backward(run), x, x, x, x, Arg((heads,), F32, low=1, high=3)


@module("kerple_biases_grad_f32", "attention", {"batch": 3, "heads": 7, "length": 450, "size": 40},
        {"batch": 2, "heads": 2, "length": 7, "size": 4}, tolerance=3)
def _(batch, heads, length, size):
    """Logarithmic biases with two learned numbers a head, of which the gradients are sums over everything."""
    def run(q, k, v, r1, r2):
        far = jnp.abs(jnp.arange(length)[:, None] - jnp.arange(length))
        bias = -jnp.exp(r1)[:, None, None] * jnp.log1p(jnp.exp(r2)[:, None, None] * far)
        s = jnp.einsum("bqhd,bkhd->hbqk", q, k) / jnp.sqrt(size) + bias[:, None]
        p = jax.nn.softmax(jnp.where(jnp.tri(length, dtype=bool), s, -3e38))
        return jnp.einsum("hbqk,bkhd->bqhd", p, v)
    x = f32(batch, length, heads, size)
    return backward(run), x, x, x, x, f32(heads), f32(heads)


# Fourier.

@module("block_circulant_layers_grad_f32", "fourier", {"rows": 300, "inputs": 9, "outputs": 7, "block": 120},
        {"rows": 5, "inputs": 2, "outputs": 3, "block": 6}, tolerance=3)
def _(rows, inputs, outputs, block):
    """A layer of circulant blocks by real transforms and a complex einsum for each frequency, an FFT shift after."""
    def run(x, w, bias):
        f = jnp.einsum("nik,oik->nok", jnp.fft.rfft(x), jnp.fft.rfft(w))
        y = jnp.fft.irfft(f, block) + bias
        return jax.nn.relu(jnp.fft.fftshift(y, -1))
    return (backward(run), f32(rows, outputs, block), f32(rows, inputs, block),
            f32(outputs, inputs, block, scale=(inputs * block) ** -0.5), f32(outputs, block))


@module("phase_correlation_odd_2d_f32", "fourier", {"images": 12, "height": 225, "width": 375},
        {"images": 2, "height": 9, "width": 15}, tolerance=4, mismatch=0.02)
def _(images, height, width):
    """Shifts between pictures: windowed 2-D transforms of odd sizes, phases, the peak by argmax, pictures rolled."""
    def run(a, b):
        window = jnp.hanning(height)[:, None] * jnp.hanning(width)
        fa, fb = jnp.fft.fft2(a * window), jnp.fft.fft2(b * window)
        cross = fa * jnp.conj(fb)
        surface = jnp.fft.ifft2(cross / (jnp.abs(cross) + 1e-3)).real
        at = surface.reshape(images, -1).argmax(-1)
        dy, dx = at // width, at % width
        return surface, dy, dx, jax.vmap(lambda b, y, x: jnp.roll(b, (y, x), (0, 1)))(b, dy, dx)
    x = f32(images, height, width)
    return run, x, x
