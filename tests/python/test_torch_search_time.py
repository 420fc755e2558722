"""How long torch's graphs are searched: by device, option, module and recompilation. No GPU: the front end is told that
its tensors lie on one, and what it would compile for it is compiled for the processor."""

import io
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

from torch_helpers import array, assert_same, compiled  # noqa: E402

import strata  # noqa: E402
from strata.torch_backend import backend, runtime, search_time  # noqa: E402
from strata.torch_backend.options import SECONDS, Options, read_options  # noqa: E402

CACHED = search_time.FROM_THE_CACHE
QUICK = SECONDS["quick"]


@pytest.mark.parametrize(("options", "on_gpu"), [
    ({}, 20), ({"effort": "none"}, 0), ({"effort": "quick"}, 20), ({"effort": "full"}, 120), ({"search_budget": 3}, 3),
    ({"effort": "full", "search_budget": 0}, 0),
])
def test_seconds_by_option_and_device(options, on_gpu):
    read = read_options(options)
    assert (read.search_seconds("cuda"), read.search_seconds("cpu")) == (on_gpu, 0)


class Clock:
    """Seconds of a test, which searches take."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def asked(monkeypatch):
    """The seconds that each module was given. A search takes all of them, unless the text was searched before."""
    clock, seconds, known = Clock(), [], set()
    compile_hlo = strata.compile_hlo

    def compile_(text, *, search_seconds, progress, **given):
        seconds.append(search_seconds)
        shape = text.split("ENTRY")[1]
        if search_seconds and shape not in known:
            progress("superoptimizes part 1 of 1 (dot.1)")
            clock.now += search_seconds
            progress("")
            known.add(shape)
        return compile_hlo(text, **{**given, "target": "cpu"})

    monkeypatch.setattr(search_time, "time", clock)
    monkeypatch.setattr(runtime, "_device_of", lambda part: "cuda")
    monkeypatch.setattr(strata, "compile_hlo", compile_)
    return seconds


def test_modules_with_products_share_the_time(asked):
    airy = torch.special.airy_ai  # runs in torch, between modules
    x = array(3, 3)

    def f(x):
        return airy(airy(airy(x @ x + 1) + 2) @ x) * 2

    assert_same(compiled(f)(x), f(x))
    assert asked == [QUICK / 2, 0, QUICK / 2, 0]


def test_on_the_host_nothing_is_searched(asked, monkeypatch):
    monkeypatch.setattr(runtime, "_device_of", lambda part: "cpu")
    for options in ({}, {"effort": "full"}, {"search_budget": 3}):
        compiled(lambda x: x @ x + 1, options=options)(array(3, 3))
    assert asked == [0, 0, 0]


@pytest.mark.parametrize(("options", "expected"), [
    ({}, [QUICK, CACHED, CACHED]), ({"effort": "quick"}, [QUICK, QUICK, QUICK]), ({"search_budget": 4}, [4, 4, 4]),
])
def test_other_sizes_are_not_searched_again_unasked(asked, options, expected):
    def f(x):
        return x @ x.t() + 1

    g = compiled(f, dynamic=True, options=options)
    for rows in (3, 4, 5, 4):
        x = array(rows, 6)
        assert_same(g(x), f(x))
    assert asked == expected


def test_recompilations_share_the_time(asked):
    def f(x, flag):
        return x @ x + 1 if flag else x @ x * 2

    g = compiled(f)
    for flag in (True, False):
        g(array(3, 3), flag)
    assert asked == [QUICK, CACHED]
    asked.clear()
    # A function of its own has its own; so has the same one in a new life.
    torch.compile(lambda x: x @ x - 3, backend=backend)(array(3, 3))
    assert asked == [QUICK]
    compiled(f)(array(3, 3), True)
    assert asked == [QUICK, QUICK]


def test_what_the_cache_knows_takes_no_time(asked):
    def f(x, flag):
        return x @ x + 1 if flag else x @ x * 2

    for _ in range(2):  # as another process would: all is known by the second
        asked.clear()
        g = compiled(f)
        g(array(3, 3), True)
    g(array(3, 3), False)
    assert asked == [QUICK, QUICK]


def test_forward_and_backward_have_their_own(asked):
    x = array(3, 3).requires_grad_()
    compiled(lambda x: (x @ x).relu().sum())(x).backward()
    assert asked == [QUICK, QUICK]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_after_a_second(monkeypatch, terminal):
    clock, said = Clock(), io.StringIO()
    said.isatty = lambda: terminal
    monkeypatch.setattr(search_time, "time", clock)
    monkeypatch.setattr(search_time, "sys", types.SimpleNamespace(stderr=said))
    with search_time.SearchTime(Options(), "test").progress() as progress:
        progress("first")
        clock.now += 0.5
        progress("second")
        assert said.getvalue() == ""
        clock.now += 1
        progress("third")
    assert said.getvalue() == ("\rstrata:  1.5 s  third\x1b[K\r\x1b[K" if terminal else "")
