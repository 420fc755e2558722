#!/usr/bin/env python3
"""What becomes of each operator of HLO on a GPU is what the table of docs/hlo.md says. A small module of every row's
operators is compiled for a GPU, without one. Usage: gpu_fates_test.py STRATA SOURCE"""
import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess
import sys
import unittest

FATES = {"nothing", "kernel", "rewritten", "library", "loop", "host", "refused"}
DEFINITION = re.compile(r'^HLO_OPCODE\((\w+), "([\w-]+)", -?\d, (\w+), \w+\)', re.MULTILINE)


def operators():
    """{name: (enumerator, family)} of opcode.def."""
    text = (SOURCE / "src/hlo/opcode.def").read_text(encoding="utf-8")
    return {name: (enumerator, family) for enumerator, name, family in DEFINITION.findall(text)}


def table(document):
    """{(operator, fate): what the row says beside them}, and complaints about rows."""
    rows, wrong = {}, []
    body = document.split("\n| operators | fate |", 1)[1].split("\n\n", 1)[0]
    for line in body.splitlines()[2:]:
        names, fate, how = (cell.strip() for cell in line.strip("|").split("|"))
        if fate not in FATES:
            wrong.append(f"'{fate}' is no fate")
        for name in re.findall(r"`([^`]+)`", names):
            if (name, fate) in rows:
                wrong.append(f"{name} is {fate} in two rows")
            rows[name, fate] = how
    return rows, wrong


def entry(*lines):
    *first, last = lines
    return "ENTRY e {\n" + "".join(f"  {line}\n" for line in first) + f"  ROOT {last}\n}}\n"


def combiner(name, operator, kind="f32", result=None, more=""):
    return (f"{name} {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n"
            f"  ROOT c = {result or kind}[] {operator}(a, b){more}\n}}\n")


def unary(name):
    kind = {"count-leading-zeros": "s32", "not": "s32", "popcnt": "s32", "imag": "c64", "real": "c64"}.get(name, "f32")
    result = {"is-finite": "pred", "imag": "f32", "real": "f32"}.get(name, kind)
    return entry(f"x = {kind}[64] parameter(0)", f"r = {result}[64] {name}(x)")


def binary(name):
    kind = "s32" if name in ("and", "or", "xor", "mulhi") or name.startswith("shift-") else "f32"
    result = {"compare": "pred", "complex": "c64"}.get(name, kind)
    more = ", direction=LT" if name == "compare" else ""
    return entry(f"x = {kind}[64] parameter(0)", f"y = {kind}[64] parameter(1)", f"r = {result}[64] {name}(x, y){more}")


def scan(kind, step, how=""):
    """A scan along 64 elements of a computation whose lines make `c` of `a` and `b`."""
    return (f"step {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n{step}"
            f"  ROOT r = ({kind}[], {kind}[]) tuple(c, c)\n}}\n" +
            entry(f"x = {kind}[64] parameter(0)", f"z = {kind}[] constant(0)",
                  f"r = ({kind}[64], {kind}[]) scan(x, z), dimensions={{0}}, num_carries=1{how}, to_apply=step"))


def dot(kind, m, k, n):
    return entry(f"x = {kind}[{m},{k}] parameter(0)", f"y = {kind}[{k},{n}] parameter(1)",
                 f"r = {kind}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")


def loop(count, token=False, by="tanh(x)"):
    """A tanh, or another operator, `count` times; with a token in the state, or without."""
    state = "(s32[], f32[4,64], token[])" if token else "(s32[], f32[4,64])"
    carried = ", k" if token else ""
    body = "  k = token[] get-tuple-element(p), index=2\n" if token else ""
    before = ["k = token[] after-all()"] if token else []
    return (f"c {{\n  p = {state} parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
            f"  n = s32[] constant({count})\n  ROOT r = pred[] compare(i, n), direction=LT\n}}\n"
            f"b {{\n  p = {state} parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  o = s32[] constant(1)\n"
            f"  j = s32[] add(i, o)\n  x = f32[4,64] get-tuple-element(p), index=1\n  y = f32[4,64] {by}\n{body}"
            f"  ROOT r = {state} tuple(j, y{carried})\n}}\n" +
            entry(X, "z = s32[] constant(0)", *before, f"t = {state} tuple(z, x{carried})",
                  f"r = {state} while(t), condition=c, body=b"))


def reduce(rows, columns, dimension=1, by="add"):
    return entry(f"x = f32[{rows},{columns}] parameter(0)", "z = f32[] constant(0)",
                 f"r = f32[{(columns, rows)[dimension]}] reduce(x, z), dimensions={{{dimension}}}, to_apply={by}")


def window(columns, how, by="add"):
    return entry("x = f32[64,1280] parameter(0)", "z = f32[] constant(0)",
                 f"r = f32[64,{columns}] reduce-window(x, z), window={{{how}}}, to_apply={by}")


def scatter(rows, columns, count, by="add"):
    """Of `count` rows into an array of `rows`."""
    return entry(f"x = f32[{rows},{columns}] parameter(0)", f"i = s32[{count},1] parameter(1)",
                 f"u = f32[{count},{columns}] parameter(2)", f"r = f32[{rows},{columns}] scatter(x, i, u), "
                 "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                 f"index_vector_dim=1, to_apply={by}")


def scatter_window():
    """Of one window that is most of the array."""
    return entry(LARGE, "i = s32[2] parameter(1)", "u = f32[500,1000] parameter(2)",
                 "r = f32[512,1024] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={}, "
                 "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=add")


def pool_gradient(by="add"):
    return entry("x = f32[64,64] parameter(0)", "s = f32[32,32] parameter(1)", "z = f32[] constant(0)",
                 "r = f32[64,64] select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=ge, "
                 f"scatter={by}")


def wide_sort():
    """Of more arrays than the registers of a thread hold an element of each."""
    count = 40
    compare = "".join(f"  a{i} = f64[] parameter({2 * i})\n  b{i} = f64[] parameter({2 * i + 1})\n"
                      for i in range(count))
    return (f"lt {{\n{compare}  ROOT c = pred[] compare(a0, b0), direction=LT\n}}\n" +
            entry(*(f"x{i} = f64[4,64] parameter({i})" for i in range(count)),
                  f"r = ({', '.join(['f64[4,64]'] * count)}) sort({', '.join(f'x{i}' for i in range(count))}), "
                  "dimensions={1}, to_apply=lt"))


X = "x = f32[4,64] parameter(0)"
LARGE = "x = f32[512,1024] parameter(0)"
ADD = combiner("add", "add")
CALLED = ("f {\n  a = f32[4,64] parameter(0)\n  ROOT c = f32[4,64] negate(a)\n}\n"
          "g {\n  a = f32[4,64] parameter(0)\n  ROOT c = f32[4,64] tanh(a)\n}\n")
# Whose values are arrays and a token.
CALLED_WITH_TOKENS = re.sub(r"ROOT (c = .*)\n", r"\1\n  k = token[] after-all()\n"
                            r"  ROOT r = (f32[4,64], token[]) tuple(c, k)\n", CALLED)
# A computation f with a loop inside, which no kernel has for each element; and with an array inside.
LOOPING = ("c {\n  p = (f32[], f32[]) parameter(0)\n  a = f32[] get-tuple-element(p), index=0\n"
           "  b = f32[] get-tuple-element(p), index=1\n  ROOT r = pred[] compare(a, b), direction=LT\n}\n"
           "d {\n  p = (f32[], f32[]) parameter(0)\n  a = f32[] get-tuple-element(p), index=0\n"
           "  b = f32[] get-tuple-element(p), index=1\n  o = f32[] constant(1)\n  s = f32[] add(a, o)\n"
           "  ROOT r = (f32[], f32[]) tuple(s, b)\n}\n"
           "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  t = (f32[], f32[]) tuple(a, b)\n"
           "  w = (f32[], f32[]) while(t), condition=c, body=d\n  ROOT r = f32[] get-tuple-element(w), index=0\n}\n")
WITH_ARRAY = ADD + ("f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  c = f32[4] broadcast(a), dimensions={}\n  z = f32[] constant(0)\n"
                    "  s = f32[] reduce(c, z), dimensions={0}, to_apply=add\n  ROOT r = f32[] add(s, b)\n}\n")
NORM = ["x = f32[8,16] parameter(0)", *(f"{name} = f32[16] parameter({i + 1})" for i, name in enumerate("abcd"))]
WITH_NORM = "epsilon=0.001, feature_index=1"
GREATER = combiner("ge", "compare", result="pred", more=", direction=GE")
FFT = entry("x = c64[4,64] parameter(0)", "r = c64[4,64] fft(x), fft_type=FFT, fft_length={64}")
NEGATED = entry(X, "r = f32[4,64] negate(x)")
OF_A_TUPLE = entry("p = (f32[4,64], f32[4,64]) parameter(0)", "x = f32[4,64] get-tuple-element(p), index=1",
                   "r = f32[4,64] negate(x)")


def call_of(target):
    return entry("x = f32[64] parameter(0)", f'r = f32[64] custom-call(x), custom_call_target="{target}"')


def cholesky(n):
    return entry(f"x = f32[{n},{n}] parameter(0)", f"r = f32[{n},{n}] cholesky(x), lower=true")


def triangular_solve(n):
    return entry(f"a = f32[{n},{n}] parameter(0)", f"b = f32[{n},8] parameter(1)",
                 f"r = f32[{n},8] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, "
                 "transpose_a=NO_TRANSPOSE")


def potrf(n):
    return entry(f"x = f32[{n},{n}] parameter(0)", f"r = (f32[{n},{n}], s32[]) custom-call(x), "
                 'custom_call_target="cusolver_potrf_ffi", backend_config={lower = true}')


def getrf(n):
    return entry(f"x = f32[{n},{n}] parameter(0)", f"r = (f32[{n},{n}], s32[{n}], s32[]) custom-call(x), "
                 'custom_call_target="cusolver_getrf_ffi"')


def syevd(n, kind):
    return entry(f"x = {kind}[{n},{n}] parameter(0)", f"r = ({kind}[{n},{n}], f32[{n}], s32[]) custom-call(x), "
                 'custom_call_target="cusolver_syevd_ffi", backend_config={algorithm = 0 : ui8, lower = true}')


def gesvdj(n, kind):
    matrix = f"{kind}[{n},{n}]"
    return entry(f"x = {matrix} parameter(0)", f"r = ({matrix}, f32[{n}], {matrix}, {matrix}, s32[]) custom-call(x), "
                 'custom_call_target="cusolver_gesvdj_ffi", backend_config={compute_uv = true, full_matrices = true}')


def geqrf(n):
    return entry(f"x = f32[{n},{n}] parameter(0)", f"r = (f32[{n},{n}], f32[{n}]) custom-call(x), "
                 'custom_call_target="cusolver_geqrf_ffi"')


def orgqr(n):
    return entry(f"x = f32[{n},{n}] parameter(0)", f"t = f32[{n}] parameter(1)", f"r = f32[{n},{n}] custom-call(x, t), "
                 'custom_call_target="cusolver_orgqr_ffi"')


# Modules that show a row's fate of its operator. Those of `nothing` are negations, with the operator in between.
# Operators on elements, and what is refused whatever it is given, are added by shown().
SHOWN = {
    ("parameter", "nothing"): [NEGATED],
    ("tuple", "nothing"): [entry(X, "t = (f32[4,64], f32[4,64]) tuple(x, x)",
                                 "y = f32[4,64] get-tuple-element(t), index=1", "r = f32[4,64] negate(y)")],
    ("get-tuple-element", "nothing"): [OF_A_TUPLE],
    ("after-all", "nothing"): [entry(X, "k = token[] after-all()", "r = f32[4,64] negate(x)")],
    ("add-dependency", "nothing"): [entry(X, "k = token[] after-all()", "y = f32[4,64] add-dependency(x, k)",
                                          "r = f32[4,64] negate(y)")],
    ("opt-barrier", "nothing"): [entry(X, "y = f32[4,64] opt-barrier(x)", "r = f32[4,64] negate(y)")],
    ("constant", "kernel"): [entry("c = f32[2] constant({1, 2})")],
    ("iota", "kernel"): [entry("r = f32[4,64] iota(), iota_dimension=1")],
    ("partition-id", "kernel"): [entry("r = u32[] partition-id()")],
    ("replica-id", "kernel"): [entry("r = u32[] replica-id()")],
    ("get-dimension-size", "kernel"): [entry(X, "r = s32[] get-dimension-size(x), dimensions={1}")],
    ("clamp", "kernel"): [entry(*(f"{name} = f32[64] parameter({i})" for i, name in enumerate("axb")),
                                "r = f32[64] clamp(a, x, b)")],
    ("select", "kernel"): [entry("p = pred[64] parameter(0)", "x = f32[64] parameter(1)", "y = f32[64] parameter(2)",
                                 "r = f32[64] select(p, x, y)")],
    ("convert", "kernel"): [entry(X, "r = bf16[4,64] convert(x)")],
    ("reduce-precision", "kernel"): [entry(X, "r = f32[4,64] reduce-precision(x), exponent_bits=5, mantissa_bits=10")],
    ("bitcast-convert", "kernel"): [entry(X, "r = s32[4,64] bitcast-convert(x)")],
    ("bitcast-convert", "rewritten"): [entry(X, "r = s8[4,64,4] bitcast-convert(x)")],
    ("map", "kernel"): ["f {\n  a = f32[] parameter(0)\n  ROOT c = f32[] negate(a)\n}\n" +
                        entry(X, "r = f32[4,64] map(x), dimensions={0,1}, to_apply=f")],
    ("map", "host"): [called + entry(X, "y = f32[4,64] parameter(1)",
                                     "r = f32[4,64] map(x, y), dimensions={0,1}, to_apply=f")
                      for called in (LOOPING, WITH_ARRAY)],
    ("bitcast", "kernel"): [entry(X, "y = f32[4,64] negate(x)", "r = f32[256] bitcast(y)")],
    ("broadcast", "kernel"): [entry("x = f32[64] parameter(0)", "r = f32[4,64] broadcast(x), dimensions={1}")],
    ("copy", "kernel"): [entry(X, "r = f32[4,64] copy(x)")],
    ("dynamic-slice", "kernel"): [entry(X, "i = s32[] parameter(1)", "j = s32[] parameter(2)",
                                        "r = f32[2,32] dynamic-slice(x, i, j), dynamic_slice_sizes={2,32}")],
    ("gather", "kernel"): [entry(X, "i = s32[8,1] parameter(1)", "r = f32[8,64] gather(x, i), offset_dims={1}, "
                                 "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                                 "slice_sizes={1,64}")],
    ("pad", "kernel"): [entry(X, "z = f32[] constant(0)", "r = f32[6,64] pad(x, z), padding=1_1x0_0")],
    ("reshape", "kernel"): [entry(X, "r = f32[256] reshape(x)")],
    ("reverse", "kernel"): [entry(X, "r = f32[4,64] reverse(x), dimensions={1}")],
    ("slice", "kernel"): [entry(X, "r = f32[2,64] slice(x), slice={[0:2],[0:64]}"),
                          entry(LARGE, "y = f32[512,1024] tanh(x)",
                                "a = f32[512,512] slice(y), slice={[0:512],[0:512]}",
                                "b = f32[512,512] slice(y), slice={[0:512],[512:1024]}",
                                "r = (f32[512,512], f32[512,512]) tuple(a, b)")],
    ("concatenate", "kernel"): [entry(X, "y = f32[4,64] parameter(1)",
                                      "r = f32[8,64] concatenate(x, y), dimensions={0}")],
    ("transpose", "kernel"): [entry(LARGE, "r = f32[1024,512] transpose(x), dimensions={1,0}"),
                              entry(X, "r = f32[64,4] transpose(x), dimensions={1,0}")],
    ("dynamic-update-slice", "kernel"): [
        header + entry(LARGE, "u = f32[1,1024] parameter(1)", "i = s32[] parameter(2)", "z = s32[] constant(0)",
                       "r = f32[512,1024] dynamic-update-slice(x, u, i, z)")
        for header in ("HloModule m\n", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n")],
    ("reduce", "kernel"): [ADD + reduce(1024, 1024, dimension=0), ADD + reduce(1024, 1024), ADD + reduce(8, 4)],
    ("reduce", "host"): [LOOPING + reduce(4, 64, by="f")],
    ("reduce-window", "kernel"): [ADD + window(1278, "size=1x3"), ADD + window(1280, "size=1x1280 pad=0_0x1279_0")],
    ("reduce-window", "host"): [LOOPING + window(1278, "size=1x3", by="f")],
    ("scatter", "kernel"): [ADD + scatter(1000, 64, 50), ADD + scatter(1000, 64, 100000), ADD + scatter(4, 1, 100000),
                            ADD + scatter(100000, 128, 100000), ADD + scatter_window()],
    ("scatter", "host"): [LOOPING + scatter(1000, 64, 50, by="f")],
    ("select-and-scatter", "rewritten"): [GREATER + ADD + pool_gradient()],
    ("select-and-scatter", "host"): [GREATER + LOOPING + pool_gradient(by="f")],
    ("sort", "kernel"): [combiner("lt", "compare", result="pred", more=", direction=LT") +
                         entry(X, "r = f32[4,64] sort(x), dimensions={1}, to_apply=lt")],
    ("sort", "host"): [wide_sort(), LOOPING + "lt {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                       "  v = f32[] call(a, b), to_apply=f\n  ROOT c = pred[] compare(v, b), direction=LT\n}\n" +
                       entry(X, "r = f32[4,64] sort(x), dimensions={1}, to_apply=lt")],
    ("topk", "kernel"): [entry(X, "r = (f32[4,8], s32[4,8]) topk(x), k=8, largest=true")],
    ("dot", "kernel"): [dot("s32", 200, 200, 200), dot("bf16", 1, 1024, 1024), dot("bf16", 4, 1024, 1024)],
    ("dot", "library"): [dot("bf16", 512, 1024, 1024)],
    ("convolution", "kernel"): [entry("x = s32[1,2,8,8] parameter(0)", "w = s32[2,2,3,3] parameter(1)",
                                      "r = s32[1,2,6,6] convolution(x, w), window={size=3x3}, "
                                      "dim_labels=bf01_oi01->bf01"),
                                entry("x = f32[2,16,16,32] parameter(0)", "w = f32[3,3,1,32] parameter(1)",
                                      "r = f32[2,14,14,32] convolution(x, w), window={size=3x3}, "
                                      "dim_labels=b01f_01io->b01f, feature_group_count=32")],
    ("convolution", "library"): [entry("x = f32[8,32,16,16] parameter(0)", "w = f32[64,32,3,3] parameter(1)",
                                       "r = f32[8,64,14,14] convolution(x, w), window={size=3x3}, "
                                       "dim_labels=bf01_oi01->bf01")],
    ("ragged-dot", "rewritten"): [entry("x = f32[8,16] parameter(0)", "y = f32[3,16,32] parameter(1)",
                                        "s = s32[3] parameter(2)", "r = f32[8,32] ragged-dot(x, y, s), "
                                        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
                                        "rhs_group_dims={0}")],
    ("call", "rewritten"): [CALLED + entry(X, "r = f32[4,64] call(x), to_apply=f")],
    ("fusion", "rewritten"): [CALLED + entry(X, "r = f32[4,64] fusion(x), kind=kLoop, calls=f")],
    ("conditional", "rewritten"): [
        CALLED + entry(X, "p = pred[] parameter(1)",
                       "r = f32[4,64] conditional(p, x, x), true_computation=f, false_computation=g")],
    ("conditional", "host"): [
        CALLED_WITH_TOKENS + entry(X, "p = pred[] parameter(1)", "r = (f32[4,64], token[]) conditional(p, x, x), "
                                   "true_computation=f, false_computation=g")],
    ("while", "rewritten"): [loop(3)],
    ("while", "kernel"): [loop(1000)],
    ("while", "loop"): [loop(1000, by="reverse(x), dimensions={0}")],
    ("while", "host"): [loop(1000, token=True)],
    ("scan", "rewritten"): [scan("f32", "  c = f32[] add(a, b)\n"), scan("bf16", "  c = bf16[] maximum(a, b)\n"),
                            scan("bf16", "  c = bf16[] add(a, b)\n", ", is_associative=true"),
                            scan("bf16", "  c = bf16[] add(a, b)\n"), scan("f16", "  c = f16[] multiply(a, b)\n"),
                            scan("f32", "  s = f32[] add(a, b)\n  c = f32[] tanh(s)\n")],
    ("rng-bit-generator", "rewritten"): [
        entry("s = u64[2] parameter(0)", f"r = (u64[2], u32[64]) rng-bit-generator(s), algorithm={algorithm}")
        for algorithm in ("rng_default", "rng_philox", "rng_three_fry")],
    ("cholesky", "library"): [cholesky(600)],
    ("cholesky", "rewritten"): [cholesky(8), (cholesky(200), "--no-libraries")],
    ("triangular-solve", "library"): [triangular_solve(600)],
    ("triangular-solve", "rewritten"): [triangular_solve(8), (triangular_solve(200), "--no-libraries")],
    ("fft", "library"): [FFT],
    ("fft", "host"): [(FFT, "--no-libraries")],
    ("batch-norm-inference", "rewritten"): [
        entry(*NORM, f"r = f32[8,16] batch-norm-inference(x, a, b, c, d), {WITH_NORM}")],
    ("batch-norm-training", "rewritten"): [
        entry(*NORM[:3], f"r = (f32[8,16], f32[16], f32[16]) batch-norm-training(x, a, b), {WITH_NORM}")],
    ("batch-norm-grad", "rewritten"): [
        entry(*NORM[:4], "g = f32[8,16] parameter(4)",
              f"r = (f32[8,16], f32[16], f32[16]) batch-norm-grad(x, a, b, c, g), {WITH_NORM}")],
    ("custom-call", "host"): [
        entry("x = f32[64] parameter(0)", 'r = (f32[8], s32[8]) custom-call(x), custom_call_target="TopK"'),
        *(call_of(target) for target in ("Sharding", "LayoutConstraint", "MoveToHost", "MoveToDevice",
                                         "annotate_device_placement"))],
    ("custom-call", "library"): [potrf(600), getrf(600), geqrf(600), orgqr(600), syevd(20, "f32"), syevd(200, "f32"),
                                 gesvdj(20, "f32")],
    ("custom-call", "rewritten"): [
        *((call(200), "--no-libraries") for call in (potrf, getrf, geqrf, orgqr)), potrf(8), getrf(8),
        *((call(8, "f32"), "--no-libraries") for call in (syevd, gesvdj)), gesvdj(200, "f32"),
        entry("x = f32[4,4] parameter(0)", "b = f32[4,2] parameter(1)", 'r = f32[4,2] custom-call(x, b), '
              'custom_call_target="lapack_strsm_ffi", backend_config={diag = 85 : ui8, side = 76 : ui8, '
              "trans_x = 78 : ui8, uplo = 76 : ui8}"),
        entry("x = s32[8] parameter(0)", 'r = s32[8] custom-call(x), '
              'custom_call_target="cu_lu_pivots_to_permutation"')],
    ("custom-call", "refused"): [call_of("xla_ffi_python_gpu_callback"), call_of("cusolver_gesvd_ffi"),
                                 syevd(8, "c64"), gesvdj(8, "c64")],
}


def shown(names):
    """{(operator, fate): modules that show it} of all operators."""
    modules = dict(SHOWN)
    for name, (_, family) in names.items():
        if family in ("Unary", "Binary"):
            modules[name, "kernel"] = [unary(name) if family == "Unary" else binary(name)]
        elif family == "Unsupported" and not any(known == name for known, _ in SHOWN):
            modules[name, "refused"] = [entry(X, f"r = f32[4,64] {name}(x)")]
    return modules


def strata(module, *options):
    text = module if module.startswith("HloModule") else "HloModule m\n" + module
    return subprocess.run([STRATA, "emit", "-", "--no-cache", *options], input=text, text=True, capture_output=True,
                          timeout=300, check=False)


def kind_of(emitter):
    """The name of an emitter in kinds/choose_plan.cpp, of what it calls itself."""
    if emitter == "top-k":
        return "sort"
    last = emitter.split()[-1]
    return last if last in ("reduction", "scan") and not emitter.startswith("scatter") else emitter


def fate_of(module, *options):
    """(what becomes of it, kinds of kernels)."""
    done = strata(module, "--explain", *options)
    if done.returncode == 2 and "the interpreter does not support" in done.stderr:
        return "refused", set()
    if done.returncode != 0:
        return f"an error: {done.stderr}", set()
    said = re.findall(r"^ +(emitter|interpreter|loop|cuBLASLt|cuDNN|cuFFT|cuSOLVER|cuBLAS)  +([^:\n]*)",
                      done.stdout, re.MULTILINE)
    steps = {step for step, _ in said}
    kinds = {kind_of(what) for step, what in said if step == "emitter"}
    if "interpreter" in steps:
        return "host", kinds
    if steps & {"cuBLASLt", "cuDNN", "cuFFT", "cuSOLVER", "cuBLAS"}:
        return "library", kinds
    return ("loop" if "loop" in steps else "kernel" if steps else "nothing"), kinds


@functools.cache
def ptx_of(module):
    return strata(module, "--emit=ptx").stdout


def of_module(fate, module):
    """What is wrong with a fate that a module is to show, or None; and the kinds of its kernels."""
    text, *options = module if isinstance(module, tuple) else (module,)
    if fate == "nothing":
        ptx = ptx_of(text)
        return None if ptx and ptx == ptx_of(NEGATED) else f"a kernel has code for it\n{text}", set()
    found, kinds = fate_of(text, *options)
    same = found in ("kernel", "loop", "library") if fate == "rewritten" else found == fate
    return None if same else f"the table says {fate}, and it is {found}\n{text}", kinds


def of_row(fate, how, shown_kinds, all_kinds, definition):
    """What is wrong with the last cell of a row, given the kinds of kernels that its modules show; or None."""
    said = set(re.findall(r"`([^`]+)`", how))
    if fate == "kernel" and said & all_kinds != shown_kinds:
        return f"the row names the emitters {sorted(said & all_kinds)}, and its modules show {sorted(shown_kinds)}"
    if fate == "rewritten":
        sources = "".join((SOURCE / f"src/hlo/{one[:-2]}.cpp").read_text(encoding="utf-8")
                          for one in said if one.endswith(".h"))
        enumerator, family = definition
        if not re.search(rf"\bOpcode::{enumerator}\b|\bFamily::{family}\b", sources):
            return "no header of the row has a source that knows it"
    return None


def complaints(document, names, modules):
    """What the table lacks, or has too much."""
    rows, wrong = table(document)
    wrong += [f"{name} is in no row" for name in names if not any(one == name for one, _ in rows)]
    wrong += [f"{name}: there is no such operator" for name, _ in rows if name not in names]
    wrong += [f"no module shows that {name} is {fate}" for name, fate in rows if (name, fate) not in modules]
    wrong += [f"no row says that {name} may be {fate}" for name, fate in modules if (name, fate) not in rows]
    return wrong


class GpuFates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = operators()
        cls.modules = shown(cls.names)
        cls.document = (SOURCE / "docs/hlo.md").read_text(encoding="utf-8")

    def test_each_operator_is_in_the_table(self):
        self.assertGreater(len(self.names), 120)
        self.assertEqual(complaints(self.document, self.names, self.modules), [])

    def test_the_table_is_what_happens(self):
        planners = (SOURCE / "src/emitters/kinds/choose_plan.cpp").read_text(encoding="utf-8")
        kinds = set(re.findall(r'^    \{"([\w -]+)", plan_', planners, re.MULTILINE))
        self.assertIn("loop", kinds)
        rows, _ = table(self.document)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            checks = {row: [pool.submit(of_module, row[1], module) for module in self.modules.get(row, [])]
                      for row in rows}
            results = {row: [check.result() for check in each] for row, each in checks.items()}
        wrong = [f"{row[0]}: {why}" for row, each in results.items() for why, _ in each if why]
        for row, how in rows.items():
            shown_kinds = set().union(*(one for _, one in results[row]))
            why = of_row(row[1], how, shown_kinds, kinds, self.names[row[0]])
            wrong += [f"{row[0]}: {why}"] if why else []
        self.assertEqual(wrong, [])

    def test_what_is_wrong_is_found(self):
        lacks = self.document.replace("`cholesky`, ", "")
        self.assertNotEqual(lacks, self.document)
        self.assertIn("cholesky is in no row", complaints(lacks, self.names, self.modules))
        more = self.document.replace("`cholesky`, ", "`cholesky`, `qr`, ", 1)
        self.assertIn("qr: there is no such operator", complaints(more, self.names, self.modules))
        for fate, module in (("kernel", self.modules["fft", "host"][0]), ("nothing", unary("abs")),
                             ("host", self.modules["sort", "kernel"][0]), ("kernel", call_of("unknown"))):
            self.assertIsNotNone(of_module(fate, module)[0], module)
        self.assertIsNotNone(of_row("kernel", "`loop`", {"loop", "reduction"}, {"loop", "reduction"}, None))
        self.assertIsNotNone(of_row("rewritten", "`fold.h`", {"loop"}, {"loop"}, self.names["scan"]))


if __name__ == "__main__":
    STRATA, SOURCE = os.path.abspath(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
    unittest.main()
