"""Steps in a loop: cells, scans, dynamic programs, filters and solvers.

Models of odd_models.py (--families outside) by authors who had not read the compiler; outside_cases.py says how a
model is given.
"""

import torch
import torch.nn.functional as F
from torch import nn

from outside_cases import Fn, I, R, case


@case(train=True)
def neural_ode_rk4(s):
    d, h = s(13, 101), s(33, 513)

    def f(m, x):
        g = lambda t, y: m.l2(torch.tanh(m.l1(torch.cat([y, torch.full_like(y[:, :1], t)], 1))))
        dt, out = 0.125, [x]
        for i in range(6):
            t, y = i * dt, out[-1]
            k1 = g(t, y)
            k2 = g(t + dt / 2, y + dt / 2 * k1)
            k3 = g(t + dt / 2, y + dt / 2 * k2)
            k4 = g(t + dt, y + dt * k3)
            out.append(y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
        return torch.stack(out, 1)

    return Fn(f, l1=nn.Linear(d + 1, h), l2=nn.Linear(h, d)), [R(s(33, 777), d)]


@case(train=True)
def peephole_lstm(s):
    d, t = s(33, 257), s(13, 33)

    def f(m, x):
        h = c = x.new_zeros(x.shape[0], d)
        xs, out = m.ih(x), []
        for i in range(t):
            z = xs[:, i] + m.hh(h)
            ii, ff, g, o = z.chunk(4, 1)
            ii, ff = torch.sigmoid(ii + m.pi * c), torch.sigmoid(ff + m.pf * c + 1)
            c = ff * c + ii * torch.tanh(g)
            h = torch.sigmoid(o + m.po * c) * torch.tanh(m.ln(c))
            out.append(h)
        return torch.stack(out, 1), (h, c)

    return Fn(
        f, ih=nn.Linear(17, 4 * d), hh=nn.Linear(d, 4 * d, bias=False), pi=R(d), pf=R(d), po=R(d), ln=nn.LayerNorm(d)
    ), [R(s(7, 65), t, 17)]


@case(train=True)
def slstm_steps(s):
    d, t = s(17, 193), s(9, 25)

    def f(m, x):
        xs = m.w(x)
        h = c = x.new_zeros(x.shape[0], d)
        n, mm, out = torch.ones_like(h), torch.zeros_like(h), []
        for i in range(t):
            z, ii, ff, o = (xs[:, i] + m.r(h)).chunk(4, 1)
            lf = F.logsigmoid(ff)
            m2 = torch.maximum(lf + mm, ii)
            ii, ff, mm = torch.exp(ii - m2), torch.exp(lf + mm - m2), m2
            c, n = ff * c + ii * torch.tanh(z), ff * n + ii
            h = torch.sigmoid(o) * c / n
            out.append(h)
        return torch.stack(out, 1)

    return Fn(f, w=nn.Linear(13, 4 * d), r=nn.Linear(d, 4 * d)), [R(s(7, 33), t, 13)]


@case(train=True)
def ntm_memory(s):
    n, w, b = s(33, 127), s(13, 65), s(7, 33)

    def f(m, x):
        mem = x.new_full((b, n, w), 0.01)
        wt = F.one_hot(torch.zeros(b, dtype=torch.long, device=x.device), n).to(x.dtype)
        outs = []
        for i in range(x.shape[1]):
            p = m.c(x[:, i])
            k, beta, g, sh, gam, er, ad = p.split([w, 1, 1, 3, 1, w, w], 1)
            wc = torch.softmax(F.softplus(beta) * F.cosine_similarity(mem, k.tanh()[:, None], dim=-1, eps=1e-6), 1)
            wg = torch.sigmoid(g) * wc + (1 - torch.sigmoid(g)) * wt
            sh = sh.softmax(1)
            wt = sum(sh[:, j : j + 1] * wg.roll(j - 1, 1) for j in range(3))
            wt = (wt + 1e-6) ** (1 + F.softplus(gam))
            wt = wt / wt.sum(1, True)
            mem = mem * (1 - wt[..., None] * er.sigmoid()[:, None]) + wt[..., None] * ad.tanh()[:, None]
            outs.append(torch.bmm(wt[:, None], mem).squeeze(1))
        return torch.stack(outs, 1)

    return Fn(f, c=nn.Linear(17, 3 * w + 6)), [R(b, s(5, 9), 17)]


@case(train=True)
def rwkv_wkv(s):
    t, d = s(17, 29), s(33, 771)

    def f(m, k, v):
        w = -torch.exp(m.w)
        a = b = torch.zeros_like(k[:, 0])
        p = torch.full_like(a, -1e30)
        out = []
        for i in range(t):
            q = torch.maximum(p, m.u + k[:, i])
            e1, e2 = torch.exp(p - q), torch.exp(m.u + k[:, i] - q)
            out.append((e1 * a + e2 * v[:, i]) / (e1 * b + e2))
            q = torch.maximum(p + w, k[:, i])
            e1, e2 = torch.exp(p + w - q), torch.exp(k[:, i] - q)
            a, b, p = e1 * a + e2 * v[:, i], e1 * b + e2, q
        return torch.stack(out, 1)

    return Fn(f, w=R(d, scale=0.3), u=R(d)), [R(s(3, 5), t, d), R(s(3, 5), t, d)]


@case(train=True, f32=True)
def ctc_forward_by_hand(s):
    b, t, v, l = s(3, 17), s(33, 101), s(13, 257), s(5, 13)

    def f(m, x, y):
        lp = F.log_softmax(m.out(x), -1)
        ext = torch.zeros(y.shape[0], 2 * l + 1, dtype=torch.long, device=y.device)
        ext[:, 1::2] = y
        skip = torch.zeros_like(ext, dtype=torch.bool)
        skip[:, 2:] = (ext[:, 2:] != 0) & (ext[:, 2:] != ext[:, :-2])
        e = lp.gather(2, ext.unsqueeze(1).expand(-1, t, -1))
        a = torch.full_like(e[:, 0], -1e30)
        a[:, :2] = e[:, 0, :2]
        for i in range(1, t):
            a1 = F.pad(a[:, :-1], (1, 0), value=-1e30)
            a2 = torch.where(skip, F.pad(a[:, :-2], (2, 0), value=-1e30), -1e30)
            a = torch.logsumexp(torch.stack([a, a1, a2]), 0) + e[:, i]
        return -torch.logaddexp(a[:, -1], a[:, -2]).mean()

    return Fn(f, out=nn.Linear(16, v)), [R(b, t, 16), I(v - 1, b, l) + 1]


@case(train=True, f32=True)
def crf_loss(s):
    b, t, k = s(7, 33), s(13, 77), s(9, 23)

    def f(m, x, tags, lengths):
        em = m.out(x)
        mask = torch.arange(t, device=x.device) < lengths[:, None]
        a = m.start + em[:, 0]
        score = m.start[tags[:, 0]] + em[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for i in range(1, t):
            n = torch.logsumexp(a.unsqueeze(2) + m.trans + em[:, i].unsqueeze(1), 1)
            a = torch.where(mask[:, i : i + 1], n, a)
            score = (
                score
                + (m.trans[tags[:, i - 1], tags[:, i]] + em[:, i].gather(1, tags[:, i : i + 1]).squeeze(1)) * mask[:, i]
            )
        last = tags.gather(1, lengths[:, None] - 1).squeeze(1)
        return (torch.logsumexp(a + m.end, 1) - score - m.end[last]).mean()

    return Fn(f, out=nn.Linear(16, k), start=R(k), end=R(k), trans=R(k, k)), [R(b, t, 16), I(k, b, t), I(t - 1, b) + 1]


@case(f32=True)
def viterbi(s):
    b, t, k = s(7, 33), s(13, 77), s(9, 23)

    def f(m, em):
        a, back = m.start + em[:, 0], []
        for i in range(1, t):
            best, j = (a.unsqueeze(2) + m.trans).max(1)
            a = best + em[:, i]
            back.append(j)
        sc, tag = a.max(1)
        path = [tag]
        for j in reversed(back):
            path.append(j.gather(1, path[-1][:, None]).squeeze(1))
        return sc, torch.stack(path[::-1], 1)

    return Fn(f, start=R(k), trans=R(k, k)), [R(b, t, k)]


@case(f32=True, train=True)
def soft_dtw(s):
    n, m_ = s(9, 17), s(7, 13)

    def f(m, x, y):
        x = m.l(x)
        d = torch.cdist(x, y) ** 2
        inf = torch.full_like(d[:, 0, 0], 1e8)
        r = {(0, 0): torch.zeros_like(inf)}
        for i in range(1, n + 1):
            for j in range(1, m_ + 1):
                z = torch.stack([r.get((i - 1, j), inf), r.get((i, j - 1), inf), r.get((i - 1, j - 1), inf)])
                r[i, j] = d[:, i - 1, j - 1] - 0.5 * torch.logsumexp(-z / 0.5, 0)
        return r[n, m_].mean()

    return Fn(f, l=nn.Linear(5, 5)), [R(s(7, 33), n, 5), R(s(7, 33), m_, 5)]


@case(f32=True, tol=20)
def kalman_filter(s):
    b, t = s(7, 1001), s(9, 25)

    def f(m, z):
        x, p = z.new_zeros(b, 4, 1), torch.eye(4, device=z.device, dtype=z.dtype).expand(b, 4, 4)
        xs = []
        for i in range(t):
            x, p = m.f @ x, m.f @ p @ m.f.t() + 0.01 * torch.eye(4, device=z.device, dtype=z.dtype)
            sm = m.h @ p @ m.h.t() + 0.1 * torch.eye(2, device=z.device, dtype=z.dtype)
            det = sm[:, 0, 0] * sm[:, 1, 1] - sm[:, 0, 1] * sm[:, 1, 0]
            inv = (
                torch.stack(
                    [torch.stack([sm[:, 1, 1], -sm[:, 0, 1]], 1), torch.stack([-sm[:, 1, 0], sm[:, 0, 0]], 1)], 1
                )
                / det[:, None, None]
            )
            k = p @ m.h.t() @ inv
            x = x + k @ (z[:, i, :, None] - m.h @ x)
            p = p - k @ m.h @ p
            xs.append(x.squeeze(-1))
        return torch.stack(xs, 1), p

    return Fn(f, f=torch.eye(4) + torch.diag(torch.ones(2) * 0.1, 2), h=torch.eye(4)[:2]), [R(b, t, 2)]


@case(train=True, f32=True)
def sinkhorn_sort(s):
    def f(m, x):
        x = m.l(x)
        anchors = torch.linspace(-2, 2, x.shape[1], device=x.device, dtype=x.dtype)
        c = (x[:, :, None] - anchors) ** 2 / 0.3
        u = torch.zeros_like(x)
        v = torch.zeros_like(x)
        for _ in range(10):
            u = -torch.logsumexp(-c + v[:, None], 2)
            v = -torch.logsumexp(-c + u[:, :, None], 1)
        p = torch.exp(-c + u[:, :, None] + v[:, None])
        return torch.einsum("bij,bi->bj", p, x)

    n = s(33, 131)
    return Fn(f, l=nn.Linear(n, n)), [R(s(7, 33), n)]


@case(f32=True, train=True, tol=20)
def gaussian_process(s):
    n = s(33, 257)

    def f(m, x, y):
        z = x / F.softplus(m.ls)
        d2 = (z[:, None] - z[None]).pow(2).sum(-1)
        k = m.amp**2 * torch.exp(-0.5 * d2) + 0.1 * torch.eye(n, device=x.device, dtype=x.dtype)
        l = torch.linalg.cholesky(k)
        a = torch.cholesky_solve(y[:, None], l)
        return 0.5 * (y @ a.squeeze(1)) + l.diagonal().log().sum()

    return Fn(f, ls=R(3), amp=torch.tensor(1.1)), [R(n, 3), R(n)]


@case(f32=False)
def muon_newton_schulz(s):
    a, b = s(33, 777), s(57, 1283)

    def f(m, g, mom):
        mom = mom.lerp(g, 0.05)
        x = g.lerp(mom, 0.95)
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            q = x @ x.t()
            x = 3.4445 * x + (-4.775 * q + 2.0315 * q @ q) @ x
        return m.p * (1 - 0.01) - 0.02 * max(1, a / b) ** 0.5 * x, mom

    return Fn(f, p=R(a, b)), [R(a, b), R(a, b)]


@case(f32=True)
def optimizer_updates(s):
    """Optimizers as functions: AdamW, Lion, LAMB, Adafactor, EMA, clipping."""
    n, k = s(13, 1032), s(9, 4099)

    def f(m, p, g, mom, var, row, col, ema, step):
        norm = torch.sqrt(g.square().sum())
        g = g * (1.0 / (norm + 1e-6)).clamp(max=1.0)
        lr, wd = 1e-3, 0.1
        t = step.to(p.dtype)
        m1, v1 = torch.lerp(mom, g, 0.1), var * 0.999 + 0.001 * g * g
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        adam = (p * (1 - lr * wd)).addcdiv(m1 / c1, (v1 / c2).sqrt() + 1e-8, value=-lr)
        u = torch.sign(0.9 * mom + 0.1 * g)
        lion = p * (1 - lr * wd) - lr * u
        r = (m1 / c1) / ((v1 / c2).sqrt() + 1e-6) + wd * p
        pn, rn = p.norm(), r.norm()
        trust = torch.where((pn > 0) & (rn > 0), (pn / rn).clamp(0.01, 10), 1.0)
        lamb = p - lr * trust * r
        sq = g * g + 1e-30
        b2 = 1 - t**-0.8
        ro, co = row * b2 + (1 - b2) * sq.mean(1), col * b2 + (1 - b2) * sq.mean(0)
        uf = g * torch.rsqrt(ro / ro.mean())[:, None] * torch.rsqrt(co)
        uf = uf / (uf.square().mean().sqrt() / 1.0).clamp(min=1.0)
        rms = (p.square().mean().sqrt()).clamp(min=1e-3)
        ada = p - torch.minimum(torch.tensor(1e-2, device=p.device, dtype=p.dtype), t.rsqrt()) * rms * uf
        decay = torch.minimum((1 + t) / (10 + t), torch.tensor(0.999, device=p.device, dtype=p.dtype))
        return adam, lion, lamb, ada, m1, v1, ro, co, ema.lerp(adam, 1 - decay), norm

    return Fn(f), [
        R(n, k),
        R(n, k),
        R(n, k, scale=0.1),
        torch.rand(n, k) * 0.1,
        torch.rand(n),
        torch.rand(k),
        R(n, k),
        torch.tensor(37),
    ]


@case(train=True, f32=True)
def ppo_gae(s):
    """PPO with generalised advantages."""
    b, t, o, a = s(5, 1283), s(6, 12), s(7, 96), s(4, 17)

    def f(m, obs, act, rew, done, old, oldv):
        h = torch.tanh(m.l2(torch.tanh(m.l1(obs))))
        lp, v = F.log_softmax(m.pi(h), -1), m.v(h).squeeze(-1)
        with torch.no_grad():
            nd = 1 - done.to(rew.dtype)
            nxt = torch.cat([v[:, 1:], v[:, -1:]], 1)
            delta = rew + 0.99 * nxt * nd - v
            adv, g = [], torch.zeros_like(delta[:, 0])
            for i in reversed(range(t)):
                g = delta[:, i] + 0.99 * 0.95 * nd[:, i] * g
                adv.insert(0, g)
            adv = torch.stack(adv, 1)
            ret = adv + v
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        l = lp.gather(-1, act[..., None]).squeeze(-1)
        ratio = torch.exp(l - old)
        pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        vc = oldv + (v - oldv).clamp(-0.2, 0.2)
        vl = 0.5 * torch.max((v - ret) ** 2, (vc - ret) ** 2).mean()
        ent = -(lp.exp() * lp).sum(-1).mean()
        kl = ((ratio - 1) - (l - old)).mean()
        clip = ((ratio - 1).abs() > 0.2).to(rew.dtype).mean()
        return (
            pg + 0.5 * vl - 0.01 * ent,
            kl.detach(),
            clip,
            F.huber_loss(v, ret, delta=0.7),
            F.smooth_l1_loss(v, ret, beta=0.3),
        )

    hd = s(12, 264)
    return Fn(f, l1=nn.Linear(o, hd), l2=nn.Linear(hd, hd), pi=nn.Linear(hd, a), v=nn.Linear(hd, 1)), [
        R(b, t, o),
        I(a, b, t),
        R(b, t),
        torch.rand(b, t) < 0.1,
        -torch.rand(b, t) - 1,
        R(b, t),
    ]


@case(train=True, f32=True)
def dueling_c51(s):
    """A dueling C51 agent: double Q targets and the projection of distributions."""
    b, o, a, k = s(5, 8209), s(6, 136), s(3, 9), s(11, 51)

    def net(m, x):
        h = F.relu(m.l1(x))
        adv, v = m.adv(h).view(-1, a, k), m.v(h).view(-1, 1, k)
        return F.log_softmax(v + adv - adv.mean(1, keepdim=True), -1)

    def f(m, x, act, rew, done, nx):
        lp = net(m, x)
        with torch.no_grad():
            z = torch.linspace(-10, 10, k, device=x.device, dtype=x.dtype)
            p = net(m, nx).exp()
            best = (p * z).sum(-1).argmax(1)
            p = p[torch.arange(b, device=x.device), best]
            tz = (rew[:, None] + 0.99 * z * (~done)[:, None]).clamp(-10, 10)
            at = (tz + 10) / (20 / (k - 1))
            lo = at.floor().clamp(0, k - 1)
            hi = (lo + 1).clamp(max=k - 1)
            w = at - lo
            off = (torch.arange(b, device=x.device) * k)[:, None]
            t = torch.zeros(b * k, device=x.device, dtype=x.dtype)
            t = (
                t.index_add(0, (lo.long() + off).flatten(), (p * (1 - w)).flatten())
                .index_add(0, (hi.long() + off).flatten(), (p * w).flatten())
                .view(b, k)
            )
        chosen = lp.gather(1, act[:, None, None].expand(-1, 1, k)).squeeze(1)
        ce = -(t * chosen).sum(-1)
        return ce.mean(), F.kl_div(chosen, t, reduction="batchmean"), ce.detach() ** 0.6

    h = s(12, 520)
    return Fn(f, l1=nn.Linear(o, h), adv=nn.Linear(h, a * k), v=nn.Linear(h, k)), [
        R(b, o),
        I(a, b),
        R(b),
        torch.rand(b) < 0.2,
        R(b, o),
    ]


@case(f32=True)
def nms_soft_loop(s):
    n = s(33, 129)

    def f(m, xy, wh, sc):
        x1, x2 = xy - wh / 2, xy + wh / 2
        lt, rb = torch.maximum(x1[:, None], x1[None]), torch.minimum(x2[:, None], x2[None])
        inter = (rb - lt).clamp_min(0).prod(-1)
        ar = wh.prod(-1)
        iou = inter / (ar[:, None] + ar[None] - inter + 1e-9)
        live, keep = torch.ones_like(sc), []
        for _ in range(9):
            i = (sc * live).argmax()
            keep.append(i)
            sc = sc * torch.exp(-(iou[i] ** 2) / 0.5)
            live = live.index_fill(0, i[None], 0.0)
        return torch.stack(keep), sc

    return Fn(f), [torch.rand(n, 2), torch.rand(n, 2) * 0.3 + 0.1, torch.rand(n)]
