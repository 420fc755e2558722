#!/usr/bin/env python3
"""Runs whole HLO modules on the GPU by `strata run --device gpu`, and compares with the interpreter.

usage: check_hlo.py STRATA [--corpus FOLDER] [--results FILE.json] [--only SUBSTRING] [--skip-large]
                    [--jobs N] [--search-seconds N]

Every .hlo of the corpus (tests/hlo by default), of tests/data/lax (parts for the superoptimizer, which
--search-seconds gives to it) and two dozen modules made here run with --check; large ones, for which
the interpreter would take minutes, are only timed. Times are medians over 11 runs on one stream, by events between the
steps. Exit status 1 where a result differs or a module does not run.
"""
import argparse
import concurrent.futures
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# Sums of terms that cancel differ by more than the last places: the interpreter sums in double precision, and rounds
# 16-bit values after each operator.
TOLERANCES = {"mlp": 64, "lax/": 16}
# Updates of one element twice: either may stay.
UNDETERMINED = {"scatter_set"}

SUM = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
MAX = "max {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] maximum(a, b)\n}\n"


def module(lines, computations=""):
    return "HloModule m\n\n" + computations + "\nENTRY e {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def dims(*sizes):
    return "[" + ",".join(map(str, sizes)) + "]"


def softmax_lines(scores, shape, prefix, type_):
    """Over the last dimension, in f32; the last value has the name PREFIXp."""
    rows, kept = dims(*shape[:-1]), ",".join(str(i) for i in range(len(shape) - 1))
    all_, last = dims(*shape), len(shape) - 1
    return [f"{prefix}w = f32{all_} convert({scores})", f"{prefix}low = f32[] constant(-inf)",
            f"{prefix}m = f32{rows} reduce({prefix}w, {prefix}low), dimensions={{{last}}}, to_apply=max",
            f"{prefix}mb = f32{all_} broadcast({prefix}m), dimensions={{{kept}}}",
            f"{prefix}d = f32{all_} subtract({prefix}w, {prefix}mb)", f"{prefix}e = f32{all_} exponential({prefix}d)",
            f"{prefix}zero = f32[] constant(0)",
            f"{prefix}s = f32{rows} reduce({prefix}e, {prefix}zero), dimensions={{{last}}}, to_apply=add",
            f"{prefix}sb = f32{all_} broadcast({prefix}s), dimensions={{{kept}}}",
            f"{prefix}q = f32{all_} divide({prefix}e, {prefix}sb)", f"{prefix}p = {type_}{all_} convert({prefix}q)"]


def attention(type_, batch, heads, length, size):
    """Of [batch, length, heads, size], as models hold it."""
    given, inner, scores = (batch, length, heads, size), (batch, heads, length, size), (batch, heads, length, length)
    lines = [f"{name} = {type_}{dims(*given)} parameter({i})" for i, name in enumerate("qkv")]
    lines += [f"{name}t = {type_}{dims(*inner)} transpose({name}), dimensions={{0,2,1,3}}" for name in "qkv"]
    lines += [f"qk = {type_}{dims(*scores)} dot(qt, kt), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, "
              "lhs_contracting_dims={3}, rhs_contracting_dims={3}", f"scale = {type_}[] constant({size ** -0.5})",
              f"scales = {type_}{dims(*scores)} broadcast(scale), dimensions={{}}",
              f"scaled = {type_}{dims(*scores)} multiply(qk, scales)"]
    lines += softmax_lines("scaled", scores, "s", type_)
    lines += [f"o = {type_}{dims(*inner)} dot(sp, vt), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, "
              "lhs_contracting_dims={3}, rhs_contracting_dims={2}",
              f"ROOT r = {type_}{dims(*given)} transpose(o), dimensions={{0,2,1,3}}"]
    return module(lines, SUM + MAX)


def mlp(type_, rows, width, inner, activation):
    """Two layers with biases; the first one's activation is relu, or gelu in its form with tanh."""
    x, h = dims(rows, width), dims(rows, inner)
    lines = [f"x = {type_}{x} parameter(0)", f"w = {type_}{dims(width, inner)} parameter(1)",
             f"b = {type_}{dims(inner)} parameter(2)", f"v = {type_}{dims(inner, width)} parameter(3)",
             f"c = {type_}{dims(width)} parameter(4)",
             f"d = {type_}{h} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
             f"bb = {type_}{h} broadcast(b), dimensions={{1}}", f"s = {type_}{h} add(d, bb)"]

    def constant(name, value):
        lines.append(f"{name}0 = {type_}[] constant({value})")
        lines.append(f"{name} = {type_}{h} broadcast({name}0), dimensions={{}}")
    if activation == "relu":
        constant("zero", 0)
        lines.append(f"a = {type_}{h} maximum(s, zero)")
    else:
        for name, value in (("cubic", 0.044715), ("root", 0.797884561), ("one", 1), ("half", 0.5)):
            constant(name, value)
        for name, operation in (("s2", "multiply(s, s)"), ("s3", "multiply(s2, s)"), ("t0", "multiply(cubic, s3)"),
                                ("t1", "add(s, t0)"), ("t2", "multiply(root, t1)"), ("t3", "tanh(t2)"),
                                ("t4", "add(one, t3)"), ("t5", "multiply(half, t4)"), ("a", "multiply(s, t5)")):
            lines.append(f"{name} = {type_}{h} {operation}")
    lines += [f"y = {type_}{x} dot(a, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
              f"cb = {type_}{x} broadcast(c), dimensions={{1}}", f"ROOT r = {type_}{x} add(y, cb)"]
    return module(lines)


def normed_vector(type_, width, outputs):
    """A row, normed, by a matrix: a product of vectors."""
    lines = [f"x = {type_}{dims(1, width)} parameter(0)", f"w = {type_}{dims(width, outputs)} parameter(1)",
             f"f = f32{dims(1, width)} convert(x)", f"f2 = f32{dims(1, width)} multiply(f, f)",
             "zero = f32[] constant(0)", "s = f32[1] reduce(f2, zero), dimensions={1}, to_apply=add",
             "eps = f32[] constant(1e-5)",
             "epsb = f32[1] broadcast(eps), dimensions={}", "se = f32[1] add(s, epsb)", "r = f32[1] rsqrt(se)",
             f"rb = f32{dims(1, width)} broadcast(r), dimensions={{0}}", f"n = f32{dims(1, width)} multiply(f, rb)",
             f"nt = {type_}{dims(1, width)} convert(n)",
             f"ROOT y = {type_}{dims(1, outputs)} dot(nt, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"]
    return module(lines, SUM)


def softmax_dot(type_, rows, columns, inner):
    lines = [f"x = {type_}{dims(rows, inner)} parameter(0)", f"w = {type_}{dims(inner, columns)} parameter(1)"]
    lines += softmax_lines("x", (rows, inner), "s", type_)
    lines.append(f"ROOT y = {type_}{dims(rows, columns)} dot(sp, w), lhs_contracting_dims={{1}}, "
                 "rhs_contracting_dims={0}")
    return module(lines, SUM + MAX)


def conv_net(type_, images, size, channels, labels="b01f_01io->b01f"):
    """Three convolutions (one with stride 2 and padding at one end more, one in groups) with relu, and a mean."""
    def shape(letters, of, space):
        return dims(*[space if letter in "01" else of[letter] for letter in letters])
    x_labels, w_labels, y_labels = re.match(r"(\w+)_(\w+)->(\w+)", labels).groups()
    half = (size + 1) // 2
    lines = [f"x = {type_}{shape(x_labels, {'b': images, 'f': 3}, size)} parameter(0)", f"z = {type_}[] constant(0)"]
    value, inputs, space = "x", 3, size
    for i, (filters, window, stride, pads, groups) in enumerate(((channels, 3, 1, "1_1", 1),
                                                                 (channels, 3, 2, "0_1" if size % 2 == 0 else "1_1", 1),
                                                                 (channels, 3, 1, "1_1", 4))):
        space = half if stride == 2 else space
        array = type_ + shape(y_labels, {"b": images, "f": filters}, space)
        weights = type_ + shape(w_labels, {"i": inputs // groups, "o": filters}, window)
        lines += [f"w{i} = {weights} parameter({i + 1})",
                  f"c{i} = {array} convolution({value}, w{i}), window={{size={window}x{window} "
                  f"stride={stride}x{stride} pad={pads}x{pads}}}, dim_labels={labels}, feature_group_count={groups}",
                  f"z{i} = {array} broadcast(z), dimensions={{}}", f"r{i} = {array} maximum(c{i}, z{i})"]
        value, inputs = f"r{i}", filters
    spatial = [y_labels.index("0"), y_labels.index("1")]
    lines += [f"f = f32{shape(y_labels, {'b': images, 'f': channels}, space)} convert({value})",
              "zero = f32[] constant(0)",
              f"ROOT y = f32{dims(images, channels)} reduce(f, zero), dimensions={{{spatial[0]},{spatial[1]}}}, "
              "to_apply=add"]
    return module(lines, SUM)


def two_row_sums(rows, other, counted):
    """A loop of two sums of rows that do not need each other, of different lengths: as often as is known, or until one
    is large. Its kernel, where it is one, has more than one block, whose parts wait for each other."""
    sides = (("x", *rows), ("y", *other))
    arrays = [f"f32{dims(count, length)}" for _, count, length in sides]
    means = [f"f32{dims(count)}" for _, count, _ in sides]
    state = "(" + ", ".join(arrays + means + ["s32[]"]) + ")"
    body = [f"s = {state} parameter(0)", "i = s32[] get-tuple-element(s), index=4", "zero = f32[] constant(0)"]
    for k, (name, count, length) in enumerate(sides):
        array, mean = arrays[k], means[k]
        body += [f"{name} = {array} get-tuple-element(s), index={k}",
                 f"{name}m = {mean} get-tuple-element(s), index={k + 2}",
                 f"{name}w = {array} broadcast({name}m), dimensions={{0}}", f"{name}a = {array} add({name}, {name}w)",
                 f"{name}c = {array} cosine({name}a)",
                 f"{name}s = {mean} reduce({name}c, zero), dimensions={{1}}, to_apply=add",
                 f"{name}f = f32[] constant({1 / length})", f"{name}p = {mean} broadcast({name}f), dimensions={{}}",
                 f"{name}q = {mean} multiply({name}s, {name}p)", f"{name}n = {mean} add({name}m, {name}q)"]
    body += ["one = s32[] constant(1)", "j = s32[] add(i, one)", f"ROOT r = {state} tuple(x, y, xn, yn, j)"]
    asked = [f"s = {state} parameter(0)", "i = s32[] get-tuple-element(s), index=4", "most = s32[] constant(12)"]
    if counted:
        asked += ["ROOT r = pred[] compare(i, most), direction=LT"]
    else:
        asked += [f"m = {means[0]} get-tuple-element(s), index=2", "some = f32[1] slice(m), slice={[0:1]}",
                  "first = f32[] reshape(some)", "far = f32[] constant(1e6)",
                  "near = pred[] compare(first, far), direction=LT", "more = pred[] compare(i, most), direction=LT",
                  "ROOT r = pred[] and(near, more)"]
    called = SUM + "".join(f"{name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
                           for name, lines in (("asked", asked), ("step", body)))
    lines = [f"p{i} = {type_} parameter({i})" for i, type_ in enumerate(arrays + means)]
    lines += ["i = s32[] constant(0)", f"s = {state} tuple(p0, p1, p2, p3, i)",
              f"w = {state} while(s), condition=asked, body=step", f"a = {means[0]} get-tuple-element(w), index=2",
              f"b = {means[1]} get-tuple-element(w), index=3", f"ROOT r = ({means[0]}, {means[1]}) tuple(a, b)"]
    return module(lines, called)


def modules():
    """Name, text, whether it is compared."""
    for type_ in ("f32", "bf16"):
        yield f"attention_{type_}", attention(type_, 2, 4, 128, 32), True
        yield f"mlp_relu_{type_}", mlp(type_, 96, 128, 256, "relu"), True
        yield f"mlp_gelu_{type_}", mlp(type_, 96, 128, 256, "gelu"), True
        yield f"softmax_dot_{type_}", softmax_dot(type_, 64, 192, 128), True
        yield f"normed_vector_{type_}", normed_vector(type_, 1024, 768), True
        yield f"conv_net_nhwc_{type_}", conv_net(type_, 2, 28, 16), True
        yield f"conv_net_nchw_{type_}", conv_net(type_, 2, 27, 16, "bf01_oi01->bf01"), True
    for counted in (False, True):
        name = "counted" if counted else "asked"
        yield f"loop_of_row_sums_{name}", two_row_sums((256, 4096), (64, 16384), counted), True
        yield f"loop_of_small_row_sums_{name}", two_row_sums((7, 300), (3, 1000), counted), True
    yield "large_attention_bf16", attention("bf16", 8, 16, 1024, 64), False
    yield "large_mlp_gelu_bf16", mlp("bf16", 4096, 4096, 16384, "gelu"), False
    yield "large_mlp_relu_f32", mlp("f32", 2048, 2048, 8192, "relu"), False
    yield "large_normed_vector_bf16", normed_vector("bf16", 8192, 8192), False
    yield "large_softmax_dot_bf16", softmax_dot("bf16", 4096, 4096, 4096), False
    yield "large_conv_net_bf16", conv_net("bf16", 64, 56, 128), False
    yield "large_conv_net_f32", conv_net("f32", 32, 56, 64, "bf01_oi01->bf01"), False


def run(strata, name, path, compared, seconds):
    command = [strata, "run", str(path), "--device", "gpu", "--profile"] + (["--check"] if compared else [])
    command += ["--search-seconds", str(seconds)]
    factor = next((value for prefix, value in TOLERANCES.items() if name.startswith(prefix)), 1)
    if factor != 1:
        command += ["--tolerance", str(factor)]
    started = time.monotonic()
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        text, code = result.stdout, result.returncode
        errors = result.stderr
    except subprocess.TimeoutExpired:
        text, errors, code = "", "error: over 60 s", 124
    steps = re.findall(r"^ *([0-9.]+) µs  (\S+)  ?(.*)$", text, re.M)
    kinds = {}
    for _, name, what in steps:
        kind = ("library" if what.startswith("cu") else what if what in ("interpreter", "superoptimizer") else "kernel")
        if not name.startswith("all"):
            kinds[kind] = kinds.get(kind, 0) + 1
    compared = compared or "agrees" in text
    return {"ok": code == 0 and (not compared or "agrees with the interpreter" in text),
            "microseconds": next((float(us) for us, name, _ in steps if name == "all"), None), "steps": kinds,
            "slowest": sorted(([float(us), name, what] for us, name, what in steps if not name.startswith("all")),
                              reverse=True)[:6],
            "seconds": round(time.monotonic() - started, 2),
            "message": " ".join(line for line in (errors + text).splitlines()
                                if line.startswith(("error", "note")) or "differs" in line)[:300]}


def report(name, results, one):
    results[name] = one
    kinds = ", ".join(f"{count} {kind}" for kind, count in one["steps"].items())
    us = "" if one["microseconds"] is None else f"{one['microseconds']:.1f} µs"
    print(f"{'ok  ' if one['ok'] else 'FAIL'} {name:32} {us:>12}  {kinds}  {one['seconds']} s  {one['message']}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--corpus", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "hlo")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1, help="modules that are compared at the same time")
    parser.add_argument("--skip-large", action="store_true")
    parser.add_argument("--search-seconds", type=float, default=0)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        work = []
        for name, text, compared in modules():
            path = pathlib.Path(folder, name + ".hlo")
            path.write_text(text, encoding="utf-8")
            if compared or not options.skip_large:
                work.append((name, path, compared))
        work += [("corpus/" + path.stem, path, True) for path in sorted(options.corpus.glob("*.hlo"))
                 if path.stem not in UNDETERMINED]
        work += [("lax/" + path.stem, path, True)
                 for path in sorted((options.corpus.parent / "data/lax").glob("*.hlo"))]
        work = [one for one in work if options.only in one[0]]
        # Only modules that run alone are timed with any meaning.
        alone = [one for one in work if not one[2]]
        for name, path, compared in alone:
            report(name, results, run(options.strata, name, path, compared, options.search_seconds))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            running = {pool.submit(run, options.strata, name, path, True, options.search_seconds): name
                       for name, path, compared in work if compared}
            for future in concurrent.futures.as_completed(running):
                report(running[future], results, future.result())
    good = sum(one["ok"] for one in results.values())
    print(f"{good} of {len(results)}")
    if options.results:
        device = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                                capture_output=True, text=True, check=False).stdout.strip()
        options.results.write_text(json.dumps({"device": device, "date": datetime.date.today().isoformat(),
                                               "modules": results}, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if good == len(results) else 1)


if __name__ == "__main__":
    main()
