"""Modules of modules.py whose products share an operand among batches: heads of queries that share keys, written by
repeating these as models of Hugging Face and jnp.repeat do, and batches that have one matrix on either side. Beside
them, running sums of 16-bit floats.
"""
import jax
import jax.numpy as jnp
from jax import lax

from module_families import BF16, F32, I8, I32, Arg, module

FAMILY = "shared operands"
F16 = jnp.float16


def repeated(x, groups, axis):
    """repeat_kv: torch's expand and reshape."""
    inside = jnp.expand_dims(x, axis + 1)
    whole = (*x.shape[:axis + 1], groups, *x.shape[axis + 1:])
    return jnp.broadcast_to(inside, whole).reshape(*x.shape[:axis], -1, *x.shape[axis + 1:])


def attend(q, k, v, mask=None):
    """Heads before places."""
    scores = jnp.matmul(q, k.swapaxes(2, 3)) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return jnp.matmul(jax.nn.softmax(scores.astype(F32), -1).astype(q.dtype), v)


@module("repeat_kv_step_bf16", FAMILY, {"batch": 8, "keys": 1024, "kv": 8, "groups": 4, "queries": 1, "type_": BF16},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3})
@module("repeat_kv_step_odd_f16", FAMILY, {"batch": 5, "keys": 2047, "kv": 3, "groups": 7, "queries": 1, "type_": F16},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3})
@module("repeat_kv_step_f32", FAMILY, {"batch": 3, "keys": 1333, "kv": 5, "groups": 3, "queries": 1, "type_": F32},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3})
@module("repeat_kv_draft_bf16", FAMILY, {"batch": 3, "keys": 1777, "kv": 4, "groups": 6, "queries": 5, "type_": BF16},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3})
@module("repeat_kv_prompt_bf16", FAMILY,
        {"batch": 2, "keys": 1000, "kv": 4, "groups": 5, "queries": 1000, "type_": BF16},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3, "queries": 9})
def _(batch, keys, kv, groups, queries, type_, size=128):
    """One query a sequence, or a few that are checked at once, or a prompt."""
    def run(q, k, v, place):
        mask = jnp.arange(keys) <= place[:, None, None, None] + jnp.arange(queries)[:, None]
        return attend(q, repeated(k, groups, 1), repeated(v, groups, 1), mask)
    cache = Arg((batch, kv, keys, size), type_)
    return (run, Arg((batch, kv * groups, queries, size), type_), cache, cache,
            Arg((batch,), I32, low=keys // 2, high=keys))


@module("repeat_kv_ring_step_bf16", FAMILY, {"batch": 6, "keys": 1537, "kv": 4, "groups": 5},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3}, donated={3: 1, 4: 2})
def _(batch, keys, kv, groups, size=128):
    """The caches are rings, each sequence at a place of its own, which the step writes to first."""
    def run(q, k, v, keys_before, values_before, place):
        def put(cache, new):
            return jax.vmap(lambda c, n, i: lax.dynamic_update_slice(c, n, (i, 0, 0)))(cache, new, place % keys)
        k, v = put(keys_before, k), put(values_before, v)
        mask = (jnp.arange(keys) <= place[:, None])[:, None, None]
        heads = (jnp.repeat(x, groups, 2).swapaxes(1, 2) for x in (k, v))
        return attend(q.swapaxes(1, 2), *heads, mask), k, v
    new, cache = Arg((batch, 1, kv, size), BF16), Arg((batch, keys, kv, size), BF16)
    return (run, Arg((batch, 1, kv * groups, size), BF16), new, new, cache, cache,
            Arg((batch,), I32, low=keys // 2, high=3 * keys))


@module("tiled_kv_step_bf16", FAMILY, {"batch": 4, "keys": 1801, "kv": 4, "groups": 4},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3})
def _(batch, keys, kv, groups, size=96):
    """Heads of a group lie apart, as jnp.tile leaves them."""
    def run(q, k, v):
        k, v = (jnp.tile(x, (1, 1, groups, 1)) for x in (k, v))
        scores = jnp.einsum("bhd,bkhd->bhk", q, k).astype(F32) * size ** -0.5
        return jnp.einsum("bhk,bkhd->bhd", jax.nn.softmax(scores, -1).astype(BF16), v)
    cache = Arg((batch, keys, kv, size), BF16)
    return run, Arg((batch, kv * groups, size), BF16), cache, cache


@module("repeat_kv_of_bytes_step_bf16", FAMILY, {"batch": 4, "keys": 1025, "kv": 8, "groups": 4},
        {"batch": 2, "keys": 9, "kv": 2, "groups": 3}, tolerance=2)
def _(batch, keys, kv, groups, size=128):
    """The cache has integers, and a scale for each key."""
    def run(q, k, v, of_k, of_v):
        k, v = (repeated(x.astype(BF16) * scale[..., None], groups, 1) for x, scale in ((k, of_k), (v, of_v)))
        return attend(q, k, v)
    cache = Arg((batch, kv, keys, size), I8, low=-127, high=128)
    scales = Arg((batch, kv, keys), BF16, low=0.005, high=0.01)
    return run, Arg((batch, kv * groups, 1, size), BF16), cache, cache, scales, scales


@module("bmm_of_one_right_f16", FAMILY, {"batch": 33, "rows": 65, "terms": 520, "columns": 264, "left": False},
        {"batch": 3, "rows": 5, "terms": 70, "columns": 8})
@module("bmm_of_one_left_f16", FAMILY, {"batch": 33, "rows": 65, "terms": 520, "columns": 264, "left": True},
        {"batch": 3, "rows": 5, "terms": 70, "columns": 8})
def _(batch, rows, terms, columns, left):
    """Matrices that all are multiplied by one."""
    if left:
        return (lambda w, x: jnp.matmul(jnp.broadcast_to(w, (batch, *w.shape)), x), Arg((columns, terms), F16),
                Arg((batch, terms, rows), F16))
    return (lambda x, w: jnp.matmul(x, jnp.broadcast_to(w, (batch, *w.shape))), Arg((batch, rows, terms), F16),
            Arg((terms, columns), F16))


@module("cumsum_rows_bf16", FAMILY, {"rows": 513, "length": 3000, "axis": 1, "type_": BF16}, {"rows": 3, "length": 40})
@module("cumsum_columns_f16", FAMILY, {"rows": 3001, "length": 514, "axis": 0, "type_": F16},
        {"rows": 40, "length": 3})
def _(rows, length, axis, type_):
    return lambda x: jnp.cumsum(x, axis), Arg((rows, length), type_)
