"""More models of odd_models.py (--families torch): attention, caches, convolutions and recurrences that users write.

torch_families_data.py and torch_families_math.py add theirs to the table. A builder takes whether sizes are small and
gives a model and its inputs.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from odd_families import models_of, wide

MODELS = {}
model = models_of(MODELS)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = wide(x)
        return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def rotated(x, places):
    """Rotary positions, halves of the last axis; places is of the axis before it."""
    half = x.shape[-1] // 2
    rate = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = (places[:, None] * rate).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


class WindowAlibiBlock(nn.Module):
    """A decoder block: keys of a sliding window, ALiBi's slopes, scores capped by tanh, groups of heads, GeGLU."""

    def __init__(self, width, heads, groups, window, inner):
        super().__init__()
        self.heads, self.groups, self.window, self.size = heads, groups, window, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(width, inner), nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(RmsNorm(width) for _ in range(4))
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))

    def forward(self, x):
        batch, length, width = x.shape
        h = self.norms[0](x)
        q = self.q(h).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = (w(h).view(batch, length, self.groups, self.size).transpose(1, 2)
                .repeat_interleave(self.heads // self.groups, 1) for w in (self.k, self.v))
        at = torch.arange(length, device=x.device)
        distance = at[:, None] - at[None]
        scores = wide(torch.einsum("bhqd,bhkd->bhqk", q, k)) / math.sqrt(self.size)
        scores = 50.0 * torch.tanh(scores / 50.0) - self.slopes[:, None, None] * distance
        scores = scores.masked_fill((distance < 0) | (distance >= self.window), float("-inf"))
        mixed = torch.einsum("bhqk,bhkd->bqhd", torch.softmax(scores, -1).to(x.dtype), v)
        x = x + self.norms[1](self.o(mixed.flatten(2)))
        h = self.norms[2](x)
        return x + self.norms[3](self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h)))


@model("window-alibi-block")
def _(small):
    if small:
        return WindowAlibiBlock(16, 4, 2, 3, 20), (torch.randn(2, 7, 16),)
    return WindowAlibiBlock(832, 13, 1, 129, 2003), (torch.randn(3, 777, 832),)


class TalkingHeads(nn.Module):
    """Heads that are mixed before and after the softmax; queries and keys of unit length; the loss is a regression."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.before, self.after = nn.Conv2d(heads, heads, 1, bias=False), nn.Conv2d(heads, heads, 1, bias=False)
        self.scale = nn.Parameter(torch.full((heads, 1, 1), 10.0))
        self.norm = nn.LayerNorm(width)

    def forward(self, x, wanted):
        batch, length, width = x.shape
        q, k, v = (a.reshape(batch, length, self.heads, -1).transpose(1, 2)
                   for a in self.qkv(self.norm(x)).chunk(3, -1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        scores = self.before(q @ k.mT * self.scale)
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        shares = self.after(F.softmax(scores, -1))
        y = x + self.out((shares @ v).transpose(1, 2).flatten(2))
        return F.mse_loss(wide(y), wide(wanted))


@model("talking-heads-train")
def _(small):
    batch, length, width, heads = (2, 5, 12, 3) if small else (5, 331, 693, 11)
    return TalkingHeads(width, heads), (torch.randn(batch, length, width), torch.randn(batch, length, width))


class LatentDecode(nn.Module):
    """DeepSeek's latent attention, a token of each sequence: the cache has a latent row and one rotary key.

    The row is written by assigning to a slice. The keys' and values' weights are absorbed by the queries and results.
    """

    def __init__(self, batch, width, heads, size, rotary, rank, capacity, at):
        super().__init__()
        self.heads, self.size, self.rotary, self.rank, self.at = heads, size, rotary, rank, at
        self.q_down, self.q_up = nn.Linear(width, 2 * rank), nn.Linear(2 * rank, heads * (size + rotary))
        self.q_norm, self.kv_norm = RmsNorm(2 * rank), RmsNorm(rank)
        self.kv_down = nn.Linear(width, rank + rotary)
        self.kv_up = nn.Parameter(torch.randn(heads, 2 * size, rank) * rank ** -0.5)
        self.o = nn.Linear(heads * size, width)
        self.register_buffer("latents", torch.randn(batch, capacity, rank))
        self.register_buffer("keys", torch.randn(batch, capacity, rotary))

    def forward(self, x):
        batch, at = len(x), self.at
        place = torch.full((1,), at, device=x.device)
        q = self.q_up(self.q_norm(self.q_down(x))).view(batch, self.heads, 1, self.size + self.rotary)
        q, q_rotary = torch.split(q, [self.size, self.rotary], -1)
        q_rotary = rotated(q_rotary, place)
        latent, key = self.kv_down(x).split([self.rank, self.rotary], -1)
        self.latents[:, at] = self.kv_norm(latent)
        self.keys[:, at:at + 1] = rotated(key[:, None], place)
        up_k, up_v = self.kv_up.chunk(2, 1)
        absorbed = torch.einsum("bhqd,hdr->bhqr", q, up_k)
        latents, keys = self.latents[:, :at + 1], self.keys[:, :at + 1]
        scores = torch.einsum("bhqr,bkr->bhqk", absorbed, latents) + torch.einsum("bhqd,bkd->bhqk", q_rotary, keys)
        shares = F.softmax(wide(scores) * (self.size + self.rotary) ** -0.5, -1).to(x.dtype)
        mixed = torch.einsum("bhqk,bkr->bhqr", shares, latents)
        return x + self.o(torch.einsum("bhqr,hdr->bqhd", mixed, up_v).reshape(batch, -1))


@model("latent-decode")
def _(small):
    if small:
        return LatentDecode(2, 16, 2, 4, 4, 6, 9, 5), (torch.randn(2, 16),)
    return LatentDecode(5, 2048, 16, 128, 64, 512, 4099, 3001), (torch.randn(5, 2048),)


class CrossAttention(nn.Module):
    """torch's own attention module over an encoder's padded results; the shares of the heads' mean are a result."""

    def __init__(self, width, heads, of_memory, inner):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, kdim=of_memory, vdim=of_memory, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Dropout(0.1), nn.Linear(inner, width))

    def forward(self, x, memory, lengths):
        padding = torch.arange(memory.shape[1], device=x.device)[None] >= lengths[:, None]
        mixed, shares = self.attention(self.norms[0](x), memory, memory, key_padding_mask=padding)
        x = x + mixed
        return x + self.feed(self.norms[1](x)), shares


@model("cross-attention-padded", torch.float16)
def _(small):
    batch, length, keys, width, of_memory = (3, 4, 6, 8, 10) if small else (7, 211, 499, 776, 1024)
    net = CrossAttention(width, 2 if small else 8, of_memory, 12 if small else 3001)
    lengths = torch.randint(keys // 2, keys + 1, (batch,))
    return net, (torch.randn(batch, length, width), torch.randn(batch, keys, of_memory), lengths)


class Int8Cache(nn.Module):
    """A decoding step; the cache is of int8 with a scale for each row; a sequence's row is scattered to its place."""

    def __init__(self, batch, width, heads, capacity):
        super().__init__()
        self.heads, size = heads, width // heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randint(-127, 128, (batch, heads, capacity, size), dtype=torch.int8))
            self.register_buffer(name + "_scales", torch.rand(batch, heads, capacity, 1) / 64)

    def put(self, name, row, places):
        cache, scales = getattr(self, name), getattr(self, name + "_scales")
        scale = row.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        whole = torch.round(row / scale).clamp(-127, 127).to(torch.int8)
        index = places[:, None, None, None].expand(-1, self.heads, 1, 1)
        cache.scatter_(2, index.expand(-1, -1, -1, row.shape[-1]), whole)
        scales.scatter_(2, index, scale)
        return cache.to(row.dtype) * scales

    def forward(self, x, places):
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, 1, -1).unbind(1)
        keys, values = self.put("keys", k, places), self.put("values", v, places)
        mask = torch.arange(keys.shape[2], device=x.device) <= places[:, None, None, None]
        return x + self.o(F.scaled_dot_product_attention(q, keys, values, attn_mask=mask).flatten(1))


@model("int8-cache-decode")
def _(small):
    batch, width, heads, capacity = (2, 8, 2, 7) if small else (7, 1664, 13, 1531)
    return Int8Cache(batch, width, heads, capacity), (torch.randn(batch, width), torch.randint(2, capacity, (batch,)))


class LocalBlocks(nn.Module):
    """Longformer's attention in blocks: queries of a block see it and its neighbours, keys by Tensor.unfold."""

    def __init__(self, width, heads, block):
        super().__init__()
        self.heads, self.block = heads, block
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(heads, block, 3 * block))

    def forward(self, x):
        batch, length, width = x.shape
        size, blocks = self.block, -(-length // self.block)
        x = F.pad(x, (0, 0, 0, blocks * size - length))
        q, k, v = self.qkv(x).view(batch, blocks * size, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q = q.unflatten(2, (blocks, size))
        k, v = (F.pad(a, (0, 0, size, size)).unfold(2, 3 * size, size) for a in (k, v))
        key = torch.arange(-size, (blocks + 1) * size, device=x.device).unfold(0, 3 * size, size)
        scores = q @ k / q.shape[-1] ** 0.5 + self.bias[None, :, None]
        scores = torch.where(((key >= 0) & (key < length))[:, None], scores, -1e4)
        mixed = torch.einsum("bhnqk,bhndk->bnqhd", scores.softmax(-1), v)
        return self.out(mixed.flatten(3).flatten(1, 2))[:, :length]


@model("local-blocks", torch.float16)
def _(small):
    if small:
        return LocalBlocks(8, 2, 3), (torch.randn(2, 8, 8),)
    return LocalBlocks(704, 11, 61), (torch.randn(3, 1303, 704),)


class EncoderLayerLoss(nn.Module):
    """torch's own encoder layers, masked tokens of which labels are -100; embeddings have a padding index."""

    def __init__(self, vocabulary, width, heads, inner):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, labels):
        x = self.layers(self.tokens(tokens), src_key_padding_mask=tokens == 0)
        return F.cross_entropy(wide(self.head(x)).transpose(1, 2), labels, ignore_index=-100)


@model("encoder-layers-train")
def _(small):
    vocabulary, width, heads, inner, batch, length = (23, 12, 3, 20, 3, 7) if small else (5003, 510, 6, 1901, 5, 257)
    tokens = torch.randint(1, vocabulary, (batch, length))
    labels = torch.where(torch.rand(batch, length) < 0.3, tokens, -100)
    tokens[0, length // 2:] = 0
    return EncoderLayerLoss(vocabulary, width, heads, inner), (tokens, labels)


class InvertedResidual(nn.Module):
    """MobileNetV3's block: expand, a depthwise convolution, squeeze and excite, project, all with kept moments."""

    def __init__(self, inputs, inner, outputs, kernel, stride):
        super().__init__()
        self.expand, self.project = nn.Conv2d(inputs, inner, 1, bias=False), nn.Conv2d(inner, outputs, 1, bias=False)
        self.deep = nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n, eps=1e-3) for n in (inner, inner, outputs))
        self.squeeze, self.excite = nn.Conv2d(inner, inner // 4, 1), nn.Conv2d(inner // 4, inner, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        h = F.hardswish(self.norms[0](self.expand(x)))
        h = self.norms[1](self.deep(h))
        h = h * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(h, 1)))))
        h = self.norms[2](self.project(F.hardswish(h)))
        return x + h if self.residual else h


@model("inverted-residuals", torch.float16)
def _(small):
    sizes = ((6, 64, 24, 3, 2), (24, 120, 40, 5, 2), (40, 120, 40, 5, 1))
    if small:
        sizes = ((6, 8, 8, 3, 1), (8, 12, 10, 3, 2))
    net = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.Hardswish(), *(InvertedResidual(*one) for one in sizes),
                        nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Linear(6 * sizes[-1][2], 7 if small else 1009))
    return net, (torch.randn(2, 3, 9, 11) if small else torch.randn(7, 3, 221, 217),)


class UNetDice(nn.Module):
    """Two levels with skips, bilinear interpolation to odd sizes, instance norms; Dice and cross entropy."""

    def __init__(self, width, classes):
        super().__init__()
        def pair(inputs, outputs):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                                 nn.InstanceNorm2d(outputs, affine=True), nn.LeakyReLU(0.1),
                                 nn.Conv2d(outputs, outputs, 3, padding=1), nn.ELU())
        self.downs = nn.ModuleList([pair(3, width), pair(width, 2 * width)])
        self.middle = pair(2 * width, 4 * width)
        self.ups = nn.ModuleList([pair(6 * width, 2 * width), pair(3 * width, width)])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x, labels):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2, ceil_mode=True)
        x = self.middle(x)
        for up, skip in zip(self.ups, reversed(skips)):
            x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=False)
            x = up(torch.cat([skip, x], 1))
        logits = wide(self.head(x))
        shares = logits.softmax(1)
        hot = F.one_hot(labels, logits.shape[1]).permute(0, 3, 1, 2).to(shares.dtype)
        both = (shares * hot).sum((0, 2, 3))
        dice = 1 - ((2 * both + 1) / (shares.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + 1)).mean()
        return dice + F.cross_entropy(logits, labels)


@model("unet-dice-train", torch.float32)
def _(small):
    width, classes, batch, size = (4, 3, 2, (9, 7)) if small else (32, 5, 3, (157, 131))
    return UNetDice(width, classes), (torch.randn(batch, 3, *size), torch.randint(classes, (batch, *size)))


class DeformableConvolution(nn.Module):
    """A modulated deformable convolution of 3 by 3: each tap is a grid_sample at learned offsets."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.offsets = nn.Conv2d(inputs, 27, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(outputs, 9 * inputs) * (9 * inputs) ** -0.5)

    def forward(self, x):
        batch, channels, height, width = x.shape
        change, gate = self.offsets(x).split([18, 9], 1)
        change = change.view(batch, 9, 2, height, width)
        gate = gate.sigmoid()
        ys, xs = torch.meshgrid(*(torch.arange(n, device=x.device) for n in (height, width)), indexing="ij")
        taps = []
        for i in range(9):
            y = ys + i // 3 - 1 + wide(change[:, i, 0])
            z = xs + i % 3 - 1 + wide(change[:, i, 1])
            grid = torch.stack((2 * z / (width - 1) - 1, 2 * y / (height - 1) - 1), -1)
            tap = F.grid_sample(wide(x), grid, padding_mode="zeros", align_corners=True)
            taps.append(tap.to(x.dtype) * gate[:, i:i + 1])
        return torch.einsum("oc,bchw->bohw", self.weight, torch.cat(taps, 1))


@model("deformable-convolution", torch.float16)
def _(small):
    if small:
        return DeformableConvolution(3, 5), (torch.randn(2, 3, 5, 6),)
    return DeformableConvolution(48, 77), (torch.randn(3, 48, 61, 83),)


class Snake(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rate = nn.Parameter(torch.ones(1, width, 1))

    def forward(self, x):
        return x + (self.rate + 1e-9).reciprocal() * torch.sin(self.rate * x).pow(2)


class AudioCodec(nn.Module):
    """Convolutions over samples with weight norms and Snake, strides down, dilated residuals, transposed ones up."""

    def __init__(self, width, strides):
        super().__init__()
        self.first = weight_norm(nn.Conv1d(1, width, 7, padding=3))
        self.last = weight_norm(nn.Conv1d(width, 1, 7, padding=3))
        self.downs = nn.ModuleList(weight_norm(nn.Conv1d(width << i, width << i + 1, 2 * s, s, s // 2 + s % 2))
                                   for i, s in enumerate(strides))
        self.ups = nn.ModuleList(weight_norm(nn.ConvTranspose1d(width << i + 1, width << i, 2 * s, s, s // 2 + s % 2,
                                                                output_padding=s % 2)) for i, s in enumerate(strides))
        top = width << len(strides)
        self.dilated = nn.ModuleList(
            nn.Sequential(Snake(top), weight_norm(nn.Conv1d(top, top, 7, padding=3 * d, dilation=d)),
                          Snake(top), weight_norm(nn.Conv1d(top, top, 1))) for d in (1, 3, 9))
        self.snakes = nn.ModuleList(Snake(width << i) for i in range(len(strides) + 1))

    def forward(self, x):
        x = self.first(x)
        for snake, down in zip(self.snakes, self.downs):
            x = down(snake(x))
        for block in self.dilated:
            x = x + block(x)
        for i in reversed(range(len(self.ups))):
            x = self.ups[i](self.snakes[i + 1](x))
        return torch.tanh(self.last(self.snakes[0](x)))


@model("audio-codec", torch.float16)
def _(small):
    if small:
        return AudioCodec(2, (2, 3)), (torch.randn(2, 1, 36),)
    return AudioCodec(24, (2, 5, 7)), (torch.randn(3, 1, 24010),)


class VideoBlock(nn.Module):
    """R(2+1)D's: convolutions over places and over frames with group norms, a strided shortcut, pools."""

    def __init__(self, inputs, outputs, groups):
        super().__init__()
        between = (3 * inputs * outputs) // (inputs + outputs)
        between -= between % groups
        self.places = nn.Conv3d(inputs, between, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False)
        self.frames = nn.Conv3d(between, outputs, (3, 1, 1), (2, 1, 1), (1, 0, 0), bias=False)
        self.short = nn.Conv3d(inputs, outputs, 1, 2, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(groups, n) for n in (between, outputs, outputs))
        self.slopes = nn.PReLU(outputs)

    def forward(self, x):
        h = F.relu6(self.norms[0](self.places(x)))
        h = self.slopes(self.norms[1](self.frames(h)) + self.norms[2](self.short(x)))
        return F.avg_pool3d(h, 2, ceil_mode=True, count_include_pad=False), h.amax((2, 3, 4))


@model("video-block", torch.float32)
def _(small):
    if small:
        return VideoBlock(4, 6, 2), (torch.randn(2, 4, 4, 7, 6),)
    return VideoBlock(48, 88, 4), (torch.randn(3, 48, 13, 57, 55),)


class SuperResolution(nn.Module):
    """Pixel unshuffle, reflected borders, channel attention, pixel shuffle, and a bicubic picture added to it."""

    def __init__(self, width, blocks):
        super().__init__()
        self.first = nn.Conv2d(12, width, 3, padding=1, padding_mode="reflect")
        self.last = nn.Conv2d(width, 48, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, padding_mode="replicate")
                                   for _ in range(2 * blocks))
        self.gates = nn.ModuleList(nn.Conv1d(1, 1, 3, padding=1) for _ in range(blocks))

    def forward(self, x):
        h = self.first(F.pixel_unshuffle(x, 2))
        for i, gate in enumerate(self.gates):
            made = self.convs[2 * i + 1](F.mish(self.convs[2 * i](h)))
            share = gate(made.mean((2, 3))[:, None]).sigmoid().squeeze(1)
            h = torch.addcmul(h, made, share[:, :, None, None], value=0.2)
        return (F.interpolate(x, scale_factor=2, mode="bicubic") + F.pixel_shuffle(self.last(h), 4)).clamp(0, 1)


@model("super-resolution", torch.float16)
def _(small):
    if small:
        return SuperResolution(6, 1), (torch.rand(2, 3, 8, 6),)
    return SuperResolution(52, 2), (torch.rand(3, 3, 142, 118),)


class StandardisedFocal(nn.Module):
    """Convolutions with standardised weights and group norms (BiT), a generalised mean pool, and the focal loss."""

    def __init__(self, width, groups, classes):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, s, 1, bias=False)
                                   for a, b, s in ((3, width, 2), (width, width, 1), (width, 2 * width, 2)))
        self.norms = nn.ModuleList(nn.GroupNorm(groups, n) for n in (width, width, 2 * width))
        self.power, self.head = nn.Parameter(torch.full((2 * width,), 3.0)), nn.Linear(2 * width, classes)

    def forward(self, x, labels):
        for conv, norm in zip(self.convs, self.norms):
            spread, mean = torch.var_mean(conv.weight, dim=(1, 2, 3), keepdim=True, correction=0)
            weight = (conv.weight - mean) / (spread + 1e-5).sqrt()
            x = F.silu(norm(F.conv2d(x, weight, None, conv.stride, conv.padding)))
        x = x.clamp(min=1e-3).pow(self.power[:, None, None]).mean((-2, -1)).pow(1 / self.power)
        logits = wide(self.head(x))
        cross = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        right = torch.exp(-cross)
        return ((0.25 * labels + 0.75 * (1 - labels)) * (1 - right) ** 2 * cross).sum() / labels.sum().clamp(min=1)


@model("standardised-focal-train", torch.float32)
def _(small):
    width, groups, classes, batch, size = (6, 2, 5, 7, 13) if small else (45, 5, 37, 11, 97)
    return StandardisedFocal(width, groups, classes), \
        (torch.randn(batch, 3, size, size), (torch.rand(batch, classes) < 0.4).float())


class GruCells(nn.Module):
    """Two of torch's GRU cells over steps; a sequence that has ended keeps its state; attention pools the steps."""

    def __init__(self, inputs, width):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(inputs, width), nn.GRUCell(width, width)])
        self.score = nn.Linear(width, 1)

    def forward(self, x, lengths):
        steps, batch, _ = x.shape
        states = [x.new_zeros(batch, cell.hidden_size) for cell in self.cells]
        found = []
        for t in range(steps):
            h, goes_on = x[t], (t < lengths)[:, None]
            for i, cell in enumerate(self.cells):
                h = torch.where(goes_on, cell(h, states[i]), states[i])
                states[i] = h
            found.append(h)
        found = torch.stack(found, 1)
        score = self.score(torch.tanh(found)).squeeze(-1)
        score[torch.arange(steps, device=x.device)[None] >= lengths[:, None]] = float("-inf")
        return torch.bmm(score.softmax(1)[:, None], found).squeeze(1), states[0]


@model("gru-cells")
def _(small):
    steps, batch, inputs, width = (4, 3, 5, 6) if small else (19, 5, 300, 517)
    return GruCells(inputs, width), (torch.randn(steps, batch, inputs), torch.randint(1, steps + 1, (batch,)))


class MinGru(nn.Module):
    """All steps at once, in logarithms: a cumsum of gates and a logcumsumexp of what they let in."""

    def __init__(self, width, inner):
        super().__init__()
        self.norm, self.both = RmsNorm(width), nn.Linear(width, 2 * inner, bias=False)
        self.out = nn.Linear(inner, width)

    def forward(self, x, before):
        hidden, gate = wide(self.both(self.norm(x))).chunk(2, -1)
        kept, let_in = -F.softplus(gate), -F.softplus(-gate)
        of_hidden = torch.where(hidden >= 0, (F.relu(hidden) + 0.5).log(), -F.softplus(-hidden))
        logs = torch.cat([wide(before).log(), let_in + of_hidden], 1)
        sums = F.pad(kept.cumsum(1), (0, 0, 1, 0))
        states = (sums + (logs - sums).logcumsumexp(1)).exp()[:, 1:]
        return x + self.out(states.to(x.dtype)), states[:, -1]


@model("mingru-logscan")
def _(small):
    batch, length, width, inner = (2, 6, 5, 7) if small else (3, 777, 512, 691)
    return MinGru(width, inner), (torch.randn(batch, length, width), torch.rand(batch, 1, inner) + 0.5)


class SelectiveScan(nn.Module):
    """Mamba's block, its scan as a loop over the steps; the loss is of the next row."""

    def __init__(self, width, inner, states, rank):
        super().__init__()
        self.into, self.out = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.params, self.rates = nn.Linear(inner, rank + 2 * states, bias=False), nn.Linear(rank, inner)
        self.log_a = nn.Parameter(torch.arange(1, states + 1).float().log().repeat(inner, 1))
        self.skip, self.sizes = nn.Parameter(torch.ones(inner)), (rank, states, states)

    def forward(self, x):
        batch, length, _ = x.shape
        h, gate = self.into(x).chunk(2, -1)
        h = F.silu(self.conv(h.transpose(1, 2))[:, :, :length].transpose(1, 2))
        rate, b, c = self.params(h).split(self.sizes, -1)
        rate = F.softplus(self.rates(rate))
        a = torch.exp(rate[..., None] * -torch.exp(self.log_a))
        b = rate[..., None] * b[:, :, None] * h[..., None]
        state, found = torch.zeros_like(a[:, 0]), []
        for t in range(length):
            state = a[:, t] * state + b[:, t]
            found.append(torch.einsum("bds,bs->bd", state, c[:, t]))
        y = self.out((torch.stack(found, 1) + h * self.skip) * F.silu(gate))
        return F.smooth_l1_loss(wide(y[:, :-1]), wide(x[:, 1:]), beta=0.5)


@model("selective-scan-train", torch.float32)
def _(small):
    if small:
        return SelectiveScan(6, 10, 3, 2), (torch.randn(2, 5, 6),)
    return SelectiveScan(257, 510, 13, 17), (torch.randn(3, 23, 257),)
