"""More modules of modules.py, at sizes that are primes or no multiple of a tile: segments, windows that are scattered,
scans, control flow, bit casts, sorts, convolutions, random numbers and quantised products.
"""
import math

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F8, F32, I8, I32, Arg, around_one, backward, bf16, f32, ints, key, key_of, module,
                             weights)
from module_odd_shapes import F16, f16

U8, U32 = jnp.uint8, jnp.uint32


# Embeddings and segments.

@module("positions_types_grad_f32", "embeddings", {"vocabulary": 50021, "width": 333, "batch": 5, "length": 1021},
        {"vocabulary": 31, "width": 5, "batch": 3, "length": 7})
def _(vocabulary, width, batch, length):
    """Gradients of three tables; tokens out of the vocabulary's first half have none (a frozen half)."""
    def embed(table, places, kinds, tokens, kind):
        rows = jnp.where((tokens < vocabulary // 2)[..., None], table[tokens], lax.stop_gradient(table[tokens]))
        return rows * math.sqrt(width) + places + kinds[kind]

    def gradients(cotangent, table, places, kinds, tokens, kind):
        return backward(lambda *tables: embed(*tables, tokens, kind))(cotangent, table, places, kinds)
    return (gradients, f32(batch, length, width), f32(vocabulary, width), f32(length, width), f32(3, width),
            ints(vocabulary, batch, length), ints(3, batch, length))


@module("segment_max_rows_bf16", "segments", {"rows": 123457, "segments": 3001, "width": 131},
        {"rows": 91, "segments": 11, "width": 5})
def _(rows, segments, width):
    """Largest and least of rows in any order, and their mean."""
    def aggregate(x, at):
        count = jax.ops.segment_sum(jnp.ones(rows, F32), at, segments)
        return (jax.ops.segment_max(x, at, segments), jax.ops.segment_min(x, at, segments),
                jax.ops.segment_sum(x.astype(F32), at, segments) / jnp.maximum(count, 1)[:, None])
    return aggregate, bf16(rows, width), ints(segments, rows)


@module("histogram_2d_f32", "segments", {"points": 1000003, "bins": 97}, {"points": 503, "bins": 5})
def _(points, bins):
    """Weights of points by two coordinates."""
    def histogram(x, y, weight):
        i, j = (jnp.clip((a * bins).astype(I32), 0, bins - 1) for a in (x, y))
        return jnp.zeros((bins, bins), F32).at[i, j].add(weight)
    return (histogram, Arg((points,), F32, low=0, high=1), Arg((points,), F32, low=0, high=1),
            Arg((points,), F32, low=0, high=1))


@module("scatter_windows_f32", "segments", {"windows": 1999, "size": (7, 131), "rows": 20011},
        {"windows": 11, "size": (3, 5), "rows": 41})
def _(windows, size, rows):
    """Windows of several rows are added where they begin, and may overlap; and the same windows are read."""
    def scatter(x, new, at):
        added = jax.vmap(lambda i: lax.dynamic_slice(x, (i, 0), size))(at)
        numbers = lax.ScatterDimensionNumbers((1, 2), (), (0,))
        return lax.scatter_add(x, at[:, None], new, numbers, mode="clip"), added
    return scatter, f32(rows, size[1]), f32(windows, *size), ints(rows, windows)


# Scans and control flow.

@module("cumsum_columns_f32", "scans", {"rows": 12345, "columns": 777}, {"rows": 45, "columns": 7})
def _(rows, columns):
    """Along columns, from both ends."""
    return lambda x: (jnp.cumsum(x, 0), lax.cumsum(x, 0, reverse=True)), f32(rows, columns)


@module("cumprod_argmax_bf16", "scans", {"rows": 3001, "width": 3001}, {"rows": 7, "width": 31})
def _(rows, width):
    """A running product of numbers close to 1, and how far the running maximum is each time."""
    def scan(x):
        wide = x.astype(F32)
        return jnp.cumprod(1 + 0.001 * wide, 1), x - lax.cummax(x, 1)
    return scan, bf16(rows, width)


@module("ssm_discretised_grad_f32", "scans", {"batch": 3, "length": 509, "width": 67, "states": 13},
        {"batch": 2, "length": 11, "width": 5, "states": 3}, tolerance=4)
def _(batch, length, width, states):
    """A diagonal state space, by zero-order hold, with gradients through an associative scan."""
    def ssm(u, dt, log_a, b, c):
        a, dt = -jnp.exp(log_a), jax.nn.softplus(dt)[..., None]
        decay = jnp.exp(dt * a)
        given = (decay - 1) / a * b[:, :, None] * u[..., None]
        h = lax.associative_scan(lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (decay, given), axis=1)[1]
        return jnp.einsum("blws,bls->blw", h, c)
    x, b = f32(batch, length, width), f32(batch, length, states)
    return backward(ssm), x, x, x, Arg((width, states), F32, low=-1, high=2), b, b


@module("switch_in_scan_f32", "control", {"steps": 37, "rows": 1009, "width": 331}, {"steps": 5, "rows": 7, "width": 3})
def _(steps, rows, width):
    """Each step has one of four things to do with the state, and a condition."""
    def run(x, kinds, w):
        branches = [lambda x: jnp.tanh(x @ w), lambda x: jnp.roll(x, 1, 0), lambda x: x - x.mean(0),
                    lambda x: x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)]

        def step(x, kind):
            x = lax.switch(kind, branches, x)
            x = lax.cond(kind > 1, lambda x: 0.5 * x, lambda x: x, x)
            return x, x[0]
        return lax.scan(step, x, kinds)
    return run, f32(rows, width), ints(4, steps), weights(F32, width, width)


@module("conjugate_gradient_f32", "control", {"size": 1999, "steps": 30}, {"size": 23, "steps": 6}, tolerance=10)
def _(size, steps):
    """Until the residual is small; the loop ends early or after the steps."""
    def solve(a, b):
        a = a @ a.T / size + 2 * jnp.eye(size)

        def step(state):
            x, r, p, rr, i = state
            ap = a @ p
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            return x, r, r + new / rr * p, new, i + 1
        start = (jnp.zeros(size, F32), b, b, b @ b, jnp.int32(0))
        return lax.while_loop(lambda s: (s[3] > 1e-7 * (b @ b)) & (s[4] < steps), step, start)[0]
    return solve, f32(size, size), f32(size)


@module("newton_early_exit_f32", "control", {"rows": 3001, "width": 777}, {"rows": 7, "width": 11})
def _(rows, width):
    """x eˣ = y for each element, until none moves; how many steps is a result."""
    def solve(y):
        def step(state):
            x, _, i = state
            e = jnp.exp(x)
            new = x - (x * e - y) / (e * (x + 1))
            return new, jnp.abs(new - x).max(), i + 1
        x, _, count = lax.while_loop(lambda s: (s[1] > 1e-3) & (s[2] < 50), step,
                                     (jnp.log1p(y), jnp.float32(jnp.inf), jnp.int32(0)))
        return x, count
    return solve, Arg((rows, width), F32, low=0, high=20)


# Bits.

@module("bit_casts_s32", "bits", {"rows": 3001, "width": 3072}, {"rows": 7, "width": 24})
def _(rows, width):
    """f32 as order-preserving integers, as pairs of bf16 and as bytes; bits counted."""
    def cast(x):
        bits = lax.bitcast_convert_type(x, I32)
        ordered = jnp.where(bits < 0, bits ^ I32(0x7fffffff), bits)
        halves = lax.bitcast_convert_type(x, jnp.uint16)
        total = lax.bitcast_convert_type(x, U8).astype(I32).sum(-1)
        return ordered, halves, total, lax.population_count(bits).sum(-1), lax.clz(bits).max(-1)
    return cast, f32(rows, width)


@module("stochastic_rounding_bf16", "bits", {"rows": 3001, "width": 2003}, {"rows": 7, "width": 13}, mismatch=1e-4)
def _(rows, width):
    """f32 to bf16 by random low bits."""
    def rounded(data, x):
        low = jax.random.bits(key_of(data), (rows, width), jnp.uint16).astype(U32)
        bits = (lax.bitcast_convert_type(x, U32) + low) & U32(0xffff0000)
        return lax.bitcast_convert_type(bits, F32).astype(BF16)
    return rounded, key(), f32(rows, width)


# Sorts.

@module("sort_columns_pairs_f32", "sorts", {"rows": 3001, "columns": 331}, {"rows": 31, "columns": 7})
def _(rows, columns):
    """Columns by two keys; an index comes along."""
    def order(first, second):
        places = lax.broadcasted_iota(I32, (rows, columns), 0)
        return lax.sort((first, second, places), dimension=0, num_keys=2, is_stable=True)
    return order, ints(50, rows, columns), f32(rows, columns)


@module("top_k_17_of_12345_bf16", "sorts", {"rows": 331, "width": 12345, "k": 17}, {"rows": 5, "width": 77, "k": 5})
def _(rows, width, k):
    """Only those are kept, others are 0 (a sparse autoencoder's activation)."""
    def kept(x):
        values, places = lax.top_k(x, k)
        return jnp.zeros_like(x).at[jnp.arange(rows)[:, None], places].set(jax.nn.relu(values)), places
    return kept, bf16(rows, width)


# Experts.

@module("soft_moe_grad_bf16", "moe", {"batch": 3, "tokens": 577, "width": 384, "experts": 13, "slots": 29},
        {"batch": 2, "tokens": 9, "width": 8, "experts": 3, "slots": 2}, tolerance=4)
def _(batch, tokens, width, experts, slots):
    """Slots are mixtures of tokens, tokens mixtures of slots."""
    def layer(x, phi, up, down):
        logits = jnp.einsum("btd,des->btes", x, phi, preferred_element_type=F32)
        into = jax.nn.softmax(logits, 1).astype(BF16)
        out = jax.nn.softmax(logits.reshape(batch, tokens, -1)).reshape(logits.shape).astype(BF16)
        h = jax.nn.gelu(jnp.einsum("besd,edf->besf", jnp.einsum("btd,btes->besd", x, into), up))
        return jnp.einsum("besd,btes->btd", jnp.einsum("besf,efd->besd", h, down), out)
    x = bf16(batch, tokens, width)
    return (backward(layer), x, x, bf16(width, experts, slots, scale=width ** -0.5),
            weights(BF16, experts, width, 3 * width), weights(BF16, experts, 3 * width, width))


# Convolutions and pools.

@module("depthwise_dilated_grad_f32", "convolutions", {"images": 5, "size": 59, "channels": 131},
        {"images": 2, "size": 9, "channels": 5})
def _(images, size, channels):
    def layer(x, w, point):
        h = lax.conv_general_dilated(x, w, (1, 1), "SAME", rhs_dilation=(2, 3), feature_group_count=channels,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(h) @ point
    x = f32(images, size, size, channels)
    return backward(layer), x, x, f32(5, 3, 1, channels, scale=0.3), weights(F32, channels, channels)


@module("transposed_1d_grad_bf16", "convolutions", {"batch": 3, "length": 3001, "inputs": 200, "outputs": 101},
        {"batch": 2, "length": 13, "inputs": 5, "outputs": 3}, tolerance=3)
def _(batch, length, inputs, outputs):
    """A vocoder's: upsampled by 4 with windows of 9, then a snake activation."""
    def layer(x, w, alpha):
        h = lax.conv_transpose(x, w, (4,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")).astype(F32)
        return (h + jnp.square(jnp.sin(alpha * h)) / alpha).astype(BF16)
    return (backward(layer), bf16(batch, 4 * length, outputs), bf16(batch, length, inputs),
            bf16(9, inputs, outputs, scale=(3 * inputs) ** -0.5), around_one(F32, outputs))


@module("pools_1d_grad_f32", "pools", {"batch": 5, "length": 12345, "channels": 67},
        {"batch": 2, "length": 21, "channels": 3}, mismatch=1e-3)
def _(batch, length, channels):
    """The greatest of 5 minus the mean of 7, same padding."""
    def pool(x):
        top = lax.reduce_window(x, -jnp.inf, lax.max, (1, 5, 1), (1, 1, 1), "SAME")
        return top - lax.reduce_window(x, 0.0, lax.add, (1, 7, 1), (1, 1, 1), "SAME") / 7
    x = f32(batch, length, channels)
    return backward(pool), x, x


@module("advection_27_points_f32", "stencils", {"size": 113, "steps": 10}, {"size": 7, "steps": 2})
def _(size, steps):
    """A box of 27 points by weights, edges repeated, in a loop."""
    def run(x, w):
        def step(_, x):
            padded = jnp.pad(x, 1, mode="edge")
            return sum(w[a, b, c] * padded[a:a + size, b:b + size, c:c + size]
                       for a in range(3) for b in range(3) for c in range(3))
        return lax.fori_loop(0, steps, step, x)
    return run, f32(size, size, size), Arg((3, 3, 3), F32, low=0, high=1 / 14)


# Random numbers.

@module("poisson_mask_mixup_bf16", "sampling", {"batch": 24, "length": 3001, "width": 131},
        {"batch": 3, "length": 13, "width": 5}, tolerance=2)
def _(batch, length, width):
    """Exponential and Laplace noise, dropout of whole places, and a mix with another row."""
    def augment(data, x):
        k1, k2, k3, k4 = jax.random.split(key_of(data), 4)
        x = x.astype(F32) + 0.1 * jax.random.laplace(k1, x.shape) * jax.random.exponential(k2, (batch, 1, 1))
        x = jnp.where(jax.random.uniform(k3, (batch, length, 1)) < 0.9, x / 0.9, 0)
        share = jax.random.uniform(k4, (batch, 1, 1), minval=0.5)
        return (share * x + (1 - share) * x[::-1]).astype(BF16)
    return augment, key(), bf16(batch, length, width)


# Quantised products.

@module("int8_outliers_b5_f16", "quantised", {"rows": 5, "inputs": 4099, "outputs": 3001, "outliers": 41},
        {"rows": 3, "inputs": 37, "outputs": 13, "outliers": 3}, mismatch=1e-2, tolerance=4)
def _(rows, inputs, outputs, outliers):
    """LLM.int8: rows quantised as they come, columns of outliers taken in f16."""
    def layer(x, w, scales, places, wide):
        apart = x[:, places]
        rest = x.astype(F32).at[:, places].set(0)
        scale = jnp.abs(rest).max(-1, keepdims=True) / 127
        q = jnp.round(rest / scale).astype(I8)
        y = jnp.dot(q, w, preferred_element_type=I32).astype(F32) * scale * scales
        return (y + jnp.dot(apart, wide, preferred_element_type=F32)).astype(F16)
    return (layer, f16(rows, inputs), ints(128, inputs, outputs, low=-127, dtype=I8),
            Arg((outputs,), F32, low=1e-4, high=1e-3), ints(inputs, outliers),
            f16(outliers, outputs, scale=outliers ** -0.5))


@module("fp8_dynamic_rows_bf16", "quantised", {"rows": 333, "inputs": 4096, "outputs": 4112},
        {"rows": 5, "inputs": 32, "outputs": 16}, tolerance=3)
def _(rows, inputs, outputs):
    """Activations get a scale for each row, weights have one for each column."""
    def layer(x, w, scales):
        wide = x.astype(F32)
        scale = jnp.maximum(jnp.abs(wide).max(-1, keepdims=True), 1e-6) / 448
        q = (wide / scale).astype(F8)
        return (jnp.dot(q, w, preferred_element_type=F32) * scale * scales).astype(BF16)
    return layer, bf16(rows, inputs), Arg((inputs, outputs), F8), Arg((outputs,), F32, low=0.01, high=0.1)


@module("int4_planes_grouped_f16", "quantised", {"rows": 24, "inputs": 2688, "outputs": 5003, "group": 96},
        {"rows": 3, "inputs": 32, "outputs": 13, "group": 8}, tolerance=2)
def _(rows, inputs, outputs, group):
    """Low halves are the first inputs, high ones the rest; groups that are no power of two."""
    def layer(x, packed, scales):
        w = jnp.concatenate([packed & U8(15), packed >> U8(4)]).astype(I8) - I8(8)
        w = w.reshape(-1, group, outputs).astype(F16) * scales[:, None]
        return jnp.dot(x, w.reshape(inputs, outputs), preferred_element_type=F32).astype(F16)
    return (layer, f16(rows, inputs), ints(256, inputs // 2, outputs, dtype=U8),
            Arg((inputs // group, outputs), F16, low=1e-3, high=1e-2))


# Fourier transforms.

@module("hyena_gated_f32", "fourier", {"batch": 3, "length": 2047, "width": 129},
        {"batch": 2, "length": 15, "width": 3})
def _(batch, length, width):
    """Two long filters with gates between, along the middle axis."""
    def mix(x, filters, skips):
        v, a, b = jnp.split(x, 3, -1)
        for i, gate in enumerate((a, b)):
            spectrum = jnp.fft.rfft(v, 2 * length, axis=1) * jnp.fft.rfft(filters[i], 2 * length, axis=0)
            v = gate * (jnp.fft.irfft(spectrum, 2 * length, axis=1)[:, :length] + skips[i] * v)
        return v
    return mix, f32(batch, length, 3 * width), f32(2, length, width, scale=length ** -0.5), f32(2, width)
