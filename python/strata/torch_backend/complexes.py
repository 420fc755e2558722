"""Lowerings of operators that make complex numbers and take them apart, and of Fourier transforms."""

from __future__ import annotations

import math

from .hlo_builder import COMPLEX, Value
from .lowering import Lowering
from .registry import Unsupported, lowers
from .unary import sign


@lowers("aten.complex.default", of_complex=True)
def complex_(c, real, imag):
    kind = COMPLEX[c.dtype]
    return c.complex(c.operand(real, kind), c.operand(imag, kind))


@lowers("aten.polar.default", of_complex=True)
def polar(c, size, angle):
    kind = COMPLEX[c.dtype]
    size, angle = c.operand(size, kind), c.operand(angle, kind)
    return c.complex(c.mul(size, c.unary("cosine", angle)), c.mul(size, c.unary("sine", angle)))


@lowers("aten.view_as_real.default", of_complex=True)
def view_as_real(c, x):
    return c.b.concatenate([c.b.reshape(part, (*x.shape, 1)) for part in c.parts(x)], x.rank)


@lowers("aten.view_as_complex.default", of_complex=True)
def view_as_complex(c, x):
    if x.dtype not in COMPLEX.values():
        raise Unsupported(f"complex numbers of {x.dtype} are not taken")
    shape = x.shape[:-1]
    real, imag = (c.b.slice(x, [*[0] * len(shape), i], [*shape, i + 1]) for i in (0, 1))
    return c.complex(c.b.reshape(real, shape), c.b.reshape(imag, shape))


@lowers("aten.real.default", of_complex=True)
def real(c, x):
    return c.parts(x)[0] if x.dtype in COMPLEX else x


@lowers("aten.imag.default", of_complex=True)
def imag(c, x):
    return c.parts(x)[1]


@lowers("aten._conj.default", "aten._conj_physical.default", "aten.conj_physical.default", of_complex=True)
def conjugate(c, x):
    if x.dtype not in COMPLEX:
        return x
    real, imag = c.parts(x)
    return c.complex(real, c.unary("negate", imag))


@lowers("aten._neg_view.default", of_complex=True)
def negated(c, x):
    return c.unary("negate", x)


@lowers("aten.resolve_conj.default", "aten.resolve_neg.default", of_complex=True)
def resolved(c, x):
    """Here nothing is conjugated or negated lazily."""
    return x


@lowers("aten.sgn.default", of_complex=True)
def sgn(c, x):
    if x.dtype not in COMPLEX:
        return sign(c, x)
    size = c.b.op("abs", [x], COMPLEX[x.dtype], x.shape)
    zero = c.compare(size, 0.0, "EQ")
    return c.select(zero, c.b.full(0, x.dtype, x.shape), c.div(x, c.cast(c.select(zero, 1.0, size), x.dtype)))


# Fourier transforms: HLO's are along the last dimensions, at most three at once; inverse ones are divided by the number
# of elements, forward ones by nothing.

_BY_NOTHING, _BY_ROOT, _BY_COUNT = 0, 1, 2


def _transform(c: Lowering, x: Value, kind: str, dims: list[int], lengths: list[int]) -> Value:
    """Along dims, the last of which is halved or doubled by transforms of real numbers. lengths: of the real side."""
    rest = [d for d in range(x.rank) if d not in dims]
    order = [*rest, *dims]
    x = c.b.transpose(x, order)
    shape = list(x.shape)
    dtype = x.dtype
    if kind == "RFFT":
        shape[-1] = lengths[-1] // 2 + 1
        dtype = "c64" if x.dtype == "f32" else "c128"
    if kind == "IRFFT":
        shape[-1] = lengths[-1]
        dtype = COMPLEX[x.dtype]
    numbers = ",".join(map(str, lengths))
    y = c.b.op("fft", [x], dtype, shape, f"fft_type={kind}", f"fft_length={{{numbers}}}")
    return c.b.transpose(y, [order.index(d) for d in range(x.rank)])


def _scaled(c: Lowering, x: Value, norm: int, count: int, divided: bool) -> Value:
    """A transform with the factor that torch asks for. divided: whether it is divided by its count already."""
    factor = {_BY_NOTHING: 1.0, _BY_ROOT: 1 / math.sqrt(count), _BY_COUNT: 1 / count}[norm] * (count if divided else 1)
    return x if factor == 1 else c.mul(x, factor)


def _dims(x: Value, dims) -> list[int]:
    if x.size == 0:
        raise Unsupported("a Fourier transform of no elements")
    return [d % x.rank for d in dims]


def _of_complex(c: Lowering, x: Value, dims: list[int], forward: bool) -> Value:
    for i in range(0, len(dims), 3):
        some = dims[i:i + 3]
        x = _transform(c, x, "FFT" if forward else "IFFT", some, [x.shape[d] for d in some])
    return x


@lowers("aten._fft_c2c.default", of_complex=True)
def fft_c2c(c, x, dim, normalization, forward):
    dims = _dims(x, dim)
    count = math.prod(x.shape[d] for d in dims)
    return _scaled(c, _of_complex(c, x, dims, forward), normalization, count, not forward)


@lowers("aten._fft_r2c.default", of_complex=True)
def fft_r2c(c, x, dim, normalization, onesided):
    if x.dtype not in COMPLEX.values():
        raise Unsupported(f"a Fourier transform of {x.dtype} is not taken")
    dims = _dims(x, dim)
    count = math.prod(x.shape[d] for d in dims)
    if onesided:
        y = _transform(c, x, "RFFT", dims[-1:], [x.shape[dims[-1]]])
        y = _of_complex(c, y, dims[:-1], True)
    else:
        y = _of_complex(c, c.complex(x), dims, True)
    return _scaled(c, y, normalization, count, False)


@lowers("aten._fft_c2r.default", of_complex=True)
def fft_c2r(c, x, dim, normalization, last_dim_size):
    dims = _dims(x, dim)
    count = math.prod(c.shape[d] for d in dims)
    y = _of_complex(c, x, dims[:-1], False)
    y = _transform(c, y, "IRFFT", dims[-1:], [last_dim_size])
    return _scaled(c, y, normalization, count, True)
