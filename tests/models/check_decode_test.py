#!/usr/bin/env python3
"""tests/gpu/check_decode.py without a GPU: check_decode_test.py STRATA [host-kernel].

Its reference beside the NumPy models of decode_test.py, its rule for ties beside the definition, and whole runs: by the
interpreter, with programs that make mistakes in its place, and with one that stands for compute-sanitizer. With
host-kernel, the parts that judge tokens run on the device code instead."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

STRATA, *WHICH = sys.argv[1:]
FOLDER = pathlib.Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(FOLDER / "gpu"), str(FOLDER / "models")]
import check_decode  # noqa: E402
import decode_reference as reference  # noqa: E402
import decode_test as oracle  # noqa: E402

SMALL = ["--model", "tiny", "--tokens", "16", "--longest-prompt", "20", "--batch", "3", "--reference", "numpy"]

# Stands for the program on a GPU: the interpreter decodes, and `change` is done to the tokens [sequence][step].
PROGRAM = """#!{python}
import ctypes, json, pathlib, subprocess, sys, time
arguments = sys.argv[1:]
if arguments == ["--version"]:
    sys.exit(print("strata of a test"))
state = pathlib.Path({state!r})
run = int(state.read_text()) if state.exists() else 0
state.write_text(str(run + 1))
for option in ("--mode", "--cache"):  # the interpreter has neither
    if option in arguments:
        at = arguments.index(option)
        del arguments[at:at + 2]
arguments = ["host" if a == "gpu" else a for a in arguments]
# It ends with this program (PR_SET_PDEATHSIG), which is killed where a run takes too long.
done = subprocess.run([{strata!r}, *arguments], capture_output=True, text=True,
                      preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9))
if done.returncode != 0:
    sys.exit(done.stderr)
tokens = json.loads(done.stdout)["tokens"]
{change}
print(json.dumps({{"device": "a GPU of a test", "tokens": tokens}}))
"""

SANITIZER = """#!{python}
import pathlib, subprocess, sys
tool, log = sys.argv[2], pathlib.Path(sys.argv[4])
assert sys.argv[1:6:2] == ["--tool", "--log-file", "--print-limit"]
logs = {logs!r}
log.write_text(logs.get(tool, "========= ERROR SUMMARY: 0 errors\\n"))
sys.exit(subprocess.run(sys.argv[7:]).returncode)
"""


class Reference(unittest.TestCase):
    def test_logits_are_those_of_the_models(self):
        random = np.random.default_rng(1)
        for name, config in oracle.CONFIGS.items():
            bits = reference.draw_weights(config, 3)
            self.assertEqual({n: b.shape for n, b in bits.items()}, oracle.shapes(config))
            tokens = random.integers(0, config["vocab_size"], 30).tolist()
            expected = oracle.logits_of(config, {n: oracle.from_bf16(b) for n, b in bits.items()}, tokens)
            model = reference.Reference(config, bits, reference.NumpyArrays())
            found, rounded = model.logits(tokens), model.logits(tokens, rounded=True)
            self.assertLess(np.abs(found - expected).max(), 1e-5 * np.abs(expected).max(), name)
            self.assertTrue(np.allclose(model.logits(tokens, 12), found[12:], atol=1e-5), name)
            # Half of the distance between neighbours of bfloat16 at 1, and not much more than a few of them.
            self.assertGreater(reference.bf16_error(expected, rounded), 2 ** -9, name)
            self.assertLess(reference.bf16_error(expected, rounded), 0.1, name)

    def test_files_and_roundings(self):
        random = np.random.default_rng(2)
        values = (random.standard_normal(1000) * 10.0 ** random.integers(-30, 30, 1000)).astype(np.float32)
        self.assertTrue(np.array_equal(reference.to_bf16(values), oracle.to_bf16(values)))
        bits = reference.draw_weights(oracle.QWEN, 4)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.safetensors"
            reference.write_safetensors(path, bits)
            read = oracle.read_safetensors(path)
        self.assertEqual(list(read), list(bits))
        for name, one in bits.items():
            self.assertTrue(np.array_equal(read[name], one), name)

    def test_error_is_that_of_the_best_tokens(self):
        exact, rounded = np.arange(40.0)[None].repeat(3, 0), np.arange(40.0)[None].repeat(3, 0)
        rounded[1, 39], rounded[2, 0] = 39.5, 7  # the other is far from the best
        self.assertEqual(reference.bf16_error(exact, rounded), 0.5)
        rounded[2, 0] = 60  # and now it is not
        self.assertEqual(reference.bf16_error(exact, rounded), 60)


class Rule(unittest.TestCase):
    def test_each_case(self):
        clear, tie = [0.0, 1.0, 3.0], [0.0, 2.9, 3.0]
        judge = lambda rows, tokens: reference.judge(np.array(rows), tokens, 0.1)
        gap = judge([tie], [2]).first_tie_gap
        self.assertEqual(judge([clear, tie], [2, 2]), reference.Verdict(2, 1, 1, gap, None, None))
        self.assertAlmostEqual(judge([clear, tie], [2, 1]).first_tie_gap, 0.1)
        self.assertTrue(judge([tie, clear], [1, 2]).right())
        self.assertEqual(judge([clear, clear], [2, 1]).mismatch, 1)
        self.assertEqual(judge([clear, clear], [2, 1]).mismatch_gap, 2)
        self.assertEqual(judge([tie, tie], [0, 1]).mismatch, 0)  # a tie of two others explains nothing
        self.assertEqual(judge([[0.0, np.nan, 1.0]], [1]).mismatch, 0)
        with self.assertRaises(ValueError):
            judge([clear], [2, 2])

    def test_random_logits(self):
        random = np.random.default_rng(3)
        for _ in range(300):
            rows, error = random.standard_normal((6, 5)), random.uniform(0, 0.4)
            tokens = [int(random.choice(np.argsort(row)[-3:])) for row in rows]
            ordered = [sorted(row, reverse=True) for row in rows]
            ties = [n for n, row in enumerate(ordered) if row[0] - row[1] < 2 * error]
            wrong = [n for n, (row, token) in enumerate(zip(rows, tokens))
                     if row[token] != max(row) and max(row) - row[token] >= 2 * error]
            found = reference.judge(rows, tokens, error)
            self.assertEqual((found.clear, found.first_tie, found.mismatch),
                             (6 - len(ties), next(iter(ties), None), next(iter(wrong), None)))

    def test_first_difference(self):
        self.assertIsNone(reference.first_difference([1, 2], [1, 2]))
        self.assertEqual(reference.first_difference([1, 2, 3], [1, 4, 3]), 1)
        self.assertEqual(reference.first_difference([1, 2, 3], [1, 2]), 2)

    def test_summaries(self):
        self.assertEqual(check_decode.sanitizer_errors("========= ERROR SUMMARY: 12 errors\n"), 12)
        self.assertEqual(check_decode.sanitizer_errors("========= ERROR SUMMARY: 1 error\n"), 1)
        self.assertEqual(check_decode.sanitizer_errors(
            "========= RACECHECK SUMMARY: 3 hazards displayed (0 errors, 3 warnings)\n"), 3)
        self.assertIsNone(check_decode.sanitizer_errors("========= COMPUTE-SANITIZER\n"))


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, text, **values):
        path = self.folder / name
        path.write_text(text.format(python=sys.executable, **values), encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def gpu(self, change=""):
        (self.folder / "state").unlink(missing_ok=True)
        return self.program("strata", PROGRAM, state=str(self.folder / "state"), strata=STRATA, change=change)

    def check(self, status, strata, *arguments):
        path = self.folder / "results.json"
        command = [sys.executable, "-B", str(FOLDER / "gpu" / "check_decode.py"), strata, "--json", str(path), *SMALL,
                   *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(path.read_text(encoding="utf-8"))

    def fails(self, change, part, words, *arguments):
        results = self.check(1, self.gpu(change), "--part", part, *arguments)
        self.assertEqual([row["status"] for row in results["rows"]], ["failed"])
        self.assertIn(words, results["rows"][0]["text"])
        return results["rows"][0]

    def test_interpreter(self):
        results = self.check(2, STRATA, "--device", "host", "--steps", 100, "--starts", 3)
        self.assertEqual([(row["part"], row["status"]) for row in results["rows"]],
                         [(part, "not run" if part == "sanitizer" else "passed") for part in check_decode.PARTS])
        row = results["rows"][0]
        self.assertEqual([one["steps"] for one in row["sequences"].values()], [16, 16])
        self.assertGreater(sum(one["clear"] for one in row["sequences"].values()), 16)
        self.assertEqual(results["rows"][2]["first_differences"], [None, None, None])
        self.assertEqual(results["rows"][3]["steps"], 100)

    def test_forms(self):
        results = self.check(0, self.gpu(), "--part", "reference", "twice", "--mode", "megakernel", "graph")
        self.assertEqual([row["mode"] for row in results["rows"]], ["megakernel"] * 2 + ["graph"] * 2)
        self.assertIn("megakernel, graph, second run", results["rows"][3]["text"])
        self.assertEqual(results["device"], "a GPU of a test")

    def test_mistakes(self):
        wrong = "tokens[-1][9] = (tokens[-1][9] + 1) % 256"
        self.assertEqual(self.fails(wrong, "reference", "below the best")["sequences"]["prompt of 4"]["mismatch"], 9)
        self.fails(f"if len(tokens) > 1: {wrong}", "batches", "in the batch 2: step 9")
        self.fails("if run == 1: tokens[0][15] ^= 1", "twice", "another token at step 15")
        self.fails("if run == 2: tokens[0][15] ^= 1", "starts", "start 2: other tokens", "--starts", 4)
        self.fails("tokens[0].pop()", "steps", "99 tokens instead of 100", "--steps", 100)
        self.fails("tokens[0][0] = 256", "reference", "not of the vocabulary")
        self.fails("tokens.append([])", "reference", "2 sequences instead of 1")
        self.fails("sys.exit('error: a watchdog')", "reference", "a watchdog")
        self.fails("time.sleep(60)", "steps", "no end after 1 s", "--steps", 10, "--steps-seconds", 1)

    def test_time_is_up(self):
        results = self.check(2, self.gpu("time.sleep(60)"), "--part", "steps", "starts", "--limit-seconds", 1)
        self.assertEqual([row["status"] for row in results["rows"]], ["not run"] * 2)

    def sanitizer(self, status, change="", **logs):
        program = self.program("sanitizer", SANITIZER, logs=logs)
        return self.check(status, self.gpu(change), "--part", "sanitizer", "--sanitizer", program)["rows"][0]

    def test_sanitizer(self):
        racecheck = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
        row = self.sanitizer(0, racecheck=racecheck)
        self.assertEqual([one["errors"] for one in row["tools"].values()], [0] * len(check_decode.TOOLS))
        unsupported = "========= Error: Device not supported\n"
        row = self.sanitizer(1, racecheck=racecheck.replace("0", "2"), memcheck=unsupported)
        self.assertEqual([one["status"] for one in row["tools"].values()], ["not run", "failed", "passed", "passed"])
        self.assertEqual(row["tools"]["racecheck"]["errors"], 2)
        row = self.sanitizer(2, synccheck="========= COMPUTE-SANITIZER\n")
        self.assertEqual(row["tools"]["synccheck"]["status"], "not run")
        row = self.sanitizer(1, "if run == 1: tokens[0][0] ^= 1")
        self.assertIn("memcheck: 0 errors, but other tokens", row["text"])

    def test_no_sanitizer(self):
        row = self.check(2, self.gpu(), "--part", "sanitizer", "--sanitizer", self.folder / "none")["rows"][0]
        self.assertIn("is not installed", row["text"])


class HostKernel(Script):
    def test_device_code(self):
        self.check(0, STRATA, "--device", "host-kernel", "--part", "reference", "twice", "batches", "--batch", 2)


def load_tests(loader, _, __):
    if WHICH == ["host-kernel"]:
        return unittest.TestSuite([HostKernel("test_device_code")])
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in (Reference, Rule, Script))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
