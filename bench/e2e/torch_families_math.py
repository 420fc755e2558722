"""Models of torch_families.py's table: transforms, quantised layers, samplers, physics, optimizers."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from torch_families import RmsNorm, model, wide


class DiagonalStates(nn.Module):
    """S4D: a kernel from complex rates (a Vandermonde product), a long convolution by FFT, and gates."""

    def __init__(self, width, states):
        super().__init__()
        self.log_step = nn.Parameter(torch.rand(width) * 4 - 6)
        self.log_real = nn.Parameter(torch.log(0.5 * torch.ones(width, states)))
        self.imaginary = nn.Parameter(math.pi * torch.arange(states).float().repeat(width, 1))
        self.c, self.skip = nn.Parameter(torch.randn(width, states, 2)), nn.Parameter(torch.randn(width))
        self.out = nn.Conv1d(width, 2 * width, 1)

    def forward(self, x):
        length = x.shape[-1]
        step = torch.exp(wide(self.log_step))[:, None]
        a = torch.complex(-torch.exp(wide(self.log_real)), wide(self.imaginary))
        c = torch.view_as_complex(wide(self.c)) * (torch.exp(step * a) - 1) / a
        at = torch.arange(length, device=x.device)
        kernel = 2 * torch.einsum("ds,dsl->dl", c, torch.exp((step * a)[..., None] * at)).real
        h = wide(x)
        y = torch.fft.irfft(torch.fft.rfft(h, 2 * length) * torch.fft.rfft(kernel, 2 * length), 2 * length)
        y = F.gelu(y[..., :length] + h * wide(self.skip)[:, None]).to(x.dtype)
        return x + F.glu(self.out(y), 1)


@model("diagonal-states")
def _(small):
    return (DiagonalStates(4, 3), (torch.randn(2, 4, 9),)) if small else \
        (DiagonalStates(251, 32), (torch.randn(3, 251, 1021),))


class SpectralCritic(nn.Module):
    """A critic with weights over their largest singular value by steps of power iteration; hinge losses of two sets."""

    def __init__(self, inputs, width, steps):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, 1)])
        self.steps = steps
        for i, layer in enumerate(self.layers):
            self.register_buffer(f"left_{i}", F.normalize(torch.randn(layer.out_features), dim=0))

    def weight(self, i):
        weight, left = self.layers[i].weight, getattr(self, f"left_{i}")
        with torch.no_grad():
            for _ in range(self.steps):
                right = F.normalize(torch.mv(weight.t(), left), dim=0, eps=1e-12)
                left = F.normalize(torch.mv(weight, right), dim=0, eps=1e-12)
        return weight / torch.dot(left, torch.mv(weight, right))

    def critic(self, x):
        for i, layer in enumerate(self.layers):
            x = F.linear(F.leaky_relu(x, 0.2) if i else x, self.weight(i), layer.bias)
        return x

    def forward(self, real, made):
        return F.relu(1 - self.critic(real)).mean() + F.relu(1 + self.critic(made)).mean()


@model("spectral-critic-train", torch.float32)
def _(small):
    batch, inputs, width, steps = (4, 5, 6, 2) if small else (511, 783, 1021, 3)
    return SpectralCritic(inputs, width, steps), (torch.randn(batch, inputs), torch.randn(batch, inputs))


class LowBitMlp(nn.Module):
    """Weights of 4 bits, two in a byte, scales and zeros of groups; then of int8 with scales of channels and rows."""

    def __init__(self, width, inner, group):
        super().__init__()
        self.group = group
        self.register_buffer("packed", torch.randint(256, (2 * inner, width // 2), dtype=torch.uint8))
        self.register_buffer("zeros", torch.randint(16, (2 * inner, width // group), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(2 * inner, width // group) * 0.2 * width ** -0.5)
        self.register_buffer("whole", torch.randint(-128, 128, (width, inner), dtype=torch.int8))
        self.register_buffer("channel_scales", torch.rand(width) / 64 * inner ** -0.5)
        self.norm = RmsNorm(width)

    def forward(self, x):
        four = torch.stack((self.packed & 15, self.packed >> 4), -1).flatten(1).view(len(self.packed), -1, self.group)
        weight = ((four.to(torch.int8) - self.zeros[..., None].to(torch.int8)) * self.scales[..., None]).flatten(1)
        gate, up = F.linear(self.norm(x), weight).chunk(2, -1)
        h = F.silu(gate) * up
        scale = h.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
        rounded = (h / scale).round().clamp(-128, 127).to(torch.int8)
        made = rounded.to(x.dtype) @ self.whole.to(x.dtype).t()
        return x + made * scale * self.channel_scales


@model("low-bit-mlp")
def _(small):
    if small:
        return LowBitMlp(12, 10, 4), (torch.randn(3, 12),)
    return LowBitMlp(2112, 3001, 48), (torch.randn(7, 2112),)


class Fake(torch.autograd.Function):
    """Rounds forward; the gradient is that of the clamp."""

    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward((x >= low) & (x <= high))
        return x.round().clamp(low, high)

    @staticmethod
    def backward(ctx, gradient):
        inside, = ctx.saved_tensors
        return gradient * inside, None, None


class LearnedSteps(nn.Module):
    """Training for 4 bits: learned step sizes, rounding that gradients pass, by an autograd function and by detach."""

    def __init__(self, inputs, width, classes):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(inputs, width, 3, 2, 1), nn.Conv2d(width, width, 3, padding=1)])
        self.steps = nn.ParameterList([torch.full((width, 1, 1, 1), 0.05) for _ in range(2)])
        self.of_x = nn.ParameterList([torch.tensor(0.1), torch.tensor(0.1)])
        self.head = nn.Linear(width, classes)

    def forward(self, x, labels):
        for conv, step, of_x in zip(self.convs, self.steps, self.of_x):
            weight = Fake.apply(conv.weight / step, -8, 7) * step
            scaled = (x / of_x).clamp(-8, 7)
            x = (scaled + (scaled.round() - scaled).detach()) * of_x
            x = F.relu(F.conv2d(x, weight, conv.bias, conv.stride, conv.padding))
        return F.cross_entropy(self.head(F.adaptive_max_pool2d(x, 2).mean((-1, -2))), labels)


@model("learned-steps-train", torch.float32)
def _(small):
    batch, inputs, width, classes, size = (2, 3, 4, 3, 7) if small else (7, 29, 53, 101, 61)
    return LearnedSteps(inputs, width, classes), \
        (torch.randn(batch, inputs, size, size), torch.randint(classes, (batch,)))


class FourierOperator(nn.Module):
    """A Fourier neural operator in two dimensions: low modes times complex weights, written into zeros, and back."""

    def __init__(self, width, modes, layers):
        super().__init__()
        self.modes, self.into, self.out = modes, nn.Conv2d(3, width, 1), nn.Conv2d(width, 1, 1)
        self.weights = nn.ParameterList([torch.randn(2, width, width, modes, modes, 2) / width for _ in range(layers)])
        self.around = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))

    def forward(self, x, wanted):
        height, width = x.shape[-2:]
        ys, xs = (torch.linspace(0, 1, n, device=x.device, dtype=x.dtype) for n in (height, width))
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")).expand(len(x), -1, -1, -1)
        x, m = self.into(torch.cat((x, grid), 1)), self.modes
        for weight, around in zip(self.weights, self.around):
            low, high = torch.view_as_complex(weight)
            f = torch.fft.rfft2(x, norm="ortho")
            found = torch.zeros_like(f)
            found[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], low)
            found[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], high)
            x = F.gelu(torch.fft.irfft2(found, s=(height, width), norm="ortho") + around(x))
        off = (self.out(x) - wanted).flatten(1)
        return (off.norm(dim=1) / wanted.flatten(1).norm(dim=1)).mean()


@model("fourier-operator-train", torch.float32)
def _(small):
    batch, width, modes, layers, size = (2, 3, 2, 1, (6, 7)) if small else (5, 21, 11, 2, (61, 85))
    return FourierOperator(width, modes, layers), (torch.randn(batch, 1, *size), torch.randn(batch, 1, *size))


class BeamStep(nn.Module):
    """A sampler's step over beams: no repeated pairs, top p by a sort, given noise; then the best beams, reordered."""

    def __init__(self, width, vocabulary, beams, p):
        super().__init__()
        self.head, self.beams, self.p = nn.Linear(width, vocabulary, bias=False), beams, p

    def forward(self, hidden, scores, history, cache, noise):
        logits = wide(self.head(hidden))
        repeats = (history[:, :-1] == history[:, -1:])
        logits = logits.scatter_reduce(1, history[:, 1:], torch.where(repeats, -1e4, 1e4).to(logits.dtype), "amin")
        ordered, order = logits.sort(-1, descending=True)
        sums = ordered.softmax(-1).cumsum(-1)
        drop = sums - ordered.softmax(-1) > self.p
        drop[:, 0] = False
        logits = logits.masked_fill(torch.zeros_like(drop).scatter(1, order, drop), -math.inf)
        sampled = (logits - torch.log(-torch.log(wide(noise)))).argmax(-1)
        totals = (wide(scores)[:, None] + logits.log_softmax(-1)).view(-1, self.beams * logits.shape[-1])
        best, index = totals.topk(self.beams, dim=-1)
        beam = torch.div(index, logits.shape[-1], rounding_mode="floor")
        token = index % logits.shape[-1]
        rows = (beam + torch.arange(len(beam), device=beam.device)[:, None] * self.beams).flatten()
        history = torch.cat((history.index_select(0, rows), token.view(-1, 1)), 1)
        parents = torch.zeros_like(beam).scatter_add_(1, beam, torch.ones_like(beam))
        return best, sampled, history, cache.index_select(1, rows), parents


@model("beam-step", torch.float32)
def _(small):
    batch, beams, width, vocabulary, length, cached = (2, 2, 5, 19, 4, 6) if small else (3, 5, 769, 30011, 61, 20011)
    rows = batch * beams
    return BeamStep(width, vocabulary, beams, 0.9), \
        (torch.randn(rows, width), torch.randn(rows), torch.randint(vocabulary, (rows, length)),
         torch.randn(2, rows, cached), torch.rand(rows, vocabulary).clamp(1e-6, 1 - 1e-6))


class EarlyExit(nn.Module):
    """Layers that a cond skips once the head is sure, and a solver's while loop for a fixed point."""

    def __init__(self, width, classes, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, classes)
        self.inner = nn.Parameter(torch.randn(width, width) * 0.3 * width ** -0.5)

    def forward(self, x):
        for layer in self.layers:
            sure = self.head(x).softmax(-1).amax(-1).mean() > 0.45
            x = torch.cond(sure, lambda a: a.clone(), lambda a, f=layer: a + torch.tanh(f(a)), (x,))

        def goes_on(i, z, change):
            return (i < 50) & (change > 1e-3)

        def step(i, z, change):
            after = torch.tanh(z @ self.inner + x)
            return i + 1, after, (after - z).abs().amax()
        start = torch.zeros((), dtype=torch.long, device=x.device), torch.zeros_like(x), x.new_ones(())
        steps, z, _ = torch._higher_order_ops.while_loop(goes_on, step, start)
        return self.head(z), steps


@model("early-exit", torch.float32)
def _(small):
    return (EarlyExit(6, 3, 2), (torch.randn(4, 6),)) if small else (EarlyExit(511, 19, 3), (torch.randn(77, 511),))


class TriangleUpdate(nn.Module):
    """AlphaFold's pairs: a product around triangles with gates and masks, then attention along rows with a bias."""

    def __init__(self, width, inner, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(n) for n in (width, inner, width))
        self.sides, self.gates = nn.Linear(width, 2 * inner), nn.Linear(width, 2 * inner)
        self.out, self.gate = nn.Linear(inner, width), nn.Linear(width, width)
        self.qkv, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Linear(width, heads, bias=False)

    def forward(self, pairs, mask):
        h = self.norms[0](pairs)
        a, b = (torch.sigmoid(self.gates(h)) * self.sides(h) * mask[..., None]).chunk(2, -1)
        made = self.norms[1](torch.einsum("bikc,bjkc->bijc", a, b) / pairs.shape[1] ** 0.5)
        pairs = pairs + torch.sigmoid(self.gate(h)) * self.out(made)
        h = self.norms[2](pairs)
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        scores = torch.einsum("bijhd,bikhd->bihjk", q, k) * q.shape[-1] ** -0.5
        scores = scores + torch.einsum("bjkh->bhjk", self.bias(h))[:, None] + (1e4 * (mask - 1))[:, :, None, None]
        return pairs + self.last(torch.einsum("bihjk,bikhd->bijhd", scores.softmax(-1), v).flatten(-2))


@model("triangle-update")
def _(small):
    batch, size, width, inner, heads = (2, 4, 6, 5, 2) if small else (1, 131, 124, 96, 4)
    mask = (torch.rand(batch, size, size) < 0.9).float()
    return TriangleUpdate(width, inner, heads), (torch.randn(batch, size, size, width), mask)


class LatticeBoltzmann(nn.Module):
    """Nine speeds on a torus with walls: collisions and streams by roll, then bodies' attraction by distances."""

    def __init__(self, steps, rate=1.7):
        super().__init__()
        self.steps, self.rate = steps, rate
        self.register_buffer("speeds", torch.tensor([[x, y] for x in (0, 1, -1) for y in (0, 1, -1)]).float())
        self.register_buffer("shares", torch.tensor([4, 1, 1, 1, 1 / 4, 1 / 4, 1, 1 / 4, 1 / 4]) / 9)
        self.register_buffer("opposite", torch.tensor([0, 2, 1, 6, 8, 7, 3, 5, 4]))

    def forward(self, f, wall, places, masses):
        for _ in range(self.steps):
            f = torch.stack([f[i].roll((int(x), int(y)), (0, 1))
                             for i, (x, y) in enumerate([(x, y) for x in (0, 1, -1) for y in (0, 1, -1)])])
            density = f.sum(0)
            flow = torch.tensordot(self.speeds.t(), f, 1) / density
            along = torch.einsum("qd,dxy->qxy", self.speeds, flow)
            rest = self.shares[:, None, None] * density * (1 + 3 * along + 4.5 * along ** 2 - 1.5 * (flow ** 2).sum(0))
            f = torch.where(wall, f[self.opposite], f + self.rate * (rest - f))
        curl = torch.gradient(flow[1], dim=0)[0] - torch.gradient(flow[0], dim=1)[0]
        away = places[None] - places[:, None]
        near = (away.square().sum(-1) + 1e-2).pow(-1.5)
        near.fill_diagonal_(0)
        pull = torch.einsum("ij,ijd,j->id", near, away, masses)
        energy = -(torch.tril(masses.outer(masses), -1) / (torch.cdist(places, places) + 0.1)).sum()
        return f, curl, pull, energy


@model("lattice-boltzmann", torch.float32)
def _(small):
    size, steps, bodies = ((7, 6), 2, 5) if small else ((389, 211), 7, 1201)
    f = 0.1 + 0.02 * torch.rand(9, *size)
    return LatticeBoltzmann(steps), (f, torch.rand(size) < 0.1, torch.randn(bodies, 3), torch.rand(bodies))


class OptimizerStep(nn.Module):
    """A step of several parameters: clipped by the norm of all, Muon's orthogonal matrices, Adam's rest by foreach."""

    def __init__(self, sizes):
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(size) * 0.1 for size in sizes])
        for i, size in enumerate(sizes):
            self.register_buffer(f"first_{i}", torch.randn(size) * 0.01)
            self.register_buffer(f"second_{i}", torch.rand(size) * 0.01)

    def forward(self, step, *gradients):
        parameters, gradients = list(self.weights), list(gradients)
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        gradients = torch._foreach_mul(gradients, torch.clamp(1.0 / (norm + 1e-6), max=1.0))
        first = torch._foreach_lerp([getattr(self, f"first_{i}") for i in range(len(parameters))], gradients, 0.1)
        second = torch._foreach_mul([getattr(self, f"second_{i}") for i in range(len(parameters))], 0.95)
        second = torch._foreach_addcmul(second, gradients, gradients, 0.05)
        down = torch._foreach_sqrt(torch._foreach_div(second, 1 - 0.95 ** step))
        updates = torch._foreach_div(torch._foreach_div(first, 1 - 0.9 ** step), torch._foreach_add(down, 1e-8))
        results = []
        for weight, gradient, momentum, update in zip(parameters, gradients, first, updates):
            if weight.ndim == 2:
                x = gradient.add(momentum, alpha=0.95)
                tall = x.shape[0] > x.shape[1]
                x = x.mT if tall else x
                x = x / (x.norm() + 1e-7)
                for a, b, c in ((3.4445, -4.7750, 2.0315),) * 5:
                    product = x @ x.mT
                    x = a * x + (b * product + c * product @ product) @ x
                update = (x.mT if tall else x) * max(1, weight.shape[0] / weight.shape[1]) ** 0.5
            results.append(weight * (1 - 0.01 * 0.1) - 0.01 * update)
        return (*results, *first, *second, norm)


@model("optimizer-step", torch.float32)
def _(small):
    sizes = ((5,), (4, 5), (6, 3), (2, 3, 2)) if small else ((777,), (777, 512), (1531, 257), (96, 31, 3, 3), (20011,))
    return OptimizerStep(sizes), (torch.tensor(7.0), *(torch.randn(size) for size in sizes))


class SplineFlow(nn.Module):
    """Coupling layers of monotone rational-quadratic splines; the loss is the data's negative log-likelihood."""

    def __init__(self, width, inner, bins, layers):
        super().__init__()
        self.bins, self.half = bins, width // 2
        outputs = (width - self.half) * (3 * bins + 1)
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(self.half, inner), nn.Softplus(), nn.Linear(inner, outputs))
                                  for _ in range(layers))

    def spline(self, x, raw):
        widths, heights, slopes = raw.split([self.bins, self.bins, self.bins + 1], -1)
        def knots(a):
            a = 1e-3 + (1 - 1e-3 * self.bins) * a.softmax(-1)
            return F.pad(a.cumsum(-1), (1, 0)) * 6 - 3
        xs, ys, slopes = knots(widths), knots(heights), F.softplus(slopes) + 1e-3
        inside = x.abs() < 2.99
        at = torch.where(inside, x, 0)
        bin = torch.searchsorted(xs, at[..., None], right=True).clamp(1, self.bins) - 1
        x0, y0, d0 = (a.gather(-1, bin).squeeze(-1) for a in (xs, ys, slopes))
        x1, y1, d1 = (a.gather(-1, bin + 1).squeeze(-1) for a in (xs, ys, slopes))
        slope, part = (y1 - y0) / (x1 - x0), (at - x0) / (x1 - x0)
        between = part * (1 - part)
        down = slope + (d0 + d1 - 2 * slope) * between
        y = y0 + (y1 - y0) * (slope * part ** 2 + d0 * between) / down
        rate = slope ** 2 * (d1 * part ** 2 + 2 * slope * between + d0 * (1 - part) ** 2) / down ** 2
        return torch.where(inside, y, x), torch.where(inside, rate.log(), 0)

    def forward(self, x):
        total = x.new_zeros(len(x))
        for net in self.nets:
            fixed, moved = x[:, :self.half], x[:, self.half:]
            moved, rate = self.spline(moved, net(fixed).view(*moved.shape, -1))
            x, total = torch.cat((moved, fixed), 1), total + rate.sum(-1)
            x = x if x.shape[1] % 2 == 0 else x.flip(1)
        return (0.5 * x.square().sum(-1) + 0.5 * x.shape[1] * math.log(2 * math.pi) - total).mean()


@model("spline-flow-train", torch.float32)
def _(small):
    batch, width, inner, bins, layers = (5, 4, 6, 3, 2) if small else (1021, 42, 131, 11, 3)
    return SplineFlow(width, inner, bins, layers), (torch.randn(batch, width),)
