"""Bessel functions of orders 0 and 1, the complementary error function and the normal distribution's, taken apart into
Chebyshev series (chebyshev_tables.py), which are as exact as float64. All are computed in float64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from . import chebyshev_tables as tables
from .composites import takes_apart

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _series(y: torch.Tensor, factors: tuple[float, ...]) -> torch.Tensor:
    """The Chebyshev series at y, by Clenshaw's recurrence."""
    before, found = torch.zeros_like(y), torch.full_like(y, factors[-1])
    for factor in factors[-2:0:-1]:
        before, found = found, factor + 2 * y * found - before
    return factors[0] + y * found - before


def _in_doubles(*names: str) -> Callable:
    """A function of an array of float64, taken of any floating-point type and of integers, which torch has as the
    default type."""
    def register(function: Callable) -> Callable:
        @takes_apart(*names)
        def composite(x):
            kind = x.dtype if x.is_floating_point() else torch.get_default_dtype()
            if x.is_complex() or kind not in _FLOATS:
                return NotImplemented
            return function(x.double()).to(kind)
        return function

    return register


# Modified functions of the first kind: exp(-|x|) I(x)

def _below_8(size: torch.Tensor) -> torch.Tensor:
    return size.clamp_max(8) / 4 - 1


def _above_8(size: torch.Tensor) -> torch.Tensor:
    return 16 / size.clamp_min(8) - 1


def _scaled_i(x: torch.Tensor, order: int) -> torch.Tensor:
    size = x.abs()
    below = _series(_below_8(size), (tables.I0_BELOW_8, tables.I1_BELOW_8)[order])
    above = _series(_above_8(size), (tables.I0_ABOVE_8, tables.I1_ABOVE_8)[order]) / size.clamp_min(8).sqrt()
    if order == 0:
        return torch.where(size <= 8, below, above)
    return torch.where(size <= 8, below * x, torch.where(x < 0, -above, above))


def _unscaled_i(x: torch.Tensor, order: int) -> torch.Tensor:
    """By halves of the exponential, so that it is infinite only where the product is."""
    half = (x.abs() / 2).exp()
    found = _scaled_i(x, order) * half * half
    return torch.where(x.isinf(), x.abs() if order == 0 else x, found)


_in_doubles("aten.special_i0e.default")(lambda x: _scaled_i(x, 0))
_in_doubles("aten.special_i1e.default")(lambda x: _scaled_i(x, 1))
_in_doubles("aten.i0.default", "aten.special_modified_bessel_i0.default")(lambda x: _unscaled_i(x, 0))
_in_doubles("aten.special_i1.default", "aten.special_modified_bessel_i1.default")(lambda x: _unscaled_i(x, 1))


# Modified functions of the second kind: exp(x) K(x)

def _scaled_k(x: torch.Tensor, order: int) -> torch.Tensor:
    small = x.clamp(0, 2)
    below = _series(small * small / 2 - 1, (tables.K0_BELOW_2, tables.K1_BELOW_2)[order])
    logarithm = (small / 2).log() * _unscaled_i(small, order)
    below = below - logarithm if order == 0 else below / small + logarithm
    large = x.clamp_min(2)
    above = _series(4 / large - 1, (tables.K0_ABOVE_2, tables.K1_ABOVE_2)[order]) / large.sqrt()
    found = torch.where(x <= 2, below * small.exp(), above)
    return torch.where(x == 0, math.inf, torch.where(x < 0, math.nan, found))


def _unscaled_k(x: torch.Tensor, order: int) -> torch.Tensor:
    return _scaled_k(x, order) * (-x).exp()


_in_doubles("aten.special_scaled_modified_bessel_k0.default")(lambda x: _scaled_k(x, 0))
_in_doubles("aten.special_scaled_modified_bessel_k1.default")(lambda x: _scaled_k(x, 1))
_in_doubles("aten.special_modified_bessel_k0.default")(lambda x: _unscaled_k(x, 0))
_in_doubles("aten.special_modified_bessel_k1.default")(lambda x: _unscaled_k(x, 1))


# Functions of the first and the second kind: from 8 on waves whose size and phase are series

def _square_below_8(size: torch.Tensor) -> torch.Tensor:
    part = size.clamp_max(8) / 8
    return 2 * part * part - 1


def _wave(size: torch.Tensor, order: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(J, Y) of arguments from 8 on."""
    large = size.clamp_min(8)
    part = 8 / large
    y = 2 * part * part - 1
    p = _series(y, (tables.P0_ABOVE_8, tables.P1_ABOVE_8)[order])
    q = _series(y, (tables.QX0_ABOVE_8, tables.QX1_ABOVE_8)[order]) / large
    angle = large - (2 * order + 1) * math.pi / 4
    cosine, sine, height = angle.cos(), angle.sin(), (2 / math.pi / large).sqrt()
    return height * (p * cosine - q * sine), height * (p * sine + q * cosine)


def _j(x: torch.Tensor, order: int) -> torch.Tensor:
    size = x.abs()
    below = _series(_square_below_8(size), (tables.J0_BELOW_8, tables.J1_BELOW_8)[order])
    above = _wave(size, order)[0]
    if order == 0:
        return torch.where(size <= 8, below, above)
    return torch.where(size <= 8, below * x, torch.where(x < 0, -above, above))


def _y(x: torch.Tensor, order: int) -> torch.Tensor:
    small = x.clamp(0, 8)
    below = _series(_square_below_8(small), (tables.Y0_BELOW_8, tables.Y1_BELOW_8)[order])
    if order == 0:
        below = below + 2 / math.pi * small.log() * _j(small, 0)
    else:
        below = below * small + 2 / math.pi * (small.log() * _j(small, 1) - 1 / small)
    found = torch.where(x <= 8, below, _wave(x, order)[1])
    return torch.where(x == 0, -math.inf, torch.where(x < 0, math.nan, found))


_in_doubles("aten.special_bessel_j0.default")(lambda x: _j(x, 0))
_in_doubles("aten.special_bessel_j1.default")(lambda x: _j(x, 1))
_in_doubles("aten.special_bessel_y0.default")(lambda x: _y(x, 0))
_in_doubles("aten.special_bessel_y1.default")(lambda x: _y(x, 1))


@_in_doubles("aten.special_spherical_bessel_j0.default")
def spherical_j0(x):
    square = x * x
    near = torch.ones_like(x)
    for divisor in (156, 110, 72, 42, 20, 6):
        near = 1 - square / divisor * near
    return torch.where(x.abs() < 0.5, near, torch.where(x.isinf(), 0.0, x.sin() / x))


# The complementary error function and the normal distribution

def scaled_erfc(x: torch.Tensor) -> torch.Tensor:
    """exp(x²) erfc(x) of x ≥ 0, in float64."""
    return _series(1 - 7.5 / (x + 3.75), tables.ERFCX) / (1 + 2 * x)


def _exp_of_square(x: torch.Tensor, sign: int) -> torch.Tensor:
    """exp(±x²): the square of the first 24 bits is exact, and the rest is small."""
    first = x.float().double()
    rest = torch.where(x.isinf(), 0.0, (x - first) * (x + first))
    return (sign * first * first).exp() * (sign * rest).exp()


@_in_doubles("aten.special_erfcx.default")
def erfcx(x):
    found = scaled_erfc(x.abs())
    return torch.where(x < 0, 2 * _exp_of_square(x, 1) - found, found)


@_in_doubles("aten.erfc.default", "aten.special_erfc.default")
def erfc(x):
    tail = _exp_of_square(x.clamp_min(0), -1) * scaled_erfc(x.clamp_min(0))
    return torch.where(x > 0.5, tail, 1 - torch.erf(x))


@_in_doubles("aten.special_ndtri.default")
def ndtri(p):
    """Between 0.1 and 0.9 by erfinv; beyond, from a rational approximation (Abramowitz and Stegun, 26.2.23), by steps of
    Newton's for the logarithm of the probability."""
    central = math.sqrt(2) * torch.erfinv(2 * p.clamp(0.1, 0.9) - 1)
    tail = torch.minimum(p, 1 - p).clamp(0, 0.1)
    logarithm = tail.log()
    t = (-2 * logarithm.clamp_min(-1e3)).sqrt()
    size = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(3):
        scaled = scaled_erfc(size / math.sqrt(2))
        error = (scaled / 2).log() - size * size / 2 - logarithm
        size = size + error * scaled * math.sqrt(math.pi / 2)
    size = torch.where(tail == 0, math.inf, size)
    found = torch.where((p >= 0.1) & (p <= 0.9), central, torch.where(p < 0.5, -size, size))
    return torch.where((p < 0) | (p > 1) | p.isnan(), math.nan, found)
