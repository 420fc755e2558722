#!/usr/bin/env python3
"""Decoders of src/megakernel/models against NumPy. Usage: ... DECODE_REFERENCE

The models here are written from their published equations (RMSNorm, rotary embedding, grouped-query attention,
SwiGLU, Llama 3.1's scaling of angles, Qwen3's norms of queries and keys), in float64 and over the whole sequence at
once, without a cache. Weights go to the decoder in a safetensors file that is written here, and random weights of the
decoder come back in one that is read here."""
import itertools
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

TIMEOUT = 900  # seconds; only a hang takes as long
TOLERANCE = 1e-5  # of the largest logit: float32, in sums and in the angles' tables
STEPS = 24

TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 96, "vocab_size": 101, "max_position_embeddings": 256, "hidden_act": "silu",
        "torch_dtype": "bfloat16"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
QWEN = TINY | {"model_type": "qwen3", "rms_norm_eps": 1e-6, "rope_theta": 1000000}
LLAMA = TINY | {"model_type": "llama", "rms_norm_eps": 1e-5, "rope_theta": 500000.0}
# A small base, so that all three ranges of the scaling hold some of the eight angles.
SCALED = LLAMA | {"rope_theta": 1000.0, "rope_scaling": LLAMA3}
CONFIGS = {
    "qwen3": QWEN,
    "qwen3 tied": QWEN | {"tie_word_embeddings": True},
    "qwen3, narrow heads": QWEN | {"head_dim": 6, "num_attention_heads": 6},
    "llama scaled": SCALED,
    "llama scaled, tied, new keys": {key: value for key, value in SCALED.items() if not key.startswith("rope_")}
    | {"rope_parameters": LLAMA3 | {"rope_theta": 1000.0}, "tie_word_embeddings": True},
    "llama, a key head a query head": LLAMA | {"num_key_value_heads": 4},
}


def shapes(config):
    hidden, ffn, d = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    result = {"model.embed_tokens.weight": (config["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    if not config.get("tie_word_embeddings"):
        result["lm_head.weight"] = (config["vocab_size"], hidden)
    for n in range(config["num_hidden_layers"]):
        layer = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
                 "self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden),
                 "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries),
                 "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden), "mlp.down_proj": (hidden, ffn)}
        if config["model_type"] == "qwen3":
            layer |= {"self_attn.q_norm": (d,), "self_attn.k_norm": (d,)}
        result |= {f"model.layers.{n}.{name}.weight": shape for name, shape in layer.items()}
    return result


def to_bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, bits in tensors.items():
        header[name] = {"dtype": "BF16", "shape": bits.shape, "data_offsets": [offset, offset + bits.nbytes]}
        offset += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(bits.tobytes() for bits in tensors.values()))


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "BF16"
        tensors[name] = np.frombuffer(data[8 + length + begin:8 + length + end], "<u2").reshape(entry["shape"])
    return tensors


def angles(config, positions):
    rope = config.get("rope_parameters")
    if rope is None:
        rope = {"rope_theta": config["rope_theta"]} | (config.get("rope_scaling") or {})
    d = config["head_dim"]
    frequencies = rope["rope_theta"] ** (-np.arange(0, d, 2) / d)
    if rope.get("rope_type") == "llama3":
        turns = rope["original_max_position_embeddings"] * frequencies / (2 * np.pi)  # in the original context
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        share = np.clip((turns - low) / (high - low), 0, 1)
        frequencies = frequencies * (share + (1 - share) / rope["factor"])
    return positions[:, None] * frequencies[None, :]


def rotate(x, angle):
    """Pairs (x_i, x_{i + d/2}) of x[T, heads, d] turned by angle[T, d/2]."""
    first, second = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def rms_norm(x, gain, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * gain


def logits_of(config, weights, tokens, all_scores=None):
    """[T, vocab] of a sequence of T tokens. all_scores: a list that takes each layer's [heads, T, T]."""
    count, d, eps = len(tokens), config["head_dim"], config["rms_norm_eps"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    embeddings = weights["model.embed_tokens.weight"]
    angle = angles(config, np.arange(count))
    x = embeddings[tokens]
    for n in range(config["num_hidden_layers"]):
        w = {name: weights[f"model.layers.{n}.{name}.weight"] for name in (
            "input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
            "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")}
        h = rms_norm(x, w["input_layernorm"], eps)
        q = (h @ w["self_attn.q_proj"].T).reshape(count, heads, d)
        k = (h @ w["self_attn.k_proj"].T).reshape(count, groups, d)
        v = (h @ w["self_attn.v_proj"].T).reshape(count, groups, d)
        if config["model_type"] == "qwen3":
            q = rms_norm(q, weights[f"model.layers.{n}.self_attn.q_norm.weight"], eps)
            k = rms_norm(k, weights[f"model.layers.{n}.self_attn.k_norm.weight"], eps)
        q, k = rotate(q, angle), rotate(k, angle)
        k, v = np.repeat(k, heads // groups, axis=1), np.repeat(v, heads // groups, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d)
        if all_scores is not None:
            all_scores.append(scores.copy())
        scores[:, np.triu_indices(count, 1)[0], np.triu_indices(count, 1)[1]] = -np.inf
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", shares, v).reshape(count, heads * d) @ w["self_attn.o_proj"].T
        h = rms_norm(x, w["post_attention_layernorm"], eps)
        gate = h @ w["mlp.gate_proj"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["mlp.up_proj"].T)) @ w["mlp.down_proj"].T
    head = embeddings if config.get("tie_word_embeddings") else weights["lm_head.weight"]
    return rms_norm(x, weights["model.norm.weight"], eps) @ head.T


def mix(word):
    with np.errstate(over="ignore"):
        word = word + np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return word ^ (word >> np.uint64(31))


def drawn(name, shape, seed):
    """draw_weight of src/megakernel/models/weights.h."""
    state = np.array([0x5374726174610001], np.uint64)
    for word in [len(name), *name.encode()]:
        state = mix(state ^ np.uint64(word))
    words = mix(mix(np.uint64(seed) ^ state) + np.arange(np.prod(shape), dtype=np.uint64))
    parts = sum((words >> np.uint64(16 * n) & np.uint64(0xFFFF)).astype(np.int64) for n in range(4)) - 2 * 65535
    if len(shape) == 1:  # float64 holds the product and the sum exactly, so it is rounded once
        return to_bf16(1 + parts * np.float64(np.float32(np.sqrt(3) / 65536 / 16))).reshape(shape)
    scale = np.float32(np.sqrt(3) / 65536 / np.sqrt(shape[-1]))
    return to_bf16(parts.astype(np.float32) * scale).reshape(shape)


class Driver:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def config(self, config):
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        return path

    def decode(self, config, weights, precision, tokens):
        """tokens[T, B] to logits[T, B, vocab]."""
        steps = json.dumps(tokens.tolist())
        return np.array(json.loads(self.run("decode", self.config(config), weights, precision, steps)))


def compare(name, found, config, weights, tokens, tolerance=TOLERANCE):
    for sequence in range(tokens.shape[1]):
        expected = logits_of(config, weights, tokens[:, sequence])
        error = np.abs(found[:, sequence] - expected).max() / np.abs(expected).max()
        print(f"{name}, sequence {sequence}: error {error:.1e}")
        assert error < tolerance, f"{name}: {error}"


def written_weights(driver, config, random, larger=None):
    """Random weights, the decoder's and as numbers. larger: of the weights whose name ends so, 60 times as large."""
    bits = {}
    for weight, shape in shapes(config).items():
        spread = 0.3 if len(shape) == 1 else 1.5 / np.sqrt(shape[-1])
        factor = 60 if larger is not None and weight.endswith(larger) else 1
        bits[weight] = to_bf16(factor * ((len(shape) == 1) + spread * random.standard_normal(shape)))
    write_safetensors(driver.folder / "model.safetensors", bits)
    return {weight: from_bf16(values) for weight, values in bits.items()}


def test_large_scores(driver, random):
    """Scores whose exponentials no float holds, and rows all of whose exponentials would be 0."""
    for config, larger in ((QWEN, "self_attn.q_norm.weight"), (SCALED, "self_attn.q_proj.weight")):
        weights = written_weights(driver, config, random, larger)
        tokens = random.integers(0, config["vocab_size"], (STEPS, 3))
        scores = []
        for sequence in range(3):
            logits_of(config, weights, tokens[:, sequence], scores)
        # Of a token alone the only score is that of its own key.
        alone = np.array([of_layer[:, 0, 0] for of_layer in scores])
        largest = max(np.abs(np.tril(of_layer)).max() for of_layer in scores)
        assert largest > 100 and alone.min() < -110 and alone.max() > 100, (largest, alone.min(), alone.max())
        for precision in ("f32", "f64"):
            found = driver.decode(config, driver.folder, precision, tokens)
            # Angles are rounded in both, so an error of scores is larger as these are.
            compare(f"{config['model_type']}, large scores, {precision}", found, config, weights, tokens,
                    TOLERANCE * largest / 2)


def test_decoding(driver, random):
    for name, config in CONFIGS.items():
        weights = written_weights(driver, config, random)
        for precision, batch in itertools.product(("f32", "f64"), (1, 3)):
            tokens = random.integers(0, config["vocab_size"], (STEPS, batch))
            found = driver.decode(config, driver.folder, precision, tokens)
            assert found.shape == (STEPS, batch, config["vocab_size"])
            compare(f"{name}, {precision}, batch {batch}", found, config, weights, tokens)
        check_that_everything_matters(config, weights, tokens)


def check_that_everything_matters(config, weights, tokens):
    """The comparison would see each of these mistakes."""
    right = logits_of(config, weights, tokens[:, 0])

    def differs(other_config, other_weights):
        wrong = logits_of(other_config, other_weights, tokens[:, 0])
        assert np.abs(wrong - right).max() > 20 * TOLERANCE * np.abs(right).max()

    for weight, values in weights.items():
        if weight != "lm_head.weight":
            differs(config, weights | {weight: values[::-1]})
    differs(config | {"rms_norm_eps": 1e-2}, weights)
    if config.get("rope_scaling"):
        differs(config | {"rope_scaling": None}, weights)
        differs(config | {"rope_scaling": LLAMA3 | {"high_freq_factor": 2.0}}, weights)
    if config["model_type"] == "qwen3":
        differs(config | {"model_type": "llama"}, weights)


def test_drawn_weights(driver):
    for name in ("qwen3", "llama scaled, tied, new keys"):
        config, seed = CONFIGS[name], 12345
        path = driver.folder / "drawn.safetensors"
        driver.run("draw", driver.config(config), seed, path)
        bits = read_safetensors(path)
        expected = shapes(config)
        assert set(bits) == set(expected)
        for weight, shape in expected.items():
            assert np.array_equal(bits[weight], drawn(weight, shape, seed)), weight
        tokens = np.random.default_rng(2).integers(0, config["vocab_size"], (STEPS, 1))
        weights = {weight: from_bf16(values) for weight, values in bits.items()}
        compare(f"{name}, drawn", driver.decode(config, path, "f32", tokens), config, weights, tokens)


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(program, pathlib.Path(folder))
        test_decoding(driver, np.random.default_rng(1))
        test_large_scores(driver, np.random.default_rng(3))
        test_drawn_weights(driver)
    print("all equal")


if __name__ == "__main__":
    main(sys.argv[1])
