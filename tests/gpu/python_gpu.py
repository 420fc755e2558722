#!/usr/bin/env python3
"""The Python package on a GPU: tensors of PyTorch go in and out without copies, on the caller's stream and into CUDA
graphs, and results agree with PyTorch's. Prints a table of times beside PyTorch's.

usage: PYTHONPATH=FOLDER_OF_THE_PACKAGE python3 python_gpu.py [--quick]

Needs PyTorch with CUDA. Exits with 1 where a check fails."""

import argparse
import gc
import sys
import threading
import time

from checks import tried
from cuda_library import name_toolkit_of_packages

name_toolkit_of_packages()

import torch  # noqa: E402

import strata  # noqa: E402

MLP = """
HloModule mlp
ENTRY main {{
  x = bf16[{rows},{size}] parameter(0)
  w1 = bf16[{size},{inner}] parameter(1)
  w2 = bf16[{inner},{size}] parameter(2)
  h = bf16[{rows},{inner}] dot(x, w1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  one = bf16[] constant(1)
  ones = bf16[{rows},{inner}] broadcast(one), dimensions={{}}
  n = bf16[{rows},{inner}] negate(h)
  e = bf16[{rows},{inner}] exponential(n)
  d = bf16[{rows},{inner}] add(ones, e)
  s = bf16[{rows},{inner}] divide(h, d)
  y = bf16[{rows},{size}] dot(s, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT z = bf16[{rows},{size}] add(y, x)
}}
"""

SOFTMAX = """
HloModule softmax
largest {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }}
total {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
ENTRY main {{
  x = f32[{rows},{size}] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[{rows}] reduce(x, low), dimensions={{1}}, to_apply=largest
  mb = f32[{rows},{size}] broadcast(m), dimensions={{0}}
  d = f32[{rows},{size}] subtract(x, mb)
  e = f32[{rows},{size}] exponential(d)
  s = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=total
  sb = f32[{rows},{size}] broadcast(s), dimensions={{0}}
  ROOT y = f32[{rows},{size}] divide(e, sb)
}}
"""

# Doubles x until it is at least 1000: a loop whose end depends on data.
LOOP = """
HloModule loop
total { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] add(a, b) }
body { x = f32[256] parameter(0)  ROOT y = f32[256] add(x, x) }
condition {
  x = f32[256] parameter(0)  zero = f32[] constant(0)
  s = f32[] reduce(x, zero), dimensions={0}, to_apply=total
  limit = f32[] constant(1000)
  ROOT less = pred[] compare(s, limit), direction=LT
}
ENTRY main { x = f32[256] parameter(0)  ROOT y = f32[256] while(x), condition=condition, body=body }
"""

RMSNORM = """graph rmsnorm {
  input X: f16[16, 1024]
  input G: f16[1024]
  input W: f16[1024, 4096]
  XG = mul(X, G)
  X2 = sqr(X)
  S = sum(X2, dim=1)
  M = scale(S, factor=1/1024)
  R = sqrt(M)
  Y = div(XG, R)
  O = matmul(Y, W)
  output O
}
"""

def softmax_module(rows=512, size=1024):
    return strata.compile_hlo(SOFTMAX.format(rows=rows, size=size), target="gpu")


def agree(found, expected, tolerance=1e-5):
    error = (found.double() - expected.double()).norm() / expected.double().norm()
    assert error <= tolerance, f"relative error {error:.2e}"
    return f"relative error {error:.1e}"


def right_without_copies():
    """results are right, and nothing but them is allocated"""
    module, x = softmax_module(), torch.randn(512, 1024, device="cuda")
    module(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    (y,) = module(x)
    grown = torch.cuda.memory_allocated() - before
    assert grown == y.nbytes, f"{grown} bytes for a result of {y.nbytes}"
    return agree(y, torch.softmax(x, 1))


def into_given_tensors():
    """out= writes into the given tensor"""
    module, x = softmax_module(), torch.randn(512, 1024, device="cuda")
    y = torch.empty_like(x)
    place = y.data_ptr()
    assert module(x, out=[y])[0] is y and y.data_ptr() == place
    return agree(y, torch.softmax(x, 1))


def views():
    """views with gaps, in another order, and that begin within a tensor"""
    module, x = softmax_module(), torch.randn(512, 1024, device="cuda")
    wanted = torch.softmax(x, 1)
    agree(module(x.t().contiguous().t())[0], wanted)
    agree(module(torch.cat([x, x], 1)[:, :1024])[0], wanted)
    shifted = torch.empty(512 * 1024 + 1, device="cuda")[1:].view(512, 1024).copy_(x)
    return agree(module(shifted)[0], wanted)


def callers_stream():
    """work is put on the caller's stream, and the host does not wait"""
    module, x = softmax_module(), torch.randn(512, 1024, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        module(x * 3)  # PyTorch's kernel is loaded and its memory on this stream allocated: either may wait
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(int(4e8))  # about 0.2 s
        scaled = x * 3
        assert not stream.query(), "the stream is empty before the call"
        start = time.perf_counter()
        (y,) = module(scaled)
        seconds = time.perf_counter() - start
        assert not stream.query(), f"the stream is empty after {seconds:.3f} s: the host waited"
    torch.cuda.current_stream().wait_stream(stream)
    agree(y, torch.softmax(x * 3, 1))
    return f"the call took the host {seconds * 1e6:.0f} µs"


def two_streams():
    """calls on two streams in turn, which share the module's memory"""
    module = strata.compile_hlo(MLP.format(rows=512, size=1024, inner=4096), target="gpu")
    x, w1, w2 = (torch.randn(*s, device="cuda", dtype=torch.bfloat16) / 32 for s in MLP_SHAPES(512, 1024, 4096))
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    results = []
    for i in range(40):
        with torch.cuda.stream(streams[i % 2]):
            results.append((i, module(x * (i + 1), w1, w2)[0]))
    torch.cuda.synchronize()
    return [agree(y, mlp(x * (i + 1), w1, w2), 2e-2) for i, y in results][-1]


def several_threads():
    """calls from four threads"""
    module = softmax_module()
    wrong = []

    def work(seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(25):
                x = torch.randn(512, 1024, device="cuda", generator=generator)
                if not torch.allclose(module(x)[0], torch.softmax(x, 1), rtol=1e-4, atol=1e-7):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong, f"wrong in threads {wrong}"


def recorded(module, inputs, change):
    """A CUDA graph of a call, replayed on other inputs."""
    module(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = module(*inputs)
    change()
    graph.replay()
    torch.cuda.synchronize()
    return results


def cuda_graph():
    """a call in a CUDA graph is replayed on new inputs"""
    x = torch.randn(512, 1024, device="cuda")
    (y,) = recorded(softmax_module(), [x], lambda: x.normal_())
    return agree(y, torch.softmax(x, 1))


def library_in_cuda_graph():
    """a module with products by the library in a CUDA graph"""
    x, w1, w2 = (torch.randn(*s, device="cuda", dtype=torch.bfloat16) / 32 for s in MLP_SHAPES(512, 1024, 4096))
    module = strata.compile_hlo(MLP.format(rows=512, size=1024, inner=4096), target="gpu")
    (y,) = recorded(module, [x, w1, w2], lambda: x.mul_(2))
    return agree(y, mlp(x, w1, w2), 2e-2)


def loop():
    """a loop whose end depends on data, called and in a CUDA graph"""
    module, x = strata.compile_hlo(LOOP, target="gpu"), torch.full((256,), 0.5, device="cuda")
    agree(module(x)[0], torch.full((256,), 4.0, device="cuda"))
    (y,) = recorded(module, [x], lambda: x.fill_(0.25))
    return agree(y, torch.full((256,), 4.0, device="cuda"))


def memory_is_released():
    """device memory is free again when a module is dropped"""
    softmax_module()
    text = MLP.format(rows=8192, size=1024, inner=8192)
    gc.collect()
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    module = strata.compile_hlo(text, target="gpu")
    held, taken = module.device_bytes, free - torch.cuda.mem_get_info()[0]
    del module
    gc.collect()
    left = free - torch.cuda.mem_get_info()[0]
    assert taken >= held and left < held / 4, f"held {held}, taken {taken}, left {left}"
    return f"{held >> 20} MiB held, {taken >> 20} MiB taken, {left >> 20} MiB left"


def wrong_arrays():
    """arrays that do not fit are refused in words"""
    module = softmax_module()
    for given, message in [(torch.zeros(512, 1024), "on cpu"), (torch.zeros(4, 4, device="cuda"), "got f32[4,4]")]:
        try:
            module(given)
        except strata.Error as error:
            assert message in str(error), error
        else:
            raise AssertionError("taken")


def superoptimized():
    """a program is searched, measured, called and recorded"""
    kernel = strata.optimize(RMSNORM, search_seconds=ARGUMENTS.search_seconds)
    x, g = torch.randn(16, 1024, device="cuda").half(), torch.randn(1024, device="cuda").half()
    w = (torch.randn(1024, 4096, device="cuda") / 32).half()
    wanted = lambda: (x.double() * g / x.double().pow(2).mean(1, keepdim=True).sqrt()) @ w.double()
    agree(kernel(x, g, w)[0], wanted(), 5e-3)
    (y,) = recorded(kernel, [x, g, w], lambda: x.normal_())
    agree(y, wanted(), 5e-3)
    again = strata.optimize(RMSNORM, config=kernel.config())
    agree(again(x, g, w)[0], wanted(), 5e-3)
    eager = lambda x, g, w: torch.nn.functional.rms_norm(x, (1024,), g) @ w
    ROWS.append(("RMSNorm + linear, 16 × 1024 × 4096, f16", times(kernel, eager, [x, g, w])))
    return f"{kernel.headline}; {'; '.join(kernel.notes)}"


def torch_backend():
    """torch.compile(backend="strata")"""
    import strata.torch_backend
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 4096), torch.nn.GELU(),
                                torch.nn.Linear(4096, 1024)).cuda().bfloat16()  # fmt: skip
    x = torch.randn(512, 1024, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        # A package that is no installed wheel has no entry point, which makes backend="strata" known by its name.
        compiled = torch.compile(model, backend=strata.torch_backend.backend)
        said = agree(compiled(x), model(x), 2e-2)
        ROWS.append(("LayerNorm, linear, GELU, linear, 512 × 1024, bf16", times(compiled, model, [x])))
    return said


def mlp(x, w1, w2):
    return torch.nn.functional.silu(x @ w1) @ w2 + x


def MLP_SHAPES(rows, size, inner):
    return (rows, size), (size, inner), (inner, size)


def replayed(function, inputs):
    """Microseconds of a run in a CUDA graph of 20; None where it cannot be recorded."""
    try:
        for _ in range(3):
            function(*inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                function(*inputs)
        return timed(graph.replay, 20) / 20
    except Exception as error:
        torch.cuda.synchronize()
        print(f"        not recorded: {str(error).splitlines()[0]}")
        return None


def timed(function, count):
    """Microseconds of a call on the device's clock: the median of `count`."""
    for _ in range(3):
        function()
    found = []
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) * 1e3)
    return sorted(found)[len(found) // 2]


def times(strata_function, torch_function, inputs):
    """(name, microseconds of calls, microseconds in a CUDA graph) of each."""
    functions = [("Strata", strata_function), ("eager", torch_function)]
    functions.append(("compile", torch.compile(torch_function)))
    if not ARGUMENTS.quick:
        functions.append(("max-autotune", torch.compile(torch_function, mode="max-autotune-no-cudagraphs")))
    found = []
    for name, function in functions:
        try:
            called = timed(lambda: function(*inputs), 50)
        except Exception as error:
            print(f"        {name}: {str(error).splitlines()[0]}")
            continue
        found.append((name, called, replayed(function, inputs)))
    return found


def modules():
    """modules beside torch.compile"""
    for rows, size in [(512, 1024), (4096, 4096)]:
        x = torch.randn(rows, size, device="cuda")
        softmax = lambda x: torch.softmax(x, 1)
        ROWS.append((f"softmax, {rows} × {size}, f32", times(softmax_module(rows, size), softmax, [x])))
    for rows, size, inner in [(16, 4096, 11008), (512, 1024, 4096), (4096, 4096, 4096)]:
        given = [torch.randn(*s, device="cuda", dtype=torch.bfloat16) / 32 for s in MLP_SHAPES(rows, size, inner)]
        module = strata.compile_hlo(MLP.format(rows=rows, size=size, inner=inner), target="gpu")
        ROWS.append((f"MLP, {rows} × {size} × {inner}, bf16", times(module, mlp, given)))


def print_rows():
    print(f"\n{'µs: called | in a CUDA graph':<52}" + "".join(f"{name:>22}" for name in
          ("Strata", "eager", "compile", "max-autotune")))  # fmt: skip
    for title, found in ROWS:
        cells = {name: f"{called:.1f} | {'-' if inside is None else f'{inside:.1f}'}" for name, called, inside in found}
        print(f"{title:<52}" + "".join(f"{cells.get(name, '-'):>22}" for name in
              ("Strata", "eager", "compile", "max-autotune")))  # fmt: skip


ROWS = []
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="without max-autotune")
parser.add_argument("--search-seconds", type=float, default=10)
ARGUMENTS = parser.parse_args()

if __name__ == "__main__":
    from strata.__main__ import doctor

    doctor()
    print(f"\nPyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}\n")
    checks = (right_without_copies, into_given_tensors, views, callers_stream, two_streams, several_threads,
              cuda_graph, library_in_cuda_graph, loop, memory_is_released, wrong_arrays, superoptimized,
              torch_backend, modules)  # fmt: skip
    failed = sum(tried(f"{one.__doc__}:", one) for one in checks)
    print_rows()
    print(f"\n{failed} failed")
    sys.exit(1 if failed else 0)
