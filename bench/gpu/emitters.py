#!/usr/bin/env python3
"""Times kernels of the emitters beside torch.compile and JAX, on the GPU this runs on.

usage: emitters.py FOLDER [--results FILE.json] [--only SUBSTRING] [--no-jax] [--check] [--skewed]

FOLDER has a folder NAME_TYPE for each program of programs/hlo, as `strata emit F --emit=cubin --no-libraries --output
FOLDER/NAME_TYPE` writes it. Times are medians over CUDA-graph replays, in microseconds; calls take turns on two sets of
inputs, and all arrays are larger than the L2 cache. JAX is timed over 20 asynchronous calls, as jax_mem.py does, dispatch included, and
by what each further call adds (xla_further: from 20 calls to 100), where dispatch shows only if it is slower than the
device; "dispatch" are these two times of a function of one element. Results are compared with the same function in
PyTorch, in float32 or wider. The floor is the bytes of parameters and results that must move, over the bandwidth of reading that was measured
(4.39 TB/s). --check only runs and compares, as under compute-sanitizer (programs/hlo/small has scatters small enough for
its racecheck; emit them with --only "scatter rows"). --skewed: half of the indices of a scatter are one row. Exit status
1 where a result is wrong.
"""
import argparse
import ctypes
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


class Launcher:
    """A folder as `strata emit` writes it (docs/runtime.md): its modules, buffers and steps."""

    def __init__(self, folder):
        import torch
        self.torch, self.cuda = torch, ctypes.CDLL("libcuda.so.1")
        self.program = json.loads((folder / "program.json").read_text())
        self.inputs = [b for b in self.program["buffers"] if b["role"] == "input"]
        constants = folder / "constants.bin"
        bytes_of = bytearray(constants.read_bytes()) if constants.exists() else bytearray(1)
        self.constants = torch.frombuffer(bytes_of, dtype=torch.uint8).to("cuda")
        modules, self.functions = {}, []
        for step in self.program["steps"]:
            if "grid" not in step:
                if "copy" not in step and "fill" not in step:
                    raise RuntimeError("a step is no kernel: emit with --no-libraries")
                self.functions.append(None)
                continue
            if step["module"] not in modules:
                module = modules[step["module"]] = ctypes.c_void_p()
                cubin = (folder / f"{step['module']}.cubin").read_bytes()
                self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), cubin))
            function = ctypes.c_void_p()
            self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), modules[step["module"]],
                                                     step["name"].encode()))
            if step["shared_bytes"] > 48 * 1024:  # attribute 8 raises the limit of dynamic shared memory
                self.check(self.cuda.cuFuncSetAttribute(function, 8, step["shared_bytes"]))
            self.functions.append(function)

    def check(self, status):
        if status != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(text.value.decode() if text.value else status)

    def dtype(self, name):
        t = self.torch
        return {"f32": t.float32, "bf16": t.bfloat16, "f16": t.float16, "s32": t.int32, "s64": t.int64,
                "pred": t.uint8, "f64": t.float64}[name]

    def new_buffers(self, inputs, poisoned):
        """By name. Those with an offset could share bytes; memory of their own is what a caller may always give."""
        buffers = dict(zip((b["name"] for b in self.inputs), inputs))
        for b in self.program["buffers"]:
            if b["role"] == "input" or "lies_in" in b:
                continue
            dtype = self.dtype(b["type"])
            if b["role"] == "constant":
                size = self.torch.empty(b["shape"], dtype=dtype).nbytes
                buffers[b["name"]] = self.constants[b["offset"]:b["offset"] + size].view(dtype).reshape(b["shape"])
                continue
            tensor = self.torch.empty(b["shape"], dtype=dtype, device="cuda")
            if poisoned:
                tensor.fill_(float("nan") if tensor.is_floating_point() else 1)
            buffers[b["name"]] = tensor
        waiting = [b for b in self.program["buffers"] if "lies_in" in b]
        while waiting:
            b = waiting.pop(0)
            if b["lies_in"] in buffers:
                buffers[b["name"]] = buffers[b["lies_in"]]
            else:
                waiting.append(b)
        return buffers

    def run(self, inputs, poisoned=False):
        """The results, in new buffers, which are filled with NaN before where that is asked for."""
        buffers = self.new_buffers(inputs, poisoned)
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        for step, function in zip(self.program["steps"], self.functions):
            if "copy" in step:
                buffers[step["to"]].copy_(buffers[step["copy"]])
            elif "fill" in step:
                to = buffers[step["to"]]
                value = self.torch.tensor(list(bytes.fromhex(step["fill"])), dtype=self.torch.uint8)
                to.fill_(value.view(to.dtype).item())
            else:
                pointers = [ctypes.c_void_p(buffers[name].data_ptr()) for name in step["arguments"]]
                arguments = (ctypes.c_void_p * len(pointers))(*[ctypes.addressof(p) for p in pointers])
                self.check(self.cuda.cuLaunchKernel(function, *step["grid"], step["threads"], 1, 1,
                                                    step["shared_bytes"], stream, arguments, None))
        return [buffers[result["buffer"]] for result in self.program["results"]]


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
    for b in parameters:
        if b["type"] == "s32":
            limit = parameters[0]["shape"][0]
            indices = torch.randint(0, limit, b["shape"], device="cuda", dtype=torch.int32)
            if name == "scatter_unique":
                indices = torch.randperm(limit, device="cuda")[:b["shape"][0]].to(torch.int32)
            elif skewed and name.startswith("scatter"):
                indices[::2] = limit // 2
            inputs.append(indices.sort().values if name == "scatter_sorted" else indices)
        else:
            dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[b["type"]]
            inputs.append(torch.randn(b["shape"], device="cuda").to(dtype))
    return inputs


def floor_bytes(name, inputs, results):
    size = lambda t: t.numel() * t.element_size()
    if name == "gather":  # as many rows as there are indices
        return size(results[0]) * 2 + size(inputs[1])
    return sum(map(size, inputs)) + sum(map(size, results))


def measure(folder, check_only, skewed):
    import torch
    name, dtype = folder.name.rsplit("_", 1)
    launcher = Launcher(folder)
    sets = [make_inputs(torch, name, launcher.inputs, skewed, seed) for seed in (1, 2)]
    inputs = sets[0]
    results = launcher.run(inputs, poisoned=True)
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
        return {"name": folder.name, "error": error}
    row = {"name": folder.name, "error": error,
           "us": time_graph(torch, lambda *inputs: launcher.run(inputs), sets),
           "emitters": [step["what"] for step in launcher.program["steps"] if "grid" in step],
           "floor": floor_bytes(name, inputs, results) / BANDWIDTH}
    compiled = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    try:
        row["compile"] = time_graph(torch, compiled, sets)
    except Exception as failure:  # a peer that fails is reported, not hidden
        row["compile_error"] = str(failure).splitlines()[0]
    row["shapes"] = [[b["type"], b["shape"]] for b in launcher.inputs]
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
    torch.zeros(1, device="cuda")  # the context in which cubins are loaded
    torch._dynamo.config.cache_size_limit = 64
    rows, wrong, dispatch = [], 0, None

    def save():
        if options.results:
            head = {"device": torch.cuda.get_device_name(), "date": datetime.date.today().isoformat(),
                    "torch": torch.__version__, "jax_dispatch": dispatch, "rows": rows}
            options.results.write_text(json.dumps(head, indent=1) + "\n")

    for folder in sorted(options.folder.iterdir()):
        if options.only not in folder.name or not (folder / "program.json").exists():
            continue
        start = time.time()
        try:
            row = measure(folder, options.check, options.skewed)
        except Exception as failure:
            row = {"name": folder.name, "failure": str(failure).splitlines()[0] if str(failure) else repr(failure)}
        rows.append(row)
        bound = 2e-2 if folder.name.endswith("bf16") else 1e-4
        bad = "failure" in row or row["error"] > bound
        wrong += bad
        text = " ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
                        if k not in ("name", "shapes"))
        print(f"{folder.name:28} {'WRONG ' if bad else ''}{text}  ({time.time() - start:.0f} s)", flush=True)
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
