"""The models of odd_models.py. A builder takes whether sizes are small and gives a model and its inputs."""

import math
import typing

import torch
import torch.nn.functional as F
from torch import nn


class Entry(typing.NamedTuple):
    """A model of a table; in f32, so many units in the last place Strata's error may be whatever eager's is."""

    builder: typing.Callable
    dtype: torch.dtype
    train: bool
    units: float = 1


def models_of(table):
    """The decorator that puts a builder in a table, by the model's name."""
    def model(name, dtype=torch.bfloat16):
        def register(builder):
            table[name] = Entry(builder, dtype, name.endswith("-train"))
            return builder
        return register
    return model


MODELS = {}
model = models_of(MODELS)


def wide(x):
    """f32 at least: statistics of a model of 16 bits; a copy in f64 stays one."""
    return x if x.dtype == torch.float64 else x.float()


def tensors_of(found):
    """The tensors of what a model gives, in order."""
    if isinstance(found, (tuple, list)):
        return [tensor for part in found for tensor in tensors_of(part)]
    return [] if found is None else [found]


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def mlp(width, inner, outputs=None):
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, outputs or width))


class Encoder(nn.Module):
    """Post-norm layers over tokens with a padding mask, as BERT's, and a mean over the tokens that count."""

    def __init__(self, vocabulary, width, heads, inner, length, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.attentions = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.mlps = nn.ModuleList(mlp(width, inner) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))

    def forward(self, tokens, lengths):
        mask = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        x = self.norms[-1](self.tokens(tokens) + self.places.weight)
        for i, (attention, feed) in enumerate(zip(self.attentions, self.mlps)):
            x = self.norms[2 * i](x + attention(x, mask[:, None, None]))
            x = self.norms[2 * i + 1](x + feed(x))
        return (x * mask[..., None]).sum(1) / lengths[:, None]


@model("bert-padded")
def _(small):
    batch, length = (3, 11) if small else (5, 333)
    net = Encoder(50, 24, 2, 40, length, 2) if small else Encoder(30011, 768, 12, 3072, length, 2)
    lengths = torch.randint(length // 2, length + 1, (batch,))
    return net, (torch.randint(50, (batch, length)), lengths)


class T5Layer(nn.Module):
    def __init__(self, width, heads, inner, buckets=32):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in
                                         ((width, inner), (width, inner), (inner, width)))
        self.bias = nn.Embedding(buckets, heads)
        self.norms = nn.ParameterList([torch.ones(width), torch.ones(width)])

    def forward(self, x):
        batch, length, width = x.shape
        at = torch.arange(length, device=x.device)
        distance = at[None] - at[:, None]
        half, far = self.buckets // 2, distance.abs()
        near = half // 2
        large = near + (torch.log(far.clamp(min=1).float() / near) / math.log(128 / near) * (half - near)).long()
        bucket = (distance > 0) * half + torch.where(far < near, far, large.clamp(max=half - 1))
        bias = self.bias(bucket).permute(2, 0, 1)[None]
        h = F.rms_norm(x, (width,), self.norms[0], 1e-6)
        q, k, v = (w(h).view(batch, length, self.heads, -1).transpose(1, 2) for w in (self.q, self.k, self.v))
        shares = wide(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias).softmax(-1).to(x.dtype)
        x = x + self.o((shares @ v).transpose(1, 2).reshape(x.shape))
        h = F.rms_norm(x, (width,), self.norms[1], 1e-6)
        return x + self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h))


@model("t5-relative", torch.float16)
def _(small):
    if small:
        return T5Layer(16, 2, 24), (torch.randn(2, 9, 16),)
    return T5Layer(768, 12, 2048), (torch.randn(3, 509, 768),)


class ViT(nn.Module):
    def __init__(self, size, patch, width, heads, classes, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.attentions = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.mlps = nn.ModuleList(mlp(width, 4 * width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        for i, (attention, feed) in enumerate(zip(self.attentions, self.mlps)):
            x = x + attention(self.norms[2 * i](x))
            x = x + feed(self.norms[2 * i + 1](x))
        return self.head(self.norms[-1](x[:, 0]))


@model("vit", torch.float16)
def _(small):
    if small:
        return ViT(8, 4, 16, 2, 7, 1), (torch.randn(2, 3, 8, 8),)
    return ViT(210, 14, 640, 10, 777, 2), (torch.randn(5, 3, 210, 210),)


class ConvNeXt(nn.Module):
    """A stage: norm and a convolution of stride 2, then blocks; channels come first."""

    def __init__(self, inputs, width, blocks):
        super().__init__()
        self.norm, self.smaller = nn.LayerNorm(inputs), nn.Conv2d(inputs, width, 2, 2)
        self.deep = nn.ModuleList(nn.Conv2d(width, width, 7, padding=3, groups=width) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(blocks))
        self.mlps = nn.ModuleList(mlp(width, 4 * width) for _ in range(blocks))
        self.gains = nn.ParameterList([torch.ones(width) for _ in range(blocks)])

    def forward(self, x):
        x = self.smaller(self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        for deep, norm, feed, gain in zip(self.deep, self.norms, self.mlps, self.gains):
            x = x + (gain * feed(norm(deep(x).permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)
        return x


@model("convnext-stage")
def _(small):
    if small:
        return ConvNeXt(5, 8, 1), (torch.randn(2, 5, 6, 6),)
    return ConvNeXt(96, 200, 3), (torch.randn(5, 96, 62, 62),)


class UNetBlock(nn.Module):
    """Two convolutions with group norms and a time embedding, then attention over places."""

    def __init__(self, inputs, width, time, groups, heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(groups, n) for n in (inputs, width, width))
        self.one, self.two = nn.Conv2d(inputs, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.skip, self.time = nn.Conv2d(inputs, width, 1), nn.Linear(time, width)
        self.attention = Attention(width, heads)

    def forward(self, x, time):
        h = self.one(F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        x = self.skip(x) + self.two(F.silu(self.norms[1](h)))
        h = self.norms[2](x).flatten(2).transpose(1, 2)
        return x + self.attention(h).transpose(1, 2).reshape(x.shape)


@model("unet-attention", torch.float16)
def _(small):
    if small:
        return UNetBlock(8, 12, 10, 4, 2), (torch.randn(2, 8, 5, 5), torch.randn(2, 10))
    return UNetBlock(320, 480, 1280, 32, 6), (torch.randn(3, 320, 31, 31), torch.randn(3, 1280))


class Dlrm(nn.Module):
    """Tables of embeddings, products of all pairs of features, and MLPs before and after."""

    def __init__(self, tables, rows, width, dense, inner):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows + i, width) for i in range(tables))
        self.bottom, pairs = mlp(dense, inner, width), tables * (tables + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, inner), nn.ReLU(), nn.Linear(inner, inner // 2), nn.ReLU(),
                                 nn.Linear(inner // 2, 1))
        low = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", low[0] * (tables + 1) + low[1])

    def forward(self, dense, sparse):
        first = self.bottom(dense)
        features = torch.stack([first, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        products = torch.bmm(features, features.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.top(torch.cat([first, products], 1)))


@model("dlrm")
def _(small):
    tables, rows, batch, dense = (3, 7, 5, 4) if small else (26, 10007, 2049, 13)
    net = Dlrm(tables, rows, 8 if small else 64, dense, 16 if small else 512)
    return net, (torch.randn(batch, dense), torch.randint(rows, (batch, tables)))


class Mixer(nn.Module):
    def __init__(self, places, width, between, inner):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.along, self.across = mlp(places, between), mlp(width, inner)

    def forward(self, x):
        x = x + self.along(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.across(self.norms[1](x))


@model("mlp-mixer", torch.float16)
def _(small):
    if small:
        return Mixer(7, 12, 9, 20), (torch.randn(2, 7, 12),)
    return Mixer(197, 777, 401, 3001), (torch.randn(5, 197, 777),)


class Lstm(nn.Module):
    """A cell by hand, unrolled over the steps."""

    def __init__(self, inputs, width):
        super().__init__()
        self.width, self.x, self.h = width, nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width, bias=False)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], self.width)
        given, found = self.x(x), []
        for one in given:
            i, f, g, o = (one + self.h(h)).chunk(4, -1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            found.append(h)
        return torch.stack(found), c


@model("lstm-unrolled", torch.float16)
def _(small):
    return (Lstm(5, 7), (torch.randn(3, 2, 5),)) if small else (Lstm(300, 650), (torch.randn(17, 5, 300),))


class GraphConvolution(nn.Module):
    """Sums over neighbours by index_add, divided by roots of degrees; two layers."""

    def __init__(self, inputs, width, classes):
        super().__init__()
        self.one, self.two = nn.Linear(inputs, width), nn.Linear(width, classes)

    def forward(self, x, source, target):
        degree = torch.ones(len(x), device=x.device).index_add(0, target, torch.ones(len(target), device=x.device))
        root = degree.rsqrt()
        weight = (root[source] * root[target])[:, None].to(x.dtype)

        def spread(h):
            return h.index_add(0, target, h[source] * weight)
        return F.log_softmax(wide(spread(self.two(F.relu(spread(self.one(x)))))), -1)


@model("graph-convolution")
def _(small):
    nodes, edges, inputs = (11, 30, 5) if small else (20011, 100003, 333)
    net = GraphConvolution(inputs, 8 if small else 128, 3 if small else 41)
    return net, (torch.randn(nodes, inputs), torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,)))


class Experts(nn.Module):
    """Top 2 of the experts, each with a fixed number of places; what finds none is dropped."""

    def __init__(self, width, inner, experts, capacity):
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * inner) * width ** -0.5)
        self.down = nn.Parameter(torch.randn(experts, inner, width) * inner ** -0.5)

    def forward(self, x):
        shares = F.linear(wide(x), wide(self.router.weight)).softmax(-1)
        best, chosen = shares.topk(2, -1)
        best = (best / best.sum(-1, keepdim=True)).to(x.dtype)
        hot = F.one_hot(chosen.flatten(), self.experts)
        place = (hot.cumsum(0) * hot).sum(-1) - 1
        none = self.experts * self.capacity
        slot = torch.where(place < self.capacity, chosen.flatten() * self.capacity + place, none)
        given = x.new_zeros(none + 1, x.shape[-1])
        given = given.index_copy(0, slot, x.repeat_interleave(2, 0) * (place < self.capacity)[:, None])
        gate, up = torch.bmm(given[:-1].view(self.experts, self.capacity, -1), self.up).chunk(2, -1)
        made = F.pad(torch.bmm(F.silu(gate) * up, self.down).flatten(0, 1), (0, 0, 0, 1))
        return x + (made[slot].view(len(x), 2, -1) * best[..., None]).sum(1)


@model("experts-capacity")
def _(small):
    if small:
        return Experts(8, 12, 4, 5), (torch.randn(9, 8),)
    return Experts(512, 777, 12, 211), (torch.randn(1001, 512),)


class LinearRecurrence(nn.Module):
    """Token shift, a causal depthwise convolution, and a state that decays, in chunks (RWKV's and Mamba's parts)."""

    def __init__(self, width, heads, chunk):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.mix = nn.Parameter(torch.rand(3, width))
        self.r, self.k, self.v, self.g, self.o = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.conv = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.decay = nn.Parameter(torch.linspace(-4, -1, heads))
        self.norm = nn.GroupNorm(heads, width)

    def forward(self, x):
        batch, length, width = x.shape
        before = F.pad(x, (0, 0, 1, -1))
        r, k, v = (w(x + (before - x) * mix) for w, mix in zip((self.r, self.k, self.v), self.mix))
        k = F.silu(self.conv(k.transpose(1, 2))[..., :length].transpose(1, 2))
        r, k, v = (a.view(batch, length // self.chunk, self.chunk, self.heads, -1).permute(0, 3, 1, 2, 4)
                   for a in (r, k, v))
        rate = -F.softplus(wide(self.decay))[:, None]
        at = torch.arange(self.chunk, device=x.device)
        inside = torch.exp((at[:, None] - at).clamp(min=0) * rate[..., None]).tril().to(x.dtype)
        mixed = ((r @ k.transpose(-1, -2)) * inside[:, None]) @ v
        into = torch.exp((self.chunk - 1 - at) * rate).to(x.dtype)[:, None, :, None]
        made = (k * into).transpose(-1, -2) @ v
        whole, state, states = torch.exp(self.chunk * rate)[..., None].to(x.dtype), torch.zeros_like(made[:, :, 0]), []
        for i in range(made.shape[2]):
            states.append(state)
            state = state * whole + made[:, :, i]
        out = torch.exp((at + 1) * rate).to(x.dtype)[:, None, :, None]
        mixed = mixed + (r * out) @ torch.stack(states, 2)
        mixed = mixed.permute(0, 2, 3, 1, 4).reshape(batch * length, width) * (width // self.heads) ** -0.5
        return x + self.o(self.norm(mixed).view(x.shape) * F.silu(self.g(x)))


@model("linear-recurrence")
def _(small):
    if small:
        return LinearRecurrence(12, 2, 4), (torch.randn(2, 12, 12),)
    return LinearRecurrence(1000, 8, 61), (torch.randn(3, 793, 1000),)


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.change, self.attention = nn.Linear(width, 6 * width), Attention(width, heads)
        self.feed = mlp(width, 4 * width)

    def forward(self, x, condition):
        a, b, c, d, e, f = self.change(F.silu(condition))[:, None].chunk(6, -1)
        x = x + c * self.attention(F.layer_norm(x, x.shape[-1:]) * (1 + a) + b)
        return x + f * self.feed(F.layer_norm(x, x.shape[-1:]) * (1 + d) + e)


@model("dit-block")
def _(small):
    if small:
        return DiTBlock(12, 2), (torch.randn(2, 9, 12), torch.randn(2, 12))
    return DiTBlock(1152, 16), (torch.randn(3, 257, 1152), torch.randn(3, 1152))


class VaeDecoder(nn.Module):
    """A residual block, twice the size by nearest neighbours, a convolution to pixels."""

    def __init__(self, width, groups):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(groups, width) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        h = self.convs[0](F.silu(self.norms[0](x)))
        x = x + self.convs[1](F.silu(self.norms[1](h)))
        x = self.convs[2](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return torch.tanh(self.last(F.silu(self.norms[2](x))))


@model("vae-decoder", torch.float16)
def _(small):
    if small:
        return VaeDecoder(8, 4), (torch.randn(2, 8, 5, 5),)
    return VaeDecoder(128, 32), (torch.randn(3, 128, 61, 61),)


class RewardHead(nn.Module):
    """The last token's reward of chosen and rejected answers, and the loss of the pairs."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.dense, self.out = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, hidden, mask):
        rewards = self.out(torch.tanh(self.dense(self.norm(hidden)))).squeeze(-1)
        last = mask.long().cumsum(-1).argmax(-1)
        of_last = rewards.gather(1, last[:, None]).squeeze(1)
        good, bad = of_last.chunk(2)
        large = wide(rewards).masked_fill(~mask, 0).square().sum() / mask.sum()
        loss = -F.logsigmoid(wide(good - bad)).mean() + 0.01 * large
        return of_last, loss, (good > bad).float().mean()


@model("reward-head")
def _(small):
    batch, length, width = (4, 9, 12) if small else (6, 777, 2048)
    lengths = torch.randint(length // 2, length + 1, (batch, 1))
    return RewardHead(width), (torch.randn(batch, length, width), torch.arange(length, device=lengths.device) < lengths)


class WindowDecode(nn.Module):
    """A token of each sequence, a cache as a ring of the window, groups of heads; its row is written in place."""

    def __init__(self, batch, width, heads, groups, window):
        super().__init__()
        self.heads, self.groups, self.window, size = heads, groups, window, width // heads
        self.q, self.kv, self.o = (nn.Linear(a, b, bias=False) for a, b in
                                   ((width, width), (width, 2 * groups * size), (width, width)))
        self.gate, self.down = nn.Linear(width, 6 * width, bias=False), nn.Linear(3 * width, width, bias=False)
        self.norms = nn.ParameterList([torch.ones(width), torch.ones(width)])
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(batch, groups, window, size))

    def forward(self, x, at):
        batch, width = x.shape
        h = F.rms_norm(x, (width,), self.norms[0], 1e-5)
        k, v = self.kv(h).view(batch, 2, self.groups, 1, -1).unbind(1)
        place = at % self.window
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        q = self.q(h).view(batch, self.heads, 1, -1)
        mask = torch.arange(self.window, device=x.device) <= at
        mixed = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask[None], enable_gqa=True)
        x = x + self.o(mixed.reshape(batch, width))
        gate, up = self.gate(F.rms_norm(x, (width,), self.norms[1], 1e-5)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


@model("gqa-ring-decode")
def _(small):
    batch, width, window = (2, 16, 7) if small else (3, 2304, 1021)
    net = WindowDecode(batch, width, 4 if small else 24, 2 if small else 8, window)
    return net, (torch.randn(batch, width), torch.tensor([5 if small else 700]))


class Conformer(nn.Module):
    """The convolution of a conformer: gates, a depthwise convolution of 31, batch norm by kept moments."""

    def __init__(self, width, window):
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.deep = nn.Conv1d(width, width, window, padding=window // 2, groups=width)
        self.batch = nn.BatchNorm1d(width)

    def forward(self, x):
        h = F.glu(self.into(self.norm(x)), -1).transpose(1, 2)
        return x + self.out(F.silu(self.batch(self.deep(h))).transpose(1, 2))


@model("conformer-conv", torch.float16)
def _(small):
    if small:
        return Conformer(8, 5), (torch.randn(2, 9, 8),)
    return Conformer(500, 31), (torch.randn(5, 1499, 500),)


class Sampler(nn.Module):
    """A language model's head: penalties of tokens that were there, a temperature, the best k and their shares."""

    def __init__(self, width, vocabulary, k):
        super().__init__()
        self.k, self.head = k, nn.Linear(width, vocabulary, bias=False)

    def forward(self, x, before, temperature):
        logits = wide(self.head(x))
        seen = logits.gather(1, before)
        logits = logits.scatter(1, before, torch.where(seen > 0, seen / 1.2, seen * 1.2)) / wide(temperature)[:, None]
        best, _ = logits.topk(self.k)
        logits = logits.masked_fill(logits < best[:, -1:], -math.inf)
        shares = logits.softmax(-1)
        return shares, -torch.special.xlogy(shares, shares).sum(-1)


@model("sampler-head")
def _(small):
    batch, width, vocabulary = (3, 12, 50) if small else (5, 1536, 32003)
    return Sampler(width, vocabulary, 5 if small else 40), \
        (torch.randn(batch, width), torch.randint(vocabulary, (batch, 7 if small else 333)), 0.5 + torch.rand(batch))


# Training steps: a model gives its loss.

class MlpLoss(nn.Module):
    def __init__(self, width, inner, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, inner), nn.LayerNorm(inner), nn.SiLU(), nn.Linear(inner, inner),
                                    nn.GELU(), nn.Linear(inner, classes))

    def forward(self, x, labels):
        return F.cross_entropy(wide(self.layers(x)), labels, label_smoothing=0.1)


@model("mlp-train")
def _(small):
    rows, width, inner, classes = (5, 7, 11, 3) if small else (3001, 777, 2003, 1009)
    return MlpLoss(width, inner, classes), (torch.randn(rows, width), torch.randint(classes, (rows,)))


class AttentionLoss(nn.Module):
    """A causal block, and the loss of the next token by tied embeddings."""

    def __init__(self, vocabulary, width, heads):
        super().__init__()
        self.tokens, self.attention = nn.Embedding(vocabulary, width), Attention(width, heads, True)
        self.feed = mlp(width, 3 * width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        nn.init.normal_(self.tokens.weight, 0, width ** -0.5)

    def forward(self, tokens):
        x = self.tokens(tokens[:, :-1])
        x = x + self.attention(self.norms[0](x))
        x = self.norms[2](x + self.feed(self.norms[1](x)))
        return F.cross_entropy(wide(F.linear(x, self.tokens.weight)).flatten(0, 1), tokens[:, 1:].flatten())


@model("attention-train")
def _(small):
    vocabulary, width, batch, length = (31, 16, 2, 9) if small else (10007, 640, 3, 602)
    return AttentionLoss(vocabulary, width, 2 if small else 10), (torch.randint(vocabulary, (batch, length)),)


class ConvolutionLoss(nn.Module):
    """Convolutions with batch norms by the batch's moments, a pool, and a residual."""

    def __init__(self, width, classes):
        super().__init__()
        self.first = nn.Conv2d(3, width, 5, 2, 2, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width, track_running_stats=False) for _ in range(2))
        self.head = nn.Linear(width, classes)

    def forward(self, x, labels):
        x = F.max_pool2d(F.relu(self.norms[0](self.first(x))), 3, 2, 1)
        x = F.relu(x + self.norms[1](self.second(x)))
        return F.cross_entropy(wide(self.head(x.mean((2, 3)))), labels)


@model("convolution-train")
def _(small):
    batch, size, width, classes = (3, 9, 5, 4) if small else (24, 121, 96, 101)
    return ConvolutionLoss(width, classes), (torch.randn(batch, 3, size, size), torch.randint(classes, (batch,)))
