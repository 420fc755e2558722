"""Each rule of the torch front end against eager mode, by itself."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

import torch.nn.functional as F  # noqa: E402
from rounds import in_rounds  # noqa: E402
from torch_helpers import array, check, compiled, lowered  # noqa: E402

from strata.torch_backend.lowering import Lowering  # noqa: E402

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

UNARY = ("abs", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "neg", "round", "sigmoid", "sign", "sin",
         "sinh", "tan", "tanh", "trunc", "asinh", "atan", "exp2", "reciprocal", "erfc", "relu", "isnan", "isinf",
         "square", "sgn", "isfinite", "logical_not", "frac", "deg2rad", "isposinf")
POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "acosh")
WITHIN_ONE = ("acos", "asin", "atanh")
ACTIVATIONS = {
    "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "elu": F.elu, "celu": F.celu,
    "leaky_relu": F.leaky_relu, "hardtanh": F.hardtanh, "hardswish": F.hardswish, "mish": F.mish,
    "softplus": F.softplus,
    "selu": F.selu, "relu6": F.relu6, "logsigmoid": F.logsigmoid, "softsign": F.softsign, "hardsigmoid": F.hardsigmoid,
    "glu": lambda x: F.glu(x, -1), "threshold": lambda x: F.threshold(x, 0.5, -1.0),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


@pytest.mark.parametrize("name", UNARY + POSITIVE + WITHIN_ONE)
def test_unary(name):
    low, high = (0.1, 9.0) if name in POSITIVE else (-0.95, 0.95) if name in WITHIN_ONE else (-3.0, 3.0)
    low = 1.1 if name == "acosh" else low
    function = getattr(torch, name)
    for dtype in FLOATS:
        check(function, array(3, 5, dtype=dtype, low=low, high=high))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    for dtype in (torch.float32, torch.bfloat16):
        check(ACTIVATIONS[name], array(3, 8, dtype=dtype))


def test_special_floats():
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan, 0.5, -2.5, 1e30])
    for name in ("abs", "sign", "round", "trunc", "relu", "isnan", "isinf", "sigmoid", "tanh", "exp", "isfinite"):
        check(getattr(torch, name), values)
    pairs = [v.flatten() for v in torch.meshgrid(values, values, indexing="ij")]
    for name in ("maximum", "minimum", "fmax", "fmin", "eq", "lt", "ge", "add", "mul", "copysign", "hypot"):
        check(getattr(torch, name), *pairs)
    check(lambda x: x.clamp(-1, 1), values)
    check(lambda x: torch.stack([x.amax(), x.amin(), x.argmax().float(), x.argmin().float()]), values)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"])
def test_binary(name):
    function = getattr(torch, name)
    for dtype in FLOATS + INTEGERS:
        check(function, array(3, 1, 4, dtype=dtype), array(2, 1, dtype=dtype))
    check(function, array(4, dtype=torch.int32), array(3, 4))
    if name not in ("maximum", "minimum"):
        for dtype in (torch.bfloat16, torch.int64):
            check(lambda x: function(x, 2), array(7, dtype=dtype))
        check(lambda x: function(x, 0.3), array(17, dtype=torch.bfloat16))


def test_arithmetic_of_numbers():
    check(lambda x: torch.add(x, x, alpha=3) + torch.sub(x, 1, alpha=2) + torch.rsub(x, 5), array(4))
    check(lambda x: 1 / x + 2 ** x + x ** 2 + x ** 0.5 + x ** -1 + x ** -2 + x ** 3 + x ** 2.5, array(9, low=0.5))
    check(lambda x: x ** 3 + x ** 2, array(9, dtype=torch.int64))
    check(lambda x, y: x ** y, array(9, low=0.5), array(9))
    check(lambda x: x.logical_and(x > 1) | (x < 0) ^ (x != 2), array(9))
    check(lambda x: torch.clamp(x, 0, 2) + torch.clamp_min(x, 1) + torch.clamp_max(x, 1), array(9, dtype=torch.int32))
    check(lambda x, y: torch.atan2(x, y), array(9), array(9))
    check(lambda x, y: torch.addcmul(x, x, y, value=2) + torch.addcdiv(x, x, y, value=0.5), array(5), array(5, low=1))
    check(lambda x, y: torch.lerp(x, y, 0.3), array(5), array(5))


def test_extreme_of_no_elements():
    """An error, as in eager mode, whatever reduces; along other dimensions the result is empty."""
    for dtype in (torch.float32, torch.int64):
        for function, shape in ((torch.max, (0,)), (torch.min, (3, 0)), (lambda x: x.max(0), (0, 3)),
                                (lambda x: x.min(0).values, (0, 3))):
            with pytest.raises((RuntimeError, IndexError), match="to be specified|non-zero size"):
                compiled(function)(torch.empty(shape, dtype=dtype))
        check(lambda x: (x.max(1).values, x.amin(1)), torch.empty(0, 3, dtype=dtype))


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_division(mode):
    for dtype in (torch.float32, torch.int64, torch.int32, torch.bfloat16):
        y = array(40, dtype=dtype, low=-5, high=5)
        y = torch.where(y == 0, torch.ones_like(y), y)
        check(lambda x, y: torch.div(x, y, rounding_mode=mode), array(40, dtype=dtype, low=-20, high=20), y)
    check(lambda x: torch.div(x, 3, rounding_mode=mode), array(40, low=-20, high=20))


def test_remainders():
    for dtype in (torch.float32, torch.int64):
        y = array(40, dtype=dtype, low=-5, high=5)
        y = torch.where(y == 0, torch.ones_like(y), y)
        x = array(40, dtype=dtype, low=-20, high=20)
        check(torch.remainder, x, y)
        check(torch.fmod, x, y)
        check(torch.floor_divide, x, y)
    inf = float("inf")
    check(torch.floor_divide, torch.tensor([6.0, -6.0, 6.0, inf, 0.0]), torch.tensor([-inf, inf, inf, 2.0, -inf]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_near_the_least_integer(dtype):
    info = torch.iinfo(dtype)
    ends = torch.tensor([info.min, info.min + 1, info.min + 7, info.max - 1, info.max], dtype=dtype)
    divisors = torch.tensor([1, 2, 3, 31, info.max] + ([-2, -31, info.min] if info.min else []), dtype=dtype)
    x, y = (v.flatten() for v in torch.meshgrid(ends, divisors, indexing="ij"))
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        check(function, x, y)
    for mode in ("floor", "trunc"):
        check(lambda x, y: torch.div(x, y, rounding_mode=mode), x, y)


def test_variances_are_as_exact_as_eagers():
    x = torch.randn(7, 3001) + 3
    for function in (lambda x: x.var(1), lambda x: x.std(1), lambda x: torch.var_mean(x, 1)[0], lambda x: x.var()):
        exact = function(x.double())
        ours, theirs = ((found.double() - exact).abs().max() for found in (compiled(function)(x), function(x)))
        assert ours <= 2 * max(theirs, 6e-8 * exact.abs().max())


def test_attention_without_keys():
    check(torch.nn.functional.scaled_dot_product_attention, torch.ones(1, 2, 3, 4), torch.ones(1, 2, 0, 4),
          torch.ones(1, 2, 0, 5))


def test_bits():
    x, y = array(9, dtype=torch.int32, low=-50, high=50), array(9, dtype=torch.int32, low=0, high=5)
    check(lambda x, y: (x & y, x | y, x ^ y, ~x, x << y, x >> y, x & 3), x, y)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + (torch.bool,))
def test_conversions(dtype):
    source = array(9, dtype=dtype)
    source = source.abs() if dtype not in (torch.bool, torch.uint8) else source
    for other in FLOATS + INTEGERS + (torch.bool,):
        check(lambda x: x.to(other), source)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_beyond_narrow_integers(dtype):
    source = torch.tensor([-1.5, -200.7, 300.5, 255.9, 256.0, -128.0, -129.0, 40000.0], dtype=dtype)
    for other in (torch.uint8, torch.int8, torch.int16):
        check(lambda x: x.to(other), source)


def test_views_in_types_of_other_widths():
    check(lambda x: x.view(torch.int16)[..., 1::2].clone(), array(5, 6))
    check(lambda x: x.view(torch.uint8).int() + 1, array(5, 6, dtype=torch.bfloat16))
    check(lambda x: (x + 1).view(torch.int32) // 3, array(3, 8, dtype=torch.uint8))
    check(lambda x: x.view(torch.int64).view(torch.int16).clone(), array(4, 6))


def test_derivatives_forward():
    """Of positive terms, whose sum is as exact as they are."""
    check(lambda w, x: torch.func.jvp(lambda a: (w.abs() @ a).square().sum(), (x.abs(),), (x.abs(),))[1],
          array(4, 3), array(3))


def test_select():
    check(lambda c, x, y: torch.where(c, x, y), array(3, 1, dtype=torch.bool), array(4), array(2, 3, 4))
    check(lambda c, x: torch.where(c, x, 0.5), array(3, 4, dtype=torch.bool), array(4, dtype=torch.float16))
    check(lambda x, m: x.masked_fill(m, -torch.inf), array(3, 4), array(4, dtype=torch.bool))


@pytest.mark.parametrize("dim", in_rounds(-1, (0, 2), 0, None))
def test_reductions(dim):
    for dtype in (torch.float32, torch.bfloat16):
        x = array(3, 4, 5, dtype=dtype)
        for keep in (False, True):
            check(lambda x: (x.sum(dim, keepdim=keep), x.mean(dim, keepdim=keep)), x)
            check(lambda x: x.amax(dim if dim is not None else (), keepdim=keep), x)
            check(lambda x: torch.var(x, dim, keepdim=keep), x)
            check(lambda x: torch.var_mean(x, dim, correction=0, keepdim=keep), x)
            check(lambda x: torch.std(x, dim, keepdim=keep), x)
    check(lambda x: (x.sum(dim), x.amin(dim if dim is not None else ())), array(3, 4, 5, dtype=torch.int32))
    check(lambda x: (torch.any(x > 2.9, dim), torch.all(x > -2.9, dim)), array(3, 4, 5))
    if not isinstance(dim, tuple):
        check(lambda x: (x.argmax(dim), x.argmin(dim)), array(3, 4, 5, dtype=torch.int32))
    if isinstance(dim, int):
        check(lambda x: (*x.max(dim), *x.min(dim, keepdim=True), x.prod(dim)), array(3, 4, 5))
        check(lambda x: (x.logsumexp(dim), x.norm(dim=dim), x.cumsum(dim), x.cumprod(dim)), array(3, 4, 5))
        check(lambda x: x.cumsum(dim), array(3, 4, 5, dtype=torch.bool))


@pytest.mark.parametrize("order", [0, 1, 2, 3, float("inf"), -float("inf")])
def test_vector_norms(order):
    check(lambda x: (torch.linalg.vector_norm(x, order), torch.linalg.vector_norm(x, order, 1, True)), array(3, 4))
    check(lambda x: torch.linalg.vector_norm(x, order, 0), array(3, 4, dtype=torch.bfloat16))


def test_sorting():
    x = array(4, 9, dtype=torch.int64, high=5).float()
    x[0, 3] = torch.nan
    for descending in (False, True):
        check(lambda x: torch.sort(x, dim=-1, descending=descending, stable=True), x)
    check(lambda x: torch.topk(x, 3, dim=-1), torch.randperm(36).view(4, 9).float())
    check(lambda x: torch.topk(x, 2, dim=0, largest=False), torch.randperm(36).view(4, 9))
    check(lambda x: torch.argsort(x, dim=0, stable=True), array(6, 2, dtype=torch.int32))


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax(function):
    for dtype in (torch.float32, torch.bfloat16):
        check(lambda x: function(x, -1), array(3, 7, dtype=dtype))
    check(lambda x: function(x, 0, dtype=torch.float32), array(3, 7, dtype=torch.bfloat16))


def test_movement():
    x = array(2, 3, 4)
    check(lambda x: (x.view(6, 4) * 2, x.permute(2, 0, 1) + 0, x.transpose(0, 2) * 1, x.unsqueeze(1).squeeze(0)), x)
    check(lambda x: (x[1] * 2, x[:, 1:, ::2] * 2, x[..., -1] * 2, x[:, :1].expand(2, 5, 4) * 2), x)
    check(lambda x: [p * 2 for p in (*x.split(2, 1), *x.unbind(0), *x.chunk(2, 2), *x.split([1, 3], 2))], x)
    check(lambda x: (torch.cat([x, x * 2], 1), torch.stack([x, x + 1], -1), x.repeat(2, 1, 3)), x)
    check(lambda x: (x.flip(0, 2), x.roll(1, 2), x.roll((1, -1), (0, 1)), x.roll(5)), x)
    check(lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 0))), x)
    check(lambda x: (x.tril(), x.triu(1), x.tril(-1)), x)
    check(lambda x: (torch.diagonal(x, 0, 1, 2) * 2, torch.diagonal(x, 1, 2, 1) * 2, torch.diag_embed(x)), x)
    check(lambda x: (x.unfold(2, 2, 1) * 2, x.movedim(0, 2) * 2, x.repeat_interleave(2, 1)), x)
    check(lambda x: (F.pad(x, (1, 1), mode="reflect"), F.pad(x, (1, 1), mode="replicate")), x)
    check(lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3) + torch.select_scatter(x, x[0] * 3, 0, 1), x)
    check(lambda x: torch.slice_scatter(x, x[:, :, :2] * 2, 2, 0, 4, 2), x)
    check(lambda x: torch.cat([x[:0], x, x[:, :, :]], 0), x)


def test_creation():
    check(lambda x: x + torch.arange(4) + torch.arange(1, 9, 2) + torch.arange(0, 1, 0.25), array(3, 4))
    check(lambda x: x + torch.ones(3, 4), array(3, 4))
    check(lambda x: x + torch.full((4,), 0.5) + torch.zeros_like(x) + x.new_full((1,), 2), array(3, 4))
    check(lambda x: x + torch.eye(3, 4), array(3, 4))
    check(lambda x: torch.linspace(0, 1, 4) * x + torch.tensor([1.0, 2.0, 3.0, 4.0]), array(4))
    check(lambda x: torch.arange(5, dtype=torch.float32, device=x.device) * x, array(5))
    check(lambda x: F.one_hot(x, 6) + x[:, None], array(5, dtype=torch.int64, low=0, high=5))


def test_products():
    for dtype in FLOATS:
        a, b = array(3, 4, dtype=dtype), array(4, 5, dtype=dtype)
        check(torch.mm, a, b)
        check(lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2), a, b, array(5, dtype=dtype))
        check(F.linear, a, array(6, 4, dtype=dtype), array(6, dtype=dtype))
        check(torch.matmul, array(2, 3, 4, dtype=dtype), b)
        check(torch.bmm, array(2, 3, 4, dtype=dtype), array(2, 4, 2, dtype=dtype))
    check(torch.mm, array(3, 4, dtype=torch.int64), array(4, 5, dtype=torch.int64))
    check(lambda a, b: (a @ b, a.dot(b), torch.outer(a, b)), array(4), array(4))
    check(torch.mv, array(3, 4), array(4))
    check(lambda a, b: torch.einsum("bij,bkj->ikb", a, b), array(2, 3, 4), array(2, 5, 4))
    check(torch.baddbmm, array(2, 3, 5), array(2, 3, 4), array(2, 4, 5))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolutions(n):
    conv, back = getattr(F, f"conv{n}d"), getattr(F, f"conv_transpose{n}d")
    x = array(2, 4, *(9, 7, 5)[:n])
    check(lambda x, w, b: conv(x, w, b, stride=2, padding=1), x, array(6, 4, *[3] * n), array(6))
    check(lambda x, w: conv(x, w, dilation=2, groups=2, padding=2), x, array(6, 2, *[3] * n))
    check(lambda x, w, b: back(x, w, b, stride=2, padding=1, output_padding=1), x, array(4, 3, *[3] * n), array(3))
    check(lambda x, w: back(x, w, groups=2, dilation=2), x, array(4, 3, *[2] * n))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_gradients(transposed, groups):
    x, w = array(2, 4, 9, 8), array(4, 6 // groups, 3, 2) if transposed else array(6, 4 // groups, 3, 2)
    for stride, padding, dilation in (([1, 1], [0, 0], [1, 1]), ([2, 3], [1, 0], [1, 2]), ([2, 2], [1, 1], [1, 1])):
        extra = [1, 0] if transposed and stride == [2, 3] else [0, 0]
        y = aten.convolution(x, w, None, stride, padding, dilation, transposed, extra, groups)

        def gradients(grad, x, w):
            return aten.convolution_backward(grad, x, w, [6], stride, padding, dilation, transposed, extra, groups,
                                             [True, True, True])

        check(gradients, array(*y.shape), x, w, strides=False)


def test_pooling():
    x = array(2, 3, 9, 8)
    for arguments in ((2,), (3, 2, 1), ((3, 2), (2, 1), (1, 0)), (3, 2, 1, 2)):
        check(lambda x: aten.max_pool2d_with_indices(x, *([a] if isinstance(a, int) else a for a in arguments)), x)
    check(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), x)
    check(lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)), x)
    check(lambda x: (F.avg_pool2d(x, 3, 2, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3)), x)
    check(lambda x: (F.avg_pool1d(x[0], 2), F.max_pool1d(x[0], 2), F.avg_pool3d(x, 2)), x)
    check(lambda x: (F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, 1)), x)
    check(lambda x: (F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_avg_pool3d(x, (2, 4, 3))), x)
    for size in ((3, 4), (4, 3)):
        check(aten._adaptive_avg_pool2d_backward, array(2, 3, *size), x)
    check(lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 6), mode="bilinear")), x)
    grad = array(2, 3, 5, 4)
    for more, columns in (((False, True, None), 4), ((False, False, None), 4), ((True, True, 5), 5)):
        check(lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], *more), array(2, 3, 5, columns), x)
    y, places = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    check(lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, i),
          grad, x, places)


def test_indexing():
    x, i = array(5, 4, 3), array(6, dtype=torch.int64, low=-4, high=4)
    check(lambda x, i: (x[i - 1], x[:, i % 4] * 1, x[i, i % 3], x[i[:, None], :, i[:2].abs() % 3]), x, i)
    check(lambda x, i: (x.index_select(0, i.abs()), F.embedding(i.abs(), x[:, :, 0])), x, i)
    check(lambda x, i: torch.gather(x, 1, i), x, array(5, 2, 3, dtype=torch.int64, low=0, high=3))
    check(lambda x, i: torch.gather(x, 0, i), x, array(7, 3, 2, dtype=torch.int64, low=0, high=4))
    check(lambda x, i: torch.take_along_dim(x, i, 2), x, array(5, 4, 1, dtype=torch.int64, low=0, high=2))
    check(lambda x, b: torch.bucketize(x, b), array(4, 3), torch.tensor([-1.0, 0.0, 2.0]))
    check(lambda x, b: torch.searchsorted(b, x, right=True), array(2, 3), array(2, 5).sort(-1)[0])


def test_scatters():
    x = array(5, 4)
    rows = torch.stack([torch.randperm(5)[:3] for _ in range(4)], 1)
    check(lambda x, i, v: (x.scatter(0, i, v), x.scatter(0, i, 2.0)), x, rows, array(3, 4))
    many = array(6, 4, dtype=torch.int64, low=0, high=4)
    check(lambda x, i, v: x.scatter_add(0, i, v), x, many, array(6, 4))
    for reduce in ("sum", "amax", "amin", "prod"):
        for include in (True, False):
            check(lambda x, i, v: x.scatter_reduce(0, i, v, reduce, include_self=include), x, many, array(6, 4))
    check(lambda x, i, v: torch.index_put(x, [i], v, accumulate=True), x, many[:, 0], array(6, 4))
    check(lambda x, i, v: torch.index_put(x, [i], v), x, torch.randperm(5)[:3] - 5, array(4))
    check(lambda x, i, v: torch.index_put(x, [i, i[:, None] % 4], v, accumulate=True), x, many[:, 0], array(1))
    check(lambda x, m: torch.index_put(x, [m], torch.tensor(2.0)), x, array(5, 4, dtype=torch.bool))
    check(lambda x, i, v: (x.index_add(0, i, v), x.index_copy(0, i % 5, v)), x, torch.arange(5), array(5, 4))
    check(lambda g, i: aten.embedding_dense_backward(g, i, 5, 2, False), array(2, 3, 4),
          array(2, 3, dtype=torch.int64, low=0, high=4))


def test_norms():
    for dtype in (torch.float32, torch.bfloat16):
        x = array(2, 6, 5, dtype=dtype)
        w, b = array(5, dtype=dtype), array(5, dtype=dtype)
        check(lambda x, w, b: F.layer_norm(x, (5,), w, b), x, w, b)
        check(lambda x, w: F.rms_norm(x, (5,), w, 1e-6), x, w, units=8 if dtype != torch.float32 else None)
        check(lambda x, w, b: F.group_norm(x, 3, w, b), x, array(6, dtype=dtype), array(6, dtype=dtype))
        check(lambda x, m, v: F.batch_norm(x, m, v), x, array(6), array(6, low=0.5))
    check(lambda x: (F.instance_norm(x), F.normalize(x, dim=1), F.cosine_similarity(x, x * 2, -1)), array(2, 6, 5))


def test_batch_norm_gradients():
    for dtype in (torch.float32, torch.bfloat16):
        x, grad, w = array(3, 4, 5, dtype=dtype), array(3, 4, 5, dtype=dtype), array(4, low=0.5)
        mean, var = array(4), array(4, low=0.5)
        saved, rstd = x.float().mean((0, 2)), x.float().var((0, 2), correction=0).add(1e-5).rsqrt()
        for training in (False, True):
            check(lambda *a: aten.native_batch_norm_backward(*a, training, 1e-5, [True] * 3), grad, x, w, mean, var,
                  saved, rstd, units=16 if dtype == torch.bfloat16 else 256, strides=False)


def test_losses():
    x, y = array(4, 5), array(4, 5)
    check(lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y)), x, y)
    check(F.cross_entropy, x, array(4, dtype=torch.int64, low=0, high=4))
    check(lambda x, t: F.cross_entropy(x, t, ignore_index=1, label_smoothing=0.1), x, torch.tensor([1, 0, 4, 3]))
    check(lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), x, y)
    check(lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), x, y)


def test_looking_at_memory_by_strides():
    x = array(5, 4)
    check(lambda x: (x.as_strided((3, 2), (4, 1), 5), x.as_strided((4, 3), (1, 1)), x.as_strided((4, 5), (1, 4))), x)
    check(lambda x: x.as_strided((2, 2, 1), (0, 7, 3), 2) * 1, x.t().contiguous().t())
    check(lambda x, v: torch.as_strided_scatter(x, v, (3, 2), (4, 2), 1), x, array(3, 2))
    check(lambda x: x.expand(3, 4).clone().fill_diagonal_(1), x[:1].clone())


def test_windows_of_any_number():
    check(lambda x: (x.unfold(1, 7, 3), x.unfold(0, 2, 2), x.unfold(-1, 400, 1)), array(5, 900))
    check(lambda x: x.unfold(0, 1, 1), array())
    check(lambda x, i: (x.gather(0, i), x.gather(1, i[:, :0])), array(4, 3), torch.zeros(0, 3, dtype=torch.int64))


@pytest.mark.parametrize("ends", [[3, 3, 24], [0, 16, 24], [24, 24, 24], [3, 9, 16]])
def test_grouped_products(ends, monkeypatch):
    """By the rule for GPUs, whose modules run on the host here; on a processor torch's own products are faster."""
    def grouped(x, w, ends):
        rows = torch.arange(x.shape[0]) < ends[-1]  # torch leaves rows after the last group as they are in memory
        return torch.where(rows[:, None], torch.nn.functional.grouped_mm(x, w, offs=ends), 0)

    in_torch = ["aten._grouped_mm.default"]
    ends = torch.tensor(ends, dtype=torch.int32)
    x, w = array(24, 16).bfloat16(), array(3, 16, 32).bfloat16()
    check(grouped, x, w, ends, fallbacks=in_torch)
    monkeypatch.setattr(Lowering, "on_gpu", True)
    check(grouped, x, w, ends)
    check(grouped, x, w.transpose(1, 2).contiguous().transpose(1, 2), ends)
    check(torch.nn.functional.grouped_mm, array(3, 8, 16).bfloat16(), w)
    found = lowered(lambda x, w, ends: torch.nn.functional.grouped_mm(x, w, offs=ends), x, w, ends)
    assert not found[int(ends[-1]):].any()
    # More rows than the kernel multiplies while it reads the weights, and groups of terms, which gradients have.
    check(grouped, array(32, 16).bfloat16(), w, ends, fallbacks=in_torch)
    terms = torch.tensor([8, 8, 24], dtype=torch.int32)
    check(lambda x, y, ends: torch.nn.functional.grouped_mm(x, y, offs=ends), x.t(), array(24, 8).bfloat16(), terms,
          fallbacks=in_torch)
