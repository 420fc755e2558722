"""The rest of the modules of modules.py by the author of module_eighth_layers.py: samplers, transforms, convolutions
and pools."""
import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, I32, Arg, around_one, backward, bf16, f32, ints, key, key_of, layer_norm, module,
                             weights)


# Sampling.

@module("gamma_mixup_dropout_f32", "sampling", {"images": 96, "size": 40}, {"images": 5, "size": 4}, tolerance=4,
        mismatch=0.05)
def _(images, size):
    """Gamma draws make the shares of three permuted batches; a square of each is erased by truncated normal noise."""
    def run(x, concentration, data):
        a, b, c, d = jax.random.split(key_of(data), 4)
        share = jax.random.gamma(a, concentration)
        share = share / share.sum(-1, keepdims=True)
        orders = jnp.stack([jnp.arange(images)] + [jax.random.permutation(k, images) for k in jax.random.split(b, 2)])
        mixed = jnp.einsum("nk,knhwc->nhwc", share, x[orders])
        corner = jax.random.randint(c, (2, images, 1), 0, size)
        rows, columns = ((jnp.arange(size) >= at) & (jnp.arange(size) < at + size // 4) for at in corner)
        noise = jax.random.truncated_normal(d, -2, 2, x.shape)
        return jnp.where((rows[:, :, None] & columns[:, None])[..., None], noise, mixed), orders[1]
    return run, f32(images, size, size, 3), Arg((images, 3), F32, low=0.5, high=2), key()


@module("drafts_in_turn_residual_b6_f32", "sampling", {"batch": 6, "drafts": 5, "vocabulary": 50304},
        {"batch": 3, "drafts": 2, "vocabulary": 19}, tolerance=4, mismatch=0.05)
def _(batch, drafts, vocabulary):
    """Drafts of one place tried in turn: where one is refused, the target loses the draft's share and is normed."""
    def run(target, draft, tokens, data):
        one, two = jax.random.split(key_of(data))
        q, row = jax.nn.softmax(draft), jnp.arange(batch)

        def step(given, now):
            p, done, taken = given
            token, u = now
            accepted = ~done & (u * q[row, token] < p[row, token])
            rest = jnp.maximum(p - q, 0)
            rest = rest / jnp.maximum(rest.sum(-1, keepdims=True), 1e-9)
            done, taken = done | accepted, jnp.where(accepted, token, taken)
            return (jnp.where(done[:, None], p, rest), done, taken), accepted
        start = (jax.nn.softmax(target / 0.8), jnp.zeros(batch, bool), jnp.full(batch, -1))
        (p, done, taken), accepted = lax.scan(step, start, (tokens, jax.random.uniform(one, (drafts, batch))))
        drawn = jax.random.categorical(two, jnp.log(p + 1e-20))
        return jnp.where(done, taken, drawn), accepted.sum(0), p.max(-1)
    return run, f32(batch, vocabulary), f32(batch, vocabulary), ints(vocabulary, drafts, batch), key()


@module("particles_resampled_scan_f32", "sampling", {"particles": 8009, "steps": 24, "width": 4},
        {"particles": 11, "steps": 3, "width": 2}, tolerance=10)
def _(particles, steps, width):
    """A particle filter of whole numbers: noise of each step's key, weights of observations, systematic draws from their
    sums. All is exact: the order in which floats are added up would decide which particles are drawn from then on."""
    def run(x, turn, seen, data):
        def step(given, now):
            x, key = given
            key, a, b = jax.random.split(key, 3)
            x = (x @ turn + jax.random.randint(a, x.shape, -3, 4)) % 64
            halvings = jnp.minimum(jnp.abs(x - now).sum(-1) // 8, 10)
            units, weight = 1024 >> halvings, jax.nn.softmax(-math.log(2) * halvings.astype(F32))
            apart = units.sum() // particles
            at = jnp.arange(particles) * apart + jax.random.randint(b, (), 0, jnp.maximum(apart, 1))
            source = jnp.minimum(jnp.searchsorted(jnp.cumsum(units), at), particles - 1)
            return (x[source], key), (weight @ x, 1 / jnp.square(weight).sum(), units.sum())
        return lax.scan(step, (x, key_of(data)), seen)[1]
    return (run, Arg((particles, width), I32, low=0, high=64), Arg((width, width), I32, low=-2, high=3),
            Arg((steps, width), I32, low=0, high=64), key())


# Transforms, convolutions, pools.

@module("global_filters_2d_grad_f32", "fourier", {"images": 9, "size": 14, "channels": 200},
        {"images": 2, "size": 4, "channels": 3}, tolerance=4)
def _(images, size, channels):
    """A norm, learned complex filters of whole images by transforms of both axes, a layer, the input; gradients."""
    def layer(x, gain, bias, filters, up, down):
        spectrum = jnp.fft.rfft2(layer_norm(x, gain[0], bias[0]), axes=(1, 2), norm="ortho")
        h = jnp.fft.irfft2(spectrum * lax.complex(filters[0], filters[1]), (size, size), axes=(1, 2), norm="ortho")
        return x + jax.nn.gelu(layer_norm(h, gain[1], bias[1]) @ up, approximate=False) @ down
    x = f32(images, size, size, channels)
    return (backward(layer), x, x, around_one(F32, 2, channels), f32(2, channels),
            f32(2, size, size // 2 + 1, channels), weights(F32, channels, 4 * channels),
            weights(F32, 4 * channels, channels))


@module("three_spectra_loss_grad_f32", "fourier", {"batch": 6, "samples": 12000, "windows": (300, 600, 1200)},
        {"batch": 2, "samples": 48, "windows": (6, 8)}, tolerance=10)
def _(batch, samples, windows):
    """A vocoder's loss: magnitudes of frames of three lengths, their relative and logarithmic distances; gradients."""
    def magnitudes(x, window):
        hop, half = window // 5, window // 2
        x = jnp.pad(x, ((0, 0), (half, half)), mode="reflect")
        at = jnp.arange(0, samples, hop)[:, None] + jnp.arange(window)
        shape = 0.5 - 0.5 * jnp.cos(2 * math.pi * jnp.arange(window) / window)
        spectrum = jnp.fft.rfft(x[:, at] * shape)
        return jnp.sqrt(jnp.maximum(jnp.square(spectrum.real) + jnp.square(spectrum.imag), 1e-2))

    def loss(x, wanted):
        total = 0.0
        for window in windows:
            a, b = magnitudes(x, window), magnitudes(wanted, window)
            total += jnp.linalg.norm(a - b) / jnp.linalg.norm(b) + jnp.abs(jnp.log(a) - jnp.log(b)).mean()
        return total / len(windows)
    return jax.value_and_grad(loss), f32(batch, samples), f32(batch, samples)


@module("separable_entry_grad_bf16", "convolutions", {"images": 5, "size": 37, "inputs": 96, "outputs": 184},
        {"images": 2, "size": 5, "inputs": 4, "outputs": 6}, tolerance=10)
def _(images, size, inputs, outputs):
    """Two depthwise and pointwise convolutions with batch norms, a strided maximum, a strided 1×1 besides."""
    def normed(x, gain):
        wide = x.astype(F32)
        mean = wide.mean((0, 1, 2))
        return ((wide - mean) * lax.rsqrt(jnp.square(wide - mean).mean((0, 1, 2)) + 1e-3) * gain).astype(BF16)

    def layer(x, first, second, one, two, skip, gains):
        h = x
        for depth, point, gain in ((first, one, gains[0]), (second, two, gains[1])):
            h = lax.conv_general_dilated(jax.nn.relu(h), depth, (1, 1), "SAME", feature_group_count=h.shape[-1],
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
            h = normed(h @ point, gain)
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return h + normed(x[:, ::2, ::2] @ skip, gains[2])
    half = -(-size // 2)
    return (backward(layer), bf16(images, half, half, outputs), bf16(images, size, size, inputs),
            bf16(3, 3, 1, inputs, scale=0.3), bf16(3, 3, 1, outputs, scale=0.3), weights(BF16, inputs, outputs),
            weights(BF16, outputs, outputs), weights(BF16, inputs, outputs), around_one(F32, 3, outputs))


@module("depthwise_5x5x5_grad_f32", "convolutions", {"volumes": 2, "size": (11, 24, 26), "channels": 40},
        {"volumes": 1, "size": (3, 4, 5), "channels": 4}, tolerance=4)
def _(volumes, size, channels):
    """A block of volumes: depthwise 5×5×5, a norm by channel, a layer twice as wide, channels shuffled; gradients."""
    def layer(x, w, gain, up, down):
        h = lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", feature_group_count=channels,
                                     dimension_numbers=("NCDHW", "OIDHW", "NCDHW"))
        h = (h - h.mean((2, 3, 4), keepdims=True)) * lax.rsqrt(h.var((2, 3, 4), keepdims=True) + 1e-5)
        h = jax.nn.gelu(jnp.einsum("ncdhw,ci->nidhw", h * gain[:, None, None, None], up))
        y = jnp.einsum("nidhw,ic->ncdhw", h, down)
        return (x + y).reshape(volumes, 4, channels // 4, *size).swapaxes(1, 2).reshape(x.shape)
    x = f32(volumes, channels, *size)
    return (backward(layer), x, x, f32(channels, 1, 5, 5, 5, scale=0.1), around_one(F32, channels),
            weights(F32, channels, 2 * channels), weights(F32, 2 * channels, channels))


@module("maxima_uneven_bins_grad_bf16", "pools", {"images": 6, "size": (23, 31), "channels": 112, "bins": 7},
        {"images": 2, "size": (5, 6), "channels": 4, "bins": 3}, tolerance=8)
def _(images, size, channels, bins):
    """5×5 maxima in a row, all of them through a 1×1 layer, then maxima and means of uneven bins; gradients."""
    def layer(x, w, out):
        every = [x]
        for _ in range(3):
            every.append(lax.reduce_window(every[-1], -jnp.inf, lax.max, (1, 5, 5, 1), (1,) * 4, "SAME"))
        h = jax.nn.silu(jnp.concatenate([a @ w[i] for i, a in enumerate(every)], -1) @ out)
        for axis, n in zip((1, 2), size):
            cuts = [(i * n // bins, -(-(i + 1) * n // bins)) for i in range(bins)]
            parts = [lax.slice_in_dim(h, a, b, axis=axis) for a, b in cuts]
            h = jnp.stack([(p.max(axis) + p.astype(F32).mean(axis).astype(BF16)) / 2 for p in parts], axis)
        return h
    return (backward(layer), bf16(images, bins, bins, channels), bf16(images, *size, channels),
            weights(BF16, 4, channels, channels // 2), weights(BF16, 2 * channels, channels))


@module("mixed_filters_nchw_grad_f32", "convolutions", {"images": 11, "size": 28, "channels": 96},
        {"images": 2, "size": 5, "channels": 8}, tolerance=4)
def _(images, size, channels):
    """Quarters of the channels under depthwise 3×3, 5×5, 7×7 and 9×9, shuffled, a grouped 1×1; gradients."""
    quarter = channels // 4
    conv = functools.partial(lax.conv_general_dilated, window_strides=(1, 1), padding="SAME",
                             dimension_numbers=("NCHW", "OIHW", "NCHW"))

    def layer(x, filters, point, bias):
        parts = [conv(a, w, feature_group_count=quarter) for a, w in zip(jnp.split(x, 4, 1), filters)]
        h = jax.nn.hard_swish(jnp.stack(parts, 2).reshape(x.shape) + bias[:, None, None])
        return x + conv(h, point, feature_group_count=4)
    x = f32(images, channels, size, size)
    return (backward(layer), x, x, [f32(quarter, 1, n, n, scale=1 / n) for n in (3, 5, 7, 9)],
            f32(channels, quarter, 1, 1, scale=quarter ** -0.5), f32(channels))


@module("adaptive_list_pools_grad_f32", "pools", {"lists": 37, "length": 777, "channels": 130, "bins": 12},
        {"lists": 3, "length": 11, "channels": 4, "bins": 3}, tolerance=2)
def _(lists, length, channels, bins):
    """Lists of their own lengths in twelve bins each: masked maxima, and softmax-weighted means, of bins; gradients."""
    def layer(x, lengths):
        at = jnp.arange(length)
        low = jnp.arange(bins) * lengths[:, None] // bins
        high = -(-(jnp.arange(1, bins + 1) * lengths[:, None]) // bins)
        inside = (at >= low[..., None]) & (at < high[..., None])

        def one(_, mask):
            seen = mask[..., None]
            most = jnp.where(seen, x, -1e9).max(1)
            weight = jax.nn.softmax(jnp.where(seen, 2 * x, -1e9), 1)
            return None, jnp.concatenate([most, (weight * x).sum(1)], -1)
        return lax.scan(one, None, inside.swapaxes(0, 1))[1]
    return (lambda g, x, lengths: jax.vjp(lambda x: layer(x, lengths), x)[1](g), f32(bins, lists, 2 * channels),
            f32(lists, length, channels), ints(length + 1, lists, low=bins - 1))
