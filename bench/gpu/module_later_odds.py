"""More modules of modules.py, by a fifth author who had not read the compiler: stencils, physics, transforms, pictures
and what nobody expects. module_later_steps.py and module_later_layers.py have the other families."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, I32, Arg, backward, bf16, f32, ints, key, key_of, module
from module_odd_blocks import U8

U32 = jnp.uint32


# Stencils and physics.

@module("yee_fields_3d_f32", "stencils", {"size": 97, "steps": 8}, {"size": 5, "steps": 3})
def _(size, steps):
    """Maxwell's equations on Yee's grid: two curls a step, a source, a conductor where a mask says so."""
    def curl(a, forwards):
        def d(f, axis):
            return jnp.roll(f, -1, axis) - f if forwards else f - jnp.roll(f, 1, axis)
        return jnp.stack([d(a[2], 1) - d(a[1], 2), d(a[0], 2) - d(a[2], 0), d(a[1], 0) - d(a[0], 1)])

    def run(e, b, metal):
        def step(t, fields):
            e, b = fields
            b = b - 0.4 * curl(e, True)
            e = jnp.where(metal == 0, 0.0, e + 0.4 * curl(b, False))
            return e.at[2, size // 2, size // 2, size // 2].add(jnp.sin(0.3 * t)), b
        return lax.fori_loop(0, steps, step, (e, b))
    x = f32(3, size, size, size)
    return run, x, x, ints(20, size, size, size)


@module("stable_fluid_f32", "stencils", {"size": 385, "sweeps": 10, "steps": 3}, {"size": 6, "sweeps": 3, "steps": 2},
        tolerance=3)
def _(size, sweeps, steps):
    """Semi-Lagrangian advection by bilinear reads, divergence, Jacobi's pressure, a projection."""
    def run(u, dye):
        y, x = jnp.meshgrid(jnp.arange(size), jnp.arange(size), indexing="ij")

        def read(f, at_y, at_x):
            low_y, low_x = jnp.floor(at_y), jnp.floor(at_x)
            p, q = at_y - low_y, at_x - low_x
            i, j = low_y.astype(I32) % size, low_x.astype(I32) % size
            i2, j2 = (i + 1) % size, (j + 1) % size
            return ((1 - p) * ((1 - q) * f[i, j] + q * f[i, j2]) + p * ((1 - q) * f[i2, j] + q * f[i2, j2]))

        def step(_, state):
            u, dye = state
            at = y - 0.7 * u[0], x - 0.7 * u[1]
            u, dye = jnp.stack([read(u[0], *at), read(u[1], *at)]), read(dye, *at)
            div = (jnp.roll(u[0], -1, 0) - jnp.roll(u[0], 1, 0) + jnp.roll(u[1], -1, 1) - jnp.roll(u[1], 1, 1)) / 2

            def sweep(_, p):
                return (jnp.roll(p, 1, 0) + jnp.roll(p, -1, 0) + jnp.roll(p, 1, 1) + jnp.roll(p, -1, 1) - div) / 4
            p = lax.fori_loop(0, sweeps, sweep, jnp.zeros_like(div))
            grad = jnp.stack([jnp.roll(p, -1, 0) - jnp.roll(p, 1, 0), jnp.roll(p, -1, 1) - jnp.roll(p, 1, 1)]) / 2
            return u - grad, dye
        return lax.fori_loop(0, steps, step, (u, dye))
    return run, f32(2, size, size), f32(size, size)


@module("bodies_leapfrog_f32", "physics", {"bodies": 1280, "steps": 5}, {"bodies": 7, "steps": 3}, tolerance=2)
def _(bodies, steps):
    """Gravity of all pairs, kicks and drifts, energy after each step by an outer scan."""
    def run(x, v, mass):
        def pull(x):
            apart = x[None] - x[:, None]
            near = lax.rsqrt(jnp.square(apart).sum(-1) + 0.01)
            return jnp.einsum("ijd,ij->id", apart, mass * near ** 3), near

        def step(state, _):
            x, v, a = state
            v = v + 0.005 * a
            x = x + 0.01 * v
            a, near = pull(x)
            v = v + 0.005 * a
            energy = 0.5 * (mass * jnp.square(v).sum(-1)).sum() - 0.5 * (mass[:, None] * mass * near).sum()
            return (x, v, a), energy
        return lax.scan(step, (x, v, pull(x)[0]), None, steps)
    return run, f32(bodies, 3), f32(bodies, 3, scale=0.1), Arg((bodies,), F32, low=1e-4, high=1e-3)


@module("adaptive_ode_batch_f32", "physics", {"batch": 5003, "size": 3, "steps": 30},
        {"batch": 5, "size": 3, "steps": 6}, tolerance=20)
def _(batch, size, steps):
    """Bogacki and Shampine's pair on Lorenz's system: each member has its own time, step and refusals."""
    def f(x):
        return jnp.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])

    def run(x, end):
        def body(state):
            i, t, x, h = state
            h = jnp.clip(h, 0, end - t)
            k1 = f(x)
            k2 = f(x + 0.5 * h * k1)
            k3 = f(x + 0.75 * h * k2)
            new = x + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
            k4 = f(new)
            error = h * (-5 / 72 * k1 + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * k4)
            size = jnp.sqrt(jnp.square(error / (1e-3 + 1e-3 * jnp.abs(new))).mean(0))
            good = size <= 1
            t, x = jnp.where(good, t + h, t), jnp.where(good, new, x)
            return i + 1, t, x, jnp.maximum(h, 1e-4) * jnp.clip(0.9 * (size + 1e-9) ** (-1 / 3), 0.2, 5)
        return lax.while_loop(lambda s: (s[0] < steps) & (s[1] < end).any(), body,
                              (0, jnp.zeros(batch), x, jnp.full(batch, 0.01)))[1:3]
    return run, f32(size, batch), Arg((batch,), F32, low=0.1, high=0.2)


@module("ising_metropolis_s8", "physics", {"batch": 9, "size": 256, "sweeps": 4}, {"batch": 2, "size": 6, "sweeps": 2},
        mismatch=0.01)
def _(batch, size, sweeps):
    """Checkerboard sweeps with draws by threefry in a loop, spins of a byte."""
    def run(data, spins, heat):
        board = (jnp.arange(size)[:, None] + jnp.arange(size)) % 2
        start = jnp.where(spins > 0, 1, -1).astype(jnp.int8)

        def sweep(i, s):
            for colour in (0, 1):
                around = sum(jnp.roll(s, d, a) for d in (1, -1) for a in (1, 2)).astype(F32)
                drawn = jax.random.uniform(jax.random.fold_in(key_of(data), 2 * i + colour), s.shape)
                flip = (board == colour) & (drawn < jnp.exp(-2 * s * around / heat[:, None, None]))
                s = jnp.where(flip, -s, s)
            return s
        end = lax.fori_loop(0, sweeps, sweep, start)
        return end, end.astype(F32).mean((1, 2))
    return run, key(), ints(2, batch, size, size), Arg((batch,), F32, low=1.5, high=3)


# Transforms.

@module("griffin_lim_round_f32", "fourier", {"batch": 3, "frames": 200, "hop": 256, "size": 1024},
        {"batch": 2, "frames": 6, "hop": 4, "size": 16}, tolerance=3)
def _(batch, frames, hop, size):
    """Overlap-add of inverse transforms, windows' squares divided out, transforms again, phases kept."""
    def run(magnitude, phase):
        window = 0.5 - 0.5 * jnp.cos(2 * jnp.pi * jnp.arange(size) / size)
        length = (frames - 1) * hop + size
        at = jnp.arange(frames)[:, None] * hop + jnp.arange(size)
        norm = jnp.zeros(length).at[at].add(jnp.square(window))

        def one(_, phase):
            spectrum = lax.complex(magnitude * jnp.cos(phase), magnitude * jnp.sin(phase))
            parts = jnp.fft.irfft(spectrum, size) * window
            wave = jnp.zeros((batch, length)).at[:, at].add(parts) / (norm + 1e-2)
            again = jnp.fft.rfft(wave[:, at] * window) + 0.1 * spectrum
            return jnp.arctan2(again.imag, again.real)
        phase = lax.fori_loop(0, 2, one, phase)
        return jnp.cos(phase) * magnitude, jnp.sin(phase) * magnitude
    x = Arg((batch, frames, size // 2 + 1), F32, low=0.5, high=2)
    return run, x, Arg(x.shape, F32, low=-3, high=3)


@module("dct_blocks_quantised_u8", "fourier", {"batch": 5, "size": 776}, {"batch": 2, "size": 16}, mismatch=0.02)
def _(batch, size):
    """JPEG's path: bytes to blocks of 8 × 8, cosines as products, tables, a zigzag, and back to bytes."""
    def run(picture, table):
        n = jnp.arange(8)
        c = jnp.cos(jnp.pi * (2 * n + 1) * n[:, None] / 16) * jnp.where(n == 0, 8 ** -0.5, 0.5)[:, None]
        zigzag = jnp.array(sorted(range(64), key=lambda i: (i // 8 + i % 8, i if (i // 8 + i % 8) % 2 else -i)))
        blocks = picture.astype(F32).reshape(batch, size // 8, 8, size // 8, 8).transpose(0, 1, 3, 2, 4) - 128
        q = jnp.round(jnp.einsum("ui,...ij,vj->...uv", c, blocks, c) / table).astype(jnp.int16)
        flat = q.reshape(*q.shape[:-2], 64)[..., zigzag]
        back = jnp.einsum("ui,...uv,vj->...ij", c, q.astype(F32) * table, c) + 128
        back = back.transpose(0, 1, 3, 2, 4).reshape(batch, size, size)
        return flat, jnp.clip(jnp.round(back), 0, 255).astype(U8), (flat != 0).sum(-1)
    return run, ints(256, batch, size, size, dtype=U8), Arg((8, 8), F32, low=10, high=60)


# What nobody expects.

@module("lanczos_resize_grad_bf16", "images", {"batch": 3, "size": 250, "to": 384, "channels": 33},
        {"batch": 2, "size": 5, "to": 8, "channels": 3}, tolerance=3)
def _(batch, size, to, channels):
    def run(x):
        big = jax.image.resize(x.astype(F32), (batch, to, to, channels), "lanczos3")
        small = jax.image.resize(big, (batch, size // 2, size // 2, channels), "linear", antialias=True)
        return big.astype(BF16), small.astype(BF16)
    return (backward(run), (bf16(batch, to, to, channels), bf16(batch, size // 2, size // 2, channels)),
            bf16(batch, size, size, channels))


@module("k_means_rounds_f32", "clustering", {"rows": 50257, "width": 33, "centres": 129, "rounds": 5},
        {"rows": 23, "width": 3, "centres": 4, "rounds": 3}, tolerance=2)
def _(rows, width, centres, rounds):
    def run(x):
        def one(_, state):
            c, _ = state
            far = jnp.square(c).sum(-1) - 2 * x @ c.T
            at = far.argmin(-1)
            total = jax.ops.segment_sum(x, at, centres)
            count = jax.ops.segment_sum(jnp.ones(rows), at, centres)
            c = jnp.where(count[:, None] > 0, total / jnp.maximum(count, 1)[:, None], c)
            return c, (far.min(-1) + jnp.square(x).sum(-1)).mean()
        return lax.fori_loop(0, rounds, one, (x[:centres], jnp.float32(0)))
    return run, f32(rows, width)


@module("householder_qr_f32", "linear_algebra", {"batch": 33, "rows": 65, "columns": 33},
        {"batch": 2, "rows": 6, "columns": 4}, tolerance=6)
def _(batch, rows, columns):
    """Reflections column by column in a fori_loop with masks, then least squares by back substitution."""
    def run(a, b):
        both = jnp.concatenate([a, b[..., None]], -1)

        def reflect(j, r):
            column = jnp.where(jnp.arange(rows) >= j, lax.dynamic_index_in_dim(r, j, 2, False), 0)
            own = lax.dynamic_index_in_dim(column, j, 1)
            v = column + jnp.where(jnp.arange(rows) == j, jnp.where(own < 0, -1.0, 1.0)
                                   * jnp.linalg.norm(column, axis=-1, keepdims=True), 0)
            v = v / (jnp.linalg.norm(v, axis=-1, keepdims=True) + 1e-20)
            return r - 2 * v[..., None] * jnp.einsum("bi,bij->bj", v, r)[:, None]
        r = lax.fori_loop(0, columns, reflect, both)

        def back(i, x):
            j = columns - 1 - i
            line = lax.dynamic_index_in_dim(r, j, 1, False)
            left = line[:, -1] - (line[:, :-1] * x).sum(-1)
            return x.at[:, j].set(left / lax.dynamic_index_in_dim(line, j, 1, False))
        return jnp.triu(r[:, :columns, :columns]), lax.fori_loop(0, columns, back, jnp.zeros((batch, columns)))
    return run, f32(batch, rows, columns), f32(batch, rows)


@module("all_pairs_paths_f32", "dynamic", {"nodes": 385}, {"nodes": 7})
def _(nodes):
    """Floyd and Warshall with the next node of each path."""
    def run(w, holes):
        far = jnp.where(holes > 2, jnp.inf, w)
        far = jnp.where(jnp.eye(nodes, dtype=bool), 0, far)
        step = jnp.broadcast_to(jnp.arange(nodes), (nodes, nodes))

        def through(k, state):
            far, step = state
            over = lax.dynamic_index_in_dim(far, k, 1) + lax.dynamic_index_in_dim(far, k, 0)
            better = over < far
            return jnp.where(better, over, far), jnp.where(better, lax.dynamic_index_in_dim(step, k, 1), step)
        far, step = lax.fori_loop(0, nodes, through, (far, step))
        return jnp.where(jnp.isfinite(far), far, -1), step
    return run, Arg((nodes, nodes), F32, low=0.1, high=9), ints(9, nodes, nodes)


@module("ray_marched_spheres_grad_f32", "images", {"height": 270, "width": 480, "balls": 9, "steps": 24},
        {"height": 3, "width": 5, "balls": 3, "steps": 6}, tolerance=3, mismatch=0.02)
def _(height, width, balls, steps):
    """Distances to smooth unions of balls along rays, a normal by grad within, gradients to the balls."""
    def far(p, centres, sizes):
        return -0.2 * jax.nn.logsumexp(-(jnp.sqrt(jnp.square(p - centres).sum(-1) + 1e-6) - sizes) / 0.2)

    def shade(centres, sizes):
        y, x = jnp.meshgrid(jnp.linspace(-0.6, 0.6, height), jnp.linspace(-1, 1, width), indexing="ij")
        rays = jnp.stack([x, y, jnp.ones_like(x)], -1).reshape(-1, 3)
        rays = rays / jnp.linalg.norm(rays, axis=-1, keepdims=True)

        def one(ray):
            def march(t, _):
                return t + jnp.clip(far(t * ray, centres, sizes), 0, 1), None
            p = lax.scan(march, jnp.float32(0), None, steps)[0] * ray
            d, normal = jax.value_and_grad(far)(p, centres, sizes)
            return jax.nn.sigmoid(-9 * d) * jax.nn.relu(normal @ jnp.array([0.5, -0.7, -0.5]))
        return jax.vmap(one)(rays).reshape(height, width)
    return (backward(shade), f32(height, width), Arg((balls, 3), F32, low=-1, high=3),
            Arg((balls,), F32, low=0.3, high=0.8))


@module("sha256_of_counters_u32", "bits", {"count": 65537, "rounds": 64}, {"count": 3, "rounds": 64})
def _(count, rounds):
    """One block of SHA-256 for each counter: a schedule in a scan, 64 rounds in another."""
    def turn(x, n):
        return (x >> n) | (x << (32 - n))

    def run(message, constants, start):
        def extend(w, _):
            s0 = turn(w[1], 7) ^ turn(w[1], 18) ^ (w[1] >> 3)
            s1 = turn(w[14], 17) ^ turn(w[14], 19) ^ (w[14] >> 10)
            new = w[0] + s0 + w[9] + s1
            return jnp.concatenate([w[1:], new[None]]), w[0]
        block = jnp.concatenate([jnp.arange(count, dtype=U32)[None],
                                 jnp.broadcast_to(message[:, None], (15, count))])
        w = lax.scan(extend, block, None, rounds)[1]

        def step(s, given):
            w, k = given
            a, b, c, d, e, f, g, h = s
            one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + k + w
            two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
            return (one + two, a, b, c, d + one, e, f, g), None
        first = tuple(jnp.broadcast_to(start[i], (count,)) for i in range(8))
        end = lax.scan(step, first, (w, constants))[0]
        return jnp.stack([x + y for x, y in zip(first, end)], -1)
    words = Arg((rounds,), U32, low=0, high=2**32)
    return run, Arg((15,), U32, low=0, high=2**32), words, Arg((8,), U32, low=0, high=2**32)


@module("escape_times_c64", "complex", {"height": 777, "width": 1280, "steps": 50},
        {"height": 5, "width": 7, "steps": 9}, mismatch=0.01)
def _(height, width, steps):
    """Mandelbrot's set: complex numbers in a while loop until all have escaped, smooth colours."""
    def run(centre, span):
        y, x = jnp.linspace(-1, 1, height), jnp.linspace(-1, 1, width)
        c = lax.complex(centre[0] + span * x[None, :] + 0 * y[:, None], centre[1] + span * y[:, None] + 0 * x[None, :])

        def body(state):
            i, z, count = state
            alive = jnp.abs(z) < 4
            return i + 1, jnp.where(alive, z * z + c, z), count + alive
        _, z, count = lax.while_loop(lambda s: (s[0] < steps) & (jnp.abs(s[1]) < 4).any(), body,
                                     (0, jnp.zeros_like(c), jnp.zeros((height, width), I32)))
        return count, jnp.where(jnp.abs(z) >= 4, count - jnp.log2(jnp.log(jnp.maximum(jnp.abs(z), 1.1))), 0)
    return run, f32(2, scale=0.3), Arg((), F32, low=1, high=2)
