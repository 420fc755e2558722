"""The command line of the package: what the executable has, in Python's process."""

import array
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
EXECUTABLE = str(BUILD / "bin" / "strata")
PACKAGE = [sys.executable, "-m", "strata"]
COMMANDS = ["optimize", "verify", "run", "show", "merge", "ops", "emit", "machine", "calibrate", "decode", "doctor",
            "bench", "explain", "completions"]  # fmt: skip
GUARD = 300  # seconds, for what hangs

SMALL = "graph small {\n  input A: f16[16, 64]\n  B = sqr(A)\n  C = exp(B)\n  output C\n}\n"
NEGATE = "HloModule m\nENTRY f {\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] negate(x)\n}\n"


@pytest.fixture(name="folder")
def _folder(tmp_path, monkeypatch):
    """A folder with programs, where commands run. There is no GPU, and nothing of other tests in the cache."""
    monkeypatch.setenv("PYTHONPATH", str(BUILD / "python"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("STRATA_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.strata").write_text(SMALL, encoding="utf-8")
    (tmp_path / "negate.hlo").write_text(NEGATE, encoding="utf-8")
    return tmp_path


def run(words, program=None, **more):
    return subprocess.run([*(program or PACKAGE), *words.split()], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=GUARD, check=False, **more)


def started(words, **more):
    return subprocess.Popen([*PACKAGE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("words", ["--help", *(f"{command} --help" for command in COMMANDS),
                                   "completions bash", "completions zsh", "completions fish", "ops"])
def test_it_prints_what_the_executable_does(folder, words):
    made, expected = run(words), run(words, [EXECUTABLE])
    assert (made.returncode, made.stdout, made.stderr) == (0, expected.stdout, "")


def test_all_commands_of_the_executable_are_looked_at(folder):
    listed = re.findall(r"^  ([a-z]+)  ", run("--help", [EXECUTABLE]).stdout.split("Subcommands:")[1], re.M)
    assert sorted(listed) == sorted(COMMANDS)


def test_a_program_is_optimized_and_what_was_written_can_be_used(folder):
    made = run("optimize small.strata -o made --no-cache --time-limit 20")
    assert made.returncode == 0 and "written: made/best.strata" in made.stdout, made.stderr
    assert run("show made/best.strata").stdout == (folder / "made/best.strata").read_text(encoding="utf-8")
    assert run("verify small.strata made/best.strata").returncode == 0
    assert "small" in run("explain made").stdout
    ran = run("run made/best.strata --output results")
    assert ran.returncode == 0 and (folder / "results/C.npy").exists(), ran.stderr


def test_a_module_is_emitted_and_run(folder):
    assert run("emit negate.hlo --no-cache --output kernels").returncode == 0
    assert json.loads((folder / "kernels/report.json").read_text(encoding="utf-8"))["kind"] == "module"
    ran = run("run negate.hlo --device cpu --check --no-cache")
    assert ran.returncode == 0 and "agrees with the interpreter" in ran.stdout, ran.stderr


@pytest.mark.parametrize("words", ["optimize small.strata -o made --no-cache --time-limit 20 --json",
                                   "machine --target sm_90a --no-cache --json"])
def test_json_is_all_that_is_printed(folder, words):
    assert isinstance(json.loads(run(words).stdout), dict)


@pytest.mark.parametrize("words, code, said", [
    ("", 2, "a subcommand is required"),
    ("optimise small.strata", 2, "no subcommand is named 'optimise'; did you mean 'optimize'?"),
    ("show", 2, "error: "),
    ("ops --nonsense", 2, "ops has no option '--nonsense'"),
    ("show missing.strata", 3, "missing.strata"),
    ("calibrate", 3, "error: "),
])  # fmt: skip
def test_mistakes_are_those_of_the_executable(folder, words, code, said):
    made, expected = run(words), run(words, [EXECUTABLE])
    assert (made.returncode, made.stdout, made.stderr) == (expected.returncode, "", expected.stderr)
    assert made.returncode == code and said in made.stderr


def test_words_that_are_no_text_name_files(folder):
    name = b"\xff.strata"
    (folder / os.fsdecode(name)).write_text(SMALL, encoding="utf-8")
    shown = subprocess.run([*PACKAGE, "show", name], capture_output=True, timeout=GUARD, check=False)
    assert shown.returncode == 0 and b"sqr" in shown.stdout


def test_doctor_lists_the_packages_too(folder):
    said, machine = run("doctor").stdout, run("doctor", [EXECUTABLE]).stdout
    # Each begins with the identity of its own build.
    first = [line for line in machine.splitlines()[1:] if not line.startswith(" ")]
    all_of_it = [line for line in said.splitlines()[1:] if not line.startswith(" ")]
    assert all_of_it[: len(first)] == first
    assert [line.split()[0] for line in all_of_it[len(first) :]] == [
        "Python", "torch", "jax", "cupy", "numpy", "ml_dtypes"]  # fmt: skip
    assert sys.executable in said


def test_the_version_is_the_extensions(folder):
    identity = run("", [sys.executable, "-c", "from strata import _core; print(_core.build_identity())"]).stdout
    assert run("--version").stdout == identity


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_search_with_the_best_so_far(folder, number):
    out = folder / "out"
    program = str(ROOT / "programs" / "gqa.strata")
    process = started(["optimize", program, "--target", "sm_90a", "--no-cache", "--time-limit", "0", "-o", str(out)])
    begun = time.monotonic()
    while not out.exists() and process.poll() is None and time.monotonic() - begun < GUARD:
        time.sleep(0.01)  # the folder is made after signals are waited for
    process.send_signal(number)
    printed, said = process.communicate(timeout=GUARD)
    assert process.returncode == 128 + number, said
    assert "search: interrupted" in printed and (out / "best.strata").exists() and (out / "report.json").exists()


def test_a_signal_ends_what_has_no_best_so_far(folder):
    process = started(["show", "-"], stdin=subprocess.PIPE)
    process.stdin.write("graph")
    process.stdin.flush()
    begun, unread = time.monotonic(), array.array("i", [1])
    while unread[0] > 0 and time.monotonic() - begun < GUARD:
        time.sleep(0.01)
        fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=GUARD)
    assert (process.returncode, printed, said) == (-signal.SIGINT, "", "")


def test_nobody_reads_on(folder):
    with started(["completions", "bash"]) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGPIPE


@pytest.mark.parametrize("stream", ["full", "closed"])
def test_what_cannot_be_printed_is_an_error(folder, stream):
    def close():
        os.close(1)

    with open("/dev/full", "wb") as full:
        given = {"stdout": full} if stream == "full" else {"preexec_fn": close}
        done = subprocess.run([*PACKAGE, "ops"], stderr=subprocess.PIPE, text=True, timeout=GUARD, check=False, **given)
    assert done.returncode == 3 and "cannot write to the standard output" in done.stderr


IN_PROCESS = """
import os, signal, sys
from strata import command_line
print("before")
before = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, [])
assert command_line.run(["optimize", "small.strata", "-q", "--no-cache", "--time-limit", "20"]) == 0
assert command_line.run(["show", "missing.strata"]) == 3
print("after")
assert (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, [])) == before
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True: pass
except KeyboardInterrupt:
    pass
try:
    read, write = os.pipe()
    os.close(read)
    os.write(write, b"x")
except BrokenPipeError:
    print("as before")
"""


def test_python_gets_its_signals_and_streams_back(folder):
    done = run("", [sys.executable, "-c", IN_PROCESS])
    assert done.returncode == 0, done.stderr
    assert re.fullmatch("before\n(.*\n)+after\nas before\n", done.stdout)
    assert "missing.strata" in done.stderr  # --quiet was of the command before


def test_candidates_are_measured_by_another_process_of_the_package(folder, monkeypatch):
    """On a driver that runs nothing (tests/fake_cuda)."""
    (folder / "script").write_text("time 3\n", encoding="utf-8")
    monkeypatch.setenv("STRATA_CUDA_DRIVER", str(BUILD / "lib" / "libfake_cuda.so"))
    monkeypatch.setenv("STRATA_FAKE_CUDA_SCRIPT", str(folder / "script"))
    made = run("optimize small.strata -o made --no-cache --time-limit 20 --profile-seconds 5")
    assert made.returncode == 0, made.stderr
    profile = json.loads((folder / "made/report.json").read_text(encoding="utf-8"))["profile"]
    assert profile["measured"] and any(row["verdict"] not in ("failed", "not measured") for row in profile["rows"])
