"""Speech, audio, text and series of measurements.

Models of odd_models.py (--families outside) by authors who had not read the compiler; outside_cases.py says how a
model is given.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from outside_cases import Fn, I, R, case


@case(train=True)
def tcn_weight_norm(s):
    c = s(7, 97)
    layers = []
    for i in range(4):
        layers += [nn.ConstantPad1d((2 * 2**i, 0), 0.0), weight_norm(nn.Conv1d(c, c, 3, dilation=2**i)), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv1d(c, 5, 1)), [R(3, c, s(100, 1283))]


@case(train=True)
def conformer(s):
    """Conformer block."""
    b, t, d, h = s(2, 5), s(13, 257), s(16, 264), 4

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            ff = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
            self.f1, self.f2, self.n, self.nc, self.no = ff(), ff(), nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
            self.q, self.k, self.v, self.p, self.o = (nn.Linear(d, d, bias=i not in (1, 3)) for i in range(5))
            self.u, self.vb = nn.Parameter(R(h, 1, d // h, scale=0.1)), nn.Parameter(R(h, 1, d // h, scale=0.1))
            self.c1, self.dw, self.bn, self.c2 = (
                nn.Conv1d(d, 2 * d, 1),
                nn.Conv1d(d, d, 15, padding=7, groups=d, bias=False),
                nn.BatchNorm1d(d),
                nn.Conv1d(d, d, 1),
            )

        def forward(self, x, mask):
            x = x + 0.5 * self.f1(x)
            z = self.n(x)
            sp = lambda y: y.view(b, -1, h, d // h).transpose(1, 2)
            q, k, v = sp(self.q(z)), sp(self.k(z)), sp(self.v(z))
            pos = torch.arange(t - 1, -t, -1, device=x.device, dtype=torch.float32)[:, None]
            f = torch.exp(torch.arange(0, d, 2, device=x.device, dtype=torch.float32) * (-math.log(10000.0) / d))
            pe = torch.stack([(pos * f).sin(), (pos * f).cos()], -1).flatten(1).to(x.dtype)
            p = self.p(pe).view(1, 2 * t - 1, h, d // h).transpose(1, 2)
            bd = (q + self.vb) @ p.transpose(-2, -1)
            bd = F.pad(bd, (1, 0)).view(b, h, 2 * t, t)[:, :, 1:].reshape(b, h, t, 2 * t - 1)[..., :t]
            a = ((q + self.u) @ k.transpose(-2, -1) + bd) / math.sqrt(d // h)
            a = a.masked_fill(mask[:, None, None], -1e4).softmax(-1).masked_fill(mask[:, None, None], 0.0)
            x = x + self.o((a @ v).transpose(1, 2).flatten(2))
            y = F.glu(self.c1(self.nc(x).transpose(1, 2)), 1).masked_fill(mask[:, None], 0.0)
            x = x + self.c2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)
            return self.no(x + 0.5 * self.f2(x))

    mask = torch.arange(t) >= torch.linspace(t - 5, t, b).long()[:, None]
    return Block(), [R(b, t, d), mask]


@case(train=True)
def wav2vec_features(s):
    """Wav2vec 2.0's feature encoder, positional convolution and contrastive loss."""
    b, t, c = s(2, 3), s(401, 64001), s(8, 136)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.c0, self.gn = nn.Conv1d(1, c, 10, 5, bias=False), nn.GroupNorm(c, c)
            self.cs = nn.ModuleList(nn.Conv1d(c, c, k, 2, bias=False) for k in (3, 3, 2))
            self.ln, self.proj = nn.LayerNorm(c), nn.Linear(c, 2 * c)
            self.pos = nn.Conv1d(2 * c, 2 * c, 16, padding=8, groups=4)

        def forward(self, x, mask_at, neg):
            x = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-7)
            x = F.gelu(self.gn(self.c0(x[:, None])))
            for l in self.cs:
                x = F.gelu(l(x))
            z = self.proj(self.ln(x.transpose(1, 2)))
            y = z + F.gelu(self.pos(z.transpose(1, 2))[..., :-1]).transpose(1, 2)
            i = mask_at[..., None].expand(-1, -1, z.shape[-1])
            pos, pred = z.gather(1, i), y.gather(1, i)
            cand = torch.cat([pos[:, :, None], torch.stack([z[j][neg[j]] for j in range(b)])], 2)
            lg = F.cosine_similarity(pred[:, :, None], cand, dim=-1) / 0.1
            return F.cross_entropy(
                lg.flatten(0, 1), torch.zeros(lg.shape[0] * lg.shape[1], dtype=torch.long, device=x.device)
            )

    n = t
    for k, st in ((10, 5), (3, 2), (3, 2), (2, 2)):
        n = (n - k) // st + 1
    m = s(3, 77)
    at = torch.stack([torch.randperm(n)[:m].sort().values for _ in range(b)])
    return Model(), [R(b, t), at, I(n, b, m, s(4, 31))]


@case(train=True)
def hifigan_mrf(s):
    """HiFi-GAN's generator stage: transposed convolutions and multi-receptive-field fusion."""
    b, c, t = s(1, 5), s(8, 136), s(15, 1283)

    class Res(nn.Module):
        def __init__(self, c, k):
            super().__init__()
            self.a = nn.ModuleList(nn.Conv1d(c, c, k, dilation=d, padding=d * (k - 1) // 2) for d in (1, 3))
            self.b = nn.ModuleList(nn.Conv1d(c, c, k, padding=(k - 1) // 2) for d in (1, 3))

        def forward(self, x):
            for p, q in zip(self.a, self.b):
                x = x + q(F.leaky_relu(p(F.leaky_relu(x, 0.1)), 0.1))
            return x

    class Gen(nn.Module):
        def __init__(self):
            super().__init__()
            self.pre = nn.Conv1d(s(5, 80), c, 7, padding=3)
            self.up = nn.ModuleList(
                [nn.ConvTranspose1d(c, c // 2, 8, 4, 2), nn.ConvTranspose1d(c // 2, c // 4, 4, 2, 1)]
            )
            self.res = nn.ModuleList(nn.ModuleList(Res(c // 2 ** (i + 1), k) for k in (3, 7)) for i in range(2))
            self.post = nn.Conv1d(c // 4, 1, 7, padding=3)

        def forward(self, mel, wav):
            x = self.pre(mel)
            for u, rs in zip(self.up, self.res):
                x = u(F.leaky_relu(x, 0.1))
                x = sum(r(x) for r in rs) / len(rs)
            y = torch.tanh(self.post(F.leaky_relu(x)))
            return (
                torch.sqrt((y - wav) ** 2 + 0.1).mean(),
                F.mse_loss(F.avg_pool1d(y, 4, 2, 2), F.avg_pool1d(wav, 4, 2, 2)),
                y,
            )

    return Gen(), [R(b, s(5, 80), t), R(b, 1, 8 * t)]


@case()
def streaming_conv_cache(s):
    """Streaming convolutions with caches that are written in place, served."""
    b, c, t, n = s(2, 31), s(8, 264), s(5, 225), 4

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cv = nn.ModuleList(nn.Conv1d(c, 2 * c, 5, dilation=2**i, groups=4) for i in range(n))
            self.o = nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(n))
            self.n = nn.LayerNorm(c)
            for i in range(n):
                self.register_buffer(f"cache{i}", R(b, c, 4 * 2**i))
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            for i in range(n):
                cache = getattr(self, f"cache{i}")
                z = torch.cat([cache, x], -1)
                cache.copy_(z[..., -cache.shape[-1] :])
                a, g = self.cv[i](z).chunk(2, 1)
                x = x + self.o[i](torch.tanh(a) * torch.sigmoid(g))
            self.seen += x.shape[-1]
            return self.n(x.transpose(1, 2)), self.seen.clone()

    return Model(), [R(b, c, t)]


@case(f32=True)
def log_mel(s):
    n = s(3001, 48001)

    def f(m, x):
        sp = torch.stft(
            x, 400, 160, window=torch.hann_window(400, device=x.device, dtype=x.dtype), return_complex=True, center=True
        )
        p = sp.abs() ** 2
        mel = torch.clamp(m.mel @ p, min=1e-10).log10()
        mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8)
        d = F.conv1d(F.pad(mel.flatten(0, 1)[:, None], (2, 2), mode="replicate"), m.dk[None, None]).view_as(mel)
        return (mel + 4) / 4, d

    return Fn(f, mel=torch.rand(77, 201) * 0.1, dk=torch.tensor([-0.2, -0.1, 0.0, 0.1, 0.2])), [R(s(2, 7), n)]


@case(f32=True)
def haar_wavelet(s):
    def f(m, x):
        out = []
        for _ in range(3):
            if x.shape[-1] % 2:
                x = F.pad(x, (0, 1), mode="replicate")
            a, b = x[..., ::2], x[..., 1::2]
            hi = (a - b) * 0.5**0.5
            x = (a + b) * 0.5**0.5
            out.append(F.softshrink(hi, 0.3))
        for hi in reversed(out):
            a, b = (x[..., : hi.shape[-1]] + hi) * 0.5**0.5, (x[..., : hi.shape[-1]] - hi) * 0.5**0.5
            x = torch.stack([a, b], -1).flatten(-2)
        return x, out

    return Fn(f), [R(s(7, 131), s(1001, 10007))]


@case(train=True)
def char_cnn_highway(s):
    b, t, c = s(5, 33), s(7, 61), s(9, 21)

    def f(m, x):
        e = m.emb(x).flatten(0, 1).transpose(1, 2)
        y = torch.cat(
            [F.max_pool1d(torch.tanh(l(e)), e.shape[2] - l.kernel_size[0] + 1).squeeze(-1) for l in (m.c1, m.c2, m.c3)],
            1,
        )
        g = torch.sigmoid(m.g(y))
        y = g * F.relu(m.h(y)) + (1 - g) * y
        return y.view(b, t, -1)

    n = s(7, 75)
    return Fn(
        f,
        emb=nn.Embedding(101, 15, padding_idx=0),
        c1=nn.Conv1d(15, n, 1),
        c2=nn.Conv1d(15, n, 3),
        c3=nn.Conv1d(15, n, 5),
        g=nn.Linear(3 * n, 3 * n),
        h=nn.Linear(3 * n, 3 * n),
    ), [I(101, b, t, c)]


@case(train=True)
def patchtst_revin(s):
    """PatchTST with RevIN and batch norm over patches."""
    b, c, t, p, st, d = s(3, 9), s(3, 17), s(45, 513), s(8, 16), s(4, 8), s(16, 136)
    n = (t - p) // st + 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.g, self.b = nn.Parameter(torch.ones(c, 1)), nn.Parameter(torch.zeros(c, 1))
            self.inp, self.pos = nn.Linear(p, d), nn.Parameter(R(n, d, scale=0.02))
            self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
            self.n1, self.n2 = nn.BatchNorm1d(d), nn.BatchNorm1d(d)
            self.f1, self.f2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d, bias=False)
            self.head = nn.Linear(n * d, s(9, 96))

        def forward(self, x):
            mu = x.mean(-1, keepdim=True).detach()
            sd = torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5).detach()
            x = (x - mu) / sd * self.g + self.b
            x = F.pad(x, (0, st), mode="replicate").unfold(-1, p, st)
            x = (self.inp(x) + self.pos).flatten(0, 1)
            q, k, v = self.qkv(x).view(b * c, n, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
            a = self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            x = self.n1((x + a).transpose(1, 2)).transpose(1, 2)
            x = self.n2((x + self.f2(F.gelu(self.f1(x)))).transpose(1, 2)).transpose(1, 2)
            y = self.head(x.reshape(b, c, n * d))
            return (y - self.b) / (self.g + 1e-10) * sd + mu

    return Model(), [R(b, c, t)]


@case(train=True)
def nbeats_blocks(s):
    t, h, w = s(33, 131), s(13, 37), s(33, 257)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = nn.ModuleList(
                nn.Sequential(nn.Linear(t, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 8)) for _ in range(3)
            )

        def forward(self, x):
            f = 0
            tb, tf = (
                torch.linspace(0, 1, t, device=x.device, dtype=x.dtype),
                torch.linspace(0, 1, h, device=x.device, dtype=x.dtype),
            )
            for i, b in enumerate(self.b):
                th = b(x)
                basis = lambda z: (
                    torch.stack([z**p for p in range(4)])
                    if i % 2 == 0
                    else torch.stack(
                        [torch.cos(2 * math.pi * p * z) for p in (1, 2)]
                        + [torch.sin(2 * math.pi * p * z) for p in (1, 2)]
                    )
                )
                x = x - th[:, :4] @ basis(tb)
                f = f + th[:, 4:] @ basis(tf)
            return x, f

    return Model(), [R(s(33, 1001), t)]


@case(train=True, f32=True)
def autoformer(s):
    """Autoformer: decomposition and autocorrelation with rolled values."""
    b, t, h, d = s(2, 31), s(25, 385), 2, s(4, 72)
    e = h * d

    def decomp(x, k=13):
        p = (k - 1) // 2
        z = torch.cat([x[:, :1].expand(-1, p, -1), x, x[:, -1:].expand(-1, p, -1)], 1)
        tr = F.avg_pool1d(z.transpose(1, 2), k, 1).transpose(1, 2)
        return x - tr, tr

    def f(m, x):
        q, k, v = (g(x).view(b, t, h, d).permute(0, 2, 3, 1) for g in (m.q, m.k, m.v))
        c = torch.fft.irfft(torch.fft.rfft(q, dim=-1) * torch.conj(torch.fft.rfft(k, dim=-1)), n=t, dim=-1)
        mc = c.mean((1, 2))
        top = int(2 * math.log(t))
        w, delay = mc.topk(min(top, 9), -1)
        w = w.softmax(-1)
        vv = torch.cat([v, v], -1)
        agg = 0
        for i in range(w.shape[1]):
            ix = torch.arange(t, device=x.device) + delay[:, i, None]
            agg = agg + vv.gather(-1, ix[:, None, None].expand(-1, h, d, -1)) * w[:, i, None, None, None]
        y, t1 = decomp(x + m.o(agg.permute(0, 3, 1, 2).reshape(b, t, e)))
        y, t2 = decomp(y + m.f2(F.gelu(m.f1(y))))
        tr = m.circ((t1 + t2).transpose(1, 2)).transpose(1, 2)
        yn = F.layer_norm(y, (e,))
        return yn - yn.mean(1, keepdim=True), tr

    return Fn(
        f,
        q=nn.Linear(e, e),
        k=nn.Linear(e, e),
        v=nn.Linear(e, e),
        o=nn.Linear(e, e),
        f1=nn.Linear(e, 2 * e, bias=False),
        f2=nn.Linear(2 * e, e, bias=False),
        circ=nn.Conv1d(e, 7, 3, padding=1, padding_mode="circular", bias=False),
    ), [R(b, t, e)]
