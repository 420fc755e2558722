"""strata-core: what it has works, with NumPy alone; what it lacks says so."""

import importlib
import json
import subprocess
import sys

import numpy as np
import pytest

import strata
from strata import _core

REMEDY = "strata-core does not have\n  install the package strata in its place"


def run(words):
    return subprocess.run([sys.executable, "-m", "strata", *words.split()], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False)


def normed():
    """A program, and what it computes."""
    g = strata.Graph("normed")
    x, w = g.input("X", (16, 64)), g.input("W", (64, 32))
    g.output(g.matmul(g.rms_norm(x, eps=1e-6), w, name="O"))

    def expected(a, b):
        a, b = a.astype(np.float64), b.astype(np.float64)
        return a / np.sqrt((a * a).mean(axis=1, keepdims=True) + 1e-6) @ b

    random = np.random.default_rng(1)
    return g, [random.standard_normal(one.shape).astype(np.float16) for one in g.inputs], expected


def test_it_has_no_emitters_and_no_compiler():
    assert _core.has_emitters is False
    libraries = subprocess.run(["ldd", _core.__file__], capture_output=True, text=True, check=True).stdout
    assert "libz3" in libraries and "LLVM" not in libraries and "MLIR" not in libraries
    assert not hasattr(_core, "Decoder")


def test_a_program_is_searched_proved_called_and_kept(tmp_path):
    g, arrays, expected = normed()
    kernel = strata.optimize(g, search_seconds=5)
    (result,) = kernel(*arrays)
    assert np.abs(result - expected(*arrays)).max() < 0.05
    assert kernel.proof.tests > 0 and kernel.report.data["kind"] == "search" and "__global__" in kernel.source
    kernel.save(tmp_path / "kept")
    again = strata.load(tmp_path / "kept")
    assert again.mugraph == kernel.mugraph
    assert np.array_equal(again(*arrays)[0], result)
    assert strata.optimize(g, config=kernel.config()).source == kernel.source


def test_sizes_make_a_table():
    g = strata.Graph("sized")
    n = g.dim("tokens", 16)
    x, w = g.input("X", (n, 64)), g.input("W", (64, 32))
    g.output(g.matmul(x, w))
    table = strata.optimize(g, sizes={"tokens": [8, 16]}, search_seconds=3)
    (result,) = table(np.ones((5, 64), np.float16), np.ones((64, 32), np.float16))
    assert result.shape == (5, 32) and (result == 64).all()


def test_a_kernel_each_is_said():
    g = strata.Graph("joined")
    x = g.input("X", (16, 64))
    g.output(g.concat(g.exp(x), g.sqr(x), dim=1))
    kernel = strata.optimize(g, search_seconds=2)
    (note,) = [note for note in kernel.notes if "no emitters" in note]
    assert "concat" in note and "install the package `strata`" in note


@pytest.mark.parametrize("what, made", [
    ("compile_hlo", lambda: strata.compile_hlo("HloModule m")),
    ("Decoder", lambda: strata.Decoder("qwen3-0.6b", weights="random")),
    ("strata.jax", lambda: importlib.import_module("strata.jax")),
    ("torch.compile", lambda: importlib.import_module("strata.torch_backend")),
    ("torch.compile", lambda: strata.torch_backend),
])  # fmt: skip
def test_what_it_lacks_is_one_error(what, made):
    with pytest.raises(strata.Error) as raised:
        made()
    assert str(raised.value).startswith(what) and REMEDY in str(raised.value)


def test_commands(tmp_path):
    (tmp_path / "small.strata").write_text(str(normed()[0]), encoding="utf-8")
    made = run("optimize small.strata -o made --time-limit 10 --json")
    assert made.returncode == 0 and json.loads(made.stdout)["kind"] == "search", made.stderr
    for words in ("show made/best.strata", "verify small.strata made/best.strata", "explain made", "ops",
                  "run made/best.strata", "machine --target sm_90a", "completions fish"):  # fmt: skip
        done = run(words)
        assert done.returncode == 0 and done.stdout, done.stderr
    for words in ("emit module.hlo", "decode --config model.json", "run made"):
        done = run(words)
        assert done.returncode == 2 and "install the Python package `strata`" in done.stderr
    said = run("doctor").stdout
    assert "torch.compile" not in said and "strata.jax" not in said
    assert "emitters   missing" in said and "numpy" in said and "install the Python package `strata`" in said
