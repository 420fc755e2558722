"""Densities, codes, losses and layers with numbers of other kinds.

Models of odd_models.py (--families outside) by authors who had not read the compiler; outside_cases.py says how a
model is given.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from outside_cases import Fn, I, R, case


class VqVae(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.enc, self.dec = nn.Linear(d, 33), nn.Linear(33, d)
        self.register_buffer("codes", R(k, 33))
        self.register_buffer("count", torch.ones(k))
        self.register_buffer("total", self.codes.clone())

    def forward(self, x):
        z = self.enc(x)
        dist = z.pow(2).sum(1, True) - 2 * z @ self.codes.t() + self.codes.pow(2).sum(1)
        i = dist.argmin(1)
        one = F.one_hot(i, self.codes.shape[0]).to(z.dtype)
        with torch.no_grad():
            self.count.mul_(0.99).add_(one.sum(0), alpha=0.01)
            self.total.mul_(0.99).add_(one.t() @ z, alpha=0.01)
        q = F.embedding(i, self.codes)
        commit = F.mse_loss(z, q.detach())
        return self.dec(z + (q - z).detach()), commit, i


@case(train=True, f32=True)
def vq_vae_ema(s):
    return VqVae(s(100, 257), s(33, 1000)), [R(s(77, 4099), s(100, 257))]


@case(train=True)
def realnvp(s):
    d, h = s(13, 63), s(33, 257)

    class Coupling(nn.Module):
        def __init__(self, flip):
            super().__init__()
            self.flip = flip
            self.net = nn.Sequential(nn.Linear(d // 2, h), nn.LeakyReLU(0.01), nn.Linear(h, 2 * (d - d // 2)))

        def forward(self, x, logdet):
            if self.flip:
                x = x.flip(1)
            a, b = x[:, : d // 2], x[:, d // 2 :]
            st, t = self.net(a).chunk(2, 1)
            st = 2 * torch.tanh(st / 2)
            return torch.cat([a, b * st.exp() + t], 1), logdet + st.sum(1)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Coupling(i % 2 == 1) for i in range(6))

        def forward(self, x):
            ld = x.new_zeros(x.shape[0])
            for l in self.layers:
                x, ld = l(x, ld)
            return (0.5 * (x**2).sum(1) + 0.5 * d * math.log(2 * math.pi) - ld).mean()

    return Flow(), [R(s(33, 2049), d)]


@case(train=True)
def mixture_density(s):
    k, d = 7, 3

    def f(m, x, y):
        h = torch.tanh(m.l1(x))
        pi = F.log_softmax(m.pi(h), -1)
        mu = m.mu(h).view(-1, k, d)
        ls = F.softplus(m.ls(h)).view(-1, k, d).clamp_min(1e-3).log()
        lp = -0.5 * ((y[:, None] - mu) / ls.exp()) ** 2 - ls - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(pi + lp.sum(-1), -1).mean()

    h = s(33, 513)
    return Fn(f, l1=nn.Linear(13, h), pi=nn.Linear(h, k), mu=nn.Linear(h, k * d), ls=nn.Linear(h, k * d)), [
        R(s(100, 5003), 13),
        R(s(100, 5003), d),
    ]


@case(train=True, f32=True)
def evidential_dirichlet(s):
    k = s(7, 101)

    def f(m, x, y):
        a = F.softplus(m.l(x)) + 1
        S = a.sum(1, keepdim=True)
        oh = F.one_hot(y, k).to(x.dtype)
        ace = (oh * (torch.digamma(S) - torch.digamma(a))).sum(1)
        at = oh + (1 - oh) * a
        st = at.sum(1)
        kl = (
            torch.lgamma(st)
            - math.lgamma(k)
            - torch.lgamma(at).sum(1)
            + ((at - 1) * (torch.digamma(at) - torch.digamma(st)[:, None])).sum(1)
        )
        return (ace + 0.1 * kl).mean()

    return Fn(f, l=nn.Linear(33, k)), [R(s(33, 1283), 33), I(k, s(33, 1283))]


@case(train=True, f32=True, tol=4)
def hyperbolic_poincare(s):
    d = s(13, 129)

    def f(m, x, y):
        def expmap0(v):
            n = v.norm(dim=-1, keepdim=True).clamp_min(1e-10)
            return torch.tanh(n.clamp_max(15)) * v / n

        def madd(a, b):
            ab, a2, b2 = (a * b).sum(-1, True), a.pow(2).sum(-1, True), b.pow(2).sum(-1, True)
            return ((1 + 2 * ab + b2) * a + (1 - a2) * b) / (1 + 2 * ab + a2 * b2).clamp_min(1e-10)

        u, v = expmap0(m.l(x) * 0.1), expmap0(m.l(y) * 0.1)
        dist = 2 * torch.atanh(madd(-u, v).norm(dim=-1).clamp(max=1 - 1e-5))
        d2 = torch.acosh(1 + 2 * (u - v).pow(2).sum(-1) / ((1 - u.pow(2).sum(-1)) * (1 - v.pow(2).sum(-1))))
        return dist, d2

    return Fn(f, l=nn.Linear(d, d)), [R(s(33, 1001), d), R(s(33, 1001), d)]


@case(train=True, f32=True)
def gumbel_st_and_entmax(s):
    n, k = s(33, 1001), s(13, 129)

    def f(m, x, u):
        z = m.l(x)
        g = -torch.log(-torch.log(u.clamp(1e-6, 1 - 1e-6)))
        p = ((z + g) / 0.7).softmax(-1)
        hard = torch.zeros_like(p).scatter_(1, p.argmax(-1, keepdim=True), 1.0)
        st = hard - p.detach() + p
        zs = z.sort(-1, descending=True).values  # sparsemax
        cs = zs.cumsum(-1)
        rng = torch.arange(1, k + 1, device=z.device, dtype=z.dtype)
        sup = (1 + rng * zs > cs).sum(-1, keepdim=True)
        tau = (cs.gather(-1, sup - 1) - 1) / sup
        return st, F.relu(z - tau)

    return Fn(f, l=nn.Linear(17, k)), [R(n, 17), torch.rand(n, k)]


@case(train=True, f32=True)
def masked_batchnorm_spectral(s):
    d = s(13, 257)
    m = nn.Sequential(spectral_norm(nn.Linear(d, 33)), nn.BatchNorm1d(33), nn.SELU(), nn.Linear(33, 9), nn.LogSigmoid())
    return m, [R(s(33, 1001), d)]


@case(train=True, f32=True)
def wgan_gp(s):
    """Wasserstein critic with a gradient penalty, and hinge losses."""
    b, d, h = s(5, 4099), s(9, 264), s(12, 520)

    def critic(m, x):
        return (F.softplus(F.linear(F.leaky_relu(F.linear(x, m.w1, m.b1), 0.2), m.w2, m.b2)) @ m.w3).squeeze(-1)

    def f(m, real, z, eps):
        fake = torch.tanh(m.g(z))
        mix = eps[:, None] * real + (1 - eps[:, None]) * fake.detach()
        g = torch.func.grad(lambda t: critic(m, t).sum())(mix)
        gp = ((g.norm(dim=1) - 1) ** 2).mean()
        cr, cf = critic(m, real), critic(m, fake)
        return cf.mean() - cr.mean() + 10 * gp, F.relu(1 - cr).mean() + F.relu(1 + cf).mean()

    return Fn(
        f,
        w1=R(h, d, scale=d**-0.5),
        b1=R(h, scale=0.1),
        w2=R(h, h, scale=h**-0.5),
        b2=R(h, scale=0.1),
        w3=R(h, 1, scale=h**-0.5),
        g=nn.Linear(s(4, 96), d),
    ), [R(b, d), R(b, s(4, 96)), torch.rand(b)]


@case(train=True, f32=True)
def cumulative_zoo(s):
    """Cumulative operators, sorts and searches."""
    b, n = s(3, 257), s(33, 4099)

    def f(m, x, ids):
        y = x * m.w
        cm, ci = torch.cummax(y, -1)
        mn, _ = torch.cummin(y, -1)
        lse = torch.logcumsumexp(y, -1)
        rev = torch.cumsum(y.flip(-1), -1).flip(-1) / n
        top, ti = torch.topk(y, 7, -1)
        so, si = torch.sort(y, -1, descending=True)
        back = torch.zeros_like(y).scatter(1, si, so * torch.linspace(0, 1, n, device=x.device, dtype=x.dtype))
        med = y.median(-1).values
        kth = torch.kthvalue(y, 5, -1).values
        edges = torch.sort(m.edges).values
        bin_ = torch.bucketize(y.detach(), edges.detach())
        hist = torch.zeros(b, 12, device=x.device, dtype=x.dtype).scatter_add(1, bin_, torch.sigmoid(y))
        seg = torch.zeros(17, device=x.device, dtype=x.dtype).index_add(0, ids, y.mean(0))
        q = torch.quantile(y, torch.tensor([0.1, 0.5, 0.93], device=x.device, dtype=x.dtype), dim=-1)
        d = torch.diff(y, n=2, dim=-1)
        tri = torch.trapezoid(y, dx=0.1, dim=-1)
        ema = torch.cumprod(torch.sigmoid(y[:, :16]) * 0.5 + 0.5, -1)
        return cm, mn, lse, rev, top, back, med, kth, hist, seg, q, d, tri, ema, ci.sum(-1), ti

    return Fn(f, w=torch.rand(n) + 0.5, edges=R(11)), [R(b, n), I(17, n)]


@case(train=True, f32=True)
def complex_modrelu(s):
    d, h = s(13, 257), s(33, 129)

    def f(m, x):
        z = torch.complex(x, x.roll(1, -1))
        z = z @ torch.view_as_complex(m.w1) + torch.view_as_complex(m.b1)
        r = z.abs()
        z = z * (F.relu(r + m.t) / (r + 1e-6))
        z = z @ torch.view_as_complex(m.w2)
        return z.real**2 + z.imag**2, torch.view_as_real(z)

    return Fn(f, w1=R(d, h, 2, scale=0.1), b1=R(h, 2, scale=0.1), t=R(h, scale=0.1), w2=R(h, 7, 2, scale=0.1)), [
        R(s(33, 1001), d)
    ]


@case(train=True)
def low_rank_plus_sparse(s):
    i, o, r = s(100, 1283), s(77, 777), 7

    def f(m, x):
        w = torch.where(m.keep, m.s, 0.0)
        return F.gelu(F.linear(x, w) + (x @ m.u) @ m.v + m.b) * torch.sigmoid(m.gate)

    return Fn(
        f, s=R(o, i, scale=0.05), u=R(i, r, scale=0.1), v=R(r, o), b=R(o), gate=R(o), keep=torch.rand(o, i) < 0.1
    ), [R(s(33, 1001), i)]


@case(f32=True)
def int8_dynamic_quant(s):
    i, o = s(100, 1283), s(77, 1001)

    def f(m, x):
        a = x.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127
        q = torch.clamp(torch.round(x / a), -128, 127).to(torch.int8)
        y = (q.to(torch.int32)[:, None].float() * 1).squeeze(1) @ m.wq.float().t()
        z = y * a * m.ws
        lo, hi = z.amin(), z.amax()
        sc = (hi - lo) / 255
        u8 = torch.clamp((z - lo) / sc + 0.5, 0, 255).floor().to(torch.uint8)
        nib = (u8[:, ::2][:, : o // 2] >> 4) | (u8[:, 1::2][:, : o // 2] & 0xF0)
        return z, q, nib.to(torch.int32) // 16

    return Fn(f, wq=torch.randint(-127, 128, (o, i), dtype=torch.int8), ws=torch.rand(o) * 0.01), [R(s(33, 257), i)]


@case()
def int4_int8_fp8_linears(s):
    """Quantised layers: int4 in groups, int8 a token, simulated fp8, served."""
    n, d, o, gs = s(5, 1283), s(24, 4128), s(10, 3080), s(8, 24)

    def f(m, x):
        lo, hi = (m.q & 15).to(torch.int8) - 8, (m.q >> 4).to(torch.int8) - 8
        w = torch.stack([lo, hi], -1).view(o, d // gs, gs).to(x.dtype)
        w = ((w - m.z[..., None]) * m.s[..., None]).view(o, d)
        a = F.linear(x, w)
        xs = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        xq = torch.round(x / xs).clamp(-128, 127)
        b = (xq @ m.w8.to(x.dtype).t()) * (xs * m.s8)
        c = a + b
        hc = c * torch.sigmoid(c)
        fs = 448 / m.amax
        wf = (m.wf * fs).clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype)
        return F.linear(hc * 0.1, wf / fs), c, torch.bitwise_xor(m.q, 85).to(torch.int32).sum(1)

    return Fn(
        f,
        q=torch.randint(0, 256, (o, d // 2), dtype=torch.uint8),
        z=R(o, d // gs),
        s=torch.rand(o, d // gs) * 0.01 + 0.01,
        w8=torch.randint(-127, 128, (o, d), dtype=torch.int8),
        s8=torch.rand(o) * 1e-3,
        wf=R(s(9, 1032), o),
        amax=torch.tensor(3.5),
    ), [R(n, d)]
