"""A float32 reference of Qwen3 and Llama decoders for check_decode.py: weights, logits of a whole sequence, and the
rule by which tokens are judged.

Arrays are NumPy's, or PyTorch's where it has a GPU: the reference is written in what both have. With `rounded`, results
of all operations are rounded to bfloat16, as an implementation in bfloat16 with sums in float32 would: the difference
between both is the measured error of bfloat16.
"""
import dataclasses
import json
import math
import pathlib
import struct

import numpy as np


def shapes(config):
    """Shapes of all weights by their Hugging Face names."""
    hidden, ffn, d = config["hidden_size"], config["intermediate_size"], head_dim(config)
    queries, keys = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    found = {"model.embed_tokens.weight": (config["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    if not config.get("tie_word_embeddings"):
        found["lm_head.weight"] = (config["vocab_size"], hidden)
    layer = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (queries, hidden),
             "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden),
             "self_attn.o_proj": (hidden, queries), "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden),
             "mlp.down_proj": (hidden, ffn)}
    if config["model_type"] == "qwen3":
        layer |= {"self_attn.q_norm": (d,), "self_attn.k_norm": (d,)}
    for n in range(config["num_hidden_layers"]):
        found |= {f"model.layers.{n}.{name}.weight": shape for name, shape in layer.items()}
    return found


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def to_bf16(values):
    """Bits of float32 values, rounded to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def draw_weights(config, seed):
    """Bits of random weights: matrices with deviation 1/sqrt(columns), gains about 1."""
    random = np.random.default_rng(seed)
    weights = {}
    for name, shape in shapes(config).items():
        values = random.standard_normal(shape, np.float32)
        if len(shape) == 1:
            values = np.float32(1) + np.float32(1 / 16) * values
        else:
            values *= np.float32(1 / math.sqrt(shape[-1]))
        weights[name] = to_bf16(values)
    return weights


def write_safetensors(path, weights):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, bits in weights.items():
        header[name] = {"dtype": "BF16", "shape": bits.shape, "data_offsets": [offset, offset + bits.nbytes]}
        offset += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with pathlib.Path(path).open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for bits in weights.values():
            bits.tofile(file)


def frequencies(config):
    """Angles of a position, [head_dim / 2]. Llama 3.1's scaling keeps fast turns, divides slow ones, blends others."""
    rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"]} | (config.get("rope_scaling") or {})
    d = head_dim(config)
    found = float(rope["rope_theta"]) ** (-np.arange(0, d, 2) / d)
    if rope.get("rope_type", rope.get("type")) == "llama3":
        turns = rope["original_max_position_embeddings"] * found / (2 * np.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        kept = np.clip((turns - low) / (high - low), 0, 1)
        found = found * (kept + (1 - kept) / rope["factor"])
    return found


class NumpyArrays:
    name = "numpy"

    def array(self, values):
        return np.asarray(values, np.float32)

    def weight(self, bits):
        return from_bf16(bits)

    def rounded(self, x):
        return from_bf16(to_bf16(np.ascontiguousarray(x, np.float32)))

    def exp(self, x):
        # Where exp overflows, what it is a divisor of is 0.
        with np.errstate(over="ignore"):
            return np.exp(x)

    def sqrt(self, x):
        return np.sqrt(x)

    def join(self, parts):
        return np.concatenate(parts, -1)

    def heads_first(self, x):
        return np.swapaxes(x, 0, 1)

    def transposed(self, x):
        return np.swapaxes(x, -1, -2)

    def largest(self, x):
        return np.max(x, -1, keepdims=True)

    def repeated(self, x, times):
        return np.repeat(x, times, 0)

    def result(self, x):
        return x


class TorchArrays:
    name = "torch"

    def __init__(self, torch, device):
        self.torch, self.device = torch, device
        torch.set_float32_matmul_precision("highest")  # products in float32, not TF32

    def array(self, values):
        return self.torch.asarray(np.asarray(values, np.float32), device=self.device)

    def weight(self, bits):
        return self.torch.from_numpy(bits.view(np.int16)).to(self.device).view(self.torch.bfloat16).float()

    def rounded(self, x):
        return x.to(self.torch.bfloat16).float()

    def exp(self, x):
        return self.torch.exp(x)

    def sqrt(self, x):
        return self.torch.sqrt(x)

    def join(self, parts):
        return self.torch.cat(parts, -1)

    def heads_first(self, x):
        return x.transpose(0, 1)

    def transposed(self, x):
        return x.transpose(-1, -2)

    def largest(self, x):
        return x.amax(-1, keepdim=True)

    def repeated(self, x, times):
        return x.repeat_interleave(times, 0)

    def result(self, x):
        return x.cpu().numpy()


def arrays_of(device):
    """Those of PyTorch on `device`, such as "cuda"; for "numpy" NumPy's."""
    if device == "numpy":
        return NumpyArrays()
    import torch
    return TorchArrays(torch, device)


class Reference:
    def __init__(self, config, weights, arrays):
        """`weights` are bits by name."""
        self.config, self.arrays = config, arrays
        self.weights = {name: arrays.weight(bits) for name, bits in weights.items()}

    def logits(self, tokens, first=0, rounded=False):
        """After each token of a sequence from number `first` on, float32 [tokens, vocabulary]."""
        c, a, weights = self.config, self.arrays, self.weights
        count, d, heads, groups = len(tokens), head_dim(c), c["num_attention_heads"], c["num_key_value_heads"]
        kept = a.rounded if rounded else lambda x: x
        angle = np.arange(count)[:, None] * frequencies(c)
        cos, sin = a.array(np.cos(angle))[:, None, :], a.array(np.sin(angle))[:, None, :]
        hidden = a.array(np.triu(np.full((count, count), -1e30), 1))

        def norm(x, gain):
            return kept(x / a.sqrt((x * x).mean(-1)[..., None] + c["rms_norm_eps"]) * gain)

        def product(x, matrix):
            return x @ matrix.T

        def rotated(x):
            low, high = x[..., :d // 2], x[..., d // 2:]
            return kept(a.join([low * cos - high * sin, high * cos + low * sin]))

        x = weights["model.embed_tokens.weight"][list(tokens)]
        for n in range(c["num_hidden_layers"]):
            w = lambda name, n=n: weights[f"model.layers.{n}.{name}.weight"]
            h = norm(x, w("input_layernorm"))
            q = kept(product(h, w("self_attn.q_proj"))).reshape(count, heads, d)
            k = kept(product(h, w("self_attn.k_proj"))).reshape(count, groups, d)
            v = kept(product(h, w("self_attn.v_proj"))).reshape(count, groups, d)
            if c["model_type"] == "qwen3":
                q, k = norm(q, w("self_attn.q_norm")), norm(k, w("self_attn.k_norm"))
            q, k, v = a.heads_first(rotated(q)), a.heads_first(rotated(k)), a.heads_first(v)
            k, v = a.repeated(k, heads // groups), a.repeated(v, heads // groups)
            scores = (q @ a.transposed(k)) / math.sqrt(d) + hidden
            shares = kept(a.exp(scores - a.largest(scores)))
            mixed = kept((shares @ v) / shares.sum(-1)[..., None])
            x = kept(x + product(a.heads_first(mixed).reshape(count, heads * d), w("self_attn.o_proj")))
            h = norm(x, w("post_attention_layernorm"))
            gate, up = product(h, w("mlp.gate_proj")), product(h, w("mlp.up_proj"))
            x = kept(x + product(kept(gate / (1 + a.exp(-gate)) * up), w("mlp.down_proj")))
        tied = c.get("tie_word_embeddings")
        head = weights["model.embed_tokens.weight" if tied else "lm_head.weight"]
        return a.result(kept(product(norm(x[first:], weights["model.norm.weight"]), head)))


CANDIDATES = 8  # tokens a step whose logits the error is measured at: those that could be chosen


def bf16_error(exact, rounded):
    """The largest difference of logits [steps, vocabulary], at each step's best tokens in one or the other."""
    worst = 0.0
    for e, r in zip(exact, rounded):
        count = min(CANDIDATES, len(e))
        best = np.union1d(np.argpartition(e, -count)[-count:], np.argpartition(r, -count)[-count:])
        worst = max(worst, float(np.abs(e[best] - r[best]).max()))
    return worst


@dataclasses.dataclass
class Verdict:
    """Of tokens that a greedy decoder chose, each judged by the logits after all tokens before it."""
    steps: int
    clear: int  # steps whose two best logits are at least twice the error apart
    first_tie: int | None  # the first step that is not
    first_tie_gap: float | None
    mismatch: int | None  # the first step with a token that the error does not explain
    mismatch_gap: float | None  # by how much its logit is less than the best

    def right(self):
        return self.mismatch is None


def judge(logits, tokens, error):
    """At a clear step only the best token is right; at a tie each whose logit is nearer than 2 `error` to the best."""
    verdict = Verdict(len(tokens), 0, None, None, None, None)
    for step, (row, token) in enumerate(zip(logits, tokens, strict=True)):
        second, best = np.partition(row, -2)[-2:]
        gap = float(best - second)
        if gap >= 2 * error:
            verdict.clear += 1
        elif verdict.first_tie is None:
            verdict.first_tie, verdict.first_tie_gap = step, gap
        below = float(best - row[token])
        # NaN is a mismatch.
        if verdict.mismatch is None and not (below == 0 or below < 2 * error):
            verdict.mismatch, verdict.mismatch_gap = step, below
    return verdict


def first_difference(one, other):
    """The first step at which two lists of tokens differ, in length too; None where they are equal."""
    for step, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return step
    return None if len(one) == len(other) else min(len(one), len(other))
