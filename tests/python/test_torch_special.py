"""Special functions, counts, searches and 8-bit floats of torch: results beside eager mode's."""

import math

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed: the torch front end is not tested")

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")
special = pytest.importorskip("scipy.special", reason="scipy is not installed: special functions are not tested")

from rounds import in_rounds  # noqa: E402
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


#: Over all that a series covers, and both sides of where one begins.
ALONG = torch.cat([EDGES, array(200, low=-40, high=40), array(50, low=-1, high=1),
                   torch.tensor([2.0, 2.0001, -2.0, 8.0, 8.001, -8.0, -8.001, 27.0, 90.0, 1e-30, 500.0])])


def same_on_scale(name, found, expected, units=16):
    """Compares each element with a tolerance of its own: that of its size, or of 1 for waves near their zeros."""
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(found.double(), expected, rtol=units * eps, atol=units * eps, equal_nan=True, msg=name)


@pytest.mark.parametrize("dtype", in_rounds(torch.float32, torch.float64, torch.bfloat16))
def test_bessel_functions_and_tails_of_the_normal_distribution(dtype):
    """Beside scipy in float64: of Bessel's functions in float64, torch has 7 digits."""
    names = {"i0": "i0", "i0e": "i0e", "i1": "i1", "i1e": "i1e", "bessel_j0": "j0", "bessel_j1": "j1",
             "bessel_y0": "y0", "bessel_y1": "y1", "modified_bessel_i0": "i0", "modified_bessel_i1": "i1",
             "modified_bessel_k0": "k0", "modified_bessel_k1": "k1", "scaled_modified_bessel_k0": "k0e",
             "scaled_modified_bessel_k1": "k1e", "erfc": "erfc", "erfcx": "erfcx", "log_ndtr": "log_ndtr"}
    x = ALONG[ALONG.isfinite()].to(dtype)
    functions = {name: getattr(torch.special, name) for name in names}
    for name, found in zip(names, lowered(lambda x: [f(x) for f in functions.values()], x), strict=True):
        with numpy.errstate(all="ignore"):
            expected = torch.from_numpy(getattr(special, names[name])(x.double().numpy()))
        expected = torch.where(expected.abs() > torch.finfo(dtype).max, expected.sign() * math.inf, expected)
        if name.startswith("bessel_y"):
            expected = torch.where(x < 0, math.nan, expected)
        same_on_scale(name, found, expected.to(dtype).double())
    p = torch.cat([torch.rand(99, dtype=torch.float64), torch.tensor([0.0, 1, 0.5, 1e-30, 1e-9, -0.1, 1.1, math.nan])])
    same_on_scale("ndtri", lowered(torch.special.ndtri, p.to(dtype)),
                  torch.from_numpy(special.ndtri(p.to(dtype).double().numpy())).to(dtype).double())


def test_ends_of_special_functions():
    ends = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0])
    for name in ("i0e", "i1e", "spherical_bessel_j0", "entr", "erfc", "erfcx", "log_ndtr", "modified_bessel_k0",
                 "modified_bessel_k1", "scaled_modified_bessel_k0", "bessel_y0", "bessel_y1"):
        check(getattr(torch.special, name), ends)
    check(torch.special.i0e, ends[:0])
    check(torch.special.bessel_y0, ends[:0])
    assert lowered(torch.special.i0, ends)[:2].tolist() == [math.inf, math.inf]  # torch has NaN
    assert lowered(torch.special.i1, ends)[:2].tolist() == [math.inf, -math.inf]
    check(torch.special.spherical_bessel_j0, ALONG.double())
    check(torch.special.i0, torch.arange(-4, 9))
    check(torch.xlogy, array(5, 7, low=0), array(7, low=0))
    check(torch.special.xlog1py, ends[:, None], ends)
    check(torch.special.entr, array(40))


def test_gradients_of_special_functions():
    def run(function, x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]

    for function in in_rounds(torch.special.i1, torch.special.erfcx, torch.special.entr, torch.special.i0,
                              torch.special.i0e, torch.special.i1e, torch.special.log_ndtr, torch.erfc):
        x = array(31, low=0.1, high=5)
        torch_backend.FALLBACKS.clear()
        assert_same(run(compiled(function), x), run(function, x))
        assert not torch_backend.FALLBACKS
    p = array(31, low=0.01, high=0.99)
    assert_same(run(compiled(torch.special.ndtri), p), run(torch.special.ndtri, p))


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


# Bits and steps of Euclid

@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_floats_by_their_bits(dtype):
    info = torch.finfo(dtype)
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.75, math.inf, -math.inf, math.nan, info.max, -info.max, info.tiny,
                          info.smallest_normal / 4, -info.smallest_normal / 8, 3.0], dtype=torch.float64).to(dtype)
    x = torch.cat([edges, array(40, dtype=dtype)])
    check(torch.frexp, x)
    check(torch.frexp, x[:0])
    try:
        torch.nextafter(edges, edges)
    except NotImplementedError:
        return  # torch has none of this type
    check(lambda x, y: torch.nextafter(x, y).view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize])
          .masked_fill(torch.nextafter(x, y).isnan(), 7), edges[:, None], x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_common_divisors(dtype):
    low, high = max(-5000, torch.iinfo(dtype).min), min(5000, torch.iinfo(dtype).max)
    x, y = array(9, 1, dtype=dtype, low=low, high=high), array(40, dtype=dtype, low=low, high=high)
    ends = torch.tensor([0, 1, torch.iinfo(dtype).min + 1, torch.iinfo(dtype).max, 6, 0], dtype=dtype)
    for one, other in ((x, y), (ends[:, None], ends), (x[:0], y), (x[0, 0], y[0])):
        check(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), one, other)
    check(torch.gcd, torch.tensor([7540113804746346429]), torch.tensor([4660046610375530309]))  # 89 steps
