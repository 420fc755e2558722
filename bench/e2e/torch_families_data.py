"""Models of torch_families.py's table: chains, graphs, points, bags, experts and losses."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from torch_families import model, wide


class ChainField(nn.Module):
    """A conditional random field: scores by a layer, the partition function by steps of logsumexp, lengths differ."""

    def __init__(self, width, tags):
        super().__init__()
        self.emit, self.move = nn.Linear(width, tags), nn.Parameter(torch.randn(tags, tags) * 0.1)
        self.start, self.end = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

    def forward(self, x, tags, lengths):
        scores = self.emit(x)
        batch, steps, _ = x.shape
        mask = torch.arange(steps, device=x.device)[None] < lengths[:, None]
        alpha = self.start + scores[:, 0]
        for t in range(1, steps):
            after = torch.logsumexp(alpha[:, :, None] + self.move, 1) + scores[:, t]
            alpha = torch.where(mask[:, t, None], after, alpha)
        whole = torch.logsumexp(alpha + self.end, -1)
        of_tags = scores.gather(2, tags.unsqueeze(2)).squeeze(2)
        moves = self.move[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, lengths[:, None] - 1).squeeze(1)
        path = self.start[tags[:, 0]] + (of_tags * mask).sum(1) + (moves * mask[:, 1:]).sum(1) + self.end[last]
        return (whole - path).mean()


@model("chain-field-train", torch.float32)
def _(small):
    batch, steps, width, tags = (3, 4, 5, 4) if small else (31, 37, 300, 29)
    return ChainField(width, tags), (torch.randn(batch, steps, width), torch.randint(tags, (batch, steps)),
                                     torch.randint(2, steps + 1, (batch,)))


class GraphAttention(nn.Module):
    """Two layers of graph attention: softmax over the edges of a node by scatter_reduce, sums by scatter_add."""

    def __init__(self, inputs, width, heads, classes):
        super().__init__()
        self.projections = nn.ModuleList([nn.Linear(inputs, heads * width), nn.Linear(heads * width, heads * classes)])
        self.sources, self.targets = (nn.ParameterList([torch.randn(1, heads, n) / n ** 0.5 for n in (width, classes)])
                                      for _ in range(2))
        self.heads = heads

    def forward(self, x, edges, labels):
        source, target = edges
        nodes = x.shape[0]
        for i, projection in enumerate(self.projections):
            h = projection(x).view(nodes, self.heads, -1)
            score = F.leaky_relu((h * self.sources[i]).sum(-1)[source] + (h * self.targets[i]).sum(-1)[target], 0.2)
            index = target[:, None].expand_as(score)
            largest = torch.full((nodes, self.heads), -math.inf, device=x.device, dtype=score.dtype)
            largest = largest.scatter_reduce(0, index, score.detach(), "amax", include_self=False)
            share = (score - largest[target]).exp()
            total = torch.zeros_like(largest).scatter_add(0, index, share)
            share = share / (total[target] + 1e-16)
            given = h[source] * share[..., None]
            x = torch.zeros_like(h).scatter_add_(0, target[:, None, None].expand_as(given), given)
            x = F.elu(x.flatten(1)) if i == 0 else x.mean(1)
        return F.nll_loss(F.log_softmax(x, -1), labels)


@model("graph-attention-train", torch.float32)
def _(small):
    nodes, edges, inputs, width, heads, classes = (7, 20, 5, 3, 2, 3) if small else (5003, 30011, 301, 37, 5, 17)
    return GraphAttention(inputs, width, heads, classes), \
        (torch.randn(nodes, inputs), torch.randint(nodes, (2, edges)), torch.randint(classes, (nodes,)))


class PointSampling(nn.Module):
    """PointNet++'s set abstraction: farthest points one after another, the nearest k of each by cdist, a maximum."""

    def __init__(self, inputs, width, samples, near):
        super().__init__()
        self.samples, self.near = samples, near
        self.layers = nn.Sequential(nn.Conv2d(inputs + 3, width, 1), nn.BatchNorm2d(width), nn.ReLU(),
                                    nn.Conv2d(width, 2 * width, 1), nn.BatchNorm2d(2 * width), nn.ReLU())

    def forward(self, places, features):
        batch, points, _ = places.shape
        rows = torch.arange(batch, device=places.device)
        distance = torch.full((batch, points), 1e10, device=places.device, dtype=places.dtype)
        chosen = torch.zeros(batch, self.samples, dtype=torch.long, device=places.device)
        farthest = torch.zeros(batch, dtype=torch.long, device=places.device)
        for i in range(self.samples):
            chosen[:, i] = farthest
            middle = places[rows, farthest][:, None]
            distance = torch.minimum(distance, ((places - middle) ** 2).sum(-1))
            farthest = distance.max(-1)[1]
        middles = places.gather(1, chosen[..., None].expand(-1, -1, 3))
        _, index = torch.cdist(middles, places).topk(self.near, dim=-1, largest=False)
        rows = rows[:, None, None]
        groups = torch.cat((places[rows, index] - middles[:, :, None], features[rows, index]), -1)
        return middles, self.layers(groups.permute(0, 3, 2, 1)).max(2)[0]


@model("point-sampling", torch.float32)
def _(small):
    batch, points, inputs, width, samples, near = (2, 13, 4, 6, 3, 3) if small else (5, 1021, 61, 67, 43, 29)
    return PointSampling(inputs, width, samples, near), \
        (torch.randn(batch, points, 3), torch.randn(batch, points, inputs))


class FactorisedBags(nn.Module):
    """DeepFM over bags of features: EmbeddingBag with offsets and weights, pairs by squares of sums, a deep part."""

    def __init__(self, features, width, fields, dense):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(features, width, mode="sum") for _ in range(fields))
        self.first = nn.EmbeddingBag(features, 1, mode="mean")
        self.cross = nn.Parameter(torch.randn(2, fields * width) * (fields * width) ** -0.5)
        self.deep = nn.Sequential(nn.Linear(fields * width + dense, 3 * width), nn.Dropout(0.0), nn.ReLU(),
                                  nn.Linear(3 * width, 1))

    def forward(self, indices, offsets, weights, dense, clicked):
        found = torch.stack([bag(index, offset, per_sample_weights=weight)
                             for bag, index, offset, weight in zip(self.bags, indices, offsets, weights)], 1)
        pairs = 0.5 * (found.sum(1).square() - found.square().sum(1)).sum(-1)
        flat = found.flatten(1)
        crossed = flat
        for weight in self.cross:
            crossed = flat * (crossed @ weight)[:, None] + crossed
        deep = self.deep(torch.cat((crossed, dense), 1))
        logit = (self.first(indices[0], offsets[0]) + deep).squeeze(-1) + pairs
        weight = wide(clicked.new_full((), 3.0))
        return F.binary_cross_entropy_with_logits(wide(logit), wide(clicked), pos_weight=weight)


@model("factorised-bags-train", torch.float32)
def _(small):
    features, width, fields, dense, batch, looked = (17, 4, 3, 2, 5, 14) if small else (40009, 31, 11, 13, 1021, 7001)
    offsets = torch.randint(looked, (fields, batch)).sort(-1)[0]
    offsets[:, 0] = 0
    return FactorisedBags(features, width, fields, dense), \
        (torch.randint(features, (fields, looked)), offsets, torch.rand(fields, looked), torch.randn(batch, dense),
         (torch.rand(batch) < 0.3).float())


class SwitchExperts(nn.Module):
    """The Switch transformer's layer: dispatch by products with one-hot places, a loss for balance and one of z."""

    def __init__(self, width, inner, experts, capacity):
        super().__init__()
        self.capacity, self.router = capacity, nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, inner) * width ** -0.5)
        self.down = nn.Parameter(torch.randn(experts, inner, width) * inner ** -0.5)

    def forward(self, x, wanted):
        logits = F.linear(wide(x), wide(self.router.weight))
        shares = logits.softmax(-1)
        share, chosen = shares.max(-1)
        hot = F.one_hot(chosen, shares.shape[-1])
        place = (torch.cumsum(hot, 0) - 1) * hot
        inside = (place < self.capacity) * hot
        slot = F.one_hot(place.sum(-1).clamp(max=self.capacity - 1), self.capacity)
        dispatch = (inside[:, :, None] * slot[:, None]).to(x.dtype)
        given = torch.einsum("tec,td->ecd", dispatch, x)
        made = torch.einsum("ecf,efd->ecd", F.gelu(torch.einsum("ecd,edf->ecf", given, self.up)), self.down)
        y = x + torch.einsum("tec,ecd->td", dispatch * share[:, None, None].to(x.dtype), made)
        balance = shares.shape[-1] * (hot.to(shares.dtype).mean(0) * shares.mean(0)).sum()
        return F.huber_loss(wide(y), wide(wanted)) + 0.01 * balance + 0.001 * logits.logsumexp(-1).square().mean()


@model("switch-experts-train", torch.float32)
def _(small):
    tokens, width, inner, experts, capacity = (9, 6, 8, 3, 3) if small else (1003, 333, 777, 11, 113)
    return SwitchExperts(width, inner, experts, capacity), (torch.randn(tokens, width), torch.randn(tokens, width))


class ExpertsInLoop(nn.Module):
    """A loop over experts that see all tokens, with shares of a noisy top k scattered into zeros; a shared expert."""

    def __init__(self, width, inner, experts):
        super().__init__()
        self.router, self.noise = (nn.Linear(width, experts, bias=False) for _ in range(2))
        self.ups = nn.ModuleList(nn.Linear(width, inner, bias=False) for _ in range(experts + 1))
        self.downs = nn.ModuleList(nn.Linear(inner, width, bias=False) for _ in range(experts + 1))

    def forward(self, x, drawn):
        logits = wide(self.router(x)) + wide(drawn) * F.softplus(wide(self.noise(x)))
        best, chosen = logits.topk(3, dim=-1)
        shares = torch.zeros_like(logits).scatter_(1, chosen, best.sigmoid() / best.sigmoid().sum(-1, keepdim=True))
        loads = (shares > 0).sum(0)
        y = self.downs[-1](F.silu(self.ups[-1](x)))
        for share, up, down in zip(shares.to(x.dtype).unbind(1), self.ups, self.downs):
            y += share[:, None] * down(F.silu(up(x)))
        return y, loads


@model("experts-in-loop", torch.float32)
def _(small):
    tokens, width, inner, experts = (7, 6, 8, 4) if small else (509, 517, 259, 7)
    return ExpertsInLoop(width, inner, experts), (torch.randn(tokens, width), torch.randn(tokens, experts))


class Contrastive(nn.Module):
    """Pictures and words: the losses of CLIP and SigLIP, and triplets of the hardest by cdist."""

    def __init__(self, inputs, others, width):
        super().__init__()
        self.one = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width, bias=False))
        self.two = nn.utils.parametrizations.weight_norm(nn.Linear(others, width))
        self.scale, self.bias = nn.Parameter(torch.tensor(math.log(10.0))), nn.Parameter(torch.tensor(-1.0))

    def forward(self, x, y, groups):
        a, b = F.normalize(wide(self.one(x)), dim=-1), F.normalize(wide(self.two(y)), dim=-1)
        logits = self.scale.exp().clamp(max=100) * a @ b.t()
        labels = torch.arange(len(a), device=x.device)
        pairs = -F.logsigmoid((2 * torch.eye(len(a), device=x.device) - 1) * (logits + self.bias)).sum(1).mean()
        loss = (F.cross_entropy(logits, labels, label_smoothing=0.05) + F.cross_entropy(logits.t(), labels)) / 2
        same = groups[:, None] == groups[None]
        distance = torch.cdist(a, b)
        farthest = distance.masked_fill(~same, 0).amax(1)
        nearest = distance.masked_fill(same, math.inf).amin(1)
        triplet = F.margin_ranking_loss(nearest, farthest, torch.ones_like(nearest), margin=0.3)
        plain = F.triplet_margin_loss(a, b, b.roll(1, 0), margin=0.5, swap=True)
        cosine = F.cosine_embedding_loss(a, b.flip(0), torch.where(groups == groups.flip(0), 1, -1))
        return loss + pairs + triplet + plain + cosine


@model("contrastive-train", torch.float32)
def _(small):
    batch, inputs, others, width = (6, 5, 4, 3) if small else (777, 1023, 515, 251)
    groups = torch.arange(batch) // 3
    return Contrastive(inputs, others, width), (torch.randn(batch, inputs), torch.randn(batch, others), groups)


class DetectionLoss(nn.Module):
    """A head of boxes and classes, a target for each anchor by the best overlap, generalised overlap, KL over bins."""

    def __init__(self, width, classes, bins):
        super().__init__()
        self.classes, self.boxes, self.bins = nn.Linear(width, classes + 1), nn.Linear(width, 4 * bins), bins

    def forward(self, x, anchors, boxes, labels):
        logits = self.classes(x)
        bins = self.boxes(x).view(*x.shape[:-1], 4, self.bins)
        shares = bins.softmax(-1)
        sides = (shares * torch.arange(self.bins, device=x.device, dtype=x.dtype)).sum(-1)
        low, high = (anchors - sides[..., :2]), (anchors + sides[..., 2:])
        inside = ((anchors[:, None] > boxes[:, :, None, :2]) & (anchors[:, None] < boxes[:, :, None, 2:])).all(-1)
        area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
        smallest, which = torch.where(inside, area[..., None], math.inf).min(1)
        counts = smallest.isfinite()
        wanted = torch.take_along_dim(boxes, which[..., None], 1)
        left, right = torch.maximum(low, wanted[..., :2]), torch.minimum(high, wanted[..., 2:])
        both = (right - left).clamp(min=0).prod(-1)
        union = (high - low).prod(-1) + (wanted[..., 2:] - wanted[..., :2]).prod(-1) - both
        around = (torch.maximum(high, wanted[..., 2:]) - torch.minimum(low, wanted[..., :2])).prod(-1)
        overlap = both / (union + 1e-6)
        general = 1 - (overlap - (around - union) / (around + 1e-6))
        labels = torch.where(counts, torch.gather(labels, 1, which), self.classes.out_features - 1)
        number = counts.sum().clamp(min=1)
        target = torch.cat((anchors - wanted[..., :2], wanted[..., 2:] - anchors), -1).clamp(0, self.bins - 1.01)
        below = target.floor().long()
        logs, part = bins.log_softmax(-1), target - below
        near = -(logs.gather(-1, below[..., None]) * (1 - part[..., None])
                 + logs.gather(-1, below[..., None] + 1) * part[..., None]).squeeze(-1)
        flat = F.kl_div(logs.flatten(0, 2), torch.full_like(logs.flatten(0, 2), 1 / self.bins), reduction="batchmean")
        return (F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + 0.01 * flat
                + ((general + near.mean(-1)) * counts).sum() / number)


@model("detection-loss-train", torch.float32)
def _(small):
    batch, anchors, boxes, width, classes, bins = (2, 9, 3, 5, 4, 4) if small else (5, 2003, 17, 258, 81, 17)
    corners = torch.rand(batch, boxes, 2) * bins
    return DetectionLoss(width, classes, bins), \
        (torch.randn(batch, anchors, width), torch.rand(batch, anchors, 2) * 2 * bins,
         torch.cat((corners, corners + 0.5 + torch.rand(batch, boxes, 2) * bins), -1),
         torch.randint(classes, (batch, boxes)))
