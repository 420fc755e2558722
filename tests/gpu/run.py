#!/usr/bin/env python3
"""Runs exported kernels on a GPU and compares them with float64: run.py FOLDER [--results DIR].

FOLDER is what export.sh made. Needs PyTorch with CUDA and the driver, nothing of Strata. For every program and every
cubin that the GPU can load, and every PTX text (*.ptx, which the driver translates): outputs are poisoned with NaN,
the kernels launched, and the outputs compared with float64: the interpreter's where the export holds data, else the
same function in PyTorch in float64 on random inputs. Times are medians over CUDA-graph replays in microseconds, cold
(rotating over copies that exceed L2), beside the same program in PyTorch eager, timed in the same way. Exit status 1
where anything disagrees.
"""
import argparse
import ctypes
import datetime
import json
import math
import os
import pathlib
import statistics
import sys

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cublas_lt  # noqa: E402
from cudnn_convolution import Convolution  # noqa: E402
from tensor_maps import arguments_of  # noqa: E402

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
TOLERANCE = {"f16": 5e-3, "bf16": 3e-2, "f32": 1e-4, "f64": 1e-10}

cuda = ctypes.CDLL("libcuda.so.1")


def check(status, what):
    if status != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else status}")


def wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rms(x):
    return x / torch.sqrt(wide(x).pow(2).mean(-1, keepdim=True)).to(x.dtype)


def norm(x):
    return x / torch.sqrt(wide(x).pow(2).sum(-1, keepdim=True)).to(x.dtype)


def attention(q, k, v):
    e = torch.exp(q @ k)
    return (e / e.sum(-1, keepdim=True)) @ v


def stable(q, kt, v):
    return torch.softmax(q @ kt.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


# The same functions in PyTorch, by program name, in the order of the program's inputs.
PEERS = {
    "rmsnorm": lambda x, g, w: (rms(x) * g) @ w,
    "gated_mlp": lambda x, w1, w2: torch.nn.functional.silu(x @ w1) * (x @ w2),
    "lora": lambda x, w, a, b: x @ w + (x @ a) @ b,
    "gqa": attention,
    "attn": stable,
    "attn_decode8k": stable,
    "qknorm_decode4k": lambda q, kt, v: stable(rms(q), rms(kt), v),
    "qknorm": lambda q, k, v: attention(rms(q), k, rms(v)),
    "rmsnorm_4k": lambda x, g, w: (rms(x) * g) @ w,
    "lora_4k": lambda x, w, a, b: x @ w + (x @ a) @ b,
    "ntrans": lambda h, x, a: norm(x + a * (norm(h) - x)),
}


eager_times = {}
no_overlap = os.environ.get("NO_OVERLAP") == "1"


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", ctypes.c_uint)]


LIBRARIES = {"cublasLt": cublas_lt.Product, "cudnn": Convolution}
COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6


class Module:
    """A cubin and its launches, work of libraries among them."""

    def __init__(self, cubin, manifest):
        self.handle = ctypes.c_void_p()
        self.launches, self.workspace = [], None
        steps = manifest.get("steps", manifest.get("kernels"))
        if any("library" not in kernel for kernel in steps):
            image = cubin.read_bytes() + b"\0"  # PTX is a C string
            check(cuda.cuModuleLoadData(ctypes.byref(self.handle), image), f"loading {cubin.name}")
        for kernel in steps:
            if "library" in kernel:
                work = LIBRARIES[kernel["library"]](kernel)
                self.launches.append((work, kernel))
                if self.workspace is None or self.workspace.numel() < work.workspace_bytes:
                    self.workspace = torch.empty(work.workspace_bytes, dtype=torch.uint8, device="cuda")
                continue
            function = ctypes.c_void_p()
            name = kernel["name"]
            check(cuda.cuModuleGetFunction(ctypes.byref(function), self.handle, name.encode()), name)
            # Attribute 8 raises the limit of dynamic shared memory above its default.
            if kernel["shared_bytes"] > 48 * 1024:
                check(cuda.cuFuncSetAttribute(function, 8, kernel["shared_bytes"]), "shared memory")
            self.launches.append((function, kernel))

    def run(self, buffers):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for function, kernel in self.launches:
            if "library" in kernel:
                addresses = [buffers[name].data_ptr() for name in kernel["arguments"]]
                function.run(addresses, self.workspace.data_ptr() if self.workspace is not None else 0, stream.value)
                continue
            addresses = {name: buffers[name].data_ptr() for name in kernel["arguments"]}
            arguments, _alive = arguments_of(cuda, kernel, addresses)
            wanted = []
            if kernel["cluster"] > 1:  # cooperative launches are slower with clusters, even of one block
                wanted.append((CLUSTER_DIMENSION, [kernel["cluster"], 1, 1]))
            if kernel.get("resident"):
                wanted.append((COOPERATIVE, [1]))
            if kernel["overlaps_previous"] and not no_overlap:
                wanted.append((PROGRAMMATIC_STREAM_SERIALIZATION, [1]))
            attributes = (LaunchAttribute * len(wanted))()
            for attribute, (number, value) in zip(attributes, wanted):
                attribute.id, attribute.value[:len(value)] = number, value
            shape = (ctypes.c_uint * 7)(*kernel["grid"], kernel["threads"], 1, 1, kernel["shared_bytes"])
            config = LaunchConfig(shape, stream, attributes, len(wanted))
            check(cuda.cuLaunchKernelEx(ctypes.byref(config), function, arguments, None), kernel["name"])


def microseconds(calls, replays=20):
    """Median time of one call; `calls` work on different memory, and one graph holds all of them."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        times = []
        for _ in range(replays):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / len(calls))
    return statistics.median(times[3:])


def case(folder, cubin):
    manifest = json.loads((folder / "best.launch.json").read_text())
    buffers = {b["name"]: b for b in manifest["buffers"]}
    with_data = (folder / "data").is_dir()

    def bytes_of(b):
        return math.prod(b["shape"]) * TYPES[b["type"]].itemsize

    def fresh():
        made = {}
        shared = [b["offset"] + bytes_of(b) for b in buffers.values() if "offset" in b]
        working = torch.full([max(shared, default=0)], 0xff, dtype=torch.uint8, device="cuda")  # NaN in every type
        for name, b in buffers.items():
            if "offset" in b:  # intermediates, which share bytes where they live at different times
                part = working[b["offset"]:b["offset"] + bytes_of(b)]
                made[name] = part.view(TYPES[b["type"]]).reshape(b["shape"])
                continue
            if b["role"] == "input" and with_data:
                values = torch.from_numpy(numpy.load(folder / "data" / f"{name}.npy"))
                made[name] = values.to("cuda", TYPES[b["type"]])
            elif b["role"] == "input":
                scale = b["shape"][-1] ** -0.5 if len(b["shape"]) > 1 else 1
                made[name] = (torch.randn(b["shape"], device="cuda") * scale).to(TYPES[b["type"]])
            else:
                start = 0 if b["role"] == "counters" else float("nan")
                made[name] = torch.full(b["shape"], start, dtype=TYPES[b["type"]], device="cuda")
        return made

    module = Module(cubin, manifest)
    memory = fresh()
    module.run(memory)
    torch.cuda.synchronize()
    inputs = [n for n, b in buffers.items() if b["role"] == "input"]
    base = folder.name.split("@")[0]
    peer = PEERS.get(folder.name.split("@")[0].split("_b")[0])  # NAME[_bBATCH][@SCHEDULE]
    errors, peer_errors, tolerance = [], [], 0
    for name, b in buffers.items():
        if b["role"] != "output":
            continue
        if with_data:
            expected = torch.from_numpy(numpy.load(folder / "data" / f"{name}.npy"))
        else:
            expected = peer(*[memory[n].double() for n in inputs]).cpu()
        errors.append(((memory[name].double().cpu() - expected).norm() / expected.norm()).item())
        tolerance = max(tolerance, TOLERANCE[b["type"]])
        if peer:
            found = peer(*[memory[n] for n in inputs])
            peer_errors.append(((found.double().cpu() - expected).norm() / expected.norm()).item())
    size = sum(t.numel() * t.element_size() for t in memory.values())
    copies = [memory] + [fresh() for _ in range(max(1, min(24, (200 << 20) // size)))]
    result = {"program": folder.name, "cubin": cubin.name, "error": max(errors), "tolerance": tolerance,
              "microseconds": microseconds([lambda m=m: module.run(m) for m in copies])}
    if peer:
        result["torch_error"] = max(peer_errors)
        if base not in eager_times:  # schedules of one program share it
            eager_times[base] = microseconds([lambda m=m: peer(*[m[n] for n in inputs]) for m in copies])
        result["torch_eager_microseconds"] = eager_times[base]
    result["ok"] = bool(result["error"] <= tolerance)  # false for NaN too
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, help="folder for DEVICE-DATE.json")
    arguments = parser.parse_args()
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes the context that the driver calls use
    major = torch.cuda.get_device_capability()[0]
    results = []
    for folder in sorted(p for p in arguments.folder.iterdir() if (p / "best.launch.json").exists()):
        # A cubin runs on its own major architecture alone, PTX for it and all later ones.
        cubins = [c for c in folder.glob("*.cubin") if c.name.split("sm_")[1].startswith(str(major))]
        for code in sorted(cubins) + sorted(folder.glob("*.ptx")):
            results.append(case(folder, code))
    print(f"{'program':<28} {'cubin':<20} {'error':>9} {'torch':>9} {'Strata µs':>10} {'eager µs':>9}")
    for r in results:
        torch_error, eager = r.get("torch_error", float("nan")), r.get("torch_eager_microseconds", float("nan"))
        print(f"{r['program']:<28} {r['cubin']:<20} {r['error']:9.2e} {torch_error:9.2e} {r['microseconds']:10.2f} "
              f"{eager:9.2f} {'' if r['ok'] else 'WRONG'}")
    if not results:
        sys.exit("no cubin for this GPU and no PTX in " + str(arguments.folder))
    if arguments.results:
        device = torch.cuda.get_device_name().replace(" ", "-").lower()
        date = datetime.date.today().isoformat()
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / f"{device}-{date}-correctness.json").write_text(json.dumps(
            {"device": torch.cuda.get_device_name(), "date": date, "torch": torch.__version__,
             "command": "tests/gpu/run.py", "rows": results}, indent=2) + "\n")
    sys.exit(0 if all(r["ok"] for r in results) else 1)


if __name__ == "__main__":
    main()
