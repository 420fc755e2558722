#!/usr/bin/env python3
"""Results of `strata optimize` that signals, full disks and closed streams must not cost, and what an interrupted
`strata decode` must not leave. Usage: ... STRATA"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

GUARD = 300  # seconds, for what hangs
FILES = ("best.strata", "best.cu", "best.launch.json", "report.json", "report.html")

PROGRAM = """graph small {
  input A: f16[64, 64]
  input B: f16[64, 64]
  C = sqr(A)
  D = matmul(C, B)
  E = add(D, A)
  output E
}
"""


def missing(folder):
    return [name for name in FILES if not (folder / name).exists()]


def run(strata, folder, *arguments, **streams):
    command = [strata, "optimize", str(folder / "small.strata"), "--target", "sm_90a", "--no-cache", *arguments]
    return subprocess.run(command, cwd=folder, timeout=GUARD, check=False, **streams)


def places(strata, folder):
    """What cannot be written is noticed before the search."""
    faults = []
    nowhere = "/proc/self/fdinfo"  # a folder in which nobody, root included, can make files
    for name, options, said in [
        ("-o", ["-o", nowhere], "cannot write to the folder"),
        ("-o below", ["-o", nowhere + "/out"], "cannot make the folder"),
        ("--checkpoint", ["-o", "out", "--checkpoint", nowhere + "/c"], "cannot write to the folder"),
        ("--checkpoint below", ["-o", "out", "--checkpoint", nowhere + "/below/c"], "cannot make the folder"),
        ("--checkpoint, a folder", ["-o", "out", "--checkpoint", "."], "it is a folder"),
    ]:
        result = run(strata, folder, *options, "--dump-after", "search", stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT, text=True)
        if result.returncode != 3 or said not in result.stdout or "# after search" in result.stdout:
            faults.append(f"{name}: exit code {result.returncode}\n{result.stdout}")
    result = run(strata, folder, "-o", "made/out", "--checkpoint", "made/too/c", stdout=subprocess.DEVNULL)
    if result.returncode != 0 or missing(folder / "made/out") or not list((folder / "made/too").iterdir()):
        faults.append(f"folders that are missing are not made: exit code {result.returncode}")
    return faults


def streams(strata, folder):
    """Messages and progress that cannot be printed cost no file; a result that cannot is an error."""
    faults = []
    with open("/dev/full", "wb") as full:
        for name, code, given in [
            ("full stderr", 0, {"stdout": subprocess.DEVNULL, "stderr": full}),
            ("closed stderr", 0, {"stdout": subprocess.DEVNULL, "preexec_fn": lambda: os.close(2)}),
            ("closed stdin and stderr", 0, {"stdout": subprocess.DEVNULL,
                                            "preexec_fn": lambda: (os.close(0), os.close(2))}),
            ("full stdout", 3, {"stdout": full, "stderr": subprocess.DEVNULL}),
            ("closed stdout", 3, {"stderr": subprocess.DEVNULL, "preexec_fn": lambda: os.close(1)}),
        ]:
            out = folder / name.replace(" ", "-")
            result = run(strata, folder, "-o", str(out), "--dump-after", "all", **given)
            lost = missing(out)
            if result.returncode != code or lost:
                faults.append(f"{name}: exit code {result.returncode}, not written: {', '.join(lost) or 'nothing'}")
            for path in out.iterdir() if out.exists() else []:
                if b"# after" in path.read_bytes():
                    faults.append(f"{name}: messages went into {path.name}")
    return faults


def signals(strata, folder):
    """The first signal ends it with the best so far, and says so in the exit code."""
    faults = []
    for number in (signal.SIGINT, signal.SIGTERM):
        out = folder / f"signal-{number}"
        command = [strata, "optimize", "programs/gqa.strata", "--target", "sm_90a", "--no-cache", "--time-limit", "0",
                   "-o", str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            begun = time.monotonic()
            # The folder is made after signals are waited for.
            while not out.exists() and process.poll() is None and time.monotonic() - begun < GUARD:
                time.sleep(0.01)
            process.send_signal(number)
            try:
                printed = process.communicate(timeout=GUARD)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                printed = process.communicate()[0] + "\n(killed)"
        lost = missing(out)
        if process.returncode != 128 + number or lost or "search: interrupted" not in printed:
            faults.append(f"signal {number}: exit code {process.returncode}, not written: {', '.join(lost)}\n{printed}")
    return faults


TINY = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 64, "vocab_size": 128, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "max_position_embeddings": 100000}


def decoding(strata, folder):
    """An interrupt leaves no temporary file, whether it comes while the device code is compiled or after that. From
    the first token on, it ends with the tokens so far, one line, and says so in the exit code."""
    faults = []
    (folder / "tiny.json").write_text(json.dumps(TINY))
    temporary = folder / "temporary"
    temporary.mkdir()
    command = [strata, "decode", "--config", str(folder / "tiny.json"), "--prompt-ids", "1", "--tokens", "90000",
               "--ignore-eos", "--device"]
    by_kernel = [*command, "host-kernel"]
    for moment in ("while it compiles", "while it decodes"):
        with subprocess.Popen(by_kernel, env=os.environ | {"TMPDIR": str(temporary)}, start_new_session=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            begun, first = time.monotonic(), ""
            if moment == "while it decodes":
                first = process.stdout.read(1)  # of a token, which comes long before the last one
            while not first and process.poll() is None and time.monotonic() - begun < GUARD:
                if list(temporary.glob("strata-fibers-*/program.cpp")):
                    break
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            try:
                printed = first + process.communicate(timeout=GUARD)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                printed = first + process.communicate()[0] + "\n(killed)"
        left = [path.name for path in temporary.iterdir() if path.name.startswith("strata-")]
        expected = 128 + signal.SIGINT if first else -signal.SIGINT
        if process.returncode != expected or left:
            faults.append(f"decode, {moment}: exit code {process.returncode}, left {left}\n{printed[-400:]}")
    faults += stops(by_kernel, signal.SIGTERM, ["--prompt-ids", "2,3"]) + orphans(by_kernel)
    return faults + stops([*command, "host"], signal.SIGINT, [])


def stops(command, number, prompts):
    """Tokens come as they are made, and those so far are all there after a signal: a line for each prompt."""
    with subprocess.Popen([*command, *prompts], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        first = process.stdout.read(4)
        os.killpg(process.pid, number)
        try:
            printed, said = process.communicate(timeout=GUARD)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, said = process.communicate()
    lengths = [len(row.split()) for row in (first + printed).splitlines()]
    if process.returncode == 128 + number and len(lengths) == 1 + bool(prompts) and all(
            0 < length < 90000 for length in lengths):
        return []
    return [f"{' '.join([*command, *prompts])}, signal {number}: exit code {process.returncode}, {lengths} tokens\n"
            f"{said[-400:]}"]


def living(group):
    """Processes of a group, but for those that nobody has waited for."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = path.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(path.parent.name)
    return found


def orphans(command):
    """What runs for a process that is ended at once ends with it."""
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as process:
        process.stdout.read(1)
        before = living(process.pid)
        process.kill()
    begun = time.monotonic()
    while living(process.pid) and time.monotonic() - begun < GUARD:
        time.sleep(0.05)
    left = living(process.pid)
    if left:
        os.killpg(process.pid, signal.SIGKILL)
    return [f"decode, killed: of {before}, {left} run on"] if left or len(before) < 2 else []


def main():
    strata = str(pathlib.Path(sys.argv[1]).resolve())
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "small.strata").write_text(PROGRAM)
        faults = places(strata, folder) + streams(strata, folder) + signals(strata, folder) + decoding(strata, folder)
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
