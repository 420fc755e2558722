#!/usr/bin/env python3
"""Times kernels of the emitters beside torch.compile and JAX, on the GPU this runs on.

usage: emitters.py FOLDER [--results FILE.json] [--only SUBSTRING] [--no-jax] [--check] [--skewed]

FOLDER has modules NAME_TYPE.hlo, as programs/hlo. The package `strata` compiles them, without a search, and launches
them. Times are medians over CUDA-graph replays, in microseconds; calls take turns on two sets of inputs, and all arrays
are larger than the L2 cache. JAX is timed over 20 asynchronous calls, as jax_mem.py does, dispatch included, and by what
each further call adds (xla_further: from 20 calls to 100), where dispatch shows only if it is slower than the device;
"dispatch" are these two times of a function of one element. Results are compared with the same function in PyTorch, in
float32 or wider. The floor is the bytes of parameters and results that must move, over the bandwidth of reading that was
measured (4.39 TB/s). --check only runs and compares, as under compute-sanitizer (programs/hlo/small has scatters small
enough for its racecheck). --skewed: half of the indices of a scatter are one row. Exit status 1 where a result is wrong.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

BANDWIDTH = 4.39e6  # bytes a microsecond


def layer_norm(x):
    import torch
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def gelu_of_transpose(x, b):
    import torch
    return torch.nn.functional.gelu(x.transpose(-1, -2) + b).contiguous()


def add_rows(x, i, u):
    return x.index_add(0, i, u)


def torch_cases():
    import torch
    pad = torch.nn.functional.pad
    return {
        "chain": lambda x, y: torch.tanh(x * y + 1.0) * torch.sigmoid(y) - x,
        "softmax": lambda x: torch.softmax(x, -1),
        "softmax_wide": lambda x: torch.softmax(x, -1),
        "layernorm": layer_norm,
        "row_sum": lambda x: x.sum(-1),
        "row_sum_short": lambda x: x.sum(-1),
        "col_sum": lambda x: x.sum(0),
        "transpose": lambda x: x.transpose(-1, -2).contiguous(),
        "transpose_bias_gelu": gelu_of_transpose,
        "concat": lambda x, y: torch.cat([x * 2, y + 1], -1),
        "pad_slice": lambda x: pad(x[:, 3:-5], (7, 9)) * 2,
        "gather": lambda x, i: x[i] * 2,
        "scatter_add": add_rows,
        "scatter_add_hot": add_rows,
        "scatter_unique": add_rows,
        "scatter_sorted": add_rows,
        "update_slice": lambda x, u: torch.cat([x[:100], u * 2, x[100 + u.shape[0]:]]),
        "multi_output": lambda x, y: (x * y, x + y, torch.maximum(x, y)),
    }


JAX_SCRIPT = r'''
import json, sys, time
import jax, jax.numpy as jnp
def layernorm(x):
    w = x.astype(jnp.float32); m = w.mean(-1, keepdims=True); v = ((w - m) ** 2).mean(-1, keepdims=True)
    return ((w - m) * jax.lax.rsqrt(v + 1e-5)).astype(x.dtype)
add = lambda x, i, u, **k: x.at[i].add(u, **k)
cases = {
  "chain": lambda x, y: jnp.tanh(x * y + 1) * jax.nn.sigmoid(y) - x,
  "softmax": lambda x: jax.nn.softmax(x, -1), "softmax_wide": lambda x: jax.nn.softmax(x, -1),
  "layernorm": layernorm, "row_sum": lambda x: x.sum(-1), "row_sum_short": lambda x: x.sum(-1),
  "col_sum": lambda x: x.sum(0), "transpose": lambda x: jnp.swapaxes(x, -1, -2),
  "transpose_bias_gelu": lambda x, b: jax.nn.gelu(jnp.swapaxes(x, -1, -2) + b, approximate=False),
  "concat": lambda x, y: jnp.concatenate([x * 2, y + 1], -1),
  "pad_slice": lambda x: jnp.pad(x[:, 3:-5], ((0, 0), (7, 9))) * 2, "gather": lambda x, i: x[i] * 2,
  "scatter_add": add, "scatter_add_hot": add,
  "scatter_unique": lambda x, i, u: add(x, i, u, unique_indices=True),
  "scatter_sorted": lambda x, i, u: add(x, i, u, indices_are_sorted=True),
  "update_slice": lambda x, u: jax.lax.dynamic_update_slice(x, u * 2, (100, 0)),
  "multi_output": lambda x, y: (x * y, x + y, jnp.maximum(x, y)),
}
key = jax.random.key(0)
def make(name, dtype, shapes, kind, dims):
    if kind != "s32": return jax.random.normal(key, dims, jnp.float32).astype(jnp.dtype(dtype))
    limit = shapes[0][1][0]
    if name == "scatter_unique": return jax.random.permutation(key, limit)[:dims[0]].astype(jnp.int32)
    indices = jax.random.randint(key, dims, 0, limit)
    return jnp.sort(indices) if name == "scatter_sorted" else indices
def measure(name, dtype, shapes):
    inputs = [make(name, dtype, shapes, kind, dims) for kind, dims in shapes]
    f = jax.jit(cases[name])
    return time_calls(f, inputs)
def time_calls(f, inputs):
    jax.block_until_ready(f(*inputs))
    def median(calls):
        times = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(calls): result = f(*inputs)
            jax.block_until_ready(result)
            times.append((time.perf_counter() - start) * 1e6)
        return sorted(times)[3]
    few, many = median(20), median(100)
    return [few / 20, (many - few) / 80]
print(json.dumps(["dispatch", time_calls(jax.jit(lambda x: x + 1), [jnp.zeros(1)])]), flush=True)
for label, name, dtype, shapes in json.loads(sys.argv[1]):
    print(json.dumps([label, measure(name, dtype, shapes)]), flush=True)
'''


def time_graph(torch, function, sets, repetitions=20):
    """Median microseconds of one call, where calls take turns on sets of inputs, as peers.py measures it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for inputs in sets * 2:
            function(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [function(*sets[i % len(sets)]) for i in range(repetitions)]  # each call writes where no other does
    for _ in range(10):  # until the GPU runs at its clocks
        graph.replay()
    times = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / repetitions)
    del kept
    return statistics.median(times)


def make_inputs(torch, name, parameters, skewed, seed):
    torch.manual_seed(seed)
    inputs = []
    for one in parameters:
        if one.dtype == "s32":
            limit = parameters[0].shape[0]
            indices = torch.randint(0, limit, one.shape, device="cuda", dtype=torch.int32)
            if name == "scatter_unique":
                indices = torch.randperm(limit, device="cuda")[:one.shape[0]].to(torch.int32)
            elif skewed and name.startswith("scatter"):
                indices[::2] = limit // 2
            inputs.append(indices.sort().values if name == "scatter_sorted" else indices)
        else:
            dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[one.dtype]
            inputs.append(torch.randn(one.shape, device="cuda").to(dtype))
    return inputs


def floor_bytes(name, inputs, results):
    size = lambda t: t.numel() * t.element_size()
    if name == "gather":  # as many rows as there are indices
        return size(results[0]) * 2 + size(inputs[1])
    return sum(map(size, inputs)) + sum(map(size, results))


def poisoned_results(torch, module):
    """Memory for the results: NaN, or 1 in integers."""
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "s32": torch.int32}
    made = [torch.empty(one.shape, dtype=dtypes[one.dtype], device="cuda") for one in module.outputs]
    return [one.fill_(float("nan") if one.is_floating_point() else 1) for one in made]


def measure(path, check_only, skewed):
    import torch
    import strata
    name, _ = path.stem.rsplit("_", 1)
    module = strata.compile_hlo(path.read_text(), target="gpu", search_seconds=0, cache="")
    sets = [make_inputs(torch, name, module.inputs, skewed, seed) for seed in (1, 2)]
    inputs = sets[0]
    results = module(*inputs, out=poisoned_results(torch, module))
    torch.cuda.synchronize()
    function = torch_cases()[name]
    # Indices of PyTorch's index_add and advanced indexing are as given; sums are compared in float32.
    expected = function(*[x.float() if x.is_floating_point() else x for x in inputs])
    expected = expected if isinstance(expected, tuple) else (expected,)
    error = 0.0
    for got, want in zip(results, expected):
        scale = want.abs().max().item() + 1e-30
        difference = (got.float() - want).abs()
        error = max(error, float("inf") if difference.isnan().any() else difference.max().item() / scale)
    del expected
    if check_only:
        return {"name": path.stem, "error": error}
    row = {"name": path.stem, "error": error, "us": time_graph(torch, module, sets), "notes": module.notes,
           "floor": floor_bytes(name, inputs, results) / BANDWIDTH}
    compiled = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    try:
        row["compile"] = time_graph(torch, compiled, sets)
    except Exception as failure:  # a peer that fails is reported, not hidden
        row["compile_error"] = str(failure).splitlines()[0]
    row["shapes"] = [[one.dtype, list(one.shape)] for one in module.inputs]
    return row


def add_jax(rows):
    """Times all programs in one process of JAX, which would otherwise share the device's memory with this one.

    Returns the two times of a function of one element.
    """
    full = {"f32": "float32", "bf16": "bfloat16"}
    wanted = []
    for row in rows:
        if "shapes" in row:
            name, dtype = row["name"].rsplit("_", 1)
            wanted.append([row["name"], name, full[dtype], row.pop("shapes")])
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    made = subprocess.run([sys.executable, "-c", JAX_SCRIPT, json.dumps(wanted)], capture_output=True, text=True,
                          env=environment)
    times = dict(json.loads(line) for line in made.stdout.splitlines() if line.startswith("["))
    dispatch = times.pop("dispatch", None)
    for row in rows:
        if row["name"] in times:
            row["xla"], row["xla_further"] = times[row["name"]]
    if made.returncode != 0:
        print("JAX failed:", (made.stderr.strip().splitlines() or ["?"])[-1])
    return dispatch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--skewed", action="store_true")
    options = parser.parse_args()
    import torch
    torch._dynamo.config.cache_size_limit = 64
    rows, wrong, dispatch = [], 0, None

    def save():
        if options.results:
            head = {"device": torch.cuda.get_device_name(), "date": datetime.date.today().isoformat(),
                    "torch": torch.__version__, "jax_dispatch": dispatch, "rows": rows}
            options.results.write_text(json.dumps(head, indent=1) + "\n")

    for path in sorted(options.folder.glob("*.hlo")):
        if options.only not in path.stem:
            continue
        start = time.time()
        try:
            row = measure(path, options.check, options.skewed)
        except Exception as failure:
            row = {"name": path.stem, "failure": str(failure).splitlines()[0] if str(failure) else repr(failure)}
        rows.append(row)
        bound = 2e-2 if path.stem.endswith("bf16") else 1e-4
        bad = "failure" in row or row["error"] > bound
        wrong += bad
        text = " ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
                        if k not in ("name", "shapes"))
        print(f"{path.stem:28} {'WRONG ' if bad else ''}{text}  ({time.time() - start:.0f} s)", flush=True)
        torch.cuda.empty_cache()
        save()
    if not options.no_jax and not options.check:
        dispatch = add_jax(rows)
        save()
        print(f"JAX, a function of one element: µs of 20 calls each, of each further one: {dispatch}")
        for row in rows:
            if "xla" in row and "us" in row:
                print(f"{row['name']:28} us {row['us']:.1f} compile {row.get('compile', float('nan')):.1f} "
                      f"xla {row['xla']:.1f} further {row['xla_further']:.1f} floor {row['floor']:.1f} "
                      f"ratio {row['us'] / row['floor']:.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
