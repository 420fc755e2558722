"""More modules of modules.py, by a sixth author who had not read the compiler: ways of writing that others had not
used, at odd sizes."""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, I32, Arg, around_one, backward, bf16, f32, ints, key, key_of, layer_norm,
                             module, rms_norm, weights)

F16, U8, U32 = jnp.float16, jnp.uint8, jnp.uint32


def f16(*shape, scale=1.0):
    return Arg(shape, F16, scale)


# Transformers.

@module("heads_first_einsums_grad_f32", "transformer",
        {"batch": 3, "length": 333, "width": 777, "heads": 7, "size": 72, "inner": 2222},
        {"batch": 2, "length": 7, "width": 12, "heads": 3, "size": 4, "inner": 20}, tolerance=2)
def _(batch, length, width, heads, size, inner):
    """Weights of (heads, size, width), keys transposed by the product that makes them, exact GELU."""
    def block(x, n1, qkv, o, n2, up, down):
        q, k, v = jnp.einsum("bld,chkd->chblk", x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * n1, qkv)
        s = jnp.einsum("hbqk,hblk->hbql", q, k) * size ** -0.5
        s = jnp.where(jnp.arange(length)[:, None] < jnp.arange(length), -1e9, s)
        x = x + jnp.einsum("hbql,hblk,hkd->bqd", jax.nn.softmax(s, -1), v, o)
        y = jax.nn.standardize(x, -1) * n2
        return x + jnp.einsum("dn,bln->bld", down, jax.nn.gelu(jnp.einsum("nd,bld->bln", up, y), approximate=False))
    x = f32(batch, length, width)
    return (backward(block), x, x, around_one(F32, width), f32(3, heads, size, width, scale=width ** -0.5),
            f32(heads, size, width, scale=(heads * size) ** -0.5), around_one(F32, width),
            f32(inner, width, scale=width ** -0.5), f32(width, inner, scale=inner ** -0.5))


@module("layers_scanned_remat_grad_bf16", "transformer",
        {"layers": 3, "batch": 2, "length": 777, "width": 960, "heads": 15, "kv": 5, "inner": 2560},
        {"layers": 2, "batch": 2, "length": 6, "width": 24, "heads": 6, "kv": 2, "inner": 20}, tolerance=3)
def _(layers, batch, length, width, heads, kv, inner):
    """SmolLM's sizes: stacked layers in a scan with checkpoints, rotary by roll, keys repeated."""
    size = width // heads

    def turn(x):
        angle = jnp.arange(length)[:, None] * 10000.0 ** (-(jnp.arange(size) % (size // 2)) / (size // 2))
        sign = jnp.where(jnp.arange(size) < size // 2, -1, 1)
        wide = x.astype(F32)
        turned = jnp.roll(wide, size // 2, -1) * sign
        return (wide * jnp.cos(angle)[:, None] + turned * jnp.sin(angle)[:, None]).astype(x.dtype)

    def layer(x, p):
        n1, wq, wkv, wo, n2, gate_up, down = p
        y = rms_norm(x, n1)
        q = turn((y @ wq).reshape(batch, length, heads, size))
        k, v = jnp.split((y @ wkv).reshape(batch, length, 2 * kv, size), 2, 2)
        k, v = jnp.repeat(turn(k), heads // kv, 2), jnp.repeat(v, heads // kv, 2)
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=F32) * size ** -0.5
        s = jnp.where(jnp.tril(jnp.ones((length, length), bool)), s, -jnp.inf)
        a = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1).astype(BF16), v)
        x = x + a.reshape(batch, length, width) @ wo
        g, u = jnp.split(rms_norm(x, n2) @ gate_up, 2, -1)
        return x + (jax.nn.silu(g) * u) @ down

    def net(x, *p):
        return lax.scan(lambda x, p: (jax.checkpoint(layer)(x, p), None), x, p)[0]
    x = bf16(batch, length, width)
    return (backward(net), x, x, around_one(BF16, layers, width), weights(BF16, layers, width, width),
            weights(BF16, layers, width, 2 * kv * size), weights(BF16, layers, width, width),
            around_one(BF16, layers, width), weights(BF16, layers, width, 2 * inner),
            weights(BF16, layers, inner, width))


@module("hyper_connections_mlp_bf16", "transformer", {"rows": 3001, "streams": 4, "width": 1000, "inner": 2800},
        {"rows": 5, "streams": 3, "width": 12, "inner": 20}, tolerance=2)
def _(rows, streams, width, inner):
    """Dynamic mixing of residual streams: tanh of small products, Sinkhorn on each row's own matrix."""
    def run(h, norm, to_mix, to_in, to_out, base, up, down):
        y = rms_norm(h, norm)
        mix = base + 0.1 * jnp.tanh(jnp.einsum("rsd,dt->rst", y, to_mix, preferred_element_type=F32))
        mix = jnp.exp(mix)
        for _ in range(3):
            mix = mix / mix.sum(-1, keepdims=True)
            mix = mix / mix.sum(-2, keepdims=True)
        take = jax.nn.sigmoid(jnp.einsum("rsd,d->rs", y, to_in, preferred_element_type=F32))
        give = 2 * jax.nn.sigmoid(jnp.einsum("rsd,d->rs", y, to_out, preferred_element_type=F32))
        one = jnp.einsum("rs,rsd->rd", take, h.astype(F32)).astype(BF16)
        out = jnp.square(jax.nn.relu(one @ up)) @ down
        return (jnp.einsum("rst,rsd->rtd", mix, h.astype(F32)) + give[..., None] * out[:, None]).astype(BF16)
    return (run, bf16(rows, streams, width), around_one(BF16, width), weights(BF16, width, streams),
            bf16(width, scale=width ** -0.5), bf16(width, scale=width ** -0.5), f32(streams, streams),
            weights(BF16, width, inner), weights(BF16, inner, width))


@module("token_shift_channel_mix_grad_f16", "transformer", {"batch": 5, "length": 500, "width": 896, "inner": 3136},
        {"batch": 2, "length": 6, "width": 8, "inner": 20}, tolerance=3)
def _(batch, length, width, inner):
    """RWKV's channel mixing: the token before by pad with a negative end, squared ReLU, a receptance."""
    def run(x, scale, bias, mu_k, mu_r, key_w, receive, value):
        y = layer_norm(x, scale, bias)
        before = lax.pad(y, jnp.zeros((), F16), ((0, 0, 0), (1, -1, 0), (0, 0, 0)))
        k = (y + (before - y) * mu_k) @ key_w
        r = (y + (before - y) * mu_r) @ receive
        return x + jax.nn.sigmoid(r) * (jnp.maximum(k, 0) ** 2 @ value)
    x = f16(batch, length, width)
    part = Arg((width,), F16, low=0, high=1)
    return (backward(run), x, x, around_one(F16, width), f16(width, scale=0.1), part, part,
            weights(F16, width, inner), weights(F16, width, width), weights(F16, inner, width))


# Decoding.

@module("decode_left_padded_b13_bf16", "decode",
        {"batch": 13, "width": 1280, "heads": 20, "kv": 5, "cache": 1500, "inner": 3456},
        {"batch": 3, "width": 24, "heads": 6, "kv": 2, "cache": 9, "inner": 20}, tolerance=2)
def _(batch, width, heads, kv, cache, inner):
    """Positions by a cumulative sum of the mask, rows of the caches written by a vmapped update, fused products."""
    size = width // heads

    def run(x, k, v, mask, at, norm, fused, out, norm2, up, down):
        mask = (mask > 0).at[jnp.arange(batch), at].set(True)
        position = jnp.take_along_axis(jnp.cumsum(mask, -1) - 1, at[:, None], 1)
        q, one_k, one_v = jnp.split(rms_norm(x, norm) @ fused, [width, width + kv * size], -1)

        def turn(y):
            y = y.reshape(batch, -1, size // 2, 2).astype(F32)
            angle = position[..., None] * 500000.0 ** (-jnp.arange(size // 2) / (size // 2))
            c, s = jnp.cos(angle), jnp.sin(angle)
            return jnp.stack([y[..., 0] * c - y[..., 1] * s, y[..., 0] * s + y[..., 1] * c], -1) \
                .reshape(batch, -1, size).astype(BF16)
        put = jax.vmap(lambda c, new, i: lax.dynamic_update_slice(c, new[:, None], (0, i, 0)))
        k, v = put(k, turn(one_k), at), put(v, one_v.reshape(batch, kv, size), at)
        q = turn(q).reshape(batch, kv, heads // kv, size)
        s = jnp.einsum("bkgd,bkld->bkgl", q, k, preferred_element_type=F32) * size ** -0.5
        s = jnp.where(mask[:, None, None], s, jnp.finfo(F32).min)
        a = jnp.einsum("bkgl,bkld->bkgd", jax.nn.softmax(s).astype(BF16), v)
        x = x + a.reshape(batch, width) @ out
        gate, value = jnp.split(rms_norm(x, norm2) @ up, 2, -1)
        return x + (jax.nn.gelu(gate) * value) @ down, k, v
    c = bf16(batch, kv, cache, size)
    return (run, bf16(batch, width), c, c, ints(3, batch, cache), ints(cache, batch), around_one(BF16, width),
            weights(BF16, width, width + 2 * kv * size), weights(BF16, width, width), around_one(BF16, width),
            weights(BF16, width, 2 * inner), weights(BF16, inner, width))


@module("decode_quest_pages_b3_bf16", "decode",
        {"batch": 3, "heads": 12, "size": 96, "pages": 333, "page": 24, "kept": 33},
        {"batch": 2, "heads": 2, "size": 4, "pages": 7, "page": 3, "kept": 3}, tolerance=2, mismatch=0.02)
def _(batch, heads, size, pages, page, kept):
    """Pages by bounds from their keys' extremes, the best by top_k, take_along_axis, attention among those alone."""
    def run(q, k, v, low, high):
        wide = q.astype(F32)[:, :, None]
        bound = jnp.maximum(wide * low.astype(F32), wide * high.astype(F32)).sum(-1)
        _, best = lax.top_k(bound, kept)
        k, v = (jnp.take_along_axis(a, best[..., None, None], 2).reshape(batch, heads, kept * page, size)
                for a in (k, v))
        s = jnp.einsum("bhd,bhld->bhl", q, k, preferred_element_type=F32) * size ** -0.5
        return jnp.einsum("bhl,bhld->bhd", jax.nn.softmax(s, -1).astype(BF16), v), best
    c = bf16(batch, heads, pages, page, size)
    return (run, bf16(batch, heads, size), c, c, Arg((batch, heads, pages, size), BF16, low=-3, high=-1),
            Arg((batch, heads, pages, size), BF16, low=1, high=3))


@module("decode_layers_scanned_caches_b6_f32", "decode",
        {"layers": 6, "batch": 6, "width": 512, "heads": 8, "cache": 500, "inner": 1365},
        {"layers": 3, "batch": 2, "width": 12, "heads": 3, "cache": 7, "inner": 10}, tolerance=2)
def _(layers, batch, width, heads, cache, inner):
    """All layers in a fori_loop that reads stacked weights and writes stacked caches by dynamic slices."""
    size = width // heads

    def run(x, keys, values, position, qkv, out, up, down):
        def layer(i, state):
            x, keys, values = state
            take = functools.partial(lax.dynamic_index_in_dim, index=i, axis=0, keepdims=False)
            y = jax.nn.standardize(x) @ take(qkv)
            q, k, v = (part.reshape(batch, heads, size) for part in jnp.split(y, 3, -1))
            keys = lax.dynamic_update_slice(keys, k[None, :, None], (i, 0, position, 0, 0))
            values = lax.dynamic_update_slice(values, v[None, :, None], (i, 0, position, 0, 0))
            s = jnp.einsum("bhd,blhd->bhl", q, take(keys)) / size ** 0.5
            s = s + jnp.where(jnp.arange(cache) > position, -1e10, 0.0)
            x = x + jnp.einsum("bhl,blhd->bhd", jax.nn.softmax(s), take(values)).reshape(batch, width) @ take(out)
            return x + jax.nn.gelu(jax.nn.standardize(x) @ take(up)) @ take(down), keys, values
        return lax.fori_loop(0, layers, layer, (x, keys, values))
    c = f32(layers, batch, cache, heads, size)
    return (run, f32(batch, width), c, c, Arg((), I32, low=cache // 2, high=cache), weights(F32, layers, width, 3 * width),
            weights(F32, layers, width, width), weights(F32, layers, width, inner), weights(F32, layers, inner, width))


# Norms.

@module("layer_norm_custom_vjp_1000_bf16", "norms", {"rows": 9999, "width": 1000}, {"rows": 5, "width": 9}, tolerance=3)
def _(rows, width):
    """A custom rule that keeps the normed values, by dot products of rows with ones; two in a row, the middle used
    twice."""
    @jax.custom_vjp
    def norm(x, scale, bias):
        return forward(x, scale, bias)[0]

    def forward(x, scale, bias):
        wide, one = x.astype(F32), jnp.full((width,), 1 / width)
        mean = wide @ one
        inverse = lax.rsqrt((wide * wide) @ one - mean * mean + 1e-5)
        normed = (wide - mean[:, None]) * inverse[:, None]
        return (normed * scale + bias).astype(x.dtype), (normed.astype(BF16), inverse, scale)

    def back(kept, g):
        normed, inverse, scale = kept
        normed, g = normed.astype(F32), g.astype(F32)
        gs = g * scale
        a, b = gs.mean(1, keepdims=True), (gs * normed).mean(1, keepdims=True)
        return ((gs - a - normed * b) * inverse[:, None]).astype(BF16), (g * normed).sum(0), g.sum(0)
    norm.defvjp(forward, back)

    def run(x, s1, b1, s2, b2):
        y = norm(x, s1, b1)
        return norm(jax.nn.silu(y), s2, b2) + y
    x = bf16(rows, width)
    return (backward(run), x, x, around_one(F32, width), f32(width, scale=0.1), around_one(F32, width),
            f32(width, scale=0.1))


@module("evonorm_s0_nchw_grad_f32", "norms", {"images": 6, "channels": 72, "size": 85, "groups": 9},
        {"images": 2, "channels": 6, "size": 5, "groups": 3}, tolerance=2)
def _(images, channels, size, groups):
    def run(x, v, scale, bias):
        split = x.reshape(images, groups, -1)
        deviation = jnp.sqrt(jnp.var(split, -1, ddof=1) + 1e-5)
        deviation = jnp.repeat(deviation, channels // groups, 1)[..., None, None]
        return x * jax.nn.sigmoid(v[:, None, None] * x) / deviation * scale[:, None, None] + bias[:, None, None]
    x = f32(images, channels, size, size)
    return backward(run), x, x, f32(channels), around_one(F32, channels), f32(channels)


@module("cumulative_norm_over_time_grad_f32", "norms", {"batch": 5, "channels": 129, "length": 2999},
        {"batch": 2, "channels": 3, "length": 7}, tolerance=5)
def _(batch, channels, length):
    """Conv-TasNet's causal norm: moments of everything so far by cumulative sums."""
    def run(x, scale, bias):
        count = channels * jnp.arange(1, length + 1)
        mean = jnp.cumsum(x.sum(1), -1) / count
        square = jnp.cumsum((x ** 2).sum(1), -1) / count
        inverse = lax.rsqrt(square - mean ** 2 + 1e-4)
        return (x - mean[:, None]) * inverse[:, None] * scale[:, None] + bias[:, None]
    x = f32(batch, channels, length)
    return backward(run), x, x, around_one(F32, channels), f32(channels)


@module("filter_response_tlu_grad_bf16", "norms", {"images": 10, "size": 57, "channels": 200},
        {"images": 2, "size": 5, "channels": 3}, tolerance=3)
def _(images, size, channels):
    """Filter response norm with a learned threshold, moments in f32 by einsum of the array with itself."""
    def run(x, scale, bias, threshold, epsilon):
        nu = jnp.einsum("bhwc,bhwc->bc", x, x, preferred_element_type=F32) / (size * size)
        inverse = lax.rsqrt(nu + jnp.abs(epsilon))[:, None, None]
        return jnp.maximum(x.astype(F32) * inverse * scale + bias, threshold).astype(BF16)
    x = bf16(images, size, size, channels)
    return (backward(run), x, x, around_one(F32, channels), f32(channels, scale=0.1), f32(channels),
            Arg((), F32, low=1e-3, high=1e-2))


# Losses.

@module("ordinal_earth_mover_grad_f32", "losses", {"rows": 20011, "classes": 101}, {"rows": 7, "classes": 5})
def _(rows, classes):
    """Squared differences of cumulative softmaxes, soft targets by a two-hot of a real value."""
    def loss(logits, value):
        at = jnp.clip(value, 0, classes - 1.001)
        target = jax.nn.relu(1 - jnp.abs(at[:, None] - jnp.arange(classes)))
        p = jax.nn.softmax(logits)
        emd = jnp.square(jnp.cumsum(p - target, 1)).sum(1)
        return jnp.mean(emd - 0.1 * (target * jax.nn.log_softmax(logits)).sum(1))
    return jax.value_and_grad(loss), f32(rows, classes), Arg((rows,), F32, low=0, high=classes)


@module("ssim_windows_grad_f32", "losses", {"images": 6, "size": 225, "channels": 3},
        {"images": 2, "size": 17, "channels": 2}, tolerance=4)
def _(images, size, channels):
    """Structural similarity by separable 11-tap depthwise filters on five stacked maps."""
    def loss(x, y):
        g = jnp.exp(-jnp.square(jnp.arange(11) - 5.0) / 4.5)
        g = g / g.sum()

        def blur(z):
            for shape in ((1, 1, 11, 1), (1, 1, 1, 11)):
                w = jnp.broadcast_to(g.reshape(shape), (z.shape[1], *shape[1:]))
                z = lax.conv_general_dilated(z, w, (1, 1), "VALID", feature_group_count=z.shape[1])
            return z
        maps = blur(jnp.concatenate([x, y, x * x, y * y, x * y], 1))
        mx, my, xx, yy, xy = jnp.split(maps, 5, 1)
        vx, vy, c = xx - mx ** 2, yy - my ** 2, xy - mx * my
        s = (2 * mx * my + 1e-4) * (2 * c + 9e-4) / ((mx ** 2 + my ** 2 + 1e-4) * (vx + vy + 9e-4))
        return 1 - s.mean() + 0.1 * jnp.abs(x - y).mean()
    x = Arg((images, channels, size, size), F32, low=0, high=1)
    return jax.value_and_grad(loss), x, x


@module("barlow_twins_columns_grad_bf16", "losses", {"rows": 1000, "width": 777}, {"rows": 9, "width": 7}, tolerance=4)
def _(rows, width):
    def loss(a, b):
        a, b = (((z - z.mean(0)) / (z.std(0) + 1e-3)).astype(BF16) for z in (a.astype(F32), b.astype(F32)))
        c = jnp.einsum("ni,nj->ij", a, b, preferred_element_type=F32) / rows
        eye = jnp.eye(width)
        return (jnp.square(c - eye) * jnp.where(eye > 0, 1, 0.005)).sum()
    return jax.value_and_grad(loss, (0, 1)), bf16(rows, width), bf16(rows, width)


@module("boxes_matched_giou_grad_f32", "losses", {"batch": 9, "anchors": 2100, "truths": 33, "classes": 80},
        {"batch": 2, "anchors": 9, "truths": 3, "classes": 4}, tolerance=2, mismatch=0.01)
def _(batch, anchors, truths, classes):
    """Costs of all pairs, the best truth of each anchor by argmin, gathers, GIoU and a quality focal loss."""
    def giou(p, t):
        low, high = jnp.maximum(p[..., :2], t[..., :2]), jnp.minimum(p[..., 2:], t[..., 2:])
        inside = jnp.prod(jnp.clip(high - low, 0), -1)
        both = jnp.prod(p[..., 2:] - p[..., :2], -1) + jnp.prod(t[..., 2:] - t[..., :2], -1) - inside
        hull = jnp.prod(jnp.maximum(p[..., 2:], t[..., 2:]) - jnp.minimum(p[..., :2], t[..., :2]), -1)
        return inside / both - (hull - both) / hull

    def box(raw):
        centre, half = raw[..., :2], 0.05 + 0.2 * jax.nn.sigmoid(raw[..., 2:])
        return jnp.concatenate([centre - half, centre + half], -1)

    def loss(raw, logits, true_raw, label):
        boxes, true = box(raw), box(true_raw)
        pairs = lax.stop_gradient(giou(boxes[:, :, None], true[:, None]))
        best = jnp.argmin(1 - pairs, -1)
        mine = jnp.take_along_axis(true, best[..., None], 1)
        quality = jnp.clip(lax.stop_gradient(giou(boxes, mine)), 0)
        goal = jax.nn.one_hot(jnp.take_along_axis(label, best, 1), classes) * quality[..., None]
        p = jax.nn.sigmoid(logits)
        bce = jnp.logaddexp(0, logits) - goal * logits
        return (jnp.square(goal - p) * bce).sum() / anchors + (quality * (1 - giou(boxes, mine))).sum() / anchors
    return (jax.value_and_grad(loss, (0, 1)), f32(batch, anchors, 4), f32(batch, anchors, classes),
            f32(batch, truths, 4), ints(classes, batch, truths))


@module("one_hot_head_50257_grad_bf16", "losses", {"rows": 512, "width": 640, "classes": 50257},
        {"rows": 6, "width": 8, "classes": 33}, tolerance=4)
def _(rows, width, classes):
    """A tied head by einsum with (classes, width), a one-hot target, per-token weights, a logit cap."""
    def loss(x, table, labels, weight):
        logits = jnp.einsum("vd,nd->nv", table, x, preferred_element_type=F32)
        logits = 30 * jnp.tanh(logits / 30)
        hot = jax.nn.one_hot(labels, classes, dtype=F32)
        each = -(hot * jax.nn.log_softmax(logits, -1)).sum(-1)
        return (each * weight).sum() / weight.sum()
    return (jax.value_and_grad(loss, (0, 1)), bf16(rows, width), bf16(classes, width, scale=width ** -0.5),
            ints(classes, rows), Arg((rows,), F32, low=0, high=1))


# Optimizers.

def net(type_, scale=1.0, width=777, inner=2100, classes=10007, layers=2):
    return {"table": Arg((classes, width), type_, scale),
            "layers": [{"qkv": Arg((width, 3, width), type_, scale), "up": Arg((inner, width), type_, scale),
                        "down": Arg((width, inner), type_, scale), "bias": Arg((inner,), type_, scale),
                        "norm": Arg((width,), type_, scale)} for _ in range(layers)]}


SMALL_NET = {"width": 7, "inner": 10, "classes": 11, "layers": 2}


@module("adamax_lookahead_cond_f32", "optimizers", {}, SMALL_NET)
def _(**sizes):
    """Adamax over a tree, with slow weights that a conditional moves every fifth step."""
    def run(step, p, slow, g, m, u):
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        u = jax.tree.map(lambda u, g: jnp.maximum(0.999 * u, jnp.abs(g) + 1e-8), u, g)
        rate = 2e-3 / (1 - 0.9 ** (step + 1.0))
        p = jax.tree.map(lambda p, m, u: p - rate * m / u, p, m, u)

        def sync(p, slow):
            slow = jax.tree.map(lambda s, p: s + 0.5 * (p - s), slow, p)
            return slow, slow
        p, slow = lax.cond(step % 5 == 4, sync, lambda p, slow: (p, slow), p, slow)
        return p, slow, m, u
    up = jax.tree.map(lambda a: Arg(a.shape, F32, low=0.1, high=1), net(F32, **sizes), is_leaf=lambda a: isinstance(a, Arg))
    return run, Arg((), I32, low=4, high=5), net(F32, **sizes), net(F32, **sizes), net(F32, **sizes), net(F32, **sizes), up


@module("adabelief_centralised_amsgrad_bf16", "optimizers", {}, SMALL_NET, tolerance=2)
def _(**sizes):
    """Gradients less their means over all but the first axis, beliefs, running maxima, decay of matrices alone."""
    def run(step, p, g, m, s, top):
        def one(p, g, m, s, top):
            g = g.astype(F32)
            if g.ndim > 1:
                g = g - g.mean(tuple(range(1, g.ndim)), keepdims=True)
            m = 0.9 * m + 0.1 * g
            s = 0.999 * s + 0.001 * (g - m) ** 2 + 1e-12
            top = jnp.maximum(top, s)
            mh, sh = m / (1 - 0.9 ** step), top / (1 - 0.999 ** step)
            new = p.astype(F32) * (1 - (1e-3 if p.ndim > 1 else 0)) - 1e-2 * mh / (jnp.sqrt(sh) + 1e-6)
            return new.astype(BF16), m, s, top
        made = jax.tree.map(one, p, g, m, s, top)
        return [jax.tree.map(lambda t, i=i: t[i], made, is_leaf=lambda t: isinstance(t, tuple)) for i in range(4)]
    up = jax.tree.map(lambda a: Arg(a.shape, F32, low=0.1, high=1), net(F32, **sizes), is_leaf=lambda a: isinstance(a, Arg))
    return (run, Arg((), F32, low=10, high=20), net(BF16, **sizes), net(BF16, **sizes), net(F32, **sizes), up, up)


@module("prodigy_distance_f32", "optimizers", {}, SMALL_NET, tolerance=4)
def _(**sizes):
    """The rate from two dot products over the whole tree, by ravel_pytree, then the update."""
    def run(d, numerator, p, p0, g, m, v, s):
        flat = lambda t: jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(t)])  # noqa: E731
        numerator = 0.99 * numerator + d * jnp.vdot(flat(g), flat(p0) - flat(p))
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * d * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * (d * g) ** 2, v, g)
        s = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * d * d * g, s, g)
        total = sum(jnp.abs(leaf).sum() for leaf in jax.tree.leaves(s))
        new = jnp.maximum(d, numerator / total)
        p = jax.tree.map(lambda p, m, v: p - new * m / (jnp.sqrt(v) + new * 1e-8 + 1e-6), p, m, v)
        return new, numerator, p, m, v, s
    up = jax.tree.map(lambda a: Arg(a.shape, F32, low=0.1, high=1), net(F32, **sizes), is_leaf=lambda a: isinstance(a, Arg))
    scalar = Arg((), F32, low=0.1, high=0.2)
    return (run, scalar, scalar, *(net(F32, **sizes) for _ in range(4)), up, net(F32, **sizes))


# Embeddings and segments.

@module("hash_grid_levels_grad_f32", "embeddings", {"points": 20011, "levels": 8, "entries": 19997, "features": 2},
        {"points": 7, "levels": 3, "entries": 31, "features": 2}, tolerance=2)
def _(points, levels, entries, features):
    """Instant NGP: corners by hashes of primes and xor, trilinear weights, gradients to tables."""
    def run(tables, x):
        def level(table, scale):
            low = jnp.floor(x * scale)
            part = x * scale - low
            corner = low.astype(U32)[:, None] + jnp.stack(jnp.meshgrid(*[jnp.arange(2, dtype=U32)] * 3), -1).reshape(8, 3)
            h = corner * jnp.array([1, 2654435761, 805459861], U32)
            h = (h[..., 0] ^ h[..., 1] ^ h[..., 2]) % entries
            near = corner == low.astype(U32)[:, None]
            w = jnp.where(near, 1 - part[:, None], part[:, None]).prod(-1)
            return jnp.einsum("pcf,pc->pf", table[h], w)
        scales = 16 * 1.38 ** jnp.arange(levels)
        return jax.vmap(level)(tables, scales).transpose(1, 0, 2).reshape(points, -1)

    def gradients(g, tables, x):
        return jax.vjp(lambda t: run(t, x), tables)[1](g)[0]
    return (gradients, f32(points, levels * features), f32(levels, entries, features, scale=0.1),
            Arg((points, 3), F32, low=0, high=1))


@module("one_hot_bytes_embedding_grad_bf16", "embeddings", {"batch": 7, "length": 1000, "width": 777, "patch": 4},
        {"batch": 2, "length": 8, "width": 6, "patch": 4}, tolerance=3)
def _(batch, length, width, patch):
    """Bytes as one-hot products, patches joined by a reshape, a projection, sinusoids from integers."""
    def run(table, project, data):
        hot = jax.nn.one_hot(data, 256, dtype=BF16)
        x = jnp.einsum("blv,vd->bld", hot, table).reshape(batch, length // patch, patch * width)
        at = jnp.arange(length // patch)[:, None] * jnp.exp(-jnp.arange(width) / width * 9.2)
        return x @ project + jnp.where(jnp.arange(width) % 2, jnp.cos(at), jnp.sin(at)).astype(BF16)
    return (lambda g, t, p, data: jax.vjp(lambda t, p: run(t, p, data), t, p)[1](g),
            bf16(batch, length // patch, width), bf16(256, width), weights(BF16, patch * width, width),
            ints(256, batch, length, dtype=U8))


@module("gcn_degrees_grad_bf16", "segments", {"nodes": 20011, "edges": 150001, "width": 100, "out": 47},
        {"nodes": 7, "edges": 20, "width": 5, "out": 3}, tolerance=4)
def _(nodes, edges, width, out):
    """Symmetric norm by degrees in and out, self loops, two layers, dropped negative indices."""
    def run(x, w1, w2, source, target):
        degree = jax.ops.segment_sum(jnp.ones(edges), target, nodes) + 1
        scale = lax.rsqrt(degree)

        def spread(h):
            m = h[source] * scale[source][:, None].astype(BF16)
            s = jax.ops.segment_sum(m.astype(F32), target, nodes)
            return ((s + h * scale[:, None]) * scale[:, None]).astype(BF16)
        return spread(jax.nn.relu(spread(x @ w1)) @ w2)

    def gradients(g, x, w1, w2, source, target):
        return jax.vjp(lambda *p: run(*p, source, target), x, w1, w2)[1](g)
    return (gradients, bf16(nodes, out), bf16(nodes, width), weights(BF16, width, width), weights(BF16, width, out),
            ints(nodes, edges), ints(nodes, edges, in_order=True))


@module("jagged_to_padded_pool_f16", "segments", {"rows": 40009, "width": 130, "groups": 333, "longest": 200},
        {"rows": 23, "width": 5, "groups": 4, "longest": 9}, tolerance=2)
def _(rows, width, groups, longest):
    """Offsets to ids by searchsorted, a scatter that drops what is too long, attention pooling, back by a gather."""
    def run(x, ends, query):
        ids = jnp.searchsorted(ends, jnp.arange(rows), side="right")
        start = jnp.concatenate([jnp.zeros(1, I32), ends])[ids]
        at = jnp.arange(rows) - start
        padded = jnp.zeros((groups, longest, width), F16).at[ids, at].set(x, mode="drop")
        valid = jnp.zeros((groups, longest), bool).at[ids, at].set(True, mode="drop")
        s = jnp.where(valid, (padded @ query).astype(F32), -jnp.inf)
        p = jnp.where(valid, jnp.exp(s - jnp.max(s, -1, keepdims=True, initial=-1e4)), 0)
        p = p / jnp.maximum(p.sum(-1, keepdims=True), 1e-6)
        pooled = jnp.einsum("gl,gld->gd", p, padded.astype(F32))
        return pooled, x - pooled[jnp.minimum(ids, groups - 1)].astype(F16)
    return run, f16(rows, width), ints(rows, groups, low=1, in_order=True), f16(width, scale=width ** -0.5)


# Scans.

@module("segmented_scan_flags_f32", "scans", {"length": 30011, "width": 65}, {"length": 17, "width": 3}, tolerance=2)
def _(length, width):
    """Sums and maxima that start again at flags, by one associative scan of triples, in reverse too."""
    def run(x, flag):
        flag = flag == 0

        def join(a, b):
            keep = b[0][:, None]
            return (a[0] | b[0], jnp.where(keep, b[1], a[1] + b[1]), jnp.where(keep, b[2], jnp.maximum(a[2], b[2])))
        _, total, top = lax.associative_scan(join, (flag, x, x))
        left = lax.associative_scan(join, (flag, x, x), reverse=True)[1]
        return total, top, left
    return run, f32(length, width), ints(40, length)


@module("online_softmax_scan_grad_f32", "scans", {"batch": 6, "length": 500, "heads": 5, "size": 33},
        {"batch": 2, "length": 7, "heads": 2, "size": 3}, tolerance=4)
def _(batch, length, heads, size):
    """Aaren: attention of one query with all prefixes as an associative scan of (max, sum, values)."""
    def run(k, v, q):
        s = jnp.einsum("blhd,hd->blh", k, q) * size ** -0.5

        def join(a, b):
            m = jnp.maximum(a[0], b[0])
            x, y = jnp.exp(a[0] - m), jnp.exp(b[0] - m)
            return m, a[1] * x + b[1] * y, a[2] * x[..., None] + b[2] * y[..., None]
        _, u, w = lax.associative_scan(join, (s, jnp.ones_like(s), v), axis=1)
        return w / u[..., None]
    x = f32(batch, length, heads, size)
    return backward(run), x, x, x, f32(heads, size)


@module("nested_rnn_chunks_grad_f32", "scans", {"batch": 10, "chunks": 12, "chunk": 9, "inputs": 50, "width": 150},
        {"batch": 2, "chunks": 3, "chunk": 2, "inputs": 3, "width": 4}, tolerance=4)
def _(batch, chunks, chunk, inputs, width):
    """Steps in an inner scan, a slower state in the outer one, with a checkpoint for each chunk."""
    def run(x, w, u, slow_w, slow_u):
        @jax.checkpoint
        def outer(state, part):
            h, slow = state

            def inner(h, x):
                h = jnp.tanh(x @ w + h @ u + slow)
                return h, h
            h, all_h = lax.scan(inner, h, part)
            slow = jnp.tanh(slow @ slow_u + all_h.mean(0) @ slow_w)
            return (h, slow), all_h
        zero = jnp.zeros((batch, width))
        (_, slow), out = lax.scan(outer, (zero, zero), x)
        return out, slow
    return (lambda g, gs, *a: jax.vjp(run, *a)[1]((g, gs)), f32(chunks, chunk, batch, width), f32(batch, width),
            f32(chunks, chunk, batch, inputs), weights(F32, inputs, width), weights(F32, width, width),
            weights(F32, width, width), weights(F32, width, width))


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
        pairs = jnp.where(labels[:, :, None] > labels[:, None], jax.nn.softplus(scores[:, None] - scores[:, :, None]), 0)
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
    return (run, f32(frames, images, channels, size, size), f32(images, channels, size, size), *[across] * 3, *[along] * 3)


@module("conv_1d_grouped_dilated_ncw_grad_f16", "convolutions", {"batch": 7, "channels": 120, "length": 1777, "groups": 6},
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


@module("perona_malik_volumes_f32", "stencils", {"images": 2, "size": 93, "steps": 7}, {"images": 2, "size": 5, "steps": 3})
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


@module("adi_thomas_sweeps_f32", "stencils", {"batch": 3, "size": 150, "steps": 2}, {"batch": 2, "size": 6, "steps": 2},
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
    """Eight 4-bit weights in an int32 by shifts, groups in the order of activations by a gather of scales and zeros."""
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
    return (run, f16(rows, width), Arg((width,), F32, low=0.5, high=2), ints(127, inner, width, low=-127, dtype=jnp.int8),
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


@module("attention_top_33_scores_grad_f32", "attention", {"batch": 2, "heads": 5, "length": 400, "size": 48, "kept": 33},
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
