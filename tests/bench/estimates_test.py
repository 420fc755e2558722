#!/usr/bin/env python3
"""bench/gpu/estimates.py on the driver of tests/fake_cuda: estimates_test.py STRATA FAKE_DRIVER."""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

STRATA, FAKE_DRIVER = sys.argv[1:3]
TOOL = pathlib.Path(__file__).parents[2] / "bench" / "gpu" / "estimates.py"


def load():
    spec = importlib.util.spec_from_file_location("estimates", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


class Estimates(unittest.TestCase):
    def setUp(self):
        self.tool = load()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tool(self, *arguments, code=0):
        script = self.folder / "script"
        script.write_text("time 3\n", encoding="utf-8")
        environment = {**os.environ, "STRATA_CUDA_DRIVER": FAKE_DRIVER, "STRATA_FAKE_CUDA_SCRIPT": str(script)}
        done = subprocess.run([sys.executable, "-B", str(TOOL), *map(str, arguments)], capture_output=True, text=True,
                              env=environment, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_spearman(self):
        self.assertEqual(self.tool.ranks([3, 1, 3, 2]), [2.5, 0, 2.5, 1])
        self.assertAlmostEqual(self.tool.spearman([(1, 10), (2, 20), (3, 400)]), 1)
        self.assertAlmostEqual(self.tool.spearman([(1, 3), (2, 2), (3, 1)]), -1)
        self.assertIsNone(self.tool.spearman([(1, 3), (1, 2)]))
        draw = random.Random(1)
        pairs = [(draw.random(), draw.random()) for _ in range(500)]
        self.assertLess(abs(self.tool.spearman(pairs)), 0.15)

    def test_modules_have_kernels(self):
        self.run_tool("--hlo", self.folder, "--rows", 4, "--seed", 7)
        modules = sorted(self.folder.glob("*.hlo"))
        self.assertEqual(len(modules), 16)
        for module in modules:
            done = subprocess.run([STRATA, "emit", str(module), "--explain", "--no-cache"], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{module.read_text()}\n{done.stderr}")
            self.assertNotIn("interpreter", done.stdout)

    def test_rows_have_both_times(self):
        results = self.folder / "results.json"
        done = self.run_tool(STRATA, "--rows", 2, "--programs", "--families", "rows", "--results", results)
        self.assertIn("rows                    emitters         2", done.stdout)
        rows = json.loads(results.read_text(encoding="utf-8"))["programs"][0]["rows"]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertGreater(row["estimated_us"], 0)
            self.assertAlmostEqual(row["measured_us"] % 3, 0)  # so many kernels of 3 µs
        self.assertEqual(self.run_tool("--summary", results).stdout, done.stdout)

    def test_too_few_rows_are_an_error(self):
        program = self.folder / "small.strata"
        program.write_text("graph small {\n  input A: f64[16, 64]\n  B = sqr(A)\n  output B\n}\n", encoding="utf-8")
        # The fake's kernels write nothing, so that no row is right.
        done = self.run_tool(STRATA, "--rows", 2, "--programs", program, "--families", "--profile-seconds", 1, code=1)
        self.assertIn("small: 0 rows, fewer than 2", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
