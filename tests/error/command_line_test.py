#!/usr/bin/env python3
"""Users' mistakes: each ends with its exit code and a message that names the mistake. Usage: ... STRATA"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

BAD_INPUT, ENVIRONMENT = 2, 3
TIMEOUT = 900  # seconds; only a hang takes as long, under a sanitizer on a busy machine too


def npy(shape, dtype="<f8", data=None):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    count = 1
    for size in shape:
        count *= size
    body = bytes(8 * count) if data is None else data
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def graph(*statements, inputs=("A: f16[2, 3]",)):
    return "graph g {\n" + "".join(f"  {line}\n" for line in [f"input {i}" for i in inputs] + list(statements)) + "}\n"


FILES = {
    "good.strata": graph("B = exp(A)", "output B"),
    "no_colon.strata": "graph g {\n  input A f16[2]\n  output A\n}\n",
    "bad_character.strata": graph("B = exp(A) @", "output B"),
    "not_closed.strata": graph("B = exp(A)", "output B")[:-2],
    "unknown_operator.strata": graph("B = frob(A)", "output B"),
    "misspelt_operator.strata": graph("B = matmull(A, A)", "output B"),
    "inner_dimensions.strata": graph("C = matmul(A, B)", "output C", inputs=("A: f16[2, 3]", "B: f16[4, 5]")),
    "no_dim.strata": graph("B = sum(A)", "output B"),
    "dim_outside.strata": graph("B = sum(A, dim=2)", "output B"),
    "unknown_attribute.strata": graph("B = exp(A, dim=1)", "output B"),
    "wrong_type.strata": graph("B = exp(A) : f16[3, 2]", "output B"),
    "undefined.strata": graph("B = exp(Z)", "output B"),
    "defined_twice.strata": graph("A = exp(A)", "output A"),
    "no_output.strata": graph("B = exp(A)"),
    "no_denominator.strata": graph("B = scale(A, factor=1/0)", "output B"),
    "element_type.strata": graph("output A", inputs=("A: i8[2]",)),
    "empty_dimension.strata": graph("output A", inputs=("A: f16[0, 3]",)),
    "operand_count.strata": graph("B = exp(A, A)", "output B"),
    "wrong_level.strata": graph("B = in_iter(A)", "output B"),
    "unused.strata": graph("B = exp(A)", "C = sqr(A)", "output B"),
    "other_shape.strata": graph("B = exp(A)", "output B", inputs=("A: f16[3, 3]",)),
    "more_inputs.strata": graph("C = add(A, B)", "output C", inputs=("A: f16[2, 3]", "B: f16[2, 3]")),
    "outside_lax.strata": graph("C = scale(A, factor=2)", "B = relu(C)", "output B"),
    "doubled_relu.strata": graph("C = relu(A)", "B = scale(C, factor=2)", "output B"),
    "fused.strata": graph("B = block(A, grid=[2]) {", "  a = in_iter(A, imap=[0])", "  b = exp(a)",
                          "  B = out_saver(b, omap=[0])", "}", "output B"),
    "no_accumulator.strata": graph("B = block(A, grid=[2], loop=3) {", "  a = in_iter(A, imap=[0], fmap=1)",
                                   "  B = out_saver(a, omap=[0])", "}", "output B"),
    "sized.strata": "graph s {\n  dim n = 4\n  input A: f16[n, 3]\n  input B: f16[n, 3]\n  C = add(A, B)\n"
                    "  output C\n}\n",
    "unknown_size.strata": graph("output A", inputs=("A: f16[n]",)),
    "two_sizes.strata": "graph s {\n  dim n = 4\n  input A: f16[n]\n  input B: f16[4]\n  C = add(A, B)\n"
                        "  output C\n}\n",
    "huge.strata": graph("B = exp(A)", "output B", inputs=("A: f16[2147483647, 2147483647]",)),
    "large.strata": graph("B = exp(A)", "output B", inputs=("A: f16[1048576, 524288]",)),
    "grows.strata": graph("B = repeat(A, dim=0, times=1048576)", "output B", inputs=("A: f16[1048576, 1048576]",)),
    "huge.hlo": "HloModule m\nENTRY f {\n  x = f32[2147483647,2147483647] parameter(0)\n  ROOT y = f32[2147483647,"
                "2147483647] negate(x)\n}\n",
    "large.hlo": "HloModule m\nENTRY f {\n  x = f32[1048576,524288] parameter(0)\n  ROOT y = f32[1048576,524288] "
                 "negate(x)\n}\n",
    "good.hlo": "HloModule m\nENTRY f {\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] negate(x)\n}\n",
    "no_shape.hlo": "f {\n  ROOT x = parameter(0)\n}\n",
    "unsupported.txt": "HloModule m\nf {\n  x = f32[] parameter(0)\n"
                       "  ROOT y = f32[4] rng(x, x), distribution=rng_uniform\n}\n",
    "empty.json": "{}",
    "code/program.json": "{}",
    "text.npy": "0 1 2\n3 4 5\n",
    "magic_only.npy": b"\x93NUM",
    "no_shape.npy": b"\x93NUMPY\x01\x00\x10\x00not a header....",
    "cut_off.npy": npy((2, 3))[:-8],
    "cut_header.npy": npy((2, 3))[:40],
    "trailing.npy": npy((2, 3)) + b"more",
    "marked.strata": "\ufeff" + graph("B = exp(A)", "output B"),
    "marked_wrong.strata": "\ufeff@",
    "utf16.strata": graph("B = exp(A)", "output B").encode("utf-16"),
    "marked.hlo": "\ufeffHloModule m\nENTRY f {\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] negate(x)\n}\n",
    "strings.npy": npy((2, 3), "<U4"),
    "other_shape.npy": npy((3, 3)),
    "two_rows.npy": npy((2, 3)),
}

# Arguments, exit code, parts of what is printed to stderr and stdout together.
MISTAKES = [
    ("", BAD_INPUT, "a subcommand is required: one of optimize, verify, run, show, merge, ops, emit, machine, "
     "calibrate, decode, doctor, bench, explain, completions"),
    ("frobnicate", BAD_INPUT, "no subcommand is named 'frobnicate'\n", "`strata --help` lists"),
    ("optimise good.strata", BAD_INPUT, "no subcommand is named 'optimise'; did you mean 'optimize'?"),
    ("verfiy good.strata good.strata", BAD_INPUT, "no subcommand is named 'verfiy'; did you mean 'verify'?"),
    ("--threads 2 optimize good.strata", BAD_INPUT, "no option before the subcommand is named '--threads'"),
    ("--versoin", BAD_INPUT, "'--versoin'; did you mean '--version'?"),
    ("show", BAD_INPUT, "GRAPH is required", "`strata show --help` lists"),
    ("show good.strata extra", BAD_INPUT, "'extra' is one too many"),
    ("show --bogus good.strata", BAD_INPUT, "show has no option '--bogus'"),
    ("show --fromat=svg good.strata", BAD_INPUT, "show has no option '--fromat'; did you mean '--format'?"),
    ("optimize good.strata --tim-limit 3", BAD_INPUT, "no option '--tim-limit'; did you mean '--time-limit'?"),
    ("optimize good.strata --seed 1 --seed 2", BAD_INPUT, "--seed is given 2 times and takes one value"),
    ("show good.strata --format svg --format text", BAD_INPUT, "--format is given 2 times"),
    ("run good.strata --input A=other_shape.npy --input A=text.npy", BAD_INPUT, "--input names 'A' twice"),
    ("run --input A=other_shape.npy good.strata", BAD_INPUT, "has shape [3, 3]; input A is f16[2, 3]"),
    *((f"{command} no_accumulator.strata", BAD_INPUT, "no_accumulator.strata:5:5: error",
       "is saved from inside the loop", "every path from in_iter to out_saver goes through exactly one accum")
      for command in ("show", "run", "optimize", "verify good.strata")),
    ("show huge.strata", BAD_INPUT, "huge.strata:2:9: error: tensor 'A' is f16[2147483647, 2147483647], which has more "
     "than 2^40 elements", "make its shape smaller"),
    ("show unknown_size.strata", BAD_INPUT, "unknown_size.strata:2:16: error: expected a dimension's size, found 'n'",
     "name a size above: dim n = 16"),
    ("show two_sizes.strata", BAD_INPUT, "two_sizes.strata:5:3: error: C = add: the sizes n and 4 are equal for some",
     "give both the same name"),
    ("run sized.strata --dim m=4", BAD_INPUT, "'s' has no dim 'm'", "its dims are n"),
    ("run sized.strata --dim n=0", BAD_INPUT, "--dim 'n=0': a size is below 1"),
    ("run sized.strata --dim n", BAD_INPUT, "--dim 'n' is not of the form tokens=64"),
    ("run sized.strata --dim n=2 --dim n=3", BAD_INPUT, "--dim names 'n' twice"),
    ("run sized.strata --dim n=2 --input A=other_shape.npy", BAD_INPUT,
     "dimension 0 of input 'A' is n; got 3, and n=2 as given"),
    ("run sized.strata --input A=other_shape.npy --input B=two_rows.npy", BAD_INPUT,
     "dimension 0 of input 'B' is n; got 2, and n=3 by input 'A'"),
    ("run good.strata --dim n=2", BAD_INPUT, "'g' has no dim 'n'", "name a size in the program: dim n = 2"),
    ("run good.hlo --dim n=2", BAD_INPUT, "'good.hlo' has no dims"),
    ("verify sized.strata sized.strata --dim m=4", BAD_INPUT, "neither 'sized.strata' nor 'sized.strata' has a dim 'm'",
     "name one of these: n"),
    ("verify good.strata good.strata --dim n=4", BAD_INPUT, "neither 'good.strata' nor 'good.strata' has a dim 'n'",
     "leave --dim out: their sizes are numbers"),
    ("verify sized.strata more_inputs.strata", BAD_INPUT, "input 'A' is f16[4, 3] in one program and f16[2, 3]"),
    ("optimize sized.strata --sizes n=1,x", BAD_INPUT, "--sizes 'n=1,x' is not of the form tokens=1,2,4"),
    ("optimize sized.strata --sizes n=1 --dim n=2", BAD_INPUT, "'n' gets sizes twice"),
    ("optimize sized.strata --sizes n=1,2 --checkpoint c", BAD_INPUT, "--checkpoint keeps one search"),
    ("run huge.strata", BAD_INPUT, "more than 2^40 elements"),
    ("optimize huge.strata", BAD_INPUT, "more than 2^40 elements"),
    ("verify huge.strata huge.strata", BAD_INPUT, "more than 2^40 elements"),
    ("show grows.strata", BAD_INPUT, "grows.strata:3:3: error: tensor 'B' is", "more than 2^40 elements"),
    ("run large.strata", ENVIRONMENT, "executing 'g' takes 8192.0 GiB of memory", "make the shapes smaller"),
    ("verify large.strata large.strata", ENVIRONMENT, "executing 'g' takes 8192.0 GiB of memory"),
    ("optimize large.strata", BAD_INPUT, "bytes of device memory; 'A' alone", "make the shapes smaller"),
    ("run huge.hlo", BAD_INPUT, "huge.hlo:3:22: error: an array has more than 2^40 elements", "make its shape smaller"),
    ("emit huge.hlo", BAD_INPUT, "more than 2^40 elements"),
    ("run large.hlo", ENVIRONMENT, "running 'f' takes 4096.0 GiB of memory"),
    ("run large.hlo --interpret", ENVIRONMENT, "running 'f' takes 4096.0 GiB of memory"),
    ("verify - -", BAD_INPUT, "'-' is named 2 times; the standard input can be read once"),
    ("run - --input A=-", BAD_INPUT, "'-' is named 2 times"),
    ("show -", BAD_INPUT, "<stdin>:1:1: error: expected"),
    ("run .", ENVIRONMENT, "'.' has neither program.json nor best.launch.json", "strata emit MODULE --output FOLDER"),
    ("run . --check", ENVIRONMENT, "'.' has neither program.json nor best.launch.json"),
    ("run code", BAD_INPUT, "'code' holds code for a GPU", "add --device gpu"),
    ("run code --check", BAD_INPUT, "'code' holds only code", "run the program's text"),
    ("run code --precision f32", BAD_INPUT, "'code' holds code that is made already", "leave --precision"),
    ("emit good.hlo --target sm_42", BAD_INPUT, "unknown target 'sm_42'; expected sm_80 or sm_90a"),
    *((f"{command} --target sm_100a", BAD_INPUT, "target sm_100a (NVIDIA B200) is a plan: no code is generated for it",
       "write sm_80 or sm_90a; strata machine --target sm_100a prints what is planned")
      for command in ("emit good.hlo", "optimize good.strata")),
    ("machine --target sm_42", BAD_INPUT, "unknown target 'sm_42'; expected sm_80, sm_90a or sm_100a",
     "write one of them, or auto for the machine's GPU"),
    ("calibrate --cache calibrations", ENVIRONMENT, "there is nothing to calibrate: no GPU", "on a machine with a GPU"),
    ("calibrate --target sm_90a", BAD_INPUT, "calibrate has no option '--target'"),
    ("decode", BAD_INPUT, "--config is required"),
    ("emit good.hlo --emit=cubin", BAD_INPUT, "--emit=cubin needs a folder", "add --output DIR"),
    ("optimize .", ENVIRONMENT, "cannot read '.': it is a folder"),
    ("verify . good.strata", ENVIRONMENT, "cannot read '.': it is a folder"),
    ("run good.strata --input A=.", ENVIRONMENT, "cannot read '.': it is a folder"),
    ("run good.hlo --input x=.", ENVIRONMENT, "cannot read '.': it is a folder"),
    ("optimize good.strata --checkpoint .", ENVIRONMENT, "cannot write the checkpoint '.': it is a folder"),
    ("optimize good.strata --checkpoint -", BAD_INPUT, "--checkpoint - is the standard input"),
    ("merge x .", ENVIRONMENT, "checkpoint: cannot read '.': it is a folder"),
    ("merge x - -", BAD_INPUT, "'-' is named 2 times"),
    ("merge - good.strata", BAD_INPUT, "'-' is the standard input", "name a file to write"),
    ("show good.strata --format png", BAD_INPUT, "--format: png not in {text,svg,html}"),
    ("show missing.strata", ENVIRONMENT, "cannot read 'missing.strata'"),
    ("show .", ENVIRONMENT, "cannot read '.'"),
    ("show no_colon.strata", BAD_INPUT, "no_colon.strata:2:11: error: expected ':', found 'f16'"),
    ("show bad_character.strata", BAD_INPUT, "bad_character.strata:3:14: error: unexpected character '@'"),
    ("show not_closed.strata", BAD_INPUT, "error: expected '}', found the end of the file", "a brace is not closed"),
    ("show text.npy", BAD_INPUT, "text.npy:1:1: error: expected"),
    ("show unknown_operator.strata", BAD_INPUT, "strata:3:7: error: unknown operator 'frob'", "`strata ops`"),
    ("show misspelt_operator.strata", BAD_INPUT, "unknown operator 'matmull'; did you mean 'matmul'?"),
    ("show inner_dimensions.strata", BAD_INPUT, "strata:4:3: error: C = matmul(", "inner dimensions differ: 3 of"),
    ("show no_dim.strata", BAD_INPUT, "strata:3:3: error: B = sum(", "sum needs dim="),
    ("show dim_outside.strata", BAD_INPUT, "dim=2 is outside 0 … 1 of f16[2, 3]"),
    ("show unknown_attribute.strata", BAD_INPUT, "strata:3:14: error: exp has no attribute 'dim'"),
    ("show wrong_type.strata", BAD_INPUT, "strata:3:16: error: 'B' is f16[2, 3], not f16[3, 2]"),
    ("show undefined.strata", BAD_INPUT, "strata:3:11: error: 'Z' is not defined here"),
    ("show defined_twice.strata", BAD_INPUT, "strata:3:3: error: 'A' is defined twice"),
    ("show no_output.strata", BAD_INPUT, "'g' has no output\n  end it with output NAME"),
    ("show no_denominator.strata", BAD_INPUT, "no_denominator.strata:3:23: error: a constant has the denominator 0",
     "the second not 0"),
    ("optimize good.strata -o good.strata", ENVIRONMENT, "cannot make the folder 'good.strata'", "cannot be a file"),
    ("optimize good.strata -o /proc/x/y", ENVIRONMENT, "cannot make the folder '/proc/x/y'", "name a folder"),
    ("run good.strata --output good.strata", ENVIRONMENT, "cannot make the folder 'good.strata'", "cannot be a file"),
    ("show element_type.strata", BAD_INPUT, "strata:2:12: error: unknown element type 'i8'; expected f16"),
    ("show empty_dimension.strata", BAD_INPUT, "tensor 'A' has a dimension of size 0"),
    ("show operand_count.strata", BAD_INPUT, "expected 1 operand", "found 2"),
    ("show wrong_level.strata", BAD_INPUT, "this operator does not exist at kernel level"),
    ("run good.strata --input Z=text.npy", BAD_INPUT, "'g' has no input 'Z'"),
    ("run good.strata --input A", BAD_INPUT, "--input 'A' is not of the form NAME=FILE.npy"),
    ("run good.strata --input A=missing.npy", ENVIRONMENT, "cannot read 'missing.npy'"),
    ("run good.strata --input A=text.npy", BAD_INPUT, "'text.npy' is no .npy file", "numpy.save"),
    ("run good.strata --input A=magic_only.npy", BAD_INPUT, "'magic_only.npy' is no .npy file"),
    ("run good.strata --input A=no_shape.npy", BAD_INPUT, "its header has no shape"),
    ("run good.strata --input A=cut_header.npy", BAD_INPUT, "its header is cut off"),
    ("run good.strata --input A=cut_off.npy", BAD_INPUT, "'cut_off.npy' is cut off: its array of shape [2, 3] takes"),
    ("run good.strata --input A=trailing.npy", BAD_INPUT, "'trailing.npy' has 4 more bytes after its array of shape"),
    ("run good.hlo --input x=trailing.npy", BAD_INPUT, "'trailing.npy' has 4 more bytes after its array of shape"),
    ("show marked.strata", 0, "graph g"),
    ("show marked.hlo", 0, "HloModule m"),
    ("run marked.hlo --interpret", 0, ""),
    ("show marked_wrong.strata", BAD_INPUT, "marked_wrong.strata:1:1: error: unexpected character '@'"),
    ("show utf16.strata", BAD_INPUT, "the text is UTF-16", "save it as UTF-8"),
    ("run good.strata --input A=strings.npy", BAD_INPUT, "'strings.npy'", "U4"),
    ("run good.strata --input A=other_shape.npy", BAD_INPUT, "has shape [3, 3]; input A is f16[2, 3]"),
    ("run good.strata --seed x", BAD_INPUT, "--seed: 'x' is no whole number"),
    ("run good.strata --seed -1", BAD_INPUT, "--seed: -1 is outside 0 to 18446744073709551615"),
    ("run good.strata --precision f16", BAD_INPUT, "--precision: f16 not in {f64,f32,own}"),
    ("run good.strata --output good.strata/out", ENVIRONMENT, "cannot make the folder 'good.strata/out'"),
    ("run missing.hlo", ENVIRONMENT, "cannot read 'missing.hlo'"),
    ("run no_shape.hlo", BAD_INPUT, "no_shape.hlo:2:12: error: parameter needs its shape"),
    ("run unsupported.txt", BAD_INPUT, "unsupported.txt:4:8: error: the interpreter does not support rng"),
    ("show good.hlo --format svg", BAD_INPUT, "HLO is shown as text only, not as svg"),
    ("run good.hlo --precision f32", BAD_INPUT, "--precision does not apply to HLO"),
    ("run good.hlo --input z=text.npy", BAD_INPUT, "'f' has no parameter 'z'"),
    ("run good.hlo --input x=text.npy", BAD_INPUT, "'text.npy' is no .npy file"),
    ("run good.hlo --input x=strings.npy", BAD_INPUT, "'<U4', not f32", "<f4 suits"),
    ("run good.hlo --input x=other_shape.npy", BAD_INPUT, "has shape [3, 3]; expected f32[2,3]"),
    ("verify good.strata", BAD_INPUT, "B is required"),
    ("verify good.strata good.strata --delta 2", BAD_INPUT, "--delta: 2 is not above 0 and below 1"),
    ("verify good.strata good.strata --delta nan", BAD_INPUT, "--delta: nan is not above 0 and below 1"),
    ("verify good.strata good.strata --delta 0", BAD_INPUT, "--delta: 0 is not above 0 and below 1"),
    ("verify good.strata other_shape.strata", BAD_INPUT, "input 'A' is f16[2, 3] in one program and f16[3, 3]"),
    ("verify good.strata more_inputs.strata", BAD_INPUT, "the programs have 1 and 2 inputs"),
    ("verify outside_lax.strata doubled_relu.strata --solver-time-limit 0", BAD_INPUT, "cannot be decided: 'B' = relu"),
    ("verify good.strata good.strata --solver-time-limit -1", BAD_INPUT, "--solver-time-limit: -1 is outside 0 to 1"),
    ("verify good.strata good.strata --time-limit -1", BAD_INPUT, "--time-limit: -1 is outside 0 to 1"),
    ("run good.strata --check", BAD_INPUT, "--check, --device,", "are for HLO"),
    ("run good.hlo --check --tolerance 0", BAD_INPUT, "--tolerance: 0 is outside 1e-06 to 1000000"),
    ("emit .", ENVIRONMENT, "cannot read '.': it is a folder"),
    ("emit good.strata", BAD_INPUT, "'good.strata' is a µGraph, not HLO", "strata optimize good.strata"),
    ("optimize good.hlo", BAD_INPUT, "'good.hlo' is HLO", "strata emit and strata run take it"),
    ("optimize missing.strata", ENVIRONMENT, "cannot read 'missing.strata'"),
    ("optimize fused.strata", BAD_INPUT, "strata:3:3: error: the program has a graph-defined operator already"),
    ("optimize unused.strata --target sm_80", BAD_INPUT, "'C' is computed and never used"),
    ("optimize good.strata --target sm_70", BAD_INPUT, "unknown target 'sm_70'; expected sm_80 or sm_90a",
     "write one of them, or auto for the machine's GPU"),
    ("optimize good.strata --time-limit= -o swallowed", BAD_INPUT, "the value of --time-limit is empty",
     "write a value, or leave --time-limit out"),
    (["optimize", "good.strata", "-o", ""], BAD_INPUT, "the value of -o is empty", "write a value, or leave -o out"),
    (["show", ""], BAD_INPUT, "word 2 of the command line, behind 'show', is empty", "write the name"),
    ("optimize good.strata --shard 2/2 --checkpoint c", BAD_INPUT, "--shard 2/2 names no slice", "for example 0/4"),
    ("optimize good.strata --shard 1 --checkpoint c", BAD_INPUT, "--shard 1 names no slice"),
    ("optimize good.strata --shard 0/2", BAD_INPUT, "--shard without --checkpoint"),
    ("optimize good.strata --disable-rule none", BAD_INPUT, "--disable-rule"),
    ("merge out.json missing.json", ENVIRONMENT, "checkpoint: cannot read 'missing.json': No such file"),
    ("merge out.json good.strata", BAD_INPUT, "checkpoint 'good.strata' is damaged"),
    ("optimize good.strata --delta nan", BAD_INPUT, "--delta: nan is not above 0 and below 1"),
    ("optimize good.strata --threads 0", BAD_INPUT, "--threads: 0 is outside 1 to 1024"),
    ("optimize good.strata --max-block-ops many", BAD_INPUT, "--max-block-ops"),
    ("optimize good.strata --time-limit -1", BAD_INPUT, "--time-limit"),
    ("optimize good.strata --profile maybe", BAD_INPUT, "--profile: maybe not in {auto,on,off}"),
    ("optimize good.strata --profile-seconds -1", BAD_INPUT, "--profile-seconds: -1 is outside 0 to 1000000"),
    ("optimize good.strata --profile on", ENVIRONMENT, "--profile on: no GPU", "or without --profile on"),
    ("optimize good.strata --disable-pass none", BAD_INPUT, "--disable-pass: none not in {thread-graphs,"),
    ("bench --programs nowhere", ENVIRONMENT, "cannot read the folder 'nowhere'"),
    ("bench --programs . --only nothing_like_it", BAD_INPUT, "has 'nothing_like_it' in its name"),
    ("bench --programs .", ENVIRONMENT, "is missing: it times the peers"),
    ("run good.hlo --device gpu", ENVIRONMENT, "the CUDA driver (/nowhere/libcuda.so.1) cannot be loaded",
     "let STRATA_CUDA_DRIVER name the library"),
    ("run good.hlo --device tpu", BAD_INPUT, "--device: tpu not in"),
    ("run good.hlo --profile", BAD_INPUT, "--profile times kernels on a GPU", "with --device=gpu"),
    ("run good.hlo --interpret --device gpu", BAD_INPUT, "--interpret runs nothing on a GPU"),
    ("run good.strata --device gpu", BAD_INPUT, "--no-libraries and --search-seconds are for HLO"),
    ("run good.strata --report r.html", BAD_INPUT, "--report, --tolerance, --no-libraries", "are for HLO"),
    ("run good.hlo --interpret --report r.html", BAD_INPUT, "--report is of kernels", "leave one of the two out"),
    ("run code --report r.html", BAD_INPUT, "'code' holds code that is made already", "and --report out"),
    ("explain missing.json", ENVIRONMENT, "cannot read 'missing.json'"),
    ("explain .", ENVIRONMENT, "'.' has no report.json", "name a folder that strata optimize or strata emit wrote"),
    ("explain good.strata", BAD_INPUT, "'good.strata' is no JSON object", "a file of bench/results"),
    ("explain empty.json", BAD_INPUT, "'empty.json' is no report"),
    ("explain -", BAD_INPUT, "'<stdin>' is no JSON object"),
    ("completions ksh", BAD_INPUT, "SHELL: ksh not in {bash,zsh,fish}"),
    ("measure-worker", ENVIRONMENT, "the CUDA driver (/nowhere/libcuda.so.1) cannot be loaded"),
    ("optimize good.strata --cache-limit much", BAD_INPUT, "--cache-limit"),
    ("optimize good.strata --dump-after never", BAD_INPUT, "--dump-after: never not in"),
]


# Every option that takes a number, with what it cannot be beside what none can be.
NUMBERS = {
    "optimize good.strata": {
        "--threads": ["0", "1025", "1.5"], "--max-kernel-ops": ["0", "65"], "--max-block-ops": ["0", "65"],
        "--delta": ["0", "1"], "--solver-time-limit": ["2000000"], "--time-limit": ["2e9", "3kg", "1min30s"],
        "--candidates": ["0", "1001"], "--seed": ["1.5", "18446744073709551616", "0x10"],
        "--profile-seconds": ["2000000", "300h"], "--cache-limit": ["9223372036854775808", "8388608TiB", "1.5", "2s"]},
    "verify good.strata good.strata": {"--delta": ["0", "1"], "--seed": ["1.5"], "--solver-time-limit": ["2000000"],
                                         "--time-limit": ["2000000"]},
    "run good.strata": {"--seed": ["1.5"]},
    "run good.hlo": {"--seed": ["1.5"], "--tolerance": ["0", "1e7"], "--search-seconds": ["2000000"]},
    "emit good.hlo": {"--search-seconds": ["2000000"]},
    "decode --config qwen3-0.6b --prompt-ids 1": {
        "--seed": ["1.5", "18446744073709551616"], "--tokens": ["0", "1073741825"], "--temperature": ["2e6"],
        "--top-k": ["1073741825", "1.5"], "--top-p": ["1.5"], "--sampling-seed": ["1.5"], "--capacity": ["0", "1.5"],
        "--window": ["0", "2MiB"], "--workers": ["0", "1025"], "--ahead-bytes": ["16777217", "1.5"],
        "--tagged-bytes": ["2TiB"], "--measure": ["0"],
        "--prompt-rows": ["0", "17"]},
    "bench": {"--time-limit": ["2e9"], "--profile-seconds": ["2000000"]},
}
NO_NUMBERS = ["", "x", "-1", "nan", "inf", "-inf", "1e400", "99999999999999999999999", "1 2", "--", "1e", "١"]


def faults_of(arguments, result, code, parts):
    printed = result.stdout.decode("utf-8", "replace")
    wrong = [f"does not say {part!r}" for part in parts if part not in printed]
    if result.returncode != code:
        wrong.append(f"exit code {result.returncode}, not {code}")
    # What a user did wrong is never ours, and never in a library's words.
    wrong += [f"says {ours!r}" for ours in ("internal error", "basic_", "std::", "terminate") if ours in printed]
    lines = [line for line in printed.splitlines() if not line.startswith(("target ", "on "))]
    said = re.compile(r"(\S+:\d+:\d+: )?error: .|cannot be decided: .|\{\"failed\":")
    if result.returncode >= BAD_INPUT and not any(said.match(line)
                                                  for line in lines[:1]):
        wrong.append("the first line is no error")
    # What to do about it stands below, indented.
    if lines and re.match(r"(\S+:\d+:\d+: )?error: ", lines[0]) and not (len(lines) > 1 and lines[1].startswith("  ")):
        wrong.append("there is no remedy")
    return [f"strata {arguments}: {fault}\n{printed}" for fault in wrong]


def check(strata, folder, arguments, code, parts):
    words = arguments if isinstance(arguments, list) else arguments.split()
    result = subprocess.run([strata, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    return faults_of(arguments, result, code, parts)


def numbers(strata, folder):
    """Every option with a number refuses what is none, is not finite or is out of its range, and names it."""
    faults, count = [], 0
    for command, options in NUMBERS.items():
        listed = alone(strata, command.split()[0], "--help")
        for option in re.findall(r"(--[a-z-]+) (?:INT|FLOAT|SECONDS|BYTES)", listed):
            if not any(option in known for name, known in NUMBERS.items() if name.split()[0] == command.split()[0]):
                faults.append(f"strata {command}: {option} takes a number and is not tried here")
        for option, wrong in options.items():
            for word in wrong + NO_NUMBERS:
                faults += check(strata, folder, [*command.split(), f"{option}={word}"], BAD_INPUT, [option, word])
                count += 1
    return faults, count


def input_of(strata, folder, arguments, name, code, *parts):
    """A command that reads a pipe: what the file says, byte for byte, and not in one piece."""
    with subprocess.Popen(["sh", "-c", 'head -c 7 "$0"; sleep 0.1; tail -c +8 "$0"', name], cwd=folder,
                          stdout=subprocess.PIPE) as pipe:
        result = subprocess.run([strata, *arguments.split()], cwd=folder, stdin=pipe.stdout, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    printed = result.stdout.decode("utf-8", "replace")
    wrong = [f"does not say {part!r}" for part in parts if part not in printed]
    if result.returncode != code:
        wrong.append(f"exit code {result.returncode}, not {code}")
    return [f"strata {arguments} < {name}: {fault}\n{printed}" for fault in wrong]


def pipes(strata, folder):
    """'-' and /dev/stdin do wherever a file is read."""
    pathlib.Path(folder, "A.npy").write_bytes(npy((2, 3), data=struct.pack("<6d", *range(6))))
    pathlib.Path(folder, "x.npy").write_bytes(npy((2, 3), "<f4", struct.pack("<6f", *range(6))))
    faults = []
    for path in ("-", "/dev/stdin"):
        faults += input_of(strata, folder, f"show {path}", "good.strata", 0, "graph g {", "B = exp(A)")
        faults += input_of(strata, folder, f"show {path}", "good.hlo", 0, "HloModule m", "negate(")
        faults += input_of(strata, folder, f"show {path}", "undefined.strata", BAD_INPUT, ":3:11: error: 'Z' is not")
        faults += input_of(strata, folder, f"run {path}", "good.strata", 0, "B: f16[2, 3]")
        faults += input_of(strata, folder, f"run {path} --check", "good.hlo", 0, "agrees with the interpreter")
        faults += input_of(strata, folder, f"run good.strata --input A={path}", "A.npy", 0, "max 148.413")
        faults += input_of(strata, folder, f"run good.hlo --input x={path}", "x.npy", 0, "min -5  max -0")
        faults += input_of(strata, folder, f"verify {path} good.strata", "good.strata", 0, "equivalent")
        faults += input_of(strata, folder, f"emit {path}", "good.hlo", 0, "emitter", "loop")
        faults += input_of(strata, folder, f"optimize {path} -o piped --time-limit 5 --no-cache", "good.strata", 0,
                           "written: piped/best.strata")
    return faults


def alone(strata, *arguments, cwd=None):
    """The standard output of a command, without what it says beside it; its exit code where it does not succeed."""
    result = subprocess.run([strata, *arguments], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    return result.stdout.decode() if result.returncode == 0 else f"exit code {result.returncode}"


def answers(strata, folder):
    """What must print something of its own, and nothing else."""
    faults = []
    if not re.fullmatch(r"strata \d+\.\d+\.\d+ [0-9a-f]{8,}\n", version := alone(strata, "--version")):
        faults.append(f"strata --version: {version!r} is no version and build")
    if "emitter" not in (made := alone(strata, "emit", "good.hlo", cwd=folder)):
        faults.append(f"strata emit good.hlo: does not say what it made: {made!r}")
    shard = ["optimize", "good.strata", "--shard", "0/2", "--checkpoint", "shard.0", "--json"]
    try:
        told = json.loads(text := alone(strata, *shard, cwd=folder))
        shown = {"index": 0, "count": 2, "checkpoint": "shard.0"}
        if told["shard"] != shown or "spaces_searched" not in told["search"]:
            faults.append(f"strata {shard}: {text}")
    except ValueError as error:
        faults.append(f"strata {shard}: no JSON: {error}")
    at_size = ["verify", "sized.strata", "more_inputs.strata", "--dim", "n=2"]
    if "equivalent: " not in (told := alone(strata, *at_size, cwd=folder)):
        faults.append(f"strata {at_size}: {told}")
    for option in (["--time-limit", "1min"], ["--time-limit=500ms"], ["--cache-limit", "1gib"], ["--seed=+7"],
                   ["--seed", "18446744073709551615"], ["--cache-limit", "0"], ["--delta", "1e-300"]):
        command = ["optimize", "good.strata", "-o", "numbers", "--no-cache", *option]
        if "written: " not in alone(strata, *command, cwd=folder):
            faults.append(f"strata optimize {option}: refused")
    return faults


def full_disk(strata):
    """Output that cannot be written must not end as success."""
    with open("/dev/full", "wb") as full:
        result = subprocess.run([strata, "ops"], stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)
    if result.returncode == ENVIRONMENT and b"cannot write to the standard output" in result.stderr:
        return []
    return [f"strata ops >/dev/full: exit code {result.returncode}\n{result.stderr.decode()}"]


def no_place_for_messages(strata):
    """A message that cannot be written must not end the process by a signal."""
    faults = []
    for arguments, code in (("verify nowhere.strata nowhere.strata", ENVIRONMENT), ("frob", BAD_INPUT)):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([strata, *arguments.split()], stdout=full, stderr=full, timeout=TIMEOUT,
                                    check=False)
        if result.returncode != code:
            faults.append(f"strata {arguments} 2>/dev/full: exit code {result.returncode}, not {code}")
    return faults


def main():
    strata = str(pathlib.Path(sys.argv[1]).resolve())
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(pathlib.Path(folder, "cache"))
        os.environ["STRATA_CUDA_DRIVER"] = "/nowhere/libcuda.so.1"  # on machines with a GPU, too
        for name, contents in FILES.items():
            data = contents if isinstance(contents, bytes) else contents.encode()
            path = pathlib.Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        for arguments, code, *parts in MISTAKES:
            faults += check(strata, folder, arguments, code, parts)
        found, tried = numbers(strata, folder)
        faults += found + pipes(strata, folder) + answers(strata, folder)
    faults += full_disk(strata) + no_place_for_messages(strata)
    print("\n".join(faults))
    print(f"{len(MISTAKES) + tried + 3} mistakes, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
