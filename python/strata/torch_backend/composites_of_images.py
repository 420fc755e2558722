"""Operators on pictures and volumes that are taken apart into others: sampling, gradients of padding, resampling."""

from __future__ import annotations

import itertools
import math

import torch

from .composites import takes_apart, wide

# Samples at given places (torch.nn.functional.grid_sample). x: (batch, channels, sizes …); grid: (batch, places …, n),
# whose last dimension has the fastest coordinate first, from -1 to 1.

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1


def _reflect(place: torch.Tensor, twice_low: int, twice_high: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A coordinate reflected into the range, and the derivative, 1 or -1."""
    if twice_low == twice_high:
        return torch.zeros_like(place), torch.zeros_like(place)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    away = (place - low).abs()
    extra = away.remainder(span)
    flips = (away / span).floor().remainder(2)
    sign = torch.where(place < low, -1.0, 1.0)
    return torch.where(flips == 0, extra + low, span - extra + low), torch.where(flips == 0, sign, -sign)


def _coordinates(grid: torch.Tensor, sizes, padding: int, align: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each dimension the places in elements, and their derivatives by the grid."""
    found = []
    for d, n in enumerate(sizes):
        given = grid[..., len(sizes) - 1 - d]
        place = (given + 1) / 2 * (n - 1) if align else ((given + 1) * n - 1) / 2
        by_grid = torch.full_like(place, (n - 1) / 2 if align else n / 2)
        if padding not in (_ZEROS, _BORDER):
            place, sign = _reflect(place, 0, 2 * (n - 1)) if align else _reflect(place, -1, 2 * n - 1)
            by_grid = by_grid * sign
        if padding != _ZEROS:
            inside = (place > 0) & (place < n - 1)
            place, by_grid = place.clamp(0, n - 1), torch.where(inside, by_grid, 0.0)
        found.append((place, by_grid))
    return found


def _corners(places: list[torch.Tensor], sizes, nearest: bool):
    """For each corner: its index into a row of all elements, whether it is inside, its weights along the dimensions,
    and their derivatives."""
    flat_step = [math.prod(sizes[d + 1:]) for d in range(len(sizes))]
    lower = [p.round() if nearest else p.floor() for p in places]
    for sides in itertools.product((0, 1), repeat=0 if nearest else len(sizes)):
        sides = sides or (0,) * len(sizes)
        inside, index, weights, slopes = None, 0, [], []
        for place, low, side, n, step in zip(places, lower, sides, sizes, flat_step):
            at = low + side
            here = (at >= 0) & (at <= n - 1)
            inside = here if inside is None else inside & here
            index = index + at.clamp(0, n - 1).long() * step
            rest = place - low
            weights.append(torch.ones_like(rest) if nearest else rest if side else 1 - rest)
            slopes.append(torch.zeros_like(rest) if nearest else torch.full_like(rest, 1.0 if side else -1.0))
        yield index, inside, weights, slopes


def _product(factors):
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


@takes_apart("aten.grid_sampler_3d.default")
def grid_sampler(x, grid, interpolation, padding, align):
    if interpolation not in (_BILINEAR, _NEAREST) or x.numel() == 0 or grid.numel() == 0:
        return NotImplemented
    sizes, (batch, channels) = x.shape[2:], x.shape[:2]
    flat = wide(x).reshape(batch, channels, -1)
    places = [place.reshape(batch, -1) for place, _ in _coordinates(wide(grid), sizes, padding, align)]
    total = 0
    for index, inside, weights, _ in _corners(places, sizes, interpolation == _NEAREST):
        taken = flat.gather(2, index[:, None].expand(-1, channels, -1))
        total = total + taken * torch.where(inside, _product(weights), 0.0)[:, None]
    return total.view(batch, channels, *grid.shape[1:-1]).to(x.dtype)


@takes_apart("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def grid_sampler_backward(grad, x, grid, interpolation, padding, align, wanted):
    if interpolation not in (_BILINEAR, _NEAREST) or x.numel() == 0 or grid.numel() == 0:
        return NotImplemented
    sizes, (batch, channels) = x.shape[2:], x.shape[:2]
    flat, grads = wide(x).reshape(batch, channels, -1), wide(grad).reshape(batch, channels, -1)
    coordinates = [(p.reshape(batch, -1), d.reshape(batch, -1))
                   for p, d in _coordinates(wide(grid), sizes, padding, align)]
    of_x = torch.zeros_like(flat)
    of_places = [torch.zeros_like(place) for place, _ in coordinates]
    for index, inside, weights, slopes in _corners([p for p, _ in coordinates], sizes, interpolation == _NEAREST):
        index = index[:, None].expand(-1, channels, -1)
        if wanted[0]:
            of_x = of_x.scatter_add(2, index, grads * torch.where(inside, _product(weights), 0.0)[:, None])
        along = torch.where(inside, (flat.gather(2, index) * grads).sum(1), 0.0)
        for d in range(len(sizes)):
            of_places[d] = of_places[d] + along * _product([*weights[:d], slopes[d], *weights[d + 1:]])
    of_grid = [of * slope for of, (_, slope) in zip(of_places, coordinates)]
    of_grid = torch.stack(of_grid[::-1], -1).view(grid.shape).to(grid.dtype)
    return of_x.view(x.shape).to(x.dtype) if wanted[0] else None, of_grid


# Gradients of padding that repeats the edges

@takes_apart("aten.replication_pad1d_backward.default", "aten.replication_pad2d_backward.default",
             "aten.replication_pad3d_backward.default")
def replication_pad_backward(grad, x, padding):
    """The elements of each edge and of its padding are added up."""
    grad = wide(grad)
    if any(p < 0 for p in padding) or x.numel() == 0:
        return NotImplemented
    for i in range(len(padding) // 2):
        d, before, after = grad.dim() - 1 - i, padding[2 * i], padding[2 * i + 1]
        n = grad.shape[d] - before - after
        if n == 1:
            grad = grad.sum(d, keepdim=True)
            continue
        parts = [grad.narrow(d, 0, before + 1).sum(d, keepdim=True), grad.narrow(d, before + 1, n - 2),
                 grad.narrow(d, before + n - 1, after + 1).sum(d, keepdim=True)]
        grad = torch.cat(parts, d)
    return grad.to(x.dtype)


# Resampling that averages where it makes pictures smaller (interpolate(…, antialias=True)): a product with a matrix of
# weights along each dimension

def _linear(t: torch.Tensor) -> torch.Tensor:
    return (1 - t.abs()).clamp_min(0)


def _cubic(t: torch.Tensor) -> torch.Tensor:
    a, t = -0.5, t.abs()
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * t * a - 4 * a
    return torch.where(t < 1, near, torch.where(t < 2, far, 0.0))


def _weights(size: int, out: int, align: bool, scale: float | None, half: int, filter_, like: torch.Tensor):
    """The matrix (out, size)."""
    if align:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = 1 / scale if scale is not None and scale > 0 else size / out
    kind = {"dtype": torch.float64, "device": like.device}
    support = half * step if step >= 1 else float(half)
    centres = step * (torch.arange(out, **kind) + 0.5)
    first = (centres - support + 0.5).trunc().clamp_min(0)
    last = (centres + support + 0.5).trunc().clamp_max(size)
    places = torch.arange(size, **kind)[None, :]
    found = filter_((places - centres[:, None] + 0.5) / (step if step >= 1 else 1.0))
    found = torch.where((places >= first[:, None]) & (places < last[:, None]), found, 0.0)
    return (found / found.sum(1, keepdim=True)).to(like.dtype)


def _resampling(name: str, half: int, filter_) -> None:
    def matrices(sizes, outs, align, scales, like):
        return [_weights(n, out, align, scale, half, filter_, like) for n, out, scale in zip(sizes, outs, scales)]

    @takes_apart(f"aten.{name}.default")
    def resample(x, output_size, align, scales_h=None, scales_w=None):
        rows, columns = matrices(x.shape[2:], output_size, align, (scales_h, scales_w), wide(x))
        return torch.matmul(torch.matmul(rows, wide(x)), columns.t()).to(x.dtype)

    @takes_apart(f"aten.{name}_backward.default")
    def resample_backward(grad, output_size, input_size, align, scales_h=None, scales_w=None):
        rows, columns = matrices(input_size[2:], output_size, align, (scales_h, scales_w), wide(grad))
        return torch.matmul(torch.matmul(rows.t(), wide(grad)), columns).to(grad.dtype)


_resampling("_upsample_bilinear2d_aa", 1, _linear)
_resampling("_upsample_bicubic2d_aa", 2, _cubic)


# Maxima of as many equal parts as are asked for

@takes_apart("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(x, output_size):
    """Part i of n has the elements from ⌊i size / n⌋ to ⌈(i + 1) size / n⌉: all parts side by side, and their maxima."""
    n, lead = len(output_size), x.shape[:x.dim() - len(output_size)]
    sizes = x.shape[x.dim() - n:]
    if x.numel() == 0 or math.prod(output_size) == 0:
        return NotImplemented
    index, inside = 0, None
    for d, (size, out) in enumerate(zip(sizes, output_size)):
        starts = [i * size // out for i in range(out)]
        ends = [-(-(i + 1) * size // out) for i in range(out)]
        longest = max(end - start for start, end in zip(starts, ends))
        shape = [1] * (2 * n)
        shape[d], shape[n + d] = out, longest
        at = torch.arange(out, device=x.device)
        first, end = at * size // out, -(-(at + 1) * size // out)
        places = first[:, None] + torch.arange(longest, device=x.device)
        here = (places < end[:, None]).view(shape)
        index = index * size + places.clamp_max(size - 1).view(shape)
        inside = here if inside is None else inside & here
    index = index.reshape(math.prod(output_size), -1)
    inside = inside.expand([*output_size, *(m for m in inside.shape[n:])]).reshape(index.shape)
    parts = torch.where(inside, x.reshape(*lead, -1)[..., index], -math.inf)
    best, place = parts.max(-1)
    places = index.expand(parts.shape).gather(-1, place[..., None]).squeeze(-1)
    return best.view(*lead, *output_size), places.view(*lead, *output_size)
