#!/usr/bin/env python3
"""Programs whose products or convolutions a library computes, beside PyTorch: products.py [--strata PATH] [--only TEXT] [--prices].

On a machine with a GPU: writes each program of PROGRAMS, runs `strata optimize --profile on`, times what it chose and
what PyTorch does in one process as bench.py does (cold, medians of CUDA-graph replays), and writes
DIR/DEVICE-DATE-products.json. --prices times cuBLASLt's products alone over many shapes, odd ones among them: what the
constants of src/superopt/codegen/libraries.cpp are set by (--only none --prices: nothing else).
"""
import argparse
import datetime
import json
import math
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu"), str(ROOT / "bench" / "gpu")]
from bench import calls_of, microseconds, random_inputs, relative, results_of  # noqa: E402
from cublas_lt import Product  # noqa: E402
from run import TOLERANCE, TYPES  # noqa: E402
from shipped import kernel_of  # noqa: E402

F = torch.nn.functional


def product(dtype, m, k, n):
    return dtype, {"A": (m, k), "B": (k, n)}, ["O = matmul(A, B)"], lambda a, b: a @ b


def linear(dtype, m, k, n, activation, function):
    return (dtype, {"X": (m, k), "W": (k, n), "b": (n,)},
            ["P = matmul(X, W)", "S = add(P, b)", f"O = {activation}(S)"], lambda x, w, b: function(x @ w + b))


def swiglu(dtype, tokens, hidden, inner):
    return (dtype, {"X": (tokens, hidden), "G": (hidden, inner), "U": (hidden, inner), "D": (inner, hidden)},
            ["A = matmul(X, G)", "B = matmul(X, U)", "S = silu(A)", "H = mul(S, B)", "O = matmul(H, D)"],
            lambda x, g, u, d: (F.silu(x @ g) * (x @ u)) @ d)


def normed(dtype, tokens, hidden, out):
    root = hidden ** 0.5
    return (dtype, {"X": (tokens, hidden), "G": (hidden,), "W": (hidden, out)},
            ["Q = sqr(X)", "R = sum(Q, dim=1)", f"M = scale(R, factor=1/{hidden})", "T = rsqrt(M)", "N = mul(X, T)",
             "Y = mul(N, G)", "P = matmul(Y, W)", "O = silu(P)"],
            lambda x, g, w: F.silu((x * (root * torch.rsqrt(x.to(torch.promote_types(x.dtype, torch.float32)).pow(2)
                                    .sum(-1, keepdim=True))).to(x.dtype) * g) @ w))


def scores(dtype, heads, rows, size):
    return (dtype, {"Q": (heads, rows, size), "K": (heads, rows, size)},
            ["T = transpose(K, perm=[0, 2, 1])", "O = matmul(Q, T)"], lambda q, k: q @ k.transpose(-1, -2))


def conv(dtype, image, filters, stride, padding, last=None):
    options = f", stride={stride}, padding={padding}"
    plain = lambda x, w: F.conv2d(x, w, stride=stride, padding=padding)
    statements = [f"O = conv2d(X, W{options})"] if last is None else [f"C = conv2d(X, W{options})", f"O = {last}(C)"]
    return (dtype, {"X": image, "W": filters}, statements,
            plain if last is None else lambda x, w: getattr(F, last)(plain(x, w)))


def conv_channels_last(dtype, image, filters, stride, padding, relu):
    """Sizes as in conv; tensors lie with their channels last, as PyTorch's channels_last does."""
    n, c, h, w = image
    o, _, i, j = filters
    statements = ["X = transpose(U, perm=[0, 3, 1, 2])", "W = transpose(V, perm=[0, 3, 1, 2])",
                  f"C = conv2d(X, W, stride={stride}, padding={padding})"]
    statements += ["R = relu(C)"] if relu else []
    statements.append(f"O = transpose({'R' if relu else 'C'}, perm=[0, 2, 3, 1])")

    def function(x, v):
        y = F.conv2d(x.permute(0, 3, 1, 2), v.permute(0, 3, 1, 2), stride=stride, padding=padding)
        return (F.relu(y) if relu else y).permute(0, 2, 3, 1)
    return dtype, {"U": (n, h, w, c), "V": (o, i, j, c)}, statements, function


def low_rank(dtype, m, n, k, rank):
    return (dtype, {"X": (m, k), "L": (m, rank), "W": (k, n), "B": (rank, n)}, ["O = concat_matmul(X, L, W, B)"],
            lambda x, l, w, b: x @ w + l @ b)


PROGRAMS = {
    "mm_f32_128": product("f32", 128, 512, 512), "mm_odd": product("f16", 17, 1000, 3001),
    "mm_f16_2048": product("f16", 2048, 2048, 2048), "mm_bf16_2048": product("bf16", 2048, 2048, 2048),
    "mm_f32_2048": product("f32", 2048, 2048, 2048), "linear_relu": linear("f16", 512, 1024, 4096, "relu", F.relu),
    "linear_gelu": linear("bf16", 2048, 1024, 4096, "gelu", lambda x: F.gelu(x, approximate="tanh")),
    "swiglu_8": swiglu("f16", 8, 4096, 11008), "swiglu_512": swiglu("f16", 512, 4096, 11008),
    "scores_32": scores("f16", 32, 512, 128), "mm_f64_512": product("f64", 512, 512, 512),
    "normed_1024": normed("f16", 1024, 1024, 4096),
    "concat_2048": low_rank("f16", 2048, 4096, 2048, 64),
    "conv_56": conv("f16", (8, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    "conv_odd": conv("f16", (3, 17, 31, 29), (13, 17, 5, 3), 2, 1),
    "conv_1x1": conv("f16", (8, 256, 56, 56), (64, 256, 1, 1), 1, 0),
    "conv_bf16_28": conv("bf16", (16, 128, 28, 28), (256, 128, 3, 3), 2, 1),
    "conv_f32_14": conv("f32", (4, 256, 14, 14), (256, 256, 3, 3), 1, 1),
    "conv_rgb": conv("f16", (8, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    "conv_last_56": conv_channels_last("f16", (8, 64, 56, 56), (64, 64, 3, 3), 1, 1, False),
    "conv_last_relu": conv_channels_last("f16", (8, 64, 56, 56), (64, 64, 3, 3), 1, 1, True),
    "conv_relu": conv("f16", (8, 64, 56, 56), (64, 64, 3, 3), 1, 1, "relu"),
}


def text(name, program):
    dtype, inputs, statements = program[:3]
    lines = [f"graph {name} {{"] + [f"  input {n}: {dtype}[{', '.join(map(str, s))}]" for n, s in inputs.items()]
    return "\n".join(lines + [f"  {statement}" for statement in statements] + ["  output O", "}", ""])


def rotated(buffers):
    one = random_inputs(buffers)
    size = sum(t.numel() * t.element_size() for t in one.values())
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return [one] + [random_inputs(buffers) for _ in range(min(64, max(2, math.ceil(4 * l2 / size))) - 1)]


def optimize(name, program, arguments, *options):
    folder = arguments.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "program.strata"
    path.write_text(text(name, program))
    cache = ["--cache", arguments.cache] if arguments.cache else []
    return subprocess.Popen([arguments.strata, "optimize", str(path), "--time-limit",
                             str(arguments.time_limit + arguments.profile_seconds), "--profile-seconds",
                             str(arguments.profile_seconds), "-o", str(folder), *cache, *options],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def search(programs, arguments):
    """Searches all programs side by side, so that each run finds its proved graphs in the cache."""
    running = [optimize(name, program, arguments, "--profile", "off") for name, program in programs.items()]
    for name, process in zip(programs, running):
        printed = process.communicate()[0]
        if process.returncode != 0:
            print(name, "SEARCH FAILED", printed[-300:], flush=True)


def run(name, program, arguments):
    folder = arguments.folder / name
    process = optimize(name, program, arguments, "--profile", "on")
    printed = process.communicate()[0]
    (folder / "printed.txt").write_text(printed)
    if process.returncode != 0:
        return {"program": name, "failed": printed[-500:]}
    report = json.loads((folder / "report.json").read_text())
    manifest = json.loads((folder / "best.launch.json").read_text())
    buffers = manifest["buffers"]
    sets = rotated(buffers)
    names = [b["name"] for b in buffers if b["role"] == "input"]
    dtype, _, statements, function, *more = program
    expected = function(*[sets[0][n].double() for n in names])
    calls, results = calls_of(kernel_of(folder), buffers, sets)
    calls[0]()
    torch.cuda.synchronize()
    rows = report["profile"].get("rows", [])
    row = {"program": name, "error": relative(results[0][0], expected), "needs": report["best"]["needs"],
           "kernels": len(manifest.get("steps", manifest.get("kernels"))), "schedule": next((r["schedule"] for r in rows if r["chosen"]), ""),
           "cold_us": microseconds(calls),
           "fastest_own_us": min((r["cold_us"] for r in rows if r["cold_us"] and "lt" not in r["schedule"]), default=None),
           "algorithms": {r["candidate"] + " " + r["schedule"]: r["cold_us"] for r in rows if "lt" in r["schedule"]},
           "estimated_us": next((r["estimated_us"] for r in rows if r["chosen"]), None), "peers": {}}
    row["ok"] = row["error"] <= TOLERANCE[dtype]
    peers = {"eager": function, **(more[0] if more else {})}
    if (len(statements) > 1 or "conv" in name) and not arguments.no_compile:
        peers["compile"] = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    for peer, of in peers.items():
        try:
            row["peers"][peer] = {"error": relative(of(*[sets[0][n] for n in names]), expected),
                                  "cold_us": microseconds([lambda s=s: of(*[s[n] for n in names]) for s in sets])}
        except Exception as failure:  # a peer that cannot run is reported, and the others are
            row["peers"][peer] = {"failed": f"{type(failure).__name__}: {str(failure)[:120]}"}
    return row


def shapes_to_price():
    """By group: (type, batch, m, n, k, whether A and B lie with their rows side by side, what A's rows are filled up to a
    multiple of). Sizes of models; odd ones between even ones, which tell what rows cost that are no multiples of 16
    bytes, and whether it is where they begin or how many terms they have; gradients of small weights by many tokens; few
    rows."""
    plain = [(t, 1, m, n, k, False, False, 1) for t in ("f16", "f32") for m in (8, 128, 512, 2048)
             for n, k in ((512, 512), (4096, 1024), (1024, 4096), (4096, 4096))]
    scores = [("bf16", 36, n, n, 128, False, True, 1) for n in (776, 777, 778, 780, 784)]
    values = [("bf16", 36, n, 128, n, False, False, 1) for n in (776, 777, 784)] + [
        ("bf16", 36, 777, 128, 777, False, False, 8)]
    block = [("bf16", 1, 1803, 4001, 1152, False, False, 1), ("bf16", 1, 1803, 4008, 1152, False, False, 1),
             ("bf16", 1, 1803, 1152, 4001, False, False, 1), ("bf16", 1, 1803, 1152, 4008, False, False, 1),
             ("bf16", 1, 1803, 1152, 4001, False, False, 8)]
    long = [("bf16", 1, 96000, 200, k, False, False, 1) for k in (96, 97, 104)]
    many = [("bf16", 485, m, 64, 131, True, False, 1) for m in (300, 304)]
    few = [("bf16", batch, m, n, k, turned, False, 1) for batch, m, n, k, turned in (
        (2, 64, 509, 11707, False), (2, 64, 512, 11712, False), (2, 509, 64, 11707, True), (2, 512, 64, 11712, True),
        (4, 101, 103, 3001, False), (4, 104, 104, 3008, False), (8, 333, 333, 1001, False), (8, 336, 336, 1008, False),
        (16, 77, 128, 999, False), (16, 80, 128, 1000, False), (3, 1001, 1001, 501, False), (64, 77, 77, 77, False),
        (64, 80, 80, 80, False), (12, 200, 97, 5003, True), (12, 200, 104, 5008, True))]
    wide = [("f32", 1, 5000, n, 3000, False, False, 1) for n in (776, 777)]
    short = [("f32", 1, 10000, n, k, False, False, 1) for n, k in ((96, 32), (99, 33))]
    gradients = [(t, 1, m, n, k, True, False, 1) for t in ("f32", "bf16") for m, n in (
        (12, 40), (40, 80), (64, 64), (48, 200), (128, 128), (104, 400), (256, 256)) for k in (2048, 13728, 65536)]
    rows = [("f16", 1, m, n, k, False, turned, 1) for turned in (False, True) for m in (8, 16, 20, 24, 32, 48, 64)
            for n, k in ((4096, 4096), (1536, 1024), (4096, 14336))]
    return {"plain": plain, "scores": scores, "values": values, "block": block, "long": long, "many": many, "few": few,
            "wide": wide, "short": short, "gradients": gradients, "rows": rows}


def prices(groups):
    rows = []
    for dtype, batch, m, n, k, a_turned, b_turned, multiple in [
            shape for group, shapes in shapes_to_price().items() if not groups or group in groups for shape in shapes]:
        row = -(-k // multiple) * multiple
        buffers = [{"name": x, "role": r, "type": dtype, "shape": (batch, *s)} for x, r, s in
                   (("A", "input", (m, row)), ("B", "input", (k, n)), ("O", "output", (m, n)))]
        memory = [{**s, "O": results_of(buffers)[0]} for s in rotated(buffers)]
        workspace = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
        times = []
        for algorithm in range(3):
            operand = lambda rows, columns, turned: {"transposed": turned, "leading": rows if turned else columns,
                                                     "batch_stride": rows * columns if batch > 1 else 0}
            try:
                one = Product({"name": "product", "workspace_bytes": 32 << 20,
                               "product": {"type": dtype, "batch": batch, "m": m, "n": n, "k": k,
                                           "a": operand(m, row, a_turned), "b": operand(k, n, b_turned), "bias": False,
                                           "activation": "none", "algorithm": algorithm}})
            except RuntimeError:
                break
            call = lambda s: one.run([s[x].data_ptr() for x in "ABO"], workspace.data_ptr(),
                                     torch.cuda.current_stream().cuda_stream)
            times.append(round(microseconds([lambda s=s: call(s) for s in memory]), 2))
        rows.append({"type": dtype, "batch": batch, "m": m, "n": n, "k": k, "row": row,
                     "turned": [a_turned, b_turned], "us": times})
        print(dtype, batch, m, n, k, row, a_turned, b_turned, times, flush=True)
    return rows


def main(programs=PROGRAMS, label="products"):
    parser = argparse.ArgumentParser(description=(sys.modules["__main__"].__doc__ or "").split("\n")[0])
    parser.add_argument("--strata", default="build/release/bin/strata")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("out") / label)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--only", default="")
    parser.add_argument("--prices", nargs="?", const="", metavar="GROUP,…", help="of shapes_to_price()")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument("--cache", default="", help="search all programs first, side by side, into this folder")
    parser.add_argument("--time-limit", type=float, default=6, help="seconds before measuring")
    parser.add_argument("--profile-seconds", type=float, default=8)
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False  # as for products, where that is PyTorch's default
    device = torch.cuda.get_device_name()
    date = datetime.date.today().isoformat()
    arguments.results.mkdir(parents=True, exist_ok=True)
    result = {"device": device, "date": date, "torch": torch.__version__, "command": f"bench/gpu/{label}.py", "rows": []}
    path = arguments.results / f"{device.replace(' ', '-').lower()}-{date}-{label}.json"
    programs = {n: p for n, p in programs.items() if arguments.only in n}
    if arguments.cache:
        search(programs, arguments)
    for name, program in programs.items():
        row = run(name, program, arguments)
        result["rows"].append(row)
        path.write_text(json.dumps(result, indent=1) + "\n")
        if "failed" in row:
            print(name, "FAILED", row["failed"], flush=True)
            continue
        peers = "  ".join(f"{n} failed" if "failed" in p else f"{n} {p['cold_us']:.2f} ({p['error']:.1e})"
                          for n, p in row["peers"].items())
        own = row["fastest_own_us"]
        print(f"{name:<14} {row['cold_us']:8.2f} µs ({row['error']:.1e}{'' if row['ok'] else ' WRONG'}) {row['schedule']:<18} "
              f"{row['kernels']} kernels, generated alone {own and round(own, 2)}; {peers}", flush=True)
        torch.cuda.empty_cache()
    if arguments.prices is not None:
        result["prices"] = prices(arguments.prices.split(",") if arguments.prices else [])
        path.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(0 if all(r.get("ok") for r in result["rows"]) else 1)


if __name__ == "__main__":
    main()
