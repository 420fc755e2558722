#!/usr/bin/env python3
"""The torch front end on a GPU, beside eager mode: results, gradients, streams, CUDA graphs, times.

usage: check_torch.py    needs a GPU, PyTorch with CUDA, and the package strata; the exit code is the number of failures
"""

import copy
import logging
import pathlib
import sys
import time

import torch
from checks import tried

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from test_torch_models import Block, Images  # noqa: E402
from torch_helpers import array  # noqa: E402

from strata import debug, torch_backend  # noqa: E402

logging.basicConfig(format="%(message)s")


def compiled(model):
    torch._dynamo.reset()
    return torch.compile(model, backend=torch_backend.backend, options={"effort": "none"})


def cases(dtype):
    return {"block": (Block(64, 8, 2).to("cuda", dtype), torch.randint(1, 11, (4, 32), device="cuda")),
            "images": (Images().to("cuda", dtype), array(4, 3, 32, 32, dtype=dtype).cuda()),
            "encoder": (torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, activation="gelu", batch_first=True)
                        .to("cuda", dtype).eval(), array(3, 77, 64, dtype=dtype).cuda())}


def check_results(name, dtype):
    model, x = cases(dtype)[name]
    found = debug.compare(model, [x], show=False)
    assert found.agrees, f"\n{found}"
    return f"error {found.rows[0].ratio:.2f} × eager's"


def check_gradients(name, dtype):
    model, x = cases(dtype)[name]
    exact, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    errors = []
    for run, owner in ((exact, exact), (eager, eager), (compiled(model), model)):
        run(x.double() if run is exact and x.is_floating_point() else x).double().square().mean().backward()
        errors.append([p.grad for p in owner.parameters()])
    ours, theirs = (sum(map(debug.error, errors[i], errors[0])) / len(errors[0]) for i in (2, 1))
    assert ours <= max(2 * theirs, torch.finfo(dtype).eps), (ours, theirs)
    return f"error {ours / theirs:.2f} × eager's"


def check_stream(name, dtype):
    model, x = cases(dtype)[name]
    run = compiled(model.eval())
    with torch.no_grad():
        expected = run(x)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            got = run(x)
        stream.synchronize()
        torch.testing.assert_close(got, expected)


def check_graph(name, dtype):
    model, x = cases(dtype)[name]
    run = compiled(model.eval())
    with torch.no_grad():
        for _ in range(3):
            expected = run(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = run(x)
        got.zero_()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(got, expected)


def attend(keys, query, row):
    """A step of decoding: a row is added to a cache, and all rows are read."""
    keys[:, :, -1:] = row
    scores = torch.softmax(query.float() @ keys.float().transpose(-1, -2), -1)
    return (scores @ keys.float()).to(keys.dtype)


def moved(keys, query, row):
    """Rows that are read where others are written."""
    keys[:, :, 1:] = keys[:, :, :-1].clone()
    return keys.float().sum(2) + query.float().sum(2) + row.float().sum(2)


def scaled(keys, query, row):
    keys.mul_(0.5).add_(row)
    return keys + query


CACHES = {
    "dense": lambda dtype: array(2, 4, 96, 64, dtype=dtype).cuda(),
    "transposed": lambda dtype: array(2, 96, 4, 64, dtype=dtype).cuda().transpose(1, 2),
    "with gaps": lambda dtype: array(2, 4, 96, 128, dtype=dtype).cuda()[..., :64],
    "within another": lambda dtype: array(1 + 2 * 4 * 96 * 64, dtype=dtype).cuda()[1:].view(2, 4, 96, 64),
}


def check_cache(name, dtype):
    """Arguments that a function changes have what eager mode leaves in them, after several calls."""
    function = {"attend": attend, "moved": moved, "scaled": scaled}[name]
    for make in CACHES.values():
        cache = make(dtype)
        theirs, run = cache.clone(), compiled(function)
        place = cache.data_ptr()
        for _ in range(3):
            query, row = array(2, 4, 1, 64, dtype=dtype).cuda(), array(2, 4, 1, 64, dtype=dtype).cuda()
            expected, got = function(theirs, query, row), run(cache, query, row)
            tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-4
            torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)
            torch.testing.assert_close(cache, theirs, atol=tolerance, rtol=tolerance)
        assert cache.data_ptr() == place


def check_cache_in_place():
    """What a step writes to a cache is its row: the time does not grow with the cache."""
    times = {}
    for rows in (1024, 65536):
        cache, row = torch.randn(8, rows, 128, device="cuda"), torch.randn(8, 1, 128, device="cuda")

        def write(cache, row):
            cache[:, -1:] = row
            return row * 2

        run = compiled(write)
        for _ in range(3):
            run(cache, row)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                run(cache, row)
        times[rows] = milliseconds(lambda _, g=graph: g.replay(), None)
    assert times[65536] < 4 * times[1024], times
    return f"{times[1024] * 50:.1f} and {times[65536] * 50:.1f} µs for 1,024 and 65,536 rows"


def milliseconds(run, x):
    for _ in range(5):
        run(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        run(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 20


def check_times(name, dtype):
    model, x = cases(dtype)[name]
    model.eval()
    with torch.no_grad():
        ours, eager = milliseconds(compiled(model), x), milliseconds(model, x)
    return f"{ours:.3f} ms, eager {eager:.3f} ms"


def main():
    failed = 0
    for dtype in (torch.float32, torch.bfloat16):
        for name in ("block", "images", "encoder"):
            for check in (check_results, check_gradients, check_stream, check_graph, check_times):
                failed += tried_anew(check, name, dtype)
        with torch.no_grad():
            failed += tried_anew(check_cache_in_place) if dtype == torch.float32 else 0
            for name in ("attend", "moved", "scaled"):
                failed += tried_anew(check_cache, name, dtype)
    sys.exit(failed)


def tried_anew(check, *arguments):
    """tried(), with a random state of its own, and what torch computed of the check's operators."""
    torch.manual_seed(0)
    torch_backend.FALLBACKS.clear()
    label = " ".join([check.__name__, *(str(one).removeprefix("torch.") for one in arguments)])
    failed = tried(label, check, *arguments)
    fell = {operator for operator, _, _ in torch_backend.FALLBACKS}
    if fell:
        print(f"  in torch: {fell}", flush=True)
    return failed


if __name__ == "__main__":
    main()
