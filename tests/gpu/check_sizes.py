#!/usr/bin/env python3
"""Programs with dims on the machine's GPU: check_sizes.py STRATA [FOLDER].

Makes a table of sizes for RMSNorm with a product, attention and a gated MLP (`strata optimize --sizes`): the first size
is searched and measured, the others are made of it. Then the table runs on the GPU (`strata run FOLDER --device gpu`)
at the sizes of its entries and between them, and results are compared with the interpreter's. Prints the seconds that
each entry took, and what is said of it. Exit status 1 where a result differs.
"""
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

TOLERANCE = 5e-3  # relative Frobenius norm, of f16
NORM = """graph norm {
  dim tokens = 16
  input X: f16[tokens, 1024]
  input G: f16[1024]
  input W: f16[1024, 4096]
  XG = mul(X, G)
  X2 = sqr(X)
  S = sum(X2, dim=1)
  M = scale(S, factor=1/1024)
  R = sqrt(M)
  Y = div(XG, R)
  O = matmul(Y, W)
  output O
}
"""
ATTENTION = """graph attention {
  dim queries = 64
  dim keys = 1024
  input Q: f16[2, queries, 64]
  input K: f16[2, 64, keys]
  input V: f16[2, keys, 64]
  A = matmul(Q, K)
  B = scale(A, factor=1/8)
  E = exp(B)
  S = sum(E, dim=2)
  D = div(E, S)
  O = matmul(D, V)
  output O
}
"""
GATED = """graph gated {
  dim tokens = 8
  input X: f16[tokens, 1024]
  input W1: f16[1024, 2048]
  input W2: f16[1024, 2048]
  A = matmul(X, W1)
  B = matmul(X, W2)
  S = silu(A)
  O = mul(S, B)
  output O
}
"""
#: Program, tables, and sizes to run at.
CASES = [
    (NORM, ["tokens=1,8,16,64,256,1024"], [f"tokens={n}" for n in (1, 3, 8, 13, 16, 50, 64, 200, 1000, 1024)]),
    (ATTENTION, ["queries=1,64,256", "keys=1024,2048"],
     ["queries=1 keys=1024", "queries=64 keys=2048", "queries=100 keys=1024", "queries=256 keys=2048"]),
    (GATED, ["tokens=1,8,32,128"], [f"tokens={n}" for n in (1, 2, 8, 20, 32, 100, 128)]),
]


def call(*command):
    start = time.monotonic()
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout, time.monotonic() - start


def check(strata, folder, program, tables, runs):
    name = program.split()[1]
    text = folder / f"{name}.strata"
    text.write_text(program)
    options = [option for table in tables for option in ("--sizes", table)]
    said, seconds = call(strata, "optimize", text, "-o", folder / name, "--cache", folder / "cache", *options)
    print(f"{name}: table made in {seconds:.1f} s")
    print("".join(f"  {line}\n" for line in said.splitlines() if line.startswith(("sizes:", "1 kernel", "2 kernels"))))
    wrong = 0
    for run in runs:
        dims = [option for dim in run.split() for option in ("--dim", dim)]
        found, expected = folder / "found", folder / "expected"
        said, _ = call(strata, "run", folder / name, "--device", "gpu", "--output", found, *dims)
        call(strata, "run", text, "--output", expected, *dims)
        a, b = np.load(found / "O.npy").astype(np.float64), np.load(expected / "O.npy").astype(np.float64)
        error = np.linalg.norm(a - b) / np.linalg.norm(b) if a.shape == b.shape else float("inf")
        wrong += not error < TOLERANCE
        print(f"  {run}: error {error:.1e}{'' if error < TOLERANCE else '  WRONG'}; {said.splitlines()[0]}")
    return wrong


def main():
    strata = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    wrong = sum(check(strata, folder, *case) for case in CASES)
    print("all right" if wrong == 0 else f"{wrong} WRONG")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
