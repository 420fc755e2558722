"""Special functions and counts that are taken apart into other operators. Functions of types narrower than float64 are
computed in float64, where a formula loses digits."""

from __future__ import annotations

import math

import torch

from .composites import takes_apart

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _polynomial(x: torch.Tensor, *factors: float) -> torch.Tensor:
    """By Horner, the highest power first."""
    found = torch.full_like(x, factors[0])
    for factor in factors[1:]:
        found = found * x + factor
    return found


@takes_apart("aten.erfinv.default")
def erfinv(x):
    """Giles' rational approximation, then two steps of Newton, as torch does."""
    if x.dtype not in _FLOATS:
        return NotImplemented
    y = x.double()
    size = y.abs()
    z = y * y
    central = y * _polynomial(z, -0.140543331, 0.914624893, -1.645349621, 0.886226899) / _polynomial(
        z, 0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0)
    z = torch.sqrt(-torch.log((1.0 - torch.where(size < 1, size, 0.0)) / 2.0))
    outer = _polynomial(z, 1.641345311, 3.429567803, -1.624906493, -1.970840454) / _polynomial(
        z, 1.637067800, 3.543889200, 1.0)
    found = torch.where(size <= 0.7, central, torch.where(y < 0, -outer, outer))
    for _ in range(2):
        found = found - (torch.erf(found) - y) / (2.0 / math.sqrt(math.pi) * torch.exp(-found * found))
    edge = torch.where(size == 1, torch.where(y < 0, -math.inf, math.inf).to(y.dtype), math.nan)
    return torch.where(size < 1, found, edge).to(x.dtype)


@takes_apart("aten.polygamma.default")
def polygamma(n, x):
    """ψ′ by ψ′(1 - x) + ψ′(x) = π² / sin²(πx), ψ′(x) = ψ′(x + 1) + 1 / x², and the series at infinity."""
    if n == 0:
        return torch.digamma(x)
    if n != 1 or x.dtype not in _FLOATS:
        return NotImplemented
    y = x.double()
    reflected = y < 0.5
    sine = torch.sin(math.pi * y)
    found = torch.where(reflected, -(math.pi**2) / (sine * sine), 0.0)
    at = torch.where(reflected, 1 - y, y)
    for _ in range(6):
        found = found + 1 / (at * at)
        at = at + 1
    z = 1 / (at * at)
    series = 1 + 1 / (2 * at) + z * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42)))
    found = found + series / at
    return torch.where(reflected, -found, found).to(x.dtype)


# The logarithm of the gamma function and its derivative, by Lanczos' series (g = 7, nine terms), in float64: exact for
# narrower types alone

_LANCZOS = (676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
            -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
            9.984369578019570859563e-6, 1.50563273514931155834e-7)


def _lanczos(x: torch.Tensor):
    """(whether reflected, the argument less one, the series and its derivative without the sign)"""
    reflected = x < 0.5
    z = torch.where(reflected, -x, x - 1)
    series, slope = torch.full_like(z, 0.99999999999980993227684700473478), torch.zeros_like(z)
    for i, factor in enumerate(_LANCZOS):
        series = series + factor / (z + (i + 1))
        slope = slope + factor / (z + (i + 1)).square()
    return reflected, z, series, slope


@takes_apart("aten.lgamma.default")
def lgamma(x):
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return NotImplemented
    y = x.double()
    reflected, z, series, _ = _lanczos(y)
    log_t = math.log(7.5) + torch.log1p(z / 7.5)
    found = math.log(math.sqrt(2 * math.pi)) + (z + 0.5 - (z + 7.5) / log_t) * log_t + series.log()
    rest = y.abs() - y.abs().floor()
    sine = torch.sin(math.pi * torch.where(rest > 0.5, 1 - rest, rest)).log()
    other = torch.where(sine.isinf(), -sine, math.log(math.pi) - sine - found)
    return torch.where(y.isinf(), math.inf, torch.where(reflected, other, found)).to(x.dtype)


@takes_apart("aten.digamma.default")
def digamma(x):
    if x.dtype == torch.float64:
        return _digamma_of_doubles(x)
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return NotImplemented
    y = x.double()
    reflected, z, series, slope = _lanczos(y)
    found = math.log(7.5) + torch.log1p(z / 7.5) - slope / series - 7 / (z + 7.5)
    rest = y + (y + 0.5).floor().neg()
    other = found - math.pi / torch.tan(math.pi * rest)
    pole = (y <= 0) & (y == y.floor())
    at_pole = torch.where(y == 0, -math.inf * torch.where(torch.signbit(y), -1.0, 1.0), math.nan)
    return torch.where(pole, at_pole, torch.where(reflected, other, found)).to(x.dtype)


def _digamma_of_doubles(x: torch.Tensor) -> torch.Tensor:
    """ψ(x + 1) = ψ(x) + 1 / x up to 10, then the series at infinity, as torch does."""
    reflected = x < 0
    at = torch.where(reflected, 1 - x, x)
    found = torch.zeros_like(x)
    for _ in range(10):
        small = at < 10
        found = found - torch.where(small, 1 / at, 0.0)
        at = torch.where(small, at + 1, at)
    z = 1 / (at * at)
    series = z * _polynomial(z, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
    found = found + at.log() - 0.5 / at - series
    found = torch.where(reflected, found - math.pi / torch.tan(math.pi * (x - x.trunc())), found)
    pole = (x <= 0) & (x == x.floor())
    at_pole = torch.where(x == 0, -math.inf * torch.where(torch.signbit(x), -1.0, 1.0), math.nan).to(x.dtype)
    return torch.where(pole, at_pole, found)


# Counts

@takes_apart("aten.histc.default")
def histc(x, bins=100, min=0, max=0):
    """How many elements are in each of equal intervals; those outside, and NaN, are in none."""
    if x.numel() == 0 or x.dtype in (torch.float16, torch.bfloat16):
        return NotImplemented
    flat = x.reshape(-1)
    kinds = {"dtype": x.dtype, "device": x.device}
    low, high = torch.full((), min, **kinds), torch.full((), max, **kinds)
    if min == max:
        low, high = flat.amin(), flat.amax()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    scaled = (flat - low) * bins
    place = torch.div(scaled, high - low, rounding_mode="trunc") if not x.is_floating_point() else scaled / (high - low)
    inside = (flat >= low) & (flat <= high)
    place = torch.where(inside, place, 0).long().clamp_max(bins - 1)
    return torch.zeros(bins, **kinds).index_add(0, place, inside.to(x.dtype))


@takes_apart("aten.nonzero_static.default")
def nonzero_static(x, *, size, fill_value=-1):
    """The places of the first `size` elements that are not 0."""
    if x.dim() == 0 or x.numel() == 0 or size == 0:
        return NotImplemented
    there = (x != 0).reshape(-1)
    row = torch.where(there, there.long().cumsum(0) - 1, size).clamp_max(size)
    place = torch.arange(x.numel(), device=x.device)
    columns = []
    for d in range(x.dim()):
        step = math.prod(x.shape[d + 1:])
        start = torch.full((size + 1,), fill_value, dtype=torch.int64, device=x.device)
        columns.append(start.scatter(0, row, (place // step) % x.shape[d])[:size])
    return torch.stack(columns, 1)
