"""Attention: blocks of language models, sets and latent arrays.

Models of odd_models.py (--families outside) by authors who had not read the compiler; outside_cases.py says how a
model is given.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from outside_cases import Fn, I, R, case


def rope(x, cs, sn):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cs - b * sn, b * cs + a * sn], -1)


def angles(t, d, device, dtype, base=10000.0):
    f = base ** -(torch.arange(0, d, 2, device=device, dtype=torch.float32) / d)
    a = torch.arange(t, device=device, dtype=torch.float32)[:, None] * f
    return a.cos().to(dtype), a.sin().to(dtype)


@case(train=True)
def mla_attention(s):
    """DeepSeek's multi-head latent attention."""
    b, t, e, h = s(2, 3), s(19, 513), s(40, 520), s(3, 5)
    dn, dr, dv, rq, rk = s(8, 96), s(4, 32), s(8, 72), s(12, 264), s(10, 136)

    class Mla(nn.Module):
        def __init__(self):
            super().__init__()
            self.qa, self.qn, self.qb = (
                nn.Linear(e, rq, bias=False),
                nn.RMSNorm(rq, 1e-6),
                nn.Linear(rq, h * (dn + dr), bias=False),
            )
            self.kva, self.kn, self.kvb = (
                nn.Linear(e, rk + dr, bias=False),
                nn.RMSNorm(rk, 1e-6),
                nn.Linear(rk, h * (dn + dv), bias=False),
            )
            self.o = nn.Linear(h * dv, e, bias=False)

        def forward(self, x):
            cs, sn = angles(t, dr, x.device, x.dtype)
            q = self.qb(self.qn(self.qa(x))).view(b, t, h, dn + dr).transpose(1, 2)
            qn, qr = q.split([dn, dr], -1)
            c, kr = self.kva(x).split([rk, dr], -1)
            kv = self.kvb(self.kn(c)).view(b, t, h, dn + dv).transpose(1, 2)
            kn, v = kv.split([dn, dv], -1)
            kr = rope(kr[:, None], cs, sn).expand(-1, h, -1, -1)
            o = F.scaled_dot_product_attention(
                torch.cat([qn, rope(qr, cs, sn)], -1), torch.cat([kn, kr], -1), v, is_causal=True
            )
            return x + self.o(o.transpose(1, 2).reshape(b, t, h * dv))

    return Mla(), [R(b, t, e)]


@case(train=True)
def window_attention_sinks(s):
    """Sliding window with learned sink logits (gpt-oss) and grouped heads."""
    b, t, g, r, d, w = s(2, 3), s(21, 513), 2, 3, s(8, 72), s(5, 77)

    def f(m, x):
        qkv = m.qkv(m.n(x))
        q, k, v = qkv.split([g * r * d, g * d, g * d], -1)
        q, k, v = q.view(b, t, g, r, d), k.view(b, t, g, d), v.view(b, t, g, d)
        sc = torch.einsum("btgrd,bugd->bgrtu", q, k) * d**-0.5
        i = torch.arange(t, device=x.device)
        gap = i[:, None] - i
        keep = (gap >= 0) & ((gap < w) | (i < 4))
        sc = sc.masked_fill(~keep, float("-inf"))
        sink = m.sink.view(1, g, r, 1, 1).expand(b, -1, -1, t, 1)
        p = (
            torch.softmax(torch.cat([sc, sink], -1).float(), -1)[..., :-1].to(x.dtype)
            if x.dtype != torch.float64
            else torch.softmax(torch.cat([sc, sink], -1), -1)[..., :-1]
        )
        return x + m.o(torch.einsum("bgrtu,bugd->btgrd", p, v).flatten(2))

    e = s(24, 264)
    return Fn(f, n=nn.RMSNorm(e, 1e-5), qkv=nn.Linear(e, (r + 2) * g * d), o=nn.Linear(g * r * d, e), sink=R(g * r)), [
        R(b, t, e)
    ]


@case(train=True)
def parallel_block_yarn(s):
    """Parallel attention and SwiGLU with biases, QK norm, YaRN, softcap, z-loss."""
    b, t, e, h, v = s(2, 3), s(13, 513), s(32, 768), s(2, 6), s(37, 4099)
    d = e // h

    def yarn(device, dtype):
        f = 10000.0 ** -(torch.arange(0, d, 2, device=device, dtype=torch.float32) / d)
        low, high, scale = 1.0, 32.0, 4.0
        wave = 512 * f / (2 * math.pi)
        ramp = ((wave - low) / (high - low)).clamp(0, 1)
        f = f / scale * (1 - ramp) + f * ramp
        a = torch.arange(t, device=device, dtype=torch.float32)[:, None] * f
        ms = 0.1 * math.log(scale) + 1
        return (a.cos() * ms).to(dtype), (a.sin() * ms).to(dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(v, e)
            self.n, self.qn, self.kn, self.fn = (
                nn.LayerNorm(e),
                nn.RMSNorm(d, 1e-6),
                nn.RMSNorm(d, 1e-6),
                nn.RMSNorm(e, 1e-6),
            )
            self.fused = nn.Linear(e, 3 * e + 2 * (5 * e // 2))
            self.o, self.down = nn.Linear(e, e), nn.Linear(5 * e // 2, e)

        def forward(self, ids, y):
            x = self.emb(ids)
            cs, sn = yarn(x.device, x.dtype)
            q, k, val, g, u = self.fused(self.n(x)).split([e, e, e, 5 * e // 2, 5 * e // 2], -1)
            q, k, val = (z.view(b, t, h, d).transpose(1, 2) for z in (q, k, val))
            a = F.scaled_dot_product_attention(rope(self.qn(q), cs, sn), rope(self.kn(k), cs, sn), val, is_causal=True)
            x = x + self.o(a.transpose(1, 2).flatten(2)) + self.down(F.silu(g) * u)
            lg = F.linear(self.fn(x), self.emb.weight)
            lg = 30 * torch.tanh(lg / 30)
            lg = lg if lg.dtype == torch.float64 else lg.float()
            lse = torch.logsumexp(lg, -1)
            nll = F.cross_entropy(lg.flatten(0, 1), y.flatten(), ignore_index=-100, label_smoothing=0.1)
            return nll, 1e-4 * lse.square().mean()

    y = I(v, b, t)
    y[:, :3] = -100
    return Block(), [I(v, b, t), y]


class Mab(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.l1, self.l2, self.ff = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, d)

    def forward(self, q, k):
        h = self.l1(q + self.att(q, k, k, need_weights=False)[0])
        return self.l2(h + F.relu(self.ff(h)))


@case(train=True)
def set_transformer_isab(s):
    d = s(36, 132)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.i = nn.Parameter(R(1, 13, d))
            self.seed = nn.Parameter(R(1, 3, d))
            self.m = nn.ModuleList(Mab(d, 4) for _ in range(3))

        def forward(self, x):
            h = self.m[0](self.i.expand(x.shape[0], -1, -1), x)
            y = self.m[1](x, h)
            return self.m[2](self.seed.expand(x.shape[0], -1, -1), y)

    return Model(), [R(s(3, 13), s(100, 1283), d)]


@case()
def perceiver_io(s):
    d, lat = s(40, 264), s(13, 127)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.latents = nn.Parameter(R(lat, d))
            self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(77, 2 * d), nn.Linear(d, d)
            self.n = nn.LayerNorm(77)
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, "gelu", batch_first=True, norm_first=True)
                for _ in range(2)
            )
            self.query = nn.Parameter(R(33, d))
            self.dec = nn.Linear(d, 10)

        def forward(self, x, pad):
            b = x.shape[0]
            k, v = self.kv(self.n(x)).chunk(2, -1)
            sp = lambda z: z.unflatten(-1, (4, -1)).transpose(1, 2)
            h = F.scaled_dot_product_attention(
                sp(self.q(self.latents.expand(b, -1, -1))), sp(k), sp(v), attn_mask=pad[:, None, None]
            )
            h = self.o(h.transpose(1, 2).flatten(2))
            for bl in self.blocks:
                h = bl(h)
            w = torch.softmax(self.query @ h.transpose(1, 2) / d**0.5, -1)
            return self.dec(w @ h)

    n = s(100, 3001)
    return Model(), [R(s(3, 5), n, 77), torch.rand(s(3, 5), n) > 0.2]


@case()
def differential_attention(s):
    t, d = s(33, 513), s(13, 64)

    def f(m, q, k, v):
        q1, q2 = q.chunk(2, -1)
        k1, k2 = k.chunk(2, -1)
        mask = torch.ones(t, t, device=q.device, dtype=torch.bool).triu(1)
        at = lambda a, b: (a @ b.transpose(-1, -2) * d**-0.5).masked_fill(mask, float("-inf")).softmax(-1)
        lam = torch.exp((m.a * m.b).sum()) - torch.exp((m.c * m.d).sum()) + 0.2
        o = (at(q1, k1) - lam * at(q2, k2)) @ v
        return F.rms_norm(o, o.shape[-1:], eps=1e-5) * 0.8

    return Fn(f, a=R(d, scale=0.1), b=R(d, scale=0.1), c=R(d, scale=0.1), d=R(d, scale=0.1)), [
        R(2, 5, t, 2 * d),
        R(2, 5, t, 2 * d),
        R(2, 5, t, 2 * d),
    ]


@case(train=True)
def transformer_xl_shift(s):
    t, mlen, d, h = s(17, 129), s(13, 127), s(7, 32), 3

    def f(m, q, k, v, r):
        bd = (q + m.vb[:, None]) @ r.transpose(-1, -2)
        b, n, i, j = bd.shape
        bd = F.pad(bd, (1, 0)).view(b, n, j + 1, i)[:, :, 1:].reshape(b, n, i, j)
        ac = (q + m.ub[:, None]) @ k.transpose(-1, -2)
        mask = torch.ones(t, t + mlen, device=q.device, dtype=torch.bool).triu(1 + mlen)
        p = ((ac + bd) / d**0.5).masked_fill(mask, -65000.0).softmax(-1)
        return (p @ v).transpose(1, 2).flatten(2)

    return Fn(f, ub=R(h, d), vb=R(h, d)), [R(2, h, t, d), R(2, h, t + mlen, d), R(2, h, t + mlen, d), R(h, t + mlen, d)]


@case(train=True)
def grouped_query_rope2d(s):
    h, w, d = s(5, 13), s(7, 17), s(8, 64)

    def f(m, x):
        b = x.shape[0]
        q = m.q(x).view(b, h * w, 6, d)
        k, v = m.kv(x).view(b, h * w, 2, 2, d).unbind(2)
        q, k = F.rms_norm(q, (d,), m.qn, 1e-6), F.rms_norm(k, (d,), m.kn, 1e-6)
        fr = 100.0 ** -(torch.arange(d // 4, device=x.device) / (d // 4))
        yy, xx = torch.meshgrid(torch.arange(h, device=x.device), torch.arange(w, device=x.device), indexing="ij")
        ang = torch.cat([yy.reshape(-1, 1) * fr, xx.reshape(-1, 1) * fr], -1)
        cs, sn = ang.cos().to(x.dtype)[:, None], ang.sin().to(x.dtype)[:, None]
        rot = lambda z: torch.stack(
            [z[..., ::2] * cs - z[..., 1::2] * sn, z[..., ::2] * sn + z[..., 1::2] * cs], -1
        ).flatten(-2)
        o = F.scaled_dot_product_attention(
            rot(q).transpose(1, 2), rot(k).transpose(1, 2), v.transpose(1, 2), enable_gqa=True
        )
        return m.o(o.transpose(1, 2).flatten(2))

    e = s(33, 384)
    return Fn(f, q=nn.Linear(e, 6 * d), kv=nn.Linear(e, 4 * d), o=nn.Linear(6 * d, e), qn=R(d), kn=R(d)), [
        R(s(2, 5), h * w, e)
    ]


@case(train=True)
def performer_causal(s):
    t, d, r = s(33, 257), s(13, 65), s(17, 67)

    def f(m, q, k, v):
        phi = lambda x: torch.exp(x @ m.proj * d**-0.25 - (x * x).sum(-1, keepdim=True) * d**-0.5 / 2) + 1e-3
        q, k = phi(q), phi(k)
        kv = torch.einsum("bhtr,bhtd->bhtrd", k, v).cumsum(2)
        z = k.cumsum(2)
        return torch.einsum("bhtr,bhtrd->bhtd", q, kv) / torch.einsum("bhtr,bhtr->bht", q, z)[..., None]

    return Fn(f, proj=R(d, r)), [R(2, 3, t, d) for _ in range(3)]


@case(f32=False)
def mlstm_parallel(s):
    t, d = s(33, 513), s(13, 65)

    def f(m, q, k, v, ig, fg):
        lf = F.logsigmoid(fg).cumsum(-1)
        dm = lf[..., :, None] - lf[..., None, :] + ig[..., None, :]
        dm = dm.masked_fill(~torch.ones(t, t, dtype=torch.bool, device=q.device).tril(), float("-inf"))
        mx = dm.amax(-1, keepdim=True)
        c = (q @ k.transpose(-1, -2)) * d**-0.5 * torch.exp(dm - mx)
        n = torch.maximum(c.sum(-1, keepdim=True).abs(), torch.exp(-mx))
        h = (c / (n + 1e-6)) @ v
        return F.group_norm(h.transpose(1, 2).flatten(0, 1).flatten(1), 4, m.w, m.b).view(*h.shape[:1], t, -1)

    return Fn(f, w=R(4 * d), b=R(4 * d)), [R(3, 4, t, d), R(3, 4, t, d), R(3, 4, t, d), R(3, 4, t), R(3, 4, t) + 3]


@case(train=True)
def mixture_of_depths(s):
    b, t, d, k = s(3, 5), s(33, 513), s(13, 129), s(7, 101)

    def f(m, x):
        r = m.router(x).squeeze(-1)
        w, i = r.float().topk(k, dim=1)
        i, o = i.sort(1)
        w = w.gather(1, o).to(x.dtype)
        ix = i[..., None].expand(-1, -1, d)
        y = m.f2(F.silu(m.f1(x.gather(1, ix))))
        return x.scatter_add(1, ix, y * torch.sigmoid(w)[..., None]), F.binary_cross_entropy_with_logits(
            r, torch.zeros_like(r).scatter(1, i, 1.0)
        )

    return Fn(f, router=nn.Linear(d, 1), f1=nn.Linear(d, 2 * d), f2=nn.Linear(2 * d, d)), [R(b, t, d)]


@case(train=True, f32=True)
def moe_top2_capacity(s):
    """Experts: two of many, with capacities, auxiliary losses."""
    n, d, e, h = s(19, 4099), s(8, 264), s(4, 9), s(12, 520)
    cap = int(1.25 * 2 * n / e)

    def f(m, x):
        lg = m.r(x)
        p = lg.softmax(-1)
        w, i = p.topk(2, -1)
        w = w / w.sum(-1, keepdim=True)
        one = F.one_hot(i, e)
        flat = one.transpose(0, 1).reshape(2 * n, e)
        at = ((flat.cumsum(0) - 1) * flat).sum(-1).view(2, n).t()
        keep = at < cap
        slot = torch.where(keep, i * cap + at, e * cap)
        buf = torch.zeros(e * cap + 1, d, device=x.device, dtype=x.dtype).index_put(
            (slot.flatten(),), x.repeat_interleave(2, 0, output_size=2 * n), accumulate=True
        )
        z = buf[:-1].view(e, cap, d)
        g, u = torch.bmm(z, m.w1).chunk(2, -1)
        y = torch.bmm(F.silu(g) * u, m.w2).view(e * cap, d)
        y = torch.cat([y, torch.zeros_like(y[:1])])[slot]
        out = (y * (w * keep)[..., None]).sum(1) + m.shared(x)
        frac = one[:, 0].to(x.dtype).mean(0)
        return out, e * (frac * p.mean(0)).sum(), torch.logsumexp(lg, -1).square().mean() * 1e-3

    return Fn(
        f,
        r=nn.Linear(d, e, bias=False),
        w1=R(e, d, 2 * h, scale=d**-0.5),
        w2=R(e, h, d, scale=h**-0.5),
        shared=nn.Linear(d, d),
    ), [R(n, d)]


@case(train=True)
def hierarchical_softmax_moe(s):
    n, d, v = s(33, 1001), s(33, 257), s(100, 5003)

    def f(m, x, y):
        pri = torch.softmax(m.prior(x), -1)
        h = torch.tanh(m.lat(x)).view(n, 3, -1)
        p = torch.softmax((h @ m.emb.t()).float(), -1)
        q = (pri[..., None] * p).sum(1)
        return F.nll_loss(torch.log(q + 1e-8), y)

    return Fn(f, prior=nn.Linear(d, 3), lat=nn.Linear(d, 3 * d), emb=R(v, d, scale=0.1)), [R(n, d), I(v, n)]


@case()
def delta_rule_chunks(s):
    t, d, cs = s(39, 259), s(13, 33), s(13, 37)

    def f(m, q, k, v, beta):
        k = F.normalize(k, dim=-1)
        st = q.new_zeros(q.shape[0], d, d)
        eye, out = torch.eye(cs, device=q.device, dtype=q.dtype), []
        for i in range(t // cs):
            qs, ks, vs, bs = (z[:, i * cs : (i + 1) * cs] for z in (q, k, v, beta))
            a = (bs[..., None] * ks @ ks.transpose(1, 2)).tril(-1)
            inv, p = eye - a, a @ a
            while_n = 2
            while while_n < cs:
                inv = inv + inv @ p
                p, while_n = p @ p, while_n * 2
            u = inv @ (bs[..., None] * (vs - ks @ st))
            out.append(qs @ st + (qs @ ks.transpose(1, 2)).tril() @ u)
            st = st + ks.transpose(1, 2) @ u
        return torch.cat(out, 1), st

    return Fn(f), [R(s(3, 12), t, d, scale=0.5), R(s(3, 12), t, d), R(s(3, 12), t, d), torch.rand(s(3, 12), t)]


@case(train=True)
def mamba2_ssd(s):
    """Mamba-2: state space duality in chunks."""
    b, c, l, h, p, n = s(1, 9), s(3, 8), s(13, 65), s(5, 9), s(8, 40), s(7, 24)
    t, d = c * l, h * p

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.conv, self.out = (
                nn.Linear(d, 2 * d + 2 * n + h, bias=False),
                nn.Conv1d(d + 2 * n, d + 2 * n, 4, groups=d + 2 * n, padding=3),
                nn.Linear(d, d, bias=False),
            )
            self.alog, self.dtb, self.dd, self.n = (
                nn.Parameter(torch.rand(h).add(1).log()),
                nn.Parameter(R(h)),
                nn.Parameter(torch.ones(h)),
                nn.RMSNorm(d, 1e-5),
            )

        def forward(self, x):
            z, xbc, dt = self.inp(x).split([d, d + 2 * n, h], -1)
            xbc = F.silu(self.conv(xbc.transpose(1, 2))[..., :t].transpose(1, 2))
            u, bb, cc = xbc.split([d, n, n], -1)
            dt = F.softplus(dt + self.dtb)
            u = u.view(b, c, l, h, p)
            bb, cc = bb.view(b, c, l, n), cc.view(b, c, l, n)
            a = (dt * -self.alog.exp()).view(b, c, l, h).permute(0, 3, 1, 2)
            ud = u * dt.view(b, c, l, h, 1)
            cs = a.cumsum(-1)
            seg = lambda q: (
                (q[..., :, None] - q[..., None, :])
                .masked_fill(~torch.ones(q.shape[-1], q.shape[-1], dtype=torch.bool, device=q.device).tril(), -1e9)
                .exp()
            )
            y = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", cc, bb, seg(cs), ud)
            st = torch.einsum("bcln,bhcl,bclhp->bchpn", bb, (cs[..., -1:] - cs).exp(), ud)
            st = torch.cat([torch.zeros_like(st[:, :1]), st], 1)
            dec = seg(F.pad(cs[..., -1], (1, 0)).cumsum(-1))
            st = torch.einsum("bhzc,bchpn->bzhpn", dec, st)
            y = y + torch.einsum("bcln,bchpn,bhcl->bclhp", cc, st[:, :-1], cs.exp()) + u * self.dd[:, None]
            return self.out(self.n(y.reshape(b, t, d) * F.silu(z))), st[:, -1]

    return Model(), [R(b, t, d)]


@case(train=True, f32=True)
def s4d_hyena(s):
    """S4D's kernel inside a Hyena operator, convolved by Fourier transforms."""
    b, t, d, n = s(2, 9), s(33, 1283), s(6, 96), s(3, 16)

    def f(m, x):
        dt = m.ldt.exp()
        a = torch.complex(-m.lar.exp(), m.ai)
        k = (a * dt[:, None])[..., None] * torch.arange(t, device=x.device)
        c = torch.view_as_complex(m.c) * ((a * dt[:, None]).exp() - 1) / a
        k1 = 2 * torch.einsum("dn,dnl->dl", c, k.exp()).real
        pos = torch.linspace(0, 1, t, device=x.device, dtype=x.dtype)[:, None]
        ft = torch.cat([pos, (2 * math.pi * pos * torch.arange(1, 4, device=x.device)).sin()], -1)
        k2 = (m.f2(torch.sin(m.f1(ft))) * torch.exp(-pos * m.dec.abs())).t()
        u = m.sc(m.inp(x).transpose(1, 2))[..., :t]
        g1, g2, v = u.chunk(3, 1)

        def fc(u, k, bias):
            y = torch.fft.irfft(torch.fft.rfft(u, n=2 * t) * torch.fft.rfft(k, n=2 * t), n=2 * t)[..., :t]
            return y + u * bias[:, None]

        y = g2 * fc(g1 * fc(v, k1, m.b1), k2 / t**0.5, m.b2)
        return m.out(F.gelu(y).transpose(1, 2))

    return Fn(
        f,
        ldt=torch.rand(d) * 2 - 5,
        lar=math.log(0.5) * torch.ones(d, n),
        ai=math.pi * torch.arange(n).float().repeat(d, 1),
        c=R(d, n, 2),
        f1=nn.Linear(4, 24),
        f2=nn.Linear(24, d),
        dec=torch.linspace(1, 9, d),
        inp=nn.Linear(d, 3 * d),
        sc=nn.Conv1d(3 * d, 3 * d, 3, padding=2, groups=3 * d),
        b1=R(d),
        b2=R(d),
        out=nn.Linear(d, d),
    ), [R(b, t, d)]


@case(f32=True)
def sampling_and_speculation(s):
    """Sampling: penalties, top-k, top-p, min-p, and speculative acceptance."""
    b, v, t, k = s(3, 31), s(57, 32003), s(5, 77), s(3, 5)

    def f(m, lg, seen, noise, pq, qq, draft, u):
        cnt = torch.zeros(b, v, device=lg.device, dtype=lg.dtype).scatter_add(
            1, seen, torch.ones_like(seen, dtype=lg.dtype)
        )
        pen = torch.where(lg > 0, lg / 1.3, lg * 1.3)
        lg = torch.where(cnt > 0, pen, lg) - 0.2 * cnt - 0.1 * (cnt > 0)
        lg = lg / 0.8
        kth = torch.topk(lg, 40, -1).values[:, -1:]
        lg = lg.masked_fill(lg < kth, float("-inf"))
        so, ix = torch.sort(lg, -1, descending=True)
        p = so.softmax(-1)
        drop = p.cumsum(-1) - p > 0.9
        lg = lg.masked_fill(torch.zeros_like(drop).scatter(1, ix, drop), float("-inf"))
        p = lg.softmax(-1)
        p = torch.where(p < 0.02 * p.amax(-1, keepdim=True), 0.0, p)
        p = p / p.sum(-1, keepdim=True)
        tok = torch.argmax(p / noise, -1)
        pp, q = pq.softmax(-1), qq.softmax(-1)
        pd, qd = (z[:, :k].gather(2, draft[..., None]).squeeze(2) for z in (pp, q))
        ok = u < (pd / qd).clamp(max=1)
        n = ok.long().cumprod(1).sum(1)
        at = n[:, None, None].expand(-1, 1, v)
        res = (pp.gather(1, at) - F.pad(q, (0, 0, 0, 1)).gather(1, at)).squeeze(1).clamp(min=0)
        res = res / res.sum(-1, keepdim=True)
        nxt = (res / noise).argmax(-1)
        out = torch.where(torch.arange(k + 1, device=lg.device) < n[:, None], F.pad(draft, (0, 1)), nxt[:, None])
        return p, tok, n, res, torch.where(torch.arange(k + 1, device=lg.device) <= n[:, None], out, -1)

    return Fn(f), [
        R(b, v, scale=2.0),
        I(v, b, t),
        torch.rand(b, v) + 1e-3,
        R(b, k + 1, v),
        R(b, k, v),
        I(v, b, k),
        torch.rand(b, k),
    ]
