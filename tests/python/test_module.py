"""strata.compile_hlo: modules as functions of arrays."""

import copy
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import strata
from strata import arrays

SOFTMAX = """
HloModule softmax
largest { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
total { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[8,64] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[8] reduce(x, low), dimensions={1}, to_apply=largest
  mb = f32[8,64] broadcast(m), dimensions={0}
  d = f32[8,64] subtract(x, mb)
  e = f32[8,64] exponential(d)
  s = f32[8] reduce(e, zero), dimensions={1}, to_apply=total
  sb = f32[8,64] broadcast(s), dimensions={0}
  y = f32[8,64] divide(e, sb)
  positive = pred[8,64] compare(x, mb), direction=GE
  ROOT results = (f32[8,64], pred[8,64], f32[8,64], f32[]) tuple(y, positive, x, zero)
}
"""


def expected(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.fixture(scope="module")
def softmax():
    return strata.compile_hlo(SOFTMAX, target="cpu", cache="")


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)


def test_says_what_it_takes(softmax):
    assert [str(one) for one in softmax.inputs] == ["f32[8,64]"]
    assert softmax.inputs[0].name == "x" and softmax.inputs[0].strides == (64, 1)
    assert [str(one) for one in softmax.outputs] == ["f32[8,64]", "pred[8,64]", "f32[8,64]", "f32[]"]
    assert softmax.device == "cpu" and softmax.device_bytes == 0 and "reduction" in softmax.explain()


def test_numpy(softmax, x):
    y, largest, same, zero = softmax(x)
    np.testing.assert_allclose(y, expected(x), rtol=1e-5)
    assert largest.dtype == bool and largest.sum() == 8
    assert np.array_equal(same, x) and not np.shares_memory(same, x)
    assert zero.shape == () and zero == 0


def test_arrays_with_gaps_are_copied(softmax, x):
    wide = np.zeros((8, 128), np.float32)
    wide[:, ::2] = x
    np.testing.assert_allclose(softmax(wide[:, ::2])[0], expected(x), rtol=1e-5)
    shifted = np.zeros(8 * 64 * 4 + 4, np.uint8)[4:].view(np.float32).reshape(8, 64)
    shifted[...] = x
    np.testing.assert_allclose(softmax(shifted)[0], expected(x), rtol=1e-5)


def test_results_into_given_arrays(softmax, x):
    out = [np.empty((8, 64), dtype) for dtype in (np.float32, bool, np.float32)] + [np.empty((), np.float32)]
    assert softmax(x, out=out) is out
    np.testing.assert_allclose(out[0], expected(x), rtol=1e-5)


@pytest.mark.parametrize("name", sorted(arrays._NUMPY | arrays._ML_DTYPES))
def test_results_of_every_type_of_numpy(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    y = f"{name}[3,2] transpose(x), dimensions={{1,0}}"
    text = f"HloModule m\nENTRY e {{ x = {name}[2,3] parameter(0)  ROOT y = {y} }}"
    known = arrays._NUMPY.get(name)
    dtype = np.dtype(known) if known else np.dtype(getattr(ml_dtypes, arrays._ML_DTYPES[name]))
    x = np.array([[1, 2, 0.5], [0.25, 4, 1]]).astype(dtype)
    for given in (x, np.zeros((2, 6), dtype)[:, ::2]):
        (y,) = strata.compile_hlo(text, target="cpu", cache="")(given)
        assert y.dtype == dtype and y.shape == (3, 2)
        assert y.tobytes() == np.ascontiguousarray(given.T).tobytes()


def test_layouts_of_the_text():
    text = "HloModule m\nENTRY e { x = f32[3,5]{0,1} parameter(0)  ROOT y = f32[3,5]{0,1} add(x, x) }"
    module = strata.compile_hlo(text, target="cpu", cache="")
    assert module.inputs[0].strides == (1, 3) and not module.inputs[0].is_row_major
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for given in (x, np.asfortranarray(x)):
        (y,) = module(given)
        assert np.array_equal(y, 2 * x) and y.strides == (4, 12)


def test_a_result_in_another_layout_has_its_elements():
    """As JAX prints a transpose before XLA has chosen layouts: the program writes rows."""
    text = """HloModule m
ENTRY e { x = f32[2,3]{1,0} parameter(0)  ROOT y = f32[3,2]{0,1} transpose(x), dimensions={1,0} }"""
    module = strata.compile_hlo(text, target="cpu", cache="")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(module(x)[0], x.T)
    with pytest.raises(strata.Error, match="strides"):
        module(x, out=[np.empty((3, 2), np.float32, order="F")])


@pytest.mark.parametrize("out, message", [
    ([], "out has 0 arrays for 1 results"),
    ([np.empty(3, np.float64)], "must be f32"),
    ([np.empty(2, np.float32)], "must be f32"),
    ([np.empty(6, np.float32)[::2]], "strides"),
    ([np.empty(32, np.uint8)[1:13].view(np.float32)], "multiple of"),
    ([[0.0, 0.0, 0.0]], "is list"),
    ([np.frombuffer(bytes(12), np.float32)], "cannot be written"),
])
def test_results_are_written_only_where_they_fit(out, message):
    text = "HloModule m\nENTRY e { x = f32[3] parameter(0)  ROOT y = f32[3] add(x, x) }"
    module = strata.compile_hlo(text, target="cpu", cache="")
    with pytest.raises(strata.Error, match=message):
        module(np.ones(3, np.float32), out=out)


def test_no_inputs_and_no_elements():
    text = "HloModule m\nENTRY e { ROOT y = s32[3] constant({1, 2, 3}) }"
    assert strata.compile_hlo(text, target="cpu", cache="")()[0].tolist() == [1, 2, 3]
    text = "HloModule m\nENTRY e { x = f32[0,4] parameter(0)  ROOT y = f32[0,4] add(x, x) }"
    assert strata.compile_hlo(text, target="cpu", cache="")(np.empty((0, 4), np.float32))[0].shape == (0, 4)


def test_threads_side_by_side(softmax):
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal((8, 64)).astype(np.float32)
        for _ in range(50):
            if not np.allclose(softmax(x)[0], expected(x), rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "given, message",
    [
        ((), "takes 1 input; got 0\n  give x f32"),
        ((np.zeros((8, 32), np.float32),), r"input 0 \('x'\) is f32\[8,64\]; got f32\[8,32\]"),
        ((np.zeros((8, 64)),), r"got f64\[8,64\]"),
        (([[1.0]],), "is list, which is no array that Strata takes"),
    ],
)
def test_arrays_that_do_not_fit(softmax, given, message):
    with pytest.raises(strata.Error, match=message):
        softmax(*given)


def test_what_does_not_fit_has_a_remedy(softmax, x):
    for given, message in (
        (x.astype(np.float64), r"got f64\[8,64\]\n  convert the array to f32"),
        (x[:4], r"got f32\[4,64\]\n  give an array of these sizes"),
        (x.astype(x.dtype.newbyteorder()), r"of the other byte order\n  convert it"),
    ):
        with pytest.raises(strata.Error, match=message):
            softmax(given)
    torch = pytest.importorskip("torch")
    for tensor, message in (
        (torch.zeros(8, 64, device="meta"), r"on meta\n  it has no elements"),
        (torch.zeros(8, 64).to_sparse(), r"torch.sparse_coo\n  give a dense tensor"),
    ):
        with pytest.raises(strata.Error, match=message):
            softmax(tensor)


def test_gradients_are_not_lost_in_silence(softmax, x):
    torch = pytest.importorskip("torch")
    wanted = torch.from_numpy(x).clone().requires_grad_()
    with pytest.raises(strata.Error, match=r"input 0 requires a gradient, and the results have none\n.*torch_operator"):
        softmax(wanted)
    with torch.inference_mode():
        assert not softmax(wanted)[0].requires_grad


def test_errors_have_place_and_remedy():
    with pytest.raises(strata.Error, match=r"^<hlo>:\d+:\d+: z = add: operands 0 and 1 differ.*\n  give add what"):
        strata.compile_hlo("HloModule m\nENTRY e { x = f32[4] parameter(0)\n y = f32[5] parameter(1)\n"
                           " ROOT z = f32[4] add(x, y) }")
    with pytest.raises(strata.Error, match=r"^<hlo>:\d+:\d+: unknown operator 'divde'\n  docs/hlo.md lists"):
        strata.compile_hlo(SOFTMAX.replace("divide", "divde"), target="cpu")
    # What nothing can run is refused when it is compiled, also within a loop and a branch, as XLA does.
    for operator, message in (
        ('custom-call(x), custom_call_target="foo"', r'does not support custom-call to "foo"\n  docs/hlo.md lists'),
        ("rng(x, x), distribution=rng_uniform", r"does not support rng\n  docs/hlo.md lists"),
    ):
        with pytest.raises(strata.Error, match=r"^<hlo>:\d+:\d+: the interpreter " + message):
            strata.compile_hlo(f"HloModule m\nENTRY e {{ x = f32[] parameter(0)\n ROOT y = f32[] {operator} }}")
        loop = (
            f"HloModule m\nbody {{ x = f32[] parameter(0)\n ROOT y = f32[] {operator} }}\n"
            "below { x = f32[] parameter(0)\n one = f32[] constant(1)\n"
            " ROOT c = pred[] compare(x, one), direction=LT }\n"
            "ENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] while(x), condition=below, body=body }"
        )
        with pytest.raises(strata.Error, match="the interpreter " + message):
            strata.compile_hlo(loop)
        branch = (
            f"HloModule m\nnever {{ x = f32[] parameter(0)\n ROOT y = f32[] {operator} }}\n"
            "taken { x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }\n"
            "ENTRY e { x = f32[] parameter(0)\n p = pred[] parameter(1)\n"
            " ROOT y = f32[] conditional(p, x, x), true_computation=never, false_computation=taken }"
        )
        with pytest.raises(strata.Error, match="the interpreter " + message):
            strata.compile_hlo(branch, target="cpu")
    with pytest.raises(strata.Error, match="target 'tpu' is none of 'auto', 'cpu', 'gpu'"):
        strata.compile_hlo(SOFTMAX, target="tpu")


def test_torch_and_jax(softmax, x):
    torch = pytest.importorskip("torch")
    y, largest, _, _ = softmax(torch.from_numpy(x))
    assert y.dtype == torch.float32 and largest.dtype == torch.bool
    torch.testing.assert_close(y, torch.softmax(torch.from_numpy(x), 1))
    view = torch.zeros(8 * 64 + 1)[1:].view(8, 64).copy_(torch.from_numpy(x))  # begins 4 bytes behind a multiple of 16
    torch.testing.assert_close(softmax(view)[0], y)
    with pytest.raises(strata.Error, match=r"got f64\[8,64\] on cpu"):
        softmax(torch.from_numpy(x).double())
    jax = pytest.importorskip("jax")
    y, *_ = softmax(jax.numpy.asarray(x))
    assert isinstance(y, jax.Array)
    np.testing.assert_allclose(y, expected(x), rtol=1e-5)
    with pytest.raises(strata.Error, match="use strata.jax.jit under jit"):
        jax.jit(lambda a: softmax(a)[0])(x)


PRODUCTS = """
HloModule m
ENTRY e {
  x = f32[16,16] parameter(0)
  y = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[16,16] add(y, y)
}
"""


def test_the_search_says_what_it_does():
    lines = []
    strata.compile_hlo(PRODUCTS, target="cpu", search_seconds=1, cache="", progress=lines.append)
    assert lines[0] == "superoptimizes part 1 of 1 (z)" and lines[-1] == ""
    with pytest.raises(ZeroDivisionError):
        strata.compile_hlo(PRODUCTS, target="cpu", search_seconds=1, cache="", progress=lambda line: 1 / 0)
    strata.compile_hlo(PRODUCTS, target="cpu", progress=lambda line: pytest.fail("nothing is searched"))


def test_views_of_torch_whose_elements_are_not_in_memory():
    """Conjugates and negatives are marks of a view: a module takes the elements that torch shows."""
    torch = pytest.importorskip("torch")
    text = "HloModule m\nENTRY e {{ x = {0} parameter(0)\n ROOT y = {0} add(x, x) }}"
    double = strata.compile_hlo(text.format("c64[2,3]"), target="cpu", cache="")
    operator = double.torch_operator()
    z = torch.complex(torch.randn(2, 3), torch.randn(2, 3))
    for given in (z.conj(), z.T.contiguous().mH, torch._neg_view(z), torch._neg_view(z.conj())):
        assert given.is_conj() or given.is_neg()
        torch.testing.assert_close(double(given)[0], 2 * given)
        torch.testing.assert_close(operator(given), 2 * given)
        torch.testing.assert_close(torch.compile(lambda x: operator(x), backend="eager")(given), 2 * given)
    real = strata.compile_hlo(text.format("f32[2,3]"), target="cpu", cache="")
    for given in (torch._neg_view(torch.randn(2, 3)), z.conj().imag):
        assert given.is_neg()
        torch.testing.assert_close(real(given)[0], 2 * given)
    for module, out, what in ((double, torch.zeros(2, 3, dtype=torch.complex64).conj(), "conjugate"),
                              (real, torch._neg_view(torch.zeros(2, 3)), "negated")):
        with pytest.raises(strata.Error, match=rf"out\[0\] is a {what} view[\s\S]*resolve_conj"):
            module(out.clone(), out=[out])


def test_types_that_a_package_has_not():
    """The message says which argument it is, and what its package's place can take."""
    torch = pytest.importorskip("torch")
    text = "HloModule m\nENTRY e { a = f32[2] parameter(0)  w = s4[3] parameter(1)\n" \
           " ROOT r = (f32[2], s4[3]) tuple(a, w) }"
    module = strata.compile_hlo(text, target="cpu", cache="")
    message = r"input 1 \('w'\) is s4\[3\], and torch has no such type\n  .*arrays of ml_dtypes.int4, or convert it"
    with pytest.raises(strata.Error, match=message):
        module(torch.zeros(2), torch.zeros(3, dtype=torch.int8))
    with pytest.raises(strata.Error, match=r"input 1 \('w'\) is s4\[3\]"):
        module.torch_operator()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    w = np.array([-8, 7, -1]).astype(ml_dtypes.int4)
    assert module(np.zeros(2, np.float32), w)[1].tolist() == [-8, 7, -1]
    with pytest.raises(strata.Error, match=r"input 1 \('w'\) is s4\[3\]; got s8\[3\]"):
        module(np.zeros(2, np.float32), w.astype(np.int8))


def test_bf16():
    torch = pytest.importorskip("torch")
    text = "HloModule m\nENTRY e { x = bf16[16] parameter(0)  ROOT y = bf16[16] multiply(x, x) }"
    module = strata.compile_hlo(text, target="cpu", cache="")
    x = torch.randn(16, dtype=torch.bfloat16)
    assert torch.equal(module(x)[0], x * x)


ON_THE_FAKE_DRIVER = """
import ctypes, os, sys
import numpy as np
import strata

module = strata.compile_hlo(sys.stdin.read(), target="gpu", cache="")
assert module.device == "gpu", module.device
driver = ctypes.CDLL(os.environ["STRATA_CUDA_DRIVER"])
size = 8 * 64 * 4

# The fake driver's device memory is the process's own, and its kernels do nothing.
def allocate():
    place = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size)) == 0
    return place.value

def values(place):
    return np.ctypeslib.as_array((ctypes.c_float * (8 * 64)).from_address(place))

places = [allocate() for _ in range(5)]
values(places[0])[:] = 7
module._function.call(places[:1], places[1:], 0)
assert (values(places[3]) == 7).all()  # the result that is the parameter is copied
for call in (lambda: module._function.call([places[0] + 16], places[1:], 0), lambda: module(np.zeros((8, 64), "f"))):
    try:
        call()
    except strata.Error as error:
        print(error)
print(module.device_bytes)
del module
for place in places:
    driver.cuMemFree_v2(ctypes.c_uint64(place))
"""


def test_on_the_fake_driver(tmp_path):
    """Loading and calling on a GPU, without one: a driver that runs nothing (tests/fake_cuda)."""
    package = pathlib.Path(strata.__file__).parents[1]
    (tmp_path / "script").write_text("log /dev/null\n")
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "STRATA_CUDA_DRIVER": str(package.parent / "lib" / "libfake_cuda.so"),
        "STRATA_FAKE_CUDA_SCRIPT": str(tmp_path / "script"),
    }
    ran = subprocess.run([sys.executable, "-c", ON_THE_FAKE_DRIVER], env=environment, input=SOFTMAX, text=True,
                         capture_output=True)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("input 0 does not begin at a multiple of 256 bytes\n  copy it\n")
    assert "the module is compiled for the GPU, and NumPy's arrays lie in the host's memory" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "0"  # one kernel: nothing lies between


def two_gated_products():
    lines = []
    for i, (width, inner) in enumerate([(64, 128), (128, 256)]):
        product = "dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        lines += [f"x{i} = f16[16,{width}] parameter({3 * i})", f"u{i} = f16[{width},{inner}] parameter({3 * i + 1})",
                  f"v{i} = f16[{width},{inner}] parameter({3 * i + 2})",
                  f"p{i} = f16[16,{inner}] " + product.format(f"x{i}", f"u{i}"),
                  f"q{i} = f16[16,{inner}] " + product.format(f"x{i}", f"v{i}"),
                  f"m{i} = f16[16,{inner}] multiply(p{i}, q{i})"]
    return "HloModule two\nENTRY e {\n" + "\n".join(lines) + "\nROOT r = (f16[16,128], f16[16,256]) tuple(m0, m1)\n}"


def test_progress_tells_of_each_part():
    lines = []
    strata.compile_hlo(two_gated_products(), target="cpu", search_seconds=300, cache="", progress=lines.append)
    assert any("part 1 of 2" in line for line in lines) and any("part 2 of 2" in line for line in lines)


def interrupt(_line):
    os.kill(os.getpid(), signal.SIGINT)


def fail(_line):
    raise ZeroDivisionError("of the callback")


@pytest.mark.parametrize("stops, raised", [(interrupt, KeyboardInterrupt), (fail, ZeroDivisionError)])
def test_what_stops_a_search_ends_it_at_once(stops, raised):
    """What comes after the first part is not searched any more."""
    lines = []

    def progress(line):
        lines.append(line)
        if "part 1 of 2" in line:
            stops(line)

    with pytest.raises(raised):
        strata.compile_hlo(two_gated_products(), target="cpu", search_seconds=300, cache="", progress=progress)
    assert not any("part 2 of 2" in line for line in lines)


def test_a_search_that_was_stopped_is_made_again(tmp_path):
    given = {"target": "cpu", "search_seconds": 300, "cache": str(tmp_path)}
    with pytest.raises(KeyboardInterrupt):
        strata.compile_hlo(two_gated_products(), progress=interrupt, **given)
    for searched in (True, False):  # and then its result is known
        lines = []
        strata.compile_hlo(two_gated_products(), progress=lines.append, **given)
        assert any("part 1 of 2" in line for line in lines) == searched


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies(softmax, x, copied):
    """Modules, graphs and their values; test_optimize.py has kernels."""
    again = copied(softmax)
    assert again is not softmax and again.text == softmax.text and str(again) == str(softmax)
    np.testing.assert_array_equal(again(x)[0], softmax(x)[0])
    g = strata.Graph("g")
    n = g.dim("tokens", 16)
    y = g.sum(g.input("X", (n, 4), "f32") * (1 / n), dim=0, name="Y")
    g.output(y)
    other, total = copied((g, y)) if copied is not copy.copy else (copy.copy(g), g["Y"])
    assert str(other) == str(g) and other.dims == g.dims and other is not g
    assert total.name == "Y" and total.graph is (g if copied is copy.copy else other)
