"""Modules of modules.py by an eleventh author, of what moves data between computing: windows, shifts, skews, slices
with steps, pads, pages and caches, packed triangles and strided pictures, at sizes that nobody tunes for."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F32, F8, I8, I32, Arg, around_one, attention, backward, bf16, causal, f32, ints,
                             layer_norm, module, rms_norm, rotary, weights)
from module_odd_blocks import F16, f16


# Blocks of transformers.

@module("swin_shifted_blocks_merged_grad_bf16", "transformer", {"images": 5, "grid": 63, "window": 7, "heads": 3,
        "size": 32}, {"images": 2, "grid": 9, "window": 3, "heads": 2, "size": 4}, tolerance=6)
def _(images, grid, window, heads, size):
    """Two blocks of windows, one with a cyclic shift and masked regions, then 2 x 2 patches merged; gradients."""
    width, tiles, area, shift = heads * size, grid // window, window * window, window // 2

    def windows(x):
        x = x.reshape(-1, tiles, window, tiles, window, x.shape[-1])
        return x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, area, x.shape[-1])

    def block(x, p, shifted):
        h = layer_norm(x, p["gain"][0], p["bias"][0])
        h = windows(jnp.roll(h, (-shift, -shift), (1, 2)) if shifted else h)
        q, k, v = (h @ p["qkv"]).reshape(-1, area, 3, heads, size).transpose(2, 0, 3, 1, 4)
        apart = jnp.arange(window)[:, None] - jnp.arange(window) + window - 1
        index = apart[:, None, :, None] * (2 * window - 1) + apart[None, :, None]
        biases = p["table"][index.reshape(area, area)].transpose(2, 0, 1)
        scores = jnp.einsum("nhqd,nhkd->nhqk", q * size ** -0.5, k, preferred_element_type=F32) + biases
        if shifted:
            part = (jnp.arange(grid) >= grid - window).astype(I32) + (jnp.arange(grid) >= grid - shift)
            region = windows((3 * part[:, None] + part)[None, :, :, None])[..., 0]
            apart = jnp.where(region[:, None] == region[:, :, None], 0.0, -100.0)
            scores = (scores.reshape(images, -1, heads, area, area) + apart[:, None]).reshape(scores.shape)
        h = jnp.einsum("nhqk,nhkd->nqhd", jax.nn.softmax(scores).astype(BF16), v).reshape(-1, area, width) @ p["out"]
        h = h.reshape(images, tiles, tiles, window, window, width).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)
        x = x + (jnp.roll(h, (shift, shift), (1, 2)) if shifted else h)
        return x + jax.nn.gelu(layer_norm(x, p["gain"][1], p["bias"][1]) @ p["up"]) @ p["down"]

    def stage(x, blocks, gain, bias, merge):
        x = block(block(x, blocks[0], False), blocks[1], True)
        x = jnp.pad(x, ((0, 0), (0, grid % 2), (0, grid % 2), (0, 0)))
        x = jnp.concatenate([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return layer_norm(x, gain, bias) @ merge
    p = {"gain": around_one(BF16, 2, width), "bias": bf16(2, width, scale=0.1), "qkv": weights(BF16, width, 3 * width),
         "table": f32((2 * window - 1) ** 2, heads), "out": weights(BF16, width, width),
         "up": weights(BF16, width, 4 * width), "down": weights(BF16, 4 * width, width)}
    half = -(-grid // 2)
    return (backward(stage), bf16(images, half, half, 2 * width), bf16(images, grid, grid, width), [p, p],
            around_one(BF16, 4 * width), bf16(4 * width, scale=0.1), weights(BF16, 4 * width, 2 * width))


@module("heads_of_three_interleaved_pairs_turned_grad_bf16", "transformer", {"batch": 3, "length": 331, "heads": 11,
        "size": 72, "turn": 26}, {"batch": 2, "length": 5, "heads": 2, "size": 8, "turn": 4}, tolerance=6)
def _(batch, length, heads, size, turn):
    """q, k, v within each head's columns, pairs of neighbours turned in 26 places, a parallel MLP; gradients."""
    width = heads * size

    def turned(a):
        part, rest = a[..., :turn].astype(F32), a[..., turn:]
        angles = jnp.arange(length)[:, None] * 1e4 ** (-jnp.arange(0, turn, 2) / turn)
        sine, cosine = (jnp.repeat(f(angles), 2, -1)[:, None] for f in (jnp.sin, jnp.cos))
        other = jnp.stack([-part[..., 1::2], part[..., ::2]], -1).reshape(part.shape)
        return jnp.concatenate([(part * cosine + other * sine).astype(a.dtype), rest], -1)

    def block(x, gain, bias, qkv, out, up, down):
        h = layer_norm(x, gain, bias)
        heads_of_three = (h @ qkv).reshape(batch, length, heads, 3 * size)
        q, k, v = jnp.split(heads_of_three, 3, -1)
        y = attention(turned(q), turned(k), v, causal).reshape(x.shape)
        return x + y @ out + jax.nn.gelu(h @ up) @ down
    x = bf16(batch, length, width)
    return (backward(block), x, x, around_one(BF16, width), bf16(width, scale=0.1), weights(BF16, width, 3 * width),
            weights(BF16, width, width), weights(BF16, width, 4 * width), weights(BF16, 4 * width, width))


# Attention.

@module("axial_gated_positions_nchw_f16", "attention", {"images": 3, "height": 61, "width": 46, "heads": 8, "size": 14},
        {"images": 2, "height": 5, "width": 4, "heads": 2, "size": 4}, tolerance=4)
def _(images, height, width, heads, size):
    """Channels-first pictures: columns, then rows attend with tables of distances for q, k and v, which are gated."""
    channels = heads * size

    def along(x, qkv, table, gates):
        n, others, _, length = x.shape
        y = jnp.einsum("nocl,cd->nodl", x, qkv).reshape(n, others, heads, 2 * size, length)
        q, k, v = jnp.split(y, [size // 2, size], 3)
        at = jnp.arange(length)[:, None] - jnp.arange(length) + length - 1
        rq, rk, rv = jnp.split(table[:, at], [size // 2, size], 0)
        scores = jnp.einsum("nohci,nohcj->nohij", q, k, preferred_element_type=F32)
        scores = scores + gates[0] * jnp.einsum("nohci,cij->nohij", q, rq, preferred_element_type=F32)
        scores = scores + gates[1] * jnp.einsum("nohcj,cij->nohij", k, rk, preferred_element_type=F32)
        share = jax.nn.softmax(scores).astype(F16)
        y = jnp.einsum("nohij,nohcj->nohci", share, v) + gates[2] * jnp.einsum("nohij,cij->nohci", share, rv)
        return y.reshape(x.shape).astype(F16)

    def layer(x, gain, bias, columns, rows):
        h = x * gain[:, None, None] + bias[:, None, None]
        h = along(h.transpose(0, 3, 1, 2), *columns).transpose(0, 2, 3, 1)
        h = along(h.transpose(0, 2, 1, 3), *rows).transpose(0, 2, 1, 3)
        return jax.nn.relu(x + h)
    columns, rows = ((weights(F16, channels, 2 * channels), f16(2 * size, 2 * n - 1, scale=size ** -0.5),
                      Arg((3,), F16, low=0.1, high=1)) for n in (height, width))
    return (layer, f16(images, channels, height, width), around_one(F16, channels), f16(channels, scale=0.1),
            columns, rows)


@module("sliding_chunks_skewed_to_bands_grad_bf16", "attention", {"batch": 2, "heads": 6, "blocks": 15, "window": 61,
        "size": 56}, {"batch": 1, "heads": 2, "blocks": 3, "window": 3, "size": 4}, tolerance=6)
def _(batch, heads, blocks, window, size):
    """A band of keys each side in overlapping chunks, skewed to rows of diagonals and back; gradients."""
    n, length, w = batch * heads, blocks * window, window

    def chunks(a):
        a = a.reshape(n, blocks, w, size)
        return jnp.concatenate([a[:, :-1], a[:, 1:]], 2)

    def bands(q, k):
        a = jnp.einsum("ncxd,ncyd->ncxy", chunks(q), chunks(k), preferred_element_type=F32)
        a = jnp.pad(a, ((0, 0), (0, 0), (0, 1), (0, 0))).reshape(n, blocks - 1, 2 * w, 2 * w + 1)
        band = jnp.zeros((n, blocks, w, 2 * w + 1))
        band = band.at[:, :-1, :, w:].set(a[:, :, :w, :w + 1]).at[:, -1, :, w:].set(a[:, -1, w:, :w + 1])
        band = band.at[:, 1:, :, :w].set(a[:, :, -w - 1:-1, w + 1:])
        return band.at[:, 0, 1:w, 1:w].set(a[:, 0, :w - 1, 1 - w:])

    def attend(q, k, v):
        q, k, v = (a.swapaxes(1, 2).reshape(n, length, size) for a in (q, k, v))
        place = jnp.arange(length).reshape(blocks, w, 1) + jnp.arange(-w, w + 1)
        scores = jnp.where((place >= 0) & (place < length), bands(q * size ** -0.5, k), -1e30)
        share = jnp.pad(jax.nn.softmax(scores).astype(BF16), ((0, 0), (0, 0), (0, 0), (0, w + 1)))
        share = share.reshape(n, blocks, -1)[:, :, :-w].reshape(n, blocks, w, 3 * w + 1)[..., :-1]
        around = jnp.pad(v, ((0, 0), (w, w), (0, 0))).reshape(n, blocks + 2, w, size)
        around = jnp.concatenate([around[:, :-2], around[:, 1:-1], around[:, 2:]], 2)
        y = jnp.einsum("ncxy,ncyd->ncxd", share, around)
        return y.reshape(batch, heads, length, size).swapaxes(1, 2)
    x = bf16(batch, length, heads, size)
    return backward(attend), x, x, x, x


@module("contacts_from_all_maps_symmetrised_f16", "attention", {"batch": 3, "maps": 132, "length": 213},
        {"batch": 2, "maps": 3, "length": 7})
def _(batch, maps, length):
    """Contacts of a protein: all heads' maps cut, made symmetric, corrected by their margins, weighed; diagonals."""
    def run(a, weight, bias, counts):
        inside = jnp.arange(length + 2) <= counts[:, None]
        a = jnp.where(inside[:, None, :, None] & inside[:, None, None], a, 0)[..., 1:-1, 1:-1]
        a = a.astype(F32) + jnp.swapaxes(a, -1, -2)
        expected = a.sum(-1, keepdims=True) * a.sum(-2, keepdims=True) / a.sum((-1, -2), keepdims=True)
        share = jax.nn.sigmoid(jnp.einsum("bmij,m->bij", a - expected, weight) + bias)
        upper = jnp.triu(share, 6 if length > 12 else 1)
        skewed = jnp.pad(upper.reshape(batch, -1), ((0, 0), (0, length))).reshape(batch, length, length + 1)
        return share, skewed.max(1)[:, :length], jnp.diagonal(share, 1, 1, 2)      # columns were diagonals
    return (run, Arg((batch, maps, length + 2, length + 2), F16, low=0.001, high=1), f32(maps, scale=0.3),
            Arg((), F32, low=-1, high=0), ints(length + 1, batch, low=length // 2))


# Steps of decoding.

@module("pages_of_keys_in_sixteens_f8_b19_bf16", "decode", {"batch": 19, "heads": 24, "kv": 6, "size": 112, "page": 16,
        "kept": 33, "pages": 700, "lanes": 16}, {"batch": 3, "heads": 4, "kv": 2, "size": 8, "page": 4, "kept": 3,
        "pages": 11, "lanes": 4}, tolerance=4, donated={6: 1, 7: 2})
def _(batch, heads, kv, size, page, kept, pages, lanes):
    """Pages of f8 with sixteen places of a key side by side and values transposed; a step that writes and reads."""
    width = heads * size

    def step(x, gain, wqkv, out, scales, table, keys, values, lengths):
        qkv = (rms_norm(x, gain) @ wqkv).reshape(batch, heads + 2 * kv, size)
        q, k, v = jnp.split(qkv, [heads, heads + kv], 1)
        q, k = (rotary(a[:, None], lengths[:, None])[:, 0] for a in (q, k))
        row = jnp.arange(batch)                                   # the page that each row fills is its own
        table = (batch + table % (pages - batch)).at[row, lengths // page].set(row)
        k8 = (k / scales[0, :, None]).astype(F8).reshape(batch, kv, size // lanes, lanes)
        keys = keys.at[row, :, :, lengths % page].set(k8)
        values = values.at[row, :, :, lengths % page].set((v / scales[1, :, None]).astype(F8))
        k = keys[table].transpose(0, 2, 1, 4, 3, 5).reshape(batch, kv, kept * page, size).astype(BF16)
        v = values[table].transpose(0, 2, 3, 1, 4).reshape(batch, kv, size, kept * page).astype(BF16)
        q = q.reshape(batch, kv, -1, size)
        scores = jnp.einsum("bgqd,bgkd->bgqk", q, k, preferred_element_type=F32) * scales[0, :, None, None]
        seen = jnp.arange(kept * page) <= lengths[:, None]
        share = jax.nn.softmax(jnp.where(seen[:, None, None], scores * size ** -0.5, -1e30)).astype(BF16)
        y = jnp.einsum("bgqk,bgdk->bgqd", share, v, preferred_element_type=F32) * scales[1, :, None, None]
        return x + y.astype(BF16).reshape(batch, width) @ out, keys, values
    return (step, bf16(batch, width), around_one(BF16, width), weights(BF16, width, width + 2 * kv * size),
            weights(BF16, width, width), Arg((2, kv), F32, low=0.5, high=1.5), ints(2 ** 30, batch, kept),
            Arg((pages, kv, size // lanes, page, lanes), F8), Arg((pages, kv, size, page), F8),
            ints(kept * page, batch, low=kept * page // 4))


@module("speech_chunk_caches_moved_on_b21_bf16", "decode", {"batch": 21, "chunk": 19, "past": 93, "heads": 7,
        "size": 72, "taps": 15}, {"batch": 2, "chunk": 3, "past": 4, "heads": 2, "size": 4, "taps": 3}, tolerance=4,
        donated={1: 1, 2: 2, 3: 3})
def _(batch, chunk, past, heads, size, taps):
    """A chunk of streamed speech: caches joined at the front and cut at the back, gated causal taps over time."""
    width = heads * size

    def step(x, keys, values, before, p):
        x = x + 0.5 * jax.nn.silu(layer_norm(x, p["gain"][0], p["bias"][0]) @ p["up"]) @ p["down"]
        qkv = (layer_norm(x, p["gain"][1], p["bias"][1]) @ p["qkv"]).reshape(batch, chunk, 3, heads, size)
        q, k, v = jnp.moveaxis(qkv, 2, 0)
        keys, values = jnp.concatenate([keys, k], 1), jnp.concatenate([values, v], 1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys, preferred_element_type=F32) * size ** -0.5
        apart = jnp.arange(chunk)[:, None] + past - jnp.arange(past + chunk)
        share = jax.nn.softmax(scores + p["apart"][:, apart + chunk - 1]).astype(BF16)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", share, values).reshape(x.shape) @ p["out"]
        value, gate = jnp.split(layer_norm(x, p["gain"][2], p["bias"][2]) @ p["gated"], 2, -1)
        h = jnp.concatenate([before, (value * jax.nn.sigmoid(gate)).swapaxes(1, 2)], 2)     # [batch, width, time]
        y = sum(h[:, :, i:i + chunk] * p["taps"][:, i, None] for i in range(taps)).swapaxes(1, 2)
        x = x + jax.nn.silu(layer_norm(y, p["gain"][3], p["bias"][3])) @ p["point"]
        return x, keys[:, chunk:], values[:, chunk:], h[:, :, -(taps - 1):]
    square, cache = weights(BF16, width, width), bf16(batch, past, heads, size)
    p = {"gain": around_one(BF16, 4, width), "bias": bf16(4, width, scale=0.1), "qkv": weights(BF16, width, 3 * width),
         "apart": f32(heads, past + 2 * chunk), "out": square, "gated": weights(BF16, width, 2 * width),
         "taps": bf16(width, taps, scale=taps ** -0.5), "point": square, "up": weights(BF16, width, 4 * width),
         "down": weights(BF16, 4 * width, width)}
    return step, bf16(batch, chunk, width), cache, cache, bf16(batch, width, taps - 1), p


@module("pages_copied_on_write_and_read_s8", "decode", {"pages": 901, "page": 16, "kv": 5, "size": 96, "copies": 23,
        "batch": 14, "kept": 37}, {"pages": 13, "page": 2, "kv": 2, "size": 4, "copies": 3, "batch": 2, "kept": 3},
        donated={0: 0, 1: 1})
def _(pages, page, kv, size, copies, batch, kept):
    """A pool of int8 pages: some copied one by one by slices in place, then rows' pages gathered as heads of f16."""
    def run(pool, scales, sources, start, table):
        def copy(i, pools):
            to = (start + i) % (pages - pages // 2) + pages // 2       # free pages, the upper half
            return [lax.dynamic_update_index_in_dim(a, lax.dynamic_index_in_dim(a, sources[i], 1), to, 1)
                    for a in pools]
        pool, scales = lax.fori_loop(0, copies, copy, [pool, scales])
        k, v = (pool[:, table].astype(F16) * scales[:, table, :, :, None])
        k = k.transpose(0, 3, 4, 1, 2).reshape(batch, kv, size, kept * page)
        return pool, scales, k, v.transpose(0, 3, 1, 2, 4).reshape(batch, kv, kept * page, size)
    return (run, ints(128, 2, pages, page, kv, size, low=-127, dtype=I8), Arg((2, pages, page, kv), F16, low=0.01,
            high=0.03), ints(pages // 2, copies), ints(pages), ints(pages, batch, kept))


@module("diverse_beam_groups_reordered_b6_f16", "decode", {"batch": 6, "groups": 3, "beams": 3, "classes": 32003,
        "steps": 181, "at": 140, "kv": 4, "size": 64}, {"batch": 2, "groups": 2, "beams": 2, "classes": 19, "steps": 6,
        "at": 4, "kv": 2, "size": 4})
def _(batch, groups, beams, classes, steps, at, kv, size):
    """Groups of beams in turn, words of earlier groups made dear, histories and caches taken in the new order."""
    def run(logits, scores, words, keys, values, penalty):
        logs = jax.nn.log_softmax(logits).reshape(batch, groups, beams, classes)
        used, chosen, parents, best = jnp.zeros((batch, classes)), [], [], []
        for group in range(groups):
            total = scores[:, group, :, None] + logs[:, group]
            top, index = lax.top_k((total - penalty * used[:, None]).reshape(batch, -1), beams)
            parents.append(index // classes + group * beams)
            chosen.append(index % classes)
            best.append(jnp.take_along_axis(total.reshape(batch, -1), index, 1))
            used = used + jax.nn.one_hot(chosen[-1], classes).sum(1)
        parents, chosen = jnp.concatenate(parents, 1), jnp.concatenate(chosen, 1)
        words = jnp.take_along_axis(words, parents[:, :, None], 1)
        words = lax.dynamic_update_slice_in_dim(words, chosen[:, :, None], at, 2)
        rows = (parents + jnp.arange(batch)[:, None] * groups * beams).reshape(-1)
        return words, jnp.stack(best, 1), jnp.take(keys, rows, 0), jnp.take(values, rows, 0)
    rows = batch * groups * beams
    cache = f16(rows, kv, steps, size)
    return (run, f32(rows, classes), f32(batch, groups, beams), ints(classes, batch, groups * beams, steps), cache,
            cache, Arg((), F32, low=0.5, high=1))


# Norms.

@module("shuffled_groups_of_27_channels_first_grad_bf16", "norms", {"images": 17, "size": (61, 53), "groups": 7,
        "each": 27}, {"images": 2, "size": (4, 3), "groups": 3, "each": 2}, tolerance=4)
def _(images, size, groups, each):
    """Groups of every seventh channel normed, shuffled together, half of them gated, channels-first out; gradients."""
    def layer(x, gain, bias):
        wide = x.astype(F32).reshape(images, *size, each, groups)
        wide = wide - wide.mean((1, 2, 3), keepdims=True)
        wide = wide * lax.rsqrt(jnp.square(wide).mean((1, 2, 3), keepdims=True) + 1e-5)
        y = wide.swapaxes(3, 4).reshape(x.shape) * gain + bias
        return jnp.moveaxis(y * jax.nn.sigmoid(jnp.roll(y, each, -1)), -1, 1).astype(BF16)
    channels = groups * each
    return (backward(layer), bf16(images, channels, *size), bf16(images, *size, channels), around_one(F32, channels),
            f32(channels, scale=0.2))


# Losses.

@module("census_of_warped_frames_grad_f32", "losses", {"images": 2, "height": 147, "width": 203, "reach": 3},
        {"images": 2, "height": 6, "width": 7, "reach": 1}, tolerance=8)
def _(images, height, width, reach):
    """Flow without labels: a frame warped bilinearly, soft census signs of 7 x 7 shifted slices; gradients of flow."""
    def census(picture):
        grey = picture @ jnp.array([0.3, 0.6, 0.1])
        padded = jnp.pad(grey, ((0, 0), (reach, reach), (reach, reach)))
        around = [padded[:, i:i + height, j:j + width] for i in range(2 * reach + 1) for j in range(2 * reach + 1)]
        apart = 255 * (jnp.stack(around, -1) - grey[..., None])
        return apart * lax.rsqrt(0.81 + jnp.square(apart))

    def loss(flow, one, two):
        y, x = jnp.arange(height)[:, None] + flow[..., 0], jnp.arange(width) + flow[..., 1]
        inside = (y > 0) & (y < height - 1) & (x > 0) & (x < width - 1)
        y, x = jnp.clip(y, 0, height - 1.001), jnp.clip(x, 0, width - 1.001)
        top, left = jnp.floor(y).astype(I32), jnp.floor(x).astype(I32)
        corner = jax.vmap(lambda picture, i, j: picture[i, j])
        v, u = (y - top)[..., None], (x - left)[..., None]
        upper = corner(two, top, left) * (1 - u) + corner(two, top, left + 1) * u
        lower = corner(two, top + 1, left) * (1 - u) + corner(two, top + 1, left + 1) * u
        apart = jnp.square(census(one) - census(upper * (1 - v) + lower * v))
        each = (apart / (0.1 + apart)).sum(-1)
        mask = jnp.pad(jnp.ones((height - 2 * reach, width - 2 * reach)), reach) * inside
        return (jnp.sqrt(jnp.square(each) + 1e-4) * mask).sum() / (mask.sum() + 1), each
    picture = Arg((images, height, width, 3), F32, low=0, high=1)
    return jax.value_and_grad(loss, has_aux=True), f32(images, height, width, 2, scale=2), picture, picture


@module("depth_slopes_at_four_strides_grad_f32", "losses", {"images": 19, "height": 251, "width": 333},
        {"images": 2, "height": 17, "width": 19}, tolerance=4)
def _(images, height, width):
    """Depths aligned by masked least squares, slopes of every first, second, fourth and eighth pixel; gradients."""
    def loss(depth, target, mask):
        mask = (mask > 0).astype(F32)
        a00, a01, a11, b0, b1 = ((mask * a).sum((1, 2)) for a in (depth * depth, depth, 1.0, depth * target, target))
        det = a00 * a11 - a01 * a01
        scale, shift = (a11 * b0 - a01 * b1) / det, (a00 * b1 - a01 * b0) / det
        apart = mask * (scale[:, None, None] * depth + shift[:, None, None] - target)
        total = jnp.square(apart).sum() / (2 * mask.sum())
        for step in (1, 2, 4, 8):
            part, seen = apart[:, ::step, ::step], mask[:, ::step, ::step]
            rows = jnp.abs(part[:, 1:] - part[:, :-1]) * seen[:, 1:] * seen[:, :-1]
            columns = jnp.abs(part[..., 1:] - part[..., :-1]) * seen[..., 1:] * seen[..., :-1]
            total = total + 0.5 * (rows.sum() + columns.sum()) / seen.sum()
        return total
    depth = Arg((images, height, width), F32, low=0, high=1)
    return jax.value_and_grad(loss), depth, depth, ints(5, images, height, width)


@module("packed_triangles_gaussians_grad_f32", "losses", {"rows": 60007, "size": 7}, {"rows": 5, "size": 3},
        tolerance=4)
def _(rows, size):
    """Gaussians whose factors come as packed lower triangles: unpacked, solved forward, diagonals' logs; gradients."""
    def loss(raw, target):
        mean, packed = raw[:, :size], raw[:, size:]
        i, j = jnp.arange(size)[:, None], jnp.arange(size)
        factor = jnp.where(i >= j, packed[:, jnp.where(i >= j, i * (i + 1) // 2 + j, 0)], 0)
        diagonal = jax.nn.softplus(jnp.diagonal(factor, 0, 1, 2)) + 0.3
        factor = jnp.where(i == j, diagonal[:, None], 0.2 * factor)
        apart, solved = target - mean, jnp.zeros((rows, size))
        for row in range(size):
            rest = apart[:, row] - (factor[:, row, :row] * solved[:, :row]).sum(-1)
            solved = solved.at[:, row].set(rest / diagonal[:, row])
        return (0.5 * jnp.square(solved).sum(-1) + jnp.log(diagonal).sum(-1)).mean(), jnp.square(factor).sum(-1)
    return (jax.value_and_grad(loss, has_aux=True), f32(rows, size + size * (size + 1) // 2), f32(rows, size))
