"""Recommenders, graphs, molecules, tables and retrieval.

Models of odd_models.py (--families outside) by authors who had not read the compiler; outside_cases.py says how a
model is given.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from outside_cases import Fn, I, R, case


@case(train=True)
def dlrm(s):
    """DLRM: embedding bags and pairwise products."""
    b, d, tables, rows = s(9, 16387), s(8, 72), 5, s(31, 50021)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.ModuleList(
                nn.EmbeddingBag(rows, d, mode=("sum", "mean", "sum", "mean", "sum")[i]) for i in range(tables)
            )
            self.bot = nn.Sequential(nn.Linear(13, s(12, 264)), nn.ReLU(), nn.Linear(s(12, 264), d), nn.ReLU())
            f = tables + 1
            self.top = nn.Sequential(nn.Linear(d + f * (f - 1) // 2, s(12, 264)), nn.ReLU(), nn.Linear(s(12, 264), 1))

        def forward(self, x, idx, off, w, y):
            x = self.bot(torch.log1p(x.abs()))
            v = [x]
            for i, e in enumerate(self.e):
                v.append(
                    e(idx[i])
                    if i < 3
                    else e(idx[i].flatten(), off)
                    if i == 3
                    else F.embedding_bag(idx[i], e.weight, mode="sum", per_sample_weights=w)
                )
            z = torch.stack(v, 1)
            p = z @ z.transpose(1, 2)
            i, j = torch.tril_indices(tables + 1, tables + 1, -1, device=x.device)
            lg = self.top(torch.cat([x, p[:, i, j]], 1)).squeeze(1)
            return F.binary_cross_entropy_with_logits(
                lg, y, pos_weight=torch.tensor(2.5, device=x.device, dtype=x.dtype)
            ), lg

    k = s(3, 9)
    off = torch.arange(b) * k
    return Model(), [R(b, 13), I(rows, tables, b, k), off, torch.rand(b, k), (torch.rand(b) > 0.7).float()]


@case(train=True)
def dcn_v2_mix(s):
    """DCN-v2 with a mixture of low-rank crosses."""
    b, d, r, ex, fields = s(9, 4099), s(12, 520), s(3, 40), 4, 7

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(s(40, 10007), s(4, 72))
            self.inp = nn.Linear(fields * s(4, 72), d)
            self.u, self.v, self.c = (
                nn.Parameter(R(3, ex, d, r, scale=d**-0.5)),
                nn.Parameter(R(3, ex, d, r, scale=d**-0.5)),
                nn.Parameter(R(3, ex, r, r, scale=r**-0.5)),
            )
            self.bias, self.gate, self.out = (
                nn.Parameter(R(3, d, scale=0.1)),
                nn.ModuleList(nn.Linear(d, ex) for _ in range(3)),
                nn.Linear(d, 1),
            )

        def forward(self, ids, y):
            x0 = x = self.inp(self.emb(ids).flatten(1))
            for i in range(3):
                g = self.gate[i](x).softmax(-1)
                z = torch.tanh(torch.einsum("bd,edr->ber", x, self.v[i]))
                z = torch.tanh(torch.einsum("ber,ers->bes", z, self.c[i]))
                z = torch.einsum("bes,eds->bed", z, self.u[i])
                x = x0 * (torch.einsum("bed,be->bd", z, g) + self.bias[i]) + x
            lg = self.out(x).squeeze(-1)
            return F.binary_cross_entropy_with_logits(lg, y), lg

    return Model(), [I(s(40, 10007), b, fields), (torch.rand(b) > 0.5).float()]


@case(train=True)
def din_dice(s):
    """Deep interest network with Dice activations."""
    b, t, d, items = s(5, 1283), s(9, 77), s(6, 72), s(50, 30011)

    class Dice(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.bn, self.a = nn.BatchNorm1d(c, 1e-3, affine=False), nn.Parameter(R(c, scale=0.1))

        def forward(self, x):
            p = torch.sigmoid(self.bn(x.flatten(0, -2)).view_as(x))
            return p * x + (1 - p) * self.a * x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(items, d, padding_idx=0)
            self.a1, self.da, self.a2 = nn.Linear(4 * d, 40), Dice(40), nn.Linear(40, 1, bias=False)
            self.m1, self.dm, self.m2 = nn.Linear(3 * d, 72), Dice(72), nn.Linear(72, 2)

        def forward(self, hist, target, y):
            h, q = self.e(hist), self.e(target)
            qq = q[:, None].expand_as(h)
            w = self.a2(self.da(self.a1(torch.cat([qq, h, qq - h, qq * h], -1)))).squeeze(-1)
            w = torch.where(hist != 0, w, -1e4) / d**0.5
            u = torch.bmm(w.softmax(-1)[:, None], h).squeeze(1)
            lg = self.m2(self.dm(self.m1(torch.cat([u, q, u * q], -1))))
            return F.nll_loss(F.log_softmax(lg, -1), y), self.e.weight[hist].pow(2).sum((1, 2)).mean() * 1e-3

    hist = I(items - 1, b, t) + 1
    hist[:, -3:] = 0
    return Model(), [hist, I(items - 1, b) + 1, I(2, b)]


@case(train=True)
def two_tower_softmax(s):
    """Two towers, in-batch softmax with correction of the sampling, and InfoNCE."""
    b, d, items, t = s(9, 2057), s(8, 136), s(40, 20011), s(5, 31)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(items, d)
            self.u = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
            self.i = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
            self.temp = nn.Parameter(torch.tensor(2.3))

        def forward(self, hist, length, item, logq):
            m = torch.arange(t, device=hist.device) < length[:, None]
            u = (self.e(hist) * m[..., None]).sum(1) / length[:, None].clamp(min=1)
            u, v = F.normalize(self.u(u), dim=-1), F.normalize(self.i(self.e(item)), dim=-1)
            lg = u @ v.t() * self.temp.exp()
            same = (item[:, None] == item) & ~torch.eye(b, dtype=torch.bool, device=item.device)
            y = torch.arange(b, device=item.device)
            a = F.cross_entropy((lg - logq).masked_fill(same, -1e4), y)
            nce = (F.cross_entropy(lg, y) + F.cross_entropy(lg.t(), y)) / 2
            rank = (lg.detach() > lg.detach().diagonal()[:, None]).sum(1)
            return a, nce, (rank < b).sum()

    return Model(), [I(items, b, t), I(t, b) + 1, I(items, b), torch.randn(b) - 3]


@case(train=True)
def gat_edges(s):
    """Graph attention over edges."""
    n, e, h, d, i = s(13, 4099), s(40, 131071), s(2, 3), s(5, 24), s(7, 136)

    class Gat(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.l, self.a, self.b, self.bias = (
                nn.Linear(i, h * d, bias=False),
                nn.Parameter(R(h, d, scale=0.3)),
                nn.Parameter(R(h, d, scale=0.3)),
                nn.Parameter(torch.zeros(h * d)),
            )

        def forward(self, x, ei):
            src, dst = ei
            z = self.l(x).view(n, h, d)
            sc = F.leaky_relu((z * self.a).sum(-1)[src] + (z * self.b).sum(-1)[dst], 0.2)
            top = torch.full((n, h), -1e30, device=x.device, dtype=x.dtype).scatter_reduce(
                0, dst[:, None].expand(-1, h), sc.detach(), "amax", include_self=True
            )
            w = torch.exp(sc - top[dst])
            tot = torch.zeros(n, h, device=x.device, dtype=x.dtype).index_add(0, dst, w)
            w = w / (tot[dst] + 1e-16)
            out = torch.zeros_like(z).index_add(0, dst, w[..., None] * z[src])
            return out.flatten(1) + self.bias

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Gat(i), Gat(h * d)

        def forward(self, x, ei):
            return F.log_softmax(self.b(F.elu(self.a(x, ei)), ei), -1)

    return Model(), [R(n, i), I(n, 2, e)]


@case(train=True, f32=True)
def pna_aggregators(s):
    """Principal neighbourhood aggregation."""
    n, e, d, g = s(13, 4099), s(40, 17011), s(5, 72), s(3, 31)

    def f(m, x, src, dst, batch, w):
        h = F.relu(m.pre(torch.cat([x[src], x[dst], w[:, None]], -1)))
        ix = dst[:, None].expand_as(h)
        deg = torch.zeros(n, device=x.device, dtype=x.dtype).scatter_add(0, dst, torch.ones_like(w))
        c = deg.clamp(min=1)[:, None]
        z = torch.zeros(n, d, device=x.device, dtype=x.dtype)
        mean = z.scatter_add(0, ix, h) / c
        sq = z.scatter_reduce(0, ix, h * h, "mean", include_self=False)
        std = torch.sqrt(F.relu(sq - mean**2) + 1e-5)
        mx = z.scatter_reduce(0, ix, h + w[:, None] * 1e-2, "amax", include_self=False)
        mn = z.scatter_reduce(0, ix, h - w[:, None] * 1e-2, "amin", include_self=False)
        a = torch.cat([mean, mx, mn, std], -1)
        ld = torch.log(deg + 1)[:, None]
        avg = ld.mean()
        a = torch.cat([a, a * ld / avg, a * avg / ld.clamp(min=0.5)], -1)
        y = F.relu(m.post(torch.cat([x, a], -1)))
        pooled = torch.zeros(g, d, device=x.device, dtype=x.dtype).index_add(0, batch, y)
        return m.out(pooled), y

    return Fn(f, pre=nn.Linear(2 * d + 1, d), post=nn.Linear(13 * d, d), out=nn.Linear(d, 3)), [
        R(n, d),
        I(n, e),
        I(n, e),
        I(g, n).sort().values,
        torch.rand(e),
    ]


@case(train=True, f32=True)
def schnet_forces(s):
    """SchNet: continuous filters, energies and forces."""
    n, e, d, k = s(9, 777), s(30, 12007), s(6, 72), s(8, 40)

    def energy(m, pos, z, src, dst, mol):
        x = m.emb(z)
        r = torch.sqrt(((pos[src] - pos[dst]) ** 2).sum(-1) + 1e-6)
        mu = torch.linspace(0, 5, k, device=pos.device, dtype=pos.dtype)
        rbf = torch.exp(-10 * (r[:, None] - mu) ** 2)
        cut = 0.5 * (torch.cos(r * math.pi / 5) + 1) * (r < 5)
        ssp = lambda t: F.softplus(t) - math.log(2)
        for f1, f2, i, o in zip(m.f1, m.f2, m.i, m.o):
            w = f2(ssp(f1(rbf))) * cut[:, None]
            x = x + ssp(o(torch.zeros_like(x).index_add(0, dst, i(x)[src] * w)))
        a = m.out(x).squeeze(-1)
        return torch.zeros(7, device=pos.device, dtype=pos.dtype).index_add(0, mol, a)

    def f(m, pos, z, src, dst, mol):
        force = -torch.func.grad(lambda p: energy(m, p, z, src, dst, mol).sum())(pos)
        return energy(m, pos, z, src, dst, mol), force

    ml = lambda a, b, bias=True: nn.ModuleList(nn.Linear(a, b, bias=bias) for _ in range(2))
    return Fn(
        f, emb=nn.Embedding(20, d), f1=ml(k, d), f2=ml(d, d), i=ml(d, d, False), o=ml(d, d), out=nn.Linear(d, 1)
    ), [R(n, 3, scale=2.0), I(20, n), I(n, e), I(n, e), I(7, n).sort().values]


@case(train=True)
def egnn_scatter(s):
    n, e, d = s(33, 1283), s(100, 7777), s(13, 65)

    def f(m, h, x, edges):
        i, j = edges
        dx = x[i] - x[j]
        d2 = (dx * dx).sum(1, True)
        msg = F.silu(m.e2(F.silu(m.e1(torch.cat([h[i], h[j], d2], 1)))))
        x = x + torch.zeros_like(x).index_add(0, i, dx / (d2.sqrt() + 1) * m.xw(msg)) / 10
        agg = torch.zeros(h.shape[0], msg.shape[1], device=h.device, dtype=h.dtype).scatter_add(
            0, i[:, None].expand_as(msg), msg
        )
        mx = torch.zeros_like(agg).scatter_reduce(0, i[:, None].expand_as(msg), msg, "amax", include_self=False)
        return h + m.hw(torch.cat([h, agg, mx], 1)), x

    return Fn(
        f, e1=nn.Linear(2 * d + 1, d), e2=nn.Linear(d, d), xw=nn.Linear(d, 1, bias=False), hw=nn.Linear(3 * d, d)
    ), [R(n, d), R(n, 3), I(n, 2, e)]


@case(f32=True)
def knn_cdist(s):
    """Retrieval: nearest neighbours by distances, votes and metrics."""
    q, n, d, k = s(9, 1283), s(33, 65537), s(6, 96), 9

    def f(m, x, base, labels, y):
        x, base = m.p(x), m.p(base)
        dist = torch.cdist(x, base)
        dd, i = dist.topk(k, largest=False)
        w = torch.exp(-dd / dd.mean(1, keepdim=True))
        votes = torch.zeros(x.shape[0], 10, device=x.device, dtype=x.dtype).scatter_add(1, labels[i], w)
        hit = (labels[i] == y[:, None]).to(x.dtype)
        prec = hit.cumsum(1) / torch.arange(1, k + 1, device=x.device)
        ap = (prec * hit).sum(1) / hit.sum(1).clamp(min=1)
        dcg = (hit / torch.log2(torch.arange(2, k + 2, device=x.device, dtype=x.dtype))).sum(1)
        mrr = torch.where(hit.any(1), 1 / (hit.argmax(1) + 1), 0.0)
        l1 = torch.cdist(x[:, :5], base[:33, :5], p=1)
        return dd, votes, ap.mean(), dcg, mrr, base[i].mean(1), l1, torch.cdist(x, base[:57], p=float("inf"))

    return Fn(f, p=nn.Linear(d, d)), [R(q, d), R(n, d), I(10, n), I(10, q)]


@case(train=True, f32=True)
def tabnet_sparsemax(s):
    """TabNet: sparsemax masks, ghost batch norm and gated blocks."""
    b, d, h = s(12, 8256), s(9, 96), s(4, 72)

    class Gbn(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.bn = nn.BatchNorm1d(c, momentum=0.02)

        def forward(self, x):
            return torch.cat([self.bn(z) for z in x.chunk(s(3, 4), 0)])

    class Glu(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.l, self.n = nn.Linear(i, 4 * h, bias=False), Gbn(4 * h)

        def forward(self, x):
            return F.glu(self.n(self.l(x)), -1)

    def sparsemax(z):
        z = z - z.amax(-1, keepdim=True)
        so = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        cs = so.cumsum(-1)
        size = (1 + k * so > cs).sum(-1, keepdim=True)
        tau = (cs.gather(-1, size - 1) - 1) / size
        return (z - tau).clamp(min=0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn, self.sh = nn.BatchNorm1d(d), Glu(d)
            self.st = nn.ModuleList(Glu(2 * h) for _ in range(3))
            self.at = nn.ModuleList(nn.Sequential(nn.Linear(h, d, bias=False), Gbn(d)) for _ in range(2))
            self.out = nn.Linear(h, 5)

        def forward(self, x):
            x = self.bn(x)
            prior, agg, ent = torch.ones_like(x), 0.0, 0.0
            z = self.sh(x)
            z = (z + self.st[0](z)) * math.sqrt(0.5)
            for i in range(2):
                m = sparsemax(self.at[i](z[:, h:]) * prior)
                ent = ent - (m * torch.log(m + 1e-10)).sum(-1).mean()
                prior = prior * (1.3 - m)
                z = self.sh(m * x)
                z = (z + self.st[i + 1](z)) * math.sqrt(0.5)
                agg = agg + F.relu(z[:, :h])
            return self.out(agg), ent

    return Model(), [R(b, d)]


class Kan(nn.Module):
    def __init__(self, i, o, grid=7, k=3):
        super().__init__()
        h = 2 / grid
        knots = (torch.arange(-k, grid + k + 1) * h - 1).expand(i, -1).contiguous()
        self.register_buffer("knots", knots)
        self.base = nn.Parameter(R(o, i, scale=i**-0.5))
        self.spline = nn.Parameter(R(o, i, grid + k, scale=0.1))
        self.scaler = nn.Parameter(R(o, i))
        self.k = k

    def forward(self, x):
        g, x1 = self.knots, x.unsqueeze(-1)
        b = ((x1 >= g[:, :-1]) & (x1 < g[:, 1:])).to(x.dtype)
        for k in range(1, self.k + 1):
            b = (x1 - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)]) * b[..., :-1] + (g[:, k + 1 :] - x1) / (
                g[:, k + 1 :] - g[:, 1:-k]
            ) * b[..., 1:]
        w = self.spline * self.scaler.unsqueeze(-1)
        return F.linear(F.silu(x), self.base) + F.linear(b.flatten(1), w.flatten(1))


@case(train=True, f32=True)
def kan(s):
    i, h = s(13, 257), s(33, 131)
    return nn.Sequential(Kan(i, h), Kan(h, 7)), [R(s(33, 1283), i, scale=0.4)]


@case(train=True)
def triplet_hard_mining(s):
    n, d = s(33, 1021), s(13, 129)

    def f(m, x, y):
        e = F.normalize(m.l(x), dim=1)
        dist = (2 - 2 * e @ e.t()).clamp_min(1e-6).sqrt()
        same = y[:, None] == y[None]
        eye = torch.eye(n, dtype=torch.bool, device=x.device)
        pos = dist.masked_fill(~same | eye, -1e9).amax(1)
        neg = dist.masked_fill(same, 1e9).amin(1)
        loss = F.relu(pos - neg + 0.3)
        valid = (same & ~eye).any(1)
        return (loss * valid).sum() / valid.sum().clamp_min(1)

    return Fn(f, l=nn.Linear(d, 65)), [R(n, d), I(n // 5, n)]
