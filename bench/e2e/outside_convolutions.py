"""Convolutions and pooling: blocks of networks over images and volumes.

Models of odd_models.py (--families outside) by authors who had not read the compiler; outside_cases.py says how a
model is given.
"""

import torch
import torch.nn.functional as F
from torch import nn

from outside_cases import Fn, I, R, case


@case(train=True)
def capsules(s):
    n, d, m, e = s(33, 1153), 8, 10, 17

    def f(m_, u):
        hat = torch.einsum("bnd,nmde->bnme", u, m_.w)
        b = torch.zeros(u.shape[0], u.shape[1], m_.w.shape[1], device=u.device, dtype=u.dtype)
        for it in range(3):
            c = b.softmax(2)
            z = (c.unsqueeze(-1) * hat).sum(1)
            q = (z * z).sum(-1, keepdim=True)
            v = q / (1 + q) * z / torch.sqrt(q + 1e-7)
            if it < 2:
                b = b + (hat * v.unsqueeze(1)).sum(-1)
        return v.norm(dim=-1)

    return Fn(f, w=R(n, m, d, e, scale=0.1)), [R(s(7, 33), n, d)]


class Cbam(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.fc1, self.fc2 = nn.Conv2d(c, max(c // 4, 2), 1), nn.Conv2d(max(c // 4, 2), c, 1)
        self.sp = nn.Conv2d(2, 1, 7, padding=3)
        self.eca = nn.Conv1d(1, 1, 3, padding=1, bias=False)

    def forward(self, x):
        y = F.hardswish(self.bn(self.conv(x)))
        mlp = lambda z: self.fc2(F.relu(self.fc1(z)))
        y = y * torch.sigmoid(mlp(F.adaptive_avg_pool2d(y, 1)) + mlp(F.adaptive_max_pool2d(y, 1)))
        y = y * torch.sigmoid(self.sp(torch.cat([y.mean(1, True), y.amax(1, True)], 1)))
        a = self.eca(y.mean((2, 3)).unsqueeze(1)).sigmoid().squeeze(1)
        return x + y * a[..., None, None]


@case(train=True)
def cbam_eca(s):
    return Cbam(s(13, 67)), [R(s(3, 17), s(13, 67), s(13, 57), s(17, 43))]


@case(train=True)
def hypernetwork_conv(s):
    b, c = s(3, 13), s(5, 33)

    def f(m, x, z):
        h = F.elu(m.l1(z))
        w = m.l2(h).view(b * 7, c, 3, 3)
        bias = m.l3(h).view(-1)
        y = F.conv2d(x.reshape(1, b * c, *x.shape[2:]), w, bias, padding=1, groups=b)
        return y.view(b, 7, *x.shape[2:])

    return Fn(f, l1=nn.Linear(17, 33), l2=nn.Linear(33, 7 * c * 9), l3=nn.Linear(33, 7)), [
        R(b, c, s(13, 57), s(7, 33)),
        R(b, 17),
    ]


@case(train=True)
def conv3d_net(s):
    c = s(5, 24)
    m = nn.Sequential(
        nn.Conv3d(2, c, 3, stride=2, padding=1),
        nn.BatchNorm3d(c),
        nn.ELU(),
        nn.MaxPool3d(2, ceil_mode=True),
        nn.Conv3d(c, 2 * c, (1, 3, 3), padding=(0, 1, 1), groups=1),
        nn.PReLU(2 * c),
        nn.AvgPool3d(2, ceil_mode=True, count_include_pad=False),
        nn.AdaptiveAvgPool3d((1, 2, 3)),
        nn.Flatten(),
        nn.Linear(12 * c, 7),
    )
    return m, [R(2, 2, s(11, 33), s(13, 57), s(17, 61))]


@case(train=True)
def involution(s):
    c, g, k = s(8, 32), 4, 7

    def f(m, x):
        b, _, h, w = x.shape
        ker = m.span(F.relu(m.red(x))).view(b, g, 1, k * k, h, w)
        u = F.unfold(x, k, padding=k // 2).view(b, g, c // g, k * k, h, w)
        return (ker * u).sum(3).view(b, c, h, w)

    return Fn(f, red=nn.Conv2d(c, 4, 1), span=nn.Conv2d(4, g * k * k, 1)), [R(2, c, s(13, 57), s(17, 43))]


@case(train=True)
def group_equivariant_p4(s):
    c, o = s(3, 16), s(5, 32)

    def f(m, x):
        w = torch.cat([torch.rot90(m.w, r, (2, 3)) for r in range(4)], 0)
        y = F.conv2d(x, w, padding=2).view(x.shape[0], 4, o, *x.shape[2:])
        y = F.layer_norm(y, y.shape[1:], eps=1e-5)
        w2 = torch.stack([torch.rot90(m.w2, r, (3, 4)).roll(r, 1) for r in range(4)])
        z = F.conv2d(F.relu(y).flatten(1, 2), w2.flatten(0, 0).reshape(4 * 7, 4 * o, 3, 3))
        return z.view(x.shape[0], 4, 7, *z.shape[2:]).amax(1)

    return Fn(f, w=R(o, c, 5, 5, scale=0.2), w2=R(7, 4, o, 3, 3, scale=0.1)), [R(s(2, 7), c, s(13, 57), s(13, 57))]


@case(train=True)
def gated_pixelcnn(s):
    c = s(6, 36)

    def f(m, x):
        mask = torch.ones_like(m.w)
        mask[:, :, 3, 4:] = 0
        mask[:, :, 4:] = 0
        h = F.conv2d(x, m.w * mask, m.b, padding=3)
        a, b = h.chunk(2, 1)
        h = torch.tanh(a) * torch.sigmoid(b)
        h = m.o(h + x)
        return F.cross_entropy(
            h.view(h.shape[0], 16, -1, *h.shape[2:]).flatten(2),
            ((x[:, :1].clamp(-1, 0.99) + 1) * 8).long().flatten(1).repeat(1, h.shape[1] // 16),
        )

    return Fn(f, w=R(2 * c, c, 7, 7, scale=0.05), b=R(2 * c), o=nn.Conv2d(c, 32, 1)), [
        R(s(2, 7), c, s(13, 43), s(13, 43))
    ]


@case(train=True)
def quaternion_conv(s):
    c = s(3, 17)

    def f(m, x):
        r, i, j, k = m.w.unbind(0)
        w = torch.cat(
            [
                torch.cat([r, -i, -j, -k], 1),
                torch.cat([i, r, -k, j], 1),
                torch.cat([j, k, r, -i], 1),
                torch.cat([k, -j, i, r], 1),
            ]
        )
        y = F.conv2d(x, w, m.b, stride=2, padding=1, dilation=1)
        n = y.unflatten(1, (4, -1)).pow(2).sum(1, keepdim=True).add(1e-5).rsqrt()
        return (y.unflatten(1, (4, -1)) * n).flatten(1, 2)

    return Fn(f, w=R(4, 5, c, 3, 3, scale=0.2), b=R(20)), [R(2, 4 * c, s(17, 101), s(13, 77))]


@case(train=True)
def convnext_v2(s):
    """ConvNeXt-V2 blocks with global response normalisation."""
    b, c, hw = s(2, 5), s(6, 136), s(9, 57)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.dw, self.n = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c, 1e-6)
            self.p1, self.p2 = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
            self.g, self.b = nn.Parameter(R(1, 1, 1, 4 * c, scale=0.1)), nn.Parameter(R(1, 1, 1, 4 * c, scale=0.1))

        def forward(self, x):
            y = F.gelu(self.p1(self.n(self.dw(x).permute(0, 2, 3, 1))))
            gx = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
            y = self.g * (y * (gx / (gx.mean(-1, keepdim=True) + 1e-6))) + self.b + y
            return x + self.p2(y).permute(0, 3, 1, 2)

    return nn.Sequential(Block(), Block()), [R(b, c, hw, hw)]


@case(train=True, f32=True)
def pooling_zoo(s):
    """Pooling of every kind."""
    b, c, hw = s(2, 5), s(3, 40), s(17, 113)

    def f(m, x):
        y = m.c(x)
        a = F.max_pool2d(y, 3, 2, 1, ceil_mode=True)
        l = F.lp_pool2d(y.abs() + 0.1, 2, 3, 2)
        v = F.avg_pool2d(y, (3, 5), (2, 3), (1, 2), ceil_mode=True, count_include_pad=False)
        ad = F.adaptive_avg_pool2d(y, (5, 7))
        am = F.adaptive_max_pool2d(y, (7, 3))
        p, i = F.max_pool2d(y, 2, 2, return_indices=True)
        un = F.max_unpool2d(p, i, 2, 2, output_size=y.shape)
        gem = (F.softplus(y) + 1e-3).pow(m.p).mean((2, 3)).pow(1 / m.p)
        sp = torch.cat([F.adaptive_avg_pool2d(y, k).flatten(2) for k in (1, 2, 3, 6)], -1)
        w = F.softmax(y.flatten(2), -1)
        return a, l, v, ad, am, un * y, gem, sp, (w * y.flatten(2)).sum(-1), F.max_pool2d(y, 3, 1, 1, dilation=2)

    return Fn(f, c=nn.Conv2d(c, c, 1), p=torch.tensor(2.7)), [R(b, c, hw, hw)]


@case(train=True)
def mbconv_se(s):
    """EfficientNet's MBConv with squeeze and excitation."""
    b, c, o, hw = s(3, 9), s(4, 40), s(5, 72), s(9, 57)

    class Block(nn.Module):
        def __init__(self, c, o, k, st):
            super().__init__()
            e = 4 * c
            self.skip = c == o and st == 1
            self.a = nn.Sequential(nn.Conv2d(c, e, 1, bias=False), nn.BatchNorm2d(e, 1e-3, 0.01), nn.SiLU())
            self.d = nn.Sequential(
                nn.Conv2d(e, e, k, st, k // 2, groups=e, bias=False), nn.BatchNorm2d(e, 1e-3, 0.01), nn.SiLU()
            )
            self.s1, self.s2 = nn.Conv2d(e, max(1, c // 4), 1), nn.Conv2d(max(1, c // 4), e, 1)
            self.p = nn.Sequential(nn.Conv2d(e, o, 1, bias=False), nn.BatchNorm2d(o, 1e-3, 0.01))

        def forward(self, x):
            y = self.d(self.a(x))
            y = y * torch.sigmoid(self.s2(F.silu(self.s1(y.mean((2, 3), keepdim=True)))))
            y = self.p(y)
            return x + y if self.skip else y

    return nn.Sequential(Block(c, c, 3, 1), nn.SiLU(), Block(c, o, 5, 2), Block(o, o, 5, 1)), [R(b, c, hw, hw)]


@case(train=True)
def deeplab_aspp(s):
    """DeepLab's atrous pyramid and decoder."""
    b, c, o, hw, cl = s(2, 9), s(6, 136), s(4, 72), s(9, 33), s(5, 21)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            cbr = lambda i, k, r: nn.Sequential(
                nn.Conv2d(i, o, k, padding=r if k == 3 else 0, dilation=r, bias=False), nn.BatchNorm2d(o), nn.ReLU()
            )
            self.b = nn.ModuleList([cbr(c, 1, 1), cbr(c, 3, 2), cbr(c, 3, 6), cbr(c, 3, 12)])
            self.pool, self.proj = nn.Sequential(nn.Conv2d(c, o, 1, bias=False), nn.ReLU()), cbr(5 * o, 1, 1)
            self.low, self.out = cbr(c // 2, 1, 1), nn.Conv2d(2 * o, cl, 1)

        def forward(self, x, low, y):
            z = [f(x) for f in self.b]
            g = self.pool(F.adaptive_avg_pool2d(x, 1))
            z = self.proj(torch.cat(z + [F.interpolate(g, x.shape[-2:], mode="bilinear", align_corners=False)], 1))
            z = F.interpolate(z, low.shape[-2:], mode="bilinear", align_corners=False)
            lg = self.out(torch.cat([z, self.low(low)], 1))
            return lg, F.cross_entropy(lg, y, ignore_index=255)

    l = s(17, 113)
    y = I(cl, b, l, l)
    y[:, :2] = 255
    return Model(), [R(b, c, hw, hw), R(b, c // 2, l, l), y]


@case(train=True)
def fpn_pan_neck(s):
    """Feature pyramid, top down and bottom up."""
    b, cs, o, hw = s(1, 3), (s(3, 24), s(4, 40), s(5, 72)), s(4, 72), s(17, 113)

    class Neck(nn.Module):
        def __init__(self):
            super().__init__()
            self.lat = nn.ModuleList(nn.Conv2d(c, o, 1) for c in cs)
            self.out = nn.ModuleList(nn.Conv2d(o, o, 3, padding=1) for _ in cs)
            self.down = nn.ModuleList(nn.Conv2d(o, o, 3, 2, 1) for _ in cs[1:])
            self.w = nn.Parameter(torch.rand(3))
            self.gn = nn.GroupNorm(2, o)

        def forward(self, *xs):
            l = [f(x) for f, x in zip(self.lat, xs)]
            for i in (1, 0):
                l[i] = l[i] + F.interpolate(l[i + 1], l[i].shape[-2:], mode="nearest")
            p = [f(x) for f, x in zip(self.out, l)]
            w = F.relu(self.w)
            w = w / (w.sum() + 1e-4)
            for i in (1, 2):
                p[i] = w[0] * p[i] + w[1] * self.down[i - 1](p[i - 1]) + w[2] * F.max_pool2d(l[i - 1], 3, 2, 1)
            return tuple(F.silu(self.gn(x)) for x in p), F.max_pool2d(p[2], 1, 2)

    h2 = (hw + 1) // 2
    h3 = (h2 + 1) // 2
    return Neck(), [R(b, cs[0], hw, hw), R(b, cs[1], h2, h2), R(b, cs[2], h3, h3)]


class FilmUNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.d1, self.d2, self.mid = (
            nn.Conv2d(3, c, 3, padding=1),
            nn.Conv2d(c, 2 * c, 3, 2, 1),
            nn.Conv2d(2 * c, 2 * c, 3, padding=1),
        )
        self.up, self.o = (
            nn.ConvTranspose2d(2 * c, c, 4, 2, 1),
            nn.Conv2d(2 * c, 3, 3, padding=1, padding_mode="reflect"),
        )
        self.f1, self.f2 = nn.Linear(33, 2 * c), nn.Linear(33, 4 * c)
        self.n1, self.n2 = nn.GroupNorm(c, c), nn.InstanceNorm2d(2 * c)

    def forward(self, x, t):
        fr = torch.exp(torch.arange(16, device=x.device, dtype=x.dtype) * -0.5)
        a = t[:, None].to(x.dtype) * fr
        e = torch.cat([a.sin(), a.cos(), t[:, None].to(x.dtype) / 1000], 1)

        def film(h, l):
            g, b = l(e)[..., None, None].chunk(2, 1)
            return F.mish(h * (1 + g) + b)

        h1 = film(self.n1(self.d1(x)), self.f1)
        h2 = film(self.n2(self.d2(h1)), self.f2)
        u = self.up(self.mid(h2) + h2)
        u = F.interpolate(u, size=h1.shape[2:], mode="bilinear", align_corners=False)
        return self.o(torch.cat([u, h1], 1))


@case(train=True)
def film_unet(s):
    return FilmUNet(s(8, 33)), [R(s(2, 5), 3, s(13, 75), s(17, 101)), I(1000, s(2, 5))]


@case(train=True)
def unet_resblock_time(s):
    """A UNet's residual and attention blocks with a time embedding."""
    b, c, o, hw = s(1, 9), s(8, 72), s(16, 136), s(7, 33)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.c1, self.t = nn.GroupNorm(4, c), nn.Conv2d(c, o, 3, padding=1), nn.Linear(24, 2 * o)
            self.n2, self.c2, self.sk = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1), nn.Conv2d(c, o, 1)
            self.na, self.qkv, self.po = nn.GroupNorm(8, o), nn.Conv1d(o, 3 * o, 1), nn.Conv1d(o, o, 1)
            self.dn, self.up = nn.Conv2d(o, o, 3, 2), nn.Conv2d(o, c, 3, padding=1)

        def forward(self, x, t):
            h = self.c1(F.silu(self.n1(x)))
            sc, sh = self.t(F.silu(t))[..., None, None].chunk(2, 1)
            h = self.sk(x) + self.c2(F.silu(self.n2(h) * (1 + sc) + sh))
            q, k, v = self.qkv(self.na(h).flatten(2)).chunk(3, 1)
            w = torch.softmax(torch.einsum("bct,bcs->bts", q, k) * o**-0.5, -1)
            h = h + self.po(torch.einsum("bts,bcs->bct", w, v)).view_as(h)
            d = self.dn(F.pad(h, (0, 1, 0, 1)))
            return x + self.up(F.interpolate(d, size=(hw, hw), mode="nearest"))

    return Model(), [R(b, c, hw, hw), R(b, 24)]


@case(f32=True)
def ddim_cfg_step(s):
    """A DDIM step with classifier-free guidance, rescaled and thresholded, served."""
    b, c, hw = s(2, 9), 4, s(9, 225)

    def f(m, x, t, tp, cond):
        xx = torch.cat([x, x])
        e = m.b(F.silu(m.a(xx) + m.t(torch.cat([cond, torch.zeros_like(cond)]))[..., None, None]))
        ec, eu = e.chunk(2)
        g = eu + 7.5 * (ec - eu)
        dims = (1, 2, 3)
        r = g * (ec.std(dims, keepdim=True) / g.std(dims, keepdim=True))
        g = 0.7 * r + 0.3 * g
        acp = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device=x.device, dtype=x.dtype), 0)
        a, ap = acp[t][:, None, None, None], torch.where(tp >= 0, acp[tp.clamp(min=0)], 1.0)[:, None, None, None]
        x0 = (x - (1 - a).sqrt() * g) / a.sqrt()
        q = torch.quantile(x0.flatten(1).abs(), 0.995, dim=1).clamp(min=1.0)[:, None, None, None]
        x0 = x0.clamp(-q, q) / q
        g = (x - a.sqrt() * x0) / (1 - a).sqrt()
        var = (1 - ap) / (1 - a) * (1 - a / ap)
        return ap.sqrt() * x0 + (1 - ap - 0.25 * var).clamp(min=0).sqrt() * g, x0

    k = s(6, 72)
    t = I(900, b) + 50
    tp = t - 20
    tp[0] = -1
    return Fn(f, a=nn.Conv2d(c, k, 3, padding=1), t=nn.Linear(24, k), b=nn.Conv2d(k, c, 3, padding=1)), [
        R(b, c, hw, hw),
        t,
        tp,
        R(b, 24),
    ]
