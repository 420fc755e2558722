"""Kernels and modules as operators of torch: registration, tracing, gradients, and what is refused."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import strata  # noqa: E402

FORWARD = """graph scaled_sum {
  input X: f32[6, 8]
  input W: f32[8, 4]
  Y = matmul(X, W)
  output Y
}
"""
BACKWARD = """graph scaled_sum_backward {
  input X: f32[6, 8]
  input W: f32[8, 4]
  input G: f32[6, 4]
  Wt = transpose(W, perm=[1, 0])
  DX = matmul(G, Wt)
  Xt = transpose(X, perm=[1, 0])
  DW = matmul(Xt, G)
  output DX, DW
}
"""
TWO = """graph two {
  input X: f16[4, 8]
  A = sqr(X)
  B = exp(X)
  output A, B
}
"""
HLO = """HloModule twice
ENTRY main {
  x = f32[2,3] parameter(0)
  ROOT y = f32[2,3] add(x, x)
}
"""


def optimized(text):
    return strata.optimize(text, effort="none", cache="")


@pytest.fixture(scope="module")
def kernel():
    return optimized(FORWARD)


def tensors(grad=False):
    torch.manual_seed(1)
    return [torch.randn(shape, requires_grad=grad) for shape in ((6, 8), (8, 4))]


class Model(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op
        self.w = torch.nn.Parameter(tensors()[1])

    def forward(self, x):
        return self.op(x.sin(), self.w).cos()


def wanted(x):
    return (x.sin() @ tensors()[1]).cos()


def test_call(kernel):
    op = kernel.torch_operator()
    x, w = tensors()
    torch.testing.assert_close(op(x, w), x @ w)
    torch.testing.assert_close(op(x.T.contiguous().T, w), x @ w)
    assert op is kernel.torch_operator() and str(op).startswith("strata.scaled_sum_")
    two = optimized(TWO).torch_operator("strata_tests::two")
    square, exponential = two(x[:4].half())
    torch.testing.assert_close(square, x[:4].half() ** 2)
    torch.testing.assert_close(exponential, x[:4].half().exp(), rtol=2e-3, atol=0)


def test_opcheck(kernel):
    torch.library.opcheck(kernel.torch_operator(), tensors())
    with torch.no_grad():
        torch.library.opcheck(kernel.torch_operator(), tensors(grad=True))
    torch.library.opcheck(optimized(TWO).torch_operator(), (torch.randn(4, 8).half(),))
    both = kernel.torch_operator("strata_tests::differentiable", backward=optimized(BACKWARD))
    torch.library.opcheck(both, tensors(grad=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "strata"])
def test_compile(kernel, backend):
    if backend == "strata":
        from strata import torch_backend

        backend = torch_backend.backend
    torch._dynamo.reset()
    x = tensors()[0]
    if backend == "inductor":  # beside the operator alone: what is compiled by a C++ compiler takes long
        op, (x, w) = kernel.torch_operator(), tensors()
        torch.testing.assert_close(torch.compile(lambda *of: op(*of), fullgraph=True)(x, w), x @ w)
        return
    run = torch.compile(Model(kernel.torch_operator()), backend=backend, fullgraph=True)
    torch.testing.assert_close(run(x), wanted(x), rtol=1e-4, atol=1e-4)


def test_export(kernel, tmp_path):
    kernel.save(tmp_path / "k")
    x = tensors()[0]
    exported = torch.export.export(Model(kernel.torch_operator()), (x,))
    assert any(str(node.target).startswith("strata.scaled_sum_") for node in exported.graph.nodes)
    torch.testing.assert_close(exported.run_decompositions().module()(x), wanted(x), rtol=1e-4, atol=1e-4)
    torch.export.save(exported, tmp_path / "model.pt2")
    torch.save((x, wanted(x)), tmp_path / "data.pt")
    code = f"""if True:
        import sys, torch
        sys.path[:0] = {sys.path!r}
        import strata
        strata.load({str(tmp_path / "k")!r}).torch_operator()
        x, wanted = torch.load({str(tmp_path / "data.pt")!r})
        found = torch.export.load({str(tmp_path / "model.pt2")!r}).module()(x)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("how", ["eager", "aot_eager"])
def test_gradients(kernel, how):
    torch._dynamo.reset()
    op = kernel.torch_operator("strata_tests::differentiable", backward=optimized(BACKWARD))
    run = op if how == "eager" else torch.compile(lambda x, w: op(x, w), backend=how, fullgraph=True)
    for scale in (None, torch.randn(6, 4)):
        found, exact = tensors(grad=True), tensors(grad=True)
        for function, (x, w) in ((run, found), (torch.matmul, exact)):
            result = function(x, w)
            (result.sum() if scale is None else (result * scale).sum()).backward()
        for one, other in zip(found, exact):
            torch.testing.assert_close(one.grad, other.grad)


def test_gradient_by_a_function(kernel):
    op = kernel.torch_operator("strata_tests::by_function", backward=lambda x, w, g: (g @ w.T, x.T @ g))
    x, w = tensors(grad=True)
    op(x, w).sum().backward()
    torch.testing.assert_close((x.grad, w.grad), (torch.ones(6, 4) @ w.T, x.T @ torch.ones(6, 4)))
    wrong = kernel.torch_operator("strata_tests::one_gradient", backward=lambda x, w, g: g @ w.T)
    with pytest.raises(strata.Error, match="backward gave 1 gradients, and 2 inputs have one"):
        wrong(*tensors(grad=True)).sum().backward()


@pytest.mark.parametrize("how", ["eager", "aot_eager", "inductor"])
def test_no_gradient(kernel, how):
    torch._dynamo.reset()
    op = kernel.torch_operator()
    run = op if how == "eager" else torch.compile(lambda x, w: op(x, w), backend=how, fullgraph=True)
    x, w = tensors(grad=True)
    result = run(x, w)  # a model's parameters ask for gradients: the forward half is no error
    torch.testing.assert_close(result, x @ w)
    with pytest.raises(strata.Error, match=r"strata::scaled_sum_\w+ has no gradient\n.*backward="):
        result.sum().backward()


@pytest.mark.filterwarnings("ignore:.*batching rule")
def test_transformations(kernel):
    op, (x, w) = kernel.torch_operator("strata_tests::differentiable", backward=optimized(BACKWARD)), tensors(grad=True)
    several = torch.randn(3, 6, 8, requires_grad=True)
    found = torch.vmap(op, (0, None))(several, w)
    found.sum().backward()
    torch.testing.assert_close(found, several @ w)
    torch.testing.assert_close(several.grad, torch.ones(3, 6, 4) @ w.T)
    # What a formula alone does here is zeros.
    with torch.autograd.forward_ad.dual_level(), pytest.raises(strata.Error, match="no derivative in forward mode"):
        op(torch.autograd.forward_ad.make_dual(x, x), w)
    with pytest.raises(strata.Error, match="not differentiated by torch.func"):
        torch.func.jvp(op, (x, w), (x, w))


def test_call_without_the_operator(kernel):
    x, w = tensors()
    run = torch.compile(lambda x: kernel(x.sin(), w)[0].cos(), backend="aot_eager")  # with a break in the graph
    torch.testing.assert_close(run(x), wanted(x), rtol=1e-4, atol=1e-4)
    with torch._subclasses.FakeTensorMode(), pytest.raises(strata.Error, match="has no elements.*\n.*torch_operator"):
        kernel(torch.empty(6, 8), torch.empty(8, 4))


def test_module():
    module = strata.compile_hlo(HLO, target="cpu")
    op = module.torch_operator()
    assert op is strata.compile_hlo(HLO, target="cpu").torch_operator() and "strata.module_" in str(op)
    x = torch.randn(2, 3)
    torch.library.opcheck(op, (x,))
    assert torch.equal(torch.compile(lambda x: op(x), backend="aot_eager", fullgraph=True)(x), 2 * x)
    constant = HLO.replace("x = f32[2,3] parameter(0)", "x = f32[2,3] constant({{1,2,3},{4,5,6}})")
    with pytest.raises(strata.Error, match="without inputs is no operator"):
        strata.compile_hlo(constant, target="cpu").torch_operator()


def test_refused(kernel):
    op, (x, w) = kernel.torch_operator(), tensors()
    with pytest.raises(strata.Error, match=r"input 0 \('X'\) is f32\[6,8\]; got f32\[5,8\]"):
        op(x[:5], w)
    for bad in (x[:5], x.double()):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=r"input 0 \('X'\) is f32\[6,8\]; got torch.float"):
            torch.compile(lambda x, w: op(x, w), backend="eager", fullgraph=True)(bad, w)
    with pytest.raises(strata.Error, match="no name of an operator\n.*namespace::name"):
        kernel.torch_operator("name")
    with pytest.raises(strata.Error, match="no name of an operator"):
        kernel.torch_operator("aten::name")
    with pytest.raises(strata.Error, match="exists in torch already"):
        kernel.torch_operator("quantized::add")
    kernel.torch_operator("strata_tests::taken")
    with pytest.raises(strata.Error, match="registered, with another function"):
        optimized(TWO).torch_operator("strata_tests::taken")
    with pytest.raises(strata.Error, match=r"backward takes \(f16\[4,8\]\)[\s\S]*must take .*f32\[6,8\],"):
        kernel.torch_operator("strata_tests::mismatched", backward=optimized(TWO))
    with pytest.raises(strata.Error, match="backward is int"):
        kernel.torch_operator("strata_tests::number", backward=3)
