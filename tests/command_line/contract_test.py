#!/usr/bin/env python3
"""What docs/command-line.md promises of every subcommand: exit codes, --quiet, --json, colour on a terminal alone.
Usage: contract_test.py STRATA SOURCE"""
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

SUCCESS, BAD_INPUT, ENVIRONMENT = 0, 2, 3
ESCAPE = b"\x1b"

MODEL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 96,
         "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 128,
         "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True, "max_position_embeddings": 64,
         "hidden_act": "silu", "attention_bias": False, "eos_token_id": 0, "torch_dtype": "bfloat16"}

SMALL = "graph small {\n  input A: f16[16, 64]\n  B = sqr(A)\n  C = exp(B)\n  output C\n}\n"
NEGATE = "HloModule m\nENTRY f {\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] negate(x)\n}\n"

# A run of each subcommand that succeeds on a machine without a GPU, and one that lacks something; None: there is none.
RUNS = {
    "optimize": ("optimize small.strata -o made --no-cache --time-limit 20", "optimize missing.strata"),
    "verify": ("verify small.strata small.strata", "verify missing.strata small.strata"),
    "run": ("run small.strata", "run missing.strata"),
    "show": ("show small.strata", "show missing.strata"),
    "merge": ("merge merged shard.0 shard.1", "merge merged missing"),
    "ops": ("ops", None),
    "emit": ("emit negate.hlo", "emit missing.hlo"),
    "machine": ("machine --target sm_90a --no-cache", None),
    "calibrate": (None, "calibrate"),
    "decode": ("decode --config model.json --prompt-ids 3,17 --tokens 2 --device host",
               "decode --config missing.json --prompt-ids 1"),
    "doctor": ("doctor", None),
    "bench": (None, "bench --programs nowhere"),
    "explain": ("explain made", "explain missing.json"),
    "completions": ("completions bash", None),
}
# What is printed of these has times, which differ from run to run.
WITH_TIMES = {"optimize"}


def run(*words, **more):
    return subprocess.run([STRATA, *words], cwd=FOLDER.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=900, check=False, **more)


def on_terminal(*words, **environment):
    """What a command prints to a terminal, both streams together."""
    leader, follower = pty.openpty()
    child = subprocess.Popen([STRATA, *words], cwd=FOLDER.name, stdin=subprocess.DEVNULL, stdout=follower,
                             stderr=follower, env={**os.environ, "TERM": "xterm", **environment})
    os.close(follower)
    printed = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # how Linux says that nobody writes any more
            break
        if not part:
            break
        printed += part
    os.close(leader)
    child.wait(timeout=900)
    return printed


def setUpModule():
    global FOLDER  # pylint: disable=global-variable-undefined
    FOLDER = tempfile.TemporaryDirectory()
    folder = pathlib.Path(FOLDER.name)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["STRATA_CUDA_DRIVER"] = "/nowhere/libcuda.so.1"
    os.environ.pop("NO_COLOR", None)
    (folder / "small.strata").write_text(SMALL)
    (folder / "negate.hlo").write_text(NEGATE)
    (folder / "model.json").write_text(json.dumps(MODEL))
    for shard in ("0", "1"):
        made = run("optimize", "small.strata", "--shard", f"{shard}/2", "--checkpoint", f"shard.{shard}")
        assert made.returncode == SUCCESS, made.stderr.decode()
    assert run(*RUNS["optimize"][0].split()).returncode == SUCCESS


def tearDownModule():
    FOLDER.cleanup()


class EverySubcommand(unittest.TestCase):
    def test_is_here_and_in_the_document(self):
        listed = re.findall(r"^  ([a-z]+)  ", run("--help").stdout.decode().split("Subcommands:")[1], re.M)
        self.assertEqual(sorted(listed), sorted(RUNS))
        document = (SOURCE / "docs" / "command-line.md").read_text()
        for command in listed:
            self.assertRegex(document, rf"(?m)^\| `{command}[ `]")

    def test_exit_codes(self):
        for command, (good, lacking) in RUNS.items():
            with self.subTest(command):
                if good:
                    made = run(*good.split())
                    self.assertEqual(made.returncode, SUCCESS, made.stderr.decode())
                if lacking:
                    made = run(*lacking.split())
                    self.assertEqual(made.returncode, ENVIRONMENT)
                    self.assertRegex(made.stderr.decode(), r"(?m)^error: .*\n  \S")
                self.assertEqual(run(command, "--nonsense").returncode, BAD_INPUT)
                self.assertEqual(run(command, "--help").returncode, SUCCESS)

    def test_quiet_says_nothing_beside_the_result(self):
        for command, (good, lacking) in RUNS.items():
            with self.subTest(command):
                if good:
                    loud, quiet = run(*good.split()), run(*good.split(), "--quiet")
                    self.assertEqual(quiet.stderr, b"")
                    self.assertEqual(quiet.returncode, SUCCESS)
                    self.assertTrue(quiet.stdout)
                    if command not in WITH_TIMES:
                        self.assertEqual(quiet.stdout, loud.stdout)
                if lacking:  # errors are said all the same
                    self.assertIn(b"error: ", run(*lacking.split(), "-q").stderr)
        # Which there is to silence.
        self.assertIn(b"target sm_90a by default", run(*RUNS["optimize"][0].split()).stderr)

    def test_notes_are_no_part_of_the_result(self):
        chosen = run("run", "negate.hlo", "--device", "auto")
        self.assertEqual(chosen.stdout, run("run", "negate.hlo").stdout)
        self.assertRegex(chosen.stderr, rb"(?m)^on the CPU: ")

    def test_a_folder_of_optimize_holds_a_graph_for_the_interpreter(self):
        interpreted = run("run", "made", "--interpret")
        self.assertEqual(interpreted.returncode, SUCCESS, interpreted.stderr.decode())
        self.assertEqual(interpreted.stdout, run("run", "made/best.strata").stdout)
        self.assertIn(b"or --interpret to execute its", run("run", "made").stderr)

    def test_json_is_json_and_nothing_else(self):
        with_json = set()
        for command, (good, _) in RUNS.items():
            if "--json" not in run(command, "--help").stdout.decode():
                continue
            with_json.add(command)
            with self.subTest(command):
                made = run(*good.split(), "--json")
                self.assertEqual(made.returncode, SUCCESS, made.stderr.decode())
                self.assertIsInstance(json.loads(made.stdout), dict)
        self.assertLessEqual({"optimize", "machine", "decode", "explain"}, with_json)

    def test_no_colour_without_a_terminal(self):
        for command, runs in RUNS.items():
            for words in filter(None, runs):
                with self.subTest(words):
                    made = run(*words.split(), env={**os.environ, "TERM": "xterm", "CLICOLOR_FORCE": "1"})
                    self.assertNotIn(ESCAPE, made.stdout + made.stderr)


class Terminals(unittest.TestCase):
    def test_colour_where_it_can_be_seen_and_is_wanted(self):
        for words in ("show missing.strata", "explain made"):
            with self.subTest(words):
                self.assertIn(ESCAPE + b"[1", on_terminal(*words.split()))
                plain = on_terminal(*words.split(), NO_COLOR="1")
                self.assertNotIn(ESCAPE, plain)
                self.assertNotIn(ESCAPE, on_terminal(*words.split(), TERM="dumb"))
                self.assertIn(ESCAPE, on_terminal(*words.split(), NO_COLOR=""))  # as no-color.org says
                coloured = re.sub(rb"\x1b\[[\d;]*m", b"", on_terminal(*words.split()))
                self.assertEqual(coloured, plain)

    def test_progress_is_cut_by_quiet(self):
        self.assertNotIn(b"\r\x1b", on_terminal(*RUNS["optimize"][0].split(), "--quiet").replace(b"\r\n", b"\n"))


if __name__ == "__main__":
    STRATA, SOURCE = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
