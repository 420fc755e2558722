"""strata.Graph: programs written in Python."""

import copy
import pathlib
from fractions import Fraction

import numpy as np
import pytest

import strata
from strata import _core

PROGRAMS = pathlib.Path(__file__).parents[2] / "programs"


@pytest.fixture
def g():
    return strata.Graph("test")


def run(g, *arrays):
    return strata.optimize(g, effort="none", cache="")(*arrays)


def test_prints_as_programs_do():
    g = strata.Graph("rmsnorm")
    x, weight, w = g.input("X", (16, 1024)), g.input("G", (1024,)), g.input("W", (1024, 4096), np.float16)
    scaled = g.mul(x, weight, name="XG")
    root = g.sqrt(g.scale(g.sum(g.sqr(x, name="X2"), 1, name="S"), factor=Fraction(1, 1024), name="M"), name="R")
    g.output(g.matmul(g.div(scaled, root, name="Y"), w, name="O"))
    written = (PROGRAMS / "rmsnorm.strata").read_text()
    statements = lambda text: sorted(line.strip() for line in text.splitlines() if not line.startswith("#"))
    assert statements(str(g)) == statements(written)


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.strata")), ids=lambda path: path.stem)
def test_reads_what_it_prints(path):
    g = strata.Graph.from_text(path.read_text())
    assert str(strata.Graph.from_text(str(g))) == str(g)
    assert g.outputs and all(g[value.name] is value for value in g.inputs)


def test_every_operator_of_the_table_is_a_method(g):
    for name, arity, attributes, meaning in _core.operators():
        method = getattr(g, name)
        assert method.__doc__ and name in dir(g)
    with pytest.raises(AttributeError, match="no operator 'cholesky'"):
        g.cholesky


def test_operators_of_python(g):
    x, y = g.input("x", (4, 8), "f32"), g.input("y", (4, 8), "f32")
    results = [x + y, x - y, x * y, x / y, -x, x + 2, 3 - x, 2 * x, x / 4, x**2, x**0.5, x**-0.5, x > y, x < y, x @ y.T]
    results += [x[1:3], x[0], x[:, -1], x[..., 2:4], x.reshape(2, -1), x.T]
    g.output(*results)
    a = np.random.default_rng(1).uniform(1, 2, (4, 8)).astype(np.float32)
    b = np.random.default_rng(2).uniform(1, 2, (4, 8)).astype(np.float32)
    wanted = [a + b, a - b, a * b, a / b, -a, a + 2, 3 - a, 2 * a, a / 4, a**2, a**0.5, a**-0.5, a > b, a < b, a @ b.T]
    wanted += [a[1:3], a[0], a[:, -1], a[..., 2:4], a.reshape(2, -1), a.T]
    for found, expected in zip(run(g, a, b), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_operators_of_several(g):
    x, w, b = g.input("x", (4, 8), "f32"), g.input("w", (8,), "f32"), g.input("b", (8,), "f32")
    q, k = g.input("q", (2, 4, 8), "f32"), g.input("k", (2, 6, 8), "f32")
    mask, m = g.input("mask", (4, 6), "f32"), g.input("m", (5, 8), "f32")
    g.output(g.rms_norm(x, weight=w, eps=1e-3), g.layer_norm(x, weight=w, bias=b, eps=1e-3), g.softmax(x, 0))
    g.output(g.linear(x, m), g.swiglu(x, x), g.attention(q, k, k, mask=mask), g.mean(x, keepdim=False))
    random = np.random.default_rng(3)
    given = [random.standard_normal(one.shape).astype(np.float32) for one in g.inputs]
    a, c, d, u, v, n, f = given

    def softmax(z, axis):
        e = np.exp(z - z.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    centred = a - a.mean(1, keepdims=True)
    wanted = [
        a * c / np.sqrt((a * a).mean(1, keepdims=True) + 1e-3),
        centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-3) * c + d,
        softmax(a, 0),
        a @ f.T,
        a / (1 + np.exp(-a)) * a,
        softmax(u @ v.transpose(0, 2, 1) / np.sqrt(8) + n, -1) @ v,
        a.mean(1),
    ]
    for found, expected in zip(run(g, *given), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def here():
    """The line that calls it, as errors write it."""
    import inspect

    return f"{__file__}:{inspect.currentframe().f_back.f_lineno}"


def test_errors_name_the_users_line(g):
    x = g.input("x", (4, 8))
    y = g.input("y", (3, 5))
    with pytest.raises(strata.Error) as raised:
        line = here(); g.matmul(x, y)  # fmt: skip
    assert str(raised.value).startswith(f"{line}:") and "matmul(x: f16[4, 8], y: f16[3, 5])" in str(raised.value)
    with pytest.raises(strata.Error) as raised:
        line = here(); x + y  # fmt: skip
    assert str(raised.value).startswith(f"{line}:")
    with pytest.raises(strata.Error) as raised:
        line = here(); g.attention(x, y, y)  # fmt: skip
    assert str(raised.value).startswith(f"{line}:")
    with pytest.raises(strata.Error, match="'x' is defined twice"):
        g.input("x", (1,))
    with pytest.raises(strata.Error, match="f8e3"):
        g.input("z", (1,), "f8e3")
    with pytest.raises(strata.Error, match="a tensor of another Graph, 'other'"):
        g.add(x, strata.Graph("other").input("o", (4, 8)))
    with pytest.raises(strata.Error, match="transpose needs perm="):
        g.transpose(x)
    with pytest.raises(strata.Error, match="has no value while the program is written"):
        bool(x)
    with pytest.raises(strata.Error, match="<text>:1:"):
        strata.Graph.from_text("graph {")


def test_what_a_value_is_not():
    x = strata.Graph("p").input("X", (4,), "f32")
    with pytest.raises(strata.Error, match="no operator"):
        3 / x
    with pytest.raises(strata.Error, match="not a sequence"):
        list(x)


def test_what_stands_in_the_wrong_place_says_where_it_goes(g):
    x = g.input("x", (4, 8), "f32")
    ones = np.ones((4, 8), np.float32)
    for wrong, message in (
        (lambda: x[None], r"None is no index of 'x'.*\n  x.reshape"),
        (lambda: x[1.5], "1.5 is no index of 'x'"),
        (lambda: g.scale(x, 2), r"scale takes 1 tensor, and attributes by name\n  write factor=2$"),
        (lambda: g.reshape(x, (8, 4)), r"\n  write shape=\(8, 4\)$"),
        (lambda: g.concat([x, x], dim=0), r"concat takes its tensors one by one, not in a list\n  write concat\(x, y"),
        (lambda: g.scale(x, ones), r"an array of type ndarray is no tensor of the program\n  make it an input"),
    ):
        with pytest.raises(strata.Error, match=message) as raised:
            wrong()
        assert "test_graph.py" in str(raised.value)
    for wrong in (lambda: x + ones, lambda: x - ones, lambda: ones * x, lambda: x / ones):
        with pytest.raises(strata.Error, match="an array of type ndarray") as raised:
            wrong()
        assert len(str(raised.value)) < 300  # without its elements
    assert (x * np.float32(2)).shape == (x * np.array(2.0)).shape == (4, 8)


@pytest.mark.parametrize("make, message", [
    (lambda: strata.Graph(None), "name is NoneType, not a str"),
    (lambda: strata.Graph("a b"), "'a b' is no name"),
    (lambda: strata.Graph("p").input("X Y", (4,)), "'X Y' is no name"),
    (lambda: strata.Graph("p").input("X", (2.0, 3)), "no sequence of whole numbers"),
    (lambda: strata.Graph("p").input("X", 5), "no sequence of whole numbers"),
    (lambda: strata.Graph("p").input("X", (2**70,)), "no tensor can have"),
    (lambda: strata.Graph.from_text(None), "the program is NoneType"),
    (lambda: strata.optimize(strata.Graph("p")), "the program has no output"),
    (lambda: strata.optimize(None), "the program is NoneType"),
    (lambda: strata.optimize("graph g { }", search_seconds=-1), "search_seconds is -1"),
    (lambda: strata.optimize("graph g { }", search_seconds="5"), "search_seconds is str"),
    (lambda: strata.optimize("graph g { }", cache=5), "cache is int"),
    (lambda: strata.optimize("graph g { }", config=b"x"), "config is bytes"),
    (lambda: strata.compile_hlo(None), "the module is NoneType"),
    (lambda: strata.compile_hlo("HloModule m", search_seconds=float("nan")), "search_seconds is nan"),
])
def test_wrong_arguments(make, message):
    with pytest.raises(strata.Error, match=message):
        make()


def test_iotas_are_known(g):
    x = g.input("x", (4, 8), "f32")
    i, j = g.iota((4, 1), 0, dtype="f32", name="I"), g.iota((1, 8), -1, start=-2, step=3, dtype="f32")
    assert [value.name for value in g.inputs] == ["x"] and g["I"] is i
    g.output(x + i, x * j, j > i, i >= j, i <= j, g.select(j > i, x, 0), g.select(i > j, -1.5, x), x > 0.25, 3 > i + x)
    assert "I = iota(dim=0) : f32[4, 1]" in str(g) and "iota(dim=1, start=-2, step=3) : f32[1, 8]" in str(g)
    assert str(strata.Graph.from_text(str(g))) == str(g)
    a = np.random.default_rng(1).uniform(-1, 1, (4, 8)).astype(np.float32)
    i, j = np.arange(4)[:, None], -2 + 3 * np.arange(8)[None]
    wanted = [a + i, a * j, j > i, i >= j, i <= j, np.where(j > i, a, 0), np.where(i > j, -1.5, a), a > 0.25, 3 > i + a]
    for found, expected in zip(run(g, a), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def causal(g, q, k, v):
    """As attention(causal=True), written out, with places counted from the end."""
    scores = g.scale(q @ k.T, factor=1 / 4)
    queries, keys = g.iota((8, 1), start=7, step=-1, dtype="f32"), g.iota((8,), start=7, step=-1, dtype="f32")
    e = g.exp(g.select(keys >= queries, scores, -65504))
    return g.div(e, g.sum(e)) @ v


@pytest.mark.parametrize("written_out", [False, True])
def test_causal_attention(g, written_out):
    q, k, v = (g.input(name, (2, 8, 16), "f32") for name in "qkv")
    g.output(causal(g, q, k, v) if written_out else g.attention(q, k, v, causal=True))
    random = np.random.default_rng(3)
    a, b, c = (random.standard_normal((2, 8, 16)).astype(np.float32) for _ in range(3))
    scores = np.where(np.tri(8, dtype=bool), a @ b.swapaxes(1, 2) / 4, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    (found,) = run(g, a, b, c)
    np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True) @ c, rtol=1e-4, atol=1e-5)


def test_iotas_that_cannot_be_are_refused(g):
    x = g.input("x", (4, 8))
    for wrong, message in (
        (lambda: g.iota((4, 1), 2), "dim=2 names no dimension"),
        (lambda: g.iota((4, 1), 0.5), "dim=0.5 is no integer"),
        (lambda: g.iota((4, 1), step=1 << 23), "reach 2\\^24"),
        (lambda: g.iota((4, 1), start=0.5), "start=0.5 is no integer|start=1/2 is no integer"),
        (lambda: g.iota((4, 1), name="x"), "'x' is defined twice"),
        (lambda: g.sum(g.iota((4, 8)), 1), "elementwise operators and block graphs alone read"),
        (lambda: g.output(g.iota((4, 1))), "lies nowhere in memory"),
        (lambda: x > "1", "not a tensor of the program"),
    ):
        with pytest.raises(strata.Error, match=message) as raised:
            wrong()
        assert "test_graph.py" in str(raised.value)
    named = strata.Graph("named")
    tokens = named.dim("tokens", 16)
    with pytest.raises(strata.Error, match="start depends on dims"):
        named.iota((tokens, 1), start=tokens)


def test_iotas_along_named_sizes():
    g = strata.Graph("named")
    tokens = g.dim("tokens", 16)
    x = g.input("x", (tokens, tokens), "f32")
    g.output(g.select(g.iota((1, tokens), 1, dtype="f32") > g.iota((tokens, 1), 0, dtype="f32"), 0, x))
    assert "iota(dim=0) : f32[tokens, 1]" in str(g) and str(strata.Graph.from_text(str(g))) == str(g)


def test_what_has_no_output_yet_is_not_copied():
    g = strata.Graph()
    x = g.input("X", (4, 8))
    for one in (g, x):
        with pytest.raises(strata.Error, match="without outputs cannot be pickled or copied"):
            copy.deepcopy(one)
    g.output(g.exp(x))
    assert str(copy.deepcopy(g)) == str(g) and copy.deepcopy(x).name == "X"


def test_equality_is_no_operator():
    g = strata.Graph()
    x, y = g.input("X", (4, 8)), g.input("Y", (4, 8))
    for written in (lambda: g.output(x == y), lambda: x != y, lambda: x == 0, lambda: g.mul(x, x == y)):
        with pytest.raises(strata.Error, match=r"test_graph.py:\d+: == and != are no operators[\s\S]*\(x >= y\)"):
            written()
    with pytest.raises(strata.Error, match="any\\(x is y for y in several\\)"):
        y in [x, y]  # noqa: B015
    assert x in [x, y] and {x: 1, y: 2}[y] == 2 and g.inputs == [x, y] and x != None  # noqa: E711
    g.output((x >= y) * (x <= y))


def test_indices_are_whole_numbers():
    g = strata.Graph()
    x = g.input("X", (4, 8))
    assert x[np.int64(1)].shape == (8,) and x[np.array(1), -1].shape == ()
    for index in (None, True, 1.0, np.array([1, 2])):
        with pytest.raises(strata.Error, match="is no index of 'X': indices are whole numbers and slices"):
            x[index]
