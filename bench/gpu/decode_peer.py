#!/usr/bin/env python3
"""The peer of bench/gpu/decode.py: a decode step of a Qwen3 or Llama model in PyTorch, with random weights in bfloat16.

usage: decode_peer.py CONFIG.json --capacity POSITIONS; then lines "BATCH POSITION" on its input, and one JSON object for
each on its output: {"ms", "attention", …}, or {"failed"}.

What lies between two attentions, with norms, products and the rows of the cache, is one function, compiled once a batch.
Attention is a call of scaled_dot_product_attention over exactly the positions that there are, with the query heads of a
key head as its rows. The step, from token to token, is one CUDA graph; of the attention backends the fastest counts.
"""
import argparse
import json
import math
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")
LAUNCHES = 7  # of which the median counts, as in `strata decode --measure`


class Config:
    def __init__(self, json_object):
        c = json_object
        self.hidden, self.ffn, self.layers = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
        self.heads, self.groups = c["num_attention_heads"], c["num_key_value_heads"]
        self.d = c.get("head_dim") or self.hidden // self.heads
        self.vocabulary, self.epsilon = c["vocab_size"], c["rms_norm_eps"]
        self.tied, self.norms_of_heads = bool(c.get("tie_word_embeddings")), c["model_type"] == "qwen3"
        self.rope = c.get("rope_parameters") or {"rope_theta": c["rope_theta"]} | (c.get("rope_scaling") or {})

    def frequencies(self):
        found = float(self.rope["rope_theta"]) ** (-torch.arange(0, self.d, 2, dtype=torch.float64) / self.d)
        if self.rope.get("rope_type", self.rope.get("type")) == "llama3":
            turns = self.rope["original_max_position_embeddings"] * found / (2 * math.pi)
            low, high = self.rope["low_freq_factor"], self.rope["high_freq_factor"]
            kept = ((turns - low) / (high - low)).clamp(0, 1)
            found = found * (kept + (1 - kept) / self.rope["factor"])
        return found


class Weights:
    """Matrices are [out, in]; those that multiply the same rows are one."""

    def __init__(self, c, matrix, gain):
        """`matrix(shape, names)` and `gain(size, name)` make tensors."""
        self.embeddings = matrix((c.vocabulary, c.hidden), ["model.embed_tokens"])
        self.head = self.embeddings if c.tied else matrix((c.vocabulary, c.hidden), ["lm_head"])
        self.norm = gain(c.hidden, "model.norm")
        self.layers = []
        for n in range(c.layers):
            at = f"model.layers.{n}."
            self.layers.append((
                gain(c.hidden, at + "input_layernorm"),
                matrix(((c.heads + 2 * c.groups) * c.d, c.hidden), [f"{at}self_attn.{x}_proj" for x in "qkv"]),
                *((gain(c.d, f"{at}self_attn.{x}_norm") for x in "qk") if c.norms_of_heads else (None, None)),
                matrix((c.hidden, c.heads * c.d), [at + "self_attn.o_proj"]),
                gain(c.hidden, at + "post_attention_layernorm"),
                matrix((2 * c.ffn, c.hidden), [at + "mlp.gate_proj", at + "mlp.up_proj"]),
                matrix((c.hidden, c.ffn), [at + "mlp.down_proj"])))

    @staticmethod
    def random(c, device, dtype):
        def matrix(shape, _):
            return torch.empty(shape, device=device, dtype=dtype).normal_(0, shape[1] ** -0.5)
        return Weights(c, matrix, lambda size, _: 1 + torch.randn(size, device=device, dtype=dtype) / 16)

    @staticmethod
    def named(c, tensors):
        """Of tensors by their Hugging Face names without ".weight"."""
        return Weights(c, lambda _, names: torch.cat([tensors[n] for n in names]), lambda _, name: tensors[name])


def parts(c):
    """The functions between attentions: from a token, from one layer to the next, and to the next token."""
    def norm(x, gain):
        return F.rms_norm(x, x.shape[-1:], gain, c.epsilon)

    def rotated(x, cos, sin):
        low, high = x.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype)

    def before(x, w, keys, values, at, cos, sin):
        """The queries [batch, key heads, query heads of each, d]; key and value go to the caches."""
        batch = x.shape[0]
        rows = F.linear(norm(x, w[0]), w[1]).view(batch, c.heads + 2 * c.groups, c.d)
        q, k, v = rows.split([c.heads, c.groups, c.groups], 1)
        if c.norms_of_heads:
            q, k = norm(q, w[2]), norm(k, w[3])
        keys.index_copy_(2, at, rotated(k, cos, sin)[:, :, None])
        values.index_copy_(2, at, v[:, :, None])
        return rotated(q, cos, sin).view(batch, c.groups, c.heads // c.groups, c.d)

    def after(x, mixed, w):
        x = x + F.linear(mixed.reshape(x.shape[0], c.heads * c.d), w[4])
        gate, up = F.linear(norm(x, w[5]), w[6]).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, w[7])

    def first(tokens, embeddings, w, keys, values, at, cos, sin):
        x = embeddings[tokens]
        return x, before(x, w, keys, values, at, cos, sin)

    def between(x, mixed, w, next_w, keys, values, at, cos, sin):
        x = after(x, mixed, w)
        return x, before(x, next_w, keys, values, at, cos, sin)

    def last(x, mixed, w, gain, head):
        logits = F.linear(norm(after(x, mixed, w), gain), head)
        return logits, logits.argmax(-1)

    return first, between, last


class Peer:
    def __init__(self, c, weights, capacity, device, dtype):
        self.c, self.weights, self.capacity, self.device, self.dtype = c, weights, capacity, device, dtype
        self.batch, self.caches = 0, []
        self.functions = parts(c)

    def begin(self, batch, mode):
        """Caches and functions of a batch; `mode` is torch.compile's, or None for none."""
        self.batch, self.caches = batch, []
        shape = (batch, self.c.groups, self.capacity, self.c.d)
        for _ in range(2 * self.c.layers):
            self.caches.append(torch.randn(shape, device=self.device, dtype=self.dtype))
        self.tokens = torch.zeros(batch, dtype=torch.long, device=self.device)
        self.at = torch.zeros(1, dtype=torch.long, device=self.device)
        self.cos = torch.zeros(self.c.d // 2, device=self.device)
        self.sin = torch.zeros(self.c.d // 2, device=self.device)
        plain = parts(self.c)
        torch._dynamo.reset()
        self.functions = plain if mode is None else tuple(
            torch.compile(function, mode=mode, dynamic=False, fullgraph=True) for function in plain)

    def go_to(self, position):
        angles = position * self.c.frequencies()
        self.at.fill_(position)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())

    def step(self, position):
        """Logits [batch, vocabulary] after self.tokens, which the likeliest then replace."""
        first, between, last = self.functions
        layers, place = self.weights.layers, (self.at, self.cos, self.sin)
        for n in range(self.c.layers):
            keys, values = self.caches[2 * n:2 * n + 2]
            if n == 0:
                x, q = first(self.tokens, self.weights.embeddings, layers[0], keys, values, *place)
            else:
                x, q = between(x, mixed, layers[n - 1], layers[n], keys, values, *place)
            mixed = F.scaled_dot_product_attention(q, keys[:, :, :position + 1], values[:, :, :position + 1])
        logits, likeliest = last(x, mixed, layers[-1], self.weights.norm, self.weights.head)
        self.tokens.copy_(likeliest)
        return logits

    def measured(self, position, backend, steps):
        """ms a step at a position, all replayed from one graph: the median of launches of so many steps."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        with torch.no_grad(), sdpa_kernel(getattr(SDPBackend, backend)):
            self.go_to(position)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.step(position)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.step(position)
        times = []
        for launch in range(LAUNCHES + 1):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(steps if launch else 5):
                graph.replay()
            end.record()
            end.synchronize()
            if launch:
                times.append(begin.elapsed_time(end) / steps)
        return sorted(times)[LAUNCHES // 2]


def row(peer, batch, position, mode, steps):
    begin = time.monotonic()
    if batch != peer.batch:
        peer.batch = 0  # until all of it stands
        peer.begin(batch, mode)
    times, failures = {}, {}
    for backend in BACKENDS:
        try:
            times[backend] = peer.measured(position, backend, steps)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:  # not every backend takes every shape; what the step itself cannot do, none can
            failures[backend] = reason(error)
    if not times:
        peer.batch = 0
        return {"failed": "; ".join(f"{b}: {text}" for b, text in failures.items())[:600]}
    best = min(times, key=times.get)
    return {"ms": times[best], "attention": best, "ms_by_attention": times, "attention_failed": failures,
            "seconds": round(time.monotonic() - begin, 1)}


def reason(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("--capacity", type=int, required=True, help="positions of the caches")
    parser.add_argument("--steps", type=int, default=50, help="a launch")
    parser.add_argument("--compile-mode", default="max-autotune-no-cudagraphs", help="of torch.compile")
    options = parser.parse_args()
    c = Config(json.loads(options.config.read_text(encoding="utf-8")))
    peer = Peer(c, Weights.random(c, "cuda", torch.bfloat16), options.capacity, "cuda", torch.bfloat16)
    say = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no row
    print(json.dumps({"ready": torch.cuda.get_device_name(), "torch": torch.__version__}), file=say, flush=True)
    for line in sys.stdin:
        try:
            found = row(peer, *map(int, line.split()), options.compile_mode, options.steps)
        except Exception as error:  # a peer that cannot run is a row with its reason
            peer.batch, found = 0, {"failed": reason(error)}
            torch.cuda.empty_cache()
        print(json.dumps(found), file=say, flush=True)


if __name__ == "__main__":
    main()
