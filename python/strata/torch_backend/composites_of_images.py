"""Operators on pictures and volumes that are taken apart into others: sampling, gradients of padding, resampling."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from .composites import takes_apart, wide

# Samples at given places (torch.nn.functional.grid_sample). x: (batch, channels, sizes …); grid: (batch, places …, n),
# whose last dimension has the fastest coordinate first, from -1 to 1.

_NEAREST, _CUBIC = 1, 2
_ZEROS, _BORDER = 0, 1
_TAPS = {0: 2, _NEAREST: 1, _CUBIC: 4}  # elements along a dimension that a sample is made of, by the way of sampling


def _reflect(place: torch.Tensor, n: int, align: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A coordinate reflected at the edges, and the derivative, 1 or -1."""
    low, span = (0.0, n - 1) if align else (-0.5, n)
    if span == 0:
        return torch.zeros_like(place), torch.zeros_like(place)
    away = (place - low).abs()
    extra = away.remainder(span)
    even = (away / span).floor().remainder(2) == 0
    sign = torch.where(place < low, -1.0, 1.0)
    return torch.where(even, extra + low, span - extra + low), torch.where(even, sign, -sign)


def _within(place: torch.Tensor, n: int, padding: int, align: bool) -> tuple[torch.Tensor, torch.Tensor | float]:
    """A coordinate led back between the edges, and the derivative."""
    slope: torch.Tensor | float = 1.0
    if padding not in (_ZEROS, _BORDER):
        place, slope = _reflect(place, n, align)
    if padding != _ZEROS:
        slope = torch.where((place > 0) & (place < n - 1), slope, 0.0)
        place = place.clamp(0, n - 1)
    return place, slope


def _cubic_weight(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The weight of an element that is t away, and its derivative."""
    a, size, sign = -0.75, t.abs(), t.sign()
    near, far = ((a + 2) * size - (a + 3)) * size * size + 1, ((size - 5) * size + 8) * size * a - 4 * a
    near_slope, far_slope = (3 * (a + 2) * size - 2 * (a + 3)) * size, ((3 * size - 10) * size + 8) * a
    return torch.where(size <= 1, near, far), sign * torch.where(size <= 1, near_slope, far_slope)


def _product(factors):
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _taps(grid: torch.Tensor, sizes, way: int, padding: int, align: bool):
    """For each sample (batch, places) the elements that it is made of, in a third dimension: their places in a row of
    all elements, their weights along each dimension, the weights' derivatives by the grid, and which are inside."""
    taps, index, inside, weights, slopes = _TAPS[way], 0, None, [], []
    number = torch.arange(taps ** len(sizes), device=grid.device)
    for d, n in enumerate(sizes):
        given = grid[..., len(sizes) - 1 - d].reshape(grid.shape[0], -1, 1)
        place = (given + 1) / 2 * (n - 1) if align else ((given + 1) * n - 1) / 2
        slope = (n - 1) / 2 if align else n / 2
        if way != _CUBIC:
            place, back = _within(place, n, padding, align)
            slope = slope * back
        side = number // taps**d % taps
        lower = place.round() if way == _NEAREST else place.floor()
        rest = place - lower
        if way == _NEAREST:
            at, weight, by_rest = lower, torch.ones_like(rest), torch.zeros_like(rest)
        elif way == _CUBIC:
            at, _ = _within(lower + side - 1, n, padding, align)
            weight, by_rest = _cubic_weight(rest - side + 1)
        else:
            at, weight = lower + side, torch.where(side == 1, rest, 1 - rest)
            by_rest = torch.where(side == 1, 1.0, -1.0)
        here = (at >= 0) & (at <= n - 1)
        inside = here if inside is None else inside & here
        index = index * n + at.clamp(0, n - 1).long()
        weights.append(weight)
        slopes.append(by_rest * slope)
    return index, weights, slopes, inside


@takes_apart("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(x, grid, way, padding, align):
    if x.numel() == 0 or grid.numel() == 0:
        return NotImplemented
    batch, channels = x.shape[:2]
    index, weights, _, inside = _taps(wide(grid), x.shape[2:], way, padding, align)
    places = index.reshape(batch, 1, -1).expand(-1, channels, -1)
    taken = wide(x).reshape(batch, channels, -1).gather(2, places).view(batch, channels, *index.shape[1:])
    # What lies outside is not read: it may be infinite.
    taken = torch.where(inside[:, None], taken * _product(weights)[:, None], 0.0)
    return taken.sum(-1).view(batch, channels, *grid.shape[1:-1]).to(x.dtype)


@takes_apart("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def grid_sampler_backward(grad, x, grid, way, padding, align, wanted):
    if x.numel() == 0 or grid.numel() == 0:
        return NotImplemented
    batch, channels = x.shape[:2]
    index, weights, slopes, inside = _taps(wide(grid), x.shape[2:], way, padding, align)
    places = index.reshape(batch, 1, -1).expand(-1, channels, -1)
    flat, grads = wide(x).reshape(batch, channels, -1), wide(grad).reshape(batch, channels, -1, 1)
    of_x = None
    if wanted[0]:
        shares = grads * torch.where(inside, _product(weights), 0.0)[:, None]
        of_x = torch.zeros_like(flat).scatter_add(2, places, shares.reshape(batch, channels, -1))
        of_x = of_x.view(x.shape).to(x.dtype)
    taken = flat.gather(2, places).view(batch, channels, *index.shape[1:])
    along = torch.where(inside, (taken * grads).sum(1), 0.0)
    of_grid = [(along * _product([*weights[:d], slope, *weights[d + 1:]])).sum(-1) for d, slope in enumerate(slopes)]
    return of_x, torch.stack(of_grid[::-1], -1).view(grid.shape).to(grid.dtype)


@takes_apart("aten.cudnn_grid_sampler.default")
def cudnn_grid_sampler(x, grid):
    """On a GPU torch takes it for bilinear sampling with zeros around."""
    return grid_sampler(x, grid, 0, 0, True)


@takes_apart("aten.cudnn_grid_sampler_backward.default")
def cudnn_grid_sampler_backward(x, grid, grad):
    return grid_sampler_backward(grad, x, grid, 0, 0, True, [True, True])


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


@takes_apart("aten.reflection_pad1d_backward.default", "aten.reflection_pad2d_backward.default",
             "aten.reflection_pad3d_backward.default")
def reflection_pad_backward(grad, x, padding):
    """The gradients of the padding are laid back onto what it mirrors."""
    total = wide(grad)
    if any(p < 0 for p in padding) or x.numel() == 0:
        return NotImplemented
    for i in range(len(padding) // 2):
        d, before, after = total.dim() - 1 - i, padding[2 * i], padding[2 * i + 1]
        n = total.shape[d] - before - after
        inner = [0, 0] * i
        first, last = total.narrow(d, 0, before).flip(d), total.narrow(d, before + n, after).flip(d)
        total = total.narrow(d, before, n)
        if before:
            total = total + F.pad(first, [*inner, 1, n - 1 - before])
        if after:
            total = total + F.pad(last, [*inner, n - 1 - after, 1])
    return total.to(x.dtype)


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
    """Part i of n has the elements from ⌊i size / n⌋ to ⌈(i + 1) size / n⌉: all side by side, and their maxima."""
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
