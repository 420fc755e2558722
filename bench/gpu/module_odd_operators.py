"""More modules of modules.py, at odd sizes: scans, sorts, experts, convolutions, random numbers, quantised products."""

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F8, F32, I8, I32, Arg, around_one, backward, bf16, f32, ints, key, key_of,
                             layer_norm, module, weights)

U8 = jnp.uint8


# Scans.

@module("rg_lru_bf16", "scans", {"batch": 3, "length": 3000, "width": 777}, {"batch": 2, "length": 21, "width": 7})
def _(batch, length, width):
    """Griffin's recurrence: gates decide on the decay; f32 inside."""
    def recurrence(x, gate_a, gate_x, decay):
        x, gate_a, gate_x = (a.astype(F32) for a in (x, gate_a, gate_x))
        log_a = -8 * jax.nn.softplus(decay) * jax.nn.sigmoid(gate_a)
        given = jnp.sqrt(1 - jnp.exp(2 * log_a)) * x * jax.nn.sigmoid(gate_x)

        def both(left, right):
            return left[0] * right[0], left[1] * right[0] + right[1]
        h = lax.associative_scan(both, (jnp.exp(log_a), given), axis=1)[1]
        return h.astype(BF16), h[:, -1]
    x = bf16(batch, length, width)
    return recurrence, x, x, x, Arg((width,), F32, low=-6, high=-2)


@module("cumlogsumexp_f32", "scans", {"rows": 1000, "width": 12345}, {"rows": 5, "width": 77})
def _(rows, width):
    return lambda x: lax.cumlogsumexp(x, axis=1), f32(rows, width, scale=3.0)


@module("nerf_render_grad_f32", "scans", {"rays": 65432, "samples": 96}, {"rays": 11, "samples": 10})
def _(rays, samples):
    """Of what each sample lets through, the running product, with its gradient."""
    def render(density, colours, steps):
        alpha = 1 - jnp.exp(-jax.nn.softplus(density) * steps)
        through = jnp.cumprod(1 - alpha + 1e-10, -1)
        shares = alpha * jnp.concatenate([jnp.ones((rays, 1), F32), through[:, :-1]], -1)
        return (shares[..., None] * jax.nn.sigmoid(colours)).sum(1)

    def gradients(cotangent, density, colours, steps):
        return backward(lambda *given: render(*given, steps))(cotangent, density, colours)
    return (gradients, f32(rays, 3), f32(rays, samples), f32(rays, samples, 3),
            Arg((rays, samples), F32, low=0.01, high=0.1))


@module("lstm_grad_f32", "scans", {"length": 50, "batch": 24, "width": 650}, {"length": 4, "batch": 3, "width": 10})
def _(length, batch, width):
    def lstm(xs, wx, wh, bias):
        def step(both, x):
            h, c = both
            i, f, g, o = jnp.split(x @ wx + h @ wh + bias, 4, -1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zeros = jnp.zeros((batch, width), F32)
        return lax.scan(step, (zeros, zeros), xs)[1]
    xs = f32(length, batch, width)
    return backward(lstm), xs, xs, weights(F32, width, 4 * width), weights(F32, width, 4 * width), \
        f32(4 * width, scale=0.1)


# Sorts.

@module("argsort_descending_bf16", "sorts", {"rows": 777, "width": 3000}, {"rows": 5, "width": 37})
def _(rows, width):
    """And another array in the same order; ties keep theirs."""
    def order(x, other):
        places = jnp.argsort(x, axis=-1, stable=True, descending=True)
        return places, jnp.take_along_axis(other, places, -1)
    return order, bf16(rows, width), f32(rows, width)


@module("unique_counts_s32", "sorts", {"length": 1000003, "values": 250000}, {"length": 200, "values": 40})
def _(length, values):
    """Values, how often each is there, and where each element's value stands, as jnp.unique with a size."""
    def unique(x):
        found, places, counts = jnp.unique(x, return_inverse=True, return_counts=True, size=values, fill_value=-1)
        return found, places, counts
    return unique, ints(values, length)


@module("quantiles_of_columns_f32", "sorts", {"rows": 3001, "columns": 1000}, {"rows": 23, "columns": 7})
def _(rows, columns):
    """Columns scaled by their median and the distance of their quartiles."""
    def scale(x):
        low, middle, high = jnp.quantile(x, jnp.array([0.25, 0.5, 0.75], F32), axis=0)
        return (x - middle) / jnp.maximum(high - low, 1e-6)
    return scale, f32(rows, columns)


# Mixtures of experts.

@module("switch_top1_grad_bf16", "moe", {"tokens": 3000, "width": 512, "inner": 1536, "experts": 12, "capacity": 300},
        {"tokens": 21, "width": 16, "inner": 24, "experts": 3, "capacity": 8}, tolerance=3, mismatch=2e-2)
def _(tokens, width, inner, experts, capacity):
    """One expert a token, with the loss that balances them."""
    def layer(x, router, up, down):
        shares = jax.nn.softmax(jnp.dot(x, router, preferred_element_type=F32))
        chosen = shares.argmax(-1)
        hot = jax.nn.one_hot(chosen, experts, dtype=I32)
        place = ((jnp.cumsum(hot, 0) - 1) * hot).sum(-1)
        slot = jnp.where(place < capacity, chosen * capacity + place, experts * capacity)
        given = jnp.zeros((experts * capacity, width), BF16).at[slot].set(x, mode="drop", unique_indices=False)
        made = jax.nn.relu(jnp.einsum("ecd,edf->ecf", given.reshape(experts, capacity, width), up))
        made = jnp.einsum("ecf,efd->ecd", made, down).reshape(-1, width)
        taken = made.at[slot].get(mode="fill", fill_value=0)
        balance = experts * (hot.astype(F32).mean(0) * shares.mean(0)).sum()
        return x + taken * shares.max(-1)[:, None].astype(BF16), balance

    def gradients(cotangent, *given):
        return jax.vjp(layer, *given)[1]((cotangent, jnp.float32(0.01)))
    return (gradients, bf16(tokens, width), bf16(tokens, width), weights(BF16, width, experts),
            weights(BF16, experts, width, inner), weights(BF16, experts, inner, width))


@module("grouped_routing_b5_bf16", "moe",
        {"tokens": 5, "width": 1000, "inner": 400, "experts": 60, "groups": 6, "chosen": 6},
        {"tokens": 3, "width": 12, "inner": 10, "experts": 12, "groups": 4, "chosen": 3}, tolerance=3)
def _(tokens, width, inner, experts, groups, chosen):
    """DeepSeek-V3's routing of a few tokens: the best two groups, the best experts in these; weights are gathered."""
    def layer(x, router, bias, gate, up, down, own_up, own_down):
        scores = jax.nn.sigmoid(jnp.dot(x, router, preferred_element_type=F32))
        biased = (scores + bias).reshape(tokens, groups, -1)
        best = lax.top_k(lax.top_k(biased, 2)[0].sum(-1), 2)[1]
        allowed = (best[:, :, None] == jnp.arange(groups)).any(1)
        places = lax.top_k(jnp.where(allowed[..., None], biased, -jnp.inf).reshape(tokens, -1), chosen)[1]
        shares = jnp.take_along_axis(scores, places, -1)
        shares = (2.5 * shares / shares.sum(-1, keepdims=True)).astype(BF16)
        h = jax.nn.silu(jnp.einsum("td,tkdf->tkf", x, gate[places])) * jnp.einsum("td,tkdf->tkf", x, up[places])
        routed = jnp.einsum("tkf,tkfd,tk->td", h, down[places], shares)
        return x + routed + jax.nn.silu(x @ own_up) @ own_down, places
    wide = weights(BF16, experts, width, inner)
    return (layer, bf16(tokens, width), weights(BF16, width, experts), f32(experts, scale=0.1), wide, wide,
            weights(BF16, experts, inner, width), weights(BF16, width, inner), weights(BF16, inner, width))


@module("expert_choice_f32", "moe", {"tokens": 3000, "width": 512, "inner": 1000, "experts": 10, "each": 600},
        {"tokens": 19, "width": 12, "inner": 14, "experts": 3, "each": 7}, mismatch=1e-2)
def _(tokens, width, inner, experts, each):
    """Experts choose their tokens."""
    def layer(x, router, up, down):
        shares = jax.nn.softmax(x @ router)
        gates, places = lax.top_k(shares.T, each)
        made = jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", x[places], up)), down)
        return jnp.zeros_like(x).at[places.reshape(-1)].add((made * gates[..., None]).reshape(-1, width))
    return (layer, f32(tokens, width), weights(F32, width, experts), weights(F32, experts, width, inner),
            weights(F32, experts, inner, width))


# Convolution nets.

def nhwc(x, w, stride=1, **how):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **how)


@module("inverted_residual_grad_bf16", "convolutions",
        {"images": 24, "size": 56, "inputs": 40, "inner": 240, "outputs": 80},
        {"images": 2, "size": 7, "inputs": 4, "inner": 12, "outputs": 6}, tolerance=4, mismatch=1e-2)
def _(images, size, inputs, inner, outputs):
    """MobileNet-v3's: expand, a depthwise convolution of stride 2, squeeze and excite, project."""
    def block(x, expand, depth, squeeze, excite, project, gain):
        h = jax.nn.hard_swish(x @ expand)
        h = jax.nn.hard_swish(nhwc(h, depth, 2, feature_group_count=inner))
        share = jax.nn.hard_sigmoid(jax.nn.relu(h.astype(F32).mean((1, 2)).astype(BF16) @ squeeze) @ excite)
        return (h * share[:, None, None]) @ project * gain
    half = -(-size // 2)
    return (backward(block), bf16(images, half, half, outputs), bf16(images, size, size, inputs),
            weights(BF16, inputs, inner), bf16(5, 5, 1, inner, scale=0.2), weights(BF16, inner, inner // 4),
            weights(BF16, inner // 4, inner), weights(BF16, inner, outputs), around_one(BF16, outputs))


@module("aspp_nchw_bf16", "convolutions", {"images": 3, "size": 65, "inputs": 256, "outputs": 100},
        {"images": 2, "size": 9, "inputs": 6, "outputs": 5}, tolerance=2)
def _(images, size, inputs, outputs):
    """Dilated convolutions beside each other, and the image's mean, joined."""
    def net(x, one, w6, w12, project, bias):
        def dilated(w, by):
            return lax.conv_general_dilated(x, w, (1, 1), "SAME", rhs_dilation=(by, by),
                                            dimension_numbers=("NCHW", "OIHW", "NCHW"))
        mean = jnp.broadcast_to(x.astype(F32).mean((2, 3), keepdims=True).astype(BF16), x.shape)
        joined = jax.nn.relu(jnp.concatenate([dilated(one, 1), dilated(w6, 6), dilated(w12, 12), mean], 1))
        return lax.conv_general_dilated(joined, project, (1, 1), "SAME",
                                        dimension_numbers=("NCHW", "OIHW", "NCHW")) + bias[:, None, None]
    w = bf16(outputs, inputs, 3, 3, scale=(9 * inputs) ** -0.5)
    return (net, bf16(images, inputs, size, size), bf16(outputs, inputs, 1, 1, scale=inputs ** -0.5), w, w,
            bf16(outputs, 3 * outputs + inputs, 1, 1, scale=(3 * outputs + inputs) ** -0.5), bf16(outputs))


@module("wavenet_1d_f32", "convolutions", {"batch": 3, "length": 12345, "channels": 60, "layers": 6},
        {"batch": 2, "length": 50, "channels": 4, "layers": 3})
def _(batch, length, channels, layers):
    """Causal convolutions of growing dilation, with gates."""
    def net(x, ws, outs):
        skips = 0
        for i, (w, out) in enumerate(zip(ws, outs)):
            h = lax.conv_general_dilated(x, w, (1,), [(2 ** i, 0)], rhs_dilation=(2 ** i,),
                                         dimension_numbers=("NWC", "WIO", "NWC"))
            a, b = jnp.split(h, 2, -1)
            made = (jnp.tanh(a) * jax.nn.sigmoid(b)) @ out
            x, skips = x + made, skips + made
        return jax.nn.relu(skips)
    return (net, f32(batch, length, channels), [f32(2, channels, 2 * channels, scale=(2 * channels) ** -0.5)] * layers,
            [weights(F32, channels, channels)] * layers)


@module("conv3d_down_up_grad_f32", "convolutions", {"clips": 3, "frames": 15, "size": 50, "channels": 24},
        {"clips": 2, "frames": 5, "size": 6, "channels": 3})
def _(clips, frames, size, channels):
    """A convolution of three dimensions, one of stride 2, and its transpose back."""
    numbers = ("NDHWC", "DHWIO", "NDHWC")

    def net(x, w1, w2, w3):
        h = jax.nn.relu(lax.conv_general_dilated(x, w1, (1, 1, 1), "SAME", dimension_numbers=numbers))
        h = jax.nn.relu(lax.conv_general_dilated(h, w2, (1, 2, 2), "SAME", dimension_numbers=numbers))
        return x + lax.conv_transpose(h, w3, (1, 2, 2), "SAME", dimension_numbers=numbers)
    x, scale = f32(clips, frames, size, size, channels), (27 * channels) ** -0.5
    return (backward(net), x, x, f32(3, 3, 3, channels, channels, scale=scale),
            f32(3, 3, 3, channels, 2 * channels, scale=scale), f32(1, 2, 2, 2 * channels, channels, scale=0.1))


# Pools and resizes.

@module("resize_bicubic_bf16", "pools", {"images": 5, "height": 97, "width": 131, "channels": 64, "to": (200, 300)},
        {"images": 2, "height": 5, "width": 7, "channels": 3, "to": (9, 12)}, tolerance=2)
def _(images, height, width, channels, to):
    return (lambda x: jax.image.resize(x, (images, *to, channels), "cubic"), bf16(images, height, width, channels))


@module("max_pool_nchw_grad_bf16", "pools", {"images": 24, "channels": 100, "size": 57},
        {"images": 2, "channels": 3, "size": 9}, mismatch=2e-2)
def _(images, channels, size):
    """Windows of 3, 2 apart, which overlap, without padding."""
    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "VALID")
    half = (size - 3) // 2 + 1
    return backward(pool), bf16(images, channels, half, half), bf16(images, channels, size, size)


# Stencils.

@module("gray_scott_f32", "stencils", {"size": 1000, "steps": 20}, {"size": 12, "steps": 3})
def _(size, steps):
    """Two substances that react; nine points, periodic."""
    def react(u, v):
        def laplacian(x):
            sides = sum(jnp.roll(x, by, axis) for by in (1, -1) for axis in (0, 1))
            corners = sum(jnp.roll(x, (a, b), (0, 1)) for a in (1, -1) for b in (1, -1))
            return 0.2 * sides + 0.05 * corners - x

        def step(_, both):
            u, v = both
            eaten = u * v * v
            return u + 0.2 * laplacian(u) - eaten + 0.04 * (1 - u), v + 0.1 * laplacian(v) + eaten - 0.1 * v
        return lax.fori_loop(0, steps, step, (u, v))
    return react, Arg((size, size), F32, low=0, high=1), Arg((size, size), F32, low=0, high=0.3)


@module("jacobi_until_f32", "stencils", {"size": 777, "steps": 25}, {"size": 11, "steps": 4})
def _(size, steps):
    """Poisson's equation, until the change is small or the steps are done."""
    def solve(x, source):
        def going(state):
            return (state[2] < steps) & (state[1] > 1e-12)

        def step(state):
            x, _, i = state
            inner = 0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - source[1:-1, 1:-1])
            new = jnp.pad(inner, 1)
            return new, jnp.abs(new - x).max(), i + 1
        return lax.while_loop(going, step, (x, jnp.float32(jnp.inf), jnp.int32(0)))
    return solve, f32(size, size), f32(size, size)


# Random numbers.

@module("gumbel_top_k_f32", "sampling", {"rows": 24, "classes": 50257, "k": 40}, {"rows": 3, "classes": 70, "k": 5},
        mismatch=1e-2)
def _(rows, classes, k):
    """k different tokens, drawn without replacement, with what they weigh."""
    def sample(data, logits, temperature):
        noise = jax.random.gumbel(key_of(data), logits.shape)
        chosen = lax.top_k(logits / temperature[:, None] + noise, k)[1]
        return chosen, jnp.take_along_axis(jax.nn.log_softmax(logits), chosen, -1)
    return sample, key(), f32(rows, classes, scale=3.0), Arg((rows,), F32, low=0.5, high=1.5)


@module("truncated_normal_f32", "sampling", {"rows": 3000, "width": 777}, {"rows": 5, "width": 13})
def _(rows, width):
    return lambda data: 0.02 * jax.random.truncated_normal(key_of(data), -2.0, 2.0, (rows, width)), key()


@module("permutation_rows_bf16", "sampling", {"rows": 100003, "width": 60}, {"rows": 41, "width": 3})
def _(rows, width):
    """Rows in random order, split in two, with places for one of them dropped at random."""
    def shuffle(data, x):
        first, second = jax.random.split(key_of(data))
        kept = jax.random.bernoulli(second, 0.8, (rows, 1))
        return jax.random.permutation(first, x) * kept
    return shuffle, key(), bf16(rows, width)


# Quantised products.

@module("int4_zero_points_b3_bf16", "quantised", {"rows": 3, "inputs": 3072, "outputs": 12345, "group": 64},
        {"rows": 3, "inputs": 32, "outputs": 19, "group": 8}, tolerance=2)
def _(rows, inputs, outputs, group):
    """Two weights a byte, one after the other; each group has a scale and a zero for each output."""
    def layer(x, packed, scales, zeros):
        w = jnp.stack([packed & U8(15), packed >> U8(4)], 1).reshape(inputs // group, group, outputs)
        w = (w.astype(BF16) - zeros[:, None].astype(BF16)) * scales[:, None]
        return x @ w.reshape(inputs, outputs)
    return (layer, bf16(rows, inputs), ints(256, inputs // 2, outputs, dtype=U8),
            Arg((inputs // group, outputs), BF16, low=1e-3, high=1e-2), ints(16, inputs // group, outputs, dtype=U8))


@module("fp8_block_scales_bf16", "quantised", {"rows": 777, "inputs": 4096, "outputs": 3072, "block": 128},
        {"rows": 5, "inputs": 32, "outputs": 24, "block": 8}, tolerance=2)
def _(rows, inputs, outputs, block):
    """Activations have a scale for each 128 of a row, weights for each block of 128 × 128."""
    def layer(x, x_scales, w, w_scales):
        parts = jnp.einsum("rkc,kco->kro", x.reshape(rows, -1, block), w.reshape(-1, block, outputs),
                           preferred_element_type=F32)
        return (parts * x_scales.T[:, :, None] * jnp.repeat(w_scales, block, 1)[:, None]).sum(0).astype(BF16)
    return (layer, Arg((rows, inputs), F8), Arg((rows, inputs // block), F32, low=0.01, high=0.1),
            Arg((inputs, outputs), F8), Arg((inputs // block, outputs // block), F32, low=0.01, high=0.1))


@module("int8_static_chain_b24", "quantised", {"rows": 24, "inputs": 3000, "inner": 5000},
        {"rows": 5, "inputs": 24, "inner": 31},
        mismatch=2e-2)
def _(rows, inputs, inner):
    """Two products, all arrays between of 8 bits by fixed scales."""
    def layer(x, up, up_scale, up_bias, down, down_scale):
        h = jnp.dot(x, up, preferred_element_type=I32).astype(F32) * up_scale + up_bias
        h = jnp.clip(jnp.round(jax.nn.gelu(h) * 20), -128, 127).astype(I8)
        return jnp.dot(h, down, preferred_element_type=I32).astype(F32) * down_scale
    return (layer, ints(128, rows, inputs, low=-127, dtype=I8), ints(128, inputs, inner, low=-127, dtype=I8),
            Arg((inner,), F32, low=5e-6, high=1e-5), f32(inner), ints(128, inner, inputs, low=-127, dtype=I8),
            Arg((inputs,), F32, low=1e-4, high=1e-3))


# Fourier transforms.

@module("fft_convolution_grad_f32", "fourier", {"batch": 3, "width": 200, "length": 3000},
        {"batch": 2, "width": 3, "length": 15})
def _(batch, width, length):
    """A long causal convolution with gradients of both operands."""
    def convolve(x, filters):
        spectrum = jnp.fft.rfft(x, 2 * length) * jnp.fft.rfft(filters, 2 * length)
        return jnp.fft.irfft(spectrum, 2 * length)[..., :length]
    x = f32(batch, width, length)
    return backward(convolve), x, x, f32(width, length, scale=length ** -0.5)


@module("fnet_block_f32", "fourier", {"batch": 3, "length": 500, "width": 777, "inner": 3000},
        {"batch": 2, "length": 10, "width": 21, "inner": 24})
def _(batch, length, width, inner):
    """The real part of a transform over places and features in attention's place."""
    def block(x, g1, b1, up, down):
        mixed = jnp.fft.fft(jnp.fft.fft(x, axis=-1), axis=-2).real * (length * width) ** -0.5
        x = layer_norm(x + mixed, g1, b1)
        return x + jax.nn.gelu(x @ up) @ down
    return (block, f32(batch, length, width), around_one(F32, width), f32(width, scale=0.1), weights(F32, width, inner),
            weights(F32, inner, width))
