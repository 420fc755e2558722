"""More modules of modules.py, around one kind of operator each: gathers, scans, sorts, convolutions, random numbers."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import (BF16, F8, F32, I8, I32, Arg, around_one, backward, batch_norm, bf16, f32, ints, key,
                             key_of, layer_norm, module, weights)

# Embeddings.

TOKENS, SMALL_TOKENS = ({"vocabulary": 50257, "width": 1024, "batch": 16, "length": 1024},
                        {"vocabulary": 60, "width": 24, "batch": 2, "length": 16})


@module("embedding_bf16", "embeddings", TOKENS, SMALL_TOKENS)
def _(vocabulary, width, batch, length):
    return lambda table, tokens: table[tokens], bf16(vocabulary, width), ints(vocabulary, batch, length)


@module("embedding_norm_f32", "embeddings", TOKENS, SMALL_TOKENS)
def _(vocabulary, width, batch, length):
    def embed(table, places, scale, bias, tokens):
        return layer_norm(jnp.take(table, tokens, axis=0) + places, scale, bias)
    gain = around_one(F32, width)
    return embed, f32(vocabulary, width), f32(length, width), gain, gain, ints(vocabulary, batch, length)


@module("embedding_grad_f32", "embeddings", {**TOKENS, "type_": F32}, SMALL_TOKENS)
@module("embedding_grad_bf16", "embeddings", {**TOKENS, "type_": BF16}, SMALL_TOKENS)
def _(vocabulary, width, batch, length, type_):
    def gradient(cotangent, tokens):
        return jnp.zeros((vocabulary, width), type_).at[tokens].add(cotangent)
    return gradient, Arg((batch, length, width), type_), ints(vocabulary, batch, length)


@module("embedding_bag_grad_f32", "embeddings", {"vocabulary": 200000, "width": 64, "bags": 8192, "each": 32},
        {"vocabulary": 50, "width": 8, "bags": 6, "each": 4})
def _(vocabulary, width, bags, each):
    def gradient(table, tokens, target):
        return jax.value_and_grad(lambda table: jnp.square(table[tokens].mean(1) - target).sum())(table)
    return gradient, f32(vocabulary, width), ints(vocabulary, bags, each), f32(bags, width)


# Sums by segment, as in networks on graphs.

EDGES, SMALL_EDGES = {"edges": 1000000, "nodes": 50000, "width": 64}, {"edges": 200, "nodes": 20, "width": 8}


@module("segment_sum_f32", "segments", {**EDGES, "in_order": False}, SMALL_EDGES)
@module("segment_sum_sorted_f32", "segments", {**EDGES, "in_order": True}, SMALL_EDGES)
def _(edges, nodes, width, in_order):
    def sums(x, segments):
        return jax.ops.segment_sum(x, segments, nodes, indices_are_sorted=in_order)
    return sums, f32(edges, width), ints(nodes, edges, in_order=in_order)


@module("segment_max_f32", "segments", EDGES, SMALL_EDGES)
def _(edges, nodes, width):
    return lambda x, segments: jax.ops.segment_max(x, segments, nodes), f32(edges, width), ints(nodes, edges)


@module("message_passing_f32", "segments", EDGES, SMALL_EDGES)
def _(edges, nodes, width):
    def layer(x, senders, receivers, w, own):
        sums = jax.ops.segment_sum(x[senders], receivers, nodes)
        counts = jax.ops.segment_sum(jnp.ones(edges, F32), receivers, nodes)
        return jax.nn.relu(sums / jnp.maximum(counts, 1)[:, None] @ w + x @ own)
    return (layer, f32(nodes, width), ints(nodes, edges), ints(nodes, edges), weights(F32, width, width),
            weights(F32, width, width))


@module("segment_softmax_f32", "segments", {"edges": 1000000, "nodes": 50000, "heads": 8}, {**SMALL_EDGES, "heads": 2})
def _(edges, nodes, heads, width=0):
    def softmax(scores, receivers):
        powers = jnp.exp(scores - jax.ops.segment_max(scores, receivers, nodes)[receivers])
        return powers / jax.ops.segment_sum(powers, receivers, nodes)[receivers]
    return softmax, f32(edges, heads), ints(nodes, edges)


# Scans.

@module("cumsum_rows_f32", "scans", {"rows": 4096, "width": 8192}, {"rows": 6, "width": 100})
def _(rows, width):
    return lambda x: jnp.cumsum(x, axis=1), f32(rows, width)


@module("cumsum_long_f32", "scans", {"length": 1 << 24}, {"length": 3000})
def _(length):
    return jnp.cumsum, f32(length)


@module("cummax_columns_bf16", "scans", {"rows": 2048, "width": 16384}, {"rows": 30, "width": 16})
def _(rows, width):
    return lambda x: lax.cummax(x, axis=0), bf16(rows, width)


def step_of(left, right):
    return left[0] * right[0], left[1] * right[0] + right[1]


@module("linear_recurrence_f32", "scans", {"batch": 4, "length": 2048, "width": 1024},
        {"batch": 2, "length": 20, "width": 12})
def _(batch, length, width):
    def recurrence(a, b):
        return lax.associative_scan(step_of, (a, b), axis=1)[1]
    return recurrence, Arg((batch, length, width), F32, low=0.8, high=0.99), f32(batch, length, width)


@module("gru_f32", "scans", {"length": 64, "batch": 128, "width": 512}, {"length": 5, "batch": 3, "width": 16})
def _(length, batch, width):
    def gru(xs, h, wx, wh, bias):
        def step(h, x):
            a, b = jnp.split(x, 3, -1), jnp.split(h @ wh, 3, -1)
            reset, update = jax.nn.sigmoid(a[0] + b[0]), jax.nn.sigmoid(a[1] + b[1])
            h = (1 - update) * jnp.tanh(a[2] + reset * b[2]) + update * h
            return h, h
        return lax.scan(step, h, xs @ wx + bias)
    return (gru, f32(length, batch, width), f32(batch, width), weights(F32, width, 3 * width),
            weights(F32, width, 3 * width), f32(3 * width, scale=0.1))


SSM, SMALL_SSM = ({"batch": 4, "length": 256, "width": 1024, "states": 16},
                  {"batch": 2, "length": 6, "width": 8, "states": 4})


@module("mamba_scan_f32", "scans", SSM, SMALL_SSM)
def _(batch, length, width, states):
    def selective(x, dt, b, c, a_log, skip):
        a = -jnp.exp(a_log)

        def step(h, now):
            x, dt, b, c = now
            dt = jax.nn.softplus(dt)
            h = jnp.exp(dt[..., None] * a) * h + (dt * x)[..., None] * b[:, None, :]
            return h, (h * c[:, None, :]).sum(-1) + skip * x
        return lax.scan(step, jnp.zeros((batch, width, states), F32), (x, dt, b, c))
    x, row = f32(length, batch, width), f32(length, batch, states)
    return selective, x, x, row, row, Arg((width, states), F32, 0.5), f32(width)


@module("mamba_associative_f32", "scans", {**SSM, "length": 512, "batch": 2}, SMALL_SSM)
def _(batch, length, width, states):
    def selective(x, dt, b, c, a_log):
        dt = jax.nn.softplus(dt)
        decay = jnp.exp(dt[..., None] * -jnp.exp(a_log))
        h = lax.associative_scan(step_of, (decay, (dt * x)[..., None] * b[:, :, None, :]), axis=1)[1]
        return jnp.einsum("blds,bls->bld", h, c)
    x, row = f32(batch, length, width), f32(batch, length, states)
    return selective, x, x, row, row, Arg((width, states), F32, 0.5)


# Sorts.

@module("sort_rows_f32", "sorts", {"rows": 1024, "width": 16384}, {"rows": 4, "width": 60})
def _(rows, width):
    return lambda x: jnp.sort(x, axis=-1), f32(rows, width)


@module("argsort_s32", "sorts", {"length": 1 << 20}, {"length": 500})
def _(length):
    return lambda keys: lax.sort((keys, lax.iota(I32, length)), num_keys=1), ints(1 << 20, length)


@module("top_k_50_f32", "sorts", {"rows": 128, "width": 128256, "k": 50}, {"rows": 3, "width": 200})
@module("top_k_8_bf16", "sorts", {"rows": 16384, "width": 256, "k": 8, "type_": BF16}, {"rows": 6, "width": 32})
def _(rows, width, k, type_=F32):
    return lambda x: lax.top_k(x, k), Arg((rows, width), type_)


@module("median_f32", "sorts", {"rows": 511, "width": 8192}, {"rows": 9, "width": 12})
def _(rows, width):
    return lambda x: jnp.median(x, axis=0), f32(rows, width)


# Mixtures of experts.

MOE, SMALL_MOE = ({"tokens": 2048, "width": 1024, "inner": 2048, "experts": 8, "capacity": 640},
                  {"tokens": 16, "width": 24, "inner": 32, "experts": 4, "capacity": 10})


def gates_of(x, router, k=2):
    gates, chosen = lax.top_k(jax.nn.softmax(jnp.dot(x, router, preferred_element_type=F32)), k)
    return gates / gates.sum(-1, keepdims=True), chosen


def expert_layer(x, up, down):
    return jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", x, up)), down)


def places_in(chosen, experts):
    """Of each choice among those of its expert, in order."""
    hot = jax.nn.one_hot(chosen, experts, dtype=I32)
    return ((jnp.cumsum(hot.reshape(-1, experts), 0) - 1).reshape(hot.shape) * hot).sum(-1)


def moe_one_hot(x, router, up, down, capacity):
    experts = router.shape[1]
    gates, chosen = gates_of(x, router)
    place = jax.nn.one_hot(places_in(chosen, experts), capacity)   # of those beyond the capacity: zeros
    combine = jnp.einsum("tk,tke,tkc->tec", gates, jax.nn.one_hot(chosen, experts), place)
    given = jnp.einsum("tec,td->ecd", (combine > 0).astype(x.dtype), x)
    return jnp.einsum("tec,ecd->td", combine.astype(x.dtype), expert_layer(given, up, down))


def moe_sorted(x, router, up, down, capacity):
    (tokens, width), experts = x.shape, router.shape[1]
    gates, chosen = gates_of(x, router)
    flat = chosen.reshape(-1)
    order = jnp.argsort(flat, stable=True)
    sorted_ = flat[order]
    place = jnp.arange(flat.size) - jnp.searchsorted(sorted_, jnp.arange(experts))[sorted_]
    slot = jnp.where(place < capacity, sorted_ * capacity + place, experts * capacity)
    given = jnp.zeros((experts * capacity, width), x.dtype).at[slot].set(x[order // 2], mode="drop")
    made = expert_layer(given.reshape(experts, capacity, width), up, down).reshape(-1, width)
    taken = made.at[slot].get(mode="fill", fill_value=0) * gates.reshape(-1)[order].astype(x.dtype)[:, None]
    return jnp.zeros_like(x).at[order // 2].add(taken)


def moe_arguments(type_, tokens, width, inner, experts):
    return (Arg((tokens, width), type_), weights(type_, width, experts), weights(type_, experts, width, inner),
            weights(type_, experts, inner, width))


@module("moe_one_hot_bf16", "moe", MOE, SMALL_MOE, tolerance=2, mismatch=1e-2)
@module("moe_one_hot_f32", "moe", {**MOE, "type_": F32}, SMALL_MOE, mismatch=1e-2)
@module("moe_one_hot_grad_bf16", "moe", {**MOE, "grad": True}, SMALL_MOE, tolerance=2, mismatch=1e-2)
@module("moe_sorted_bf16", "moe", {**MOE, "function": moe_sorted}, SMALL_MOE, tolerance=2, mismatch=1e-2)
def _(tokens, width, inner, experts, capacity, type_=BF16, grad=False, function=moe_one_hot):
    arguments = moe_arguments(type_, tokens, width, inner, experts)

    def layer(*given):
        return function(*given, capacity)
    return (backward(layer), arguments[0], *arguments) if grad else (layer, *arguments)


@module("moe_ragged_bf16", "moe", MOE, SMALL_MOE, tolerance=2, mismatch=1e-2)
def _(tokens, width, inner, experts, capacity):
    def layer(x, router, up, down):
        gates, chosen = gates_of(x, router)
        order = jnp.argsort(chosen.reshape(-1), stable=True)
        sizes = jnp.zeros(experts, I32).at[chosen.reshape(-1)].add(1)
        h = lax.ragged_dot(jax.nn.gelu(lax.ragged_dot(x[order // 2], up, sizes)), down, sizes)
        return jnp.zeros_like(x).at[order // 2].add(h * gates.reshape(-1)[order].astype(x.dtype)[:, None])
    return layer, *moe_arguments(BF16, tokens, width, inner, experts)


@module("moe_router_grad_f32", "moe", {"tokens": 16384, "width": 2048, "experts": 64},
        {"tokens": 32, "width": 24, "experts": 8}, mismatch=1e-2)
def _(tokens, width, experts):
    """Balances the experts' loads; beside the gradients, each choice's place among its expert's."""
    def loss(router, x):
        scores = x @ router
        p = jax.nn.softmax(scores)
        chosen = lax.top_k(p, 2)[1]
        load = jax.nn.one_hot(chosen, experts).sum(1).mean(0)
        z = jnp.square(jax.nn.logsumexp(scores, -1)).mean()
        return experts * (load * p.mean(0)).sum() + 1e-3 * z, places_in(chosen, experts)
    return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True), weights(F32, width, experts), f32(tokens, width)


# Convolution nets, NHWC.

def convolution(x, w, stride=1, **how):
    return lax.conv_general_dilated(x, w, (stride, stride), how.pop("padding", "SAME"),
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"), **how)


def filters(type_, size, inputs, outputs):
    return Arg((size, size, inputs, outputs), type_, (size * size * inputs) ** -0.5)


def residual_block(x, w1, g1, b1, w2, g2, b2):
    h = jax.nn.relu(batch_norm(convolution(x, w1), g1, b1)[0])
    return jax.nn.relu(batch_norm(convolution(h, w2), g2, b2)[0] + x)


NET, SMALL_NET = {"images": 32, "size": 28, "channels": 128}, {"images": 2, "size": 6, "channels": 8}


@module("residual_block_f32", "convolutions", {**NET, "type_": F32}, SMALL_NET)
@module("residual_block_bf16", "convolutions", {**NET, "type_": BF16, "images": 64}, SMALL_NET, tolerance=2)
@module("residual_block_grad_f32", "convolutions", {**NET, "type_": F32, "grad": True}, SMALL_NET, mismatch=1e-4)
@module("residual_block_grad_bf16", "convolutions", {**NET, "type_": BF16, "grad": True}, SMALL_NET, tolerance=4,
        mismatch=1e-2)
def _(images, size, channels, type_, grad=False):
    x, w, gain = Arg((images, size, size, channels), type_), filters(type_, 3, channels, channels), \
        around_one(F32, channels)
    arguments = (x, w, gain, gain, w, gain, gain)
    return (backward(residual_block), x, *arguments) if grad else (residual_block, *arguments)


@module("convnext_block_bf16", "convolutions", {"images": 32, "size": 28, "channels": 256}, SMALL_NET, tolerance=2)
@module("convnext_block_grad_f32", "convolutions", {"images": 16, "size": 28, "channels": 256, "grad": True}, SMALL_NET)
def _(images, size, channels, grad=False):
    type_ = F32 if grad else BF16

    def block(x, w, scale, bias, up, down, gain):
        h = layer_norm(convolution(x, w, feature_group_count=channels), scale, bias)
        return x + gain * (jax.nn.gelu(h @ up) @ down)
    x, gain = Arg((images, size, size, channels), type_), around_one(type_, channels)
    arguments = (x, Arg((7, 7, 1, channels), type_, 1 / 7), gain, gain, weights(type_, channels, 4 * channels),
                 weights(type_, 4 * channels, channels), gain)
    return (backward(block), x, *arguments) if grad else (block, *arguments)


@module("stem_bf16", "convolutions", {"images": 64, "size": 224}, {"images": 2, "size": 20})
def _(images, size):
    def stem(x, w, scale, bias):
        h = jax.nn.relu(convolution(x, w, 2) * scale + bias)
        return lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return stem, bf16(images, size, size, 3), filters(BF16, 7, 3, 64), around_one(BF16, 64), around_one(BF16, 64)


@module("upsample_f32", "convolutions", {"images": 16, "size": 32, "channels": 128}, SMALL_NET)
def _(images, size, channels):
    def upsample(x, w, bias):
        return jax.nn.leaky_relu(lax.conv_transpose(x, w, (2, 2), "SAME") + bias, 0.2)
    return upsample, f32(images, size, size, channels), filters(F32, 4, channels, channels // 2), f32(channels // 2)


# Pools.

def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def average_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


POOL, SMALL_POOL = {"images": 64, "size": 112, "channels": 64}, {"images": 2, "size": 8, "channels": 4}


@module("max_pool_bf16", "pools", {**POOL, "function": max_pool, "type_": BF16}, SMALL_POOL)
@module("max_pool_grad_f32", "pools", {**POOL, "function": max_pool, "type_": F32, "grad": True}, SMALL_POOL)
@module("average_pool_f32", "pools", {**POOL, "function": average_pool, "type_": F32}, SMALL_POOL)
@module("average_pool_grad_f32", "pools", {**POOL, "function": average_pool, "type_": F32, "grad": True}, SMALL_POOL)
def _(images, size, channels, function, type_, grad=False):
    x, half = (Arg((images, s, s, channels), type_) for s in (size, size // 2))
    return (backward(function), half, x) if grad else (function, x)


# Stencils.

@module("heat_2d_f32", "stencils", {"size": 2048, "steps": 10}, {"size": 20, "steps": 3})
def _(size, steps):
    def heat(x):
        def step(_, x):
            new = 0.2 * (x[1:-1, 1:-1] + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
            return x.at[1:-1, 1:-1].set(new)
        return lax.fori_loop(0, steps, step, x)
    return heat, f32(size, size)


@module("wave_2d_f32", "stencils", {"size": 2048, "steps": 10}, {"size": 20, "steps": 3})
def _(size, steps):
    """Periodic, two steps of time kept."""
    def wave(x, before):
        def step(_, both):
            x, before = both
            laplacian = sum(jnp.roll(x, by, axis) for by in (1, -1) for axis in (0, 1)) - 4 * x
            return 2 * x - before + 0.2 * laplacian, x
        return lax.fori_loop(0, steps, step, (x, before))
    return wave, f32(size, size), f32(size, size)


@module("diffusion_3d_f32", "stencils", {"size": 256, "steps": 4}, {"size": 8, "steps": 2})
def _(size, steps):
    def diffusion(x):
        def step(_, x):
            p = jnp.pad(x, 1, mode="edge")
            return x + 0.1 * (p[2:, 1:-1, 1:-1] + p[:-2, 1:-1, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, :-2, 1:-1]
                              + p[1:-1, 1:-1, 2:] + p[1:-1, 1:-1, :-2] - 6 * x)
        return lax.fori_loop(0, steps, step, x)
    return diffusion, f32(size, size, size)


@module("life_s32", "stencils", {"size": 4096, "steps": 10}, {"size": 16, "steps": 3})
def _(size, steps):
    def life(cells):
        def step(_, cells):
            rows = cells + jnp.roll(cells, 1, 0) + jnp.roll(cells, -1, 0)
            around = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - cells
            return ((around == 3) | ((around == 2) & (cells == 1))).astype(I32)
        return lax.fori_loop(0, steps, step, cells)
    return life, ints(2, size, size)


# Random numbers.

@module("categorical_f32", "sampling", {"rows": 256, "classes": 32000}, {"rows": 5, "classes": 100}, mismatch=1e-2)
def _(rows, classes):
    return lambda data, logits: jax.random.categorical(key_of(data), logits), key(), f32(rows, classes, scale=3.0)


@module("top_p_f32", "sampling", {"rows": 64, "classes": 32000}, {"rows": 5, "classes": 100}, mismatch=2e-2)
def _(rows, classes):
    def sample(data, logits, temperature):
        down = -jnp.sort(-logits / temperature, axis=-1)
        before = jnp.cumsum(jax.nn.softmax(down), -1) - jax.nn.softmax(down)
        least = jnp.where(before < 0.9, down, jnp.inf).min(-1, keepdims=True)
        kept = jnp.where(logits / temperature >= least, logits / temperature, -jnp.inf)
        return jax.random.categorical(key_of(data), kept)
    return sample, key(), f32(rows, classes, scale=3.0), Arg((), F32, low=0.7, high=0.8)


def dropout(data, x):
    return jnp.where(jax.random.bernoulli(key_of(data), 0.9, x.shape), x / 0.9, 0)


@module("dropout_bf16", "sampling", {"rows": 8192, "width": 4096}, {"rows": 8, "width": 33})
def _(rows, width):
    return dropout, key(), bf16(rows, width)


@module("dropout_norm_grad_f32", "sampling", {"rows": 8192, "width": 1024}, {"rows": 8, "width": 32})
def _(rows, width):
    """Of layer_norm(residual + dropout(x)): the mask is made twice, and not kept."""
    def gradients(data, cotangent, x, residual, gain):
        return backward(lambda x, residual, gain: layer_norm(residual + dropout(data, x), gain, gain))(
            cotangent, x, residual, gain)
    return gradients, key(), f32(rows, width), f32(rows, width), f32(rows, width), around_one(F32, width)


@module("normal_f32", "sampling", {"rows": 4096, "width": 4096}, {"rows": 8, "width": 33})
def _(rows, width):
    return lambda data: 0.02 * jax.random.normal(key_of(data), (rows, width)), key()


# Quantised products.

def rows_to_int8(x):
    scale = jnp.abs(x.astype(F32)).max(-1, keepdims=True) / 127
    return jnp.round(x.astype(F32) / scale).astype(I8), scale


QUANTISED, SMALL_QUANTISED = ({"rows": 1024, "inputs": 4096, "outputs": 14336},
                              {"rows": 6, "inputs": 256, "outputs": 40})


@module("int8_dynamic_bf16", "quantised", QUANTISED, SMALL_QUANTISED, tolerance=2)
def _(rows, inputs, outputs):
    def layer(x, w, scales):
        q, scale = rows_to_int8(x)
        return (jnp.dot(q, w, preferred_element_type=I32).astype(F32) * scale * scales).astype(BF16)
    return layer, bf16(rows, inputs), ints(128, inputs, outputs, low=-127, dtype=I8), \
        Arg((outputs,), F32, low=1e-3, high=1e-2)


@module("int8_weights_b8_bf16", "quantised", {**QUANTISED, "rows": 8}, SMALL_QUANTISED, tolerance=2)
def _(rows, inputs, outputs):
    def layer(x, w, scales):
        return x @ w.astype(BF16) * scales
    return layer, bf16(rows, inputs), ints(128, inputs, outputs, low=-127, dtype=I8), \
        Arg((outputs,), BF16, low=1e-3, high=1e-2)


@module("fp8_scaled_bf16", "quantised", QUANTISED, SMALL_QUANTISED, tolerance=2)
def _(rows, inputs, outputs):
    def layer(x, w, scale):
        largest = jnp.abs(x.astype(F32)).max() / 448
        q = (x.astype(F32) / largest).astype(F8)
        return (jnp.dot(q, w, preferred_element_type=F32) * (largest * scale)).astype(BF16)
    return layer, bf16(rows, inputs), Arg((inputs, outputs), F8), Arg((), F32, low=0.01, high=0.02)


@module("fp8_blocks_bf16", "quantised", {"rows": 8192, "width": 7168}, {"rows": 5, "width": 256})
def _(rows, width):
    """Rows in blocks of 128, each with a scale of its own."""
    def quantise(x):
        blocks = x.astype(F32).reshape(rows, width // 128, 128)
        scale = jnp.maximum(jnp.abs(blocks).max(-1, keepdims=True), 1e-4) / 448
        return (blocks / scale).astype(F8).reshape(rows, width), scale[..., 0]
    return quantise, bf16(rows, width)


@module("int4_groups_b1_bf16", "quantised", {**QUANTISED, "rows": 1}, SMALL_QUANTISED, tolerance=2)
@module("int4_groups_b512_bf16", "quantised", {**QUANTISED, "rows": 512}, SMALL_QUANTISED, tolerance=2)
def _(rows, inputs, outputs):
    """Two weights a byte; 128 inputs have a scale for each output."""
    def layer(x, packed, scales):
        low, high = (lax.shift_right_arithmetic(both, jnp.int8(4)) for both in (packed << 4, packed))
        w = jnp.stack([low, high], 1).reshape(inputs // 128, 128, outputs).astype(BF16) * scales[:, None]
        return x @ w.reshape(inputs, outputs)
    return layer, bf16(rows, inputs), ints(128, inputs // 2, outputs, low=-128, dtype=I8), \
        Arg((inputs // 128, outputs), BF16, low=1e-3, high=1e-2)


@module("int4_type_b8_bf16", "quantised", {**QUANTISED, "rows": 8}, SMALL_QUANTISED, tolerance=2)
def _(rows, inputs, outputs):
    return lambda x, w, scales: x @ w.astype(BF16) * scales, bf16(rows, inputs), \
        ints(8, inputs, outputs, low=-8, dtype=jnp.int4), Arg((outputs,), BF16, low=1e-3, high=1e-2)


@module("int8_cache_attention_bf16", "quantised", {"batch": 16, "length": 2048, "heads": 8, "group": 4, "size": 128},
        {"batch": 2, "length": 20, "heads": 2, "group": 2, "size": 16}, tolerance=2)
def _(batch, length, heads, group, size):
    def attention(q, k, k_scale, v, v_scale):
        keys, values = (a.astype(BF16) * scale[..., None] for a, scale in ((k, k_scale), (v, v_scale)))
        scores = jnp.einsum("bhgd,bshd->bhgs", q, keys, preferred_element_type=F32) * size ** -0.5
        return jnp.einsum("bhgs,bshd->bhgd", jax.nn.softmax(scores).astype(BF16), values)
    held = ints(128, batch, length, heads, size, low=-127, dtype=I8)
    scale = Arg((batch, length, heads), BF16, low=0.01, high=0.02)
    return attention, bf16(batch, heads, group, size), held, scale, held, scale


# Convolutions by Fourier transforms.

@module("fft_long_convolution_f32", "fourier", {"batch": 4, "width": 512, "length": 8192},
        {"batch": 2, "width": 3, "length": 32})
def _(batch, width, length):
    def long_convolution(x, filters, skip, gate):
        spectrum = jnp.fft.rfft(x, 2 * length) * jnp.fft.rfft(filters, 2 * length)
        return gate * (jnp.fft.irfft(spectrum, 2 * length)[..., :length] + skip[:, None] * x)
    x = f32(batch, width, length)
    return long_convolution, x, f32(width, length, scale=length ** -0.5), f32(width), x


@module("fft_2d_convolution_f32", "fourier", {"images": 64, "size": 512}, {"images": 2, "size": 16})
def _(images, size):
    def convolve(x, kernel):
        return jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.fft.rfft2(kernel, (size, size)), (size, size))
    return convolve, f32(images, size, size), f32(15, 15, scale=1 / 15)


@module("spectrogram_f32", "fourier", {"batch": 32, "frames": 1024, "window": 512, "bands": 80},
        {"batch": 2, "frames": 8, "window": 32, "bands": 6})
def _(batch, frames, window, bands):
    def spectrogram(x, mel):
        places = jnp.arange(frames)[:, None] * (window // 4) + jnp.arange(window)
        hann = 0.5 - 0.5 * jnp.cos(2 * jnp.pi * jnp.arange(window) / window)
        power = jnp.square(jnp.abs(jnp.fft.rfft(x[:, places] * hann)))
        return jnp.log(power @ mel + 1e-6)
    return spectrogram, f32(batch, (frames - 1) * (window // 4) + window), \
        Arg((window // 2 + 1, bands), F32, low=0, high=1)


@module("fourier_layer_f32", "fourier", {"batch": 16, "size": 256, "width": 32, "modes": 16},
        {"batch": 2, "size": 16, "width": 4, "modes": 3})
def _(batch, size, width, modes):
    """Of a Fourier neural operator: low modes by complex weights, beside a product at each place."""
    def layer(x, real, imaginary, w):
        low = jnp.fft.rfft2(x, axes=(1, 2))[:, :modes, :modes]
        mixed = jnp.einsum("bxyi,xyio->bxyo", low, lax.complex(real, imaginary))
        return jax.nn.gelu(jnp.fft.irfft2(mixed, (size, size), (1, 2)) + x @ w)
    part = weights(F32, modes, modes, width, width)
    return layer, f32(batch, size, size, width), part, part, weights(F32, width, width)
