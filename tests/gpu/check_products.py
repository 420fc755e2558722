#!/usr/bin/env python3
"""Random products by cuBLASLt as launch manifests describe them, compared with float64: check_products.py [COUNT].

All types, odd sizes, batches, operands in both orders and with rows further apart than they are long, one matrix for a
whole batch, bias and activation, and the first algorithms of the library. Exit status 1 where anything is wrong or the
library does not take a product that src/superopt/codegen/libraries.cpp would give to it.
"""
import math
import pathlib
import random
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cublas_lt import Product  # noqa: E402
from run import TOLERANCE, TYPES  # noqa: E402


def operand(rows, columns, batch, draw):
    """A place, and how many elements lie there."""
    transposed = draw.random() < 0.5
    stored_rows, stored_columns = (columns, rows) if transposed else (rows, columns)
    leading = stored_columns + draw.choice([0, 0, 8, 3])
    shared = batch > 1 and draw.random() < 0.3
    stride = 0 if shared or batch == 1 else stored_rows * leading + draw.choice([0, 16])
    size = stored_rows * leading + stride * (batch - 1)
    return {"transposed": transposed, "leading": leading, "batch_stride": stride}, size


def matrices(memory, place, rows, columns, batch):
    shape = (columns, rows) if place["transposed"] else (rows, columns)
    found = torch.as_strided(memory, (batch, *shape), (place["batch_stride"], place["leading"], 1))
    return (found.transpose(1, 2) if place["transposed"] else found).double()


def check(seed, workspace):
    draw = random.Random(seed)
    size = lambda: draw.choice([1, 2, 7, 8, 17, 64, 100, 128, 250, 512])
    dtype = draw.choice(list(TYPES))
    batch, m, n, k = draw.choice([1, 1, 3, 8]), size(), size(), size()
    a_place, a_size = operand(m, k, batch, draw)
    b_place, b_size = operand(k, n, batch, draw)
    plain = dtype == "f64"
    product = {"type": dtype, "batch": batch, "m": m, "n": n, "k": k, "a": a_place, "b": b_place,
               "bias": not plain and draw.random() < 0.5,
               "activation": "none" if plain else draw.choice(["none", "relu", "gelu"]), "algorithm": 0}
    make = lambda count: torch.randn(count, device="cuda", dtype=torch.float64).to(TYPES[dtype])
    a, b, bias = make(a_size), make(b_size), make(n)
    expected = matrices(a, a_place, m, k, batch) @ matrices(b, b_place, k, n, batch)
    expected = expected + bias.double() if product["bias"] else expected
    if product["activation"] == "relu":
        expected = torch.relu(expected)
    if product["activation"] == "gelu":
        expected = torch.nn.functional.gelu(expected, approximate="tanh")
    worst, algorithms = 0.0, 0
    for algorithm in range(3):
        product["algorithm"] = algorithm
        try:
            one = Product({"name": "product", "workspace_bytes": workspace.numel(), "product": product})
        except RuntimeError:
            if algorithm == 0:
                return product, math.inf, 0
            break
        algorithms += 1
        c = torch.full((batch, m, n), float("nan"), device="cuda", dtype=TYPES[dtype])
        arguments = [a, b, bias, c] if product["bias"] else [a, b, c]
        one.run([t.data_ptr() for t in arguments], workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        error = ((c.double() - expected).norm() / expected.norm().clamp_min(1e-30)).item()
        worst = error if not error <= worst else worst
    return product, worst, algorithms


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    torch.zeros(1, device="cuda")
    workspace = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    wrong, refused, largest, algorithms = 0, 0, {}, 0
    for seed in range(count):
        product, error, tried = check(seed, workspace)
        algorithms += tried
        if error <= TOLERANCE[product["type"]]:
            largest[product["type"]] = max(largest.get(product["type"], 0), error)
            continue
        refused, wrong = refused + (error == math.inf), wrong + (error != math.inf)
        print("refused" if error == math.inf else f"WRONG {error:.2e}", product, flush=True)
    print(f"{count} products, {algorithms} algorithms: {wrong} wrong, {refused} refused; largest errors "
          + ", ".join(f"{t} {e:.1e}" for t, e in sorted(largest.items())))
    sys.exit(1 if wrong or refused else 0)


if __name__ == "__main__":
    main()
