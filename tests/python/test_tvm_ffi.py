"""Kernels and modules as functions of tvm-ffi."""

import numpy as np
import pytest

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed: functions of it are not tested")

import strata  # noqa: E402

TWO = """graph two {
  input X: f16[4, 8]
  input W: f16[8, 2]
  A = sqr(X)
  B = matmul(X, W)
  output A, B
}
"""
HLO = """HloModule twice
ENTRY main {
  x = f32[2,3] parameter(0)
  ROOT y = f32[2,3] add(x, x)
}
"""


def aligned(shape, dtype, value=None):
    """An array at a multiple of 64 bytes, as frameworks make them."""
    raw = np.zeros(int(np.prod(shape)) * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    made = raw[start : start + raw.size - 64].view(dtype).reshape(shape)
    if value is not None:
        made[...] = value
    return made


def test_kernel():
    function = strata.optimize(TWO, effort="none", cache="").tvm_ffi_function()
    assert isinstance(function, tvm_ffi.Function)
    x = aligned((4, 8), np.float16, np.random.default_rng(1).standard_normal((4, 8)))
    w = aligned((8, 2), np.float16, np.random.default_rng(2).standard_normal((8, 2)))
    square, product = aligned((4, 8), np.float16), aligned((4, 2), np.float16)
    assert function(*map(tvm_ffi.from_dlpack, (x, w, square, product))) is None
    np.testing.assert_array_equal(square, x * x)
    np.testing.assert_allclose(product, x.astype(np.float32) @ w.astype(np.float32), rtol=2e-3, atol=2e-3)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    function = strata.compile_hlo(HLO, target="cpu").tvm_ffi_function()
    x, y = torch.randn(2, 3), torch.empty(2, 3)
    function(x, y)
    assert torch.equal(y, 2 * x)


def test_registered_by_name():
    module = strata.compile_hlo(HLO, target="cpu")
    tvm_ffi.register_global_func("strata_tests.twice", module.tvm_ffi_function())
    x, y = aligned((2, 3), np.float32, 1.5), aligned((2, 3), np.float32)
    tvm_ffi.get_global_func("strata_tests.twice")(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y))
    assert (y == 3).all()


def test_refused():
    function = strata.compile_hlo(HLO, target="cpu").tvm_ffi_function()
    x, y = aligned((2, 3), np.float32), aligned((2, 3), np.float32)
    for given, why in (
        ((x,), "takes 1 inputs and 1 arrays for its results; got 1"),
        ((x, 3), "argument 1 is int, no tensor"),
        ((x.astype(np.float64), y), r"input 0 \('x'\) is f32\[2,3\]; got float64\[2,3\]"),
        ((aligned((3, 2), np.float32).T, y), r"input 0 has strides \(1, 2\)[\s\S]*contiguous copy"),
        ((x, aligned((2, 4), np.float32)), r"out\[0\] must be f32\[2,3\]"),
    ):
        with pytest.raises(RuntimeError, match=why):
            function(*(tvm_ffi.from_dlpack(one) if isinstance(one, np.ndarray) else one for one in given))
