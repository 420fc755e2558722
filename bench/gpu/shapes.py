#!/usr/bin/env python3
"""Programs like those of the benchmark table in shapes of models, beside PyTorch: shapes.py, options as products.py.

Nothing in Strata was tuned for these shapes: heads of 96 and 256, contexts that no tile divides, sizes of Qwen, Llama and
BERT. Errors are relative to the program in float64.
"""
import peers
from products import F, main
from programs import gated_mlp_of, lora_of, rms, rmsnorm_of, stable_attention


def attention(dtype, heads, queries, context, size):
    flash, cudnn = peers.sdpa("FLASH_ATTENTION"), peers.sdpa("CUDNN_ATTENTION")
    return (dtype, {"Q": (heads, queries, size), "Kt": (heads, context, size), "V": (heads, context, size)},
            stable_attention("Q", "Kt", "V", size), peers.attn, {"flash": flash, "cudnn": cudnn})


def gated_mlp(dtype, *sizes):
    return (dtype, *gated_mlp_of(*sizes), lambda x, w1, w2: F.silu(x @ w1) * (x @ w2))


def rmsnorm(dtype, *sizes):
    return (dtype, *rmsnorm_of(*sizes), peers.rmsnorm)


def lora(dtype, *sizes):
    return (dtype, *lora_of(*sizes), peers.lora)


def residual(dtype, tokens, hidden, out):
    return (dtype, {"X": (tokens, hidden), "W": (hidden, out), "R": (tokens, out)},
            ["P = matmul(X, W)", "T = add(P, R)"] + rms("T", out, 1, "O"), lambda x, w, r: peers.rms(x @ w + r))


def layernorm(dtype, tokens, hidden, out):
    statements = ["S = sum(X, dim=1)", f"M = scale(S, factor=1/{hidden})", "C = sub(X, M)", "Q = sqr(C)",
                  "V = sum(Q, dim=1)", f"W2 = scale(V, factor=1/{hidden})", "D = sqrt(W2)", "N = div(C, D)",
                  "P = matmul(N, W)", "T = add(P, b)", "O = gelu(T)"]
    return (dtype, {"X": (tokens, hidden), "W": (hidden, out), "b": (out,)}, statements,
            lambda x, w, b: F.gelu(F.layer_norm(x, x.shape[-1:], eps=0.0) @ w + b, approximate="tanh"))


def mlp(dtype, tokens, hidden, inner):
    return (dtype, {"X": (tokens, hidden), "U": (hidden, inner), "D": (inner, hidden)},
            ["A = matmul(X, U)", "R = relu(A)", "S = sqr(R)", "O = matmul(S, D)"],
            lambda x, u, d: F.relu(x @ u).square() @ d)


PROGRAMS = {
    "attn_1000": attention("f16", 16, 100, 1000, 64), "attn_96": attention("f16", 12, 64, 1500, 96),
    "attn_256": attention("f16", 4, 8, 4096, 256), "gqa_decode_2k": attention("bf16", 8, 4, 2048, 128),
    "prefill_1k": attention("bf16", 32, 1024, 1024, 128),
    "mlp_qwen_4": gated_mlp("bf16", 4, 3584, 18944), "mlp_64": gated_mlp("f16", 64, 2048, 8192),
    "norm_5120": rmsnorm("f16", 1, 5120, 13824), "norm_64": rmsnorm("bf16", 64, 4096, 12288),
    "logits": rmsnorm("bf16", 1, 4096, 32000), "residual_16": residual("f16", 16, 4096, 4096),
    "bert_gelu": layernorm("f16", 256, 768, 3072), "lora_64": lora("f16", 32, 4096, 11008, 64),
    "relu2_128": mlp("f16", 128, 1024, 4096),
}


if __name__ == "__main__":
    main(PROGRAMS, "shapes")
