"""How exactly convolutions of f32 are asked for, by torch's setting. No GPU: fake tensors lie on one."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

import torch.nn.functional as F  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch_helpers import TABLE, array, graph_of, module_lines  # noqa: E402

import strata  # noqa: E402
from strata.torch_backend.options import Options  # noqa: E402
from strata.torch_backend.partition import Part, partition  # noqa: E402
from strata.torch_backend.precision import has_rounded, rounds_convolutions  # noqa: E402
from strata.torch_backend.runtime import GraphProgram  # noqa: E402
from strata.torch_backend.search_time import SearchTime  # noqa: E402
from strata.torch_backend.writer import write_module  # noqa: E402

ROUNDED = "algorithm=dot_tf32_tf32_f32"


def set_precision(rounded: bool) -> None:
    """By the way of this version of torch."""
    cudnn = torch.backends.cudnn
    if hasattr(cudnn, "conv"):
        cudnn.conv.fp32_precision = "tf32" if rounded else "ieee"
    else:
        cudnn.allow_tf32 = rounded


@pytest.fixture(autouse=True)
def precision():
    """Rounded, as torch begins, and back to what was set."""
    before = rounds_convolutions()
    set_precision(True)
    yield
    set_precision(before)


def convolutions(*given, **options):
    """The lines of the module that convolve."""
    return [line for line in module_lines(graph_of(*given, **options)) if " convolution(" in line]


def training(n, *, transposed=False, groups=1):
    """A convolution and both of its gradients."""
    def step(x, w, grad):
        aten = torch.ops.aten
        rest = ([2] * n, [1] * n, [1] * n, transposed, [0] * n, groups)
        back = aten.convolution_backward(grad, x, w, None, *rest, [True, True, False])
        return aten.convolution(x, w, None, *rest), back[0], back[1]

    sizes = {1: (9,), 2: (9, 7), 3: (9, 7, 5)}[n]
    filters = (4, 8 // groups) if transposed else (8, 4 // groups)
    after = [(s - 1) * 2 + 1 if transposed else (s - 1) // 2 + 1 for s in sizes]
    return step, (2, 4, *sizes), (*filters, *[3] * n), (2, 8, *after)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("transposed", "groups"), [(False, 1), (False, 2), (False, 4), (True, 1), (True, 2)])
def test_convolutions_and_gradients_follow_the_setting(n, transposed, groups):
    given = training(n, transposed=transposed, groups=groups)
    for rounded in (True, False):
        set_precision(rounded)
        lines = convolutions(*given)
        assert [ROUNDED in line for line in lines] == [rounded] * 3, lines


@pytest.mark.parametrize("options", [{"dtype": torch.bfloat16}, {"dtype": torch.float64}, {"device": "cpu"}])
def test_other_types_and_the_processor_are_left_alone(options):
    lines = convolutions(*training(2), **options)
    assert len(lines) == 3 and not any("algorithm" in line for line in lines)


def test_products_have_a_setting_of_their_own():
    plan = partition(graph_of(lambda x, w: F.conv2d(x, w) @ x[0, 0], (2, 4, 8, 8), (4, 4, 1, 1)).graph)
    (part,) = [step for step in plan.steps if isinstance(step, Part)]
    lines = write_module("m", part.nodes, part.inputs, part.outputs).text.splitlines()
    assert [ROUNDED in line for line in lines if " dot(" in line] == [False]
    assert [ROUNDED in line for line in lines if " convolution(" in line] == [True]


def test_the_setting_in_all_its_forms():
    cudnn = torch.backends.cudnn
    assert rounds_convolutions()
    with cudnn.flags(enabled=True, allow_tf32=False):
        assert not rounds_convolutions()
    with cudnn.flags(enabled=False, allow_tf32=True):
        assert not rounds_convolutions()
    cudnn.allow_tf32 = False
    assert not rounds_convolutions()
    cudnn.allow_tf32 = True
    assert rounds_convolutions()
    if hasattr(cudnn, "conv"):
        cudnn.conv.fp32_precision = "ieee"  # allow_tf32 is an error now
        assert not rounds_convolutions()


class Compiled:
    """What a graph on a GPU is compiled of. It runs on the processor."""

    def __init__(self, monkeypatch):
        self.texts = []
        compile_hlo = strata.compile_hlo

        def compile_(text, **given):
            self.texts.append(text)
            return compile_hlo(text, **{**given, "target": "cpu"})

        monkeypatch.setattr(strata, "compile_hlo", compile_)

    def program(self, gm):
        return GraphProgram(gm, Options(effort="none"), "test", SearchTime(Options(effort="none"), "test"))


def test_a_changed_setting_compiles_the_graph_again(monkeypatch):
    compiled = Compiled(monkeypatch)
    program = compiled.program(graph_of(lambda x, w: F.conv2d(x, w).relu(), (2, 4, 8, 8), (6, 4, 3, 3)))
    x, w = array(2, 4, 8, 8), array(6, 4, 3, 3)
    expected = F.conv2d(x, w).relu()
    for rounded in (True, False, True, False):
        set_precision(rounded)
        torch.testing.assert_close(program([x, w]), [expected], rtol=1e-4, atol=1e-4)
    assert [ROUNDED in text for text in compiled.texts] == [True, False]


def test_graphs_without_such_convolutions_are_compiled_once(monkeypatch):
    compiled = Compiled(monkeypatch)
    program = compiled.program(graph_of(lambda x, w: F.conv2d(x, w), (2, 4, 8, 8), (6, 4, 3, 3), dtype=torch.bfloat16))
    given = array(2, 4, 8, 8, dtype=torch.bfloat16), array(6, 4, 3, 3, dtype=torch.bfloat16)
    for rounded in (True, False):
        set_precision(rounded)
        program(list(given))
    assert len(compiled.texts) == 1


def test_the_setting_is_read_in_functions_that_operators_call():
    from functorch.experimental.control_flow import cond

    def choose(flag, x, w):
        return cond(flag, lambda x, w: F.conv2d(x, w), lambda x, w: F.conv2d(x, w) * 2, (x, w))

    with FakeTensorMode():
        inputs = [torch.empty((), dtype=torch.bool, device="cuda"), *(
            torch.empty(shape, device="cuda") for shape in ((2, 4, 8, 8), (6, 4, 3, 3)))]
        graph = make_fx(choose, decomposition_table=TABLE)(*inputs)
    assert has_rounded(graph)
