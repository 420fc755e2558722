"""strata.jax.jit beside jax.jit."""

import os

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="jax is not installed: its front end is not tested")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import strata  # noqa: E402
import strata.jax  # noqa: E402

R = np.random.default_rng(3)


def array(*shape):
    return jnp.asarray(R.standard_normal(shape).astype(np.float32))


def same(got, expected, tolerance=2e-5):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected)):
        assert isinstance(one, jax.Array)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), tolerance, tolerance)


def mlp(params, x):
    for w, b in params[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = params[-1]
    return {"logits": x @ w + b, "norm": jnp.sum(x**2)}


PARAMS = [(array(4, 8), array(8)), (array(8, 3), array(3))]


def test_static_arguments_that_are_equal():
    def f(x, kind):
        leaf = kind[0] if isinstance(kind, tuple) else kind
        return x * {int: 2, bool: 3, float: 5}[type(leaf)]

    theirs, ours = jax.jit(f, static_argnums=1), strata.jax.jit(f, static_argnums=1)
    for kind in (1, True, 1.0, 1):
        assert ours(jnp.ones(2), kind).tolist() == theirs(jnp.ones(2), kind).tolist()
    for kind, factor in (((1,), 2), ((True,), 3), ((1.0,), 5)):
        assert ours(jnp.ones(2), kind).tolist() == [factor, factor]


def test_options_of_jax_make_other_programs():
    def f(x):
        return x + jnp.arange(3)

    ours, theirs = strata.jax.jit(f), jax.jit(f)
    for wide in (False, True, False):
        with jax.enable_x64(wide):
            assert ours(7).dtype == theirs(7).dtype == (jnp.int64 if wide else jnp.int32)
            assert ours(7).tolist() == [7, 8, 9]
    with jax.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank_promotion"):
        ours(jnp.ones((2, 3)))


def test_trees_and_static_arguments():
    x = array(5, 4)
    same(strata.jax.jit(mlp)(PARAMS, x), mlp(PARAMS, x))

    def f(x, n, *, kind="sum", scale=1.0):
        return getattr(jnp, kind)(x, axis=0) * n * scale

    for kind in ("sum", "mean"):
        ours = strata.jax.jit(f, static_argnums=1, static_argnames="kind")
        same(ours(x, 3, kind=kind), f(x, 3, kind=kind))
        same(ours(x, n=2, kind=kind, scale=0.5), f(x, 2, kind=kind, scale=0.5))

    @strata.jax.jit
    def decorated(x):
        """Doc."""
        return x * 2

    assert decorated.__doc__ == "Doc." and decorated.__name__ == "decorated"
    same(decorated(x), x * 2)


def test_static_arguments_by_place_and_name():
    """Each choice as jax.jit takes it: by place, by a place from the end, by name; called by place and by name."""
    def f(x, n, kind="sum"):
        return getattr(jnp, kind)(x) * n

    x = array(3)
    for chosen in ({"static_argnums": (1, 2)}, {"static_argnums": (-2, -1)}, {"static_argnames": ["n", "kind"]}):
        ours, theirs = strata.jax.jit(f, **chosen), jax.jit(f, **chosen)
        same(ours(x, 2, "max"), theirs(x, 2, "max"))
        same(ours(x, n=3, kind="sum"), f(x, 3))  # jax.jit takes this where no place is counted from the end
    both = {"static_argnums": 1, "static_argnames": "kind"}  # then neither stands for the other
    same(strata.jax.jit(f, **both)(x, 2, kind="max"), jax.jit(f, **both)(x, 2, kind="max"))
    for jit in (jax.jit, strata.jax.jit):
        with pytest.raises(TypeError):
            jit(f, **both)(x, 2, "max")
    first = strata.jax.jit(lambda *xs: sum(xs[1:]) * int(xs[0]), static_argnums=0)
    same(first(2, x, x), 4 * x)


@pytest.mark.parametrize("chosen", [{"donate_argnums": 0}, {"donate_argnums": (0,)}, {"donate_argnames": "state"}])
def test_donated_arrays_are_deleted_as_by_jax(chosen):
    def step(state, x):
        return {name: one + x for name, one in state.items()}, x.sum()

    for jit in (jax.jit, strata.jax.jit):
        for named in (False, True):
            state, x = {"a": array(3), "b": array(1, 3)}, jnp.ones(3)
            f = jit(step, **chosen)
            found = f(state=state, x=x) if named else f(state, x)
            assert all(one.is_deleted() for one in state.values()) and not x.is_deleted()
            with pytest.raises((RuntimeError, ValueError), match="deleted"):
                f(state, x)
            f(found[0], x)


def test_donated_arrays_without_a_result():
    x, y = jnp.ones(3), jnp.ones((2, 2))
    f = strata.jax.jit(lambda x, y: (x + 1, y.sum()), donate_argnums=(0, 1))
    with pytest.warns(UserWarning, match=r"no result has their shape and type: float32\[2, 2\]$"):
        f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    plain = np.ones(3, np.float32)
    f(plain, plain.reshape(3, 1)[:, :1])
    assert plain.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="given twice"):
        strata.jax.jit(lambda x, y: x + y, donate_argnums=0)(z := jnp.ones(3), z)
    jax.jit(strata.jax.jit(lambda x: x * 2, donate_argnums=0))(z)
    jax.grad(strata.jax.jit(lambda x: (x * 2).sum(), donate_argnums=0))(z)
    assert not z.is_deleted()


def test_numbers_stay_weak():
    x = array(3).astype(jnp.bfloat16)
    same(strata.jax.jit(lambda x, s: x * s)(x, 2.0), x * 2.0)
    same(strata.jax.jit(lambda x, s: x * s)(np.arange(3, dtype=np.int32), 2), jnp.arange(3, dtype=jnp.int32) * 2)
    same(strata.jax.jit(lambda: jnp.arange(4))(), jnp.arange(4))
    same(strata.jax.jit(lambda x, y: x)(x, 1), x)


def test_gradients():
    x = array(5, 4)
    ours = strata.jax.jit(mlp)

    def loss(f):
        return lambda p, x: jnp.mean(f(p, x)["logits"] ** 2) + f(p, x)["norm"]

    for transform in (jax.grad, lambda f: jax.grad(f, argnums=(0, 1)), jax.value_and_grad,
                      lambda f: jax.jit(jax.grad(f)), lambda f: strata.jax.jit(jax.grad(f))):
        same(transform(loss(ours))(PARAMS, x), transform(loss(mlp))(PARAMS, x), 1e-4)
    take = strata.jax.jit(lambda x, i: x[i] * 2)
    i = jnp.array([0, 2, 2])
    same(jax.grad(lambda x: take(x, i).sum())(x), jax.grad(lambda x: (x[i] * 2).sum())(x))
    cube = strata.jax.jit(lambda x: jnp.sum(x**3))
    second = jax.grad(lambda x: jax.grad(cube)(x).sum())
    same(second(x), 6 * x)


def test_vmap_and_jit():
    f = strata.jax.jit(lambda x, w: jnp.tanh(x @ w))
    xs, w = array(6, 4), array(4, 3)
    same(jax.vmap(f, (0, None))(xs, w), jnp.tanh(xs @ w))
    same(jax.jit(lambda x: f(x, w) + 1)(xs), jnp.tanh(xs @ w) + 1)
    same(jax.jit(jax.vmap(f, (0, None)))(xs, w), jnp.tanh(xs @ w))
    same(jax.vmap(jax.grad(lambda x: f(x, w).sum()))(xs), jax.vmap(jax.grad(lambda x: jnp.tanh(x @ w).sum()))(xs), 1e-4)
    same(jax.grad(lambda w: jax.vmap(f, (0, None))(xs, w).sum())(w),
         jax.grad(lambda w: jnp.tanh(xs @ w).sum())(w), 1e-4)
    both = jax.vmap(jax.vmap(f, (0, None)), (0, None))
    same(both(xs[None], w), jnp.tanh(xs @ w)[None])
    same(jax.lax.scan(lambda c, x: (c + f(x, w).sum(), None), 0.0, xs)[0], jnp.tanh(xs @ w).sum(), 1e-4)


def test_control_flow_and_linear_algebra():
    def f(x):
        y = jax.lax.fori_loop(0, 3, lambda i, y: y + jnp.sin(y) * i, x)
        return jax.lax.cond(y.sum() > 0, lambda y: y, lambda y: -y, y)

    same(strata.jax.jit(f)(x := array(4)), f(x))
    a = array(4, 4)
    spd = a @ a.T + 4 * jnp.eye(4)
    same(strata.jax.jit(jnp.linalg.cholesky)(spd), jnp.linalg.cholesky(spd), 1e-4)
    for name in ("inv", "det", "slogdet", "qr"):
        same(strata.jax.jit(getattr(jnp.linalg, name))(spd), getattr(jnp.linalg, name)(spd), 1e-4)
    same(strata.jax.jit(jnp.linalg.solve)(spd, a), jnp.linalg.solve(spd, a), 1e-4)
    key = jax.random.key_data(jax.random.key(3))
    draw = lambda k: jax.random.normal(jax.random.wrap_key_data(k), (3,))  # noqa: E731
    same(strata.jax.jit(draw)(key), draw(key), 1e-4)


def test_arrays_are_handed_over_by_torch():
    """As on a GPU, here with tensors on the processor."""
    pytest.importorskip("torch", reason="torch is not installed: handing arrays over is not tested")
    for dtype in (jnp.float32, jnp.bfloat16, jnp.int32, jnp.bool_, jnp.uint8):
        x = array(3, 4).astype(dtype)
        text = jax.jit(lambda x: (x, x[1:])).lower(x).as_text("hlo")
        same(strata.jax.call_through_torch(strata.compile_hlo(text, target="cpu"), [x], "cpu"), [x, x[1:]])
    text = jax.jit(lambda: jnp.arange(3)).lower().as_text("hlo")
    same(strata.jax.call_through_torch(strata.compile_hlo(text, target="cpu"), [], "cpu"), [jnp.arange(3)])


def test_large_arrays_closed_over_are_no_text(monkeypatch):
    """Their elements are not written into the modules' texts, under no transformation."""
    texts = []
    compile_hlo = strata.compile_hlo
    monkeypatch.setattr(strata, "compile_hlo", lambda text, **how: texts.append(text) or compile_hlo(text, **how))
    w, v = array(129, 131) / 16, R.standard_normal((131, 129)).astype(np.float32) / 16
    small = array(129)
    by_jax = jax.jit(lambda x: jnp.tanh(x @ w))

    def f(x):
        y = jax.lax.fori_loop(0, 2, lambda _, y: jnp.tanh(y @ v @ w), by_jax(x) + by_jax(2 * x))
        return y @ v * small

    x, strata_f = array(3, 129), strata.jax.jit(f)
    same(strata_f(x), f(x))
    same(jax.jit(strata_f)(x), f(x))
    same(jax.vmap(strata_f)(x[None]), f(x)[None])
    same(jax.grad(lambda x: strata_f(x).sum())(x), jax.grad(lambda x: f(x).sum())(x), 1e-4)
    same(jax.jit(jax.grad(lambda x: strata_f(x).sum()))(x), jax.grad(lambda x: f(x).sum())(x), 1e-4)
    same(strata.jax.jit(lambda: v @ w)(), jnp.asarray(v @ np.asarray(w)), 1e-4)
    assert texts and max(map(len, texts)) < 4 * w.size
    before = strata_f(x)
    v[:] = 0  # what was closed over is what it was then, as with jax.jit
    same(strata_f(x), before)


def signs(x):
    x = x["w"][1] if isinstance(x, dict) else x
    return x if x > 0 else -x


def test_what_is_refused():
    with pytest.raises(TypeError, match="key_data"):
        strata.jax.jit(lambda k: jax.random.normal(k))(jax.random.key(0))
    with pytest.raises(TypeError, match="argument s of <lambda> is of type str, neither an array nor static\n.*='s'"):
        strata.jax.jit(lambda x, s: x)(1.0, "s")
    with pytest.raises(TypeError, match=r"argument p\['mode'\]\[1\] of <lambda> is of type str"):
        strata.jax.jit(lambda x, *, p: x)(1.0, p={"mode": [1, "relu"]})
    with pytest.raises(TypeError, match=r"argument args\[1\] of <lambda> is an array of object"):
        strata.jax.jit(lambda *args: args[0], static_argnums=0)(1.0, np.array([object()]))
    with pytest.raises(TypeError, match="takes a function, and 3 is int"):
        strata.jax.jit(3)
    for given in ((1.0,), ({"w": [1.0, 2.0]},)):
        with pytest.raises(jax.errors.TracerBoolConversionError, match=r"signs at \S*test_jax.py:\d+ .*argument x"):
            strata.jax.jit(signs)(*given)
    with pytest.raises(ValueError, match="hashable, and argument 1 of <lambda> is list"):
        strata.jax.jit(lambda x, s: x, static_argnums=1)(1.0, [])
    for kind in ("static", "donate"):
        with pytest.raises(ValueError, match=f"{kind}_argnames has 'nothing', but <lambda> has no argument 'nothing'"):
            strata.jax.jit(lambda x: x, **{f"{kind}_argnames": "nothing"})
        with pytest.raises(ValueError, match=f"{kind}_argnums has 2, but <lambda> takes 1 positional argument$"):
            strata.jax.jit(lambda x: x, **{f"{kind}_argnums": (0, 2)})
    with pytest.raises(ValueError, match="argument x of <lambda> is static and donated"):
        strata.jax.jit(lambda x: x, static_argnums=0, donate_argnames="x")
    with pytest.raises(strata.Error):
        strata.jax.jit(lambda x: jnp.linalg.eig(x))(array(3, 3))


def test_weak_types_are_those_of_jax():
    """A result computed of Python's numbers alone takes the type of an array beside it, as jax.jit's does."""
    def f(a, x):
        return a + 1, {"with": a * x, "count": jnp.where(x > 0, 1, 0)}, 2.0 * 1, jnp.float32(a)

    x = jnp.arange(3.0)
    ours = strata.jax.jit(f)
    for a in (2.0, 3, jnp.asarray(2.0) * 1, jnp.float32(2)):
        for wrapped in (lambda f: f, jax.jit, lambda f: jax.jit(jax.vmap(f, (None, 0)))):
            got, wanted = jax.tree.leaves(wrapped(ours)(a, x)), jax.tree.leaves(wrapped(jax.jit(f))(a, x))
            assert [one.weak_type for one in got] == [one.weak_type for one in wanted]
            for one, other in zip(got, wanted, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)
    assert (ours(2.0, x)[0] * jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16
    assert jax.grad(lambda a: ours(a, x)[0] * 3)(2.0) == 3


def test_forward_mode_is_refused_with_a_remedy():
    def cubed(x):
        return (x**3).sum()

    ours, x = strata.jax.jit(cubed), jnp.arange(1.0, 4.0)
    for forward in (lambda: jax.jvp(ours, (x,), (x,)), lambda: jax.jacfwd(ours)(x), lambda: jax.hessian(ours)(x),
                    lambda: jax.jacfwd(jax.vmap(ours))(x[None])):
        with pytest.raises(strata.Error, match=r"cubed is differentiated in forward mode[\s\S]*\n  use jax.grad"):
            forward()
    np.testing.assert_allclose(jax.jacrev(jax.jacrev(ours))(x), jax.hessian(cubed)(x), rtol=1e-5)
    with pytest.raises(TypeError, match="unsupported operand"):  # the function's own stay as they are
        jax.grad(strata.jax.jit(lambda x: jnp.sum(x + "concat")))(x)


def test_libraries_that_are_not_taken_are_named_with_the_line():
    def decomposed(x):
        return jnp.linalg.eig(x + 1)[0]

    for function, in_it in ((decomposed, "decomposed"), (lambda x: jax.lax.map(decomposed, x[None]), "decomposed")):
        message = rf"lowers eig at [^\n]*test_jax.py:\d+[^\n]*{in_it}[^\n]* to lapack_sgeev"
        with pytest.raises(strata.Error, match=message):
            strata.jax.jit(function)(jnp.eye(3))


def test_the_library_named_is_one_that_is_in_the_way():
    def both(x):
        return jnp.linalg.cholesky(x), jnp.linalg.eig(x)[0]  # Strata takes the first

    jax.jit(jnp.linalg.eig)(jnp.eye(3))  # traced before, elsewhere: the line is still the call's
    with pytest.raises(strata.Error, match=r"lowers eig at [^\n]*test_jax.py:\d+[^\n]*both[^\n]* to lapack_sgeev"):
        strata.jax.jit(both)(jnp.eye(3))
    with pytest.raises(strata.Error, match=r"lowers eigh of eigvalsh to lapack_cheevd"):  # without a line
        strata.jax.jit(jnp.linalg.eigvalsh)(jnp.eye(3) + 0j)


def test_eigenvalues_and_singular_values():
    x = array(2, 6, 6)
    x = x + x.mT
    values, vectors = strata.jax.jit(jnp.linalg.eigh)(x)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), atol=1e-5)
    np.testing.assert_allclose((vectors * values[:, None]) @ vectors.mT, x, atol=1e-5)
    for y in (array(7, 4), array(4, 7)):
        u, s, vt = strata.jax.jit(jnp.linalg.svd)(y)
        assert u.shape == (len(y), len(y)) and vt.shape == (y.shape[1], y.shape[1])
        np.testing.assert_allclose((u[:, :4] * s) @ vt[:4], y, atol=1e-5)
        for f in (jnp.linalg.pinv, jnp.linalg.matrix_rank, lambda y: jnp.linalg.norm(y, 2)):
            np.testing.assert_allclose(strata.jax.jit(f)(y), jax.jit(f)(y), atol=1e-4)
    a, b = array(7, 4), array(7, 2)
    least = strata.jax.jit(lambda a, b: jnp.linalg.lstsq(a, b)[0])(a, b)
    np.testing.assert_allclose(least, np.linalg.lstsq(a, b)[0], atol=1e-4)

    def root(x):  # the inverse fourth root of a positive matrix
        values, vectors = jnp.linalg.eigh(x @ x.mT + jnp.eye(6))
        return ((vectors * values[:, None] ** -0.25) @ vectors.mT).sum()

    np.testing.assert_allclose(jax.grad(strata.jax.jit(root))(x), jax.grad(jax.jit(root))(x), atol=1e-4)


def test_axes_named_outside_are_refused_with_a_remedy():
    def centred(x):
        return x - jax.lax.psum(x, "rows")

    x = array(3, 4)
    with pytest.raises(strata.Error, match=r"psum\w* at [^\n]*test_jax.py:\d+[^\n]*centred[^\n]* goes across an axis"):
        jax.vmap(strata.jax.jit(centred), axis_name="rows")(x)
    by_row = jax.vmap(centred, axis_name="rows")
    same(strata.jax.jit(by_row)(x), by_row(x))


def test_names_of_arguments_that_look_like_those_of_leaves():
    same(strata.jax.jit(lambda x_0_2, x, x_0: x_0_2 + x[0] + x_0)(1.0, [2.0], 3.0), jnp.float32(6))


def test_arrays_that_are_not_jaxs():
    torch = pytest.importorskip("torch", reason="torch is not installed: its tensors are not tested")
    with pytest.raises(TypeError, match="argument x of .* is an array of torch.float32, which JAX does not have"):
        strata.jax.jit(lambda x: x)(torch.ones(3))
    with pytest.raises(TypeError, match="argument x of .* is a typed random key"):
        strata.jax.jit(lambda x: x)(jax.random.key(0))
