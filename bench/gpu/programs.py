#!/usr/bin/env python3
"""Writes programs/bench: the programs of the benchmark table, one a file and batch size. programs.py [FOLDER]

The functions and shapes are those that peers.py times in PyTorch, inputs in the same order. B is the batch size.
"""
import fractions
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rms(x, size, dim, name):
    """name = x / √(mean of x² over dimension dim)."""
    return [f"{name}_sqr = sqr({x})", f"{name}_sum = sum({name}_sqr, dim={dim})",
            f"{name}_mean = scale({name}_sum, factor=1/{size})", f"{name}_root = sqrt({name}_mean)",
            f"{name} = div({x}, {name}_root)"]


def attention(q, k, v):
    """As the public benchmark writes it: no scale, no maximum subtracted."""
    return [f"A = matmul({q}, {k})", "E = exp(A)", "S = sum(E, dim=2)", "D = div(E, S)", f"O = matmul(D, {v})"]


def stable_attention(q, kt, v, size):
    """Scaled and with the maximum subtracted; keys are stored as (heads, context, size)."""
    # d^(−1/2), or a fraction nearer to it than f16 can tell (2^−11)
    factor = fractions.Fraction(size ** -0.5).limit_denominator(500)
    return [f"K = transpose({kt}, perm=[0, 2, 1])", f"A = matmul({q}, K)", f"C = scale(A, factor={factor})",
            "M = reduce_max(C, dim=2)", "L = sub(C, M)", "E = exp(L)", "S = sum(E, dim=2)", "D = div(E, S)",
            f"O = matmul(D, {v})"]


def gqa(b):
    return ({"Q": (2 * b, 256, 64), "K": (2 * b, 64, 4096), "V": (2 * b, 4096, 64)}, attention("Q", "K", "V"))


def qknorm(b):
    return ({"Q": (2 * b, 256, 64), "K": (2 * b, 64, 4096), "V": (2 * b, 4096, 64)},
            rms("Q", 64, 2, "NQ") + rms("V", 64, 2, "NV") + attention("NQ", "K", "NV"))


def attn(b):
    return ({"Q": (2 * b, 256, 64), "Kt": (2 * b, 4096, 64), "V": (2 * b, 4096, 64)},
            stable_attention("Q", "Kt", "V", 64))


def attn_decode8k(b):
    return ({"Q": (2 * b, 8, 128), "Kt": (2 * b, 8192, 128), "V": (2 * b, 8192, 128)},
            stable_attention("Q", "Kt", "V", 128))


def qknorm_decode4k(b):
    return ({"Q": (32 * b, 1, 128), "Kt": (32 * b, 4096, 128), "V": (32 * b, 4096, 128)},
            rms("Q", 128, 2, "NQ") + rms("Kt", 128, 2, "NK") + stable_attention("NQ", "NK", "V", 128))


def rmsnorm_of(tokens, hidden, out):
    return ({"X": (tokens, hidden), "G": (hidden,), "W": (hidden, out)},
            rms("X", hidden, 1, "N") + ["Y = mul(N, G)", "O = matmul(Y, W)"])


def lora_of(tokens, hidden, out=4096, rank=16):
    return ({"X": (tokens, hidden), "W": (hidden, out), "A": (hidden, rank), "B": (rank, out)},
            ["XW = matmul(X, W)", "XA = matmul(X, A)", "XAB = matmul(XA, B)", "O = add(XW, XAB)"])


def gated_mlp_of(tokens, hidden, inner):
    return ({"X": (tokens, hidden), "W1": (hidden, inner), "W2": (hidden, inner)},
            ["A = matmul(X, W1)", "B = matmul(X, W2)", "S = silu(A)", "O = mul(S, B)"])


def l2(x, name):
    return [f"{name}_sqr = sqr({x})", f"{name}_sum = sum({name}_sqr, dim=1)", f"{name}_root = sqrt({name}_sum)",
            f"{name} = div({x}, {name}_root)"]


def ntrans(b):
    return ({"H": (8 * b, 4096), "X": (8 * b, 4096), "A": (8 * b, 4096)},
            l2("H", "NH") + ["D = sub(NH, X)", "T = mul(A, D)", "R = add(X, T)"] + l2("R", "O"))


PROGRAMS = {
    "gqa": gqa, "qknorm": qknorm, "attn": attn, "attn_decode8k": attn_decode8k, "qknorm_decode4k": qknorm_decode4k,
    "rmsnorm": lambda b: rmsnorm_of(16 * b, 1024, 4096), "rmsnorm_4k": lambda b: rmsnorm_of(2 * b, 4096, 6144),
    "lora": lambda b: lora_of(16 * b, 256), "lora_4k": lambda b: lora_of(16 * b, 4096),
    "gated_mlp": lambda b: gated_mlp_of(8 * b, 4096, 4096), "ntrans": ntrans,
}


def text(name, batch):
    inputs, statements = PROGRAMS[name](batch)
    lines = [f"# {name} of the benchmark table, batch {batch}; written by bench/gpu/programs.py.", f"graph {name} {{"]
    lines += [f"  input {n}: f16[{', '.join(map(str, shape))}]" for n, shape in inputs.items()]
    lines += [f"  {statement}" for statement in statements]
    return "\n".join(lines + ["  output O", "}", ""])


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "programs" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        for batch in (1, 8):
            (folder / f"{name}_b{batch}.strata").write_text(text(name, batch))


if __name__ == "__main__":
    main()
