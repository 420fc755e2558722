"""More modules of modules.py, by an author who had not read the compiler, at sizes that nobody tunes for: embeddings,
segments, scans, sorts, experts, convolutions, pooling, stencils, sampling, quantised products and FFTs."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F8, F32, I8, Arg, around_one, backward, bf16, f32, ints, key, key_of, module, weights
from module_odd_blocks import grad_of, layer, rms

NHWC = ("NHWC", "HWIO", "NHWC")


# Embeddings.

@module("hashed_ngrams_grad_bf16", "embeddings",
        {"rows": 20011, "width": 150, "to": 640, "batch": 5, "length": 600},
        {"rows": 13, "width": 5, "to": 6, "batch": 2, "length": 7}, tolerance=3)
def _(rows, width, to, batch, length):
    """Vectors of a token, of two and of three in a row by hashes of 32 bits, side by side, then a product."""
    def embed(tables, out, tokens):
        tokens = tokens.astype(jnp.uint32)
        hashed, each = tokens, []
        for i in range(3):
            if i:
                before = jnp.pad(tokens, ((0, 0), (i, 0)))[:, :length]
                hashed = (hashed * jnp.uint32(2654435761)) ^ (before + jnp.uint32(40503) * i)
            each.append(tables[i][(hashed ^ (hashed >> 15)) % rows])
        return jax.nn.gelu(jnp.concatenate(each, -1) @ out)
    return (grad_of(embed, 2), bf16(batch, length, to), bf16(3, rows, width), weights(BF16, 3 * width, to),
            ints(50257, batch, length))


@module("codebook_nearest_grad_f32", "embeddings", {"rows": 9999, "width": 65, "codes": 1000},
        {"rows": 23, "width": 3, "codes": 5}, mismatch=0.01)
def _(rows, width, codes):
    """The nearest of 1000 codes with gradients straight through; running counts and sums of each code."""
    def loss(x, w, table):
        h = x @ w
        apart = jnp.square(h).sum(-1, keepdims=True) - 2 * h @ table.T + jnp.square(table).sum(-1)
        which = apart.argmin(-1)
        code = table[which]
        straight = h + lax.stop_gradient(code - h)
        return (jnp.square(straight - x).mean() + 0.25 * jnp.square(lax.stop_gradient(code) - h).mean()), (h, which)

    def step(x, w, table, counts, sums):
        (value, (h, which)), grads = jax.value_and_grad(loss, (0, 1), has_aux=True)(x, w, table)
        counts = 0.99 * counts + 0.01 * jax.ops.segment_sum(jnp.ones(rows), which, codes)
        sums = 0.99 * sums + 0.01 * jax.ops.segment_sum(h, which, codes)
        return value, grads, counts, sums, sums / (counts + 1e-5)[:, None]
    return (step, f32(rows, width), weights(F32, width, width), f32(codes, width),
            Arg((codes,), F32, low=5, high=15), f32(codes, width, scale=10.0))


# Sums by segment.

@module("schnet_filters_grad_f32", "segments",
        {"nodes": 3001, "edges": 50021, "basis": 25, "width": 96},
        {"nodes": 7, "edges": 31, "basis": 4, "width": 5})
def _(nodes, edges, basis, width):
    """Distances of atoms to Gaussians to filters with a smooth cut-off; gradients by places, which are forces."""
    def energy(places, x, first, second, senders, receivers):
        apart = places[senders] - places[receivers]
        far = jnp.sqrt(jnp.square(apart).sum(-1) + 1e-4)
        spread = jnp.exp(-2.0 * jnp.square(far[:, None] - jnp.linspace(0.0, 4.0, basis)))
        filters = jax.nn.softplus(spread @ first) @ second
        filters = filters * jnp.where(far < 4, 0.5 * (1 + jnp.cos(far * (jnp.pi / 4))), 0)[:, None]
        made = jax.ops.segment_sum(x[senders] * filters, receivers, nodes)
        return jnp.square(made).mean() + jnp.tanh(made).sum() / nodes
    return (jax.value_and_grad(energy, (0, 1, 2, 3)), f32(nodes, 3), f32(nodes, width), weights(F32, basis, width),
            weights(F32, width, width), ints(nodes, edges), ints(nodes, edges, in_order=True))


# Scans.

@module("ssd_chunks_100_grad_bf16", "scans",
        {"batch": 3, "chunks": 9, "chunk": 100, "heads": 10, "size": 48, "states": 40},
        {"batch": 2, "chunks": 3, "chunk": 4, "heads": 2, "size": 3, "states": 5}, tolerance=3)
def _(batch, chunks, chunk, heads, size, states):
    """Mamba-2: products within chunks by decays between places, states between chunks by a scan."""
    def ssd(x, steps, log_a, b, c, d):
        steps = jax.nn.softplus(steps)
        along = jnp.cumsum(-steps * jnp.exp(log_a), 2)
        far = along[:, :, :, None] - along[:, :, None]
        seen = jnp.tril(jnp.ones((chunk, chunk), bool))[..., None]
        decay = jnp.exp(jnp.where(seen, far, -jnp.inf))
        driven = (x * steps[..., None]).astype(BF16)
        pairs = jnp.einsum("bcln,bcsn->bcls", c, b, preferred_element_type=F32)
        own = jnp.einsum("bclsh,bcshp->bclhp", (pairs[..., None] * decay).astype(BF16), driven,
                         preferred_element_type=F32)
        left = jnp.exp(along[:, :, -1:] - along)
        made = jnp.einsum("bcsn,bcshp->bchpn", b, (driven * left[..., None]).astype(BF16), preferred_element_type=F32)

        def pass_on(state, given):
            new, keep = given
            return state * keep[..., None, None] + new, state
        _, before = lax.scan(pass_on, jnp.zeros((batch, heads, size, states)),
                             (made.swapaxes(0, 1), jnp.exp(along[:, :, -1]).swapaxes(0, 1)))
        carried = jnp.einsum("bcln,cbhpn->bclhp", c, before.astype(BF16), preferred_element_type=F32)
        return (own + carried * jnp.exp(along)[..., None] + d[:, None] * x).astype(BF16)
    x, bc = bf16(batch, chunks, chunk, heads, size), bf16(batch, chunks, chunk, states, scale=states ** -0.5)
    return (backward(ssd), x, x, f32(batch, chunks, chunk, heads, scale=0.5), f32(heads, scale=0.5), bc, bc,
            f32(heads))


@module("gated_delta_steps_f32", "scans", {"batch": 3, "length": 150, "heads": 6, "k_size": 50, "v_size": 70},
        {"batch": 2, "length": 7, "heads": 2, "k_size": 4, "v_size": 5})
def _(batch, length, heads, k_size, v_size):
    """The gated delta rule, a place after the other."""
    def run(q, k, v, decay, strength):
        k = k * lax.rsqrt(jnp.square(k).sum(-1, keepdims=True) + 1e-6)

        def step(state, now):
            q, k, v, decay, strength = now
            state = state * jax.nn.sigmoid(decay + 3)[..., None, None]
            wrong = v - jnp.einsum("bhkv,bhk->bhv", state, k)
            state = state + jnp.einsum("bhk,bhv->bhkv", k, jax.nn.sigmoid(strength)[..., None] * wrong)
            return state, jnp.einsum("bhkv,bhk->bhv", state, q) * k_size ** -0.5
        return lax.scan(step, jnp.zeros((batch, heads, k_size, v_size)), (q, k, v, decay, strength))
    q, v, gate = (f32(length, batch, heads, *last) for last in ((k_size,), (v_size,), ()))
    return run, q, q, v, gate, gate


@module("delta_rule_chunks_grad_f32", "scans", {"batch": 3, "heads": 5, "chunks": 11, "chunk": 48, "size": 56},
        {"batch": 2, "heads": 2, "chunks": 3, "chunk": 4, "size": 3})
def _(batch, heads, chunks, chunk, size):
    """The delta rule by chunks: the inverse of a triangle by products of its powers, states by a scan."""
    def run(q, k, v, strength):
        k = k * lax.rsqrt(jnp.square(k).sum(-1, keepdims=True) + 1e-6)
        strength = jax.nn.sigmoid(strength)[..., None]
        eye = jnp.eye(chunk)
        power = -jnp.tril(jnp.einsum("bhcid,bhcjd->bhcij", k * strength, k), -1)
        inverse = eye + power
        for _ in range((chunk - 1).bit_length() - 1):
            power = power @ power
            inverse = inverse @ (eye + power)
        w, u = inverse @ (k * strength), inverse @ (v * strength)
        pairs = jnp.tril(jnp.einsum("bhcid,bhcjd->bhcij", q, k))

        def step(state, given):
            q, k, w, u, pairs = given
            new = u - w @ state
            return state + k.swapaxes(-1, -2) @ new, q @ state + pairs @ new
        by_chunk = [jnp.moveaxis(a, 2, 0) for a in (q, k, w, u, pairs)]
        return jnp.moveaxis(lax.scan(step, jnp.zeros((batch, heads, size, size)), by_chunk)[1], 0, 2)
    x = f32(batch, heads, chunks, chunk, size)
    return backward(run), x, f32(batch, heads, chunks, chunk, size, scale=0.2), x, x, f32(batch, heads, chunks, chunk)


@module("min_lstm_grad_f32", "scans", {"batch": 5, "length": 700, "width": 222}, {"batch": 2, "length": 9, "width": 4})
def _(batch, length, width):
    """Gates from inputs alone, normalised; an associative scan along the middle axis."""
    def combine(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    def run(x, w, bias):
        f, i, h = jnp.split(x @ w + bias, 3, -1)
        f, i = jax.nn.sigmoid(f), jax.nn.sigmoid(i)
        h = jnp.where(h >= 0, h + 0.5, jax.nn.sigmoid(h))
        return x + lax.associative_scan(combine, (f / (f + i), i / (f + i) * h), axis=1)[1]
    x = f32(batch, length, width)
    return backward(run), x, x, weights(F32, width, 3 * width), f32(3 * width)


@module("li_gru_norm_grad_f32", "scans", {"batch": 13, "length": 60, "inputs": 90, "width": 210},
        {"batch": 2, "length": 5, "inputs": 3, "width": 4})
def _(batch, length, inputs, width):
    """A light GRU both ways: one gate, a norm of what the state gives, ReLU."""
    def one(x, w, u, gain, bias, reverse):
        given = jnp.einsum("bti,io->tbo", x, w)

        def step(h, now):
            z, n = jnp.split(now + layer(h @ u, gain, bias), 2, -1)
            z = jax.nn.sigmoid(z)
            h = z * h + (1 - z) * jax.nn.relu(n)
            return h, h
        return lax.scan(step, jnp.zeros((batch, width)), given, reverse=reverse)[1]

    def both(x, ahead, back):
        return jnp.concatenate([one(x, *ahead, False), one(x, *back, True)], -1)
    p = [weights(F32, inputs, 2 * width), weights(F32, width, 2 * width), around_one(F32, 2 * width),
         f32(2 * width, scale=0.1)]
    return backward(both), f32(length, batch, 2 * width), f32(batch, length, inputs), p, p


# Sorts.

@module("pairs_unique_runs_s32", "sorts", {"length": 300007, "first": 5003, "second": 97},
        {"length": 61, "first": 5, "second": 3})
def _(length, first, second):
    """Sorts by two keys, marks where a pair is new, numbers the pairs, counts each and finds the most frequent."""
    def runs(a, b, x):
        a, b, x, order = lax.sort((a, b, x, jnp.arange(length)), num_keys=2, is_stable=True)
        new = jnp.concatenate([jnp.ones(1, bool), (a[1:] != a[:-1]) | (b[1:] != b[:-1])])
        which = jnp.cumsum(new) - 1
        counts = jnp.zeros(length, jnp.int32).at[which].add(1)
        back = jnp.zeros(length, which.dtype).at[order].set(which)
        sums = jax.ops.segment_sum(x, which, length, indices_are_sorted=True)
        return counts, back, sums, which[-1] + 1, lax.top_k(counts, 5)[0]
    return runs, ints(first, length), ints(second, length), f32(length)


@module("rerank_top_100_f32", "sorts", {"batch": 13, "classes": 50257, "width": 120, "k": 100},
        {"batch": 3, "classes": 31, "width": 4, "k": 5}, mismatch=0.02)
def _(batch, classes, width, k):
    """The hundred best of a coarse product, scored again by fine vectors, in the order of the fine scores."""
    def rank(coarse, fine, table, fine_table):
        values, which = lax.top_k(jnp.einsum("bd,vd->bv", coarse, table), k)
        again = jnp.einsum("bd,bkd->bk", fine, fine_table[which]) + 0.1 * values
        order = jnp.argsort(again, axis=-1, descending=True)
        return jnp.take_along_axis(which, order, 1), jnp.take_along_axis(again, order, 1), jax.nn.softmax(again)
    return (rank, f32(batch, width // 4), f32(batch, width), f32(classes, width // 4),
            f32(classes, width, scale=width ** -0.5))


# Mixtures of experts.

@module("moe_dropless_ragged_grad_bf16", "moe",
        {"tokens": 1500, "experts": 9, "each": 2, "width": 400, "inner": 700},
        {"tokens": 13, "experts": 3, "each": 2, "width": 8, "inner": 6}, tolerance=3, mismatch=0.03)
def _(tokens, experts, each, width, inner):
    """Pairs sorted by expert, products of ragged groups, gated, added back; gradients of all."""
    def moe(x, router, gate, up, down):
        logits = jnp.einsum("td,de->te", x, router, preferred_element_type=F32)
        best, which = lax.top_k(logits, each)
        share, flat = jax.nn.softmax(best), which.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        sizes = jnp.bincount(flat, length=experts).astype(jnp.int32)
        sent = x[order // each]
        h = jax.nn.silu(lax.ragged_dot(sent, gate, sizes)) * lax.ragged_dot(sent, up, sizes)
        made = lax.ragged_dot(h, down, sizes) * share.reshape(-1)[order, None].astype(BF16)
        return x + jnp.zeros((tokens, width), F32).at[order // each].add(made.astype(F32)).astype(BF16)
    x, w = bf16(tokens, width), weights(BF16, experts, width, inner)
    return backward(moe), x, x, weights(BF16, width, experts), w, w, weights(BF16, experts, inner, width)


@module("expert_choice_grad_bf16", "moe",
        {"tokens": 1111, "experts": 7, "capacity": 300, "width": 420, "inner": 900},
        {"tokens": 13, "experts": 3, "capacity": 5, "width": 8, "inner": 6}, tolerance=3, mismatch=0.04)
def _(tokens, experts, capacity, width, inner):
    """Each expert takes its 300 best tokens; a shared expert takes all."""
    def moe(x, router, up, down, shared_up, shared_down):
        shares = jax.nn.softmax(jnp.einsum("td,de->te", x, router, preferred_element_type=F32))
        share, which = lax.top_k(shares.T, capacity)
        h = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", x[which], up))
        made = jnp.einsum("ecf,efd->ecd", h, down) * share[..., None].astype(BF16)
        out = jnp.zeros((tokens, width), F32).at[which].add(made.astype(F32))
        return out.astype(BF16) + jax.nn.gelu(x @ shared_up) @ shared_down
    x = bf16(tokens, width)
    return (backward(moe), x, x, weights(BF16, width, experts), weights(BF16, experts, width, inner),
            weights(BF16, experts, inner, width), weights(BF16, width, inner), weights(BF16, inner, width))


# Convolution nets.

@module("resnet_1d_grouped_grad_bf16", "convolutions",
        {"batch": 5, "length": 3000, "channels": 99, "groups": 3, "taps": 7},
        {"batch": 2, "length": 23, "channels": 6, "groups": 3, "taps": 3}, tolerance=3)
def _(batch, length, channels, groups, taps):
    """NCW: two grouped convolutions, of dilation 5 and of stride 2, batch norm between, a shortcut of averages."""
    def conv(x, w, stride, dilation, pad):
        return lax.conv_general_dilated(x, w, (stride,), [(pad, pad)], rhs_dilation=(dilation,),
                                        feature_group_count=groups, dimension_numbers=("NCW", "OIW", "NCW"))

    def block(x, first, second, gain, bias):
        h = conv(x, first, 1, 5, 5 * (taps // 2)).astype(F32)
        mean, spread = h.mean((0, 2), keepdims=True), h.var((0, 2), keepdims=True)
        h = jax.nn.relu((h - mean) * lax.rsqrt(spread + 1e-5) * gain[:, None] + bias[:, None]).astype(BF16)
        h = conv(h, second, 2, 1, taps // 2)
        near = lax.reduce_window(x.astype(F32), 0.0, lax.add, (1, 1, 2), (1, 1, 2),
                                 ((0, 0), (0, 0), (0, length % 2)))
        return jax.nn.relu(h.astype(F32) + 0.5 * near).astype(BF16)
    w = bf16(channels, channels // groups, taps, scale=(channels // groups * taps) ** -0.5)
    return (backward(block), bf16(batch, channels, -(-length // 2)), bf16(batch, channels, length), w, w,
            around_one(F32, channels), f32(channels, scale=0.1))


@module("conv_2_plus_1_d_grad_f32", "convolutions",
        {"clips": 2, "frames": 11, "size": 41, "channels": 33, "middle": 52},
        {"clips": 2, "frames": 3, "size": 5, "channels": 3, "middle": 4})
def _(clips, frames, size, channels, middle):
    """Clips: a 1 × 3 × 3 of stride 2 in space, then a 3 × 1 × 1, both with biases."""
    def block(x, space, bias, time, bias2):
        dimensions = ("NDHWC", "DHWIO", "NDHWC")
        h = lax.conv_general_dilated(x, space, (1, 2, 2), ((0, 0), (1, 1), (1, 1)), dimension_numbers=dimensions)
        h = jax.nn.silu(h + bias)
        return jax.nn.silu(lax.conv_general_dilated(h, time, (1, 1, 1), ((1, 1), (0, 0), (0, 0)),
                                                    dimension_numbers=dimensions) + bias2)
    half = (size + 1) // 2
    return (backward(block), f32(clips, frames, half, half, 2 * channels), f32(clips, frames, size, size, channels),
            f32(1, 3, 3, channels, middle, scale=(9 * channels) ** -0.5), f32(middle),
            f32(3, 1, 1, middle, 2 * channels, scale=(3 * middle) ** -0.5), f32(2 * channels))


@module("transposed_pixel_shuffle_bf16", "convolutions",
        {"images": 3, "height": 50, "width": 70, "inputs": 90, "outputs": 33},
        {"images": 2, "height": 3, "width": 4, "inputs": 5, "outputs": 3}, tolerance=2)
def _(images, height, width, inputs, outputs):
    """A transposed 5 × 5 of stride 3, a norm of channels, a dilated 3 × 3, then channels become 2 × 2 pixels."""
    def up(x, first, gain, second, bias):
        h = lax.conv_transpose(x, first, (3, 3), "SAME", dimension_numbers=NHWC)
        h = jax.nn.leaky_relu(rms(h, gain), 0.2)
        h = lax.conv_general_dilated(h, second, (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=NHWC) + bias
        h = h.reshape(images, 3 * height, 3 * width, 3, 2, 2).transpose(0, 1, 4, 2, 5, 3)
        return jax.nn.sigmoid(h.reshape(images, 6 * height, 6 * width, 3))
    return (up, bf16(images, height, width, inputs), bf16(5, 5, inputs, outputs, scale=(3 * inputs) ** -0.5),
            around_one(BF16, outputs), bf16(3, 3, outputs, 12, scale=(9 * outputs) ** -0.5), bf16(12))


# Pooling.

@module("overlapping_blur_pool_grad_f32", "pools", {"images": 6, "size": 99, "channels": 33},
        {"images": 2, "size": 11, "channels": 3})
def _(images, size, channels):
    """The greatest of 3 × 3 at each place, then a binomial 5 × 5 of stride 2; averages of 7 × 7 of stride 5 beside."""
    def pool(x):
        top = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        taps = jnp.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
        kernel = jnp.tile((taps[:, None] * taps)[:, :, None, None], (1, 1, 1, channels))
        blurred = lax.conv_general_dilated(top, kernel, (2, 2), "SAME", dimension_numbers=NHWC,
                                           feature_group_count=channels)
        window, stride = (1, 7, 7, 1), (1, 5, 5, 1)
        count = lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, window, stride, "SAME")
        return blurred, lax.reduce_window(x, 0.0, lax.add, window, stride, "SAME") / count

    def gradients(to, to_wide, x):
        return jax.vjp(pool, x)[1]((to, to_wide))
    x, half, fifth = (f32(images, n, n, channels) for n in (size, -(-size // 2), -(-size // 5)))
    return gradients, half, fifth, x


@module("pyramid_adaptive_pool_bf16", "pools", {"images": 5, "height": 50, "width": 38, "channels": 210},
        {"images": 2, "height": 7, "width": 5, "channels": 4}, tolerance=2)
def _(images, height, width, channels):
    """Adaptive means to 1, 2, 3 and 6 squared by windows of unlike sizes, products, nearest again, side by side."""
    def windows(size, to):
        start, end = jnp.arange(to) * size // to, -(-(jnp.arange(1, to + 1) * size) // to)
        inside = (jnp.arange(size) >= start[:, None]) & (jnp.arange(size) < end[:, None])
        return inside / (end - start)[:, None]

    def pool(x, *point):
        parts = [x]
        for to, w in zip((1, 2, 3, 6), point):
            to_y, to_x = min(to, height), min(to, width)
            small = jnp.einsum("yh,xw,bhwc->byxc", windows(height, to_y), windows(width, to_x), x.astype(F32))
            small = jax.nn.relu(small.astype(BF16) @ w)
            y, x_ = jnp.arange(height) * to_y // height, jnp.arange(width) * to_x // width
            parts.append(small[:, y][:, :, x_])
        return jnp.concatenate(parts, -1)
    return pool, bf16(images, height, width, channels), *[weights(BF16, channels, channels // 4)] * 4


# Stencils.

@module("red_black_until_f32", "stencils", {"height": 600, "width": 500, "steps": 30},
        {"height": 7, "width": 5, "steps": 4})
def _(height, width, steps):
    """Over-relaxed Gauss-Seidel by colours in a while loop until the residual is small or 30 steps are done."""
    def solve(x, f, tolerance):
        y, z = jnp.arange(height)[:, None], jnp.arange(width)
        inner = (y > 0) & (y < height - 1) & (z > 0) & (z < width - 1)

        def half(x, colour):
            wide = jnp.pad(x, 1)
            near = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
            change = (near - f) / 4 - x
            here = inner & ((y + z) % 2 == colour)
            return jnp.where(here, x + 1.7 * change, x), jnp.where(here, jnp.abs(change), 0).max()

        def body(state):
            i, x, _ = state
            x, one = half(x, 0)
            x, two = half(x, 1)
            return i + 1, x, jnp.maximum(one, two)
        return lax.while_loop(lambda s: (s[0] < steps) & (s[2] > tolerance), body, (0, x, jnp.float32(jnp.inf)))
    return solve, f32(height, width), f32(height, width, scale=0.1), Arg((), F32, low=1e-6, high=1e-5)


@module("shallow_water_f32", "stencils", {"height": 500, "width": 333, "steps": 15},
        {"height": 6, "width": 5, "steps": 3})
def _(height, width, steps):
    """Lax-Friedrichs for a height and two momenta: walls in y, around in x; a fori_loop whose step is adapted."""
    def run(h, u, v):
        def step(_, state):
            h, u, v = state
            dt = 0.2 / (jnp.sqrt(9.8 * h) + jnp.abs(u / h) + jnp.abs(v / h)).max()
            fluxes_x = (u, u * u / h + 4.9 * h * h, u * v / h)
            fluxes_y = (v, u * v / h, v * v / h + 4.9 * h * h)

            def sides(a, sign):
                y = jnp.concatenate([sign * a[:1], a, sign * a[-1:]])
                return y[:-2], y[2:], jnp.roll(a, 1, 1), jnp.roll(a, -1, 1)
            made = []
            for a, fx, fy, sign, sign_y in zip(state, fluxes_x, fluxes_y, (1, 1, -1), (-1, -1, 1)):
                up, down, left, right = sides(a, sign)
                fy_up, fy_down, _, _ = sides(fy, sign_y)
                _, _, fx_left, fx_right = sides(fx, 1)
                made.append((up + down + left + right) / 4
                            - 0.5 * dt * (fx_right - fx_left + fy_down - fy_up))
            return tuple(made)
        return lax.fori_loop(0, steps, step, (h, u, v))
    depth = Arg((height, width), F32, low=0.9, high=1.1)
    return run, depth, f32(height, width, scale=0.05), f32(height, width, scale=0.05)


# Sampling.

@module("typical_nucleus_draw_b9_f32", "sampling", {"batch": 9, "classes": 50257}, {"batch": 3, "classes": 41},
        mismatch=0.01)
def _(batch, classes):
    """Locally typical sampling: sorted by how far the surprise is from the entropy, min-p too, a draw of each row."""
    def draw(data, logits, mass, temperature):
        logs = jax.nn.log_softmax(logits / temperature[:, None])
        shares = jnp.exp(logs)
        entropy = -(shares * logs).sum(-1, keepdims=True)
        order = jnp.argsort(jnp.abs(-logs - entropy), axis=-1)
        sorted_ = jnp.take_along_axis(shares, order, -1)
        last = (jnp.cumsum(sorted_, -1) < mass[:, None]).sum(-1)
        keep_sorted = jnp.arange(classes) <= last[:, None]
        keep = jnp.zeros(shares.shape, bool).at[jnp.arange(batch)[:, None], order].set(keep_sorted)
        keep = keep & (shares > 0.002 * shares.max(-1, keepdims=True))
        noise = jax.random.gumbel(key_of(data), logs.shape)
        drawn = jnp.where(keep, logs + noise, -jnp.inf).argmax(-1)
        return drawn, jnp.take_along_axis(logs, drawn[:, None], -1)[:, 0], keep.sum(-1), entropy
    return (draw, key(), f32(batch, classes, scale=2.5), Arg((batch,), F32, low=0.5, high=0.95),
            Arg((batch,), F32, low=0.7, high=1.3))


@module("dropout_depth_norm_grad_bf16", "sampling", {"batch": 24, "length": 150, "width": 777},
        {"batch": 4, "length": 3, "width": 7}, tolerance=3)
def _(batch, length, width):
    """Dropout, a product, dropout again, stochastic depth by batch, a residual and a norm; three keys from one."""
    def block(x, w, gain, bias, data):
        one, two, three = jax.random.split(key_of(data), 3)
        h = jnp.where(jax.random.bernoulli(one, 0.9, x.shape), x / 0.9, 0) @ w
        h = jnp.where(jax.random.bernoulli(two, 0.8, x.shape), jax.nn.gelu(h) / 0.8, 0)
        kept = jax.random.bernoulli(three, 0.75, (batch, 1, 1))
        return layer(x + jnp.where(kept, h / 0.75, 0), gain, bias)
    x = bf16(batch, length, width)
    return (grad_of(block, 4), x, x, weights(BF16, width, width), around_one(BF16, width), bf16(width, scale=0.1),
            key())


# Quantised products.

@module("qat_int8_channels_grad_f32", "quantised", {"rows": 1000, "inputs": 777, "outputs": 1280},
        {"rows": 7, "inputs": 9, "outputs": 5}, mismatch=5e-3)
def _(rows, inputs, outputs):
    """Training with rounding: weights by channels, activations by a learned step, gradients straight through (LSQ)."""
    def rounded(a):
        return a + lax.stop_gradient(jnp.round(a) - a)

    def dense(x, w, step, bias):
        q = rounded(jnp.clip(x / step, -128, 127)) * step
        most = lax.stop_gradient(jnp.abs(w).max(0)) / 127   # no clip, whose slope at 127 would hang on a rounding
        return jax.nn.silu(q @ (rounded(w / most) * most) + bias)
    return (backward(dense), f32(rows, outputs), f32(rows, inputs), weights(F32, inputs, outputs),
            Arg((), F32, low=0.015, high=0.03), f32(outputs))


@module("fp8_e5m2_gradients_bf16", "quantised", {"rows": 600, "inputs": 1280, "outputs": 900, "block": 128},
        {"rows": 4, "inputs": 16, "outputs": 6, "block": 8}, tolerance=3)
def _(rows, inputs, outputs, block):
    """dy to e5m2 by a scale of each row, x to e4m3 by scales of blocks of 128; products for both gradients."""
    def gradients(dy, x, w, w_scale):
        wide = dy.astype(F32)
        scale = jnp.abs(wide).max(1, keepdims=True) / 57344 + 1e-12
        dy8 = (wide / scale).astype(jnp.float8_e5m2)
        dx = lax.dot_general(dy8, w, (((1,), (1,)), ((), ())), preferred_element_type=F32) * scale * w_scale
        blocks = x.astype(F32).reshape(rows, inputs // block, block)
        x_scale = jnp.abs(blocks).max(-1, keepdims=True) / 448 + 1e-12
        x8 = (blocks / x_scale).astype(F8)
        back = (x8.astype(F32) * x_scale).reshape(rows, inputs).astype(BF16)
        dw = lax.dot_general(back, dy, (((0,), (0,)), ((), ())), preferred_element_type=F32)
        return dx.astype(BF16), dw, x8, x_scale[..., 0]
    return (gradients, bf16(rows, outputs), bf16(rows, inputs), Arg((inputs, outputs), F8, 8.0),
            Arg((), F32, low=0.01, high=0.02))


@module("int4_groups_of_40_b7_bf16", "quantised", {"rows": 7, "inputs": 2000, "outputs": 3333, "group": 40},
        {"rows": 3, "inputs": 16, "outputs": 5, "group": 4}, tolerance=2)
def _(rows, inputs, outputs, group):
    """Weights of int4, not packed, [inputs, outputs] with scales of groups of 40 inputs; each group's sum is scaled."""
    def dense(x, w, scales, bias):
        parts = x.reshape(rows, inputs // group, group)
        w = w.reshape(inputs // group, group, outputs).astype(BF16)
        sums = jnp.einsum("rgi,gio->rgo", parts, w, preferred_element_type=F32)
        return jax.nn.relu((sums * scales).sum(1) + bias).astype(BF16)
    return (dense, bf16(rows, inputs), ints(8, inputs, outputs, low=-8, dtype=jnp.int4),
            Arg((inputs // group, outputs), F32, low=0.002, high=0.004), f32(outputs))


@module("int8_attention_scores_bf16", "quantised", {"batch": 3, "heads": 7, "length": 500, "size": 72},
        {"batch": 2, "heads": 2, "length": 5, "size": 4}, tolerance=2, mismatch=0.01)
def _(batch, heads, length, size):
    """Queries and keys to int8 by their rows, keys less their mean first (SageAttention), values by channels."""
    def quantised(a, axis):
        scale = jnp.abs(a).max(axis, keepdims=True) / 127 + 1e-8
        return jnp.round(a / scale).astype(I8), scale

    def attend(q, k, v):
        q, k, v = (a.astype(F32) for a in (q, k, v))
        q, q_scale = quantised(q * size ** -0.5, -1)
        k, k_scale = quantised(k - k.mean(2, keepdims=True), -1)
        scores = lax.dot_general(q, k, (((3,), (3,)), ((0, 1), (0, 1))), preferred_element_type=jnp.int32)
        shares = jax.nn.softmax(scores.astype(F32) * q_scale * jnp.swapaxes(k_scale, 2, 3))
        v, v_scale = quantised(v, 2)
        return (jnp.einsum("bhqk,bhkd->bhqd", shares.astype(BF16), v.astype(BF16),
                           preferred_element_type=F32) * v_scale).astype(BF16)
    x = bf16(batch, heads, length, size)
    return attend, x, x, x


# FFT.

@module("implicit_filters_fft_grad_f32", "fourier", {"batch": 3, "width": 140, "length": 1500, "inner": 36},
        {"batch": 2, "width": 3, "length": 10, "inner": 4})
def _(batch, width, length, inner):
    """Causal convolutions by transforms of twice the length, of filters that a sine network makes, with decays."""
    def conv(x, first, second, decay, skip):
        t = jnp.linspace(0.0, 1.0, length)[:, None]
        bands = jnp.concatenate([t, jnp.cos(t * jnp.arange(1, 6) * 6.0), jnp.sin(t * jnp.arange(1, 6) * 6.0)], -1)
        kernel = (jnp.sin(4 * bands @ first) @ second) * jnp.exp(-t * jax.nn.softplus(decay) * 9)
        both = jnp.fft.rfft(x, 2 * length, axis=1) * jnp.fft.rfft(kernel, 2 * length, axis=0) / length ** 0.5
        return jnp.fft.irfft(both, 2 * length, axis=1)[:, :length] + x * skip
    x = f32(batch, length, width)
    return backward(conv), x, x, weights(F32, 11, inner), weights(F32, inner, width), f32(width), f32(width)
