#!/usr/bin/env python3
"""Functions of strata.jax in programs of XLA on a GPU: custom calls on XLA's stream, without calls back to the host.

usage: check_jax_ffi.py

Needs JAX with CUDA and the package strata; the direct call that is timed needs PyTorch with CUDA, too. Compares values
with JAX's own, and prints times beside jax.jit of the same function. About 40 s. The exit code is the number of
failures."""

import functools
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from checks import tried

import strata
import strata.jax

jit = functools.partial(strata.jax.jit, search_seconds=0)


def plain_mlp(x, w1, w2):
    return jax.nn.silu(x @ w1) @ w2 + x


def plain_steps(x, w):
    """Several kernels that no fusion makes one."""
    y = jax.nn.softmax(x @ w, axis=-1)
    return jnp.cumsum(y, axis=0) * x.sum(), jnp.sort(y, axis=-1)


mlp, steps = jit(plain_mlp), jit(plain_steps)


def normal(seed, *shape, dtype=jnp.float32):
    return (jax.random.normal(jax.random.key(seed), shape) / shape[-1] ** 0.25).astype(dtype)


def weights(size=256, inner=512, dtype=jnp.float32):
    return normal(2, size, inner, dtype=dtype), normal(3, inner, size, dtype=dtype)


def agree(found, expected, tolerance=2e-2):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape, (one.aval, other.aval)
        one, other = np.asarray(one).astype(np.complex128), np.asarray(other).astype(np.complex128)
        error = np.linalg.norm(one - other) / (np.linalg.norm(other) or 1)
        assert error <= tolerance, f"relative error {error:.2e}"


def is_xlas(function, *arguments):
    """The function compiled for the arguments, with the custom call and no callback in its text."""
    lowered = jax.jit(function).lower(*arguments)
    text = lowered.as_text()
    assert "@strata_call" in text and "callback" not in text, text
    compiled = lowered.compile()
    assert "callback" not in compiled.as_text()
    return compiled


def compare(function, plain, *arguments, tolerance=2e-2):
    compiled = is_xlas(function, *arguments)
    for _ in range(5):
        found = compiled(*arguments)
    agree(found, jax.jit(plain)(*arguments), tolerance)


def under_jit():
    x, (w1, w2) = normal(1, 128, 256), weights()
    compare(mlp, plain_mlp, x, w1, w2)
    compare(lambda x, a, b: mlp(x * 2, a / 2, b) + 1, lambda x, a, b: plain_mlp(x * 2, a / 2, b) + 1, x, w1, w2)
    compare(steps, plain_steps, x, normal(4, 256, 64))
    compare(lambda x, w: jit(plain_steps)(x.T, w), lambda x, w: plain_steps(x.T, w), x.T, normal(4, 256, 64))


def transformed():
    x, (w1, w2) = normal(1, 8, 32, 256), weights()
    compare(jax.vmap(mlp, (0, None, None)), jax.vmap(plain_mlp, (0, None, None)), x, w1, w2)

    def loss(f, w1, w2):
        return (f(x[0], w1, w2) ** 2).mean()

    both = (0, 1)
    compare(jax.grad(functools.partial(loss, mlp), both), jax.grad(functools.partial(loss, plain_mlp), both), w1, w2)
    compare(*(jax.grad(lambda w, f=f: jax.grad(functools.partial(loss, f))(w, w2).sum()) for f in (mlp, plain_mlp)),
            w1)


def in_loops():
    x, (w1, w2) = normal(1, 64, 256) / 4, weights()

    def scanned(f, x):
        return jax.lax.scan(lambda c, _: (jnp.tanh(f(c, w1, w2)), c.sum()), x, None, length=10)

    def looped(f, x):
        return jax.lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 1, jnp.tanh(f(s[1], w1, w2))), (0, x))[1]

    def chosen(f, x):
        return jax.lax.cond(x.sum() > 1e9, lambda x: x, lambda x: f(x, w1, w2), x)

    for wrapped in (scanned, looped, chosen):
        compare(functools.partial(wrapped, mlp), functools.partial(wrapped, plain_mlp), x)


def of_all_kinds_of_arrays():
    """not aligned, empty, donated, of other types, large constants"""
    x = normal(1, 33, 65)
    odd = jit(lambda x, y: (x * 2 + y.sum(), jnp.cumsum(y, -1)))
    plain = lambda x, y: (x * 2 + y.sum(), jnp.cumsum(y, -1))  # noqa: E731
    for size in (1, 3, 31, 33):  # XLA's temporary arrays then begin at multiples of 128, not of 256
        compare(lambda x, s=size: odd(x[1:, :s] + 1, x[:s] * 3), lambda x, s=size: plain(x[1:, :s] + 1, x[:s] * 3), x)
    empty = jnp.zeros((0, 7))
    compare(jit(lambda x, y: (x + 1, y * 2)), lambda x, y: (x + 1, y * 2), empty, x)
    for dtype in (jnp.bfloat16, jnp.float16, jnp.int32, jnp.int8, jnp.bool_, jnp.complex64):
        y = (x * 4).astype(dtype)
        compare(jit(lambda y: (y.T, y[::2])), lambda y: (y.T, y[::2]), y)

    donated = jax.jit(lambda x: odd(x, x)[0], donate_argnums=0)
    agree(donated(x + 0), plain(x, x)[0])
    kept = x + 0
    for _ in range(6):
        kept = donated(kept) / 100
    agree(jax.jit(lambda x: functools.reduce(lambda x, _: plain(x, x)[0] / 100, range(6), x))(x), kept)
    constant = np.random.default_rng(1).standard_normal((65, 65)).astype(np.float32)
    compare(jit(lambda x: x @ constant), lambda x: x @ constant, x)


def on_both_platforms():
    x, (w1, w2) = normal(1, 16, 256), weights()
    run, cpu = jax.jit(mlp), jax.devices("cpu")[0]
    on_gpu = run(x, w1, w2)
    on_cpu = run(*(jax.device_put(one, cpu) for one in (x, w1, w2)))
    assert on_gpu.devices() == x.devices() and on_cpu.devices() == {cpu}
    agree(on_gpu, on_cpu)
    text = jax.jit(mlp).trace(x, w1, w2).lower(lowering_platforms=("cpu", "cuda")).as_text()
    assert text.count("@strata_call") >= 2 and "callback" not in text
    with jax.disable_jit():
        agree(mlp(x, w1, w2), on_cpu)


def steps_of_the_host_and_solvers():
    """steps without a kernel (a host step waits), and libraries"""
    a = normal(1, 64, 64)
    a = a @ a.T + 64 * jnp.eye(64)
    compare(jit(jnp.linalg.inv), jnp.linalg.inv, a)
    compare(jit(lambda a: jnp.linalg.cholesky(a)), lambda a: jnp.linalg.cholesky(a), a)
    compare(jit(lambda x: jnp.abs(jnp.fft.rfft(x))), lambda x: jnp.abs(jnp.fft.rfft(x)), a)

    def doubled(x):  # a loop whose end depends on data
        return jax.lax.while_loop(lambda x: x.sum() < 1e5, lambda x: x * 2, x)

    compare(jit(doubled), doubled, jnp.abs(a))


def with_calls_outside():
    """calls in XLA's programs and direct ones share a module's memory"""
    try:
        import torch  # noqa: F401
    except ImportError:
        return "NOT RUN: direct calls need torch"
    x, w = normal(1, 128, 256), normal(4, 256, 64)
    inside, expected = jax.jit(steps), jax.jit(plain_steps)
    waiting = []
    for n in range(30):
        waiting.append((inside(x + n, w), n))
        agree(steps(x - n, w), expected(x - n, w))
    for found, n in waiting:
        agree(found, expected(x + n, w))
    return None


def another_device():
    if len(jax.devices()) < 2:
        return "NOT RUN: one GPU"
    x = [jax.device_put(one, jax.devices()[1]) for one in (normal(1, 128, 256), *weights())]
    try:
        jax.block_until_ready(jax.jit(mlp)(*x))
    except Exception as error:
        assert "put the arrays on the first GPU" in str(error), error
        return "refused"
    raise AssertionError("a call on another GPU went through")


def microseconds(function, *arguments, calls=200):
    """Of one call among many that are put on the stream without waiting; the median of 5."""
    for _ in range(10):
        found = function(*arguments)
    jax.block_until_ready(found)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(calls):
            found = function(*arguments)
        jax.block_until_ready(found)
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(times)


def times():
    for rows, size, inner in ((16, 256, 512), (256, 1024, 4096)):
        w1, w2 = weights(size, inner, jnp.bfloat16)
        x = normal(1, rows, size, dtype=jnp.bfloat16)
        line = [f"mlp {rows}x{size}x{inner} bf16, us a call: jax.jit {microseconds(jax.jit(plain_mlp), x, w1, w2):.1f}",
                f"jax.jit(strata.jax.jit) {microseconds(jax.jit(mlp), x, w1, w2):.1f}"]
        ten, plain_ten = (jax.jit(lambda x, f=f: functools.reduce(lambda x, _: f(x, w1, w2) / 4, range(10), x))
                          for f in (mlp, plain_mlp))  # fmt: skip
        line.append(f"ten in one program: {microseconds(plain_ten, x, calls=50):.1f} and "
                    f"{microseconds(ten, x, calls=50):.1f}")
        try:
            line.append(f"called directly {microseconds(mlp, x, w1, w2, calls=50):.1f}")
        except strata.Error as error:
            line.append(f"called directly: {str(error).splitlines()[0]}")
        print("; ".join(line), flush=True)


def main():
    if jax.default_backend() != "gpu":
        sys.exit("JAX has no GPU")
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}", flush=True)
    jax.config.update("jax_default_matmul_precision", "highest")
    checks = (under_jit, transformed, in_loops, of_all_kinds_of_arrays, on_both_platforms,
              steps_of_the_host_and_solvers, with_calls_outside, another_device, times)
    begin = time.perf_counter()
    failures = 0
    for check in checks:
        failures += tried(check.__name__, check)
        print(f"  after {time.perf_counter() - begin:.1f} s", flush=True)
    sys.exit(failures)


if __name__ == "__main__":
    main()
