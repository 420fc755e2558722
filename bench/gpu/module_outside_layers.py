"""More modules of modules.py, by a sixth author who had not read the compiler: ways of writing that others had not
used, at odd sizes."""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, I32, Arg, around_one, backward, bf16, f32, ints, layer_norm, module, rms_norm,
                             weights)

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
    return (run, f32(batch, width), c, c, Arg((), I32, low=cache // 2, high=cache),
            weights(F32, layers, width, 3 * width),
            weights(F32, layers, width, width), weights(F32, layers, width, inner), weights(F32, layers, inner, width))


# Norms.

@module("layer_norm_custom_vjp_1000_bf16", "norms", {"rows": 9999, "width": 1000}, {"rows": 5, "width": 9},
        tolerance=3)
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


def positive_net(**sizes):
    """Like net, of numbers above zero."""
    return jax.tree.map(lambda a: Arg(a.shape, F32, low=0.1, high=1), net(F32, **sizes),
                        is_leaf=lambda a: isinstance(a, Arg))


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
    up = positive_net(**sizes)
    return run, Arg((), I32, low=4, high=5), *(net(F32, **sizes) for _ in range(4)), up


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
    up = positive_net(**sizes)
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
    up = positive_net(**sizes)
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
            corners = jnp.stack(jnp.meshgrid(*[jnp.arange(2, dtype=U32)] * 3), -1).reshape(8, 3)
            corner = low.astype(U32)[:, None] + corners
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
