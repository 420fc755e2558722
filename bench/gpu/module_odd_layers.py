"""More modules of modules.py, by an author who had not read the compiler: scans, sorts, experts, convolutions."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, Arg, around_one, backward, bf16, f32, ints, module, weights
from module_odd_blocks import F16, U8, f16, grad_of, key, layer, softmax


# Scans.

@module("scan_2x2_f32", "scans", {"rows": 53, "length": 1777}, {"rows": 3, "length": 13})
def _(rows, length):
    """Products of 2 × 2 matrices and vectors, associatively, along the last but two axis."""
    def combine(a, b):
        return b[0] @ a[0], jnp.einsum("...ij,...j->...i", b[0], a[1]) + b[1]

    def scan(angle, decay, x):
        c, s = jnp.cos(angle) * decay, jnp.sin(angle) * decay
        m = jnp.stack([jnp.stack([c, -s], -1), jnp.stack([s, c], -1)], -2)
        return lax.associative_scan(combine, (m, x), axis=1)
    return (scan, Arg((rows, length), F32, low=0, high=6), Arg((rows, length), F32, low=0.97, high=1.0),
            f32(rows, length, 2))


@module("cumlogsumexp_reverse_grad_f32", "scans", {"batch": 19, "length": 601, "width": 77},
        {"batch": 2, "length": 9, "width": 3})
def _(batch, length, width):
    """From the end, along the middle axis."""
    x = f32(batch, length, width)
    return backward(lambda x: lax.cumlogsumexp(x, axis=1, reverse=True)), x, x


@module("rwkv_wkv_grad_f32", "scans", {"batch": 5, "length": 97, "width": 509}, {"batch": 2, "length": 7, "width": 5})
def _(batch, length, width):
    """RWKV-4's sums with a running maximum of exponents."""
    def wkv(decay, first, k, v, r):
        decay = -jnp.exp(decay)

        def step(state, now):
            a, b, most = state
            k, v = now
            top = jnp.maximum(most, first + k)
            e1, e2 = jnp.exp(most - top), jnp.exp(first + k - top)
            out = (e1 * a + e2 * v) / (e1 * b + e2)
            top = jnp.maximum(most + decay, k)
            e1, e2 = jnp.exp(most + decay - top), jnp.exp(k - top)
            return (e1 * a + e2 * v, e1 * b + e2, top), out
        zero = jnp.zeros((batch, width))
        _, out = lax.scan(step, (zero, zero, zero - 1e30), (k.swapaxes(0, 1), v.swapaxes(0, 1)))
        return jax.nn.sigmoid(r) * out.swapaxes(0, 1)
    x = f32(batch, length, width)
    return backward(wkv), x, f32(width), f32(width), x, x, x


@module("s5_bidirectional_f32", "scans", {"batch": 3, "length": 1021, "width": 160, "states": 96},
        {"batch": 2, "length": 9, "width": 4, "states": 3})
def _(batch, length, width, states):
    """Complex diagonal states, associatively, both ways; discretised by zero-order hold."""
    def combine(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    def apply(u, real, imaginary, log_step, b_re, b_im, c_re, c_im, d):
        eigen = lax.complex(-jnp.exp(real), imaginary)
        a = jnp.exp(eigen * jnp.exp(log_step))
        b = ((a - 1) / eigen)[:, None] * lax.complex(b_re, b_im)
        driven = jnp.einsum("ph,blh->blp", b, u.astype(jnp.complex64))
        factors = jnp.broadcast_to(a, driven.shape)
        _, ahead = lax.associative_scan(combine, (factors, driven), axis=1)
        _, back = lax.associative_scan(combine, (factors, driven), axis=1, reverse=True)
        y = jnp.einsum("hp,blp->blh", lax.complex(c_re, c_im), jnp.concatenate([ahead, back], -1)).real
        return jax.nn.gelu(2 * y + d * u)
    return (apply, f32(batch, length, width), f32(states, scale=0.5), f32(states, scale=3.0),
            Arg((states,), F32, low=-4, high=-1), f32(states, width, scale=width ** -0.5),
            f32(states, width, scale=width ** -0.5), f32(width, 2 * states, scale=0.2),
            f32(width, 2 * states, scale=0.2), f32(width))


@module("gru_173_grad_f32", "scans", {"batch": 19, "length": 41, "inputs": 67, "width": 173},
        {"batch": 2, "length": 5, "inputs": 3, "width": 5})
def _(batch, length, inputs, width):
    """From the end to the start, with lengths: states stay where the padding is."""
    def gru(x, h, w, u, b, bn, lengths):
        def step(h, now):
            given, t = now
            gates = given @ w + b
            held = h @ u
            r = jax.nn.sigmoid(gates[:, :width] + held[:, :width])
            z = jax.nn.sigmoid(gates[:, width:2 * width] + held[:, width:2 * width])
            n = jnp.tanh(gates[:, 2 * width:] + r * (held[:, 2 * width:] + bn))
            h = jnp.where((t < lengths)[:, None], (1 - z) * n + z * h, h)
            return h, h
        return lax.scan(step, h, (x, jnp.arange(length)), reverse=True)[1]
    return (grad_of(gru, 6), f32(length, batch, width), f32(length, batch, inputs), f32(batch, width),
            weights(F32, inputs, 3 * width), weights(F32, width, 3 * width), f32(3 * width, scale=0.1),
            f32(width, scale=0.1), ints(length + 1, batch, low=length // 2))


# Sorts.

@module("ranks_of_rows_s16", "sorts", {"rows": 773, "columns": 1999}, {"rows": 5, "columns": 13})
def _(rows, columns):
    """Orders of 16-bit integers with many ties, stable, and each element's rank."""
    def ranks(x):
        order = jnp.argsort(x, axis=1, stable=True)
        return order, jnp.argsort(order, axis=1), jnp.sort(x, axis=0, descending=True)
    return ranks, ints(500, rows, columns, low=-500, dtype=jnp.int16)


@module("top_k_7_of_5003_f16", "sorts", {"rows": 997, "columns": 5003}, {"rows": 5, "columns": 31}, mismatch=0.01)
def _(rows, columns):
    """The seven greatest, their softmax, and what a table has at their places."""
    def top(x, table):
        best, which = lax.top_k(x.astype(F32), 7)
        share = jax.nn.softmax(best)
        return share, (share[..., None] * table[which].astype(F32)).sum(1), lax.top_k(-x, 3)[0]
    return top, f16(rows, columns), f16(columns, 19)


@module("min_p_top_p_b17_bf16", "sorts", {"batch": 17, "vocabulary": 32003}, {"batch": 3, "vocabulary": 41},
        mismatch=2e-3)
def _(batch, vocabulary):
    """A penalty of seen tokens, temperature, top-p of the sorted, min-p; the shares that are left, back in place."""
    def filtered(logits, counts, temperature, p):
        x = logits.astype(F32) - 0.3 * counts - 0.2 * (counts > 0)
        x = x / temperature[:, None]
        order = jnp.argsort(-x, axis=-1)
        shares = jax.nn.softmax(jnp.take_along_axis(x, order, -1))
        before = jnp.cumsum(shares, -1) - shares
        keep_sorted = (before < p[:, None]) & (shares >= 0.01 * shares[:, :1])
        keep = jnp.zeros(x.shape, bool).at[jnp.arange(batch)[:, None], order].set(keep_sorted)
        return jax.nn.softmax(jnp.where(keep, x, -jnp.inf)), keep.sum(-1)
    return (filtered, bf16(batch, vocabulary, scale=2.0), ints(3, batch, vocabulary),
            Arg((batch,), F32, low=0.6, high=1.0), Arg((batch,), F32, low=0.7, high=0.95))


@module("median_filter_5x5_f32", "sorts", {"images": 2, "height": 255, "width": 251},
        {"images": 2, "height": 7, "width": 9})
def _(images, height, width):
    """Of the 25 neighbours of each pixel, by a sort of stacked shifts; the median of each image too."""
    def median(x):
        wide = jnp.pad(x, ((0, 0), (2, 2), (2, 2)), mode="reflect")
        shifts = jnp.stack([wide[:, i:i + height, j:j + width] for i in range(5) for j in range(5)])
        made = jnp.sort(shifts, 0)[12]
        return made, jnp.median(x.reshape(images, -1), axis=1), jnp.abs(x - made).max()
    return median, f32(images, height, width)


# Mixtures of experts.

@module("moe_top2_capacity_grad_bf16", "moe",
        {"groups": 3, "tokens": 331, "experts": 6, "capacity": 120, "width": 320, "inner": 640},
        {"groups": 2, "tokens": 11, "experts": 3, "capacity": 6, "width": 8, "inner": 12}, tolerance=3, mismatch=0.02)
def _(groups, tokens, experts, capacity, width, inner):
    """GShard: dispatch and combination as one-hot products by group, with the balance loss."""
    def loss(x, router, up, down):
        gates = jax.nn.softmax(jnp.einsum("gsd,de->gse", x, router, preferred_element_type=F32))
        first = gates.argmax(-1)
        m1 = jax.nn.one_hot(first, experts)
        second = jnp.where(m1 > 0, -1, gates).argmax(-1)
        m2 = jax.nn.one_hot(second, experts)
        at1 = jnp.cumsum(m1, 1) - m1
        at2 = jnp.cumsum(m2, 1) - m2 + m1.sum(1, keepdims=True)
        balance = (gates.mean(1) * m1.mean(1)).sum() * experts / groups
        m1, m2 = m1 * (at1 < capacity), m2 * (at2 < capacity)
        g1, g2 = (gates * m1).sum(-1), (gates * m2).sum(-1)
        total = jnp.maximum(g1 + g2, 1e-9)
        combine = sum((g / total)[..., None, None] * m[..., None]
                      * jax.nn.one_hot((at * m).sum(-1).astype(jnp.int32), capacity)[:, :, None]
                      for g, m, at in ((g1, m1, at1), (g2, m2, at2)))
        sent = jnp.einsum("gsec,gsd->egcd", (combine > 0).astype(BF16), x)
        made = jnp.einsum("egcf,efd->egcd", jax.nn.relu(jnp.einsum("egcd,edf->egcf", sent, up)), down)
        y = jnp.einsum("gsec,egcd->gsd", combine.astype(BF16), made)
        return jnp.square((x + y).astype(F32)).mean() * 10 + 0.01 * balance
    return (jax.value_and_grad(loss, (0, 1, 2, 3)), bf16(groups, tokens, width), weights(BF16, width, experts),
            weights(BF16, experts, width, inner), weights(BF16, experts, inner, width))


@module("moe_sorted_capacity_grad_f32", "moe",
        {"tokens": 1021, "experts": 12, "each": 3, "capacity": 320, "width": 211, "inner": 307},
        {"tokens": 13, "experts": 4, "each": 2, "capacity": 8, "width": 5, "inner": 7}, mismatch=0.01)
def _(tokens, experts, each, capacity, width, inner):
    """Pairs of token and expert are sorted by expert and scattered to buffers; the overflow is dropped."""
    def layer(x, router, gate, up, down):
        shares, which = lax.top_k(jax.nn.sigmoid(x @ router), each)
        shares = shares / shares.sum(-1, keepdims=True)
        flat = which.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        expert, token = flat[order], order // each
        start = jnp.searchsorted(expert, jnp.arange(experts))
        place = jnp.arange(tokens * each) - start[expert]
        buffers = jnp.zeros((experts, capacity, width)).at[expert, place].set(x[token], mode="drop")
        h = jax.nn.silu(jnp.einsum("ecd,edf->ecf", buffers, gate)) * jnp.einsum("ecd,edf->ecf", buffers, up)
        made = jnp.einsum("ecf,efd->ecd", h, down)
        back = made.at[expert, place].get(mode="fill", fill_value=0) * shares.reshape(-1)[order, None]
        return x + jnp.zeros_like(x).at[token].add(back)
    x = f32(tokens, width)
    return (backward(layer), x, x, weights(F32, width, experts), weights(F32, experts, width, inner),
            weights(F32, experts, width, inner), weights(F32, experts, inner, width))


# Convolution nets.

NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


@module("depthwise_7x7_se_grad_bf16", "convolutions", {"images": 5, "size": 37, "channels": 93, "squeezed": 23},
        {"images": 2, "size": 8, "channels": 6, "squeezed": 3}, tolerance=3)
def _(images, size, channels, squeezed):
    """A depthwise 7 × 7 of stride 2, squeeze and excite by hard sigmoids, a 1 × 1 with hard swish."""
    def block(x, depth, down, up, point, bias):
        x = lax.conv_general_dilated(x, depth, (2, 2), "SAME", dimension_numbers=NHWC, feature_group_count=channels)
        pooled = x.astype(F32).mean((1, 2)).astype(BF16)
        gate = jax.nn.hard_sigmoid(jax.nn.relu(pooled @ down) @ up * 4)
        return jax.nn.hard_swish((x * gate[:, None, None]) @ point + bias)
    half = -(-size // 2)
    return (backward(block), bf16(images, half, half, 2 * channels), bf16(images, size, size, channels),
            bf16(7, 7, 1, channels, scale=1 / 7), weights(BF16, channels, squeezed),
            weights(BF16, squeezed, channels), weights(BF16, channels, 2 * channels), bf16(2 * channels, scale=0.1))


@module("resnext_dilated_nchw_grad_f32", "convolutions", {"images": 3, "size": 29, "channels": 132, "groups": 11},
        {"images": 2, "size": 6, "channels": 6, "groups": 3})
def _(images, size, channels, groups):
    """Grouped 3 × 3 of dilation 3, frozen batch norm, PReLU with a slope for each channel."""
    def block(x, narrow, wide, grouped, gain, bias, slope):
        h = lax.conv_general_dilated(x, narrow, (1, 1), "VALID", dimension_numbers=NCHW)
        h = lax.conv_general_dilated(h, grouped, (1, 1), ((3, 3), (3, 3)), rhs_dilation=(3, 3), dimension_numbers=NCHW,
                                     feature_group_count=groups)
        h = h * gain[:, None, None] + bias[:, None, None]
        h = jnp.where(h > 0, h, h * slope[:, None, None])
        return x + lax.conv_general_dilated(h, wide, (1, 1), "VALID", dimension_numbers=NCHW)
    x, s = f32(images, channels, size, size), channels ** -0.5
    return (backward(block), x, x, f32(channels, channels, 1, 1, scale=s), f32(channels, channels, 1, 1, scale=s),
            f32(channels, channels // groups, 3, 3, scale=(9 * channels // groups) ** -0.5),
            around_one(F32, channels), f32(channels, scale=0.1), Arg((channels,), F32, low=0.1, high=0.4))


@module("unet_up_grad_bf16", "convolutions", {"images": 3, "size": 23, "inputs": 160, "outputs": 72},
        {"images": 2, "size": 3, "inputs": 6, "outputs": 4}, tolerance=3)
def _(images, size, inputs, outputs):
    """A transposed 4 × 4 of stride 2, beside it what was skipped, a 3 × 3 with mish."""
    def block(x, skip, up, conv, bias):
        up = lax.conv_transpose(x, up, (2, 2), "SAME", dimension_numbers=NHWC)
        h = jnp.concatenate([up, skip], -1)
        h = lax.conv_general_dilated(h, conv, (1, 1), "SAME", dimension_numbers=NHWC) + bias
        return h * jnp.tanh(jax.nn.softplus(h))
    big = bf16(images, 2 * size, 2 * size, outputs)
    return (backward(block), big, bf16(images, size, size, inputs), big,
            bf16(4, 4, inputs, outputs, scale=(4 * inputs) ** -0.5),
            bf16(3, 3, 2 * outputs, outputs, scale=(18 * outputs) ** -0.5), bf16(outputs, scale=0.1))


@module("causal_1d_gated_grad_f32", "convolutions", {"batch": 7, "length": 1013, "width": 79},
        {"batch": 2, "length": 11, "width": 3})
def _(batch, length, width):
    """Three causal convolutions of dilations 1, 3, 9 along NWC with gated units."""
    def net(x, *kernels):
        for dilation, kernel in zip((1, 3, 9), kernels):
            h = lax.conv_general_dilated(x, kernel, (1,), [(3 * dilation, 0)], rhs_dilation=(dilation,),
                                         dimension_numbers=("NWC", "WIO", "NWC"))
            a, b = jnp.split(h, 2, -1)
            x = (x + jnp.tanh(a) * jax.nn.sigmoid(b)) * 0.8
        return x
    x = f32(batch, length, width)
    return backward(net), x, x, *[f32(4, width, 2 * width, scale=(4 * width) ** -0.5)] * 3


# Pooling.

@module("lp_adaptive_pool_grad_f32", "pooling", {"images": 9, "size": 47, "channels": 61, "to": 7},
        {"images": 2, "size": 11, "channels": 3, "to": 3})
def _(images, size, channels, to):
    """The cubic mean of overlapping 3 × 3, then adaptive means of 23 → 7, whose windows differ."""
    def pool(x):
        powers = lax.reduce_window(jnp.abs(x) ** 3, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
        x = (powers + 1e-3) ** (1 / 3)
        n = x.shape[1]
        spans = [(i * n // to, -(-(i + 1) * n // to)) for i in range(to)]
        x = jnp.stack([x[:, a:b].mean(1) for a, b in spans], 1)
        return jnp.stack([x[:, :, a:b].mean(2) for a, b in spans], 2)
    return backward(pool), f32(images, to, to, channels), f32(images, size, size, channels)


@module("max_pool_indices_unpool_f32", "pooling", {"images": 5, "size": 58, "channels": 37},
        {"images": 2, "size": 6, "channels": 3})
def _(images, size, channels):
    """Greatest and where they lie, by a window that reduces pairs; then put back at those places."""
    def pool(x):
        places = jnp.broadcast_to(jnp.arange(size * size, dtype=jnp.int32).reshape(size, size, 1), x.shape)

        def better(a, b):
            first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
            return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])
        most, where = lax.reduce_window((x, places), (jnp.float32(-jnp.inf), jnp.int32(2 ** 30)), better,
                                        (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        flat = jnp.zeros((images, size * size, channels))
        i, c = jnp.arange(images)[:, None, None, None], jnp.arange(channels)
        return most, where, flat.at[i, where, c].set(most).reshape(x.shape)
    return pool, f32(images, size, size, channels)


# Stencils.

@module("heat_3d_insulated_f32", "stencils", {"size": 67, "steps": 15}, {"size": 5, "steps": 3})
def _(size, steps):
    """Walls let no heat through (padding by edges); a conductivity at each place; a while loop until a step."""
    def step(x, c):
        wide = jnp.pad(x, 1, mode="edge")
        inner = slice(1, -1)
        total = -6 * x
        for axis in range(3):
            for side in (slice(None, -2), slice(2, None)):
                total = total + wide[tuple(side if a == axis else inner for a in range(3))]
        return x + 0.15 * c * total

    def heat(x, c):
        def body(state):
            i, x, _ = state
            new = step(x, c)
            return i + 1, new, jnp.abs(new - x).max()
        return lax.while_loop(lambda s: (s[0] < steps) & (s[2] > 1e-6), body, (0, x, jnp.float32(1)))
    return heat, f32(size, size - 2, size + 2), Arg((size, size - 2, size + 2), F32, low=0.2, high=1)


@module("advection_upwind_grad_f32", "stencils", {"height": 211, "width": 307, "steps": 9},
        {"height": 5, "width": 7, "steps": 3})
def _(height, width, steps):
    """Upwind differences by rolls in a scan; gradients by the start and by the winds."""
    def run(x, u, v):
        def step(x, _):
            for wind, axis in ((u, 0), (v, 1)):
                back, ahead = x - jnp.roll(x, 1, axis), jnp.roll(x, -1, axis) - x
                x = x - 0.4 * (jnp.maximum(wind, 0) * back + jnp.minimum(wind, 0) * ahead)
            return x, x.sum()
        x, sums = lax.scan(step, x, None, length=steps)
        return x
    x, wind = f32(height, width), Arg((height, width), F32, low=-1, high=1)
    return backward(run), x, x, wind, wind


@module("life_odd_torus_u8", "stencils", {"height": 1019, "width": 773, "steps": 20},
        {"height": 5, "width": 7, "steps": 4})
def _(height, width, steps):
    """HighLife on a board of bytes that wraps around; how many live after each step."""
    def run(board):
        def step(x, _):
            rows = x + jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0)
            n = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - x
            x = ((n == 3) | ((x == 1) & (n == 2)) | ((x == 0) & (n == 6))).astype(U8)
            return x, x.sum(dtype=jnp.int32)
        return lax.scan(step, board, None, length=steps)
    return run, ints(2, height, width, dtype=U8)


# Sampling.

@module("beta_multinomial_f32", "sampling", {"rows": 211, "columns": 97, "draws": 1009},
        {"rows": 3, "columns": 5, "draws": 11}, mismatch=0.01)
def _(rows, columns, draws):
    """Betas by rejection; counts of draws by search in cumulated shares."""
    def sample(key, a, b, logits):
        one, two = jax.random.split(key)
        cumulated = jnp.cumsum(jax.nn.softmax(logits), -1)
        drawn = jax.random.uniform(two, (rows, draws)) * cumulated[:, -1:] * 0.999999
        which = jax.vmap(lambda c, d: jnp.searchsorted(c, d, side="right"))(cumulated, drawn)
        counts = jnp.zeros((rows, columns), jnp.int32).at[jnp.arange(rows)[:, None], which].add(1)
        return jax.random.beta(one, a, b), counts
    shape = Arg((rows, columns), F32, low=0.5, high=4)
    return sample, key(), shape, shape, f32(rows, columns)


@module("gumbel_top_k_permute_bf16", "sampling", {"rows": 501, "columns": 1201, "k": 13},
        {"rows": 4, "columns": 17, "k": 3}, mismatch=0.01)
def _(rows, columns, k):
    """Draws without replacement from each row, in the order of a permutation of the rows."""
    def sample(key, logits):
        one, two, three = jax.random.split(key, 3)
        noisy = logits.astype(F32) + jax.random.gumbel(one, logits.shape)
        values, which = lax.top_k(noisy, k)
        order = jax.random.permutation(two, rows)
        return values[order], which[order], jax.random.bernoulli(three, 0.3, (rows,)), order
    return sample, key(), bf16(rows, columns)


@module("attention_dropout_grad_bf16", "sampling", {"batch": 2, "heads": 7, "length": 307, "size": 72},
        {"batch": 2, "heads": 2, "length": 7, "size": 4}, tolerance=3)
def _(batch, heads, length, size):
    """Shares of attention are dropped by threefry bits; heads before places."""
    def attend(q, k, v, key):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=F32) * size ** -0.5
        kept = jax.random.bernoulli(key, 0.85, scores.shape)
        shares = jnp.where(kept, jax.nn.softmax(scores) / 0.85, 0).astype(BF16)
        return jnp.einsum("bhqk,bhkd->bhqd", shares, v)
    x = bf16(batch, heads, length, size)
    return grad_of(attend, 3), x, x, x, x, key()


# Quantised products.

@module("int8_per_channel_asymmetric_bf16", "quantised", {"rows": 509, "inputs": 1531, "outputs": 2039},
        {"rows": 5, "inputs": 13, "outputs": 11}, mismatch=5e-3, tolerance=2)
def _(rows, inputs, outputs):
    """Activations with zero points of rows, weights with scales of channels; the result quantised again."""
    def dense(x, w, scale, bias):
        wide = x.astype(F32)
        low, high = wide.min(1, keepdims=True), wide.max(1, keepdims=True)
        step = (high - low) / 255
        zero = jnp.round(-low / step) - 128
        q = jnp.clip(jnp.round(wide / step) + zero, -128, 127).astype(jnp.int8)
        total = lax.dot_general(q, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32)
        total = total - zero.astype(jnp.int32) * w.astype(jnp.int32).sum(1)
        y = jax.nn.relu(total.astype(F32) * step * scale + bias)
        most = y.max(1, keepdims=True) + 1e-6
        return jnp.round(y / most * 127).astype(jnp.int8), most
    return (dense, bf16(rows, inputs), ints(128, outputs, inputs, low=-127, dtype=jnp.int8),
            Arg((outputs,), F32, low=1e-4, high=1e-3), f32(outputs, scale=0.1))


@module("fp8_row_column_scales_b17_bf16", "quantised", {"rows": 17, "inputs": 4099, "outputs": 3001},
        {"rows": 5, "inputs": 17, "outputs": 13}, tolerance=2)
def _(rows, inputs, outputs):
    """Both e4m3, scales of rows and of columns, a bias; then quantised to e4m3 by the greatest of each row."""
    def dense(x, w, x_scale, w_scale, bias):
        y = lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=F32)
        y = y * x_scale[:, None] * w_scale[None, :] + bias
        scale = jnp.abs(y).max(1, keepdims=True) / 448
        again = (y / scale).astype(jnp.float8_e4m3fn)
        return y.astype(BF16), again, scale
    f8 = jnp.float8_e4m3fn
    return (dense, Arg((rows, inputs), f8, 8.0), Arg((inputs, outputs), f8, 8.0),
            Arg((rows,), F32, low=0.01, high=0.02), Arg((outputs,), F32, low=0.01, high=0.02), f32(outputs))


@module("int4_packed_groups_b5_f16", "quantised", {"rows": 5, "inputs": 2816, "outputs": 4001, "group": 32},
        {"rows": 3, "inputs": 32, "outputs": 11, "group": 8}, tolerance=2)
def _(rows, inputs, outputs, group):
    """Two nibbles in a byte [outputs, inputs / 2], scales of groups, zero points packed as well."""
    def unpack(packed):
        return jnp.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)

    def dense(x, packed, scales, zeros):
        w = unpack(packed).reshape(outputs, inputs // group, group).astype(F16)
        w = (w - unpack(zeros).astype(F16)[..., None]) * scales[..., None]
        return lax.dot_general(x, w.reshape(outputs, inputs), (((1,), (1,)), ((), ())))
    return (dense, f16(rows, inputs, scale=0.5), ints(256, outputs, inputs // 2, dtype=U8),
            Arg((outputs, inputs // group), F16, low=0.002, high=0.004),
            ints(256, outputs, inputs // group // 2, dtype=U8))


# Attention.

@module("block_sparse_gather_bf16", "attention",
        {"heads": 6, "blocks": 23, "block": 64, "each": 5, "size": 80},
        {"heads": 2, "blocks": 4, "block": 3, "each": 2, "size": 8}, tolerance=2)
def _(heads, blocks, block, each, size):
    """Each block of queries sees blocks of keys that a list of the head names, its own causally."""
    def attend(q, k, v, which):
        own = jnp.broadcast_to(jnp.arange(blocks)[None, :, None], (heads, blocks, 1))
        which = jnp.concatenate([jnp.minimum(which, own), own], -1)
        k, v = (jnp.take_along_axis(a, which.reshape(heads, -1)[:, :, None, None], 1)
                .reshape(heads, blocks, (each + 1) * block, size) for a in (k, v))
        places = (which[..., None] * block + jnp.arange(block)).reshape(heads, blocks, -1)
        mine = jnp.arange(blocks * block).reshape(blocks, block)
        # a block named twice counts twice, by both implementations
        scores = jnp.einsum("hnqd,hnkd->hnqk", q, k, preferred_element_type=F32) * size ** -0.5
        scores = jnp.where(places[:, :, None] <= mine[None, :, :, None], scores, -1e30)
        return jnp.einsum("hnqk,hnkd->hnqd", softmax(scores, BF16), v)
    x = bf16(heads, blocks, block, size)
    return attend, x, x, x, ints(blocks, heads, blocks, each)


@module("prefix_lm_packed_grad_f32", "attention", {"batch": 2, "heads": 5, "length": 359, "size": 48},
        {"batch": 2, "heads": 2, "length": 9, "size": 4})
def _(batch, heads, length, size):
    """Packed documents whose first tokens see each other both ways; heads last but one; no softmax of empty rows."""
    def attend(q, k, v, documents, prefix):
        places = jnp.arange(length)
        own = documents[:, :, None] == documents[:, None, :]
        seen = own & ((places[:, None] >= places[None, :]) | prefix[:, None, :].astype(bool))
        scores = jnp.einsum("blhd,bshd->bhls", q, k) / jnp.sqrt(1.0 * size)
        scores = jnp.where(seen[:, None], scores, jnp.finfo(F32).min)
        return jnp.einsum("bhls,bshd->blhd", jax.nn.softmax(scores), v)
    x = f32(batch, length, heads, size)
    return grad_of(attend, 3), x, x, x, x, ints(5, batch, length, in_order=True), ints(2, batch, length)


@module("chunked_local_f16", "attention", {"batch": 3, "heads": 5, "chunks": 11, "chunk": 97, "size": 56},
        {"batch": 2, "heads": 2, "chunks": 3, "chunk": 4, "size": 4}, tolerance=2)
def _(batch, heads, chunks, chunk, size):
    """Chunks of 97 see themselves and the chunk before, with T5-like biases by distance."""
    def attend(q, k, v, table):
        def pairs(a):
            before = jnp.concatenate([jnp.zeros_like(a[:, :, :1]), a[:, :, :-1]], 2)
            return jnp.concatenate([before, a], 3)
        q, k, v = (a.reshape(batch, heads, chunks, chunk, size) for a in (q, k, v))
        far = jnp.arange(chunk)[:, None] + chunk - jnp.arange(2 * chunk)[None]
        scores = jnp.einsum("bhcqd,bhckd->bhcqk", q, pairs(k), preferred_element_type=F32) * size ** -0.5
        scores = scores + table[:, jnp.clip(far, 0, chunk - 1)][:, None]
        first = (jnp.arange(chunks) == 0)[:, None, None] & (jnp.arange(2 * chunk) < chunk)
        scores = jnp.where((far >= 0) & (far < chunk) & ~first, scores, -1e9)
        return jnp.einsum("bhcqk,bhckd->bhcqd", softmax(scores, F16), pairs(v)).reshape(batch, heads, -1, size)
    x = f16(batch, heads, chunks * chunk, size)
    return attend, x, x, x, f32(heads, chunk)


@module("cross_padding_talking_grad_f32", "attention",
        {"batch": 5, "queries": 67, "keys": 283, "heads": 6, "size": 40},
        {"batch": 2, "queries": 3, "keys": 7, "heads": 2, "size": 4})
def _(batch, queries, keys, heads, size):
    """Cross attention with padding; heads are mixed before and after the softmax."""
    def attend(q, k, v, before, after, lengths):
        scores = jnp.einsum("bhqd,bkhd->bhqk", q, k) * size ** -0.5
        scores = jnp.einsum("bhqk,hg->bgqk", scores, before)
        scores = jnp.where((jnp.arange(keys) < lengths[:, None])[:, None, None], scores, -1e9)
        shares = jnp.einsum("bgqk,gh->bhqk", jax.nn.softmax(scores), after)
        return jnp.einsum("bhqk,bkhd->bqhd", shares, v)
    k = f32(batch, keys, heads, size)
    return (grad_of(attend, 5), f32(batch, queries, heads, size), f32(batch, heads, queries, size), k, k,
            weights(F32, heads, heads), weights(F32, heads, heads), ints(keys + 1, batch, low=keys // 3))


# FFT.

@module("fft_2d_real_grad_f32", "fft", {"images": 3, "height": 90, "width": 105, "channels": 7},
        {"images": 2, "height": 6, "width": 9, "channels": 2})
def _(images, height, width, channels):
    """Circular depthwise convolution by real transforms of odd sizes along the middle axes, NHWC."""
    def conv(x, kernel):
        kernel = jnp.pad(kernel, ((0, height - kernel.shape[0]), (0, width - kernel.shape[1]), (0, 0)))
        both = jnp.fft.rfft2(x, axes=(1, 2)) * jnp.fft.rfft2(kernel, axes=(0, 1))
        return jnp.fft.irfft2(both, s=(height, width), axes=(1, 2))
    x = f32(images, height, width, channels)
    return backward(conv), x, x, f32(5, 5, channels, scale=0.2)
