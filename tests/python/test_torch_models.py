"""Whole modules through the torch front end, forward and backward, and random programs, beside eager mode."""

import random

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch_helpers import array, assert_same, check, check_training, compiled  # noqa: E402

from strata import debug  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(9)


class Block(nn.Module):
    """A decoder block: embedding, RMSNorm, grouped-query attention with rotary positions, SwiGLU."""

    def __init__(self, width=16, heads=4, kv=2):
        super().__init__()
        self.head = width // heads
        self.embed = nn.Embedding(11, width, padding_idx=0)
        self.q, self.k, self.v = (nn.Linear(width, n * self.head, bias=False) for n in (heads, kv, kv))
        self.o = nn.Linear(width, width, bias=False)
        self.first, self.second = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.gate, self.up, self.down = nn.Linear(width, 24), nn.Linear(width, 24), nn.Linear(24, width)

    def rotated(self, x):
        n, e = x.shape[-2], self.head
        angles = torch.arange(n, device=x.device)[:, None] / 10000 ** (torch.arange(0, e, 2, device=x.device) / e)
        angles = torch.cat([angles, angles], -1)
        turned = torch.cat([-x[..., e // 2:], x[..., :e // 2]], -1)
        return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)

    def forward(self, ids, mask=None):
        x = self.embed(ids)
        n = self.first(x)
        q, k, v = (f(n).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, mask, is_causal=mask is None,
                                           enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        n = self.second(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.depth, self.group = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8)
        self.up, self.head = nn.ConvTranspose2d(8, 4, 2, 2), nn.Linear(4, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        x = F.silu(self.group(self.depth(x))) + x
        return self.head(F.avg_pool2d(self.up(x), 2).mean((2, 3)))


def test_mlp_is_trained():
    def steps(wrap):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
        run, optimizer = wrap(model), torch.optim.AdamW(model.parameters(), 1e-2)
        losses = []
        for _ in range(5):
            loss = F.cross_entropy(run(array(6, 8)), torch.arange(6) % 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    assert_same(steps(compiled), steps(lambda m: m), units=256)


def test_decoder_block():
    ids = torch.tensor([[1, 2, 3, 0, 5], [4, 4, 9, 10, 1]])
    check_training(Block(), ids, units=256)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    model = Block()
    with torch.no_grad():
        assert_same(compiled(model)(ids, mask), model(ids, mask), units=256)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_error_is_at_most_twice_eagers(dtype):
    assert debug.compare(Block().to(dtype), [torch.randint(1, 11, (2, 7))], show=False).agrees
    assert debug.compare(Images().to(dtype), [array(2, 3, 16, 16, dtype=dtype)], show=False).agrees


def test_convolution_net():
    check_training(Images(), array(2, 3, 18, 17), units=1024)
    model = Images().eval()
    with torch.no_grad():
        assert_same(compiled(model)(x := array(2, 3, 16, 16)), model(x), units=256)


@pytest.mark.parametrize("case", ["plain", "causal", "bool", "float", "gqa", "closed rows"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention(case, dtype):
    class Attention(nn.Module):
        def forward(self, q, k, v):
            mask = {"bool": torch.ones(4, 6, dtype=torch.bool).tril(2), "float": torch.arange(24.0).view(4, 6) / 24,
                    "closed rows": torch.arange(4)[:, None].ge(1).expand(4, 6)}.get(case)
            mask = mask.to(dtype) if case == "float" else mask
            return F.scaled_dot_product_attention(q, k, v, mask, is_causal=case == "causal", enable_gqa=case == "gqa")

    q, kv = array(2, 4, 4, 8, dtype=dtype), (2, 2 if case == "gqa" else 4, 6, 8)
    check_training(Attention(), q, array(*kv, dtype=dtype), array(*kv, dtype=dtype),
                   units=256 if dtype == torch.float32 else 8)


def test_recurrent_and_embedded():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.cell = nn.Parameter(torch.randn(7, 6)), nn.GRUCell(6, 5)

        def forward(self, ids):
            h = self.table.new_zeros(ids.shape[0], 5)
            for t in range(ids.shape[1]):
                h = self.cell(self.table[ids[:, t]], h)
            return h

    check_training(Words(), torch.randint(0, 7, (3, 4)), units=256)


def test_encoder_layer_of_torch():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    check_training(layer, array(2, 5, 8), units=512)
    lstm = nn.LSTM(4, 5, batch_first=True)
    x = array(2, 3, 4)
    with torch.no_grad():
        assert_same(compiled(lstm)(x)[0], lstm(x)[0])


# Random programs: a chain of operators on random shapes and types. The seed names the program.

_STEPS = [
    lambda r, x: x + 1.5, lambda r, x: x * x, lambda r, x: torch.tanh(x), lambda r, x: x.sin() - x,
    lambda r, x: F.gelu(x), lambda r, x: x.clamp(-1, 2), lambda r, x: torch.where(x > 0, x, -x / 2),
    lambda r, x: x.flip(r.randrange(x.dim())), lambda r, x: x.transpose(0, -1),
    lambda r, x: x.unsqueeze(r.randrange(3)),
    lambda r, x: x.reshape(-1, x.shape[-1]), lambda r, x: torch.cat([x, x * 2], r.randrange(x.dim())),
    lambda r, x: x.softmax(r.randrange(x.dim())), lambda r, x: x - x.mean(r.randrange(x.dim()), keepdim=True),
    lambda r, x: x.amax(r.randrange(x.dim()), keepdim=True) + x, lambda r, x: x.cumsum(r.randrange(x.dim())) / 4,
    lambda r, x: F.layer_norm(x, x.shape[-1:]), lambda r, x: F.pad(x, (1, 0)),
    lambda r, x: x[..., :-1] if x.shape[-1] > 1 else x,
    lambda r, x: torch.tanh(x @ torch.linspace(-1, 1, x.shape[-1] * 3, dtype=x.dtype).view(x.shape[-1], 3)),
    lambda r, x: x.index_select(0, torch.arange(x.shape[0]).flip(0)), lambda r, x: x.roll(1, 0),
    lambda r, x: x.tril() + x,
    lambda r, x: x.sum(r.randrange(x.dim()), keepdim=True) * 0.1 + x, lambda r, x: x.sort(dim=-1, stable=True)[0],
]


@pytest.mark.parametrize("seed", range(24))
def test_random_program(seed):
    dtype = (torch.float32, torch.float64)[seed % 2]

    def program(x):
        r = random.Random(seed)
        for _ in range(8):
            x = r.choice(_STEPS)(r, x if x.dim() < 5 else x.flatten(1))
        return x

    shape = [random.Random(seed).randint(2, 5) for _ in range(2 + seed % 2)]
    check(program, array(*shape, dtype=dtype), units=4096, strides=False)
