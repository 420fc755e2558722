"""strata.optimize: the superoptimizer and what it returns."""

import copy
import os
import pathlib
import pickle
import signal
import textwrap

import numpy as np
import pytest

import strata

SMALL = """graph small {
  input X: f16[16, 64]
  input W: f16[64, 128]
  S = sqr(X)
  M = sum(S, dim=1)
  R = sqrt(M)
  Y = div(X, R)
  O = matmul(Y, W)
  output O
}
"""


@pytest.fixture(scope="module")
def kernel():
    return strata.optimize(SMALL, target="sm_90a", search_seconds=20, cache="")


def arrays():
    random = np.random.default_rng(1)
    return random.standard_normal((16, 64)).astype(np.float16), random.standard_normal((64, 128)).astype(np.float16)


def check(kernel):
    x, w = arrays()
    wide = x.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).sum(1, keepdims=True)) @ w.astype(np.float64)
    (found,) = kernel(x, w)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, rtol=5e-3, atol=5e-3)


def test_result(kernel):
    assert kernel.target == "sm_90a" and "block(" in kernel.mugraph and "graph small" in kernel.program
    assert "__global__" in kernel.source and "1 kernel in place of 5" in kernel.headline
    assert kernel.proof.tests >= 1 and kernel.proof.error_bound <= 1e-12 and "random test" in str(kernel.proof)
    shown = kernel.report._repr_html_()
    assert shown.startswith('<iframe title="Report of small" sandbox="allow-scripts" srcdoc="&lt;!doctype html&gt;')
    assert "--paper: light-dark(" in shown and kernel.report.data["program"] == "small"  # the pages' style
    check(kernel)


def test_arrays_of_others_and_gradients(kernel):
    torch = pytest.importorskip("torch")
    x, w = map(torch.from_numpy, arrays())
    for other in (w.numpy(), None, w.tolist()):
        with pytest.raises(strata.Error, match=f"input 1 is {type(other).__name__}; the others are torch's tensors"):
            kernel(x, other)
    wanted = x.clone().requires_grad_()
    with pytest.raises(strata.Error, match=r"input 0 requires a gradient, and the results have none\n.*detach\(\)"):
        kernel(wanted, w)
    with torch.no_grad():
        (found,) = kernel(wanted, w)
    assert torch.equal(found, kernel(wanted.detach(), w)[0]) and not found.requires_grad


def test_save_and_load(kernel, tmp_path):
    kernel.save(tmp_path / "k")
    again = strata.load(tmp_path / "k")
    assert (again.mugraph, again.source, again.config()) == (kernel.mugraph, kernel.source, kernel.config())
    for name in ("best.strata", "best.launch.json", "report.json"):
        kernel.save(tmp_path / name)
        (tmp_path / name / name).write_bytes(b"\xff\xfe\xfd")
        with pytest.raises(strata.Error, match=f"'{name}' is no text"):
            strata.load(tmp_path / name)
    check(again)
    kernel.report.save(tmp_path / "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text()
    with pytest.raises(strata.Error, match="holds no kernel that was saved"):
        strata.load(tmp_path)


def test_what_cannot_be_written(kernel, tmp_path):
    (tmp_path / "file").write_text("")
    for write in (kernel.save, kernel.report.save):
        for place in (tmp_path / "file" / "below", "/proc/strata"):
            with pytest.raises(strata.Error, match=r"cannot write '.*': .*\n  name a place"):
                write(place)


def test_an_empty_configuration_is_none():
    with pytest.raises(strata.Error, match=r"config is an empty text\n  give what Kernel.config\(\) returned"):
        strata.optimize(SMALL, config="", cache="")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies(kernel, copied):
    again = copied(kernel)
    assert (again.program, again.source, again.config()) == (kernel.program, kernel.source, kernel.config())
    check(again)
    old = copy.copy(kernel)
    old._summary = {**kernel._summary, "format": 0}
    with pytest.raises(strata.Error, match="is of format 0"):
        copied(old)


@pytest.mark.parametrize("pasted", [
    lambda text: "\n" + text, lambda text: textwrap.indent(text, "    ") + "    ", lambda text: text.rstrip("\n"),
    lambda text: text.replace("\n", "\r\n"), lambda text: textwrap.indent(text, "        ").lstrip(),
    lambda text: "\r\n" + textwrap.indent(text, "\t").replace("\n", "\r\n"),
])  # fmt: skip
def test_a_configuration_that_was_pasted(kernel, pasted):
    again = strata.optimize(SMALL, config=pasted(kernel.config()), cache="")
    assert again.config() == kernel.config()


def test_configuration_makes_it_again(kernel):
    again = strata.optimize(SMALL, config=kernel.config(), cache="")
    assert (again.mugraph, again.source) == (kernel.mugraph, kernel.source)
    assert again.proof.tests >= 1


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda text: text.replace("configuration 1", "configuration 2"), "of format 2, and this version reads 1"),
        (lambda text: "graph " + text, "its first line is not"),
        (lambda text: text.replace("# program ", "# program 0"), "it is of another program than 'small'"),
        (lambda text: text.replace("# schedule -", "# schedule r9g9s9"), "has no schedule 'r9g9s9'"),
        (lambda text: text.replace("rsqrt", "sqrt"), "is not proved to compute the program"),
    ],
)
def test_configurations_that_are_refused(kernel, change, reason):
    with pytest.raises(strata.Error, match=reason):
        strata.optimize(SMALL, config=change(kernel.config()), cache="")


def test_without_search_and_progress():
    lines = []
    kernel = strata.optimize(SMALL, effort="none", progress=lines.append, cache="")
    assert "block(" not in kernel.mugraph
    # It is not compared with itself, but with a kernel for each operator.
    assert kernel.proof.words.endswith("(the input program itself)") and "as the input" not in kernel.headline
    check(kernel)
    strata.optimize(SMALL, target="sm_80", search_seconds=5, progress=lines.append, cache="")
    assert lines and all("\n" not in line for line in lines)


def test_cache(tmp_path):
    first = strata.optimize(SMALL, search_seconds=20, cache=str(tmp_path))
    second = strata.optimize(SMALL, search_seconds=20, cache=str(tmp_path))
    assert second.mugraph == first.mugraph


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"effort": "some"}, "effort 'some' is none of 'none', 'quick', 'full'"),
        ({"target": "sm_12"}, "sm_12"),
        ({"program": "graph small {"}, "<program>:1"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(strata.Error, match=message):
        strata.optimize(**{"program": SMALL, "cache": "", **arguments})


def test_interrupt_gives_the_best_so_far():
    program = (pathlib.Path(__file__).parents[2] / "programs" / "qknorm.strata").read_text()
    sent = []

    def interrupt_once(line):
        if not sent:
            sent.append(line)
            os.kill(os.getpid(), signal.SIGINT)

    kernel = strata.optimize(program, search_seconds=300, cache="", progress=interrupt_once)
    assert sent
    assert "interrupted: the best so far" in kernel.notes and kernel.mugraph


def test_a_cache_that_is_not_used_is_noted_in_words_of_python(tmp_path):
    tmp_path.chmod(0o777)
    g = strata.Graph("p")
    g.output(g.input("X", (2,)) + 1)
    (note,) = strata.optimize(g, effort="none", cache=tmp_path).notes
    assert "is not used: others can write" in note and 'with cache=, or use cache=""' in note


def test_programs_of_f64_are_computed_in_it():
    g = strata.Graph("p")
    g.output(g.input("X", (2,), "f64") + 1)
    kernel = strata.optimize(g, effort="none", cache="")
    x = np.array([1e300, 1e-9])
    assert np.array_equal(kernel(x)[0], x + 1)
