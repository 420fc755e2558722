"""Operators of torch that call functions, and numbers that are symbols: results beside eager mode's."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

import torch.nn.functional as F  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan_op  # noqa: E402
from torch._higher_order_ops.map import map as map_over  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402
from torch_helpers import array, assert_same, compiled, lowered  # noqa: E402

from strata import torch_backend  # noqa: E402
from strata.torch_backend import decompositions, runtime  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(17)


def check(function, *inputs, fallbacks=(), gradients=True, units=None):
    """Results, and gradients where there are any, of a function through torch.compile."""
    runs = []
    for run in (function, compiled(function, fullgraph=True)):
        given = [i.clone().requires_grad_(gradients and i.is_floating_point()) for i in inputs]
        with torch.set_grad_enabled(gradients):
            results = torch.utils._pytree.tree_leaves(run(*given))
        leaves = [i for i in given if i.requires_grad]
        slopes = torch.autograd.grad(sum(r.sin().sum() for r in results if r.requires_grad), leaves) if leaves else ()
        runs.append([*(r.detach() for r in results), *slopes])
    assert sorted({name for name, _, _ in torch_backend.FALLBACKS}) == sorted(fallbacks), torch_backend.FALLBACKS
    assert_same(runs[1], runs[0], units, strides=False)


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(sign):
    def function(x, y):
        return torch.cond(x.sum() > 0, lambda a, b: (a.sin() + b, a * 2), lambda a, b: (a.cos() * b, b - a), (x, y))

    check(function, sign * array(3, 5).abs(), array(3, 5))
    nested = compiled(lambda x: torch.cond(
        x[0] > 0, lambda a: torch.cond(a[1] > 0, lambda b: b + 1, lambda b: b - 1, (a,)), lambda a: a * 3, (x,)))
    for x in (torch.tensor([1.0, sign]), torch.tensor([-1.0, sign])):
        assert torch.equal(nested(x), x + sign if x[0] > 0 else x * 3)
    assert not torch_backend.FALLBACKS


def test_while_loop():
    def function(x, limit):
        return while_loop(lambda i, a: (i < 7) & (a.abs().sum() < limit), lambda i, a: (i + 1, a * 1.5 + 0.1),
                          (torch.zeros((), dtype=torch.int64), x))

    for limit in (0.0, 60.0, 1e9):
        check(function, array(3, 5), torch.tensor(limit), gradients=False)


def test_scan_and_map():
    def recurrence(start, xs, w):
        return scan(lambda carried, x: (torch.tanh(carried @ w + x), (carried * 2, x.sum())), start, xs)

    check(recurrence, array(2, 3), array(5, 2, 3), array(3, 3), gradients=False)
    check(lambda start, xs: scan(lambda c, x: (c * 0.5 + x, c.sin()), start, xs, reverse=True), array(7), array(5, 7))
    check(lambda h, xs, w: scan(lambda h, x: (torch.sigmoid((x @ w).t().unsqueeze(0)[0].t()) * h, h.clone()), h, xs),
          array(2, 4), array(3, 2, 4), array(4, 4))
    check(lambda xs, y: map_over(lambda x, y: x.softmax(-1) * y, xs, y), array(4, 3, 5), array(5), gradients=False)


@pytest.mark.parametrize("steps", [1, 2, 3, 16, 33])
def test_associative_scan(steps):
    """What torch leaves to GPUs as one operator: its own functions do not give it on processors."""
    def recurrence(a, b, c, d):
        return a * c, c * b + d

    def through_operator(a, b):
        return associative_scan_op(recurrence, [a, b], ())

    a, b = array(steps, 3, low=-1, high=1), array(steps, 3)
    expected, state = [[a[0], b[0]]], (a[0], b[0])
    for i in range(1, steps):
        state = recurrence(*state, a[i], b[i])
        expected.append(list(state))
    assert_same(lowered(through_operator, a, b), [torch.stack(column) for column in zip(*expected)])


def test_functions_that_are_refused_say_why():
    check(lambda x: torch.cond(x.sum() > 0, lambda a: torch.special.airy_ai(a), lambda a: a + 1, (x,)), array(3, 5),
          gradients=False, fallbacks=["cond"])
    assert torch_backend.FALLBACKS[0][1] == "its function calls aten.special_airy_ai.default: there is no rule for it"
    torch.manual_seed(3)
    check(lambda x: torch.linalg.inv(x), array(3, 3), gradients=False,
          fallbacks=["aten._linalg_check_errors.default", "aten.linalg_inv_ex.default"])
    assert {why for _, why, _ in torch_backend.FALLBACKS} == {
        "of linear algebra, only products are compiled",
        "it has effects, and stays in its place"}


def test_flex_attention():
    q, k, v = (array(2, 4, 17, 8) for _ in range(3))
    slopes = array(4)
    check(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: 5 * torch.tanh(
        (s - slopes[h] * (i - j).abs()) / 5), return_lse=True), q, k, v, gradients=False)
    check(lambda q, k, v: flex_attention(q, k, v, enable_gqa=True, scale=0.3), q, k[:, :2], v[:, :2], gradients=False)
    table = array(17, 17)
    check(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + table[i, j]), q, k, v,
          gradients=False)
    mask = create_block_mask(lambda b, h, i, j: (i > j) & (i - j < 9), None, None, 17, 17, device="cpu")
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), q, k, v, gradients=False)  # row 0 sees nothing


def test_gradients_of_flex_attention():
    """Torch refuses them on processors, so what the operator is replaced with is called itself."""
    q, k, v = (array(1, 2, 9, 8).requires_grad_() for _ in range(3))
    bias = -0.5 * (torch.arange(9.0)[:, None] - torch.arange(9.0)).abs()
    hidden = bias.masked_fill(torch.ones(9, 9).tril() == 0, -math.inf)
    found, _, _ = decompositions.flex_attention(q, k, v, lambda s, b, h, i, j: s - 0.5 * (i - j).abs(),
                                                (lambda b, h, i, j: i >= j,), 8**-0.5, {})
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
    found, expected = (torch.autograd.grad(one.sin().sum(), (q, k, v)) for one in (found, expected))
    assert_same(list(found), list(expected), 256, strides=False)


def test_attention_under_function_transforms():
    q, k, v = (array(3, 2, 5, 8) for _ in range(3))
    attend = F.scaled_dot_product_attention
    hidden = torch.ones(5, 5).tril() == 1
    hidden[2] = False
    check(lambda q, k, v: torch.vmap(lambda *a: attend(*a, is_causal=True))(q, k, v), q, k, v)
    check(lambda q, k, v: torch.vmap(lambda *a: attend(*a, attn_mask=hidden))(q, k, v), q, k, v)


def test_numbers_are_compiled_once(monkeypatch):
    """The second graph has a symbol in place of the number, and serves all that follow."""
    count = []
    compile_graph = runtime.compile_graph
    monkeypatch.setattr(runtime, "compile_graph", lambda *given: count.append(0) or compile_graph(*given))

    def of_integer(x, k):
        return (x * k + k).relu() + (torch.arange(7) >= k) + torch.full((7,), k) + x**k + max(0, k - 4), k + 1

    def of_float(x, k):
        return (x * k + 1).relu() - k

    x = array(3, 7, dtype=torch.float64)
    for function, numbers in ((of_integer, range(2, 8)), (of_float, (0.5, 1.5, 2.5, -3.25))):
        count.clear()
        run = compiled(function, fullgraph=True)
        for k in numbers:
            assert_same(run(x, k), function(x, k))
        assert len(count) == 2
        assert not torch_backend.FALLBACKS


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
def test_numbers_and_sizes_that_are_read_from_arrays():
    depends = "the size of an array depends on elements of another"
    read = "a number of Python is read from an array"
    for function, reasons in ((lambda x: (x * x.argmax().item() + 1).sin(), {read}),
                              (lambda x: x.sin() * x.sum().item(), set()),  # of floats, torch keeps the array
                              (lambda x: (x > 0.5).nonzero() * 2 + 1, {depends}),
                              (lambda x: x[x > 0.5].sin().sum() + x.exp(), {depends})):
        run = compiled(function, fullgraph=True)
        for low in (0, -3):
            x = array(3, 5, low=low)
            assert_same(run(x), function(x))
        assert {why for _, why, _ in torch_backend.FALLBACKS} == reasons


def test_sizes_and_numbers_that_are_symbols():
    run = compiled(lambda x, k: (x * k).sum(0) + x.shape[0], dynamic=True, fullgraph=True)
    for n, k in ((3, 2), (5, 4), (5, 7)):
        x = array(n, 7)
        assert_same(run(x, k), (x * k).sum(0) + n)
