#!/usr/bin/env python3
"""The promises of docs/security.md that only whole runs of the program show.

usage: security_test.py STRATA PLANTED FAKE_DRIVER [TEST...]
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

STRATA, PLANTED, FAKE_DRIVER = [pathlib.Path(argument).resolve() for argument in sys.argv[1:4]]

PROGRAM = """graph small {
  input A: f16[16, 16]
  input B: f16[16, 16]
  C = matmul(A, B)
  D = exp(C)
  output D
}
"""
PARTS = """graph parts {
  input A: f16[64, 64]
  input B: f16[64, 64]
  input C: f16[128, 64]
  D = matmul(A, B)
  E = exp(D)
  F = reshape(E, shape=[32, 128])
  G = matmul(F, C)
  H = sqr(G)
  output H
}
"""
MODULE = "HloModule m\nENTRY f {\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] negate(x)\n}\n"
LIBRARIES = {"cu13": ["libnvrtc.so.13", "libnvJitLink.so.13", "libcublasLt.so.13"], "cudnn": ["libcudnn.so.9"]}
FAST = ["--target", "sm_90a", "--time-limit", "1", "--threads", "2"]
# So small that every program of the tree takes a second or two.
SMALL = [*FAST, "--no-cache", "--candidates", "1", "--max-kernel-ops", "2", "--max-block-ops", "4",
         "--solver-time-limit", "1"]
# It takes most of the time, and has no part in checkpoints and caches.
WITHOUT_COMPILER = {"STRATA_NVRTC": "/nowhere/libnvrtc.so"}
ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLKIT = pathlib.Path("/usr/local/cuda").resolve()


def without_toolkit():
    """What starts a program where /usr/local/cuda is empty: it would be found before anything that is planted."""
    if not TOOLKIT.exists():
        return []
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        words = [*unshare, "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(TOOLKIT)]
        if subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0:
            return words
    print(f"security_test: {TOOLKIT} cannot be hidden here, so what is planted behind it is not found either way")
    return []


HIDDEN = without_toolkit()


def plant(environment):
    """Packages of CUDA's libraries, as a Python environment has them."""
    packages = environment / "lib" / "python3.11" / "site-packages" / "nvidia"
    for package, files in LIBRARIES.items():
        for folder in ("lib", "include"):
            (packages / package / folder).mkdir(parents=True)
        for file in files:
            shutil.copy(PLANTED, packages / package / "lib" / file)
    (packages / "cu13" / "include" / "cuda_fp16.h").write_text("", encoding="utf-8")


class Case(unittest.TestCase):
    before = []  # words of the command

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.mark = self.folder / "mark"
        (self.folder / "small.strata").write_text(PROGRAM, encoding="utf-8")
        (self.folder / "module.hlo").write_text(MODULE, encoding="utf-8")

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if name not in ("STRATA_CUDA_ROOT", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV")}
        return {**kept, "STRATA_PLANTED": str(self.mark), "XDG_CACHE_HOME": str(self.folder / "cache"),
                "STRATA_CUDA_DRIVER": "/nowhere/libcuda.so.1", **more}

    def strata(self, *arguments, at=None, program=STRATA, code=0, **variables):
        """What is printed, to either stream."""
        result = subprocess.run([*self.before, str(program), *map(str, arguments)], cwd=at or self.folder,
                                check=False, timeout=300, env=self.environment(**variables), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        printed = result.stdout.decode("utf-8", "replace")
        if code is not None:
            self.assertEqual(result.returncode, code, printed)
        return printed


class Libraries(Case):
    before = HIDDEN

    def emit(self, at=None, **more):
        return self.strata("emit", self.folder / "module.hlo", "--emit", "cubin", "--output", self.folder / "out",
                           at=at, code=None, **more)

    def run_all(self, at, **more):
        """Every way in which a library is opened: NVRTC, nvJitLink, cuBLASLt and cuDNN, the last two in the process
        that measures."""
        self.strata("optimize", self.folder / "small.strata", "--no-cache", *FAST, "-o", self.folder / "out", at=at,
                    code=None, **more)
        self.emit(at, **more)
        self.strata("measure-worker", at=at, code=None, **{"STRATA_CUDA_DRIVER": str(FAKE_DRIVER), **more})

    def test_nothing_is_loaded_from_where_the_user_stands(self):
        plant(self.folder / ".venv")
        plant(self.folder)
        inner = self.folder / "a" / "b"
        inner.mkdir(parents=True)
        for file in [file for files in LIBRARIES.values() for file in files] + ["libcuda.so.1"]:
            shutil.copy(PLANTED, self.folder / file)
            shutil.copy(PLANTED, inner / file)
        for at in (self.folder, inner):
            self.run_all(at)
            self.run_all(at, VIRTUAL_ENV=".venv", STRATA_CUDA_ROOT=".", PATH=".:" + os.environ["PATH"])
            self.assertFalse(self.mark.exists(), at)

    def test_what_a_variable_names_is_loaded(self):
        """Without this, the other tests would pass if the planted library did nothing."""
        plant(self.folder / "environment")
        root = self.folder / "environment/lib/python3.11/site-packages/nvidia/cu13"
        for variable, value in (("STRATA_NVJITLINK", PLANTED), ("STRATA_NVRTC", PLANTED), ("STRATA_CUDNN", PLANTED),
                                ("STRATA_CUBLAS_LT", PLANTED), ("STRATA_CUDA_DRIVER", PLANTED),
                                ("STRATA_CUDA_ROOT", root), ("CUDA_HOME", root), ("CUDA_PATH", root)):
            self.run_all(self.folder, **{variable: str(value)})
            self.assertTrue(self.mark.exists(), variable)
            self.mark.unlink()

    def test_packages_beside_the_executable_that_others_can_write(self):
        program = self.folder / "build" / "release" / "bin" / "strata"
        program.parent.mkdir(parents=True)
        shutil.copy(STRATA, program)
        plant(self.folder / ".venv")
        for writable in (".venv", ".venv/lib/python3.11/site-packages"):
            (self.folder / writable).chmod(0o777)
            printed = self.emit(program=program, PATH="/usr/bin:/bin")
            self.assertFalse(self.mark.exists(), writable)
            if HIDDEN or not TOOLKIT.exists():
                self.assertIn("is not trusted: others can write", printed)
            (self.folder / writable).chmod(0o755)
        if HIDDEN or not TOOLKIT.exists():
            self.emit(program=program, PATH="/usr/bin:/bin")
            self.assertTrue(self.mark.exists())


class Files(Case):
    def test_runs_at_once_with_one_output(self):
        (self.folder / "out").mkdir()
        runs = [subprocess.Popen([STRATA, "run", "small.strata", "--output", "out"], cwd=self.folder,
                                 env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                for _ in range(60)]
        failed = [errors.decode() for run in runs if (errors := run.communicate(timeout=300)[1]) or run.returncode != 0]
        self.assertEqual(failed, [])
        self.assertEqual([file.name for file in (self.folder / "out").iterdir()], ["D.npy"])

    def test_links_are_not_followed(self):
        (self.folder / "out").mkdir()
        victim = self.folder / "victim"
        victim.write_text("untouched", encoding="utf-8")
        names = ["best.strata", "best.cu", "best.launch.json", "best.sm_80.cubin", "best.sm_90a.cubin", "report.json",
                 "report.html"]
        for name in names + [name + ".writing" for name in names]:
            (self.folder / "out" / name).symlink_to(victim)
        (self.folder / "check.writing").symlink_to(victim)
        (self.folder / "check").symlink_to(self.folder / "nowhere")
        self.strata("optimize", "small.strata", "--no-cache", *FAST, "-o", "out", "--checkpoint", "check")
        self.assertEqual(victim.read_text(encoding="utf-8"), "untouched")
        for name in ("best.strata", "best.cu", "best.launch.json", "report.json", "report.html"):
            self.assertFalse((self.folder / "out" / name).is_symlink(), name)
        json.loads((self.folder / "out" / "report.json").read_text(encoding="utf-8"))


class CheckpointCase(Case):
    """A run that is fresh, one that is interrupted, one that goes on: the file that was named is there, alone."""

    def optimize(self, program, checkpoint, *more):
        return ["optimize", program, *SMALL, "-o", self.folder / "out", "--checkpoint", checkpoint, *more]

    def check(self, program):
        quick = WITHOUT_COMPILER
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        checkpoint = folder / "checkpoint"
        self.strata(*self.optimize(program, checkpoint), **quick)
        self.assertEqual([file.name for file in folder.iterdir()], ["checkpoint"])
        self.strata(*self.optimize(program, checkpoint), **quick)
        checkpoint.unlink()
        run = subprocess.Popen([STRATA, *map(str, self.optimize(program, checkpoint))], cwd=self.folder,
                               env=self.environment(**quick), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        # The file is made before the search, when a signal is already waited for.
        while not checkpoint.exists() and run.poll() is None:
            time.sleep(0.01)
        time.sleep(0.3)
        if run.poll() is None:
            run.send_signal(signal.SIGINT)
        printed, _ = run.communicate(timeout=300)
        # 130: stopped in time, with the best so far written.
        self.assertIn(run.returncode, (0, 130), printed.decode())
        self.assertEqual([file.name for file in folder.iterdir()], ["checkpoint"])
        self.strata(*self.optimize(program, checkpoint), **quick)
        return folder

    def check_shards(self, program, folder):
        quick = WITHOUT_COMPILER
        shards = [folder / "0", folder / "1"]
        for i, shard in enumerate(shards):
            self.strata(*self.optimize(program, shard, "--shard", f"{i}/2"), **quick)
        self.strata("merge", folder / "merged", *shards)
        self.strata(*self.optimize(program, folder / "merged"), **quick)



class Checkpoints(CheckpointCase):
    def test_programs(self):
        # EveryCheckpoint, which is slow, has them all.
        programs = [ROOT / f"programs/{name}.strata" for name in ("gqa", "lora", "rmsnorm")]
        for program in programs:
            with self.subTest(program=program.name):
                self.check(program)

    def test_shards_of_several_parts_are_the_whole(self):
        # No kernel goes across a reshape.
        (self.folder / "parts.strata").write_text(PARTS, encoding="utf-8")
        complete = [*SMALL[:SMALL.index("--time-limit")], "--time-limit", "0", *SMALL[SMALL.index("--threads"):]]
        whole = self.folder / "whole"
        self.strata("optimize", "parts.strata", *complete, "-o", "out")
        best = (self.folder / "out/best.strata").read_text(encoding="utf-8")
        for i in range(2):
            self.strata("optimize", "parts.strata", *complete, "-o", "shard", "--checkpoint", f"shard{i}", "--shard",
                        f"{i}/2")
        self.strata("merge", whole, "shard0", "shard1")
        printed = self.strata("optimize", "parts.strata", *complete, "-o", "merged", "--checkpoint", whole)
        self.assertIn("cut at", printed)
        self.assertEqual((self.folder / "merged/best.strata").read_text(encoding="utf-8"), best)

    def test_damage_is_named(self):
        self.strata(*self.optimize("small.strata", "kept"))
        kept = (self.folder / "kept").read_bytes()
        (self.folder / "kept").write_bytes(kept.replace(b'"result":', b'"resulT":', 1))
        printed = self.strata(*self.optimize("small.strata", "kept"), code=2)
        self.assertIn("checkpoint 'kept' is damaged: its checksum is another one", printed)
        self.assertIn("remove the file", printed)
        (self.folder / "file").write_bytes(b"")
        self.strata(*self.optimize("small.strata", "file/kept"), code=3)


class EveryCheckpoint(CheckpointCase):
    def test_every_program_with_shards(self):
        programs = sorted([*ROOT.glob("programs/*.strata"), *ROOT.glob("programs/bench/*.strata")])
        self.assertGreater(len(programs), 20)
        for program in programs:
            with self.subTest(program=program.name):
                self.check_shards(program, self.check(program))


class Cache(Case):
    def test_a_graph_that_differs_is_neither_returned_nor_printed_as_proved(self):
        arguments = ["optimize", "small.strata", *FAST, "--candidates", "1", "--cache", "cache"]
        fresh = self.strata(*arguments, "-o", "first", **WITHOUT_COMPILER)
        self.assertNotIn("from the cache", fresh)
        self.assertIn("from the cache", self.strata(*arguments, "-o", "second", **WITHOUT_COMPILER))
        with contextlib.closing(sqlite3.connect(self.folder / "cache" / "results.sqlite")) as database:
            rows = database.execute("SELECT key, value FROM results WHERE kind = CAST('part' AS BLOB)").fetchall()
            self.assertTrue(rows)
            for key, value in rows:
                changed = value.replace(b"exp(", b"sqr(")
                self.assertNotEqual(changed, value)
                database.execute("UPDATE results SET value = ? WHERE key = ?", (changed, key))
            database.commit()
        printed = self.strata(*arguments, "-o", "third", **WITHOUT_COMPILER)
        self.assertNotIn("from the cache", printed)
        self.strata("verify", "small.strata", "third/best.strata")

    def test_a_locked_cache_is_a_warning_with_its_remedy(self):
        # Waiting for the lock counts as time of the run.
        patient = ["60" if FAST[i - 1] == "--time-limit" else word for i, word in enumerate(FAST)]
        arguments = ["optimize", "small.strata", *patient, "--candidates", "1", "--cache", "cache"]
        self.strata(*arguments, "-o", "first", **WITHOUT_COMPILER)
        with contextlib.closing(sqlite3.connect(self.folder / "cache" / "results.sqlite")) as database:
            database.execute("BEGIN IMMEDIATE")
            printed = self.strata(*arguments, "-o", "second", **WITHOUT_COMPILER)
            self.assertIn("from the cache", printed)
            printed = self.strata(*arguments, "--seed", "7", "-o", "third", **WITHOUT_COMPILER)
        self.assertIn("is only read", printed)
        self.assertIn("wait for the process that holds it", printed)
        self.assertNotIn("remove the file", printed)


class Document(unittest.TestCase):
    """docs/security.md names a test for each promise, and each of them is there."""

    def test_every_promise_has_a_test(self):
        sources = "\n".join(file.read_text(encoding="utf-8") for file in ROOT.glob("src/**/*_test.cpp"))
        unit_tests = {f"{suite}.{name}" for suite, name in re.findall(r"TEST(?:_[FP])?\((\w+),\s*(\w+)\)", sources)}
        unit_tests |= {test.split(".")[0] + ".*" for test in unit_tests}
        registered = set(re.findall(r"add_test\(NAME ([\w.]+)",
                                    (ROOT / "tests/CMakeLists.txt").read_text(encoding="utf-8")))
        here = {f"security.{name}" for name in globals()}
        known = unit_tests | registered | here | {"fuzz.text", "fuzz.hlo"}
        text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
        tables = [part.split("\n\n")[0].splitlines()[2:] for part in text.split("| promise | test |")[1:]]
        rows = [row for table in tables for row in table]
        self.assertGreater(len(rows), 20)
        for row in rows:
            names = re.findall(r"`((?:\w+\.)+[\w*]+)`", row.rsplit("|", 2)[1])
            self.assertTrue(names, row)
            self.assertEqual([name for name in names if name not in known], [], row)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
