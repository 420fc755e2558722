#!/usr/bin/env python3
"""A function of JAX by Strata: as `strata.jax.jit`, and by way of HLO text, which needs no JAX where it runs.

    PYTHONPATH=build/release/python python examples/jax_hlo.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import strata
import strata.jax


def attention(q, k, v):
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v


def main():
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((32, 16)).astype(np.float32) for _ in range(3))
    expected = np.asarray(jax.jit(attention)(q, k, v))

    found = np.asarray(strata.jax.jit(attention)(q, k, v))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    module = strata.compile_hlo(jax.jit(attention).lower(q, k, v).as_text("hlo"), target="cpu")
    print(module)
    print(module.explain())
    (again,) = module(q, k, v)
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
