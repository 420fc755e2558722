"""Modules of modules.py by a tenth author: blocks of transformers, attention, norms, losses, convolutions, pools and
quantised products of proteins, pictures, weather and series, most at sizes that are no powers of two."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, F8, I8, Arg, around_one, backward, bf16, f32, ints, layer_norm, module, rotary,
                             weights)

U8, F16 = jnp.uint8, jnp.float16


# Blocks of transformers.

PROTEIN = {"batch": 5, "length": 413, "heads": 20, "size": 24, "inner": 1920}
SMALL_PROTEIN = {"batch": 2, "length": 7, "heads": 2, "size": 4, "inner": 12}


@module("protein_rotary_padded_block_f32", "transformer", {**PROTEIN, "type_": F32, "grad": False}, SMALL_PROTEIN)
@module("protein_rotary_padded_block_grad_bf16", "transformer", {**PROTEIN, "type_": BF16, "grad": True},
        SMALL_PROTEIN, tolerance=6)
def _(batch, length, heads, size, inner, type_, grad):
    """An encoder layer for padded proteins: rotary heads of 24, biases in every product, an exact GELU."""
    width = heads * size

    def layer(x, p, counts):
        valid = jnp.arange(length) < counts[:, None]
        h = layer_norm(x, p["gain"][0], p["shift"][0])
        q, k, v = jnp.moveaxis((h @ p["qkv"] + p["b_qkv"]).reshape(batch, length, 3, heads, size), 2, 0)
        q, k = rotary(q * size ** -0.5, jnp.arange(length)), rotary(k, jnp.arange(length))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32)
        share = jax.nn.softmax(jnp.where(valid[:, None, None], scores, -1e9)).astype(type_)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", share, v).reshape(x.shape) @ p["out"] + p["shift"][1]
        h = layer_norm(x, p["gain"][1], p["shift"][2])
        x = x + jax.nn.gelu(h @ p["up"] + p["b_up"], approximate=False) @ p["down"] + p["shift"][3]
        return jnp.where(valid[..., None], x, 0)

    x = Arg((batch, length, width), type_)
    p = {"gain": around_one(type_, 2, width), "shift": Arg((4, width), type_, 0.1), "b_up": Arg((inner,), type_, 0.1),
         "qkv": weights(type_, width, 3 * width), "b_qkv": Arg((3 * width,), type_, 0.1),
         "out": weights(type_, width, width), "up": weights(type_, width, inner), "down": weights(type_, inner, width)}
    counts = ints(length + 1, batch, low=length // 2)
    if grad:
        return lambda g, x, p, counts: jax.vjp(lambda *a: layer(*a, counts), x, p)[1](g), x, x, p, counts
    return layer, x, p, counts


@module("spatial_gate_with_tiny_attention_grad_bf16", "transformer", {"batch": 12, "length": 197, "width": 384,
        "inner": 2304, "size": 64}, {"batch": 2, "length": 5, "width": 6, "inner": 8, "size": 4}, tolerance=8)
def _(batch, length, width, inner, size):
    """A gated MLP that mixes places by a learned square matrix and one head of attention in its gate; gradients."""
    def layer(x, gain, into, bias, mix, place, qkv, from_head, out):
        h = layer_norm(x, gain, 0 * gain)
        q, k, v = jnp.split(h @ qkv, 3, -1)
        scores = jnp.einsum("bqd,bkd->bqk", q, k, preferred_element_type=F32) * size ** -0.5
        tiny = jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores).astype(BF16), v) @ from_head
        value, gate = jnp.split(jax.nn.gelu(h @ into + bias), 2, -1)
        gate = layer_norm(gate, jnp.ones(inner // 2), jnp.zeros(inner // 2))
        gate = jnp.einsum("qk,bkc->bqc", mix, gate) + place[:, None] + tiny
        return x + (value * gate) @ out
    x, half = bf16(batch, length, width), inner // 2
    return (backward(layer), x, x, around_one(BF16, width), weights(BF16, width, inner), bf16(inner, scale=0.1),
            bf16(length, length, scale=0.3 * length ** -0.5), around_one(BF16, length), weights(BF16, width, 3 * size),
            weights(BF16, size, half), weights(BF16, half, width))


# Attention.

@module("cosine_windows_log_distance_bias_grad_f32", "attention", {"images": 4, "side": 42, "window": 7, "shift": 3,
        "heads": 6, "size": 32, "inner": 512}, {"images": 2, "side": 6, "window": 3, "shift": 1, "heads": 2, "size": 4,
        "inner": 5}, tolerance=4)
def _(images, side, window, shift, heads, size, inner):
    """Shifted windows whose scores are cosines over learned temperatures; a small net of log distances biases them."""
    width, tiles, places = heads * size, side // window, window * window

    def split(x):
        x = x.reshape(images, tiles, window, tiles, window, -1)
        return jnp.moveaxis(x, 2, 3).reshape(images, tiles * tiles, places, -1)

    def layer(x, qkv, heat, net_in, net_bias, net_out, out):
        steps = jnp.arange(1 - window, window) * (8 / (window - 1))
        steps = jnp.sign(steps) * jnp.log2(1 + jnp.abs(steps)) / 3
        table = jnp.stack(jnp.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2)
        table = 16 * jax.nn.sigmoid(jax.nn.relu(table @ net_in + net_bias) @ net_out)
        row, column = jnp.divmod(jnp.arange(places), window)
        apart = (row[:, None] - row + window - 1) * (2 * window - 1) + column[:, None] - column + window - 1
        zone = (jnp.arange(side) >= side - window).astype(jnp.int32) + (jnp.arange(side) >= side - shift)
        zones = split(jnp.broadcast_to((3 * zone[:, None] + zone)[None, ..., None], (images, side, side, 1)))[..., 0]
        blocked = jnp.where(zones[..., None] == zones[..., None, :], 0, -100.0)[:, :, None]

        moved = split(jnp.roll(x, (-shift, -shift), (1, 2)))
        q, k, v = jnp.moveaxis((moved @ qkv).reshape(images, -1, places, 3, heads, size), 3, 0)
        q, k = (a * lax.rsqrt(jnp.square(a).sum(-1, keepdims=True) + 1e-6) for a in (q, k))
        scores = jnp.einsum("nwqhd,nwkhd->nwhqk", q, k) * jnp.exp(jnp.minimum(heat, 4.6052))[:, None, None]
        share = jax.nn.softmax(scores + jnp.moveaxis(table[apart], -1, 0) + blocked)
        y = jnp.einsum("nwhqk,nwkhd->nwqhd", share, v).reshape(images, tiles, tiles, window, window, width)
        y = jnp.moveaxis(y, 2, 3).reshape(images, side, side, width)
        return x + jnp.roll(y, (shift, shift), (1, 2)) @ out
    x = f32(images, side, side, width)
    return (backward(layer), x, x, weights(F32, width, 3 * width), Arg((heads,), F32, low=1.5, high=3),
            weights(F32, 2, inner), f32(inner, scale=0.2), weights(F32, inner, heads), weights(F32, width, width))


@module("alignment_rows_pair_biased_outer_mean_grad_bf16", "attention", {"rows": 61, "length": 131, "heads": 8,
        "size": 32, "pairs": 64, "low": 32}, {"rows": 3, "length": 5, "heads": 2, "size": 4, "pairs": 6, "low": 3},
        tolerance=8)
def _(rows, length, heads, size, pairs, low):
    """Gated attention in each row of an alignment, biased by pairs, which a mean of outer products then updates."""
    width = heads * size

    def layer(m, z, gain, gain_z, qkvg, biases, out, sides, back):
        h = layer_norm(m, gain[0], gain[1] - 1)
        q, k, v, gate = jnp.moveaxis((h @ qkvg).reshape(rows, length, 4, heads, size), 2, 0)
        bias = (layer_norm(z, gain_z, 0 * gain_z) @ biases).astype(F32)
        scores = jnp.einsum("rqhd,rkhd->rhqk", q, k, preferred_element_type=F32) * size ** -0.5
        share = jax.nn.softmax(scores + jnp.moveaxis(bias, -1, 0)).astype(BF16)
        y = jax.nn.sigmoid(gate) * jnp.einsum("rhqk,rkhd->rqhd", share, v)
        m = m + y.reshape(m.shape) @ out
        a, b = jnp.split(layer_norm(m, gain[2], gain[3] - 1) @ sides, 2, -1)
        outer = jnp.einsum("ria,rjb->ijab", a, b, preferred_element_type=F32) / rows
        return m, z + outer.astype(BF16).reshape(length, length, low * low) @ back
    m, z = bf16(rows, length, width), bf16(length, length, pairs)
    return (lambda g, h, *p: jax.vjp(layer, *p)[1]((g, h)), m, z, m, z, around_one(BF16, 4, width),
            around_one(BF16, pairs), weights(BF16, width, 4 * width), weights(BF16, pairs, heads),
            weights(BF16, width, width), weights(BF16, width, 2 * low), bf16(low * low, pairs, scale=0.3))


# Norms.

SANDWICH, SMALL_SANDWICH = {"rows": 3001, "width": 5376}, {"rows": 5, "width": 9}


@module("rms_after_and_before_5376_bf16", "norms", {**SANDWICH, "grad": False}, SMALL_SANDWICH, tolerance=2)
@module("rms_after_and_before_5376_grad_bf16", "norms", {**SANDWICH, "grad": True}, SMALL_SANDWICH, tolerance=4)
def _(rows, width, grad):
    """The norm after a layer, its residual sum and the norm before the next layer, with gains around zero."""
    def norm(x, gain):
        wide = x.astype(F32)
        return wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6) * (1 + gain.astype(F32))

    def pair(h, residual, after, before):
        total = (residual.astype(F32) + norm(h, after)).astype(BF16)
        return total, norm(total, before).astype(BF16)
    x, gain = bf16(rows, width), bf16(width, scale=0.2)
    if grad:
        return lambda g, h, *p: jax.vjp(pair, *p)[1]((g, h)), x, x, x, x, gain, gain
    return pair, x, x, gain, gain


@module("divisive_of_channel_squares_192_grad_f32", "norms", {"images": 3, "size": (48, 72), "channels": 192},
        {"images": 2, "size": (3, 4), "channels": 5}, tolerance=4)
def _(images, size, channels):
    """Codecs' divisive norm: each channel over the root of a learned mixture of all channels' squares; gradients."""
    bound = 2.0 ** -9

    def norm(x, beta, gamma):
        beta = jnp.square(jnp.maximum(beta, bound)) - bound ** 2
        gamma = jnp.square(jnp.maximum(gamma, bound)) - bound ** 2
        return x * lax.rsqrt(jnp.square(x) @ gamma + beta)
    x = f32(images, *size, channels)
    return (backward(norm), x, x, around_one(F32, channels),
            Arg((channels, channels), F32, low=-0.05, high=0.2))


@module("series_normed_and_restored_forecast_grad_f32", "norms", {"batch": 32, "length": 336, "series": 321,
        "horizon": 96, "window": 25}, {"batch": 2, "length": 9, "series": 3, "horizon": 4, "window": 3}, tolerance=4)
def _(batch, length, series, horizon, window):
    """Each series normed in time, split into a moving mean and the rest, two layers ahead, moments put back."""
    def forecast(x, gain, bias, trend, rest):
        mean = x.mean(1, keepdims=True)
        spread = jnp.sqrt(x.var(1, keepdims=True) + 1e-5)
        x = (x - mean) / spread * gain + bias
        padded = jnp.pad(x, ((0, 0), (window // 2, window // 2), (0, 0)), mode="edge")
        slow = lax.reduce_window(padded, 0.0, lax.add, (1, window, 1), (1, 1, 1), "VALID") / window
        y = jnp.einsum("bts,th->bhs", slow, trend) + jnp.einsum("bts,th->bhs", x - slow, rest)
        return (y - bias) / (gain + 1e-8) * spread + mean
    return (backward(forecast), f32(batch, horizon, series), f32(batch, length, series), around_one(F32, series),
            f32(series, scale=0.1), weights(F32, length, horizon), weights(F32, length, horizon))


# Losses.

@module("odds_of_preferred_answers_49152_grad_bf16", "losses", {"pairs": 3, "length": 130, "classes": 49152},
        {"pairs": 2, "length": 5, "classes": 19}, tolerance=2)
def _(pairs, length, classes):
    """Tuning by odds: preferred answers' cross entropy and the log odds of both answers' mean likelihoods."""
    def loss(logits, labels, counts):
        told = jnp.arange(1, length) < counts[..., None]
        wide = logits[:, :, :-1].astype(F32)
        picked = jnp.take_along_axis(wide, labels[:, :, 1:, None], -1)[..., 0] - jax.nn.logsumexp(wide, -1)
        mean = jnp.where(told, picked, 0).sum(-1) / told.sum(-1)
        odds = mean - jnp.log1p(-jnp.exp(mean))
        apart = odds[0] - odds[1]
        return (-mean[0] - 0.25 * jax.nn.log_sigmoid(apart)).mean(), (apart, mean)
    return (jax.value_and_grad(loss, has_aux=True), bf16(2, pairs, length, classes),
            ints(classes, 2, pairs, length), ints(length + 1, 2, pairs, low=length // 2))


@module("fair_ensemble_scores_by_area_grad_f32", "losses", {"members": 9, "rows": 121, "columns": 240, "fields": 7},
        {"members": 3, "rows": 5, "columns": 6, "fields": 2}, tolerance=2)
def _(members, rows, columns, fields):
    """Weather's ranked probability score of an ensemble without bias, weighted by area; spread over skill; gradient."""
    def loss(x, y, importance):
        latitude = jnp.linspace(-jnp.pi / 2, jnp.pi / 2, rows)
        area = jnp.cos(latitude) + 0.25 * jnp.pi / rows
        area = (area / area.mean())[:, None, None]
        skill = jnp.abs(x - y).mean(0)
        apart = jnp.abs(x[:, None] - x[None]).sum((0, 1)) / (2 * members * (members - 1))
        each = ((skill - apart) * area).mean((0, 1))
        spread = jnp.sqrt((x.var(0, ddof=1) * area).mean((0, 1)))
        wrong = jnp.sqrt((jnp.square(x.mean(0) - y) * area).mean((0, 1)))
        return (each * importance).sum(), (each, spread / wrong)
    return (jax.value_and_grad(loss, has_aux=True), f32(members, rows, columns, fields), f32(rows, columns, fields),
            around_one(F32, fields))


# Convolutions.

def conv(x, kernel, stride=(1, 1), padding="SAME", **more):
    return lax.conv_general_dilated(x, kernel, stride, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **more)


@module("depthwise_27_and_5_taps_summed_grad_bf16", "convolutions", {"images": 9, "size": 14, "channels": 192,
        "taps": 27}, {"images": 2, "size": 5, "channels": 3, "taps": 7}, tolerance=6)
def _(images, size, channels, taps):
    """Large filters: depthwise 27 x 27 and 5 x 5 branches, normed by the batch and summed, between two layers."""
    def normed(x, gain):
        wide = x.astype(F32)
        mean = wide.mean((0, 1, 2))
        return (wide - mean) * lax.rsqrt(jnp.square(wide - mean).mean((0, 1, 2)) + 1e-5) * gain

    def layer(x, into, large, small, gain, out):
        h = jax.nn.gelu(normed(x @ into, gain[0])).astype(BF16)
        far = conv(h, large, feature_group_count=channels)
        near = conv(h, small, feature_group_count=channels)
        h = jax.nn.gelu(normed(far, gain[1]) + normed(near, gain[2])).astype(BF16)
        return x + h @ out
    x, square = bf16(images, size, size, channels), weights(BF16, channels, channels)
    return (backward(layer), x, x, square, bf16(taps, taps, 1, channels, scale=1 / taps),
            bf16(5, 5, 1, channels, scale=0.2), around_one(F32, 3, channels), square)


@module("submanifold_27_neighbours_grad_f32", "convolutions", {"voxels": 20011, "inputs": 32, "outputs": 48},
        {"voxels": 13, "inputs": 3, "outputs": 4}, tolerance=4)
def _(voxels, inputs, outputs):
    """A sparse 3 x 3 x 3 convolution by a table of neighbours, half of which are missing, a norm and a ReLU."""
    def layer(x, kernel, gain, bias, neighbours):
        rows = x.at[neighbours].get(mode="fill", fill_value=0)
        y = jnp.einsum("kni,kio->no", rows, kernel)
        mean = y.mean(0)
        y = (y - mean) * lax.rsqrt(jnp.square(y - mean).mean(0) + 1e-5)
        return jax.nn.leaky_relu(y * gain + bias)

    def run(g, x, kernel, gain, bias, neighbours):
        return jax.vjp(lambda *p: layer(*p, neighbours), x, kernel, gain, bias)[1](g)
    return (run, f32(voxels, outputs), f32(voxels, inputs), f32(27, inputs, outputs, scale=(27 * inputs) ** -0.5),
            around_one(F32, outputs), f32(outputs, scale=0.1), ints(2 * voxels, 27, voxels))


@module("spoken_words_depthwise_net_whole_f32", "convolutions", {"clips": 129, "frames": 49, "features": 10,
        "width": 172, "classes": 12}, {"clips": 2, "frames": 11, "features": 6, "width": 5, "classes": 3}, tolerance=2)
def _(clips, frames, features, width, classes):
    """A whole classifier of words in inference: a strided filter, four separable layers with fixed norms, a mean."""
    def run(x, stem, depthwise, pointwise, norms, head):
        def normed(h, moments):
            gain, bias, mean, variance = moments
            return jax.nn.relu((h - mean) * (gain * lax.rsqrt(variance + 1e-3)) + bias)
        h = normed(conv(x[..., None], stem, (2, 2)), norms[0])
        for i in range(4):
            h = normed(conv(h, depthwise[i], feature_group_count=width), norms[2 * i + 1])
            h = normed(h @ pointwise[i], norms[2 * i + 2])
        logits = h.mean((1, 2)) @ head
        return jax.nn.softmax(logits), h.max((1, 2))
    return (run, f32(clips, frames, features), f32(10, 4, 1, width, scale=0.16), f32(4, 3, 3, 1, width, scale=0.33),
            weights(F32, 4, width, width), around_one(F32, 9, 4, width), weights(F32, width, classes))


# Pools.

@module("maxima_of_maxima_chained_nchw_grad_bf16", "pools", {"images": 7, "channels": 256, "size": (20, 21),
        "outputs": 320}, {"images": 2, "channels": 3, "size": (5, 6), "outputs": 4}, tolerance=6)
def _(images, channels, size, outputs):
    """Detectors' pyramid: three 5 x 5 maxima, each of the one before, side by side into one normed layer; gradients."""
    def layer(x, kernel, gain, bias):
        every = [x]
        for _ in range(3):
            every.append(lax.reduce_window(every[-1], -jnp.inf, lax.max, (1, 1, 5, 5), (1, 1, 1, 1), "SAME"))
        y = jnp.einsum("nchw,oc->nohw", jnp.concatenate(every, 1), kernel).astype(F32)
        mean = y.mean((0, 2, 3), keepdims=True)
        y = (y - mean) * lax.rsqrt(jnp.square(y - mean).mean((0, 2, 3), keepdims=True) + 1e-3)
        return jax.nn.silu(y * gain[:, None, None] + bias[:, None, None]).astype(BF16)
    return (backward(layer), bf16(images, outputs, *size), bf16(images, channels, *size),
            bf16(outputs, 4 * channels, scale=(4 * channels) ** -0.5), around_one(F32, outputs), f32(outputs))


@module("log_mean_exp_of_50_frames_grad_f32", "pools", {"clips": 11, "frames": 1001, "classes": 527, "window": 50},
        {"clips": 2, "frames": 13, "classes": 3, "window": 4}, tolerance=4)
def _(clips, frames, classes, window):
    """Sounds tagged: smooth maxima of overlapping windows in time, sharpened by class, to a binary cross entropy."""
    def loss(logits, sharp, labels):
        most = lax.stop_gradient(logits.max(1, keepdims=True))
        high = jnp.exp(sharp * (logits - most))
        total = lax.reduce_window(high, 0.0, lax.add, (1, window, 1), (1, window // 2, 1), "VALID")
        pooled = jnp.log(total / window) / sharp + most
        clip = pooled.mean(1)
        return -jax.nn.log_sigmoid(jnp.where(labels > 0, clip, -clip)).mean(), pooled
    return (jax.value_and_grad(loss, argnums=(0, 1), has_aux=True), f32(clips, frames, classes),
            around_one(F32, classes), ints(2, clips, classes))


# Quantised products.

@module("int4_both_sides_low_rank_branch_bf16", "quantised", {"rows": 333, "inputs": 3072, "outputs": 3072, "rank": 32,
        "group": 64}, {"rows": 3, "inputs": 16, "outputs": 6, "rank": 2, "group": 8}, tolerance=4)
def _(rows, inputs, outputs, rank, group):
    """Inputs smoothed and rounded to four bits by groups, packed nibbles of weights, a branch of rank 32 in full."""
    def run(x, smooth, down, up, packed, scales, bias):
        x = x / smooth
        parts = x.astype(F32).reshape(rows, inputs // group, group)
        step = jnp.abs(parts).max(-1, keepdims=True) / 7 + 1e-8
        x4 = (jnp.round(parts / step).astype(I8).astype(F32) * step).astype(BF16).reshape(rows, inputs)
        low, high = (packed << 4).astype(I8) >> 4, packed.astype(I8) >> 4
        w4 = jnp.stack([low, high], -1).reshape(outputs, inputs // group, group)
        w = (w4.astype(BF16) * scales[..., None]).reshape(outputs, inputs)
        y = jnp.einsum("ri,oi->ro", x4, w, preferred_element_type=F32)
        return (y + ((x @ down) @ up).astype(F32) + bias).astype(BF16)
    return (run, bf16(rows, inputs), around_one(BF16, inputs), weights(BF16, inputs, rank),
            weights(BF16, rank, outputs), ints(256, outputs, inputs // 2, dtype=U8),
            Arg((outputs, inputs // group), BF16, low=1e-3, high=6e-3), f32(outputs))


@module("keys_centred_int8_scores_f8_values_bf16", "quantised", {"heads": 30, "length": 1170, "size": 64},
        {"heads": 2, "length": 7, "size": 4}, tolerance=4)
def _(heads, length, size):
    """Attention of bytes: keys less their mean, queries and keys in int8 by token, shares and values in FP8."""
    def bytes_of(a):
        step = jnp.abs(a).max(-1, keepdims=True) / 127
        return jnp.round(a / step).astype(I8), step

    def run(q, k, v):
        q, k, v = (a.astype(F32) for a in (q, k, v))
        (q, q_step), (k, k_step) = bytes_of(q * size ** -0.5), bytes_of(k - k.mean(1, keepdims=True))
        scores = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.int32).astype(F32)
        scores = scores * q_step * k_step.swapaxes(1, 2)
        most = scores.max(-1, keepdims=True)
        share = jnp.exp(scores - most)
        v_step = jnp.abs(v).max(1, keepdims=True) / 448
        y = jnp.einsum("hqk,hkd->hqd", (448 * share).astype(F8), (v / v_step).astype(F8), preferred_element_type=F32)
        total = share.sum(-1, keepdims=True)
        return (y * v_step / (448 * total)).astype(BF16), (jnp.log(total) + most)[..., 0]
    x = bf16(heads, length, size)
    return run, x, x, x


@module("int3_planes_table_of_row_b3_f16", "quantised", {"rows": 3, "inputs": 5120, "outputs": 5120},
        {"rows": 2, "inputs": 64, "outputs": 6}, tolerance=4)
def _(rows, inputs, outputs):
    """Weights of three bits in planes of words, values by a table of eight for each output, an exact sparse rest."""
    def run(x, planes, tables, at, rest):
        bits = planes[..., None] >> jnp.arange(32, dtype=jnp.uint32) & 1
        code = (bits[0] + 2 * bits[1] + 4 * bits[2]).reshape(outputs, inputs).astype(jnp.int32)
        w = jnp.take_along_axis(tables, code, 1)
        y = jnp.einsum("ri,oi->ro", x, w, preferred_element_type=F32)
        return (y + (x[:, at].astype(F32) * rest).sum(-1)).astype(F16)
    return (run, Arg((rows, inputs), F16), ints(2 ** 32, 3, outputs, inputs // 32, dtype=jnp.uint32),
            Arg((outputs, 8), F16, inputs ** -0.5), ints(inputs, outputs, 9), f32(outputs, 9, scale=0.1))
