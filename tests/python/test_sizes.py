"""Sizes with names: strata.Graph.dim, and optimize(sizes=)."""

import copy
import math
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest

import strata


def norm(tokens=16):
    g = strata.Graph("norm")
    n = g.dim("tokens", tokens)
    x, w = g.input("X", (n, 64), "f16"), g.input("W", (64, 128), "f16")
    g.output(g.matmul(g.rms_norm(x, eps=1e-5), w, name="O"))
    return g


def arrays(tokens):
    random = np.random.default_rng(tokens)
    return random.standard_normal((tokens, 64)).astype(np.float16), random.standard_normal((64, 128)).astype(np.float16)


def check(table, tokens):
    x, w = arrays(tokens)
    wide = x.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) @ w.astype(np.float64)
    (found,) = table(x, w)
    assert found.shape == (tokens, 128) and found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, rtol=5e-3, atol=3e-2)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def table(cache):
    return strata.optimize(norm(), target="sm_90a", search_seconds=20, cache=cache, sizes={"tokens": [16, 4, 64]})


def test_copies(table):
    for again in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert repr(again) == repr(table) and again.program == table.program
        check(again, 4)


def test_text():
    g = norm()
    text = str(g)
    assert "  dim tokens = 16\n" in text and "input X: f16[tokens, 64]" in text and "O = matmul" in text
    again = strata.Graph.from_text(text)
    assert str(again) == text and again.dims == {"tokens": 16}


def test_expressions():
    g = strata.Graph()
    n, h = g.dim("tokens", 16), g.dim("heads", 4)
    x = g.input("X", (n, 64 * h), "f32")
    assert x.shape == (16, 256) and repr(x) == "<X: f32[tokens, 64*heads]>"
    y = x.reshape(n, h, -1)
    assert repr(y.shape) == "(tokens, heads, 64)"
    assert repr(g.mean(x, 0).shape) == "(1, 64*heads)"
    assert repr(g.sum(x, 1, every=h).shape) == "(tokens, 64)"
    assert repr(x[1:].shape) == "(tokens - 1, 64*heads)"
    assert repr(x[: n - 2, :h].shape) == "(tokens - 2, heads)"
    assert repr((2 * n + 1) * h - 1) == "2*heads*tokens + heads - 1"
    assert repr(n // 4) == "tokens/4" and n // 4 == 4
    g.output(y)
    assert "factor=1/tokens" in str(g) and "slice(X, dim=0, start=1, size=tokens - 1)" in str(g)


NAMED = {
    "1 / n": lambda n: 1 / n, "1.0 / n": lambda n: 1.0 / n, "np.float32(1) / n": lambda n: np.float32(1) / n,
    "0.5 * n": lambda n: 0.5 * n, "n * 0.5": lambda n: n * 0.5, "n / 3": lambda n: n / 3,
    "n + 0.25": lambda n: n + 0.25,
    "n ** 2": lambda n: n**2, "n ** -1": lambda n: n**-1, "n ** 2.0": lambda n: n**2.0, "-n": lambda n: -n,
    "n - 20": lambda n: n - 20, "2 - n": lambda n: 2 - n, "n << 2": lambda n: n << 2, "round(n)": round,
    "1 / n + 1": lambda n: 1 / n + 1, "0.5 * (1 / n)": lambda n: 0.5 * (1 / n), "(1 / n) ** 2": lambda n: (1 / n) ** 2,
    "n * Fraction": lambda n: n * Fraction(1, 3), "np.int64(3) * n": lambda n: np.int64(3) * n,
    "1 / (1 / n)": lambda n: 1 / (1 / n), "math.floor(n)": math.floor, "-1 / n": lambda n: -1 / n,
}  # fmt: skip


@pytest.fixture(scope="module")
def scaled_by_each():
    """A sum scaled by each expression, and divided by those of whole numbers, at two sizes."""
    g = strata.Graph("scaled")
    n = g.dim("tokens", 16)
    total = g.sum(g.input("X", (n, 4), "f32"), dim=0)
    for function in NAMED.values():
        g.output(g.scale(total, factor=function(n)))
    g.output(total / n, total - n, total * n, n * total, total + 1.0 / n)
    table = strata.optimize(g, effort="none", sizes={"tokens": [16, 5]}, cache="")
    return {size: table(np.ones((size, 4), np.float32)) for size in (16, 5)}


def test_expressions_have_the_value_of_each_size(scaled_by_each):
    for size, results in scaled_by_each.items():
        wanted = [size * function(size) for function in NAMED.values()]
        wanted += [1, 0, size * size, size * size, size + 1 / size]
        for name, result, value in zip([*NAMED, *"/-*rp"], results, wanted, strict=True):
            np.testing.assert_allclose(result, np.full((1, 4), value, np.float32), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("written, function", [
    ("tokens ** -0.5", lambda n: n**-0.5), ("tokens ** 0.5", lambda n: n**0.5), ("tokens % 3", lambda n: n % 3),
    ("100 % tokens", lambda n: 100 % n), ("divmod(tokens, 3)", lambda n: divmod(n, 3)), ("abs(tokens)", abs),
    ("float(tokens)", float), ("float(tokens)", math.sqrt), ("float(tokens)", math.log),
    ("2 ** tokens", lambda n: 2**n),
    ("2.0 ** tokens", lambda n: 2.0**n), ("complex(tokens)", complex), ("tokens & 1", lambda n: n & 1),
    ("~tokens", lambda n: ~n), ("1 << tokens", lambda n: 1 << n), ("round(1/tokens)", lambda n: round(1 / n)),
    ("int(1/tokens)", lambda n: int(1 / n)), ("float(1/tokens)", lambda n: float(1 / n)),
    ("tokens // 0.5", lambda n: n // 0.5), ("round(tokens, -1)", lambda n: round(n, -1)),
    ("(tokens + 1) ** tokens", lambda n: (n + 1) ** n),
])  # fmt: skip
def test_what_is_no_expression_is_refused(written, function):
    n = strata.Graph().dim("tokens", 16)
    with pytest.raises(strata.Error) as raised:
        function(n)
    message = rf"[^\n]*test_sizes.py:\d+: {re.escape(written)} is no expression of sizes[\s\S]*int\(size\)"
    assert re.match(message, str(raised.value))


def test_sizes_as_numbers():
    """Indices and int() are the number for which the program is written."""
    g = strata.Graph()
    n = g.dim("tokens", 16)
    assert np.zeros((n, 2)).shape == (16, 2) and len(range(n)) == 16 and int(n) == 16 and [0] * n == [0] * 16
    assert n == 16 and n > 15.5 and n != 17 and {16: "found"}[n] == "found" and f"{n}, {n:03d}" == "tokens, 016"
    assert math.sqrt(int(n)) == 4 and isinstance(n - n, int)
    for wrong in (lambda: 1j * n, lambda: np.sqrt(n), lambda: Fraction(n), lambda: n * float("nan")):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(strata.Error, match="more than 63 bits"):
        n * 1e-30
    for shifted in (lambda: n << -1, lambda: n >> -1):
        with pytest.raises(ValueError, match="negative shift count"):
            shifted()
    with pytest.raises(strata.Error, match="is no expression of sizes"):
        n ** 10**9
    x = g.input("X", (n, 4), "f32")
    with pytest.raises(strata.Error, match=r"\*\* tokens is no operator"):
        x**n
    with pytest.raises(strata.Error, match="start depends on dims"):
        g.select(x, x, 1 / n)


def test_errors():
    g = strata.Graph()
    n = g.dim("tokens", 16)
    x, b = g.input("X", (n, 64)), g.input("B", (16, 64))
    for wrong, message in [
        (lambda: x + b, "the sizes tokens and 16 are equal for some sizes only"),
        (lambda: g.dim("more", 2), "comes after an input"),
        (lambda: n // 3, "is no whole number"),
        (lambda: g.input("Z", (strata.Graph().dim("other", 4),)), "'other' is no dim"),
        (lambda: g.attention(x.T, x.T, x.T), "give scale="),
        (lambda: strata.Graph().dim("n", 0), "is below 1"),
    ]:
        with pytest.raises(strata.Error, match=message):
            wrong()
    # What was refused has left nothing behind.
    g.output(g.exp(x))
    assert "add(" not in str(g)


def test_table(table):
    assert table.sizes == [{"tokens": 16}, {"tokens": 4}, {"tokens": 64}]
    assert table.origins[0].startswith("searched at tokens=16")
    assert all("made of what was searched at tokens=16" in one for one in table.origins[1:])
    for kernel in table.kernels:
        assert "1 kernel in place of" in kernel.headline and kernel.proof.error_bound <= 1e-12
    assert table.dispatch((5, 64), (64, 128)) == ({"tokens": 16}, "tokens=5 as 16, padded with the last slice")
    for tokens in (16, 4, 64, 1, 5, 17):
        check(table, tokens)


def test_a_table_without_a_cache_is_of_one_search():
    table = strata.optimize(norm(), target="sm_90a", search_seconds=10, cache="", sizes={"tokens": [16, 32]})
    assert table.origins[0].startswith("searched at tokens=16")
    assert table.origins[1].startswith("made of what was searched at tokens=16")


def test_other_frameworks(table):
    torch = pytest.importorskip("torch")
    x, w = arrays(5)
    (wanted,), (found,) = table(x, w), table(torch.from_numpy(x), torch.from_numpy(w))
    assert isinstance(found, torch.Tensor) and tuple(found.shape) == (5, 128)
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_wrong_arrays(table):
    x, w = arrays(5)
    with pytest.raises(strata.Error, match="tokens=65 is beyond the table"):
        table(arrays(65)[0], w)
    with pytest.raises(strata.Error, match="dimension 1 of input 'X' is 64; got 63"):
        table(x[:, 1:], w)
    with pytest.raises(strata.Error, match="takes no results of padded inputs"):
        table(x, w, out=[np.empty((5, 128), np.float16)])


def test_save_and_load(table, tmp_path):
    table.save(tmp_path / "t")
    again = strata.load(tmp_path / "t")
    assert isinstance(again, strata.KernelTable) and again.sizes == table.sizes and again.origins == table.origins
    check(again, 7)


def test_zeros():
    g = strata.Graph("product")
    k = g.dim("k", 16)
    g.output(g.matmul(g.input("X", (8, k), "f32"), g.input("W", (k, 8), "f32")))
    table = strata.optimize(g, target="sm_90a", effort="none", cache="", sizes={"k": [16]})
    random = np.random.default_rng(1)
    x, w = random.standard_normal((8, 11)).astype(np.float32), random.standard_normal((11, 8)).astype(np.float32)
    assert table.dispatch(x.shape, w.shape)[1] == "k=11 as 16, padded with zeros"
    np.testing.assert_allclose(table(x, w)[0], x @ w, rtol=1e-5, atol=1e-5)


def test_softmax_is_not_padded():
    g = strata.Graph("softmax")
    k = g.dim("keys", 16)
    g.output(g.softmax(g.input("X", (8, k), "f32")))
    table = strata.optimize(g, target="sm_90a", effort="none", cache="", sizes={"keys": 16})
    with pytest.raises(strata.Error, match="the padding could be the largest"):
        table(np.ones((8, 11), np.float32))


@pytest.mark.parametrize("size", [8, np.int64(8), strata.Graph().dim("n", 8)], ids=["int", "numpy", "name"])
def test_one_size_is_a_table(size, cache):
    g = strata.Graph()
    g.output(g.exp(g.input("X", (g.dim("tokens", 16), 64))))
    table = strata.optimize(g, target="sm_90a", effort="none", cache=cache, sizes={"tokens": size})
    assert {"tokens": 8} in table.sizes


def test_wrong_sizes(cache):
    for program, sizes, message in [
        (norm(), {"tokns": 4}, "which is no dim of the program"),
        (norm(), {"tokens": []}, "give one or more"),
        (norm(), {"tokens": [0]}, "each at least 1"),
        ("graph g {\n input X: f16[4]\n Y = exp(X)\n output Y\n}", {"n": 4}, "the program has no dims"),
    ]:
        with pytest.raises(strata.Error, match=message):
            strata.optimize(program, target="sm_90a", effort="none", cache=cache, sizes=sizes)
    with pytest.raises(strata.Error, match="a configuration is of one size"):
        strata.optimize(norm(), target="sm_90a", effort="none", cache=cache, config="# strata configuration 1")
