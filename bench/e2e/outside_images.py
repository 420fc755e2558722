"""Images and scenes: detection, segmentation, flow, rendering, resampling.

Models of odd_models.py (--families outside) by authors who had not read the compiler; outside_cases.py says how a
model is given.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from outside_cases import Fn, I, R, case


@case(train=True)
def swin_shift_and_grid(s):
    """Swin's shifted windows with padding, then MaxViT's grid attention."""
    b, c, hw, w, h = s(2, 3), s(12, 96), s(9, 57), s(4, 7), 3
    hp = -(-hw // w) * w
    sh = w // 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2, self.n3 = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
            self.qkv, self.o, self.qkv2, self.o2 = (
                nn.Linear(c, 3 * c),
                nn.Linear(c, c),
                nn.Linear(c, 3 * c),
                nn.Linear(c, c),
            )
            self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))
            self.table = nn.Parameter(R((2 * w - 1) ** 2, h, scale=0.5))
            g = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
            rel = (g[:, :, None] - g[:, None]).permute(1, 2, 0) + w - 1
            self.register_buffer("index", rel[..., 0] * (2 * w - 1) + rel[..., 1])

        def attend(self, x, qkv, o, mask=None):
            n, l, _ = x.shape
            q, k, v = qkv(x).view(n, l, 3, h, c // h).permute(2, 0, 3, 1, 4)
            bias = self.table[self.index.flatten()].view(l, l, h).permute(2, 0, 1)
            a = (q * (c // h) ** -0.5) @ k.transpose(-2, -1) + bias
            if mask is not None:
                a = (a.view(b, n // b, h, l, l) + mask[None, :, None]).view(n, h, l, l)
            return o((a.softmax(-1) @ v).transpose(1, 2).reshape(n, l, c))

        def forward(self, x):
            img = torch.zeros(hp, hp, device=x.device, dtype=x.dtype)
            k = 0
            for i in (slice(0, -w), slice(-w, -sh), slice(-sh, None)):
                for j in (slice(0, -w), slice(-w, -sh), slice(-sh, None)):
                    img[i, j] = k
                    k += 1
            m = img.view(hp // w, w, hp // w, w).transpose(1, 2).reshape(-1, w * w)
            m = torch.where(m[:, None] != m[:, :, None], -100.0, 0.0).to(x.dtype)
            y = F.pad(self.n1(x), (0, 0, 0, hp - hw, 0, hp - hw))
            y = torch.roll(y, (-sh, -sh), (1, 2))
            y = y.view(b, hp // w, w, hp // w, w, c).transpose(2, 3).reshape(-1, w * w, c)
            y = self.attend(y, self.qkv, self.o, m)
            y = y.view(b, hp // w, hp // w, w, w, c).transpose(2, 3).reshape(b, hp, hp, c)
            x = x + torch.roll(y, (sh, sh), (1, 2))[:, :hw, :hw]
            x = x + self.mlp(self.n2(x))
            y = F.pad(self.n3(x), (0, 0, 0, hp - hw, 0, hp - hw))
            y = y.view(b, w, hp // w, w, hp // w, c).permute(0, 2, 4, 1, 3, 5).reshape(-1, w * w, c)
            y = self.attend(y, self.qkv2, self.o2)
            y = y.view(b, hp // w, hp // w, w, w, c).permute(0, 3, 1, 4, 2, 5).reshape(b, hp, hp, c)
            return x + y[:, :hw, :hw]

    return Model(), [R(b, hw, hw, c)]


@case(train=True, f32=True)
def roi_align_by_hand(s):
    h, w, k = s(17, 61), s(13, 83), s(7, 129)

    def f(m, x, rois):
        x = m.c(x)
        b, (x1, y1, x2, y2) = rois[:, 0].long(), rois[:, 1:].unbind(1)
        g = (torch.arange(7, device=x.device, dtype=rois.dtype) + 0.5) / 7
        xx, yy = x1[:, None] + g * (x2 - x1)[:, None], y1[:, None] + g * (y2 - y1)[:, None]
        x0, y0 = xx.floor().clamp(0, w - 2), yy.floor().clamp(0, h - 2)
        fx, fy = (xx - x0)[:, None, None, :], (yy - y0)[:, None, :, None]
        x0, y0 = x0.long()[:, None, :], y0.long()[:, :, None]
        take = lambda i, j: x[b[:, None, None], :, i, j].permute(0, 3, 1, 2)
        return (
            take(y0, x0) * (1 - fx) * (1 - fy)
            + take(y0, x0 + 1) * fx * (1 - fy)
            + take(y0 + 1, x0) * (1 - fx) * fy
            + take(y0 + 1, x0 + 1) * fx * fy
        ).amax((2, 3))

    p = torch.rand(k, 2) * torch.tensor([w / 2, h / 2])
    rois = torch.cat([I(2, k, 1).float(), p, p + 1 + torch.rand(k, 2) * torch.tensor([w / 2 - 2, h / 2 - 2])], 1)
    return Fn(f, c=nn.Conv2d(5, s(9, 67), 1)), [R(2, 5, h, w), rois]


@case(train=True)
def detr_decoder_giou(s):
    """DETR's decoder and box losses."""
    b, q, l, d = s(2, 5), s(9, 77), s(21, 900), s(24, 264)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.sa, self.ca = (
                nn.MultiheadAttention(d, 4, batch_first=True),
                nn.MultiheadAttention(d, 4, batch_first=True),
            )
            self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
            self.f1, self.f2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

        def forward(self, x, mem, qp, mp, pad):
            z = x + qp
            x = self.n1(x + self.sa(z, z, x, need_weights=False)[0])
            x = self.n2(x + self.ca(x + qp, mem + mp, mem, key_padding_mask=pad, need_weights=False)[0])
            return self.n3(x + self.f2(F.relu(self.f1(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(2))
            self.qp, self.content = nn.Parameter(R(1, q, d)), nn.Parameter(R(1, q, d))
            self.box = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))
            self.cls = nn.Linear(d, 13)

        def forward(self, mem, mp, pad, tb, tc):
            x = self.content.expand(b, -1, -1)
            for l in self.layers:
                x = l(x, mem, self.qp, mp, pad)
            xy = lambda z: torch.cat([z[..., :2] - z[..., 2:] / 2, z[..., :2] + z[..., 2:] / 2], -1)
            bx = self.box(x).sigmoid()
            p, t = xy(bx), xy(tb)
            lt, rb = torch.maximum(p[..., :2], t[..., :2]), torch.minimum(p[..., 2:], t[..., 2:])
            inter = (rb - lt).clamp(min=0).prod(-1)
            ar = lambda z: (z[..., 2] - z[..., 0]) * (z[..., 3] - z[..., 1])
            un = ar(p) + ar(t) - inter
            hull = (torch.maximum(p[..., 2:], t[..., 2:]) - torch.minimum(p[..., :2], t[..., :2])).prod(-1)
            giou = inter / un - (hull - un) / hull
            return (1 - giou).mean(), F.l1_loss(bx, tb), F.cross_entropy(self.cls(x).transpose(1, 2), tc)

    pad = torch.zeros(b, l, dtype=torch.bool)
    pad[1:, -7:] = True
    return Model(), [R(b, l, d), R(b, l, d), pad, torch.rand(b, q, 4) * 0.5 + 0.25, I(13, b, q)]


@case()
def sam_mask_decoder(s):
    """A mask decoder like SAM's, served."""
    b, d, hw, k = s(1, 3), s(16, 264), s(7, 57), 4

    class LN2(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.w, self.b = nn.Parameter(1 + R(c, scale=0.1)), nn.Parameter(R(c, scale=0.1))

        def forward(self, x):
            u = x.mean(1, keepdim=True)
            v = (x - u).pow(2).mean(1, keepdim=True)
            return self.w[:, None, None] * ((x - u) / torch.sqrt(v + 1e-6)) + self.b[:, None, None]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok = nn.Parameter(R(k + 1, d))
            mk = lambda: nn.MultiheadAttention(d, 4, batch_first=True)
            self.sa, self.t2i, self.i2t = mk(), mk(), mk()
            self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(4))
            self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
            self.up = nn.Sequential(
                nn.ConvTranspose2d(d, d // 4, 2, 2),
                LN2(d // 4),
                nn.GELU(),
                nn.ConvTranspose2d(d // 4, d // 8, 2, 2),
                nn.GELU(),
            )
            self.hyp = nn.ModuleList(nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d // 8)) for _ in range(k))
            self.iou = nn.Linear(d, k)
            self.register_buffer("gauss", R(2, d // 2))

        def forward(self, img, pts):
            c = 2 * torch.pi * ((2 * pts - 1) @ self.gauss)
            sparse = torch.cat([c.sin(), c.cos()], -1)
            g = (torch.arange(hw, device=img.device, dtype=img.dtype) + 0.5) / hw
            yy, xx = torch.meshgrid(g, g, indexing="ij")
            c = 2 * torch.pi * ((2 * torch.stack([xx, yy], -1) - 1) @ self.gauss)
            pe = torch.cat([c.sin(), c.cos()], -1).view(1, hw * hw, d)
            q0 = q = torch.cat([self.tok.expand(b, -1, -1), sparse], 1)
            kx = img.flatten(2).transpose(1, 2)
            q = self.n[0](q + self.sa(q + q0, q + q0, q, need_weights=False)[0])
            q = self.n[1](q + self.t2i(q + q0, kx + pe, kx, need_weights=False)[0])
            q = self.n[2](q + self.mlp(q))
            kx = self.n[3](kx + self.i2t(kx + pe, q + q0, q, need_weights=False)[0])
            up = self.up(kx.transpose(1, 2).view(b, d, hw, hw))
            hyp = torch.stack([f(q[:, i + 1]) for i, f in enumerate(self.hyp)], 1)
            masks = torch.einsum("bkc,bchw->bkhw", hyp, up)
            low = F.interpolate(masks, scale_factor=2, mode="bilinear", align_corners=False)
            hi, lo = (
                torch.sigmoid((masks - 1) * 5).flatten(-2).sum(-1),
                torch.sigmoid((masks + 1) * 5).flatten(-2).sum(-1),
            )
            return low, self.iou(q[:, 0]), hi / lo

    return Model(), [R(b, d, hw, hw), torch.rand(b, s(3, 9), 2)]


@case(train=True)
def raft_correlation(s):
    """RAFT's all-pairs correlation, pyramid and lookup."""
    b, d, h, w, r = s(1, 2), s(8, 136), s(9, 33), s(11, 57), s(2, 4)

    def f(m, f1, f2, flow):
        n = b * h * w
        corr = torch.einsum("bchw,bcuv->bhwuv", m.c(f1), m.c(f2)).view(n, 1, h, w) / math.sqrt(d)
        y, x = torch.meshgrid(
            torch.arange(h, device=f1.device, dtype=f1.dtype),
            torch.arange(w, device=f1.device, dtype=f1.dtype),
            indexing="ij",
        )
        at = (torch.stack([x, y]) + flow).permute(0, 2, 3, 1).reshape(n, 1, 1, 2)
        k = torch.arange(-r, r + 1, device=f1.device, dtype=f1.dtype)
        delta = torch.stack(torch.meshgrid(k, k, indexing="ij"), -1)
        out = []
        for i in range(3):
            p = at / 2**i + delta
            size = torch.tensor([corr.shape[-1] - 1, corr.shape[-2] - 1], device=f1.device, dtype=f1.dtype)
            out.append(F.grid_sample(corr, 2 * p / size - 1, align_corners=True).view(b, h, w, -1))
            corr = F.avg_pool2d(corr, 2, 2)
        z = torch.cat(out, -1).permute(0, 3, 1, 2)
        return F.relu(m.o(z))

    return Fn(f, c=nn.Conv2d(d, d, 1), o=nn.Conv2d(3 * (2 * r + 1) ** 2, s(4, 96), 1)), [
        R(b, d, h, w),
        R(b, d, h, w),
        R(b, 2, h, w, scale=2.3),
    ]


@case(train=True)
def nerf_volume_render(s):
    rays, samples, h = s(13, 777), s(33, 65), s(33, 129)

    def f(m, o, d, z):
        p = o[:, None] + d[:, None] * z[..., None]
        fr = 2.0 ** torch.arange(6, device=p.device, dtype=p.dtype)
        a = (p[..., None] * fr).flatten(-2)
        x = torch.cat([p, a.sin(), a.cos()], -1)
        y = F.relu(m.l1(x))
        y = F.relu(m.l2(y))
        y = F.relu(m.l3(torch.cat([y, x], -1)))
        r = m.out(y)
        sigma, rgb = F.relu(r[..., 3]), torch.sigmoid(r[..., :3])
        dist = torch.cat([z[:, 1:] - z[:, :-1], torch.full_like(z[:, :1], 1e3)], 1) * d.norm(dim=-1, keepdim=True)
        al = 1 - torch.exp(-sigma * dist)
        tr = torch.cumprod(torch.cat([torch.ones_like(al[:, :1]), 1 - al + 1e-10], 1), 1)[:, :-1]
        w = al * tr
        return (w[..., None] * rgb).sum(1), (w * z).sum(1), w.sum(1)

    i = 3 + 36
    return Fn(f, l1=nn.Linear(i, h), l2=nn.Linear(h, h), l3=nn.Linear(h + i, h), out=nn.Linear(h, 4)), [
        R(rays, 3),
        R(rays, 3),
        torch.rand(rays, samples).sort(1).values * 4 + 1,
    ]


@case(train=True, f32=True)
def hash_grid_encoding(s):
    t = 2 ** s(10, 16)

    def f(m, x):
        out = []
        for l in range(5):
            r = int(16 * 1.5**l)
            p = x * r
            i = p.floor().long()
            w = p - i
            feat = 0
            for c in range(8):
                o = torch.tensor([c & 1, c >> 1 & 1, c >> 2], device=x.device)
                q = i + o
                h = (q[:, 0] ^ (q[:, 1] * 2654435761) ^ (q[:, 2] * 805459861)) % t
                wt = torch.where(o.bool(), w, 1 - w).prod(1, keepdim=True)
                feat = feat + wt * m.tab[l][h]
            out.append(feat)
        return m.o(F.relu(torch.cat(out, 1)))

    return Fn(f, tab=R(5, t, 2, scale=0.1), o=nn.Linear(10, 3)), [torch.rand(s(100, 5003), 3)]


@case(train=True, f32=True)
def gaussian_splatting(s):
    """Blending of projected Gaussians, front to back."""
    n, px = s(13, 301), s(9, 112)

    def f(m, mean, depth):
        o = depth.argsort()
        mu, ls, th, al, col = mean[o], m.ls[o], m.th[o], torch.sigmoid(m.al[o]), torch.sigmoid(m.col[o])
        c, sn = th.cos(), th.sin()
        rot = torch.stack([torch.stack([c, -sn], -1), torch.stack([sn, c], -1)], -2)
        cov = rot @ torch.diag_embed(torch.exp(2 * ls)) @ rot.mT + 1e-3 * torch.eye(
            2, device=mean.device, dtype=mean.dtype
        )
        det = cov[:, 0, 0] * cov[:, 1, 1] - cov[:, 0, 1] * cov[:, 1, 0]
        inv = (
            torch.stack([cov[:, 1, 1], -cov[:, 0, 1], -cov[:, 1, 0], cov[:, 0, 0]], -1).view(-1, 2, 2)
            / det[:, None, None]
        )
        g = torch.linspace(-1, 1, px, device=mean.device, dtype=mean.dtype)
        p = torch.stack(torch.meshgrid(g, g, indexing="xy"), -1).view(-1, 1, 2)
        dx = p - mu
        q = torch.einsum("pni,nij,pnj->pn", dx, inv, dx)
        a = (al * torch.exp(-0.5 * q)).clamp(max=0.99)
        a = torch.where(a < 1 / 255, 0.0, a)
        tr = torch.cumprod(1 - a, 1)
        w = a * torch.cat([torch.ones_like(tr[:, :1]), tr[:, :-1]], 1)
        img = w @ col + tr[:, -1:] * m.bg
        return img.view(px, px, 3), (w * depth[o]).sum(1)

    return Fn(f, ls=R(n, 2, scale=0.3) - 1.5, th=R(n), al=R(n), col=R(n, 3), bg=torch.rand(3)), [
        R(n, 2, scale=0.6),
        torch.rand(n) + 0.5,
    ]


@case(f32=True, train=True)
def siren_eikonal(s):
    h = s(33, 257)

    def f(m, x):
        g = lambda p: m.l3(torch.sin(10 * m.l2(torch.sin(30 * m.l1(p))))).squeeze(-1)
        y = torch.func.vmap(g)(x)
        grad = torch.func.vmap(torch.func.grad(g))(x)
        return ((grad.norm(dim=-1) - 1) ** 2).mean() + y.abs().mean()

    u = lambda i, o: (lambda l: (nn.init.uniform_(l.weight, -((6 / i) ** 0.5) / 30, (6 / i) ** 0.5 / 30), l)[1])(
        nn.Linear(i, o)
    )
    return Fn(f, l1=u(3, h), l2=u(h, h), l3=nn.Linear(h, 1)), [R(s(33, 1001), 3, scale=0.3)]


@case(train=True)
def dit_adaln(s):
    """DiT block with adaLN-zero, patches in and out."""
    b, hw, p, d, h = s(2, 9), s(8, 34), 2, s(16, 384), 4
    n = (hw // p) ** 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.pe, self.pos = nn.Conv2d(4, d, p, p), nn.Parameter(R(1, n, d, scale=0.02))
            self.t1, self.t2, self.y = nn.Linear(s(8, 256), d), nn.Linear(d, d), nn.Embedding(11, d)
            self.n1, self.n2, self.nf = (nn.LayerNorm(d, 1e-6, elementwise_affine=False) for _ in range(3))
            self.ada, self.adaf = nn.Linear(d, 6 * d), nn.Linear(d, 2 * d)
            self.qkv, self.o, self.f1, self.f2, self.out = (
                nn.Linear(d, 3 * d),
                nn.Linear(d, d),
                nn.Linear(d, 4 * d),
                nn.Linear(4 * d, d),
                nn.Linear(d, p * p * 8),
            )

        def forward(self, x, t, y, noise):
            k = s(8, 256) // 2
            f = torch.exp(-math.log(10000) * torch.arange(k, device=x.device, dtype=torch.float32) / k)
            a = t.float()[:, None] * f
            c = F.silu(self.t2(F.silu(self.t1(torch.cat([a.cos(), a.sin()], -1).to(x.dtype)))) + self.y(y))
            z = self.pe(x).flatten(2).transpose(1, 2) + self.pos
            s1, c1, g1, s2, c2, g2 = self.ada(c)[:, None].chunk(6, -1)
            q, kk, v = self.qkv(self.n1(z) * (1 + c1) + s1).view(b, n, 3, h, d // h).permute(2, 0, 3, 1, 4).unbind(0)
            z = z + g1 * self.o(F.scaled_dot_product_attention(q, kk, v).transpose(1, 2).reshape(b, n, d))
            z = z + g2 * self.f2(F.gelu(self.f1(self.n2(z) * (1 + c2) + s2), approximate="tanh"))
            s3, c3 = self.adaf(c)[:, None].chunk(2, -1)
            z = self.out(self.nf(z) * (1 + c3) + s3)
            z = torch.einsum("nhwpqc->nchpwq", z.view(b, hw // p, hw // p, p, p, 8)).reshape(b, 8, hw, hw)
            eps, var = z.chunk(2, 1)
            return F.mse_loss(eps, noise), 1e-3 * var.square().mean(), eps

    return Model(), [R(b, 4, hw, hw), I(1000, b), I(11, b), R(b, 4, hw, hw)]


@case(train=True, f32=True, tol=4)
def ssim_tv_loss(s):
    def f(m, x, y):
        x = torch.sigmoid(m.c(x))
        g = torch.exp(-((torch.arange(11, device=x.device, dtype=x.dtype) - 5) ** 2) / 4.5)
        g = g / g.sum()
        k = (g[:, None] * g)[None, None].expand(3, 1, 11, 11)
        bl = lambda z: F.conv2d(z, k, groups=3)
        mx, my = bl(x), bl(y)
        sx, sy, sxy = bl(x * x) - mx**2, bl(y * y) - my**2, bl(x * y) - mx * my
        ss = (2 * mx * my + 1e-4) * (2 * sxy + 9e-4) / ((mx**2 + my**2 + 1e-4) * (sx + sy + 9e-4))
        tv = x.diff(dim=2).abs().mean() + x.diff(dim=3).abs().mean()
        return 1 - ss.mean() + 0.1 * tv + F.huber_loss(F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(y, 3, 2, 1), delta=0.1)

    h, w = s(23, 131), s(17, 257)
    return Fn(f, c=nn.Conv2d(3, 3, 3, padding=1)), [R(2, 3, h, w), torch.rand(2, 3, h, w)]


@case(train=True, f32=True)
def segmentation_losses(s):
    """Losses of segmentation: focal, Dice with BCE, Lovász, Tversky, boundary."""
    b, hw, c = s(2, 9), s(9, 225), s(3, 5)

    def f(m, x, y):
        lg = m.c(x)
        one = F.one_hot(y, c).permute(0, 3, 1, 2).to(x.dtype)
        bce = F.binary_cross_entropy_with_logits(lg, one, reduction="none")
        pt = torch.exp(-bce)
        focal = ((0.25 * one + 0.75 * (1 - one)) * (1 - pt) ** 2 * bce).mean()
        p = lg.softmax(1)
        inter, tot = (p * one).sum((0, 2, 3)), (p + one).sum((0, 2, 3))
        dice = 1 - ((2 * inter + 1) / (tot + 1)).mean()
        fp, fn = (p * (1 - one)).sum((0, 2, 3)), ((1 - p) * one).sum((0, 2, 3))
        tv = (1 - (inter + 1) / (inter + 0.3 * fp + 0.7 * fn + 1)).pow(0.75).mean()
        pr, fg = p.transpose(0, 1).flatten(1), one.transpose(0, 1).flatten(1)
        err, i = (fg - pr).abs().sort(1, descending=True)
        gs = fg.gather(1, i)
        tt = gs.sum(1, keepdim=True)
        jac = 1 - (tt - gs.cumsum(1)) / (tt + (1 - gs).cumsum(1))
        jac = torch.cat([jac[:, :1], jac[:, 1:] - jac[:, :-1]], 1)
        lov = (err * jac.detach()).sum(1).mean()
        edge = F.max_pool2d(one, 3, 1, 1) - one
        poly = F.cross_entropy(lg, y, weight=m.cw.detach().abs() + 0.5, label_smoothing=0.1)
        return focal, dice, tv, lov, (edge * bce).mean(), poly

    return Fn(f, c=nn.Conv2d(s(4, 24), c, 3, padding=1), cw=R(c)), [R(b, s(4, 24), hw, hw), I(c, b, hw, hw)]


@case(train=True, f32=True)
def resize_warp_shuffle(s):
    """Resizing: bilinear, bicubic, antialiased, warps, shuffles, folds."""
    b, c, hw = s(1, 3), s(4, 24), s(9, 112)

    def f(m, x, th, flow):
        y = m.c(x)
        o = int(hw * 1.7)
        a = F.interpolate(y, size=(o, o + 3), mode="bicubic", align_corners=False)
        q = F.interpolate(y, size=(hw // 2, hw // 3), mode="bilinear", antialias=True)
        r = F.interpolate(y, scale_factor=1.5, mode="bilinear", align_corners=True)
        ne = F.interpolate(y, size=(o, hw // 2), mode="nearest-exact")
        gr = F.affine_grid(th, y.shape, align_corners=False)
        w1 = F.grid_sample(y, gr, mode="bilinear", padding_mode="reflection", align_corners=False)
        w2 = F.grid_sample(y, gr + 0.1 * torch.tanh(flow), mode="bicubic", padding_mode="border", align_corners=False)
        ps = F.pixel_shuffle(m.up(y), 3)
        un = F.pixel_unshuffle(ps[..., : 2 * (ps.shape[-2] // 2), : 2 * (ps.shape[-1] // 2)], 2)
        cols = F.unfold(y, 3, padding=1, stride=2) * 0.5
        fo = F.fold(cols, (hw, hw), 3, padding=1, stride=2)
        ch = F.channel_shuffle(y, 2)
        rp = F.pad(y, (3, 2, 1, 4), mode="reflect")
        k = torch.softmax(m.k(y), 1)
        cv = (F.unfold(y, 3, padding=1).view(b, c, 9, hw, hw) * k[:, None]).sum(2)
        return a, q, r, ne, w1, w2, un, fo, ch, rp, cv

    return Fn(f, c=nn.Conv2d(c, c, 1), up=nn.Conv2d(c, 9 * 4, 3, padding=1), k=nn.Conv2d(c, 9, 3, padding=1)), [
        R(b, c, hw, hw),
        torch.eye(2, 3).repeat(b, 1, 1) + R(b, 2, 3, scale=0.1),
        R(b, hw, hw, 2),
    ]


@case(train=True, f32=True)
def fno_poisson(s):
    """Fourier neural operator with a branch and trunk, and a Poisson residual."""
    b, c, hw, k = s(2, 9), s(4, 40), s(12, 112), s(3, 12)

    def spec(x, w1, w2):
        z = torch.fft.rfft2(x)
        o = torch.zeros(b, c, hw, hw // 2 + 1, dtype=z.dtype, device=x.device)
        o[:, :, :k, :k] = torch.einsum("bixy,ioxy->boxy", z[:, :, :k, :k], torch.view_as_complex(w1))
        o[:, :, -k:, :k] = torch.einsum("bixy,ioxy->boxy", z[:, :, -k:, :k], torch.view_as_complex(w2))
        return torch.fft.irfft2(o, s=(hw, hw))

    def f(m, src, sensors):
        g = torch.linspace(0, 1, hw, device=src.device, dtype=src.dtype)
        xy = torch.stack(torch.meshgrid(g, g, indexing="ij")).expand(b, -1, -1, -1)
        x = m.lift(torch.cat([src, xy], 1))
        for w1, w2, l in ((m.a1, m.a2, m.l1), (m.b1, m.b2, m.l2)):
            x = F.gelu(spec(x, w1, w2) + l(x))
        u = m.proj(x)
        br = m.branch(sensors)
        trk = torch.tanh(m.trunk(xy[0].flatten(1).t()))
        u = u + torch.einsum("bp,np->bn", br, trk).view(b, 1, hw, hw)
        u = u * (g * (1 - g))[:, None] * (g * (1 - g)) * 16
        lap = u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2] - 4 * u[..., 1:-1, 1:-1]
        bi = F.conv2d(
            F.pad(u, (1, 1, 1, 1), mode="replicate"),
            torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]], device=u.device, dtype=u.dtype)[None, None],
        )
        gx, gy = torch.gradient(u, dim=(2, 3))
        return (lap - src[..., 1:-1, 1:-1]).square().mean(), u, bi.abs().mean(), (gx**2 + gy**2).mean()

    w = lambda: R(c, c, k, k, 2, scale=1 / c)
    return Fn(
        f,
        a1=w(),
        a2=w(),
        b1=w(),
        b2=w(),
        lift=nn.Conv2d(3, c, 1),
        l1=nn.Conv2d(c, c, 1),
        l2=nn.Conv2d(c, c, 1),
        proj=nn.Conv2d(c, 1, 1),
        branch=nn.Sequential(nn.Linear(17, 33), nn.GELU(), nn.Linear(33, 31)),
        trunk=nn.Linear(2, 31),
    ), [R(b, 1, hw, hw), R(b, 17)]
