"""torch.compile(…, backend="strata"): arguments, results, side effects, sizes, options, fall-backs."""

import logging
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

import torch.nn.functional as F  # noqa: E402
from torch_helpers import array, assert_same, compiled  # noqa: E402

import strata  # noqa: E402
from strata import debug, torch_backend  # noqa: E402
from strata.torch_backend import registry  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


def agree(function, *inputs, fallbacks=(), **options):
    expected = function(*(i.clone() if isinstance(i, torch.Tensor) else i for i in inputs))
    got = compiled(function, **options)(*inputs)
    assert_same(got, expected)
    assert sorted({name for name, _, _ in torch_backend.FALLBACKS}) == sorted(fallbacks)
    return got


MIXED = {
    "linear": lambda x, w: F.linear(x, w), "product": lambda x, w: x @ w.t(), "vector": lambda x, w: x @ w[0],
    "biased": lambda x, w: torch.addmm(w[0, :3], x, w.t()), "half": lambda x, w: x.half() @ w.t(),
    "added": lambda x, w: w.index_add(0, torch.tensor([0, 2]), x),
    "put": lambda x, w: w.index_put((torch.tensor([1, 0]),), x),
    "layer norm": lambda x, w: F.layer_norm(x, (5,), w[0], w[1]),
    "batch norm": lambda x, w: F.batch_norm(x, w[0], w[1].abs()),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_types_that_torch_does_not_mix_are_its_error(name):
    x, w = array(2, 5, dtype=torch.float64), array(3, 5)
    for function in (MIXED[name], compiled(MIXED[name])):
        with pytest.raises(RuntimeError, match=r"type|dtype"):
            function(x, w)


def test_results_of_every_form():
    x = array(3, 4)
    agree(lambda x: (x + 1, None, 3, "text", [x * 2], {"k": x.sum()}), x)
    agree(lambda x: (lambda y: (y, y, y.view(12)))(x + 1), x)
    got = agree(lambda x: (x, x.t(), x + 0), x)
    assert got[0].data_ptr() == x.data_ptr() and got[1].data_ptr() == x.data_ptr()
    got = agree(lambda x: (x.clone(), x.t().contiguous(), x[:, :2].clone()), x)
    assert all(g.untyped_storage().data_ptr() != x.untyped_storage().data_ptr() for g in got)
    y, view = compiled(lambda x: (lambda y: (y, y[1:]))(x * 2))(x)
    assert view.data_ptr() == y[1:].data_ptr()


def test_arguments_of_every_form():
    x = array(3, 4)
    agree(lambda x, n, flag, nothing: x * n if flag and nothing is None else x, x, 2.5, True, None)
    agree(lambda x: x * 2 + x.sum(), array(4, 6).t())
    agree(lambda x: x * 2, array(4, 6)[:, ::2])
    agree(lambda x: x * 2, array(4, 1).expand(4, 3))
    agree(lambda x: x * 2, array(2, 3, 4, 5).to(memory_format=torch.channels_last))
    agree(lambda x, y: x * y, torch.tensor(2.0), array(3))
    agree(lambda x: x.exp().sum(), torch.tensor(2.0))
    agree(lambda x: (x * 2, x.sum(), torch.cat([x, x])), array(0, 4))
    agree(lambda x: x @ x.new_zeros(0, 5), array(4, 0))
    agree(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.bool])
def test_types(dtype):
    agree(lambda x: (x + x, x.flip(0), x > 0), array(3, 4, dtype=dtype))


def test_without_arguments():
    agree(lambda: (torch.arange(6).view(2, 3).t() * 2.0, torch.ones(2, dtype=torch.bfloat16), torch.eye(3).sum()))
    agree(lambda x: torch.special.airy_ai(torch.linspace(0, 1, 4)) * x, array(4),
          fallbacks=["aten.special_airy_ai.default"])


def test_autocast():
    layer, x = torch.nn.Linear(4, 3), array(5, 4)

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x).softmax(-1)

    with torch.no_grad():
        agree(f, x)


def test_changed_arguments():
    def change(x, y):
        x.add_(y)
        y[0] = 7
        return x * 2

    runs = []
    x, y = array(3, 4), array(3, 4)
    for run in (change, compiled(change)):
        a, b = x.clone(), y.clone()
        runs.append([run(a, b), a, b])
    assert_same(*runs)


def test_buffers():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x):
            self.steps += 1
            return self.norm(x) * self.steps

    eager, ours = Counter(), Counter()
    run = compiled(ours)
    for _ in range(3):
        x = array(6, 4)
        with torch.no_grad():
            assert_same(run(x), eager(x))
    assert_same(list(ours.buffers()), list(eager.buffers()))


def test_dynamic_sizes():
    def f(x):
        return torch.softmax(x @ x.t(), -1).sum(0) * x.shape[0] + torch.arange(x.shape[0])

    torch._dynamo.reset()
    run = torch.compile(f, backend=torch_backend.backend, dynamic=True)
    for n in (3, 5, 8, 5, 13):
        x = array(n, 4)
        assert_same(run(x), f(x))
    layer = torch.nn.Linear(4, 3)
    run = torch.compile(layer, backend=torch_backend.backend, dynamic=True)
    for n in (3, 7):
        x = array(n, 4)
        ours, = torch.autograd.grad(run(x).square().sum(), [layer.weight])
        eager, = torch.autograd.grad(layer(x).square().sum(), [layer.weight])
        assert_same(ours, eager)


def test_many_sizes_run_in_torch():
    layer = torch.nn.Linear(4, 3)
    run = compiled(layer, dynamic=True, options={"max_sizes": 2})
    for n in (3, 5, 3, 7, 9, 5):
        x = array(n, 4).requires_grad_()
        ours, eager = (torch.autograd.grad(one(x).square().sum(), [layer.weight, x]) for one in (run, layer))
        assert_same(list(ours), list(eager))
    said = "it has met more than max_sizes = 2 combinations of sizes"
    assert [(name, why) for name, why, _ in torch_backend.FALLBACKS] == [("graph", said)] * 2


def test_fallback_says_which_where_and_why(caplog):
    def f(x):
        y = torch.special.airy_ai(x * 2)  # the line
        return y + 1, x.exp()

    with caplog.at_level(logging.WARNING, "strata"):
        agree(f, array(3, 4), fallbacks=["aten.special_airy_ai.default"])
    lines = [r.getMessage() for r in caplog.records if r.name == "strata"]
    assert len(lines) == 1
    assert "aten.special_airy_ai.default runs in torch: there is no rule for it (test_torch_backend.py:" in lines[0]
    assert "y = torch.special.airy_ai(x * 2)" in lines[0]


def test_fallback_names_the_users_line_and_the_layer():
    """Not the line in torch's own file, in which the operator is called."""
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x + 1)  # the line

    compiled(Model().train())(array(3, 4))
    (_, reason, place), = torch_backend.FALLBACKS
    assert reason == "random numbers are torch's"
    assert "in forward: `return self.drop(x + 1)  # the line`, of drop (Dropout)" in place
    compiled(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.5)).train())(array(3, 4))
    assert torch_backend.FALLBACKS[0][2] == "1 (Dropout)"


def test_fallbacks_in_a_chain():
    def f(x):
        a = torch.fft.fft(x).abs()
        b = torch.special.airy_ai(a.mean(-1, keepdim=True) + x)
        return (b * a).softmax(-1), a.t()

    expected = f(x := array(3, 4))
    assert_same(compiled(f)(x), expected)
    assert {name for name, _, _ in torch_backend.FALLBACKS} >= {"aten.special_airy_ai.default"}


def test_sizes_that_depend_on_elements():
    agree(lambda x: x[x > 0] * 2 + 1, array(3, 4))


def test_random_numbers_are_eagers():
    def f(x):
        return F.dropout(x * 2, 0.4, True) + torch.rand_like(x) + F.dropout(x.exp(), 0.2, True)

    x = array(30, 40)
    torch.manual_seed(1)
    expected = f(x)
    torch.manual_seed(1)
    assert_same(compiled(f)(x), expected)


def test_options():
    x = array(3)
    agree(lambda x: x + 1, x, options={"mode": "kernels", "effort": "quick", "search_budget": 0})
    for options, said in (({"modes": 1}, "no option 'modes'; it has mode, effort, search_budget, max_sizes"),
                          ({"mode": "max-autotune"}, r"one of inductor's; leave mode out.*'effort': 'full'"),
                          ({"mode": "fast"}, "mode='fast' is not one of 'auto', 'kernels', 'megakernel'"),
                          ({"effort": "much"}, "'quick'"),
                          ({"max_sizes": -1}, "max_sizes=-1"),
                          ({"search_budget": -1}, "search_budget=-1")):
        with pytest.raises(Exception, match=said):
            compiled(lambda x: x + 1, options=options)(x)


def test_the_compiler_may_refuse(monkeypatch, caplog):
    import strata

    def refuse(*_, **__):
        raise strata.Error("t.hlo:1:1: error: refused for the test")

    monkeypatch.setattr(strata, "compile_hlo", refuse)
    with caplog.at_level(logging.WARNING, "strata"):
        assert_same(compiled(lambda x: (x + 1).exp())(x := array(3)), (x + 1).exp())
    assert "refused for the test" in caplog.text


def test_every_name_of_the_table_is_an_operator():
    assert set(registry.MISSING) <= {"prims._convert_element_type.default", "aten.mm.dtype", "aten.bmm.dtype",
                                     "aten._batch_norm_with_update_functional.default"}
    assert len(registry.RULES) > 250


def test_compare(capsys, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    found = debug.compare(model, [array(3, 4)])
    assert found.agrees and "ratio" in capsys.readouterr().out
    assert debug.compare(torch.nn.Linear(4, 8), array(1, 4)).rows[0].dtype == torch.float32
    with pytest.raises(strata.Error, match="inputs is dict\n  give the model's positional arguments"):
        debug.compare(model, {"input": array(3, 4)})
    gelu = torch.ops.aten.gelu.default
    right = registry.RULES[gelu]
    monkeypatch.setitem(registry.RULES, gelu, lambda c, x, **k: c.mul(right(c, x, **k), 1.01))
    found = debug.compare(model, [array(3, 4)])
    assert not found.agrees and found.culprit.startswith("aten.gelu.default")
    assert "differs" in capsys.readouterr().out


def test_checks_cut_nothing():
    """F.one_hot looks at its argument, which the graph computes, while it runs."""
    def f(x):
        return torch.nn.functional.one_hot((x * 2).long().clamp(0, 4), 5) @ (x.sum() + torch.arange(5))[:, None].long()

    agree(f, array(6))


def test_the_name_of_the_backend():
    """Of a package in a build folder, before anything of it is imported."""
    script = "import torch; print('strata' in torch._dynamo.list_backends()); " \
             "print(torch.compile(lambda x: x + 1, backend='strata')(torch.ones(2)).tolist())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(pathlib.Path(strata.__file__).parents[1])})
    assert done.stdout.split("\n")[:2] == ["True", "[2.0, 2.0]"], done.stderr


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_of_nothing(loss):
    for shapes in (((0, 3), (0, 3)), ((0, 3), (0, 1))):
        x, y = (torch.zeros(shape, requires_grad=True) for shape in shapes)
        got = compiled(loss)(x, y)
        assert got.isnan() and loss(x, y).isnan()
        got.backward()
        assert x.grad.shape == x.shape and y.grad.shape == y.shape
    x, y = array(2, 3).requires_grad_(), array(2, 3)
    assert_same(torch.autograd.grad(compiled(loss)(x, y), x), torch.autograd.grad(loss(x, y), x))


def test_attention_to_no_key_has_gradients():
    q, k, v = array(1, 2, 4, 8), array(1, 2, 0, 8), array(1, 2, 0, 5)
    for given in ([q.clone().requires_grad_(), k, v], [q, k, v.clone().requires_grad_()]):
        got, wanted = compiled(F.scaled_dot_product_attention)(*given), F.scaled_dot_product_attention(*given)
        assert got.requires_grad and wanted.requires_grad and got.shape == wanted.shape
        (one,) = (one for one in given if one.requires_grad)
        assert torch.equal(torch.autograd.grad(got.sum(), one)[0], torch.zeros_like(one))


def test_what_strata_compiled_before_is_no_fallback():
    text = "graph kept {\n  input X: f32[3, 3]\n  Y = matmul(X, X)\n  output Y\n}\n"
    operator = strata.optimize(text, effort="none", cache="").torch_operator()
    x = array(3, 3)
    agree(lambda x: operator(x * 2) + 1, x)
    torch.testing.assert_close(compiled(lambda x: operator(x) + 1)(x), x @ x + 1)


def test_a_convolution_of_nothing_says_so():
    w = array(4, 3, 3, 3)
    agree(lambda x: F.conv2d(x, w) + 1, torch.zeros(0, 3, 8, 8), fallbacks=["aten.convolution.default"])
    assert torch_backend.FALLBACKS[0][1] == "a convolution of (0, 3, 8, 8) by (4, 3, 3, 3) has no elements"
