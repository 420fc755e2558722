#!/usr/bin/env python3
"""Times routines of cuSOLVER and cuBLAS alone, and says which of them a CUDA graph holds: solver_routines.py.

Needs PyTorch with CUDA. Of f32, column by column: what src/runtime/matrix_solver.cpp and matrix_spectrum.cpp call.
Each is recorded by stream capture as src/runtime/recorded_graph.h does, ten runs one after the other, each after a
copy of its operand; the copy alone is taken off. "no graph" is what the capture says; then the time is that of runs
one after the other. The rates of src/machine/rates.def from solver_start to small_solve_row come from here, but
where their lines say otherwise: a line a routine, with microseconds and microseconds a column.
"""
import argparse
import ctypes
import pathlib
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/gpu"))
from cuda_library import open_cuda_library  # noqa: E402

RUNS, REPLAYS = 10, 15
ON_HOST = "host: "  # begins names of what waits on the host
LOWER, UPPER, LEFT, RIGHT, AS_IT_IS, NON_UNIT, VECTORS = 0, 1, 0, 1, 0, 0, 1

solver = open_cuda_library("STRATA_CUSOLVER", ["libcusolver.so.12", "libcusolver.so.11"])
blas = open_cuda_library("STRATA_CUBLAS", ["libcublas.so.13", "libcublas.so.12"])
handle, blas_handle = ctypes.c_void_p(), ctypes.c_void_p()


def check(status, what):
    if status != 0:
        raise RuntimeError(f"{what}: error {status}")


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def addresses(tensor):
    """Of the matrices of a batch."""
    step = tensor.stride(0) * tensor.element_size()
    all_of_them = [tensor.data_ptr() + i * step for i in range(tensor.shape[0])]
    return torch.tensor(all_of_them, dtype=torch.int64, device="cuda")


def sized(function, *arguments):
    """A workspace of as many numbers as the routine asks for."""
    count = ctypes.c_int()
    check(function(handle, *arguments, ctypes.byref(count)), function.__name__)
    return torch.empty(max(1, count.value), device="cuda"), count.value


def positive(batch, n):
    a = torch.randn(batch, n, n, device="cuda")
    return a @ a.mT / n + torch.eye(n, device="cuda")


def dominant(batch, n, columns=None):
    a = torch.randn(batch, n, columns or n, device="cuda") / n ** 0.5
    return a + 3 * torch.eye(n, columns or n, device="cuda")


def routines():
    """(name, operand, what works on a copy of it, columns). Everything that a call needs stays alive in its closure."""
    def info(batch):
        return torch.zeros(batch, dtype=torch.int32, device="cuda")

    for n in (64, 128, 301, 517, 1024, 2048):
        for triangle, name in ((UPPER, "upper"), (LOWER, "lower")):
            a, found = positive(1, n), info(1)
            work, count = sized(solver.cusolverDnSpotrf_bufferSize, triangle, n, pointer(a), n)
            yield f"potrf_{name} {n}", a, lambda x, t=triangle, n=n, w=work, c=count, i=found: (
                solver.cusolverDnSpotrf(handle, t, n, pointer(x), n, pointer(w), c, pointer(i))), n
        a, found, pivots = dominant(1, n), info(1), info(n)
        work, count = sized(solver.cusolverDnSgetrf_bufferSize, n, n, pointer(a), n)
        yield f"getrf {n}", a, lambda x, n=n, w=work, p=pivots, i=found: (
            solver.cusolverDnSgetrf(handle, n, n, pointer(x), n, pointer(w), pointer(p), pointer(i))), n
    for batch, n in ((3001, 5), (129, 19), (257, 33), (31, 47), (7, 93), (64, 128), (8, 256), (8, 512)):
        a, found, many = positive(batch, n), info(batch), {}

        def listed(x, many=many):
            if x.data_ptr() not in many:
                many[x.data_ptr()] = addresses(x)
            return pointer(many[x.data_ptr()])

        for triangle, name in ((UPPER, "upper"), (LOWER, "lower")):
            yield f"potrfBatched_{name} {batch} of {n}", a, lambda x, t=triangle, n=n, b=batch, i=found, at=listed: (
                solver.cusolverDnSpotrfBatched(handle, t, n, at(x), n, pointer(i), b)), n
        pivots = info(batch * n)
        a = dominant(batch, n)
        yield f"getrfBatched {batch} of {n}", a, lambda x, n=n, b=batch, p=pivots, i=found, at=listed: (
            blas.cublasSgetrfBatched(blas_handle, n, at(x), n, pointer(p), pointer(i), b)), n
        for sides in (1, 16, n):
            matrix, one = dominant(batch, n).tril(), ctypes.c_float(1)
            where, b = addresses(matrix), torch.randn(batch, n, sides, device="cuda")
            yield f"trsmBatched {batch} of {n} for {sides}", b, (
                lambda x, n=n, s=sides, b=batch, m=matrix, w=where, o=one, at=listed: blas.cublasStrsmBatched(
                    blas_handle, RIGHT, UPPER, AS_IT_IS, NON_UNIT, s, n, ctypes.byref(o), pointer(w), n, at(x), s,
                    b)), n
    for n, sides in ((301, 1), (301, 40), (1025, 1), (1025, 65), (1025, 1025), (4096, 64)):
        matrix, one = dominant(1, n).tril(), ctypes.c_float(1)
        b = torch.randn(1, n, sides, device="cuda")
        for side, name, rows, columns in ((RIGHT, "right", sides, n), (LEFT, "left", n, sides)):
            yield f"trsm_{name} {n} for {sides}", b, lambda x, e=side, r=rows, c=columns, n=n, m=matrix, o=one: (
                blas.cublasStrsm_v2(blas_handle, e, UPPER, AS_IT_IS, NON_UNIT, r, c, ctypes.byref(o), pointer(m), n,
                                    pointer(x), r)), n
    yield from routines_of_reflectors(info)


def routines_of_reflectors(info):
    """Of qr."""
    for m, n in ((64, 32), (517, 257), (2048, 512)):
        a, tau, found = dominant(1, n, m), torch.empty(n, device="cuda"), info(1)
        work, count = sized(solver.cusolverDnSgeqrf_bufferSize, m, n, pointer(a), m)
        yield f"geqrf {m}x{n}", a, lambda x, m=m, n=n, t=tau, w=work, c=count, i=found: (
            solver.cusolverDnSgeqrf(handle, m, n, pointer(x), m, pointer(t), pointer(w), c, pointer(i))), n
        work, count = sized(solver.cusolverDnSorgqr_bufferSize, m, n, n, pointer(a), m, pointer(tau))
        tau = torch.zeros(n, device="cuda")
        yield f"orgqr {m}x{n}", a, lambda x, m=m, n=n, t=tau, w=work, c=count, i=found: (
            solver.cusolverDnSorgqr(handle, m, n, n, pointer(x), m, pointer(t), pointer(w), c, pointer(i))), n
    yield from routines_of_values(info)


def whole(batch, m, n):
    """Matrices of m rows and n columns, column by column."""
    a = torch.randn(batch, n, m, device="cuda")
    return a + a.mT if m == n else a


def routines_of_values(info):
    """Of eigh and svd, as src/runtime/matrix_spectrum.cpp calls them. What no graph holds leaves the handle in disorder
    where it is recorded: the next call of it fails. So it has the last places, and is not recorded."""
    settings, rotations, singular = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(solver.cusolverDnCreateParams(ctypes.byref(settings)), "cusolverDnCreateParams")
    check(solver.cusolverDnCreateSyevjInfo(ctypes.byref(rotations)), "cusolverDnCreateSyevjInfo")
    check(solver.cusolverDnCreateGesvdjInfo(ctypes.byref(singular)), "cusolverDnCreateGesvdjInfo")
    wide, size, float_ = ctypes.c_int64, ctypes.c_size_t, 0  # CUDA_R_32F
    for batch, n in ((1, 8), (1, 20), (1, 32), (132, 32), (1000, 8), (1000, 32), (10000, 4)):
        a, values, found = whole(batch, n, n), torch.empty(batch * n, device="cuda"), info(batch)
        count = ctypes.c_int()
        check(solver.cusolverDnSsyevjBatched_bufferSize(handle, VECTORS, LOWER, n, pointer(a), n, pointer(values),
                                                        ctypes.byref(count), rotations, batch), "syevjBatched")
        work = torch.empty(max(1, count.value), device="cuda")
        yield f"syevjBatched {batch} of {n}", a, lambda x, n=n, v=values, w=work, c=count, i=found, b=batch: (
            solver.cusolverDnSsyevjBatched(handle, VECTORS, LOWER, n, pointer(x), n, pointer(v), pointer(w), c,
                                           pointer(i), rotations, b)), n
    for batch, m, n in ((1, 8, 8), (1, 32, 32), (500, 20, 20), (300, 32, 10), (1000, 32, 32)):
        a, values, found = whole(batch, m, n), torch.empty(batch * n, device="cuda"), info(batch)
        u, v = torch.empty(batch * m * m, device="cuda"), torch.empty(batch * n * n, device="cuda")
        count = ctypes.c_int()
        check(solver.cusolverDnSgesvdjBatched_bufferSize(
            handle, VECTORS, m, n, pointer(a), m, pointer(values), pointer(u), m, pointer(v), n, ctypes.byref(count),
            singular, batch), "gesvdjBatched")
        work = torch.empty(max(1, count.value), device="cuda")
        yield f"gesvdjBatched {batch} of {m}x{n}", a, lambda x, m=m, n=n, s=values, u=u, v=v, w=work, c=count, \
            i=found, b=batch: solver.cusolverDnSgesvdjBatched(handle, VECTORS, m, n, pointer(x), m, pointer(s),
                                                              pointer(u), m, pointer(v), n, pointer(w), c, pointer(i),
                                                              singular, b), n
    for batch, n in ((100, 33), (1, 64), (100, 64), (1, 128), (16, 128), (1, 256), (1, 512), (4, 512), (1, 1024)):
        a, values, found = whole(batch, n, n), torch.empty(batch * n, device="cuda"), info(batch)
        device, host = size(), size()
        check(solver.cusolverDnXsyevBatched_bufferSize(
            handle, settings, VECTORS, LOWER, wide(n), float_, pointer(a), wide(n), float_, pointer(values), float_,
            ctypes.byref(device), ctypes.byref(host), wide(batch)), "XsyevBatched")
        work = torch.empty(device.value, dtype=torch.uint8, device="cuda")
        here = ctypes.create_string_buffer(host.value + 1)
        name = f"{ON_HOST if n > 512 else ''}XsyevBatched {batch} of {n}"
        yield name, a, lambda x, n=n, v=values, w=work, d=device, h=here, g=host, i=found, \
            b=batch: solver.cusolverDnXsyevBatched(handle, settings, VECTORS, LOWER, wide(n), float_, pointer(x),
                                                   wide(n), float_, pointer(v), float_, pointer(w), d, h, g, pointer(i),
                                                   wide(b)), n



def milliseconds(work):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def replayed(stream, work):
    """Microseconds of one run, by replays of a graph of several."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(RUNS):
            work()
    graph.replay()
    return statistics.median(milliseconds(graph.replay) for _ in range(REPLAYS)) * 1e3 / RUNS


def measured(stream, operand, routine, recorded):
    """(microseconds, "graph" or why not, the same one after the other without a graph)."""
    copy = operand.clone()
    torch.cuda.synchronize()

    def run():
        copy.copy_(operand)
        check(routine(copy), "calling")

    def repeated():
        for _ in range(RUNS):
            run()

    with torch.cuda.stream(stream):
        run()
        stream.synchronize()
        plain = min(milliseconds(repeated) for _ in range(3)) * 1e3 / RUNS
        if not recorded:
            return plain, "the host waits", plain
        alone = replayed(stream, lambda: copy.copy_(operand))
        try:
            return replayed(stream, run) - alone, "graph", plain
        except RuntimeError as error:
            return plain, f"no graph: {str(error).splitlines()[0]}", plain


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="routines whose names begin so")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    stream = torch.cuda.Stream()
    check(solver.cusolverDnCreate(ctypes.byref(handle)), "cusolverDnCreate")
    check(blas.cublasCreate_v2(ctypes.byref(blas_handle)), "cublasCreate")
    workspace = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    at = ctypes.c_void_p(stream.cuda_stream)
    check(solver.cusolverDnSetStream(handle, at), "cusolverDnSetStream")
    check(blas.cublasSetStream_v2(blas_handle, at), "cublasSetStream")
    check(blas.cublasSetWorkspace_v2(blas_handle, pointer(workspace), ctypes.c_size_t(workspace.numel())), "workspace")
    print(torch.cuda.get_device_name())
    print(f"{'routine':34} {'µs':>9} {'a column':>9} {'one by one':>10}  how")
    for name, operand, routine, columns in routines():
        if not name.startswith(options.only):
            continue
        time, how, plain = measured(stream, operand, routine, not name.startswith(ON_HOST))
        print(f"{name:34} {time:9.1f} {time / columns:9.3f} {plain:10.1f}  {how}", flush=True)


if __name__ == "__main__":
    main()
