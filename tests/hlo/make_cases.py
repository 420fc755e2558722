#!/usr/bin/env python3
"""Writes the cases of this folder: functions of JAX as HLO text, their arguments and what JAX computes from them.

usage: make_cases.py FOLDER    needs jax (CPU), which the tests themselves do not

NAME.hlo is what JAX prints; NAME.values has a line "in SHAPE VALUES" for each argument and "out SHAPE VALUES" for each
result. Cases whose name ends in _optimised are texts after XLA's passes for the CPU, with fusions and layouts; those
whose name ends in _tpu or _cuda are texts as lowered for TPUs and for CUDA, where the CPU's have calls of LAPACK.
Values are the CPU's.
"""

import os
import pathlib
import re
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo as hlo

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(5)


def f32(*shape):
    return random.standard_normal(shape).astype(np.float32)


def integers(low, high, *shape, dtype=np.int32):
    return random.integers(low, high, shape).astype(dtype)


def bits_of(dtype):
    limits = np.iinfo(dtype)
    return (np.array([limits.min, limits.max, 0, 1, 3, 100, limits.max - 1, 7], dtype),
            np.array([1, 0, 0, limits.max, 2, 9, limits.max, 31], dtype))


def layer_norm(x, scale, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(2)
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def pool(x, op=lax.max, init=-np.float32(np.inf)):
    return lax.reduce_window(x, init, op, (3, 2), (2, 1), "SAME")


def convolution(x, w, **how):
    return lax.conv_general_dilated(x, w, **{"window_strides": (1, 1), "padding": "SAME", **how})


def c64(*shape):
    return (f32(*shape) + 1j * f32(*shape)).astype(np.complex64)


def triangular(*shape):
    """Triangular on both sides of the diagonal alike, and far from singular."""
    return f32(*shape) * np.float32(0.3) + 2 * np.eye(shape[-1], dtype=np.float32)


def solve_triangular(a, b, **how):
    return lax.linalg.triangular_solve(a, b, **how)


def batch_norm_operator(name, builder, shapes):
    """A function of JAX that is one operator of StableHLO, with a number per place of dimension 1."""
    primitive = jax.extend.core.Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *a: [jax.core.ShapedArray(s.shape, s.dtype) for s in shapes(a)])

    def lower(context, *operands):
        result = builder(*operands, np.float32(1e-3), 1)
        return getattr(result, "results", None) or [result]

    mlir.register_lowering(primitive, lower)
    return lambda *operands: primitive.bind(*operands)


batch_norm_training = batch_norm_operator("batch_norm_training", hlo.BatchNormTrainingOp, lambda a: (a[0], a[1], a[1]))
batch_norm_inference = batch_norm_operator("batch_norm_inference", hlo.BatchNormInferenceOp, lambda a: a[:1])
batch_norm_grad = batch_norm_operator("batch_norm_grad", hlo.BatchNormGradOp, lambda a: (a[0], a[1], a[1]))


def positive(array):
    return np.abs(array) + np.float32(0.5)


def small_float(dtype):
    return lambda x, y: (x.astype(dtype), (x.astype(dtype) * y.astype(dtype)).astype(jnp.float32))


def integer_operators(a, b):
    return (a + b, a * b, lax.div(a, b), lax.rem(a, b), lax.shift_left(a, b), lax.shift_right_logical(a, b),
            lax.shift_right_arithmetic(a, b), lax.population_count(a), lax.clz(a), a ^ ~b, lax.max(a, b))


SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 1e10, -1e10, 300], np.float32)
ODD_FLOATS = np.concatenate([SPECIAL, np.linspace(-20, 20, 17), np.exp(np.linspace(-14, 9, 20))]).astype(np.float32)

CASES = {
    "elementwise": (lambda x: (jnp.sin(x), jnp.tanh(x), lax.erf(x), jnp.cbrt(x), jnp.expm1(x), lax.logistic(x)),
        f32(9)),
    "special_values": (lambda x: (jnp.sqrt(x), jnp.sign(x), jnp.rint(x), lax.round(x), jnp.floor(x), x < 1,
        jnp.isfinite(x),
                                  lax.max(x, np.float32(1)), x.astype(jnp.int8), x.astype(jnp.uint16)), SPECIAL),
    "power_atan2": (lambda x, y: (jnp.abs(x)**y, jnp.arctan2(x, y), jnp.fmod(x, y)), f32(7), f32(7)),
    "integers_s8": (integer_operators, *bits_of(np.int8)),
    "integers_u16": (integer_operators, *bits_of(np.uint16)),
    "integers_s32": (integer_operators, *bits_of(np.int32)),
    "integers_u64": (integer_operators, *bits_of(np.uint64)),
    "int4": (lambda x, y: (x.astype(jnp.int4) * y.astype(jnp.int4)).astype(jnp.int32), integers(-8, 8, 9),
        integers(-8, 8, 9)),
    "f8e4m3fn": (small_float(jnp.float8_e4m3fn), ODD_FLOATS, ODD_FLOATS[::-1].copy()),
    "f8e5m2": (small_float(jnp.float8_e5m2), ODD_FLOATS, ODD_FLOATS[::-1].copy()),
    "f8e4m3b11fnuz": (small_float(jnp.float8_e4m3b11fnuz), ODD_FLOATS, ODD_FLOATS[::-1].copy()),
    "f16": (small_float(jnp.float16), ODD_FLOATS, ODD_FLOATS[::-1].copy()),
    "complex": (lambda z: (z * z, jnp.exp(z), jnp.sqrt(z), jnp.abs(z), z.real, jnp.conj(z) / z, jnp.tanh(z)),
                (f32(5) + 1j * f32(5)).astype(np.complex64)),
    "bitcasts": (lambda x, b: (lax.bitcast_convert_type(x, jnp.int16), lax.bitcast_convert_type(b, jnp.float32)),
        f32(3),
                 integers(0, 60, 3, 4, dtype=np.uint8)),
    "reduce_precision": (lambda x: (lax.reduce_precision(x, 5, 10), lax.reduce_precision(x, 4, 3)), ODD_FLOATS),
    "clamp_select": (lambda x: (lax.clamp(np.float32(-.5), x, np.float32(.5)), jnp.where(x > 0, x, 2 * x)), f32(9)),
    "pad": (lambda x: lax.pad(x, np.float32(7), ((-1, 2, 3), (1, -2, 0), (0, 0, 2))), f32(3, 5, 4)),
    "pad_reflect": (lambda x: jnp.pad(x, ((1, 2), (2, 3)), mode="reflect"), f32(4, 5)),
    "slices": (lambda x: (x[1:8:3, ::-2], jnp.roll(x, 2, 1), x[3:3]), f32(9, 7)),
    "transpose_concat": (lambda x, y: jnp.concatenate([x.transpose(1, 2, 0), y], 1), f32(2, 3, 4), f32(3, 1, 2)),
    "dynamic_slice": (lambda x, y, i: (lax.dynamic_slice(x, (i, i - 9), (2, 3)), lax.dynamic_update_slice(x, y,
        (i - 3, i))),
                      f32(9, 7), f32(2, 3), np.int32(5)),
    "gather_rows": (lambda x, i: x[i, :, ::2], f32(5, 2, 4), integers(-5, 5, 2, 3)),
    "gather_windows": (lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3),
        mode="clip"),
                       f32(9, 8), integers(-2, 12, 4, 2)),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, axis=1), f32(5, 7), integers(0, 7, 5, 3)),
    "batched_gather": (jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))), f32(5, 7), integers(0, 7, 5)),
    "scatter_add": (lambda x, i, v: x.at[i].add(v), f32(6, 3), integers(-8, 8, 12), f32(12, 3)),
    "scatter_set": (lambda x, i, v: x.at[i].set(v, mode="drop", unique_indices=True), f32(9), np.array([3, 100, -1,
        5], np.int32),
                    f32(4)),
    "scatter_windows": (lambda x, i, v: lax.scatter_mul(x, i, v, lax.ScatterDimensionNumbers((1, 2), (), (0, 1))),
        f32(5, 6),
                        integers(-2, 6, 4, 2), f32(4, 2, 3)),
    "batched_scatter": (jax.vmap(lambda x, i, v: x.at[i].max(v)), f32(3, 6), integers(0, 6, 3, 5), f32(3, 5)),
    "segment_sum": (lambda v, i: jax.ops.segment_sum(v, i, 5), f32(12, 2), integers(0, 5, 12)),
    "one_hot_cross_entropy_grad": (jax.grad(lambda x, y: -jnp.mean(jax.nn.log_softmax(x) * jax.nn.one_hot(y, 7))),
        f32(4, 7),
                                   integers(0, 7, 4)),
    "reductions": (lambda x: (x.sum((0, 2)), x.prod(1), x.max(), jnp.argmax(x, 2), x.mean(), jnp.all(x > -3, 0)),
        f32(3, 4, 5)),
    "reduce_pairs": (lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(1)),
                                             lambda a, b: (a[0] + 2 * b[0], a[1] * b[1]), (1,)), f32(4, 6), f32(4, 6)),
    "reduce_bf16": (lambda x: jnp.sum(x, 1), jnp.asarray(f32(3, 40), jnp.bfloat16)),
    "cumulative": (lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 1, reverse=True), lax.cumlogsumexp(x, 1)), f32(4, 9)),
    "associative_scan": (lambda a, b: lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (a, b)),
        f32(11), f32(11)),
    "sort": (lambda x, y: (jnp.sort(x), jnp.argsort(-x, axis=0), lax.sort((y, x), num_keys=2)), f32(6, 5),
        integers(0, 3, 6, 5)),
    "top_k": (lambda x: lax.top_k(x, 3), f32(4, 9)),
    "unique_nonzero": (lambda x: (jnp.unique(x, size=5), jnp.nonzero(x, size=7), jnp.searchsorted(jnp.sort(x), 2)),
        integers(0, 6, 12)),
    "einsum": (lambda a, b, c: jnp.einsum("abc,abd,ae->cde", a, b, c), f32(2, 3, 4), f32(2, 3, 5), f32(2, 6)),
    "dot_types": (lambda a, b: (jnp.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)), lax.dot(
        (a * 9).astype(jnp.int8), (b * 9).astype(jnp.int8), preferred_element_type=jnp.int32)), f32(3, 5), f32(5, 4)),
    "empty": (lambda x, y: (x @ y, jnp.sin(x), x.sum(0), y.sum(0), jnp.sort(x)), f32(4, 0), f32(0, 6)),
    "convolution": (convolution, f32(2, 3, 6, 5), f32(4, 3, 3, 3)),
    "convolution_dilated": (lambda x, w: convolution(x, w, padding=((2, 1), (3, 0)), lhs_dilation=(2, 3),
        rhs_dilation=(2, 1)),
                            f32(1, 2, 5, 4), f32(3, 2, 3, 2)),
    "convolution_grouped": (lambda x, w: convolution(x, w, feature_group_count=2), f32(2, 4, 5, 4), f32(6, 2, 3, 3)),
    "convolution_grad": (jax.grad(lambda w, x: jnp.sum(convolution(x, w, window_strides=(2, 2))**2)), f32(4, 3, 3,
        3), f32(2, 3, 6, 5)),
    "pooling": (lambda x: (pool(x), pool(x, lax.add, np.float32(0))), f32(6, 7)),
    "pooling_grad": (jax.grad(lambda x: jnp.sum(pool(x)**2)), f32(6, 7)),
    "loop": (lambda x: lax.fori_loop(0, 7, lambda i, c: c.at[i].add(i).at[0].multiply(1.5), x), f32(8)),
    "while": (lambda x: lax.while_loop(lambda c: c[0] != 1, lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2,
        3 * c[0] + 1), c[1] + 1),
                                       (x, 0)), np.int32(27)),
    "scan_grad": (jax.grad(lambda x: lax.scan(lambda c, a: (jnp.sin(c + a), c * a), np.float32(0), x)[1].sum()),
        f32(9)),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), np.int32(7), f32(4)),
    "threefry": (lambda key: (jax.random.bits(key, (5,)), jax.random.uniform(key, (4,)), jax.random.permutation(key,
        6)),
                 np.array([3, 42], np.uint32)),
    "gelu_grad": (jax.grad(lambda x: jnp.sum(jax.nn.gelu(x, approximate=False) * jnp.cos(x))), f32(3, 5)),
    "layer_norm_grad_optimised": (jax.grad(lambda *a: jnp.sum(layer_norm(*a)**2), (0, 1, 2)), f32(4, 8), f32(8),
        f32(8)),
    "attention": (attention, f32(2, 3, 2, 4), f32(2, 3, 2, 4), f32(2, 3, 2, 4)),
    "attention_grad_optimised": (jax.grad(lambda *a: jnp.sum(attention(*a)**2), (0, 1, 2)), f32(2, 3, 2, 4), f32(2,
        3, 2, 4),
                                 f32(2, 3, 2, 4)),
    "loop_optimised": (lambda x: lax.fori_loop(0, 5, lambda i, c: jnp.roll(c, 1) * i + x.T[0], x[0]), f32(4, 4)),
    "sort_optimised": (lambda x: jnp.sort(x, axis=0), f32(6, 3)),
    "quantise_optimised": (lambda x: (jnp.clip(jnp.round(x / (jnp.abs(x).max(-1, keepdims=True) / 127)), -127,
        127).astype(jnp.int8)),
                           f32(4, 9)),
    "fft": (lambda x: [f(x) for f in (jnp.fft.fft, jnp.fft.ifft, jnp.fft.fft2)], c64(3, 2, 12)),
    "fft_lengths": (lambda *a: [jnp.fft.fft(x) for x in a], c64(7), c64(17), c64(30), c64(34), c64(1)),
    "fft_real": (lambda x: (jnp.fft.rfft(x), jnp.fft.rfft2(x), jnp.fft.rfftn(x, axes=(0, 1, 2))), f32(2, 3, 10)),
    "fft_real_inverse": (lambda x: (jnp.fft.irfft(x), jnp.fft.irfft(x, n=9), jnp.fft.irfft2(x), jnp.fft.irfftn(x)),
                         c64(2, 3, 6)),
    "fft_f64": (lambda x: (jnp.fft.rfft(x), jnp.fft.ifft(x.astype(np.complex128))), f32(2, 19).astype(np.float64)),
    "convolution_fft_optimised": (lambda x, w: jnp.fft.irfft(jnp.fft.rfft(x * 2) * jnp.fft.rfft(w), 20) + 1, f32(4, 20),
                                  f32(20)),
    "triangular_solve_tpu": (lambda a, b: [solve_triangular(a, b, left_side=True, lower=lower, transpose_a=transpose,
        unit_diagonal=unit) for lower in (False, True) for transpose in (False, True) for unit in (False, True)],
                             triangular(2, 4, 4), f32(2, 4, 3)),
    "triangular_solve_right_tpu": (lambda a, b: [solve_triangular(a, b, lower=lower, transpose_a=transpose)
        for lower in (False, True) for transpose in (False, True)], triangular(4, 4), f32(3, 4)),
    "triangular_solve_complex_tpu": (lambda a, b: [solve_triangular(a, b, left_side=left, lower=True, transpose_a=t,
        conjugate_a=t) for left in (False, True) for t in (False, True)],
                                     c64(3, 3) + 3 * np.eye(3, dtype=np.complex64), c64(3, 3)),
    "cholesky_tpu": (lambda a: (jnp.linalg.cholesky(a @ jnp.swapaxes(a, 1, 2)), jnp.linalg.cholesky(-a)),
                     triangular(2, 5, 5)),
    "cholesky_complex_tpu": (lambda a: jnp.linalg.cholesky(a @ a.conj().T, upper=True), c64(4, 4)),
    "batch_norm_training": (batch_norm_training, f32(4, 3, 5), f32(3), f32(3)),
    "batch_norm_inference": (batch_norm_inference, f32(4, 3, 5), f32(3), f32(3), f32(3), positive(f32(3))),
    "batch_norm_grad": (batch_norm_grad, f32(4, 3, 5), f32(3), f32(3), positive(f32(3)), f32(4, 3, 5)),
    "cholesky_cuda": (lambda a, b: (jnp.linalg.cholesky(a @ a.mT), jnp.linalg.cholesky(-a), jnp.linalg.cholesky(
        a @ a.mT, upper=True), jax.scipy.linalg.cho_solve((a[0], True), b)), triangular(2, 5, 5), f32(5, 3)),
    "cholesky_complex_cuda": (lambda a: jnp.linalg.cholesky(a @ a.conj().T), c64(4, 4)),
    "cholesky_grad_cuda": (jax.grad(lambda a: jnp.sin(jnp.linalg.cholesky(a @ a.mT)).sum()), triangular(2, 4, 4)),
    "solve_cuda": (lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a)),
                   f32(3, 6, 6), f32(3, 6, 2)),
    "solve_complex_cuda": (lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.det(a)), c64(4, 4), c64(4)),
    "lu_cuda": (lambda a, b: (jax.scipy.linalg.lu(a[0]), jax.scipy.linalg.lu(b), lax.linalg.lu(a)),
                f32(2, 5, 3), f32(3, 5)),
    "lu_singular_cuda": (lambda a: (lax.linalg.lu(a), jnp.linalg.det(a)),
                         np.array([[0, 2, 4], [0, 1, 2], [0, 3, 7]], np.float32)),
    "random_bits": (lambda s: [lax.rng_bit_generator(s, shape, dtype, algorithm)
        for algorithm in (lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_THREE_FRY)
        for shape, dtype in (((9, ), np.uint32), ((3, 4), np.uint64), ((3, 5, 1), np.uint8), ((2, 3), np.uint16))],
                    np.array([81985529216486895, 2**64 - 2], np.uint64)),
    "qr_cuda": (lambda a, b: (jnp.linalg.qr(a), jnp.linalg.qr(b, mode="complete"), jnp.linalg.qr(b.T, mode="r")),
                f32(2, 5, 3), f32(5, 3)),
    "qr_complex_cuda": (lambda a: jnp.linalg.qr(a), c64(5, 3)),
}

NAMES = {"bool": "pred", "int4": "s4", "uint4": "u4", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
         "float8_e4m3b11fnuz": "f8e4m3b11fnuz", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}


def element(value):
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, complex):
        return f"({value.real!r}, {value.imag!r})"
    return repr(value)


def literal(values):
    if isinstance(values, list):
        return "{" + ", ".join(map(literal, values)) + "}"
    return element(values)


def line(what, array):
    array = np.asarray(array)
    kind = str(array.dtype)
    name = NAMES.get(kind) or kind.replace("uint", "u").replace("int", "s").replace("float", "f")
    wide = array
    if name[0] in "bf" and name not in ("f32", "f64"):
        wide = array.astype(np.float32)
    elif name in ("s4", "u4"):
        wide = array.astype(np.int8)
    # float32 as such: its shortest digits, not those of the double that it is.
    if wide.dtype == np.float32:
        values = [float(str(value)) for value in wide.ravel()]
        text = literal(np.array(values).reshape(wide.shape).tolist())
    else:
        text = literal(wide.tolist())
    return f"{what} {name}[{','.join(map(str, array.shape))}] {text}\n"


def without_places(text):
    """The text without what names the files and functions that it came from."""
    text = re.sub(r", metadata=\{[^{}]*\}", "", text)
    return re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d.*\n)*", "", text)


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, (function, *arguments) in CASES.items():
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        compiled = lowered.compile()
        text = without_places(compiled.as_text()) if name.endswith("_optimised") else lowered.as_text("hlo")
        if (platform := name.rpartition("_")[2]) in ("tpu", "cuda"):
            traced = jax.jit(function, keep_unused=True).trace(*arguments)
            text = traced.lower(lowering_platforms=(platform,)).as_text("hlo")
        results = jax.tree.leaves(compiled(*arguments))
        (folder / f"{name}.hlo").write_text(text)
        values = [line("in", a) for a in jax.tree.leaves(arguments)] + [line("out", r) for r in results]
        (folder / f"{name}.values").write_text("".join(values))


if __name__ == "__main__":
    main()
