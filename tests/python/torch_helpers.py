"""What the tests of the torch front end share."""

import copy

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from strata import torch_backend
from strata.torch_backend.decompositions import decomposition_table
from strata.torch_backend.options import Options
from strata.torch_backend.partition import Part, partition
from strata.torch_backend.runtime import GraphProgram
from strata.torch_backend.search_time import SearchTime
from strata.torch_backend.writer import write_module

TABLE = decomposition_table()
# By how many units in the last place of the largest element results may differ from eager ones.
UNITS = {torch.float64: 64, torch.float32: 64, torch.float16: 4, torch.bfloat16: 4}


def graph_of(function, *shapes, dtype=torch.float32, device="cuda"):
    """The graph of arrays of these shapes that are not there."""
    with FakeTensorMode():
        inputs = [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
        graph = make_fx(function, decomposition_table=TABLE)(*inputs)
    graph.graph.eliminate_dead_code()
    return graph


def module_lines(graph):
    """The lines of the modules that a graph is compiled as."""
    parts = [step for step in partition(graph.graph).steps if isinstance(step, Part)]
    return [line for p in parts for line in write_module("m", p.nodes, p.inputs, p.outputs).text.splitlines()]


def array(*shape, dtype=torch.float32, low=-3.0, high=3.0):
    """Random numbers of any type."""
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(dtype)
    return torch.randint(int(low), int(high) + 1, shape, dtype=torch.int64).to(dtype)


def assert_same(got, expected, units=None, strides=True):
    """Types, shapes, strides and values."""
    assert type(got) is type(expected) or isinstance(got, torch.Tensor)
    if isinstance(expected, (list, tuple, dict)):
        assert len(got) == len(expected)
        for one, other in zip(*map(torch.utils._pytree.tree_leaves, (got, expected)), strict=True):
            assert_same(one, other, units, strides)
        return
    if not isinstance(expected, torch.Tensor):
        assert got == expected
        return
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if strides and expected.numel() > 1:
        there = [s for s, n in zip(expected.stride(), expected.shape) if n > 1]
        assert [s for s, n in zip(got.stride(), got.shape) if n > 1] == there
    if not expected.dtype.is_floating_point:
        assert torch.equal(got, expected), (got, expected)
        return
    finite = expected[expected.isfinite()].double().abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    tolerance = (units or UNITS[expected.dtype]) * torch.finfo(expected.dtype).eps * max(scale, 1e-3)
    torch.testing.assert_close(got.double(), expected.double(), rtol=0, atol=tolerance, equal_nan=True)


def lowered(function, *inputs, fallbacks=()):
    """The results of a function of tensors by its lowered graph. Exactly the named operators run in torch."""
    torch_backend.FALLBACKS.clear()
    graph = make_fx(lambda *given: function(*given), decomposition_table=TABLE, tracing_mode="fake")(*inputs)
    graph = make_fx(torch.func.functionalize(graph, remove="mutations"), tracing_mode="fake")(*inputs)
    graph.graph.eliminate_dead_code()
    program = GraphProgram(graph, Options(), "test", SearchTime(Options(), "test"))
    assert sorted({name for name, _, _ in torch_backend.FALLBACKS}) == sorted(fallbacks), torch_backend.FALLBACKS
    results = program(list(inputs))
    return results[0] if len(results) == 1 else results


def check(function, *inputs, units=None, fallbacks=(), strides=True):
    expected = function(*(i.clone() for i in inputs))
    expected = list(expected) if isinstance(expected, (list, tuple)) else expected
    assert_same(lowered(function, *inputs, fallbacks=fallbacks), expected, units, strides)


def compiled(module, **options):
    torch._dynamo.reset()
    torch_backend.FALLBACKS.clear()
    return torch.compile(module, backend=torch_backend.backend, **options)


def check_training(module, *inputs, units=None, fallbacks=(), seed=3, **options):
    """Results, gradients of parameters and inputs, and buffers of a module, beside eager mode's."""
    eager = copy.deepcopy(module)
    runs = []
    for run in (eager, compiled(module, **options)):
        torch.manual_seed(seed)
        arguments = [i.detach().clone().requires_grad_(i.is_floating_point()) for i in inputs]
        result = run(*arguments)
        result.square().mean().backward()
        owner = eager if run is eager else module
        grads = [p.grad for p in owner.parameters()] + [a.grad for a in arguments if a.requires_grad]
        runs.append([result.detach(), *grads, *owner.buffers()])
    assert sorted({name for name, _, _ in torch_backend.FALLBACKS}) == sorted(fallbacks), torch_backend.FALLBACKS
    assert_same(runs[1], runs[0], units, strides=False)
