#!/usr/bin/env python3
"""Users' mistakes with `strata decode`, and what it prints. Usage: ... STRATA

All mistakes but the last few end in less than a second on a large model too: before weights are drawn."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from command_line_test import BAD_INPUT, ENVIRONMENT, alone, check, input_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 64, "vocab_size": 128, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "max_position_embeddings": 64}
FILES = {
    "tiny.json": json.dumps(TINY),
    "odd.json": json.dumps(TINY | {"head_dim": 48}),
    "huge.json": json.dumps(TINY | {"hidden_size": 100_004, "intermediate_size": 400_000, "num_hidden_layers": 400}),
    "nan.json": json.dumps(TINY | {"rope_theta": float("nan")}),
    "old.json": json.dumps({key: value for key, value in TINY.items() if key not in ("rope_theta", "rms_norm_eps")}),
    "given.json": "\ufeff" + json.dumps(TINY | {"rope_theta": 10000, "torch_dtype": "float16"}),
    "prompts": "1,2,3\n\n[4 5]\r\n",
    "unknown": "1,2\n\n3,151936\n",
    "wrong_word": "1,2\n3,x\n",
    "gap": "1,2\n3 4, 5,, 6\n",
    "binary": b"1,2\n\x7fELF\x00\n",
    "empty": "\n",
}

# Of a model whose weights take most of a minute to draw.
LARGE = [
    ("--prompt-ids one", BAD_INPUT, "--prompt-ids: 'one' is no token id", "write whole numbers"),
    ("--prompt-ids 1.5", BAD_INPUT, "--prompt-ids: '1.5' is no token id"),
    ("--prompt-ids=-1", BAD_INPUT, "--prompt-ids: '-1' is no token id: it is outside 0 to"),
    ("--prompt-ids 4294967297", BAD_INPUT, "'4294967297' is no token id: it is outside 0 to"),
    ("--prompt-ids [[1,2],[3]]", BAD_INPUT, "--prompt-ids: '[1' is no token id"),
    ("--prompt-ids []", BAD_INPUT, "--prompt-ids: '[]' has no token id"),
    ("--prompt-ids 151936", BAD_INPUT, "--prompt-ids: token 151936 is not in the model's vocabulary of 151936",
     "tokenizer"),
    ("--prompt-ids 1 --prompt-ids 2,151936", BAD_INPUT, "--prompt-ids, prompt 2: token 151936 is not in", "tokenizer"),
    ("--prompt-ids-file unknown", BAD_INPUT, "unknown, line 3: token 151936 is not in", "tokenizer"),
    ("", BAD_INPUT, "there is no prompt", "give --prompt-ids or --prompt-ids-file"),
    ("--prompt-ids-file nothing", ENVIRONMENT, "cannot read 'nothing'"),
    ("--prompt-ids-file .", ENVIRONMENT, "cannot read '.': it is a folder"),
    ("--prompt-ids-file binary", BAD_INPUT, "binary, line 2: the byte 0x7f is in no list of token ids", "text file"),
    ("--prompt-ids-file wrong_word", BAD_INPUT, "wrong_word, line 2: 'x' is no token id"),
    ("--prompt-ids-file empty", BAD_INPUT, "empty has no prompt"),
    ("--prompt-ids-file -", BAD_INPUT, "<stdin> has no prompt"),
    ("--prompt-ids 1,,2", BAD_INPUT, "--prompt-ids: entry 2 of '1,,2' is empty", "write a token id there"),
    ("--prompt-ids 1,2,", BAD_INPUT, "--prompt-ids: entry 3 of '1,2,' is empty", "leave its comma out"),
    ("--prompt-ids ,1", BAD_INPUT, "--prompt-ids: entry 1 of ',1' is empty"),
    ("--prompt-ids [1,]", BAD_INPUT, "--prompt-ids: entry 2 of '[1,]' is empty"),
    ("--prompt-ids-file gap", BAD_INPUT, "gap, line 2: entry 4 of '3 4, 5,, 6' is empty"),
    ("--prompt-ids 1 --stop-ids 1,,3", BAD_INPUT, "--stop-ids: entry 2 of '1,,3' is empty"),
    ("--prompt-ids 1 --temperature 1 --top-p 1.1", BAD_INPUT, "--top-p", "0 to 1"),
    ("--prompt-ids 1 --temperature 2e6", BAD_INPUT, "--temperature", "0 to 1048576"),
    ("--prompt-ids 1 --stop-ids 1,-3", BAD_INPUT, "--stop-ids: '-3' is no token id"),
    ("--prompt-ids 1 --stop-ids 151936", BAD_INPUT, "token 151936, to stop at", "tokenizer"),
    ("--prompt-ids 1 --stop-ids " + ",".join(map(str, range(17))), BAD_INPUT, "17 tokens to stop at", "give fewer"),
    ("--prompt-ids 1 --tokens 50000", BAD_INPUT,
     "a prompt of 1 and --tokens 50000 fill 50000 positions, and the model's max_position_embeddings is 40960",
     "lower --tokens"),
    ("--prompt-ids 1 --tokens 4 --measure 20 --position 3,40950", BAD_INPUT,
     "--measure 20 from position 40950 on fills 40970 positions, and the model's max_position_embeddings is 40960"),
    ("--prompt-ids 1,2,3 --tokens 60 --capacity 32", BAD_INPUT,
     "--capacity 32: a prompt of 3 and --tokens 60 fill 62 positions", "write --capacity 62, or leave it out"),
    ("--prompt-ids 1 --capacity 64 --measure 60", BAD_INPUT, "--capacity 64: --measure 60 from position 16 on fills"),
    ("--prompt-ids 1 --position 3", BAD_INPUT, "--position is of measurements, and there are none", "add --measure"),
    ("--prompt-ids 1 --measure 2 --position=-1", BAD_INPUT, "--position: '-1' is no position"),
    ("--prompt-ids 1 --ahead-bytes 100", BAD_INPUT, "--ahead-bytes: 100 is no multiple of 16", "write 112"),
    ("--prompt-ids 1 --seed 3 --weights .", BAD_INPUT, "--seed is of random weights", "leave one of the two out"),
    ("--prompt-ids 1 --weights .", ENVIRONMENT, "safetensors"),
    ("--prompt-ids 1 --trace .", BAD_INPUT, "--trace .: it is a folder", "name a file"),
    ("--prompt-ids 1 --trace nowhere/t.html", ENVIRONMENT, "cannot write to the folder 'nowhere'", "--trace"),
    ("--prompt-ids 1 --mode graph --without tagged-words", BAD_INPUT, "--without leaves out parts of the mega-kernel",
     "choose --mode megakernel"),
    ("--prompt-ids 1 --tokens 1", ENVIRONMENT, "the CUDA driver", "cannot be loaded"),
    *((f"--prompt-ids 1 --device host {option}", BAD_INPUT, f"--device host does not take {option.split()[0]}: ",
       "leave it out, or use --device gpu")
      for option in ("--mode graph", "--prompt-rows 8", "--window 49152", "--workers 2", "--ahead-bytes 0",
                     "--tagged-bytes 0", "--without tagged-words", "--just-in-time all", "--trace t.html",
                     "--measure 2", "--measure 2 --position 3", "--cache here", "--no-cache")),
    *((f"--prompt-ids 1 --device host-kernel {option}", BAD_INPUT,
       f"--device host-kernel does not take {option.split()[0]}: ", "leave it out, or use --device gpu")
      for option in ("--measure 2", "--cache here", "--no-cache")),
    ("--prompt-ids 1 --device host-kernel --trace .", BAD_INPUT, "--trace .: it is a folder", "name a file"),
    ("--prompt-ids 1 --explain", BAD_INPUT, "--explain says how a plan was made", "add --plan FILE"),
    *((f"--plan p.json {option}", BAD_INPUT, f"--plan does not take {option.split()[0]}: nothing is decoded",
       "leave one of the two out")
      for option in ("--prompt-ids 1", "--weights .", "--tokens 3", "--trace t.html", "--mode graph", "--json")),
    ("--plan p.json --device host", BAD_INPUT, "--device host does not take --plan: the interpreter has no tasks"),
    ("--plan . ", BAD_INPUT, "--plan .: it is a folder", "name a file, such as plan.json"),
    ("--plan nowhere/p.json", ENVIRONMENT, "cannot write to the folder 'nowhere'", "--plan"),
    ("--plan p.json --just-in-time attentive", BAD_INPUT, "there is no function 'attentive'"),
]
OTHER = [
    ("--config nothing.json --prompt-ids 1", ENVIRONMENT, "cannot read 'nothing.json'"),
    ("--config no/thing --prompt-ids 1", ENVIRONMENT, "cannot read 'no/thing'"),
    ("--config qwen3-9b --prompt-ids 1", BAD_INPUT,
     "there is no built-in configuration 'qwen3-9b'; did you mean 'qwen3-8b'?", "built in are qwen3-8b, qwen3-",
     "give the path of a config.json"),
    ("--config prompts --prompt-ids 1", BAD_INPUT, "prompts: the configuration"),
    ("--config odd.json --prompt-ids 1 --device host-kernel", BAD_INPUT, "head_dim is 48; tasks take 32, 64 or 128",
     "use --device host"),
    # Sizes are looked at before memory, which these would not fit.
    ("--config huge.json --prompt-ids 1 --device host-kernel", BAD_INPUT,
     "hidden_size is 100004; tasks take multiples of 16 from 32 on", "use --device host"),
    ("--config huge.json --prompt-ids 1", BAD_INPUT, "hidden_size is 100004"),
    ("--config nan.json --prompt-ids 1", BAD_INPUT, "'NaN' is no number of JSON"),
    ("--config tiny.json --prompt-ids 1 --tokens 65 --device host", BAD_INPUT, "max_position_embeddings is 64"),
    ("--config odd.json --plan p.json", BAD_INPUT, "head_dim is 48; tasks take 32, 64 or 128"),
    ("--config tiny.json --prompt-ids 1 --just-in-time attentive --device host-kernel", BAD_INPUT,
     "there is no function 'attentive'", "the functions are all, attention"),
]
SECONDS = 10  # for what takes milliseconds, on a busy machine; drawing takes a multiple


def mistakes(strata, folder):
    faults = []
    for model, cases in (("--config qwen3-8b ", LARGE), ("", OTHER)):
        for words, code, *parts in cases:
            begun = time.monotonic()
            faults += check(strata, folder, f"decode {model}{words}", code, parts)
            if time.monotonic() - begun > SECONDS:
                faults.append(f"strata decode {model}{words}: {time.monotonic() - begun:.0f} s until it was refused")
    return faults


def old_configuration(strata, folder):
    """What a config.json lacks is taken as transformers does, and told; its dtype and a mark of byte order are not
    read."""
    words = [strata, "decode", "--device", "host", "--tokens", "5", "--prompt-ids", "1,2,3", "--config"]
    old, given = (subprocess.run([*words, file], capture_output=True, text=True, cwd=folder, check=False)
                  for file in ("old.json", "given.json"))
    expected = "".join(f"note: the configuration has no '{key}'; {value} is taken, as transformers does\n"
                       for key, value in (("rms_norm_eps", "1e-06"), ("rope_theta", "10000")))
    faults = [] if old.stdout == given.stdout and old.stdout else [f"{old} is not {given}"]
    return faults + [f"{stderr} instead of {wanted}" for stderr, wanted in ((old.stderr, expected), (given.stderr, ""))
                     if stderr != wanted]


def answers(strata, folder):
    """One form of prompts and of answers, whatever the way in."""
    faults = []
    decode = ["decode", "--config", "tiny.json", "--device", "host", "--tokens", "5"]
    expected = alone(strata, *decode, "--prompt-ids", "1,2,3", cwd=folder)
    if len(expected.split()) != 5:
        faults.append(f"five tokens: {expected}")
    for same in ("[1,2,3]", "[1, 2, 3]", "1 2 3", " 1,2 ,3 "):
        found = alone(strata, *decode, "--prompt-ids", same, cwd=folder)
        if found != expected:
            faults.append(f"--prompt-ids '{same}': {found} instead of {expected}")
    both = alone(strata, *decode, "--prompt-ids", "1,2,3", "--prompt-ids", "4,5", cwd=folder)
    for same in (["--prompt-ids-file", "prompts"], ["--prompt-ids", "1,2,3;4,5"],
                 ["--prompt-ids", "1,2,3", "--prompt-ids", "[4,5]"]):
        found = alone(strata, *decode, *same, cwd=folder)
        if found != both or len(both.splitlines()) != 2:
            faults.append(f"{same}: {found} instead of {both}")
    # Those of the file follow those of the command line.
    all_four = alone(strata, *decode, "--prompt-ids", "7", "--prompt-ids-file", "prompts", cwd=folder)
    if all_four.splitlines()[1:] != both.splitlines():
        faults.append(f"--prompt-ids beside a file: {all_four} instead of one more than {both}")
    faults += old_configuration(strata, folder)
    printed = alone(strata, *decode, "--prompt-ids-file", "prompts", "--json", cwd=folder)
    tokens = [[int(t) for t in line.split()] for line in both.splitlines()]
    if json.loads(printed) != {"device": "host", "mode": "interpreter", "tokens": tokens}:
        faults.append(f"--json: {printed}")
    faults += input_of(strata, folder, " ".join(decode) + " --prompt-ids-file -", "prompts", 0,
                       *both.splitlines())
    return faults


def traces(strata, folder):
    """A trace of the host's kernels has all tasks, and times that are those of a clock."""
    faults = []
    decode = ["decode", "--config", "tiny.json", "--device", "host-kernel", "--tokens", "4", "--prompt-ids", "1"]
    begun = time.monotonic()
    tokens = alone(strata, *decode, "--mode", "megakernel", "--trace", "t.json", cwd=folder)
    microseconds = (time.monotonic() - begun) * 1e6
    tasks = [event for event in json.loads((folder / "t.json").read_text())["traceEvents"] if event["ph"] == "X"]
    computed = {event["name"].split(".")[0].split(" ")[0] for event in tasks}
    if not {"attention", "down", "sample"} <= computed:
        faults.append(f"the trace has {sorted(computed)}")
    ends = [event["ts"] + event["dur"] for event in tasks]
    if not 0 < max(ends, default=0) < microseconds or len(set(ends)) < len(ends) / 4:
        faults.append(f"{len(tasks)} tasks of a trace until {max(ends, default=0)} us of {microseconds}")
    if alone(strata, *decode, "--mode", "graph", "--trace", "t.html", cwd=folder) != tokens or not tokens:
        faults.append(f"the graph does not make the tokens {tokens}")
    if "</html>" not in (folder / "t.html").read_text():
        faults.append("the graph's page is none")
    return faults


def plans(strata, folder):
    """The plans of the steps of a real model: written, told pass by pass, read, drawn."""
    faults = []
    decode = ["decode", "--config", "llama-3.2-1b"]
    explained = alone(strata, *decode, "--plan", "p.json", "--explain", cwd=folder)
    file = json.loads((folder / "p.json").read_text())
    if file["version"] != 1 or file["name"] != "llama-3.2-1b" or list(file["plans"]) != ["1", "2", "4", "8", "16"]:
        faults.append(f"the file has {file['version']}, {file['name']}, {list(file['plans'])}")
    shown = alone(strata, "show", "p.json", cwd=folder)
    for batch, plan in file["plans"].items():
        tasks, events = len(plan["tasks"]), len(plan["events"])
        if not re.search(rf"(?m)^batch {batch}: {tasks} tasks of \d+ operators, {events} events \(.*; 128 workers, 0 s",
                         shown):
            faults.append(f"batch {batch} has {tasks} tasks and {events} events:\n{shown}")
        part = explained.split(f"batch {batch}: ")[1].split("batch ")[0]
        counts = [int(n) for n in re.findall(r"(?m)^(?:dependences|implied waits|fusion) .* (\d+) events$", part)]
        if len(counts) != 3 or counts != sorted(counts, reverse=True) or counts[0] == counts[1]:
            faults.append(f"batch {batch}, events after the first passes: {counts}\n{part}")
        if not re.search(rf"(?m)^linearisation +{tasks} tasks +{events} events$", part):
            faults.append(f"batch {batch} is told to have other tasks and events:\n{part}")
    told = re.findall(r"(?m)^  attention(?:\.\d+| × (\d+)): \d+ tasks; wait for .*, trigger ", shown)
    if sum(int(count or 1) for count in told) != 16 * len(file["plans"]):
        faults.append(f"attention of 16 layers for each batch: {told} in\n{shown}")
    drawing = alone(strata, "show", "p.json", "--format", "svg", cwd=folder)
    if drawing != (ROOT / "docs" / "decode-layer.svg").read_text():
        faults.append("the drawing is not that of docs/megakernel.md")
    for options in (["--batch", "5"], ["--layer", "7"]):
        other = alone(strata, "show", "p.json", "--format", "svg", *options, cwd=folder)
        if other == drawing or "attention" not in other:
            faults.append(f"the drawing with {options} is {other[:200]}")
    # Tasks just in time, on other workers.
    alone(strata, "decode", "--config", "tiny.json", "--plan", "small.json", "--workers", "6", "--just-in-time", "all",
          "--capacity", "32", cwd=folder)
    small = alone(strata, "show", "small.json", cwd=folder)
    if "; 6 workers, 16 schedulers" not in small or "just in time; wait for" not in small:
        faults.append(f"tasks just in time: {small}")
    (folder / "later.json").write_text(json.dumps(file | {"version": 2}))
    (folder / "array.json").write_text('{"plans": 3}')
    for words, *parts in (("show later.json", "version 2 is not read, 1 is", "make the plan again"),
                          ("show array.json", "'version' is missing"),
                          ("show p.json --format html", "plans are shown as text or svg", "--format svg"),
                          ("show p.json --layer 1", "say what is drawn", "add --format svg"),
                          ("show p.json --format svg --batch 17", "no plan of llama-3.2-1b is for 17 sequences")):
        faults += check(strata, folder, words, BAD_INPUT, parts)
    return faults


def main():
    strata = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = str(pathlib.Path(name, "cache"))
        os.environ["STRATA_CUDA_DRIVER"] = "/nowhere/libcuda.so.1"  # on machines with a GPU, too
        folder = pathlib.Path(name)
        for file, contents in FILES.items():
            (folder / file).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        faults = mistakes(strata, folder) + answers(strata, folder) + traces(strata, folder) + plans(strata, folder)
    print("\n".join(faults))
    print(f"{len(LARGE) + len(OTHER)} mistakes, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
