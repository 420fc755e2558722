"""Special functions, counts, searches and 8-bit floats of torch: results beside eager mode's."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

from torch_helpers import array, assert_same, check, compiled, lowered  # noqa: E402

from strata import torch_backend  # noqa: E402

EDGES = torch.tensor([0.0, -0.0, -1.0, -2.5, 0.3, -0.3, 3.0, 9.99, 10.0, 1e3, math.inf, -math.inf, math.nan, -30.2])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(17)


def test_special_functions():
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        check(torch.erfinv, torch.cat([array(40, low=-0.999, high=0.999, dtype=torch.float64),
                                       torch.tensor([1, -1, 1.5, math.nan, 0, 1e-30, 0.7, -0.7])]).to(dtype))
    # A pole has any large number; of float32, eager mode's sine far from 0 is less exact than ours.
    check(lambda x: torch.polygamma(1, x), EDGES[EDGES != -1].double())
    check(lambda x: torch.polygamma(1, x), EDGES[(EDGES != -1) & (EDGES > -9)])
    for x in (EDGES.double(), array(40, low=-12, high=12, dtype=torch.float64)):
        assert_same(lowered(torch.digamma, x), torch.digamma(x), 1024)
    check(torch.special.erfcx, torch.cat([EDGES[:6], array(40, low=-3, high=12)]))
    check(torch.special.erfcx, EDGES.double(), fallbacks=["aten.special_erfcx.default"])


def test_gradient_of_digamma():
    x = array(9, low=0.2, high=5).requires_grad_()
    torch_backend.FALLBACKS.clear()
    (found,) = torch.autograd.grad(compiled(torch.digamma)(x).sum(), x)
    assert_same(found, torch.autograd.grad(torch.digamma(x).sum(), x)[0])
    assert not torch_backend.FALLBACKS


def test_histograms():
    for x in (array(101), torch.randint(0, 8, (55,)).float(), torch.tensor([math.nan, 0.5, 3.0, -3.0]), torch.ones(3)):
        for bins, low, high in ((7, -3, 3), (8, 0, 7), (5, 1, 2)):
            check(lambda x: torch.histc(x, bins, low, high), x)
    check(lambda x: torch.histc(x, 9), array(33))
    check(lambda x: torch.histc(x, 4), torch.ones(5))


def test_places_of_elements():
    for x in (array(5, 7) > 0, torch.zeros(3), torch.ones(2, 2, 3)):
        for size in (1, 9, 40):
            check(lambda x: torch.nonzero_static(x, size=size, fill_value=-7), x)


@pytest.mark.parametrize("right", [False, True])
def test_searches(right):
    edges = torch.linspace(-2, 2, 9)
    x = torch.cat([array(20), torch.tensor([math.nan, math.inf, -math.inf, -2.0, 2.0, 0.5])])
    check(lambda x, e: torch.bucketize(x, e, right=right), x, edges)
    check(lambda x, e: torch.searchsorted(e, x, right=right, out_int32=True), x, edges)
    rows = array(3, 13)
    check(lambda r, x: torch.searchsorted(r, x, right=right, sorter=r.argsort(-1)), rows, array(3, 5))


FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", FLOAT8)
def test_conversions_of_8_bit_floats(dtype):
    exact = torch.tensor([math.nan, math.inf, -math.inf, 448, 464, 465, 480, 57344, 61440, 61441, 1e5, -0.0, 1e-8, 240,
                          247.9, 248, 248.1])
    x = torch.cat([exact, torch.exp2(array(99, low=-20, high=17)), -torch.exp2(array(99, low=-20, high=17))])
    check(lambda x: x.to(dtype).float(), x)
    check(lambda x: x.to(dtype).double(), x.double())
    check(lambda x: x.to(dtype).to(torch.float16), x.half())
    check(lambda x: x.to(dtype).view(torch.uint8), array(33))
    check(lambda x: (x.to(dtype).bool(), (x * 3).int().to(dtype).int()), array(5, 7))
    # As arguments and results, and moved
    small = array(5, 8).to(dtype)
    moved = lowered(lambda x: torch.cat([x[1:, ::2].t(), x[:4, :4]], 1), small)
    assert torch.equal(moved.view(torch.uint8), torch.cat([small[1:, ::2].t(), small[:4, :4]], 1).view(torch.uint8))


def test_scaled_products_are_torchs():
    def product(x, w):
        x_scale, w_scale = x.abs().max() / 448, w.abs().max() / 448
        x, w = (x / x_scale).to(torch.float8_e4m3fn), (w / w_scale).to(torch.float8_e4m3fn)
        return torch._scaled_mm(x, w.t(), x_scale, w_scale, out_dtype=torch.bfloat16)

    check(product, array(16, 32), array(48, 32), fallbacks=["aten._scaled_mm.default"])
