#!/usr/bin/env python3
"""The models of Mirage's evaluation (OSDI'25, section 8.3), a decode step of each, by torch.compile with Strata's backend
and with its own at max-autotune.

usage: paper_models.py [--models NAME,…] [--layers one,all] [--batches 1,8] [--keys 1024] [--effort none|quick|full]
                       [--results FILE.json] [--small] [--no-max-autotune]

Chameleon-7B, nGPT-1B, Llama-3-8B and Llama-3-8B with LoRA of rank 16 on each product, bf16, random weights. A step takes
a token of each sequence, writes its key and value into the last row of the caches, which the model keeps, and attends
to all their rows. "one" is a layer without embeddings and head; "all" is the model from token ids to logits.

Two times for each: a call from Python, by events around it, and a replay of a CUDA graph that holds it; medians of 50,
in microseconds. Errors are relative to float32 on the same weights, in norm; rows where Strata's is more than twice the
largest of eager's and max-autotune's count as failed. The exit code is the number of failed rows.

--small: tiny sizes, so that a machine without a GPU can try the script; its times mean nothing.
"""

import argparse
import copy
import dataclasses
import datetime
import gc
import json
import math
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from strata import torch_backend

REPEATS = 50


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a decoder; `kind` says how its layers normalise."""

    kind: str
    hidden: int
    inner: int
    layers: int
    heads: int
    groups: int
    head: int
    vocabulary: int
    rank: int = 0


LLAMA = Sizes("llama", 4096, 14336, 32, 32, 8, 128, 128256)
MODELS = {
    "llama-3-8b": LLAMA,
    "llama-3-8b-lora": dataclasses.replace(LLAMA, rank=16),
    "chameleon-7b": Sizes("chameleon", 4096, 11008, 32, 32, 32, 128, 65536),
    "ngpt-1b": Sizes("ngpt", 1280, 5120, 36, 20, 20, 64, 50304),
}


def small(sizes):
    return dataclasses.replace(sizes, hidden=64, inner=96, layers=2, heads=4, groups=min(4, max(1, sizes.groups // 8)),
                               head=16, vocabulary=128, rank=min(sizes.rank, 4))


class Product(nn.Module):
    """x Wᵀ, with a product of low rank beside it where LoRA adds one."""

    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).normal_(0, inputs**-0.5))
        self.rank = rank
        if rank:
            self.down = nn.Parameter(torch.empty(rank, inputs).normal_(0, inputs**-0.5))
            self.up = nn.Parameter(torch.empty(outputs, rank).normal_(0, rank**-0.5))

    def forward(self, x):
        y = F.linear(x, self.weight)
        return y + F.linear(F.linear(x, self.down), self.up) if self.rank else y


def unit(x):
    """x of norm 1 along its last dimension (nGPT)."""
    return x / x.float().norm(dim=-1, keepdim=True).to(x.dtype)


def rotate(x, cosine, sine):
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


class Layer(nn.Module):
    def __init__(self, sizes, batch, keys):
        super().__init__()
        self.sizes = s = sizes
        self.q = Product(s.hidden, s.heads * s.head, s.rank)
        self.k = Product(s.hidden, s.groups * s.head, s.rank)
        self.v = Product(s.hidden, s.groups * s.head, s.rank)
        self.o = Product(s.heads * s.head, s.hidden, s.rank)
        self.gate = Product(s.hidden, s.inner, s.rank)
        self.up = Product(s.hidden, s.inner, s.rank)
        self.down = Product(s.inner, s.hidden, s.rank)
        if s.kind == "ngpt":
            self.scales = nn.ParameterList([torch.full((n,), v) for n, v in
                                            ((s.hidden, 0.05), (s.hidden, 0.05), (s.head, s.head**0.5),
                                             (s.inner, 1.0), (s.inner, s.hidden**0.5))])  # fmt: skip
        else:
            self.norms = nn.ParameterList([torch.ones(s.hidden), torch.ones(s.hidden)])
        if s.kind == "chameleon":
            self.head_norms = nn.ModuleList([nn.LayerNorm(s.head), nn.LayerNorm(s.head)])
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(batch, s.groups, keys, s.head))

    def attention(self, x, cosine, sine):
        s, batch = self.sizes, x.shape[0]
        q = self.q(x).view(batch, s.heads, 1, s.head)
        k = self.k(x).view(batch, s.groups, 1, s.head)
        v = self.v(x).view(batch, s.groups, 1, s.head)
        if s.kind == "chameleon":
            q, k = self.head_norms[0](q), self.head_norms[1](k)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        scale = s.head**-0.5
        if s.kind == "ngpt":
            q, k, scale = unit(q) * self.scales[2], unit(k) * self.scales[2], 1.0
        self.keys[:, :, -1:] = k
        self.values[:, :, -1:] = v
        mixed = F.scaled_dot_product_attention(q, self.keys, self.values, scale=scale, enable_gqa=s.heads != s.groups)
        return self.o(mixed.reshape(batch, s.heads * s.head))

    def feed_forward(self, x):
        gate, up = self.gate(x), self.up(x)
        if self.sizes.kind == "ngpt":
            gate, up = gate * self.scales[4], up * self.scales[3]
        return self.down(F.silu(gate) * up)

    def forward(self, x, cosine, sine):
        if self.sizes.kind == "ngpt":
            x = unit(x + self.scales[0] * (unit(self.attention(x, cosine, sine)) - x))
            return unit(x + self.scales[1] * (unit(self.feed_forward(x)) - x))
        x = x + self.attention(F.rms_norm(x, x.shape[-1:], self.norms[0], 1e-5), cosine, sine)
        return x + self.feed_forward(F.rms_norm(x, x.shape[-1:], self.norms[1], 1e-5))


class Model(nn.Module):
    def __init__(self, sizes, batch, keys, layers):
        super().__init__()
        self.sizes, self.whole = sizes, layers == "all"
        self.layers = nn.ModuleList([Layer(sizes, batch, keys) for _ in range(sizes.layers if self.whole else 1)])
        if self.whole:
            self.embeddings = nn.Parameter(torch.randn(sizes.vocabulary, sizes.hidden))
            self.head = Product(sizes.hidden, sizes.vocabulary, 0)
            self.norm = nn.Parameter(torch.ones(sizes.hidden))
        angle = (keys - 1) * 500000.0 ** (-torch.arange(0, sizes.head, 2) / sizes.head)
        self.register_buffer("cosine", torch.cat([angle, angle]).cos())
        self.register_buffer("sine", torch.cat([angle, angle]).sin())

    def forward(self, x):
        if self.whole:
            x = F.embedding(x, self.embeddings)
            x = unit(x) if self.sizes.kind == "ngpt" else x
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        if not self.whole:
            return x
        if self.sizes.kind != "ngpt":
            x = F.rms_norm(x, x.shape[-1:], self.norm, 1e-5)
        return self.head(x)


class Clock:
    """Times on a GPU by events; on the host, for --small, by its clock."""

    def __init__(self, device):
        self.on_gpu = device == "cuda"

    def microseconds(self, function):
        for _ in range(3):
            function()
        found = []
        for _ in range(REPEATS if self.on_gpu else 3):
            if self.on_gpu:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                function()
                end.record()
                end.synchronize()
                found.append(start.elapsed_time(end) * 1e3)
            else:
                begin = time.perf_counter()
                function()
                found.append((time.perf_counter() - begin) * 1e6)
        return sorted(found)[len(found) // 2]

    def replayed(self, function):
        if not self.on_gpu:
            return None
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            function()
        return self.microseconds(graph.replay)


def relative(found, expected):
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def measure(name, sizes, batch, layers, given):
    """A row of the table: times and errors of each way to run the step."""
    torch.manual_seed(0)
    with torch.device(given.device):
        torch.set_default_dtype(torch.bfloat16)
        model = Model(sizes, batch, given.keys, layers).eval().requires_grad_(False)
        torch.set_default_dtype(torch.float32)
        x = torch.randint(sizes.vocabulary, (batch,)) if layers == "all" else torch.randn(batch, sizes.hidden).bfloat16()
    clock = Clock(given.device)
    row = {"model": name, "layers": layers, "batch": batch, "keys": given.keys, "us": {}, "graph_us": {}, "error": {},
           "compile_s": {}}
    with torch.no_grad():
        exact_model = copy.deepcopy(model).float()
        exact = exact_model(x.float() if layers == "one" else x)
        del exact_model
        ways = {"eager": None, "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
                "strata": {"backend": torch_backend.backend, "options": {"effort": given.effort}}}
        for way, options in ways.items():
            if way == "max-autotune" and given.no_max_autotune:
                continue
            torch._dynamo.reset()
            torch_backend.FALLBACKS.clear()
            function = model if options is None else torch.compile(model, fullgraph=True, **options)
            start = time.perf_counter()
            row["error"][way] = relative(function(x), exact)
            row["compile_s"][way] = time.perf_counter() - start
            row["us"][way] = clock.microseconds(lambda f=function: f(x))
            row["graph_us"][way] = clock.replayed(lambda f=function: f(x))
            if way == "strata":
                row["in_torch"] = sorted({op for op, _, _ in torch_backend.FALLBACKS})
            del function
            gc.collect()
    others = [v for k, v in row["error"].items() if k != "strata"]
    row["agrees"] = row["error"]["strata"] <= 2 * max(others) and math.isfinite(row["error"]["strata"])
    return row


def shown(row):
    def cell(way):
        graph = row["graph_us"].get(way)
        us = row["us"].get(way)
        return f"{'-' if us is None else f'{us:.1f}'} | {'-' if graph is None else f'{graph:.1f}'}"

    peer, ours = row["graph_us"].get("max-autotune"), row["graph_us"]["strata"]
    faster = f"{peer / ours:.2f}" if peer and ours else "-"
    called = row["us"].get("max-autotune")
    called = f"{called / row['us']['strata']:.2f}" if called else "-"
    return (f"{row['model']:16} {row['layers']:4} {row['batch']:2}  {cell('eager'):>19} {cell('max-autotune'):>19} "
            f"{cell('strata'):>19}  {called:>5} | {faster:5} {row['error']['strata']:.1e} ({row['error']['eager']:.1e}) "
            f"{'' if row['agrees'] else 'DIFFERS '}{' '.join(row['in_torch'])}")  # fmt: skip


def mean(rows, times, peer="max-autotune"):
    found = [row[times][peer] / row[times]["strata"] for row in rows
             if row[times].get(peer) and row[times].get("strata")]  # fmt: skip
    return math.exp(sum(map(math.log, found)) / len(found)) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--layers", default="one,all")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--keys", type=int, default=1024)
    parser.add_argument("--effort", default="quick", choices=["none", "quick", "full"])
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-max-autotune", action="store_true")
    given = parser.parse_args()
    unknown = [name for name in given.models.split(",") if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    given.device = "cuda" if torch.cuda.is_available() else "cpu"
    if given.device == "cpu" and not given.small:
        parser.error("there is no GPU; --small tries the script without one")
    print(f"{'model':16} {'':4} {'B':2}  {'eager':>19} {'max-autotune':>19} {'Strata':>19}  {'times as fast':13} error "
          f"(eager's)   µs: called | CUDA graph", flush=True)  # fmt: skip
    rows, failed = [], 0
    for layers in given.layers.split(","):
        for name in given.models.split(","):
            for batch in map(int, given.batches.split(",")):
                sizes = small(MODELS[name]) if given.small else MODELS[name]
                try:
                    row = measure(name, sizes, batch, layers, given)
                except Exception as reason:  # a table goes on with the next row
                    failed += 1
                    said = str(reason).strip().splitlines() or [""]
                    print(f"{name:16} {layers:4} {batch:2}  failed: {type(reason).__name__}: {said[0][:150]}", flush=True)
                    continue
                failed += not row["agrees"]
                rows.append(row)
                print(shown(row), flush=True)
                if given.results:
                    write(given, rows)
                gc.collect()
                if given.device == "cuda":
                    torch.cuda.empty_cache()
    if mean(rows, "us"):
        graph = mean(rows, "graph_us")
        print(f"geometric mean: {mean(rows, 'us'):.2f} times as fast as max-autotune when called"
              + (f", {graph:.2f} in a CUDA graph" if graph else ""))  # fmt: skip
    sys.exit(min(failed, 100))


def write(given, rows, peer="max-autotune"):
    device = torch.cuda.get_device_name(0) if given.device == "cuda" else "host"
    command = " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])
    given.results.write_text(json.dumps({
        "device": device, "date": datetime.date.today().isoformat(), "torch": torch.__version__, "command": command,
        "means": {times: mean(rows, times, peer) for times in ("us", "graph_us")},
        "rows": rows}, indent=1) + "\n")  # fmt: skip


if __name__ == "__main__":
    main()
