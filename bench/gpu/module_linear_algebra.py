"""Modules of modules.py that factor, solve and draw bits: what JAX for CUDA writes as calls of cuSOLVER and cuBLAS, and
rng-bit-generator.
"""
import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
from jax import lax

from module_families import F32, Arg, f32, module

FAMILY = "linear algebra"


def positive(a):
    return a @ a.mT / a.shape[-1] + jnp.eye(a.shape[-1], dtype=a.dtype)


def dominant(a):
    return a / a.shape[-1] ** 0.5 + 3 * jnp.eye(a.shape[-1], dtype=a.dtype)


def cholesky(*dims):
    return lambda a: jnp.linalg.cholesky(positive(a)), f32(*dims)


@module("cholesky_517_f32", FAMILY, {"dims": (517, 517)}, {"dims": (17, 17)})
@module("cholesky_2048_f32", FAMILY, {"dims": (2048, 2048)}, {"dims": (131, 131)})
@module("cholesky_257_of_33_f32", FAMILY, {"dims": (257, 33, 33)}, {"dims": (3, 7, 7)})
@module("cholesky_3001_of_5_f32", FAMILY, {"dims": (3001, 5, 5)}, {"dims": (7, 5, 5)})
def _(dims):
    return cholesky(*dims)


@module("cholesky_grad_f32", FAMILY, {"batch": 7, "size": 93}, {"batch": 2, "size": 9})
def _(batch, size):
    return jax.grad(lambda a: jnp.sin(jnp.linalg.cholesky(positive(a))).sum()), f32(batch, size, size)


@module("triangular_1025_f32", FAMILY, {"size": 1025, "columns": 65}, {"size": 140, "columns": 3})
def _(size, columns):
    return lambda a, b: linalg.solve_triangular(dominant(a), b, lower=True), f32(size, size), f32(size, columns)


@module("solve_301_f32", FAMILY, {"batch": (), "size": 301, "columns": 40}, {"batch": (), "size": 13, "columns": 3})
@module("solve_129_of_19_f32", FAMILY, {"batch": (129,), "size": 19, "columns": 3},
        {"batch": (3,), "size": 5, "columns": 2})
def _(batch, size, columns):
    return (lambda a, b: jnp.linalg.solve(dominant(a), b), f32(*batch, size, size), f32(*batch, size, columns))


@module("inverse_slogdet_f32", FAMILY, {"batch": 31, "size": 47}, {"batch": 2, "size": 5})
def _(batch, size):
    return lambda a: (jnp.linalg.inv(dominant(a)), *jnp.linalg.slogdet(dominant(a))), f32(batch, size, size)


@module("qr_769_257_f32", FAMILY, {"dims": (769, 257)}, {"dims": (17, 9)})
@module("qr_61_of_45_21_f32", FAMILY, {"dims": (61, 45, 21)}, {"dims": (3, 7, 4)})
def _(dims):
    return lambda a: jnp.linalg.qr(a), f32(*dims)


@module("least_squares_grad_f32", FAMILY, {"rows": 1021, "columns": 65}, {"rows": 13, "columns": 4})
def _(rows, columns):
    """The gradient of a loss of what a least-squares fit predicts."""
    def loss(a, b):
        q, r = jnp.linalg.qr(a)
        return jnp.sin(a[:7] @ linalg.solve_triangular(r, q.T @ b)).sum()
    return jax.grad(loss), f32(rows, columns), f32(rows, 3)


@module("gaussian_process_f32", FAMILY, {"points": 403, "tests": 97}, {"points": 11, "tests": 5})
def _(points, tests):
    """Mean and variance of a Gaussian process at other places."""
    def kernel(x, y):
        return jnp.exp(-2.0 * jnp.sum((x[:, None] - y[None]) ** 2, -1))

    def predict(x, y, at):
        factor = linalg.cho_factor(kernel(x, x) + 0.1 * jnp.eye(points, dtype=F32), lower=True)
        across = kernel(at, x)
        return across @ linalg.cho_solve(factor, y), 1.0 - jnp.sum(across.T * linalg.cho_solve(factor, across.T), 0)
    return predict, Arg((points, 3), F32, low=0, high=2), f32(points), Arg((tests, 3), F32, low=0, high=2)


@module("kalman_step_f32", FAMILY, {"batch": 513, "states": 12, "seen": 5}, {"batch": 3, "states": 4, "seen": 2})
def _(batch, states, seen):
    def step(mean, root, transition, observe, y):
        covariance = positive(root)
        ahead = jnp.einsum("ij,bj->bi", transition, mean)
        spread = transition @ covariance @ transition.T + 0.1 * jnp.eye(states, dtype=F32)
        innovation = observe @ spread @ observe.T + jnp.eye(seen, dtype=F32)
        gain = jnp.linalg.solve(innovation, observe @ spread).mT
        return (ahead + jnp.einsum("bij,bj->bi", gain, y - ahead @ observe.T),
                spread - gain @ observe @ spread)
    return (step, f32(batch, states), f32(batch, states, states), f32(states, states, scale=states ** -0.5),
            f32(seen, states, scale=states ** -0.5), f32(batch, seen))


@module("rng_bits_normal_f32", FAMILY, {"dims": (1021, 333)}, {"dims": (7, 11)})
def _(dims):
    """Bits of XLA's own generator (the implementation `rbg`) as normal numbers."""
    def draw(data):
        bits = lax.rng_bit_generator(data, dims, jnp.uint32)[1]
        unit = (bits >> 9).astype(F32) * 2.0**-23 + 2.0**-24
        return lax.erf_inv(2 * unit - 1)
    return draw, Arg((4,), jnp.uint32, low=0, high=2**31)
