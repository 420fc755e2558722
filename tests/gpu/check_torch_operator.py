#!/usr/bin/env python3
"""Operators of torch from kernels, on a GPU: results, torch.compile, CUDA graphs, streams, gradients.

usage: check_torch_operator.py    needs a GPU, PyTorch with CUDA, and the package strata; the exit code is the number of
failures
"""

import pathlib
import sys

import torch
from checks import tried

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from test_torch_operator import BACKWARD, FORWARD, HLO, TWO, tensors  # noqa: E402

import strata  # noqa: E402

CLOSE = {"rtol": 5e-3, "atol": 5e-3}


def kernel(text=FORWARD):
    return strata.optimize(text, effort="none", cache="")


def on_gpu(grad=False):
    return [one.detach().cuda().requires_grad_(grad) for one in tensors()]


def check_results():
    x, w = on_gpu()
    torch.testing.assert_close(kernel().torch_operator()(x, w), x @ w, **CLOSE)
    square, _ = kernel(TWO).torch_operator()(x[:4].half())
    torch.testing.assert_close(square, x[:4].half() ** 2)
    both = torch.ones(2, 3, device="cuda")
    torch.testing.assert_close(strata.compile_hlo(HLO, target="gpu").torch_operator()(both), 2 * both)


def check_opcheck():
    torch.library.opcheck(kernel().torch_operator(), on_gpu())


def check_graph():
    op, (x, w) = kernel().torch_operator(), on_gpu()
    op(x, w)  # which loads the code
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        found = op(x, w)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(found, x @ w, **CLOSE)


def check_reduced_overhead():
    op, (x, w) = kernel().torch_operator(), on_gpu()
    run = torch.compile(lambda x, w: op(x, w), mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        x = torch.randn_like(x)
        torch.testing.assert_close(run(x, w), x @ w, **CLOSE)
    counters = torch._dynamo.utils.counters["inductor"]
    assert counters["cudagraph_skips"] == 0, counters


def check_stream():
    op, (x, w) = kernel().torch_operator(), on_gpu()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = op(x, w)
    stream.synchronize()
    torch.testing.assert_close(found, x @ w, **CLOSE)


def check_gradients():
    op = kernel().torch_operator("strata_gpu::differentiable", backward=kernel(BACKWARD))
    found, exact = on_gpu(grad=True), on_gpu(grad=True)
    op(*found).sum().backward()
    torch.matmul(*exact).sum().backward()
    for one, other in zip(found, exact):
        torch.testing.assert_close(one.grad, other.grad, **CLOSE)


def main():
    checks = (check_results, check_opcheck, check_graph, check_reduced_overhead, check_stream, check_gradients)
    sys.exit(sum(tried(check.__name__, check) for check in checks))


if __name__ == "__main__":
    main()
