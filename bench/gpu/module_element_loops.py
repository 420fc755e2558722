"""Modules of modules.py whose loops take each element its own way: searches, roots, fractals, ODEs, recurrent scans.
None needs a barrier between iterations, and what a loop hands on fits into registers."""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, Arg, around_one, bf16, f32, ints, module


@module("searchsorted_quantiles_f32", "element loops", {"table": 100003, "queries": 1 << 20},
        {"table": 37, "queries": 19})
def _(table, queries):
    """Which of many quantiles each value lies in: 17 halvings, each a gather."""
    return (lambda edges, x: jnp.searchsorted(edges, x, side="right"),
            Arg((table,), F32, low=-3, high=3, sorted=True), f32(queries))


@module("digitize_and_interpolate_f32", "element loops", {"table": 513, "queries": 300007}, {"table": 9, "queries": 23})
def _(table, queries):
    """Inverse transform sampling: a search in sums of a density, and the line between two of them."""
    def run(density, u):
        sums = jnp.cumsum(density) / density.sum()
        at = jnp.clip(jnp.searchsorted(sums, u), 1, table - 1)
        low, high = sums[at - 1], sums[at]
        return at - 1 + (u - low) / (high - low)
    return run, around_one(F32, table), Arg((queries,), F32, low=0, high=1)


@module("mandelbrot_256_f32", "element loops", {"rows": 1080, "columns": 1920}, {"rows": 6, "columns": 11},
        mismatch=0.01)  # near the border of the set rounding decides when a point leaves
def _(rows, columns):
    """Steps until a point leaves, of at most 256, counted."""
    def run(low, high):
        y = jnp.linspace(low[0], high[0], rows)[:, None] + jnp.zeros((rows, columns))
        x = jnp.linspace(low[1], high[1], columns) + jnp.zeros((rows, columns))

        def step(_, state):
            a, b, n = state
            inside = a * a + b * b < 4
            return (jnp.where(inside, a * a - b * b + x, a), jnp.where(inside, 2 * a * b + y, b),
                    n + inside.astype(jnp.int32))
        return lax.fori_loop(0, 256, step, (jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros(x.shape, jnp.int32)))[2]
    return run, Arg((2,), F32, low=-1.25, high=-1.0), Arg((2,), F32, low=0.5, high=1.0)


@module("kepler_newton_until_each_f32", "element loops", {"orbits": 1 << 20}, {"orbits": 29})
def _(orbits):
    """Eccentric anomalies: Newton's method for each orbit until its own change is small (a while under vmap)."""
    def solve(mean, eccentricity):
        def goes_on(state):
            return (jnp.abs(state[1]) > 1e-5) & (state[2] < 40)

        def step(state):
            e, _, n = state
            change = (e - eccentricity * jnp.sin(e) - mean) / (1 - eccentricity * jnp.cos(e))
            return e - change, change, n + 1
        return lax.while_loop(goes_on, step, (mean, jnp.float32(1), jnp.int32(0)))[0]
    return jax.vmap(solve), Arg((orbits,), F32, low=0, high=3.1), Arg((orbits,), F32, low=0, high=0.9)


@module("implied_volatility_bisection_f32", "element loops", {"options": 200003}, {"options": 17})
def _(options):
    """Volatilities of prices by the formula of Black and Scholes, 40 halvings."""
    def run(spot, strike, price):
        def value(sigma):
            d1 = jnp.log(spot / strike) / sigma + sigma / 2
            cdf = jax.scipy.stats.norm.cdf
            return spot * cdf(d1) - strike * cdf(d1 - sigma)

        def step(_, bounds):
            low, high = bounds
            middle = (low + high) / 2
            above = value(middle) > price
            return jnp.where(above, low, middle), jnp.where(above, middle, high)
        low, high = lax.fori_loop(0, 40, step, (jnp.full_like(spot, 1e-3), jnp.full_like(spot, 4)))
        return (low + high) / 2
    return run, around_one(F32, options), around_one(F32, options), Arg((options,), F32, low=0.1, high=0.4)


@module("lorenz_rk4_particles_f32", "element loops", {"particles": 100000, "steps": 500},
        {"particles": 13, "steps": 50}, tolerance=20)
def _(particles, steps):
    """Independent systems of three equations by Runge and Kutta's method, too short a time for chaos."""
    def run(x, y, z, rho):
        def change(state):
            x, y, z = state
            return 10 * (y - x), x * (rho - z) - y, x * y - z * (8 / 3)

        def moved(state, by, h):
            return tuple(a + h * b for a, b in zip(state, by))

        def step(_, state):
            h = 1e-3
            k1 = change(state)
            k2 = change(moved(state, k1, h / 2))
            k3 = change(moved(state, k2, h / 2))
            k4 = change(moved(state, k3, h))
            return tuple(s + h / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4))
        return lax.fori_loop(0, steps, step, (x, y, z))
    return run, f32(particles), f32(particles), f32(particles), around_one(F32, particles)


@module("gated_recurrence_scan_bf16", "element loops", {"batch": 32, "steps": 2048, "width": 1024},
        {"batch": 2, "steps": 5, "width": 7}, tolerance=4)
def _(batch, steps, width):
    """A recurrence with gates that need no product (as of RG-LRU and SRU), rows of all steps as results."""
    def run(h, x, gate, bias):
        def step(h, row):
            x, gate = row
            a = jax.nn.sigmoid(gate + bias)
            h = a * h + jnp.sqrt(1 - a * a) * x
            return h, jnp.tanh(h)
        return lax.scan(step, h, (x, gate))
    return run, bf16(batch, width), bf16(steps, batch, width), bf16(steps, batch, width), bf16(width)


@module("leaky_spiking_neurons_f32", "element loops", {"neurons": 65537, "steps": 400}, {"neurons": 9, "steps": 6})
def _(neurons, steps):
    """Membranes that leak, fire and are reset; who fires in each step."""
    def run(v, current):
        def step(state, now):
            v, rest = state
            v = jnp.where(rest > 0, 0, 0.9 * v + now)
            fires = v > 1
            return (jnp.where(fires, 0, v), jnp.where(fires, 3, jnp.maximum(rest - 1, 0))), fires
        (v, _), fired = lax.scan(step, (v, jnp.zeros(neurons, jnp.int32)), current)
        return v, fired
    return run, f32(neurons), f32(steps, neurons, scale=0.4)


@module("returns_backwards_gae_f32", "element loops", {"environments": 4099, "steps": 1000},
        {"environments": 7, "steps": 6})
def _(environments, steps):
    """Generalized advantages, from the last step to the first one."""
    def run(rewards, values, done, last):
        def step(state, now):
            advantage, after = state
            reward, value, ends = now
            goes_on = 1 - ends.astype(F32)
            advantage = reward + 0.99 * after * goes_on - value + 0.99 * 0.95 * goes_on * advantage
            return (advantage, value), advantage
        first = (jnp.zeros_like(last), last)
        advantages = lax.scan(step, first, (rewards, values, done), reverse=True)[1]
        return advantages, advantages + values
    return (run, f32(steps, environments), f32(steps, environments), ints(2, steps, environments),
            f32(environments))


@module("polynomials_clenshaw_f32", "element loops", {"points": 50021, "terms": 200}, {"points": 7, "terms": 9})
def _(points, terms):
    """A Chebyshev series at many points by Clenshaw's recurrence, few points and a long chain."""
    def run(x, coefficients):
        def step(state, c):
            a, b = state
            return (c + 2 * x * a - b, a), None
        zero = jnp.zeros_like(x)
        a, b = lax.scan(step, (zero, zero), coefficients, reverse=True)[0]
        return a - x * b
    return run, Arg((points,), F32, low=-1, high=1), f32(terms)


@module("collatz_until_each_s32", "element loops", {"numbers": 500000}, {"numbers": 21})
def _(numbers):
    """Steps to 1, each number its own: some take ten, some hundreds."""
    def steps(x):
        return lax.while_loop(lambda s: s[0] > 1,
                              lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
                              (x, jnp.int32(0)))[1]
    return jax.vmap(steps), ints(100000, numbers, low=1)


@module("noise_process_few_chains_bf16", "element loops", {"chains": 96, "steps": 5000}, {"chains": 5, "steps": 7},
        tolerance=8)
def _(chains, steps):
    """Few long chains: mean reversion with given noise, rounded in each step."""
    def run(x, noise):
        def step(x, n):
            x = x + BF16(0.0625) * (BF16(1) - x) + BF16(0.125) * n
            return x, x
        return lax.scan(step, x, noise)
    return run, bf16(chains), bf16(steps, chains)
