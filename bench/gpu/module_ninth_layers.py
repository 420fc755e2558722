"""Modules of modules.py by yet another author: blocks of transformers, attention, norms, losses, convolutions, pools,
quantised products and linear algebra of recent papers, about a third at sizes that are powers of two."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, F8, I32, Arg, around_one, backward, bf16, f32, ints, layer_norm, module,
                             rms_norm, weights)
from module_seventh_layers import causal_mask, masked, mixed, rotated

F16, U8 = jnp.float16, jnp.uint8


# Blocks of transformers.

@module("altup_laurel_per_layer_inputs_bf16", "transformer",
        {"batch": 3, "length": 333, "streams": 4, "heads": 8, "groups": 2, "size": 96, "rank": 48, "own": 160},
        {"batch": 1, "length": 5, "streams": 3, "heads": 2, "groups": 1, "size": 4, "rank": 3, "own": 6}, tolerance=8)
def _(batch, length, streams, heads, groups, size, rank, own):
    """One of four streams goes through a layer, the others are predicted and corrected; inputs of the layer's own."""
    width = heads * size

    def modalities(x, gain, router):
        return jnp.tanh((rms_norm(x, gain) * (1 / width) @ router).astype(F32))

    def layer(x, ids, table, p):
        mix = modalities(x[0], p["gain"][0], p["router"]) @ p["predict"]
        ahead = x + jnp.einsum("sblw,blst->tblw", x, mix.reshape(batch, length, streams, streams).astype(BF16))
        a = rms_norm(ahead[0], p["gain"][1])
        low = a + rms_norm((a @ p["left"]) @ p["right"], p["gain"][2])
        q, k, v = jnp.split(a @ p["qkv"], [width, width + groups * size], -1)
        q, k = (rotated(m.reshape(batch, length, -1, size), size) for m in (q, k))
        seen = mixed(q, k, v.reshape(batch, length, groups, size), masked(length, 128), 1.0)
        h = (ahead[0] + rms_norm(seen @ p["out"], p["gain"][3]) + low) * 2 ** -0.5
        gate, up = jnp.split(rms_norm(h, p["gain"][4]) @ p["up"], 2, -1)
        cut = gate.astype(F32).mean(-1, keepdims=True) + 1.6448 * gate.astype(F32).std(-1, keepdims=True)
        sparse = jax.nn.gelu(jax.nn.relu(gate - cut.astype(BF16)))
        h = h + rms_norm((sparse * up) @ p["down"], p["gain"][5])
        fix = (modalities(h, p["gain"][0], p["router"]) @ p["correct"] + 1).astype(BF16)
        fixed = ahead + (h - ahead[0]) * jnp.moveaxis(fix, -1, 0)[..., None]
        inner = (jax.nn.gelu(fixed[0] @ p["own_gate"]) * table[ids]) @ p["own_up"]
        return jnp.concatenate([fixed[:1], fixed[1:] + rms_norm(inner, p["gain"][6])])
    p = {"gain": around_one(BF16, 7, width), "router": weights(BF16, width, streams),
         "predict": weights(F32, streams, streams * streams), "correct": weights(F32, streams, streams),
         "left": weights(BF16, width, rank), "right": weights(BF16, rank, width),
         "qkv": Arg((width, width + 2 * groups * size), BF16, 0.3 * width ** -0.5), "out": weights(BF16, width, width),
         "up": weights(BF16, width, 4 * width), "down": weights(BF16, 2 * width, width),
         "own_gate": weights(BF16, width, own), "own_up": weights(BF16, own, width)}
    return layer, bf16(streams, batch, length, width), ints(9001, batch, length), bf16(9001, own), p


@module("recurrent_depth_halting_f32", "transformer", {"batch": 5, "length": 130, "heads": 6, "size": 40, "most": 6},
        {"batch": 2, "length": 5, "heads": 2, "size": 4, "most": 4}, tolerance=4, mismatch=5e-3)
def _(batch, length, heads, size, most):
    """One block again and again until each token's chances of halting reach one, states summed by those chances."""
    width = heads * size

    def run(x, gain, qkv, out, up, down, halt, clock):
        def body(given):
            i, h, total, left, steps = given
            h = h + clock[i]
            q, k, v = jnp.split((rms_norm(h, gain[0]) @ qkv).reshape(batch, length, heads, 3 * size), 3, -1)
            h = h + mixed(q, k, v, masked(length)) @ out
            h = h + jnp.square(jax.nn.relu(rms_norm(h, gain[1]) @ up)) @ down
            chance = jax.nn.sigmoid(rms_norm(h, gain[2]) @ halt - 1)
            last = (left - chance < 0.01) | (i == most - 1)
            share = jnp.where(last, left, chance) * (left > 0)
            return i + 1, h, total + share[..., None] * h, left - share, steps + (left > 0)

        def goes_on(given):
            return (given[0] < most) & jnp.any(given[3] > 0)
        start = (0, x, jnp.zeros_like(x), jnp.ones((batch, length)), jnp.zeros((batch, length), I32))
        count, _, total, _, steps = lax.while_loop(goes_on, body, start)
        return total, steps, count
    return (run, f32(batch, length, width), around_one(F32, 3, width), weights(F32, width, 3 * width),
            weights(F32, width, width), weights(F32, width, 4 * width), weights(F32, 4 * width, width),
            f32(width, scale=width ** -0.5), f32(most, width, scale=0.3))


@module("learner_at_test_time_grad_bf16", "transformer",
        {"batch": 2, "chunks": 32, "chunk": 64, "heads": 16, "size": 64},
        {"batch": 1, "chunks": 3, "chunk": 4, "heads": 2, "size": 4}, tolerance=8)
def _(batch, chunks, chunk, heads, size):
    """A scan whose state is a linear model that takes a step of its own gradient for each chunk; outer gradients."""
    def normed(h, gain, bias):
        h = h - h.mean(-1, keepdims=True)
        return h * lax.rsqrt(jnp.square(h).mean(-1, keepdims=True) + 1e-6) * gain[:, None] + bias[:, None]

    def layer(q, k, v, rate, start, gain, bias):
        def missed(state, k, v, rate):
            away = normed(jnp.einsum("bhcd,bhde->bhce", k, state[0]) + state[1], gain, bias) - (v - k)
            return 0.5 * (rate[..., None] * jnp.square(away)).sum()

        def step(state, now):
            q, k, v = (a.astype(F32) for a in now[:3])
            pull = jax.grad(missed)(state, k, v, 0.1 * jax.nn.sigmoid(now[3]))
            state = jax.tree.map(lambda a, g: a - g / chunk, state, pull)
            y = q + normed(jnp.einsum("bhcd,bhde->bhce", q, state[0]) + state[1], gain, bias)
            return state, y.astype(BF16)
        state = (jnp.broadcast_to(start, (batch, *start.shape)), jnp.zeros((batch, heads, 1, size)))
        return lax.scan(jax.checkpoint(step), state, (q, k, v, rate))[1]
    x = bf16(chunks, batch, heads, chunk, size)
    return (backward(layer), x, x, x, x, f32(chunks, batch, heads, chunk), weights(F32, heads, size, size),
            around_one(F32, heads, size), f32(heads, size, scale=0.1))


@module("short_conv_gated_block_2048_grad_bf16", "transformer", {"batch": 2, "length": 1024, "width": 2048,
        "inner": 4096}, {"batch": 2, "length": 6, "width": 8, "inner": 12}, tolerance=8)
def _(batch, length, width, inner):
    """In place of attention a causal convolution of three taps between two gates, then a gated layer; gradients."""
    def layer(x, gain, inside, taps, out, up, down):
        before, after, h = jnp.split(rms_norm(x, gain[0]) @ inside, 3, -1)
        h = jnp.pad(before * h, ((0, 0), (2, 0), (0, 0)))
        h = sum(taps[i] * lax.dynamic_slice_in_dim(h, i, length, 1) for i in range(3))
        x = x + (after * h) @ out
        gate, value = jnp.split(rms_norm(x, gain[1]) @ up, 2, -1)
        return x + (jax.nn.silu(gate) * value) @ down
    x = bf16(batch, length, width)
    return (backward(layer), x, x, around_one(BF16, 2, width), weights(BF16, width, 3 * width), weights(BF16, 3, width),
            weights(BF16, width, width), weights(BF16, width, 2 * inner), weights(BF16, inner, width))


@module("manifold_streams_sinkhorn_grad_f32", "transformer", {"tokens": 777, "streams": 4, "width": 320, "inner": 640,
        "rounds": 8}, {"tokens": 5, "streams": 3, "width": 6, "inner": 8, "rounds": 3}, tolerance=4)
def _(tokens, streams, width, inner, rounds):
    """Residual streams mixed by doubly stochastic matrices of each token, which rounds of division make; gradients."""
    def layer(x, gain, project, base, scales, up, down):
        flat = rms_norm(x.reshape(tokens, -1), gain)
        moved = flat @ project
        into, back, mix = jnp.split(moved, [streams, 2 * streams], -1)
        into = jax.nn.sigmoid(scales[0] * into + base[0, :streams])
        back = 2 * jax.nn.sigmoid(scales[1] * back + base[1, :streams])
        mix = jnp.exp((scales[2] * mix + base[2]).reshape(tokens, streams, streams))
        for _ in range(rounds):
            mix = mix / mix.sum(-1, keepdims=True)
            mix = mix / mix.sum(-2, keepdims=True)
        h = jnp.einsum("ts,tsw->tw", into, x)
        gate, value = jnp.split(h @ up, 2, -1)
        h = (jax.nn.silu(gate) * value) @ down
        return jnp.einsum("tsu,tuw->tsw", mix, x) + back[..., None] * h[:, None]
    x = f32(tokens, streams, width)
    return (backward(layer), x, x, around_one(F32, streams * width),
            weights(F32, streams * width, streams * (streams + 2)), f32(3, streams * streams), around_one(F32, 3),
            weights(F32, width, 2 * inner), weights(F32, inner, width))


@module("layers_scanned_cond_local_global_bf16", "transformer",
        {"layers": 4, "batch": 3, "length": 512, "heads": 12, "size": 64, "window": 64, "inner": 1152},
        {"layers": 3, "batch": 2, "length": 6, "heads": 2, "size": 4, "window": 2, "inner": 10}, tolerance=8)
def _(layers, batch, length, heads, size, window, inner):
    """An encoder in a scan: by lax.cond every third layer sees all places, the others a band; padding; GeGLU."""
    width = heads * size

    def run(x, counts, stacked):
        valid = jnp.arange(length)[None] < counts[:, None]
        apart = jnp.abs(jnp.arange(length)[:, None] - jnp.arange(length)[None])

        def attend(base, far, qkv):
            q, k, v = qkv[..., 0, :, :], qkv[..., 1, :, :], qkv[..., 2, :, :]
            near = valid[:, None, None, None, :] & (apart <= far)
            return mixed(rotated(q, size, base), rotated(k, size, base), v, lambda s: jnp.where(near, s, -1e30))

        def layer(x, own):
            i, gain, wqkv, out, up, down = own
            qkv = (layer_norm(x, gain[0], 0 * gain[0]) @ wqkv).reshape(batch, length, 3, heads, size)
            seen = lax.cond(i % 3 == 0, lambda a: attend(1.6e5, length, a), lambda a: attend(1e4, window, a), qkv)
            x = x + seen @ out
            gate, value = jnp.split(layer_norm(x, gain[1], 0 * gain[1]) @ up, 2, -1)
            x = x + (jax.nn.gelu(gate, approximate=False) * value) @ down
            return x, jnp.where(valid[..., None], x, 0).astype(F32).sum(1) / counts[:, None]
        return lax.scan(layer, x, (jnp.arange(layers), *stacked))
    return (run, bf16(batch, length, width), ints(length + 1, batch, low=length // 2),
            (around_one(BF16, layers, 2, width), weights(BF16, layers, width, 3 * width),
             weights(BF16, layers, width, width), weights(BF16, layers, width, 2 * inner),
             weights(BF16, layers, inner, width)))


# Attention.

@module("indexer_chooses_160_keys_bf16", "attention", {"length": 777, "heads": 24, "size": 128, "index_heads": 4,
        "index_size": 32, "kept": 160}, {"length": 9, "heads": 2, "size": 4, "index_heads": 2, "index_size": 4,
        "kept": 3}, tolerance=6, mismatch=1e-2)
def _(length, heads, size, index_heads, index_size, kept):
    """A small scorer with rectified products picks keys of each query; many heads read those rows of one latent."""
    def layer(q, latent, index_q, index_k, weight):
        found = jax.nn.relu(jnp.einsum("qhd,kd->qhk", index_q, index_k, preferred_element_type=F32))
        score = jnp.einsum("qhk,qh->qk", found, weight) * (index_heads * index_size) ** -0.5
        score, at = lax.top_k(jnp.where(causal_mask(length), score, -jnp.inf), kept)
        rows = latent[at]
        scores = jnp.einsum("qhd,qkd->qhk", q, rows, preferred_element_type=F32) * size ** -0.5
        share = jax.nn.softmax(jnp.where((score > -jnp.inf)[:, None], scores, -1e30))
        return jnp.einsum("qhk,qkd->qhd", share.astype(BF16), rows), share.mean(1)
    return (layer, bf16(length, heads, size), bf16(length, size), bf16(length, index_heads, index_size),
            bf16(length, index_size), Arg((length, index_heads), F32, low=0.2, high=1))


@module("block_diffusion_two_copies_grad_bf16", "attention", {"batch": 3, "length": 388, "block": 16, "heads": 24,
        "groups": 8, "size": 64}, {"batch": 1, "length": 6, "block": 2, "heads": 4, "groups": 2, "size": 4},
        tolerance=8)
def _(batch, length, block, heads, groups, size):
    """A noisy and a clean copy of a text in one row: noisy blocks see themselves and the clean blocks before them."""
    def layer(q, k, v):
        def turned(a):
            return jnp.concatenate([rotated(half, size) for half in jnp.split(a, 2, 1)], 1)
        place = jnp.arange(2 * length)
        clean, at = place >= length, place % length // block
        same = (clean[:, None] == clean) & (at[:, None] == at)
        before = clean[None] & (at[:, None] > at)
        seen = same | before
        return mixed(turned(q), turned(k), v, lambda scores: jnp.where(seen, scores, -jnp.inf))
    q, k = (bf16(batch, 2 * length, n, size) for n in (heads, groups))
    return backward(layer), bf16(batch, 2 * length, heads * size), q, k, k


@module("scores_convolved_multi_token_grad_f32", "attention", {"batch": 2, "length": 257, "heads": 8, "size": 48,
        "taps": (6, 11)}, {"batch": 1, "length": 6, "heads": 2, "size": 4, "taps": (2, 3)}, tolerance=4)
def _(batch, length, heads, size, taps):
    """Scores pass a small convolution over queries and keys before the softmax, pairs of heads mix after it."""
    def layer(q, k, v, kernel, mix, gain):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * size ** -0.5
        scores = jnp.where(causal_mask(length), scores, 0)
        scores = lax.conv_general_dilated(scores, kernel, (1, 1), ((taps[0] - 1, 0), (taps[1] // 2, taps[1] // 2)),
                                          dimension_numbers=("NCHW", "OIHW", "NCHW"), feature_group_count=heads)
        share = jax.nn.softmax(jnp.where(causal_mask(length), scores, -1e30))
        share = jnp.einsum("bghqk,ghi->bgiqk", share.reshape(batch, heads // 2, 2, length, length), mix)
        out = jnp.einsum("bhqk,bkhd->bqhd", share.reshape(batch, heads, length, length), v)
        return rms_norm(out, gain)
    x = f32(batch, length, heads, size)
    return (backward(layer), x, x, x, x, f32(heads, 1, *taps, scale=0.3), f32(heads // 2, 2, 2),
            around_one(F32, size))


# Norms.

@module("batch_norm_nchw_running_add_relu_grad_bf16", "norms", {"images": 32, "channels": 256, "size": 28},
        {"images": 3, "channels": 5, "size": 4}, tolerance=4)
def _(images, channels, size):
    """Channels first by the batch's moments, a residual and a ReLU; gradients, and running moments moved along."""
    def norm(x, residual, gain, bias, running):
        wide = x.astype(F32)
        mean, variance = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
        scale = gain * lax.rsqrt(variance + 1e-5)
        y = wide * scale[:, None, None] + (bias - mean * scale)[:, None, None]
        unbiased = variance * (images * size * size / (images * size * size - 1))
        moved = running + 0.1 * (lax.stop_gradient(jnp.stack([mean, unbiased])) - running)
        return jax.nn.relu(y.astype(BF16) + residual), moved

    def run(g, x, residual, gain, bias, running):
        y, pull, moved = jax.vjp(lambda *p: norm(*p, running), x, residual, gain, bias, has_aux=True)
        return (*pull(g), moved, (y > 0).mean((0, 2, 3), dtype=F32))
    x = bf16(images, channels, size, size)
    return run, x, x, x, around_one(F32, channels), f32(channels), Arg((2, channels), F32, low=0.5, high=1.5)


@module("rms_channels_first_video_causal_pad_grad_bf16", "norms", {"shape": (1, 96, 9, 60, 104)},
        {"shape": (2, 5, 3, 4, 3)}, tolerance=3)
def _(shape):
    """A video decoder's: root mean squares over axis 1, SiLU, the first frame twice before, edges padded; gradients."""
    def norm(x, gain):
        wide = x.astype(F32)
        size = jnp.sqrt(jnp.square(wide).sum(1, keepdims=True))
        y = jax.nn.silu((wide / jnp.maximum(size, 1e-12)).astype(BF16) * gain * shape[1] ** 0.5)
        y = jnp.concatenate([y[:, :, :1], y[:, :, :1], y], 2)
        return jnp.pad(y, ((0, 0), (0, 0), (0, 0), (1, 1), (1, 1)))
    padded = (*shape[:2], shape[2] + 2, shape[3] + 2, shape[4] + 2)
    return backward(norm), bf16(*padded), bf16(*shape), around_one(BF16, shape[1], 1, 1, 1)


# Losses.

@module("reverse_kl_on_policy_50257_grad_bf16", "losses", {"batch": 3, "length": 111, "classes": 50257},
        {"batch": 2, "length": 4, "classes": 21}, tolerance=4)
def _(batch, length, classes):
    """A student's own tokens judged by a teacher: reverse divergence over all words, masked after the end token."""
    def loss(student, teacher, tokens):
        mine = jax.nn.log_softmax(student.astype(F32))
        theirs = jax.nn.log_softmax(teacher.astype(F32) / 0.9)
        ended = lax.cummax((tokens % 77 == 3).astype(I32), 1)
        mask = jnp.concatenate([jnp.ones((batch, 1), I32), 1 - ended[:, :-1]], 1).astype(F32)
        each = (jnp.exp(mine) * (mine - theirs)).sum(-1)
        taken = [jnp.take_along_axis(a, tokens[..., None], -1)[..., 0] for a in (mine, theirs)]
        entropy = -(jnp.exp(mine) * mine).sum(-1)
        return (each * mask).sum() / mask.sum(), (taken[0] - taken[1], entropy * mask)
    x = bf16(batch, length, classes, scale=2)
    return jax.value_and_grad(loss, has_aux=True), x, x, ints(classes, batch, length)


@module("cox_risk_sets_strata_grad_f32", "losses", {"strata": 5, "people": 4001, "width": 96, "inner": 72},
        {"strata": 2, "people": 11, "width": 4, "inner": 3}, tolerance=4)
def _(strata, people, width, inner):
    """Survival: people sorted by time downwards in each stratum, log-sum-exps of all that live still, ties as one."""
    def loss(p, x, days, died):
        def one(x, days, died):
            risk = (jax.nn.tanh(x @ p["w"] + p["b"]) @ p["out"])
            order = jnp.argsort(-days)
            risk, days, died = risk[order], days[order], died[order].astype(F32)
            alive = lax.cumlogsumexp(risk)
            last = jnp.searchsorted(-days, -days, side="right") - 1
            return (died * (alive[last] - risk)).sum(), died.sum()
        total, count = jax.vmap(one)(x, days, died)
        return total.sum() / count.sum() + 1e-3 * sum(jnp.square(a).sum() for a in jax.tree.leaves(p))
    p = {"w": weights(F32, width, inner), "b": f32(inner), "out": f32(inner, scale=inner ** -0.5)}
    return (jax.value_and_grad(loss), p, f32(strata, people, width), ints(900, strata, people),
            ints(2, strata, people))


@module("momentum_queue_65536_grad_f32", "losses", {"batch": 256, "width": 128, "queue": 65536},
        {"batch": 3, "width": 4, "queue": 12}, tolerance=4, mismatch=2e-2, donated={2: 2})
def _(batch, width, queue):
    """Queries against keys of now and a long queue of old ones, columns of which the new keys replace; gradients."""
    def run(q, k, old, at):
        def unit(a):
            return a * lax.rsqrt(jnp.square(a).sum(-1, keepdims=True) + 1e-12)
        k = lax.stop_gradient(unit(k))

        def loss(q):
            q = unit(q)
            logits = jnp.concatenate([(q * k).sum(-1, keepdims=True), q @ old], 1) / 0.2
            rank = (logits[:, 1:] > logits[:, :1]).sum(-1)
            return -jax.nn.log_softmax(logits)[:, 0].mean(), rank
        (value, rank), grad = jax.value_and_grad(loss, has_aux=True)(q)
        return value, grad, lax.dynamic_update_slice(old, k.T, (0, at * batch)), rank
    return (run, f32(batch, width), f32(batch, width), f32(width, queue, scale=width ** -0.5),
            Arg((), I32, low=0, high=queue // batch))


# Convolutions.

def conv(x, kernel, stride=1, padding="SAME", **more):
    return lax.conv_general_dilated(x, kernel, (stride,) * (x.ndim - 2), padding, dimension_numbers=(
        ("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NWC", "WIO", "NWC")), **more)


@module("small_net_whole_loss_grad_bf16", "convolutions", {"images": 65, "size": 32, "widths": (33, 66, 132),
        "classes": 100}, {"images": 3, "size": 8, "widths": (3, 4, 5), "classes": 5}, tolerance=10)
def _(images, size, widths, classes):
    """A whole classifier from bytes to a loss: three stages with norms, pools and a residual pair each; gradients."""
    def unit(x, p):
        x = conv(x, p["kernel"].astype(BF16)).astype(F32)
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return jax.nn.celu(((x - mean) * lax.rsqrt(variance + 1e-5) * p["gain"] + p["bias"]).astype(BF16), 0.3)

    def loss(p, pictures, labels):
        x = (pictures.astype(F32) / 127.5 - 1).astype(BF16)
        for stage in p["stages"]:
            x = unit(x, stage[0])
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            x = x + unit(unit(x, stage[1]), stage[2])
        logits = x.astype(F32).max((1, 2)) @ p["head"] * 0.125
        wanted = jax.nn.one_hot(labels, classes) * 0.8 + 0.2 / classes
        return -(wanted * jax.nn.log_softmax(logits)).sum(-1).mean(), (logits.argmax(-1), jnp.square(logits).mean(0))

    def of(inputs, outputs):
        return {"kernel": f32(3, 3, inputs, outputs, scale=(9 * inputs) ** -0.5), "gain": around_one(F32, outputs),
                "bias": f32(outputs, scale=0.1)}
    stages = [[of(i, o), of(o, o), of(o, o)] for i, o in zip((3, *widths), widths)]
    return (jax.value_and_grad(loss, has_aux=True), {"stages": stages, "head": weights(F32, widths[-1], classes)},
            ints(256, images, size, size, 3, dtype=U8), ints(classes, images))


@module("position_conv_128_taps_normed_grad_bf16", "convolutions", {"batch": 3, "length": 499, "width": 768,
        "groups": 16, "taps": 128}, {"batch": 2, "length": 7, "width": 6, "groups": 2, "taps": 4}, tolerance=6)
def _(batch, length, width, groups, taps):
    """Speech encoders' positions: a grouped filter as long as two seconds, its weight normed by tap; masked frames."""
    def layer(x, v, gain, bias, token, masks):
        x = jnp.where((masks > 0)[..., None], token, x)
        kernel = v * (gain * lax.rsqrt(jnp.square(v).sum((1, 2), keepdims=True)))
        h = conv(x, kernel.astype(BF16), padding=[(taps // 2, taps // 2)], feature_group_count=groups)[:, :-1]
        return layer_norm(x + jax.nn.gelu(h + bias), jnp.ones(width), jnp.zeros(width))

    def run(g, x, v, gain, bias, token, masks):
        return jax.vjp(lambda *p: layer(*p, masks), x, v, gain, bias, token)[1](g)
    x = bf16(batch, length, width)
    return (run, x, x, f32(taps, width // groups, width), around_one(F32, taps, 1, 1), bf16(width), bf16(width),
            ints(2, batch, length))


@module("correlations_looked_up_grad_f32", "convolutions", {"pairs": 2, "size": (46, 62), "width": 128, "levels": 3,
        "reach": 3}, {"pairs": 1, "size": (6, 8), "width": 4, "levels": 2, "reach": 1}, tolerance=4)
def _(pairs, size, width, levels, reach):
    """Optical flow: products of all places of two pictures, pooled thrice, bilinear windows read around a flow."""
    rows, columns = size

    def layer(a, b, flow):
        volume = jnp.einsum("nijc,nklc->nijkl", a, b).reshape(-1, rows, columns) * width ** -0.5
        grid = jnp.stack(jnp.meshgrid(jnp.arange(rows), jnp.arange(columns), indexing="ij"), -1)
        centre = (flow + grid).reshape(-1, 2)
        steps = jnp.arange(-reach, reach + 1)
        around = jnp.stack(jnp.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2)

        def read(field, at):
            low = jnp.floor(at)
            share, low, total = at - low, low.astype(I32), 0
            for dy in (0, 1):
                for dx in (0, 1):
                    y, x = low[:, 0] + dy, low[:, 1] + dx
                    inside = (y >= 0) & (y < field.shape[0]) & (x >= 0) & (x < field.shape[1])
                    weight = jnp.abs(1 - dy - share[:, 0]) * jnp.abs(1 - dx - share[:, 1])
                    total = total + jnp.where(inside, weight, 0) * field.at[y, x].get(mode="clip")
            return total
        found = []
        for i in range(levels):
            found.append(jax.vmap(lambda f, c: read(f, c / 2 ** i + around))(volume, centre))
            volume = lax.reduce_window(volume, 0., lax.add, (1, 2, 2), (1, 2, 2), "VALID") / 4
        return jnp.concatenate(found, -1).reshape(pairs, rows, columns, -1)
    x = f32(pairs, rows, columns, width)
    return (backward(layer), f32(pairs, rows, columns, levels * (2 * reach + 1) ** 2), x, x,
            f32(pairs, rows, columns, 2, scale=3))


# Pools.

@module("picture_pooled_by_mean_query_grad_bf16", "pooling", {"images": 24, "side": 7, "heads": 32, "size": 64,
        "out": 1024}, {"images": 2, "side": 2, "heads": 2, "size": 4, "out": 5}, tolerance=6)
def _(images, side, heads, size, out):
    """The mean of a picture's places before them, learned places, one query of that mean for all heads; gradients."""
    width = heads * size

    def layer(x, places, wq, wk, wv, bias, head):
        x = x.reshape(images, side * side, width)
        x = jnp.concatenate([x.mean(1, keepdims=True), x], 1) + places
        q = (x[:, 0] @ wq + bias[0]).reshape(images, heads, size) * size ** -0.5
        k, v = ((x @ w + b).reshape(images, -1, heads, size) for w, b in ((wk, bias[1]), (wv, bias[2])))
        share = jax.nn.softmax(jnp.einsum("nhd,nkhd->nhk", q, k, preferred_element_type=F32)).astype(BF16)
        return jnp.einsum("nhk,nkhd->nhd", share, v).reshape(images, width) @ head
    square = weights(BF16, width, width)
    return (backward(layer), bf16(images, out), bf16(images, side, side, width),
            bf16(side * side + 1, width, scale=0.2), square, square, square, bf16(3, width, scale=0.1),
            weights(BF16, width, out))


@module("gated_max_and_mean_pool_grad_f32", "pooling", {"images": 9, "size": (55, 57), "channels": 65},
        {"images": 2, "size": (5, 6), "channels": 3}, tolerance=3)
def _(images, size, channels):
    """Maxima and counted means of 3 x 3 windows by a gate that a depthwise filter makes of each window; gradients."""
    def layer(x, kernel, bias):
        window, stride = (1, 3, 3, 1), (1, 2, 2, 1)
        most = lax.reduce_window(x, -jnp.inf, lax.max, window, stride, "SAME")
        total, count = (lax.reduce_window(a, 0., lax.add, window, stride, "SAME") for a in (x, jnp.ones_like(x[:1])))
        gate = jax.nn.sigmoid(conv(x, kernel, 2, feature_group_count=channels) + bias)
        return gate * most + (1 - gate) * total / count
    x = f32(images, *size, channels)
    return (backward(layer), f32(images, *((n + 1) // 2 for n in size), channels), x,
            f32(3, 3, 1, channels, scale=1 / 3), f32(channels))


# Quantised products.

@module("super_blocks_of_256_nibbles_b5_bf16", "quantised", {"rows": 5, "inner": 4096, "columns": 3072},
        {"rows": 2, "inner": 512, "columns": 6}, tolerance=4)
def _(rows, inner, columns):
    """Nibbles in super-blocks: eight scales and minima of six bits in twelve bytes, two halves above them."""
    blocks = inner // 256

    def run(x, nibbles, packed, halves):
        low, high, rest = packed[..., :4], packed[..., 4:8], packed[..., 8:]
        scale = jnp.concatenate([low & 63, (rest & 15) | (low >> 6) << 4], -1)
        least = jnp.concatenate([high & 63, (rest >> 4) | (high >> 6) << 4], -1)
        scale, least = (a.astype(F32) * h.astype(F32)[..., None] for a, h in ((scale, halves[0]), (least, halves[1])))
        quants = jnp.stack([nibbles & 15, nibbles >> 4], -2).reshape(columns, blocks, 8, 32).astype(F32)
        w = (quants * scale[..., None] - least[..., None]).astype(BF16).reshape(columns, inner)
        return jnp.einsum("ri,ci->rc", x, w, preferred_element_type=F32).astype(BF16)
    return (run, bf16(rows, inner), ints(256, columns, blocks, 4, 32, dtype=U8), ints(256, columns, blocks, 12,
            dtype=U8), Arg((2, columns, blocks), F16, low=1e-4, high=1e-3))


@module("learned_steps_int4_int8_grad_f32", "quantised", {"rows": 900, "inputs": 1280, "outputs": 1000},
        {"rows": 4, "inputs": 6, "outputs": 5}, tolerance=4, mismatch=2e-3)
def _(rows, inputs, outputs):
    """Training with steps of four and eight bits that have gradients of their own, by a custom rule; gradients."""
    @jax.custom_vjp
    def quantised(x, step, low, high):
        return jnp.round(jnp.clip(x / step, low, high)) * step

    def forward(x, step, low, high):
        return quantised(x, step, low, high), (x / step, low, high, step)

    def pull(kept, g):
        ratio, low, high, step = kept
        inside = (ratio > low) & (ratio < high)
        each = jnp.where(inside, jnp.round(ratio) - ratio, jnp.clip(ratio, low, high)) * g
        axes = tuple(i for i, n in enumerate(step.shape) if n == 1)
        share = (ratio.size / step.size * high) ** -0.5
        return jnp.where(inside, g, 0), each.sum(axes, keepdims=True) * share, None, None
    quantised.defvjp(forward, pull)

    def layer(x, w, step_x, step_w, bias):
        y = quantised(x, step_x, -128.0, 127.0) @ quantised(w, step_w, -8.0, 7.0) + bias
        return jax.nn.hard_swish(y)
    return (backward(layer), f32(rows, outputs), f32(rows, inputs), weights(F32, inputs, outputs),
            Arg((1, 1), F32, low=0.02, high=0.03), Arg((1, outputs), F32, low=0.1 * inputs ** -0.5,
            high=0.4 * inputs ** -0.5), f32(outputs))


@module("fp8_rows_both_ways_2048_grad_bf16", "quantised", {"rows": 2048, "width": 2048, "inner": 4096},
        {"rows": 6, "width": 8, "inner": 10}, tolerance=8)
def _(rows, width, inner):
    """A gated layer whose products take FP8 with scales of rows and columns, the gradients' too, by a custom rule."""
    def narrow(a, axis):
        scale = jnp.maximum(jnp.abs(a).max(axis, keepdims=True).astype(F32), 1e-12) / 448
        return (a / scale).astype(F8), scale

    def multiplied(a, b):
        (a, scale_a), (b, scale_b) = narrow(a, 1), narrow(b, 0)
        return (lax.dot(a, b, preferred_element_type=F32) * scale_a * scale_b).astype(BF16)

    @jax.custom_vjp
    def product(x, w):
        return multiplied(x, w)
    product.defvjp(lambda x, w: (multiplied(x, w), (x, w)),
                   lambda kept, g: (multiplied(g, kept[1].T), multiplied(kept[0].T, g)))

    def layer(x, gain, up, down):
        gate, value = jnp.split(product(rms_norm(x, gain), up), 2, -1)
        return x + product(jax.nn.silu(gate) * value, down)
    x = bf16(rows, width)
    return (backward(layer), x, x, around_one(BF16, width), weights(BF16, width, 2 * inner),
            weights(BF16, inner, width))


# Linear algebra of small matrices.

@module("clouds_aligned_by_quaternions_jacobi_f32", "linear algebra", {"clouds": 5003, "points": 33, "sweeps": 5},
        {"clouds": 3, "points": 5, "sweeps": 5}, tolerance=10)
def _(clouds, points, sweeps):
    """Best rotations of weighted clouds: eigenvectors of four by four by Jacobi's sweeps; what distances are left."""
    pairs = jnp.array([(0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)])

    def one(a, noise, weight, turn):
        turn = turn * lax.rsqrt(jnp.square(turn).sum() + 1e-9)

        def matrix(q):
            s, v, one = q[0], q[1:], jnp.eye(3)
            return (2 * s * s - 1) * one + 2 * jnp.outer(v, v) + 2 * s * jnp.cross(one, v)
        b = a @ matrix(turn).T + 0.05 * noise
        weight = weight / weight.sum()
        a, b = a - weight @ a, b - weight @ b
        m = jnp.einsum("p,pi,pj->ij", weight, a, b)
        side = jnp.stack([m[1, 2] - m[2, 1], m[2, 0] - m[0, 2], m[0, 1] - m[1, 0]])
        lower = jnp.concatenate([side[:, None], m + m.T - jnp.trace(m) * jnp.eye(3)], 1)
        whole = jnp.concatenate([jnp.concatenate([jnp.trace(m)[None], side])[None], lower])

        def rotate(i, given):
            s, vectors = given
            p, q = pairs[i % 6, 0], pairs[i % 6, 1]
            angle = 0.5 * jnp.arctan2(2 * s[p, q], s[q, q] - s[p, p])
            c, z = jnp.cos(angle), jnp.sin(angle)
            g = jnp.eye(4).at[p, p].set(c).at[q, q].set(c).at[p, q].set(z).at[q, p].set(-z)
            return g.T @ s @ g, vectors @ g
        s, vectors = lax.fori_loop(0, 6 * sweeps, rotate, (whole, jnp.eye(4)))
        values = jnp.diagonal(s)
        found = matrix(vectors[:, values.argmax()])
        away = b - a @ found.T
        return found, jnp.sqrt((weight * jnp.square(away).sum(-1)).sum()), jnp.sort(values)
    x = f32(clouds, points, 3)
    return jax.vmap(one), x, x, Arg((clouds, points), F32, low=0.2, high=1), f32(clouds, 4)


@module("cameras_and_points_eliminated_f32", "linear algebra", {"cameras": 65, "points": 2003, "seen": 6},
        {"cameras": 3, "points": 7, "seen": 2}, tolerance=8)
def _(cameras, points, seen):
    """A step of bundle adjustment: points of three eliminated by adjugates, six by six of cameras by Gauss."""
    def inverse_3x3(a):
        rows = [jnp.cross(a[..., (i + 1) % 3, :], a[..., (i + 2) % 3, :]) for i in range(3)]
        return jnp.stack(rows, -1) / (a[..., 0, :] * rows[0]).sum(-1)[..., None, None]

    def solve(a, b):
        both = jnp.concatenate([a, b[:, None]], 1)
        for j in range(6):
            row = both[j] / both[j, j]
            both = (both - jnp.outer(both[:, j], row)).at[j].set(row)
        return both[:, -1]

    def run(of_camera, of_point, residual, camera, damping):
        robust = 1 / (1 + jnp.square(residual).sum(-1))
        weighted = of_camera * robust[..., None, None]
        flat = camera.reshape(-1)
        u = jnp.einsum("psri,psrj->psij", weighted, of_camera).reshape(-1, 6, 6)
        u = jnp.zeros((cameras, 6, 6)).at[flat].add(u) + damping * jnp.eye(6)
        v = jnp.einsum("psri,psrj,ps->pij", of_point, of_point, robust) + damping * jnp.eye(3)
        w = jnp.einsum("psri,psrj->psij", weighted, of_point)
        g_camera = jnp.zeros((cameras, 6)).at[flat].add(jnp.einsum("psri,psr->psi", weighted, residual).reshape(-1, 6))
        g_point = jnp.einsum("psri,psr,ps->pi", of_point, residual, robust)
        v_inverse = inverse_3x3(v)
        y = jnp.einsum("psij,pjk->psik", w, v_inverse)
        reduced = u.at[flat].add(-jnp.einsum("psik,psjk->psij", y, w).reshape(-1, 6, 6))
        right = g_camera.at[flat].add(-jnp.einsum("psik,pk->psi", y, g_point).reshape(-1, 6))
        moved = jax.vmap(solve)(reduced, right)
        points_moved = jnp.einsum("pij,pj->pi", v_inverse, g_point - jnp.einsum("psij,psi->pj", w, moved[camera]))
        return moved, points_moved, reduced
    return (run, f32(points, seen, 2, 6), f32(points, seen, 2, 3), f32(points, seen, 2), ints(cameras, points, seen),
            Arg((), F32, low=1, high=2))
